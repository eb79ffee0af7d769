/* Short sequences with groups as dense tiles: all keys are scored in order of position, and what a
 * query does not see is hidden before it gets a weight. Lists of a panel or two cost more than the
 * exponentials that they save. Who sees what is a bit for each query and key, made of the same
 * lists that longer sequences walk along. Included by attn_forward_body.h. */
#ifndef FOCI_OPS_ATTN_ATTN_HIDE_BODY_H
#define FOCI_OPS_ATTN_ATTN_HIDE_BODY_H

#include "base/ctx.h"
#include "ops/attn/attn_rows.h"

enum {
    WORD_STEP = 16, /* bits of a query come in so many words, each of a panel's keys */
    HIDING_WORDS = (HIDING_KEYS / NR + WORD_STEP) / WORD_STEP * WORD_STEP,
    HIDING_ROOM = 16 /* lists and tables of so many entries a key are looked at */
};

/* Of a sequence. */
typedef struct fwd_hiding {
    int32_t *position; /* (routers, key_stride) of the entries of key_row that queries see; NULL:
                          groups are lists here */
} fwd_hiding;

static inline bool is_hiding(const fwd_call *call, const focal_attn_seq *seq)
{
    return call->hiding && call->hiding[seq - call->a->seqs].position;
}

/* How many entries of a group its queries see at most: the last query's, ends do not descend. */
static int32_t group_seen(const focal_keys *keys, int32_t router, int32_t c)
{
    const int32_t *from = keys->query_begin + (int64_t)router * (keys->K + 1) + c;
    return from[1] > from[0] ? keys->query_end[router * keys->query_stride + from[1] - 1] : 0;
}

/* Rows that the keys of a sequence may lie in. */
static int64_t row_count(const focal_attn_args *a, const focal_attn_seq *seq)
{
    return seq->k_pages ? seq->page_count * a->page_rows : seq->S;
}

/* Up to how many keys hiding is the faster way: the fewer groups a query looks into, the sooner
 * lists save more than they cost. */
static bool is_short_enough(const focal_attn_args *a, const focal_attn_seq *seq)
{
    const focal_keys *keys = seq->keys;
    if (!keys || seq->S > HIDING_KEYS) return false;
    const int64_t most = (int64_t)HIDING_ROOM * HIDING_KEYS;
    if (keys->key_stride > most || row_count(a, seq) > most) return false;
    int64_t looks = 0;
    for (int32_t r = 0; r < keys->routers; r++)
        looks += keys->query_begin[(int64_t)r * (keys->K + 1) + keys->K] -
                 keys->query_begin[(int64_t)r * (keys->K + 1)];
    const int64_t all = (int64_t)keys->routers * keys->T * keys->K;
    return seq->S <= HIDING_LEAST || seq->S * all <= (int64_t)HIDING_KEYS * 4 * looks;
}

/* The positions of a router's entries, where all of them can be told: entries name rows, and only
 * those of the window and the sinks must have a position. */
static bool find_positions(const focal_attn_args *a, const focal_attn_seq *seq, int32_t router,
                           int32_t *row_position, int32_t *position)
{
    const focal_keys *keys = seq->keys;
    const int64_t rows = row_count(a, seq);
    const int32_t *list = keys->key_row + router * keys->key_stride;
    bool is_known = true;
    memset(row_position, -1, (size_t)rows * sizeof *row_position);
    for (int32_t j = 0; j < seq->S; j++) {
        const int64_t row = foci_position_row(keys, router, j);
        if (row < 0 || row >= rows) return false;
        row_position[row] = j;
    }
    for (int32_t c = 0; c < keys->K; c++) {
        const int32_t first = keys->key_begin[(int64_t)router * keys->K + c];
        const int32_t last = first + group_seen(keys, router, c);
        for (int32_t n = first; n < last; n++) {
            position[n] = row_position[list[n]];
            is_known &= position[n] >= 0;
        }
    }
    return is_known;
}

/* Decides which sequences hide. ENOMEM: free_hiding() is due all the same. */
static focal_status find_hiding(fwd_call *call)
{
    if (HIDING_KEYS == 0 || call->gate) return FOCAL_OK;
    const focal_attn_args *a = call->a;
    for (int32_t n = 0; n < a->seq_count; n++) {
        const focal_attn_seq *seq = &a->seqs[n];
        if (seq->T <= SPLIT_TOKENS || !is_short_enough(a, seq)) continue;
        if (!call->hiding) {
            call->hiding = foci_scratch(call->ctx, (size_t)a->seq_count, sizeof *call->hiding);
            if (!call->hiding) return FOCAL_ENOMEM;
            memset(call->hiding, 0, (size_t)a->seq_count * sizeof *call->hiding);
        }
        const int64_t routers = seq->keys->routers, stride = seq->keys->key_stride;
        const int64_t rows = row_count(a, seq);
        int32_t *position =
            foci_scratch(call->ctx, (size_t)(routers * stride + rows), sizeof *position);
        if (!position) return FOCAL_ENOMEM;
        bool is_known = true;
        for (int32_t r = 0; r < routers && is_known; r++)
            is_known =
                find_positions(a, seq, r, position + routers * stride, position + r * stride);
        if (is_known)
            call->hiding[n].position = position;
        else
            foci_scratch_free(call->ctx, position);
    }
    return FOCAL_OK;
}

static void free_hiding(const fwd_call *call)
{
    for (int32_t n = 0; call->hiding && n < call->a->seq_count; n++)
        foci_scratch_free(call->ctx, call->hiding[n].position);
    foci_scratch_free(call->ctx, call->hiding);
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

/* Words of bits of a query. */
static int64_t seen_words(const focal_attn_seq *seq)
{
    return foci_round_up(foci_pieces(seq->S, NR), WORD_STEP);
}

/* Adds the keys [lo, hi). */
static void mark_interval(int32_t lo, int32_t hi, uint32_t *seen)
{
    if (lo >= hi) return;
    const int64_t first = lo / NR, last = (hi - 1) / NR;
    for (int64_t w = first + 1; w < last; w++) seen[w] = UINT32_MAX;
    seen[first] |= interval_bits(first * NR, lo, hi);
    seen[last] |= interval_bits(last * NR, lo, hi);
}

/* What the queries [first, first + tokens) see of group c of a router: each the entries before its
 * end, so the bits of one are those of the one before and some more. */
static void mark_group(const fwd_call *call, const focal_attn_seq *seq, int32_t router, int32_t c,
                       int32_t first, int32_t tokens, uint32_t *seen)
{
    const focal_keys *keys = seq->keys;
    const int64_t words = seen_words(seq);
    const int32_t *position = call->hiding[seq - call->a->seqs].position +
                              router * keys->key_stride +
                              keys->key_begin[(int64_t)router * keys->K + c];
    const int32_t *query = keys->query + router * keys->query_stride;
    const int32_t *query_end = keys->query_end + router * keys->query_stride;
    const int32_t *from = keys->query_begin + (int64_t)router * (keys->K + 1) + c;
    const int32_t begin = first_query(query, from[0], from[1], first);
    const int32_t end = first_query(query, begin, from[1], first + tokens);
    uint32_t bits[HIDING_WORDS] = {0};
    int32_t entry = 0;
    for (int32_t n = begin; n < end; n++) {
        for (; entry < query_end[n]; entry++)
            bits[(uint32_t)position[entry] / NR] |= 1U << (uint32_t)position[entry] % NR;
        uint32_t *to = seen + (query[n] - first) * words;
        for (int64_t w = 0; w < words; w += WORD_STEP)
            for (int64_t i = 0; i < WORD_STEP; i++) to[w + i] |= bits[w + i];
    }
}

/* Fills in seen (tokens, seen_words) for a block of queries of key head g. */
static void mark_seen(const fwd_call *call, const focal_attn_seq *seq, int32_t g, int32_t first,
                      int32_t tokens, uint32_t *seen)
{
    const int32_t router = foci_router_of(seq->keys->routers, g);
    const int64_t words = seen_words(seq);
    memset(seen, 0, (size_t)(tokens * words) * sizeof *seen);
    for (int32_t n = 0; n < tokens; n++) {
        const foci_local local = foci_attn_local(call->a, seq, first + n);
        mark_interval(local.lo, local.hi, seen + n * words);
        mark_interval(0, local.sink_hi, seen + n * words);
    }
    for (int32_t c = 0; c < seq->keys->K; c++)
        mark_group(call, seq, router, c, first, tokens, seen);
}

#endif /* FOCI_OPS_ATTN_ATTN_HIDE_BODY_H */
