/* Gradients of losses, and the optimisers, in double, written from docs/MATH.md, 4.4 to 5.3,
 * without a look at src/. Arrays are packed. */
#ifndef FOCAL_TESTS_ORACLE_OPTIM_H
#define FOCAL_TESTS_ORACLE_OPTIM_H

#include <stdbool.h>
#include <stdint.h>

/* One row. The gradient is that with respect to what the soft-cap was applied to; the logits that
 * are given are the result of it. cap 0: none. */
typedef struct oracle_loss {
    int64_t V, target;
    double scale, z, cap;
} oracle_loss;

/* scale (nll + z lse^2) of logits before the cap. */
double oracle_loss_value(const oracle_loss *a, const double *raw);
/* d of it, from the capped logits; nll and lse besides. */
void oracle_loss_gradient(const oracle_loss *a, const double *capped, double *dlogits, double *nll,
                          double *lse);

/* KL(teacher || student) of one row; dlogits as above, times scale. */
double oracle_kl(int64_t V, const double *teacher, const double *student, double scale, double cap,
                 double *dlogits);

typedef struct oracle_adamw {
    int64_t step;
    double rate, beta1, beta2, epsilon, decay;
} oracle_adamw;

/* One element; g is multiplied by the clipping factor already. */
void oracle_adamw_step(const oracle_adamw *a, double g, double *w, double *m, double *v);

typedef struct oracle_muon {
    int64_t rows, cols;
    double rate, beta, decay;
    bool is_plain, is_by_shape;
} oracle_muon;

/* g, w and m are (rows, cols). */
void oracle_muon_step(const oracle_muon *a, const double *g, double *w, double *m);

#endif /* FOCAL_TESTS_ORACLE_OPTIM_H */
