/* The lines and members that focal info prints. */
#ifndef CLI_INFO_LINES_H
#define CLI_INFO_LINES_H

#include <stddef.h>
#include <stdint.h>

/* "name         text"; nothing when the text is empty. */
void info_text_line(const char *name, const char *text);
/* "\"name\": \"text\", ". */
void info_json_field(const char *name, const char *text);
/* 134515008 as "134.5 M"; returns text. */
const char *info_in_millions(int64_t count, char *text, size_t bytes);

#endif /* CLI_INFO_LINES_H */
