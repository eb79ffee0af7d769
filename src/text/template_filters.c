/* Filters of one value, and the table of them all. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_filters.h"
#include "text/template_run.h"

static focal_status filter_abs(foci_run *run, foci_call *call, foci_value *out)
{
    *out = call->self;
    if (call->self.kind == FOCI_V_FLOAT) {
        *out = foci_float(fabs(call->self.as.real));
        return FOCAL_OK;
    }
    const bool is_negative = call->self.kind == FOCI_V_INT && call->self.as.number < 0;
    return foci_negate(run, call->self, is_negative, out);
}

static focal_status filter_default(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    *out = call->self;
    if (call->self.kind == FOCI_V_UNDEFINED ||
        (foci_truth(call->bound[1]) && !foci_truth(call->self)))
        *out = call->bound[0].kind == FOCI_V_MISSING ? foci_string((foci_chars){"", 0})
                                                     : call->bound[0];
    return FOCAL_OK;
}

static focal_status filter_escape(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    *out = call->self;
    if (call->self.kind == FOCI_V_STRING && call->self.is_markup) return FOCAL_OK;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    FOCAL_TRY(foci_escape(run, text, &text));
    *out = foci_string(text);
    out->is_markup = true;
    return FOCAL_OK;
}

static focal_status filter_forceescape(foci_run *run, foci_call *call, foci_value *out)
{
    call->self.is_markup = false;
    return filter_escape(run, call, out);
}

static focal_status filter_safe(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    *out = foci_string(text);
    out->is_markup = true;
    return FOCAL_OK;
}

static focal_status filter_string(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    *out = foci_string(text);
    out->is_markup = call->self.kind == FOCI_V_STRING && call->self.is_markup;
    return FOCAL_OK;
}

static focal_status filter_length(foci_run *run, foci_call *call, foci_value *out)
{
    int64_t length;
    FOCAL_TRY(foci_length(run, call->self, &length));
    *out = foci_int(length);
    return FOCAL_OK;
}

/* int() of a float, towards zero; false beyond 64 bits. */
static bool whole(double real, int64_t *out)
{
    if (!(fabs(real) < 0x1p63)) return false;
    *out = (int64_t)real;
    return true;
}

static focal_status filter_int(foci_run *run, foci_call *call, foci_value *out)
{
    int64_t base, number = 0;
    double real;
    const foci_value self = call->self;
    FOCAL_TRY(foci_want_int(run, call->bound[1], 10, &base));
    if (base != 0 && (base < 2 || base > 36))
        return foci_run_fail(run, "int: there is no base %lld", (long long)base);
    *out = call->bound[0].kind == FOCI_V_MISSING ? foci_int(0) : call->bound[0];
    if (self.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, self);
    if (self.kind == FOCI_V_INT || self.kind == FOCI_V_BOOL) {
        *out = foci_int(foci_as_int(self));
    } else if (self.kind == FOCI_V_STRING) {
        FOCAL_TRY(foci_run_charge(run, (int64_t)self.as.text.bytes));
        if (foci_read_int(self.as.text, (int)base, &number) ||
            (foci_read_real(self.as.text, &real) && whole(real, &number)))
            *out = foci_int(number);
    } else if (self.kind == FOCI_V_FLOAT && isfinite(self.as.real)) {
        if (!whole(self.as.real, &number)) return foci_run_fail(run, "int: beyond 64 bits");
        *out = foci_int(number);
    }
    return FOCAL_OK;
}

static focal_status filter_float(foci_run *run, foci_call *call, foci_value *out)
{
    double real;
    const foci_value self = call->self;
    *out = call->bound[0].kind == FOCI_V_MISSING ? foci_float(0.0) : call->bound[0];
    if (self.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, self);
    if (foci_is_number(self)) *out = foci_float(foci_as_real(self));
    if (self.kind != FOCI_V_STRING) return FOCAL_OK;
    FOCAL_TRY(foci_run_charge(run, (int64_t)self.as.text.bytes));
    if (foci_read_real(self.as.text, &real)) *out = foci_float(real);
    return FOCAL_OK;
}

/* round() of an integer to tens and hundreds: to the nearest, ties to even. */
static focal_status round_int(foci_run *run, int64_t number, int64_t precision, foci_value *out)
{
    int64_t unit = 1;
    *out = foci_int(number);
    if (precision >= 0) return FOCAL_OK;
    if (precision < -18)
        return foci_run_fail(run, "round: a precision of %lld", (long long)precision);
    for (int64_t n = precision; n < 0; n++) unit *= 10;
    const int64_t rest = ((number % unit) + unit) % unit, low = number - rest;
    const bool is_even = (low / unit) % 2 == 0;
    const bool rises = rest > unit / 2 || (rest == unit / 2 && !is_even);
    int64_t result;
    if (number < INT64_MIN + unit || __builtin_add_overflow(low, rises ? unit : 0, &result))
        return foci_run_fail(run, "round: beyond 64 bits");
    *out = foci_int(result);
    return FOCAL_OK;
}

/* round() of a float: the C library prints the exact value rounded, as Python does. */
static double round_real(double real, int64_t precision)
{
    if (!isfinite(real) || precision > 30) return real;
    if (precision >= 0) {
        char text[400];
        (void)snprintf(text, sizeof text, "%.*f", (int)precision, real);
        return strtod(text, NULL);
    }
    const double unit = pow(10.0, (double)-precision);
    return isfinite(unit) ? nearbyint(real / unit) * unit : 0.0;
}

static focal_status filter_round(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars method = {"common", 6};
    int64_t precision;
    const foci_value self = call->self;
    FOCAL_TRY(foci_want_int(run, call->bound[0], 0, &precision));
    if (call->bound[1].kind != FOCI_V_MISSING)
        FOCAL_TRY(foci_want_text(run, call->bound[1], "round: the method", &method));
    if (self.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, self);
    if (!foci_is_number(self))
        return foci_run_fail(run, "round: a %s is no number", foci_kind_name(self.kind));
    const bool is_ceil = foci_chars_is(method, "ceil");
    if (foci_chars_is(method, "common")) {
        if (self.kind != FOCI_V_FLOAT) return round_int(run, foci_as_int(self), precision, out);
        *out = foci_float(round_real(self.as.real, precision));
        return FOCAL_OK;
    }
    if (!is_ceil && !foci_chars_is(method, "floor"))
        return foci_run_fail(run, "round: the method is common, ceil or floor");
    if (precision < -300 || precision > 300 || !isfinite(foci_as_real(self)))
        return foci_run_fail(run, "round: out of range");
    const double unit = pow(10.0, (double)precision), scaled = foci_as_real(self) * unit;
    *out = foci_float((is_ceil ? ceil(scaled) : floor(scaled)) / unit);
    return FOCAL_OK;
}

static focal_status filter_replace(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text, old, new_text;
    int64_t most = -1;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    FOCAL_TRY(foci_value_text(run, call->bound[0], &old));
    FOCAL_TRY(foci_value_text(run, call->bound[1], &new_text));
    if (call->bound[2].kind != FOCI_V_NONE)
        FOCAL_TRY(foci_want_int(run, call->bound[2], -1, &most));
    return foci_replace(run, text, old, new_text, most, out);
}

/* A capital behind each of -, white space, ( { [ and <. */
static focal_status filter_title(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    foci_builder built = {.store = &run->store};
    bool starts = true;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const uint32_t c = foci_char_next(&at);
        const bool parts = foci_char_is_space(c) || (c && c < 0x80 && strchr("-({[<", (int)c));
        FOCAL_TRY(foci_builder_char(&built, c, starts ? FOCI_CASE_UPPER : FOCI_CASE_LOWER));
        starts = parts;
    }
    *out = foci_string(foci_builder_chars(&built));
    return FOCAL_OK;
}

/* What an indent filter puts before a line. */
static focal_status indention(foci_run *run, foci_value width, foci_chars *out)
{
    int64_t blanks;
    foci_builder built = {.store = &run->store};
    *out = width.as.text;
    if (width.kind == FOCI_V_STRING) return FOCAL_OK;
    FOCAL_TRY(foci_want_int(run, width, 4, &blanks));
    if (blanks > 10000) return foci_run_fail(run, "indent: a width of %lld", (long long)blanks);
    FOCAL_TRY(foci_builder_fill(&built, ' ', blanks > 0 ? (size_t)blanks : 0));
    *out = foci_builder_chars(&built);
    return FOCAL_OK;
}

static focal_status filter_indent(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars blanks, text;
    foci_value lines;
    foci_builder built = {.store = &run->store}, ended = {.store = &run->store};
    FOCAL_TRY(indention(run, call->bound[0], &blanks));
    FOCAL_TRY(foci_want_text(run, call->self, "indent: the value", &text));
    const bool first = foci_truth(call->bound[1]), blank = foci_truth(call->bound[2]);
    FOCAL_TRY(foci_builder_add(&ended, text.data, text.bytes));
    FOCAL_TRY(foci_builder_text(&ended, "\n")); /* so that a newline at the end counts */
    foci_call split = {.self = foci_string(foci_builder_chars(&ended)), .bound = {foci_missing()}};
    FOCAL_TRY(foci_splitlines(run, &split, &lines));
    for (int64_t n = 0; n < lines.as.list.count; n++) {
        const foci_chars line = lines.as.list.items[n].as.text;
        if (n > 0) FOCAL_TRY(foci_builder_text(&built, "\n"));
        if (n > 0 ? blank || line.bytes : first)
            FOCAL_TRY(foci_builder_add(&built, blanks.data, blanks.bytes));
        FOCAL_TRY(foci_builder_add(&built, line.data, line.bytes));
    }
    *out = foci_string(foci_builder_chars(&built));
    return FOCAL_OK;
}

static focal_status filter_wordcount(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    int64_t words = 0;
    bool in_word = false;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
    const char *at = text.data, *end = at + text.bytes;
    while (at < end) {
        const uint32_t c = foci_char_next(&at);
        const bool is_word = foci_char_is_alpha(c) || foci_char_is_digit(c) || c == '_';
        words += is_word && !in_word;
        in_word = is_word;
    }
    *out = foci_int(words);
    return FOCAL_OK;
}

static focal_status filter_format(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    foci_value args = foci_list(call->args.items, call->args.count);
    args.kind = FOCI_V_TUPLE;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    if (call->args.keyword_count && call->args.count)
        return foci_run_fail(run, "format takes values or names, not both");
    if (call->args.keyword_count) {
        foci_dict *dict = foci_dict_new(&run->store);
        if (!dict) return foci_store_failed(&run->store);
        for (int32_t n = 0; n < call->args.keyword_count; n++)
            FOCAL_TRY(foci_dict_set(run, dict, foci_string(call->args.keywords[n].name),
                                    call->args.keywords[n].value));
        args = (foci_value){.kind = FOCI_V_DICT, .as.dict = dict};
    }
    return foci_format_percent(run, text, args, out);
}

static focal_status filter_attr(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars name;
    FOCAL_TRY(foci_want_text(run, call->bound[0], "attr: the name", &name));
    /* A dict's elements are no attributes; its methods are. */
    if (call->self.kind == FOCI_V_DICT && !foci_container_method(FOCI_V_DICT, name)) {
        *out = foci_undefined_hint("a dict has no such attribute");
        return FOCAL_OK;
    }
    return foci_attribute(run, call->self, name, out);
}

const foci_builtin *foci_filter_find(foci_chars name)
{
    static const foci_builtin filters[] = {
        {"trim", foci_strip, 0, {"chars"}, FOCI_BOTH},
        {"tojson", foci_tojson, 0, {"ensure_ascii", "indent", "separators", "sort_keys"}, 0},
        {"default", filter_default, 0, {"default_value", "boolean"}, 0},
        {"d", filter_default, 0, {"default_value", "boolean"}, 0},
        {"length", filter_length, 0, {NULL}, 0},
        {"count", filter_length, 0, {NULL}, 0},
        {"upper", foci_upper, 0, {NULL}, 0},
        {"lower", foci_template_lower, 0, {NULL}, 0},
        {"capitalize", foci_capitalize, 0, {NULL}, 0},
        {"title", filter_title, 0, {NULL}, 0},
        {"replace", filter_replace, 2, {"old", "new", "count"}, 0},
        {"indent", filter_indent, 0, {"width", "first", "blank"}, 0},
        {"string", filter_string, 0, {NULL}, 0},
        {"int", filter_int, 0, {"default", "base"}, 0},
        {"float", filter_float, 0, {"default"}, 0},
        {"round", filter_round, 0, {"precision", "method"}, 0},
        {"abs", filter_abs, 0, {NULL}, 0},
        {"safe", filter_safe, 0, {NULL}, 0},
        {"escape", filter_escape, 0, {NULL}, 0},
        {"e", filter_escape, 0, {NULL}, 0},
        {"forceescape", filter_forceescape, 0, {NULL}, 0},
        {"center", foci_pad, 0, {"width"}, FOCI_BOTH},
        {"wordcount", filter_wordcount, 0, {NULL}, 0},
        {"format", filter_format, 0, {"*"}, 0},
        {"attr", filter_attr, 1, {"name"}, 0},
    };
    const foci_builtin *found = foci_find(filters, FOCAL_COUNT(filters), name);
    return found ? found : foci_list_filter(name);
}
