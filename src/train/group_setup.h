/* From the settings of a run to groups, and to how they act in a step. */
#ifndef FOCI_TRAIN_GROUP_SETUP_H
#define FOCI_TRAIN_GROUP_SETUP_H

#include "model/backward.h"
#include "train/run_file.h"

/* Groups for a model as a resolved run says, all numbers 0: routers in the layers that it names and
 * whose attention is global. FOCAL_EINVAL where settings and model do not go together. */
focal_status foci_group_setup(focal_ctx *ctx, const foci_run *run, const focal_model *model,
                              foci_groups **out);

/* How groups act in a pass of a step, when `part` (0..1) of the run is gone. The balance moves in
 * each pass by its share of the rate, so that all tokens of the step count once. */
foci_groups_pass foci_group_step(const foci_run *run, double part);

/* How they act when the model runs: as many groups are seen as then, and keys are assigned one by
 * one, whatever balanced them in training. */
foci_groups_pass foci_group_run(const foci_run *run);

#endif /* FOCI_TRAIN_GROUP_SETUP_H */
