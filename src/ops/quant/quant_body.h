/* Expanding blocks with vectors: the bytes of a block become 32 signed levels in a 256-bit register
 * with byte operations, and those scale * level + offset, in the vocabulary of simd/. A kernel's
 * file includes that and defines first:
 *   widen(bytes, x)      16 signed bytes as floats, in 16 / VL vectors
 *   spread_pair(h, x)    that at h in x[0], the one behind it in x[1]
 *   store32_bf16(to, x)  32 floats, none of them subnormal, as bfloat16
 *   nibbles_f32(to, nibbles, table, scale, offset), nibbles_bf16(...)
 *                        scale * table[n] + offset for 32 bytes n in 0..15
 * The offset of types that have none is -0, which changes no number, not even zeros, and which the
 * compiler drops. */
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

/* Every function here is inlined into one loop a type, where `target` is a constant. */
#define INLINE static inline __attribute__((always_inline))

typedef enum target { TO_F32, TO_BF16 } target;

/* What the elements of a run share. */
typedef struct run {
    vec scale, offset;
} run;

static const float no_offset = -0.0F;

INLINE run run_of(float scale, float offset)
{
    return (run){v_set1(scale), v_set1(offset)};
}

/* 32 values: scale * level + offset, 16 of one run and 16 of another or the same. A block's numbers
 * are multiples of 2^-24, as float16 are, so none of them is subnormal. */
INLINE void put32(target t, void *to, int64_t at, __m256i levels, run first, run second)
{
    vec x[32 / VL];
    widen(_mm256_castsi256_si128(levels), x);
    widen(_mm256_extracti128_si256(levels, 1), x + 16 / VL);
    for (int n = 0; n < 32 / VL; n++) {
        const run r = n < 16 / VL ? first : second;
        x[n] = v_add(v_mul(r.scale, x[n]), r.offset);
        if (t == TO_F32) v_store((float *)to + at + (int64_t)n * VL, x[n]);
    }
    if (t == TO_BF16) store32_bf16((uint16_t *)to + at, x);
}

/* The same for one run with 4-bit levels, which have only 16 values. */
INLINE void put_nibbles(target t, void *to, int64_t at, __m256i nibbles, const int8_t table[16],
                        run r)
{
    const __m128i levels = _mm_loadu_si128((const __m128i *)table);
    if (t == TO_F32)
        nibbles_f32((float *)to + at, nibbles, levels, r.scale, r.offset);
    else
        nibbles_bf16((uint16_t *)to + at, nibbles, levels, r.scale, r.offset);
}

static const int8_t plain_levels[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
static const int8_t signed_levels[16] = {-8, -7, -6, -5, -4, -3, -2, -1, 0, 1, 2, 3, 4, 5, 6, 7};

INLINE __m256i load32(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

/* Bits shift.. of every byte, as far as the mask goes. */
INLINE __m256i bits_from(__m256i x, int64_t shift, int mask)
{
    return _mm256_and_si256(_mm256_srli_epi16(x, (int)shift), _mm256_set1_epi8((char)mask));
}

INLINE __m256i minus(__m256i levels, int x)
{
    return _mm256_sub_epi8(levels, _mm256_set1_epi8((char)x));
}

/* The 32 levels of a small block: lower halves of the 16 bytes, then the upper ones. */
INLINE __m256i load_nibbles(const uint8_t q[FOCI_BLOCK / 2])
{
    const __m128i both = _mm_loadu_si128((const __m128i *)q);
    const __m256i split =
        _mm256_inserti128_si256(_mm256_castsi128_si256(both), _mm_srli_epi16(both, 4), 1);
    return _mm256_and_si256(split, _mm256_set1_epi8(15));
}

/* 16 in every byte whose bit is set in the 32 of `high`. */
INLINE __m256i load_high(const uint8_t high[FOCI_BLOCK / 8])
{
    int32_t bits;
    memcpy(&bits, high, sizeof bits);
    const __m256i byte_of =
        _mm256_setr_epi64x(0, 0x0101010101010101, 0x0202020202020202, 0x0303030303030303);
    const __m256i bit_of = _mm256_set1_epi64x((int64_t)0x8040201008040201);
    const __m256i spread = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), byte_of);
    const __m256i is_set = _mm256_cmpeq_epi8(_mm256_and_si256(spread, bit_of), bit_of);
    return _mm256_and_si256(is_set, _mm256_set1_epi8(16));
}

INLINE vec load_bf16(const uint8_t *h)
{
    uint16_t x[VL];
    memcpy(x, h, sizeof x); /* may lie at an odd address */
    return v_load_bf16(x);
}

/* Whole vectors of single elements, and the rest one by one. */
INLINE void expand_elements(target t, focal_dtype dtype, const uint8_t *from, int64_t count,
                            void *to)
{
    const int64_t size = dtype == FOCAL_F32 ? 4 : 2, whole = count - count % VL;
    for (int64_t n = 0; n < whole; n += VL) {
        const uint8_t *at = from + n * size;
        const vec x = dtype == FOCAL_F32   ? v_load_words(at)
                      : dtype == FOCAL_F16 ? v_load_f16(at)
                                           : load_bf16(at);
        if (t == TO_F32)
            v_store((float *)to + n, x);
        else
            v_store_bf16((uint16_t *)to + n, x);
    }
    if (t == TO_F32)
        foci_quant_ref_to_f32(dtype, from + whole * size, count - whole, (float *)to + whole);
    else
        foci_quant_ref_to_bf16(dtype, from + whole * size, count - whole, (uint16_t *)to + whole);
}

INLINE run scaled(const uint8_t d[2])
{
    return (run){v_spread_f16(d), v_set1(no_offset)};
}

/* d, and m right behind it. */
INLINE run shifted(const void *block)
{
    vec x[2];
    spread_pair(block, x);
    return (run){x[0], x[1]};
}

INLINE void expand_q8_0(target t, const foci_q8_0 *b, void *to, int64_t at)
{
    const run all = scaled(b->d);
    put32(t, to, at, load32(b->q), all, all);
}

INLINE void expand_q4_0(target t, const foci_q4_0 *b, void *to, int64_t at)
{
    put_nibbles(t, to, at, load_nibbles(b->q), signed_levels, scaled(b->d));
}

INLINE void expand_q4_1(target t, const foci_q4_1 *b, void *to, int64_t at)
{
    put_nibbles(t, to, at, load_nibbles(b->q), plain_levels, shifted(b));
}

INLINE void expand_q5_0(target t, const foci_q5_0 *b, void *to, int64_t at)
{
    const run all = scaled(b->d);
    put32(t, to, at, minus(load_nibbles(b->q) | load_high(b->high), 16), all, all);
}

INLINE void expand_q5_1(target t, const foci_q5_1 *b, void *to, int64_t at)
{
    const run all = shifted(b);
    put32(t, to, at, load_nibbles(b->q) | load_high(b->high), all, all);
}

INLINE void expand_iq4_nl(target t, const foci_iq4_nl *b, void *to, int64_t at)
{
    put_nibbles(t, to, at, load_nibbles(b->q), foci_iq4_nl_values, scaled(b->d));
}

/* The K types go by 32 elements: two runs of 16, or one of 32. */
INLINE void expand_q2_k(target t, const foci_q2_k *b, void *to, int64_t at)
{
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    run runs[16];
    for (int n = 0; n < 16; n++)
        runs[n] = run_of(d * (float)(b->scales[n] & 15), -(m * (float)(b->scales[n] >> 4)));
    for (int64_t n = 0; n < 8; n++) {
        const __m256i levels = bits_from(load32(b->q + n / 4 * 32), n % 4 * 2, 3);
        put32(t, to, at + 32 * n, levels, runs[2 * n], runs[2 * n + 1]);
    }
}

INLINE void expand_q3_k(target t, const foci_q3_k *b, void *to, int64_t at)
{
    const float d = foci_f16_read(b->d);
    const __m256i high = load32(b->high);
    for (int64_t n = 0; n < 8; n++) {
        const __m256i low = bits_from(load32(b->q + n / 4 * 32), n % 4 * 2, 3);
        const __m256i third = _mm256_slli_epi16(bits_from(high, n, 1), 2);
        put32(t, to, at + 32 * n, minus(low | third, 4),
              run_of(d * (float)foci_q3_k_scale(b->scales, (int)n * 2), no_offset),
              run_of(d * (float)foci_q3_k_scale(b->scales, (int)n * 2 + 1), no_offset));
    }
}

INLINE run run_k(float d, float m, const uint8_t scales[12], int64_t n)
{
    const int scale = foci_k_scale(scales, (int)n), min = foci_k_min(scales, (int)n);
    return run_of(d * (float)scale, -(m * (float)min));
}

INLINE void expand_q4_k(target t, const foci_q4_k *b, void *to, int64_t at)
{
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    for (int64_t n = 0; n < 8; n++) {
        const __m256i nibbles = bits_from(load32(b->q + n / 2 * 32), n % 2 * 4, 15);
        put_nibbles(t, to, at + 32 * n, nibbles, plain_levels, run_k(d, m, b->scales, n));
    }
}

INLINE void expand_q5_k(target t, const foci_q5_k *b, void *to, int64_t at)
{
    const float d = foci_f16_read(b->d), m = foci_f16_read(b->m);
    const __m256i high = load32(b->high);
    for (int64_t n = 0; n < 8; n++) {
        const run all = run_k(d, m, b->scales, n);
        const __m256i low = bits_from(load32(b->q + n / 2 * 32), n % 2 * 4, 15);
        const __m256i fifth = _mm256_slli_epi16(bits_from(high, n, 1), 4);
        put32(t, to, at + 32 * n, low | fifth, all, all);
    }
}

INLINE void expand_q6_k(target t, const foci_q6_k *b, void *to, int64_t at)
{
    const float d = foci_f16_read(b->d);
    for (int64_t n = 0; n < 8; n++) {
        const __m256i low = bits_from(load32(b->q + n / 4 * 64 + n % 2 * 32), n / 2 % 2 * 4, 15);
        const __m256i high = bits_from(load32(b->high + n / 4 * 32), n % 4 * 2, 3);
        put32(t, to, at + 32 * n, minus(low | _mm256_slli_epi16(high, 4), 32),
              run_of(d * (float)b->scales[2 * n], no_offset),
              run_of(d * (float)b->scales[2 * n + 1], no_offset));
    }
}

INLINE void expand(target t, focal_dtype dtype, const void *from, int64_t count, void *to)
{
    switch (dtype) {
    case FOCAL_F32:
        expand_elements(t, FOCAL_F32, from, count, to);
        break;
    case FOCAL_BF16:
        expand_elements(t, FOCAL_BF16, from, count, to);
        break;
    case FOCAL_F16:
        expand_elements(t, FOCAL_F16, from, count, to);
        break;
    case FOCAL_Q8_0:
        for (int64_t n = 0; n * 32 < count; n++)
            expand_q8_0(t, (const foci_q8_0 *)from + n, to, n * 32);
        break;
    case FOCAL_Q4_0:
        for (int64_t n = 0; n * 32 < count; n++)
            expand_q4_0(t, (const foci_q4_0 *)from + n, to, n * 32);
        break;
    case FOCAL_Q4_1:
        for (int64_t n = 0; n * 32 < count; n++)
            expand_q4_1(t, (const foci_q4_1 *)from + n, to, n * 32);
        break;
    case FOCAL_Q5_0:
        for (int64_t n = 0; n * 32 < count; n++)
            expand_q5_0(t, (const foci_q5_0 *)from + n, to, n * 32);
        break;
    case FOCAL_Q5_1:
        for (int64_t n = 0; n * 32 < count; n++)
            expand_q5_1(t, (const foci_q5_1 *)from + n, to, n * 32);
        break;
    case FOCAL_Q2_K:
        for (int64_t n = 0; n * 256 < count; n++)
            expand_q2_k(t, (const foci_q2_k *)from + n, to, n * 256);
        break;
    case FOCAL_Q3_K:
        for (int64_t n = 0; n * 256 < count; n++)
            expand_q3_k(t, (const foci_q3_k *)from + n, to, n * 256);
        break;
    case FOCAL_Q4_K:
        for (int64_t n = 0; n * 256 < count; n++)
            expand_q4_k(t, (const foci_q4_k *)from + n, to, n * 256);
        break;
    case FOCAL_Q5_K:
        for (int64_t n = 0; n * 256 < count; n++)
            expand_q5_k(t, (const foci_q5_k *)from + n, to, n * 256);
        break;
    case FOCAL_Q6_K:
        for (int64_t n = 0; n * 256 < count; n++)
            expand_q6_k(t, (const foci_q6_k *)from + n, to, n * 256);
        break;
    case FOCAL_IQ4_NL:
        for (int64_t n = 0; n * 32 < count; n++)
            expand_iq4_nl(t, (const foci_iq4_nl *)from + n, to, n * 32);
        break;
    }
}
