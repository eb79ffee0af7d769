/* The bfloat16 dot-product peak with AVX-512-BF16. */
#include "bench/yardstick_kernels.h"

#if defined(__AVX512BF16__)
#include <immintrin.h>

float foci_peak_avx512bf16(int64_t rounds)
{
    const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1e-3F), _mm512_set1_ps(1e-3F));
    __m512 sum[FOCI_PEAK_CHAINS];
    for (int n = 0; n < FOCI_PEAK_CHAINS; n++) sum[n] = _mm512_set1_ps((float)n);
    for (int64_t r = 0; r < rounds; r++)
        for (int n = 0; n < FOCI_PEAK_CHAINS; n++) sum[n] = _mm512_dpbf16_ps(sum[n], x, x);
    for (int n = 1; n < FOCI_PEAK_CHAINS; n++) sum[0] = _mm512_add_ps(sum[0], sum[n]);
    return _mm512_cvtss_f32(sum[0]);
}
#else
float foci_peak_avx512bf16(int64_t rounds)
{
    (void)rounds;
    return 0.0F;
}
#endif
