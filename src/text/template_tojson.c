/* The filter tojson as transformers defines it: json.dumps without escaping for HTML. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* Recursion here is bounded (values inside each other): foci_run_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

typedef struct writer {
    foci_run *run;
    foci_builder *out;
    bool is_ascii, sorts, has_indent;
    foci_chars indent, item_separator, key_separator;
} writer;

static focal_status write_value(const writer *w, foci_value value, int64_t level);

static focal_status write_code(const writer *w, uint32_t code)
{
    char text[16];
    if (code >= 0x10000) {
        code -= 0x10000;
        (void)snprintf(text, sizeof text, "\\u%04" PRIx32 "\\u%04" PRIx32, 0xD800 + (code >> 10),
                       0xDC00 + (code & 0x3FF));
    } else {
        (void)snprintf(text, sizeof text, "\\u%04" PRIx32, code);
    }
    return foci_builder_text(w->out, text);
}

static focal_status write_string(const writer *w, foci_chars text)
{
    static const char controls[] = "\"\\\n\r\t\f\b", letters[] = "\"\\nrtfb";
    FOCAL_TRY(foci_run_charge(w->run, (int64_t)text.bytes));
    FOCAL_TRY(foci_builder_text(w->out, "\""));
    const char *at = text.data, *end = text.data + text.bytes;
    while (at < end) {
        const char *begin = at;
        const uint32_t c = foci_char_next(&at);
        const char *control = c && c < 0x80 ? strchr(controls, (int)c) : NULL;
        if (control) {
            const char escape[] = {'\\', letters[control - controls]};
            FOCAL_TRY(foci_builder_add(w->out, escape, sizeof escape));
        } else if (c < 0x20 || (w->is_ascii && c > 0x7E)) {
            FOCAL_TRY(write_code(w, c));
        } else {
            FOCAL_TRY(foci_builder_add(w->out, begin, (size_t)(at - begin)));
        }
    }
    return foci_builder_text(w->out, "\"");
}

/* A scalar that is no string; *text is empty for anything else. */
static void scalar_text(foci_value value, char text[FOCI_REAL_BYTES])
{
    text[0] = '\0';
    if (value.kind == FOCI_V_NONE) {
        memcpy(text, "null", 5);
    } else if (value.kind == FOCI_V_BOOL) {
        memcpy(text, value.as.truth ? "true" : "false", value.as.truth ? 5 : 6);
    } else if (value.kind == FOCI_V_INT) {
        (void)snprintf(text, FOCI_REAL_BYTES, "%" PRId64, value.as.number);
    } else if (value.kind == FOCI_V_FLOAT) {
        if (isfinite(value.as.real))
            foci_real_text(value.as.real, text);
        else
            (void)snprintf(text, FOCI_REAL_BYTES, "%s",
                           isnan(value.as.real)  ? "NaN"
                           : value.as.real < 0.0 ? "-Infinity"
                                                 : "Infinity");
    }
}

static focal_status write_line(const writer *w, int64_t level)
{
    if (!w->has_indent) return FOCAL_OK;
    FOCAL_TRY(foci_builder_text(w->out, "\n"));
    for (int64_t n = 0; n < level; n++)
        FOCAL_TRY(foci_builder_add(w->out, w->indent.data, w->indent.bytes));
    return FOCAL_OK;
}

static focal_status write_key(const writer *w, foci_value key)
{
    if (key.kind == FOCI_V_STRING) return write_string(w, key.as.text);
    char text[FOCI_REAL_BYTES];
    scalar_text(key, text);
    if (!text[0])
        return foci_run_fail(w->run, "tojson: a %s cannot be a key", foci_kind_name(key.kind));
    return write_string(w, foci_chars_of(text));
}

static focal_status write_list(const writer *w, foci_value list, int64_t level)
{
    if (list.as.list.count == 0) return foci_builder_text(w->out, "[]");
    FOCAL_TRY(foci_builder_text(w->out, "["));
    for (int64_t n = 0; n < list.as.list.count; n++) {
        if (n > 0)
            FOCAL_TRY(foci_builder_add(w->out, w->item_separator.data, w->item_separator.bytes));
        FOCAL_TRY(write_line(w, level + 1));
        FOCAL_TRY(write_value(w, list.as.list.items[n], level + 1));
    }
    FOCAL_TRY(write_line(w, level));
    return foci_builder_text(w->out, "]");
}

/* The entries in the order of their keys: an insertion sort, for dicts here are small and the
 * steps count. */
static focal_status sort_entries(const writer *w, const foci_dict *dict, foci_entry **sorted)
{
    foci_entry *entries = foci_store_alloc(&w->run->store, (size_t)dict->count, sizeof *entries);
    if (!entries) return foci_store_failed(&w->run->store);
    for (int64_t n = 0; n < dict->count; n++) {
        int64_t at = n;
        for (; at > 0; at--) {
            int order;
            FOCAL_TRY(foci_order(w->run, dict->entries[n].key, entries[at - 1].key, "<", &order));
            if (order >= 0) break;
            entries[at] = entries[at - 1];
        }
        entries[at] = dict->entries[n];
    }
    *sorted = entries;
    return FOCAL_OK;
}

static focal_status write_dict(const writer *w, const foci_dict *dict, int64_t level)
{
    foci_entry *entries = dict->entries;
    if (dict->count == 0) return foci_builder_text(w->out, "{}");
    if (w->sorts) FOCAL_TRY(sort_entries(w, dict, &entries));
    FOCAL_TRY(foci_builder_text(w->out, "{"));
    for (int64_t n = 0; n < dict->count; n++) {
        if (n > 0)
            FOCAL_TRY(foci_builder_add(w->out, w->item_separator.data, w->item_separator.bytes));
        FOCAL_TRY(write_line(w, level + 1));
        FOCAL_TRY(write_key(w, entries[n].key));
        FOCAL_TRY(foci_builder_add(w->out, w->key_separator.data, w->key_separator.bytes));
        FOCAL_TRY(write_value(w, entries[n].value, level + 1));
    }
    FOCAL_TRY(write_line(w, level));
    return foci_builder_text(w->out, "}");
}

static focal_status write_value(const writer *w, foci_value value, int64_t level)
{
    char text[FOCI_REAL_BYTES];
    FOCAL_TRY(foci_run_charge(w->run, 0));
    if (value.kind == FOCI_V_STRING) return write_string(w, value.as.text);
    scalar_text(value, text);
    if (text[0]) return foci_builder_text(w->out, text);
    FOCAL_TRY(foci_run_enter(w->run));
    if (foci_is_list(value))
        FOCAL_TRY(write_list(w, value, level));
    else if (value.kind == FOCI_V_DICT)
        FOCAL_TRY(write_dict(w, value.as.dict, level));
    else if (value.kind == FOCI_V_UNDEFINED)
        return foci_fail_undefined(w->run, value);
    else
        return foci_run_fail(w->run, "tojson: a %s has no JSON", foci_kind_name(value.kind));
    w->run->depth--;
    return FOCAL_OK;
}

static focal_status read_indent(foci_run *run, foci_value value, writer *w)
{
    w->has_indent = value.kind != FOCI_V_NONE && value.kind != FOCI_V_MISSING;
    if (!w->has_indent) return FOCAL_OK;
    w->item_separator = foci_chars_of(",");
    if (value.kind == FOCI_V_STRING) {
        w->indent = value.as.text;
        return FOCAL_OK;
    }
    int64_t width;
    foci_builder blanks = {.store = &run->store};
    FOCAL_TRY(foci_want_int(run, value, 0, &width));
    if (width > 1000) return foci_run_fail(run, "tojson: an indent of %lld", (long long)width);
    FOCAL_TRY(foci_builder_fill(&blanks, ' ', width > 0 ? (size_t)width : 0));
    w->indent = foci_builder_chars(&blanks);
    return FOCAL_OK;
}

focal_status foci_tojson(foci_run *run, foci_call *call, foci_value *out)
{
    foci_builder text = {.store = &run->store};
    const foci_value *bound = call->bound; /* ensure_ascii, indent, separators, sort_keys */
    writer w = {.run = run,
                .out = &text,
                .is_ascii = foci_truth(bound[0]),
                .sorts = foci_truth(bound[3]),
                .indent = {"", 0},
                .item_separator = foci_chars_of(", "),
                .key_separator = foci_chars_of(": ")};
    FOCAL_TRY(read_indent(run, bound[1], &w));
    if (bound[2].kind != FOCI_V_MISSING && bound[2].kind != FOCI_V_NONE) {
        const foci_value *parts;
        int64_t count;
        FOCAL_TRY(foci_items(run, bound[2], &parts, &count));
        if (count != 2) return foci_run_fail(run, "tojson: separators are two texts");
        FOCAL_TRY(foci_want_text(run, parts[0], "tojson: a separator", &w.item_separator));
        FOCAL_TRY(foci_want_text(run, parts[1], "tojson: a separator", &w.key_separator));
    }
    FOCAL_TRY(write_value(&w, call->self, 0));
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
