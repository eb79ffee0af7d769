/* Gradients of the product: every kernel against the double oracle, finite differences of
 * foci_matmul() itself, PyTorch's gradients, NaN, threads, memory that runs out. A gradient is a
 * product too, so its cases are those of products, with the dimensions in other places. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/random.h"
#include "ops/matmul/matmul_grads.h"
#include "ops/matmul/matmul_kernels.h"
#include "support/golden.h"
#include "support/matmul_cases.h"

enum { RANDOM_CASES = 60, MANY = 100 };

static focal_ctx *pinned_ctx(const char *kernel, int32_t threads)
{
    const focal_ctx_options options = {
        .threads = threads, .kernel = kernel, .allocator = memory_allocator()};
    focal_ctx *ctx = NULL;
    assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
    return ctx;
}

/* dx (M,K) = dy (M,N) w: a product of K outputs that sums over N. */
static foci_matmul_dx_args dx_args(const matmul_case *c)
{
    const foci_matmul_args *a = &c->args;
    return (foci_matmul_dx_args){.M = a->M,
                                 .N = a->K,
                                 .K = a->N,
                                 .dy = a->x,
                                 .dy_dtype = a->x_dtype,
                                 .dy_stride = a->x_stride,
                                 .w = a->w,
                                 .w_dtype = a->w_dtype,
                                 .w_is_transposed = !a->w_is_transposed,
                                 .w_is_interleaved = a->w_is_interleaved,
                                 .adds = a->adds,
                                 .dx = a->out,
                                 .dx_dtype = a->out_dtype,
                                 .dx_stride = a->out_stride};
}

/* dw (N,K) = dy^T x: a product of N rows and K outputs that sums over M; or of K rows. */
static foci_matmul_dw_args dw_args(const matmul_case *c, bool is_transposed)
{
    const foci_matmul_args *a = &c->args;
    const int64_t w_stride = a->w_stride > 0 ? a->w_stride : a->N;
    return (foci_matmul_dw_args){.M = a->K,
                                 .N = is_transposed ? a->N : a->M,
                                 .K = is_transposed ? a->M : a->N,
                                 .dtype = a->x_dtype,
                                 .dy = is_transposed ? a->w : a->x,
                                 .dy_stride = is_transposed ? w_stride : a->x_stride,
                                 .x = is_transposed ? a->x : a->w,
                                 .x_stride = is_transposed ? a->x_stride : w_stride,
                                 .adds = a->adds,
                                 .dw = a->out,
                                 .dw_is_transposed = is_transposed};
}

static matmul_spec dx_spec(int64_t M, int64_t N, int64_t K, focal_dtype dy, focal_dtype w,
                           bool w_is_transposed)
{
    return (matmul_spec){
        .M = M, .N = K, .K = N, .x = dy, .w = w, .is_transposed = !w_is_transposed};
}

static matmul_spec dw_spec(int64_t M, int64_t N, int64_t K, focal_dtype dtype)
{
    return (matmul_spec){.M = N,
                         .N = K,
                         .K = M,
                         .x = dtype,
                         .w = dtype,
                         .x_is_transposed = true,
                         .is_transposed = true};
}

typedef focal_status (*run_case)(focal_ctx *ctx, const matmul_case *c);

static focal_status run_dx(focal_ctx *ctx, const matmul_case *c)
{
    const foci_matmul_dx_args args = dx_args(c);
    return foci_matmul_dx(ctx, &args);
}

static focal_status run_dw(focal_ctx *ctx, const matmul_case *c)
{
    const foci_matmul_dw_args args = dw_args(c, false);
    return foci_matmul_dw(ctx, &args);
}

static focal_status run_dw_transposed(focal_ctx *ctx, const matmul_case *c)
{
    const foci_matmul_dw_args args = dw_args(c, true);
    return foci_matmul_dw(ctx, &args);
}

/* Contexts that are pinned to each kernel of the table, made once. */
static focal_ctx *pinned[8];

static int open_pinned(void **state)
{
    assert_true(foci_matmul_kernel_count <= FOCAL_COUNT(pinned));
    for (size_t n = 0; n < foci_matmul_kernel_count; n++)
        pinned[n] = pinned_ctx(foci_matmul_kernels[n]->name, 2);
    return open_ctx(state);
}

static int close_pinned(void **state)
{
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) focal_ctx_close(pinned[n]);
    return close_ctx(state);
}

static void run_kernels(run_case run, const matmul_spec *spec, uint64_t seed, const char *name)
{
    matmul_case *c = matmul_case_new(spec, seed);
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        matmul_case_clear(c); /* an unwritten element shows */
        const focal_status status = run(pinned[n], c);
        if (status == FOCAL_EUNSUPPORTED) continue;
        assert_status(pinned[n], status, FOCAL_OK);
        matmul_case_check(c, kernel->name);
        note_ran(name, kernel->name);
    }
    matmul_case_free(c);
}

/* Edges of tiles, of strips, of the blocks of rows, and of the pieces of long sums. */
/* clang-format off */
static const int64_t shapes[][3] = {
    /* M, N, K */
    {1, 1, 1}, {1, 70, 33}, {2, 31, 65}, {3, 1, 100}, {5, 257, 1}, {33, 12, 32}, {64, 13, 33},
    {65, 47, 31}, {66, 48, 64}, {71, 49, 129}, {90, 97, 17}, {127, 5, 40}, {255, 90, 96},
    {40, 1009, 33}, {37, 33, 1100}, {1024, 16, 20}, {1025, 70, 18}, {2048, 7, 33}, {2100, 20, 35},
    {5000, 3, 5}, {67, 1025, 35}, {70, 2100, 17}, {9, 4100, 7}};
/* clang-format on */

static void dx_matches_oracle(void **state)
{
    (void)state;
    for (size_t s = 0; s < FOCAL_COUNT(shapes); s++) {
        for (int kind = 0; kind < 8; kind++) {
            const focal_dtype dtype = kind & 1 ? FOCAL_BF16 : FOCAL_F32;
            matmul_spec spec =
                dx_spec(shapes[s][0], shapes[s][1], shapes[s][2], dtype, dtype, kind & 2);
            spec.adds = kind & 4;
            spec.out = kind == 3 ? FOCAL_BF16 : FOCAL_F32;
            spec.x_gap = kind;
            spec.out_gap = kind & 3;
            run_kernels(run_dx, &spec, (uint64_t)s + 1, "matmul_dx");
        }
    }
}

static void dx_takes_every_type(void **state)
{
    (void)state;
    for (int w = FOCAL_F32; w <= FOCAL_IQ4_NL; w++) {
        const int64_t block = focal_dtype_block((focal_dtype)w);
        for (int kind = 0; kind < 4; kind++) {
            const focal_dtype dy = kind & 1 ? FOCAL_BF16 : FOCAL_F32;
            const int64_t M = kind & 2 ? 75 : 6;
            matmul_spec spec = dx_spec(M, 45, 3 * block, dy, (focal_dtype)w, false);
            spec.w_shift = 1;
            run_kernels(run_dx, &spec, (uint64_t)w + 1, "matmul_dx");
            spec = dx_spec(M, 2 * block, 39, dy, (focal_dtype)w, true);
            run_kernels(run_dx, &spec, (uint64_t)w + 2, "matmul_dx");
        }
        /* Pieces of a long sum begin at whole blocks. */
        const matmul_spec spec = dx_spec(3, 2048 + block, 5, FOCAL_F32, (focal_dtype)w, true);
        run_kernels(run_dx, &spec, (uint64_t)w + 3, "matmul_dx");
    }
}

static void dw_matches_oracle(void **state)
{
    (void)state;
    for (size_t s = 0; s < FOCAL_COUNT(shapes); s++) {
        for (int kind = 0; kind < 8; kind++) {
            const focal_dtype dtype = kind & 1 ? FOCAL_BF16 : FOCAL_F32;
            matmul_spec spec = dw_spec(shapes[s][0], shapes[s][1], shapes[s][2], dtype);
            spec.adds = kind & 4;
            spec.x_gap = kind;
            spec.w_gap = kind & 3;
            run_kernels(kind & 2 ? run_dw_transposed : run_dw, &spec, (uint64_t)s + 1, "matmul_dw");
        }
    }
}

static void mixtures_match_oracle(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        matmul_spec spec = matmul_spec_random(seed);
        spec.rounds = spec.has_bias = spec.x_is_transposed = false;
        spec.w_gap = 0;
        run_kernels(run_dx, &spec, seed, "matmul_dx");
        matmul_spec dw = dw_spec(spec.M, spec.N, spec.K, spec.x);
        dw.adds = spec.adds;
        dw.x_gap = spec.x_gap;
        dw.w_gap = spec.out_gap;
        run_kernels(seed % 2 ? run_dw : run_dw_transposed, &dw, seed, "matmul_dw");
    }
}

/* The sum of dy's rows, beside the product. */
static void dbias_matches_oracle(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t sizes[][2] = {{1, 1}, {64, 128}, {65, 129}, {200, 127}, {1000, 300}};
    for (size_t s = 0; s < FOCAL_COUNT(sizes); s++) {
        for (int kind = 0; kind < 8; kind++) {
            const int64_t M = sizes[s][0], N = sizes[s][1];
            const bool is_transposed = kind & 4;
            const focal_dtype dtype = kind & 1 ? FOCAL_BF16 : FOCAL_F32;
            matmul_spec spec = dw_spec(M, is_transposed ? 9 : N, is_transposed ? N : 9, dtype);
            spec.adds = kind & 2;
            spec.x_gap = 3;
            matmul_case *c = matmul_case_new(&spec, (uint64_t)s + 1);
            foci_matmul_dw_args args = dw_args(c, is_transposed);
            float *dbias = new_array((size_t)N + 1, sizeof *dbias),
                  *plain = new_array((size_t)N, 4);
            double *exact = new_array((size_t)N, 8), *magnitude = new_array((size_t)N, 8);
            for (int64_t n = 0; n < N; n++) {
                dbias[n] = spec.adds ? (float)n - 3.5F : NAN;
                exact[n] = spec.adds ? (double)dbias[n] : 0.0;
                plain[n] = (float)exact[n];
                magnitude[n] = fabs(exact[n]);
                for (int64_t m = 0; m < M; m++) {
                    const float value = element_get(args.dy, m * args.dy_stride + n, dtype);
                    exact[n] += (double)value;
                    plain[n] += value;
                    magnitude[n] += fabs((double)value);
                }
            }
            dbias[N] = 77.0F;
            args.dbias = dbias;
            matmul_case_clear(c);
            assert_status(ctx, foci_matmul_dw(ctx, &args), FOCAL_OK);
            matmul_case_check(c, "with dbias");
            const error_bound bound = {.name = "dbias",
                                       .plain = plain,
                                       .exact = exact,
                                       .magnitude = magnitude,
                                       .count = N,
                                       .factor = 2.0};
            assert_within(&bound, dbias);
            assert_true(dbias[N] == 77.0F);
            free(magnitude);
            free(exact);
            free(plain);
            free(dbias);
            matmul_case_free(c);
        }
    }
}

/* A small product of whole numbers, whose sums float32 holds exactly. */
typedef struct whole {
    int64_t M, N, K;
    float x[70 * 40], w[35 * 40], bias[35], dy[70 * 35], y[70 * 35];
    bool w_is_transposed;
} whole;

/* sum of dy y, of foci_matmul()'s y. */
static double loss(focal_ctx *ctx, whole *p)
{
    const foci_matmul_args a = {.M = p->M,
                                .N = p->N,
                                .K = p->K,
                                .x = p->x,
                                .x_stride = p->K,
                                .w = p->w,
                                .w_is_transposed = p->w_is_transposed,
                                .bias = p->bias,
                                .out = p->y,
                                .out_stride = p->N};
    assert_status(ctx, foci_matmul(ctx, &a), FOCAL_OK);
    double sum = 0.0;
    for (int64_t n = 0; n < p->M * p->N; n++) sum += (double)p->dy[n] * (double)p->y[n];
    return sum;
}

/* got[n] must be the central difference of the loss in at[n]: exactly, for the loss is linear. */
static void check_differences(focal_ctx *ctx, whole *p, float *at, const float *got, int64_t count,
                              const char *name)
{
    for (int64_t n = 0; n < count; n += 1 + count / 50) {
        const float kept = at[n];
        at[n] = kept + 1.0F;
        const double above = loss(ctx, p);
        at[n] = kept - 1.0F;
        const double below = loss(ctx, p);
        at[n] = kept;
        if ((double)got[n] != (above - below) / 2.0)
            fail_msg("%s %lld: %g, differences give %g", name, (long long)n, (double)got[n],
                     (above - below) / 2.0);
    }
}

static void fill_whole(float *to, size_t count, uint64_t stream)
{
    for (size_t n = 0; n < count; n++) to[n] = (float)foci_random_below(4, stream, n, 15) - 7.0F;
}

static void gradients_are_differences(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 35, 8}, {70, 33, 40}};
    whole *p = new_array(1, sizeof *p);
    float dx[70 * 40], dw[35 * 40], dbias[35];
    for (size_t s = 0; s < 2 * FOCAL_COUNT(sizes); s++) {
        p->M = sizes[s / 2][0];
        p->N = sizes[s / 2][1];
        p->K = sizes[s / 2][2];
        p->w_is_transposed = s % 2;
        fill_whole(p->x, FOCAL_COUNT(p->x), 1);
        fill_whole(p->w, FOCAL_COUNT(p->w), 2);
        fill_whole(p->bias, FOCAL_COUNT(p->bias), 3);
        fill_whole(p->dy, FOCAL_COUNT(p->dy), 4);
        const foci_matmul_dx_args x_args = {.M = p->M,
                                            .N = p->N,
                                            .K = p->K,
                                            .dy = p->dy,
                                            .dy_stride = p->N,
                                            .w = p->w,
                                            .w_is_transposed = p->w_is_transposed,
                                            .dx = dx,
                                            .dx_stride = p->K};
        const foci_matmul_dw_args w_args = {.M = p->M,
                                            .N = p->N,
                                            .K = p->K,
                                            .dy = p->dy,
                                            .dy_stride = p->N,
                                            .x = p->x,
                                            .x_stride = p->K,
                                            .dw = dw,
                                            .dw_is_transposed = p->w_is_transposed,
                                            .dbias = dbias};
        assert_status(ctx, foci_matmul_dx(ctx, &x_args), FOCAL_OK);
        assert_status(ctx, foci_matmul_dw(ctx, &w_args), FOCAL_OK);
        check_differences(ctx, p, p->x, dx, p->M * p->K, "dx");
        check_differences(ctx, p, p->w, dw, p->N * p->K, "dw");
        check_differences(ctx, p, p->bias, dbias, p->N, "dbias");
    }
    free(p);
}

static float *golden_floats(const golden_case *c, const char *name, int64_t count)
{
    const double *from = golden_get(c, name, count);
    assert_non_null(from);
    float *to = new_array((size_t)count, sizeof *to);
    for (int64_t n = 0; n < count; n++) to[n] = (float)from[n];
    return to;
}

static void check_golden(const golden_case *c, const char *name, const float *got, int64_t count)
{
    const double *exact = golden_get(c, name, count);
    double *wide = new_array((size_t)count, sizeof *wide);
    for (int64_t n = 0; n < count; n++) wide[n] = (double)got[n];
    assert_doubles_within(name, wide, exact, count, 1e-6);
    free(wide);
}

static void gradients_are_pytorchs(void **state)
{
    focal_ctx *ctx = *state;
    golden *g = golden_open("matmul_grads");
    assert_true(g->case_count > 0);
    for (int n = 0; n < g->case_count; n++) {
        const golden_case *c = &g->cases[n];
        const int64_t M = (int64_t)c->parameters[0], N = (int64_t)c->parameters[1],
                      K = (int64_t)c->parameters[2];
        const bool is_transposed = c->parameters[3] != 0.0;
        float *x = golden_floats(c, "x", M * K), *w = golden_floats(c, "w", N * K);
        float *dy = golden_floats(c, "dy", M * N), *dx = new_array((size_t)(M * K), sizeof *dx);
        float *dw = new_array((size_t)(N * K), sizeof *dw), *dbias = new_array((size_t)N, 4);
        const foci_matmul_dx_args x_args = {.M = M,
                                            .N = N,
                                            .K = K,
                                            .dy = dy,
                                            .dy_stride = N,
                                            .w = w,
                                            .w_is_transposed = is_transposed,
                                            .dx = dx,
                                            .dx_stride = K};
        const foci_matmul_dw_args w_args = {.M = M,
                                            .N = N,
                                            .K = K,
                                            .dy = dy,
                                            .dy_stride = N,
                                            .x = x,
                                            .x_stride = K,
                                            .dw = dw,
                                            .dw_is_transposed = is_transposed,
                                            .dbias = dbias};
        assert_status(ctx, foci_matmul_dx(ctx, &x_args), FOCAL_OK);
        assert_status(ctx, foci_matmul_dw(ctx, &w_args), FOCAL_OK);
        check_golden(c, "dx", dx, M * K);
        check_golden(c, "dw", dw, N * K);
        check_golden(c, "dbias", dbias, N);
        free(dbias);
        free(dw);
        free(dx);
        free(dy);
        free(w);
        free(x);
    }
    golden_close(g);
}

/* NaN of one element of dy, w or x comes out in its row or column, and nowhere else. */
static void nan_stays_where_it_belongs(void **state)
{
    (void)state;
    enum { M = 73, N = 70, K = 66, AT_M = 71, AT_N = 5, AT_K = 65 };
    for (int kind = 0; kind < 2; kind++) {
        const focal_dtype dtype = kind ? FOCAL_BF16 : FOCAL_F32;
        const matmul_spec for_dx = dx_spec(M, N, K, dtype, dtype, false);
        const matmul_spec for_dw = dw_spec(M, N, K, dtype);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            for (int other = 0; other < 2; other++) {
                matmul_case *x = matmul_case_new(&for_dx, 3), *w = matmul_case_new(&for_dw, 3);
                if (other) {
                    element_set(x->w, AT_N * K + AT_K, dtype, NAN);
                    element_set(w->w, AT_M * K + AT_K, dtype, NAN);
                } else {
                    element_set(x->x, AT_M * N + AT_N, dtype, NAN);
                    element_set(w->x, AT_M * N + AT_N, dtype, NAN);
                }
                if (run_dx(pinned[n], x) == FOCAL_OK)
                    for (int64_t i = 0; i < (int64_t)M * K; i++)
                        assert_int_equal(isnan(element_get(x->out, i, FOCAL_F32)) != 0,
                                         other ? i % K == AT_K : i / K == AT_M);
                if (run_dw(pinned[n], w) == FOCAL_OK)
                    for (int64_t i = 0; i < (int64_t)N * K; i++)
                        assert_int_equal(isnan(element_get(w->out, i, FOCAL_F32)) != 0,
                                         other ? i % K == AT_K : i / K == AT_N);
                matmul_case_free(w);
                matmul_case_free(x);
            }
        }
    }
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    static const int32_t counts[] = {1, 2, 3, 7};
    for (int kind = 0; kind < 6; kind++) {
        const focal_dtype dtype = kind & 1 ? FOCAL_BF16 : FOCAL_F32;
        const run_case run = kind < 2 ? run_dx : kind < 4 ? run_dw : run_dw_transposed;
        const matmul_spec spec =
            kind < 2 ? dx_spec(90, 1100, 200, dtype, dtype, false) : dw_spec(1100, 90, 200, dtype);
        matmul_case *c = matmul_case_new(&spec, 1);
        char *one = new_array(c->out_bytes, 1);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            for (size_t t = 0; t < FOCAL_COUNT(counts); t++) {
                focal_ctx *ctx = pinned_ctx(foci_matmul_kernels[n]->name, counts[t]);
                matmul_case_clear(c);
                if (run(ctx, c) == FOCAL_OK && t > 0 && memcmp(one, c->out, c->out_bytes) != 0)
                    fail_msg("%s gives other bits with %d threads: %s",
                             foci_matmul_kernels[n]->name, counts[t], matmul_case_text(c));
                memcpy(one, c->out, c->out_bytes);
                focal_ctx_close(ctx);
            }
        }
        free(one);
        matmul_case_free(c);
    }
}

/* The n-th request for memory fails, for every n until the call succeeds. */
static void memory_may_run_out_anywhere(void **state)
{
    (void)state;
    for (int kind = 0; kind < 6; kind++) {
        const focal_dtype dtype = kind & 1 ? FOCAL_BF16 : FOCAL_F32;
        const run_case run = kind < 4 ? run_dx : run_dw;
        const matmul_spec spec = kind < 2   ? dx_spec(80, 1100, 96, dtype, FOCAL_Q8_0, false)
                                 : kind < 4 ? dx_spec(3, 70, 96, dtype, FOCAL_F16, true)
                                            : dw_spec(1100, 80, 96, dtype);
        matmul_case *c = matmul_case_new(&spec, 1);
        for (size_t k = 0; k < foci_matmul_kernel_count; k++) {
            focal_ctx *ctx = pinned[k];
            for (int64_t n = 1;; n++) {
                assert_true(n < MANY);
                focal_ctx_trim(ctx);
                const int64_t live = memory_live_blocks();
                matmul_case_clear(c);
                memory_fail(n, true);
                const focal_status status = run(ctx, c);
                memory_fail(0, false);
                focal_ctx_trim(ctx);
                assert_int_equal(memory_live_blocks(), live);
                if (status == FOCAL_EUNSUPPORTED) break;
                if (status == FOCAL_OK) {
                    matmul_case_check(c, foci_matmul_kernels[k]->name);
                    break;
                }
                assert_status(ctx, status, FOCAL_ENOMEM);
            }
        }
        matmul_case_free(c);
    }
}

/* Scratch does not grow with the rows of dy and x. */
static void scratch_is_bounded(void **state)
{
    focal_ctx *ctx = *state;
    size_t bytes[2];
    for (int half = 0; half < 2; half++) {
        const matmul_spec spec = dw_spec(8192 >> half, 40, 33, FOCAL_BF16);
        matmul_case *c = matmul_case_new(&spec, 1);
        focal_ctx_trim(ctx);
        focal_ctx_memory_reset(ctx);
        assert_status(ctx, run_dw(ctx, c), FOCAL_OK);
        bytes[half] = focal_ctx_memory(ctx).peak_bytes;
        matmul_case_free(c);
    }
    assert_int_equal(bytes[0], bytes[1]);
}

static void required_kernels_ran(void **state)
{
    (void)state;
    assert_ran("matmul_dx", "ref");
    assert_ran("matmul_dw", "ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(gradients_are_differences, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gradients_are_pytorchs, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(dx_matches_oracle, open_pinned, close_pinned),
        cmocka_unit_test_setup_teardown(dx_takes_every_type, open_pinned, close_pinned),
        cmocka_unit_test_setup_teardown(dw_matches_oracle, open_pinned, close_pinned),
        cmocka_unit_test_setup_teardown(mixtures_match_oracle, open_pinned, close_pinned),
        cmocka_unit_test_setup_teardown(dbias_matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nan_stays_where_it_belongs, open_pinned, close_pinned),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, open_pinned, close_pinned),
        cmocka_unit_test_setup_teardown(scratch_is_bounded, open_ctx, close_ctx),
        cmocka_unit_test(required_kernels_ran),
    };
    return cmocka_run_group_tests_name("matmul_grads", tests, NULL, NULL);
}
