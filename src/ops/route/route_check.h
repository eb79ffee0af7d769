/* What the calls of focal/route.h check alike. */
#ifndef FOCI_OPS_ROUTE_ROUTE_CHECK_H
#define FOCI_OPS_ROUTE_ROUTE_CHECK_H

#include "base/error.h"
#include "focal/route.h"

enum {
    FOCI_ROUTE_MAX_ROUTERS = 1 << 16,
    FOCI_ROUTE_MAX_WIDTH = 256,
    FOCI_ROUTE_PIECE = 256 /* tokens whose part of a sum is made alone: fixed, so that the same
                              call gives the same bits at any thread count */
};

/* T tokens at least 1, routers 1..65536, K 1..64; `what` begins the sentence. */
static inline focal_status foci_route_check_sizes(focal_ctx *ctx, const char *what, int32_t T,
                                                  int32_t routers, int32_t K)
{
    if (T < 1) return foci_fail(ctx, FOCAL_EINVAL, "%s: T is %d, it must be at least 1", what, T);
    if (routers < 1 || routers > FOCI_ROUTE_MAX_ROUTERS)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: routers is %d, it must be 1 to %d", what, routers,
                         FOCI_ROUTE_MAX_ROUTERS);
    if (K < 1 || K > FOCAL_MAX_GROUPS)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: K is %d, it must be 1 to %d", what, K,
                         FOCAL_MAX_GROUPS);
    return FOCAL_OK;
}

/* The same for calls that take rows of K scores. */
static inline focal_status foci_route_check_rows(focal_ctx *ctx, const char *what, int64_t rows,
                                                 int32_t K)
{
    if (rows < 1 || rows > INT64_MAX / FOCAL_MAX_GROUPS / 8)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: cannot take %lld rows", what, (long long)rows);
    return foci_route_check_sizes(ctx, what, 1, 1, K);
}

#endif /* FOCI_OPS_ROUTE_ROUTE_CHECK_H */
