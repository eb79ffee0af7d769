/* Rows of a table of every type become float32, scaled; ids outside of the table are refused. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "focal/quant.h"
#include "ops/embed/embed.h"
#include "ops/interleave.h"

enum { V = 32, C = 512, T = 9, SHIFT = 1 };

static const int32_t ids[T] = {0, 31, 3, 3, 17, 0, 1, 16, 15};

/* A table of random bytes, at an odd address; whatever they mean, rows must come out as they are.
 */
static unsigned char *new_table(focal_dtype dtype, size_t *row_bytes)
{
    *row_bytes = (size_t)(C / focal_dtype_block(dtype)) * focal_dtype_block_bytes(dtype);
    unsigned char *table = new_array(V * *row_bytes + SHIFT, 1);
    for (size_t n = 0; n < V * *row_bytes; n++)
        table[SHIFT + n] = (unsigned char)(foci_random_u32(1, (uint64_t)dtype, n) & 0x3FU);
    return table;
}

/* The same rows of a table, interleaved where it can be. */
static unsigned char *new_interleaved(const unsigned char *table, focal_dtype dtype,
                                      size_t row_bytes)
{
    unsigned char *groups = new_array(V * row_bytes + SHIFT, 1);
    for (int64_t r = 0; r < V; r += FOCI_INTERLEAVED_ROWS)
        foci_interleave_group(dtype, C, table + SHIFT + (size_t)r * row_bytes,
                              groups + SHIFT + (size_t)r * row_bytes);
    return groups;
}

static void rows_come_out_scaled(void **state)
{
    focal_ctx *ctx = *state;
    static const float scales[] = {1.0F, 24.0F, 0.1F};
    for (int dtype = FOCAL_F32; dtype <= FOCAL_IQ4_NL; dtype++) {
        size_t row_bytes;
        unsigned char *table = new_table((focal_dtype)dtype, &row_bytes);
        float *out = new_array((size_t)T * C, sizeof *out), *row = new_array(C, sizeof *row);
        for (size_t s = 0; s < FOCAL_COUNT(scales); s++) {
            fill_nan(out, (size_t)T * C, FOCAL_F32);
            const foci_embed_table plain = {table + SHIFT, (focal_dtype)dtype, V, C, false};
            assert_status(ctx, foci_embed(ctx, &plain, ids, T, scales[s], out), FOCAL_OK);
            for (size_t t = 0; t < T; t++) {
                assert_int_equal(focal_dequantize((focal_dtype)dtype,
                                                  table + SHIFT + (size_t)ids[t] * row_bytes, C,
                                                  row),
                                 FOCAL_OK);
                for (size_t n = 0; n < C; n++) row[n] *= scales[s];
                assert_memory_equal(out + t * C, row, C * sizeof *row);
            }
            if (!foci_interleave_can((focal_dtype)dtype, V, C)) continue;
            unsigned char *groups = new_interleaved(table, (focal_dtype)dtype, row_bytes);
            const foci_embed_table interleaved = {groups + SHIFT, (focal_dtype)dtype, V, C, true};
            float *same = new_array((size_t)T * C, sizeof *same);
            assert_status(ctx, foci_embed(ctx, &interleaved, ids, T, scales[s], same), FOCAL_OK);
            assert_memory_equal(same, out, (size_t)T * C * sizeof *same);
            free(same);
            free(groups);
        }
        free(row);
        free(out);
        free(table);
    }
}

static focal_status embed(focal_ctx *ctx, const void *rows, focal_dtype dtype, int64_t rows_count,
                          int64_t width, const int32_t *which, int64_t count, float *out)
{
    const foci_embed_table table = {rows, dtype, rows_count, width, false};
    return foci_embed(ctx, &table, which, count, 1.0F, out);
}

static void wrong_calls_get_sentences(void **state)
{
    focal_ctx *ctx = *state;
    float table[3 * 32] = {0}, out[4 * 32];
    const int32_t good[4] = {0, 1, 2, 0}, above[4] = {0, 1, 3, 0}, below[4] = {-1, 0, 0, 0};
    fill_nan(out, FOCAL_COUNT(out), FOCAL_F32);
    static const int64_t sizes[][3] = {{0, 32, 4},        {-3, 32, 4},       {3, 0, 4},
                                       {3, -32, 4},       {3, 32, 0},        {3, 32, INT64_MIN},
                                       {3, INT64_MAX, 4}, {INT64_MAX, 32, 4}};
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++)
        assert_status(
            ctx, embed(ctx, table, FOCAL_F32, sizes[n][0], sizes[n][1], good, sizes[n][2], out),
            FOCAL_EINVAL);
    assert_status(ctx, embed(ctx, NULL, FOCAL_F32, 3, 32, good, 4, out), FOCAL_EINVAL);
    assert_status(ctx, embed(ctx, table, FOCAL_F32, 3, 32, NULL, 4, out), FOCAL_EINVAL);
    assert_status(ctx, embed(ctx, table, FOCAL_F32, 3, 32, good, 4, NULL), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "embed: table, ids and out must be set");
    assert_status(ctx, embed(ctx, table, (focal_dtype)14, 3, 32, good, 4, out), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "embed: the table has the unknown type 14");
    assert_status(ctx, embed(ctx, table, FOCAL_Q8_0, 3, 33, good, 4, out), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "embed: rows of 33 elements of q8_0, not whole blocks of 32");
    assert_status(ctx, embed(ctx, table, FOCAL_F32, 3, 32, above, 4, out), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "embed: token 2 has the id 3, the table 3 rows");
    assert_status(ctx, embed(ctx, table, FOCAL_F32, 3, 32, below, 4, out), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "embed: token 0 has the id -1, the table 3 rows");
    const foci_embed_table few = {table, FOCAL_Q8_0, 3, 32, true};
    assert_status(ctx, foci_embed(ctx, &few, good, 4, 1.0F, out), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "embed: 3 rows of q8_0 do not interleave");
    assert_status(ctx, foci_embed(ctx, NULL, good, 4, 1.0F, out), FOCAL_EINVAL);
    assert_int_equal(embed(NULL, table, FOCAL_F32, 3, 32, good, 4, out), FOCAL_EINVAL);
    for (size_t n = 0; n < FOCAL_COUNT(out); n++) assert_true(is_fill_nan(out, n, FOCAL_F32));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_come_out_scaled, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_calls_get_sentences, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("embed", tests, NULL, NULL);
}
