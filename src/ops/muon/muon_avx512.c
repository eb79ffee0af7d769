#ifdef __AVX512DQ__
/* The passes of Muon on AVX-512. */
#include "simd/vec_avx512.h"

#include "ops/muon/muon_body.h"

void foci_muon_avx512(const void *args, int64_t first, int64_t count)
{
    muon_rows(args, first, count);
}
#else
/* Stands in where the compiler has no AVX-512: never chosen. */
#include "ops/muon/muon_passes.h"

void foci_muon_avx512(const void *args, int64_t first, int64_t count)
{
    foci_muon_ref(args, first, count);
}
#endif
