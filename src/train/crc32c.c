/* CRC32C four bits at a time, and the choice of the CPU's instruction where it is there. */
#include "train/crc32c.h"

#include "base/ctx.h"

/* The remainders of the four-bit numbers, for the reflected polynomial 0x82F63B78. */
static const uint32_t remainders[16] = {
    0x00000000, 0x105EC76F, 0x20BD8EDE, 0x30E349B1, 0x417B1DBC, 0x5125DAD3, 0x61C69362, 0x7198540D,
    0x82F63B78, 0x92A8FC17, 0xA24BB5A6, 0xB21572C9, 0xC38D26C4, 0xD3D3E1AB, 0xE330A81A, 0xF36E6F75,
};

uint32_t foci_crc32c_ref(uint32_t crc, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    crc = ~crc;
    for (size_t n = 0; n < bytes; n++) {
        crc ^= at[n];
        crc = crc >> 4 ^ remainders[crc & 15];
        crc = crc >> 4 ^ remainders[crc & 15];
    }
    return ~crc;
}

uint32_t foci_crc32c(const focal_ctx *ctx, uint32_t crc, const void *data, size_t bytes)
{
    return foci_has(ctx, FOCI_AVX2) ? foci_crc32c_avx2(crc, data, bytes)
                                    : foci_crc32c_ref(crc, data, bytes);
}
