/* Reading lines from a person: editing keys and history on a terminal, plain lines otherwise. */
#ifndef CLI_LINE_EDIT_H
#define CLI_LINE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct line_editor line_editor;

/* Reads standard input, shows on standard error. NULL when there is no memory. */
line_editor *line_editor_new(void);
void line_editor_free(line_editor *editor); /* NULL is fine; the terminal is as it was */

typedef enum line_result {
    LINE_READ,        /* a line, without its end */
    LINE_END,         /* the input has ended */
    LINE_INTERRUPTED, /* Ctrl-C on a terminal; the line is dropped */
    LINE_FAILED       /* no memory, or reading failed: errno tells (EMSGSIZE: LINE_MOST_BYTES) */
} line_result;

enum { LINE_MOST_BYTES = 64 << 20 }; /* of a line that is not typed */

/* The next line, behind `prompt` (shown on a terminal only). *text stays valid until the next call
 * and may hold any bytes but a NUL. Lines that are not empty join the history. A line that ends in
 * a backslash goes on in the next one. */
line_result line_editor_read(line_editor *editor, const char *prompt, const char **text);

#endif /* CLI_LINE_EDIT_H */
