/* Counter-based random numbers (Philox 4x32-10): a number is a function of seed, stream and
 * counter, so any of them can be had at any time, on any thread. */
#ifndef FOCI_BASE_RANDOM_H
#define FOCI_BASE_RANDOM_H

#include <stdint.h>

typedef struct foci_random4 {
    uint32_t x[4];
} foci_random4;

/* Four words for one counter. */
foci_random4 foci_random_block(uint64_t seed, uint64_t stream, uint64_t counter);

/* The n-th number of a stream: 32 bits, uniform in [0,1), uniform in 0..bound-1 (bound >= 1),
 * standard normal. Each kind has its own n; do not mix kinds in one stream. */
uint32_t foci_random_u32(uint64_t seed, uint64_t stream, uint64_t n);
float foci_random_uniform(uint64_t seed, uint64_t stream, uint64_t n);
uint32_t foci_random_below(uint64_t seed, uint64_t stream, uint64_t n, uint32_t bound);
float foci_random_normal(uint64_t seed, uint64_t stream, uint64_t n);

#endif /* FOCI_BASE_RANDOM_H */
