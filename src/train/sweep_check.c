/* A plan as a whole: what would be found out only when hours of it are done is refused here. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"
#include "train/run_line.h"
#include "train/run_value.h"
#include "train/sweep_state.h"

enum { SHOWN = 64 };

/* Two runs of one name would share a folder. */
static focal_status check_names(focal_sweep *sweep)
{
    static const char *const taken[] = {"data", "settings"};
    const size_t count = (size_t)sweep->run_count;
    char(*texts)[FOCAL_SWEEP_NAME] = foci_alloc(sweep->ctx, count, sizeof *texts);
    foci_name *names = foci_alloc(sweep->ctx, count, sizeof *names);
    focal_status status = texts && names ? FOCAL_OK : FOCAL_ENOMEM;
    for (int32_t n = 0; status == FOCAL_OK && n < sweep->run_count; n++) {
        if (!foci_sweep_name(&sweep->file, n, texts[n], sizeof texts[n])) {
            status = foci_fail(sweep->ctx, FOCAL_EINVAL,
                               "%s: the name of run %d is longer than %d bytes", sweep->path, n + 1,
                               FOCAL_SWEEP_NAME - 1);
            break;
        }
        names[n] = (foci_name){foci_text_of(texts[n]), n};
        for (size_t i = 0; i < FOCAL_COUNT(taken); i++)
            if (strcmp(texts[n], taken[i]) == 0)
                status = foci_fail(sweep->ctx, FOCAL_EINVAL,
                                   "%s: a run cannot be called '%s': the sweep has such a folder",
                                   sweep->path, taken[i]);
    }
    if (status == FOCAL_OK) {
        foci_names_sort(names, sweep->run_count);
        const foci_name *twice = foci_names_repeated(names, sweep->run_count);
        if (twice)
            status = foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: two runs are called '%.*s'",
                               sweep->path, (int)twice->text.bytes, twice->text.data);
    }
    foci_free(sweep->ctx, names);
    foci_free(sweep->ctx, texts);
    return status;
}

/* Run n is made, with its name before what is wrong with it. */
static focal_status check_run(focal_sweep *sweep, int32_t n)
{
    char name[FOCAL_SWEEP_NAME], sentence[1024];
    focal_status status = foci_sweep_make_run(sweep, n, &sweep->run);
    if (status == FOCAL_OK) status = foci_run_check_data(sweep->ctx, &sweep->run);
    if (status == FOCAL_OK) return FOCAL_OK;
    (void)snprintf(sentence, sizeof sentence, "%s", focal_ctx_error(sweep->ctx));
    (void)foci_sweep_name(&sweep->file, n, name, sizeof name);
    return foci_fail(sweep->ctx, status, "%s: %s: %s", sweep->path, name, sentence);
}

/* Checks the runs one by one; their values of all keys that vary come behind one another, those of
 * run n before ends[n]. */
static focal_status check_runs(focal_sweep *sweep, focal_buffer *values, size_t *ends)
{
    bool varies[FOCI_RUN_KEYS];
    for (int key = 0; key < FOCI_RUN_KEYS; key++)
        varies[key] = foci_sweep_varies(&sweep->file, key);
    for (int32_t n = 0; n < sweep->run_count; n++) {
        FOCAL_TRY(check_run(sweep, n));
        for (int key = 0; key < FOCI_RUN_KEYS; key++) {
            char value[FOCI_RUN_VALUE];
            if (!varies[key]) continue;
            foci_run_value(&sweep->run, key, value);
            FOCAL_TRY(foci_buffer_put(sweep->ctx, values, value, strlen(value) + 1));
        }
        ends[n] = values->bytes;
    }
    return FOCAL_OK;
}

static focal_status tell_twins(focal_sweep *sweep, int32_t a, int32_t b)
{
    focal_sweep_run first, second;
    FOCAL_TRY(focal_sweep_run_at(sweep, a < b ? a : b, &first));
    FOCAL_TRY(focal_sweep_run_at(sweep, a < b ? b : a, &second));
    return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: %s and %s are the same run%s%s", sweep->path,
                     first.name, second.name, first.difference[0] ? ": " : "", first.difference);
}

/* Values that are written in two ways, 1 and 1.0, would be trained twice. */
static focal_status check_twins(focal_sweep *sweep)
{
    focal_ctx *ctx = sweep->ctx;
    const size_t count = (size_t)sweep->run_count;
    focal_buffer values = {0};
    size_t *ends = foci_alloc(ctx, count, sizeof *ends);
    foci_name *names = foci_alloc(ctx, count, sizeof *names);
    focal_status status = ends && names ? check_runs(sweep, &values, ends) : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        for (size_t n = 0, begin = 0; n < count; begin = ends[n++])
            names[n] = (foci_name){{values.data + begin, ends[n] - begin}, (int64_t)n};
        foci_names_sort(names, sweep->run_count);
        const foci_name *twin = foci_names_repeated(names, sweep->run_count);
        if (twin) status = tell_twins(sweep, (int32_t)twin[-1].index, (int32_t)twin->index);
    }
    focal_buffer_free(ctx, &values);
    foci_free(ctx, names);
    foci_free(ctx, ends);
    return status;
}

static focal_status check_baseline_value(focal_sweep *sweep, foci_text name, foci_text value)
{
    char problem[FOCI_RUN_PROBLEM], wanted[FOCI_RUN_VALUE], own[FOCI_RUN_VALUE] = "";
    const int key = foci_run_find(name);
    if (key < 0)
        return foci_fail(sweep->ctx, FOCAL_EINVAL,
                         "%s: baseline: there is no key '%.*s', the nearest is '%s'", sweep->path,
                         (int)name.bytes, name.data, foci_run_keys[foci_run_nearest(name)].name);
    if (!foci_run_value_read(&foci_run_keys[key], value, &sweep->run, problem))
        return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: baseline: %s", sweep->path, problem);
    foci_run_value(&sweep->run, key, wanted); /* as it is written: 1 for 1.0 */
    for (int32_t n = sweep->run_count; n-- > 0;) {
        FOCAL_TRY(foci_sweep_make_run(sweep, n, &sweep->run));
        foci_run_value(&sweep->run, key, own);
        if (strcmp(own, wanted) == 0) return FOCAL_OK;
    }
    return foci_fail(sweep->ctx, FOCAL_EINVAL,
                     "%s: baseline: no run has %s=%.*s, the first has %.*s", sweep->path,
                     foci_run_keys[key].name, SHOWN, wanted, SHOWN, own);
}

/* A key=value that a run has, or the beginning of a run's name. */
static focal_status check_baseline(focal_sweep *sweep)
{
    const char *baseline = sweep->baseline;
    const size_t bytes = strlen(baseline);
    foci_text name, value;
    if (bytes == 0) return FOCAL_OK;
    if (foci_line_cut(foci_text_of(baseline), '=', &name, &value))
        return check_baseline_value(sweep, name, value);
    for (int32_t n = 0; n < sweep->run_count; n++) {
        char own[FOCAL_SWEEP_NAME];
        (void)foci_sweep_name(&sweep->file, n, own, sizeof own);
        if (strncmp(own, baseline, bytes) == 0 && (own[bytes] == '\0' || own[bytes] == '-'))
            return FOCAL_OK;
    }
    return foci_fail(sweep->ctx, FOCAL_EINVAL, "%s: baseline: no run is called '%s'", sweep->path,
                     baseline);
}

/* Names are those of every run, so one run's commands stand for all. */
static focal_status check_commands(focal_sweep *sweep, focal_sweep_when when)
{
    focal_sweep_command command = {0};
    focal_status status = FOCAL_OK;
    bool is_there = true;
    for (int32_t n = 0; status == FOCAL_OK && is_there; n++)
        status = focal_sweep_command_at(sweep, when, n, 0, &command, &is_there);
    focal_buffer_free(sweep->ctx, &command.words);
    return status;
}

focal_status foci_sweep_check(focal_sweep *sweep)
{
    FOCAL_TRY(check_names(sweep));
    FOCAL_TRY(check_twins(sweep)); /* and the runs themselves */
    FOCAL_TRY(check_baseline(sweep));
    FOCAL_TRY(check_commands(sweep, FOCAL_SWEEP_PREPARE));
    return check_commands(sweep, FOCAL_SWEEP_AFTER);
}
