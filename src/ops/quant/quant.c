/* Quantised types: check the call, then expand with the first kernel that can, or quantise pieces
 * of blocks over the context's threads. */
#include "focal/quant.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/quant/quant_kernels.h"

const foci_quant_kernel foci_quant_kernels[] = {
    {"avx512bf16", foci_quant_avx512bf16_can, foci_quant_avx512bf16_to_f32,
     foci_quant_avx512bf16_to_bf16},
    {"avx512", foci_quant_avx512_can, foci_quant_avx512_to_f32, foci_quant_avx512_to_bf16},
    {"avx2", foci_quant_avx2_can, foci_quant_avx2_to_f32, foci_quant_avx2_to_bf16},
    {"ref", foci_quant_ref_can, foci_quant_ref_to_f32, foci_quant_ref_to_bf16},
};
const size_t foci_quant_kernel_count = FOCAL_COUNT(foci_quant_kernels);

static const foci_quantize_block quantizers[] = {
    [FOCAL_F32] = foci_quantize_f32,   [FOCAL_BF16] = foci_quantize_bf16,
    [FOCAL_F16] = foci_quantize_f16,   [FOCAL_Q8_0] = foci_quantize_q8_0,
    [FOCAL_Q4_0] = foci_quantize_q4_0, [FOCAL_Q4_1] = foci_quantize_q4_1,
    [FOCAL_Q5_0] = foci_quantize_q5_0, [FOCAL_Q5_1] = foci_quantize_q5_1,
    [FOCAL_Q2_K] = foci_quantize_q2_k, [FOCAL_Q3_K] = foci_quantize_q3_k,
    [FOCAL_Q4_K] = foci_quantize_q4_k, [FOCAL_Q5_K] = foci_quantize_q5_k,
    [FOCAL_Q6_K] = foci_quantize_q6_k, [FOCAL_IQ4_NL] = foci_quantize_iq4_nl,
};

const foci_quant_kernel *foci_quant_pick(const focal_ctx *ctx)
{
    bool is_pinned = false;
    for (size_t n = 0; n < foci_quant_kernel_count && focal_ctx_kernel(ctx); n++)
        is_pinned = is_pinned || strcmp(focal_ctx_kernel(ctx), foci_quant_kernels[n].name) == 0;
    for (size_t n = 0; n < foci_quant_kernel_count; n++) {
        const foci_quant_kernel *kernel = &foci_quant_kernels[n];
        if (is_pinned && !foci_ctx_allows(ctx, kernel->name)) continue;
        if (kernel->can(ctx)) return kernel;
    }
    return NULL;
}

static focal_status check_type(focal_ctx *ctx, focal_dtype dtype, int64_t count)
{
    const int32_t block = focal_dtype_block(dtype);
    if (block == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "quant: there is no element type %d", (int)dtype);
    if (count < 0 || count % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "quant: %lld elements are not whole blocks of %d (%s)",
                         (long long)count, block, focal_dtype_name(dtype));
    return FOCAL_OK;
}

static focal_status check_call(focal_ctx *ctx, focal_dtype dtype, const void *from, int64_t count,
                               const void *to)
{
    FOCAL_TRY(check_type(ctx, dtype, count));
    if (count > 0 && (!from || !to))
        return foci_fail(ctx, FOCAL_EINVAL, "quant: from and to must be set");
    return FOCAL_OK;
}

focal_status focal_dequantize(focal_dtype dtype, const void *from, int64_t count, float *to)
{
    FOCAL_TRY(check_call(NULL, dtype, from, count, to));
    foci_quant_ref_to_f32(dtype, from, count, to);
    return FOCAL_OK;
}

static focal_status fail_pinned(focal_ctx *ctx)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "quant: this machine lacks the pinned kernel %s",
                     focal_ctx_kernel(ctx));
}

focal_status foci_dequantize(focal_ctx *ctx, focal_dtype dtype, const void *from, int64_t count,
                             float *to)
{
    FOCAL_TRY(check_call(ctx, dtype, from, count, to));
    const foci_quant_kernel *kernel = foci_quant_pick(ctx);
    if (!kernel) return fail_pinned(ctx);
    kernel->to_f32(dtype, from, count, to);
    return FOCAL_OK;
}

focal_status foci_dequantize_bf16(focal_ctx *ctx, focal_dtype dtype, const void *from,
                                  int64_t count, uint16_t *to)
{
    FOCAL_TRY(check_call(ctx, dtype, from, count, to));
    const foci_quant_kernel *kernel = foci_quant_pick(ctx);
    if (!kernel) return fail_pinned(ctx);
    kernel->to_bf16(dtype, from, count, to);
    return FOCAL_OK;
}

enum { PIECE = 4096 }; /* elements of a work item; a whole number of blocks of every type */

typedef struct quantize_job {
    focal_dtype dtype;
    const float *from;
    int64_t count;
    uint8_t *to;
    atomic_int_fast64_t first_bad; /* the lowest element that cannot be held; count: none */
} quantize_job;

static void note_bad(quantize_job *job, int64_t at)
{
    int_fast64_t known = atomic_load(&job->first_bad);
    while (at < known && !atomic_compare_exchange_weak(&job->first_bad, &known, at)) {
    }
}

/* The first element of a block that cannot be held, or -1. */
static int64_t quantize_block(focal_dtype dtype, const float *x, void *block)
{
    const int32_t elements = focal_dtype_block(dtype);
    for (int32_t n = 0; n < elements; n++)
        if (!isfinite(x[n])) return n;
    return quantizers[dtype](x, block) ? -1 : 0;
}

/* Rows are whole blocks and lie one behind the other, so a piece may span rows. */
static void quantize_piece(void *arg, int64_t index, int32_t thread)
{
    quantize_job *job = arg;
    (void)thread;
    const int32_t elements = focal_dtype_block(job->dtype);
    const size_t bytes = focal_dtype_block_bytes(job->dtype);
    const int64_t begin = index * PIECE, end = foci_min64(job->count, begin + PIECE);
    uint8_t *block = job->to + (size_t)(begin / elements) * bytes;
    for (int64_t n = begin; n < end; n += elements, block += bytes) {
        const int64_t bad = quantize_block(job->dtype, job->from + n, block);
        if (bad >= 0) note_bad(job, n + bad);
    }
}

focal_status focal_quantize(focal_ctx *ctx, focal_dtype dtype, const float *from, int64_t rows,
                            int64_t width, void *to)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(check_type(ctx, dtype, width));
    quantize_job job = {.dtype = dtype, .from = from, .to = to};
    size_t bytes;
    if (rows < 0 || __builtin_mul_overflow(rows, width, &job.count) || job.count > INT64_MAX / 8 ||
        !foci_size_mul((size_t)job.count, sizeof *from, &bytes))
        return foci_fail(ctx, FOCAL_EINVAL, "quant: %lld rows of %lld are not a tensor",
                         (long long)rows, (long long)width);
    FOCAL_TRY(check_call(ctx, dtype, from, job.count, to));
    atomic_init(&job.first_bad, job.count);
    foci_parallel(ctx, foci_pieces(job.count, PIECE), quantize_piece, &job);
    const int64_t bad = atomic_load(&job.first_bad);
    if (bad == job.count) return FOCAL_OK;
    const long long row = (long long)(bad / width), column = (long long)(bad % width);
    if (isfinite(from[bad]))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "quant: row %lld from element %lld on is too large for %s", row, column,
                         focal_dtype_name(dtype));
    return foci_fail(ctx, FOCAL_EINVAL, "quant: element %lld of row %lld is %f, not finite", column,
                     row, (double)from[bad]);
}
