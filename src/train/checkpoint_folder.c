/* The folder of a run's checkpoints: which files are there, which of them stay, and which is the
 * newest that is whole. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "train/checkpoint.h"

enum { NAME_ROOM = 64, DIGITS_MOST = 18, FILES_MOST = 1 << 20 };

#define STEP_MOST INT64_C(999999999999999999) /* DIGITS_MOST nines */

static const char prefix[] = "step-", ending[] = ".ckpt", part[] = ".part";

typedef struct steps {
    int64_t *list; /* (count) ascending */
    int64_t count, capacity;
} steps;

static void make_name(char name[NAME_ROOM], int64_t step)
{
    (void)snprintf(name, NAME_ROOM, "%s%010" PRId64 "%s", prefix, step, ending);
}

/* The step of a file's name; -1 when it is not what make_name makes. *is_part: with ".part". */
static int64_t step_of(const char *name, bool *is_part)
{
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return -1;
    const char *at = name + sizeof prefix - 1;
    int64_t step = 0;
    for (int digits = 0; *at >= '0' && *at <= '9'; at++, digits++) {
        if (digits == DIGITS_MOST) return -1;
        step = 10 * step + (*at - '0');
    }
    char made[NAME_ROOM];
    make_name(made, step);
    const size_t length = strlen(made);
    if (strncmp(name, made, length) != 0) return -1;
    *is_part = strcmp(name + length, part) == 0;
    return *is_part || name[length] == '\0' ? step : -1;
}

static focal_status add(focal_ctx *ctx, steps *found, int64_t step)
{
    if (found->count == FILES_MOST) return FOCAL_OK; /* more than anybody keeps */
    if (found->count == found->capacity) {
        const int64_t capacity = found->capacity > 0 ? 2 * found->capacity : 64;
        int64_t *grown = foci_alloc(ctx, (size_t)capacity, sizeof *grown);
        if (!grown) return FOCAL_ENOMEM;
        if (found->count > 0) memcpy(grown, found->list, (size_t)found->count * sizeof *grown);
        foci_free(ctx, found->list);
        found->list = grown;
        found->capacity = capacity;
    }
    int64_t at = found->count++; /* few files, and most arrive in order */
    for (; at > 0 && found->list[at - 1] > step; at--) found->list[at] = found->list[at - 1];
    found->list[at] = step;
    return FOCAL_OK;
}

static focal_status remove_file(focal_ctx *ctx, const char *folder, const char *name)
{
    char *path = foci_path_join(ctx, folder, strlen(folder), name);
    if (!path) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    if (unlink(path) != 0 && errno != ENOENT)
        status = foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
    foci_free(ctx, path);
    return status;
}

/* The steps of the folder's checkpoints. With removes_parts, what was not finished goes. The caller
 * frees the list, also on failure. */
static focal_status list_folder(focal_ctx *ctx, const char *folder, bool removes_parts,
                                steps *found)
{
    DIR *dir = opendir(folder);
    if (!dir) return foci_fail(ctx, FOCAL_EIO, "%s: %s", folder, strerror(errno));
    focal_status status = FOCAL_OK;
    for (const struct dirent *entry = readdir(dir); entry && status == FOCAL_OK;
         entry = readdir(dir)) {
        bool is_part = false;
        const int64_t step = step_of(entry->d_name, &is_part);
        if (step < 0) continue;
        if (!is_part)
            status = add(ctx, found, step);
        else if (removes_parts)
            status = remove_file(ctx, folder, entry->d_name);
    }
    (void)closedir(dir);
    return status;
}

/* Removes the checkpoints up to `step` that the policy does not keep. */
static focal_status prune(focal_ctx *ctx, const char *folder, int64_t step, const steps *found,
                          const foci_checkpoint_policy *policy)
{
    int64_t newer = 0; /* of those up to `step`, the new one among them, met so far */
    for (int64_t n = found->count; n-- > 0;) {
        const int64_t old = found->list[n];
        if (old > step) continue;
        const bool is_milestone = policy->keep_every > 0 && old % policy->keep_every == 0;
        if (newer++ < policy->keep || is_milestone) continue;
        char name[NAME_ROOM];
        make_name(name, old);
        FOCAL_TRY(remove_file(ctx, folder, name));
    }
    return FOCAL_OK;
}

focal_status foci_checkpoint_save(focal_ctx *ctx, const char *folder, int64_t step,
                                  const foci_block *blocks, int64_t count,
                                  const foci_checkpoint_policy *policy)
{
    if (policy->keep < 1 || policy->keep_every < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "checkpoint: keep %" PRId64 ", every %" PRId64,
                         policy->keep, policy->keep_every);
    if (step < 0 || step > STEP_MOST)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "checkpoint: step %" PRId64 ", 0 to %" PRId64 " have names", step,
                         STEP_MOST);
    char name[NAME_ROOM];
    make_name(name, step);
    steps found = {0};
    char *path = foci_path_join(ctx, folder, strlen(folder), name);
    focal_status status = path ? list_folder(ctx, folder, true, &found) : FOCAL_ENOMEM;
    bool is_listed = false;
    for (int64_t n = 0; n < found.count; n++) is_listed = is_listed || found.list[n] == step;
    if (status == FOCAL_OK && !is_listed) status = add(ctx, &found, step);
    if (status == FOCAL_OK) status = foci_checkpoint_write(ctx, path, step, blocks, count);
    if (status == FOCAL_OK) status = prune(ctx, folder, step, &found, policy);
    foci_free(ctx, path);
    foci_free(ctx, found.list);
    return status;
}

/* A file under the name of another step would resume a run at the wrong place. */
static focal_status open_step(focal_ctx *ctx, const char *folder, int64_t step,
                              foci_checkpoint **out)
{
    char name[NAME_ROOM];
    make_name(name, step);
    char *path = foci_path_join(ctx, folder, strlen(folder), name);
    if (!path) return FOCAL_ENOMEM;
    focal_status status = foci_checkpoint_open(ctx, path, out);
    if (status == FOCAL_OK && foci_checkpoint_step(*out) != step) {
        status = foci_fail(ctx, FOCAL_EFORMAT, "%s: it is the checkpoint of step %" PRId64, path,
                           foci_checkpoint_step(*out));
        foci_checkpoint_close(*out);
        *out = NULL;
    }
    foci_free(ctx, path);
    return status;
}

focal_status foci_checkpoint_newest(focal_ctx *ctx, const char *folder, foci_checkpoint **out,
                                    char note[FOCI_CHECKPOINT_NOTE])
{
    steps found = {0};
    *out = NULL;
    note[0] = '\0';
    focal_status status = list_folder(ctx, folder, false, &found);
    for (int64_t n = found.count; status == FOCAL_OK && n-- > 0 && !*out;) {
        status = open_step(ctx, folder, found.list[n], out);
        if (status == FOCAL_ENOMEM || status == FOCAL_OK) break;
        if (note[0] == '\0') (void)snprintf(note, FOCI_CHECKPOINT_NOTE, "%s", focal_ctx_error(ctx));
        if (n > 0) status = FOCAL_OK; /* the one before may be whole */
    }
    foci_free(ctx, found.list);
    return status;
}
