/* Strings as JSON wants them. */
#include "json_text.h"

#include <stdint.h>

#include "character.h"

void json_write_text(FILE *file, const char *text, size_t bytes)
{
    (void)fputc('"', file);
    while (bytes > 0) {
        uint32_t code;
        const size_t length = character_read(text, bytes, &code);
        if (length == 0)
            (void)fputs("\xEF\xBF\xBD", file);
        else if (code == '"' || code == '\\')
            (void)fprintf(file, "\\%c", *text);
        else if (code == '\n')
            (void)fputs("\\n", file);
        else if (code < 0x20 || code == 0x7F)
            (void)fprintf(file, "\\u%04x", (unsigned)code);
        else
            (void)fwrite(text, 1, length, file);
        const size_t step = length == 0 ? 1 : length;
        text += step;
        bytes -= step;
    }
    (void)fputc('"', file);
}

void json_print_text(const char *text, size_t bytes)
{
    json_write_text(stdout, text, bytes);
}
