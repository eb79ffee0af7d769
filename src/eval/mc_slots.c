/* Slots: a sequence of the cache each. A pass takes as many tokens of all that are at work as fit,
 * and of logits no more rows than are scored. */
#include "eval/mc_slots.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "eval/mc_text.h"
#include "ops/loss/loss.h"
#include "text/utf8.h"

enum { LOGITS_BYTES = 64 << 20, DEFAULT_BATCH = 1024 };

focal_status foci_mc_slots_open(foci_mc_slots *s, const focal_cache_options *cache, int32_t count,
                                int32_t batch)
{
    focal_ctx *ctx = focal_model_ctx(s->model);
    const int64_t V = focal_model_describe(s->model).V;
    focal_cache_options options = cache ? *cache : (focal_cache_options){0};
    s->batch = batch == 0 ? DEFAULT_BATCH : batch;
    if (s->batch < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "mc: a batch of %d tokens, at least 1", batch);
    s->rows = (int32_t)foci_max64(LOGITS_BYTES / (V * (int64_t)sizeof(float)), 1);
    s->rows = (int32_t)foci_min64(s->rows, s->batch);
    s->slots = foci_alloc(ctx, (size_t)count, sizeof *s->slots);
    if (!s->slots) return FOCAL_ENOMEM;
    memset(s->slots, 0, (size_t)count * sizeof *s->slots);
    s->count = count;
    options.sequences = count;
    FOCAL_TRY(focal_cache_new(s->model, &options, &s->cache));
    s->items = foci_alloc(ctx, (size_t)count, sizeof *s->items);
    s->targets = foci_alloc(ctx, (size_t)s->rows, sizeof *s->targets);
    s->nll = foci_alloc(ctx, (size_t)s->rows, sizeof *s->nll);
    s->logits = foci_alloc(ctx, (size_t)(s->rows * V), sizeof *s->logits);
    return s->items && s->targets && s->nll && s->logits ? FOCAL_OK : FOCAL_ENOMEM;
}

void foci_mc_slots_close(foci_mc_slots *s)
{
    focal_ctx *ctx = focal_model_ctx(s->model);
    for (int32_t n = 0; n < s->count; n++) {
        focal_ids_free(ctx, &s->slots[n].next);
        focal_ids_free(ctx, &s->slots[n].ids);
    }
    foci_free(ctx, s->slots);
    foci_free(ctx, s->items);
    foci_free(ctx, s->targets);
    foci_free(ctx, s->nll);
    foci_free(ctx, s->logits);
    focal_cache_free(s->cache);
    *s = (foci_mc_slots){.model = s->model};
}

/* The next pass: what each slot takes part with. */
static void pack(foci_mc_slots *s)
{
    int32_t room = s->batch;
    s->item_count = s->row_count = 0;
    for (int32_t n = 0; n < s->count; n++) {
        const foci_mc_slot *slot = &s->slots[n];
        /* The token before an id predicts it; those before that one have no row of logits. */
        const int64_t plain = foci_max64((int64_t)slot->from - 1 - slot->at, 0);
        const int64_t most = foci_min64(room, plain + s->rows - s->row_count);
        const int32_t take = (int32_t)foci_min64(slot->end - slot->at, most);
        if (take <= 0) continue;
        const int32_t scored = (int32_t)foci_max64(take - plain, 0);
        const int32_t *ids = slot->ids.ids + slot->at;
        s->items[s->item_count++] = (focal_batch_item){n, take, ids, scored};
        for (int32_t i = take - scored; i < take; i++) s->targets[s->row_count++] = ids[i + 1];
        room -= take;
    }
}

static focal_status run_pass(foci_mc_slots *s)
{
    const focal_forward_args args = {
        .item_count = s->item_count, .items = s->items, .logits = s->logits};
    FOCAL_TRY(focal_forward(s->model, s->cache, &args));
    if (s->row_count > 0) {
        const foci_loss_args loss = {.T = s->row_count,
                                     .V = focal_model_describe(s->model).V,
                                     .logits = s->logits,
                                     .targets = s->targets,
                                     .nll = s->nll};
        FOCAL_TRY(foci_log_softmax_rows(focal_model_ctx(s->model), &loss));
    }
    const double *nll = s->nll;
    for (int32_t n = 0; n < s->item_count; n++) {
        const focal_batch_item *item = &s->items[n];
        foci_mc_slot *slot = &s->slots[item->sequence];
        for (int32_t i = 0; i < item->logits_count; i++) slot->logprob -= *nll++;
        slot->at += item->count;
    }
    return FOCAL_OK;
}

focal_status foci_mc_slots_read(foci_mc_slots *s)
{
    for (pack(s); s->item_count > 0; pack(s)) FOCAL_TRY(run_pass(s));
    return FOCAL_OK;
}

/* Slot n goes over to its next text, whose ids up to `end` it will read. */
static focal_status take_next(foci_mc_slots *s, int32_t n, int32_t from, int64_t end)
{
    foci_mc_slot *slot = &s->slots[n];
    const int64_t common = foci_mc_common(&slot->ids, &slot->next);
    const int32_t keep = (int32_t)foci_min64(foci_min64(common, slot->at), from - 1);
    const focal_ids last = slot->ids;
    FOCAL_TRY(focal_cache_truncate(s->cache, n, keep));
    slot->ids = slot->next;
    slot->next = last;
    slot->at = keep;
    slot->end = (int32_t)end;
    slot->from = from;
    slot->logprob = 0.0;
    return FOCAL_OK;
}

focal_status foci_mc_slots_start(foci_mc_slots *s, int32_t n, int32_t from)
{
    /* Nothing is asked of the last token. */
    return take_next(s, n, from, s->slots[n].next.count - 1);
}

focal_status foci_mc_slots_share(foci_mc_slots *s)
{
    foci_mc_slot *first = &s->slots[0];
    const int32_t count = (int32_t)first->next.count;
    if (count == 0) return FOCAL_OK;
    FOCAL_TRY(take_next(s, 0, count + 1, count));
    FOCAL_TRY(foci_mc_slots_read(s));
    for (int32_t n = 1; n < s->count; n++) {
        foci_mc_slot *slot = &s->slots[n];
        slot->ids.count = 0;
        FOCAL_TRY(foci_ids_reserve(focal_model_ctx(s->model), &slot->ids, (size_t)count));
        FOCAL_TRY(focal_cache_copy(s->cache, 0, n));
        memcpy(slot->ids.ids, first->ids.ids, (size_t)count * sizeof *slot->ids.ids);
        slot->ids.count = slot->at = slot->end = count;
    }
    return FOCAL_OK;
}
