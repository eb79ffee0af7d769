/* Centroids by spherical k-means on the unit zk of all tokens: from K random tokens, each round
 * E <- unit(sum of the tokens nearest to it + 1e-3 E). */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/random.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"
#include "ops/route/route_start.h"

enum { DEFAULT_ROUNDS = 12 };

typedef struct kmeans_job {
    const focal_route_start_args *a;
    int64_t router, width, piece_count;
    double *z;    /* (T,R) unit zk */
    double *e;    /* (K,R) */
    double *part; /* (pieces, K, R) sums of members */
} kmeans_job;

static void make_unit(double *x, int64_t count)
{
    double sum = 0.0;
    for (int64_t n = 0; n < count; n++) sum += x[n] * x[n];
    for (int64_t n = 0; n < count && sum > 0.0; n++) x[n] /= sqrt(sum);
}

static void project_piece(void *arg, int64_t piece, int32_t thread)
{
    const kmeans_job *job = arg;
    const focal_route_start_args *a = job->a;
    const int64_t R = job->width, begin = piece * FOCI_ROUTE_PIECE;
    const int64_t end = foci_min64(begin + FOCI_ROUTE_PIECE, a->T);
    const float *p = a->pk + job->router * a->C * R, *offset = a->ak + job->router * R;
    (void)thread;
    for (int64_t t = begin; t < end; t++) {
        double *z = job->z + t * R;
        for (int64_t n = 0; n < R; n++) z[n] = (double)offset[n];
        for (int64_t c = 0; c < a->C; c++)
            for (int64_t n = 0; n < R; n++)
                z[n] += (double)a->h[t * a->C + c] * (double)p[c * R + n];
        make_unit(z, R);
    }
}

static void assign_piece(void *arg, int64_t piece, int32_t thread)
{
    const kmeans_job *job = arg;
    const int64_t R = job->width, K = job->a->K, begin = piece * FOCI_ROUTE_PIECE;
    const int64_t end = foci_min64(begin + FOCI_ROUTE_PIECE, job->a->T);
    double *part = job->part + piece * K * R;
    (void)thread;
    memset(part, 0, (size_t)(K * R) * sizeof *part);
    for (int64_t t = begin; t < end; t++) {
        const double *z = job->z + t * R;
        int64_t best = 0;
        double highest = -HUGE_VAL;
        for (int64_t c = 0; c < K; c++) {
            double dot = 0.0;
            for (int64_t n = 0; n < R; n++) dot += z[n] * job->e[c * R + n];
            if (!(dot > highest)) continue;
            highest = dot;
            best = c;
        }
        for (int64_t n = 0; n < R; n++) part[best * R + n] += z[n];
    }
}

/* K different tokens, or all of them in turn when there are fewer. */
static void choose_tokens(const kmeans_job *job, int64_t *tokens)
{
    const focal_route_start_args *a = job->a;
    uint64_t draw = 0;
    for (int64_t n = 0; n < a->K; n++) {
        bool is_new = false;
        tokens[n] = n % a->T;
        while (!is_new && a->T >= a->K) {
            tokens[n] = foci_random_below(a->seed, (uint64_t)job->router, draw++, (uint32_t)a->T);
            is_new = true;
            for (int64_t m = 0; m < n; m++) is_new = is_new && tokens[m] != tokens[n];
        }
    }
}

static void run_rounds(focal_ctx *ctx, kmeans_job *job)
{
    const focal_route_start_args *a = job->a;
    const int64_t R = job->width, count = a->K * R;
    const int32_t rounds = a->kmeans_rounds ? a->kmeans_rounds : DEFAULT_ROUNDS;
    int64_t tokens[FOCAL_MAX_GROUPS] = {0};
    foci_parallel(ctx, job->piece_count, project_piece, job);
    choose_tokens(job, tokens);
    for (int64_t c = 0; c < a->K; c++)
        memcpy(job->e + c * R, job->z + tokens[c] * R, (size_t)R * sizeof *job->e);
    for (int32_t round = 0; round < rounds; round++) {
        foci_parallel(ctx, job->piece_count, assign_piece, job);
        for (int64_t n = 0; n < count; n++) {
            job->e[n] *= 1e-3;
            for (int64_t p = 0; p < job->piece_count; p++) job->e[n] += job->part[p * count + n];
        }
        for (int64_t c = 0; c < a->K; c++) make_unit(job->e + c * R, R);
    }
    for (int64_t n = 0; n < count; n++) a->e[job->router * count + n] = (float)job->e[n];
}

focal_status foci_route_find_centroids(focal_ctx *ctx, const focal_route_start_args *a,
                                       int64_t router)
{
    kmeans_job job = {.a = a, .router = router, .width = a->R};
    job.piece_count = foci_pieces(a->T, FOCI_ROUTE_PIECE);
    const int64_t count = a->K * job.width;
    job.z = foci_scratch(ctx, (size_t)(a->T * job.width), sizeof(double));
    job.e = foci_scratch(ctx, (size_t)count, sizeof(double));
    job.part = foci_scratch(ctx, (size_t)(job.piece_count * count), sizeof(double));
    const bool has_memory = job.z && job.e && job.part;
    if (has_memory) run_rounds(ctx, &job);
    foci_scratch_free(ctx, job.z);
    foci_scratch_free(ctx, job.e);
    foci_scratch_free(ctx, job.part);
    return has_memory ? FOCAL_OK : FOCAL_ENOMEM;
}
