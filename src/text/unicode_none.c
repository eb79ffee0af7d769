/* Stands in for unicode.c where utf8proc is missing: classes of ASCII, and no normal forms. */
#include "text/unicode.h"

#include "base/error.h"
#include "text/utf8.h"

bool foci_unicode_is_here(void)
{
    return false;
}

focal_status foci_unicode_need(focal_ctx *ctx, const char *what)
{
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: this build has no Unicode tables (utf8proc)",
                     what);
}

foci_char_class foci_char_class_of(int32_t c)
{
    if (foci_is_space(c)) return FOCI_CHAR_SPACE;
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return FOCI_CHAR_LETTER;
    if (c >= '0' && c <= '9') return FOCI_CHAR_NUMBER;
    return FOCI_CHAR_OTHER;
}

bool foci_is_word(int32_t c)
{
    const foci_char_class class = foci_char_class_of(c);
    return c == '_' || class == FOCI_CHAR_LETTER || class == FOCI_CHAR_NUMBER;
}

int32_t foci_lower(int32_t character, int32_t out[2])
{
    out[0] = character >= 'A' && character <= 'Z' ? character - 'A' + 'a' : character;
    return 1;
}

focal_status foci_normalize(focal_ctx *ctx, foci_normal_form form, const char *text, size_t bytes,
                            focal_buffer *out)
{
    (void)form;
    (void)text;
    (void)bytes;
    (void)out;
    return foci_unicode_need(ctx, "normal form");
}
