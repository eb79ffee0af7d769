#ifdef __AVX2__
/* The rotation on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/rope/rope_backward_body.h"
#include "ops/rope/rope_body.h"

void foci_rope_avx2(const void *args, int64_t first, int64_t count)
{
    rope_rows(args, first, count);
}

void foci_rope_backward_avx2(const void *args, int64_t first, int64_t count)
{
    rope_backward_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/rope/rope.h"
#include "ops/rope/rope_backward.h"

void foci_rope_avx2(const void *args, int64_t first, int64_t count)
{
    foci_rope_ref(args, first, count);
}

void foci_rope_backward_avx2(const void *args, int64_t first, int64_t count)
{
    foci_rope_backward_ref(args, first, count);
}
#endif
