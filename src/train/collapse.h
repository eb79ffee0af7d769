/* Groups that collapse: most keys of a router in one of them, for several steps. */
#ifndef FOCI_TRAIN_COLLAPSE_H
#define FOCI_TRAIN_COLLAPSE_H

#include "model/backward.h"

enum { FOCI_COLLAPSE_STEPS = 5 /* in a row */ };

/* All zero is the beginning. */
typedef struct foci_collapse {
    int32_t steps; /* in a row in which one group had too much */
    bool is_said;
} foci_collapse;

/* The share of keys (shared: memberships) in one group above which groups are none: halfway between
 * an even share and all that it could have. */
double foci_collapse_limit(const foci_groups *groups);

/* True once, when the loads of the last steps say so. */
bool foci_collapse_found(foci_collapse *memory, const foci_groups *groups, double largest_load);

#endif /* FOCI_TRAIN_COLLAPSE_H */
