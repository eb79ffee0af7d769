/* A product with weights of a model, as the passes call it. */
#ifndef FOCI_MODEL_PRODUCT_H
#define FOCI_MODEL_PRODUCT_H

#include "model/model_weights.h"
#include "ops/matmul/matmul.h"

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

#endif /* FOCI_MODEL_PRODUCT_H */
