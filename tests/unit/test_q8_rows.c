/* Rows as q8_0: every kernel writes the bytes of focal_quantize(), ties, tiny and huge numbers
 * included; infinities and NaN spoil their block and no other; bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/quant.h"
#include "ops/quant/q8_rows.h"
#include "support/op_cases.h"

enum { ROWS = 37, WIDTH = 96, STRIDE = 101, COUNT = ROWS * WIDTH, BYTES = COUNT / 32 * 34 };

/* Packed rows to rows of STRIDE, NaN between them, and through one kernel; guards stay. */
static void run(const foci_rows_kernel *kernel, const float *x, uint8_t *out)
{
    float *wide = new_array((size_t)ROWS * STRIDE, sizeof *wide);
    uint8_t *block = new_array(BYTES + 2, 1);
    fill_nan(wide, (size_t)ROWS * STRIDE, FOCAL_F32);
    memset(block, 0xAB, BYTES + 2);
    for (int64_t r = 0; r < ROWS; r++) memcpy(wide + r * STRIDE, x + r * WIDTH, WIDTH * sizeof *x);
    const foci_q8_rows_args args = {
        .rows = ROWS, .width = WIDTH, .x = wide, .x_stride = STRIDE, .out = block + 1};
    kernel->run(&args, 5, ROWS - 5); /* rows in pieces */
    kernel->run(&args, 0, 5);
    assert_int_equal(block[0], 0xAB);
    assert_int_equal(block[BYTES + 1], 0xAB);
    memcpy(out, block + 1, BYTES);
    note_ran("q8_rows", kernel->name);
    free(wide);
    free(block);
}

static void check_kernels(focal_ctx *ctx, const char *what, const float *x)
{
    static uint8_t expected[BYTES], got[BYTES];
    if (focal_quantize(ctx, FOCAL_Q8_0, x, ROWS, WIDTH, expected) != FOCAL_OK)
        fail_msg("%s", focal_ctx_error(ctx));
    size_t next = 0;
    const foci_rows_kernel *kernel;
    while ((kernel = next_kernel(ctx, &foci_q8_rows_op, &next))) {
        run(kernel, x, got);
        for (int n = 0; n < BYTES; n++)
            if (got[n] != expected[n])
                fail_msg("%s: %s: byte %d is %d, not %d", kernel->name, what, n, got[n],
                         expected[n]);
    }
}

static void kernels_write_the_same_bytes(void **state)
{
    focal_ctx *ctx = *state;
    static const float scales[] = {1.0F, 1e-3F, 1e-7F, 1e-30F, 1e-39F, 1e-44F, 1e4F, 1.5e6F, 0.0F};
    for (size_t s = 0; s < FOCAL_COUNT(scales); s++) {
        float *x = new_normals(COUNT, scales[s], s + 1);
        check_kernels(ctx, "normals", x);
        free(x);
    }
    /* With a largest number of 127 the levels are the numbers: halves, and what is next to them. */
    float *x = new_normals(COUNT, 1.0F, 99);
    for (int n = 0; n < COUNT; n++) {
        const float half = (float)(n % 126) + 0.5F, sign = n % 3 == 0 ? -1.0F : 1.0F;
        const float near = n % 5 == 0 ? nextafterf(half, 0.0F) : half;
        x[n] = n % 32 == 0 ? 127.0F : sign * near;
    }
    check_kernels(ctx, "ties", x);
    free(x);
    /* every kernel that the machine has: the table has none of its own for bfloat16 */
    assert_non_null(foci_rows_pick(ctx, &foci_q8_rows_op));
}

static bool is_spoilt(const uint8_t *block)
{
    float values[32];
    assert_int_equal(focal_dequantize(FOCAL_Q8_0, block, 32, values), FOCAL_OK);
    for (int n = 0; n < 32; n++)
        if (!isnan(values[n])) return false;
    return true;
}

static void odd_numbers_spoil_their_block(void **state)
{
    focal_ctx *ctx = *state;
    static const float odd[] = {NAN, INFINITY, -INFINITY};
    static uint8_t before[BYTES], got[BYTES];
    size_t next = 0;
    const foci_rows_kernel *kernel;
    while ((kernel = next_kernel(ctx, &foci_q8_rows_op, &next))) {
        for (int at = 0; at < COUNT; at += 43) {
            float *x = new_normals(COUNT, 1.0F, 5);
            run(kernel, x, before);
            x[at] = odd[at % 3];
            run(kernel, x, got);
            for (int b = 0; b < COUNT / 32; b++) {
                const bool has_odd = b == at / 32;
                if (is_spoilt(got + (ptrdiff_t)b * 34) != has_odd ||
                    (!has_odd &&
                     memcmp(got + (ptrdiff_t)b * 34, before + (ptrdiff_t)b * 34, 34) != 0))
                    fail_msg("%s: element %d, block %d", kernel->name, at, b);
            }
            free(x);
        }
        /* Too large for a scale: not finite, and the same from every kernel. */
        float *x = new_normals(COUNT, 1.0F, 6);
        x[40] = -9e6F;
        run(kernel, x, got);
        assert_int_equal(got[34], 0);
        assert_int_equal(got[35], 0x7C);
        free(x);
    }
}

static void make_rows(focal_ctx *ctx, const void *problem, void *out)
{
    const foci_q8_rows_args args = {.rows = 1500, .width = 64, .x = problem, .out = out};
    assert_status(ctx, foci_q8_rows(ctx, &args), FOCAL_OK);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    float *x = new_normals((int64_t)1500 * 64, 1.0F, 3);
    assert_same_bits("q8_rows", (size_t)1500 * 2 * 34, x, make_rows);
    free(x);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[64] = {0};
    uint8_t out[68];
    foci_q8_rows_args args = {.rows = 1, .width = 64, .x = x, .out = out};
    assert_int_equal(foci_q8_rows(NULL, &args), FOCAL_EINVAL);
    args.width = 33;
    assert_status(ctx, foci_q8_rows(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "q8_rows: rows of 33 are not whole blocks of 32");
    args.width = 64;
    args.x_stride = 63;
    assert_status(ctx, foci_q8_rows(ctx, &args), FOCAL_EINVAL);
    args.x_stride = 0;
    args.rows = -1;
    assert_status(ctx, foci_q8_rows(ctx, &args), FOCAL_EINVAL);
    args.rows = 1;
    args.out = NULL;
    assert_status(ctx, foci_q8_rows(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "q8_rows: x and out must be set");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_write_the_same_bytes, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_numbers_spoil_their_block, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("q8_rows", tests, NULL, NULL);
}
