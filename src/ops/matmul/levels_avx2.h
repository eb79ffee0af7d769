/* Many rows of x, rounded to 8 bits, against the levels of quantised weights, on AVX2: bytes are
 * multiplied four times as many at a time as floats. A run of 16 elements of x shares a scale, and
 * its products with levels are summed exactly before they are scaled:
 *
 *     y = sum over runs of  d_w d_x (sum of q_w q_x)  +  sum over runs of  m_w d_x (sum of q_x)
 *
 * (ops/matmul/bytes.h has the same for 16 bits). The second sum is a product of floats, a
 * thirty-second or a sixteenth as long, and the tile's sums begin with it.
 *
 * A panel is NR outputs side by side: words of four levels (K / 4), scales (K / 16) and minima (K /
 * run), each NR to a line. Packed rows of x alternate in strips like those of floats: words of four
 * bytes, scales, and what minima are multiplied with, for runs of 16 and for runs of 32. */
#ifndef FOCI_OPS_MATMUL_LEVELS_AVX2_H
#define FOCI_OPS_MATMUL_LEVELS_AVX2_H

#include <math.h>

#include "ops/matmul/bytes_avx2.h"
#include "ops/matmul/matmul_product_body.h"

enum {
    LEVEL_RUN = 16,   /* elements of x that share a scale */
    LEVEL_WORD = 4,   /* elements of a word */
    LEVEL_MOST = 127, /* of x */
    LEVEL_STRIP = MR, /* rows of x that alternate */
    HAS_LEVELS = true
};

/* Words of a run, all four or two, whose products fit in 16 bits as they are summed. */
static bool sums_whole_runs(focal_dtype dtype)
{
    return 2 * (LEVEL_RUN / LEVEL_WORD) * foci_byte_type_of(dtype)->largest * LEVEL_MOST <=
           INT16_MAX;
}

static inline int64_t level_scales_at(int64_t K)
{
    return K / LEVEL_WORD;
}

/* Where the factors of minima begin in a panel, and those for runs of 16 in a row of x. */
static inline int64_t level_mins_at(int64_t K)
{
    return level_scales_at(K) + K / LEVEL_RUN;
}

/* Words of a panel for each output, and of a row of x. */
static int64_t level_panel_words(const foci_matmul_args *a)
{
    return level_mins_at(a->K) + a->K / foci_byte_type_of(a->w_dtype)->run;
}

static int64_t level_x_words(int64_t K)
{
    return level_mins_at(K) + K / LEVEL_RUN + K / LEVEL_RUN / 2;
}

/* ---- x ---- */

FOCI_INLINE float largest_lane(__m256 x)
{
    __m128 half = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    half = _mm_max_ps(half, _mm_movehl_ps(half, half));
    return _mm_cvtss_f32(_mm_max_ss(half, _mm_movehdup_ps(half)));
}

/* A run of x: d, its bytes, and d times their sum. What is not finite makes both numbers NaN. */
typedef struct level_run {
    __m128i bytes;
    float d, sum;
} level_run;

FOCI_INLINE level_run round_run(const uint16_t *x)
{
    const float least = 0x1p-100F; /* below it a run is 0: its inverse would overflow */
    const __m256 a = v_load_bf16(x), b = v_load_bf16(x + VL);
    if ((v_odd_floats(a) | v_odd_floats(b)) != 0) return (level_run){_mm_setzero_si128(), NAN, NAN};
    const float most = largest_lane(_mm256_max_ps(v_abs(a), v_abs(b)));
    if (!(most > least)) return (level_run){_mm_setzero_si128(), 0.0F, 0.0F};
    const float d = most / (float)LEVEL_MOST;
    const __m256 inverse = _mm256_set1_ps((float)LEVEL_MOST / most);
    const __m256i p = _mm256_cvtps_epi32(_mm256_mul_ps(a, inverse));
    const __m256i q = _mm256_cvtps_epi32(_mm256_mul_ps(b, inverse));
    const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(p, q), 0xD8);
    const __m128i bytes =
        _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
    /* 128 + q without a sign, so that one instruction sums eight of them. */
    const __m128i sums =
        _mm_sad_epu8(_mm_xor_si128(bytes, _mm_set1_epi8((char)0x80)), _mm_setzero_si128());
    const int sum = _mm_cvtsi128_si32(sums) + _mm_extract_epi16(sums, 4) - 128 * LEVEL_RUN;
    return (level_run){bytes, d, d * (float)sum};
}

/* Packs one of the rows of a strip; NULL: a row of zeros. */
static void pack_level_row(const uint16_t *x, int64_t K, float *strip)
{
    int32_t *words = (int32_t *)(void *)strip;
    float *d = strip + level_scales_at(K) * LEVEL_STRIP;
    float *sums = strip + level_mins_at(K) * LEVEL_STRIP;
    float *pairs = sums + K / LEVEL_RUN * LEVEL_STRIP;
    float before = 0.0F;
    for (int64_t run = 0; run < K / LEVEL_RUN; run++) {
        const level_run r = x ? round_run(x + run * LEVEL_RUN) : (level_run){0};
        int32_t four[LEVEL_RUN / LEVEL_WORD];
        _mm_storeu_si128((__m128i *)(void *)four, r.bytes);
        for (int n = 0; n < LEVEL_RUN / LEVEL_WORD; n++, words += LEVEL_STRIP) *words = four[n];
        d[run * LEVEL_STRIP] = r.d;
        sums[run * LEVEL_STRIP] = r.sum;
        if (run % 2 == 1) pairs[run / 2 * LEVEL_STRIP] = before + r.sum;
        before = r.sum;
    }
}

/* Packs a strip: rows m .. m + MR of the `rows` from `first` on, and zeros past those. */
static void pack_level_strip(const product *p, float *x, int64_t first, int64_t m, int64_t rows)
{
    const foci_matmul_args *a = p->a;
    for (int64_t r = 0; r < LEVEL_STRIP; r++) {
        const uint16_t *row = (const uint16_t *)a->x + (first + m + r) * a->x_stride;
        pack_level_row(m + r < rows ? row : NULL, a->K, x + m * p->x_words + r);
    }
}

/* ---- Weights ---- */

/* Block `part` of 32 elements of a row, of NULL zeros. */
FOCI_INLINE __m256i part_levels(const uint8_t *row, const focal_dtype type, int64_t part)
{
    if (!row) return _mm256_setzero_si256();
    if (is_k_type(type))
        return k_levels(row + part / 8 * k_block_bytes(type), type, (int)(part % 8));
    return block_levels(row + part * 2 * words_of_type(type).words, type);
}

/* Scales and minima of a row, into the column `to` of a panel's scales and `mins` of its minima. */
FOCI_INLINE void pack_level_factors(const uint8_t *row, const focal_dtype type, int64_t K,
                                    float *to, float *mins)
{
    const foci_byte_type *is = foci_byte_type_of(type);
    const float offset = is->offset == 0.0F ? 1.0F : is->offset;
    const int64_t group = is_k_type(type) ? is->group : 1, twice = is->run / LEVEL_RUN;
    for (int64_t run = 0; run < K / is->run; run += group) {
        float d[16], m[16];
        if (is_k_type(type)) {
            __m256 both[2][2];
            k_factors(row + run / group * k_block_bytes(type), type, both[0], both[1]);
            for (int n = 0; n < group / 8; n++) {
                _mm256_storeu_ps(d + (ptrdiff_t)8 * n, both[0][n]);
                _mm256_storeu_ps(m + (ptrdiff_t)8 * n, both[1][n]);
            }
        } else {
            const block_words at = words_of_type(type);
            const uint8_t *block = row + run * 2 * at.words;
            d[0] = _mm_cvtss_f32(read_half(block));
            m[0] = _mm_cvtss_f32(read_half(block + (size_t)2 * at.m));
        }
        for (int64_t n = 0; n < group; n++, mins += NR) {
            for (int64_t i = 0; i < twice; i++, to += NR) *to = d[n];
            *mins = offset * m[n];
        }
    }
}

/* The weights of outputs n .. n + NR, zeros past N. */
FOCI_INLINE void pack_levels_of(const product *p, int64_t n, float *panel, const focal_dtype type)
{
    const foci_matmul_args *a = p->a;
    memset(panel + level_scales_at(a->K) * NR, 0,
           (size_t)((level_panel_words(a) - level_scales_at(a->K)) * NR) * sizeof *panel);
    for (int64_t first = 0; first < NR; first += VL) {
        const uint8_t *row[VL];
        for (int64_t r = 0; r < VL; r++) {
            const int64_t at = n + first + r;
            row[r] = at < a->N ? (const uint8_t *)p->w.data + (size_t)at * p->w.row_bytes : NULL;
            float *column = panel + first + r;
            if (row[r])
                pack_level_factors(row[r], type, a->K, column + level_scales_at(a->K) * NR,
                                   column + level_mins_at(a->K) * NR);
        }
        for (int64_t part = 0; part < a->K / 32; part++) {
            vec block[VL];
#pragma GCC unroll 8
            for (int r = 0; r < VL; r++)
                block[r] = _mm256_castsi256_ps(part_levels(row[r], type, part));
            v_transpose(block);
            float *to = panel + part * VL * NR + first;
            for (int w = 0; w < VL; w++) v_store(to + (ptrdiff_t)w * NR, block[w]);
        }
    }
}

static void pack_levels(const product *p, int64_t n, float *panel)
{
    switch (p->a->w_dtype) {
    case FOCAL_Q4_0:
        pack_levels_of(p, n, panel, FOCAL_Q4_0);
        break;
    case FOCAL_Q4_1:
        pack_levels_of(p, n, panel, FOCAL_Q4_1);
        break;
    case FOCAL_Q5_0:
        pack_levels_of(p, n, panel, FOCAL_Q5_0);
        break;
    case FOCAL_Q5_1:
        pack_levels_of(p, n, panel, FOCAL_Q5_1);
        break;
    case FOCAL_Q2_K:
        pack_levels_of(p, n, panel, FOCAL_Q2_K);
        break;
    case FOCAL_Q3_K:
        pack_levels_of(p, n, panel, FOCAL_Q3_K);
        break;
    case FOCAL_Q4_K:
        pack_levels_of(p, n, panel, FOCAL_Q4_K);
        break;
    case FOCAL_Q5_K:
        pack_levels_of(p, n, panel, FOCAL_Q5_K);
        break;
    default:
        pack_levels_of(p, n, panel, FOCAL_Q6_K);
        break;
    }
}

/* ---- The tile ---- */

/* dots += pairs of products. In these words, because compilers order whole numbers as they like and
 * then have more of them at hand than registers. */
FOCI_INLINE __m256i add_products(__m256i dots, __m256i levels, __m256i four)
{
    __m256i pairs;
    __asm__("vpmaddubsw %3, %2, %1\n\tvpaddw %1, %0, %0"
            : "+x"(dots), "=&x"(pairs)
            : "x"(levels), "x"(four));
    return dots;
}

/* sums (MR,NR) += `steps` words of a run, scaled. */
FOCI_INLINE void add_level_words(const int32_t *x, const float *d_x, const float *w,
                                 const float *d_w, float *sums, const int rows, const int steps)
{
    __m256i dots[MR][2];
#pragma GCC unroll 4
    for (int s = 0; s < steps; s++) {
        const __m256i w0 = load_bytes(w + (ptrdiff_t)s * NR);
        const __m256i w1 = load_bytes(w + (ptrdiff_t)s * NR + VL);
#pragma GCC unroll 6
        for (int r = 0; r < rows; r++) {
            const __m256i four = _mm256_set1_epi32(x[(ptrdiff_t)s * LEVEL_STRIP + r]);
            dots[r][0] =
                s == 0 ? _mm256_maddubs_epi16(w0, four) : add_products(dots[r][0], w0, four);
            dots[r][1] =
                s == 0 ? _mm256_maddubs_epi16(w1, four) : add_products(dots[r][1], w1, four);
        }
    }
    const __m256i ones = _mm256_set1_epi16(1);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        const __m256 d = _mm256_broadcast_ss(d_x + r);
#pragma GCC unroll 2
        for (int v = 0; v < NV; v++) {
            float *to = sums + (ptrdiff_t)r * NR + (ptrdiff_t)v * VL;
            const __m256 dot = _mm256_cvtepi32_ps(_mm256_madd_epi16(dots[r][v], ones));
            const __m256 scale = _mm256_mul_ps(d, v_load(d_w + (ptrdiff_t)v * VL));
            v_store(to, _mm256_fmadd_ps(dot, scale, v_load(to)));
        }
    }
    __asm__ volatile("" ::: "memory"); /* sums stay there: registers are for whole numbers */
}

/* sums (MR,NR) of `rows` rows of a strip against a panel. */
FOCI_INLINE void sum_level_tile(const foci_matmul_args *a, const float *strip, const float *panel,
                                float *sums, const int rows, const int steps)
{
    const int64_t K = a->K, run = foci_byte_type_of(a->w_dtype)->run;
    const int64_t factors = level_mins_at(K) + (run == LEVEL_RUN ? 0 : K / LEVEL_RUN);
    vec acc[MR][NV];
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) acc[r][0] = acc[r][1] = v_zero();
    tile_dot_rows(acc, strip + factors * LEVEL_STRIP, 1, LEVEL_STRIP, panel + level_mins_at(K) * NR,
                  K / run, NV, rows);
#pragma GCC unroll 6
    for (int r = 0; r < rows; r++) {
        v_store(sums + (ptrdiff_t)r * NR, acc[r][0]);
        v_store(sums + (ptrdiff_t)r * NR + VL, acc[r][1]);
    }
    const int32_t *x = (const int32_t *)(const void *)strip;
    const float *d_x = strip + level_scales_at(K) * LEVEL_STRIP;
    const float *d_w = panel + level_scales_at(K) * NR, *w = panel;
    for (int64_t n = 0; n < K / LEVEL_RUN; n++, d_x += LEVEL_STRIP, d_w += NR) {
        for (int s = 0; s < LEVEL_RUN / LEVEL_WORD; s += steps) {
            add_level_words(x, d_x, w, d_w, sums, rows, steps);
            x += (ptrdiff_t)steps * LEVEL_STRIP;
            w += (ptrdiff_t)steps * NR;
        }
    }
}

/* The same for 1 .. MR rows, no tile higher than it must be. */
static void sum_levels(const product *p, int64_t m, int64_t rows, const float *panel, float *sums)
{
    const float *strip = p->x + m * p->x_words;
    const bool is_whole = sums_whole_runs(p->a->w_dtype);
    if (is_whole && rows > LOW_ROWS)
        sum_level_tile(p->a, strip, panel, sums, MR, 4);
    else if (is_whole)
        sum_level_tile(p->a, strip, panel, sums, LOW_ROWS, 4);
    else if (rows > LOW_ROWS)
        sum_level_tile(p->a, strip, panel, sums, MR, 2);
    else
        sum_level_tile(p->a, strip, panel, sums, LOW_ROWS, 2);
}

#endif /* FOCI_OPS_MATMUL_LEVELS_AVX2_H */
