/* What a sweep is made of, for the files that define it. */
#ifndef FOCI_TRAIN_SWEEP_STATE_H
#define FOCI_TRAIN_SWEEP_STATE_H

#include "focal/sweep.h"
#include "train/sweep_file.h"

enum { FOCI_SWEEP_PATH = 4096, FOCI_SWEEP_SETS = 256, FOCI_SWEEP_FOLDER = 3800 };

/* An input of the file, and where it is; path "": not given. */
typedef struct foci_sweep_given {
    char name[FOCI_SWEEP_LABEL], about[256], path[FOCI_SWEEP_PATH];
} foci_sweep_given;

struct focal_sweep {
    focal_ctx *ctx;
    char path[FOCI_SWEEP_PATH], folder[FOCI_SWEEP_FOLDER];
    char *text; /* of the file */
    foci_sweep file;
    foci_run base, run; /* run: room for the one that is looked at */
    char baseline[FOCI_RUN_TEXT];
    foci_sweep_given given[FOCI_SWEEP_INPUTS];
    const char *sets[FOCI_SWEEP_SETS]; /* the caller's, which outlive it */
    int32_t set_count, run_count;
};

/* What {run}, {model} and {out} stand for; "": nothing. */
typedef struct foci_sweep_places {
    char run[FOCI_SWEEP_FOLDER + FOCAL_SWEEP_NAME + 1], out[FOCI_SWEEP_PATH];
} foci_sweep_places;

/* Text with {data}, inputs and, where `places` is not NULL, its names filled in; other braces stay.
 * FOCAL_EINVAL when it gets too long. */
focal_status foci_sweep_fill(focal_sweep *sweep, foci_text text, const foci_sweep_places *places,
                             char out[FOCI_SWEEP_PATH]);

/* FOCAL_EINVAL, with `place` before it, when a name in braces is none of those. Braces around
 * anything else are text. */
focal_status foci_sweep_check_text(focal_sweep *sweep, const char *place, foci_text text,
                                   const foci_sweep_places *places);

/* Run n, resolved. FOCAL_EINVAL. */
focal_status foci_sweep_make_run(focal_sweep *sweep, int32_t n, foci_run *run);

/* What a plan must fulfil before anything begins: names, runs, no run twice, a baseline that is
 * there, commands. FOCAL_EINVAL, FOCAL_EIO when a folder cannot be read. */
focal_status foci_sweep_check(focal_sweep *sweep);

#endif /* FOCI_TRAIN_SWEEP_STATE_H */
