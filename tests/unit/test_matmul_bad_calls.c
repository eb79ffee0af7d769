/* Wrong products get a status and a sentence, never a crash, and out stays as it was. */
#include "support/check.h"

#include <string.h>

#include "ops/matmul/matmul_kernels.h"
#include "support/matmul_cases.h"

typedef void (*bend)(foci_matmul_args *a);

static void *writable(const void *data)
{
    void *result;
    memcpy(&result, &data, sizeof result);
    return result;
}

/* Each bend makes one thing wrong with a product of 3 x 5 x 64. */
#define BEND(name, statement)                                                                      \
    static void name(foci_matmul_args *a)                                                          \
    {                                                                                              \
        statement;                                                                                 \
    }

BEND(no_x, a->x = NULL)
BEND(no_w, a->w = NULL)
BEND(no_out, a->out = NULL)
BEND(zero_M, a->M = 0)
BEND(negative_N, a->N = -5)
BEND(zero_K, a->K = 0)
BEND(least_K, a->K = INT64_MIN)
BEND(huge_M, a->M = (int64_t)INT32_MAX + 1)
BEND(huge_N, (a->N = INT64_MAX, a->out_stride = INT64_MAX))
BEND(huge_K, (a->K = INT64_MAX / 64 * 64, a->x_stride = INT64_MAX))
BEND(short_x_stride, a->x_stride = 63)
BEND(short_out_stride, a->out_stride = 4)
BEND(negative_x_stride, a->x_stride = -64)
BEND(huge_x_stride, a->x_stride = INT64_MAX)
BEND(huge_out_stride, a->out_stride = INT64_MAX / 4)
BEND(x_of_f16, a->x_dtype = FOCAL_F16)
BEND(x_of_q8, a->x_dtype = FOCAL_Q8_0)
BEND(x_unknown, a->x_dtype = (focal_dtype)99)
BEND(out_of_f16, a->out_dtype = FOCAL_F16)
BEND(out_negative, a->out_dtype = (focal_dtype)-1)
BEND(w_unknown, a->w_dtype = (focal_dtype)14)
BEND(w_negative, a->w_dtype = (focal_dtype)-1)
BEND(w_transposed_blocks, (a->w_dtype = FOCAL_Q8_0, a->w_is_transposed = true))
BEND(short_w_stride, a->w_stride = 63)
BEND(negative_w_stride, a->w_stride = -64)
BEND(huge_w_stride, a->w_stride = INT64_MAX)
BEND(w_stride_in_block, (a->w_dtype = FOCAL_Q8_0, a->w_stride = 80))
BEND(short_transposed_x, (a->x_is_transposed = true, a->x_stride = 2))
BEND(out_in_transposed_x,
     (a->x_is_transposed = true, a->x_stride = 9, a->out = (float *)writable(a->x) + 567))
BEND(w_part_of_block, (a->w_dtype = FOCAL_Q4_1, a->K = 48))
BEND(w_part_of_long_block, a->w_dtype = FOCAL_Q6_K)
BEND(out_is_x, a->out = writable(a->x))
BEND(out_inside_x, a->out = (char *)writable(a->x) + 128)
BEND(out_ends_in_x, a->out = (char *)writable(a->x) - 8)
BEND(out_is_w, a->out = writable(a->w))
BEND(out_in_columns_of_x, (a->x_stride = a->out_stride = 68, a->out = (float *)writable(a->x) + 63))
BEND(out_wraps_columns_of_x,
     (a->x_stride = a->out_stride = 68, a->out = (float *)writable(a->x) + 64))

static const struct {
    bend bend;
    const char *sentence;
} wrongs[] = {
    {no_x, "matmul: x, w and out must be set"},
    {no_w, "matmul: x, w and out must be set"},
    {no_out, "matmul: x, w and out must be set"},
    {zero_M, "matmul: M 0, N 5 and K 64 must be 1 to 2147483647"},
    {negative_N, "matmul: M 3, N -5 and K 64 must be 1 to 2147483647"},
    {zero_K, "matmul: M 3, N 5 and K 0 must be 1 to 2147483647"},
    {least_K, NULL},
    {huge_M, "matmul: M 2147483648, N 5 and K 64 must be 1 to 2147483647"},
    {huge_N, NULL},
    {huge_K, NULL},
    {short_x_stride, "matmul: strides 63 of x and 5 of out for rows of 64 and 5"},
    {short_out_stride, "matmul: strides 64 of x and 4 of out for rows of 64 and 5"},
    {negative_x_stride, NULL},
    {huge_x_stride, NULL},
    {huge_out_stride, NULL},
    {x_of_f16, "matmul: x is f16 and out f32, both must be f32 or bf16"},
    {x_of_q8, "matmul: x is q8_0 and out f32, both must be f32 or bf16"},
    {x_unknown, "matmul: x is ? and out f32, both must be f32 or bf16"},
    {out_of_f16, "matmul: x is f32 and out f16, both must be f32 or bf16"},
    {out_negative, NULL},
    {w_unknown, "matmul: w has the unknown type 14"},
    {w_negative, NULL},
    {w_transposed_blocks, "matmul: rows of 5 weights of q8_0, not whole blocks of 32"},
    {short_w_stride, "matmul: stride 63 of w for rows of 64, in blocks of 1"},
    {negative_w_stride, NULL},
    {huge_w_stride, NULL},
    {w_stride_in_block, "matmul: stride 80 of w for rows of 64, in blocks of 32"},
    {short_transposed_x, "matmul: strides 2 of x and 5 of out for rows of 3 and 5"},
    {out_in_transposed_x, "matmul: out overlaps x"},
    {w_part_of_block, "matmul: rows of 48 weights of q4_1, not whole blocks of 32"},
    {w_part_of_long_block, "matmul: rows of 64 weights of q6_k, not whole blocks of 256"},
    {out_is_x, "matmul: out overlaps x"},
    {out_inside_x, "matmul: out overlaps x"},
    {out_ends_in_x, "matmul: out overlaps x"},
    {out_is_w, "matmul: out overlaps w"},
    {out_in_columns_of_x, "matmul: out overlaps x"},
    {out_wraps_columns_of_x, "matmul: out overlaps x"},
};

static void wrong_calls_get_sentences(void **state)
{
    focal_ctx *ctx = *state;
    const matmul_spec spec = {.M = 3, .N = 5, .K = 64};
    matmul_case *c = matmul_case_new(&spec, 1);
    for (size_t n = 0; n < FOCAL_COUNT(wrongs); n++) {
        foci_matmul_args bent = c->args;
        wrongs[n].bend(&bent);
        matmul_case_clear(c);
        assert_status(ctx, foci_matmul(ctx, &bent), FOCAL_EINVAL);
        assert_memory_equal(c->out, c->before, c->out_bytes);
        if (wrongs[n].sentence) assert_string_equal(focal_ctx_error(ctx), wrongs[n].sentence);
    }
    assert_status(ctx, foci_matmul(ctx, NULL), FOCAL_EINVAL);
    assert_int_equal(foci_matmul(NULL, &c->args), FOCAL_EINVAL);
    matmul_case_clear(c);
    assert_status(ctx, foci_matmul(ctx, &c->args), FOCAL_OK);
    matmul_case_check(c, "after");
    matmul_case_free(c);
}

/* x and out may be neighbours, and columns of one buffer. */
static void neighbours_do_not_overlap(void **state)
{
    focal_ctx *ctx = *state;
    const matmul_spec spec = {.M = 3, .N = 5, .K = 64};
    matmul_case *c = matmul_case_new(&spec, 1);
    float buffer[3 * 70] = {0};
    foci_matmul_args a = c->args;
    a.x = buffer;
    a.out = buffer + 192;
    assert_status(ctx, foci_matmul(ctx, &a), FOCAL_OK);
    a.x = buffer + 15;
    a.out = buffer;
    assert_status(ctx, foci_matmul(ctx, &a), FOCAL_OK);
    a.x_stride = a.out_stride = 69;
    a.x = buffer;
    a.out = buffer + 64;
    assert_status(ctx, foci_matmul(ctx, &a), FOCAL_OK);
    a.x = buffer + 5;
    a.out = buffer;
    assert_status(ctx, foci_matmul(ctx, &a), FOCAL_OK);
    matmul_case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_calls_get_sentences, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(neighbours_do_not_overlap, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_bad_calls", tests, NULL, NULL);
}
