/* Texts that a model has read: making room, forgetting, copying. */
#include "model/cache.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

enum { MAX_SEQUENCES = 4096, GROWTH_BYTES = 16 * 1024 * 1024 };

focal_status focal_cache_new(focal_model *model, const focal_cache_options *options,
                             focal_cache **out)
{
    *out = NULL;
    focal_ctx *ctx = model->ctx;
    const focal_cache_options o = options ? *options : (focal_cache_options){0};
    const foci_config *c = &model->config;
    const focal_dtype dtype = o.has_dtype ? o.dtype : model->precision;
    const int32_t sequences = o.sequences == 0 ? 1 : o.sequences;
    const int64_t width = (int64_t)c->G * c->D;
    if (dtype != FOCAL_F32 && dtype != FOCAL_BF16 && dtype != FOCAL_Q8_0)
        return foci_fail(ctx, FOCAL_EINVAL, "cache: %s is not f32, bf16 or q8_0",
                         focal_dtype_name(dtype));
    if (c->D % focal_dtype_block(dtype) != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "cache: heads of %d are not whole blocks of %d, so it cannot be %s", c->D,
                         focal_dtype_block(dtype), focal_dtype_name(dtype));
    if (sequences < 1 || sequences > MAX_SEQUENCES)
        return foci_fail(ctx, FOCAL_EINVAL, "cache: %d sequences, at most %d", sequences,
                         MAX_SEQUENCES);
    focal_cache *cache = foci_alloc(ctx, 1, sizeof *cache);
    if (!cache) return FOCAL_ENOMEM;
    *cache = (focal_cache){.model = model, .dtype = dtype, .seq_count = sequences};
    cache->groups = model->groups;
    cache->use = model->use;
    cache->adapter_hash = model->adapter_hash;
    for (int32_t n = 0; n < c->L; n++)
        cache->plain[n] = foci_cache_has_groups(cache, n) ? -1 : cache->plain_count++;
    cache->row_bytes = width / focal_dtype_block(dtype) * (int64_t)focal_dtype_block_bytes(dtype);
    cache->block_bytes = (int64_t)cache->plain_count * 2 * FOCI_PAGE_ROWS * cache->row_bytes;
    cache->seqs = foci_alloc(ctx, (size_t)sequences, sizeof *cache->seqs);
    if (!cache->seqs) {
        foci_free(ctx, cache);
        return FOCAL_ENOMEM;
    }
    memset(cache->seqs, 0, (size_t)sequences * sizeof *cache->seqs);
    for (int32_t n = 0; cache->groups && n < sequences; n++) {
        const focal_status status = foci_chains_new(ctx, &cache->groups->shape, &cache->use,
                                                    cache->row_bytes, &cache->seqs[n].chains);
        if (status == FOCAL_OK) continue;
        focal_cache_free(cache);
        return status;
    }
    *out = cache;
    return FOCAL_OK;
}

/* Gives back what holds nothing but pages from `keep` on. */
static void free_pages(const focal_cache *cache, foci_cache_seq *seq, int32_t keep)
{
    for (int32_t n = seq->page_count - 1; n >= keep; n--) {
        if (!seq->owned[n]) continue;
        foci_free(cache->model->ctx, seq->owned[n]);
        seq->page_count = n;
    }
}

void focal_cache_free(focal_cache *cache)
{
    if (!cache) return;
    focal_ctx *ctx = cache->model->ctx;
    for (int32_t n = 0; n < cache->seq_count; n++) {
        foci_cache_seq *seq = &cache->seqs[n];
        free_pages(cache, seq, 0);
        foci_free(ctx, seq->blocks);
        foci_free(ctx, seq->owned);
        foci_free(ctx, seq->pages);
        foci_chains_free(seq->chains);
    }
    foci_free(ctx, cache->seqs);
    foci_free(ctx, cache);
}

focal_status foci_cache_check(const focal_cache *cache, int32_t sequence)
{
    if (sequence >= 0 && sequence < cache->seq_count) return FOCAL_OK;
    return foci_fail(cache->model->ctx, FOCAL_EINVAL, "cache: sequence %d, there are %d", sequence,
                     cache->seq_count);
}

int32_t focal_cache_length(const focal_cache *cache, int32_t sequence)
{
    return foci_cache_check(cache, sequence) == FOCAL_OK ? cache->seqs[sequence].length : 0;
}

/* Tables for more pages; doubled, so that a text that grows by tokens copies them rarely. */
static focal_status grow_tables(focal_cache *cache, foci_cache_seq *seq, int32_t page_count)
{
    focal_ctx *ctx = cache->model->ctx;
    if (page_count <= seq->page_capacity) return FOCAL_OK;
    const int32_t layers = cache->plain_count;
    const int32_t capacity = (int32_t)foci_max64(page_count, 2 * (int64_t)seq->page_capacity);
    void **blocks = foci_alloc(ctx, (size_t)capacity, sizeof *blocks);
    void **owned = foci_alloc(ctx, (size_t)capacity, sizeof *owned);
    const void **pages = foci_alloc(ctx, (size_t)layers * 2 * (size_t)capacity, sizeof *pages);
    if (!blocks || !owned || !pages) {
        foci_free(ctx, blocks);
        foci_free(ctx, owned);
        foci_free(ctx, pages);
        return FOCAL_ENOMEM;
    }
    for (int32_t n = 0; n < seq->page_count; n++) {
        blocks[n] = seq->blocks[n];
        owned[n] = seq->owned[n];
    }
    for (int64_t table = 0; table < (int64_t)layers * 2; table++)
        for (int32_t n = 0; n < seq->page_count; n++)
            pages[table * capacity + n] = seq->pages[table * seq->page_capacity + n];
    foci_free(ctx, seq->blocks);
    foci_free(ctx, seq->owned);
    foci_free(ctx, seq->pages);
    seq->blocks = blocks;
    seq->owned = owned;
    seq->pages = pages;
    seq->page_capacity = capacity;
    return FOCAL_OK;
}

/* `count` more pages, in one allocation. */
static focal_status add_pages(focal_cache *cache, foci_cache_seq *seq, int32_t count)
{
    focal_ctx *ctx = cache->model->ctx;
    const int64_t tables = (int64_t)cache->plain_count * 2;
    FOCAL_TRY(grow_tables(cache, seq, seq->page_count + count));
    char *block = foci_alloc(ctx, (size_t)count, (size_t)cache->block_bytes);
    if (!block) return FOCAL_ENOMEM;
    foci_use_large_pages(block, (size_t)count * (size_t)cache->block_bytes);
    for (int32_t n = 0; n < count; n++, block += cache->block_bytes) {
        for (int64_t table = 0; table < tables; table++)
            seq->pages[table * seq->page_capacity + seq->page_count] =
                block + table * FOCI_PAGE_ROWS * cache->row_bytes;
        seq->owned[seq->page_count] = n == 0 ? block : NULL;
        seq->blocks[seq->page_count++] = block;
    }
    return FOCAL_OK;
}

focal_status foci_cache_reserve(focal_cache *cache, int32_t sequence, int32_t count)
{
    focal_ctx *ctx = cache->model->ctx;
    FOCAL_TRY(foci_cache_check(cache, sequence));
    foci_cache_seq *seq = &cache->seqs[sequence];
    if (count > FOCI_MAX_CONTEXT - seq->length)
        return foci_fail(ctx, FOCAL_EINVAL, "cache: %d tokens and %d more, at most %d", seq->length,
                         count, FOCI_MAX_CONTEXT);
    if (seq->chains) FOCAL_TRY(foci_chains_reserve(seq->chains, count));
    if (cache->plain_count == 0) return FOCAL_OK;
    const int32_t need = (int32_t)foci_pieces((int64_t)seq->length + count, FOCI_PAGE_ROWS);
    if (need <= seq->page_count) return FOCAL_OK;
    /* Twice as many as there were, up to a limit, so that a text that grows by tokens has its pages
     * side by side too. */
    const int64_t most = foci_max64(GROWTH_BYTES / cache->block_bytes, 1);
    const int64_t pages = foci_max64(need - seq->page_count, foci_min64(seq->page_count, most));
    return add_pages(cache, seq, (int32_t)pages);
}

focal_status focal_cache_truncate(focal_cache *cache, int32_t sequence, int32_t length)
{
    FOCAL_TRY(foci_cache_check(cache, sequence));
    foci_cache_seq *seq = &cache->seqs[sequence];
    if (length < 0 || length > seq->length)
        return foci_fail(cache->model->ctx, FOCAL_EINVAL, "cache: cut to %d tokens, there are %d",
                         length, seq->length);
    const int32_t keep = (int32_t)foci_pieces(length, FOCI_PAGE_ROWS);
    free_pages(cache, seq, keep);
    seq->length = length;
    foci_cache_roll_back(cache, sequence);
    return FOCAL_OK;
}

void foci_cache_roll_back(focal_cache *cache, int32_t sequence)
{
    const foci_cache_seq *seq = &cache->seqs[sequence];
    if (seq->chains) foci_chains_truncate(seq->chains, seq->length);
}

focal_status focal_cache_copy(focal_cache *cache, int32_t from, int32_t to)
{
    FOCAL_TRY(foci_cache_check(cache, from));
    FOCAL_TRY(foci_cache_check(cache, to));
    if (from == to) return FOCAL_OK;
    const foci_cache_seq *source = &cache->seqs[from];
    FOCAL_TRY(focal_cache_truncate(cache, to, 0));
    FOCAL_TRY(foci_cache_reserve(cache, to, source->length));
    if (source->chains) FOCAL_TRY(foci_chains_copy(source->chains, cache->seqs[to].chains));
    const int64_t pages = cache->plain_count > 0 ? foci_pieces(source->length, FOCI_PAGE_ROWS) : 0;
    for (int64_t n = 0; n < pages; n++)
        memcpy(cache->seqs[to].blocks[n], source->blocks[n], (size_t)cache->block_bytes);
    cache->seqs[to].length = source->length;
    return FOCAL_OK;
}
