/* What survives of q.k at an unknown distance, for each key head: X = M^(1/2) Rot N^(1/2) over its
 * query heads, whose leading singular pairs are the router's directions. With one router a layer X
 * has a block for each query head in its key head's columns, so different key heads share neither
 * rows nor columns, and the leading pairs of X are the leading ones of all blocks. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/route_matrix.h"
#include "ops/route/route_start.h"

static const double EIGENVALUE_FLOOR = 1e-5; /* of the largest */

typedef struct heads {
    const focal_route_start_args *a;
    int64_t D, rows; /* rows of a block X: H/G D */
    double *root;    /* (H + G, D, D): query heads first, then key heads */
    double *inverse; /* (H + G, D, D) */
    double *work;    /* (threads, work_entries) */
    double *x;       /* (G, D, rows) X by columns; then sigma u */
    double *sigma;   /* (G, D) */
    double *v;       /* (G, D, D) */
    double *turn;    /* (D/2, 2) mean cosine and sine of the rope's angles */
    int64_t work_entries;
} heads;

/* Mean over distances d of exp(i f d), in closed form: a sum of d terms would never end for the
 * largest ranges that can be asked for. */
static void mean_turn(double f, int64_t first, int64_t last, double *turn)
{
    const double count = (double)(last - first + 1), half = 0.5 * f;
    const double sine = sin(half);
    /* Near a full turn sin(n f/2) / sin(f/2) is 0/0 with this limit. */
    const double length =
        fabs(sine) > 1e-9 ? sin(count * half) / sine : count * cos(count * half) / cos(half);
    const double middle = half * ((double)first + (double)last);
    turn[0] = length * cos(middle) / count;
    turn[1] = length * sin(middle) / count;
}

/* y = Rot x by rows, with Rot = mean over d of the rotation by -d; y and x: (D,D). */
static void turn_rows(const heads *s, const double *x, double *y)
{
    const int64_t D = s->D, half = D / 2;
    memcpy(y, x, (size_t)(D * D) * sizeof *y);
    for (int64_t n = 0; n < half && s->a->rope_freq; n++) {
        const double c = s->turn[2 * n], sine = s->turn[2 * n + 1];
        const int64_t first = s->a->is_interleaved ? 2 * n : n;
        const int64_t second = s->a->is_interleaved ? 2 * n + 1 : n + half;
        for (int64_t j = 0; j < D; j++) {
            y[first * D + j] = c * x[first * D + j] + sine * x[second * D + j];
            y[second * D + j] = c * x[second * D + j] - sine * x[first * D + j];
        }
    }
}

/* mean over tokens of (x - mean)(x - mean)^T of one head; mean NULL: 0. Lower part, then both. */
static void second_moment(const heads *s, const float *x, int64_t stride, const double *mean,
                          double *row, double *moment)
{
    const int64_t D = s->D;
    memset(moment, 0, (size_t)(D * D) * sizeof *moment);
    for (int64_t t = 0; t < s->a->T; t++) {
        for (int64_t i = 0; i < D; i++) row[i] = (double)x[t * stride + i] - (mean ? mean[i] : 0.0);
        for (int64_t i = 0; i < D; i++)
            for (int64_t j = 0; j <= i; j++) moment[i * D + j] += row[i] * row[j];
    }
    for (int64_t i = 0; i < D; i++) {
        for (int64_t j = 0; j <= i; j++) {
            moment[i * D + j] /= s->a->T;
            moment[j * D + i] = moment[i * D + j];
        }
    }
}

/* Roots of M_h (item h) or N_g (item H + g). */
static void root_item(void *arg, int64_t item, int32_t thread)
{
    const heads *s = arg;
    const focal_route_start_args *a = s->a;
    const int64_t D = s->D;
    double *moment = s->work + thread * s->work_entries, *row = moment + D * D, *mean = row + D;
    double *eigen = mean + D;
    if (item < a->H) {
        second_moment(s, a->q + item * D, a->H * D, NULL, row, moment);
    } else {
        const float *k = a->k + (item - a->H) * D;
        for (int64_t i = 0; i < D; i++) mean[i] = 0.0;
        for (int64_t t = 0; t < a->T; t++)
            for (int64_t i = 0; i < D; i++) mean[i] += (double)k[t * a->G * D + i];
        for (int64_t i = 0; i < D; i++) mean[i] /= a->T;
        second_moment(s, k, a->G * D, mean, row, moment);
    }
    foci_matrix_roots(D, EIGENVALUE_FLOOR, moment, s->root + item * D * D,
                      s->inverse + item * D * D, eigen);
}

/* X of one key head, and its singular pairs. */
static void block_item(void *arg, int64_t g, int32_t thread)
{
    const heads *s = arg;
    const int64_t D = s->D, share = s->a->H / s->a->G;
    double *turned = s->work + thread * s->work_entries; /* Rot N^(1/2) */
    double *columns = s->x + g * D * s->rows;
    turn_rows(s, s->root + (s->a->H + g) * D * D, turned);
    memset(columns, 0, (size_t)(D * s->rows) * sizeof *columns);
    for (int64_t row = 0; row < s->rows; row++) {
        const double *m = s->root + (g * share * D + row) * D; /* a row of M_h^(1/2) */
        for (int64_t i = 0; i < D; i++)
            for (int64_t j = 0; j < D; j++) columns[j * s->rows + row] += m[i] * turned[i * D + j];
    }
    foci_matrix_svd(s->rows, D, columns, s->sigma + g * D, s->v + g * D * D);
}

/* y (n) = a x for the symmetric a (n,n), times scale. */
static void apply(int64_t n, const double *a, const double *x, double scale, double *y)
{
    for (int64_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (int64_t j = 0; j < n; j++) sum += a[i * n + j] * x[j];
        y[i] = scale * sum;
    }
}

/* Fills the direction from singular pair n of key head g. */
static void set_direction(const heads *s, int64_t g, int64_t n, foci_route_direction *direction)
{
    const int64_t D = s->D, share = s->a->H / s->a->G;
    const double sigma = s->sigma[g * D + n], scale = sqrt(sigma);
    const double *sigma_u = s->x + (g * D + n) * s->rows;
    direction->head = g;
    apply(D, s->inverse + (s->a->H + g) * D * D, s->v + (g * D + n) * D, scale, direction->key_map);
    for (int64_t h = 0; h < share; h++)
        apply(D, s->inverse + (g * share + h) * D * D, sigma_u + h * D,
              sigma > 0.0 ? scale / sigma : 0.0, direction->query_map + h * D);
}

/* The R leading pairs of key heads first..last-1, largest first; ties to the lower head. */
static void lead(const heads *s, int64_t first, int64_t last, int64_t *used,
                 foci_route_direction *list)
{
    for (int64_t g = first; g < last; g++) used[g] = 0;
    for (int64_t n = 0; n < s->a->R; n++) {
        int64_t best = -1;
        for (int64_t g = first; g < last; g++) {
            if (used[g] >= s->D) continue;
            if (best < 0 || s->sigma[g * s->D + used[g]] > s->sigma[best * s->D + used[best]])
                best = g;
        }
        set_direction(s, best, used[best]++, &list[n]);
    }
}

static void free_heads(focal_ctx *ctx, const heads *s, int64_t *used)
{
    double *blocks[] = {s->root, s->inverse, s->work, s->x, s->sigma, s->v, s->turn};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) foci_scratch_free(ctx, blocks[n]);
    foci_scratch_free(ctx, used);
}

focal_status foci_route_find_directions(focal_ctx *ctx, const focal_route_start_args *a,
                                        foci_route_directions *found)
{
    const int64_t D = a->D, rows = a->H / a->G * D, count = (int64_t)a->routers * a->R;
    const int64_t head_count = (int64_t)a->H + a->G;
    heads s = {.a = a, .D = D, .rows = rows, .work_entries = D * (2 * D + 4)};
    const size_t square = (size_t)(D * D), entry = sizeof(double);
    s.root = foci_scratch(ctx, (size_t)head_count * square, entry);
    s.inverse = foci_scratch(ctx, (size_t)head_count * square, entry);
    s.work = foci_scratch(ctx, (size_t)(s.work_entries * focal_ctx_threads(ctx)), entry);
    s.x = foci_scratch(ctx, (size_t)(a->G * D * rows), entry);
    s.sigma = foci_scratch(ctx, (size_t)(a->G * D), entry);
    s.v = foci_scratch(ctx, (size_t)a->G * square, entry);
    s.turn = foci_scratch(ctx, (size_t)D + 1, entry);
    int64_t *used = foci_scratch(ctx, (size_t)a->G, sizeof *used);
    found->list = foci_scratch(ctx, (size_t)count, sizeof *found->list);
    found->maps = foci_scratch(ctx, (size_t)(count * (D + rows)), entry);
    focal_status status = FOCAL_ENOMEM;
    if (!s.root || !s.inverse || !s.work || !s.x || !s.sigma || !s.v || !s.turn || !used ||
        !found->list || !found->maps)
        goto done;
    for (int64_t n = 0; n < D / 2 && a->rope_freq; n++)
        mean_turn((double)a->rope_freq[n], a->distance_min, a->distance_max, s.turn + 2 * n);
    for (int64_t n = 0; n < count; n++) {
        found->list[n].key_map = found->maps + n * (D + rows);
        found->list[n].query_map = found->list[n].key_map + D;
    }
    foci_parallel(ctx, head_count, root_item, &s);
    foci_parallel(ctx, a->G, block_item, &s);
    const int64_t span = a->G / a->routers; /* key heads of a router */
    for (int64_t r = 0; r < a->routers; r++)
        lead(&s, r * span, (r + 1) * span, used, found->list + r * a->R);
    status = FOCAL_OK;
done:
    free_heads(ctx, &s, used);
    return status;
}

void foci_route_free_directions(focal_ctx *ctx, foci_route_directions *found)
{
    foci_scratch_free(ctx, found->list);
    foci_scratch_free(ctx, found->maps);
}
