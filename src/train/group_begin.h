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
 * a router is wider than the heads that it is made of, or the data is too short. */
focal_status foci_group_begin(const foci_start *start, const foci_run *run,
                              const foci_order *order);

#endif /* FOCI_TRAIN_GROUP_BEGIN_H */
