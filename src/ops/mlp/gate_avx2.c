#ifdef __AVX2__
/* Activations on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/mlp/gate_backward_body.h"
#include "ops/mlp/gate_body.h"

void foci_gate_avx2(const void *args, int64_t first, int64_t count)
{
    gate_rows(args, first, count);
}

void foci_gate_backward_avx2(const void *args, int64_t first, int64_t count)
{
    gate_backward_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/mlp/gate.h"
#include "ops/mlp/gate_backward.h"

void foci_gate_avx2(const void *args, int64_t first, int64_t count)
{
    foci_gate_ref(args, first, count);
}

void foci_gate_backward_avx2(const void *args, int64_t first, int64_t count)
{
    foci_gate_backward_ref(args, first, count);
}
#endif
