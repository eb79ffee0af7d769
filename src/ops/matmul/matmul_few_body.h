/* Few rows of x against weights that are read once, in rows as they lie, each expanded into the
 * first cache and multiplied there; and what all products of an instruction set share. */
#ifndef FOCI_OPS_MATMUL_MATMUL_FEW_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_FEW_BODY_H

#include "simd/tile.h"

#include "base/ctx.h"
#include "base/pool.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/matmul/weights.h"

enum {
    LINE_WORDS = 16,    /* of a cache line */
    SUM_WORDS = 256,    /* words of a block of the sum */
    DOT_W = 4,          /* rows of w at a time, */
    DOT_X = VL / DOT_W, /* rows of x: VL sums, which end as the lanes of one vector */
    FEW_COLUMNS = 32,   /* outputs of an item */
    FEW_ROUNDED = (FOCI_MATMUL_FEW + DOT_X - 1) / DOT_X * DOT_X
};

/* A call as kernels see it. */
typedef struct product {
    const foci_matmul_args *a;
    foci_weights w;
    int64_t words;     /* of a row */
    int64_t x_words;   /* from row to row of packed x, zeros behind the first `words`; or where x
                          lies transposed, room for each row of tiles whose rows alternate */
    const float *x;    /* packed rows */
    int64_t sum_words; /* of a block of the sum, all but the last alike */
} product;

/* Packs row m of the `rows` from `first` on into x; rows past those become zeros. */
static void pack_x(const product *p, float *x, int64_t first, int64_t m, int64_t rows)
{
    const foci_matmul_args *a = p->a;
    float *to = x + m * p->x_words;
    const int64_t filled = m < rows ? p->words : 0;
    const size_t offset = (size_t)((first + m) * a->x_stride) * focal_dtype_bytes(a->x_dtype);
    if (m < rows) pack_row(to, (const char *)a->x + offset, a->x_dtype, a->K);
    memset(to + filled, 0, (size_t)(p->x_words - filled) * sizeof *to);
}

/* `count` (1 .. VL) elements of either type from `at` on as floats. */
static inline vec load_floats(const char *row, focal_dtype dtype, int64_t at, int64_t count)
{
    if (dtype == FOCAL_F32) {
        const float *from = (const float *)(const void *)row + at;
        return count == VL ? v_load(from) : v_load_some(from, count);
    }
    const uint16_t *from = (const uint16_t *)(const void *)row + at;
    if (count == VL) return v_load_bf16(from);
    uint16_t some[VL] = {0};
    memcpy(some, from, (size_t)count * sizeof *from);
    return v_load_bf16(some);
}

static inline void store_floats(char *row, focal_dtype dtype, int64_t at, int64_t count, vec x)
{
    if (dtype == FOCAL_F32) {
        float *to = (float *)(void *)row + at;
        if (count == VL)
            v_store(to, x);
        else
            v_store_some(to, x, count);
        return;
    }
    uint16_t *to = (uint16_t *)(void *)row + at, some[VL];
    if (count == VL) {
        v_store_bf16(to, x);
        return;
    }
    v_store_bf16(some, x);
    memcpy(to, some, (size_t)count * sizeof *to);
}

/* Outputs n .. n + count of row m from their sums (whole vectors of them). */
static inline void finish_row(const foci_matmul_args *a, int64_t m, int64_t n, const float *sums,
                              int64_t count)
{
    char *row = (char *)a->out + m * a->out_stride * (a->out_dtype == FOCAL_BF16 ? 2 : 4);
    for (int64_t i = 0; i < count; i += VL) {
        const int64_t some = foci_min64(count - i, VL);
        vec sum = v_load(sums + i);
        if (a->bias) sum = v_add(sum, load_floats((const char *)a->bias, FOCAL_F32, n + i, some));
        if (a->adds) sum = v_add(sum, load_floats(row, a->out_dtype, n + i, some));
        store_floats(row, a->out_dtype, n + i, some, sum);
    }
}

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
