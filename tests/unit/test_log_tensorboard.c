/* Event files: byte for byte what the tensorboard package writes (tests/golden/events.bin, made by
 * tools/golden_events.py), in files that follow each other. With FOCAL_TEST_PYTHON, a Python that
 * has that package, it also reads a run that was resumed: each step once. */
#include "support/check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "support/folder.h"
#include "train/log_tensorboard.h"

static const double now = 1700000000.25;

static void the_bytes_are_tensorboards(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_events *events = NULL;
    char text[20 * 18 + 1] = "";
    for (size_t n = 0; n < 20; n++)
        (void)snprintf(text + 18 * n, sizeof text - 18 * n, "Once upon a t\xC3\xAFme\n");
    assert_status(ctx, foci_events_open(ctx, f.path, 100, now, &events), FOCAL_OK);
    assert_status(ctx, foci_events_scalar(events, now, 0, "loss/train", 10.5), FOCAL_OK);
    assert_status(ctx, foci_events_scalar(events, now, 150, "loss/train", 3.14159), FOCAL_OK);
    assert_status(ctx, foci_events_scalar(events, now, INT64_C(1) << 40, "lr", -0.0), FOCAL_OK);
    assert_status(ctx, foci_events_scalar(events, now, 3, "nan", (double)NAN), FOCAL_OK);
    assert_status(ctx, foci_events_text(events, now, 200, "sample", text), FOCAL_OK);
    assert_status(ctx, foci_events_sync(events), FOCAL_OK);
    size_t bytes = 0, expected_bytes = 0;
    void *got = read_bytes(foci_events_path(events), &bytes);
    void *expected = read_bytes(FOCAL_TEST_DIR "/golden/events.bin", &expected_bytes);
    assert_int_equal(bytes, expected_bytes);
    assert_memory_equal(got, expected, bytes);
    free(got);
    free(expected);
    foci_events_close(events);
    foci_events_close(NULL);
    folder_remove(&f);
}

/* The part of a path behind the folder. */
static const char *name_in(const folder *f, const foci_events *events)
{
    const char *path = foci_events_path(events);
    assert_memory_equal(path, f->path, strlen(f->path));
    return path + strlen(f->path) + 1;
}

static void files_follow_each_other(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_events *first = NULL, *second = NULL, *third = NULL;
    assert_status(ctx, foci_events_open(ctx, f.path, -1, now, &first), FOCAL_OK);
    assert_status(ctx, foci_events_open(ctx, f.path, 5, now + 0.5, &second), FOCAL_OK);
    /* The clock went back an hour. */
    assert_status(ctx, foci_events_open(ctx, f.path, 5, now - 3600.0, &third), FOCAL_OK);
    assert_true(strncmp(name_in(&f, first), "events.out.tfevents.1700000000.", 31) == 0);
    assert_true(strncmp(name_in(&f, second), "events.out.tfevents.1700000001.", 31) == 0);
    assert_true(strncmp(name_in(&f, third), "events.out.tfevents.1700000002.", 31) == 0);
    foci_events_close(first);
    foci_events_close(second);
    foci_events_close(third);
    assert_status(ctx, foci_events_open(ctx, "/nonexistent", -1, now, &first), FOCAL_EIO);
    assert_null(first);
    folder_remove(&f);
}

/* The disk is full after n bytes: the file ends with a whole record and takes more later. */
static void a_full_disk_costs_one_record(void **state)
{
    focal_ctx *ctx = *state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t room = 0; room < 40; room += 3) {
        const folder f = folder_new();
        foci_events *events = NULL;
        size_t whole = 0, bytes = 0;
        assert_status(ctx, foci_events_open(ctx, f.path, -1, now, &events), FOCAL_OK);
        free(read_bytes(foci_events_path(events), &whole));
        const struct rlimit small = {whole + room, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const focal_status status = foci_events_scalar(events, now, 1, "loss", 1.0);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_status(ctx, status, FOCAL_EIO);
        free(read_bytes(foci_events_path(events), &bytes));
        assert_int_equal(bytes, whole);
        assert_status(ctx, foci_events_scalar(events, now, 1, "loss", 1.0), FOCAL_OK);
        foci_events_close(events);
        folder_remove(&f);
    }
    (void)signal(SIGXFSZ, handler);
}

static void memory_may_fail_anywhere(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    for (int64_t n = 1, is_done = 0; !is_done; n++) {
        foci_events *events = NULL;
        focal_ctx_trim(ctx);
        memory_fail(n, true);
        focal_status status = foci_events_open(ctx, f.path, 3, now, &events);
        if (status == FOCAL_OK) status = foci_events_scalar(events, now, 1, "a", 1.0);
        if (status == FOCAL_OK) status = foci_events_text(events, now, 1, "b", "c");
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        is_done = status == FOCAL_OK;
        foci_events_close(events);
    }
    folder_remove(&f);
}

/* A run of 20 steps that died, and went on behind step 10 with other values. */
static void tensorboard_reads_a_resumed_run(void **state)
{
    focal_ctx *ctx = *state;
    const char *python = getenv("FOCAL_TEST_PYTHON");
    if (!python)
        skip_without("the package tensorboard", "FOCAL_TEST_PYTHON names a Python that has it");
    const folder f = folder_new();
    for (int part = 0; part < 2; part++) {
        foci_events *events = NULL;
        assert_status(ctx, foci_events_open(ctx, f.path, part ? 10 : -1, now, &events), FOCAL_OK);
        for (int64_t step = part ? 11 : 1; step <= (part ? 25 : 20); step++) {
            const double value = (double)step + 0.25 * part;
            assert_status(ctx, foci_events_scalar(events, now, step, "loss", value), FOCAL_OK);
        }
        if (part) assert_status(ctx, foci_events_text(events, now, 25, "sample", "a"), FOCAL_OK);
        foci_events_close(events);
    }
    char command[1024];
    (void)snprintf(command, sizeof command, "'%s' %s/../tools/read_events.py %s", python,
                   FOCAL_TEST_DIR, f.path);
    FILE *pipe = popen(command, "r"); /* NOLINT(cert-env33-c): a test of another program */
    assert_non_null(pipe);
    char line[256];
    for (int step = 1; step <= 25; step++) {
        char expected[64];
        (void)snprintf(expected, sizeof expected, "loss %d %.2f\n", step,
                       (double)step + (step > 10 ? 0.25 : 0.0));
        assert_non_null(fgets(line, sizeof line, pipe));
        assert_string_equal(line, expected);
    }
    assert_non_null(fgets(line, sizeof line, pipe));
    assert_string_equal(line, "sample 25 a\n");
    assert_null(fgets(line, sizeof line, pipe));
    assert_int_equal(pclose(pipe), 0);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_bytes_are_tensorboards, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(files_follow_each_other, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_full_disk_costs_one_record, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_fail_anywhere, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tensorboard_reads_a_resumed_run, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("log_tensorboard", tests, NULL, NULL);
}
