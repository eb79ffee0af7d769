/* Settings for texts: the plan for what the machine can do, as it is measured here. */
#ifndef CLI_TEXT_PLAN_H
#define CLI_TEXT_PLAN_H

#include "focal/plan.h"
#include "train.h"

/* Those that return an exit code say what went wrong. */

/* Whether so much text is enough to begin with. */
int text_plan_check(focal_ctx *ctx, int64_t text_bytes);

/* A plan before anything is known of the machine but its peak; sets flops and memory of the input
 * by itself. */
int text_plan_first(focal_ctx *ctx, const focal_plan_input *input, focal_plan *plan);

/* The plan and the settings of a run on these shards, after steps of the model that comes out have
 * been timed. */
int text_plan_run(focal_ctx *ctx, const train_request *request, const char *shards, double minutes,
                  focal_plan *plan, focal_run *run);

/* Says in a few lines what was chosen and why, and when the run ends by its settings, which must be
 * resolved. */
void text_plan_explain(const train_request *request, const focal_plan *plan, double minutes,
                       const focal_run *run);

#endif /* CLI_TEXT_PLAN_H */
