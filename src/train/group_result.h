/* The adapter that a run leaves. */
#ifndef FOCI_TRAIN_GROUP_RESULT_H
#define FOCI_TRAIN_GROUP_RESULT_H

#include "train/start.h"

/* Writes the groups, or LoRA, as an adapter into a folder, with the settings they were made with
 * and the steps and tokens that were done; `model` is what they are for, as it was opened. */
focal_status foci_write_adapter(const foci_start *start, const foci_run *run, int64_t step,
                                int64_t tokens, const focal_model *model, const char *folder);

#endif /* FOCI_TRAIN_GROUP_RESULT_H */
