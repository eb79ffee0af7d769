/* The gradient of the rotation and the factor of a token: the oracle against PyTorch, every kernel
 * against the oracle in both styles, partial, scaled, float32 and bfloat16, strides, in place; the
 * dots; forward with factors; odd numbers, threads, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/rope/rope_backward.h"
#include "support/op_cases.h"
#include "support/oracle_grads.h"
#include "support/route_cases.h"

typedef struct rope_shape {
    int32_t T, H, D, rotated;
} rope_shape;

static const rope_shape shapes[] = {
    {1, 1, 2, 2},   {3, 1, 3, 2},   {2, 3, 8, 8},     {3, 2, 14, 14},  {1, 3, 16, 16},
    {4, 1, 18, 18}, {2, 2, 20, 10}, {2, 1, 32, 32},   {3, 2, 34, 34},  {5, 9, 64, 64},
    {2, 2, 66, 66}, {3, 4, 80, 32}, {2, 3, 128, 128}, {1, 2, 131, 62}, {2, 3, 40, 0},
};

enum { FACTORS = 4, HEAD_FACTORS = 8, IS_PAIRS = 16, IS_BF16 = 32, FLAGS = 64 };

/* One call with everything that it should give. */
typedef struct rope_case {
    char name[96];
    foci_rope_backward_args args; /* with defaults filled in */
    grid dout, out, dx;
    float *cosines, *sines, *factors, *dout_values, *dots;
    double *exact, *sizes, *dots_exact, *dots_sizes;
    int64_t count;
} rope_case;

/* The factor of each row multiplies as one more scale. */
static void find_expected(rope_case *c, const float *out_values)
{
    const foci_rope_backward_args *a = &c->args;
    const int64_t rows = (int64_t)a->T * a->H, angles = (int64_t)a->T * a->rotated / 2;
    double *cos64 = to_doubles(c->cosines, angles), *sin64 = to_doubles(c->sines, angles);
    const oracle_rope oracle = {.is_pairs = a->style == FOCI_ROPE_PAIRS,
                                .T = a->T,
                                .H = a->H,
                                .D = a->D,
                                .rotated = a->rotated,
                                .cos = cos64,
                                .sin = sin64,
                                .scale = (double)a->scale};
    c->exact = to_doubles(c->dout_values, c->count);
    c->sizes = new_array((size_t)c->count, sizeof(double));
    c->dots_exact = new_array((size_t)rows, sizeof(double));
    c->dots_sizes = new_array((size_t)rows, sizeof(double));
    oracle_rope_backward(&oracle, c->exact, c->sizes);
    for (int64_t n = 0; n < c->count; n++) {
        const int64_t row = n / a->D, token = row / a->H;
        const double product = (double)out_values[n] * (double)c->dout_values[n];
        c->dots_exact[row] += product;
        c->dots_sizes[row] += fabs(product);
        if (!a->row_scales) continue;
        const double factor = (double)c->factors[a->has_head_scales ? row : token];
        c->exact[n] *= factor;
        c->sizes[n] *= fabs(factor);
    }
    free(cos64);
    free(sin64);
}

static rope_case *rope_case_new(focal_ctx *ctx, rope_shape s, unsigned flags)
{
    rope_case *c = new_array(1, sizeof *c);
    const int64_t wide = (int64_t)s.H * s.D, angles = (int64_t)s.T * s.rotated / 2;
    const focal_dtype dtype = flags & IS_BF16 ? FOCAL_BF16 : FOCAL_F32;
    (void)snprintf(c->name, sizeof c->name, "T %d H %d D %d rotated %d flags %u", s.T, s.H, s.D,
                   s.rotated, flags);
    c->count = s.T * wide;
    c->dout = grid_new(s.T, wide, dtype, flags % 4);
    c->out = grid_new(s.T, wide, dtype, flags % 4 ^ GRID_GAPS);
    c->dx = grid_new(s.T, wide, FOCAL_F32, flags % 4 ^ GRID_MISALIGNED);
    c->cosines = new_normals(angles, 1.0F, flags + 1);
    c->sines = new_normals(angles, 1.0F, flags + 2);
    c->factors = new_normals((int64_t)s.T * s.H, 1.0F, flags + 3);
    c->dots = new_normals((int64_t)s.T * s.H + 1, 1.0F, 1);
    float *values = new_normals(2 * c->count, 1.0F, flags + 4);
    grid_fill(&c->dout, values);
    grid_fill(&c->out, values + c->count);
    free(values);
    c->dout_values = grid_packed(&c->dout); /* as rounded */
    const foci_rope_backward_args args = {.T = s.T,
                                          .H = s.H,
                                          .D = s.D,
                                          .rotated = s.rotated,
                                          .style = (foci_rope_style)((flags & IS_PAIRS) != 0),
                                          .cos = s.rotated ? c->cosines : NULL,
                                          .sin = s.rotated ? c->sines : NULL,
                                          .scale = flags % 3 ? 0.0F : 0.088388348F,
                                          .row_scales = flags & FACTORS ? c->factors : NULL,
                                          .has_head_scales = flags & HEAD_FACTORS,
                                          .dout = c->dout.data,
                                          .dout_dtype = dtype,
                                          .dout_stride = c->dout.stride,
                                          .dx = c->dx.data,
                                          .dx_stride = c->dx.stride,
                                          .out = c->out.data,
                                          .out_stride = c->out.stride,
                                          .dots = c->dots};
    assert_status(ctx, foci_rope_backward_normalise(ctx, &args, &c->args), FOCAL_OK);
    float *out_values = grid_packed(&c->out);
    find_expected(c, out_values);
    free(out_values);
    return c;
}

static void rope_case_free(rope_case *c)
{
    void *blocks[] = {c->cosines, c->sines, c->factors,    c->dout_values, c->dots,
                      c->exact,   c->sizes, c->dots_exact, c->dots_sizes};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    grid_free(&c->dout);
    grid_free(&c->out);
    grid_free(&c->dx);
    free(c);
}

/* In place the same bits, and in bfloat16 their rounding; without dots nothing else changes. */
static void check_other_places(const foci_rows_kernel *kernel, const rope_case *c, const float *got)
{
    grid half = grid_new(c->dx.rows, c->dx.width, FOCAL_BF16, GRID_GAPS);
    foci_rope_backward_args args = c->args;
    args.dx = half.data;
    args.dx_dtype = FOCAL_BF16;
    args.dx_stride = half.stride;
    args.out = NULL;
    args.dots = NULL;
    kernel->run(&args, 0, args.T);
    assert_gaps_untouched(c->name, &half);
    float *rounded = grid_packed(&half);
    for (int64_t n = 0; n < c->count; n++)
        assert_true(rounded[n] == foci_bf16_to_float(foci_bf16_from_float(got[n])));
    args.dx = c->dout.data;
    args.dx_dtype = args.dout_dtype;
    args.dx_stride = c->dout.stride;
    kernel->run(&args, 0, args.T);
    assert_gaps_untouched(c->name, &c->dout);
    float *in_place = grid_packed(&c->dout);
    assert_memory_equal(in_place, args.dx_dtype == FOCAL_BF16 ? rounded : got,
                        (size_t)c->count * sizeof *got);
    grid_fill(&c->dout, c->dout_values);
    free(rounded);
    free(in_place);
    grid_free(&half);
}

static void check_kernels(focal_ctx *ctx, const rope_case *c)
{
    const int64_t rows = (int64_t)c->args.T * c->args.H;
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_rope_backward_op, &next));) {
        char name[160];
        (void)snprintf(name, sizeof name, "%s, %s", kernel->name, c->name);
        fill_nan(c->dots, (size_t)rows + 1, FOCAL_F32);
        kernel->run(&c->args, 0, c->args.T);
        assert_gaps_untouched(name, &c->dx);
        assert_true(is_fill_nan(c->dots, (size_t)rows, FOCAL_F32));
        float *got = grid_packed(&c->dx);
        /* two products, a sum and two scales */
        assert_roundings(name, got, c->exact, c->sizes, c->count, 4.0);
        assert_roundings(name, c->dots, c->dots_exact, c->dots_sizes, rows, 6.0);
        check_other_places(kernel, c, got);
        free(got);
        note_ran("rope_backward", kernel->name);
    }
}

static void kernels_match_oracle(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++)
        for (unsigned flags = 0; flags < FLAGS; flags++) {
            rope_case *c = rope_case_new(*state, shapes[n], flags);
            check_kernels(*state, c);
            rope_case_free(c);
        }
    note_without("rope_backward", "avx512bf16"); /* sums are float32 */
    assert_ran("rope_backward", "ref");
}

/* Forward and backward with factors, against PyTorch. */
static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const double *p = g->parameters;
    const int32_t T = (int32_t)p[1], H = (int32_t)p[2], D = (int32_t)p[3], rotated = (int32_t)p[4];
    const int64_t count = (int64_t)T * H * D, angles = (int64_t)T * rotated / 2,
                  rows = (int64_t)T * H;
    const int64_t factor_count = p[5] != 0.0 ? rows : T;
    float *cosines = case_floats(g, "cos", angles), *sines = case_floats(g, "sin", angles);
    float *x = case_floats(g, "x", count), *dout = case_floats(g, "dout", count);
    float *factors = case_floats(g, "factors", factor_count);
    float *out = new_array((size_t)count, sizeof *out), *dx = new_array((size_t)count, sizeof *dx);
    float *dots = new_array((size_t)rows, sizeof *dots);
    double *ones = new_array((size_t)count, sizeof *ones);
    for (int64_t n = 0; n < count; n++) ones[n] = 4.0;
    const foci_rope_args forward = {.T = T,
                                    .H = H,
                                    .D = D,
                                    .rotated = rotated,
                                    .style = (foci_rope_style)p[0],
                                    .cos = cosines,
                                    .sin = sines,
                                    .x = x,
                                    .x_stride = (int64_t)H * D,
                                    .scale = (float)p[6],
                                    .row_scales = factors,
                                    .has_head_scales = p[5] != 0.0,
                                    .out = out,
                                    .out_stride = (int64_t)H * D};
    const foci_rope_backward_args backward = {.T = T,
                                              .H = H,
                                              .D = D,
                                              .rotated = rotated,
                                              .style = forward.style,
                                              .cos = cosines,
                                              .sin = sines,
                                              .scale = forward.scale,
                                              .row_scales = factors,
                                              .has_head_scales = forward.has_head_scales,
                                              .dout = dout,
                                              .dout_stride = (int64_t)H * D,
                                              .dx = dx,
                                              .dx_stride = (int64_t)H * D,
                                              .out = out,
                                              .out_stride = (int64_t)H * D,
                                              .dots = dots};
    size_t next = 0, next_back = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_rope_op, &next));) {
        kernel->run(&forward, 0, T);
        next_kernel(ctx, &foci_rope_backward_op, &next_back)->run(&backward, 0, T);
        assert_roundings(g->name, out, case_doubles(g, "out", count), ones, count, 2.0);
        assert_roundings(g->name, dx, case_doubles(g, "dx", count), ones, count, 2.0);
        assert_roundings(g->name, dots, case_doubles(g, "dots", rows), ones, rows, 16.0);
    }
    void *blocks[] = {cosines, sines, x, dout, factors, out, dx, dots, ones};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
}

static void agrees_with_pytorch(void **state)
{
    each_golden_of("small_grads", "rope_", 3, *state, check_golden);
}

/* Factors of 1 change no bit, factors of 2 only the exponent. */
static void factors_multiply(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 3, H = 2, D = 22, ROTATED = 10, COUNT = T * H * D };
    float *x = new_normals(COUNT, 1.0F, 3), *angles = new_normals((int64_t)T * ROTATED, 1.0F, 4);
    float plain[COUNT], scaled[COUNT], factors[T * H];
    for (int style = 0; style < 2; style++)
        for (int per_head = 0; per_head < 2; per_head++) {
            foci_rope_args args = {.T = T,
                                   .H = H,
                                   .D = D,
                                   .rotated = ROTATED,
                                   .style = (foci_rope_style)style,
                                   .cos = angles,
                                   .sin = angles + T * ROTATED / 2,
                                   .x = x,
                                   .scale = 0.3F,
                                   .out = plain};
            assert_status(ctx, foci_rope_apply(ctx, &args), FOCAL_OK);
            for (int n = 0; n < T * H; n++) factors[n] = n % 2 ? 2.0F : 1.0F;
            args.row_scales = factors;
            args.has_head_scales = per_head;
            args.out = scaled;
            assert_status(ctx, foci_rope_apply(ctx, &args), FOCAL_OK);
            for (int n = 0; n < COUNT; n++)
                assert_true(scaled[n] == plain[n] * factors[per_head ? n / D : n / D / H]);
        }
    free(x);
    free(angles);
}

/* A NaN stays in its head: in its pair of dx, and in the head's dot. */
static void nan_stays_in_its_place(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 2, H = 2, D = 20, COUNT = T * H * D };
    float dout[COUNT], out[COUNT], angles[T * D], dx[COUNT], dots[T * H];
    for (int n = 0; n < COUNT; n++) dout[n] = out[n] = 1.0F;
    for (int n = 0; n < T * D; n++) angles[n] = 0.7F;
    dout[D + 3] = NAN;
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_rope_backward_op, &next));)
        for (int style = 0; style < 2; style++) {
            const foci_rope_backward_args args = {.T = T,
                                                  .H = H,
                                                  .D = D,
                                                  .rotated = D,
                                                  .style = (foci_rope_style)style,
                                                  .cos = angles,
                                                  .sin = angles,
                                                  .scale = 1.0F,
                                                  .dout = dout,
                                                  .dout_stride = (int64_t)H * D,
                                                  .dx = dx,
                                                  .dx_stride = (int64_t)H * D,
                                                  .out = out,
                                                  .out_stride = (int64_t)H * D,
                                                  .dots = dots};
            const int partner = D + (style ? 2 : 3 + D / 2);
            kernel->run(&args, 0, T);
            for (int n = 0; n < COUNT; n++)
                assert_int_equal(isnan(dx[n]) != 0, n == D + 3 || n == partner);
            for (int n = 0; n < T * H; n++) assert_int_equal(isnan(dots[n]) != 0, n == 1);
        }
}

enum { MANY = 331, HEADS = 3, WIDTH = 40 };

/* dx, then dots. */
static void make_gradient(focal_ctx *ctx, const void *problem, void *out)
{
    foci_rope_backward_args args = *(const foci_rope_backward_args *)problem;
    args.dx = out;
    args.dots = (float *)out + (int64_t)MANY * HEADS * WIDTH;
    assert_status(ctx, foci_rope_backward(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    const int64_t count = (int64_t)MANY * HEADS * WIDTH;
    float *x = new_normals(2 * count + (int64_t)MANY * WIDTH, 1.0F, 3), *angles = x + 2 * count;
    const foci_rope_backward_args args = {.T = MANY,
                                          .H = HEADS,
                                          .D = WIDTH,
                                          .rotated = WIDTH,
                                          .cos = angles,
                                          .sin = angles + (int64_t)MANY * WIDTH / 2,
                                          .dout = x,
                                          .out = x + count};
    assert_same_bits("rope_backward", (size_t)(count + (int64_t)MANY * HEADS) * sizeof(float),
                     &args, make_gradient);
    free(x);
}

static void assert_bad(focal_ctx *ctx, foci_rope_backward_args args, const char *text)
{
    assert_status(ctx, foci_rope_backward(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[64] = {0}, dx[64], angles[8] = {0}, dots[8];
    const foci_rope_backward_args good = {.T = 2,
                                          .H = 2,
                                          .D = 8,
                                          .rotated = 4,
                                          .cos = angles,
                                          .sin = angles,
                                          .dout = x,
                                          .dx = dx,
                                          .out = x,
                                          .dots = dots};
    foci_rope_backward_args bad = good;
    assert_status(ctx, foci_rope_backward(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_rope_backward(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_rope_backward(ctx, NULL), FOCAL_EINVAL);
    bad.sin = NULL;
    assert_bad(ctx, bad, "rope backward: cos, sin, dout and dx must be set");
    bad = good;
    bad.dots = NULL;
    assert_bad(ctx, bad, "rope backward: out and dots must both be set, or none");
    bad = good;
    bad.H = 0;
    assert_bad(ctx, bad, "rope backward: 2 tokens of 0 heads of 8: each must be at least 1");
    bad = good;
    bad.rotated = 9;
    assert_bad(ctx, bad, "rope backward: the rotated width is 9, it must be even and 0 to 8");
    bad = good;
    bad.style = (foci_rope_style)2;
    assert_bad(ctx, bad, "rope backward: there is no style 2");
    bad = good;
    bad.scale = INFINITY;
    assert_bad(ctx, bad, "rope backward: the scale must be a finite number");
    bad = good;
    bad.out_stride = 15;
    assert_bad(ctx, bad, "rope backward: out: a stride of 15 does not fit 2 rows of 16");
    bad.out = NULL; /* a stride of nothing is not looked at */
    bad.dots = NULL;
    bad.out_stride = INT64_MIN;
    assert_status(ctx, foci_rope_backward(ctx, &bad), FOCAL_OK);
    bad = good;
    bad.dout_dtype = FOCAL_Q8_0;
    assert_bad(ctx, bad, "rope backward: dout is q8_0, it must be f32 or bf16");
    bad = good;
    bad.dx_dtype = FOCAL_F16;
    assert_bad(ctx, bad, "rope backward: dx: out is f16, it must be f32 or bf16");
    bad = good;
    bad.dx = x;
    bad.dout_dtype = FOCAL_BF16;
    assert_bad(ctx, bad,
               "rope backward: in place, dx must have the type and the stride 16 of dout");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(factors_multiply, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nan_stays_in_its_place, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("rope_backward", tests, NULL, NULL);
}
