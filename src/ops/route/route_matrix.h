/* Small dense matrices in double, row-major: what the start of a router needs of linear algebra. */
#ifndef FOCI_OPS_ROUTE_ROUTE_MATRIX_H
#define FOCI_OPS_ROUTE_ROUTE_MATRIX_H

#include <stdbool.h>
#include <stdint.h>

/* Eigenvalues and vectors of the symmetric a (n,n), by cyclic Jacobi; a is destroyed. Row i of
 * vectors (n,n) belongs to values[i]; no order. */
void foci_matrix_eigen(int64_t n, double *a, double *values, double *vectors);

/* The symmetric roots a^(1/2) and a^(-1/2) of a (n,n) >= 0, which is destroyed; eigenvalues are
 * raised to `floor` times the largest. A zero matrix has a zero inverse. work: n (n + 1). */
void foci_matrix_roots(int64_t n, double floor, double *a, double *root, double *inverse_root,
                       double *work);

/* Singular values of x^T, for x given by columns: on entry row i of columns (n, m) is column i of
 * the m x n matrix, on return it is sigma[i] u_i; row i of v (n,n) is v_i. By one-sided Jacobi;
 * sigma descends, and each pair's sign makes the largest entry of v_i positive. */
void foci_matrix_svd(int64_t m, int64_t n, double *columns, double *sigma, double *v);

/* Factors the symmetric positive a (n,n) = l l^T in place (lower part). False when it is not. */
bool foci_matrix_cholesky(int64_t n, double *a);

/* x (n) <- a^-1 x, with a factored. */
void foci_matrix_solve(int64_t n, const double *factored, double *x);

#endif /* FOCI_OPS_ROUTE_ROUTE_MATRIX_H */
