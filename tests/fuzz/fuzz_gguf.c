/* Any bytes as a GGUF file: it is refused with a sentence, or every key and every tensor can be
 * read to its last byte. Where the magic stands again in the input, a second part begins. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/gguf.h"

enum { ALIGNMENT = 64, PARTS = 2 };

static void check_status(const focal_ctx *ctx, focal_status status)
{
    if (status == FOCAL_OK) return;
    const char *message = focal_ctx_error(ctx);
    if (message[0] != '\0' && !strchr(message, '\n')) return;
    (void)fprintf(stderr, "status %d without a sentence of one line\n", (int)status);
    abort();
}

/* Reads a byte where it lies, so that ASan looks at it. */
static void touch(const void *data, size_t bytes)
{
    const volatile uint8_t *at = data;
    if (bytes == 0) return;
    (void)at[0];
    (void)at[bytes - 1];
}

static void read_key(const focal_ctx *ctx, foci_gguf *gguf, const char *key)
{
    int64_t integer = 0, count = 0;
    double real = 0.0;
    bool flag = false;
    foci_text text = {NULL, 0};
    const int64_t *ints = NULL;
    const float *reals = NULL;
    const bool *flags = NULL;
    const foci_text *texts = NULL;
    foci_gguf_value value = {.count = 0};
    if (!foci_gguf_has(gguf, key) || !foci_gguf_get_value(gguf, key, &value)) abort();
    touch(value.raw.data, value.raw.bytes);
    check_status(ctx, foci_gguf_get_int(gguf, key, -1000, 1000, &integer));
    check_status(ctx, foci_gguf_get_real(gguf, key, &real));
    check_status(ctx, foci_gguf_get_bool(gguf, key, &flag));
    check_status(ctx, foci_gguf_get_text(gguf, key, &text));
    touch(text.data, text.bytes);
    if (integer < -1000 || integer > 1000 || real - real != 0.0) abort();
    check_status(ctx, foci_gguf_get_ints(gguf, key, &ints, &count));
    touch(ints, (size_t)count * sizeof *ints);
    check_status(ctx, foci_gguf_get_reals(gguf, key, &reals, &count));
    touch(reals, (size_t)count * sizeof *reals);
    check_status(ctx, foci_gguf_get_bools(gguf, key, &flags, &count));
    touch(flags, (size_t)count * sizeof *flags);
    check_status(ctx, foci_gguf_get_texts(gguf, key, &texts, &count));
    for (int64_t n = 0; n < count; n++) touch(texts[n].data, texts[n].bytes);
}

static void read_all(const focal_ctx *ctx, foci_gguf *gguf)
{
    for (int64_t n = 0; n < foci_gguf_key_count(gguf); n++) {
        char key[FOCI_GGUF_KEY_BYTES + 1];
        const foci_text text = foci_gguf_key(gguf, n);
        memcpy(key, text.data, text.bytes);
        key[text.bytes] = '\0';
        read_key(ctx, gguf, key);
    }
    for (int64_t n = 0; n < foci_gguf_tensor_count(gguf); n++) {
        const foci_tensor *tensor = foci_gguf_tensor_at(gguf, n);
        if (foci_gguf_tensor(gguf, tensor->name) != tensor) abort();
        int64_t elements = 1;
        for (int32_t d = 0; d < FOCI_TENSOR_DIMS; d++) elements *= tensor->shape[d];
        const int64_t blocks = elements / focal_dtype_block(tensor->dtype);
        if ((size_t)blocks * focal_dtype_block_bytes(tensor->dtype) != tensor->bytes) abort();
        if ((uintptr_t)tensor->data % FOCI_GGUF_LEAST_ALIGNMENT != 0) abort();
        touch(tensor->data, tensor->bytes);
    }
}

/* A copy at an aligned place that ends where the memory does. */
static void *aligned_copy(const uint8_t *data, size_t bytes)
{
    void *copy = NULL;
    if (posix_memalign(&copy, ALIGNMENT, bytes > 0 ? bytes : 1) != 0) abort();
    if (bytes > 0) memcpy(copy, data, bytes);
    return copy;
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx;
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    const uint8_t *second = size > 4 ? memmem(data + 4, size - 4, "GGUF", 4) : NULL;
    const size_t first_bytes = second ? (size_t)(second - data) : size;
    void *copies[PARTS] = {aligned_copy(data, first_bytes),
                           second ? aligned_copy(second, size - first_bytes) : NULL};
    const foci_map parts[PARTS] = {{copies[0], first_bytes}, {copies[1], size - first_bytes}};
    foci_gguf *gguf = NULL;
    const size_t before = focal_ctx_memory(ctx).now_bytes;
    const focal_status status =
        foci_gguf_from_memory(ctx, "fuzz-00001-of-00002.gguf", parts, second ? PARTS : 1, &gguf);
    check_status(ctx, status);
    if ((gguf != NULL) != (status == FOCAL_OK)) abort();
    if (gguf) read_all(ctx, gguf);
    foci_gguf_close(gguf);
    if (focal_ctx_memory(ctx).now_bytes != before) abort();
    for (int n = 0; n < PARTS; n++) free(copies[n]);
    return 0;
}
