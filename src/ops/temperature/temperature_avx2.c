#ifdef __AVX2__
/* Temperatures on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/temperature/temperature_body.h"

void foci_temperature_avx2(const void *products, int64_t first, int64_t count)
{
    temperature_rows(products, first, count);
}

void foci_temperature_backward_avx2(const void *spread, int64_t first, int64_t count)
{
    temperature_backward_rows(spread, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/temperature/temperature.h"

void foci_temperature_avx2(const void *products, int64_t first, int64_t count)
{
    foci_temperature_ref(products, first, count);
}

void foci_temperature_backward_avx2(const void *spread, int64_t first, int64_t count)
{
    foci_temperature_backward_ref(spread, first, count);
}
#endif
