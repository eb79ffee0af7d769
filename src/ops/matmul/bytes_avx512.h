/* Blocks of weights times bytes of x, on AVX-512 with byte dot products (VNNI): read once, where
 * they lie, and unpacked in registers, at the speed of memory.
 *
 * It is all about slots of the vector units. Four blocks of 32 make one step: two loads and one
 * permutation bring their bytes together, one multiplication makes all their factors. */
#ifndef FOCI_OPS_MATMUL_BYTES_AVX512_H
#define FOCI_OPS_MATMUL_BYTES_AVX512_H

#include <immintrin.h>
#include <string.h>

#include "ops/matmul/bytes_x86.h"

/* Sums of one row of w with one row of x: of scaled dot products, and of what the minima give. Of
 * those only some lanes count (min_lanes); the others hold what was cheaper to add than to drop. */
typedef struct byte_sums {
    __m512 dots, mins;
} byte_sums;

/* Loaded once and kept: gcc would load it again for every use, and loads are what is short. */
FOCI_INLINE __m512i keep(__m512i x)
{
    __asm__("" : "+v"(x));
    return x;
}

/* 64 bytes of a row of x, upper and lower ones. */
typedef struct x_bytes {
    __m512i high, low;
} x_bytes;

FOCI_INLINE x_bytes load_x(const byte_x *x, int c, int64_t at)
{
    const int64_t place = c * x->q_stride + at;
    return (x_bytes){keep(_mm512_loadu_si512(x->high + place)),
                     keep(_mm512_loadu_si512(x->low + place))};
}

/* Sums of four products a lane. Upper bytes come first: one shift serves all of them. */
FOCI_INLINE __m512i dot(__m512i levels, x_bytes x)
{
    const __m512i upper = _mm512_dpbusd_epi32(_mm512_setzero_si512(), levels, x.high);
    return _mm512_dpbusd_epi32(_mm512_slli_epi32(upper, 8), levels, x.low);
}

/* The same of two vectors that share their scales. */
FOCI_INLINE __m512i dot_both(__m512i a, x_bytes x, __m512i b, x_bytes y)
{
    const __m512i one = _mm512_dpbusd_epi32(_mm512_setzero_si512(), a, x.high);
    const __m512i upper = _mm512_slli_epi32(_mm512_dpbusd_epi32(one, b, y.high), 8);
    return _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(upper, a, x.low), b, y.low);
}

/* s->dots += scaled sums; lane n of the scale is that of lane index[n]. */
FOCI_INLINE void add_scaled(byte_sums *s, __m512i dots, __m512 scales, __m512i index)
{
    s->dots =
        _mm512_fmadd_ps(_mm512_cvtepi32_ps(dots), _mm512_permutexvar_ps(index, scales), s->dots);
}

/* Lane index that spreads run first + n / lanes over `lanes` lanes each. */
FOCI_INLINE __m512i spread(int first, const int lanes)
{
    const __m512i n = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    return _mm512_add_epi32(_mm512_srli_epi32(n, lanes == 8 ? 3 : 2), _mm512_set1_epi32(first));
}

/* ---- Four blocks of 32 elements ---- */

/* Four blocks, of which `left` are there: no byte behind them is touched. */
typedef struct quad {
    __m512i first, second; /* their words */
} quad;

/* What lies behind the first 32 words. */
FOCI_INLINE __m512i load_rest(const uint8_t *p, const int words)
{
    const __m128i *rest = (const __m128i *)(const void *)(p + 64);
    if (words == 4) return _mm512_castsi128_si512(_mm_loadl_epi64(rest));
    if (words == 8) return _mm512_castsi128_si512(_mm_loadu_si128(rest));
    return _mm512_castsi256_si512(
        _mm256_maskz_loadu_epi16((__mmask16)((1U << words) - 1U), p + 64));
}

FOCI_INLINE quad load_quad(const uint8_t *p, const focal_dtype type, int64_t left)
{
    const block_words at = words_of_type(type);
    quad r;
    if (left == 4) {
        r.first = keep(_mm512_loadu_si512(p));
        r.second = load_rest(p, 4 * at.words - 32);
        return r;
    }
    const int64_t words = left * at.words, rest = words - 32;
    const __mmask32 first = rest >= 0 ? 0xFFFFFFFFU : (1U << words) - 1U;
    r.first = _mm512_maskz_loadu_epi16(first, p);
    r.second = _mm512_maskz_loadu_epi16(rest > 0 ? (1U << rest) - 1U : 0, p + 64);
    return r;
}

/* d of the blocks, then m, as floats. */
FOCI_INLINE __m256 quad_factors(const quad *r, const focal_dtype type)
{
    const block_words at = words_of_type(type);
    const int w = at.words, m = at.m;
    const __m512i index = _mm512_castsi128_si512(
        _mm_set_epi16((short)(3 * w + m), (short)(2 * w + m), (short)(w + m), (short)m,
                      (short)(3 * w), (short)(2 * w), (short)w, 0));
    const __m512i halves = 3 * w + m < 32 ? _mm512_permutexvar_epi16(index, r->first)
                                          : _mm512_permutex2var_epi16(r->first, index, r->second);
    return _mm256_cvtph_ps(_mm512_castsi512_si128(halves));
}

/* The 16 bytes of levels of each block, one after the other. */
FOCI_INLINE __m512i quad_levels(const quad *r, const focal_dtype type)
{
    const block_words at = words_of_type(type);
    const int w = at.words, q = at.q;
    if (w % 2 == 0 && q % 2 == 0) { /* whole 32-bit words: a cheaper permutation */
        const int u = w / 2, v = q / 2;
        const __m512i index =
            _mm512_setr_epi32(v, v + 1, v + 2, v + 3, u + v, u + v + 1, u + v + 2, u + v + 3,
                              2 * u + v, 2 * u + v + 1, 2 * u + v + 2, 2 * u + v + 3, 3 * u + v,
                              3 * u + v + 1, 3 * u + v + 2, 3 * u + v + 3);
        return _mm512_permutex2var_epi32(r->first, index, r->second);
    }
    uint16_t index[32];
    for (int n = 0; n < 32; n++) index[n] = (uint16_t)(n / 8 * w + q + n % 8);
    return _mm512_permutex2var_epi16(r->first, _mm512_loadu_si512(index), r->second);
}

/* Fifth bits of the first halves (element n of block b: bit 16 b + n), and of the second ones. */
FOCI_INLINE void quad_high(const quad *r, const focal_dtype type, __mmask64 *lo, __mmask64 *hi)
{
    const block_words at = words_of_type(type);
    const int w = at.words, h = at.high;
    const __m512i index = _mm512_castsi128_si512(_mm_set_epi16(
        (short)(3 * w + h + 1), (short)(2 * w + h + 1), (short)(w + h + 1), (short)(h + 1),
        (short)(3 * w + h), (short)(2 * w + h), (short)(w + h), (short)h));
    const __m128i bits =
        _mm512_castsi512_si128(_mm512_permutex2var_epi16(r->first, index, r->second));
    *lo = _cvtu64_mask64((uint64_t)_mm_cvtsi128_si64(bits));
    *hi = _cvtu64_mask64((uint64_t)_mm_extract_epi64(bits, 1));
}

/* A quad's bytes: first and second halves of its blocks; of q8_0, blocks 0, 1 and 2, 3. */
typedef struct halves {
    __m512i lo, hi;
} halves;

FOCI_INLINE __m512i q8_pair(const uint8_t *p, int64_t left)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    const __m256i *first = (const __m256i *)(const void *)(p + 2);
    const __m256i *second = (const __m256i *)(const void *)(p + 36);
    const __m256i zero = _mm256_setzero_si256();
    const __m256i a = left > 0 ? _mm256_loadu_si256(first) : zero;
    const __m256i b = left > 1 ? _mm256_loadu_si256(second) : zero;
    return _mm512_xor_si512(_mm512_inserti64x4(_mm512_castsi256_si512(a), b, 1), flip);
}

/* d of the blocks, twice. */
FOCI_INLINE __m256 q8_factors(const uint8_t *p, int64_t left)
{
    uint16_t d[4] = {0};
    for (int n = 0; n < 4; n++)
        if (n < left) memcpy(&d[n], p + (ptrdiff_t)34 * n, sizeof d[n]);
    const __m128i four =
        _mm_set_epi16(0, 0, 0, 0, (short)d[3], (short)d[2], (short)d[1], (short)d[0]);
    return _mm256_cvtph_ps(_mm_unpacklo_epi64(four, four));
}

FOCI_INLINE halves quad_bytes(const quad *r, const focal_dtype type)
{
    halves b;
    const __m512i levels = quad_levels(r, type), low = _mm512_set1_epi8(15);
    b.lo = _mm512_and_si512(levels, low);
    b.hi = _mm512_and_si512(_mm512_srli_epi16(levels, 4), low);
    if (type == FOCAL_Q4_0 || type == FOCAL_Q4_1) return b;
    if (type == FOCAL_IQ4_NL) {
        int8_t values[16];
        for (int n = 0; n < 16; n++) values[n] = (int8_t)(foci_iq4_nl_values[n] ^ -128);
        const __m512i table =
            _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)values));
        b.lo = _mm512_shuffle_epi8(table, b.lo);
        b.hi = _mm512_shuffle_epi8(table, b.hi);
        return b;
    }
    const __m512i fifth = _mm512_set1_epi8(16);
    __mmask64 lo, hi;
    quad_high(r, type, &lo, &hi);
    b.lo = _mm512_mask_add_epi8(b.lo, lo, b.lo, fifth);
    b.hi = _mm512_mask_add_epi8(b.hi, hi, b.hi, fifth);
    return b;
}

/* s[r * count + c] += four blocks of row r of w against row c of x. */
FOCI_INLINE void add_quads(const uint8_t *const w[], const int rows, const focal_dtype type,
                           int64_t left, const byte_x *x, byte_sums *s, const int count)
{
    __m256 factors[BYTE_PAIR];
    halves b[BYTE_PAIR];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
        if (type == FOCAL_Q8_0) {
            factors[r] = q8_factors(w[r], left);
            b[r].lo = q8_pair(w[r], left);
            b[r].hi = q8_pair(w[r] + 68, left - 2);
            continue;
        }
        const quad q = load_quad(w[r], type, left);
        factors[r] = quad_factors(&q, type);
        b[r] = quad_bytes(&q, type);
    }
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
        const x_bytes lo = load_x(x, c, 0), hi = load_x(x, c, 64);
        const __m256 x_factors = _mm256_loadu_ps(x->factor + c * x->factor_stride);
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) {
            byte_sums *sum = &s[r * count + c];
            const __m256 scaled = _mm256_mul_ps(factors[r], x_factors);
            const __m512 wide = _mm512_castps256_ps512(scaled);
            sum->mins =
                _mm512_castps256_ps512(_mm256_add_ps(_mm512_castps512_ps256(sum->mins), scaled));
            if (type == FOCAL_Q8_0) {
                add_scaled(sum, dot(b[r].lo, lo), wide, spread(0, 8));
                add_scaled(sum, dot(b[r].hi, hi), wide, spread(2, 8));
            } else {
                add_scaled(sum, dot_both(b[r].lo, lo, b[r].hi, hi), wide, spread(0, 4));
            }
        }
    }
}

/* ---- K blocks: 256 elements, in four steps ---- */

/* 32 bytes twice, the second time shifted: elements whose bits lie above each other. */
FOCI_INLINE __m512i both_halves(const uint8_t *p, int lower, int upper)
{
    const __m512i twice =
        _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)p));
    const __m512i counts =
        _mm512_inserti64x4(_mm512_set1_epi16((short)lower), _mm256_set1_epi16((short)upper), 1);
    return _mm512_srlv_epi16(twice, counts);
}

/* Sets `bit` in the bytes of `levels` where bit 2 step (lower half) or 2 step + 1 (upper) is set in
 * the 32 bytes. */
FOCI_INLINE __m512i add_bit(__m512i levels, const uint8_t *high, int step, char bit)
{
    const __m512i twice =
        _mm512_broadcast_i64x4(_mm256_loadu_si256((const __m256i *)(const void *)high));
    const __m512i wanted = _mm512_inserti64x4(_mm512_set1_epi8((char)(1 << 2 * step)),
                                              _mm256_set1_epi8((char)(2 << 2 * step)), 1);
    const __mmask64 is_set = _mm512_test_epi8_mask(twice, wanted);
    return _mm512_mask_add_epi8(levels, is_set, levels, _mm512_set1_epi8(bit));
}

/* Sets the fifth bit of 16 elements each of runs 4 part .. 4 part + 3, by those bits of 16 bytes.
 */
FOCI_INLINE __m512i add_fifth(__m512i levels, const uint8_t *high, int part)
{
    const __m512i four =
        _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)high));
    const uint64_t one = 0x0101010101010101U << 4 * part, two = one << 1, three = one << 2;
    const uint64_t last = one << 3;
    const __m512i wanted =
        _mm512_set_epi64((long long)last, (long long)last, (long long)three, (long long)three,
                         (long long)two, (long long)two, (long long)one, (long long)one);
    const __mmask64 is_set = _mm512_test_epi8_mask(four, wanted);
    return _mm512_mask_add_epi8(levels, is_set, levels, _mm512_set1_epi8(16));
}

/* Four runs of 32 of q4_k or q5_k, from 128 part on: their first halves, and their second ones. */
FOCI_INLINE halves long_runs(const uint8_t *block, const focal_dtype type, int part)
{
    const foci_q4_k *four = (const foci_q4_k *)(const void *)block;
    const foci_q5_k *five = (const foci_q5_k *)(const void *)block;
    const __m512i q =
        keep(_mm512_loadu_si512((type == FOCAL_Q4_K ? four->q : five->q) + (ptrdiff_t)64 * part));
    const long long upper = 0x0004000400040004LL;
    const __m512i counts = _mm512_set_epi64(upper, upper, 0, 0, upper, upper, 0, 0);
    const __m512i low = _mm512_set1_epi8(15);
    halves b;
    b.lo = _mm512_and_si512(_mm512_srlv_epi16(_mm512_shuffle_i64x2(q, q, 0xA0), counts), low);
    b.hi = _mm512_and_si512(_mm512_srlv_epi16(_mm512_shuffle_i64x2(q, q, 0xF5), counts), low);
    if (type == FOCAL_Q4_K) return b;
    b.lo = add_fifth(b.lo, five->high, part);
    b.hi = add_fifth(b.hi, five->high + 16, part);
    return b;
}

/* Elements 64 step .. 64 step + 63 of the others. */
FOCI_INLINE __m512i k_levels(const uint8_t *block, const focal_dtype type, int step)
{
    const __m512i low = _mm512_set1_epi8(15);
    if (type == FOCAL_Q6_K) {
        const foci_q6_k *b = (const foci_q6_k *)(const void *)block;
        const __m512i q = _mm512_loadu_si512(b->q + (ptrdiff_t)(step / 2) * 64);
        const __m512i high = _mm512_broadcast_i64x4(_mm256_loadu_si256(
            (const __m256i *)(const void *)(b->high + (ptrdiff_t)(step / 2) * 32)));
        const __m512i counts =
            step % 2 == 0 ? _mm512_inserti64x4(_mm512_set1_epi16(4), _mm256_set1_epi16(2), 1)
                          : _mm512_inserti64x4(_mm512_setzero_si512(), _mm256_set1_epi16(2), 1);
        const __m512i bits = _mm512_and_si512(step % 2 == 0 ? _mm512_sllv_epi16(high, counts)
                                                            : _mm512_srlv_epi16(high, counts),
                                              _mm512_set1_epi8(0x30));
        const __m512i rest = step % 2 == 0 ? q : _mm512_srli_epi16(q, 4);
        return _mm512_ternarylogic_epi32(rest, low, bits, 0xEA); /* (rest & low) | bits */
    }
    const int lower = step % 2 * 4;
    if (type == FOCAL_Q2_K) {
        const foci_q2_k *b = (const foci_q2_k *)(const void *)block;
        return _mm512_and_si512(both_halves(b->q + (ptrdiff_t)(step / 2) * 32, lower, lower + 2),
                                _mm512_set1_epi8(3));
    }
    const foci_q3_k *b = (const foci_q3_k *)(const void *)block;
    return add_bit(
        _mm512_and_si512(both_halves(b->q + (ptrdiff_t)(step / 2) * 32, lower, lower + 2),
                         _mm512_set1_epi8(3)),
        b->high, step, 4);
}

FOCI_INLINE __m512 broadcast_half(const uint8_t half[2])
{
    uint16_t bits;
    memcpy(&bits, half, sizeof bits);
    return _mm512_broadcastss_ps(_mm_cvtph_ps(_mm_cvtsi32_si128(bits)));
}

/* d in the lower half, -m in the upper one, of the two float16 that q4_k and q5_k begin with. */
FOCI_INLINE __m512 spread_d_m(const uint8_t *block)
{
    int32_t bits;
    memcpy(&bits, block, sizeof bits);
    const __m128 two =
        _mm_cvtph_ps(_mm_xor_si128(_mm_cvtsi32_si128(bits), _mm_set_epi32(0, 0, 0, INT32_MIN)));
    return _mm512_permutexvar_ps(spread(0, 8), _mm512_castps128_ps512(two));
}

/* d_w of the runs; and m_w of q2_k, of the others' runs of 32 behind d_w. */
FOCI_INLINE __m512 k_factors(const uint8_t *block, const focal_dtype type, __m512 *mins)
{
    if (type == FOCAL_Q4_K || type == FOCAL_Q5_K) { /* both begin alike */
        const __m512 whole = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six_bits(block)));
        return _mm512_mul_ps(whole, spread_d_m(block));
    }
    if (type == FOCAL_Q2_K) {
        const foci_q2_k *b = (const foci_q2_k *)(const void *)block;
        const __m512i both =
            _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)b->scales));
        const __m512 scales = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15)));
        *mins = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4)),
                              _mm512_sub_ps(_mm512_setzero_ps(), broadcast_half(b->m)));
        return _mm512_mul_ps(scales, broadcast_half(b->d));
    }
    const bool is_q3 = type == FOCAL_Q3_K;
    const foci_q3_k *three = (const foci_q3_k *)(const void *)block;
    const foci_q6_k *six = (const foci_q6_k *)(const void *)block;
    const __m128i scales = is_q3 ? q3_scales(three->scales)
                                 : _mm_loadu_si128((const __m128i *)(const void *)six->scales);
    const __m512 d = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(scales)),
                                   broadcast_half(is_q3 ? three->d : six->d));
    *mins = d;
    return d;
}

/* s[r * count + c] += one block of 256 of row r of w against row c of x. */
FOCI_INLINE void add_k_blocks(const uint8_t *const w[], const int rows, const focal_dtype type,
                              const byte_x *x, byte_sums *s, const int count)
{
    const bool is_long = type == FOCAL_Q4_K || type == FOCAL_Q5_K; /* runs of 32 */
    __m512 scaled[BYTE_SUMS];
#pragma GCC unroll 2
    for (int r = 0; r < rows; r++) {
        __m512 mins = _mm512_setzero_ps();
        const __m512 factors = k_factors(w[r], type, &mins);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const float *factor = x->factor + c * x->factor_stride;
            const int n = r * count + c;
            scaled[n] = _mm512_mul_ps(factors, _mm512_loadu_ps(factor));
            s[n].mins = is_long ? _mm512_add_ps(s[n].mins, scaled[n])
                                : _mm512_fmadd_ps(mins, _mm512_loadu_ps(factor + 16), s[n].mins);
        }
    }
#pragma GCC unroll 2
    for (int part = 0; part < 2 && is_long; part++) {
        halves b[BYTE_PAIR];
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) b[r] = long_runs(w[r], type, part);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const x_bytes lo = load_x(x, c, (int64_t)128 * part);
            const x_bytes hi = load_x(x, c, (int64_t)128 * part + 64);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                const int n = r * count + c;
                add_scaled(&s[n], dot_both(b[r].lo, lo, b[r].hi, hi), scaled[n],
                           spread(4 * part, 4));
            }
        }
    }
#pragma GCC unroll 4
    for (int step = 0; step < 4 && !is_long; step++) {
        __m512i levels[BYTE_PAIR];
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) levels[r] = k_levels(w[r], type, step);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const x_bytes bytes = load_x(x, c, (int64_t)64 * step);
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                const int n = r * count + c;
                add_scaled(&s[n], dot(levels[r], bytes), scaled[n], spread(4 * step, 4));
            }
        }
    }
}

/* Lanes of the minima that count. */
FOCI_INLINE __mmask16 min_lanes(const focal_dtype type)
{
    if (type == FOCAL_Q4_K || type == FOCAL_Q5_K) return 0xFF00;
    return is_k_type(type) ? 0xFFFF : 0x00F0;
}

FOCI_INLINE void clear_sums(byte_sums *s)
{
    s->dots = s->mins = _mm512_setzero_ps();
}

/* Four sums of lanes. */
FOCI_INLINE void store_totals(const byte_sums s[BYTE_SUMS], const focal_dtype type,
                              float y[BYTE_SUMS])
{
    vec total[BYTE_SUMS];
#pragma GCC unroll 4
    for (int n = 0; n < BYTE_SUMS; n++)
        total[n] = _mm512_mask_add_ps(s[n].dots, min_lanes(type), s[n].dots, s[n].mins);
    const vec quarters = v_sum_quarters(total[0], total[1], total[2], total[3]);
    const __m256 eight =
        _mm256_add_ps(_mm512_castps512_ps256(quarters), _mm512_extractf32x8_ps(quarters, 1));
    _mm_storeu_ps(y, _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
}

#include "ops/matmul/bytes_rows.h"

#include "ops/matmul/bytes_lanes_avx512.h"
#include "ops/matmul/bytes_lanes_k_avx512.h"

enum { READS_INTERLEAVED = true };

/* Rows of w, of K elements, that are read side by side as they lie in a file. */
FOCI_INLINE int64_t rows_abreast(const focal_dtype type, int64_t K)
{
    return takes_lanes(type, K) ? LANE_ROWS : BYTE_PAIR;
}

FOCI_INLINE void dot_group(const byte_group *w, const focal_dtype type, const byte_x *x,
                           float *sums, int64_t stride, const int count)
{
    if (w->is_interleaved && is_k_type(type))
        sum_k_lanes(w, type, x, sums, stride, count);
    else if (w->is_interleaved)
        sum_lanes(w, type, x, sums, stride, count, true);
    else if (takes_lanes(type, w->K) && w->rows == LANE_ROWS)
        sum_lanes(w, type, x, sums, stride, count, false);
    else
        dot_in_turn(w, type, x, sums, stride, count);
}

#endif /* FOCI_OPS_MATMUL_BYTES_AVX512_H */
