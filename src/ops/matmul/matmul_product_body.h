/* What all products of an instruction set share: a call as kernels see it, rows of x as packed
 * words, and outputs from their sums. Included by one file an instruction set, after its dialect.
 */
#ifndef FOCI_OPS_MATMUL_MATMUL_PRODUCT_BODY_H
#define FOCI_OPS_MATMUL_MATMUL_PRODUCT_BODY_H

#include "simd/tile.h"

#include "ops/matmul/matmul_kernels.h"
#include "ops/matmul/weights.h"

enum {
    LINE_WORDS = 16, /* of a cache line */
    SUM_WORDS = 256  /* words of a block of the sum */
};

/* A call as kernels see it. */
typedef struct product {
    const foci_matmul_args *a;
    foci_weights w;
    bool by_levels;  /* x and weights as whole numbers (levels_avx2.h); the counts below of those */
    int64_t words;   /* of a row, and of a panel for each output */
    bool alternates; /* packed rows of x, in strips, word by word; else they lie as they are */
    int64_t x_words; /* from row to row of packed x, zeros behind the first `words`; or room for
                        each row of a strip */
    const float *x;  /* packed rows */
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

/* Row k of x as it lies; NULL past the last. */
static inline const char *x_line(const foci_matmul_args *a, int64_t k)
{
    if (k >= a->K) return NULL;
    return (const char *)a->x + (size_t)(k * a->x_stride) * focal_dtype_bytes(a->x_dtype);
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

/* Outputs n .. n + count of row m from their sums (whole vectors of them), as `is` says: a copy of
 * the call, or of what a caller knows of it. */
typedef struct finish_kind {
    focal_dtype dtype;
    const float *bias;
    bool adds;
} finish_kind;

FOCI_INLINE void finish_row_as(const finish_kind is, char *row, int64_t n, const float *sums,
                               int64_t count)
{
    for (int64_t i = 0; i < count; i += VL) {
        const int64_t some = foci_min64(count - i, VL);
        vec sum = v_load(sums + i);
        if (is.bias) sum = v_add(sum, load_floats((const char *)is.bias, FOCAL_F32, n + i, some));
        if (is.adds) sum = v_add(sum, load_floats(row, is.dtype, n + i, some));
        store_floats(row, is.dtype, n + i, some, sum);
    }
}

/* Row m of out. */
static inline char *out_row(const foci_matmul_args *a, int64_t m)
{
    return (char *)a->out + m * a->out_stride * (a->out_dtype == FOCAL_BF16 ? 2 : 4);
}

static inline void finish_row(const foci_matmul_args *a, int64_t m, int64_t n, const float *sums,
                              int64_t count)
{
    const finish_kind is = {a->out_dtype, a->bias, a->adds};
    finish_row_as(is, out_row(a, m), n, sums, count);
}

static product product_of(const focal_ctx *ctx, const foci_matmul_args *args)
{
    const int64_t words = words_of(args->K);
    /* Whole vectors, and an odd number of cache lines: rows a power of two apart would meet in the
     * same few lines of the cache. */
    const int64_t lines = foci_pieces(words, LINE_WORDS) | 1;
    return (product){.a = args,
                     .w = foci_weights_of(ctx, args, true),
                     .words = words,
                     .x_words = lines * LINE_WORDS,
                     .sum_words = foci_pieces(words, foci_pieces(words, SUM_WORDS))};
}

#endif /* FOCI_OPS_MATMUL_MATMUL_PRODUCT_BODY_H */
