/* strftime_now: the caller's time in a pattern, with English names whatever the locale. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/template_run.h"

/* Recursion here is bounded (one pattern inside another): no deeper.
 * NOLINTBEGIN(misc-no-recursion) */

static const char *const days[] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                   "Thursday", "Friday", "Saturday"};
static const char *const months[] = {"January",   "February", "March",    "April",
                                     "May",       "June",     "July",     "August",
                                     "September", "October",  "November", "December"};

/* Patterns that stand for others. */
static const char *expand(char letter)
{
    switch (letter) {
    case 'F':
        return "%Y-%m-%d";
    case 'T':
    case 'X':
        return "%H:%M:%S";
    case 'R':
        return "%H:%M";
    case 'D':
    case 'x':
        return "%m/%d/%y";
    case 'r':
        return "%I:%M:%S %p";
    case 'c':
        return "%a %b %e %H:%M:%S %Y";
    default:
        return NULL;
    }
}

/* The number behind a letter, with its width and what fills it; false when it has none. */
static bool number_of(const struct tm *t, char letter, int *number, int *width, char *fill)
{
    *width = 2;
    *fill = '0';
    switch (letter) {
    case 'k':
    case 'l':
    case 'e':
        *fill = ' ';
        *number = letter == 'e'   ? t->tm_mday
                  : letter == 'k' ? t->tm_hour
                                  : (t->tm_hour + 11) % 12 + 1;
        return true;
    case 'd':
        *number = t->tm_mday;
        return true;
    case 'm':
        *number = t->tm_mon + 1;
        return true;
    case 'Y':
        *number = t->tm_year + 1900;
        *width = 1;
        return true;
    case 'y':
        *number = (t->tm_year % 100 + 100) % 100;
        return true;
    case 'H':
        *number = t->tm_hour;
        return true;
    case 'I':
        *number = (t->tm_hour + 11) % 12 + 1;
        return true;
    case 'M':
        *number = t->tm_min;
        return true;
    case 'S':
        *number = t->tm_sec;
        return true;
    case 'j':
        *number = t->tm_yday + 1;
        *width = 3;
        return true;
    case 'u':
    case 'w':
        *number = letter == 'u' && t->tm_wday == 0 ? 7 : t->tm_wday;
        *width = 1;
        return true;
    default:
        return false;
    }
}

/* One letter that stands for no other pattern. */
static focal_status put_letter(foci_run *run, char letter, bool is_bare, foci_builder *out)
{
    const struct tm *t = run->now;
    int number, width;
    char fill;
    if (number_of(t, letter, &number, &width, &fill)) {
        char text[32];
        if (is_bare) width = 1;
        (void)snprintf(text, sizeof text, fill == '0' ? "%0*d" : "%*d", width, number);
        return foci_builder_text(out, text);
    }
    switch (letter) {
    case 'A':
        return foci_builder_text(out, days[t->tm_wday]);
    case 'a':
        return foci_builder_add(out, days[t->tm_wday], 3);
    case 'B':
        return foci_builder_text(out, months[t->tm_mon]);
    case 'b':
    case 'h':
        return foci_builder_add(out, months[t->tm_mon], 3);
    case 'p':
        return foci_builder_text(out, t->tm_hour < 12 ? "AM" : "PM");
    case 'f':
        return foci_builder_text(out, "000000"); /* the time we get has whole seconds */
    case 'n':
        return foci_builder_text(out, "\n");
    case 't':
        return foci_builder_text(out, "\t");
    case 'z':
    case 'Z':
        return FOCAL_OK; /* datetime.now() knows no zone */
    case '%':
        return foci_builder_text(out, "%");
    default:
        break;
    }
    return foci_run_fail(run, "strftime_now: %%%c is not supported",
                         letter >= ' ' && letter <= '~' ? letter : '?');
}

static bool is_date(const struct tm *t)
{
    return t->tm_year >= -1900 && t->tm_year < 8100 && t->tm_mon >= 0 && t->tm_mon < 12 &&
           t->tm_mday > 0 && t->tm_mday < 32 && t->tm_hour >= 0 && t->tm_hour < 24 &&
           t->tm_min >= 0 && t->tm_min < 60 && t->tm_sec >= 0 && t->tm_sec < 62 &&
           t->tm_wday >= 0 && t->tm_wday < 7 && t->tm_yday >= 0 && t->tm_yday < 366;
}

static focal_status put_pattern(foci_run *run, foci_chars format, bool is_inner, foci_builder *out)
{
    for (size_t n = 0; n < format.bytes; n++) {
        if (format.data[n] != '%' || n + 1 == format.bytes) {
            FOCAL_TRY(foci_builder_add(out, &format.data[n], 1));
            continue;
        }
        n++;
        const bool is_bare = format.data[n] == '-' && n + 1 < format.bytes;
        if (is_bare) n++;
        const char *expanded = is_inner ? NULL : expand(format.data[n]);
        if (expanded)
            FOCAL_TRY(put_pattern(run, foci_chars_of(expanded), true, out));
        else
            FOCAL_TRY(put_letter(run, format.data[n], is_bare, out));
    }
    return FOCAL_OK;
}

focal_status foci_format_date(foci_run *run, foci_chars format, foci_value *out)
{
    foci_builder text = {.store = &run->store};
    if (!run->now) return foci_run_fail(run, "strftime_now: the caller gave no time");
    if (!is_date(run->now)) return foci_run_fail(run, "strftime_now: the caller's time is no date");
    FOCAL_TRY(foci_run_charge(run, (int64_t)format.bytes));
    FOCAL_TRY(put_pattern(run, format, false, &text));
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
