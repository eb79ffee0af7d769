/* Any bytes as what a model says of itself: a config.json, or a whole GGUF file. It is refused with
 * a sentence, or a small model made of it reads three tokens. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "support/memory_model.h"
#include "text/tokenizer.h"

enum { ALIGNMENT = 64, MOST_LOGITS = 512 };

static void check_status(const focal_ctx *ctx, focal_status status)
{
    if (status == FOCAL_OK) return;
    const char *message = focal_ctx_error(ctx);
    if (message[0] != '\0' && !strchr(message, '\n')) return;
    (void)fprintf(stderr, "status %d without a sentence of one line\n", (int)status);
    abort();
}

static void run(focal_ctx *ctx, focal_model *model)
{
    static float logits[MOST_LOGITS];
    if (memory_model_is_small(&model->config)) check_status(ctx, memory_model_run(model, logits));
    memory_model_release(model);
}

static void try_json(focal_ctx *ctx, focal_dtype precision, const uint8_t *data, size_t size)
{
    foci_json *json = NULL;
    foci_config config;
    focal_model model;
    focal_status status = foci_json_parse(ctx, "config.json", (const char *)data, size, &json);
    if (status == FOCAL_OK) status = foci_config_from_json(ctx, "config.json", json, &config);
    foci_json_free(json);
    if (status == FOCAL_OK && memory_model_is_small(&config)) {
        status = memory_model_from_config(ctx, &config, precision, &model);
        if (status == FOCAL_OK) run(ctx, &model);
    }
    check_status(ctx, status);
}

static void try_gguf(focal_ctx *ctx, focal_dtype precision, const uint8_t *data, size_t size)
{
    /* A copy at an aligned place that ends where the memory does. */
    void *copy = NULL;
    if (posix_memalign(&copy, ALIGNMENT, size > 0 ? size : 1) != 0) abort();
    if (size > 0) memcpy(copy, data, size);
    const foci_map map = {copy, size};
    foci_gguf *gguf = NULL;
    focal_model model;
    focal_tokenizer *tokenizer = NULL;
    focal_status status = foci_gguf_from_memory(ctx, "model.gguf", &map, 1, &gguf);
    if (status == FOCAL_OK && foci_gguf_has(gguf, "tokenizer.ggml.model"))
        check_status(ctx, foci_tokenizer_from_gguf(ctx, gguf, &tokenizer));
    focal_tokenizer_free(tokenizer);
    if (status == FOCAL_OK) status = memory_model_from_gguf(ctx, gguf, precision, &model);
    if (status == FOCAL_OK) run(ctx, &model);
    check_status(ctx, status);
    foci_gguf_close(gguf);
    free(copy);
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the precision; the rest is a file.
 * NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx;
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size < 5) return 0;
    const focal_dtype precision = data[0] & 1 ? FOCAL_BF16 : FOCAL_F32;
    focal_ctx_trim(ctx);
    const size_t before = focal_ctx_memory(ctx).now_bytes;
    if (memcmp(data + 1, "GGUF", 4) == 0)
        try_gguf(ctx, precision, data + 1, size - 1);
    else
        try_json(ctx, precision, data + 1, size - 1);
    focal_ctx_trim(ctx);
    if (focal_ctx_memory(ctx).now_bytes != before) abort();
    return 0;
}
