#ifdef __AVX512DQ__
/* Gradients of losses on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/loss/loss_backward_body.h"

void foci_loss_backward_avx512(const void *args, int64_t first, int64_t count)
{
    loss_backward_rows(args, first, count);
}

void foci_kl_avx512(const void *args, int64_t first, int64_t count)
{
    kl_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/loss/loss_backward.h"

void foci_loss_backward_avx512(const void *args, int64_t first, int64_t count)
{
    foci_loss_backward_ref(args, first, count);
}

void foci_kl_avx512(const void *args, int64_t first, int64_t count)
{
    foci_kl_ref(args, first, count);
}
#endif
