/* Spikes of the loss. */
#include "train/spike.h"

#include <math.h>
#include <stdio.h>

#include "base/sizes.h"

bool foci_spike_found(const foci_spike_memory *memory, double loss, const foci_gradient_norm *norm,
                      double threshold, char why[FOCI_SPIKE_SENTENCE])
{
    why[0] = '\0';
    if (!isfinite(loss)) {
        (void)snprintf(why, FOCI_SPIKE_SENTENCE, "the loss is %s",
                       isnan(loss) ? "not a number" : "infinite");
        return true;
    }
    if (norm->odd_count > 0 || !isfinite(norm->norm)) {
        (void)snprintf(why, FOCI_SPIKE_SENTENCE, "%lld numbers of the gradient are not finite",
                       (long long)norm->odd_count);
        return true;
    }
    const int64_t count = foci_min64(memory->count, FOCI_SPIKE_LOSSES);
    if (threshold <= 0.0 || count == 0) return false;
    double mean = 0.0;
    for (int64_t n = 0; n < count; n++) mean += memory->losses[n] / (double)count;
    if (loss <= mean + threshold) return false;
    (void)snprintf(why, FOCI_SPIKE_SENTENCE,
                   "the loss is %.4f, more than %g (spike_threshold) above the last ones' %.4f",
                   loss, threshold, mean);
    return true;
}

void foci_spike_remember(foci_spike_memory *memory, double loss)
{
    memory->losses[memory->count++ % FOCI_SPIKE_LOSSES] = loss;
    memory->skips = 0;
}
