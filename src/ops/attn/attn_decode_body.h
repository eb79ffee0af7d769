/* Few queries against many keys, written once for every instruction set.
 *
 * With a handful of rows a key is used so seldom that packing it would cost more than the
 * products; keys and values are read where they lie, once, at the speed of memory. The keys are
 * cut into pieces, so that all threads have work, each piece gives a partial
 * softmax, and the partial results of a row are merged in the order of their pieces. */
#ifndef FOCI_OPS_ATTN_ATTN_DECODE_BODY_H
#define FOCI_OPS_ATTN_ATTN_DECODE_BODY_H

#include "ops/attn/attn_forward_body.h"

enum {
    SPLIT_LEAST = 512, /* keys of a piece: the start of each, which nobody asked for, shows */
    SPLIT_MOST = 2048,
    SPLIT_PIECES = 16,             /* as many as that, between these */
    STREAM_KEYS = NR,              /* keys at a time */
    ROW_SET = 4,                   /* rows whose sums stay in registers */
    VALUE_SETS = VL == 16 ? 2 : 1, /* panels of columns likewise: 16 of 32 registers, 8 of 16 */
    MAX_BLOCKS = FOCAL_MAX_HEAD_WIDTH / Q8_LEVELS
};

/* Rows of some key heads against entries [begin, end) of a list (NULL: positions). */
typedef struct split_item {
    int32_t seq;
    int32_t g, heads; /* key heads [g, g + heads) */
    int32_t token, tokens;
    const int32_t *list;
    int32_t begin, end;
    int32_t part;    /* PIECE_LOCAL, PIECE_SINKS, or the group */
    int64_t partial; /* where its first row's result is, in rows */
} split_item;

enum { PIECE_LOCAL = -2, PIECE_SINKS = -1 };

typedef struct split_call {
    const fwd_call *fwd;
    foci_visits *visits; /* one a sequence */
    split_item *items;
    int64_t item_count;
    int64_t *first_item; /* (seq_count + 1) */
    float *partial;      /* rows of o_stride + 2: o, sum, minus the maximum */
    int64_t partial_rows;
} split_call;

/* Where STREAM_KEYS keys and values lie, and which rows of k and v they are. */
typedef struct stream_turn {
    const char *k[STREAM_KEYS], *v[STREAM_KEYS];
    int64_t row[STREAM_KEYS];
} stream_turn;

/* The streamed rows of one key head. */
typedef struct stream {
    const fwd_call *call;
    int32_t rows;
    int64_t k_bytes, v_bytes; /* of one row of a key head */
    int64_t q_stride;         /* words of a query row, a multiple of VL */
    float *q;                 /* (STREAM_ROWS, q_stride) */
    float *o;                 /* (STREAM_ROWS, o_stride) */
    float sum[STREAM_ROWS * VL];
    float neg_max[STREAM_ROWS];
    bool is_fresh[STREAM_ROWS];
    int32_t lo[STREAM_ROWS], hi[STREAM_ROWS];
    uint32_t seen[STREAM_ROWS]; /* bits of the keys at hand */
    uint64_t query_mask;        /* shared groups: of the one token, 0 elsewhere */
    float *s;                   /* (STREAM_ROWS, STREAM_KEYS) scores of the keys at hand */
    float *p; /* (STREAM_ROWS, STREAM_KEYS / PACK) and weights, packed words; with q8_0 floats */
    float
        q_unit[STREAM_ROWS]; /* with q8_0: of queries as integers, and what bytes without a sign */
    int32_t q_bias[STREAM_ROWS][MAX_BLOCKS]; /* add to their products */
} stream;

/* How keys and values in q8_0 are streamed: once a head, then for VL keys (from `half` of the turn
 * on) and for the values of a turn, `count` of them. */
typedef struct q8_stream {
    void (*begin)(stream *st);
    void (*scores)(const stream *st, const stream_turn *turn, const stream_turn *next, int half);
    void (*values)(stream *st, stream_turn *turn, const stream_turn *next, int32_t count);
} q8_stream;

/* VL words of a row, all there. */
FOCI_INLINE vec whole_words(const char *row, int64_t at, const focal_dtype dtype)
{
    if (PACK == 2) return v_load_words(row + 2 * at);
    if (dtype == FOCAL_F32) return v_load_words(row + 4 * at);
    return v_load_bf16((const uint16_t *)(const void *)(row + 2 * at));
}

/* Asks for a row (NULL: none) that the next turn reads. A line or two between the products: memory
 * must never rest, and of a burst of requests most are dropped. (Loads that run ahead instead,
 * and an order of loads that suits the hardware's own prefetching, reached half the speed.) */
FOCI_INLINE void ask_for(const char *row, int64_t bytes)
{
    if (!row) return;
    for (int64_t at = 0; at < bytes; at += 64) v_prefetch_far(row + at);
}

/* Scores of rows [first, first + count) against VL keys: lane n of scores[r], NR apart, is key n.
 * Four keys at a time, so that each is loaded once for all rows; is_even: rows are whole
 * vectors. */
FOCI_INLINE void score_lanes(const stream *st, int32_t first, const int count,
                             const char *const k[VL], const char *const next[VL], float *scores,
                             const focal_dtype dtype, const bool is_even)
{
    const int64_t D = st->call->a->D;
    const float *q = st->q + first * st->q_stride;
    vec sums[ROW_SET][VL / 4];
#pragma GCC unroll 4
    for (int four = 0; four < VL / 4; four++) {
        vec part[ROW_SET][4];
#pragma GCC unroll 4
        for (int r = 0; r < count; r++) {
#pragma GCC unroll 4
            for (int n = 0; n < 4; n++) part[r][n] = v_zero();
        }
#pragma GCC unroll 4
        for (int n = 0; n < 4; n++) {
            const char *key = k[4 * four + n];
            if (first == 0) ask_for(next[4 * four + n], st->k_bytes);
            for (int64_t d = 0; d < D; d += (int64_t)VL * PACK) {
                const vec x = is_even ? whole_words(key, d, dtype) : words_at(key, dtype, d, D);
#pragma GCC unroll 4
                for (int r = 0; r < count; r++)
                    part[r][n] = v_dot(part[r][n], v_load(q + r * st->q_stride + d / PACK), x);
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < count; r++)
            sums[r][four] = v_sum_quarters(part[r][0], part[r][1], part[r][2], part[r][3]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < count; r++)
        v_store(scores + (int64_t)r * STREAM_KEYS, v_sum_lanes(sums[r]));
}

/* The rows in sets, against VL keys. */
FOCI_INLINE void score_sets(const stream *st, const char *const k[VL], const char *const next[VL],
                            float *scores, const focal_dtype dtype, const bool is_even)
{
    int32_t first = 0, count = st->rows;
    for (; count >= ROW_SET; count -= ROW_SET, first += ROW_SET)
        score_lanes(st, first, ROW_SET, k, next, scores + (int64_t)first * STREAM_KEYS, dtype,
                    is_even);
    float *to = scores + (int64_t)first * STREAM_KEYS;
    if (count == 3) score_lanes(st, first, 3, k, next, to, dtype, is_even);
    if (count == 2) score_lanes(st, first, 2, k, next, to, dtype, is_even);
    if (count == 1) score_lanes(st, first, 1, k, next, to, dtype, is_even);
}

/* The same for keys [half, half + VL) of the turn, with what decides the inner loop known to the
 * compiler. */
static void stream_scores(const stream *st, const stream_turn *turn, const stream_turn *next,
                          int half)
{
    const focal_attn_args *a = st->call->a;
    const bool is_even = a->D % (VL * PACK) == 0;
    float *to = st->s + half;
    if (a->dtype == FOCAL_F32) {
        if (is_even)
            score_sets(st, turn->k + half, next->k + half, to, FOCAL_F32, true);
        else
            score_sets(st, turn->k + half, next->k + half, to, FOCAL_F32, false);
    } else if (is_even) {
        score_sets(st, turn->k + half, next->k + half, to, FOCAL_BF16, true);
    } else {
        score_sets(st, turn->k + half, next->k + half, to, FOCAL_BF16, false);
    }
}

/* A row's first maximum, or one that its scores exceed by the margin. */
static __attribute__((noinline)) void stream_maximum(stream *st, int32_t row, float most)
{
    if (most == -INFINITY) return;
    if (!st->is_fresh[row]) {
        const vec scale = v_set1(exp2f(-(most * log2_e + st->neg_max[row])));
        float *o = st->o + row * st->call->o_stride;
        for (int64_t d = 0; d < st->call->o_stride; d += VL)
            v_store(o + d, v_mul(v_load(o + d), scale));
        v_store(st->sum + (int64_t)row * VL, v_mul(v_load(st->sum + (int64_t)row * VL), scale));
    }
    st->neg_max[row] = -most * log2_e;
    st->is_fresh[row] = false;
}

/* Weights of one row for STREAM_KEYS keys; bits: those it sees. */
FOCI_INLINE void stream_weights(stream *st, int32_t row, uint32_t bits)
{
    const float cap = st->call->a->softcap;
    vec x[2];
    for (int n = 0; n < 2; n++) {
        x[n] = v_load(st->s + (int64_t)row * STREAM_KEYS + (int64_t)n * VL);
        if (cap > 0.0F) x[n] = soft_cap(x[n], cap);
        x[n] = v_select(bits >> n * VL, x[n], v_set1(-INFINITY));
    }
    vec y[2];
    for (int n = 0; n < 2; n++) y[n] = v_fma(x[n], v_set1(log2_e), v_set1(st->neg_max[row]));
    const uint32_t over =
        v_greater(y[0], v_set1(margin)) | v_greater(y[1], v_set1(margin)) | st->is_fresh[row];
    if (__builtin_expect(over != 0, 0)) {
        stream_maximum(st, row, largest_score(x[0], x[1]));
        for (int n = 0; n < 2; n++) y[n] = v_fma(x[n], v_set1(log2_e), v_set1(st->neg_max[row]));
    }
    for (int n = 0; n < 2; n++) y[n] = v_exp2(y[n]);
    v_store(st->sum + (int64_t)row * VL,
            v_add(v_load(st->sum + (int64_t)row * VL), v_add(y[0], y[1])));
    if (PACK == 2 && st->call->a->has_q8_keys) /* to be scaled before they are packed */
        for (int n = 0; n < 2; n++)
            v_store(st->p + (int64_t)row * STREAM_KEYS + (int64_t)n * VL, y[n]);
    else
        v_store_packed(st->p + (int64_t)row * (STREAM_KEYS / PACK), y[0], y[1]);
}

/* o += weights x values for rows [first, first + count), count at most ROW_SET; is_even: rows are
 * whole pairs of vectors and none is missing. */
FOCI_INLINE void stream_values(stream *st, int32_t first, const int count, const char *const v[],
                               const char *const next[], const float *weights, int32_t keys,
                               const focal_dtype dtype, const bool is_even)
{
    const int sets = is_even ? VALUE_SETS : 1; /* panels of columns at a time */
    const int64_t Dv = st->call->a->Dv, stride = st->call->o_stride;
    float *o = st->o + first * stride;
    const float *p = weights + (int64_t)first * (STREAM_KEYS / PACK);
    for (int64_t column = 0; column < Dv; column += (int64_t)sets * NR) {
        vec acc[ROW_SET][2 * VALUE_SETS];
#pragma GCC unroll 4
        for (int r = 0; r < count; r++) {
#pragma GCC unroll 4
            for (int c = 0; c < 2 * sets; c++)
                acc[r][c] = v_load(o + r * stride + column + (int64_t)c * VL);
        }
        for (int32_t n = 0; n < keys; n += PACK) {
            if (first == 0 && column == 0) {
                ask_for(next[n], st->v_bytes);
                if (PACK == 2) ask_for(next[n + 1], st->v_bytes);
            }
#pragma GCC unroll 2
            for (int c = 0; c < sets; c++) {
                const int64_t at = column + (int64_t)c * NR;
                vec lo, hi;
                if (is_even) {
                    lo = whole_words(v[n], at, dtype);
                    hi = whole_words(v[n + PACK - 1], at + (PACK == 1 ? VL : 0), dtype);
                } else {
                    load_columns(v[n], v[n + PACK - 1], dtype, at, Dv, &lo, &hi);
                }
                v_zip(&lo, &hi);
#pragma GCC unroll 4
                for (int r = 0; r < count; r++) {
                    const vec weight = v_set1(p[r * (STREAM_KEYS / PACK) + n / PACK]);
                    acc[r][(int64_t)2 * c] = v_dot(acc[r][(int64_t)2 * c], weight, lo);
                    acc[r][2 * c + 1] = v_dot(acc[r][2 * c + 1], weight, hi);
                }
            }
        }
#pragma GCC unroll 4
        for (int r = 0; r < count; r++) {
#pragma GCC unroll 4
            for (int c = 0; c < 2 * sets; c++)
                v_store(o + r * stride + column + (int64_t)c * VL, acc[r][c]);
        }
    }
}

/* Rows [first, first + count) in sets, with what decides the inner loop known to the compiler. */
FOCI_INLINE void stream_sets(stream *st, int32_t first, int32_t count, const char *const v[],
                             const char *const next[], const float *weights, int32_t keys,
                             const focal_dtype dtype, const bool is_even)
{
    for (; count >= ROW_SET; count -= ROW_SET, first += ROW_SET)
        stream_values(st, first, ROW_SET, v, next, weights, keys, dtype, is_even);
    if (count == 3) stream_values(st, first, 3, v, next, weights, keys, dtype, is_even);
    if (count == 2) stream_values(st, first, 2, v, next, weights, keys, dtype, is_even);
    if (count == 1) stream_values(st, first, 1, v, next, weights, keys, dtype, is_even);
}

/* `keys` keys of the turn from `half` on; is_whole: no value is missing. */
static void stream_value_rows(stream *st, int32_t first, int32_t count, const char *const v[],
                              const char *const next[], int half, int32_t keys, bool is_whole)
{
    const bool is_even = is_whole && st->call->a->Dv % (VALUE_SETS * NR) == 0 && keys % PACK == 0;
    const float *weights = st->p + half / PACK;
    if (st->call->a->dtype == FOCAL_F32) {
        if (is_even)
            stream_sets(st, first, count, v, next, weights, keys, FOCAL_F32, true);
        else
            stream_sets(st, first, count, v, next, weights, keys, FOCAL_F32, false);
    } else if (is_even) {
        stream_sets(st, first, count, v, next, weights, keys, FOCAL_BF16, true);
    } else {
        stream_sets(st, first, count, v, next, weights, keys, FOCAL_BF16, false);
    }
}

#include "ops/attn/attn_decode_q8_body.h"

/* What a piece reads: its rows, and the list that names them. */
typedef struct stream_source {
    foci_rows k_rows, v_rows;
    const split_item *item;
    const focal_keys *keys;
    int32_t router;
} stream_source;

/* The row of k and v that an entry names. */
static int64_t row_of_entry(const stream_source *source, int32_t entry)
{
    if (source->item->list) return source->item->list[entry];
    return foci_position_row(source->keys, source->router, entry);
}

/* Finds the keys from `entry` on, up to STREAM_KEYS; NULL past the last. Rows that follow each
 * other in a page lie side by side, so only the first of them is looked up: to divide by the rows
 * of a page costs more than to multiply a key. */
static void find_keys(const stream_source *source, int32_t entry, stream_turn *turn)
{
    const int32_t count =
        (int32_t)foci_max64(foci_min64(source->item->end - entry, STREAM_KEYS), 0);
    for (int32_t n = count; n < STREAM_KEYS; n++) turn->k[n] = turn->v[n] = NULL;
    for (int32_t n = 0; n < count;) {
        int64_t row = row_of_entry(source, entry + n);
        const int32_t end = (int32_t)foci_min64(count, n + foci_rows_in_line(&source->k_rows, row));
        const char *k = foci_row(&source->k_rows, row), *v = foci_row(&source->v_rows, row);
        do {
            turn->row[n] = row++;
            turn->k[n] = k;
            turn->v[n] = v;
            k += source->k_rows.row_bytes;
            v += source->v_rows.row_bytes;
        } while (++n < end && row_of_entry(source, entry + n) == row);
    }
}

/* Bits of the keys that a shared set met in a lower group. */
static uint32_t met_before(const stream *st, const stream_source *source, const stream_turn *turn,
                           int32_t count)
{
    if (st->query_mask == 0) return 0;
    const focal_keys *keys = source->keys;
    const uint64_t *key_mask = keys->key_mask + source->router * keys->key_mask_stride;
    uint32_t met = 0;
    for (int32_t n = 0; n < count; n++)
        if (!foci_meets_in(st->query_mask, key_mask[turn->row[n]], source->item->part))
            met |= 1U << n;
    return met;
}

/* Weights of all rows for the turn's keys, `count` of them from `entry` on, less those that were
 * met before. Returns whether every row sees every key. */
static bool stream_turn_weights(stream *st, int32_t entry, int32_t count, uint32_t met)
{
    const uint32_t all = interval_bits(0, 0, count) & ~met;
    bool is_whole = met == 0;
    for (int32_t row = 0; row < st->rows; row++) {
        const uint32_t bits = interval_bits(entry, st->lo[row], st->hi[row]) & all;
        is_whole &= bits == all;
        st->seen[row] = bits;
        stream_weights(st, row, bits);
    }
    return is_whole;
}

/* Values of the turn from `half` on, VL of them or the last few. */
static void stream_half(stream *st, const stream_turn *turn, const stream_turn *next, int half,
                        int32_t count, bool is_whole)
{
    const int32_t keys = (int32_t)foci_min64(count - half, VL);
    if (keys <= 0) return;
    if (is_whole) {
        stream_value_rows(st, 0, st->rows, turn->v + half, next->v + half, half, keys, true);
        return;
    }
    for (int32_t row = 0; row < st->rows; row++) { /* a row must not meet what it does not see */
        const char *seen[VL];
        for (int n = 0; n < VL; n++)
            seen[n] = (st->seen[row] >> (half + n) & 1U) != 0 ? turn->v[half + n] : NULL;
        stream_value_rows(st, row, 1, seen, next->v + half, half, keys, false);
    }
}

/* Rows of the item's key heads through its entries: VL keys of one head, then of the next. after:
 * what this thread reads next, presumably; its first keys are asked for with the last ones here. */
static void stream_item(const split_item *item, const stream_source *sources, stream *streams,
                        const stream_source *after, int32_t after_heads, const q8_stream *q8)
{
    stream_turn turns[2][STREAM_HEADS];
    for (int32_t h = 0; h < item->heads; h++) {
        find_keys(&sources[h], item->begin, &turns[0][h]);
        for (int n = 0; n < STREAM_KEYS; n++) {
            ask_for(turns[0][h].k[n], streams[h].k_bytes);
            ask_for(turns[0][h].v[n], streams[h].v_bytes);
        }
    }
    for (int32_t entry = item->begin, n = 0; entry < item->end; entry += STREAM_KEYS, n ^= 1) {
        const int32_t count = (int32_t)foci_min64(item->end - entry, STREAM_KEYS);
        stream_turn *turn = turns[n], *next = turns[n ^ 1];
        bool is_whole[STREAM_HEADS];
        for (int32_t h = 0; h < item->heads; h++) {
            const bool is_last = entry + STREAM_KEYS >= item->end && h < after_heads;
            if (is_last)
                find_keys(&after[h], after[h].item->begin, &next[h]);
            else
                find_keys(&sources[h], entry + STREAM_KEYS, &next[h]);
            for (int32_t m = count; m < STREAM_KEYS; m++)
                turn[h].k[m] = turn[h].k[0]; /* not seen */
        }
        for (int half = 0; half < STREAM_KEYS; half += VL)
            for (int32_t h = 0; h < item->heads; h++)
                if (q8)
                    q8->scores(&streams[h], &turn[h], &next[h], half);
                else
                    stream_scores(&streams[h], &turn[h], &next[h], half);
        for (int32_t h = 0; h < item->heads; h++)
            is_whole[h] = stream_turn_weights(
                &streams[h], entry, count, met_before(&streams[h], &sources[h], &turn[h], count));
        for (int32_t h = 0; q8 && h < item->heads; h++)
            q8->values(&streams[h], &turn[h], &next[h], count);
        for (int half = 0; !q8 && half < STREAM_KEYS; half += VL)
            for (int32_t h = 0; h < item->heads; h++)
                stream_half(&streams[h], &turn[h], &next[h], half, count, is_whole[h]);
    }
}

/* The entries of the item that each of its rows sees. */
static void split_intervals(const split_call *split, const split_item *item, int32_t *lo,
                            int32_t *hi)
{
    const fwd_call *call = split->fwd;
    for (int32_t n = 0; n < item->tokens * call->group; n++) {
        const foci_local local =
            foci_attn_local(call->a, &call->a->seqs[item->seq], item->token + n / call->group);
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
    attend_begin();
    attend_list(call, &block, rows, item->list, 0, s);
    attend_end();
    for (int64_t n = 0; n < rows; n++)
        keep_partial(call, partial + n * (call->o_stride + 2), s->o + n * call->o_stride,
                     s->sum + n * VL, s->neg_max[n],
                     (s->fresh[n / STRIP_ROWS] >> n % STRIP_ROWS & 1U) != 0);
}

/* One head's part of a streamed item: its queries packed, nothing summed yet. */
static void begin_stream(const split_call *split, const split_item *item, int32_t g,
                         const fwd_scratch *s, int32_t h, stream *st)
{
    const fwd_call *call = split->fwd;
    const focal_attn_args *a = call->a;
    const fwd_item block = {item->seq, g, item->token, item->tokens, 0};
    const focal_keys *keys = a->seqs[item->seq].keys;
    const int64_t q_bytes = a->D * (int64_t)focal_dtype_bytes(a->dtype);
    *st = (stream){.call = call, .rows = item->tokens * call->group};
    st->k_bytes = foci_attn_kv_bytes(a, a->D);
    st->v_bytes = foci_attn_kv_bytes(a, a->Dv);
    st->q_stride = foci_round_up(call->q_words, VL);
    st->q = s->q + (int64_t)h * st->rows * st->q_stride;
    st->o = s->o + (int64_t)h * st->rows * call->o_stride;
    st->s = s->weights + (int64_t)h * 2 * st->rows * STREAM_KEYS;
    st->p = st->s + (int64_t)st->rows * STREAM_KEYS;
    memset(st->q, 0, (size_t)(st->rows * st->q_stride) * sizeof *st->q);
    memset(st->o, 0, (size_t)(st->rows * call->o_stride) * sizeof *st->o);
    for (int32_t n = 0; n < st->rows; n++) {
        const char *q = q_row_at(call, &block, item->token + n / call->group);
        pack_row(st->q + n * st->q_stride, q + n % call->group * q_bytes, a->dtype, a->D);
        st->is_fresh[n] = true;
    }
    if (a->has_q8_keys) call->q8->begin(st);
    split_intervals(split, item, st->lo, st->hi);
    if (item->part > 0 && keys->mode == FOCAL_SHARED)
        st->query_mask =
            keys->query_mask[(int64_t)foci_router_of(keys->routers, g) * keys->T + item->token];
}

/* Where each head of an item finds its keys. */
static void find_sources(const fwd_call *call, const split_item *item, stream_source *sources)
{
    const focal_attn_args *a = call->a;
    const focal_attn_seq *seq = &a->seqs[item->seq];
    for (int32_t h = 0; h < item->heads; h++) {
        const int32_t g = item->g + h;
        sources[h] = (stream_source){.k_rows = foci_attn_k_rows(a, seq, g),
                                     .v_rows = foci_attn_v_rows(a, seq, g),
                                     .item = item,
                                     .keys = seq->keys};
        if (seq->keys) sources[h].router = foci_router_of(seq->keys->routers, g);
    }
}

/* after: the item that this thread runs next, presumably; NULL: none. */
static void split_streamed(const split_call *split, const split_item *item, const split_item *after,
                           const fwd_scratch *s, float *partial)
{
    const fwd_call *call = split->fwd;
    const focal_attn_args *a = call->a;
    stream streams[STREAM_HEADS];
    stream_source sources[STREAM_HEADS], next[STREAM_HEADS];
    find_sources(call, item, sources);
    if (after) find_sources(call, after, next);
    for (int32_t h = 0; h < item->heads; h++)
        begin_stream(split, item, item->g + h, s, h, &streams[h]);
    stream_item(item, sources, streams, next, after ? after->heads : 0,
                a->has_q8_keys ? call->q8 : NULL);
    for (int32_t h = 0; h < item->heads; h++) {
        const stream *st = &streams[h];
        for (int32_t n = 0; n < st->rows; n++, partial += call->o_stride + 2)
            keep_partial(call, partial, st->o + n * call->o_stride, st->sum + (int64_t)n * VL,
                         st->neg_max[n], st->is_fresh[n]);
    }
}

static void split_work(void *arg, int64_t index, int32_t thread)
{
    const split_call *split = arg;
    const split_item *item = &split->items[index];
    const fwd_call *call = split->fwd;
    const int64_t rows = (int64_t)item->tokens * call->group;
    float *partial = split->partial + item->partial * (call->o_stride + 2);
    fwd_scratch s;
    (void)lay_out(call, foci_max64(rows, (int64_t)STREAM_ROWS * STREAM_HEADS), WITHOUT_GROUPS,
                  (bump){call->scratch + thread * call->scratch_bytes, 0}, &s);
    if (rows <= STREAM_ROWS) {
        /* Threads take items in turn, so the next one here is about as many further on. */
        const int64_t next = index + focal_ctx_threads(call->ctx);
        split_streamed(split, item, next < split->item_count ? item + (next - index) : NULL, &s,
                       partial);
        return;
    }
    for (int32_t n = 0; n < item->heads; n++)
        split_packed(split, item, item->g + n, &s, partial + n * rows * (call->o_stride + 2));
}

/* Adds the pieces of entries [begin, end): one item for several heads where there are pieces
 * enough, one a head otherwise. items NULL only counts. */
static void add_pieces(const fwd_call *call, split_call *split, split_item *items, split_item item,
                       int32_t begin, int32_t end, int32_t heads)
{
    const int64_t even = foci_round_up(foci_pieces(end, SPLIT_PIECES), SPLIT_LEAST);
    const int32_t length = (int32_t)foci_max64(foci_min64(even, SPLIT_MOST), SPLIT_LEAST);
    const int32_t first = begin / length * length;
    const int32_t joint = foci_pieces(end - first, length) >= 8 ? STREAM_HEADS : 1;
    for (int32_t at = first; at < end; at += length) {
        for (int32_t n = 0; n < heads; n += joint) {
            split_item piece = item;
            piece.g = item.g + n;
            piece.heads = (int32_t)foci_min64(joint, heads - n);
            piece.begin = (int32_t)foci_max64(at, begin);
            piece.end = (int32_t)foci_min64((int64_t)at + length, end);
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

/* A query's rows of one key head: their partial results, merged in the order of the pieces. */
static void merge_query(const split_call *split, int32_t n, int32_t token, int32_t g,
                        fwd_scratch *s)
{
    const fwd_call *call = split->fwd;
    const int64_t width = call->o_stride + 2;
    const fwd_item block = {n, g, token, 1, 0};
    begin_block(call, &block, call->group, s);
    for (int64_t at = split->first_item[n]; at < split->first_item[n + 1]; at++) {
        const split_item *item = &split->items[at];
        if (g < item->g || g >= item->g + item->heads || token < item->token ||
            token >= item->token + item->tokens)
            continue;
        const int64_t first = item->partial + (int64_t)(g - item->g) * item->tokens * call->group +
                              (int64_t)(token - item->token) * call->group;
        for (int32_t row = 0; row < call->group; row++) {
            const float *from = split->partial + (first + row) * width;
            const float neg_max = from[call->o_stride + 1];
            if (neg_max == INFINITY) continue; /* it saw no key */
            const bool is_first = (s->fresh[row / STRIP_ROWS] >> row % STRIP_ROWS & 1U) != 0;
            const float least = is_first || neg_max < s->neg_max[row] ? neg_max : s->neg_max[row];
            const float old = is_first ? 0.0F : exp2f(least - s->neg_max[row]);
            const float new = exp2f(least - neg_max);
            float *o = s->o + row * call->o_stride;
            for (int64_t d = 0; d < call->o_stride; d++) o[d] = o[d] * old + from[d] * new;
            s->sum[(int64_t)row * VL] =
                s->sum[(int64_t)row * VL] * old + from[call->o_stride] * new;
            s->neg_max[row] = least;
            s->fresh[row / STRIP_ROWS] &= ~(1U << row % STRIP_ROWS);
        }
    }
    finish_block(call, &block, call->group, s);
}

static void merge_work(void *arg, int64_t index, int32_t thread)
{
    const split_call *split = arg;
    const fwd_call *call = split->fwd;
    fwd_scratch s;
    (void)lay_out(call, foci_max64(call->group, (int64_t)STREAM_ROWS * STREAM_HEADS),
                  WITHOUT_GROUPS, (bump){call->scratch + thread * call->scratch_bytes, 0}, &s);
    for (int32_t n = 0; n < call->a->seq_count; n++) {
        if (!is_split(call->a, n)) continue;
        const int64_t count = (int64_t)call->a->seqs[n].T * call->a->G;
        if (index < count) {
            merge_query(split, n, (int32_t)(index / call->a->G), (int32_t)(index % call->a->G), &s);
            return;
        }
        index -= count;
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
    foci_parallel(call->ctx, queries * a->G, merge_work, split);
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
    FOCAL_TRY(find_hiding(call));
    for (int32_t n = 0; n < a->seq_count; n++) split_count += is_split(a, n);
    for (int32_t n = 0; n < a->seq_count; n++) {
        const bool splits = is_split(a, n);
        const int64_t tokens =
            splits ? a->seqs[n].T : foci_min64(block_tokens(call, &a->seqs[n]), a->seqs[n].T);
        const int64_t rows =
            foci_max64(tokens * call->group, splits ? STREAM_ROWS * STREAM_HEADS : 1);
        fwd_scratch s;
        const group_way way = splits ? WITHOUT_GROUPS : way_of(call, &a->seqs[n]);
        const int64_t bytes = lay_out(call, rows, way, (bump){NULL, 0}, &s);
        call->scratch_bytes = foci_max64(call->scratch_bytes, bytes);
    }
    call->scratch =
        foci_scratch(call->ctx, (size_t)focal_ctx_threads(call->ctx), (size_t)call->scratch_bytes);
    if (!call->scratch) return FOCAL_ENOMEM;
    if (split_count < a->seq_count) FOCAL_TRY(run_blocks(call));
    return split_count > 0 ? run_split(call) : FOCAL_OK;
}

static focal_status forward(focal_ctx *ctx, const focal_attn_args *args, const q8_stream *q8)
{
    fwd_call call = {.ctx = ctx, .a = args, .group = args->H / args->G, .q8 = q8};
    call.q_words = foci_round_up(words_of(args->D), DEPTH_WORDS);
    call.v_panels = foci_pieces(args->Dv, NR);
    call.o_stride = call.v_panels * NR;
    call.panel_words = call.q_words * NR + call.v_panels * (NR / PACK) * NR;
    call.gate = forward_gate(args);
    if (call.gate) call.panel_words += (int64_t)call.gate->K * NR;
    const focal_status status = run_forward(&call);
    foci_scratch_free(ctx, call.scratch);
    foci_scratch_free(ctx, call.items);
    free_groups(&call);
    free_hiding(&call);
    return status;
}

#endif /* FOCI_OPS_ATTN_ATTN_DECODE_BODY_H */
