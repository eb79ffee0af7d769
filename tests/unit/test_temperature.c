/* Temperatures: the oracle against finite differences and PyTorch, factors and gradients of every
 * kind against the oracle, every kernel on widths that break vectors; heads without one, sequences,
 * bfloat16, strides, NaN, threads, failing memory, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "ops/temperature/temperature.h"
#include "support/op_cases.h"
#include "support/oracle_grads.h"
#include "support/route_cases.h"

enum { CONSTANT, LEARNED, PAPER, PER_HEAD, LENGTH, KINDS };

static const char *const names[] = {"constant", "learned", "paper", "per head", "length"};

/* A loss of q' = q factor: its value, and dots (T, H) = q' dq'. */
static double loss(const oracle_temperature *a, const double *q, double *dots)
{
    double factors[64], sum = 0.0;
    assert_true(a->T * a->H <= 64);
    oracle_temperature_factors(a, factors);
    for (int64_t n = 0; n < a->T * a->H; n++) {
        const double x = q[n] * factors[n];
        sum += x + x * x * x / 10.0;
        if (dots) dots[n] = x * (1.0 + 0.3 * x * x);
    }
    return sum;
}

static double slope(const oracle_temperature *a, const double *q, double *parameter)
{
    const double step = 1e-5, before = *parameter;
    *parameter = before + step;
    const double above = loss(a, q, NULL);
    *parameter = before - step;
    const double below = loss(a, q, NULL);
    *parameter = before;
    return (above - below) / (2.0 * step);
}

/* Within the bounds, where the clip is the identity. */
static void oracle_matches_finite_differences(void **state)
{
    (void)state;
    enum { T = 6, H = 3, C = 4, COUNT = T * C + C + H + T * H };
    static const unsigned char some[H] = {1, 0, 1};
    static const int32_t starts[] = {0, 2, T}, positions[T] = {0, 1, 0, 1, 2, 3};
    float *normals = new_normals(COUNT, 0.1F, 3);
    double *x = to_doubles(normals, COUNT), *h = x, *u = h + (int64_t)T * C, *lt = u + C,
           *q = lt + H;
    double dots[T * H], dh[T * C], du[C], da, dlt[H], numeric[T * C];
    for (int n = 0; n < T * C; n++) h[n] += 0.5; /* means above 0 */
    for (int n = 0; n < C; n++) u[n] += 0.5;
    for (int n = 0; n < T * H; n++) q[n] *= 30.0;
    for (int kind = 0; kind < KINDS; kind++)
        for (int masked = 0; masked < 2; masked++) {
            oracle_temperature a = {.kind = kind,
                                    .T = T,
                                    .H = H,
                                    .C = C,
                                    .h = h,
                                    .u = u,
                                    .lt = lt,
                                    .a = 0.1,
                                    .t = 0.4,
                                    .low = 0.01,
                                    .high = 9.0,
                                    .slope = 0.1,
                                    .length = 2.0,
                                    .positions = positions,
                                    .starts = starts,
                                    .heads = masked ? some : NULL,
                                    .root = 2.0};
            (void)loss(&a, q, dots);
            oracle_temperature_backward(&a, dots, dh, du, &da, dlt);
            for (int n = 0; n < T * C; n++) numeric[n] = slope(&a, q, h + n);
            assert_doubles_within(names[kind], dh, numeric, (int64_t)T * C, 1e-8);
            for (int n = 0; n < C; n++) numeric[n] = slope(&a, q, u + n);
            assert_doubles_within(names[kind], du, numeric, C, 1e-8);
            for (int n = 0; n < H; n++) numeric[n] = slope(&a, q, lt + n);
            assert_doubles_within(names[kind], dlt, numeric, H, 1e-8);
            numeric[0] = slope(&a, q, &a.a);
            assert_doubles_within(names[kind], &da, numeric, 1, 1e-8);
        }
    free(normals);
    free(x);
}

/* Every result of a call beside the oracle's; sizes of gradients are those of their largest. */
static void check_case(focal_ctx *ctx, const char *name, const oracle_temperature *o,
                       const double *dots64, int64_t sequences)
{
    const int64_t T = o->T, H = o->H, C = o->C;
    const focal_dtype dtype = C % 2 ? FOCAL_BF16 : FOCAL_F32;
    grid h = grid_new(T, C, dtype, GRID_GAPS), dh = grid_new(T, C, FOCAL_F32, GRID_MISALIGNED);
    float *h32 = new_array((size_t)(T * C), sizeof *h32), *u = new_array((size_t)C, sizeof *u);
    float *dots = new_array((size_t)(T * H), sizeof *dots), *lt = new_array((size_t)H, sizeof *lt);
    bool *heads = new_array((size_t)H, sizeof *heads);
    for (int64_t n = 0; n < T * C; n++) h32[n] = (float)o->h[n];
    for (int64_t n = 0; n < C; n++) u[n] = (float)o->u[n];
    for (int64_t n = 0; n < T * H; n++) dots[n] = (float)dots64[n];
    for (int64_t n = 0; n < H; n++) lt[n] = (float)o->lt[n];
    for (int64_t n = 0; n < H && o->heads; n++) heads[n] = o->heads[n];
    grid_fill(&h, h32);
    float *zeros = new_array((size_t)(T * C), sizeof *zeros);
    grid_fill(&dh, zeros);
    const float a = (float)o->a;
    const foci_temperature temperature = {.kind = (foci_temperature_kind)o->kind,
                                          .t = (float)o->t,
                                          .low = (float)o->low,
                                          .high = (float)o->high,
                                          .c = (float)o->slope,
                                          .length = (float)o->length,
                                          .u = u,
                                          .a = &a,
                                          .lt = lt,
                                          .heads = o->heads ? heads : NULL};
    const bool is_per_head = foci_temperature_is_per_head(&temperature);
    float *factors = new_array((size_t)(T * H) + 1, sizeof *factors);
    fill_nan(factors, (size_t)(T * H) + 1, FOCAL_F32);
    const foci_temperature_args args = {.temperature = &temperature,
                                        .T = (int32_t)T,
                                        .H = (int32_t)H,
                                        .C = (int32_t)C,
                                        .h = h.data,
                                        .h_dtype = dtype,
                                        .h_stride = h.stride,
                                        .positions = o->positions,
                                        .sequence_starts = o->starts,
                                        .sequence_count = (int32_t)sequences,
                                        .root = (float)o->root,
                                        .factors = factors};
    /* the oracle sees h as it was rounded */
    float *rounded = grid_packed(&h);
    double *h64 = to_doubles(rounded, T * C);
    oracle_temperature exact = *o;
    exact.h = h64;
    double *factors64 = new_array((size_t)(T * H), sizeof(double)), *grads64[4];
    const int64_t counts[4] = {T * C, C, 1, H};
    for (int n = 0; n < 4; n++) grads64[n] = new_array((size_t)counts[n], sizeof(double));
    oracle_temperature_factors(&exact, factors64);
    oracle_temperature_backward(&exact, dots64, grads64[0], grads64[1], grads64[2], grads64[3]);

    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(is_fill_nan(factors, (size_t)(is_per_head ? T * H : T), FOCAL_F32));
    for (int64_t n = 0; n < T * H; n++) {
        const double got = (double)factors[is_per_head ? n : n / H];
        if (fabs(got - factors64[n]) > 3e-6 * factors64[n])
            fail_msg("%s: the factor of row %lld is %g, not %g", name, (long long)n, got,
                     factors64[n]);
    }
    float *du = new_array((size_t)C, sizeof *du), da = 0.0F;
    float *dlt = new_array((size_t)H, sizeof *dlt);
    const foci_temperature_grads grads = {
        .dots = dots, .du = du, .da = &da, .dlt = dlt, .dh = dh.data, .dh_stride = dh.stride};
    assert_status(ctx, foci_temperature_backward(ctx, &args, &grads), FOCAL_OK);
    assert_gaps_untouched(name, &dh);
    float *dh32 = grid_packed(&dh);
    const float *got[4] = {dh32, du, &da, dlt};
    for (int n = 0; n < 4; n++) {
        double *wide = to_doubles(got[n], counts[n]);
        assert_doubles_within(name, wide, grads64[n], counts[n], 3e-6);
        free(wide);
        free(grads64[n]);
    }
    void *blocks[] = {h32,     u,   dots,      lt, heads, zeros, factors,
                      rounded, h64, factors64, du, dlt,   dh32};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    grid_free(&h);
    grid_free(&dh);
}

static void check_golden(const golden_case *g, void *user)
{
    const double *p = g->parameters;
    const int64_t T = (int64_t)p[1], H = (int64_t)p[2], C = (int64_t)p[3], count = (int64_t)p[5];
    int32_t positions[16], starts[16];
    unsigned char heads[8];
    bool is_masked = false;
    assert_true(T <= 16 && H <= 8 && count < 16);
    for (int64_t n = 0; n < T; n++) positions[n] = (int32_t)case_doubles(g, "positions", T)[n];
    for (int64_t n = 0; n <= count; n++)
        starts[n] = (int32_t)case_doubles(g, "starts", count + 1)[n];
    for (int64_t n = 0; n < H; n++) {
        heads[n] = case_doubles(g, "heads", H)[n] != 0.0;
        is_masked = is_masked || !heads[n];
    }
    const bool is_paper = (int)p[0] == PAPER;
    const oracle_temperature o = {.kind = (int)p[0],
                                  .T = T,
                                  .H = H,
                                  .C = C,
                                  .h = case_doubles(g, "h", T * C),
                                  .u = case_doubles(g, "u", C),
                                  .lt = case_doubles(g, "lt", H),
                                  .a = case_doubles(g, "a", 1)[0],
                                  .t = (double)0.4F,
                                  .low = is_paper ? 0.05 : 0.2,
                                  .high = is_paper ? 0.5 : 1.2,
                                  .slope = 0.1,
                                  .length = 8.0,
                                  .positions = positions,
                                  .starts = starts,
                                  .heads = is_masked ? heads : NULL,
                                  .root = p[4]};
    const double *dots = case_doubles(g, "dots", T * H);
    double factors[64], dh[256], du[16], da, dlt[8];
    oracle_temperature_factors(&o, factors);
    oracle_temperature_backward(&o, dots, dh, du, &da, dlt);
    assert_doubles_within(g->name, factors, case_doubles(g, "factors", T * H), T * H, 1e-12);
    assert_doubles_within(g->name, dh, case_doubles(g, "dh", T * C), T * C, 1e-12);
    assert_doubles_within(g->name, du, case_doubles(g, "du", C), C, 1e-12);
    assert_doubles_within(g->name, &da, case_doubles(g, "da", 1), 1, 1e-12);
    assert_doubles_within(g->name, dlt, case_doubles(g, "dlt", H), H, 1e-12);
    check_case(user, g->name, &o, dots, count);
}

static void agrees_with_pytorch(void **state)
{
    each_golden_of("small_grads", "temperature_", 8, *state, check_golden);
}

/* More tokens than a piece, widths that break vectors, both types of h, some heads and all. */
static void every_kind_matches_oracle(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {5, 3, 33}, {70, 2, 300}, {150, 4, 257}};
    for (size_t s = 0; s < FOCAL_COUNT(sizes); s++)
        for (int flags = 0; flags < 2 * KINDS; flags++) {
            const int64_t T = sizes[s][0], H = sizes[s][1], C = sizes[s][2];
            const int64_t count = T * C + C + H + T * H;
            float *normals = new_normals(count, 1.0F, 5 + s);
            double *x = to_doubles(normals, count), *u = x + T * C;
            int32_t *positions = new_array((size_t)T, sizeof *positions);
            const int32_t starts[] = {0, (int32_t)(T / 3), (int32_t)T};
            const unsigned char some[] = {0, 1, 1, 0};
            for (int64_t t = 0; t < T; t++) positions[t] = (int32_t)(t % 50);
            for (int64_t n = 0; n < C; n++) u[n] = u[n] / sqrt((double)C) * 0.5;
            for (int64_t n = 0; n < C; n++) u[n] = (double)(float)u[n];
            /* of one sign, so that no sum cancels */
            for (int64_t n = 0; n < T * H; n++) u[C + H + n] = fabs(u[C + H + n]);
            const oracle_temperature o = {.kind = flags / 2,
                                          .T = T,
                                          .H = H,
                                          .C = C,
                                          .h = x,
                                          .u = u,
                                          .lt = u + C,
                                          .a = (double)0.6F,
                                          .t = (double)0.4F,
                                          .low = flags / 2 == PAPER ? (double)0.02F : (double)0.2F,
                                          .high = (double)1.2F,
                                          .slope = (double)0.1F,
                                          .length = 16.0,
                                          .positions = positions,
                                          .starts = starts + (T < 3),
                                          .heads = flags % 2 ? some : NULL,
                                          .root = 8.0};
            check_case(*state, names[flags / 2], &o, u + C + H, T < 3 ? 1 : 2);
            free(normals);
            free(x);
            free(positions);
        }
}

/* One kernel's products and gradients of `rows` rows of C in that type. */
static void check_kernel(const foci_rows_kernel *forward, const foci_rows_kernel *backward,
                         int64_t rows, int64_t C, focal_dtype dtype)
{
    grid h = grid_new(rows, C, dtype, GRID_GAPS | GRID_MISALIGNED);
    grid dh = grid_new(rows, C, FOCAL_F32, GRID_GAPS);
    grid du = grid_new(1, C, FOCAL_F32, 0), products = grid_new(rows, 1, FOCAL_F32, GRID_GAPS);
    float *values = new_normals(rows * C, 1.0F, 1), *u = new_normals(C, 1.0F, 2);
    float *slopes = new_normals(rows, 1.0F, 3), *before = new_normals(rows * C, 1.0F, 4);
    grid_fill(&h, values);
    grid_fill(&dh, before);
    free(values);
    values = grid_packed(&h);
    const foci_temperature_products call = {C, h.data,        dtype,          h.stride,
                                            u, products.data, products.stride};
    forward->run(&call, 0, rows);
    const foci_temperature_spread spread = {C,      h.data,  dtype,     h.stride, u,
                                            slopes, dh.data, dh.stride, rows,     du.data};
    backward->run(&spread, 0, rows);
    assert_gaps_untouched(forward->name, &products);
    assert_gaps_untouched(backward->name, &dh);
    assert_gaps_untouched(backward->name, &du);
    float *got = grid_packed(&products), *got_dh = grid_packed(&dh), *got_du = grid_packed(&du);
    double *exact = new_array((size_t)(rows * C), sizeof *exact);
    double *sizes = new_array((size_t)(rows * C), sizeof *sizes);
    double *du64 = new_array((size_t)C, sizeof *du64),
           *du_sizes = new_array((size_t)C, sizeof *du64);
    for (int64_t n = 0; n < rows * C; n++) {
        const double product = (double)values[n] * (double)u[n % C];
        const double part = (double)values[n] * (double)slopes[n / C];
        exact[n / C] += product;
        sizes[n / C] += fabs(product);
        du64[n % C] += part;
        du_sizes[n % C] += fabs(part);
    }
    assert_roundings(forward->name, got, exact, sizes, rows, 8.0);
    assert_roundings(backward->name, got_du, du64, du_sizes, C, 8.0);
    for (int64_t n = 0; n < rows * C; n++) {
        const double part = (double)slopes[n / C] * (double)u[n % C];
        exact[n] = (double)before[n] + part;
        sizes[n] = fabs((double)before[n]) + fabs(part);
    }
    assert_roundings(backward->name, got_dh, exact, sizes, rows * C, 2.0);
    void *blocks[] = {values, u, slopes, before, got, got_dh, got_du, exact, sizes, du64, du_sizes};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    grid_free(&h);
    grid_free(&dh);
    grid_free(&du);
    grid_free(&products);
}

static void kernels_match_sums(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t widths[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 67, 300};
    size_t next = 0, next_back = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_temperature_op, &next));) {
        const foci_rows_kernel *backward =
            next_kernel(ctx, &foci_temperature_backward_op, &next_back);
        for (size_t n = 0; n < FOCAL_COUNT(widths); n++) {
            check_kernel(kernel, backward, 1 + (int64_t)n % 3, widths[n], FOCAL_F32);
            check_kernel(kernel, backward, 1 + (int64_t)n % 3, widths[n], FOCAL_BF16);
        }
        note_ran("temperature", kernel->name);
        note_ran("temperature_backward", backward->name);
    }
    note_without("temperature", "avx512bf16"); /* sums are float32 */
    note_without("temperature_backward", "avx512bf16");
    assert_ran("temperature", "ref");
    assert_ran("temperature_backward", "ref");
}

/* Zero means the defaults of docs/MATH.md; u = 0 starts at a, or at the paper's lower bound. */
static void defaults(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 2, H = 2, C = 3 };
    const float h[T * C] = {1.0F, 2.0F, 3.0F, 4.0F, 5.0F, 6.0F}, u[C] = {0}, a = 0.6F, lt[H] = {0};
    const float large = 5.0F, small = -5.0F;
    const int32_t positions[T] = {0, 1023};
    float factors[T * H];
    foci_temperature t = {.u = u, .a = &a, .lt = lt, .length = 512.0F};
    const foci_temperature_args args = {.temperature = &t,
                                        .T = T,
                                        .H = H,
                                        .C = C,
                                        .h = h,
                                        .positions = positions,
                                        .root = 8.0F,
                                        .factors = factors};
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(factors[0] == 0.125F && factors[1] == 0.125F);
    t.kind = FOCI_TEMPERATURE_LEARNED;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(fabsf(factors[1] * 0.6F * 8.0F - 1.0F) < 1e-6F);
    t.a = &large;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(fabsf(factors[1] * 1.2F * 8.0F - 1.0F) < 1e-6F);
    t.a = &small;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(fabsf(factors[1] * 0.2F * 8.0F - 1.0F) < 1e-6F);
    t.kind = FOCI_TEMPERATURE_LEARNED_PAPER;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(fabsf(factors[1] * 0.442F * 8.0F - 1.0F) < 1e-6F);
    t.kind = FOCI_TEMPERATURE_PER_HEAD;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    for (int n = 0; n < T * H; n++) assert_true(factors[n] == 0.125F);
    t.kind = FOCI_TEMPERATURE_LENGTH;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_true(factors[0] == 0.125F);
    assert_true(fabs((double)factors[1] * 8.0 - (1.0 + 0.1 * log(2.0))) < 1e-6);
}

static void nan_stays_in_its_token(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 3, H = 2, C = 20 };
    float h[T * C], u[C], dh[T * C] = {0}, factors[T], dots[T * H];
    const float a = 0.6F;
    for (int n = 0; n < T * C; n++) h[n] = 0.1F;
    for (int n = 0; n < C; n++) u[n] = 0.1F;
    for (int n = 0; n < T * H; n++) dots[n] = 1.0F;
    h[C + 3] = NAN;
    const foci_temperature t = {.kind = FOCI_TEMPERATURE_LEARNED, .u = u, .a = &a};
    const foci_temperature_args args = {
        .temperature = &t, .T = T, .H = H, .C = C, .h = h, .root = 4.0F, .factors = factors};
    const foci_temperature_grads grads = {.dots = dots, .dh = dh};
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    for (int n = 0; n < T; n++) assert_int_equal(isnan(factors[n]) != 0, n == 1);
    assert_status(ctx, foci_temperature_backward(ctx, &args, &grads), FOCAL_OK);
    for (int n = 0; n < T * C; n++) assert_int_equal(isnan(dh[n]) != 0, n / C == 1);
}

enum { MANY = 333, HEADS = 3, WIDTH = 260 };

/* factors, dh, du and da. */
static void make_gradient(focal_ctx *ctx, const void *problem, void *out)
{
    foci_temperature_args args = *(const foci_temperature_args *)problem;
    float *dots = new_normals((int64_t)MANY * HEADS, 1.0F, 8);
    float *dh = (float *)out + MANY, *du = dh + (int64_t)MANY * WIDTH;
    args.factors = out;
    memset(dh, 0, ((size_t)MANY * WIDTH + WIDTH + 1) * sizeof *dh);
    const foci_temperature_grads grads = {.dots = dots, .du = du, .da = du + WIDTH, .dh = dh};
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_OK);
    assert_status(ctx, foci_temperature_backward(ctx, &args, &grads), FOCAL_OK);
    free(dots);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    float *h = new_normals((int64_t)MANY * WIDTH, 1.0F, 3), *u = new_normals(WIDTH, 0.02F, 4);
    const float a = 0.6F;
    for (int kind = LEARNED; kind <= PAPER; kind++) {
        const foci_temperature t = {.kind = (foci_temperature_kind)kind, .u = u, .a = &a};
        const foci_temperature_args args = {
            .temperature = &t, .T = MANY, .H = HEADS, .C = WIDTH, .h = h, .root = 8.0F};
        assert_same_bits("temperature", (size_t)(MANY + MANY * WIDTH + WIDTH + 1) * sizeof(float),
                         &args, make_gradient);
    }
    free(h);
    free(u);
}

typedef struct calls {
    const foci_temperature_args *args;
    const foci_temperature_grads *grads;
} calls;

static focal_status call_backward(focal_ctx *ctx, const void *problem)
{
    const calls *c = problem;
    return foci_temperature_backward(ctx, c->args, c->grads);
}

/* A call without memory has written nothing: what it adds is there once, after the last. */
static void failing_memory(void **state)
{
    float h[8] = {1.0F}, u[4] = {0}, a = 0.6F, factors[2] = {1.0F, 1.0F}, dots[2] = {1.0F, 2.0F};
    float du[4] = {0}, da = 0.0F;
    const foci_temperature t = {.kind = FOCI_TEMPERATURE_LEARNED, .u = u, .a = &a};
    const foci_temperature_args args = {
        .temperature = &t, .T = 2, .H = 1, .C = 4, .h = h, .root = 1.0F, .factors = factors};
    const foci_temperature_grads grads = {.dots = dots, .du = du, .da = &da};
    const calls c = {&args, &grads};
    assert_true(fail_each_request(*state, &c, call_backward) >= 2);
    assert_true(da == -3.0F && du[0] == -1.0F && du[1] == 0.0F);
}

static void assert_bad(focal_ctx *ctx, foci_temperature_args args, foci_temperature t,
                       const char *text)
{
    args.temperature = &t;
    assert_status(ctx, foci_temperature_factors(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float h[16] = {0}, u[4] = {0}, a = 0.6F, lt[2] = {0}, factors[8], dots[8] = {0}, dh[16] = {0};
    const int32_t positions[4] = {0, 1, -2, 3};
    static const int32_t starts[][3] = {{0, 2, 4}, {0, 0, 4}, {1, 2, 4}, {0, 2, 3}, {0, 9, 4}};
    const foci_temperature learned = {.kind = FOCI_TEMPERATURE_LEARNED, .u = u, .a = &a, .lt = lt};
    const foci_temperature_args good = {.temperature = &learned,
                                        .T = 4,
                                        .H = 2,
                                        .C = 4,
                                        .h = h,
                                        .sequence_starts = starts[0],
                                        .sequence_count = 2,
                                        .root = 2.0F,
                                        .factors = factors};
    foci_temperature_args bad = good;
    foci_temperature t = learned;
    assert_status(ctx, foci_temperature_factors(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_temperature_factors(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_temperature_factors(ctx, NULL), FOCAL_EINVAL);
    bad.factors = NULL;
    assert_bad(ctx, bad, t, "temperature: temperature and factors must be set");
    bad = good;
    bad.T = 0;
    assert_bad(ctx, bad, t, "temperature: 0 tokens of 2 heads: each must be at least 1");
    bad = good;
    bad.root = NAN;
    assert_bad(ctx, bad, t, "temperature: the root is nan, it must be above 0");
    bad = good;
    bad.h = NULL;
    assert_bad(ctx, bad, t, "temperature: a learned one needs h");
    bad = good;
    bad.C = 0;
    assert_bad(ctx, bad, t, "temperature: C is 0, it must be at least 1");
    bad = good;
    bad.h_dtype = FOCAL_F16;
    assert_bad(ctx, bad, t, "temperature: h is f16, it must be f32 or bf16");
    bad = good;
    bad.h_stride = 3;
    assert_bad(ctx, bad, t, "temperature: h: a stride of 3 does not fit 4 rows of 4");
    t.kind = (foci_temperature_kind)5;
    assert_bad(ctx, good, t, "temperature: there is no kind 5");
    t = learned;
    t.t = -1.0F;
    assert_bad(ctx, good, t, "temperature: t is -1, it must be above 0");
    t = learned;
    t.low = 2.0F;
    t.high = 1.0F;
    assert_bad(
        ctx, good, t,
        "temperature: bounds of 2 and 1: the first must be above 0 and not above the second");
    t = learned;
    t.u = NULL;
    assert_bad(ctx, good, t, "temperature: a learned one needs u");
    t = learned;
    t.a = NULL;
    assert_bad(ctx, good, t, "temperature: a learned one needs a");
    t.kind = FOCI_TEMPERATURE_PER_HEAD;
    t.lt = NULL;
    assert_bad(ctx, good, t, "temperature: one per head needs lt");
    t.kind = FOCI_TEMPERATURE_LENGTH;
    assert_bad(ctx, good, t, "temperature: c 0.1 and a training length of 0: both must be above 0");
    t.length = 8.0F;
    assert_bad(ctx, good, t, "temperature: one by length needs positions");
    bad = good;
    bad.positions = positions;
    assert_bad(ctx, bad, t, "temperature: token 2 has position -2, below 0");
    t = learned;
    t.kind = FOCI_TEMPERATURE_LEARNED_PAPER;
    bad = good;
    bad.sequence_count = 0;
    assert_bad(ctx, bad, t, "temperature: 0 sequences, there must be at least 1");
    bad.sequence_count = 2;
    bad.sequence_starts = starts[1];
    assert_bad(ctx, bad, t, "temperature: sequence 0 goes from token 0 to 0 of 4");
    bad.sequence_starts = starts[2];
    assert_bad(ctx, bad, t, "temperature: the sequences go from token 1 to 4, not from 0 to 4");
    bad.sequence_starts = starts[3];
    assert_bad(ctx, bad, t, "temperature: the sequences go from token 0 to 3, not from 0 to 4");
    bad.sequence_starts = starts[4];
    assert_bad(ctx, bad, t, "temperature: sequence 0 goes from token 0 to 9 of 4");
    foci_temperature_grads grads = {.dh = dh, .dh_stride = 2};
    assert_int_equal(foci_temperature_backward(NULL, &good, &grads), FOCAL_EINVAL);
    assert_status(ctx, foci_temperature_backward(ctx, &good, &grads), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "temperature backward: dots must be set");
    grads.dots = dots;
    assert_status(ctx, foci_temperature_backward(ctx, &good, &grads), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "temperature backward: dh: a stride of 2 does not fit 4 rows of 4");
    assert_status(ctx, foci_temperature_backward(ctx, NULL, &grads), FOCAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_matches_finite_differences),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_kind_matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_sums, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(defaults, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nan_stays_in_its_token, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(failing_memory, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("temperature", tests, NULL, NULL);
}
