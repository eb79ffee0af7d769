/* Values as text: str(), repr() and JSON, byte for byte as Python writes them. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* Recursion here is bounded (values inside each other): foci_run_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

/* The fewest digits that read back as the same number, and the decimal exponent of the first. */
static int shortest_digits(double real, char digits[20], int *exponent)
{
    char text[40];
    for (int precision = 0; precision <= 16; precision++) {
        (void)snprintf(text, sizeof text, "%.*e", precision, real);
        if (strtod(text, NULL) == real) break;
    }
    int count = 0;
    const char *e = strchr(text, 'e');
    for (const char *c = text; c < e; c++) /* whatever the locale puts for the point is passed by */
        if (*c >= '0' && *c <= '9') digits[count++] = *c;
    *exponent = (int)strtol(e + 1, NULL, 10);
    return count;
}

void foci_real_text(double real, char out[FOCI_REAL_BYTES])
{
    if (!isfinite(real)) {
        (void)snprintf(out, FOCI_REAL_BYTES, "%s", isnan(real) ? "nan" : real < 0 ? "-inf" : "inf");
        return;
    }
    char digits[20] = "0";
    int exponent;
    const int count = shortest_digits(fabs(real), digits, &exponent);
    char *at = out;
    if (signbit(real)) *at++ = '-';
    if (exponent < -4 || exponent >= 16) {
        *at++ = digits[0];
        if (count > 1) *at++ = '.';
        memcpy(at, digits + 1, (size_t)count - 1);
        (void)snprintf(at + count - 1, 8, "e%c%02d", exponent < 0 ? '-' : '+',
                       abs(exponent) % 1000);
        return;
    }
    if (exponent < 0) {
        at += snprintf(at, 8, "0.%.*s", -exponent - 1, "000");
        memcpy(at, digits, (size_t)count);
        at[count] = '\0';
        return;
    }
    for (int n = 0; n < count || n <= exponent + 1; n++) {
        if (n == exponent + 1) *at++ = '.';
        *at++ = (char)(n < count ? digits[n] : '0');
    }
    *at = '\0';
}

static focal_status print_text_repr(foci_chars text, foci_builder *out)
{
    const bool has_single = text.bytes && memchr(text.data, '\'', text.bytes);
    const bool has_double = text.bytes && memchr(text.data, '"', text.bytes);
    const char quote = (char)(has_single && !has_double ? '"' : '\'');
    FOCAL_TRY(foci_builder_add(out, &quote, 1));
    const char *at = text.data, *end = text.data + text.bytes;
    while (at < end) {
        char escape[12];
        const char *begin = at;
        const uint32_t c = foci_char_next(&at);
        if (c == (uint32_t)quote || c == '\\')
            (void)snprintf(escape, sizeof escape, "\\%c", (char)c);
        else if (c == '\n' || c == '\r' || c == '\t')
            (void)snprintf(escape, sizeof escape, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        else if (foci_char_is_printable(c))
            escape[0] = '\0';
        else
            (void)snprintf(escape, sizeof escape,
                           c < 0x100     ? "\\x%02" PRIx32
                           : c < 0x10000 ? "\\u%04" PRIx32
                                         : "\\U%08" PRIx32,
                           c);
        if (escape[0])
            FOCAL_TRY(foci_builder_text(out, escape));
        else
            FOCAL_TRY(foci_builder_add(out, begin, (size_t)(at - begin)));
    }
    return foci_builder_add(out, &quote, 1);
}

static focal_status print_items(foci_run *run, const foci_value *items, int64_t count,
                                foci_builder *out)
{
    for (int64_t n = 0; n < count; n++) {
        if (n > 0) FOCAL_TRY(foci_builder_text(out, ", "));
        FOCAL_TRY(foci_repr(run, items[n], out));
    }
    return FOCAL_OK;
}

static focal_status print_dict(foci_run *run, const foci_dict *dict, foci_builder *out)
{
    FOCAL_TRY(foci_builder_text(out, "{"));
    for (int64_t n = 0; n < dict->count; n++) {
        if (n > 0) FOCAL_TRY(foci_builder_text(out, ", "));
        FOCAL_TRY(foci_repr(run, dict->entries[n].key, out));
        FOCAL_TRY(foci_builder_text(out, ": "));
        FOCAL_TRY(foci_repr(run, dict->entries[n].value, out));
    }
    return foci_builder_text(out, "}");
}

static focal_status print_container(foci_run *run, foci_value value, foci_builder *out)
{
    static const char *const views[] = {"dict_keys([", "dict_values([", "dict_items(["};
    switch (value.kind) {
    case FOCI_V_LIST:
    case FOCI_V_TUPLE: {
        const bool is_list = value.kind == FOCI_V_LIST;
        FOCAL_TRY(foci_builder_text(out, is_list ? "[" : "("));
        FOCAL_TRY(print_items(run, value.as.list.items, value.as.list.count, out));
        return foci_builder_text(out, is_list ? "]" : value.as.list.count == 1 ? ",)" : ")");
    }
    case FOCI_V_DICT:
        return print_dict(run, value.as.dict, out);
    case FOCI_V_NAMESPACE:
        FOCAL_TRY(foci_builder_text(out, "<Namespace "));
        FOCAL_TRY(print_dict(run, value.as.dict, out));
        return foci_builder_text(out, ">");
    case FOCI_V_SERIES:
        if (value.as.series->kind == FOCI_SERIES_ONCE) break;
        FOCAL_TRY(foci_builder_text(out, views[value.as.series->kind]));
        FOCAL_TRY(print_items(run, value.as.series->items, value.as.series->count, out));
        return foci_builder_text(out, "])");
    default:
        break;
    }
    return foci_run_fail(run, "a %s cannot be printed", foci_kind_name(value.kind));
}

focal_status foci_repr(foci_run *run, foci_value value, foci_builder *out)
{
    char text[80];
    FOCAL_TRY(foci_run_charge(run, 0));
    switch (value.kind) {
    case FOCI_V_STRING:
        FOCAL_TRY(foci_run_charge(run, (int64_t)value.as.text.bytes));
        if (!value.is_markup) return print_text_repr(value.as.text, out);
        FOCAL_TRY(foci_builder_text(out, "Markup("));
        FOCAL_TRY(print_text_repr(value.as.text, out));
        return foci_builder_text(out, ")");
    case FOCI_V_UNDEFINED:
        return foci_builder_text(out, "Undefined");
    case FOCI_V_NONE:
        return foci_builder_text(out, "None");
    case FOCI_V_BOOL:
        return foci_builder_text(out, value.as.truth ? "True" : "False");
    case FOCI_V_INT:
        (void)snprintf(text, sizeof text, "%" PRId64, value.as.number);
        return foci_builder_text(out, text);
    case FOCI_V_FLOAT:
        foci_real_text(value.as.real, text);
        return foci_builder_text(out, text);
    case FOCI_V_RANGE: {
        const foci_range *r = value.as.range;
        if (r->step == 1)
            (void)snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ")", r->start, r->stop);
        else
            (void)snprintf(text, sizeof text, "range(%" PRId64 ", %" PRId64 ", %" PRId64 ")",
                           r->start, r->stop, r->step);
        return foci_builder_text(out, text);
    }
    default:
        break;
    }
    FOCAL_TRY(foci_run_enter(run));
    FOCAL_TRY(print_container(run, value, out));
    run->depth--;
    return FOCAL_OK;
}

focal_status foci_print(foci_run *run, foci_value value, foci_builder *out)
{
    if (value.kind == FOCI_V_UNDEFINED) return FOCAL_OK;
    if (value.kind != FOCI_V_STRING) return foci_repr(run, value, out);
    FOCAL_TRY(foci_run_charge(run, (int64_t)value.as.text.bytes));
    return foci_builder_add(out, value.as.text.data, value.as.text.bytes);
}

focal_status foci_value_text(foci_run *run, foci_value value, foci_chars *text)
{
    *text = value.as.text;
    if (value.kind == FOCI_V_STRING) return FOCAL_OK;
    foci_builder out = {.store = &run->store};
    FOCAL_TRY(foci_print(run, value, &out));
    *text = foci_builder_chars(&out);
    return FOCAL_OK;
}

focal_status foci_escape(foci_run *run, foci_chars text, foci_chars *out)
{
    foci_builder escaped = {.store = &run->store};
    FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
    for (size_t n = 0; n < text.bytes; n++) {
        const char c = text.data[n];
        const char *name = c == '&'    ? "&amp;"
                           : c == '<'  ? "&lt;"
                           : c == '>'  ? "&gt;"
                           : c == '\'' ? "&#39;"
                           : c == '"'  ? "&#34;"
                                       : NULL;
        if (name)
            FOCAL_TRY(foci_builder_text(&escaped, name));
        else
            FOCAL_TRY(foci_builder_add(&escaped, &c, 1));
    }
    *out = foci_builder_chars(&escaped);
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
