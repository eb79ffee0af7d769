/* Text that a model in training writes, to see how it learns. */
#ifndef FOCI_TRAIN_SAMPLES_H
#define FOCI_TRAIN_SAMPLES_H

#include "focal/tokenizer.h"
#include "model/trainable.h"
#include "train/run_file.h"

/* NULL, or a sentence why this model can write none. */
const char *foci_sample_obstacle(const foci_trainable *trainable);

/* FOCAL_EINVAL when samples.prompt does not fit the model's context. */
focal_status foci_sample_check(foci_trainable *trainable, const foci_run *run);

/* Appends what the model writes behind samples.prompt at this step, and a NUL. The same step and
 * weights give the same text at any number of threads. */
focal_status foci_sample(foci_trainable *trainable, const foci_run *run, int64_t step,
                         focal_buffer *text);

#endif /* FOCI_TRAIN_SAMPLES_H */
