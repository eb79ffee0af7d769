/* JSON lines: written as text without a library, and cut where a resumed run goes on. */
#include "train/log_jsonl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/file.h"
#include "io/names.h"
#include "train/append_file.h"

enum { NUMBER_ROOM = 32, DIGITS_MOST = 18 };

static const char head[] = "{\"step\":";

struct foci_log {
    focal_ctx *ctx;
    foci_append file;
};

/* Text on its way; without `data` it is only measured. */
typedef struct line {
    char *data;
    size_t bytes;
} line;

static void put_bytes(line *l, const char *text, size_t bytes)
{
    if (l->data) memcpy(l->data + l->bytes, text, bytes);
    l->bytes += bytes;
}

static void put_text(line *l, const char *text)
{
    put_bytes(l, text, strlen(text));
}

/* The fewest digits that are this number. */
static void put_real(line *l, double value)
{
    char text[NUMBER_ROOM];
    if (value - value != 0.0) {
        put_text(l, "null");
        return;
    }
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    put_text(l, text);
}

/* Bytes of the UTF-8 character at the head of text that is none of control; 0: something else. */
static size_t plain_bytes(const char *text)
{
    size_t bytes = 1;
    while (bytes < 4 && ((unsigned char)text[bytes] & 0xC0) == 0x80) bytes++;
    return foci_text_is_plain((foci_text){text, bytes}) ? bytes : 0;
}

static void put_string(line *l, const char *text)
{
    put_text(l, "\"");
    while (*text) {
        const unsigned char c = (unsigned char)*text;
        const size_t bytes = plain_bytes(text);
        char escape[8];
        if (c == '"' || c == '\\') {
            (void)snprintf(escape, sizeof escape, "\\%c", c);
            put_text(l, escape);
            text++;
        } else if (bytes > 0) {
            put_bytes(l, text, bytes);
            text += bytes;
        } else {
            (void)snprintf(escape, sizeof escape, "\\u%04x", c < 0x80 ? c : 0xFFFDU);
            put_text(l, escape);
            text++;
        }
    }
    put_text(l, "\"");
}

static void put_line(line *l, int64_t step, const foci_log_field *fields, int count)
{
    char number[NUMBER_ROOM];
    put_text(l, head);
    (void)snprintf(number, sizeof number, "%" PRId64, step);
    put_text(l, number);
    for (int n = 0; n < count; n++) {
        put_text(l, ",\"");
        put_text(l, fields[n].name);
        put_text(l, "\":");
        switch (fields[n].type) {
        case FOCI_LOG_REAL:
            put_real(l, fields[n].real);
            break;
        case FOCI_LOG_INT:
            (void)snprintf(number, sizeof number, "%" PRId64, fields[n].integer);
            put_text(l, number);
            break;
        case FOCI_LOG_TEXT:
            put_string(l, fields[n].text);
            break;
        }
    }
    put_text(l, "}\n");
}

/* The step of a line; -1: it is no line of ours. */
static int64_t step_of(const char *data, size_t bytes)
{
    const size_t head_bytes = sizeof head - 1;
    if (bytes < head_bytes + 2 || memcmp(data, head, head_bytes) != 0) return -1;
    int64_t step = 0;
    size_t at = head_bytes;
    for (; at < bytes && data[at] >= '0' && data[at] <= '9'; at++) {
        if (at - head_bytes == DIGITS_MOST) return -1;
        step = 10 * step + (data[at] - '0');
    }
    const bool is_ours = at > head_bytes && at < bytes && (data[at] == ',' || data[at] == '}');
    return is_ours ? step : -1;
}

/* True when a line of ours could begin like that. */
static bool is_beginning(const char *data, size_t bytes)
{
    const size_t head_bytes = sizeof head - 1;
    return memcmp(data, head, bytes < head_bytes ? bytes : head_bytes) == 0;
}

/* What follows the last line may be anything: a process or a machine can die while it writes. */
focal_status foci_log_find_end(focal_ctx *ctx, const char *path, foci_text text, int64_t step,
                               int64_t *end)
{
    int64_t number = 0, last = -1;
    *end = 0;
    for (size_t begin = 0; begin < text.bytes; begin = (size_t)*end) {
        const char *data = text.data + begin;
        const char *newline = memchr(data, '\n', text.bytes - begin);
        const size_t bytes = newline ? (size_t)(newline - data) : 0;
        const int64_t found = step_of(data, bytes);
        number++;
        if (found > step || (found < 0 && number > 1 && last >= step)) break;
        if (found < 0 && !newline && is_beginning(data, text.bytes - begin)) break;
        if (found < 0)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s:%" PRId64 ": not a line of a run's log", path,
                             number);
        last = found;
        *end = (int64_t)(begin + bytes + 1);
    }
    return FOCAL_OK;
}

focal_status foci_log_open(focal_ctx *ctx, const char *path, int64_t step, foci_log **out)
{
    *out = NULL;
    foci_log *log = foci_alloc(ctx, 1, sizeof *log);
    if (!log) return FOCAL_ENOMEM;
    *log = (foci_log){.ctx = ctx};
    foci_map map = {0};
    int64_t end = 0;
    focal_status status = foci_append_open(ctx, path, false, &log->file);
    if (status == FOCAL_OK) status = foci_map_open(ctx, path, &map);
    const foci_text text = {(const char *)map.data, map.bytes};
    if (status == FOCAL_OK) status = foci_log_find_end(ctx, path, text, step, &end);
    foci_map_close(&map);
    if (status == FOCAL_OK && end < log->file.bytes) status = foci_append_cut(&log->file, end);
    if (status == FOCAL_OK)
        *out = log;
    else
        foci_log_close(log);
    return status;
}

void foci_log_close(foci_log *log)
{
    if (!log) return;
    foci_append_close(&log->file);
    foci_free(log->ctx, log);
}

focal_status foci_log_put(foci_log *log, int64_t step, const foci_log_field *fields, int count)
{
    line l = {0};
    put_line(&l, step, fields, count);
    l.data = foci_scratch(log->ctx, l.bytes, 1);
    if (!l.data) return FOCAL_ENOMEM;
    l.bytes = 0;
    put_line(&l, step, fields, count);
    const focal_status status = foci_append_put(&log->file, l.data, l.bytes);
    foci_scratch_free(log->ctx, l.data);
    return status;
}

focal_status foci_log_sync(foci_log *log)
{
    return foci_append_sync(&log->file);
}
