/* How a fit went, from the lines of its log into a fixed room. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "io/json.h"
#include "report/fits_read.h"

void foci_fit_log_start(foci_fit_log *log)
{
    memset(log, 0, sizeof *log);
    log->block = log->valid_stride = 1;
    log->last_step = -1;
    log->has_kl = log->has_largest = true;
}

/* Two neighbours become one block of twice the steps. */
static void join(double *sums, int32_t count)
{
    for (size_t n = 0; n < (size_t)count / 2; n++) sums[n] = sums[2 * n] + sums[2 * n + 1];
}

static void add_step(foci_fit_log *log, int64_t step, double kl, double largest)
{
    const int32_t at = log->count;
    if (log->in_block == 0) log->step[at] = log->kl[at] = log->largest[at] = 0.0;
    log->has_kl &= !isnan(kl);
    log->has_largest &= !isnan(largest);
    log->step[at] += (double)step;
    log->kl[at] += kl;
    log->largest[at] += largest;
    log->last_step = step;
    if (++log->in_block < log->block) return;
    log->in_block = 0;
    if (++log->count < FOCI_FIT_POINTS) return;
    join(log->step, log->count);
    join(log->kl, log->count);
    join(log->largest, log->count);
    log->count /= 2;
    log->block *= 2;
}

/* Kept are those whose number is a multiple of the stride; the place behind them is the last's. */
static void add_validation(foci_fit_log *log, int64_t step, double kl)
{
    const bool is_kept = log->valid_seen % log->valid_stride == 0;
    const bool has_last = log->valid_seen > 0 && (log->valid_seen - 1) % log->valid_stride != 0;
    if (isnan(kl) ||
        (log->valid_count > 0 && (double)step <= log->valid_step[log->valid_count - 1]))
        return;
    if (has_last) log->valid_count--;
    if (is_kept && log->valid_count == FOCI_FIT_POINTS) {
        log->valid_count /= 2;
        log->valid_stride *= 2;
        for (int64_t n = 1; n < log->valid_count; n++) {
            log->valid_step[n] = log->valid_step[2 * n];
            log->valid_kl[n] = log->valid_kl[2 * n];
        }
    }
    log->valid_step[log->valid_count] = (double)step;
    log->valid_kl[log->valid_count++] = kl;
    log->valid_seen++;
}

/* A number of a line within limits, or NaN. */
static double number(const foci_json *line, const char *key, double most)
{
    const double value = foci_json_real(foci_json_get(line, key), (double)NAN);
    return fabs(value) <= most ? value : (double)NAN;
}

focal_status foci_fit_log_line(focal_ctx *ctx, foci_fit_log *log, const char *text, size_t bytes)
{
    foci_json *line = NULL;
    const focal_status status = foci_json_parse(ctx, "log.jsonl", text, bytes, &line);
    if (status != FOCAL_OK && status != FOCAL_EFORMAT) return status;
    const int64_t step = foci_json_int(foci_json_get(line, "step"), -1);
    if (!foci_json_is(line, FOCI_JSON_OBJECT) || step < 0 || step > INT32_MAX)
        log->bad_lines++;
    else if (foci_json_get(line, "loss") && step > log->last_step)
        add_step(log, step, number(line, "kl", 1e6), number(line, "largest_group", 1.0));
    else if (foci_json_get(line, "valid_kl"))
        add_validation(log, step, number(line, "valid_kl", 1e6));
    foci_json_free(line);
    return FOCAL_OK;
}

void foci_fit_log_end(foci_fit_log *log)
{
    if (2 * log->in_block >= log->block) log->count++; /* else noisier than the others: left out */
    for (int32_t n = 0; n < log->count; n++) {
        const bool is_last =
            n == log->count - 1 && log->in_block > 0 && 2 * log->in_block >= log->block;
        const double steps = (double)(is_last ? log->in_block : log->block);
        log->step[n] /= steps;
        log->kl[n] /= steps;
        log->largest[n] /= steps;
    }
    if (log->count == 0) log->has_kl = log->has_largest = false;
}
