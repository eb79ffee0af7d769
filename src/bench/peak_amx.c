/* The bfloat16 peak with AMX. */
#include "bench/yardstick_kernels.h"

#if defined(__AMX_BF16__) || defined(__AMXBF16__)
#include <immintrin.h>

#include "simd/tiles_amx.h"

float foci_peak_amx(int64_t rounds)
{
    float sums[FOCI_TILE_ROWS * FOCI_TILE_ROWS];
    foci_tiles_begin();
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    _tile_zero(4);
    _tile_zero(5);
    for (int64_t r = 0; r < rounds; r++)
        for (int n = 0; n < FOCI_PEAK_CHAINS / 4; n++) {
            _tile_dpbf16ps(0, 4, 5);
            _tile_dpbf16ps(1, 4, 5);
            _tile_dpbf16ps(2, 4, 5);
            _tile_dpbf16ps(3, 4, 5);
        }
    _tile_stored(0, sums, FOCI_TILE_BYTES);
    foci_tiles_end();
    return sums[0];
}
#else
float foci_peak_amx(int64_t rounds)
{
    (void)rounds;
    return 0.0F;
}
#endif
