/* Names from files: what counts as plain text, and look-ups in sorted names. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/names.h"

enum { NAMES = 20000, NAME_BYTES = 64 };

static void plain_text_is_utf8_without_controls(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t bytes;
        bool is_plain;
    } rows[] = {
        {"", 0, true},
        {"blk.0.attn_q.weight", 19, true},
        {"\xC3\xA9", 2, true},          /* U+00E9 */
        {"\xC2\xA0", 2, true},          /* U+00A0 */
        {"\xE2\x82\xAC", 3, true},      /* U+20AC */
        {"\xEF\xBF\xBF", 3, true},      /* U+FFFF */
        {"\xF0\x9F\x98\x80", 4, true},  /* U+1F600 */
        {"\xF4\x8F\xBF\xBF", 4, true},  /* U+10FFFF */
        {"a\0b", 3, false},             /* NUL */
        {"\n", 1, false},               /* controls */
        {"\x1B[1m", 4, false},          /* an escape for the terminal */
        {"\x7F", 1, false},             /* delete */
        {"\xC2\x9B", 2, false},         /* U+009B, an escape as well */
        {"\x80", 1, false},             /* continuation without a head */
        {"\xC3", 1, false},             /* head without continuation */
        {"\xC3(", 2, false},            /* and with a letter */
        {"\xE2\x82", 2, false},         /* one byte short */
        {"\xC0\xAF", 2, false},         /* longer than need be */
        {"\xE0\x80\xAF", 3, false},     /* the same */
        {"\xF0\x80\x80\xAF", 4, false}, /* the same */
        {"\xED\xA0\x80", 3, false},     /* a surrogate, U+D800 */
        {"\xF4\x90\x80\x80", 4, false}, /* U+110000 */
        {"\xF8\x88\x80\x80\x80", 5, false},
        {"\xFF", 1, false},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        char *exact = new_array(rows[n].bytes, 1); /* ASan sees a byte too many */
        memcpy(exact, rows[n].text, rows[n].bytes);
        const foci_text text = {exact, rows[n].bytes};
        if (foci_text_is_plain(text) != rows[n].is_plain) fail_msg("row %zu", n);
        free(exact);
    }
}

static void texts_are_equal_by_bytes(void **state)
{
    (void)state;
    assert_true(foci_text_equal(foci_text_of("abc"), foci_text_of("abc")));
    assert_false(foci_text_equal(foci_text_of("abc"), foci_text_of("abd")));
    assert_false(foci_text_equal(foci_text_of("abc"), foci_text_of("ab")));
    assert_true(foci_text_equal((foci_text){NULL, 0}, foci_text_of("")));
    assert_true(foci_text_equal((foci_text){"a\0b", 3}, (foci_text){"a\0b", 3}));
    assert_false(foci_text_equal((foci_text){"a\0b", 3}, (foci_text){"a\0c", 3}));
}

/* The n-th of some names that begin alike and come in an order of that kind. */
static void write_name(char *name, int order, int n)
{
    const int number = order == 0 ? n : order == 1 ? NAMES - 1 - n : (n * 7919) % NAMES;
    (void)snprintf(name, NAME_BYTES, "the.same.long.beginning.%d", number);
}

static void every_name_is_found(void **state)
{
    (void)state;
    char(*letters)[NAME_BYTES] = new_array(NAMES, NAME_BYTES);
    foci_name *names = new_array(NAMES, sizeof *names);
    static const int counts[] = {0, 1, 2, 3, 4, 7, 100, NAMES};
    for (int order = 0; order < 3; order++) {
        for (size_t c = 0; c < FOCAL_COUNT(counts); c++) {
            const int count = counts[c];
            for (int n = 0; n < count; n++) {
                write_name(letters[n], order, n);
                names[n] = (foci_name){foci_text_of(letters[n]), n};
            }
            foci_names_sort(names, count);
            assert_null(foci_names_repeated(names, count));
            for (int n = 0; n < count; n++)
                assert_int_equal(foci_names_find(names, count, foci_text_of(letters[n])), n);
            assert_int_equal(foci_names_find(names, count, foci_text_of("")), -1);
            assert_int_equal(foci_names_find(names, count, foci_text_of("the.same")), -1);
            assert_int_equal(
                foci_names_find(names, count, foci_text_of("the.same.long.beginning.99999")), -1);
        }
    }
    free(names);
    free(letters);
}

static void names_that_stand_twice_are_seen(void **state)
{
    (void)state;
    foci_name names[5];
    for (int first = 0; first < 5; first++) {
        for (int second = 0; second < 5; second++) {
            static const char *const letters[] = {"b", "a", "ccc", "dd", ""};
            for (int n = 0; n < 5; n++) names[n] = (foci_name){foci_text_of(letters[n]), n};
            names[second].text = names[first].text;
            foci_names_sort(names, 5);
            const foci_name *twice = foci_names_repeated(names, 5);
            assert_int_equal(twice != NULL, first != second);
            if (twice) assert_true(foci_text_equal(twice->text, foci_text_of(letters[first])));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_text_is_utf8_without_controls),
        cmocka_unit_test(texts_are_equal_by_bytes),
        cmocka_unit_test(every_name_is_found),
        cmocka_unit_test(names_that_stand_twice_are_seen),
    };
    return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
