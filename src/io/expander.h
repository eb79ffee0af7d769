/* Compressed streams, a step at a time. Each library has a file of its own and a stand-in beside it
 * (expand_gzip_none.c) that says what this build lacks. */
#ifndef FOCI_IO_EXPANDER_H
#define FOCI_IO_EXPANDER_H

#include "focal/base.h"

/* What a step may read and write; both move on by what it did. */
typedef struct foci_expand_spans {
    const uint8_t *in;
    size_t in_bytes;
    uint8_t *out;
    size_t out_bytes;
} foci_expand_spans;

/* One format. `what` names the stream in messages and outlives the state. */
typedef struct foci_expander {
    const char *name;
    uint8_t magic[6];
    size_t magic_bytes;
    /* FOCAL_EUNSUPPORTED in a stand-in. */
    focal_status (*open)(focal_ctx *ctx, const char *what, void **state);
    /* *is_between: the last stream has ended and no other has begun, so the input may end here.
     * FOCAL_EFORMAT when the data are damaged. */
    focal_status (*step)(void *state, foci_expand_spans *spans, bool *is_between);
    void (*close)(void *state); /* NULL is fine */
} foci_expander;

extern const foci_expander foci_expand_gzip, foci_expand_xz, foci_expand_zstd;

#endif /* FOCI_IO_EXPANDER_H */
