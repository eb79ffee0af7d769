/* What a run leaves: a model that other programs open, an adapter, or both. */
#ifndef FOCI_TRAIN_RESULT_H
#define FOCI_TRAIN_RESULT_H

#include "train/run_folder.h"
#include "train/start.h"

/* Whether the model can be written at all: asked before a run, not behind it. */
focal_status foci_check_result(const foci_start *start);

/* Writes what there is after so many steps and tokens in place of what was there: where everything
 * learns the model into FOLDER/model, and its groups into FOLDER/adapter; where groups alone do,
 * they make the folder itself an adapter. */
focal_status foci_write_result(const foci_start *start, const foci_run *run, int64_t step,
                               int64_t tokens, const foci_run_folder *folder);

/* Whether what foci_write_result() makes is still in the folder. */
bool foci_has_result(const foci_start *start, const foci_run_folder *folder);

#endif /* FOCI_TRAIN_RESULT_H */
