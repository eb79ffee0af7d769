/* Chains of pages: tokens come to the end of their groups' chains and leave from there. */
#include "model/chains.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/route/keyset.h"

enum {
    BLOCK_BYTES = 16 * 1024 * 1024,
    KEPT_BYTES =
        32 * 1024 * 1024, /* of an empty text: the next one begins in memory that is there */
    FIRST_PAGES = 16,
    RESERVED_TOKENS = 1024 /* from which on a prompt's pages come in one piece: the system then has
                              large pages for nearly all of it */
};

static int64_t page_bytes(const foci_chains *chains)
{
    return (int64_t)2 * FOCI_CHAIN_ROWS * chains->row_bytes;
}

size_t foci_chains_page_bytes(const foci_chains *chains)
{
    return (size_t)page_bytes(chains);
}

focal_status foci_chains_new(focal_ctx *ctx, const foci_groups_shape *shape,
                             const foci_groups_use *use, int64_t row_bytes, foci_chains **out)
{
    *out = NULL;
    foci_chains *chains = foci_alloc(ctx, 1, sizeof *chains);
    if (!chains) return FOCAL_ENOMEM;
    const int32_t stores = shape->mode == FOCAL_DIRECTED ? shape->routers : 1;
    *chains = (foci_chains){.ctx = ctx,
                            .shape = *shape,
                            .use = *use,
                            .stores = stores,
                            .row_bytes = row_bytes / stores};
    const focal_keyset_options options = {.mode = shape->mode,
                                          .K = shape->K,
                                          .top = use->top,
                                          .routers = shape->routers,
                                          .window = use->window,
                                          .sinks = use->sinks};
    focal_status status = FOCAL_ENOMEM;
    chains->layers = foci_alloc(ctx, (size_t)shape->L, sizeof *chains->layers);
    if (!chains->layers) goto done;
    memset(chains->layers, 0, (size_t)shape->L * sizeof *chains->layers);
    for (int32_t n = 0; n < shape->L; n++) {
        foci_chains_layer *layer = &chains->layers[n];
        if (!shape->layers[n]) continue;
        layer->stores = foci_alloc(ctx, (size_t)stores, sizeof *layer->stores);
        if (!layer->stores) goto done;
        memset(layer->stores, 0, (size_t)stores * sizeof *layer->stores);
        for (int32_t r = 0; r < stores; r++)
            memset(layer->stores[r].last, -1, sizeof layer->stores[r].last);
        status = focal_keyset_new(ctx, &options, &layer->set);
        if (status != FOCAL_OK) goto done;
        status = FOCAL_ENOMEM;
    }
    *out = chains;
    return FOCAL_OK;
done:
    foci_chains_free(chains);
    return status;
}

static void free_store(focal_ctx *ctx, const foci_chain_store *store)
{
    foci_free(ctx, store->pages[0]);
    foci_free(ctx, store->pages[1]);
    foci_free(ctx, store->before);
    foci_free(ctx, store->group);
    foci_free(ctx, store->used);
}

void foci_chains_free(foci_chains *chains)
{
    if (!chains) return;
    focal_ctx *ctx = chains->ctx;
    for (int32_t n = 0; chains->layers && n < chains->shape.L; n++) {
        const foci_chains_layer *layer = &chains->layers[n];
        for (int32_t r = 0; layer->stores && r < chains->stores; r++)
            free_store(ctx, &layer->stores[r]);
        foci_free(ctx, layer->stores);
        focal_keyset_free(layer->set);
    }
    for (int32_t n = 0; n < chains->block_count; n++) foci_free(ctx, chains->blocks[n].memory);
    foci_free(ctx, chains->blocks);
    foci_free(ctx, chains->free_pages);
    foci_free(ctx, chains->layers);
    foci_free(ctx, chains);
}

/* ---- Pages ---- */

/* A larger array with what the old one held; *array stays on failure. */
static bool grow(focal_ctx *ctx, void **array, int64_t count, int64_t capacity, size_t size)
{
    void *larger = foci_alloc(ctx, (size_t)capacity, size);
    if (!larger) return false;
    if (count > 0) memcpy(larger, *array, (size_t)count * size);
    foci_free(ctx, *array);
    *array = larger;
    return true;
}

/* All pages of a block are there to be taken, from the front. */
static void free_block(foci_chains *chains, int32_t n)
{
    const foci_chain_block *block = &chains->blocks[n];
    for (int64_t page = block->pages; page-- > 0;)
        chains->free_pages[chains->free_count++] = block->memory + page * page_bytes(chains);
}

/* Of an empty text, what is more than a short text needs. */
static void give_back(foci_chains *chains)
{
    int64_t pages = 0;
    int32_t kept = 0;
    for (int32_t n = 0; n < chains->block_count; n++) {
        const foci_chain_block block = chains->blocks[n];
        if ((pages + block.pages) * page_bytes(chains) <= KEPT_BYTES) {
            pages += block.pages;
            chains->blocks[kept++] = block;
        } else {
            foci_free(chains->ctx, block.memory);
        }
    }
    chains->block_count = kept;
    chains->free_count = 0;
    while (kept-- > 0) free_block(chains, kept);
}

/* So many more pages. */
static bool add_block(foci_chains *chains, int64_t pages)
{
    focal_ctx *ctx = chains->ctx;
    const int64_t bytes = page_bytes(chains), have = chains->taken_pages + chains->free_count;
    if (chains->block_count == chains->block_capacity) {
        const int32_t capacity = 2 * chains->block_capacity + 8;
        if (!grow(ctx, (void **)&chains->blocks, chains->block_count, capacity,
                  sizeof *chains->blocks))
            return false;
        chains->block_capacity = capacity;
    }
    if (have + pages > chains->free_capacity) {
        const int64_t capacity = 2 * (have + pages);
        if (!grow(ctx, (void **)&chains->free_pages, chains->free_count, capacity, sizeof(void *)))
            return false;
        chains->free_capacity = capacity;
    }
    char *block = foci_alloc(ctx, (size_t)pages, (size_t)bytes);
    if (!block) return false;
    foci_use_large_pages(block, (size_t)pages * (size_t)bytes);
    chains->blocks[chains->block_count++] = (foci_chain_block){block, pages};
    free_block(chains, chains->block_count - 1);
    return true;
}

/* More pages, as many as there are, up to a limit. */
static bool add_pages(foci_chains *chains)
{
    const int64_t have = chains->taken_pages + chains->free_count;
    const int64_t most = foci_max64(BLOCK_BYTES / page_bytes(chains), 1);
    return add_block(chains, foci_max64(foci_min64(have, most), foci_min64(FIRST_PAGES, most)));
}

focal_status foci_chains_reserve(foci_chains *chains, int32_t T)
{
    int64_t stores = 0;
    for (int32_t n = 0; n < chains->shape.L; n++)
        if (chains->layers[n].set) stores += chains->stores;
    const int64_t chain_count = chains->shape.mode == FOCAL_DIRECTED ? chains->shape.K : 1;
    /* the last page of a chain is half full, by and large */
    const int64_t need = stores * (foci_pieces(T, FOCI_CHAIN_ROWS) + chain_count / 2);
    if (T < RESERVED_TOKENS || need <= chains->free_count) return FOCAL_OK;
    return add_block(chains, need - chains->free_count) ? FOCAL_OK : FOCAL_ENOMEM;
}

static bool grow_store(focal_ctx *ctx, foci_chain_store *store)
{
    const int32_t count = store->page_count, capacity = 2 * store->page_capacity + FIRST_PAGES;
    if (!grow(ctx, (void **)&store->pages[0], count, capacity, sizeof(void *)) ||
        !grow(ctx, (void **)&store->pages[1], count, capacity, sizeof(void *)) ||
        !grow(ctx, (void **)&store->before, count, capacity, sizeof *store->before) ||
        !grow(ctx, (void **)&store->group, count, capacity, 1) ||
        !grow(ctx, (void **)&store->used, count, capacity, 1))
        return false;
    store->page_capacity = capacity;
    return true;
}

/* The row of one more token; -1: there is no memory. */
static int32_t push_row(foci_chains *chains, foci_chain_store *store, int32_t group)
{
    int32_t page = store->last[group];
    if (page < 0 || store->used[page] == FOCI_CHAIN_ROWS) {
        if (chains->free_count == 0 && !add_pages(chains)) return -1;
        if (store->page_count == store->page_capacity && !grow_store(chains->ctx, store)) return -1;
        char *memory = chains->free_pages[--chains->free_count];
        page = store->page_count++;
        chains->taken_pages++;
        store->pages[0][page] = memory;
        store->pages[1][page] = memory + FOCI_CHAIN_ROWS * chains->row_bytes;
        store->before[page] = store->last[group];
        store->group[page] = (uint8_t)group;
        store->used[page] = 0;
        store->last[group] = page;
    }
    return page * FOCI_CHAIN_ROWS + store->used[page]++;
}

/* Takes the row of the last token back. */
static void pop_row(foci_chains *chains, foci_chain_store *store, int32_t row)
{
    const int32_t page = row / FOCI_CHAIN_ROWS;
    if (--store->used[page] > 0) return;
    store->last[store->group[page]] = store->before[page];
    chains->free_pages[chains->free_count++] = store->pages[0][page];
    chains->taken_pages--;
    store->page_count--;
}

/* ---- Tokens ---- */

static bool is_directed(const foci_chains *chains)
{
    return chains->shape.mode == FOCAL_DIRECTED;
}

/* Rows of T tokens in all stores; false, and none, without memory. */
static bool push_rows(foci_chains *chains, foci_chain_store *stores, int32_t T,
                      const int32_t *key_groups, int32_t *rows)
{
    const int32_t count = chains->stores;
    for (int64_t n = 0; n < (int64_t)T * count; n++) {
        rows[n] = push_row(chains, &stores[n % count], key_groups ? key_groups[n] : 0);
        if (rows[n] >= 0) continue;
        while (n-- > 0) pop_row(chains, &stores[n % count], rows[n]);
        return false;
    }
    return true;
}

focal_status foci_chains_append(foci_chains *chains, int32_t layer, int32_t T,
                                const int32_t *query_groups, const int32_t *key_groups)
{
    foci_chains_layer *to = &chains->layers[layer];
    const int64_t count = (int64_t)T * chains->stores;
    const int32_t *groups = is_directed(chains) ? key_groups : NULL;
    for (int64_t n = 0; groups && n < count; n++)
        if (groups[n] < 0 || groups[n] >= chains->shape.K)
            return foci_fail(chains->ctx, FOCAL_EINVAL, "cache: group %d, there are %d", groups[n],
                             chains->shape.K);
    int32_t *rows = foci_scratch(chains->ctx, (size_t)count, sizeof *rows);
    if (!rows) return FOCAL_ENOMEM;
    focal_status status = FOCAL_ENOMEM;
    if (push_rows(chains, to->stores, T, groups, rows)) {
        status = groups ? foci_keyset_append_rows(to->set, T, query_groups, groups, rows)
                        : focal_keyset_append(to->set, T, query_groups, NULL);
        for (int64_t n = count; status != FOCAL_OK && n-- > 0;)
            pop_row(chains, &to->stores[n % chains->stores], rows[n]);
    }
    foci_scratch_free(chains->ctx, rows);
    return status;
}

static void truncate_layer(foci_chains *chains, const foci_chains_layer *layer, int32_t S)
{
    const focal_keys keys = focal_keyset_view(layer->set);
    for (int32_t r = 0; r < chains->stores; r++) {
        const int32_t *row =
            keys.position_row ? keys.position_row + r * keys.position_stride : NULL;
        for (int32_t j = keys.S; j-- > S;) pop_row(chains, &layer->stores[r], row ? row[j] : j);
    }
    (void)focal_keyset_truncate(layer->set, S);
}

void foci_chains_truncate(foci_chains *chains, int32_t S)
{
    for (int32_t n = 0; n < chains->shape.L; n++) {
        const foci_chains_layer *layer = &chains->layers[n];
        if (layer->set && focal_keyset_view(layer->set).S > S) truncate_layer(chains, layer, S);
    }
    if (chains->taken_pages == 0) give_back(chains);
}

focal_keys foci_chains_keys(const foci_chains *chains, int32_t layer, int32_t store)
{
    focal_keys keys = focal_keyset_view(chains->layers[layer].set);
    if (chains->stores == 1) return keys;
    keys.routers = 1;
    keys.key_row += store * keys.key_stride;
    keys.key_begin += (int64_t)store * keys.K;
    keys.key_end += (int64_t)store * keys.K;
    keys.query += store * keys.query_stride;
    keys.query_end += store * keys.query_stride;
    keys.query_begin += (int64_t)store * (keys.K + 1);
    keys.query_mask += (int64_t)store * keys.T;
    keys.position_row += store * keys.position_stride;
    return keys;
}

/* ---- Whole texts ---- */

void foci_chains_masks(const foci_chains *chains, int32_t layer, uint64_t *masks)
{
    const focal_keyset *set = chains->layers[layer].set;
    const int64_t routers = set->options.routers;
    for (int64_t j = 0; j < set->S; j++)
        for (int64_t r = 0; r < routers; r++)
            masks[j * routers + r] = set->key_mask[r * set->mask_stride + j];
}

/* The groups of a mask in ascending order; false: not `count` of them, or not all below K. */
static bool list_groups(uint64_t mask, int32_t K, int32_t count, int32_t *groups)
{
    int32_t found = 0;
    if (K < 64 && mask >> K != 0) return false;
    for (; mask != 0 && found < count; mask &= mask - 1)
        groups[found++] = (int32_t)__builtin_ctzll(mask);
    return mask == 0 && found == count;
}

focal_status foci_chains_refill(foci_chains *chains, int32_t layer, int32_t S,
                                const uint64_t *masks)
{
    focal_ctx *ctx = chains->ctx;
    const foci_groups_shape *shape = &chains->shape;
    const int32_t top = chains->use.top, members = is_directed(chains) ? 1 : top;
    const int64_t rows = (int64_t)S * shape->routers;
    if (S == 0) return FOCAL_OK;
    int32_t *queries = foci_alloc(ctx, (size_t)rows * (size_t)top, sizeof *queries);
    int32_t *keys = foci_alloc(ctx, (size_t)rows, sizeof *keys);
    focal_status status = queries && keys ? FOCAL_OK : FOCAL_ENOMEM;
    for (int64_t n = 0; status == FOCAL_OK && n < rows; n++) {
        /* of directed groups, which queries a token had is of no use any more */
        for (int32_t i = 0; i < top; i++) queries[n * top + i] = i;
        int32_t *to = is_directed(chains) ? &keys[n] : &queries[n * top];
        if (!list_groups(masks[n], shape->K, members, to))
            status = foci_fail(ctx, FOCAL_EINVAL,
                               "cache: token %lld of layer %d is in no %d of %d"
                               " groups",
                               (long long)(n / shape->routers), layer, members, shape->K);
    }
    if (status == FOCAL_OK) status = foci_chains_append(chains, layer, S, queries, keys);
    if (status == FOCAL_OK) status = focal_keyset_truncate(chains->layers[layer].set, S);
    foci_free(ctx, queries);
    foci_free(ctx, keys);
    return status;
}

int64_t foci_chains_pages(const foci_chains *chains, int32_t S, const void *masks)
{
    const int32_t K = chains->shape.K, routers = chains->shape.routers;
    const int32_t members = is_directed(chains) ? 1 : chains->use.top;
    int64_t pages = 0;
    for (int32_t r = 0; r < routers; r++) {
        int64_t counts[FOCAL_MAX_GROUPS] = {0}; /* tokens of each chain */
        for (int64_t j = 0; j < S; j++) {
            int32_t groups[FOCAL_MAX_GROUPS];
            uint64_t mask;
            memcpy(&mask, (const char *)masks + (j * routers + r) * (int64_t)sizeof mask,
                   sizeof mask);
            if (!list_groups(mask, K, members, groups)) return -1;
            counts[is_directed(chains) ? groups[0] : 0]++;
        }
        for (int32_t c = 0; r < chains->stores && c < K; c++)
            pages += foci_pieces(counts[c], FOCI_CHAIN_ROWS);
    }
    return pages;
}

static focal_status copy_layer(const foci_chains *from, foci_chains *to, int32_t layer)
{
    const int32_t S = focal_keyset_view(from->layers[layer].set).S;
    const size_t rows = (size_t)S * (size_t)from->shape.routers;
    uint64_t *masks = foci_alloc(to->ctx, rows, sizeof *masks);
    if (!masks) return FOCAL_ENOMEM;
    foci_chains_masks(from, layer, masks);
    const focal_status status = foci_chains_refill(to, layer, S, masks);
    for (int32_t r = 0; status == FOCAL_OK && r < from->stores; r++) {
        const foci_chain_store *source = foci_chains_store(from, layer, r);
        for (int32_t n = 0; n < source->page_count; n++)
            memcpy(foci_chains_store(to, layer, r)->pages[0][n], source->pages[0][n],
                   foci_chains_page_bytes(from));
    }
    foci_free(to->ctx, masks);
    return status;
}

focal_status foci_chains_copy(const foci_chains *from, foci_chains *to)
{
    focal_status status = FOCAL_OK;
    if (to->taken_pages > 0) foci_chains_truncate(to, 0); /* else what was reserved would go */
    for (int32_t n = 0; status == FOCAL_OK && n < from->shape.L; n++)
        if (from->layers[n].set) status = copy_layer(from, to, n);
    if (status != FOCAL_OK) foci_chains_truncate(to, 0);
    return status;
}

void foci_chains_clear_room(const foci_chains *chains)
{
    for (int32_t n = 0; n < chains->shape.L; n++) {
        if (!chains->layers[n].set) continue;
        for (int32_t r = 0; r < chains->stores; r++) {
            const foci_chain_store *store = foci_chains_store(chains, n, r);
            for (int32_t page = 0; page < store->page_count; page++)
                for (int32_t is_value = 0; is_value < 2; is_value++)
                    memset((char *)store->pages[is_value][page] +
                               store->used[page] * chains->row_bytes,
                           0,
                           (size_t)(FOCI_CHAIN_ROWS - store->used[page]) *
                               (size_t)chains->row_bytes);
        }
    }
}
