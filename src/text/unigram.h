/* Unigram encoding of one word: of all ways to write it in tokens, the one whose scores add up to
 * the most. */
#ifndef FOCI_TEXT_UNIGRAM_H
#define FOCI_TEXT_UNIGRAM_H

#include "text/trie.h"
#include "text/vocab.h"

typedef struct foci_unigram {
    const foci_vocab *vocab; /* borrowed */
    foci_trie trie;          /* of the tokens that text may become */
    double unknown_score;    /* of a character without a token: below every token's */
    int32_t unknown;         /* -1: such characters are left out */
    bool byte_fallback;
} foci_unigram;

focal_status foci_unigram_init(focal_ctx *ctx, const foci_vocab *vocab, int32_t unknown,
                               bool byte_fallback, foci_unigram *unigram);
void foci_unigram_free(foci_unigram *unigram);

/* Appends the ids of a word. Time is linear in its length times the longest token's, memory 8 bytes
 * a byte. */
focal_status foci_unigram_encode(focal_ctx *ctx, const foci_unigram *unigram, const char *word,
                                 size_t bytes, focal_ids *out);

#endif /* FOCI_TEXT_UNIGRAM_H */
