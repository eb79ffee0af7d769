/* Row operations: the choice of a kernel, pieces for threads, checks. */
#include "ops/rows.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"

enum {
    PIECE_ELEMENTS = 1 << 14, /* a few microseconds of work: more than waking a thread */
    SUM_ROWS = 64,            /* at least, of a piece of a sum */
    SUM_PIECES = 256,         /* at most: bounds the scratch, whatever the number of rows */
    COLUMNS = 256             /* of a sum that one thread joins at a time */
};

const foci_rows_kernel *foci_rows_pick(const focal_ctx *ctx, const foci_rows_op *op)
{
    const char *pinned = focal_ctx_kernel(ctx);
    bool is_pinned = false;
    for (size_t n = 0; n < op->kernel_count && pinned; n++)
        is_pinned = is_pinned || strcmp(pinned, op->kernels[n].name) == 0;
    for (size_t n = 0; n < op->kernel_count; n++) {
        const foci_rows_kernel *kernel = &op->kernels[n];
        if (is_pinned && strcmp(pinned, kernel->name) != 0) continue;
        if (foci_on_host(ctx) && foci_has(ctx, kernel->features)) return kernel;
    }
    return NULL;
}

typedef struct spread {
    const foci_rows_kernel *kernel;
    const void *args;
    int64_t rows, piece;
} spread;

static void run_piece(void *arg, int64_t index, int32_t thread)
{
    const spread *s = arg;
    const int64_t first = index * s->piece;
    (void)thread;
    s->kernel->run(s->args, first, foci_min64(s->piece, s->rows - first));
}

void foci_rows_spread_by(focal_ctx *ctx, const foci_rows_kernel *kernel, const void *args,
                         int64_t rows, int64_t piece)
{
    spread s = {kernel, args, rows, piece};
    foci_parallel_rows(ctx, foci_pieces(rows, piece), run_piece, &s);
}

void foci_rows_spread(focal_ctx *ctx, const foci_rows_kernel *kernel, const void *args,
                      int64_t rows, int64_t width)
{
    foci_rows_spread_by(ctx, kernel, args, rows, foci_max64(1, PIECE_ELEMENTS / width));
}

int64_t foci_rows_sum_piece(int64_t rows, int64_t width)
{
    const int64_t least = foci_max64(SUM_ROWS, PIECE_ELEMENTS / width);
    return foci_max64(least, foci_pieces(rows, SUM_PIECES));
}

typedef struct join {
    const float *pieces;
    int64_t count, width;
    float *sum;
} join;

static void join_columns(void *arg, int64_t index, int32_t thread)
{
    const join *j = arg;
    const int64_t first = index * COLUMNS, last = foci_min64(first + COLUMNS, j->width);
    double sums[COLUMNS] = {0};
    (void)thread;
    for (int64_t piece = 0; piece < j->count; piece++)
        for (int64_t n = first; n < last; n++)
            sums[n - first] += (double)j->pieces[piece * j->width + n];
    for (int64_t n = first; n < last; n++) j->sum[n] = (float)((double)j->sum[n] + sums[n - first]);
}

void foci_rows_join(focal_ctx *ctx, const float *pieces, int64_t count, int64_t width, float *sum)
{
    join j = {.pieces = pieces, .count = count, .width = width};
    j.sum = sum;
    foci_parallel(ctx, foci_pieces(width, COLUMNS), join_columns, &j);
}

focal_status foci_rows_cannot(focal_ctx *ctx, const foci_rows_op *op)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: the pinned kernel %s cannot run here", op->name,
                     focal_ctx_kernel(ctx));
}

focal_status foci_rows_run(focal_ctx *ctx, const foci_rows_op *op, const void *args, int64_t rows,
                           int64_t width)
{
    const foci_rows_kernel *kernel = foci_rows_pick(ctx, op);
    if (!kernel) return foci_rows_cannot(ctx, op);
    foci_rows_spread(ctx, kernel, args, rows, width);
    return FOCAL_OK;
}

focal_status foci_rows_check(focal_ctx *ctx, const char *what, int64_t rows, int64_t width,
                             int64_t *stride)
{
    if (*stride == 0) *stride = width;
    if (*stride < width || *stride > INT64_MAX / 8 / rows)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: a stride of %lld does not fit %lld rows of %lld",
                         what, (long long)*stride, (long long)rows, (long long)width);
    return FOCAL_OK;
}

focal_status foci_rows_check_out(focal_ctx *ctx, const char *op, const void *out,
                                 focal_dtype out_dtype, int64_t out_stride, const void *in,
                                 int64_t in_stride)
{
    if (out_dtype != FOCAL_F32 && out_dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: out is %s, it must be f32 or bf16", op,
                         focal_dtype_name(out_dtype));
    if (out == in && (out_dtype != FOCAL_F32 || out_stride != in_stride))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: in place, out must be f32 with the stride %lld of its input", op,
                         (long long)in_stride);
    return FOCAL_OK;
}
