/* Router scores and their gradients with projections in registers: route_avx2.c and route_avx512.c
 * include this after the vocabulary of simd/ and the constant ROWS. The projections of all routers
 * of a side are one wide product that reads pk and pq where they lie (only an R that is no multiple
 * of a vector is copied, with zeros behind each row). */
#ifndef FOCI_OPS_ROUTE_ROUTE_VECTORS_H
#define FOCI_OPS_ROUTE_ROUTE_VECTORS_H

#include "ops/route/route_body.h"

static void pack_projection(const plan *x, const float *p, float *packed)
{
    const focal_router *r = x->router;
    for (int64_t row = 0; row < (int64_t)r->routers * r->C; row++) {
        memset(packed + row * x->width, 0, (size_t)x->width * sizeof(float));
        memcpy(packed + row * x->width, p + row * r->R, (size_t)r->R * sizeof(float));
    }
}

/* p as products in registers read it. */
static focal_status prepare_projection(focal_ctx *ctx, plan *x)
{
    const focal_router *r = x->router;
    x->p_step = r->R;
    if (x->width == r->R) return FOCAL_OK;
    x->p_step = x->width;
    for (int s = 0; s < x->side_count; s++) {
        x->packed[s] = floats(ctx, (int64_t)r->routers * r->C * x->width);
        if (!x->packed[s]) return FOCAL_ENOMEM;
        pack_projection(x, x->sides[s].p, x->packed[s]);
        x->sides[s].p = x->packed[s];
    }
    return FOCAL_OK;
}

/* z and scales, as finish_projections() says, of `count` tokens from `first` on. */
static void project(const plan *x, const side *s, int64_t first, int64_t count, float *z,
                    float *scales)
{
    const focal_router *r = x->router;
    multiply(&(product){.rows = count,
                        .vectors = x->columns / VL,
                        .depth = r->C,
                        .a = x->args->h + first * x->args->h_stride,
                        .a_row = x->args->h_stride,
                        .a_step = 1,
                        .b = s->p,
                        .b_step = x->p_step,
                        .block_step = r->C * x->p_step,
                        .block_vectors = x->width / VL,
                        .out = z,
                        .out_row = x->columns});
    finish_projections(x, s, count, z, scales);
}

/* One side of a block: a token alone still has two, for two threads. */
static void score_block(void *arg, int64_t index, int32_t thread)
{
    const plan *x = arg;
    const side *s = &x->sides[index % x->side_count];
    const int64_t first = index / x->side_count * BLOCK;
    const int64_t count = foci_min64(BLOCK, x->args->T - first);
    float *z = buffer_of(x, thread);
    if (!is_wanted(x, s, first + count)) return;
    project(x, s, first, count, z, NULL);
    score_side(x, s, first, count, z, z + BLOCK * x->columns);
}

static focal_status run_forward(focal_ctx *ctx, const focal_route_args *args)
{
    plan x = begin_plan(args);
    list_sides(&x);
    focal_status status = prepare(ctx, &x, BLOCK * (x.columns + x.group_width));
    if (status == FOCAL_OK) status = prepare_projection(ctx, &x);
    if (status == FOCAL_OK)
        foci_parallel_rows(ctx, foci_pieces(args->T, BLOCK) * x.side_count, score_block, &x);
    free_plan(ctx, &x);
    return status;
}

#include "ops/route/route_body_backward.h"

#endif /* FOCI_OPS_ROUTE_ROUTE_VECTORS_H */
