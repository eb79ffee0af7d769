/* The tools of the tests can fail: each comparer refuses what it should, the memory runs out when
 * told to, a kernel that did not run is missed. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void error_bound_can_fail(void **state)
{
    (void)state;
    const double exact[] = {1.0, -2.0, 0.5, 0.0};
    const float plain[] = {1.0F, -2.0F, 0.5F + 0x1p-22F, 0.0F};
    float got[] = {1.0F, -2.0F, 0.5F, 0.0F};
    error_bound bound = {.name = "self", .plain = plain, .exact = exact, .count = 4, .factor = 2.0};
    /* The magnitude is 2: plain loses 2^-23 of it, so 2^-22 + 2^-23 of it is allowed. */
    assert_null(error_beyond(&bound, got));
    got[2] = 0.5F + 2.75F * 0x1p-22F;
    if (error_beyond(&bound, got)) fail_msg("%s", error_beyond(&bound, got));
    got[2] = 0.5F + 3.25F * 0x1p-22F;
    assert_non_null(error_beyond(&bound, got));
    assert_non_null(strstr(error_beyond(&bound, got), "element 2 of 4"));
    bound.dtype = FOCAL_BF16;
    assert_null(error_beyond(&bound, got));
    got[2] = 0.5F;
    got[3] = 0.1F;
    assert_non_null(error_beyond(&bound, got));
}

static void error_bound_looks_at_each_magnitude(void **state)
{
    (void)state;
    const double exact[] = {1000.0, 0.001}, magnitude[] = {1000.0, 0.001};
    const float plain[] = {1000.0F, 0.001F}, got[] = {1000.0F, 0.0011F};
    error_bound bound = {.name = "self", .plain = plain, .exact = exact, .count = 2, .factor = 2.0};
    bound.magnitude = magnitude;
    assert_non_null(error_beyond(&bound, got));
    assert_null(error_beyond(&bound, plain));
}

/* The type of the output rounds the result, not everything that it is made of. */
static void error_bound_of_bf16_is_of_the_result(void **state)
{
    (void)state;
    const double exact[] = {0.0625, 1.0}, magnitude[] = {4.0, 4.0};
    const float plain[] = {0.0625F, 1.0F};
    float got[] = {0.0625F + 0x1p-13F, 1.0F};
    error_bound bound = {.name = "self",
                         .plain = plain,
                         .exact = exact,
                         .magnitude = magnitude,
                         .count = 2,
                         .dtype = FOCAL_BF16,
                         .factor = 2.0};
    assert_null(error_beyond(&bound, got));
    got[0] = 0.0625F + 0x1p-11F; /* an eighth of a rounding of the magnitude */
    assert_non_null(error_beyond(&bound, got));
}

/* A row that lost more than plain loops did there is found among rows that lose more. */
static void error_bound_looks_at_rows(void **state)
{
    (void)state;
    enum { ROW = 32, COUNT = 2 * ROW };
    double exact[COUNT];
    float plain[COUNT], got[COUNT];
    for (int n = 0; n < COUNT; n++) {
        exact[n] = n < ROW ? 1.0 : 0.0625;
        plain[n] = (float)exact[n] + (n < ROW ? 0x1p-9F : 0x1p-16F);
        got[n] = (float)exact[n] + (n < ROW ? 0x1p-9F : 0x1p-10F);
    }
    error_bound bound = {.name = "self",
                         .plain = plain,
                         .exact = exact,
                         .count = COUNT,
                         .dtype = FOCAL_BF16,
                         .factor = 2.0};
    assert_null(error_beyond(&bound, got));
    bound.row = ROW;
    assert_non_null(error_beyond(&bound, got));
    assert_non_null(strstr(error_beyond(&bound, got), "row 1"));
    assert_null(error_beyond(&bound, plain));
}

static void error_bound_sees_the_mean(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    double exact[COUNT];
    float plain[COUNT], got[COUNT];
    for (int n = 0; n < COUNT; n++) {
        exact[n] = 1.0;
        plain[n] = n == 0 ? 1.0F + 0x1p-16F : 1.0F;
        got[n] = 1.0F + 0x1p-16F; /* no worse than plain's worst, but everywhere */
    }
    const error_bound bound = {
        .name = "self", .plain = plain, .exact = exact, .count = COUNT, .factor = 2.0};
    assert_non_null(strstr(error_beyond(&bound, got), "mean error"));
    assert_null(error_beyond(&bound, plain));
}

static void odd_values_must_match(void **state)
{
    (void)state;
    const double exact[] = {1.0, (double)-INFINITY, (double)NAN};
    const float plain[] = {1.0F, -INFINITY, NAN};
    const float wrong[][3] = {{NAN, -INFINITY, NAN},
                              {1.0F, INFINITY, NAN},
                              {1.0F, -1e38F, NAN},
                              {1.0F, -INFINITY, 0.0F},
                              {INFINITY, -INFINITY, NAN}};
    const error_bound bound = {
        .name = "self", .plain = plain, .exact = exact, .count = 3, .factor = 2.0};
    assert_null(error_beyond(&bound, plain));
    for (size_t n = 0; n < FOCAL_COUNT(wrong); n++) {
        assert_non_null(error_beyond(&bound, wrong[n]));
        double wide[3];
        for (int d = 0; d < 3; d++) wide[d] = (double)wrong[n][d];
        assert_non_null(double_beyond("self", wide, exact, 3, 1e-3));
    }
    assert_null(double_beyond("self", exact, exact, 3, 1e-3));
}

static void doubles_can_fail(void **state)
{
    (void)state;
    const double exact[] = {4.0, 1e-3};
    double got[] = {4.0, 1e-3 + 3e-10};
    assert_null(double_beyond("self", got, exact, 2, 1e-10));
    got[1] = 1e-3 + 5e-10;
    assert_non_null(double_beyond("self", got, exact, 2, 1e-10));
    const double zero[] = {0.0, 0.0}, small[] = {0.0, 1e-200};
    assert_null(double_beyond("self", zero, zero, 2, 1e-10));
    assert_non_null(double_beyond("self", small, zero, 2, 1e-10));
}

static const double one = 1.0;
static const float one_float = 1.0F, two_float = 2.0F;

static void failing_bound(void **state)
{
    (void)state;
    assert_error_within("self", &two_float, &one_float, &one, 1, 2.0);
}

static void failing_doubles(void **state)
{
    (void)state;
    const double two = 2.0;
    assert_doubles_within("self", &two, &one, 1, 1e-10);
}

static void failing_status(void **state)
{
    assert_status(*state, FOCAL_EINVAL, FOCAL_OK);
}

static void failing_silence(void **state)
{
    assert_status(*state, FOCAL_EINVAL, FOCAL_EINVAL); /* without a sentence */
}

static void failing_record(void **state)
{
    (void)state;
    assert_ran("self", "a kernel that nobody has");
}

/* The exit status of a program that has only this test. */
static int status_of(void (*test)(void **state))
{
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct CMUnitTest tests[] = {
            {"child", test, open_ctx, close_ctx, NULL},
        };
        if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout)) _exit(99);
        _exit(cmocka_run_group_tests_name("child", tests, NULL, NULL));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void passing(void **state)
{
    (void)state;
    assert_error_within("self", &one_float, &one_float, &one, 1, 2.0);
    assert_doubles_within("self", &one, &one, 1, 1e-10);
    assert_status(*state, FOCAL_OK, FOCAL_OK);
}

/* A failed comparison becomes a failed program. */
static void failures_reach_the_exit_status(void **state)
{
    (void)state;
    assert_int_equal(status_of(passing), 0);
    assert_int_equal(status_of(failing_bound), 1);
    assert_int_equal(status_of(failing_doubles), 1);
    assert_int_equal(status_of(failing_status), 1);
    assert_int_equal(status_of(failing_silence), 1);
    assert_int_equal(status_of(failing_record), 1);
}

static void fill_is_recognised(void **state)
{
    (void)state;
    for (int n = 0; n < 2; n++) {
        const focal_dtype dtype = n == 0 ? FOCAL_F32 : FOCAL_BF16;
        float room[4];
        fill_nan(room, 3, dtype);
        for (int64_t at = 0; at < 3; at++) {
            assert_true(is_fill_nan(room, (size_t)at, dtype));
            assert_true(isnan(element_get(room, at, dtype)));
        }
        element_set(room, 1, dtype, NAN);
        assert_false(is_fill_nan(room, 1, dtype));
        element_set(room, 1, dtype, 1.5F);
        assert_true(element_get(room, 1, dtype) == 1.5F);
        assert_true(is_fill_nan(room, 0, dtype) && is_fill_nan(room, 2, dtype));
    }
}

static void memory_runs_out(void **state)
{
    (void)state;
    const focal_allocator a = memory_allocator();
    const int64_t before = memory_live_blocks();
    memory_fail(2, false);
    void *first = a.alloc(a.user, 100);
    assert_non_null(first);
    assert_int_equal((uintptr_t)first % 64, 0);
    assert_null(a.alloc(a.user, 1));
    void *third = a.alloc(a.user, 1);
    assert_non_null(third);
    assert_int_equal(memory_live_blocks(), before + 2);
    assert_int_equal(memory_requests(), 3);
    memory_fail(1, true);
    assert_null(a.alloc(a.user, 1));
    assert_null(a.alloc(a.user, 1));
    memory_fail(0, false);
    a.release(a.user, first, 100);
    a.release(a.user, third, 1);
    assert_int_equal(memory_live_blocks(), before);
}

static void left_memory_is_seen(void **state)
{
    (void)state;
    void *own = NULL;
    assert_int_equal(open_ctx(&own), 0);
    const focal_allocator a = memory_allocator();
    void *left = a.alloc(a.user, 10);
    assert_int_equal(close_ctx(&own), 1);
    a.release(a.user, left, 10);
    assert_int_equal(open_ctx(&own), 0);
    assert_int_equal(close_ctx(&own), 0);
}

static void missing_kernels_are_named(void **state)
{
    (void)state;
    note_ran("self", "ref");
    note_ran("self", "avx2");
    note_ran("other", "avx512");
    assert_null(missing_kernel("self", "ref", NULL));
    assert_null(missing_kernel("self", "ref", ""));
    assert_null(missing_kernel("self", "ref", "avx2,ref,"));
    assert_string_equal(missing_kernel("self", "ref", "avx2,avx512"), "avx512");
    assert_string_equal(missing_kernel("self", "ref", "avx512,avx2"), "avx512,avx2");
    assert_string_equal(missing_kernel("self", "ref", "avx"), "avx");
    assert_null(missing_kernel("self", "ref", "se:avx2,other:amx,self2:amx,ref"));
    assert_string_equal(missing_kernel("self", "ref", "self:avx2,self:amx"), "self:amx");
    assert_string_equal(missing_kernel("self", "ref", "se:amx,ref"), "se:amx,ref");
    assert_string_equal(missing_kernel("self", "neon", NULL), "neon");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_bound_can_fail),
        cmocka_unit_test(error_bound_looks_at_each_magnitude),
        cmocka_unit_test(error_bound_of_bf16_is_of_the_result),
        cmocka_unit_test(error_bound_looks_at_rows),
        cmocka_unit_test(error_bound_sees_the_mean),
        cmocka_unit_test(odd_values_must_match),
        cmocka_unit_test(doubles_can_fail),
        cmocka_unit_test(failures_reach_the_exit_status),
        cmocka_unit_test(fill_is_recognised),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(left_memory_is_seen),
        cmocka_unit_test(missing_kernels_are_named),
    };
    return cmocka_run_group_tests_name("support", tests, NULL, NULL);
}
