/* The sizes of backward's tiles, and the product of them that the gradients of keys, values and
 * memberships share. */
#ifndef FOCI_OPS_ATTN_ATTN_BACKWARD_TILE_H
#define FOCI_OPS_ATTN_ATTN_BACKWARD_TILE_H

#include "ops/attn/attn_tile.h"

enum {
    QUERY_TILE = 96, /* rows at a time */
    QUERY_PANELS = QUERY_TILE / NR,
    SUB_KEYS = 96, /* keys between two passes of the three products */
    SUB_STRIPS = SUB_KEYS / STRIP_ROWS,
    KEY_BLOCK = 384
};

/* sums[MR rows of keys] += left factor (keys x queries of the panels [from, to)) x columns. */
FOCI_INLINE void add_product(float *sums, int64_t stride, int64_t width, const float *left,
                             const float *columns, int32_t from, int32_t to, bool is_odd)
{
    for (int64_t c = 0; c * NR < width; c++) {
        vec acc[MR][2];
        tile_load(acc, sums + c * NR, stride);
        for (int32_t p = from; p < to; p++) {
            const float *a = left + (int64_t)p * SUB_KEYS * (NR / PACK);
            const float *b = columns + c * ((int64_t)QUERY_TILE / PACK * NR) +
                             (int64_t)p * ((int64_t)NR / PACK * NR);
            if (__builtin_expect(is_odd, 0)) {
                tile_store(sums + c * NR, stride, acc);
                tile_dot_odd_right(sums + c * NR, stride, a, NR / PACK, b, NR / PACK);
                tile_load(acc, sums + c * NR, stride);
            } else if (width - c * NR > VL) {
                tile_dot(acc, a, NR / PACK, b, NR / PACK, 2);
            } else {
                tile_dot(acc, a, NR / PACK, b, NR / PACK, 1);
            }
        }
        tile_store(sums + c * NR, stride, acc);
    }
}

#endif /* FOCI_OPS_ATTN_ATTN_BACKWARD_TILE_H */
