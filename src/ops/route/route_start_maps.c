/* From directions in the spaces of k and q to projections of h: through the model's own maps, or by
 * least squares. The least-squares map of a direction is that of its one number a token, so the
 * maps to whole heads are never made: only h^T h is large. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/route_matrix.h"
#include "ops/route/route_start.h"

enum { GRAM_ROWS = 16, TOKENS = 64 }; /* of h^T h an item makes, and how many tokens at a time */

/* Of the mean of the diagonal of h^T h: lets the solution exist when channels depend on each
 * other, and moves it by no more than float32 h does. */
static const double RIDGE = 1e-10;

typedef struct map_job {
    const focal_route_start_args *a;
    const foci_route_directions *found;
    int64_t count; /* columns of a side: routers * R */
    double *key;   /* (count, C) */
    double *query; /* (count, C) or NULL */
    double *gram;  /* (C, C) h^T h, lower part, then its factor */
} map_job;

typedef struct column {
    const float *w; /* (length, C) the model's map */
    const float *x; /* k or q of the heads, first token */
    int64_t length; /* entries of the direction's map */
    int64_t x_stride;
    const double *map; /* (length) */
    double *out;       /* (C) */
} column;

/* Items are the columns of keys, then those of queries. */
static column column_of(const map_job *job, int64_t item)
{
    const focal_route_start_args *a = job->a;
    const foci_route_direction *direction = &job->found->list[item % job->count];
    const int64_t D = a->D, C = a->C, rows = a->H / a->G * D;
    if (item < job->count) {
        const int64_t first = direction->head * D;
        return (column){a->wk ? a->wk + first * C : NULL,
                        a->k + first,
                        D,
                        a->G * D,
                        direction->key_map,
                        job->key + item * C};
    }
    const int64_t first = direction->head * rows;
    return (column){
        a->wq ? a->wq + first * C : NULL,    a->q + first, rows, a->H * D, direction->query_map,
        job->query + (item - job->count) * C};
}

/* out = w^T map. */
static void map_item(void *arg, int64_t item, int32_t thread)
{
    const map_job *job = arg;
    const int64_t C = job->a->C;
    const column c = column_of(job, item);
    (void)thread;
    memset(c.out, 0, (size_t)C * sizeof *c.out);
    for (int64_t n = 0; n < c.length && c.w; n++)
        for (int64_t i = 0; i < C; i++) c.out[i] += c.map[n] * (double)c.w[n * C + i];
}

/* out = (h^T h)^-1 h^T y with y_t = map . x_t. */
static void fit_item(void *arg, int64_t item, int32_t thread)
{
    const map_job *job = arg;
    const int64_t C = job->a->C;
    const column c = column_of(job, item);
    (void)thread;
    memset(c.out, 0, (size_t)C * sizeof *c.out);
    for (int64_t t = 0; t < job->a->T; t++) {
        const float *x = c.x + t * c.x_stride, *h = job->a->h + t * C;
        double y = 0.0;
        for (int64_t n = 0; n < c.length; n++) y += c.map[n] * (double)x[n];
        for (int64_t i = 0; i < C; i++) c.out[i] += y * (double)h[i];
    }
    foci_matrix_solve(C, job->gram, c.out);
}

/* Rows of the lower part of h^T h. The tokens of a block stay in the cache for all rows. */
static void gram_item(void *arg, int64_t item, int32_t thread)
{
    const map_job *job = arg;
    const int64_t C = job->a->C, first = item * GRAM_ROWS, T = job->a->T;
    const int64_t last = foci_min64(first + GRAM_ROWS, C);
    (void)thread;
    memset(job->gram + first * C, 0, (size_t)((last - first) * C) * sizeof *job->gram);
    for (int64_t begin = 0; begin < T; begin += TOKENS) {
        for (int64_t i = first; i < last; i++) {
            for (int64_t t = begin; t < foci_min64(begin + TOKENS, T); t++) {
                const float *h = job->a->h + t * C;
                const double factor = (double)h[i];
                for (int64_t j = 0; j <= i; j++) job->gram[i * C + j] += factor * (double)h[j];
            }
        }
    }
}

static focal_status fit(focal_ctx *ctx, map_job *job, int64_t items)
{
    const int64_t C = job->a->C;
    job->gram = foci_scratch(ctx, (size_t)C * (size_t)C, sizeof *job->gram);
    if (!job->gram) return FOCAL_ENOMEM;
    foci_parallel(ctx, foci_pieces(C, GRAM_ROWS), gram_item, job);
    double trace = 0.0;
    for (int64_t i = 0; i < C; i++) trace += job->gram[i * C + i];
    for (int64_t i = 0; i < C; i++) job->gram[i * C + i] += RIDGE * trace / (double)C;
    focal_status status = FOCAL_OK;
    if (foci_matrix_cholesky(C, job->gram))
        foci_parallel(ctx, items, fit_item, job);
    else
        status = foci_fail(ctx, FOCAL_EINVAL, "start: h is zero or not finite");
    foci_scratch_free(ctx, job->gram);
    return status;
}

focal_status foci_route_find_projections(focal_ctx *ctx, const focal_route_start_args *a,
                                         const foci_route_directions *found, double *key,
                                         double *query)
{
    map_job job = {.a = a, .found = found};
    job.key = key;
    job.query = query;
    job.count = (int64_t)a->routers * a->R;
    const int64_t items = query ? 2 * job.count : job.count;
    if (!a->wk) return fit(ctx, &job, items);
    foci_parallel(ctx, items, map_item, &job);
    return FOCAL_OK;
}
