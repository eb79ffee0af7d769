/* What the subcommands share: messages, the choice of a verb, memory, the terminal. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list values)
{
    cli_progress("%s", "");
    (void)fputs("focal: ", stderr);
    (void)vfprintf(stderr, format, values);
    (void)fputc('\n', stderr);
}

int cli_fail(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
    return CLI_FAILED;
}

int cli_wrong(const char *format, ...)
{
    va_list values;
    va_start(values, format);
    say(format, values);
    va_end(values);
    return CLI_WRONG;
}

int cli_output_failed(void)
{
    static bool is_said;
    if (is_said) return CLI_FAILED;
    is_said = true;
    return cli_fail("the results could not be written to standard output%s%s", errno ? ": " : "",
                    errno ? strerror(errno) : "");
}

int cli_fail_ctx(const focal_ctx *ctx, focal_status status)
{
    const char *message = focal_ctx_error(ctx);
    return cli_fail("%s", *message ? message : focal_status_text(status));
}

int cli_open_ctx(int64_t threads, const char *kernel, focal_ctx **ctx)
{
    const focal_ctx_options options = {.threads = (int32_t)threads, .kernel = kernel};
    const char *error;
    const focal_status status = focal_ctx_open(&options, ctx, &error);
    if (status == FOCAL_OK) return CLI_DONE;
    if (strncmp(error, "ctx: ", 5) == 0) error += 5; /* which means nothing to users */
    if (status != FOCAL_EINVAL) return cli_fail("%s", error);
    static const char *const variables[] = {"OMP_NUM_THREADS", "FOCAL_KERNEL"};
    for (size_t n = 0; n < CLI_COUNT(variables); n++)
        if (strncmp(error, variables[n], strlen(variables[n])) == 0)
            return cli_wrong("%s, not '%s'", error, getenv(variables[n]));
    return kernel ? cli_wrong("%s, not '%s'", error, kernel) : cli_wrong("%s", error);
}

/* Edits (one letter in, out or changed) that turn a into b; words longer than 31 are far. */
static int edit_distance(const char *a, const char *b)
{
    enum { LIMIT = 32 };
    const size_t length_a = strlen(a), length_b = strlen(b);
    int row[LIMIT];
    if (length_a >= LIMIT || length_b >= LIMIT) return LIMIT;
    for (size_t j = 0; j <= length_b; j++) row[j] = (int)j;
    for (size_t i = 1; i <= length_a; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= length_b; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length_b];
}

const char *cli_nearest(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    const size_t length = strlen(word);
    int best_distance = length < 4 ? 2 : length < 6 ? 3 : 4; /* so far is no help */
    for (size_t n = 0; n < count; n++) {
        int distance = edit_distance(word, names[n]);
        /* A beginning ("vers" of "version") is near however much is missing. */
        if (length >= 2 && strncmp(word, names[n], length) == 0) distance = 1;
        if (distance >= best_distance) continue;
        best_distance = distance;
        best = names[n];
    }
    return best;
}

int cli_run_verb(const char *program, const char *about, const cli_verb *verbs, size_t verb_count,
                 int argc, char **argv)
{
    const bool has_help = argc > 1 && (strcmp(argv[1], "--help") == 0 ||
                                       strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "help") == 0);
    if (argc < 2 || has_help) {
        FILE *to = has_help ? stdout : stderr;
        (void)fprintf(to, "%s\n\nUsage: %s VERB [options]\n\n", about, program);
        for (size_t n = 0; n < verb_count; n++)
            (void)fprintf(to, "  %-8s %s\n", verbs[n].name, verbs[n].summary);
        (void)fprintf(to, "\n%s VERB --help shows the options of a verb.\n", program);
        return has_help ? CLI_DONE : CLI_WRONG;
    }
    const char *names[16];
    size_t name_count = 0;
    for (size_t n = 0; n < verb_count; n++) {
        if (strcmp(argv[1], verbs[n].name) == 0) return verbs[n].run(argc - 1, argv + 1);
        if (name_count < CLI_COUNT(names)) names[name_count++] = verbs[n].name;
    }
    const char *near = cli_nearest(argv[1], names, name_count);
    if (near) return cli_wrong("unknown verb '%s'; did you mean '%s %s'?", argv[1], program, near);
    return cli_wrong("unknown verb '%s'; see %s --help", argv[1], program);
}

bool cli_fits_memory(double bytes)
{
    const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return true;
    const double have = (double)pages * (double)page_bytes;
    if (bytes <= have) return true;
    (void)cli_fail("this run needs %.1f GiB of memory, the machine has %.1f GiB: take fewer tokens",
                   bytes / 0x1p30, have / 0x1p30);
    return false;
}

void *cli_alloc(const char *what, size_t count, size_t size)
{
    size_t bytes;
    void *block = NULL;
    if (!__builtin_mul_overflow(count, size, &bytes) && bytes < SIZE_MAX / 2)
        block = aligned_alloc(64, (bytes + 64) & ~(size_t)63);
    if (!block) (void)cli_fail("not enough memory for %s: %zu x %zu bytes", what, count, size);
    return block;
}

void cli_progress(const char *format, ...)
{
    static bool is_shown; /* the program's one progress line */
    if (!isatty(STDERR_FILENO)) return;
    if (is_shown) (void)fputs("\r\033[K", stderr);
    char line[120];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(line, sizeof line, format, values);
    va_end(values);
    (void)fputs(line, stderr);
    (void)fflush(stderr);
    is_shown = line[0] != '\0';
}

static bool wants_colour(void)
{
    const char *no_color = getenv("NO_COLOR");
    return isatty(STDOUT_FILENO) && !(no_color && *no_color);
}

const char *cli_bold(void)
{
    return wants_colour() ? "\033[1m" : "";
}

const char *cli_plain(void)
{
    return wants_colour() ? "\033[0m" : "";
}

const struct tm *cli_local_time(struct tm *now)
{
    const time_t seconds = time(NULL);
    return localtime_r(&seconds, now);
}
