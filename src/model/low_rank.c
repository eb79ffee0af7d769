/* Low-rank additions: their memory, and their products. The middle of a product has as many columns
 * as the rank, and so is scaled where it is smallest. */
#include "model/low_rank.h"

#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/error.h"
#include "model/config.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/matmul_grads.h"

/* ---- Memory ---- */

static int64_t numbers_of(foci_low_rank_size size, int32_t rank)
{
    return ((int64_t)size.N + size.K) * rank;
}

static focal_status check_shape(focal_ctx *ctx, const foci_low_ranks_shape *s, int64_t *count)
{
    *count = 0;
    if (s->L < 1 || s->L > FOCI_MAX_LAYERS)
        return foci_fail(ctx, FOCAL_EINVAL, "lora: %d layers, 1 to %d are possible", s->L,
                         FOCI_MAX_LAYERS);
    if (s->rank < 1 || s->rank > FOCI_MAX_LOW_RANK)
        return foci_fail(ctx, FOCAL_EINVAL, "lora: rank %d, 1 to %d are possible", s->rank,
                         FOCI_MAX_LOW_RANK);
    if (!isfinite(s->alpha)) return foci_fail(ctx, FOCAL_EINVAL, "lora: an alpha of %g", s->alpha);
    for (int32_t n = 0; n < s->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank_size size = s->sizes[n][place];
            if (size.N == 0) continue;
            if (size.N < 1 || size.N > FOCI_MAX_HIDDEN || size.K < 1 || size.K > FOCI_MAX_HIDDEN)
                return foci_fail(ctx, FOCAL_EINVAL,
                                 "lora: a layer of %d x %d, 1 to %d are possible", size.N, size.K,
                                 FOCI_MAX_HIDDEN);
            *count += numbers_of(size, s->rank);
        }
    if (*count == 0) return foci_fail(ctx, FOCAL_EINVAL, "lora: it adds to no layer");
    return FOCAL_OK;
}

static void point_into(foci_low_ranks *to, const foci_low_rank_size (*sizes)[FOCI_LINEAR_PLACES])
{
    const double rank = to->rank;
    const float scale = (float)(to->alpha / (to->is_root_scaled ? sqrt(rank) : rank));
    float *next = to->numbers;
    memset(to->layers, 0, (size_t)to->L * sizeof *to->layers);
    for (int32_t n = 0; n < to->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank_size size = sizes[n][place];
            if (size.N == 0) continue;
            foci_low_rank *low = &to->layers[n][place];
            *low = (foci_low_rank){.N = size.N, .K = size.K, .rank = to->rank, .scale = scale};
            low->a = next;
            low->b = next + (int64_t)to->rank * size.K;
            next += numbers_of(size, to->rank);
        }
}

focal_status foci_low_ranks_new(focal_ctx *ctx, const foci_low_ranks_shape *shape,
                                foci_low_ranks **out)
{
    int64_t count;
    *out = NULL;
    FOCAL_TRY(check_shape(ctx, shape, &count));
    foci_low_ranks *low_ranks = foci_alloc(ctx, 1, sizeof *low_ranks);
    if (!low_ranks) return FOCAL_ENOMEM;
    *low_ranks = (foci_low_ranks){.L = shape->L,
                                  .rank = shape->rank,
                                  .alpha = shape->alpha,
                                  .is_root_scaled = shape->is_root_scaled,
                                  .number_count = count};
    low_ranks->layers = foci_alloc(ctx, (size_t)shape->L, sizeof *low_ranks->layers);
    low_ranks->numbers = foci_alloc(ctx, (size_t)count, sizeof *low_ranks->numbers);
    if (!low_ranks->layers || !low_ranks->numbers) {
        foci_low_ranks_free(ctx, low_ranks);
        return FOCAL_ENOMEM;
    }
    memset(low_ranks->numbers, 0, (size_t)count * sizeof *low_ranks->numbers);
    point_into(low_ranks, shape->sizes);
    *out = low_ranks;
    return FOCAL_OK;
}

static void copy_numbers(const foci_low_rank *from, const foci_low_rank *to)
{
    if (!from->a) return;
    memcpy(to->a, from->a, (size_t)from->rank * (size_t)from->K * sizeof *to->a);
    memcpy(to->b, from->b, (size_t)from->rank * (size_t)from->N * sizeof *to->b);
}

focal_status foci_low_ranks_copy(focal_ctx *ctx, const foci_low_ranks *from, foci_low_ranks **out)
{
    *out = NULL;
    foci_low_rank_size(*sizes)[FOCI_LINEAR_PLACES] =
        foci_alloc(ctx, (size_t)from->L, sizeof *sizes);
    if (!sizes) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < from->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &from->layers[n][place];
            sizes[n][place] = (foci_low_rank_size){low->N, low->K};
        }
    const foci_low_ranks_shape shape = {.L = from->L,
                                        .rank = from->rank,
                                        .alpha = from->alpha,
                                        .is_root_scaled = from->is_root_scaled,
                                        .sizes =
                                            (const foci_low_rank_size(*)[FOCI_LINEAR_PLACES])sizes};
    const focal_status status = foci_low_ranks_new(ctx, &shape, out);
    foci_free(ctx, sizes);
    if (status != FOCAL_OK) return status;
    for (int32_t n = 0; n < from->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++)
            copy_numbers(&from->layers[n][place], &(*out)->layers[n][place]);
    return FOCAL_OK;
}

void foci_low_ranks_free(focal_ctx *ctx, foci_low_ranks *low_ranks)
{
    if (!low_ranks) return;
    foci_free(ctx, low_ranks->layers);
    foci_free(ctx, low_ranks->numbers);
    foci_free(ctx, low_ranks);
}

/* ---- Products ---- */

/* h = x A^T. */
static focal_status go_in(focal_ctx *ctx, const foci_low_rank_args *args)
{
    const foci_low_rank *low = args->low;
    const foci_matmul_args in = {.M = args->T,
                                 .N = low->rank,
                                 .K = low->K,
                                 .x = args->x,
                                 .x_dtype = args->dtype,
                                 .x_stride = low->K,
                                 .w = low->a,
                                 .w_dtype = FOCAL_F32,
                                 .out = args->h,
                                 .out_dtype = FOCAL_F32,
                                 .out_stride = low->rank};
    return foci_matmul(ctx, &in);
}

/* h = dy B. */
static focal_status come_back(focal_ctx *ctx, const foci_low_rank_args *args)
{
    const foci_low_rank *low = args->low;
    const foci_matmul_dx_args back = {.M = args->T,
                                      .N = low->N,
                                      .K = low->rank,
                                      .dy = args->dy,
                                      .dy_dtype = args->dtype,
                                      .dy_stride = args->dy_stride,
                                      .w = low->b,
                                      .w_dtype = FOCAL_F32,
                                      .dx = args->h,
                                      .dx_dtype = FOCAL_F32,
                                      .dx_stride = low->rank};
    return foci_matmul_dx(ctx, &back);
}

/* to = scale h, in the type that it points to. */
static void scale_to(const foci_low_rank_args *args, void *to, focal_dtype dtype)
{
    const int64_t count = args->T * args->low->rank;
    const float scale = args->low->scale;
    float *single = to;
    uint16_t *rounded = to;
    if (dtype == FOCAL_BF16)
        for (int64_t n = 0; n < count; n++) rounded[n] = foci_bf16_from_float(scale * args->h[n]);
    else
        for (int64_t n = 0; n < count; n++) single[n] = scale * args->h[n];
}

focal_status foci_low_rank_forward(focal_ctx *ctx, const foci_low_rank_args *args, float *out,
                                   int64_t out_stride)
{
    const foci_low_rank *low = args->low;
    FOCAL_TRY(go_in(ctx, args));
    scale_to(args, args->h, FOCAL_F32);
    foci_matmul_args last = {.M = args->T,
                             .N = low->N,
                             .K = low->rank,
                             .x = args->h,
                             .x_dtype = FOCAL_F32,
                             .x_stride = low->rank,
                             .w = low->b,
                             .w_dtype = FOCAL_F32,
                             .adds = true,
                             .out_dtype = FOCAL_F32,
                             .out_stride = out_stride};
    last.out = out;
    return foci_matmul(ctx, &last);
}

focal_status foci_low_rank_dx(focal_ctx *ctx, const foci_low_rank_args *args, void *dx,
                              focal_dtype dx_dtype)
{
    const foci_low_rank *low = args->low;
    FOCAL_TRY(come_back(ctx, args));
    scale_to(args, args->h_act, args->dtype);
    const foci_matmul_dx_args last = {.M = args->T,
                                      .N = low->rank,
                                      .K = low->K,
                                      .dy = args->h_act,
                                      .dy_dtype = args->dtype,
                                      .dy_stride = low->rank,
                                      .w = low->a,
                                      .w_dtype = FOCAL_F32,
                                      .adds = true,
                                      .dx = dx,
                                      .dx_dtype = dx_dtype,
                                      .dx_stride = low->K};
    return foci_matmul_dx(ctx, &last);
}

focal_status foci_low_rank_dw(focal_ctx *ctx, const foci_low_rank_args *args, float *da, float *db)
{
    const foci_low_rank *low = args->low;
    foci_matmul_dw_args of_a = {.M = args->T,
                                .N = low->rank,
                                .K = low->K,
                                .dtype = args->dtype,
                                .dy = args->h_act,
                                .dy_stride = low->rank,
                                .x = args->x,
                                .x_stride = low->K,
                                .adds = true};
    foci_matmul_dw_args of_b = {.M = args->T,
                                .N = low->N,
                                .K = low->rank,
                                .dtype = args->dtype,
                                .dy = args->dy,
                                .dy_stride = args->dy_stride,
                                .x = args->h_act,
                                .x_stride = low->rank,
                                .adds = true};
    of_a.dw = da;
    of_b.dw = db;
    FOCAL_TRY(go_in(ctx, args));
    scale_to(args, args->h_act, args->dtype);
    FOCAL_TRY(foci_matmul_dw(ctx, &of_b));
    FOCAL_TRY(come_back(ctx, args));
    scale_to(args, args->h_act, args->dtype);
    return foci_matmul_dw(ctx, &of_a);
}
