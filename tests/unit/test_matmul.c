/* Every kernel of the product agrees with the double oracle: shapes that break tiles, every type of
 * weights, transposed ones and x, bias, adding, gaps between rows, weights at any address. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/matmul/matmul_kernels.h"
#include "support/matmul_cases.h"

enum { RANDOM_CASES = 300 };

static void run_kernels(focal_ctx *ctx, const matmul_spec *spec, uint64_t seed)
{
    matmul_case *c = matmul_case_new(spec, seed);
    assert_status(ctx, foci_matmul_check(ctx, &c->args), FOCAL_OK);
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        if (!kernel->can(ctx, &c->args)) continue;
        matmul_case_clear(c); /* an unwritten element shows */
        assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
        matmul_case_check(c, kernel->name);
        note_ran("matmul", kernel->name);
    }
    assert_non_null(foci_matmul_pick(ctx, &c->args));
    matmul_case_free(c);
}

/* All edges of the register tiles (6 x 16, 12 x 32), of the rows that count as few, of the blocks
 * of a sum and of the rows packed at a time. */
static void kernels_match_oracle_at_edges(void **state)
{
    for (int64_t M = 1; M <= FOCI_MATMUL_FEW + 2 * 12 + 1; M++) {
        if (M > 17 && M < FOCI_MATMUL_FEW - 2) continue;
        for (int x = FOCAL_F32; x <= FOCAL_BF16; x++) {
            const matmul_spec spec = {.M = M, .N = 67, .K = 100 + M, .x = x, .w = x};
            run_kernels(*state, &spec, (uint64_t)M);
        }
    }
    /* clang-format off */
    static const int64_t shapes[][3] = {
        {1, 1, 1}, {79, 1, 1}, {79, 1, 577}, {64, 1, 33}, {71, 31, 255}, {72, 32, 256},
        {73, 33, 257}, {65, 64, 512}, {66, 65, 513}, {11, 127, 1023}, {70, 129, 1537},
        {5, 257, 3000}, {12, 16, 2}, {90, 17, 3}, {1007, 33, 5}, {1008, 3, 31}, {1009, 65, 40},
        {2100, 2, 7}, {3, 1000, 64}};
    /* clang-format on */
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        for (int x = FOCAL_F32; x <= FOCAL_BF16; x++) {
            for (int w = FOCAL_F32; w <= FOCAL_BF16; w++) {
                matmul_spec spec = {.M = shapes[n][0], .N = shapes[n][1], .K = shapes[n][2]};
                spec.x = (focal_dtype)x;
                spec.w = (focal_dtype)w;
                run_kernels(*state, &spec, (uint64_t)n + 1);
                spec.is_transposed = true;
                run_kernels(*state, &spec, (uint64_t)n + 1);
                spec.x_is_transposed = true;
                run_kernels(*state, &spec, (uint64_t)n + 1);
            }
        }
    }
}

static void kernels_match_oracle_in_every_type(void **state)
{
    static const int64_t rows[] = {1, 3, 8, 64, 69};
    for (int w = FOCAL_F32; w <= FOCAL_IQ4_NL; w++) {
        for (size_t m = 0; m < FOCAL_COUNT(rows); m++) {
            for (int kind = 0; kind < 3; kind++) {
                const int64_t block = focal_dtype_block((focal_dtype)w);
                matmul_spec spec = {.M = rows[m], .N = 45, .K = block, .rounds = kind == 2};
                if (spec.rounds && block == 1) continue;
                spec.w = (focal_dtype)w;
                spec.x = spec.out = kind == 1 ? FOCAL_BF16 : FOCAL_F32;
                run_kernels(*state, &spec, (uint64_t)w + 1); /* one block */
                spec.K = 5 * block;
                spec.w_shift = 1;
                run_kernels(*state, &spec, (uint64_t)w + 2);
                if (spec.rounds) continue;
                spec.is_transposed = true; /* whose columns are expanded in pieces */
                spec.N = 2 * block + 3;
                spec.K = 37;
                run_kernels(*state, &spec, (uint64_t)w + 3);
            }
        }
    }
}

static void kernels_match_oracle_on_mixtures(void **state)
{
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        const matmul_spec spec = matmul_spec_random(seed);
        run_kernels(*state, &spec, seed);
    }
}

/* bfloat16 times bfloat16 loses nothing but in the sums: as good as float32 on the same numbers. */
static void bfloat16_is_float32_of_rounded_inputs(void **state)
{
    focal_ctx *ctx = *state;
    const matmul_spec spec = {.M = 80, .N = 90, .K = 700, .x = FOCAL_BF16, .w = FOCAL_BF16};
    matmul_case *c = matmul_case_new(&spec, 3);
    float *x = new_array((size_t)(80 * 700), sizeof *x),
          *w = new_array((size_t)(90 * 700), sizeof *w);
    float *out = new_array((size_t)c->count, sizeof *out);
    for (int64_t n = 0; n < (int64_t)80 * 700; n++) x[n] = element_get(c->args.x, n, FOCAL_BF16);
    for (int64_t n = 0; n < (int64_t)90 * 700; n++) w[n] = element_get(c->args.w, n, FOCAL_BF16);
    foci_matmul_args wide = c->args;
    wide.x_dtype = wide.w_dtype = FOCAL_F32;
    wide.x = x;
    wide.w = w;
    wide.out = out;
    assert_status(ctx, foci_matmul(ctx, &wide), FOCAL_OK);
    matmul_case_clear(c);
    assert_status(ctx, foci_matmul(ctx, &c->args), FOCAL_OK);
    const error_bound bound = {.name = "bf16",
                               .plain = out,
                               .exact = c->exact,
                               .magnitude = c->magnitude,
                               .count = c->count,
                               .factor = 2.0};
    assert_within(&bound, c->out);
    free(out);
    free(w);
    free(x);
    matmul_case_free(c);
}

/* A row of out, as bytes, when the call has rows [row, row + M) of the case. */
static void run_rows(focal_ctx *ctx, const foci_matmul_kernel *kernel, matmul_case *c, int64_t row,
                     int64_t M)
{
    foci_matmul_args a = c->args;
    a.M = M;
    a.x = (const char *)a.x + (size_t)(row * a.x_stride) * focal_dtype_bytes(a.x_dtype);
    a.out = (char *)a.out + (size_t)(row * a.out_stride) * focal_dtype_bytes(a.out_dtype);
    assert_status(ctx, kernel->run(ctx, &a), FOCAL_OK);
}

/* Up to FOCI_MATMUL_FEW rows, a row has the same bits alone and in company, and every number of
 * them gets the same kernel. */
static void few_rows_are_alone(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t counts[] = {2, 3, 5, 8, 31, FOCI_MATMUL_FEW - 1, FOCI_MATMUL_FEW};
    static const focal_dtype types[][2] = {
        {FOCAL_F32, FOCAL_F32},    {FOCAL_F32, FOCAL_BF16},  {FOCAL_F32, FOCAL_Q4_1},
        {FOCAL_BF16, FOCAL_F32},   {FOCAL_BF16, FOCAL_BF16}, {FOCAL_BF16, FOCAL_Q4_1},
        {FOCAL_Q8_0, FOCAL_Q4_1},  {FOCAL_Q8_0, FOCAL_Q8_0}, {FOCAL_Q8_0, FOCAL_Q4_K},
        {FOCAL_Q8_0, FOCAL_Q6_K},  {FOCAL_Q8_0, FOCAL_Q5_0}, {FOCAL_Q8_0, FOCAL_Q5_1},
        {FOCAL_Q8_0, FOCAL_IQ4_NL}};
    for (size_t pair = 0; pair < FOCAL_COUNT(types); pair++) {
        matmul_spec spec = {.M = FOCI_MATMUL_FEW, .N = 43, .K = 300};
        spec.rounds = types[pair][0] == FOCAL_Q8_0; /* stands for it */
        spec.x = spec.rounds ? FOCAL_F32 : types[pair][0];
        spec.w = types[pair][1];
        matmul_case *c = matmul_case_new(&spec, 7);
        char *alone = new_array(c->out_bytes, 1);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
            if (!kernel->can(ctx, &c->args)) continue;
            for (int64_t m = 0; m < spec.M; m++) run_rows(ctx, kernel, c, m, 1);
            memcpy(alone, c->out, c->out_bytes);
            for (size_t i = 0; i < FOCAL_COUNT(counts); i++) {
                const int64_t M = counts[i];
                matmul_case_clear(c);
                run_rows(ctx, kernel, c, 0, M);
                run_rows(ctx, kernel, c, M - 1, spec.M - M + 1);
                assert_memory_equal(alone, c->out, c->out_bytes);
                foci_matmul_args few = c->args;
                few.M = M;
                assert_ptr_equal(foci_matmul_pick(ctx, &few), foci_matmul_pick(ctx, &c->args));
            }
        }
        free(alone);
        matmul_case_free(c);
    }
}

/* Products of one x that may be rounded have the same bits together as one by one, whatever their
 * types. */
static void several_are_one_by_one(void **state)
{
    focal_ctx *ctx = *state;
    enum { M = 3, K = 512, COUNT = 3 };
    static const focal_dtype mixtures[][COUNT] = {{FOCAL_Q4_1, FOCAL_Q6_K, FOCAL_Q4_1},
                                                  {FOCAL_Q5_0, FOCAL_Q5_1, FOCAL_Q5_0}};
    static const int64_t widths[] = {70, 3, 33};
    for (size_t n = 0; n < 2 * foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n / 2];
        const focal_dtype *types = mixtures[n % 2];
        matmul_case *c[COUNT];
        foci_matmul_args args[COUNT];
        for (int i = 0; i < COUNT; i++) {
            matmul_spec spec = {.M = M, .N = widths[i], .K = K, .has_bias = i == 1};
            spec.rounds = true;
            spec.w = types[i];
            c[i] = matmul_case_new(&spec, 21);
            args[i] = c[i]->args;
            args[i].x = args[0].x;
        }
        if (kernel->run_bytes && kernel->can(ctx, args)) {
            for (int i = 0; i < COUNT; i++) {
                matmul_case_clear(c[i]);
                assert_status(ctx, kernel->run(ctx, &args[i]), FOCAL_OK);
                for (int64_t at = 0; at < c[i]->count; at++)
                    c[i]->got[at] = element_get(c[i]->out, at, FOCAL_F32);
                matmul_case_clear(c[i]);
            }
            assert_status(ctx, kernel->run_bytes(ctx, args, COUNT), FOCAL_OK);
            for (int i = 0; i < COUNT; i++)
                assert_memory_equal(c[i]->got, c[i]->out, c[i]->out_bytes);
        }
        for (int i = 0; i < COUNT; i++) matmul_case_clear(c[i]);
        assert_status(ctx, foci_matmul_several(ctx, args, COUNT), FOCAL_OK);
        matmul_case_check(c[0], "several"); /* the one whose own x it is */
        for (int i = 0; i < COUNT; i++) matmul_case_free(c[i]);
    }
}

/* Whatever x is, rounding moves no product by more than half a step: the largest of 32 elements is
 * 127 * 256 steps. What is not finite makes its row NaN, and no other. */
static void check_rounding(focal_ctx *ctx, focal_dtype type)
{
    enum { M = 3, N = 20, K = 544 };
    const matmul_spec spec = {.M = M, .N = N, .K = K, .w = type};
    matmul_case *c = matmul_case_new(&spec, 8);
    c->args.rounds_x = true;
    float *x = c->x;
    for (int64_t k = 0; k < 32; k++) x[k] = ldexpf(x[k], -120); /* too small for a step */
    x[K + 7] = 1000.0F;                                         /* its neighbours lose most */
    const double *w = c->numbers + (int64_t)M * K;
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        if (!kernel->can(ctx, &c->args)) continue;
        assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
        for (int64_t i = 0; i < (int64_t)M * N; i++) {
            double exact = 0.0, allowed = 0.0;
            for (int64_t k = 0; k < K; k += 32) {
                double most = 0.0, sum = 0.0;
                for (int64_t e = k; e < k + 32; e++) {
                    const double value = (double)x[i / N * K + e], weight = w[i % N * K + e];
                    exact += value * weight;
                    most = fmax(most, fabs(value));
                    sum += fabs(weight);
                }
                allowed += (0.5 * most / (127 * 256) + 1e-6 * most) * sum + 1e-30;
            }
            const double got = (double)element_get(c->out, i, FOCAL_F32);
            if (!(fabs(got - exact) <= allowed))
                fail_msg("%s: %g, exact %g, allowed %g", kernel->name, got, exact, allowed);
        }
        x[K] = INFINITY;
        assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
        for (int64_t i = 0; i < (int64_t)M * N; i++)
            assert_int_equal(isfinite(element_get(c->out, i, FOCAL_F32)) != 0, i / N != 1);
        x[K] = 0.5F;
    }
    matmul_case_free(c);
}

static void rounding_is_bounded(void **state)
{
    static const focal_dtype types[] = {FOCAL_Q4_1, FOCAL_Q5_0, FOCAL_Q5_1};
    for (size_t n = 0; n < FOCAL_COUNT(types); n++) check_rounding(*state, types[n]);
}

/* NaN in all other rows of x leaves a row's bits alone. */
static void rows_do_not_see_each_other(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t rows[] = {2, 8, 64, 75};
    for (size_t m = 0; m < FOCAL_COUNT(rows); m++) {
        for (int x = FOCAL_F32; x <= FOCAL_BF16; x++) {
            const matmul_spec spec = {.M = rows[m], .N = 50, .K = 90, .x = x, .w = x, .out = x};
            matmul_case *c = matmul_case_new(&spec, 5);
            const size_t row = (size_t)c->args.out_stride * focal_dtype_bytes(spec.out);
            for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
                const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
                if (!kernel->can(ctx, &c->args)) continue;
                matmul_case *poisoned = matmul_case_new(&spec, 5);
                assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
                const int64_t kept = spec.M / 2;
                for (int64_t i = 0; i < spec.M * 90; i++)
                    if (i / 90 != kept) element_set(poisoned->x, i, spec.x, NAN);
                assert_status(ctx, kernel->run(ctx, &poisoned->args), FOCAL_OK);
                assert_memory_equal((char *)c->out + (size_t)kept * row,
                                    (char *)poisoned->out + (size_t)kept * row, row);
                matmul_case_free(poisoned);
            }
            matmul_case_free(c);
        }
    }
}

/* Infinities and NaN in x and w come out where the definition has them. */
static void odd_numbers_pass(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t rows[] = {1, 5, 68};
    for (size_t m = 0; m < FOCAL_COUNT(rows); m++) {
        for (int x = FOCAL_F32; x <= FOCAL_BF16; x++) {
            const int64_t N = 40, K = 70;
            const matmul_spec spec = {.M = rows[m], .N = N, .K = K, .x = x, .w = x};
            matmul_case *c = matmul_case_new(&spec, 11);
            double *w = c->numbers + spec.M * K;
            element_set(c->w, 3 * K + 69, spec.w, INFINITY);
            element_set(c->w, 7 * K, spec.w, NAN);
            element_set(c->w, 39 * K + 64, spec.w, -INFINITY);
            for (int64_t n = 0; n < N * K; n++) w[n] = (double)element_get(c->w, n, spec.w);
            element_set(c->x, 64, spec.x, 0.0F); /* meets an infinity */
            c->numbers[64] = 0.0;
            matmul_case_solve(c);
            for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
                const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
                if (!kernel->can(ctx, &c->args)) continue;
                matmul_case_clear(c);
                assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
                matmul_case_check(c, kernel->name);
            }
            matmul_case_free(c);
        }
    }
}

/* A pinned kernel runs or says that it cannot. */
static void pinned_kernels_run(void **state)
{
    (void)state;
    const matmul_spec spec = {.M = 80, .N = 40, .K = 64, .w = FOCAL_Q8_0};
    matmul_case *c = matmul_case_new(&spec, 2);
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const focal_ctx_options options = {
            .threads = 2, .kernel = foci_matmul_kernels[n]->name, .allocator = memory_allocator()};
        focal_ctx *ctx = NULL;
        assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
        const bool can = foci_matmul_kernels[n]->can(ctx, &c->args);
        matmul_case_clear(c);
        assert_status(ctx, foci_matmul(ctx, &c->args), can ? FOCAL_OK : FOCAL_EUNSUPPORTED);
        if (can) matmul_case_check(c, foci_matmul_kernels[n]->name);
        focal_ctx_close(ctx);
    }
    matmul_case_free(c);
}

/* Machines that lack instructions get kernels that do without. */
static void lesser_machines_have_kernels(void **state)
{
    focal_ctx *ctx = *state;
    const unsigned sets[] = {0, FOCI_AVX2, FOCI_AVX2 | FOCI_AVX512};
    for (size_t n = 0; n < FOCAL_COUNT(sets); n++) {
        foci_ctx_mask_features(ctx, sets[n]);
        for (int kind = 0; kind < 3; kind++) {
            matmul_spec spec = {.M = 80, .N = 40, .K = 64, .w = FOCAL_Q8_0, .rounds = kind == 2};
            spec.x = spec.out = kind == 1 ? FOCAL_BF16 : FOCAL_F32;
            matmul_case *c = matmul_case_new(&spec, 2);
            matmul_case_clear(c);
            assert_status(ctx, foci_matmul(ctx, &c->args), FOCAL_OK);
            matmul_case_check(c, "masked");
            matmul_case_free(c);
        }
    }
}

static void required_kernels_ran(void **state)
{
    assert_ran("matmul", "ref");
    /* Not every build has oneDNN; one that has it must have run it. */
    const matmul_spec spec = {.M = 512, .N = 1536, .K = 64};
    matmul_case *c = matmul_case_new(&spec, 1);
    if (foci_matmul_onednn.can(*state, &c->args)) assert_ran("matmul", "onednn");
    matmul_case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle_at_edges, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_in_every_type, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_mixtures, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bfloat16_is_float32_of_rounded_inputs, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(few_rows_are_alone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(several_are_one_by_one, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rounding_is_bounded, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_do_not_see_each_other, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_numbers_pass, open_ctx, close_ctx),
        cmocka_unit_test(pinned_kernels_run),
        cmocka_unit_test_setup_teardown(lesser_machines_have_kernels, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(required_kernels_ran, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul", tests, NULL, NULL);
}
