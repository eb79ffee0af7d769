/* Any bytes as the lines of a run's log, of its measures, and as its summary: counted as bad or
 * taken, and what was taken is a curve with ascending, finite points that fits in its room. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "report/runs_read.h"

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void check_curve(const foci_curve *curve)
{
    require(curve->count >= 0 && curve->count <= FOCI_CURVE_MOST, "a curve beyond its room");
    for (int32_t n = 0; n < curve->count; n++) {
        require(isfinite(curve->x[n]) && isfinite(curve->y[n]), "a point that is not finite");
        require(n == 0 || curve->x[n] > curve->x[n - 1], "points that do not ascend");
    }
}

static void check_run(const foci_run_folder *run)
{
    check_curve(&run->log.valid);
    check_curve(&run->train);
    require(run->log.bad_lines <= run->log.line, "more bad lines than lines");
    require(run->log.sample_count <= FOCI_RUNS_SAMPLES, "samples beyond their room");
    for (int32_t n = 0; n < run->log.sample_count; n++)
        require(strlen(run->log.samples[n].text) < FOCI_RUNS_SAMPLE, "a sample beyond its room");
    require(run->measure_count <= FOCI_RUNS_MEASURES, "measures beyond their room");
    for (int32_t n = 0; n < run->measure_count; n++)
        require(isfinite(run->measures[n].value), "a measure that is not finite");
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    static char texts[FOCI_RUNS_NOTES][FOCI_RUNS_NOTE];
    static foci_run_folder run;
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    memset(&run, 0, sizeof run);
    foci_notes notes = {.text = texts};
    foci_run_log_start(&run.log);
    const char *text = (const char *)data;
    for (size_t begin = 0; begin < size;) {
        const char *newline = memchr(text + begin, '\n', size - begin);
        const size_t bytes = newline ? (size_t)(newline - text) - begin : size - begin;
        (void)foci_run_log_line(ctx, &run.log, text + begin, bytes);
        (void)foci_run_after_line(ctx, &run, text + begin, bytes);
        begin += bytes + 1;
    }
    foci_run_log_train(&run.log, &run.train);
    (void)foci_run_summary(ctx, &run, &notes, text, size);
    check_run(&run);
    return 0;
}
