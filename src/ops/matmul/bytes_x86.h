/* What kernels of bytes share on x86: how blocks are laid out, and their packed scales. */
#ifndef FOCI_OPS_MATMUL_BYTES_X86_H
#define FOCI_OPS_MATMUL_BYTES_X86_H

#include <immintrin.h>
#include <string.h>

#include "ops/blocks.h"
#include "ops/matmul/bytes.h"
#include "simd/tile.h"

enum {
    BYTE_SUMS = 4, /* rows of w times rows of x at a time */
    BYTE_PAIR = 2  /* rows of w that share what is read of x */
};

/* Rows of x, from some place on. */
typedef struct byte_x {
    const int8_t *high, *low;
    const float *factor;
    int64_t q_stride, factor_stride; /* to the next row */
} byte_x;

/* Rows of w that lie one behind the other. */
typedef struct byte_group {
    const uint8_t *first;
    int64_t row_bytes, rows, K;
    bool is_interleaved; /* they are one group of ops/interleave.h */
} byte_group;

/* Where things stand in a block, in 16-bit words. */
typedef struct block_words {
    int words; /* of a block */
    int m;     /* the second number: its minimum, or d once more */
    int high;  /* fifth bits, 0: none */
    int q;
} block_words;

FOCI_INLINE block_words words_of_type(const focal_dtype type)
{
    if (type == FOCAL_Q4_1) return (block_words){10, 1, 0, 2};
    if (type == FOCAL_Q5_0) return (block_words){11, 0, 1, 3};
    if (type == FOCAL_Q5_1) return (block_words){12, 1, 2, 4};
    if (type == FOCAL_Q8_0) return (block_words){17, 0, 0, 1};
    return (block_words){9, 0, 0, 1};
}

FOCI_INLINE bool is_k_type(const focal_dtype type)
{
    return type >= FOCAL_Q2_K && type <= FOCAL_Q6_K;
}

FOCI_INLINE int64_t k_block_bytes(const focal_dtype type)
{
    if (type == FOCAL_Q2_K) return sizeof(foci_q2_k);
    if (type == FOCAL_Q3_K) return sizeof(foci_q3_k);
    if (type == FOCAL_Q4_K) return sizeof(foci_q4_k);
    return type == FOCAL_Q5_K ? sizeof(foci_q5_k) : sizeof(foci_q6_k);
}

/* The 6-bit scales of a block of q4_k or q5_k, then their minima, a byte each. They lie in three
 * words behind d and m; every word of the result has bits of one of them, odd ones of two. */
FOCI_INLINE __m128i six_bits(const uint8_t *block)
{
    const __m128i u = _mm_loadu_si128((const __m128i *)(const void *)block);
    const __m128i low = _mm_srlv_epi32(_mm_shuffle_epi32(u, 0xED), _mm_set_epi32(4, 0, 0, 0));
    const __m128i high = _mm_srli_epi32(_mm_shuffle_epi32(u, 0xA5), 2);
    return _mm_or_si128(
        _mm_and_si128(low, _mm_set_epi32(0x0F0F0F0F, 0x3F3F3F3F, 0x0F0F0F0F, 0x3F3F3F3F)),
        _mm_and_si128(high, _mm_set_epi32(0x30303030, 0, 0x30303030, 0)));
}

/* The 16 scales of q3_k, -32 .. 31. */
FOCI_INLINE __m128i q3_scales(const uint8_t scales[12])
{
    uint64_t low;
    uint32_t high;
    memcpy(&low, scales, sizeof low);
    memcpy(&high, scales + 8, sizeof high);
    const uint64_t four = 0x0F0F0F0F0F0F0F0FU, two = 0x3030303030303030U;
    const uint64_t first = (uint64_t)high << 4 | (uint64_t)(high << 2) << 32;
    const uint64_t second = (uint64_t)high | (uint64_t)(high >> 2) << 32;
    return _mm_sub_epi8(_mm_set_epi64x((long long)((low >> 4 & four) | (second & two)),
                                       (long long)((low & four) | (first & two))),
                        _mm_set1_epi8(32));
}

#endif /* FOCI_OPS_MATMUL_BYTES_X86_H */
