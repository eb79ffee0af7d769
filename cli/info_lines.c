/* A name, and beside it what a file says: shown to people so that it cannot steer their terminal.
 */
#include "info_lines.h"

#include <stdio.h>
#include <string.h>

#include "character.h"
#include "json_text.h"

/* A text from the file, for a terminal: what would move the cursor or is no character shows as ?.
 */
static void print_shown(const char *text)
{
    for (size_t left = strlen(text), step; left > 0; text += step, left -= step) {
        uint32_t code;
        const size_t length = character_read(text, left, &code);
        step = length ? length : 1;
        if (length == 0 || code < 0x20 || (code >= 0x7F && code < 0xA0))
            putchar('?');
        else
            (void)fwrite(text, 1, length, stdout);
    }
}

void info_text_line(const char *name, const char *text)
{
    if (!*text) return;
    printf("%-12s ", name);
    print_shown(text);
    putchar('\n');
}

const char *info_in_millions(int64_t count, char *text, size_t bytes)
{
    const double value = (double)count;
    const char *unit = value >= 1e9 ? " G" : value >= 1e6 ? " M" : value >= 1e4 ? " k" : "";
    const double scale = value >= 1e9 ? 1e9 : value >= 1e6 ? 1e6 : value >= 1e4 ? 1e3 : 1.0;
    (void)snprintf(text, bytes, scale > 1.0 ? "%.1f%s" : "%.0f%s", value / scale, unit);
    return text;
}

void info_json_field(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    json_print_text(text, strlen(text));
    printf(", ");
}
