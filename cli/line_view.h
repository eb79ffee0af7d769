/* How an edited line looks on a terminal: wrapped into rows of its width, and no more of them than
 * it has, around the cursor. */
#ifndef CLI_LINE_VIEW_H
#define CLI_LINE_VIEW_H

#include "line_buffer.h"

/* All zero is a cursor at the left of an empty row. */
typedef struct line_view {
    int columns, rows; /* of the terminal */
    int top;           /* the first row of the line that is shown */
    int cursor_row;    /* below the first shown one */
    char *output;      /* what has to be written to the terminal; not NUL-terminated */
    size_t bytes, capacity;
} line_view;

/* Sets output to what turns the last drawn state into the new one. False without memory. The prompt
 * is ASCII. */
bool line_view_draw(line_view *view, const char *prompt, const line_buffer *buffer);
void line_view_free(line_view *view); /* all zero again */

#endif /* CLI_LINE_VIEW_H */
