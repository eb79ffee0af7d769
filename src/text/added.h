/* Added tokens: texts that become one token wherever they stand, before anything else is done to
 * the text. */
#ifndef FOCI_TEXT_ADDED_H
#define FOCI_TEXT_ADDED_H

#include "text/trie.h"
#include "text/utf8.h"

typedef struct foci_added_token {
    int32_t id;
    bool is_special;     /* matched only when special tokens are asked for */
    bool single_word;    /* not inside of a word */
    bool lstrip, rstrip; /* takes the white space before or behind it along */
    bool is_normalized;  /* looked for in the normalised text */
    size_t begin, bytes; /* of its text, in foci_added.text */
} foci_added_token;

typedef struct foci_added {
    focal_ctx *ctx;
    foci_added_token *tokens; /* owned by who fills this in; so is text */
    int32_t count;
    focal_buffer text;
    foci_trie raw, normalized; /* of indices into tokens */
    bool has_raw, has_normalized;
} foci_added;

/* Sorts what was filled in into the trees. Of two with one text the first counts. */
focal_status foci_added_prepare(focal_ctx *ctx, foci_added *added);
void foci_added_free(foci_added *added); /* the contents, with tokens and text */

/* The next token of one kind at or behind `from`: the leftmost, of those the longest. [*begin,
 * *end) is what it takes from the text; `taken` is where the last one ended. NULL: none is left. */
typedef struct foci_added_query {
    const foci_added *added;
    const foci_trie *trie;
    const char *text;
    size_t bytes;
    bool with_special;
} foci_added_query;
const foci_added_token *foci_added_find(const foci_added_query *query, size_t taken, size_t *begin,
                                        size_t *end);

#endif /* FOCI_TEXT_ADDED_H */
