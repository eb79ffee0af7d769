/* Every family: the logits of a tiny model are those that transformers computes, whether its tokens
 * come at once, in pieces, one by one or beside another text; and a cache in q8_0. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/model.h"
#include "focal/quant.h"
#include "model/cache.h"
#include "ops/blocks.h"
#include "support/golden.h"
#include "support/oracle_llama.h"

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

/* The logits of all tokens, read in pieces of `step`, and the cache that is left. */
static focal_cache *read_text(focal_ctx *ctx, fixture *f, focal_dtype cache_type, int step,
                              float *logits)
{
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = cache_type, .has_dtype = true};
    assert_int_equal(focal_cache_new(f->model, &options, &cache), FOCAL_OK);
    for (int first = 0; first < TOKENS; first += step) {
        const int count = first + step < TOKENS ? step : TOKENS - first;
        const focal_batch_item item = {0, count, f->ids + first, count};
        focal_forward_args args = {.item_count = 1, .items = &item};
        args.logits = logits + (ptrdiff_t)first * VOCAB;
        if (focal_forward(f->model, cache, &args) != FOCAL_OK) fail_msg("%s", focal_ctx_error(ctx));
    }
    assert_int_equal(focal_cache_length(cache, 0), TOKENS);
    return cache;
}

static void run(focal_ctx *ctx, fixture *f, focal_dtype cache_type, int step, float *logits)
{
    focal_cache_free(read_text(ctx, f, cache_type, step, logits));
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

/* Room for the keys and values of "wide", and what its cache says they are. */
enum { WIDE = 1 * TOKENS * 2 * 32 }; /* L T G D */
typedef struct wide_rows {
    double k[WIDE], v[WIDE], scale[2][WIDE]; /* the scales of the blocks of k and v */
} wide_rows;

static void read_cache(const focal_cache *cache, wide_rows *rows)
{
    const foci_config *c = &cache->model->config;
    const int64_t width = (int64_t)c->G * c->D, tables = (int64_t)c->L * 2;
    assert_int_equal(tables / 2 * TOKENS * width, WIDE);
    for (int64_t table = 0; table < tables; table++) {
        for (int32_t token = 0; token < TOKENS; token++) {
            const foci_q8_0 *row = (const foci_q8_0 *)foci_cache_row(
                cache, &cache->seqs[0], (int32_t)table / 2, (int32_t)table % 2, token);
            float x[WIDE];
            assert_int_equal(focal_dequantize(FOCAL_Q8_0, row, width, x), FOCAL_OK);
            for (int64_t n = 0; n < width; n++) {
                const int64_t at = (table / 2 * TOKENS + token) * width + n;
                (table % 2 ? rows->v : rows->k)[at] = (double)x[n];
                rows->scale[table % 2][at] = (double)foci_f16_read(row[n / FOCI_BLOCK].d);
            }
        }
    }
}

/* A number is rounded to half a level; and 127 levels, with a scale that is rounded to a float16,
 * are off by 127 * 2^-11 = 0.0625 of one. */
static void check_rounding(const char *what, const double *got, const double *exact,
                           const double *scale, double slack)
{
    for (int64_t n = 0; n < WIDE; n++)
        if (!(fabs(got[n] - exact[n]) <= 0.5625 * scale[n] + slack))
            fail_msg("%s %lld is %g, exactly %g; a level is %g", what, (long long)n, got[n],
                     exact[n], scale[n]);
}

/* A cache in q8_0 holds keys and values rounded to 127 levels, and nothing else is lost. The model
 * in double that reads those keys and values has the same logits: in float32 within what a float32
 * cache allows, in bfloat16 within twice what that precision loses with a cache of its own. How far
 * both are from the logits of unrounded keys is the rounding itself; it is printed. */
static void a_cache_in_q8_0_loses_only_its_rounding(void **state)
{
    focal_ctx *ctx = *state;
    static float got[TOKENS * VOCAB];
    static double exact[TOKENS * VOCAB], own_k[WIDE], own_v[WIDE];
    static wide_rows rows;
    for (int precision = FOCAL_F32; precision <= FOCAL_BF16; precision++) {
        const int steps[] = {TOKENS, 17, 1};
        fixture f;
        open_fixture(ctx, "wide", NULL, (focal_dtype)precision, &f);
        run(ctx, &f, FOCAL_BF16, TOKENS, got);
        const double allowed =
            precision == FOCAL_F32 ? 1e-5 : 2.0 * farthest(got, f.logits) / f.largest;
        for (size_t s = 0; s < FOCAL_COUNT(steps); s++) {
            focal_cache *cache = read_text(ctx, &f, FOCAL_Q8_0, steps[s], got);
            read_cache(cache, &rows);
            const oracle_llama oracle = {.model = f.model,
                                         .T = TOKENS,
                                         .ids = f.ids,
                                         .k = rows.k,
                                         .v = rows.v,
                                         .own_k = own_k,
                                         .own_v = own_v,
                                         .logits = exact};
            oracle_llama_forward(&oracle);
            const double error = farthest(got, exact) / f.largest;
            print_message("%s, %d tokens a pass: %.1e of the largest logit from the same cache in "
                          "double, %.1e from no rounding\n",
                          focal_dtype_name((focal_dtype)precision), steps[s], error,
                          farthest(got, f.logits) / f.largest);
            if (!(error < allowed)) fail_msg("off by %g of the largest logit", error);
            if (precision == FOCAL_F32) { /* keys in bfloat16 are off before they are rounded */
                check_rounding("key", rows.k, own_k, rows.scale[0], 1e-5);
                check_rounding("value", rows.v, own_v, rows.scale[1], 1e-5);
            }
            focal_cache_free(cache);
        }
        close_fixture(&f);
    }
}

/* The oracle of that is the model: with its own keys it has the logits of transformers. */
static void the_oracle_matches_transformers(void **state)
{
    static double exact[TOKENS * VOCAB], own_k[WIDE], own_v[WIDE];
    fixture f;
    open_fixture(*state, "wide", NULL, FOCAL_F32, &f);
    const oracle_llama oracle = {.model = f.model,
                                 .T = TOKENS,
                                 .ids = f.ids,
                                 .own_k = own_k,
                                 .own_v = own_v,
                                 .logits = exact};
    oracle_llama_forward(&oracle);
    assert_doubles_within("logits", exact, f.logits, (int64_t)TOKENS * VOCAB, 1e-6);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(families_match_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bfloat16_is_near, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_oracle_matches_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_cache_in_q8_0_loses_only_its_rounding, open_ctx,
                                        close_ctx),
    };
    return cmocka_run_group_tests_name("model", tests, NULL, NULL);
}
