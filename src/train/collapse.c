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
    memory->steps = largest_load > foci_collapse_limit(groups) ? memory->steps + 1 : 0;
    if (memory->is_said || memory->steps < FOCI_COLLAPSE_STEPS) return false;
    memory->is_said = true;
    return true;
}
