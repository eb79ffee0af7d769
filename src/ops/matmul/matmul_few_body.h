/* Few rows of x against weights that are read once, in rows as they lie, each expanded into the
 * first cache and multiplied there. Included by one file an instruction set, after its dialect. */
#ifndef FOCI_OPS_MATMUL_MATMUL_FEW_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_FEW_BODY_H

#include "base/ctx.h"
#include "base/pool.h"
#include "ops/matmul/matmul_product_body.h"

enum {
    DOT_W = 4,          /* rows of w at a time, */
    DOT_X = VL / DOT_W, /* rows of x: VL sums, which end as the lanes of one vector */
    FEW_COLUMNS = 32,   /* outputs of an item */
    FEW_ROUNDED = (FOCI_MATMUL_FEW + DOT_X - 1) / DOT_X * DOT_X
};

/* sums[c][r], `stride` apart, = row c of x against row r of w: DOT_W rows of type `dtype`, `count`
 * rows of x. Every sum has lanes of its own, so that no bit depends on count. */
FOCI_INLINE void dot_rows(const product *p, const char *const w[DOT_W], const float *x, float *sums,
                          int64_t stride, const focal_dtype dtype, const int count)
{
    vec acc[DOT_X][DOT_W];
#pragma GCC unroll 4
    for (int c = 0; c < DOT_X; c++)
#pragma GCC unroll 4
        for (int r = 0; r < DOT_W; r++) acc[c][r] = v_zero();
    for (int64_t at = 0; at < p->words; at += VL) {
        vec b[DOT_W];
#pragma GCC unroll 4
        for (int r = 0; r < DOT_W; r++) b[r] = words_at(w[r], dtype, at * PACK, p->a->K);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const vec words = v_load(x + c * p->x_words + at);
#pragma GCC unroll 4
            for (int r = 0; r < DOT_W; r++) acc[c][r] = v_dot(acc[c][r], words, b[r]);
        }
    }
    vec quarters[DOT_X];
#pragma GCC unroll 4
    for (int c = 0; c < DOT_X; c++)
        quarters[c] = v_sum_quarters(acc[c][0], acc[c][1], acc[c][2], acc[c][3]);
    float lanes[VL];
    v_store(lanes, v_sum_lanes(quarters));
    for (int c = 0; c < count; c++)
        memcpy(sums + c * stride, lanes + (int64_t)c * DOT_W, DOT_W * sizeof *sums);
}

/* The same for 1 .. DOT_X rows of x, of which there are zeros up to a multiple of DOT_X. */
FOCI_INLINE void dot_some_rows(const product *p, const char *const w[DOT_W], const float *x,
                               float *sums, int64_t stride, const focal_dtype dtype, int64_t count)
{
    if (count == 1)
        dot_rows(p, w, x, sums, stride, dtype, 1);
    else if (count == 2)
        dot_rows(p, w, x, sums, stride, dtype, 2);
    else
        dot_rows(p, w, x, sums, stride, dtype, DOT_X);
}

typedef struct few_call {
    const product *p;
    char *scratch; /* DOT_W expanded rows a thread */
    size_t row_bytes;
} few_call;

static void multiply_columns(void *arg, int64_t index, int32_t thread)
{
    const few_call *f = arg;
    const product *p = f->p;
    const foci_matmul_args *a = p->a;
    const int64_t begin = index * FEW_COLUMNS, end = foci_min64(a->N, begin + FEW_COLUMNS);
    float sums[FEW_ROUNDED][FEW_COLUMNS] = {{0}};
    for (int64_t n = begin; n < end; n += DOT_W) {
        const char *w[DOT_W];
        for (int64_t r = 0; r < DOT_W; r++) {
            char *buffer = f->scratch + ((size_t)thread * DOT_W + (size_t)r) * f->row_bytes;
            /* Past the end the last row stands in; its sum is not used. */
            w[r] = n + r < end ? foci_weights_row(&p->w, n + r, 0, a->K, buffer) : w[r - 1];
        }
        for (int64_t m = 0; m < a->M; m += DOT_X) {
            const float *x = p->x + m * p->x_words;
            float *to = &sums[m][n - begin];
            if (p->w.row_dtype == FOCAL_F32)
                dot_some_rows(p, w, x, to, FEW_COLUMNS, FOCAL_F32, a->M - m);
            else
                dot_some_rows(p, w, x, to, FEW_COLUMNS, FOCAL_BF16, a->M - m);
        }
    }
    for (int64_t m = 0; m < a->M; m++) finish_row(a, m, begin, sums[m], end - begin);
}

static focal_status multiply_few(focal_ctx *ctx, product *p)
{
    const int64_t rows = foci_round_up(p->a->M, DOT_X);
    const bool expands = !foci_weights_in_place(&p->w);
    few_call f = {.p = p, .row_bytes = expands ? (size_t)p->a->K * sizeof(float) : 0};
    focal_status status = FOCAL_ENOMEM;
    f.scratch = foci_scratch(ctx, (size_t)focal_ctx_threads(ctx) * DOT_W, f.row_bytes);
    float *x = foci_scratch(ctx, (size_t)rows, (size_t)p->x_words * sizeof(float));
    if (!f.scratch || !x) goto done;
    p->x = x;
    for (int64_t m = 0; m < rows; m++) pack_x(p, x, 0, m, p->a->M);
    foci_parallel(ctx, foci_pieces(p->a->N, FEW_COLUMNS), multiply_columns, &f);
    status = FOCAL_OK;
done:
    foci_scratch_free(ctx, x);
    foci_scratch_free(ctx, f.scratch);
    return status;
}

#endif /* FOCI_OPS_MATMUL_MATMUL_FEW_BODY_H */
