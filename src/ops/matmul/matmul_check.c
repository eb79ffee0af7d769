/* What a product must fulfil: types, sizes, strides, no overlap. Kernels rely on everything that is
 * checked here and check nothing themselves. */
#include "base/error.h"
#include "ops/interleave.h"
#include "ops/matmul/extent.h"
#include "ops/matmul/matmul_kernels.h"

static bool is_computed(focal_dtype dtype)
{
    return dtype == FOCAL_F32 || dtype == FOCAL_BF16;
}

static bool is_size(int64_t n)
{
    return n >= 1 && n <= INT32_MAX; /* so that a few thousand rows of it fit in 64 bits */
}

/* Elements of a row of x as it lies. */
static int64_t x_width(const foci_matmul_args *a)
{
    return a->x_is_transposed ? a->M : a->K;
}

static focal_status check_types(focal_ctx *ctx, const foci_matmul_args *a,
                                const foci_matmul_names *is)
{
    if (!is_computed(a->x_dtype) || !is_computed(a->out_dtype))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %s is %s and %s %s, both must be f32 or bf16",
                         is->op, is->x, focal_dtype_name(a->x_dtype), is->out,
                         focal_dtype_name(a->out_dtype));
    const int32_t block = focal_dtype_block(a->w_dtype);
    if (block == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %s has the unknown type %d", is->op, is->w,
                         (int)a->w_dtype);
    const int64_t width = a->w_is_transposed ? a->N : a->K;
    if (width % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: rows of %lld weights of %s, not whole blocks of %d", is->op,
                         (long long)width, focal_dtype_name(a->w_dtype), block);
    if (a->w_stride != 0 && (a->w_stride < width || a->w_stride % block != 0))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: stride %lld of %s for rows of %lld, in blocks of %d", is->op,
                         (long long)a->w_stride, is->w, (long long)width, block);
    const int64_t rows = a->w_is_transposed ? a->K : a->N;
    if (a->w_is_interleaved && (!foci_interleave_can(a->w_dtype, rows, width) ||
                                (a->w_stride != 0 && a->w_stride != width)))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %lld rows of %lld weights of %s do not interleave",
                         is->op, (long long)rows, (long long)width, focal_dtype_name(a->w_dtype));
    return FOCAL_OK;
}

static focal_status check_memory(focal_ctx *ctx, const foci_matmul_args *a,
                                 const foci_matmul_names *is)
{
    const int64_t block = focal_dtype_block(a->w_dtype);
    const int64_t w_rows = a->w_is_transposed ? a->K : a->N;
    const int64_t w_blocks = (a->w_is_transposed ? a->N : a->K) / block;
    const int64_t x_rows = a->x_is_transposed ? a->K : a->M;

    foci_extent x, w, out;
    if (!foci_measure(x_rows, x_width(a), a->x_stride, focal_dtype_bytes(a->x_dtype), &x) ||
        !foci_measure(a->M, a->N, a->out_stride, focal_dtype_bytes(a->out_dtype), &out) ||
        !foci_measure(w_rows, w_blocks, a->w_stride > 0 ? a->w_stride / block : w_blocks,
                      focal_dtype_block_bytes(a->w_dtype), &w))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: %lld x %lld x %lld with strides %lld and %lld does not fit in memory",
                         is->op, (long long)a->M, (long long)a->N, (long long)a->K,
                         (long long)a->x_stride, (long long)a->out_stride);
    if (foci_overlap(a->x, x, a->out, out))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %s overlaps %s", is->op, is->out, is->x);
    if (foci_overlap(a->w, w, a->out, out))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %s overlaps %s", is->op, is->out, is->w);
    return FOCAL_OK;
}

focal_status foci_matmul_check_as(focal_ctx *ctx, const foci_matmul_args *a,
                                  const foci_matmul_names *is)
{
    if (!a || !a->x || !a->w || !a->out)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %s, %s and %s must be set", is->op, is->x, is->w,
                         is->out);
    if (!is_size(a->M) || !is_size(a->N) || !is_size(a->K))
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %s %lld, %s %lld and %s %lld must be 1 to %d",
                         is->op, is->M, (long long)a->M, is->N, (long long)a->N, is->K,
                         (long long)a->K, INT32_MAX);
    if (a->x_stride < x_width(a) || a->out_stride < a->N)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: strides %lld of %s and %lld of %s for rows of %lld and %lld", is->op,
                         (long long)a->x_stride, is->x, (long long)a->out_stride, is->out,
                         (long long)x_width(a), (long long)a->N);
    FOCAL_TRY(check_types(ctx, a, is));
    return check_memory(ctx, a, is);
}

focal_status foci_matmul_check(focal_ctx *ctx, const foci_matmul_args *a)
{
    static const foci_matmul_names names = {"matmul", "x", "w", "out", "M", "N", "K"};
    return foci_matmul_check_as(ctx, a, &names);
}
