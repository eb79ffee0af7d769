#if defined(__AVX512F__)
/* The router's kernel for AVX-512; everything but these names is in route_vectors.h. */
#include "simd/vec_avx512.h"

enum { ROWS = 8 }; /* of a register tile: 8 x 3 sums, 3 columns and a broadcast */

#include "ops/route/route_vectors.h"

bool foci_route_avx512_can(const focal_ctx *ctx, const focal_route_args *args)
{
    return can_here(ctx, args, FOCI_AVX512);
}

focal_status foci_route_avx512_forward(focal_ctx *ctx, const focal_route_args *args)
{
    return run_forward(ctx, args);
}

focal_status foci_route_avx512_backward(focal_ctx *ctx, const focal_route_args *args,
                                        const focal_route_grads *grads)
{
    return run_backward(ctx, args, grads);
}
#else
/* Stands in where the compiler has no AVX-512. */
#include "base/error.h"
#include "ops/route/route_kernels.h"

bool foci_route_avx512_can(const focal_ctx *ctx, const focal_route_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_route_avx512_forward(focal_ctx *ctx, const focal_route_args *args)
{
    (void)args;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "route: built without AVX-512");
}

focal_status foci_route_avx512_backward(focal_ctx *ctx, const focal_route_args *args,
                                        const focal_route_grads *grads)
{
    (void)args;
    (void)grads;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "route: built without AVX-512");
}
#endif
