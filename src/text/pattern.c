/* Patterns through PCRE2 with Unicode properties: compiled to machine code where the system lets
 * that happen, interpreted else, and when the machine code runs out of stack. A first
 * attempt sees a window of the text and has a limit of steps. A wider window, where an attempt
 * comes to its end, and the time of attempts with a higher limit are paid from what the text
 * allows. */
#include "text/pattern.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/ctx.h"
#include "base/error.h"

enum {
    MOST_SOURCE = 1 << 16,     /* bytes of a pattern; real ones have a few hundred */
    HEAP_KIBIBYTES = 64 << 10, /* of one match that backtracks */
    STACK_LEAST = 32 << 10,
    STACK_MOST = 1 << 20,
    WINDOW = 64,    /* bytes that a first attempt sees, */
    WIDER = 4,      /* and by what the next window is wider */
    STEPS = 64,     /* of a first attempt; real patterns need ten or twenty, */
    STEPS_MORE = 4, /* and by what the next limit is higher */
    STEPS_MOST = 1 << 28,
    WORK_BASE = 1 << 27, /* about nanoseconds: reading a byte counts as one */
    WORK_A_BYTE = 1 << 8
};

/* An attempt: [at, stop) is what it sees, and `at` is where it may begin. */
typedef struct attempt {
    size_t at, stop;
    size_t window;
    uint32_t steps;
    bool is_interpreted;
} attempt;

struct foci_pattern {
    focal_ctx *ctx;
    pcre2_general_context *memory;
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_jit_stack *stack;
    pcre2_match_data *match;
    pthread_mutex_t lock; /* of match and stack */
};

static void *take(size_t bytes, void *ctx)
{
    return foci_alloc(ctx, bytes, 1);
}

static void give(void *block, void *ctx)
{
    foci_free(ctx, block);
}

void foci_pattern_free(foci_pattern *pattern)
{
    if (!pattern) return;
    pcre2_match_data_free(pattern->match);
    pcre2_match_context_free(pattern->limits);
    pcre2_code_free(pattern->code);
    pcre2_jit_stack_free(pattern->stack);
    pcre2_general_context_free(pattern->memory);
    pthread_mutex_destroy(&pattern->lock);
    foci_free(pattern->ctx, pattern);
}

static focal_status compile(foci_pattern *pattern, const char *source, size_t bytes)
{
    int code = 0;
    size_t place = 0;
    pcre2_compile_context *settings = pcre2_compile_context_create(pattern->memory);
    if (!settings) return FOCAL_ENOMEM;
    pattern->code =
        pcre2_compile((PCRE2_SPTR)source, bytes, PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C,
                      &code, &place, settings);
    pcre2_compile_context_free(settings);
    if (pattern->code) return FOCAL_OK;
    if (code == PCRE2_ERROR_HEAP_FAILED) return FOCAL_ENOMEM;
    char words[160] = "unknown fault";
    (void)pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof words);
    return foci_fail(pattern->ctx, FOCAL_EFORMAT, "pattern '%.*s': byte %zu: %s",
                     (int)(bytes < 120 ? bytes : 120), source, place, words);
}

static focal_status prepare(foci_pattern *pattern, const char *source, size_t bytes)
{
    pattern->memory = pcre2_general_context_create(take, give, pattern->ctx);
    if (!pattern->memory) return FOCAL_ENOMEM;
    FOCAL_TRY(compile(pattern, source, bytes));
    pattern->limits = pcre2_match_context_create(pattern->memory);
    pattern->match = pcre2_match_data_create_from_pattern(pattern->code, pattern->memory);
    if (!pattern->limits || !pattern->match) return FOCAL_ENOMEM;
    pcre2_set_heap_limit(pattern->limits, HEAP_KIBIBYTES);
    /* Hardened systems refuse executable memory: the interpreter gives the same answers. */
    if (pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) != 0)
        return FOCAL_OK;
    pattern->stack = pcre2_jit_stack_create(STACK_LEAST, STACK_MOST, pattern->memory);
    if (!pattern->stack) return FOCAL_ENOMEM;
    pcre2_jit_stack_assign(pattern->limits, NULL, pattern->stack);
    return FOCAL_OK;
}

focal_status foci_pattern_new(focal_ctx *ctx, const char *source, size_t bytes, foci_pattern **out)
{
    *out = NULL;
    if (bytes > MOST_SOURCE)
        return foci_fail(ctx, FOCAL_EFORMAT, "pattern: %zu bytes, at most %d are accepted", bytes,
                         MOST_SOURCE);
    foci_pattern *pattern = foci_alloc(ctx, 1, sizeof *pattern);
    if (!pattern) return FOCAL_ENOMEM;
    memset(pattern, 0, sizeof *pattern);
    pattern->ctx = ctx;
    pthread_mutex_init(&pattern->lock, NULL);
    const focal_status status = prepare(pattern, source, bytes);
    if (status != FOCAL_OK) {
        foci_pattern_free(pattern);
        return status;
    }
    *out = pattern;
    return FOCAL_OK;
}

int64_t foci_pattern_work(size_t bytes)
{
    const size_t most = SIZE_MAX / 2 / WORK_A_BYTE - WORK_BASE;
    return WORK_BASE + WORK_A_BYTE * (int64_t)(bytes < most ? bytes : most);
}

/* The end of a window, at a character's beginning. */
static size_t window_end(const foci_pattern_text *in, const attempt *a)
{
    if (in->bytes - a->at <= a->window) return in->bytes;
    size_t stop = a->at + a->window;
    while ((in->text[stop] & 0xC0) == 0x80) stop--;
    return stop;
}

/* Nanoseconds that this thread has worked. */
static int64_t worked(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* A step may read one character or all of the window: only a clock knows. */
static int match(foci_pattern *pattern, const foci_pattern_text *in, const attempt *a,
                 uint32_t options)
{
    static const char nothing[] = "";
    const bool is_first = a->steps == STEPS;
    const int64_t begin = is_first ? 0 : worked();
    if (a->is_interpreted) options |= PCRE2_NO_JIT;
    pcre2_set_match_limit(pattern->limits, a->steps);
    const int found =
        pcre2_match(pattern->code, (PCRE2_SPTR)(in->text ? in->text : nothing), a->stop, a->at,
                    options | PCRE2_NO_UTF_CHECK, pattern->match, pattern->limits);
    if (!is_first) *in->work -= worked() - begin;
    return found;
}

/* Decides about the text of one window, or says what the next attempt is; true when it is over. */
static bool is_decided(foci_pattern *pattern, const foci_pattern_text *in, attempt *a, int *found)
{
    const size_t *place = pcre2_get_ovector_pointer(pattern->match);
    a->stop = window_end(in, a);
    const bool sees_end = a->stop == in->bytes;
    *found = match(pattern, in, a, sees_end ? 0 : PCRE2_PARTIAL_HARD);
    if (*found == PCRE2_ERROR_JIT_STACKLIMIT && !a->is_interpreted) {
        a->is_interpreted = true;
    } else if (*found == PCRE2_ERROR_MATCHLIMIT && a->steps < STEPS_MOST) {
        a->steps *= STEPS_MORE;
    } else if (!sees_end && *found == PCRE2_ERROR_PARTIAL) {
        /* What was before is decided: no match begins there. */
        a->at = place[0] > a->at ? place[0] : a->at;
        a->window *= WIDER;
    } else if (!sees_end && *found == PCRE2_ERROR_NOMATCH) {
        a->at = a->stop;
        a->window *= WIDER;
    } else {
        return true;
    }
    return false;
}

focal_status foci_pattern_find(focal_ctx *ctx, foci_pattern *pattern, const foci_pattern_text *in,
                               size_t from, size_t *begin, size_t *end)
{
    attempt a = {.at = from, .window = WINDOW, .steps = STEPS, .is_interpreted = !pattern->stack};
    int found;
    pthread_mutex_lock(&pattern->lock);
    while (!is_decided(pattern, in, &a, &found) && *in->work >= 0) *in->work -= (int64_t)a.window;
    const size_t *place = pcre2_get_ovector_pointer(pattern->match);
    *begin = found > 0 ? place[0] : in->bytes;
    *end = found > 0 ? place[1] : in->bytes;
    pthread_mutex_unlock(&pattern->lock);
    if (*in->work >= 0 && (found > 0 || found == PCRE2_ERROR_NOMATCH)) {
        /* \K can make a match end before it begins, or begin before `from`. */
        if (*begin < from || *end < *begin) *begin = *end = in->bytes;
        return FOCAL_OK;
    }
    if (found == PCRE2_ERROR_NOMEMORY) return foci_fail(ctx, FOCAL_ENOMEM, "pattern: no memory");
    return foci_fail(ctx, FOCAL_EINVAL,
                     "pattern: matching at byte %zu of %zu exceeds its limits of work", from,
                     in->bytes);
}
