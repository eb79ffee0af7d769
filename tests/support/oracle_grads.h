/* Gradients of the small operations in double, written from docs/MATH.md, 2 and 4, without a look
 * at src/. Arrays are packed. Sizes are those of oracle_ops.h; any may be NULL. */
#ifndef FOCAL_TESTS_ORACLE_GRADS_H
#define FOCAL_TESTS_ORACLE_GRADS_H

#include "support/oracle_ops.h"

/* dx (rows, width), dweight and dbias (width), each with its sizes. */
typedef struct oracle_norm_grads {
    double *dx, *dx_sizes, *dweight, *dweight_sizes, *dbias, *dbias_sizes;
} oracle_norm_grads;

void oracle_norm_backward(const oracle_norm *a, const double *dy, const oracle_norm_grads *grads);

/* The derivative of oracle_activation(), and the sizes of its terms. */
double oracle_activation_slope(int kind, double x, double *size);

/* dx (T, H, D) is turned back in place. */
void oracle_rope_backward(const oracle_rope *a, double *dx, double *sizes);

/* kind 0: constant, 1: learned, 2: learned as in the paper, 3: per head, 4: length. */
typedef struct oracle_temperature {
    int kind;
    int64_t T, H, C;
    const double *h, *u, *lt;   /* (T, C), (C), (H) */
    double a, t, low, high;     /* low, high: bounds of t, or of the paper's tau */
    double slope, length;       /* c and n_0 */
    const int32_t *positions;   /* (T) */
    const int32_t *starts;      /* (sequences + 1) */
    const unsigned char *heads; /* (H) which have it; NULL: all */
    double root;
} oracle_temperature;

/* factors (T, H) = 1 / tau. */
void oracle_temperature_factors(const oracle_temperature *a, double *factors);

/* From dots (T, H): what is added to dh (T, C), du (C), da (1), dlt (H); NULL: not wanted. */
void oracle_temperature_backward(const oracle_temperature *a, const double *dots, double *dh,
                                 double *du, double *da, double *dlt);

#endif /* FOCAL_TESTS_ORACLE_GRADS_H */
