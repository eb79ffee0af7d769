/* A tile of query rows against a run of keys, in register tiles of the vocabulary of simd/: scores,
 * weights 2^x straight from the registers, then weights times values.
 *
 * The softmax stays out of the way because the running maximum only moves when a score exceeds it
 * by `margin`, so a row is rescaled a few times in a whole text, and its weights never leave the
 * registers before they are final. (Starting the accumulators at minus the maximum saves an
 * addition and costs accuracy.) */
#ifndef FOCI_OPS_ATTN_ATTN_ATTEND_BODY_H
#define FOCI_OPS_ATTN_ATTN_ATTEND_BODY_H

#include "ops/attn/attn_tile.h"

enum {
    STRIP_ROWS = MR,
    TILE_ROWS = 48,
    RUN_KEYS = 256, /* keys between two passes over values: their weights stay in the caches */
    DEPTH_WORDS = 1,
    GROUP_BLOCKS = 8,       /* of a sequence with groups, */
    GROUP_BLOCK_MAX = 1024, /* each of at most so many tokens */
    HIDING_KEYS = 0,        /* groups are always lists: scores cost more here than gathering */
    HIDING_LEAST = 0
};

/* In powers of two. A weight's exponent is rounded at its own size: up to 4 that costs at most
 * 1e-7 of the weight, at 16 it would be 7e-7. */
static const float margin = 4.0F;

#include "ops/attn/attn_rows.h"

/* Before and behind the attend() calls of an item. */
FOCI_INLINE void attend_begin(void)
{
}

FOCI_INLINE void attend_end(void)
{
}

/* With a gate: (K, NR), behind the values. */
static inline const float *panel_memberships(const fwd_call *call, const key_run *keys,
                                             int32_t panel)
{
    return keys->panels + (panel + 1) * call->panel_words - (int64_t)call->gate->K * NR;
}

/* Scores of one strip and panel: x = s, softcapped and gated, -inf where a row does not see the
 * key. */
FOCI_INLINE void score_tile(const fwd_call *call, const row_tile *rows, int32_t strip,
                            const key_run *keys, int32_t panel, vec x[MR][2], const int nv)
{
    const float cap = call->a->softcap;
    const int32_t first = strip * MR;
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) x[r][0] = x[r][1] = v_zero();
    tile_dot(x, rows->q + first * call->q_words, call->q_words,
             keys->panels + panel * call->panel_words, call->q_words, nv);
    if (cap > 0.0F) {
        for (int r = 0; r < MR; r++) {
            x[r][0] = soft_cap(x[r][0], cap);
            x[r][1] = soft_cap(x[r][1], cap);
        }
    }
    const strip_bounds *bounds = &rows->bounds[strip];
    const int32_t key = keys->begin + panel * NR;
    if (PACK == 1 && __builtin_expect(call->gate != NULL, 0) &&
        gate_is_met(&rows->gate, first, key)) {
        float s[MR * NR];
        tile_store(s, NR, x);
        gate_scores(call->gate, &rows->gate, first, key, panel_memberships(call, keys, panel), s);
        tile_load(x, s, NR);
    }
    const vec hidden = v_set1(-INFINITY);
    if (keys->key_mask) {
        for (int r = 0; r < MR; r++) {
            const uint32_t bits = row_bits(rows, first + r, keys, panel);
            x[r][0] = v_select(bits, x[r][0], hidden);
            x[r][1] = v_select(bits >> VL, x[r][1], hidden);
        }
    } else if (bounds->lo_max > key || bounds->hi_min < key + NR) {
#pragma GCC unroll 12
        for (int r = 0; r < MR; r++) {
            const int32_t lo = rows->lo[first + r], hi = rows->hi[first + r];
            x[r][0] = v_select_interval(key, lo, hi, x[r][0], hidden);
            if (nv > 1) x[r][1] = v_select_interval(key + VL, lo, hi, x[r][1], hidden);
        }
    }
}

/* Where the weights of a strip's sinks go, and before them their scores: MR rows, P_STRIDE apart.
 */
FOCI_INLINE float *sink_slot(float *weights, int32_t strip)
{
    return weights + (int64_t)strip * MR * P_STRIDE + (int64_t)RUN_PANELS * (NR / PACK);
}

/* Rows of a strip that meet their first keys take the largest of these scores as maximum, or the
 * sinks' (NULL: none) where that is larger: most models look at their first token from everywhere,
 * and a maximum that knows of it seldom has to be raised. */
FOCI_INLINE void first_maximum(const row_tile *rows, int32_t strip, vec x[MR][2],
                               const float *sinks, const int nv)
{
    for (int32_t r = 0; r < MR; r++) {
        if ((rows->fresh[strip] >> r & 1U) == 0) continue;
        float most = largest_score(x[r][0], nv > 1 ? x[r][1] : x[r][0]);
        if (sinks) {
            const vec sink = v_load(sinks + (int64_t)r * P_STRIDE);
            most = fmaxf(most, largest_score(sink, sink));
        }
        if (most == -INFINITY) continue;
        rows->neg_max[strip * MR + r] = -most * log2_e;
        rows->fresh[strip] &= ~(1U << r);
    }
}

/* The rare way: rows whose scores exceed the maximum by the margin take a new one, and what they
 * have summed so far follows. The scores are computed again rather than kept: subtracting the
 * rise from what was rounded at its size would lose digits. */
static __attribute__((noinline)) void raise_maximum(const fwd_call *call, const row_tile *rows,
                                                    int32_t strip, const key_run *keys,
                                                    int32_t panel, float *weights)
{
    vec x[MR][2];
    score_tile(call, rows, strip, keys, panel, x, 2);
    for (int32_t r = 0; r < MR; r++) {
        const int32_t row = strip * MR + r;
        const float most = v_reduce_max(v_max(x[r][0], x[r][1]));
        const float rise = most * log2_e + rows->neg_max[row];
        if (!(rise > margin)) continue;
        const float scale = exp2f(-rise);
        rows->neg_max[row] = -most * log2_e;
        for (int n = 0; n < VL; n++) rows->sum[row * VL + n] *= scale;
        for (int64_t d = 0; d < call->o_stride; d++) rows->o[row * call->o_stride + d] *= scale;
        scale_packed(weights + (int64_t)r * P_STRIDE, (int64_t)panel * (NR / PACK), scale);
    }
}

/* x, scores before, becomes log2 of the weights: in powers of two, less the maximum. */
FOCI_INLINE void exponents(const row_tile *rows, int32_t strip, vec x[MR][2], const float *sinks,
                           const int nv)
{
    if (__builtin_expect(rows->fresh[strip] != 0, 0)) first_maximum(rows, strip, x, sinks, nv);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        const vec offset = v_set1(rows->neg_max[strip * MR + r]);
        x[r][0] = v_fma(x[r][0], v_set1(log2_e), offset);
        if (nv > 1) x[r][1] = v_fma(x[r][1], v_set1(log2_e), offset);
    }
}

/* Weights of one strip for one panel from its scores x: weights[r][..] = 2^(s - max), and their
 * sums. */
FOCI_INLINE void soften(const fwd_call *call, const row_tile *rows, int32_t strip,
                        const key_run *keys, int32_t panel, vec x[MR][2], const float *sinks,
                        float *weights, const int nv)
{
    exponents(rows, strip, x, sinks, nv);
    vec most = v_zero();
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) { /* in this order a NaN of one row hides no other row's score */
        most = v_max(x[r][0], most);
        if (nv > 1) most = v_max(x[r][1], most);
    }
    float *strip_weights = weights + (int64_t)strip * MR * P_STRIDE;
    if (__builtin_expect(v_greater(most, v_set1(margin)) != 0, 0)) {
        raise_maximum(call, rows, strip, keys, panel, strip_weights);
        score_tile(call, rows, strip, keys, panel, x, nv);
        exponents(rows, strip, x, sinks, nv);
    }
    float *sum = rows->sum + (int64_t)strip * MR * VL;
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        const vec p0 = v_exp2(x[r][0]);
        const vec p1 = nv > 1 ? v_exp2(x[r][1]) : v_zero();
        v_store(sum + (int64_t)r * VL, v_add(v_load(sum + (int64_t)r * VL), v_add(p0, p1)));
        v_store_packed(strip_weights + (int64_t)r * P_STRIDE + (int64_t)panel * (NR / PACK), p0,
                       p1);
    }
}

FOCI_INLINE void score_panel(const fwd_call *call, const row_tile *rows, int32_t strip,
                             const key_run *keys, int32_t panel, const float *sinks, float *weights,
                             const int nv)
{
    vec x[MR][2];
    score_tile(call, rows, strip, keys, panel, x, nv);
    soften(call, rows, strip, keys, panel, x, sinks, weights, nv);
}

/* The scores of a strip's sinks, into their slot. */
FOCI_INLINE void score_sinks(const fwd_call *call, const row_tile *rows, int32_t strip,
                             const key_run *keys, float *slot)
{
    vec x[MR][2];
    const key_run sinks = sinks_of(keys);
    const row_tile sink_rows = sink_rows_of(rows);
    score_tile(call, &sink_rows, strip, &sinks, RUN_PANELS, x, 1);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) v_store(slot + (int64_t)r * P_STRIDE, x[r][0]);
}

/* Their weights in the place of the scores: last, when a maximum has been raised if at all. */
FOCI_INLINE void soften_sinks(const fwd_call *call, const row_tile *rows, int32_t strip,
                              const key_run *keys, float *weights)
{
    vec x[MR][2];
    const key_run sinks = sinks_of(keys);
    const row_tile sink_rows = sink_rows_of(rows);
    const float *slot = sink_slot(weights, strip);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) x[r][0] = v_load(slot + (int64_t)r * P_STRIDE);
    soften(call, &sink_rows, strip, &sinks, RUN_PANELS, x, NULL, weights, 1);
}

/* acc += weights x values for NR columns of one strip and panel. */
FOCI_INLINE void weigh_panel(const fwd_call *call, const strip_bounds *bounds, const key_run *keys,
                             int32_t panel, const float *strip_weights, int64_t column_panel,
                             float *o, vec acc[MR][2])
{
    const int32_t key = keys->begin + panel * NR;
    const int64_t w0 = foci_max64(bounds->lo_min - key, 0) / PACK;
    const int64_t w1 = words_of(foci_min64(foci_min64(bounds->hi_max, keys->end) - key, NR));
    const float *values = keys->panels + panel * call->panel_words + call->q_words * NR +
                          column_panel * ((int64_t)NR / PACK * NR) + w0 * NR;
    const float *a = strip_weights + (int64_t)panel * (NR / PACK) + w0;
    if (__builtin_expect(keys->has_odd[panel] != 0, 0)) {
        tile_store(o, call->o_stride, acc);
        tile_dot_odd_right(o, call->o_stride, a, P_STRIDE, values, w1 - w0);
        tile_load(acc, o, call->o_stride);
    } else if (call->a->Dv - column_panel * NR > VL) {
        tile_dot(acc, a, P_STRIDE, values, w1 - w0, 2);
    } else {
        tile_dot(acc, a, P_STRIDE, values, w1 - w0, 1);
    }
}

/* o += weights x values for one strip, the panels [from, to) of the run and, unless NULL, the
 * sinks. */
FOCI_INLINE void weigh_values(const fwd_call *call, const row_tile *rows, int32_t strip,
                              const key_run *keys, int32_t from, int32_t to,
                              const strip_bounds *sink_bounds, const float *weights)
{
    float *strip_o = rows->o + (int64_t)strip * MR * call->o_stride;
    const float *strip_weights = weights + (int64_t)strip * MR * P_STRIDE;
    for (int64_t c = 0; c < call->v_panels; c++) {
        float *o = strip_o + c * NR;
        vec acc[MR][2];
        if (rows->is_first) {
#pragma GCC unroll 12
            for (int r = 0; r < MR; r++) acc[r][0] = acc[r][1] = v_zero();
        } else {
            tile_load(acc, o, call->o_stride);
        }
        for (int32_t p = from; p < to; p++)
            weigh_panel(call, &rows->bounds[strip], keys, p, strip_weights, c, o, acc);
        if (sink_bounds) {
            const key_run sinks = sinks_of(keys);
            weigh_panel(call, sink_bounds, &sinks, RUN_PANELS, strip_weights, c, o, acc);
        }
        tile_store(o, call->o_stride, acc);
    }
}

/* One tile of rows against one run of keys. */
static void attend(const fwd_call *call, const row_tile *rows, const key_run *keys, float *weights)
{
    int32_t from[TILE_STRIPS], to[TILE_STRIPS];
    const float
        *sinks[TILE_STRIPS]; /* the strip's slot, where it meets its sinks here, else NULL */
    int32_t first = RUN_PANELS, last = 0;
    for (int32_t s = 0; s < rows->strips; s++) {
        const strip_bounds *bounds = &rows->bounds[s];
        const int64_t lo = foci_max64(bounds->lo_min, keys->begin);
        const int64_t hi = foci_min64(bounds->hi_max, keys->end);
        from[s] = lo < hi ? (int32_t)(lo - keys->begin) / NR : 0;
        to[s] = lo < hi ? (int32_t)foci_pieces(hi - keys->begin, NR) : 0;
        if (from[s] < to[s] && from[s] < first) first = from[s];
        if (to[s] > last) last = to[s];
        sinks[s] = NULL;
        /* Where the window begins: a run before it would not know their maximum. */
        if (keys->sinks == 0 || from[s] >= to[s] || bounds->lo_min < keys->begin ||
            rows->sink_bounds[s].hi_max == 0)
            continue;
        sinks[s] = sink_slot(weights, s);
        score_sinks(call, rows, s, keys, sink_slot(weights, s));
    }
    for (int32_t p = first; p < last; p++) {
        const int32_t half = keys->begin + p * NR + VL;
        for (int32_t s = 0; s < rows->strips; s++) {
            if (p < from[s] || p >= to[s]) continue;
            /* Half a panel is enough where no row of the strip sees the other half. */
            if (keys->end <= half || rows->bounds[s].hi_max <= half)
                score_panel(call, rows, s, keys, p, sinks[s], weights, 1);
            else
                score_panel(call, rows, s, keys, p, sinks[s], weights, 2);
        }
    }
    for (int32_t s = 0; s < rows->strips; s++) {
        if (from[s] >= to[s]) continue;
        if (sinks[s]) soften_sinks(call, rows, s, keys, weights);
        const strip_bounds *sink_bounds = sinks[s] ? &rows->sink_bounds[s] : NULL;
        weigh_values(call, rows, s, keys, from[s], to[s], sink_bounds, weights);
    }
}

#endif /* FOCI_OPS_ATTN_ATTN_ATTEND_BODY_H */
