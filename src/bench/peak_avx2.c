/* The float32 multiply-add peak with AVX2. */
#include "bench/yardstick_kernels.h"

#if defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>

float foci_peak_avx2(int64_t rounds)
{
    /* s = s / 2 + 1 stays near 2: no overflow, no denormals, nothing to fold away. */
    const __m256 half = _mm256_set1_ps(0.5F), one = _mm256_set1_ps(1.0F);
    __m256 sum[FOCI_PEAK_CHAINS];
    for (int n = 0; n < FOCI_PEAK_CHAINS; n++) sum[n] = _mm256_set1_ps((float)n);
    for (int64_t r = 0; r < rounds; r++)
        for (int n = 0; n < FOCI_PEAK_CHAINS; n++) sum[n] = _mm256_fmadd_ps(sum[n], half, one);
    for (int n = 1; n < FOCI_PEAK_CHAINS; n++) sum[0] = _mm256_add_ps(sum[0], sum[n]);
    return _mm256_cvtss_f32(sum[0]);
}
#else
float foci_peak_avx2(int64_t rounds)
{
    (void)rounds;
    return 0.0F;
}
#endif
