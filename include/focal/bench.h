/* Yardsticks: what this machine can do at best, measured here and now, for benchmarks to divide
 * by. Each call takes a few milliseconds, so that it can stand between the samples of a run. And a
 * profile: what a model's operations took, and what they had to do. */
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

/* One kind of operation in the passes of a profile. */
typedef struct focal_profile_row {
    const char *name; /* "attention", "feed-forward up", ... */
    int64_t calls;
    double seconds;
    double flops; /* that had to be done, a multiply-add counts two */
    double bytes; /* of weights and cache that had to be read */
} focal_profile_row;

/* From now on passes of the context's models are added up, in a new profile. FOCAL_ENOMEM. */
FOCAL_API focal_status focal_profile_start(focal_ctx *ctx);
FOCAL_API void focal_profile_stop(focal_ctx *ctx);
/* How many rows there are; *rows is the context's, until the next start. */
FOCAL_API int32_t focal_profile_rows(focal_ctx *ctx, const focal_profile_row **rows);

/* Kinds of temperatures (docs/MATH.md, 2). */
typedef enum focal_train_temperature {
    FOCAL_TRAIN_T_NONE, /* as every other program: t = 1 */
    FOCAL_TRAIN_T_CONSTANT,
    FOCAL_TRAIN_T_LEARNED,
    FOCAL_TRAIN_T_LEARNED_PAPER,
    FOCAL_TRAIN_T_PER_HEAD,
    FOCAL_TRAIN_T_LENGTH
} focal_train_temperature;

/* A model to be trained on random tokens, to see how fast that goes. 0: the default beside it. */
typedef struct focal_train_shape {
    int32_t layers, width, ffn, vocab, heads;
    int32_t kv_heads;      /* heads */
    int32_t head_width;    /* width / heads */
    int32_t length, batch; /* tokens of a sequence, sequences of a step */
    focal_dtype dtype;     /* what products read: float32 or bfloat16 */
    int32_t recompute;     /* 0: nothing, 1: all but the inputs of blocks, 2: whole layers */
    bool has_muon;         /* instead of AdamW, for the matrices of layers */
    focal_train_temperature temperature; /* of attention */
    float t;                             /* constant, length, and what per head begins with; 1 */
    uint64_t seed;
} focal_train_shape;

typedef struct focal_train_bench focal_train_bench;

typedef struct focal_train_cost {
    int64_t parameter_count;
    int64_t tokens;          /* of a step */
    double flops;            /* 6 for each token and parameter of a product, 14 D H for each pair */
    size_t parameter_bytes;  /* weights, gradients, moments, and what products read of them */
    size_t activation_bytes; /* what a step takes beside them */
} focal_train_cost;

/* FOCAL_EINVAL on a shape that is no model; FOCAL_ENOMEM. */
FOCAL_API focal_status focal_train_bench_new(focal_ctx *ctx, const focal_train_shape *shape,
                                             focal_train_bench **out);
FOCAL_API void focal_train_bench_free(focal_train_bench *bench); /* NULL is fine */
FOCAL_API focal_train_cost focal_train_bench_cost(const focal_train_bench *bench);
/* One whole step: forward, backward, clipping, the optimiser. *loss is the mean over the tokens. */
FOCAL_API focal_status focal_train_bench_step(focal_train_bench *bench, double *loss);

FOCAL_END_DECLS
#endif /* FOCAL_BENCH_H */
