#ifdef __AVX2__
/* CRC32C by the instruction of SSE4.2, which every CPU with AVX2 has: 8 bytes in 3 cycles, several
 * times what a disk takes, so one chain is enough. */
#include <immintrin.h>
#include <string.h>

#include "train/crc32c.h"

uint32_t foci_crc32c_avx2(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint64_t sum = (uint32_t)~crc;
    for (; bytes >= 8; bytes -= 8, at += 8) {
        uint64_t word;
        memcpy(&word, at, sizeof word);
        sum = _mm_crc32_u64(sum, word);
    }
    uint32_t rest = (uint32_t)sum;
    for (; bytes > 0; bytes--, at++) rest = _mm_crc32_u8(rest, *at);
    return ~rest;
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "train/crc32c.h"

uint32_t foci_crc32c_avx2(uint32_t crc, const void *data, size_t bytes)
{
    return foci_crc32c_ref(crc, data, bytes);
}
#endif
