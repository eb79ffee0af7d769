/* A llama model in double. Nothing here is fast or clever. */
#include "support/oracle_llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/attn.h"
#include "focal/quant.h"
#include "model/random_groups.h"
#include "support/check.h"
#include "support/oracle_attn.h"
#include "support/oracle_matmul.h"
#include "support/oracle_ops.h"
#include "support/oracle_route.h"

static double *doubles(int64_t count)
{
    return new_array((size_t)count, sizeof(double));
}

static double *matrix_of(const foci_linear *w)
{
    const int64_t count = (int64_t)w->N * w->K;
    float *floats = new_array((size_t)count, sizeof *floats);
    double *out = doubles(count);
    assert_int_equal(focal_dequantize(w->dtype, w->w, count, floats), FOCAL_OK);
    for (int64_t n = 0; n < count; n++) out[n] = (double)floats[n];
    free(floats);
    return out;
}

/* out (T, N) = x w^T, and, where old is there, + old. */
static void multiply(int32_t T, const double *x, const foci_linear *w, const double *old,
                     double *out)
{
    double *values = matrix_of(w), *sizes = doubles((int64_t)T * w->N);
    const matmul_problem p = {.M = T, .N = w->N, .K = w->K, .x = x, .w = values, .old = old};
    assert_true(!w->is_transposed && !w->bias);
    oracle_matmul(&p, out, sizes);
    free(values);
    free(sizes);
}

static void normalise(const foci_config *c, int32_t T, const foci_gain *gain, const double *x,
                      double *out)
{
    double *weight = doubles(c->C);
    for (int32_t n = 0; n < c->C; n++) weight[n] = (double)gain->weight[n];
    const oracle_norm norm = {
        .rows = T, .width = c->C, .x = x, .weight = weight, .epsilon = (double)c->epsilon};
    oracle_norm_rows(&norm, out, NULL);
    free(weight);
}

static void rotate(const foci_config *c, int32_t T, int32_t heads, double scale, double *x)
{
    const int32_t pairs = c->rope.rotated / 2;
    double *cosines = doubles((int64_t)T * pairs), *sines = doubles((int64_t)T * pairs);
    assert_int_equal(c->rope.kind, FOCI_ROPE_PLAIN);
    for (int64_t n = 0; n < (int64_t)T * pairs; n++) {
        const double exponent = -2.0 * (double)(n % pairs) / c->rope.rotated;
        const int64_t position = n / pairs;
        const double angle = (double)position * pow(c->rope.base, exponent);
        cosines[n] = cos(angle);
        sines[n] = sin(angle);
    }
    const oracle_rope rope = {.is_pairs = c->rope_style == FOCI_ROPE_PAIRS,
                              .T = T,
                              .H = heads,
                              .D = c->D,
                              .rotated = c->rope.rotated,
                              .cos = cosines,
                              .sin = sines,
                              .scale = scale};
    oracle_rope_rotate(&rope, x, NULL);
    free(cosines);
    free(sines);
}

static double *copy_doubles(const float *x, int64_t count)
{
    double *out = x ? doubles(count) : NULL;
    for (int64_t n = 0; x && n < count; n++) out[n] = (double)x[n];
    return out;
}

/* Scores (T, routers, K) of a layer's router. */
static void score(const oracle_llama *a, int32_t layer, const double *h, double *sk, double *sq)
{
    const foci_groups_shape *s = &a->groups.groups->shape;
    float *const *t = a->groups.groups->layers[layer].tensors;
    double *copies[FOCI_GROUP_TENSORS];
    for (int n = 0; n < FOCI_GROUP_TENSORS; n++)
        copies[n] = copy_doubles(t[n], foci_groups_count(s, layer, (foci_group_tensor)n));
    const oracle_router router = {.C = s->C,
                                  .R = s->R,
                                  .K = s->K,
                                  .routers = s->routers,
                                  .is_raw = s->is_raw,
                                  .sharpness = 10.0,
                                  .pk = copies[FOCI_GROUP_PK],
                                  .pq = copies[FOCI_GROUP_PQ],
                                  .ak = copies[FOCI_GROUP_AK],
                                  .aq = copies[FOCI_GROUP_AQ],
                                  .e = copies[FOCI_GROUP_E],
                                  .beta = copies[FOCI_GROUP_BETA]};
    oracle_route_scores(&router, a->T, h, sk, sq);
    for (int n = 0; n < FOCI_GROUP_TENSORS; n++) free(copies[n]);
}

/* masks (routers, T): the `top` best groups of each token, ties to the lower index. */
static void choose(const oracle_llama *a, const double *scores, int32_t top, uint64_t *masks)
{
    const int64_t routers = a->groups.groups->shape.routers, K = a->groups.groups->shape.K;
    for (int64_t n = 0; n < a->T * routers; n++) {
        const double *row = scores + n * K;
        uint64_t mask = 0;
        double least = 0.0, next = (double)-INFINITY;
        for (int32_t k = 0; k < top; k++) {
            int64_t best = 0;
            while (mask >> best & 1U) best++;
            for (int64_t c = best + 1; c < K; c++)
                if (!(mask >> c & 1U) && row[c] > row[best]) best = c;
            mask |= (uint64_t)1 << best;
            least = row[best];
        }
        for (int64_t c = 0; c < K; c++)
            if (!(mask >> c & 1U)) next = fmax(next, row[c]);
        if (a->groups.margin) *a->groups.margin = fmin(*a->groups.margin, least - next);
        masks[n % routers * a->T + n / routers] = mask;
    }
}

/* The same of groups by chance, which nothing but a seed decides: those of the whole text. */
static void draw(const oracle_llama *a, int32_t layer, uint64_t *query_groups, uint64_t *key_groups)
{
    const foci_groups_shape *s = &a->groups.groups->shape;
    const int64_t rows = (int64_t)a->T * s->routers, top = a->groups.use.top;
    const bool is_shared = s->mode == FOCAL_SHARED;
    int32_t *positions = new_array((size_t)a->T, sizeof *positions);
    int32_t *keys = new_array((size_t)rows, sizeof *keys);
    int32_t *queries = new_array((size_t)(rows * top), sizeof *queries);
    for (int32_t i = 0; i < a->T; i++) positions[i] = i;
    foci_random_groups(s, layer, a->T, positions, (int32_t)top, is_shared ? NULL : keys, queries);
    for (int64_t n = 0; n < rows; n++) {
        const int64_t at = n % s->routers * a->T + n / s->routers;
        query_groups[at] = 0;
        for (int64_t k = 0; k < top; k++) query_groups[at] |= (uint64_t)1 << queries[n * top + k];
        key_groups[at] = is_shared ? query_groups[at] : (uint64_t)1 << keys[n];
    }
    free(positions);
    free(keys);
    free(queries);
}

/* q / t, and who sees whom. */
static void focus(const oracle_llama *a, int32_t layer, const double *h, double *q,
                  uint64_t *query_groups, uint64_t *key_groups, double *scales,
                  oracle_attn *problem)
{
    const foci_groups *groups = a->groups.groups;
    const foci_config *c = &a->model->config;
    if (!groups) return;
    const float *lt = groups->layers[layer].tensors[FOCI_GROUP_LT];
    for (int64_t n = 0; a->groups.has_temperatures && n < (int64_t)a->T * c->H * c->D; n++)
        q[n] /= exp((double)lt[n / c->D % c->H]);
    const foci_groups_use *use = &a->groups.use;
    if (use->top == 0 || !groups->shape.layers[layer]) return;
    problem->has_window = true;
    problem->window = use->window;
    problem->sinks = use->sinks;
    if (a->groups.has_no_distant) return;
    if (groups->shape.source == FOCI_GROUPS_SCALE) { /* MATH 3.6.1 */
        problem->gate = FOCAL_GATE_SCALE;
        problem->K = 1;
        for (int32_t i = 0; i < a->T; i++) scales[i] = exp((double)*groups->log_scale);
        for (int32_t j = 0; j < a->T; j++) scales[a->T + j] = 1.0;
        problem->gq = scales;
        problem->gk = scales + a->T;
        return;
    }
    problem->routers = groups->shape.routers;
    problem->query_groups = query_groups;
    problem->key_groups = key_groups;
    if (groups->shape.source == FOCI_GROUPS_RANDOM) {
        draw(a, layer, query_groups, key_groups);
        return;
    }
    const bool is_shared = groups->shape.mode == FOCAL_SHARED;
    const int64_t count = (int64_t)a->T * groups->shape.routers * groups->shape.K;
    double *sk = doubles(count), *sq = doubles(count);
    score(a, layer, h, sk, is_shared ? NULL : sq);
    choose(a, sk, is_shared ? use->top : 1, key_groups);
    choose(a, is_shared ? sk : sq, use->top, query_groups);
    free(sk);
    free(sq);
}

/* x += attention. */
static void attend(const oracle_llama *a, int32_t layer, double *x)
{
    const foci_config *c = &a->model->config;
    const foci_layer *w = &a->model->weights.layers[layer];
    const int64_t T = a->T, at = layer * T * c->G * c->D;
    double *h = doubles(T * c->C), *q = doubles(T * c->H * c->D), *o = doubles(T * c->H * c->D);
    normalise(c, a->T, &w->attn_norm, x, h);
    multiply(a->T, h, &w->q, NULL, q);
    multiply(a->T, h, &w->k, NULL, a->own_k + at);
    multiply(a->T, h, &w->v, NULL, a->own_v + at);
    rotate(c, a->T, c->H, 1.0 / sqrt((double)c->D), q);
    rotate(c, a->T, c->G, 1.0, a->own_k + at);
    oracle_attn problem = {.T = a->T,
                           .S = a->T,
                           .H = c->H,
                           .G = c->G,
                           .D = c->D,
                           .Dv = c->D,
                           .routers = 1,
                           .q = q,
                           .k = (a->k ? a->k : a->own_k) + at,
                           .v = (a->v ? a->v : a->own_v) + at};
    uint64_t *query_groups = new_array((size_t)(T * c->G), sizeof *query_groups);
    uint64_t *key_groups = new_array((size_t)(T * c->G), sizeof *key_groups);
    double *scales = doubles(2 * T);
    focus(a, layer, h, q, query_groups, key_groups, scales, &problem);
    oracle_attn_forward(&problem, &(oracle_attn_out){.out = o});
    multiply(a->T, o, &w->out, x, x);
    free(query_groups);
    free(key_groups);
    free(scales);
    free(h);
    free(q);
    free(o);
}

/* x += the feed-forward block. */
static void feed_forward(const oracle_llama *a, int32_t layer, double *x)
{
    const foci_config *c = &a->model->config;
    const foci_layer *w = &a->model->weights.layers[layer];
    const int64_t T = a->T;
    double *h = doubles(T * c->C), *up = doubles(T * c->F), *gate = doubles(T * c->F);
    normalise(c, a->T, &w->ffn_norm, x, h);
    multiply(a->T, h, &w->up, NULL, up);
    multiply(a->T, h, &w->gate, NULL, gate);
    for (int64_t n = 0; n < T * c->F; n++) up[n] *= oracle_activation(0, gate[n]);
    multiply(a->T, up, &w->down, x, x);
    free(h);
    free(up);
    free(gate);
}

void oracle_llama_forward(const oracle_llama *a)
{
    const foci_config *c = &a->model->config;
    const foci_model_weights *w = &a->model->weights;
    const int64_t C = c->C;
    double *embed = matrix_of(&w->embed), *x = doubles(a->T * C), *h = doubles(a->T * C);
    for (int32_t i = 0; i < a->T; i++)
        memcpy(x + i * C, embed + a->ids[i] * C, (size_t)C * sizeof *x);
    for (int32_t n = 0; n < c->L; n++) {
        attend(a, n, x);
        feed_forward(a, n, x);
    }
    normalise(c, a->T, &w->final_norm, x, h);
    multiply(a->T, h, &w->head, NULL, a->logits);
    free(embed);
    free(x);
    free(h);
}
