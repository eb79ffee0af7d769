/* Learning rates by step (docs/MATH.md, 5.4): functions of the step alone, so a resumed run has the
 * rates of an uninterrupted one. */
#ifndef FOCI_TRAIN_SCHEDULE_H
#define FOCI_TRAIN_SCHEDULE_H

#include "focal/base.h"

typedef enum foci_schedule_kind {
    FOCI_SCHEDULE_CONSTANT, /* warm-up, then the peak for ever */
    FOCI_SCHEDULE_COSINE,   /* warm-up, then half a cosine down to the floor */
    FOCI_SCHEDULE_DECAY     /* warm-up, the peak, and a straight line to the floor at the end */
} foci_schedule_kind;

/* All zero but the peak is a valid schedule: constant from the first step on. */
typedef struct foci_schedule {
    foci_schedule_kind kind;
    double peak;          /* above 0 */
    double floor;         /* as a part of the peak, 0 to 1 */
    int64_t steps;        /* of the whole run; at least 1, but for a constant rate */
    int64_t warmup_steps; /* 0 to steps */
    int64_t decay_steps;  /* of FOCI_SCHEDULE_DECAY: 0 to steps - warmup_steps */
} foci_schedule;

/* FOCAL_EINVAL, with a sentence that names the field, where a number is not as above. */
focal_status foci_schedule_check(focal_ctx *ctx, const foci_schedule *schedule);

/* The rate of a step, counted from 0, of a checked schedule; behind the last step what the last
 * would lead to. Never 0 within the run. */
double foci_schedule_rate(const foci_schedule *schedule, int64_t step);

#endif /* FOCI_TRAIN_SCHEDULE_H */
