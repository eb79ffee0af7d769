/* Attention a second time, double in and double out, written from docs/MATH.md and apart from
 * src/: what kernels are judged by. One sequence a call; whole rows of logits, any cost. */
#ifndef FOCAL_TESTS_ORACLE_ATTN_H
#define FOCAL_TESTS_ORACLE_ATTN_H

#include <stdbool.h>
#include <stdint.h>

/* Keys lie in position order; everything is packed. */
typedef struct oracle_attn {
    int32_t T, S, H, G, D, Dv;
    bool is_bidirectional, has_window;
    int32_t window, sinks;
    double softcap; /* 0: none */

    int32_t routers; /* of groups and gate: 1 or G */
    /* Groups of a token as bits; a distant pair is seen when the two meet (MATH 3.3.4, 3.3.5).
     * NULL: no distant pair is seen, unless a gate lets all through. */
    const uint64_t *query_groups; /* (routers, T) */
    const uint64_t *key_groups;   /* (routers, S) */

    int gate; /* a focal_gate_kind, or 0 */
    int32_t K;
    double lambda;
    const double *gq; /* (T, routers, K) */
    const double *gk; /* (S, routers, K) */

    const double *q; /* (T,H,D) */
    const double *k; /* (S,G,D) */
    const double *v; /* (S,G,Dv) */
} oracle_attn;

/* Results, and for each element its magnitude: how many times a rounding it moves when everything
 * it is made of is rounded once. That is the same sum over absolute values, and where weights
 * enter, x times what a relative error of a weight does; x is the largest partial sum of a logit
 * in that row (in backward, and |lse|), because rounding x is a relative error of a weight as many
 * times larger. A NULL array is not wanted. */
typedef struct oracle_attn_out {
    double *out, *out_magnitude; /* (T,H,Dv) */
    double *lse, *lse_magnitude; /* (T,H) */
} oracle_attn_out;

typedef struct oracle_attn_grads {
    double *dq, *dq_magnitude;   /* (T,H,D) */
    double *dk, *dk_magnitude;   /* (S,G,D) */
    double *dv, *dv_magnitude;   /* (S,G,Dv) */
    double *dgq, *dgq_magnitude; /* (T, routers, K) */
    double *dgk, *dgk_magnitude; /* (S, routers, K) */
} oracle_attn_grads;

/* Query i of query head h: does it see the key at position j? (MATH 1.5, 3.3.4, 3.3.5) */
bool oracle_sees(const oracle_attn *a, int32_t h, int32_t i, int32_t j);
/* Is the pair distant: causal, behind the window, not a sink? (MATH 3.3.3) */
bool oracle_distant(const oracle_attn *a, int32_t i, int32_t j);

void oracle_attn_forward(const oracle_attn *a, const oracle_attn_out *result);
/* dout: (T,H,Dv). Recomputes the forward. */
void oracle_attn_backward(const oracle_attn *a, const double *dout,
                          const oracle_attn_grads *result);

#endif /* FOCAL_TESTS_ORACLE_ATTN_H */
