/* The oracle of attention: every pair by its definition. O(T S) time for each head. */
#include "support/oracle_attn.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/attn.h"
#include "support/check.h"

/* Everything about one query of one head, an entry a key. */
typedef struct row_state {
    double *s;       /* logits after the soft-cap, before the gate; of every causal key */
    double *gated;   /* what the softmax sees */
    double *overlap; /* gq.gk of distant pairs, where there is a gate */
    double *p;       /* weights, 0 where not seen */
    bool *sees;
    double lse;
    double size; /* the largest |partial sum| of any logit here: a rounding of it is an equal
                    relative error of a weight */
} row_state;

static row_state row_new(int32_t S)
{
    const size_t n = (size_t)S;
    return (row_state){.s = new_array(n, sizeof(double)),
                       .gated = new_array(n, sizeof(double)),
                       .overlap = new_array(n, sizeof(double)),
                       .p = new_array(n, sizeof(double)),
                       .sees = new_array(n, sizeof(bool))};
}

static void row_free(row_state *row)
{
    free(row->s);
    free(row->gated);
    free(row->overlap);
    free(row->p);
    free(row->sees);
}

static int32_t position_of(const oracle_attn *a, int32_t i)
{
    return a->S - a->T + i;
}

static int32_t key_head_of(const oracle_attn *a, int32_t h)
{
    return h / (a->H / a->G);
}

static int32_t router_of(const oracle_attn *a, int32_t h)
{
    return a->routers == 1 ? 0 : key_head_of(a, h);
}

/* MATH 3.3.3 */
bool oracle_distant(const oracle_attn *a, int32_t i, int32_t j)
{
    const int64_t behind = (int64_t)position_of(a, i) - j;
    return a->has_window && !a->is_bidirectional && behind > a->window && j >= a->sinks;
}

bool oracle_sees(const oracle_attn *a, int32_t h, int32_t i, int32_t j)
{
    const int64_t behind = (int64_t)position_of(a, i) - j;
    if (behind < 0 && !a->is_bidirectional) return false;
    if (!a->has_window) return true;
    if ((behind < 0 ? -behind : behind) <= a->window) return true;
    if (j < a->sinks && behind >= 0) return true;
    if (!oracle_distant(a, i, j)) return false;
    if (a->gate && a->gate != FOCAL_GATE_STRAIGHT) return true;
    if (!a->query_groups) return false;
    const int64_t router = router_of(a, h);
    return (a->query_groups[router * a->T + i] & a->key_groups[router * a->S + j]) != 0;
}

/* MATH 3.5.1: how much the memberships of a query and a key have in common. */
static double overlap_of(const oracle_attn *a, int32_t router, int32_t i, int32_t j)
{
    const double *gq = a->gq + ((int64_t)i * a->routers + router) * a->K;
    const double *gk = a->gk + ((int64_t)j * a->routers + router) * a->K;
    double sum = 0.0;
    for (int32_t c = 0; c < a->K; c++) sum += gq[c] * gk[c];
    return sum;
}

/* MATH 3.5.2, 3.5.3 and 3.6.1 on a distant pair. */
static double gated_logit(const oracle_attn *a, double s, double overlap)
{
    if (a->gate == FOCAL_GATE_PAPER) return s / (1.0 + exp(-a->lambda * overlap));
    if (a->gate == FOCAL_GATE_LOG) return s + log(fmax(overlap, 1e-6));
    if (a->gate == FOCAL_GATE_SCALE) return s * overlap;
    return s;
}

/* MATH 1.1 to 1.3 */
static void row_weights(const oracle_attn *a, int32_t h, int32_t i, row_state *row)
{
    const double *q = a->q + ((int64_t)i * a->H + h) * a->D;
    double largest = (double)-INFINITY, sum = 0.0;
    row->size = 0.0;
    for (int32_t j = 0; j < a->S; j++) {
        const double *k = a->k + ((int64_t)j * a->G + key_head_of(a, h)) * a->D;
        double dot = 0.0;
        row->sees[j] = oracle_sees(a, h, i, j);
        const bool is_distant = oracle_distant(a, i, j);
        if (!row->sees[j] && !(is_distant && a->gate)) {
            /* Not even looked at: what the key holds has no influence. */
            row->s[j] = row->gated[j] = row->p[j] = 0.0;
            continue;
        }
        for (int32_t d = 0; d < a->D; d++) {
            dot += q[d] * k[d];
            row->size = fmax(row->size, fabs(dot));
        }
        row->s[j] = a->softcap > 0.0 ? a->softcap * tanh(dot / a->softcap) : dot;
        row->overlap[j] = is_distant && a->gate ? overlap_of(a, router_of(a, h), i, j) : 0.0;
        row->gated[j] = is_distant ? gated_logit(a, row->s[j], row->overlap[j]) : row->s[j];
        row->size = fmax(row->size, fabs(row->gated[j]));
        if (row->sees[j]) largest = fmax(largest, row->gated[j]);
    }
    for (int32_t j = 0; j < a->S; j++)
        if (row->sees[j]) sum += exp(row->gated[j] - largest);
    row->lse = sum > 0.0 ? largest + log(sum) : (double)-INFINITY;
    for (int32_t j = 0; j < a->S; j++)
        row->p[j] = row->sees[j] ? exp(row->gated[j] - row->lse) : 0.0;
}

static double value_of(const oracle_attn *a, int32_t h, int32_t j, int32_t d)
{
    return a->v[((int64_t)j * a->G + key_head_of(a, h)) * a->Dv + d];
}

/* MATH 1.4; magnitude may be NULL. A relative error e of a weight p moves out by p e (v - out). */
static void row_output(const oracle_attn *a, int32_t h, const row_state *row, double *out,
                       double *magnitude)
{
    for (int32_t d = 0; d < a->Dv; d++) {
        double sum = 0.0, size = 0.0;
        for (int32_t j = 0; j < a->S; j++)
            if (row->sees[j]) sum += row->p[j] * value_of(a, h, j, d);
        out[d] = sum;
        if (!magnitude) continue;
        for (int32_t j = 0; j < a->S; j++) {
            if (!row->sees[j]) continue;
            const double v = value_of(a, h, j, d);
            size += row->p[j] * (fabs(v) + row->size * fabs(v - sum));
        }
        magnitude[d] = size;
    }
}

void oracle_attn_forward(const oracle_attn *a, const oracle_attn_out *result)
{
    row_state row = row_new(a->S);
    for (int32_t i = 0; i < a->T; i++) {
        for (int32_t h = 0; h < a->H; h++) {
            const int64_t at = (int64_t)i * a->H + h;
            row_weights(a, h, i, &row);
            row_output(a, h, &row, result->out + at * a->Dv,
                       result->out_magnitude ? result->out_magnitude + at * a->Dv : NULL);
            if (result->lse) result->lse[at] = row.lse;
            if (result->lse_magnitude) result->lse_magnitude[at] = 1.0 + row.size + fabs(row.lse);
        }
    }
    row_free(&row);
}

/* y += weight x, and the same in absolute values. y or its magnitude may be NULL. */
static void add_scaled(double *y, double *magnitude, const double *x, int32_t count, double weight,
                       double size)
{
    for (int32_t d = 0; d < count; d++) {
        if (y) y[d] += weight * x[d];
        if (magnitude) magnitude[d] += size * fabs(x[d]);
    }
}

static double *at_row(double *base, int64_t offset)
{
    return base ? base + offset : NULL;
}

/* One pair's share of dgq and dgk (MATH 3.5.6): dm times the other side's memberships. */
static void add_overlap_gradient(const oracle_attn *a, int32_t router, int32_t i, int32_t j,
                                 double dm, double size, const oracle_attn_grads *r)
{
    const int64_t query = ((int64_t)i * a->routers + router) * a->K;
    const int64_t key = ((int64_t)j * a->routers + router) * a->K;
    add_scaled(at_row(r->dgq, query), at_row(r->dgq_magnitude, query), a->gk + key, a->K, dm, size);
    add_scaled(at_row(r->dgk, key), at_row(r->dgk_magnitude, key), a->gq + query, a->K, dm, size);
}

/* The gradient of the gated logit, taken on to the logit (returned as a factor) and to the
 * overlap (as another). MATH 3.5.2 to 3.5.4. */
static void gate_factors(const oracle_attn *a, double s, double overlap, double *to_s,
                         double *to_overlap)
{
    *to_s = 1.0;
    *to_overlap = 0.0;
    if (a->gate == FOCAL_GATE_PAPER) {
        const double sigmoid = 1.0 / (1.0 + exp(-a->lambda * overlap));
        *to_s = sigmoid;
        *to_overlap = s * a->lambda * sigmoid * (1.0 - sigmoid);
    } else if (a->gate == FOCAL_GATE_LOG) {
        *to_overlap = overlap > 1e-6 ? 1.0 / overlap : 0.0;
    } else if (a->gate == FOCAL_GATE_SCALE) {
        *to_s = overlap;
        *to_overlap = s;
    } else if (a->gate == FOCAL_GATE_STRAIGHT) {
        *to_overlap = 1.0;
    }
}

static void row_backward(const oracle_attn *a, int32_t h, int32_t i, const row_state *row,
                         const double *out, const double *dout, const oracle_attn_grads *r)
{
    const int32_t g = key_head_of(a, h), router = router_of(a, h);
    const int64_t query = ((int64_t)i * a->H + h) * a->D;
    double own = 0.0, own_size = 0.0; /* do.o, MATH 1.7 */
    for (int32_t d = 0; d < a->Dv; d++) {
        own += dout[d] * out[d];
        own_size += fabs(dout[d] * out[d]);
    }
    for (int32_t j = 0; j < a->S; j++) {
        const bool is_gated = a->gate && oracle_distant(a, i, j);
        if (!row->sees[j] && !is_gated) continue;
        const int64_t key = ((int64_t)j * a->G + g) * a->D, value = ((int64_t)j * a->G + g) * a->Dv;
        double dot = 0.0, size = own_size; /* do.v */
        for (int32_t d = 0; d < a->Dv; d++) {
            dot += dout[d] * a->v[value + d];
            size += fabs(dout[d] * a->v[value + d]);
        }
        /* MATH 3.5.4: an excluded pair may exceed lse, and is then held at weight 1. */
        const double weight = row->sees[j] ? row->p[j] : exp(fmin(row->s[j] - row->lse, 0.0));
        const double weight_size = weight * (1.0 + row->size + fabs(row->lse));
        const double delta = weight * (dot - own), delta_size = weight_size * size;
        double to_s = 1.0, to_overlap = 0.0;
        if (is_gated) {
            gate_factors(a, row->s[j], row->overlap[j], &to_s, &to_overlap);
            add_overlap_gradient(a, router, i, j, delta * to_overlap, delta_size * fabs(to_overlap),
                                 r);
        }
        if (!row->sees[j]) continue;
        const double cap = a->softcap > 0.0 ? row->s[j] / a->softcap : 0.0;
        const double to_dot = to_s * (1.0 - cap * cap); /* MATH 1.8 */
        add_scaled(at_row(r->dq, query), at_row(r->dq_magnitude, query), a->k + key, a->D,
                   delta * to_dot, delta_size * to_dot);
        add_scaled(at_row(r->dk, key), at_row(r->dk_magnitude, key), a->q + query, a->D,
                   delta * to_dot, delta_size * to_dot);
        add_scaled(at_row(r->dv, value), at_row(r->dv_magnitude, value), dout, a->Dv, weight,
                   weight_size);
    }
}

static void clear(double *x, double *magnitude, int64_t count)
{
    if (x) memset(x, 0, (size_t)count * sizeof *x);
    if (magnitude) memset(magnitude, 0, (size_t)count * sizeof *magnitude);
}

void oracle_attn_backward(const oracle_attn *a, const double *dout, const oracle_attn_grads *r)
{
    clear(r->dq, r->dq_magnitude, (int64_t)a->T * a->H * a->D);
    clear(r->dk, r->dk_magnitude, (int64_t)a->S * a->G * a->D);
    clear(r->dv, r->dv_magnitude, (int64_t)a->S * a->G * a->Dv);
    clear(r->dgq, r->dgq_magnitude, (int64_t)a->T * a->routers * a->K);
    clear(r->dgk, r->dgk_magnitude, (int64_t)a->S * a->routers * a->K);
    row_state row = row_new(a->S);
    double *out = new_array((size_t)a->Dv, sizeof *out);
    for (int32_t i = 0; i < a->T; i++) {
        for (int32_t h = 0; h < a->H; h++) {
            row_weights(a, h, i, &row);
            row_output(a, h, &row, out, NULL);
            row_backward(a, h, i, &row, out, dout + ((int64_t)i * a->H + h) * a->Dv, r);
        }
    }
    free(out);
    row_free(&row);
}
