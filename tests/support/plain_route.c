/* Plain float32 loops of routing. */
#include "support/plain_route.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static float dot(int64_t n, const float *x, const float *y)
{
    float sum = 0.0F;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static float *floats(int64_t n)
{
    return new_array((size_t)n, sizeof(float));
}

/* One side of one token: x = h p + a and y = x / |x|, and the length. */
static float project(const focal_router *t, const float *p, const float *a, const float *h,
                     float *x, float *y)
{
    for (int64_t d = 0; d < t->R; d++) {
        x[d] = a ? a[d] : 0.0F;
        for (int64_t c = 0; c < t->C; c++) x[d] += h[c] * p[c * t->R + d];
    }
    const float length = t->is_raw ? 1.0F : sqrtf(dot(t->R, x, x));
    for (int64_t d = 0; d < t->R; d++) y[d] = length > 0.0F ? x[d] / length : 0.0F;
    return length;
}

static void unit_rows(const focal_router *t, const float *e, float *u)
{
    for (int64_t c = 0; c < t->K; c++) {
        const float length = t->is_raw ? 1.0F : sqrtf(dot(t->R, e + c * t->R, e + c * t->R));
        for (int64_t d = 0; d < t->R; d++)
            u[c * t->R + d] = length > 0.0F ? e[c * t->R + d] / length : 0.0F;
    }
}

static void side_scores(const focal_route_args *args, int64_t r, bool is_key, float *s)
{
    const focal_router *t = args->router;
    const bool is_own = is_key || !t->pq;
    const float *p = (is_own ? t->pk : t->pq) + r * t->C * t->R, *a = is_own ? t->ak : t->aq;
    const int64_t stride = args->h_stride ? args->h_stride : t->C;
    const float sharpness = t->sharpness == 0.0F ? 10.0F : t->sharpness;
    float *u = floats((int64_t)t->K * t->R), *x = floats(t->R), *y = floats(t->R);
    unit_rows(t, t->e + r * t->K * t->R, u);
    for (int64_t i = 0; i < args->T; i++) {
        (void)project(t, p, a ? a + r * t->R : NULL, args->h + i * stride, x, y);
        for (int64_t c = 0; c < t->K; c++) {
            float score = sharpness * dot(t->R, y, u + c * t->R);
            if (is_key && t->beta) score += t->beta[r * t->K + c];
            s[(i * t->routers + r) * t->K + c] = score;
        }
    }
    free(u);
    free(x);
    free(y);
}

void plain_route_scores(const focal_route_args *args)
{
    for (int64_t r = 0; r < args->router->routers; r++) {
        if (args->sk) side_scores(args, r, true, args->sk);
        if (args->sq) side_scores(args, r, false, args->sq);
    }
}

/* Adds to what grads has; de collects the gradient of the normed centroids. */
static void side_backward(const focal_route_args *args, int64_t r, bool is_key,
                          const focal_route_grads *grads, float *du)
{
    const focal_router *t = args->router;
    const bool is_own = is_key || !t->pq;
    const float *p = (is_own ? t->pk : t->pq) + r * t->C * t->R, *a = is_own ? t->ak : t->aq;
    float *dp = is_own ? grads->dpk : grads->dpq, *da = is_own ? grads->dak : grads->daq;
    const float *ds = is_key ? grads->dsk : grads->dsq;
    const int64_t stride = args->h_stride ? args->h_stride : t->C;
    const float sharpness = t->sharpness == 0.0F ? 10.0F : t->sharpness;
    float *u = floats((int64_t)t->K * t->R), *x = floats(t->R), *y = floats(t->R),
          *dy = floats(t->R);
    unit_rows(t, t->e + r * t->K * t->R, u);
    for (int64_t i = 0; i < args->T; i++) {
        const float *h = args->h + i * stride, *ds_i = ds + (i * t->routers + r) * t->K;
        const float length = project(t, p, a ? a + r * t->R : NULL, h, x, y);
        for (int64_t d = 0; d < t->R; d++) {
            dy[d] = 0.0F;
            for (int64_t c = 0; c < t->K; c++) {
                dy[d] += sharpness * ds_i[c] * u[c * t->R + d];
                du[c * t->R + d] += sharpness * ds_i[c] * y[d];
            }
        }
        const float along = t->is_raw ? 0.0F : dot(t->R, y, dy);
        for (int64_t d = 0; d < t->R; d++) {
            const float dx = length > 0.0F ? (dy[d] - y[d] * along) / length : 0.0F;
            if (da) da[r * t->R + d] += dx;
            for (int64_t c = 0; c < t->C; c++) {
                if (dp) dp[(r * t->C + c) * t->R + d] += h[c] * dx;
                if (grads->dh) grads->dh[i * stride + c] += p[c * t->R + d] * dx;
            }
        }
    }
    free(u);
    free(x);
    free(y);
    free(dy);
}

static void clear(float *x, int64_t n)
{
    if (x) memset(x, 0, (size_t)n * sizeof *x);
}

void plain_route_scores_backward(const focal_route_args *args, const focal_route_grads *grads)
{
    const focal_router *t = args->router;
    const int64_t p_size = (int64_t)t->C * t->R, e_size = (int64_t)t->K * t->R;
    const int64_t stride = args->h_stride ? args->h_stride : t->C;
    for (int64_t i = 0; i < args->T && grads->dh; i++) clear(grads->dh + i * stride, t->C);
    clear(grads->dpk, t->routers * p_size);
    clear(grads->dpq, t->routers * p_size);
    clear(grads->dak, (int64_t)t->routers * t->R);
    clear(grads->daq, (int64_t)t->routers * t->R);
    float *du = floats(e_size);
    for (int64_t r = 0; r < t->routers; r++) {
        clear(du, e_size);
        if (grads->dsk) side_backward(args, r, true, grads, du);
        if (grads->dsq) side_backward(args, r, false, grads, du);
        for (int64_t c = 0; c < t->K && grads->de; c++) {
            const float *e = t->e + r * e_size + c * t->R;
            const float length = t->is_raw ? 1.0F : sqrtf(dot(t->R, e, e));
            const float along = t->is_raw ? 0.0F : dot(t->R, e, du + c * t->R) / length;
            for (int64_t d = 0; d < t->R; d++)
                grads->de[r * e_size + c * t->R + d] =
                    length > 0.0F ? (du[c * t->R + d] - e[d] / length * along) / length : 0.0F;
        }
    }
    free(du);
}

static float log_sum(int64_t n, int64_t step, const float *x)
{
    float max = x[0], sum = 0.0F;
    for (int64_t i = 1; i < n; i++) max = fmaxf(max, x[i * step]);
    for (int64_t i = 0; i < n; i++) sum += expf(x[i * step] - max);
    return max + logf(sum);
}

void plain_route_soften(int64_t rows, int64_t K, const float *s, float *g)
{
    for (int64_t i = 0; i < rows; i++) {
        const float lse = log_sum(K, 1, s + i * K);
        for (int64_t c = 0; c < K; c++) g[i * K + c] = expf(s[i * K + c] - lse);
    }
}

void plain_route_soften_backward(int64_t rows, int64_t K, const float *g, const float *dg,
                                 float *ds)
{
    for (int64_t i = 0; i < rows; i++) {
        const float mean = dot(K, g + i * K, dg + i * K);
        for (int64_t c = 0; c < K; c++) ds[i * K + c] = g[i * K + c] * (dg[i * K + c] - mean);
    }
}

/* x -= log sum exp, along rows (n values, step apart); d likewise gets its gradient when set. */
static void normalise(int64_t n, int64_t step, float *x, float *d)
{
    const float lse = log_sum(n, step, x);
    float sum = 0.0F;
    for (int64_t i = 0; i < n && d; i++) sum += d[i * step];
    for (int64_t i = 0; i < n && d; i++) d[i * step] -= expf(x[i * step] - lse) * sum;
    for (int64_t i = 0; i < n; i++) x[i * step] -= lse;
}

/* The logs of the first `steps` half rounds (columns, rows, columns, ...) of one router, (T,K). */
static void half_rounds(int64_t T, int64_t routers, int64_t K, int64_t steps, const float *s,
                        float *x)
{
    for (int64_t i = 0; i < T; i++)
        for (int64_t c = 0; c < K; c++) x[i * K + c] = s[i * routers * K + c];
    for (int64_t n = 0; n < steps; n++) {
        for (int64_t c = 0; c < K && n % 2 == 0; c++) normalise(T, K, x + c, NULL);
        for (int64_t i = 0; i < T && n % 2 == 1; i++) normalise(K, 1, x + i * K, NULL);
    }
}

void plain_route_sinkhorn(int64_t T, int64_t routers, int64_t K, int64_t rounds, const float *s,
                          float *g)
{
    float *x = floats(T * K);
    for (int64_t r = 0; r < routers; r++) {
        half_rounds(T, routers, K, 2 * rounds, s + r * K, x);
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) g[(i * routers + r) * K + c] = expf(x[i * K + c]);
    }
    free(x);
}

void plain_route_sinkhorn_backward(int64_t T, int64_t routers, int64_t K, int64_t rounds,
                                   const float *s, const float *dg, float *ds)
{
    float *x = floats(T * K), *d = floats(T * K);
    for (int64_t r = 0; r < routers; r++) {
        half_rounds(T, routers, K, 2 * rounds, s + r * K, x);
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++)
                d[i * K + c] = expf(x[i * K + c]) * dg[(i * routers + r) * K + c];
        for (int64_t n = 2 * rounds - 1; n >= 0; n--) {
            half_rounds(T, routers, K, n, s + r * K, x);
            for (int64_t c = 0; c < K && n % 2 == 0; c++) normalise(T, K, x + c, d + c);
            for (int64_t i = 0; i < T && n % 2 == 1; i++) normalise(K, 1, x + i * K, d + i * K);
        }
        for (int64_t i = 0; i < T; i++)
            for (int64_t c = 0; c < K; c++) ds[(i * routers + r) * K + c] = d[i * K + c];
    }
    free(x);
    free(d);
}

/* One router's load (K). */
static void measure_load(const focal_balance_args *b, int64_t r, float *load)
{
    float *g = floats(b->K);
    clear(load, b->K);
    for (int64_t i = 0; i < b->T; i++) {
        const float *s = b->sk + (i * b->routers + r) * b->K;
        plain_route_soften(1, b->K, s, g);
        for (int64_t c = 0; c < b->K; c++) {
            int64_t rank = 0;
            for (int64_t o = 0; o < b->K; o++) rank += s[o] > s[c] || (s[o] == s[c] && o < c);
            load[c] += 0.5F * (g[c] + (rank < b->top ? 1.0F / (float)b->top : 0.0F));
        }
    }
    for (int64_t c = 0; c < b->K; c++) load[c] /= (float)b->T;
    free(g);
}

void plain_route_balance(const focal_balance_args *b)
{
    float *move = floats(b->K);
    const int32_t rounds = b->rounds ? b->rounds : 3;
    for (int64_t r = 0; r < b->routers; r++)
        for (int32_t n = 0; n < rounds; n++) {
            float *beta = b->beta + r * b->K, *load = b->load + r * b->K, mean = 0.0F;
            measure_load(b, r, load);
            for (int64_t c = 0; c < b->K; c++) {
                const float missing = 1.0F / (float)b->K - load[c];
                move[c] = b->kind == FOCAL_BALANCE_LOG
                              ? -b->rate * logf((float)b->K * load[c] + 0.02F)
                              : b->rate * (float)((missing > 0.0F) - (missing < 0.0F));
                if (b->kind == FOCAL_BALANCE_LOG) mean += (beta[c] + move[c]) / (float)b->K;
            }
            for (int64_t c = 0; c < b->K; c++) {
                beta[c] += move[c] - mean;
                for (int64_t i = 0; i < b->T; i++)
                    b->sk[(i * b->routers + r) * b->K + c] += move[c] - mean;
            }
        }
    free(move);
}
