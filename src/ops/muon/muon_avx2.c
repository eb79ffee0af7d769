#ifdef __AVX2__
/* The passes of Muon on AVX2. */
#include "simd/vec_avx2.h"

#include "ops/muon/muon_body.h"

void foci_muon_avx2(const void *args, int64_t first, int64_t count)
{
    muon_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX2: never chosen. */
#include "ops/muon/muon_passes.h"

void foci_muon_avx2(const void *args, int64_t first, int64_t count)
{
    foci_muon_ref(args, first, count);
}
#endif
