/* The router: from a token's hidden state to scores, soft memberships and the groups it belongs
 * to, with gradients. Key sets are then made by focal_keyset_append() (focal/keys.h); the softmax
 * of attention is never done here. docs/MATH.md, 3. Everything is float32. */
#ifndef FOCAL_ROUTE_H
#define FOCAL_ROUTE_H

#include "focal/base.h"
#include "focal/keys.h"

FOCAL_BEGIN_DECLS

/* The routers of one layer: 1 for the layer, or one a key head. C model width, R router width
 * (1..256), K groups (1..64). Arrays are packed and belong to the caller. */
typedef struct focal_router {
    int32_t C, R, K;
    int32_t routers;
    bool is_raw;       /* z and E as they are (the paper); default: divided by their norms */
    float sharpness;   /* scores are multiplied by this; 0: 10 */
    const float *pk;   /* (routers, C, R) projection of keys */
    const float *pq;   /* (routers, C, R) and of queries; NULL: the same as keys */
    const float *ak;   /* (routers, R) offsets; NULL: 0 */
    const float *aq;   /* (routers, R); NULL: 0. With pq NULL: not used, ak serves both */
    const float *e;    /* (routers, K, R) centroids */
    const float *beta; /* (routers, K) balance, added to the scores of keys only; NULL: 0 */
} focal_router;

/* Scores of T tokens: zk = unit(h pk + ak), sk = sharpness zk.unit(e) + beta; sq likewise, with
 * no beta. A vector of length 0 stays 0. */
typedef struct focal_route_args {
    const focal_router *router;
    int32_t T;
    const float *h;   /* (T,C) */
    int64_t h_stride; /* floats from one token to the next; 0: C */
    float *sk, *sq;   /* (T, routers, K); either may be NULL */
    int32_t sq_from;  /* 0..T: sq of tokens before it is not asked for, and may be left as it is */
} focal_route_args;
FOCAL_API focal_status focal_route_scores(focal_ctx *ctx, const focal_route_args *args);

/* dsk and dsq: gradients of the scores, either may be NULL (zero). The others are overwritten and
 * may each be NULL. With pq NULL, dpq and daq must be NULL, and dpk, dak get both parts. beta has
 * no gradient. args->sk and args->sq are not used. */
typedef struct focal_route_grads {
    const float *dsk, *dsq; /* (T, routers, K) */
    float *dh;              /* (T,C), with h_stride */
    float *dpk, *dpq;       /* (routers, C, R) */
    float *dak, *daq;       /* (routers, R) */
    float *de;              /* (routers, K, R) */
} focal_route_grads;
FOCAL_API focal_status focal_route_scores_backward(focal_ctx *ctx, const focal_route_args *args,
                                                   const focal_route_grads *grads);

/* The name of the kernel that would take the scores, forward and backward; NULL when the call is
 * wrong or the pinned kernel cannot take it. A pinned name that routing does not have pins nothing
 * here. Of the other calls of this file focal_route_top() has kernels too, which all give the same
 * groups. */
FOCAL_API const char *focal_route_kernel_name(focal_ctx *ctx, const focal_route_args *args);

/* The index-th kernel's name, fastest first, and whether this machine can use it; NULL past the
 * last. is_usable may be NULL. */
FOCAL_API const char *focal_route_kernel_at(focal_ctx *ctx, int32_t index, bool *is_usable);

/* g = softmax(s) over the K groups, and ds from g and dg. rows = T * routers. s and g may be the
 * same array, and so may dg and ds. A row of nothing but -inf gets g = 0: no group. */
FOCAL_API focal_status focal_route_soften(focal_ctx *ctx, int64_t rows, int32_t K, const float *s,
                                          float *g);
FOCAL_API focal_status focal_route_soften_backward(focal_ctx *ctx, int64_t rows, int32_t K,
                                                   const float *g, const float *dg, float *ds);

/* The paper's balance over the T tokens of one sequence, in the log domain: `rounds` times, columns
 * to T/K each, then rows to 1; ends on rows. Not causal. s, g, dg, ds: (T, routers, K). A score of
 * -inf bars a token from a group: g and ds are 0 there. A group that is barred to all tokens, or a
 * token barred from all groups, is left out of the balance. NaN or +inf in s makes all of its
 * router NaN. */
FOCAL_API focal_status focal_route_sinkhorn(focal_ctx *ctx, int32_t T, int32_t routers, int32_t K,
                                            int32_t rounds, const float *s, float *g);
/* The gradient through all unrolled rounds. */
FOCAL_API focal_status focal_route_sinkhorn_backward(focal_ctx *ctx, int32_t T, int32_t routers,
                                                     int32_t K, int32_t rounds, const float *s,
                                                     const float *dg, float *ds);

/* The causal balance: moves beta so that groups fill evenly (docs/MATH.md, 3.2). */
typedef enum focal_balance_kind {
    FOCAL_BALANCE_LOG = 0, /* beta -= rate log(K load + 0.02), then beta -= mean beta */
    FOCAL_BALANCE_SIGN = 1 /* beta += rate sign(1/K - load) */
} focal_balance_kind;

/* load = half mean softmax(sk) + half mean one-hot of the `top` best, divided by top. Runs
 * `rounds` rounds over all T tokens; beta (routers, K) moves, and sk (T, routers, K), which came
 * with the old beta in it, follows, so that it can be used at once. load, when not NULL, gets
 * (routers, K) the loads before the last move. */
typedef struct focal_balance_args {
    focal_balance_kind kind;
    int32_t T, routers, K;
    int32_t top;    /* 1 for directed groups, k for shared ones */
    int32_t rounds; /* 0: 3 */
    float rate;     /* eta, or u */
    float *sk;
    float *beta;
    float *load;
} focal_balance_args;
FOCAL_API focal_status focal_route_balance(focal_ctx *ctx, const focal_balance_args *args);

/* The k groups with the largest scores, best first, ties to the lower index; NaN counts as -inf.
 * s: (rows, K), groups: (rows, k). */
FOCAL_API focal_status focal_route_top(focal_ctx *ctx, int64_t rows, int32_t K, int32_t k,
                                       const float *s, int32_t *groups);

/* Membership statistics of soft groups g (T, routers, K), for one router: mean load a group and
 * mean entropy of a row, in nats. load: (K). */
FOCAL_API focal_status focal_route_soft_stats(focal_ctx *ctx, int32_t T, int32_t routers, int32_t K,
                                              int32_t router, const float *g, double *load,
                                              double *entropy);

/* A router's start, taken from the model's own heads (docs/MATH.md, 3.4): what survives of q.k at
 * an unknown distance, split into R directions; centroids by spherical k-means. */
typedef struct focal_route_start_args {
    int32_t T, C, H, G, D;
    int32_t R, K;
    int32_t routers;        /* 1 or G */
    bool is_shared;         /* only pk, ak and e are made */
    const float *h;         /* (T,C) what the model multiplies by its projections */
    const float *q;         /* (T,H,D) before rope, biases added, norms applied */
    const float *k;         /* (T,G,D) likewise */
    const float *wq, *wk;   /* (H*D, C), (G*D, C) the model's maps from h to q and k; both NULL:
                               least-squares maps from h to the q and k given */
    const float *bq;        /* (H*D) bias in q; NULL: none */
    const float *rope_freq; /* (D/2) angle a position; fewer pairs rotate when freqs are 0; NULL:
                               no rope */
    bool is_interleaved;    /* pairs (2n, 2n+1); default: (n, n + D/2) */
    int32_t distance_min;   /* w */
    int32_t distance_max;   /* inclusive, such as 2,047 */
    int32_t kmeans_rounds;  /* 0: 12 */
    uint64_t seed;
    float *pk, *pq; /* (routers, C, R); pq NULL when is_shared */
    float *ak, *aq; /* (routers, R); aq NULL when is_shared */
    float *e;       /* (routers, K, R) */
} focal_route_start_args;
FOCAL_API focal_status focal_route_start(focal_ctx *ctx, const focal_route_start_args *args);

FOCAL_END_DECLS
#endif /* FOCAL_ROUTE_H */
