/* Reference gradients of losses: one row at a time, in double. */
#include <math.h>

#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"

/* The largest logit, and the logarithm of the sum of e^(logit - largest): beside a largest of 1e30
 * the logarithm would be lost. */
typedef struct row_sums {
    double max, log_sum;
} row_sums;

static row_sums sums_of(const float *x, int64_t V)
{
    double max = (double)x[0];
    for (int64_t n = 1; n < V; n++) max = fmax(max, (double)x[n]);
    double sum = exp((double)x[0] - max);
    for (int64_t n = 1; n < V; n++) sum += exp((double)x[n] - max);
    return (row_sums){max, log(sum)};
}

/* d(capped) / d(uncapped) in terms of the capped logit (4.5.2). */
static double cap_slope(double x, double cap)
{
    return cap > 0.0 ? (1.0 - x / cap) * (1.0 + x / cap) : 1.0;
}

static void loss_row(const foci_loss_backward_args *a, int64_t row)
{
    const float *x = a->logits + row * a->logits_stride;
    const int64_t target = a->targets[row], at = row * a->dlogits_stride;
    row_sums sums = {0};
    if (target >= 0) sums = sums_of(x, a->V);
    const double lse = sums.max + sums.log_sum;
    const double nll = target < 0 ? 0.0 : sums.max - (double)x[target] + sums.log_sum;
    for (int64_t n = 0; n < a->V; n++) {
        double g = 0.0;
        if (target >= 0) { /* (4.4.2), whose two parts cancel at a likely target */
            const double log_p = (double)x[n] - sums.max - sums.log_sum;
            const double own = n == target ? expm1(log_p) : exp(log_p);
            g = a->scale * (own + 2.0 * a->z * lse * exp(log_p)) *
                cap_slope((double)x[n], (double)a->soft_cap);
        }
        foci_rows_put(a->dlogits, a->dlogits_dtype, at + n, g);
    }
    if (a->lse) a->lse[row] = lse;
    if (a->nll) a->nll[row] = nll;
}

void foci_loss_backward_ref(const void *args, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) loss_row(args, row);
}

static void kl_row(const foci_kl_args *a, int64_t row)
{
    const float *t = a->teacher + row * a->teacher_stride,
                *s = a->student + row * a->student_stride;
    const row_sums teacher = sums_of(t, a->V), student = sums_of(s, a->V);
    double kl = 0.0;
    for (int64_t n = 0; n < a->V; n++) {
        const double log_t = (double)t[n] - teacher.max - teacher.log_sum;
        const double log_s = (double)s[n] - student.max - student.log_sum;
        const double slope = cap_slope((double)s[n], (double)a->soft_cap);
        if (exp(log_t) != 0.0) kl += exp(log_t) * (log_t - log_s); /* not 0 times infinity */
        foci_rows_put(a->dlogits, a->dlogits_dtype, row * a->dlogits_stride + n,
                      a->scale * (exp(log_s) - exp(log_t)) * slope);
    }
    if (a->kl) a->kl[row] = kl;
}

void foci_kl_ref(const void *args, int64_t first, int64_t count)
{
    for (int64_t row = first; row < first + count; row++) kl_row(args, row);
}
