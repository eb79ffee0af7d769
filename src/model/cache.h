/* The KV cache from inside. A text's keys and values lie in pages of FOCI_PAGE_ROWS tokens; a page
 * block holds those tokens for all layers. A text grows by several blocks at a time, in one
 * allocation: decoding reads all of it for each token, and the machine's large pages make that 7 %
 * faster. What no token has touched yet is not memory in use. */
#ifndef FOCI_MODEL_CACHE_H
#define FOCI_MODEL_CACHE_H

#include "model/model.h"

enum { FOCI_PAGE_ROWS = 64 };

typedef struct foci_cache_seq {
    int32_t length;     /* tokens */
    int32_t page_count; /* blocks that are there: may hold more tokens than length */
    int32_t page_capacity;
    void **blocks;      /* (page_capacity) */
    void **owned;       /* (page_capacity) the allocation that begins with this block, else NULL */
    const void **pages; /* (L, 2, page_capacity) into the blocks: keys, then values */
} foci_cache_seq;

struct focal_cache {
    focal_model *model;
    focal_dtype dtype;
    int64_t row_bytes;   /* of a token's keys, or values, in one layer */
    int64_t block_bytes; /* (L, 2, FOCI_PAGE_ROWS) rows */
    int32_t seq_count;
    foci_cache_seq *seqs;
};

/* Room for `count` more tokens; the length stays. FOCAL_ENOMEM leaves the text as it was. */
focal_status foci_cache_reserve(focal_cache *cache, int32_t sequence, int32_t count);

/* The page tables of one layer. */
static inline const void *const *foci_cache_pages(const foci_cache_seq *seq, int32_t layer,
                                                  int32_t is_value)
{
    return seq->pages + ((int64_t)layer * 2 + is_value) * seq->page_capacity;
}

/* Where the row of a token lies. */
static inline char *foci_cache_row(const focal_cache *cache, const foci_cache_seq *seq,
                                   int32_t layer, int32_t is_value, int32_t token)
{
    char *block = seq->blocks[token / FOCI_PAGE_ROWS];
    const int64_t row = ((int64_t)layer * 2 + is_value) * FOCI_PAGE_ROWS + token % FOCI_PAGE_ROWS;
    return block + row * cache->row_bytes;
}

#endif /* FOCI_MODEL_CACHE_H */
