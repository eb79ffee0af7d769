/* What a pass with gradients is made of, each beside its mirror: products, norms, and the residual
 * stream that blocks read and add to. */
#include <string.h>

#include "base/error.h"
#include "model/backward_pass.h"
#include "ops/gated.h"
#include "ops/matmul/matmul_grads.h"
#include "ops/norm/norm_backward.h"
#include "ops/residual/add.h"

const foci_low_rank *foci_pass_added_to(const foci_pass *p, const foci_linear *w)
{
    return p->is_untouched && p->t->low_ranks ? NULL : w->added;
}

static foci_low_rank_args low_rank_args(const foci_pass *p, const foci_low_rank *low, const void *x,
                                        const void *dy, int64_t dy_stride)
{
    return (foci_low_rank_args){.low = low,
                                .T = p->T,
                                .dtype = p->act,
                                .x = x,
                                .dy = dy,
                                .dy_stride = dy_stride,
                                .h = p->low,
                                .h_act = p->low_act};
}

static double product_flops(const foci_pass *p, const foci_linear *w)
{
    return 2.0 * p->T * (double)w->N * (double)w->K;
}

/* It rounds x as the model does where it runs. */
static foci_matmul_args product_args(const foci_pass *p, const void *x, const foci_product *one)
{
    return foci_product_args(one, p->T, x, p->act, p->act == FOCAL_BF16);
}

focal_status foci_pass_multiply_several(const foci_pass *p, const char *name, const void *x,
                                        const foci_product *products, int32_t count)
{
    foci_matmul_args args[FOCI_MATMUL_SEVERAL];
    double flops = 0.0;
    for (int32_t n = 0; n < count; n++) {
        const foci_product *one = &products[n];
        args[n] = product_args(p, x, one);
        flops += product_flops(p, one->w);
    }
    TIMED(p, name, flops, foci_matmul_several(p->ctx, args, count));
    for (int32_t n = 0; n < count; n++) {
        const foci_product *one = &products[n];
        const foci_low_rank *low = foci_pass_added_to(p, one->w);
        if (!low) continue;
        const foci_low_rank_args rows = low_rank_args(p, low, x, NULL, 0);
        TIMED(p, "lora", 0.0, foci_low_rank_forward(p->ctx, &rows, one->out, one->out_stride));
    }
    return FOCAL_OK;
}

focal_status foci_pass_multiply_gated(const foci_pass *p, const foci_kept *a,
                                      const foci_product *in, int32_t count)
{
    const foci_config *c = &p->model->config;
    foci_matmul_args args[2];
    for (int32_t n = 0; n < count; n++) args[n] = product_args(p, a->h_ffn, &in[n]);
    args[0].out = a->hidden;
    args[0].out_dtype = p->act;
    TIMED(p, "feed-forward in", count * product_flops(p, in[0].w),
          foci_matmul_gated(p->ctx, args, count, c->activation));
    return FOCAL_OK;
}

focal_status foci_pass_multiply(const foci_pass *p, const char *name, const foci_linear *w,
                                const void *x, float *out, int64_t out_stride, bool adds)
{
    foci_product one = {.w = w, .out_stride = out_stride, .adds = adds};
    one.out = out;
    return foci_pass_multiply_several(p, name, x, &one, 1);
}

focal_status foci_pass_multiply_back(const foci_pass *p, const char *name, const foci_linear *w,
                                     const void *dy, int64_t dy_stride, void *dx,
                                     focal_dtype dx_dtype, bool adds)
{
    const foci_matmul_dx_args args = {.M = p->T,
                                      .N = w->N,
                                      .K = w->K,
                                      .dy = dy,
                                      .dy_dtype = p->act,
                                      .dy_stride = dy_stride,
                                      .w = w->w,
                                      .w_dtype = w->dtype,
                                      .w_is_transposed = w->is_transposed,
                                      .w_is_interleaved = w->is_interleaved,
                                      .adds = adds,
                                      .dx = dx,
                                      .dx_dtype = dx_dtype,
                                      .dx_stride = w->K};
    TIMED(p, name, product_flops(p, w), foci_matmul_dx(p->ctx, &args));
    const foci_low_rank *low = foci_pass_added_to(p, w);
    if (!low) return FOCAL_OK;
    const foci_low_rank_args rows = low_rank_args(p, low, NULL, dy, dy_stride);
    TIMED(p, "lora, back", 0.0, foci_low_rank_dx(p->ctx, &rows, dx, dx_dtype));
    return FOCAL_OK;
}

focal_status foci_pass_weight_gradient(const foci_pass *p, const char *name, const foci_linear *w,
                                       const foci_linear_grads *grads, const void *dy,
                                       int64_t dy_stride, const void *x)
{
    const foci_low_rank *low = foci_pass_added_to(p, w);
    if (low && grads->low_a) {
        const foci_low_rank_args rows = low_rank_args(p, low, x, dy, dy_stride);
        TIMED(p, "lora, weights", 0.0, foci_low_rank_dw(p->ctx, &rows, grads->low_a, grads->low_b));
    }
    if (!grads->w) return FOCAL_OK;
    const foci_matmul_dw_args args = {.M = p->T,
                                      .N = w->N,
                                      .K = w->K,
                                      .dtype = p->act,
                                      .dy = dy,
                                      .dy_stride = dy_stride,
                                      .x = x,
                                      .x_stride = w->K,
                                      .adds = true,
                                      .dw = grads->w,
                                      .dw_is_transposed = w->is_transposed,
                                      .dbias = grads->bias};
    TIMED(p, name, product_flops(p, w), foci_matmul_dw(p->ctx, &args));
    return FOCAL_OK;
}

focal_status foci_pass_convert(const foci_pass *p, int32_t H, int32_t D, const float *x,
                               int64_t x_stride, void *out, focal_dtype out_dtype)
{
    const foci_rope_args args = {.T = p->T,
                                 .H = H,
                                 .D = D,
                                 .x = x,
                                 .x_stride = x_stride,
                                 .out = out,
                                 .out_dtype = out_dtype};
    return foci_rope_apply(p->ctx, &args);
}

focal_status foci_pass_normalise(const foci_pass *p, const foci_gain *gain, const float *x,
                                 void *out, focal_dtype out_dtype)
{
    foci_norm_args args = foci_stream_norm(&p->model->config, gain, p->T, x);
    args.out = out;
    args.out_dtype = out_dtype;
    TIMED(p, "norm", 0.0, foci_norm(p->ctx, &args));
    return FOCAL_OK;
}

focal_status foci_pass_normalise_back(const foci_pass *p, const foci_gain *gain,
                                      const foci_gain_grads *grads, const float *x, const float *dy,
                                      float *dx, bool adds)
{
    const foci_config *c = &p->model->config;
    foci_norm_backward_args args = {.kind = c->norm,
                                    .T = p->T,
                                    .width = c->C,
                                    .x = x,
                                    .weight = gain->weight,
                                    .weight_offset = c->norm_offset,
                                    .epsilon = c->epsilon,
                                    .dy = dy,
                                    .adds = adds,
                                    .dweight = grads->weight,
                                    .dbias = grads->bias};
    args.dx = dx;
    TIMED(p, "norm, back", 0.0, foci_norm_backward(p->ctx, &args));
    return FOCAL_OK;
}

focal_status foci_pass_read(const foci_pass *p, const foci_gain *gain, const float *x, void *h)
{
    const int32_t C = p->model->config.C;
    if (gain->weight) return foci_pass_normalise(p, gain, x, h, p->act);
    return foci_pass_convert(p, 1, C, x, C, h, p->act);
}

focal_status foci_pass_read_back(const foci_pass *p, const foci_gain *gain,
                                 const foci_gain_grads *grads, const float *x)
{
    if (gain->weight) return foci_pass_normalise_back(p, gain, grads, x, p->dh, p->dx, true);
    return foci_add(p->ctx, p->dx, p->dx, p->dh, (int64_t)p->T * p->model->config.C);
}

focal_status foci_pass_join(const foci_pass *p, const char *name, const foci_linear *w,
                            const void *block, const foci_gain *gain, float *y, const float *from,
                            float *to)
{
    const int64_t count = (int64_t)p->T * p->model->config.C;
    if (!gain->weight) {
        memcpy(to, from, (size_t)count * sizeof *to);
        return foci_pass_multiply(p, name, w, block, to, w->N, true);
    }
    FOCAL_TRY(foci_pass_multiply(p, name, w, block, y, w->N, false));
    FOCAL_TRY(foci_pass_normalise(p, gain, y, to, FOCAL_F32));
    return foci_add(p->ctx, to, to, from, count);
}

focal_status foci_pass_join_back(const foci_pass *p, const foci_gain *gain,
                                 const foci_gain_grads *grads, const float *y)
{
    const int32_t C = p->model->config.C;
    if (!gain->weight) return foci_pass_convert(p, 1, C, p->dx, C, p->dy, p->act);
    FOCAL_TRY(foci_pass_normalise_back(p, gain, grads, y, p->dx, p->dh, false));
    return foci_pass_convert(p, 1, C, p->dh, C, p->dy, p->act);
}
