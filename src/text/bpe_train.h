/* Merges of byte-level BPE from counted words: the most frequent pair of neighbours becomes a token
 * until the vocabulary is full. */
#ifndef FOCI_TEXT_BPE_TRAIN_H
#define FOCI_TEXT_BPE_TRAIN_H

#include "text/word_count.h"

typedef struct foci_pair {
    int32_t left, right;
} foci_pair;

typedef struct foci_bpe_training {
    focal_ctx *ctx;
    const foci_words *words; /* that were counted */
    int32_t vocab;           /* tokens to stop at */
    int64_t min_count;       /* pairs that are rarer are not joined */
    int32_t special_count;   /* the first tokens: no pair becomes one of them */
    bool (*on_merge)(void *user, int64_t done, int64_t total); /* false ends it; may be NULL */
    void *user;
    /* In and out: tokens by id, written as byte-level vocabularies write them. Before: the special
     * ones and the 256 bytes. */
    foci_words tokens;
    int32_t byte_id[256];
    foci_pair *merges; /* out, in order; the caller frees it */
    int64_t merge_count;
} foci_bpe_training;

/* FOCAL_ENOMEM, or FOCAL_EINVAL when on_merge ended it. */
focal_status foci_bpe_train(foci_bpe_training *training);

#endif /* FOCI_TEXT_BPE_TRAIN_H */
