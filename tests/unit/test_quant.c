/* Dequantisation: every kernel gives the reference's bits for any bytes at any address; calls that
 * are refused; and float16. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/f16.h"
#include "base/random.h"
#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

enum { TYPES = FOCAL_IQ4_NL + 1 };

static void blocks_have_their_sizes(void **state)
{
    (void)state;
    static const size_t sizes[TYPES] = {
        [FOCAL_F32] = sizeof(float),      [FOCAL_BF16] = sizeof(uint16_t),
        [FOCAL_F16] = sizeof(uint16_t),   [FOCAL_Q8_0] = sizeof(foci_q8_0),
        [FOCAL_Q4_0] = sizeof(foci_q4_0), [FOCAL_Q4_1] = sizeof(foci_q4_1),
        [FOCAL_Q5_0] = sizeof(foci_q5_0), [FOCAL_Q5_1] = sizeof(foci_q5_1),
        [FOCAL_Q2_K] = sizeof(foci_q2_k), [FOCAL_Q3_K] = sizeof(foci_q3_k),
        [FOCAL_Q4_K] = sizeof(foci_q4_k), [FOCAL_Q5_K] = sizeof(foci_q5_k),
        [FOCAL_Q6_K] = sizeof(foci_q6_k), [FOCAL_IQ4_NL] = sizeof(foci_iq4_nl),
    };
    for (int t = 0; t < TYPES; t++)
        assert_int_equal(sizes[t], focal_dtype_block_bytes((focal_dtype)t));
}

static float float_from_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* The value of a float16 from its definition. */
static double f16_value(uint32_t half)
{
    const int exponent = (int)(half >> 10 & 31U), fraction = (int)(half & 0x3FFU);
    const double sign = half >> 15 ? -1.0 : 1.0;
    if (exponent == 31) return fraction ? (double)NAN : sign * HUGE_VAL;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static void f16_has_its_values(void **state)
{
    (void)state;
    for (uint32_t half = 0; half <= UINT16_MAX; half++) {
        const float x = foci_f16_to_float((uint16_t)half);
        const double expected = f16_value(half);
        if (isnan(expected)) {
            assert_true(isnan(x));
        } else {
            assert_true((double)x == expected);
            assert_int_equal(signbit(x) != 0, half >> 15);
        }
        assert_int_equal(foci_f16_from_float(x), half); /* NaN too */
    }
}

static void f16_rounds_to_nearest_even(void **state)
{
    (void)state;
    for (uint32_t half = 0; half < 0x7BFF; half++) { /* between each two neighbours */
        const double low = f16_value(half), high = f16_value(half + 1), middle = (low + high) / 2;
        const float tie = (float)middle; /* exact: one bit more */
        assert_true((double)tie == middle);
        assert_int_equal(foci_f16_from_float(tie), half + (half & 1U));
        assert_int_equal(foci_f16_from_float(nextafterf(tie, 0.0F)), half);
        assert_int_equal(foci_f16_from_float(nextafterf(tie, INFINITY)), half + 1);
        assert_int_equal(foci_f16_from_float(-tie), 0x8000U | (half + (half & 1U)));
    }
    assert_int_equal(foci_f16_from_float(65519.996F), 0x7BFF);
    assert_int_equal(foci_f16_from_float(65520.0F), 0x7C00);
    assert_int_equal(foci_f16_from_float(INFINITY), 0x7C00);
    assert_int_equal(foci_f16_from_float(-1e30F), 0xFC00);
    assert_int_equal(foci_f16_from_float(float_from_bits(0x80000001)), 0x8000);
    assert_int_equal(foci_f16_from_float(float_from_bits(0x7F800001)), 0x7C01); /* stays a NaN */
    assert_int_equal(foci_f16_from_float(float_from_bits(0xFFC00000)), 0xFE00);
}

/* Random bytes: scales of every kind, infinities and NaN among them. */
static void fill_random(uint8_t *bytes, size_t count, uint64_t stream)
{
    for (size_t n = 0; n < count; n++) bytes[n] = (uint8_t)foci_random_u32(7, stream, n);
}

static bool same_float(float a, float b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static bool same_bf16(uint16_t a, uint16_t b)
{
    return a == b || (isnan(foci_bf16_to_float(a)) && isnan(foci_bf16_to_float(b)));
}

/* `blocks` blocks of a type at an address `shift` bytes off, in buffers of exactly that size, so
 * that a read or a write beyond them is seen. */
static void check_kernel(const foci_quant_kernel *kernel, focal_dtype dtype, int64_t blocks,
                         size_t shift)
{
    const int64_t count = blocks * focal_dtype_block(dtype);
    const size_t bytes = (size_t)blocks * focal_dtype_block_bytes(dtype), n_out = (size_t)count;
    uint8_t *from = new_array(bytes + shift, 1);
    float *expected = new_array(n_out, sizeof *expected), *got = new_array(n_out, sizeof *got);
    uint16_t *half = new_array(n_out, sizeof *half);
    fill_random(from + shift, bytes, (uint64_t)dtype * 1000 + (uint64_t)blocks);
    foci_quant_ref_to_f32(dtype, from + shift, count, expected);
    fill_nan(got, n_out, FOCAL_F32);
    kernel->to_f32(dtype, from + shift, count, got);
    fill_nan(half, n_out, FOCAL_BF16);
    kernel->to_bf16(dtype, from + shift, count, half);
    for (int64_t n = 0; n < count; n++) {
        const uint16_t rounded = foci_bf16_from_float(expected[n]);
        if (is_fill_nan(got, (size_t)n, FOCAL_F32) || !same_float(got[n], expected[n]))
            fail_msg("%s, %s: element %lld is %a, expected %a", kernel->name,
                     focal_dtype_name(dtype), (long long)n, (double)got[n], (double)expected[n]);
        if (is_fill_nan(half, (size_t)n, FOCAL_BF16) || !same_bf16(half[n], rounded))
            fail_msg("%s, %s: bfloat16 element %lld is 0x%04x, expected 0x%04x", kernel->name,
                     focal_dtype_name(dtype), (long long)n, half[n], rounded);
    }
    free(from);
    free(expected);
    free(got);
    free(half);
}

static void kernels_match_reference(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t blocks[] = {0, 1, 2, 3, 5, 16, 17, 31, 67};
    for (size_t k = 0; k < foci_quant_kernel_count; k++) {
        if (!foci_quant_kernels[k].can(ctx)) continue;
        for (int t = 0; t < TYPES; t++)
            for (size_t n = 0; n < FOCAL_COUNT(blocks); n++)
                check_kernel(&foci_quant_kernels[k], (focal_dtype)t, blocks[n], n % 4);
        note_ran("quant", foci_quant_kernels[k].name);
    }
    assert_ran("quant", "ref");
}

/* Small numbers, which some instructions take for zero, and large ones, which round to infinity. */
static void single_elements_round_as_one(void **state)
{
    focal_ctx *ctx = *state;
    enum { COUNT = 4096 };
    float *x = new_array(COUNT, sizeof *x);
    uint16_t *got = new_array(COUNT, sizeof *got);
    for (uint32_t n = 0; n < COUNT; n++) x[n] = float_from_bits((n << 20) + n * 37);
    for (size_t k = 0; k < foci_quant_kernel_count; k++) {
        if (!foci_quant_kernels[k].can(ctx)) continue;
        foci_quant_kernels[k].to_bf16(FOCAL_F32, x, COUNT, got);
        for (int n = 0; n < COUNT; n++)
            if (!same_bf16(got[n], foci_bf16_from_float(x[n])))
                fail_msg("%s: %a became 0x%04x", foci_quant_kernels[k].name, (double)x[n], got[n]);
    }
    free(x);
    free(got);
}

static void calls_choose_a_kernel(void **state)
{
    focal_ctx *ctx = *state;
    uint8_t block[sizeof(foci_q4_k)];
    float expected[FOCI_SUPER_BLOCK], got[FOCI_SUPER_BLOCK];
    uint16_t half[FOCI_SUPER_BLOCK];
    fill_random(block, sizeof block, 3);
    block[1] = block[3] = 0x2A; /* finite */
    assert_int_equal(focal_dequantize(FOCAL_Q4_K, block, FOCI_SUPER_BLOCK, expected), FOCAL_OK);
    assert_status(ctx, foci_dequantize(ctx, FOCAL_Q4_K, block, FOCI_SUPER_BLOCK, got), FOCAL_OK);
    assert_status(ctx, foci_dequantize_bf16(ctx, FOCAL_Q4_K, block, FOCI_SUPER_BLOCK, half),
                  FOCAL_OK);
    assert_memory_equal(got, expected, sizeof got);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++)
        assert_int_equal(half[n], foci_bf16_from_float(expected[n]));
    foci_ctx_mask_features(ctx, 0);
    assert_string_equal(foci_quant_pick(ctx)->name, "ref");
}

static void a_pinned_kernel_must_be_there(void **state)
{
    (void)state;
    focal_ctx *ctx = NULL;
    const focal_ctx_options options = {.threads = 1, .kernel = "avx2"};
    assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
    const foci_quant_kernel *kernel = foci_quant_pick(ctx);
    if (foci_has(ctx, FOCI_AVX2)) assert_string_equal(kernel->name, "avx2");
    foci_ctx_mask_features(ctx, 0);
    float x = 1.0F, y = 0.0F;
    uint16_t half = 0;
    assert_status(ctx, foci_dequantize(ctx, FOCAL_F32, &x, 1, &y), FOCAL_EUNSUPPORTED);
    assert_string_equal(focal_ctx_error(ctx), "quant: this machine lacks the pinned kernel avx2");
    assert_status(ctx, foci_dequantize_bf16(ctx, FOCAL_F32, &x, 1, &half), FOCAL_EUNSUPPORTED);
    focal_ctx_close(ctx);
}

static void bad_calls_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    uint8_t blocks[2 * sizeof(foci_q8_0)] = {0};
    float y[64] = {0};
    uint16_t half[64] = {0};
    assert_int_equal(focal_dequantize(FOCAL_Q8_0, blocks, 33, y), FOCAL_EINVAL);
    assert_int_equal(focal_dequantize(FOCAL_Q8_0, blocks, -32, y), FOCAL_EINVAL);
    assert_int_equal(focal_dequantize(FOCAL_Q8_0, NULL, 32, y), FOCAL_EINVAL);
    assert_int_equal(focal_dequantize(FOCAL_Q8_0, blocks, 32, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_dequantize((focal_dtype)TYPES, blocks, 0, y), FOCAL_EINVAL);
    assert_int_equal(focal_dequantize((focal_dtype)-1, blocks, 0, y), FOCAL_EINVAL);
    assert_int_equal(focal_dequantize(FOCAL_Q8_0, NULL, 0, NULL), FOCAL_OK);
    assert_status(ctx, foci_dequantize(ctx, FOCAL_Q4_K, blocks, 32, y), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "quant: 32 elements are not whole blocks of 256 (q4_k)");
    assert_status(ctx, foci_dequantize_bf16(ctx, (focal_dtype)99, blocks, 32, half), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "quant: there is no element type 99");
    assert_status(ctx, foci_dequantize(ctx, FOCAL_Q8_0, blocks, 32, NULL), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "quant: from and to must be set");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_have_their_sizes),
        cmocka_unit_test(f16_has_its_values),
        cmocka_unit_test(f16_rounds_to_nearest_even),
        cmocka_unit_test_setup_teardown(kernels_match_reference, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(single_elements_round_as_one, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(calls_choose_a_kernel, open_ctx, close_ctx),
        cmocka_unit_test(a_pinned_kernel_must_be_there),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("quant", tests, NULL, NULL);
}
