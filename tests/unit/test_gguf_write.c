/* What the GGUF writer writes, read back: values, tensors, copies of whole files, and what it
 * refuses. With FOCAL_TEST_GGUF set to a model file, that one is copied too. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "io/gguf.h"
#include "support/folder.h"
#include "support/gguf_sample.h"

enum { MANY = 300, KEY_BYTES = FOCI_GGUF_KEY_BYTES + 1 };

static void assert_ok(focal_ctx *ctx, focal_status status)
{
    if (status != FOCAL_OK) print_error("%s\n", focal_ctx_error(ctx));
    assert_int_equal(status, FOCAL_OK);
}

static foci_gguf *open_file(focal_ctx *ctx, const char *path)
{
    foci_gguf *gguf = NULL;
    assert_ok(ctx, foci_gguf_open(ctx, path, &gguf));
    return gguf;
}

static void assert_text(foci_text text, const char *expected)
{
    assert_int_equal(text.bytes, strlen(expected));
    assert_memory_equal(text.data, expected, text.bytes);
}

static const float some_floats[] = {1.5F, -2.0F, 0.0F, 1e30F};
static const int32_t some_ints[] = {-1, 0, 2147483647};

static focal_status put_some_keys(foci_gguf_writer *w)
{
    const foci_text texts[] = {foci_text_of("one"), foci_text_of(""), {"\xFF\0\n", 3}};
    FOCAL_TRY(foci_gguf_put_text(w, "general.architecture", foci_text_of("llama")));
    FOCAL_TRY(foci_gguf_put_u32(w, "a.u32", 4000000000U));
    FOCAL_TRY(foci_gguf_put_f32(w, "a.f32", -0.5F));
    FOCAL_TRY(foci_gguf_put_bool(w, "a.true", true));
    FOCAL_TRY(foci_gguf_put_bool(w, "a.false", false));
    FOCAL_TRY(foci_gguf_put_text(w, "a.nothing", (foci_text){NULL, 0}));
    FOCAL_TRY(foci_gguf_put_i32s(w, "ints", some_ints, 3));
    FOCAL_TRY(foci_gguf_put_f32s(w, "floats", some_floats, 4));
    FOCAL_TRY(foci_gguf_put_texts(w, "texts", texts, 3));
    FOCAL_TRY(foci_gguf_put_texts(w, "no.texts", NULL, 0));
    return foci_gguf_put_i32s(w, "no.ints", NULL, 0);
}

static void assert_some_keys(foci_gguf *gguf)
{
    int64_t integer = 0, count = 0;
    double real = 0.0;
    bool yes = false, no = true;
    foci_text text = {NULL, 0};
    assert_int_equal(foci_gguf_get_text(gguf, "general.architecture", &text), FOCAL_OK);
    assert_text(text, "llama");
    assert_int_equal(foci_gguf_get_int(gguf, "a.u32", 0, UINT32_MAX, &integer), FOCAL_OK);
    assert_true(integer == 4000000000);
    assert_int_equal(foci_gguf_get_real(gguf, "a.f32", &real), FOCAL_OK);
    assert_true(real == -0.5);
    assert_int_equal(foci_gguf_get_bool(gguf, "a.true", &yes), FOCAL_OK);
    assert_int_equal(foci_gguf_get_bool(gguf, "a.false", &no), FOCAL_OK);
    assert_true(yes && !no);
    assert_int_equal(foci_gguf_get_text(gguf, "a.nothing", &text), FOCAL_OK);
    assert_text(text, "");
    const int64_t *ints = NULL;
    const float *floats = NULL;
    const foci_text *texts = NULL;
    assert_int_equal(foci_gguf_get_ints(gguf, "ints", &ints, &count), FOCAL_OK);
    assert_int_equal(count, 3);
    for (int n = 0; n < 3; n++) assert_true(ints[n] == some_ints[n]);
    assert_int_equal(foci_gguf_get_reals(gguf, "floats", &floats, &count), FOCAL_OK);
    assert_int_equal(count, 4);
    assert_memory_equal(floats, some_floats, sizeof some_floats);
    assert_int_equal(foci_gguf_get_texts(gguf, "texts", &texts, &count), FOCAL_OK);
    assert_int_equal(count, 3);
    assert_text(texts[0], "one");
    assert_text(texts[1], "");
    assert_memory_equal(texts[2].data, "\xFF\0\n", 3);
    assert_int_equal(foci_gguf_get_texts(gguf, "no.texts", &texts, &count), FOCAL_OK);
    assert_int_equal(count, 0);
    assert_int_equal(foci_gguf_get_ints(gguf, "no.ints", &ints, &count), FOCAL_OK);
    assert_int_equal(count, 0);
}

/* A tensor of each type: two rows of one block, or of three elements. */
typedef struct typed_tensor {
    foci_tensor tensor;
    char name[32];
    uint8_t data[512];
} typed_tensor;

enum { TYPES = FOCAL_IQ4_NL + 1 };

static void make_tensor(typed_tensor *t, focal_dtype dtype)
{
    const int64_t block = focal_dtype_block(dtype);
    const int64_t width = block > 1 ? block : 3;
    (void)snprintf(t->name, sizeof t->name, "w.%s", focal_dtype_name(dtype));
    for (size_t n = 0; n < sizeof t->data; n++) t->data[n] = (uint8_t)(n * 31 + (size_t)dtype);
    t->tensor = (foci_tensor){
        .name = t->name,
        .dtype = dtype,
        .dims = 3,
        .shape = {1, 2, width, 1},
        .data = t->data,
        .bytes = (size_t)(2 * width / block) * focal_dtype_block_bytes(dtype),
    };
    assert_true(t->tensor.bytes <= sizeof t->data);
}

static void assert_tensors_equal(const foci_tensor *a, const foci_tensor *b)
{
    assert_non_null(a);
    assert_non_null(b);
    assert_string_equal(a->name, b->name);
    assert_int_equal(a->dtype, b->dtype);
    assert_int_equal(a->dims, b->dims);
    assert_memory_equal(a->shape, b->shape, sizeof a->shape);
    assert_int_equal(a->bytes, b->bytes);
    assert_true(memcmp(a->data, b->data, a->bytes) == 0);
}

static void keys_and_tensors_come_back(void **state)
{
    focal_ctx *ctx = *state;
    static const uint32_t alignments[] = {0, 8, 32, 4096}; /* 0: nothing said */
    const folder f = folder_new();
    const char *path = folder_file(&f, "new.gguf");
    typed_tensor *tensors = new_array(TYPES, sizeof *tensors);
    for (size_t a = 0; a < FOCAL_COUNT(alignments); a++) {
        foci_gguf_writer *w = NULL;
        assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
        assert_ok(ctx, put_some_keys(w));
        if (alignments[a] > 0)
            assert_ok(ctx, foci_gguf_put_u32(w, "general.alignment", alignments[a]));
        for (int type = 0; type < TYPES; type++) {
            make_tensor(&tensors[type], (focal_dtype)type);
            assert_ok(ctx, foci_gguf_put_tensor(w, &tensors[type].tensor));
        }
        assert_ok(ctx, foci_gguf_writer_commit(w, path, NULL, NULL));
        foci_gguf_writer_free(w);
        foci_gguf *gguf = open_file(ctx, path);
        assert_some_keys(gguf);
        assert_int_equal(foci_gguf_tensor_count(gguf), TYPES);
        const size_t alignment = alignments[a] > 0 ? alignments[a] : 32;
        for (int type = 0; type < TYPES; type++) {
            const foci_tensor *tensor = foci_gguf_tensor_at(gguf, type);
            assert_tensors_equal(tensor, &tensors[type].tensor);
            assert_int_equal((uintptr_t)tensor->data % alignment, 0);
        }
        foci_gguf_close(gguf);
    }
    free(tensors);
    folder_remove(&f);
}

/* The first bytes, by hand: what other programs will see. */
static void the_bytes_are_the_format(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "new.gguf");
    gguf_bytes b = {.count = 0};
    put_header(&b, 1, 2);
    put_text_key(&b, "k", "v");
    put_number_key(&b, "n", 4, 7);
    put_string(&b, "t");
    put_number(&b, 2, 4); /* dimensions, the contiguous one first */
    put_number(&b, 3, 8);
    put_number(&b, 2, 8);
    put_number(&b, 1, 4); /* f16 */
    put_number(&b, 0, 8);
    put_padding(&b, 32);
    put_raw(&b, "0123456789AB", 12);
    put_padding(&b, 32);

    foci_gguf_writer *w = NULL;
    const foci_tensor tensor = {.name = "t",
                                .dtype = FOCAL_F16,
                                .dims = 2,
                                .shape = {2, 3, 1, 1},
                                .data = "0123456789AB",
                                .bytes = 12};
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    assert_ok(ctx, foci_gguf_put_text(w, "k", foci_text_of("v")));
    assert_ok(ctx, foci_gguf_put_u32(w, "n", 7));
    assert_ok(ctx, foci_gguf_put_tensor(w, &tensor));
    for (int round = 0; round < 2; round++) { /* the writer keeps what was put */
        assert_ok(ctx, foci_gguf_writer_commit(w, path, NULL, NULL));
        size_t bytes = 0;
        uint8_t *data = read_bytes(path, &bytes);
        assert_int_equal(bytes, b.count);
        assert_memory_equal(data, b.data, bytes);
        free(data);
    }
    foci_gguf_writer_free(w);
    foci_gguf_writer_free(NULL);
    folder_remove(&f);
}

/* Puts all of a file into a writer. */
static focal_status put_file(foci_gguf_writer *w, const foci_gguf *from)
{
    for (int64_t n = 0; n < foci_gguf_key_count(from); n++) {
        char key[KEY_BYTES];
        const foci_text text = foci_gguf_key(from, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)text.bytes, text.data);
        FOCAL_TRY(foci_gguf_put_copy(w, from, key));
    }
    for (int64_t n = 0; n < foci_gguf_tensor_count(from); n++)
        FOCAL_TRY(foci_gguf_put_tensor(w, foci_gguf_tensor_at(from, n)));
    return FOCAL_OK;
}

static void assert_files_equal(const foci_gguf *a, const foci_gguf *b)
{
    assert_int_equal(foci_gguf_key_count(a), foci_gguf_key_count(b));
    for (int64_t n = 0; n < foci_gguf_key_count(a); n++) {
        char key[KEY_BYTES];
        const foci_text text = foci_gguf_key(a, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)text.bytes, text.data);
        assert_text(foci_gguf_key(b, n), key);
        foci_gguf_value x, y;
        assert_true(foci_gguf_get_value(a, key, &x));
        assert_true(foci_gguf_get_value(b, key, &y));
        assert_int_equal(x.type, y.type);
        assert_int_equal(x.element, y.element);
        assert_int_equal(x.count, y.count);
        assert_true(foci_text_equal(x.raw, y.raw));
    }
    assert_int_equal(foci_gguf_tensor_count(a), foci_gguf_tensor_count(b));
    for (int64_t n = 0; n < foci_gguf_tensor_count(a); n++)
        assert_tensors_equal(foci_gguf_tensor_at(a, n), foci_gguf_tensor_at(b, n));
}

static void copy_file(focal_ctx *ctx, const char *from, const char *to)
{
    foci_gguf *gguf = open_file(ctx, from);
    foci_gguf_writer *w = NULL;
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    assert_ok(ctx, put_file(w, gguf));
    assert_ok(ctx, foci_gguf_writer_commit(w, to, NULL, NULL));
    foci_gguf_writer_free(w);
    foci_gguf *copy = open_file(ctx, to);
    assert_files_equal(gguf, copy);
    foci_gguf_close(copy);
    foci_gguf_close(gguf);
}

static void a_copy_is_equal(void **state)
{
    const folder f = folder_new();
    const char *from = folder_file(&f, "sample.gguf"), *to = folder_file(&f, "copy.gguf");
    gguf_bytes b;
    gguf_sample(&b);
    write_bytes(from, b.data, b.count);
    copy_file(*state, from, to);
    size_t bytes = 0;
    uint8_t *data = read_bytes(to, &bytes);
    assert_int_equal(bytes, b.count);
    assert_memory_equal(data, b.data, bytes);
    free(data);
    folder_remove(&f);
}

static void a_real_model_is_copied(void **state)
{
    const char *from = getenv("FOCAL_TEST_GGUF");
    if (!from) skip_without("a model", "FOCAL_TEST_GGUF=FILE names any GGUF file");
    const folder f = folder_new();
    copy_file(*state, from, folder_file(&f, "copy.gguf"));
    folder_remove(&f);
}

/* A split model is written as one file. */
static void a_split_model_becomes_one_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    gguf_bytes b;
    gguf_sample_part(&b, "m", 0, 2, 2);
    write_bytes(folder_file(&f, "m-00001-of-00002.gguf"), b.data, b.count);
    gguf_sample_part(&b, "m", 1, 2, 2);
    write_bytes(folder_file(&f, "m-00002-of-00002.gguf"), b.data, b.count);
    copy_file(ctx, folder_file(&f, "m-00001-of-00002.gguf"), folder_file(&f, "m.gguf"));
    foci_gguf *gguf = open_file(ctx, folder_file(&f, "m.gguf"));
    assert_int_equal(foci_gguf_tensor_count(gguf), 2);
    foci_gguf_close(gguf);
    folder_remove(&f);
}

/* Hands out tensors from one buffer, and fails at one when asked to. */
typedef struct filler {
    focal_ctx *ctx;
    uint8_t buffer[16];
    int64_t fail_at, none_at; /* -1: never */
} filler;

static focal_status fill(void *user, int64_t index, const void **data)
{
    filler *f = user;
    if (index == f->fail_at) return foci_fail(f->ctx, FOCAL_EIO, "the source ended");
    memset(f->buffer, (int)index + 1, sizeof f->buffer);
    *data = index == f->none_at ? NULL : f->buffer;
    return FOCAL_OK;
}

static void data_may_come_from_a_function(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "new.gguf");
    foci_gguf_writer *w = NULL;
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    static const char *const names[] = {"a", "b", "c"};
    for (int n = 0; n < 3; n++) {
        const foci_tensor tensor = {
            .name = names[n], .dtype = FOCAL_F32, .dims = 1, .shape = {4}, .bytes = 16};
        assert_ok(ctx, foci_gguf_put_tensor(w, &tensor));
    }
    assert_status(ctx, foci_gguf_writer_commit(w, path, NULL, NULL), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: tensor 'a' has no data");
    filler source = {.ctx = ctx, .fail_at = 2, .none_at = -1};
    assert_status(ctx, foci_gguf_writer_commit(w, path, fill, &source), FOCAL_EIO);
    assert_string_equal(focal_ctx_error(ctx), "the source ended");
    source = (filler){.ctx = ctx, .fail_at = -1, .none_at = 1};
    assert_status(ctx, foci_gguf_writer_commit(w, path, fill, &source), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: tensor 'b' has no data");
    assert_int_equal(folder_count(&f), 0); /* nothing is left of the tries */
    source.none_at = -1;
    assert_ok(ctx, foci_gguf_writer_commit(w, path, fill, &source));
    foci_gguf_writer_free(w);
    foci_gguf *gguf = open_file(ctx, path);
    for (int n = 0; n < 3; n++) {
        const uint8_t *data = foci_gguf_tensor(gguf, names[n])->data;
        for (int i = 0; i < 16; i++) assert_int_equal(data[i], n + 1);
    }
    foci_gguf_close(gguf);
    folder_remove(&f);
}

static void wrong_keys_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    gguf_bytes b;
    gguf_sample(&b);
    foci_map map = exact_copy(&b, b.count);
    foci_gguf *gguf = NULL;
    assert_ok(ctx, foci_gguf_from_memory(ctx, "sample.gguf", &map, 1, &gguf));
    char longer[KEY_BYTES + 1];
    memset(longer, 'k', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    foci_gguf_writer *w = NULL;
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    assert_status(ctx, foci_gguf_put_u32(w, "", 1), FOCAL_EINVAL);
    assert_status(ctx, foci_gguf_put_u32(w, longer, 1), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: a key of 256 bytes, allowed are 1 to 255");
    assert_status(ctx, foci_gguf_put_u32(w, "a\nb", 1), FOCAL_EINVAL);
    assert_status(ctx, foci_gguf_put_i32s(w, "k", some_ints, -1), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "gguf: key 'k': -1 elements, allowed are 0 to 281474976710656");
    assert_status(ctx, foci_gguf_put_i32s(w, "k", some_ints, INT64_MAX), FOCAL_EINVAL);
    assert_status(ctx, foci_gguf_put_copy(w, gguf, "none"), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: sample.gguf has no key 'none' to copy");
    static const uint32_t alignments[] = {0, 1, 4, 48, 1U << 21, UINT32_MAX};
    for (size_t n = 0; n < FOCAL_COUNT(alignments); n++)
        assert_status(ctx, foci_gguf_put_u32(w, "general.alignment", alignments[n]), FOCAL_EINVAL);
    assert_status(ctx, foci_gguf_put_f32(w, "general.alignment", 32.0F), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "gguf: key 'general.alignment' must be a u32, a power "
                        "of two from 8 to 1048576");
    const folder f = folder_new();
    assert_ok(ctx, foci_gguf_writer_commit(w, folder_file(&f, "empty.gguf"), NULL, NULL));
    assert_ok(ctx, foci_gguf_put_u32(w, "twice", 1));
    assert_ok(ctx, foci_gguf_put_bool(w, "twice", true));
    assert_status(ctx, foci_gguf_writer_commit(w, folder_file(&f, "x.gguf"), NULL, NULL),
                  FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: the key 'twice' was put twice");
    assert_int_equal(folder_count(&f), 1);
    foci_gguf_writer_free(w);
    foci_gguf_close(gguf);
    exact_free(&map);
    gguf = open_file(ctx, folder_file(&f, "empty.gguf")); /* nothing of the refused was kept */
    assert_int_equal(foci_gguf_key_count(gguf), 0);
    assert_int_equal(foci_gguf_tensor_count(gguf), 0);
    foci_gguf_close(gguf);
    folder_remove(&f);
}

static void wrong_tensors_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    char longer[FOCI_GGUF_NAME_BYTES + 2];
    memset(longer, 'n', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    const struct {
        foci_tensor tensor;
        const char *sentence;
    } rows[] = {
        {{"", FOCAL_F32, 1, {4}, "", 16}, "gguf: a tensor's name of 0 bytes, allowed are 1 to 127"},
        {{longer, FOCAL_F32, 1, {4}, "", 16},
         "gguf: a tensor's name of 128 bytes, allowed are 1 to 127"},
        {{"\xFF", FOCAL_F32, 1, {4}, "", 16},
         "gguf: a tensor's name is not UTF-8, or has control characters"},
        {{"t", (focal_dtype)99, 1, {4}, "", 16}, "gguf: tensor 't': 99 is no element type"},
        {{"t", FOCAL_F32, 0, {4}, "", 16}, "gguf: tensor 't': 0 dimensions, allowed are 1 to 4"},
        {{"t", FOCAL_F32, 5, {4}, "", 16}, "gguf: tensor 't': 5 dimensions, allowed are 1 to 4"},
        {{"t", FOCAL_F32, 2, {4, 0}, "", 0}, "gguf: tensor 't' has a dimension below 1"},
        {{"t", FOCAL_F32, 2, {-4, 1}, "", 0}, "gguf: tensor 't' has a dimension below 1"},
        {{"t", FOCAL_Q4_0, 1, {33}, "", 18},
         "gguf: tensor 't' has rows that are not whole blocks of its type"},
        {{"t", FOCAL_F32, 2, {INT64_MAX, 8}, "", 0}, "gguf: tensor 't' has a size beyond 64 bits"},
        {{"t", FOCAL_F32, 1, {4}, "", 15}, "gguf: tensor 't': 15 bytes, its shape has 16"},
    };
    foci_gguf_writer *w = NULL;
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        assert_status(ctx, foci_gguf_put_tensor(w, &rows[n].tensor), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), rows[n].sentence);
    }
    const folder f = folder_new();
    const foci_tensor fine = {"t", FOCAL_F32, 1, {1}, "1234", 4};
    assert_ok(ctx, foci_gguf_put_tensor(w, &fine));
    assert_ok(ctx, foci_gguf_put_tensor(w, &fine));
    assert_status(ctx, foci_gguf_writer_commit(w, folder_file(&f, "x.gguf"), NULL, NULL),
                  FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: the tensor 't' was put twice");
    foci_gguf_writer_free(w);

    /* Sizes that are fine one by one, and too much together. */
    static const char *const names[] = {"a", "b", "c"};
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    for (int n = 0; n < 3; n++) {
        const foci_tensor huge = {names[n], FOCAL_F32, 1, {(int64_t)1 << 61}, "", (size_t)1 << 63};
        assert_ok(ctx, foci_gguf_put_tensor(w, &huge));
    }
    assert_status(ctx, foci_gguf_writer_commit(w, folder_file(&f, "x.gguf"), NULL, NULL),
                  FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "gguf: tensors of more than 2^64 bytes");
    foci_gguf_writer_free(w);
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
}

static void a_place_that_cannot_be_written_is_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_gguf_writer *w = NULL;
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    assert_status(ctx, foci_gguf_writer_commit(w, f.path, NULL, NULL), FOCAL_EIO);
    assert_status(ctx, foci_gguf_writer_commit(w, folder_file(&f, "none/x"), NULL, NULL),
                  FOCAL_EIO);
    foci_gguf_writer_free(w);
    folder_remove(&f);
}

static focal_status write_some(focal_ctx *ctx, const char *path, const foci_gguf *from)
{
    foci_gguf_writer *w = NULL;
    focal_status status = foci_gguf_writer_new(ctx, &w);
    if (status == FOCAL_OK) status = put_some_keys(w);
    for (int n = 0; status == FOCAL_OK && n < 20; n++) { /* so that lists grow */
        char key[16];
        (void)snprintf(key, sizeof key, "key.%d", n);
        status = foci_gguf_put_u32(w, key, 1);
    }
    if (status == FOCAL_OK) status = put_file(w, from);
    if (status == FOCAL_OK) status = foci_gguf_writer_commit(w, path, NULL, NULL);
    foci_gguf_writer_free(w);
    return status;
}

static void memory_that_runs_out_is_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "new.gguf");
    gguf_bytes b;
    gguf_sample_part(&b, "m", 0, 1, 1);
    foci_map map = exact_copy(&b, b.count);
    foci_gguf *gguf = NULL;
    assert_ok(ctx, foci_gguf_from_memory(ctx, "sample.gguf", &map, 1, &gguf));
    int64_t n = 1;
    for (;; n++) {
        assert_true(n < MANY);
        const int64_t live = memory_live_blocks();
        memory_fail(n, false);
        const focal_status status = write_some(ctx, path, gguf);
        memory_fail(0, false);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_int_equal(folder_count(&f), 0);
    }
    assert_true(n > 8);
    foci_gguf_close(gguf);
    exact_free(&map);
    folder_remove(&f);
}

/* A key that found no memory is not half there. */
static void a_failed_key_can_be_put_again(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "new.gguf");
    const foci_text texts[] = {foci_text_of("one"), foci_text_of("two")};
    foci_gguf_writer *w = NULL;
    assert_ok(ctx, foci_gguf_writer_new(ctx, &w));
    for (int64_t n = 1;; n++) {
        memory_fail(n, false);
        const focal_status status = foci_gguf_put_texts(w, "texts", texts, 2);
        memory_fail(0, false);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
    }
    assert_ok(ctx, foci_gguf_writer_commit(w, path, NULL, NULL));
    foci_gguf_writer_free(w);
    foci_gguf *gguf = open_file(ctx, path);
    assert_int_equal(foci_gguf_key_count(gguf), 1);
    foci_gguf_close(gguf);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_and_tensors_come_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_bytes_are_the_format, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_copy_is_equal, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_real_model_is_copied, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_split_model_becomes_one_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(data_may_come_from_a_function, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_keys_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_tensors_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_place_that_cannot_be_written_is_told, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_failed_key_can_be_put_again, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("gguf_write", tests, NULL, NULL);
}
