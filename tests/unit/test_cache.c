/* The cache: several texts in one batch, cutting, copying, and keeping a text in a file; every way
 * leads to the same logits. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "focal/quant.h"
#include "model/cache.h"

enum { VOCAB = 96, TOKENS = 150 /* more than two pages */ };

typedef struct rig {
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    int32_t ids[TOKENS];
    float logits[4 * VOCAB];
} rig;

static void open_model(focal_ctx *ctx, const char *path, rig *r)
{
    const focal_model_options options = {FOCAL_F32, true};
    *r = (rig){.ctx = ctx};
    for (int n = 0; n < TOKENS; n++) r->ids[n] = (n * 37 + 11) % VOCAB;
    if (focal_model_open(ctx, path, &options, &r->model) != FOCAL_OK)
        fail_msg("%s", focal_ctx_error(ctx));
}

static void open_rig(focal_ctx *ctx, int32_t sequences, rig *r)
{
    const focal_cache_options cache = {.sequences = sequences};
    open_model(ctx, FOCAL_TEST_DIR "/golden/models/qwen3", r);
    assert_int_equal(focal_cache_new(r->model, &cache, &r->cache), FOCAL_OK);
}

/* With a model whose heads are whole blocks. */
static void open_wide(focal_ctx *ctx, focal_dtype dtype, rig *r)
{
    const focal_cache_options cache = {.sequences = 2, .dtype = dtype, .has_dtype = true};
    open_model(ctx, FOCAL_TEST_DIR "/golden/models/wide", r);
    assert_int_equal(focal_cache_new(r->model, &cache, &r->cache), FOCAL_OK);
}

static void close_rig(rig *r)
{
    focal_cache_free(r->cache);
    focal_model_close(r->model);
}

/* Tokens [first, first + count) to a sequence; the last one's logits. */
static void feed(rig *r, int32_t sequence, int first, int count, void *logits)
{
    const focal_batch_item item = {sequence, count, r->ids + first, 1};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    if (focal_forward(r->model, r->cache, &args) != FOCAL_OK)
        fail_msg("%s", focal_ctx_error(r->ctx));
}

static void assert_near(const float *a, const float *b)
{
    for (int n = 0; n < VOCAB; n++) {
        assert_true(isfinite(a[n]));
        if (fabsf(a[n] - b[n]) > 1e-4F)
            fail_msg("logit %d: %g and %g", n, (double)a[n], (double)b[n]);
    }
}

static void texts_share_a_batch(void **state)
{
    rig r;
    float alone[VOCAB];
    open_rig(*state, 3, &r);
    feed(&r, 0, 0, 100, alone);
    /* The same text, beside one of another length at another place. */
    feed(&r, 1, 0, 60, r.logits);
    feed(&r, 2, 50, 5, r.logits);
    const focal_batch_item items[] = {{2, 30, r.ids + 55, 0}, {1, 40, r.ids + 60, 2}};
    const focal_forward_args args = {.item_count = 2, .items = items, .logits = r.logits};
    assert_int_equal(focal_forward(r.model, r.cache, &args), FOCAL_OK);
    assert_near(r.logits + VOCAB, alone);
    assert_int_equal(focal_cache_length(r.cache, 1), 100);
    assert_int_equal(focal_cache_length(r.cache, 2), 35);
    close_rig(&r);
}

static void cutting_forgets(void **state)
{
    rig r;
    float whole[VOCAB];
    open_rig(*state, 2, &r);
    feed(&r, 0, 0, 130, whole);
    feed(&r, 1, 0, 70, r.logits);
    feed(&r, 1, 5, 60, r.logits); /* other tokens, to be cut away */
    assert_int_equal(focal_cache_truncate(r.cache, 1, 70), FOCAL_OK);
    feed(&r, 1, 70, 60, r.logits);
    assert_near(r.logits, whole);
    assert_int_equal(focal_cache_truncate(r.cache, 1, 131), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(r.ctx), "cache: cut to 131 tokens, there are 130");
    assert_int_equal(focal_cache_truncate(r.cache, 2, 0), FOCAL_EINVAL);
    close_rig(&r);
}

static void copies_go_their_own_ways(void **state)
{
    rig r;
    float whole[VOCAB], other[VOCAB];
    open_rig(*state, 2, &r);
    feed(&r, 0, 0, 90, whole);
    assert_int_equal(focal_cache_copy(r.cache, 0, 1), FOCAL_OK);
    feed(&r, 1, 20, 40, other); /* must not reach into the first */
    feed(&r, 0, 90, 30, r.logits);
    assert_int_equal(focal_cache_truncate(r.cache, 0, 0), FOCAL_OK);
    feed(&r, 0, 0, 120, whole);
    assert_near(r.logits, whole);
    close_rig(&r);
}

static void a_text_survives_in_a_file(void **state)
{
    rig r;
    float went_on[VOCAB];
    char path[] = "/tmp/focal_cache_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    open_rig(*state, 2, &r);
    feed(&r, 0, 0, 77, r.logits);
    assert_int_equal(focal_cache_save(r.cache, 0, path), FOCAL_OK);
    feed(&r, 0, 77, 20, went_on);
    assert_int_equal(focal_cache_load(r.cache, 1, path), FOCAL_OK);
    assert_int_equal(focal_cache_length(r.cache, 1), 77);
    feed(&r, 1, 77, 20, r.logits);
    assert_near(r.logits, went_on);

    /* Cut short at any place, or changed in any byte of the header, it is refused. */
    FILE *saved = fopen(path, "rb");
    assert_non_null(saved);
    static char bytes[1 << 20];
    const size_t size = fread(bytes, 1, sizeof bytes, saved);
    (void)fclose(saved);
    const size_t cuts[] = {0, 1, 63, 64, 65, size - 1};
    for (size_t n = 0; n < FOCAL_COUNT(cuts); n++) {
        FILE *cut = fopen(path, "wb");
        assert_non_null(cut);
        assert_int_equal(fwrite(bytes, 1, cuts[n], cut), cuts[n]);
        (void)fclose(cut);
        assert_int_equal(focal_cache_load(r.cache, 1, path), FOCAL_EFORMAT);
        assert_int_equal(focal_cache_length(r.cache, 1), 97); /* as it was */
    }
    for (size_t n = 0; n < 64; n++) {
        FILE *bent = fopen(path, "wb");
        assert_non_null(bent);
        bytes[n] ^= 0x15;
        assert_int_equal(fwrite(bytes, 1, size, bent), size);
        (void)fclose(bent);
        bytes[n] ^= 0x15;
        if (focal_cache_load(r.cache, 1, path) != FOCAL_EFORMAT) fail_msg("byte %zu", n);
    }
    unlink(path);
    close_rig(&r);
}

/* What a cache in q8_0 holds of the first layer, which has seen nothing rounded yet, is at most
 * half a level away from what a cache in float32 does. */
static void rows_in_q8_0_are_near(void **state)
{
    enum { WIDTH = 64 };
    rig exact, r;
    open_wide(*state, FOCAL_F32, &exact);
    open_wide(*state, FOCAL_Q8_0, &r);
    feed(&exact, 0, 0, TOKENS, exact.logits);
    feed(&r, 0, 0, 70, r.logits); /* in two passes, over the edges of pages */
    feed(&r, 0, 70, TOKENS - 70, r.logits);
    assert_int_equal(r.cache->row_bytes, WIDTH / 32 * 34);
    for (int32_t at = 0; at < 2 * TOKENS; at++) {
        float row[WIDTH];
        const float *x =
            (const void *)foci_cache_row(exact.cache, exact.cache->seqs, 0, at % 2, at / 2);
        const char *blocks = foci_cache_row(r.cache, r.cache->seqs, 0, at % 2, at / 2);
        assert_int_equal(focal_dequantize(FOCAL_Q8_0, blocks, WIDTH, row), FOCAL_OK);
        for (int n = 0; n < WIDTH; n++) {
            float most = 0.0F;
            for (int d = n / 32 * 32; d < n / 32 * 32 + 32; d++) most = fmaxf(most, fabsf(x[d]));
            /* and what the scale lost as a float16 */
            if (!(fabsf(row[n] - x[n]) <= most * (0.5F / 127.0F + 0x1p-11F) * 1.001F))
                fail_msg("token %d, element %d: %g and %g", at / 2, n, (double)row[n],
                         (double)x[n]);
        }
    }
    close_rig(&exact);
    close_rig(&r);
}

static void a_text_in_q8_0_survives_in_a_file(void **state)
{
    rig r, other;
    float went_on[VOCAB], copied[VOCAB];
    char path[] = "/tmp/focal_cache_XXXXXX";
    const int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    open_wide(*state, FOCAL_Q8_0, &r);
    open_wide(*state, FOCAL_F32, &other);
    feed(&r, 0, 0, 77, r.logits);
    assert_int_equal(focal_cache_save(r.cache, 0, path), FOCAL_OK);
    assert_int_equal(focal_cache_copy(r.cache, 0, 1), FOCAL_OK);
    feed(&r, 0, 77, 20, went_on);
    feed(&r, 1, 77, 20, copied);
    assert_memory_equal(copied, went_on, sizeof went_on);
    assert_int_equal(focal_cache_truncate(r.cache, 0, 77), FOCAL_OK);
    feed(&r, 0, 77, 20, r.logits);
    assert_memory_equal(r.logits, went_on, sizeof went_on);
    assert_int_equal(focal_cache_load(r.cache, 1, path), FOCAL_OK);
    assert_int_equal(focal_cache_length(r.cache, 1), 77);
    feed(&r, 1, 77, 20, r.logits);
    assert_memory_equal(r.logits, went_on, sizeof went_on);
    char sentence[128];
    (void)snprintf(sentence, sizeof sentence, "%s: saved as q8_0, this cache is f32", path);
    assert_int_equal(focal_cache_load(other.cache, 0, path), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(r.ctx), sentence);
    unlink(path);
    close_rig(&r);
    close_rig(&other);
}

static void types_are_checked(void **state)
{
    rig r;
    focal_cache *cache = NULL;
    focal_cache_options options = {.dtype = FOCAL_Q8_0, .has_dtype = true};
    open_rig(*state, 1, &r);
    assert_int_equal(focal_cache_new(r.model, &options, &cache), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(r.ctx),
                        "cache: heads of 16 are not whole blocks of 32, so it cannot be q8_0");
    assert_null(cache);
    options.dtype = FOCAL_Q4_0;
    assert_int_equal(focal_cache_new(r.model, &options, &cache), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(r.ctx), "cache: q4_0 is not f32, bf16 or q8_0");
    close_rig(&r);
}

static void bad_batches_are_refused(void **state)
{
    rig r;
    open_rig(*state, 2, &r);
    const int32_t beyond[] = {3, VOCAB};
    const struct {
        focal_batch_item items[2];
        int32_t count;
        const char *sentence;
    } cases[] = {
        {{{0}}, 0, "forward: no tokens"},
        {{{0, 0, r.ids, 0}}, 1, "forward: item 0 has 0 tokens and 0 logits"},
        {{{0, 2, r.ids, 3}}, 1, "forward: item 0 has 2 tokens and 3 logits"},
        {{{2, 2, r.ids, 1}}, 1, "forward: sequence 2, the cache has 2"},
        {{{1, 2, r.ids, 1}, {1, 2, r.ids, 1}}, 2, "forward: sequence 1 twice in one batch"},
        {{{0, 2, beyond, 1}}, 1, NULL},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const focal_forward_args args = {
            .item_count = cases[n].count, .items = cases[n].items, .logits = r.logits};
        assert_int_equal(focal_forward(r.model, r.cache, &args), FOCAL_EINVAL);
        if (cases[n].sentence) assert_string_equal(focal_ctx_error(r.ctx), cases[n].sentence);
        assert_int_equal(focal_cache_length(r.cache, 0), 0);
    }
    close_rig(&r);
}

/* Each allocation fails once, of opening and of a pass; nothing leaks, and the cache stays. */
static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    const focal_model_options options = {FOCAL_F32, true};
    for (int64_t n = 1;; n++) {
        focal_model *model = NULL;
        memory_fail(n, false);
        const focal_status status =
            focal_model_open(ctx, FOCAL_TEST_DIR "/golden/models/llama", &options, &model);
        memory_fail(0, false);
        if (status == FOCAL_OK) {
            focal_model_close(model);
            break;
        }
        assert_int_equal(status, FOCAL_ENOMEM);
        assert_null(model);
    }
    for (int has_blocks = 0; has_blocks < 2; has_blocks++) {
        rig r;
        open_wide(ctx, has_blocks ? FOCAL_Q8_0 : FOCAL_F32, &r);
        for (int64_t n = 1;; n++) {
            const focal_batch_item item = {0, TOKENS, r.ids, 1};
            const focal_forward_args args = {.item_count = 1, .items = &item, .logits = r.logits};
            focal_ctx_trim(ctx);
            memory_fail(n, false);
            const focal_status status = focal_forward(r.model, r.cache, &args);
            memory_fail(0, false);
            if (status == FOCAL_OK) break;
            assert_int_equal(status, FOCAL_ENOMEM);
            assert_int_equal(focal_cache_length(r.cache, 0), 0);
        }
        close_rig(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(texts_share_a_batch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(cutting_forgets, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(copies_go_their_own_ways, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_text_survives_in_a_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_in_q8_0_are_near, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_text_in_q8_0_survives_in_a_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(types_are_checked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_batches_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
