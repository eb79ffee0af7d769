/* Joining the best pair again and again. A tree of minima over the ranks (16 children a node) finds
 * the best, leftmost pair, so that a long stretch costs little more a byte than a short one, which
 * is a scan of one node. */
#include "text/bpe_join.h"

#include <string.h>

enum { FAN = 16 }; /* children of a node of the tree */

#define NO_PAIR UINT32_MAX

static bool is_start(const foci_symbols *w, size_t at)
{
    return w->starts[at / FOCI_BITS] >> at % FOCI_BITS & 1;
}

static void clear_start(foci_symbols *w, size_t at)
{
    w->starts[at / FOCI_BITS] &= ~((uint64_t)1 << at % FOCI_BITS);
}

size_t foci_start_from(const foci_symbols *w, size_t at)
{
    if (at >= w->bytes) return w->bytes;
    const size_t count = (w->bytes + FOCI_BITS - 1) / FOCI_BITS;
    size_t n = at / FOCI_BITS;
    uint64_t bits = w->starts[n] >> at % FOCI_BITS << at % FOCI_BITS;
    while (bits == 0) {
        if (++n == count) return w->bytes;
        bits = w->starts[n];
    }
    return n * FOCI_BITS + (size_t)__builtin_ctzll(bits);
}

size_t foci_start_before(const foci_symbols *w, size_t at)
{
    size_t n = at / FOCI_BITS;
    uint64_t bits = at % FOCI_BITS ? w->starts[n] << (FOCI_BITS - at % FOCI_BITS) >>
                                         (FOCI_BITS - at % FOCI_BITS)
                                   : 0;
    while (bits == 0) {
        if (n-- == 0) return SIZE_MAX;
        bits = w->starts[n];
    }
    return n * FOCI_BITS + (FOCI_BITS - 1) - (size_t)__builtin_clzll(bits);
}

/* Higher scores come first. Floats order as integers once the sign is taken care of. */
static uint32_t rank_of_score(double score)
{
    const float single = (float)score;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits & 0x80000000U ? bits : ~(bits | 0x80000000U);
}

/* What the pair at `at` and `next` joins to, from the merges or the vocabulary. */
static foci_merge look_up(const foci_symbols *w, uint64_t pair, size_t at, size_t next)
{
    const foci_bpe *bpe = w->bpe;
    if (bpe->by_score) {
        const size_t end = foci_start_from(w, next + 1);
        const int32_t id = foci_vocab_find(bpe->vocab, w->text + at, end - at);
        return (foci_merge){pair, id < 0 ? NO_PAIR : rank_of_score(bpe->vocab->score[id]), id};
    }
    const foci_merge *merge = foci_find_merge(bpe, pair);
    if (merge->pair == pair) return *merge;
    return (foci_merge){pair, NO_PAIR, -1};
}

/* The rank of the pair that begins at `at`; notes what it joins to. */
static uint32_t rank_of(foci_symbols *w, size_t at)
{
    const size_t next = foci_start_from(w, at + 1);
    if (next == w->bytes) return NO_PAIR;
    const uint64_t pair = foci_pair_of(w->ids[at], w->ids[next]);
    /* Characters without a token have no id that would tell them apart. */
    const bool is_known = w->recent && w->ids[at] >= 0 && w->ids[next] >= 0;
    foci_merge merge;
    if (is_known) {
        foci_merge *place = &w->recent[pair * 0x9E3779B97F4A7C15U >> 40 & (FOCI_RECENT - 1)];
        if (place->pair != pair) *place = look_up(w, pair, at, next);
        merge = *place;
    } else {
        merge = look_up(w, pair, at, next);
    }
    w->joined[at] = merge.joined;
    return merge.rank;
}

static size_t node_size(const foci_symbols *w, int level, size_t node)
{
    const size_t left = w->counts[level] - node * FAN;
    return left < FAN ? left : FAN;
}

static uint32_t least_of(const foci_symbols *w, int level, size_t node)
{
    const uint32_t *values = w->minima[level] + node * FAN;
    const size_t count = node_size(w, level, node);
    uint32_t least = NO_PAIR;
    for (size_t n = 0; n < count; n++) least = values[n] < least ? values[n] : least;
    return least;
}

static void set_rank(foci_symbols *w, size_t at, uint32_t rank)
{
    uint32_t old = w->minima[0][at];
    w->minima[0][at] = rank;
    for (int level = 0; level < w->top; level++) {
        const size_t node = at / FAN;
        uint32_t *least = &w->minima[level + 1][node];
        const uint32_t before = *least;
        if (rank > before && old > before) return; /* it was not the least and is not now */
        *least = rank <= before ? rank : least_of(w, level, node);
        if (*least == before) return;
        old = before;
        rank = *least;
        at = node;
    }
}

/* The least rank of all, and the first place that has it. */
static uint32_t best_pair(const foci_symbols *w, size_t *at)
{
    const uint32_t least = least_of(w, w->top, 0);
    *at = 0;
    for (int level = w->top; level >= 0; level--) {
        const uint32_t *values = w->minima[level] + *at * FAN;
        size_t n = 0;
        while (values[n] != least) n++;
        *at = *at * FAN + n;
    }
    return least;
}

static void rank_all(foci_symbols *w)
{
    for (size_t at = 0; at < w->bytes; at++)
        w->minima[0][at] = is_start(w, at) ? rank_of(w, at) : NO_PAIR;
    for (int level = 0; level < w->top; level++)
        for (size_t node = 0; node < w->counts[level + 1]; node++)
            w->minima[level + 1][node] = least_of(w, level, node);
}

void foci_symbols_join(foci_symbols *w)
{
    rank_all(w);
    size_t at;
    while (best_pair(w, &at) != NO_PAIR) {
        const size_t next = foci_start_from(w, at + 1);
        w->ids[at] = w->joined[at];
        clear_start(w, next);
        set_rank(w, next, NO_PAIR);
        set_rank(w, at, rank_of(w, at));
        const size_t before = foci_start_before(w, at);
        if (before != SIZE_MAX) set_rank(w, before, rank_of(w, before));
    }
}

size_t foci_symbols_plan(foci_symbols *w)
{
    size_t all = w->bytes;
    w->counts[0] = w->bytes;
    for (w->top = 0;; w->top++) {
        all += w->counts[w->top];
        if (w->counts[w->top] <= FAN) return all;
        w->counts[w->top + 1] = (w->counts[w->top] + FAN - 1) / FAN;
    }
}

void foci_symbols_place(foci_symbols *w, uint32_t *memory)
{
    for (int level = 0; level <= w->top; level++) {
        w->minima[level] = memory;
        memory += w->counts[level];
    }
    w->joined = (int32_t *)memory;
}
