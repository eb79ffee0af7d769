/* The paper's balance: Sinkhorn in the log domain over the tokens of one sequence, and its gradient
 * through every round. g = exp(s + u + v) with one u a token and one v a group; a round is
 *     v_c = log(T/K) - log sum_t exp(s_tc + u_t),    u_t = -log sum_c exp(s_tc + v_c),
 * from u = 0; where a sum has nothing but -inf to add up, that v or u is 0 and the entries stay as
 * they are. u follows from v, so the K-vectors v of the rounds are all that backward stores.
 * Sums over tokens are made a piece at a time and merged in order. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"

enum { MAX_ROUNDS = 1 << 20 };

typedef struct sinkhorn_job {
    int32_t T, routers, K;
    int64_t columns, pieces; /* routers * K */
    const float *s, *dg;
    float *g, *ds;
    const double *v;      /* (routers, K) behind the u of this pass; NULL: u = 0 */
    const double *v_next; /* backward: the v that this pass's column sums made */
    const double *dv;     /* backward: its gradient */
    double *part;         /* (pieces, routers, K) a sum of each piece */
    double *part_max;     /* (pieces, routers, K) forward: the largest exponent in it */
} sinkhorn_job;

typedef struct piece_range {
    int64_t begin, end;
} piece_range;

static piece_range piece_of(const sinkhorn_job *job, int64_t piece)
{
    const int64_t begin = piece * FOCI_ROUTE_PIECE;
    return (piece_range){begin, foci_min64(begin + FOCI_ROUTE_PIECE, job->T)};
}

/* What exponents are taken relative to: their maximum, but 0 where all are -inf, so that exp gives
 * 0 and not NaN. */
static double base_of(double max)
{
    return max == -HUGE_VAL ? 0.0 : max;
}

/* u of one token: -log sum_c exp(s_c + v_c); 0 without v, and for a token without a group. */
static double row_offset(const float *s, const double *v, int32_t K)
{
    if (!v) return 0.0;
    double max = (double)s[0] + v[0];
    for (int32_t c = 1; c < K; c++) max = fmax(max, (double)s[c] + v[c]);
    const double base = base_of(max);
    double sum = exp((double)s[0] + v[0] - base);
    for (int32_t c = 1; c < K; c++) sum += exp((double)s[c] + v[c] - base);
    return sum == 0.0 ? 0.0 : -(base + log(sum));
}

/* One piece's max_t and sum_t exp(. - max) of s + u, for every column. */
static void column_piece(void *arg, int64_t piece, int32_t thread)
{
    const sinkhorn_job *job = arg;
    const piece_range range = piece_of(job, piece);
    double u[FOCI_ROUTE_PIECE];
    (void)thread;
    for (int64_t r = 0; r < job->routers; r++) {
        double *max = job->part_max + piece * job->columns + r * job->K;
        double *sum = job->part + piece * job->columns + r * job->K;
        for (int32_t c = 0; c < job->K; c++) max[c] = -HUGE_VAL;
        for (int32_t c = 0; c < job->K; c++) sum[c] = 0.0;
        for (int64_t t = range.begin; t < range.end; t++) {
            const float *s = job->s + t * job->columns + r * job->K;
            const double offset = row_offset(s, job->v ? job->v + r * job->K : NULL, job->K);
            u[t - range.begin] = offset;
            for (int32_t c = 0; c < job->K; c++) max[c] = fmax(max[c], (double)s[c] + offset);
        }
        for (int64_t t = range.begin; t < range.end; t++) {
            const float *s = job->s + t * job->columns + r * job->K;
            for (int32_t c = 0; c < job->K; c++)
                sum[c] += exp((double)s[c] + u[t - range.begin] - base_of(max[c]));
        }
    }
}

/* v = log(T/K) - log sum_t exp(s + u); 0 for a group without tokens. */
static void merge_columns(const sinkhorn_job *job, double *v)
{
    for (int64_t n = 0; n < job->columns; n++) {
        const double *part = job->part + n, *part_max = job->part_max + n;
        double max = part_max[0];
        for (int64_t p = 1; p < job->pieces; p++) max = fmax(max, part_max[p * job->columns]);
        const double base = base_of(max);
        double sum = part[0] * exp(part_max[0] - base);
        for (int64_t p = 1; p < job->pieces; p++)
            sum += part[p * job->columns] * exp(part_max[p * job->columns] - base);
        v[n] = sum == 0.0 ? 0.0 : log((double)job->T / job->K) - (base + log(sum));
    }
}

/* v of each round, (rounds, routers, K). */
static void run_rounds(focal_ctx *ctx, sinkhorn_job *job, int32_t rounds, double *v)
{
    for (int64_t n = 0; n < rounds; n++) {
        job->v = n > 0 ? v + (n - 1) * job->columns : NULL;
        foci_parallel(ctx, job->pieces, column_piece, job);
        merge_columns(job, v + n * job->columns);
    }
    job->v = v + (rounds - 1) * job->columns;
}

static void soft_piece(void *arg, int64_t piece, int32_t thread)
{
    const sinkhorn_job *job = arg;
    const piece_range range = piece_of(job, piece);
    (void)thread;
    for (int64_t n = range.begin * job->routers; n < range.end * job->routers; n++) {
        const float *s = job->s + n * job->K;
        const double *v = job->v + n % job->routers * job->K;
        const double u = row_offset(s, v, job->K);
        for (int32_t c = 0; c < job->K; c++)
            job->g[n * job->K + c] = (float)exp((double)s[c] + u + v[c]);
    }
}

/* The last rows: g = exp(s + u + v) = softmax(s + v). ds begins as g (dg - g.dg), and dv is its
 * sum over tokens. */
static void soft_piece_backward(void *arg, int64_t piece, int32_t thread)
{
    const sinkhorn_job *job = arg;
    const piece_range range = piece_of(job, piece);
    double *dv = job->part + piece * job->columns;
    (void)thread;
    memset(dv, 0, (size_t)job->columns * sizeof *dv);
    for (int64_t n = range.begin * job->routers; n < range.end * job->routers; n++) {
        const int64_t column = n % job->routers * job->K;
        const float *s = job->s + n * job->K, *dg = job->dg + n * job->K;
        const double *v = job->v + column, u = row_offset(s, v, job->K);
        double g[FOCAL_MAX_GROUPS], dot = 0.0;
        for (int32_t c = 0; c < job->K; c++) {
            g[c] = exp((double)s[c] + u + v[c]);
            dot += g[c] * (double)dg[c];
        }
        for (int32_t c = 0; c < job->K; c++) {
            const double dy = g[c] * ((double)dg[c] - dot);
            job->ds[n * job->K + c] = (float)dy;
            dv[column + c] += dy;
        }
    }
}

/* One round. v_next = log(T/K) - log sum_t exp(s + u) gives d(s + u)_tc = -dv_c q_tc with q the
 * softmax over tokens; u = -log sum_c exp(s + v) gives d(s + v)_tc = -du_t p_tc with p the softmax
 * over groups, and du_t = sum_c d(s + u)_tc. */
static void round_piece_backward(void *arg, int64_t piece, int32_t thread)
{
    const sinkhorn_job *job = arg;
    const piece_range range = piece_of(job, piece);
    const double log_share = log((double)job->T / job->K);
    double *dv = job->part + piece * job->columns;
    (void)thread;
    memset(dv, 0, (size_t)job->columns * sizeof *dv);
    for (int64_t n = range.begin * job->routers; n < range.end * job->routers; n++) {
        const int64_t column = n % job->routers * job->K;
        const float *s = job->s + n * job->K;
        const double *v = job->v ? job->v + column : NULL, u = row_offset(s, v, job->K);
        double dy[FOCAL_MAX_GROUPS], du = 0.0;
        for (int32_t c = 0; c < job->K; c++) {
            const double q = exp((double)s[c] + u + job->v_next[column + c] - log_share);
            dy[c] = -job->dv[column + c] * q;
            du += dy[c];
        }
        for (int32_t c = 0; c < job->K && v; c++) {
            const double dx = -du * exp((double)s[c] + v[c] + u);
            dy[c] += dx;
            dv[column + c] += dx;
        }
        for (int32_t c = 0; c < job->K; c++)
            job->ds[n * job->K + c] = (float)((double)job->ds[n * job->K + c] + dy[c]);
    }
}

static void merge_sums(const sinkhorn_job *job, double *sum)
{
    memset(sum, 0, (size_t)job->columns * sizeof *sum);
    for (int64_t p = 0; p < job->pieces; p++)
        for (int64_t n = 0; n < job->columns; n++) sum[n] += job->part[p * job->columns + n];
}

static focal_status check_call(focal_ctx *ctx, const char *what, const sinkhorn_job *job,
                               int32_t rounds)
{
    FOCAL_TRY(foci_route_check_sizes(ctx, what, job->T, job->routers, job->K));
    if (rounds < 1 || rounds > MAX_ROUNDS)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: rounds is %d, it must be 1 to %d", what, rounds,
                         MAX_ROUNDS);
    return FOCAL_OK;
}

/* Scratch of a call; *v: (rounds + 1, routers, K), the last row for a gradient. */
static focal_status begin_job(focal_ctx *ctx, sinkhorn_job *job, int32_t rounds, double **v)
{
    job->columns = (int64_t)job->routers * job->K;
    job->pieces = foci_pieces(job->T, FOCI_ROUTE_PIECE);
    const size_t columns = (size_t)job->columns, pieces = (size_t)job->pieces;
    *v = foci_scratch(ctx, columns * ((size_t)rounds + 1), sizeof(double));
    job->part = foci_scratch(ctx, columns * pieces, sizeof(double));
    job->part_max = foci_scratch(ctx, columns * pieces, sizeof(double));
    return *v && job->part && job->part_max ? FOCAL_OK : FOCAL_ENOMEM;
}

static void end_job(focal_ctx *ctx, const sinkhorn_job *job, double *v)
{
    foci_scratch_free(ctx, v);
    foci_scratch_free(ctx, job->part);
    foci_scratch_free(ctx, job->part_max);
}

focal_status focal_route_sinkhorn(focal_ctx *ctx, int32_t T, int32_t routers, int32_t K,
                                  int32_t rounds, const float *s, float *g)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!s || !g) return foci_fail(ctx, FOCAL_EINVAL, "sinkhorn: s and g must be set");
    sinkhorn_job job = {.T = T, .routers = routers, .K = K, .s = s};
    job.g = g;
    FOCAL_TRY(check_call(ctx, "sinkhorn", &job, rounds));
    double *v = NULL;
    const focal_status status = begin_job(ctx, &job, rounds, &v);
    if (status == FOCAL_OK) {
        run_rounds(ctx, &job, rounds, v);
        foci_parallel(ctx, job.pieces, soft_piece, &job);
    }
    end_job(ctx, &job, v);
    return status;
}

focal_status focal_route_sinkhorn_backward(focal_ctx *ctx, int32_t T, int32_t routers, int32_t K,
                                           int32_t rounds, const float *s, const float *dg,
                                           float *ds)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!s || !dg || !ds)
        return foci_fail(ctx, FOCAL_EINVAL, "sinkhorn backward: s, dg and ds must be set");
    sinkhorn_job job = {.T = T, .routers = routers, .K = K, .s = s, .dg = dg};
    job.ds = ds;
    FOCAL_TRY(check_call(ctx, "sinkhorn backward", &job, rounds));
    double *v = NULL;
    const focal_status status = begin_job(ctx, &job, rounds, &v);
    if (status == FOCAL_OK) {
        double *dv = v + rounds * job.columns;
        run_rounds(ctx, &job, rounds, v);
        foci_parallel(ctx, job.pieces, soft_piece_backward, &job);
        for (int64_t n = rounds - 1; n >= 0; n--) {
            merge_sums(&job, dv);
            job.dv = dv;
            job.v_next = v + n * job.columns;
            job.v = n > 0 ? v + (n - 1) * job.columns : NULL;
            foci_parallel(ctx, job.pieces, round_piece_backward, &job);
        }
    }
    end_job(ctx, &job, v);
    return status;
}
