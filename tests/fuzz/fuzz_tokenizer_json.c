/* Bytes as a tokenizer.json, and behind a NUL a text for it. Loading may fail, with a sentence;
 * what loads must encode and decode without a crash, and what streams must be what is decoded
 * whole. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "text/tokenizer.h"

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whatever the file says, text comes back the same whole and streamed. */
static void use(focal_ctx *ctx, const focal_tokenizer *t, const char *text, size_t bytes)
{
    focal_ids ids = {0};
    focal_buffer whole = {0}, valid = {0}, streamed = {0};
    focal_text_stream stream = {0};
    size_t left = 0;
    focal_status status = focal_tokenizer_encode(
        ctx, t, text, bytes, FOCAL_ENCODE_ADD_SPECIAL | FOCAL_ENCODE_PARSE_SPECIAL, &ids);
    if (status == FOCAL_OK) status = focal_tokenizer_encode(ctx, t, text, bytes, 0, &ids);
    /* A pattern may exceed its limits; then there is nothing to decode. */
    if (status != FOCAL_OK && !*focal_ctx_error(ctx)) abort();
    if (focal_tokenizer_decode(ctx, t, ids.ids, ids.count, 0, &whole) != FOCAL_OK) abort();
    if (foci_repair(ctx, whole.data, whole.bytes, &valid, &left) != FOCAL_OK) abort();
    for (int64_t n = 0; n < ids.count; n++)
        if (focal_text_stream_push(ctx, t, &stream, ids.ids[n], &streamed) != FOCAL_OK) abort();
    if ((stream.held_count > 0) != (left > 0)) abort();
    if (streamed.bytes != valid.bytes ||
        (valid.bytes && memcmp(streamed.data, valid.data, valid.bytes) != 0))
        abort();
    focal_ids_free(ctx, &ids);
    focal_buffer_free(ctx, &whole);
    focal_buffer_free(ctx, &valid);
    focal_buffer_free(ctx, &streamed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    focal_ctx *ctx = NULL;
    foci_json *root = NULL;
    focal_tokenizer *tokenizer = NULL;
    const focal_ctx_options options = {.threads = 1};
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t bytes = end ? (size_t)(end - data) : size;
    if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (foci_json_parse(ctx, "input", (const char *)data, bytes, &root) == FOCAL_OK) {
        const focal_status status = foci_tokenizer_from_json(ctx, "input", root, NULL, &tokenizer);
        if (status == FOCAL_OK)
            use(ctx, tokenizer, end ? (const char *)end + 1 : "", end ? size - bytes - 1 : 0);
        else if (!*focal_ctx_error(ctx))
            abort();
    }
    focal_tokenizer_free(tokenizer);
    foci_json_free(root);
    if (focal_ctx_memory(ctx).now_bytes > 0) {
        focal_ctx_trim(ctx);
        if (focal_ctx_memory(ctx).now_bytes > 0) abort();
    }
    focal_ctx_close(ctx);
    return 0;
}
