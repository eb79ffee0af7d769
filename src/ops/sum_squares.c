/* Sums of squares: the check, the choice of a kernel, the reference, and the merge in order. */
#include "ops/sum_squares.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_sum_squares_avx512},
    {"avx2", FOCI_AVX2, foci_sum_squares_avx2},
    {"ref", 0, foci_sum_squares_ref},
};
const foci_rows_op foci_sum_squares_op = {"sum_squares", kernels, FOCAL_COUNT(kernels)};

void foci_sum_squares_ref(const void *args, int64_t first, int64_t count)
{
    const foci_sum_squares_args *a = args;
    for (int64_t piece = first; piece < first + count; piece++) {
        const float *x = a->x + piece * FOCI_SUM_PIECE;
        const int64_t width = foci_min64(FOCI_SUM_PIECE, a->count - piece * FOCI_SUM_PIECE);
        double sums[FOCI_SUM_LANES] = {0};
        foci_square_sum out = {0};
        for (int64_t n = 0; n < width; n++) {
            if (isfinite(x[n]))
                sums[n % FOCI_SUM_LANES] += (double)x[n] * (double)x[n];
            else
                out.odd_count++;
        }
        for (int n = 0; n < FOCI_SUM_LANES; n++) out.sum += sums[n];
        a->pieces[piece] = out;
    }
}

focal_status foci_sum_squares(focal_ctx *ctx, const float *x, int64_t count, foci_square_sum *out)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!x || !out) return foci_fail(ctx, FOCAL_EINVAL, "sum_squares: x and out must be set");
    if (count < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "sum_squares: the count is %lld, it must be 0 or more",
                         (long long)count);
    const int64_t piece_count = foci_pieces(count, FOCI_SUM_PIECE);
    foci_square_sum *pieces = foci_scratch(ctx, (size_t)piece_count, sizeof *pieces);
    if (!pieces) return FOCAL_ENOMEM;
    const foci_sum_squares_args args = {x, count, pieces};
    const focal_status status =
        foci_rows_run(ctx, &foci_sum_squares_op, &args, piece_count, FOCI_SUM_PIECE);
    if (status == FOCAL_OK) {
        *out = (foci_square_sum){0};
        for (int64_t n = 0; n < piece_count; n++) {
            out->sum += pieces[n].sum;
            out->odd_count += pieces[n].odd_count;
        }
    }
    foci_scratch_free(ctx, pieces);
    return status;
}
