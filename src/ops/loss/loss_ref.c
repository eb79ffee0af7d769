/* Reference log-probabilities: one row at a time, in double. */
#include <math.h>

#include "ops/loss/loss.h"

static void loss_row(const foci_loss_args *a, int64_t row)
{
    const float *x = a->logits + row * a->logits_stride;
    const int32_t target = a->targets ? a->targets[row] : FOCI_LOSS_NO_TARGET;
    double max = (double)x[0];
    for (int64_t n = 1; n < a->V; n++) max = fmax(max, (double)x[n]);
    double sum = exp((double)x[0] - max);
    for (int64_t n = 1; n < a->V; n++) sum += exp((double)x[n] - max);
    /* The largest is subtracted first: beside one of 1e30 the logarithm would be lost. */
    const double log_sum = log(sum);
    if (a->lse) a->lse[row] = max + log_sum;
    if (a->nll) a->nll[row] = target < 0 ? 0.0 : max - (double)x[target] + log_sum;
    for (int64_t n = 0; n < a->V && a->log_probs; n++)
        a->log_probs[row * a->log_probs_stride + n] = (float)((double)x[n] - max - log_sum);
}

void foci_loss_ref(const void *args, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) loss_row(args, row);
}
