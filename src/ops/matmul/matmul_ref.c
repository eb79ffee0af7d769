/* Reference product: one element at a time, sums in double. This file defines the answer, so it
 * stays slow and plain; speed belongs to the other kernels. */
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/matmul/weights.h"

typedef struct ref_call {
    const foci_matmul_args *a;
    foci_weights w;
} ref_call;

static bool can_run(const focal_ctx *ctx, const foci_matmul_args *args)
{
    (void)args;
    return foci_on_host(ctx); /* any shape, but not another device's memory */
}

/* Element n of a row that may lie at any address. */
static float element(const char *row, int64_t n, focal_dtype dtype)
{
    float wide;
    uint16_t half;
    if (dtype == FOCAL_F32) {
        memcpy(&wide, row + n * (int64_t)sizeof wide, sizeof wide);
        return wide;
    }
    memcpy(&half, row + n * (int64_t)sizeof half, sizeof half);
    return foci_bf16_to_float(half);
}

static float x_element(const foci_matmul_args *a, int64_t m, int64_t k)
{
    const int64_t row = a->x_is_transposed ? k : m;
    const size_t bytes = (size_t)a->x_stride * focal_dtype_bytes(a->x_dtype);
    return element((const char *)a->x + (size_t)row * bytes, a->x_is_transposed ? m : k,
                   a->x_dtype);
}

/* Weights k .. k + count of output n, as floats. */
static void read_weights(const ref_call *c, int64_t n, int64_t k, int64_t count, float *to)
{
    float expanded[FOCI_WEIGHT_PIECE];
    if (!c->a->w_is_transposed) {
        const char *row = foci_weights_row(&c->w, n, k, count, expanded);
        for (int64_t i = 0; i < count; i++) to[i] = element(row, i, c->w.row_dtype);
        return;
    }
    const int64_t in_block = n % c->w.block;
    for (int64_t i = 0; i < count; i++) {
        const char *block = foci_weights_row(&c->w, k + i, n - in_block, c->w.block, expanded);
        to[i] = element(block, in_block, c->w.row_dtype);
    }
}

static void finish(const foci_matmul_args *a, int64_t m, int64_t n, double sum)
{
    char *row = (char *)a->out + (size_t)(m * a->out_stride) * focal_dtype_bytes(a->out_dtype);
    if (a->bias) sum += (double)a->bias[n];
    if (a->adds) sum += (double)element(row, n, a->out_dtype);
    const float wide = (float)sum;
    const uint16_t half = foci_bf16_from_float(wide);
    if (a->out_dtype == FOCAL_F32)
        memcpy(row + n * (int64_t)sizeof wide, &wide, sizeof wide);
    else
        memcpy(row + n * (int64_t)sizeof half, &half, sizeof half);
}

/* One output column of all rows; at most REF_ROWS sums at a time. */
enum { REF_ROWS = 64 };

static void column(void *arg, int64_t n, int32_t thread)
{
    (void)thread;
    const ref_call *c = arg;
    const foci_matmul_args *a = c->a;
    for (int64_t first = 0; first < a->M; first += REF_ROWS) {
        const int64_t rows = foci_min64(a->M - first, REF_ROWS);
        double sum[REF_ROWS] = {0};
        for (int64_t k = 0; k < a->K; k += FOCI_WEIGHT_PIECE) {
            const int64_t count = foci_min64(a->K - k, FOCI_WEIGHT_PIECE);
            float w[FOCI_WEIGHT_PIECE];
            read_weights(c, n, k, count, w);
            for (int64_t m = 0; m < rows; m++)
                for (int64_t i = 0; i < count; i++)
                    sum[m] += (double)x_element(a, first + m, k + i) * (double)w[i];
        }
        for (int64_t m = 0; m < rows; m++) finish(a, first + m, n, sum[m]);
    }
}

static focal_status run(focal_ctx *ctx, const foci_matmul_args *args)
{
    ref_call call = {.a = args, .w = foci_weights_of(ctx, args, true)};
    foci_parallel(ctx, args->N, column, &call);
    return FOCAL_OK;
}

const foci_matmul_kernel foci_matmul_ref = {.name = "ref", .can = can_run, .run = run};
