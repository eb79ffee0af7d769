/* The gradient of gates: slopes against the exact ones over all sizes of input, the oracle against
 * finite differences and PyTorch, every kernel on shapes, strides, halves of one array, in place
 * and in bfloat16; hidden has forward's bits; odd numbers, threads, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/mlp/gate_backward.h"
#include "support/op_cases.h"
#include "support/oracle_grads.h"
#include "support/plain_grads.h"
#include "support/route_cases.h"

static const char *const names[] = {"silu", "gelu", "gelu_tanh"};

static float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* What gate_backward.h says: the worst over half a million floats of both signs, 1e-10 to 1e4. */
static void check_accuracy(const foci_rows_kernel *kernel, foci_activation act)
{
    enum { BATCH = 4096, STEP = 1501 };
    float x[BATCH], ones[BATCH], out[BATCH];
    double worst = 0.0;
    for (int n = 0; n < BATCH; n++) ones[n] = 1.0F;
    for (uint32_t bits = 0x2EDBE6FFU; bits < 0x461C4000U; bits += BATCH / 2 * STEP) {
        for (uint32_t n = 0; n < BATCH; n++)
            x[n] = float_of_bits((bits + n / 2 * STEP) | (n % 2) << 31);
        const foci_gate_backward_args args = {
            .activation = act, .T = 1, .F = BATCH, .gate = x, .dout = ones, .dgate = out};
        kernel->run(&args, 0, 1);
        for (int n = 0; n < BATCH; n++) {
            double size;
            const double exact = oracle_activation_slope((int)act, (double)x[n], &size);
            if (act == FOCI_GELU_TANH) size = fmax(size, 1.0);
            if (size < 1e-36) /* subnormal */
                assert_true(fabsf(out[n]) < 2e-36F);
            else
                worst = fmax(worst, fabs((double)out[n] - exact) / size);
        }
    }
    print_message("%s, %s: %.2e of the terms\n", kernel->name, names[act], worst);
    assert_true(worst <= 4e-7);
}

static void slopes_are_accurate(void **state)
{
    focal_ctx *ctx = *state;
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_gate_backward_op, &next));)
        for (int act = 0; act < 3; act++) check_accuracy(kernel, (foci_activation)act);
}

static void oracle_matches_finite_differences(void **state)
{
    (void)state;
    for (int act = 0; act < 3; act++)
        for (int n = -70; n <= 70; n++) {
            const double x = 0.13 * n;
            const double step = 1e-5, above = oracle_activation(act, x + step),
                         below = oracle_activation(act, x - step);
            const double exact = oracle_activation_slope(act, x, NULL);
            if (fabs((above - below) / (2.0 * step) - exact) > 1e-9)
                fail_msg("%s: the slope at %g is %.12g", names[act], x, exact);
        }
}

enum { HAS_UP = 4 };

typedef struct gate_case {
    char name[96];
    foci_gate_backward_args args; /* with defaults filled in */
    grid gate, up, dout, dgate, dup, hidden;
    float *gate_values, *up_values, *dout_values;
    float *dgate_plain, *dup_plain;
    double *dgate_exact, *dgate_sizes, *dup_exact, *dup_sizes;
    int64_t count;
} gate_case;

static void find_expected(gate_case *c)
{
    const size_t count = (size_t)c->count;
    c->dgate_plain = new_array(count, sizeof(float));
    c->dup_plain = new_array(count, sizeof(float));
    c->dgate_exact = new_array(count, sizeof(double));
    c->dgate_sizes = new_array(count, sizeof(double));
    c->dup_exact = new_array(count, sizeof(double));
    c->dup_sizes = new_array(count, sizeof(double));
    for (int64_t n = 0; n < c->count; n++) {
        const double x = (double)c->gate_values[n], d = (double)c->dout_values[n];
        const double up = c->args.up ? (double)c->up_values[n] : 1.0;
        const int act = (int)c->args.activation;
        double size;
        c->dgate_exact[n] = d * up * oracle_activation_slope(act, x, &size);
        c->dgate_sizes[n] = fabs(d * up) * fmax(size, 1e-3);
        c->dup_exact[n] = d * oracle_activation(act, x);
        c->dup_sizes[n] = fabs(d * x);
    }
    plain_gate_backward(&c->args, c->dgate_plain, c->dup_plain);
}

static gate_case *gate_case_new(focal_ctx *ctx, foci_activation act, int32_t T, int32_t F,
                                unsigned flags)
{
    gate_case *c = new_array(1, sizeof *c);
    (void)snprintf(c->name, sizeof c->name, "%s T %d F %d flags %u", names[act], T, F, flags);
    c->count = (int64_t)T * F;
    c->gate = grid_new(T, F, FOCAL_F32, flags % 4);
    c->up = grid_new(T, F, FOCAL_F32, flags % 4 ^ GRID_GAPS);
    c->dout = grid_new(T, F, FOCAL_F32, flags % 4 ^ GRID_MISALIGNED);
    c->dgate = grid_new(T, F, FOCAL_F32, flags % 4);
    c->dup = grid_new(T, F, FOCAL_F32, flags % 4 ^ GRID_MISALIGNED);
    c->hidden = grid_new(T, F, FOCAL_F32, flags % 4 ^ GRID_GAPS);
    c->gate_values = new_normals(c->count, 3.0F, flags + 1);
    c->up_values = new_normals(c->count, 1.0F, flags + 2);
    c->dout_values = new_normals(c->count, 1.0F, flags + 3);
    grid_fill(&c->gate, c->gate_values);
    grid_fill(&c->up, c->up_values);
    grid_fill(&c->dout, c->dout_values);
    const bool has_up = flags & HAS_UP;
    const foci_gate_backward_args args = {.activation = act,
                                          .T = T,
                                          .F = F,
                                          .gate = c->gate.data,
                                          .gate_stride = c->gate.stride,
                                          .up = has_up ? c->up.data : NULL,
                                          .up_stride = c->up.stride,
                                          .dout = c->dout.data,
                                          .dout_stride = c->dout.stride,
                                          .dgate = c->dgate.data,
                                          .dgate_stride = c->dgate.stride,
                                          .dup = has_up ? c->dup.data : NULL,
                                          .dup_stride = c->dup.stride,
                                          .hidden = c->hidden.data,
                                          .hidden_stride = c->hidden.stride};
    assert_status(ctx, foci_gate_backward_normalise(ctx, &args, &c->args), FOCAL_OK);
    find_expected(c);
    return c;
}

static void gate_case_free(gate_case *c)
{
    grid *grids[] = {&c->gate, &c->up, &c->dout, &c->dgate, &c->dup, &c->hidden};
    void *blocks[] = {c->gate_values, c->up_values,   c->dout_values, c->dgate_plain, c->dup_plain,
                      c->dgate_exact, c->dgate_sizes, c->dup_exact,   c->dup_sizes};
    for (size_t n = 0; n < FOCAL_COUNT(grids); n++) grid_free(grids[n]);
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    free(c);
}

static void assert_result(const char *name, const char *what, const gate_case *c,
                          const float *plain, const double *exact, const double *sizes,
                          const float *got)
{
    char text[192];
    (void)snprintf(text, sizeof text, "%s, %s of %s", name, what, c->name);
    const error_bound bound = {.name = text,
                               .plain = plain,
                               .exact = exact,
                               .magnitude = sizes,
                               .count = c->count,
                               .factor = 2.0};
    assert_within(&bound, got);
}

/* hidden as the forward kernel of that name makes it. */
static void check_hidden(focal_ctx *ctx, const foci_rows_kernel *kernel, const gate_case *c)
{
    grid out = grid_new(c->args.T, c->args.F, FOCAL_F32, 0);
    const foci_gate_args args = {.activation = c->args.activation,
                                 .T = c->args.T,
                                 .F = c->args.F,
                                 .gate = c->args.gate,
                                 .gate_stride = c->args.gate_stride,
                                 .up = c->args.up,
                                 .up_stride = c->args.up_stride,
                                 .out = out.data,
                                 .out_stride = out.stride};
    size_t next = 0;
    for (const foci_rows_kernel *forward; (forward = next_kernel(ctx, &foci_gate_op, &next));)
        if (strcmp(forward->name, kernel->name) == 0) forward->run(&args, 0, args.T);
    float *expected = grid_packed(&out), *got = grid_packed(&c->hidden);
    assert_memory_equal(got, expected, (size_t)c->count * sizeof *got);
    free(expected);
    free(got);
    grid_free(&out);
}

/* dgate in the place of each input, dup of another: the same bits; in bfloat16 their rounding. */
static void check_other_places(const foci_rows_kernel *kernel, const gate_case *c,
                               const float *dgate, const float *dup)
{
    const grid *places[] = {&c->gate, &c->dout, &c->up};
    const float *values[] = {c->gate_values, c->dout_values, c->up_values};
    const size_t bytes = (size_t)c->count * sizeof *dgate;
    for (int n = 0; n < (c->args.up ? 3 : 2); n++) {
        const grid *other = places[(n + 1) % 3];
        foci_gate_backward_args args = c->args;
        args.dgate = places[n]->data;
        args.dgate_stride = places[n]->stride;
        if (args.dup) {
            args.dup = other->data;
            args.dup_stride = other->stride;
        }
        kernel->run(&args, 0, args.T);
        assert_gaps_untouched(c->name, places[n]);
        float *in_place = grid_packed(places[n]), *second = grid_packed(other);
        assert_memory_equal(in_place, dgate, bytes);
        if (args.dup) assert_memory_equal(second, dup, bytes);
        for (int k = 0; k < 3; k++) grid_fill(places[k], values[k]);
        free(in_place);
        free(second);
    }
    /* both in one array, side by side */
    grid half = grid_new(c->args.T, 2 * (int64_t)c->args.F, FOCAL_BF16, GRID_GAPS);
    foci_gate_backward_args args = c->args;
    args.dtype = FOCAL_BF16;
    args.dgate = half.data;
    args.dgate_stride = args.dup_stride = half.stride;
    if (args.dup) args.dup = (uint16_t *)half.data + args.F;
    kernel->run(&args, 0, args.T);
    float *rounded = grid_packed(&half);
    assert_gaps_untouched(c->name, &half);
    for (int64_t n = 0; n < c->count; n++) {
        const float *row = rounded + n / args.F * 2 * args.F + n % args.F;
        assert_true(row[0] == foci_bf16_to_float(foci_bf16_from_float(dgate[n])));
        if (args.dup) assert_true(row[args.F] == foci_bf16_to_float(foci_bf16_from_float(dup[n])));
    }
    free(rounded);
    grid_free(&half);
}

static void check_kernel(focal_ctx *ctx, const foci_rows_kernel *kernel, const gate_case *c)
{
    kernel->run(&c->args, 0, c->args.T);
    assert_gaps_untouched(c->name, &c->dgate);
    assert_gaps_untouched(c->name, &c->dup);
    assert_gaps_untouched(c->name, &c->hidden);
    float *dgate = grid_packed(&c->dgate), *dup = grid_packed(&c->dup);
    assert_result(kernel->name, "dgate", c, c->dgate_plain, c->dgate_exact, c->dgate_sizes, dgate);
    if (c->args.dup)
        assert_result(kernel->name, "dup", c, c->dup_plain, c->dup_exact, c->dup_sizes, dup);
    check_hidden(ctx, kernel, c);
    check_other_places(kernel, c, dgate, dup);
    free(dgate);
    free(dup);
    note_ran("gate_backward", kernel->name);
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 129, 1536};
    for (size_t w = 0; w < FOCAL_COUNT(widths); w++)
        for (unsigned flags = 0; flags < 24; flags++) {
            gate_case *c = gate_case_new(ctx, (foci_activation)(flags / 8), 1 + (int32_t)w % 3,
                                         widths[w], flags % 8);
            size_t next = 0;
            for (const foci_rows_kernel *kernel;
                 (kernel = next_kernel(ctx, &foci_gate_backward_op, &next));)
                check_kernel(ctx, kernel, c);
            gate_case_free(c);
        }
    note_without("gate_backward", "avx512bf16"); /* rows are float32 */
    assert_ran("gate_backward", "ref");
}

static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    enum { MOST = 256 };
    const int act = (int)g->parameters[0], count = (int)g->parameters[1];
    float *gate = case_floats(g, "gate", count), *up = case_floats(g, "up", count);
    float *dout = case_floats(g, "dout", count), dgate[MOST], dup[MOST];
    double exact[MOST], sizes[MOST], dup_exact[MOST], dup_sizes[MOST];
    assert_true(count <= MOST);
    for (int n = 0; n < count; n++) {
        const double factor = (double)dout[n] * (double)up[n];
        exact[n] = factor * oracle_activation_slope(act, (double)gate[n], &sizes[n]);
        sizes[n] = fabs(factor) * fmax(sizes[n], 1e-3);
        dup_exact[n] = (double)dout[n] * oracle_activation(act, (double)gate[n]);
        dup_sizes[n] = fabs((double)dout[n] * (double)gate[n]);
    }
    /* PyTorch's gelu loses the left tail to 1 + erf and 1 + tanh */
    assert_doubles_within(g->name, exact, case_doubles(g, "dgate", count), count, 1e-14);
    assert_doubles_within(g->name, dup_exact, case_doubles(g, "dup", count), count, 1e-14);
    const foci_gate_backward_args args = {.activation = (foci_activation)act,
                                          .T = 1,
                                          .F = count,
                                          .gate = gate,
                                          .up = up,
                                          .dout = dout,
                                          .dgate = dgate,
                                          .dup = dup};
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_gate_backward_op, &next));) {
        kernel->run(&args, 0, 1);
        assert_roundings(g->name, dgate, exact, sizes, count, 8.0);
        assert_roundings(g->name, dup, dup_exact, dup_sizes, count, 4.0);
    }
    free(gate);
    free(up);
    free(dout);
}

static void agrees_with_pytorch(void **state)
{
    each_golden_of("small_grads", "gate_", 3, *state, check_golden);
}

/* NaN in, NaN out, in that place alone; far from 0 the slope is 0 or 1. */
static void odd_numbers(void **state)
{
    focal_ctx *ctx = *state;
    const float x[] = {NAN,   INFINITY, -INFINITY, 0.0F,    -0.0F,
                       3e38F, -3e38F,   1e-45F,    -200.0F, 130.0F};
    enum { COUNT = sizeof x / sizeof x[0] };
    float dgate[COUNT], dup[COUNT], ones[COUNT];
    for (int n = 0; n < COUNT; n++) ones[n] = 1.0F;
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_gate_backward_op, &next));)
        for (int act = 0; act < 3; act++) {
            const foci_gate_backward_args args = {.activation = (foci_activation)act,
                                                  .T = 1,
                                                  .F = COUNT,
                                                  .gate = x,
                                                  .up = ones,
                                                  .dout = ones,
                                                  .dgate = dgate,
                                                  .dup = dup};
            kernel->run(&args, 0, 1);
            assert_true(isnan(dgate[0]) && dgate[1] == 1.0F && dgate[2] == 0.0F);
            assert_true(fabsf(dgate[3] - 0.5F) < 1e-6F && fabsf(dgate[4] - 0.5F) < 1e-6F);
            assert_true(dgate[5] == 1.0F && dgate[6] == 0.0F && fabsf(dgate[7] - 0.5F) < 1e-6F);
            assert_true(fabsf(dgate[8]) < 1e-36F && dgate[9] == 1.0F);
            assert_true(isnan(dup[0]) && dup[1] == INFINITY && dup[2] == 0.0F && dup[5] == 3e38F);
        }
}

/* dgate, then dup. */
static void make_gradient(focal_ctx *ctx, const void *problem, void *out)
{
    foci_gate_backward_args args = *(const foci_gate_backward_args *)problem;
    args.dgate = out;
    args.dup = (float *)out + (int64_t)args.T * args.F;
    assert_status(ctx, foci_gate_backward(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    enum { T = 203, F = 251 };
    float *x = new_normals((int64_t)3 * T * F, 2.0F, 5);
    for (int act = 0; act < 3; act++) {
        const foci_gate_backward_args args = {.activation = (foci_activation)act,
                                              .T = T,
                                              .F = F,
                                              .gate = x,
                                              .up = x + (int64_t)T * F,
                                              .dout = x + (int64_t)2 * T * F};
        assert_same_bits("gate_backward", (size_t)2 * T * F * sizeof(float), &args, make_gradient);
    }
    free(x);
}

static void assert_bad(focal_ctx *ctx, foci_gate_backward_args args, const char *text)
{
    assert_status(ctx, foci_gate_backward(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[32] = {0}, up[32] = {0}, dout[32] = {0}, dgate[32], dup[32], hidden[32];
    const foci_gate_backward_args good = {.T = 2,
                                          .F = 8,
                                          .gate = x,
                                          .up = up,
                                          .dout = dout,
                                          .dgate = dgate,
                                          .dup = dup,
                                          .hidden = hidden};
    foci_gate_backward_args bad = good;
    assert_status(ctx, foci_gate_backward(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_gate_backward(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_gate_backward(ctx, NULL), FOCAL_EINVAL);
    bad.dout = NULL;
    assert_bad(ctx, bad, "gate backward: gate, dout and dgate must be set");
    bad = good;
    bad.dup = NULL;
    assert_bad(ctx, bad, "gate backward: up and dup must both be set, or none");
    bad = good;
    bad.T = -1;
    assert_bad(ctx, bad, "gate backward: -1 rows of 8: both must be at least 1");
    bad = good;
    bad.activation = (foci_activation)3;
    assert_bad(ctx, bad, "gate backward: there is no activation 3");
    bad = good;
    bad.dup_stride = 5;
    assert_bad(ctx, bad, "gate backward: dup: a stride of 5 does not fit 2 rows of 8");
    bad = good;
    bad.dtype = FOCAL_F16;
    assert_bad(ctx, bad, "gate backward: dgate: out is f16, it must be f32 or bf16");
    bad = good;
    bad.hidden_dtype = FOCAL_Q8_0;
    assert_bad(ctx, bad, "gate backward: hidden: out is q8_0, it must be f32 or bf16");
    bad = good;
    bad.hidden = dout;
    bad.hidden_dtype = FOCAL_BF16;
    assert_bad(ctx, bad,
               "gate backward: hidden: in place, out must be f32 with the stride 8 of its input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_matches_finite_differences),
        cmocka_unit_test_setup_teardown(slopes_are_accurate, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_numbers, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("gate_backward", tests, NULL, NULL);
}
