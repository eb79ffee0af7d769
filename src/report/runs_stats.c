/* Spreads, Student's interval, interpolation in the logarithm of tokens or parameters. */
#include "report/runs_stats.h"

#include <math.h>
#include <stddef.h>

foci_spread foci_spread_of(const double *values, int32_t count)
{
    foci_spread spread = {0, (double)NAN, (double)NAN, (double)NAN, (double)NAN};
    double sum = 0.0, squares = 0.0;
    for (int32_t n = 0; n < count; n++) {
        if (isnan(values[n])) continue;
        sum += values[n];
        spread.least = fmin(spread.least, values[n]); /* fmin passes NaN over */
        spread.most = fmax(spread.most, values[n]);
        spread.n++;
    }
    if (spread.n == 0) return spread;
    spread.mean = sum / spread.n;
    for (int32_t n = 0; n < count; n++)
        if (!isnan(values[n])) squares += (values[n] - spread.mean) * (values[n] - spread.mean);
    if (spread.n > 1) spread.deviation = sqrt(squares / (spread.n - 1));
    return spread;
}

/* The continued fraction of the incomplete beta function, by Lentz's method; converges fast for
 * x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1.0, d = 1.0 - (a + b) * x / (a + 1.0);
    if (fabs(d) < tiny) d = tiny;
    d = 1.0 / d;
    double result = d;
    for (int m = 1; m <= 300; m++) {
        const double even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m));
        d = 1.0 + even * d;
        c = 1.0 + even / c;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        if (fabs(c) < tiny) c = tiny;
        result *= d * c;
        const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0));
        d = 1.0 + odd * d;
        c = 1.0 + odd / c;
        d = 1.0 / (fabs(d) < tiny ? tiny : d);
        if (fabs(c) < tiny) c = tiny;
        result *= d * c;
        if (fabs(d * c - 1.0) < 1e-15) break;
    }
    return result;
}

/* lgamma() without its global sign. */
static double log_gamma(double x)
{
    int sign;
    return lgamma_r(x, &sign);
}

/* The share of Student's distribution beyond t, on both sides. */
static double student_beyond(double t, double df)
{
    const double a = 0.5 * df, b = 0.5, x = df / (df + t * t);
    const double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1.0) / (a + b + 2.0)) return front * beta_fraction(a, b, x) / a;
    return 1.0 - front * beta_fraction(b, a, 1.0 - x) / b;
}

double foci_student_975(double df)
{
    if (!(df > 0.0)) return (double)NAN;
    double low = 1.0, high = 2.0;
    while (student_beyond(high, df) > 0.05 && high < 1e9) high *= 2.0;
    for (int n = 0; n < 100; n++) {
        const double middle = 0.5 * (low + high);
        if (student_beyond(middle, df) > 0.05)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}

foci_difference foci_difference_paired(const double *a, const double *b, int32_t n)
{
    foci_difference difference = {(double)NAN, (double)NAN, n, true};
    double sum = 0.0, squares = 0.0;
    for (int32_t i = 0; i < n; i++) sum += a[i] - b[i];
    if (n < 1) return difference;
    difference.mean = sum / n;
    for (int32_t i = 0; i < n; i++)
        squares += (a[i] - b[i] - difference.mean) * (a[i] - b[i] - difference.mean);
    if (n > 1) difference.half = foci_student_975(n - 1) * sqrt(squares / (n - 1) / n);
    return difference;
}

foci_difference foci_difference_apart(const double *a, int32_t a_count, const double *b,
                                      int32_t b_count)
{
    const foci_spread x = foci_spread_of(a, a_count), y = foci_spread_of(b, b_count);
    foci_difference difference = {x.mean - y.mean, (double)NAN, x.n < y.n ? x.n : y.n, false};
    if (difference.n < 2) return difference;
    const double u = x.deviation * x.deviation / x.n, v = y.deviation * y.deviation / y.n;
    difference.half = 0.0;
    if (u + v > 0.0) {
        const double df = (u + v) * (u + v) / (u * u / (x.n - 1) + v * v / (y.n - 1));
        difference.half = foci_student_975(df) * sqrt(u + v);
    }
    return difference;
}

static double log_of(double x)
{
    return log(fmax(x, 1.0));
}

/* The y at x between two points. */
static double between(double x0, double y0, double x1, double y1, double x)
{
    const double width = log_of(x1) - log_of(x0);
    if (!(width > 0.0)) return y1;
    return y0 + (y1 - y0) * (log_of(x) - log_of(x0)) / width;
}

/* The x at which the line between two points has y; y0 > y >= y1. */
static double crossing(double x0, double y0, double x1, double y1, double y)
{
    return exp(log_of(x0) + (log_of(x1) - log_of(x0)) * ((y0 - y) / (y0 - y1)));
}

double foci_curve_at(const foci_curve *curve, double x)
{
    if (curve->count < 1 || !(x >= curve->x[0]) || x > curve->x[curve->count - 1])
        return (double)NAN;
    int32_t low = 0, high = curve->count - 1; /* x[low] <= x <= x[high] */
    while (high - low > 1) {
        const int32_t middle = low + (high - low) / 2;
        if (curve->x[middle] <= x)
            low = middle;
        else
            high = middle;
    }
    if (x == curve->x[high]) return curve->y[high];
    if (x == curve->x[low]) return curve->y[low];
    return between(curve->x[low], curve->y[low], curve->x[high], curve->y[high], x);
}

double foci_curve_reach(const foci_curve *curve, double y, bool *is_bound)
{
    *is_bound = false;
    int32_t n = curve->count - 1;
    if (n < 0 || !(curve->y[n] <= y)) return (double)NAN;
    while (n > 0 && curve->y[n - 1] <= y) n--;
    if (n == 0) {
        *is_bound = true;
        return curve->x[0];
    }
    return crossing(curve->x[n - 1], curve->y[n - 1], curve->x[n], curve->y[n], y);
}

static void add_point(const foci_curve *const *curves, int32_t count, double x, foci_band *band)
{
    double sum = 0.0, low = (double)INFINITY, high = -(double)INFINITY;
    for (int32_t n = 0; n < count; n++) {
        const double y = foci_curve_at(curves[n], x);
        sum += y;
        low = fmin(low, y);
        high = fmax(high, y);
    }
    const int32_t at = band->mean.count++;
    band->mean.x[at] = x;
    band->mean.y[at] = sum / count;
    band->low[at] = low;
    band->high[at] = high;
}

void foci_curve_mean(const foci_curve *const *curves, int32_t count, foci_band *band)
{
    double first = 0.0, last = (double)INFINITY;
    const foci_curve *most = NULL;
    int32_t most_count = 0;
    band->mean.count = 0;
    for (int32_t n = 0; n < count; n++) {
        if (curves[n]->count < 1) return;
        first = fmax(first, curves[n]->x[0]);
        last = fmin(last, curves[n]->x[curves[n]->count - 1]);
    }
    for (int32_t n = 0; n < count; n++) {
        int32_t inside = 0;
        for (int32_t i = 0; i < curves[n]->count; i++)
            inside += curves[n]->x[i] >= first && curves[n]->x[i] <= last;
        if (!most || inside > most_count) {
            most = curves[n];
            most_count = inside;
        }
    }
    for (int32_t i = 0; most && i < most->count; i++)
        if (most->x[i] >= first && most->x[i] <= last) add_point(curves, count, most->x[i], band);
}

void foci_curve_minus(const foci_curve *a, const foci_curve *b, foci_curve *out)
{
    int32_t count = 0;
    for (int32_t n = 0; n < a->count; n++) {
        const double y = foci_curve_at(b, a->x[n]);
        if (isnan(y)) continue;
        out->x[count] = a->x[n];
        out->y[count] = a->y[n] - y;
        count++;
    }
    out->count = count;
}

foci_equal foci_size_at(const double *sizes, const double *losses, int32_t count, double target,
                        double *at)
{
    *at = sizes[count - 1];
    if (!(losses[count - 1] <= target)) return FOCI_EQUAL_LARGER;
    int32_t n = count - 1;
    while (n > 0 && losses[n - 1] <= target) n--;
    *at = n == 0 ? sizes[0] : crossing(sizes[n - 1], losses[n - 1], sizes[n], losses[n], target);
    return n == 0 && losses[0] < target ? FOCI_EQUAL_SMALLER : FOCI_EQUAL_AT;
}
