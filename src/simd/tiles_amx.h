/* AMX tiles of bfloat16 products: c (16 x 16 floats) += a (16 x 32) b (32 x 16). Rows of a lie as
 * they are; b has the two numbers of a pair of its rows side by side: b[k / 2][n][k % 2]. */
#ifndef FOCI_SIMD_TILES_AMX_H
#define FOCI_SIMD_TILES_AMX_H

#include <immintrin.h>
#include <stdint.h>

enum { FOCI_TILE_ROWS = 16, FOCI_TILE_BYTES = 64 /* of a row */, FOCI_TILE_DEPTH = 32 };

/* Behind stores to memory that tiles are loaded from: gcc 12 does not know what its tile
 * instructions read, and may move or drop what was written there. */
static inline void foci_tiles_see(const void *written)
{
    __asm__ volatile("" : : "r"(written) : "memory");
}

/* All eight registers whole. A thread does so before its first tile instruction. */
static inline void foci_tiles_begin(void)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } layout = {.palette = 1};
    for (int n = 0; n < 8; n++) {
        layout.row_bytes[n] = FOCI_TILE_BYTES;
        layout.rows[n] = FOCI_TILE_ROWS;
    }
    foci_tiles_see(&layout);
    _tile_loadconfig(&layout);
}

/* Behind the last: the system need not keep the registers any longer. */
static inline void foci_tiles_end(void)
{
    _tile_release();
}

#endif /* FOCI_SIMD_TILES_AMX_H */
