/* A llama model in double. Nothing here is fast or clever. */
#include "support/oracle_llama.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/quant.h"
#include "support/check.h"
#include "support/oracle_attn.h"
#include "support/oracle_matmul.h"
#include "support/oracle_ops.h"

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
    const oracle_attn problem = {.T = a->T,
                                 .S = a->T,
                                 .H = c->H,
                                 .G = c->G,
                                 .D = c->D,
                                 .Dv = c->D,
                                 .routers = 1,
                                 .q = q,
                                 .k = (a->k ? a->k : a->own_k) + at,
                                 .v = (a->v ? a->v : a->own_v) + at};
    oracle_attn_forward(&problem, &(oracle_attn_out){.out = o});
    multiply(a->T, o, &w->out, x, x);
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
