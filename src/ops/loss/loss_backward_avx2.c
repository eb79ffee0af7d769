#ifdef __AVX2__
/* Gradients of losses on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/loss/loss_backward_body.h"

void foci_loss_backward_avx2(const void *args, int64_t first, int64_t count)
{
    loss_backward_rows(args, first, count);
}

void foci_kl_avx2(const void *args, int64_t first, int64_t count)
{
    kl_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/loss/loss_backward.h"

void foci_loss_backward_avx2(const void *args, int64_t first, int64_t count)
{
    foci_loss_backward_ref(args, first, count);
}

void foci_kl_avx2(const void *args, int64_t first, int64_t count)
{
    foci_kl_ref(args, first, count);
}
#endif
