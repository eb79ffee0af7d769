/* What a run leaves: a model that other programs open. */
#ifndef FOCI_TRAIN_RESULT_H
#define FOCI_TRAIN_RESULT_H

#include "train/start.h"

/* Whether the model can be written at all: asked before a run, not behind it. */
focal_status foci_check_result(const foci_start *start);

/* Writes the model into a folder, in place of what is there. */
focal_status foci_write_result(const foci_start *start, const char *folder);

#endif /* FOCI_TRAIN_RESULT_H */
