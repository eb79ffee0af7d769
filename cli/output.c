/* Results on stdout: a JSON object a line, or a table that a person reads. */
#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "character.h"
#include "cli.h"

static void append(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum {
    QUOTED_BYTES = OUTPUT_LINE - 2048
}; /* a text; the numbers of a row need less than the rest */

/* A line that is full stays as it is: OUTPUT_LINE holds the longest path and all else of a row. */
static void append(char *line, const char *format, ...)
{
    const size_t used = strlen(line);
    va_list values;
    va_start(values, format);
    (void)vsnprintf(line + used, OUTPUT_LINE - used, format, values);
    va_end(values);
}

/* A table's column is `width` wide or as its name; negative: flush left. */
static void add_field(output_table *table, const char *name, const char *value, int width)
{
    if (table->is_json) {
        append(table->values, "%s\"%s\": %s", table->field_count ? ", " : "", name, value);
    } else {
        if (width >= 0 && width < (int)strlen(name)) width = (int)strlen(name);
        const char *gap = table->field_count ? "  " : "";
        append(table->names, "%s%*s", gap, width, name);
        append(table->values, "%s%*s", gap, width, value);
    }
    table->field_count++;
}

void output_text(output_table *table, const char *name, const char *value)
{
    char quoted[QUOTED_BYTES] = "\"";
    size_t used = 1, bytes = strlen(value);
    if (!table->is_json) {
        add_field(table, name, value, table->field_count == 0 ? -17 : 10);
        return;
    }
    while (bytes > 0 && used + 8 < sizeof quoted) {
        uint32_t code;
        const size_t length = character_read(value, bytes, &code);
        char *to = quoted + used;
        const size_t room = sizeof quoted - used;
        if (length == 0) /* not UTF-8 */
            used += (size_t)snprintf(to, room, "\xEF\xBF\xBD");
        else if (code < 0x20)
            used += (size_t)snprintf(to, room, "\\u%04x", (unsigned)code);
        else if (code == '"' || code == '\\')
            used += (size_t)snprintf(to, room, "\\%c", *value);
        else
            used += (size_t)snprintf(to, room, "%.*s", (int)length, value);
        const size_t step = length == 0 ? 1 : length;
        value += step;
        bytes -= step;
    }
    quoted[used] = '"';
    quoted[used + 1] = '\0';
    add_field(table, name, quoted, 0);
}

void output_int(output_table *table, const char *name, int64_t value)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%lld", (long long)value);
    add_field(table, name, text, 7);
}

void output_number(output_table *table, const char *name, double value, int decimals)
{
    char text[64];
    if (table->is_json && !isfinite(value))
        (void)snprintf(text, sizeof text, "null");
    else if (table->is_json)
        (void)snprintf(text, sizeof text, "%.9g", value);
    else if (!isfinite(value))
        (void)snprintf(text, sizeof text, "-");
    else if (decimals < 0)
        (void)snprintf(text, sizeof text, "%.1e", value);
    else
        (void)snprintf(text, sizeof text, "%.*f", decimals, value);
    add_field(table, name, text, 7);
}

void output_end(output_table *table)
{
    if (table->is_json) {
        printf("{%s}\n", table->values);
    } else {
        if (strcmp(table->names, table->last_names) != 0)
            printf("%s%s%s\n", cli_bold(), table->names, cli_plain());
        printf("%s\n", table->values);
        memcpy(table->last_names, table->names, sizeof table->names);
    }
    (void)fflush(stdout);
    table->names[0] = table->values[0] = '\0';
    table->field_count = 0;
}
