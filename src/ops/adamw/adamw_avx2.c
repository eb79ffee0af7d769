#ifdef __AVX2__
/* AdamW on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/adamw/adamw_body.h"

void foci_adamw_avx2(const void *args, int64_t first, int64_t count)
{
    adamw_elements(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/adamw/adamw.h"

void foci_adamw_avx2(const void *args, int64_t first, int64_t count)
{
    foci_adamw_ref(args, first, count);
}
#endif
