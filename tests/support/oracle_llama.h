/* The forward pass of a plain llama model (RMSNorm, rope, SwiGLU; no biases) a second time: in
 * double, of the oracles of its operations, with the keys and values that attention reads given,
 * and with groups. */
#ifndef FOCAL_TESTS_ORACLE_LLAMA_H
#define FOCAL_TESTS_ORACLE_LLAMA_H

#include "model/model.h"

/* Groups (docs/MATH.md, 3.3), by the definition. All zero: every key is seen, at temperature 1. */
typedef struct oracle_groups {
    const foci_groups *groups;
    foci_groups_use use;   /* top 0: no groups, its temperatures only */
    bool has_no_distant;   /* of layers with a router: window and sinks alone */
    bool has_temperatures; /* of the heads, as the groups have them */
    double *margin;        /* or NULL: the least distance of a group that was chosen to one that was
                              not; below it rounding may choose otherwise */
} oracle_groups;

typedef struct oracle_llama {
    const focal_model *model; /* matrices in f32 or bf16 */
    int32_t T;
    const int32_t *ids;    /* (T), a text from its first token on */
    const double *k, *v;   /* (L,T,G,D) what attention reads; NULL: what the model computes */
    double *own_k, *own_v; /* (L,T,G,D) what it computes */
    double *logits;        /* (T,V) */
    oracle_groups groups;
} oracle_llama;

void oracle_llama_forward(const oracle_llama *a);

#endif /* FOCAL_TESTS_ORACLE_LLAMA_H */
