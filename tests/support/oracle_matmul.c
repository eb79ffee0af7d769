/* The product from its definition. */
#include "support/oracle_matmul.h"

#include <math.h>

void oracle_matmul(const matmul_problem *p, double *out, double *magnitude)
{
    for (int64_t m = 0; m < p->M; m++) {
        for (int64_t n = 0; n < p->N; n++) {
            double sum = 0.0, size = 0.0;
            for (int64_t k = 0; k < p->K; k++) {
                const double term = p->x[m * p->K + k] * p->w[n * p->K + k];
                sum += term;
                size += fabs(term);
            }
            const double bias = p->bias ? p->bias[n] : 0.0;
            const double old = p->old ? p->old[m * p->N + n] : 0.0;
            out[m * p->N + n] = sum + bias + old;
            magnitude[m * p->N + n] = size + fabs(bias) + fabs(old);
        }
    }
}

void plain_matmul(const matmul_problem *p, float *out)
{
    for (int64_t m = 0; m < p->M; m++) {
        for (int64_t n = 0; n < p->N; n++) {
            float sum = 0.0F;
            for (int64_t k = 0; k < p->K; k++)
                sum += (float)p->x[m * p->K + k] * (float)p->w[n * p->K + k];
            if (p->bias) sum += (float)p->bias[n];
            if (p->old) sum += (float)p->old[m * p->N + n];
            out[m * p->N + n] = sum;
        }
    }
}
