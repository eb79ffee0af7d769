/* Norms: every kernel against the double oracle on widths that break vectors, heads, strides,
 * misaligned arrays, in place and in bfloat16; against transformers' float32; odd rows, threads,
 * bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/norm/norm.h"
#include "support/op_cases.h"
#include "support/oracle_ops.h"
#include "support/plain_ops.h"
#include "support/route_cases.h"

static const int32_t widths[] = {1,  2,  3,  7,  8,  9,  15,  16,  17,  23,   31,
                                 32, 33, 47, 64, 65, 97, 128, 257, 576, 1000, 2053};

/* A call on arrays of its own, its exact result and what plain loops make of it. */
typedef struct norm_case {
    char name[96];
    foci_norm_args args; /* with defaults filled in; out of `out` */
    grid x, out;
    float *weight, *bias, *plain;
    double *exact, *sizes;
    int64_t count;
} norm_case;

enum { HAS_WEIGHT = 1, HAS_BIAS = 2, HAS_OFFSET = 4, VARIANTS = 8 };

static void find_exact(norm_case *c, const float *x)
{
    double *x64 = to_doubles(x, c->count);
    double *w64 = c->weight ? to_doubles(c->weight, c->args.width) : NULL;
    double *b64 = c->bias ? to_doubles(c->bias, c->args.width) : NULL;
    const oracle_norm oracle = {.is_layer = c->args.kind == FOCI_NORM_LAYER,
                                .rows = c->count / c->args.width,
                                .width = c->args.width,
                                .x = x64,
                                .weight = w64,
                                .bias = b64,
                                .offset = (double)c->args.weight_offset,
                                .epsilon = (double)c->args.epsilon};
    oracle_norm_rows(&oracle, c->exact, c->sizes);
    plain_norm(&c->args, c->plain);
    free(x64);
    free(w64);
    free(b64);
}

static norm_case *norm_case_new(focal_ctx *ctx, foci_norm_kind kind, int32_t T, int32_t H,
                                int32_t width, unsigned flags, uint64_t seed)
{
    norm_case *c = new_array(1, sizeof *c);
    const unsigned variant = flags % VARIANTS, layout = flags / VARIANTS;
    (void)snprintf(c->name, sizeof c->name, "kind %d T %d H %d width %d flags %u", (int)kind, T, H,
                   width, flags);
    c->count = (int64_t)T * H * width;
    c->x = grid_new(T, (int64_t)H * width, FOCAL_F32, layout);
    c->out = grid_new(T, (int64_t)H * width, FOCAL_F32, layout ^ GRID_MISALIGNED);
    if (variant & HAS_WEIGHT) c->weight = new_normals(width, 1.0F, seed + 1);
    if (variant & HAS_BIAS) c->bias = new_normals(width, 1.0F, seed + 2);
    float *x = new_normals(c->count, 3.0F, seed);
    for (int64_t n = 0; n < c->count; n++) x[n] += 1.0F; /* a mean to subtract */
    grid_fill(&c->x, x);
    const foci_norm_args args = {.kind = kind,
                                 .T = T,
                                 .H = H == 1 ? 0 : H,
                                 .width = width,
                                 .x = c->x.data,
                                 .x_stride = c->x.stride,
                                 .weight = c->weight,
                                 .weight_offset = variant & HAS_OFFSET ? 1.0F : 0.0F,
                                 .bias = c->bias,
                                 .epsilon = 1e-5F,
                                 .out = c->out.data,
                                 .out_stride = c->out.stride};
    assert_status(ctx, foci_norm_normalise(ctx, &args, &c->args), FOCAL_OK);
    c->exact = new_array((size_t)c->count, sizeof *c->exact);
    c->sizes = new_array((size_t)c->count, sizeof *c->sizes);
    c->plain = new_array((size_t)c->count, sizeof *c->plain);
    find_exact(c, x);
    free(x);
    return c;
}

static void norm_case_free(norm_case *c)
{
    grid_free(&c->x);
    grid_free(&c->out);
    free(c->weight);
    free(c->bias);
    free(c->plain);
    free(c->exact);
    free(c->sizes);
    free(c);
}

static float *run(const foci_rows_kernel *kernel, const foci_norm_args *args, const grid *out)
{
    kernel->run(args, 0, (int64_t)args->T * args->H);
    assert_gaps_untouched(kernel->name, out);
    return grid_packed(out);
}

/* The same bits in place, and their rounding in bfloat16, with and without themselves beside it. */
static void check_other_places(const foci_rows_kernel *kernel, const norm_case *c, const float *got)
{
    grid half = grid_new(c->x.rows, c->x.width, FOCAL_BF16, GRID_GAPS);
    foci_norm_args args = c->args;
    args.out = half.data;
    args.out_dtype = FOCAL_BF16;
    args.out_stride = half.stride;
    float *unrounded = new_array((size_t)c->count, sizeof *unrounded);
    args.unrounded = c->count % 2 ? unrounded : NULL;
    float *rounded = run(kernel, &args, &half);
    if (args.unrounded) assert_memory_equal(unrounded, got, (size_t)c->count * sizeof *got);
    free(unrounded);
    for (int64_t n = 0; n < c->count; n++)
        if (rounded[n] != foci_bf16_to_float(foci_bf16_from_float(got[n])))
            fail_msg("%s: bf16 is %g where f32 is %g", c->name, (double)rounded[n], (double)got[n]);
    float *x = grid_packed(&c->x);
    args = c->args;
    args.out = c->x.data;
    args.out_stride = c->x.stride;
    float *in_place = run(kernel, &args, &c->x);
    assert_memory_equal(in_place, got, (size_t)c->count * sizeof *got);
    grid_fill(&c->x, x);
    free(x);
    free(in_place);
    free(rounded);
    grid_free(&half);
}

static void check_kernels(focal_ctx *ctx, norm_case *c)
{
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_norm_op, &next));) {
        char name[128];
        (void)snprintf(name, sizeof name, "%s, %s", kernel->name, c->name);
        float *got = run(kernel, &c->args, &c->out);
        const error_bound bound = {.name = name,
                                   .plain = c->plain,
                                   .exact = c->exact,
                                   .magnitude = c->sizes,
                                   .count = c->count,
                                   .factor = 2.0};
        assert_within(&bound, got);
        check_other_places(kernel, c, got);
        free(got);
        note_ran("norm", kernel->name);
    }
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    unsigned flags = 0;
    for (size_t n = 0; n < FOCAL_COUNT(widths); n++)
        for (unsigned shape = 0; shape < 16; shape++) {
            static const int32_t tokens[] = {1, 3}, heads[] = {1, 3};
            const foci_norm_kind kind = shape & 1 ? FOCI_NORM_LAYER : FOCI_NORM_RMS;
            norm_case *c = norm_case_new(ctx, kind, tokens[shape >> 1 & 1], heads[shape >> 2 & 1],
                                         widths[n], flags++ % (4 * VARIANTS), 100 * n + shape);
            check_kernels(ctx, c);
            norm_case_free(c);
        }
    note_without("norm", "avx512bf16"); /* rows are float32 */
    assert_ran("norm", "ref");
}

/* The definition against PyTorch's double, and every kernel against transformers' float32. */
static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const int32_t rows = (int32_t)g->parameters[1], width = (int32_t)g->parameters[2];
    const int64_t count = (int64_t)rows * width;
    float *x = case_floats(g, "x", count), *out = new_array((size_t)count, sizeof *out);
    float *w = golden_get(g, "weight", width) ? case_floats(g, "weight", width) : NULL;
    float *b = golden_get(g, "bias", width) ? case_floats(g, "bias", width) : NULL;
    const foci_norm_args args = {.kind = (foci_norm_kind)g->parameters[0],
                                 .T = rows,
                                 .H = 1,
                                 .width = width,
                                 .x = x,
                                 .x_stride = width,
                                 .weight = w,
                                 .weight_offset = (float)g->parameters[3],
                                 .bias = b,
                                 .epsilon = (float)g->parameters[4],
                                 .out = out,
                                 .out_stride = width};
    const oracle_norm oracle = {.is_layer = args.kind == FOCI_NORM_LAYER,
                                .rows = rows,
                                .width = width,
                                .x = case_doubles(g, "x", count),
                                .weight = golden_get(g, "weight", width),
                                .bias = golden_get(g, "bias", width),
                                .offset = g->parameters[3],
                                .epsilon = g->parameters[4]};
    double *exact = new_array((size_t)count, sizeof *exact);
    double *sizes = new_array((size_t)count, sizeof *sizes);
    oracle_norm_rows(&oracle, exact, sizes);
    assert_doubles_within(g->name, exact, case_doubles(g, "out", count), count, 1e-12);
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_norm_op, &next));) {
        kernel->run(&args, 0, rows);
        assert_roundings(g->name, out, case_doubles(g, "model", count), sizes, count, 4.0);
    }
    free(exact);
    free(sizes);
    free(x);
    free(out);
    free(w);
    free(b);
}

static void agrees_with_transformers(void **state)
{
    each_golden("norm_", 5, *state, check_golden);
}

/* NaN and infinities spoil their own row; squares beyond float32 make it 0; a zero row stays 0. */
static void odd_rows(void **state)
{
    focal_ctx *ctx = *state;
    enum { ROWS = 6, WIDTH = 19 };
    float x[ROWS][WIDTH], out[ROWS][WIDTH];
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_norm_op, &next));)
        for (int kind = 0; kind < 2; kind++) {
            for (int64_t n = 0; n < WIDTH; n++) {
                for (int row = 0; row < ROWS; row++) x[row][n] = (float)(n % 5) - 2.0F;
                x[3][n] = n % 2 ? 1e30F : -1e30F;
                x[4][n] = 0.0F;
            }
            x[1][18] = NAN;
            x[2][0] = INFINITY;
            const foci_norm_args args = {.kind = (foci_norm_kind)kind,
                                         .T = ROWS,
                                         .H = 1,
                                         .width = WIDTH,
                                         .x = x[0],
                                         .x_stride = WIDTH,
                                         .epsilon = 1e-6F,
                                         .out = out,
                                         .out_stride = WIDTH};
            kernel->run(&args, 0, ROWS);
            for (int64_t n = 0; n < WIDTH; n++) {
                assert_true(isfinite(out[0][n]) && isfinite(out[5][n]) && isnan(out[1][n]));
                assert_true(!isnormal(out[2][n])); /* x / infinity is 0 or NaN */
                assert_true(out[3][n] == 0.0F && out[4][n] == 0.0F);
            }
            assert_true(isnan(out[2][0]));
        }
}

static void make_norm(focal_ctx *ctx, const void *problem, void *out)
{
    foci_norm_args args = *(const foci_norm_args *)problem;
    args.out = out;
    assert_status(ctx, foci_norm(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    enum { T = 301, H = 3, WIDTH = 80 };
    float *x = new_normals((int64_t)T * H * WIDTH, 2.0F, 5);
    for (int kind = 0; kind < 2; kind++) {
        const foci_norm_args args = {
            .kind = (foci_norm_kind)kind, .T = T, .H = H, .width = WIDTH, .x = x, .epsilon = 1e-5F};
        assert_same_bits("norm", (size_t)T * H * WIDTH * sizeof(float), &args, make_norm);
    }
    free(x);
}

static void assert_bad(focal_ctx *ctx, foci_norm_args args, const char *text)
{
    assert_status(ctx, foci_norm(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[64] = {0}, out[64];
    const foci_norm_args good = {.T = 2, .width = 8, .x = x, .out = out};
    foci_norm_args bad = good;
    assert_status(ctx, foci_norm(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_norm(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_norm(ctx, NULL), FOCAL_EINVAL);
    bad.x = NULL;
    assert_bad(ctx, bad, "norm: x and out must be set");
    bad = good;
    bad.T = 0;
    assert_bad(ctx, bad, "norm: 0 tokens of 0 rows of 8: each must be at least 1");
    bad = good;
    bad.H = -1;
    assert_bad(ctx, bad, "norm: 2 tokens of -1 rows of 8: each must be at least 1");
    bad = good;
    bad.kind = (foci_norm_kind)2;
    assert_bad(ctx, bad, "norm: there is no kind 2");
    bad = good;
    bad.epsilon = -1.0F;
    assert_bad(ctx, bad, "norm: epsilon is -1, it must be 0 or more");
    bad.epsilon = NAN;
    assert_status(ctx, foci_norm(ctx, &bad), FOCAL_EINVAL);
    bad = good;
    bad.x_stride = 7;
    assert_bad(ctx, bad, "norm: x: a stride of 7 does not fit 2 rows of 8");
    bad.x_stride = INT64_MAX / 2;
    assert_status(ctx, foci_norm(ctx, &bad), FOCAL_EINVAL);
    bad = good;
    bad.out_dtype = FOCAL_F16;
    assert_bad(ctx, bad, "norm: out is f16, it must be f32 or bf16");
    bad = good;
    bad.out = x;
    bad.out_stride = 9;
    assert_bad(ctx, bad, "norm: in place, out must be f32 with the stride 8 of its input");
}

/* A pinned kernel runs or the call says that it cannot; other operations' kernels pin nothing. */
static void pinned_kernels(void **state)
{
    (void)state;
    static const char *const names[] = {"ref", "avx2", "avx512", "avx512bf16"};
    float x[8] = {1.0F, 2.0F}, out[8];
    const foci_norm_args args = {.T = 1, .width = 8, .x = x, .out = out};
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        const focal_ctx_options options = {.threads = 1, .kernel = names[n]};
        focal_ctx *ctx = NULL;
        assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
        foci_ctx_mask_features(ctx, FOCI_AVX2);
        const foci_rows_kernel *kernel = foci_rows_pick(ctx, &foci_norm_op);
        if (n == 2) {
            assert_null(kernel);
            assert_status(ctx, foci_norm(ctx, &args), FOCAL_EUNSUPPORTED);
            assert_string_equal(focal_ctx_error(ctx),
                                "norm: the pinned kernel avx512 cannot run here");
        } else {
            assert_non_null(kernel);
            if (n == 0) assert_string_equal(kernel->name, "ref");
            assert_status(ctx, foci_norm(ctx, &args), FOCAL_OK);
        }
        focal_ctx_close(ctx);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(agrees_with_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_rows, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
        cmocka_unit_test(pinned_kernels),
    };
    return cmocka_run_group_tests_name("norm", tests, NULL, NULL);
}
