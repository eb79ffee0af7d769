/* How far the gradients of a gated call are from their definition, on sampled queries and keys:
 * pair by pair in double, from the out and lse that forward left. (The reference kernel cannot be
 * asked for single keys here, since a gate needs the key at its distance.) */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn_error.h"

enum { DQ, DK, DV, DGQ, DGK, TENSORS };

/* What a query and key, of one query head, give to the gradients. */
typedef struct gate_pair {
    double p;  /* weight; 0 where the key is not seen */
    double dx; /* gradient of q.k */
    double dm; /* gradient of gq.gk */
} gate_pair;

/* Sums over the pairs of one query, or of one key; all heads side by side. */
typedef struct gate_sums {
    double *dx, *dv; /* (heads, D) of q or k, (G, Dv) of keys */
    double *dm;      /* (routers, K) */
    float *exact, *mine;
} gate_sums;

static double element(focal_dtype dtype, const void *data, int64_t at)
{
    if (dtype == FOCAL_F32) return (double)((const float *)data)[at];
    return (double)focal_bf16_to_float(((const uint16_t *)data)[at]);
}

static double dot(focal_dtype dtype, const void *a, int64_t a_at, const void *b, int64_t b_at,
                  int32_t count)
{
    double sum = 0.0;
    for (int32_t d = 0; d < count; d++)
        sum += element(dtype, a, a_at + d) * element(dtype, b, b_at + d);
    return sum;
}

/* Query i (of T), query head h, and the key at position j, not behind it. */
static gate_pair pair_of(const attn_job *job, int64_t i, int32_t h, int64_t j)
{
    const attn_setup *u = &job->setup;
    const attn_tensors *t = job->tensors;
    const int64_t position = (int64_t)u->S - u->T + i, g = h / (u->H / u->G);
    const int64_t router = u->routers > 1 ? g : 0, row = i * u->H + h, key = j * u->G + g;
    const bool is_distant = position - j > u->window && j >= u->sinks;
    const bool is_seen = error_sees(job, (int32_t)router, position, j);
    const double x = dot(u->dtype, t->q, row * u->D, t->k, key * u->D, u->D);
    const double cap = (double)u->softcap, s = cap > 0.0 ? cap * tanh(x / cap) : x;
    double m = 0.0, gated = s, to_s = 1.0, to_m = 0.0;
    for (int32_t c = 0; is_distant && c < u->K; c++)
        m += (double)job->gq[(i * u->routers + router) * u->K + c] *
             (double)job->gk[(j * u->routers + router) * u->K + c];
    if (is_distant && u->gate == FOCAL_GATE_PAPER) { /* (3.5.2), lambda 10 */
        to_s = 1.0 / (1.0 + exp(-10.0 * m));
        to_m = s * 10.0 * to_s * (1.0 - to_s);
        gated = s * to_s;
    } else if (is_distant && u->gate == FOCAL_GATE_LOG) { /* (3.5.3) */
        gated = s + log(fmax(m, 1e-6));
        to_m = m > 1e-6 ? 1.0 / m : 0.0;
    } else if (is_distant) {
        to_m = 1.0; /* (3.5.5) */
    }
    const double p = exp(fmin(gated - (double)job->lse[row], is_seen ? (double)INFINITY : 0.0));
    const double dp = dot(u->dtype, t->dout, row * u->Dv, t->v, key * u->Dv, u->Dv);
    const double own = dot(u->dtype, t->dout, row * u->Dv, job->out, row * u->Dv, u->Dv);
    const double ds = p * (dp - own);
    const double slope = cap > 0.0 ? 1.0 - s / cap * (s / cap) : 1.0;
    return (gate_pair){is_seen ? p : 0.0, is_seen ? ds * to_s * slope : 0.0, ds * to_m};
}

static void add(double *sum, focal_dtype dtype, const void *data, int64_t at, int32_t count,
                double weight)
{
    for (int32_t d = 0; d < count; d++) sum[d] += weight * element(dtype, data, at + d);
}

/* Compares `rows` rows of `width`, from the first-th element of `mine` on. */
static void compare(gate_sums *sums, const double *exact, focal_dtype dtype, const void *mine,
                    int64_t first, int32_t rows, int32_t width, row_errors *errors)
{
    for (int32_t n = 0; n < rows; n++) {
        for (int32_t d = 0; d < width; d++) sums->exact[d] = (float)exact[(int64_t)n * width + d];
        attn_read(dtype, mine, first + (int64_t)n * width, width, sums->mine);
        error_add_row(errors, sums->mine, sums->exact, width);
    }
}

static void clear(const attn_setup *u, gate_sums *sums)
{
    memset(sums->dx, 0, (size_t)u->H * (size_t)u->D * sizeof(double));
    memset(sums->dv, 0, (size_t)u->G * (size_t)u->Dv * sizeof(double));
    memset(sums->dm, 0, (size_t)u->routers * (size_t)u->K * sizeof(double));
}

static void check_query(const attn_job *job, int64_t i, gate_sums *sums, row_errors *errors)
{
    const attn_setup *u = &job->setup;
    clear(u, sums);
    for (int32_t h = 0; h < u->H; h++) {
        const int64_t g = h / (u->H / u->G), router = u->routers > 1 ? g : 0;
        for (int64_t j = 0; j <= (int64_t)u->S - u->T + i; j++) {
            const gate_pair pair = pair_of(job, i, h, j);
            add(sums->dx + (int64_t)h * u->D, u->dtype, job->tensors->k, (j * u->G + g) * u->D,
                u->D, pair.dx);
            add(sums->dm + router * u->K, FOCAL_F32, job->gk, (j * u->routers + router) * u->K,
                u->K, pair.dm);
        }
    }
    compare(sums, sums->dx, u->dtype, job->grads.dq, i * u->H * u->D, u->H, u->D, &errors[DQ]);
    compare(sums, sums->dm, FOCAL_F32, job->dgq, i * u->routers * u->K, u->routers, u->K,
            &errors[DGQ]);
}

static void check_key(const attn_job *job, int64_t j, gate_sums *sums, row_errors *errors)
{
    const attn_setup *u = &job->setup;
    const int64_t before = (int64_t)u->S - u->T;
    clear(u, sums);
    for (int32_t h = 0; h < u->H; h++) {
        const int64_t g = h / (u->H / u->G), router = u->routers > 1 ? g : 0;
        for (int64_t i = j > before ? j - before : 0; i < u->T; i++) {
            const gate_pair pair = pair_of(job, i, h, j);
            const int64_t row = i * u->H + h;
            add(sums->dx + g * u->D, u->dtype, job->tensors->q, row * u->D, u->D, pair.dx);
            add(sums->dv + g * u->Dv, u->dtype, job->tensors->dout, row * u->Dv, u->Dv, pair.p);
            add(sums->dm + router * u->K, FOCAL_F32, job->gq, (i * u->routers + router) * u->K,
                u->K, pair.dm);
        }
    }
    compare(sums, sums->dx, u->dtype, job->grads.dk, j * u->G * u->D, u->G, u->D, &errors[DK]);
    compare(sums, sums->dv, u->dtype, job->grads.dv, j * u->G * u->Dv, u->G, u->Dv, &errors[DV]);
    compare(sums, sums->dm, FOCAL_F32, job->dgk, j * u->routers * u->K, u->routers, u->K,
            &errors[DGK]);
}

int gate_error_backward(const attn_job *job, double *error)
{
    const attn_setup *u = &job->setup;
    const int32_t count = error_sample_count(u, u->T);
    const size_t sizes[] = {(size_t)u->H * (size_t)u->D, (size_t)u->G * (size_t)u->Dv,
                            (size_t)u->routers * (size_t)u->K};
    row_errors *errors = calloc(TENSORS, sizeof *errors);
    double *room = calloc(sizes[0] + sizes[1] + sizes[2], sizeof *room);
    float rows[2][FOCAL_MAX_HEAD_WIDTH];
    if (!errors || !room) {
        free(room);
        free(errors);
        return cli_fail("not enough memory for the errors");
    }
    gate_sums sums = {room, room + sizes[0], room + sizes[0] + sizes[1], rows[0], rows[1]};
    for (int32_t n = 0; n < count; n++) {
        cli_progress("checking row %d of %d", n + 1, count);
        check_query(job, error_sampled(n, count, u->T), &sums, errors);
        check_key(job, error_sampled(n, count, u->S), &sums, errors);
    }
    *error = 0.0;
    for (int tensor = 0; tensor < TENSORS; tensor++) {
        const double e = error_worst(&errors[tensor], 0.01);
        if (!(e <= *error)) *error = e;
    }
    cli_progress("%s", "");
    free(room);
    free(errors);
    return CLI_DONE;
}
