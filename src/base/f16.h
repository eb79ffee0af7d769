/* float16 (IEEE binary16) in plain C, inline: one sign bit, five of exponent, ten of fraction. */
#ifndef FOCI_BASE_F16_H
#define FOCI_BASE_F16_H

#include <stdint.h>
#include <string.h>

/* Exact for every value; a NaN keeps its bits. */
static inline float foci_f16_to_float(uint16_t x)
{
    const uint32_t sign = (uint32_t)(x & 0x8000U) << 16, rest = x & 0x7FFFU;
    uint32_t bits;
    float value;
    if (rest < 0x400U) { /* zero or subnormal: the fraction counts steps of 2^-24 */
        value = (float)rest * 0x1p-24F;
        memcpy(&bits, &value, sizeof bits);
    } else if (rest < 0x7C00U) { /* exponents are biased by 15 there, by 127 here */
        bits = (rest << 13) + ((127U - 15U) << 23);
    } else {
        bits = (rest << 13) | 0x7F800000U;
    }
    bits |= sign;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To nearest, ties to even; from 65,520 on infinite; a NaN keeps the upper part of its bits and
 * never becomes infinite. */
static inline uint16_t foci_f16_from_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000U, rest = bits & 0x7FFFFFFFU;
    uint32_t half;
    if (rest > 0x7F800000U) {
        half = 0x7C00U | (rest >> 13 & 0x3FFU);
        half += half == 0x7C00U;
    } else if (rest >= 0x477FF000U) {
        half = 0x7C00U;
    } else if (rest >= 0x38800000U) { /* a carry out of the fraction goes into the exponent */
        half = (rest - ((127U - 15U) << 23) + 0xFFFU + (rest >> 13 & 1U)) >> 13;
    } else if (rest > 0x33000000U) { /* subnormal: the fraction with its hidden one, moved down */
        const uint32_t shift = 126U - (rest >> 23), fraction = (rest & 0x7FFFFFU) | 0x800000U;
        const uint32_t below = (1U << (shift - 1U)) - 1U;
        half = (fraction + below + (fraction >> shift & 1U)) >> shift;
    } else { /* at most half of the smallest subnormal */
        half = 0;
    }
    return (uint16_t)(sign | half);
}

#endif /* FOCI_BASE_F16_H */
