/* Runs side by side: those that differ only in their seed form an arm, every arm is compared with a
 * baseline. This is everything that a report of runs says, before it is written down. */
#ifndef FOCI_REPORT_RUNS_GROUP_H
#define FOCI_REPORT_RUNS_GROUP_H

#include "focal/report.h"
#include "report/runs_read.h"

enum { FOCI_RUNS_ROWS = 256, FOCI_RUNS_KINDS = 256 };

typedef struct foci_arm {
    char name[FOCI_RUNS_NAME];
    int32_t first, count; /* its runs: order[first .. first + count - 1], by seed */
    bool is_finished;     /* false: it has no finished run, and shows how far they are */
    int32_t baseline; /* the arm it is compared with, perhaps itself; -1: there is but one arm */
    foci_spread final;
    double parameters, tokens, speed, seconds; /* means; NaN: not known */
    foci_difference difference;                /* of final to the baseline's */
    double reach_share;     /* tokens from which on its mean curve stays at or below the baseline's
                               final loss, by the baseline's tokens; NaN: not reached */
    bool reach_is_bound;    /* already at its first validation */
    foci_spread seed_share; /* the same, seed by seed; n: seeds that reached it */
    foci_band valid, train; /* curves over tokens */
    foci_band apart;        /* valid - the baseline's, by seed where at least two match */
} foci_arm;

typedef enum foci_axis { FOCI_AXIS_PARAMETERS, FOCI_AXIS_TOKENS } foci_axis;

/* The size at which arms that differ in nothing but size would equal a baseline arm's loss. */
typedef struct foci_size_row {
    foci_axis axis;
    int32_t baseline;
    char family[FOCI_RUNS_NAME]; /* what those arms have in common */
    int32_t sizes;               /* how many they are */
    foci_equal kind;
    double at, share; /* share: of the baseline's size */
} foci_size_row;

typedef struct foci_runs {
    focal_ctx *ctx;
    foci_run_folder **runs;
    int32_t run_count;
    int32_t *order; /* runs that the arms are made of, arm by arm */
    foci_arm *arms;
    int32_t arm_count;
    bool differs[FOCI_RUN_KEYS]; /* between the runs; false for seed */
    foci_size_row rows[FOCI_RUNS_ROWS];
    int32_t row_count;
    foci_measure kinds[FOCI_RUNS_KINDS]; /* measures there are, by name and length; no values */
    int32_t kind_count;
    foci_notes notes;
} foci_runs;

/* Reads the folders and computes everything. FOCAL_EINVAL on wrong arguments or without any run;
 * FOCAL_ENOMEM, FOCAL_EUNSUPPORTED; *out is NULL then. */
focal_status foci_runs_open(focal_ctx *ctx, const focal_report_runs_args *args, foci_runs **out);
void foci_runs_free(foci_runs *runs); /* NULL is fine */

/* Steps of it. Groups the runs that have been read, names the arms and finds their baselines; then
 * the numbers. */
focal_status foci_runs_group(foci_runs *runs, const focal_report_runs_args *args);
focal_status foci_runs_compare(foci_runs *runs);

/* The n-th run of an arm, and the value of one of its keys. */
const foci_run_folder *foci_arm_run(const foci_runs *runs, const foci_arm *arm, int32_t n);
const char *foci_arm_value(const foci_runs *runs, int32_t arm, int key);

/* Keys that make the size of a model or the length of a run. */
bool foci_is_size_key(foci_axis axis, int key);
/* "temperature=0.4, width=256" of the keys that differ, those of an axis left out; axis -1: none.
 */
void foci_arm_label(const foci_runs *runs, int32_t arm, int axis, char out[FOCI_RUNS_NAME]);

/* Arms that differ in nothing but what makes their size are a family. True for its first arm. */
bool foci_family_starts(const foci_runs *runs, foci_axis axis, int32_t arm);
/* Sizes (ascending, none twice) and final losses of the finished arms of an arm's family; there
 * must be room for one more than there are arms. Returns how many. */
int32_t foci_family_collect(const foci_runs *runs, foci_axis axis, int32_t arm, double *sizes,
                            double *losses);

/* A measure over the runs of an arm. */
foci_spread foci_arm_measure(const foci_runs *runs, const foci_arm *arm, const foci_measure *kind);

#endif /* FOCI_REPORT_RUNS_GROUP_H */
