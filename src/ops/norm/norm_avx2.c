#ifdef __AVX2__
/* Norms on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/norm/norm_backward_body.h"
#include "ops/norm/norm_body.h"

void foci_norm_avx2(const void *args, int64_t first, int64_t count)
{
    norm_rows(args, first, count);
}

void foci_norm_backward_avx2(const void *call, int64_t first, int64_t count)
{
    norm_backward_rows(call, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/norm/norm.h"
#include "ops/norm/norm_backward.h"

void foci_norm_avx2(const void *args, int64_t first, int64_t count)
{
    foci_norm_ref(args, first, count);
}

void foci_norm_backward_avx2(const void *call, int64_t first, int64_t count)
{
    foci_norm_backward_ref(call, first, count);
}
#endif
