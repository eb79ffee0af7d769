/* What a step of training has to do at least, to compare with what the machine can. */
#ifndef FOCI_TRAIN_STEP_COST_H
#define FOCI_TRAIN_STEP_COST_H

#include "model/trainable.h"

int64_t foci_parameter_count(const foci_trainable *trainable);

/* Operations of forward and backward: 6 for each token and parameter of a product (the head too,
 * looking up embeddings not), and 14 D H for each pair that attention sees in a layer. Frozen
 * weights have no gradient, which saves 2 of the 6; a teacher is one more pass forward. */
double foci_step_flops(const foci_trainable *trainable, bool has_teacher, double tokens,
                       double pairs);

#endif /* FOCI_TRAIN_STEP_COST_H */
