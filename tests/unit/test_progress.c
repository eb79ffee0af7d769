/* The progress line: its words, its widths, what is not known, and the time that is left. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "train/progress.h"

static void the_line_says_what_is_known(void **state)
{
    (void)state;
    char line[FOCI_PROGRESS_LINE];
    foci_progress p = {.step = 120,
                       .steps = 1100,
                       .loss = 4.12344,
                       .tokens_per_second = 1215.4,
                       .peak_share = 0.584,
                       .seconds_left = 731.0};
    foci_progress_text(&p, line);
    assert_string_equal(line,
                        "step   120/1,100  loss  4.1234    1,215 tok/s  58 % of peak  12 min left");
    p = (foci_progress){.step = 7, .loss = (double)NAN, .seconds_left = -1.0};
    foci_progress_text(&p, line);
    assert_string_equal(line, "step 7  loss     nan");
    p.loss = (double)INFINITY;
    foci_progress_text(&p, line);
    assert_string_equal(line, "step 7  loss   > 1e6");
    p = (foci_progress){.step = INT64_MAX,
                        .steps = INT64_MAX,
                        .loss = -123456.5,
                        .tokens_per_second = 9.9e11,
                        .peak_share = 9.99,
                        .seconds_left = 3e9};
    foci_progress_text(&p, line);
    assert_true(strlen(line) < FOCI_PROGRESS_LINE - 1);
    assert_non_null(strstr(line, "9,223,372,036,854,775,807/9,223,372,036,854,775,807"));
    assert_non_null(strstr(line, " left"));
    p.has_kl = p.has_kept = p.has_groups = true;
    p.kl = -999999.9;
    p.kept = p.largest_group = 1.0;
    foci_progress_text(&p, line);
    assert_true(strlen(line) < FOCI_PROGRESS_LINE - 1);
    assert_non_null(strstr(line, " left"));
    p = (foci_progress){.step = 12,
                        .steps = 250,
                        .loss = 3.21,
                        .seconds_left = 60.0,
                        .has_kl = true,
                        .kl = 0.02135,
                        .has_groups = true,
                        .has_kept = true,
                        .kept = 0.134,
                        .largest_group = 0.091};
    foci_progress_text(&p, line);
    assert_string_equal(
        line, "step  12/250  loss  3.2100  kl 0.0214  kept 13 %  largest group  9 %  60 s left");
}

static void the_width_stays(void **state)
{
    (void)state;
    char first[FOCI_PROGRESS_LINE], last[FOCI_PROGRESS_LINE];
    foci_progress p = {.step = 1,
                       .steps = 1100,
                       .loss = 10.1,
                       .tokens_per_second = 900.0,
                       .peak_share = 0.05,
                       .seconds_left = 30.0};
    foci_progress_text(&p, first);
    p = (foci_progress){.step = 1100,
                        .steps = 1100,
                        .loss = 3.3,
                        .tokens_per_second = 12345.0,
                        .peak_share = 0.7,
                        .seconds_left = 10.0};
    foci_progress_text(&p, last);
    assert_int_equal(strlen(first), strlen(last));
}

static void times_are_short(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } cases[] = {
        {0, "0 s"},
        {41.4, "41 s"},
        {89.4, "89 s"},
        {89.6, "2 min"},
        {731, "12 min"},
        {59.4 * 60, "59 min"},
        {3599, "1 h 00 min"},
        {11100, "3 h 05 min"},
        {47.9 * 3600, "47 h 54 min"},
        {2.17 * 86400, "2 d 04 h"},
        {1e10, "?"},
        {-1, "?"},
        {(double)NAN, "?"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        char text[FOCI_PROGRESS_TIME];
        foci_progress_time(cases[n].seconds, text);
        assert_string_equal(text, cases[n].text);
    }
}

static void the_rest_is_estimated(void **state)
{
    (void)state;
    foci_progress_clock c = {.first_step = 100, .step = 150, .steps = 200, .seconds = 25};
    assert_true(foci_progress_left(&c) == 25.0);
    c.before_seconds = 60; /* time before a resume says nothing of the speed */
    assert_true(foci_progress_left(&c) == 25.0);
    c.minutes = 1.5;
    assert_true(foci_progress_left(&c) == 5.0);
    c.minutes = 1;
    assert_true(foci_progress_left(&c) == 0.0);
    c.minutes = 10;
    assert_true(foci_progress_left(&c) == 25.0);
    c.steps = 0;
    assert_true(foci_progress_left(&c) == 515.0);
    c.minutes = 0;
    assert_true(foci_progress_left(&c) < 0.0);
    c.steps = 200;
    c.step = 100;
    assert_true(foci_progress_left(&c) < 0.0);
    c.step = 220;
    assert_true(foci_progress_left(&c) == 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_line_says_what_is_known),
        cmocka_unit_test(the_width_stays),
        cmocka_unit_test(times_are_short),
        cmocka_unit_test(the_rest_is_estimated),
    };
    return cmocka_run_group_tests_name("progress", tests, NULL, NULL);
}
