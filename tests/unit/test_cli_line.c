/* The line editor without a terminal: what keys do to the text, and how it is drawn. A small
 * terminal in here shows what a person would see. */
#include "support/check.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "line_buffer.h"
#include "line_view.h"

#define LEFT "\033[D"
#define RIGHT "\033[C"
#define UP "\033[A"
#define DOWN "\033[B"
#define HOME "\033[H"
#define END "\033[F"
#define DELETE "\033[3~"
#define PASTE(text) "\033[200~" text "\033[201~"

static line_key type(line_buffer *b, const char *keys)
{
    line_key key = LINE_KEY_EDITED;
    for (; *keys; keys++) {
        bool is_lost = false;
        key = line_buffer_take(b, *keys, &is_lost);
        assert_false(is_lost);
        assert_true(b->cursor <= b->bytes);
    }
    return key;
}

static void keys_edit(void **state)
{
    (void)state;
    /* "|" in what must come stands for the cursor. */
    static const struct {
        const char *keys, *text;
    } cases[] = {
        {"abc", "abc|"},
        {"abc" LEFT LEFT "x", "ax|bc"},
        {"abc" LEFT LEFT LEFT LEFT "x", "x|abc"},
        {"abc" LEFT RIGHT RIGHT "x", "abcx|"},
        {"abc\002\002\006x", "abx|c"},
        {"abc" HOME "x" END "y", "xabcy|"},
        {"abc\001x\005y", "xabcy|"},
        {"abc\033[1~x\033[4~y", "xabcy|"},
        {"abc\033OHx\033OFy", "xabcy|"},
        {"abc\177\177", "a|"},
        {"abc\010" HOME "\177", "|ab"},
        {"abc" HOME DELETE, "|bc"},
        {"abc" HOME "\004", "|bc"},
        {"abc" DELETE "\004", "abc|"},
        {"abc def" LEFT LEFT "\013", "abc d|"},
        {"abc def" LEFT LEFT "\025", "|ef"},
        {"abc def  \027", "abc |"},
        {"abc def\027\027\027", "|"},
        {"abc def\033b\033bx", "x|abc def"},
        {"abc def" HOME "\033fx", "abcx| def"},
        {"abc def\033[1;5Dx", "abc x|def"},
        {"a\xC3\xA9z" LEFT LEFT "x", "ax|\xC3\xA9z"}, /* e with acute: one step */
        {"a\xC3\xA9\177", "a|"},                      /* and one to erase */
        {"ae\xCC\x81\177", "a|"},                     /* e and a combining acute */
        {"ae\xCC\x81" LEFT "x", "ax|e\xCC\x81"},
        {"\xF0\x9F\x98\x80\xE6\x97\xA5" LEFT LEFT "x", "x|\xF0\x9F\x98\x80\xE6\x97\xA5"},
        {"a\xFF\xC3" LEFT LEFT "x", "ax|\xFF\xC3"}, /* no characters: byte by byte */
        {"a\x80\x80\x80\x80\x80\177", "a\x80\x80\x80\x80|"},
        {"a" PASTE("b\rc\r\nd\ne") "f", "ab\nc\nd\ne"
                                        "f|"},
        {PASTE("a\003b\tc\033[Ad\033\033"), "ab\tcd|"}, /* pasted keys are none */
        {PASTE("a\033zb"), "azb|"},
        {"one\\\rtwo", "one\ntwo|"},
        {"one" LEFT "\033\rtwo", "on\ntwo|e"},
        {PASTE("abc\nde") UP "x", "abx|c\nde"},
        {PASTE("abc\nd") UP "\005" DOWN "x", "abc\ndx|"},
        {PASTE("abc\ndef") "\001x", "abc\nx|def"},
        {PASTE("abc\ndef") "\025\177", "abc|"},
        {"a\033[99;99;99;99;99;99;99;99qb", "ab|"}, /* unknown, and too long */
        {"a\033[\xC3z", "az|"},
        {"a\033\033[Db", "b|a"},
        {"a\x01\x02\x07\x1cz", "z|a"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        line_buffer b = {0};
        char want[64], got[64];
        (void)snprintf(want, sizeof want, "%s", cases[n].text);
        assert_int_equal(type(&b, cases[n].keys), LINE_KEY_EDITED);
        (void)snprintf(got, sizeof got, "%.*s|%s", (int)b.cursor, b.text, b.text + b.cursor);
        assert_string_equal(got, want);
        line_buffer_free(&b);
    }
}

static void keys_end_lines(void **state)
{
    (void)state;
    line_buffer b = {0};
    assert_int_equal(type(&b, "\004"), LINE_KEY_END);
    assert_int_equal(type(&b, "a\003"), LINE_KEY_DROP);
    assert_int_equal(type(&b, "\014"), LINE_KEY_CLEAR);
    assert_int_equal(type(&b, "\032"), LINE_KEY_SUSPEND);
    assert_int_equal(type(&b, "b\r"), LINE_KEY_ENTER);
    assert_string_equal(b.text, "ab");
    line_buffer_begin(&b);
    assert_int_equal(type(&b, "\n"), LINE_KEY_ENTER);
    line_buffer_free(&b);
}

static void enter(line_buffer *b, const char *line)
{
    line_buffer_begin(b);
    assert_int_equal(type(b, line), LINE_KEY_EDITED);
    assert_int_equal(type(b, "\r"), LINE_KEY_ENTER);
}

static void history_comes_back(void **state)
{
    (void)state;
    line_buffer b = {0};
    enter(&b, "one");
    enter(&b, "two");
    enter(&b, "two"); /* once */
    enter(&b, "");    /* not at all */
    line_buffer_begin(&b);
    (void)type(&b, "draft" UP);
    assert_string_equal(b.text, "two");
    (void)type(&b, UP UP UP);
    assert_string_equal(b.text, "one");
    (void)type(&b, "!\020\016"); /* a change is not kept */
    assert_string_equal(b.text, "two");
    (void)type(&b, "\016\016");
    assert_string_equal(b.text, "draft");
    (void)type(&b, UP "!\r");
    line_buffer_begin(&b);
    (void)type(&b, UP);
    assert_string_equal(b.text, "two!");
    line_buffer_free(&b);
}

static void history_has_a_limit(void **state)
{
    (void)state;
    line_buffer b = {0};
    for (int n = 0; n < LINE_HISTORY + 3; n++) {
        char line[16];
        (void)snprintf(line, sizeof line, "%d", n);
        enter(&b, line);
    }
    line_buffer_begin(&b);
    for (int n = 0; n < LINE_HISTORY + 3; n++) (void)type(&b, UP);
    assert_string_equal(b.text, "3");
    line_buffer_free(&b);
}

/* A terminal of ROWS x COLUMNS cells that knows what line_view writes. Its last column holds a
 * character without wrapping, as real ones do. A wide character fills two cells, the second '<'. */
enum { ROWS = 4, COLUMNS = 10 };
typedef struct screen {
    char cells[ROWS][COLUMNS];
    int row, column;
} screen;

static void down(screen *s)
{
    if (s->row < ROWS - 1) {
        s->row++;
        return;
    }
    memmove(s->cells[0], s->cells[1], sizeof s->cells - COLUMNS);
    memset(s->cells[ROWS - 1], ' ', COLUMNS);
}

static void show(screen *s, const char *text, size_t bytes)
{
    for (size_t n = 0; n < bytes;) {
        size_t length = 1;
        if (text[n] == '\033') {
            char *letter = NULL;
            assert_int_equal(text[n + 1], '[');
            const long count = strtol(text + n + 2, &letter, 10);
            if (*letter == 'A') s->row -= (int)count;
            if (*letter == 'C') s->column += (int)count;
            if (*letter == 'J')
                memset(&s->cells[s->row][s->column], ' ',
                       (size_t)((ROWS - s->row) * COLUMNS - s->column));
            assert_true(strchr("ACJ", *letter) && s->row >= 0 && s->column < COLUMNS);
            length = (size_t)(letter + 1 - (text + n));
        } else if (text[n] == '\r') {
            s->column = 0;
        } else if (text[n] == '\n') {
            down(s);
        } else {
            const int width = line_character_width(text + n, bytes - n, &length);
            assert_true(width >= 0 && s->column + width <= COLUMNS);
            if (width > 0) s->cells[s->row][s->column] = 'U';
            if (width > 0 && length == 1) s->cells[s->row][s->column] = text[n];
            if (width > 1) s->cells[s->row][s->column + 1] = '<';
            s->column += width;
        }
        n += length;
    }
}

typedef struct session {
    line_buffer buffer;
    line_view view;
    screen screen;
} session;

static void draw(session *s, const char *keys)
{
    (void)type(&s->buffer, keys);
    s->view.columns = COLUMNS;
    s->view.rows = ROWS;
    assert_true(line_view_draw(&s->view, "> ", &s->buffer));
    show(&s->screen, s->view.output, s->view.bytes);
}

static void assert_screen(const session *s, const char *rows, int row, int column)
{
    char got[ROWS * (COLUMNS + 1) + 1];
    char *at = got;
    for (int n = 0; n < ROWS; n++) {
        int end = COLUMNS;
        while (end > 0 && s->screen.cells[n][end - 1] == ' ') end--;
        memcpy(at, s->screen.cells[n], (size_t)end);
        at += end;
        *at++ = '/';
    }
    *at = '\0';
    assert_string_equal(got, rows);
    assert_int_equal(s->screen.row, row);
    assert_int_equal(s->screen.column, column);
}

static void lines_are_drawn(void **state)
{
    (void)state;
    static const struct {
        const char *keys, *rows;
        int row, column;
    } cases[] = {
        {"", ">////", 0, 2},
        {"abc", "> abc////", 0, 5},
        {"abc" LEFT, "> abc////", 0, 4},
        {"abcdefg", "> abcdefg////", 0, 9},
        {"abcdefgh", "> abcdefgh////", 1, 0}, /* a full row: the cursor goes below */
        {"abcdefghi", "> abcdefgh/i///", 1, 1},
        {"abcdefghi" LEFT, "> abcdefgh/i///", 1, 0},
        {"abcdefghi" LEFT LEFT, "> abcdefgh/i///", 0, 9},
        {"abcdefg\xE6\x97\xA5", "> abcdefg/U<///", 1, 2}, /* too wide for the last column */
        {"abcdefg\xE6\x97\xA5" LEFT, "> abcdefg/U<///", 1, 0},
        {"e\xCC\x81x", "> ex////", 0, 4}, /* the mark takes no column */
        {"\xCC\x81x", "> ?x////", 0, 4},  /* a mark of nothing */
        {"a\xFFz", "> a?z////", 0, 5},
        {"a\tz", "> a    z////", 0, 8},
        {PASTE("ab\ncd\n"), "> ab/cd///", 2, 0},
        {PASTE("ab\ncd") UP, "> ab/cd///", 0, 4},
        {PASTE("abcdefgh\nx") UP "\005", "> abcdefgh/x///", 0, 9},
        {PASTE("a\nb\nc\nd\ne"), "b/c/d/e/", 3, 1}, /* taller than the screen */
        {PASTE("a\nb\nc\nd\ne") UP UP UP UP, "> a/b/c/d/", 0, 3},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        session s = {0};
        memset(s.screen.cells, ' ', sizeof s.screen.cells);
        draw(&s, cases[n].keys);
        assert_screen(&s, cases[n].rows, cases[n].row, cases[n].column);
        line_buffer_free(&s.buffer);
        line_view_free(&s.view);
    }
}

/* Each state drawn over the one before leaves nothing of it. */
static void lines_are_drawn_again(void **state)
{
    (void)state;
    session s = {0};
    memset(s.screen.cells, ' ', sizeof s.screen.cells);
    draw(&s, "abcdefghijklmnop");
    assert_screen(&s, "> abcdefgh/ijklmnop///", 1, 8);
    draw(&s, "\001");
    assert_screen(&s, "> abcdefgh/ijklmnop///", 0, 2);
    draw(&s, "\013xy");
    assert_screen(&s, "> xy////", 0, 4);
    draw(&s, PASTE("\n1\n2\n3\n4\n5"));
    assert_screen(&s, "2/3/4/5/", 3, 1);
    draw(&s, UP UP UP UP UP);
    assert_screen(&s, "> xy/1/2/3/", 0, 3);
    draw(&s, "\013" DOWN "\013\001\177");
    assert_screen(&s, "> x1/2/3/4/", 0, 3);
    line_buffer_free(&s.buffer);
    line_view_free(&s.view);
}

int main(void)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8")) return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_edit),          cmocka_unit_test(keys_end_lines),
        cmocka_unit_test(history_comes_back), cmocka_unit_test(history_has_a_limit),
        cmocka_unit_test(lines_are_drawn),    cmocka_unit_test(lines_are_drawn_again),
    };
    return cmocka_run_group_tests_name("cli_line", tests, NULL, NULL);
}
