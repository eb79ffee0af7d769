/* Arbitrary calls of the small operations and their gradients, as a hostile model's numbers might
 * make them: shapes, strides, kinds, rope descriptions, targets, temperatures, ids. A call may
 * fail, with a sentence; it may not crash, and ASan watches that it reads and writes no byte beyond
 * what its shapes say. Arrays have the exact size that the call is entitled to; a call that is
 * entitled to more than a test can afford is left out, unless its sizes are wrong anyway. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops/adamw/adamw.h"
#include "ops/embed/embed.h"
#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"
#include "ops/loss/soft_cap.h"
#include "ops/mlp/gate.h"
#include "ops/mlp/gate_backward.h"
#include "ops/muon/muon.h"
#include "ops/norm/norm.h"
#include "ops/norm/norm_backward.h"
#include "ops/residual/add.h"
#include "ops/rope/rope.h"
#include "ops/rope/rope_backward.h"
#include "ops/sum_squares.h"
#include "ops/temperature/temperature.h"

enum { MAX_BYTES = 1 << 16, MAX_BLOCKS = 16, KERNELS = 4 };

typedef struct reader {
    const uint8_t *data;
    size_t size, at;
    void *blocks[MAX_BLOCKS];
    int block_count;
    bool is_covered; /* every array so far is there in full */
} reader;

static uint8_t take(reader *r)
{
    return r->at < r->size ? r->data[r->at++] : 0;
}

/* Mostly 1..most, sometimes something odd. */
static int32_t take_size(reader *r, int32_t most)
{
    static const int32_t odd[] = {0, -1, 63, 64, 65, 257, 65537, 1 << 30, INT32_MAX, INT32_MIN};
    const uint8_t byte = take(r);
    if (byte < 232) return 1 + byte % most;
    return odd[take(r) % (sizeof odd / sizeof odd[0])];
}

static int64_t take_stride(reader *r, int64_t packed)
{
    static const int64_t odd[] = {1, -1, INT64_MAX, INT64_MIN, INT64_MAX / 2, 1LL << 40, 4096};
    const uint8_t byte = take(r);
    if (byte < 128) return 0;
    if (byte < 232) return packed + byte % 4;
    return odd[take(r) % (sizeof odd / sizeof odd[0])];
}

/* Any double: a whole number, a power of ten, or eight bytes. */
static double take_double(reader *r)
{
    const uint8_t byte = take(r);
    double x = (double)(byte % 64);
    if (byte >= 224) {
        uint8_t raw[8];
        for (int n = 0; n < 8; n++) raw[n] = take(r);
        memcpy(&x, raw, sizeof x);
    } else if (byte >= 128) {
        x = 1.0;
        for (int n = 0; n < byte % 10; n++) x *= 10.0;
    }
    return x;
}

/* rows of width, stride apart (0: packed), of `size` bytes an element, filled from the input. NULL,
 * rarely, on purpose. A shape that is wrong gets one byte. */
static void *take_block(reader *r, int64_t rows, int64_t stride, int64_t width, size_t size)
{
    int64_t bytes = 0;
    if (take(r) == 255) return NULL;
    const int64_t step = stride == 0 ? width : stride;
    if (rows >= 1 && width >= 1 && step >= width) {
        if (__builtin_mul_overflow(rows - 1, step, &bytes) ||
            __builtin_add_overflow(bytes, width, &bytes) || bytes > MAX_BYTES / (int64_t)size) {
            r->is_covered = false;
            bytes = 0;
        }
        bytes *= (int64_t)size;
    }
    uint8_t *block = malloc(bytes > 0 ? (size_t)bytes : 1);
    if (!block || r->block_count == MAX_BLOCKS) abort();
    for (int64_t n = 0; n < bytes; n++)
        block[n] = r->size ? r->data[(r->at + (size_t)n) % r->size] : 0;
    r->blocks[r->block_count++] = block;
    return block;
}

static focal_dtype take_dtype(reader *r)
{
    const uint8_t byte = take(r);
    return byte < 240 ? (focal_dtype)(byte % 2) : (focal_dtype)byte;
}

static size_t element_bytes(focal_dtype dtype)
{
    return dtype == FOCAL_BF16 ? 2 : 4;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return a < 1 || b < 1 || __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

static focal_status call_norm(reader *r, focal_ctx *ctx)
{
    foci_norm_args a = {.kind = (foci_norm_kind)(take(r) % 9 / 4),
                        .T = take_size(r, 6),
                        .H = take(r) % 2 ? 0 : take_size(r, 4),
                        .width = take_size(r, 70),
                        .weight_offset = (float)(take(r) % 2),
                        .epsilon = (float)take_double(r),
                        .out_dtype = take_dtype(r)};
    const int64_t wide = times(a.H ? a.H : 1, a.width);
    a.x_stride = take_stride(r, wide);
    a.out_stride = take_stride(r, wide);
    a.x = take_block(r, a.T, a.x_stride, wide, 4);
    a.weight = take(r) % 2 ? take_block(r, 1, 0, a.width, 4) : NULL;
    a.bias = take(r) % 2 ? take_block(r, 1, 0, a.width, 4) : NULL;
    a.out = take_block(r, a.T, a.out_stride, wide, element_bytes(a.out_dtype));
    if (take(r) % 2) a.unrounded = take_block(r, a.T, 0, wide, 4);
    return r->is_covered ? foci_norm(ctx, &a) : FOCAL_OK;
}

static focal_status call_rope(reader *r, focal_ctx *ctx)
{
    foci_rope_config config = {.rotated = 2 * (1 + take(r) % 40),
                               .kind = (foci_rope_kind)(take(r) % 5),
                               .base = take_double(r),
                               .factor = take_double(r),
                               .original_context = take_double(r),
                               .low = take_double(r),
                               .high = take_double(r),
                               .beta_fast = take_double(r),
                               .beta_slow = take_double(r),
                               .is_untruncated = take(r) % 2,
                               .mscale = take_double(r),
                               .mscale_all_dim = take_double(r),
                               .attention_factor = take_double(r)};
    if (take(r) % 8 == 7) config.rotated = take_size(r, 64);
    const int32_t T = take_size(r, 6), rotated = config.rotated;
    const int64_t pairs = rotated > 0 ? rotated / 2 : 0;
    config.divisors = take(r) % 4 ? NULL : take_block(r, 1, 0, pairs, 4);
    float scale = 1.0F, *inv_freq = take_block(r, 1, 0, pairs, 4);
    if (!r->is_covered) return FOCAL_OK;
    const focal_status status = foci_rope_table(ctx, &config, inv_freq, &scale);
    if (status != FOCAL_OK) return status;
    int32_t *positions = take_block(r, 1, 0, T, 4);
    for (int32_t t = 0; t < T && positions && r->is_covered && take(r) != 255; t++)
        positions[t] &= INT32_MAX; /* below 0 is refused */
    foci_rope_angles_args angles = {.T = T,
                                    .rotated = rotated,
                                    .positions = positions,
                                    .inv_freq = inv_freq,
                                    .scale = scale,
                                    .is_exact = take(r) % 2,
                                    .cos = take_block(r, T, 0, pairs, 4),
                                    .sin = take_block(r, T, 0, pairs, 4)};
    if (!r->is_covered) return FOCAL_OK;
    (void)foci_rope_angles(ctx, &angles);
    foci_rope_args a = {.T = T,
                        .H = take_size(r, 4),
                        .D = take(r) % 2 ? rotated : take_size(r, 90),
                        .rotated = rotated,
                        .style = (foci_rope_style)(take(r) % 9 / 4),
                        .cos = angles.cos,
                        .sin = angles.sin,
                        .scale = (float)take_double(r),
                        .out_dtype = take_dtype(r)};
    const int64_t wide = times(a.H, a.D);
    a.x_stride = take_stride(r, wide);
    a.out_stride = take_stride(r, wide);
    a.x = take_block(r, T, a.x_stride, wide, 4);
    a.out = take_block(r, T, a.out_stride, wide, element_bytes(a.out_dtype));
    const uint8_t form = take(r);
    a.has_head_scales = form & 2;
    if (form & 1) a.row_scales = take_block(r, T, 0, a.has_head_scales ? a.H : 1, 4);
    return r->is_covered ? foci_rope_apply(ctx, &a) : FOCAL_OK;
}

static focal_status call_gate(reader *r, focal_ctx *ctx)
{
    foci_gate_args a = {.activation = (foci_activation)(take(r) % 13 / 4),
                        .T = take_size(r, 6),
                        .F = take_size(r, 70),
                        .out_dtype = take_dtype(r)};
    a.gate_stride = take_stride(r, a.F);
    a.up_stride = take_stride(r, a.F);
    a.out_stride = take_stride(r, a.F);
    a.gate = take_block(r, a.T, a.gate_stride, a.F, 4);
    a.up = take(r) % 2 ? take_block(r, a.T, a.up_stride, a.F, 4) : NULL;
    a.out = take_block(r, a.T, a.out_stride, a.F, element_bytes(a.out_dtype));
    return r->is_covered ? foci_gate(ctx, &a) : FOCAL_OK;
}

static focal_status call_loss(reader *r, focal_ctx *ctx)
{
    foci_loss_args a = {.T = take_size(r, 5), .V = take_size(r, 70)};
    a.logits_stride = take_stride(r, a.V);
    a.log_probs_stride = take_stride(r, a.V);
    a.logits = take_block(r, a.T, a.logits_stride, a.V, 4);
    int32_t *targets = take(r) % 2 ? take_block(r, 1, 0, a.T, 4) : NULL;
    for (int32_t t = 0; t < a.T && targets && r->is_covered; t++)
        targets[t] = take(r) % 32 ? take(r) % 64 - 1 : take_size(r, 70);
    a.targets = targets;
    a.nll = take(r) % 2 ? take_block(r, 1, 0, a.T, 8) : NULL;
    a.lse = take(r) % 2 ? take_block(r, 1, 0, a.T, 8) : NULL;
    a.log_probs = take(r) % 2 ? take_block(r, a.T, a.log_probs_stride, a.V, 4) : NULL;
    return r->is_covered ? foci_log_softmax_rows(ctx, &a) : FOCAL_OK;
}

static focal_status call_top(reader *r, focal_ctx *ctx)
{
    foci_top_args a = {.T = take_size(r, 5), .V = take_size(r, 130), .top = take_size(r, 100)};
    a.logits_stride = take_stride(r, a.V);
    a.logits = take_block(r, a.T, a.logits_stride, a.V, 4);
    a.ids = take_block(r, a.T, 0, a.top, 4);
    a.log_probs = take_block(r, a.T, 0, a.top, 4);
    return r->is_covered ? foci_top_log_probs(ctx, &a) : FOCAL_OK;
}

static focal_status call_elements(reader *r, focal_ctx *ctx)
{
    const int64_t count = take(r) % 8 ? take(r) : take_size(r, 300);
    float *x = take_block(r, 1, 0, count, 4), *y = take_block(r, 1, 0, count, 4);
    const float cap = (float)take_double(r);
    if (!r->is_covered) return FOCAL_OK;
    const focal_status status = foci_add(ctx, x, x, y, count);
    return status == FOCAL_OK ? foci_soft_cap(ctx, x, count, cap) : status;
}

static focal_status call_norm_backward(reader *r, focal_ctx *ctx)
{
    foci_norm_backward_args a = {.kind = (foci_norm_kind)(take(r) % 9 / 4),
                                 .T = take_size(r, 80),
                                 .H = take(r) % 2 ? 0 : take_size(r, 4),
                                 .width = take_size(r, 70),
                                 .weight_offset = (float)(take(r) % 2),
                                 .epsilon = (float)take_double(r),
                                 .adds = take(r) % 2};
    const int64_t wide = times(a.H ? a.H : 1, a.width);
    a.x_stride = take_stride(r, wide);
    a.dy_stride = take_stride(r, wide);
    a.dx_stride = take_stride(r, wide);
    a.x = take_block(r, a.T, a.x_stride, wide, 4);
    a.weight = take(r) % 2 ? take_block(r, 1, 0, a.width, 4) : NULL;
    float *dy = take_block(r, a.T, a.dy_stride, wide, 4);
    a.dy = dy;
    const uint8_t form = take(r);
    if (form % 4 == 1) a.dx = dy; /* in place, if the strides are equal */
    if (form % 4 > 1) a.dx = take_block(r, a.T, a.dx_stride, wide, 4);
    a.dweight = form & 4 ? take_block(r, 1, 0, a.width, 4) : NULL;
    a.dbias = form & 8 ? take_block(r, 1, 0, a.width, 4) : NULL;
    return r->is_covered ? foci_norm_backward(ctx, &a) : FOCAL_OK;
}

static focal_status call_gate_backward(reader *r, focal_ctx *ctx)
{
    foci_gate_backward_args a = {.activation = (foci_activation)(take(r) % 13 / 4),
                                 .T = take_size(r, 6),
                                 .F = take_size(r, 70),
                                 .dtype = take_dtype(r),
                                 .hidden_dtype = take_dtype(r)};
    int64_t *const strides[] = {&a.gate_stride,  &a.up_stride,  &a.dout_stride,
                                &a.dgate_stride, &a.dup_stride, &a.hidden_stride};
    for (size_t n = 0; n < sizeof strides / sizeof strides[0]; n++)
        *strides[n] = take_stride(r, a.F);
    float *gate = take_block(r, a.T, a.gate_stride, a.F, 4);
    a.gate = gate;
    a.dout = take_block(r, a.T, a.dout_stride, a.F, 4);
    const uint8_t form = take(r);
    if (form & 1) a.up = take_block(r, a.T, a.up_stride, a.F, 4);
    if ((form & 1) ^ (form > 250))
        a.dup = take_block(r, a.T, a.dup_stride, a.F, element_bytes(a.dtype));
    a.dgate = form & 2 ? gate : take_block(r, a.T, a.dgate_stride, a.F, element_bytes(a.dtype));
    if (form & 4)
        a.hidden = take_block(r, a.T, a.hidden_stride, a.F, element_bytes(a.hidden_dtype));
    return r->is_covered ? foci_gate_backward(ctx, &a) : FOCAL_OK;
}

static focal_status call_rope_backward(reader *r, focal_ctx *ctx)
{
    foci_rope_backward_args a = {.T = take_size(r, 6),
                                 .H = take_size(r, 4),
                                 .D = take_size(r, 90),
                                 .style = (foci_rope_style)(take(r) % 9 / 4),
                                 .scale = (float)take_double(r),
                                 .has_head_scales = take(r) % 2,
                                 .dout_dtype = take_dtype(r),
                                 .dx_dtype = take_dtype(r)};
    a.rotated = take(r) % 4 ? (a.D > 0 ? a.D / 2 * 2 : 0) : take_size(r, 90);
    const int64_t wide = times(a.H, a.D), pairs = a.rotated > 0 ? a.rotated / 2 : 0;
    a.dout_stride = take_stride(r, wide);
    a.dx_stride = take_stride(r, wide);
    a.out_stride = take_stride(r, wide);
    a.cos = take_block(r, a.T, 0, pairs, 4);
    a.sin = take_block(r, a.T, 0, pairs, 4);
    const uint8_t form = take(r);
    if (form & 1) a.row_scales = take_block(r, a.T, 0, a.has_head_scales ? a.H : 1, 4);
    void *dout = take_block(r, a.T, a.dout_stride, wide, element_bytes(a.dout_dtype));
    a.dout = dout;
    a.dx = form & 2 ? dout : take_block(r, a.T, a.dx_stride, wide, element_bytes(a.dx_dtype));
    if (form & 4) a.out = take_block(r, a.T, a.out_stride, wide, element_bytes(a.dout_dtype));
    if (form & 4) a.dots = take_block(r, a.T, 0, a.H, 4);
    return r->is_covered ? foci_rope_backward(ctx, &a) : FOCAL_OK;
}

/* Forward, and backward from what it left. */
static focal_status call_temperature(reader *r, focal_ctx *ctx)
{
    foci_temperature t = {.kind = (foci_temperature_kind)(take(r) % 11 / 2),
                          .t = (float)take_double(r),
                          .low = (float)take_double(r),
                          .high = (float)take_double(r),
                          .c = (float)take_double(r),
                          .length = (float)take_double(r)};
    foci_temperature_args a = {.temperature = &t,
                               .T = take_size(r, 80),
                               .H = take_size(r, 4),
                               .C = take_size(r, 40),
                               .h_dtype = take_dtype(r),
                               .sequence_count = take_size(r, 4),
                               .root = (float)take_double(r)};
    foci_temperature_grads grads = {.dh_stride = take_stride(r, a.C)};
    a.h_stride = take_stride(r, a.C);
    a.h = take_block(r, a.T, a.h_stride, a.C, element_bytes(a.h_dtype));
    t.u = take_block(r, 1, 0, a.C, 4);
    t.a = take_block(r, 1, 0, 1, 4);
    t.lt = take_block(r, 1, 0, a.H, 4);
    bool *heads = take(r) % 2 ? take_block(r, 1, 0, a.H, sizeof *heads) : NULL;
    for (int32_t n = 0; n < a.H && heads && r->is_covered; n++) heads[n] = take(r) % 2;
    t.heads = heads;
    int32_t *positions = take_block(r, 1, 0, a.T, 4);
    for (int32_t n = 0; n < a.T && positions && r->is_covered && take(r) != 255; n++)
        positions[n] &= INT32_MAX;
    a.positions = positions;
    const int64_t starts_count = a.sequence_count > 0 ? (int64_t)a.sequence_count + 1 : 0;
    int32_t *starts = take(r) % 2 ? take_block(r, 1, 0, starts_count, 4) : NULL;
    for (int64_t n = 0; n < starts_count && starts && r->is_covered; n++)
        starts[n] = n + 1 == starts_count ? a.T : (int32_t)n * (take(r) % 32);
    a.sequence_starts = starts;
    a.factors = take_block(r, a.T, 0, foci_temperature_is_per_head(&t) ? a.H : 1, 4);
    grads.dots = take_block(r, a.T, 0, a.H, 4);
    grads.du = take(r) % 2 ? take_block(r, 1, 0, a.C, 4) : NULL;
    grads.da = take(r) % 2 ? take_block(r, 1, 0, 1, 4) : NULL;
    grads.dlt = take(r) % 2 ? take_block(r, 1, 0, a.H, 4) : NULL;
    grads.dh = take(r) % 2 ? take_block(r, a.T, grads.dh_stride, a.C, 4) : NULL;
    if (!r->is_covered) return FOCAL_OK;
    const focal_status status = foci_temperature_factors(ctx, &a);
    return status == FOCAL_OK ? foci_temperature_backward(ctx, &a, &grads) : status;
}

static focal_status call_embed_backward(reader *r, focal_ctx *ctx)
{
    foci_embed_backward_args a = {.V = take_size(r, 200),
                                  .C = take_size(r, 40),
                                  .T = take_size(r, 60),
                                  .scale = (float)take_double(r)};
    a.dx_stride = take_stride(r, a.C);
    int32_t *ids = take_block(r, 1, 0, a.T, 4);
    for (int64_t t = 0; t < a.T && ids && r->is_covered; t++) {
        const uint8_t byte = take(r);
        if (byte < 250 && a.V > 0) ids[t] = (int32_t)(byte % a.V);
    }
    a.ids = ids;
    a.dx = take_block(r, a.T, a.dx_stride, a.C, 4);
    a.dtable = take_block(r, a.V, 0, a.C, 4);
    return r->is_covered ? foci_embed_backward(ctx, &a) : FOCAL_OK;
}

static focal_status call_loss_backward(reader *r, focal_ctx *ctx)
{
    foci_loss_backward_args a = {.T = take_size(r, 5),
                                 .V = take_size(r, 70),
                                 .scale = take_double(r),
                                 .z = take(r) % 2 ? take_double(r) : 0.0,
                                 .soft_cap = take(r) % 2 ? (float)take_double(r) : 0.0F,
                                 .dlogits_dtype = take_dtype(r)};
    a.logits_stride = take_stride(r, a.V);
    a.dlogits_stride = take_stride(r, a.V);
    float *logits = take_block(r, a.T, a.logits_stride, a.V, 4);
    int32_t *targets = take_block(r, 1, 0, a.T, 4);
    for (int32_t t = 0; t < a.T && targets && r->is_covered; t++)
        targets[t] = take(r) % 32 ? take(r) % 64 - 1 : take_size(r, 70);
    a.logits = logits;
    a.targets = targets;
    a.nll = take(r) % 2 ? take_block(r, 1, 0, a.T, 8) : NULL;
    a.lse = take(r) % 2 ? take_block(r, 1, 0, a.T, 8) : NULL;
    a.dlogits = take(r) % 4 == 3
                    ? logits
                    : take_block(r, a.T, a.dlogits_stride, a.V, element_bytes(a.dlogits_dtype));
    return r->is_covered ? foci_loss_backward(ctx, &a) : FOCAL_OK;
}

static focal_status call_kl(reader *r, focal_ctx *ctx)
{
    foci_kl_args a = {.T = take_size(r, 5),
                      .V = take_size(r, 70),
                      .scale = take_double(r),
                      .soft_cap = take(r) % 2 ? (float)take_double(r) : 0.0F,
                      .dlogits_dtype = take_dtype(r)};
    a.teacher_stride = take_stride(r, a.V);
    a.student_stride = take_stride(r, a.V);
    a.dlogits_stride = take_stride(r, a.V);
    a.teacher = take_block(r, a.T, a.teacher_stride, a.V, 4);
    float *student = take_block(r, a.T, a.student_stride, a.V, 4);
    a.student = student;
    a.kl = take(r) % 2 ? take_block(r, 1, 0, a.T, 8) : NULL;
    a.dlogits = take(r) % 4 == 3
                    ? student
                    : take_block(r, a.T, a.dlogits_stride, a.V, element_bytes(a.dlogits_dtype));
    return r->is_covered ? foci_kl_backward(ctx, &a) : FOCAL_OK;
}

static focal_status call_adamw(reader *r, focal_ctx *ctx)
{
    foci_adamw_args a = {.count = take(r) % 8 ? take(r) : take_size(r, 300),
                         .is_cleared = take(r) % 2,
                         .step = take_size(r, 100),
                         .rate = take_double(r),
                         .beta1 = (double)(take(r) % 40) / 32.0,
                         .beta2 = (double)(take(r) % 40) / 32.0,
                         .epsilon = take_double(r),
                         .decay = take_double(r),
                         .factor = take_double(r)};
    a.weights = take_block(r, 1, 0, a.count, 4);
    a.gradient = take_block(r, 1, 0, a.count, 4);
    a.first = take_block(r, 1, 0, a.count, 4);
    a.second = take_block(r, 1, 0, a.count, 4);
    a.rounded = take(r) % 2 ? take_block(r, 1, 0, a.count, 2) : NULL;
    foci_square_sum sum;
    if (!r->is_covered) return FOCAL_OK;
    const focal_status status = foci_sum_squares(ctx, a.gradient, a.count, &sum);
    return status == FOCAL_OK ? foci_adamw(ctx, &a) : status;
}

static float factor_at(const foci_muon_factors *f, const void *array, int64_t at)
{
    return f->dtype == FOCAL_BF16 ? foci_bf16_to_float(((const uint16_t *)array)[at])
                                  : ((const float *)array)[at];
}

static focal_status multiply(focal_ctx *ctx, const foci_muon_factors *f)
{
    (void)ctx;
    for (int64_t i = 0; i < f->M; i++)
        for (int64_t j = 0; j < f->N; j++) {
            float sum = 0.0F;
            for (int64_t k = 0; k < f->K; k++)
                sum += factor_at(f, f->x, i * f->K + k) *
                       factor_at(f, f->w, f->w_is_transposed ? k * f->N + j : j * f->K + k);
            f->out[i * f->out_stride + j] = sum;
        }
    return FOCAL_OK;
}

static focal_status call_muon(reader *r, focal_ctx *ctx)
{
    foci_muon_args a = {.rows = take_size(r, 20),
                        .cols = take_size(r, 20),
                        .is_cleared = take(r) % 2,
                        .is_plain = take(r) % 2,
                        .rule = (foci_muon_rule)(take(r) % 9 / 4),
                        .dtype = take_dtype(r),
                        .rate = take_double(r),
                        .decay = take_double(r),
                        .beta = (double)(take(r) % 40) / 32.0,
                        .factor = take_double(r),
                        .multiply = take(r) == 255 ? NULL : multiply};
    const int64_t count = times(a.rows, a.cols);
    if (count > 4096) return FOCAL_OK; /* the product above takes its time */
    a.weights = take_block(r, 1, 0, count, 4);
    a.gradient = take_block(r, 1, 0, count, 4);
    a.momentum = take_block(r, 1, 0, count, 4);
    a.rounded = take(r) % 2 ? take_block(r, 1, 0, count, 2) : NULL;
    return r->is_covered ? foci_muon(ctx, &a) : FOCAL_OK;
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* One context a kernel, opened once: starting threads costs more than a call. */
    static const char *const names[KERNELS] = {NULL, "ref", "avx2", "avx512"};
    static focal_ctx *contexts[KERNELS];
    static focal_status (*const calls[])(reader * r, focal_ctx * ctx) = {
        call_norm, call_rope, call_gate, call_loss, call_top, call_elements};
    static focal_status (*const gradients[])(reader * r, focal_ctx * ctx) = {call_norm_backward,
                                                                             call_gate_backward,
                                                                             call_rope_backward,
                                                                             call_temperature,
                                                                             call_embed_backward,
                                                                             call_loss_backward,
                                                                             call_kl,
                                                                             call_adamw,
                                                                             call_muon};
    reader r = {.data = data, .size = size, .is_covered = true};
    const int kernel = take(&r) % KERNELS;
    if (!contexts[kernel]) {
        const focal_ctx_options options = {.threads = 2, .kernel = names[kernel]};
        if (focal_ctx_open(&options, &contexts[kernel], NULL) != FOCAL_OK) abort();
    }
    focal_ctx *ctx = contexts[kernel];
    focal_ctx_trim(ctx); /* scratch of its own size: ASan sees where it ends */
    const uint8_t which = take(&r);
    const focal_status status =
        which < 128 ? calls[which % (sizeof calls / sizeof calls[0])](&r, ctx)
                    : gradients[which % (sizeof gradients / sizeof gradients[0])](&r, ctx);
    if (status != FOCAL_OK && focal_ctx_error(ctx)[0] == '\0') {
        (void)fprintf(stderr, "status %d without a sentence\n", (int)status);
        abort();
    }
    for (int n = 0; n < r.block_count; n++) free(r.blocks[n]);
    return 0;
}
