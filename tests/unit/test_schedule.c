/* Learning rates by step: fixed points, shape, ends, bad schedules. */
#include "support/check.h"

#include <math.h>

#include "train/schedule.h"

static const foci_schedule cosine = {
    .kind = FOCI_SCHEDULE_COSINE, .peak = 2e-3, .floor = 0.1, .steps = 110, .warmup_steps = 10};
static const foci_schedule decay = {.kind = FOCI_SCHEDULE_DECAY,
                                    .peak = 1.0,
                                    .floor = 0.0,
                                    .steps = 100,
                                    .warmup_steps = 4,
                                    .decay_steps = 20};

static void assert_rate(const foci_schedule *s, int64_t step, double expected)
{
    const double got = foci_schedule_rate(s, step);
    if (!(fabs(got - expected) <= 1e-14 * s->peak))
        fail_msg("step %lld has the rate %.17g, expected %.17g", (long long)step, got, expected);
}

static void rates_are_as_written(void **state)
{
    focal_ctx *ctx = *state;
    assert_status(ctx, foci_schedule_check(ctx, &cosine), FOCAL_OK);
    assert_rate(&cosine, 0, 2e-4);
    assert_rate(&cosine, 4, 1e-3);
    assert_rate(&cosine, 9, 2e-3);
    assert_rate(&cosine, 10, 2e-3);
    assert_rate(&cosine, 35, 2e-4 + 1.8e-3 * (0.5 + 0.25 * sqrt(2.0))); /* a quarter of the way */
    assert_rate(&cosine, 60, 1.1e-3);
    assert_rate(&cosine, 110, 2e-4);
    assert_rate(&cosine, INT64_MAX, 2e-4);
    assert_status(ctx, foci_schedule_check(ctx, &decay), FOCAL_OK);
    assert_rate(&decay, 0, 0.25);
    assert_rate(&decay, 3, 1.0);
    assert_rate(&decay, 50, 1.0);
    assert_rate(&decay, 80, 1.0);
    assert_rate(&decay, 90, 0.5);
    assert_rate(&decay, 99, 0.05);
    assert_rate(&decay, 100, 0.0);
    const foci_schedule constant = {.peak = 3e-4};
    assert_status(ctx, foci_schedule_check(ctx, &constant), FOCAL_OK);
    assert_true(foci_schedule_rate(&constant, 0) == 3e-4);
    assert_true(foci_schedule_rate(&constant, 1000000000) == 3e-4);
    const foci_schedule warm = {.peak = 1.0, .warmup_steps = 8, .floor = 0.3};
    assert_status(ctx, foci_schedule_check(ctx, &warm), FOCAL_OK);
    assert_rate(&warm, 1, 0.25);
    assert_true(foci_schedule_rate(&warm, 8) == 1.0);
}

/* Up, flat, down; above 0 all the way. */
static void rates_rise_and_fall_once(void **state)
{
    (void)state;
    const foci_schedule *all[] = {&cosine, &decay};
    for (size_t n = 0; n < FOCAL_COUNT(all); n++)
        for (int64_t step = 0; step < all[n]->steps; step++) {
            const double rate = foci_schedule_rate(all[n], step);
            assert_true(rate > 0.0 && rate <= all[n]->peak);
            if (step == 0) continue;
            const double before = foci_schedule_rate(all[n], step - 1);
            assert_true(step < all[n]->warmup_steps ? rate > before : rate <= before);
        }
}

static void short_runs(void **state)
{
    focal_ctx *ctx = *state;
    const foci_schedule one = {.kind = FOCI_SCHEDULE_COSINE, .peak = 1.0, .steps = 1};
    const foci_schedule warm_only = {
        .kind = FOCI_SCHEDULE_COSINE, .peak = 1.0, .steps = 3, .warmup_steps = 3};
    const foci_schedule all_decay = {
        .kind = FOCI_SCHEDULE_DECAY, .peak = 1.0, .floor = 1.0, .steps = 3, .decay_steps = 3};
    const foci_schedule no_decay = {.kind = FOCI_SCHEDULE_DECAY, .peak = 1.0, .steps = 3};
    assert_status(ctx, foci_schedule_check(ctx, &one), FOCAL_OK);
    assert_status(ctx, foci_schedule_check(ctx, &warm_only), FOCAL_OK);
    assert_status(ctx, foci_schedule_check(ctx, &all_decay), FOCAL_OK);
    assert_status(ctx, foci_schedule_check(ctx, &no_decay), FOCAL_OK);
    assert_rate(&one, 0, 1.0);
    assert_rate(&warm_only, 2, 1.0);
    assert_rate(&all_decay, 2, 1.0);
    assert_rate(&no_decay, 2, 1.0);
}

static void assert_bad(focal_ctx *ctx, foci_schedule schedule, const char *text)
{
    assert_status(ctx, foci_schedule_check(ctx, &schedule), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_schedules(void **state)
{
    focal_ctx *ctx = *state;
    foci_schedule bad = cosine;
    bad.kind = (foci_schedule_kind)3;
    assert_bad(ctx, bad, "schedule: there is no kind 3");
    bad = cosine;
    bad.peak = 0.0;
    assert_bad(ctx, bad, "schedule: the peak is 0, it must be above 0");
    bad.peak = (double)NAN;
    assert_bad(ctx, bad, "schedule: the peak is nan, it must be above 0");
    bad.peak = (double)INFINITY;
    assert_bad(ctx, bad, "schedule: the peak is inf, it must be above 0");
    bad = cosine;
    bad.floor = 1.5;
    assert_bad(ctx, bad, "schedule: the floor is 1.5, it must be from 0 to 1");
    bad = cosine;
    bad.steps = 0;
    assert_bad(ctx, bad, "schedule: 0 steps, there must be at least 1");
    bad = cosine;
    bad.warmup_steps = 111;
    assert_bad(ctx, bad,
               "schedule: 111 steps of warm-up, they must be from 0 to the 110 of the run");
    bad.warmup_steps = -1;
    assert_bad(ctx, bad,
               "schedule: -1 steps of warm-up, they must be from 0 to the 110 of the run");
    bad = decay;
    bad.decay_steps = 97;
    assert_bad(ctx, bad,
               "schedule: 97 steps of decay, they must be from 0 to the 96 behind the warm-up");
    assert_status(ctx, foci_schedule_check(ctx, NULL), FOCAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rates_are_as_written, open_ctx, close_ctx),
        cmocka_unit_test(rates_rise_and_fall_once),
        cmocka_unit_test_setup_teardown(short_runs, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_schedules, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("schedule", tests, NULL, NULL);
}
