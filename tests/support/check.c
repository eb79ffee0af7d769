/* Comparers, counted memory and the record of kernels. */
#include "support/check.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"

enum { MAX_NOTES = 64, MIN_ROW = 16 };

static char sentence[512];

/* One rounding: half a unit in the last place, relative. */
static double rounding_of(focal_dtype dtype)
{
    return dtype == FOCAL_BF16 ? 0x1p-9 : 0x1p-24;
}

static double largest(const double *x, int64_t count)
{
    double result = 0.0;
    for (int64_t n = 0; n < count; n++)
        if (isfinite(x[n])) result = fmax(result, fabs(x[n]));
    return result;
}

/* Whether got is finite exactly where exact is, and the same infinity where it is not. */
static bool same_kind(double got, double exact)
{
    if (isnan(exact)) return isnan(got);
    if (isinf(exact)) return got == exact;
    return isfinite(got);
}

static double magnitude_of(const error_bound *b, double common, int64_t n)
{
    return (b->magnitude ? b->magnitude[n] : common) + 1e-300;
}

/* The error of one element against its magnitude. What is lost when a weight leaves the range of
 * float does not count. */
static double error_of(const error_bound *b, double common, int64_t n, float x)
{
    return fmax(fabs((double)x - b->exact[n]) - 1e-36, 0.0) / magnitude_of(b, common, n);
}

/* What any element may be off by, against its magnitude. */
static double floor_of(const error_bound *b, double common, int64_t n)
{
    const double floor = 2.0 * rounding_of(FOCAL_F32);
    if (b->dtype == FOCAL_F32) return floor;
    return floor + 2.0 * rounding_of(b->dtype) * fabs(b->exact[n]) / magnitude_of(b, common, n);
}

static double common_magnitude(const error_bound *b)
{
    return b->magnitude ? 0.0 : largest(b->exact, b->count);
}

void measure_error(const error_bound *b, const float *x, double *worst, double *mean)
{
    const double common = common_magnitude(b);
    double squares = 0.0;
    int64_t finite = 0;
    *worst = 0.0;
    for (int64_t n = 0; n < b->count; n++) {
        if (!isfinite(b->exact[n])) continue;
        const double error = error_of(b, common, n, x[n]);
        *worst = fmax(*worst, error);
        squares += error * error;
        finite++;
    }
    *mean = finite > 0 ? sqrt(squares / (double)finite) : 0.0;
}

/* The first row whose errors are beyond those of plain, or -1. */
static int64_t row_beyond(const error_bound *b, double common, const float *got)
{
    if (b->row < MIN_ROW || b->dtype == FOCAL_F32) return -1;
    for (int64_t at = 0; at + b->row <= b->count; at += b->row) {
        double own = 0.0, plain = 0.0, floors = 0.0;
        for (int64_t n = at; n < at + b->row; n++) {
            if (!isfinite(b->exact[n])) continue;
            const double size = magnitude_of(b, common, n);
            own += pow(size * error_of(b, common, n, got[n]), 2.0);
            plain += pow(size * error_of(b, common, n, b->plain[n]), 2.0);
            floors += pow(size * floor_of(b, common, n), 2.0);
        }
        if (!(sqrt(own) <= 2.0 * b->factor * sqrt(plain) + sqrt(floors))) return at / b->row;
    }
    return -1;
}

const char *error_beyond(const error_bound *b, const float *got)
{
    const double common = common_magnitude(b);
    double worst, plain_mean, got_worst, mean, floors = 0.0;
    measure_error(b, b->plain, &worst, &plain_mean);
    worst = fmax(worst, b->known_worst);
    plain_mean = fmax(plain_mean, b->known_mean);
    int64_t finite = 0;
    for (int64_t n = 0; n < b->count; n++) {
        const double error = error_of(b, common, n, got[n]), floor = floor_of(b, common, n);
        const double limit = b->factor * worst + floor;
        const bool fits = same_kind((double)got[n], b->exact[n]);
        if (fits && !isfinite(b->exact[n])) continue;
        floors += floor * floor;
        finite++;
        if (fits && error <= limit) continue;
        (void)snprintf(sentence, sizeof sentence,
                       "%s: element %lld of %lld is %.9g, exact %.9g, plain %.9g: error %.3g of "
                       "magnitude %.3g, allowed %.3g (worst of plain %.3g)",
                       b->name, (long long)n, (long long)b->count, (double)got[n], b->exact[n],
                       (double)b->plain[n], error, magnitude_of(b, common, n), limit, worst);
        return sentence;
    }
    measure_error(b, got, &got_worst, &mean);
    const double mean_limit =
        b->factor * plain_mean + (finite > 0 ? sqrt(floors / (double)finite) : 0.0);
    const int64_t row = row_beyond(b, common, got);
    if (mean <= mean_limit && row < 0) return NULL;
    if (mean <= mean_limit)
        (void)snprintf(sentence, sizeof sentence,
                       "%s: the mean error of row %lld is beyond that of plain loops", b->name,
                       (long long)row);
    else
        (void)snprintf(sentence, sizeof sentence,
                       "%s: mean error %.3g of %lld elements, allowed %.3g", b->name, mean,
                       (long long)b->count, mean_limit);
    return sentence;
}

void assert_within(const error_bound *bound, const float *got)
{
    const char *text = error_beyond(bound, got);
    if (text) fail_msg("%s", text);
}

void assert_error_within(const char *name, const float *got, const float *plain,
                         const double *exact, size_t count, double factor)
{
    const error_bound bound = {
        .name = name, .plain = plain, .exact = exact, .count = (int64_t)count, .factor = factor};
    assert_within(&bound, got);
}

const char *double_beyond(const char *name, const double *got, const double *exact, int64_t count,
                          double tolerance)
{
    const double limit = tolerance * fmax(largest(exact, count), 1e-300);
    for (int64_t n = 0; n < count; n++) {
        const bool fits = same_kind(got[n], exact[n]);
        if (fits && (!isfinite(exact[n]) || fabs(got[n] - exact[n]) <= limit)) continue;
        (void)snprintf(sentence, sizeof sentence,
                       "%s: element %lld of %lld is %.17g, expected %.17g, allowed %.3g", name,
                       (long long)n, (long long)count, got[n], exact[n], limit);
        return sentence;
    }
    return NULL;
}

void assert_doubles_within(const char *name, const double *got, const double *exact, int64_t count,
                           double tolerance)
{
    const char *text = double_beyond(name, got, exact, count, tolerance);
    if (text) fail_msg("%s", text);
}

enum { FILL_BF16 = 0x7FED };
static const uint32_t fill_f32 = 0x7FEDFACEU;

void fill_nan(void *data, size_t count, focal_dtype dtype)
{
    const uint16_t half = FILL_BF16;
    const size_t bytes = focal_dtype_bytes(dtype);
    const void *pattern = dtype == FOCAL_BF16 ? (const void *)&half : (const void *)&fill_f32;
    for (size_t n = 0; n < count; n++) memcpy((char *)data + n * bytes, pattern, bytes);
}

bool is_fill_nan(const void *data, size_t index, focal_dtype dtype)
{
    const uint16_t half = FILL_BF16;
    const size_t bytes = focal_dtype_bytes(dtype);
    const void *pattern = dtype == FOCAL_BF16 ? (const void *)&half : (const void *)&fill_f32;
    return memcmp((const char *)data + index * bytes, pattern, bytes) == 0;
}

float element_get(const void *data, int64_t index, focal_dtype dtype)
{
    if (dtype == FOCAL_BF16) return foci_bf16_to_float(((const uint16_t *)data)[index]);
    return ((const float *)data)[index];
}

void element_set(void *data, int64_t index, focal_dtype dtype, float value)
{
    if (dtype == FOCAL_BF16)
        ((uint16_t *)data)[index] = foci_bf16_from_float(value);
    else
        ((float *)data)[index] = value;
}

static struct {
    pthread_mutex_t lock;
    int64_t live, requests, fail_at;
    bool fail_on;
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *memory_alloc(void *user, size_t bytes)
{
    (void)user;
    pthread_mutex_lock(&memory.lock);
    const int64_t request = ++memory.requests;
    const bool fails = memory.fail_at > 0 &&
                       (request == memory.fail_at || (memory.fail_on && request > memory.fail_at));
    void *block = NULL;
    if (!fails && bytes <= SIZE_MAX - 63) block = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (block) memory.live++;
    pthread_mutex_unlock(&memory.lock);
    if (block) memset(block, 0xFF, bytes); /* NaN, and -1: nobody may count on zeros */
    return block;
}

static void memory_release(void *user, void *block, size_t bytes)
{
    (void)user;
    memset(block, 0xFF, bytes); /* a wrong size shows under ASan */
    free(block);
    pthread_mutex_lock(&memory.lock);
    memory.live--;
    pthread_mutex_unlock(&memory.lock);
}

void memory_fail(int64_t fail_at, bool fail_on)
{
    pthread_mutex_lock(&memory.lock);
    memory.requests = 0;
    memory.fail_at = fail_at;
    memory.fail_on = fail_on;
    pthread_mutex_unlock(&memory.lock);
}

int64_t memory_live_blocks(void)
{
    return memory.live;
}

int64_t memory_requests(void)
{
    return memory.requests;
}

focal_allocator memory_allocator(void)
{
    return (focal_allocator){NULL, memory_alloc, memory_release};
}

focal_ctx *new_ctx(int32_t threads)
{
    const focal_ctx_options options = {.threads = threads, .allocator = memory_allocator()};
    focal_ctx *ctx = NULL;
    const char *error = NULL;
    if (focal_ctx_open(&options, &ctx, &error) != FOCAL_OK) fail_msg("%s", error);
    return ctx;
}

int open_ctx(void **state)
{
    memory_fail(0, false);
    *state = new_ctx(2);
    return 0;
}

int close_ctx(void **state)
{
    focal_ctx_close(*state);
    if (memory_live_blocks() == 0) return 0;
    print_error("%lld blocks of memory were left behind\n", (long long)memory_live_blocks());
    return 1;
}

void assert_status(focal_ctx *ctx, focal_status got, focal_status expected)
{
    if (got != expected)
        fail_msg("status %d (%s), expected %d: %s", (int)got, focal_status_text(got), (int)expected,
                 focal_ctx_error(ctx));
    if (got == FOCAL_OK) return;
    const char *text = focal_ctx_error(ctx);
    if (!*text || strchr(text, '\n')) fail_msg("not one line of text: '%s'", text);
}

static struct {
    const char *operation, *kernel;
    int64_t count;
} notes[MAX_NOTES];
static int note_count;

void note_ran(const char *operation, const char *kernel)
{
    for (int n = 0; n < note_count; n++) {
        if (strcmp(notes[n].operation, operation) != 0 || strcmp(notes[n].kernel, kernel) != 0)
            continue;
        notes[n].count++;
        return;
    }
    assert_true(note_count < MAX_NOTES);
    notes[note_count].operation = operation;
    notes[note_count].kernel = kernel;
    notes[note_count++].count = 1;
}

void note_without(const char *operation, const char *kernel)
{
    assert_true(note_count < MAX_NOTES);
    notes[note_count].operation = operation;
    notes[note_count].kernel = kernel;
    notes[note_count++].count = 0;
}

static bool has_run(const char *operation, const char *kernel, size_t length)
{
    for (int n = 0; n < note_count; n++)
        if (strcmp(notes[n].operation, operation) == 0 && strlen(notes[n].kernel) == length &&
            strncmp(notes[n].kernel, kernel, length) == 0)
            return true;
    return false;
}

/* Whether one entry of the list, `length` characters, asks nothing of the operation or has run. */
static bool is_satisfied(const char *operation, const char *entry, size_t length)
{
    const char *colon = memchr(entry, ':', length);
    if (!colon) return length == 0 || has_run(operation, entry, length);
    const size_t prefix = (size_t)(colon - entry);
    if (strncmp(operation, entry, prefix) != 0) return true;
    return has_run(operation, colon + 1, length - prefix - 1);
}

const char *missing_kernel(const char *operation, const char *kernel, const char *required)
{
    if (!has_run(operation, kernel, strlen(kernel))) return kernel;
    while (required && *required) {
        const size_t length = strcspn(required, ",");
        if (!is_satisfied(operation, required, length)) return required;
        required += length + (required[length] == ',');
    }
    return NULL;
}

void assert_ran(const char *operation, const char *kernel)
{
    for (int n = 0; n < note_count; n++)
        if (strcmp(notes[n].operation, operation) == 0)
            print_message("%s: kernel %s ran %lld times\n", operation, notes[n].kernel,
                          (long long)notes[n].count);
    const char *missing = missing_kernel(operation, kernel, getenv("FOCAL_TEST_REQUIRE"));
    if (missing) fail_msg("%s: kernel %s did not run", operation, missing);
}

void skip_without(const char *what, const char *how)
{
    print_message("skipped: needs %s: %s\n", what, how);
    skip();
}

void *new_array(size_t count, size_t size)
{
    void *block = calloc(count > 0 ? count : 1, size);
    if (!block) fail_msg("no memory for %zu x %zu bytes", count, size);
    return block;
}
