#ifdef __AVX512DQ__
/* AdamW on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/adamw/adamw_body.h"

void foci_adamw_avx512(const void *args, int64_t first, int64_t count)
{
    adamw_elements(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/adamw/adamw.h"

void foci_adamw_avx512(const void *args, int64_t first, int64_t count)
{
    foci_adamw_ref(args, first, count);
}
#endif
