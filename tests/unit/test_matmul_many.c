/* Many rows: sums longer than kernels make in one go, rows beyond what they pack at a time, and not
 * a byte outside x and the weights is read. */
#include "support/check.h"

#include "ops/matmul/matmul_kernels.h"
#include "support/fence.h"
#include "support/matmul_cases.h"

/* clang-format off */
static const matmul_spec long_sums[] = {
    /* one lap and two, one span and two, at their edges */
    {.M = 65, .N = 33, .K = 640}, {.M = 97, .N = 65, .K = 641}, {.M = 80, .N = 64, .K = 672},
    {.M = 69, .N = 80, .K = 640}, {.M = 71, .N = 81, .K = 641}, {.M = 99, .N = 96, .K = 640},
    {.M = 70, .N = 40, .K = 2048}, {.M = 95, .N = 70, .K = 2049}, {.M = 66, .N = 97, .K = 2080},
    {.M = 81, .N = 50, .K = 4096, .w = FOCAL_Q4_K}, {.M = 128, .N = 35, .K = 4352, .w = FOCAL_Q4_1},
    {.M = 65, .N = 34, .K = 2304, .w = FOCAL_Q8_0, .has_bias = true, .adds = true},
    /* blocks of rows, in place and packed, of which the last is small */
    {.M = 1025, .N = 3, .K = 2080}, {.M = 1030, .N = 5, .K = 2081}, {.M = 2060, .N = 4, .K = 64},
    {.M = 1015, .N = 70, .K = 2100}, {.M = 1010, .N = 18, .K = 2112, .x_gap = 16, .adds = true},
    /* whole lines from row to row, of which a sum does not fill the last */
    {.M = 70, .N = 33, .K = 62, .x_gap = 34}, {.M = 100, .N = 40, .K = 600, .x_gap = 8},
    /* the other way round */
    {.M = 100, .N = 65, .K = 2100, .is_transposed = true},
    {.M = 47, .N = 66, .K = 2100, .is_transposed = true, .x_is_transposed = true},
    {.M = 1057, .N = 30, .K = 95, .x_is_transposed = true, .w = FOCAL_F16},
    {.M = 20, .N = 33, .K = 64, .is_transposed = true},
    {.M = 90, .N = 512, .K = 96, .is_transposed = true, .w = FOCAL_Q6_K},
};
/* clang-format on */

static void long_sums_match_oracle(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(long_sums); n++) {
        for (int kind = 0; kind < 3; kind++) {
            matmul_spec spec = long_sums[n];
            spec.x = kind < 2 ? FOCAL_BF16 : FOCAL_F32;
            if (spec.w == FOCAL_F32) spec.w = spec.x;
            spec.out = kind == 1 ? FOCAL_BF16 : FOCAL_F32;
            matmul_case *c = matmul_case_new(&spec, (uint64_t)n + 1);
            matmul_case_run(*state, "matmul many", c);
            matmul_case_free(c);
        }
    }
    assert_ran("matmul many", "ref");
}

static void run_fenced(focal_ctx *ctx, const matmul_spec *spec, uint64_t seed)
{
    matmul_case *c = matmul_case_new(spec, seed);
    const foci_matmul_args args = c->args;
    const int64_t width = spec->is_transposed ? args.N : args.K;
    const int64_t rows = spec->is_transposed ? args.K : args.N;
    const size_t x_bytes = (size_t)(args.M * args.K) * focal_dtype_bytes(args.x_dtype);
    const size_t w_bytes = (size_t)(rows * width / focal_dtype_block(args.w_dtype)) *
                           focal_dtype_block_bytes(args.w_dtype);
    for (int at_end = 0; at_end < 2; at_end++) {
        fence x = fence_new(args.x, x_bytes, at_end == 1);
        fence w = fence_new(args.w, w_bytes, at_end == 1);
        c->args.x = x.at;
        c->args.w = w.at;
        matmul_case_run(ctx, "matmul many", c);
        fence_free(&w);
        fence_free(&x);
    }
    matmul_case_free(c);
}

static void nothing_outside_is_read(void **state)
{
    static const int64_t M[] = {65, 70, 79, 80, 81, 96, 97, 111};
    static const int64_t N[] = {1, 31, 32, 33, 47, 48, 49, 64, 80, 81, 95};
    static const int64_t K[] = {32, 33, 62, 64, 90, 96, 288};
    static const focal_dtype types[] = {FOCAL_BF16, FOCAL_F32, FOCAL_Q4_1, FOCAL_Q8_0, FOCAL_Q4_K};
    uint64_t seed = 1;
    for (size_t k = 0; k < FOCAL_COUNT(K); k++) {
        for (size_t m = 0; m < FOCAL_COUNT(M); m++, seed++) {
            matmul_spec spec = {.M = M[m], .N = N[seed % FOCAL_COUNT(N)], .K = K[k]};
            spec.w = types[seed / 3 % FOCAL_COUNT(types)];
            spec.x = seed % 7 == 0 ? FOCAL_F32 : FOCAL_BF16;
            run_fenced(*state, &spec, seed);
            spec.is_transposed = true;
            spec.x_is_transposed = seed % 2 == 0;
            run_fenced(*state, &spec, seed);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_sums_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nothing_outside_is_read, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_many", tests, NULL, NULL);
}
