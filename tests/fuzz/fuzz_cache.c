/* Any bytes as a saved text: it is refused with a sentence and the text of the cache stays, or it
 * is loaded and the model reads on. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/sizes.h"
#include "model/adapter.h"
#include "model/cache.h"
#include "support/memory_model.h"

enum { HEADER_BYTES = 64, FINGERPRINT_AT = 8, CHECK_AT = 56, V = 8, MOST_BYTES = 1 << 16 };

static focal_ctx *ctx;
static focal_model model;
static focal_adapter adapters[2]; /* directed and shared groups */
static int file;
static char path[64];

/* Two groups and a window of two keys. */
static void set_up_groups(focal_adapter *adapter, focal_keys_mode mode)
{
    static char name[] = "groups";
    const foci_groups_shape shape = {.L = 1,
                                     .C = 4,
                                     .H = 1,
                                     .G = 1,
                                     .K = 2,
                                     .R = 1,
                                     .routers = 1,
                                     .mode = mode,
                                     .has_temperatures = true,
                                     .layers = {true}};
    *adapter = (focal_adapter){.ctx = ctx, .path = name};
    memcpy(adapter->fingerprint, model.fingerprint, FOCI_FINGERPRINT_BYTES);
    if (foci_groups_new(ctx, &shape, &adapter->groups) != FOCAL_OK) abort();
    for (int64_t n = 0; n < adapter->groups->number_count; n++)
        adapter->groups->numbers[n] = (float)(n * 5 % 7 - 3) / 4.0F;
    adapter->groups->top = 1;
    adapter->groups->window = 2;
    adapter->groups->sinks = 1;
}

/* One layer of one head: a page of 64 tokens is 1 KB in float32. */
static void set_up(void)
{
    const focal_ctx_options options = {.threads = 1};
    const foci_config config = {.family = foci_family_of_hf("llama"),
                                .L = 1,
                                .C = 4,
                                .H = 1,
                                .G = 1,
                                .D = 2,
                                .F = 4,
                                .V = V,
                                .context = 64,
                                .is_gated = true,
                                .epsilon = 1e-5F,
                                .embed_scale = 1.0F,
                                .attn_scale = 1.0F,
                                .rope = {.rotated = 2, .base = 10000.0},
                                .rope_local = {.rotated = 2, .base = 10000.0}};
    if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK ||
        memory_model_from_config(ctx, &config, FOCAL_F32, &model) != FOCAL_OK)
        abort();
    set_up_groups(&adapters[0], FOCAL_DIRECTED);
    set_up_groups(&adapters[1], FOCAL_SHARED);
    file = memfd_create("saved", 0);
    if (file < 0) abort();
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", file);
}

/* The checksum that the header would have, and the adapter's name where the cache has one: without
 * them nothing behind them is ever looked at. */
static void mend_header(uint8_t *bytes, size_t size)
{
    const size_t named = HEADER_BYTES + sizeof model.adapter_hash;
    if (model.adapter_hash != 0 && size >= named)
        memcpy(bytes + HEADER_BYTES, &model.adapter_hash, sizeof model.adapter_hash);
    uint64_t hash = 0xCBF29CE484222325U;
    memcpy(bytes + FINGERPRINT_AT, model.fingerprint, FOCI_FINGERPRINT_BYTES);
    for (int n = 0; n < CHECK_AT; n++) hash = (hash ^ bytes[n]) * 0x100000001B3U;
    for (int n = 0; n < 8; n++) bytes[CHECK_AT + n] = (uint8_t)(hash >> 8 * n);
}

static void write_all(const uint8_t *data, size_t bytes)
{
    if (ftruncate(file, 0) != 0 || pwrite(file, data, bytes, 0) != (ssize_t)bytes) abort();
}

static focal_status read_on(focal_cache *cache)
{
    float logits[V];
    const int32_t id = 3;
    const focal_batch_item item = {0, 1, &id, 1};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    return focal_forward(&model, cache, &args);
}

static void check_load(focal_cache *cache, size_t size)
{
    const int32_t before = focal_cache_length(cache, 0);
    const focal_status status = focal_cache_load(cache, 0, path);
    const char *message = focal_ctx_error(ctx);
    if (status != FOCAL_OK) {
        if (message[0] == '\0' || strchr(message, '\n')) abort();
        if (focal_cache_length(cache, 0) != before) abort();
        return;
    }
    const size_t pages = (size_t)foci_pieces(focal_cache_length(cache, 0), FOCI_PAGE_ROWS);
    if (!cache->groups && size != HEADER_BYTES + pages * (size_t)cache->block_bytes) abort();
    if (read_on(cache) != FOCAL_OK) abort();
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the cache's type, whether the checksum is mended, and groups; the rest is
 * the file. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!ctx) set_up();
    if (size < 1 || size > MOST_BYTES) return 0;
    const focal_adapter *adapter = data[0] & 4 ? &adapters[data[0] >> 3 & 1] : NULL;
    if (focal_model_attach(&model, adapter, NULL) != FOCAL_OK) abort();
    uint8_t *bytes = malloc(size);
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = data[0] & 1 ? FOCAL_BF16 : FOCAL_F32,
                                         .has_dtype = true};
    if (!bytes || focal_cache_new(&model, &options, &cache) != FOCAL_OK) abort();
    memcpy(bytes, data + 1, size - 1);
    if (data[0] & 2 && size - 1 >= HEADER_BYTES) mend_header(bytes, size - 1);
    write_all(bytes, size - 1);
    if (read_on(cache) != FOCAL_OK) abort(); /* a text of one token that may be replaced */
    check_load(cache, size - 1);
    focal_cache_free(cache);
    focal_ctx_trim(ctx); /* an empty block that is kept looks like a leak: nothing points into it */
    free(bytes);
    return 0;
}
