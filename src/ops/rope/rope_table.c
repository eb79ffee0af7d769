/* Frequencies of rotary positions. Each step is rounded to float32 where transformers' own is, for
 * a frequency that is off in its last bit turns by another angle at a distant position. */
#include <math.h>

#include "base/error.h"
#include "base/sizes.h"
#include "ops/rope/rope.h"

static const double pi = 3.14159265358979323846;

static bool is_positive(double x)
{
    return isfinite(x) && x > 0.0;
}

static focal_status check_config(focal_ctx *ctx, const foci_rope_config *c)
{
    if (c->rotated < 2 || c->rotated % 2 != 0 || c->rotated > FOCI_ROPE_MAX_WIDTH)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "rope: the rotated width is %d, it must be even and 2 to %d", c->rotated,
                         FOCI_ROPE_MAX_WIDTH);
    if (!isfinite(c->base) || c->base <= 1.0)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: the base is %g, it must be above 1", c->base);
    if (c->kind < FOCI_ROPE_PLAIN || c->kind > FOCI_ROPE_YARN)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: there is no kind %d", (int)c->kind);
    if (c->kind != FOCI_ROPE_PLAIN && !is_positive(c->factor))
        return foci_fail(ctx, FOCAL_EINVAL, "rope: the factor is %g, it must be above 0",
                         c->factor);
    if (c->kind >= FOCI_ROPE_LLAMA3 && !is_positive(c->original_context))
        return foci_fail(ctx, FOCAL_EINVAL, "rope: the original context is %g, it must be above 0",
                         c->original_context);
    if (c->kind == FOCI_ROPE_LLAMA3 &&
        (!is_positive(c->low) || !is_positive(c->high) || c->low >= c->high))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "rope: the low factor %g must be above 0 and below the high factor %g",
                         c->low, c->high);
    const double others[] = {c->beta_fast, c->beta_slow, c->mscale, c->mscale_all_dim,
                             c->attention_factor};
    for (size_t n = 0; n < FOCAL_COUNT(others); n++)
        if (!isfinite(others[n]) || others[n] < 0.0)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "rope: %g as a yarn or attention factor: it must be 0 or more",
                             others[n]);
    return FOCAL_OK;
}

/* 1 / base^(2 pair / rotated). */
static float plain_frequency(const foci_rope_config *c, int32_t pair)
{
    const float exponent = (float)(2 * pair) / (float)c->rotated;
    return 1.0F / (float)pow((double)(float)c->base, (double)exponent);
}

static float llama3_frequency(const foci_rope_config *c, float plain)
{
    const float factor = (float)c->factor;
    const double wave = (double)((float)(2.0 * pi) / plain);
    if (wave < (double)(float)(c->original_context / c->high)) return plain;
    if (wave > (double)(float)(c->original_context / c->low)) return plain / factor;
    const float turns = (float)c->original_context / (float)wave;
    const float smooth = (turns - (float)c->low) / (float)(c->high - c->low);
    return (1.0F - smooth) * plain / factor + smooth * plain;
}

/* The pair, not always whole, that turns so many times in the original context. */
static double yarn_pair(const foci_rope_config *c, double turns)
{
    return c->rotated * log(c->original_context / (turns * 2.0 * pi)) / (2.0 * log(c->base));
}

static float yarn_frequency(const foci_rope_config *c, int32_t pair)
{
    double low = yarn_pair(c, c->beta_fast == 0.0 ? 32.0 : c->beta_fast);
    double high = yarn_pair(c, c->beta_slow == 0.0 ? 1.0 : c->beta_slow);
    if (!c->is_untruncated) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0.0);
    high = fmin(high, c->rotated - 1.0);
    if (low == high) high += 0.001;
    const float ramp = ((float)pair - (float)low) / (float)(high - low);
    const float keep = 1.0F - fminf(fmaxf(ramp, 0.0F), 1.0F);
    const float exponent = (float)(2 * pair) / (float)c->rotated;
    const float wave = (float)pow((double)(float)c->base, (double)exponent);
    return 1.0F / ((float)c->factor * wave) * (1.0F - keep) + 1.0F / wave * keep;
}

static double yarn_scale(double factor, double mscale)
{
    return factor <= 1.0 ? 1.0 : 0.1 * mscale * log(factor) + 1.0;
}

static double attention_factor(const foci_rope_config *c)
{
    if (c->attention_factor != 0.0) return c->attention_factor;
    if (c->kind != FOCI_ROPE_YARN) return 1.0;
    if (c->mscale == 0.0 || c->mscale_all_dim == 0.0) return yarn_scale(c->factor, 1.0);
    return yarn_scale(c->factor, c->mscale) / yarn_scale(c->factor, c->mscale_all_dim);
}

static float frequency(const foci_rope_config *c, int32_t pair)
{
    const float plain = plain_frequency(c, pair);
    switch (c->kind) {
    case FOCI_ROPE_LINEAR:
        return plain / (float)c->factor;
    case FOCI_ROPE_LLAMA3:
        return llama3_frequency(c, plain);
    case FOCI_ROPE_YARN:
        return yarn_frequency(c, pair);
    default:
        return plain;
    }
}

focal_status foci_rope_table(focal_ctx *ctx, const foci_rope_config *config, float *inv_freq,
                             float *scale)
{
    if (!config || !inv_freq || !scale)
        return foci_fail(ctx, FOCAL_EINVAL, "rope: config, inv_freq and scale must be set");
    FOCAL_TRY(check_config(ctx, config));
    for (int32_t pair = 0; pair < config->rotated / 2; pair++) {
        inv_freq[pair] = frequency(config, pair);
        if (config->divisors) inv_freq[pair] /= config->divisors[pair];
        if (!isfinite(inv_freq[pair]) || inv_freq[pair] < 0.0F)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "rope: pair %d turns by %g a token, it must be 0 or more", pair,
                             (double)inv_freq[pair]);
    }
    *scale = (float)attention_factor(config);
    if (!isfinite(*scale))
        return foci_fail(ctx, FOCAL_EINVAL, "rope: the attention factor is not finite");
    return FOCAL_OK;
}
