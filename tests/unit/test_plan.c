/* Plans: more time never gives a smaller model, nothing is beyond its limits for any input, memory
 * is what steps take, and too little text has its sentence. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "focal/bench.h"
#include "focal/plan.h"

static const double sizes[] = {1000, 1024, 5e3, 1e5, 1e6, 3e6, 5e7, 1e9, 1e11, 1e15};
static const double times[] = {1e-3, 0.05, 1, 2, 5, 20, 60, 600, 1e4, 1e6, 1e9};
static const double speeds[] = {1e6, 1e9, 5e10, 2e11, 5e12, 1e15, 1e21};

static focal_plan plan_of(focal_ctx *ctx, const focal_plan_input *in)
{
    focal_plan plan;
    assert_status(ctx, focal_plan_make(ctx, in, &plan), FOCAL_OK);
    return plan;
}

/* What a run file takes, and what makes sense. */
static void check_plan(const focal_plan_input *in, const focal_plan *p)
{
    const double step = (double)p->batch * p->length,
                 trained = (1.0 - p->valid_share) * (double)p->tokens;
    assert_true(p->vocab >= 257 && p->vocab <= 16384);
    assert_true(p->layers >= 1 && p->width % (32 * p->heads) == 0 && p->ffn > 2 * p->width);
    assert_true(p->length >= 32 && p->length <= 2048 && p->batch >= 1 && p->accumulation >= 1);
    assert_int_equal(p->batch % p->accumulation, 0);
    assert_true(p->steps >= 1 && p->steps <= 1000000000 && p->warmup >= 1 && p->warmup <= 200);
    assert_true(p->rate > 1e-4 && p->rate < 1e-2);
    assert_true(p->valid_share > 0.0 && p->valid_share <= 0.1);
    assert_true(p->valid_tokens >= p->length && p->valid_every >= 1 && p->valid_every <= p->steps);
    assert_true(p->checkpoint_every >= 1 && p->sample_every >= 1);
    assert_true(p->length <= trained); /* there is a window */
    /* One step may be more than the text allows, or the time. */
    assert_true(p->epochs <= 12.0 + step / trained);
    if (p->steps > 1) assert_true(p->seconds <= 60.0 * in->minutes);
    assert_true(p->parameter_count > 0 && p->memory_bytes > 18 * (size_t)p->parameter_count);
    if (in->memory_bytes > 0) assert_true(p->memory_bytes <= in->memory_bytes);
}

static void every_input_has_a_plan(void **state)
{
    focal_ctx *ctx = *state;
    static const size_t memories[] = {0, (size_t)1 << 28, (size_t)1 << 34};
    for (size_t a = 0; a < FOCAL_COUNT(sizes); a++)
        for (size_t b = 0; b < FOCAL_COUNT(times); b++)
            for (size_t c = 0; c < FOCAL_COUNT(speeds); c++)
                for (size_t d = 0; d < FOCAL_COUNT(memories); d++) {
                    const focal_plan_input in = {.text_bytes = (int64_t)sizes[a],
                                                 .documents = (int64_t)(d * 7),
                                                 .minutes = times[b],
                                                 .flops = speeds[c],
                                                 .memory_bytes = memories[d]};
                    const focal_plan first = plan_of(ctx, &in);
                    check_plan(&in, &first);
                    /* And again when the text is tokenized, into as much as was expected or not. */
                    focal_plan_input then = in;
                    then.vocab = first.vocab;
                    then.tokens = first.tokens;
                    const focal_plan second = plan_of(ctx, &then);
                    check_plan(&then, &second);
                    /* Larger models would have had more tokens, which cost. */
                    assert_true(second.layers * second.width >= first.layers * first.width);
                    then.tokens = FOCAL_PLAN_LEAST_TOKENS;
                    const focal_plan third = plan_of(ctx, &then);
                    check_plan(&then, &third);
                }
}

static void more_time_is_no_smaller_model(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t a = 0; a < FOCAL_COUNT(sizes); a++) {
        int64_t last = 0, text_limited = 0;
        double minutes = 0.01;
        for (int n = 0; n < 193; n++) { /* up to 10^6 */
            minutes *= 1.1;
            const focal_plan_input in = {
                .text_bytes = (int64_t)sizes[a], .minutes = minutes, .flops = 2e11};
            const focal_plan p = plan_of(ctx, &in);
            assert_true(p.layers * (int64_t)p.width >= last);
            last = p.layers * (int64_t)p.width;
            /* What the text holds back is held back for ever. */
            if (text_limited) assert_int_equal(p.parameter_count, text_limited);
            if (p.limit == FOCAL_PLAN_TEXT) text_limited = p.parameter_count;
        }
        if (sizes[a] < 1e7) assert_true(text_limited > 0);
    }
}

/* With text and time enough there are ten tokens for each parameter, or somewhat more. */
static void time_goes_into_size_and_tokens(void **state)
{
    focal_ctx *ctx = *state;
    static const double hours[] = {0.1, 1, 10, 100};
    for (size_t n = 0; n < FOCAL_COUNT(hours); n++) {
        const focal_plan_input in = {
            .text_bytes = (int64_t)1e12, .minutes = 60 * hours[n], .flops = 2e11};
        const focal_plan p = plan_of(ctx, &in);
        const double seen = (double)p.steps * p.batch * p.length / (double)p.parameter_count;
        assert_int_equal(p.limit, FOCAL_PLAN_TIME);
        assert_true(seen > 9.5 && seen < 60.0);
        assert_true(p.seconds > 0.8 * 3600 * hours[n]);
        assert_true(p.steps >= 300);
    }
}

static void short_documents_have_short_windows(void **state)
{
    focal_ctx *ctx = *state;
    focal_plan_input in = {.text_bytes = (int64_t)1e9, .minutes = 600, .flops = 2e11};
    assert_true(plan_of(ctx, &in).length >= 512);
    in.documents = (int64_t)1e7; /* of a hundred bytes */
    assert_true(plan_of(ctx, &in).length <= 64);
}

/* The estimate of memory against what the library counts for the same step. */
static void memory_is_what_steps_take(void **state)
{
    focal_ctx *ctx = *state;
    static const double minutes[] = {0.1, 3, 30, 300};
    for (size_t n = 0; n < FOCAL_COUNT(minutes); n++) {
        const focal_plan_input in = {
            .text_bytes = (int64_t)1e10, .minutes = minutes[n], .flops = 1e11};
        const focal_plan p = plan_of(ctx, &in);
        const focal_train_shape shape = {.layers = p.layers,
                                         .width = p.width,
                                         .ffn = p.ffn,
                                         .heads = p.heads,
                                         .vocab = p.vocab,
                                         .length = p.length,
                                         .batch = p.batch / p.accumulation,
                                         .dtype = FOCAL_BF16};
        focal_train_bench *bench = NULL;
        assert_status(ctx, focal_train_bench_new(ctx, &shape, &bench), FOCAL_OK);
        const focal_train_cost cost = focal_train_bench_cost(bench);
        focal_train_bench_free(bench);
        const double takes = (double)(cost.parameter_bytes + cost.activation_bytes);
        assert_true((double)p.memory_bytes >= takes && (double)p.memory_bytes < 2.5 * takes);
        assert_true(fabs((double)(cost.parameter_count - p.parameter_count)) <
                    0.01 * (double)p.parameter_count);
        assert_true(fabs(cost.flops / (double)cost.tokens / p.token_flops - 1.0) < 0.01);
    }
}

static void bad_inputs_have_their_sentence(void **state)
{
    focal_ctx *ctx = *state;
    const focal_plan_input good = {.text_bytes = 1000000, .minutes = 1, .flops = 1e9};
    static const struct {
        focal_plan_input in;
        const char *sentence;
    } cases[] = {
        {{.text_bytes = 10, .minutes = 1, .flops = 1e9},
         "train: 10 bytes of text are too few to learn from: 1000 are the least, and from about a "
         "million on a model begins to write words"},
        {{.text_bytes = 999, .minutes = 1, .flops = 1e9}, "train: 999 bytes of text"},
        {{.text_bytes = 5000, .tokens = 127, .minutes = 1, .flops = 1e9},
         "train: the text has 127 tokens, 128 are the least"},
        {{.text_bytes = 5000, .minutes = 0, .flops = 1e9}, "plan: 0 minutes of 1e+09"},
        {{.text_bytes = 5000, .minutes = (double)NAN, .flops = 1e9}, "plan: nan minutes"},
        {{.text_bytes = 5000, .minutes = 1, .flops = -1}, "plan: 1 minutes of -1"},
        {{.text_bytes = 5000, .minutes = 1, .flops = (double)INFINITY}, "plan: 1 minutes of inf"},
        {{.text_bytes = 5000, .vocab = -1, .minutes = 1, .flops = 1}, "plan: a vocabulary of -1"},
        {{.text_bytes = 5000, .minutes = 1, .flops = 1e9, .memory_bytes = 1000000},
         "train: the smallest model takes "},
    };
    focal_plan plan;
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        assert_status(ctx, focal_plan_make(ctx, &cases[n].in, &plan), FOCAL_EINVAL);
        if (strncmp(focal_ctx_error(ctx), cases[n].sentence, strlen(cases[n].sentence)) != 0)
            fail_msg("'%s' is not '%s'", focal_ctx_error(ctx), cases[n].sentence);
    }
    assert_status(ctx, focal_plan_make(ctx, &good, &plan), FOCAL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_input_has_a_plan, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(more_time_is_no_smaller_model, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(time_goes_into_size_and_tokens, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(short_documents_have_short_windows, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_is_what_steps_take, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_inputs_have_their_sentence, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
