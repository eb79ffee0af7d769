/* What happens to a text before it is split: the steps of tokenizer.json's normalizer. */
#ifndef FOCI_TEXT_NORMALIZER_H
#define FOCI_TEXT_NORMALIZER_H

#include "text/pattern.h"
#include "text/unicode.h"

enum { FOCI_NORMALIZER_STEPS = 16 };

typedef enum foci_normalizer_kind {
    FOCI_NORMALIZE_FORM,
    FOCI_NORMALIZE_LOWER,
    FOCI_NORMALIZE_REPLACE, /* what (or what the pattern matches) by with */
    FOCI_NORMALIZE_PREPEND, /* with, unless the text is empty */
    FOCI_NORMALIZE_STRIP    /* white space at the ends */
} foci_normalizer_kind;

typedef struct foci_normalizer_step {
    foci_normalizer_kind kind;
    foci_normal_form form;
    bool strip_left, strip_right;
    foci_pattern *pattern; /* owned, like what and with; NULL: what is plain text */
    char *what, *with;
    size_t what_bytes, with_bytes;
} foci_normalizer_step;

typedef struct foci_normalizer {
    int32_t count;
    foci_normalizer_step steps[FOCI_NORMALIZER_STEPS];
} foci_normalizer;

void foci_normalizer_free(focal_ctx *ctx, foci_normalizer *normalizer); /* the contents */

/* Replaces the contents of `out` by the normalised text; spare is for intermediate results. With
 * no steps it is a copy. */
focal_status foci_normalizer_apply(focal_ctx *ctx, const foci_normalizer *normalizer,
                                   const char *text, size_t bytes, focal_buffer *out,
                                   focal_buffer *spare);

/* Appends text with every `what` replaced by `with`, left to right. */
focal_status foci_replace_text(focal_ctx *ctx, const char *text, size_t bytes, const char *what,
                               size_t what_bytes, const char *with, size_t with_bytes,
                               focal_buffer *out);

/* Appends text in which every byte that is not UTF-8 is a control character: what patterns see in
 * its place. Both have the same length. */
focal_status foci_mask_invalid(focal_ctx *ctx, const char *text, size_t bytes, focal_buffer *out);

#endif /* FOCI_TEXT_NORMALIZER_H */
