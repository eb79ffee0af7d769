/* Long texts in pieces: where a text can be cut such that the ids of its parts are those of the
 * whole. That is known for the splitting patterns that most models share; a text for any other
 * tokenizer is held whole. */
#ifndef FOCI_TEXT_TEXT_CUT_H
#define FOCI_TEXT_TEXT_CUT_H

#include "text/added.h"
#include "text/splitter.h"

enum {
    FOCI_PIECE_BYTES = 1 << 20,  /* of text that is worked on at a time, where it can be cut */
    FOCI_UNCUT_MOST = 64 << 20,  /* without a place to cut */
    FOCI_WHOLE_MOST = 256 << 20, /* of a text that must be held whole */
};

typedef struct foci_cut_rule {
    foci_scan scan;          /* FOCI_SCAN_NONE: texts are never cut */
    bool is_ascii;           /* only between ASCII characters: a normal form leaves those alone */
    const foci_added *added; /* tokens that must not be cut; NULL: none */
    size_t longest;          /* bytes of the longest of them */
} foci_cut_rule;

/* The rule of the steps of a pre-tokenizer alone. */
foci_cut_rule foci_cut_rule_of(const foci_splitter *splitter);
/* That of a tokenizer, for text in which special tokens are read, or are plain text. */
foci_cut_rule foci_cut_rule_of_tokenizer(const focal_tokenizer *tokenizer, bool with_special);

/* The last place at which the text may be cut; 0: none is sure. */
size_t foci_text_cut(const foci_cut_rule *rule, const char *text, size_t bytes);

/* Text comes in and goes out in pieces that are cut so. All zero but for the first part. */
typedef struct foci_pieces {
    focal_ctx *ctx;
    foci_cut_rule rule;
    size_t piece_bytes; /* FOCI_PIECE_BYTES, or less in tests */
    focal_status (*take)(void *user, const char *text, size_t bytes);
    void *user;
    focal_buffer held;
    size_t next_try; /* bytes that must be held before a cut is looked for again */
} foci_pieces;

/* FOCAL_EUNSUPPORTED when too much would have to be held; else what take returns. */
focal_status foci_pieces_put(foci_pieces *pieces, const char *text, size_t bytes);
focal_status foci_pieces_end(foci_pieces *pieces); /* the text's end: what is held goes out */
void foci_pieces_free(foci_pieces *pieces);

#endif /* FOCI_TEXT_TEXT_CUT_H */
