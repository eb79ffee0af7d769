/* What the forms of attend() and everything around them have in common: tiles of query rows with
 * their running softmax, runs of packed keys, and who sees what. A form (attn_attend_body.h,
 * attn_attend_amx.h) names its STRIP_ROWS and TILE_ROWS, then includes this. */
#ifndef FOCI_OPS_ATTN_ATTN_ROWS_H
#define FOCI_OPS_ATTN_ATTN_ROWS_H

#include <math.h>

#include "ops/attn/attn_gate_body.h"
#include "ops/attn/attn_kernels.h"
#include "ops/attn/attn_tile.h"
#include "ops/attn/attn_view.h"

enum {
    TILE_STRIPS = TILE_ROWS / STRIP_ROWS,
    RUN_PANELS = RUN_KEYS / NR,
    P_STRIDE = (RUN_KEYS + NR) / PACK, /* words of a row of weights; the last panel is the sinks' */
    BLOCK_ROWS = 768,      /* rows of an item without groups: state and queries fit L2 */
    GROUP_BLOCK_MIN = 128, /* tokens of an item with groups */
    PACK_CHUNK = 8,        /* panels a packing item */
    GROUP_WEIGHT = 3,
    SHORT_KEYS = 1024, /* up to so many keys threads pack groups for themselves */
    SPLIT_TOKENS = 16, /* up to so many queries the keys are split instead */
    STREAM_ROWS = 16,  /* up to so many rows keys are then streamed, above they are packed */
    STREAM_HEADS = 4,  /* key heads streamed side by side */
    STREAM_WORDS = STREAM_HEADS * STREAM_ROWS * NR * (VL / 4 + 1), /* their scores and weights */
    WEIGHT_WORDS = TILE_ROWS * P_STRIDE > STREAM_WORDS ? TILE_ROWS *P_STRIDE : STREAM_WORDS
};

static const float log2_e = 1.44269504F;
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
    struct fwd_hiding *hiding; /* one a sequence; NULL: groups are lists in all of them */
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
    const uint32_t *seen;       /* bits of the keys that a query sees, a word a panel of all keys;
                                   NULL: the interval says it */
    const int32_t *seen_at;     /* (TILE_ROWS) a row's first word */
    const int32_t *near; /* (TILE_STRIPS) where the window of all rows of a strip has begun */
    gate_rows gate;      /* with a gate */
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

/* The largest score of a row, and NaN when one is NaN beside nothing but hidden keys: the maximum
 * of two vectors may drop it, and the row would then seem to see none. */
FOCI_INLINE float largest_score(vec a, vec b)
{
    const float most = v_reduce_max(v_max(a, b));
    return most == -INFINITY ? v_reduce_add(v_add(a, b)) : most;
}

#endif /* FOCI_OPS_ATTN_ATTN_ROWS_H */
