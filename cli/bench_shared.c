/* What the benchmarks of operations share. */
#include "bench_shared.h"

#include <stdint.h>

#include "focal/bench.h"

bench_options bench_defaults(void)
{
    return (bench_options){.seed = 1, .seconds = 1.0};
}

void bench_option_rows(bench_options *o, cli_option rows[BENCH_OPTIONS])
{
    const cli_option shared[BENCH_OPTIONS] = {
        {"kernel", 0, CLI_TEXT, &o->kernel, "NAME", "a kernel of focal info --kernels", 0, 0, NULL,
         NULL},
        {"seed", 0, CLI_INT, &o->seed, "N", "of the random inputs; default 1", 0, INT32_MAX, NULL,
         NULL},
        {"runs", 0, CLI_INT, &o->runs, "N", "samples; default 15, for long calls at least 3", 1,
         1000000, NULL, NULL},
        {"seconds", 0, CLI_NUMBER, &o->seconds, "X", "least time of a measurement; default 1", 0,
         86400, NULL, NULL},
        cli_threads_option(&o->threads),
        {"json", 0, CLI_FLAG, &o->is_json, NULL, "a JSON object a line", 0, 0, NULL, NULL},
    };
    for (int n = 0; n < BENCH_OPTIONS; n++) rows[n] = shared[n];
}

measure_plan bench_plan(const bench_options *options, const char *label)
{
    return (measure_plan){.runs = options->runs, .seconds = options->seconds, .label = label};
}

bool bench_probe_peak(void *arg, double *gflops)
{
    const bench_peak *peak = arg;
    const focal_status status = focal_bench_peak(peak->ctx, peak->dtype, gflops);
    if (status != FOCAL_OK) (void)cli_fail_ctx(peak->ctx, status);
    return status == FOCAL_OK;
}

void bench_print_speed(output_table *table, const measure_samples *ms, const measure_samples *peak,
                       double flops)
{
    const double gflops = 1e-6 * flops / measure_median(ms);
    output_number(table, "ms", measure_median(ms), 3);
    output_number(table, "p90_ms", measure_quantile(ms, 0.9), 3);
    output_number(table, "min_ms", measure_quantile(ms, 0.0), 3);
    output_number(table, "gflops", gflops, 1);
    output_number(table, "peak_gflops", measure_median(peak), 1);
    output_number(table, "peak_fraction", gflops / measure_median(peak), 3);
}
