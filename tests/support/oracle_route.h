/* What routing is (docs/MATH.md, 3), a second time: double in, double out, written from the
 * equations without looking at src/. Slow and plain; it judges every kernel of ops/route.
 * Shapes, NULLs and odd cases are those of focal/route.h. */
#ifndef FOCAL_TESTS_ORACLE_ROUTE_H
#define FOCAL_TESTS_ORACLE_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "focal/route.h"

/* focal_router with doubles; sharpness as it is, 0 has no special meaning. */
typedef struct oracle_router {
    int64_t C, R, K, routers;
    bool is_raw;
    double sharpness;
    const double *pk, *pq; /* (routers, C, R); pq NULL: pk and ak serve both sides */
    const double *ak, *aq; /* (routers, R) or NULL */
    const double *e;       /* (routers, K, R) */
    const double *beta;    /* (routers, K) or NULL */
} oracle_router;

/* h: (T,C) packed; sk, sq: (T, routers, K), either may be NULL. */
void oracle_route_scores(const oracle_router *router, int64_t T, const double *h, double *sk,
                         double *sq);

/* Overwritten; each may be NULL. With pq NULL, dpk and dak get both parts. */
typedef struct oracle_route_grads {
    double *dh, *dpk, *dpq, *dak, *daq, *de;
} oracle_route_grads;

/* dsk, dsq: (T, routers, K), either may be NULL. A vector of length 0 has gradient 0. */
void oracle_route_scores_backward(const oracle_router *router, int64_t T, const double *h,
                                  const double *dsk, const double *dsq,
                                  const oracle_route_grads *grads);

/* How large each result is before anything cancels: the sum of the absolute values of all terms,
 * with what roundoff in h p + a becomes when that is short. Errors are measured against it.
 * Arguments as above; any result may be NULL. */
typedef struct oracle_route_sizes {
    double *sk, *sq, *dh, *dpk, *dpq, *dak, *daq, *de;
} oracle_route_sizes;
void oracle_route_scores_sizes(const oracle_router *router, int64_t T, const double *h,
                               const double *dsk, const double *dsq,
                               const oracle_route_sizes *sizes);

void oracle_route_soften(int64_t rows, int64_t K, const double *s, double *g);
void oracle_route_soften_backward(int64_t rows, int64_t K, const double *g, const double *dg,
                                  double *ds);

void oracle_route_sinkhorn(int64_t T, int64_t routers, int64_t K, int64_t rounds, const double *s,
                           double *g);
void oracle_route_sinkhorn_backward(int64_t T, int64_t routers, int64_t K, int64_t rounds,
                                    const double *s, const double *dg, double *ds);

/* The problem of focal_balance_args. Beside the moves of beta and sk, `margin` tells how far the
 * nearest decision was from falling otherwise: the least gap between a chosen and an unchosen
 * score and, for FOCAL_BALANCE_SIGN, the least |1/K - load|. Below it, rounding may decide. */
typedef struct oracle_balance {
    focal_balance_kind kind;
    int64_t T, routers, K, top, rounds;
    double rate;
    double *sk;   /* (T, routers, K) */
    double *beta; /* (routers, K) */
    double *load; /* (routers, K) */
    double margin;
} oracle_balance;
void oracle_route_balance(oracle_balance *balance);

/* The k largest of each row, best first, ties to the lower index, NaN as -inf. */
void oracle_route_top(int64_t rows, int64_t K, int64_t k, const double *s, int32_t *groups);

/* load: (K) mean over the tokens of one router; returns the mean entropy of its rows, in nats. */
double oracle_route_soft_stats(int64_t T, int64_t routers, int64_t K, int64_t router,
                               const double *g, double *load);

/* 3.4 up to the centroids. Fields as in focal_route_start_args, doubles for floats; aq gets zeros
 * without bq. is_shared leaves pq and aq alone. Signs of directions are arbitrary. */
typedef struct oracle_start {
    int64_t T, C, H, G, D, R, routers;
    bool is_shared, is_interleaved;
    const double *h, *q, *k, *wq, *wk, *bq, *rope_freq;
    int64_t distance_min, distance_max;
    double *pk, *pq, *ak, *aq;
    double gap; /* out: least (sigma_R - sigma_R+1) / sigma_1 over the routers; 1 without R+1 */
} oracle_start;
void oracle_route_start(oracle_start *start);

/* One round of spherical k-means on the unit rows of z (T,R): each e_c (K,R) becomes the unit of
 * the sum of its members plus 1e-3 e_c. Returns the least gap between a best and a second score. */
double oracle_kmeans_round(int64_t T, int64_t R, int64_t K, const double *z, double *e);

/* x divided by its length, in place; a zero vector stays zero. */
void oracle_unit(int64_t n, double *x);

#endif /* FOCAL_TESTS_ORACLE_ROUTE_H */
