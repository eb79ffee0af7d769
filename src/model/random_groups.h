/* Groups by chance, the control beside routers (docs/MATH.md, 3.6). */
#ifndef FOCI_MODEL_RANDOM_GROUPS_H
#define FOCI_MODEL_RANDOM_GROUPS_H

#include "model/groups.h"

/* The groups of T tokens at these positions in a layer: key_groups (T, routers), one group each,
 * all equally likely; query_groups (T, routers, top), `top` different ones, every choice equally
 * likely, and those of a smaller top are the first of a larger. A group depends on the seed, layer,
 * router and position and on nothing else. Of shared groups, which have query groups alone,
 * key_groups is NULL. */
void foci_random_groups(const foci_groups_shape *shape, int32_t layer, int32_t T,
                        const int32_t *positions, int32_t top, int32_t *key_groups,
                        int32_t *query_groups);

#endif /* FOCI_MODEL_RANDOM_GROUPS_H */
