/* The best groups of a row, from inside: one row operation and its kernels. */
#ifndef FOCI_OPS_ROUTE_ROUTE_TOP_H
#define FOCI_OPS_ROUTE_ROUTE_TOP_H

#include "focal/route.h"
#include "ops/rows.h"

/* groups (rows, top) of s (rows, K), as focal_route_top() says; 1 <= top <= K <= FOCAL_MAX_GROUPS.
 */
typedef struct foci_route_top_args {
    int32_t K, top;
    const float *s;
    int32_t *groups;
} foci_route_top_args;

extern const foci_rows_op foci_route_top_op;

void foci_route_top_ref(const void *args, int64_t first, int64_t count);
void foci_route_top_avx2(const void *args, int64_t first, int64_t count);
void foci_route_top_avx512(const void *args, int64_t first, int64_t count);

#endif /* FOCI_OPS_ROUTE_ROUTE_TOP_H */
