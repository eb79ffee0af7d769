/* JSON as loaders read it: every type and its fallback, order, and what is refused. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"

static foci_json *parse(focal_ctx *ctx, const char *text)
{
    foci_json *root = NULL;
    assert_status(ctx, foci_json_parse(ctx, "text", text, strlen(text), &root), FOCAL_OK);
    assert_non_null(root);
    return root;
}

static void types_are_told_apart(void **state)
{
    foci_json *root = parse(*state, "{\"n\":null,\"b\":true,\"i\":-7,\"r\":2.5,\"s\":\"text\","
                                    "\"a\":[1,2,3],\"o\":{\"x\":1,\"y\":2}}");
    static const struct {
        const char *key;
        foci_json_type type;
        int64_t count;
    } members[] = {
        {"n", FOCI_JSON_NULL, 0},   {"b", FOCI_JSON_BOOL, 0},   {"i", FOCI_JSON_INT, 0},
        {"r", FOCI_JSON_REAL, 0},   {"s", FOCI_JSON_STRING, 0}, {"a", FOCI_JSON_ARRAY, 3},
        {"o", FOCI_JSON_OBJECT, 2},
    };
    for (size_t n = 0; n < FOCAL_COUNT(members); n++) {
        const foci_json *value = foci_json_get(root, members[n].key);
        assert_non_null(value);
        assert_int_equal(foci_json_kind(value), members[n].type);
        assert_int_equal(foci_json_count(value), members[n].count);
        for (int type = FOCI_JSON_NULL; type <= FOCI_JSON_OBJECT; type++)
            assert_int_equal(foci_json_is(value, (foci_json_type)type),
                             members[n].type == (foci_json_type)type);
        assert_int_equal(foci_json_int(value, 99), members[n].type == FOCI_JSON_INT ? -7 : 99);
        assert_int_equal(foci_json_bool(value, false), members[n].type == FOCI_JSON_BOOL);
        assert_int_equal(foci_json_length(value), members[n].type == FOCI_JSON_STRING ? 4 : 0);
        if (members[n].type != FOCI_JSON_STRING) assert_null(foci_json_string(value));
        if (members[n].type != FOCI_JSON_OBJECT) assert_null(foci_json_get(value, "x"));
        if (members[n].type != FOCI_JSON_ARRAY) assert_null(foci_json_at(value, 0));
    }
    assert_string_equal(foci_json_string(foci_json_get(root, "s")), "text");
    assert_true(foci_json_real(foci_json_get(root, "r"), 0.0) == 2.5);
    assert_true(foci_json_real(foci_json_get(root, "i"), 0.0) == -7.0); /* an integer will do */
    assert_true(foci_json_real(foci_json_get(root, "s"), 1.5) == 1.5);
    const foci_json *array = foci_json_get(root, "a");
    for (int64_t n = 0; n < 3; n++)
        assert_int_equal(foci_json_int(foci_json_at(array, n), 0), n + 1);
    assert_null(foci_json_at(array, 3));
    assert_null(foci_json_at(array, -1));
    assert_null(foci_json_at(array, INT64_MIN));
    foci_json_free(root);
}

static void what_is_missing_gives_the_fallback(void **state)
{
    foci_json *root = parse(*state, "{\"here\":1}");
    const foci_json *missing = foci_json_get(root, "there");
    assert_null(missing);
    assert_int_equal(foci_json_kind(missing), FOCI_JSON_NULL);
    assert_false(foci_json_is(missing, FOCI_JSON_NULL));
    assert_null(foci_json_get(missing, "further"));
    assert_null(foci_json_at(missing, 0));
    assert_null(foci_json_string(missing));
    assert_int_equal(foci_json_count(missing), 0);
    assert_int_equal(foci_json_length(missing), 0);
    assert_int_equal(foci_json_int(missing, -3), -3);
    assert_true(foci_json_real(missing, 0.25) == 0.25);
    assert_true(foci_json_bool(missing, true));
    foci_json_member member = {0};
    assert_false(foci_json_next(missing, &member));
    foci_json_free(root);
    foci_json_free(NULL);
}

static void members_come_in_file_order(void **state)
{
    foci_json *root = parse(*state, "{\"z\":0,\"a\":1,\"m\":2,\"\":3,\"\\u00e9\":4}");
    static const char *const keys[] = {"z", "a", "m", "", "\xC3\xA9"};
    int64_t count = 0;
    for (foci_json_member m = {0}; foci_json_next(root, &m); count++) {
        assert_true(count < (int64_t)FOCAL_COUNT(keys));
        assert_string_equal(m.key, keys[count]);
        assert_int_equal(m.key_length, strlen(keys[count]));
        assert_int_equal(foci_json_int(m.value, -1), count);
    }
    assert_int_equal(count, FOCAL_COUNT(keys));
    foci_json_free(root);
}

static void strings_may_hold_nul(void **state)
{
    foci_json *root = parse(*state, "[\"a\\u0000b\",\"\"]");
    const foci_json *value = foci_json_at(root, 0);
    assert_int_equal(foci_json_length(value), 3);
    assert_memory_equal(foci_json_string(value), "a\0b", 4);
    assert_int_equal(foci_json_length(foci_json_at(root, 1)), 0);
    assert_string_equal(foci_json_string(foci_json_at(root, 1)), "");
    foci_json_free(root);
}

static void numbers_reach_their_limits(void **state)
{
    foci_json *root = parse(*state, "[9223372036854775807,-9223372036854775808,1e308,-0.0,1e-400]");
    assert_true(foci_json_int(foci_json_at(root, 0), 0) == INT64_MAX);
    assert_true(foci_json_int(foci_json_at(root, 1), 0) == INT64_MIN);
    assert_true(foci_json_real(foci_json_at(root, 2), 0.0) == 1e308);
    assert_true(signbit(foci_json_real(foci_json_at(root, 3), 1.0)));
    assert_true(foci_json_real(foci_json_at(root, 4), 1.0) == 0.0);
    foci_json_free(root);
}

static void values_stand_alone(void **state)
{
    static const char *const texts[] = {"1", "null", "\"x\"", " [] ", "\n{}\n", "true"};
    for (size_t n = 0; n < FOCAL_COUNT(texts); n++) foci_json_free(parse(*state, texts[n]));
}

/* With its own length, as a text may hold NUL. */
typedef struct bad_text {
    const char *text;
    size_t bytes;
    const char *part; /* of the sentence */
} bad_text;

#define BAD(text, part)                                                                            \
    {                                                                                              \
        (text), sizeof(text) - 1, (part)                                                           \
    }

static void bad_texts_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const bad_text texts[] = {
        BAD("", "line 1"),
        BAD("   ", "line 1"),
        BAD("{\"a\":1,\"a\":2}", "duplicate"),
        BAD("{\"a\":1,\"\\u0061\":2}", "duplicate"), /* the same key in other letters */
        BAD("{\"o\":{\"a\":1,\"a\":1}}", "duplicate"),
        BAD("{\"a\\u0000b\":1}", "NUL"),
        BAD("{} {}", "end of file expected"),
        BAD("[1] x", "end of file expected"),
        BAD("[1]\0", "end of file expected"),
        BAD("[1,]", "line 1"),
        BAD("[1", "line 1"),
        BAD("{\"a\"", "line 1"),
        BAD("{\"a\":}", "line 1"),
        BAD("{a:1}", "line 1"),
        BAD("['a']", "line 1"),
        BAD("[01]", "line 1"),
        BAD("[+1]", "line 1"),
        BAD("[.5]", "line 1"),
        BAD("[NaN]", "line 1"),
        BAD("[Infinity]", "line 1"),
        BAD("[9223372036854775808]", "too big integer"),
        BAD("[-9223372036854775809]", "too big negative integer"),
        BAD("[1e400]", "real number overflow"),
        BAD("[\"\xFF\"]", "decode byte"),
        BAD("[\"\xC0\x80\"]", "decode byte"),     /* NUL, too long */
        BAD("[\"\xED\xA0\x80\"]", "decode byte"), /* half of a pair */
        BAD("[\"\\ud800\"]", "line 1"),
        BAD("[\"a\nb\"]", "line 1"),
        BAD("[\"a\x1B[31m\"]", "control character"),
        BAD("[\x1B]", "invalid token"),
        BAD("// a comment\n[]", "line 1"),
        BAD("\xEF\xBB\xBF[]", "line 1"), /* a byte-order mark */
        BAD("]", "line 1"),
    };
    for (size_t n = 0; n < FOCAL_COUNT(texts); n++) {
        foci_json *root = (foci_json *)(void *)&root;
        const focal_status status =
            foci_json_parse(ctx, "config.json", texts[n].text, texts[n].bytes, &root);
        assert_status(ctx, status, FOCAL_EFORMAT);
        assert_null(root);
        const char *sentence = focal_ctx_error(ctx);
        if (strncmp(sentence, "config.json: ", 13) != 0 || !strstr(sentence, texts[n].part))
            fail_msg("row %zu: '%s' has no '%s'", n, sentence, texts[n].part);
        for (; *sentence; sentence++)
            if ((unsigned char)*sentence < 0x20) fail_msg("row %zu: a control character", n);
    }
}

/* Copies text without its NUL; the place behind it. */
static char *put(char *at, const char *text)
{
    for (; *text; text++) *at++ = *text;
    return at;
}

/* depth times opening, a string, depth times closing. */
static void assert_depth(focal_ctx *ctx, size_t depth, focal_status expected)
{
    char *text = new_array(2 * depth + 3, 1);
    memset(text, '[', depth);
    memset(put(text + depth, "\"[\""), ']', depth); /* brackets in strings do not count */
    foci_json *root = NULL;
    assert_status(ctx, foci_json_parse(ctx, "text", text, 2 * depth + 3, &root), expected);
    if (expected != FOCAL_OK)
        assert_string_equal(focal_ctx_error(ctx), "text: nested deeper than 512 levels");
    foci_json_free(root);
    free(text);
}

static void depth_is_limited(void **state)
{
    assert_depth(*state, 512, FOCAL_OK);
    assert_depth(*state, 513, FOCAL_EFORMAT);
    assert_depth(*state, 5000000, FOCAL_EFORMAT);
    static const char unbalanced[] = "]]]]]]]]]][[[[[[[[[[";
    foci_json *root = NULL;
    assert_status(*state, foci_json_parse(*state, "x", unbalanced, strlen(unbalanced), &root),
                  FOCAL_EFORMAT);
}

/* A text of count values 0 in one array: count + 1 in all. */
static void assert_values(focal_ctx *ctx, size_t count, focal_status expected)
{
    char *text = new_array(2 * count + 1, 1);
    char *at = text;
    for (size_t n = 0; n < count; n++) at = put(at, n == 0 ? "[0" : ",0");
    (void)put(at, "]");
    foci_json *root = NULL;
    assert_status(ctx, foci_json_parse(ctx, "text", text, 2 * count + 1, &root), expected);
    if (expected != FOCAL_OK)
        assert_string_equal(focal_ctx_error(ctx), "text: more than 4194304 values");
    foci_json_free(root);
    free(text);
}

static void values_are_limited(void **state)
{
    assert_values(*state, ((size_t)1 << 22) - 1, FOCAL_OK);
    assert_values(*state, (size_t)1 << 22, FOCAL_EFORMAT);
}

int main(void)
{
    foci_json *root = NULL;
    if (foci_json_parse(NULL, "text", "1", 1, &root) == FOCAL_EUNSUPPORTED) {
        (void)printf("built without Jansson: nothing to test\n");
        return 0;
    }
    foci_json_free(root);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(types_are_told_apart, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_missing_gives_the_fallback, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(members_come_in_file_order, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(strings_may_hold_nul, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(numbers_reach_their_limits, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(values_stand_alone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_texts_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(depth_is_limited, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(values_are_limited, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
