/* What routers add to attention: scores, balance, memberships and key sets on the way forward, and
 * the way back from the gate's gradient to the router and to what it read (docs/MATH.md, 3). */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "model/backward_pass.h"
#include "model/random_groups.h"
#include "ops/residual/add.h"

static const int32_t raw_sinkhorn_rounds = 10;

/* Whether groups, or their absence, change what a layer sees. */
static bool is_changed(const foci_pass *p, int32_t layer)
{
    return p->options->groups && !p->is_untouched && p->t->groups->shape.layers[layer];
}

bool foci_pass_has_router(const foci_pass *p, int32_t layer)
{
    return is_changed(p, layer) && p->t->groups->shape.source == FOCI_GROUPS_ROUTER;
}

bool foci_pass_has_groups(const foci_pass *p, int32_t layer)
{
    return is_changed(p, layer) && foci_groups_exist(&p->t->groups->shape);
}

bool foci_pass_is_near(const foci_pass *p, int32_t layer)
{
    return is_changed(p, layer) && p->t->groups->shape.source == FOCI_GROUPS_NONE;
}

bool foci_pass_is_scaled(const foci_pass *p, int32_t layer)
{
    return is_changed(p, layer) && p->t->groups->shape.source == FOCI_GROUPS_SCALE;
}

focal_status foci_pass_begin_groups(foci_pass *p)
{
    const foci_groups_pass *asked = p->options->groups;
    const foci_groups *groups = p->t->groups;
    if (!asked) return FOCAL_OK;
    if (!groups)
        return foci_fail(p->ctx, FOCAL_EINVAL, "backward: groups are asked for, there are none");
    if (!foci_groups_exist(&groups->shape)) return FOCAL_OK;
    p->top = asked->top == 0 ? groups->top_fit : asked->top;
    if (p->top < 1 || p->top > groups->shape.K)
        return foci_fail(p->ctx, FOCAL_EINVAL, "backward: %d groups a query, 1 to %d are possible",
                         p->top, groups->shape.K);
    p->gate = asked->gate == 0 ? FOCAL_GATE_STRAIGHT : asked->gate;
    if (p->gate != FOCAL_GATE_STRAIGHT && p->gate != FOCAL_GATE_PAPER && p->gate != FOCAL_GATE_LOG)
        return foci_fail(p->ctx, FOCAL_EINVAL, "backward: gate %d is unknown", (int)p->gate);
    if (p->options->is_loss_only) p->gate = (focal_gate_kind)0;
    p->sinkhorn_rounds = asked->sinkhorn_rounds;
    if (p->sinkhorn_rounds == 0 && groups->shape.is_raw) p->sinkhorn_rounds = raw_sinkhorn_rounds;
    if (p->sinkhorn_rounds < 0) p->sinkhorn_rounds = 0;
    for (int32_t n = 0; n < p->model->config.L; n++)
        if (foci_pass_has_groups(p, n)) p->router_count += groups->shape.routers;
    return FOCAL_OK;
}

focal_status foci_pass_make_keysets(foci_pass *p)
{
    if (p->router_count == 0) return FOCAL_OK;
    const foci_groups *groups = p->t->groups;
    const focal_keyset_options options = {.mode = groups->shape.mode,
                                          .K = groups->shape.K,
                                          .top = p->top,
                                          .routers = groups->shape.routers,
                                          .window = groups->window,
                                          .sinks = groups->sinks};
    for (int32_t n = 0; n < p->batch->span_count; n++) p->keys[n].set = NULL;
    for (int32_t n = 0; n < p->batch->span_count; n++) {
        FOCAL_TRY(focal_keyset_new(p->ctx, &options, &p->keys[n].set));
        p->grouped_seqs[n] = p->seqs[n];
        p->grouped_seqs[n].keys = &p->keys[n].view;
    }
    return FOCAL_OK;
}

void foci_pass_free_keysets(foci_pass *p)
{
    for (int32_t n = 0; p->router_count > 0 && n < p->batch->span_count; n++)
        focal_keyset_free(p->keys[n].set);
}

/* Lists of keys have room for half as many again, twice; masks once (focal_keyset_append()). */
size_t foci_pass_keyset_bytes(const foci_pass *p)
{
    if (p->router_count == 0) return 0;
    const foci_groups_shape *s = &p->t->groups->shape;
    const size_t each = s->mode == FOCAL_SHARED ? (size_t)p->top : 1;
    const size_t key = 2 * each * sizeof(int32_t) + 3 * sizeof(uint64_t) / 2;
    const size_t query = 2 * (size_t)p->top * sizeof(int32_t) + sizeof(uint64_t);
    return (size_t)p->T * (size_t)s->routers * (key + query);
}

/* ---- Forward ---- */

static int64_t row_numbers(const foci_pass *p)
{
    return (int64_t)p->t->groups->shape.routers * p->t->groups->shape.K;
}

/* Scores of keys in sk, those of queries, where they are others, in gq. The balance moves once, and
 * the scores are then computed anew: with the beta that stays, so that they have the same bits when
 * they are computed again. */
static focal_status score(const foci_pass *p, const foci_groups_layer *layer, const float *h,
                          float *sk, float *gq)
{
    const foci_groups_shape *s = &p->t->groups->shape;
    const foci_groups_pass *asked = p->options->groups;
    focal_route_args args = {.router = &layer->router, .T = p->T, .h = h};
    args.sk = sk;
    args.sq = gq;
    FOCAL_TRY(focal_route_scores(p->ctx, &args));
    if (!asked->moves_balance || !layer->tensors[FOCI_GROUP_BETA] || p->is_again ||
        p->options->is_loss_only)
        return FOCAL_OK;
    const focal_balance_args balance = {.kind = asked->balance,
                                        .T = p->T,
                                        .routers = s->routers,
                                        .K = s->K,
                                        .top = s->mode == FOCAL_SHARED ? p->top : 1,
                                        .rate = asked->rate,
                                        .sk = sk,
                                        .beta = layer->tensors[FOCI_GROUP_BETA]};
    FOCAL_TRY(focal_route_balance(p->ctx, &balance));
    args.sq = NULL; /* the balance is of keys */
    return focal_route_scores(p->ctx, &args);
}

/* The paper's balance, over each sequence. */
static focal_status balance_sequences(const foci_pass *p, const foci_kept *a)
{
    const foci_groups_shape *s = &p->t->groups->shape;
    for (int32_t n = 0; n < p->batch->span_count; n++) {
        const foci_span *span = &p->batch->spans[n];
        const int64_t at = span->start * row_numbers(p);
        FOCAL_TRY(focal_route_sinkhorn(p->ctx, span->count, s->routers, s->K, p->sinkhorn_rounds,
                                       a->sk + at, a->gk + at));
    }
    return FOCAL_OK;
}

/* Hard memberships by the scores, or by what Sinkhorn made of them; then the soft ones. */
static focal_status assign(const foci_pass *p, int32_t n, const float *h)
{
    const foci_groups_shape *s = &p->t->groups->shape;
    const foci_kept *a = foci_kept_of(p, n);
    const int64_t rows = (int64_t)p->T * s->routers;
    const bool is_directed = s->mode == FOCAL_DIRECTED;
    FOCAL_TRY(
        score(p, &p->t->groups->layers[n], h, a->sk ? a->sk : a->gk, is_directed ? a->gq : NULL));
    if (p->sinkhorn_rounds > 0) FOCAL_TRY(balance_sequences(p, a));
    if (is_directed) FOCAL_TRY(focal_route_top(p->ctx, rows, s->K, 1, a->gk, a->key_groups));
    FOCAL_TRY(focal_route_top(p->ctx, rows, s->K, p->top, a->gq, a->query_groups));
    if (p->sinkhorn_rounds == 0) FOCAL_TRY(focal_route_soften(p->ctx, rows, s->K, a->gk, a->gk));
    if (!is_directed) return FOCAL_OK;
    return focal_route_soften(p->ctx, rows, s->K, a->gq, a->gq);
}

static focal_status make_keys(const foci_pass *p, const foci_kept *a)
{
    const int64_t routers = p->t->groups->shape.routers;
    for (int32_t n = 0; n < p->batch->span_count; n++) {
        const foci_span *span = &p->batch->spans[n];
        const int64_t at = span->start * routers;
        FOCAL_TRY(focal_keyset_truncate(p->keys[n].set, 0));
        FOCAL_TRY(focal_keyset_append(p->keys[n].set, span->count, a->query_groups + at * p->top,
                                      a->key_groups ? a->key_groups + at : NULL));
        p->keys[n].view = focal_keyset_view(p->keys[n].set);
    }
    return FOCAL_OK;
}

/* The share of the fullest group of each router, of all keys of the batch. */
static void count_loads(const foci_pass *p, const foci_kept *a)
{
    const foci_groups_shape *s = &p->t->groups->shape;
    const int64_t routers = s->routers, each = a->key_groups ? 1 : p->top;
    const int32_t *groups = a->key_groups ? a->key_groups : a->query_groups;
    for (int64_t r = 0; r < routers; r++) {
        int64_t count[FOCAL_MAX_GROUPS] = {0}, largest = 0;
        for (int64_t i = 0; i < p->T; i++)
            for (int64_t n = 0; n < each; n++) count[groups[(i * routers + r) * each + n]]++;
        for (int32_t c = 0; c < s->K; c++) largest = foci_max64(largest, count[c]);
        const double load = (double)largest / ((double)p->T * (double)each);
        p->loss->largest_load = fmax(p->loss->largest_load, load);
        p->loss->mean_largest_load += load / p->router_count;
    }
}

static focal_status count_pairs(const foci_pass *p)
{
    for (int32_t n = 0; n < p->batch->span_count; n++)
        for (int32_t r = 0; r < p->t->groups->shape.routers; r++) {
            focal_keys_stats stats;
            FOCAL_TRY(focal_keyset_stats(p->keys[n].set, r, &stats));
            p->loss->distant_pairs += stats.distant_pairs;
            p->loss->kept_pairs += stats.kept_pairs;
        }
    return FOCAL_OK;
}

static focal_status route(const foci_pass *p, int32_t n, const float *h)
{
    const foci_kept *a = foci_kept_of(p, n);
    if (foci_pass_has_router(p, n))
        FOCAL_TRY(assign(p, n, h));
    else
        foci_random_groups(&p->t->groups->shape, n, p->T, p->positions, p->top, a->key_groups,
                           a->query_groups);
    FOCAL_TRY(make_keys(p, a));
    if (p->is_again) return FOCAL_OK;
    count_loads(p, a);
    return count_pairs(p);
}

focal_status foci_pass_route(const foci_pass *p, int32_t n, const float *h)
{
    TIMED(p, "route", 0.0, route(p, n, h));
    return FOCAL_OK;
}

focal_status foci_pass_group_attention(const foci_pass *p, int32_t n, bool is_back,
                                       focal_attn_args *args, focal_attn_gate *gate)
{
    const foci_groups *groups = p->t->groups;
    const foci_kept *a = foci_kept_of(p, n);
    const bool has_router = foci_pass_has_router(p, n);
    const bool is_soft = has_router && (p->gate == FOCAL_GATE_PAPER || p->gate == FOCAL_GATE_LOG);
    args->has_window = true;
    args->window = groups->window;
    args->sinks = groups->sinks;
    if (!is_soft) args->seqs = p->grouped_seqs;
    if (!is_soft && !is_back) return FOCAL_OK; /* the mask is all of it */
    /* The sets in place are those of the layer that was routed last. */
    if (!is_soft) FOCAL_TRY(make_keys(p, a));
    if (!has_router) return FOCAL_OK;
    *gate = (focal_attn_gate){.kind = p->gate,
                              .K = groups->shape.K,
                              .routers = groups->shape.routers,
                              .lambda = p->options->groups->lambda,
                              .gq = a->gq,
                              .gk = a->gk};
    args->gate = gate;
    return FOCAL_OK;
}

/* ---- Backward ---- */

/* dgk and dgq become the gradients of the scores: g = softmax(S), or Sinkhorn's. One S serves keys
 * and queries of shared groups, and takes both. */
static focal_status soften_back(const foci_pass *p, const foci_kept *a, float **dsk, float **dsq)
{
    const foci_groups_shape *s = &p->t->groups->shape;
    const int64_t rows = (int64_t)p->T * s->routers;
    if (s->mode == FOCAL_SHARED)
        FOCAL_TRY(foci_add(p->ctx, p->dgk, p->dgk, p->dgq, rows * s->K));
    else
        FOCAL_TRY(focal_route_soften_backward(p->ctx, rows, s->K, a->gq, p->dgq, p->dgq));
    *dsq = s->mode == FOCAL_SHARED ? NULL : p->dgq;
    *dsk = p->sinkhorn_rounds > 0 ? p->dsk : p->dgk;
    if (p->sinkhorn_rounds == 0)
        return focal_route_soften_backward(p->ctx, rows, s->K, a->gk, p->dgk, p->dgk);
    for (int32_t n = 0; n < p->batch->span_count; n++) {
        const foci_span *span = &p->batch->spans[n];
        const int64_t at = span->start * row_numbers(p);
        FOCAL_TRY(focal_route_sinkhorn_backward(p->ctx, span->count, s->routers, s->K,
                                                p->sinkhorn_rounds, a->sk + at, p->dgk + at,
                                                p->dsk + at));
    }
    return FOCAL_OK;
}

static focal_status route_back(const foci_pass *p, int32_t n, const float *h)
{
    const foci_groups *groups = p->t->groups;
    const foci_kept *a = foci_kept_of(p, n);
    float *const *to = p->t->layers[n].router;
    float *dsk, *dsq, *next = p->drouter, *parts[FOCI_GROUP_TENSORS] = {NULL};
    FOCAL_TRY(soften_back(p, a, &dsk, &dsq));
    for (int which = 0; which < FOCI_GROUP_TENSORS; which++) {
        if (!to[which]) continue;
        parts[which] = next;
        next += foci_groups_count(&groups->shape, n, (foci_group_tensor)which);
    }
    const focal_route_args args = {.router = &groups->layers[n].router, .T = p->T, .h = h};
    const bool wants_dh = n != p->lowest;
    const focal_route_grads grads = {.dsk = dsk,
                                     .dsq = dsq,
                                     .dh = wants_dh ? p->dh_route : NULL,
                                     .dpk = parts[FOCI_GROUP_PK],
                                     .dpq = parts[FOCI_GROUP_PQ],
                                     .dak = parts[FOCI_GROUP_AK],
                                     .daq = parts[FOCI_GROUP_AQ],
                                     .de = parts[FOCI_GROUP_E]};
    FOCAL_TRY(focal_route_scores_backward(p->ctx, &args, &grads));
    for (int which = 0; which < FOCI_GROUP_TENSORS; which++)
        if (to[which])
            FOCAL_TRY(foci_add(p->ctx, to[which], to[which], parts[which],
                               foci_groups_count(&groups->shape, n, (foci_group_tensor)which)));
    if (!wants_dh) return FOCAL_OK;
    return foci_add(p->ctx, p->dh, p->dh, p->dh_route, (int64_t)p->T * groups->shape.C);
}

focal_status foci_pass_route_back(const foci_pass *p, int32_t n, const float *h)
{
    TIMED(p, "route, back", 0.0, route_back(p, n, h));
    return FOCAL_OK;
}
