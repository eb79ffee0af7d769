/* A line while it is edited: bytes from a keyboard in, text, cursor and history out. No terminal is
 * needed here; line_view draws it and line_edit brings the bytes. */
#ifndef CLI_LINE_BUFFER_H
#define CLI_LINE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>

enum { LINE_HISTORY = 500, LINE_PARAMETERS = 16 };

/* All zero is an empty one. */
typedef struct line_buffer {
    char *text; /* NUL behind it; NULL before the first byte. Several lines may be in it */
    size_t bytes, capacity;
    size_t cursor; /* a byte of the text where a character begins, or its end */
    char *history[LINE_HISTORY];
    size_t history_count, history_at; /* at history_count: the line that is being written */
    char *draft;                      /* that line, while another is shown */
    enum { LINE_PLAIN, LINE_ESCAPE, LINE_SEQUENCE, LINE_LETTER } state;
    char parameters[LINE_PARAMETERS]; /* of an escape sequence */
    size_t parameter_count;
    bool is_pasting;      /* between the marks of a bracketed paste */
    bool has_just_return; /* the last pasted byte was a carriage return */
} line_buffer;

typedef enum line_key {
    LINE_KEY_EDITED, /* anything that only changes text or cursor, or nothing */
    LINE_KEY_ENTER,  /* the line is done, and in the history */
    LINE_KEY_END,    /* Ctrl-D on an empty line */
    LINE_KEY_DROP,   /* Ctrl-C */
    LINE_KEY_CLEAR,  /* Ctrl-L: the screen is to be cleared */
    LINE_KEY_SUSPEND /* Ctrl-Z */
} line_key;

/* An empty line; the history stays. */
void line_buffer_begin(line_buffer *buffer);
/* Takes a byte. Where there is no memory for it, it is lost and *is_lost becomes true. */
line_key line_buffer_take(line_buffer *buffer, char byte, bool *is_lost);
void line_buffer_free(line_buffer *buffer); /* all zero again */

/* What the cursor moves over at once: a character and the marks that combine with it. The bytes of
 * the one that begins at, or ends at, a byte of the text; 0 at the text's end or beginning. */
size_t line_unit_after(const line_buffer *buffer, size_t at);
size_t line_unit_before(const line_buffer *buffer, size_t at);

/* Columns that the character at the beginning of text takes, its bytes in *bytes; -1 for one that
 * cannot be shown: a control character or none at all. Follows LC_CTYPE. */
int line_character_width(const char *text, size_t left, size_t *bytes);

#endif /* CLI_LINE_BUFFER_H */
