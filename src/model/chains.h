/* The grouped part of a cache: one text's keys and values in the layers that have a router.
 *
 * Each router's tokens lie in chains of pages, one chain a group, so a query that looks into a
 * group reads it from end to end. A token enters its group's chain at once: the set's bounds keep
 * it out of the group's list until it is older than the window, and until then it is found by its
 * position. So it is stored once and never moves. Shared groups, whose tokens are in several, have
 * one chain, in order of position. docs/adr/0009. */
#ifndef FOCI_MODEL_CHAINS_H
#define FOCI_MODEL_CHAINS_H

#include "model/groups.h"

enum { FOCI_CHAIN_ROWS = 32 /* of a page */ };

/* How a text runs with groups. */
typedef struct foci_groups_use {
    int32_t top, window, sinks;
} foci_groups_use;

/* The pages of one router. Tokens leave as they came, last first, and so do pages. */
typedef struct foci_chain_store {
    int32_t page_count, page_capacity;
    void **pages[2];                /* (page_capacity) of keys and of values */
    int32_t *before;                /* (page_capacity) the page before it in its chain, -1: none */
    uint8_t *group, *used;          /* (page_capacity) its chain, its rows in use */
    int32_t last[FOCAL_MAX_GROUPS]; /* the last page of each chain, -1: none */
} foci_chain_store;

typedef struct foci_chains_layer {
    focal_keyset *set; /* NULL: the layer has no router, and nothing here */
    foci_chain_store *stores;
} foci_chains_layer;

/* Pages in one allocation. */
typedef struct foci_chain_block {
    char *memory;
    int64_t pages;
} foci_chain_block;

typedef struct foci_chains {
    focal_ctx *ctx;
    foci_groups_shape shape; /* of the groups, which may be gone before the text is */
    foci_groups_use use;
    int32_t stores;            /* of a layer: one a router, or one where groups are shared */
    int64_t row_bytes;         /* of a token's keys, or values, in one store */
    foci_chains_layer *layers; /* (L) */
    void **free_pages;         /* keys, then values */
    int64_t free_count, free_capacity;
    foci_chain_block *blocks;
    int32_t block_count, block_capacity;
    int64_t taken_pages;
} foci_chains;

/* row_bytes: of all routers of a layer together. */
focal_status foci_chains_new(focal_ctx *ctx, const foci_groups_shape *shape,
                             const foci_groups_use *use, int64_t row_bytes, foci_chains **out);
void foci_chains_free(foci_chains *chains); /* NULL is fine */

/* Memory for T more tokens of all layers, as far as one can tell before they have groups. Not a
 * must: chains take what they need. FOCAL_ENOMEM. */
focal_status foci_chains_reserve(foci_chains *chains, int32_t T);

/* Room for T more tokens of a layer that has a router, which become the queries of its set.
 * query_groups (T, routers, top), key_groups (T, routers), the latter not of shared groups. Where
 * the rows lie then, foci_chains_row() says; what they hold is the caller's. On failure the layer
 * is as it was, but has no queries. */
focal_status foci_chains_append(foci_chains *chains, int32_t layer, int32_t T,
                                const int32_t *query_groups, const int32_t *key_groups);

/* Forgets the tokens from S on, in all layers, also in those that have fewer. */
void foci_chains_truncate(foci_chains *chains, int32_t S);

/* The groups that a layer's tokens are in, as bits, (S, routers); and tokens of given groups, which
 * come behind none: then the pages and rows are those of the layer that the masks came from, and
 * what they hold can be copied page by page. FOCAL_EINVAL on masks that no router gives. */
void foci_chains_masks(const foci_chains *chains, int32_t layer, uint64_t *masks);
focal_status foci_chains_refill(foci_chains *chains, int32_t layer, int32_t S,
                                const uint64_t *masks);

/* The pages of all stores of a layer whose S tokens have these masks, which may lie anywhere; -1:
 * no router gives such masks. */
int64_t foci_chains_pages(const foci_chains *chains, int32_t S, const void *masks);

/* Makes `to`, of the same groups, equal to `from`. FOCAL_ENOMEM: it is empty then. */
focal_status foci_chains_copy(const foci_chains *from, foci_chains *to);

/* The bytes of a page: keys, then values. */
size_t foci_chains_page_bytes(const foci_chains *chains);
/* Zeros in the rows of all pages that no token uses. */
void foci_chains_clear_room(const foci_chains *chains);

/* What attention reads of one store: its pages, and its part of the set. */
focal_keys foci_chains_keys(const foci_chains *chains, int32_t layer, int32_t store);
static inline const foci_chain_store *foci_chains_store(const foci_chains *chains, int32_t layer,
                                                        int32_t store)
{
    return &chains->layers[layer].stores[store];
}

/* Where a row lies. */
static inline char *foci_chains_row(const foci_chains *chains, int32_t layer, int32_t store,
                                    int32_t is_value, int32_t row)
{
    const foci_chain_store *s = foci_chains_store(chains, layer, store);
    char *page = s->pages[is_value][row / FOCI_CHAIN_ROWS];
    return page + row % FOCI_CHAIN_ROWS * chains->row_bytes;
}

#endif /* FOCI_MODEL_CHAINS_H */
