/* What the tests of the small operations share: arrays with gaps whose every other byte must stay,
 * kernels that this machine can run, and golden vectors as floats. */
#ifndef FOCAL_TESTS_OP_CASES_H
#define FOCAL_TESTS_OP_CASES_H

#include "focal/base.h"
#include "ops/rows.h"
#include "support/golden.h"

enum {
    GRID_GAPS = 1,      /* rows further apart than they are wide */
    GRID_MISALIGNED = 2 /* one element off the alignment of a vector */
};

/* rows x width elements, NaN (fill_nan) in all of them, between the rows and behind the last. */
typedef struct grid {
    focal_dtype dtype;
    int64_t rows, width, stride, count; /* count: with gaps and the end */
    void *data, *block;
} grid;

grid grid_new(int64_t rows, int64_t width, focal_dtype dtype, unsigned flags);
void grid_free(grid *g);
void grid_fill(const grid *g, const float *packed);
/* The elements without the gaps; the caller frees. */
float *grid_packed(const grid *g);
/* Fails the test when something other than the elements was written. */
void assert_gaps_untouched(const char *name, const grid *g);

/* The n-th kernel of the operation that this context can run, or NULL; *next walks. */
const foci_rows_kernel *next_kernel(const focal_ctx *ctx, const foci_rows_op *op, size_t *next);

/* Normals as floats; the caller frees. */
float *new_normals(int64_t count, float scale, uint64_t seed);

/* The tensor of that name, which the case must have, as doubles or (the caller frees) floats. */
const double *case_doubles(const golden_case *c, const char *name, int64_t count);
float *case_floats(const golden_case *c, const char *name, int64_t count);
/* Runs check on every case of tests/golden/ops whose name begins so; there must be `count`. */
void each_golden(const char *prefix, int count, void *user,
                 void (*check)(const golden_case *c, void *user));
/* The same of tests/golden/<file>. */
void each_golden_of(const char *file, const char *prefix, int count, void *user,
                    void (*check)(const golden_case *c, void *user));

/* |got - expected| <= roundings 2^-24 size everywhere; sizes NULL: |expected|. */
void assert_roundings(const char *name, const float *got, const double *expected,
                      const double *sizes, int64_t count, double roundings);

/* make fills `out` (bytes) through a public call; the bits must be the same for 1 to 5 threads. */
void assert_same_bits(const char *name, size_t bytes, const void *problem,
                      void (*make)(focal_ctx *ctx, const void *problem, void *out));

/* Repeats the call with all memory failing from the n-th request on, for every n: it must say so
 * and leave nothing behind, until it gets what it needs and succeeds. Returns how often it failed.
 */
int64_t fail_each_request(focal_ctx *ctx, const void *problem,
                          focal_status (*call)(focal_ctx *ctx, const void *problem));

#endif /* FOCAL_TESTS_OP_CASES_H */
