/* Groups that collapse: most keys of a router in one of them, for several steps. */
#ifndef FOCI_TRAIN_COLLAPSE_H
#define FOCI_TRAIN_COLLAPSE_H

#include "model/backward.h"
#include "train/run_file.h"

enum { FOCI_COLLAPSE_STEPS = 5 /* in a row */ };

/* All zero is the beginning. It is part of a checkpoint. */
typedef struct foci_collapse {
    int64_t steps; /* in a row in which one group had too much; below 0: in which none had */
    bool is_said;
} foci_collapse;

/* The share of keys (shared: memberships) in one group above which groups are none: halfway between
 * an even share and all that it could have. */
double foci_collapse_limit(const foci_groups *groups);

/* True when the loads of the last steps say so: once, and again only after as many steps in a row
 * in which they did not. */
bool foci_collapse_found(foci_collapse *memory, const foci_groups *groups, double largest_load);

/* What helps by the balance of the run, as the end of a sentence. */
const char *foci_collapse_advice(const foci_run *run);

#endif /* FOCI_TRAIN_COLLAPSE_H */
