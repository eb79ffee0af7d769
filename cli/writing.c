/* Progress, text and the summary of a run. */
#include "writing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

enum { BAR = 30 };

double writing_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

bool writing_on_prompt(void *user, int64_t done, int64_t total)
{
    const writing *w = user;
    const double spent = writing_seconds() - w->started;
    const double speed = spent > 0.0 ? (double)done / spent : 0.0;
    const int filled = (int)(BAR * done / total);
    char bar[BAR + 1];
    for (int n = 0; n < BAR; n++) bar[n] = n < filled ? '#' : '.';
    bar[BAR] = '\0';
    if (done < total)
        cli_progress("reading [%s] %lld of %lld tokens, %.0f/s, %.0f s left", bar, (long long)done,
                     (long long)total, speed, speed > 0.0 ? (double)(total - done) / speed : 0.0);
    else
        cli_progress("%s", "");
    return !w->stop || !*w->stop;
}

/* Room for one more of `size` bytes each. */
static bool grow(void **block, size_t *capacity, size_t need, size_t size)
{
    if (need <= *capacity) return true;
    const size_t larger = need > 2 * *capacity ? need : 2 * *capacity;
    void *more = realloc(*block, larger * size);
    if (!more) return false;
    *block = more;
    *capacity = larger;
    return true;
}

static bool keep(writing *w, int32_t id, const char *text, size_t bytes)
{
    void *block = w->text;
    if (!grow(&block, &w->capacity, w->bytes + bytes + 1, 1)) return false;
    w->text = block;
    if (bytes > 0) memcpy(w->text + w->bytes, text, bytes);
    w->bytes += bytes;
    w->text[w->bytes] = '\0';
    if (id < 0) return true;
    size_t capacity = (size_t)w->id_capacity;
    block = w->ids;
    if (!grow(&block, &capacity, (size_t)w->id_count + 1, sizeof *w->ids)) return false;
    w->ids = block;
    w->id_capacity = (int64_t)capacity;
    w->ids[w->id_count++] = id;
    return true;
}

bool writing_on_token(void *user, int32_t id, const char *text, size_t bytes)
{
    writing *w = user;
    if (w->keeps && !keep(w, id, text, bytes)) return false;
    if (!w->is_quiet && bytes > 0) {
        (void)fwrite(text, 1, bytes, stdout);
        w->is_broken = fflush(stdout) != 0; /* a full disk ends the run */
        if (w->is_broken) return false;
    }
    return !w->stop || !*w->stop;
}

void writing_free(writing *w)
{
    free(w->text);
    free(w->ids);
    *w = (writing){0};
}

static double rate(int64_t count, double seconds)
{
    return seconds > 0.0 ? (double)count / seconds : 0.0;
}

void writing_summary(const focal_generate_result *r)
{
    (void)fprintf(stderr,
                  "prompt %lld token%s in %.2f s (%.0f/s), answer %lld token%s in %.2f s (%.1f/s), "
                  "stopped: %s\n",
                  (long long)r->prompt_tokens, r->prompt_tokens == 1 ? "" : "s", r->prompt_seconds,
                  rate(r->prompt_tokens, r->prompt_seconds), (long long)r->tokens,
                  r->tokens == 1 ? "" : "s", r->seconds, rate(r->tokens, r->seconds),
                  focal_stop_name(r->stop));
}
