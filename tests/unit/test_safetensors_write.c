/* Writing safetensors: what is written reads back the same, in one file or in shards; nothing stays
 * of what failed. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/json.h"
#include "io/safetensors.h"
#include "support/folder.h"

static void write_text(const folder *f, const char *name, const char *text)
{
    write_bytes(folder_file(f, name), text, strlen(text));
}

/* f16 and bf16 of odd length before f32, so that the order of the data must not be this one. */
static const foci_tensor declared[] = {
    {.name = "half", .dtype = FOCAL_F16, .dims = 1, .shape = {3}, .bytes = 6},
    {.name = "a \"quoted\\ name", .dtype = FOCAL_F32, .dims = 2, .shape = {2, 3}, .bytes = 24},
    {.name = "brain", .dtype = FOCAL_BF16, .dims = 3, .shape = {1, 1, 5}, .bytes = 10},
    {.name = "wide", .dtype = FOCAL_F32, .dims = 4, .shape = {1, 2, 1, 2}, .bytes = 16},
};
enum { COUNT = 4, TOTAL = 56 };

/* Hands out bytes that tell their tensor, from one buffer; fails at tensor fail_at. */
typedef struct source {
    focal_ctx *ctx;
    uint8_t bytes[64];
    int64_t fail_at, calls;
} source;

static void fill_bytes(uint8_t *bytes, int64_t index)
{
    for (int n = 0; n < 64; n++) bytes[n] = (uint8_t)(64 * index + n);
}

static focal_status fill(void *user, int64_t index, const void **data)
{
    source *s = user;
    s->calls++;
    if (index == s->fail_at) return foci_fail(s->ctx, FOCAL_EIO, "tensor %d is gone", (int)index);
    fill_bytes(s->bytes, index);
    *data = s->bytes;
    return FOCAL_OK;
}

static foci_safetensors_writer *declare(focal_ctx *ctx)
{
    foci_safetensors_writer *writer = NULL;
    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    for (int n = 0; n < COUNT; n++)
        assert_status(ctx, foci_safetensors_put_tensor(writer, &declared[n]), FOCAL_OK);
    return writer;
}

static void assert_reads_back(focal_ctx *ctx, const char *path)
{
    foci_safetensors *st = NULL;
    assert_status(ctx, foci_safetensors_open(ctx, path, &st), FOCAL_OK);
    assert_int_equal(foci_safetensors_tensor_count(st), COUNT);
    for (int64_t n = 0; n < COUNT; n++) {
        const foci_tensor *want = &declared[n], *got = foci_safetensors_tensor(st, want->name);
        assert_non_null(got);
        assert_int_equal(got->dtype, want->dtype);
        assert_int_equal(got->dims, want->dims);
        for (int32_t d = 0; d < want->dims; d++) assert_int_equal(got->shape[d], want->shape[d]);
        uint8_t bytes[64];
        fill_bytes(bytes, n);
        assert_int_equal(got->bytes, want->bytes);
        assert_memory_equal(got->data, bytes, want->bytes);
    }
    foci_safetensors_close(st);
}

static void one_file_reads_back(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_safetensors_writer *writer = declare(ctx);
    source s = {.ctx = ctx, .fail_at = -1};
    const char *path = folder_file(&f, "m.safetensors");
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 0, fill, &s), FOCAL_OK);
    assert_int_equal(s.calls, COUNT);
    assert_int_equal(folder_count(&f), 1);
    assert_reads_back(ctx, path);
    /* a total of exactly the limit is one file still; again, over the first */
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, TOTAL, fill, &s), FOCAL_OK);
    assert_int_equal(folder_count(&f), 1);
    assert_reads_back(ctx, path);
    foci_safetensors_writer_free(writer);
    folder_remove(&f);
}

/* In each file of several, and beside "format". */
static void texts_read_back(void **state)
{
    focal_ctx *ctx = *state;
    for (int is_cut = 0; is_cut < 2; is_cut++) {
        const folder f = folder_new();
        foci_safetensors *st = NULL;
        foci_safetensors_writer *writer = declare(ctx);
        source from = {.ctx = ctx, .fail_at = -1};
        assert_status(ctx, foci_safetensors_put_text(writer, "a \"key\\", "{\"b\": \"\xC3\xA9\"}"),
                      FOCAL_OK);
        assert_status(ctx, foci_safetensors_put_text(writer, "empty", ""), FOCAL_OK);
        assert_status(ctx, foci_safetensors_put_text(writer, "bell", "\a"), FOCAL_EINVAL);
        assert_status(ctx, foci_safetensors_put_text(writer, "half \xC3", "x"), FOCAL_EINVAL);
        assert_status(ctx,
                      foci_safetensors_writer_commit(writer, folder_file(&f, "m.safetensors"),
                                                     is_cut ? 30 : 0, fill, &from),
                      FOCAL_OK);
        foci_safetensors_writer_free(writer);
        const char *path = folder_file(&f, is_cut ? "m.safetensors.index.json" : "m.safetensors");
        assert_status(ctx, foci_safetensors_open(ctx, path, &st), FOCAL_OK);
        assert_string_equal(foci_safetensors_text(st, "format"), "pt");
        assert_string_equal(foci_safetensors_text(st, "a \"key\\"), "{\"b\": \"\xC3\xA9\"}");
        assert_string_equal(foci_safetensors_text(st, "empty"), "");
        assert_null(foci_safetensors_text(st, "bell"));
        assert_null(foci_safetensors_text(st, "pt"));
        foci_safetensors_close(st);
        folder_remove(&f);
    }
}

static void the_bytes_are_the_format(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const float value = 1.0F;
    const foci_tensor x = {
        .name = "x", .dtype = FOCAL_F32, .dims = 1, .shape = {1}, .data = &value, .bytes = 4};
    foci_safetensors_writer *writer = NULL;
    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    assert_status(ctx, foci_safetensors_put_tensor(writer, &x), FOCAL_OK);
    const char *path = folder_file(&f, "m.safetensors");
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 0, NULL, NULL), FOCAL_OK);
    foci_safetensors_writer_free(writer);
    static const char expected[] = "\x58\0\0\0\0\0\0\0"
                                   "{\"__metadata__\":{\"format\":\"pt\"},\"x\":{\"dtype\":\"F32\","
                                   "\"shape\":[1],\"data_offsets\":[0,4]}}   \0\0\x80\x3F";
    char got[sizeof expected + 1] = {0};
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(got, 1, sizeof got, file), sizeof expected - 1);
    (void)fclose(file);
    assert_memory_equal(got, expected, sizeof expected - 1);
    folder_remove(&f);
}

static void shards_read_back(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        size_t limit;
        int shards;
    } rows[] = {{TOTAL - 1, 2}, {40, 2}, {30, 2}, {29, 3}, {24, 4}, {23, 4}, {1, 4}};
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = folder_new();
        foci_safetensors_writer *writer = declare(ctx);
        source s = {.ctx = ctx, .fail_at = -1};
        assert_status(ctx,
                      foci_safetensors_writer_commit(writer, folder_file(&f, "m.safetensors"),
                                                     rows[n].limit, fill, &s),
                      FOCAL_OK);
        foci_safetensors_writer_free(writer);
        assert_int_equal(folder_count(&f), rows[n].shards + 1);
        char last[64];
        (void)snprintf(last, sizeof last, "m-%05d-of-%05d.safetensors", rows[n].shards,
                       rows[n].shards);
        assert_int_equal(access(folder_file(&f, last), F_OK), 0);
        assert_reads_back(ctx, folder_file(&f, "m.safetensors.index.json"));
        folder_remove(&f);
    }
}

static void the_wrong_file_is_not_left_beside(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_safetensors_writer *writer = declare(ctx);
    source s = {.ctx = ctx, .fail_at = -1};
    const char *path = folder_file(&f, "m.safetensors");
    write_text(&f, "m.safetensors", "old");
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 30, fill, &s), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "m.safetensors: is there already"));
    assert_int_equal(remove(path), 0);
    write_text(&f, "m.safetensors.index.json", "old");
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 0, fill, &s), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "m.safetensors.index.json: is there already"));
    assert_int_equal(s.calls, 0);
    /* an index over an index is what a second export does */
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 30, fill, &s), FOCAL_OK);
    foci_safetensors_writer_free(writer);
    folder_remove(&f);
}

static void nothing_stays_of_what_failed(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_safetensors_writer *writer = declare(ctx);
    for (int64_t fail_at = 0; fail_at < COUNT; fail_at++) {
        for (size_t limit = 1; limit <= TOTAL; limit += TOTAL - 1) {
            source s = {.ctx = ctx, .fail_at = fail_at};
            assert_status(ctx,
                          foci_safetensors_writer_commit(writer, folder_file(&f, "m.safetensors"),
                                                         limit, fill, &s),
                          FOCAL_EIO);
            assert_non_null(strstr(focal_ctx_error(ctx), "is gone"));
            assert_int_equal(folder_count(&f), 0);
        }
    }
    /* declared without data, and nobody fills */
    assert_status(
        ctx,
        foci_safetensors_writer_commit(writer, folder_file(&f, "m.safetensors"), 0, NULL, NULL),
        FOCAL_EINVAL);
    assert_int_equal(folder_count(&f), 0);
    source s = {.ctx = ctx, .fail_at = -1};
    assert_status(
        ctx,
        foci_safetensors_writer_commit(writer, folder_file(&f, "no/m.safetensors"), 0, fill, &s),
        FOCAL_EIO);
    foci_safetensors_writer_free(writer);
    folder_remove(&f);
}

static void bad_tensors_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    char long_name[258];
    memset(long_name, 'n', 257);
    long_name[257] = '\0';
    const struct {
        foci_tensor tensor;
        const char *part;
    } rows[] = {
        {{.name = NULL, .dims = 1, .shape = {1}, .bytes = 4}, "a name must have 1 to 256"},
        {{.name = "", .dims = 1, .shape = {1}, .bytes = 4}, "a name must have 1 to 256"},
        {{.name = long_name, .dims = 1, .shape = {1}, .bytes = 4}, "a name must have 1 to 256"},
        {{.name = "a\n", .dims = 1, .shape = {1}, .bytes = 4}, "printable ASCII"},
        {{.name = "\xC3\xA9", .dims = 1, .shape = {1}, .bytes = 4}, "printable ASCII"},
        {{.name = "q", .dtype = FOCAL_Q8_0, .dims = 1, .shape = {32}, .bytes = 34},
         "tensor 'q' is q8_0, not f32, f16 or bf16"},
        {{.name = "x", .dims = 0, .shape = {1}, .bytes = 4}, "tensor 'x' has 4 bytes"},
        {{.name = "x", .dims = 5, .shape = {1, 1, 1, 1}, .bytes = 4}, "tensor 'x' has 4 bytes"},
        {{.name = "x", .dims = 1, .shape = {2}, .bytes = 4}, "tensor 'x' has 4 bytes"},
        {{.name = "x", .dims = 1, .shape = {0}, .bytes = 0}, "tensor 'x' has 0 bytes"},
        {{.name = "x", .dims = 1, .shape = {-1}, .bytes = 4}, "tensor 'x' has 4 bytes"},
        {{.name = "x", .dims = 2, .shape = {INT64_MAX, 4}, .bytes = 4}, "tensor 'x' has 4 bytes"},
    };
    foci_safetensors_writer *writer = NULL;
    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        assert_status(ctx, foci_safetensors_put_tensor(writer, &rows[n].tensor), FOCAL_EINVAL);
        if (!strstr(focal_ctx_error(ctx), rows[n].part))
            fail_msg("row %zu: '%s' has no '%s'", n, focal_ctx_error(ctx), rows[n].part);
    }
    foci_safetensors_writer_free(writer);
    foci_safetensors_writer_free(NULL);
}

static void bad_commits_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "m.safetensors");
    source s = {.ctx = ctx, .fail_at = -1};
    foci_safetensors_writer *writer = declare(ctx);
    static const char *const names[] = {"m.gguf", ".safetensor", "m.safetensors.index.json", "m"};
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        assert_status(ctx, foci_safetensors_writer_commit(writer, names[n], 0, fill, &s),
                      FOCAL_EINVAL);
        assert_non_null(strstr(focal_ctx_error(ctx), "the name must end in .safetensors"));
    }
    assert_status(ctx, foci_safetensors_put_tensor(writer, &declared[2]), FOCAL_OK);
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 0, fill, &s), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "safetensors: two tensors have the name 'brain'");
    foci_safetensors_writer_free(writer);

    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    for (int n = 0; n < 4097; n++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%d", n);
        const foci_tensor x = {.name = name, .dims = 1, .shape = {1}, .bytes = 4};
        assert_status(ctx, foci_safetensors_put_tensor(writer, &x), FOCAL_OK);
    }
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 4, fill, &s), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "4097 files, at most 4096 can be"));
    foci_safetensors_writer_free(writer);
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
}

static void without_tensors_there_is_a_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_safetensors_writer *writer = NULL;
    foci_safetensors *st = NULL;
    const char *path = folder_file(&f, "m.safetensors");
    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    assert_status(ctx, foci_safetensors_writer_commit(writer, path, 0, NULL, NULL), FOCAL_OK);
    foci_safetensors_writer_free(writer);
    assert_status(ctx, foci_safetensors_open(ctx, path, &st), FOCAL_OK);
    assert_int_equal(foci_safetensors_tensor_count(st), 0);
    foci_safetensors_close(st);
    folder_remove(&f);
}

static focal_status write_all(focal_ctx *ctx, const char *path, size_t limit)
{
    foci_safetensors_writer *writer = NULL;
    focal_status status = foci_safetensors_writer_new(ctx, &writer);
    for (int n = 0; n < COUNT && status == FOCAL_OK; n++)
        status = foci_safetensors_put_tensor(writer, &declared[n]);
    source s = {.ctx = ctx, .fail_at = -1};
    if (status == FOCAL_OK) status = foci_safetensors_writer_commit(writer, path, limit, fill, &s);
    foci_safetensors_writer_free(writer);
    return status;
}

static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t limit = 30; limit <= TOTAL; limit += TOTAL - 30) {
        const folder f = folder_new();
        for (int64_t n = 1;; n++) {
            assert_true(n < 1000);
            const int64_t live = memory_live_blocks();
            memory_fail(n, n % 2 == 0);
            const focal_status status = write_all(ctx, folder_file(&f, "m.safetensors"), limit);
            const bool was_reached = memory_requests() >= n;
            memory_fail(0, false);
            assert_int_equal(memory_live_blocks(), live);
            assert_status(ctx, status, was_reached ? FOCAL_ENOMEM : FOCAL_OK);
            if (!was_reached) break;
            assert_int_equal(folder_count(&f), 0);
        }
        assert_int_equal(folder_count(&f), limit == TOTAL ? 1 : 3);
        folder_remove(&f);
    }
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
        cmocka_unit_test_setup_teardown(one_file_reads_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(texts_read_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_bytes_are_the_format, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(shards_read_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_wrong_file_is_not_left_beside, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nothing_stays_of_what_failed, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_tensors_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_commits_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(without_tensors_there_is_a_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("safetensors_write", tests, NULL, NULL);
}
