/* What a good GGUF file gives: every type of key, arrays, tensors, from a file and from memory. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf.h"
#include "support/folder.h"
#include "support/gguf_sample.h"

enum { MANY = 200, SAMPLE_KEYS = 24 };

/* The sample in memory, open. */
typedef struct sample {
    foci_map map;
    foci_gguf *gguf;
} sample;

static sample open_sample(focal_ctx *ctx)
{
    gguf_bytes b;
    gguf_sample(&b);
    sample s = {.map = exact_copy(&b, b.count)};
    const focal_status status = foci_gguf_from_memory(ctx, "sample.gguf", &s.map, 1, &s.gguf);
    if (status != FOCAL_OK) print_message("%s\n", focal_ctx_error(ctx));
    assert_int_equal(status, FOCAL_OK);
    return s;
}

static void close_sample(sample *s)
{
    foci_gguf_close(s->gguf);
    exact_free(&s->map);
}

static void assert_text(foci_text text, const char *expected)
{
    assert_int_equal(text.bytes, strlen(expected));
    assert_memory_equal(text.data, expected, text.bytes);
}

static void keys_stand_in_file_order(void **state)
{
    sample s = open_sample(*state);
    assert_string_equal(foci_gguf_path(s.gguf), "sample.gguf");
    assert_int_equal(foci_gguf_key_count(s.gguf), SAMPLE_KEYS);
    assert_text(foci_gguf_key(s.gguf, 0), "a.u8");
    assert_text(foci_gguf_key(s.gguf, SAMPLE_KEYS - 1), "general.alignment");
    for (int64_t n = 0; n < SAMPLE_KEYS; n++) {
        char key[64];
        const foci_text text = foci_gguf_key(s.gguf, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)text.bytes, text.data);
        assert_true(foci_gguf_has(s.gguf, key));
    }
    const char *const others[] = {"", "a", "a.u", "a.u88", "b.u8", "split.no", "zzz"};
    for (size_t n = 0; n < FOCAL_COUNT(others); n++) assert_false(foci_gguf_has(s.gguf, others[n]));
    close_sample(&s);
}

static void integers_of_every_width(void **state)
{
    static const struct {
        const char *key;
        int64_t value;
    } rows[] = {{"a.u8", 200},       {"a.i8", -100},        {"a.u16", 60000},
                {"a.i16", -30000},   {"a.u32", 4000000000}, {"a.i32", -2000000000},
                {"a.i64", INT64_MIN}};
    sample s = open_sample(*state);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        int64_t value = 7;
        double real = 7.0;
        assert_int_equal(foci_gguf_get_int(s.gguf, rows[n].key, INT64_MIN, INT64_MAX, &value),
                         FOCAL_OK);
        assert_true(value == rows[n].value);
        assert_int_equal(foci_gguf_get_real(s.gguf, rows[n].key, &real), FOCAL_OK);
        assert_true(real == (double)rows[n].value);
    }
    close_sample(&s);
}

static void scalars_of_other_types(void **state)
{
    sample s = open_sample(*state);
    double real = 0.0;
    bool flag = false;
    foci_text text = {NULL, 0};
    assert_int_equal(foci_gguf_get_real(s.gguf, "a.f32", &real), FOCAL_OK);
    assert_true(real == 0.5);
    assert_int_equal(foci_gguf_get_real(s.gguf, "a.f64", &real), FOCAL_OK);
    assert_true(real == -0.25);
    assert_int_equal(foci_gguf_get_bool(s.gguf, "a.bool", &flag), FOCAL_OK);
    assert_true(flag);
    assert_int_equal(foci_gguf_get_text(s.gguf, "a.text", &text), FOCAL_OK);
    assert_text(text, "some text");
    foci_gguf_value value = {.count = 7};
    assert_true(foci_gguf_get_value(s.gguf, "array.i32", &value));
    assert_int_equal(value.type, FOCI_GGUF_ARRAY);
    assert_int_equal(value.element, FOCI_GGUF_I32);
    assert_int_equal(value.count, 3);
    assert_int_equal(value.raw.bytes, 12);
    assert_false(foci_gguf_get_value(s.gguf, "none", &value));
    assert_int_equal(value.count, 3);
    close_sample(&s);
}

static void a_missing_key_changes_nothing(void **state)
{
    sample s = open_sample(*state);
    int64_t integer = 7, count = 7;
    double real = 7.0;
    bool flag = true;
    foci_text text = {"x", 1};
    assert_int_equal(foci_gguf_get_int(s.gguf, "none", 0, 1, &integer), FOCAL_OK);
    assert_int_equal(foci_gguf_get_real(s.gguf, "none", &real), FOCAL_OK);
    assert_int_equal(foci_gguf_get_bool(s.gguf, "none", &flag), FOCAL_OK);
    assert_int_equal(foci_gguf_get_text(s.gguf, "none", &text), FOCAL_OK);
    assert_int_equal(integer, 7);
    assert_true(real == 7.0 && flag);
    assert_text(text, "x");
    const foci_text *texts = &text;
    assert_int_equal(foci_gguf_get_texts(s.gguf, "none", &texts, &count), FOCAL_OK);
    assert_null(texts);
    assert_int_equal(count, 0);
    close_sample(&s);
}

/* Each look-up on a key of another type or outside the limits: a sentence, nothing changed. */
static void wrong_values_are_told(void **state)
{
    focal_ctx *ctx = *state;
    sample s = open_sample(ctx);
    int64_t integer = 7, count = 7;
    double real = 7.0;
    bool flag = true;
    foci_text text = {"x", 1};
    assert_status(ctx, foci_gguf_get_int(s.gguf, "a.u8", -5, 199, &integer), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "sample.gguf: key 'a.u8': 200, allowed are -5 to 199");
    assert_status(ctx, foci_gguf_get_int(s.gguf, "a.i8", -99, 0, &integer), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_int(s.gguf, "a.u64", 0, INT64_MAX, &integer), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "sample.gguf: key 'a.u64': an integer beyond 2^63 - 1");
    assert_status(ctx, foci_gguf_get_real(s.gguf, "a.u64", &real), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_int(s.gguf, "a.f32", 0, 1, &integer), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx), "sample.gguf: key 'a.f32': f32, wanted an integer");
    assert_status(ctx, foci_gguf_get_int(s.gguf, "a.bool", 0, 1, &integer), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_int(s.gguf, "array.u8", 0, 255, &integer), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "sample.gguf: key 'array.u8': u8s in an array, wanted an integer");
    assert_status(ctx, foci_gguf_get_real(s.gguf, "a.text", &real), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_real(s.gguf, "a.nan", &real), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "sample.gguf: key 'a.nan': nan is not a finite number");
    assert_status(ctx, foci_gguf_get_bool(s.gguf, "a.u8", &flag), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_text(s.gguf, "array.text", &text), FOCAL_EFORMAT);
    assert_int_equal(integer, 7);
    assert_true(real == 7.0 && flag);
    assert_text(text, "x");

    const int64_t *ints = &integer;
    const float *reals = NULL;
    const bool *flags = NULL;
    const foci_text *texts = NULL;
    assert_status(ctx, foci_gguf_get_ints(s.gguf, "array.u64", &ints, &count), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "sample.gguf: key 'array.u64': an integer beyond 2^63 - 1");
    assert_null(ints);
    assert_int_equal(count, 0);
    assert_status(ctx, foci_gguf_get_ints(s.gguf, "array.f32", &ints, &count), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_reals(s.gguf, "array.i32", &reals, &count), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_bools(s.gguf, "array.u8", &flags, &count), FOCAL_EFORMAT);
    assert_status(ctx, foci_gguf_get_texts(s.gguf, "array.bool", &texts, &count), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "sample.gguf: key 'array.bool': bools in an array, wanted strings");
    close_sample(&s);
}

static void arrays_are_made_once(void **state)
{
    sample s = open_sample(*state);
    const int64_t *ints = NULL, *again = NULL;
    const float *reals = NULL;
    const bool *flags = NULL;
    const foci_text *texts = NULL;
    int64_t count = 0;
    assert_int_equal(foci_gguf_get_ints(s.gguf, "array.i32", &ints, &count), FOCAL_OK);
    assert_int_equal(count, 3);
    assert_true(ints[0] == -3 && ints[1] == 0 && ints[2] == 7);
    assert_int_equal(foci_gguf_get_ints(s.gguf, "array.i32", &again, &count), FOCAL_OK);
    assert_ptr_equal(ints, again);
    assert_int_equal(foci_gguf_get_ints(s.gguf, "array.u8", &ints, &count), FOCAL_OK);
    assert_true(count == 2 && ints[0] == 1 && ints[1] == 255);
    assert_int_equal(foci_gguf_get_ints(s.gguf, "a.i16", &ints, &count), FOCAL_OK);
    assert_true(count == 1 && ints[0] == -30000);
    assert_int_equal(foci_gguf_get_reals(s.gguf, "array.f32", &reals, &count), FOCAL_OK);
    assert_true(count == 2 && reals[0] == 1.5F && reals[1] == -2.0F);
    assert_int_equal(foci_gguf_get_reals(s.gguf, "array.f64", &reals, &count), FOCAL_OK);
    assert_true(count == 1 && reals[0] == 0.125F);
    assert_int_equal(foci_gguf_get_bools(s.gguf, "array.bool", &flags, &count), FOCAL_OK);
    assert_true(count == 3 && flags[0] && !flags[1] && flags[2]);
    assert_int_equal(foci_gguf_get_texts(s.gguf, "array.text", &texts, &count), FOCAL_OK);
    assert_int_equal(count, 3);
    assert_text(texts[0], "one");
    assert_text(texts[1], "");
    assert_int_equal(texts[2].bytes, 2);
    assert_memory_equal(texts[2].data, "\xFF\0", 2);
    assert_int_equal(foci_gguf_get_texts(s.gguf, "array.none", &texts, &count), FOCAL_OK);
    assert_int_equal(count, 0);
    assert_int_equal(foci_gguf_get_texts(s.gguf, "a.text", &texts, &count), FOCAL_OK);
    assert_int_equal(count, 1);
    assert_text(texts[0], "some text");
    close_sample(&s);
}

static void assert_sample_tensors(const foci_gguf *gguf)
{
    assert_int_equal(foci_gguf_tensor_count(gguf), 3);
    const foci_tensor *f32 = foci_gguf_tensor(gguf, "rows.f32");
    const foci_tensor *q4 = foci_gguf_tensor(gguf, "rows.q4_0");
    const foci_tensor *f16 = foci_gguf_tensor(gguf, "rows.f16");
    assert_ptr_equal(f32, foci_gguf_tensor_at(gguf, 0));
    assert_ptr_equal(q4, foci_gguf_tensor_at(gguf, 1));
    assert_ptr_equal(f16, foci_gguf_tensor_at(gguf, 2));
    assert_null(foci_gguf_tensor(gguf, "rows"));
    assert_string_equal(f32->name, "rows.f32");
    assert_int_equal(f32->dtype, FOCAL_F32);
    assert_int_equal(f32->dims, 2);
    assert_true(f32->shape[0] == 3 && f32->shape[1] == 8 && f32->shape[2] == 1 &&
                f32->shape[3] == 1);
    assert_int_equal(f32->bytes, 96);
    for (int n = 0; n < 24; n++) assert_true(((const float *)f32->data)[n] == (float)n);
    assert_int_equal(q4->dtype, FOCAL_Q4_0);
    assert_int_equal(q4->bytes, 72);
    for (int n = 0; n < 72; n++) assert_int_equal(((const uint8_t *)q4->data)[n], n);
    assert_int_equal(f16->dtype, FOCAL_F16);
    assert_int_equal(f16->dims, 1);
    assert_true(f16->shape[0] == 5 && f16->shape[1] == 1);
    for (int n = 0; n < 5; n++) assert_int_equal(((const uint16_t *)f16->data)[n], 0x3C00);
}

static void tensors_lie_where_the_file_says(void **state)
{
    sample s = open_sample(*state);
    assert_sample_tensors(s.gguf);
    close_sample(&s);
}

static void files_are_read_where_they_lie(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "sample.gguf");
    gguf_bytes b;
    gguf_sample(&b);
    for (int version = 2; version <= 3; version++) {
        set_number(&b, b.place[AT_VERSION], (uint64_t)version, 4);
        write_bytes(path, b.data, b.count);
        foci_gguf *gguf = NULL;
        assert_int_equal(foci_gguf_open(ctx, path, &gguf), FOCAL_OK);
        assert_string_equal(foci_gguf_path(gguf), path);
        assert_sample_tensors(gguf);
        foci_gguf_close(gguf);
    }
    foci_gguf *gguf = (foci_gguf *)(void *)ctx;
    assert_status(ctx, foci_gguf_open(ctx, folder_file(&f, "none.gguf"), &gguf), FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(ctx), "none.gguf: No such file or directory"));
    assert_null(gguf);
    assert_status(ctx, foci_gguf_open(ctx, f.path, &gguf), FOCAL_EFORMAT);
    foci_gguf_close(NULL);
    folder_remove(&f);
}

/* Vocabularies are files without tensors; such a file may end right behind its keys. */
static void a_file_may_have_no_tensors(void **state)
{
    focal_ctx *ctx = *state;
    for (int has_padding = 0; has_padding < 2; has_padding++) {
        gguf_bytes b = {.count = 0};
        put_header(&b, 0, 1);
        put_text_key(&b, "general.architecture", "llama");
        if (has_padding) put_padding(&b, 32);
        foci_map map = exact_copy(&b, b.count);
        foci_gguf *gguf = NULL;
        assert_int_equal(foci_gguf_from_memory(ctx, "vocab.gguf", &map, 1, &gguf), FOCAL_OK);
        assert_int_equal(foci_gguf_tensor_count(gguf), 0);
        assert_null(foci_gguf_tensor(gguf, "any"));
        assert_int_equal(foci_gguf_key_count(gguf), 1);
        foci_gguf_close(gguf);
        exact_free(&map);
    }
}

/* The numbers are ggml's, with what each type takes for 256 elements; all others are refused. */
static void every_tensor_type_has_its_number(void **state)
{
    enum { MOST = 40 };
    static const struct {
        bool is_known;
        focal_dtype dtype;
        size_t bytes;
    } types[MOST] = {
        [0] = {true, FOCAL_F32, 1024},    [1] = {true, FOCAL_F16, 512},
        [2] = {true, FOCAL_Q4_0, 144},    [3] = {true, FOCAL_Q4_1, 160},
        [6] = {true, FOCAL_Q5_0, 176},    [7] = {true, FOCAL_Q5_1, 192},
        [8] = {true, FOCAL_Q8_0, 272},    [10] = {true, FOCAL_Q2_K, 84},
        [11] = {true, FOCAL_Q3_K, 110},   [12] = {true, FOCAL_Q4_K, 144},
        [13] = {true, FOCAL_Q5_K, 176},   [14] = {true, FOCAL_Q6_K, 210},
        [20] = {true, FOCAL_IQ4_NL, 144}, [30] = {true, FOCAL_BF16, 512},
    };
    focal_ctx *ctx = *state;
    for (uint32_t type = 0; type < MOST; type++) {
        gguf_bytes b = {.count = 0};
        put_header(&b, 1, 0);
        put_string(&b, "t");
        put_number(&b, 1, 4);
        put_number(&b, 256, 8);
        put_number(&b, type, 4);
        put_number(&b, 0, 8);
        put_padding(&b, 32);
        for (size_t n = 0; n < types[type].bytes; n++) put_number(&b, 0, 1);
        foci_map map = exact_copy(&b, b.count);
        foci_gguf *gguf = NULL;
        const focal_status status = foci_gguf_from_memory(ctx, "t.gguf", &map, 1, &gguf);
        if (types[type].is_known) {
            assert_int_equal(status, FOCAL_OK);
            assert_int_equal(foci_gguf_tensor_at(gguf, 0)->dtype, types[type].dtype);
            assert_int_equal(foci_gguf_tensor_at(gguf, 0)->bytes, types[type].bytes);
        } else {
            assert_status(ctx, status, FOCAL_EUNSUPPORTED);
        }
        foci_gguf_close(gguf);
        exact_free(&map);
    }
}

/* Opens the sample and asks for its arrays. */
static focal_status use_sample(focal_ctx *ctx, const char *path)
{
    foci_gguf *gguf = NULL;
    focal_status status = foci_gguf_open(ctx, path, &gguf);
    const foci_text *texts = NULL;
    const int64_t *ints = NULL;
    int64_t count = 0;
    if (status == FOCAL_OK) status = foci_gguf_get_texts(gguf, "array.text", &texts, &count);
    if (status == FOCAL_OK) status = foci_gguf_get_ints(gguf, "array.i32", &ints, &count);
    if (status == FOCAL_OK) assert_true(count == 3 && ints[2] == 7 && texts[0].bytes == 3);
    foci_gguf_close(gguf);
    return status;
}

static void memory_that_runs_out_is_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "sample.gguf");
    gguf_bytes b;
    gguf_sample(&b);
    write_bytes(path, b.data, b.count);
    int64_t n = 1;
    for (;; n++) {
        assert_true(n < MANY);
        const int64_t live = memory_live_blocks();
        memory_fail(n, false);
        const focal_status status = use_sample(ctx, path);
        memory_fail(0, false);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
    }
    assert_true(n > 8);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_stand_in_file_order, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(integers_of_every_width, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(scalars_of_other_types, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_missing_key_changes_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_values_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(arrays_are_made_once, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tensors_lie_where_the_file_says, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(files_are_read_where_they_lie, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_file_may_have_no_tensors, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_tensor_type_has_its_number, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_is_told, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("gguf", tests, NULL, NULL);
}
