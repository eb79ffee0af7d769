#if defined(__AMX_BF16__) || defined(__AMXBF16__)
/* The router's kernel for AMX: the projections of many tokens in tiles, all else on AVX-512. */
#include "simd/vec_avx512.h"

enum { ROWS = 8 }; /* of a register tile: 8 x 3 sums, 3 columns and a broadcast */

#include "ops/route/route_body.h"
#include "ops/route/route_project_amx.h"

enum { MANY = BLOCK /* tokens, from which on packing p for a call pays */ };

/* A call, with its weights in tiles. */
typedef struct tiles_plan {
    plan x;
    float *tiles;         /* (side_count, column tiles, depth tiles, PARTS) */
    int32_t *parts;       /* (side_count, column tiles) parts of weights that are not all zero */
    int64_t column_tiles; /* of a side */
    int64_t step;         /* floats from one of them to the next */
} tiles_plan;

/* One column tile of a side. */
static void pack_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const tiles_plan *t = arg;
    const focal_router *r = t->x.router;
    const int64_t column = index % t->column_tiles * TILE_COLUMNS, width = t->x.width;
    const float *p = t->x.sides[index / t->column_tiles].p + column / width * r->C * r->R;
    t->parts[index] = pack_weights(r, p, column % width, t->tiles + index * t->step);
}

static int32_t parts_of(const tiles_plan *t, int64_t which)
{
    int32_t most = 1;
    for (int64_t n = which * t->column_tiles; n < (which + 1) * t->column_tiles; n++)
        if (t->parts[n] > most) most = t->parts[n];
    return most;
}

static void score_block(void *arg, int64_t index, int32_t thread)
{
    const tiles_plan *t = arg;
    const plan *x = &t->x;
    const int64_t first = index * BLOCK, count = foci_min64(BLOCK, x->args->T - first);
    float *h = buffer_of(x, thread);
    float *z = h + BLOCK / TILE_TOKENS * t->step;
    float *scores = z + BLOCK * x->columns;
    pack_tokens(x->router, x->args->h + first * x->args->h_stride, x->args->h_stride, count, h);
    for (int n = 0; n < x->side_count; n++) {
        if (!is_wanted(x, &x->sides[n], first + count)) continue;
        foci_tiles_begin();
        project_packed(x->router, x->columns, h, t->tiles + n * t->column_tiles * t->step,
                       parts_of(t, n), count, z);
        foci_tiles_end();
        finish_projections(x, &x->sides[n], count, z, NULL);
        score_side(x, &x->sides[n], first, count, z, scores);
    }
}

static focal_status prepare_tiles(focal_ctx *ctx, tiles_plan *t)
{
    const plan *x = &t->x;
    t->step = depth_tiles(x->router) * PARTS * TILE_FLOATS;
    t->column_tiles = x->columns / TILE_COLUMNS;
    const int64_t count = x->side_count * t->column_tiles;
    t->tiles = floats(ctx, count * t->step);
    t->parts = foci_scratch(ctx, (size_t)count, sizeof *t->parts);
    if (!t->tiles || !t->parts) return FOCAL_ENOMEM;
    foci_parallel(ctx, count, pack_item, t);
    return prepare(ctx, &t->x,
                   BLOCK / TILE_TOKENS * t->step + BLOCK * (x->columns + x->group_width));
}

/* A pin to what is not among the router's kernels (avx512bf16, say) is none here; but then it is no
 * pin to tiles. */
bool foci_route_amx_can(const focal_ctx *ctx, const focal_route_args *args)
{
    return can_here(ctx, args, FOCI_AVX512) && foci_has(ctx, FOCI_AMX) &&
           foci_ctx_allows(ctx, "amx");
}

focal_status foci_route_amx_forward(focal_ctx *ctx, const focal_route_args *args)
{
    if (args->T < MANY) return foci_route_avx512_forward(ctx, args);
    tiles_plan t = {.x = begin_plan(args)};
    list_sides(&t.x);
    const focal_status status = prepare_tiles(ctx, &t);
    if (status == FOCAL_OK) foci_parallel(ctx, foci_pieces(args->T, BLOCK), score_block, &t);
    foci_scratch_free(ctx, t.tiles);
    foci_scratch_free(ctx, t.parts);
    free_plan(ctx, &t.x);
    return status;
}

focal_status foci_route_amx_backward(focal_ctx *ctx, const focal_route_args *args,
                                     const focal_route_grads *grads)
{
    return foci_route_avx512_backward(ctx, args, grads);
}
#else
/* Stands in where the compiler has no tiles: never chosen. */
#include "ops/route/route_kernels.h"

bool foci_route_amx_can(const focal_ctx *ctx, const focal_route_args *args)
{
    (void)ctx;
    (void)args;
    return false;
}

focal_status foci_route_amx_forward(focal_ctx *ctx, const focal_route_args *args)
{
    return foci_route_ref_forward(ctx, args);
}

focal_status foci_route_amx_backward(focal_ctx *ctx, const focal_route_args *args,
                                     const focal_route_grads *grads)
{
    return foci_route_ref_backward(ctx, args, grads);
}
#endif
