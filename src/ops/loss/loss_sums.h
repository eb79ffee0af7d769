/* The largest logit of a row and the sum of its exponentials, for one instruction set: the bodies
 * of the loss and of its gradient include this after a dialect. */
#ifndef FOCI_OPS_LOSS_LOSS_SUMS_H
#define FOCI_OPS_LOSS_LOSS_SUMS_H

#include <math.h>

#include "simd/vec_math.h"
#include "simd/vec_rows.h"

enum {
    BLOCK = 16 * VL,  /* terms that are added in float32; such sums are added in double */
    CHUNK = 8 * BLOCK /* terms that are searched for the largest at once */
};

/* NaN is passed over here and found by the sum. */
static inline float largest_of(const float *x, int64_t width)
{
    const vec least = v_set1(-INFINITY);
    vec max = least;
    for (int64_t n = 0; n < width; n += VL) {
        const int64_t lanes = v_lanes(n, width);
        const vec y = v_load_lanes(x + n, lanes);
        max = v_max(lanes < VL ? v_select((1U << lanes) - 1U, y, least) : y, max);
    }
    return v_reduce_max(max);
}

static inline double sum_of_exp(const float *x, vec max, int64_t width)
{
    double total = 0.0;
    for (int64_t first = 0; first < width; first += BLOCK) {
        const int64_t last = width - first < BLOCK ? width : first + BLOCK;
        vec sum = v_zero();
        for (int64_t n = first; n < last; n += VL) {
            const int64_t lanes = v_lanes(n, last);
            const vec e = v_exp_fine(v_sub(v_load_lanes(x + n, lanes), max));
            sum = v_add(sum, v_keep_lanes(e, lanes));
        }
        total += (double)v_reduce_add(sum);
    }
    return total;
}

/* The largest logit of a row, and the sum of e^(x - largest). */
typedef struct row_sums {
    float max;
    double sum;
} row_sums;

/* Both in one pass over memory: a chunk that stays in the first-level cache is searched, then
 * summed. The largest so far rarely moves; when it does the sum so far shrinks. */
static inline row_sums sums_of(const float *x, int64_t width)
{
    row_sums row = {-INFINITY, 0.0};
    for (int64_t first = 0; first < width; first += CHUNK) {
        const int64_t count = width - first < CHUNK ? width - first : CHUNK;
        const float max = largest_of(x + first, count);
        if (max > row.max) {
            row.sum *= exp((double)row.max - (double)max);
            row.max = max;
        }
        /* Until something is above minus infinity all exponentials are 0, and none is NaN. */
        const vec shift = v_set1(row.max > -INFINITY ? row.max : 0.0F);
        row.sum += sum_of_exp(x + first, shift, count);
    }
    if (!(row.max > -INFINITY)) row.sum = (double)NAN;
    return row;
}

#endif /* FOCI_OPS_LOSS_LOSS_SUMS_H */
