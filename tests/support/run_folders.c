/* Run folders of tests, written by plain C library calls. */
#include "support/run_folders.h"

#include "support/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

double run_valid_loss(int64_t step)
{
    return step <= 200 ? 5.0 - 0.5 * (double)(step - 100) / 100.0
                       : 4.5 - 0.25 * (double)(step - 200) / 100.0;
}

void run_root_new(char root[RUN_FOLDER_PATH])
{
    (void)snprintf(root, RUN_FOLDER_PATH, "/tmp/focal-runs-XXXXXX");
    assert_non_null(mkdtemp(root));
}

static FILE *open_file(const char *root, const char *name, const char *file)
{
    char path[3 * RUN_FOLDER_PATH];
    (void)snprintf(path, sizeof path, "%s/%s", root, name);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof path, "%s/%s/%s", root, name, file);
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    return out;
}

void run_file_write(const char *root, const char *name, const char *file, const char *text)
{
    FILE *out = open_file(root, name, file);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static void write_log(const char *root, const run_spec *spec, int64_t steps)
{
    FILE *out = open_file(root, spec->name, "log.jsonl");
    for (int64_t step = 1; step <= steps; step++) {
        const long long tokens = (long long)step * RUN_STEP_TOKENS;
        (void)fprintf(out,
                      "{\"step\":%lld,\"loss\":%.17g,\"norm\":1,\"rate\":0.001,\"tokens\":%lld,"
                      "\"seconds\":%g}\n",
                      (long long)step, 4.0 + spec->offset, tokens, 0.5 * (double)step);
        if (step % RUN_VALID_EVERY != 0) continue;
        (void)fprintf(out,
                      "{\"step\":%lld,\"valid_loss\":%.17g,\"valid_targets\":10,\"tokens\":%lld}\n"
                      "{\"step\":%lld,\"sample\":\"once <i>upon</i>\\n a step %lld\"}\n",
                      (long long)step, run_valid_loss(step) + spec->offset, tokens, (long long)step,
                      (long long)step);
    }
    assert_int_equal(fclose(out), 0);
}

void run_folder_write(const char *root, const run_spec *spec)
{
    char text[1024];
    (void)snprintf(text, sizeof text,
                   "data.shards = shards\nschedule.steps = %d\nseed = %lld\n%s\n", RUN_STEPS,
                   (long long)spec->seed, spec->settings);
    run_file_write(root, spec->name, "run.conf", text);
    write_log(root, spec, spec->is_unfinished ? RUN_STEPS / 2 : RUN_STEPS);
    if (spec->after) run_file_write(root, spec->name, "after.jsonl", spec->after);
    if (spec->is_unfinished) return;
    (void)snprintf(text, sizeof text,
                   "{\"focal\":\"0.1.0\",\"state\":\"finished\",\"parameters\":%.0f,\"steps\":%d,"
                   "\"tokens\":%d,\"loss\":4,\"valid_loss\":%.17g,\"seconds\":200,"
                   "\"tokens_per_second\":2000,\"threads\":2,\"kernel\":\"avx2\"}",
                   spec->parameters > 0.0 ? spec->parameters : 1e6, RUN_STEPS,
                   RUN_STEPS * RUN_STEP_TOKENS, run_valid_loss(RUN_STEPS) + spec->offset);
    run_file_write(root, spec->name, "summary.json", text);
}

/* Hands each entry of a folder to `take`. */
static void for_each(const char *path, void (*take)(const char *inside))
{
    DIR *dir = opendir(path);
    assert_non_null(dir);
    for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        char inside[4 * RUN_FOLDER_PATH];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        (void)snprintf(inside, sizeof inside, "%s/%s", path, entry->d_name);
        take(inside);
    }
    (void)closedir(dir);
}

static void remove_file(const char *path)
{
    assert_int_equal(remove(path), 0);
}

static void remove_run(const char *path)
{
    struct stat there;
    assert_int_equal(lstat(path, &there), 0);
    if (S_ISDIR(there.st_mode)) for_each(path, remove_file);
    assert_int_equal(remove(path), 0);
}

void run_root_remove(const char *root)
{
    for_each(root, remove_run);
    assert_int_equal(rmdir(root), 0);
}
