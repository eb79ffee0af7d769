/* Where time goes: while a profile is on, who runs an operation tells what it was and what it had
 * to do. */
#ifndef FOCI_BASE_PROFILE_H
#define FOCI_BASE_PROFILE_H

#include "focal/bench.h"

typedef struct foci_profile foci_profile;

/* What an operation had to do at least: multiply-adds count two, bytes are those that must come
 * from memory. */
typedef struct foci_cost {
    double flops, bytes;
} foci_cost;

bool foci_profile_is_on(focal_ctx *ctx);

/* The time before an operation; 0 when no profile is on. */
double foci_profile_begin(focal_ctx *ctx);
/* Adds what has passed since then to the row of that name, which must stay in memory. */
void foci_profile_end(focal_ctx *ctx, const char *name, double begin, foci_cost cost);

#endif /* FOCI_BASE_PROFILE_H */
