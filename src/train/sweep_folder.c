/* The runs of a sweep in its folder. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "train/sweep_state.h"

/* As a run keeps it, so that the two can be compared. What is not there yet stays as it is. */
static void make_absolute(char path[FOCI_RUN_TEXT])
{
    char *whole = path[0] != '\0' ? realpath(path, NULL) : NULL;
    if (whole && strlen(whole) < FOCI_RUN_TEXT) {
        memset(path, 0, FOCI_RUN_TEXT);
        memcpy(path, whole, strlen(whole));
    }
    free(whole);
}

/* Run n as `focal train` would settle it, in sweep->run. */
static focal_status settle_run(focal_sweep *sweep, int32_t n)
{
    FOCAL_TRY(foci_sweep_make_run(sweep, n, &sweep->run));
    make_absolute(sweep->run.data.shards);
    make_absolute(sweep->run.start.from);
    return FOCAL_OK;
}

focal_status focal_sweep_run_write(focal_sweep *sweep, int32_t n, const char *path)
{
    FOCAL_TRY(settle_run(sweep, n));
    return foci_run_write(sweep->ctx, path, &sweep->run);
}
