/* Choosing a token: candidates are sorted only as far as a step needs. */
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sizes.h"
#include "focal/generate.h"

enum { RANDOM_STREAM = 0x5A, DEFAULT_RECENT = 64 };

typedef struct candidate {
    float logit;
    int32_t id;
} candidate;

struct focal_sampler {
    focal_ctx *ctx;
    focal_sampling how;
    int32_t V;
    uint64_t drawn; /* numbers taken from the random stream */
    focal_logit_bias *biases;
    candidate *candidates; /* (V) */
    int32_t *recent;       /* a ring of the last tokens */
    int64_t recent_capacity, recent_count;
    int32_t *counts; /* (V) how often each stands in the ring */
};

static focal_status check_sampling(focal_ctx *ctx, int32_t V, const focal_sampling *s)
{
    if (V < 1) return foci_fail(ctx, FOCAL_EINVAL, "sampler: a vocabulary of %d", V);
    if (!(s->temperature >= 0.0F) || !isfinite(s->temperature))
        return foci_fail(ctx, FOCAL_EINVAL, "sampler: temperature %g, it must be 0 or more",
                         (double)s->temperature);
    if (s->top_k < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "sampler: top_k %d, it must be 0 or more", s->top_k);
    if (!(s->top_p >= 0.0F && s->top_p <= 1.0F) || !(s->min_p >= 0.0F && s->min_p <= 1.0F))
        return foci_fail(ctx, FOCAL_EINVAL, "sampler: top_p %g and min_p %g must be 0 to 1",
                         (double)s->top_p, (double)s->min_p);
    if (!(s->repeat_penalty >= 0.0F) || !isfinite(s->repeat_penalty) ||
        !isfinite(s->presence_penalty) || !isfinite(s->frequency_penalty))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "sampler: penalties must be finite, repeat not below 0");
    if (s->repeat_last < -1 || s->bias_count < 0 || (s->bias_count > 0 && !s->biases))
        return foci_fail(ctx, FOCAL_EINVAL, "sampler: repeat_last %d, %d biases", s->repeat_last,
                         s->bias_count);
    for (int32_t n = 0; n < s->bias_count; n++)
        if (s->biases[n].id < 0 || s->biases[n].id >= V || isnan(s->biases[n].bias))
            return foci_fail(ctx, FOCAL_EINVAL, "sampler: the bias of id %d, ids are below %d",
                             s->biases[n].id, V);
    return FOCAL_OK;
}

focal_status focal_sampler_new(focal_ctx *ctx, int32_t V, const focal_sampling *sampling,
                               focal_sampler **out)
{
    *out = NULL;
    const focal_sampling how = sampling ? *sampling : (focal_sampling){0};
    FOCAL_TRY(check_sampling(ctx, V, &how));
    focal_sampler *s = foci_alloc(ctx, 1, sizeof *s);
    if (!s) return FOCAL_ENOMEM;
    *s = (focal_sampler){.ctx = ctx, .how = how, .V = V};
    s->recent_capacity = how.repeat_last == 0 ? DEFAULT_RECENT : how.repeat_last;
    s->biases = foci_alloc(ctx, (size_t)how.bias_count, sizeof *s->biases);
    s->candidates = foci_alloc(ctx, (size_t)V, sizeof *s->candidates);
    s->counts = foci_alloc(ctx, (size_t)V, sizeof *s->counts);
    if (s->recent_capacity > 0)
        s->recent = foci_alloc(ctx, (size_t)s->recent_capacity, sizeof *s->recent);
    if (!s->biases || !s->candidates || !s->counts || (s->recent_capacity > 0 && !s->recent)) {
        focal_sampler_free(s);
        return FOCAL_ENOMEM;
    }
    memset(s->counts, 0, (size_t)V * sizeof *s->counts);
    if (how.bias_count > 0)
        memcpy(s->biases, how.biases, (size_t)how.bias_count * sizeof *s->biases);
    s->how.biases = s->biases;
    *out = s;
    return FOCAL_OK;
}

void focal_sampler_free(focal_sampler *s)
{
    if (!s) return;
    foci_free(s->ctx, s->biases);
    foci_free(s->ctx, s->candidates);
    foci_free(s->ctx, s->recent);
    foci_free(s->ctx, s->counts);
    foci_free(s->ctx, s);
}

focal_status focal_sampler_accept(focal_sampler *s, int32_t id)
{
    if (id < 0 || id >= s->V)
        return foci_fail(s->ctx, FOCAL_EINVAL, "sampler: id %d, ids are below %d", id, s->V);
    s->counts[id]++;
    if (s->recent_capacity <= 0) return FOCAL_OK; /* all count: nothing leaves */
    const int64_t place = s->recent_count % s->recent_capacity;
    if (s->recent_count >= s->recent_capacity) s->counts[s->recent[place]]--;
    s->recent[place] = id;
    s->recent_count++;
    return FOCAL_OK;
}

static void penalise(const focal_sampler *s, float *logits)
{
    const focal_sampling *how = &s->how;
    const float repeat = how->repeat_penalty == 0.0F ? 1.0F : how->repeat_penalty;
    for (int32_t n = 0; n < how->bias_count; n++) logits[s->biases[n].id] += s->biases[n].bias;
    if (repeat == 1.0F && how->presence_penalty == 0.0F && how->frequency_penalty == 0.0F) return;
    for (int32_t id = 0; id < s->V; id++) {
        if (s->counts[id] == 0) continue;
        logits[id] = logits[id] > 0.0F ? logits[id] / repeat : logits[id] * repeat;
        logits[id] -= how->presence_penalty + (float)s->counts[id] * how->frequency_penalty;
    }
}

static bool is_before(candidate a, candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(candidate *heap, int64_t count, int64_t at)
{
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= count) return;
        if (child + 1 < count && is_before(heap[child], heap[child + 1])) child++;
        if (!is_before(heap[at], heap[child])) return;
        const candidate swap = heap[at];
        heap[at] = heap[child];
        heap[child] = swap;
        at = child;
    }
}

/* The best `keep` of c, best first, by a heap whose root is the worst that is kept. */
static int64_t sort_best(candidate *c, int64_t count, int64_t keep)
{
    if (keep > count) keep = count;
    for (int64_t n = keep / 2 - 1; n >= 0; n--) sift_down(c, keep, n);
    for (int64_t n = keep; n < count; n++) {
        if (!is_before(c[n], c[0])) continue;
        c[0] = c[n];
        sift_down(c, keep, 0);
    }
    for (int64_t n = keep - 1; n > 0; n--) {
        const candidate swap = c[0];
        c[0] = c[n];
        c[n] = swap;
        sift_down(c, n, 0);
    }
    return keep;
}

/* How many of the sorted candidates top_p keeps: the fewest whose probability reaches it. */
static int64_t cut_top_p(const candidate *c, int64_t count, float top_p)
{
    double sum = 0.0, reached = 0.0;
    for (int64_t n = 0; n < count; n++) sum += exp((double)c[n].logit - (double)c[0].logit);
    for (int64_t n = 0; n < count; n++) {
        reached += exp((double)c[n].logit - (double)c[0].logit) / sum;
        if (reached >= (double)top_p) return n + 1;
    }
    return count;
}

/* A draw by the probabilities of the tempered logits. */
static int32_t draw(focal_sampler *s, const candidate *c, int64_t count)
{
    const double t = (double)s->how.temperature;
    double sum = 0.0;
    for (int64_t n = 0; n < count; n++) sum += exp(((double)c[n].logit - (double)c[0].logit) / t);
    const foci_random4 random = foci_random_block(s->how.seed, RANDOM_STREAM, s->drawn++);
    const uint64_t bits = ((uint64_t)random.x[0] << 32 | random.x[1]) >> 11;
    double left = (double)bits * 0x1p-53 * sum;
    for (int64_t n = 0; n < count; n++) {
        left -= exp(((double)c[n].logit - (double)c[0].logit) / t);
        if (left < 0.0) return c[n].id;
    }
    return c[count - 1].id;
}

focal_status focal_sampler_pick(focal_sampler *s, float *logits, int32_t *id)
{
    const focal_sampling *how = &s->how;
    penalise(s, logits);
    int64_t count = 0;
    for (int32_t n = 0; n < s->V; n++) /* NaN and -inf are no candidates */
        if (logits[n] > -INFINITY) s->candidates[count++] = (candidate){logits[n], n};
    if (count == 0) return foci_fail(s->ctx, FOCAL_EINVAL, "sampler: no id has a finite logit");
    const bool is_greedy = how->temperature == 0.0F;
    const bool has_top_p = how->top_p > 0.0F && how->top_p < 1.0F;
    int64_t keep = how->top_k > 0 ? how->top_k : count;
    if (is_greedy) keep = 1;
    /* Only top_p needs order; without it the best one in front is enough. */
    if (keep < count || has_top_p) {
        count = sort_best(s->candidates, count, keep);
    } else {
        for (int64_t n = 1; n < count; n++) {
            if (!is_before(s->candidates[n], s->candidates[0])) continue;
            const candidate swap = s->candidates[0];
            s->candidates[0] = s->candidates[n];
            s->candidates[n] = swap;
        }
    }
    if (is_greedy || isinf(s->candidates[0].logit)) {
        *id = s->candidates[0].id;
        return FOCAL_OK;
    }
    if (has_top_p) count = cut_top_p(s->candidates, count, how->top_p);
    if (how->min_p > 0.0F) {
        const float least = s->candidates[0].logit + logf(how->min_p);
        int64_t kept = 0;
        for (int64_t n = 0; n < count; n++)
            if (s->candidates[n].logit >= least) s->candidates[kept++] = s->candidates[n];
        count = kept;
    }
    *id = draw(s, s->candidates, count);
    return FOCAL_OK;
}
