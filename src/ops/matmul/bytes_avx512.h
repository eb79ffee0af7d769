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

/* acc + sums of four products a lane: levels times the bytes of row c of x from `at` on. */
FOCI_INLINE __m512i dot(__m512i acc, __m512i levels, const byte_x *x, int c, int64_t at)
{
    const int64_t place = c * x->q_stride + at;
    const __m512i upper =
        _mm512_dpbusd_epi32(_mm512_setzero_si512(), levels, _mm512_loadu_si512(x->high + place));
    const __m512i lower = _mm512_dpbusd_epi32(acc, levels, _mm512_loadu_si512(x->low + place));
    return _mm512_add_epi32(_mm512_slli_epi32(upper, 8), lower);
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

/* Four blocks, of which `left` are there: masked loads touch no byte behind them. */
typedef struct quad {
    __m512i first, second; /* their words; of q8_0, blocks 0, 1 and 2, 3 */
} quad;

FOCI_INLINE quad load_quad(const uint8_t *p, const focal_dtype type, int64_t left)
{
    const block_words at = words_of_type(type);
    quad r;
    const int64_t words = (left < 4 ? left : 4) * at.words;
    const int64_t rest = words - 32;
    const __mmask32 first = words >= 32 ? 0xFFFFFFFFU : (1U << words) - 1U;
    const __mmask32 second = rest <= 0 ? 0 : rest >= 32 ? 0xFFFFFFFFU : (1U << rest) - 1U;
    r.first = _mm512_maskz_loadu_epi16(first, p);
    r.second = _mm512_maskz_loadu_epi16(second, p + 64);
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
    return _mm256_cvtph_ps(
        _mm512_castsi512_si128(_mm512_permutex2var_epi16(r->first, index, r->second)));
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

FOCI_INLINE halves quad_bytes(const uint8_t *p, const quad *r, const focal_dtype type, int64_t left)
{
    halves b;
    if (type == FOCAL_Q8_0) {
        const __m512i flip = _mm512_set1_epi8((char)0x80);
        __m256i q[4];
        for (int n = 0; n < 4; n++)
            q[n] =
                n < left
                    ? _mm256_loadu_si256((const __m256i *)(const void *)(p + (ptrdiff_t)34 * n + 2))
                    : _mm256_setzero_si256();
        b.lo = _mm512_inserti64x4(_mm512_castsi256_si512(q[0]), q[1], 1);
        b.hi = _mm512_inserti64x4(_mm512_castsi256_si512(q[2]), q[3], 1);
        b.lo = _mm512_xor_si512(b.lo, flip);
        b.hi = _mm512_xor_si512(b.hi, flip);
        return b;
    }
    const __m512i levels = quad_levels(r, type), low = _mm512_set1_epi8(15);
    b.lo = _mm512_and_si512(levels, low);
    if (type == FOCAL_Q4_0 || type == FOCAL_Q4_1) {
        b.hi = _mm512_andnot_si512(low, levels); /* 16 times the level */
        return b;
    }
    b.hi = _mm512_and_si512(_mm512_srli_epi16(levels, 4), low);
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

/* s[c] += four blocks against row c of x, of which there are `count`. */
FOCI_INLINE void add_quad(const uint8_t *p, const focal_dtype type, int64_t left, const byte_x *x,
                          byte_sums *s, const int count)
{
    const quad r = load_quad(p, type, left);
    const __m256 factors = quad_factors(&r, type);
    const halves b = quad_bytes(p, &r, type, left);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {

        const __m256 scaled =
            _mm256_mul_ps(factors, _mm256_loadu_ps(x->factor + c * x->factor_stride));
        const __m512 wide = _mm512_castps256_ps512(scaled);
        const __m512i zero = _mm512_setzero_si512();
        s[c].mins =
            _mm512_castps256_ps512(_mm256_add_ps(_mm512_castps512_ps256(s[c].mins), scaled));
        if (type == FOCAL_Q8_0) {
            add_scaled(&s[c], dot(zero, b.lo, x, c, 0), wide, spread(0, 8));
            add_scaled(&s[c], dot(zero, b.hi, x, c, 64), wide, spread(2, 8));
            continue;
        }
        __m512i sum = dot(zero, b.hi, x, c, 64);
        if (type == FOCAL_Q4_0 || type == FOCAL_Q4_1) sum = _mm512_srai_epi32(sum, 4);
        add_scaled(&s[c], dot(sum, b.lo, x, c, 0), wide, spread(0, 4));
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

FOCI_INLINE __m512i k_levels(const uint8_t *block, const focal_dtype type, int step)
{
    const __m512i low = _mm512_set1_epi8(15);
    if (type == FOCAL_Q4_K) {
        const foci_q4_k *b = (const foci_q4_k *)(const void *)block;
        return _mm512_and_si512(both_halves(b->q + (ptrdiff_t)32 * step, 0, 4), low);
    }
    if (type == FOCAL_Q5_K) {
        const foci_q5_k *b = (const foci_q5_k *)(const void *)block;
        return add_bit(_mm512_and_si512(both_halves(b->q + (ptrdiff_t)32 * step, 0, 4), low),
                       b->high, step, 16);
    }
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
        return _mm512_or_si512(_mm512_and_si512(rest, low), bits);
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

/* d_w of the runs; and m_w of q2_k, of the others' runs of 32 behind d_w. */
FOCI_INLINE __m512 k_factors(const uint8_t *block, const focal_dtype type, __m512 *mins)
{
    if (type == FOCAL_Q4_K || type == FOCAL_Q5_K) { /* both begin alike */
        const foci_q4_k *b = (const foci_q4_k *)(const void *)block;
        const __m512 whole = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(six_bits(b->scales)));
        const __m512 m = _mm512_sub_ps(_mm512_setzero_ps(), broadcast_half(b->m));
        return _mm512_mul_ps(whole, _mm512_mask_blend_ps(0xFF00, broadcast_half(b->d), m));
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

/* s[c] += one block of 256 against row c of x. */
FOCI_INLINE void add_k_block(const uint8_t *block, const focal_dtype type, const byte_x *x,
                             byte_sums *s, const int count)
{
    const bool is_long = type == FOCAL_Q4_K || type == FOCAL_Q5_K; /* runs of 32 */
    __m512 mins = _mm512_setzero_ps(), scaled[4];
    const __m512 factors = k_factors(block, type, &mins);
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) {
        const float *factor = x->factor + c * x->factor_stride;
        scaled[c] = _mm512_mul_ps(factors, _mm512_loadu_ps(factor));
        s[c].mins = is_long ? _mm512_add_ps(s[c].mins, scaled[c])
                            : _mm512_fmadd_ps(mins, _mm512_loadu_ps(factor + 16), s[c].mins);
    }
#pragma GCC unroll 4
    for (int step = 0; step < 4; step++) {
        const __m512i levels = k_levels(block, type, step);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const __m512i sum = dot(_mm512_setzero_si512(), levels, x, c, (int64_t)64 * step);
            add_scaled(&s[c], sum, scaled[c], is_long ? spread(2 * step, 8) : spread(4 * step, 4));
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

#endif /* FOCI_OPS_MATMUL_BYTES_AVX512_H */
