/* Mapped reading and atomic writing: what is refused, what is left behind, and what happens when
 * the disk or the memory ends. */
#include "support/check.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "io/file.h"
#include "support/folder.h"

enum { MANY_BYTES = 1 << 20, BUFFERED = 1 << 18, MANY = 100, NOBODY = 65534 };

/* The message is "PATH: what". */
static void assert_message(const focal_ctx *ctx, const char *path, const char *what)
{
    char expected[1024];
    (void)snprintf(expected, sizeof expected, "%s: %s", path, what);
    assert_string_equal(focal_ctx_error(ctx), expected);
}

static void assert_file(const char *path, const char *content)
{
    size_t bytes = 0;
    char *data = read_bytes(path, &bytes);
    assert_int_equal(bytes, strlen(content));
    assert_memory_equal(data, content, bytes);
    free(data);
}

static void files_are_mapped(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file"), *empty = folder_file(&f, "empty");
    write_bytes(path, "some bytes", 10);
    write_bytes(empty, "", 0);
    foci_map map;
    assert_int_equal(foci_map_open(ctx, path, &map), FOCAL_OK);
    assert_int_equal(map.bytes, 10);
    assert_memory_equal(map.data, "some bytes", 10);
    foci_map_close(&map);
    assert_null(map.data);
    assert_int_equal(map.bytes, 0);
    foci_map_close(&map);

    map.bytes = 7;
    assert_int_equal(foci_map_open(ctx, empty, &map), FOCAL_OK);
    assert_null(map.data);
    assert_int_equal(map.bytes, 0);
    foci_map_close(&map);
    folder_remove(&f);
}

static void small_files_are_read(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file"), *empty = folder_file(&f, "empty");
    write_bytes(path, "some bytes", 10);
    write_bytes(empty, "", 0);
    char *data = NULL;
    size_t bytes = 0;
    assert_int_equal(foci_read_file(ctx, path, 10, &data, &bytes), FOCAL_OK);
    assert_int_equal(bytes, 10);
    assert_string_equal(data, "some bytes");
    foci_free(ctx, data);
    assert_int_equal(foci_read_file(ctx, empty, 0, &data, &bytes), FOCAL_OK);
    assert_int_equal(bytes, 0);
    assert_string_equal(data, "");
    foci_free(ctx, data);

    assert_status(ctx, foci_read_file(ctx, path, 9, &data, &bytes), FOCAL_EFORMAT);
    assert_message(ctx, path, "10 bytes, at most 9 are read");
    assert_null(data);
    assert_int_equal(bytes, 0);
    memory_fail(1, false);
    assert_status(ctx, foci_read_file(ctx, path, 10, &data, &bytes), FOCAL_ENOMEM);
    memory_fail(0, false);
    assert_null(data);
    folder_remove(&f);
}

static void what_is_no_file_is_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *pipe = folder_file(&f, "pipe"), *missing = folder_file(&f, "missing");
    assert_int_equal(mkfifo(pipe, 0600), 0);
    const struct {
        const char *path;
        focal_status status;
        const char *what;
    } rows[] = {
        {missing, FOCAL_EIO, "No such file or directory"},
        {f.path, FOCAL_EFORMAT, "not a regular file"},
        {pipe, FOCAL_EFORMAT, "not a regular file"}, /* and does not wait for a writer */
        {"/dev/null", FOCAL_EFORMAT, "not a regular file"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        foci_map map = {.bytes = 7};
        assert_status(ctx, foci_map_open(ctx, rows[n].path, &map), rows[n].status);
        assert_message(ctx, rows[n].path, rows[n].what);
        assert_null(map.data);
        assert_int_equal(map.bytes, 0);
        char *data = (char *)ctx;
        size_t bytes = 7;
        assert_status(ctx, foci_read_file(ctx, rows[n].path, 100, &data, &bytes), rows[n].status);
        assert_message(ctx, rows[n].path, rows[n].what);
        assert_null(data);
        assert_int_equal(bytes, 0);
    }
    folder_remove(&f);
}

static void a_file_appears_when_it_is_whole(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    write_bytes(path, "old", 3);
    foci_writer *writer = NULL;
    assert_int_equal(foci_writer_open(ctx, path, &writer), FOCAL_OK);
    foci_writer_put(writer, "new", 3);
    assert_int_equal(foci_writer_offset(writer), 3);
    foci_writer_pad(writer, 8);
    foci_writer_pad(writer, 8);
    assert_int_equal(foci_writer_offset(writer), 8);
    assert_file(path, "old");
    assert_int_equal(foci_writer_commit(writer), FOCAL_OK);
    assert_int_equal(folder_count(&f), 1);
    size_t bytes = 0;
    char *data = read_bytes(path, &bytes);
    assert_int_equal(bytes, 8);
    assert_memory_equal(data, "new\0\0\0\0\0", 8);
    free(data);

    assert_int_equal(foci_writer_open(ctx, path, &writer), FOCAL_OK);
    foci_writer_put(writer, "other", 5);
    foci_writer_abandon(writer);
    foci_writer_abandon(NULL);
    assert_int_equal(folder_count(&f), 1);
    data = read_bytes(path, &bytes);
    assert_int_equal(bytes, 8);
    free(data);
    folder_remove(&f);
}

/* Pieces of many sizes, more than the buffer holds, and padding across its end. */
static void pieces_arrive_in_order(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    uint8_t *expected = new_array(MANY_BYTES, 1);
    for (size_t n = 0; n < MANY_BYTES; n++) expected[n] = (uint8_t)(n * 7 + n / 255);
    foci_writer *writer = NULL;
    assert_int_equal(foci_writer_open(ctx, path, &writer), FOCAL_OK);
    size_t at = 0;
    for (size_t piece = 1; at + piece + 4096 < MANY_BYTES; piece = piece * 3 % 300007) {
        foci_writer_put(writer, expected + at, piece);
        foci_writer_pad(writer, 128);
        const size_t end = foci_writer_offset(writer);
        assert_int_equal(end % 128, 0);
        memset(expected + at + piece, 0, end - at - piece);
        at = end;
    }
    assert_true(at > MANY_BYTES / 2); /* the pieces have been more than one buffer */
    assert_int_equal(foci_writer_commit(writer), FOCAL_OK);
    size_t bytes = 0;
    uint8_t *data = read_bytes(path, &bytes);
    assert_int_equal(bytes, at);
    assert_memory_equal(data, expected, at);
    free(data);
    free(expected);
    folder_remove(&f);
}

static void places_that_cannot_be_written_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *link = folder_file(&f, "link"), *file = folder_file(&f, "file");
    assert_int_equal(symlink("/dev/full", link), 0);
    write_bytes(file, "x", 1);
    char below[128], nowhere[128];
    (void)snprintf(below, sizeof below, "%s/below", file);
    (void)snprintf(nowhere, sizeof nowhere, "%s/nowhere/file", f.path);
    const struct {
        const char *path, *what;
    } rows[] = {
        {link, "exists and is not a regular file"},
        {"/dev/full", "exists and is not a regular file"},
        {f.path, "exists and is not a regular file"},
        {below, "Not a directory"},
        {nowhere, "No such file or directory"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        foci_writer *writer = (foci_writer *)(void *)ctx;
        assert_status(ctx, foci_writer_open(ctx, rows[n].path, &writer), FOCAL_EIO);
        assert_message(ctx, rows[n].path, rows[n].what);
        assert_null(writer);
    }
    assert_int_equal(folder_count(&f), 2);
    folder_remove(&f);
}

static void a_folder_without_permission_is_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    const bool is_root = geteuid() == 0; /* whom no permission stops */
    assert_int_equal(chmod(f.path, 0555), 0);
    if (is_root && seteuid(NOBODY) != 0) {
        folder_remove(&f);
        skip_without("a user whom permissions stop", "run it as one who is not root");
    }
    foci_writer *writer = NULL;
    const focal_status status = foci_writer_open(ctx, path, &writer);
    if (is_root) assert_int_equal(seteuid(0), 0);
    assert_status(ctx, status, FOCAL_EIO);
    assert_message(ctx, path, "Permission denied");
    assert_null(writer);
    assert_int_equal(chmod(f.path, 0755), 0);
    folder_remove(&f);
}

/* The first failure is kept through any number of writes and told by commit. */
static void a_full_disk_leaves_the_old_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    write_bytes(path, "old", 3);
    char *zeros = new_array(MANY_BYTES, 1);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    const struct rlimit small = {.rlim_cur = 1000, .rlim_max = before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (size_t bytes = 2000; bytes <= MANY_BYTES; bytes *= 2) {
        foci_writer *writer = NULL;
        assert_int_equal(foci_writer_open(ctx, path, &writer), FOCAL_OK);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        foci_writer_put(writer, zeros, bytes);
        foci_writer_put(writer, zeros, 1);
        foci_writer_pad(writer, 64);
        const focal_status so_far = foci_writer_status(writer);
        const focal_status status = foci_writer_commit(writer);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(so_far, bytes >= BUFFERED ? FOCAL_EIO : FOCAL_OK);
        assert_status(ctx, status, FOCAL_EIO);
        assert_message(ctx, path, "File too large");
        assert_file(path, "old");
        assert_int_equal(folder_count(&f), 1);
    }
    (void)signal(SIGXFSZ, handler);
    free(zeros);
    folder_remove(&f);
}

static void a_name_taken_meanwhile_is_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    foci_writer *writer = NULL;
    assert_int_equal(foci_writer_open(ctx, path, &writer), FOCAL_OK);
    foci_writer_put(writer, "x", 1);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_status(ctx, foci_writer_commit(writer), FOCAL_EIO);
    assert_message(ctx, path, "Is a directory");
    assert_int_equal(folder_count(&f), 1);
    folder_remove(&f);
}

/* Two writers of one name do not meet: each has a file of its own until it is renamed. */
static void two_writers_do_not_meet(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    foci_writer *a = NULL, *b = NULL;
    assert_int_equal(foci_writer_open(ctx, path, &a), FOCAL_OK);
    assert_int_equal(foci_writer_open(ctx, path, &b), FOCAL_OK);
    foci_writer_put(a, "first", 5);
    foci_writer_put(b, "second", 6);
    assert_int_equal(foci_writer_commit(a), FOCAL_OK);
    assert_file(path, "first");
    assert_int_equal(foci_writer_commit(b), FOCAL_OK);
    assert_file(path, "second");
    assert_int_equal(folder_count(&f), 1);
    folder_remove(&f);
}

static void memory_that_runs_out_is_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    int64_t n = 1;
    for (;; n++) {
        assert_true(n < MANY);
        const int64_t live = memory_live_blocks();
        foci_writer *writer = NULL;
        memory_fail(n, false);
        const focal_status status = foci_writer_open(ctx, path, &writer);
        memory_fail(0, false);
        if (status == FOCAL_OK) {
            foci_writer_abandon(writer);
            break;
        }
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_null(writer);
        assert_int_equal(memory_live_blocks(), live);
        assert_int_equal(folder_count(&f), 0);
    }
    assert_true(n > 1);
    folder_remove(&f);
}

/* Loaded, the same bytes stand at the same addresses, and no longer in the file. */
static void a_mapped_file_is_loaded(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "large");
    const size_t sizes[] = {FOCI_LARGE_PAGE - 1, FOCI_LARGE_PAGE, 3 * FOCI_LARGE_PAGE + 4097};
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++) {
        const size_t bytes = sizes[n];
        uint8_t *content = new_array(bytes, 1);
        for (size_t i = 0; i < bytes; i++) content[i] = (uint8_t)(i * 2654435761U >> 13);
        write_bytes(path, content, bytes);
        foci_map map;
        assert_status(ctx, foci_map_open(ctx, path, &map), FOCAL_OK);
        const uint8_t *data = map.data;
        assert_false(foci_map_set_writable(&map, true));
        const bool is_loaded = foci_map_load(ctx, &map);
#ifdef __linux__
        assert_true(is_loaded);
        assert_true(foci_map_set_writable(&map, true));
        assert_true(foci_map_set_writable(&map, false));
#endif
        assert_ptr_equal(map.data, data);
        assert_int_equal(map.bytes, bytes);
        assert_memory_equal(map.data, content, bytes);
        FILE *file = fopen(path, "r+b"); /* what changes in the file shows where it is mapped */
        assert_non_null(file);
        assert_int_equal(fputc(content[0] ^ 0xFF, file), content[0] ^ 0xFF);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(map.data[0], is_loaded ? content[0] : content[0] ^ 0xFF);
        memory_fail(1, true); /* without memory it stays as it is */
        assert_false(foci_map_load(ctx, &map));
        memory_fail(0, false);
        assert_memory_equal(map.data + 1, content + 1, bytes - 1);
        foci_map_close(&map);
        free(content);
    }
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_are_mapped, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_mapped_file_is_loaded, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(small_files_are_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_file_appears_when_it_is_whole, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(pieces_arrive_in_order, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(places_that_cannot_be_written_are_refused, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(a_folder_without_permission_is_refused, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_the_old_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_name_taken_meanwhile_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(two_writers_do_not_meet, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_that_runs_out_is_told, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
