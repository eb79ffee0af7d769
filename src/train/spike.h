/* What is no ordinary step: a loss or gradient that is no number, or a loss far above the last
 * ones. */
#ifndef FOCI_TRAIN_SPIKE_H
#define FOCI_TRAIN_SPIKE_H

#include "train/optimiser.h"

enum {
    FOCI_SPIKE_LOSSES = 16,   /* that are remembered */
    FOCI_SPIKE_SKIPS = 16,    /* steps in a row that may be left out */
    FOCI_SPIKE_SENTENCE = 160 /* bytes of why, NUL included */
};

/* The last losses; all zero is the beginning. It is part of a checkpoint. */
typedef struct foci_spike_memory {
    int64_t count; /* losses so far: the n-th is at n % FOCI_SPIKE_LOSSES */
    int64_t skips; /* steps left out in a row */
    double losses[FOCI_SPIKE_LOSSES];
} foci_spike_memory;

/* True with half a sentence in `why` ("the loss is 9.1, ..."). threshold: nats above the mean of
 * the last losses; 0: only what is no number. */
bool foci_spike_found(const foci_spike_memory *memory, double loss, const foci_gradient_norm *norm,
                      double threshold, char why[FOCI_SPIKE_SENTENCE]);

/* An ordinary step's loss. */
void foci_spike_remember(foci_spike_memory *memory, double loss);

#endif /* FOCI_TRAIN_SPIKE_H */
