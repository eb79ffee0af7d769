/* Values of run files: from text to the field that a key names and back, and what a key accepts. */
#include "train/run_value.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/sizes.h"

enum { SHOWN = 64, NUMBER_BYTES = 64, DIGITS_MOST = 17, COMPARED = 64 };

static void *field_of(foci_run *run, const foci_run_key *key)
{
    return (char *)run + key->offset;
}

static const void *const_field_of(const foci_run *run, const foci_run_key *key)
{
    return (const char *)run + key->offset;
}

void foci_run_accepts(const foci_run_key *key, char out[FOCI_RUN_TEXT])
{
    switch (key->type) {
    case FOCI_RUN_INT:
        (void)snprintf(out, FOCI_RUN_TEXT, "integer, %.0f to %.0f", key->least, key->most);
        break;
    case FOCI_RUN_REAL:
        (void)snprintf(out, FOCI_RUN_TEXT, "number, %.10g to %.10g", key->least, key->most);
        break;
    case FOCI_RUN_BOOL:
        (void)snprintf(out, FOCI_RUN_TEXT, "true or false");
        break;
    case FOCI_RUN_CHOICE:
        out[0] = '\0';
        for (const char *at = key->choices; *at; at += strcspn(at, "|"), at += *at == '|') {
            const size_t used = strlen(out);
            (void)snprintf(out + used, FOCI_RUN_TEXT - used, "%s%.*s", used > 0 ? ", " : "",
                           (int)strcspn(at, "|"), at);
        }
        break;
    case FOCI_RUN_STRING:
        (void)snprintf(out, FOCI_RUN_TEXT, "text, up to %d bytes", FOCI_RUN_TEXT - 1);
        break;
    case FOCI_RUN_INTS:
        (void)snprintf(out, FOCI_RUN_TEXT,
                       "all, or up to %d ascending integers, %.0f to %.0f, as in 0,2,5-7",
                       FOCI_RUN_LIST, key->least, key->most);
        break;
    }
}

void foci_run_help(const foci_run_key *key, char out[FOCI_RUN_VALUE])
{
    char accepts[FOCI_RUN_TEXT];
    foci_run_accepts(key, accepts);
    (void)snprintf(out, FOCI_RUN_VALUE, "%s = %s\n    %s (%s)\n", key->name, key->initial,
                   key->about, accepts);
}

/* What is wrong with a value of the wrong kind. */
static bool refuse(const foci_run_key *key, foci_text text, char problem[FOCI_RUN_PROBLEM])
{
    char accepts[FOCI_RUN_TEXT];
    foci_run_accepts(key, accepts);
    (void)snprintf(problem, FOCI_RUN_PROBLEM, "'%s' is '%.*s', accepted: %.200s", key->name,
                   (int)(text.bytes < SHOWN ? text.bytes : SHOWN), text.bytes > 0 ? text.data : "",
                   accepts);
    return false;
}

static bool read_int(foci_text text, int64_t *out)
{
    const bool is_negative = text.bytes > 0 && text.data[0] == '-';
    const size_t first = is_negative ? 1 : 0;
    if (text.bytes <= first || text.bytes > first + DIGITS_MOST) return false;
    int64_t value = 0;
    for (size_t n = first; n < text.bytes; n++) {
        if (text.data[n] < '0' || text.data[n] > '9') return false;
        value = 10 * value + (text.data[n] - '0');
    }
    *out = is_negative ? -value : value;
    return true;
}

/* Decimal digits with point and exponent: neither hexadecimal nor words, which strtod takes too. */
static bool read_real(foci_text text, double *out)
{
    char copy[NUMBER_BYTES];
    if (text.bytes == 0 || text.bytes >= sizeof copy) return false;
    memcpy(copy, text.data, text.bytes);
    copy[text.bytes] = '\0';
    if (strspn(copy, "0123456789.eE+-") != text.bytes) return false;
    char *end = NULL;
    *out = strtod(copy, &end);
    return end == copy + text.bytes && *out - *out == 0.0;
}

static bool read_choice(const foci_run_key *key, foci_text text, int64_t *out)
{
    int64_t index = 0;
    for (const char *at = key->choices;; at++, index++) {
        const size_t length = strcspn(at, "|");
        if (foci_text_equal((foci_text){at, length}, text)) {
            *out = index;
            return true;
        }
        at += length;
        if (!*at) return false;
    }
}

/* What stands behind a backslash for another character; NUL: nothing. */
static char escaped(char c)
{
    switch (c) {
    case 'n':
        return '\n';
    case 't':
        return '\t';
    case '"':
    case '\\':
        return c;
    default:
        return '\0';
    }
}

/* As it stands, or between quotes with \" \\ \n and \t. */
static bool read_string(foci_text text, char out[FOCI_RUN_TEXT])
{
    const bool is_quoted = text.bytes > 0 && text.data[0] == '"';
    if (is_quoted && (text.bytes < 2 || text.data[text.bytes - 1] != '"')) return false;
    const size_t end = is_quoted ? text.bytes - 1 : text.bytes;
    size_t length = 0;
    for (size_t n = is_quoted; n < end; n++) {
        char c = text.data[n];
        if (is_quoted && c == '"') return false; /* behind it stands more */
        if (is_quoted && c == '\\') {
            if (++n == end) return false; /* the last quote was escaped */
            c = escaped(text.data[n]);
            if (c == '\0') return false;
        }
        if (length == FOCI_RUN_TEXT - 1) return false;
        out[length++] = c;
    }
    memset(out + length, 0, FOCI_RUN_TEXT - length); /* equal runs are equal in every byte */
    return true;
}

/* "all", or numbers and ranges between commas. */
static bool read_list(const foci_run_key *key, foci_text text, foci_run_list *out)
{
    foci_run_list list = {0};
    if (!foci_text_equal(text, foci_text_of("all"))) {
        int64_t last = -1;
        for (size_t begin = 0, end = 0; begin <= text.bytes; begin = end + 1) {
            const char *from = text.data + begin;
            const char *comma = text.bytes > begin ? memchr(from, ',', text.bytes - begin) : NULL;
            end = comma ? (size_t)(comma - text.data) : text.bytes;
            const char *dash = end > begin ? memchr(from, '-', end - begin) : NULL;
            const size_t first_bytes = dash ? (size_t)(dash - from) : end - begin;
            int64_t low = 0, high = 0;
            if (!read_int((foci_text){from, first_bytes}, &low)) return false;
            high = low;
            if (dash && !read_int((foci_text){dash + 1, end - begin - first_bytes - 1}, &high))
                return false;
            if (low <= last || high < low || (double)low < key->least || (double)high > key->most ||
                high - low >= FOCI_RUN_LIST - list.count)
                return false;
            for (int64_t n = low; n <= high; n++) list.values[list.count++] = n;
            last = high;
        }
    }
    *out = list;
    return true;
}

bool foci_run_value_read(const foci_run_key *key, foci_text text, foci_run *run,
                         char problem[FOCI_RUN_PROBLEM])
{
    void *field = field_of(run, key);
    int64_t integer = 0;
    double real = 0.0;
    bool is_fine = false;
    switch (key->type) {
    case FOCI_RUN_INT:
        is_fine = read_int(text, &integer) && (double)integer >= key->least &&
                  (double)integer <= key->most;
        if (is_fine) *(int64_t *)field = integer;
        break;
    case FOCI_RUN_REAL:
        is_fine = read_real(text, &real) && real >= key->least && real <= key->most;
        if (is_fine) *(double *)field = real;
        break;
    case FOCI_RUN_BOOL:
        *(bool *)field = foci_text_equal(text, foci_text_of("true"));
        is_fine = *(bool *)field || foci_text_equal(text, foci_text_of("false"));
        break;
    case FOCI_RUN_CHOICE:
        is_fine = read_choice(key, text, field);
        break;
    case FOCI_RUN_STRING:
        is_fine = read_string(text, field);
        break;
    case FOCI_RUN_INTS:
        is_fine = read_list(key, text, field);
        break;
    }
    return is_fine || refuse(key, text, problem);
}

/* The fewest digits that are this number. */
static void print_real(double value, char *out, size_t room)
{
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(out, room, "%.*g", digits, value);
        if (strtod(out, NULL) == value) return;
    }
}

static void print_string(const char *text, char *out)
{
    *out++ = '"';
    for (; *text; text++) {
        char c = *text;
        if (c == '"' || c == '\\' || c == '\n' || c == '\t') *out++ = '\\';
        if (c == '\n') c = 'n';
        if (c == '\t') c = 't';
        *out++ = c;
    }
    *out++ = '"';
    *out = '\0';
}

static void print_list(const foci_run_list *list, char *out, size_t room)
{
    (void)snprintf(out, room, "all");
    for (int64_t n = 0, used = 0; n < list->count && used < (int64_t)room; n++)
        used += snprintf(out + used, room - (size_t)used, "%s%" PRId64, n > 0 ? "," : "",
                         list->values[n]);
}

void foci_run_value(const foci_run *run, int n, char out[FOCI_RUN_VALUE])
{
    const foci_run_key *key = &foci_run_keys[n];
    const void *field = const_field_of(run, key);
    const char *at = key->choices;
    switch (key->type) {
    case FOCI_RUN_INT:
        (void)snprintf(out, FOCI_RUN_VALUE, "%" PRId64, *(const int64_t *)field);
        break;
    case FOCI_RUN_REAL:
        print_real(*(const double *)field, out, FOCI_RUN_VALUE);
        break;
    case FOCI_RUN_BOOL:
        (void)snprintf(out, FOCI_RUN_VALUE, "%s", *(const bool *)field ? "true" : "false");
        break;
    case FOCI_RUN_CHOICE:
        for (int64_t skip = *(const int64_t *)field; skip > 0; skip--) at = strchr(at, '|') + 1;
        (void)snprintf(out, FOCI_RUN_VALUE, "%.*s", (int)strcspn(at, "|"), at);
        break;
    case FOCI_RUN_STRING:
        print_string(field, out);
        break;
    case FOCI_RUN_INTS:
        print_list(field, out, FOCI_RUN_VALUE);
        break;
    }
}

int foci_run_find(foci_text name)
{
    for (int n = 0; n < FOCI_RUN_KEYS; n++)
        if (foci_text_equal(name, foci_text_of(foci_run_keys[n].name))) return n;
    return -1;
}

/* Letters to put in, take out or change to make one of the other (Levenshtein). */
int foci_run_distance(foci_text a, foci_text b)
{
    int row[COMPARED + 1];
    const int64_t a_bytes = foci_min64((int64_t)a.bytes, COMPARED);
    const int64_t b_bytes = foci_min64((int64_t)b.bytes, COMPARED);
    for (int64_t j = 0; j <= b_bytes; j++) row[j] = (int)j;
    for (int64_t i = 0; i < a_bytes; i++) {
        int corner = row[0];
        row[0] = (int)i + 1;
        for (int64_t j = 0; j < b_bytes; j++) {
            const int change = corner + (a.data[i] != b.data[j]);
            corner = row[j + 1];
            const int shorter = (row[j] < row[j + 1] ? row[j] : row[j + 1]) + 1;
            row[j + 1] = change < shorter ? change : shorter;
        }
    }
    return row[b_bytes];
}

bool foci_run_is_given(const foci_run *run, const char *name)
{
    return run->is_given[foci_run_find(foci_text_of(name))];
}

bool foci_run_is_default(const foci_run *run, int n)
{
    char value[FOCI_RUN_VALUE], initial[FOCI_RUN_VALUE];
    foci_run defaults;
    foci_run_init(&defaults);
    foci_run_value(run, n, value);
    foci_run_value(&defaults, n, initial);
    return strcmp(value, initial) == 0;
}

int foci_run_nearest(foci_text name)
{
    const bool has_dot = name.bytes > 0 && memchr(name.data, '.', name.bytes);
    int best = 0, least = 2 * COMPARED;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        const char *dot = strchr(foci_run_keys[n].name, '.');
        int distance = foci_run_distance(name, foci_text_of(foci_run_keys[n].name));
        if (dot && !has_dot) { /* who leaves the first word out means what stands behind it */
            const int behind = foci_run_distance(name, foci_text_of(dot + 1)) + 1;
            distance = behind < distance ? behind : distance;
        }
        if (distance < least) {
            least = distance;
            best = n;
        }
    }
    return best;
}
