#if defined(__AVX2__)
/* The router's kernel for AVX2; everything but these names is in route_vectors.h. */
#include "simd/vec_avx2.h"

enum { ROWS = 4 }; /* of a register tile: 4 x 3 sums, 3 columns and a broadcast */

#include "ops/route/route_vectors.h"

bool foci_route_avx2_can(const focal_ctx *ctx, const focal_route_args *args)
{
    return can_here(ctx, args, FOCI_AVX2);
}

focal_status foci_route_avx2_forward(focal_ctx *ctx, const focal_route_args *args)
{
    return run_forward(ctx, args);
}

focal_status foci_route_avx2_backward(focal_ctx *ctx, const focal_route_args *args,
                                      const focal_route_grads *grads)
{
    return run_backward(ctx, args, grads);
}
#else
/* Stands in where the compiler has no AVX2. */
#include "base/error.h"
#include "ops/route/route_kernels.h"

bool foci_route_avx2_can(const focal_ctx *ctx, const focal_route_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_route_avx2_forward(focal_ctx *ctx, const focal_route_args *args)
{
    (void)args;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "route: built without AVX2");
}

focal_status foci_route_avx2_backward(focal_ctx *ctx, const focal_route_args *args,
                                      const focal_route_grads *grads)
{
    (void)args;
    (void)grads;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "route: built without AVX2");
}
#endif
