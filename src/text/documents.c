/* Files as streams of documents. */
#include "text/documents.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/input.h"
#include "io/json.h"
#include "text/utf8.h"

enum { READ_BYTES = 1 << 18, SEPARATOR_MOST = 256, NAME_BYTES = 4096 };

typedef struct reading {
    focal_ctx *ctx;
    const focal_corpus *corpus;
    const foci_document_sink *sink;
    focal_corpus_progress counts;
    int64_t files_before; /* bytes of the files that are done */
    foci_input *input;
    char *data; /* (room) */
    size_t room;
    focal_buffer held; /* plain: what may be the beginning of the separator; JSON: of a line */
    int64_t line;
    /* Of the file's text so far, for the check of UTF-8 over the ends of pieces. */
    int64_t checked;
    char partial[FOCI_UTF8_MOST];
    size_t partial_bytes;
    bool has_text; /* this document has some */
} reading;

/* What a text cannot be is said with the file's name. */
static focal_status with_name(const reading *r, focal_status status)
{
    char sentence[256];
    if (status != FOCAL_EUNSUPPORTED) return status;
    (void)snprintf(sentence, sizeof sentence, "%s", focal_ctx_error(r->ctx));
    return foci_fail(r->ctx, status, "%s: %s", foci_input_name(r->input), sentence);
}

static focal_status put_text(reading *r, const char *text, size_t bytes)
{
    if (bytes == 0) return FOCAL_OK;
    r->has_text = true;
    r->counts.text_bytes += (int64_t)bytes;
    return with_name(r, r->sink->text(r->sink->user, text, bytes));
}

static focal_status end_document(reading *r)
{
    if (!r->has_text) return FOCAL_OK;
    r->has_text = false;
    r->counts.documents++;
    return with_name(r, r->sink->end(r->sink->user));
}

static focal_status report(reading *r)
{
    r->counts.read_bytes = r->files_before + foci_input_position(r->input);
    if (r->sink->tokens) r->counts.tokens = *r->sink->tokens;
    if (!r->corpus->on_progress || r->corpus->on_progress(r->corpus->user, &r->counts))
        return FOCAL_OK;
    return foci_fail(r->ctx, FOCAL_EINVAL, "corpus: stopped");
}

static focal_status fail_utf8(reading *r, int64_t byte)
{
    return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: byte %lld of the text is no UTF-8",
                     foci_input_name(r->input), (long long)byte);
}

/* Checks the text that was read, together with a character that the last piece had begun. */
static focal_status check_utf8(reading *r, const char *text, size_t bytes, bool is_last)
{
    size_t at = 0;
    while (r->partial_bytes > 0 && at < bytes) {
        size_t length;
        r->partial[r->partial_bytes++] = text[at++];
        const int32_t character = foci_utf8_decode(r->partial, r->partial_bytes, &length);
        if (character == FOCI_UTF8_PARTIAL) continue;
        if (character < 0) return fail_utf8(r, r->checked);
        r->checked += (int64_t)r->partial_bytes;
        r->partial_bytes = 0;
    }
    const size_t valid = at + foci_utf8_valid(text + at, bytes - at);
    r->checked += (int64_t)(valid - at);
    if (valid < bytes) {
        size_t length;
        if (foci_utf8_decode(text + valid, bytes - valid, &length) != FOCI_UTF8_PARTIAL)
            return fail_utf8(r, r->checked);
        r->partial_bytes = bytes - valid;
        memcpy(r->partial, text + valid, r->partial_bytes);
    }
    return is_last && r->partial_bytes > 0 ? fail_utf8(r, r->checked) : FOCAL_OK;
}

/* Plain text with a separator: `held` begins with what was left of the last piece, which is less
 * than the separator. */
static focal_status put_separated(reading *r, const char *text, size_t bytes, bool is_last)
{
    const char *separator = r->corpus->separator;
    const size_t length = strlen(separator);
    size_t at = 0;
    FOCAL_TRY(foci_buffer_put(r->ctx, &r->held, text, bytes));
    while (r->held.bytes - at >= length) {
        const char *from = r->held.data + at;
        const char *found = memmem(from, r->held.bytes - at, separator, length);
        if (!found) break;
        FOCAL_TRY(put_text(r, from, (size_t)(found - from)));
        FOCAL_TRY(end_document(r));
        at = (size_t)(found - r->held.data) + length;
    }
    const size_t left = r->held.bytes - at, keep = is_last || left < length ? 0 : left - length + 1;
    const size_t out = is_last ? left : keep;
    FOCAL_TRY(put_text(r, r->held.data + at, out));
    at += out;
    if (r->held.bytes > at) memmove(r->held.data, r->held.data + at, r->held.bytes - at);
    r->held.bytes -= at;
    return FOCAL_OK;
}

static focal_status put_plain(reading *r, const char *text, size_t bytes, bool is_last)
{
    FOCAL_TRY(check_utf8(r, text, bytes, is_last));
    if (r->corpus->separator)
        FOCAL_TRY(put_separated(r, text, bytes, is_last));
    else
        FOCAL_TRY(put_text(r, text, bytes));
    return is_last ? end_document(r) : FOCAL_OK;
}

/* One line of JSON without its end. */
static focal_status put_line(reading *r, const char *text, size_t bytes)
{
    char what[NAME_BYTES];
    foci_json *root = NULL;
    const char *field = r->corpus->field ? r->corpus->field : "text";
    r->line++;
    size_t first = 0;
    while (first < bytes && strchr(" \t\r", text[first])) first++;
    if (first == bytes) return FOCAL_OK;
    (void)snprintf(what, sizeof what, "%s: JSON of line %lld", foci_input_name(r->input),
                   (long long)r->line);
    FOCAL_TRY(foci_json_parse(r->ctx, what, text, bytes, &root));
    const foci_json *value = foci_json_get(root, field);
    focal_status status = FOCAL_OK;
    if (!foci_json_is(root, FOCI_JSON_OBJECT))
        status = foci_fail(r->ctx, FOCAL_EFORMAT, "%s: is no object", what);
    else if (!foci_json_is(value, FOCI_JSON_STRING))
        status = foci_fail(r->ctx, FOCAL_EFORMAT, "%s: has no text under '%.64s'", what, field);
    else
        status = put_text(r, foci_json_string(value), foci_json_length(value));
    foci_json_free(root);
    return status == FOCAL_OK ? end_document(r) : status;
}

/* Whole lines go on; the beginning of one waits for its end. */
static focal_status put_lines(reading *r, const char *text, size_t bytes, bool is_last)
{
    while (bytes > 0 || (is_last && r->held.bytes > 0)) {
        const char *end = bytes > 0 ? memchr(text, '\n', bytes) : NULL;
        const size_t take = end ? (size_t)(end - text) : bytes;
        if (r->held.bytes + take > FOCI_LINE_MOST)
            return foci_fail(r->ctx, FOCAL_EFORMAT, "%s: line %lld has more than %d MiB",
                             foci_input_name(r->input), (long long)r->line + 1,
                             FOCI_LINE_MOST >> 20);
        if (end && r->held.bytes == 0) {
            FOCAL_TRY(put_line(r, text, take));
        } else {
            FOCAL_TRY(foci_buffer_put(r->ctx, &r->held, text, take));
            if (!end && !is_last) return FOCAL_OK;
            FOCAL_TRY(put_line(r, r->held.data, r->held.bytes));
            r->held.bytes = 0;
        }
        text += take + (end != NULL);
        bytes -= take + (end != NULL);
    }
    return FOCAL_OK;
}

static bool ends_with(const char *name, size_t bytes, const char *end)
{
    const size_t length = strlen(end);
    return bytes > length && memcmp(name + bytes - length, end, length) == 0;
}

static bool is_json(const focal_corpus *corpus, const char *path)
{
    static const char *const compressed[] = {".gz", ".xz", ".zst"};
    size_t bytes = strlen(path);
    if (corpus->field) return true;
    for (size_t n = 0; n < FOCAL_COUNT(compressed); n++) {
        if (!ends_with(path, bytes, compressed[n])) continue;
        bytes -= strlen(compressed[n]);
        break;
    }
    return ends_with(path, bytes, ".jsonl") || ends_with(path, bytes, ".ndjson");
}

static focal_status read_file(reading *r, const char *path)
{
    const bool has_lines = is_json(r->corpus, path);
    r->line = r->checked = 0;
    r->partial_bytes = r->held.bytes = 0;
    for (;;) {
        size_t got = 0;
        FOCAL_TRY(foci_input_read(r->input, r->data, r->room, &got));
        FOCAL_TRY(has_lines ? put_lines(r, r->data, got, got == 0)
                            : put_plain(r, r->data, got, got == 0));
        FOCAL_TRY(report(r));
        if (got == 0) return FOCAL_OK;
    }
}

static focal_status read_all(reading *r)
{
    for (int32_t n = 0; n < r->corpus->path_count; n++)
        r->counts.total_bytes += foci_input_size(r->corpus->paths[n]);
    for (int32_t n = 0; n < r->corpus->path_count; n++) {
        FOCAL_TRY(foci_input_open(r->ctx, r->corpus->paths[n], &r->input));
        const focal_status status = read_file(r, r->corpus->paths[n]);
        r->files_before += foci_input_position(r->input);
        foci_input_close(r->input);
        r->input = NULL;
        if (status != FOCAL_OK) return status;
    }
    return FOCAL_OK;
}

focal_status foci_documents_read(focal_ctx *ctx, const focal_corpus *corpus,
                                 const foci_document_sink *sink, focal_corpus_progress *counts)
{
    if (corpus->path_count < 1 || !corpus->paths)
        return foci_fail(ctx, FOCAL_EINVAL, "corpus: there is no file to read");
    const size_t separator = corpus->separator ? strlen(corpus->separator) : 1;
    if (separator < 1 || separator > SEPARATOR_MOST)
        return foci_fail(ctx, FOCAL_EINVAL, "corpus: a separator of %zu bytes, 1 to %d can be",
                         separator, SEPARATOR_MOST);
    reading r = {.ctx = ctx,
                 .corpus = corpus,
                 .sink = sink,
                 .room = sink->read_bytes ? sink->read_bytes : READ_BYTES};
    r.data = foci_alloc(ctx, r.room, 1);
    const focal_status status = r.data ? read_all(&r) : FOCAL_ENOMEM;
    if (counts) *counts = r.counts;
    foci_free(ctx, r.data);
    focal_buffer_free(ctx, &r.held);
    return status;
}
