/* The KV cache from inside. A text's keys and values lie in pages of FOCI_PAGE_ROWS tokens; a page
 * block holds those tokens for all layers, but for those that have groups (model/chains.h). A text
 * grows by several blocks at a time, in one allocation: decoding reads all of it for each token,
 * and the machine's large pages make that 7 % faster. What no token has touched yet is not memory
 * in use. */
#ifndef FOCI_MODEL_CACHE_H
#define FOCI_MODEL_CACHE_H

#include "model/chains.h"
#include "model/model.h"

enum { FOCI_PAGE_ROWS = 64 };

typedef struct foci_cache_seq {
    int32_t length;     /* tokens */
    int32_t page_count; /* blocks that are there: may hold more tokens than length */
    int32_t page_capacity;
    void **blocks;       /* (page_capacity) */
    void **owned;        /* (page_capacity) the allocation that begins with this block, else NULL */
    const void **pages;  /* (plain_count, 2, page_capacity) into the blocks: keys, then values */
    foci_chains *chains; /* of layers with groups; NULL: there are none */
} foci_cache_seq;

struct focal_cache {
    focal_model *model;
    focal_dtype dtype;
    int64_t row_bytes;   /* of a token's keys, or values, in one layer */
    int64_t block_bytes; /* (plain_count, 2, FOCI_PAGE_ROWS) rows; 0: all layers have groups */
    int32_t seq_count;
    foci_cache_seq *seqs;
    const foci_groups *groups; /* the model's when the cache was made; NULL: it had none */
    foci_groups_use use;
    uint64_t adapter_hash;          /* likewise */
    int32_t plain_count;            /* layers without groups */
    int32_t plain[FOCI_MAX_LAYERS]; /* a layer's place among them */
};

static inline bool foci_cache_has_groups(const focal_cache *cache, int32_t layer)
{
    return cache->groups && cache->groups->shape.layers[layer];
}

/* FOCAL_EINVAL when there is no such text. */
focal_status foci_cache_check(const focal_cache *cache, int32_t sequence);

/* Forgets what a pass that failed has appended. */
void foci_cache_roll_back(focal_cache *cache, int32_t sequence);

/* Room for `count` more tokens; the length stays. FOCAL_ENOMEM leaves the text as it was. */
focal_status foci_cache_reserve(focal_cache *cache, int32_t sequence, int32_t count);

/* The page tables of one layer without groups. */
static inline const void *const *foci_cache_pages(const focal_cache *cache,
                                                  const foci_cache_seq *seq, int32_t layer,
                                                  int32_t is_value)
{
    return seq->pages + ((int64_t)cache->plain[layer] * 2 + is_value) * seq->page_capacity;
}

/* Where the row of a token lies, in a layer without groups. */
static inline char *foci_cache_row(const focal_cache *cache, const foci_cache_seq *seq,
                                   int32_t layer, int32_t is_value, int32_t token)
{
    char *block = seq->blocks[token / FOCI_PAGE_ROWS];
    const int64_t page = (int64_t)cache->plain[layer] * 2 + is_value;
    return block + (page * FOCI_PAGE_ROWS + token % FOCI_PAGE_ROWS) * cache->row_bytes;
}

#endif /* FOCI_MODEL_CACHE_H */
