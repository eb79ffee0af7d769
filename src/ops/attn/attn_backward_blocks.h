/* What the forms of backward's pairs and everything around them have in common: a call, blocks of
 * keys, tiles of query rows, and all of them packed in the orders that the products read. Included
 * by a form (attn_backward_pairs_body.h, attn_backward_amx.h), which says whether it TAKES_GATES.
 */
#ifndef FOCI_OPS_ATTN_ATTN_BACKWARD_BLOCKS_H
#define FOCI_OPS_ATTN_ATTN_BACKWARD_BLOCKS_H

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
    int64_t kt_rows;            /* rows of the transposed keys: D to a multiple of STRIP_ROWS */
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

static inline bool is_gated(const bwd_call *call)
{
    return TAKES_GATES && call->gate.gate != NULL;
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

/* Zeros behind the packed words of a row of `width` elements, or of a panel of such rows, up to the
 * depth that tiles read. */
FOCI_INLINE void pad_words(float *words, int64_t width, int64_t depth, int64_t columns)
{
    if (DEPTH_WORDS == 1) return;
    for (int64_t n = words_of(width) * columns; n < depth * columns; n++) words[n] = 0.0F;
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
    memset(s->key_mask, 0, (size_t)padded * sizeof *s->key_mask); /* for keys of shared groups */
    for (int32_t n = 0; n < count; n++) {
        const int32_t at = view->key_row ? view->key_row[item->begin + n] : item->begin + n;
        row[n] = foci_row(&k_rows, at);
        pack_row(s->k + n * call->k_words, row[n], a->dtype, a->D);
        pack_row(s->v + n * call->v_words, foci_row(&v_rows, at), a->dtype, a->Dv);
        pad_words(s->k + n * call->k_words, a->D, call->k_words, 1);
        pad_words(s->v + n * call->v_words, a->Dv, call->v_words, 1);
        if (view->part >= 0 && keys->mode == FOCAL_SHARED)
            s->key_mask[n] =
                keys->key_mask[view->router * keys->key_mask_stride + at] & below(view->part);
    }
    const size_t missing = (size_t)(padded - count);
    memset(s->k + count * call->k_words, 0, missing * (size_t)call->k_words * sizeof(float));
    memset(s->v + count * call->v_words, 0, missing * (size_t)call->v_words * sizeof(float));
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
        pad_words(s->q_t + p * call->k_words * NR, a->D, call->k_words, NR);
        pad_words(s->dout_t + p * call->v_words * NR, a->Dv, call->v_words, NR);
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

#endif /* FOCI_OPS_ATTN_ATTN_BACKWARD_BLOCKS_H */
