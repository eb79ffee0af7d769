/* The numbers of a report of runs against values computed by hand or with more digits elsewhere. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>

#include "report/runs_stats.h"

static void assert_near(double got, double expected, double tolerance)
{
    if (fabs(got - expected) <= tolerance * fmax(1.0, fabs(expected))) return;
    fail_msg("got %.17g, expected %.17g", got, expected);
}

static void spreads_are_of_the_sample(void **state)
{
    (void)state;
    const double values[] = {4.10, (double)NAN, 4.12, 4.13};
    foci_spread s = foci_spread_of(values, 4);
    assert_int_equal(s.n, 3);
    assert_near(s.mean, 12.35 / 3.0, 1e-14);
    assert_near(s.deviation, 0.015275252316519626, 1e-12);
    assert_near(s.least, 4.10, 0.0);
    assert_near(s.most, 4.13, 0.0);
    s = foci_spread_of(values, 1);
    assert_int_equal(s.n, 1);
    assert_true(isnan(s.deviation));
    s = foci_spread_of(values + 1, 1);
    assert_int_equal(s.n, 0);
    assert_true(isnan(s.mean) && isnan(s.least) && isnan(s.most));
}

/* From mpmath with 25 digits. */
static void student_is_exact(void **state)
{
    (void)state;
    static const double known[][2] = {
        {0.5, 164.557673480489},  {1.0, 12.7062047361747},  {2.0, 4.30265272974946},
        {2.5, 3.57465484200368},  {3.0, 3.18244630528371},  {7.3, 2.3450667365477},
        {10.0, 2.22813885198627}, {30.0, 2.04227245630124}, {1e6, 1.95996635681411}};
    for (size_t n = 0; n < FOCAL_COUNT(known); n++)
        assert_near(foci_student_975(known[n][0]), known[n][1], 1e-9);
    assert_true(isnan(foci_student_975(0.0)));
    assert_true(isnan(foci_student_975((double)NAN)));
}

static void differences_have_their_interval(void **state)
{
    (void)state;
    const double a[] = {4.10, 4.12, 4.13}, b[] = {4.15, 4.14, 4.17, 4.19};
    foci_difference d = foci_difference_paired(a, b, 3);
    assert_near(d.mean, -0.11 / 3.0, 1e-12);
    assert_near(d.half, 0.03794583033739601, 1e-10);
    assert_true(d.is_paired && d.n == 3);
    d = foci_difference_paired(a, b, 1);
    assert_near(d.mean, -0.05, 1e-12);
    assert_true(isnan(d.half));
    d = foci_difference_apart(a, 3, b, 4);
    assert_near(d.mean, -0.55 / 12.0, 1e-12);
    assert_near(d.half, 0.0364236589203, 1e-9);
    assert_true(!d.is_paired && d.n == 3);
    assert_true(isnan(foci_difference_apart(a, 1, b, 4).half));
    const double same[] = {2.0, 2.0};
    assert_near(foci_difference_apart(same, 2, same, 2).half, 0.0, 0.0);
}

static const foci_curve falling = {.count = 4, .x = {10, 100, 1000, 10000}, .y = {4, 3, 3.5, 2}};

static void curves_are_read_between_points(void **state)
{
    (void)state;
    assert_near(foci_curve_at(&falling, 100.0), 3.0, 0.0);
    assert_near(foci_curve_at(&falling, sqrt(1000.0)), 3.5, 1e-12); /* half way in the logarithm */
    assert_near(foci_curve_at(&falling, 10000.0), 2.0, 0.0);
    assert_true(isnan(foci_curve_at(&falling, 9.0)));
    assert_true(isnan(foci_curve_at(&falling, 10001.0)));
    const foci_curve zero = {.count = 2, .x = {0, 1}, .y = {5, 4}}; /* no width in the logarithm */
    assert_near(foci_curve_at(&zero, 0.5), 4.0, 0.0);
}

/* The dip below 3.2 at 100 does not count: the curve comes back above. */
static void reach_is_the_last_crossing(void **state)
{
    (void)state;
    bool is_bound = true;
    /* From 3.5 at 10^3 to 2 at 10^4: 3.2 is a fifth of the way. */
    assert_near(foci_curve_reach(&falling, 3.2, &is_bound), pow(10.0, 3.2), 1e-12);
    assert_false(is_bound);
    assert_near(foci_curve_reach(&falling, 2.0, &is_bound), 10000.0, 1e-12);
    assert_true(isnan(foci_curve_reach(&falling, 1.9, &is_bound)));
    assert_near(foci_curve_reach(&falling, 4.5, &is_bound), 10.0, 0.0);
    assert_true(is_bound);
    const foci_curve none = {0};
    assert_true(isnan(foci_curve_reach(&none, 1.0, &is_bound)));
}

static void means_cover_what_is_common(void **state)
{
    (void)state;
    const foci_curve other = {.count = 3, .x = {100, 10000, 20000}, .y = {5, 3, 1}};
    const foci_curve *curves[] = {&falling, &other};
    foci_band *band = new_array(1, sizeof *band);
    foci_curve_mean(curves, 2, band);
    assert_int_equal(band->mean.count, 3); /* 100, 1000, 10000 */
    assert_near(band->mean.x[1], 1000.0, 0.0);
    assert_near(band->mean.y[1], 0.5 * (3.5 + 4.0), 1e-12);
    assert_near(band->low[1], 3.5, 1e-12);
    assert_near(band->high[1], 4.0, 1e-12);
    assert_near(band->mean.y[2], 2.5, 1e-12);
    foci_curve *apart = new_array(1, sizeof *apart);
    foci_curve_minus(&falling, &other, apart);
    assert_int_equal(apart->count, 3);
    assert_near(apart->y[0], -2.0, 1e-12);
    assert_near(apart->y[1], -0.5, 1e-12);
    const foci_curve none = {0};
    curves[1] = &none;
    foci_curve_mean(curves, 2, band);
    assert_int_equal(band->mean.count, 0);
    free(apart);
    free(band);
}

static void sizes_are_found_between(void **state)
{
    (void)state;
    const double sizes[] = {1e6, 1e7, 1e8}, losses[] = {5.0, 4.0, 3.0};
    double at;
    assert_int_equal(foci_size_at(sizes, losses, 3, 3.5, &at), FOCI_EQUAL_AT);
    assert_near(at / 1e7, sqrt(10.0), 1e-12);
    assert_int_equal(foci_size_at(sizes, losses, 3, 4.0, &at), FOCI_EQUAL_AT);
    assert_near(at, 1e7, 1e-12);
    assert_int_equal(foci_size_at(sizes, losses, 3, 2.9, &at), FOCI_EQUAL_LARGER);
    assert_near(at, 1e8, 0.0);
    assert_int_equal(foci_size_at(sizes, losses, 3, 5.5, &at), FOCI_EQUAL_SMALLER);
    assert_near(at, 1e6, 0.0);
    assert_int_equal(foci_size_at(sizes, losses, 3, 5.0, &at), FOCI_EQUAL_AT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spreads_are_of_the_sample),
        cmocka_unit_test(student_is_exact),
        cmocka_unit_test(differences_have_their_interval),
        cmocka_unit_test(curves_are_read_between_points),
        cmocka_unit_test(reach_is_the_last_crossing),
        cmocka_unit_test(means_cover_what_is_common),
        cmocka_unit_test(sizes_are_found_between),
    };
    return cmocka_run_group_tests_name("runs_stats", tests, NULL, NULL);
}
