/* A made-up text for the demo: topics that come back, and heads that look for their own topic. */
#include "demo_text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/route.h"
#include "measure.h"

enum {
    HEAD_WIDTH = 64,
    ROUTER_WIDTH = 16,
    START_TOKENS = 4096, /* the router's start looks at this many */
    SHORTEST = 12,       /* tokens a topic goes on for */
    LONGEST = 40,
    BALANCE_STEPS = 20
};

static float *make_array(int64_t count)
{
    return cli_alloc("the demo's text", (size_t)count, sizeof(float));
}

/* y (rows, width) = x (rows, C) w (C, width) */
static void multiply(const float *x, const float *w, int64_t rows, int32_t width, float *y)
{
    memset(y, 0, (size_t)(rows * width) * sizeof *y);
    for (int64_t i = 0; i < rows; i++)
        for (int32_t c = 0; c < DEMO_WIDTH; c++) {
            const float value = x[i * DEMO_WIDTH + c];
            for (int32_t n = 0; n < width; n++) y[i * width + n] += value * w[c * width + n];
        }
}

/* Stretches of one topic; a hidden state is the topic plus as much that is the token's own. */
static int fill_hidden(demo_text *text, int32_t topics, uint64_t seed)
{
    float *topic = make_array((int64_t)topics * DEMO_WIDTH);
    if (!topic) return CLI_FAILED;
    uint64_t state = seed;
    attn_fill_normal(FOCAL_F32, topic, (int64_t)topics * DEMO_WIDTH, 0.84F, seed + 1);
    attn_fill_normal(FOCAL_F32, text->h, (int64_t)text->T * DEMO_WIDTH, 0.55F, seed + 2);
    int32_t left = 0, now = 0;
    for (int64_t i = 0; i < text->T; i++) {
        if (left-- == 0) {
            now = attn_random_below(&state, topics);
            left = SHORTEST + attn_random_below(&state, LONGEST - SHORTEST);
        }
        for (int64_t c = 0; c < DEMO_WIDTH; c++)
            text->h[i * DEMO_WIDTH + c] += topic[(int64_t)now * DEMO_WIDTH + c];
    }
    free(topic);
    return CLI_DONE;
}

/* Every query head reads as its key head does, so q.k is largest between states that are alike. */
static int fill_heads(demo_text *text, uint64_t seed)
{
    const int32_t kv_width = text->G * text->D, q_width = text->H * text->D;
    float *wk = make_array((int64_t)DEMO_WIDTH * kv_width);
    float *wv = make_array((int64_t)DEMO_WIDTH * kv_width);
    float *wq = make_array((int64_t)DEMO_WIDTH * q_width);
    int code = CLI_FAILED;
    if (wk && wv && wq) {
        const float deviation = 1.0F / sqrtf((float)DEMO_WIDTH);
        attn_fill_normal(FOCAL_F32, wk, (int64_t)DEMO_WIDTH * kv_width, deviation, seed + 3);
        attn_fill_normal(FOCAL_F32, wv, (int64_t)DEMO_WIDTH * kv_width, deviation, seed + 4);
        attn_fill_normal(FOCAL_F32, wq, (int64_t)DEMO_WIDTH * q_width, 0.3F * deviation, seed + 5);
        for (int64_t c = 0; c < DEMO_WIDTH; c++)
            for (int32_t n = 0; n < q_width; n++) {
                const int32_t head = n / text->D / (text->H / text->G);
                float *w = &wq[c * q_width + n];
                *w = (*w + wk[c * kv_width + (int64_t)head * text->D + n % text->D]) /
                     sqrtf((float)text->D);
            }
        multiply(text->h, wk, text->T, kv_width, text->k);
        multiply(text->h, wv, text->T, kv_width, text->v);
        multiply(text->h, wq, text->T, q_width, text->q);
        code = CLI_DONE;
    }
    free(wk);
    free(wv);
    free(wq);
    return code;
}

int demo_text_make(int32_t T, int32_t H, int32_t G, int32_t topics, uint64_t seed, demo_text *text)
{
    *text = (demo_text){.T = T, .H = H, .G = G, .D = HEAD_WIDTH};
    text->h = make_array((int64_t)T * DEMO_WIDTH);
    text->q = make_array((int64_t)T * H * HEAD_WIDTH);
    text->k = make_array((int64_t)T * G * HEAD_WIDTH);
    text->v = make_array((int64_t)T * G * HEAD_WIDTH);
    if (!text->h || !text->q || !text->k || !text->v) return CLI_FAILED;
    const int code = fill_hidden(text, topics, seed);
    return code == CLI_DONE ? fill_heads(text, seed) : code;
}

void demo_text_free(demo_text *text)
{
    free(text->h);
    free(text->q);
    free(text->k);
    free(text->v);
    memset(text, 0, sizeof *text);
}

/* The parameters that the start makes; they die once the scores are there. */
typedef struct demo_parameters {
    float *pk, *pq, *ak, *aq, *e, *beta;
} demo_parameters;

static focal_status score(focal_ctx *ctx, const demo_text *text, const demo_parameters *p,
                          demo_router *router, uint64_t seed)
{
    const int32_t tokens = text->T < START_TOKENS ? text->T : START_TOKENS;
    const focal_route_start_args start = {
        .T = tokens,
        .C = DEMO_WIDTH,
        .H = text->H,
        .G = text->G,
        .D = text->D,
        .R = ROUTER_WIDTH,
        .K = router->K,
        .routers = router->routers,
        .h = text->h,
        .q = text->q,
        .k = text->k,
        .distance_min = 128,
        .distance_max = 2047,
        .seed = seed,
        .pk = p->pk,
        .pq = p->pq,
        .ak = p->ak,
        .aq = p->aq,
        .e = p->e,
    };
    focal_status status = focal_route_start(ctx, &start);
    if (status != FOCAL_OK) return status;
    const focal_router weights = {
        .C = DEMO_WIDTH,
        .R = ROUTER_WIDTH,
        .K = router->K,
        .routers = router->routers,
        .pk = p->pk,
        .pq = p->pq,
        .ak = p->ak,
        .aq = p->aq,
        .e = p->e,
    };
    const focal_route_args args = {
        .router = &weights, .T = text->T, .h = text->h, .sk = router->sk, .sq = router->sq};
    const double begin = measure_now();
    status = focal_route_scores(ctx, &args);
    router->ms = 1e3 * (measure_now() - begin);
    for (int step = 0; status == FOCAL_OK && step < BALANCE_STEPS; step++) {
        const focal_balance_args balance = {
            .kind = FOCAL_BALANCE_LOG,
            .T = text->T,
            .routers = router->routers,
            .K = router->K,
            .top = 1,
            .rate = 0.55F - 0.5F * (float)step / BALANCE_STEPS,
            .sk = router->sk,
            .beta = p->beta,
        };
        status = focal_route_balance(ctx, &balance);
    }
    return status;
}

int demo_router_make(focal_ctx *ctx, const demo_text *text, int32_t K, int32_t routers,
                     uint64_t seed, demo_router *router)
{
    *router = (demo_router){.K = K, .routers = routers};
    const int64_t scores = (int64_t)text->T * routers * K;
    const int64_t projection = (int64_t)routers * DEMO_WIDTH * ROUTER_WIDTH;
    const int64_t offset = (int64_t)routers * ROUTER_WIDTH;
    demo_parameters p = {
        .pk = make_array(projection),
        .pq = make_array(projection),
        .ak = make_array(offset),
        .aq = make_array(offset),
        .e = make_array(offset * K),
        .beta = make_array((int64_t)routers * K),
    };
    router->sk = make_array(scores);
    router->sq = make_array(scores);
    int code = CLI_FAILED;
    if (p.pk && p.pq && p.ak && p.aq && p.e && p.beta && router->sk && router->sq) {
        memset(p.beta, 0, (size_t)routers * (size_t)K * sizeof(float));
        const focal_status status = score(ctx, text, &p, router, seed);
        code = status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
    }
    float *blocks[] = {p.pk, p.pq, p.ak, p.aq, p.e, p.beta};
    for (size_t n = 0; n < CLI_COUNT(blocks); n++) free(blocks[n]);
    return code;
}

void demo_router_free(demo_router *router)
{
    free(router->sk);
    free(router->sq);
    memset(router, 0, sizeof *router);
}

int demo_router_groups(focal_ctx *ctx, const demo_text *text, const demo_router *router,
                       int32_t top, attn_groups *groups)
{
    const int64_t rows = (int64_t)text->T * router->routers;
    memset(groups, 0, sizeof *groups);
    groups->query_groups = cli_alloc("the groups", (size_t)(rows * top), sizeof(int32_t));
    groups->key_groups = cli_alloc("the groups", (size_t)rows, sizeof(int32_t));
    if (!groups->query_groups || !groups->key_groups) return CLI_FAILED;
    focal_status status =
        focal_route_top(ctx, rows, router->K, top, router->sq, groups->query_groups);
    if (status == FOCAL_OK)
        status = focal_route_top(ctx, rows, router->K, 1, router->sk, groups->key_groups);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}
