/* The public settings of a run from inside. */
#ifndef FOCI_TRAIN_RUN_H
#define FOCI_TRAIN_RUN_H

#include "focal/train.h"
#include "train/run_file.h"

struct focal_run {
    focal_ctx *ctx;
    foci_run settings;
};

#endif /* FOCI_TRAIN_RUN_H */
