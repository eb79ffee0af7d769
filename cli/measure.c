/* Measuring on a machine with neighbours: short samples, contestants by turns, medians. */
#include "measure.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

static const double sample_seconds = 0.004; /* short calls are repeated up to this */

double measure_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool measure_add(measure_samples *samples, double value)
{
    if (samples->count == samples->room) {
        const int64_t room = samples->room ? 2 * samples->room : 64;
        double *values = realloc(samples->values, (size_t)room * sizeof *values);
        if (!values) {
            (void)cli_fail("not enough memory for %lld samples", (long long)room);
            return false;
        }
        samples->values = values;
        samples->room = room;
    }
    samples->values[samples->count++] = value;
    return true;
}

void measure_free(measure_samples *samples)
{
    free(samples->values);
    memset(samples, 0, sizeof *samples);
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double measure_quantile(const measure_samples *samples, double share)
{
    qsort(samples->values, (size_t)samples->count, sizeof *samples->values, compare_doubles);
    const double place = share * (double)(samples->count - 1);
    const int64_t below = (int64_t)place;
    const int64_t above = below + 1 < samples->count ? below + 1 : below;
    const double part = place - (double)below;
    return (1.0 - part) * samples->values[below] + part * samples->values[above];
}

double measure_median(const measure_samples *samples)
{
    return measure_quantile(samples, 0.5);
}

static bool take_sample(measure_item *item)
{
    if (item->probe) {
        double rate;
        return item->probe(item->arg, &rate) && measure_add(&item->samples, rate);
    }
    if (item->calls == 0) item->calls = 1;
    for (;;) {
        const double start = measure_now();
        for (int64_t n = 0; n < item->calls; n++)
            if (!item->run(item->arg)) return false;
        const double seconds = measure_now() - start;
        if (seconds < sample_seconds / 2 && item->samples.count == 0) {
            item->calls *= 2; /* too short to trust the clock and the wake-up of threads */
            continue;
        }
        return measure_add(&item->samples, 1e3 * seconds / (double)item->calls);
    }
}

bool measure_run(const measure_plan *plan, measure_item *items, int32_t item_count)
{
    const double start = measure_now();
    const int64_t wanted = plan->runs > 0 ? plan->runs : 15;
    for (int64_t round = 0;; round++) {
        const double seconds = measure_now() - start;
        if (round >= wanted && seconds >= plan->seconds) break;
        if (plan->runs == 0 && round >= 3 && seconds >= 10.0 * plan->seconds) break;
        cli_progress("%s: sample %lld, %.1f s", plan->label, (long long)round + 1, seconds);
        for (int32_t n = 0; n < item_count; n++)
            if (!take_sample(&items[n])) return false;
    }
    cli_progress("%s", "");
    return true;
}
