#ifdef __AVX512DQ__
/* The best groups on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/route/route_top_body.h"

void foci_route_top_avx512(const void *args, int64_t first, int64_t count)
{
    top_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/route/route_top.h"

void foci_route_top_avx512(const void *args, int64_t first, int64_t count)
{
    foci_route_top_ref(args, first, count);
}
#endif
