#ifdef __AVX512DQ__
/* Rows as q8_0 on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/quant/q8_rows_body.h"

void foci_q8_rows_avx512(const void *args, int64_t first, int64_t count)
{
    q8_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/quant/q8_rows.h"

void foci_q8_rows_avx512(const void *args, int64_t first, int64_t count)
{
    foci_q8_rows_ref(args, first, count);
}
#endif
