/* JSON strings on stdout. */
#ifndef CLI_JSON_TEXT_H
#define CLI_JSON_TEXT_H

#include <stddef.h>

/* In quotes, escaped; what is not UTF-8 becomes U+FFFD. */
void json_print_text(const char *text, size_t bytes);

#endif /* CLI_JSON_TEXT_H */
