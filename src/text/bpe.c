/* Words to ids. A word longer than a window is joined window by window, so that the work stays in
 * the cache and in proportion to the text. That changes no id: a list of tokens is what a text
 * becomes exactly when each two neighbours become themselves (no pair is joined across a place
 * unless it would be between the two tokens alone), and where two windows have one token in common
 * every two neighbours stand in one of them. */
#include "text/bpe.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/bpe_join.h"
#include "text/utf8.h"

enum {
    WINDOW = 4096, /* bytes; what belongs to a window stays in the nearest caches */
    MARGIN = 256,  /* what lies closer to a window's end may come out otherwise in the whole */
    WINDOW_ROOM = 2 * WINDOW + WINDOW / 8,
    LONG = 1 << 16 /* bytes from which on it pays to remember pairs */
};

foci_merge *foci_find_merge(const foci_bpe *bpe, uint64_t pair)
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
    foci_merge *merge = foci_find_merge(bpe, foci_pair_of(left, right));
    if (merge->pair != UINT64_MAX && keep_first) return FOCAL_OK;
    *merge = (foci_merge){foci_pair_of(left, right), (uint32_t)rank, id};
    return FOCAL_OK;
}

void foci_bpe_free(foci_bpe *bpe)
{
    if (bpe->ctx) foci_free(bpe->ctx, bpe->merge);
    *bpe = (foci_bpe){0};
}

/* True when every byte of the character has a byte token. */
static bool has_byte_tokens(const foci_bpe *bpe, const char *text, size_t bytes)
{
    for (size_t n = 0; n < bytes; n++)
        if (bpe->vocab->byte_id[(unsigned char)text[n]] < 0) return false;
    return true;
}

/* Splits the word into bytes. */
static void begin_bytes(foci_symbols *w)
{
    for (size_t at = 0; at < w->bytes; at++) {
        const int32_t id = w->bpe->vocab->byte_id[(unsigned char)w->text[at]];
        if (id >= 0)
            foci_put_symbol(w, at, id);
        else if (w->bpe->unknown >= 0)
            foci_put_symbol(w, at, w->bpe->unknown);
    }
}

/* Splits the word into characters. Under scores a character without a token still takes part, for
 * it may be half of one; collect() then finds something for it. */
static void begin_characters(foci_symbols *w)
{
    const foci_bpe *bpe = w->bpe;
    bool follows_unknown = false;
    for (size_t at = 0, length; at < w->bytes; at += length) {
        length = foci_utf8_step(w->text + at, w->bytes - at);
        const int32_t id = foci_vocab_find(bpe->vocab, w->text + at, length);
        bool is_unknown = false;
        if (id >= 0 || bpe->by_score) {
            foci_put_symbol(w, at, id);
        } else if (bpe->byte_fallback && has_byte_tokens(bpe, w->text + at, length)) {
            for (size_t n = at; n < at + length; n++)
                foci_put_symbol(w, n, bpe->vocab->byte_id[(unsigned char)w->text[n]]);
        } else if (bpe->unknown >= 0) {
            is_unknown = true;
            if (!follows_unknown || !bpe->fuse_unknown) foci_put_symbol(w, at, bpe->unknown);
        }
        follows_unknown = is_unknown;
    }
}

/* Moves the ids of the symbols before `end` to the front and returns how many. */
static size_t collect(foci_symbols *w, size_t end)
{
    size_t count = 0;
    for (size_t at = foci_start_from(w, 0), next; at < end; at = next) {
        next = foci_start_from(w, at + 1);
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

static void join(foci_symbols *w)
{
    memset(w->starts, 0, (w->bytes + FOCI_BITS - 1) / FOCI_BITS * sizeof *w->starts);
    if (w->bpe->is_byte_level)
        begin_bytes(w);
    else
        begin_characters(w);
    foci_symbols_join(w);
}

/* Where the next window begins: the last symbol that is far from the end and, so that this one's
 * characters are that one's, begins a character. 0: there is none. */
static size_t last_cut(const foci_symbols *w)
{
    size_t at = foci_start_before(w, w->bytes - MARGIN);
    while (at != SIZE_MAX && !w->bpe->is_byte_level && (w->text[at] & 0xC0) == 0x80)
        at = foci_start_before(w, at);
    return at == SIZE_MAX || at < w->bytes / 2 ? 0 : at;
}

/* Encodes a word window by window; *done is where that stopped: at the end, or where two windows
 * had no token in common, which takes a vocabulary made for it. */
static focal_status encode_windows(focal_ctx *ctx, const foci_bpe *bpe, const char *text,
                                   size_t bytes, foci_merge *recent, focal_ids *out, size_t *done)
{
    uint64_t starts[WINDOW / FOCI_BITS];
    uint32_t room[WINDOW_ROOM];
    size_t shared = 0; /* bytes of the token that the window before ended with */
    *done = 0;
    while (*done < bytes) {
        const size_t left = bytes - *done;
        FOCAL_TRY(foci_ids_reserve(ctx, out, left < WINDOW ? left : WINDOW));
        foci_symbols w = {.bpe = bpe,
                          .text = text + *done,
                          .bytes = left < WINDOW ? left : WINDOW,
                          .ids = out->ids + out->count, /* a byte makes one id at most */
                          .starts = starts,
                          .recent = recent};
        (void)foci_symbols_plan(&w);
        foci_symbols_place(&w, room);
        join(&w);
        if (shared > 0 && foci_start_from(&w, 1) != shared) return FOCAL_OK;
        const size_t end = left > WINDOW ? last_cut(&w) : left;
        if (end == 0) return FOCAL_OK;
        shared = foci_start_from(&w, end + 1) - end;
        out->count += (int64_t)collect(&w, end);
        *done += end;
    }
    return FOCAL_OK;
}

/* The same without windows. */
static focal_status encode_whole(focal_ctx *ctx, const foci_bpe *bpe, const char *text,
                                 size_t bytes, focal_ids *out)
{
    FOCAL_TRY(foci_ids_reserve(ctx, out, bytes));
    foci_symbols w = {.bpe = bpe, .text = text, .bytes = bytes, .ids = out->ids + out->count};
    w.starts = foci_scratch(ctx, (bytes + FOCI_BITS - 1) / FOCI_BITS, sizeof *w.starts);
    uint32_t *room = foci_scratch(ctx, foci_symbols_plan(&w), sizeof *room);
    const bool is_done = w.starts && room;
    if (is_done) {
        foci_symbols_place(&w, room);
        join(&w);
        out->count += (int64_t)collect(&w, bytes);
    }
    foci_scratch_free(ctx, room);
    foci_scratch_free(ctx, w.starts);
    return is_done ? FOCAL_OK : FOCAL_ENOMEM;
}

focal_status foci_bpe_encode(focal_ctx *ctx, const foci_bpe *bpe, const char *text, size_t bytes,
                             focal_ids *out)
{
    if (bpe->ignore_merges) {
        const int32_t id = foci_vocab_find(bpe->vocab, text, bytes);
        if (id >= 0) {
            FOCAL_TRY(foci_ids_reserve(ctx, out, 1));
            out->ids[out->count++] = id;
            return FOCAL_OK;
        }
    }
    foci_merge *recent = NULL;
    if (bytes > LONG) {
        recent = foci_scratch(ctx, FOCI_RECENT, sizeof *recent);
        if (!recent) return FOCAL_ENOMEM;
        memset(recent, 0xFF, FOCI_RECENT * sizeof *recent); /* no pair */
    }
    const int64_t before = out->count;
    size_t done = 0;
    const focal_status status = encode_windows(ctx, bpe, text, bytes, recent, out, &done);
    foci_scratch_free(ctx, recent);
    if (status != FOCAL_OK || done == bytes) return status;
    out->count = before;
    return encode_whole(ctx, bpe, text, bytes, out);
}
