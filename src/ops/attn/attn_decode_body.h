/* Few queries against many keys, written once for every instruction set.
 *
 * With a handful of rows a key is used so seldom that packing it would cost more than the
 * products; keys and values are read where they lie, once, at the speed of memory. The keys are
 * cut into pieces of SPLIT_KEYS, so that all threads have work, each piece gives a partial
 * softmax, and the partial results of a row are merged in the order of their pieces. */
#ifndef FOCI_OPS_ATTN_ATTN_DECODE_BODY_H
#define FOCI_OPS_ATTN_ATTN_DECODE_BODY_H

#include "ops/attn/attn_forward_body.h"

enum {
    SPLIT_KEYS = 512,
    STREAM_KEYS = NR, /* keys at a time */
    ROW_SET = 4       /* rows whose sums stay in registers */
};

/* Rows of some key heads against entries [begin, end) of a list (NULL: positions). */
typedef struct split_item {
    int32_t seq;
    int32_t g, heads;     /* key heads [g, g + heads) */
    int32_t token, tokens;
    const int32_t *list;
    int32_t begin, end;
    int32_t part;         /* PIECE_LOCAL, PIECE_SINKS, or the group */
    int64_t partial;      /* where its first row's result is, in rows */
} split_item;

enum { PIECE_LOCAL = -2, PIECE_SINKS = -1 };

typedef struct split_call {
    const fwd_call *fwd;
    foci_visits *visits;       /* one a sequence */
    split_item *items;
    int64_t item_count;
    int64_t *first_item;       /* (seq_count + 1) */
    float *partial;            /* rows of o_stride + 2: o, sum, minus the maximum */
    int64_t partial_rows;
} split_call;

/* The streamed rows of one key head. */
typedef struct stream {
    const fwd_call *call;
    int32_t rows;
    int64_t q_stride;            /* words of a query row, a multiple of VL */
    float *q;                    /* (STREAM_ROWS, q_stride) */
    float *o;                    /* (STREAM_ROWS, o_stride) */
    float sum[STREAM_ROWS * VL];
    float neg_max[STREAM_ROWS];
    bool is_fresh[STREAM_ROWS];
    int32_t lo[STREAM_ROWS], hi[STREAM_ROWS];
    uint64_t query_mask;         /* shared groups: of the one token, 0 elsewhere */
    float p[STREAM_ROWS * STREAM_KEYS]; /* weights of the keys at hand, packed words */
} stream;

/* Scores of one row against VL keys, one a lane. */
FOCI_INLINE vec score_lanes(const stream *st, int32_t row, const char *const k[VL])
{
    const focal_attn_args *a = st->call->a;
    const float *q = st->q + row * st->q_stride;
    vec part[VL];
    for (int n = 0; n < VL; n++) part[n] = v_zero();
    for (int64_t d = 0; d < a->D; d += VL * PACK) {
        const vec x = v_load(q + d / PACK);
        for (int n = 0; n < VL; n++) part[n] = v_dot(part[n], x, words_at(k[n], a->dtype, d, a->D));
    }
    return v_sum_each(part);
}

/* Weights of one row for STREAM_KEYS keys; bits: those it sees. */
FOCI_INLINE void stream_weights(stream *st, int32_t row, const char *const k[STREAM_KEYS],
                                uint32_t bits)
{
    const float cap = st->call->a->softcap;
    vec x[2];
    for (int n = 0; n < 2; n++) {
        x[n] = score_lanes(st, row, k + n * VL);
        if (cap > 0.0F) x[n] = soft_cap(x[n], cap);
        x[n] = v_select(bits >> n * VL, x[n], v_set1(-INFINITY));
    }
    const float most = v_reduce_max(v_max(x[0], x[1]));
    const float rise = most * log2_e + st->neg_max[row];
    if (st->is_fresh[row] ? most > -INFINITY : rise > margin) {
        if (!st->is_fresh[row]) {
            const vec scale = v_set1(exp2f(-rise));
            float *o = st->o + row * st->call->o_stride;
            for (int64_t d = 0; d < st->call->o_stride; d += VL)
                v_store(o + d, v_mul(v_load(o + d), scale));
            v_store(st->sum + row * VL, v_mul(v_load(st->sum + row * VL), scale));
        }
        st->neg_max[row] = -most * log2_e;
        st->is_fresh[row] = false;
    } else if (isnan(most)) { /* the row is lost: let it show */
        st->is_fresh[row] = false;
    }
    const vec offset = v_set1(st->neg_max[row]);
    for (int n = 0; n < 2; n++) x[n] = v_exp2(v_fma(x[n], v_set1(log2_e), offset));
    v_store(st->sum + row * VL, v_add(v_load(st->sum + row * VL), v_add(x[0], x[1])));
    v_store_packed(st->p + row * (STREAM_KEYS / PACK), x[0], x[1]);
}

/* o += weights x values for rows [first, first + count), count at most ROW_SET. */
FOCI_INLINE void stream_values(stream *st, int32_t first, const int count,
                               const char *const v[STREAM_KEYS], int32_t keys)
{
    const focal_attn_args *a = st->call->a;
    const int64_t stride = st->call->o_stride;
    float *o = st->o + first * stride;
    const float *p = st->p + first * (STREAM_KEYS / PACK);
    for (int64_t column = 0; column < a->Dv; column += NR) {
        vec acc[ROW_SET][2];
        for (int r = 0; r < count; r++) {
            acc[r][0] = v_load(o + r * stride + column);
            acc[r][1] = v_load(o + r * stride + column + VL);
        }
        for (int32_t n = 0; n < keys; n += PACK) {
            vec lo, hi;
            load_columns(v[n], v[n + PACK - 1], a->dtype, column, a->Dv, &lo, &hi);
            v_zip(&lo, &hi);
            for (int r = 0; r < count; r++) {
                const vec weight = v_set1(p[r * (STREAM_KEYS / PACK) + n / PACK]);
                acc[r][0] = v_dot(acc[r][0], weight, lo);
                acc[r][1] = v_dot(acc[r][1], weight, hi);
            }
        }
        for (int r = 0; r < count; r++) {
            v_store(o + r * stride + column, acc[r][0]);
            v_store(o + r * stride + column + VL, acc[r][1]);
        }
    }
}

/* Rows [first, first + count), with the count known to the compiler. */
static void stream_value_rows(stream *st, int32_t first, int32_t count,
                              const char *const v[STREAM_KEYS], int32_t keys)
{
    for (; count >= ROW_SET; count -= ROW_SET, first += ROW_SET)
        stream_values(st, first, ROW_SET, v, keys);
    if (count == 3) stream_values(st, first, 3, v, keys);
    if (count == 2) stream_values(st, first, 2, v, keys);
    if (count == 1) stream_values(st, first, 1, v, keys);
}

/* STREAM_KEYS keys, or the last few: count of them, entries from `entry` on. */
static void stream_keys(stream *st, int32_t entry, int32_t count, const char *const k[STREAM_KEYS],
                        const char *const v[STREAM_KEYS], uint32_t met)
{
    const uint32_t all = interval_bits(0, 0, count) & ~met;
    bool is_whole = met == 0;
    for (int32_t row = 0; row < st->rows; row++) {
        const uint32_t bits = interval_bits(entry, st->lo[row], st->hi[row]) & all;
        is_whole &= bits == all;
        stream_weights(st, row, k, bits);
    }
    if (is_whole) {
        stream_value_rows(st, 0, st->rows, v, count);
        return;
    }
    for (int32_t row = 0; row < st->rows; row++) { /* a row must not meet what it does not see */
        const uint32_t bits = interval_bits(entry, st->lo[row], st->hi[row]) & all;
        const char *seen[STREAM_KEYS];
        for (int n = 0; n < STREAM_KEYS; n++) seen[n] = (bits >> n & 1U) != 0 ? v[n] : NULL;
        stream_value_rows(st, row, 1, seen, count);
    }
}

static void prefetch_rows(const char *const *row, int64_t bytes)
{
    for (int n = 0; n < STREAM_KEYS; n++)
        for (int64_t at = 0; row[n] && at < bytes; at += 64) v_prefetch(row[n] + at);
}

/* Rows of one key head through the item's entries. */
static void stream_item(const split_call *split, const split_item *item, int32_t g, stream *st)
{
    const focal_attn_args *a = split->fwd->a;
    const focal_attn_seq *seq = &a->seqs[item->seq];
    const foci_rows k_rows = foci_attn_k_rows(a, seq, g), v_rows = foci_attn_v_rows(a, seq, g);
    const focal_keys *keys = seq->keys;
    const int32_t router = keys ? foci_router_of(keys->routers, g) : 0;
    const int64_t size = (int64_t)focal_dtype_bytes(a->dtype);
    const char *k[2][STREAM_KEYS], *v[2][STREAM_KEYS];
    int64_t rows[2][STREAM_KEYS];
    for (int32_t entry = item->begin, turn = 0; entry < item->end + STREAM_KEYS;
         entry += STREAM_KEYS, turn ^= 1) {
        /* The next keys are found, and asked for, before these are used. */
        const int32_t next = entry; /* of this turn; the turn before is worked on */
        for (int n = 0; n < STREAM_KEYS; n++) {
            k[turn][n] = v[turn][n] = NULL;
            if (next + n >= item->end) continue;
            rows[turn][n] = item->list ? item->list[next + n]
                                       : foci_position_row(keys, router, next + n);
            k[turn][n] = foci_row(&k_rows, rows[turn][n]);
            v[turn][n] = foci_row(&v_rows, rows[turn][n]);
        }
        prefetch_rows(k[turn], a->D * size);
        prefetch_rows(v[turn], a->Dv * size);
        if (entry == item->begin) continue;
        const int32_t at = entry - STREAM_KEYS;
        const int32_t count = (int32_t)foci_min64(item->end - at, STREAM_KEYS);
        uint32_t met = 0;
        const char **last_k = k[turn ^ 1];
        if (st->query_mask != 0)
            for (int n = 0; n < count; n++)
                if (!foci_meets_in(st->query_mask,
                                   keys->key_mask[router * keys->key_mask_stride + rows[turn ^ 1][n]],
                                   item->part))
                    met |= 1U << n;
        for (int n = count; n < STREAM_KEYS; n++) last_k[n] = last_k[0]; /* any row: not seen */
        stream_keys(st, at, count, last_k, v[turn ^ 1], met);
    }
}

/* The entries of the item that each of its rows sees. */
static void split_intervals(const split_call *split, const split_item *item, int32_t *lo,
                            int32_t *hi)
{
    const fwd_call *call = split->fwd;
    for (int32_t n = 0; n < item->tokens * call->group; n++) {
        const foci_local local = foci_attn_local(call->a, &call->a->seqs[item->seq],
                                                 item->token + n / call->group);
        lo[n] = item->part == PIECE_LOCAL ? local.lo : 0;
        hi[n] = item->part == PIECE_LOCAL   ? local.hi
                : item->part == PIECE_SINKS ? local.sink_hi
                                            : item->end;
        lo[n] = (int32_t)foci_max64(lo[n], item->begin);
        hi[n] = (int32_t)foci_max64(foci_min64(hi[n], item->end), lo[n]);
    }
}

static void keep_partial(const fwd_call *call, float *to, const float *o, const float *sum,
                         float neg_max, bool is_fresh)
{
    memcpy(to, o, (size_t)call->o_stride * sizeof *to);
    to[call->o_stride] = is_fresh ? 0.0F : v_reduce_add(v_load(sum));
    to[call->o_stride + 1] = is_fresh ? INFINITY : neg_max;
}

/* Many rows: packed, like a block of the long way. */
static void split_packed(const split_call *split, const split_item *item, int32_t g,
                         const fwd_scratch *s, float *partial)
{
    const fwd_call *call = split->fwd;
    const fwd_item block = {item->seq, g, item->token, item->tokens, 0};
    const int64_t rows = (int64_t)item->tokens * call->group;
    begin_block(call, &block, rows, s);
    split_intervals(split, item, s->lo, s->hi);
    attend_list(call, &block, rows, item->list, s);
    for (int64_t n = 0; n < rows; n++)
        keep_partial(call, partial + n * (call->o_stride + 2), s->o + n * call->o_stride,
                     s->sum + n * VL, s->neg_max[n], (s->fresh[n / MR] >> n % MR & 1U) != 0);
}

static void split_streamed(const split_call *split, const split_item *item, int32_t g,
                           const fwd_scratch *s, float *partial)
{
    const fwd_call *call = split->fwd;
    const focal_attn_args *a = call->a;
    const fwd_item block = {item->seq, g, item->token, item->tokens, 0};
    const focal_keys *keys = a->seqs[item->seq].keys;
    stream st = {.call = call, .rows = item->tokens * call->group, .q = s->q, .o = s->o};
    st.q_stride = foci_round_up(call->q_words, VL);
    memset(st.q, 0, (size_t)(st.rows * st.q_stride) * sizeof *st.q);
    memset(st.o, 0, (size_t)(st.rows * call->o_stride) * sizeof *st.o);
    for (int32_t n = 0; n < st.rows; n++) {
        pack_row(st.q + n * st.q_stride,
                 q_row_at(call, &block, item->token + n / call->group, n % call->group), a->dtype,
                 a->D);
        st.is_fresh[n] = true;
    }
    split_intervals(split, item, st.lo, st.hi);
    if (item->part > 0 && keys->mode == FOCAL_SHARED)
        st.query_mask =
            keys->query_mask[(int64_t)foci_router_of(keys->routers, g) * keys->T + item->token];
    stream_item(split, item, g, &st);
    for (int32_t n = 0; n < st.rows; n++)
        keep_partial(call, partial + n * (call->o_stride + 2), st.o + n * call->o_stride,
                     st.sum + n * VL, st.neg_max[n], st.is_fresh[n]);
}

static void split_work(void *arg, int64_t index, int32_t thread)
{
    const split_call *split = arg;
    const split_item *item = &split->items[index];
    const fwd_call *call = split->fwd;
    const int64_t rows = (int64_t)item->tokens * call->group;
    fwd_scratch s;
    (void)lay_out(call, foci_max64(rows, STREAM_ROWS), false,
                  call->scratch + thread * call->scratch_bytes, &s);
    for (int32_t n = 0; n < item->heads; n++) {
        float *partial = split->partial + (item->partial + n * rows) * (call->o_stride + 2);
        if (rows <= STREAM_ROWS) split_streamed(split, item, item->g + n, &s, partial);
        else split_packed(split, item, item->g + n, &s, partial);
    }
}

/* Adds the pieces of entries [begin, end): one item for all heads where there are pieces enough,
 * one a head otherwise. items NULL only counts. */
static void add_pieces(const fwd_call *call, split_call *split, split_item *items, split_item item,
                       int32_t begin, int32_t end, int32_t heads)
{
    const int32_t first = begin / SPLIT_KEYS * SPLIT_KEYS;
    const bool is_joint = foci_pieces(end - first, SPLIT_KEYS) >= 8;
    for (int32_t at = first; at < end; at += SPLIT_KEYS) {
        for (int32_t n = 0; n < heads; n += item.heads) {
            split_item piece = item;
            piece.g = item.g + n;
            piece.heads = item.heads = is_joint ? heads : 1;
            piece.begin = (int32_t)foci_max64(at, begin);
            piece.end = (int32_t)foci_min64(at + SPLIT_KEYS, end);
            piece.partial = split->partial_rows;
            split->partial_rows += (int64_t)piece.heads * piece.tokens * call->group;
            if (items) items[split->item_count] = piece;
            split->item_count++;
        }
    }
}

/* The pieces of one sequence: window, sinks, then each query's groups. */
static void add_sequence(const fwd_call *call, split_call *split, split_item *items, int32_t n)
{
    const focal_attn_args *a = call->a;
    const focal_attn_seq *seq = &a->seqs[n];
    const focal_keys *keys = seq->keys;
    const foci_local first = foci_attn_local(a, seq, 0), last = foci_attn_local(a, seq, seq->T - 1);
    const split_item all = {.seq = n, .heads = 1, .tokens = seq->T, .part = PIECE_LOCAL};
    add_pieces(call, split, items, all, first.lo, last.hi, a->G);
    split_item sinks = all;
    sinks.part = PIECE_SINKS;
    add_pieces(call, split, items, sinks, 0, last.sink_hi, a->G);
    for (int32_t r = 0; keys && r < keys->routers; r++) {
        const int32_t *begin = split->visits[n].begin + r * ((int64_t)keys->T + 1);
        for (int32_t token = 0; token < seq->T; token++) {
            for (int32_t visit = begin[token]; visit < begin[token + 1]; visit++) {
                const int64_t at = r * split->visits[n].stride + visit;
                split_item group = {.seq = n, .g = r, .heads = 1, .token = token, .tokens = 1};
                group.part = split->visits[n].group[at];
                group.list = keys->key_row + r * keys->key_stride +
                             keys->key_begin[(int64_t)r * keys->K + group.part];
                add_pieces(call, split, items, group, 0, split->visits[n].end[at],
                           keys->routers == 1 ? a->G : 1);
            }
        }
    }
}

/* One query of a sequence: every head's partial results, merged in the order of the pieces. */
static void merge_query(const split_call *split, int32_t n, int32_t token, fwd_scratch *s)
{
    const fwd_call *call = split->fwd;
    const int64_t width = call->o_stride + 2;
    for (int32_t g = 0; g < call->a->G; g++) {
        const fwd_item block = {n, g, token, 1, 0};
        begin_block(call, &block, call->group, s);
        for (int64_t at = split->first_item[n]; at < split->first_item[n + 1]; at++) {
            const split_item *item = &split->items[at];
            if (g < item->g || g >= item->g + item->heads || token < item->token ||
                token >= item->token + item->tokens)
                continue;
            const int64_t first = item->partial +
                                  (int64_t)(g - item->g) * item->tokens * call->group +
                                  (int64_t)(token - item->token) * call->group;
            for (int32_t row = 0; row < call->group; row++) {
                const float *from = split->partial + (first + row) * width;
                const float neg_max = from[call->o_stride + 1];
                if (neg_max == INFINITY) continue; /* it saw no key */
                const bool is_first = (s->fresh[row / MR] >> row % MR & 1U) != 0;
                const float least = is_first || neg_max < s->neg_max[row] ? neg_max : s->neg_max[row];
                const float old = is_first ? 0.0F : exp2f(least - s->neg_max[row]);
                const float new = exp2f(least - neg_max);
                float *o = s->o + row * call->o_stride;
                for (int64_t d = 0; d < call->o_stride; d++) o[d] = o[d] * old + from[d] * new;
                s->sum[row * VL] = s->sum[row * VL] * old + from[call->o_stride] * new;
                s->neg_max[row] = least;
                s->fresh[row / MR] &= ~(1U << row % MR);
            }
        }
        finish_block(call, &block, call->group, s);
    }
}

static void merge_work(void *arg, int64_t index, int32_t thread)
{
    const split_call *split = arg;
    const fwd_call *call = split->fwd;
    fwd_scratch s;
    (void)lay_out(call, foci_max64(call->group, STREAM_ROWS), false,
                  call->scratch + thread * call->scratch_bytes, &s);
    for (int32_t n = 0; n < call->a->seq_count; n++) {
        if (!is_split(call->a, n)) continue;
        const int32_t T = call->a->seqs[n].T;
        if (index < T) {
            merge_query(split, n, (int32_t)index, &s);
            return;
        }
        index -= T;
    }
}

static focal_status run_split_items(const fwd_call *call, split_call *split)
{
    const focal_attn_args *a = call->a;
    int64_t queries = 0;
    for (int pass = 0; pass < 2; pass++) { /* count, then fill */
        split->item_count = split->partial_rows = queries = 0;
        for (int32_t n = 0; n < a->seq_count; n++) {
            split->first_item[n] = split->item_count;
            if (!is_split(a, n)) continue;
            add_sequence(call, split, split->items, n);
            queries += a->seqs[n].T;
        }
        split->first_item[a->seq_count] = split->item_count;
        if (pass > 0) break;
        split->items = foci_scratch(call->ctx, (size_t)split->item_count, sizeof *split->items);
        split->partial = foci_scratch(call->ctx, (size_t)split->partial_rows,
                                      (size_t)(call->o_stride + 2) * sizeof *split->partial);
        if (!split->items || !split->partial) return FOCAL_ENOMEM;
    }
    foci_parallel(call->ctx, split->item_count, split_work, split);
    foci_parallel(call->ctx, queries, merge_work, split);
    return FOCAL_OK;
}

/* All sequences of the call whose keys are split. call->scratch is there. */
static focal_status run_split(const fwd_call *call)
{
    const focal_attn_args *a = call->a;
    const size_t count = (size_t)a->seq_count;
    split_call split = {.fwd = call};
    split.visits = foci_scratch(call->ctx, count, sizeof *split.visits);
    split.first_item = foci_scratch(call->ctx, count + 1, sizeof *split.first_item);
    focal_status status = split.visits && split.first_item ? FOCAL_OK : FOCAL_ENOMEM;
    if (split.visits) memset(split.visits, 0, count * sizeof *split.visits);
    for (int32_t n = 0; status == FOCAL_OK && n < a->seq_count; n++)
        if (is_split(a, n) && a->seqs[n].keys)
            status = foci_visits_make(call->ctx, a->seqs[n].keys, &split.visits[n]);
    if (status == FOCAL_OK) status = run_split_items(call, &split);
    for (int32_t n = 0; split.visits && n < a->seq_count; n++)
        foci_scratch_free(call->ctx, split.visits[n].begin);
    foci_scratch_free(call->ctx, split.partial);
    foci_scratch_free(call->ctx, split.items);
    foci_scratch_free(call->ctx, split.first_item);
    foci_scratch_free(call->ctx, split.visits);
    return status;
}

static focal_status run_forward(fwd_call *call)
{
    const focal_attn_args *a = call->a;
    int32_t split_count = 0;
    for (int32_t n = 0; n < a->seq_count; n++) split_count += is_split(a, n);
    for (int32_t n = 0; n < a->seq_count; n++) {
        const bool splits = is_split(a, n);
        const int64_t tokens =
            splits ? a->seqs[n].T : foci_min64(block_tokens(call, &a->seqs[n]), a->seqs[n].T);
        const int64_t rows = foci_max64(tokens * call->group, STREAM_ROWS);
        fwd_scratch s;
        const int64_t bytes = lay_out(call, rows, !splits && a->seqs[n].keys, NULL, &s);
        call->scratch_bytes = foci_max64(call->scratch_bytes, bytes);
    }
    call->scratch = foci_scratch(call->ctx, (size_t)focal_ctx_threads(call->ctx),
                                 (size_t)call->scratch_bytes);
    if (!call->scratch) return FOCAL_ENOMEM;
    if (split_count < a->seq_count) FOCAL_TRY(run_blocks(call));
    return split_count > 0 ? run_split(call) : FOCAL_OK;
}

static focal_status forward(focal_ctx *ctx, const focal_attn_args *args)
{
    fwd_call call = {.ctx = ctx, .a = args, .group = args->H / args->G};
    call.q_words = words_of(args->D);
    call.v_panels = foci_pieces(args->Dv, NR);
    call.o_stride = call.v_panels * NR;
    call.panel_words = call.q_words * NR + call.v_panels * (NR / PACK) * NR;
    const focal_status status = run_forward(&call);
    foci_scratch_free(ctx, call.scratch);
    foci_scratch_free(ctx, call.items);
    free_groups(&call);
    return status;
}

#endif /* FOCI_OPS_ATTN_ATTN_DECODE_BODY_H */
