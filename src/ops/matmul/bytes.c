/* Rows of x as kernels of bytes read them. */
#include "ops/matmul/bytes.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

enum {
    BLOCK = 32,
    QUAD = 128,
    MOST = 127 * 256 /* so that the upper byte fits */
};

static const float least = 0x1p-100F; /* below it a block is 0: its inverse would overflow */

static const foci_byte_type types[] = {
    {FOCAL_Q4_0, FOCI_BYTES_HALVES, 32, 4, -8.0F},
    {FOCAL_Q4_1, FOCI_BYTES_HALVES, 32, 4, 0.0F},
    {FOCAL_Q5_0, FOCI_BYTES_HALVES, 32, 4, -16.0F},
    {FOCAL_Q5_1, FOCI_BYTES_HALVES, 32, 4, 0.0F},
    {FOCAL_IQ4_NL, FOCI_BYTES_HALVES, 32, 4, -128.0F},
    {FOCAL_Q8_0, FOCI_BYTES_PLAIN, 32, 4, -128.0F},
    {FOCAL_Q2_K, FOCI_BYTES_PLAIN, 16, 16, 0.0F},
    {FOCAL_Q3_K, FOCI_BYTES_PLAIN, 16, 16, -4.0F},
    {FOCAL_Q4_K, FOCI_BYTES_PLAIN, 32, 8, 0.0F},
    {FOCAL_Q5_K, FOCI_BYTES_PLAIN, 32, 8, 0.0F},
    {FOCAL_Q6_K, FOCI_BYTES_PLAIN, 16, 16, -32.0F},
};

const foci_byte_type *foci_byte_type_of(focal_dtype dtype)
{
    for (size_t n = 0; n < FOCAL_COUNT(types); n++)
        if (types[n].dtype == dtype) return &types[n];
    return NULL;
}

/* Where element n of a span lies. */
static int64_t place(foci_byte_order order, int64_t n)
{
    if (order == FOCI_BYTES_PLAIN) return n;
    const int64_t block = n % QUAD / BLOCK, half = n % BLOCK / 16;
    return n / QUAD * QUAD + half * (QUAD / 2) + block * 16 + n % 16;
}

/* q = x / d to the nearest, with d such that the largest is MOST. Loops that compilers turn into
 * vectors: no branch, no call. */
static float round_block(const float *x, int32_t q[BLOCK])
{
    float most = 0.0F, odd = 0.0F;
    for (int n = 0; n < BLOCK; n++) {
        const float size = fabsf(x[n]);
        most = size > most ? size : most;
        odd += x[n] * 0.0F; /* NaN when one is infinite or NaN */
    }
    const bool is_zero = !(most > least) || odd != 0.0F;
    const float inverse = is_zero ? 0.0F : (float)MOST / most;
    for (int n = 0; n < BLOCK; n++) {
        /* Adding 1.5 2^23 leaves no bit for a fraction: the sum is a whole number. */
        const float whole = (x[n] * inverse + 0x1.8p23F) - 0x1.8p23F;
        q[n] = is_zero ? 0 : (int32_t)whole;
    }
    if (odd != 0.0F) return NAN;
    return is_zero ? 0.0F : most / (float)MOST;
}

static void unpack_block(const foci_byte_type *type, const float *x, int64_t at,
                         const foci_byte_rows *rows, int64_t span)
{
    int32_t q[BLOCK];
    int8_t high[BLOCK], low[BLOCK];
    const float d = round_block(x, q);
    const float factor = type->offset == 0.0F ? d : d * type->offset;
    for (int n = 0; n < BLOCK; n++) {
        const int32_t upper = (q[n] + 128) >> 8;
        high[n] = (int8_t)upper;
        low[n] = (int8_t)(q[n] - 256 * upper);
    }
    for (int64_t from = 0; from < BLOCK; from += 16) {
        const int64_t to = span * FOCI_BYTE_SPAN + place(type->order, at + from);
        memcpy(rows->high + to, high + from, 16);
        memcpy(rows->low + to, low + from, 16);
    }
    for (int64_t from = 0; from < BLOCK; from += type->run) {
        int32_t sum = 0;
        for (int64_t n = from; n < from + type->run; n++) sum += q[n];
        const int64_t run = (at + from) / type->run, group = run / type->group;
        float *to = rows->factor + span * FOCI_BYTE_FACTORS + 2 * group * type->group;
        to[run % type->group] = d;
        to[type->group + run % type->group] = factor * (float)sum;
    }
}

focal_status foci_byte_rows_make(focal_ctx *ctx, const foci_matmul_args *a, foci_byte_rows *rows)
{
    const foci_byte_type *type = foci_byte_type_of(a->w_dtype);
    const int64_t spans = foci_pieces(a->K, FOCI_BYTE_SPAN), count = a->M * spans;
    const size_t q_bytes = (size_t)(count * FOCI_BYTE_SPAN);
    const size_t factor_bytes = (size_t)(count * FOCI_BYTE_FACTORS) * sizeof(float);
    char *memory = foci_scratch(ctx, 2 * q_bytes + factor_bytes, 1);
    if (!memory) return FOCAL_ENOMEM;
    *rows = (foci_byte_rows){.spans = spans,
                             .high = (int8_t *)memory,
                             .low = (int8_t *)memory + q_bytes,
                             .factor = (float *)(void *)(memory + 2 * q_bytes)};
    for (int64_t m = 0; m < a->M; m++) {
        const int64_t last = (m + 1) * spans - 1; /* the only one that may not be full */
        if (a->K % FOCI_BYTE_SPAN != 0) {
            memset(rows->high + last * FOCI_BYTE_SPAN, 0, FOCI_BYTE_SPAN);
            memset(rows->low + last * FOCI_BYTE_SPAN, 0, FOCI_BYTE_SPAN);
            memset(rows->factor + last * FOCI_BYTE_FACTORS, 0, FOCI_BYTE_FACTORS * sizeof(float));
        }
        const float *x = (const float *)a->x + m * a->x_stride;
        for (int64_t k = 0; k < a->K; k += BLOCK)
            unpack_block(type, x + k, k % FOCI_BYTE_SPAN, rows, m * spans + k / FOCI_BYTE_SPAN);
    }
    return FOCAL_OK;
}

void foci_byte_rows_free(focal_ctx *ctx, foci_byte_rows *rows)
{
    foci_scratch_free(ctx, rows->high);
}
