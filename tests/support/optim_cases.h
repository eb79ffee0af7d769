/* Golden vectors of losses' gradients and optimisers (tests/golden/optim, by
 * tools/golden_optim.py).
 */
#ifndef FOCAL_TESTS_OPTIM_CASES_H
#define FOCAL_TESTS_OPTIM_CASES_H

#include "support/golden.h"

/* Runs check on every case whose name begins so; there must be `count`. */
void each_optim_golden(const char *prefix, int count, void *user,
                       void (*check)(const golden_case *c, void *user));

#endif /* FOCAL_TESTS_OPTIM_CASES_H */
