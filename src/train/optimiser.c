/* A step over all parameters, one after the other. */
#include "train/optimiser.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "ops/adamw/adamw.h"
#include "ops/matmul/matmul.h"
#include "ops/muon/muon.h"
#include "ops/sum_squares.h"

focal_status foci_optimiser_new(foci_trainable *trainable, const foci_optimiser_options *options,
                                foci_optimiser **out)
{
    focal_ctx *ctx = trainable->ctx;
    *out = NULL;
    foci_optimiser *o = foci_alloc(ctx, 1, sizeof *o);
    if (!o) return FOCAL_ENOMEM;
    const size_t count = trainable->gradient_count;
    *o = (foci_optimiser){.trainable = trainable, .options = *options};
    o->first = foci_alloc(ctx, count, sizeof *o->first);
    o->second = foci_alloc(ctx, count, sizeof *o->second);
    if (!o->first || !o->second) {
        foci_optimiser_free(o);
        return FOCAL_ENOMEM;
    }
    memset(o->first, 0, count * sizeof *o->first);
    memset(o->second, 0, count * sizeof *o->second);
    *out = o;
    return FOCAL_OK;
}

void foci_optimiser_free(foci_optimiser *optimiser)
{
    if (!optimiser) return;
    focal_ctx *ctx = optimiser->trainable->ctx;
    foci_free(ctx, optimiser->first);
    foci_free(ctx, optimiser->second);
    foci_free(ctx, optimiser);
}

focal_status foci_optimiser_norm(const foci_optimiser *optimiser, foci_gradient_norm *norm)
{
    const foci_trainable *t = optimiser->trainable;
    foci_square_sum sum; /* the gaps between tensors are 0 */
    FOCAL_TRY(foci_sum_squares(t->ctx, t->gradients, (int64_t)t->gradient_count, &sum));
    *norm = (foci_gradient_norm){sqrt(sum.sum), sum.odd_count};
    return FOCAL_OK;
}

static focal_status multiply(focal_ctx *ctx, const foci_muon_factors *f)
{
    const foci_matmul_args args = {.M = f->M,
                                   .N = f->N,
                                   .K = f->K,
                                   .x = f->x,
                                   .x_dtype = f->dtype,
                                   .x_stride = f->K,
                                   .w = f->w,
                                   .w_dtype = f->dtype,
                                   .w_is_transposed = f->w_is_transposed,
                                   .out = f->out,
                                   .out_dtype = FOCAL_F32,
                                   .out_stride = f->out_stride};
    return foci_matmul(ctx, &args);
}

static bool is_of_groups(const foci_trainable *t, const foci_param *param)
{
    const foci_groups *groups = t->groups;
    for (int64_t n = 0; groups && n < groups->shape.L; n++)
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++)
            if (param->weights == groups->layers[n].tensors[which]) return true;
    return false;
}

/* The step of one parameter, numbered from 1 on; below that it stays. `at` is the place of its
 * gradient. */
static focal_status move(const foci_optimiser *o, const foci_param *param, size_t at, double rate,
                         double factor)
{
    const int64_t alone = o->options.group_steps;
    const int64_t held = alone > 0 && !is_of_groups(o->trainable, param) ? alone : 0;
    if (o->steps < held) return FOCAL_OK;
    focal_ctx *ctx = o->trainable->ctx;
    const foci_optimiser_options *options = &o->options;
    const double decay = param->is_matrix ? options->decay : 0.0;
    if (options->has_muon && param->is_matrix && param->is_in_layer) {
        const foci_muon_args args = {.rows = (int32_t)param->rows,
                                     .cols = (int32_t)param->cols,
                                     .weights = param->weights,
                                     .gradient = param->gradient,
                                     .momentum = o->first + at,
                                     .rounded = param->rounded,
                                     .is_cleared = true,
                                     .rule = FOCI_MUON_AS_ADAMW,
                                     .dtype = o->trainable->model->precision,
                                     .rate = rate,
                                     .decay = decay,
                                     .beta = options->momentum,
                                     .factor = factor,
                                     .multiply = multiply};
        return foci_muon(ctx, &args);
    }
    const foci_adamw_args args = {.count = param->rows * param->cols,
                                  .weights = param->weights,
                                  .gradient = param->gradient,
                                  .first = o->first + at,
                                  .second = o->second + at,
                                  .rounded = param->rounded,
                                  .is_cleared = true,
                                  .step = o->steps - held + 1,
                                  .rate = rate,
                                  .beta1 = options->beta1,
                                  .beta2 = options->beta2,
                                  .epsilon = options->epsilon,
                                  .decay = decay,
                                  .factor = factor};
    return foci_adamw(ctx, &args);
}

focal_status foci_optimiser_step(foci_optimiser *optimiser, double rate, double norm)
{
    const foci_trainable *t = optimiser->trainable;
    const double clip = optimiser->options.clip;
    const double factor = clip > 0.0 && norm > clip ? clip / norm : 1.0;
    for (int32_t n = 0; n < t->param_count; n++) {
        const foci_param *param = &t->params[n];
        if (!param->gradient) continue;
        FOCAL_TRY(move(optimiser, param, (size_t)(param->gradient - t->gradients), rate, factor));
    }
    optimiser->steps++;
    return FOCAL_OK;
}

void foci_optimiser_skip(foci_optimiser *optimiser)
{
    foci_trainable *t = optimiser->trainable;
    memset(t->gradients, 0, t->gradient_count * sizeof *t->gradients);
}
