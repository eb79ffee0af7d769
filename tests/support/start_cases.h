/* Random models for the start of a router: tokens, maps, and the queries and keys they give. */
#ifndef FOCAL_TESTS_START_CASES_H
#define FOCAL_TESTS_START_CASES_H

#include "focal/route.h"
#include "support/oracle_route.h"

enum {
    START_FITTED = 1,      /* no maps given: least squares */
    START_BIAS = 2,        /* a bias in q */
    START_ROPE = 4,        /* rope, pairs half a head apart */
    START_INTERLEAVED = 8, /* rope, pairs side by side */
    START_SHARED = 16      /* keys only */
};

typedef struct start_shape {
    int32_t T, C, H, G, D, R, K, routers;
    unsigned flags;
} start_shape;

typedef struct start_case {
    start_shape shape;
    focal_route_start_args args; /* outputs set, filled with NaN */
    int64_t p_count, a_count, e_count;
    float *h, *q, *k, *wq, *wk, *bq, *freq;
} start_case;

start_case *start_case_new(start_shape shape, uint64_t seed);
void start_case_free(start_case *c);

/* What does not depend on the free sign of a direction, one array a router after the other:
 * pk pk^T, pk pq^T, pq pq^T (C,C), pk ak, pk aq (C); only the first and pk ak when shared. */
typedef struct start_products {
    double *pkpk, *pkpq, *pqpq, *pkak, *pkaq;
} start_products;
start_products products_of(const start_case *c);
/* The oracle's; *gap as in oracle_start. */
start_products exact_products(const start_case *c, double *gap);
void products_free(start_products p);
/* Every product within tolerance of the largest of its kind. */
void assert_products_within(const start_case *c, start_products got, start_products exact,
                            double tolerance);

/* The unit zk (T,R) of one router, from the projection that the case holds. */
double *unit_keys(const start_case *c, int64_t router);

#endif /* FOCAL_TESTS_START_CASES_H */
