/* The start of a router, in the order of docs/MATH.md, 3.4: directions from the model's heads,
 * projections from directions, offsets that centre the keys, centroids by k-means. */
#include "ops/route/route_start.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"

enum { MAX_HEADS = 1 << 16, MAX_HEAD_WIDTH = 1024 };

static focal_status check_shape(focal_ctx *ctx, const focal_route_start_args *a)
{
    FOCAL_TRY(foci_route_check_sizes(ctx, "start", a->T, a->routers, a->K));
    if (a->C < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "start: C is %d, it must be at least 1", a->C);
    if (a->H < 1 || a->G < 1 || a->H > MAX_HEADS || a->H % a->G != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "start: %d query heads over %d key heads", a->H, a->G);
    if (a->D < 1 || a->D > MAX_HEAD_WIDTH)
        return foci_fail(ctx, FOCAL_EINVAL, "start: D is %d, it must be 1 to %d", a->D,
                         MAX_HEAD_WIDTH);
    if (a->routers != 1 && a->routers != a->G)
        return foci_fail(ctx, FOCAL_EINVAL, "start: routers is %d, it must be 1 or G = %d",
                         a->routers, a->G);
    const int64_t most = foci_min64(FOCI_ROUTE_MAX_WIDTH, (int64_t)a->G / a->routers * a->D);
    if (a->R < 1 || a->R > most)
        return foci_fail(ctx, FOCAL_EINVAL, "start: R is %d, it must be 1 to %lld", a->R,
                         (long long)most);
    if (a->kmeans_rounds < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "start: kmeans_rounds is %d, it must not be negative",
                         a->kmeans_rounds);
    return FOCAL_OK;
}

static focal_status check_rope(focal_ctx *ctx, const focal_route_start_args *a)
{
    if (!a->rope_freq) return FOCAL_OK;
    if (a->D % 2 != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "start: rope needs an even D, not %d", a->D);
    if (a->distance_min < 0 || a->distance_max < a->distance_min)
        return foci_fail(ctx, FOCAL_EINVAL, "start: distances %d to %d are no range",
                         a->distance_min, a->distance_max);
    for (int32_t n = 0; n < a->D / 2; n++)
        if (!isfinite(a->rope_freq[n]))
            return foci_fail(ctx, FOCAL_EINVAL, "start: rope_freq %d is not finite", n);
    return FOCAL_OK;
}

static focal_status check_args(focal_ctx *ctx, const focal_route_start_args *a)
{
    FOCAL_TRY(check_shape(ctx, a));
    FOCAL_TRY(check_rope(ctx, a));
    if (!a->h || !a->q || !a->k)
        return foci_fail(ctx, FOCAL_EINVAL, "start: h, q and k must be set");
    if (!a->is_shared && !a->wq != !a->wk)
        return foci_fail(ctx, FOCAL_EINVAL, "start: wq and wk must both be set or both be NULL");
    if (!a->pk || !a->ak || !a->e || (!a->is_shared && (!a->pq || !a->aq)))
        return foci_fail(ctx, FOCAL_EINVAL, "start: pk, ak, e%s must be set",
                         a->is_shared ? "" : ", pq and aq");
    return FOCAL_OK;
}

/* p (C,R) from its columns (R,C), scaled to a root mean square of 1/sqrt(C); the scale. */
static double store_projection(const focal_route_start_args *a, const double *columns, float *p)
{
    const int64_t C = a->C, R = a->R;
    double squares = 0.0;
    for (int64_t n = 0; n < R * C; n++) squares += columns[n] * columns[n];
    /* 1 / sqrt(C) over sqrt(squares / (C R)) */
    const double scale = squares > 0.0 ? sqrt((double)R / squares) : 0.0;
    for (int64_t c = 0; c < C; c++)
        for (int64_t n = 0; n < R; n++) p[c * R + n] = (float)(scale * columns[n * C + c]);
    return scale;
}

/* a_k = -mean(h p_k). */
static void centre_keys(const focal_route_start_args *a, const double *mean, int64_t router)
{
    const int64_t C = a->C, R = a->R;
    for (int64_t n = 0; n < R; n++) {
        double sum = 0.0;
        for (int64_t c = 0; c < C; c++) sum += mean[c] * (double)a->pk[(router * C + c) * R + n];
        a->ak[router * R + n] = (float)-sum;
    }
}

/* a_q: the query maps applied to the bias in q, scaled as p_q is. */
static void offset_queries(const focal_route_start_args *a, const foci_route_direction *list,
                           double scale, float *aq)
{
    const int64_t rows = a->H / a->G * (int64_t)a->D;
    for (int64_t n = 0; n < a->R; n++) {
        double sum = 0.0;
        for (int64_t i = 0; i < rows && a->bq; i++)
            sum += list[n].query_map[i] * (double)a->bq[list[n].head * rows + i];
        aq[n] = (float)(scale * sum);
    }
}

static bool all_finite(const double *x, int64_t count)
{
    for (int64_t n = 0; n < count && x; n++)
        if (!isfinite(x[n])) return false;
    return true;
}

static void mean_hidden(const focal_route_start_args *a, double *mean)
{
    memset(mean, 0, (size_t)a->C * sizeof *mean);
    for (int64_t t = 0; t < a->T; t++)
        for (int64_t c = 0; c < a->C; c++) mean[c] += (double)a->h[t * a->C + c];
    for (int64_t c = 0; c < a->C; c++) mean[c] /= a->T;
}

/* key and query: (routers, R, C) columns; query NULL when the groups are shared. */
static focal_status store_routers(focal_ctx *ctx, const focal_route_start_args *a,
                                  const foci_route_directions *found, const double *key,
                                  const double *query, const double *mean)
{
    const int64_t columns = a->R * (int64_t)a->C;
    if (!all_finite(key, a->routers * columns) || !all_finite(query, a->routers * columns) ||
        !all_finite(mean, a->C))
        return foci_fail(ctx, FOCAL_EINVAL, "start: h, q, k and the maps must be finite");
    for (int64_t r = 0; r < a->routers; r++) {
        (void)store_projection(a, key + r * columns, a->pk + r * columns);
        centre_keys(a, mean, r);
        if (query) {
            const double scale = store_projection(a, query + r * columns, a->pq + r * columns);
            offset_queries(a, found->list + r * a->R, scale, a->aq + r * a->R);
        }
        FOCAL_TRY(foci_route_find_centroids(ctx, a, r));
    }
    return FOCAL_OK;
}

focal_status focal_route_start(focal_ctx *ctx, const focal_route_start_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!args) return foci_fail(ctx, FOCAL_EINVAL, "start: args must be set");
    FOCAL_TRY(check_args(ctx, args));
    const size_t columns = (size_t)args->routers * (size_t)args->R * (size_t)args->C;
    foci_route_directions found = {0};
    double *key = foci_scratch(ctx, columns, sizeof *key);
    double *query = args->is_shared ? NULL : foci_scratch(ctx, columns, sizeof *query);
    double *mean = foci_scratch(ctx, (size_t)args->C, sizeof *mean);
    focal_status status = FOCAL_ENOMEM;
    if (!key || !mean || (!query && !args->is_shared)) goto done;
    mean_hidden(args, mean);
    status = foci_route_find_directions(ctx, args, &found);
    if (status != FOCAL_OK) goto done;
    status = foci_route_find_projections(ctx, args, &found, key, query);
    if (status != FOCAL_OK) goto done;
    status = store_routers(ctx, args, &found, key, query, mean);
done:
    foci_route_free_directions(ctx, &found);
    foci_scratch_free(ctx, key);
    foci_scratch_free(ctx, query);
    foci_scratch_free(ctx, mean);
    return status;
}
