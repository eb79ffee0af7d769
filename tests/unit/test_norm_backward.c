/* The gradient of norms: the oracle against finite differences and PyTorch, every kernel against
 * the oracle on widths that break vectors and rows that break pieces; heads, strides, in place,
 * added; odd rows, threads, failing memory, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "ops/norm/norm_backward.h"
#include "support/op_cases.h"
#include "support/oracle_grads.h"
#include "support/plain_grads.h"
#include "support/route_cases.h"

/* A result beside what it should be. */
typedef struct expected {
    double *exact, *sizes;
    float *plain;
    int64_t count;
} expected;

static expected expected_new(int64_t count)
{
    return (expected){new_array((size_t)count, sizeof(double)),
                      new_array((size_t)count, sizeof(double)),
                      new_array((size_t)count, sizeof(float)), count};
}

static void expected_free(expected *e)
{
    free(e->exact);
    free(e->sizes);
    free(e->plain);
}

static void assert_expected(const char *kernel, const char *what, const expected *e,
                            const float *got)
{
    char name[192];
    (void)snprintf(name, sizeof name, "%s, %s", kernel, what);
    const error_bound bound = {.name = name,
                               .plain = e->plain,
                               .exact = e->exact,
                               .magnitude = e->sizes,
                               .count = e->count,
                               .factor = 2.0};
    assert_within(&bound, got);
}

/* A call on arrays of its own; flags choose the form. */
typedef struct norm_case {
    char name[96];
    foci_norm_backward_args args; /* with defaults filled in */
    grid x, dy, dx;
    float *weight, *dy_values;
    expected of_dx, of_dweight, of_dbias;
    int64_t count;
} norm_case;

enum { HAS_WEIGHT = 1, HAS_OFFSET = 2, FORMS = 4 };

static void find_expected(norm_case *c, const float *x)
{
    double *x64 = to_doubles(x, c->count), *dy64 = to_doubles(c->dy_values, c->count);
    double *w64 = c->weight ? to_doubles(c->weight, c->args.width) : NULL;
    const oracle_norm oracle = {.is_layer = c->args.kind == FOCI_NORM_LAYER,
                                .rows = c->count / c->args.width,
                                .width = c->args.width,
                                .x = x64,
                                .weight = w64,
                                .offset = (double)c->args.weight_offset,
                                .epsilon = (double)c->args.epsilon};
    const oracle_norm_grads grads = {c->of_dx.exact,      c->of_dx.sizes,    c->of_dweight.exact,
                                     c->of_dweight.sizes, c->of_dbias.exact, c->of_dbias.sizes};
    oracle_norm_backward(&oracle, dy64, &grads);
    plain_norm_backward(&c->args, c->of_dx.plain, c->of_dweight.plain, c->of_dbias.plain);
    free(x64);
    free(dy64);
    free(w64);
}

static norm_case *norm_case_new(focal_ctx *ctx, foci_norm_kind kind, int32_t T, int32_t H,
                                int32_t width, unsigned flags, uint64_t seed)
{
    norm_case *c = new_array(1, sizeof *c);
    const unsigned form = flags % FORMS, layout = flags / FORMS;
    (void)snprintf(c->name, sizeof c->name, "kind %d T %d H %d width %d flags %u", (int)kind, T, H,
                   width, flags);
    c->count = (int64_t)T * H * width;
    c->x = grid_new(T, (int64_t)H * width, FOCAL_F32, layout);
    c->dy = grid_new(T, (int64_t)H * width, FOCAL_F32, layout ^ GRID_GAPS);
    c->dx = grid_new(T, (int64_t)H * width, FOCAL_F32, layout ^ GRID_MISALIGNED);
    if (form & HAS_WEIGHT) c->weight = new_normals(width, 1.0F, seed + 1);
    float *x = new_normals(c->count, 3.0F, seed);
    for (int64_t n = 0; n < c->count; n++) x[n] += 1.0F; /* a mean to subtract */
    c->dy_values = new_normals(c->count, 1.0F, seed + 2);
    grid_fill(&c->x, x);
    grid_fill(&c->dy, c->dy_values);
    const foci_norm_backward_args args = {.kind = kind,
                                          .T = T,
                                          .H = H == 1 ? 0 : H,
                                          .width = width,
                                          .x = c->x.data,
                                          .x_stride = c->x.stride,
                                          .weight = c->weight,
                                          .weight_offset = form & HAS_OFFSET ? 1.0F : 0.0F,
                                          .epsilon = 1e-5F,
                                          .dy = c->dy.data,
                                          .dy_stride = c->dy.stride,
                                          .dx = c->dx.data,
                                          .dx_stride = c->dx.stride};
    assert_status(ctx, foci_norm_backward_normalise(ctx, &args, &c->args), FOCAL_OK);
    c->of_dx = expected_new(c->count);
    c->of_dweight = expected_new(width);
    c->of_dbias = expected_new(width);
    find_expected(c, x);
    free(x);
    return c;
}

static void norm_case_free(norm_case *c)
{
    grid_free(&c->x);
    grid_free(&c->dy);
    grid_free(&c->dx);
    expected_free(&c->of_dx);
    expected_free(&c->of_dweight);
    expected_free(&c->of_dbias);
    free(c->weight);
    free(c->dy_values);
    free(c);
}

/* In place of dy the same bits; added to what is there their sum, rounded once. */
static void check_other_places(focal_ctx *ctx, const foci_rows_kernel *kernel, const norm_case *c,
                               const float *got)
{
    foci_norm_backward_args args = c->args;
    args.dx = c->dy.data;
    args.dx_stride = c->dy.stride;
    assert_status(ctx, foci_norm_backward_by(ctx, kernel, &args), FOCAL_OK);
    assert_gaps_untouched(c->name, &c->dy);
    float *in_place = grid_packed(&c->dy);
    assert_memory_equal(in_place, got, (size_t)c->count * sizeof *got);
    grid_fill(&c->dy, c->dy_values);
    float *before = new_normals(c->count, 1.0F, 77);
    grid_fill(&c->dx, before);
    args = c->args;
    args.adds = true;
    assert_status(ctx, foci_norm_backward_by(ctx, kernel, &args), FOCAL_OK);
    assert_gaps_untouched(c->name, &c->dx);
    float *sum = grid_packed(&c->dx);
    for (int64_t n = 0; n < c->count; n++) {
        const double exact = (double)before[n] + (double)got[n];
        /* a reference in double does not round dx before the sum */
        if (fabs((double)sum[n] - exact) > 0x1p-23 * (fabs(exact) + fabs((double)got[n])))
            fail_msg("%s: %g added to %g is %g", c->name, (double)got[n], (double)before[n],
                     (double)sum[n]);
    }
    free(in_place);
    free(before);
    free(sum);
}

static void check_kernels(focal_ctx *ctx, const norm_case *c)
{
    const int64_t width = c->args.width;
    size_t next = 0;
    float *dweight = new_array((size_t)width + 1, sizeof *dweight);
    float *dbias = new_array((size_t)width + 1, sizeof *dbias);
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_norm_backward_op, &next));) {
        foci_norm_backward_args args = c->args;
        args.dweight = dweight;
        args.dbias = dbias;
        memset(dweight, 0, (size_t)width * sizeof *dweight);
        memset(dbias, 0, (size_t)width * sizeof *dbias);
        fill_nan(dweight + width, 1, FOCAL_F32);
        fill_nan(dbias + width, 1, FOCAL_F32);
        assert_status(ctx, foci_norm_backward_by(ctx, kernel, &args), FOCAL_OK);
        assert_gaps_untouched(c->name, &c->dx);
        assert_true(is_fill_nan(dweight, (size_t)width, FOCAL_F32));
        assert_true(is_fill_nan(dbias, (size_t)width, FOCAL_F32));
        float *got = grid_packed(&c->dx);
        assert_expected(kernel->name, c->name, &c->of_dx, got);
        assert_expected(kernel->name, "dweight", &c->of_dweight, dweight);
        assert_expected(kernel->name, "dbias", &c->of_dbias, dbias);
        check_other_places(ctx, kernel, c, got);
        free(got);
        note_ran("norm_backward", kernel->name);
    }
    free(dweight);
    free(dbias);
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t widths[] = {1,  2,  3,  7,  8,  9,  15,  16,  17,
                                     31, 32, 33, 64, 65, 97, 257, 576, 1000};
    static const int32_t tokens[] = {1, 3}, heads[] = {1, 3};
    unsigned flags = 0;
    for (size_t n = 0; n < FOCAL_COUNT(widths); n++)
        for (unsigned shape = 0; shape < 8; shape++) {
            norm_case *c = norm_case_new(ctx, (foci_norm_kind)(shape & 1), tokens[shape >> 1 & 1],
                                         heads[shape >> 2 & 1], widths[n], flags++ % (4 * FORMS),
                                         100 * n + shape);
            check_kernels(ctx, c);
            norm_case_free(c);
        }
    note_without("norm_backward", "avx512bf16"); /* rows are float32 */
    assert_ran("norm_backward", "ref");
}

/* Several pieces, the last of them short; and more rows than pieces of 64 may be. */
static void many_rows(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t shapes[][3] = {{130, 1, 300}, {43, 3, 257}, {300, 2, 40}, {16500, 1, 256}};
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++)
        for (int kind = 0; kind < 2; kind++) {
            if (n == 3 && kind == 1) continue;
            norm_case *c = norm_case_new(ctx, (foci_norm_kind)kind, shapes[n][0], shapes[n][1],
                                         shapes[n][2], HAS_WEIGHT, 7 + n);
            check_kernels(ctx, c);
            norm_case_free(c);
        }
}

/* What is wanted alone has the bits that it has with the others, and is added to what is there. */
static void parts_of_the_result(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 70, WIDTH = 300 };
    norm_case *c = norm_case_new(ctx, FOCI_NORM_LAYER, T, 1, WIDTH, HAS_WEIGHT, 3);
    float dweight[WIDTH] = {0}, dbias[WIDTH] = {0}, alone[WIDTH] = {0};
    foci_norm_backward_args args = c->args;
    args.dweight = dweight;
    args.dbias = dbias;
    assert_status(ctx, foci_norm_backward(ctx, &args), FOCAL_OK);
    args.dx = args.dbias = NULL;
    args.dweight = alone;
    assert_status(ctx, foci_norm_backward(ctx, &args), FOCAL_OK);
    assert_memory_equal(alone, dweight, sizeof alone);
    assert_status(ctx, foci_norm_backward(ctx, &args), FOCAL_OK); /* the same once more */
    for (int n = 0; n < WIDTH; n++)
        assert_true(fabsf(alone[n] - 2.0F * dweight[n]) <= 4e-7F * fabsf(alone[n]));
    args.dweight = NULL;
    args.dbias = alone;
    memset(alone, 0, sizeof alone);
    assert_status(ctx, foci_norm_backward(ctx, &args), FOCAL_OK);
    assert_memory_equal(alone, dbias, sizeof alone);
    norm_case_free(c);
}

/* A loss that is linear in the norm's output has the gradient dy there. */
static double loss(const oracle_norm *a, const double *dy)
{
    double out[64], sum = 0.0;
    oracle_norm_rows(a, out, NULL);
    for (int64_t n = 0; n < a->rows * a->width; n++) sum += out[n] * dy[n];
    return sum;
}

static double slope(const oracle_norm *a, const double *dy, double *parameter)
{
    const double step = 1e-5, before = *parameter;
    *parameter = before + step;
    const double above = loss(a, dy);
    *parameter = before - step;
    const double below = loss(a, dy);
    *parameter = before;
    return (above - below) / (2.0 * step);
}

static void oracle_matches_finite_differences(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDTH = 7, COUNT = ROWS * WIDTH };
    float *normals = new_normals(2 * COUNT + 2 * WIDTH, 1.0F, 17);
    double *numbers = to_doubles(normals, 2 * COUNT + 2 * WIDTH);
    double *x = numbers, *dy = x + COUNT, *w = dy + COUNT, *b = w + WIDTH;
    for (int kind = 0; kind < 2; kind++) {
        const oracle_norm a = {.is_layer = kind,
                               .rows = ROWS,
                               .width = WIDTH,
                               .x = x,
                               .weight = w,
                               .bias = b,
                               .offset = 1.0,
                               .epsilon = 0.1};
        double dx[COUNT], dweight[WIDTH], dbias[WIDTH], numeric[COUNT];
        const oracle_norm_grads grads = {dx, NULL, dweight, NULL, dbias, NULL};
        oracle_norm_backward(&a, dy, &grads);
        for (int n = 0; n < COUNT; n++) numeric[n] = slope(&a, dy, x + n);
        assert_doubles_within("dx", dx, numeric, COUNT, 1e-8);
        for (int n = 0; n < WIDTH; n++) numeric[n] = slope(&a, dy, w + n);
        assert_doubles_within("dweight", dweight, numeric, WIDTH, 1e-8);
        for (int n = 0; n < WIDTH; n++) numeric[n] = slope(&a, dy, b + n);
        assert_doubles_within("dbias", dbias, numeric, WIDTH, 1e-8);
    }
    free(normals);
    free(numbers);
}

static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const int32_t rows = (int32_t)g->parameters[1], width = (int32_t)g->parameters[2];
    const int64_t count = (int64_t)rows * width;
    float *x = case_floats(g, "x", count), *dy = case_floats(g, "dy", count);
    const double *w64 = golden_get(g, "weight", width);
    const double *dweight64 = golden_get(g, "dweight", width);
    const double *dbias64 = golden_get(g, "dbias", width);
    float *w = w64 ? case_floats(g, "weight", width) : NULL;
    expected of_dx = expected_new(count), of_dweight = expected_new(width),
             of_dbias = expected_new(width);
    const oracle_norm oracle = {.is_layer = g->parameters[0] != 0.0,
                                .rows = rows,
                                .width = width,
                                .x = case_doubles(g, "x", count),
                                .weight = w64,
                                .offset = g->parameters[3],
                                .epsilon = g->parameters[4]};
    const oracle_norm_grads grads = {of_dx.exact,      of_dx.sizes,    of_dweight.exact,
                                     of_dweight.sizes, of_dbias.exact, of_dbias.sizes};
    oracle_norm_backward(&oracle, case_doubles(g, "dy", count), &grads);
    assert_doubles_within(g->name, of_dx.exact, case_doubles(g, "dx", count), count, 1e-12);
    if (dweight64) assert_doubles_within(g->name, of_dweight.exact, dweight64, width, 1e-12);
    if (dbias64) assert_doubles_within(g->name, of_dbias.exact, dbias64, width, 1e-12);
    float *dx = of_dx.plain, *dweight = of_dweight.plain;
    const foci_norm_backward_args args = {.kind = (foci_norm_kind)g->parameters[0],
                                          .T = rows,
                                          .H = 1,
                                          .width = width,
                                          .x = x,
                                          .x_stride = width,
                                          .weight = w,
                                          .weight_offset = (float)g->parameters[3],
                                          .epsilon = (float)g->parameters[4],
                                          .dy = dy,
                                          .dy_stride = width,
                                          .dx = dx,
                                          .dx_stride = width,
                                          .dweight = dweight};
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_norm_backward_op, &next));) {
        memset(dweight, 0, (size_t)width * sizeof *dweight);
        assert_status(ctx, foci_norm_backward_by(ctx, kernel, &args), FOCAL_OK);
        assert_roundings(g->name, dx, case_doubles(g, "dx", count), of_dx.sizes, count, 6.0);
        if (dweight64) assert_roundings(g->name, dweight, dweight64, of_dweight.sizes, width, 6.0);
    }
    free(x);
    free(dy);
    free(w);
    expected_free(&of_dx);
    expected_free(&of_dweight);
    expected_free(&of_dbias);
}

static void agrees_with_pytorch(void **state)
{
    each_golden_of("small_grads", "norm_", 5, *state, check_golden);
}

/* NaN and infinities spoil their own row of dx; rows that forward makes 0 have the gradient 0. */
static void odd_rows(void **state)
{
    focal_ctx *ctx = *state;
    enum { ROWS = 7, WIDTH = 19 };
    float x[ROWS][WIDTH], dy[ROWS][WIDTH], dx[ROWS][WIDTH];
    size_t next = 0;
    for (const foci_rows_kernel *kernel;
         (kernel = next_kernel(ctx, &foci_norm_backward_op, &next));)
        for (int kind = 0; kind < 2; kind++) {
            for (int64_t n = 0; n < WIDTH; n++) {
                for (int row = 0; row < ROWS; row++) {
                    x[row][n] = (float)(n % 5) - 2.0F;
                    dy[row][n] = (float)(n % 3);
                }
                x[3][n] = n % 2 ? 1e37F : -1e37F;
                dy[3][n] *= 1e10F; /* their product is beyond float32 too */
                x[4][n] = 0.0F;
            }
            x[1][18] = NAN;
            x[2][0] = INFINITY;
            dy[5][2] = NAN;
            const foci_norm_backward_args args = {.kind = (foci_norm_kind)kind,
                                                  .T = ROWS,
                                                  .H = 1,
                                                  .width = WIDTH,
                                                  .x = x[0],
                                                  .x_stride = WIDTH,
                                                  .epsilon = 1e-6F,
                                                  .dy = dy[0],
                                                  .dy_stride = WIDTH,
                                                  .dx = dx[0],
                                                  .dx_stride = WIDTH};
            assert_status(ctx, foci_norm_backward_by(ctx, kernel, &args), FOCAL_OK);
            for (int64_t n = 0; n < WIDTH; n++) {
                assert_true(isfinite(dx[0][n]) && isfinite(dx[4][n]) && isfinite(dx[6][n]));
                assert_true(isnan(dx[1][n]) && isnan(dx[5][n]));
                assert_true(dx[3][n] == 0.0F);
            }
        }
}

typedef struct problem {
    foci_norm_backward_args args;
    size_t dx_bytes;
} problem;

/* dx, then dweight, then dbias. */
static void make_gradient(focal_ctx *ctx, const void *of, void *out)
{
    const problem *p = of;
    foci_norm_backward_args args = p->args;
    args.dx = out;
    args.dweight = (float *)out + p->dx_bytes / sizeof(float);
    args.dbias = args.dweight + args.width;
    memset(args.dweight, 0, 2 * (size_t)args.width * sizeof(float));
    assert_status(ctx, foci_norm_backward(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = {{501, 3, 80}, {300, 1, 515}};
    for (int n = 0; n < 4; n++) {
        const int32_t *s = shapes[n / 2];
        const int64_t count = (int64_t)s[0] * s[1] * s[2];
        float *x = new_normals(2 * count, 2.0F, 5);
        const problem p = {.args = {.kind = (foci_norm_kind)(n % 2),
                                    .T = s[0],
                                    .H = s[1],
                                    .width = s[2],
                                    .x = x,
                                    .epsilon = 1e-5F,
                                    .dy = x + count},
                           .dx_bytes = (size_t)count * sizeof(float)};
        assert_same_bits("norm_backward", p.dx_bytes + 2 * (size_t)s[2] * sizeof(float), &p,
                         make_gradient);
        free(x);
    }
}

static focal_status call_backward(focal_ctx *ctx, const void *of)
{
    return foci_norm_backward(ctx, of);
}

/* A call without memory has written nothing: what it adds is there once, after the last. */
static void failing_memory(void **state)
{
    float x[16] = {1.0F, 2.0F}, dy[16] = {1.0F}, dx[16], dbias[8] = {0};
    const foci_norm_backward_args args = {
        .T = 2, .width = 8, .x = x, .epsilon = 1e-5F, .dy = dy, .dx = dx, .dbias = dbias};
    assert_true(fail_each_request(*state, &args, call_backward) >= 1);
    assert_true(dbias[0] == 1.0F);
}

static void assert_bad(focal_ctx *ctx, foci_norm_backward_args args, const char *text)
{
    assert_status(ctx, foci_norm_backward(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[64] = {0}, dy[64] = {0}, dx[64];
    const foci_norm_backward_args good = {.T = 2, .width = 8, .x = x, .dy = dy, .dx = dx};
    foci_norm_backward_args bad = good;
    assert_status(ctx, foci_norm_backward(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_norm_backward(NULL, &good), FOCAL_EINVAL);
    assert_status(ctx, foci_norm_backward(ctx, NULL), FOCAL_EINVAL);
    bad.dy = NULL;
    assert_bad(ctx, bad, "norm backward: x, dy and one of dx, dweight and dbias must be set");
    bad = good;
    bad.dx = NULL;
    assert_status(ctx, foci_norm_backward(ctx, &bad), FOCAL_EINVAL);
    bad = good;
    bad.width = 0;
    assert_bad(ctx, bad, "norm backward: 2 tokens of 0 rows of 0: each must be at least 1");
    bad = good;
    bad.kind = (foci_norm_kind)7;
    assert_bad(ctx, bad, "norm backward: there is no kind 7");
    bad = good;
    bad.epsilon = INFINITY;
    assert_bad(ctx, bad, "norm backward: epsilon is inf, it must be 0 or more");
    bad = good;
    bad.dy_stride = 7;
    assert_bad(ctx, bad, "norm backward: dy: a stride of 7 does not fit 2 rows of 8");
    bad = good;
    bad.dx = dy;
    bad.dx_stride = 9;
    assert_bad(ctx, bad, "norm backward: in place, out must be f32 with the stride 8 of its input");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_matches_finite_differences),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(many_rows, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(parts_of_the_result, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_rows, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(failing_memory, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("norm_backward", tests, NULL, NULL);
}
