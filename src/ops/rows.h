/* Operations whose rows do not depend on each other: what a kernel is, which one a call gets, how
 * rows are spread over threads, and what such calls check alike. */
#ifndef FOCI_OPS_ROWS_H
#define FOCI_OPS_ROWS_H

#include "base/bf16.h"
#include "focal/base.h"

/* run makes rows first .. first + count - 1 of a checked call; args is the operation's struct. It
 * needs no memory and cannot fail, and a row has the same bits whichever piece it is in. */
typedef struct foci_rows_kernel {
    const char *name;
    unsigned features; /* of the machine that it needs (foci_feature) */
    void (*run)(const void *args, int64_t first, int64_t count);
} foci_rows_kernel;

/* Fastest first; the last one runs everywhere. Tests walk these tables, so a kernel in one is a
 * tested kernel. */
typedef struct foci_rows_op {
    const char *name;
    const foci_rows_kernel *kernels;
    size_t kernel_count;
} foci_rows_op;

/* The first kernel that the context can run. A pinned kernel excludes the others; a pinned name
 * that the operation does not have pins nothing. NULL when the pinned one cannot run here. */
const foci_rows_kernel *foci_rows_pick(const focal_ctx *ctx, const foci_rows_op *op);

/* Runs the picked kernel over all rows, in pieces of many elements; width is that of a row.
 * FOCAL_EUNSUPPORTED when the pinned kernel cannot. */
focal_status foci_rows_run(focal_ctx *ctx, const foci_rows_op *op, const void *args, int64_t rows,
                           int64_t width);
void foci_rows_spread(focal_ctx *ctx, const foci_rows_kernel *kernel, const void *args,
                      int64_t rows, int64_t width);
/* The same in pieces of `piece` rows, for kernels that leave a sum a piece. */
void foci_rows_spread_by(focal_ctx *ctx, const foci_rows_kernel *kernel, const void *args,
                         int64_t rows, int64_t piece);
/* Sums over rows, the same at any thread count: how many rows a piece has, from the shape alone,
 * and sum (width) += the pieces (count, width) in their order. */
int64_t foci_rows_sum_piece(int64_t rows, int64_t width);
void foci_rows_join(focal_ctx *ctx, const float *pieces, int64_t count, int64_t width, float *sum);
/* Fails with the sentence that the pinned kernel cannot. */
focal_status foci_rows_cannot(focal_ctx *ctx, const foci_rows_op *op);

/* An array (rows, width) of a call: rows at least 1 and `stride` elements apart, 0 meaning packed,
 * which is then filled in. `what` begins the sentence, as in "norm: x". */
focal_status foci_rows_check(focal_ctx *ctx, const char *what, int64_t rows, int64_t width,
                             int64_t *stride);

/* out is float32 or bfloat16; where it is `in` itself it must be float32 and as far apart. */
focal_status foci_rows_check_out(focal_ctx *ctx, const char *op, const void *out,
                                 focal_dtype out_dtype, int64_t out_stride, const void *in,
                                 int64_t in_stride);

/* Element `at` of an array of either type, for the references. */
static inline void foci_rows_put(void *array, focal_dtype dtype, int64_t at, double x)
{
    if (dtype == FOCAL_BF16)
        ((uint16_t *)array)[at] = foci_bf16_from_float((float)x);
    else
        ((float *)array)[at] = (float)x;
}

/* Where element `at` of such an array lies. */
static inline void *foci_rows_at(void *array, focal_dtype dtype, int64_t at)
{
    return (char *)array + at * (dtype == FOCAL_BF16 ? 2 : 4);
}

#endif /* FOCI_OPS_ROWS_H */
