/* A corpus from inside: the sizes of pieces, for tests, and what names a tokenizer in a shard. */
#ifndef FOCI_TEXT_CORPUS_H
#define FOCI_TEXT_CORPUS_H

#include "focal/corpus.h"
#include "io/shards.h"

typedef struct foci_corpus_settings {
    size_t piece_bytes; /* FOCI_PIECE_BYTES */
    size_t read_bytes;  /* 0: as much as is good */
    int64_t shard_tokens;
    bool reads_special;
} foci_corpus_settings;

/* focal_corpus_tokenize with all its sizes. */
focal_status foci_corpus_tokenize(focal_ctx *ctx, const focal_corpus *corpus,
                                  const focal_tokenizer *tokenizer, const char *folder,
                                  const foci_corpus_settings *settings,
                                  focal_corpus_result *result);

/* 64 bits of the vocabulary, the merges and the way text is split; of patterns, only the well-known
 * ones are told apart. */
uint64_t foci_tokenizer_fingerprint(const focal_tokenizer *tokenizer);

#endif /* FOCI_TEXT_CORPUS_H */
