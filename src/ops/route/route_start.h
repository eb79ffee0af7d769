/* The start of a router from inside: directions found in the heads, maps, centroids. */
#ifndef FOCI_OPS_ROUTE_ROUTE_START_H
#define FOCI_OPS_ROUTE_ROUTE_START_H

#include "focal/route.h"

/* One of a router's R directions: a pair of singular vectors of one key head, as the vectors that
 * a projection multiplies k and q by. */
typedef struct foci_route_direction {
    int64_t head;      /* the key head */
    double *key_map;   /* (D) sqrt(sigma) N^(-1/2) v */
    double *query_map; /* (H/G D) sqrt(sigma) M_h^(-1/2) u_h, one query head after the other */
} foci_route_direction;

typedef struct foci_route_directions {
    foci_route_direction *list; /* (routers, R) */
    double *maps;               /* what they point into */
} foci_route_directions;

/* Directions of every router (math 3.4); freed by the second call, NULL fields are fine. */
focal_status foci_route_find_directions(focal_ctx *ctx, const focal_route_start_args *a,
                                        foci_route_directions *found);
void foci_route_free_directions(focal_ctx *ctx, foci_route_directions *found);

/* Columns (routers, R, C) of the projections, not yet scaled: through the model's maps, or, when
 * these are NULL, by least squares from h to the k and q given. query may be NULL. */
focal_status foci_route_find_projections(focal_ctx *ctx, const focal_route_start_args *a,
                                         const foci_route_directions *found, double *key,
                                         double *query);

/* Centroids by spherical k-means on unit(h pk + ak) of one router. */
focal_status foci_route_find_centroids(focal_ctx *ctx, const focal_route_start_args *a,
                                       int64_t router);

#endif /* FOCI_OPS_ROUTE_ROUTE_START_H */
