/* Whether groups collapse. */
#include "train/collapse.h"

double foci_collapse_limit(const foci_groups *groups)
{
    const bool is_shared = groups->shape.mode == FOCAL_SHARED;
    const double most = is_shared ? 1.0 / groups->top_fit : 1.0;
    const double even = 1.0 / groups->shape.K;
    return 0.5 * (most + even);
}

bool foci_collapse_found(foci_collapse *memory, const foci_groups *groups, double largest_load)
{
    const bool is_above = largest_load > foci_collapse_limit(groups);
    const bool was_above = memory->steps > 0;
    memory->steps = is_above == was_above ? memory->steps : 0;
    memory->steps += is_above ? 1 : -1;
    /* Loads swing about the limit: what was said is forgotten no sooner than it was said. */
    if (memory->steps <= -FOCI_COLLAPSE_STEPS) memory->is_said = false;
    if (memory->is_said || memory->steps < FOCI_COLLAPSE_STEPS) return false;
    memory->is_said = true;
    return true;
}

const char *foci_collapse_advice(const foci_run *run)
{
    const int64_t balance = run->groups.balance;
    if (balance == FOCI_RUN_BALANCE_BIAS || balance == FOCI_RUN_BALANCE_SIGN)
        return "a higher groups.rate or a lower optimiser.lr keeps them apart";
    if (run->groups.router == FOCI_RUN_ROUTER_RAW)
        return "a lower optimiser.lr keeps them apart, or groups.router = unit with groups.balance "
               "= bias";
    return "groups.balance = bias or a lower optimiser.lr keeps them apart";
}
