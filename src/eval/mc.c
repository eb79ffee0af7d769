/* Multiple choice: the likeliest of several ends of a text. Items are looked at in groups, one a
 * slot; the slots read their first choices together, then their second ones, and so on, each behind
 * the context that it has read once. */
#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "eval/mc_slots.h"
#include "eval/mc_text.h"
#include "focal/eval.h"

/* Choices are short, and a pass of a few tokens costs what its weights cost to read, so up to 32
 * items share one: twice as fast as items one by one. Their texts together have no more than
 * SLOT_TOKENS, which bounds the cache. */
enum { SLOTS_MOST = 32, SLOT_TOKENS = 16384 };

typedef struct mc_run {
    focal_ctx *ctx;
    const focal_mc_set *set;
    const focal_mc_options *options;
    int64_t count;        /* of items */
    int32_t most_choices; /* of an item */
    int64_t longest;      /* ids of a text */
    foci_mc_texts texts;
    foci_mc_slots slots;
    focal_ids ids;
    int32_t *from;   /* where each choice begins, item after item */
    double *logprob; /* (slots, most_choices) */
    int32_t *tokens; /* (slots, most_choices) */
    int32_t *bytes;  /* (most_choices) of one item */
    int64_t right, right_by_length;
    focal_mc_result sum; /* chance: the sum so far */
} mc_run;

/* Finds where the choices of all items begin, and whether all of them fit. */
static focal_status look_at_texts(mc_run *r, int32_t context)
{
    int32_t *from = r->from;
    for (int64_t n = 0; n < r->count; n++) {
        const focal_mc_item *item = focal_mc_at(r->set, n);
        for (int32_t c = 0; c < item->choice_count; c++, from++) {
            FOCAL_TRY(foci_mc_text_split(&r->texts, item, c, &r->ids, from));
            r->longest = foci_max64(r->longest, r->ids.count);
            if (r->ids.count > context)
                return foci_fail(r->ctx, FOCAL_EINVAL,
                                 "%s: line %lld: %lld tokens with choice %d, the context has %d",
                                 item->path, (long long)item->line, (long long)r->ids.count, c,
                                 context);
        }
    }
    return FOCAL_OK;
}

static int32_t largest(const double *values, const int32_t *divisors, int32_t count)
{
    int32_t best = 0;
    for (int32_t n = 1; n < count; n++) {
        const double value = divisors ? values[n] / divisors[n] : values[n];
        const double record = divisors ? values[best] / divisors[best] : values[best];
        if (value > record) best = n;
    }
    return best;
}

/* Counts an item whose choices have been read, and shows it. */
static focal_status count_item(mc_run *r, const focal_mc_item *item, int32_t slot, bool *goes_on)
{
    const int64_t first = (int64_t)slot * r->most_choices;
    const int32_t count = item->choice_count;
    focal_mc_score score = {.item = item,
                            .count = r->count,
                            .logprob = r->logprob + first,
                            .tokens = r->tokens + first,
                            .bytes = r->bytes};
    for (int32_t c = 0; c < count; c++) {
        r->bytes[c] = foci_mc_choice_bytes(item->choices[c]);
        r->sum.tokens += score.tokens[c];
        if (!isfinite(score.logprob[c]))
            return foci_fail(r->ctx, FOCAL_EFORMAT,
                             "%s: line %lld: choice %d has no finite log-probability: the model "
                             "gives none",
                             item->path, (long long)item->line, c);
    }
    score.pick = largest(score.logprob, NULL, count);
    score.by_length = largest(score.logprob, r->bytes, count);
    r->right += score.pick == item->answer;
    r->right_by_length += score.by_length == item->answer;
    r->sum.chance += 1.0 / count;
    score.done = ++r->sum.count;
    score.accuracy = (double)r->right / (double)score.done;
    *goes_on = !r->options->on_item || r->options->on_item(r->options->user, &score);
    return FOCAL_OK;
}

/* Choice c of each item of a group that has one; first_from: where the group's numbers begin. */
static focal_status read_choice(mc_run *r, int64_t first, int32_t count, const int32_t *first_from,
                                int32_t c)
{
    const int32_t *from = first_from;
    for (int32_t n = 0; n < count; n++) {
        const focal_mc_item *item = focal_mc_at(r->set, first + n);
        if (c < item->choice_count) {
            FOCAL_TRY(foci_mc_text_ids(&r->texts, item, c, &r->slots.slots[n].next));
            FOCAL_TRY(foci_mc_slots_start(&r->slots, n, from[c]));
        }
        from += item->choice_count;
    }
    FOCAL_TRY(foci_mc_slots_read(&r->slots));
    for (int32_t n = 0; n < count; n++) {
        const foci_mc_slot *slot = &r->slots.slots[n];
        const int64_t place = (int64_t)n * r->most_choices + c;
        if (c >= focal_mc_at(r->set, first + n)->choice_count) continue;
        r->logprob[place] = slot->logprob;
        r->tokens[place] = (int32_t)slot->ids.count - slot->from;
    }
    return FOCAL_OK;
}

static focal_status read_items(mc_run *r)
{
    const int32_t *from = r->from;
    const int32_t slots = r->slots.count;
    bool goes_on = true;
    for (int64_t first = 0; goes_on && first < r->count; first += slots) {
        const int32_t count = (int32_t)foci_min64(r->count - first, slots);
        int32_t most = 0;
        for (int32_t n = 0; n < count; n++)
            most = (int32_t)foci_max64(most, focal_mc_at(r->set, first + n)->choice_count);
        for (int32_t c = 0; c < most; c++) FOCAL_TRY(read_choice(r, first, count, from, c));
        for (int32_t n = 0; goes_on && n < count; n++) {
            const focal_mc_item *item = focal_mc_at(r->set, first + n);
            FOCAL_TRY(count_item(r, item, n, &goes_on));
            from += item->choice_count;
        }
    }
    return FOCAL_OK;
}

/* Everything up to the first pass: what cannot be is said before hours of work. */
static focal_status plan(mc_run *r, int32_t context)
{
    int64_t choices = 0;
    for (int64_t n = 0; n < r->count; n++) {
        const int32_t count = focal_mc_at(r->set, n)->choice_count;
        r->most_choices = (int32_t)foci_max64(r->most_choices, count);
        choices += count;
    }
    r->from = foci_alloc(r->ctx, (size_t)choices, sizeof *r->from);
    if (!r->from) return FOCAL_ENOMEM;
    FOCAL_TRY(foci_mc_texts_open(&r->texts, r->options));
    return look_at_texts(r, context);
}

static focal_status run(mc_run *r, int32_t context)
{
    const focal_mc_options *o = r->options;
    FOCAL_TRY(plan(r, context));
    const int64_t most = foci_min64(r->count, SLOTS_MOST);
    const int64_t slots = foci_max64(foci_min64(SLOT_TOKENS / r->longest, most), 1);
    const size_t places = (size_t)slots * (size_t)r->most_choices;
    r->logprob = foci_alloc(r->ctx, places, sizeof *r->logprob);
    r->tokens = foci_alloc(r->ctx, places, sizeof *r->tokens);
    r->bytes = foci_alloc(r->ctx, (size_t)r->most_choices, sizeof *r->bytes);
    if (!r->logprob || !r->tokens || !r->bytes) return FOCAL_ENOMEM;
    FOCAL_TRY(foci_mc_slots_open(&r->slots, o->cache, (int32_t)slots, o->batch));
    if (r->texts.prefix_bytes > 0) {
        FOCAL_TRY(foci_mc_prefix_ids(&r->texts, &r->slots.slots[0].next));
        FOCAL_TRY(foci_mc_slots_share(&r->slots));
    }
    return read_items(r);
}

static double error_of(double share, int64_t count)
{
    return count > 1 ? sqrt(share * (1.0 - share) / (double)(count - 1)) : (double)NAN;
}

static focal_mc_result shares_of(const mc_run *r)
{
    focal_mc_result result = r->sum;
    const double count = (double)result.count;
    result.accuracy = (double)r->right / count;
    result.by_length = (double)r->right_by_length / count;
    result.accuracy_error = error_of(result.accuracy, result.count);
    result.by_length_error = error_of(result.by_length, result.count);
    result.chance /= count;
    return result;
}

focal_status focal_mc(focal_model *model, const focal_mc_set *set, const focal_mc_options *options,
                      focal_mc_result *result)
{
    static const focal_mc_options defaults;
    const focal_mc_options *o = options ? options : &defaults;
    focal_ctx *ctx = focal_model_ctx(model);
    const focal_tokenizer *tokenizer = focal_model_tokenizer(model);
    const int32_t context = o->context == 0 ? focal_model_describe(model).context : o->context;
    mc_run r = {.ctx = ctx,
                .set = set,
                .options = o,
                .count = focal_mc_count(set),
                .texts = {.ctx = ctx, .tokenizer = tokenizer, .joins_bare = o->joins_bare},
                .slots = {.model = model}};
    *result = (focal_mc_result){0};
    if (!tokenizer)
        return foci_fail(ctx, FOCAL_EINVAL, "mc: there is no tokenizer beside the weights");
    if (context < 2 || o->prefix_tokens < 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "mc: context %d (at least 2), %d tokens of the prefix (0: all)", context,
                         o->prefix_tokens);
    const focal_status status = run(&r, context);
    foci_mc_slots_close(&r.slots);
    foci_mc_texts_close(&r.texts);
    focal_ids_free(ctx, &r.ids);
    foci_free(ctx, r.from);
    foci_free(ctx, r.logprob);
    foci_free(ctx, r.tokens);
    foci_free(ctx, r.bytes);
    if (status == FOCAL_OK) *result = shares_of(&r);
    return status;
}
