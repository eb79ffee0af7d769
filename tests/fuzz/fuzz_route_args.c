/* Arbitrary routing calls: scores and their gradient, soft and hard memberships, both balances, the
 * router's start. A call may fail, with a sentence; it may not crash, hang, or touch a byte beyond
 * what its shapes say. A call that is entitled to more than a test can afford is left out. */
#include "fuzz_reader.h"

#include "focal/focal.h"

/* Long loops are the caller's to ask for; a test cannot wait for them. */
static int32_t take_rounds(reader *r)
{
    const int32_t rounds = take_size(r, 6);
    return rounds > 1000 && rounds <= 1 << 20 ? 1000 : rounds;
}

/* An array of whatever bytes the input has, or of small numbers, or sometimes NULL. */
static float *take_floats(reader *r, arena *a, int64_t count)
{
    float *floats = take_block(a, count, sizeof(float));
    const uint8_t kind = take(r) % 16;
    for (int64_t n = 0; n < count && count <= MAX_ELEMENTS && kind < 10 && r->size > 0; n++)
        floats[n] = (float)(r->data[(size_t)n % r->size] - 128) * 0.03F;
    return kind == 15 ? NULL : floats;
}

static focal_router take_router(reader *r, arena *a)
{
    focal_router router = {.C = take_size(r, 40)};
    router.R = take_size(r, 20);
    router.K = take_size(r, 8);
    router.routers = take_size(r, 3);
    const int64_t wide = times(router.routers, router.R);
    router.is_raw = take(r) % 2;
    router.sharpness = take(r) % 4 ? 0.0F : (float)take_size(r, 50);
    router.pk = take_floats(r, a, times(wide, router.C));
    router.e = take_floats(r, a, times(wide, router.K));
    const uint8_t parts = take(r);
    if (parts & 1) router.pq = take_floats(r, a, times(wide, router.C));
    if (parts & 2) router.ak = take_floats(r, a, wide);
    if (parts & 4) router.aq = take_floats(r, a, wide);
    if (parts & 8) router.beta = take_floats(r, a, times(router.routers, router.K));
    return router;
}

static void fuzz_scores(reader *r, arena *a, focal_ctx *ctx)
{
    const focal_router router = take_router(r, a);
    focal_route_args args = {.router = take(r) % 32 ? &router : NULL};
    args.T = take_size(r, 80);
    args.h_stride = take_stride(r, router.C);
    const int64_t h_count = extent(args.T, args.h_stride, router.C);
    const int64_t s_count = times(times(args.T, router.routers), router.K);
    const int64_t wide = times(router.routers, router.R);
    args.h = take_floats(r, a, h_count);
    args.sk = take(r) % 4 ? take_block(a, s_count, sizeof(float)) : NULL;
    args.sq = take(r) % 4 ? take_block(a, s_count, sizeof(float)) : NULL;
    (void)focal_route_kernel_name(ctx, &args);
    bool is_usable;
    (void)focal_route_kernel_at(ctx, take_size(r, 4), &is_usable);
    if (a->is_covered) check_status(ctx, focal_route_scores(ctx, &args));

    const uint8_t parts = take(r);
    const bool has_grads = take(r) != 255;
    const focal_route_grads grads = {
        .dsk = parts & 1 ? NULL : take_block(a, s_count, sizeof(float)),
        .dsq = parts & 2 ? NULL : take_block(a, s_count, sizeof(float)),
        .dh = parts & 4 ? NULL : take_block(a, h_count, sizeof(float)),
        .dpk = parts & 8 ? NULL : take_block(a, times(wide, router.C), sizeof(float)),
        .dpq = parts & 16 ? NULL : take_block(a, times(wide, router.C), sizeof(float)),
        .dak = parts & 32 ? NULL : take_block(a, wide, sizeof(float)),
        .daq = parts & 64 ? NULL : take_block(a, wide, sizeof(float)),
        .de = parts & 128 ? NULL : take_block(a, times(wide, router.K), sizeof(float))};
    if (a->is_covered)
        check_status(ctx, focal_route_scores_backward(ctx, &args, has_grads ? &grads : NULL));
}

/* Calls on scores: softmax, the best groups, statistics, both balances. */
static void fuzz_memberships(reader *r, arena *a, focal_ctx *ctx)
{
    const int32_t T = take_size(r, 80), routers = take_size(r, 3), K = take_size(r, 8);
    const int32_t top = take_size(r, 3), rounds = take_rounds(r),
                  router = (int32_t)(take(r) % 5) - 1;
    const int64_t rows = times(T, routers), count = times(rows, K);
    float *s = take_floats(r, a, count), *g = take_floats(r, a, count);
    float *dg = take_floats(r, a, count), *ds = take_floats(r, a, count);
    float *beta = take_floats(r, a, times(routers, K)),
          *load = take_floats(r, a, times(routers, K));
    int32_t *groups = take_block(a, times(rows, top), sizeof *groups);
    double *mean = take_block(a, K, sizeof *mean), *entropy = take_block(a, 1, sizeof *entropy);
    if (!a->is_covered) return;
    switch (take(r) % 6) {
    case 0:
        check_status(ctx, focal_route_soften(ctx, rows, K, s, take(r) % 2 ? s : g));
        break;
    case 1:
        check_status(ctx, focal_route_soften_backward(ctx, rows, K, g, dg, take(r) % 2 ? dg : ds));
        break;
    case 2:
        check_status(ctx, focal_route_sinkhorn(ctx, T, routers, K, rounds, s, g));
        check_status(ctx, focal_route_sinkhorn_backward(ctx, T, routers, K, rounds, s, dg, ds));
        break;
    case 3: {
        const focal_balance_args args = {.kind = (focal_balance_kind)(take(r) % 3),
                                         .T = T,
                                         .routers = routers,
                                         .K = K,
                                         .top = top,
                                         .rounds = rounds > 1000 ? 1000 : rounds,
                                         .rate = (float)take_size(r, 9) * 0.1F,
                                         .sk = s,
                                         .beta = beta,
                                         .load = load};
        check_status(ctx, focal_route_balance(ctx, &args));
        break;
    }
    case 4:
        check_status(ctx, focal_route_top(ctx, rows, K, top, s, take(r) % 16 ? groups : NULL));
        break;
    default:
        if (take(r) % 8 == 7) mean = NULL;
        if (take(r) % 8 == 7) entropy = NULL;
        check_status(ctx, focal_route_soft_stats(ctx, T, routers, K, router, g, mean, entropy));
    }
}

static void fuzz_start(reader *r, arena *a, focal_ctx *ctx)
{
    focal_route_start_args args = {.T = take_size(r, 60)};
    args.C = take_size(r, 12);
    args.G = take_size(r, 3);
    args.H = take(r) % 8 ? (int32_t)times(args.G, 1 + take(r) % 3) : take_size(r, 6);
    args.D = take(r) % 8 ? 2 * (1 + take(r) % 6) : take_size(r, 12);
    if (args.D > 32 && args.D <= 1024) args.D = 32; /* eigenvectors of wide heads take seconds */
    args.R = take_size(r, 6);
    args.K = take_size(r, 6);
    args.routers = take(r) % 4 ? (take(r) % 2 ? 1 : args.G) : take_size(r, 4);
    const uint8_t flags = take(r);
    args.is_shared = flags & 1;
    args.is_interleaved = flags & 2;
    args.distance_min = take(r) % 8 ? take(r) % 8 : take_size(r, 64);
    args.distance_max = take(r) % 8 ? args.distance_min % 1000 + take(r) : take_size(r, 64);
    args.kmeans_rounds = take_rounds(r);
    if (args.kmeans_rounds > 1000) args.kmeans_rounds = 1000;
    args.seed = take(r);
    const int64_t q_width = times(args.H, args.D), k_width = times(args.G, args.D);
    const int64_t wide = times(args.routers, args.R);
    args.h = take_floats(r, a, times(args.T, args.C));
    args.q = take_floats(r, a, times(args.T, q_width));
    args.k = take_floats(r, a, times(args.T, k_width));
    if (flags & 4) args.wq = take_floats(r, a, times(q_width, args.C));
    if (flags & 4) args.wk = take_floats(r, a, times(k_width, args.C));
    if (flags & 8) args.bq = take_floats(r, a, q_width);
    if (flags & 16) args.rope_freq = take_floats(r, a, args.D / 2);
    args.pk = take_floats(r, a, times(wide, args.C));
    args.ak = take_floats(r, a, wide);
    args.e = take_floats(r, a, times(wide, args.K));
    if (!args.is_shared) args.pq = take_floats(r, a, times(wide, args.C));
    if (!args.is_shared) args.aq = take_floats(r, a, wide);
    if (a->is_covered) check_status(ctx, focal_route_start(ctx, &args));
}

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static void (*const calls[])(reader *, arena *, focal_ctx *) = {fuzz_scores, fuzz_memberships,
                                                                    fuzz_start};
    reader r = {.data = data, .size = size};
    focal_ctx *ctx = take_ctx(&r);
    arena a = {.is_covered = true, .contents = &r};
    calls[take(&r) % 3](&r, &a, ctx);
    for (int n = 0; n < a.count; n++) free(a.blocks[n]);
    return 0;
}
