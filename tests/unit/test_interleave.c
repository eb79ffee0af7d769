/* The second order of weights: words stand where it says, and rows come back as they were. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "focal/quant.h"
#include "ops/interleave.h"

enum { ROWS = FOCI_INTERLEAVED_ROWS };

/* A matrix of random bytes: what they mean does not matter to the order. */
typedef struct matrix {
    focal_dtype dtype;
    int64_t rows, K;
    size_t row_bytes, bytes;
    uint8_t *plain, *interleaved;
} matrix;

static matrix matrix_new(focal_dtype dtype, int64_t rows, int64_t blocks)
{
    matrix m = {.dtype = dtype, .rows = rows, .K = blocks * focal_dtype_block(dtype)};
    m.row_bytes = (size_t)blocks * focal_dtype_block_bytes(dtype);
    m.bytes = (size_t)rows * m.row_bytes;
    m.plain = new_array(m.bytes, 1);
    m.interleaved = new_array(m.bytes, 1);
    for (size_t n = 0; n < m.bytes; n++)
        m.plain[n] = (uint8_t)(foci_random_u32(1, (uint64_t)dtype, n) & 0x3FU);
    memcpy(m.interleaved, m.plain, m.bytes);
    return m;
}

static void matrix_free(matrix *m)
{
    free(m->plain);
    free(m->interleaved);
}

/* Blocks of q4_1 are d, m and four words; of q6_k 52 words and d. */
static void words_stand_side_by_side(void **state)
{
    focal_ctx *ctx = *state;
    enum { BLOCKS = 3 };
    matrix m = matrix_new(FOCAL_Q4_1, (int64_t)2 * ROWS, BLOCKS);
    assert_status(ctx, foci_interleave(ctx, m.dtype, m.rows, m.K, m.interleaved), FOCAL_OK);
    for (int64_t row = 0; row < m.rows; row++) {
        for (int64_t b = 0; b < BLOCKS; b++) {
            const uint8_t *block = m.plain + (size_t)row * m.row_bytes + (size_t)b * 20;
            const uint8_t *group = m.interleaved + (size_t)(row / ROWS * BLOCKS + b) * ROWS * 20;
            assert_memory_equal(group + row % ROWS * 2, block, 2);
            assert_memory_equal(group + 32 + row % ROWS * 2, block + 2, 2);
            for (int64_t w = 0; w < 4; w++)
                assert_memory_equal(group + 64 + 64 * w + row % ROWS * 4, block + 4 + 4 * w, 4);
        }
    }
    matrix_free(&m);
    m = matrix_new(FOCAL_Q6_K, ROWS, 1);
    assert_status(ctx, foci_interleave(ctx, m.dtype, m.rows, m.K, m.interleaved), FOCAL_OK);
    for (size_t row = 0; row < ROWS; row++) {
        for (size_t w = 0; w < 52; w++)
            assert_memory_equal(m.interleaved + 64 * w + 4 * row, m.plain + row * 210 + 4 * w, 4);
        assert_memory_equal(m.interleaved + (size_t)64 * 52 + 2 * row, m.plain + row * 210 + 208,
                            2);
    }
    matrix_free(&m);
}

/* A part of a row, as blocks and as numbers. */
static void check_part(const matrix *m, const foci_quant_kernel *expand,
                       const foci_interleaved_part *part)
{
    const size_t block = (size_t)focal_dtype_block(m->dtype);
    const size_t bytes = (size_t)part->count / block * focal_dtype_block_bytes(m->dtype);
    const size_t count = (size_t)part->count;
    const uint8_t *from = m->plain + (size_t)part->row * m->row_bytes +
                          (size_t)part->begin / block * focal_dtype_block_bytes(m->dtype);
    uint8_t *blocks = new_array(bytes, 1);
    float *wide = new_array(count, sizeof *wide), *exact = new_array(count, sizeof *exact);
    uint16_t *half = new_array(count, sizeof *half), *rounded = new_array(count, sizeof *rounded);
    foci_interleaved_read(part, blocks);
    assert_memory_equal(blocks, from, bytes);
    assert_int_equal(focal_dequantize(m->dtype, from, part->count, exact), FOCAL_OK);
    foci_interleaved_expand(part, NULL, FOCAL_F32, wide);
    assert_memory_equal(wide, exact, count * sizeof *wide);
    fill_nan(wide, count, FOCAL_F32);
    foci_interleaved_expand(part, expand, FOCAL_F32, wide);
    assert_memory_equal(wide, exact, count * sizeof *wide);
    expand->to_bf16(m->dtype, from, part->count, rounded);
    foci_interleaved_expand(part, expand, FOCAL_BF16, half);
    assert_memory_equal(half, rounded, count * sizeof *half);
    free(blocks);
    free(wide);
    free(exact);
    free(half);
    free(rounded);
}

static void rows_come_back(void **state)
{
    static const int64_t blocks[] = {1, 2, 9, 19};
    int types = 0;
    for (int dtype = FOCAL_F32; dtype <= FOCAL_IQ4_NL; dtype++) {
        const int64_t block = focal_dtype_block((focal_dtype)dtype);
        if (!foci_interleave_can((focal_dtype)dtype, ROWS, 256)) continue;
        types++;
        for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) {
            focal_ctx *ctx = new_ctx(1 + 3 * (int32_t)n);
            matrix m = matrix_new((focal_dtype)dtype, (int64_t)3 * ROWS, blocks[n]);
            assert_status(ctx, foci_interleave(ctx, m.dtype, m.rows, m.K, m.interleaved), FOCAL_OK);
            for (int64_t row = 0; row < m.rows; row++) {
                const int64_t begin = row % blocks[n] * block;
                const foci_interleaved_part part = {.dtype = m.dtype,
                                                    .w = m.interleaved,
                                                    .K = m.K,
                                                    .row = row,
                                                    .begin = begin,
                                                    .count = m.K - begin};
                check_part(&m, foci_quant_pick(*state), &part);
            }
            matrix_free(&m);
            focal_ctx_close(ctx);
        }
    }
    assert_int_equal(types, 11);
}

static void some_cannot(void **state)
{
    (void)state;
    assert_true(foci_interleave_can(FOCAL_Q4_1, 16, 32));
    assert_true(foci_interleave_can(FOCAL_Q6_K, 48, 512));
    assert_false(foci_interleave_can(FOCAL_Q4_1, 8, 32));
    assert_false(foci_interleave_can(FOCAL_Q4_1, 17, 32));
    assert_false(foci_interleave_can(FOCAL_Q4_1, 16, 48));
    assert_false(foci_interleave_can(FOCAL_Q6_K, 16, 128));
    assert_false(foci_interleave_can(FOCAL_F32, 16, 256));
    assert_false(foci_interleave_can(FOCAL_BF16, 16, 256));
    assert_false(foci_interleave_can((focal_dtype)99, 16, 256));
}

static void without_memory_nothing_moves(void **state)
{
    focal_ctx *ctx = *state;
    matrix m = matrix_new(FOCAL_Q8_0, ROWS, 4);
    memory_fail(1, true);
    assert_status(ctx, foci_interleave(ctx, m.dtype, m.rows, m.K, m.interleaved), FOCAL_ENOMEM);
    memory_fail(0, false);
    assert_memory_equal(m.interleaved, m.plain, m.bytes);
    matrix_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(words_stand_side_by_side, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_come_back, open_ctx, close_ctx),
        cmocka_unit_test(some_cannot),
        cmocka_unit_test_setup_teardown(without_memory_nothing_moves, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("interleave", tests, NULL, NULL);
}
