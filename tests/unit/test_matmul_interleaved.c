/* Products with interleaved weights: every kernel takes them, and gives what it should. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "ops/matmul/matmul_grads.h"
#include "ops/matmul/matmul_kernels.h"
#include "support/fence.h"
#include "support/matmul_cases.h"

static const focal_dtype types[] = {FOCAL_Q4_0,   FOCAL_Q4_1, FOCAL_Q5_0, FOCAL_Q5_1,
                                    FOCAL_IQ4_NL, FOCAL_Q8_0, FOCAL_Q2_K, FOCAL_Q3_K,
                                    FOCAL_Q4_K,   FOCAL_Q5_K, FOCAL_Q6_K};

static void rounded_products_match_oracle(void **state)
{
    static const int64_t M[] = {1, 2, 3, 4, 5, 8, 64};
    static const int64_t K[] = {32, 96, 256, 288, 576, 1536};
    static const int64_t N[] = {16, 32, 48, 80};
    uint64_t seed = 1;
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t k = 0; k < FOCAL_COUNT(K); k++) {
            for (size_t m = 0; m < FOCAL_COUNT(M); m++) {
                const matmul_spec spec = {.M = M[m],
                                          .N = N[seed % FOCAL_COUNT(N)],
                                          .K = K[k],
                                          .w = types[t],
                                          .rounds = true,
                                          .is_interleaved = true,
                                          .has_bias = seed % 2 == 0,
                                          .adds = seed % 3 == 0,
                                          .w_shift = seed % 5};
                matmul_case *c = matmul_case_new(&spec, seed++);
                matmul_case_run(*state, "matmul interleaved", c);
                matmul_case_free(c);
            }
        }
    }
    assert_ran("matmul interleaved", "ref");
}

/* Where rows are expanded they are those that plain weights have: not a bit differs. */
static void expanded_products_are_those_of_plain_weights(void **state)
{
    static const int64_t M[] = {1, 5, 64, 200};
    uint64_t seed = 1;
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t m = 0; m < FOCAL_COUNT(M); m++, seed++) {
            matmul_spec spec = {.M = M[m],
                                .N = 48,
                                .K = seed % 2 == 0 ? 576 : 1536,
                                .x = seed % 3 == 0 ? FOCAL_F32 : FOCAL_BF16,
                                .w = types[t]};
            matmul_case *plain = matmul_case_new(&spec, seed);
            spec.is_interleaved = true;
            matmul_case *c = matmul_case_new(&spec, seed);
            assert_memory_not_equal(c->w, plain->w, 1024);
            for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
                const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
                if (!kernel->can(*state, &c->args)) continue;
                matmul_case_clear(plain);
                matmul_case_clear(c);
                assert_status(*state, kernel->run(*state, &plain->args), FOCAL_OK);
                assert_status(*state, kernel->run(*state, &c->args), FOCAL_OK);
                if (memcmp(c->out, plain->out, c->out_bytes) != 0)
                    fail_msg("%s: %s", kernel->name, matmul_case_text(c));
            }
            matmul_case_free(plain);
            matmul_case_free(c);
        }
    }
}

/* dx = dy w, whose weights are read by columns, in pieces of rows. */
static void gradients_are_those_of_plain_weights(void **state)
{
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        const int64_t rows = 70, N = 1104, K = 512;
        matmul_spec spec = {.M = 1, .N = N, .K = K, .w = types[t]};
        matmul_case *plain = matmul_case_new(&spec, t + 1);
        spec.is_interleaved = true;
        matmul_case *c = matmul_case_new(&spec, t + 1);
        float *dy = new_array((size_t)(rows * N), sizeof *dy);
        float *dx = new_array((size_t)(2 * rows * K), sizeof *dx), *same = dx + rows * K;
        for (int64_t n = 0; n < rows * N; n++) dy[n] = (float)(n % 37) - 18.0F;
        foci_matmul_dx_args args = {.M = rows,
                                    .N = N,
                                    .K = K,
                                    .dy = dy,
                                    .dy_stride = N,
                                    .w = plain->args.w,
                                    .w_dtype = types[t],
                                    .dx = dx,
                                    .dx_stride = K};
        assert_status(*state, foci_matmul_dx(*state, &args), FOCAL_OK);
        args.w = c->args.w;
        args.w_is_interleaved = true;
        args.dx = same;
        assert_status(*state, foci_matmul_dx(*state, &args), FOCAL_OK);
        assert_memory_equal(dx, same, (size_t)(rows * K) * sizeof *dx);
        free(dy);
        free(dx);
        matmul_case_free(plain);
        matmul_case_free(c);
    }
}

/* A row's bits depend neither on its company nor on the number of threads. */
static void bits_are_a_rows_own(void **state)
{
    static const int32_t threads[] = {1, 3, 7};
    (void)state;
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        const matmul_spec spec = {
            .M = 7, .N = 1040, .K = 768, .w = types[t], .rounds = true, .is_interleaved = true};
        matmul_case *c = matmul_case_new(&spec, t + 1);
        float *one = new_array((size_t)c->args.N, sizeof *one);
        for (size_t n = 0; n < FOCAL_COUNT(threads); n++) {
            focal_ctx *ctx = new_ctx(threads[n]);
            for (int64_t M = 1; M <= spec.M; M++) {
                foci_matmul_args args = c->args;
                args.M = M;
                matmul_case_clear(c);
                assert_status(ctx, foci_matmul(ctx, &args), FOCAL_OK);
                if (n == 0 && M == 1) memcpy(one, c->out, (size_t)spec.N * sizeof *one);
                assert_memory_equal(c->out, one, (size_t)spec.N * sizeof *one);
            }
            focal_ctx_close(ctx);
        }
        free(one);
        matmul_case_free(c);
    }
}

/* Two products of one x, of which one is not interleaved, have the bits of each alone. */
static void products_go_together(void **state)
{
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        matmul_spec spec = {.M = 3, .N = 112, .K = 512, .w = types[t], .rounds = true};
        matmul_case *plain = matmul_case_new(&spec, t + 1);
        spec.is_interleaved = true;
        matmul_case *c = matmul_case_new(&spec, t + 1);
        const size_t bytes = c->out_bytes;
        char *alone = new_array(2 * bytes, 1);
        assert_status(*state, foci_matmul(*state, &plain->args), FOCAL_OK);
        assert_status(*state, foci_matmul(*state, &c->args), FOCAL_OK);
        memcpy(alone, plain->out, bytes);
        memcpy(alone + bytes, c->out, bytes);
        foci_matmul_args args[3] = {plain->args, c->args, c->args};
        char *third = new_array(bytes, 1);
        args[1].x = plain->args.x;
        args[2].x = plain->args.x;
        args[2].out = third;
        matmul_case_clear(plain);
        matmul_case_clear(c);
        assert_status(*state, foci_matmul_several(*state, args, 3), FOCAL_OK);
        assert_memory_equal(plain->out, alone, bytes);
        assert_memory_equal(c->out, alone + bytes, bytes);
        assert_memory_equal(third, alone + bytes, bytes);
        free(third);
        free(alone);
        matmul_case_free(plain);
        matmul_case_free(c);
    }
}

static void odd_numbers_reach_their_row_alone(void **state)
{
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t n = 0; n < FOCAL_COUNT(odd); n++) {
            const matmul_spec spec = {
                .M = 3, .N = 32, .K = 512, .w = types[t], .rounds = true, .is_interleaved = true};
            matmul_case *c = matmul_case_new(&spec, t + 1);
            ((float *)c->x)[spec.K + 40 * (int64_t)n] = odd[n];
            matmul_case_clear(c);
            assert_status(*state, foci_matmul(*state, &c->args), FOCAL_OK);
            const float *out = c->out;
            for (int64_t i = 0; i < spec.M * spec.N; i++)
                assert_int_equal(isfinite(out[i]) != 0, i / spec.N != 1);
            matmul_case_free(c);
        }
    }
}

static void nothing_outside_is_read(void **state)
{
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (int64_t n = 0; n < 6; n++) {
            const int64_t block = focal_dtype_block(types[t]), blocks = n < 3 ? 1 : 3;
            const matmul_spec spec = {.M = 1 + n % 3,
                                      .N = n < 3 ? 16 : 48,
                                      .K = blocks * block,
                                      .w = types[t],
                                      .rounds = true,
                                      .is_interleaved = true};
            matmul_case *c = matmul_case_new(&spec, (uint64_t)n + 1);
            const size_t bytes = (size_t)(spec.N * blocks) * focal_dtype_block_bytes(spec.w);
            for (int at_end = 0; at_end < 2; at_end++) {
                fence f = fence_new(c->w, bytes, at_end == 1);
                c->args.w = f.at;
                matmul_case_run(*state, "matmul interleaved", c);
                fence_free(&f);
            }
            matmul_case_free(c);
        }
    }
}

static void others_are_refused(void **state)
{
    const matmul_spec spec = {
        .M = 2, .N = 16, .K = 256, .w = FOCAL_Q4_1, .rounds = true, .is_interleaved = true};
    matmul_case *c = matmul_case_new(&spec, 1);
    foci_matmul_args bad = c->args;
    bad.N = 15;
    assert_status(*state, foci_matmul(*state, &bad), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state),
                        "matmul: 15 rows of 256 weights of q4_1 do not interleave");
    bad = c->args;
    bad.w_dtype = FOCAL_F32;
    assert_status(*state, foci_matmul(*state, &bad), FOCAL_EINVAL);
    bad = c->args;
    bad.K = 128;
    bad.w_stride = 256;
    assert_status(*state, foci_matmul(*state, &bad), FOCAL_EINVAL);
    matmul_case_free(c);
}

/* Who wants the order is whom the kernel table gives the call to. */
static void kernels_that_gain_want_it(void **state)
{
    focal_ctx *ctx = *state;
    const bool has = foci_has(ctx, FOCI_AVX512BF16);
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        assert_int_equal(foci_matmul_wants_interleaved(ctx, types[t], 64, 512), has);
        assert_false(foci_matmul_wants_interleaved(ctx, types[t], 63, 512));
    }
    assert_false(foci_matmul_wants_interleaved(ctx, FOCAL_BF16, 64, 512));
    foci_ctx_mask_features(ctx, FOCI_AVX2 | FOCI_AVX512);
    assert_false(foci_matmul_wants_interleaved(ctx, FOCAL_Q4_1, 64, 512));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rounded_products_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(expanded_products_are_those_of_plain_weights, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(gradients_are_those_of_plain_weights, open_ctx, close_ctx),
        cmocka_unit_test(bits_are_a_rows_own),
        cmocka_unit_test_setup_teardown(products_go_together, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_numbers_reach_their_row_alone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nothing_outside_is_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(others_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_that_gain_want_it, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_interleaved", tests, NULL, NULL);
}
