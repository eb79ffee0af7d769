/* Quantised types against the gguf package's, bit for bit: what its blocks mean, by every kernel,
 * and the blocks it writes. The vectors come from tools/golden_quant.py. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/quant/quant_kernels.h"
#include "support/golden.h"

/* The words of a tensor, one behind the other. */
static void *copy_words(const golden_case *c, const char *name, int64_t count)
{
    const double *from = golden_get(c, name, count);
    if (!from) fail_msg("%s: no %s", c->name, name);
    uint32_t *to = new_array((size_t)count, sizeof *to);
    for (int64_t n = 0; from && n < count; n++) to[n] = (uint32_t)from[n];
    return to;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static void expect_equal(const char *name, const char *kernel, const float *got,
                         const float *expected, int64_t count, bool is_exact)
{
    for (int64_t n = 0; n < count; n++) {
        if (bits_of(got[n]) == bits_of(expected[n])) continue;
        if (!is_exact && isnan(got[n]) && isnan(expected[n])) continue;
        fail_msg("%s by %s: element %lld is %a (0x%08x), expected %a (0x%08x)", name, kernel,
                 (long long)n, (double)got[n], bits_of(got[n]), (double)expected[n],
                 bits_of(expected[n]));
    }
}

static void check_read(focal_ctx *ctx, const golden_case *c)
{
    const focal_dtype dtype = (focal_dtype)c->parameters[0];
    const int64_t count = (int64_t)c->parameters[1];
    const int64_t bytes =
        count / focal_dtype_block(dtype) * (int64_t)focal_dtype_block_bytes(dtype);
    void *blocks = copy_words(c, "bytes", (bytes + 3) / 4);
    float *expected = copy_words(c, "values", count);
    float *got = new_array((size_t)count, sizeof *got);
    assert_int_equal(focal_dequantize(dtype, blocks, count, got), FOCAL_OK);
    expect_equal(c->name, "focal_dequantize", got, expected, count, true);
    for (size_t n = 0; n < foci_quant_kernel_count; n++) {
        if (!foci_quant_kernels[n].can(ctx)) continue;
        fill_nan(got, (size_t)count, FOCAL_F32);
        foci_quant_kernels[n].to_f32(dtype, blocks, count, got);
        expect_equal(c->name, foci_quant_kernels[n].name, got, expected, count, false);
        note_ran("quant", foci_quant_kernels[n].name);
    }
    free(blocks);
    free(expected);
    free(got);
}

static void check_write(focal_ctx *ctx, const golden_case *c, const float *x, int64_t rows,
                        int64_t width)
{
    const focal_dtype dtype = (focal_dtype)c->parameters[0];
    const int64_t bytes = (int64_t)c->parameters[1];
    assert_int_equal(bytes, rows * width / focal_dtype_block(dtype) *
                                (int64_t)focal_dtype_block_bytes(dtype));
    uint8_t *expected = copy_words(c, "bytes", (bytes + 3) / 4);
    uint8_t *got = new_array((size_t)bytes, 1);
    assert_status(ctx, focal_quantize(ctx, dtype, x, rows, width, got), FOCAL_OK);
    for (int64_t n = 0; n < bytes; n++)
        if (got[n] != expected[n])
            fail_msg("%s: byte %lld is 0x%02x, expected 0x%02x", c->name, (long long)n, got[n],
                     expected[n]);
    free(expected);
    free(got);
}

static void blocks_mean_what_gguf_says(void **state)
{
    golden *g = golden_open("quant");
    int met = 0;
    for (int n = 0; n < g->case_count; n++) {
        if (strncmp(g->cases[n].name, "read_", 5) != 0) continue;
        check_read(*state, &g->cases[n]);
        met++;
    }
    assert_int_equal(met, 13); /* every type but float32 */
    golden_close(g);
    assert_ran("quant", "ref");
}

static void blocks_are_written_as_gguf_does(void **state)
{
    golden *g = golden_open("quant");
    float *x = NULL;
    int64_t rows = 0, width = 0;
    int met = 0;
    for (int n = 0; n < g->case_count; n++) {
        const golden_case *c = &g->cases[n];
        if (strcmp(c->name, "rows") == 0) {
            rows = (int64_t)c->parameters[0];
            width = (int64_t)c->parameters[1];
            x = copy_words(c, "x", rows * width);
        }
        if (strncmp(c->name, "write_", 6) != 0) continue;
        assert_non_null(x);
        check_write(*state, c, x, rows, width);
        met++;
    }
    assert_int_equal(met, 7);
    free(x);
    golden_close(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(blocks_mean_what_gguf_says, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(blocks_are_written_as_gguf_does, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("quant_golden", tests, NULL, NULL);
}
