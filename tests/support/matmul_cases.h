/* Products to test: a few numbers say what a case is, the case holds its tensors, the exact result
 * and what plain loops make of it. */
#ifndef FOCAL_TESTS_MATMUL_CASES_H
#define FOCAL_TESTS_MATMUL_CASES_H

#include "ops/matmul/matmul_kernels.h"
#include "support/oracle_matmul.h"

typedef struct matmul_spec {
    int64_t M, N, K; /* K (N when is_transposed) is rounded up to whole blocks of w */
    focal_dtype x, w, out;
    bool is_transposed; /* w, */
    bool x_is_transposed;
    bool has_bias, adds;
    bool rounds;            /* rounds_x, with an x that this leaves alone */
    int64_t x_gap, out_gap; /* elements between rows */
    int64_t w_gap;          /* the same in blocks */
    size_t w_shift;         /* bytes of w from the start of a line */
    bool is_interleaved;    /* w; its rows are whole groups, without gaps */
} matmul_spec;

typedef struct matmul_case {
    matmul_spec spec;
    foci_matmul_args args;
    int64_t count;              /* M N */
    void *x, *w, *out, *before; /* as allocated; before: what out holds before the call */
    size_t out_bytes;           /* with the gaps */
    float *bias;
    double *numbers; /* of the problem, all in one */
    matmul_problem problem;
    double *exact, *magnitude; /* (M,N) */
    float *plain, *got;        /* (M,N) */
} matmul_case;

matmul_case *matmul_case_new(const matmul_spec *spec, uint64_t seed);
void matmul_case_free(matmul_case *c);

/* Anything. */
matmul_spec matmul_spec_random(uint64_t seed);

/* Puts out back as it was before the call: NaN wherever nothing is added to. */
void matmul_case_clear(matmul_case *c);
/* Recomputes exact, magnitude and plain after the problem's numbers were changed. */
void matmul_case_solve(matmul_case *c);
/* The same after the weights themselves were changed. */
void matmul_case_read_weights(matmul_case *c);
/* Fails the test unless out is within the bound and the gaps are as they were. */
void matmul_case_check(matmul_case *c, const char *kernel);

/* "M x N x K, x .., w .., ..."; valid until the next call. */
const char *matmul_case_text(const matmul_case *c);

/* Whether a kernel that can run a case gives its exact result: one that meets an x that may be
 * rounded with weights in bfloat16 has another (foci_takes_levels). */
bool matmul_case_is_for(const matmul_case *c, const foci_matmul_kernel *kernel);

/* Runs and checks a case with every kernel that can; `what` and the kernel's name are noted. */
void matmul_case_run(focal_ctx *ctx, const char *what, matmul_case *c);

#endif /* FOCAL_TESTS_MATMUL_CASES_H */
