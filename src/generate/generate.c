/* The loop: the prompt in chunks, then a token at a time until something ends it. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "focal/generate.h"

enum { DEFAULT_CHUNK = 1024, MAX_STOPS = 64, MAX_STOP_BYTES = 4096 };

/* What a run holds. */
typedef struct run_state {
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    const focal_generate_args *args;
    const focal_tokenizer *tokenizer;
    focal_sampler *sampler;
    float *logits; /* (V) */
    focal_text_stream stream;
    focal_buffer pending; /* text that is not certain yet */
    focal_generate_result result;
    bool is_over;
} run_state;

const char *focal_stop_name(focal_stop stop)
{
    static const char *const names[] = {"end", "stop", "length", "context", "interrupted"};
    return (size_t)stop < FOCAL_COUNT(names) ? names[stop] : "?";
}

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void end_run(run_state *r, focal_stop why)
{
    if (r->is_over) return;
    r->is_over = true;
    r->result.stop = why;
}

static focal_status check_args(run_state *r, int32_t *context)
{
    const focal_generate_args *a = r->args;
    const focal_model_info info = focal_model_describe(r->model);
    *context = a->context == 0 ? info.context : a->context;
    const int64_t before = focal_cache_length(r->cache, a->sequence);
    if (!r->tokenizer)
        return foci_fail(r->ctx, FOCAL_EUNSUPPORTED, "generate: the model has no tokenizer");
    if (a->prompt_count < 1 || !a->prompt)
        return foci_fail(r->ctx, FOCAL_EINVAL, "generate: the prompt is empty");
    if (*context < 1 || a->chunk < 0 || a->max_tokens < -1)
        return foci_fail(r->ctx, FOCAL_EINVAL, "generate: context %d, chunk %d, max_tokens %lld",
                         *context, a->chunk, (long long)a->max_tokens);
    if (before + a->prompt_count > *context)
        return foci_fail(r->ctx, FOCAL_EINVAL,
                         "generate: the prompt has %lld tokens%s, the context %d: shorten it or "
                         "raise -c",
                         (long long)before + (long long)a->prompt_count,
                         before > 0 ? " with what came before" : "", *context);
    if (a->stop_count < 0 || a->stop_count > MAX_STOPS || (a->stop_count > 0 && !a->stops))
        return foci_fail(r->ctx, FOCAL_EINVAL, "generate: %d stop strings, at most %d",
                         a->stop_count, MAX_STOPS);
    for (int32_t n = 0; n < a->stop_count; n++) {
        const size_t length = a->stops[n] ? strlen(a->stops[n]) : 0;
        if (length < 1 || length > MAX_STOP_BYTES)
            return foci_fail(r->ctx, FOCAL_EINVAL, "generate: a stop string of %zu bytes, 1 to %d",
                             length, MAX_STOP_BYTES);
        if (((unsigned char)a->stops[n][0] & 0xC0U) == 0x80U) /* else it would cut one in two */
            return foci_fail(r->ctx, FOCAL_EINVAL,
                             "generate: stop string %d begins inside a character", n);
    }
    return FOCAL_OK;
}

static focal_status read_prompt(run_state *r)
{
    const focal_generate_args *a = r->args;
    const int64_t chunk = a->chunk == 0 ? DEFAULT_CHUNK : a->chunk;
    for (int64_t n = 0; n < a->prompt_count; n++)
        FOCAL_TRY(focal_sampler_accept(r->sampler, a->prompt[n]));
    for (int64_t done = 0; done < a->prompt_count && !r->is_over;) {
        const int32_t count = (int32_t)foci_min64(chunk, a->prompt_count - done);
        const bool is_last = done + count == a->prompt_count;
        const focal_batch_item item = {a->sequence, count, a->prompt + done, is_last ? 1 : 0};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = r->logits};
        FOCAL_TRY(focal_forward(r->model, r->cache, &args));
        done += count;
        r->result.prompt_tokens = done;
        if (a->on_prompt && !a->on_prompt(a->user, done, a->prompt_count))
            end_run(r, FOCAL_STOP_CALLER);
    }
    return FOCAL_OK;
}

/* The first stop string in the pending text: where it begins, or the text's length. */
static size_t find_stop(const run_state *r)
{
    size_t first = r->pending.bytes;
    for (int32_t n = 0; n < r->args->stop_count; n++) {
        const char *stop = r->args->stops[n];
        const size_t length = strlen(stop);
        for (size_t at = 0; at + length <= r->pending.bytes && at < first; at++)
            if (memcmp(r->pending.data + at, stop, length) == 0) first = at;
    }
    return first;
}

/* How much of the pending text's end could still become a stop string. */
static size_t held_back(const run_state *r)
{
    size_t most = 0;
    for (int32_t n = 0; n < r->args->stop_count; n++) {
        const char *stop = r->args->stops[n];
        size_t length = strlen(stop) - 1;
        if (length > r->pending.bytes) length = r->pending.bytes;
        for (; r->pending.data && length > most; length--)
            if (memcmp(r->pending.data + r->pending.bytes - length, stop, length) == 0) break;
        if (length > most) most = length;
    }
    return most;
}

/* Hands out what is certain of the pending text; all of it at the end. */
static void emit(run_state *r, int32_t id, bool is_end)
{
    size_t ready = find_stop(r);
    if (ready < r->pending.bytes)
        end_run(r, FOCAL_STOP_TEXT);
    else if (!is_end)
        ready -= held_back(r);
    const focal_generate_args *a = r->args;
    if (a->on_token && (id >= 0 || ready > 0) &&
        !a->on_token(a->user, id, r->pending.data ? r->pending.data : "", ready))
        end_run(r, FOCAL_STOP_CALLER);
    const size_t left = r->pending.bytes - ready;
    if (left > 0 && r->pending.data) memmove(r->pending.data, r->pending.data + ready, left);
    r->pending.bytes = r->is_over && r->result.stop == FOCAL_STOP_TEXT ? 0 : left;
}

/* One token: chosen, shown, and, unless it is the last, read. */
static focal_status write_token(run_state *r, int32_t context)
{
    const focal_generate_args *a = r->args;
    int32_t id = -1;
    FOCAL_TRY(focal_sampler_pick(r->sampler, r->logits, &id));
    FOCAL_TRY(focal_sampler_accept(r->sampler, id));
    r->result.tokens++;
    const bool is_end = focal_tokenizer_is_end(r->tokenizer, id);
    if (id < focal_tokenizer_size(r->tokenizer) && (!is_end || a->shows_special))
        FOCAL_TRY(focal_text_stream_push(r->ctx, r->tokenizer, &r->stream, id, &r->pending));
    emit(r, id, false);
    if (is_end) end_run(r, FOCAL_STOP_END);
    if (a->max_tokens >= 0 && r->result.tokens >= a->max_tokens) end_run(r, FOCAL_STOP_COUNT);
    if (focal_cache_length(r->cache, a->sequence) >= context) end_run(r, FOCAL_STOP_CONTEXT);
    if (r->is_over) return FOCAL_OK;
    const focal_batch_item item = {a->sequence, 1, &id, 1};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = r->logits};
    return focal_forward(r->model, r->cache, &args);
}

static focal_status run(run_state *r, int32_t context)
{
    const double start = seconds_now();
    FOCAL_TRY(read_prompt(r));
    const double begun = seconds_now();
    r->result.prompt_seconds = begun - start;
    if (r->args->max_tokens == 0) end_run(r, FOCAL_STOP_COUNT);
    while (!r->is_over) FOCAL_TRY(write_token(r, context));
    if (r->result.stop != FOCAL_STOP_TEXT) {
        FOCAL_TRY(focal_text_stream_end(r->ctx, &r->stream, &r->pending));
        emit(r, -1, true);
    }
    r->result.seconds = seconds_now() - begun;
    return FOCAL_OK;
}

/* A sampler as the call asks for it; end tokens that it ignores are never chosen, as in llama.cpp:
 * what a model writes behind one is another text. */
static focal_status make_sampler(run_state *r, int32_t V)
{
    focal_sampling how = r->args->sampling;
    if (!r->args->ignores_end || how.bias_count < 0 || (how.bias_count > 0 && !how.biases))
        return focal_sampler_new(r->ctx, V, &how, &r->sampler);
    size_t count = (size_t)how.bias_count;
    for (int32_t id = 0; id < V; id++) count += focal_tokenizer_is_end(r->tokenizer, id);
    focal_logit_bias *biases = foci_alloc(r->ctx, count, sizeof *biases);
    if (!biases) return FOCAL_ENOMEM;
    for (int32_t n = 0; n < how.bias_count; n++) biases[n] = how.biases[n];
    for (int32_t id = 0; id < V; id++)
        if (focal_tokenizer_is_end(r->tokenizer, id))
            biases[how.bias_count++] = (focal_logit_bias){id, -INFINITY};
    how.biases = biases;
    const focal_status status = focal_sampler_new(r->ctx, V, &how, &r->sampler);
    foci_free(r->ctx, biases); /* the sampler has a copy */
    return status;
}

focal_status focal_generate(focal_model *model, focal_cache *cache, const focal_generate_args *args,
                            focal_generate_result *result)
{
    run_state r = {.model = model, .cache = cache, .args = args};
    int32_t context = 0;
    r.ctx = focal_model_ctx(model);
    r.tokenizer = focal_model_tokenizer(model);
    r.stream.flags = args->shows_special ? 0 : FOCAL_DECODE_SKIP_SPECIAL;
    FOCAL_TRY(check_args(&r, &context));
    const int32_t V = focal_model_describe(model).V;
    FOCAL_TRY(make_sampler(&r, V));
    r.logits = foci_alloc(r.ctx, (size_t)V, sizeof *r.logits);
    const focal_status status = r.logits ? run(&r, context) : FOCAL_ENOMEM;
    foci_free(r.ctx, r.logits);
    focal_sampler_free(r.sampler);
    focal_buffer_free(r.ctx, &r.pending);
    if (result) *result = r.result;
    return status;
}
