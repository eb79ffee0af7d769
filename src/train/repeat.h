/* Repeated passages: some sequences of a step get their beginning once more near their end, so that
 * groups learn to find what is far away and the same (docs/MATH.md, 6.1). */
#ifndef FOCI_TRAIN_REPEAT_H
#define FOCI_TRAIN_REPEAT_H

#include "train/order.h"

/* Of ids a[0..n] of a sequence, the last one being its last target: a[n+1-o-l : n+1-o] = a[0:l],
 * with l from [n/16, n/4) and o from [0, n/8); each sequence with a probability of `share`. Rows
 * hold the samples from `first` on, as foci_order_read() made them. What happens to a sequence is a
 * function of the seed, its sample and its place in it. */
void foci_repeat_passages(foci_windows *rows, int64_t first, int32_t length, double share,
                          uint64_t seed);

#endif /* FOCI_TRAIN_REPEAT_H */
