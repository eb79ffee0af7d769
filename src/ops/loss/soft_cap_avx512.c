#ifdef __AVX512DQ__
/* The soft-cap on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/loss/soft_cap_body.h"

void foci_soft_cap_avx512(const void *args, int64_t first, int64_t count)
{
    soft_cap_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/loss/soft_cap.h"

void foci_soft_cap_avx512(const void *args, int64_t first, int64_t count)
{
    foci_soft_cap_ref(args, first, count);
}
#endif
