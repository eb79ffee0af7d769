/* What the benchmarks of operations share: options, the peak between the samples, and the columns
 * of speed. */
#ifndef CLI_BENCH_SHARED_H
#define CLI_BENCH_SHARED_H

#include "cli.h"
#include "measure.h"
#include "options.h"
#include "output.h"

enum { BENCH_OPTIONS = 6 };

typedef struct bench_options {
    const char *kernel; /* NULL: the fastest */
    int64_t seed, runs, threads;
    double seconds;
    bool is_json;
} bench_options;

bench_options bench_defaults(void);

/* The rows of an option table that set these. */
void bench_option_rows(bench_options *options, cli_option rows[BENCH_OPTIONS]);

measure_plan bench_plan(const bench_options *options, const char *label);

/* A probe for measure_item; arg is one of these. */
typedef struct bench_peak {
    focal_ctx *ctx;
    focal_dtype dtype;
} bench_peak;
bool bench_probe_peak(void *arg, double *gflops);

/* Times of a call, and its operations (NaN: not counted) beside the peak. */
void bench_print_speed(output_table *table, const measure_samples *ms, const measure_samples *peak,
                       double flops);

#endif /* CLI_BENCH_SHARED_H */
