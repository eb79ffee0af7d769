/* The start of routers: a pass of the untouched model, and at each layer what it reads there. */
#include "train/group_begin.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sizes.h"
#include "focal/quant.h"
#include "model/backward.h"
#include "train/feed.h"
#include "train/group_setup.h"
#include "train/run_groups.h"

enum {
    BEGIN_TOKENS = 16384,
    BEGIN_STREAM = 1 << 23, /* of random numbers: weights, data and samples have others */
    LAYER_STREAMS = 7,      /* one a tensor that can begin so, and some */
    BALANCE_CALLS = 40      /* of three rounds each, where nothing learns afterwards */
};

/* A layer of the pass. */
typedef struct beginning {
    focal_ctx *ctx;
    const foci_run *run;
    const focal_model *model;
    foci_groups *groups;
    int32_t distance; /* the longest of the pass */
    int32_t last;     /* layer that has a router */
    bool (*must_stop)(void *user);
    void *user;
    bool is_stopped;
    bool is_over; /* stopped, or all layers have their numbers: nobody reads the rest of the pass */
} beginning;

/* ---- The model's own heads ---- */

/* Arrays for the start of one layer. */
typedef struct head_arrays {
    float *wq, *wk; /* (H D, C), (G D, C) */
    float *whole;   /* a matrix as it lies, before it is turned */
    float *freq;    /* (D / 2) */
    float *ak, *aq; /* (routers, R), where the router has none of its own */
    float *q, *k;   /* in another order, where only a part of a head turns */
    float *bias;    /* (H D) likewise */
} head_arrays;

static void free_arrays(focal_ctx *ctx, head_arrays *a)
{
    float *const all[] = {a->wq, a->wk, a->whole, a->freq, a->ak, a->aq, a->q, a->k, a->bias};
    for (size_t n = 0; n < FOCAL_COUNT(all); n++) foci_free(ctx, all[n]);
}

static focal_status alloc_floats(focal_ctx *ctx, int64_t count, float **out)
{
    *out = foci_alloc(ctx, (size_t)count, sizeof **out);
    return *out ? FOCAL_OK : FOCAL_ENOMEM;
}

/* Rows first .. first + count - 1 of y = x w^T, in float32; `whole` holds all of w. */
static void expand_rows(const foci_linear *linear, int64_t first, int64_t count, float *whole,
                        float *out)
{
    const int64_t N = linear->N, K = linear->K;
    foci_linear_expand(linear, whole);
    for (int64_t row = 0; row < count; row++)
        for (int64_t i = 0; i < K; i++)
            out[row * K + i] =
                linear->is_transposed ? whole[i * N + first + row] : whole[(first + row) * K + i];
}

static focal_status expand_maps(const beginning *b, int32_t layer, head_arrays *a)
{
    const foci_config *c = &b->model->config;
    const foci_layer *w = &b->model->weights.layers[layer];
    const bool is_joint = w->qkv.w != NULL;
    const foci_linear *q = is_joint ? &w->qkv : &w->q, *k = is_joint ? &w->qkv : &w->k;
    const int64_t Q = (int64_t)c->H * c->D, KV = (int64_t)c->G * c->D;
    FOCAL_TRY(alloc_floats(b->ctx, Q * c->C, &a->wq));
    FOCAL_TRY(alloc_floats(b->ctx, KV * c->C, &a->wk));
    FOCAL_TRY(alloc_floats(b->ctx, foci_max64(q->N, k->N) * c->C, &a->whole));
    expand_rows(q, 0, Q, a->whole, a->wq);
    expand_rows(k, is_joint ? Q : 0, KV, a->whole, a->wk);
    return FOCAL_OK;
}

/* Where element n of a head lies when those that turn together are a half of the head apart and
 * only the first `rotated` turn. */
static int64_t place_of(int64_t n, int64_t rotated, int64_t D)
{
    const int64_t pairs = rotated / 2, still = (D - rotated) / 2;
    if (n < pairs) return n;
    if (n < rotated) return D / 2 + n - pairs;
    n -= rotated;
    return n < still ? pairs + n : D / 2 + pairs + n - still;
}

/* Elements of heads in that order; rows of `width` numbers belong to an element each. */
static void reorder(const foci_config *c, int64_t heads, int64_t width, const float *from,
                    float *to)
{
    for (int64_t h = 0; h < heads; h++)
        for (int64_t n = 0; n < c->D; n++)
            memcpy(to + (h * c->D + place_of(n, c->rope.rotated, c->D)) * width,
                   from + (h * c->D + n) * width, (size_t)width * sizeof *to);
}

/* The start knows pairs of a whole head. Where a part of it turns, everything is put in an order in
 * which the others turn by 0: inner products stay what they are. */
static focal_status turn_whole_heads(const beginning *b, const foci_observed *seen, head_arrays *a,
                                     focal_route_start_args *args)
{
    const foci_config *c = &b->model->config;
    const int64_t H = c->H, G = c->G, D = c->D;
    if (c->rope_style != FOCI_ROPE_HALVES || c->rope.rotated == c->D) return FOCAL_OK;
    FOCAL_TRY(alloc_floats(b->ctx, seen->T * H * D, &a->q));
    FOCAL_TRY(alloc_floats(b->ctx, seen->T * G * D, &a->k));
    reorder(c, seen->T * H, 1, seen->q, a->q);
    reorder(c, seen->T * G, 1, seen->k, a->k);
    args->q = a->q;
    args->k = a->k;
    if (args->wq) {
        foci_free(b->ctx, a->whole);
        a->whole = NULL;
        FOCAL_TRY(alloc_floats(b->ctx, H * D * c->C, &a->whole));
        memcpy(a->whole, a->wq, (size_t)(H * D * c->C) * sizeof *a->whole);
        reorder(c, H, c->C, a->whole, a->wq);
        memcpy(a->whole, a->wk, (size_t)(G * D * c->C) * sizeof *a->whole);
        reorder(c, G, c->C, a->whole, a->wk);
    }
    if (args->bq) {
        FOCAL_TRY(alloc_floats(b->ctx, H * D, &a->bias));
        reorder(c, H, 1, args->bq, a->bias);
        args->bq = a->bias;
    }
    return FOCAL_OK;
}

static focal_status set_rope(const beginning *b, head_arrays *a, focal_route_start_args *args)
{
    const foci_config *c = &b->model->config;
    if (c->has_positions || c->rope.rotated == 0) return FOCAL_OK;
    FOCAL_TRY(alloc_floats(b->ctx, c->D / 2, &a->freq));
    memset(a->freq, 0, (size_t)(c->D / 2) * sizeof *a->freq);
    memcpy(a->freq, b->model->inv_freq[0], (size_t)(c->rope.rotated / 2) * sizeof *a->freq);
    args->rope_freq = a->freq;
    args->is_interleaved = c->rope_style != FOCI_ROPE_HALVES;
    args->distance_max = b->distance;
    args->distance_min = (int32_t)foci_min64(b->groups->window, b->distance);
    return FOCAL_OK;
}

static focal_status begin_with_heads(const beginning *b, int32_t layer, const foci_observed *seen,
                                     head_arrays *a)
{
    const foci_config *c = &b->model->config;
    const foci_groups_shape *s = &b->groups->shape;
    const foci_layer *w = &b->model->weights.layers[layer];
    float *const *to = b->groups->layers[layer].tensors;
    const bool is_shared = s->mode == FOCAL_SHARED;
    const int64_t offsets = (int64_t)s->routers * s->R;
    FOCAL_TRY(alloc_floats(b->ctx, offsets, &a->ak));
    FOCAL_TRY(alloc_floats(b->ctx, offsets, &a->aq));
    focal_route_start_args args = {.T = seen->T,
                                   .C = c->C,
                                   .H = c->H,
                                   .G = c->G,
                                   .D = c->D,
                                   .R = s->R,
                                   .K = s->K,
                                   .routers = s->routers,
                                   .is_shared = is_shared,
                                   .h = seen->h,
                                   .q = seen->q,
                                   .k = seen->k,
                                   .seed = (uint64_t)b->run->seed + (uint64_t)layer,
                                   .pk = to[FOCI_GROUP_PK],
                                   .pq = to[FOCI_GROUP_PQ],
                                   .ak = to[FOCI_GROUP_AK] ? to[FOCI_GROUP_AK] : a->ak,
                                   .aq = is_shared           ? NULL
                                         : to[FOCI_GROUP_AQ] ? to[FOCI_GROUP_AQ]
                                                             : a->aq,
                                   .e = to[FOCI_GROUP_E]};
    if (c->qk_norm == FOCI_QK_NONE) {
        FOCAL_TRY(expand_maps(b, layer, a));
        args.wq = a->wq;
        args.wk = a->wk;
        args.bq = w->qkv.w ? w->qkv.bias : w->q.bias;
    }
    FOCAL_TRY(set_rope(b, a, &args));
    FOCAL_TRY(turn_whole_heads(b, seen, a, &args));
    return focal_route_start(b->ctx, &args);
}

/* ---- Random numbers ---- */

static void fill_random(const beginning *b, int32_t layer, foci_group_tensor which, double spread)
{
    const int64_t count = foci_groups_count(&b->groups->shape, layer, which);
    float *to = b->groups->layers[layer].tensors[which];
    const uint64_t stream = BEGIN_STREAM + (uint64_t)layer * LAYER_STREAMS + (uint64_t)which;
    for (int64_t n = 0; n < count; n++)
        to[n] = (float)spread * foci_random_normal((uint64_t)b->run->seed, stream, (uint64_t)n);
}

/* An offset that moves the mean of h p to 0, so that directions differ from token to token. */
static void centre(const beginning *b, const double *mean, const float *p, float *offset)
{
    const foci_groups_shape *s = &b->groups->shape;
    for (int64_t r = 0; offset && r < s->routers; r++)
        for (int64_t n = 0; n < s->R; n++) {
            double sum = 0.0;
            for (int64_t i = 0; i < s->C; i++)
                sum += mean[i] * (double)p[(r * s->C + i) * s->R + n];
            offset[r * s->R + n] = (float)-sum;
        }
}

static focal_status begin_with_chance(const beginning *b, int32_t layer, const foci_observed *seen)
{
    const foci_groups_shape *s = &b->groups->shape;
    float *const *to = b->groups->layers[layer].tensors;
    double *mean = foci_alloc(b->ctx, (size_t)s->C, sizeof *mean);
    if (!mean) return FOCAL_ENOMEM;
    memset(mean, 0, (size_t)s->C * sizeof *mean);
    for (int64_t t = 0; t < seen->T; t++)
        for (int64_t i = 0; i < s->C; i++) mean[i] += (double)seen->h[t * s->C + i];
    for (int64_t i = 0; i < s->C; i++) mean[i] /= seen->T;
    fill_random(b, layer, FOCI_GROUP_PK, 1.0 / sqrt(s->C));
    fill_random(b, layer, FOCI_GROUP_PQ, 1.0 / sqrt(s->C));
    fill_random(b, layer, FOCI_GROUP_E, 1.0 / sqrt(s->R));
    centre(b, mean, to[FOCI_GROUP_PK], to[FOCI_GROUP_AK]);
    centre(b, mean, to[FOCI_GROUP_PQ], to[FOCI_GROUP_AQ]);
    foci_free(b->ctx, mean);
    return FOCAL_OK;
}

/* ---- The pass ---- */

/* The balance for the tokens of the pass: the rate falls as it would in training. */
static focal_status balance(const beginning *b, int32_t layer, const foci_observed *seen)
{
    const foci_groups_shape *s = &b->groups->shape;
    foci_groups_layer *to = &b->groups->layers[layer];
    if (foci_run_has_steps(b->run) || !to->tensors[FOCI_GROUP_BETA]) return FOCAL_OK;
    float *sk = NULL;
    FOCAL_TRY(alloc_floats(b->ctx, (int64_t)seen->T * s->routers * s->K, &sk));
    const focal_route_args scores = {.router = &to->router, .T = seen->T, .h = seen->h, .sk = sk};
    focal_status status = focal_route_scores(b->ctx, &scores);
    for (int n = 0; n < BALANCE_CALLS && status == FOCAL_OK; n++) {
        const foci_groups_pass step = foci_group_step(b->run, (double)n / BALANCE_CALLS);
        const float passes = (float)b->run->data.accumulation; /* here there is one */
        const focal_balance_args args = {.kind = step.balance,
                                         .T = seen->T,
                                         .routers = s->routers,
                                         .K = s->K,
                                         .top = s->mode == FOCAL_SHARED ? step.top : 1,
                                         .rate = passes * step.rate,
                                         .sk = sk,
                                         .beta = to->tensors[FOCI_GROUP_BETA]};
        if (step.moves_balance) status = focal_route_balance(b->ctx, &args);
    }
    foci_free(b->ctx, sk);
    return status;
}

static bool is_random(const foci_run *run)
{
    return run->groups.init == FOCI_RUN_BEGIN_RANDOM;
}

static focal_status begin_layer(void *arg, int32_t layer, const foci_observed *seen)
{
    beginning *b = arg;
    focal_status status = FOCAL_OK;
    if (!b->groups->shape.layers[layer]) return FOCAL_OK;
    b->is_stopped = b->must_stop && b->must_stop(b->user);
    b->is_over = b->is_stopped || layer == b->last;
    if (b->is_stopped) return FOCAL_OK;
    if (is_random(b->run)) {
        status = begin_with_chance(b, layer, seen);
    } else {
        head_arrays arrays = {0};
        status = begin_with_heads(b, layer, seen, &arrays);
        free_arrays(b->ctx, &arrays);
    }
    return status == FOCAL_OK ? balance(b, layer, seen) : status;
}

/* The pass over the first samples, in windows no longer than all that the start reads: those of
 * long contexts would take many times that memory, and say no more. */
static focal_status pass(beginning *b, const foci_start *start, const foci_order *steps)
{
    const foci_backward_options options = {.is_loss_only = true,
                                           .is_untouched = true,
                                           .observe = begin_layer,
                                           .observe_arg = b,
                                           .is_over = &b->is_over};
    foci_order order = *steps;
    foci_feed feed;
    foci_batch_loss loss;
    order.length = (int32_t)foci_min64(order.length, BEGIN_TOKENS);
    FOCAL_TRY(foci_order_check(start->ctx, &order));
    const int64_t windows = foci_min64(order.window_count, BEGIN_TOKENS / order.length);
    FOCAL_TRY(foci_feed_open(start->ctx, windows, order.length, &feed));
    focal_status status = foci_feed_read(&feed, &order, 0, (int32_t)windows);
    const foci_batch batch =
        status == FOCAL_OK ? foci_feed_pass(&feed, &order, 0, (int32_t)windows) : (foci_batch){0};
    if (status == FOCAL_OK) status = foci_backward(start->trainable, &batch, &options, &loss);
    if (status == FOCAL_ENOMEM)
        status = foci_fail(start->ctx, FOCAL_ENOMEM,
                           "the pass that routers begin with, %lld windows of %d tokens, does not "
                           "fit in memory: it is of that size whatever data.batch is",
                           (long long)windows, order.length);
    foci_feed_close(&feed);
    focal_ctx_trim(start->ctx); /* steps are smaller than this pass, and would keep its memory */
    return status;
}

focal_status foci_group_begin(const foci_start *start, const foci_run *run, const foci_order *order,
                              bool (*must_stop)(void *user), void *user, bool *is_stopped)
{
    foci_groups *groups = start->groups;
    beginning b = {.ctx = start->ctx,
                   .run = run,
                   .model = start->trainable->model,
                   .groups = groups,
                   .distance = order->length - 1,
                   .must_stop = must_stop,
                   .user = user};
    *is_stopped = false;
    for (int32_t n = 0; n < groups->shape.L; n++)
        if (groups->shape.layers[n]) b.last = n;
    memset(groups->numbers, 0, (size_t)groups->number_count * sizeof *groups->numbers);
    if (!foci_run_is_grouped(run) || !foci_run_has_data(run)) return FOCAL_OK;
    const focal_status status = pass(&b, start, order);
    *is_stopped = b.is_stopped;
    return status;
}
