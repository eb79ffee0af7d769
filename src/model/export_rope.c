/* Rotation in the words of the other format. Llama 3's scaling is four numbers in config.json and a
 * tensor of divisors in GGUF: one way is its formula, the other looks for numbers that give the
 * divisors again. */
#include <math.h>

#include "base/error.h"
#include "model/export.h"

static const double pi = 3.14159265358979323846;

/* How far a divisor may be from the formula's: files were made in float32, in several ways. */
static const double tolerance = 1e-5;

/* What the formula divides each plain frequency by. */
static focal_status make_divisors(focal_ctx *ctx, const foci_rope_config *llama3, float *divisors)
{
    float plain[FOCI_MAX_ROPE_PAIRS], scaled[FOCI_MAX_ROPE_PAIRS], scale;
    const foci_rope_config base = {.rotated = llama3->rotated, .base = llama3->base};
    FOCAL_TRY(foci_rope_table(ctx, &base, plain, &scale));
    FOCAL_TRY(foci_rope_table(ctx, llama3, scaled, &scale));
    for (int32_t n = 0; n < llama3->rotated / 2; n++)
        divisors[n] = (float)((double)plain[n] / (double)scaled[n]);
    return FOCAL_OK;
}

static focal_status try_numbers(focal_ctx *ctx, const foci_rope_config *llama3, const float *want,
                                bool *fits)
{
    float got[FOCI_MAX_ROPE_PAIRS];
    FOCAL_TRY(make_divisors(ctx, llama3, got));
    *fits = true;
    for (int32_t n = 0; n < llama3->rotated / 2; n++)
        *fits = *fits && fabs((double)got[n] / (double)want[n] - 1.0) <= tolerance;
    return FOCAL_OK;
}

/* Between the two ends 1/divisor grows linearly with the frequency: the line through two such
 * pairs says where it begins and ends. The three numbers have a factor in common that no divisor
 * shows; low is 1 in every model there is. False when there are no two. */
static bool fit_line(foci_rope_config *llama3, const float *frequencies, const float *divisors)
{
    const int32_t pairs = llama3->rotated / 2;
    int32_t first = -1, last = -1;
    for (int32_t n = 0; n < pairs; n++) {
        const double d = (double)divisors[n];
        if (d < 1.0 + 1e-3 || d > llama3->factor * (1.0 - 1e-3)) continue;
        if (first < 0) first = n;
        last = n;
    }
    if (first == last) return false;
    const double least = 1.0 / llama3->factor;
    const double y0 = (1.0 / (double)divisors[first] - least) / (1.0 - least);
    const double y1 = (1.0 / (double)divisors[last] - least) / (1.0 - least);
    const double x0 = (double)frequencies[first], x1 = (double)frequencies[last];
    const double slope = (y0 - y1) / (x0 - x1), start = y0 - slope * x0;
    if (!(start < 0.0) || !(slope > 0.0)) return false;
    llama3->low = 1.0;
    llama3->high = 1.0 - 1.0 / start;
    llama3->original_context = round(slope * 2.0 * pi * (llama3->high - llama3->low));
    llama3->high = round(llama3->high * 1e3) / 1e3; /* numbers that people choose are short */
    return llama3->high > llama3->low && llama3->original_context >= 1.0;
}

static focal_status find_numbers(foci_export *e, const float *divisors)
{
    float frequencies[FOCI_MAX_ROPE_PAIRS], scale;
    const foci_config *c = &e->model->config;
    const foci_rope_config plain = {.rotated = c->rope.rotated, .base = c->rope.base};
    foci_rope_config llama3 = plain;
    bool fits = false, is_plain = true;
    for (int32_t n = 0; n < plain.rotated / 2; n++) {
        llama3.factor = fmax(llama3.factor, (double)divisors[n]);
        is_plain = is_plain && fabs((double)divisors[n] - 1.0) <= tolerance;
    }
    e->rope = plain;
    if (is_plain) return FOCAL_OK;
    llama3.kind = FOCI_ROPE_LLAMA3;
    llama3.low = 1.0;
    llama3.high = 4.0;
    for (int32_t n = 4; n < 27 && !fits && llama3.factor > 1.0; n++) {
        llama3.original_context = (double)(1 << n);
        FOCAL_TRY(try_numbers(e->ctx, &llama3, divisors, &fits));
    }
    FOCAL_TRY(foci_rope_table(e->ctx, &plain, frequencies, &scale));
    if (!fits && llama3.factor > 1.0 && fit_line(&llama3, frequencies, divisors))
        FOCAL_TRY(try_numbers(e->ctx, &llama3, divisors, &fits));
    if (!fits || c->rope.kind != FOCI_ROPE_PLAIN)
        return foci_fail(e->ctx, FOCAL_EUNSUPPORTED,
                         "%s: 'rope_freqs.weight' is not what llama3's scaling gives, and config."
                         "json has no words for another",
                         e->model->path);
    e->rope = llama3;
    return FOCAL_OK;
}

static bool is_same(const foci_rope_config *a, const foci_rope_config *b)
{
    return a->rotated == b->rotated && a->base == b->base && a->kind == b->kind &&
           a->factor == b->factor && a->original_context == b->original_context &&
           a->low == b->low && a->high == b->high && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->attention_factor == b->attention_factor;
}

/* Both formats give windowed layers the rotation of the others, except for Gemma 3, whose windowed
 * layers have a base of their own and no scaling. */
static focal_status check_local(const foci_export *e)
{
    const foci_config *c = &e->model->config;
    bool has_local = false;
    for (int32_t n = 0; n < c->L; n++) has_local = has_local || c->is_local[n];
    if (!has_local) return FOCAL_OK;
    const bool fits = c->family->local_period == 6 ? c->rope_local.kind == FOCI_ROPE_PLAIN
                                                   : is_same(&c->rope, &c->rope_local);
    if (fits) return FOCAL_OK;
    return foci_fail(e->ctx, FOCAL_EUNSUPPORTED,
                     "%s: its windowed layers rotate in a way that %s has no words for",
                     e->model->path, e->to_gguf ? "GGUF" : "config.json");
}

focal_status foci_export_rope(foci_export *e)
{
    const foci_config *c = &e->model->config;
    if (c->has_positions) return FOCAL_OK;
    e->rope = c->rope;
    FOCAL_TRY(check_local(e));
    if (!e->to_gguf) {
        e->rope.divisors = NULL;
        return c->rope.divisors ? find_numbers(e, c->rope.divisors) : FOCAL_OK;
    }
    if (c->rope.kind == FOCI_ROPE_LLAMA3) {
        FOCAL_TRY(make_divisors(e->ctx, &c->rope, e->divisors));
        e->rope = (foci_rope_config){
            .rotated = c->rope.rotated, .base = c->rope.base, .divisors = e->divisors};
        return FOCAL_OK;
    }
    if (c->rope.attention_factor != 0.0 || c->rope.is_untruncated ||
        (c->rope.mscale != 0.0 && c->rope.mscale_all_dim != 0.0))
        return foci_fail(e->ctx, FOCAL_EUNSUPPORTED,
                         "%s: its rope has attention_factor, mscale or truncate, and GGUF has no "
                         "words for them",
                         e->model->path);
    return FOCAL_OK;
}
