/* Finding run folders: those that are named, and those inside of folders that are named. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "report/runs_group.h"

enum { ENTRY = 256 }; /* bytes of a name in a folder with its NUL */

/* Names of the run folders in a folder, in the order of the alphabet. */
typedef struct entries {
    int32_t count;
    bool is_full;
    char (*name)[ENTRY];
} entries;

/* Whether a folder has a file of that name in it. */
static bool has_file(const char *folder, const char *inside, const char *name)
{
    char path[4096];
    struct stat there;
    const int length =
        snprintf(path, sizeof path, "%s/%s%s%s", folder, inside, *inside ? "/" : "", name);
    return length > 0 && (size_t)length < sizeof path && stat(path, &there) == 0;
}

static void add_entry(entries *e, const char *name)
{
    if (e->count == FOCAL_REPORT_MAX_RUNS) {
        e->is_full = true;
        return;
    }
    int32_t at = e->count++;
    for (; at > 0 && strcmp(e->name[at - 1], name) > 0; at--)
        memcpy(e->name[at], e->name[at - 1], ENTRY);
    (void)snprintf(e->name[at], ENTRY, "%s", name);
}

static void list_runs(const char *folder, entries *e)
{
    DIR *dir = opendir(folder);
    if (!dir) return;
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        if (entry->d_name[0] == '.' || strlen(entry->d_name) >= ENTRY) continue;
        if (has_file(folder, entry->d_name, "run.conf") ||
            has_file(folder, entry->d_name, "log.jsonl"))
            add_entry(e, entry->d_name);
    }
    (void)closedir(dir);
}

/* A folder that is named twice, or once by itself and once in a sweep, is read once. */
static bool is_known(const foci_runs *runs, const char *path)
{
    struct stat a, b;
    if (stat(path, &a) != 0) return false;
    for (int32_t n = 0; n < runs->run_count; n++)
        if (stat(runs->runs[n]->path, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return true;
    return false;
}

static focal_status add_run(foci_runs *runs, const char *path)
{
    if (is_known(runs, path)) return FOCAL_OK;
    if (runs->run_count == FOCAL_REPORT_MAX_RUNS)
        return foci_fail(runs->ctx, FOCAL_EINVAL, "report: more than %d runs",
                         FOCAL_REPORT_MAX_RUNS);
    foci_run_folder *run = NULL;
    FOCAL_TRY(foci_run_folder_read(runs->ctx, path, &runs->notes, &run));
    if (run) runs->runs[runs->run_count++] = run;
    return FOCAL_OK;
}

static focal_status add_folder(foci_runs *runs, const char *folder, entries *e)
{
    if (has_file(folder, "", "run.conf")) return add_run(runs, folder);
    e->count = 0;
    list_runs(folder, e);
    if (e->is_full)
        return foci_fail(runs->ctx, FOCAL_EINVAL, "report: %s holds more than %d runs", folder,
                         FOCAL_REPORT_MAX_RUNS);
    if (e->count == 0)
        foci_note(&runs->notes, "%s is neither a run's folder nor a folder of them", folder);
    for (int32_t n = 0; n < e->count; n++) {
        char *path = foci_path_join(runs->ctx, folder, strlen(folder), e->name[n]);
        if (!path) return FOCAL_ENOMEM;
        const focal_status status = add_run(runs, path);
        foci_free(runs->ctx, path);
        FOCAL_TRY(status);
    }
    return FOCAL_OK;
}

static focal_status read_all(foci_runs *runs, const focal_report_runs_args *args)
{
    entries e = {.name = foci_alloc(runs->ctx, FOCAL_REPORT_MAX_RUNS, sizeof *e.name)};
    focal_status status = e.name ? FOCAL_OK : FOCAL_ENOMEM;
    for (int32_t n = 0; status == FOCAL_OK && n < args->folder_count; n++)
        status = add_folder(runs, args->folders[n], &e);
    foci_free(runs->ctx, e.name);
    if (status == FOCAL_OK && runs->run_count == 0)
        status = foci_fail(runs->ctx, FOCAL_EINVAL, "report: no run to read: %s",
                           runs->notes.count > 0 ? runs->notes.text[0] : "no folder was named");
    return status;
}

focal_status foci_runs_open(focal_ctx *ctx, const focal_report_runs_args *args, foci_runs **out)
{
    *out = NULL;
    foci_runs *runs = foci_alloc(ctx, 1, sizeof *runs);
    if (!runs) return FOCAL_ENOMEM;
    memset(runs, 0, sizeof *runs);
    runs->ctx = ctx;
    runs->runs = foci_alloc(ctx, FOCAL_REPORT_MAX_RUNS, sizeof(foci_run_folder *));
    runs->notes.text = foci_alloc(ctx, FOCI_RUNS_NOTES, sizeof *runs->notes.text);
    focal_status status = runs->runs && runs->notes.text ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = read_all(runs, args);
    if (status == FOCAL_OK) status = foci_runs_group(runs, args);
    if (status == FOCAL_OK) status = foci_runs_compare(runs);
    if (status == FOCAL_OK)
        *out = runs;
    else
        foci_runs_free(runs);
    return status;
}

void foci_runs_free(foci_runs *runs)
{
    if (!runs) return;
    for (int32_t n = 0; runs->runs && n < runs->run_count; n++)
        foci_run_folder_free(runs->ctx, runs->runs[n]);
    foci_free(runs->ctx, (void *)runs->runs);
    foci_free(runs->ctx, runs->order);
    foci_free(runs->ctx, runs->arms);
    foci_free(runs->ctx, runs->notes.text);
    foci_free(runs->ctx, runs);
}
