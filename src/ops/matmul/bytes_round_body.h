/* Rounds rows of x to 16 bits and takes their bytes apart. Plain loops that compilers turn into
 * vectors, so it is included by one file an instruction set: a token waits for it four times a
 * layer. */
#ifndef FOCI_OPS_MATMUL_BYTES_ROUND_BODY_H
#define FOCI_OPS_MATMUL_BYTES_ROUND_BODY_H

#include <math.h>
#include <string.h>

#include "base/pool.h"
#include "base/sizes.h"
#include "ops/matmul/bytes.h"
#include "simd/tile.h"

enum {
    ROUND_BLOCK = 32,             /* elements that share d_x */
    ROUND_QUAD = 4 * ROUND_BLOCK, /* whose halves FOCI_BYTES_HALVES brings together */
    ROUND_MOST = 127 * 256,       /* so that the upper byte fits */
    ROUND_PIECE = 1 << 13         /* elements for a thread, at least: a microsecond or two */
};

/* q = x / d to the nearest, with d such that the largest is ROUND_MOST. */
FOCI_INLINE float round_block(const float *x, int32_t q[ROUND_BLOCK])
{
    const int32_t infinity = 0x7F800000;
    const float least = 0x1p-100F; /* below it a block is 0: its inverse would overflow */
    int32_t bits[ROUND_BLOCK], largest = 0;
    float most;
    memcpy(bits, x, sizeof bits);
    for (int n = 0; n < ROUND_BLOCK; n++) { /* without signs, floats are in the order of integers */
        const int32_t size = bits[n] & INT32_MAX;
        largest = size > largest ? size : largest;
    }
    memcpy(&most, &largest, sizeof most);
    if (largest >= infinity) {
        memset(q, 0, ROUND_BLOCK * sizeof *q);
        return NAN;
    }
    const float inverse = most > least ? (float)ROUND_MOST / most : 0.0F;
    for (int n = 0; n < ROUND_BLOCK; n++) {
        /* Adding 1.5 2^23 leaves no bit for a fraction: the sum is a whole number. */
        q[n] = (int32_t)((x[n] * inverse + 0x1.8p23F) - 0x1.8p23F);
    }
    return most > least ? most / (float)ROUND_MOST : 0.0F;
}

/* Where element n of a span lies; n is a multiple of 16. */
FOCI_INLINE uint64_t byte_place(foci_byte_order order, uint64_t n)
{
    if (order == FOCI_BYTES_PLAIN) return n;
    const uint64_t block = n % ROUND_QUAD / ROUND_BLOCK, half = n % ROUND_BLOCK / 16;
    return n / ROUND_QUAD * ROUND_QUAD + half * (ROUND_QUAD / 2) + block * 16;
}

FOCI_INLINE void put_run(const foci_byte_type *type, float *factors, int64_t run, float d,
                         int32_t sum)
{
    const int64_t in = run & (type->group - 1); /* groups are powers of two */
    float *to = factors + 2 * (run - in);
    to[in] = d;
    to[type->group + in] = (type->offset == 0.0F ? d : d * type->offset) * (float)sum;
}

/* 32 elements that lie from `at` on in a span. */
FOCI_INLINE void unpack_block(const foci_byte_type *type, const float *x, int64_t at,
                              const foci_byte_rows *rows, int64_t span)
{
    int32_t q[ROUND_BLOCK], sums[2] = {0, 0};
    int8_t high[ROUND_BLOCK], low[ROUND_BLOCK];
    float *factors = rows->factor + span * FOCI_BYTE_FACTORS;
    const float d = round_block(x, q);
    for (int n = 0; n < ROUND_BLOCK; n++) {
        const int32_t upper = (q[n] + 128) >> 8;
        high[n] = (int8_t)upper;
        low[n] = (int8_t)(q[n] - 256 * upper);
    }
    for (int n = 0; n < 16; n++) sums[0] += q[n];
    for (int n = 16; n < 32; n++) sums[1] += q[n];
    for (int half = 0; half < 2; half++) {
        const uint64_t in = byte_place(type->order, (uint64_t)(at + (int64_t)16 * half));
        const int64_t to = span * FOCI_BYTE_SPAN + (int64_t)in;
        memcpy(rows->high + to, high + (ptrdiff_t)16 * half, 16);
        memcpy(rows->low + to, low + (ptrdiff_t)16 * half, 16);
    }
    if (type->run == ROUND_BLOCK) {
        put_run(type, factors, at / ROUND_BLOCK, d, sums[0] + sums[1]);
        return;
    }
    put_run(type, factors, at / 16, d, sums[0]);
    put_run(type, factors, at / 16 + 1, d, sums[1]);
}

typedef struct round_call {
    const foci_matmul_args *a;
    const foci_byte_rows *rows;
    int64_t piece; /* rows of an item */
} round_call;

static void round_rows(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const round_call *r = arg;
    const foci_matmul_args *a = r->a;
    const foci_byte_rows *rows = r->rows;
    const foci_byte_type *type = foci_byte_type_of(a->w_dtype);
    const int64_t end = foci_min64(a->M, (index + 1) * r->piece);
    for (int64_t m = index * r->piece; m < end; m++) {
        const int64_t last = (m + 1) * rows->spans - 1; /* the only one that may not be full */
        if (a->K % FOCI_BYTE_SPAN != 0) {
            memset(rows->high + last * FOCI_BYTE_SPAN, 0, FOCI_BYTE_SPAN);
            memset(rows->low + last * FOCI_BYTE_SPAN, 0, FOCI_BYTE_SPAN);
            memset(rows->factor + last * FOCI_BYTE_FACTORS, 0, FOCI_BYTE_FACTORS * sizeof(float));
        }
        const float *x = (const float *)a->x + m * a->x_stride;
        for (int64_t k = 0; k < a->K; k += ROUND_BLOCK)
            unpack_block(type, x + k, k % FOCI_BYTE_SPAN, rows,
                         m * rows->spans + k / FOCI_BYTE_SPAN);
    }
}

/* Fills rows that foci_byte_rows_new() made. */
static void fill_byte_rows(focal_ctx *ctx, const foci_matmul_args *args, const foci_byte_rows *rows)
{
    round_call r = {args, rows, foci_max64(ROUND_PIECE / args->K, 1)};
    foci_parallel(ctx, foci_pieces(args->M, r.piece), round_rows, &r);
}

#endif /* FOCI_OPS_MATMUL_BYTES_ROUND_BODY_H */
