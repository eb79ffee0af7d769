/* Every family: the logits of a tiny model are those that transformers computes, whether its tokens
 * come at once, in pieces, one by one or beside another text. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/model.h"
#include "support/golden.h"

enum { TOKENS = 48, VOCAB = 96 };

static const char *const names[] = {"llama", "llama3", "linear", "mistral", "qwen2", "yarn",
                                    "qwen3", "olmo2",  "gemma2", "gemma3",  "gpt2",  "wide"};

typedef struct fixture {
    golden *expected;
    focal_model *model;
    int32_t ids[TOKENS];
    const double *logits; /* (TOKENS, VOCAB) */
    double largest;
} fixture;

static void open_fixture(focal_ctx *ctx, const char *name, const char *config,
                         focal_dtype precision, fixture *f)
{
    char path[512];
    (void)config;
    (void)snprintf(path, sizeof path, "models/%s/expected", name);
    f->expected = golden_open(path);
    const golden_case *c = &f->expected->cases[0];
    const double *ids = golden_get(c, "ids", TOKENS);
    f->logits = golden_get(c, "logits", (int64_t)TOKENS * VOCAB);
    f->largest = 0.0;
    for (int n = 0; n < TOKENS; n++) f->ids[n] = (int32_t)ids[n];
    for (int n = 0; n < TOKENS * VOCAB; n++) f->largest = fmax(f->largest, fabs(f->logits[n]));
    (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, name);
    const focal_model_options options = {precision, true};
    if (focal_model_open(ctx, path, &options, &f->model) != FOCAL_OK)
        fail_msg("%s: %s", name, focal_ctx_error(ctx));
}

static void close_fixture(fixture *f)
{
    focal_model_close(f->model);
    golden_close(f->expected);
}

/* The logits of all tokens, read in pieces of `step`. */
static void run(focal_ctx *ctx, fixture *f, focal_dtype cache_type, int step, void *logits)
{
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = cache_type, .has_dtype = true};
    assert_int_equal(focal_cache_new(f->model, &options, &cache), FOCAL_OK);
    for (int first = 0; first < TOKENS; first += step) {
        const int count = first + step < TOKENS ? step : TOKENS - first;
        const focal_batch_item item = {0, count, f->ids + first, count};
        const focal_forward_args args = {
            .item_count = 1, .items = &item, .logits = (float *)logits + (ptrdiff_t)first * VOCAB};
        if (focal_forward(f->model, cache, &args) != FOCAL_OK) fail_msg("%s", focal_ctx_error(ctx));
    }
    assert_int_equal(focal_cache_length(cache, 0), TOKENS);
    focal_cache_free(cache);
}

static double farthest(const float *got, const double *exact)
{
    double most = 0.0;
    for (int n = 0; n < TOKENS * VOCAB; n++) {
        assert_true(isfinite(got[n]));
        most = fmax(most, fabs((double)got[n] - exact[n]));
    }
    return most;
}

static double farthest_apart(const float *a, const float *b)
{
    double most = 0.0;
    for (int n = 0; n < TOKENS * VOCAB; n++) most = fmax(most, fabs((double)a[n] - (double)b[n]));
    return most;
}

static void families_match_transformers(void **state)
{
    focal_ctx *ctx = *state;
    static float whole[TOKENS * VOCAB], pieces[TOKENS * VOCAB];
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        fixture f;
        open_fixture(ctx, names[n], NULL, FOCAL_F32, &f);
        run(ctx, &f, FOCAL_F32, TOKENS, whole);
        const double error = farthest(whole, f.logits) / f.largest;
        print_message("%-8s %.1e of the largest logit\n", names[n], error);
        if (!(error < 1e-5)) fail_msg("%s: off by %g of the largest logit", names[n], error);
        const int steps[] = {1, 5, 17, 47};
        for (size_t s = 0; s < FOCAL_COUNT(steps); s++) {
            run(ctx, &f, FOCAL_F32, steps[s], pieces);
            const double apart = farthest_apart(whole, pieces) / f.largest;
            if (!(apart < 1e-5))
                fail_msg("%s: pieces of %d differ by %g", names[n], steps[s], apart);
        }
        close_fixture(&f);
    }
}

static void bfloat16_is_near(void **state)
{
    focal_ctx *ctx = *state;
    static float got[TOKENS * VOCAB];
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        fixture f;
        open_fixture(ctx, names[n], NULL, FOCAL_BF16, &f);
        run(ctx, &f, FOCAL_BF16, TOKENS, got);
        const double error = farthest(got, f.logits) / f.largest;
        print_message("%-8s %.1e of the largest logit\n", names[n], error);
        if (!(error < 0.1)) fail_msg("%s: off by %g of the largest logit", names[n], error);
        close_fixture(&f);
    }
}

/* Keys and values rounded to 127 levels: near, in both precisions, whole or token by token. */
static void a_cache_in_q8_0_is_near(void **state)
{
    focal_ctx *ctx = *state;
    static float got[TOKENS * VOCAB];
    for (int precision = FOCAL_F32; precision <= FOCAL_BF16; precision++) {
        const int steps[] = {TOKENS, 17, 1};
        fixture f;
        open_fixture(ctx, "wide", NULL, (focal_dtype)precision, &f);
        for (size_t s = 0; s < FOCAL_COUNT(steps); s++) {
            run(ctx, &f, FOCAL_Q8_0, steps[s], got);
            const double error = farthest(got, f.logits) / f.largest;
            print_message("%s, %d tokens a pass: %.1e of the largest logit\n",
                          focal_dtype_name((focal_dtype)precision), steps[s], error);
            if (!(error < (precision == FOCAL_F32 ? 0.02 : 0.1)) || error < 1e-6)
                fail_msg("off by %g of the largest logit", error);
        }
        close_fixture(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(families_match_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bfloat16_is_near, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_cache_in_q8_0_is_near, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
