/* Reading lines from a person: the terminal's part. It is in raw mode only while a line is read;
 * signals that end or stop the program put it back first. */
#include "line_edit.h"

#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "line_buffer.h"
#include "line_view.h"

enum { INPUT_BYTES = 4096 };

struct line_editor {
    char *line; /* not on a terminal: what getline() gave, and lines joined from it */
    size_t capacity, bytes;
    char *part;
    size_t part_capacity;
    line_buffer buffer;
    line_view view;
    char input[INPUT_BYTES]; /* read and not yet taken: keys typed ahead */
    size_t input_count, input_at;
};

/* The terminal as it was; for the handlers, and so for one editor at a time. */
static struct termios cooked;
static volatile sig_atomic_t was_interrupted, was_continued;
static const char paste_on[] = "\033[?2004h", paste_off[] = "\033[?2004l";

/* First those that end the program, then those that only wake it. */
static const int numbers[] = {SIGHUP, SIGQUIT, SIGTERM, SIGINT, SIGWINCH, SIGCONT};
enum { DEADLY = 3, SIGNALS = sizeof numbers / sizeof numbers[0] };
static struct sigaction before[SIGNALS];
static sigset_t mask_before;

static bool write_all(const char *text, size_t bytes)
{
    while (bytes > 0) {
        const ssize_t done = write(STDERR_FILENO, text, bytes);
        if (done < 0 && errno != EINTR) return false;
        if (done > 0) {
            text += done;
            bytes -= (size_t)done;
        }
    }
    return true;
}

static bool make_raw(void)
{
    struct termios raw = cooked;
    raw.c_iflag &= ~(tcflag_t)(BRKINT | ICRNL | INPCK | ISTRIP | IXON);
    raw.c_lflag &= ~(tcflag_t)(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cflag |= CS8;
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    /* Keys typed while the answer came stay in the queue. */
    return tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0 && write_all(paste_on, strlen(paste_on));
}

static void make_cooked(void)
{
    (void)write_all(paste_off, sizeof paste_off - 1);
    (void)tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
}

static void on_deadly(int number)
{
    make_cooked();
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

static void on_waking(int number)
{
    if (number == SIGINT) was_interrupted = 1;
    if (number == SIGCONT) was_continued = 1;
}

/* Waking signals arrive only while fill() waits, so that none is missed between a look at what they
 * did and the wait. */
static void take_signals(void)
{
    sigset_t held;
    (void)sigemptyset(&held);
    for (int n = DEADLY; n < SIGNALS; n++) (void)sigaddset(&held, numbers[n]);
    (void)sigprocmask(SIG_BLOCK, &held, &mask_before);
    for (int n = 0; n < SIGNALS; n++) {
        const bool is_deadly = n < DEADLY;
        struct sigaction action = {.sa_handler = is_deadly ? on_deadly : on_waking};
        (void)sigemptyset(&action.sa_mask);
        (void)sigaction(numbers[n], &action, &before[n]);
        if (is_deadly && before[n].sa_handler == SIG_IGN) /* by nohup: it stays so */
            (void)sigaction(numbers[n], &before[n], NULL);
    }
}

static void give_signals_back(void)
{
    for (int n = 0; n < SIGNALS; n++) (void)sigaction(numbers[n], &before[n], NULL);
    (void)sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

static bool draw(line_editor *e, const char *prompt)
{
    struct winsize size;
    const bool is_known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    e->view.columns = is_known ? size.ws_col : 80;
    e->view.rows = is_known && size.ws_row > 0 ? size.ws_row : 24;
    return line_view_draw(&e->view, prompt, &e->buffer) && write_all(e->view.output, e->view.bytes);
}

static bool has_input(const line_editor *e)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    return e->input_at < e->input_count || poll(&in, 1, 0) > 0;
}

/* Waits for input. 0 at its end, -1 when reading failed, 1 otherwise, also after a signal. */
static int fill(line_editor *e)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    if (e->input_at < e->input_count) return 1;
    e->input_at = e->input_count = 0;
    if (ppoll(&in, 1, NULL, &mask_before) > 0) {
        const ssize_t got = read(STDIN_FILENO, e->input, sizeof e->input);
        if (got >= 0) e->input_count = (size_t)got;
        if (got >= 0 || errno != EINTR) return got < 0 ? -1 : got > 0;
    } else if (errno != EINTR) {
        return -1;
    }
    if (!was_continued) return 1;
    was_continued = 0; /* behind a stop the terminal is the shell's */
    return make_raw() ? 1 : -1;
}

/* Ends the line on the screen with the cursor below it. */
static bool leave_line(line_editor *e, const char *prompt, const char *mark)
{
    e->buffer.cursor = e->buffer.bytes;
    return draw(e, prompt) && write_all(mark, strlen(mark));
}

static void suspend(line_editor *e)
{
    make_cooked();
    (void)write_all("\r\n", 2);
    (void)kill(0, SIGTSTP); /* the whole pipeline, as the terminal does; returns to go on */
    was_continued = 0;
    (void)make_raw();
    e->view.cursor_row = 0;
}

static line_result edit(line_editor *e, const char *prompt)
{
    for (;;) {
        /* Nothing is drawn while more is there to be read: a paste would be drawn a thousand
         * times. */
        if (!has_input(e) && !e->buffer.is_pasting && !draw(e, prompt)) return LINE_FAILED;
        const int state = fill(e);
        if (state < 0) return LINE_FAILED;
        if (state == 0) return LINE_END;
        line_key key = LINE_KEY_EDITED;
        bool is_lost = false;
        while (key == LINE_KEY_EDITED && !is_lost && e->input_at < e->input_count)
            key = line_buffer_take(&e->buffer, e->input[e->input_at++], &is_lost);
        if (is_lost) {
            errno = ENOMEM;
            return LINE_FAILED;
        }
        if (was_interrupted) key = LINE_KEY_DROP;
        switch (key) {
        case LINE_KEY_EDITED:
            break;
        case LINE_KEY_ENTER:
            return leave_line(e, prompt, "\r\n") ? LINE_READ : LINE_FAILED;
        case LINE_KEY_END:
            return leave_line(e, prompt, "\r\n") ? LINE_END : LINE_FAILED;
        case LINE_KEY_DROP:
            return leave_line(e, prompt, "^C\r\n") ? LINE_INTERRUPTED : LINE_FAILED;
        case LINE_KEY_CLEAR:
            if (!write_all("\033[H\033[2J", 7)) return LINE_FAILED;
            e->view.cursor_row = 0;
            break;
        case LINE_KEY_SUSPEND:
            suspend(e);
            break;
        }
    }
}

static line_result read_terminal(line_editor *e, const char *prompt, const char **text)
{
    line_buffer_begin(&e->buffer);
    e->view.top = e->view.cursor_row = 0;
    was_interrupted = was_continued = 0;
    if (tcgetattr(STDIN_FILENO, &cooked) != 0) return LINE_FAILED;
    take_signals();
    const line_result result = make_raw() ? edit(e, prompt) : LINE_FAILED;
    const int error = errno;
    make_cooked();
    give_signals_back();
    errno = error;
    *text = e->buffer.text ? e->buffer.text : "";
    return result;
}

/* Appends a line that read_line() gave, without its end and without NULs. */
static bool append(line_editor *e, const char *part, size_t bytes)
{
    if (e->capacity - e->bytes < bytes + 1) {
        const size_t capacity = 2 * (e->bytes + bytes) + 64;
        char *more = realloc(e->line, capacity);
        if (!more) return false;
        e->line = more;
        e->capacity = capacity;
    }
    for (size_t n = 0; n < bytes; n++)
        if (part[n]) e->line[e->bytes++] = part[n];
    e->line[e->bytes] = '\0';
    return true;
}

/* getline(), but a line without an end must not fill the memory. */
static ssize_t read_line(line_editor *e)
{
    size_t used = 0;
    for (int c = 0; c != '\n' && (c = getc(stdin)) != EOF;) {
        if (e->bytes + used == LINE_MOST_BYTES) {
            errno = EMSGSIZE;
            return -1;
        }
        if (used == e->part_capacity) {
            const size_t capacity = 2 * used + 256;
            char *more = realloc(e->part, capacity);
            if (!more) return -1;
            e->part = more;
            e->part_capacity = capacity;
        }
        e->part[used++] = (char)c;
    }
    return used > 0 ? (ssize_t)used : -1;
}

static line_result read_plain(line_editor *e, const char *prompt, const char **text)
{
    const bool is_person = isatty(STDIN_FILENO);
    bool goes_on = false;
    e->bytes = 0;
    do {
        if (is_person) (void)fputs(prompt, stderr);
        errno = 0;
        ssize_t got = read_line(e);
        if (got < 0 && !feof(stdin)) return LINE_FAILED;
        if (got < 0 && !goes_on) return LINE_END;
        if (got > 0 && e->part[got - 1] == '\n') got--;
        if (got > 0 && e->part[got - 1] == '\r') got--;
        if (!append(e, e->part, got > 0 ? (size_t)got : 0)) return LINE_FAILED;
        goes_on = got > 0 && e->part[got - 1] == '\\';
        if (goes_on) e->line[e->bytes - 1] = '\n';
    } while (goes_on);
    *text = e->line;
    return LINE_READ;
}

line_editor *line_editor_new(void)
{
    (void)setlocale(LC_CTYPE, "C.UTF-8"); /* the widths of characters; models write UTF-8 */
    return calloc(1, sizeof(line_editor));
}

void line_editor_free(line_editor *e)
{
    if (!e) return;
    line_buffer_free(&e->buffer);
    line_view_free(&e->view);
    free(e->line);
    free(e->part);
    free(e);
}

line_result line_editor_read(line_editor *e, const char *prompt, const char **text)
{
    const char *terminal = getenv("TERM");
    const bool can_edit = isatty(STDIN_FILENO) && isatty(STDERR_FILENO) && terminal && *terminal &&
                          strcmp(terminal, "dumb") != 0;
    return can_edit ? read_terminal(e, prompt, text) : read_plain(e, prompt, text);
}
