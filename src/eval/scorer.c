/* The scorer: long passes up to what is scored, then short ones whose logits are looked at. */
#include "eval/scorer.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

/* Rows of logits at once: 16 MB for a vocabulary of 64 thousand. */
enum { SCORER_ROWS = 64, DEFAULT_BATCH = 1024 };

focal_status foci_scorer_open(foci_scorer *scorer, const focal_cache_options *cache, int32_t batch)
{
    focal_ctx *ctx = focal_model_ctx(scorer->model);
    const size_t V = (size_t)focal_model_describe(scorer->model).V;
    scorer->batch = batch == 0 ? DEFAULT_BATCH : batch;
    if (scorer->batch < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "eval: a batch of %d tokens, at least 1", batch);
    FOCAL_TRY(focal_cache_new(scorer->model, cache, &scorer->cache));
    scorer->logits = foci_alloc(ctx, SCORER_ROWS * V, sizeof *scorer->logits);
    scorer->targets = foci_alloc(ctx, (size_t)scorer->batch, sizeof *scorer->targets);
    scorer->nll = foci_alloc(ctx, (size_t)scorer->batch, sizeof *scorer->nll);
    return scorer->logits && scorer->targets && scorer->nll ? FOCAL_OK : FOCAL_ENOMEM;
}

void foci_scorer_close(foci_scorer *scorer)
{
    focal_ctx *ctx = focal_model_ctx(scorer->model);
    foci_free(ctx, scorer->logits);
    foci_free(ctx, scorer->targets);
    foci_free(ctx, scorer->nll);
    focal_cache_free(scorer->cache);
    *scorer = (foci_scorer){.model = scorer->model};
}

/* A sum with one such number in it is no result. */
static focal_status check_finite(const foci_scorer *s, double nll, int32_t place)
{
    if (isfinite(nll)) return FOCAL_OK;
    return foci_fail(focal_model_ctx(s->model), FOCAL_EINVAL,
                     "eval: token %d of a text has no finite log-probability: the model gives none",
                     place);
}

/* ids[begin .. end - 1], with the probabilities of those that `early` asks for. */
static focal_status read_early(foci_scorer *s, const int32_t *ids, int32_t begin, int32_t end,
                               const foci_score *early)
{
    bool is_wanted = false;
    for (int32_t n = begin; n < end; n++) { /* the token before an id predicts it */
        const bool is_scored = early && n + 1 >= early->from && n + 1 < early->to;
        s->targets[n - begin] = is_scored ? ids[n + 1] : -1;
        is_wanted |= is_scored;
    }
    const focal_batch_item item = {0, end - begin, ids + begin, 0};
    const focal_forward_args args = {.item_count = 1,
                                     .items = &item,
                                     .targets = is_wanted ? s->targets : NULL,
                                     .nll = is_wanted ? s->nll : NULL};
    FOCAL_TRY(focal_forward(s->model, s->cache, &args));
    for (int32_t n = begin; is_wanted && n < end; n++) {
        if (s->targets[n - begin] < 0) continue;
        FOCAL_TRY(check_finite(s, s->nll[n - begin], n + 1));
        early->nll[n + 1 - early->from] = s->nll[n - begin];
    }
    return FOCAL_OK;
}

static void look_at(const float *logits, int32_t V, int32_t id, double *nll, bool *is_right)
{
    int32_t best = 0;
    for (int32_t v = 1; v < V; v++)
        if (logits[v] > logits[best]) best = v;
    double sum = 1.0; /* the best one's */
    for (int32_t v = 0; v < V; v++)
        if (v != best) sum += exp((double)logits[v] - (double)logits[best]);
    *nll = log(sum) + (double)logits[best] - (double)logits[id];
    *is_right = best == id;
}

focal_status foci_scorer_read(foci_scorer *s, const int32_t *ids, int32_t count,
                              const foci_score *early, const foci_score *late)
{
    const int32_t V = focal_model_describe(s->model).V;
    const int32_t border = late->from - 1; /* its token is the first whose logits count */
    FOCAL_TRY(focal_cache_truncate(s->cache, 0, 0));
    for (int32_t begin = 0, end; begin < border; begin = end) {
        end = (int32_t)foci_min64(border, (int64_t)begin + s->batch);
        FOCAL_TRY(read_early(s, ids, begin, end, early));
    }
    for (int32_t begin = border, end; begin < count - 1; begin = end) {
        end = (int32_t)foci_min64(count - 1, (int64_t)begin + SCORER_ROWS);
        const focal_batch_item item = {0, end - begin, ids + begin, end - begin};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = s->logits};
        FOCAL_TRY(focal_forward(s->model, s->cache, &args));
        for (int32_t n = begin; n < end; n++) {
            const int32_t place = n + 1 - late->from, id = ids[n + 1];
            if (id < 0 || id >= V) /* the last one is not read, so the model does not refuse it */
                return foci_fail(focal_model_ctx(s->model), FOCAL_EINVAL,
                                 "eval: id %d is outside the vocabulary of %d", id, V);
            look_at(s->logits + (int64_t)(n - begin) * V, V, id, &late->nll[place],
                    &late->is_right[place]);
            FOCAL_TRY(check_finite(s, late->nll[place], n + 1));
        }
    }
    return FOCAL_OK;
}
