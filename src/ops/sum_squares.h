/* The sum of squares of an array and the count of what is not finite, for the norm of all gradients
 * (docs/MATH.md, 5.1). The same bits from every kernel and at any thread count. */
#ifndef FOCI_OPS_SUM_SQUARES_H
#define FOCI_OPS_SUM_SQUARES_H

#include "focal/base.h"
#include "ops/rows.h"

typedef struct foci_square_sum {
    double sum;        /* of the finite elements */
    int64_t odd_count; /* infinities and NaN */
} foci_square_sum;

/* x (count), in pieces of FOCI_SUM_PIECE elements that are added in order; 0 elements give 0. No
 * sum of squares of floats overflows a double. FOCAL_EINVAL on a bad call, FOCAL_ENOMEM without
 * scratch for a sum a piece. */
focal_status foci_sum_squares(focal_ctx *ctx, const float *x, int64_t count, foci_square_sum *out);

/* Element n of a piece belongs to sum n % FOCI_SUM_LANES, and these are added in order. */
enum { FOCI_SUM_PIECE = 1 << 14, FOCI_SUM_LANES = 32 };

typedef struct foci_sum_squares_args {
    const float *x;
    int64_t count;
    foci_square_sum *pieces;
} foci_sum_squares_args;

/* A piece is a row. */
extern const foci_rows_op foci_sum_squares_op;

void foci_sum_squares_ref(const void *args, int64_t first, int64_t count);
void foci_sum_squares_avx2(const void *args, int64_t first, int64_t count);
void foci_sum_squares_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_SUM_SQUARES_H */
