/* Formatting of the progress line. */
#include "train/progress.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NUMBER_BYTES = 32 };

/* With commas between thousands; value >= 0. */
static void print_count(int64_t value, char out[NUMBER_BYTES])
{
    char digits[NUMBER_BYTES];
    const int length = snprintf(digits, sizeof digits, "%" PRId64, value);
    int used = 0;
    for (int n = 0; n < length && used < NUMBER_BYTES - 2; n++) {
        if (n > 0 && (length - n) % 3 == 0) out[used++] = ',';
        out[used++] = digits[n];
    }
    out[used] = '\0';
}

void foci_progress_time(double seconds, char out[FOCI_PROGRESS_TIME])
{
    /* A hundred years are no estimate; NaN fails the comparison too. */
    if (!(seconds >= 0.0 && seconds < 3.2e9)) {
        (void)snprintf(out, FOCI_PROGRESS_TIME, "?");
        return;
    }
    const int64_t whole = (int64_t)(seconds + 0.5), minutes = (whole + 30) / 60;
    const int64_t hours = (minutes + 30) / 60;
    if (whole < 90)
        (void)snprintf(out, FOCI_PROGRESS_TIME, "%" PRId64 " s", whole);
    else if (minutes < 60)
        (void)snprintf(out, FOCI_PROGRESS_TIME, "%" PRId64 " min", minutes);
    else if (minutes / 60 < 48)
        (void)snprintf(out, FOCI_PROGRESS_TIME, "%" PRId64 " h %02" PRId64 " min", minutes / 60,
                       minutes % 60);
    else
        (void)snprintf(out, FOCI_PROGRESS_TIME, "%" PRId64 " d %02" PRId64 " h", hours / 24,
                       hours % 24);
}

void foci_progress_text(const foci_progress *progress, char out[FOCI_PROGRESS_LINE])
{
    char step[NUMBER_BYTES], steps[NUMBER_BYTES], rate[NUMBER_BYTES], left[FOCI_PROGRESS_TIME];
    print_count(progress->step, step);
    print_count(progress->steps, steps);
    int used = snprintf(out, FOCI_PROGRESS_LINE, "step %*s", (int)strlen(steps), step);
    if (progress->steps > 0)
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "/%s", steps);
    if (fabs(progress->loss) < 1e6)
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  loss %7.4f",
                         progress->loss);
    else
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  loss %7s",
                         isnan(progress->loss) ? "nan" : "> 1e6");
    if (progress->has_kl && fabs(progress->kl) < 1e6)
        used +=
            snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  kl %6.4f", progress->kl);
    if (progress->has_groups && progress->has_kept)
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  kept %2.0f %%",
                         100.0 * progress->kept);
    if (progress->has_groups)
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used),
                         "  largest group %2.0f %%", 100.0 * progress->largest_group);
    if (progress->tokens_per_second > 0.0 && progress->tokens_per_second < 1e12) {
        print_count((int64_t)(progress->tokens_per_second + 0.5), rate);
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  %7s tok/s", rate);
    }
    if (progress->peak_share > 0.0 && progress->peak_share < 10.0)
        used += snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  %2.0f %% of peak",
                         100.0 * progress->peak_share);
    if (progress->seconds_left >= 0.0) {
        foci_progress_time(progress->seconds_left, left);
        (void)snprintf(out + used, (size_t)(FOCI_PROGRESS_LINE - used), "  %s left", left);
    }
}

double foci_progress_left(const foci_progress_clock *clock)
{
    double left = -1.0;
    const int64_t done = clock->step - clock->first_step;
    if (clock->steps > 0 && done > 0)
        left = clock->seconds / (double)done * fmax((double)(clock->steps - clock->step), 0.0);
    if (clock->minutes > 0.0) {
        const double rest =
            fmax(60.0 * clock->minutes - clock->before_seconds - clock->seconds, 0.0);
        left = left < 0.0 ? rest : fmin(left, rest);
    }
    return left;
}
