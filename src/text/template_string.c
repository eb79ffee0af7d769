/* The methods of str, and the filters that are one of them. */
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* The object as text: methods have one, filters take anything. */
static focal_status own_text(foci_run *run, const foci_call *call, foci_chars *text)
{
    FOCAL_TRY(foci_value_text(run, call->self, text));
    return foci_run_charge(run, (int64_t)text->bytes);
}

static focal_status give(const foci_call *call, foci_chars text, foci_value *out)
{
    *out = foci_string(text);
    out->is_markup = call->self.is_markup;
    return FOCAL_OK;
}

/* Every character in one case, but the first in another. */
static focal_status recase(foci_run *run, const foci_call *call, foci_case first, foci_case rest,
                           foci_value *out)
{
    foci_chars text;
    foci_builder built = {.store = &run->store};
    FOCAL_TRY(own_text(run, call, &text));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const foci_case as = at == text.data ? first : rest;
        FOCAL_TRY(foci_builder_char(&built, foci_char_next(&at), as));
    }
    return give(call, foci_builder_chars(&built), out);
}

focal_status foci_upper(foci_run *run, foci_call *call, foci_value *out)
{
    return recase(run, call, FOCI_CASE_UPPER, FOCI_CASE_UPPER, out);
}

focal_status foci_template_lower(foci_run *run, foci_call *call, foci_value *out)
{
    return recase(run, call, FOCI_CASE_LOWER, FOCI_CASE_LOWER, out);
}

focal_status foci_capitalize(foci_run *run, foci_call *call, foci_value *out)
{
    return recase(run, call, FOCI_CASE_TITLE, FOCI_CASE_LOWER, out);
}

static bool is_cased(uint32_t c)
{
    return c == 0xDF || foci_char_upper(c) != c || foci_char_lower(c) != c;
}

/* Capitals behind what has no case. */
static focal_status title(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    foci_builder built = {.store = &run->store};
    bool in_word = false;
    FOCAL_TRY(own_text(run, call, &text));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const uint32_t c = foci_char_next(&at);
        FOCAL_TRY(foci_builder_char(&built, c, in_word ? FOCI_CASE_LOWER : FOCI_CASE_TITLE));
        in_word = is_cased(c);
    }
    return give(call, foci_builder_chars(&built), out);
}

static focal_status swapcase(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    foci_builder built = {.store = &run->store};
    FOCAL_TRY(own_text(run, call, &text));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const uint32_t c = foci_char_next(&at);
        const bool is_upper = foci_char_lower(c) != c;
        FOCAL_TRY(foci_builder_char(&built, c, is_upper ? FOCI_CASE_LOWER : FOCI_CASE_UPPER));
    }
    return give(call, foci_builder_chars(&built), out);
}

static bool is_one_of(foci_chars set, const char *begin, const char *end)
{
    return set.bytes && memmem(set.data, set.bytes, begin, (size_t)(end - begin)) != NULL;
}

/* Without characters of the set (none given: white space) at the ends. */
focal_status foci_strip(foci_run *run, foci_call *call, foci_value *out)
{
    const bool left = call->how & FOCI_LEFT, right = call->how & FOCI_RIGHT;
    foci_chars text, set;
    FOCAL_TRY(own_text(run, call, &text));
    if (call->bound[0].kind == FOCI_V_MISSING || call->bound[0].kind == FOCI_V_NONE)
        return give(call, foci_chars_strip(text, left, right), out);
    FOCAL_TRY(foci_want_text(run, call->bound[0], "strip: the characters", &set));
    const char *begin = text.data, *end = begin + text.bytes;
    while (left && begin < end) {
        const char *at = begin;
        (void)foci_char_next(&at);
        FOCAL_TRY(foci_run_charge(run, (int64_t)set.bytes));
        if (!is_one_of(set, begin, at)) break;
        begin = at;
    }
    while (right && end > begin) {
        const char *at = end;
        (void)foci_char_back(&at);
        FOCAL_TRY(foci_run_charge(run, (int64_t)set.bytes));
        if (!is_one_of(set, at, end)) break;
        end = at;
    }
    return give(call, (foci_chars){begin, (size_t)(end - begin)}, out);
}

static bool ends_line(uint32_t c)
{
    return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

focal_status foci_splitlines(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    foci_values lines = {0};
    const bool keeps = foci_truth(call->bound[0]);
    FOCAL_TRY(own_text(run, call, &text));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const char *begin = at, *stop = end;
        while (at < end) {
            const char *before = at;
            const uint32_t c = foci_char_next(&at);
            if (!ends_line(c)) continue;
            if (c == '\r' && at < end && *at == '\n') at++;
            stop = keeps ? at : before;
            break;
        }
        FOCAL_TRY(
            foci_values_add(run, &lines, foci_string((foci_chars){begin, (size_t)(stop - begin)})));
    }
    *out = foci_list(lines.items, lines.count);
    return FOCAL_OK;
}

static focal_status join(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t item_count;
    foci_builder built = {.store = &run->store};
    FOCAL_TRY(foci_items(run, call->bound[0], &items, &item_count));
    for (int64_t n = 0; n < item_count; n++) {
        foci_chars text;
        FOCAL_TRY(foci_want_text(run, items[n], "join: an item", &text));
        if (n > 0)
            FOCAL_TRY(foci_builder_add(&built, call->self.as.text.data, call->self.as.text.bytes));
        FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
        FOCAL_TRY(foci_builder_add(&built, text.data, text.bytes));
    }
    *out = foci_string(foci_builder_chars(&built));
    return FOCAL_OK;
}

static focal_status format(foci_run *run, foci_call *call, foci_value *out)
{
    return foci_format_braces(run, call->self.as.text, &call->args, out);
}

/* How many characters are missing to a width. */
static focal_status missing_to(foci_run *run, foci_chars text, foci_value wanted, int64_t *missing)
{
    int64_t width;
    FOCAL_TRY(foci_want_int(run, wanted, 80, &width));
    *missing = foci_max64(foci_max64(width, 0) - foci_char_count(text), 0);
    if (*missing > (int64_t)run->store.limit) return foci_run_fail(run, "a text is too long");
    return foci_run_charge(run, *missing);
}

/* Blanks, or the character given, to a width. */
focal_status foci_pad(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text, fill = {" ", 1};
    int64_t total;
    foci_builder built = {.store = &run->store};
    FOCAL_TRY(own_text(run, call, &text));
    FOCAL_TRY(missing_to(run, text, call->bound[0], &total));
    if (call->bound[1].kind != FOCI_V_MISSING)
        FOCAL_TRY(foci_want_text(run, call->bound[1], "the filling character", &fill));
    if (foci_char_count(fill) != 1)
        return foci_run_fail(run, "one character fills, not more or less");
    /* Of an odd number, Python's center() puts one more to the left when the width is odd. */
    const int64_t width = total + foci_char_count(text);
    int64_t left = total / 2 + (total & width & 1);
    if (call->how != FOCI_BOTH) left = call->how == FOCI_LEFT ? total : 0;
    for (int64_t n = 0; n < left; n++) FOCAL_TRY(foci_builder_add(&built, fill.data, fill.bytes));
    FOCAL_TRY(foci_builder_add(&built, text.data, text.bytes));
    for (int64_t n = left; n < total; n++)
        FOCAL_TRY(foci_builder_add(&built, fill.data, fill.bytes));
    return give(call, foci_builder_chars(&built), out);
}

static focal_status zfill(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_chars text = call->self.as.text;
    const size_t sign = text.bytes && (text.data[0] == '-' || text.data[0] == '+');
    int64_t total;
    foci_builder built = {.store = &run->store};
    FOCAL_TRY(missing_to(run, text, call->bound[0], &total));
    FOCAL_TRY(foci_builder_add(&built, text.data, sign));
    FOCAL_TRY(foci_builder_fill(&built, '0', (size_t)total));
    FOCAL_TRY(foci_builder_add(&built, text.data + sign, text.bytes - sign));
    return give(call, foci_builder_chars(&built), out);
}

static bool is_upper_char(uint32_t c)
{
    return foci_char_lower(c) != c;
}

static bool is_lower_char(uint32_t c)
{
    return c == 0xDF || foci_char_upper(c) != c;
}

typedef enum char_kind { ALPHA, ALNUM, DIGIT, SPACE, ASCII } char_kind;

static bool is_of_kind(char_kind kind, uint32_t c)
{
    switch (kind) {
    case ALPHA:
        return foci_char_is_alpha(c);
    case ALNUM:
        return foci_char_is_alpha(c) || foci_char_is_digit(c);
    case DIGIT:
        return foci_char_is_digit(c);
    case SPACE:
        return foci_char_is_space(c);
    default:
        return c < 0x80;
    }
}

/* True when there is a character (isascii wants none) and all are of that kind. */
static focal_status all_are(foci_run *run, foci_call *call, foci_value *out)
{
    const char_kind kind = (char_kind)call->how;
    foci_chars text;
    FOCAL_TRY(own_text(run, call, &text));
    const char *at = text.data, *end = at + text.bytes;
    bool all = text.bytes > 0 || kind == ASCII;
    while (at < end && all) all = is_of_kind(kind, foci_char_next(&at));
    *out = foci_bool(all);
    return FOCAL_OK;
}

/* True when a letter of that case is there and none of the other. */
static focal_status has_case(foci_run *run, foci_call *call, foci_value *out)
{
    const bool upper = call->how == FOCI_CASE_UPPER;
    foci_chars text;
    bool any = false, other = false;
    FOCAL_TRY(own_text(run, call, &text));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const uint32_t c = foci_char_next(&at);
        any |= upper ? is_upper_char(c) : is_lower_char(c);
        other |= upper ? is_lower_char(c) : is_upper_char(c);
    }
    *out = foci_bool(any && !other);
    return FOCAL_OK;
}

const foci_builtin *foci_string_method(foci_chars name)
{
    static const foci_builtin methods[] = {
        {"strip", foci_strip, 0, {"/chars"}, FOCI_BOTH},
        {"lstrip", foci_strip, 0, {"/chars"}, FOCI_LEFT},
        {"rstrip", foci_strip, 0, {"/chars"}, FOCI_RIGHT},
        {"splitlines", foci_splitlines, 0, {"keepends"}, 0},
        {"upper", foci_upper, 0, {NULL}, 0},
        {"lower", foci_template_lower, 0, {NULL}, 0},
        {"casefold", foci_template_lower, 0, {NULL}, 0},
        {"title", title, 0, {NULL}, 0},
        {"capitalize", foci_capitalize, 0, {NULL}, 0},
        {"swapcase", swapcase, 0, {NULL}, 0},
        {"join", join, 1, {"/iterable"}, 0},
        {"format", format, 0, {"*"}, 0},
        {"center", foci_pad, 1, {"/width", "/fillchar"}, FOCI_BOTH},
        {"ljust", foci_pad, 1, {"/width", "/fillchar"}, FOCI_RIGHT},
        {"rjust", foci_pad, 1, {"/width", "/fillchar"}, FOCI_LEFT},
        {"zfill", zfill, 1, {"/width"}, 0},
        {"isupper", has_case, 0, {NULL}, FOCI_CASE_UPPER},
        {"islower", has_case, 0, {NULL}, FOCI_CASE_LOWER},
        {"isalpha", all_are, 0, {NULL}, ALPHA},
        {"isalnum", all_are, 0, {NULL}, ALNUM},
        {"isdigit", all_are, 0, {NULL}, DIGIT},
        {"isdecimal", all_are, 0, {NULL}, DIGIT},
        {"isnumeric", all_are, 0, {NULL}, DIGIT},
        {"isspace", all_are, 0, {NULL}, SPACE},
        {"isascii", all_are, 0, {NULL}, ASCII},
    };
    const foci_builtin *found = foci_find(methods, FOCAL_COUNT(methods), name);
    return found ? found : foci_search_method(name);
}
