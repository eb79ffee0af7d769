/* Results on stdout: a JSON object a line, or a table that a person reads. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>

enum { OUTPUT_LINE = 8192 };

/* Start with is_json set and the rest zero. Fields appear in the order of the calls; rows of one
 * table have the same fields. */
typedef struct output_table {
    bool is_json;
    int32_t field_count;
    char names[OUTPUT_LINE], last_names[OUTPUT_LINE]; /* head lines: of this row, as printed */
    char values[OUTPUT_LINE];
} output_table;

void output_text(output_table *table, const char *name, const char *value);
void output_int(output_table *table, const char *name, int64_t value);

/* decimals: behind the point, for people; negative: as 1.2e-3. JSON gets nine digits, and null for
 * what is not finite. */
void output_number(output_table *table, const char *name, double value, int decimals);

/* Ends the row and prints it, below its head when that is new. */
void output_end(output_table *table);

#endif /* CLI_OUTPUT_H */
