/* What moves the weights of a model in training: the norm of all gradients, clipping, and one step
 * of AdamW, or of Muon for the matrices of layers (docs/MATH.md, 5). */
#ifndef FOCI_TRAIN_OPTIMISER_H
#define FOCI_TRAIN_OPTIMISER_H

#include "model/trainable.h"

typedef struct foci_optimiser_options {
    bool has_muon; /* for the matrices of layers; all else is AdamW's */
    double beta1, beta2, epsilon;
    double momentum;     /* Muon's */
    double decay;        /* of matrices */
    double clip;         /* largest norm of all gradients; 0: none */
    int64_t group_steps; /* at the beginning, in which only groups move: nothing else decays, and
                            its moments begin behind them */
} foci_optimiser_options;

typedef struct foci_optimiser {
    foci_trainable *trainable;
    foci_optimiser_options options;
    float *first, *second; /* moments, in the layout of the gradients; Muon has only the first */
    int64_t steps;         /* that were taken */
} foci_optimiser;

/* The trainable must stay. */
focal_status foci_optimiser_new(foci_trainable *trainable, const foci_optimiser_options *options,
                                foci_optimiser **out);
void foci_optimiser_free(foci_optimiser *optimiser); /* NULL is fine */

/* What the gradients are like: the norm of the finite ones, and how many are not. */
typedef struct foci_gradient_norm {
    double norm;
    int64_t odd_count;
} foci_gradient_norm;

focal_status foci_optimiser_norm(const foci_optimiser *optimiser, foci_gradient_norm *norm);

/* Moves the weights by the gradients, clipped by `norm`, and sets them to 0. Gradients must be
 * finite. */
focal_status foci_optimiser_step(foci_optimiser *optimiser, double rate, double norm);

/* Sets the gradients to 0 without a step. */
void foci_optimiser_skip(foci_optimiser *optimiser);

#endif /* FOCI_TRAIN_OPTIMISER_H */
