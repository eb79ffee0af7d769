/* Splitting a text into words: the steps of tokenizer.json's pre_tokenizer. Each step splits what
 * the one before it left; the words come out one at a time, so nothing is held for all of them. */
#ifndef FOCI_TEXT_SPLITTER_H
#define FOCI_TEXT_SPLITTER_H

#include "text/pattern.h"
#include "text/scan.h"
#include "text/utf8.h"

enum { FOCI_SPLITTER_STEPS = 12 };

/* What a step looks for. */
typedef enum foci_split_kind {
    FOCI_SPLIT_NOTHING, /* everything stays together */
    FOCI_SPLIT_SCAN,    /* a well-known pattern */
    FOCI_SPLIT_PATTERN,
    FOCI_SPLIT_TEXT,        /* a plain string */
    FOCI_SPLIT_NUMBERS,     /* characters of \p{N}, one by one */
    FOCI_SPLIT_SPACES,      /* characters of white space, one by one */
    FOCI_SPLIT_PUNCTUATION, /* characters of \p{P} and ASCII's, one by one */
    FOCI_SPLIT_WORDS        /* \w+|[^\w\s]+ */
} foci_split_kind;

/* What becomes of it: tokenizer.json's words for it. */
typedef enum foci_split_behavior {
    FOCI_SPLIT_ISOLATED,
    FOCI_SPLIT_REMOVED,
    FOCI_SPLIT_WITH_PREVIOUS,
    FOCI_SPLIT_WITH_NEXT,
    FOCI_SPLIT_CONTIGUOUS
} foci_split_behavior;

typedef enum foci_prepend {
    FOCI_PREPEND_NEVER,
    FOCI_PREPEND_FIRST,
    FOCI_PREPEND_ALWAYS
} foci_prepend;

typedef struct foci_split_step {
    foci_split_kind kind;
    foci_split_behavior behavior;
    bool invert; /* what is found and what lies between change places */
    foci_scan scan;
    foci_pattern *pattern; /* owned */
    char what[16];         /* FOCI_SPLIT_TEXT: the string */
    size_t what_bytes;
    /* Before the split, spaces become `space` and it is put in front; "" changes nothing. */
    char space[8];
    size_t space_bytes;
    foci_prepend prepend; /* unless the text begins with it */
} foci_split_step;

typedef struct foci_splitter {
    int32_t count;
    foci_split_step steps[FOCI_SPLITTER_STEPS];
} foci_splitter;

void foci_splitter_free(foci_splitter *splitter); /* the contents */

/* A stretch of text, found or lying between. */
typedef struct foci_stretch {
    size_t begin, end;
    bool is_match;
} foci_stretch;

/* Where a step stands in its text. */
typedef struct foci_split_level {
    const char *text;
    const char *seen; /* text for patterns: valid UTF-8 of the same length, mostly text itself */
    size_t bytes;
    bool is_first; /* the text begins where the whole input does */
    size_t at;     /* everything before it was handed out or is in `next` */
    foci_stretch match, next;
    bool has_match, has_next, at_end;
    focal_buffer rewritten, masked;
} foci_split_level;

/* All zero, then begin. Serves for any number of texts; free at the end. */
typedef struct foci_split_run {
    focal_ctx *ctx;
    const foci_splitter *splitter;
    int32_t depth; /* the level that is asked next; -1: nothing is left */
    int64_t work;  /* that patterns may still do on this text */
    foci_split_level levels[FOCI_SPLITTER_STEPS + 1];
} foci_split_run;

focal_status foci_split_begin(foci_split_run *run, focal_ctx *ctx, const foci_splitter *splitter,
                              const char *text, size_t bytes, bool is_first);
/* The next word; it lives until the next call. *word is NULL behind the last one. */
focal_status foci_split_next(foci_split_run *run, const char **word, size_t *bytes);
void foci_split_free(foci_split_run *run);

#endif /* FOCI_TEXT_SPLITTER_H */
