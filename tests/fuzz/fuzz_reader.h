/* How fuzz targets of calls read their input: bytes become fields, mostly plausible and sometimes
 * odd, and whatever a call is entitled to touch is allocated to the exact size. */
#ifndef FOCAL_TESTS_FUZZ_READER_H
#define FOCAL_TESTS_FUZZ_READER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "focal/base.h"

enum {
    MAX_ELEMENTS = 1 << 14, /* of one array */
    MAX_BLOCKS = 256,
    KERNELS = 5
};

/* The rest of the input; reads zeros behind its end. */
typedef struct reader {
    const uint8_t *data;
    size_t size, at;
} reader;

/* Everything one input allocates, to be freed together. */
typedef struct arena {
    void *blocks[MAX_BLOCKS];
    int count;
    bool is_covered; /* every array the call may touch is there, in full */
    const reader *contents;
} arena;

static const int32_t odd_sizes[] = {0,         -1,        -7,  1,   63,       64,
                                    65,        255,       256, 257, 65537,    1 << 30,
                                    INT32_MAX, INT32_MIN, 31,  33,  INT16_MAX};
static const int64_t odd_strides[] = {
    0, 1, -1, INT64_MAX, INT64_MIN, INT64_MAX / 2, 1LL << 40, INT32_MAX, 4096};

static inline uint8_t take(reader *r)
{
    return r->at < r->size ? r->data[r->at++] : 0;
}

/* Mostly 1..most, sometimes something odd. */
static inline int32_t take_size(reader *r, int32_t most)
{
    const uint8_t byte = take(r);
    if (byte < 224) return 1 + byte % most;
    return odd_sizes[take(r) % (sizeof odd_sizes / sizeof odd_sizes[0])];
}

/* Mostly packed or a little more, sometimes something odd. */
static inline int64_t take_stride(reader *r, int64_t packed)
{
    const uint8_t byte = take(r);
    if (byte < 160) return 0;
    if (byte < 224) return packed + byte % 4;
    return odd_strides[take(r) % (sizeof odd_strides / sizeof odd_strides[0])];
}

/* count elements of `size` bytes, filled from the input; a count below 1 gives a block of no
 * bytes. Not affordable: one byte, and the call is no longer covered. */
static inline void *take_block(arena *a, int64_t count, size_t size)
{
    if (count > MAX_ELEMENTS || a->count == MAX_BLOCKS) {
        a->is_covered = false;
        count = 0;
    }
    const size_t bytes = count > 0 ? (size_t)count * size : 0;
    uint8_t *block = malloc(bytes ? bytes : 1);
    if (!block) abort();
    for (size_t n = 0; n < bytes; n++)
        block[n] = a->contents->size ? a->contents->data[n % a->contents->size] : 0;
    if (a->count < MAX_BLOCKS) a->blocks[a->count++] = block;
    return block;
}

/* a * b for counts, where anything negative is nothing and anything large is too large. */
static inline int64_t times(int64_t a, int64_t b)
{
    if (a <= 0 || b <= 0) return 0;
    return a > MAX_ELEMENTS || b > MAX_ELEMENTS ? MAX_ELEMENTS + 1 : a * b;
}

/* Elements of `rows` rows of `width`, `stride` apart (0: packed). */
static inline int64_t extent(int64_t rows, int64_t stride, int64_t width)
{
    if (rows <= 0 || width <= 0) return 0;
    if (rows == 1) return width;
    const int64_t before = times(rows - 1, stride == 0 ? width : stride);
    return before > MAX_ELEMENTS || width > MAX_ELEMENTS ? MAX_ELEMENTS + 1 : before + width;
}

static inline void check_status(const focal_ctx *ctx, focal_status status)
{
    if (status == FOCAL_OK || focal_ctx_error(ctx)[0] != '\0') return;
    (void)fprintf(stderr, "status %d without a sentence\n", (int)status);
    abort();
}

/* The context of the kernel that the first byte names, opened once: starting threads costs more
 * than a call. Its kept scratch is given back, so that ASan sees where each new block ends. */
static inline focal_ctx *take_ctx(reader *r)
{
    static const char *const names[KERNELS] = {NULL, "ref", "avx2", "avx512", "avx512bf16"};
    static focal_ctx *contexts[KERNELS];
    const int kernel = take(r) % KERNELS;
    if (!contexts[kernel]) {
        const focal_ctx_options options = {.threads = 2, .kernel = names[kernel]};
        if (focal_ctx_open(&options, &contexts[kernel], NULL) != FOCAL_OK) abort();
    }
    focal_ctx_trim(contexts[kernel]);
    return contexts[kernel];
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif /* FOCAL_TESTS_FUZZ_READER_H */
