/* A run of training small enough for tests: shards of a text that can be learned, settings of a
 * model that takes milliseconds, and a watch that remembers what it was told. */
#ifndef FOCAL_TESTS_TINY_RUN_H
#define FOCAL_TESTS_TINY_RUN_H

#include "support/check.h"
#include "support/folder.h"

#include "focal/train.h"

enum { TINY_VOCAB = 24, TINY_STEPS = 8, TINY_LOSSES = 256, TINY_NOTES = 4096 };

/* What a session told. */
typedef struct tiny_watch {
    int64_t stop_at;    /* must_stop says yes from this step on; -1: never */
    int64_t step;       /* the last one told */
    int64_t step_count; /* that were told */
    int64_t validations, samples;
    focal_train_step last;
    char notes[TINY_NOTES];      /* one behind the other */
    void (*on_step)(void *user); /* more to do in a step; may be NULL */
    void *user;
    focal_train_result result;
} tiny_watch;

typedef struct tiny_run {
    folder root;
    char shards[128], out[128]; /* folders in it */
    char checkpoints[160], log[160];
} tiny_run;

/* Makes the folder with shards; fails the test when it cannot. */
tiny_run tiny_run_new(focal_ctx *ctx);
void tiny_run_free(const tiny_run *tiny);                    /* with everything in the folder */
void tiny_run_clear(const tiny_run *tiny, const char *path); /* a folder in it, or nothing */

/* Trains in the folder `path` with the tiny settings and then `sets`, "key=value" lines. The peak
 * is 1, so the share of it that is told is operations a second. */
focal_status tiny_run_train(focal_ctx *ctx, const tiny_run *tiny, const char *path,
                            const char *sets, tiny_watch *watch);

/* Fits groups to the model in the folder `model` likewise: 4 groups, a window of 4 and a sink, on
 * windows of 64 tokens across documents. */
focal_status tiny_run_fit(focal_ctx *ctx, const tiny_run *tiny, const char *path, const char *model,
                          const char *sets, tiny_watch *watch);

/* "loss" (or another field) of every line of the log that has it: their number; steps may be
 * NULL. */
int32_t tiny_run_read(const char *out, const char *field, double values[TINY_LOSSES],
                      int64_t *steps);

#endif /* FOCAL_TESTS_TINY_RUN_H */
