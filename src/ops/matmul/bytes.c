/* Types of weights that meet bytes of x, and memory for those bytes. */
#include "ops/matmul/bytes.h"

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

static const foci_byte_type types[] = {
    {FOCAL_Q4_0, FOCI_BYTES_HALVES, 32, 4, -8.0F, 15},
    {FOCAL_Q4_1, FOCI_BYTES_HALVES, 32, 4, 0.0F, 15},
    {FOCAL_Q5_0, FOCI_BYTES_HALVES, 32, 4, -16.0F, 31},
    {FOCAL_Q5_1, FOCI_BYTES_HALVES, 32, 4, 0.0F, 31},
    {FOCAL_IQ4_NL, FOCI_BYTES_HALVES, 32, 4, -128.0F, 255},
    {FOCAL_Q8_0, FOCI_BYTES_PLAIN, 32, 4, -128.0F, 255},
    {FOCAL_Q2_K, FOCI_BYTES_PLAIN, 16, 16, 0.0F, 3},
    {FOCAL_Q3_K, FOCI_BYTES_PLAIN, 16, 16, -4.0F, 7},
    {FOCAL_Q4_K, FOCI_BYTES_HALVES, 32, 8, 0.0F, 15},
    {FOCAL_Q5_K, FOCI_BYTES_HALVES, 32, 8, 0.0F, 31},
    {FOCAL_Q6_K, FOCI_BYTES_PLAIN, 16, 16, -32.0F, 63},
};

const foci_byte_type *foci_byte_type_of(focal_dtype dtype)
{
    for (size_t n = 0; n < FOCAL_COUNT(types); n++)
        if (types[n].dtype == dtype) return &types[n];
    return NULL;
}

focal_status foci_byte_rows_new(focal_ctx *ctx, const foci_matmul_args *a, foci_byte_rows *rows)
{
    const int64_t spans = foci_pieces(a->K, FOCI_BYTE_SPAN), count = a->M * spans;
    const size_t q_bytes = (size_t)(count * FOCI_BYTE_SPAN);
    const size_t factor_bytes = (size_t)(count * FOCI_BYTE_FACTORS) * sizeof(float);
    char *memory = foci_scratch(ctx, 2 * q_bytes + factor_bytes, 1);
    if (!memory) return FOCAL_ENOMEM;
    *rows = (foci_byte_rows){.spans = spans,
                             .high = (int8_t *)memory,
                             .low = (int8_t *)memory + q_bytes,
                             .factor = (float *)(void *)(memory + 2 * q_bytes)};
    return FOCAL_OK;
}

void foci_byte_rows_free(focal_ctx *ctx, foci_byte_rows *rows)
{
    foci_scratch_free(ctx, rows->high);
}
