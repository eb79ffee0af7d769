/* Models split over several GGUF files: read as one, found by their names, refused when the parts
 * do not belong together. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf.h"
#include "support/folder.h"
#include "support/gguf_sample.h"

enum { PARTS = 3, MANY = 200 };

static void part_name(char *name, size_t bytes, int no)
{
    (void)snprintf(name, bytes, "model-%05d-of-%05d.gguf", no + 1, PARTS);
}

static void write_parts(const folder *f)
{
    for (int no = 0; no < PARTS; no++) {
        gguf_bytes b;
        char name[64];
        gguf_sample_part(&b, "model", no, PARTS, PARTS);
        part_name(name, sizeof name, no);
        write_bytes(folder_file(f, name), b.data, b.count);
    }
}

static void assert_whole_model(const foci_gguf *gguf)
{
    assert_int_equal(foci_gguf_tensor_count(gguf), PARTS);
    for (int no = 0; no < PARTS; no++) {
        char name[32];
        (void)snprintf(name, sizeof name, "part.%d", no);
        const foci_tensor *tensor = foci_gguf_tensor(gguf, name);
        assert_non_null(tensor);
        assert_ptr_equal(tensor, foci_gguf_tensor_at(gguf, no));
        for (int n = 0; n < 4; n++) assert_true(((const float *)tensor->data)[n] == (float)no);
    }
    /* It looks like a model in one file. */
    assert_int_equal(foci_gguf_key_count(gguf), 1);
    assert_true(foci_gguf_has(gguf, "general.name"));
    assert_false(foci_gguf_has(gguf, "split.no"));
    assert_false(foci_gguf_has(gguf, "split.count"));
    assert_false(foci_gguf_has(gguf, "split.tensors.count"));
}

static void parts_are_found_by_name(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_parts(&f);
    foci_gguf *gguf = NULL;
    const char *first = folder_file(&f, "model-00001-of-00003.gguf");
    assert_int_equal(foci_gguf_open(ctx, first, &gguf), FOCAL_OK);
    assert_whole_model(gguf);
    assert_string_equal(foci_gguf_path(gguf), first);
    foci_gguf_close(gguf);
    folder_remove(&f);
}

static void a_missing_part_is_named(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_parts(&f);
    foci_gguf *gguf = NULL;
    char message[256];
    assert_int_equal(remove(folder_file(&f, "model-00003-of-00003.gguf")), 0);
    assert_status(ctx, foci_gguf_open(ctx, folder_file(&f, "model-00001-of-00003.gguf"), &gguf),
                  FOCAL_EIO);
    (void)snprintf(message, sizeof message,
                   "%s/model-00003-of-00003.gguf: No such file or directory", f.path);
    assert_string_equal(focal_ctx_error(ctx), message);
    assert_null(gguf);
    folder_remove(&f);
}

static void another_part_names_the_first(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_parts(&f);
    foci_gguf *gguf = NULL;
    char message[256];
    const char *second = folder_file(&f, "model-00002-of-00003.gguf");
    assert_status(ctx, foci_gguf_open(ctx, second, &gguf), FOCAL_EFORMAT);
    (void)snprintf(message, sizeof message,
                   "%s: part 2 of 3, open the first: %s/model-00001-of-00003.gguf", second, f.path);
    assert_string_equal(focal_ctx_error(ctx), message);
    const char *renamed = folder_file(&f, "renamed.gguf");
    assert_int_equal(rename(second, renamed), 0);
    assert_status(ctx, foci_gguf_open(ctx, renamed, &gguf), FOCAL_EFORMAT);
    (void)snprintf(message, sizeof message, "%s: part 2 of 3, open the first", renamed);
    assert_string_equal(focal_ctx_error(ctx), message);
    folder_remove(&f);
}

/* Two parts in memory, of which the second (or the first) says something else. */
typedef struct part_fault {
    const char *name;
    const char *path;                /* of the first */
    const char *models[2];           /* NULL: no part */
    int no[2], count[2], tensors[2]; /* what each says of itself */
    focal_status status;
    const char *sentence;
} part_fault;

static const char good_path[] = "m-00001-of-00002.gguf";

/* clang-format off */
static const part_fault faults[] = {
    {"nothing", good_path, {"m", "m"}, {0, 1}, {2, 2}, {2, 2}, FOCAL_OK, ""},
    {"not enough parts", good_path, {"m", NULL}, {0, 1}, {2, 2}, {2, 2}, FOCAL_EIO,
     "m-00002-of-00002.gguf: there are 1 parts"},
    {"a name without numbers", "m.gguf", {"m", "m"}, {0, 1}, {2, 2}, {2, 2}, FOCAL_EFORMAT,
     "m.gguf: part 1 of 2, but its name does not end in -00001-of-00002.gguf, so the others cannot "
     "be found"},
    {"a name of another count", "m-00001-of-00003.gguf", {"m", "m"}, {0, 1}, {2, 2}, {2, 2},
     FOCAL_EFORMAT, "m-00001-of-00003.gguf: part 1 of 2, but its name does not end in "
     "-00001-of-00002.gguf, so the others cannot be found"},
    {"nothing but numbers", "-00001-of-00002.gguf", {"m", "m"}, {0, 1}, {2, 2}, {2, 2},
     FOCAL_EFORMAT, "-00001-of-00002.gguf: part 1 of 2, but its name does not end in "
     "-00001-of-00002.gguf, so the others cannot be found"},
    {"another model", good_path, {"m", "n"}, {0, 1}, {2, 2}, {2, 2}, FOCAL_EFORMAT,
     "m-00002-of-00002.gguf: key 'general.name' is not as in the first part: a part of another "
     "model"},
    {"another count", good_path, {"m", "m"}, {0, 1}, {2, 3}, {2, 2}, FOCAL_EFORMAT,
     "m-00002-of-00002.gguf: key 'split.count' is not as in the first part: a part of another "
     "model"},
    {"another number", good_path, {"m", "m"}, {0, 2}, {2, 2}, {2, 2}, FOCAL_EFORMAT,
     "m-00002-of-00002.gguf: key 'split.no' is 2, in this part it must be 1"},
    {"the first part twice", good_path, {"m", "m"}, {0, 0}, {2, 2}, {2, 2}, FOCAL_EFORMAT,
     "m-00002-of-00002.gguf: key 'split.no' is 0, in this part it must be 1"},
    {"another total", good_path, {"m", "m"}, {0, 1}, {2, 2}, {2, 3}, FOCAL_EFORMAT,
     "m-00002-of-00002.gguf: key 'split.tensors.count' is not as in the first part: a part of "
     "another model"},
    {"tensors missing", good_path, {"m", "m"}, {0, 1}, {2, 2}, {3, 3}, FOCAL_EFORMAT,
     "m-00001-of-00002.gguf: key 'split.tensors.count' is 3, the files have 2 tensors"},
    {"tensors missing in one file", "m.gguf", {"m", NULL}, {0, 0}, {1, 0}, {5, 0}, FOCAL_EFORMAT,
     "m.gguf: key 'split.tensors.count' is 5, the file has 1 tensors"},
    {"a number beyond the count", good_path, {"m", "m"}, {2, 1}, {2, 2}, {2, 2}, FOCAL_EFORMAT,
     "m-00001-of-00002.gguf: key 'split.no': 2, allowed are 0 to 1"},
    {"too many parts", good_path, {"m", "m"}, {0, 1}, {1025, 2}, {2, 2}, FOCAL_EFORMAT,
     "m-00001-of-00002.gguf: key 'split.count': 1025, allowed are 0 to 1024"},
    {"one part of one", "m.gguf", {"m", NULL}, {0, 0}, {1, 0}, {1, 0}, FOCAL_OK, ""},
    {"one part of none", "m.gguf", {"m", NULL}, {0, 0}, {0, 0}, {1, 0}, FOCAL_OK, ""},
};
/* clang-format on */

static void parts_must_belong_together(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(faults); n++) {
        const part_fault *f = &faults[n];
        foci_map maps[2] = {{NULL, 0}, {NULL, 0}};
        int32_t count = 0;
        for (; count < 2 && f->models[count]; count++) {
            gguf_bytes b;
            gguf_sample_part(&b, f->models[count], f->no[count], f->count[count],
                             f->tensors[count]);
            maps[count] = exact_copy(&b, b.count);
        }
        const int64_t live = memory_live_blocks();
        foci_gguf *gguf = NULL;
        const focal_status status = foci_gguf_from_memory(ctx, f->path, maps, count, &gguf);
        if (status != f->status) print_error("%s: %s\n", f->name, focal_ctx_error(ctx));
        assert_int_equal(status, f->status);
        if (status != FOCAL_OK) assert_string_equal(focal_ctx_error(ctx), f->sentence);
        foci_gguf_close(gguf);
        assert_int_equal(memory_live_blocks(), live);
        for (int32_t p = 0; p < count; p++) exact_free(&maps[p]);
    }
}

/* Opens {first, b} as a model of two parts. */
static focal_status open_pair(focal_ctx *ctx, const gguf_bytes *b)
{
    gguf_bytes first;
    gguf_sample_part(&first, "m", 0, 2, 2);
    foci_map maps[2] = {exact_copy(&first, first.count), exact_copy(b, b->count)};
    foci_gguf *gguf = NULL;
    const focal_status status = foci_gguf_from_memory(ctx, good_path, maps, 2, &gguf);
    foci_gguf_close(gguf);
    for (int p = 0; p < 2; p++) exact_free(&maps[p]);
    return status;
}

static void what_is_no_part_is_told(void **state)
{
    focal_ctx *ctx = *state;
    gguf_bytes b;
    gguf_sample(&b); /* a whole model */
    assert_status(ctx, open_pair(ctx, &b), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "m-00002-of-00002.gguf: not a part: key 'split.no' is missing");
    b = (gguf_bytes){.count = 0};
    put_header(&b, 0, 1);
    put_number_key(&b, "split.no", 2, 1);
    assert_status(ctx, open_pair(ctx, &b), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "m-00002-of-00002.gguf: not a part: key 'split.count' is missing");
    /* The name of a tensor that the first part has. */
    gguf_sample_part(&b, "m", 0, 2, 2);
    for (size_t n = 0; n + 8 < b.count; n++)
        if (memcmp(b.data + n, "split.no", 8) == 0) b.data[n + 8 + 4] = 1;
    assert_status(ctx, open_pair(ctx, &b), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "m-00001-of-00002.gguf: the tensor 'part.0' stands there twice");
    /* A key that the first part has not. */
    gguf_bytes other;
    gguf_sample_part(&other, "m", 1, 2, 2);
    for (size_t n = 0; n + 12 < other.count; n++)
        if (memcmp(other.data + n, "general.name", 12) == 0) other.data[n] = 'h';
    assert_status(ctx, open_pair(ctx, &other), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx), "m-00002-of-00002.gguf: key 'heneral.name' is not as "
                                              "in the first part: a part of another model");
    b = (gguf_bytes){.count = 0};
    assert_status(ctx, open_pair(ctx, &b), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx),
                        "m-00002-of-00002.gguf: not a GGUF file, it does not begin with GGUF");
}

/* gguf-split can leave the first part without tensors, and no part but the first has the keys. */
static void later_parts_may_say_little(void **state)
{
    focal_ctx *ctx = *state;
    gguf_bytes b = {.count = 0};
    put_header(&b, 0, 2);
    put_number_key(&b, "split.no", 2, 1);
    put_number_key(&b, "split.count", 2, 2);
    assert_status(ctx, open_pair(ctx, &b), FOCAL_EFORMAT); /* a tensor short of the total */
    gguf_bytes first = {.count = 0};
    put_header(&first, 0, 4);
    put_text_key(&first, "general.name", "m");
    put_number_key(&first, "split.no", 2, 0);
    put_number_key(&first, "split.count", 2, 2);
    put_number_key(&first, "split.tensors.count", 5, 1);
    gguf_sample_part(&b, "m", 1, 2, 1);
    foci_map maps[2] = {exact_copy(&first, first.count), exact_copy(&b, b.count)};
    foci_gguf *gguf = NULL;
    assert_int_equal(foci_gguf_from_memory(ctx, good_path, maps, 2, &gguf), FOCAL_OK);
    assert_int_equal(foci_gguf_tensor_count(gguf), 1);
    assert_non_null(foci_gguf_tensor(gguf, "part.1"));
    foci_gguf_close(gguf);
    for (int p = 0; p < 2; p++) exact_free(&maps[p]);
}

static void memory_that_runs_out_is_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_parts(&f);
    const char *const paths[] = {folder_file(&f, "model-00001-of-00003.gguf"),
                                 folder_file(&f, "model-00002-of-00003.gguf")};
    for (int second = 0; second < 2; second++) {
        int64_t n = 1;
        for (;; n++) {
            assert_true(n < MANY);
            const int64_t live = memory_live_blocks();
            foci_gguf *gguf = NULL;
            memory_fail(n, false);
            const focal_status status = foci_gguf_open(ctx, paths[second], &gguf);
            memory_fail(0, false);
            foci_gguf_close(gguf);
            assert_int_equal(memory_live_blocks(), live);
            if (status == (second ? FOCAL_EFORMAT : FOCAL_OK)) break;
            assert_status(ctx, status, FOCAL_ENOMEM);
        }
        assert_true(n > 4);
    }
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(parts_are_found_by_name, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_missing_part_is_named, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(another_part_names_the_first, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(parts_must_belong_together, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_no_part_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(later_parts_may_say_little, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_is_told, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("gguf_split", tests, NULL, NULL);
}
