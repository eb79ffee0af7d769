/* What routers begin with: the model's own heads, or random numbers, by one dense pass over the
 * beginning of the data (docs/MATH.md, 3.4). */
#ifndef FOCI_TRAIN_GROUP_BEGIN_H
#define FOCI_TRAIN_GROUP_BEGIN_H

#include "train/order.h"
#include "train/run_file.h"
#include "train/start.h"

/* Sets all numbers of the start's groups: temperatures 1, the balance 0, and routers as the run
 * says, from about 16,000 tokens, the first samples of the order. Where routers do not learn the
 * balance is found as well, from those tokens. The same bits at any thread count. FOCAL_EINVAL when
 * the data is too short. must_stop(user) (NULL: never) is asked before every layer; *is_stopped:
 * the numbers are of no use. */
focal_status foci_group_begin(const foci_start *start, const foci_run *run, const foci_order *order,
                              bool (*must_stop)(void *user), void *user, bool *is_stopped);

#endif /* FOCI_TRAIN_GROUP_BEGIN_H */
