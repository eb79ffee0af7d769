/* Yardsticks: what this machine can do at best, measured here and now, for benchmarks to divide
 * by. Each call takes a few milliseconds, so that it can stand between the samples of a run. */
#ifndef FOCAL_BENCH_H
#define FOCAL_BENCH_H

#include "focal/base.h"

FOCAL_BEGIN_DECLS

/* Multiply-adds a second (two operations each, in 10^9) of a loop that stays in registers, on all
 * threads of the context, with the widest instructions of the machine whatever kernel is pinned.
 * bf16: dot products of bfloat16 pairs where the machine has them, else the float32 figure. */
FOCAL_API focal_status focal_bench_peak(focal_ctx *ctx, focal_dtype dtype, double *gflops);

/* Reads the block once, in order, on all threads of the context: 10^9 bytes a second. EINVAL when
 * the block is NULL or smaller than 64 bytes. A block that the caches hold measures the caches. */
FOCAL_API focal_status focal_bench_read(focal_ctx *ctx, const void *block, size_t bytes,
                                        double *gb_per_s);

FOCAL_END_DECLS
#endif /* FOCAL_BENCH_H */
