/* The methods of str that look for text in text: find, split, replace and their like. */
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* Looking from the end compares at every place. */
static focal_status charge_back(foci_run *run, foci_chars text, foci_chars part)
{
    size_t work;
    if (!foci_size_mul(text.bytes, part.bytes, &work) || work > INT64_MAX / 2) work = INT64_MAX / 2;
    return foci_run_charge(run, (int64_t)work);
}

static focal_status own_text(foci_run *run, const foci_call *call, foci_chars *text)
{
    *text = call->self.as.text;
    return foci_run_charge(run, (int64_t)text->bytes);
}

/* The first or last place of `part` in text; NULL: none. */
static const char *find_part(foci_chars text, foci_chars part, bool from_end)
{
    if (part.bytes == 0) return from_end ? text.data + text.bytes : text.data;
    if (text.bytes < part.bytes) return NULL;
    if (!from_end) return memmem(text.data, text.bytes, part.data, part.bytes);
    for (const char *at = text.data + text.bytes - part.bytes;; at--) {
        if (*at == *part.data && memcmp(at, part.data, part.bytes) == 0) return at;
        if (at == text.data) return NULL;
    }
}

/* At white space, `most` times (below 0: as often as there is some). */
static focal_status split_blank(foci_run *run, foci_chars text, int64_t most, bool from_end,
                                foci_values *parts)
{
    for (;;) {
        text = foci_chars_strip(text, !from_end, from_end);
        if (text.bytes == 0) return FOCAL_OK;
        const char *begin = text.data, *end = begin + text.bytes;
        const char *at = from_end ? end : begin;
        if (most-- == 0) return foci_values_add(run, parts, foci_string(text));
        while (from_end ? at > begin : at < end) {
            const char *next = at;
            if (foci_char_is_space(from_end ? foci_char_back(&next) : foci_char_next(&next))) break;
            at = next;
        }
        const foci_chars part = from_end ? (foci_chars){at, (size_t)(end - at)}
                                         : (foci_chars){begin, (size_t)(at - begin)};
        text = from_end ? (foci_chars){begin, (size_t)(at - begin)}
                        : (foci_chars){at, (size_t)(end - at)};
        FOCAL_TRY(foci_values_add(run, parts, foci_string(part)));
    }
}

static focal_status split_at(foci_run *run, foci_chars text, foci_chars separator, int64_t most,
                             bool from_end, foci_values *parts)
{
    while (most-- != 0) {
        const char *at = find_part(text, separator, from_end);
        if (!at) break;
        FOCAL_TRY(foci_run_charge(run, 0));
        const size_t before = (size_t)(at - text.data);
        const char *behind = at + separator.bytes;
        const size_t after = (size_t)(text.data + text.bytes - behind);
        const foci_chars part =
            from_end ? (foci_chars){behind, after} : (foci_chars){text.data, before};
        text = from_end ? (foci_chars){text.data, before} : (foci_chars){behind, after};
        FOCAL_TRY(foci_values_add(run, parts, foci_string(part)));
    }
    return foci_values_add(run, parts, foci_string(text));
}

static void reverse(foci_values *parts)
{
    for (int64_t n = 0; n < parts->count / 2; n++) {
        const foci_value swap = parts->items[n];
        parts->items[n] = parts->items[parts->count - 1 - n];
        parts->items[parts->count - 1 - n] = swap;
    }
}

static focal_status split(foci_run *run, foci_call *call, foci_value *out)
{
    const bool from_end = call->how == FOCI_RIGHT;
    foci_chars text, separator;
    int64_t most;
    foci_values parts = {0};
    FOCAL_TRY(own_text(run, call, &text));
    FOCAL_TRY(foci_want_int(run, call->bound[1], -1, &most));
    if (call->bound[0].kind == FOCI_V_MISSING || call->bound[0].kind == FOCI_V_NONE) {
        FOCAL_TRY(split_blank(run, text, most, from_end, &parts));
    } else {
        FOCAL_TRY(foci_want_text(run, call->bound[0], "split: the separator", &separator));
        if (separator.bytes == 0) return foci_run_fail(run, "split: the separator is empty");
        if (from_end) FOCAL_TRY(charge_back(run, text, separator));
        FOCAL_TRY(split_at(run, text, separator, most, from_end, &parts));
    }
    if (from_end) reverse(&parts);
    *out = foci_list(parts.items, parts.count);
    return FOCAL_OK;
}

/* text[start:stop] for the methods that take those two; *at is where it begins. */
static focal_status own_range(foci_run *run, foci_call *call, foci_chars *text, int64_t *at)
{
    foci_value part, bounds[3] = {foci_none(), foci_none(), foci_none()};
    FOCAL_TRY(own_text(run, call, text));
    *at = 0;
    for (int n = 0; n < 2; n++)
        if (call->bound[n + 1].kind != FOCI_V_MISSING) bounds[n] = call->bound[n + 1];
    if (bounds[0].kind == FOCI_V_NONE && bounds[1].kind == FOCI_V_NONE) return FOCAL_OK;
    const foci_chars whole = *text;
    const int64_t length = foci_char_count(whole);
    FOCAL_TRY(foci_slice(run, foci_string(whole), bounds, &part));
    *text = part.as.text;
    if (bounds[0].kind == FOCI_V_NONE) return FOCAL_OK;
    const int64_t start = foci_as_int(bounds[0]);
    if (start > length) *text = (foci_chars){NULL, 0}; /* not even an empty part is there */
    *at = start < 0 ? foci_max64(start + length, 0) : start;
    return FOCAL_OK;
}

/* Where the argument stands, in characters; -1: nowhere. */
static focal_status find(foci_run *run, foci_call *call, foci_value *out)
{
    const bool from_end = call->how == FOCI_RIGHT;
    foci_chars text, part;
    int64_t start;
    *out = foci_int(-1);
    FOCAL_TRY(own_range(run, call, &text, &start));
    FOCAL_TRY(foci_want_text(run, call->bound[0], "find: what to find", &part));
    if (!text.data) return FOCAL_OK;
    if (from_end) FOCAL_TRY(charge_back(run, text, part));
    const char *at = find_part(text, part, from_end);
    if (at) {
        const foci_chars before = {text.data, (size_t)(at - text.data)};
        *out = foci_int(start + foci_char_count(before));
    }
    return FOCAL_OK;
}

static focal_status index_of(foci_run *run, foci_call *call, foci_value *out)
{
    FOCAL_TRY(find(run, call, out));
    return out->as.number < 0 ? foci_run_fail(run, "index: the text is not there") : FOCAL_OK;
}

static focal_status count(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text, part;
    int64_t start, found = 0;
    FOCAL_TRY(own_range(run, call, &text, &start));
    FOCAL_TRY(foci_want_text(run, call->bound[0], "count: what to count", &part));
    *out = foci_int(0);
    if (!text.data) return FOCAL_OK;
    if (part.bytes == 0) found = foci_char_count(text) + 1;
    while (part.bytes && text.bytes) {
        const char *at = find_part(text, part, false);
        if (!at) break;
        FOCAL_TRY(foci_run_charge(run, 0));
        found++;
        text = (foci_chars){at + part.bytes, (size_t)(text.data + text.bytes - at) - part.bytes};
    }
    *out = foci_int(found);
    return FOCAL_OK;
}

static bool has_affix(foci_chars text, foci_chars affix, bool at_end)
{
    if (affix.bytes > text.bytes || !text.data) return false;
    const char *at = at_end ? text.data + text.bytes - affix.bytes : text.data;
    return affix.bytes == 0 || memcmp(at, affix.data, affix.bytes) == 0;
}

/* startswith and endswith: one text or a tuple of them. */
static focal_status match_affix(foci_run *run, foci_call *call, foci_value *out)
{
    const bool at_end = call->how == FOCI_RIGHT;
    foci_chars text, affix;
    int64_t start;
    const foci_value what = call->bound[0];
    const bool is_tuple = what.kind == FOCI_V_TUPLE;
    bool found = false;
    FOCAL_TRY(own_range(run, call, &text, &start));
    for (int64_t n = 0; n < (is_tuple ? what.as.list.count : 1) && !found; n++) {
        FOCAL_TRY(foci_want_text(run, is_tuple ? what.as.list.items[n] : what,
                                 at_end ? "endswith: the text" : "startswith: the text", &affix));
        FOCAL_TRY(foci_run_charge(run, 0));
        found = has_affix(text, affix, at_end);
    }
    *out = foci_bool(found);
    return FOCAL_OK;
}

static focal_status remove_affix(foci_run *run, foci_call *call, foci_value *out)
{
    const bool at_end = call->how == FOCI_RIGHT;
    foci_chars text, affix;
    FOCAL_TRY(own_text(run, call, &text));
    FOCAL_TRY(foci_want_text(run, call->bound[0], "the text to remove", &affix));
    if (has_affix(text, affix, at_end)) {
        if (!at_end) text.data += affix.bytes;
        text.bytes -= affix.bytes;
    }
    *out = foci_string(text);
    return FOCAL_OK;
}

/* Text before, at and behind a separator. */
static focal_status part_at(foci_run *run, foci_call *call, foci_value *out)
{
    const bool from_end = call->how == FOCI_RIGHT;
    foci_chars text, separator;
    FOCAL_TRY(own_text(run, call, &text));
    FOCAL_TRY(foci_want_text(run, call->bound[0], "partition: the separator", &separator));
    if (separator.bytes == 0) return foci_run_fail(run, "partition: the separator is empty");
    if (from_end) FOCAL_TRY(charge_back(run, text, separator));
    foci_value *items = foci_store_alloc(&run->store, 3, sizeof *items);
    if (!items) return foci_store_failed(&run->store);
    for (int n = 0; n < 3; n++) items[n] = foci_string((foci_chars){"", 0});
    const char *at = find_part(text, separator, from_end);
    if (at) {
        const char *behind = at + separator.bytes;
        items[0] = foci_string((foci_chars){text.data, (size_t)(at - text.data)});
        items[1] = foci_string(separator);
        items[2] = foci_string((foci_chars){behind, (size_t)(text.data + text.bytes - behind)});
    } else {
        items[from_end ? 2 : 0] = foci_string(text);
    }
    *out = foci_list(items, 3);
    out->kind = FOCI_V_TUPLE;
    return FOCAL_OK;
}

focal_status foci_replace(foci_run *run, foci_chars text, foci_chars old, foci_chars new_text,
                          int64_t most, foci_value *out)
{
    foci_builder built = {.store = &run->store};
    FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
    bool is_first = true;
    while (most-- != 0) {
        const char *at;
        if (old.bytes) {
            at = text.bytes ? find_part(text, old, false) : NULL;
        } else { /* an empty text stands before every character and at the end */
            at = text.data;
            if (!is_first) {
                if (text.bytes == 0) break;
                (void)foci_char_next(&at);
            }
        }
        is_first = false;
        if (!at) break;
        FOCAL_TRY(foci_run_charge(run, 0));
        FOCAL_TRY(foci_builder_add(&built, text.data, (size_t)(at - text.data)));
        FOCAL_TRY(foci_builder_add(&built, new_text.data, new_text.bytes));
        text.bytes -= (size_t)(at - text.data) + old.bytes;
        text.data = at + old.bytes;
    }
    FOCAL_TRY(foci_builder_add(&built, text.data, text.bytes));
    *out = foci_string(foci_builder_chars(&built));
    return FOCAL_OK;
}

static focal_status replace(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars old, new_text;
    int64_t most;
    FOCAL_TRY(foci_want_text(run, call->bound[0], "replace: what to replace", &old));
    FOCAL_TRY(foci_want_text(run, call->bound[1], "replace: the new text", &new_text));
    FOCAL_TRY(foci_want_int(run, call->bound[2], -1, &most));
    return foci_replace(run, call->self.as.text, old, new_text, most, out);
}

const foci_builtin *foci_search_method(foci_chars name)
{
    static const foci_builtin methods[] = {
        {"split", split, 0, {"sep", "maxsplit"}, FOCI_LEFT},
        {"rsplit", split, 0, {"sep", "maxsplit"}, FOCI_RIGHT},
        {"startswith", match_affix, 1, {"/prefix", "/start", "/end"}, FOCI_LEFT},
        {"endswith", match_affix, 1, {"/suffix", "/start", "/end"}, FOCI_RIGHT},
        {"removeprefix", remove_affix, 1, {"/prefix"}, FOCI_LEFT},
        {"removesuffix", remove_affix, 1, {"/suffix"}, FOCI_RIGHT},
        {"replace", replace, 2, {"/old", "/new", "/count"}, 0},
        {"find", find, 1, {"/sub", "/start", "/end"}, FOCI_LEFT},
        {"rfind", find, 1, {"/sub", "/start", "/end"}, FOCI_RIGHT},
        {"index", index_of, 1, {"/sub", "/start", "/end"}, FOCI_LEFT},
        {"rindex", index_of, 1, {"/sub", "/start", "/end"}, FOCI_RIGHT},
        {"count", count, 1, {"/sub", "/start", "/end"}, 0},
        {"partition", part_at, 1, {"/sep"}, FOCI_LEFT},
        {"rpartition", part_at, 1, {"/sep"}, FOCI_RIGHT},
    };
    return foci_find(methods, FOCAL_COUNT(methods), name);
}
