/* The causal balance: a few rounds that move beta, the K numbers added to the scores of keys, so
 * that groups fill evenly. Loads are sums over all tokens, made a piece at a time and merged in
 * order, in double. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"

enum { DEFAULT_ROUNDS = 3 };

typedef struct balance_job {
    const focal_balance_args *args;
    int64_t columns, pieces; /* routers * K */
    double *move;            /* (routers, K) how far beta has come since the call began */
    double *part;            /* (pieces, routers, K) sums of loads */
} balance_job;

/* Adds 1/top to each of the top best groups; ties to the lower index, NaN as -inf. */
static void add_best(const double *s, int32_t K, int32_t top, double *load)
{
    bool is_taken[FOCAL_MAX_GROUPS] = {false};
    for (int32_t n = 0; n < top; n++) {
        double highest = -HUGE_VAL;
        int32_t best = -1;
        for (int32_t c = 0; c < K; c++) {
            if (is_taken[c] || (best >= 0 && !(s[c] > highest))) continue;
            best = c;
            highest = isnan(s[c]) ? -HUGE_VAL : s[c];
        }
        if (best < 0) return;
        is_taken[best] = true;
        load[best] += 1.0 / top;
    }
}

/* load = half softmax + half one-hot of the best, summed over the piece's tokens. */
static void load_piece(void *arg, int64_t piece, int32_t thread)
{
    const balance_job *job = arg;
    const focal_balance_args *a = job->args;
    const int64_t begin = piece * FOCI_ROUTE_PIECE * a->routers;
    const int64_t end =
        foci_min64(begin + FOCI_ROUTE_PIECE * (int64_t)a->routers, (int64_t)a->T * a->routers);
    double *part = job->part + piece * job->columns;
    (void)thread;
    memset(part, 0, (size_t)job->columns * sizeof *part);
    for (int64_t n = begin; n < end; n++) {
        const int64_t column = n % a->routers * a->K;
        double s[FOCAL_MAX_GROUPS], hard[FOCAL_MAX_GROUPS] = {0}, max = -HUGE_VAL, sum = 0.0;
        for (int32_t c = 0; c < a->K; c++) {
            s[c] = (double)a->sk[n * a->K + c] + job->move[column + c];
            max = fmax(max, s[c]);
        }
        add_best(s, a->K, a->top, hard);
        for (int32_t c = 0; c < a->K; c++) {
            s[c] = exp(s[c] - max);
            sum += s[c];
        }
        for (int32_t c = 0; c < a->K; c++) part[column + c] += 0.5 * s[c] / sum + 0.5 * hard[c];
    }
}

static double merged_load(const balance_job *job, int64_t n)
{
    double sum = 0.0;
    for (int64_t p = 0; p < job->pieces; p++) sum += job->part[p * job->columns + n];
    return sum / job->args->T;
}

/* One move of one router's beta; load: (K) before it. */
static void move_beta(const focal_balance_args *a, int64_t router, const double *load, double *move)
{
    const int32_t K = a->K;
    const double rate = (double)a->rate;
    if (a->kind == FOCAL_BALANCE_SIGN) {
        for (int32_t c = 0; c < K; c++) {
            const double missing = 1.0 / K - load[c];
            move[c] += rate * ((missing > 0.0) - (missing < 0.0));
        }
        return;
    }
    double mean = 0.0;
    for (int32_t c = 0; c < K; c++) {
        move[c] -= rate * log(K * load[c] + 0.02);
        mean += (double)a->beta[router * K + c] + move[c];
    }
    for (int32_t c = 0; c < K; c++) move[c] -= mean / K;
}

/* sk came with the old beta in it; the new one is move further. */
static void shift_piece(void *arg, int64_t piece, int32_t thread)
{
    const balance_job *job = arg;
    const focal_balance_args *a = job->args;
    const int64_t begin = piece * FOCI_ROUTE_PIECE;
    const int64_t end = foci_min64(begin + FOCI_ROUTE_PIECE, a->T);
    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        float *sk = a->sk + t * job->columns;
        for (int64_t n = 0; n < job->columns; n++) sk[n] = (float)((double)sk[n] + job->move[n]);
    }
}

static focal_status check_args(focal_ctx *ctx, const focal_balance_args *a)
{
    FOCAL_TRY(foci_route_check_sizes(ctx, "balance", a->T, a->routers, a->K));
    if (a->kind != FOCAL_BALANCE_LOG && a->kind != FOCAL_BALANCE_SIGN)
        return foci_fail(ctx, FOCAL_EINVAL, "balance: kind %d is neither log nor sign",
                         (int)a->kind);
    if (a->top < 1 || a->top > a->K)
        return foci_fail(ctx, FOCAL_EINVAL, "balance: top is %d, it must be 1 to K = %d", a->top,
                         a->K);
    if (a->rounds < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "balance: rounds is %d, it must not be negative",
                         a->rounds);
    if (!isfinite(a->rate))
        return foci_fail(ctx, FOCAL_EINVAL, "balance: rate must be a finite number");
    if (!a->sk || !a->beta) return foci_fail(ctx, FOCAL_EINVAL, "balance: sk and beta must be set");
    return FOCAL_OK;
}

focal_status focal_route_balance(focal_ctx *ctx, const focal_balance_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    if (!args) return foci_fail(ctx, FOCAL_EINVAL, "balance: args must be set");
    FOCAL_TRY(check_args(ctx, args));
    const int32_t K = args->K, rounds = args->rounds ? args->rounds : DEFAULT_ROUNDS;
    balance_job job = {.args = args, .columns = (int64_t)args->routers * K};
    job.pieces = foci_pieces(args->T, FOCI_ROUTE_PIECE);
    job.move = foci_scratch(ctx, (size_t)job.columns, sizeof(double));
    job.part = foci_scratch(ctx, (size_t)job.columns * (size_t)job.pieces, sizeof(double));
    if (!job.move || !job.part) {
        foci_scratch_free(ctx, job.move);
        foci_scratch_free(ctx, job.part);
        return FOCAL_ENOMEM;
    }
    memset(job.move, 0, (size_t)job.columns * sizeof *job.move);
    for (int32_t round = 0; round < rounds; round++) {
        foci_parallel(ctx, job.pieces, load_piece, &job);
        for (int64_t r = 0; r < args->routers; r++) {
            double load[FOCAL_MAX_GROUPS] = {0};
            for (int32_t c = 0; c < K; c++) {
                load[c] = merged_load(&job, r * K + c);
                if (args->load) args->load[r * K + c] = (float)load[c];
            }
            move_beta(args, r, load, job.move + r * K);
        }
    }
    for (int64_t n = 0; n < job.columns; n++) {
        const float old = args->beta[n];
        args->beta[n] = (float)((double)old + job.move[n]);
        job.move[n] = (double)args->beta[n] - (double)old; /* what sk must follow exactly */
    }
    foci_parallel(ctx, job.pieces, shift_piece, &job);
    foci_scratch_free(ctx, job.move);
    foci_scratch_free(ctx, job.part);
    return FOCAL_OK;
}
