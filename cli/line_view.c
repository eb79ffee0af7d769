/* How an edited line looks on a terminal. Rows are ended by us, never by the terminal's own
 * wrapping, which differs between terminals in the last column. */
#include "line_view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct place {
    int row, column;
} place;

/* What stands for the unit at a byte of the text, and its columns. */
typedef struct piece {
    const char *shown;
    size_t shown_bytes, bytes;
    int width;
    bool ends_line;
} piece;

static bool put(line_view *v, const char *text, size_t bytes)
{
    if (v->capacity - v->bytes < bytes) {
        const size_t capacity = 2 * v->capacity + bytes + 256;
        char *more = realloc(v->output, capacity);
        if (!more) return false;
        v->output = more;
        v->capacity = capacity;
    }
    memcpy(v->output + v->bytes, text, bytes);
    v->bytes += bytes;
    return true;
}

/* ESC [ count letter; nothing for 0. */
static bool put_move(line_view *v, int count, char letter)
{
    char text[32];
    if (count == 0) return true;
    return put(v, text, (size_t)snprintf(text, sizeof text, "\033[%d%c", count, letter));
}

static piece piece_at(const line_buffer *b, size_t at)
{
    size_t first = 0;
    if (at >= b->bytes) return (piece){.shown = "", .width = 1}; /* room for the cursor */
    piece p = {.shown = b->text + at, .bytes = line_unit_after(b, at)};
    p.shown_bytes = p.bytes;
    p.width = line_character_width(b->text + at, b->bytes - at, &first);
    p.ends_line = b->text[at] == '\n';
    if (b->text[at] == '\t') {
        p.shown = "    ";
        p.shown_bytes = 4;
        p.width = 4;
    } else if (p.width <= 0) { /* a control character, no character, or a mark without a base */
        p.shown = p.ends_line ? "" : "?";
        p.shown_bytes = p.ends_line ? 0 : 1;
        p.width = 1;
    }
    return p;
}

/* Where a piece goes: on the next row when this one has no room for it. */
static place fit(place at, const piece *p, int columns)
{
    if (at.column > 0 && at.column + p->width > columns && !p->ends_line)
        return (place){at.row + 1, 0};
    return at;
}

static place behind(place at, const piece *p)
{
    return p->ends_line ? (place){at.row + 1, 0} : (place){at.row, at.column + p->width};
}

static place begin_of_text(const char *prompt)
{
    return (place){0, (int)strlen(prompt)};
}

/* The cursor's place, and the row that the text ends in. */
static place find_cursor(const line_view *v, const char *prompt, const line_buffer *b, int *last)
{
    place at = begin_of_text(prompt), cursor = {0, 0};
    for (size_t n = 0;;) {
        const piece p = piece_at(b, n);
        at = fit(at, &p, v->columns);
        /* An end of line in the last column leaves no room for a cursor before it. */
        if (n == b->cursor) cursor = at.column < v->columns ? at : (place){at.row, v->columns - 1};
        *last = at.row;
        if (n >= b->bytes) return cursor;
        at = behind(at, &p);
        n += p.bytes;
    }
}

static bool put_rows(line_view *v, const char *prompt, const line_buffer *b, int *row)
{
    place at = begin_of_text(prompt);
    if (v->top == 0 && !put(v, prompt, strlen(prompt))) return false;
    for (size_t n = 0;;) {
        const piece p = piece_at(b, n);
        at = fit(at, &p, v->columns);
        if (at.row >= v->top + v->rows) return true;
        for (; *row < at.row; (*row)++)
            if (!put(v, "\r\n", 2)) return false;
        if (at.row >= v->top && !put(v, p.shown, p.shown_bytes)) return false;
        if (n >= b->bytes) return true;
        at = behind(at, &p);
        n += p.bytes;
    }
}

bool line_view_draw(line_view *v, const char *prompt, const line_buffer *b)
{
    int last = 0;
    v->bytes = 0;
    if (v->columns < 8) v->columns = 8;
    if (v->rows < 1) v->rows = 1;
    const place cursor = find_cursor(v, prompt, b, &last);
    if (last < v->rows) v->top = 0;
    if (cursor.row < v->top) v->top = cursor.row;
    if (cursor.row >= v->top + v->rows) v->top = cursor.row - v->rows + 1;
    if (!put_move(v, v->cursor_row, 'A') || !put(v, "\r\033[J", 4)) return false;
    int row = v->top;
    if (!put_rows(v, prompt, b, &row)) return false;
    v->cursor_row = cursor.row - v->top;
    return put_move(v, row - cursor.row, 'A') && put(v, "\r", 1) && put_move(v, cursor.column, 'C');
}

void line_view_free(line_view *v)
{
    free(v->output);
    *v = (line_view){0};
}
