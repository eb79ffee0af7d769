/* Calls of the forward pass: losses beside logits, caches of the other type, and what is refused,
 * by the pass and by a cache. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/model.h"
#include "support/folder.h"

enum { VOCAB = 96, TOKENS = 40 };

typedef struct rig {
    focal_ctx *ctx;
    focal_model *model;
    int32_t ids[TOKENS + 1];
} rig;

static void open_rig(focal_ctx *ctx, const char *family, focal_dtype precision, rig *r)
{
    char path[512];
    const focal_model_options options = {precision, true};
    *r = (rig){.ctx = ctx};
    for (int n = 0; n <= TOKENS; n++) r->ids[n] = (n * 37 + 11) % VOCAB;
    (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, family);
    if (focal_model_open(ctx, path, &options, &r->model) != FOCAL_OK)
        fail_msg("%s", focal_ctx_error(ctx));
}

static focal_cache *new_cache(const rig *r, focal_dtype dtype, int32_t sequences)
{
    const focal_cache_options options = {.sequences = sequences, .dtype = dtype, .has_dtype = true};
    focal_cache *cache = NULL;
    assert_status(r->ctx, focal_cache_new(r->model, &options, &cache), FOCAL_OK);
    return cache;
}

/* Minus the log-probability of an id, in double. */
static double nll_of(const float *logits, int32_t id)
{
    double sum = 0.0;
    for (int v = 0; v < VOCAB; v++) sum += exp((double)logits[v]);
    return log(sum) - (double)logits[id];
}

/* A batch of two texts, with losses of some tokens and logits of the last few: each is what it
 * would be alone. */
static void losses_come_beside_logits(void **state)
{
    rig r;
    static float all[TOKENS * VOCAB], some[TOKENS * VOCAB];
    double nll[TOKENS];
    int32_t targets[TOKENS];
    open_rig(*state, "gemma2", FOCAL_F32, &r);
    for (int n = 0; n < TOKENS; n++) targets[n] = n % 3 == 0 ? -1 : r.ids[n + 1];
    const int first = 25, second = TOKENS - first;
    focal_cache *cache = new_cache(&r, FOCAL_F32, 2);
    const focal_batch_item whole[] = {{0, first, r.ids, first}, {1, second, r.ids + first, second}};
    const focal_forward_args args = {.item_count = 2, .items = whole, .logits = all};
    assert_status(r.ctx, focal_forward(r.model, cache, &args), FOCAL_OK);
    for (int wanted = 0; wanted <= 3; wanted++) {
        const focal_batch_item items[] = {{0, first, r.ids, wanted},
                                          {1, second, r.ids + first, 2 * wanted}};
        const focal_forward_args both = {.item_count = 2,
                                         .items = items,
                                         .logits = wanted > 0 ? some : NULL,
                                         .targets = targets,
                                         .nll = nll};
        for (int n = 0; n < 2; n++)
            assert_status(r.ctx, focal_cache_truncate(cache, n, 0), FOCAL_OK);
        for (int n = 0; n < TOKENS; n++) nll[n] = -1.0;
        assert_status(r.ctx, focal_forward(r.model, cache, &both), FOCAL_OK);
        for (int n = 0; n < TOKENS; n++) {
            const double exact =
                targets[n] < 0 ? 0.0 : nll_of(all + (ptrdiff_t)n * VOCAB, targets[n]);
            if (!(fabs(nll[n] - exact) < 1e-4)) fail_msg("token %d: %g, %g", n, nll[n], exact);
        }
        for (int n = 0; n < 3 * wanted; n++) {
            const int row = n < wanted ? first - wanted + n : TOKENS - 3 * wanted + n;
            for (int v = 0; v < VOCAB; v++)
                assert_true(fabsf(some[n * VOCAB + v] - all[row * VOCAB + v]) < 1e-4F);
        }
    }
    focal_cache_free(cache);
    focal_model_close(r.model);
}

/* A cache of either type serves a model of either precision; only rounding tells. */
static void caches_of_the_other_type_serve(void **state)
{
    static float exact[VOCAB], got[VOCAB];
    for (int precision = FOCAL_F32; precision <= FOCAL_BF16; precision++) {
        for (int type = FOCAL_F32; type <= FOCAL_BF16; type++) {
            rig r;
            double largest = 0.0, farthest = 0.0;
            open_rig(*state, "qwen3", (focal_dtype)precision, &r);
            focal_cache *cache = new_cache(&r, (focal_dtype)type, 1);
            float *logits = precision == FOCAL_F32 && type == FOCAL_F32 ? exact : got;
            for (int done = 0; done < TOKENS; done += TOKENS / 2) {
                const focal_batch_item item = {0, TOKENS / 2, r.ids + done, 1};
                const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
                assert_status(r.ctx, focal_forward(r.model, cache, &args), FOCAL_OK);
            }
            for (int v = 0; v < VOCAB; v++) {
                largest = fmax(largest, fabs((double)exact[v]));
                farthest = fmax(farthest, fabs((double)logits[v] - (double)exact[v]));
            }
            print_message("%s, cache %s: %.1e of the largest logit\n",
                          focal_dtype_name((focal_dtype)precision),
                          focal_dtype_name((focal_dtype)type), farthest / largest);
            if (!(farthest < 0.05 * largest))
                fail_msg("off by %g of the largest", farthest / largest);
            focal_cache_free(cache);
            focal_model_close(r.model);
        }
    }
}

static void bad_calls_are_refused(void **state)
{
    rig r, other;
    float logits[VOCAB];
    double nll[1];
    open_rig(*state, "gpt2", FOCAL_F32, &r);
    open_rig(*state, "llama", FOCAL_F32, &other);
    focal_cache *cache = new_cache(&r, FOCAL_F32, 1), *foreign = new_cache(&other, FOCAL_F32, 1);
    const int32_t ids[65] = {0};
    const focal_batch_item one = {0, 1, ids, 1}, many = {0, 65, ids, 0}, none = {0, 1, NULL, 0},
                           negative = {0, -1, ids, 0};
    const struct {
        focal_forward_args args;
        const char *sentence;
    } cases[] = {
        {{.item_count = 1, .items = &one}, "forward: no place for logits"},
        {{.item_count = 1, .items = &one, .logits = logits, .nll = nll},
         "forward: targets and nll go together"},
        {{.item_count = 1, .items = &one, .logits = logits, .targets = ids},
         "forward: targets and nll go together"},
        {{.item_count = 1, .items = &many}, "forward: 65 tokens, the model has 64 positions"},
        {{.item_count = 1, .items = &none}, "forward: item 0 has 1 tokens and 0 logits"},
        {{.item_count = 1, .items = &negative}, "forward: item 0 has -1 tokens and 0 logits"},
        {{.item_count = 1}, "forward: no tokens"},
        {{.item_count = -1, .items = &one}, "forward: no tokens"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        assert_status(r.ctx, focal_forward(r.model, cache, &cases[n].args), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(r.ctx), cases[n].sentence);
        assert_int_equal(focal_cache_length(cache, 0), 0);
    }
    const focal_forward_args fine = {.item_count = 1, .items = &one, .logits = logits};
    assert_status(r.ctx, focal_forward(r.model, foreign, &fine), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(r.ctx), "forward: the cache belongs to another model");
    assert_status(r.ctx, focal_forward(r.model, cache, &fine), FOCAL_OK);
    focal_cache_free(foreign);
    focal_cache_free(cache);
    focal_model_close(other.model);
    focal_model_close(r.model);
}

/* A saved text belongs to a model and to a type of cache. */
static void texts_of_others_are_refused(void **state)
{
    rig r, other;
    open_rig(*state, "qwen3", FOCAL_F32, &r);
    open_rig(*state, "llama", FOCAL_F32, &other);
    const folder f = folder_new();
    const char *path = folder_file(&f, "text");
    focal_cache *cache = new_cache(&r, FOCAL_F32, 1), *halves = new_cache(&r, FOCAL_BF16, 1);
    focal_cache *foreign = new_cache(&other, FOCAL_F32, 1);
    char expected[256];
    const focal_batch_item item = {0, 5, r.ids, 0};
    const focal_forward_args args = {.item_count = 1, .items = &item};
    assert_status(r.ctx, focal_forward(r.model, cache, &args), FOCAL_OK);
    assert_status(r.ctx, focal_cache_save(cache, 0, path), FOCAL_OK);
    assert_status(r.ctx, focal_cache_load(foreign, 0, path), FOCAL_EFORMAT);
    (void)snprintf(expected, sizeof expected, "%s: saved with another model (%s, this one is %s)",
                   path, focal_model_fingerprint(r.model), focal_model_fingerprint(other.model));
    assert_string_equal(focal_ctx_error(r.ctx), expected);
    assert_status(r.ctx, focal_cache_load(halves, 0, path), FOCAL_EFORMAT);
    (void)snprintf(expected, sizeof expected, "%s: saved as f32, this cache is bf16", path);
    assert_string_equal(focal_ctx_error(r.ctx), expected);
    assert_status(r.ctx, focal_cache_load(cache, 1, path), FOCAL_EINVAL);
    assert_status(r.ctx, focal_cache_load(cache, 0, folder_file(&f, "none")), FOCAL_EIO);
    assert_status(r.ctx, focal_cache_save(cache, 1, path), FOCAL_EINVAL);
    assert_status(r.ctx, focal_cache_save(cache, 0, folder_file(&f, "no/such")), FOCAL_EIO);
    assert_int_equal(focal_cache_length(cache, 0), 5);
    assert_int_equal(focal_cache_length(cache, 1), 0);
    const focal_cache_options many = {.sequences = 4097}, few = {.sequences = -1};
    focal_cache *none = NULL;
    assert_status(r.ctx, focal_cache_new(r.model, &many, &none), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(r.ctx), "cache: 4097 sequences, at most 4096");
    assert_status(r.ctx, focal_cache_new(r.model, &few, &none), FOCAL_EINVAL);
    const focal_cache_options odd = {.dtype = FOCAL_Q4_0, .has_dtype = true};
    assert_status(r.ctx, focal_cache_new(r.model, &odd, &none), FOCAL_EINVAL);
    assert_null(none);
    focal_cache_free(foreign);
    focal_cache_free(halves);
    focal_cache_free(cache);
    focal_model_close(other.model);
    focal_model_close(r.model);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(losses_come_beside_logits, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(caches_of_the_other_type_serve, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(texts_of_others_are_refused, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("forward", tests, NULL, NULL);
}
