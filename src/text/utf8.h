/* UTF-8 a character at a time, for text that may hold anything. */
#ifndef FOCI_TEXT_UTF8_H
#define FOCI_TEXT_UTF8_H

#include "focal/tokenizer.h"

enum {
    FOCI_UTF8_INVALID = -1, /* bytes that begin no character */
    FOCI_UTF8_PARTIAL = -2, /* the text ends inside a character */
    FOCI_UTF8_MOST = 4      /* bytes of the longest character */
};

/* The character at text (bytes > 0), or one of the two above; *length is how many bytes it takes,
 * or the bytes that one U+FFFD replaces (the longest beginning of a character, at least 1). */
int32_t foci_utf8_decode(const char *text, size_t bytes, size_t *length);

/* Bytes of the character at text (bytes > 0); 1 where there is none. */
static inline size_t foci_utf8_step(const char *text, size_t bytes)
{
    size_t length = 1;
    if ((unsigned char)*text >= 0x80 && foci_utf8_decode(text, bytes, &length) < 0) return 1;
    return length;
}

/* Writes the character, which must be a valid one, and returns its 1 to 4 bytes. */
size_t foci_utf8_encode(int32_t character, char out[FOCI_UTF8_MOST]);

/* Bytes at the beginning of text that are valid UTF-8: all of them, or up to the first fault. */
size_t foci_utf8_valid(const char *text, size_t bytes);

/* Unicode's White_Space, which has not changed in years; needs no table. */
bool foci_is_space(int32_t character);

/* Room for that many more; what is in the list stays. */
focal_status foci_ids_reserve(focal_ctx *ctx, focal_ids *list, size_t more);
focal_status foci_buffer_reserve(focal_ctx *ctx, focal_buffer *buffer, size_t more);
focal_status foci_buffer_put(focal_ctx *ctx, focal_buffer *buffer, const void *data, size_t bytes);

#endif /* FOCI_TEXT_UTF8_H */
