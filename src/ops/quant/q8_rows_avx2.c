#ifdef __AVX2__
/* Rows as q8_0 on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/quant/q8_rows_body.h"

void foci_q8_rows_avx2(const void *args, int64_t first, int64_t count)
{
    q8_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/quant/q8_rows.h"

void foci_q8_rows_avx2(const void *args, int64_t first, int64_t count)
{
    foci_q8_rows_ref(args, first, count);
}
#endif
