/* Wrong calls of the product's gradients get a status and a sentence, never a crash. */
#include "support/check.h"

#include "ops/matmul/matmul_grads.h"

#define DX(name, statement)                                                                        \
    static void name(foci_matmul_dx_args *a)                                                       \
    {                                                                                              \
        statement;                                                                                 \
    }
#define DW(name, statement)                                                                        \
    static void name(foci_matmul_dw_args *a)                                                       \
    {                                                                                              \
        statement;                                                                                 \
    }

/* Of dx (3,64) = dy (3,5) w (5,64). */
DX(dx_without_dy, a->dy = NULL)
DX(dx_without_w, a->w = NULL)
DX(dx_without_dx, a->dx = NULL)
DX(dx_zero_N, a->N = 0)
DX(dx_huge_K, (a->K = INT64_MAX, a->dx_stride = INT64_MAX))
DX(dx_short_dy, a->dy_stride = 4)
DX(dx_short_dx, a->dx_stride = 63)
DX(dx_of_f16, a->dy_dtype = FOCAL_F16)
DX(dx_unknown_w, a->w_dtype = (focal_dtype)99)
DX(dx_part_of_block, a->w_dtype = FOCAL_Q6_K)
DX(dx_in_dy, a->dx = (float *)a->dx - 1)

/* Of dw (5,7) = dy^T (3,5) x (3,7). */
DW(dw_without_dy, a->dy = NULL)
DW(dw_without_x, a->x = NULL)
DW(dw_without_dw, a->dw = NULL)
DW(dw_zero_M, a->M = 0)
DW(dw_short_dy, a->dy_stride = 4)
DW(dw_short_x, a->x_stride = 6)
DW(dw_zero_x_stride, a->x_stride = 0)
DW(dw_zero_dy_stride, (a->dy_stride = 0, a->dw_is_transposed = true))
DW(dw_of_q8, a->dtype = FOCAL_Q8_0)
DW(dw_short_transposed, (a->x_stride = 6, a->dw_is_transposed = true))
DW(dw_dbias_in_dw, a->dbias = a->dw + 34)

static void wrong_calls_get_sentences(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        void (*bend)(foci_matmul_dx_args *a);
        const char *sentence;
    } dx_wrongs[] = {
        {dx_without_dy, "matmul_dx: dy, w and dx must be set"},
        {dx_without_w, "matmul_dx: dy, w and dx must be set"},
        {dx_without_dx, "matmul_dx: dy, w and dx must be set"},
        {dx_zero_N, "matmul_dx: M 3, K 64 and N 0 must be 1 to 2147483647"},
        {dx_huge_K, "matmul_dx: M 3, K 9223372036854775807 and N 5 must be 1 to 2147483647"},
        {dx_short_dy, "matmul_dx: strides 4 of dy and 64 of dx for rows of 5 and 64"},
        {dx_short_dx, "matmul_dx: strides 5 of dy and 63 of dx for rows of 5 and 64"},
        {dx_of_f16, "matmul_dx: dy is f16 and dx f32, both must be f32 or bf16"},
        {dx_unknown_w, "matmul_dx: w has the unknown type 99"},
        {dx_part_of_block, "matmul_dx: rows of 64 weights of q6_k, not whole blocks of 256"},
        {dx_in_dy, "matmul_dx: dx overlaps dy"},
    };
    static const struct {
        void (*bend)(foci_matmul_dw_args *a);
        const char *sentence;
    } dw_wrongs[] = {
        {dw_without_dy, "matmul_dw: dy, x and dw must be set"},
        {dw_without_x, "matmul_dw: dy, x and dw must be set"},
        {dw_without_dw, "matmul_dw: dy, x and dw must be set"},
        {dw_zero_M, "matmul_dw: N 5, K 7 and M 0 must be 1 to 2147483647"},
        {dw_short_dy, "matmul_dw: strides 4 of dy and 7 of dw for rows of 5 and 7"},
        {dw_short_x, "matmul_dw: stride 6 of x for rows of 7, in blocks of 1"},
        {dw_zero_x_stride, "matmul_dw: stride 0 of x"},
        {dw_zero_dy_stride, "matmul_dw: stride 0 of dy"},
        {dw_of_q8, "matmul_dw: dy is q8_0 and dw f32, both must be f32 or bf16"},
        {dw_short_transposed, "matmul_dw: strides 6 of x and 5 of dw for rows of 7 and 5"},
        {dw_dbias_in_dw, "matmul_dw: dbias overlaps dy, x or dw"},
    };
    float dy[3 * 5 + 3 * 64] = {0}, w[5 * 64] = {0}, x[3 * 7] = {0}, dw[5 * 7 + 5];
    const foci_matmul_dx_args dx_good = {
        .M = 3, .N = 5, .K = 64, .dy = dy, .dy_stride = 5, .w = w, .dx = dy + 15, .dx_stride = 64};
    const foci_matmul_dw_args dw_good = {.M = 3,
                                         .N = 5,
                                         .K = 7,
                                         .dy = dy,
                                         .dy_stride = 5,
                                         .x = x,
                                         .x_stride = 7,
                                         .dw = dw,
                                         .dbias = dw + 35};
    for (size_t n = 0; n < FOCAL_COUNT(dx_wrongs); n++) {
        foci_matmul_dx_args bent = dx_good;
        dx_wrongs[n].bend(&bent);
        assert_status(ctx, foci_matmul_dx(ctx, &bent), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), dx_wrongs[n].sentence);
    }
    for (size_t n = 0; n < FOCAL_COUNT(dw_wrongs); n++) {
        foci_matmul_dw_args bent = dw_good;
        dw_wrongs[n].bend(&bent);
        assert_status(ctx, foci_matmul_dw(ctx, &bent), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), dw_wrongs[n].sentence);
    }
    assert_status(ctx, foci_matmul_dx(ctx, NULL), FOCAL_EINVAL);
    assert_status(ctx, foci_matmul_dw(ctx, NULL), FOCAL_EINVAL);
    assert_int_equal(foci_matmul_dx(NULL, &dx_good), FOCAL_EINVAL);
    assert_int_equal(foci_matmul_dw(NULL, &dw_good), FOCAL_EINVAL);
    assert_status(ctx, foci_matmul_dx(ctx, &dx_good), FOCAL_OK);
    assert_status(ctx, foci_matmul_dw(ctx, &dw_good), FOCAL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_calls_get_sentences, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_grads_bad_calls", tests, NULL, NULL);
}
