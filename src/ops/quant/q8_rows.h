/* Rows of float32 as blocks of q8_0: how a cache keeps keys and values. */
#ifndef FOCI_OPS_QUANT_Q8_ROWS_H
#define FOCI_OPS_QUANT_Q8_ROWS_H

#include "focal/base.h"
#include "ops/rows.h"

typedef struct foci_q8_rows_args {
    int64_t rows;
    int64_t width;    /* a multiple of 32 */
    const float *x;   /* (rows, width) */
    int64_t x_stride; /* floats from row to row; 0: width */
    void *out;        /* (rows, width / 32) blocks, packed, at any address; not x */
} foci_q8_rows_args;

/* The blocks of focal_quantize(), but nothing fails on a number: where one is infinite or NaN, the
 * block's scale is NaN, and where all are too large for a scale, it is infinite. So what is wrong
 * with a text shows when it is read. Every kernel writes the same bits.
 * FOCAL_EINVAL on a bad shape or a missing array. */
focal_status foci_q8_rows(focal_ctx *ctx, const foci_q8_rows_args *args);

extern const foci_rows_op foci_q8_rows_op;

void foci_q8_rows_ref(const void *args, int64_t first, int64_t count);
void foci_q8_rows_avx2(const void *args, int64_t first, int64_t count);
void foci_q8_rows_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_QUANT_Q8_ROWS_H */
