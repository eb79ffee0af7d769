/* Many rows of bfloat16 that may be rounded, against quantised weights: where a kernel takes them
 * as whole numbers of 8 bits, its products are those of the definition, however wide the sums grow,
 * and not a byte outside x and the weights is read. */
#include "support/check.h"

#include <math.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/random.h"
#include "ops/blocks.h"
#include "ops/gated.h"
#include "ops/matmul/bytes.h"
#include "ops/matmul/matmul_kernels.h"
#include "support/fence.h"
#include "support/matmul_cases.h"

static const focal_dtype types[] = {FOCAL_Q4_0, FOCAL_Q4_1, FOCAL_Q5_0, FOCAL_Q5_1, FOCAL_Q2_K,
                                    FOCAL_Q3_K, FOCAL_Q4_K, FOCAL_Q5_K, FOCAL_Q6_K};

static matmul_spec spec_of(focal_dtype type, int64_t M, int64_t N, int64_t K)
{
    return (matmul_spec){.M = M, .N = N, .K = K, .x = FOCAL_BF16, .w = type, .rounds = true};
}

static void shapes_match_oracle(void **state)
{
    static const int64_t M[] = {65, 66, 67, 69, 70, 72, 84, 100};
    static const int64_t N[] = {1, 7, 8, 9, 15, 16, 17, 31, 33, 48, 65};
    static const int64_t K[] = {32, 64, 96, 256, 288, 576, 1536};
    uint64_t seed = 1;
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t n = 0; n < FOCAL_COUNT(N); n++) {
            for (size_t k = 0; k < FOCAL_COUNT(K); k++, seed++) {
                matmul_spec spec = spec_of(types[t], M[seed % FOCAL_COUNT(M)], N[n], K[k]);
                if (focal_dtype_block(types[t]) > 32 && K[k] < 256) continue;
                spec.has_bias = seed % 3 == 0;
                spec.adds = seed % 5 == 0;
                spec.out = seed % 2 == 0 ? FOCAL_BF16 : FOCAL_F32;
                spec.x_gap = (int64_t)(seed % 4);
                spec.out_gap = (int64_t)(seed % 3);
                spec.w_shift = seed % 5;
                matmul_case *c = matmul_case_new(&spec, seed);
                assert_true(foci_takes_levels(&c->args));
                matmul_case_run(*state, "matmul levels", c);
                matmul_case_free(c);
            }
        }
    }
    matmul_spec rows = spec_of(FOCAL_Q4_1, 1020, 20, 64); /* two blocks of them */
    matmul_case *c = matmul_case_new(&rows, seed);
    matmul_case_run(*state, "matmul levels", c);
    matmul_case_free(c);
    for (size_t n = 0; n < foci_matmul_kernel_count; n++)
        if (!foci_matmul_kernels[n]->has_levels)
            note_without("matmul levels", foci_matmul_kernels[n]->name);
    if (foci_has(*state, FOCI_AVX2)) assert_ran("matmul levels", "avx2");
}

/* Every level of a block the largest one. */
static void fill_levels(void *block, focal_dtype type)
{
    switch (type) {
    case FOCAL_Q4_0:
        memset(((foci_q4_0 *)block)->q, 0xFF, 16);
        break;
    case FOCAL_Q4_1:
        memset(((foci_q4_1 *)block)->q, 0xFF, 16);
        break;
    case FOCAL_Q5_0:
        memset(((foci_q5_0 *)block)->high, 0xFF, 20);
        break;
    case FOCAL_Q5_1:
        memset(((foci_q5_1 *)block)->high, 0xFF, 20);
        break;
    case FOCAL_Q2_K:
        memset(((foci_q2_k *)block)->q, 0xFF, 64);
        break;
    case FOCAL_Q3_K:
        memset(((foci_q3_k *)block)->high, 0xFF, 32 + 64);
        break;
    case FOCAL_Q4_K:
        memset(((foci_q4_k *)block)->q, 0xFF, 128);
        break;
    case FOCAL_Q5_K:
        memset(((foci_q5_k *)block)->high, 0xFF, 32 + 128);
        break;
    default:
        memset(((foci_q6_k *)block)->q, 0xFF, 128 + 64);
        break;
    }
}

/* Sums as large as they get, of either sign. */
static void largest_levels_match_oracle(void **state)
{
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        const matmul_spec spec = spec_of(types[t], 66, 20, 512);
        matmul_case *c = matmul_case_new(&spec, 1);
        const size_t bytes = focal_dtype_block_bytes(types[t]);
        const int64_t blocks = 20 * 512 / focal_dtype_block(types[t]);
        for (int64_t b = 0; b < blocks; b++)
            fill_levels((unsigned char *)c->w + (size_t)b * bytes, types[t]);
        uint16_t *x = c->x;
        for (int64_t n = 0; n < (int64_t)66 * 512; n++) {
            const float one = n / 512 % 2 == 0 ? 1.0F : -1.0F;
            x[n] = foci_bf16_from_float(one);
            c->numbers[n] = (double)one;
        }
        matmul_case_read_weights(c);
        matmul_case_run(*state, "matmul levels", c);
        matmul_case_free(c);
    }
}

/* What rounding may move a product by: half a step for each element, of which the largest of 16 has
 * 127, and what float32 loses besides. */
static double allowed_error(const matmul_case *c, int64_t m, int64_t n)
{
    const int64_t K = c->args.K, M = c->args.M;
    const double *x = c->numbers + m * K, *w = c->numbers + M * K + n * K;
    double allowed = 1e-30;
    for (int64_t k = 0; k < K; k += 16) {
        double most = 0.0, sum = 0.0;
        for (int64_t e = k; e < k + 16; e++) {
            most = fmax(most, fabs(x[e]));
            sum += fabs(w[e]);
        }
        allowed += (0.5 / 127.0 + 1e-5) * most * sum;
    }
    return allowed;
}

/* Any x: within half a step; what is not finite makes its row NaN, and no other. */
static void check_rounding(focal_ctx *ctx, const foci_matmul_kernel *kernel, focal_dtype type)
{
    enum { M = 68, N = 20, K = 512 };
    matmul_spec spec = spec_of(type, M, N, K);
    matmul_case *c = matmul_case_new(&spec, 8);
    uint16_t *x = c->x;
    for (int64_t n = 0; n < (int64_t)M * K; n++) {
        float value = foci_random_normal(9, 1, (uint64_t)n);
        if (n < 16) value = ldexpf(value, -120); /* too small for a step */
        if (n == K + 7) value = 1000.0F;         /* its neighbours lose most */
        x[n] = foci_bf16_from_float(value);
        c->numbers[n] = (double)foci_bf16_to_float(x[n]);
    }
    matmul_case_solve(c);
    matmul_case_clear(c);
    assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
    for (int64_t i = 0; i < (int64_t)M * N; i++) {
        const double got = (double)element_get(c->out, i, FOCAL_F32);
        const double allowed = allowed_error(c, i / N, i % N);
        if (!(fabs(got - c->exact[i]) <= allowed))
            fail_msg("%s: %g, exact %g, allowed %g", kernel->name, got, c->exact[i], allowed);
    }
    x[(ptrdiff_t)3 * K + 9] = foci_bf16_from_float(INFINITY);
    x[(ptrdiff_t)5 * K] = foci_bf16_from_float(NAN);
    assert_status(ctx, kernel->run(ctx, &c->args), FOCAL_OK);
    for (int64_t i = 0; i < (int64_t)M * N; i++) {
        const bool is_odd = i / N == 3 || i / N == 5;
        assert_int_equal(isnan(element_get(c->out, i, FOCAL_F32)) != 0, is_odd);
    }
    matmul_case_free(c);
}

static void rounding_is_half_a_step(void **state)
{
    for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
        const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
        const matmul_spec spec = spec_of(FOCAL_Q4_1, 65, 1, 32);
        matmul_case *c = matmul_case_new(&spec, 1);
        const bool can = kernel->has_levels && kernel->can(*state, &c->args);
        matmul_case_free(c);
        for (size_t t = 0; can && t < FOCAL_COUNT(types); t++)
            check_rounding(*state, kernel, types[t]);
    }
}

static void nothing_outside_is_read(void **state)
{
    static const int64_t N[] = {1, 8, 15, 16, 17, 33};
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t n = 0; n < FOCAL_COUNT(N); n++) {
            const int64_t K = focal_dtype_block(types[t]) * (1 + (int64_t)n % 3);
            const matmul_spec spec = spec_of(types[t], 65 + (int64_t)n, N[n], K);
            matmul_case *c = matmul_case_new(&spec, (uint64_t)n + 1);
            const size_t x_bytes = (size_t)(spec.M * K) * sizeof(uint16_t);
            const size_t w_bytes =
                (size_t)(N[n] * (1 + (int64_t)n % 3)) * focal_dtype_block_bytes(types[t]);
            for (int at_end = 0; at_end < 2; at_end++) {
                fence x = fence_new(c->x, x_bytes, at_end == 1);
                fence w = fence_new(c->w, w_bytes, at_end == 1);
                c->args.x = x.at;
                c->args.w = w.at;
                matmul_case_run(*state, "matmul levels", c);
                fence_free(&w);
                fence_free(&x);
            }
            matmul_case_free(c);
        }
    }
}

/* Products of one x, some of which have weights without levels of few bits: each has the bits that
 * it has alone, with a gate too. */
static void mixed_products_are_one_by_one(void **state)
{
    enum { COUNT = 2, M = 70, N = 40, K = 256 };
    focal_ctx *ctx = *state;
    static const focal_dtype pairs[][COUNT] = {{FOCAL_Q4_1, FOCAL_Q8_0}, {FOCAL_F16, FOCAL_Q6_K}};
    for (size_t i = 0; i < FOCAL_COUNT(pairs); i++) {
        matmul_case *c[COUNT];
        foci_matmul_args args[COUNT];
        float alone[COUNT][M * N], gated[2][M * N];
        for (int n = 0; n < COUNT; n++) {
            const matmul_spec spec = spec_of(pairs[i][n], M, N, K);
            c[n] = matmul_case_new(&spec, (uint64_t)n + 1);
            args[n] = c[n]->args;
            args[n].x = args[0].x;
            args[n].out = alone[n];
            assert_status(ctx, foci_matmul(ctx, &args[n]), FOCAL_OK);
            args[n].out = c[n]->out;
        }
        assert_status(ctx, foci_matmul_several(ctx, args, COUNT), FOCAL_OK);
        for (int n = 0; n < COUNT; n++) assert_memory_equal(alone[n], c[n]->out, sizeof alone[n]);
        args[0].out = gated[0];
        assert_status(ctx, foci_matmul_gated(ctx, args, COUNT, FOCI_SILU), FOCAL_OK);
        for (int64_t e = 0; e < (int64_t)M * N; e++) {
            const double gate = (double)alone[0][e], up = (double)alone[1][e];
            gated[1][e] = (float)(gate / (1.0 + exp(-gate)) * up);
            assert_true(fabs((double)gated[0][e] - (double)gated[1][e]) <=
                        1e-5 * fabs((double)gated[1][e]) + 1e-6);
        }
        for (int n = 0; n < COUNT; n++) matmul_case_free(c[n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(shapes_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(largest_levels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rounding_is_half_a_step, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nothing_outside_is_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(mixed_products_are_one_by_one, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_levels", tests, NULL, NULL);
}
