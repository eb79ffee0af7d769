/* Groups in the settings of a run. */
#ifndef FOCI_TRAIN_RUN_GROUPS_H
#define FOCI_TRAIN_RUN_GROUPS_H

#include "train/run_file.h"

/* Part of foci_run_resolve(), before all that looks at numbers which follow from `learn`. */
focal_status foci_run_resolve_groups(focal_ctx *ctx, foci_run *run);

/* Of a resolved run: whether there are groups or a control in their place, whether tokens are in
 * groups, by routers or by chance, whether they see window and sinks alone, whether anything
 * learns, and whether data is looked at at all.
 *
 *   groups.method   has_groups  is_grouped  is_near  has_steps  has_data
 *   focus               yes         yes        -        yes        yes
 *   start               yes         yes        -         -         yes
 *   random              yes         yes        -         -          -
 *   none                yes          -        yes        -          -
 *   temperature         yes          -     top == 0     yes        yes
 *   scale               yes          -         -        yes        yes
 *   lora                 -           -         -        yes        yes
 *
 * With learn = all, focus without groups (groups.count = 0) has steps and data alone. */
bool foci_run_has_groups(const foci_run *run);
bool foci_run_is_grouped(const foci_run *run);
bool foci_run_is_near(const foci_run *run);
bool foci_run_has_steps(const foci_run *run);
bool foci_run_has_data(const foci_run *run);
/* Whether a key changes what the method of a run with learn = groups makes; true of other runs. It
 * looks at groups.method and groups.top alone, so the run need not be resolved. */
bool foci_run_uses(const foci_run *run, const char *key);
/* Whether groups are learnt from the past alone: Sinkhorn balances whole sequences. */
bool foci_run_is_causal(const foci_run *run);

#endif /* FOCI_TRAIN_RUN_GROUPS_H */
