/* The best groups for one instruction set: route_top_avx2.c and route_top_avx512.c include this
 * after a dialect. A lane is a row: VL rows keep their lists, best first, in vectors, and meet the
 * groups one after the other, so that a tie stays with the lower index. */
#ifndef FOCI_OPS_ROUTE_ROUTE_TOP_BODY_H
#define FOCI_OPS_ROUTE_ROUTE_TOP_BODY_H

#include <math.h>

#include "base/sizes.h"
#include "ops/route/route_top.h"
#include "simd/vec_rows.h"

/* The lists of VL rows; the numbers of groups as floats, which hold them exactly. */
typedef struct lists {
    vec score[FOCAL_MAX_GROUPS], group[FOCAL_MAX_GROUPS];
} lists;

/* A group meets lists of `count` places: in each row it takes the place of the first that it beats,
 * which moves on, and so do all behind that one, as it beats them too. What is left over comes
 * behind, where there is still room. */
static inline __attribute__((always_inline)) void insert(lists *l, int32_t count, int32_t top,
                                                         vec score, vec group)
{
    vec left_score = score, left_group = group;
    for (int32_t n = 0; n < count; n++) {
        const vec s = l->score[n], g = l->group[n];
        l->score[n] = v_where_greater(score, s, left_score, s);
        l->group[n] = v_where_greater(score, s, left_group, g);
        left_score = v_where_greater(score, s, s, left_score);
        left_group = v_where_greater(score, s, g, left_group);
    }
    if (count == top) return;
    l->score[count] = left_score;
    l->group[count] = left_group;
}

/* `rows` rows, at most VL. */
static inline __attribute__((always_inline)) void
top_of_rows(const float *s, int64_t rows, int32_t K, int32_t top, int32_t *groups)
{
    lists l;
    for (int32_t n = 0; n < top; n++) /* each is written before it is read, but gcc cannot see it */
        l.score[n] = l.group[n] = v_zero();
    for (int32_t first = 0; first < K; first += VL) {
        const int32_t columns = (int32_t)v_lanes(first, K);
        vec column[VL];
        for (int64_t row = 0; row < VL; row++)
            column[row] = row < rows ? v_load_lanes(s + row * K + first, columns) : v_zero();
        v_transpose(column);
        for (int32_t n = 0; n < columns; n++) {
            const vec score = v_max(column[n], v_set1(-INFINITY)); /* of NaN the latter */
            const int32_t group = first + n;
            insert(&l, group < top ? group : top, top, score, v_set1((float)group));
        }
    }
    for (int32_t place = 0; place < top; place++) {
        float group[VL];
        v_store(group, l.group[place]);
        for (int64_t row = 0; row < rows; row++) groups[row * top + place] = (int32_t)group[row];
    }
}

static void top_rows(const foci_route_top_args *a, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row += VL) {
        const int64_t rows = foci_min64(VL, first + count - row);
        const float *s = a->s + row * a->K;
        int32_t *groups = a->groups + row * a->top;
        if (a->top == 1) /* every token as a key; its lists stay in registers */
            top_of_rows(s, rows, a->K, 1, groups);
        else
            top_of_rows(s, rows, a->K, a->top, groups);
    }
}

#endif /* FOCI_OPS_ROUTE_ROUTE_TOP_BODY_H */
