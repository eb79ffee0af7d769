/* The product's kernels from inside: what a kernel is, and the table that calls choose from. */
#ifndef FOCI_OPS_MATMUL_MATMUL_KERNELS_H
#define FOCI_OPS_MATMUL_MATMUL_KERNELS_H

#include "ops/activation.h"
#include "ops/matmul/matmul.h"

/* can: whether the kernel takes this (already checked) call here. */
typedef struct foci_matmul_kernel {
    const char *name;
    bool (*can)(const focal_ctx *ctx, const foci_matmul_args *args);
    focal_status (*run)(focal_ctx *ctx, const foci_matmul_args *args);
    /* Several products of one x that may be rounded; NULL: one after the other. */
    focal_status (*run_bytes)(focal_ctx *ctx, const foci_matmul_args *args, int32_t count);
    /* Several products of one x that has more than FOCI_MATMUL_FEW rows and is not rounded; with an
     * activation what ops/gated.h says of them. NULL: one after the other. */
    focal_status (*run_many)(focal_ctx *ctx, const foci_matmul_args *args, int32_t count,
                             const foci_activation *activation);
    bool reads_interleaved; /* run_bytes takes interleaved weights */
    bool has_levels;        /* run and run_many make use of foci_takes_levels(), for all products
                               of a call alike */
} foci_matmul_kernel;

/* Fastest first; the last one takes every valid call. Tests and benchmarks walk this table, so a
 * kernel in it is a tested kernel. */
extern const foci_matmul_kernel *const foci_matmul_kernels[];
extern const size_t foci_matmul_kernel_count;

/* After it, any kernel whose can() agrees may run. */
focal_status foci_matmul_check(focal_ctx *ctx, const foci_matmul_args *args);

/* The same for a call that stands for another, in that one's words. */
typedef struct foci_matmul_names {
    const char *op, *x, *w, *out, *M, *N, *K;
} foci_matmul_names;
focal_status foci_matmul_check_as(focal_ctx *ctx, const foci_matmul_args *args,
                                  const foci_matmul_names *is);

/* The first kernel in the table that is allowed and can; NULL when the pinned one cannot. */
const foci_matmul_kernel *foci_matmul_pick(const focal_ctx *ctx, const foci_matmul_args *args);

/* Whether two products read the same x. */
bool foci_matmul_share_x(const foci_matmul_args *a, const foci_matmul_args *b);

/* The kernel that takes `count` products of one x with many rows together; NULL: none does. */
const foci_matmul_kernel *foci_matmul_pick_many(const focal_ctx *ctx, const foci_matmul_args *args,
                                                int32_t count);

/* One a file. Where the compiler has not what one needs, that one takes no call. */
extern const foci_matmul_kernel foci_matmul_amx, foci_matmul_avx512bf16, foci_matmul_avx512;
extern const foci_matmul_kernel foci_matmul_avx2, foci_matmul_onednn, foci_matmul_ref;

/* For kernels that are not there. */
bool foci_matmul_never_can(const focal_ctx *ctx, const foci_matmul_args *args);
focal_status foci_matmul_never_run(focal_ctx *ctx, const foci_matmul_args *args);

#endif /* FOCI_OPS_MATMUL_MATMUL_KERNELS_H */
