/* Quantising by search: the levels, scales and minima that leave the least squared error. Each run
 * of elements is fitted alone, over many step sizes; then scales and minima are rounded to the
 * integers that a block stores, and rounds of choosing integers for a run and fitting the block's
 * two floats make up for what that rounding cost. */
#include <math.h>
#include <string.h>

#include "ops/blocks.h"
#include "ops/quant/quant_kernels.h"

enum {
    MAX_RUNS = 16,
    LANES = 4,
    STEPS = 10,       /* step sizes tried to either side of the plain one */
    FIT_ROUNDS = 8,   /* at most; the fit of one run */
    BLOCK_ROUNDS = 4, /* at most; the fit of a block */
};

/* Four floats at once on every machine (a GNU C vector): the search is most of an export's time. */
typedef float lanes __attribute__((vector_size(LANES * sizeof(float))));
typedef int32_t lane_mask __attribute__((vector_size(LANES * sizeof(float))));

/* What a K type can store: value = d scale q - m min, with integers in these ranges. */
typedef struct layout {
    int run; /* elements that share a scale and a minimum */
    int least, most;
    int scale_least, scale_most;
    int min_most; /* 0: no minima */
} layout;

/* A block before its bits are packed. */
typedef struct grid {
    float d, m; /* exact in float16 when multiplied by 2^exponent */
    int exponent;
    int scale[MAX_RUNS], min[MAX_RUNS];
    float q[FOCI_SUPER_BLOCK];
} grid;

/* x is about scale q + offset. */
typedef struct line {
    double scale, offset;
    double error; /* sum of squares */
} line;

static inline lanes load(const float *x)
{
    lanes y;
    memcpy(&y, x, sizeof y);
    return y;
}

static inline lanes same(float x)
{
    return (lanes){x, x, x, x};
}

/* a where the mask is set, else b. */
static inline lanes pick(lane_mask mask, lanes a, lanes b)
{
    return (lanes)(((lane_mask)a & mask) | ((lane_mask)b & ~mask));
}

static inline double sum(lanes x)
{
    return ((double)x[0] + (double)x[1]) + ((double)x[2] + (double)x[3]);
}

/* y = x / 2^exponent, with the largest magnitude below 1, so that no square overflows or vanishes
 * that matters. */
static int normalise(const float *x, int count, float *y)
{
    float most = 0.0F;
    for (int n = 0; n < count; n++) most = fmaxf(most, fabsf(x[n]));
    int exponent;
    (void)frexpf(most, &exponent);
    for (int n = 0; n < count; n++) y[n] = ldexpf(x[n], -exponent);
    return exponent;
}

/* The nearest float16, of a number that was divided by 2^exponent. */
static float round_f16(double x, int exponent)
{
    const float half = foci_f16_to_float(foci_f16_from_float((float)ldexp(x, exponent)));
    return ldexpf(half, -exponent);
}

static int nearest_int(double y, int least, int most)
{
    if (!(y > least)) return least; /* also NaN */
    return y < most ? (int)lrint(y) : most;
}

/* The nearest levels. Adding 1.5 2^23 leaves no bit for a fraction, so the sum is an integer. */
static inline lanes nearest_levels(const layout *t, lanes y)
{
    const lanes least = same((float)t->least), most = same((float)t->most);
    y = pick(y > least, y, least);
    y = pick(y < most, y, most);
    return (y + 0x1.8p23F) - 0x1.8p23F;
}

/* The best line for the levels nearest to (x - offset) inverse; its offset is 0, or where there are
 * minima, at most 0. x1 and x2: sums of x and of its squares. */
static line fit_line(const layout *t, const float *x, float inverse, float offset, double x1,
                     double x2)
{
    lanes lane_q = {0}, lane_qq = {0}, lane_xq = {0};
    for (int n = 0; n < t->run; n += LANES) {
        const lanes y = load(x + n), q = nearest_levels(t, (y - offset) * inverse);
        lane_q += q;
        lane_qq += q * q;
        lane_xq += y * q;
    }
    const double q1 = sum(lane_q), q2 = sum(lane_qq), xq = sum(lane_xq);
    const double spread = t->run * q2 - q1 * q1;
    line fit = {.scale = q2 > 0.0 ? xq / q2 : 0.0};
    if (t->min_most > 0) {
        const double free = spread > 0.0 ? (q2 * x1 - q1 * xq) / spread : x1 / t->run;
        if (free < 0.0) {
            fit.offset = free;
            fit.scale = spread > 0.0 ? (t->run * xq - q1 * x1) / spread : 0.0;
        }
    }
    fit.error = x2 - 2.0 * (fit.scale * xq + fit.offset * x1) + fit.scale * fit.scale * q2 +
                2.0 * fit.scale * fit.offset * q1 + fit.offset * fit.offset * t->run;
    return fit;
}

/* The best line with free scale and offset. Types without minima have one level more below zero
 * than above, so both signs of the scale are tried. */
static line fit_run(const layout *t, const float *x)
{
    float low = 0.0F, high = x[0];
    double x1 = 0.0, x2 = 0.0;
    for (int n = 0; n < t->run; n++) {
        low = fminf(low, x[n]);
        high = fmaxf(high, x[n]);
        x1 += (double)x[n];
        x2 += (double)x[n] * (double)x[n];
    }
    const bool has_min = t->min_most > 0;
    const float range = has_min ? high - low : fmaxf(-low, high), start = has_min ? low : 0.0F;
    if (range < 0x1p-60F) return (line){.offset = (double)start}; /* the square would vanish */
    const int levels = has_min ? t->most : -t->least;
    line best = {.error = HUGE_VAL};
    for (int step = -STEPS; step <= STEPS; step++) {
        const float inverse = ((float)levels + 0.1F * (float)step) / range;
        for (int sign = has_min ? 1 : -1; sign <= 1; sign += 2) {
            const line fit = fit_line(t, x, (float)sign * inverse, start, x1, x2);
            if (fit.error < best.error) best = fit;
        }
    }
    for (int round = 0; round < FIT_ROUNDS && best.scale != 0.0; round++) {
        const line fit = fit_line(t, x, (float)(1.0 / best.scale), (float)best.offset, x1, x2);
        if (!(fit.error < best.error)) break;
        best = fit;
    }
    return best;
}

/* Levels of one run for a given scale and minimum. over: by how much min could be larger. Returns
 * the squared error. */
static double round_run(const layout *t, const float *x, float scale, float min, float *q,
                        double *over)
{
    const float inverse = scale == 0.0F ? 0.0F : 1.0F / scale;
    lanes lane_miss = {0}, lane_error = {0};
    for (int n = 0; n < t->run; n += LANES) {
        const lanes y = load(x + n), level = nearest_levels(t, (y + min) * inverse);
        const lanes miss = (scale * level - min) - y;
        lane_miss += miss;
        lane_error += miss * miss;
        memcpy(q + n, &level, sizeof level);
    }
    *over = sum(lane_miss) / t->run;
    return sum(lane_error);
}

/* Chooses the integers and levels of one run, near its free fit; returns the squared error. */
static double choose_run(const layout *t, const float *x, const line *fit, int64_t run, grid *g)
{
    const double d = (double)g->d, m = (double)g->m;
    const int near = d == 0.0 ? 0 : nearest_int(fit->scale / d, t->scale_least, t->scale_most);
    double best = HUGE_VAL;
    for (int scale = near - 1; scale <= near + 1; scale++) {
        if (scale < t->scale_least || scale > t->scale_most) continue;
        int min = m == 0.0 ? 0 : nearest_int(-fit->offset / m, 0, t->min_most);
        for (int round = 0; round < 2; round++) {
            float q[FOCI_BLOCK];
            double over;
            const double error = round_run(t, x, g->d * (float)scale, g->m * (float)min, q, &over);
            if (error < best) {
                best = error;
                g->scale[run] = scale;
                g->min[run] = min;
                memcpy(g->q + run * t->run, q, (size_t)t->run * sizeof *q);
            }
            const int better = m == 0.0 ? 0 : nearest_int(min + over / m, 0, t->min_most);
            if (better == min) break;
            min = better;
        }
    }
    return best;
}

/* The best d and m for the block's integers. */
static void fit_block(const layout *t, const float *x, grid *g)
{
    double aa = 0.0, ab = 0.0, bb = 0.0, xa = 0.0, xb = 0.0;
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) {
        const int run = n / t->run;
        const double a = g->scale[run] * (double)g->q[n], b = -g->min[run];
        aa += a * a;
        ab += a * b;
        bb += b * b;
        xa += (double)x[n] * a;
        xb += (double)x[n] * b;
    }
    const double det = aa * bb - ab * ab;
    if (det > 0.0) {
        g->d = round_f16((xa * bb - xb * ab) / det, g->exponent);
        g->m = round_f16((xb * aa - xa * ab) / det, g->exponent);
    } else if (aa > 0.0) {
        g->d = round_f16(xa / aa, g->exponent);
    }
}

/* false: d or m is beyond float16. */
static bool search(const layout *t, const float *numbers, grid *best)
{
    const int runs = FOCI_SUPER_BLOCK / t->run;
    float x[FOCI_SUPER_BLOCK];
    line fit[MAX_RUNS];
    double scale = 0.0, min = 0.0;
    grid g = {.exponent = normalise(numbers, FOCI_SUPER_BLOCK, x)};
    for (int64_t run = 0; run < runs; run++) {
        fit[run] = fit_run(t, x + run * t->run);
        if (fabs(fit[run].scale) > fabs(scale)) scale = fit[run].scale;
        min = fmax(min, -fit[run].offset);
    }
    g.d = round_f16(scale / (t->min_most > 0 ? t->scale_most : t->scale_least), g.exponent);
    if (t->min_most > 0) g.m = round_f16(min / t->min_most, g.exponent);
    *best = g;
    double least = HUGE_VAL;
    for (int round = 0; round < BLOCK_ROUNDS; round++) {
        if (!isfinite(g.d) || !isfinite(g.m)) break;
        double error = 0.0;
        for (int64_t run = 0; run < runs; run++)
            error += choose_run(t, x + run * t->run, &fit[run], run, &g);
        if (!(error < least)) break;
        least = error;
        *best = g;
        fit_block(t, x, &g);
    }
    return isfinite(least);
}

/* The packed bits of all elements, least significant first: the mirror of quant_ref.c. */
static void pack_pairs(const uint8_t *q, int shift, uint8_t packed[FOCI_SUPER_BLOCK / 4])
{
    memset(packed, 0, FOCI_SUPER_BLOCK / 4);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++)
        packed[n / 128 * 32 + n % 32] |= (uint8_t)((q[n] >> shift & 3) << n / 32 % 4 * 2);
}

static void pack_bits(const uint8_t *q, int shift, uint8_t packed[FOCI_SUPER_BLOCK / 8])
{
    memset(packed, 0, FOCI_SUPER_BLOCK / 8);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++)
        packed[n % 32] |= (uint8_t)((q[n] >> shift & 1) << n / 32);
}

/* Element n shares a byte with the one `apart` behind it. */
static void pack_nibbles(const uint8_t *q, int apart, uint8_t packed[FOCI_SUPER_BLOCK / 2])
{
    memset(packed, 0, FOCI_SUPER_BLOCK / 2);
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++)
        packed[n / apart / 2 * apart + n % apart] |= (uint8_t)((q[n] & 15) << n / apart % 2 * 4);
}

/* Stored levels begin at 0. */
static void bias_levels(const layout *t, const grid *g, uint8_t q[FOCI_SUPER_BLOCK])
{
    for (int n = 0; n < FOCI_SUPER_BLOCK; n++) q[n] = (uint8_t)((int)g->q[n] - t->least);
}

bool foci_quantize_q2_k(const float *x, void *block)
{
    static const layout t = {16, 0, 3, 0, 15, 15};
    foci_q2_k *b = block;
    grid g;
    uint8_t q[FOCI_SUPER_BLOCK];
    if (!search(&t, x, &g)) return false;
    for (int run = 0; run < 16; run++) b->scales[run] = (uint8_t)(g.scale[run] | g.min[run] << 4);
    bias_levels(&t, &g, q);
    pack_pairs(q, 0, b->q);
    foci_f16_write(b->d, ldexpf(g.d, g.exponent));
    foci_f16_write(b->m, ldexpf(g.m, g.exponent));
    return true;
}

bool foci_quantize_q3_k(const float *x, void *block)
{
    static const layout t = {16, -4, 3, -32, 31, 0};
    foci_q3_k *b = block;
    grid g;
    uint8_t q[FOCI_SUPER_BLOCK];
    if (!search(&t, x, &g)) return false;
    memset(b->scales, 0, sizeof b->scales);
    for (int run = 0; run < 16; run++) {
        const int scale = g.scale[run] + 32;
        b->scales[run % 8] |= (uint8_t)((scale & 15) << run / 8 * 4);
        b->scales[8 + run % 4] |= (uint8_t)(scale >> 4 << run / 4 * 2);
    }
    bias_levels(&t, &g, q);
    pack_pairs(q, 0, b->q);
    pack_bits(q, 2, b->high);
    foci_f16_write(b->d, ldexpf(g.d, g.exponent));
    return true;
}

static void pack_scales(const grid *g, uint8_t scales[12])
{
    for (int run = 0; run < 4; run++) {
        const int scale = g->scale[run + 4], min = g->min[run + 4];
        scales[run] = (uint8_t)(g->scale[run] | scale >> 4 << 6);
        scales[run + 4] = (uint8_t)(g->min[run] | min >> 4 << 6);
        scales[run + 8] = (uint8_t)((scale & 15) | (min & 15) << 4);
    }
}

bool foci_quantize_q4_k(const float *x, void *block)
{
    static const layout t = {32, 0, 15, 0, 63, 63};
    foci_q4_k *b = block;
    grid g;
    uint8_t q[FOCI_SUPER_BLOCK];
    if (!search(&t, x, &g)) return false;
    pack_scales(&g, b->scales);
    bias_levels(&t, &g, q);
    pack_nibbles(q, 32, b->q);
    foci_f16_write(b->d, ldexpf(g.d, g.exponent));
    foci_f16_write(b->m, ldexpf(g.m, g.exponent));
    return true;
}

bool foci_quantize_q5_k(const float *x, void *block)
{
    static const layout t = {32, 0, 31, 0, 63, 63};
    foci_q5_k *b = block;
    grid g;
    uint8_t q[FOCI_SUPER_BLOCK];
    if (!search(&t, x, &g)) return false;
    pack_scales(&g, b->scales);
    bias_levels(&t, &g, q);
    pack_nibbles(q, 32, b->q);
    pack_bits(q, 4, b->high);
    foci_f16_write(b->d, ldexpf(g.d, g.exponent));
    foci_f16_write(b->m, ldexpf(g.m, g.exponent));
    return true;
}

bool foci_quantize_q6_k(const float *x, void *block)
{
    static const layout t = {16, -32, 31, -128, 127, 0};
    foci_q6_k *b = block;
    grid g;
    uint8_t q[FOCI_SUPER_BLOCK];
    if (!search(&t, x, &g)) return false;
    for (int run = 0; run < 16; run++) b->scales[run] = (int8_t)g.scale[run];
    bias_levels(&t, &g, q);
    pack_nibbles(q, 64, b->q);
    pack_pairs(q, 4, b->high);
    foci_f16_write(b->d, ldexpf(g.d, g.exponent));
    return true;
}

/* The levels of iq4_nl nearest to y: one step up for each half between neighbours that y passes. */
static inline lanes nearest_values(lanes y)
{
    lanes value = same((float)foci_iq4_nl_values[0]);
    for (int n = 1; n < 16; n++) {
        const float below = (float)foci_iq4_nl_values[n - 1], above = (float)foci_iq4_nl_values[n];
        value += pick(y > same(0.5F * (below + above)), same(above - below), same(0.0F));
    }
    return value;
}

/* The best scale for the levels nearest to x inverse. gain: by how much it lessens the sum of
 * squares. */
static double fit_values(const float *x, float inverse, double *gain)
{
    lanes lane_vv = {0}, lane_xv = {0};
    for (int n = 0; n < FOCI_BLOCK; n += LANES) {
        const lanes y = load(x + n), value = nearest_values(y * inverse);
        lane_vv += value * value;
        lane_xv += y * value;
    }
    const double vv = sum(lane_vv), xv = sum(lane_xv); /* no level is 0, so vv > 0 */
    *gain = xv * xv / vv;
    return xv / vv;
}

static int nearest_index(float y)
{
    int level = 0;
    for (int n = 1; n < 16; n++)
        level += y > 0.5F * (float)(foci_iq4_nl_values[n - 1] + foci_iq4_nl_values[n]);
    return level;
}

bool foci_quantize_iq4_nl(const float *numbers, void *block)
{
    foci_iq4_nl *b = block;
    float x[FOCI_BLOCK], most = 0.0F;
    double scale = 0.0, best = 0.0, gain;
    const int exponent = normalise(numbers, FOCI_BLOCK, x);
    for (int n = 0; n < FOCI_BLOCK; n++) most = fmaxf(most, fabsf(x[n]));
    for (int step = -STEPS; step <= STEPS && most > 0.0F; step++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            const float inverse = (float)sign * (127.0F + 3.0F * (float)step) / most;
            const double fit = fit_values(x, inverse, &gain);
            if (gain > best) {
                best = gain;
                scale = fit;
            }
        }
    }
    for (int round = 0; round < FIT_ROUNDS && scale != 0.0; round++) {
        const double fit = fit_values(x, (float)(1.0 / scale), &gain);
        if (!(gain > best)) break;
        best = gain;
        scale = fit;
    }
    const float d = round_f16(scale, exponent), inverse = d == 0.0F ? 0.0F : 1.0F / d;
    foci_f16_write(b->d, ldexpf(d, exponent));
    for (int n = 0; n < FOCI_BLOCK / 2; n++)
        b->q[n] = (uint8_t)(nearest_index(x[n] * inverse) |
                            nearest_index(x[n + FOCI_BLOCK / 2] * inverse) << 4);
    return isfinite(d);
}
