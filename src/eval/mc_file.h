/* Files of multiple choice from inside: text in pieces, items out of its lines. */
#ifndef FOCI_EVAL_MC_FILE_H
#define FOCI_EVAL_MC_FILE_H

#include "focal/eval.h"

/* All zero, but for the first three, is a file's beginning. */
typedef struct foci_mc_reader {
    focal_ctx *ctx;
    const focal_mc_source *source;
    focal_mc_set *set;
    focal_buffer held; /* the beginning of a line */
    int64_t line;
    bool is_full; /* the source's limit is reached: no more text is needed */
} foci_mc_reader;

/* An empty set of a file with this name. */
focal_status foci_mc_set_new(focal_ctx *ctx, const char *name, focal_mc_set **out);
/* The file's next bytes; 0 of them are its end. */
focal_status foci_mc_reader_put(foci_mc_reader *reader, const char *text, size_t bytes);
void foci_mc_reader_free(foci_mc_reader *reader);

#endif /* FOCI_EVAL_MC_FILE_H */
