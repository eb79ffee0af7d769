/* Rows as q8_0: the check, the choice of a kernel, and the reference. */
#include "ops/quant/q8_rows.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_q8_rows_avx512},
    {"avx2", FOCI_AVX2, foci_q8_rows_avx2},
    {"ref", 0, foci_q8_rows_ref},
};
const foci_rows_op foci_q8_rows_op = {"q8_rows", kernels, FOCAL_COUNT(kernels)};

void foci_q8_rows_ref(const void *args, int64_t first, int64_t count)
{
    const foci_q8_rows_args *a = args;
    foci_q8_0 *block = (foci_q8_0 *)a->out + first * (a->width / FOCI_BLOCK);
    for (int64_t row = first; row < first + count; row++) {
        const float *x = a->x + row * a->x_stride;
        for (int64_t n = 0; n < a->width; n += FOCI_BLOCK, block++) {
            bool is_finite = true;
            for (int64_t d = n; d < n + FOCI_BLOCK; d++) is_finite = is_finite && isfinite(x[d]);
            if (is_finite)
                (void)foci_quantize_q8_0(x + n, block); /* an infinite scale may stay */
            else
                foci_q8_0_spoil(block);
        }
    }
}

focal_status foci_q8_rows(focal_ctx *ctx, const foci_q8_rows_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    foci_q8_rows_args a = *args;
    if (!a.x || !a.out) return foci_fail(ctx, FOCAL_EINVAL, "q8_rows: x and out must be set");
    FOCAL_TRY(foci_rows_check(ctx, "q8_rows: x", a.rows, a.width, &a.x_stride));
    if (a.width % FOCI_BLOCK != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "q8_rows: rows of %lld are not whole blocks of %d",
                         (long long)a.width, FOCI_BLOCK);
    return foci_rows_run(ctx, &foci_q8_rows_op, &a, a.rows, a.width);
}
