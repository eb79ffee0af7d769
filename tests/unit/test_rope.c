/* Rotary positions: frequencies and factors against transformers, angles up to a million, and every
 * kernel of the rotation against the double oracle: both styles, partial, scaled, strides,
 * misaligned, in place, bfloat16; threads, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/rope/rope.h"
#include "support/op_cases.h"
#include "support/oracle_ops.h"
#include "support/plain_ops.h"
#include "support/route_cases.h"

typedef struct tally {
    focal_ctx *ctx;
    int64_t count, other; /* frequencies, and those with other bits than transformers' */
} tally;

static void check_table(const golden_case *g, void *user)
{
    tally *t = user;
    const double *p = g->parameters;
    const foci_rope_config config = {.rotated = (int32_t)p[0],
                                     .kind = (foci_rope_kind)p[1],
                                     .base = p[2],
                                     .is_untruncated = p[3] != 0.0,
                                     .factor = p[4],
                                     .original_context = p[5],
                                     .low = p[6],
                                     .high = p[7],
                                     .beta_fast = p[8],
                                     .beta_slow = p[9],
                                     .mscale = p[10],
                                     .mscale_all_dim = p[11],
                                     .attention_factor = p[12]};
    const int32_t pairs = config.rotated / 2;
    const double *expected = case_doubles(g, "inv_freq", pairs);
    float inv_freq[256], scale = NAN;
    assert_true(pairs < 256);
    fill_nan(inv_freq, 256, FOCAL_F32);
    assert_status(t->ctx, foci_rope_table(t->ctx, &config, inv_freq, &scale), FOCAL_OK);
    /* One unit in the last place is up to two roundings. */
    assert_roundings(g->name, inv_freq, expected, NULL, pairs, 2.0);
    assert_true(is_fill_nan(inv_freq, (size_t)pairs, FOCAL_F32));
    assert_roundings(g->name, &scale, case_doubles(g, "attention", 1), NULL, 1, 1.0);
    t->count += pairs;
    for (int32_t n = 0; n < pairs; n++) t->other += (double)inv_freq[n] != expected[n];
}

static void tables_are_those_of_transformers(void **state)
{
    tally t = {.ctx = *state};
    each_golden("table_", 11, &t, check_table);
    print_message("%lld of %lld frequencies have other bits\n", (long long)t.other,
                  (long long)t.count);
    assert_true(t.other * 50 < t.count);
}

static void divisors_divide(void **state)
{
    focal_ctx *ctx = *state;
    enum { PAIRS = 8 };
    const float divisors[PAIRS] = {1.0F, 1.0F, 2.0F, 4.0F, 8.0F, 16.0F, 32.0F, 0.5F};
    const foci_rope_config plain = {.rotated = 2 * PAIRS, .base = 5e5};
    foci_rope_config divided = plain;
    divided.divisors = divisors;
    float a[PAIRS], b[PAIRS], scale;
    assert_status(ctx, foci_rope_table(ctx, &plain, a, &scale), FOCAL_OK);
    assert_status(ctx, foci_rope_table(ctx, &divided, b, &scale), FOCAL_OK);
    for (int n = 0; n < PAIRS; n++) assert_true(b[n] == a[n] / divisors[n]);
    assert_true(scale == 1.0F);
}

/* Cosines and sines of transformers' float32 and, exact, of the true angle. */
static void check_angles(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const int32_t T = (int32_t)g->parameters[1], rotated = (int32_t)g->parameters[4];
    const int64_t pairs = rotated / 2, count = T * pairs;
    float *inv_freq = case_floats(g, "inv_freq", pairs);
    float *cosines = new_array((size_t)count, sizeof *cosines);
    float *sines = new_array((size_t)count, sizeof *sines);
    const double *given = case_doubles(g, "positions", T);
    double *exact_cos = new_array((size_t)count, sizeof *exact_cos);
    double *exact_sin = new_array((size_t)count, sizeof *exact_sin);
    double *ones = new_array((size_t)count, sizeof *ones);
    int32_t positions[16];
    for (int32_t t = 0; t < T; t++) positions[t] = (int32_t)given[t];
    foci_rope_angles_args args = {.T = T,
                                  .rotated = rotated,
                                  .positions = positions,
                                  .inv_freq = inv_freq,
                                  .scale = 1.0F,
                                  .cos = cosines,
                                  .sin = sines};
    for (int64_t n = 0; n < count; n++) ones[n] = 1.0;
    assert_status(ctx, foci_rope_angles(ctx, &args), FOCAL_OK);
    assert_roundings(g->name, cosines, case_doubles(g, "cos", count), ones, count, 2.0);
    assert_roundings(g->name, sines, case_doubles(g, "sin", count), ones, count, 2.0);

    args.is_exact = true;
    args.scale = 1.25F;
    for (int64_t n = 0; n < count; n++) {
        const int64_t t = n / pairs;
        const long double angle = (long double)positions[t] * (long double)inv_freq[n % pairs];
        exact_cos[n] = (double)(1.25L * cosl(angle));
        exact_sin[n] = (double)(1.25L * sinl(angle));
    }
    assert_status(ctx, foci_rope_angles(ctx, &args), FOCAL_OK);
    assert_roundings(g->name, cosines, exact_cos, NULL, count, 1.001);
    assert_roundings(g->name, sines, exact_sin, NULL, count, 1.001);
    free(inv_freq);
    free(cosines);
    free(sines);
    free(exact_cos);
    free(exact_sin);
    free(ones);
}

static void angles_are_those_of_transformers(void **state)
{
    each_golden("rope_", 3, *state, check_angles);
}

/* The oracle against PyTorch's double; every kernel against transformers' float32, by its cos and
 * sin. */
static void check_rotation(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const double *p = g->parameters;
    const int32_t T = (int32_t)p[1], H = (int32_t)p[2], D = (int32_t)p[3], rotated = (int32_t)p[4];
    const int64_t count = (int64_t)T * H * D, angles = (int64_t)T * rotated / 2;
    float *cosines = case_floats(g, "cos", angles), *sines = case_floats(g, "sin", angles);
    float *x = case_floats(g, "x", count), *out = new_array((size_t)count, sizeof *out);
    double *turned = to_doubles(x, count), *sizes = new_array((size_t)count, sizeof *sizes);
    const oracle_rope oracle = {.is_pairs = p[0] != 0.0,
                                .T = T,
                                .H = H,
                                .D = D,
                                .rotated = rotated,
                                .cos = case_doubles(g, "cos", angles),
                                .sin = case_doubles(g, "sin", angles),
                                .scale = 1.0};
    oracle_rope_rotate(&oracle, turned, sizes);
    /* `out` has cos and sin in double: they differ by a rounding from those above. */
    assert_doubles_within(g->name, turned, case_doubles(g, "out", count), count, 2e-7);
    const foci_rope_args args = {.T = T,
                                 .H = H,
                                 .D = D,
                                 .rotated = rotated,
                                 .style = (foci_rope_style)p[0],
                                 .cos = cosines,
                                 .sin = sines,
                                 .x = x,
                                 .x_stride = (int64_t)H * D,
                                 .scale = 1.0F,
                                 .out = out,
                                 .out_stride = (int64_t)H * D};
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_rope_op, &next));) {
        kernel->run(&args, 0, T);
        assert_roundings(g->name, out, case_doubles(g, "model", count), sizes, count, 2.0);
    }
    free(cosines);
    free(sines);
    free(x);
    free(out);
    free(turned);
    free(sizes);
}

static void rotation_is_that_of_transformers(void **state)
{
    each_golden("rope_", 3, *state, check_rotation);
}

typedef struct rope_shape {
    int32_t T, H, D, rotated;
} rope_shape;

static const rope_shape shapes[] = {
    {1, 1, 2, 2},     {3, 1, 3, 2},    {2, 3, 8, 8},     {3, 2, 14, 14},   {1, 3, 16, 16},
    {4, 1, 18, 18},   {2, 2, 20, 10},  {3, 3, 30, 30},   {2, 1, 32, 32},   {3, 2, 34, 34},
    {2, 3, 40, 30},   {5, 9, 64, 64},  {2, 2, 66, 66},   {3, 4, 80, 32},   {2, 2, 96, 96},
    {2, 3, 128, 128}, {1, 2, 131, 62}, {2, 1, 256, 256}, {3, 1, 257, 130},
};

/* The same bits in place, and their rounding in bfloat16. */
static void check_other_places(const foci_rows_kernel *kernel, const foci_rope_args *normal,
                               const grid *x, const float *got)
{
    const int64_t count = x->rows * x->width;
    grid half = grid_new(x->rows, x->width, FOCAL_BF16, GRID_GAPS);
    foci_rope_args args = *normal;
    args.out = half.data;
    args.out_dtype = FOCAL_BF16;
    args.out_stride = half.stride;
    kernel->run(&args, 0, args.T);
    assert_gaps_untouched(kernel->name, &half);
    float *rounded = grid_packed(&half), *kept = grid_packed(x);
    for (int64_t n = 0; n < count; n++)
        assert_true(rounded[n] == foci_bf16_to_float(foci_bf16_from_float(got[n])));
    args = *normal;
    args.out = x->data;
    args.out_stride = x->stride;
    kernel->run(&args, 0, args.T);
    assert_gaps_untouched(kernel->name, x);
    float *in_place = grid_packed(x);
    assert_memory_equal(in_place, got, (size_t)count * sizeof *got);
    grid_fill(x, kept);
    free(rounded);
    free(kept);
    free(in_place);
    grid_free(&half);
}

static void check_shape(focal_ctx *ctx, rope_shape s, foci_rope_style style, unsigned flags)
{
    const int64_t wide = (int64_t)s.H * s.D, count = s.T * wide,
                  angles = (int64_t)s.T * s.rotated / 2;
    grid x = grid_new(s.T, wide, FOCAL_F32, flags % 4);
    grid out = grid_new(s.T, wide, FOCAL_F32, flags % 4 ^ GRID_MISALIGNED);
    float *values = new_normals(count, 1.0F, flags + 1), *plain = new_normals(count, 0.0F, 1);
    float *cosines = new_normals(angles, 1.0F, flags + 2),
          *sines = new_normals(angles, 1.0F, flags + 3);
    grid_fill(&x, values);
    const foci_rope_args args = {.T = s.T,
                                 .H = s.H,
                                 .D = s.D,
                                 .rotated = s.rotated,
                                 .style = style,
                                 .cos = cosines,
                                 .sin = sines,
                                 .x = x.data,
                                 .x_stride = x.stride,
                                 .scale = flags % 3 ? 0.0F : 0.088388348F,
                                 .out = out.data,
                                 .out_stride = out.stride};
    foci_rope_args normal;
    assert_status(ctx, foci_rope_normalise(ctx, &args, &normal), FOCAL_OK);
    double *exact = to_doubles(values, count), *sizes = to_doubles(values, count);
    double *cos64 = to_doubles(cosines, angles), *sin64 = to_doubles(sines, angles);
    const oracle_rope oracle = {.is_pairs = style == FOCI_ROPE_PAIRS,
                                .T = s.T,
                                .H = s.H,
                                .D = s.D,
                                .rotated = s.rotated,
                                .cos = cos64,
                                .sin = sin64,
                                .scale = (double)normal.scale};
    oracle_rope_rotate(&oracle, exact, sizes);
    plain_rope(&normal, plain);
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_rope_op, &next));) {
        char name[128];
        (void)snprintf(name, sizeof name, "%s, T %d H %d D %d rotated %d style %d", kernel->name,
                       s.T, s.H, s.D, s.rotated, (int)style);
        kernel->run(&normal, 0, s.T);
        assert_gaps_untouched(name, &out);
        float *got = grid_packed(&out);
        const error_bound bound = {.name = name,
                                   .plain = plain,
                                   .exact = exact,
                                   .magnitude = sizes,
                                   .count = count,
                                   .factor = 2.0};
        assert_within(&bound, got);
        check_other_places(kernel, &normal, &x, got);
        free(got);
        note_ran("rope", kernel->name);
    }
    void *blocks[] = {values, plain, cosines, sines, exact, sizes, cos64, sin64};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    grid_free(&x);
    grid_free(&out);
}

static void kernels_match_oracle(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++)
        for (unsigned flags = 0; flags < 6; flags++) {
            check_shape(*state, shapes[n], FOCI_ROPE_HALVES, flags);
            check_shape(*state, shapes[n], FOCI_ROPE_PAIRS, flags + 1);
        }
    note_without("rope", "avx512bf16"); /* rows are float32 */
    assert_ran("rope", "ref");
}

enum { MANY = 331, HEADS = 3, WIDTH = 40 };

static void make_rotated(focal_ctx *ctx, const void *problem, void *out)
{
    foci_rope_args args = *(const foci_rope_args *)problem;
    float inv_freq[WIDTH / 2], scale;
    float *angles = new_array((size_t)MANY * WIDTH, sizeof *angles);
    int32_t *positions = new_array(MANY, sizeof *positions);
    for (int32_t t = 0; t < MANY; t++) positions[t] = 3000 * t;
    const foci_rope_config config = {.rotated = WIDTH, .base = 1e5};
    assert_status(ctx, foci_rope_table(ctx, &config, inv_freq, &scale), FOCAL_OK);
    const foci_rope_angles_args make = {.T = MANY,
                                        .rotated = WIDTH,
                                        .positions = positions,
                                        .inv_freq = inv_freq,
                                        .scale = scale,
                                        .cos = angles,
                                        .sin = angles + (int64_t)MANY * WIDTH / 2};
    assert_status(ctx, foci_rope_angles(ctx, &make), FOCAL_OK);
    args.cos = make.cos;
    args.sin = make.sin;
    args.out = out;
    assert_status(ctx, foci_rope_apply(ctx, &args), FOCAL_OK);
    free(angles);
    free(positions);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    float *x = new_normals((int64_t)MANY * HEADS * WIDTH, 1.0F, 3);
    const foci_rope_args args = {.T = MANY, .H = HEADS, .D = WIDTH, .rotated = WIDTH, .x = x};
    assert_same_bits("rope", (size_t)MANY * HEADS * WIDTH * sizeof(float), &args, make_rotated);
    free(x);
}

static void assert_bad_table(focal_ctx *ctx, foci_rope_config config, const char *text)
{
    float inv_freq[8], scale;
    assert_status(ctx, foci_rope_table(ctx, &config, inv_freq, &scale), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_tables(void **state)
{
    focal_ctx *ctx = *state;
    const float zeros[4] = {1.0F, 0.0F, 1.0F, 1.0F};
    const foci_rope_config good = {.rotated = 8,
                                   .base = 1e4,
                                   .factor = 4.0,
                                   .low = 1.0,
                                   .high = 4.0,
                                   .original_context = 4096.0};
    foci_rope_config bad = good;
    bad.rotated = 7;
    assert_bad_table(ctx, bad, "rope: the rotated width is 7, it must be even and 2 to 65536");
    bad = good;
    bad.base = 1.0;
    assert_bad_table(ctx, bad, "rope: the base is 1, it must be above 1");
    bad.base = (double)NAN;
    assert_bad_table(ctx, bad, "rope: the base is nan, it must be above 1");
    bad = good;
    bad.kind = (foci_rope_kind)4;
    assert_bad_table(ctx, bad, "rope: there is no kind 4");
    bad = good;
    bad.kind = FOCI_ROPE_LINEAR;
    bad.factor = 0.0;
    assert_bad_table(ctx, bad, "rope: the factor is 0, it must be above 0");
    bad = good;
    bad.kind = FOCI_ROPE_YARN;
    bad.original_context = -1.0;
    assert_bad_table(ctx, bad, "rope: the original context is -1, it must be above 0");
    bad = good;
    bad.kind = FOCI_ROPE_LLAMA3;
    bad.low = 4.0;
    assert_bad_table(ctx, bad,
                     "rope: the low factor 4 must be above 0 and below the high factor 4");
    bad = good;
    bad.beta_fast = -2.0;
    assert_bad_table(ctx, bad, "rope: -2 as a yarn or attention factor: it must be 0 or more");
    bad = good;
    bad.divisors = zeros;
    assert_bad_table(ctx, bad, "rope: pair 1 turns by inf a token, it must be 0 or more");
    bad = good;
    bad.kind = FOCI_ROPE_LINEAR;
    bad.factor = 1e-300;
    assert_bad_table(ctx, bad, "rope: pair 0 turns by inf a token, it must be 0 or more");
    bad = good;
    bad.attention_factor = 1e300;
    assert_bad_table(ctx, bad, "rope: the attention factor is not finite");
    assert_status(ctx, foci_rope_table(ctx, NULL, NULL, NULL), FOCAL_EINVAL);
}

static void assert_bad(focal_ctx *ctx, foci_rope_args args, const char *text)
{
    assert_status(ctx, foci_rope_apply(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[64] = {0}, out[64];
    int32_t positions[2] = {0, -5};
    const foci_rope_args good = {
        .T = 2, .H = 2, .D = 8, .rotated = 8, .cos = x, .sin = x, .x = x, .out = out};
    foci_rope_args bad = good;
    assert_status(ctx, foci_rope_apply(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_rope_apply(NULL, &good), FOCAL_EINVAL);
    bad.cos = NULL;
    assert_bad(ctx, bad, "rope: cos, sin, x and out must be set");
    bad = good;
    bad.H = 0;
    assert_bad(ctx, bad, "rope: 2 tokens of 0 heads of 8: each must be at least 1");
    bad = good;
    bad.rotated = 10;
    assert_bad(ctx, bad, "rope: the rotated width is 10, it must be even and 2 to 8");
    bad = good;
    bad.style = (foci_rope_style)3;
    assert_bad(ctx, bad, "rope: there is no style 3");
    bad = good;
    bad.scale = INFINITY;
    assert_bad(ctx, bad, "rope: the scale must be a finite number");
    bad = good;
    bad.x_stride = 15;
    assert_bad(ctx, bad, "rope: x: a stride of 15 does not fit 2 rows of 16");
    bad = good;
    bad.out = x;
    bad.out_dtype = FOCAL_BF16;
    assert_bad(ctx, bad, "rope: in place, out must be f32 with the stride 16 of its input");
    foci_rope_angles_args angles = {
        .T = 2, .rotated = 8, .positions = positions, .inv_freq = x, .cos = out, .sin = out + 8};
    assert_status(ctx, foci_rope_angles(ctx, &angles), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "rope: token 1 has position -5, below 0");
    angles.T = 0;
    assert_status(ctx, foci_rope_angles(ctx, &angles), FOCAL_EINVAL);
    angles.T = 1;
    angles.rotated = 3;
    assert_status(ctx, foci_rope_angles(ctx, &angles), FOCAL_EINVAL);
    angles.sin = NULL;
    assert_status(ctx, foci_rope_angles(ctx, &angles), FOCAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tables_are_those_of_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(divisors_divide, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(angles_are_those_of_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rotation_is_that_of_transformers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_tables, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("rope", tests, NULL, NULL);
}
