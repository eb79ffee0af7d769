/* Sums of squares for one instruction set: sum_squares_avx2.c and sum_squares_avx512.c include this
 * after a dialect. */
#ifndef FOCI_OPS_SUM_SQUARES_BODY_H
#define FOCI_OPS_SUM_SQUARES_BODY_H

#include "base/sizes.h"
#include "ops/sum_squares.h"
#include "simd/vec_rows.h"

enum { VECTORS = FOCI_SUM_LANES / VL };

static foci_square_sum sum_of_piece(const float *x, int64_t width)
{
    vec_sums sums[VECTORS];
    double lanes[FOCI_SUM_LANES];
    foci_square_sum out = {0};
    for (int k = 0; k < VECTORS; k++) sums[k] = v_sums_zero();
    for (int64_t first = 0; first < width; first += FOCI_SUM_LANES)
        for (int64_t k = 0; k < VECTORS && first + k * VL < width; k++) {
            const int64_t n = first + k * VL;
            vec y = v_load_lanes(x + n, v_lanes(n, width));
            const uint32_t odd = v_odd_floats(y);
            if (odd) {
                out.odd_count += __builtin_popcount(odd);
                y = v_select(odd, v_zero(), y);
            }
            sums[k] = v_sums_add_squares(sums[k], y);
        }
    for (int64_t k = 0; k < VECTORS; k++) v_sums_store(&lanes[k * VL], sums[k]);
    for (int n = 0; n < FOCI_SUM_LANES; n++) out.sum += lanes[n];
    return out;
}

static void sum_pieces(const foci_sum_squares_args *a, int64_t first, int64_t count)
{
    for (int64_t piece = first; piece < first + count; piece++) {
        const int64_t at = piece * FOCI_SUM_PIECE;
        a->pieces[piece] = sum_of_piece(a->x + at, foci_min64(FOCI_SUM_PIECE, a->count - at));
    }
}

#endif /* FOCI_OPS_SUM_SQUARES_BODY_H */
