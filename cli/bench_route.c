/* focal bench route: what stands between a token's hidden state and its key set, stage by stage. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn_case.h"
#include "bench_shared.h"
#include "focal/route.h"

/* The command line. */
typedef struct route_options {
    bench_options shared;
    cli_list tokens;
    int64_t width, router_width, groups, top, routers, rounds;
    int32_t stage; /* 0: all */
    bool has_width, has_router_width, has_top, has_rounds;
} route_options;

/* What the stages of one context write; all float32 but the groups. */
typedef struct route_results {
    float *sk, *sq;                    /* (T, routers, K) */
    float *dh;                         /* (T,C) */
    float *dpk, *dpq, *dak, *daq, *de; /* as the router's arrays */
    float *g, *ds;                     /* (T, routers, K) of Sinkhorn */
    float *beta;                       /* (routers, K) after the balance */
    float *moved;                      /* (T, routers, K) the scores that the balance moves */
    int32_t *query_groups, *key_groups;
    focal_keyset *set;
} route_results;

/* The inputs, shared, and one side of the comparison. */
typedef struct route_case {
    int32_t T, top, rounds;
    focal_router router;
    float *h;                     /* (T,C) */
    float *pk, *pq, *ak, *aq, *e; /* the router's */
    float *dsk, *dsq, *dg;        /* (T, routers, K); dsk and dsq serve as scores too */
} route_case;

typedef struct route_side {
    focal_ctx *ctx;
    const route_case *inputs;
    route_results results;
} route_side;

static bool succeeded(const route_side *side, focal_status status)
{
    if (status != FOCAL_OK) (void)cli_fail_ctx(side->ctx, status);
    return status == FOCAL_OK;
}

static int64_t score_count(const route_case *c)
{
    return (int64_t)c->T * c->router.routers * c->router.K;
}

static focal_route_args scores_args(const route_side *side)
{
    return (focal_route_args){.router = &side->inputs->router,
                              .T = side->inputs->T,
                              .h = side->inputs->h,
                              .sk = side->results.sk,
                              .sq = side->results.sq};
}

static bool run_scores(void *arg)
{
    const route_side *side = arg;
    const focal_route_args args = scores_args(side);
    return succeeded(side, focal_route_scores(side->ctx, &args));
}

static bool run_scores_backward(void *arg)
{
    const route_side *side = arg;
    const route_results *r = &side->results;
    const focal_route_args args = scores_args(side);
    const focal_route_grads grads = {.dsk = side->inputs->dsk,
                                     .dsq = side->inputs->dsq,
                                     .dh = r->dh,
                                     .dpk = r->dpk,
                                     .dpq = r->dpq,
                                     .dak = r->dak,
                                     .daq = r->daq,
                                     .de = r->de};
    return succeeded(side, focal_route_scores_backward(side->ctx, &args, &grads));
}

static bool run_sinkhorn(void *arg)
{
    const route_side *side = arg;
    const route_case *c = side->inputs;
    return succeeded(side, focal_route_sinkhorn(side->ctx, c->T, c->router.routers, c->router.K,
                                                c->rounds, c->dsk, side->results.g));
}

static bool run_sinkhorn_backward(void *arg)
{
    const route_side *side = arg;
    const route_case *c = side->inputs;
    return succeeded(side,
                     focal_route_sinkhorn_backward(side->ctx, c->T, c->router.routers, c->router.K,
                                                   c->rounds, c->dsk, c->dg, side->results.ds));
}

static bool run_balance(void *arg)
{
    const route_side *side = arg;
    const route_case *c = side->inputs;
    const size_t beta_bytes = (size_t)c->router.routers * (size_t)c->router.K * sizeof(float);
    memset(side->results.beta, 0, beta_bytes);
    memcpy(side->results.moved, c->dsk, (size_t)score_count(c) * sizeof(float));
    const focal_balance_args args = {.kind = FOCAL_BALANCE_LOG,
                                     .T = c->T,
                                     .routers = c->router.routers,
                                     .K = c->router.K,
                                     .top = 1,
                                     .rate = 0.3F,
                                     .sk = side->results.moved,
                                     .beta = side->results.beta};
    return succeeded(side, focal_route_balance(side->ctx, &args));
}

/* From scores to the view that attention takes. */
static bool run_sets(void *arg)
{
    const route_side *side = arg;
    const route_case *c = side->inputs;
    const int64_t rows = (int64_t)c->T * c->router.routers;
    const route_results *r = &side->results;
    focal_status status = focal_route_top(side->ctx, rows, c->router.K, 1, c->dsk, r->key_groups);
    if (status == FOCAL_OK)
        status = focal_route_top(side->ctx, rows, c->router.K, c->top, c->dsq, r->query_groups);
    if (status == FOCAL_OK) status = focal_keyset_truncate(r->set, 0);
    if (status == FOCAL_OK)
        status = focal_keyset_append(r->set, c->T, r->query_groups, r->key_groups);
    return succeeded(side, status);
}

/* The largest difference as a share of the largest value. */
static double array_error(const float *mine, const float *exact, int64_t count)
{
    double difference = 0.0, largest = 0.0;
    for (int64_t n = 0; n < count; n++) {
        const double d = fabs((double)mine[n] - (double)exact[n]);
        if (!(d <= difference)) difference = d;
        largest = fmax(largest, fabs((double)exact[n]));
    }
    return difference == 0.0 ? 0.0 : difference / largest;
}

static double worse(double a, double b)
{
    return b <= a ? a : b; /* NaN wins */
}

static double scores_error(const route_side *mine, const route_side *ref)
{
    const int64_t count = score_count(mine->inputs);
    return worse(array_error(mine->results.sk, ref->results.sk, count),
                 array_error(mine->results.sq, ref->results.sq, count));
}

static double scores_backward_error(const route_side *mine, const route_side *ref)
{
    const focal_router *router = &mine->inputs->router;
    const route_results *a = &mine->results, *b = &ref->results;
    const int64_t p = (int64_t)router->routers * router->C * router->R;
    const int64_t offsets = (int64_t)router->routers * router->R;
    double error = array_error(a->dh, b->dh, (int64_t)mine->inputs->T * router->C);
    error = worse(error, array_error(a->dpk, b->dpk, p));
    error = worse(error, array_error(a->dpq, b->dpq, p));
    error = worse(error, array_error(a->dak, b->dak, offsets));
    error = worse(error, array_error(a->daq, b->daq, offsets));
    return worse(error, array_error(a->de, b->de, offsets * router->K));
}

static double sinkhorn_error(const route_side *mine, const route_side *ref)
{
    return array_error(mine->results.g, ref->results.g, score_count(mine->inputs));
}

static double sinkhorn_backward_error(const route_side *mine, const route_side *ref)
{
    return array_error(mine->results.ds, ref->results.ds, score_count(mine->inputs));
}

static double balance_error(const route_side *mine, const route_side *ref)
{
    const focal_router *router = &mine->inputs->router;
    return array_error(mine->results.beta, ref->results.beta, (int64_t)router->routers * router->K);
}

/* The share of tokens whose first group is not the best, by a plain search. */
static double sets_error(const route_side *mine, const route_side *ref)
{
    (void)ref;
    const route_case *c = mine->inputs;
    const int64_t rows = (int64_t)c->T * c->router.routers;
    int64_t wrong = 0;
    for (int64_t n = 0; n < rows; n++) {
        const float *sk = c->dsk + n * c->router.K, *sq = c->dsq + n * c->router.K;
        int32_t best_k = 0, best_q = 0;
        for (int32_t group = 1; group < c->router.K; group++) {
            if (sk[group] > sk[best_k]) best_k = group;
            if (sq[group] > sq[best_q]) best_q = group;
        }
        wrong += mine->results.key_groups[n] != best_k ||
                 mine->results.query_groups[n * c->top] != best_q;
    }
    return (double)wrong / (double)rows;
}

/* Multiply-adds a token and router, times two: both projections and both products with the
 * centroids; backward the gradient of either factor. */
static double scores_flops(const route_case *c)
{
    const focal_router *router = &c->router;
    return 4.0 * (double)c->T * router->routers * router->R * (router->C + router->K);
}

static double scores_backward_flops(const route_case *c)
{
    return 2.0 * scores_flops(c);
}

static const struct route_stage {
    const char *name;
    bool (*run)(void *side);
    double (*error)(const route_side *mine, const route_side *ref);
    double (*flops)(const route_case *inputs); /* NULL: no products to count */
} stages[] = {
    {"scores", run_scores, scores_error, scores_flops},
    {"scores-backward", run_scores_backward, scores_backward_error, scores_backward_flops},
    {"sinkhorn", run_sinkhorn, sinkhorn_error, NULL},
    {"sinkhorn-backward", run_sinkhorn_backward, sinkhorn_backward_error, NULL},
    {"balance", run_balance, balance_error, NULL},
    {"sets", run_sets, sets_error, NULL},
};

/* Allocates a list of arrays; deviation 0 leaves zeros. */
typedef struct array_part {
    float **array;
    int64_t count;
    float deviation;
} array_part;

static int make_arrays(const array_part *parts, size_t part_count, uint64_t seed)
{
    for (size_t n = 0; n < part_count; n++) {
        float *array = cli_alloc("the router", (size_t)parts[n].count, sizeof(float));
        *parts[n].array = array;
        if (!array) return CLI_FAILED;
        if (parts[n].deviation > 0.0F)
            attn_fill_normal(FOCAL_F32, array, parts[n].count, parts[n].deviation, seed + n);
        else
            memset(array, 0, (size_t)parts[n].count * sizeof(float));
    }
    return CLI_DONE;
}

static int make_case(const route_options *o, int64_t tokens, route_case *c)
{
    const int64_t T = tokens, C = o->width, R = o->router_width, K = o->groups, n = o->routers;
    memset(c, 0, sizeof *c);
    const array_part parts[] = {
        {&c->h, T * C, 1.0F},
        {&c->pk, n * C * R, 1.0F / sqrtf((float)C)},
        {&c->pq, n * C * R, 1.0F / sqrtf((float)C)},
        {&c->ak, n * R, 0.1F},
        {&c->aq, n * R, 0.1F},
        {&c->e, n * K * R, 1.0F},
        {&c->dsk, T * n * K, 1.0F},
        {&c->dsq, T * n * K, 1.0F},
        {&c->dg, T * n * K, 1.0F},
    };
    c->T = (int32_t)T;
    c->top = (int32_t)o->top;
    c->rounds = (int32_t)o->rounds;
    if (!cli_fits_memory(4.0 * (double)T * (3.0 * (double)C + 16.0 * (double)(n * K))))
        return CLI_FAILED;
    const int code = make_arrays(parts, CLI_COUNT(parts), (uint64_t)o->shared.seed);
    c->router = (focal_router){.C = (int32_t)C,
                               .R = (int32_t)R,
                               .K = (int32_t)K,
                               .routers = (int32_t)n,
                               .pk = c->pk,
                               .pq = c->pq,
                               .ak = c->ak,
                               .aq = c->aq,
                               .e = c->e};
    return code;
}

static void free_case(route_case *c)
{
    float *arrays[] = {c->h, c->pk, c->pq, c->ak, c->aq, c->e, c->dsk, c->dsq, c->dg};
    for (size_t n = 0; n < CLI_COUNT(arrays); n++) free(arrays[n]);
}

static int make_side(focal_ctx *ctx, const route_case *c, route_side *side)
{
    memset(side, 0, sizeof *side);
    side->ctx = ctx;
    side->inputs = c;
    route_results *r = &side->results;
    const int64_t T = c->T, C = c->router.C, R = c->router.R, K = c->router.K;
    const int64_t n = c->router.routers, scores = T * n * K;
    const array_part parts[] = {
        {&r->sk, scores, 0.0F},     {&r->sq, scores, 0.0F},     {&r->dh, T * C, 0.0F},
        {&r->dpk, n * C * R, 0.0F}, {&r->dpq, n * C * R, 0.0F}, {&r->dak, n * R, 0.0F},
        {&r->daq, n * R, 0.0F},     {&r->de, n * K * R, 0.0F},  {&r->g, scores, 0.0F},
        {&r->ds, scores, 0.0F},     {&r->beta, n * K, 0.0F},    {&r->moved, scores, 0.0F},
    };
    if (make_arrays(parts, CLI_COUNT(parts), 0) != CLI_DONE) return CLI_FAILED;
    r->query_groups = cli_alloc("the groups", (size_t)(T * n * c->top), sizeof(int32_t));
    r->key_groups = cli_alloc("the groups", (size_t)(T * n), sizeof(int32_t));
    if (!r->query_groups || !r->key_groups) return CLI_FAILED;
    const focal_keyset_options options = {.mode = FOCAL_DIRECTED,
                                          .K = c->router.K,
                                          .top = c->top,
                                          .routers = c->router.routers,
                                          .window = 128,
                                          .sinks = 4};
    const focal_status status = focal_keyset_new(ctx, &options, &r->set);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

static void free_side(route_side *side)
{
    route_results *r = &side->results;
    float *arrays[] = {r->sk,  r->sq, r->dh, r->dpk, r->dpq,  r->dak,
                       r->daq, r->de, r->g,  r->ds,  r->beta, r->moved};
    for (size_t n = 0; n < CLI_COUNT(arrays); n++) free(arrays[n]);
    free(r->query_groups);
    free(r->key_groups);
    focal_keyset_free(r->set);
}

/* The kernel that takes the scores; the other stages have one implementation each, but for the
 * choice of groups, which is a small part of its stage. */
static const char *kernel_of(const struct route_stage *stage, const route_side *side)
{
    const focal_route_args args = scores_args(side);
    if (!stage->flops) return "plain";
    const char *name = focal_route_kernel_name(side->ctx, &args);
    return name ? name : "?";
}

static int run_stage(const route_options *o, const struct route_stage *stage, route_side *mine,
                     route_side *ref, output_table *table)
{
    bench_peak peak = {mine->ctx, FOCAL_F32};
    measure_item items[] = {{.run = stage->run, .arg = mine},
                            {.probe = bench_probe_peak, .arg = &peak}};
    const route_case *c = mine->inputs;
    focal_ctx_trim(mine->ctx);
    focal_ctx_memory_reset(mine->ctx);
    const size_t before = focal_ctx_memory(mine->ctx).now_bytes;
    if (!stage->run(mine) || !stage->run(ref)) return CLI_FAILED;
    const size_t memory = focal_ctx_memory(mine->ctx).peak_bytes - before;
    const double error = stage->error(mine, ref);
    const measure_plan plan = bench_plan(&o->shared, stage->name);
    const bool is_measured = measure_run(&plan, items, CLI_COUNT(items));
    if (is_measured) {
        output_text(table, "stage", stage->name);
        output_text(table, "kernel", kernel_of(stage, mine));
        output_int(table, "tokens", c->T);
        output_int(table, "routers", c->router.routers);
        output_int(table, "groups", c->router.K);
        output_int(table, "top", c->top);
        if (o->shared.is_json) {
            output_int(table, "width", c->router.C);
            output_int(table, "router_width", c->router.R);
            output_int(table, "threads", o->shared.threads);
            output_int(table, "samples", items[0].samples.count);
        }
        bench_print_speed(table, &items[0].samples, &items[1].samples,
                          stage->flops ? stage->flops(c) : (double)NAN);
        output_number(table, "ns_per_token", 1e6 * measure_median(&items[0].samples) / c->T, 1);
        output_number(table, "error", error, -1);
        output_int(table, "memory_bytes", (int64_t)memory);
        output_end(table);
    }
    for (size_t n = 0; n < CLI_COUNT(items); n++) measure_free(&items[n].samples);
    return is_measured ? CLI_DONE : CLI_FAILED;
}

static int run_length(const route_options *o, focal_ctx *ctx, focal_ctx *ref_ctx, int64_t tokens,
                      output_table *table)
{
    route_case inputs;
    route_side mine = {0}, ref = {0};
    int code = make_case(o, tokens, &inputs);
    if (code == CLI_DONE) code = make_side(ctx, &inputs, &mine);
    if (code == CLI_DONE) code = make_side(ref_ctx, &inputs, &ref);
    for (size_t n = 0; code == CLI_DONE && n < CLI_COUNT(stages); n++)
        if (o->stage == 0 || (size_t)o->stage == n + 1)
            code = run_stage(o, &stages[n], &mine, &ref, table);
    free_side(&ref);
    free_side(&mine);
    free_case(&inputs);
    return code;
}

static const char stage_names[] =
    "all|scores|scores-backward|sinkhorn|sinkhorn-backward|balance|sets";

/* An option that the chosen stage would not look at is a mistake; -1 to go on. */
static int check_stage(const route_options *o)
{
    const struct {
        bool is_given;
        const char *name, *stages; /* of names that begin so */
    } parts[] = {
        {o->has_width, "width", "scores"},
        {o->has_router_width, "router-width", "scores"},
        {o->shared.kernel, "kernel", "scores"},
        {o->has_rounds, "rounds", "sinkhorn"},
        {o->has_top, "top", "sets"},
    };
    if (o->stage == 0) return -1;
    const char *stage = stages[o->stage - 1].name;
    for (size_t n = 0; n < CLI_COUNT(parts); n++)
        if (parts[n].is_given && strncmp(stage, parts[n].stages, strlen(parts[n].stages)) != 0)
            return cli_wrong("bench route: --%s does nothing with --stage %s: it is of --stage %s",
                             parts[n].name, stage, parts[n].stages);
    return -1;
}

static int parse(route_options *o, int argc, char **argv)
{
    const cli_option own[] = {
        {"tokens", 0, CLI_LIST, &o->tokens, "N[,N...]", "tokens of a call; default 8k", 1,
         INT32_MAX, NULL, NULL},
        {"width", 0, CLI_INT, &o->width, "C", "width of a hidden state; default 576", 1, 65536,
         NULL, &o->has_width},
        {"router-width", 0, CLI_INT, &o->router_width, "R", "width of a router; default 16", 1, 256,
         NULL, &o->has_router_width},
        {"routers", 0, CLI_INT, &o->routers, "N", "routers, one a key head; default 3", 1,
         ATTN_MAX_HEADS, NULL, NULL},
        {"groups", 0, CLI_INT, &o->groups, "K", "groups; default 16", 1, FOCAL_MAX_GROUPS, NULL,
         NULL},
        {"top", 0, CLI_INT, &o->top, "k", "groups a query looks into; default 2 (at most K)", 1,
         FOCAL_MAX_GROUPS, NULL, &o->has_top},
        {"rounds", 0, CLI_INT, &o->rounds, "N", "rounds of Sinkhorn; default 10", 1, 1000, NULL,
         &o->has_rounds},
        {"stage", 0, CLI_CHOICE, &o->stage, "NAME",
         "all (default), scores, scores-backward, sinkhorn,\n                              "
         "sinkhorn-backward, balance or sets",
         0, 0, stage_names, NULL},
    };
    cli_option options[CLI_COUNT(own) + BENCH_OPTIONS];
    memcpy(options, own, sizeof own);
    bench_option_rows(&o->shared, options + CLI_COUNT(own));
    const cli_usage usage = {
        .command = "focal bench route",
        .about =
            "Times routing on random inputs, stage by stage: router scores and their gradient,\n"
            "the Sinkhorn balance and its gradient, the causal balance, and the way from scores\n"
            "to key sets (best groups, then one stable sort). error: against the reference.",
        .examples = "  focal bench route --tokens 8k -t 2\n"
                    "  focal bench route --tokens 1k,8k --stage sets --groups 32 --top 4 --json\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (o->top == 0) o->top = o->groups < 2 ? o->groups : 2;
    if (o->top > o->groups)
        return cli_wrong("bench route: --top %lld is more than the %lld of --groups",
                         (long long)o->top, (long long)o->groups);
    return check_stage(o);
}

/* A pin that routing does not have would pin nothing. */
static int check_kernel(focal_ctx *ctx, const char *kernel)
{
    const char *name;
    for (int32_t n = 0; kernel && (name = focal_route_kernel_at(ctx, n, NULL)); n++)
        if (strcmp(name, kernel) == 0) return CLI_DONE;
    if (!kernel) return CLI_DONE;
    return cli_wrong("bench route: routing has no kernel %s; see focal info --kernels", kernel);
}

int cli_bench_route(int argc, char **argv)
{
    route_options o = {
        .shared = bench_defaults(),
        .tokens = {.items = {8192}, .count = 1},
        .width = 576,
        .router_width = 16,
        .groups = 16,
        .routers = 3,
        .rounds = 10,
    };
    int code = parse(&o, argc, argv);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL, *ref_ctx = NULL;
    code = cli_open_ctx(o.shared.threads, o.shared.kernel, &ctx);
    if (code == CLI_DONE) code = check_kernel(ctx, o.shared.kernel);
    if (code == CLI_DONE) code = cli_open_ctx(o.shared.threads, "ref", &ref_ctx);
    if (code == CLI_DONE) o.shared.threads = focal_ctx_threads(ctx);
    output_table table = {.is_json = o.shared.is_json};
    for (int32_t n = 0; code == CLI_DONE && n < o.tokens.count; n++)
        code = run_length(&o, ctx, ref_ctx, o.tokens.items[n], &table);
    focal_ctx_close(ref_ctx);
    focal_ctx_close(ctx);
    return code;
}
