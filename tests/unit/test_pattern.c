/* Patterns: what they find wherever a window ends, what does not compile, and that no pattern can
 * take longer than the text allows. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "text/pattern.h"

/* Skips the test in builds without patterns. */
static foci_pattern *compile(focal_ctx *ctx, const char *source)
{
    foci_pattern *pattern = NULL;
    const focal_status status = foci_pattern_new(ctx, source, strlen(source), &pattern);
    if (status == FOCAL_EUNSUPPORTED)
        skip_without("PCRE2", "install libpcre2-dev and configure again");
    assert_status(ctx, status, FOCAL_OK);
    return pattern;
}

static focal_status find(focal_ctx *ctx, foci_pattern *pattern, const char *text, size_t bytes,
                         size_t from, size_t place[2])
{
    int64_t work = foci_pattern_work(bytes);
    const foci_pattern_text in = {text, bytes, &work};
    return foci_pattern_find(ctx, pattern, &in, from, &place[0], &place[1]);
}

static void patterns_find_and_fail(void **state)
{
    focal_ctx *ctx = *state;
    size_t place[2];
    foci_pattern *pattern = compile(ctx, "\\p{L}+");
    assert_status(ctx, find(ctx, pattern, "12 \u00E9t\u00E9 3", 10, 0, place), FOCAL_OK);
    assert_int_equal(place[0], 3);
    assert_int_equal(place[1], 8);
    assert_status(ctx, find(ctx, pattern, "12", 2, 0, place), FOCAL_OK);
    assert_int_equal(place[0], 2);
    assert_status(ctx, find(ctx, pattern, NULL, 0, 0, place), FOCAL_OK);
    foci_pattern_free(pattern);
    foci_pattern_free(NULL);
    assert_status(ctx, foci_pattern_new(ctx, "a)", 2, &pattern), FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx), "pattern 'a)': byte 1"));
    assert_null(pattern);
    char *longer = new_array(1 << 17, 1);
    memset(longer, 'a', 1 << 17);
    assert_status(ctx, foci_pattern_new(ctx, longer, 1 << 17, &pattern), FOCAL_EFORMAT);
    free(longer);
}

/* Text is `head`, then `unit` n times, then `tail`; the match is told in bytes before, and whole
 * runs of units: begin = begin_units n |unit| + begin_bytes, and so for the end. */
static const struct {
    const char *pattern, *head, *unit, *tail;
    int begin_units, begin_bytes, end_units, end_bytes;
} stretched[] = {
    {"\\p{L}+", "", "a", "", 0, 0, 1, 0},
    {"\\p{L}+", "- ", "\u00E9", "1", 0, 2, 1, 2},
    {"b", "", "a", "b", 1, 0, 1, 1},
    {"b", "", "a", "", 1, 0, 1, 0},            /* none */
    {"\\z|b", "", "a", "b", 1, 0, 1, 1},       /* no window's end is the end */
    {"\\z|b", "", "a", "", 1, 0, 1, 0},        /* nor is this one found before it */
    {"a$", "", "a", "", 1, -1, 1, 0},          /* nor a line's */
    {"a\\b", "", "a", " a", 1, -1, 1, 0},      /* nor a word's */
    {"a+(?=b)|c", "", "a", "b", 0, 0, 1, 0},   /* the sign behind is seen */
    {"a+(?=b)|a", "", "a", "c", 0, 0, 0, 1},   /* its absence too */
    {"a+(?!b)|c", "a", "a", "b", 0, 0, 1, 0},  /* and what may not be there */
    {"(?<=ab)a+", "ab", "a", "b", 0, 2, 1, 2}, /* the text before is there */
    {"(?<=b)", "a", "a", "b", 1, 2, 1, 2},
    {"\\s+(?!\\S)|\\s+", "", "  ", "x", 0, 0, 1, -1},
    {"\\s*[\\r\\n]+|\\s+", "", " ", "x", 0, 0, 1, 0},
    {"\\s*[\\r\\n]+|\\s+", "", " ", "\nx", 0, 0, 1, 1},
    {"(?:a|\u00E9)+x", "", "\u00E9", "x", 0, 0, 1, 1},
    {"(?:a|b)+c|b", "", "a", "b", 1, 0, 1, 1},
    {"\u4E2D+", "ab", "\u4E2D", "", 0, 2, 1, 2},
};

static void windows_change_nothing(void **state)
{
    focal_ctx *ctx = *state;
    enum { MOST = 300 };
    char text[4 * MOST + 8];
    for (size_t s = 0; s < FOCAL_COUNT(stretched); s++) {
        foci_pattern *pattern = compile(ctx, stretched[s].pattern);
        for (int n = 1; n <= MOST; n++) {
            size_t place[2], bytes = strlen(stretched[s].head);
            const size_t unit = strlen(stretched[s].unit), tail = strlen(stretched[s].tail);
            memcpy(text, stretched[s].head, bytes);
            for (int k = 0; k < n; k++, bytes += unit)
                memcpy(text + bytes, stretched[s].unit, unit);
            memcpy(text + bytes, stretched[s].tail, tail);
            bytes += tail;
            const int run = n * (int)unit;
            const int begin = stretched[s].begin_units * run + stretched[s].begin_bytes;
            const int end = stretched[s].end_units * run + stretched[s].end_bytes;
            assert_status(ctx, find(ctx, pattern, text, bytes, 0, place), FOCAL_OK);
            if ((int)place[0] != begin || (int)place[1] != end)
                fail_msg("'%s' on '%s' %d times: [%zu, %zu), expected [%d, %d)",
                         stretched[s].pattern, stretched[s].unit, n, place[0], place[1], begin,
                         end);
        }
        foci_pattern_free(pattern);
    }
}

/* All matches of a text, as a splitter asks for them. */
static focal_status find_all(focal_ctx *ctx, foci_pattern *pattern, const char *text, size_t bytes)
{
    int64_t work = foci_pattern_work(bytes);
    const foci_pattern_text in = {text, bytes, &work};
    focal_status status = FOCAL_OK;
    for (size_t at = 0, begin, end; at < bytes && status == FOCAL_OK; at = end > at ? end : at + 1)
        status = foci_pattern_find(ctx, pattern, &in, at, &begin, &end);
    return status;
}

static void no_pattern_takes_for_ever(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const sources[] = {"(a+)+b|a", "(?:a|aa)+b|a", "a*a*a*a*b|a",
                                          "a+b|a",    "(?:a*)*b|.",   "(?=a*b)a|a",
                                          "b?a+b|a",  ".*b|.",        "(?=(a+))\\1b|a"};
    enum { BYTES = 1 << 18 };
    char *text = new_array(BYTES, 1);
    memset(text, 'a', BYTES);
    for (size_t s = 0; s < FOCAL_COUNT(sources); s++) {
        foci_pattern *pattern = compile(ctx, sources[s]);
        assert_status(ctx, find_all(ctx, pattern, text, 12), FOCAL_OK);
        /* Without limits it would take days. */
        assert_status(ctx, find_all(ctx, pattern, text, BYTES), FOCAL_EINVAL);
        assert_non_null(strstr(focal_ctx_error(ctx), "exceeds its limits of work"));
        foci_pattern_free(pattern);
    }
    /* A match that costs thousands of steps is fine, one after the other of them is not. */
    for (size_t n = 16; n < BYTES; n += 17) text[n] = ' ';
    foci_pattern *pattern = compile(ctx, "(a+)+b|a+| ");
    assert_status(ctx, find_all(ctx, pattern, text, 17), FOCAL_OK);
    assert_status(ctx, find_all(ctx, pattern, text, BYTES), FOCAL_EINVAL);
    foci_pattern_free(pattern);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(patterns_find_and_fail, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(windows_change_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(no_pattern_takes_for_ever, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("pattern", tests, NULL, NULL);
}
