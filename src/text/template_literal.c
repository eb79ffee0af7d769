/* Numbers and strings as templates write them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_node.h"
#include "text/template_run.h"

focal_status foci_parse_number(foci_parser *p, foci_value *out)
{
    char digits[64];
    const foci_chars text = p->token.text;
    size_t bytes = 0;
    for (size_t n = 0; n < text.bytes; n++) {
        if (text.data[n] == '_') continue;
        if (bytes + 1 >= sizeof digits)
            return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "a number of more than %zu digits",
                                   sizeof digits - 1);
        digits[bytes++] = text.data[n];
    }
    digits[bytes] = '\0';
    if (p->token.kind == FOCI_T_FLOAT) {
        *out = foci_float(strtod(digits, NULL));
        return FOCAL_OK;
    }
    int64_t number;
    if (!foci_read_int((foci_chars){digits, bytes}, 0, &number))
        return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "the integer %s does not fit 64 bits",
                               digits);
    *out = foci_int(number);
    return FOCAL_OK;
}

/* Up to `most` digits of that base at *at, which moves behind them; returns how many. */
static int read_digits(const char **at, const char *end, int base, int most, uint32_t *value)
{
    int count = 0;
    *value = 0;
    for (; count < most && *at < end; count++, (*at)++) {
        const char c = **at, low = (char)(c | 0x20);
        const int digit = c >= '0' && c <= '9'       ? c - '0'
                          : low >= 'a' && low <= 'f' ? low - 'a' + 10
                                                     : 99;
        if (digit >= base) break;
        *value = *value * (uint32_t)base + (uint32_t)digit;
    }
    return count;
}

/* The escape behind a backslash at *at. What Python does not know stays as it is, with its
 * backslash. */
static focal_status parse_escape(foci_parser *p, const char **at, const char *end,
                                 foci_builder *out)
{
    static const char letters[] = "abfnrtv\\'\"", values[] = "\a\b\f\n\r\t\v\\'\"";
    const char c = *(*at)++;
    const char *letter = c ? strchr(letters, c) : NULL;
    if (c == '\n') return FOCAL_OK;
    if (letter) return foci_builder_add(out, &values[letter - letters], 1);
    if (c == 'N')
        return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "\\N{...} in a string is not supported");
    uint32_t code = 0;
    if (c >= '0' && c <= '7') {
        (*at)--;
        (void)read_digits(at, end, 8, 3, &code);
    } else if (c == 'x' || c == 'u' || c == 'U') {
        const int digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
        if (read_digits(at, end, 16, digits, &code) < digits || code > 0x10FFFF ||
            (code >= 0xD800 && code <= 0xDFFF))
            return foci_parse_fail(p, FOCAL_EFORMAT, "\\%c in a string names no character", c);
    } else {
        (*at)--;
        return foci_builder_add(out, "\\", 1);
    }
    char utf8[FOCI_CHAR_BYTES];
    return foci_builder_add(out, utf8, (size_t)foci_char_put(code, utf8));
}

focal_status foci_parse_string(foci_parser *p, foci_chars literal, foci_chars *out)
{
    const char *at = literal.data + 1, *end = literal.data + literal.bytes - 1;
    const size_t bytes = (size_t)(end - at);
    if (bytes == 0 || !memchr(at, '\\', bytes)) {
        *out = (foci_chars){at, bytes}; /* the source is kept with the tree */
        return FOCAL_OK;
    }
    foci_builder text = {.store = p->store};
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        const char *stop = escape ? escape : end;
        FOCAL_TRY(foci_builder_add(&text, at, (size_t)(stop - at)));
        at = stop;
        if (!escape) break;
        at++;
        FOCAL_TRY(parse_escape(p, &at, end, &text));
    }
    *out = foci_builder_chars(&text);
    return FOCAL_OK;
}
