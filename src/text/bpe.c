/* Joining the best pair again and again. Ids and ranks stand at the byte where their symbol begins,
 * a bit a byte says where symbols begin, and a tree of minima over the ranks (16 children a node)
 * finds the best, leftmost pair: so a word of ten million letters takes seconds, and a short one is
 * a scan of one node. */
#include "text/bpe.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"

enum {
    BITS = 64,       /* positions that a word of bits covers */
    FAN = 16,        /* children of a node of the tree */
    LEVELS = 16,     /* 16^16 is more than any text */
    SHORT_WORD = 256 /* bytes up to which the stack has room */
};

#define NO_PAIR UINT32_MAX

/* A word while it is being joined. */
typedef struct word {
    const foci_bpe *bpe;
    const char *text;
    size_t bytes;
    int32_t *ids;             /* by position, where a symbol begins */
    uint64_t *starts;         /* a bit a position */
    uint32_t *minima[LEVELS]; /* [0]: the rank of the pair that begins at a position */
    size_t counts[LEVELS];
    int top;
} word;

static uint64_t pair_of(int32_t left, int32_t right)
{
    return (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
}

static foci_merge *find_merge(const foci_bpe *bpe, uint64_t pair)
{
    uint64_t at = (pair * 0x9E3779B97F4A7C15U >> 24) & bpe->merge_mask;
    while (bpe->merge[at].pair != pair && bpe->merge[at].pair != UINT64_MAX)
        at = (at + 1) & bpe->merge_mask;
    return &bpe->merge[at];
}

focal_status foci_bpe_reserve(foci_bpe *bpe, int64_t merges)
{
    size_t room = 64;
    while (room < 2 * (size_t)merges) room *= 2;
    bpe->merge = foci_alloc(bpe->ctx, room, sizeof *bpe->merge);
    if (!bpe->merge) return FOCAL_ENOMEM;
    bpe->merge_mask = room - 1;
    for (size_t n = 0; n < room; n++) bpe->merge[n].pair = UINT64_MAX;
    return FOCAL_OK;
}

focal_status foci_bpe_merge(foci_bpe *bpe, const char *what, int32_t left, int32_t right,
                            bool keep_first)
{
    const int64_t rank = bpe->merge_count++;
    size_t left_bytes, right_bytes;
    const char *a = foci_vocab_text(bpe->vocab, left, &left_bytes);
    const char *b = foci_vocab_text(bpe->vocab, right, &right_bytes);
    char joined[2 * FOCI_TOKEN_BYTES_MOST];
    memcpy(joined, a, left_bytes);
    memcpy(joined + left_bytes, b, right_bytes);
    const int32_t id = foci_vocab_find_any(bpe->vocab, joined, left_bytes + right_bytes);
    if (id < 0)
        return foci_fail(bpe->ctx, FOCAL_EFORMAT, "%s: merge %lld makes '%.*s', which is no token",
                         what, (long long)rank, (int)(left_bytes + right_bytes), joined);
    foci_merge *merge = find_merge(bpe, pair_of(left, right));
    if (merge->pair != UINT64_MAX && keep_first) return FOCAL_OK;
    *merge = (foci_merge){pair_of(left, right), (uint32_t)rank, id};
    return FOCAL_OK;
}

void foci_bpe_free(foci_bpe *bpe)
{
    if (bpe->ctx) foci_free(bpe->ctx, bpe->merge);
    *bpe = (foci_bpe){0};
}

static bool is_start(const word *w, size_t at)
{
    return w->starts[at / BITS] >> at % BITS & 1;
}

static void set_start(word *w, size_t at)
{
    w->starts[at / BITS] |= (uint64_t)1 << at % BITS;
}

static void clear_start(word *w, size_t at)
{
    w->starts[at / BITS] &= ~((uint64_t)1 << at % BITS);
}

/* The first symbol at or behind `at`; the word's bytes when there is none. */
static size_t start_from(const word *w, size_t at)
{
    if (at >= w->bytes) return w->bytes;
    const size_t count = (w->bytes + BITS - 1) / BITS;
    size_t n = at / BITS;
    uint64_t bits = w->starts[n] >> at % BITS << at % BITS;
    while (bits == 0) {
        if (++n == count) return w->bytes;
        bits = w->starts[n];
    }
    return n * BITS + (size_t)__builtin_ctzll(bits);
}

/* The last symbol before `at`, SIZE_MAX when there is none. */
static size_t start_before(const word *w, size_t at)
{
    size_t n = at / BITS;
    uint64_t bits = at % BITS ? w->starts[n] << (BITS - at % BITS) >> (BITS - at % BITS) : 0;
    while (bits == 0) {
        if (n-- == 0) return SIZE_MAX;
        bits = w->starts[n];
    }
    return n * BITS + (BITS - 1) - (size_t)__builtin_clzll(bits);
}

/* Higher scores come first. Floats order as integers once the sign is taken care of. */
static uint32_t rank_of_score(double score)
{
    const float single = (float)score;
    uint32_t bits;
    memcpy(&bits, &single, sizeof bits);
    return bits & 0x80000000U ? bits : ~(bits | 0x80000000U);
}

/* The rank of the pair that begins at `at`, and what it joins to. */
static uint32_t rank_of(const word *w, size_t at, int32_t *joined)
{
    const size_t next = start_from(w, at + 1);
    if (next == w->bytes) return NO_PAIR;
    if (w->bpe->by_score) {
        const size_t end = start_from(w, next + 1);
        *joined = foci_vocab_find(w->bpe->vocab, w->text + at, end - at);
        return *joined < 0 ? NO_PAIR : rank_of_score(w->bpe->vocab->score[*joined]);
    }
    const foci_merge *merge = find_merge(w->bpe, pair_of(w->ids[at], w->ids[next]));
    *joined = merge->joined;
    return merge->pair == UINT64_MAX ? NO_PAIR : merge->rank;
}

static size_t node_size(const word *w, int level, size_t node)
{
    const size_t left = w->counts[level] - node * FAN;
    return left < FAN ? left : FAN;
}

static uint32_t least_of(const word *w, int level, size_t node)
{
    const uint32_t *values = w->minima[level] + node * FAN;
    const size_t count = node_size(w, level, node);
    uint32_t least = NO_PAIR;
    for (size_t n = 0; n < count; n++) least = values[n] < least ? values[n] : least;
    return least;
}

static void set_rank(word *w, size_t at, uint32_t rank)
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
static uint32_t best_pair(const word *w, size_t *at)
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

static void rank_all(word *w)
{
    for (size_t at = 0; at < w->bytes; at++) {
        int32_t joined;
        w->minima[0][at] = is_start(w, at) ? rank_of(w, at, &joined) : NO_PAIR;
    }
    for (int level = 0; level < w->top; level++)
        for (size_t node = 0; node < w->counts[level + 1]; node++)
            w->minima[level + 1][node] = least_of(w, level, node);
}

static void join_all(word *w)
{
    int32_t joined = -1;
    rank_all(w);
    size_t at;
    while (best_pair(w, &at) != NO_PAIR) {
        const size_t next = start_from(w, at + 1);
        (void)rank_of(w, at, &joined);
        w->ids[at] = joined;
        clear_start(w, next);
        set_rank(w, next, NO_PAIR);
        set_rank(w, at, rank_of(w, at, &joined));
        const size_t before = start_before(w, at);
        if (before != SIZE_MAX) set_rank(w, before, rank_of(w, before, &joined));
    }
}

/* True when every byte of the character has a byte token. */
static bool has_byte_tokens(const foci_bpe *bpe, const char *text, size_t bytes)
{
    for (size_t n = 0; n < bytes; n++)
        if (bpe->vocab->byte_id[(unsigned char)text[n]] < 0) return false;
    return true;
}

static void put_symbol(word *w, size_t at, int32_t id)
{
    set_start(w, at);
    w->ids[at] = id;
}

/* Splits the word into bytes. */
static void begin_bytes(word *w)
{
    for (size_t at = 0; at < w->bytes; at++) {
        const int32_t id = w->bpe->vocab->byte_id[(unsigned char)w->text[at]];
        if (id >= 0)
            put_symbol(w, at, id);
        else if (w->bpe->unknown >= 0)
            put_symbol(w, at, w->bpe->unknown);
    }
}

/* Splits the word into characters. Under scores a character without a token still takes part, for
 * it may be half of one; resolve() then finds something for it. */
static void begin_characters(word *w)
{
    const foci_bpe *bpe = w->bpe;
    bool follows_unknown = false;
    for (size_t at = 0, length; at < w->bytes; at += length) {
        length = foci_utf8_step(w->text + at, w->bytes - at);
        const int32_t id = foci_vocab_find(bpe->vocab, w->text + at, length);
        bool is_unknown = false;
        if (id >= 0 || bpe->by_score) {
            put_symbol(w, at, id);
        } else if (bpe->byte_fallback && has_byte_tokens(bpe, w->text + at, length)) {
            for (size_t n = at; n < at + length; n++)
                put_symbol(w, n, bpe->vocab->byte_id[(unsigned char)w->text[n]]);
        } else if (bpe->unknown >= 0) {
            is_unknown = true;
            if (!follows_unknown || !bpe->fuse_unknown) put_symbol(w, at, bpe->unknown);
        }
        follows_unknown = is_unknown;
    }
}

/* Moves the ids of what is left to the front and returns how many. */
static size_t collect(word *w)
{
    size_t count = 0;
    for (size_t at = start_from(w, 0), next; at < w->bytes; at = next) {
        next = start_from(w, at + 1);
        const int32_t id = w->ids[at];
        if (id >= 0) {
            w->ids[count++] = id;
        } else if (has_byte_tokens(w->bpe, w->text + at, next - at)) {
            for (; at < next; at++)
                w->ids[count++] = w->bpe->vocab->byte_id[(unsigned char)w->text[at]];
        } else if (w->bpe->unknown >= 0) {
            w->ids[count++] = w->bpe->unknown;
        }
    }
    return count;
}

static void encode_word(word *w)
{
    memset(w->starts, 0, (w->bytes + BITS - 1) / BITS * sizeof *w->starts);
    if (w->bpe->is_byte_level)
        begin_bytes(w);
    else
        begin_characters(w);
    join_all(w);
}

/* Sizes of the levels above `bytes` ranks; returns the entries of all of them together. */
static size_t plan_levels(word *w)
{
    size_t all = 0;
    w->counts[0] = w->bytes;
    for (w->top = 0;; w->top++) {
        all += w->counts[w->top];
        if (w->counts[w->top] <= FAN) return all;
        w->counts[w->top + 1] = (w->counts[w->top] + FAN - 1) / FAN;
    }
}

static void place_levels(word *w, uint32_t *memory)
{
    for (int level = 0; level <= w->top; level++) {
        w->minima[level] = memory;
        memory += w->counts[level];
    }
}

focal_status foci_bpe_encode(focal_ctx *ctx, const foci_bpe *bpe, const char *text, size_t bytes,
                             focal_ids *out)
{
    if (bytes == 0) return FOCAL_OK;
    FOCAL_TRY(foci_ids_reserve(ctx, out, bytes));
    int32_t *ids = out->ids + out->count; /* room enough: a byte makes one id at most */
    if (bpe->ignore_merges) {
        ids[0] = foci_vocab_find(bpe->vocab, text, bytes);
        if (ids[0] >= 0) {
            out->count++;
            return FOCAL_OK;
        }
    }
    word w = {.bpe = bpe, .text = text, .bytes = bytes, .ids = ids};
    const size_t all = plan_levels(&w);
    if (bytes <= SHORT_WORD) {
        uint64_t starts[SHORT_WORD / BITS];
        uint32_t ranks[SHORT_WORD + SHORT_WORD / FAN + 1];
        w.starts = starts;
        place_levels(&w, ranks);
        encode_word(&w);
        out->count += (int64_t)collect(&w);
        return FOCAL_OK;
    }
    const size_t start_words = (bytes + BITS - 1) / BITS;
    w.starts = foci_scratch(ctx, start_words, sizeof *w.starts);
    uint32_t *ranks = foci_scratch(ctx, all, sizeof *ranks);
    if (w.starts && ranks) {
        place_levels(&w, ranks);
        encode_word(&w);
        out->count += (int64_t)collect(&w);
    }
    const bool is_done = w.starts && ranks;
    foci_scratch_free(ctx, ranks);
    foci_scratch_free(ctx, w.starts);
    return is_done ? FOCAL_OK : FOCAL_ENOMEM;
}
