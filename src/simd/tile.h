/* The register tile that products are made of, in the vocabulary of simd/, and the packing of rows
 * into the order in which it reads them. Included by one file an instruction set, after its
 * dialect; everything is static.
 *
 * Packed data are 32-bit words: one float, or two bfloat16 that the dot product takes together
 * (PACK elements). Dimensions counted in words end in `words`. */
#ifndef FOCI_SIMD_TILE_H
#define FOCI_SIMD_TILE_H

#include "base/bf16.h"
#include "base/sizes.h"
#include "focal/base.h"

#define FOCI_INLINE static inline __attribute__((always_inline))

enum { NV = NR / VL }; /* vectors of a register tile's row */

static inline int64_t words_of(int64_t elements)
{
    return foci_pieces(elements, PACK);
}

/* Word `at` of tile_dot_rows(). Every ROWS_A_POINTER-th row has a pointer of its own, and those
 * between are reached by index, so that addresses and counters stay in registers. */
FOCI_INLINE void tile_dot_word(vec acc[MR][NV], const float *const row[MR / ROWS_A_POINTER],
                               int64_t lda, int64_t at, const float *b, const int nv,
                               const int rows)
{
    /* No loop over vectors: where there are two, compilers make fewer instructions of this. */
    const vec b0 = v_load(b), b1 = nv > 1 ? v_load(b + VL) : v_zero();
    const vec b2 = nv > 2 ? v_load(b + NR - VL) : v_zero();
#pragma GCC unroll 12
    for (int r = 0; r < rows; r++) {
        const vec x = v_set1(row[r / ROWS_A_POINTER][r % ROWS_A_POINTER * lda + at]);
        acc[r][0] = v_dot(acc[r][0], x, b0);
        if (nv > 1) acc[r][1] = v_dot(acc[r][1], x, b1);
        if (nv > 2) acc[r][NV - 1] = v_dot(acc[r][NV - 1], x, b2);
    }
}

/* acc[r][n] += sum over w of a[r][w] . b[w][n]: `rows` rows of a (a multiple of LOW_ROWS, at most
 * MR), `lda` words apart, in each `step` from word to word, against `nv` vectors of columns (1 ..
 * NV) of b, whose rows are NR words. No bit of a row depends on how many there are. */
FOCI_INLINE void tile_dot_rows(vec acc[MR][NV], const float *a, int64_t lda, const int step,
                               const float *b, int64_t words, const int nv, const int rows)
{
    const float *row[MR / ROWS_A_POINTER];
#pragma GCC unroll 12
    for (int n = 0; n * ROWS_A_POINTER < rows; n++) row[n] = a + (int64_t)ROWS_A_POINTER * n * lda;
    const int rest = (int)(words % WORDS_A_ROUND);
    int64_t at = 0;
    for (; words >= WORDS_A_ROUND; words -= WORDS_A_ROUND, b += (int64_t)NR * WORDS_A_ROUND) {
#pragma GCC unroll 4
        for (int u = 0; u < WORDS_A_ROUND; u++, at += step) {
            if (ROWS_AHEAD > 0 && step > 1)
                __builtin_prefetch(row[0] + at + (int64_t)ROWS_AHEAD * step);
            tile_dot_word(acc, row, lda, at, b + (int64_t)u * NR, nv, rows);
        }
    }
    for (int n = 0; n < rest; n++, b += NR, at += step)
        tile_dot_word(acc, row, lda, at, b, nv, rows);
}

FOCI_INLINE void tile_dot(vec acc[MR][NV], const float *a, int64_t lda, const float *b,
                          int64_t words, const int nv)
{
    tile_dot_rows(acc, a, lda, 1, b, words, nv, MR);
}

/* Of tiles with two vectors a row. */
FOCI_INLINE void tile_load(vec acc[MR][2], const float *from, int64_t stride)
{
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        acc[r][0] = v_load(from + r * stride);
        acc[r][1] = v_load(from + r * stride + VL);
    }
}

FOCI_INLINE void tile_store(float *to, int64_t stride, vec acc[MR][2])
{
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        v_store(to + r * stride, acc[r][0]);
        v_store(to + r * stride + VL, acc[r][1]);
    }
}

/* A block of q8_0: a float16 scale, then levels of one byte each. */
enum { Q8_LEVELS = 32, Q8_BYTES = 34, Q8_SCALE_BYTES = 2 };

/* The levels of a row of such blocks from element `at` on. VL * PACK of them lie within one block,
 * where `at` is a multiple of that. */
static inline const int8_t *q8_levels(const char *row, int64_t at)
{
    return (const int8_t *)row + at / Q8_LEVELS * Q8_BYTES + Q8_SCALE_BYTES + at % Q8_LEVELS;
}

/* One row of such blocks as packed words. */
static inline void expand_q8(float *words, const char *row, int64_t width)
{
    for (int64_t at = 0; at < width; at += (int64_t)VL * PACK) {
        const char *block = row + at / Q8_LEVELS * Q8_BYTES;
        const vec scale = v_spread_f16((const uint8_t *)block);
        v_store(words + at / PACK, v_scale_levels(q8_levels(row, at), scale));
    }
}

/* VL words of a row of `width` elements, from element `at` on; zeros past its end. */
static inline vec words_at(const char *row, focal_dtype dtype, int64_t at, int64_t width)
{
    const int64_t left = width - at;
    if (left <= 0) return v_zero();
    if (dtype == FOCAL_F32) {
        const float *from = (const float *)(const void *)row + at;
        return left >= VL ? v_load(from) : v_load_some(from, left);
    }
    const char *from = row + 2 * at;
    if (left >= (int64_t)VL * PACK) {
        if (PACK == 2) return v_load_words(from);
        return v_load_bf16((const uint16_t *)(const void *)from);
    }
    return v_load_packed_some(from, left);
}

/* NR rows (NULL: zeros) side by side: word w of row n becomes panel[w][n]. */
static inline void pack_transposed(float *panel, const char *const row[NR], focal_dtype dtype,
                                   int64_t width)
{
    const int64_t words = words_of(width);
    for (int half = 0; half < NR; half += VL) {
        for (int64_t w = 0; w < words; w += VL) {
            vec block[VL];
            for (int n = 0; n < VL; n++)
                block[n] =
                    row[half + n] ? words_at(row[half + n], dtype, w * PACK, width) : v_zero();
            v_transpose(block);
            const int64_t count = foci_min64(words - w, VL);
            for (int64_t n = 0; n < count; n++) v_store(panel + (w + n) * NR + half, block[n]);
        }
    }
}

/* The packed words of two vectors of columns, from `column` on, of PACK rows (the first and the
 * last; NULL: zeros). */
FOCI_INLINE void load_columns(const char *first, const char *last, focal_dtype dtype,
                              int64_t column, int64_t width, vec *lo, vec *hi)
{
    /* Two halves of one row, or the same columns of two rows. */
    *lo = first ? words_at(first, dtype, column, width) : v_zero();
    *hi = last ? words_at(last, dtype, column + (PACK == 1 ? VL : 0), width) : v_zero();
}

/* One row of packed words. */
static inline void pack_row(float *words, const char *row, focal_dtype dtype, int64_t width)
{
    const int64_t count = words_of(width);
    for (int64_t w = 0; w < count; w += VL) {
        const vec x = words_at(row, dtype, w * PACK, width);
        if (count - w >= VL)
            v_store(words + w, x);
        else
            v_store_some(words + w, x, count - w);
    }
}

/* `width` floats to a row of dtype. */
static inline void store_row(char *row, focal_dtype dtype, const float *from, int64_t width)
{
    if (dtype == FOCAL_F32) {
        memcpy(row, from, (size_t)width * sizeof *from);
        return;
    }
    uint16_t *to = (uint16_t *)(void *)row;
    int64_t d = 0;
    for (; d + VL <= width; d += VL) v_store_bf16(to + d, v_load(from + d));
    for (; d < width; d++) to[d] = foci_bf16_from_float(from[d]);
}

#endif /* FOCI_SIMD_TILE_H */
