/* What the blocks of a forward pass are made of: products, norms, and the residual stream that they
 * read and add to. */
#include "focal/quant.h"
#include "model/forward_pass.h"
#include "ops/gated.h"
#include "ops/residual/add.h"

static void add_cost(const foci_forward *p, const foci_linear *w, foci_cost *cost)
{
    const double count = (double)w->N * (double)w->K;
    cost->flops += 2.0 * p->T * count;
    cost->bytes += count / focal_dtype_block(w->dtype) * (double)focal_dtype_block_bytes(w->dtype);
}

static foci_matmul_args product_args(const foci_forward *p, const void *x, const foci_product *one)
{
    return foci_product_args(one, p->T, x, p->act, p->model->precision == FOCAL_BF16);
}

static focal_status add_low_rank(const foci_forward *p, const void *x, const foci_product *one)
{
    const foci_low_rank_args args = {
        .low = one->w->added, .T = p->T, .dtype = p->act, .x = x, .h = p->low};
    TIMED(p, "lora", foci_no_cost, foci_low_rank_forward(p->ctx, &args, one->out, one->out_stride));
    return FOCAL_OK;
}

focal_status foci_forward_linears(const foci_forward *p, const char *name, const void *x,
                                  const foci_product *products, int32_t count)
{
    foci_matmul_args args[FOCI_MATMUL_SEVERAL];
    foci_cost cost = foci_no_cost;
    for (int32_t n = 0; n < count; n++) {
        args[n] = product_args(p, x, &products[n]);
        add_cost(p, products[n].w, &cost);
    }
    TIMED(p, name, cost, foci_matmul_several(p->ctx, args, count));
    for (int32_t n = 0; n < count; n++)
        if (products[n].w->added) FOCAL_TRY(add_low_rank(p, x, &products[n]));
    return FOCAL_OK;
}

focal_status foci_forward_linear(const foci_forward *p, const char *name, const foci_linear *w,
                                 const void *x, float *out, int64_t out_stride, bool adds)
{
    foci_product one = {.w = w, .out_stride = out_stride, .adds = adds};
    one.out = out;
    return foci_forward_linears(p, name, x, &one, 1);
}

focal_status foci_forward_gated(const foci_forward *p, const foci_product *products, int32_t count)
{
    foci_matmul_args args[2];
    foci_cost cost = foci_no_cost;
    for (int32_t n = 0; n < count; n++) {
        args[n] = product_args(p, p->h, &products[n]);
        add_cost(p, products[n].w, &cost);
    }
    args[0].out = p->hidden;
    args[0].out_dtype = p->act;
    TIMED(p, "feed-forward in", cost,
          foci_matmul_gated(p->ctx, args, count, p->model->config.activation));
    return FOCAL_OK;
}

focal_status foci_forward_normalise(const foci_forward *p, const foci_gain *gain, int32_t rows,
                                    const float *x, void *out, focal_dtype out_dtype)
{
    foci_norm_args args = foci_stream_norm(&p->model->config, gain, rows, x);
    args.out = out;
    args.out_dtype = out_dtype;
    TIMED(p, "norm", foci_no_cost, foci_norm(p->ctx, &args));
    return FOCAL_OK;
}

focal_status foci_forward_convert(const foci_forward *p, int32_t rows, int32_t H, int32_t D,
                                  const float *x, int64_t x_stride, void *out,
                                  focal_dtype out_dtype)
{
    const foci_rope_args args = {.T = rows,
                                 .H = H,
                                 .D = D,
                                 .x = x,
                                 .x_stride = x_stride,
                                 .out = out,
                                 .out_dtype = out_dtype};
    return foci_rope_apply(p->ctx, &args);
}

focal_status foci_forward_read(const foci_forward *p, const foci_gain *gain)
{
    const int32_t C = p->model->config.C;
    if (gain->weight) return foci_forward_normalise(p, gain, p->T, p->x, p->h, p->act);
    return foci_forward_convert(p, p->T, 1, C, p->x, C, p->h, p->act);
}

focal_status foci_forward_join(const foci_forward *p, const char *name, const foci_linear *w,
                               const void *from, const foci_gain *gain)
{
    const int32_t C = p->model->config.C;
    if (!gain->weight) return foci_forward_linear(p, name, w, from, p->x, C, true);
    FOCAL_TRY(foci_forward_linear(p, name, w, from, p->y, C, false));
    FOCAL_TRY(foci_forward_normalise(p, gain, p->T, p->y, p->y, FOCAL_F32));
    return foci_add(p->ctx, p->x, p->x, p->y, (int64_t)p->T * C);
}
