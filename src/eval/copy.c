/* Copying: a passage, other text, the passage again. */
#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sizes.h"
#include "eval/scorer.h"
#include "focal/eval.h"

enum { DEFAULT_PASSAGE = 64, DEFAULT_LENGTH = 1024, DEFAULT_COUNT = 32, DRAWS = 8 };
enum { EVEN_ROUNDS = 5, EVEN_PASSAGE_REST = 100, EVEN_BETWEEN_REST = 500 };

/* Streams of random numbers; docs/TRAINING.md counts on nothing but that they differ. */
enum { STREAM_MEASURE = 0x636F7079, STREAM_TRAIN };

/* A plan with its defaults filled in. */
typedef struct shape {
    int32_t passage, length, between, begin_count;
} shape;

static focal_status resolve(focal_ctx *ctx, const focal_copy_plan *plan, shape *out)
{
    const int32_t passage = plan->passage == 0 ? DEFAULT_PASSAGE : plan->passage;
    const int32_t length = plan->length == 0 ? DEFAULT_LENGTH : plan->length;
    const int32_t begin_count = plan->has_begin ? 1 : 0;
    const int64_t between = (int64_t)length - 2 * (int64_t)passage - begin_count;
    if (passage < 2 || between < 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "copy: a passage of %d tokens does not fit twice in a length of %d%s, or "
                         "has less than 2",
                         passage, length,
                         begin_count > 0 ? " whose first token is the beginning of a text" : "");
    if (!plan->texts || plan->text_count < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "copy: no text to take passages from");
    if (plan->has_even_places && plan->text_count < 2)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "copy: even places take passages and what is between them from different "
                         "texts: two at least");
    const int64_t need = passage + between + (plan->has_even_places ? EVEN_BETWEEN_REST : 0);
    for (int32_t n = 0; n < plan->text_count; n++)
        if (plan->texts[n].count < need || plan->texts[n].count > INT32_MAX)
            return foci_fail(
                ctx, FOCAL_EINVAL,
                "copy: text %d has %lld tokens, a passage of %d and %lld between need %lld", n + 1,
                (long long)plan->texts[n].count, passage, (long long)between, (long long)need);
    *out = (shape){passage, length, (int32_t)between, begin_count};
    return FOCAL_OK;
}

/* Where a sequence has its parts from. */
typedef struct places {
    int64_t passage_text, between_text; /* numbers of texts */
    int64_t passage, between;           /* ids of those texts */
} places;

static places even_places(const focal_copy_plan *plan, const shape *s, int64_t n)
{
    const int64_t round = n / plan->text_count;
    const double u = (double)round;
    places p = {n % plan->text_count, (n + 1) % plan->text_count, 0, 0};
    const int64_t passage_room = plan->texts[p.passage_text].count - s->passage - EVEN_PASSAGE_REST;
    const int64_t between_room = plan->texts[p.between_text].count - s->between - EVEN_BETWEEN_REST;
    p.passage = (int64_t)((double)passage_room * (0.1 + 0.2 * u));
    p.between = (int64_t)((double)between_room * (0.15 + 0.2 * u));
    return p;
}

/* From two texts, or from two places of the only one that do not overlap. */
static places random_places(const focal_copy_plan *plan, const shape *s, int64_t n)
{
    const uint64_t stream = plan->is_training ? STREAM_TRAIN : STREAM_MEASURE;
    uint64_t at = (uint64_t)n * DRAWS;
    const uint32_t texts = (uint32_t)plan->text_count;
    places p;
    p.passage_text = foci_random_below(plan->seed, stream, at++, texts);
    if (texts > 1) {
        const int64_t step = 1 + foci_random_below(plan->seed, stream, at++, texts - 1);
        p.between_text = (p.passage_text + step) % plan->text_count;
        const int64_t passage_room = plan->texts[p.passage_text].count - s->passage;
        const int64_t between_room = plan->texts[p.between_text].count - s->between;
        p.passage = foci_random_below(plan->seed, stream, at++, (uint32_t)passage_room + 1);
        p.between = foci_random_below(plan->seed, stream, at, (uint32_t)between_room + 1);
        return p;
    }
    p.between_text = p.passage_text;
    const uint32_t room = (uint32_t)(plan->texts[0].count - s->passage - s->between) + 1;
    const int64_t a = foci_random_below(plan->seed, stream, at++, room);
    const int64_t b = foci_random_below(plan->seed, stream, at++, room);
    const int64_t first = foci_min64(a, b), second = foci_max64(a, b);
    const bool is_passage_first = foci_random_below(plan->seed, stream, at, 2) == 0;
    p.passage = is_passage_first ? first : second + s->between;
    p.between = is_passage_first ? second + s->passage : first;
    return p;
}

/* Sequences that a plan has. */
static int64_t sequences_of(const focal_copy_plan *plan)
{
    return plan->has_even_places ? EVEN_ROUNDS * (int64_t)plan->text_count : INT32_MAX;
}

focal_status focal_copy_sequence(focal_ctx *ctx, const focal_copy_plan *plan, int64_t n,
                                 int32_t *ids)
{
    shape s;
    FOCAL_TRY(resolve(ctx, plan, &s));
    const int64_t most = sequences_of(plan);
    if (n < 0 || n >= most)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "copy: sequence %lld, %lld texts have the places of %lld",
                         (long long)n + 1, (long long)plan->text_count, (long long)most);
    const places p = plan->has_even_places ? even_places(plan, &s, n) : random_places(plan, &s, n);
    const int32_t *passage = plan->texts[p.passage_text].ids + p.passage;
    const int32_t *between = plan->texts[p.between_text].ids + p.between;
    if (plan->has_begin) *ids++ = plan->begin;
    for (int32_t i = 0; i < s.passage; i++) ids[i] = ids[s.passage + s.between + i] = passage[i];
    for (int32_t i = 0; i < s.between; i++) ids[s.passage + i] = between[i];
    return FOCAL_OK;
}

typedef struct copy_run {
    focal_ctx *ctx;
    const focal_copy_plan *plan;
    const focal_measure_options *options;
    shape shape;
    int32_t scored;
    int64_t count;
    foci_scorer scorer;
    int32_t *ids;           /* (length) */
    double *first, *second; /* (scored) */
    bool *is_right;         /* (scored) */
    focal_copy_result sum;  /* accuracy and losses: the sums so far */
} copy_run;

static focal_status measure_sequence(copy_run *r, int64_t n)
{
    const shape *s = &r->shape;
    const int32_t first_end = s->begin_count + s->passage;
    const foci_score early = {first_end - r->scored, first_end, r->first, NULL};
    const foci_score late = {s->length - r->scored, s->length, r->second, r->is_right};
    FOCAL_TRY(focal_copy_sequence(r->ctx, r->plan, n, r->ids));
    FOCAL_TRY(foci_scorer_read(&r->scorer, r->ids, s->length, &early, &late));
    for (int32_t i = 0; i < r->scored; i++) {
        r->sum.first_loss += r->first[i];
        r->sum.loss += r->second[i];
        r->sum.accuracy += r->is_right[i] ? 1.0 : 0.0;
    }
    r->sum.tokens += r->scored;
    r->sum.count++;
    return FOCAL_OK;
}

static focal_status run(copy_run *r)
{
    const size_t length = (size_t)r->shape.length, scored = (size_t)r->scored;
    FOCAL_TRY(foci_scorer_open(&r->scorer, r->options->cache, r->options->batch));
    r->ids = foci_alloc(r->ctx, length, sizeof *r->ids);
    r->first = foci_alloc(r->ctx, scored, sizeof *r->first);
    r->second = foci_alloc(r->ctx, scored, sizeof *r->second);
    r->is_right = foci_alloc(r->ctx, scored, sizeof *r->is_right);
    if (!r->ids || !r->first || !r->second || !r->is_right) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < r->count; n++) {
        FOCAL_TRY(measure_sequence(r, n));
        if (r->options->on_sequence &&
            !r->options->on_sequence(r->options->user, n + 1, r->count,
                                     r->sum.accuracy / (double)r->sum.tokens))
            break;
    }
    return FOCAL_OK;
}

focal_status focal_copy(focal_model *model, const focal_copy_plan *plan, int32_t scored,
                        const focal_measure_options *options, focal_copy_result *result)
{
    static const focal_measure_options defaults;
    copy_run r = {.ctx = focal_model_ctx(model), .plan = plan, .scorer = {.model = model}};
    *result = (focal_copy_result){0};
    r.options = options ? options : &defaults;
    FOCAL_TRY(resolve(r.ctx, plan, &r.shape));
    const int64_t most = sequences_of(plan);
    r.count = r.options->count == 0 ? foci_min64(DEFAULT_COUNT, most) : r.options->count;
    const int32_t passage = r.shape.passage;
    r.scored = scored == 0 ? passage - (int32_t)foci_max64(passage / 8, 1) : scored;
    if (r.count < 1)
        return foci_fail(r.ctx, FOCAL_EINVAL, "copy: %lld sequences, at least 1 is needed",
                         (long long)r.count);
    if (r.scored < 1 || r.scored >= passage)
        return foci_fail(r.ctx, FOCAL_EINVAL,
                         "copy: %d tokens scored of a passage of %d, 1 to %d can be", r.scored,
                         passage, passage - 1);
    if (r.count > most)
        return foci_fail(r.ctx, FOCAL_EINVAL,
                         "copy: %lld sequences, %d texts have the places of %lld",
                         (long long)r.count, plan->text_count, (long long)most);
    const focal_status status = run(&r);
    foci_scorer_close(&r.scorer);
    foci_free(r.ctx, r.ids);
    foci_free(r.ctx, r.first);
    foci_free(r.ctx, r.second);
    foci_free(r.ctx, r.is_right);
    if (status != FOCAL_OK) return status;
    *result = r.sum;
    result->accuracy /= (double)r.sum.tokens;
    result->loss /= (double)r.sum.tokens;
    result->first_loss /= (double)r.sum.tokens;
    return FOCAL_OK;
}
