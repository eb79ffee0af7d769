/* Attention forward, written once for every instruction set.
 *
 * A query row is a (token, head) pair; the heads that share a key head lie next to each other, so
 * that a tile of rows meets each key once. Rows go in strips of MR, strips in tiles of TILE_ROWS;
 * keys in panels of NR, packed with their values. For a tile and a run of panels: scores by
 * register tiles, weights 2^x straight from the registers, then weights times values.
 *
 * The softmax stays out of the way because the running maximum only moves when a score exceeds it
 * by `margin`, so a row is rescaled a few times in a whole text, and its weights never leave the
 * registers before they are final. (Starting the accumulators at minus the maximum saves an
 * addition and costs accuracy.) */
#ifndef FOCI_OPS_ATTN_ATTN_FORWARD_BODY_H
#define FOCI_OPS_ATTN_ATTN_FORWARD_BODY_H

#include <math.h>
#include <stdlib.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "ops/attn/attn_gate_body.h"
#include "ops/attn/attn_kernels.h"
#include "ops/attn/attn_tile.h"
#include "ops/attn/attn_view.h"

enum {
    TILE_ROWS = 48,
    TILE_STRIPS = TILE_ROWS / MR,
    RUN_KEYS = 256, /* keys between two passes over values: their weights stay in the caches */
    RUN_PANELS = RUN_KEYS / NR,
    P_STRIDE = (RUN_KEYS + NR) / PACK, /* words of a row of weights; the last panel is the sinks' */
    BLOCK_ROWS = 768,      /* rows of an item without groups: state and queries fit L2 */
    GROUP_BLOCK_MIN = 128, /* tokens of an item with groups */
    GROUP_BLOCK_MAX = 1024,
    PACK_CHUNK = 8, /* panels a packing item */
    GROUP_WEIGHT = 3,
    SHORT_KEYS = 1024, /* up to so many keys threads pack groups for themselves */
    SPLIT_TOKENS = 16, /* up to so many queries the keys are split instead */
    STREAM_ROWS = 16,  /* up to so many rows keys are then streamed, above they are packed */
    STREAM_HEADS = 4,  /* key heads streamed side by side */
    STREAM_WORDS = STREAM_HEADS * STREAM_ROWS * NR * (VL / 4 + 1), /* their scores and weights */
    WEIGHT_WORDS = TILE_ROWS * P_STRIDE > STREAM_WORDS ? TILE_ROWS *P_STRIDE : STREAM_WORDS
};

static const float log2_e = 1.44269504F;
/* In powers of two. A weight's exponent is rounded at its own size: up to 4 that costs at most
 * 1e-7 of the weight, at 16 it would be 7e-7. */
static const float margin = 4.0F;

/* What an item needs to know of the call. */
typedef struct fwd_call {
    focal_ctx *ctx;
    const focal_attn_args *a;
    int32_t group;       /* query heads a key head */
    int64_t q_words;     /* words of a query or key row */
    int64_t v_panels;    /* panels of NR columns in a value row */
    int64_t o_stride;    /* floats of an output row: v_panels * NR */
    int64_t panel_words; /* a packed panel: keys, then values, then memberships with a gate */
    const focal_attn_gate *gate; /* of the scores, or NULL */
    const struct q8_stream *q8;  /* how keys in q8_0 are streamed */
    char *scratch;               /* one piece a thread */
    int64_t scratch_bytes;
    struct fwd_item *items;
    struct fwd_groups *groups; /* one a sequence, or one a share; NULL without key sets */
    int32_t groups_count;
    float *lse;       /* (items, lse_rows) of short sequences until all is done, else NULL */
    int64_t lse_rows; /* a multiple of 16: whole lines */
} fwd_call;

/* The interval of list entries that the rows of a strip see. */
typedef struct strip_bounds {
    int32_t lo_min, lo_max, hi_min, hi_max;
} strip_bounds;

/* Up to TILE_ROWS query rows and their running softmax. */
typedef struct row_tile {
    int32_t strips;
    bool is_first;              /* o is not written yet: the first run begins it at zero */
    const float *q;             /* (TILE_ROWS, q_words) */
    float *o;                   /* (TILE_ROWS, o_stride) */
    float *sum;                 /* (TILE_ROWS, VL) the lanes of the sum of weights */
    float *neg_max;             /* (TILE_ROWS) minus the running maximum, 0 while there is none */
    uint32_t *fresh;            /* (TILE_STRIPS) bit r: row r has met no key yet */
    const int32_t *lo, *hi;     /* (TILE_ROWS) the entries a row sees */
    const strip_bounds *bounds; /* (TILE_STRIPS) */
    const int32_t *sink_lo, *sink_hi; /* (TILE_ROWS) of a run with sinks: zeros, and their ends */
    const strip_bounds *sink_bounds;
    const uint64_t *query_mask; /* (TILE_ROWS), shared groups only */
    gate_rows gate;             /* with a gate */
} row_tile;

/* Up to RUN_PANELS packed panels, in list order, and one of sinks behind them. */
typedef struct key_run {
    int32_t begin, end;       /* list entries */
    const float *panels;      /* (.., panel_words) */
    const uint8_t *has_odd;   /* one a panel: values hold an infinity or NaN */
    const uint64_t *key_mask; /* (RUN_KEYS) groups below this one, shared groups only */
    int32_t sinks;            /* at most VL; in panel RUN_PANELS */
} key_run;

/* The sinks as a run whose panel RUN_PANELS begins at key 0, and the rows as they see it. */
FOCI_INLINE key_run sinks_of(const key_run *keys)
{
    return (key_run){-RUN_KEYS, keys->sinks, keys->panels, keys->has_odd, NULL, 0};
}

FOCI_INLINE row_tile sink_rows_of(const row_tile *rows)
{
    row_tile sink_rows = *rows;
    sink_rows.lo = rows->sink_lo;
    sink_rows.hi = rows->sink_hi;
    sink_rows.bounds = rows->sink_bounds;
    return sink_rows;
}

/* Bits of the keys of a panel that a shared set met in a lower group. */
static uint32_t met_bits(uint64_t query_mask, const uint64_t key_mask[NR])
{
    uint32_t met = 0;
    for (int n = 0; n < NR; n++) met |= (uint32_t)((query_mask & key_mask[n]) != 0) << n;
    return met;
}

/* The keys of a panel that a row of a shared set sees: its interval, less what was met before. */
FOCI_INLINE uint32_t row_bits(const row_tile *rows, int32_t row, const key_run *keys, int32_t panel)
{
    const uint32_t bits = interval_bits(keys->begin + panel * NR, rows->lo[row], rows->hi[row]);
    return bits & ~met_bits(rows->query_mask[row], keys->key_mask + (int64_t)panel * NR);
}

/* cap tanh(x / cap). Small arguments by Cephes' odd polynomial, others by 1 - 2 / (1 + e^2z); a
 * few roundings either way. */
static inline vec soft_cap(vec x, float cap)
{
    const vec z = v_mul(x, v_set1(1.0F / cap)), z2 = v_mul(z, z);
    vec small = v_set1(-5.70498873e-3F);
    small = v_fma(small, z2, v_set1(2.06390888e-2F));
    small = v_fma(small, z2, v_set1(-5.37397156e-2F));
    small = v_fma(small, z2, v_set1(1.33314422e-1F));
    small = v_fma(small, z2, v_set1(-3.33332819e-1F));
    small = v_fma(v_mul(small, z2), z, z);
    const vec power = v_exp2(v_min(v_set1(100.0F), v_mul(z, v_set1(2.0F * log2_e))));
    const vec one = v_set1(1.0F);
    const vec large = v_sub(one, v_div(v_set1(2.0F), v_add(one, power)));
    return v_mul(v_set1(cap), v_select(v_greater(v_set1(0.39F), z2), small, large));
}

static void scale_packed(float *words, int64_t count, float scale)
{
    if (PACK == 1) {
        for (int64_t n = 0; n < count; n++) words[n] *= scale;
        return;
    }
    uint16_t *half = (uint16_t *)(void *)words;
    for (int64_t n = 0; n < 2 * count; n++)
        half[n] = foci_bf16_from_float(foci_bf16_to_float(half[n]) * scale);
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

/* The largest score of a row, and NaN when one is NaN beside nothing but hidden keys: the maximum
 * of two vectors may drop it, and the row would then seem to see none. */
FOCI_INLINE float largest_score(vec a, vec b)
{
    const float most = v_reduce_max(v_max(a, b));
    return most == -INFINITY ? v_reduce_add(v_add(a, b)) : most;
}

/* Rows of a strip that meet their first keys take the largest of these scores as maximum. */
FOCI_INLINE void first_maximum(const row_tile *rows, int32_t strip, vec x[MR][2], const int nv)
{
    for (int32_t r = 0; r < MR; r++) {
        if ((rows->fresh[strip] >> r & 1U) == 0) continue;
        const float most = largest_score(x[r][0], nv > 1 ? x[r][1] : x[r][0]);
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

/* x = log2 of the weights: the scores in powers of two, less the maximum. */
FOCI_INLINE void score_exponents(const fwd_call *call, const row_tile *rows, int32_t strip,
                                 const key_run *keys, int32_t panel, vec x[MR][2], const int nv)
{
    score_tile(call, rows, strip, keys, panel, x, nv);
    if (__builtin_expect(rows->fresh[strip] != 0, 0)) first_maximum(rows, strip, x, nv);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        const vec offset = v_set1(rows->neg_max[strip * MR + r]);
        x[r][0] = v_fma(x[r][0], v_set1(log2_e), offset);
        if (nv > 1) x[r][1] = v_fma(x[r][1], v_set1(log2_e), offset);
    }
}

/* Weights of one strip for one panel: weights[r][..] = 2^(s - max), and their sums. */
FOCI_INLINE void score_panel(const fwd_call *call, const row_tile *rows, int32_t strip,
                             const key_run *keys, int32_t panel, float *weights, const int nv)
{
    vec x[MR][2];
    score_exponents(call, rows, strip, keys, panel, x, nv);
    vec most = v_zero();
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) { /* in this order a NaN of one row hides no other row's score */
        most = v_max(x[r][0], most);
        if (nv > 1) most = v_max(x[r][1], most);
    }
    float *strip_weights = weights + (int64_t)strip * MR * P_STRIDE;
    if (__builtin_expect(v_greater(most, v_set1(margin)) != 0, 0)) {
        raise_maximum(call, rows, strip, keys, panel, strip_weights);
        score_exponents(call, rows, strip, keys, panel, x, nv);
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
    int32_t first = RUN_PANELS, last = 0;
    for (int32_t s = 0; s < rows->strips; s++) {
        const strip_bounds *bounds = &rows->bounds[s];
        const int64_t lo = foci_max64(bounds->lo_min, keys->begin);
        const int64_t hi = foci_min64(bounds->hi_max, keys->end);
        from[s] = lo < hi ? (int32_t)(lo - keys->begin) / NR : 0;
        to[s] = lo < hi ? (int32_t)foci_pieces(hi - keys->begin, NR) : 0;
        if (from[s] < to[s] && from[s] < first) first = from[s];
        if (to[s] > last) last = to[s];
    }
    for (int32_t p = first; p < last; p++) {
        const int32_t half = keys->begin + p * NR + VL;
        for (int32_t s = 0; s < rows->strips; s++) {
            if (p < from[s] || p >= to[s]) continue;
            /* Half a panel is enough where no row of the strip sees the other half. */
            if (keys->end <= half || rows->bounds[s].hi_max <= half)
                score_panel(call, rows, s, keys, p, weights, 1);
            else
                score_panel(call, rows, s, keys, p, weights, 2);
        }
    }
    for (int32_t s = 0; s < rows->strips; s++) {
        if (from[s] >= to[s]) continue;
        const strip_bounds *sink_bounds = NULL;
        /* With the last keys of the window: their maximum is a better one to start from. */
        if (keys->sinks > 0 && rows->bounds[s].hi_max <= keys->begin + RUN_KEYS) {
            const key_run sinks = sinks_of(keys);
            const row_tile sink_rows = sink_rows_of(rows);
            sink_bounds = &rows->sink_bounds[s];
            if (sink_bounds->hi_max > 0)
                score_panel(call, &sink_rows, s, &sinks, RUN_PANELS, weights, 1);
            else
                sink_bounds = NULL;
        }
        weigh_values(call, rows, s, keys, from[s], to[s], sink_bounds, weights);
    }
}

static strip_bounds bounds_of(const int32_t *lo, const int32_t *hi)
{
    strip_bounds b = {lo[0], lo[0], hi[0], hi[0]};
    for (int r = 1; r < MR; r++) {
        b.lo_min = lo[r] < b.lo_min ? lo[r] : b.lo_min;
        b.lo_max = lo[r] > b.lo_max ? lo[r] : b.lo_max;
        b.hi_min = hi[r] < b.hi_min ? hi[r] : b.hi_min;
        b.hi_max = hi[r] > b.hi_max ? hi[r] : b.hi_max;
    }
    return b;
}

/* Rows of q8_0 (NULL: none) as rows of the type that words are made of. */
static void expand_rows(const char *const q8[NR], int64_t width, float *words, const char *row[NR])
{
    for (int n = 0; n < NR; n++, words += FOCAL_MAX_HEAD_WIDTH / PACK) {
        row[n] = q8[n] ? (const char *)words : NULL;
        if (q8[n]) expand_q8(words, q8[n], width);
    }
}

/* pack_panel() for rows of q8_0. */
static __attribute__((noinline)) bool pack_q8_panel(const fwd_call *call, const char *const k[NR],
                                                    const char *const v[NR], float *panel)
{
    const focal_dtype dtype = PACK == 2 ? FOCAL_BF16 : FOCAL_F32;
    float words[NR * FOCAL_MAX_HEAD_WIDTH / PACK];
    const char *row[NR];
    expand_rows(k, call->a->D, words, row);
    pack_transposed(panel, row, dtype, call->a->D);
    expand_rows(v, call->a->Dv, words, row);
    return pack_columns(panel + call->q_words * NR, row, NR, dtype, call->a->Dv);
}

/* Packs keys and values of a panel; NULL: zeros. Returns whether a value is infinite or NaN. */
static bool pack_panel(const fwd_call *call, const char *const k[NR], const char *const v[NR],
                       float *panel)
{
    const focal_attn_args *a = call->a;
    if (a->has_q8_keys) return pack_q8_panel(call, k, v, panel);
    pack_transposed(panel, k, a->dtype, a->D);
    return pack_columns(panel + call->q_words * NR, v, NR, a->dtype, a->Dv);
}

/* The distant keys of a sequence, packed group by group, for key heads from first_head on. */
typedef struct fwd_groups {
    const focal_keys *keys;
    float *panels;      /* (panel_count, panel_words) */
    uint8_t *has_odd;   /* (panel_count) */
    uint64_t *key_mask; /* (panel_count, NR), shared groups only */
    int64_t *begin;     /* (heads, K+1) first panel of a group */
    int64_t *packed;    /* (K) panels of each group that are there so far; NULL: all */
    int32_t seq, first_head;
} fwd_groups;

/* Bits of the groups below c. */
static inline uint64_t below(int32_t c)
{
    return ((uint64_t)1 << c) - 1;
}

/* Where the panels of the groups of key head g begin; the last entry is where they end. */
static inline int64_t *group_begin(const fwd_groups *groups, int32_t g)
{
    return groups->begin + (int64_t)(g - groups->first_head) * (groups->keys->K + 1);
}

/* Packs panel p, which is of group c of key head g. */
static void pack_group_panel(const fwd_call *call, const fwd_groups *groups, int32_t g, int32_t c,
                             int64_t p)
{
    const focal_attn_seq *seq = &call->a->seqs[groups->seq];
    const focal_keys *keys = groups->keys;
    const int32_t router = foci_router_of(keys->routers, g);
    const int64_t group = (int64_t)router * keys->K + c;
    const int64_t entry = (p - group_begin(groups, g)[c]) * NR;
    const int64_t left = keys->key_end[group] - keys->key_begin[group] - entry;
    const int32_t count = (int32_t)foci_min64(left, NR);
    const int32_t *row = keys->key_row + router * keys->key_stride + keys->key_begin[group] + entry;
    const foci_rows k_rows = foci_attn_k_rows(call->a, seq, g);
    const foci_rows v_rows = foci_attn_v_rows(call->a, seq, g);
    const char *k[NR] = {0}, *v[NR] = {0};
    for (int32_t n = 0; n < count; n++) {
        k[n] = foci_row(&k_rows, row[n]);
        v[n] = foci_row(&v_rows, row[n]);
    }
    groups->has_odd[p] = pack_panel(call, k, v, groups->panels + p * call->panel_words);
    if (!groups->key_mask) return;
    for (int32_t n = 0; n < NR; n++)
        groups->key_mask[p * NR + n] =
            n < count ? keys->key_mask[router * keys->key_mask_stride + row[n]] & below(c) : 0;
}

/* Packs what is missing of the first `count` panels of group c of key head g. */
static void pack_up_to(const fwd_call *call, const fwd_groups *groups, int32_t g, int32_t c,
                       int64_t count)
{
    for (int64_t *n = &groups->packed[c]; *n < count; ++*n)
        pack_group_panel(call, groups, g, c, group_begin(groups, g)[c] + *n);
}

typedef struct pack_call {
    const fwd_call *call;
    const fwd_groups *groups;
} pack_call;

/* Packs PACK_CHUNK panels of the list of all groups of all key heads. */
static void pack_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const pack_call *pack = arg;
    const fwd_groups *groups = pack->groups;
    const int64_t width = (int64_t)groups->keys->K + 1;
    const int64_t total = groups->begin[(int64_t)pack->call->a->G * width - 1];
    const int64_t last = foci_min64((index + 1) * PACK_CHUNK, total);
    int32_t g = 0, c = 0;
    for (int64_t p = index * PACK_CHUNK; p < last; p++) {
        while (p >= groups->begin[g * width + c + 1]) {
            if (++c < groups->keys->K) continue;
            c = 0;
            g++;
        }
        pack_group_panel(pack->call, groups, g, c, p);
    }
}

static void free_groups(const fwd_call *call)
{
    for (int32_t n = 0; n < call->groups_count; n++) {
        foci_scratch_free(call->ctx, call->groups[n].panels);
        foci_scratch_free(call->ctx, call->groups[n].has_odd);
        foci_scratch_free(call->ctx, call->groups[n].key_mask);
        foci_scratch_free(call->ctx, call->groups[n].begin); /* and packed */
    }
    foci_scratch_free(call->ctx, call->groups);
}

/* How many entries of a group its queries see at most: the last query's, ends do not descend. */
static int32_t group_seen(const focal_keys *keys, int32_t router, int32_t c)
{
    const int32_t *from = keys->query_begin + (int64_t)router * (keys->K + 1) + c;
    return from[1] > from[0] ? keys->query_end[router * keys->query_stride + from[1] - 1] : 0;
}

static int64_t group_panels(const focal_keys *keys, int32_t g, int32_t c)
{
    return foci_pieces(group_seen(keys, foci_router_of(keys->routers, g), c), NR);
}

/* Fills in where the groups of key head g begin, from panel `first` on; returns where they end. */
static int64_t place_groups(const fwd_groups *groups, int32_t g, int64_t first)
{
    int64_t *begin = group_begin(groups, g);
    for (int32_t c = 0; c < groups->keys->K; c++) {
        begin[c] = first;
        first += group_panels(groups->keys, g, c);
    }
    begin[groups->keys->K] = first;
    return first;
}

/* Memory for so many panels and numbers of them. */
static focal_status reserve_groups(const fwd_call *call, fwd_groups *groups, int64_t panels,
                                   int64_t begins, bool has_masks)
{
    const size_t count = (size_t)foci_max64(panels, 1);
    groups->begin = foci_scratch(call->ctx, (size_t)begins, sizeof *groups->begin);
    groups->panels = foci_scratch(call->ctx, count, (size_t)call->panel_words * sizeof(float));
    groups->has_odd = foci_scratch(call->ctx, count, 1);
    if (has_masks) groups->key_mask = foci_scratch(call->ctx, count, NR * sizeof *groups->key_mask);
    const bool is_whole =
        groups->begin && groups->panels && groups->has_odd && (groups->key_mask || !has_masks);
    return is_whole ? FOCAL_OK : FOCAL_ENOMEM;
}

/* Packs a sequence's groups for all key heads. */
static focal_status pack_groups(const fwd_call *call, int32_t n)
{
    const focal_attn_args *a = call->a;
    const focal_keys *keys = a->seqs[n].keys;
    fwd_groups *groups = &call->groups[n];
    groups->seq = n;
    groups->keys = keys;
    int64_t total = 0;
    for (int32_t g = 0; g < a->G; g++)
        for (int32_t c = 0; c < keys->K; c++) total += group_panels(keys, g, c);
    FOCAL_TRY(reserve_groups(call, groups, total, a->G * ((int64_t)keys->K + 1),
                             keys->mode == FOCAL_SHARED));
    total = 0;
    for (int32_t g = 0; g < a->G; g++) total = place_groups(groups, g, total);
    pack_call pack = {call, groups};
    foci_parallel(call->ctx, foci_pieces(total, PACK_CHUNK), pack_item, &pack);
    return FOCAL_OK;
}

/* True for the sequences whose few queries have their keys split (attn_decode_body.h). Shared
 * groups need masks that only its streaming looks at, so their heads must fit that. Gates are for
 * training, which has many queries: the split knows none. */
static bool is_split(const focal_attn_args *a, int32_t n)
{
    const focal_attn_seq *seq = &a->seqs[n];
    const bool is_shared = seq->keys && seq->keys->mode == FOCAL_SHARED;
    return seq->T <= SPLIT_TOKENS && !(is_shared && a->H / a->G > STREAM_ROWS) && !forward_gate(a);
}

/* A block of consecutive queries of one sequence and key head. */
typedef struct fwd_item {
    int32_t seq, g;
    int32_t first, tokens;
    int64_t cost; /* pairs, roughly */
} fwd_item;

/* One thread's memory; the sizes are in block_layout(). */
typedef struct fwd_scratch {
    float *weights;                     /* (TILE_ROWS, P_STRIDE), or of the streamed heads */
    float *panels;                      /* (RUN_PANELS + 1, panel_words) */
    float *q;                           /* (rows, q_words), or of one tile with groups */
    float *o;                           /* (rows, o_stride) */
    float *sum;                         /* (rows, VL) */
    float *neg_max;                     /* (rows) */
    uint32_t *fresh;                    /* (strips) */
    int32_t *lo, *hi;                   /* (rows) */
    int32_t *sink_lo, *sink_hi;         /* (rows) */
    strip_bounds *bounds, *sink_bounds; /* (strips) */
    float *tile_q, *tile_o, *tile_sum;  /* one gathered tile, with groups */
    gate_rows gate;                     /* with a gate */
} fwd_scratch;

/* Lays a thread's memory out from b on for items of `rows` rows; a base of NULL only counts. */
static int64_t lay_out(const fwd_call *call, int64_t rows, bool has_groups, bump b, fwd_scratch *s)
{
    rows = foci_round_up(rows, TILE_ROWS);
    s->weights = bump_take(&b, WEIGHT_WORDS, sizeof(float));
    s->panels = bump_take(&b, (RUN_PANELS + 1) * call->panel_words, sizeof(float));
    s->q = bump_take(&b, rows * foci_round_up(call->q_words, VL), sizeof(float));
    s->o = bump_take(&b, rows * call->o_stride, sizeof(float));
    s->sum = bump_take(&b, rows * VL, sizeof(float));
    s->neg_max = bump_take(&b, rows, sizeof(float));
    s->fresh = bump_take(&b, rows / MR, sizeof(uint32_t));
    s->lo = bump_take(&b, rows, sizeof(int32_t));
    s->hi = bump_take(&b, rows, sizeof(int32_t));
    s->bounds = bump_take(&b, rows / MR, sizeof(strip_bounds));
    s->sink_lo = bump_take(&b, rows, sizeof(int32_t));
    s->sink_hi = bump_take(&b, rows, sizeof(int32_t));
    s->sink_bounds = bump_take(&b, rows / MR, sizeof(strip_bounds));
    s->tile_q = s->tile_o = s->tile_sum = NULL;
    if (has_groups) {
        s->tile_q = bump_take(&b, TILE_ROWS * call->q_words, sizeof(float));
        s->tile_o = bump_take(&b, TILE_ROWS * call->o_stride, sizeof(float));
        s->tile_sum = bump_take(&b, (int64_t)TILE_ROWS * VL, sizeof(float));
    }
    s->gate = (gate_rows){0};
    if (call->gate) {
        s->gate.gq = bump_take(&b, rows * call->gate->K, sizeof(float));
        s->gate.lo = bump_take(&b, rows, sizeof(int32_t));
        s->gate.hi = bump_take(&b, rows, sizeof(int32_t));
    }
    return b.used;
}

static const char *q_row_at(const fwd_call *call, const fwd_item *item, int32_t token)
{
    const focal_attn_args *a = call->a;
    const focal_attn_seq *seq = &a->seqs[item->seq];
    const int64_t head = seq->q_head + (int64_t)item->g * call->group;
    const int64_t at = (seq->q_row + token) * a->q_stride + head * a->D;
    return (const char *)a->q + at * (int64_t)focal_dtype_bytes(a->dtype);
}

static char *out_at(const fwd_call *call, const fwd_item *item, int32_t token)
{
    const focal_attn_args *a = call->a;
    const focal_attn_seq *seq = &a->seqs[item->seq];
    const int64_t head = seq->q_head + (int64_t)item->g * call->group;
    const int64_t at = (seq->q_row + token) * a->out_stride + head * a->Dv;
    return (char *)a->out + at * (int64_t)focal_dtype_bytes(a->dtype);
}

/* Asks for lines that will be written: another core may have written them last, and stores wait for
 * each other. */
FOCI_INLINE void claim_lines(const void *at, int64_t bytes)
{
    for (int64_t n = 0; n < bytes; n += 64) __builtin_prefetch((const char *)at + n, 1);
}

/* Queries packed, nothing summed yet. Rows past the last repeat its interval and are zero. */
static void begin_block(const fwd_call *call, const fwd_item *item, int64_t rows,
                        const fwd_scratch *s)
{
    const int64_t padded = foci_round_up(rows, MR);
    const focal_attn_args *a = call->a;
    const int64_t bytes = (int64_t)focal_dtype_bytes(a->dtype), head_bytes = a->D * bytes;
    float *words = s->q;
    for (int32_t n = 0; n < item->tokens; n++) {
        const char *q = q_row_at(call, item, item->first + n);
        claim_lines(out_at(call, item, item->first + n), (int64_t)call->group * a->Dv * bytes);
        for (int32_t h = 0; h < call->group; h++, words += call->q_words, q += head_bytes)
            pack_row(words, q, a->dtype, a->D);
    }
    memset(s->q + rows * call->q_words, 0,
           (size_t)((padded - rows) * call->q_words) * sizeof(float));
    memset(s->o, 0, (size_t)(padded * call->o_stride) * sizeof(float));
    memset(s->sum, 0, (size_t)(padded * VL) * sizeof(float));
    memset(s->neg_max, 0, (size_t)padded * sizeof(float));
    for (int64_t n = 0; n < padded / MR; n++) s->fresh[n] = (1U << MR) - 1U;
}

static row_tile tile_at(const fwd_call *call, const fwd_scratch *s, int64_t row, int64_t padded)
{
    return (row_tile){
        .strips = (int32_t)(foci_min64(padded - row, TILE_ROWS) / MR),
        .q = s->q + row * call->q_words,
        .o = s->o + row * call->o_stride,
        .sum = s->sum + row * VL,
        .neg_max = s->neg_max + row,
        .fresh = s->fresh + row / MR,
        .lo = s->lo + row,
        .hi = s->hi + row,
        .bounds = s->bounds + row / MR,
        .sink_lo = s->sink_lo + row,
        .sink_hi = s->sink_hi + row,
        .sink_bounds = s->sink_bounds + row / MR,
        .gate = call->gate ? (gate_rows){s->gate.gq + row * call->gate->K, s->gate.lo + row,
                                         s->gate.hi + row}
                           : (gate_rows){0},
    };
}

/* Bounds of the strips of a block; rows past the last repeat its interval. Returns the interval
 * that holds all of them, empty with lo > hi. */
static void bound_strips(int64_t rows, int32_t *lo, int32_t *hi, strip_bounds *bounds,
                         int64_t *least, int64_t *most)
{
    const int64_t padded = foci_round_up(rows, MR);
    *least = INT32_MAX;
    *most = 0;
    for (int64_t n = rows; n < padded; n++) {
        lo[n] = lo[rows - 1];
        hi[n] = hi[rows - 1];
    }
    for (int64_t n = 0; n < padded; n += MR) {
        const strip_bounds strip = bounds_of(lo + n, hi + n);
        bounds[n / MR] = strip;
        if (strip.hi_max <= strip.lo_min) continue;
        *least = foci_min64(*least, strip.lo_min);
        *most = foci_max64(*most, strip.hi_max);
    }
}

/* Packs the keys [from, to) of a list (NULL: positions) as the panel that begins at `key`; the
 * others of its NR are zero. */
static bool pack_list(const fwd_call *call, const fwd_item *item, const int32_t *list, int64_t key,
                      int64_t from, int64_t to, float *panel)
{
    const focal_attn_seq *seq = &call->a->seqs[item->seq];
    const foci_rows k_rows = foci_attn_k_rows(call->a, seq, item->g);
    const foci_rows v_rows = foci_attn_v_rows(call->a, seq, item->g);
    const int32_t router = seq->keys ? foci_router_of(seq->keys->routers, item->g) : 0;
    const char *k[NR] = {0}, *v[NR] = {0};
    for (int64_t j = from; j < to; j++) {
        const int64_t row = list ? list[j] : foci_position_row(seq->keys, router, j);
        k[j - key] = foci_row(&k_rows, row);
        v[j - key] = foci_row(&v_rows, row);
    }
    if (call->gate) /* no key set, so entries are positions */
        gate_pack_keys(call->gate, seq, item->g, key, from, to,
                       panel + call->panel_words - (int64_t)call->gate->K * NR);
    return pack_panel(call, k, v, panel);
}

/* The block against a list of keys (NULL: positions): each row sees [lo, hi) as they stand in s
 * and, where sinks > 0, also those before its sink_hi. Keys are packed as they are met; runs begin
 * at multiples of RUN_KEYS, so that the sums do not depend on the block. */
static void attend_list(const fwd_call *call, const fwd_item *item, int64_t rows,
                        const int32_t *list, int32_t sinks, const fwd_scratch *s)
{
    const int64_t padded = foci_round_up(rows, MR);
    uint8_t has_odd[RUN_PANELS + 1] = {0};
    int64_t lo, hi;
    if (sinks > 0) {
        bound_strips(rows, s->sink_lo, s->sink_hi, s->sink_bounds, &lo, &hi);
        has_odd[RUN_PANELS] =
            pack_list(call, item, NULL, 0, 0, sinks, s->panels + RUN_PANELS * call->panel_words);
    }
    bound_strips(rows, s->lo, s->hi, s->bounds, &lo, &hi);
    for (int64_t begin = lo / RUN_KEYS * RUN_KEYS; begin < hi; begin += RUN_KEYS) {
        const int64_t end = foci_min64(begin + RUN_KEYS, hi);
        const int64_t skip = foci_max64(lo - begin, 0) / NR; /* panels nobody sees */
        for (int64_t p = skip; begin + p * NR < end; p++) {
            const int64_t key = begin + p * NR;
            has_odd[p] = pack_list(call, item, list, key, foci_max64(key, lo),
                                   foci_min64(key + NR, end), s->panels + p * call->panel_words);
        }
        const key_run keys = {(int32_t)begin, (int32_t)end, s->panels, has_odd, NULL, sinks};
        for (int64_t row = 0; row < padded; row += TILE_ROWS) {
            const row_tile tile = tile_at(call, s, row, padded);
            attend(call, &tile, &keys, s->weights);
        }
    }
}

/* Every key before the query, the distant ones through the gate. */
static void attend_gated(const fwd_call *call, const fwd_item *item, int64_t rows,
                         const fwd_scratch *s)
{
    const focal_attn_seq *seq = &call->a->seqs[item->seq];
    const int64_t K = call->gate->K, padded = foci_round_up(rows, MR);
    for (int64_t n = 0; n < padded; n++) { /* rows past the last repeat it */
        const int32_t token = item->first + (int32_t)(foci_min64(n, rows - 1) / call->group);
        const foci_local local = foci_attn_local(call->a, seq, token);
        s->lo[n] = 0;
        s->hi[n] = local.hi;
        s->gate.lo[n] = local.sink_hi;
        s->gate.hi[n] = local.lo;
        memcpy(s->gate.gq + n * K, gate_query(call->gate, seq->q_row + token, item->g),
               (size_t)K * sizeof(float));
    }
    attend_list(call, item, rows, NULL, 0, s);
}

/* The window, or every key before the query, and the sinks before it: in one pass when they fit the
 * half panel it keeps for them, else after it. */
static void attend_local(const fwd_call *call, const fwd_item *item, int64_t rows,
                         const fwd_scratch *s)
{
    const focal_attn_seq *seq = &call->a->seqs[item->seq];
    int32_t sinks = 0;
    int64_t n = 0;
    for (int32_t token = 0; token < item->tokens; token++) {
        const foci_local local = foci_attn_local(call->a, seq, item->first + token);
        for (int32_t head = 0; head < call->group; head++, n++) {
            s->lo[n] = local.lo;
            s->hi[n] = local.hi;
            s->sink_lo[n] = 0;
            s->sink_hi[n] = local.sink_hi;
        }
        if (local.sink_hi > sinks) sinks = local.sink_hi;
    }
    attend_list(call, item, rows, NULL, sinks <= VL ? sinks : 0, s);
    if (sinks <= VL) return;
    memcpy(s->lo, s->sink_lo, (size_t)rows * sizeof *s->lo);
    memcpy(s->hi, s->sink_hi, (size_t)rows * sizeof *s->hi);
    attend_list(call, item, rows, NULL, 0, s);
}

/* The first n in [from, to) with query[n] >= token. */
static int32_t first_query(const int32_t *query, int32_t from, int32_t to, int32_t token)
{
    while (from < to) {
        const int32_t mid = from + (to - from) / 2;
        if (query[mid] < token)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* A row of floats to another place; inlined, for a call would cost more than the copy. */
FOCI_INLINE void copy_row(float *to, const float *from, int64_t count)
{
    int64_t n = 0;
    for (; n + VL <= count; n += VL) v_store(to + n, v_load(from + n));
    if (n < count) v_store_some(to + n, v_load_some(from + n, count - n), count - n);
}

/* The same for rows of o, whose width is whole vectors: o += from, and o *= scale. */
FOCI_INLINE void add_row(float *o, const float *from, int64_t count)
{
    for (int64_t n = 0; n < count; n += VL) v_store(o + n, v_add(v_load(o + n), v_load(from + n)));
}

static void scale_row(float *o, int64_t count, float scale)
{
    for (int64_t n = 0; n < count; n += VL) v_store(o + n, v_mul(v_load(o + n), v_set1(scale)));
}

/* Rows of a gathered tile that lie together in the block too: heads of one query. */
typedef struct tile_piece {
    int32_t row, place, count; /* in the tile, in the block */
} tile_piece;

/* The bit that row `n` of a block or tile has met no key yet. */
static inline uint32_t fresh_bit(const uint32_t *fresh, int64_t n)
{
    return fresh[n / MR] >> n % MR & 1U;
}

/* One tile of the rows that look into group c. */
typedef struct group_tile {
    row_tile rows;
    int32_t row_count, piece_count;
    tile_piece piece[TILE_ROWS];
    float neg_max[TILE_ROWS];
    int32_t lo[TILE_ROWS], hi[TILE_ROWS];
    uint32_t fresh[TILE_STRIPS];
    uint64_t query_mask[TILE_ROWS];
    strip_bounds bounds[TILE_STRIPS];
} group_tile;

/* Queries of a block that look into one group, and how far. */
typedef struct group_queries {
    int32_t c;
    bool has_fresh;             /* some row of the block has met no key yet */
    const int32_t *query, *end; /* (rows / group) */
    const uint64_t *mask;       /* of all queries, shared groups only */
} group_queries;

/* Gathers `rows` rows, from first_row on of those that the queries have. */
static void gather_tile(const fwd_call *call, const fwd_item *item, const group_queries *queries,
                        int64_t first_row, int32_t rows, const fwd_scratch *s, group_tile *t)
{
    int64_t entry = first_row / call->group;
    int32_t head = (int32_t)(first_row % call->group);
    t->row_count = rows;
    t->piece_count = 0;
    for (int32_t row = 0, count; row < rows; row += count, entry++, head = 0) {
        count = (int32_t)foci_min64(call->group - head, rows - row);
        const int64_t place = (int64_t)(queries->query[entry] - item->first) * call->group + head;
        t->piece[t->piece_count++] = (tile_piece){row, (int32_t)place, count};
        copy_row(s->tile_q + row * call->q_words, s->q + place * call->q_words,
                 count * call->q_words);
        copy_row(s->tile_sum + (int64_t)row * VL, s->sum + place * VL, (int64_t)count * VL);
        for (int32_t n = 0; n < count; n++) {
            t->neg_max[row + n] = s->neg_max[place + n];
            t->lo[row + n] = 0;
            t->hi[row + n] = queries->end[entry];
            if (queries->mask) t->query_mask[row + n] = queries->mask[queries->query[entry]];
        }
    }
    const int32_t padded = (int32_t)foci_round_up(rows, MR), last = rows - 1;
    for (int32_t n = rows; n < padded; n++) { /* rows past the last repeat it */
        copy_row(s->tile_q + n * call->q_words, s->tile_q + last * call->q_words, call->q_words);
        copy_row(s->tile_sum + (int64_t)n * VL, s->tile_sum + (int64_t)last * VL, VL);
        t->neg_max[n] = t->neg_max[last];
        t->lo[n] = 0;
        t->hi[n] = t->hi[last];
        t->query_mask[n] = t->query_mask[last];
    }
    for (int32_t n = 0; n < padded; n += MR) {
        t->bounds[n / MR] = bounds_of(t->lo + n, t->hi + n);
        t->fresh[n / MR] = 0;
    }
    for (int32_t p = 0; queries->has_fresh && p < t->piece_count; p++) {
        const tile_piece *piece = &t->piece[p];
        for (int32_t n = piece->row; n < piece->row + piece->count; n++)
            t->fresh[n / MR] |= fresh_bit(s->fresh, piece->place + n - piece->row) << n % MR;
    }
    t->rows = (row_tile){
        .strips = padded / MR,
        .is_first = true,
        .q = s->tile_q,
        .o = s->tile_o,
        .sum = s->tile_sum,
        .neg_max = t->neg_max,
        .fresh = t->fresh,
        .lo = t->lo,
        .hi = t->hi,
        .bounds = t->bounds,
        .query_mask = t->query_mask,
    };
}

/* The rows' sums and maxima go back to the block, and what they have met is added to o there. */
static void return_tile(const fwd_call *call, const group_tile *t, bool has_fresh,
                        const fwd_scratch *s)
{
    for (int32_t p = 0; p < t->piece_count; p++) {
        const tile_piece piece = t->piece[p];
        float *o = s->o + piece.place * call->o_stride;
        for (int32_t n = 0; n < piece.count; n++) {
            const int64_t place = piece.place + n;
            const float rise = s->neg_max[place] - t->neg_max[piece.row + n];
            if (__builtin_expect(rise == 0.0F, 1)) continue;
            if (!has_fresh || !fresh_bit(s->fresh, place))
                scale_row(o + n * call->o_stride, call->o_stride, exp2f(-rise));
            s->neg_max[place] = t->neg_max[piece.row + n];
        }
        add_row(o, s->tile_o + piece.row * call->o_stride, piece.count * call->o_stride);
        copy_row(s->sum + (int64_t)piece.place * VL, s->tile_sum + (int64_t)piece.row * VL,
                 (int64_t)piece.count * VL);
        for (int32_t n = 0; has_fresh && n < piece.count; n++)
            if (!fresh_bit(t->fresh, piece.row + n))
                s->fresh[(piece.place + n) / MR] &= ~(1U << (piece.place + n) % MR);
    }
}

/* A tile of rows taken through the keys of a group. Every row sees a key of the first run, so that
 * all of tile_o is written there. */
static void attend_group_tile(const fwd_call *call, const fwd_item *item, const fwd_groups *groups,
                              const group_queries *queries, int64_t first_row, int32_t rows,
                              const fwd_scratch *s)
{
    const int32_t c = queries->c;
    group_tile t;
    gather_tile(call, item, queries, first_row, rows, s, &t);
    const int64_t panel = group_begin(groups, item->g)[c];
    const int32_t end = t.hi[rows - 1]; /* ends do not descend */
    for (int32_t begin = 0; begin < end; begin += RUN_KEYS) {
        const int64_t at = panel + begin / NR;
        const key_run run = {begin,
                             (int32_t)foci_min64(begin + RUN_KEYS, end),
                             groups->panels + at * call->panel_words,
                             groups->has_odd + at,
                             groups->key_mask && c > 0 ? groups->key_mask + at * NR : NULL,
                             0};
        attend(call, &t.rows, &run, s->weights);
        t.rows.is_first = false;
    }
    return_tile(call, &t, queries->has_fresh, s);
}

/* The block's queries through the groups they look into, group after group. */
static void attend_groups(const fwd_call *call, const fwd_item *item, const fwd_groups *groups,
                          const fwd_scratch *s)
{
    const focal_keys *keys = groups->keys;
    const int32_t router = foci_router_of(keys->routers, item->g);
    const int32_t *query = keys->query + router * keys->query_stride;
    const int32_t *query_end = keys->query_end + router * keys->query_stride;
    const int64_t strips = foci_pieces((int64_t)item->tokens * call->group, MR);
    uint32_t fresh = 0;
    for (int64_t n = 0; n < strips; n++) fresh |= s->fresh[n];
    for (int32_t c = 0; c < keys->K; c++) {
        const int32_t *from = keys->query_begin + (int64_t)router * (keys->K + 1) + c;
        int32_t first = first_query(query, from[0], from[1], item->first);
        const int32_t end = first_query(query, first, from[1], item->first + item->tokens);
        while (first < end && query_end[first] == 0) first++; /* ends do not descend */
        const group_queries queries = {
            c, fresh != 0, query + first, query_end + first,
            groups->key_mask ? keys->query_mask + (int64_t)router * keys->T : NULL};
        const int64_t rows = (int64_t)(end - first) * call->group;
        if (groups->packed && first < end)
            pack_up_to(call, groups, item->g, c, foci_pieces(query_end[end - 1], NR));
        for (int64_t row = 0; row < rows; row += TILE_ROWS)
            attend_group_tile(call, item, groups, &queries, row,
                              (int32_t)foci_min64(rows - row, TILE_ROWS), s);
    }
}

/* A row of o times scale as a row of the output. (The vectors of o reach past its width.) */
FOCI_INLINE void store_scaled(char *row, focal_dtype dtype, const float *o, vec scale,
                              int64_t width)
{
    for (int64_t d = 0; d < width; d += VL) {
        const vec x = v_mul(v_load(o + d), scale);
        if (width - d < VL) {
            float rest[VL];
            v_store(rest, x);
            store_row(row + d * (int64_t)focal_dtype_bytes(dtype), dtype, rest, width - d);
        } else if (dtype == FOCAL_F32) {
            v_store((float *)(void *)row + d, x);
        } else {
            v_store_bf16((uint16_t *)(void *)row + d, x);
        }
    }
}

/* Where an item's first token has its lse, or NULL. */
static float *lse_of(const fwd_call *call, const fwd_item *item)
{
    const focal_attn_args *a = call->a;
    if (!a->lse) return NULL;
    if (call->lse) return call->lse + (item - call->items) * call->lse_rows;
    return a->lse + (a->seqs[item->seq].q_row + item->first) * a->H +
           (int64_t)item->g * call->group;
}

/* out = o / sum, lse = max + log sum. */
static void finish_block(const fwd_call *call, const fwd_item *item, int64_t rows,
                         const fwd_scratch *s)
{
    const focal_attn_args *a = call->a;
    const int64_t bytes = (int64_t)focal_dtype_bytes(a->dtype);
    const int64_t first_head = a->seqs[item->seq].q_head + (int64_t)item->g * call->group;
    int64_t q_row = a->seqs[item->seq].q_row + item->first;
    float *lse = lse_of(call, item);
    for (int64_t n = 0, head = 0; n < rows; n++) {
        const int64_t h = first_head + head;
        const float sum = v_reduce_add(v_load(s->sum + n * VL));
        const bool is_empty = (s->fresh[n / MR] >> n % MR & 1U) != 0;
        store_scaled((char *)a->out + (q_row * a->out_stride + h * a->Dv) * bytes, a->dtype,
                     s->o + n * call->o_stride, v_set1(is_empty ? 0.0F : 1.0F / sum), a->Dv);
        if (lse)
            lse[head] =
                is_empty ? -INFINITY
                         : (float)(((double)log2f(sum) - (double)s->neg_max[n]) / (double)log2_e);
        if (++head < call->group) continue;
        head = 0;
        q_row++;
        if (lse) lse += call->lse ? call->group : a->H;
    }
}

/* groups: NULL for a sequence without. */
static void run_item(const fwd_call *call, const fwd_item *item, const fwd_groups *groups,
                     int32_t thread)
{
    const int64_t rows = (int64_t)item->tokens * call->group;
    fwd_scratch s;
    (void)lay_out(call, rows, groups != NULL,
                  (bump){call->scratch + thread * call->scratch_bytes, 0}, &s);
    begin_block(call, item, rows, &s);
    if (call->gate)
        attend_gated(call, item, rows, &s);
    else
        attend_local(call, item, rows, &s);
    if (groups) attend_groups(call, item, groups, &s);
    finish_block(call, item, rows, &s);
}

static void forward_item(void *arg, int64_t index, int32_t thread)
{
    const fwd_call *call = arg;
    const fwd_item *item = &call->items[index];
    const bool has_groups = call->a->seqs[item->seq].keys != NULL;
    run_item(call, item, has_groups ? &call->groups[item->seq] : NULL, thread);
}

/* Tokens of an item: enough rows to use a packed key often, few enough to fit the cache and to
 * give every thread its share. A function of the shape alone. */
static int32_t block_tokens(const fwd_call *call, const focal_attn_seq *seq)
{
    if (seq->keys) {
        const int64_t tokens = foci_round_up(foci_pieces(seq->T, 8), 16);
        const int64_t most = foci_max64(GROUP_BLOCK_MAX * 3 / call->group, 16);
        return (int32_t)foci_min64(foci_max64(tokens, GROUP_BLOCK_MIN), most);
    }
    const int64_t row_words = call->q_words + call->o_stride;
    const int64_t rows = foci_min64(BLOCK_ROWS, foci_max64(98304 / row_words, TILE_ROWS));
    return (int32_t)foci_max64(rows / call->group, 1);
}

static int heavier_first(const void *a, const void *b)
{
    const fwd_item *x = a, *y = b;
    if (x->cost != y->cost) return x->cost < y->cost ? 1 : -1;
    if (x->seq != y->seq) return x->seq < y->seq ? -1 : 1;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->g < y->g ? -1 : 1;
}

/* Pairs of an item of a short sequence with groups: there threads have fixed shares, and what is
 * seen through groups weighs GROUP_WEIGHT times what is near. */
static int64_t short_cost(const focal_attn_args *a, const focal_attn_seq *seq, const fwd_item *item)
{
    const focal_keys *keys = seq->keys;
    const int32_t router = foci_router_of(keys->routers, item->g);
    const int32_t *looked = keys->query_begin + (int64_t)router * (keys->K + 1);
    const int64_t looks = looked[keys->K] - looked[0];
    int64_t near = 0, far = 0;
    for (int32_t n = item->first; n < item->first + item->tokens; n++) {
        const foci_local local = foci_attn_local(a, seq, n);
        near += local.hi - local.lo + local.sink_hi;
        far += foci_max64(local.lo - local.sink_hi, 0);
    }
    return near + GROUP_WEIGHT * far * looks / ((int64_t)seq->T * keys->K);
}

/* Fills items (or only counts them, items NULL). */
static int64_t list_items(const fwd_call *call, fwd_item *items)
{
    const focal_attn_args *a = call->a;
    int64_t count = 0;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        const int32_t block = block_tokens(call, seq);
        if (is_split(a, n)) continue;
        for (int32_t first = 0; first < seq->T; first += block) {
            for (int32_t g = 0; g < a->G; g++, count++) {
                if (!items) continue;
                const int32_t tokens = (int32_t)foci_min64(block, seq->T - first);
                const foci_local local = foci_attn_local(a, seq, first + tokens - 1);
                items[count] = (fwd_item){n, g, first, tokens, 0};
                /* with groups or a gate the distant part counts too: it grows with the position */
                const bool is_long = seq->keys || call->gate;
                items[count].cost = (int64_t)tokens * (is_long ? local.hi : local.hi - local.lo);
                if (seq->keys && seq->S <= SHORT_KEYS)
                    items[count].cost = short_cost(a, seq, &items[count]);
            }
        }
    }
    return count;
}

static focal_status new_groups(fwd_call *call, int32_t count)
{
    call->groups = foci_scratch(call->ctx, (size_t)count, sizeof *call->groups);
    if (!call->groups) return FOCAL_ENOMEM;
    memset(call->groups, 0, (size_t)count * sizeof *call->groups);
    call->groups_count = count;
    return FOCAL_OK;
}

/* Groups of many keys: packed once, then blocks of queries, the heaviest first. */
static focal_status run_long(fwd_call *call, int64_t count)
{
    const focal_attn_args *a = call->a;
    FOCAL_TRY(new_groups(call, a->seq_count));
    for (int32_t n = 0; n < a->seq_count; n++)
        if (!is_split(a, n) && a->seqs[n].keys) FOCAL_TRY(pack_groups(call, n));
    qsort(call->items, (size_t)count, sizeof *call->items, heavier_first);
    foci_parallel(call->ctx, count, forward_item, call);
    return FOCAL_OK;
}

/* Lists what shares are made of: of one sequence and key head the heaviest block, the lightest, the
 * second heaviest, ..., so that any part of the list weighs about what its length says. The first
 * blocks see no group and come last: whoever is done takes one. Returns how many are before them.
 */
static int64_t order_for_shares(const fwd_item *items, int64_t count, int32_t G, fwd_item *to)
{
    int64_t listed = 0, last = count;
    for (int64_t begin = 0, end; begin < count; begin = end) {
        for (end = begin; end < count && items[end].seq == items[begin].seq;) end++;
        const int64_t blocks = (end - begin) / G; /* by position, so by weight */
        for (int32_t g = 0; g < G; g++) {
            to[--last] = items[begin + g];
            for (int64_t n = 0; n < blocks - 1; n++) {
                const int64_t block = n % 2 == 0 ? blocks - 1 - n / 2 : 1 + n / 2;
                to[listed++] = items[begin + block * G + g];
            }
        }
    }
    return listed;
}

/* Short sequences in parts of about equal weight, one a thread, and single blocks behind them. */
typedef struct fwd_shares {
    const fwd_call *call;
    const int64_t *end; /* (shares) items of the list */
} fwd_shares;

/* A thread packs what it reads, a key head at a time: a panel that one core has written and another
 * reads costs more than a second packing when the two are far apart. */
static void run_share(void *arg, int64_t index, int32_t thread)
{
    const fwd_shares *shares = arg;
    const fwd_call *call = shares->call;
    fwd_groups groups = call->groups[thread];
    uint64_t *key_mask = groups.key_mask;
    groups.seq = -1;
    for (int64_t n = index > 0 ? shares->end[index - 1] : 0; n < shares->end[index]; n++) {
        const fwd_item *item = &call->items[n];
        const focal_keys *keys = call->a->seqs[item->seq].keys;
        if (keys && (groups.seq != item->seq || groups.first_head != item->g)) {
            groups.seq = item->seq;
            groups.first_head = item->g;
            groups.keys = keys;
            groups.key_mask = keys->mode == FOCAL_SHARED ? key_mask : NULL;
            (void)place_groups(&groups, item->g, 0);
            groups.packed = groups.begin + keys->K + 1;
            memset(groups.packed, 0, (size_t)keys->K * sizeof *groups.packed);
        }
        run_item(call, item, keys ? &groups : NULL, thread);
    }
}

/* Memory for the groups of any one key head of the call, for each thread. */
static focal_status reserve_threads(fwd_call *call, int32_t threads)
{
    const focal_attn_args *a = call->a;
    int64_t panels = 0, begins = 1;
    bool has_masks = false;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_keys *keys = a->seqs[n].keys;
        if (!keys || is_split(a, n)) continue;
        begins = foci_max64(begins, 2 * (int64_t)keys->K + 1);
        has_masks |= keys->mode == FOCAL_SHARED;
        for (int32_t g = 0; g < a->G; g++) {
            int64_t total = 0;
            for (int32_t c = 0; c < keys->K; c++) total += group_panels(keys, g, c);
            panels = foci_max64(panels, total);
        }
    }
    FOCAL_TRY(new_groups(call, threads));
    for (int32_t n = 0; n < threads; n++)
        FOCAL_TRY(reserve_groups(call, &call->groups[n], panels, begins, has_masks));
    return FOCAL_OK;
}

/* Cuts the first `count` items into parts where they are nearest to equal weight. */
static void cut_shares(const fwd_item *items, int64_t count, int32_t parts, int64_t *end)
{
    int64_t whole = 0, sum = 0, n = 0;
    for (int64_t at = 0; at < count; at++) whole += items[at].cost;
    for (int32_t part = 0; part < parts; part++) {
        const int64_t wanted = whole * (part + 1) / parts;
        while (n < count && sum + items[n].cost / 2 <= wanted) sum += items[n++].cost;
        end[part] = part == parts - 1 ? count : n;
    }
}

/* The lse of all heads of a token are in one line or two, which the threads would take from each
 * other with every store: so items keep theirs, and in the end each thread places those of the
 * tokens that are its own. */
typedef struct lse_places {
    const fwd_call *call;
    int64_t count; /* of items */
    int32_t parts;
} lse_places;

static void place_lse(void *arg, int64_t part, int32_t thread)
{
    (void)thread;
    const lse_places *places = arg;
    const fwd_call *call = places->call;
    const focal_attn_args *a = call->a;
    for (int64_t n = 0; n < places->count; n++) {
        const fwd_item *item = &call->items[n];
        const focal_attn_seq *seq = &a->seqs[item->seq];
        if (item->first / block_tokens(call, seq) % places->parts != part) continue;
        const float *from = call->lse + n * call->lse_rows;
        float *to = a->lse + (seq->q_row + item->first) * a->H + (int64_t)item->g * call->group;
        for (int32_t t = 0; t < item->tokens; t++, from += call->group, to += a->H)
            memcpy(to, from, (size_t)call->group * sizeof *to);
    }
}

static focal_status reserve_lse(fwd_call *call, int64_t count)
{
    if (!call->a->lse) return FOCAL_OK;
    int64_t tokens = 0;
    for (int64_t n = 0; n < count; n++) tokens = foci_max64(tokens, call->items[n].tokens);
    call->lse_rows = foci_round_up(tokens * call->group, 16);
    call->lse = foci_scratch(call->ctx, (size_t)(count * call->lse_rows), sizeof *call->lse);
    return call->lse ? FOCAL_OK : FOCAL_ENOMEM;
}

static focal_status run_short(fwd_call *call, int64_t count)
{
    const int32_t threads = focal_ctx_threads(call->ctx);
    FOCAL_TRY(reserve_threads(call, threads));
    FOCAL_TRY(reserve_lse(call, count));
    fwd_item *items = foci_scratch(call->ctx, (size_t)count, sizeof *items);
    int64_t *end = foci_scratch(call->ctx, (size_t)(threads + count), sizeof *end);
    const bool has_memory = items && end;
    if (has_memory) {
        const int64_t shared = order_for_shares(call->items, count, call->a->G, items);
        memcpy(call->items, items, (size_t)count * sizeof *items);
        cut_shares(items, shared, threads, end);
        for (int64_t n = shared; n < count; n++) end[threads + n - shared] = n + 1;
        fwd_shares shares = {call, end};
        foci_parallel(call->ctx, threads + count - shared, run_share, &shares);
        lse_places places = {call, count, threads};
        if (call->lse) foci_parallel(call->ctx, threads, place_lse, &places);
    }
    foci_scratch_free(call->ctx, items);
    foci_scratch_free(call->ctx, end);
    foci_scratch_free(call->ctx, call->lse);
    call->lse = NULL;
    return has_memory ? FOCAL_OK : FOCAL_ENOMEM;
}

/* Sequences of more than SPLIT_TOKENS queries: blocks of queries. call->scratch is there. */
static focal_status run_blocks(fwd_call *call)
{
    const focal_attn_args *a = call->a;
    bool has_groups = false, is_short = true;
    for (int32_t n = 0; n < a->seq_count; n++) {
        if (is_split(a, n)) continue;
        has_groups |= a->seqs[n].keys != NULL;
        is_short &= a->seqs[n].S <= SHORT_KEYS;
    }
    const int64_t count = list_items(call, NULL);
    call->items = foci_scratch(call->ctx, (size_t)count, sizeof *call->items);
    if (!call->items) return FOCAL_ENOMEM;
    (void)list_items(call, call->items);
    if (has_groups) return is_short ? run_short(call, count) : run_long(call, count);
    qsort(call->items, (size_t)count, sizeof *call->items, heavier_first);
    foci_parallel(call->ctx, count, forward_item, call);
    return FOCAL_OK;
}

#endif /* FOCI_OPS_ATTN_ATTN_FORWARD_BODY_H */
