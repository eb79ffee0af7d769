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

/* What a line of the log says, and under which tag the event file has it; NULL: not there. */
typedef struct point {
    const char *name, *tag;
    double value;
} point;

enum { MOST_POINTS = 8 };

/* Reals first, then what is counted, in the log; the reals in the event file. */
static focal_status put_points(foci_journal *journal, int64_t step, const point *points, int count,
                               const foci_log_field *counts, int count_count)
{
    foci_log_field fields[2 * MOST_POINTS];
    const double now = date_now();
    int used = 0;
    for (int n = 0; n < count; n++)
        if (points[n].name) fields[used++] = real_field(points[n].name, points[n].value);
    for (int n = 0; n < count_count; n++) fields[used++] = counts[n];
    FOCAL_TRY(foci_log_put(journal->log, step, fields, used));
    for (int n = 0; n < count; n++)
        if (points[n].tag)
            FOCAL_TRY(
                foci_events_scalar(journal->events, now, step, points[n].tag, points[n].value));
    return FOCAL_OK;
}

focal_status foci_journal_step(foci_journal *journal, const focal_train_step *step, double seconds)
{
    point points[MOST_POINTS] = {{"loss", "loss/train", step->loss},
                                 {"norm", "optimiser/norm", step->norm},
                                 {"rate", "optimiser/rate", step->rate},
                                 {NULL, "speed/tokens_per_second", step->tokens_per_second}};
    const foci_log_field counts[] = {int_field("tokens", step->tokens),
                                     real_field("seconds", seconds)};
    int used = 4;
    if (step->has_kl) points[used++] = (point){"kl", "loss/kl", step->kl};
    if (step->has_groups && step->has_kept)
        points[used++] = (point){"kept", "groups/kept", step->kept};
    if (step->has_groups) {
        points[used++] = (point){"largest_group", "groups/largest", step->largest_group};
        points[used++] =
            (point){"mean_largest_group", "groups/mean_largest", step->mean_largest_group};
    }
    FOCAL_TRY(put_points(journal, step->step, points, used, counts, FOCAL_COUNT(counts)));
    if (journal->watch.on_step) journal->watch.on_step(journal->watch.user, step);
    return FOCAL_OK;
}

focal_status foci_journal_skip(foci_journal *journal, int64_t step, const char *why)
{
    const foci_log_field field = text_field("skipped", why);
    FOCAL_TRY(foci_log_put(journal->log, step, &field, 1));
    foci_journal_warn(journal, "step %lld left out: %s", (long long)step, why);
    return FOCAL_OK;
}

focal_status foci_journal_validation(foci_journal *journal, int64_t step,
                                     const foci_batch_loss *loss, int64_t tokens)
{
    const double mean = loss->nll / (double)loss->targets;
    point points[MOST_POINTS] = {{"valid_loss", "loss/valid", mean}};
    const foci_log_field counts[] = {int_field("valid_targets", loss->targets),
                                     int_field("tokens", tokens)};
    int used = 1;
    if (loss->kl_rows > 0)
        points[used++] = (point){"valid_kl", "loss/valid_kl", loss->kl / (double)loss->kl_rows};
    if (loss->distant_pairs > 0)
        points[used++] = (point){"valid_kept", "groups/valid_kept",
                                 (double)loss->kept_pairs / (double)loss->distant_pairs};
    FOCAL_TRY(put_points(journal, step, points, used, counts, FOCAL_COUNT(counts)));
    if (journal->watch.on_validation) {
        const bool has_kl = loss->kl_rows > 0;
        const focal_train_validation found = {step, mean, has_kl,
                                              has_kl ? loss->kl / (double)loss->kl_rows : 0.0};
        journal->watch.on_validation(journal->watch.user, &found);
    }
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

static __attribute__((format(printf, 3, 0))) void tell(const foci_journal *journal,
                                                       void (*to)(void *user, const char *sentence),
                                                       const char *format, va_list values)
{
    char sentence[NOTE_BYTES];
    if (!to) return;
    (void)vsnprintf(sentence, sizeof sentence, format, values);
    to(journal->watch.user, sentence);
}

void foci_journal_note(const foci_journal *journal, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    tell(journal, journal->watch.on_note, format, values);
    va_end(values);
}

void foci_journal_warn(const foci_journal *journal, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    tell(journal, journal->watch.on_warning, format, values);
    va_end(values);
}

bool foci_journal_must_stop(void *journal)
{
    const foci_journal *j = journal;
    return j->watch.must_stop && j->watch.must_stop(j->watch.user);
}
