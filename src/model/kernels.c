/* The tables of kernels that a model's calls choose from, as one list for people. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "focal/attn.h"
#include "focal/model.h"
#include "focal/route.h"
#include "ops/adamw/adamw.h"
#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"
#include "ops/loss/soft_cap.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/mlp/gate_backward.h"
#include "ops/norm/norm_backward.h"
#include "ops/quant/q8_rows.h"
#include "ops/quant/quant_kernels.h"
#include "ops/rope/rope_backward.h"
#include "ops/route/route_top.h"
#include "ops/sum_squares.h"
#include "ops/temperature/temperature.h"

enum { WIDTH = 64, ROWS = 512 }; /* of the plain calls that kernels are asked about */

static const float zeros[WIDTH];
static float unused[WIDTH]; /* no call is run */

focal_dtype focal_default_precision(const focal_ctx *ctx)
{
    /* Without dot products of bfloat16 prompts take as long in either, but few rows are integers
     * and the cache is half as large. */
    return foci_has(ctx, FOCI_AVX2) ? FOCAL_BF16 : FOCAL_F32;
}

static const char *pick_attn(focal_ctx *ctx)
{
    const focal_attn_args args = {.T = 1,
                                  .S = 1,
                                  .H = 1,
                                  .G = 1,
                                  .D = WIDTH,
                                  .dtype = focal_default_precision(ctx),
                                  .q = zeros,
                                  .k = zeros,
                                  .v = zeros,
                                  .out = unused};
    return focal_attn_kernel_name(ctx, &args);
}

static const char *pick_route(focal_ctx *ctx)
{
    const focal_router router = {.C = 1, .R = 1, .K = 1, .routers = 1, .pk = zeros, .e = zeros};
    const focal_route_args args = {.router = &router, .T = 1, .h = zeros};
    return focal_route_kernel_name(ctx, &args);
}

static foci_matmul_args plain_product(focal_dtype dtype, int64_t rows)
{
    return (foci_matmul_args){.M = rows,
                              .N = WIDTH,
                              .K = WIDTH,
                              .x = zeros,
                              .x_dtype = dtype,
                              .x_stride = WIDTH,
                              .w = zeros,
                              .w_dtype = dtype,
                              .out = unused,
                              .out_dtype = FOCAL_F32,
                              .out_stride = WIDTH};
}

static const char *pick_matmul(focal_ctx *ctx)
{
    const foci_matmul_args args = plain_product(focal_default_precision(ctx), ROWS);
    const foci_matmul_kernel *kernel = foci_matmul_pick(ctx, &args);
    return kernel ? kernel->name : NULL;
}

static const char *matmul_at(focal_ctx *ctx, int32_t index, bool *is_usable)
{
    if ((size_t)index >= foci_matmul_kernel_count) return NULL;
    *is_usable = false;
    for (int dtype = FOCAL_F32; dtype <= FOCAL_BF16; dtype++) {
        const foci_matmul_args args = plain_product((focal_dtype)dtype, ROWS);
        *is_usable = *is_usable || foci_matmul_kernels[index]->can(ctx, &args);
    }
    return foci_matmul_kernels[index]->name;
}

static const char *pick_quant(focal_ctx *ctx)
{
    const foci_quant_kernel *kernel = foci_quant_pick(ctx);
    return kernel ? kernel->name : NULL;
}

static const char *quant_at(focal_ctx *ctx, int32_t index, bool *is_usable)
{
    if ((size_t)index >= foci_quant_kernel_count) return NULL;
    *is_usable = foci_quant_kernels[index].can(ctx);
    return foci_quant_kernels[index].name;
}

/* Every operation with a table has a row, in the order in which a layer meets them; then those of
 * training, from the loss back. */
static const struct operation {
    const char *name;
    const foci_rows_op *rows; /* or the two functions */
    const char *(*at)(focal_ctx *ctx, int32_t index, bool *is_usable);
    const char *(*pick)(focal_ctx *ctx);
} operations[] = {
    {"norm", &foci_norm_op, NULL, NULL},
    {"matmul", NULL, matmul_at, pick_matmul},
    {"quant", NULL, quant_at, pick_quant},
    {"rope", &foci_rope_op, NULL, NULL},
    {"q8_rows", &foci_q8_rows_op, NULL, NULL},
    {"route", NULL, focal_route_kernel_at, pick_route},
    {"route_top", &foci_route_top_op, NULL, NULL},
    {"attn", NULL, focal_attn_kernel_at, pick_attn},
    {"gate", &foci_gate_op, NULL, NULL},
    {"soft_cap", &foci_soft_cap_op, NULL, NULL},
    {"loss", &foci_loss_op, NULL, NULL},
    {"temperature", &foci_temperature_op, NULL, NULL},
    {"loss_backward", &foci_loss_backward_op, NULL, NULL},
    {"kl", &foci_kl_op, NULL, NULL},
    {"gate_backward", &foci_gate_backward_op, NULL, NULL},
    {"rope_backward", &foci_rope_backward_op, NULL, NULL},
    {"temperature_backward", &foci_temperature_backward_op, NULL, NULL},
    {"norm_backward", &foci_norm_backward_op, NULL, NULL},
    {"sum_squares", &foci_sum_squares_op, NULL, NULL},
    {"adamw", &foci_adamw_op, NULL, NULL},
};

static const char *rows_at(const focal_ctx *ctx, const foci_rows_op *op, int32_t index,
                           bool *is_usable)
{
    if ((size_t)index >= op->kernel_count) return NULL;
    *is_usable = foci_on_host(ctx) && foci_has(ctx, op->kernels[index].features);
    return op->kernels[index].name;
}

static const char *rows_pick(const focal_ctx *ctx, const foci_rows_op *op)
{
    const foci_rows_kernel *kernel = foci_rows_pick(ctx, op);
    return kernel ? kernel->name : NULL;
}

bool focal_kernel_at(focal_ctx *ctx, int32_t index, focal_kernel_info *out)
{
    for (size_t n = 0; n < FOCAL_COUNT(operations) && index >= 0; n++) {
        const struct operation *op = &operations[n];
        for (int32_t k = 0;; k++, index--) {
            bool is_usable = false;
            const char *name =
                op->rows ? rows_at(ctx, op->rows, k, &is_usable) : op->at(ctx, k, &is_usable);
            if (!name) break;
            if (index > 0) continue;
            const char *picked = op->rows ? rows_pick(ctx, op->rows) : op->pick(ctx);
            *out =
                (focal_kernel_info){op->name, name, is_usable, picked && strcmp(picked, name) == 0};
            return true;
        }
    }
    return false;
}
