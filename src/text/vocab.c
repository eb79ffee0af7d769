/* The vocabulary: one block of bytes, and a hash table from bytes to ids. */
#include "text/vocab.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"

void foci_vocab_free(foci_vocab *vocab)
{
    if (!vocab) return;
    focal_ctx *ctx = vocab->ctx;
    foci_free(ctx, vocab->begin);
    foci_free(ctx, vocab->bytes);
    foci_free(ctx, vocab->kind);
    foci_free(ctx, vocab->score);
    foci_free(ctx, vocab->slot);
    foci_free(ctx, vocab);
}

/* GPT-2's table: bytes that print keep their character, the others follow from U+0100 on, in
 * order. */
static int32_t byte_of_character(int32_t c)
{
    if ((c >= '!' && c <= '~') || (c >= 0xA1 && c <= 0xAC) || (c >= 0xAE && c <= 0xFF)) return c;
    if (c >= 0x100 && c <= 0x120) return c - 0x100;        /* 0x00 to 0x20 */
    if (c >= 0x121 && c <= 0x142) return c - 0x121 + 0x7F; /* 0x7F to 0xA0 */
    return c == 0x143 ? 0xAD : -1;
}

size_t foci_bytes_of_level(const char *text, size_t bytes, char *out)
{
    size_t count = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        const int32_t byte = byte_of_character(foci_utf8_decode(text + at, bytes - at, &length));
        if (byte < 0) return SIZE_MAX;
        out[count++] = (char)byte;
    }
    return count;
}

static uint32_t hash_bytes(const char *text, size_t bytes)
{
    uint64_t hash = 0x9E3779B97F4A7C15U ^ bytes;
    for (; bytes >= 8; text += 8, bytes -= 8) {
        uint64_t eight;
        memcpy(&eight, text, sizeof eight);
        hash = (hash ^ eight) * 0xD6E8FEB86659FD93U;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    for (size_t n = 0; n < bytes; n++) rest = rest << 8 | (unsigned char)text[n];
    hash = (hash ^ rest) * 0xD6E8FEB86659FD93U;
    return (uint32_t)(hash ^ hash >> 32);
}

/* Control tokens must not come out of plain text, nor byte tokens out of "<0x0A>". */
static bool is_reachable(const foci_vocab *vocab, int32_t id)
{
    return vocab->kind[id] == FOCAL_TOKEN_NORMAL || vocab->kind[id] == FOCAL_TOKEN_USER;
}

static bool has_bytes(const foci_vocab *vocab, int32_t id, const char *text, size_t bytes)
{
    size_t have;
    const char *token = foci_vocab_text(vocab, id, &have);
    return have == bytes && memcmp(token, text, bytes) == 0;
}

/* What a slot holds of the hash: the last bit says whether text may become the token, so that most
 * are passed over without a look at them. */
static uint32_t mark_of(uint32_t hash, bool reachable)
{
    return (hash & ~1U) | (reachable ? 1U : 0U);
}

/* The slot of the token with these bytes and this reachability, or the free one it would get. */
static foci_vocab_slot *find_slot(const foci_vocab *vocab, const char *text, size_t bytes,
                                  uint32_t hash, bool reachable)
{
    const uint32_t mark = mark_of(hash, reachable);
    uint32_t at = hash >> 1 & vocab->slot_mask;
    for (; vocab->slot[at].id >= 0; at = (at + 1) & vocab->slot_mask)
        if (vocab->slot[at].mark == mark && has_bytes(vocab, vocab->slot[at].id, text, bytes))
            break;
    return &vocab->slot[at];
}

int32_t foci_vocab_find(const foci_vocab *vocab, const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > (size_t)vocab->longest) return -1;
    return find_slot(vocab, text, bytes, hash_bytes(text, bytes), true)->id;
}

int32_t foci_vocab_find_any(const foci_vocab *vocab, const char *text, size_t bytes)
{
    if (bytes == 0 || bytes > (size_t)vocab->longest) return -1;
    const int32_t id = foci_vocab_find(vocab, text, bytes);
    return id >= 0 ? id : find_slot(vocab, text, bytes, hash_bytes(text, bytes), false)->id;
}

static focal_status check_entry(focal_ctx *ctx, const char *what, const foci_vocab_entry *entry,
                                int64_t id)
{
    if (entry->bytes > FOCI_TOKEN_BYTES_MOST)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: token %lld has %zu bytes, at most %d are accepted", what,
                         (long long)id, entry->bytes, FOCI_TOKEN_BYTES_MOST);
    if (!isfinite(entry->score))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: token %lld has a score that is no number", what,
                         (long long)id);
    if (entry->kind < FOCAL_TOKEN_NORMAL || entry->kind > FOCAL_TOKEN_BYTE)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: token %lld is of type %d, known are 1 to 6", what,
                         (long long)id, (int)entry->kind);
    return FOCAL_OK;
}

static focal_status allocate(foci_vocab *vocab, size_t count, size_t bytes)
{
    size_t slots = 64;
    while (slots < 2 * count) slots *= 2;
    vocab->slot_mask = (uint32_t)(slots - 1);
    vocab->begin = foci_alloc(vocab->ctx, count + 1, sizeof *vocab->begin);
    vocab->bytes = foci_alloc(vocab->ctx, bytes, 1);
    vocab->kind = foci_alloc(vocab->ctx, count, sizeof *vocab->kind);
    vocab->score = foci_alloc(vocab->ctx, count, sizeof *vocab->score);
    vocab->slot = foci_alloc(vocab->ctx, slots, sizeof *vocab->slot);
    if (!vocab->begin || !vocab->bytes || !vocab->kind || !vocab->score || !vocab->slot)
        return FOCAL_ENOMEM;
    memset(vocab->slot, 0xFF, slots * sizeof *vocab->slot);
    memset(vocab->byte_id, 0xFF, sizeof vocab->byte_id);
    return FOCAL_OK;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

int foci_byte_of_name(const char *text, size_t bytes)
{
    if (bytes != 6 || memcmp(text, "<0x", 3) != 0 || text[5] != '>') return -1;
    const int high = hex_digit(text[3]), low = hex_digit(text[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static void note_byte(foci_vocab *vocab, int32_t id, bool is_byte_level)
{
    size_t bytes;
    const char *text = foci_vocab_text(vocab, id, &bytes);
    int byte = -1;
    if (is_byte_level && bytes == 1 && is_reachable(vocab, id)) byte = (unsigned char)text[0];
    if (!is_byte_level) byte = foci_byte_of_name(text, bytes);
    if (byte < 0 || vocab->byte_id[byte] >= 0) return;
    vocab->byte_id[byte] = id;
    if (!is_byte_level) vocab->kind[id] = FOCAL_TOKEN_BYTE;
}

/* Writes the bytes of a token behind the others'. A byte-level token that is not written that way
 * stays as it is and becomes unused: no text leads to it. */
static void lay_out(foci_vocab *vocab, const foci_vocab_entry *entry, int32_t id, uint32_t *end,
                    bool is_byte_level)
{
    const bool is_written = is_byte_level && entry->kind == FOCAL_TOKEN_NORMAL;
    char *place = vocab->bytes + *end;
    size_t bytes = is_written ? foci_bytes_of_level(entry->text, entry->bytes, place) : SIZE_MAX;
    vocab->begin[id] = *end;
    vocab->kind[id] = (uint8_t)entry->kind;
    vocab->score[id] = entry->score;
    if (bytes == SIZE_MAX) {
        bytes = entry->bytes;
        if (bytes) memcpy(place, entry->text, bytes);
        if (is_written) vocab->kind[id] = FOCAL_TOKEN_UNUSED;
    }
    *end += (uint32_t)bytes;
    vocab->begin[id + 1] = *end;
    if ((int32_t)bytes > vocab->longest) vocab->longest = (int32_t)bytes;
}

static focal_status insert(foci_vocab *vocab, const char *what, int32_t id)
{
    size_t bytes;
    const char *text = foci_vocab_text(vocab, id, &bytes);
    if (bytes == 0) return FOCAL_OK;
    const uint32_t hash = hash_bytes(text, bytes);
    const bool reachable = is_reachable(vocab, id);
    foci_vocab_slot *slot = find_slot(vocab, text, bytes, hash, reachable);
    if (slot->id >= 0)
        return foci_fail(vocab->ctx, FOCAL_EFORMAT, "%s: tokens %d and %d are both '%.*s'", what,
                         slot->id, id, (int)(bytes < 64 ? bytes : 64), text);
    *slot = (foci_vocab_slot){id, mark_of(hash, reachable)};
    return FOCAL_OK;
}

focal_status foci_vocab_new(focal_ctx *ctx, const char *what, const foci_vocab_entry *entries,
                            int64_t count, bool is_byte_level, foci_vocab **out)
{
    *out = NULL;
    if (count < 1 || count > FOCI_VOCAB_MOST)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %lld tokens, 1 to %d are accepted", what,
                         (long long)count, FOCI_VOCAB_MOST);
    size_t bytes = 0;
    for (int64_t id = 0; id < count; id++) {
        FOCAL_TRY(check_entry(ctx, what, &entries[id], id));
        bytes += entries[id].bytes;
    }
    if (bytes > UINT32_MAX)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: the tokens have %zu bytes, at most %u are accepted", what, bytes,
                         UINT32_MAX);
    foci_vocab *vocab = foci_alloc(ctx, 1, sizeof *vocab);
    if (!vocab) return FOCAL_ENOMEM;
    *vocab = (foci_vocab){.ctx = ctx, .size = (int32_t)count};
    focal_status status = allocate(vocab, (size_t)count, bytes);
    uint32_t end = 0;
    for (int32_t id = 0; status == FOCAL_OK && id < vocab->size; id++) {
        lay_out(vocab, &entries[id], id, &end, is_byte_level);
        note_byte(vocab, id, is_byte_level);
        status = insert(vocab, what, id);
    }
    if (status != FOCAL_OK) {
        foci_vocab_free(vocab);
        return status;
    }
    *out = vocab;
    return FOCAL_OK;
}
