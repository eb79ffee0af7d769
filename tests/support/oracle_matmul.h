/* The product a second time, from its definition: double in, double out. */
#ifndef FOCAL_TESTS_ORACLE_MATMUL_H
#define FOCAL_TESTS_ORACLE_MATMUL_H

#include <stdint.h>

/* Everything as numbers, row-major without gaps. */
typedef struct matmul_problem {
    int64_t M, N, K;
    const double *x;    /* (M,K) */
    const double *w;    /* (N,K) */
    const double *bias; /* (N) or NULL */
    const double *old;  /* (M,N), what is added to, or NULL */
} matmul_problem;

/* out (M,N), and the sum of the absolute values of all that makes up an element. */
void oracle_matmul(const matmul_problem *p, double *out, double *magnitude);

/* The same in plain float32 loops: what one may lose. The inputs must be floats. */
void plain_matmul(const matmul_problem *p, float *out);

#endif /* FOCAL_TESTS_ORACLE_MATMUL_H */
