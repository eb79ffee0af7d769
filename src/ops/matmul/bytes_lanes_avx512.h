/* Sixteen rows of blocks of 32 times bytes of x, on AVX-512 with byte dot products (VNNI): one row
 * a lane. A word of x meets words of 32 bits of all rows at once, and a lane ends as the sum of its
 * row: short rows pay for no sum of lanes, and no block of a row needs company to fill a register.
 * Interleaved rows lie so already; of others the words are brought together first. */
#ifndef FOCI_OPS_MATMUL_BYTES_LANES_AVX512_H
#define FOCI_OPS_MATMUL_BYTES_LANES_AVX512_H

#include "ops/matmul/bytes_rows.h"

enum {
    LANE_ROWS = 16,
    LANE_SHORT = 1024, /* elements of a row */
    LANE_WORDS = 4     /* of the levels of a block: four elements, and the four 16 behind them */
};

/* Whether rows of K elements go by lanes. Fifth bits are dear two rows at a time, whatever their
 * length; q4_0 and iq4_nl gain a fifth in rows of 576 and lose 1 to 8 % from 1536 on. The others
 * come at the memory's speed as they are: with all of them in lanes a q4_k_m model lost 8 %,
 * because memory is fastest in order. */
FOCI_INLINE bool takes_lanes(const focal_dtype type, int64_t K)
{
    if (type == FOCAL_Q5_0 || type == FOCAL_Q5_1) return true;
    return (type == FOCAL_Q4_0 || type == FOCAL_IQ4_NL) && K <= LANE_SHORT;
}

/* 32 elements of each row: fifth bits are where they belong. */
typedef struct lane_levels {
    __m512i lo[LANE_WORDS], hi[LANE_WORDS]; /* the first 16, and the others */
} lane_levels;

/* A block of each row, as it is stored. */
typedef struct lane_words {
    __m512 d, m;
    __m512i high, q[LANE_WORDS];
} lane_words;

/* 32 bytes of a row. */
FOCI_INLINE __m256i load_row(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)p);
}

/* Four words each of eight rows, 0 to 3 and 4 to 7, of which word n and n + 4 lie side by side. */
FOCI_INLINE void load_eight(const uint8_t *p, int64_t row_bytes, __mmask16 first,
                            __m512i pairs[LANE_WORDS])
{
    __m512i r[4];
    r[0] = _mm512_castsi256_si512(_mm256_maskz_loadu_epi16(first, p));
#pragma GCC unroll 3
    for (int n = 1; n < 4; n++) r[n] = _mm512_castsi256_si512(load_row(p + n * row_bytes));
#pragma GCC unroll 4
    for (int n = 0; n < 4; n++)
        r[n] = _mm512_inserti64x4(r[n], load_row(p + (4 + n) * row_bytes), 1);
    const __m512i ab = _mm512_unpacklo_epi32(r[0], r[1]), cd = _mm512_unpacklo_epi32(r[2], r[3]);
    const __m512i ab_rest = _mm512_unpackhi_epi32(r[0], r[1]);
    const __m512i cd_rest = _mm512_unpackhi_epi32(r[2], r[3]);
    pairs[0] = _mm512_unpacklo_epi64(ab, cd);
    pairs[1] = _mm512_unpackhi_epi64(ab, cd);
    pairs[2] = _mm512_unpacklo_epi64(ab_rest, cd_rest);
    pairs[3] = _mm512_unpackhi_epi64(ab_rest, cd_rest);
}

/* The first or second half of each lane as a float. */
FOCI_INLINE __m512 widen_halves(__m512i lanes, int half)
{
    uint16_t index[32];
    for (int n = 0; n < 32; n++) index[n] = (uint16_t)(n % 16 * 2 + half);
    const __m512i packed = _mm512_permutexvar_epi16(_mm512_loadu_si512(index), lanes);
    return _mm512_cvtph_ps(_mm512_castsi512_si256(packed));
}

/* p is the end of the first row's block, and what counts are the 32 bytes that end with a block:
 * its levels are the last four words, fifth bits stand before them where a type has any, its scale
 * before those. Bytes before the block are some of another one, except before the first of all:
 * `is_first` leaves them alone. */
FOCI_INLINE lane_words load_words(const uint8_t *p, const focal_dtype type, int64_t row_bytes,
                                  bool is_first)
{
    const int before = 16 - words_of_type(type).words;
    const __mmask16 mask = (__mmask16)(is_first ? 0xFFFFU << before : 0xFFFFU);
    __m512i a[LANE_WORDS], b[LANE_WORDS];
    lane_words r;
    load_eight(p - 32, row_bytes, mask, a);
    load_eight(p - 32 + 8 * row_bytes, row_bytes, 0xFFFF, b);
    r.high = _mm512_shuffle_i32x4(a[3], b[3], 0x88);
    const __m512i factors =
        words_of_type(type).high > 0 ? _mm512_shuffle_i32x4(a[2], b[2], 0x88) : r.high;
    r.d = widen_halves(factors, type != FOCAL_Q5_1);
    r.m = type == FOCAL_Q5_1 ? widen_halves(factors, 1) : r.d;
#pragma GCC unroll 4
    for (int n = 0; n < LANE_WORDS; n++) r.q[n] = _mm512_shuffle_i32x4(a[n], b[n], 0xDD);
    return r;
}

/* 16 numbers of 16 bits as floats. */
FOCI_INLINE __m512 load_halves(const uint8_t *p)
{
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* The same of interleaved rows, where a 16-bit number of a block stands 16 times as far from the
 * beginning. */
FOCI_INLINE lane_words load_interleaved(const uint8_t *p, const focal_dtype type)
{
    const block_words at = words_of_type(type);
    lane_words r;
    r.d = load_halves(p);
    r.m = at.m > 0 ? load_halves(p + (ptrdiff_t)32 * at.m) : r.d;
    r.high = at.high > 0 ? _mm512_loadu_si512(p + (ptrdiff_t)32 * at.high) : _mm512_setzero_si512();
#pragma GCC unroll 4
    for (int n = 0; n < LANE_WORDS; n++)
        r.q[n] = keep(_mm512_loadu_si512(p + (ptrdiff_t)32 * at.q + (ptrdiff_t)64 * n));
    return r;
}

/* The fifth bits of four elements, from bit 0 of a lane on, each in its byte. */
FOCI_INLINE __m512i spread_bits(__m512i lanes)
{
    int32_t bytes[16];
    for (int n = 0; n < 16; n++)
        bytes[n] = (n & 1) << 4 | (n & 2) << 11 | (n & 4) << 18 | (n & 8) << 25;
    return _mm512_permutexvar_epi32(lanes, _mm512_loadu_si512(bytes));
}

/* Levels from the lower half of each byte and their fifth bits. */
FOCI_INLINE __m512i join_levels(__m512i q, __m512i fifths)
{
    return _mm512_ternarylogic_epi32(q, _mm512_set1_epi8(15), fifths, 0xEA); /* (q & 15) | fifths */
}

/* Levels of iq4_nl: the numbers that four bits stand for, from 0 on. */
FOCI_INLINE __m512i look_up(__m512i q)
{
    int8_t values[16];
    for (int n = 0; n < 16; n++) values[n] = (int8_t)(foci_iq4_nl_values[n] ^ -128);
    const __m128i table = _mm_loadu_si128((const __m128i *)(const void *)values);
    return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(table), q);
}

FOCI_INLINE lane_levels unpack_lanes(const lane_words *w, const focal_dtype type)
{
    const __m512i low = _mm512_set1_epi8(15);
    lane_levels b;
#pragma GCC unroll 4
    for (int n = 0; n < LANE_WORDS; n++) {
        const __m512i upper = _mm512_srli_epi16(w->q[n], 4);
        if (words_of_type(type).high > 0) {
            const __m512i lo = spread_bits(_mm512_srli_epi32(w->high, (unsigned)(4 * n)));
            const __m512i hi = spread_bits(_mm512_srli_epi32(w->high, (unsigned)(16 + 4 * n)));
            b.lo[n] = join_levels(w->q[n], lo);
            b.hi[n] = join_levels(upper, hi);
            continue;
        }
        b.lo[n] = _mm512_and_si512(w->q[n], low);
        b.hi[n] = _mm512_and_si512(upper, low);
        if (type == FOCAL_IQ4_NL) {
            b.lo[n] = look_up(b.lo[n]);
            b.hi[n] = look_up(b.hi[n]);
        }
    }
    return b;
}

FOCI_INLINE __m512i broadcast_word(const int8_t *x)
{
    int32_t word;
    memcpy(&word, x, sizeof word);
    return _mm512_set1_epi32(word);
}

/* Interleaved q8_0, whose words are eight. */
FOCI_INLINE lane_levels load_q8(const uint8_t *p)
{
    const __m512i flip = _mm512_set1_epi8((char)0x80);
    lane_levels b;
#pragma GCC unroll 4
    for (int n = 0; n < LANE_WORDS; n++) {
        const uint8_t *q = p + 32 + (ptrdiff_t)64 * n;
        b.lo[n] = _mm512_xor_si512(_mm512_loadu_si512(q), flip);
        b.hi[n] = _mm512_xor_si512(_mm512_loadu_si512(q + 256), flip);
    }
    return b;
}

/* Sums of products with the 32 elements of x whose halves begin here and `half` bytes further. Two
 * sums, because each product waits for the one before it in its sum. */
FOCI_INLINE __m512i dot_lanes(const lane_levels *b, const int8_t *x, const int half)
{
    __m512i lo = _mm512_setzero_si512(), hi = lo;
#pragma GCC unroll 4
    for (int n = 0; n < LANE_WORDS; n++) {
        lo = _mm512_dpbusd_epi32(lo, b->lo[n], broadcast_word(x + (ptrdiff_t)4 * n));
        hi = _mm512_dpbusd_epi32(hi, b->hi[n], broadcast_word(x + half + (ptrdiff_t)4 * n));
    }
    return _mm512_add_epi32(lo, hi);
}

/* The same with row c of x, upper and lower bytes, as floats. */
FOCI_INLINE __m512 dot_row(const lane_levels *b, const byte_x *x, int c, int64_t place,
                           const int half)
{
    const __m512i high = dot_lanes(b, x->high + c * x->q_stride + place, half);
    const __m512i low = dot_lanes(b, x->low + c * x->q_stride + place, half);
    return _mm512_cvtepi32_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
}

/* sums[c * stride + r] = row r of w, of which there are LANE_ROWS, with row c of x. Every sum is
 * made for itself: no bit depends on count. */
FOCI_INLINE void sum_lanes(const byte_group *w, const focal_dtype type, const byte_x *x,
                           float *sums, int64_t stride, const int count, const bool is_interleaved)
{
    __m512 total[BYTE_SUMS];
    const bool has_m = type == FOCAL_Q4_1 || type == FOCAL_Q5_1;
    const int half = type == FOCAL_Q8_0 ? 16 : 64; /* as the bytes of x lie for the type */
    const int64_t bytes = (int64_t)2 * words_of_type(type).words;
    const int64_t step = is_interleaved ? LANE_ROWS * bytes : bytes;
    const uint8_t *from = w->first, *ahead = from + BYTES_AHEAD;
    if (!is_interleaved) ahead += (LANE_ROWS - 1) * w->row_bytes;
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) total[c] = _mm512_setzero_ps();
    for (int64_t n = 0; n < w->K / 32; n++, from += step, ahead += LANE_ROWS * bytes) {
        const int64_t place = half == 16 ? 32 * n : n / 4 * 128 + n % 4 * 16;
        const float *factor = x->factor + n / 8 * FOCI_BYTE_FACTORS + n % 8 / 4 * 8 + n % 4;
        ask_for(ahead, LANE_ROWS * bytes);
        const lane_words words = is_interleaved
                                     ? load_interleaved(from, type)
                                     : load_words(from + bytes, type, w->row_bytes, n == 0);
        const lane_levels b = type == FOCAL_Q8_0 ? load_q8(from) : unpack_lanes(&words, type);
#pragma GCC unroll 4
        for (int c = 0; c < count; c++) {
            const __m512 dots = dot_row(&b, x, c, place, half);
            const __m512 d_x = _mm512_set1_ps(factor[c * x->factor_stride]);
            const __m512 sum_x = _mm512_set1_ps(factor[c * x->factor_stride + 4]);
            if (has_m) {
                total[c] = _mm512_fmadd_ps(_mm512_mul_ps(dots, d_x), words.d, total[c]);
                total[c] = _mm512_fmadd_ps(words.m, sum_x, total[c]);
            } else {
                total[c] = _mm512_fmadd_ps(_mm512_fmadd_ps(dots, d_x, sum_x), words.d, total[c]);
            }
        }
    }
#pragma GCC unroll 4
    for (int c = 0; c < count; c++) _mm512_storeu_ps(sums + c * stride, total[c]);
}

#endif /* FOCI_OPS_MATMUL_BYTES_LANES_AVX512_H */
