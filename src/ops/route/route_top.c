/* The best groups of each row: the checks, the choice of a kernel, and the definition. All kernels
 * give the same groups: nothing is computed, only compared. */
#include "ops/route/route_top.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "ops/route/route_check.h"

enum {
    PIECE_ELEMENTS = 1 << 13 /* of s: a few microseconds of comparing, more than waking a thread */
};

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_route_top_avx512},
    {"avx2", FOCI_AVX2, foci_route_top_avx2},
    {"ref", 0, foci_route_top_ref},
};
const foci_rows_op foci_route_top_op = {"route_top", kernels, FOCAL_COUNT(kernels)};

/* A group's place is the number of groups before it: better ones, and equal ones of lower index. */
static void top_of_row(const float *s, int32_t K, int32_t top, int32_t *groups)
{
    float score[FOCAL_MAX_GROUPS];
    for (int32_t c = 0; c < K; c++) score[c] = isnan(s[c]) ? -INFINITY : s[c];
    for (int32_t c = 0; c < K; c++) {
        int32_t place = 0;
        for (int32_t n = 0; n < c; n++) place += score[n] >= score[c];
        for (int32_t n = c + 1; n < K; n++) place += score[n] > score[c];
        if (place < top) groups[place] = c;
    }
}

void foci_route_top_ref(const void *args, int64_t first, int64_t count)
{
    const foci_route_top_args *a = args;
    for (int64_t row = first; row < first + count; row++)
        top_of_row(a->s + row * a->K, a->K, a->top, a->groups + row * a->top);
}

focal_status focal_route_top(focal_ctx *ctx, int64_t rows, int32_t K, int32_t k, const float *s,
                             int32_t *groups)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_route_check_rows(ctx, "top", rows, K));
    if (k < 1 || k > K)
        return foci_fail(ctx, FOCAL_EINVAL, "top: k is %d, it must be 1 to K = %d", k, K);
    if (!s || !groups) return foci_fail(ctx, FOCAL_EINVAL, "top: s and groups must be set");
    const foci_rows_kernel *kernel = foci_rows_pick(ctx, &foci_route_top_op);
    if (!kernel) return foci_rows_cannot(ctx, &foci_route_top_op);
    foci_route_top_args args = {.K = K, .top = k, .s = s};
    args.groups = groups;
    foci_rows_spread_by(ctx, kernel, &args, rows, PIECE_ELEMENTS / K);
    return FOCAL_OK;
}
