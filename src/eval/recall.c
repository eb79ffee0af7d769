/* Recall: texts of pairs that fill a length, and how often the model knows a value that stood
 * there. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "eval/recall_text.h"
#include "eval/scorer.h"
#include "focal/eval.h"

enum { DEFAULT_COUNT = 32 };

typedef struct recall_run {
    focal_ctx *ctx;
    const focal_tokenizer *tokenizer;
    const focal_recall_plan *plan;
    const focal_measure_options *options;
    int32_t length;
    int64_t count;
    foci_scorer scorer;
    foci_recall_room *room;
    focal_buffer text, back; /* and what the ids stand for */
    focal_ids ids;
    size_t *ends;            /* (length) byte behind each id's text */
    double *nll;             /* (length) */
    bool *is_right;          /* (length) */
    int64_t tokens;          /* of values */
    focal_recall_result sum; /* what will be a mean: its sum so far */
} recall_run;

/* Text n with so many pairs, as ids. */
static focal_status make_text(recall_run *r, int64_t n, int32_t pairs, foci_recall_shape *shape)
{
    r->text.bytes = 0;
    r->ids.count = 0;
    FOCAL_TRY(foci_recall_shape_of(r->ctx, r->plan, pairs, shape));
    FOCAL_TRY(foci_recall_write(r->ctx, r->plan, n, *shape, r->room, &r->text));
    return focal_tokenizer_encode(r->ctx, r->tokenizer, r->text.data, r->text.bytes,
                                  FOCAL_ENCODE_ADD_SPECIAL, &r->ids);
}

/* The longest text n that fits: texts of more pairs have more tokens. */
static focal_status fill_length(recall_run *r, int64_t n, foci_recall_shape *shape)
{
    const int32_t most = foci_recall_pairs_most(r->plan);
    int32_t fits = FOCAL_RECALL_PAIRS_LEAST - 1, beyond = most + 1;
    while (beyond - fits > 1) {
        const int32_t pairs = fits + (beyond - fits) / 2;
        FOCAL_TRY(make_text(r, n, pairs, shape));
        if (r->ids.count <= r->length)
            fits = pairs;
        else
            beyond = pairs;
    }
    if (fits < FOCAL_RECALL_PAIRS_LEAST)
        return foci_fail(r->ctx, FOCAL_EINVAL, "recall: %d tokens do not hold a pair and its query",
                         r->length);
    if (beyond > most)
        return foci_fail(r->ctx, FOCAL_EINVAL, "recall: %d tokens are more than %d pairs fill",
                         r->length, most);
    return make_text(r, n, fits, shape);
}

/* Which bytes each id stands for. */
static focal_status find_ends(recall_run *r)
{
    focal_text_stream stream = {.flags = FOCAL_DECODE_SKIP_SPECIAL};
    r->back.bytes = 0;
    for (int64_t n = 0; n < r->ids.count; n++) {
        FOCAL_TRY(focal_text_stream_push(r->ctx, r->tokenizer, &stream, r->ids.ids[n], &r->back));
        r->ends[n] = r->back.bytes;
    }
    if (r->back.bytes != r->text.bytes || memcmp(r->back.data, r->text.data, r->text.bytes) != 0)
        return foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                         "recall: the tokenizer does not give the text of its ids back");
    return FOCAL_OK;
}

/* The first id whose text goes beyond a byte. */
static int32_t id_behind(const recall_run *r, size_t byte)
{
    int32_t n = 0;
    while (n < r->ids.count && r->ends[n] <= byte) n++;
    return n;
}

/* The share of the pairs that have this one's value. */
static double chance_of(const recall_run *r, int32_t pair, int32_t pairs)
{
    int32_t equal = 0;
    for (int32_t n = 0; n < pairs; n++) equal += r->room->values[n] == r->room->values[pair];
    return (double)equal / pairs;
}

static void count_value(recall_run *r, const foci_score *late, int32_t from, int32_t to, int depth)
{
    bool is_right = true;
    for (int32_t n = from; n < to; n++) {
        r->sum.loss += late->nll[n - late->from];
        is_right &= late->is_right[n - late->from];
        r->tokens++;
    }
    r->sum.values++;
    r->sum.depth_values[depth]++;
    if (!is_right) return;
    r->sum.accuracy += 1.0;
    r->sum.depth_accuracy[depth] += 1.0;
}

static focal_status measure_text(recall_run *r, int64_t n)
{
    foci_recall_shape shape = {0};
    FOCAL_TRY(fill_length(r, n, &shape));
    FOCAL_TRY(find_ends(r));
    const size_t queries = (size_t)shape.pairs * FOCI_RECALL_LINE + 1 + FOCI_RECALL_VALUE;
    const size_t last = queries + (size_t)(shape.queries - 1) * FOCI_RECALL_LINE;
    const int32_t from = id_behind(r, queries);
    const int32_t to = id_behind(r, last + FOCI_RECALL_VALUE_BYTES - 1) + 1;
    const foci_score late = {from, to, r->nll, r->is_right};
    FOCAL_TRY(foci_scorer_read(&r->scorer, r->ids.ids, to, NULL, &late));
    for (int32_t q = 0; q < shape.queries; q++) {
        const size_t value = queries + (size_t)q * FOCI_RECALL_LINE;
        int depth = FOCAL_RECALL_DEPTHS - 1;
        r->sum.chance += chance_of(r, r->room->asked[q], shape.pairs);
        while (r->room->asked[q] < shape.pairs * depth / FOCAL_RECALL_DEPTHS) depth--;
        count_value(r, &late, id_behind(r, value),
                    id_behind(r, value + FOCI_RECALL_VALUE_BYTES - 1) + 1, depth);
    }
    r->sum.pairs += shape.pairs;
    r->sum.count++;
    return FOCAL_OK;
}

static focal_status run(recall_run *r)
{
    const size_t length = (size_t)r->length;
    FOCAL_TRY(foci_scorer_open(&r->scorer, r->options->cache, r->options->batch));
    r->room = foci_alloc(r->ctx, 1, sizeof *r->room);
    r->ends = foci_alloc(r->ctx, length, sizeof *r->ends);
    r->nll = foci_alloc(r->ctx, length, sizeof *r->nll);
    r->is_right = foci_alloc(r->ctx, length, sizeof *r->is_right);
    if (!r->room || !r->ends || !r->nll || !r->is_right) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < r->count; n++) {
        FOCAL_TRY(measure_text(r, n));
        if (r->options->on_sequence &&
            !r->options->on_sequence(r->options->user, n + 1, r->count,
                                     r->sum.accuracy / (double)r->sum.values))
            break;
    }
    return FOCAL_OK;
}

static focal_recall_result means_of(const recall_run *r)
{
    focal_recall_result mean = r->sum;
    mean.accuracy /= (double)r->sum.values;
    mean.loss /= (double)r->tokens;
    mean.chance /= (double)r->sum.values;
    mean.pairs /= (double)r->sum.count;
    for (int n = 0; n < FOCAL_RECALL_DEPTHS; n++)
        if (mean.depth_values[n] > 0) mean.depth_accuracy[n] /= (double)mean.depth_values[n];
    return mean;
}

focal_status focal_recall(focal_model *model, const focal_recall_plan *plan, int32_t length,
                          const focal_measure_options *options, focal_recall_result *result)
{
    static const focal_measure_options defaults;
    foci_recall_shape least;
    recall_run r = {.ctx = focal_model_ctx(model),
                    .tokenizer = focal_model_tokenizer(model),
                    .plan = plan,
                    .length = length,
                    .scorer = {.model = model}};
    *result = (focal_recall_result){0};
    r.options = options ? options : &defaults;
    r.count = r.options->count == 0 ? DEFAULT_COUNT : r.options->count;
    if (!r.tokenizer)
        return foci_fail(r.ctx, FOCAL_EINVAL, "recall: there is no tokenizer beside the weights");
    if (length < 1 || r.count < 1)
        return foci_fail(r.ctx, FOCAL_EINVAL, "recall: %lld texts of %d tokens, at least 1 of 1",
                         (long long)r.count, length);
    FOCAL_TRY(foci_recall_shape_of(r.ctx, plan, FOCAL_RECALL_PAIRS_LEAST, &least));
    const focal_status status = run(&r);
    foci_scorer_close(&r.scorer);
    foci_free(r.ctx, r.room);
    foci_free(r.ctx, r.ends);
    foci_free(r.ctx, r.nll);
    foci_free(r.ctx, r.is_right);
    focal_buffer_free(r.ctx, &r.text);
    focal_buffer_free(r.ctx, &r.back);
    focal_ids_free(r.ctx, &r.ids);
    if (status == FOCAL_OK) *result = means_of(&r);
    return status;
}
