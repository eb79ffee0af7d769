/* Gradients of the linear product: each is a product of what lies there already, read the other
 * way round, so the kernels are foci_matmul()'s. Only the sum of rows has a loop of its own. */
#include "ops/matmul/matmul_grads.h"

#include "base/bf16.h"
#include "base/error.h"
#include "base/pool.h"
#include "ops/matmul/extent.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/matmul/weights.h"

enum {
    SUM_BYTES = 4096, /* of a row in a piece of a long sum: packed panels of it stay in the cache */
    BIAS_ROWS = 64,   /* whose sum is made before it is added to the others' */
    BIAS_COLUMNS = 128 /* of an item */
};

/* The part of a product that sums over [k, k + count), both ends at whole blocks. */
static foci_matmul_args part_of(const foci_matmul_args *a, int64_t k, int64_t count)
{
    const int64_t block = focal_dtype_block(a->w_dtype);
    const int64_t width = a->w_is_transposed ? a->N : a->K;
    foci_matmul_args part = *a;
    part.K = count;
    part.w_stride = a->w_stride > 0 ? a->w_stride : width;
    const int64_t x_at = a->x_is_transposed ? k * a->x_stride : k;
    const int64_t w_at = a->w_is_transposed ? k * part.w_stride : k;
    part.x = (const char *)a->x + (size_t)x_at * focal_dtype_bytes(a->x_dtype);
    part.w = (const char *)a->w + (size_t)(w_at / block) * focal_dtype_block_bytes(a->w_dtype);
    part.adds = a->adds || k > 0;
    return part;
}

/* A product of one long sum as several that add to each other, which the shape alone decides. */
static focal_status multiply_in_pieces(focal_ctx *ctx, const foci_matmul_args *a)
{
    /* Sums would be rounded each time; a piece of interleaved rows is no matrix of its own. */
    if (a->out_dtype != FOCAL_F32 || (a->w_is_interleaved && !a->w_is_transposed))
        return foci_matmul(ctx, a);
    const int64_t each =
        foci_pieces(a->K, foci_pieces(a->K, SUM_BYTES / (int64_t)focal_dtype_bytes(a->x_dtype)));
    const int64_t piece = foci_round_up(each, FOCI_WEIGHT_PIECE);
    for (int64_t k = 0; k < a->K; k += piece) {
        const foci_matmul_args part = part_of(a, k, foci_min64(a->K - k, piece));
        FOCAL_TRY(foci_matmul(ctx, &part));
    }
    return FOCAL_OK;
}

focal_status foci_matmul_dx(focal_ctx *ctx, const foci_matmul_dx_args *a)
{
    static const foci_matmul_names names = {"matmul_dx", "dy", "w", "dx", "M", "K", "N"};
    if (!ctx) return FOCAL_EINVAL;
    if (!a) return foci_fail(ctx, FOCAL_EINVAL, "matmul_dx: there are no arguments");
    const foci_matmul_args product = {.M = a->M,
                                      .N = a->K,
                                      .K = a->N,
                                      .x = a->dy,
                                      .x_dtype = a->dy_dtype,
                                      .x_stride = a->dy_stride,
                                      .w = a->w,
                                      .w_dtype = a->w_dtype,
                                      .w_is_transposed = !a->w_is_transposed,
                                      .w_is_interleaved = a->w_is_interleaved,
                                      .adds = a->adds,
                                      .out = a->dx,
                                      .out_dtype = a->dx_dtype,
                                      .out_stride = a->dx_stride};
    FOCAL_TRY(foci_matmul_check_as(ctx, &product, &names));
    return multiply_in_pieces(ctx, &product);
}

/* Columns of dy summed: fixed pieces of rows, merged in order. */
static void sum_columns(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const foci_matmul_dw_args *a = arg;
    const int64_t begin = index * BIAS_COLUMNS, count = foci_min64(a->N - begin, BIAS_COLUMNS);
    float sum[BIAS_COLUMNS];
    for (int64_t n = 0; n < count; n++) sum[n] = a->adds ? a->dbias[begin + n] : 0.0F;
    for (int64_t first = 0; first < a->M; first += BIAS_ROWS) {
        const int64_t end = foci_min64(a->M, first + BIAS_ROWS);
        float part[BIAS_COLUMNS] = {0};
        for (int64_t m = first; m < end; m++) {
            const float *wide = (const float *)a->dy + m * a->dy_stride + begin;
            const uint16_t *half = (const uint16_t *)a->dy + m * a->dy_stride + begin;
            if (a->dtype == FOCAL_F32)
                for (int64_t n = 0; n < count; n++) part[n] += wide[n];
            else
                for (int64_t n = 0; n < count; n++) part[n] += foci_bf16_to_float(half[n]);
        }
        for (int64_t n = 0; n < count; n++) sum[n] += part[n];
    }
    for (int64_t n = 0; n < count; n++) a->dbias[begin + n] = sum[n];
}

/* dw as a product. As it lies transposed, dy and x change places. */
static foci_matmul_args product_of_dw(const foci_matmul_dw_args *a)
{
    const bool swaps = a->dw_is_transposed;
    return (foci_matmul_args){.M = swaps ? a->K : a->N,
                              .N = swaps ? a->N : a->K,
                              .K = a->M,
                              .x = swaps ? a->x : a->dy,
                              .x_dtype = a->dtype,
                              .x_stride = swaps ? a->x_stride : a->dy_stride,
                              .x_is_transposed = true,
                              .w = swaps ? a->dy : a->x,
                              .w_dtype = a->dtype,
                              .w_is_transposed = true,
                              .w_stride = swaps ? a->dy_stride : a->x_stride,
                              .adds = a->adds,
                              .out = a->dw,
                              .out_dtype = FOCAL_F32,
                              .out_stride = swaps ? a->N : a->K};
}

/* What the check of the product leaves out. */
static focal_status check_dw(focal_ctx *ctx, const foci_matmul_dw_args *a)
{
    if ((a->dw_is_transposed ? a->dy_stride : a->x_stride) == 0) /* as w_stride it says no gaps */
        return foci_fail(ctx, FOCAL_EINVAL, "matmul_dw: stride 0 of %s",
                         a->dw_is_transposed ? "dy" : "x");
    if (!a->dbias) return FOCAL_OK;
    const size_t bytes = focal_dtype_bytes(a->dtype);
    foci_extent dy, x, dw, dbias;
    if (!foci_measure(a->M, a->N, a->dy_stride, bytes, &dy) ||
        !foci_measure(a->M, a->K, a->x_stride, bytes, &x) ||
        !foci_measure(a->N, a->K, a->K, sizeof *a->dw, &dw) ||
        !foci_measure(1, a->N, a->N, sizeof *a->dbias, &dbias))
        return foci_fail(ctx, FOCAL_EINVAL, "matmul_dw: dbias does not fit in memory");
    if (foci_overlap(a->dbias, dbias, a->dy, dy) || foci_overlap(a->dbias, dbias, a->x, x) ||
        foci_overlap(a->dbias, dbias, a->dw, dw))
        return foci_fail(ctx, FOCAL_EINVAL, "matmul_dw: dbias overlaps dy, x or dw");
    return FOCAL_OK;
}

focal_status foci_matmul_dw(focal_ctx *ctx, const foci_matmul_dw_args *a)
{
    static const foci_matmul_names names = {"matmul_dw", "dy", "x", "dw", "N", "K", "M"};
    static const foci_matmul_names swapped = {"matmul_dw", "x", "dy", "dw", "K", "N", "M"};
    if (!ctx) return FOCAL_EINVAL;
    if (!a) return foci_fail(ctx, FOCAL_EINVAL, "matmul_dw: there are no arguments");
    const foci_matmul_args product = product_of_dw(a);
    FOCAL_TRY(foci_matmul_check_as(ctx, &product, a->dw_is_transposed ? &swapped : &names));
    FOCAL_TRY(check_dw(ctx, a));
    FOCAL_TRY(multiply_in_pieces(ctx, &product));
    foci_matmul_dw_args call = *a; /* items take no const */
    if (a->dbias) foci_parallel(ctx, foci_pieces(a->N, BIAS_COLUMNS), sum_columns, &call);
    return FOCAL_OK;
}
