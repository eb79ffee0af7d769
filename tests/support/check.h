/* What every test includes first: cmocka in the order it needs, comparers that can fail, contexts
 * whose memory is counted and can be made to run out, and a record of the kernels that ran. */
#ifndef FOCAL_TESTS_CHECK_H
#define FOCAL_TESTS_CHECK_H

/* cmocka.h needs these before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

#include "base/error.h"
#include "focal/base.h"

/* How far results may be from the exact ones.
 *
 * Each element has a magnitude: what one rounding of everything that makes it up would move it by,
 * in roundings; that is about the sum of the absolute values of its terms. So neither cancellation
 * nor a badly conditioned row counts against a kernel, nor for one in another row.
 *
 * With e(x) = |x - exact| / magnitude, every e(got) must be at most factor * the largest e(plain)
 * + floor, and the root mean square of e(got) at most factor * that of e(plain) + that of floor.
 * plain is what plain loops lose. floor is two float32 roundings of the magnitude and, for an
 * output in bfloat16, two of that type, but of the exact result alone: nothing before the end is
 * rounded like that except weights, which plain rounds too. (Two of the magnitude would let 1 %
 * pass.)
 *
 * In bfloat16 the largest e(plain) comes from rows of few keys, and rows of many keys average their
 * roundings away: there a whole key could be missing. So the root mean square of the errors of each
 * row is also held to 2 * factor * that of plain in the same row, + floor. Rows of fewer than 16
 * elements say too little.
 *
 * Infinities and NaN must sit in the same places. */
typedef struct error_bound {
    const char *name;
    const float *plain;      /* (count) */
    const double *exact;     /* (count) */
    const double *magnitude; /* (count); NULL: the largest |exact| for every element */
    int64_t count;
    focal_dtype dtype; /* of the output, for the floor */
    double factor;
    int64_t row;                    /* elements that were made of the same keys; 0: no rows */
    double known_worst, known_mean; /* of plain, from more numbers of the same kind; 0: none */
} error_bound;

/* The largest e(x) and the root mean square of all e(x). */
void measure_error(const error_bound *bound, const float *x, double *worst, double *mean);

/* NULL when got is within the bound, else a sentence with the index and the values; it stays
 * valid until the next call. */
const char *error_beyond(const error_bound *bound, const float *got);

/* Fails the test with that sentence. */
void assert_within(const error_bound *bound, const float *got);

/* The short form: float32, one magnitude for all. */
void assert_error_within(const char *name, const float *got, const float *plain,
                         const double *exact, size_t count, double factor);

/* |got - exact| <= tolerance * (largest |exact|, at least tiny), infinities alike; doubles. NULL
 * or a sentence. */
const char *double_beyond(const char *name, const double *got, const double *exact, int64_t count,
                          double tolerance);
void assert_doubles_within(const char *name, const double *got, const double *exact, int64_t count,
                           double tolerance);

/* Quiet NaN in every element, of a bit pattern that no computation makes: an element that was not
 * written shows. */
void fill_nan(void *data, size_t count, focal_dtype dtype);
bool is_fill_nan(const void *data, size_t index, focal_dtype dtype);

/* Elements of either type as float. */
float element_get(const void *data, int64_t index, focal_dtype dtype);
void element_set(void *data, int64_t index, focal_dtype dtype, float value);

/* Memory that is counted and can fail. fail_at: the n-th request from now on fails (1: the next),
 * 0: none; fail_on: all after it fail too. */
void memory_fail(int64_t fail_at, bool fail_on);
int64_t memory_live_blocks(void);
int64_t memory_requests(void); /* since the last memory_fail() */
focal_allocator memory_allocator(void);

/* cmocka fixtures: *state is a focal_ctx * with 2 threads on that memory. Closing requires that
 * nothing is left behind. */
int open_ctx(void **state);
int close_ctx(void **state);
/* A context with this many threads on that memory; fails the test when it cannot be had. */
focal_ctx *new_ctx(int32_t threads);

/* status must be as given, and a failure must come with one line of text. */
void assert_status(focal_ctx *ctx, focal_status got, focal_status expected);

/* Which kernels ran. assert_ran prints them, and requires the one named and those that the
 * environment's FOCAL_TEST_REQUIRE lists, separated by commas: a skipped kernel cannot look
 * green. An entry "matmul:amx" asks for amx only where the operation's name begins with matmul. */
void note_ran(const char *operation, const char *kernel);
/* The operation has no such kernel: the environment may list it all the same. */
void note_without(const char *operation, const char *kernel);
void assert_ran(const char *operation, const char *kernel);
/* The first required kernel that did not run, or NULL. */
const char *missing_kernel(const char *operation, const char *kernel, const char *required);

/* Skips the test with the sentence "skipped: needs WHAT: HOW TO GIVE IT", which tools/run_tests.py
 * shows; it refuses a test that was skipped without one. */
void skip_without(const char *what, const char *how);

/* calloc that fails the test instead of returning NULL; count 0 gives a block too. */
void *new_array(size_t count, size_t size);

#endif /* FOCAL_TESTS_CHECK_H */
