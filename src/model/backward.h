/* The loss of a batch of tokens and its gradient with respect to every parameter. */
#ifndef FOCI_MODEL_BACKWARD_H
#define FOCI_MODEL_BACKWARD_H

#include "model/trainable.h"

/* What backward computes again instead of keeping it, layer by layer. */
typedef enum foci_recompute {
    FOCI_RECOMPUTE_NONE,
    FOCI_RECOMPUTE_INPUTS, /* kept: what attention and feed-forward read from the stream */
    FOCI_RECOMPUTE_BLOCK   /* kept: what a layer reads */
} foci_recompute;

/* Rows that attend among themselves, at positions 0, 1, ... */
typedef struct foci_span {
    int32_t start, count;
} foci_span;

typedef struct foci_batch {
    int32_t T;
    const int32_t *ids;     /* (T) */
    const int32_t *targets; /* (T), or FOCI_LOSS_NO_TARGET */
    int32_t span_count;     /* ascending, one behind the other, every row in one */
    const foci_span *spans;
} foci_batch;

typedef struct foci_backward_options {
    foci_recompute recompute;
    double scale;      /* of every target's loss: 1 / their number in the whole step */
    double z;          /* weight of the squared log of the softmax sum; 0: none */
    bool is_loss_only; /* the loss and no gradient: nothing of the trainable changes, and recompute,
                          scale and z say nothing */
} foci_backward_options;

/* The sum of the targets' losses, without scale and z, and their number. */
typedef struct foci_batch_loss {
    double nll;
    int64_t targets;
} foci_batch_loss;

/* Adds the gradients of scale * (nll + z lse^2), summed over the targets, to those that are there.
 * The same bits at any thread count, and at any recompute level. FOCAL_EINVAL on a bad batch,
 * FOCAL_ENOMEM: the gradients may have changed then. */
focal_status foci_backward(foci_trainable *trainable, const foci_batch *batch,
                           const foci_backward_options *options, foci_batch_loss *loss);

/* Bytes of memory that a call takes beside the parameters. */
size_t foci_backward_bytes(const foci_trainable *trainable, int32_t T, int32_t span_count,
                           foci_recompute recompute);

#endif /* FOCI_MODEL_BACKWARD_H */
