/* Router scores for one instruction set: what is around the projections, of which there are two
 * forms, in registers (route_vectors.h) and in AMX tiles (route_amx.c). Both include this after the
 * vocabulary of simd/ and the constant ROWS. Tokens go in blocks. */
#ifndef FOCI_OPS_ROUTE_ROUTE_BODY_H
#define FOCI_OPS_ROUTE_ROUTE_BODY_H

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"
#include "ops/route/route_kernels.h"
#include "ops/route/route_tiles.h"
#include "simd/vec_rows.h"

enum {
    BLOCK = 64,         /* tokens projected together: their z stays in the caches */
    MAX_COLUMNS = 16384 /* of a side; more would make a block of z too large */
};

/* Keys or queries. Arrays that are NULL are not asked for. */
typedef struct side {
    const float *p, *a, *beta; /* (routers, C, p_step), (routers, R), (routers, K) */
    float *sk, *sq;            /* outputs (T, routers, K); sq has no beta */
    const float *ds, *ds_also; /* (T, routers, K), to be added up */
    float *dp, *da;            /* outputs (routers, C, R), (routers, R) */
} side;

/* A call, prepared: what all blocks share. */
typedef struct plan {
    const focal_route_args *args;
    const focal_router *router;
    int side_count;
    side sides[2];
    int64_t width;       /* R, rounded up to whole vectors */
    int64_t group_width; /* K likewise */
    int64_t columns;     /* of a side: routers * width */
    int64_t p_step;      /* floats from one channel of p to the next */
    float *packed[2];    /* copies of p, when R is no multiple of a vector */
    float *e_columns;    /* (routers, R, group_width) sharpness e, by column */
    float *e_rows;       /* (routers, K, width) the same, by row */
    float *norms;        /* (routers, K) of e; 1 when raw */
    float *buffers;      /* one a thread */
    int64_t buffer_floats;
    /* backward */
    float *dz;    /* (T, side_count * columns) */
    float *parts; /* (pieces, part_floats): da of each side, then de (routers, K, width) */
    int64_t part_floats;
    float *p_across; /* panels of p^T: (C / panel, side_count * columns, panel) */
    float *dh;
} plan;

static float *buffer_of(const plan *x, int32_t thread)
{
    return x->buffers + thread * x->buffer_floats;
}

static float *floats(focal_ctx *ctx, int64_t count)
{
    return foci_scratch(ctx, (size_t)count, sizeof(float));
}

static void free_plan(focal_ctx *ctx, plan *x)
{
    float *blocks[] = {x->packed[0], x->packed[1], x->e_columns, x->e_rows,  x->norms,
                       x->buffers,   x->dz,        x->parts,     x->p_across};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) foci_scratch_free(ctx, blocks[n]);
}

/* Centroids are few: their norms are taken in double. */
static void prepare_centroids(plan *x)
{
    const focal_router *r = x->router;
    memset(x->e_columns, 0, (size_t)r->routers * (size_t)(r->R * x->group_width) * sizeof(float));
    memset(x->e_rows, 0, (size_t)r->routers * (size_t)(r->K * x->width) * sizeof(float));
    for (int64_t row = 0; row < (int64_t)r->routers * r->K; row++) {
        const float *e = r->e + row * r->R;
        double sum = 0.0;
        for (int64_t n = 0; n < r->R; n++) sum += (double)e[n] * (double)e[n];
        const double norm = r->is_raw ? 1.0 : sqrt(sum);
        const double scale = norm == 0.0 ? 0.0 : (double)r->sharpness / norm;
        float *columns = x->e_columns + row / r->K * r->R * x->group_width + row % r->K;
        for (int64_t n = 0; n < r->R; n++) {
            x->e_rows[row * x->width + n] = (float)(scale * (double)e[n]);
            columns[n * x->group_width] = x->e_rows[row * x->width + n];
        }
        x->norms[row] = (float)norm;
    }
}

static focal_status prepare(focal_ctx *ctx, plan *x, int64_t buffer_floats)
{
    const focal_router *r = x->router;
    x->buffer_floats = foci_round_up(buffer_floats, 16);
    x->e_columns = floats(ctx, (int64_t)r->routers * r->R * x->group_width);
    x->e_rows = floats(ctx, (int64_t)r->routers * r->K * x->width);
    x->norms = floats(ctx, (int64_t)r->routers * r->K);
    x->buffers = floats(ctx, x->buffer_floats * focal_ctx_threads(ctx));
    if (!x->e_columns || !x->e_rows || !x->norms || !x->buffers) return FOCAL_ENOMEM;
    prepare_centroids(x);
    return FOCAL_OK;
}

static plan begin_plan(const focal_route_args *args)
{
    const focal_router *r = args->router;
    const int64_t width = foci_round_up(r->R, VL);
    return (plan){.args = args,
                  .router = r,
                  .width = width,
                  .group_width = foci_round_up(r->K, VL),
                  .columns = r->routers * width};
}

static bool can_here(const focal_ctx *ctx, const focal_route_args *args, unsigned feature)
{
    const focal_router *r = args->router;
    return foci_on_host(ctx) && foci_has(ctx, feature) &&
           r->routers * foci_round_up(r->R, VL) <= MAX_COLUMNS;
}

/* Norms that a float's square cannot hold; the scale is 0 for a vector of length 0. */
static float unit_in_double(float *z, int64_t width)
{
    double sum = 0.0;
    for (int64_t n = 0; n < width; n++) sum += (double)z[n] * (double)z[n];
    const double scale = sum == 0.0 ? 0.0 : 1.0 / sqrt(sum);
    for (int64_t n = 0; n < width; n++) z[n] = (float)((double)z[n] * scale);
    return (float)scale;
}

/* z divided by its norm, in place; returns 1 / norm. */
static inline float make_unit(float *z, int64_t width)
{
    vec squares = v_zero();
    for (int64_t n = 0; n < width; n += VL) {
        const vec x = v_load(z + n);
        squares = v_fma(x, x, squares);
    }
    const float sum = v_reduce_add(squares);
    if (!(sum > 1e-30F && sum < 1e30F)) return unit_in_double(z, width);
    /* Divided, not multiplied by the inverse: a vector of one component becomes exactly +-1. */
    const float norm = sqrtf(sum);
    for (int64_t n = 0; n < width; n += VL) v_store(z + n, v_div(v_load(z + n), v_set1(norm)));
    return 1.0F / norm;
}

static inline void add_offset(float *z, const float *a, int64_t width)
{
    for (int64_t n = 0; n < width; n += VL) {
        const int64_t lanes = v_lanes(n, width);
        v_store(z + n, v_add(v_load(z + n), v_load_lanes(a + n, lanes)));
    }
}

/* Products become projections: z (count, columns) of a side; scales (count, routers), when not
 * NULL, get 1 / norm, or 1 when raw. */
static void finish_projections(const plan *x, const side *s, int64_t count, float *z, float *scales)
{
    const focal_router *r = x->router;
    for (int64_t row = 0; row < count * r->routers; row++) {
        float *mine = z + row * x->width;
        if (s->a) add_offset(mine, s->a + row % r->routers * r->R, r->R);
        const float scale = r->is_raw ? 1.0F : make_unit(mine, x->width);
        if (scales) scales[row] = scale;
    }
}

static void store_scores(const plan *x, const side *s, int64_t token, int64_t router,
                         const float *scores)
{
    const focal_router *r = x->router;
    const int64_t at = (token * r->routers + router) * r->K;
    for (int64_t n = 0; n < r->K; n += VL) {
        const int64_t lanes = v_lanes(n, r->K);
        const vec score = v_load(scores + n);
        vec key_score = score;
        if (s->beta) key_score = v_add(score, v_load_lanes(s->beta + router * r->K + n, lanes));
        if (s->sk) v_store_lanes(s->sk, FOCAL_F32, at + n, key_score, lanes);
        if (s->sq) v_store_lanes(s->sq, FOCAL_F32, at + n, score, lanes);
    }
}

/* Scores of `count` tokens from `first` on, from their projections z. */
static void score_side(const plan *x, const side *s, int64_t first, int64_t count, const float *z,
                       float *scores)
{
    const focal_router *r = x->router;
    for (int64_t router = 0; router < r->routers; router++) {
        multiply(&(product){.rows = count,
                            .vectors = x->group_width / VL,
                            .depth = r->R,
                            .a = z + router * x->width,
                            .a_row = x->columns,
                            .a_step = 1,
                            .b = x->e_columns + router * r->R * x->group_width,
                            .b_step = x->group_width,
                            .block_vectors = x->group_width / VL,
                            .out = scores,
                            .out_row = x->group_width});
        for (int64_t t = 0; t < count; t++)
            store_scores(x, s, first + t, router, scores + t * x->group_width);
    }
}

/* Whether a side is asked for of tokens before `end`. */
static bool is_wanted(const plan *x, const side *s, int64_t end)
{
    return s->sk || end > x->args->sq_from;
}

/* The sides that a call asks for. */
static void list_sides(plan *x)
{
    const focal_route_args *args = x->args;
    const focal_router *r = x->router;
    if (!r->pq) {
        x->sides[x->side_count++] = (side){r->pk, r->ak, r->beta, args->sk, args->sq, 0, 0, 0, 0};
        return;
    }
    if (args->sk)
        x->sides[x->side_count++] = (side){r->pk, r->ak, r->beta, args->sk, 0, 0, 0, 0, 0};
    if (args->sq) x->sides[x->side_count++] = (side){r->pq, r->aq, NULL, 0, args->sq, 0, 0, 0, 0};
}

#endif /* FOCI_OPS_ROUTE_ROUTE_BODY_H */
