/* Muon: whole steps against the double oracle and PyTorch, the passes of every kernel, odd
 * gradients, threads, memory that runs out, a product that fails, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/matmul/matmul.h"
#include "ops/muon/muon.h"
#include "ops/muon/muon_passes.h"
#include "support/op_cases.h"
#include "support/optim_cases.h"
#include "support/oracle_optim.h"
#include "support/route_cases.h"

/* The library's product, as training gives it. */
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
                                   .out_stride = f->out_stride};
    return foci_matmul(ctx, &args);
}

static focal_status refuse(focal_ctx *ctx, const foci_muon_factors *f)
{
    return foci_fail(ctx, FOCAL_ENOMEM, "no product of %lld rows", (long long)f->M);
}

static const foci_muon_args usual = {
    .rate = 0.02, .decay = 0.1, .beta = 0.95, .factor = 1.0, .multiply = multiply};

typedef struct matrices {
    int64_t count;
    float *w, *g, *m;
    uint16_t *rounded;
} matrices;

static matrices matrices_new(int32_t rows, int32_t cols, uint64_t seed)
{
    const int64_t count = (int64_t)rows * cols;
    return (matrices){count, new_normals(count, 1.0F, seed), new_normals(count, 0.01F, seed + 1),
                      new_normals(count, 0.01F, seed + 2),
                      new_array((size_t)count, sizeof(uint16_t))};
}

static void matrices_free(matrices *x)
{
    free(x->w);
    free(x->g);
    free(x->m);
    free(x->rounded);
}

static foci_muon_args call_of(const foci_muon_args *settings, const matrices *x, int32_t rows,
                              int32_t cols)
{
    foci_muon_args args = *settings;
    args.rows = rows;
    args.cols = cols;
    args.weights = x->w;
    args.gradient = x->g;
    args.momentum = x->m;
    args.rounded = x->rounded;
    return args;
}

/* A step's weights lie within `part` of what the largest of them moved by, plus a rounding. */
static void assert_moved(const char *name, const matrices *x, const double *exact,
                         const double *before, double part)
{
    double moved = 0.0;
    for (int64_t n = 0; n < x->count; n++) moved = fmax(moved, fabs(exact[n] - before[n]));
    for (int64_t n = 0; n < x->count; n++)
        if (!(fabs((double)x->w[n] - exact[n]) <= part * moved + 0x1p-24 * fabs(exact[n])))
            fail_msg("%s: weight %lld is %.9g, expected %.9g, moved %.3g", name, (long long)n,
                     (double)x->w[n], exact[n], moved);
}

static void check_shape(focal_ctx *ctx, int32_t rows, int32_t cols, unsigned n)
{
    foci_muon_args settings = usual;
    settings.dtype = n % 2 ? FOCAL_BF16 : FOCAL_F32;
    settings.rule = n % 4 < 2 ? FOCI_MUON_AS_ADAMW : FOCI_MUON_BY_SHAPE;
    settings.is_plain = n % 3 == 2;
    settings.is_cleared = n % 3 == 1;
    settings.factor = n % 2 ? 0.5 : 1.0;
    char name[96];
    (void)snprintf(name, sizeof name, "%d x %d, %s, settings %u", rows, cols,
                   focal_dtype_name(settings.dtype), n);
    matrices x = matrices_new(rows, cols, n);
    double *w = to_doubles(x.w, x.count), *before = to_doubles(x.w, x.count);
    double *m = to_doubles(x.m, x.count), *g = to_doubles(x.g, x.count);
    for (int64_t i = 0; i < x.count; i++) g[i] *= settings.factor;
    const foci_muon_args args = call_of(&settings, &x, rows, cols);
    const oracle_muon o = {rows,
                           cols,
                           args.rate,
                           args.beta,
                           args.decay,
                           args.is_plain,
                           args.rule == FOCI_MUON_BY_SHAPE};
    float *old = new_array((size_t)x.count, sizeof *old);
    memcpy(old, x.g, (size_t)x.count * sizeof *old);
    oracle_muon_step(&o, g, w, m);
    assert_status(ctx, foci_muon(ctx, &args), FOCAL_OK);
    /* Five steps with a slope of 3.4 each grow what is rounded at the start 490-fold, and the
     * bfloat16 of small values with it: PyTorch's own Muon is as far from float64. */
    assert_moved(name, &x, w, before, args.dtype == FOCAL_F32 ? 2e-5 : 0.05);
    for (int64_t i = 0; i < x.count; i++) {
        assert_true(fabs((double)x.m[i] - m[i]) <= 4.0 * 0x1p-24 * (fabs(m[i]) + 0.1));
        assert_int_equal(x.rounded[i], foci_bf16_from_float(x.w[i]));
        assert_true(x.g[i] == (args.is_cleared ? 0.0F : old[i]));
    }
    free(old);
    free(w);
    free(before);
    free(m);
    free(g);
    matrices_free(&x);
}

static void steps_match_oracle(void **state)
{
    static const int32_t shapes[][2] = {{1, 1},   {1, 7},   {7, 1},   {2, 3},    {8, 8},
                                        {16, 16}, {17, 17}, {15, 33}, {33, 15},  {64, 40},
                                        {31, 97}, {97, 31}, {16, 48}, {130, 18}, {131, 140}};
    for (unsigned s = 0; s < FOCAL_COUNT(shapes); s++)
        for (unsigned n = 0; n < 4; n++) check_shape(*state, shapes[s][0], shapes[s][1], s + 7 * n);
}

/* Every kernel's passes against plain loops; each is at most two roundings. */
static void passes_are_exact(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t counts[] = {1, 7, 8, 9, 15, 16, 17, 33, 257};
    size_t next = 0;
    for (const foci_rows_kernel *k; (k = next_kernel(ctx, &foci_muon_op, &next));) {
        for (size_t c = 0; c < FOCAL_COUNT(counts); c++) {
            const int64_t count = counts[c];
            float *x = new_normals(count, 1.0F, c), *y = new_normals(count, 1.0F, c + 50);
            grid out = grid_new(1, count, c % 2 ? FOCAL_BF16 : FOCAL_F32, 0);
            uint16_t *half = new_array((size_t)count, sizeof *half);
            for (int64_t n = 0; n < count; n++) half[n] = foci_bf16_from_float(x[n]);
            const foci_muon_pass mix = {.kind = FOCI_MUON_MIX,
                                        .alpha = 3.4445,
                                        .beta = -0.5,
                                        .x = half,
                                        .x_dtype = FOCAL_BF16,
                                        .y = y,
                                        .out = out.data,
                                        .out_dtype = out.dtype};
            k->run(&mix, 0, count);
            assert_gaps_untouched(k->name, &out);
            for (int64_t n = 0; n < count; n++) {
                const double a = 3.4445 * (double)foci_bf16_to_float(half[n]);
                const double b = -0.5 * (double)y[n], unit = c % 2 ? 0x1p-8 : 0x1p-23;
                assert_true(fabs((double)element_get(out.data, n, out.dtype) - (a + b)) <=
                            unit * (fabs(a + b)) + 0x1p-22 * (fabs(a) + fabs(b)));
            }
            grid_free(&out);
            free(half);
            free(x);
            free(y);
        }
        for (int64_t rows = 1; rows <= 35; rows += 1 + rows / 7)
            for (int64_t cols = 1; cols <= 50; cols += 1 + cols / 5) {
                float *x = new_normals(rows * cols, 1.0F, 3);
                grid out = grid_new(1, rows * cols, FOCAL_F32, 0);
                const foci_muon_pass turn = {.kind = FOCI_MUON_TURN,
                                             .x = x,
                                             .out = out.data,
                                             .rows = rows,
                                             .cols = cols,
                                             .x_stride = cols,
                                             .out_stride = rows};
                for (int64_t band = (cols - 1) / FOCI_MUON_BAND; band >= 0; band--)
                    k->run(&turn, band, 1);
                assert_gaps_untouched(k->name, &out);
                for (int64_t n = 0; n < rows * cols; n++)
                    assert_true(((float *)out.data)[n % cols * rows + n / cols] == x[n]);
                grid_free(&out);
                free(x);
            }
        note_ran("muon", k->name);
    }
    note_without("muon", "avx512bf16"); /* passes only; the products are the caller's */
    assert_ran("muon", "ref");
}

/* A whole step on every kernel of the passes. */
static void kernels_agree(void **state)
{
    (void)state;
    static const char *const names[] = {"ref", "avx2", "avx512"};
    for (size_t k = 0; k < FOCAL_COUNT(names); k++) {
        const focal_ctx_options options = {
            .threads = 2, .kernel = names[k], .allocator = memory_allocator()};
        focal_ctx *ctx = NULL;
        assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
        if (foci_rows_pick(ctx, &foci_muon_op)) {
            check_shape(ctx, 21, 37, 0);
            check_shape(ctx, 37, 21, 2);
        }
        focal_ctx_close(ctx);
    }
    assert_int_equal(memory_live_blocks(), 0);
}

static void check_golden(const golden_case *c, void *user)
{
    focal_ctx *ctx = user;
    const double *p = c->parameters;
    const int32_t rows = (int32_t)p[0], cols = (int32_t)p[1];
    const int64_t count = (int64_t)rows * cols, steps = (int64_t)p[2];
    const double *gradients = case_doubles(c, "gradients", count * steps);
    const double *path = case_doubles(c, "weights", count * steps);
    const oracle_muon o = {rows, cols, p[3], p[4], p[5], p[6] != 0.0, p[7] != 0.0};
    float *start = case_floats(c, "start", count);
    double *before = to_doubles(start, count), *w = to_doubles(start, count);
    double *m = new_array((size_t)count, sizeof *m);
    for (int64_t step = 0; step < steps; step++) {
        oracle_muon_step(&o, gradients + step * count, w, m);
        assert_doubles_within(c->name, w, path + step * count, count, 1e-12);
    }
    assert_doubles_within(c->name, m, case_doubles(c, "momentum", count), count, 1e-12);
    for (int dtype = FOCAL_F32; dtype <= FOCAL_BF16; dtype++) {
        foci_muon_args settings = usual;
        settings.dtype = (focal_dtype)dtype;
        settings.rate = p[3];
        settings.beta = p[4];
        settings.decay = p[5];
        settings.is_plain = p[6] != 0.0;
        settings.rule = p[7] != 0.0 ? FOCI_MUON_BY_SHAPE : FOCI_MUON_AS_ADAMW;
        matrices x = matrices_new(rows, cols, 1);
        memcpy(x.w, start, (size_t)count * sizeof *x.w);
        memset(x.m, 0, (size_t)count * sizeof *x.m);
        const foci_muon_args args = call_of(&settings, &x, rows, cols);
        for (int64_t step = 0; step < steps; step++) {
            for (int64_t n = 0; n < count; n++) x.g[n] = (float)gradients[step * count + n];
            assert_status(ctx, foci_muon(ctx, &args), FOCAL_OK);
        }
        /* PyTorch, in bfloat16, is 2 % from float64. A single row has one singular value, whose
         * roundings nothing averages away: 6 %. */
        assert_moved(c->name, &x, w, before, dtype == FOCAL_F32 ? 2e-5 : 0.08);
        assert_moved(c->name, &x, case_doubles(c, "model", count), before, 0.08);
        matrices_free(&x);
    }
    free(start);
    free(before);
    free(w);
    free(m);
}

static void agrees_with_pytorch(void **state)
{
    each_optim_golden("muon_", 4, *state, check_golden);
}

/* No gradient only decays; one NaN spoils the whole matrix, and says so in every weight. */
static void odd_gradients(void **state)
{
    focal_ctx *ctx = *state;
    enum { ROWS = 6, COLS = 11 };
    for (int n = 0; n < 4; n++) {
        matrices x = matrices_new(ROWS, COLS, 4);
        memset(x.m, 0, (size_t)x.count * sizeof *x.m);
        for (int64_t i = 0; i < x.count; i++) {
            x.w[i] = 1.0F;
            if (n < 2) x.g[i] = n ? 1e-37F * x.g[i] : 0.0F;
        }
        if (n == 2) x.g[17] = NAN;
        if (n == 3) x.g[65] = INFINITY;
        const foci_muon_args args = call_of(&usual, &x, ROWS, COLS);
        assert_status(ctx, foci_muon(ctx, &args), FOCAL_OK);
        for (int64_t i = 0; i < x.count; i++)
            assert_true(n < 2 ? fabs((double)x.w[i] - 0.998) < 1e-7 : isnan(x.w[i]));
        matrices_free(&x);
    }
}

/* Gradients of any size move the weights alike. */
static void scale_does_not_matter(void **state)
{
    focal_ctx *ctx = *state;
    enum { ROWS = 9, COLS = 20 };
    matrices x = matrices_new(ROWS, COLS, 4), y = matrices_new(ROWS, COLS, 4);
    for (int64_t i = 0; i < x.count; i++) {
        x.m[i] = y.m[i] = 0.0F;
        y.g[i] *= 0x1p80F;
    }
    const foci_muon_args first = call_of(&usual, &x, ROWS, COLS);
    const foci_muon_args second = call_of(&usual, &y, ROWS, COLS);
    assert_status(ctx, foci_muon(ctx, &first), FOCAL_OK);
    assert_status(ctx, foci_muon(ctx, &second), FOCAL_OK);
    for (int64_t i = 0; i < x.count; i++) assert_true(fabsf(x.w[i] - y.w[i]) < 1e-6F);
    matrices_free(&x);
    matrices_free(&y);
}

static void make_bits(focal_ctx *ctx, const void *problem, void *out)
{
    const int32_t *shape = problem;
    for (int dtype = FOCAL_F32; dtype <= FOCAL_BF16; dtype++) {
        matrices x = matrices_new(shape[0], shape[1], 8);
        foci_muon_args args = call_of(&usual, &x, shape[0], shape[1]);
        args.dtype = (focal_dtype)dtype;
        assert_status(ctx, foci_muon(ctx, &args), FOCAL_OK);
        memcpy((float *)out + dtype * x.count, x.w, (size_t)x.count * sizeof *x.w);
        matrices_free(&x);
    }
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    static const int32_t shapes[][2] = {{130, 257}, {257, 270}};
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        const size_t count = (size_t)shapes[n][0] * (size_t)shapes[n][1];
        assert_same_bits("muon", 2 * count * sizeof(float), shapes[n], make_bits);
    }
}

/* Nothing is left behind, and the weights stay. */
static void memory_runs_out(void **state)
{
    (void)state;
    focal_ctx *ctx = new_ctx(2);
    int64_t failed = 0;
    for (int64_t n = 1;; n++) {
        matrices x = matrices_new(40, 20, 3);
        foci_muon_args args = call_of(&usual, &x, 40, 20);
        args.dtype = FOCAL_BF16;
        const float kept = x.w[5];
        focal_ctx_trim(ctx);
        const int64_t live = memory_live_blocks();
        memory_fail(n, true);
        const focal_status status = foci_muon(ctx, &args);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        assert_status(ctx, status, was_reached ? FOCAL_ENOMEM : FOCAL_OK);
        assert_true((x.w[5] == kept) == was_reached);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        matrices_free(&x);
        if (!was_reached) break;
        failed++;
    }
    assert_true(failed >= 6);
    focal_ctx_close(ctx);
    assert_int_equal(memory_live_blocks(), 0);
}

static void assert_bad(focal_ctx *ctx, foci_muon_args args, const char *text)
{
    assert_status(ctx, foci_muon(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    matrices x = matrices_new(3, 4, 1);
    const foci_muon_args good = call_of(&usual, &x, 3, 4);
    foci_muon_args bad = good;
    assert_status(ctx, foci_muon(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_muon(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_muon(ctx, NULL), FOCAL_EINVAL);
    bad.multiply = NULL;
    assert_bad(ctx, bad, "muon: weights, gradient, momentum and multiply must be set");
    bad = good;
    bad.cols = 0;
    assert_bad(ctx, bad, "muon: a matrix of 3 x 0: both must be at least 1");
    bad = good;
    bad.dtype = FOCAL_Q8_0;
    assert_bad(ctx, bad, "muon: the factors are q8_0, they must be f32 or bf16");
    bad = good;
    bad.rule = (foci_muon_rule)7;
    assert_bad(ctx, bad, "muon: there is no rule 7");
    bad = good;
    bad.beta = 1.0;
    assert_bad(ctx, bad, "muon: beta is 1, it must be 0 or above, below 1");
    bad = good;
    bad.rate = -1e-3;
    assert_bad(ctx, bad, "muon: rate is -0.001, it must be 0 or above, below inf");
    bad = good;
    bad.multiply = refuse;
    const float kept = x.w[0];
    assert_status(ctx, foci_muon(ctx, &bad), FOCAL_ENOMEM);
    assert_string_equal(focal_ctx_error(ctx), "no product of 3 rows");
    assert_true(x.w[0] == kept);
    matrices_free(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(passes_are_exact, open_ctx, close_ctx),
        cmocka_unit_test(kernels_agree),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_gradients, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(scale_does_not_matter, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("muon", tests, NULL, NULL);
}
