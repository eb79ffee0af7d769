/* Gradients of losses: every kernel against the double oracle and PyTorch, the oracle against
 * finite differences, odd rows, threads, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"
#include "support/op_cases.h"
#include "support/optim_cases.h"
#include "support/oracle_ops.h"
#include "support/oracle_optim.h"
#include "support/route_cases.h"

/* Sums of float32 exponentials: their relative error is lse's absolute one. */
static const double most_error = 2.5e-7;

typedef struct settings {
    float spread, cap;
    double scale, z;
    focal_dtype dtype;
} settings;

static const settings all_settings[] = {
    {1.0F, 0.0F, 1.0, 0.0, FOCAL_F32},    {4.0F, 0.0F, 1.0 / 48, 0.0, FOCAL_BF16},
    {10.0F, 0.0F, 0.5, 1e-4, FOCAL_F32},  {5.0F, 5.0F, 1.0, 0.0, FOCAL_F32},
    {60.0F, 30.0F, 2.0, 1e-3, FOCAL_F32}, {30.0F, 30.0F, 1.0, 1e-2, FOCAL_BF16},
    {0.0F, 0.0F, -3.0, 0.0, FOCAL_F32},   {200.0F, 0.0F, 1.0, 0.0, FOCAL_F32},
};

static const int32_t widths[] = {1,   2,   7,   8,   9,   15,  16,  17,   31,  33,
                                 127, 128, 129, 255, 256, 257, 263, 1000, 4099};

static float *new_logits(int64_t count, const settings *s, uint64_t seed)
{
    float *x = new_normals(count, s->spread, seed);
    for (int64_t n = 0; n < count && s->cap > 0.0F; n++) x[n] = s->cap * tanhf(x[n] / s->cap);
    return x;
}

/* What rounding can move a gradient by: the exponent x - max, the slope's two factors, and the
 * terms themselves. */
static double size_of(double scale, double terms, double x, double max, double cap)
{
    const double slope = cap > 0.0 ? 1.0 - x / cap * (x / cap) : 1.0;
    return fabs(scale) * terms * (fabs(slope) * (2.0 + fabs(x - max)) + (cap > 0.0 ? 2.0 : 0.0));
}

static double largest(int64_t V, const double *x)
{
    double max = x[0];
    for (int64_t n = 1; n < V; n++) max = fmax(max, x[n]);
    return max;
}

static float plain_slope(float x, float cap)
{
    return cap > 0.0F ? 1.0F - x / cap * (x / cap) : 1.0F;
}

/* As plain float32 loops. */
static float plain_sum(int64_t V, const float *x, float *max)
{
    float sum = 0.0F;
    *max = x[0];
    for (int64_t n = 1; n < V; n++) *max = fmaxf(*max, x[n]);
    for (int64_t n = 0; n < V; n++) sum += expf(x[n] - *max);
    return sum;
}

static void plain_loss(const settings *s, int64_t V, const float *x, int64_t target, float *out)
{
    float max;
    const float sum = plain_sum(V, x, &max), lse = max + logf(sum);
    for (int64_t n = 0; n < V; n++) {
        const float p = expf(x[n] - max) / sum;
        const float g = p * (1.0F + 2.0F * (float)s->z * lse) - (n == target ? 1.0F : 0.0F);
        out[n] = target < 0 ? 0.0F : (float)s->scale * g * plain_slope(x[n], s->cap);
    }
}

static void plain_kl(const settings *s, int64_t V, const float *t, const float *x, float *out)
{
    float max_t, max_s;
    const float sum_t = plain_sum(V, t, &max_t), sum_s = plain_sum(V, x, &max_s);
    for (int64_t n = 0; n < V; n++)
        out[n] = (float)s->scale * (expf(x[n] - max_s) / sum_s - expf(t[n] - max_t) / sum_t) *
                 plain_slope(x[n], s->cap);
}

/* Expected results of one call, rows by rows. */
typedef struct expected {
    int64_t count;
    double *exact, *sizes, *first, *second; /* first, second: nll and lse, or kl and nothing */
    float *plain;
} expected;

static expected expected_new(int64_t T, int64_t V)
{
    const size_t count = (size_t)(T * V);
    return (expected){T * V,
                      new_array(count, sizeof(double)),
                      new_array(count, sizeof(double)),
                      new_array((size_t)T, sizeof(double)),
                      new_array((size_t)T, sizeof(double)),
                      new_array(count, sizeof(float))};
}

static void expected_free(const expected *e)
{
    free(e->exact);
    free(e->sizes);
    free(e->first);
    free(e->second);
    free(e->plain);
}

static expected expect_loss(const settings *s, int32_t T, int32_t V, const float *x,
                            const int32_t *targets)
{
    expected e = expected_new(T, V);
    double *x64 = to_doubles(x, e.count);
    for (int64_t t = 0; t < T; t++) {
        const int64_t at = t * V;
        const oracle_loss row = {V, targets[t], s->scale, s->z, (double)s->cap};
        oracle_loss_gradient(&row, x64 + at, e.exact + at, &e.first[t], &e.second[t]);
        plain_loss(s, V, x + at, targets[t], e.plain + at);
        const double max = largest(V, x64 + at), lse = e.second[t];
        for (int64_t n = 0; n < V; n++) {
            const double terms = exp(x64[at + n] - lse) * (1.0 + 2.0 * s->z * fabs(lse)) +
                                 (n == targets[t] ? 1.0 : 0.0);
            e.sizes[at + n] = size_of(s->scale, terms, x64[at + n], max, (double)s->cap);
        }
    }
    free(x64);
    return e;
}

static expected expect_kl(const settings *s, int32_t T, int32_t V, const float *t, const float *x)
{
    expected e = expected_new(T, V);
    double *t64 = to_doubles(t, e.count), *x64 = to_doubles(x, e.count);
    for (int64_t row = 0; row < T; row++) {
        const int64_t at = row * V;
        e.first[row] = oracle_kl(V, t64 + at, x64 + at, s->scale, (double)s->cap, e.exact + at);
        plain_kl(s, V, t + at, x + at, e.plain + at);
        const double max_t = largest(V, t64 + at), max_s = largest(V, x64 + at);
        const double lse_t = oracle_log_softmax(V, t64 + at, NULL);
        const double lse_s = oracle_log_softmax(V, x64 + at, NULL);
        for (int64_t n = at; n < at + V; n++)
            e.sizes[n] = size_of(s->scale, exp(t64[n] - lse_t), t64[n], max_t, (double)s->cap) +
                         size_of(s->scale, exp(x64[n] - lse_s), x64[n], max_s, (double)s->cap);
    }
    free(t64);
    free(x64);
    return e;
}

static void assert_gradient(const char *name, const expected *e, const grid *dlogits)
{
    float *got = grid_packed(dlogits);
    const error_bound bound = {.name = name,
                               .plain = e->plain,
                               .exact = e->exact,
                               .magnitude = e->sizes,
                               .count = e->count,
                               .dtype = dlogits->dtype,
                               .factor = 2.0};
    assert_gaps_untouched(name, dlogits);
    assert_within(&bound, got);
    free(got);
}

static void assert_near(const char *name, const double *got, const double *exact, int32_t count,
                        double relative)
{
    for (int32_t n = 0; n < count; n++)
        if (!(fabs(got[n] - exact[n]) <= most_error + relative * fabs(exact[n])))
            fail_msg("%s: row %d has %.12g, exact %.12g", name, n, got[n], exact[n]);
}

static void check_loss(focal_ctx *ctx, const settings *s, int32_t T, int32_t V, unsigned flags)
{
    float *x = new_logits((int64_t)T * V, s, (uint64_t)V + flags);
    int32_t *targets = new_array((size_t)T, sizeof *targets);
    for (int32_t t = 0; t < T; t++) targets[t] = t % 4 == 2 ? -1 : (t * 7 + V / 2) % V;
    double *nll = new_array((size_t)T, sizeof *nll), *lse = new_array((size_t)T, sizeof *lse);
    const expected e = expect_loss(s, T, V, x, targets);
    grid logits = grid_new(T, V, FOCAL_F32, flags);
    foci_loss_backward_args args = {.T = T,
                                    .V = V,
                                    .logits = logits.data,
                                    .logits_stride = logits.stride,
                                    .targets = targets,
                                    .scale = s->scale,
                                    .z = s->z,
                                    .soft_cap = s->cap,
                                    .dlogits_dtype = s->dtype,
                                    .nll = nll,
                                    .lse = lse};
    size_t next = 0;
    for (const foci_rows_kernel *k; (k = next_kernel(ctx, &foci_loss_backward_op, &next));) {
        char name[128];
        (void)snprintf(name, sizeof name, "%s, T %d V %d, settings %td", k->name, T, V,
                       s - all_settings);
        grid dlogits = grid_new(T, V, s->dtype, flags ^ GRID_MISALIGNED);
        foci_loss_backward_args call = args;
        call.dlogits = dlogits.data;
        call.dlogits_stride = dlogits.stride;
        grid_fill(&logits, x);
        assert_status(ctx, foci_loss_backward_normalise(ctx, &call, &call), FOCAL_OK);
        k->run(&call, 0, T);
        assert_near(name, nll, e.first, T, 0.0);
        assert_near(name, lse, e.second, T, 0.0);
        assert_gradient(name, &e, &dlogits);
        if (s->dtype == FOCAL_F32) { /* in place, with nothing else asked for: the same bits */
            float *apart = grid_packed(&dlogits);
            call.dlogits = logits.data;
            call.dlogits_stride = logits.stride;
            call.nll = call.lse = NULL;
            k->run(&call, 0, T);
            float *in_place = grid_packed(&logits);
            assert_gaps_untouched(name, &logits);
            assert_memory_equal(apart, in_place, (size_t)e.count * sizeof *apart);
            free(apart);
            free(in_place);
        }
        grid_free(&dlogits);
        note_ran("loss_backward", k->name);
    }
    grid_free(&logits);
    expected_free(&e);
    free(x);
    free(targets);
    free(nll);
    free(lse);
}

static void check_kl(focal_ctx *ctx, const settings *s, int32_t T, int32_t V, unsigned flags)
{
    float *t = new_logits((int64_t)T * V, s, (uint64_t)V + 11);
    float *x = new_logits((int64_t)T * V, s, (uint64_t)V + 22 + flags);
    double *kl = new_array((size_t)T, sizeof *kl);
    const expected e = expect_kl(s, T, V, t, x);
    grid teacher = grid_new(T, V, FOCAL_F32, flags),
         student = grid_new(T, V, FOCAL_F32, flags ^ 3U);
    grid_fill(&teacher, t);
    size_t next = 0;
    for (const foci_rows_kernel *k; (k = next_kernel(ctx, &foci_kl_op, &next));) {
        char name[128];
        (void)snprintf(name, sizeof name, "kl %s, T %d V %d, settings %td", k->name, T, V,
                       s - all_settings);
        grid dlogits = grid_new(T, V, s->dtype, flags ^ GRID_MISALIGNED);
        foci_kl_args call = {.T = T,
                             .V = V,
                             .teacher = teacher.data,
                             .student = student.data,
                             .teacher_stride = teacher.stride,
                             .student_stride = student.stride,
                             .scale = s->scale,
                             .soft_cap = s->cap,
                             .dlogits = dlogits.data,
                             .dlogits_dtype = s->dtype,
                             .dlogits_stride = dlogits.stride,
                             .kl = kl};
        grid_fill(&student, x);
        assert_status(ctx, foci_kl_normalise(ctx, &call, &call), FOCAL_OK);
        k->run(&call, 0, T);
        assert_near(name, kl, e.first, T, 5e-7);
        assert_gradient(name, &e, &dlogits);
        if (s->dtype == FOCAL_F32) {
            float *apart = grid_packed(&dlogits);
            call.dlogits = student.data;
            call.dlogits_stride = student.stride;
            call.kl = NULL;
            k->run(&call, 0, T);
            float *in_place = grid_packed(&student);
            assert_gaps_untouched(name, &student);
            assert_memory_equal(apart, in_place, (size_t)e.count * sizeof *apart);
            free(apart);
            free(in_place);
        }
        grid_free(&dlogits);
        note_ran("kl", k->name);
    }
    grid_free(&teacher);
    grid_free(&student);
    expected_free(&e);
    free(t);
    free(x);
    free(kl);
}

static void kernels_match_oracle(void **state)
{
    for (size_t w = 0; w < FOCAL_COUNT(widths); w++)
        for (unsigned n = 0; n < FOCAL_COUNT(all_settings); n++) {
            check_loss(*state, &all_settings[n], n % 2 ? 5 : 1, widths[w], (n + (unsigned)w) % 4);
            check_kl(*state, &all_settings[n], n % 2 ? 1 : 3, widths[w], (n + (unsigned)w) % 4);
        }
    note_without("loss_backward", "avx512bf16"); /* logits are float32 */
    note_without("kl", "avx512bf16");
    assert_ran("loss_backward", "ref");
    assert_ran("kl", "ref");
}

/* The oracle's gradient is that of the oracle's value, through the soft-cap. */
static void oracle_matches_differences(void **state)
{
    enum { V = 9 };
    (void)state;
    const oracle_loss cases[] = {
        {V, 4, 1.0, 0.0, 0.0}, {V, 0, 0.3, 0.02, 0.0}, {V, 8, 2.0, 0.1, 3.0}};
    float *x = new_normals(V, 2.0F, 5);
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        double raw[V], capped[V], gradient[V], nll, lse;
        for (int i = 0; i < V; i++) {
            raw[i] = (double)x[i];
            capped[i] = cases[n].cap > 0.0 ? cases[n].cap * tanh(raw[i] / cases[n].cap) : raw[i];
        }
        oracle_loss_gradient(&cases[n], capped, gradient, &nll, &lse);
        for (int i = 0; i < V; i++) {
            const double step = 1e-5, kept = raw[i];
            raw[i] = kept + step;
            const double above = oracle_loss_value(&cases[n], raw);
            raw[i] = kept - step;
            const double below = oracle_loss_value(&cases[n], raw);
            raw[i] = kept;
            assert_true(fabs((above - below) / (2.0 * step) - gradient[i]) < 1e-8);
        }
    }
    free(x);
}

static void check_loss_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const double *p = g->parameters;
    const int32_t T = (int32_t)p[0], V = (int32_t)p[1];
    const int64_t count = (int64_t)T * V;
    float *logits = case_floats(g, "logits", count), *out = new_array((size_t)count, sizeof *out);
    double *exact = new_array((size_t)count, sizeof *exact), nll[8], lse[8];
    int32_t targets[8];
    for (int32_t t = 0; t < T; t++) {
        targets[t] = (int32_t)case_doubles(g, "targets", T)[t];
        const oracle_loss row = {V, targets[t], p[2], p[3], p[4]};
        oracle_loss_gradient(&row, case_doubles(g, "logits", count) + (int64_t)t * V,
                             exact + (int64_t)t * V, &nll[t], &lse[t]);
    }
    assert_doubles_within(g->name, exact, case_doubles(g, "dlogits", count), count, 1e-12);
    assert_doubles_within(g->name, nll, case_doubles(g, "nll", T), T, 1e-12);
    assert_doubles_within(g->name, lse, case_doubles(g, "lse", T), T, 1e-12);
    const foci_loss_backward_args args = {.T = T,
                                          .V = V,
                                          .logits = logits,
                                          .targets = targets,
                                          .scale = p[2],
                                          .z = p[3],
                                          .soft_cap = (float)p[4],
                                          .dlogits = out,
                                          .nll = nll,
                                          .lse = lse};
    assert_status(ctx, foci_loss_backward(ctx, &args), FOCAL_OK);
    assert_near(g->name, nll, case_doubles(g, "nll", T), T, 0.0);
    assert_near(g->name, lse, case_doubles(g, "lse", T), T, 0.0);
    for (int64_t n = 0; n < count; n++)
        assert_true(fabs((double)out[n] - case_doubles(g, "dlogits", count)[n]) < 1e-6 * p[2]);
    free(logits);
    free(out);
    free(exact);
}

static void check_kl_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const double *p = g->parameters;
    const int32_t T = (int32_t)p[0], V = (int32_t)p[1];
    const int64_t count = (int64_t)T * V;
    float *teacher = case_floats(g, "teacher", count), *student = case_floats(g, "student", count);
    double *exact = new_array((size_t)count, sizeof *exact), kl[8];
    const double *expected_d = case_doubles(g, "dlogits", count);
    for (int64_t t = 0; t < T; t++)
        kl[t] = oracle_kl(V, case_doubles(g, "teacher", count) + t * V,
                          case_doubles(g, "student", count) + t * V, p[2], p[3], exact + t * V);
    assert_doubles_within(g->name, exact, expected_d, count, 1e-12);
    assert_doubles_within(g->name, kl, case_doubles(g, "kl", T), T, 1e-12);
    const foci_kl_args args = {.T = T,
                               .V = V,
                               .teacher = teacher,
                               .student = student,
                               .scale = p[2],
                               .soft_cap = (float)p[3],
                               .dlogits = student,
                               .kl = kl};
    assert_status(ctx, foci_kl_backward(ctx, &args), FOCAL_OK);
    assert_near(g->name, kl, case_doubles(g, "kl", T), T, 5e-7);
    for (int64_t n = 0; n < count; n++)
        assert_true(fabs((double)student[n] - expected_d[n]) < 1e-6 * p[2]);
    free(teacher);
    free(student);
    free(exact);
}

static void agrees_with_pytorch(void **state)
{
    each_optim_golden("loss_", 5, *state, check_loss_golden);
    each_optim_golden("kl_", 2, *state, check_kl_golden);
}

static void assert_all_nan(const float *x, int64_t count)
{
    for (int64_t n = 0; n < count; n++) assert_true(isnan(x[n]));
}

/* NaN, +inf and a row of -inf spoil their own row; a row without target is not even read. */
static void odd_rows(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 6, V = 37 };
    float x[T][V], out[T][V];
    double nll[T], lse[T];
    const int32_t targets[T] = {0, 5, 5, 5, 36, -1};
    for (int64_t n = 0; n < V; n++) {
        for (int row = 0; row < T; row++) x[row][n] = (float)(n % 7);
        x[0][n] = n == 0 ? 1.0F : -INFINITY; /* one id is left: nothing to learn */
        x[3][n] = -INFINITY;
        x[5][n] = NAN;
    }
    x[1][36] = NAN;
    x[2][3] = INFINITY;
    x[4][36] = -INFINITY; /* an impossible target */
    const foci_loss_backward_args args = {.T = T,
                                          .V = V,
                                          .logits = x[0],
                                          .logits_stride = V,
                                          .targets = targets,
                                          .scale = 1.0,
                                          .dlogits = out[0],
                                          .dlogits_stride = V,
                                          .nll = nll,
                                          .lse = lse};
    size_t next = 0;
    for (const foci_rows_kernel *k; (k = next_kernel(ctx, &foci_loss_backward_op, &next));) {
        k->run(&args, 0, T);
        assert_true(nll[0] == 0.0 && lse[0] == 1.0 && out[0][0] == 0.0F && out[0][36] == 0.0F);
        for (int row = 1; row < 4; row++) {
            assert_all_nan(out[row], V);
            assert_true(isnan(nll[row]) && isnan(lse[row]));
        }
        assert_true(isinf(nll[4]) && isfinite(lse[4]) && out[4][36] == -1.0F && out[4][0] > 0.0F);
        assert_true(nll[5] == 0.0 && lse[5] == 0.0);
        for (int64_t n = 0; n < V; n++) assert_true(out[5][n] == 0.0F);
    }
}

/* Rows longer than what is searched at once, which begin with nothing but minus infinity. */
static void masked_beginnings(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 2, V = 7001, MASKED = 6000 };
    float *x = new_normals((int64_t)T * V, 1.0F, 3), *out = new_array((size_t)T * V, sizeof *out);
    double *dense = to_doubles(x + MASKED, V - MASKED), nll[T], lse[T];
    const double exact = oracle_log_softmax(V - MASKED, dense, NULL);
    const int32_t targets[T] = {V - 1, V - 1};
    for (int64_t n = 0; n < (int64_t)T * V; n++)
        if (n % V < MASKED) x[n] = -INFINITY;
    x[V + 5] = NAN; /* of the second row */
    const foci_loss_backward_args args = {.T = T,
                                          .V = V,
                                          .logits = x,
                                          .logits_stride = V,
                                          .targets = targets,
                                          .scale = 1.0,
                                          .dlogits = out,
                                          .dlogits_stride = V,
                                          .nll = nll,
                                          .lse = lse};
    size_t next = 0;
    for (const foci_rows_kernel *k; (k = next_kernel(ctx, &foci_loss_backward_op, &next));) {
        k->run(&args, 0, T);
        assert_true(fabs(lse[0] - exact) <= most_error);
        assert_true(fabs(nll[0] - (exact - dense[V - MASKED - 1])) <= most_error);
        assert_true(out[0] == 0.0F && out[MASKED - 1] == 0.0F && out[MASKED] > 0.0F);
        assert_true(isnan(lse[1]) && isnan(nll[1]));
        assert_all_nan(out + V, V);
    }
    free(x);
    free(out);
    free(dense);
}

static void odd_teachers(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 5, V = 21 };
    float t[T][V], s[T][V], out[T][V];
    double kl[T];
    for (int64_t n = 0; n < V; n++)
        for (int row = 0; row < T; row++) t[row][n] = s[row][n] = (float)(n % 5);
    t[0][3] = -INFINITY;           /* adds nothing */
    s[1][4] = -INFINITY;           /* impossible for the student alone */
    t[2][6] = s[2][6] = -INFINITY; /* for both: equal rows */
    t[3][7] = NAN;
    s[4][20] = INFINITY;
    const foci_kl_args args = {.T = T,
                               .V = V,
                               .teacher = t[0],
                               .student = s[0],
                               .teacher_stride = V,
                               .student_stride = V,
                               .scale = 1.0,
                               .dlogits = out[0],
                               .dlogits_stride = V,
                               .kl = kl};
    size_t next = 0;
    for (const foci_rows_kernel *k; (k = next_kernel(ctx, &foci_kl_op, &next));) {
        k->run(&args, 0, T);
        assert_true(isfinite(kl[0]) && kl[0] > 0.0 && out[0][3] > 0.0F);
        assert_true(isinf(kl[1]) && kl[1] > 0.0 && out[1][4] < 0.0F);
        assert_true(kl[2] == 0.0 && out[2][6] == 0.0F && out[2][0] == 0.0F);
        assert_true(isnan(kl[3]) && isnan(kl[4]));
        assert_all_nan(out[3], V);
        assert_all_nan(out[4], V);
    }
}

typedef struct thread_problem {
    const float *x, *t;
    const int32_t *targets;
    int32_t T, V;
} thread_problem;

static void make_bits(focal_ctx *ctx, const void *problem, void *out)
{
    const thread_problem *p = problem;
    const int64_t count = (int64_t)p->T * p->V;
    double *numbers = out;
    float *dlogits = (float *)(numbers + (size_t)3 * (size_t)p->T);
    const foci_loss_backward_args loss = {.T = p->T,
                                          .V = p->V,
                                          .logits = p->x,
                                          .targets = p->targets,
                                          .scale = 0.1,
                                          .z = 1e-3,
                                          .dlogits = dlogits,
                                          .nll = numbers,
                                          .lse = numbers + p->T};
    const foci_kl_args kl = {.T = p->T,
                             .V = p->V,
                             .teacher = p->t,
                             .student = p->x,
                             .scale = 0.1,
                             .dlogits = dlogits + count,
                             .kl = numbers + (size_t)2 * (size_t)p->T};
    assert_status(ctx, foci_loss_backward(ctx, &loss), FOCAL_OK);
    assert_status(ctx, foci_kl_backward(ctx, &kl), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    enum { T = 41, V = 1031 };
    (void)state;
    float *x = new_normals((int64_t)T * V, 3.0F, 1), *t = new_normals((int64_t)T * V, 3.0F, 2);
    int32_t targets[T];
    for (int32_t n = 0; n < T; n++) targets[n] = n % 9 == 4 ? -1 : n * 17;
    const thread_problem problem = {x, t, targets, T, V};
    assert_same_bits("loss_backward", T * (3 * sizeof(double) + 2 * (size_t)V * sizeof(float)),
                     &problem, make_bits);
    free(x);
    free(t);
}

static void assert_bad_loss(focal_ctx *ctx, foci_loss_backward_args args, const char *text)
{
    assert_status(ctx, foci_loss_backward(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_losses(void **state)
{
    focal_ctx *ctx = *state;
    float x[16] = {0}, out[16];
    int32_t targets[2] = {0, 8};
    const foci_loss_backward_args good = {
        .T = 2, .V = 8, .logits = x, .targets = (int32_t[]){0, 7}, .scale = 1.0, .dlogits = out};
    foci_loss_backward_args bad = good;
    assert_status(ctx, foci_loss_backward(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_loss_backward(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_loss_backward(ctx, NULL), FOCAL_EINVAL);
    bad.targets = NULL;
    assert_bad_loss(ctx, bad, "loss_backward: logits, targets and dlogits must be set");
    bad.targets = targets;
    fill_nan(out, 16, FOCAL_F32);
    assert_bad_loss(ctx, bad, "loss_backward: the target of row 1 is 8, it must be -1 or below 8");
    assert_true(is_fill_nan(out, 0, FOCAL_F32));
    targets[1] = -2;
    assert_bad_loss(ctx, bad, "loss_backward: the target of row 1 is -2, it must be -1 or below 8");
    bad = good;
    bad.V = 0;
    assert_bad_loss(ctx, bad, "loss_backward: 2 rows of 0: both must be at least 1");
    bad = good;
    bad.scale = (double)NAN;
    assert_bad_loss(ctx, bad, "loss_backward: the scale is nan, it must be finite");
    bad = good;
    bad.z = -1.0;
    assert_bad_loss(ctx, bad, "loss_backward: z is -1, it must be 0 or above");
    bad = good;
    bad.soft_cap = -5.0F;
    assert_bad_loss(ctx, bad, "loss_backward: the soft-cap is -5, it must be 0 or above");
    bad = good;
    bad.logits_stride = 7;
    assert_bad_loss(ctx, bad, "loss_backward: logits: a stride of 7 does not fit 2 rows of 8");
    bad = good;
    bad.dlogits_dtype = FOCAL_F16;
    assert_bad_loss(ctx, bad, "loss_backward: out is f16, it must be f32 or bf16");
    bad = good;
    bad.dlogits = x;
    bad.dlogits_dtype = FOCAL_BF16;
    assert_bad_loss(ctx, bad,
                    "loss_backward: in place, out must be f32 with the stride 8 of its input");
}

static void assert_bad_kl(focal_ctx *ctx, foci_kl_args args, const char *text)
{
    assert_status(ctx, foci_kl_backward(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_teachers(void **state)
{
    focal_ctx *ctx = *state;
    float t[16] = {0}, s[16] = {0}, out[16];
    const foci_kl_args good = {
        .T = 2, .V = 8, .teacher = t, .student = s, .scale = 1.0, .dlogits = out};
    foci_kl_args bad = good;
    assert_status(ctx, foci_kl_backward(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_kl_backward(NULL, &good), FOCAL_EINVAL);
    bad.student = NULL;
    assert_bad_kl(ctx, bad, "kl: teacher, student and dlogits must be set");
    bad = good;
    bad.T = -1;
    assert_bad_kl(ctx, bad, "kl: -1 rows of 8: both must be at least 1");
    bad = good;
    bad.dlogits = t;
    assert_bad_kl(ctx, bad, "kl: dlogits may be the student's logits, not the teacher's");
    bad = good;
    bad.scale = (double)INFINITY;
    assert_bad_kl(ctx, bad, "kl: the scale is inf, it must be finite");
    bad = good;
    bad.teacher_stride = -3;
    assert_bad_kl(ctx, bad, "kl: teacher: a stride of -3 does not fit 2 rows of 8");
    bad = good;
    bad.dlogits = s;
    bad.dlogits_stride = 9;
    assert_bad_kl(ctx, bad, "kl: in place, out must be f32 with the stride 8 of its input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test(oracle_matches_differences),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_rows, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(masked_beginnings, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_teachers, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_losses, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_teachers, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("loss_backward", tests, NULL, NULL);
}
