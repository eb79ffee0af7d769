/* A run's log and measures, line by line, into a fixed room: millions of lines cost no more memory
 * than a few hundred. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "io/json.h"
#include "report/runs_read.h"

/* A loss beyond it is as good as none; sums of them stay far from infinity. */
static const double largest_loss = 1e9;
static const double largest_count = 9007199254740992.0; /* 2^53: tokens, seconds, lengths */

void foci_run_log_start(foci_run_log *log)
{
    memset(log, 0, sizeof *log);
    log->block = 1;
    log->thin_valid.stride = log->thin_samples.stride = 1;
}

/* The place of the next thing; *is_halved: the room was full, and places 0, 2, 4, ... must be moved
 * together first. */
static int32_t next_place(foci_thin *thin, int32_t room, bool *is_halved)
{
    *is_halved = false;
    if (thin->has_tail) thin->count--;
    if (thin->count == room) {
        thin->count = (room + 1) / 2;
        thin->stride *= 2;
        *is_halved = true;
    }
    thin->has_tail = thin->seen++ % thin->stride != 0;
    return thin->count++;
}

static void add_valid(foci_run_log *log, double tokens, double loss)
{
    foci_curve *curve = &log->valid;
    /* A validation at the same tokens as the last one stands in its place. */
    if (curve->count > 0 && tokens <= curve->x[curve->count - 1]) {
        curve->y[curve->count - 1] = loss;
        return;
    }
    bool is_halved;
    const int32_t at = next_place(&log->thin_valid, FOCI_CURVE_MOST, &is_halved);
    for (int32_t n = 1; is_halved && n < at; n++) {
        curve->x[n] = curve->x[2 * (size_t)n];
        curve->y[n] = curve->y[2 * (size_t)n];
    }
    curve->x[at] = tokens;
    curve->y[at] = loss;
    curve->count = log->thin_valid.count;
}

static void add_loss(foci_run_log *log, double tokens, double loss)
{
    if (log->in_block == 0) log->sum_tokens[log->block_count] = log->sum_loss[log->block_count] = 0;
    log->sum_tokens[log->block_count] += tokens;
    log->sum_loss[log->block_count] += loss;
    log->steps++;
    if (++log->in_block < log->block) return;
    log->in_block = 0;
    if (++log->block_count < FOCI_RUNS_TRAIN) return;
    for (size_t n = 0; n < FOCI_RUNS_TRAIN / 2; n++) {
        log->sum_tokens[n] = log->sum_tokens[2 * n] + log->sum_tokens[2 * n + 1];
        log->sum_loss[n] = log->sum_loss[2 * n] + log->sum_loss[2 * n + 1];
    }
    log->block_count = FOCI_RUNS_TRAIN / 2;
    log->block *= 2;
}

void foci_run_log_train(const foci_run_log *log, foci_curve *train)
{
    train->count = 0;
    for (int32_t n = 0; n <= log->block_count; n++) {
        const int64_t steps = n < log->block_count ? log->block : log->in_block;
        if (2 * steps < log->block) continue; /* the last block, noisier than the others */
        const double x = log->sum_tokens[n] / (double)steps;
        if (train->count > 0 && x <= train->x[train->count - 1]) continue;
        train->x[train->count] = x;
        train->y[train->count++] = log->sum_loss[n] / (double)steps;
    }
}

/* Copies text, cut between two characters where it is too long. NUL ends it. */
static void copy_text(char *to, size_t room, const char *from)
{
    size_t bytes = strlen(from);
    if (bytes >= room) {
        bytes = room - 1;
        while (bytes > 0 && ((unsigned char)from[bytes] & 0xC0) == 0x80) bytes--;
    }
    memcpy(to, from, bytes);
    to[bytes] = '\0';
}

static void add_sample(foci_run_log *log, int64_t step, const char *text)
{
    bool is_halved;
    const int32_t at = next_place(&log->thin_samples, FOCI_RUNS_SAMPLES, &is_halved);
    for (int32_t n = 1; is_halved && n < at; n++) log->samples[n] = log->samples[2 * (size_t)n];
    log->samples[at].step = step;
    copy_text(log->samples[at].text, FOCI_RUNS_SAMPLE, text);
    log->sample_count = log->thin_samples.count;
}

/* A number of a line within limits, or NaN. */
static double number(const foci_json *line, const char *key, double least, double most)
{
    const double value = foci_json_real(foci_json_get(line, key), (double)NAN);
    return value >= least && value <= most ? value : (double)NAN;
}

/* Counts a bad line; what the first one is is kept. */
static void refuse(foci_run_log *log, const char *why)
{
    if (log->bad_lines++ == 0)
        (void)snprintf(log->first_bad, sizeof log->first_bad, "line %lld: %.400s",
                       (long long)log->line, why);
}

static void take_line(foci_run_log *log, const foci_json *line)
{
    const int64_t step = foci_json_int(foci_json_get(line, "step"), -1);
    if (step < 0 || step < log->last_step) {
        refuse(log, step < 0 ? "has no step" : "its step is before the last one");
        return;
    }
    log->last_step = step;
    const double tokens = number(line, "tokens", log->last_tokens, largest_count);
    if (!isnan(tokens)) log->last_tokens = tokens;
    if (foci_json_get(line, "loss")) {
        const double loss = number(line, "loss", -largest_loss, largest_loss);
        const double seconds = number(line, "seconds", log->seconds, largest_count);
        if (!isnan(seconds)) log->seconds = seconds;
        if (isnan(loss))
            log->lost_steps++;
        else
            add_loss(log, log->last_tokens, loss);
    }
    if (foci_json_get(line, "valid_loss")) {
        const double loss = number(line, "valid_loss", -largest_loss, largest_loss);
        if (isnan(loss))
            refuse(log, "its valid_loss is no number");
        else
            add_valid(log, log->last_tokens, loss);
    }
    const char *sample = foci_json_string(foci_json_get(line, "sample"));
    if (sample) add_sample(log, step, sample);
    if (foci_json_get(line, "skipped")) log->lost_steps++;
}

focal_status foci_run_log_line(focal_ctx *ctx, foci_run_log *log, const char *text, size_t bytes)
{
    log->line++;
    foci_json *line = NULL;
    const focal_status status = foci_json_parse(ctx, "not JSON", text, bytes, &line);
    if (status != FOCAL_OK && status != FOCAL_EFORMAT) return status;
    if (foci_json_is(line, FOCI_JSON_OBJECT))
        take_line(log, line);
    else
        refuse(log, status == FOCAL_OK ? "not an object" : focal_ctx_error(ctx));
    foci_json_free(line);
    return FOCAL_OK;
}

/* The place of a measure that was told before, or the next one; -1: there is no room. */
static int32_t measure_place(const foci_run_folder *run, const char *name, double length)
{
    for (int32_t n = 0; n < run->measure_count; n++) {
        const foci_measure *m = &run->measures[n];
        const bool is_equal = m->length == length || (isnan(m->length) && isnan(length));
        if (is_equal && strcmp(m->name, name) == 0) return n;
    }
    return run->measure_count < FOCI_RUNS_MEASURES ? run->measure_count : -1;
}

/* Of a measure that stands there twice the last line counts: the command was run again. */
focal_status foci_run_after_line(focal_ctx *ctx, foci_run_folder *run, const char *text,
                                 size_t bytes)
{
    foci_json *line = NULL;
    const focal_status status = foci_json_parse(ctx, "after.jsonl", text, bytes, &line);
    if (status != FOCAL_OK) return status;
    const char *name = foci_json_string(foci_json_get(line, "measure"));
    const double value = number(line, "value", -largest_count, largest_count);
    if (name && *name && !isnan(value)) {
        foci_measure measure = {.length = number(line, "length", 1.0, largest_count)};
        copy_text(measure.name, sizeof measure.name, name);
        measure.value = value;
        const int32_t at = measure_place(run, measure.name, measure.length);
        if (at >= 0) run->measures[at] = measure;
        if (at == run->measure_count) run->measure_count++;
    }
    foci_json_free(line);
    return FOCAL_OK;
}

static void take_text(const foci_json *object, const char *key, char *to)
{
    const char *text = foci_json_string(foci_json_get(object, key));
    if (text) copy_text(to, FOCI_RUNS_NAME, text);
}

focal_status foci_run_summary(focal_ctx *ctx, foci_run_folder *run, foci_notes *notes,
                              const char *text, size_t bytes)
{
    foci_json *root = NULL;
    const focal_status status = foci_json_parse(ctx, "summary.json", text, bytes, &root);
    if (status != FOCAL_OK) return status;
    char state[FOCI_RUNS_NAME] = "without a state";
    take_text(root, "state", state);
    run->is_finished = strcmp(state, "finished") == 0;
    if (!run->is_finished)
        foci_note(notes, "%s: summary.json says that the run is %s", run->name, state);
    take_text(root, "focal", run->version);
    take_text(root, "kernel", run->kernel);
    take_text(root, "machine", run->machine);
    run->parameters = number(root, "parameters", 1.0, largest_count);
    run->tokens = number(root, "tokens", 0.0, largest_count);
    run->speed = number(root, "tokens_per_second", 0.0, largest_count);
    run->seconds = number(root, "seconds", 0.0, largest_count);
    run->threads = foci_json_int(foci_json_get(root, "threads"), 0);
    run->final = number(root, "valid_loss", -largest_loss, largest_loss);
    foci_json_free(root);
    return FOCAL_OK;
}
