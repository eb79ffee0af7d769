/* Settings of a run as programs see them: run files behind the public names. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "train/progress.h"
#include "train/run.h"
#include "train/run_groups.h"
#include "train/start.h"

_Static_assert((int)FOCAL_RUN_VALUE == (int)FOCI_RUN_VALUE, "values fit");
_Static_assert((int)FOCAL_TRAIN_LINE == (int)FOCI_PROGRESS_LINE, "lines fit");

focal_status focal_run_new(focal_ctx *ctx, focal_run **out)
{
    *out = foci_alloc(ctx, 1, sizeof **out);
    if (!*out) return FOCAL_ENOMEM;
    (*out)->ctx = ctx;
    foci_run_init(&(*out)->settings);
    return FOCAL_OK;
}

void focal_run_free(focal_run *run)
{
    if (run) foci_free(run->ctx, run);
}

focal_status focal_run_read(focal_run *run, const char *path)
{
    return foci_run_read(run->ctx, path, &run->settings);
}

focal_status focal_run_set(focal_run *run, const char *assignment)
{
    return foci_run_set(run->ctx, assignment, &run->settings);
}

focal_status focal_run_resolve(focal_run *run)
{
    return foci_run_resolve(run->ctx, &run->settings);
}

focal_status focal_run_check_model(focal_run *run, focal_model *model)
{
    return foci_start_check(run->ctx, &run->settings, model);
}

focal_status focal_run_write(const focal_run *run, const char *path)
{
    return foci_run_write(run->ctx, path, &run->settings);
}

focal_status focal_run_get(const focal_run *run, const char *key, char out[FOCAL_RUN_VALUE])
{
    const foci_text name = foci_text_of(key);
    const int n = foci_run_find(name);
    if (n < 0)
        return foci_fail(run->ctx, FOCAL_EINVAL,
                         "run: there is no key '%.64s', the nearest is '%s'", key,
                         foci_run_keys[foci_run_nearest(name)].name);
    foci_run_value(&run->settings, n, out);
    return FOCAL_OK;
}

bool focal_run_uses(const focal_run *run, const char *key)
{
    return foci_run_uses(&run->settings, key);
}

int32_t focal_run_key_count(void)
{
    return FOCI_RUN_KEYS;
}

void focal_run_key_help(int32_t key, char out[FOCAL_RUN_VALUE])
{
    out[0] = '\0';
    if (key >= 0 && key < FOCI_RUN_KEYS) foci_run_help(&foci_run_keys[key], out);
}

void focal_train_line(const focal_train_step *step, char out[FOCAL_TRAIN_LINE])
{
    const foci_progress progress = {.step = step->step,
                                    .steps = step->steps,
                                    .loss = step->loss,
                                    .tokens_per_second = step->tokens_per_second,
                                    .peak_share = step->peak_share,
                                    .seconds_left = step->seconds_left,
                                    .has_kl = step->has_kl,
                                    .has_groups = step->has_groups,
                                    .kl = step->kl,
                                    .has_kept = step->has_kept,
                                    .kept = step->kept,
                                    .largest_group = step->largest_group};
    foci_progress_text(&progress, out);
}
