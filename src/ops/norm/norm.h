/* RMSNorm and LayerNorm of rows (docs/MATH.md, 4.1). */
#ifndef FOCI_OPS_NORM_NORM_H
#define FOCI_OPS_NORM_NORM_H

#include "focal/base.h"
#include "ops/rows.h"

typedef enum foci_norm_kind {
    FOCI_NORM_RMS,  /* divided by the root mean square */
    FOCI_NORM_LAYER /* the mean subtracted, divided by the standard deviation */
} foci_norm_kind;

/* T tokens, each H rows of `width` side by side: one row of C for a norm of the model, H of D for
 * one of queries or keys, where the heads share the weight. */
typedef struct foci_norm_args {
    foci_norm_kind kind;
    int32_t T, H, width;   /* H 0: 1 */
    const float *x;        /* (T, H, width) */
    int64_t x_stride;      /* floats from token to token; 0: H width */
    const float *weight;   /* (width); NULL: 1 */
    float weight_offset;   /* added to each weight: Gemma's files hold w - 1 */
    const float *bias;     /* (width); NULL: none */
    float epsilon;         /* added to the mean square */
    void *out;             /* (T, H, width); may be x, float32 with the same stride */
    focal_dtype out_dtype; /* float32 or bfloat16 */
    int64_t out_stride;
    float
        *unrounded; /* (T, H, width) packed: the same in float32, apart from x; NULL: not wanted */
} foci_norm_args;

/* Sums are float32, as in the models' own programs: squares whose sum is beyond its range make the
 * row 0. An infinity or NaN makes its own row NaN and no other. FOCAL_EINVAL on a bad shape. */
focal_status foci_norm(focal_ctx *ctx, const foci_norm_args *args);

/* Checks the call and fills in H and the strides; kernels take what comes out. */
focal_status foci_norm_normalise(focal_ctx *ctx, const foci_norm_args *args,
                                 foci_norm_args *normal);
extern const foci_rows_op foci_norm_op;

void foci_norm_ref(const void *args, int64_t first, int64_t count);
void foci_norm_avx2(const void *args, int64_t first, int64_t count);
void foci_norm_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_NORM_NORM_H */
