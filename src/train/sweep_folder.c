/* The runs of a sweep in its folder. */
#include <stdio.h>

#include "base/error.h"
#include "train/run_folder.h"
#include "train/sweep_state.h"

/* Run n as `focal train` would settle it, in sweep->run. */
static focal_status settle_run(focal_sweep *sweep, int32_t n)
{
    FOCAL_TRY(foci_sweep_make_run(sweep, n, &sweep->run));
    foci_run_make_paths_whole(&sweep->run);
    return FOCAL_OK;
}

focal_status focal_sweep_run_write(focal_sweep *sweep, int32_t n, const char *path)
{
    FOCAL_TRY(settle_run(sweep, n));
    return foci_run_write(sweep->ctx, path, &sweep->run);
}

focal_status focal_sweep_run_check(focal_sweep *sweep, int32_t n)
{
    enum { BYTES = FOCI_SWEEP_FOLDER + FOCAL_SWEEP_NAME + 16 };
    char name[FOCAL_SWEEP_NAME], path[BYTES], run_conf[BYTES], log[BYTES], checkpoints[BYTES];
    bool is_changed = false;
    FOCAL_TRY(settle_run(sweep, n));
    (void)foci_sweep_name(&sweep->file, n, name, sizeof name);
    (void)snprintf(path, BYTES, "%s/%s", sweep->folder, name);
    (void)snprintf(run_conf, BYTES, "%s/%s/run.conf", sweep->folder, name);
    (void)snprintf(log, BYTES, "%s/%s/log.jsonl", sweep->folder, name);
    (void)snprintf(checkpoints, BYTES, "%s/%s/checkpoints", sweep->folder, name);
    /* Not opened: that would make what is missing of it. */
    const foci_run_folder folder = {.ctx = sweep->ctx,
                                    .path = path,
                                    .run_conf = run_conf,
                                    .log = log,
                                    .checkpoints = checkpoints,
                                    .lock = -1};
    return foci_run_folder_compare(&folder, &sweep->run, &is_changed);
}
