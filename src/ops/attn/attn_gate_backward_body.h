/* Gates in backward, written once for every instruction set (docs/MATH.md, 3.5).
 *
 * With a gate an item's queries walk over every causal key as one list. Tiles are keys by queries,
 * as everywhere in backward: the gradient dm of the overlaps is a tile like ds, and its products
 * with memberships are sums over queries (dgk) and over keys (dgq) like dk and dq. One router may
 * serve several key heads: each keeps sums of its own, which are added in the order of the heads.
 *
 * Memberships and dm are floats in every dialect, and so are their products: a gradient of a
 * membership is a sum over thousands of pairs, most of them next to nothing. */
#ifndef FOCI_OPS_ATTN_ATTN_GATE_BACKWARD_BODY_H
#define FOCI_OPS_ATTN_ATTN_GATE_BACKWARD_BODY_H

#include "base/ctx.h"
#include "base/pool.h"
#include "ops/attn/attn_backward_tile.h"
#include "ops/attn/attn_gate_body.h"

enum {
    GROUP_ROWS = MR > 8 ? 8 : MR, /* groups whose sums over keys are made at a time */
    /* of a strip, keys whose sums for two vectors of groups fit the registers */
    WIDE_ROWS = (int)STRIP_ROWS > (int)MR ? STRIP_ROWS / 2 : STRIP_ROWS
};

/* One side's sums, queries or keys: the output itself, or scratch with a part for each key head. */
typedef struct gate_sums {
    float *base;         /* of key head 0 and row `first` */
    int64_t row, head;   /* floats from one row and from one key head to the next */
    int64_t first, rows; /* rows of the output */
    float *scratch;      /* base, or NULL */
    float *out;
} gate_sums;

/* What the items of a call share. */
typedef struct gate_call {
    const focal_attn_args *a;
    const focal_attn_gate *gate; /* NULL: none */
    int64_t stride;              /* floats of a row of sums: K to a multiple of NR */
    int64_t t_rows;              /* rows of transposed memberships: K to whole GROUP_ROWS */
    gate_sums dgq, dgk;
} gate_call;

/* One thread's memory for an item. */
typedef struct gate_block {
    float *gk;          /* (KEY_BLOCK, K) left factor of the overlaps, not straight-through */
    float *gk_t;        /* (t_rows, KEY_BLOCK) left factor of dgq */
    float *gq_t;        /* (QUERY_PANELS, K, NR) right factor of the overlaps, likewise */
    float *gq_c;        /* (stride / NR, QUERY_TILE, NR) right factor of dgk */
    float *dm;          /* (QUERY_PANELS, SUB_KEYS, NR) gradient of the overlaps */
    float *dgk;         /* (KEY_BLOCK, stride) sums */
    float *dgq_t;       /* (QUERY_PANELS, t_rows, NR) sums */
    uint64_t *key_mask; /* (KEY_BLOCK), straight-through only */
} gate_block;

/* What the query rows of a tile bring. */
typedef struct gate_queries {
    int32_t lo[QUERY_TILE], hi[QUERY_TILE]; /* distant positions */
    int32_t lo_min[QUERY_PANELS], hi_max[QUERY_PANELS];
    int32_t lo_max[QUERY_PANELS], hi_min[QUERY_PANELS]; /* hi_min 0 of a panel with padding */
    uint64_t mask[QUERY_TILE];                          /* straight-through only */
} gate_queries;

/* What is kept of a tile between its scores and their gradient. */
typedef struct gate_pairs {
    uint32_t distant[MR][2], hidden[MR][2]; /* bits of queries */
    float by_s[MR * NR], by_m[MR * NR];     /* derivatives of the gated logit */
} gate_pairs;

static bool is_straight(const gate_call *call)
{
    return call->gate->kind == FOCAL_GATE_STRAIGHT;
}

static void gate_lay_out(const gate_call *call, bump *b, gate_block *s)
{
    const size_t f = sizeof(float);
    if (!call->gate) return;
    const int64_t overlaps = is_straight(call) ? 0 : call->gate->K;
    s->gk = bump_take(b, KEY_BLOCK * overlaps, f);
    s->gk_t = bump_take(b, call->t_rows * KEY_BLOCK, f);
    s->gq_t = bump_take(b, QUERY_TILE * overlaps, f);
    s->gq_c = bump_take(b, QUERY_TILE * call->stride, f);
    s->dm = bump_take(b, (int64_t)QUERY_TILE * SUB_KEYS, f);
    s->dgk = bump_take(b, KEY_BLOCK * call->stride, f);
    s->dgq_t = bump_take(b, QUERY_TILE * call->t_rows, f);
    s->key_mask = bump_take(b, KEY_BLOCK, sizeof(uint64_t));
}

/* Memberships of the keys [begin, end) in the orders that the products read. */
static void gate_pack_block(const gate_call *call, const focal_attn_seq *seq, int32_t g,
                            int32_t begin, int32_t end, const gate_block *s)
{
    const int64_t K = call->gate->K;
    const focal_keys *keys = seq->keys;
    if (!is_straight(call)) memset(s->gk, 0, (size_t)(KEY_BLOCK * K) * sizeof(float));
    memset(s->gk_t, 0, (size_t)(call->t_rows * KEY_BLOCK) * sizeof(float));
    memset(s->dgk, 0, (size_t)(KEY_BLOCK * call->stride) * sizeof(float));
    memset(s->key_mask, 0, KEY_BLOCK * sizeof *s->key_mask);
    for (int32_t j = begin; j < end; j++) {
        const float *gk = gate_key(call->gate, seq->k_row + j, g);
        const int64_t n = j - begin;
        if (!is_straight(call)) memcpy(s->gk + n * K, gk, (size_t)K * sizeof(float));
        for (int64_t c = 0; c < K; c++) s->gk_t[c * KEY_BLOCK + n] = gk[c];
        if (keys)
            s->key_mask[n] =
                keys->key_mask[foci_router_of(keys->routers, g) * keys->key_mask_stride + j];
    }
}

/* The same of a tile of query rows; place is q_row * H + h of each. */
static void gate_pack_queries(const gate_call *call, const focal_attn_seq *seq, int32_t g,
                              const int64_t *place, int32_t rows, const gate_block *s,
                              gate_queries *tile)
{
    const int64_t K = call->gate->K;
    const focal_keys *keys = seq->keys;
    const char *gq[QUERY_TILE] = {0};
    memset(tile, 0, sizeof *tile);
    for (int32_t n = 0; n < rows; n++) {
        const int64_t q_row = place[n] / call->a->H, token = q_row - seq->q_row;
        const foci_local local = foci_attn_local(call->a, seq, (int32_t)token);
        tile->lo[n] = local.sink_hi;
        tile->hi[n] = local.lo;
        if (keys)
            tile->mask[n] =
                keys->query_mask[(int64_t)foci_router_of(keys->routers, g) * keys->T + token];
        gq[n] = (const char *)gate_query(call->gate, q_row, g);
    }
    for (int32_t p = 0; p * NR < rows; p++) { /* both ends do not descend */
        const int64_t first = (int64_t)p * NR, last = foci_min64(rows, first + NR) - 1;
        tile->lo_min[p] = tile->lo[first];
        tile->lo_max[p] = tile->lo[last];
        tile->hi_min[p] = last - first == NR - 1 ? tile->hi[first] : 0;
        tile->hi_max[p] = tile->hi[last];
        if (!is_straight(call))
            pack_transposed(s->gq_t + p * K * NR, gq + (int64_t)p * NR, FOCAL_F32, K);
    }
    memset(s->gq_c, 0, (size_t)(QUERY_TILE * call->stride) * sizeof(float));
    for (int32_t n = 0; n < rows; n++)
        for (int64_t c = 0; c < K; c += NR)
            memcpy(s->gq_c + c * QUERY_TILE + (int64_t)n * NR, gq[n] + c * (int64_t)sizeof(float),
                   (size_t)foci_min64(K - c, NR) * sizeof(float));
    memset(s->dgq_t, 0, (size_t)(QUERY_TILE * call->t_rows) * sizeof(float));
}

/* True when a query of the panel is distant to a key of the strip from position `entry` on. */
static inline bool gate_is_distant(const gate_queries *tile, int32_t panel, int32_t entry)
{
    return tile->hi_max[panel] > entry && tile->lo_min[panel] < entry + STRIP_ROWS;
}

/* True when every query of the panel is distant to every key of that strip. */
static inline bool gate_is_all_distant(const gate_queries *tile, int32_t panel, int32_t entry)
{
    return tile->lo_max[panel] <= entry && tile->hi_min[panel] >= entry + STRIP_ROWS;
}

/* Gates the scores s (MR, NR) of the keys at `key` of the block, whose positions begin at `entry`,
 * and of a panel of queries. A hidden pair's score is bounded by lse, as (3.5.4) wants it. */
static __attribute__((noinline, unused)) void
gate_tile(const gate_call *call, const gate_block *block, const gate_queries *tile,
          const float *lse, int32_t key, int32_t entry, int32_t panel, float *s, gate_pairs *pairs)
{
    const focal_attn_gate *gate = call->gate;
    const int64_t K = gate->K;
    const bool has_overlap = !is_straight(call);
    vec m[MR][2];
    for (int r = 0; r < MR; r++) m[r][0] = m[r][1] = v_zero();
    if (has_overlap) tile_dot(m, block->gk + key * K, K, block->gq_t + panel * K * NR, K, 2);
    for (int r = 0; r < MR; r++) {
        for (int n = 0; n < 2; n++) {
            const int32_t query = panel * NR + n * VL, at = r * NR + n * VL;
            const uint32_t distant = v_inside(entry + r, tile->lo + query, tile->hi + query);
            const vec x = v_load(s + at), one = v_set1(1.0F);
            pairs->distant[r][n] = distant;
            pairs->hidden[r][n] = 0;
            if (!has_overlap) {
                const uint32_t hidden =
                    distant & v_disjoint(tile->mask + query, block->key_mask[key + r]);
                pairs->hidden[r][n] = hidden;
                v_store(s + at, v_select(hidden, v_min(v_load(lse + query), x), x));
                continue;
            }
            vec by_s, by_m;
            gate_slopes(gate, x, m[r][n], &by_s, &by_m);
            v_store(pairs->by_s + at, v_select(distant, by_s, one));
            v_store(pairs->by_m + at, by_m);
            v_store(s + at, v_select(distant, gated_logit(gate, x, m[r][n]), x));
        }
    }
}

/* The weights that dv sees: those of hidden pairs are 0. */
static inline void gate_hide(const gate_pairs *pairs, float *p)
{
    for (int r = 0; r < MR; r++)
        for (int n = 0; n < 2; n++)
            if (pairs->hidden[r][n] != 0) {
                float *at = p + (int64_t)r * NR + (int64_t)n * VL;
                v_store(at, v_select(pairs->hidden[r][n], v_zero(), v_load(at)));
            }
}

/* ds (MR, NR), from the gradient of the gated logit to that of the logit; and dm. */
static __attribute__((noinline, unused)) void
gate_gradients(const gate_call *call, const gate_pairs *pairs, float *ds, float *dm)
{
    const bool has_overlap = !is_straight(call);
    for (int r = 0; r < MR; r++) {
        for (int n = 0; n < 2; n++) {
            const int at = r * NR + n * VL;
            const vec x = v_load(ds + at);
            const vec y = has_overlap ? v_mul(x, v_load(pairs->by_m + at)) : x;
            v_store(dm + at, v_select(pairs->distant[r][n], y, v_zero()));
            v_store(ds + at, has_overlap ? v_mul(x, v_load(pairs->by_s + at))
                                         : v_select(pairs->hidden[r][n], v_zero(), x));
        }
    }
}

static float *gate_dm(const gate_block *s, int32_t strip, int32_t panel)
{
    return s->dm + ((int64_t)panel * SUB_KEYS + (int64_t)strip * STRIP_ROWS) * NR;
}

static void gate_clear(const gate_block *s, int32_t strip, int32_t panel)
{
    memset(gate_dm(s, strip, panel), 0, sizeof(float) * STRIP_ROWS * NR);
}

/* sums (rows, nv vectors), `stride` apart, += a (rows, count), `lda` apart, x b (count, NR): floats
 * in every dialect. rows and nv are constants. */
FOCI_INLINE void gate_product(float *sums, int64_t stride, const float *a, int64_t lda,
                              const float *b, int64_t count, const int nv, const int rows)
{
    vec acc[STRIP_ROWS][2];
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < nv; n++) acc[r][n] = v_load(sums + r * stride + (int64_t)n * VL);
    for (int64_t w = 0; w < count; w++, b += NR) {
        const vec b0 = v_load(b), b1 = nv > 1 ? v_load(b + VL) : v_zero();
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const vec x = v_set1(a[r * lda + w]);
            acc[r][0] = v_fma(x, b0, acc[r][0]);
            if (nv > 1) acc[r][1] = v_fma(x, b1, acc[r][1]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++)
        for (int n = 0; n < nv; n++) v_store(sums + r * stride + (int64_t)n * VL, acc[r][n]);
}

/* dgk of a strip += dm x memberships of the queries of the panels [from, to) (3.5.6). */
static void gate_add_dgk(const gate_call *call, const gate_block *s, int32_t sub, int32_t strip,
                         int32_t from, int32_t to)
{
    const int64_t K = call->gate->K;
    float *sums = s->dgk + (sub + (int64_t)strip * STRIP_ROWS) * call->stride;
    for (int64_t c = 0; c < K; c += NR) {
        for (int32_t p = from; p < to; p++) {
            const float *dm = gate_dm(s, strip, p);
            const float *gq = s->gq_c + c * QUERY_TILE + p * (int64_t)NR * NR;
            if (K - c <= VL) {
                gate_product(sums + c, call->stride, dm, NR, gq, NR, 1, STRIP_ROWS);
                continue;
            }
            for (int64_t r = 0; r < STRIP_ROWS; r += WIDE_ROWS)
                gate_product(sums + r * call->stride + c, call->stride, dm + r * NR, NR, gq, NR, 2,
                             WIDE_ROWS);
        }
    }
}

/* dgq_t[panel] += transposed memberships of the keys x dm of the strips [from, to). */
static void gate_add_dgq(const gate_call *call, const gate_block *s, int32_t sub, int32_t panel,
                         int32_t from, int32_t to)
{
    const float *left = s->gk_t + sub + (int64_t)from * STRIP_ROWS;
    for (int64_t c = 0; c < call->t_rows; c += GROUP_ROWS)
        gate_product(s->dgq_t + (panel * call->t_rows + c) * NR, NR, left + c * KEY_BLOCK,
                     KEY_BLOCK, gate_dm(s, from, panel), (int64_t)(to - from) * STRIP_ROWS, 2,
                     GROUP_ROWS);
}

static float *gate_sums_at(const gate_sums *sums, int64_t row, int64_t head)
{
    return sums->base + head * sums->head + (row - sums->first) * sums->row;
}

/* Adds a tile's dgq to the sums of its tokens; the caller has waited for its turn. */
static void gate_add_queries(const gate_call *call, const gate_block *s, const int64_t *place,
                             int32_t rows, int32_t g)
{
    for (int32_t n = 0; n < rows; n++) {
        const float *from = s->dgq_t + n / NR * call->t_rows * NR + n % NR;
        float *to = gate_sums_at(&call->dgq, place[n] / call->a->H, g);
        for (int64_t c = 0; c < call->gate->K; c++) to[c] += from[c * NR];
    }
}

/* Stores dgk of the block: its keys belong to no other item of the key head. */
static void gate_store_keys(const gate_call *call, const gate_block *s, int64_t k_row,
                            int32_t count, int32_t g)
{
    for (int32_t n = 0; n < count; n++)
        memcpy(gate_sums_at(&call->dgk, k_row + n, g), s->dgk + n * call->stride,
               (size_t)call->gate->K * sizeof(float));
}

static bool gate_begin_sums(focal_ctx *ctx, const gate_call *call, gate_sums *sums)
{
    const int64_t K = call->gate->K, routers = call->gate->routers, G = call->a->G;
    sums->row = routers * K;
    sums->head = K;
    sums->base = sums->out + sums->first * sums->row;
    if (routers == G) return true;
    sums->row = K;
    sums->head = sums->rows * K;
    sums->base = sums->scratch =
        foci_scratch(ctx, (size_t)(G * sums->rows), (size_t)K * sizeof(float));
    return sums->scratch != NULL;
}

enum { GATE_ROWS = 64 };

typedef struct gate_pass {
    const gate_call *call;
    bool is_start; /* clear the sums, else add those of the key heads */
} gate_pass;

static void gate_pass_rows(const gate_pass *pass, const gate_sums *sums, int64_t from, int64_t to)
{
    const int64_t K = pass->call->gate->K, G = pass->call->a->G;
    for (int64_t row = from; row < to; row++) {
        float *out = sums->out + row * K;
        if (!pass->is_start) memcpy(out, gate_sums_at(sums, row, 0), (size_t)K * sizeof(float));
        for (int64_t g = pass->is_start ? 0 : 1; g < G; g++) {
            float *sum = gate_sums_at(sums, row, g);
            if (pass->is_start)
                memset(sum, 0, (size_t)K * sizeof(float));
            else
                for (int64_t c = 0; c < K; c++) out[c] += sum[c];
        }
    }
}

/* Rows of the outputs that belong to sequences; others are not touched. */
static void gate_pass_item(void *arg, int64_t index, int32_t thread)
{
    (void)thread;
    const gate_pass *pass = arg;
    const focal_attn_args *a = pass->call->a;
    const int64_t q = pass->call->dgq.first + index * GATE_ROWS;
    const int64_t k = pass->call->dgk.first + index * GATE_ROWS;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        gate_pass_rows(pass, &pass->call->dgq, foci_max64(q, seq->q_row),
                       foci_min64(q + GATE_ROWS, seq->q_row + seq->T));
        gate_pass_rows(pass, &pass->call->dgk, foci_max64(k, seq->k_row),
                       foci_min64(k + GATE_ROWS, seq->k_row + seq->S));
    }
}

static void gate_run_pass(focal_ctx *ctx, const gate_call *call, bool is_start)
{
    gate_pass pass = {call, is_start};
    const int64_t rows = foci_max64(call->dgq.rows, call->dgk.rows);
    foci_parallel(ctx, foci_pieces(rows, GATE_ROWS), gate_pass_item, &pass);
}

/* Makes and clears the sums; the rows are those of all sequences. ENOMEM. */
static focal_status gate_begin(focal_ctx *ctx, gate_call *call, const focal_attn_grads *grads)
{
    const focal_attn_seq *first = &call->a->seqs[0];
    const focal_attn_seq *last = &call->a->seqs[call->a->seq_count - 1];
    if (!call->gate) return FOCAL_OK;
    call->stride = foci_round_up(call->gate->K, NR);
    call->t_rows = foci_round_up(call->gate->K, GROUP_ROWS);
    call->dgq = (gate_sums){
        .out = grads->dgq, .first = first->q_row, .rows = last->q_row + last->T - first->q_row};
    call->dgk = (gate_sums){
        .out = grads->dgk, .first = first->k_row, .rows = last->k_row + last->S - first->k_row};
    if (!gate_begin_sums(ctx, call, &call->dgq) || !gate_begin_sums(ctx, call, &call->dgk))
        return FOCAL_ENOMEM;
    gate_run_pass(ctx, call, true);
    return FOCAL_OK;
}

/* Brings the sums of the key heads together where one router serves them all. */
static void gate_finish(focal_ctx *ctx, const gate_call *call)
{
    if (call->dgq.scratch) gate_run_pass(ctx, call, false);
}

static void gate_free(focal_ctx *ctx, const gate_call *call)
{
    foci_scratch_free(ctx, call->dgk.scratch);
    foci_scratch_free(ctx, call->dgq.scratch);
}

#endif /* FOCI_OPS_ATTN_ATTN_GATE_BACKWARD_BODY_H */
