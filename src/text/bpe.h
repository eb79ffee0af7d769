/* Byte-pair encoding of one word: the best pair of neighbours is joined until none is left. Pairs
 * are ranked by a list of merges, or, as SentencePiece does it, by the score of the joined token.
 */
#ifndef FOCI_TEXT_BPE_H
#define FOCI_TEXT_BPE_H

#include "text/vocab.h"

typedef struct foci_merge {
    uint64_t pair; /* left id << 32 | right id; UINT64_MAX: a free place of the table */
    uint32_t rank; /* the lowest is joined first */
    int32_t joined;
} foci_merge;

typedef struct foci_bpe {
    focal_ctx *ctx;
    const foci_vocab *vocab; /* borrowed */
    bool is_byte_level;      /* words begin as bytes, else as characters */
    bool byte_fallback;      /* characters without a token become byte tokens */
    bool fuse_unknown;       /* neighbouring unknown characters become one token */
    bool ignore_merges;      /* a word that is a token becomes it, whatever the merges say */
    int32_t unknown;         /* for characters that nothing stands for; -1: they are left out */
    bool by_score;           /* no merges: any two that join to a token, best score first */
    foci_merge *merge;       /* open addressing by pair */
    uint64_t merge_mask;
    int64_t merge_count;
} foci_bpe;

/* A merge as the file has it, both sides as tokens' bytes (as foci_vocab holds them). */
focal_status foci_bpe_reserve(foci_bpe *bpe, int64_t merges);
/* Adds the next merge, by the ids of its sides; FOCAL_EFORMAT, naming it, when they do not join to
 * a token. Of two equal ones the later counts, or the first where keep_first. */
focal_status foci_bpe_merge(foci_bpe *bpe, const char *what, int32_t left, int32_t right,
                            bool keep_first);
void foci_bpe_free(foci_bpe *bpe); /* the contents */

static inline uint64_t foci_pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}
/* The merge of a pair, or the free place that it would get. */
foci_merge *foci_find_merge(const foci_bpe *bpe, uint64_t pair);

/* Appends the ids of a word, in time and memory linear in its length; up to a small factor, and a
 * dozen bytes a byte, with a vocabulary that is made to slow it. */
focal_status foci_bpe_encode(focal_ctx *ctx, const foci_bpe *bpe, const char *text, size_t bytes,
                             focal_ids *out);

#endif /* FOCI_TEXT_BPE_H */
