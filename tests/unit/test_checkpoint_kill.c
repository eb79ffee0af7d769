/* A process that saves checkpoints is killed at random moments, many times; each time the newest
 * checkpoint is whole, no step is lost that was reported as saved, and the next process goes on.
 * FOCAL_TEST_KILLS says how often, 60 without it. */
#include "support/check.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/random.h"
#include "support/folder.h"
#include "train/checkpoint.h"

enum { FLOATS = 100000, KILLS = 60, MOST_WAIT_US = 20000 };

static float values[2][FLOATS];

static const foci_block *blocks_of(int64_t step)
{
    static const foci_block blocks[2] = {
        {"masters", FOCI_BLOCK_F32, 1, {FLOATS}, values[0]},
        {"moments", FOCI_BLOCK_F32, 2, {2, FLOATS / 2}, values[1]},
    };
    for (int n = 0; n < FLOATS; n++) {
        values[0][n] = (float)(step % 4096) + (float)n;
        values[1][n] = -values[0][n];
    }
    return blocks;
}

/* What a training run does: resume, then save step after step and report each on `report`. */
static void save_for_ever(const char *place, int report)
{
    const focal_ctx_options options = {.threads = 1};
    const foci_checkpoint_policy policy = {.keep = 2};
    focal_ctx *ctx = NULL;
    foci_checkpoint *checkpoint = NULL;
    char note[FOCI_CHECKPOINT_NOTE];
    if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) _exit(2);
    if (foci_checkpoint_newest(ctx, place, &checkpoint, note) != FOCAL_OK) _exit(3);
    int64_t step = checkpoint ? foci_checkpoint_step(checkpoint) : 0;
    foci_checkpoint_close(checkpoint);
    for (;;) {
        step++;
        if (foci_checkpoint_save(ctx, place, step, blocks_of(step), 2, &policy) != FOCAL_OK)
            _exit(4);
        if (write(report, &step, sizeof step) != sizeof step) _exit(5);
    }
}

/* Kills the process after a while and returns the last step that it reported, -1 for none. */
static int64_t run_and_kill(const char *place, uint32_t wait_us)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)close(ends[0]);
        save_for_ever(place, ends[1]);
    }
    (void)close(ends[1]);
    const struct timespec pause = {0, (long)wait_us * 1000};
    (void)nanosleep(&pause, NULL);
    assert_int_equal(kill(child, SIGKILL), 0);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status)) fail_msg("the process ended by itself: %d", WEXITSTATUS(status));
    int64_t step = -1, reported = -1;
    while (read(ends[0], &step, sizeof step) == sizeof step) reported = step;
    (void)close(ends[0]);
    return reported;
}

static void kills_lose_nothing(void **state)
{
    (void)state;
    const folder f = folder_new();
    const char *wanted = getenv("FOCAL_TEST_KILLS");
    const long kills = wanted ? strtol(wanted, NULL, 10) : KILLS;
    int64_t newest = 0;
    int parts = 0;
    for (long n = 0; n < kills; n++) {
        /* Longer and longer on a busy machine, until there is a first checkpoint. */
        const uint32_t most_us = newest > 0 ? MOST_WAIT_US : MOST_WAIT_US * (uint32_t)(n % 40 + 1);
        const uint32_t wait_us = foci_random_below(1, 2, (uint64_t)n, most_us);
        const int64_t reported = run_and_kill(f.path, wait_us);
        /* Only now is there a context: a process that forks has no threads. */
        focal_ctx *ctx = new_ctx(1);
        foci_checkpoint *checkpoint = NULL;
        char note[FOCI_CHECKPOINT_NOTE];
        assert_status(ctx, foci_checkpoint_newest(ctx, f.path, &checkpoint, note), FOCAL_OK);
        assert_string_equal(note, "");
        const int64_t found = checkpoint ? foci_checkpoint_step(checkpoint) : 0;
        assert_true(found >= newest && found >= reported);
        const foci_block *blocks = blocks_of(found);
        for (int b = 0; checkpoint && b < 2; b++) {
            const foci_block *block = foci_checkpoint_find(checkpoint, blocks[b].name);
            assert_non_null(block);
            assert_memory_equal(block->data, blocks[b].data, sizeof values[0]);
        }
        newest = found;
        foci_checkpoint_close(checkpoint);
        focal_ctx_close(ctx);
        char name[64];
        (void)snprintf(name, sizeof name, "step-%010lld.ckpt.part", (long long)found + 1);
        parts += access(folder_file(&f, name), F_OK) == 0;
    }
    print_message("%ld kills, %d of them in the midst of writing, %lld checkpoints\n", kills, parts,
                  (long long)newest);
    assert_true(newest > 0);
    /* Kills between the rename and the removal of older ones may have left some; no more now. */
    focal_ctx *ctx = new_ctx(1);
    const foci_checkpoint_policy policy = {.keep = 2};
    const foci_block *blocks = blocks_of(newest + 1);
    assert_status(ctx, foci_checkpoint_save(ctx, f.path, newest + 1, blocks, 2, &policy), FOCAL_OK);
    assert_int_equal(folder_count(&f), 2);
    focal_ctx_close(ctx);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kills_lose_nothing)};
    return cmocka_run_group_tests_name("checkpoint_kill", tests, NULL, NULL);
}
