/* Random routers and tokens in float for the kernels and, with the same values, in double for the
 * oracle. */
#ifndef FOCAL_TESTS_ROUTE_CASES_H
#define FOCAL_TESTS_ROUTE_CASES_H

#include "focal/route.h"
#include "ops/route/route_kernels.h"
#include "support/oracle_route.h"

enum {
    CASE_RAW = 1,        /* z and E as they are */
    CASE_ONE = 2,        /* one projection for keys and queries */
    CASE_OFFSETS = 4,    /* ak and, with two projections, aq */
    CASE_BETA = 8,       /* a balance vector */
    CASE_STRIDE = 16,    /* tokens further apart than C, NaN between them */
    CASE_MISALIGNED = 32 /* every array one float off its alignment */
};

typedef struct route_shape {
    int32_t T, C, R, K, routers;
    unsigned flags;
} route_shape;

/* The shapes that every test of scores walks: all of T x C with the rest rotating, and all of
 * R x K. */
int64_t route_shape_count(void);
route_shape route_shape_at(int64_t index);
/* "T 7 C 48 R 16 K 4 routers 3 flags 5"; valid until the next call. */
const char *route_shape_text(route_shape shape);

typedef struct route_case {
    route_shape shape;
    focal_router router;
    focal_route_args args;                               /* without sk and sq */
    oracle_router exact;                                 /* the same router */
    double *h;                                           /* (T,C) packed */
    float *dsk, *dsq;                                    /* (T, routers, K) random gradients */
    double *dsk64, *dsq64;                               /* the same */
    int64_t s_count, p_count, a_count, e_count, h_count; /* h_count: with strides */
    void *blocks[64];
    int block_count;
} route_case;

route_case *route_case_new(route_shape shape, uint64_t seed);
void route_case_free(route_case *c);

/* count floats that belong to the case, filled with NaN (fill_nan) and with one more behind them;
 * misaligned when the shape says so. */
float *route_case_floats(route_case *c, int64_t count);
double *route_case_doubles(route_case *c, int64_t count);
/* Fails the test when the float behind the array was written. */
void assert_end_untouched(const char *name, const float *x, int64_t count);

/* Kernels take calls with their defaults filled in; these fill them in. Running must succeed. */
bool kernel_takes(focal_ctx *ctx, const foci_route_kernel *kernel, const focal_route_args *args);
void run_forward(focal_ctx *ctx, const foci_route_kernel *kernel, const focal_route_args *args);
void run_backward(focal_ctx *ctx, const foci_route_kernel *kernel, const focal_route_args *args,
                  const focal_route_grads *grads);

/* n standard normals times scale. */
void fill_normals(float *x, int64_t n, float scale, uint64_t seed);
/* The same values in another type; the result is the caller's to free. */
double *to_doubles(const float *x, int64_t n);

#endif /* FOCAL_TESTS_ROUTE_CASES_H */
