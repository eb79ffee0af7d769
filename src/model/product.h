/* A product with weights of a model, and a norm of the stream, as the passes call them. */
#ifndef FOCI_MODEL_PRODUCT_H
#define FOCI_MODEL_PRODUCT_H

#include "model/model_weights.h"
#include "ops/matmul/matmul.h"
#include "ops/norm/norm.h"

/* out = (or, when adds, +=) x w^T + bias. */
typedef struct foci_product {
    const foci_linear *w;
    float *out;
    int64_t out_stride;
    bool adds;
} foci_product;

static inline foci_matmul_args foci_product_args(const foci_product *one, int32_t rows,
                                                 const void *x, focal_dtype x_dtype, bool rounds_x)
{
    const foci_linear *w = one->w;
    return (foci_matmul_args){.M = rows,
                              .N = w->N,
                              .K = w->K,
                              .x = x,
                              .x_dtype = x_dtype,
                              .rounds_x = rounds_x,
                              .x_stride = w->K,
                              .w = w->w,
                              .w_dtype = w->dtype,
                              .w_is_transposed = w->is_transposed,
                              .w_is_interleaved = w->is_interleaved,
                              .bias = w->bias,
                              .adds = one->adds,
                              .out = one->out,
                              .out_dtype = FOCAL_F32,
                              .out_stride = one->out_stride};
}

/* Rows of the stream, normalised; out is still to be set. */
static inline foci_norm_args foci_stream_norm(const foci_config *c, const foci_gain *gain,
                                              int32_t rows, const float *x)
{
    return (foci_norm_args){.kind = c->norm,
                            .T = rows,
                            .width = c->C,
                            .x = x,
                            .weight = gain->weight,
                            .weight_offset = c->norm_offset,
                            .bias = gain->bias,
                            .epsilon = c->epsilon};
}

#endif /* FOCI_MODEL_PRODUCT_H */
