/* Blocks of weights times bytes of x, on AVX2: a block of 32, or 32 elements of a K block, at a
 * time. */
#ifndef FOCI_OPS_MATMUL_BYTES_AVX2_H
#define FOCI_OPS_MATMUL_BYTES_AVX2_H

#include "ops/matmul/bytes_x86.h"

/* Sums of one row of w with one row of x: of scaled dot products, and of what the minima give. */
typedef struct byte_sums {
    __m256 dots, mins;
} byte_sums;

FOCI_INLINE __m256i load_bytes(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

FOCI_INLINE __m128i load_half_bytes(const void *p)
{
    return _mm_loadu_si128((const __m128i *)p);
}

/* 32 bytes of x, upper and lower ones. */
typedef struct byte_pair {
    __m256i high, low;
} byte_pair;

/* Sums of four products a lane. Two products of a level and a byte fit in 16 bits as long as levels
 * are below 128. */
FOCI_INLINE __m256 dot(__m256i levels, byte_pair x)
{
    const __m256i upper =
        _mm256_madd_epi16(_mm256_maddubs_epi16(levels, x.high), _mm256_set1_epi16(256));
    const __m256i lower =
        _mm256_madd_epi16(_mm256_maddubs_epi16(levels, x.low), _mm256_set1_epi16(1));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(upper, lower));
}

/* Sums of pairs of both halves, of values with a sign. */
FOCI_INLINE __m256i add_pairs(__m256i a, __m256i b)
{
    const __m256i lower = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_castsi256_si128(a)),
                                            _mm256_cvtepi8_epi16(_mm256_castsi256_si128(b)));
    const __m256i upper = _mm256_madd_epi16(_mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1)),
                                            _mm256_cvtepi8_epi16(_mm256_extracti128_si256(b, 1)));
    return _mm256_add_epi32(lower, upper);
}

FOCI_INLINE __m256 dot_signed(__m256i values, byte_pair x)
{
    const __m256i upper = _mm256_slli_epi32(add_pairs(values, x.high), 8);
    return _mm256_cvtepi32_ps(_mm256_add_epi32(upper, add_pairs(values, x.low)));
}

FOCI_INLINE __m128 read_half(const uint8_t *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return _mm_cvtph_ps(_mm_cvtsi32_si128(bits));
}

FOCI_INLINE __m256 broadcast_half(const uint8_t *p)
{
    return _mm256_broadcastss_ps(read_half(p));
}

/* ---- Blocks of 32 elements ---- */

/* Bytes 0 or -1 by the 32 bits. */
FOCI_INLINE __m256i spread_bits(const uint8_t *high)
{
    int32_t bits;
    memcpy(&bits, high, sizeof bits);
    const __m256i bytes = _mm256_shuffle_epi8(
        _mm256_set1_epi32(bits),
        _mm256_set_epi64x(0x0303030303030303, 0x0202020202020202, 0x0101010101010101, 0));
    const __m256i wanted = _mm256_set1_epi64x((long long)0x8040201008040201U);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, wanted), wanted);
}

/* The levels of a block in the order of its elements; of iq4_nl and q8_0 its values. */
FOCI_INLINE __m256i block_levels(const uint8_t *p, const focal_dtype type)
{
    const block_words at = words_of_type(type);
    if (type == FOCAL_Q8_0) return load_bytes(p + 2);
    const __m128i raw = load_half_bytes(p + (size_t)2 * at.q);
    const __m256i levels =
        _mm256_and_si256(_mm256_set_m128i(_mm_srli_epi16(raw, 4), raw), _mm256_set1_epi8(15));
    if (type == FOCAL_IQ4_NL)
        return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(load_half_bytes(foci_iq4_nl_values)),
                                   levels);
    if (at.high == 0) return levels;
    const __m256i fifth =
        _mm256_and_si256(spread_bits(p + (size_t)2 * at.high), _mm256_set1_epi8(16));
    return _mm256_or_si256(levels, fifth);
}

/* 32 bytes of x: block n of a quad, or of half a K block. */
FOCI_INLINE __m256i block_x(const int8_t *q, const focal_dtype type, int64_t n)
{
    const bool has_halves = !is_k_type(type) || type == FOCAL_Q4_K || type == FOCAL_Q5_K;
    if (type == FOCAL_Q8_0 || !has_halves) return load_bytes(q + 32 * n);
    return _mm256_set_m128i(load_half_bytes(q + 64 + 16 * n), load_half_bytes(q + 16 * n));
}

/* s[r * count + c] += `left` blocks, at most four, of row r of w against row c of x. */
FOCI_INLINE void add_quads(const uint8_t *const w[], const int rows, const focal_dtype type,
                           int64_t left, const byte_x *x, byte_sums *s, const int count)
{
    const block_words at = words_of_type(type);
    const bool is_signed = type == FOCAL_Q8_0 || type == FOCAL_IQ4_NL;
    for (int64_t n = 0; n < left; n++) {
        __m256i levels[BYTE_PAIR];
        __m128 d[BYTE_PAIR], m[BYTE_PAIR];
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) {
            const uint8_t *p = w[r] + (ptrdiff_t)n * 2 * at.words;
            levels[r] = block_levels(p, type);
            d[r] = read_half(p);
            m[r] = at.m ? read_half(p + (size_t)2 * at.m) : d[r];
        }
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const float *factor = x->factor + c * x->factor_stride + n;
            const byte_pair bytes = {block_x(x->high + c * x->q_stride, type, n),
                                     block_x(x->low + c * x->q_stride, type, n)};
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                byte_sums *sum = &s[r * count + c];
                const __m128 scale = _mm_mul_ss(d[r], _mm_load_ss(factor));
                const __m256 dots =
                    is_signed ? dot_signed(levels[r], bytes) : dot(levels[r], bytes);
                sum->dots = _mm256_fmadd_ps(dots, _mm256_broadcastss_ps(scale), sum->dots);
                if (is_signed) continue;
                const __m128 min = _mm_mul_ss(m[r], _mm_load_ss(factor + 4));
                sum->mins = _mm256_add_ps(sum->mins, _mm256_zextps128_ps256(min));
            }
        }
    }
}

/* ---- K blocks: 256 elements, eight times 32 ---- */

/* Bit `bit` of 32 bytes, as `value` where it is set. */
FOCI_INLINE __m256i pick_bit(const uint8_t *high, int bit, char value)
{
    const __m256i wanted = _mm256_set1_epi8((char)(1 << bit));
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(load_bytes(high), wanted), wanted);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(value));
}

/* The levels of elements 32 part .. 32 part + 31. */
FOCI_INLINE __m256i k_levels(const uint8_t *block, const focal_dtype type, int part)
{
    if (type == FOCAL_Q4_K || type == FOCAL_Q5_K) {
        const foci_q4_k *four = (const foci_q4_k *)(const void *)block;
        const foci_q5_k *five = (const foci_q5_k *)(const void *)block;
        const __m256i q =
            load_bytes((type == FOCAL_Q4_K ? four->q : five->q) + (ptrdiff_t)(part / 2) * 32);
        const __m256i low =
            _mm256_and_si256(part % 2 == 0 ? q : _mm256_srli_epi16(q, 4), _mm256_set1_epi8(15));
        return type == FOCAL_Q4_K ? low : _mm256_or_si256(low, pick_bit(five->high, part, 16));
    }
    const int quarter = part % 4, half = part / 4;
    if (type == FOCAL_Q6_K) {
        const foci_q6_k *b = (const foci_q6_k *)(const void *)block;
        const __m256i q = load_bytes(b->q + (ptrdiff_t)half * 64 + (ptrdiff_t)(quarter % 2) * 32);
        const __m256i low =
            _mm256_and_si256(quarter < 2 ? q : _mm256_srli_epi16(q, 4), _mm256_set1_epi8(15));
        const __m256i high = load_bytes(b->high + (ptrdiff_t)half * 32);
        const __m256i moved = quarter < 2 ? _mm256_slli_epi16(high, 4 - 2 * quarter)
                                          : _mm256_srli_epi16(high, 2 * quarter - 4);
        return _mm256_or_si256(low, _mm256_and_si256(moved, _mm256_set1_epi8(0x30)));
    }
    const foci_q2_k *two = (const foci_q2_k *)(const void *)block;
    const foci_q3_k *three = (const foci_q3_k *)(const void *)block;
    const __m256i q = load_bytes((type == FOCAL_Q2_K ? two->q : three->q) + (ptrdiff_t)half * 32);
    const __m256i low = _mm256_and_si256(_mm256_srli_epi16(q, 2 * quarter), _mm256_set1_epi8(3));
    return type == FOCAL_Q2_K ? low : _mm256_or_si256(low, pick_bit(three->high, part, 4));
}

/* Eight bytes from `first` on as floats. */
FOCI_INLINE __m256 wide_bytes(__m128i bytes, const int first, const bool is_signed)
{
    const __m128i eight = first == 0 ? bytes : _mm_srli_si128(bytes, 8);
    return _mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(eight)
                                        : _mm256_cvtepu8_epi32(eight));
}

/* d_w and m_w of the runs: eight and eight, or twice sixteen. */
FOCI_INLINE void k_factors(const uint8_t *block, const focal_dtype type, __m256 d[2], __m256 m[2])
{
    if (type == FOCAL_Q4_K || type == FOCAL_Q5_K) { /* both begin alike */
        const foci_q4_k *b = (const foci_q4_k *)(const void *)block;
        const __m128i both = six_bits(block);
        d[0] = _mm256_mul_ps(wide_bytes(both, 0, false), broadcast_half(b->d));
        m[0] = _mm256_mul_ps(wide_bytes(both, 8, false), broadcast_half(b->m));
        m[0] = _mm256_sub_ps(_mm256_setzero_ps(), m[0]);
        return;
    }
    const foci_q2_k *two = (const foci_q2_k *)(const void *)block;
    const foci_q3_k *three = (const foci_q3_k *)(const void *)block;
    const foci_q6_k *six = (const foci_q6_k *)(const void *)block;
    for (int n = 0; n < 2; n++) {
        if (type == FOCAL_Q2_K) {
            const __m128i both = load_half_bytes(two->scales), low = _mm_set1_epi8(15);
            const __m128i upper = _mm_and_si128(_mm_srli_epi16(both, 4), low);
            d[n] = _mm256_mul_ps(wide_bytes(_mm_and_si128(both, low), 8 * n, false),
                                 broadcast_half(two->d));
            m[n] = _mm256_mul_ps(wide_bytes(upper, 8 * n, false), broadcast_half(two->m));
            m[n] = _mm256_sub_ps(_mm256_setzero_ps(), m[n]);
            continue;
        }
        const bool is_q3 = type == FOCAL_Q3_K;
        const __m128i scales = is_q3 ? q3_scales(three->scales) : load_half_bytes(six->scales);
        d[n] = _mm256_mul_ps(wide_bytes(scales, 8 * n, true),
                             broadcast_half(is_q3 ? three->d : six->d));
        m[n] = d[n];
    }
}

/* s[r * count + c] += one block of 256 of row r of w against row c of x. */
FOCI_INLINE void add_k_blocks(const uint8_t *const w[], const int rows, const focal_dtype type,
                              const byte_x *x, byte_sums *s, const int count)
{
    const bool is_long = type == FOCAL_Q4_K || type == FOCAL_Q5_K; /* runs of 32 */
    const int group = is_long ? 8 : 16;
    float scaled[BYTE_SUMS][16];
    for (int r = 0; r < rows; r++) {
        __m256 d[2], m[2];
        k_factors(w[r], type, d, m);
        for (int c = 0; c < count; c++) {
            const float *factor = x->factor + c * x->factor_stride;
            const int sum = r * count + c;
            for (int n = 0; n < group / 8; n++) {
                const __m256 sums = _mm256_loadu_ps(factor + group + (ptrdiff_t)8 * n);
                _mm256_storeu_ps(scaled[sum] + (ptrdiff_t)8 * n,
                                 _mm256_mul_ps(d[n], _mm256_loadu_ps(factor + (ptrdiff_t)8 * n)));
                s[sum].mins = _mm256_fmadd_ps(m[n], sums, s[sum].mins);
            }
        }
    }
#pragma GCC unroll 8
    for (int part = 0; part < 8; part++) {
        __m256i levels[BYTE_PAIR];
#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) levels[r] = k_levels(w[r], type, part);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const int64_t half = c * x->q_stride + (int64_t)128 * (part / 4);
            const byte_pair bytes = {block_x(x->high + half, type, part % 4),
                                     block_x(x->low + half, type, part % 4)};
#pragma GCC unroll 2
            for (int r = 0; r < rows; r++) {
                byte_sums *sum = &s[r * count + c];
                const float *run = scaled[r * count + c] + (ptrdiff_t)(is_long ? part : 2 * part);
                const __m256 scale =
                    is_long ? _mm256_broadcast_ss(run)
                            : _mm256_set_m128(_mm_broadcast_ss(run + 1), _mm_broadcast_ss(run));
                sum->dots = _mm256_fmadd_ps(dot(levels[r], bytes), scale, sum->dots);
            }
        }
    }
}

FOCI_INLINE __m256 total_lanes(const byte_sums *s)
{
    return _mm256_add_ps(s->dots, s->mins);
}

/* Four sums of lanes. */
FOCI_INLINE void store_totals(const byte_sums s[BYTE_SUMS], const focal_dtype type,
                              float y[BYTE_SUMS])
{
    (void)type;
    const __m256 ab = _mm256_hadd_ps(total_lanes(&s[0]), total_lanes(&s[1]));
    const __m256 cd = _mm256_hadd_ps(total_lanes(&s[2]), total_lanes(&s[3]));
    const __m256 all = _mm256_hadd_ps(ab, cd);
    _mm_storeu_ps(y, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}

FOCI_INLINE void clear_sums(byte_sums *s)
{
    s->dots = s->mins = _mm256_setzero_ps();
}

#include "ops/matmul/bytes_rows.h"

enum { READS_INTERLEAVED = false };

/* Rows of w, of K elements, that are read side by side. */
FOCI_INLINE int64_t rows_abreast(const focal_dtype type, int64_t K)
{
    (void)type;
    (void)K;
    return BYTE_PAIR;
}

FOCI_INLINE void dot_group(const byte_group *w, const focal_dtype type, const byte_x *x,
                           float *sums, int64_t stride, const int count)
{
    dot_in_turn(w, type, x, sums, stride, count);
}

#endif /* FOCI_OPS_MATMUL_BYTES_AVX2_H */
