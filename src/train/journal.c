/* Lines of the log, points of the event file, and callbacks. */
#include "train/journal.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"

enum { NOTE_BYTES = 1024 };

/* Seconds since 1970, as event files have them. */
static double date_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static foci_log_field real_field(const char *name, double value)
{
    return (foci_log_field){.name = name, .type = FOCI_LOG_REAL, .real = value};
}

static foci_log_field int_field(const char *name, int64_t value)
{
    return (foci_log_field){.name = name, .type = FOCI_LOG_INT, .integer = value};
}

static foci_log_field text_field(const char *name, const char *text)
{
    return (foci_log_field){.name = name, .type = FOCI_LOG_TEXT, .text = text};
}

focal_status foci_journal_open(foci_journal *journal, const foci_run_folder *folder, int64_t step)
{
    /* A session that died before its first checkpoint has left points that are void now. */
    const bool is_again = access(folder->log, F_OK) == 0;
    FOCAL_TRY(foci_log_open(folder->ctx, folder->log, step, &journal->log));
    return foci_events_open(folder->ctx, folder->events, step < 0 && is_again ? 0 : step,
                            date_now(), &journal->events);
}

void foci_journal_close(foci_journal *journal)
{
    foci_log_close(journal->log);
    foci_events_close(journal->events);
    journal->log = NULL;
    journal->events = NULL;
}

focal_status foci_journal_sync(foci_journal *journal)
{
    FOCAL_TRY(foci_log_sync(journal->log));
    return foci_events_sync(journal->events);
}

focal_status foci_journal_step(foci_journal *journal, const focal_train_step *step, double seconds)
{
    const foci_log_field fields[] = {
        real_field("loss", step->loss), real_field("norm", step->norm),
        real_field("rate", step->rate), int_field("tokens", step->tokens),
        real_field("seconds", seconds),
    };
    const struct {
        const char *tag;
        double value;
    } points[] = {{"loss/train", step->loss},
                  {"optimiser/norm", step->norm},
                  {"optimiser/rate", step->rate},
                  {"speed/tokens_per_second", step->tokens_per_second}};
    const double now = date_now();
    FOCAL_TRY(foci_log_put(journal->log, step->step, fields, FOCAL_COUNT(fields)));
    for (size_t n = 0; n < FOCAL_COUNT(points); n++)
        FOCAL_TRY(
            foci_events_scalar(journal->events, now, step->step, points[n].tag, points[n].value));
    if (journal->watch.on_step) journal->watch.on_step(journal->watch.user, step);
    return FOCAL_OK;
}

focal_status foci_journal_skip(foci_journal *journal, int64_t step, const char *why)
{
    const foci_log_field field = text_field("skipped", why);
    FOCAL_TRY(foci_log_put(journal->log, step, &field, 1));
    foci_journal_note(journal, "step %lld left out: %s", (long long)step, why);
    return FOCAL_OK;
}

focal_status foci_journal_validation(foci_journal *journal, int64_t step, double loss,
                                     int64_t targets, int64_t tokens)
{
    const foci_log_field fields[] = {real_field("valid_loss", loss),
                                     int_field("valid_targets", targets),
                                     int_field("tokens", tokens)};
    FOCAL_TRY(foci_log_put(journal->log, step, fields, FOCAL_COUNT(fields)));
    FOCAL_TRY(foci_events_scalar(journal->events, date_now(), step, "loss/valid", loss));
    if (journal->watch.on_validation) journal->watch.on_validation(journal->watch.user, step, loss);
    return FOCAL_OK;
}

focal_status foci_journal_sample(foci_journal *journal, int64_t step, const char *text)
{
    const foci_log_field field = text_field("sample", text);
    FOCAL_TRY(foci_log_put(journal->log, step, &field, 1));
    FOCAL_TRY(foci_events_text(journal->events, date_now(), step, "sample", text));
    if (journal->watch.on_sample) journal->watch.on_sample(journal->watch.user, step, text);
    return FOCAL_OK;
}

void foci_journal_note(const foci_journal *journal, const char *format, ...)
{
    char note[NOTE_BYTES];
    va_list values;
    if (!journal->watch.on_note) return;
    va_start(values, format);
    (void)vsnprintf(note, sizeof note, format, values);
    va_end(values);
    journal->watch.on_note(journal->watch.user, note);
}

bool foci_journal_must_stop(void *journal)
{
    const foci_journal *j = journal;
    return j->watch.must_stop && j->watch.must_stop(j->watch.user);
}
