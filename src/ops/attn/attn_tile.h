/* What forward and backward need beside the register tile (simd/tile.h): key intervals, the tile
 * that keeps infinities from zero weights, values packed by columns. Included by one file an
 * instruction set, after its dialect; everything is static. */
#ifndef FOCI_OPS_ATTN_ATTN_TILE_H
#define FOCI_OPS_ATTN_ATTN_TILE_H

#include "simd/tile.h"

/* Bits of the NR keys from `key` on that lie in [lo, hi). */
static inline uint32_t interval_bits(int64_t key, int64_t lo, int64_t hi)
{
    const int64_t from = foci_min64(foci_max64(lo - key, 0), NR);
    const int64_t to = foci_min64(foci_max64(hi - key, 0), NR);
    const uint64_t bits = (((uint64_t)1 << to) - 1) & ~(((uint64_t)1 << from) - 1);
    return (uint32_t)bits;
}

/* Clears the elements of `word` that meet a zero in `other`. */
static inline float word_where_met(float word, float other)
{
    if (PACK == 1) return other == 0.0F ? 0.0F : word;
    uint32_t x, y;
    memcpy(&x, &word, sizeof x);
    memcpy(&y, &other, sizeof y);
    if ((y & 0x00007FFFU) == 0) x &= 0xFFFF0000U;
    if ((y & 0x7FFF0000U) == 0) x &= 0x0000FFFFU;
    memcpy(&word, &x, sizeof x);
    return word;
}

/* sums (MR rows, `stride` apart, NR columns) += a b, where a weight of 0 in a must not meet the
 * infinities and NaNs in b: row by row, with what it does not see cleared. The same bits as
 * tile_dot() where b is finite. At most NR words. */
static __attribute__((noinline, unused)) void tile_dot_odd_right(float *sums, int64_t stride,
                                                                 const float *a, int64_t lda,
                                                                 const float *b, int64_t words)
{
    for (int row = 0; row < MR; row++) {
        float cleared[NR * NR];
        for (int64_t w = 0; w < words; w++)
            for (int n = 0; n < NR; n++)
                cleared[w * NR + n] = word_where_met(b[w * NR + n], a[row * lda + w]);
        vec acc[MR][2];
        tile_load(acc, sums, stride);
        tile_dot(acc, a, lda, cleared, words, 2);
        float result[MR * NR];
        tile_store(result, NR, acc);
        memcpy(sums + row * stride, result + (int64_t)row * NR, NR * sizeof *sums);
    }
}

/* `count` rows (a multiple of PACK; NULL: zeros), cut into panels of NR columns: panel c holds
 * words [row / PACK][column]. Panels are `count / PACK * NR` words long, columns past the width
 * are zero. Returns whether an infinity or a NaN was among them. */
static inline bool pack_columns(float *panels, const char *const *row, int64_t count,
                                focal_dtype dtype, int64_t width)
{
    uint32_t odd = 0;
    for (int64_t column = 0; column < width; column += NR) {
        for (int64_t n = 0; n < count; n += PACK) {
            vec lo, hi;
            load_columns(row[n], row[n + PACK - 1], dtype, column, width, &lo, &hi);
            odd |= v_odd_words(lo) | v_odd_words(hi);
            v_zip(&lo, &hi);
            v_store(panels, lo);
            v_store(panels + VL, hi);
            panels += NR;
        }
    }
    return odd != 0;
}

/* Cuts pieces from one allocation; base NULL only counts. */
typedef struct bump {
    char *base;
    int64_t used;
} bump;

static void *bump_take(bump *b, int64_t count, size_t size)
{
    void *piece = b->base ? b->base + b->used : NULL;
    b->used += foci_round_up(count * (int64_t)size, 64);
    return piece;
}

#endif /* FOCI_OPS_ATTN_ATTN_TILE_H */
