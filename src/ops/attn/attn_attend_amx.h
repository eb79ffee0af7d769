/* A tile of query rows against a run of keys, in AMX tiles: the packed panels are their right
 * sides as they lie. A step is two strips against a panel. Its scores go through a buffer in the
 * nearest cache to the vector unit, which makes weights of them while the tiles compute the scores
 * of the next step; then weights times values.
 *
 * As in attn_attend_body.h the running maximum only moves when a score exceeds it by `margin`. */
#ifndef FOCI_OPS_ATTN_ATTN_ATTEND_AMX_H
#define FOCI_OPS_ATTN_ATTN_ATTEND_AMX_H

#include "ops/attn/attn_tile.h"
#include "simd/tiles_amx.h"

enum {
    STRIP_ROWS = FOCI_TILE_ROWS,
    TILE_ROWS = 64,
    RUN_KEYS = 256,                       /* keys between two passes over values */
    DEPTH_WORDS = FOCI_TILE_DEPTH / PACK, /* rows of queries and keys are whole tiles deep */
    PAIR_ROWS = 2 * STRIP_ROWS,
    SOFT_ROWS = 8, /* whose scores of a panel fit the registers */
    /* A block's queries of one group should fill several tiles, because what a tile waits for is
     * the group's panels; the rows of a block fit half of the second cache. */
    GROUP_BLOCKS = 2,      /* of a sequence with groups, */
    GROUP_BLOCK_MAX = 512, /* each of at most so many tokens */
    /* Up to so many keys groups are no lists (attn_hide_body.h): where queries look into a quarter
     * of the groups, and in any case. */
    HIDING_KEYS = 1024,
    HIDING_LEAST = 512
};

/* In powers of two. A larger one would cost accuracy here: the weight of a key that outweighs all
 * others is rounded to bfloat16, unless the maximum is its score and it is 1. */
static const float margin = 4.0F;

#include "ops/attn/attn_rows.h"

/* Tile registers: sums of the strips' first and second 16 columns, then the operands. */
enum { PANEL_BYTES = NR * sizeof(float) /* from row to row */ };

FOCI_INLINE void attend_begin(void)
{
    foci_tiles_begin();
}

FOCI_INLINE void attend_end(void)
{
    foci_tiles_end();
}

/* Scores (PAIR_ROWS, NR) of one or two strips and a panel. */
FOCI_INLINE void score_strips(const fwd_call *call, const row_tile *rows, int32_t strip,
                              const float *panel, float *scores, const int strips)
{
    const int64_t q_bytes = call->q_words * (int64_t)sizeof(float);
    const float *q = rows->q + (int64_t)strip * STRIP_ROWS * call->q_words;
    _tile_zero(0);
    _tile_zero(1);
    if (strips > 1) {
        _tile_zero(2);
        _tile_zero(3);
    }
    for (int64_t w = 0; w < call->q_words; w += DEPTH_WORDS) {
        _tile_loadd(4, q + w, q_bytes);
        _tile_loadd(6, panel + w * NR, PANEL_BYTES);
        _tile_loadd(7, panel + w * NR + VL, PANEL_BYTES);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        if (strips > 1) {
            _tile_loadd(5, q + STRIP_ROWS * call->q_words + w, q_bytes);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
    }
    _tile_stored(0, scores, PANEL_BYTES);
    _tile_stored(1, scores + VL, PANEL_BYTES);
    if (strips > 1) {
        _tile_stored(2, scores + (int64_t)STRIP_ROWS * NR, PANEL_BYTES);
        _tile_stored(3, scores + (int64_t)STRIP_ROWS * NR + VL, PANEL_BYTES);
    }
}

/* The keys of a panel that a row sees. */
FOCI_INLINE uint32_t seen_bits(const row_tile *rows, int32_t row, const key_run *keys,
                               int32_t panel)
{
    return rows->seen[rows->seen_at[row] + keys->begin / NR + panel];
}

/* Softcaps the scores (STRIP_ROWS, NR) of a strip, and hides those that a row does not see behind
 * -inf. In memory: most panels need neither, and what is rare stays out of the registers. */
static __attribute__((noinline)) void limit_scores(const fwd_call *call, const row_tile *rows,
                                                   int32_t strip, const key_run *keys,
                                                   int32_t panel, float *scores)
{
    const float cap = call->a->softcap;
    const int32_t key = keys->begin + panel * NR;
    const vec hidden = v_set1(-INFINITY);
    for (int r = 0; r < STRIP_ROWS; r++, scores += NR) {
        const int32_t row = strip * STRIP_ROWS + r, lo = rows->lo[row], hi = rows->hi[row];
        vec x0 = v_load(scores), x1 = v_load(scores + VL);
        if (cap > 0.0F) {
            x0 = soft_cap(x0, cap);
            x1 = soft_cap(x1, cap);
        }
        if (rows->seen || keys->key_mask) {
            const uint32_t bits =
                rows->seen ? seen_bits(rows, row, keys, panel) : row_bits(rows, row, keys, panel);
            x0 = v_select(bits, x0, hidden);
            x1 = v_select(bits >> VL, x1, hidden);
        } else {
            x0 = v_select_interval(key, lo, hi, x0, hidden);
            x1 = v_select_interval(key + VL, lo, hi, x1, hidden);
        }
        v_store(scores, x0);
        v_store(scores + VL, x1);
    }
}

/* Rows of a strip that meet their first keys take the largest of these scores as maximum. */
static __attribute__((noinline)) void first_maximum(const row_tile *rows, int32_t strip,
                                                    const float *scores)
{
    for (int32_t r = 0; r < STRIP_ROWS; r++, scores += NR) {
        if ((rows->fresh[strip] >> r & 1U) == 0) continue;
        const float most = largest_score(v_load(scores), v_load(scores + VL));
        if (most == -INFINITY) continue;
        rows->neg_max[strip * STRIP_ROWS + r] = -most * log2_e;
        rows->fresh[strip] &= ~(1U << r);
    }
}

/* The rare way: of SOFT_ROWS rows those whose scores exceed the maximum by the margin take a new
 * one, and what they have summed so far follows. */
static __attribute__((noinline)) void raise_maximum(const fwd_call *call, const row_tile *rows,
                                                    int32_t row, int32_t panel, const float *scores,
                                                    float *weights)
{
    for (int32_t r = 0; r < SOFT_ROWS; r++, row++, scores += NR) {
        const float most = v_reduce_max(v_max(v_load(scores), v_load(scores + VL)));
        const float rise = most * log2_e + rows->neg_max[row];
        if (!(rise > margin)) continue;
        const float scale = exp2f(-rise);
        rows->neg_max[row] = -most * log2_e;
        for (int n = 0; n < VL; n++) rows->sum[(int64_t)row * VL + n] *= scale;
        for (int64_t d = 0; d < call->o_stride; d++) rows->o[row * call->o_stride + d] *= scale;
        scale_packed(weights + (int64_t)row * P_STRIDE, (int64_t)panel * (NR / PACK), scale);
    }
}

/* x = log2 of the weights: the scores in powers of two, less the maximum. */
FOCI_INLINE void score_exponents(const float *neg_max, const float *scores, vec x[SOFT_ROWS][2])
{
#pragma GCC unroll 8
    for (int r = 0; r < SOFT_ROWS; r++) {
        const vec offset = v_set1(neg_max[r]);
        x[r][0] = v_fma(v_load(scores + (int64_t)r * NR), v_set1(log2_e), offset);
        x[r][1] = v_fma(v_load(scores + (int64_t)r * NR + VL), v_set1(log2_e), offset);
    }
}

/* Exponents of keys that are not seen become those of weights of 0. */
FOCI_INLINE void hide_exponents(const uint32_t bits[SOFT_ROWS], vec x[SOFT_ROWS][2])
{
    const vec hidden = v_set1(-INFINITY);
#pragma GCC unroll 8
    for (int r = 0; r < SOFT_ROWS; r++) {
        x[r][0] = v_select(bits[r], x[r][0], hidden);
        x[r][1] = v_select(bits[r] >> VL, x[r][1], hidden);
    }
}

static __attribute__((noinline)) void hide_scores(const uint32_t bits[SOFT_ROWS], float *scores)
{
    const vec hidden = v_set1(-INFINITY);
    for (int r = 0; r < SOFT_ROWS; r++, scores += NR) {
        v_store(scores, v_select(bits[r], v_load(scores), hidden));
        v_store(scores + VL, v_select(bits[r] >> VL, v_load(scores + VL), hidden));
    }
}

/* Weights of SOFT_ROWS rows for one panel: weights[r][..] = 2^(s - max), and their sums. bits: NULL
 * where all is seen, or hidden already. */
FOCI_INLINE void soften_rows(const fwd_call *call, const row_tile *rows, int32_t row, int32_t panel,
                             const uint32_t *bits, float *scores, float *weights)
{
    vec x[SOFT_ROWS][2];
    score_exponents(rows->neg_max + row, scores, x);
    if (bits) hide_exponents(bits, x);
    vec most = v_zero();
#pragma GCC unroll 8
    for (int r = 0; r < SOFT_ROWS; r++) /* in this order a NaN of one row hides no other's score */
        most = v_max(x[r][1], v_max(x[r][0], most));
    if (__builtin_expect(v_greater(most, v_set1(margin)) != 0, 0)) {
        if (bits) hide_scores(bits, scores);
        raise_maximum(call, rows, row, panel, scores, weights);
        score_exponents(rows->neg_max + row, scores, x);
    }
    float *sum = rows->sum + (int64_t)row * VL;
    float *to = weights + (int64_t)row * P_STRIDE + (int64_t)panel * (NR / PACK);
#pragma GCC unroll 8
    for (int r = 0; r < SOFT_ROWS; r++) {
        const vec p0 = v_exp2(x[r][0]), p1 = v_exp2(x[r][1]);
        v_store(sum + (int64_t)r * VL, v_add(v_load(sum + (int64_t)r * VL), v_add(p0, p1)));
        v_store_packed(to + (int64_t)r * P_STRIDE, p0, p1);
    }
}

/* The same where keys are hidden. */
FOCI_INLINE void soften_seen(const fwd_call *call, const row_tile *rows, int32_t row,
                             const key_run *keys, int32_t panel, float *scores, float *weights)
{
    uint32_t bits[SOFT_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < SOFT_ROWS; r++) bits[r] = seen_bits(rows, row + r, keys, panel);
    soften_rows(call, rows, row, panel, bits, scores, weights);
}

/* One or two strips and a panel, between their scores and their weights. */
typedef struct soft_step {
    int32_t strip, strips, panel;
} soft_step;

static void soften(const fwd_call *call, const row_tile *rows, const key_run *keys, soft_step step,
                   float *scores, float *weights)
{
    const int32_t key = keys->begin + step.panel * NR;
    for (int32_t s = step.strip; s < step.strip + step.strips; s++) {
        const strip_bounds *bounds = &rows->bounds[s];
        const bool hides = rows->seen && (rows->near[s] > key || bounds->hi_min < key + NR);
        const bool is_fresh = __builtin_expect(rows->fresh[s] != 0, 0);
        if (hides && !is_fresh && call->a->softcap == 0.0F) {
            for (int32_t r = 0; r < STRIP_ROWS; r += SOFT_ROWS, scores += (int64_t)SOFT_ROWS * NR)
                soften_seen(call, rows, s * STRIP_ROWS + r, keys, step.panel, scores, weights);
            continue;
        }
        if (call->a->softcap > 0.0F || keys->key_mask || bounds->lo_max > key ||
            bounds->hi_min < key + NR || hides)
            limit_scores(call, rows, s, keys, step.panel, scores);
        if (is_fresh) first_maximum(rows, s, scores);
        for (int32_t r = 0; r < STRIP_ROWS; r += SOFT_ROWS, scores += (int64_t)SOFT_ROWS * NR)
            soften_rows(call, rows, s * STRIP_ROWS + r, step.panel, NULL, scores, weights);
    }
}

/* The values of NR columns of a panel with zeros in place of infinities and NaNs: a weight of 0
 * must not meet those. */
static void clear_odd(const float *values, float *cleared)
{
    for (int n = 0; n < NR / PACK * NR; n += VL) {
        const __m512i bits = _mm512_castps_si512(v_load(values + n));
        v_store(cleared + n, _mm512_castsi512_ps(
                                 _mm512_maskz_mov_epi16(~v_odd_words(v_load(values + n)), bits)));
    }
}

/* What clear_odd() took away, to the rows of sums whose weight is not 0. */
static void add_odd(const float *values, const float *weights, int64_t weight_stride, int32_t rows,
                    float *sums, int64_t stride)
{
    uint16_t value[NR / PACK * NR * PACK];
    memcpy(value, values, sizeof value);
    for (int n = 0; n < NR / PACK * NR * PACK; n++) {
        if ((value[n] & 0x7F80U) != 0x7F80U) continue;
        const int key = n / (NR * PACK) * PACK + n % PACK, column = n / PACK % NR;
        for (int32_t r = 0; r < rows; r++) {
            uint16_t weight;
            memcpy(&weight, (const char *)(weights + r * weight_stride) + 2 * (int64_t)key,
                   sizeof weight);
            if ((weight & 0x7FFFU) != 0)
                sums[r * stride + column] +=
                    foci_bf16_to_float(weight) * foci_bf16_to_float(value[n]);
        }
    }
}

/* The sums += weights x values of one panel, NR columns. */
FOCI_INLINE void weigh_panel(const float *weights, const float *values, const int strips)
{
    enum { WEIGHT_BYTES = P_STRIDE * sizeof(float) };
    _tile_loadd(4, weights, WEIGHT_BYTES);
    _tile_loadd(6, values, PANEL_BYTES);
    _tile_loadd(7, values + VL, PANEL_BYTES);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (strips > 1) {
        _tile_loadd(5, weights + (int64_t)STRIP_ROWS * P_STRIDE, WEIGHT_BYTES);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
}

/* The panels of a run that one or two strips see: [from, to) and, if so, the sinks'. */
typedef struct seen_panels {
    int32_t from, to;
    bool has_sinks;
} seen_panels;

/* o += weights x values for one or two strips. */
FOCI_INLINE void weigh_values(const fwd_call *call, const row_tile *rows, int32_t strip,
                              const key_run *keys, seen_panels seen, const float *weights,
                              const int strips)
{
    const int64_t first = (int64_t)strip * STRIP_ROWS, o_bytes = call->o_stride * 4;
    const int32_t count = seen.to - seen.from + seen.has_sinks;
    weights += first * P_STRIDE;
    for (int64_t c = 0; c < call->v_panels; c++) {
        float *o = rows->o + first * call->o_stride + c * NR;
        float *second = o + STRIP_ROWS * call->o_stride;
        const float *values =
            keys->panels + call->q_words * NR + c * ((int64_t)NR / PACK * NR); /* of panel 0 */
        if (rows->is_first) {
            _tile_zero(0);
            _tile_zero(1);
            _tile_zero(2);
            _tile_zero(3);
        } else {
            _tile_loadd(0, o, o_bytes);
            _tile_loadd(1, o + VL, o_bytes);
            if (strips > 1) {
                _tile_loadd(2, second, o_bytes);
                _tile_loadd(3, second + VL, o_bytes);
            }
        }
        bool is_odd = false;
        for (int32_t n = 0; n < count; n++) {
            const int32_t p = seen.from + n < seen.to ? seen.from + n : RUN_PANELS;
            const float *from = values + p * call->panel_words;
            if (__builtin_expect(keys->has_odd[p] != 0, 0)) {
                float cleared[NR / PACK * NR];
                clear_odd(from, cleared);
                foci_tiles_see(cleared);
                weigh_panel(weights + (int64_t)p * (NR / PACK), cleared, strips);
                is_odd = true;
            } else {
                weigh_panel(weights + (int64_t)p * (NR / PACK), from, strips);
            }
        }
        _tile_stored(0, o, o_bytes);
        _tile_stored(1, o + VL, o_bytes);
        if (strips > 1) {
            _tile_stored(2, second, o_bytes);
            _tile_stored(3, second + VL, o_bytes);
        }
        for (int32_t n = 0; is_odd && n < count; n++) {
            const int32_t p = seen.from + n < seen.to ? seen.from + n : RUN_PANELS;
            if (keys->has_odd[p])
                add_odd(values + p * call->panel_words, weights + (int64_t)p * (NR / PACK),
                        P_STRIDE, strips * STRIP_ROWS, o, call->o_stride);
        }
    }
}

/* The sinks of one or two strips: with the last keys of their window, whose maximum is a better one
 * to start from. A strip whose window ends elsewhere gets weights of zero. Returns whether there
 * were any. */
static bool soften_sinks(const fwd_call *call, const row_tile *rows, int32_t strip, int32_t strips,
                         const key_run *keys, float *weights)
{
    const key_run sinks = sinks_of(keys);
    const row_tile sink_rows = sink_rows_of(rows);
    bool sees[2] = {false, false};
    for (int32_t s = 0; s < strips; s++) {
        const strip_bounds *bounds = &rows->bounds[strip + s];
        const int64_t lo = foci_max64(bounds->lo_min, keys->begin);
        sees[s] = lo < foci_min64(bounds->hi_max, keys->end) &&
                  bounds->hi_max <= keys->begin + RUN_KEYS &&
                  rows->sink_bounds[strip + s].hi_max > 0;
    }
    if (!sees[0] && !sees[1]) return false;
    for (int32_t s = 0; s < strips; s++) {
        const int32_t first = (strip + s) * STRIP_ROWS;
        if (sees[s]) {
            float scores[STRIP_ROWS * NR];
            score_strips(call, rows, strip + s, keys->panels + RUN_PANELS * call->panel_words,
                         scores, 1);
            soften(call, &sink_rows, &sinks, (soft_step){strip + s, 1, RUN_PANELS}, scores,
                   weights);
            continue;
        }
        for (int64_t r = first; r < first + STRIP_ROWS; r++)
            v_store(weights + r * P_STRIDE + (int64_t)RUN_PANELS * (NR / PACK), v_zero());
    }
    return true;
}

/* The panels that the strips see. */
static seen_panels panels_of(const row_tile *rows, int32_t strip, int32_t strips,
                             const key_run *keys)
{
    seen_panels seen = {RUN_PANELS, 0, false};
    for (int32_t s = strip; s < strip + strips; s++) {
        const int64_t lo = foci_max64(rows->bounds[s].lo_min, keys->begin);
        const int64_t hi = foci_min64(rows->bounds[s].hi_max, keys->end);
        if (lo >= hi) continue;
        const int32_t from = (int32_t)(lo - keys->begin) / NR;
        const int32_t to = (int32_t)foci_pieces(hi - keys->begin, NR);
        if (from < seen.from) seen.from = from;
        if (to > seen.to) seen.to = to;
    }
    return seen;
}

/* One tile of rows against one run of keys. */
static void attend(const fwd_call *call, const row_tile *rows, const key_run *keys, float *weights)
{
    enum { PAIRS = TILE_ROWS / PAIR_ROWS };
    float scores[2][PAIR_ROWS * NR] __attribute__((aligned(64)));
    seen_panels seen[PAIRS];
    soft_step before = {0, 0, 0};
    int32_t first = RUN_PANELS, last = 0, turn = 0;
    for (int32_t s = 0; s < rows->strips; s += 2) {
        seen_panels *pair = &seen[s / 2];
        *pair = panels_of(rows, s, rows->strips - s > 1 ? 2 : 1, keys);
        if (pair->from < first) first = pair->from;
        if (pair->to > last) last = pair->to;
    }
    foci_tiles_see(rows->q);
    for (int32_t p = first; p < last; p++) {
        const float *panel = keys->panels + p * call->panel_words;
        for (int32_t s = 0; s < rows->strips; s += 2) {
            if (p < seen[s / 2].from || p >= seen[s / 2].to) continue;
            const soft_step step = {s, rows->strips - s > 1 ? 2 : 1, p};
            if (step.strips > 1)
                score_strips(call, rows, s, panel, scores[turn], 2);
            else
                score_strips(call, rows, s, panel, scores[turn], 1);
            soften(call, rows, keys, before, scores[1 - turn], weights);
            before = step;
            turn = 1 - turn;
        }
    }
    soften(call, rows, keys, before, scores[1 - turn], weights);
    for (int32_t s = 0; s < rows->strips; s += 2) {
        seen_panels pair = seen[s / 2];
        const int32_t strips = rows->strips - s > 1 ? 2 : 1;
        if (pair.from >= pair.to) continue;
        if (keys->sinks > 0) pair.has_sinks = soften_sinks(call, rows, s, strips, keys, weights);
        foci_tiles_see(weights);
        if (strips > 1)
            weigh_values(call, rows, s, keys, pair, weights, 2);
        else
            weigh_values(call, rows, s, keys, pair, weights, 1);
    }
}

#endif /* FOCI_OPS_ATTN_ATTN_ATTEND_AMX_H */
