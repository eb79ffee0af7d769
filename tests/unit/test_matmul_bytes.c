/* Quantised weights that meet rounded x as integers: every number of rows around what kernels take
 * together, and not a byte outside the weights is read. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "ops/matmul/bytes.h"
#include "ops/matmul/matmul_kernels.h"
#include "support/fence.h"
#include "support/matmul_cases.h"

/* Groups of 4 and of 16 rows, and what is left of them; one block of x to more than a span. */
static void every_number_of_rows_matches_oracle(void **state)
{
    static const int64_t N[] = {1, 3, 4, 15, 16, 17, 31, 32, 33, 47, 48, 64, 65};
    static const int64_t K[] = {32, 64, 96, 128, 160, 256, 288, 576, 1024, 1056};
    static const int64_t M[] = {1, 2, 3, 4, 7};
    static const focal_dtype types[] = {FOCAL_Q5_0, FOCAL_Q5_1, FOCAL_Q4_0, FOCAL_IQ4_NL,
                                        FOCAL_Q8_0};
    uint64_t seed = 1;
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t n = 0; n < FOCAL_COUNT(N); n++) {
            for (size_t k = 0; k < FOCAL_COUNT(K); k++) {
                const matmul_spec spec = {.M = M[seed % FOCAL_COUNT(M)],
                                          .N = N[n],
                                          .K = K[k],
                                          .w = types[t],
                                          .rounds = true,
                                          .w_shift = seed % 5};
                matmul_case *c = matmul_case_new(&spec, seed++);
                matmul_case_run(*state, "matmul bytes", c);
                matmul_case_free(c);
            }
        }
    }
    assert_ran("matmul bytes", "ref");
}

/* Blocks of all least and all largest levels, of fifth bits alone and of those of one half. */
static void extreme_levels_match_oracle(void **state)
{
    static const focal_dtype types[] = {FOCAL_Q5_0, FOCAL_Q5_1};
    static const unsigned char bytes[][2] = {/* levels, fifth bits */
                                             {0x00, 0x00}, {0xFF, 0xFF}, {0x0F, 0xFF}, {0xF0, 0xFF},
                                             {0xF0, 0x00}, {0x00, 0xAA}, {0x00, 0x55}};
    for (size_t t = 0; t < FOCAL_COUNT(types); t++) {
        for (size_t n = 0; n < FOCAL_COUNT(bytes); n++) {
            const int64_t rows = 16, blocks = 5;
            const matmul_spec spec = {
                .M = 2, .N = rows, .K = 32 * blocks, .w = types[t], .rounds = true};
            matmul_case *c = matmul_case_new(&spec, (uint64_t)n + 1);
            unsigned char *end = c->w; /* of a block: its levels, and before them its fifth bits */
            for (int64_t b = 0; b < rows * blocks; b++) {
                end += focal_dtype_block_bytes(types[t]);
                memset(end - 16, bytes[n][0], 16);
                memset(end - 20, bytes[n][1], 4);
            }
            matmul_case_read_weights(c);
            matmul_case_run(*state, "matmul bytes", c);
            matmul_case_free(c);
        }
    }
}

static void nothing_outside_is_read(void **state)
{
    static const int64_t N[] = {1, 2, 5, 15, 16, 17, 32, 37};
    static const int64_t blocks[] = {1, 2, 3, 4, 9, 18};
    for (int w = FOCAL_Q8_0; w <= FOCAL_IQ4_NL; w++) {
        if (!foci_byte_type_of((focal_dtype)w)) continue;
        for (size_t n = 0; n < FOCAL_COUNT(N) * FOCAL_COUNT(blocks); n++) {
            matmul_spec spec = {
                .M = 1 + (int64_t)n % 3, .N = N[n % FOCAL_COUNT(N)], .rounds = true};
            spec.w = (focal_dtype)w;
            spec.K = focal_dtype_block(spec.w) * blocks[n / FOCAL_COUNT(N)];
            if (focal_dtype_block(spec.w) > 32 && spec.K > 1024) continue; /* nothing new */
            matmul_case *c = matmul_case_new(&spec, (uint64_t)n + 1);
            const size_t bytes =
                (size_t)(spec.N * blocks[n / FOCAL_COUNT(N)]) * focal_dtype_block_bytes(spec.w);
            for (int at_end = 0; at_end < 2; at_end++) {
                fence f = fence_new(c->w, bytes, at_end == 1);
                c->args.w = f.at;
                matmul_case_run(*state, "matmul bytes", c);
                fence_free(&f);
            }
            matmul_case_free(c);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_number_of_rows_matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(extreme_levels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nothing_outside_is_read, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_bytes", tests, NULL, NULL);
}
