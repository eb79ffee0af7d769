/* Escaping: runs of bytes that stand for themselves go out together. */
#include "io/json_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void foci_json_put(foci_writer *writer, const char *text)
{
    foci_writer_put(writer, text, strlen(text));
}

void foci_json_put_text(foci_writer *writer, foci_text text)
{
    size_t begin = 0;
    foci_json_put(writer, "\"");
    for (size_t n = 0; n < text.bytes; n++) {
        const unsigned char c = (unsigned char)text.data[n];
        char escape[8];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        if (c < 0x20)
            (void)snprintf(escape, sizeof escape, "\\u%04x", c);
        else
            (void)snprintf(escape, sizeof escape, "\\%c", c);
        if (n > begin) foci_writer_put(writer, text.data + begin, n - begin);
        foci_json_put(writer, escape);
        begin = n + 1;
    }
    if (text.bytes > begin) foci_writer_put(writer, text.data + begin, text.bytes - begin);
    foci_json_put(writer, "\"");
}

void foci_json_put_int(foci_writer *writer, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    foci_json_put(writer, text);
}

void foci_json_put_real(foci_writer *writer, double value)
{
    char text[32];
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) break;
    }
    if (value == round(value) && fabs(value) < 1e15)
        (void)snprintf(text, sizeof text, "%.1f", value); /* a whole one must stay a real, too */
    char *comma = strchr(text, ',');                      /* in some of the world's locales */
    if (comma) *comma = '.';
    foci_json_put(writer, text);
}

void foci_json_put_bool(foci_writer *writer, bool value)
{
    foci_json_put(writer, value ? "true" : "false");
}
