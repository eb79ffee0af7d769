/* Truth, equality, order and membership, as Python defines them. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* Recursion here is bounded (values inside each other): foci_run_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

bool foci_truth(foci_value value)
{
    switch ((foci_kind)value.kind) {
    case FOCI_V_MISSING:
    case FOCI_V_UNDEFINED:
    case FOCI_V_NONE:
        return false;
    case FOCI_V_BOOL:
        return value.as.truth;
    case FOCI_V_INT:
        return value.as.number != 0;
    case FOCI_V_FLOAT:
        return value.as.real != 0.0;
    case FOCI_V_STRING:
        return value.as.text.bytes > 0;
    case FOCI_V_LIST:
    case FOCI_V_TUPLE:
        return value.as.list.count > 0;
    case FOCI_V_RANGE:
        return value.as.range->count > 0;
    case FOCI_V_DICT:
        return value.as.dict->count > 0;
    case FOCI_V_SERIES:
        return value.as.series->kind == FOCI_SERIES_ONCE || value.as.series->count > 0;
    case FOCI_V_NAMESPACE:
    case FOCI_V_LOOP:
    case FOCI_V_MACRO:
    case FOCI_V_FUNCTION:
    case FOCI_V_METHOD:
        break;
    }
    return true;
}

static int number_order(foci_value a, foci_value b)
{
    if (a.kind != FOCI_V_FLOAT && b.kind != FOCI_V_FLOAT) {
        const int64_t x = foci_as_int(a), y = foci_as_int(b);
        return (x > y) - (x < y);
    }
    /* long double holds every int64_t where it is wider than double; elsewhere the largest ones
     * round. */
    const long double x =
        a.kind == FOCI_V_FLOAT ? (long double)a.as.real : (long double)foci_as_int(a);
    const long double y =
        b.kind == FOCI_V_FLOAT ? (long double)b.as.real : (long double)foci_as_int(b);
    return (x > y) - (x < y);
}

static bool is_nan(foci_value value)
{
    return value.kind == FOCI_V_FLOAT && isnan(value.as.real);
}

static focal_status lists_equal(foci_run *run, foci_value a, foci_value b, bool *equal)
{
    *equal = a.as.list.count == b.as.list.count;
    for (int64_t n = 0; n < a.as.list.count && *equal; n++)
        FOCAL_TRY(foci_equal(run, a.as.list.items[n], b.as.list.items[n], equal));
    return FOCAL_OK;
}

static focal_status dicts_equal(foci_run *run, const foci_dict *a, const foci_dict *b, bool *equal)
{
    *equal = a->count == b->count;
    for (int64_t n = 0; n < a->count && *equal; n++) {
        foci_entry *other;
        FOCAL_TRY(foci_dict_look(run, b, a->entries[n].key, &other));
        *equal = other != NULL;
        if (other) FOCAL_TRY(foci_equal(run, a->entries[n].value, other->value, equal));
    }
    return FOCAL_OK;
}

/* Of one kind, that has no parts. */
static bool same_object(foci_value a, foci_value b)
{
    switch ((foci_kind)a.kind) {
    case FOCI_V_RANGE:
        return a.as.range->count == b.as.range->count &&
               (a.as.range->count == 0 || a.as.range->start == b.as.range->start) &&
               (a.as.range->count < 2 || a.as.range->step == b.as.range->step);
    case FOCI_V_SERIES:
        return a.as.series == b.as.series;
    case FOCI_V_NAMESPACE:
        return a.as.dict == b.as.dict;
    case FOCI_V_LOOP:
        return a.as.loop == b.as.loop;
    case FOCI_V_MACRO:
        return a.as.macro == b.as.macro;
    case FOCI_V_FUNCTION:
        return a.as.function == b.as.function;
    case FOCI_V_METHOD:
        return a.as.method == b.as.method;
    default:
        return true; /* undefined, none */
    }
}

focal_status foci_equal(foci_run *run, foci_value a, foci_value b, bool *equal)
{
    *equal = false;
    FOCAL_TRY(foci_run_charge(run, 0));
    if (foci_is_number(a) && foci_is_number(b)) {
        *equal = !is_nan(a) && !is_nan(b) && number_order(a, b) == 0;
        return FOCAL_OK;
    }
    if (a.kind != b.kind) return FOCAL_OK;
    if (a.kind == FOCI_V_STRING) {
        FOCAL_TRY(foci_run_charge(run, (int64_t)a.as.text.bytes));
        *equal = foci_chars_equal(a.as.text, b.as.text);
        return FOCAL_OK;
    }
    if (!foci_is_list(a) && a.kind != FOCI_V_DICT) {
        *equal = same_object(a, b);
        return FOCAL_OK;
    }
    FOCAL_TRY(foci_run_enter(run));
    FOCAL_TRY(a.kind == FOCI_V_DICT ? dicts_equal(run, a.as.dict, b.as.dict, equal)
                                    : lists_equal(run, a, b, equal));
    run->depth--;
    return FOCAL_OK;
}

static int text_order(foci_chars a, foci_chars b)
{
    const size_t bytes = a.bytes < b.bytes ? a.bytes : b.bytes;
    const int order = bytes ? memcmp(a.data, b.data, bytes) : 0;
    return order ? order : (a.bytes > b.bytes) - (a.bytes < b.bytes);
}

focal_status foci_order(foci_run *run, foci_value a, foci_value b, const char *op, int *order)
{
    FOCAL_TRY(foci_run_charge(run, 0));
    if (a.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, a);
    if (b.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, b);
    if (foci_is_number(a) && foci_is_number(b)) {
        *order = number_order(a, b);
        return FOCAL_OK;
    }
    if (a.kind == FOCI_V_STRING && b.kind == FOCI_V_STRING) {
        FOCAL_TRY(foci_run_charge(run, (int64_t)a.as.text.bytes));
        *order = text_order(a.as.text, b.as.text); /* bytes of UTF-8 sort as code points do */
        return FOCAL_OK;
    }
    if (a.kind != b.kind || !foci_is_list(a))
        return foci_run_fail(run, "'%s' is not there between a %s and a %s", op,
                             foci_kind_name(a.kind), foci_kind_name(b.kind));
    FOCAL_TRY(foci_run_enter(run));
    const int64_t count = foci_min64(a.as.list.count, b.as.list.count);
    *order = (a.as.list.count > b.as.list.count) - (a.as.list.count < b.as.list.count);
    for (int64_t n = 0; n < count; n++) {
        bool equal;
        FOCAL_TRY(foci_equal(run, a.as.list.items[n], b.as.list.items[n], &equal));
        if (equal) continue;
        FOCAL_TRY(foci_order(run, a.as.list.items[n], b.as.list.items[n], op, order));
        break;
    }
    run->depth--;
    return FOCAL_OK;
}

static focal_status hash_check(foci_run *run, foci_value key)
{
    if (key.kind == FOCI_V_LIST || key.kind == FOCI_V_DICT)
        return foci_run_fail(run, "a %s cannot be a key", foci_kind_name(key.kind));
    if (key.kind != FOCI_V_TUPLE) return FOCAL_OK;
    FOCAL_TRY(foci_run_enter(run));
    for (int64_t n = 0; n < key.as.list.count; n++)
        FOCAL_TRY(hash_check(run, key.as.list.items[n]));
    run->depth--;
    return FOCAL_OK;
}

focal_status foci_dict_look(foci_run *run, const foci_dict *dict, foci_value key,
                            foci_entry **entry)
{
    *entry = NULL;
    FOCAL_TRY(hash_check(run, key));
    FOCAL_TRY(foci_run_charge(run, dict->count));
    if (key.kind == FOCI_V_STRING) {
        *entry = foci_dict_find(dict, key.as.text);
        return FOCAL_OK;
    }
    for (int64_t n = 0; n < dict->count; n++) {
        bool equal;
        FOCAL_TRY(foci_equal(run, dict->entries[n].key, key, &equal));
        if (!equal) continue;
        *entry = &dict->entries[n];
        break;
    }
    return FOCAL_OK;
}

focal_status foci_dict_set(foci_run *run, foci_dict *dict, foci_value key, foci_value value)
{
    foci_entry *entry;
    FOCAL_TRY(foci_dict_look(run, dict, key, &entry));
    if (!entry) return foci_dict_add(&run->store, dict, key, value);
    entry->value = value;
    return FOCAL_OK;
}

focal_status foci_contains(foci_run *run, foci_value container, foci_value item, bool *found)
{
    *found = false;
    if (container.kind == FOCI_V_STRING) {
        if (item.kind != FOCI_V_STRING)
            return foci_run_fail(run, "'in' a str looks for a str, not for a %s",
                                 foci_kind_name(item.kind));
        const foci_chars text = container.as.text, part = item.as.text;
        FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
        *found = part.bytes == 0 ||
                 (text.bytes > 0 && memmem(text.data, text.bytes, part.data, part.bytes) != NULL);
        return FOCAL_OK;
    }
    if (container.kind == FOCI_V_DICT) {
        foci_entry *entry;
        FOCAL_TRY(foci_dict_look(run, container.as.dict, item, &entry));
        *found = entry != NULL;
        return FOCAL_OK;
    }
    const foci_value *items;
    int64_t count;
    FOCAL_TRY(foci_items(run, container, &items, &count));
    for (int64_t n = 0; n < count && !*found; n++)
        FOCAL_TRY(foci_equal(run, items[n], item, found));
    return FOCAL_OK;
}

focal_status foci_compare(foci_run *run, int32_t op, foci_value a, foci_value b, bool *result)
{
    int order = 0;
    const char text[] = {(char)(op & 0xFF), (char)(op >> 8), '\0'};
    switch (op) {
    case 'i':
        return foci_contains(run, b, a, result);
    case 'n':
        FOCAL_TRY(foci_contains(run, b, a, result));
        *result = !*result;
        return FOCAL_OK;
    case FOCI_OP('=', '='):
        return foci_equal(run, a, b, result);
    case FOCI_OP('!', '='):
        FOCAL_TRY(foci_equal(run, a, b, result));
        *result = !*result;
        return FOCAL_OK;
    default:
        break;
    }
    FOCAL_TRY(foci_order(run, a, b, text, &order));
    if (is_nan(a) || is_nan(b))
        *result = false;
    else if (op & 0xFF00)
        *result = (op & 0xFF) == '<' ? order <= 0 : order >= 0;
    else
        *result = op == '<' ? order < 0 : order > 0;
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
