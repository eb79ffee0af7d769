/* Measuring on a machine with neighbours: short samples, contestants by turns, medians. */
#ifndef CLI_MEASURE_H
#define CLI_MEASURE_H

#include <stdbool.h>
#include <stdint.h>

double measure_now(void); /* seconds of a clock that only goes forward */

/* A growing list of numbers; all zero is an empty one. */
typedef struct measure_samples {
    double *values;
    int64_t count, room;
} measure_samples;

bool measure_add(measure_samples *samples, double value); /* false after saying: no memory */
void measure_free(measure_samples *samples);

/* Of at least one sample. share 0.5: the median, 0.9: nine tenths lie at or below. */
double measure_quantile(const measure_samples *samples, double share);
double measure_median(const measure_samples *samples);

/* One thing to time, or (probe) one rate to note. */
typedef struct measure_item {
    bool (*run)(void *arg);                 /* one call; false: failed, and said so */
    bool (*probe)(void *arg, double *rate); /* instead of run */
    void *arg;
    measure_samples samples; /* milliseconds a call, or rates */
    int64_t calls;           /* calls a sample, found by the first ones */
} measure_item;

/* How long: until `runs` samples of each item and `seconds` are both reached. runs 0: 15, but no
 * more than three when they take longer than ten times `seconds`. */
typedef struct measure_plan {
    int64_t runs;
    double seconds;
    const char *label; /* of the progress line */
} measure_plan;

/* Warm-up is the caller's. Runs the items by turns; false when one failed. */
bool measure_run(const measure_plan *plan, measure_item *items, int32_t item_count);

#endif /* CLI_MEASURE_H */
