/* What tokenizers stand on: UTF-8, Unicode's classes and normal forms, patterns, and that the
 * hand-written patterns split as the regular expressions do. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "text/normalizer.h"
#include "text/scan.h"
#include "text/tokenizer.h"
#include "text/unicode.h"

static void utf8_goes_both_ways(void **state)
{
    (void)state;
    for (int32_t c = 0; c <= 0x10FFFF; c++) {
        char encoded[FOCI_UTF8_MOST];
        size_t length = 0;
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        const size_t bytes = foci_utf8_encode(c, encoded);
        assert_int_equal(foci_utf8_decode(encoded, bytes, &length), c);
        assert_int_equal(length, bytes);
        if (bytes > 1)
            assert_int_equal(foci_utf8_decode(encoded, bytes - 1, &length), FOCI_UTF8_PARTIAL);
    }
}

static void bad_utf8_is_repaired(void **state)
{
    focal_ctx *ctx = *state;
    /* As Unicode's table 3-8 counts the replacements, and Python's decoder. */
    static const struct {
        const char *bad, *good;
        size_t left;
    } cases[] = {
        {"a\xC0\xAFz", "a\uFFFD\uFFFDz", 0},
        {"\xE0\x80\xBF!", "\uFFFD\uFFFD\uFFFD!", 0},
        {"\xED\xA0\x80!", "\uFFFD\uFFFD\uFFFD!", 0},
        {"\xF4\x91\x92\x93!", "\uFFFD\uFFFD\uFFFD\uFFFD!", 0},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF"
         "A",
         "\uFFFD\uFFFD\uFFFD\uFFFDA", 0},
        {"ab\xE2\x82", "ab", 2},
        {"\xF0\x9F\x99", "", 3},
        {"\xFF\xFE", "\uFFFD\uFFFD", 0},
        {"", "", 0},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        focal_buffer out = {0};
        size_t left = 99;
        assert_status(ctx, foci_repair(ctx, cases[n].bad, strlen(cases[n].bad), &out, &left),
                      FOCAL_OK);
        assert_int_equal(out.bytes, strlen(cases[n].good));
        if (out.bytes) assert_memory_equal(out.data, cases[n].good, out.bytes);
        assert_int_equal(left, cases[n].left);
        focal_buffer_free(ctx, &out);
    }
    assert_int_equal(foci_utf8_valid("0123456789\xC3", 11), 10);
    assert_int_equal(foci_utf8_valid("01234567\xC3\xA9", 10), 10);
}

static void assert_normal(focal_ctx *ctx, foci_normal_form form, const char *text, const char *want)
{
    focal_buffer out = {0};
    assert_status(ctx, foci_normalize(ctx, form, text, strlen(text), &out), FOCAL_OK);
    assert_int_equal(out.bytes, strlen(want));
    if (out.bytes) assert_memory_equal(out.data, want, out.bytes);
    focal_buffer_free(ctx, &out);
}

static void normal_forms(void **state)
{
    focal_ctx *ctx = *state;
    if (!foci_unicode_is_here())
        skip_without("utf8proc", "install libutf8proc-dev and configure again");
    assert_normal(ctx, FOCI_NFC, "", "");
    assert_normal(ctx, FOCI_NFC, "plain", "plain");
    assert_normal(ctx, FOCI_NFC, "cafe\u0301 e", "caf\u00E9 e");
    assert_normal(ctx, FOCI_NFD, "caf\u00E9", "cafe\u0301");
    assert_normal(ctx, FOCI_NFC, "\u1112\u1161\u11AB", "\uD55C");
    assert_normal(ctx, FOCI_NFKC, "\uFB01 \u2460 \uFF76\uFF9E", "fi 1 \u30AC");
    assert_normal(ctx, FOCI_NFKD, "\u00BD", "1\u20442");
    assert_normal(ctx, FOCI_NFD, "q\u0307\u0323", "q\u0323\u0307");
    assert_normal(ctx, FOCI_NFC,
                  "\xFF"
                  "e\u0301\xC3",
                  "\xFF\u00E9\xC3");
}

/* Runs of marks beyond the short sort, and texts beyond a slice, come out as short ones do. */
static void long_runs_are_normalised_alike(void **state)
{
    focal_ctx *ctx = *state;
    if (!foci_unicode_is_here())
        skip_without("utf8proc", "install libutf8proc-dev and configure again");
    focal_buffer text = {0}, out = {0};
    const size_t marks = 5000, words = 20000;
    assert_status(ctx, foci_buffer_put(ctx, &text, "q", 1), FOCAL_OK);
    for (size_t n = 0; n < marks; n++)
        assert_status(ctx, foci_buffer_put(ctx, &text, "\u0307\u0323", 4), FOCAL_OK);
    assert_status(ctx, foci_normalize(ctx, FOCI_NFD, text.data, text.bytes, &out), FOCAL_OK);
    assert_int_equal(out.bytes, text.bytes);
    for (size_t n = 0; n < marks; n++) {
        assert_memory_equal(out.data + 1 + 2 * n, "\u0323", 2);
        assert_memory_equal(out.data + 1 + 2 * marks + 2 * n, "\u0307", 2);
    }
    text.bytes = out.bytes = 0;
    for (size_t n = 0; n < words; n++)
        assert_status(ctx, foci_buffer_put(ctx, &text, "\u0434\u0438\u0306\u4E2D", 9), FOCAL_OK);
    assert_status(ctx, foci_normalize(ctx, FOCI_NFC, text.data, text.bytes, &out), FOCAL_OK);
    assert_int_equal(out.bytes, words * 7);
    for (size_t n = 0; n < words; n++)
        assert_memory_equal(out.data + 7 * n, "\u0434\u0439\u4E2D", 7);
    focal_buffer_free(ctx, &text);
    focal_buffer_free(ctx, &out);
}

static void classes_of_characters(void **state)
{
    (void)state;
    assert_int_equal(foci_char_class_of('a'), FOCI_CHAR_LETTER);
    assert_int_equal(foci_char_class_of('Z'), FOCI_CHAR_LETTER);
    assert_int_equal(foci_char_class_of('7'), FOCI_CHAR_NUMBER);
    assert_int_equal(foci_char_class_of('['), foci_char_class_of(']'));
    assert_int_equal(foci_char_class_of('\n'), FOCI_CHAR_SPACE);
    assert_true(foci_is_space(0x3000));
    assert_false(foci_is_space(0x180E)); /* was a space once */
    assert_false(foci_is_space(0x200B));
    if (!foci_unicode_is_here()) return;
    assert_int_equal(foci_char_class_of(0x4E2D), FOCI_CHAR_LETTER);
    assert_int_equal(foci_char_class_of(0x2160), FOCI_CHAR_NUMBER);
    assert_int_equal(foci_char_class_of(0x301), FOCI_CHAR_MARK);
    assert_int_equal(foci_char_class_of(0x2014), FOCI_CHAR_PUNCTUATION);
    assert_true(foci_is_word('_') && foci_is_word(0x301) && !foci_is_word('-'));
    int32_t lower[2];
    assert_int_equal(foci_lower(0x130, lower), 2);
    assert_int_equal(foci_lower(0xC4, lower), 1);
    assert_int_equal(lower[0], 0xE4);
}

/* A text of odd characters, many of each class, from a seed. */
static size_t odd_text(uint32_t seed, char *out, size_t room)
{
    static const char *const pieces[] = {
        "a",  "B",      "'",      "s",          "'s",  "'LL",    "\xC5\xBF", " ",      "  ",
        "\n", "\r\n",   "\t",     "1",          "23",  "\u00A0", "\u3000",   "\u0301", ".",
        "!?", "\u4E2D", "\u0663", "\U0001F600", "'re", "d",      "\u2028",   "_",      "\x1A"};
    size_t bytes = 0;
    for (;;) {
        seed = seed * 1664525U + 1013904223U;
        const char *piece = pieces[(seed >> 16) % FOCAL_COUNT(pieces)];
        if (bytes + strlen(piece) > room) return bytes;
        for (; *piece; piece++) out[bytes++] = *piece;
    }
}

static void scanners_equal_patterns(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const sources[] = {foci_gpt2_pattern, foci_llama3_pattern,
                                          foci_qwen2_pattern};
    foci_pattern *pattern = NULL;
    if (!foci_unicode_is_here())
        skip_without("utf8proc", "install libutf8proc-dev and configure again");
    for (size_t s = 0; s < FOCAL_COUNT(sources); s++) {
        const foci_scan scan = foci_scan_of(sources[s], strlen(sources[s]));
        assert_int_equal(scan, s + 1);
        const focal_status status = foci_pattern_new(ctx, sources[s], strlen(sources[s]), &pattern);
        if (status == FOCAL_EUNSUPPORTED)
            skip_without("PCRE2", "install libpcre2-dev and configure again");
        assert_status(ctx, status, FOCAL_OK);
        for (uint32_t seed = 1; seed <= 2000; seed++) {
            char text[48];
            const size_t bytes = odd_text(seed, text, seed % sizeof text);
            int64_t work = foci_pattern_work(bytes);
            const foci_pattern_text in = {text, bytes, &work};
            for (size_t at = 0; at < bytes;) {
                size_t begin, end;
                assert_status(ctx, foci_pattern_find(ctx, pattern, &in, at, &begin, &end),
                              FOCAL_OK);
                assert_int_equal(begin, at);
                const size_t got = foci_scan_next(scan, text, bytes, at);
                if (got != end)
                    fail_msg("pattern %zu on '%.*s' at %zu: %zu, expected %zu", s, (int)bytes, text,
                             at, got, end);
                at = end;
            }
        }
        foci_pattern_free(pattern);
    }
    assert_int_equal(foci_scan_of("\\s+", 3), FOCI_SCAN_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(utf8_goes_both_ways),
        cmocka_unit_test_setup_teardown(bad_utf8_is_repaired, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(normal_forms, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(long_runs_are_normalised_alike, open_ctx, close_ctx),
        cmocka_unit_test(classes_of_characters),
        cmocka_unit_test_setup_teardown(scanners_equal_patterns, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
