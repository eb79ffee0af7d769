/* Reading and writing UTF-8, and the lists that text and ids grow in. */
#include "text/utf8.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

/* How many bytes a leading byte announces, and which second bytes may follow it: this is where
 * overlong forms, surrogates and what lies beyond U+10FFFF fall out. */
static size_t announced(unsigned char lead, unsigned char *low, unsigned char *high)
{
    *low = 0x80;
    *high = 0xBF;
    if (lead >= 0xC2 && lead <= 0xDF) return 2;
    if (lead >= 0xE0 && lead <= 0xEF) {
        if (lead == 0xE0) *low = 0xA0;
        if (lead == 0xED) *high = 0x9F;
        return 3;
    }
    if (lead >= 0xF0 && lead <= 0xF4) {
        if (lead == 0xF0) *low = 0x90;
        if (lead == 0xF4) *high = 0x8F;
        return 4;
    }
    return 0;
}

int32_t foci_utf8_decode(const char *text, size_t bytes, size_t *length)
{
    const unsigned char *at = (const unsigned char *)text;
    *length = 1;
    if (at[0] < 0x80) return at[0];
    unsigned char low, high;
    const size_t whole = announced(at[0], &low, &high);
    if (whole == 0) return FOCI_UTF8_INVALID;
    int32_t character = at[0] & (0x7F >> whole);
    for (size_t n = 1; n < whole; n++) {
        if (n == bytes) return FOCI_UTF8_PARTIAL;
        if (at[n] < low || at[n] > high) return FOCI_UTF8_INVALID;
        character = character << 6 | (at[n] & 0x3F);
        low = 0x80;
        high = 0xBF;
        *length = n + 1;
    }
    return character;
}

size_t foci_utf8_encode(int32_t character, char out[FOCI_UTF8_MOST])
{
    const uint32_t c = (uint32_t)character;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    const size_t length = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    uint32_t rest = c;
    for (size_t n = length - 1; n > 0; n--) {
        out[n] = (char)(0x80 | (rest & 0x3F));
        rest >>= 6;
    }
    out[0] = (char)((0xF00U >> length & 0xFF) | rest);
    return length;
}

size_t foci_utf8_valid(const char *text, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        uint64_t eight;
        while (bytes - at >= sizeof eight) {
            memcpy(&eight, text + at, sizeof eight);
            if (eight & 0x8080808080808080U) break;
            at += sizeof eight;
        }
        if (at == bytes) break;
        size_t length;
        if (foci_utf8_decode(text + at, bytes - at, &length) < 0) return at;
        at += length;
    }
    return at;
}

bool foci_is_space(int32_t c)
{
    if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

/* Moves an array to a block with room for `more` above `count`, half as much again at least. */
static focal_status grow(focal_ctx *ctx, void **array, size_t size, size_t count, size_t more,
                         size_t *capacity)
{
    size_t need, room;
    if (!foci_size_add(count, more, &need) || !foci_size_add(need, need / 2 + 64, &room))
        return foci_fail(ctx, FOCAL_ENOMEM, "text: %zu + %zu entries do not fit", count, more);
    if (count == 0) room = more; /* the first request mostly knows its size */
    void *block = foci_alloc(ctx, room, size);
    if (!block) return FOCAL_ENOMEM;
    if (count) memcpy(block, *array, count * size);
    foci_free(ctx, *array);
    *array = block;
    *capacity = room;
    return FOCAL_OK;
}

focal_status foci_ids_reserve(focal_ctx *ctx, focal_ids *list, size_t more)
{
    if (more <= (size_t)(list->capacity - list->count)) return FOCAL_OK;
    size_t capacity = 0;
    void *array = list->ids;
    FOCAL_TRY(grow(ctx, &array, sizeof *list->ids, (size_t)list->count, more, &capacity));
    list->ids = array;
    list->capacity = (int64_t)capacity;
    return FOCAL_OK;
}

focal_status foci_buffer_reserve(focal_ctx *ctx, focal_buffer *buffer, size_t more)
{
    if (more <= buffer->capacity - buffer->bytes) return FOCAL_OK;
    void *array = buffer->data;
    FOCAL_TRY(grow(ctx, &array, 1, buffer->bytes, more, &buffer->capacity));
    buffer->data = array;
    return FOCAL_OK;
}

focal_status foci_buffer_put(focal_ctx *ctx, focal_buffer *buffer, const void *data, size_t bytes)
{
    if (bytes == 0) return FOCAL_OK;
    FOCAL_TRY(foci_buffer_reserve(ctx, buffer, bytes));
    memcpy(buffer->data + buffer->bytes, data, bytes);
    buffer->bytes += bytes;
    return FOCAL_OK;
}

void focal_ids_free(focal_ctx *ctx, focal_ids *list)
{
    foci_free(ctx, list->ids);
    *list = (focal_ids){0};
}

void focal_buffer_free(focal_ctx *ctx, focal_buffer *buffer)
{
    foci_free(ctx, buffer->data);
    *buffer = (focal_buffer){0};
}
