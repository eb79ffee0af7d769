/* The blocks of GGUF's quantised types as they lie in a file. Every member is made of bytes, so a
 * block may lie at any address; float16 numbers are little-endian. x is the value, q the stored
 * level, and a run of elements shares d (its scale) and m (its minimum). */
#ifndef FOCI_OPS_BLOCKS_H
#define FOCI_OPS_BLOCKS_H

#include <stdint.h>
#include <string.h>

#include "base/f16.h"

enum {
    FOCI_BLOCK = 32,       /* elements of a small block */
    FOCI_SUPER_BLOCK = 256 /* elements of a K block: 8 or 16 runs, whose scales are integers too */
};

/* 8 bits an element, one scale: x = d q with q in -128..127 (quantising uses -127..127).
 * Nearly lossless; the type of caches. */
typedef struct foci_q8_0 {
    uint8_t d[2];
    int8_t q[FOCI_BLOCK];
} foci_q8_0;

/* 4 bits an element, one scale: x = d (q - 8) with q in 0..15.
 * Byte n holds element n in its lower half and element n + 16 in its upper one. */
typedef struct foci_q4_0 {
    uint8_t d[2];
    uint8_t q[FOCI_BLOCK / 2];
} foci_q4_0;

/* 4 bits an element, scale and minimum: x = d q + m with q in 0..15.
 * Halves as in q4_0. */
typedef struct foci_q4_1 {
    uint8_t d[2], m[2];
    uint8_t q[FOCI_BLOCK / 2];
} foci_q4_1;

/* 5 bits an element, one scale: x = d (q - 16) with q in 0..31.
 * The lower four bits as in q4_0; bit n of high is the fifth of element n. */
typedef struct foci_q5_0 {
    uint8_t d[2];
    uint8_t high[FOCI_BLOCK / 8];
    uint8_t q[FOCI_BLOCK / 2];
} foci_q5_0;

/* 5 bits an element, scale and minimum: x = d q + m with q in 0..31.
 * Bits as in q5_0. */
typedef struct foci_q5_1 {
    uint8_t d[2], m[2];
    uint8_t high[FOCI_BLOCK / 8];
    uint8_t q[FOCI_BLOCK / 2];
} foci_q5_1;

/* 4 bits an element, one scale: x = d v[q], where v is foci_iq4_nl_values, dense near zero.
 * Halves as in q4_0. */
typedef struct foci_iq4_nl {
    uint8_t d[2];
    uint8_t q[FOCI_BLOCK / 2];
} foci_iq4_nl;

/* 2 bits an element, 16 runs of 16: x = d s q - m t, s the lower and t the upper half of
 * scales[run]. Each 32 bytes of q hold 128 elements: byte n has n, n + 32, n + 64 and n + 96,
 * lowest bits first. */
typedef struct foci_q2_k {
    uint8_t scales[16];
    uint8_t q[FOCI_SUPER_BLOCK / 4];
    uint8_t d[2], m[2];
} foci_q2_k;

/* 3 bits an element, 16 runs of 16: x = d (s - 32) (q - 4) with 6-bit s (foci_q3_k_scale).
 * The lower two bits as in q2_k; bit n / 32 of high[n % 32] is the third of element n. */
typedef struct foci_q3_k {
    uint8_t high[FOCI_SUPER_BLOCK / 8];
    uint8_t q[FOCI_SUPER_BLOCK / 4];
    uint8_t scales[12];
    uint8_t d[2];
} foci_q3_k;

/* 4 bits an element, 8 runs of 32: x = d s q - m t with 6-bit s and t (foci_k_scale, foci_k_min).
 * Each 32 bytes of q hold two runs, the first in the lower halves. */
typedef struct foci_q4_k {
    uint8_t d[2], m[2];
    uint8_t scales[12];
    uint8_t q[FOCI_SUPER_BLOCK / 2];
} foci_q4_k;

/* 5 bits an element, 8 runs of 32: as q4_k, with q in 0..31.
 * Bit n / 32 of high[n % 32] is the fifth of element n. */
typedef struct foci_q5_k {
    uint8_t d[2], m[2];
    uint8_t scales[12];
    uint8_t high[FOCI_SUPER_BLOCK / 8];
    uint8_t q[FOCI_SUPER_BLOCK / 2];
} foci_q5_k;

/* 6 bits an element, 16 runs of 16: x = d s (q - 32) with s = scales[run]. Of each 128 elements,
 * byte n of 64 has the lower four bits of n and n + 64, and byte n of 32 in high the upper two of
 * n, n + 32, n + 64 and n + 96. */
typedef struct foci_q6_k {
    uint8_t q[FOCI_SUPER_BLOCK / 2];
    uint8_t high[FOCI_SUPER_BLOCK / 4];
    int8_t scales[16];
    uint8_t d[2];
} foci_q6_k;

/* The levels of iq4_nl. */
static const int8_t foci_iq4_nl_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                              1,    13,   25,  38,  53,  69,  89,  113};

static inline float foci_f16_read(const uint8_t bytes[2])
{
    return foci_f16_to_float((uint16_t)(bytes[0] | bytes[1] << 8));
}

static inline void foci_f16_write(uint8_t bytes[2], float x)
{
    const uint16_t half = foci_f16_from_float(x);
    bytes[0] = (uint8_t)half;
    bytes[1] = (uint8_t)(half >> 8);
}

/* A block that reads as NaN. */
static inline void foci_q8_0_spoil(foci_q8_0 *block)
{
    memset(block, 0, sizeof *block);
    block->d[1] = 0x7E;
}

/* Scale and minimum of run 0..7 in the 12 bytes of q4_k and q5_k: the first four runs have bytes of
 * their own (scales, then minima), whose two upper bits, with four of the last bytes, make up the
 * other four runs. */
static inline int foci_k_scale(const uint8_t scales[12], int run)
{
    if (run < 4) return scales[run] & 63;
    return (scales[run + 4] & 15) | (scales[run - 4] >> 6 << 4);
}

static inline int foci_k_min(const uint8_t scales[12], int run)
{
    if (run < 4) return scales[run + 4] & 63;
    return scales[run + 4] >> 4 | (scales[run] >> 6 << 4);
}

/* Scale of run 0..15 in the 12 bytes of q3_k, -32..31: four bits in one of the first eight bytes
 * (runs 8 on in the upper halves), two more in the last four. */
static inline int foci_q3_k_scale(const uint8_t scales[12], int run)
{
    const int low = scales[run % 8] >> run / 8 * 4 & 15,
              high = scales[8 + run % 4] >> run / 4 * 2 & 3;
    return (low | high << 4) - 32;
}

#endif /* FOCI_OPS_BLOCKS_H */
