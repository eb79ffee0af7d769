/* Reference router: one token, one router at a time, sums in double. This file defines the
 * answer, so it stays slow and plain; speed belongs to the other kernels. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"
#include "ops/route/route_kernels.h"

/* One side of one router: keys, or queries. With pq NULL queries are read as keys are. */
typedef struct side {
    const float *p;    /* (C,R) */
    const float *a;    /* (R) or NULL */
    const float *beta; /* (K) or NULL */
    float *s;          /* (T, routers, K) from this router's column on, or NULL */
    const float *ds;   /* the same, or NULL */
    double *dp;        /* (C,R) or NULL */
    double *da;        /* (R) or NULL */
} side;

bool foci_route_ref_can(const focal_ctx *ctx, const focal_route_args *args)
{
    (void)args;
    return foci_on_host(ctx);
}

static side key_side(const focal_router *r, int64_t router)
{
    return (side){.p = r->pk + router * r->C * r->R,
                  .a = r->ak ? r->ak + router * r->R : NULL,
                  .beta = r->beta ? r->beta + router * r->K : NULL};
}

static side query_side(const focal_router *r, int64_t router)
{
    if (!r->pq) {
        side same = key_side(r, router);
        same.beta = NULL;
        return same;
    }
    return (side){.p = r->pq + router * r->C * r->R, .a = r->aq ? r->aq + router * r->R : NULL};
}

/* x divided by its norm, in place; the norm. A vector of length 0 stays 0. */
static double make_unit(double *x, int32_t count)
{
    double sum = 0.0;
    for (int32_t n = 0; n < count; n++) sum += x[n] * x[n];
    const double norm = sqrt(sum);
    for (int32_t n = 0; n < count && norm != 0.0; n++) x[n] /= norm;
    return norm;
}

/* dx from dy, for y = x / norm: (dy - y (y.dy)) / norm. */
static void unit_backward(const double *y, double norm, double *dy, int32_t count)
{
    double dot = 0.0;
    for (int32_t n = 0; n < count; n++) dot += y[n] * dy[n];
    for (int32_t n = 0; n < count; n++) dy[n] = norm != 0.0 ? (dy[n] - y[n] * dot) / norm : 0.0;
}

/* z = h p + a, and its norm when the router divides by it, else 1. */
static double project(const focal_router *r, const side *s, const float *h, double *z)
{
    for (int32_t n = 0; n < r->R; n++) {
        double sum = s->a ? (double)s->a[n] : 0.0;
        for (int64_t c = 0; c < r->C; c++) sum += (double)h[c] * (double)s->p[c * r->R + n];
        z[n] = sum;
    }
    return r->is_raw ? 1.0 : make_unit(z, r->R);
}

/* e: (K,R) of one router as it is used, and norms: (K). */
static void read_centroids(const focal_router *r, int64_t router, double *e, double *norms)
{
    const int64_t count = (int64_t)r->K * r->R;
    for (int64_t n = 0; n < count; n++) e[n] = (double)r->e[router * count + n];
    for (int64_t c = 0; c < r->K; c++) norms[c] = r->is_raw ? 1.0 : make_unit(e + c * r->R, r->R);
}

static void score_side(const focal_route_args *a, const side *s, const double *e)
{
    const focal_router *r = a->router;
    const int64_t step = (int64_t)r->routers * r->K;
    double z[FOCI_ROUTE_MAX_WIDTH];
    for (int64_t t = 0; t < a->T && s->s; t++) {
        (void)project(r, s, a->h + t * a->h_stride, z);
        for (int64_t c = 0; c < r->K; c++) {
            double dot = 0.0;
            for (int64_t n = 0; n < r->R; n++) dot += z[n] * e[c * r->R + n];
            const double beta = s->beta ? (double)s->beta[c] : 0.0;
            s->s[t * step + c] = (float)((double)r->sharpness * dot + beta);
        }
    }
}

focal_status foci_route_ref_forward(focal_ctx *ctx, const focal_route_args *a)
{
    const focal_router *r = a->router;
    double *e = foci_scratch(ctx, (size_t)r->K * (size_t)r->R, sizeof *e);
    if (!e) return FOCAL_ENOMEM;
    double norms[FOCAL_MAX_GROUPS];
    for (int64_t router = 0; router < r->routers; router++) {
        read_centroids(r, router, e, norms);
        side keys = key_side(r, router), queries = query_side(r, router);
        keys.s = a->sk ? a->sk + router * r->K : NULL;
        queries.s = a->sq ? a->sq + router * r->K : NULL;
        score_side(a, &keys, e);
        score_side(a, &queries, e);
    }
    foci_scratch_free(ctx, e);
    return FOCAL_OK;
}

/* Adds one token's share to dp, da, de (the gradient of the centroids as used) and dh. */
static void token_backward(const focal_router *r, const side *s, const float *h, const float *ds,
                           const double *e, double *de, double *dh)
{
    double z[FOCI_ROUTE_MAX_WIDTH], dz[FOCI_ROUTE_MAX_WIDTH] = {0};
    const double norm = project(r, s, h, z);
    for (int64_t c = 0; c < r->K; c++) {
        const double dscore = (double)r->sharpness * (double)ds[c];
        for (int64_t n = 0; n < r->R; n++) {
            dz[n] += dscore * e[c * r->R + n];
            de[c * r->R + n] += dscore * z[n];
        }
    }
    if (!r->is_raw) unit_backward(z, norm, dz, r->R);
    for (int64_t n = 0; n < r->R && s->da; n++) s->da[n] += dz[n];
    for (int64_t c = 0; c < r->C; c++) {
        for (int64_t n = 0; n < r->R; n++) {
            if (s->dp) s->dp[c * r->R + n] += (double)h[c] * dz[n];
            if (dh) dh[c] += (double)s->p[c * r->R + n] * dz[n];
        }
    }
}

static void side_backward(const focal_route_args *a, const side *s, const double *e, double *de,
                          double *dh)
{
    const focal_router *r = a->router;
    const int64_t step = (int64_t)r->routers * r->K;
    for (int64_t t = 0; t < a->T && s->ds; t++)
        token_backward(r, s, a->h + t * a->h_stride, s->ds + t * step, e, de,
                       dh ? dh + t * r->C : NULL);
}

static void store(float *out, const double *x, int64_t count)
{
    for (int64_t n = 0; n < count && out; n++) out[n] = (float)x[n];
}

/* Sums of one router, all double; dh: (T,C) over all routers. */
typedef struct sums {
    double *e, *de;    /* (K,R) */
    double *dpk, *dpq; /* (C,R) */
    double *dak, *daq; /* (R) */
    double *dh;
} sums;

static void router_backward(const focal_route_args *a, const focal_route_grads *g, int64_t router,
                            const sums *x)
{
    const focal_router *r = a->router;
    const int64_t width = r->R, projection = r->C * width, centroids = r->K * width;
    double norms[FOCAL_MAX_GROUPS];
    read_centroids(r, router, x->e, norms);
    memset(x->de, 0, (size_t)centroids * sizeof(double));
    memset(x->dpk, 0, (size_t)projection * sizeof(double));
    memset(x->dpq, 0, (size_t)projection * sizeof(double));
    memset(x->dak, 0, (size_t)width * sizeof(double));
    memset(x->daq, 0, (size_t)width * sizeof(double));
    side keys = key_side(r, router), queries = query_side(r, router);
    keys.ds = g->dsk ? g->dsk + router * r->K : NULL;
    keys.dp = x->dpk;
    keys.da = x->dak;
    queries.ds = g->dsq ? g->dsq + router * r->K : NULL;
    queries.dp = r->pq ? x->dpq : x->dpk;
    queries.da = r->pq ? x->daq : x->dak;
    side_backward(a, &keys, x->e, x->de, x->dh);
    side_backward(a, &queries, x->e, x->de, x->dh);
    for (int64_t c = 0; c < r->K && !r->is_raw; c++)
        unit_backward(x->e + c * width, norms[c], x->de + c * width, r->R);
    store(g->dpk ? g->dpk + router * projection : NULL, x->dpk, projection);
    store(g->dpq ? g->dpq + router * projection : NULL, x->dpq, projection);
    store(g->dak ? g->dak + router * width : NULL, x->dak, width);
    store(g->daq ? g->daq + router * width : NULL, x->daq, width);
    store(g->de ? g->de + router * centroids : NULL, x->de, centroids);
}

focal_status foci_route_ref_backward(focal_ctx *ctx, const focal_route_args *a,
                                     const focal_route_grads *g)
{
    const focal_router *r = a->router;
    const size_t width = (size_t)r->R, C = (size_t)r->C, K = (size_t)r->K, T = (size_t)a->T;
    double *block = foci_scratch(ctx, 2 * width * (C + K + 1), sizeof *block);
    double *dh = g->dh ? foci_scratch(ctx, T * C, sizeof *dh) : NULL;
    if (!block || (g->dh && !dh)) {
        foci_scratch_free(ctx, block);
        foci_scratch_free(ctx, dh);
        return FOCAL_ENOMEM;
    }
    if (dh) memset(dh, 0, T * C * sizeof *dh);
    sums x = {.e = block, .dh = dh};
    x.de = x.e + K * width;
    x.dpk = x.de + K * width;
    x.dpq = x.dpk + C * width;
    x.dak = x.dpq + C * width;
    x.daq = x.dak + width;
    for (int64_t router = 0; router < r->routers; router++) router_backward(a, g, router, &x);
    for (int64_t t = 0; t < a->T && dh; t++) store(g->dh + t * a->h_stride, dh + t * r->C, r->C);
    foci_scratch_free(ctx, block);
    foci_scratch_free(ctx, dh);
    return FOCAL_OK;
}
