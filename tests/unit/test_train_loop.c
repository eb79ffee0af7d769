/* The training loop on tiny data: it learns, does the same at any number of threads and after any
 * interruption, and treats spikes, damaged files and full disks as it says. */
#include "support/check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/tiny_run.h"
#include "train/checkpoint.h"

/* Field values of two logs, bit for bit. */
static void assert_same_log(const char *a, const char *b)
{
    static const char *const fields[] = {"loss", "norm", "rate", "tokens", "valid_loss"};
    for (size_t n = 0; n < FOCAL_COUNT(fields); n++) {
        double x[TINY_LOSSES], y[TINY_LOSSES];
        int64_t x_steps[TINY_LOSSES], y_steps[TINY_LOSSES];
        const int32_t count = tiny_run_read(a, fields[n], x, x_steps);
        assert_int_equal(tiny_run_read(b, fields[n], y, y_steps), count);
        assert_memory_equal(x, y, (size_t)count * sizeof *x);
        assert_memory_equal(x_steps, y_steps, (size_t)count * sizeof *x_steps);
    }
}

/* The newest checkpoints of two runs, but for the seconds in "state". */
static void assert_same_weights(focal_ctx *ctx, const char *a, const char *b)
{
    char path[256], note[FOCI_CHECKPOINT_NOTE];
    foci_checkpoint *x = NULL, *y = NULL;
    (void)snprintf(path, sizeof path, "%s/checkpoints", a);
    assert_status(ctx, foci_checkpoint_newest(ctx, path, &x, note), FOCAL_OK);
    (void)snprintf(path, sizeof path, "%s/checkpoints", b);
    assert_status(ctx, foci_checkpoint_newest(ctx, path, &y, note), FOCAL_OK);
    assert_int_equal(foci_checkpoint_step(x), foci_checkpoint_step(y));
    assert_int_equal(foci_checkpoint_count(x), foci_checkpoint_count(y));
    assert_true(foci_checkpoint_count(x) > 10);
    for (int64_t n = 0; n < foci_checkpoint_count(x); n++) {
        const foci_block *block = foci_checkpoint_at(x, n);
        const foci_block *other = foci_checkpoint_find(y, block->name);
        assert_non_null(other);
        assert_int_equal(foci_block_bytes(block), foci_block_bytes(other));
        if (strcmp(block->name, "state") != 0)
            assert_memory_equal(block->data, other->data, foci_block_bytes(block));
    }
    foci_checkpoint_close(x);
    foci_checkpoint_close(y);
}

static int count_lines_with(const char *path, const char *word)
{
    size_t bytes = 0;
    char *text = read_bytes(path, &bytes);
    int count = 0;
    for (size_t n = 0; n + strlen(word) <= bytes; n++)
        count += memcmp(text + n, word, strlen(word)) == 0;
    free(text);
    return count;
}

static void loss_falls(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    tiny_watch w = {.stop_at = -1};
    double losses[TINY_LOSSES], valid[TINY_LOSSES];
    int64_t steps[TINY_LOSSES];
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "schedule.steps=60", &w), FOCAL_OK);
    assert_int_equal(w.result.end, FOCAL_TRAIN_FINISHED);
    assert_int_equal(w.result.step, 60);
    assert_int_equal(w.result.tokens, 60 * 4 * 16);
    assert_int_equal(w.step_count, 60);
    assert_int_equal(w.last.steps, 60);
    assert_true(w.last.tokens_per_second > 0.0 && w.last.seconds_left >= 0.0);
    assert_int_equal(tiny_run_read(tiny.out, "loss", losses, steps), 60);
    for (int n = 0; n < 60; n++) assert_int_equal(steps[n], n + 1);
    assert_true(fabs(losses[0] - log(TINY_VOCAB)) < 0.3);
    assert_true(losses[59] < losses[0] - 1.0); /* half of the tokens follow from the last */
    assert_true(losses[59] == w.result.loss);
    assert_int_equal(tiny_run_read(tiny.out, "valid_loss", valid, steps), 15);
    assert_int_equal(steps[14], 60);
    assert_int_equal(w.validations, 15);
    assert_true(valid[14] == w.result.valid_loss && valid[14] < valid[0] - 0.5);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/summary.json", tiny.out);
    assert_int_equal(count_lines_with(path, "\"state\":\"finished\""), 1);
    /* Once more: nothing is left to do. */
    w = (tiny_watch){.stop_at = -1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "schedule.steps=60", &w), FOCAL_OK);
    assert_int_equal(w.step_count, 0);
    assert_true(w.result.loss == losses[59] && w.result.step == 60);
    tiny_run_free(&tiny);
}

/* The passes of a step give its gradient in parts. */
static void accumulation_changes_rounding_only(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    static const char *const sets[] = {"precision=f32", "precision=f32\ndata.accumulation=2",
                                       "precision=f32\ndata.accumulation=4"};
    double losses[3][TINY_LOSSES];
    for (int n = 0; n < 3; n++) {
        tiny_watch w = {.stop_at = -1};
        tiny_run_clear(&tiny, tiny.out);
        assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, sets[n], &w), FOCAL_OK);
        assert_int_equal(tiny_run_read(tiny.out, "loss", losses[n], NULL), TINY_STEPS);
        for (int i = 0; i < TINY_STEPS; i++)
            assert_true(fabs(losses[n][i] - losses[0][i]) < 2e-4 * losses[0][i]);
    }
    tiny_run_free(&tiny);
}

/* Stopped at every step, with another number of threads in each session. */
static void resumed_runs_are_equal(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const kinds[] = {
        "", "optimiser.kind=muon\ndata.accumulation=2\ntemperature.kind=learned"};
    const tiny_run tiny = tiny_run_new(ctx);
    char whole[160];
    (void)snprintf(whole, sizeof whole, "%s/whole", tiny.root.path);
    for (size_t kind = 0; kind < FOCAL_COUNT(kinds); kind++) {
        tiny_run_clear(&tiny, whole);
        assert_status(ctx, tiny_run_train(ctx, &tiny, whole, kinds[kind], NULL), FOCAL_OK);
        for (int64_t stop = 0; stop <= TINY_STEPS; stop++) {
            tiny_run_clear(&tiny, tiny.out);
            for (int32_t part = 0; part < 3; part++) { /* stopped twice, then to the end */
                focal_ctx *own = new_ctx(1 + (int32_t)(stop + part) % 3);
                tiny_watch w = {.stop_at = part < 2 ? stop + part : -1};
                w.step = part == 1 ? stop : 0;
                assert_status(own, tiny_run_train(own, &tiny, tiny.out, kinds[kind], &w), FOCAL_OK);
                /* At the last step the stop comes before its validation. */
                const bool is_stopped = part < 2 && stop + part <= TINY_STEPS;
                assert_int_equal(w.result.end,
                                 is_stopped ? FOCAL_TRAIN_STOPPED : FOCAL_TRAIN_FINISHED);
                assert_int_equal(w.result.step, is_stopped ? stop + part : TINY_STEPS);
                focal_ctx_close(own);
            }
            assert_same_log(whole, tiny.out);
            assert_same_weights(ctx, whole, tiny.out);
        }
    }
    tiny_run_free(&tiny);
}

/* A session that dies without a last word, after steps that no checkpoint has. */
static void lost_steps_are_done_again(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    char whole[160], old[256], older[256];
    (void)snprintf(whole, sizeof whole, "%s/whole", tiny.root.path);
    (void)snprintf(old, sizeof old, "%s/step-%010d.ckpt", tiny.checkpoints, 8);
    (void)snprintf(older, sizeof older, "%s/step-%010d.ckpt", tiny.checkpoints, 6);
    assert_status(ctx, tiny_run_train(ctx, &tiny, whole, "", NULL), FOCAL_OK);
    tiny_watch w = {.stop_at = -1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_int_equal(remove(old), 0); /* as if it had been killed before the last one */
    w = (tiny_watch){.stop_at = -1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_int_equal(w.step_count, 2);
    assert_non_null(strstr(w.notes, "resumed at step 6"));
    assert_same_log(whole, tiny.out);
    assert_same_weights(ctx, whole, tiny.out);
    /* The newest is damaged: the one before it serves. */
    size_t bytes = 0;
    char *data = read_bytes(old, &bytes);
    data[bytes / 2] ^= 1;
    write_bytes(old, data, bytes);
    w = (tiny_watch){.stop_at = -1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_non_null(strstr(w.notes, "passed over"));
    assert_int_equal(w.step_count, 2);
    assert_same_log(whole, tiny.out);
    assert_same_weights(ctx, whole, tiny.out);
    /* None is good: it is not begun anew over them. */
    write_bytes(old, data, bytes);
    write_bytes(older, data, bytes);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_EFORMAT);
    free(data);
    tiny_run_free(&tiny);
}

static void other_settings_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    tiny_watch w = {.stop_at = 2};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "seed=2", NULL), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "'seed' = 1, this one has 2"));
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "schedule.steps=9", NULL),
                  FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "schedule.steps"));
    /* What is kept may change, and the settings then say so. */
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "checkpoint.keep=3\non_spike=skip", &w),
                  FOCAL_OK);
    char path[256];
    (void)snprintf(path, sizeof path, "%s/run.conf", tiny.out);
    assert_int_equal(count_lines_with(path, "checkpoint.keep = 3\n"), 1);
    tiny_run_free(&tiny);
}

/* The same settings, but the folder of the shards holds others. */
static void other_data_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx), other = tiny_run_new(ctx);
    tiny_watch w = {.stop_at = 2};
    char set[256], path[256];
    size_t bytes = 0;
    (void)snprintf(set, sizeof set, "data.shards=%s", other.shards);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, set, &w), FOCAL_OK); /* a copy */
    (void)snprintf(path, sizeof path, "%s/shard-00000.tokens", other.shards);
    uint8_t *data = read_bytes(path, &bytes);
    assert_true(bytes > 128);
    free(data);
    tiny_run_clear(&other, other.shards);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, set, &w), FOCAL_EIO);
    tiny_run_free(&tiny);
    tiny_run_free(&other);
}

typedef struct second {
    focal_ctx *ctx;
    const tiny_run *tiny;
    focal_status status;
    char why[256];
} second;

static void train_too(void *user)
{
    second *s = user;
    s->status = tiny_run_train(s->ctx, s->tiny, s->tiny->out, "", NULL);
    (void)snprintf(s->why, sizeof s->why, "%s", focal_ctx_error(s->ctx));
}

static void one_at_a_time(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    second s = {.ctx = new_ctx(1), .tiny = &tiny};
    tiny_watch w = {.stop_at = 1, .on_step = train_too, .user = &s};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_int_equal(s.status, FOCAL_EINVAL);
    assert_non_null(strstr(s.why, "another process trains in this folder"));
    focal_ctx_close(s.ctx);
    tiny_run_free(&tiny);
}

/* A learning rate that throws the weights away, and a watch that notices. */
#define WILD "optimiser.lr=10\noptimiser.clip=0\nschedule.warmup=0\nspike_threshold=0.5\n"

static void spikes_stop(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    for (int n = 0; n < 2; n++) { /* the second time it goes on from the state before */
        tiny_watch w = {.stop_at = -1};
        assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, WILD, &w), FOCAL_OK);
        assert_int_equal(w.result.end, FOCAL_TRAIN_SPIKED);
        assert_int_equal(w.result.step, 1);
        assert_int_equal(w.step_count, n == 0 ? 1 : 0);
        assert_non_null(strstr(w.notes, "stopped before step 2: the loss is"));
    }
    char path[256];
    (void)snprintf(path, sizeof path, "%s/summary.json", tiny.out);
    assert_int_equal(count_lines_with(path, "\"state\":\"spiked\""), 1);
    (void)snprintf(path, sizeof path, "%s/step-%010d.ckpt", tiny.checkpoints, 1);
    assert_int_equal(access(path, R_OK), 0);
    /* And told to, leaves such steps out. */
    tiny_watch w = {.stop_at = -1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, WILD "on_spike=skip", &w), FOCAL_OK);
    assert_int_equal(w.result.end, FOCAL_TRAIN_FINISHED);
    assert_int_equal(count_lines_with(tiny.log, "\"skipped\":\"the loss is"), TINY_STEPS - 1);
    assert_non_null(strstr(w.notes, "step 2 left out: the loss is"));
    tiny_run_free(&tiny);
}

/* Steps that are left out resume like others; too many of them are the end. */
static void skipped_steps_resume(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    static const char sets[] = WILD "on_spike=skip\nschedule.steps=40";
    char whole[160];
    (void)snprintf(whole, sizeof whole, "%s/whole", tiny.root.path);
    tiny_watch w = {.stop_at = -1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, whole, sets, &w), FOCAL_OK);
    assert_int_equal(w.result.end, FOCAL_TRAIN_SPIKED);
    assert_int_equal(w.result.step, 17);
    assert_non_null(strstr(w.notes, "as many steps before it"));
    static const char one[] = WILD "on_spike=skip\nschedule.steps=40\nsamples.every=1";
    tiny_watch first = {.stop_at = 1};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, one, &first), FOCAL_OK);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, sets, &w), FOCAL_OK);
    assert_int_equal(w.result.step, 17);
    assert_same_log(whole, tiny.out);
    assert_same_weights(ctx, whole, tiny.out);
    tiny_run_free(&tiny);
}

/* The disk is full at the second checkpoint: the first one is still good. */
static void full_disk_keeps_the_last(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    char whole[160], path[256];
    struct stat info;
    struct rlimit before;
    (void)snprintf(whole, sizeof whole, "%s/whole", tiny.root.path);
    assert_status(ctx, tiny_run_train(ctx, &tiny, whole, "", NULL), FOCAL_OK);
    tiny_watch w = {.stop_at = 3};
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    (void)snprintf(path, sizeof path, "%s/step-%010d.ckpt", tiny.checkpoints, 3);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit small = {(rlim_t)info.st_size / 2, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    w = (tiny_watch){.stop_at = -1};
    const focal_status status = tiny_run_train(ctx, &tiny, tiny.out, "", &w);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_status(ctx, status, FOCAL_EIO);
    assert_int_equal(w.step, 6);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, "", &w), FOCAL_OK);
    assert_same_log(whole, tiny.out);
    assert_same_weights(ctx, whole, tiny.out);
    tiny_run_free(&tiny);
}

static void minutes_end_a_run(void **state)
{
    focal_ctx *ctx = *state;
    const tiny_run tiny = tiny_run_new(ctx);
    tiny_watch w = {.stop_at = -1};
    double rates[TINY_LOSSES];
    static const char sets[] = "schedule.steps=0\nschedule.minutes=0.002\ncheckpoint.every=0\n"
                               "data.batch=32\ndata.accumulation=4\nvalidation.every=0";
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, sets, &w), FOCAL_OK);
    assert_int_equal(w.result.end, FOCAL_TRAIN_FINISHED);
    assert_true(w.result.seconds >= 0.12 && w.result.step >= 1);
    assert_int_equal(w.last.steps, 0);
    assert_int_equal(tiny_run_read(tiny.out, "rate", rates, NULL), w.step_count);
    for (int64_t n = 0; n < w.step_count; n++) assert_true(rates[n] > 0.0 && rates[n] <= 0.01);
    assert_status(ctx, tiny_run_train(ctx, &tiny, tiny.out, sets, &w), FOCAL_OK);
    assert_int_equal(w.result.end, FOCAL_TRAIN_FINISHED);
    tiny_run_free(&tiny);
}

static void memory_runs_out(void **state)
{
    (void)state;
    focal_ctx *ctx = new_ctx(1);
    const tiny_run tiny = tiny_run_new(ctx);
    static const char sets[] = "schedule.steps=1\nschedule.warmup=0\nvalidation.tokens=1\n"
                               "temperature.layers=1\ntemperature.heads=1";
    focal_ctx_close(ctx);
    focal_status status = FOCAL_ENOMEM;
    for (int64_t n = 1; status == FOCAL_ENOMEM; n++) {
        assert_in_range(n, 1, 5000);
        ctx = new_ctx(1);
        tiny_run_clear(&tiny, tiny.out);
        memory_fail(n, false);
        status = tiny_run_train(ctx, &tiny, tiny.out, sets, NULL);
        memory_fail(0, false);
        assert_status(ctx, status, status == FOCAL_OK ? FOCAL_OK : FOCAL_ENOMEM);
        focal_ctx_close(ctx);
        assert_int_equal(memory_live_blocks(), 0);
    }
    tiny_run_free(&tiny);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loss_falls, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(accumulation_changes_rounding_only, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(resumed_runs_are_equal, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(lost_steps_are_done_again, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_settings_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_data_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(one_at_a_time, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(spikes_stop, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(skipped_steps_resume, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(full_disk_keeps_the_last, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(minutes_end_a_run, open_ctx, close_ctx),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests_name("train_loop", tests, NULL, NULL);
}
