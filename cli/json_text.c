/* Strings as JSON wants them. */
#include "json_text.h"

#include <stdint.h>
#include <stdio.h>

#include "character.h"

void json_print_text(const char *text, size_t bytes)
{
    putchar('"');
    while (bytes > 0) {
        uint32_t code;
        const size_t length = character_read(text, bytes, &code);
        if (length == 0)
            (void)fputs("\xEF\xBF\xBD", stdout);
        else if (code == '"' || code == '\\')
            printf("\\%c", *text);
        else if (code == '\n')
            (void)fputs("\\n", stdout);
        else if (code < 0x20 || code == 0x7F)
            printf("\\u%04x", (unsigned)code);
        else
            (void)fwrite(text, 1, length, stdout);
        const size_t step = length == 0 ? 1 : length;
        text += step;
        bytes -= step;
    }
    putchar('"');
}
