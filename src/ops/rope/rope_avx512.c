#ifdef __AVX512DQ__
/* The rotation on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/rope/rope_backward_body.h"
#include "ops/rope/rope_body.h"

void foci_rope_avx512(const void *args, int64_t first, int64_t count)
{
    rope_rows(args, first, count);
}

void foci_rope_backward_avx512(const void *args, int64_t first, int64_t count)
{
    rope_backward_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/rope/rope.h"
#include "ops/rope/rope_backward.h"

void foci_rope_avx512(const void *args, int64_t first, int64_t count)
{
    foci_rope_ref(args, first, count);
}

void foci_rope_backward_avx512(const void *args, int64_t first, int64_t count)
{
    foci_rope_backward_ref(args, first, count);
}
#endif
