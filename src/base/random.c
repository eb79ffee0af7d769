/* Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011). */
#include "base/random.h"

#include <math.h>

enum { ROUNDS = 10 };

foci_random4 foci_random_block(uint64_t seed, uint64_t stream, uint64_t counter)
{
    uint32_t key0 = (uint32_t)seed, key1 = (uint32_t)(seed >> 32);
    uint32_t c0 = (uint32_t)counter, c1 = (uint32_t)(counter >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t m0 = (uint64_t)0xD2511F53U * c0, m1 = (uint64_t)0xCD9E8D57U * c2;
        const uint32_t n0 = (uint32_t)(m1 >> 32) ^ c1 ^ key0, n2 = (uint32_t)(m0 >> 32) ^ c3 ^ key1;
        c1 = (uint32_t)m1;
        c3 = (uint32_t)m0;
        c0 = n0;
        c2 = n2;
        key0 += 0x9E3779B9U;
        key1 += 0xBB67AE85U;
    }
    return (foci_random4){{c0, c1, c2, c3}};
}

uint32_t foci_random_u32(uint64_t seed, uint64_t stream, uint64_t n)
{
    return foci_random_block(seed, stream, n / 4).x[n % 4];
}

/* 24 bits, so that every value is a float and 1 is never reached. */
static float unit_from_bits(uint32_t bits)
{
    return (float)(bits >> 8) * 0x1p-24F;
}

float foci_random_uniform(uint64_t seed, uint64_t stream, uint64_t n)
{
    return unit_from_bits(foci_random_u32(seed, stream, n));
}

uint32_t foci_random_below(uint64_t seed, uint64_t stream, uint64_t n, uint32_t bound)
{
    /* The upper half of a 64 x 32 bit product: the bias is below 2^-32. */
    const foci_random4 r = foci_random_block(seed, stream, n);
    const uint64_t high = (uint64_t)r.x[0] * bound, low = (uint64_t)r.x[1] * bound;
    return (uint32_t)((high + (low >> 32)) >> 32);
}

float foci_random_normal(uint64_t seed, uint64_t stream, uint64_t n)
{
    /* Box and Muller: a block gives two numbers. 1 - u is in (0,1], so the logarithm is finite. */
    const foci_random4 r = foci_random_block(seed, stream, n / 2);
    const double radius = sqrt(-2.0 * log(1.0 - (double)unit_from_bits(r.x[0])));
    const double angle = 6.283185307179586 * (double)unit_from_bits(r.x[1]);
    return (float)(radius * (n % 2 == 0 ? cos(angle) : sin(angle)));
}
