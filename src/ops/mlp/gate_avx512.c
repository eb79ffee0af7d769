#ifdef __AVX512DQ__
/* Activations on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/mlp/gate_backward_body.h"
#include "ops/mlp/gate_body.h"

void foci_gate_avx512(const void *args, int64_t first, int64_t count)
{
    gate_rows(args, first, count);
}

void foci_gate_backward_avx512(const void *args, int64_t first, int64_t count)
{
    gate_backward_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/mlp/gate.h"
#include "ops/mlp/gate_backward.h"

void foci_gate_avx512(const void *args, int64_t first, int64_t count)
{
    foci_gate_ref(args, first, count);
}

void foci_gate_backward_avx512(const void *args, int64_t first, int64_t count)
{
    foci_gate_backward_ref(args, first, count);
}
#endif
