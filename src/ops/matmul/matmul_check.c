/* What a product must fulfil: types, sizes, strides, no overlap. Kernels rely on everything that is
 * checked here and check nothing themselves. */
#include "base/error.h"
#include "base/sizes.h"
#include "ops/matmul/matmul_kernels.h"

static bool is_computed(focal_dtype dtype)
{
    return dtype == FOCAL_F32 || dtype == FOCAL_BF16;
}

static bool is_size(int64_t n)
{
    return n >= 1 && n <= INT32_MAX; /* so that a few thousand rows of it fit in 64 bits */
}

static focal_status check_types(focal_ctx *ctx, const foci_matmul_args *a)
{
    if (!is_computed(a->x_dtype) || !is_computed(a->out_dtype))
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: x is %s and out %s, both must be f32 or bf16",
                         focal_dtype_name(a->x_dtype), focal_dtype_name(a->out_dtype));
    const int32_t block = focal_dtype_block(a->w_dtype);
    if (block == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: w has the unknown type %d", (int)a->w_dtype);
    if (a->w_is_transposed && block != 1)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "matmul: transposed weights of %s, of which a block is %d",
                         focal_dtype_name(a->w_dtype), block);
    if (a->K % block != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "matmul: rows of %lld weights of %s, not whole blocks of %d",
                         (long long)a->K, focal_dtype_name(a->w_dtype), block);
    return FOCAL_OK;
}

/* A matrix in memory: bytes of a row, from row to row, and from its first to its last. */
typedef struct extent {
    size_t width, stride, total;
} extent;

/* False when it would not fit in memory. */
static bool measure(int64_t rows, int64_t width, int64_t stride, size_t bytes, extent *e)
{
    return foci_size_mul((size_t)width, bytes, &e->width) &&
           foci_size_mul((size_t)stride, bytes, &e->stride) &&
           foci_size_mul((size_t)rows - 1, e->stride, &e->total) &&
           foci_size_add(e->total, e->width, &e->total) && e->total <= PTRDIFF_MAX;
}

static bool overlap(const void *a, extent ea, const void *b, extent eb)
{
    const uintptr_t pa = (uintptr_t)a, pb = (uintptr_t)b;
    if (pa >= pb ? pa - pb >= eb.total : pb - pa >= ea.total) return false;
    if (ea.stride != eb.stride) return true;
    /* Columns of one buffer: how far b's begin behind a's, in the row of a that they begin in. */
    const size_t behind = (pb % ea.stride + ea.stride - pa % ea.stride) % ea.stride;
    return behind < ea.width || behind + eb.width > ea.stride;
}

static focal_status check_memory(focal_ctx *ctx, const foci_matmul_args *a)
{
    const int64_t blocks = a->w_is_transposed ? a->N : a->K / focal_dtype_block(a->w_dtype);
    const int64_t w_rows = a->w_is_transposed ? a->K : a->N;

    extent x, w, out;
    if (!measure(a->M, a->K, a->x_stride, focal_dtype_bytes(a->x_dtype), &x) ||
        !measure(a->M, a->N, a->out_stride, focal_dtype_bytes(a->out_dtype), &out) ||
        !measure(w_rows, blocks, blocks, focal_dtype_block_bytes(a->w_dtype), &w))
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "matmul: %lld x %lld x %lld with strides %lld and %lld does not fit in memory",
            (long long)a->M, (long long)a->N, (long long)a->K, (long long)a->x_stride,
            (long long)a->out_stride);
    if (overlap(a->x, x, a->out, out))
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: out overlaps x");
    if (overlap(a->w, w, a->out, out))
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: out overlaps w");
    return FOCAL_OK;
}

focal_status foci_matmul_check(focal_ctx *ctx, const foci_matmul_args *a)
{
    if (!a || !a->x || !a->w || !a->out)
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: x, w and out must be set");
    if (!is_size(a->M) || !is_size(a->N) || !is_size(a->K))
        return foci_fail(ctx, FOCAL_EINVAL, "matmul: M %lld, N %lld and K %lld must be 1 to %d",
                         (long long)a->M, (long long)a->N, (long long)a->K, INT32_MAX);
    if (a->x_stride < a->K || a->out_stride < a->N)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "matmul: strides %lld of x and %lld of out for rows of %lld and %lld",
                         (long long)a->x_stride, (long long)a->out_stride, (long long)a->K,
                         (long long)a->N);
    FOCAL_TRY(check_types(ctx, a));
    return check_memory(ctx, a);
}
