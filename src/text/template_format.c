/* Text from patterns: "%s" % x and "{}".format(x). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_run.h"

enum { MAX_WIDTH = 1000 };

/* One conversion of a % pattern. */
typedef struct conversion {
    bool left, plus, blank, zero, alternate;
    int width, precision; /* precision -1: none */
    char type;
} conversion;

/* Pads text to the width; zeros go between the sign and the digits. */
static focal_status put_padded(foci_builder *out, const conversion *c, foci_chars text,
                               bool is_number)
{
    const int64_t length = foci_char_count(text);
    const size_t pad = c->width > length ? (size_t)(c->width - length) : 0;
    const bool zeros = c->zero && is_number && !c->left;
    size_t sign = 0;
    if (zeros && text.bytes && strchr("+- ", text.data[0])) sign = 1;
    if (zeros && text.bytes > sign + 1 && text.data[sign] == '0' &&
        strchr("xXo", text.data[sign + 1]))
        sign += 2;
    if (!zeros && !c->left) FOCAL_TRY(foci_builder_fill(out, ' ', pad));
    FOCAL_TRY(foci_builder_add(out, text.data, sign));
    if (zeros) FOCAL_TRY(foci_builder_fill(out, '0', pad));
    FOCAL_TRY(foci_builder_add(out, text.data + sign, text.bytes - sign));
    return c->left ? foci_builder_fill(out, ' ', pad) : FOCAL_OK;
}

/* Digits that end, with a NUL, at `end`; where they begin. */
static const char *write_digits(uint64_t number, uint64_t base, const char *letters, char *end)
{
    *--end = '\0';
    do {
        *--end = letters[number % base];
        number /= base;
    } while (number);
    return end;
}

static focal_status put_integer(foci_run *run, const conversion *c, foci_value value,
                                foci_builder *out)
{
    char digits[32], text[MAX_WIDTH + 48];
    int64_t number;
    if (value.kind == FOCI_V_FLOAT && strchr("diu", c->type) && fabs(value.as.real) < 0x1p63)
        number = (int64_t)value.as.real;
    else if (value.kind == FOCI_V_INT || value.kind == FOCI_V_BOOL)
        number = foci_as_int(value);
    else
        return foci_run_fail(run, "%%%c takes a number, not a %s", c->type,
                             foci_kind_name(value.kind));
    const uint64_t size = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    const uint64_t base = c->type == 'o' ? 8 : c->type == 'x' || c->type == 'X' ? 16 : 10;
    const char *letters = c->type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
    const char *first = write_digits(size, base, letters, digits + sizeof digits);
    const char *sign = number < 0 ? "-" : c->plus ? "+" : c->blank ? " " : "";
    const char *prefix = !c->alternate    ? ""
                         : c->type == 'x' ? "0x"
                         : c->type == 'X' ? "0X"
                         : c->type == 'o' ? "0o"
                                          : "";
    const int missing = c->precision - (int)strlen(first);
    int at = snprintf(text, sizeof text, "%s%s", sign, prefix);
    for (int n = 0; n < missing; n++) text[at++] = '0';
    (void)snprintf(text + at, sizeof text - (size_t)at, "%s", first);
    return put_padded(out, c, foci_chars_of(text), true);
}

static focal_status put_real(foci_run *run, const conversion *c, foci_value value,
                             foci_builder *out)
{
    char format[16], text[MAX_WIDTH + 400];
    if (!foci_is_number(value))
        return foci_run_fail(run, "%%%c takes a number, not a %s", c->type,
                             foci_kind_name(value.kind));
    const double real = foci_as_real(value);
    (void)snprintf(format, sizeof format, "%%%s%s%s.*%c", c->plus ? "+" : "", c->blank ? " " : "",
                   c->alternate ? "#" : "", c->type);
    const int precision = c->precision < 0 ? 6 : c->precision;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(text, sizeof text, format, precision, real);
#pragma GCC diagnostic pop
    conversion padding = *c;
    padding.zero = c->zero && isfinite(real);
    return put_padded(out, &padding, foci_chars_of(text), true);
}

static focal_status put_character(foci_run *run, const conversion *c, foci_value value,
                                  foci_builder *out)
{
    char utf8[FOCI_CHAR_BYTES];
    if (value.kind == FOCI_V_STRING && foci_char_count(value.as.text) == 1)
        return put_padded(out, c, value.as.text, false);
    const int64_t code = value.kind == FOCI_V_INT ? value.as.number : -1;
    if (code < 0 || code > 0x10FFFF || (code >= 0xD800 && code <= 0xDFFF))
        return foci_run_fail(run, "%%c takes a character");
    const size_t bytes = (size_t)foci_char_put((uint32_t)code, utf8);
    return put_padded(out, c, (foci_chars){utf8, bytes}, false);
}

static focal_status put_conversion(foci_run *run, const conversion *c, foci_value value,
                                   foci_builder *out)
{
    foci_builder text = {.store = &run->store};
    switch (c->type) {
    case 's':
    case 'r': {
        FOCAL_TRY(c->type == 's' ? foci_print(run, value, &text) : foci_repr(run, value, &text));
        foci_chars chars = foci_builder_chars(&text);
        if (c->precision >= 0) chars.bytes = foci_char_offset(chars, c->precision);
        return put_padded(out, c, chars, false);
    }
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
        return put_integer(run, c, value, out);
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
        return put_real(run, c, value, out);
    case 'c':
        return put_character(run, c, value, out);
    default:
        break;
    }
    return foci_run_fail(run, "the conversion %%%c is not supported", c->type);
}

/* What a % pattern still has to fill in. */
typedef struct source {
    foci_value all; /* a dict, for %(name)s */
    const foci_value *items;
    int64_t count, next;
    bool is_named;
} source;

static focal_status next_value(foci_run *run, source *from, foci_value *out)
{
    if (from->next >= from->count) return foci_run_fail(run, "too few values for a %% pattern");
    *out = from->items[from->next++];
    return FOCAL_OK;
}

/* A width or precision: digits or *. */
static focal_status read_size(foci_run *run, source *from, const char **at, const char *end,
                              int *size)
{
    *size = 0;
    if (*at < end && **at == '*') {
        foci_value value = foci_none();
        int64_t number;
        (*at)++;
        FOCAL_TRY(next_value(run, from, &value));
        FOCAL_TRY(foci_want_int(run, value, 0, &number));
        if (number < 0 || number > MAX_WIDTH)
            return foci_run_fail(run, "a width of %lld in a %% pattern", (long long)number);
        *size = (int)number;
    }
    for (; *at < end && **at >= '0' && **at <= '9'; (*at)++) {
        *size = *size * 10 + (**at - '0');
        if (*size > MAX_WIDTH)
            return foci_run_fail(run, "a width beyond %d in a %% pattern", MAX_WIDTH);
    }
    return FOCAL_OK;
}

/* (name) behind a %: from then on the pattern looks into the dict. */
static focal_status read_name(foci_run *run, source *from, const char **at, const char *end,
                              foci_value *value)
{
    const char *close = memchr(*at, ')', (size_t)(end - *at));
    foci_entry *entry = NULL;
    if (!close) return foci_run_fail(run, "a name in a %% pattern has no end");
    const foci_chars name = {*at + 1, (size_t)(close - *at) - 1};
    if (from->all.kind != FOCI_V_DICT) return foci_run_fail(run, "a %%(name) pattern takes a dict");
    FOCAL_TRY(foci_dict_look(run, from->all.as.dict, foci_string(name), &entry));
    if (!entry)
        return foci_run_fail(run, "no value for '%.*s' of a %% pattern",
                             name.bytes < 80 ? (int)name.bytes : 80, name.data);
    *value = entry->value;
    from->is_named = true;
    *at = close + 1;
    return FOCAL_OK;
}

static focal_status put_next(foci_run *run, source *from, const char **at, const char *end,
                             foci_builder *out)
{
    conversion c = {.precision = -1};
    foci_value value = foci_missing();
    if (*at < end && **at == '(') FOCAL_TRY(read_name(run, from, at, end, &value));
    for (; *at < end && **at && strchr("-+ 0#", **at); (*at)++) {
        c.left |= **at == '-';
        c.plus |= **at == '+';
        c.blank |= **at == ' ';
        c.zero |= **at == '0';
        c.alternate |= **at == '#';
    }
    FOCAL_TRY(read_size(run, from, at, end, &c.width));
    if (*at < end && **at == '.') {
        (*at)++;
        FOCAL_TRY(read_size(run, from, at, end, &c.precision));
    }
    while (*at < end && **at && strchr("hlL", **at)) (*at)++; /* Python reads over C's sizes */
    if (*at == end) return foci_run_fail(run, "a %% pattern ends in the middle");
    c.type = *(*at)++;
    if ((unsigned char)c.type < ' ' || (unsigned char)c.type > '~')
        return foci_run_fail(run, "a %% pattern with no letter");
    if (c.type == '%') return foci_builder_add(out, "%", 1);
    if (value.kind == FOCI_V_MISSING) FOCAL_TRY(next_value(run, from, &value));
    return put_conversion(run, &c, value, out);
}

focal_status foci_format_percent(foci_run *run, foci_chars format, foci_value args, foci_value *out)
{
    foci_builder text = {.store = &run->store};
    source from = {.all = args, .items = &args, .count = 1};
    const char *at = format.data, *end = at + format.bytes;
    if (args.kind == FOCI_V_TUPLE) {
        from.items = args.as.list.items;
        from.count = args.as.list.count;
    }
    while (at < end) {
        const char *mark = memchr(at, '%', (size_t)(end - at));
        const char *stop = mark ? mark : end;
        FOCAL_TRY(foci_run_charge(run, stop - at));
        FOCAL_TRY(foci_builder_add(&text, at, (size_t)(stop - at)));
        at = stop;
        if (!mark) break;
        at++;
        FOCAL_TRY(put_next(run, &from, &at, end, &text));
    }
    /* A single value that a pattern does not use is an error, unless it has names to offer. */
    const bool may_stay = from.is_named || args.kind == FOCI_V_DICT || args.kind == FOCI_V_LIST ||
                          args.kind == FOCI_V_UNDEFINED || args.kind == FOCI_V_RANGE;
    if (from.next < from.count && !may_stay)
        return foci_run_fail(run, "too many values for a %% pattern");
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}

/* The value that {}, {0} or {name} asks for. */
static focal_status braces_value(foci_run *run, const foci_arguments *args, foci_chars field,
                                 int32_t *next, foci_value *out)
{
    int64_t index = 0;
    if (field.bytes == 0)
        index = (*next)++;
    else if (!foci_read_int(field, 10, &index)) {
        for (int32_t n = 0; n < args->keyword_count; n++) {
            if (!foci_chars_equal(args->keywords[n].name, field)) continue;
            *out = args->keywords[n].value;
            return FOCAL_OK;
        }
        index = -1;
    }
    if (index < 0 || index >= args->count)
        return foci_run_fail(run, "format() has no value for '{%.*s}', or it is not supported",
                             field.bytes < 80 ? (int)field.bytes : 80, field.data);
    *out = args->items[index];
    return FOCAL_OK;
}

focal_status foci_format_braces(foci_run *run, foci_chars format, const foci_arguments *args,
                                foci_value *out)
{
    foci_builder text = {.store = &run->store};
    const char *at = format.data, *end = at + format.bytes;
    int32_t next = 0;
    FOCAL_TRY(foci_run_charge(run, (int64_t)format.bytes));
    while (at < end) {
        const char c = *at++;
        if (c != '{' && c != '}') {
            FOCAL_TRY(foci_builder_add(&text, &c, 1));
            continue;
        }
        if (at < end && *at == c) {
            FOCAL_TRY(foci_builder_add(&text, at++, 1));
            continue;
        }
        const char *close = c == '{' && at < end ? memchr(at, '}', (size_t)(end - at)) : NULL;
        if (!close) return foci_run_fail(run, "a brace of a format() stands alone");
        foci_value value = foci_none();
        FOCAL_TRY(braces_value(run, args, (foci_chars){at, (size_t)(close - at)}, &next, &value));
        FOCAL_TRY(foci_print(run, value, &text));
        at = close + 1;
    }
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}
