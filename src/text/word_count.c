/* The table of words: bytes in one block, counts in another, and places by hash. */
#include "text/word_count.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"

enum { SLOTS_LEAST = 1 << 10 };

void foci_words_free(foci_words *words)
{
    if (!words->ctx) return;
    foci_free(words->ctx, words->words);
    foci_free(words->ctx, words->slot);
    focal_buffer_free(words->ctx, &words->text);
    *words = (foci_words){0};
}

static uint64_t hash_of(const char *text, size_t bytes)
{
    uint64_t hash = 0x9E3779B97F4A7C15U ^ bytes;
    for (; bytes >= 8; text += 8, bytes -= 8) {
        uint64_t eight;
        memcpy(&eight, text, sizeof eight);
        hash = (hash ^ eight) * 0xD6E8FEB86659FD93U;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    memcpy(&rest, text, bytes);
    hash = (hash ^ rest) * 0xD6E8FEB86659FD93U;
    return hash ^ hash >> 32;
}

static uint32_t mark_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

/* The place of a word, or the free one that it would get. */
static foci_word_slot *place_of(const foci_words *words, const char *text, size_t bytes,
                                uint64_t hash)
{
    for (uint64_t at = hash & words->slot_mask;; at = (at + 1) & words->slot_mask) {
        foci_word_slot *slot = &words->slot[at];
        if (slot->index < 0) return slot;
        const foci_word *word = &words->words[slot->index];
        if (slot->mark == mark_of(hash) && word->bytes == bytes &&
            memcmp(words->text.data + word->begin, text, bytes) == 0)
            return slot;
    }
}

static void fill_slots(foci_words *words)
{
    memset(words->slot, 0xFF, (words->slot_mask + 1) * sizeof *words->slot);
    for (int64_t n = 0; n < words->count; n++) {
        const char *text = foci_word_text(words, n);
        const uint64_t hash = hash_of(text, words->words[n].bytes);
        uint64_t at = hash & words->slot_mask;
        while (words->slot[at].index >= 0) at = (at + 1) & words->slot_mask;
        words->slot[at] = (foci_word_slot){mark_of(hash), (int32_t)n};
    }
}

/* Room for one more word: twice the list, and a table that is at most half full. */
static focal_status grow(foci_words *words)
{
    if (words->count < words->capacity) return FOCAL_OK;
    const int64_t capacity = words->capacity ? 2 * words->capacity : SLOTS_LEAST / 2;
    foci_word *list = foci_alloc(words->ctx, (size_t)capacity, sizeof *list);
    foci_word_slot *slot = foci_alloc(words->ctx, 2 * (size_t)capacity, sizeof *slot);
    if (!list || !slot) {
        foci_free(words->ctx, list);
        foci_free(words->ctx, slot);
        return FOCAL_ENOMEM;
    }
    if (words->count > 0) memcpy(list, words->words, (size_t)words->count * sizeof *list);
    foci_free(words->ctx, words->words);
    foci_free(words->ctx, words->slot);
    words->words = list;
    words->slot = slot;
    words->capacity = capacity;
    words->slot_mask = 2 * (uint64_t)capacity - 1;
    fill_slots(words);
    return FOCAL_OK;
}

/* Forgets the words that came at most `rare` times. */
static void forget(foci_words *words)
{
    int64_t kept = 0;
    size_t bytes = 0;
    words->rare++;
    for (int64_t n = 0; n < words->count; n++) {
        foci_word word = words->words[n];
        if (word.count <= words->rare) continue;
        memmove(words->text.data + bytes, words->text.data + word.begin, word.bytes);
        word.begin = (uint32_t)bytes;
        bytes += word.bytes;
        words->words[kept++] = word;
    }
    words->forgotten += words->count - kept;
    words->count = kept;
    words->text.bytes = bytes;
}

focal_status foci_words_add(foci_words *words, const char *text, size_t bytes, int64_t times,
                            int64_t *index)
{
    FOCAL_TRY(grow(words));
    const uint64_t hash = hash_of(text, bytes);
    foci_word_slot *slot = place_of(words, text, bytes, hash);
    if (slot->index >= 0) {
        *index = slot->index;
        words->words[slot->index].count += times;
        return FOCAL_OK;
    }
    if (words->count >= words->most || words->text.bytes + bytes > words->bytes_most) {
        while (words->count > words->most / 2 || words->text.bytes + bytes > words->bytes_most / 2)
            forget(words);
        fill_slots(words);
        slot = place_of(words, text, bytes, hash);
    }
    const size_t begin = words->text.bytes;
    FOCAL_TRY(foci_buffer_put(words->ctx, &words->text, text, bytes));
    *index = words->count;
    *slot = (foci_word_slot){mark_of(hash), (int32_t)words->count};
    words->words[words->count++] = (foci_word){(uint32_t)begin, (uint32_t)bytes, times};
    return FOCAL_OK;
}

int64_t foci_words_find(const foci_words *words, const char *text, size_t bytes)
{
    if (words->count == 0) return -1;
    return place_of(words, text, bytes, hash_of(text, bytes))->index;
}
