/* Results on stdout: a JSON object a line, or a table that a person reads. */
#include "output.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"

static void append(char *line, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line that is full stays as it is: OUTPUT_LINE holds three times the longest row there is. */
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
    char quoted[256] = "\"";
    size_t used = 1;
    if (!table->is_json) {
        add_field(table, name, value, table->field_count == 0 ? -17 : 10);
        return;
    }
    for (const char *at = value; *at && used + 8 < sizeof quoted; at++) {
        const unsigned char letter = (unsigned char)*at;
        if (letter < 0x20)
            used += (size_t)snprintf(quoted + used, sizeof quoted - used, "\\u%04x", letter);
        else if (letter == '"' || letter == '\\')
            used += (size_t)snprintf(quoted + used, sizeof quoted - used, "\\%c", letter);
        else
            quoted[used++] = *at;
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
