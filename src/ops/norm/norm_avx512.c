#ifdef __AVX512DQ__
/* Norms on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/norm/norm_backward_body.h"
#include "ops/norm/norm_body.h"

void foci_norm_avx512(const void *args, int64_t first, int64_t count)
{
    norm_rows(args, first, count);
}

void foci_norm_backward_avx512(const void *call, int64_t first, int64_t count)
{
    norm_backward_rows(call, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/norm/norm.h"
#include "ops/norm/norm_backward.h"

void foci_norm_avx512(const void *args, int64_t first, int64_t count)
{
    foci_norm_ref(args, first, count);
}

void foci_norm_backward_avx512(const void *call, int64_t first, int64_t count)
{
    foci_norm_backward_ref(call, first, count);
}
#endif
