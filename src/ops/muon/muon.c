/* Muon: the check, the order of passes and products, and the choice of a kernel for the passes. */
#include "ops/muon/muon.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/muon/muon_passes.h"
#include "ops/sum_squares.h"

static const foci_rows_kernel kernels[] = {
    {"avx512", FOCI_AVX512, foci_muon_avx512},
    {"avx2", FOCI_AVX2, foci_muon_avx2},
    {"ref", 0, foci_muon_ref},
};
const foci_rows_op foci_muon_op = {"muon", kernels, FOCAL_COUNT(kernels)};

enum {
    STEPS = 5,
    SYMMETRIC_COLUMNS = 128 /* of a symmetric product at once: enough for a product to be fast */
};
static const double coefficients[] = {3.4445, -4.7750, 2.0315}; /* of X, X^3 and X^5 (5.3.4) */
static const double least_norm = 1e-30; /* far from where 1 / norm leaves float32 */

/* M is the shorter side, N the longer one; a matrix that is taller than wide is turned on the way
 * in and on the way out. */
typedef struct muon_work {
    const foci_muon_args *args;
    int64_t M, N;
    bool is_tall;
    float *wide;   /* (M,N) the momentum to be made orthogonal, then products, then the result */
    float *turned; /* the other way round, where is_tall */
    void *x;       /* (M,N) of the factors' type */
    float *gram, *square; /* (M,M) */
    void *factor;         /* (M,M) of the factors' type: gram itself in float32 */
} muon_work;

static focal_status check_args(focal_ctx *ctx, const foci_muon_args *a)
{
    if (!a || !a->weights || !a->gradient || !a->momentum || !a->multiply)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "muon: weights, gradient, momentum and multiply must be set");
    if (a->rows < 1 || a->cols < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "muon: a matrix of %d x %d: both must be at least 1",
                         a->rows, a->cols);
    if (a->dtype != FOCAL_F32 && a->dtype != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "muon: the factors are %s, they must be f32 or bf16",
                         focal_dtype_name(a->dtype));
    if (a->rule != FOCI_MUON_AS_ADAMW && a->rule != FOCI_MUON_BY_SHAPE)
        return foci_fail(ctx, FOCAL_EINVAL, "muon: there is no rule %d", (int)a->rule);
    const struct {
        const char *name;
        double value, end; /* 0 <= value < end */
    } numbers[] = {{"rate", a->rate, (double)INFINITY},
                   {"decay", a->decay, (double)INFINITY},
                   {"beta", a->beta, 1.0},
                   {"factor", a->factor, (double)INFINITY}};
    for (size_t n = 0; n < FOCAL_COUNT(numbers); n++)
        if (!(numbers[n].value >= 0.0 && numbers[n].value < numbers[n].end))
            return foci_fail(ctx, FOCAL_EINVAL, "muon: %s is %g, it must be 0 or above, below %g",
                             numbers[n].name, numbers[n].value, numbers[n].end);
    return FOCAL_OK;
}

static focal_status run_mix(focal_ctx *ctx, const foci_muon_pass *pass, int64_t count)
{
    return foci_rows_run(ctx, &foci_muon_op, pass, count, 1);
}

static focal_status turn(focal_ctx *ctx, foci_muon_pass *pass)
{
    pass->kind = FOCI_MUON_TURN;
    return foci_rows_run(ctx, &foci_muon_op, pass, foci_pieces(pass->cols, FOCI_MUON_BAND),
                         FOCI_MUON_BAND * pass->rows);
}

static focal_status turn_whole(focal_ctx *ctx, const float *x, int64_t rows, int64_t cols,
                               float *out)
{
    foci_muon_pass pass = {
        .x = x, .rows = rows, .cols = cols, .x_stride = cols, .out_stride = rows};
    pass.out = out;
    return turn(ctx, &pass);
}

/* out (M,M) = x x^T for x (M,K): some columns at a time, each from its diagonal down; what is above
 * is a copy. Nearly half of the work is saved. */
static focal_status multiply_by_own(focal_ctx *ctx, const muon_work *w, const void *x, int64_t K,
                                    float *out)
{
    const int64_t M = w->M, row_bytes = K * (int64_t)focal_dtype_bytes(w->args->dtype);
    for (int64_t first = 0; first < M; first += SYMMETRIC_COLUMNS) {
        const int64_t count = foci_min64(SYMMETRIC_COLUMNS, M - first), below = first + count;
        const void *rows = (const char *)x + first * row_bytes;
        foci_muon_factors product = {.M = M - first,
                                     .N = count,
                                     .K = K,
                                     .dtype = w->args->dtype,
                                     .x = rows,
                                     .w = rows,
                                     .out_stride = M};
        product.out = out + first * M + first;
        FOCAL_TRY(w->args->multiply(ctx, &product));
        foci_muon_pass mirror = {.x = out + below * M + first,
                                 .rows = M - below,
                                 .cols = count,
                                 .x_stride = M,
                                 .out_stride = M};
        mirror.out = out + first * M + below;
        if (below < M) FOCAL_TRY(turn(ctx, &mirror));
    }
    return FOCAL_OK;
}

/* X = what is made orthogonal, divided by its norm (5.3.1 to 5.3.3). */
static focal_status start(focal_ctx *ctx, const muon_work *w)
{
    const int64_t count = w->M * w->N;
    const foci_muon_pass first = {.kind = FOCI_MUON_MOMENTUM, .args = w->args, .out = w->wide};
    FOCAL_TRY(foci_rows_run(ctx, &foci_muon_op, &first, count, 1));
    foci_square_sum squares = {0};
    FOCAL_TRY(foci_sum_squares(ctx, w->wide, count, &squares));
    const double norm = sqrt(squares.sum);
    foci_muon_pass scale = {.kind = FOCI_MUON_MIX,
                            .alpha = norm < least_norm ? 0.0 : 1.0 / norm,
                            .x = w->wide,
                            .out = w->x,
                            .out_dtype = w->args->dtype};
    if (w->is_tall) {
        FOCAL_TRY(turn_whole(ctx, w->wide, w->N, w->M, w->turned));
        scale.x = w->turned;
    }
    return run_mix(ctx, &scale, count);
}

/* A = X X^T, then X <- a X + (b A + c A^2) X (5.3.4). The last X is left in `wide`. */
static focal_status iterate(focal_ctx *ctx, const muon_work *w, bool is_last)
{
    const focal_dtype dtype = w->args->dtype;
    const double *c = coefficients;
    foci_muon_pass pass = {
        .kind = FOCI_MUON_MIX, .alpha = 1.0, .x = w->gram, .out = w->factor, .out_dtype = dtype};
    FOCAL_TRY(multiply_by_own(ctx, w, w->x, w->N, w->gram));
    if (dtype != FOCAL_F32) FOCAL_TRY(run_mix(ctx, &pass, w->M * w->M));
    FOCAL_TRY(multiply_by_own(ctx, w, w->factor, w->M, w->square)); /* A A^T is A^2 */
    pass.alpha = c[1];
    pass.beta = c[2];
    pass.y = w->square;
    FOCAL_TRY(run_mix(ctx, &pass, w->M * w->M));
    const foci_muon_factors product = {.M = w->M,
                                       .N = w->N,
                                       .K = w->M,
                                       .dtype = dtype,
                                       .x = w->factor,
                                       .w = w->x,
                                       .w_is_transposed = true,
                                       .out = w->wide,
                                       .out_stride = w->N};
    FOCAL_TRY(w->args->multiply(ctx, &product));
    pass = (foci_muon_pass){.kind = FOCI_MUON_MIX,
                            .alpha = c[0],
                            .x = w->x,
                            .x_dtype = dtype,
                            .beta = 1.0,
                            .y = w->wide,
                            .out = is_last ? w->wide : w->x,
                            .out_dtype = is_last ? FOCAL_F32 : dtype};
    return run_mix(ctx, &pass, w->M * w->N);
}

/* (5.3.5) */
static focal_status finish(focal_ctx *ctx, const muon_work *w)
{
    const foci_muon_args *a = w->args;
    const double rows = (double)a->rows, cols = (double)a->cols;
    const double size =
        a->rule == FOCI_MUON_AS_ADAMW ? 0.2 * sqrt(fmax(rows, cols)) : sqrt(fmax(1.0, rows / cols));
    const foci_muon_pass pass = {.kind = FOCI_MUON_UPDATE,
                                 .args = a,
                                 .alpha = a->rate * size,
                                 .beta = a->rate * a->decay,
                                 .x = w->is_tall ? w->turned : w->wide};
    if (w->is_tall) FOCAL_TRY(turn_whole(ctx, w->wide, w->M, w->N, w->turned));
    return foci_rows_run(ctx, &foci_muon_op, &pass, w->M * w->N, 1);
}

static focal_status run_steps(focal_ctx *ctx, const muon_work *w)
{
    FOCAL_TRY(start(ctx, w));
    for (int step = 0; step < STEPS; step++) FOCAL_TRY(iterate(ctx, w, step == STEPS - 1));
    return finish(ctx, w);
}

focal_status foci_muon(focal_ctx *ctx, const foci_muon_args *args)
{
    if (!ctx) return FOCAL_EINVAL;
    FOCAL_TRY(check_args(ctx, args));
    const bool is_tall = args->rows > args->cols;
    muon_work w = {.args = args,
                   .M = is_tall ? args->cols : args->rows,
                   .N = is_tall ? args->rows : args->cols,
                   .is_tall = is_tall};
    const size_t whole = (size_t)(w.M * w.N), small = (size_t)(w.M * w.M);
    const size_t bytes = focal_dtype_bytes(args->dtype);
    void *rounded = NULL;
    focal_status status = FOCAL_ENOMEM;
    if (!(w.wide = foci_scratch(ctx, whole, sizeof *w.wide))) goto done;
    if (is_tall && !(w.turned = foci_scratch(ctx, whole, sizeof *w.turned))) goto done;
    if (!(w.x = foci_scratch(ctx, whole, bytes))) goto done;
    if (!(w.gram = foci_scratch(ctx, small, sizeof *w.gram))) goto done;
    if (!(w.square = foci_scratch(ctx, small, sizeof *w.square))) goto done;
    if (args->dtype != FOCAL_F32 && !(rounded = foci_scratch(ctx, small, bytes))) goto done;
    w.factor = args->dtype != FOCAL_F32 ? rounded : w.gram;
    status = run_steps(ctx, &w);
done:
    foci_scratch_free(ctx, rounded);
    foci_scratch_free(ctx, w.square);
    foci_scratch_free(ctx, w.gram);
    foci_scratch_free(ctx, w.x);
    foci_scratch_free(ctx, w.turned);
    foci_scratch_free(ctx, w.wide);
    return status;
}
