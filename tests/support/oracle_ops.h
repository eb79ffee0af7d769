/* The small operations in double, written from docs/MATH.md, 4, without a look at src/. Arrays are
 * packed. A size is what one rounding of everything that makes up a result would move it by, in
 * roundings (check.h); sizes may be NULL. */
#ifndef FOCAL_TESTS_ORACLE_OPS_H
#define FOCAL_TESTS_ORACLE_OPS_H

#include <stdbool.h>
#include <stdint.h>

typedef struct oracle_norm {
    bool is_layer;
    int64_t rows, width;
    const double *x, *weight, *bias; /* (rows, width), (width) or NULL */
    double offset, epsilon;
} oracle_norm;

void oracle_norm_rows(const oracle_norm *a, double *out, double *sizes);

/* x (T, H, D) turned in place; cos and sin (T, rotated / 2). */
typedef struct oracle_rope {
    bool is_pairs;
    int64_t T, H, D, rotated;
    const double *cos, *sin;
    double scale;
} oracle_rope;

void oracle_rope_rotate(const oracle_rope *a, double *x, double *sizes);

/* kind 0: silu, 1: gelu, 2: gelu with tanh. */
double oracle_activation(int kind, double x);

/* One row of logits: log_probs (V); returns lse. */
double oracle_log_softmax(int64_t V, const double *x, double *log_probs);

/* The first `top` ids of a stable sort, largest first. */
void oracle_top(int64_t V, const double *x, int64_t top, int32_t *ids);

#endif /* FOCAL_TESTS_ORACLE_OPS_H */
