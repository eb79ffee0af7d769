/* JSON strings, on stdout or into a file. */
#ifndef CLI_JSON_TEXT_H
#define CLI_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>

/* In quotes, escaped; what is not UTF-8 becomes U+FFFD. */
void json_print_text(const char *text, size_t bytes);
void json_write_text(FILE *file, const char *text, size_t bytes);

#endif /* CLI_JSON_TEXT_H */
