/* Routing by plain float32 loops: what anybody would write first. Tests measure what these lose
 * against the double oracle, and allow every kernel about as much; nothing is judged by them. */
#ifndef FOCAL_TESTS_PLAIN_ROUTE_H
#define FOCAL_TESTS_PLAIN_ROUTE_H

#include "focal/route.h"

void plain_route_scores(const focal_route_args *args);
void plain_route_scores_backward(const focal_route_args *args, const focal_route_grads *grads);
void plain_route_soften(int64_t rows, int64_t K, const float *s, float *g);
void plain_route_soften_backward(int64_t rows, int64_t K, const float *g, const float *dg,
                                 float *ds);
void plain_route_sinkhorn(int64_t T, int64_t routers, int64_t K, int64_t rounds, const float *s,
                          float *g);
void plain_route_sinkhorn_backward(int64_t T, int64_t routers, int64_t K, int64_t rounds,
                                   const float *s, const float *dg, float *ds);
void plain_route_balance(const focal_balance_args *b);

#endif /* FOCAL_TESTS_PLAIN_ROUTE_H */
