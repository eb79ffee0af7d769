/* Tiny runs of training. */
#include "support/tiny_run.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "io/shards.h"

enum { DOCUMENTS = 40, SET_BYTES = 256, MORE_BYTES = 2048 };

static const char *const settings[] = {
    "data.length=16",     "data.batch=4",         "data.valid_share=0.1", "model.layers=2",
    "model.width=32",     "model.ffn=48",         "model.heads=2",        "model.vocabulary=0",
    "schedule.steps=8",   "schedule.warmup=2",    "optimiser.lr=0.01",    "checkpoint.every=3",
    "validation.every=4", "validation.tokens=64",
};

static const char *const fit_settings[] = {
    "learn=groups",       "data.length=64",        "data.cross_documents=true",
    "data.batch=4",       "data.valid_share=0.2",  "groups.count=4",
    "groups.width=8",     "groups.top=2",          "groups.top_fit=1",
    "groups.window=4",    "groups.sinks=1",        "schedule.steps=8",
    "schedule.warmup=2",  "optimiser.lr=0.01",     "checkpoint.every=3",
    "validation.every=4", "validation.tokens=256",
};

/* Documents that count upwards from a random start, some tokens by chance: half of it can be
 * learned. */
static void write_shards(focal_ctx *ctx, const char *path)
{
    const foci_shard_options options = {
        .vocab = TINY_VOCAB, .end = 0, .fingerprint = 7, .shard_tokens = 300};
    foci_shard_writer *writer = NULL;
    assert_status(ctx, foci_shard_writer_open(ctx, path, &options, &writer), FOCAL_OK);
    uint64_t n = 0;
    for (int32_t d = 0; d < DOCUMENTS; d++) {
        const int32_t length = 3 + (int32_t)foci_random_below(5, 1, (uint64_t)d, 40);
        int32_t id = (int32_t)foci_random_below(5, 2, (uint64_t)d, TINY_VOCAB);
        assert_status(ctx, foci_shard_writer_begin(writer), FOCAL_OK);
        for (int32_t i = 0; i < length; i++, n++) {
            assert_status(ctx, foci_shard_writer_put(writer, &id, 1), FOCAL_OK);
            id = foci_random_below(5, 3, n, 8) == 0 ? 3 : (id + 1) % TINY_VOCAB;
        }
    }
    assert_status(ctx, foci_shard_writer_finish(writer, NULL), FOCAL_OK);
}

tiny_run tiny_run_new(focal_ctx *ctx)
{
    tiny_run tiny = {.root = folder_new()};
    (void)snprintf(tiny.shards, sizeof tiny.shards, "%s/shards", tiny.root.path);
    (void)snprintf(tiny.out, sizeof tiny.out, "%s/out", tiny.root.path);
    (void)snprintf(tiny.checkpoints, sizeof tiny.checkpoints, "%s/checkpoints", tiny.out);
    (void)snprintf(tiny.log, sizeof tiny.log, "%s/log.jsonl", tiny.out);
    write_shards(ctx, tiny.shards);
    return tiny;
}

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

void tiny_run_clear(const tiny_run *tiny, const char *path)
{
    assert_int_equal(strncmp(path, tiny->root.path, strlen(tiny->root.path)), 0);
    (void)nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

void tiny_run_free(const tiny_run *tiny)
{
    tiny_run_clear(tiny, tiny->root.path);
}

static void note_step(void *user, const focal_train_step *step)
{
    tiny_watch *w = user;
    w->step = step->step;
    w->step_count++;
    w->last = *step;
    if (w->on_step) w->on_step(w->user);
}

static void note_validation(void *user, const focal_train_validation *found)
{
    tiny_watch *w = user;
    (void)found;
    w->validations++;
}

static void note_sample(void *user, int64_t step, const char *text)
{
    tiny_watch *w = user;
    (void)step;
    (void)text;
    w->samples++;
}

static void note_note(void *user, const char *sentence)
{
    tiny_watch *w = user;
    const size_t used = strlen(w->notes);
    (void)snprintf(w->notes + used, sizeof w->notes - used, "%s\n", sentence);
}

static bool stop_there(void *user)
{
    const tiny_watch *w = user;
    return w->stop_at >= 0 && w->step >= w->stop_at;
}

static focal_status set_all(focal_run *run, const char *sets)
{
    for (const char *at = sets; at && *at;) {
        char one[SET_BYTES];
        const size_t length = strcspn(at, "\n");
        (void)snprintf(one, sizeof one, "%.*s", (int)length, at);
        FOCAL_TRY(focal_run_set(run, one));
        at += length + (at[length] == '\n');
    }
    return FOCAL_OK;
}

/* Settings as "key=value", the last ones as lines. */
typedef struct setting_list {
    const char *const *items;
    size_t count;
    const char *more;
} setting_list;

static focal_status train_with(focal_ctx *ctx, const tiny_run *tiny, const char *path,
                               const setting_list *sets, tiny_watch *watch)
{
    const focal_train_watch told = {.user = watch,
                                    .on_step = note_step,
                                    .on_validation = note_validation,
                                    .on_sample = note_sample,
                                    .on_note = note_note,
                                    .on_warning = note_note,
                                    .must_stop = stop_there};
    char shards[SET_BYTES];
    focal_run *run = NULL;
    FOCAL_TRY(focal_run_new(ctx, &run));
    (void)snprintf(shards, sizeof shards, "data.shards=%s", tiny->shards);
    focal_status status = focal_run_set(run, shards);
    for (size_t n = 0; n < sets->count && status == FOCAL_OK; n++)
        status = focal_run_set(run, sets->items[n]);
    if (status == FOCAL_OK) status = set_all(run, sets->more);
    if (status == FOCAL_OK)
        status =
            focal_train(ctx, run, path, 1.0, watch ? &told : NULL, watch ? &watch->result : NULL);
    focal_run_free(run);
    return status;
}

focal_status tiny_run_train(focal_ctx *ctx, const tiny_run *tiny, const char *path,
                            const char *sets, tiny_watch *watch)
{
    const setting_list all = {settings, FOCAL_COUNT(settings), sets};
    return train_with(ctx, tiny, path, &all, watch);
}

focal_status tiny_run_fit(focal_ctx *ctx, const tiny_run *tiny, const char *path, const char *model,
                          const char *sets, tiny_watch *watch)
{
    char more[MORE_BYTES];
    (void)snprintf(more, sizeof more, "start.from=%s\n%s", model, sets);
    const setting_list all = {fit_settings, FOCAL_COUNT(fit_settings), more};
    return train_with(ctx, tiny, path, &all, watch);
}

int32_t tiny_run_read(const char *out, const char *field, double values[TINY_LOSSES],
                      int64_t *steps)
{
    char path[256], name[64];
    size_t bytes = 0;
    int32_t count = 0;
    (void)snprintf(path, sizeof path, "%s/log.jsonl", out);
    (void)snprintf(name, sizeof name, "\"%s\":", field);
    char *text = read_bytes(path, &bytes);
    char *end = text + bytes;
    for (char *line = text; line < end;) {
        char *next = memchr(line, '\n', (size_t)(end - line));
        assert_non_null(next); /* whole lines only */
        *next = '\0';
        const char *at = strstr(line, name);
        if (at) {
            assert_in_range(count, 0, TINY_LOSSES - 1);
            if (steps) steps[count] = strtoll(line + strlen("{\"step\":"), NULL, 10);
            values[count++] = strtod(at + strlen(name), NULL);
        }
        line = next + 1;
    }
    free(text);
    return count;
}
