/* Router scores: check the call, then run the first kernel that can take it. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "focal/route.h"
#include "ops/route/route_check.h"
#include "ops/route/route_kernels.h"

const foci_route_kernel foci_route_kernels[] = {
    {"amx", foci_route_amx_can, foci_route_amx_forward, foci_route_amx_backward},
    {"avx512", foci_route_avx512_can, foci_route_avx512_forward, foci_route_avx512_backward},
    {"avx2", foci_route_avx2_can, foci_route_avx2_forward, foci_route_avx2_backward},
    {"ref", foci_route_ref_can, foci_route_ref_forward, foci_route_ref_backward},
};
const size_t foci_route_kernel_count = FOCAL_COUNT(foci_route_kernels);

static focal_status check_router(focal_ctx *ctx, const focal_router *r)
{
    if (r->C < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "route: C is %d, it must be at least 1", r->C);
    if (r->R < 1 || r->R > FOCI_ROUTE_MAX_WIDTH)
        return foci_fail(ctx, FOCAL_EINVAL, "route: R is %d, it must be 1 to %d", r->R,
                         FOCI_ROUTE_MAX_WIDTH);
    if (!r->pk || !r->e) return foci_fail(ctx, FOCAL_EINVAL, "route: pk and e must be set");
    if (!isfinite(r->sharpness))
        return foci_fail(ctx, FOCAL_EINVAL, "route: sharpness must be a finite number");
    return FOCAL_OK;
}

focal_status foci_route_normalise(focal_ctx *ctx, const focal_route_args *args,
                                  focal_route_args *normal, focal_router *router)
{
    if (!args || !args->router)
        return foci_fail(ctx, FOCAL_EINVAL, "route: args and the router must be set");
    *normal = *args;
    *router = *args->router;
    normal->router = router;
    FOCAL_TRY(foci_route_check_sizes(ctx, "route", args->T, router->routers, router->K));
    FOCAL_TRY(check_router(ctx, router));
    if (!args->h) return foci_fail(ctx, FOCAL_EINVAL, "route: h must be set");
    if (normal->h_stride == 0) normal->h_stride = router->C;
    if (normal->h_stride < router->C || normal->h_stride > INT64_MAX / 8 / args->T)
        return foci_fail(ctx, FOCAL_EINVAL, "route: h_stride %lld does not fit %d rows of %d",
                         (long long)args->h_stride, args->T, router->C);
    if (args->sq_from < 0 || args->sq_from > args->T)
        return foci_fail(ctx, FOCAL_EINVAL, "route: queries from token %d on, there are %d",
                         args->sq_from, args->T);
    if (router->sharpness == 0.0F) router->sharpness = 10.0F;
    return FOCAL_OK;
}

const foci_route_kernel *foci_route_pick(const focal_ctx *ctx, const focal_route_args *normal)
{
    bool is_pinned = false;
    for (size_t n = 0; n < foci_route_kernel_count && focal_ctx_kernel(ctx); n++)
        is_pinned = is_pinned || strcmp(focal_ctx_kernel(ctx), foci_route_kernels[n].name) == 0;
    for (size_t n = 0; n < foci_route_kernel_count; n++) {
        const foci_route_kernel *kernel = &foci_route_kernels[n];
        if (is_pinned && !foci_ctx_allows(ctx, kernel->name)) continue;
        if (kernel->can(ctx, normal)) return kernel;
    }
    return NULL;
}

static focal_status no_kernel(focal_ctx *ctx)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "route: the pinned kernel %s cannot take this call",
                     focal_ctx_kernel(ctx));
}

focal_status focal_route_scores(focal_ctx *ctx, const focal_route_args *args)
{
    focal_route_args normal = {0};
    focal_router router = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_route_normalise(ctx, args, &normal, &router));
    if (!args->sk && !args->sq)
        return foci_fail(ctx, FOCAL_EINVAL, "route: sk, sq or both must be set");
    const foci_route_kernel *kernel = foci_route_pick(ctx, &normal);
    return kernel ? kernel->forward(ctx, &normal) : no_kernel(ctx);
}

const char *focal_route_kernel_name(focal_ctx *ctx, const focal_route_args *args)
{
    focal_route_args normal = {0};
    focal_router router = {0};
    if (!ctx || foci_route_normalise(ctx, args, &normal, &router) != FOCAL_OK) return NULL;
    const foci_route_kernel *kernel = foci_route_pick(ctx, &normal);
    return kernel ? kernel->name : NULL;
}

const char *focal_route_kernel_at(focal_ctx *ctx, int32_t index, bool *is_usable)
{
    if (index < 0 || (size_t)index >= foci_route_kernel_count) return NULL;
    if (is_usable) {
        /* A kernel is usable when it takes the plainest call. */
        static const float one[1];
        const focal_router plain = {.C = 1, .R = 1, .K = 1, .routers = 1, .pk = one, .e = one};
        const focal_route_args args = {.router = &plain, .T = 1, .h = one};
        focal_route_args normal = {0};
        focal_router router = {0};
        *is_usable = ctx && foci_route_normalise(ctx, &args, &normal, &router) == FOCAL_OK &&
                     foci_route_kernels[index].can(ctx, &normal);
    }
    return foci_route_kernels[index].name;
}

static void clear(float *x, int64_t count)
{
    if (x) memset(x, 0, (size_t)count * sizeof *x);
}

/* No gradient comes in, so none goes out. */
static void clear_grads(const focal_route_args *a, const focal_router *r,
                        const focal_route_grads *g)
{
    const int64_t projection = (int64_t)r->routers * r->C * r->R;
    for (int64_t t = 0; t < a->T && g->dh; t++) clear(g->dh + t * a->h_stride, r->C);
    clear(g->dpk, projection);
    clear(g->dpq, projection);
    clear(g->dak, (int64_t)r->routers * r->R);
    clear(g->daq, (int64_t)r->routers * r->R);
    clear(g->de, (int64_t)r->routers * r->K * r->R);
}

focal_status focal_route_scores_backward(focal_ctx *ctx, const focal_route_args *args,
                                         const focal_route_grads *grads)
{
    focal_route_args normal = {0};
    focal_router router = {0};
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_route_normalise(ctx, args, &normal, &router));
    if (!grads) return foci_fail(ctx, FOCAL_EINVAL, "route: grads must be set");
    if (!router.pq && (grads->dpq || grads->daq))
        return foci_fail(ctx, FOCAL_EINVAL, "route: without pq, dpq and daq must be NULL");
    if (!grads->dsk && !grads->dsq) {
        clear_grads(&normal, &router, grads);
        return FOCAL_OK;
    }
    const foci_route_kernel *kernel = foci_route_pick(ctx, &normal);
    return kernel ? kernel->backward(ctx, &normal, grads) : no_kernel(ctx);
}
