/* The loss of a batch of tokens and its gradient with respect to every parameter: those of the
 * model, of its groups, of both, or of low-rank additions. */
#ifndef FOCI_MODEL_BACKWARD_H
#define FOCI_MODEL_BACKWARD_H

#include "focal/attn.h"
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

/* How groups act in a pass (docs/MATH.md, 3). Window and sinks are those of the groups. */
typedef struct foci_groups_pass {
    focal_gate_kind gate; /* what backward makes of the choice; 0: straight. A loss alone is always
                             that of the hard mask */
    float lambda;         /* of the paper's gate; 0: 10 */
    int32_t top;          /* groups a query looks into, 1..K; 0: top_fit of the groups */
    bool moves_balance;   /* over all tokens of the batch, before it is used; not in a loss alone,
                             not where routers are raw */
    focal_balance_kind balance;
    float rate;              /* of the balance */
    int32_t sinkhorn_rounds; /* balances the keys of each sequence, and is not causal; 0: 10 where
                                routers are raw, else none; below 0: none */
} foci_groups_pass;

/* What a layer's router could read, in float32, all rows of the batch; valid during the call. */
typedef struct foci_observed {
    int32_t T;
    const float *h; /* (T,C) what q, k and v are made of */
    const float *q; /* (T,H,D) before rope, biases added, query-key norm applied */
    const float *k; /* (T,G,D) likewise */
} foci_observed;
typedef focal_status (*foci_observer)(void *arg, int32_t layer, const foci_observed *observed);

typedef struct foci_backward_options {
    foci_recompute recompute;
    double scale;      /* of every target's loss: 1 / their number in the whole step */
    double z;          /* weight of the squared log of the softmax sum; 0: none. Not with is_kl */
    bool is_loss_only; /* the loss and no gradient: nothing of the trainable changes, and recompute,
                          scale and z say nothing */
    const foci_groups_pass *groups; /* NULL: dense; the temperatures of groups act all the same */
    bool is_untouched;              /* dense, and neither the temperatures of groups nor low-rank
                                       additions that learn act either */
    bool is_kl; /* the loss is KL(teacher || student) of the rows with a target, the teacher being
                   the untouched model; nll is counted beside it */
    foci_observer observe; /* called once a layer, bottom to top, as the student goes forward;
                              NULL: none. What it returns other than FOCAL_OK ends the call */
    void *observe_arg;
    const bool *is_over; /* looked at behind each call of the observer: once it is true, this one
                            returns FOCAL_OK without the rest, and the loss says nothing; with
                            is_loss_only. NULL: never */
} foci_backward_options;

/* Sums over the targets, without scale and z, and their number. */
typedef struct foci_batch_loss {
    double nll;
    int64_t targets;
    double kl; /* with is_kl, else 0; and its rows */
    int64_t kl_rows;
    /* With groups, of the hard mask, whatever the gate: */
    int64_t distant_pairs, kept_pairs; /* summed over layers, routers and sequences */
    double largest_load;      /* share of the batch's keys (shared: memberships) in one group, the
                                 largest over layers and routers */
    double mean_largest_load; /* and the mean of the largest */
} foci_batch_loss;

/* Adds the gradients of scale * (nll + z lse^2), or of scale * kl, summed over the targets, to
 * those that are there, and moves the balance once where that is asked for. The same bits at any
 * thread count, and at any recompute level. Below the lowest layer that learns nothing is computed,
 * and products for weights without a gradient are left out. FOCAL_EINVAL on a bad batch or groups
 * that are not there, FOCAL_ENOMEM: the gradients and the balance may have changed then. */
focal_status foci_backward(foci_trainable *trainable, const foci_batch *batch,
                           const foci_backward_options *options, foci_batch_loss *loss);

/* Bytes of memory that a call with these options takes beside the parameters; 0 for options that it
 * would refuse. */
size_t foci_backward_bytes(foci_trainable *trainable, int32_t T, int32_t span_count,
                           const foci_backward_options *options);

#endif /* FOCI_MODEL_BACKWARD_H */
