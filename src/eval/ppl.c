/* Perplexity: windows over a text, each read from an empty cache. */
#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "focal/eval.h"
#include "model/model.h"

enum { DEFAULT_BATCH = 1024 };

/* One window: its ids [first, first + length), of which those from `scored` on count. */
typedef struct window {
    int64_t first;
    int32_t length, scored;
} window;

typedef struct ppl_run {
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    const focal_ppl_args *args;
    int32_t context, stride, batch;
    int32_t begin; /* id that replaces the first of a window, or -1 */
    int64_t windows;
    int32_t *ids;     /* (context) of the window, as the model reads them */
    int32_t *targets; /* (context) */
    double *nll;      /* (context) */
    focal_buffer text;
    focal_ppl_result sum; /* loss: the sum so far */
} ppl_run;

static window window_at(const ppl_run *r, int64_t n)
{
    const int64_t count = r->args->count;
    if (r->args->method == FOCAL_PPL_LLAMA)
        return (window){n * r->context, r->context, r->context / 2 + 1};
    const int64_t first = n * r->stride;
    const int32_t length = (int32_t)foci_min64(r->context, count - first);
    /* The first id of a window has nothing before it. */
    return (window){first, length, n == 0 ? 1 : (int32_t)foci_max64(r->context - r->stride, 1)};
}

static focal_status plan(ppl_run *r)
{
    const focal_ppl_args *a = r->args;
    const int64_t count = a->count;
    r->context = a->context == 0 ? focal_model_describe(r->model).context : a->context;
    r->stride = a->stride == 0 ? r->context / 2 : a->stride;
    r->batch = a->batch == 0 ? DEFAULT_BATCH : a->batch;
    /* A temperature that averages over a text must see all of a window. */
    if (r->model->config.temperature.kind == FOCI_TEMPERATURE_LEARNED_PAPER) r->batch = r->context;
    r->begin = -1;
    if (!a->ids || count < 2)
        return foci_fail(r->ctx, FOCAL_EINVAL, "ppl: a text of %lld tokens, at least 2",
                         (long long)count);
    if (r->context < 2 || r->stride < 1 || r->stride > r->context || r->batch < 1 || a->chunks < 0)
        return foci_fail(r->ctx, FOCAL_EINVAL,
                         "ppl: context %d (at least 2), stride %d (1 to the context), batch %d",
                         r->context, r->stride, r->batch);
    if (a->method == FOCAL_PPL_LLAMA) {
        if (count < 2 * (int64_t)r->context) /* as llama-perplexity refuses it */
            return foci_fail(r->ctx, FOCAL_EINVAL,
                             "ppl: a text of %lld tokens, two chunks of %d are needed: take a "
                             "smaller context or --method stride",
                             (long long)count, r->context);
        r->windows = count / r->context;
        const focal_tokenizer *tokenizer = focal_model_tokenizer(r->model);
        if (tokenizer) {
            const focal_special_ids special = focal_tokenizer_special(tokenizer);
            if (special.add_bos) r->begin = special.bos;
        }
    } else {
        r->windows = count <= r->context ? 1 : 1 + foci_pieces(count - r->context, r->stride);
    }
    if (a->chunks > 0 && a->chunks < r->windows) r->windows = a->chunks;
    return FOCAL_OK;
}

/* Adds the bytes that the scored ids of a window stand for: those of the run with the id before it,
 * less that one's, for a text's first token may lose a space. */
static focal_status count_bytes(ppl_run *r, const window *w)
{
    const focal_tokenizer *tokenizer = focal_model_tokenizer(r->model);
    const int32_t *ids = r->args->ids + w->first + w->scored - 1;
    const int64_t count = w->length - w->scored + 1;
    if (!tokenizer || count < 2) return FOCAL_OK;
    for (int sign = 1; sign >= -1; sign -= 2) {
        r->text.bytes = 0;
        FOCAL_TRY(
            focal_tokenizer_decode(r->ctx, tokenizer, ids, sign > 0 ? count : 1, 0, &r->text));
        r->sum.bytes += sign * (int64_t)r->text.bytes;
    }
    return FOCAL_OK;
}

static focal_status run_window(ppl_run *r, const window *w)
{
    const focal_ppl_args *a = r->args;
    for (int32_t n = 0; n < w->length; n++) {
        r->ids[n] = a->ids[w->first + n];
        r->targets[n] = n + 1 >= w->scored && n + 1 < w->length ? a->ids[w->first + n + 1] : -1;
    }
    if (r->begin >= 0) r->ids[0] = r->begin;
    FOCAL_TRY(focal_cache_truncate(r->cache, 0, 0));
    for (int32_t done = 0, take; done < w->length; done += take) {
        take = (int32_t)foci_min64(r->batch, w->length - done);
        const bool is_scored = done + take >= w->scored;
        const focal_batch_item item = {0, take, r->ids + done, 0};
        const focal_forward_args args = {.item_count = 1,
                                         .items = &item,
                                         .targets = is_scored ? r->targets + done : NULL,
                                         .nll = is_scored ? r->nll + done : NULL};
        FOCAL_TRY(focal_forward(r->model, r->cache, &args));
    }
    for (int32_t n = w->scored; n < w->length; n++) {
        r->sum.loss += r->nll[n - 1];
        r->sum.tokens++;
        if (a->on_token) a->on_token(a->user, w->first + n, a->ids[w->first + n], r->nll[n - 1]);
    }
    return count_bytes(r, w);
}

static focal_status run(ppl_run *r)
{
    const focal_ppl_args *a = r->args;
    FOCAL_TRY(focal_cache_new(r->model, a->cache, &r->cache));
    r->ids = foci_alloc(r->ctx, (size_t)r->context, sizeof *r->ids);
    r->targets = foci_alloc(r->ctx, (size_t)r->context, sizeof *r->targets);
    r->nll = foci_alloc(r->ctx, (size_t)r->context, sizeof *r->nll);
    if (!r->ids || !r->targets || !r->nll) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < r->windows; n++) {
        const window w = window_at(r, n);
        FOCAL_TRY(run_window(r, &w));
        r->sum.chunks++;
        const double mean = r->sum.tokens > 0 ? r->sum.loss / (double)r->sum.tokens : 0.0;
        if (a->on_chunk && !a->on_chunk(a->user, n, r->windows, exp(mean))) break;
    }
    return FOCAL_OK;
}

focal_status focal_ppl(focal_model *model, const focal_ppl_args *args, focal_ppl_result *result)
{
    ppl_run r = {.ctx = focal_model_ctx(model), .model = model, .args = args};
    *result = (focal_ppl_result){0};
    FOCAL_TRY(plan(&r));
    const focal_status status = run(&r);
    foci_free(r.ctx, r.ids);
    foci_free(r.ctx, r.targets);
    foci_free(r.ctx, r.nll);
    focal_buffer_free(r.ctx, &r.text);
    focal_cache_free(r.cache);
    if (status != FOCAL_OK) return status;
    *result = r.sum;
    result->bits = r.sum.loss / log(2.0);
    if (r.sum.tokens > 0) result->loss = r.sum.loss / (double)r.sum.tokens;
    result->perplexity = exp(result->loss);
    return FOCAL_OK;
}
