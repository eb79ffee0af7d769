/* Texts with groups kept in files: they go on as they would have, and whatever does not fit, was
 * damaged or finds no memory is refused while the cache stays of use. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/cache.h"
#include "support/folder.h"
#include "support/group_model.h"

enum { TOKENS = 150, SAVED = 101, V = GROUP_V, HEADER_BYTES = 64, HASH_BYTES = 8 };

static const group_kind kinds[] = {
    {FOCAL_DIRECTED, GROUP_G, true, false, {true, false, true}, FOCI_GROUPS_ROUTER},
    {FOCAL_DIRECTED, 1, false, false, {true, true, true}, FOCI_GROUPS_ROUTER},
    {FOCAL_SHARED, GROUP_G, true, false, {true, true, true}, FOCI_GROUPS_ROUTER},
    {FOCAL_SHARED, 1, true, true, {false, true, false}, FOCI_GROUPS_ROUTER},
};

typedef struct rig {
    focal_ctx *ctx;
    group_model m;
    focal_adapter adapter;
    folder f;
    int32_t ids[TOKENS];
    char path[128];
} rig;

static void open_rig(focal_ctx *ctx, const group_kind *kind, rig *r)
{
    *r = (rig){.ctx = ctx, .f = folder_new()};
    group_model_open(ctx, FOCAL_F32, &r->m);
    group_adapter_open(ctx, kind, 3, &r->adapter);
    assert_status(ctx, focal_model_attach(&r->m.model, &r->adapter, NULL), FOCAL_OK);
    for (int n = 0; n < TOKENS; n++) r->ids[n] = (int32_t)foci_random_below(6, 1, (uint64_t)n, V);
    (void)snprintf(r->path, sizeof r->path, "%s", folder_file(&r->f, "text"));
}

static void close_rig(rig *r)
{
    folder_remove(&r->f);
    group_model_close(&r->m);
    group_adapter_close(&r->adapter);
}

static focal_cache *new_cache(rig *r, focal_dtype dtype)
{
    const focal_cache_options options = {.sequences = 2, .dtype = dtype, .has_dtype = true};
    focal_cache *cache = NULL;
    assert_status(r->ctx, focal_cache_new(&r->m.model, &options, &cache), FOCAL_OK);
    return cache;
}

static void feed(rig *r, focal_cache *cache, int32_t sequence, int first, int count, void *logits)
{
    const focal_batch_item item = {sequence, count, r->ids + first, logits ? count : 0};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    assert_status(r->ctx, focal_forward(&r->m.model, cache, &args), FOCAL_OK);
}

static void save(rig *r, focal_cache *cache)
{
    feed(r, cache, 0, 0, SAVED, NULL);
    assert_status(r->ctx, focal_cache_save(cache, 0, r->path), FOCAL_OK);
}

/* The file is refused with this sentence, behind its path; text 1 stays. */
static void assert_refused(rig *r, focal_cache *cache, const char *sentence)
{
    char expected[512];
    const int32_t before = focal_cache_length(cache, 1);
    assert_status(r->ctx, focal_cache_load(cache, 1, r->path), FOCAL_EFORMAT);
    (void)snprintf(expected, sizeof expected, "%s: %s", r->path, sentence);
    assert_string_equal(focal_ctx_error(r->ctx), expected);
    assert_int_equal(focal_cache_length(cache, 1), before);
}

static void texts_go_on(void **state)
{
    static const focal_dtype types[] = {FOCAL_F32, FOCAL_BF16, FOCAL_Q8_0};
    static float clean[TOKENS * V], again[TOKENS * V];
    for (size_t c = 0; c < FOCAL_COUNT(kinds); c++)
        for (size_t t = 0; t < FOCAL_COUNT(types); t++)
            for (int length = 0; length < TOKENS; length += 37) {
                rig r;
                open_rig(*state, &kinds[c], &r);
                focal_cache *cache = new_cache(&r, types[t]), *other = new_cache(&r, types[t]);
                const size_t bytes = (size_t)(TOKENS - length) * V * sizeof(float);
                if (length > 0) feed(&r, cache, 0, 0, length, NULL);
                assert_status(r.ctx, focal_cache_save(cache, 0, r.path), FOCAL_OK);
                feed(&r, cache, 0, length, TOKENS - length, clean);
                feed(&r, other, 1, 9, 77, NULL); /* is replaced */
                assert_status(r.ctx, focal_cache_load(other, 1, r.path), FOCAL_OK);
                assert_int_equal(focal_cache_length(other, 1), length);
                feed(&r, other, 1, length, TOKENS - length, again);
                assert_memory_equal(again, clean, bytes);
                focal_cache_free(cache);
                focal_cache_free(other);
                close_rig(&r);
            }
}

/* A text is bound to everything of the adapter that its keys depend on. */
static void other_adapters_are_refused(void **state)
{
    static const char other[] = "saved with another adapter, or with other groups, window or sinks";
    static const focal_attach_options options[] = {
        {.top = 3},
        {.has_window = true, .window = 8},
        {.has_sinks = true, .sinks = 3},
        {.has_no_groups = true},
        {.has_no_temperatures = true},
        {.has_no_distant = true},
    };
    rig r;
    focal_adapter changed;
    open_rig(*state, &kinds[0], &r);
    focal_cache *cache = new_cache(&r, FOCAL_F32);
    save(&r, cache);
    focal_cache_free(cache);
    for (size_t n = 0; n < FOCAL_COUNT(options); n++) {
        assert_status(r.ctx, focal_model_attach(&r.m.model, &r.adapter, &options[n]), FOCAL_OK);
        cache = new_cache(&r, FOCAL_F32);
        /* which layers have pages differs before anything else */
        const bool has_groups = !options[n].has_no_groups && !options[n].has_no_distant;
        assert_refused(&r, cache, has_groups ? other : "its header contradicts itself");
        focal_cache_free(cache);
    }
    group_adapter_open(r.ctx, &kinds[0], 3, &changed);
    changed.groups->numbers[changed.groups->number_count - 1] += 1e-6F;
    assert_status(r.ctx, focal_model_attach(&r.m.model, &changed, NULL), FOCAL_OK);
    cache = new_cache(&r, FOCAL_F32);
    assert_refused(&r, cache, other);
    focal_cache_free(cache);
    assert_status(r.ctx, focal_model_attach(&r.m.model, NULL, NULL), FOCAL_OK);
    group_adapter_close(&changed);
    cache = new_cache(&r, FOCAL_F32);
    assert_refused(&r, cache, "saved with an adapter, the model runs without");
    save(&r, cache);
    focal_cache_free(cache);
    assert_status(r.ctx, focal_model_attach(&r.m.model, &r.adapter, NULL), FOCAL_OK);
    cache = new_cache(&r, FOCAL_F32);
    assert_refused(&r, cache, "saved without an adapter, the model runs with one");
    focal_cache_free(cache);
    close_rig(&r);
}

/* Temperatures alone change keys too, from the second layer on. */
static void temperatures_alone_are_an_adapter(void **state)
{
    rig r;
    const focal_attach_options alone = {.has_no_groups = true}, near = {.has_no_distant = true};
    open_rig(*state, &kinds[0], &r);
    assert_status(r.ctx, focal_model_attach(&r.m.model, &r.adapter, &alone), FOCAL_OK);
    focal_cache *cache = new_cache(&r, FOCAL_F32);
    save(&r, cache);
    assert_status(r.ctx, focal_cache_load(cache, 1, r.path), FOCAL_OK);
    assert_int_equal(focal_cache_length(cache, 1), SAVED);
    focal_cache_free(cache);
    assert_status(r.ctx, focal_model_attach(&r.m.model, NULL, NULL), FOCAL_OK);
    cache = new_cache(&r, FOCAL_F32);
    assert_refused(&r, cache, "saved with an adapter, the model runs without");
    focal_cache_free(cache);
    assert_status(r.ctx, focal_model_attach(&r.m.model, &r.adapter, &near), FOCAL_OK);
    cache = new_cache(&r, FOCAL_F32);
    assert_refused(&r, cache, "saved with another adapter, or with other groups, window or sinks");
    focal_cache_free(cache);
    close_rig(&r);
}

static void put_mask(uint8_t *bytes, size_t at, uint64_t mask)
{
    memcpy(bytes + at, &mask, sizeof mask);
}

/* Cut short at any place, longer, or with memberships that no router gives. */
static void damage_is_refused(void **state)
{
    for (size_t c = 0; c < FOCAL_COUNT(kinds); c++) {
        rig r;
        size_t bytes = 0;
        open_rig(*state, &kinds[c], &r);
        focal_cache *cache = new_cache(&r, FOCAL_F32);
        save(&r, cache);
        feed(&r, cache, 1, 0, 20, NULL);
        uint8_t *good = read_bytes(r.path, &bytes), *bad = new_array(bytes + 1, 1);
        const size_t pages = (SAVED + FOCI_PAGE_ROWS - 1) / FOCI_PAGE_ROWS;
        const size_t masks = HEADER_BYTES + pages * (size_t)cache->block_bytes + HASH_BYTES;
        for (size_t cut = 0; cut < bytes; cut += cut < masks + 20 ? 1 + bytes / 500 : 3001) {
            write_bytes(r.path, good, cut);
            assert_status(r.ctx, focal_cache_load(cache, 1, r.path), FOCAL_EFORMAT);
            assert_int_equal(focal_cache_length(cache, 1), 20);
        }
        write_bytes(r.path, good, bytes - 1);
        assert_refused(&r, cache, "it ends too early");
        memcpy(bad, good, bytes);
        write_bytes(r.path, bad, bytes + 1);
        assert_refused(&r, cache, "1 bytes too many");
        const uint64_t none[] = {0, 0x7, 0x30, (uint64_t)1 << 63, UINT64_MAX};
        for (size_t n = 0; n < FOCAL_COUNT(none); n++) {
            char sentence[128];
            put_mask(bad, masks + (size_t)8 * 17, none[n]);
            write_bytes(r.path, bad, bytes);
            (void)snprintf(sentence, sizeof sentence, "the groups of layer %d are damaged",
                           kinds[c].layers[0] ? 0 : 1);
            assert_refused(&r, cache, sentence);
        }
        bad[masks - 1] ^= 1;
        write_bytes(r.path, bad, bytes);
        assert_refused(&r, cache,
                       "saved with another adapter, or with other groups, window or sinks");
        feed(&r, cache, 1, 20, 50, NULL); /* still of use */
        assert_int_equal(focal_cache_length(cache, 1), 70);
        free(good);
        free(bad);
        focal_cache_free(cache);
        close_rig(&r);
    }
}

/* Tokens that moved to another group need other pages: the file then has the wrong size. */
static void moved_tokens_are_refused_or_read(void **state)
{
    rig r;
    size_t bytes = 0;
    open_rig(*state, &kinds[1], &r); /* no layer without a router */
    focal_cache *cache = new_cache(&r, FOCAL_F32);
    save(&r, cache);
    uint8_t *bad = read_bytes(r.path, &bytes);
    for (int j = 0; j < SAVED; j++) put_mask(bad, HEADER_BYTES + HASH_BYTES + 8 * (size_t)j, 1);
    write_bytes(r.path, bad, bytes);
    if (focal_cache_load(cache, 1, r.path) == FOCAL_OK) feed(&r, cache, 1, SAVED, 10, NULL);
    put_mask(bad, HEADER_BYTES + HASH_BYTES, 2);
    write_bytes(r.path, bad, bytes);
    if (focal_cache_load(cache, 1, r.path) == FOCAL_OK) feed(&r, cache, 1, SAVED, 10, NULL);
    free(bad);
    focal_cache_free(cache);
    close_rig(&r);
}

static void memory_may_run_out(void **state)
{
    static float clean[TOKENS * V], again[TOKENS * V];
    for (size_t c = 0; c < FOCAL_COUNT(kinds); c++) {
        rig r;
        open_rig(*state, &kinds[c], &r);
        focal_cache *cache = new_cache(&r, FOCAL_F32);
        feed(&r, cache, 0, 0, SAVED, NULL);
        for (int64_t n = 1;; n++) {
            memory_fail(n, true);
            const focal_status status = focal_cache_save(cache, 0, r.path);
            memory_fail(0, false);
            if (status == FOCAL_OK) break;
            assert_status(r.ctx, status, FOCAL_ENOMEM);
            assert_int_equal(folder_count(&r.f), 0);
        }
        feed(&r, cache, 0, SAVED, TOKENS - SAVED, clean);
        int64_t n = 1;
        for (;; n++) {
            focal_cache *other = new_cache(&r, FOCAL_F32);
            feed(&r, other, 0, 0, 30, NULL);
            focal_ctx_trim(r.ctx);
            memory_fail(n, true);
            const focal_status status = focal_cache_load(other, 0, r.path);
            memory_fail(0, false);
            if (status != FOCAL_OK) {
                assert_status(r.ctx, status, FOCAL_ENOMEM);
                assert_true(focal_cache_length(other, 0) == 0 ||
                            focal_cache_length(other, 0) == 30);
                assert_status(r.ctx, focal_cache_load(other, 0, r.path), FOCAL_OK);
            }
            feed(&r, other, 0, SAVED, TOKENS - SAVED, again);
            assert_memory_equal(again, clean, (size_t)(TOKENS - SAVED) * V * sizeof(float));
            focal_cache_free(other);
            if (status == FOCAL_OK) break;
        }
        assert_true(n > 10);
        focal_cache_free(cache);
        close_rig(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_go_on, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_adapters_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(temperatures_alone_are_an_adapter, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(damage_is_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(moved_tokens_are_refused_or_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("groups_file", tests, NULL, NULL);
}
