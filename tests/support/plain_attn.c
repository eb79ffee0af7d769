/* Plain float32 attention: the measure of how much rounding is normal. */
#include "support/plain_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "focal/attn.h"
#include "support/check.h"

static float rounded(focal_dtype dtype, float x)
{
    return dtype == FOCAL_BF16 ? foci_bf16_to_float(foci_bf16_from_float(x)) : x;
}

static float dot_of(const double *x, const double *y, int32_t count)
{
    float sum = 0.0F;
    for (int32_t d = 0; d < count; d++) sum += (float)x[d] * (float)y[d];
    return sum;
}

/* One pair: its capped logit, what the gate makes of it, and the two derivatives of that. */
typedef struct pair_logit {
    float s, gated, to_s, to_overlap;
} pair_logit;

static pair_logit logit_of(const oracle_attn *a, int32_t h, int32_t i, int32_t j)
{
    const int32_t g = h / (a->H / a->G), router = a->routers == 1 ? 0 : g;
    const float cap = (float)a->softcap;
    float s =
        dot_of(a->q + ((int64_t)i * a->H + h) * a->D, a->k + ((int64_t)j * a->G + g) * a->D, a->D);
    if (cap > 0.0F) s = cap * tanhf(s / cap);
    pair_logit pair = {s, s, 1.0F, 0.0F};
    if (!a->gate || !oracle_distant(a, i, j)) return pair;
    const float overlap = dot_of(a->gq + ((int64_t)i * a->routers + router) * a->K,
                                 a->gk + ((int64_t)j * a->routers + router) * a->K, a->K);
    if (a->gate == FOCAL_GATE_PAPER) {
        const float lambda = (float)a->lambda, sigmoid = 1.0F / (1.0F + expf(-lambda * overlap));
        pair.gated = s * sigmoid;
        pair.to_s = sigmoid;
        pair.to_overlap = s * lambda * sigmoid * (1.0F - sigmoid);
    } else if (a->gate == FOCAL_GATE_LOG) {
        pair.gated = s + logf(fmaxf(overlap, 1e-6F));
        pair.to_overlap = overlap > 1e-6F ? 1.0F / overlap : 0.0F;
    } else if (a->gate == FOCAL_GATE_SCALE) {
        pair.gated = s * overlap;
        pair.to_s = overlap;
        pair.to_overlap = s;
    } else {
        pair.to_overlap = 1.0F;
    }
    return pair;
}

void plain_attn_forward(const oracle_attn *a, focal_dtype dtype, float *out, float *lse)
{
    float *p = new_array((size_t)a->S, sizeof *p);
    for (int64_t at = 0; at < (int64_t)a->T * a->H; at++) {
        const int32_t i = (int32_t)(at / a->H), h = (int32_t)(at % a->H), g = h / (a->H / a->G);
        float largest = -INFINITY, sum = 0.0F;
        for (int32_t j = 0; j < a->S; j++) {
            p[j] = oracle_sees(a, h, i, j) ? logit_of(a, h, i, j).gated : -INFINITY;
            largest = fmaxf(largest, p[j]);
        }
        const bool is_empty = largest == -INFINITY;
        for (int32_t j = 0; j < a->S && !is_empty; j++) {
            p[j] = expf(p[j] - largest);
            sum += p[j];
        }
        lse[at] = is_empty ? -INFINITY : largest + logf(sum);
        for (int32_t d = 0; d < a->Dv; d++) {
            float total = 0.0F;
            for (int32_t j = 0; j < a->S && !is_empty; j++)
                if (p[j] > 0.0F)
                    total +=
                        rounded(dtype, p[j]) * (float)a->v[((int64_t)j * a->G + g) * a->Dv + d];
            out[at * a->Dv + d] = rounded(dtype, is_empty ? 0.0F : total / sum);
        }
    }
    free(p);
}

static void add_scaled(float *y, const double *x, int32_t count, float weight)
{
    for (int32_t d = 0; d < count; d++) y[d] += weight * (float)x[d];
}

static void add_pair(const oracle_attn *a, focal_dtype dtype, const float *out, float lse,
                     const double *dout, int64_t at, int32_t j, const plain_attn_grads *r)
{
    const int32_t i = (int32_t)(at / a->H), h = (int32_t)(at % a->H), g = h / (a->H / a->G);
    const int32_t router = a->routers == 1 ? 0 : g;
    const bool sees = oracle_sees(a, h, i, j), is_gated = a->gate && oracle_distant(a, i, j);
    if (!sees && !is_gated) return;
    const int64_t key = (int64_t)j * a->G + g;
    const pair_logit pair = logit_of(a, h, i, j);
    const float p = expf(fminf(pair.gated - lse, 0.0F));
    float own = 0.0F;
    for (int32_t d = 0; d < a->Dv; d++) own += (float)dout[d] * out[d];
    const float delta = p * (dot_of(dout, a->v + key * a->Dv, a->Dv) - own);
    if (is_gated && r->dgq) {
        const int64_t qg = ((int64_t)i * a->routers + router) * a->K;
        const int64_t kg = ((int64_t)j * a->routers + router) * a->K;
        add_scaled(r->dgq + qg, a->gk + kg, a->K, delta * pair.to_overlap);
        add_scaled(r->dgk + kg, a->gq + qg, a->K, delta * pair.to_overlap);
    }
    if (!sees) return;
    const float cap = (float)a->softcap, ratio = cap > 0.0F ? pair.s / cap : 0.0F;
    const float ds = rounded(dtype, delta * pair.to_s * (1.0F - ratio * ratio));
    add_scaled(r->dq + at * a->D, a->k + key * a->D, a->D, ds);
    add_scaled(r->dk + key * a->D, a->q + at * a->D, a->D, ds);
    add_scaled(r->dv + key * a->Dv, dout, a->Dv, rounded(dtype, p));
}

static void round_all(focal_dtype dtype, float *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++) x[n] = rounded(dtype, x[n]);
}

void plain_attn_backward(const oracle_attn *a, focal_dtype dtype, const float *out,
                         const float *lse, const double *dout, const plain_attn_grads *r)
{
    const int64_t q_count = (int64_t)a->T * a->H * a->D, k_count = (int64_t)a->S * a->G * a->D;
    const int64_t v_count = (int64_t)a->S * a->G * a->Dv;
    memset(r->dq, 0, (size_t)q_count * sizeof(float));
    memset(r->dk, 0, (size_t)k_count * sizeof(float));
    memset(r->dv, 0, (size_t)v_count * sizeof(float));
    if (r->dgq) memset(r->dgq, 0, (size_t)a->T * (size_t)(a->routers * a->K) * sizeof(float));
    if (r->dgk) memset(r->dgk, 0, (size_t)a->S * (size_t)(a->routers * a->K) * sizeof(float));
    for (int64_t at = 0; at < (int64_t)a->T * a->H; at++)
        for (int32_t j = 0; j < a->S; j++)
            add_pair(a, dtype, out + at * a->Dv, lse[at], dout + at * a->Dv, at, j, r);
    round_all(dtype, r->dq, q_count);
    round_all(dtype, r->dk, k_count);
    round_all(dtype, r->dv, v_count);
}
