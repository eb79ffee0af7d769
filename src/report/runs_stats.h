/* What is computed from the curves and final losses of runs: spreads, differences, crossings.
 * Functions of their arguments only; NaN stands for "cannot be said". */
#ifndef FOCI_REPORT_RUNS_STATS_H
#define FOCI_REPORT_RUNS_STATS_H

#include <stdbool.h>
#include <stdint.h>

enum { FOCI_CURVE_MOST = 512 };

/* Values over x (tokens), x ascending. */
typedef struct foci_curve {
    int32_t count;
    double x[FOCI_CURVE_MOST], y[FOCI_CURVE_MOST];
} foci_curve;

/* The mean of several curves, and the least and largest of them at each x. */
typedef struct foci_band {
    foci_curve mean;
    double low[FOCI_CURVE_MOST], high[FOCI_CURVE_MOST];
} foci_band;

typedef struct foci_spread {
    int32_t n;
    double mean, deviation; /* deviation: of the sample, divided by n - 1; NaN below 2 values */
    double least, most;
} foci_spread;

/* NaN values are left out; of none, everything is NaN. */
foci_spread foci_spread_of(const double *values, int32_t count);

/* The 97.5 % point of Student's t with df degrees of freedom (df > 0, also between integers). */
double foci_student_975(double df);

/* A difference of means; mean +- half is its 95 % interval, half NaN where n is too small. */
typedef struct foci_difference {
    double mean, half;
    int32_t n; /* pairs, or the smaller of both counts */
    bool is_paired;
} foci_difference;

/* Of a[i] - b[i]: Student's interval. */
foci_difference foci_difference_paired(const double *a, const double *b, int32_t n);
/* Of values that do not belong to each other: Welch's interval. */
foci_difference foci_difference_apart(const double *a, int32_t a_count, const double *b,
                                      int32_t b_count);

/* Linear in the logarithm of x; NaN outside of the curve. x below 1 counts as 1. */
double foci_curve_at(const foci_curve *curve, double x);

/* The x from which on the curve stays at or below y: the last crossing, so that a lucky dip does
 * not count. NaN: it ends above. *is_bound: the curve never was above, x is its first point. */
double foci_curve_reach(const foci_curve *curve, double y, bool *is_bound);

/* Over the x that all curves have in common, at the points of the one that has most there. No point
 * where they have none in common. */
void foci_curve_mean(const foci_curve *const *curves, int32_t count, foci_band *band);
/* a - b, at the points of a that lie within b. */
void foci_curve_minus(const foci_curve *a, const foci_curve *b, foci_curve *out);

/* The size at which losses measured at several sizes (ascending) equal a target. */
typedef enum foci_equal {
    FOCI_EQUAL_AT,      /* between two sizes */
    FOCI_EQUAL_SMALLER, /* the smallest is already as good: *at is that size, a bound from above */
    FOCI_EQUAL_LARGER   /* the largest is not as good: *at is that size, a bound from below */
} foci_equal;

/* Linear in the logarithm of the size, between the largest size that is worse and the next; needs
 * count > 0. */
foci_equal foci_size_at(const double *sizes, const double *losses, int32_t count, double target,
                        double *at);

#endif /* FOCI_REPORT_RUNS_STATS_H */
