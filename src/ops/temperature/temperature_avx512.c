#ifdef __AVX512DQ__
/* Temperatures on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/temperature/temperature_body.h"

void foci_temperature_avx512(const void *products, int64_t first, int64_t count)
{
    temperature_rows(products, first, count);
}

void foci_temperature_backward_avx512(const void *spread, int64_t first, int64_t count)
{
    temperature_backward_rows(spread, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/temperature/temperature.h"

void foci_temperature_avx512(const void *products, int64_t first, int64_t count)
{
    foci_temperature_ref(products, first, count);
}

void foci_temperature_backward_avx512(const void *spread, int64_t first, int64_t count)
{
    foci_temperature_backward_ref(spread, first, count);
}
#endif
