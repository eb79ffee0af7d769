/* Soft memberships from scores: softmax over the groups with its gradient, and what reports show of
 * soft groups. Rows are independent. */
#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"

enum { ROWS_OF_ITEM = 1024 };

typedef struct row_job {
    int64_t rows;
    int32_t K;
    const float *s, *g, *dg;
    float *out;
} row_job;

static int64_t row_end(const row_job *job, int64_t index)
{
    return foci_min64((index + 1) * ROWS_OF_ITEM, job->rows);
}

static void soften_rows(void *arg, int64_t index, int32_t thread)
{
    const row_job *job = arg;
    const int32_t K = job->K;
    (void)thread;
    for (int64_t row = index * ROWS_OF_ITEM; row < row_end(job, index); row++) {
        const float *s = job->s + row * K;
        float *g = job->out + row * K;
        float max = -INFINITY, sum = 0.0F;
        for (int32_t c = 0; c < K; c++) max = s[c] > max ? s[c] : max;
        if (max == -INFINITY) max = 0.0F; /* no group at all: exp gives 0, and NaN only for NaN */
        for (int32_t c = 0; c < K; c++) {
            g[c] = expf(s[c] - max);
            sum += g[c];
        }
        if (sum == 0.0F) sum = 1.0F;
        for (int32_t c = 0; c < K; c++) g[c] /= sum;
    }
}

focal_status focal_route_soften(focal_ctx *ctx, int64_t rows, int32_t K, const float *s, float *g)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_route_check_rows(ctx, "soften", rows, K));
    if (!s || !g) return foci_fail(ctx, FOCAL_EINVAL, "soften: s and g must be set");
    row_job job = {.rows = rows, .K = K, .s = s};
    job.out = g;
    foci_parallel(ctx, foci_pieces(rows, ROWS_OF_ITEM), soften_rows, &job);
    return FOCAL_OK;
}

/* g = softmax(s): ds = g (dg - g.dg). */
static void soften_rows_backward(void *arg, int64_t index, int32_t thread)
{
    const row_job *job = arg;
    const int32_t K = job->K;
    (void)thread;
    for (int64_t row = index * ROWS_OF_ITEM; row < row_end(job, index); row++) {
        const float *g = job->g + row * K, *dg = job->dg + row * K;
        float *ds = job->out + row * K;
        float dot = 0.0F;
        for (int32_t c = 0; c < K; c++) dot += g[c] * dg[c];
        for (int32_t c = 0; c < K; c++) ds[c] = g[c] * (dg[c] - dot);
    }
}

focal_status focal_route_soften_backward(focal_ctx *ctx, int64_t rows, int32_t K, const float *g,
                                         const float *dg, float *ds)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_route_check_rows(ctx, "soften backward", rows, K));
    if (!g || !dg || !ds)
        return foci_fail(ctx, FOCAL_EINVAL, "soften backward: g, dg and ds must be set");
    row_job job = {.rows = rows, .K = K, .g = g, .dg = dg};
    job.out = ds;
    foci_parallel(ctx, foci_pieces(rows, ROWS_OF_ITEM), soften_rows_backward, &job);
    return FOCAL_OK;
}

focal_status focal_route_soft_stats(focal_ctx *ctx, int32_t T, int32_t routers, int32_t K,
                                    int32_t router, const float *g, double *load, double *entropy)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(foci_route_check_sizes(ctx, "soft stats", T, routers, K));
    if (router < 0 || router >= routers)
        return foci_fail(ctx, FOCAL_EINVAL, "soft stats: router %d is not in 0..%d", router,
                         routers - 1);
    if (!g || !load || !entropy)
        return foci_fail(ctx, FOCAL_EINVAL, "soft stats: g, load and entropy must be set");
    double sum = 0.0;
    for (int32_t c = 0; c < K; c++) load[c] = 0.0;
    for (int64_t t = 0; t < T; t++) {
        const float *row = g + (t * routers + router) * K;
        for (int32_t c = 0; c < K; c++) {
            const double share = (double)row[c];
            load[c] += share;
            if (share != 0.0) sum -= share * log(share); /* 0 log 0 = 0; NaN stays */
        }
    }
    for (int32_t c = 0; c < K; c++) load[c] /= T;
    *entropy = sum / T;
    return FOCAL_OK;
}
