/* Different words and how often each came: a table that forgets the rarest when it is full. */
#ifndef FOCI_TEXT_WORD_COUNT_H
#define FOCI_TEXT_WORD_COUNT_H

#include "focal/tokenizer.h"

typedef struct foci_word {
    uint32_t begin, bytes; /* in foci_words.text */
    int64_t count;
} foci_word;

typedef struct foci_word_slot {
    uint32_t mark; /* of the hash: says no without a look at the word */
    int32_t index; /* -1: free */
} foci_word_slot;

/* All zero but for ctx and the limits. */
typedef struct foci_words {
    focal_ctx *ctx;
    int64_t most;      /* different words, below 2^31, */
    size_t bytes_most; /* and of their bytes, below 2^32 */
    foci_word *words;  /* in the order in which they came first */
    int64_t count, capacity;
    focal_buffer text;
    foci_word_slot *slot; /* open addressing */
    uint64_t slot_mask;
    int64_t rare;      /* words of at most this count were forgotten the last time */
    int64_t forgotten; /* different words, each time again */
} foci_words;

/* Counts a word (bytes > 0) `times` more; *index says where it stands until words are forgotten,
 * which happens only here: each time, those of one more than the last time, until half is free. */
focal_status foci_words_add(foci_words *words, const char *text, size_t bytes, int64_t times,
                            int64_t *index);
/* Where a word stands, or -1. */
int64_t foci_words_find(const foci_words *words, const char *text, size_t bytes);
void foci_words_free(foci_words *words);

static inline const char *foci_word_text(const foci_words *words, int64_t index)
{
    return words->text.data + words->words[index].begin;
}

#endif /* FOCI_TEXT_WORD_COUNT_H */
