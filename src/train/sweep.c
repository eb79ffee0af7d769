/* A sweep: its file, what the caller adds, and the runs that come of both. */
#include "focal/sweep.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "train/run_line.h"
#include "train/sweep_file.h"
#include "train/sweep_state.h"

static focal_status read_base(focal_sweep *sweep)
{
    const foci_text name = sweep->file.base;
    foci_run_init(&sweep->base);
    if (name.bytes == 0) return FOCAL_OK;
    const char *slash = strrchr(sweep->path, '/');
    const size_t folder_bytes = slash ? (size_t)(slash - sweep->path) : 0;
    char path[FOCI_SWEEP_PATH];
    const bool is_whole = name.data[0] == '/' || !slash;
    const int bytes = is_whole ? snprintf(path, sizeof path, "%.*s", (int)name.bytes, name.data)
                               : snprintf(path, sizeof path, "%.*s/%.*s", (int)folder_bytes,
                                          sweep->path, (int)name.bytes, name.data);
    if (bytes < 0 || (size_t)bytes >= sizeof path)
        return foci_fail(sweep->ctx, FOCAL_EFORMAT, "%s: the name of its base is too long",
                         sweep->path);
    return foci_run_read(sweep->ctx, path, &sweep->base);
}

static focal_status open_sweep(focal_sweep *sweep, const char *path)
{
    size_t bytes = 0;
    if (snprintf(sweep->path, sizeof sweep->path, "%s", path) >= (int)sizeof sweep->path)
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "sweep: the file's name is too long");
    FOCAL_TRY(foci_read_file(sweep->ctx, path, FOCI_RUN_FILE_BYTES, &sweep->text, &bytes));
    FOCAL_TRY(foci_sweep_parse(sweep->ctx, path, (foci_text){sweep->text, bytes}, &sweep->file));
    (void)snprintf(sweep->baseline, sizeof sweep->baseline, "%.*s", (int)sweep->file.baseline.bytes,
                   sweep->file.baseline.data ? sweep->file.baseline.data : "");
    for (int32_t n = 0; n < sweep->file.input_count; n++) {
        foci_sweep_given *given = &sweep->given[n];
        const foci_sweep_input *input = &sweep->file.inputs[n];
        (void)snprintf(given->name, sizeof given->name, "%.*s", (int)input->name.bytes,
                       input->name.data);
        (void)snprintf(given->about, sizeof given->about, "%.*s", (int)input->about.bytes,
                       input->about.data);
    }
    return read_base(sweep);
}

focal_status focal_sweep_open(focal_ctx *ctx, const char *path, focal_sweep **out)
{
    *out = NULL;
    focal_sweep *sweep = foci_alloc(ctx, 1, sizeof *sweep);
    if (!sweep) return FOCAL_ENOMEM;
    memset(sweep, 0, sizeof *sweep);
    sweep->ctx = ctx;
    const focal_status status = open_sweep(sweep, path);
    if (status == FOCAL_OK)
        *out = sweep;
    else
        focal_sweep_free(sweep);
    return status;
}

void focal_sweep_free(focal_sweep *sweep)
{
    if (!sweep) return;
    focal_ctx *ctx = sweep->ctx;
    foci_free(ctx, sweep->text);
    foci_free(ctx, sweep);
}

focal_status focal_sweep_set(focal_sweep *sweep, const char *assignment)
{
    foci_run scratch;
    foci_text name, value;
    foci_run_init(&scratch);
    FOCAL_TRY(foci_run_set(sweep->ctx, assignment, &scratch));
    (void)foci_line_cut(foci_text_of(assignment), '=', &name, &value);
    if (foci_sweep_varies(&sweep->file, foci_run_find(name)))
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "--set: '%.*s' is what the sweep varies",
                         (int)name.bytes, name.data);
    if (sweep->set_count == FOCI_SWEEP_SETS)
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "--set: more than %d settings", FOCI_SWEEP_SETS);
    sweep->sets[sweep->set_count++] = assignment;
    return FOCAL_OK;
}

focal_status focal_sweep_give(focal_sweep *sweep, const char *assignment)
{
    foci_text name = foci_text_of(assignment);
    const char *equals = strchr(assignment, '=');
    if (!equals || equals[1] == '\0')
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "--input: NAME=PATH, not '%.64s'", assignment);
    name.bytes = (size_t)(equals - assignment);
    const foci_text path = foci_text_of(equals + 1);
    for (int32_t n = 0; n < sweep->file.input_count; n++) {
        if (!foci_text_equal(name, sweep->file.inputs[n].name)) continue;
        if (path.bytes >= sizeof sweep->given[n].path)
            return foci_fail(sweep->ctx, FOCAL_EINVAL, "--input: the path is too long");
        memcpy(sweep->given[n].path, path.data, path.bytes + 1);
        return FOCAL_OK;
    }
    return foci_fail(sweep->ctx, FOCAL_EINVAL, "--input: %s has no input '%.*s'%s%s", sweep->path,
                     (int)(name.bytes < 64 ? name.bytes : 64), name.data,
                     sweep->file.input_count > 0 ? ", its first is " : "", sweep->given[0].name);
}

bool focal_sweep_input_at(const focal_sweep *sweep, int32_t n, focal_sweep_input *input)
{
    if (n < 0 || n >= sweep->file.input_count) return false;
    const foci_sweep_given *given = &sweep->given[n];
    *input = (focal_sweep_input){given->name, given->about, given->path[0] ? given->path : NULL};
    return true;
}

/* The names in a run's texts, {data} and inputs, filled in. */
static focal_status fill_texts(focal_sweep *sweep, foci_run *run)
{
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        if (foci_run_keys[n].type != FOCI_RUN_STRING) continue;
        char *field = (char *)run + foci_run_keys[n].offset;
        char filled[FOCI_SWEEP_PATH];
        /* A prompt is a text of its own, where braces may mean anything. */
        if (field != run->samples.prompt)
            FOCAL_TRY(
                foci_sweep_check_text(sweep, foci_run_keys[n].name, foci_text_of(field), NULL));
        FOCAL_TRY(foci_sweep_fill(sweep, foci_text_of(field), NULL, filled));
        const size_t bytes = strlen(filled);
        if (bytes >= FOCI_RUN_TEXT)
            return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: '%s' is longer than %d bytes",
                             sweep->path, foci_run_keys[n].name, FOCI_RUN_TEXT - 1);
        memset(field, 0, FOCI_RUN_TEXT);
        memcpy(field, filled, bytes + 1);
    }
    return FOCAL_OK;
}

focal_status foci_sweep_make_run(focal_sweep *sweep, int32_t n, foci_run *run)
{
    if (n < 0 || n >= sweep->run_count)
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "sweep: run %d of %d", n, sweep->run_count);
    *run = sweep->base;
    foci_sweep_apply(&sweep->file, n, run);
    for (int32_t i = 0; i < sweep->set_count; i++)
        FOCAL_TRY(foci_run_set(sweep->ctx, sweep->sets[i], run));
    FOCAL_TRY(fill_texts(sweep, run));
    return foci_run_resolve(sweep->ctx, run);
}

focal_status focal_sweep_plan(focal_sweep *sweep, const char *folder)
{
    if (snprintf(sweep->folder, FOCI_SWEEP_FOLDER, "%s", folder) >= FOCI_SWEEP_FOLDER)
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "sweep: the folder's name is too long");
    const int64_t count = foci_sweep_count(&sweep->file, FOCAL_SWEEP_RUNS);
    if (count < 0)
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: more than %d runs", sweep->path,
                         FOCAL_SWEEP_RUNS);
    sweep->run_count = (int32_t)count;
    return foci_sweep_check(sweep);
}

int32_t focal_sweep_run_count(const focal_sweep *sweep)
{
    return sweep->run_count;
}

const char *focal_sweep_baseline(const focal_sweep *sweep)
{
    return sweep->baseline;
}

focal_status focal_sweep_run_at(focal_sweep *sweep, int32_t n, focal_sweep_run *out)
{
    FOCAL_TRY(foci_sweep_make_run(sweep, n, &sweep->run));
    *out = (focal_sweep_run){0};
    (void)foci_sweep_name(&sweep->file, n, out->name, sizeof out->name);
    size_t used = 0;
    for (int key = 0; key < FOCI_RUN_KEYS; key++) {
        if (!foci_sweep_varies(&sweep->file, key)) continue;
        char value[FOCI_RUN_VALUE];
        foci_run_value(&sweep->run, key, value);
        const int added = snprintf(out->difference + used, sizeof out->difference - used, "%s%s=%s",
                                   used > 0 ? " " : "", foci_run_keys[key].name, value);
        if (added < 0 || (size_t)added >= sizeof out->difference - used) break;
        used += (size_t)added;
    }
    out->tokens = sweep->run.schedule.steps * sweep->run.data.batch * sweep->run.data.length;
    return FOCAL_OK;
}
