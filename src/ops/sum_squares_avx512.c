#ifdef __AVX512DQ__
/* Sums of squares on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/sum_squares_body.h"

void foci_sum_squares_avx512(const void *args, int64_t first, int64_t count)
{
    sum_pieces(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/sum_squares.h"

void foci_sum_squares_avx512(const void *args, int64_t first, int64_t count)
{
    foci_sum_squares_ref(args, first, count);
}
#endif
