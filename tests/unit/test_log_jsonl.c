/* The log of JSON lines: what a line looks like, numbers that read back, and cutting where a
 * resumed run goes on, at every byte at which the process may have died. */
#include "support/check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/random.h"
#include "support/folder.h"
#include "train/log_jsonl.h"

static foci_log *open_log(focal_ctx *ctx, const char *path, int64_t step)
{
    foci_log *log = NULL;
    assert_status(ctx, foci_log_open(ctx, path, step, &log), FOCAL_OK);
    assert_non_null(log);
    return log;
}

/* The file as a string to free(). */
static char *contents(const char *path)
{
    size_t bytes = 0;
    char *data = read_bytes(path, &bytes), *text = new_array(bytes + 1, 1);
    memcpy(text, data, bytes);
    free(data);
    return text;
}

static void assert_contents(const char *path, const char *expected)
{
    char *text = contents(path);
    assert_string_equal(text, expected);
    free(text);
}

static void lines_are_json(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "log.jsonl");
    foci_log *log = open_log(ctx, path, -1);
    const foci_log_field fields[] = {
        {.name = "loss", .type = FOCI_LOG_REAL, .real = 4.125},
        {.name = "lr", .type = FOCI_LOG_REAL, .real = 0.1},
        {.name = "norm", .type = FOCI_LOG_REAL, .real = (double)NAN},
        {.name = "up", .type = FOCI_LOG_REAL, .real = (double)INFINITY},
        {.name = "tokens", .type = FOCI_LOG_INT, .integer = INT64_MIN},
        {.name = "text",
         .type = FOCI_LOG_TEXT,
         .text = "\"a\"\\\n\x7F\x01 \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \xFF\xC3"},
    };
    assert_status(ctx, foci_log_put(log, 12, fields, FOCAL_COUNT(fields)), FOCAL_OK);
    assert_status(ctx, foci_log_put(log, 13, NULL, 0), FOCAL_OK);
    assert_status(ctx, foci_log_sync(log), FOCAL_OK);
    foci_log_close(log);
    foci_log_close(NULL);
    assert_contents(path, "{\"step\":12,\"loss\":4.125,\"lr\":0.1,\"norm\":null,\"up\":null,"
                          "\"tokens\":-9223372036854775808,\"text\":\"\\\"a\\\"\\\\\\u000a\\u007f"
                          "\\u0001 \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80 \\ufffd\\ufffd\"}\n"
                          "{\"step\":13}\n");
    folder_remove(&f);
}

static void numbers_read_back(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "log.jsonl");
    foci_log *log = open_log(ctx, path, -1);
    enum { COUNT = 2000 };
    static double values[COUNT];
    for (uint64_t n = 0; n < COUNT; n++) {
        const foci_random4 r = foci_random_block(1, 2, n);
        const uint64_t bits = (uint64_t)r.x[0] << 32 | r.x[1];
        memcpy(&values[n], &bits, sizeof bits);
        if (!isfinite(values[n]) || n % 2) values[n] = (double)(float)r.x[2] / 1e9;
        const foci_log_field field = {.name = "x", .type = FOCI_LOG_REAL, .real = values[n]};
        assert_status(ctx, foci_log_put(log, (int64_t)n, &field, 1), FOCAL_OK);
    }
    foci_log_close(log);
    char *text = contents(path);
    const char *at = text;
    for (int n = 0; n < COUNT; n++) {
        at = strstr(at, "\"x\":") + 4;
        const double got = strtod(at, NULL);
        assert_memory_equal(&got, &values[n], sizeof got);
    }
    free(text);
    folder_remove(&f);
}

static const char whole[] = "{\"step\":0,\"v\":1}\n{\"step\":1}\n{\"step\":9,\"loss\":2}\n"
                            "{\"step\":9,\"v\":3}\n{\"step\":10}\n{\"step\":123}\n";

/* Whatever was written behind the checkpoint, a resumed log has the lines up to it. */
static void a_resumed_log_has_each_step_once(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "log.jsonl");
    const size_t kept = (size_t)(strstr(whole, "{\"step\":10}") - whole);
    for (size_t bytes = kept; bytes < sizeof whole; bytes++) {
        write_bytes(path, whole, bytes);
        foci_log *log = open_log(ctx, path, 9);
        assert_status(ctx, foci_log_put(log, 10, NULL, 0), FOCAL_OK);
        foci_log_close(log);
        char expected[sizeof whole];
        (void)snprintf(expected, sizeof expected, "%.*s{\"step\":10}\n", (int)kept, whole);
        assert_contents(path, expected);
    }
    for (size_t bytes = 0; bytes < sizeof whole; bytes++) { /* no checkpoint yet: all goes */
        write_bytes(path, whole, bytes);
        foci_log_close(open_log(ctx, path, -1));
        assert_contents(path, "");
    }
    /* A machine that died may leave anything behind what was synced. */
    static const char torn[] = "{\"step\":9}\n\0\0\0\0{\"step\":7\n{\"step\":11}\n";
    write_bytes(path, torn, sizeof torn - 1);
    foci_log_close(open_log(ctx, path, 9));
    assert_contents(path, "{\"step\":9}\n");
    folder_remove(&f);
}

static void other_files_stay_as_they_are(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const others[] = {
        "my notes\n",
        "my notes",
        "{\"step\":x}\n",
        "{\"step\":1234567890123456789}\n",
        "{\"step\":}\n",
        "{\"step\":1\n",
        "{\"step\":1}\nno line\n{\"step\":5}\n",
    };
    const folder f = folder_new();
    const char *path = folder_file(&f, "log.jsonl");
    foci_log *log = NULL;
    for (size_t n = 0; n < FOCAL_COUNT(others); n++) {
        write_bytes(path, others[n], strlen(others[n]));
        assert_status(ctx, foci_log_open(ctx, path, 5, &log), FOCAL_EFORMAT);
        assert_null(log);
        assert_contents(path, others[n]);
    }
    assert_non_null(strstr(focal_ctx_error(ctx), "log.jsonl:2: "));
    assert_status(ctx, foci_log_open(ctx, f.path, 5, &log), FOCAL_EIO);
    assert_status(ctx, foci_log_open(ctx, "/nonexistent/log", 5, &log), FOCAL_EIO);
    folder_remove(&f);
}

static void a_full_disk_costs_one_line(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "log.jsonl");
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 11; room++) {
        foci_log *log = open_log(ctx, path, -1);
        assert_status(ctx, foci_log_put(log, 1, NULL, 0), FOCAL_OK);
        const struct rlimit small = {11 + room, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const focal_status status = foci_log_put(log, 2, NULL, 0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_status(ctx, status, FOCAL_EIO);
        assert_contents(path, "{\"step\":1}\n");
        assert_status(ctx, foci_log_put(log, 3, NULL, 0), FOCAL_OK);
        foci_log_close(log);
        assert_contents(path, "{\"step\":1}\n{\"step\":3}\n");
    }
    (void)signal(SIGXFSZ, handler);
    folder_remove(&f);
}

static void memory_may_fail_anywhere(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "log.jsonl");
    for (int64_t n = 1, is_done = 0; !is_done; n++) {
        foci_log *log = NULL;
        focal_ctx_trim(ctx);
        memory_fail(n, true);
        focal_status status = foci_log_open(ctx, path, 3, &log);
        if (status == FOCAL_OK) status = foci_log_put(log, 4, NULL, 0);
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        is_done = status == FOCAL_OK;
        foci_log_close(log);
    }
    assert_contents(path, "{\"step\":4}\n");
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(lines_are_json, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(numbers_read_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_resumed_log_has_each_step_once, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_files_stay_as_they_are, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_full_disk_costs_one_line, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_fail_anywhere, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("log_jsonl", tests, NULL, NULL);
}
