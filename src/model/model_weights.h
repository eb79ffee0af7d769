/* A model's weights, found by name in its file and checked against its configuration. Matrices stay
 * where they lie in the map, in the type they have there; norms and biases become float32. */
#ifndef FOCI_MODEL_MODEL_WEIGHTS_H
#define FOCI_MODEL_MODEL_WEIGHTS_H

#include "io/gguf.h"
#include "io/safetensors.h"
#include "model/config.h"
#include "model/low_rank.h"
#include "ops/embed/embed.h"
#include "ops/temperature/temperature.h"

/* y = x w^T + bias, and what LoRA adds. */
typedef struct foci_linear {
    const void *w; /* (N,K), or (K,N) when transposed; NULL: the model has none here */
    focal_dtype dtype;
    int32_t N, K;
    bool is_transposed;
    bool is_interleaved;        /* a loaded model's: in the order of ops/interleave.h */
    const float *bias;          /* (N); NULL: none */
    focal_dtype bias_dtype;     /* in the file */
    const foci_low_rank *added; /* NULL: nothing */
} foci_linear;

/* y = norm(x) weight + bias. */
typedef struct foci_gain {
    const float *weight;           /* NULL: the model has no norm here */
    const float *bias;             /* NULL: none */
    focal_dtype dtype, bias_dtype; /* in the file */
} foci_gain;

typedef struct foci_layer {
    foci_gain attn_norm, attn_post, ffn_norm, ffn_post;
    foci_gain q_norm, k_norm; /* (D), or (H D) and (G D) over the projection */
    foci_linear qkv;          /* q, k and v side by side; or each for itself: */
    foci_linear q, k, v, out;
    foci_linear gate, up, down;
    const foci_temperature *temperature; /* of attention; NULL: 1 */
} foci_layer;

typedef struct foci_model_weights {
    foci_linear embed;     /* (V,C) */
    foci_linear positions; /* (context,C), GPT-2 only */
    foci_linear head;      /* (V,C); the embedding where it is tied */
    foci_gain final_norm;
    bool is_tied;
    foci_layer *layers;             /* (L) */
    float *rope_divisors;           /* (rotated / 2) of a GGUF file; NULL: none */
    float *vectors;                 /* behind every norm and bias */
    foci_temperature *temperatures; /* (L) behind those of layers; NULL: the model has none */
    bool *heads;                    /* (H) that have one; NULL: all */
} foci_model_weights;

/* All elements of w as they lie in the file, in float32. */
void foci_linear_expand(const foci_linear *linear, float *to);

/* A linear layer's matrix as a table of embeddings. */
static inline foci_embed_table foci_linear_table(const foci_linear *linear)
{
    return (foci_embed_table){.rows = linear->w,
                              .dtype = linear->dtype,
                              .V = linear->N,
                              .C = linear->K,
                              .is_interleaved = linear->is_interleaved};
}

/* One of the two files. */
typedef struct foci_tensor_source {
    const foci_gguf *gguf;
    const foci_safetensors *safetensors;
    const char *path;
} foci_tensor_source;

/* FOCAL_EFORMAT when a tensor is missing, of another shape, not understood, or a norm or bias is
 * not finite. On failure *out is empty. */
focal_status foci_model_weights_bind(focal_ctx *ctx, const foci_tensor_source *source,
                                     const foci_config *config, foci_model_weights *out);
void foci_model_weights_release(focal_ctx *ctx,
                                foci_model_weights *weights); /* an empty one is fine */

#endif /* FOCI_MODEL_MODEL_WEIGHTS_H */
