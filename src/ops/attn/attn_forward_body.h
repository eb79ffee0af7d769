/* Attention forward, written once for every instruction set.
 *
 * A query row is a (token, head) pair; the heads that share a key head lie next to each other, so
 * that a tile of rows meets each key once. Rows go in strips of STRIP_ROWS, strips in tiles of
 * TILE_ROWS; keys in panels of NR, packed with their values. What a tile does with a run of panels
 * is attend(), of which there are two forms: the including file chooses one. */
#ifndef FOCI_OPS_ATTN_ATTN_FORWARD_BODY_H
#define FOCI_OPS_ATTN_ATTN_FORWARD_BODY_H

#include <math.h>
#include <stdlib.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "ops/attn/attn_hide_body.h"
#include "ops/attn/attn_rows.h"

static strip_bounds bounds_of(const int32_t *lo, const int32_t *hi)
{
    strip_bounds b = {lo[0], lo[0], hi[0], hi[0]};
    for (int r = 1; r < STRIP_ROWS; r++) {
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

/* Zeros behind a row of packed words, or a panel of them, up to the depth that tiles read. */
FOCI_INLINE void pad_depth(const fwd_call *call, float *words, int64_t columns)
{
    if (DEPTH_WORDS == 1) return;
    const int64_t used = words_of(call->a->D) * columns, all = call->q_words * columns;
    if (used < all) memset(words + used, 0, (size_t)(all - used) * sizeof *words);
}

/* Packs keys and values of a panel; NULL: zeros. Returns whether a value is infinite or NaN. */
static bool pack_panel(const fwd_call *call, const char *const k[NR], const char *const v[NR],
                       float *panel)
{
    const focal_attn_args *a = call->a;
    pad_depth(call, panel, NR);
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
    uint32_t *seen;                     /* (tokens, seen_words), where keys are hidden; */
    int32_t *seen_at, *near;            /* (rows), (strips) */
    gate_rows gate;                     /* with a gate */
} fwd_scratch;

/* How an item meets the groups of its sequence. */
typedef enum group_way { WITHOUT_GROUPS, GROUPS_AS_LISTS, GROUPS_BY_HIDING } group_way;

static group_way way_of(const fwd_call *call, const focal_attn_seq *seq)
{
    if (!seq->keys) return WITHOUT_GROUPS;
    return is_hiding(call, seq) ? GROUPS_BY_HIDING : GROUPS_AS_LISTS;
}

/* Lays a thread's memory out from b on for items of `rows` rows; a base of NULL only counts. */
static int64_t lay_out(const fwd_call *call, int64_t rows, group_way way, bump b, fwd_scratch *s)
{
    const int64_t tokens = rows / call->group;
    rows = foci_round_up(rows, TILE_ROWS);
    s->weights = bump_take(&b, WEIGHT_WORDS, sizeof(float));
    s->panels = bump_take(&b, (RUN_PANELS + 1) * call->panel_words, sizeof(float));
    s->q = bump_take(&b, rows * foci_round_up(call->q_words, VL), sizeof(float));
    s->o = bump_take(&b, rows * call->o_stride, sizeof(float));
    s->sum = bump_take(&b, rows * VL, sizeof(float));
    s->neg_max = bump_take(&b, rows, sizeof(float));
    s->fresh = bump_take(&b, rows / STRIP_ROWS, sizeof(uint32_t));
    s->lo = bump_take(&b, rows, sizeof(int32_t));
    s->hi = bump_take(&b, rows, sizeof(int32_t));
    s->bounds = bump_take(&b, rows / STRIP_ROWS, sizeof(strip_bounds));
    s->sink_lo = bump_take(&b, rows, sizeof(int32_t));
    s->sink_hi = bump_take(&b, rows, sizeof(int32_t));
    s->sink_bounds = bump_take(&b, rows / STRIP_ROWS, sizeof(strip_bounds));
    s->tile_q = s->tile_o = s->tile_sum = NULL;
    if (way == GROUPS_AS_LISTS) {
        s->tile_q = bump_take(&b, TILE_ROWS * call->q_words, sizeof(float));
        s->tile_o = bump_take(&b, TILE_ROWS * call->o_stride, sizeof(float));
        s->tile_sum = bump_take(&b, (int64_t)TILE_ROWS * VL, sizeof(float));
    }
    s->seen = NULL;
    s->seen_at = s->near = NULL;
    if (way == GROUPS_BY_HIDING) {
        s->seen = bump_take(&b, tokens * HIDING_WORDS, sizeof(uint32_t));
        s->seen_at = bump_take(&b, rows, sizeof(int32_t));
        s->near = bump_take(&b, rows / STRIP_ROWS, sizeof(int32_t));
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
    const int64_t padded = foci_round_up(rows, STRIP_ROWS);
    const focal_attn_args *a = call->a;
    const int64_t bytes = (int64_t)focal_dtype_bytes(a->dtype), head_bytes = a->D * bytes;
    float *words = s->q;
    for (int32_t n = 0; n < item->tokens; n++) {
        const char *q = q_row_at(call, item, item->first + n);
        claim_lines(out_at(call, item, item->first + n), (int64_t)call->group * a->Dv * bytes);
        for (int32_t h = 0; h < call->group; h++, words += call->q_words, q += head_bytes) {
            pack_row(words, q, a->dtype, a->D);
            pad_depth(call, words, 1);
        }
    }
    memset(s->q + rows * call->q_words, 0,
           (size_t)((padded - rows) * call->q_words) * sizeof(float));
    memset(s->o, 0, (size_t)(padded * call->o_stride) * sizeof(float));
    memset(s->sum, 0, (size_t)(padded * VL) * sizeof(float));
    memset(s->neg_max, 0, (size_t)padded * sizeof(float));
    for (int64_t n = 0; n < padded / STRIP_ROWS; n++) s->fresh[n] = (1U << STRIP_ROWS) - 1U;
}

static row_tile tile_at(const fwd_call *call, const fwd_scratch *s, int64_t row, int64_t padded)
{
    return (row_tile){
        .strips = (int32_t)(foci_min64(padded - row, TILE_ROWS) / STRIP_ROWS),
        .q = s->q + row * call->q_words,
        .o = s->o + row * call->o_stride,
        .sum = s->sum + row * VL,
        .neg_max = s->neg_max + row,
        .fresh = s->fresh + row / STRIP_ROWS,
        .lo = s->lo + row,
        .hi = s->hi + row,
        .bounds = s->bounds + row / STRIP_ROWS,
        .sink_lo = s->sink_lo + row,
        .sink_hi = s->sink_hi + row,
        .sink_bounds = s->sink_bounds + row / STRIP_ROWS,
        .seen = s->seen,
        .seen_at = s->seen ? s->seen_at + row : NULL,
        .near = s->seen ? s->near + row / STRIP_ROWS : NULL,
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
    const int64_t padded = foci_round_up(rows, STRIP_ROWS);
    *least = INT32_MAX;
    *most = 0;
    for (int64_t n = rows; n < padded; n++) {
        lo[n] = lo[rows - 1];
        hi[n] = hi[rows - 1];
    }
    for (int64_t n = 0; n < padded; n += STRIP_ROWS) {
        const strip_bounds strip = bounds_of(lo + n, hi + n);
        bounds[n / STRIP_ROWS] = strip;
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
    const int64_t padded = foci_round_up(rows, STRIP_ROWS);
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
    const int64_t K = call->gate->K, padded = foci_round_up(rows, STRIP_ROWS);
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

/* Every key before the query, less those that it does not see. */
static void attend_hiding(const fwd_call *call, const fwd_item *item, int64_t rows,
                          const fwd_scratch *s)
{
    const focal_attn_seq *seq = &call->a->seqs[item->seq];
    const int64_t padded = foci_round_up(rows, STRIP_ROWS), words = seen_words(seq);
    mark_seen(call, seq, item->g, item->first, item->tokens, s->seen);
    for (int64_t n = 0; n < padded; n++) { /* rows past the last repeat it */
        const int32_t token = (int32_t)(foci_min64(n, rows - 1) / call->group);
        const foci_local local = foci_attn_local(call->a, seq, item->first + token);
        s->lo[n] = 0;
        s->hi[n] = local.hi;
        s->seen_at[n] = (int32_t)(token * words);
        s->near[n / STRIP_ROWS] = local.lo; /* of the strip's last row: they do not descend */
    }
    attend_list(call, item, rows, NULL, 0, s);
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
    return fresh[n / STRIP_ROWS] >> n % STRIP_ROWS & 1U;
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
    const int32_t padded = (int32_t)foci_round_up(rows, STRIP_ROWS), last = rows - 1;
    for (int32_t n = rows; n < padded; n++) { /* rows past the last repeat it */
        copy_row(s->tile_q + n * call->q_words, s->tile_q + last * call->q_words, call->q_words);
        copy_row(s->tile_sum + (int64_t)n * VL, s->tile_sum + (int64_t)last * VL, VL);
        t->neg_max[n] = t->neg_max[last];
        t->lo[n] = 0;
        t->hi[n] = t->hi[last];
        t->query_mask[n] = t->query_mask[last];
    }
    for (int32_t n = 0; n < padded; n += STRIP_ROWS) {
        t->bounds[n / STRIP_ROWS] = bounds_of(t->lo + n, t->hi + n);
        t->fresh[n / STRIP_ROWS] = 0;
    }
    for (int32_t p = 0; queries->has_fresh && p < t->piece_count; p++) {
        const tile_piece *piece = &t->piece[p];
        for (int32_t n = piece->row; n < piece->row + piece->count; n++)
            t->fresh[n / STRIP_ROWS] |= fresh_bit(s->fresh, piece->place + n - piece->row)
                                        << n % STRIP_ROWS;
    }
    t->rows = (row_tile){
        .strips = padded / STRIP_ROWS,
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
                s->fresh[(piece.place + n) / STRIP_ROWS] &= ~(1U << (piece.place + n) % STRIP_ROWS);
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
    const int64_t strips = foci_pieces((int64_t)item->tokens * call->group, STRIP_ROWS);
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
        const bool is_empty = (s->fresh[n / STRIP_ROWS] >> n % STRIP_ROWS & 1U) != 0;
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

/* groups: NULL for a sequence without, or one that hides. */
static void run_item(const fwd_call *call, const fwd_item *item, const fwd_groups *groups,
                     int32_t thread)
{
    const int64_t rows = (int64_t)item->tokens * call->group;
    fwd_scratch s;
    const group_way way = way_of(call, &call->a->seqs[item->seq]);
    (void)lay_out(call, rows, way, (bump){call->scratch + thread * call->scratch_bytes, 0}, &s);
    begin_block(call, item, rows, &s);
    attend_begin();
    if (call->gate)
        attend_gated(call, item, rows, &s);
    else if (way == GROUPS_BY_HIDING)
        attend_hiding(call, item, rows, &s);
    else
        attend_local(call, item, rows, &s);
    if (groups) attend_groups(call, item, groups, &s);
    attend_end();
    finish_block(call, item, rows, &s);
}

static void forward_item(void *arg, int64_t index, int32_t thread)
{
    const fwd_call *call = arg;
    const fwd_item *item = &call->items[index];
    const bool has_lists = way_of(call, &call->a->seqs[item->seq]) == GROUPS_AS_LISTS;
    run_item(call, item, has_lists ? &call->groups[item->seq] : NULL, thread);
}

/* Tokens of an item: enough rows to use a packed key often, few enough to fit the cache and to
 * give every thread its share. A function of the shape alone. */
static int32_t block_tokens(const fwd_call *call, const focal_attn_seq *seq)
{
    if (way_of(call, seq) == GROUPS_AS_LISTS) {
        const int64_t tokens = foci_round_up(foci_pieces(seq->T, GROUP_BLOCKS), 16);
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
                if (seq->S <= SHORT_KEYS && way_of(call, seq) == GROUPS_AS_LISTS)
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
        if (!is_split(a, n) && way_of(call, &a->seqs[n]) == GROUPS_AS_LISTS)
            FOCAL_TRY(pack_groups(call, n));
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
        const focal_attn_seq *seq = &call->a->seqs[item->seq];
        const focal_keys *keys = way_of(call, seq) == GROUPS_AS_LISTS ? seq->keys : NULL;
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
        if (is_split(a, n) || way_of(call, &a->seqs[n]) != GROUPS_AS_LISTS) continue;
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
    bool has_lists = false, is_short = true;
    for (int32_t n = 0; n < a->seq_count; n++) {
        if (is_split(a, n)) continue;
        has_lists |= way_of(call, &a->seqs[n]) == GROUPS_AS_LISTS;
        is_short &= a->seqs[n].S <= SHORT_KEYS;
    }
    const int64_t count = list_items(call, NULL);
    call->items = foci_scratch(call->ctx, (size_t)count, sizeof *call->items);
    if (!call->items) return FOCAL_ENOMEM;
    (void)list_items(call, call->items);
    if (has_lists) return is_short ? run_short(call, count) : run_long(call, count);
    qsort(call->items, (size_t)count, sizeof *call->items, heavier_first);
    foci_parallel(call->ctx, count, forward_item, call);
    return FOCAL_OK;
}

#endif /* FOCI_OPS_ATTN_ATTN_FORWARD_BODY_H */
