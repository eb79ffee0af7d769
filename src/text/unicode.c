/* Unicode through utf8proc. Its own decomposition sorts combining marks by exchanging neighbours,
 * which hostile text makes quadratic, so marks are sorted here. */
#include "text/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"

enum {
    MOST_EXPANSION = 18, /* characters that one decomposes into, by Unicode's stability policy */
    FEW_MARKS = 24,      /* runs up to here are sorted by insertion */
    MARK_CLASSES = 256,
    SLICE = 1 << 14 /* bytes that are normalised at a time, about */
};

bool foci_unicode_is_here(void)
{
    return true;
}

focal_status foci_unicode_need(focal_ctx *ctx, const char *what)
{
    (void)ctx;
    (void)what;
    return FOCAL_OK;
}

foci_char_class foci_char_class_of(int32_t character)
{
    if (foci_is_space(character)) return FOCI_CHAR_SPACE;
    if ((character | 0x20) >= 'a' && (character | 0x20) <= 'z') return FOCI_CHAR_LETTER;
    switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return FOCI_CHAR_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return FOCI_CHAR_NUMBER;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
        return FOCI_CHAR_MARK;
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
        return FOCI_CHAR_PUNCTUATION;
    default:
        return FOCI_CHAR_OTHER;
    }
}

bool foci_is_word(int32_t c)
{
    switch (utf8proc_category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_PC:
        return true;
    default:
        /* The joiners, and the letters in circles and squares, which are symbols by category and
         * alphabetic by property. */
        return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) ||
               (c >= 0x1F130 && c <= 0x1F149) || (c >= 0x1F150 && c <= 0x1F169) ||
               (c >= 0x1F170 && c <= 0x1F189);
    }
}

int32_t foci_lower(int32_t character, int32_t out[2])
{
    if (character == 0x130) { /* I with a dot, the one whose lower case has two characters */
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    out[0] = utf8proc_tolower(character);
    return 1;
}

static int mark_class(int32_t character)
{
    return utf8proc_get_property(character)->combining_class;
}

/* Stable, by class; spare has room for count. */
static void sort_marks(int32_t *marks, int32_t *spare, size_t count)
{
    if (count <= FEW_MARKS) {
        for (size_t n = 1; n < count; n++) {
            const int32_t mark = marks[n];
            const int class = mark_class(mark);
            size_t at = n;
            for (; at > 0 && mark_class(marks[at - 1]) > class; at--) marks[at] = marks[at - 1];
            marks[at] = mark;
        }
        return;
    }
    size_t begin[MARK_CLASSES + 1] = {0};
    for (size_t n = 0; n < count; n++) begin[mark_class(marks[n]) + 1]++;
    for (size_t c = 0; c < MARK_CLASSES; c++) begin[c + 1] += begin[c];
    for (size_t n = 0; n < count; n++) spare[begin[mark_class(marks[n])]++] = marks[n];
    memcpy(marks, spare, count * sizeof *marks);
}

static void sort_all_marks(int32_t *characters, int32_t *spare, size_t count)
{
    size_t begin = 0;
    for (size_t n = 0; n <= count; n++) {
        if (n < count && mark_class(characters[n]) != 0) continue;
        if (n - begin > 1) sort_marks(characters + begin, spare, n - begin);
        begin = n + 1;
    }
}

static utf8proc_option_t options_of(foci_normal_form form)
{
    int options = UTF8PROC_STABLE;
    options |= form == FOCI_NFC || form == FOCI_NFKC ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE;
    if (form == FOCI_NFKC || form == FOCI_NFKD) options |= UTF8PROC_COMPAT;
    return (utf8proc_option_t)options;
}

/* Decomposed characters, in scratch memory. */
typedef struct decomposed {
    int32_t *characters;
    size_t count, room;
} decomposed;

static focal_status make_room(focal_ctx *ctx, decomposed *d)
{
    if (d->room - d->count >= MOST_EXPANSION) return FOCAL_OK;
    const size_t room = 2 * d->room + MOST_EXPANSION;
    int32_t *larger = foci_scratch(ctx, room, sizeof *larger);
    if (!larger) return FOCAL_ENOMEM;
    memcpy(larger, d->characters, d->count * sizeof *larger);
    foci_scratch_free(ctx, d->characters);
    d->characters = larger;
    d->room = room;
    return FOCAL_OK;
}

static focal_status decompose(focal_ctx *ctx, utf8proc_option_t options, const char *text,
                              size_t bytes, decomposed *d)
{
    d->room = bytes + MOST_EXPANSION;
    d->characters = foci_scratch(ctx, d->room, sizeof *d->characters);
    if (!d->characters) return FOCAL_ENOMEM;
    for (size_t at = 0, length; at < bytes; at += length) {
        const int32_t character = foci_utf8_decode(text + at, bytes - at, &length);
        FOCAL_TRY(make_room(ctx, d));
        int boundary = 0;
        const utf8proc_ssize_t made =
            utf8proc_decompose_char(character, d->characters + d->count,
                                    (utf8proc_ssize_t)(d->room - d->count), options, &boundary);
        if (made > 0) d->count += (size_t)made;
    }
    return FOCAL_OK;
}

/* Appends the normal form of valid UTF-8. */
static focal_status normalize_run(focal_ctx *ctx, utf8proc_option_t options, const char *text,
                                  size_t bytes, focal_buffer *out)
{
    decomposed d = {0};
    int32_t *spare = NULL;
    focal_status status = decompose(ctx, options, text, bytes, &d);
    if (status != FOCAL_OK) goto done;
    spare = foci_scratch(ctx, d.count, sizeof *spare);
    status = spare ? FOCAL_OK : FOCAL_ENOMEM;
    if (status != FOCAL_OK) goto done;
    sort_all_marks(d.characters, spare, d.count);
    if (options & UTF8PROC_COMPOSE) {
        const utf8proc_ssize_t left =
            utf8proc_normalize_utf32(d.characters, (utf8proc_ssize_t)d.count, options);
        if (left >= 0) d.count = (size_t)left;
    }
    status = foci_buffer_reserve(ctx, out, d.count * FOCI_UTF8_MOST);
    if (status != FOCAL_OK) goto done;
    for (size_t n = 0; n < d.count; n++)
        out->bytes += foci_utf8_encode(d.characters[n], out->data + out->bytes);
done:
    foci_scratch_free(ctx, spare);
    foci_scratch_free(ctx, d.characters);
    return status;
}

/* True when no normal form joins the character, or what it decomposes into, to what stands before
 * it: those that join are marks, jamo, and the forms of both that are compatible with them. */
static bool stands_alone(int32_t c)
{
    if ((c >= 0x1100 && c <= 0x11FF) || (c >= 0x3130 && c <= 0x318F) ||
        (c >= 0xFF00 && c <= 0xFFFF))
        return false;
    return foci_char_class_of(c) != FOCI_CHAR_MARK;
}

/* Where a run of valid UTF-8 may be cut so that memory stays small: behind SLICE bytes, before a
 * character that stands alone. */
static size_t slice_end(const char *text, size_t bytes)
{
    size_t at = SLICE, length;
    if (bytes <= SLICE) return bytes;
    while (at < bytes && (text[at] & 0xC0) == 0x80) at++;
    for (; at < bytes; at += length)
        if (stands_alone(foci_utf8_decode(text + at, bytes - at, &length))) break;
    return at;
}

static focal_status normalize_slices(focal_ctx *ctx, utf8proc_option_t options, const char *text,
                                     size_t bytes, focal_buffer *out)
{
    for (size_t at = 0, slice; at < bytes; at += slice) {
        slice = slice_end(text + at, bytes - at);
        FOCAL_TRY(normalize_run(ctx, options, text + at, slice, out));
    }
    return FOCAL_OK;
}

/* Bytes from `at` on that no normal form changes: ASCII up to the last character before something
 * else, for a mark behind would join that one. */
static size_t plain_run(const char *text, size_t bytes, size_t at)
{
    size_t end = at;
    while (end < bytes && (unsigned char)text[end] < 0x80) end++;
    return end < bytes && end > at ? end - 1 : end;
}

focal_status foci_normalize(focal_ctx *ctx, foci_normal_form form, const char *text, size_t bytes,
                            focal_buffer *out)
{
    const utf8proc_option_t options = options_of(form);
    size_t at = 0;
    while (at < bytes) {
        const size_t plain = plain_run(text, bytes, at);
        FOCAL_TRY(foci_buffer_put(ctx, out, text + at, plain - at));
        at = plain;
        if (at == bytes) break;
        size_t end = at + 1; /* the ASCII base, or the first byte of the others */
        while (end < bytes && (unsigned char)text[end] >= 0x80) end++;
        while (at < end) {
            const size_t valid = at + foci_utf8_valid(text + at, end - at);
            FOCAL_TRY(normalize_slices(ctx, options, text + at, valid - at, out));
            at = valid;
            if (at < end) FOCAL_TRY(foci_buffer_put(ctx, out, text + at++, 1));
        }
    }
    return FOCAL_OK;
}
