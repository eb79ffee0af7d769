/* The router's kernels from inside: what a kernel is, and the table that calls choose from. */
#ifndef FOCI_OPS_ROUTE_ROUTE_KERNELS_H
#define FOCI_OPS_ROUTE_ROUTE_KERNELS_H

#include "focal/route.h"

/* can: whether the kernel takes this (already checked) call here; forward and backward run it.
 * args come from foci_route_normalise: h_stride and the router's sharpness are filled in. */
typedef struct foci_route_kernel {
    const char *name;
    bool (*can)(const focal_ctx *ctx, const focal_route_args *args);
    focal_status (*forward)(focal_ctx *ctx, const focal_route_args *args);
    focal_status (*backward)(focal_ctx *ctx, const focal_route_args *args,
                             const focal_route_grads *grads);
} foci_route_kernel;

/* Fastest first; the last one takes every valid call. Tests and benchmarks walk this table, so a
 * kernel in it is a tested kernel. */
extern const foci_route_kernel foci_route_kernels[];
extern const size_t foci_route_kernel_count;

/* Checks the call, but not its outputs, and fills in defaults; *router is the place for the
 * router that normal then points at. */
focal_status foci_route_normalise(focal_ctx *ctx, const focal_route_args *args,
                                  focal_route_args *normal, focal_router *router);

/* The first kernel in the table that is allowed and can; a pinned name that is not in the table
 * pins nothing. NULL when the pinned kernel cannot. */
const foci_route_kernel *foci_route_pick(const focal_ctx *ctx, const focal_route_args *normal);

bool foci_route_ref_can(const focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_ref_forward(focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_ref_backward(focal_ctx *ctx, const focal_route_args *args,
                                     const focal_route_grads *grads);

bool foci_route_avx2_can(const focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_avx2_forward(focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_avx2_backward(focal_ctx *ctx, const focal_route_args *args,
                                      const focal_route_grads *grads);

bool foci_route_avx512_can(const focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_avx512_forward(focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_avx512_backward(focal_ctx *ctx, const focal_route_args *args,
                                        const focal_route_grads *grads);

/* Forward on AMX tiles where there are many tokens; the rest on AVX-512. */
bool foci_route_amx_can(const focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_amx_forward(focal_ctx *ctx, const focal_route_args *args);
focal_status foci_route_amx_backward(focal_ctx *ctx, const focal_route_args *args,
                                     const focal_route_grads *grads);

#endif /* FOCI_OPS_ROUTE_ROUTE_KERNELS_H */
