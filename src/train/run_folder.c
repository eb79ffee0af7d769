/* The folder of a run. */
#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"

enum { SHOWN = 80, SUMMARY_BYTES = 1024, NUMBER_BYTES = 40 };

static focal_status make_directory(focal_ctx *ctx, const char *path)
{
    if (mkdir(path, 0777) == 0 || errno == EEXIST) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
}

static focal_status name_parts(foci_run_folder *f, const char *path)
{
    const struct {
        char **to;
        const char *name;
    } parts[] = {
        {&f->run_conf, "run.conf"},
        {&f->log, "log.jsonl"},
        {&f->events, "events"},
        {&f->checkpoints, "checkpoints"},
        {&f->model, "model"},
        {&f->adapter, "adapter"},
        {&f->adapter_config, "adapter_config.json"},
        {&f->summary, "summary.json"},
    };
    const size_t bytes = strlen(path);
    f->path = foci_alloc(f->ctx, bytes + 1, 1);
    if (!f->path) return FOCAL_ENOMEM;
    memcpy(f->path, path, bytes + 1);
    for (size_t n = 0; n < FOCAL_COUNT(parts); n++) {
        *parts[n].to = foci_path_join(f->ctx, path, bytes, parts[n].name);
        if (!*parts[n].to) return FOCAL_ENOMEM;
    }
    return FOCAL_OK;
}

/* A lock of the system's: it goes with the process, however that ends. */
static focal_status take_lock(foci_run_folder *f)
{
    char *path = foci_path_join(f->ctx, f->path, strlen(f->path), "lock");
    if (!path) return FOCAL_ENOMEM;
    focal_status status = FOCAL_OK;
    f->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (f->lock < 0)
        status = foci_fail(f->ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
    else if (flock(f->lock, LOCK_EX | LOCK_NB) != 0)
        status = errno == EWOULDBLOCK
                     ? foci_fail(f->ctx, FOCAL_EINVAL, "%s: another process trains in this folder",
                                 f->path)
                     : foci_fail(f->ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
    foci_free(f->ctx, path);
    return status;
}

/* A folder that no run has settled holds nothing that a run would write over: what is there is
 * somebody's, perhaps the very model that this run begins with. */
static focal_status check_foreign(const foci_run_folder *f)
{
    const char *const results[] = {f->model, f->adapter, f->adapter_config, f->log, f->summary};
    if (access(f->run_conf, F_OK) == 0) return FOCAL_OK;
    for (size_t n = 0; n < FOCAL_COUNT(results); n++)
        if (access(results[n], F_OK) == 0)
            return foci_fail(f->ctx, FOCAL_EINVAL,
                             "%s: is there already, without the run.conf of a run that made it: "
                             "take another folder",
                             results[n]);
    return FOCAL_OK;
}

focal_status foci_run_folder_open(focal_ctx *ctx, const char *path, foci_run_folder *folder)
{
    *folder = (foci_run_folder){.ctx = ctx, .lock = -1};
    focal_status status = name_parts(folder, path);
    if (status == FOCAL_OK) status = check_foreign(folder);
    if (status == FOCAL_OK) status = make_directory(ctx, path);
    if (status == FOCAL_OK) status = take_lock(folder);
    if (status == FOCAL_OK) status = make_directory(ctx, folder->events);
    if (status == FOCAL_OK) status = make_directory(ctx, folder->checkpoints);
    if (status != FOCAL_OK) foci_run_folder_close(folder);
    return status;
}

void foci_run_folder_close(foci_run_folder *folder)
{
    if (!folder->ctx) return;
    char *const texts[] = {folder->path,    folder->run_conf,       folder->log,
                           folder->events,  folder->checkpoints,    folder->model,
                           folder->adapter, folder->adapter_config, folder->summary};
    if (folder->lock >= 0) (void)close(folder->lock);
    for (size_t n = 0; n < FOCAL_COUNT(texts); n++) foci_free(folder->ctx, texts[n]);
    *folder = (foci_run_folder){0};
}

/* What may differ when a run goes on: none of these changes a step that was done, and the shards
 * are compared with those of the checkpoint by what they hold. */
static bool may_differ(const char *key)
{
    static const char *const free_keys[] = {
        "data.shards",           "checkpoint.every", "checkpoint.keep",
        "checkpoint.keep_every", "samples.every",    "samples.prompt",
        "samples.tokens",        "on_spike",         "spike_threshold"};
    for (size_t n = 0; n < FOCAL_COUNT(free_keys); n++)
        if (strcmp(key, free_keys[n]) == 0) return true;
    return false;
}

/* Whether key n has another value than before. */
static bool differs(const foci_run *run, const foci_run *old, int n)
{
    char value[FOCI_RUN_VALUE], before[FOCI_RUN_VALUE];
    foci_run_value(run, n, value);
    foci_run_value(old, n, before);
    return strcmp(value, before) != 0;
}

/* The first key that differs and must not; -1: none. What was set is named before what follows from
 * it. */
static int find_difference(const foci_run *run, const foci_run *old)
{
    int found = -1;
    for (int n = FOCI_RUN_KEYS; n-- > 0;) {
        if (!differs(run, old, n) || may_differ(foci_run_keys[n].name)) continue;
        if (found < 0 || run->is_given[n] || !run->is_given[found]) found = n;
    }
    return found;
}

static focal_status compare(const foci_run_folder *folder, const foci_run *run, const foci_run *old)
{
    char value[FOCI_RUN_VALUE], before[FOCI_RUN_VALUE];
    const int n = find_difference(run, old);
    if (n < 0) return FOCAL_OK;
    foci_run_value(run, n, value);
    foci_run_value(old, n, before);
    return foci_fail(folder->ctx, FOCAL_EINVAL,
                     "%.200s: there is a run with '%s' = %.*s, this one has %.*s: take another "
                     "folder",
                     folder->path, foci_run_keys[n].name, SHOWN, before, SHOWN, value);
}

static bool is_empty_folder(const char *path)
{
    DIR *stream = opendir(path);
    if (!stream) return true;
    const struct dirent *file = readdir(stream);
    while (file && (strcmp(file->d_name, ".") == 0 || strcmp(file->d_name, "..") == 0))
        file = readdir(stream);
    (void)closedir(stream);
    return !file;
}

/* Whether a step was taken in the folder: before that, its settings bind nobody. */
static bool has_begun(const foci_run_folder *folder)
{
    struct stat log;
    return (stat(folder->log, &log) == 0 && log.st_size > 0) ||
           !is_empty_folder(folder->checkpoints);
}

focal_status foci_run_folder_compare(const foci_run_folder *folder, const foci_run *run,
                                     bool *is_changed)
{
    *is_changed = true;
    if (access(folder->run_conf, F_OK) != 0 || !has_begun(folder)) return FOCAL_OK;
    foci_run *old = foci_alloc(folder->ctx, 1, sizeof *old);
    if (!old) return FOCAL_ENOMEM;
    foci_run_init(old);
    focal_status status = foci_run_read(folder->ctx, folder->run_conf, old);
    if (status == FOCAL_OK) status = compare(folder, run, old);
    if (status == FOCAL_OK) {
        *is_changed = false;
        for (int n = 0; n < FOCI_RUN_KEYS; n++) *is_changed |= differs(run, old, n);
    }
    foci_free(folder->ctx, old);
    return status;
}

/* JSON has no word for what is no number. */
static void print_number(double value, char out[NUMBER_BYTES])
{
    (void)snprintf(out, NUMBER_BYTES, isfinite(value) ? "%.9g" : "null", value);
}

/* The fastest instructions that operations may use, or the kernel that is pinned. */
static const char *kernel_of(const focal_ctx *ctx)
{
    const char *features = focal_ctx_features(ctx), *last = strrchr(features, ' ');
    if (focal_ctx_kernel(ctx)) return focal_ctx_kernel(ctx);
    if (features[0] == '\0') return "ref";
    return last ? last + 1 : features;
}

focal_status foci_run_folder_summarise(const foci_run_folder *folder,
                                       const foci_run_summary *summary)
{
    const focal_train_result *r = &summary->result;
    char loss[NUMBER_BYTES], valid[NUMBER_BYTES], seconds[NUMBER_BYTES], rate[NUMBER_BYTES];
    char kl[NUMBER_BYTES + 16] = "";
    char text[SUMMARY_BYTES];
    print_number(r->loss, loss);
    print_number(r->valid_loss, valid);
    if (isfinite(r->valid_kl)) (void)snprintf(kl, sizeof kl, ",\"valid_kl\":%.9g", r->valid_kl);
    print_number(r->seconds, seconds);
    print_number(summary->tokens_per_second, rate);
    const int bytes = snprintf(
        text, sizeof text,
        "{\"focal\":\"%d.%d.%d\",\"state\":\"%s\",\"parameters\":%lld,\"steps\":%lld,\"tokens\":"
        "%lld,\"loss\":%s,\"valid_loss\":%s%s,\"seconds\":%s,\"tokens_per_second\":%s,\"threads\":"
        "%d,\"kernel\":\"%s\"}\n",
        FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR, FOCAL_VERSION_PATCH, summary->state,
        (long long)r->parameter_count, (long long)r->step, (long long)r->tokens, loss, valid, kl,
        seconds, rate, focal_ctx_threads(folder->ctx), kernel_of(folder->ctx));
    foci_writer *writer = NULL;
    FOCAL_TRY(foci_writer_open(folder->ctx, folder->summary, &writer));
    foci_writer_put(writer, text, (size_t)bytes);
    return foci_writer_commit(writer);
}

bool foci_run_folder_has_summary(const foci_run_folder *folder)
{
    return access(folder->summary, F_OK) == 0;
}

void foci_run_folder_forget(const foci_run_folder *folder)
{
    (void)unlink(folder->summary);
}
