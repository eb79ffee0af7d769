/* Quantising: how near the searched types come, what is exact, odd numbers, threads, and calls that
 * are refused. What the other types write is in test_quant_golden.c. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

enum { TYPES = FOCAL_IQ4_NL + 1, ROWS = 8, WIDTH = 1024, COUNT = ROWS * WIDTH };

static size_t packed_bytes(focal_dtype dtype, int64_t count)
{
    return (size_t)(count / focal_dtype_block(dtype)) * focal_dtype_block_bytes(dtype);
}

static float *normal_numbers(uint64_t stream, float scale)
{
    float *x = new_array(COUNT, sizeof *x);
    for (uint64_t n = 0; n < COUNT; n++) x[n] = scale * foci_random_normal(11, stream, n);
    return x;
}

/* There and back; the root mean square of the error over that of the numbers. */
static double loss(focal_ctx *ctx, focal_dtype dtype, const float *x, float *back)
{
    uint8_t *packed = new_array(packed_bytes(dtype, COUNT), 1);
    assert_status(ctx, focal_quantize(ctx, dtype, x, ROWS, WIDTH, packed), FOCAL_OK);
    assert_int_equal(focal_dequantize(dtype, packed, COUNT, back), FOCAL_OK);
    free(packed);
    double error = 0.0, size = 0.0;
    for (int n = 0; n < COUNT; n++) {
        const double miss = (double)back[n] - (double)x[n];
        error += miss * miss;
        size += (double)x[n] * (double)x[n];
    }
    return sqrt(error / size);
}

/* On normal numbers: at most what llama.cpp's quantisers lose, as measured there for the searched
 * types. The other types' figures follow from their steps. */
static void little_is_lost(void **state)
{
    focal_ctx *ctx = *state;
    static const double most[TYPES] = {
        [FOCAL_F32] = 0.0,     [FOCAL_BF16] = 0.0017,  [FOCAL_F16] = 0.00021, [FOCAL_Q8_0] = 0.0057,
        [FOCAL_Q4_0] = 0.092,  [FOCAL_Q4_1] = 0.081,   [FOCAL_Q5_0] = 0.045,  [FOCAL_Q5_1] = 0.040,
        [FOCAL_Q2_K] = 0.2964, [FOCAL_Q3_K] = 0.1510,  [FOCAL_Q4_K] = 0.0713, [FOCAL_Q5_K] = 0.0361,
        [FOCAL_Q6_K] = 0.0177, [FOCAL_IQ4_NL] = 0.0761};
    /* Float16 carries the scales: sizes from its small numbers to its large ones. */
    static const float sizes[] = {0.02F, 1.0F, 1000.0F};
    float *back = new_array(COUNT, sizeof *back);
    for (size_t s = 0; s < FOCAL_COUNT(sizes); s++) {
        float *x = normal_numbers(s, sizes[s]);
        for (int t = 0; t < TYPES; t++) {
            const double lost = loss(ctx, (focal_dtype)t, x, back);
            if (!(lost <= most[t]))
                fail_msg("%s loses %.5f of numbers of size %g, more than %.5f",
                         focal_dtype_name((focal_dtype)t), lost, (double)sizes[s], most[t]);
        }
        free(x);
    }
    free(back);
}

/* Numbers that came out of a block go back into one with nothing or next to nothing lost. */
static void twice_is_once(void **state)
{
    focal_ctx *ctx = *state;
    float *x = normal_numbers(5, 0.05F), *once = new_array(COUNT, sizeof *once),
          *twice = new_array(COUNT, sizeof *twice);
    for (int t = 0; t < TYPES; t++) {
        (void)loss(ctx, (focal_dtype)t, x, once);
        const double lost = loss(ctx, (focal_dtype)t, once, twice);
        const double most = t == FOCAL_Q2_K ? 0.02 : 0.002; /* its scales have 4 bits */
        if (!(lost <= most)) fail_msg("%s loses %.5f", focal_dtype_name((focal_dtype)t), lost);
    }
    free(x);
    free(once);
    free(twice);
}

/* Blocks that leave nothing to search: zeros, one number, one number among zeros, two numbers.
 * Types with 16 levels or more come near them, and zeros are exact everywhere. */
static void plain_blocks_survive(void **state)
{
    focal_ctx *ctx = *state;
    float *x = new_array(COUNT, sizeof *x), *back = new_array(COUNT, sizeof *back);
    static const float sizes[] = {1.0F, -1.0F, 0.01F, -30.0F};
    for (int n = 0; n < COUNT; n++) {
        const float size = sizes[n / 256 % 4];
        const int kind = n / 1024;
        x[n] = kind == 0   ? 0.0F
               : kind == 1 ? size
               : kind == 2 ? (n % 256 == 77 ? size : 0.0F)
                           : (n % 3 ? size : -size);
    }
    for (int t = FOCAL_Q2_K; t < TYPES; t++) {
        (void)loss(ctx, (focal_dtype)t, x, back);
        for (int n = 0; n < COUNT; n++) {
            if (n < 1024) assert_true(back[n] == 0.0F);
            const float allowed = t == FOCAL_IQ4_NL ? 0.06F : 0.04F; /* its levels are not even */
            if (!(fabsf(back[n] - x[n]) <= allowed * fabsf(sizes[n / 256 % 4])))
                fail_msg("%s: element %d is %g, expected %g", focal_dtype_name((focal_dtype)t), n,
                         (double)back[n], (double)x[n]);
        }
    }
    free(x);
    free(back);
}

/* Numbers too small for float16 scales stay finite, and a search never does worse than zeros. */
static void sizes_do_not_matter(void **state)
{
    focal_ctx *ctx = *state;
    static const float sizes[] = {1e-5F, 1e-7F, 1e-9F, 1e-20F, 1e-38F, 1e-44F, 4000.0F};
    float *back = new_array(COUNT, sizeof *back);
    for (size_t s = 0; s < FOCAL_COUNT(sizes); s++) {
        float *x = normal_numbers(s, sizes[s]);
        x[100] = 0.0F;
        x[300] = -0.0F;
        for (int t = 0; t < TYPES; t++) {
            const double lost = loss(ctx, (focal_dtype)t, x, back);
            for (int n = 0; n < COUNT; n++) assert_true(isfinite(back[n]));
            if (t >= FOCAL_Q2_K && !(lost <= 1.001))
                fail_msg("%s loses %.3f of size %g", focal_dtype_name((focal_dtype)t), lost,
                         (double)sizes[s]);
        }
        free(x);
    }
    free(back);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    float *x = normal_numbers(9, 1.0F);
    for (int t = 0; t < TYPES; t++) {
        const size_t bytes = packed_bytes((focal_dtype)t, COUNT);
        uint8_t *first = new_array(bytes + 1, 1), *other = new_array(bytes + 1, 1);
        for (int32_t threads = 1; threads <= 5; threads += 2) {
            focal_ctx *ctx = new_ctx(threads);
            memory_fail(1, true);                           /* and it asks for no memory */
            uint8_t *to = threads == 1 ? first : other + 1; /* at any address */
            assert_status(ctx, focal_quantize(ctx, (focal_dtype)t, x, ROWS, WIDTH, to), FOCAL_OK);
            memory_fail(0, false);
            focal_ctx_close(ctx);
            if (threads > 1) assert_memory_equal(first, other + 1, bytes);
        }
        free(first);
        free(other);
    }
    free(x);
}

static void what_is_not_finite_is_named(void **state)
{
    focal_ctx *ctx = *state;
    float *x = normal_numbers(2, 1.0F);
    uint8_t *packed = new_array(COUNT * sizeof *x, 1);
    for (int t = 0; t < TYPES; t++) {
        x[7 * WIDTH + 3] = -INFINITY;
        x[6 * WIDTH + 1000] = NAN;
        x[6 * WIDTH + 1001] = INFINITY;
        assert_status(ctx, focal_quantize(ctx, (focal_dtype)t, x, ROWS, WIDTH, packed),
                      FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx),
                            "quant: element 1000 of row 6 is nan, not finite");
        x[6 * WIDTH + 1000] = x[6 * WIDTH + 1001] = 0.0F;
        assert_status(ctx, focal_quantize(ctx, (focal_dtype)t, x, ROWS, WIDTH, packed),
                      FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), "quant: element 3 of row 7 is -inf, not finite");
    }
    free(x);
    free(packed);
}

/* The largest float fits only where no float16 stands in for it. */
static void what_is_too_large_is_named(void **state)
{
    focal_ctx *ctx = *state;
    float *x = normal_numbers(2, 1.0F), *back = new_array(COUNT, sizeof *back);
    uint8_t *packed = new_array(COUNT * sizeof *x, 1);
    x[2 * WIDTH + 512] = -3.38e38F;
    for (int t = 0; t < TYPES; t++) {
        const bool fits = t == FOCAL_F32 || t == FOCAL_BF16;
        assert_status(ctx, focal_quantize(ctx, (focal_dtype)t, x, ROWS, WIDTH, packed),
                      fits ? FOCAL_OK : FOCAL_EINVAL);
        if (!fits)
            assert_non_null(strstr(focal_ctx_error(ctx), "quant: row 2 from element 512 on is too "
                                                         "large for "));
    }
    x[2 * WIDTH + 512] = 60000.0F; /* fits all of them */
    for (int t = 0; t < TYPES; t++) {
        (void)loss(ctx, (focal_dtype)t, x, back);
        assert_true(fabsf(back[2 * WIDTH + 512] - 60000.0F) < 4000.0F);
    }
    free(x);
    free(back);
    free(packed);
}

static void bad_calls_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    float x[64] = {0};
    uint8_t to[256];
    assert_int_equal(focal_quantize(NULL, FOCAL_Q8_0, x, 1, 32, to), FOCAL_EINVAL);
    assert_status(ctx, focal_quantize(ctx, (focal_dtype)14, x, 1, 32, to), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "quant: there is no element type 14");
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, x, 2, 16, to), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "quant: 16 elements are not whole blocks of 32 (q8_0)");
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, x, -1, 32, to), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "quant: -1 rows of 32 are not a tensor");
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, x, INT64_MAX / 32, 64, to), FOCAL_EINVAL);
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, x, INT64_MAX / 64, 32, to), FOCAL_EINVAL);
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, NULL, 1, 32, to), FOCAL_EINVAL);
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, x, 1, 32, NULL), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "quant: from and to must be set");
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, NULL, 0, 32, NULL), FOCAL_OK);
    assert_status(ctx, focal_quantize(ctx, FOCAL_Q8_0, NULL, 5, 0, NULL), FOCAL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(little_is_lost, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(twice_is_once, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(plain_blocks_survive, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sizes_do_not_matter, open_ctx, close_ctx),
        cmocka_unit_test(threads_do_not_matter),
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_named, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_too_large_is_named, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("quantize", tests, NULL, NULL);
}
