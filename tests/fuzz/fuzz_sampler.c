/* Any settings and any logits: they are refused with a sentence, or the id that is chosen is one
 * that may be, the same for the same seed. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/generate.h"

enum { MOST_V = 64, MOST_BIASES = 4, PICKS = 8 };

/* Takes values from the input; zeros when it is used up. */
typedef struct reader {
    const uint8_t *data;
    size_t left;
} reader;

static void take(reader *r, void *to, size_t bytes)
{
    const size_t have = bytes < r->left ? bytes : r->left;
    memset(to, 0, bytes);
    if (have > 0) memcpy(to, r->data, have);
    r->data += have;
    r->left -= have;
}

static uint8_t take_byte(reader *r)
{
    uint8_t byte;
    take(r, &byte, 1);
    return byte;
}

/* Any float, or one of the usual size. */
static float take_float(reader *r)
{
    float value;
    const uint8_t kind = take_byte(r);
    if (kind >= 4) return (float)(kind - 4) / 64.0F;
    take(r, &value, sizeof value);
    return value;
}

static void check_status(const focal_ctx *ctx, focal_status status)
{
    if (status == FOCAL_OK) return;
    const char *message = focal_ctx_error(ctx);
    if (message[0] == '\0' || strchr(message, '\n')) abort();
}

/* Picks a few ids; returns how many were. */
static int pick_some(focal_ctx *ctx, const focal_sampling *how, int32_t V, const float *logits,
                     int32_t ids[PICKS])
{
    focal_sampler *sampler = NULL;
    const focal_status status = focal_sampler_new(ctx, V, how, &sampler);
    check_status(ctx, status);
    if ((status == FOCAL_OK) != (sampler != NULL)) abort();
    int count = 0;
    for (; sampler && count < PICKS; count++) {
        float changed[MOST_V];
        memcpy(changed, logits, (size_t)V * sizeof *changed);
        const focal_status picked = focal_sampler_pick(sampler, changed, &ids[count]);
        check_status(ctx, picked);
        if (picked != FOCAL_OK) break;
        if (ids[count] < 0 || ids[count] >= V || !(changed[ids[count]] > -INFINITY)) abort();
        if (focal_sampler_accept(sampler, ids[count]) != FOCAL_OK) abort();
    }
    focal_sampler_free(sampler);
    return count;
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx;
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    reader r = {data, size};
    focal_logit_bias biases[MOST_BIASES];
    float logits[MOST_V];
    int32_t first[PICKS], again[PICKS];
    focal_sampling how = {.top_k = take_byte(&r) - 16,
                          .repeat_last = take_byte(&r) - 16,
                          .seed = take_byte(&r),
                          .bias_count = take_byte(&r) % (MOST_BIASES + 1),
                          .biases = biases};
    how.temperature = take_float(&r);
    how.top_p = take_float(&r);
    how.min_p = take_float(&r);
    how.repeat_penalty = take_float(&r);
    how.presence_penalty = take_float(&r);
    how.frequency_penalty = take_float(&r);
    for (int n = 0; n < MOST_BIASES; n++) {
        biases[n].id = take_byte(&r) - 16;
        biases[n].bias = take_float(&r);
    }
    const int32_t V = take_byte(&r) % MOST_V + 1;
    for (int32_t n = 0; n < V; n++) logits[n] = take_float(&r);
    const int count = pick_some(ctx, &how, V, logits, first);
    if (pick_some(ctx, &how, V, logits, again) != count) abort();
    if (memcmp(first, again, (size_t)count * sizeof *first) != 0) abort();
    return 0;
}
