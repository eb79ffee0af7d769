/* Reading a run folder: settings, log, summary and measures, each of which may be missing, cut
 * short or not what it claims to be. */
#include "report/runs_read.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/file.h"

enum { LINE_MOST = 1 << 18, SUMMARY_MOST = 1 << 16, CHUNK = 1 << 16, AFTER_LINES = 4096 };

void foci_note(foci_notes *notes, const char *format, ...)
{
    if (notes->count == FOCI_RUNS_NOTES) {
        notes->left_out++;
        return;
    }
    va_list values;
    va_start(values, format);
    (void)vsnprintf(notes->text[notes->count++], FOCI_RUNS_NOTE, format, values);
    va_end(values);
}

const char *foci_run_folder_value(const foci_run_folder *run, int key)
{
    return run->values + run->value_at[key];
}

void foci_run_folder_free(focal_ctx *ctx, foci_run_folder *run)
{
    if (!run) return;
    foci_free(ctx, run->path);
    foci_free(ctx, run->values);
    foci_free(ctx, run);
}

/* Hands the lines of a file to `take`, until it fails. Lines beyond LINE_MOST are handed over as
 * empty ones. *is_cut: the last line has no end. */
typedef focal_status (*line_taker)(focal_ctx *ctx, void *user, const char *text, size_t bytes);

static focal_status read_lines(focal_ctx *ctx, FILE *file, line_taker take, void *user,
                               bool *is_cut)
{
    *is_cut = false;
    char *line = foci_alloc(ctx, LINE_MOST + CHUNK, 1);
    if (!line) return FOCAL_ENOMEM;
    char *chunk = line + LINE_MOST;
    size_t bytes = 0, got;
    bool is_long = false;
    focal_status status = FOCAL_OK;
    while (status == FOCAL_OK && (got = fread(chunk, 1, CHUNK, file)) > 0) {
        for (size_t begin = 0; status == FOCAL_OK && begin < got;) {
            const char *newline = memchr(chunk + begin, '\n', got - begin);
            const size_t part = newline ? (size_t)(newline - chunk) - begin : got - begin;
            is_long |= bytes + part > LINE_MOST;
            if (!is_long) memcpy(line + bytes, chunk + begin, part);
            bytes = is_long ? 0 : bytes + part;
            begin += part + (newline != NULL);
            if (!newline) continue;
            status = take(ctx, user, line, bytes);
            bytes = 0;
            is_long = false;
        }
    }
    *is_cut = status == FOCAL_OK && (bytes > 0 || is_long);
    foci_free(ctx, line);
    return status;
}

static focal_status take_log(focal_ctx *ctx, void *user, const char *text, size_t bytes)
{
    return foci_run_log_line(ctx, user, text, bytes);
}

typedef struct after_lines {
    foci_run_folder *run;
    int64_t count, bad;
} after_lines;

static focal_status take_after(focal_ctx *ctx, void *user, const char *text, size_t bytes)
{
    after_lines *after = user;
    if (after->count++ == AFTER_LINES) return FOCAL_EFORMAT;
    const focal_status status = foci_run_after_line(ctx, after->run, text, bytes);
    after->bad += status == FOCAL_EFORMAT;
    return status == FOCAL_EFORMAT ? FOCAL_OK : status;
}

/* Opens a file of the folder that may be missing; NULL then, or with a note when something else is
 * wrong. A pipe there would keep us waiting. */
static FILE *open_part(focal_ctx *ctx, const foci_run_folder *run, const char *name,
                       foci_notes *notes, focal_status *status)
{
    char *path = foci_path_join(ctx, run->path, strlen(run->path), name);
    *status = path ? FOCAL_OK : FOCAL_ENOMEM;
    if (!path) return NULL;
    struct stat there;
    FILE *file = NULL;
    if (stat(path, &there) != 0) {
        if (errno != ENOENT) foci_note(notes, "%s: %s: %s", run->name, name, strerror(errno));
    } else if (!S_ISREG(there.st_mode)) {
        foci_note(notes, "%s: %s is not an ordinary file", run->name, name);
    } else {
        file = fopen(path, "rb");
        if (!file) foci_note(notes, "%s: %s: %s", run->name, name, strerror(errno));
    }
    foci_free(ctx, path);
    return file;
}

static focal_status read_log(focal_ctx *ctx, foci_run_folder *run, foci_notes *notes)
{
    focal_status status;
    FILE *file = open_part(ctx, run, "log.jsonl", notes, &status);
    foci_run_log_start(&run->log);
    if (file) {
        bool is_cut;
        status = read_lines(ctx, file, take_log, &run->log, &is_cut);
        if (ferror(file)) foci_note(notes, "%s: log.jsonl: reading failed", run->name);
        (void)fclose(file);
        if (status == FOCAL_OK && is_cut)
            foci_note(notes, "%s: log.jsonl ends within a line, which is left out", run->name);
        if (run->log.bad_lines > 0)
            foci_note(notes, "%s: log.jsonl: %" PRId64 " lines left out; the first, %s", run->name,
                      run->log.bad_lines, run->log.first_bad);
        if (run->log.lost_steps > 0)
            foci_note(notes, "%s: %" PRId64 " steps without a loss (skipped, or no number)",
                      run->name, run->log.lost_steps);
    } else if (status == FOCAL_OK) {
        foci_note(notes, "%s: there is no log.jsonl", run->name);
    }
    foci_run_log_train(&run->log, &run->train);
    return status;
}

static focal_status read_after(focal_ctx *ctx, foci_run_folder *run, foci_notes *notes)
{
    focal_status status;
    FILE *file = open_part(ctx, run, "after.jsonl", notes, &status);
    if (!file) return status;
    after_lines after = {.run = run};
    bool is_cut;
    status = read_lines(ctx, file, take_after, &after, &is_cut);
    (void)fclose(file);
    if (status == FOCAL_EFORMAT) {
        foci_note(notes, "%s: after.jsonl: only its first %d lines are read", run->name,
                  AFTER_LINES);
        status = FOCAL_OK;
    }
    if (after.bad > 0 || is_cut)
        foci_note(notes, "%s: after.jsonl: %" PRId64 " lines left out that are not JSON", run->name,
                  after.bad + is_cut);
    return status;
}

static focal_status read_summary(focal_ctx *ctx, foci_run_folder *run, foci_notes *notes)
{
    focal_status status;
    run->final = run->parameters = run->tokens = run->speed = run->seconds = (double)NAN;
    FILE *file = open_part(ctx, run, "summary.json", notes, &status);
    if (!file) {
        if (status == FOCAL_OK)
            foci_note(notes, "%s: not finished: there is no summary.json (step %" PRId64 " of %s)",
                      run->name, run->log.last_step,
                      foci_run_folder_value(run, foci_run_find(foci_text_of("schedule.steps"))));
        return status;
    }
    char *text = foci_alloc(ctx, SUMMARY_MOST, 1);
    const size_t bytes = text ? fread(text, 1, SUMMARY_MOST, file) : 0;
    (void)fclose(file);
    status = text ? foci_run_summary(ctx, run, notes, text, bytes) : FOCAL_ENOMEM;
    foci_free(ctx, text);
    if (status == FOCAL_EFORMAT) {
        foci_note(notes, "%s: counted as not finished: %s", run->name, focal_ctx_error(ctx));
        status = FOCAL_OK;
    }
    return status;
}

/* Log and summary tell some things twice. The log is right where they differ: it was written as the
 * run went on. */
static void compare_parts(foci_run_folder *run, foci_notes *notes)
{
    const foci_run_log *log = &run->log;
    const int32_t count = log->valid.count;
    if (count > 0) {
        const double last = log->valid.y[count - 1];
        if (fabs(run->final - last) > 1e-6 * fabs(last))
            foci_note(notes, "%s: summary.json gives the validation loss %.6g, log.jsonl %.6g",
                      run->name, run->final, last);
        run->final = last;
    }
    if (log->last_tokens > 0.0) {
        if (fabs(run->tokens - log->last_tokens) > 0.5)
            foci_note(notes, "%s: summary.json gives %.0f tokens, log.jsonl %.0f", run->name,
                      run->tokens, log->last_tokens);
        run->tokens = log->last_tokens;
    }
    if (count > 0 && log->valid.x[count - 1] < log->last_tokens && run->is_finished)
        foci_note(notes, "%s: the last validation is of %.0f tokens, the run of %.0f", run->name,
                  log->valid.x[count - 1], log->last_tokens);
    if (isnan(run->final)) foci_note(notes, "%s: there is no validation loss", run->name);
    if (isnan(run->seconds) && log->seconds > 0.0) run->seconds = log->seconds;
    if (isnan(run->speed) && run->seconds > 0.0) run->speed = run->tokens / run->seconds;
}

/* The settings as texts, so that they are compared as they are written. */
static focal_status keep_values(focal_ctx *ctx, const foci_run *settings, foci_run_folder *run)
{
    char value[FOCI_RUN_VALUE];
    size_t bytes = 0;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        foci_run_value(settings, n, value);
        bytes += strlen(value) + 1;
    }
    run->values = foci_alloc(ctx, bytes, 1);
    if (!run->values) return FOCAL_ENOMEM;
    bytes = 0;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        foci_run_value(settings, n, value);
        run->value_at[n] = (int32_t)bytes;
        memcpy(run->values + bytes, value, strlen(value) + 1);
        bytes += strlen(value) + 1;
    }
    run->seed = settings->seed;
    return FOCAL_OK;
}

static focal_status read_settings(focal_ctx *ctx, foci_run_folder *run, foci_notes *notes,
                                  bool *is_read)
{
    char *path = foci_path_join(ctx, run->path, strlen(run->path), "run.conf");
    foci_run *settings = foci_alloc(ctx, 1, sizeof *settings);
    focal_status status = path && settings ? FOCAL_OK : FOCAL_ENOMEM;
    *is_read = false;
    if (status == FOCAL_OK) {
        foci_run_init(settings);
        status = foci_run_read(ctx, path, settings);
        if (status == FOCAL_OK) status = foci_run_resolve(ctx, settings);
        *is_read = status == FOCAL_OK;
    }
    if (*is_read)
        status = keep_values(ctx, settings, run);
    else if (status != FOCAL_ENOMEM) {
        foci_note(notes, "left out: %s", focal_ctx_error(ctx));
        status = FOCAL_OK;
    }
    foci_free(ctx, settings);
    foci_free(ctx, path);
    return status;
}

/* The last part of a path, slashes at its end aside; what is no plain text is shown as "?". */
static void take_name(const char *path, char name[FOCI_RUNS_NAME])
{
    size_t end = strlen(path);
    while (end > 1 && path[end - 1] == '/') end--;
    size_t begin = end;
    while (begin > 0 && path[begin - 1] != '/') begin--;
    (void)snprintf(name, FOCI_RUNS_NAME, "%.*s", (int)foci_min64((int64_t)(end - begin), 64),
                   path + begin);
    if (!foci_text_is_plain(foci_text_of(name)))
        for (char *c = name; *c; c++)
            if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7F) *c = '?';
}

focal_status foci_run_folder_read(focal_ctx *ctx, const char *path, foci_notes *notes,
                                  foci_run_folder **out)
{
    *out = NULL;
    foci_run_folder *run = foci_alloc(ctx, 1, sizeof *run);
    if (!run) return FOCAL_ENOMEM;
    memset(run, 0, sizeof *run);
    const size_t bytes = strlen(path) + 1;
    run->path = foci_alloc(ctx, bytes, 1);
    bool is_read = false;
    focal_status status = run->path ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) {
        memcpy(run->path, path, bytes);
        take_name(path, run->name);
        status = read_settings(ctx, run, notes, &is_read);
    }
    if (status == FOCAL_OK && is_read) {
        status = read_log(ctx, run, notes);
        if (status == FOCAL_OK) status = read_summary(ctx, run, notes);
        if (status == FOCAL_OK) status = read_after(ctx, run, notes);
        if (status == FOCAL_OK) compare_parts(run, notes);
    }
    if (status == FOCAL_OK && is_read)
        *out = run;
    else
        foci_run_folder_free(ctx, run);
    return status;
}
