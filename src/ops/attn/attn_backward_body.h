/* Attention backward, written once for every instruction set (docs/MATH.md, 1.6 to 1.9).
 *
 * An item owns a block of keys of one key head and walks over the query rows that see it, latest
 * first. Tiles are transposed, keys by queries: the weights come out with lse and delta along the
 * lanes, as the left factor that dv and dk need, so only dq's factor is laid out a second time.
 * Per tile: scores again, weights, their gradient, and three products.
 *
 * dk and dv of a block are sums within one item. dq sums over the blocks: items of a key head add
 * to it in the order of their number, each waiting until the one before has passed that place.
 * So every sum has one order, whatever the threads do, and nothing is stored twice. */
#ifndef FOCI_OPS_ATTN_ATTN_BACKWARD_BODY_H
#define FOCI_OPS_ATTN_ATTN_BACKWARD_BODY_H

#include <stdatomic.h>

#include "ops/attn/attn_forward_body.h"
#include "ops/attn/attn_gate_backward_body.h"

enum {
    PART_LOCAL = -2, /* the window, or all keys before the query */
    PART_SINKS = -1, /* from 0 on: that group */
    NOT_STARTED = INT32_MAX
};

/* A block of list entries of one part. */
typedef struct bwd_item {
    int32_t seq, g, part;
    int32_t begin, end;
    int64_t prev; /* the item of the same sequence and key head before this one, or -1 */
} bwd_item;

typedef struct bwd_call {
    focal_ctx *ctx;
    const focal_attn_args *a;
    const focal_attn_grads *grads;
    int32_t group;
    int64_t k_words, v_words;   /* words of a key and of a value row */
    int64_t k_stride, v_stride; /* floats of a row of sums, a multiple of NR */
    int64_t kt_rows;            /* rows of the transposed keys: D to a multiple of MR */
    float *delta;               /* (q rows, H) dout . out */
    float *dq, *dk, *dv;        /* float32 sums: the outputs themselves, or scratch */
    int64_t dq_stride, dk_stride, dv_stride;
    int64_t first_q, first_k; /* rows of the outputs that dq, dk, dv begin with */
    bwd_item *items;
    atomic_int_least32_t *progress; /* of each item: dq of queries >= progress - 1 is done; 0: all,
                                       and dk and dv too */
    char *scratch;
    int64_t scratch_bytes;
    gate_call gate;
} bwd_call;

/* One thread's memory for an item. */
typedef struct bwd_scratch {
    float *k, *v;        /* (KEY_BLOCK, words) rows, left factors of the scores */
    float *kt;           /* (kt_rows, KEY_BLOCK / PACK) left factor of dq */
    float *dk, *dv;      /* (KEY_BLOCK, stride) sums */
    float *q_t, *dout_t; /* (QUERY_PANELS, words, NR) right factors of the scores */
    float *q_c, *dout_c; /* columns: right factors of dk and dv */
    float *p, *ds;       /* (QUERY_PANELS, SUB_KEYS, NR / PACK) left factors of dv and dk */
    float *ds_c;         /* (QUERY_PANELS, SUB_KEYS / PACK, NR) right factor of dq */
    float *dq_t;         /* (QUERY_PANELS, kt_rows, NR) sums */
    float *columns;      /* one panel of columns on its way to kt */
    uint64_t *key_mask;  /* (KEY_BLOCK) memberships below the group, shared groups only */
    bool has_odd_k;
    gate_block gate;
} bwd_scratch;

/* The query rows of a tile. */
typedef struct query_tile {
    int32_t rows;   /* without padding */
    int32_t lowest; /* token of the first */
    bool has_odd_q, has_odd_dout;
    int64_t place[QUERY_TILE]; /* (token, head) as q_row * H + h */
    int32_t lo[QUERY_TILE], hi[QUERY_TILE];
    float lse[QUERY_TILE], delta[QUERY_TILE];
    uint64_t mask[QUERY_TILE];
    strip_bounds bounds[QUERY_PANELS];
    gate_queries gate;
} query_tile;

/* Memberships are packed as words of one float: other dialects take no gates. */
static inline bool is_gated(const bwd_call *call)
{
    return PACK == 1 && call->gate.gate != NULL;
}

/* The queries of a part, as a list. */
typedef struct part_view {
    const focal_attn_args *a;
    const focal_attn_seq *seq;
    int32_t part;
    int32_t count;        /* queries */
    const int32_t *query; /* of a group; NULL: 0 .. count-1 */
    const int32_t *query_end;
    const int32_t *key_row; /* rows of the part's entries; NULL: the entry itself */
    int32_t router;
} part_view;

static part_view view_part(const focal_attn_args *a, int32_t n, int32_t g, int32_t part)
{
    const focal_attn_seq *seq = &a->seqs[n];
    const focal_keys *keys = seq->keys;
    part_view view = {.a = a, .seq = seq, .part = part, .count = seq->T};
    if (part < 0) return view;
    view.router = foci_router_of(keys->routers, g);
    const int32_t *from = keys->query_begin + (int64_t)view.router * (keys->K + 1) + part;
    view.count = from[1] - from[0];
    view.query = keys->query + view.router * keys->query_stride + from[0];
    view.query_end = keys->query_end + view.router * keys->query_stride + from[0];
    view.key_row = keys->key_row + view.router * keys->key_stride +
                   keys->key_begin[(int64_t)view.router * keys->K + part];
    return view;
}

static int32_t part_token(const part_view *view, int32_t n)
{
    return view->query ? view->query[n] : n;
}

/* The entries [lo, hi) that the part's n-th query sees; both ends do not descend with n. With a
 * gate one part holds every causal key. */
static void part_interval(const part_view *view, int32_t n, int32_t *lo, int32_t *hi)
{
    if (view->query) {
        *lo = 0;
        *hi = view->query_end[n];
        return;
    }
    const foci_local local = foci_attn_local(view->a, view->seq, n);
    *lo = view->part == PART_SINKS || view->a->gate ? 0 : local.lo;
    *hi = view->part == PART_LOCAL ? local.hi : view->a->gate ? 0 : local.sink_hi;
}

/* How many entries the part has. */
static int32_t part_entries(const part_view *view)
{
    int32_t lo = 0, hi = 0;
    if (view->count > 0) part_interval(view, view->count - 1, &lo, &hi);
    return hi;
}

/* The first query of the part with hi > entry (lo >= entry, when `by_lo`); ends do not descend. */
static int32_t part_search(const part_view *view, int32_t entry, bool by_lo)
{
    int32_t from = 0, to = view->count;
    while (from < to) {
        const int32_t mid = from + (to - from) / 2;
        int32_t lo, hi;
        part_interval(view, mid, &lo, &hi);
        if (by_lo ? lo >= entry : hi > entry)
            to = mid;
        else
            from = mid + 1;
    }
    return from;
}

static int64_t lay_out_backward(const bwd_call *call, bump b, bwd_scratch *s)
{
    const size_t f = sizeof(float);
    const int64_t k_panels = call->k_stride / NR, v_panels = call->v_stride / NR;
    s->k = bump_take(&b, KEY_BLOCK * call->k_words, f);
    s->v = bump_take(&b, KEY_BLOCK * call->v_words, f);
    s->kt = bump_take(&b, call->kt_rows * (KEY_BLOCK / PACK), f);
    s->dk = bump_take(&b, KEY_BLOCK * call->k_stride, f);
    s->dv = bump_take(&b, KEY_BLOCK * call->v_stride, f);
    s->q_t = bump_take(&b, QUERY_TILE * call->k_words, f);
    s->dout_t = bump_take(&b, QUERY_TILE * call->v_words, f);
    s->q_c = bump_take(&b, k_panels * (QUERY_TILE / PACK) * NR, f);
    s->dout_c = bump_take(&b, v_panels * (QUERY_TILE / PACK) * NR, f);
    s->p = bump_take(&b, (int64_t)QUERY_PANELS * SUB_KEYS * (NR / PACK), f);
    s->ds = bump_take(&b, (int64_t)QUERY_PANELS * SUB_KEYS * (NR / PACK), f);
    s->ds_c = PACK == 1 ? s->ds : bump_take(&b, (int64_t)QUERY_PANELS * (SUB_KEYS / PACK) * NR, f);
    s->dq_t = bump_take(&b, QUERY_PANELS * call->kt_rows * NR, f);
    s->columns = bump_take(&b, k_panels * (NR / PACK) * NR, f);
    s->key_mask = bump_take(&b, KEY_BLOCK, sizeof(uint64_t));
    s->has_odd_k = false;
    gate_lay_out(&call->gate, &b, &s->gate);
    return b.used;
}

/* Keys of the block in all the orders that the products read. */
static void pack_block(const bwd_call *call, const bwd_item *item, const part_view *view,
                       bwd_scratch *s)
{
    const focal_attn_args *a = call->a;
    const foci_rows k_rows = foci_attn_k_rows(a, view->seq, item->g);
    const foci_rows v_rows = foci_attn_v_rows(a, view->seq, item->g);
    const int32_t count = item->end - item->begin;
    const int32_t padded = (int32_t)foci_round_up(count, SUB_KEYS);
    const int64_t ldk = KEY_BLOCK / PACK;
    const focal_keys *keys = view->seq->keys;
    const char *row[KEY_BLOCK] = {0};
    for (int32_t n = 0; n < count; n++) {
        const int32_t at = view->key_row ? view->key_row[item->begin + n] : item->begin + n;
        row[n] = foci_row(&k_rows, at);
        pack_row(s->k + n * call->k_words, row[n], a->dtype, a->D);
        pack_row(s->v + n * call->v_words, foci_row(&v_rows, at), a->dtype, a->Dv);
        if (view->part >= 0 && keys->mode == FOCAL_SHARED)
            s->key_mask[n] =
                keys->key_mask[view->router * keys->key_mask_stride + at] & below(view->part);
    }
    const size_t missing = (size_t)(padded - count);
    memset(s->k + count * call->k_words, 0, missing * (size_t)call->k_words * sizeof(float));
    memset(s->v + count * call->v_words, 0, missing * (size_t)call->v_words * sizeof(float));
    memset(s->key_mask + count, 0, missing * sizeof *s->key_mask);
    memset(s->dk, 0, (size_t)(padded * call->k_stride) * sizeof(float));
    memset(s->dv, 0, (size_t)(padded * call->v_stride) * sizeof(float));
    memset(s->kt, 0, (size_t)(call->kt_rows * ldk) * sizeof(float));
    s->has_odd_k = false;
    for (int32_t n = 0; n < padded; n += VL * PACK) { /* VL words of keys at a time */
        s->has_odd_k |= pack_columns(s->columns, row + n, (int64_t)VL * PACK, a->dtype, a->D);
        for (int64_t d = 0; d < a->D; d += VL) {
            vec block[VL];
            const float *from = s->columns + d / NR * ((int64_t)VL * NR) + d % NR;
            for (int w = 0; w < VL; w++) block[w] = v_load(from + (int64_t)w * NR);
            v_transpose(block);
            const int64_t rows = foci_min64(a->D - d, VL);
            for (int64_t r = 0; r < rows; r++) v_store(s->kt + (d + r) * ldk + n / PACK, block[r]);
        }
    }
}

/* Rows [first, first + rows) of the part's queries, in all the orders that the products read. */
static void pack_queries(const bwd_call *call, const bwd_item *item, const part_view *view,
                         int64_t first, int32_t rows, const bwd_scratch *s, query_tile *tile)
{
    const focal_attn_args *a = call->a;
    const focal_keys *keys = view->seq->keys;
    const int64_t size = (int64_t)focal_dtype_bytes(a->dtype);
    const char *q[QUERY_TILE] = {0}, *dout[QUERY_TILE] = {0};
    tile->rows = rows;
    tile->lowest = part_token(view, (int32_t)(first / call->group));
    for (int32_t n = 0; n < QUERY_TILE; n++) {
        tile->lo[n] = tile->hi[n] = 0;
        tile->lse[n] = tile->delta[n] = 0.0F;
        tile->mask[n] = 0;
        if (n >= rows) continue;
        const int32_t entry = (int32_t)((first + n) / call->group);
        const int32_t token = part_token(view, entry);
        const int64_t q_row = view->seq->q_row + token;
        const int64_t h = (int64_t)item->g * call->group + (first + n) % call->group;
        part_interval(view, entry, &tile->lo[n], &tile->hi[n]);
        tile->place[n] = q_row * a->H + h;
        tile->lse[n] = a->lse[tile->place[n]];
        tile->delta[n] = call->delta[tile->place[n] - call->first_q * a->H];
        if (view->part >= 0 && keys->mode == FOCAL_SHARED)
            tile->mask[n] = keys->query_mask[(int64_t)view->router * keys->T + token];
        q[n] = (const char *)a->q + (q_row * a->q_stride + h * a->D) * size;
        dout[n] = (const char *)call->grads->dout + (q_row * a->out_stride + h * a->Dv) * size;
    }
    for (int32_t p = 0; p < QUERY_PANELS; p++) {
        strip_bounds *b = &tile->bounds[p];
        *b = (strip_bounds){INT32_MAX, 0, 0, 0};
        const int32_t last = (int32_t)foci_min64(rows, (int64_t)(p + 1) * NR) - 1;
        if (last < p * NR) continue;
        /* Intervals ascend; a panel with padding counts as one whose rows end at once. */
        b->lo_min = tile->lo[(int64_t)p * NR];
        b->lo_max = tile->lo[last];
        b->hi_min = last - p * NR == NR - 1 ? tile->hi[(int64_t)p * NR] : 0;
        b->hi_max = tile->hi[last];
        pack_transposed(s->q_t + p * call->k_words * NR, q + (int64_t)p * NR, a->dtype, a->D);
        pack_transposed(s->dout_t + p * call->v_words * NR, dout + (int64_t)p * NR, a->dtype,
                        a->Dv);
    }
    tile->has_odd_q = pack_columns(s->q_c, q, QUERY_TILE, a->dtype, a->D);
    tile->has_odd_dout = pack_columns(s->dout_c, dout, QUERY_TILE, a->dtype, a->Dv);
    memset(s->dq_t, 0, (size_t)(QUERY_PANELS * call->kt_rows * NR) * sizeof(float));
    if (is_gated(call))
        gate_pack_queries(&call->gate, view->seq, item->g, tile->place, rows, &s->gate,
                          &tile->gate);
}

/* Bits of VL query rows, from row n on, that see the entry. */
static inline uint32_t query_bits(const query_tile *tile, int32_t n, int32_t entry,
                                  uint64_t key_mask)
{
    uint32_t bits = v_inside(entry, tile->lo + n, tile->hi + n);
    if (key_mask == 0) return bits;
    for (int lane = 0; lane < VL; lane++)
        if ((tile->mask[n + lane] & key_mask) != 0) bits &= ~(1U << lane);
    return bits;
}

/* Weights and their gradients of one strip of keys and one panel of queries. `strip` counts from
 * the sub-block, which begins at entry begin + sub. has_gate: some pair of the tile is gated. */
FOCI_INLINE void backward_tile(const bwd_call *call, const bwd_item *item, const query_tile *tile,
                               const bwd_scratch *s, int32_t sub, int32_t strip, int32_t panel,
                               const bool has_gate)
{
    const float cap = call->a->softcap;
    const int32_t key = sub + strip * MR; /* in the block */
    const int32_t entry = item->begin + key;
    const int32_t column = panel * NR;
    const strip_bounds *bounds = &tile->bounds[panel];
    const bool is_masked = item->part >= 0 || bounds->lo_max > entry || bounds->hi_min < entry + MR;
    float weight[MR * NR], slope[MR * NR];
    vec x[MR][2];
    for (int r = 0; r < MR; r++) x[r][0] = x[r][1] = v_zero();
    tile_dot(x, s->k + key * call->k_words, call->k_words, s->q_t + panel * call->k_words * NR,
             call->k_words, 2);
    if (cap > 0.0F) {
        for (int r = 0; r < MR; r++) {
            for (int n = 0; n < 2; n++) {
                x[r][n] = soft_cap(x[r][n], cap);
                const vec y = v_mul(x[r][n], v_set1(1.0F / cap));
                v_store(slope + (int64_t)r * NR + (int64_t)n * VL,
                        v_fma(v_sub(v_zero(), y), y, v_set1(1.0F)));
            }
        }
    }
    gate_pairs pairs;
    if (has_gate) {
        tile_store(weight, NR, x);
        gate_tile(&call->gate, &s->gate, &tile->gate, tile->lse, key, entry, panel, weight, &pairs);
        tile_load(x, weight, NR);
    }
    const vec lse0 = v_load(tile->lse + column), lse1 = v_load(tile->lse + column + VL);
    float *p = s->p + ((int64_t)panel * SUB_KEYS + (int64_t)strip * MR) * (NR / PACK);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        /* the difference first: it is exact where it matters, at scores near lse */
        x[r][0] = v_exp(v_sub(x[r][0], lse0));
        x[r][1] = v_exp(v_sub(x[r][1], lse1));
    }
    uint32_t bits[MR][2];
    if (is_masked) {
        for (int r = 0; r < MR; r++) {
            for (int n = 0; n < 2; n++) {
                bits[r][n] = query_bits(tile, column + n * VL, entry + r, s->key_mask[key + r]);
                x[r][n] = v_select(bits[r][n], x[r][n], v_zero());
            }
        }
    }
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        v_store(weight + (int64_t)r * NR, x[r][0]);
        v_store(weight + (int64_t)r * NR + VL, x[r][1]);
        v_store_packed(p + (int64_t)r * (NR / PACK), x[r][0], x[r][1]);
        x[r][0] = x[r][1] = v_zero();
    }
    if (has_gate) gate_hide(&pairs, p);
    tile_dot(x, s->v + key * call->v_words, call->v_words, s->dout_t + panel * call->v_words * NR,
             call->v_words, 2);
    const vec delta0 = v_load(tile->delta + column), delta1 = v_load(tile->delta + column + VL);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) {
        x[r][0] = v_mul(v_load(weight + (int64_t)r * NR), v_sub(x[r][0], delta0));
        x[r][1] = v_mul(v_load(weight + (int64_t)r * NR + VL), v_sub(x[r][1], delta1));
    }
    if (has_gate) {
        tile_store(weight, NR, x);
        gate_gradients(&call->gate, &pairs, weight, gate_dm(&s->gate, strip, panel));
        tile_load(x, weight, NR);
    }
    if (cap > 0.0F) {
        for (int r = 0; r < MR; r++) {
            x[r][0] = v_mul(x[r][0], v_load(slope + (int64_t)r * NR));
            x[r][1] = v_mul(x[r][1], v_load(slope + (int64_t)r * NR + VL));
        }
    }
    if (is_masked) { /* again: 0 times what an unseen value holds may be NaN */
        for (int r = 0; r < MR; r++) {
            x[r][0] = v_select(bits[r][0], x[r][0], v_zero());
            x[r][1] = v_select(bits[r][1], x[r][1], v_zero());
        }
    }
    float *ds = s->ds + ((int64_t)panel * SUB_KEYS + (int64_t)strip * MR) * (NR / PACK);
#pragma GCC unroll 12
    for (int r = 0; r < MR; r++) v_store_packed(ds + (int64_t)r * (NR / PACK), x[r][0], x[r][1]);
    if (PACK == 2) {
        float *ds_c = s->ds_c + ((int64_t)panel * SUB_KEYS + (int64_t)strip * MR) / PACK * NR;
        for (int r = 0; r < MR; r += PACK) {
            vec lo = v_load(ds + (int64_t)r * (NR / PACK)),
                hi = v_load(ds + (int64_t)(r + PACK - 1) * (NR / PACK));
            v_zip(&lo, &hi);
            v_store(ds_c + (int64_t)r / PACK * NR, lo);
            v_store(ds_c + (int64_t)r / PACK * NR + VL, hi);
        }
    }
}

/* sums (MR, NR) += a b, where a gradient of 0 in b must not meet the infinities and NaNs in a:
 * column by column, with what it does not see cleared. */
static __attribute__((noinline)) void tile_dot_odd_left(float *sums, const float *a, int64_t lda,
                                                        const float *b, int64_t words)
{
    for (int column = 0; column < NR; column++) {
        float cleared[MR * (SUB_KEYS / PACK)];
        for (int r = 0; r < MR; r++)
            for (int64_t w = 0; w < words; w++)
                cleared[(int64_t)r * (SUB_KEYS / PACK) + w] =
                    word_where_met(a[r * lda + w], b[w * NR + column]);
        vec acc[MR][2];
        tile_load(acc, sums, NR);
        tile_dot(acc, cleared, SUB_KEYS / PACK, b, words, 2);
        float result[MR * NR];
        tile_store(result, NR, acc);
        for (int r = 0; r < MR; r++) sums[r * NR + column] = result[r * NR + column];
    }
}

/* dq_t[panel] += transposed keys x ds of the strips [from, to) of the sub-block. */
FOCI_INLINE void add_dq(const bwd_call *call, const bwd_scratch *s, int32_t sub, int32_t panel,
                        int32_t from, int32_t to)
{
    const int64_t ldk = KEY_BLOCK / PACK;
    const float *left = s->kt + (sub + from * MR) / PACK;
    const float *right = s->ds_c + ((int64_t)panel * SUB_KEYS + (int64_t)from * MR) / PACK * NR;
    const int64_t words = (int64_t)(to - from) * MR / PACK;
    float *sums = s->dq_t + panel * call->kt_rows * NR;
    for (int64_t d = 0; d < call->kt_rows; d += MR) {
        if (__builtin_expect(s->has_odd_k, 0)) {
            tile_dot_odd_left(sums + d * NR, left + d * ldk, ldk, right, words);
            continue;
        }
        vec acc[MR][2];
        tile_load(acc, sums + d * NR, NR);
        tile_dot(acc, left + d * ldk, ldk, right, words, 2);
        tile_store(sums + d * NR, NR, acc);
    }
}

/* True when some row of the panel sees some key of the strip. */
static inline bool tile_is_seen(const query_tile *tile, int32_t panel, int32_t entry)
{
    const strip_bounds *b = &tile->bounds[panel];
    return b->hi_max > b->lo_min && b->lo_min < entry + MR && b->hi_max > entry;
}

static void clear_tile(const bwd_scratch *s, int32_t strip, int32_t panel)
{
    const int64_t at = (int64_t)panel * SUB_KEYS + (int64_t)strip * MR;
    const size_t bytes = (int64_t)MR * (NR / PACK) * sizeof(float);
    memset(s->p + at * (NR / PACK), 0, bytes);
    memset(s->ds + at * (NR / PACK), 0, bytes);
    if (PACK == 2) memset(s->ds_c + at / PACK * NR, 0, bytes);
}

/* One tile of queries against SUB_KEYS keys of the block. */
static void backward_sub(const bwd_call *call, const bwd_item *item, const query_tile *tile,
                         const bwd_scratch *s, int32_t sub)
{
    const int32_t keys = (int32_t)foci_min64(item->end - item->begin - sub, SUB_KEYS);
    const int32_t strips = (int32_t)foci_pieces(keys, MR);
    int32_t panel_from[SUB_STRIPS], panel_to[SUB_STRIPS];
    int32_t strip_from[QUERY_PANELS], strip_to[QUERY_PANELS];
    for (int32_t p = 0; p < QUERY_PANELS; p++) strip_from[p] = strip_to[p] = 0;
    for (int32_t n = 0; n < strips; n++) {
        panel_from[n] = panel_to[n] = 0;
        for (int32_t p = 0; p < QUERY_PANELS; p++) {
            if (!tile_is_seen(tile, p, item->begin + sub + n * MR)) continue;
            if (panel_to[n] == 0) panel_from[n] = p;
            panel_to[n] = p + 1;
            if (strip_to[p] == 0) strip_from[p] = n;
            strip_to[p] = n + 1;
        }
    }
    for (int32_t p = 0; p < QUERY_PANELS; p++) {
        for (int32_t n = 0; n < strips; n++) {
            const int32_t entry = item->begin + sub + n * MR;
            const bool has_gate = is_gated(call) && gate_is_distant(&tile->gate, p, entry);
            if (is_gated(call) && !has_gate) gate_clear(&s->gate, n, p);
            if (has_gate)
                backward_tile(call, item, tile, s, sub, n, p, true);
            else if (tile_is_seen(tile, p, entry))
                backward_tile(call, item, tile, s, sub, n, p, false);
            else if ((p >= panel_from[n] && p < panel_to[n]) ||
                     (n >= strip_from[p] && n < strip_to[p]))
                clear_tile(s, n, p);
        }
    }
    for (int32_t n = 0; n < strips; n++) {
        if (panel_from[n] == panel_to[n]) continue;
        const int64_t key = sub + (int64_t)n * MR, left = (int64_t)n * MR * (NR / PACK);
        add_product(s->dv + key * call->v_stride, call->v_stride, call->a->Dv, s->p + left,
                    s->dout_c, panel_from[n], panel_to[n], tile->has_odd_dout);
        add_product(s->dk + key * call->k_stride, call->k_stride, call->a->D, s->ds + left, s->q_c,
                    panel_from[n], panel_to[n], tile->has_odd_q);
        if (is_gated(call)) gate_add_dgk(&call->gate, &s->gate, sub, n, panel_from[n], panel_to[n]);
    }
    for (int32_t p = 0; p < QUERY_PANELS; p++) {
        if (strip_from[p] >= strip_to[p]) continue;
        add_dq(call, s, sub, p, strip_from[p], strip_to[p]);
        if (is_gated(call)) gate_add_dgq(&call->gate, &s->gate, sub, p, strip_from[p], strip_to[p]);
    }
}

/* Returns when the item before has come to this progress. */
static void wait_for_turn(const bwd_call *call, const bwd_item *item, int32_t progress)
{
    if (item->prev < 0) return;
    int32_t round = 0;
    while (atomic_load_explicit(&call->progress[item->prev], memory_order_acquire) > progress)
        foci_spin_wait(round++ & 0xFFFF);
}

/* Adds a tile's dq to the sums of its rows. */
static void add_dq_rows(const bwd_call *call, const query_tile *tile, const bwd_scratch *s)
{
    const focal_attn_args *a = call->a;
    for (int32_t first = 0; first < tile->rows; first += VL) {
        const float *from = s->dq_t + first / NR * call->kt_rows * NR + first % NR;
        const int32_t rows = (int32_t)foci_min64(tile->rows - first, VL);
        for (int64_t d = 0; d < a->D; d += VL) {
            vec block[VL];
            const int64_t width = foci_min64(a->D - d, VL);
            for (int64_t n = 0; n < VL; n++)
                block[n] = n < width ? v_load(from + (d + n) * NR) : v_zero();
            v_transpose(block);
            for (int32_t r = 0; r < rows; r++) {
                const int64_t place = tile->place[first + r] - call->first_q * a->H;
                float *to = call->dq + place / a->H * call->dq_stride + place % a->H * a->D + d;
                if (width == VL)
                    v_store(to, v_add(v_load(to), block[r]));
                else
                    v_store_some(to, v_add(v_load_some(to, width), block[r]), width);
            }
        }
    }
}

static void add_key_rows(const bwd_call *call, const bwd_item *item, const part_view *view,
                         const bwd_scratch *s)
{
    const focal_attn_args *a = call->a;
    for (int32_t n = 0; n < item->end - item->begin; n++) {
        const int64_t at = view->key_row ? view->key_row[item->begin + n] : item->begin + n;
        const int64_t row = view->seq->k_row + at - call->first_k;
        float *dk = call->dk + row * call->dk_stride + (int64_t)item->g * a->D;
        float *dv = call->dv + row * call->dv_stride + (int64_t)item->g * a->Dv;
        for (int32_t d = 0; d < a->D; d++) dk[d] += s->dk[n * call->k_stride + d];
        for (int32_t d = 0; d < a->Dv; d++) dv[d] += s->dv[n * call->v_stride + d];
    }
}

static void backward_item(void *arg, int64_t index, int32_t thread)
{
    const bwd_call *call = arg;
    const bwd_item *item = &call->items[index];
    const part_view view = view_part(call->a, item->seq, item->g, item->part);
    bwd_scratch s;
    query_tile tile;
    (void)lay_out_backward(call, (bump){call->scratch + thread * call->scratch_bytes, 0}, &s);
    pack_block(call, item, &view, &s);
    if (is_gated(call))
        gate_pack_block(&call->gate, view.seq, item->g, item->begin, item->end, &s.gate);
    const int64_t first = (int64_t)part_search(&view, item->begin, false) * call->group;
    const int64_t last = (int64_t)part_search(&view, item->end, true) * call->group;
    /* Tiles begin at multiples of QUERY_TILE rows, the latest first. */
    for (int64_t row = (last - 1) / QUERY_TILE * QUERY_TILE;
         last > first && row + QUERY_TILE > first; row -= QUERY_TILE) {
        const int64_t from = foci_max64(row, first);
        pack_queries(call, item, &view, from, (int32_t)(foci_min64(row + QUERY_TILE, last) - from),
                     &s, &tile);
        for (int32_t sub = 0; sub < item->end - item->begin; sub += SUB_KEYS)
            backward_sub(call, item, &tile, &s, sub);
        wait_for_turn(call, item, tile.lowest + 1);
        add_dq_rows(call, &tile, &s);
        if (is_gated(call)) gate_add_queries(&call->gate, &s.gate, tile.place, tile.rows, item->g);
        /* A token's heads may be split over two tiles: it is done with the lower one. */
        atomic_store_explicit(&call->progress[index], tile.lowest + 1 + (from % call->group != 0),
                              memory_order_release);
    }
    if (is_gated(call))
        gate_store_keys(&call->gate, &s.gate, view.seq->k_row + item->begin,
                        item->end - item->begin, item->g);
    wait_for_turn(call, item, 0);
    add_key_rows(call, item, &view, &s);
    atomic_store_explicit(&call->progress[index], 0, memory_order_release);
}

/* delta = dout . out, for DELTA_TOKENS tokens an item. */
enum { DELTA_TOKENS = 64 };

static void delta_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const bwd_call *call = arg;
    const focal_attn_args *a = call->a;
    const int64_t size = (int64_t)focal_dtype_bytes(a->dtype);
    const focal_attn_seq *last = &a->seqs[a->seq_count - 1];
    const int64_t end = last->q_row + last->T;
    const int64_t from = call->first_q + index * DELTA_TOKENS;
    int32_t n = 0; /* rows between sequences may hold anything, or nothing */
    for (int64_t row = from; row < foci_min64(from + DELTA_TOKENS, end); row++) {
        while (row >= a->seqs[n].q_row + a->seqs[n].T) n++;
        if (row < a->seqs[n].q_row) continue;
        for (int32_t h = 0; h < a->H; h++) {
            const int64_t at = (row * a->out_stride + (int64_t)h * a->Dv) * size;
            const char *out = (const char *)a->out + at,
                       *dout = (const char *)call->grads->dout + at;
            vec sum = v_zero();
            for (int64_t d = 0; d < a->Dv; d += VL) {
                float x[VL] = {0}, y[VL] = {0};
                const int64_t width = foci_min64(a->Dv - d, VL);
                for (int64_t e = 0; e < width; e++) {
                    if (a->dtype == FOCAL_F32) {
                        x[e] = ((const float *)(const void *)out)[d + e];
                        y[e] = ((const float *)(const void *)dout)[d + e];
                    } else {
                        x[e] = foci_bf16_to_float(((const uint16_t *)(const void *)out)[d + e]);
                        y[e] = foci_bf16_to_float(((const uint16_t *)(const void *)dout)[d + e]);
                    }
                }
                sum = v_fma(v_load(x), v_load(y), sum);
            }
            call->delta[(row - call->first_q) * a->H + h] = v_reduce_add(sum);
        }
    }
}

/* Fills items, key heads in turn so that neighbours seldom wait for each other; items NULL only
 * counts. */
static int64_t list_backward_items(const bwd_call *call, bwd_item *items)
{
    const focal_attn_args *a = call->a;
    int64_t count = 0;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        const int32_t parts = seq->keys && !a->gate ? seq->keys->K : 0;
        /* Short texts get smaller blocks, so that there is work for everyone. */
        const int64_t block =
            foci_min64(foci_round_up(foci_pieces(seq->S, 8), SUB_KEYS), KEY_BLOCK);
        const int64_t begin = count;
        for (int32_t part = PART_LOCAL; part < parts; part++) {
            int64_t longest = 0;
            for (int32_t g = 0; g < a->G; g++) {
                const part_view view = view_part(a, n, g, part);
                longest = foci_max64(longest, part_entries(&view));
            }
            for (int64_t from = 0; from < longest; from += block) {
                for (int32_t g = 0; g < a->G; g++) {
                    const part_view view = view_part(a, n, g, part);
                    const int64_t end = foci_min64(from + block, part_entries(&view));
                    if (end <= from) continue;
                    if (items) {
                        int64_t before = count - 1; /* the same key head's last item */
                        while (before >= begin && items[before].g != g) before--;
                        items[count] = (bwd_item){
                            n, g, part, (int32_t)from, (int32_t)end, before >= begin ? before : -1};
                    }
                    count++;
                }
            }
        }
    }
    return count;
}

typedef struct convert_call {
    const bwd_call *call;
    bool is_start; /* clear the sums, else convert them to the outputs */
} convert_call;

enum { CONVERT_ROWS = 64 };

/* Clears or converts rows of one tensor's sums that belong to sequences. */
static void convert_rows(const convert_call *c, int64_t from, int64_t to, bool is_keys)
{
    const bwd_call *call = c->call;
    const focal_attn_args *a = call->a;
    const int64_t size = (int64_t)focal_dtype_bytes(a->dtype);
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        const int64_t begin = is_keys ? seq->k_row : seq->q_row;
        const int64_t end = begin + (is_keys ? seq->S : seq->T);
        for (int64_t row = foci_max64(from, begin); row < foci_min64(to, end); row++) {
            float *sums[2] = {is_keys ? call->dk + (row - call->first_k) * call->dk_stride
                                      : call->dq + (row - call->first_q) * call->dq_stride,
                              is_keys ? call->dv + (row - call->first_k) * call->dv_stride : NULL};
            char *outs[2] = {is_keys ? (char *)call->grads->dk + row * a->k_stride * size
                                     : (char *)call->grads->dq + row * a->q_stride * size,
                             is_keys ? (char *)call->grads->dv + row * a->v_stride * size : NULL};
            const int64_t widths[2] = {is_keys ? (int64_t)a->G * a->D : (int64_t)a->H * a->D,
                                       (int64_t)a->G * a->Dv};
            for (int m = 0; m < 2 && sums[m]; m++) {
                if (c->is_start)
                    memset(sums[m], 0, (size_t)widths[m] * sizeof(float));
                else
                    store_row(outs[m], a->dtype, sums[m], widths[m]);
            }
        }
    }
}

static void convert_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const convert_call *c = arg;
    const int64_t q = c->call->first_q + index * CONVERT_ROWS;
    const int64_t k = c->call->first_k + index * CONVERT_ROWS;
    convert_rows(c, q, q + CONVERT_ROWS, false);
    convert_rows(c, k, k + CONVERT_ROWS, true);
}

static focal_status run_backward(bwd_call *call, void *sums[3])
{
    const focal_attn_args *a = call->a;
    const focal_attn_seq *last = &a->seqs[a->seq_count - 1];
    call->first_q = a->seqs[0].q_row;
    call->first_k = a->seqs[0].k_row;
    const int64_t q_rows = last->q_row + last->T - call->first_q;
    const int64_t k_rows = last->k_row + last->S - call->first_k;
    call->delta = foci_scratch(call->ctx, (size_t)q_rows, (size_t)a->H * sizeof(float));
    if (!call->delta) return FOCAL_ENOMEM;
    if (a->dtype == FOCAL_F32) { /* the outputs are the sums */
        call->dq = (float *)call->grads->dq + call->first_q * a->q_stride;
        call->dk = (float *)call->grads->dk + call->first_k * a->k_stride;
        call->dv = (float *)call->grads->dv + call->first_k * a->v_stride;
        call->dq_stride = a->q_stride;
        call->dk_stride = a->k_stride;
        call->dv_stride = a->v_stride;
    } else {
        call->dq_stride = (int64_t)a->H * a->D;
        call->dk_stride = (int64_t)a->G * a->D;
        call->dv_stride = (int64_t)a->G * a->Dv;
        sums[0] = foci_scratch(call->ctx, (size_t)q_rows, (size_t)call->dq_stride * sizeof(float));
        sums[1] = foci_scratch(call->ctx, (size_t)k_rows, (size_t)call->dk_stride * sizeof(float));
        sums[2] = foci_scratch(call->ctx, (size_t)k_rows, (size_t)call->dv_stride * sizeof(float));
        if (!sums[0] || !sums[1] || !sums[2]) return FOCAL_ENOMEM;
        call->dq = sums[0];
        call->dk = sums[1];
        call->dv = sums[2];
    }
    FOCAL_TRY(gate_begin(call->ctx, &call->gate, call->grads));
    const int64_t count = list_backward_items(call, NULL);
    bwd_scratch s;
    call->scratch_bytes = lay_out_backward(call, (bump){NULL, 0}, &s);
    call->items = foci_scratch(call->ctx, (size_t)count, sizeof *call->items);
    call->progress = foci_scratch(call->ctx, (size_t)count, sizeof *call->progress);
    call->scratch =
        foci_scratch(call->ctx, (size_t)focal_ctx_threads(call->ctx), (size_t)call->scratch_bytes);
    if (!call->items || !call->progress || !call->scratch) return FOCAL_ENOMEM;
    (void)list_backward_items(call, call->items);
    for (int64_t n = 0; n < count; n++) atomic_init(&call->progress[n], NOT_STARTED);
    const int64_t chunks = foci_pieces(foci_max64(q_rows, k_rows), CONVERT_ROWS);
    convert_call convert = {call, true};
    foci_parallel(call->ctx, chunks, convert_item, &convert);
    foci_parallel(call->ctx, foci_pieces(q_rows, DELTA_TOKENS), delta_item, call);
    foci_parallel(call->ctx, count, backward_item, call);
    gate_finish(call->ctx, &call->gate);
    if (a->dtype != FOCAL_F32) {
        convert.is_start = false;
        foci_parallel(call->ctx, chunks, convert_item, &convert);
    }
    return FOCAL_OK;
}

static focal_status backward(focal_ctx *ctx, const focal_attn_args *args,
                             const focal_attn_grads *grads)
{
    bwd_call call = {.ctx = ctx, .a = args, .grads = grads, .group = args->H / args->G};
    call.k_words = words_of(args->D);
    call.v_words = words_of(args->Dv);
    call.k_stride = foci_round_up(args->D, NR);
    call.v_stride = foci_round_up(args->Dv, NR);
    call.kt_rows = foci_round_up(args->D, MR);
    call.gate = (gate_call){.a = args, .gate = args->gate};
    void *sums[3] = {NULL, NULL, NULL};
    const focal_status status = run_backward(&call, sums);
    foci_scratch_free(ctx, call.scratch);
    foci_scratch_free(ctx, call.progress);
    gate_free(ctx, &call.gate);
    foci_scratch_free(ctx, call.items);
    foci_scratch_free(ctx, sums[2]);
    foci_scratch_free(ctx, sums[1]);
    foci_scratch_free(ctx, sums[0]);
    foci_scratch_free(ctx, call.delta);
    return status;
}

#endif /* FOCI_OPS_ATTN_ATTN_BACKWARD_BODY_H */
