/* A line while it is edited: keys, escape sequences, pasted text and history. */
#include "line_buffer.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "character.h"

#define CONTROL(letter) ((letter)&0x1F)
enum { KEY_ESCAPE = 0x1B, KEY_DELETE_BACK = 0x7F };

int line_character_width(const char *text, size_t left, size_t *bytes)
{
    uint32_t code;
    const size_t length = character_read(text, left, &code);
    *bytes = length ? length : 1;
    if (length == 0) return -1;
    return code >= 0x20 && code < 0x7F ? 1 : wcwidth((wchar_t)code);
}

size_t line_unit_after(const line_buffer *b, size_t at)
{
    size_t bytes = 0, end = at;
    if (at >= b->bytes) return 0;
    (void)line_character_width(b->text + at, b->bytes - at, &bytes);
    end += bytes;
    while (end < b->bytes && line_character_width(b->text + end, b->bytes - end, &bytes) == 0)
        end += bytes;
    return end - at;
}

size_t line_unit_before(const line_buffer *b, size_t at)
{
    size_t begin = at;
    while (begin > 0) {
        const size_t end = begin;
        size_t bytes = 0;
        /* Back over the bytes that cannot begin a character: at most three belong to one. */
        do begin--;
        while (begin > 0 && end - begin < 4 && ((unsigned char)b->text[begin] & 0xC0U) == 0x80U);
        const int width = line_character_width(b->text + begin, end - begin, &bytes);
        if (bytes != end - begin) begin = end - 1; /* no character: a byte by itself */
        if (width != 0 || bytes != end - begin) break;
    }
    return at - begin;
}

static bool reserve(line_buffer *b, size_t need)
{
    if (need < b->capacity) return true;
    const size_t capacity = need + need / 2 + 64;
    char *more = realloc(b->text, capacity);
    if (!more) return false;
    b->text = more;
    b->capacity = capacity;
    return true;
}

static bool insert(line_buffer *b, char byte)
{
    if (!reserve(b, b->bytes + 1)) return false;
    memmove(b->text + b->cursor + 1, b->text + b->cursor, b->bytes - b->cursor);
    b->text[b->cursor++] = byte;
    b->text[++b->bytes] = '\0';
    return true;
}

static void erase(line_buffer *b, size_t from, size_t to)
{
    if (from >= to) return;
    memmove(b->text + from, b->text + to, b->bytes - to);
    b->bytes -= to - from;
    b->text[b->bytes] = '\0';
    b->cursor = from;
}

static bool replace(line_buffer *b, const char *text)
{
    const size_t bytes = strlen(text);
    if (!reserve(b, bytes)) return false;
    memcpy(b->text, text, bytes + 1);
    b->bytes = b->cursor = bytes;
    return true;
}

/* Where the cursor's own line begins and ends: the text may have several. */
static size_t line_begin(const line_buffer *b, size_t at)
{
    while (at > 0 && b->text[at - 1] != '\n') at--;
    return at;
}

static size_t line_end(const line_buffer *b, size_t at)
{
    while (at < b->bytes && b->text[at] != '\n') at++;
    return at;
}

static bool is_space(char byte)
{
    return byte == ' ' || byte == '\t' || byte == '\n';
}

static size_t word_begin(const line_buffer *b)
{
    size_t at = b->cursor;
    while (at > 0 && is_space(b->text[at - 1])) at--;
    while (at > 0 && !is_space(b->text[at - 1])) at--;
    return at;
}

static size_t word_end(const line_buffer *b)
{
    size_t at = b->cursor;
    while (at < b->bytes && is_space(b->text[at])) at++;
    while (at < b->bytes && !is_space(b->text[at])) at++;
    return at;
}

/* As many characters into the line that begins at `begin` as the cursor is in its own. */
static void move_to_line(line_buffer *b, size_t begin)
{
    size_t steps = 0;
    for (size_t at = line_begin(b, b->cursor); at < b->cursor; at += line_unit_after(b, at))
        steps++;
    const size_t end = line_end(b, begin);
    b->cursor = begin;
    while (steps-- > 0 && b->cursor < end) b->cursor += line_unit_after(b, b->cursor);
}

static bool show_history(line_buffer *b, size_t at)
{
    if (b->history_at == b->history_count) {
        char *draft = strdup(b->text ? b->text : "");
        if (!draft) return false;
        free(b->draft);
        b->draft = draft;
    }
    if (!replace(b, at == b->history_count ? b->draft : b->history[at])) return false;
    b->history_at = at;
    return true;
}

static bool go_up(line_buffer *b)
{
    const size_t begin = line_begin(b, b->cursor);
    if (begin > 0) {
        move_to_line(b, line_begin(b, begin - 1));
        return true;
    }
    return b->history_at == 0 || show_history(b, b->history_at - 1);
}

static bool go_down(line_buffer *b)
{
    const size_t end = line_end(b, b->cursor);
    if (end < b->bytes) {
        move_to_line(b, end + 1);
        return true;
    }
    return b->history_at == b->history_count || show_history(b, b->history_at + 1);
}

/* The finished line joins the history, unless it is the last one again. */
static bool remember(line_buffer *b)
{
    if (b->bytes == 0) return true;
    if (b->history_count > 0 && strcmp(b->history[b->history_count - 1], b->text) == 0) return true;
    char *copy = strdup(b->text);
    if (!copy) return false;
    if (b->history_count == LINE_HISTORY) {
        free(b->history[0]);
        memmove(b->history, b->history + 1, (LINE_HISTORY - 1) * sizeof *b->history);
        b->history_count--;
    }
    b->history[b->history_count++] = copy;
    return true;
}

static line_key enter(line_buffer *b, bool *is_lost)
{
    if (b->bytes > 0 && b->text[b->bytes - 1] == '\\') { /* goes on in the next line */
        b->text[b->bytes - 1] = '\n';
        b->cursor = b->bytes;
        return LINE_KEY_EDITED;
    }
    if (!remember(b)) *is_lost = true;
    return LINE_KEY_ENTER;
}

/* The end of "ESC [ parameters letter". */
static void take_sequence(line_buffer *b, char letter, bool *is_lost)
{
    b->parameters[b->parameter_count] = '\0';
    const bool is_word = strchr(b->parameters, ';') != NULL; /* with Ctrl or Alt held */
    const long number = strtol(b->parameters, NULL, 10);
    b->state = LINE_PLAIN;
    if (letter == '~' && number == 200) b->is_pasting = true;
    if (letter == '~' && number == 201) b->is_pasting = false;
    if (b->is_pasting) return; /* a pasted sequence is no key */
    if (letter == 'A') *is_lost = !go_up(b);
    if (letter == 'B') *is_lost = !go_down(b);
    if (letter == 'C')
        b->cursor = is_word ? word_end(b) : b->cursor + line_unit_after(b, b->cursor);
    if (letter == 'D')
        b->cursor = is_word ? word_begin(b) : b->cursor - line_unit_before(b, b->cursor);
    if (letter == 'H' || (letter == '~' && (number == 1 || number == 7)))
        b->cursor = line_begin(b, b->cursor);
    if (letter == 'F' || (letter == '~' && (number == 4 || number == 8)))
        b->cursor = line_end(b, b->cursor);
    if (letter == '~' && number == 3)
        erase(b, b->cursor, b->cursor + line_unit_after(b, b->cursor));
}

/* A byte behind ESC. */
static void take_escaped(line_buffer *b, char byte, bool *is_lost)
{
    b->state = LINE_PLAIN;
    switch (byte) {
    case '[':
        b->state = LINE_SEQUENCE;
        b->parameter_count = 0;
        break;
    case 'O':
        b->state = LINE_LETTER;
        b->parameter_count = 0;
        break;
    case KEY_ESCAPE: /* the first one was a key by itself */
        b->state = LINE_ESCAPE;
        break;
    case 'b':
        b->cursor = word_begin(b);
        break;
    case 'f':
        b->cursor = word_end(b);
        break;
    case '\r': /* Alt-Enter: a line more */
        *is_lost = !insert(b, '\n');
        break;
    case KEY_DELETE_BACK:
        erase(b, word_begin(b), b->cursor);
        break;
    default:
        break;
    }
}

static void take_pasted(line_buffer *b, char byte, bool *is_lost)
{
    const bool is_second = byte == '\n' && b->has_just_return;
    b->has_just_return = byte == '\r';
    if (byte == '\r') byte = '\n';
    const bool is_text = (unsigned char)byte >= 0x20 && byte != KEY_DELETE_BACK;
    if (!is_second && (is_text || byte == '\n' || byte == '\t')) *is_lost = !insert(b, byte);
}

static line_key take_control(line_buffer *b, char byte, bool *is_lost)
{
    switch (byte) {
    case '\r':
    case '\n':
        return enter(b, is_lost);
    case CONTROL('C'):
        return LINE_KEY_DROP;
    case CONTROL('D'):
        if (b->bytes == 0) return LINE_KEY_END;
        erase(b, b->cursor, b->cursor + line_unit_after(b, b->cursor));
        break;
    case CONTROL('L'):
        return LINE_KEY_CLEAR;
    case CONTROL('Z'):
        return LINE_KEY_SUSPEND;
    case CONTROL('A'):
        b->cursor = line_begin(b, b->cursor);
        break;
    case CONTROL('E'):
        b->cursor = line_end(b, b->cursor);
        break;
    case CONTROL('B'):
        b->cursor -= line_unit_before(b, b->cursor);
        break;
    case CONTROL('F'):
        b->cursor += line_unit_after(b, b->cursor);
        break;
    case CONTROL('H'):
    case KEY_DELETE_BACK:
        erase(b, b->cursor - line_unit_before(b, b->cursor), b->cursor);
        break;
    case CONTROL('K'):
        erase(b, b->cursor, line_end(b, b->cursor));
        break;
    case CONTROL('U'):
        erase(b, line_begin(b, b->cursor), b->cursor);
        break;
    case CONTROL('W'):
        erase(b, word_begin(b), b->cursor);
        break;
    case CONTROL('P'):
        *is_lost = !go_up(b);
        break;
    case CONTROL('N'):
        *is_lost = !go_down(b);
        break;
    case '\t':
        *is_lost = !insert(b, byte);
        break;
    default: /* other keys do nothing */
        break;
    }
    return LINE_KEY_EDITED;
}

line_key line_buffer_take(line_buffer *b, char byte, bool *is_lost)
{
    *is_lost = false;
    if (b->state == LINE_SEQUENCE || b->state == LINE_LETTER) {
        if (byte >= 0x40 && byte <= 0x7E)
            take_sequence(b, byte, is_lost);
        else if (byte < 0x20 || byte > 0x3F) /* broken off */
            b->state = byte == KEY_ESCAPE ? LINE_ESCAPE : LINE_PLAIN;
        else if (b->parameter_count < LINE_PARAMETERS - 1)
            b->parameters[b->parameter_count++] = byte;
    } else if (b->state == LINE_ESCAPE) {
        if (b->is_pasting && byte != '[' && byte != KEY_ESCAPE) {
            b->state = LINE_PLAIN; /* only "ESC [ 201 ~" means something in here */
            take_pasted(b, byte, is_lost);
        } else {
            take_escaped(b, byte, is_lost);
        }
    } else if (byte == KEY_ESCAPE) {
        b->state = LINE_ESCAPE;
    } else if (b->is_pasting) {
        take_pasted(b, byte, is_lost);
    } else if ((unsigned char)byte < 0x20 || byte == KEY_DELETE_BACK) {
        return take_control(b, byte, is_lost);
    } else {
        *is_lost = !insert(b, byte);
    }
    return LINE_KEY_EDITED;
}

void line_buffer_begin(line_buffer *b)
{
    free(b->draft);
    b->draft = NULL;
    b->bytes = b->cursor = 0;
    if (b->text) b->text[0] = '\0';
    b->history_at = b->history_count;
    b->state = LINE_PLAIN;
    b->is_pasting = b->has_just_return = false;
}

void line_buffer_free(line_buffer *b)
{
    for (size_t n = 0; n < b->history_count; n++) free(b->history[n]);
    free(b->draft);
    free(b->text);
    *b = (line_buffer){0};
}
