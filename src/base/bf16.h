/* bfloat16 in plain C, inline, for loops that convert elements one at a time. */
#ifndef FOCI_BASE_BF16_H
#define FOCI_BASE_BF16_H

#include <stdint.h>
#include <string.h>

static inline float foci_bf16_to_float(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint16_t foci_bf16_from_float(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return (uint16_t)((bits >> 16) | 0x40U); /* quiet NaN */
    return (uint16_t)((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

#endif /* FOCI_BASE_BF16_H */
