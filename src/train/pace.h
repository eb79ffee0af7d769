/* When a run ends and how fast it learns by then: by steps, or by the clock. */
#ifndef FOCI_TRAIN_PACE_H
#define FOCI_TRAIN_PACE_H

#include "train/run_file.h"
#include "train/schedule.h"

typedef struct foci_pace {
    foci_schedule schedule; /* over steps; over parts of the time where there are none */
    int64_t steps;          /* 0: no limit */
    double limit;           /* seconds; 0: none */
    int64_t warmup;         /* steps, where time rules */
} foci_pace;

focal_status foci_pace_open(focal_ctx *ctx, const foci_run *run, foci_pace *pace);

/* After so many steps and seconds of all sessions. A run without either is over at once. */
bool foci_pace_is_over(const foci_pace *pace, int64_t step, double seconds);

/* How much of the run is gone then, 0 to 1. */
double foci_pace_part(const foci_pace *pace, int64_t step, double seconds);

/* The learning rate of a step, counted from 0, that begins after these seconds. */
double foci_pace_rate(const foci_pace *pace, int64_t step, double seconds);

#endif /* FOCI_TRAIN_PACE_H */
