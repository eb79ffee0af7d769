#ifdef __AVX2__
/* The best groups on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/route/route_top_body.h"

void foci_route_top_avx2(const void *args, int64_t first, int64_t count)
{
    top_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/route/route_top.h"

void foci_route_top_avx2(const void *args, int64_t first, int64_t count)
{
    foci_route_top_ref(args, first, count);
}
#endif
