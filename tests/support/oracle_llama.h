/* The forward pass of a plain llama model (RMSNorm, rope, SwiGLU; no biases) a second time: in
 * double, of the oracles of its operations, with the keys and values that attention reads given. */
#ifndef FOCAL_TESTS_ORACLE_LLAMA_H
#define FOCAL_TESTS_ORACLE_LLAMA_H

#include "model/model.h"

typedef struct oracle_llama {
    const focal_model *model; /* matrices in f32 or bf16 */
    int32_t T;
    const int32_t *ids;    /* (T), a text from its first token on */
    const double *k, *v;   /* (L,T,G,D) what attention reads; NULL: what the model computes */
    double *own_k, *own_v; /* (L,T,G,D) what it computes */
    double *logits;        /* (T,V) */
} oracle_llama;

void oracle_llama_forward(const oracle_llama *a);

#endif /* FOCAL_TESTS_ORACLE_LLAMA_H */
