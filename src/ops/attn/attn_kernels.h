/* The attention kernels from inside: what a kernel is, and the table that calls choose from. */
#ifndef FOCI_OPS_ATTN_ATTN_KERNELS_H
#define FOCI_OPS_ATTN_ATTN_KERNELS_H

#include "focal/attn.h"

/* can: whether the kernel takes this (already checked) call here. forward and backward run it;
 * seq_count is at least 1 and every default is filled in (foci_attn_normalise). */
typedef struct foci_attn_kernel {
    const char *name;
    bool (*can)(const focal_ctx *ctx, const focal_attn_args *args);
    focal_status (*forward)(focal_ctx *ctx, const focal_attn_args *args);
    focal_status (*backward)(focal_ctx *ctx, const focal_attn_args *args,
                             const focal_attn_grads *grads);
} foci_attn_kernel;

/* Fastest first; the last one takes every valid call. Tests and benchmarks walk this table, so a
 * kernel in it is a tested kernel. */
extern const foci_attn_kernel foci_attn_kernels[];
extern const size_t foci_attn_kernel_count;

/* Checks the call and fills in defaults: strides, Dv, lambda, and the one sequence of a call
 * without a list, for which `single` is the place. After it, kernels and tests may run any kernel
 * whose can() agrees. */
focal_status foci_attn_normalise(focal_ctx *ctx, const focal_attn_args *args,
                                 focal_attn_args *normal, focal_attn_seq *single,
                                 focal_attn_gate *gate);

/* The first kernel in the table that is allowed and can; NULL when the pinned one cannot. */
const foci_attn_kernel *foci_attn_pick(const focal_ctx *ctx, const focal_attn_args *normal);

bool foci_attn_ref_can(const focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_ref_forward(focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_ref_backward(focal_ctx *ctx, const focal_attn_args *args,
                                    const focal_attn_grads *grads);

bool foci_attn_amx_can(const focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_amx_forward(focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_amx_backward(focal_ctx *ctx, const focal_attn_args *args,
                                    const focal_attn_grads *grads);

bool foci_attn_avx512bf16_can(const focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_avx512bf16_forward(focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_avx512bf16_backward(focal_ctx *ctx, const focal_attn_args *args,
                                           const focal_attn_grads *grads);

bool foci_attn_avx512_can(const focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_avx512_forward(focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_avx512_backward(focal_ctx *ctx, const focal_attn_args *args,
                                       const focal_attn_grads *grads);

bool foci_attn_avx2_can(const focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_avx2_forward(focal_ctx *ctx, const focal_attn_args *args);
focal_status foci_attn_avx2_backward(focal_ctx *ctx, const focal_attn_args *args,
                                     const focal_attn_grads *grads);

#endif /* FOCI_OPS_ATTN_ATTN_KERNELS_H */
