#ifdef __AVX512DQ__
/* Log-probabilities on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/loss/loss_body.h"

void foci_loss_avx512(const void *args, int64_t first, int64_t count)
{
    loss_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/loss/loss.h"

void foci_loss_avx512(const void *args, int64_t first, int64_t count)
{
    foci_loss_ref(args, first, count);
}
#endif
