/* Regular expressions over UTF-8, as tokenizer files hold them. PCRE2 is behind it; pattern_none.c
 * stands in where that is missing. */
#ifndef FOCI_TEXT_PATTERN_H
#define FOCI_TEXT_PATTERN_H

#include "focal/base.h"

typedef struct foci_pattern foci_pattern;

/* FOCAL_EFORMAT when it does not compile, with PCRE2's words and the place. ctx must outlive the
 * pattern. */
focal_status foci_pattern_new(focal_ctx *ctx, const char *source, size_t bytes, foci_pattern **out);
void foci_pattern_free(foci_pattern *pattern); /* NULL is fine */

/* A text to look in: valid UTF-8, and how much work may still be done there. */
typedef struct foci_pattern_text {
    const char *text;
    size_t bytes;
    int64_t *work; /* begins as foci_pattern_work(bytes) */
} foci_pattern_text;

/* What all searches in a text of so many bytes may cost together. No pattern that only reads a text
 * from its beginning to its end comes near it. */
int64_t foci_pattern_work(size_t bytes);

/* The first match at or behind `from`: [*begin, *end). *begin = bytes when there is none.
 * FOCAL_EINVAL when the work is used up. Threads that share a pattern take turns. */
focal_status foci_pattern_find(focal_ctx *ctx, foci_pattern *pattern, const foci_pattern_text *in,
                               size_t from, size_t *begin, size_t *end);

#endif /* FOCI_TEXT_PATTERN_H */
