/* Choosing tokens: what each setting keeps, in which order, and that chance follows the
 * probabilities and the seed. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "focal/generate.h"

enum { V = 8, DRAWS = 20000 };

static const float base[V] = {1.0F, 3.0F, 2.5F, -1.0F, 3.0F, 0.0F, 2.0F, -INFINITY};

static int32_t pick(focal_sampler *sampler, const float *from)
{
    float logits[V];
    int32_t id = -1;
    memcpy(logits, from, sizeof logits);
    assert_int_equal(focal_sampler_pick(sampler, logits, &id), FOCAL_OK);
    return id;
}

/* How often each id is drawn. */
static void draw_many(focal_ctx *ctx, const focal_sampling *how, int counts[V])
{
    focal_sampler *sampler = NULL;
    assert_int_equal(focal_sampler_new(ctx, V, how, &sampler), FOCAL_OK);
    memset(counts, 0, V * sizeof *counts);
    for (int n = 0; n < DRAWS; n++) counts[pick(sampler, base)]++;
    focal_sampler_free(sampler);
}

/* The draws follow the softmax of base / t over the ids in `kept` (a bit each). */
static void assert_follows(const int counts[V], double t, unsigned kept)
{
    double sum = 0.0;
    for (int n = 0; n < V; n++)
        if (kept >> n & 1U) sum += exp((double)base[n] / t);
    for (int n = 0; n < V; n++) {
        const double p = kept >> n & 1U ? exp((double)base[n] / t) / sum : 0.0;
        const double deviation = sqrt(p * (1.0 - p) / DRAWS);
        if (fabs((double)counts[n] / DRAWS - p) > 5.0 * deviation)
            fail_msg("id %d: %d of %d, expected %.4f", n, counts[n], DRAWS, p);
    }
}

static void zero_is_greedy(void **state)
{
    focal_sampler *sampler = NULL;
    assert_int_equal(focal_sampler_new(*state, V, NULL, &sampler), FOCAL_OK);
    assert_int_equal(pick(sampler, base), 1); /* 4 is as large */
    const float none[V] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY,
                           NAN,       -INFINITY, -INFINITY, -INFINITY};
    float logits[V];
    int32_t id;
    memcpy(logits, none, sizeof logits);
    assert_int_equal(focal_sampler_pick(sampler, logits, &id), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state), "sampler: no id has a finite logit");
    focal_sampler_free(sampler);
}

static void each_setting_keeps_its_ids(void **state)
{
    const struct {
        focal_sampling how;
        double t;
        unsigned kept;
    } cases[] = {
        {{.temperature = 1.0F}, 1.0, 0x7F},
        {{.temperature = 0.5F}, 0.5, 0x7F},
        {{.temperature = 2.0F, .top_k = 3}, 2.0, 1U << 1 | 1U << 4 | 1U << 2},
        {{.temperature = 1.0F, .top_k = 1}, 1.0, 1U << 1},
        {{.temperature = 1.0F, .top_k = 100}, 1.0, 0x7F},
        /* 1 and 4 have 0.31 each, 2 has 0.19 */
        {{.temperature = 1.0F, .top_p = 0.5F}, 1.0, 1U << 1 | 1U << 4},
        {{.temperature = 1.0F, .top_p = 0.7F}, 1.0, 1U << 1 | 1U << 4 | 1U << 2},
        {{.temperature = 1.0F, .top_p = 1.0F}, 1.0, 0x7F},
        /* e^-1 is 0.37 of the likeliest, e^-0.5 is 0.61; before the temperature */
        {{.temperature = 3.0F, .min_p = 0.5F}, 3.0, 1U << 1 | 1U << 4 | 1U << 2},
        {{.temperature = 3.0F, .min_p = 0.3F}, 3.0, 1U << 1 | 1U << 4 | 1U << 2 | 1U << 6},
        {{.temperature = 1.0F, .top_k = 3, .top_p = 0.5F}, 1.0, 1U << 1 | 1U << 4},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        int counts[V];
        print_message("case %zu\n", n);
        draw_many(*state, &cases[n].how, counts);
        assert_follows(counts, cases[n].t, cases[n].kept);
    }
}

static void seeds_repeat(void **state)
{
    int a[64], b[64], differ = 0;
    for (int round = 0; round < 3; round++) {
        const focal_sampling how = {.temperature = 1.0F, .seed = round == 2 ? 8 : 7};
        focal_sampler *sampler = NULL;
        assert_int_equal(focal_sampler_new(*state, V, &how, &sampler), FOCAL_OK);
        for (int n = 0; n < 64; n++) {
            const int id = pick(sampler, base);
            if (round == 0) a[n] = id;
            if (round == 1) assert_int_equal(id, a[n]);
            if (round == 2) b[n] = id;
        }
        focal_sampler_free(sampler);
    }
    for (int n = 0; n < 64; n++) differ += a[n] != b[n];
    assert_true(differ > 10);
}

static void penalties_and_biases(void **state)
{
    const focal_logit_bias biases[] = {{3, 10.0F}, {1, -INFINITY}};
    focal_sampler *sampler = NULL;
    const focal_sampling biased = {.biases = biases, .bias_count = 2};
    assert_int_equal(focal_sampler_new(*state, V, &biased, &sampler), FOCAL_OK);
    assert_int_equal(pick(sampler, base), 3);
    focal_sampler_free(sampler);

    const focal_sampling repeat = {.repeat_penalty = 2.0F, .repeat_last = 2};
    assert_int_equal(focal_sampler_new(*state, V, &repeat, &sampler), FOCAL_OK);
    assert_int_equal(focal_sampler_accept(sampler, 1), FOCAL_OK);
    assert_int_equal(pick(sampler, base), 4);
    assert_int_equal(focal_sampler_accept(sampler, 4), FOCAL_OK);
    assert_int_equal(pick(sampler, base), 2); /* 1 and 4 are at 1.5 */
    assert_int_equal(focal_sampler_accept(sampler, 2), FOCAL_OK);
    assert_int_equal(pick(sampler, base), 1); /* no longer among the last two */
    assert_int_equal(focal_sampler_accept(sampler, V), FOCAL_EINVAL);
    focal_sampler_free(sampler);

    const focal_sampling count = {.frequency_penalty = 0.3F, .repeat_last = -1};
    assert_int_equal(focal_sampler_new(*state, V, &count, &sampler), FOCAL_OK);
    for (int n = 0; n < 2; n++) {
        assert_int_equal(focal_sampler_accept(sampler, 1), FOCAL_OK);
        assert_int_equal(focal_sampler_accept(sampler, 4), FOCAL_OK);
    }
    assert_int_equal(pick(sampler, base), 2); /* 3 - 0.6 is below 2.5 */
    focal_sampler_free(sampler);
}

static void bad_settings_are_refused(void **state)
{
    const focal_logit_bias beyond = {V, 1.0F};
    const struct {
        focal_sampling how;
        const char *sentence;
    } cases[] = {
        {{.temperature = -1.0F}, "sampler: temperature -1, it must be 0 or more"},
        {{.temperature = NAN}, NULL},
        {{.top_k = -1}, "sampler: top_k -1, it must be 0 or more"},
        {{.top_p = 1.5F}, "sampler: top_p 1.5 and min_p 0 must be 0 to 1"},
        {{.min_p = NAN}, NULL},
        {{.repeat_penalty = -1.0F}, NULL},
        {{.repeat_last = -2}, NULL},
        {{.biases = &beyond, .bias_count = 1}, "sampler: the bias of id 8, ids are below 8"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        focal_sampler *sampler = NULL;
        assert_int_equal(focal_sampler_new(*state, V, &cases[n].how, &sampler), FOCAL_EINVAL);
        assert_null(sampler);
        if (cases[n].sentence) assert_string_equal(focal_ctx_error(*state), cases[n].sentence);
    }
    for (int64_t n = 1;; n++) {
        focal_sampler *sampler = NULL;
        memory_fail(n, false);
        const focal_status status = focal_sampler_new(*state, V, NULL, &sampler);
        memory_fail(0, false);
        focal_sampler_free(sampler);
        if (status == FOCAL_OK) break;
        assert_int_equal(status, FOCAL_ENOMEM);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(zero_is_greedy, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(each_setting_keeps_its_ids, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(seeds_repeat, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(penalties_and_biases, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_settings_are_refused, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("sampler", tests, NULL, NULL);
}
