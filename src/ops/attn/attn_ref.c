/* Reference attention: one query row at a time, sums in double. This file defines the answer, so
 * it stays slow and plain; speed belongs to the other kernels. Equations: docs/MATH.md, 1 and 3. */
#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/error.h"
#include "base/f16.h"
#include "base/pool.h"
#include "ops/attn/attn_kernels.h"
#include "ops/attn/attn_view.h"

bool foci_attn_ref_can(const focal_ctx *ctx, const focal_attn_args *args)
{
    (void)args;
    return foci_on_host(ctx); /* any shape, but not another device's memory */
}

static double load(focal_dtype dtype, const void *base, int64_t n)
{
    if (dtype == FOCAL_F32) return (double)((const float *)base)[n];
    if (dtype == FOCAL_Q8_0) { /* of each 34 bytes a float16 scale, then 32 levels */
        const uint8_t *block = (const uint8_t *)base + n / 32 * 34;
        const float scale = foci_f16_to_float((uint16_t)(block[0] | block[1] << 8));
        return (double)scale * (double)(int8_t)block[2 + n % 32];
    }
    return (double)foci_bf16_to_float(((const uint16_t *)base)[n]);
}

static void store(focal_dtype dtype, void *base, int64_t n, double value)
{
    if (dtype == FOCAL_F32)
        ((float *)base)[n] = (float)value;
    else
        ((uint16_t *)base)[n] = foci_bf16_from_float((float)value);
}

static double dot(focal_dtype a_dtype, const void *a, focal_dtype b_dtype, const void *b,
                  int64_t count)
{
    double sum = 0.0;
    for (int64_t d = 0; d < count; d++) sum += load(a_dtype, a, d) * load(b_dtype, b, d);
    return sum;
}

/* Where head h of a token's row begins. */
static const void *head_at(const focal_attn_args *a, const void *base, int64_t row, int64_t stride,
                           int64_t offset)
{
    return (const char *)base + (row * stride + offset) * (int64_t)focal_dtype_bytes(a->dtype);
}

static void *head_to(const focal_attn_args *a, void *base, int64_t row, int64_t stride,
                     int64_t offset)
{
    return (char *)base + (row * stride + offset) * (int64_t)focal_dtype_bytes(a->dtype);
}

/* Why a pair is on a query's list. */
typedef enum pair_kind {
    PAIR_LOCAL,   /* window or sink: never gated */
    PAIR_DISTANT, /* seen through a group, or gated */
    PAIR_HIDDEN   /* not seen; only the straight-through gradient looks at it */
} pair_kind;

/* One query's keys; room for every key of the longest sequence. */
typedef struct seen_list {
    int32_t count, room;
    int32_t *row;   /* of k and v, counted from the sequence's first */
    uint8_t *kind;  /* a pair_kind */
    double *logit;  /* s before the gate */
    double *gate;   /* gq.gk */
    double *weight; /* p */
} seen_list;

/* All that the work items of a call share. */
typedef struct ref_call {
    focal_ctx *ctx;
    const focal_attn_args *a;
    const focal_attn_grads *grads;
    const focal_attn_seq *seq;
    foci_visits visits;
    int32_t longest; /* S of the longest sequence */
    bool sees_all;   /* list every causal pair: gated forms */
    atomic_bool is_out_of_memory;
} ref_call;

static bool list_alloc(focal_ctx *ctx, int32_t longest, seen_list *list)
{
    const size_t n = (size_t)longest;
    double *block = foci_scratch(ctx, n, 3 * sizeof(double) + sizeof(int32_t) + 1);
    if (!block) return false;
    list->room = longest;
    list->logit = block;
    list->gate = block + n;
    list->weight = block + 2 * n;
    list->row = (int32_t *)(void *)(block + 3 * n);
    list->kind = (uint8_t *)(list->row + n);
    return true;
}

static void list_add(seen_list *list, int64_t row, pair_kind kind)
{
    if (list->count == list->room) return; /* a wrong set: it names a key of this query twice */
    list->row[list->count] = (int32_t)row;
    list->kind[list->count] = (uint8_t)kind;
    list->count++;
}

static void list_positions(seen_list *list, const focal_keys *keys, int32_t router, int32_t lo,
                           int32_t hi)
{
    for (int32_t j = lo; j < hi; j++)
        list_add(list, foci_position_row(keys, router, j), PAIR_LOCAL);
}

/* The keys that query i sees, for the heads of a router (MATH 3.3); with sees_all, every causal
 * key, each with its kind. */
static void list_keys(const ref_call *call, int32_t router, int32_t i, seen_list *list)
{
    const focal_keys *keys = call->seq->keys;
    const foci_local local = foci_attn_local(call->a, call->seq, i);
    list->count = 0;
    list_positions(list, keys, router, 0, local.sink_hi);
    const focal_attn_gate *gate = call->a->gate;
    if (call->sees_all) {
        const bool is_straight = gate && gate->kind == FOCAL_GATE_STRAIGHT;
        for (int32_t j = local.sink_hi; j < local.lo; j++) {
            const bool is_seen =
                !is_straight || (keys->query_mask[(int64_t)router * keys->T + i] &
                                 keys->key_mask[router * keys->key_mask_stride + j]) != 0;
            list_add(list, j, is_seen ? PAIR_DISTANT : PAIR_HIDDEN);
        }
    }
    list_positions(list, keys, router, local.lo, local.hi);
    if (call->sees_all || !keys) return;
    const int64_t width = (int64_t)keys->T + 1;
    const int32_t *begin = call->visits.begin + router * width;
    for (int32_t n = begin[i]; n < begin[i + 1]; n++) {
        const int64_t at = router * call->visits.stride + n;
        const int32_t c = call->visits.group[at];
        const int32_t *row = keys->key_row + router * keys->key_stride +
                             keys->key_begin[(int64_t)router * keys->K + c];
        for (int32_t m = 0; m < call->visits.end[at]; m++) {
            if (keys->mode == FOCAL_SHARED &&
                !foci_meets_in(keys->query_mask[(int64_t)router * keys->T + i],
                               keys->key_mask[router * keys->key_mask_stride + row[m]], c))
                continue;
            list_add(list, row[m], PAIR_DISTANT);
        }
    }
}

/* s of every pair on the list, softcapped, not yet gated (MATH 1.1, 1.2); and gq.gk where gated. */
static void fill_logits(const ref_call *call, int32_t g, const void *q, const float *gq,
                        seen_list *list)
{
    const focal_attn_args *a = call->a;
    const foci_rows k_rows = foci_attn_k_rows(a, call->seq, g);
    const double cap = (double)a->softcap;
    for (int32_t n = 0; n < list->count; n++) {
        const double s =
            dot(a->dtype, q, foci_attn_kv_dtype(a), foci_row(&k_rows, list->row[n]), a->D);
        list->logit[n] = cap > 0.0 ? cap * tanh(s / cap) : s;
        if (!gq || list->kind[n] == PAIR_LOCAL) continue;
        const int64_t gk_row = (call->seq->k_row + list->row[n]) * a->gate->routers +
                               foci_router_of(a->gate->routers, g);
        const float *gk = a->gate->gk + gk_row * a->gate->K;
        list->gate[n] = 0.0;
        for (int32_t c = 0; c < a->gate->K; c++) list->gate[n] += (double)gq[c] * (double)gk[c];
    }
}

static double sigmoid(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* The gated logit (MATH 3.5): what the softmax sees. */
static double gated_logit(const focal_attn_args *a, const seen_list *list, int32_t n)
{
    if (!a->gate || list->kind[n] != PAIR_DISTANT) return list->logit[n];
    if (a->gate->kind == FOCAL_GATE_PAPER)
        return list->logit[n] * sigmoid((double)a->gate->lambda * list->gate[n]);
    if (a->gate->kind == FOCAL_GATE_LOG) return list->logit[n] + log(fmax(list->gate[n], 1e-6));
    if (a->gate->kind == FOCAL_GATE_SCALE) return list->logit[n] * list->gate[n];
    return list->logit[n];
}

static const float *gq_of(const ref_call *call, int32_t g, int32_t i)
{
    const focal_attn_gate *gate = call->a->gate;
    if (!gate) return NULL;
    const int64_t row = (call->seq->q_row + i) * gate->routers + foci_router_of(gate->routers, g);
    return gate->gq + row * gate->K;
}

/* o and lse of one row (MATH 1.3, 1.4). */
static void attend_row(const ref_call *call, int32_t g, int32_t h, int32_t i, seen_list *list)
{
    const focal_attn_args *a = call->a;
    const int64_t q_row = call->seq->q_row + i;
    const int64_t head = (int64_t)call->seq->q_head + h;
    fill_logits(call, g, head_at(a, a->q, q_row, a->q_stride, head * a->D), gq_of(call, g, i),
                list);
    double max = -(double)INFINITY, sum = 0.0;
    for (int32_t n = 0; n < list->count; n++) {
        list->weight[n] = gated_logit(a, list, n);
        /* fmax would drop a NaN; the row must show it */
        max = list->weight[n] > max || isnan(list->weight[n]) ? list->weight[n] : max;
    }
    for (int32_t n = 0; n < list->count; n++) {
        list->weight[n] = exp(list->weight[n] - max); /* the largest becomes 1, so sum >= 1 */
        sum += list->weight[n];
    }
    const foci_rows v_rows = foci_attn_v_rows(a, call->seq, g);
    void *out = head_to(a, a->out, q_row, a->out_stride, head * a->Dv);
    for (int32_t d = 0; d < a->Dv; d++) {
        double acc = 0.0;
        for (int32_t n = 0; n < list->count; n++)
            acc +=
                list->weight[n] * load(foci_attn_kv_dtype(a), foci_row(&v_rows, list->row[n]), d);
        store(a->dtype, out, d, list->count > 0 ? acc / sum : 0.0);
    }
    if (a->lse) a->lse[q_row * a->H + h] = list->count > 0 ? (float)(max + log(sum)) : -INFINITY;
}

static void forward_query(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    ref_call *call = arg;
    const focal_attn_args *a = call->a;
    const int32_t i = (int32_t)index, group = a->H / a->G;
    seen_list list = {0};
    if (!list_alloc(call->ctx, call->longest, &list)) {
        atomic_store(&call->is_out_of_memory, true);
        return;
    }
    for (int32_t g = 0; g < a->G; g++) {
        const focal_keys *keys = call->seq->keys;
        list_keys(call, keys ? foci_router_of(keys->routers, g) : 0, i, &list);
        for (int32_t h = g * group; h < (g + 1) * group; h++) attend_row(call, g, h, i, &list);
    }
    foci_scratch_free(call->ctx, list.logit);
}

/* Runs fn over the sequences one by one: items(seq) work items each. */
static focal_status run_sequences(ref_call *call, foci_work fn,
                                  int64_t (*items)(const ref_call *call))
{
    const focal_attn_args *a = call->a;
    for (int32_t n = 0; n < a->seq_count; n++)
        if (a->seqs[n].S > call->longest) call->longest = a->seqs[n].S;
    for (int32_t n = 0; n < a->seq_count; n++) {
        call->seq = &a->seqs[n];
        call->visits = (foci_visits){0};
        if (call->seq->keys) FOCAL_TRY(foci_visits_make(call->ctx, call->seq->keys, &call->visits));
        foci_parallel(call->ctx, items(call), fn, call);
        foci_scratch_free(call->ctx, call->visits.begin);
        if (atomic_load(&call->is_out_of_memory))
            return foci_fail(call->ctx, FOCAL_ENOMEM, "attn: no memory for scratch");
    }
    return FOCAL_OK;
}

static int64_t one_a_query(const ref_call *call)
{
    return call->seq->T;
}

focal_status foci_attn_ref_forward(focal_ctx *ctx, const focal_attn_args *args)
{
    ref_call call = {.ctx = ctx, .a = args};
    call.sees_all = args->gate && args->gate->kind != FOCAL_GATE_STRAIGHT;
    return run_sequences(&call, forward_query, one_a_query);
}

/* Sums of one router's part of a sequence, in double until all queries are done. */
typedef struct grad_sums {
    double *dk;  /* (S,D) of the key head at work */
    double *dv;  /* (S,Dv) */
    double *dgk; /* (S,K), with a gate */
    double *dgq; /* (T,K) */
} grad_sums;

/* One query row's share of every gradient; list holds its keys. O(keys (D + Dv + K)). */
static void backward_row(const ref_call *call, int32_t g, int32_t h, int32_t i, seen_list *list,
                         const grad_sums *sums)
{
    const focal_attn_args *a = call->a;
    const int64_t q_row = call->seq->q_row + i;
    const void *q = head_at(a, a->q, q_row, a->q_stride, (int64_t)h * a->D);
    const void *dout = head_at(a, call->grads->dout, q_row, a->out_stride, (int64_t)h * a->Dv);
    const void *out = head_at(a, a->out, q_row, a->out_stride, (int64_t)h * a->Dv);
    void *dq = head_to(a, call->grads->dq, q_row, a->q_stride, (int64_t)h * a->D);
    const foci_rows k_rows = foci_attn_k_rows(a, call->seq, g);
    const foci_rows v_rows = foci_attn_v_rows(a, call->seq, g);
    const float *gq = gq_of(call, g, i);
    const double lse = (double)a->lse[q_row * a->H + h], cap = (double)a->softcap;
    const double delta = dot(a->dtype, dout, a->dtype, out, a->Dv); /* sum_j p dp (MATH 1.7) */
    double dq_sum[FOCAL_MAX_HEAD_WIDTH] = {0};
    fill_logits(call, g, q, gq, list);
    for (int32_t n = 0; n < list->count; n++) {
        const int64_t row = list->row[n];
        const void *key = foci_row(&k_rows, row);
        const double s = gated_logit(a, list, n);
        const bool is_distant = list->kind[n] != PAIR_LOCAL;
        const bool is_hidden = list->kind[n] == PAIR_HIDDEN;
        /* A hidden pair may exceed lse by many nats: the min bounds its weight (MATH 3.5). */
        const double p = is_hidden ? exp(fmin(s - lse, 0.0)) : exp(s - lse);
        double dp = dot(a->dtype, dout, a->dtype, foci_row(&v_rows, row), a->Dv);
        double ds = p * (dp - delta);
        if (a->gate && is_distant) {
            const double gate = list->gate[n];
            double dgate = ds; /* gradient of gq.gk; as it is with the straight gate */
            if (a->gate->kind == FOCAL_GATE_LOG) dgate = gate > 1e-6 ? ds / gate : 0.0;
            if (a->gate->kind == FOCAL_GATE_PAPER) {
                const double lambda = (double)a->gate->lambda, open = sigmoid(lambda * gate);
                dgate = ds * list->logit[n] * lambda * open * (1.0 - open);
                ds *= open;
            }
            if (a->gate->kind == FOCAL_GATE_SCALE) {
                dgate = ds * list->logit[n];
                ds *= gate;
            }
            const float *gk = a->gate->gk + ((call->seq->k_row + row) * a->gate->routers +
                                             foci_router_of(a->gate->routers, g)) *
                                                a->gate->K;
            for (int32_t c = 0; c < a->gate->K; c++) {
                sums->dgq[(int64_t)i * a->gate->K + c] += dgate * (double)gk[c];
                sums->dgk[row * a->gate->K + c] += dgate * (double)gq[c];
            }
        }
        if (is_hidden) continue;
        for (int32_t d = 0; d < a->Dv; d++)
            sums->dv[row * a->Dv + d] += p * load(a->dtype, dout, d);
        if (cap > 0.0) ds *= 1.0 - list->logit[n] / cap * (list->logit[n] / cap);
        for (int32_t d = 0; d < a->D; d++) {
            dq_sum[d] += ds * load(a->dtype, key, d);
            sums->dk[row * a->D + d] += ds * load(a->dtype, q, d);
        }
    }
    for (int32_t d = 0; d < a->D; d++) store(a->dtype, dq, d, dq_sum[d]);
}

/* One router's key heads of a sequence: all sums over queries are private to the item. */
static void backward_router(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    ref_call *call = arg;
    const focal_attn_args *a = call->a;
    const focal_attn_seq *seq = call->seq;
    const int32_t routers = a->gate ? a->gate->routers : a->G;
    const int32_t heads = a->G / routers, group = a->H / a->G, K = a->gate ? a->gate->K : 0;
    const int64_t S = seq->S, T = seq->T;
    const size_t count = (size_t)(S * (a->D + a->Dv + K) + T * K);
    double *block = foci_scratch(call->ctx, count, sizeof *block);
    seen_list list = {0};
    if (!block || !list_alloc(call->ctx, call->longest, &list)) {
        foci_scratch_free(call->ctx, block);
        atomic_store(&call->is_out_of_memory, true);
        return;
    }
    grad_sums sums = {.dk = block, .dv = block + S * a->D, .dgk = block + S * (a->D + a->Dv)};
    sums.dgq = sums.dgk + S * K;
    memset(block, 0, count * sizeof *block);
    for (int32_t g = (int32_t)index * heads; g < ((int32_t)index + 1) * heads; g++) {
        memset(sums.dk, 0, (size_t)(S * (a->D + a->Dv)) * sizeof *block);
        for (int32_t i = 0; i < T; i++) {
            list_keys(call, seq->keys ? foci_router_of(seq->keys->routers, g) : 0, i, &list);
            for (int32_t h = g * group; h < (g + 1) * group; h++)
                backward_row(call, g, h, i, &list, &sums);
        }
        for (int64_t j = 0; j < S; j++) {
            void *dk = head_to(a, call->grads->dk, seq->k_row + j, a->k_stride, (int64_t)g * a->D);
            void *dv = head_to(a, call->grads->dv, seq->k_row + j, a->v_stride, (int64_t)g * a->Dv);
            for (int32_t d = 0; d < a->D; d++) store(a->dtype, dk, d, sums.dk[j * a->D + d]);
            for (int32_t d = 0; d < a->Dv; d++) store(a->dtype, dv, d, sums.dv[j * a->Dv + d]);
        }
    }
    for (int64_t n = 0; n < T * K; n++) {
        const int64_t row = (seq->q_row + n / K) * routers + index;
        call->grads->dgq[row * K + n % K] = (float)sums.dgq[n];
    }
    for (int64_t n = 0; n < S * K; n++) {
        const int64_t row = (seq->k_row + n / K) * routers + index;
        call->grads->dgk[row * K + n % K] = (float)sums.dgk[n];
    }
    foci_scratch_free(call->ctx, list.logit);
    foci_scratch_free(call->ctx, block);
}

static int64_t one_a_router(const ref_call *call)
{
    return call->a->gate ? call->a->gate->routers : call->a->G;
}

focal_status foci_attn_ref_backward(focal_ctx *ctx, const focal_attn_args *args,
                                    const focal_attn_grads *grads)
{
    ref_call call = {.ctx = ctx, .a = args, .grads = grads, .sees_all = args->gate != NULL};
    return run_sequences(&call, backward_router, one_a_router);
}
