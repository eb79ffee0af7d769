/* Numbers read from text, as Python's int() and float() read them. */
#include <stdlib.h>
#include <string.h>

#include "text/template_chars.h"
#include "text/template_run.h"

bool foci_read_int(foci_chars text, int base, int64_t *out)
{
    text = foci_chars_strip(text, true, true);
    const char *at = text.data, *end = at + text.bytes;
    const bool is_minus = at < end && *at == '-';
    if (at < end && (*at == '-' || *at == '+')) at++;
    const char mark = (char)(end - at > 1 && *at == '0' ? at[1] | 0x20 : '\0');
    const int named = mark == 'x' ? 16 : mark == 'o' ? 8 : mark == 'b' ? 2 : 0;
    const bool has_prefix = named && (base == 0 || base == named);
    if (has_prefix) at += 2;
    if (has_prefix && at < end && *at == '_') at++;
    if (base == 0) base = has_prefix ? named : 10;
    int64_t value = 0; /* negative, for that side reaches further */
    bool after_digit = false;
    for (; at < end; at++) {
        const char c = *at, low = (char)(c | 0x20);
        if (c == '_' && after_digit) {
            after_digit = false;
            continue;
        }
        const int digit = c >= '0' && c <= '9'       ? c - '0'
                          : low >= 'a' && low <= 'z' ? low - 'a' + 10
                                                     : 99;
        if (digit >= base || __builtin_mul_overflow(value, base, &value) ||
            __builtin_sub_overflow(value, digit, &value))
            return false;
        after_digit = true;
    }
    if (!after_digit || (!is_minus && value == INT64_MIN)) return false;
    *out = is_minus ? value : -value;
    return true;
}

bool foci_read_real(foci_chars text, double *out)
{
    char copy[128];
    size_t bytes = 0;
    text = foci_chars_strip(text, true, true);
    for (size_t n = 0; n < text.bytes; n++) {
        const char c = text.data[n];
        const bool is_between = n > 0 && n + 1 < text.bytes &&
                                foci_char_is_digit((unsigned char)text.data[n - 1]) &&
                                foci_char_is_digit((unsigned char)text.data[n + 1]);
        if (c == '_' && is_between) continue;
        /* No hexadecimal floats, no "nan(...)": only what float() reads. */
        if (bytes + 1 >= sizeof copy || c == '\0' || !strchr("0123456789+-.eEinftyaINFTYA", c))
            return false;
        copy[bytes++] = c;
    }
    copy[bytes] = '\0';
    char *end;
    *out = strtod(copy, &end);
    return bytes > 0 && *end == '\0';
}
