/* AdamW and sums of squares: every kernel against the double oracle and PyTorch's trajectories,
 * kernels against each other to the bit, odd numbers, threads, memory that runs out, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/adamw/adamw.h"
#include "ops/sum_squares.h"
#include "support/op_cases.h"
#include "support/optim_cases.h"
#include "support/oracle_optim.h"

static const int64_t counts[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 127, 257, 1000, 4099};

static const foci_adamw_args usual = {
    .rate = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .decay = 0.1, .factor = 1.0};

/* The arrays of one call, as grids of one row: what lies behind them must stay. */
typedef struct state_arrays {
    grid w, g, m, v, rounded;
} state_arrays;

static state_arrays arrays_new(int64_t count, unsigned flags, uint64_t seed)
{
    state_arrays s = {grid_new(1, count, FOCAL_F32, flags), grid_new(1, count, FOCAL_F32, flags),
                      grid_new(1, count, FOCAL_F32, flags ^ 2U),
                      grid_new(1, count, FOCAL_F32, flags), grid_new(1, count, FOCAL_BF16, flags)};
    float *w = new_normals(count, 0.5F, seed), *g = new_normals(count, 0.1F, seed + 1);
    float *m = new_normals(count, 0.1F, seed + 2), *v = new_normals(count, 0.1F, seed + 3);
    for (int64_t n = 0; n < count; n++) { /* gradients of many sizes, and none */
        g[n] *= powf(10.0F, (float)(n % 9) - 6.0F);
        m[n] *= powf(10.0F, (float)(n % 9) - 6.0F);
        v[n] *= v[n] * powf(100.0F, (float)(n % 9) - 6.0F);
        if (n % 13 == 5) g[n] = m[n] = v[n] = 0.0F;
    }
    grid_fill(&s.w, w);
    grid_fill(&s.g, g);
    grid_fill(&s.m, m);
    grid_fill(&s.v, v);
    free(w);
    free(g);
    free(m);
    free(v);
    return s;
}

static void arrays_free(state_arrays *s)
{
    grid_free(&s->w);
    grid_free(&s->g);
    grid_free(&s->m);
    grid_free(&s->v);
    grid_free(&s->rounded);
}

static foci_adamw_args call_of(const foci_adamw_args *settings, const state_arrays *s)
{
    foci_adamw_args args = *settings;
    args.count = s->w.width;
    args.weights = s->w.data;
    args.gradient = s->g.data;
    args.first = s->m.data;
    args.second = s->v.data;
    args.rounded = s->rounded.data;
    return args;
}

/* A step's size in roundings: of the weight, and a few of what is taken off it. */
static void check_step(const char *name, const foci_adamw_args *args, const state_arrays *old,
                       const state_arrays *now)
{
    const oracle_adamw o = {args->step,  args->rate,    args->beta1,
                            args->beta2, args->epsilon, args->decay};
    const float *w0 = old->w.data, *g0 = old->g.data, *m0 = old->m.data, *v0 = old->v.data;
    const float *w1 = now->w.data, *m1 = now->m.data, *v1 = now->v.data;
    for (int64_t n = 0; n < args->count; n++) {
        double w = (double)w0[n], m = (double)m0[n], v = (double)v0[n];
        const double g = args->factor * (double)g0[n];
        oracle_adamw_step(&o, g, &w, &m, &v);
        const double m_size = fabs((double)m0[n]) + fabs(g), v_size = (double)v0[n] + g * g;
        const double moved = fabs(w - (double)w0[n]);
        const double lost = m == 0.0 ? 0.0 : moved * (4.0 * m_size / fabs(m) + 2.0 * v_size / v);
        const double w_limit = 0x1p-24 * (1.01 * fabs(w) + 6.0 * moved + lost) + 1e-44;
        if (!(fabs((double)m1[n] - m) <= 3.0 * 0x1p-24 * m_size + 1e-44) ||
            !(fabs((double)v1[n] - v) <= 4.0 * 0x1p-24 * v_size + 1e-44) ||
            !(fabs((double)w1[n] - w) <= w_limit))
            fail_msg("%s: element %lld: w %.9g m %.9g v %.9g, expected %.9g %.9g %.9g", name,
                     (long long)n, (double)w1[n], (double)m1[n], (double)v1[n], w, m, v);
        assert_int_equal(((uint16_t *)now->rounded.data)[n], foci_bf16_from_float(w1[n]));
        const float gradient = ((float *)now->g.data)[n];
        assert_true(args->is_cleared ? gradient == 0.0F : gradient == g0[n]);
    }
    const grid *all[] = {&now->w, &now->g, &now->m, &now->v, &now->rounded};
    for (size_t n = 0; n < FOCAL_COUNT(all); n++) assert_gaps_untouched(name, all[n]);
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    foci_adamw_args settings[4] = {usual, usual, usual, usual};
    settings[0].step = 1;
    settings[1].step = 100000;
    settings[1].factor = 0.125;
    settings[1].is_cleared = true;
    settings[2].step = 7;
    settings[2].beta1 = settings[2].beta2 = settings[2].decay = 0.0;
    settings[2].epsilon = 1e-3;
    settings[3].step = 20;
    settings[3].rate = 1e-2;
    settings[3].beta2 = 0.999;
    for (size_t n = 0; n < FOCAL_COUNT(counts); n++)
        for (unsigned k = 0; k < 4; k++) {
            const unsigned flags = k % 2 ? GRID_MISALIGNED : 0;
            size_t next = 0;
            for (const foci_rows_kernel *kernel;
                 (kernel = next_kernel(ctx, &foci_adamw_op, &next));) {
                char name[96];
                (void)snprintf(name, sizeof name, "%s, count %lld, settings %u", kernel->name,
                               (long long)counts[n], k);
                state_arrays old = arrays_new(counts[n], flags, n),
                             now = arrays_new(counts[n], flags, n);
                const foci_adamw_args args = call_of(&settings[k], &now);
                foci_adamw_pass pass;
                assert_status(ctx, foci_adamw_prepare(ctx, &args, &pass), FOCAL_OK);
                kernel->run(&pass, 0, args.count);
                check_step(name, &args, &old, &now);
                arrays_free(&old);
                arrays_free(&now);
                note_ran("adamw", kernel->name);
            }
        }
    note_without("adamw", "avx512bf16"); /* float32 but for the copy */
    assert_ran("adamw", "ref");
}

/* Every vector kernel makes the same bits; only the reference rounds less. */
static void vector_kernels_have_the_same_bits(void **state)
{
    enum { COUNT = 1003 };
    focal_ctx *ctx = *state;
    state_arrays first = {0};
    size_t next = 0;
    bool has_first = false;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_adamw_op, &next));) {
        if (strcmp(kernel->name, "ref") == 0) continue;
        state_arrays now = arrays_new(COUNT, 0, 9);
        foci_adamw_args args = call_of(&usual, &now);
        args.step = 3;
        foci_adamw_pass pass;
        assert_status(ctx, foci_adamw_prepare(ctx, &args, &pass), FOCAL_OK);
        kernel->run(&pass, 0, COUNT);
        if (has_first) {
            assert_memory_equal(first.w.data, now.w.data, COUNT * sizeof(float));
            assert_memory_equal(first.m.data, now.m.data, COUNT * sizeof(float));
            assert_memory_equal(first.v.data, now.v.data, COUNT * sizeof(float));
            arrays_free(&now);
        } else {
            first = now;
            has_first = true;
        }
    }
    if (has_first) arrays_free(&first);
}

static void check_golden(const golden_case *c, void *user)
{
    focal_ctx *ctx = user;
    const double *p = c->parameters;
    const int64_t count = (int64_t)p[0], steps = (int64_t)p[1];
    const double *gradients = case_doubles(c, "gradients", count * steps);
    const double *path = case_doubles(c, "weights", count * steps);
    const double *model = case_doubles(c, "model", count * steps);
    float *w = case_floats(c, "start", count), *g = new_array((size_t)count, sizeof *g);
    float *m = new_array((size_t)count, sizeof *m), *v = new_array((size_t)count, sizeof *v);
    double *w64 = new_array((size_t)count, sizeof *w64),
           *m64 = new_array((size_t)count, sizeof *m64);
    double *v64 = new_array((size_t)count, sizeof *v64);
    for (int64_t n = 0; n < count; n++) w64[n] = (double)w[n];
    for (int64_t step = 1; step <= steps; step++) {
        const oracle_adamw o = {step, p[2], p[3], p[4], p[5], p[6]};
        for (int64_t n = 0; n < count; n++) {
            const double exact = gradients[(step - 1) * count + n];
            g[n] = (float)exact;
            oracle_adamw_step(&o, p[7] * exact, &w64[n], &m64[n], &v64[n]);
        }
        const foci_adamw_args args = {.count = count,
                                      .weights = w,
                                      .gradient = g,
                                      .first = m,
                                      .second = v,
                                      .step = step,
                                      .rate = p[2],
                                      .beta1 = p[3],
                                      .beta2 = p[4],
                                      .epsilon = p[5],
                                      .decay = p[6],
                                      .factor = p[7]};
        assert_status(ctx, foci_adamw(ctx, &args), FOCAL_OK);
        const int64_t at = (step - 1) * count;
        assert_doubles_within(c->name, w64, path + at, count, 1e-13);
        for (int64_t n = 0; n < count; n++) {
            /* a rounding of the weight a step, and as far from PyTorch in float32 */
            const double limit = (double)step * (0x1p-24 * fabs(path[at + n]) + 1e-6 * p[2]);
            assert_true(fabs((double)w[n] - path[at + n]) <= limit);
            assert_true(fabs((double)w[n] - model[at + n]) <= 3.0 * limit);
        }
    }
    assert_doubles_within(c->name, m64, case_doubles(c, "first", count), count, 1e-13);
    assert_doubles_within(c->name, v64, case_doubles(c, "second", count), count, 1e-13);
    free(w);
    free(g);
    free(m);
    free(v);
    free(w64);
    free(m64);
    free(v64);
}

static void agrees_with_pytorch(void **state)
{
    each_optim_golden("adamw_", 3, *state, check_golden);
}

/* What is not finite spoils its element and no other; a gradient of 0 only decays. */
static void odd_gradients(void **state)
{
    enum { COUNT = 35 };
    focal_ctx *ctx = *state;
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_adamw_op, &next));) {
        float w[COUNT], g[COUNT], m[COUNT] = {0}, v[COUNT] = {0};
        for (int n = 0; n < COUNT; n++) w[n] = g[n] = 1.0F;
        g[3] = NAN;
        g[20] = INFINITY;
        g[34] = 0.0F;
        g[10] = 1e30F; /* its square is infinite: the step becomes 0 */
        foci_adamw_args args = usual;
        args.count = COUNT;
        args.weights = w;
        args.gradient = g;
        args.first = m;
        args.second = v;
        args.step = 1;
        foci_adamw_pass pass;
        assert_status(ctx, foci_adamw_prepare(ctx, &args, &pass), FOCAL_OK);
        kernel->run(&pass, 0, COUNT);
        for (int n = 0; n < COUNT; n++) assert_true(isfinite(w[n]) == (n != 3 && n != 20));
        assert_true(fabs((double)w[0] - (1.0 - 3e-4 * 1.1)) < 1e-7);
        assert_true(fabs((double)w[34] - (1.0 - 3e-5)) < 1e-7);
        assert_true(isinf(v[10]));
    }
}

typedef struct thread_problem {
    const float *w, *g;
    int64_t count;
} thread_problem;

static void make_bits(focal_ctx *ctx, const void *problem, void *out)
{
    const thread_problem *p = problem;
    float *w = out, *m = w + p->count, *v = m + p->count, *g = v + p->count;
    double *sums = (double *)(g + p->count);
    memset(out, 0, (size_t)p->count * 4 * sizeof *w);
    memcpy(w, p->w, (size_t)p->count * sizeof *w);
    foci_adamw_args args = usual;
    args.count = p->count;
    args.weights = w;
    args.gradient = g;
    args.first = m;
    args.second = v;
    args.is_cleared = true;
    for (args.step = 1; args.step < 4; args.step++) {
        memcpy(g, p->g, (size_t)p->count * sizeof *g);
        foci_square_sum squares;
        assert_status(ctx, foci_sum_squares(ctx, g, p->count, &squares), FOCAL_OK);
        sums[args.step - 1] = squares.sum;
        assert_status(ctx, foci_adamw(ctx, &args), FOCAL_OK);
    }
}

static void same_bits_at_any_thread_count(void **state)
{
    enum { COUNT = 100004 };
    (void)state;
    float *w = new_normals(COUNT, 1.0F, 1), *g = new_normals(COUNT, 0.1F, 2);
    const thread_problem problem = {w, g, COUNT};
    const size_t bytes = (size_t)COUNT * 4 * sizeof(float) + 3 * sizeof(double);
    assert_same_bits("adamw", bytes, &problem, make_bits);
    free(w);
    free(g);
}

/* Exact where squares add up to whole numbers, the same bits from every kernel elsewhere. */
static void squares_are_summed(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t sizes[] = {0, 1, 7, 16, 31, 32, 33, 1000, 16383, 16384, 16385, 50001};
    for (size_t s = 0; s < FOCAL_COUNT(sizes); s++) {
        const int64_t count = sizes[s];
        float *x = new_normals(count + 1, 1.0F, s), *whole = new_array((size_t)count + 1, 4);
        double exact = 0.0, first = -1.0;
        int64_t whole_sum = 0, odd_count = 0;
        for (int64_t n = 0; n < count; n++) {
            x[n] *= powf(10.0F, (float)(n % 61) - 30.0F); /* beyond what float32 can square */
            exact += (double)x[n] * (double)x[n];
            whole[n] = (float)(n % 100);
            whole_sum += n % 100 * (n % 100);
        }
        whole[count] = NAN; /* not part of it */
        size_t next = 0;
        for (const foci_rows_kernel *kernel;
             (kernel = next_kernel(ctx, &foci_sum_squares_op, &next));) {
            foci_square_sum pieces[8];
            const foci_sum_squares_args args = {whole, count, pieces};
            const int64_t piece_count = (count + FOCI_SUM_PIECE - 1) / FOCI_SUM_PIECE;
            double sum = 0.0;
            kernel->run(&args, 0, piece_count);
            for (int64_t n = 0; n < piece_count; n++) sum += pieces[n].sum;
            assert_true(sum == (double)whole_sum);
            const foci_sum_squares_args wide = {x, count, pieces};
            kernel->run(&wide, 0, piece_count);
            sum = 0.0;
            for (int64_t n = 0; n < piece_count; n++) sum += pieces[n].sum;
            assert_true(fabs(sum - exact) <= 1e-12 * exact);
            if (first >= 0.0) assert_true(first == sum);
            first = sum;
            note_ran("sum_squares", kernel->name);
        }
        for (int64_t n = 0; n < count; n += 11) {
            whole_sum -= n % 100 * (n % 100);
            whole[n] = n % 2 ? NAN : -INFINITY;
            odd_count++;
        }
        next = 0;
        for (const foci_rows_kernel *kernel;
             (kernel = next_kernel(ctx, &foci_sum_squares_op, &next));) {
            foci_square_sum pieces[8], sum = {0};
            const foci_sum_squares_args args = {whole, count, pieces};
            const int64_t piece_count = (count + FOCI_SUM_PIECE - 1) / FOCI_SUM_PIECE;
            kernel->run(&args, 0, piece_count);
            for (int64_t n = 0; n < piece_count; n++) {
                sum.sum += pieces[n].sum;
                sum.odd_count += pieces[n].odd_count;
            }
            assert_true(sum.sum == (double)whole_sum && sum.odd_count == odd_count);
        }
        foci_square_sum got;
        assert_status(ctx, foci_sum_squares(ctx, whole, count, &got), FOCAL_OK);
        assert_true(got.sum == (double)whole_sum && got.odd_count == odd_count);
        free(x);
        free(whole);
    }
    note_without("sum_squares", "avx512bf16");
    assert_ran("sum_squares", "ref");
}

static void memory_runs_out(void **state)
{
    (void)state;
    focal_ctx *ctx = new_ctx(2);
    float x[40] = {0};
    foci_square_sum sum = {.sum = -1.0};
    memory_fail(1, true); /* scratch asks twice */
    assert_status(ctx, foci_sum_squares(ctx, x, 40, &sum), FOCAL_ENOMEM);
    assert_true(sum.sum == -1.0);
    memory_fail(0, false);
    assert_status(ctx, foci_sum_squares(ctx, x, 40, &sum), FOCAL_OK);
    assert_true(sum.sum == 0.0);
    focal_ctx_close(ctx);
    assert_int_equal(memory_live_blocks(), 0);
}

static void assert_bad(focal_ctx *ctx, foci_adamw_args args, const char *text)
{
    float *kept = args.weights;
    if (kept) kept[0] = 0.25F;
    assert_status(ctx, foci_adamw(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
    if (kept) assert_true(kept[0] == 0.25F);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float w[4] = {0}, g[4] = {0}, m[4] = {0}, v[4] = {0};
    foci_adamw_args good = usual, bad;
    good.count = 4;
    good.weights = w;
    good.gradient = g;
    good.first = m;
    good.second = v;
    good.step = 1;
    assert_status(ctx, foci_adamw(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_adamw(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_adamw(ctx, NULL), FOCAL_EINVAL);
    bad = good;
    bad.second = NULL;
    assert_bad(ctx, bad, "adamw: weights, gradient and both moments must be set");
    bad = good;
    bad.count = -1;
    assert_bad(ctx, bad, "adamw: the count is -1, it must be 0 or more");
    bad = good;
    bad.step = 0;
    assert_bad(ctx, bad, "adamw: the step is 0, it must be at least 1");
    bad = good;
    bad.beta2 = 1.0;
    assert_bad(ctx, bad, "adamw: beta2 is 1, it must be 0 or above, below 1");
    bad = good;
    bad.rate = (double)NAN;
    assert_bad(ctx, bad, "adamw: rate is nan, it must be 0 or above, below inf");
    bad = good;
    bad.factor = -1.0;
    assert_bad(ctx, bad, "adamw: factor is -1, it must be 0 or above, below inf");
    bad = good;
    bad.epsilon = 1e-50;
    assert_bad(ctx, bad, "adamw: epsilon is 1e-50, it must be a float above 0");
    good.count = 0;
    assert_status(ctx, foci_adamw(ctx, &good), FOCAL_OK);
    foci_square_sum sum;
    assert_status(ctx, foci_sum_squares(ctx, NULL, 1, &sum), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "sum_squares: x and out must be set");
    assert_status(ctx, foci_sum_squares(ctx, w, -2, &sum), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "sum_squares: the count is -2, it must be 0 or more");
    assert_int_equal(foci_sum_squares(NULL, w, 1, &sum), FOCAL_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(vector_kernels_have_the_same_bits, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_gradients, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(squares_are_summed, open_ctx, close_ctx),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("adamw", tests, NULL, NULL);
}
