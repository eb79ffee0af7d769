/* Texts kept in files: a header, the pages of the layers without groups up to the last token's;
 * then, of a text with an adapter, a name for that, and for each layer with groups its tokens'
 * memberships and its pages. */
#include <stddef.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/sizes.h"
#include "io/file.h"
#include "model/cache.h"

enum { HEADER_BYTES = 64 };

/* Little endian, as everything that focal runs on. */
typedef struct cache_header {
    char magic[8]; /* "focalkv1", or with an adapter "focalkvg" */
    char fingerprint[FOCI_FINGERPRINT_BYTES + 7];
    uint32_t dtype, page_rows;
    uint32_t length, page_count;
    uint64_t block_bytes;
    uint64_t check; /* of everything before it */
} cache_header;
_Static_assert(sizeof(cache_header) == HEADER_BYTES, "the header has no holes");

static const char magics[2][8] = {{'f', 'o', 'c', 'a', 'l', 'k', 'v', '1'},
                                  {'f', 'o', 'c', 'a', 'l', 'k', 'v', 'g'}};

static uint64_t hash_header(const cache_header *header)
{
    return foci_hash_bytes(FOCI_HASH_BEGIN, header, offsetof(cache_header, check));
}

static cache_header header_of(const focal_cache *cache, int32_t length)
{
    const int64_t pages = cache->plain_count > 0 ? foci_pieces(length, FOCI_PAGE_ROWS) : 0;
    cache_header header = {.dtype = (uint32_t)cache->dtype,
                           .page_rows = FOCI_PAGE_ROWS,
                           .length = (uint32_t)length,
                           .page_count = (uint32_t)pages,
                           .block_bytes = (uint64_t)cache->block_bytes};
    memcpy(header.magic, magics[cache->adapter_hash != 0], sizeof header.magic);
    memcpy(header.fingerprint, cache->model->fingerprint, FOCI_FINGERPRINT_BYTES);
    header.check = hash_header(&header);
    return header;
}

/* Zeros behind the last token of a page that is partly used: a file holds no other memory. */
static void clear_room(const focal_cache *cache, const foci_cache_seq *seq)
{
    const int32_t used = seq->length % FOCI_PAGE_ROWS;
    for (int32_t n = 0; used > 0 && n < cache->model->config.L; n++)
        for (int32_t is_value = 0; is_value < 2 && cache->plain[n] >= 0; is_value++)
            memset(foci_cache_row(cache, seq, n, is_value, seq->length), 0,
                   (size_t)(FOCI_PAGE_ROWS - used) * (size_t)cache->row_bytes);
    if (seq->chains) foci_chains_clear_room(seq->chains);
}

static focal_status put_chains(focal_ctx *ctx, foci_writer *writer, const foci_chains *chains,
                               int32_t length)
{
    const size_t rows = (size_t)length * (size_t)chains->shape.routers;
    uint64_t *masks = foci_alloc(ctx, rows, sizeof *masks);
    if (!masks) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < chains->shape.L; n++) {
        if (!chains->layers[n].set) continue;
        foci_chains_masks(chains, n, masks);
        foci_writer_put(writer, masks, rows * sizeof *masks);
        for (int32_t r = 0; r < chains->stores; r++) {
            const foci_chain_store *store = foci_chains_store(chains, n, r);
            for (int32_t page = 0; page < store->page_count; page++)
                foci_writer_put(writer, store->pages[0][page], foci_chains_page_bytes(chains));
        }
    }
    foci_free(ctx, masks);
    return FOCAL_OK;
}

focal_status focal_cache_save(const focal_cache *cache, int32_t sequence, const char *path)
{
    FOCAL_TRY(foci_cache_check(cache, sequence));
    const foci_cache_seq *seq = &cache->seqs[sequence];
    const cache_header header = header_of(cache, seq->length);
    foci_writer *writer = NULL;
    FOCAL_TRY(foci_writer_open(cache->model->ctx, path, &writer));
    clear_room(cache, seq);
    foci_writer_put(writer, &header, sizeof header);
    for (uint32_t n = 0; n < header.page_count; n++)
        foci_writer_put(writer, seq->blocks[n], (size_t)cache->block_bytes);
    if (cache->adapter_hash != 0)
        foci_writer_put(writer, &cache->adapter_hash, sizeof cache->adapter_hash);
    if (seq->chains && seq->length > 0) {
        const focal_status status = put_chains(cache->model->ctx, writer, seq->chains, seq->length);
        if (status != FOCAL_OK) {
            foci_writer_abandon(writer);
            return status;
        }
    }
    return foci_writer_commit(writer);
}

static focal_status check_saved(const focal_cache *cache, const char *path, const foci_map *map,
                                cache_header *header)
{
    focal_ctx *ctx = cache->model->ctx;
    if (map->bytes < sizeof *header)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %zu bytes, a saved text has at least %d", path,
                         map->bytes, HEADER_BYTES);
    memcpy(header, map->data, sizeof *header);
    const bool is_adapted = memcmp(header->magic, magics[1], sizeof header->magic) == 0;
    if (!is_adapted && memcmp(header->magic, magics[0], sizeof header->magic) != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: not a text that focal saved", path);
    if (header->check != hash_header(header))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: its header is damaged", path);
    if (memcmp(header->fingerprint, cache->model->fingerprint, FOCI_FINGERPRINT_BYTES) != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: saved with another model (%.16s, this one is %s)",
                         path, header->fingerprint, cache->model->fingerprint);
    if (header->length > FOCI_MAX_CONTEXT)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %u tokens, at most %d", path, header->length,
                         FOCI_MAX_CONTEXT);
    const cache_header expected = header_of(cache, (int32_t)header->length);
    if (header->dtype != expected.dtype)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: saved as %s, this cache is %s", path,
                         focal_dtype_name((focal_dtype)header->dtype),
                         focal_dtype_name(cache->dtype));
    if (is_adapted != (cache->adapter_hash != 0))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: saved %s an adapter, the model runs %s", path,
                         is_adapted ? "with" : "without", is_adapted ? "without" : "with one");
    if (memcmp(header, &expected, sizeof expected) != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: its header contradicts itself", path);
    const size_t bytes = sizeof *header + (size_t)header->page_count * (size_t)cache->block_bytes;
    if (map->bytes < bytes || (!is_adapted && map->bytes != bytes))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %zu bytes, %u tokens need %zu", path, map->bytes,
                         header->length, bytes);
    return FOCAL_OK;
}

/* What is left to read of a file. */
typedef struct rest {
    const char *path;
    const uint8_t *from;
    size_t bytes;
} rest;

static const uint8_t *take(focal_ctx *ctx, rest *file, size_t bytes)
{
    if (file->bytes < bytes) {
        (void)foci_fail(ctx, FOCAL_EFORMAT, "%s: it ends too early", file->path);
        return NULL;
    }
    const uint8_t *taken = file->from;
    file->from += bytes;
    file->bytes -= bytes;
    return taken;
}

/* Everything behind the pages, before a text is given up for it. */
static focal_status check_adapted(const focal_cache *cache, const foci_chains *chains, rest file,
                                  int32_t length)
{
    focal_ctx *ctx = cache->model->ctx;
    uint64_t hash;
    const uint8_t *saved = take(ctx, &file, sizeof hash);
    if (!saved) return FOCAL_EFORMAT;
    memcpy(&hash, saved, sizeof hash);
    if (hash != cache->adapter_hash)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: saved with another adapter, or with other groups, window or sinks",
                         file.path);
    for (int32_t n = 0; chains && n < chains->shape.L; n++) {
        if (!chains->layers[n].set) continue;
        const uint8_t *masks =
            take(ctx, &file, (size_t)length * (size_t)chains->shape.routers * sizeof(uint64_t));
        if (!masks) return FOCAL_EFORMAT;
        const int64_t pages = foci_chains_pages(chains, length, masks);
        if (pages < 0)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: the groups of layer %d are damaged",
                             file.path, n);
        if (!take(ctx, &file, (size_t)pages * foci_chains_page_bytes(chains))) return FOCAL_EFORMAT;
    }
    if (file.bytes != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %zu bytes too many", file.path, file.bytes);
    return FOCAL_OK;
}

/* A layer that check_adapted() has seen; returns what lies behind it, NULL without memory. */
static const uint8_t *read_layer(focal_ctx *ctx, const uint8_t *from, foci_chains *chains,
                                 int32_t layer, int32_t length)
{
    const size_t rows = (size_t)length * (size_t)chains->shape.routers;
    uint64_t *masks = foci_alloc(ctx, rows, sizeof *masks); /* a file's bytes lie anywhere */
    if (!masks) return NULL;
    memcpy(masks, from, rows * sizeof *masks);
    const focal_status status = foci_chains_refill(chains, layer, length, masks);
    foci_free(ctx, masks);
    if (status != FOCAL_OK) return NULL;
    from += rows * sizeof *masks;
    const size_t bytes = foci_chains_page_bytes(chains);
    for (int32_t r = 0; r < chains->stores; r++) {
        const foci_chain_store *store = foci_chains_store(chains, layer, r);
        for (int32_t page = 0; page < store->page_count; page++, from += bytes)
            memcpy(store->pages[0][page], from, bytes);
    }
    return from;
}

focal_status focal_cache_load(focal_cache *cache, int32_t sequence, const char *path)
{
    FOCAL_TRY(foci_cache_check(cache, sequence));
    foci_map map;
    cache_header header = {.length = 0};
    foci_cache_seq *seq = &cache->seqs[sequence];
    foci_chains *chains = seq->chains;
    FOCAL_TRY(foci_map_open(cache->model->ctx, path, &map));
    focal_status status = check_saved(cache, path, &map, &header);
    const int32_t length = (int32_t)header.length;
    const size_t block = (size_t)cache->block_bytes, pages = header.page_count * block;
    if (status == FOCAL_OK && cache->adapter_hash != 0) {
        const rest file = {path, map.data + sizeof header + pages,
                           map.bytes - sizeof header - pages};
        status = check_adapted(cache, chains, file, length);
    }
    if (status == FOCAL_OK) status = focal_cache_truncate(cache, sequence, 0);
    if (status == FOCAL_OK) status = foci_cache_reserve(cache, sequence, length);
    if (status == FOCAL_OK) {
        for (uint32_t n = 0; n < header.page_count; n++)
            memcpy(seq->blocks[n], map.data + sizeof header + n * block, block);
        const uint8_t *from = map.data + sizeof header + pages;
        if (chains) from += sizeof cache->adapter_hash;
        for (int32_t n = 0; from && chains && length > 0 && n < chains->shape.L; n++)
            if (chains->layers[n].set)
                from = read_layer(cache->model->ctx, from, chains, n, length);
        seq->length = from ? length : 0;
        if (!from) {
            status = FOCAL_ENOMEM;
            foci_cache_roll_back(cache, sequence);
        }
    }
    foci_map_close(&map);
    return status;
}
