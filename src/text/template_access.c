/* Parts of values: attributes, elements, all items. */
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_run.h"

/* Recursion here is bounded (conditions of loops that ask for their own items): foci_run_enter()
 * counts the depth. NOLINTBEGIN(misc-no-recursion) */

static foci_value undefined_part(foci_value object, foci_chars name, foci_undefined how)
{
    return (foci_value){
        .kind = FOCI_V_UNDEFINED, .how = (uint8_t)how, .of = object.kind, .as.text = name};
}

static focal_status loop_attribute(foci_run *run, foci_loop *loop, foci_chars name, foci_value *out)
{
    const int64_t index = loop->index;
    const foci_value *items = loop->node->c ? loop->taken : loop->items;
    if (foci_chars_is(name, "index")) {
        *out = foci_int(index + 1);
    } else if (foci_chars_is(name, "index0")) {
        *out = foci_int(index);
    } else if (foci_chars_is(name, "first")) {
        *out = foci_bool(index == 0);
    } else if (foci_chars_is(name, "depth") || foci_chars_is(name, "depth0")) {
        *out = foci_int(name.bytes == 5); /* loops are never recursive here */
    } else if (foci_chars_is(name, "previtem")) {
        *out = index > 0 ? items[index - 1] : foci_undefined_hint("there is no previous item");
    } else if (foci_chars_is(name, "last") || foci_chars_is(name, "nextitem")) {
        FOCAL_TRY(foci_loop_take(run, loop, index + 2));
        const bool is_last = index + 1 >= loop->taken_count;
        if (name.bytes == 4)
            *out = foci_bool(is_last);
        else
            *out = is_last ? foci_undefined_hint("there is no next item") : items[index + 1];
    } else {
        FOCAL_TRY(foci_loop_take(run, loop, loop->item_count));
        const int64_t length = loop->taken_count;
        *out = foci_int(foci_chars_is(name, "length")     ? length
                        : foci_chars_is(name, "revindex") ? length - index
                                                          : length - index - 1);
    }
    return FOCAL_OK;
}

static bool is_loop_attribute(foci_chars name)
{
    static const char *const names[] = {"index",    "index0",   "first",     "last",
                                        "length",   "revindex", "revindex0", "previtem",
                                        "nextitem", "depth",    "depth0"};
    for (size_t n = 0; n < FOCAL_COUNT(names); n++)
        if (foci_chars_is(name, names[n])) return true;
    return false;
}

/* What getattr() finds before any element is asked for. */
static focal_status own_attribute(foci_run *run, foci_value object, foci_chars name,
                                  foci_value *out, bool *found)
{
    *found = true;
    if (object.kind == FOCI_V_NAMESPACE) {
        FOCAL_TRY(foci_run_charge(run, object.as.dict->count));
        const foci_entry *entry = foci_dict_find(object.as.dict, name);
        *found = entry != NULL;
        if (entry) *out = entry->value;
        return FOCAL_OK;
    }
    if (object.kind == FOCI_V_LOOP && is_loop_attribute(name))
        return loop_attribute(run, object.as.loop, name, out);
    if (foci_method_changes(object.kind, name) ||
        (name.bytes > 1 && memcmp(name.data, "__", 2) == 0)) {
        *out = undefined_part(object, name, FOCI_UNDEFINED_UNSAFE);
        return FOCAL_OK;
    }
    const foci_builtin *builtin = foci_container_method(object.kind, name);
    *found = builtin != NULL;
    if (!builtin) return FOCAL_OK;
    foci_method *method = foci_store_alloc(&run->store, 1, sizeof *method);
    if (!method) return foci_store_failed(&run->store);
    *method = (foci_method){builtin, object};
    *out = (foci_value){.kind = FOCI_V_METHOD, .as.method = method};
    return FOCAL_OK;
}

focal_status foci_attribute(foci_run *run, foci_value object, foci_chars name, foci_value *out)
{
    bool found;
    if (object.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, object);
    FOCAL_TRY(own_attribute(run, object, name, out, &found));
    if (found) return FOCAL_OK;
    *out = undefined_part(object, name, FOCI_UNDEFINED_ATTRIBUTE);
    if (object.kind != FOCI_V_DICT) return FOCAL_OK;
    FOCAL_TRY(foci_run_charge(run, object.as.dict->count));
    const foci_entry *entry = foci_dict_find(object.as.dict, name);
    if (entry) *out = entry->value;
    return FOCAL_OK;
}

/* One character. */
static focal_status text_item(foci_run *run, foci_chars text, int64_t index, foci_value *out)
{
    FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
    if (index < 0) index += foci_char_count(text);
    const size_t at = index < 0 ? text.bytes : foci_char_offset(text, index);
    if (at >= text.bytes) return FOCAL_OK;
    const char *end = text.data + at;
    (void)foci_char_next(&end);
    *out = foci_string((foci_chars){text.data + at, (size_t)(end - text.data) - at});
    return FOCAL_OK;
}

static focal_status number_item(foci_run *run, foci_value object, int64_t index, foci_value *out)
{
    if (object.kind == FOCI_V_STRING) return text_item(run, object.as.text, index, out);
    const bool is_range = object.kind == FOCI_V_RANGE;
    if (!is_range && !foci_is_list(object)) return FOCAL_OK;
    const int64_t count = is_range ? object.as.range->count : object.as.list.count;
    if (index < 0) index += count;
    if (index < 0 || index >= count) return FOCAL_OK;
    *out = is_range ? foci_range_at(object.as.range, index) : object.as.list.items[index];
    return FOCAL_OK;
}

focal_status foci_item(foci_run *run, foci_value object, foci_value key, foci_value *out)
{
    if (object.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, object);
    const foci_chars name = key.kind == FOCI_V_STRING ? key.as.text : foci_chars_of("[...]");
    *out = undefined_part(object, name, FOCI_UNDEFINED_ATTRIBUTE);
    if (object.kind == FOCI_V_DICT) {
        foci_entry *entry = NULL;
        /* A list as key is no key: not there, as jinja2 has it. */
        const bool is_key = key.kind != FOCI_V_LIST && key.kind != FOCI_V_DICT;
        if (is_key) FOCAL_TRY(foci_dict_look(run, object.as.dict, key, &entry));
        if (entry) {
            *out = entry->value;
            return FOCAL_OK;
        }
    } else if (key.kind == FOCI_V_INT || key.kind == FOCI_V_BOOL) {
        return number_item(run, object, foci_as_int(key), out);
    }
    if (key.kind != FOCI_V_STRING) return FOCAL_OK;
    bool found;
    foci_value attribute;
    FOCAL_TRY(own_attribute(run, object, key.as.text, &attribute, &found));
    if (found) *out = attribute;
    return FOCAL_OK;
}

focal_status foci_path(foci_run *run, foci_value object, foci_value path, foci_value *out)
{
    *out = object;
    if (path.kind == FOCI_V_NONE || path.kind == FOCI_V_MISSING) return FOCAL_OK;
    if (path.kind != FOCI_V_STRING) return foci_item(run, object, path, out);
    const char *at = path.as.text.data, *end = at + path.as.text.bytes;
    for (;;) {
        const char *dot = at < end ? memchr(at, '.', (size_t)(end - at)) : NULL;
        const foci_chars part = {at, (size_t)((dot ? dot : end) - at)};
        size_t digits = 0;
        while (digits < part.bytes && foci_char_is_digit((unsigned char)part.data[digits]))
            digits++;
        int64_t number;
        foci_value key = foci_string(part);
        if (part.bytes && digits == part.bytes && foci_read_int(part, 10, &number))
            key = foci_int(number);
        FOCAL_TRY(foci_item(run, *out, key, out));
        if (!dot) return FOCAL_OK;
        at = dot + 1;
    }
}

static focal_status text_items(foci_run *run, foci_chars text, foci_value *items, int64_t count)
{
    const char *at = text.data;
    FOCAL_TRY(foci_run_charge(run, (int64_t)text.bytes));
    for (int64_t n = 0; n < count; n++) {
        const char *begin = at;
        (void)foci_char_next(&at);
        items[n] = foci_string((foci_chars){begin, (size_t)(at - begin)});
    }
    return FOCAL_OK;
}

/* Items that must be made: of a string, a range, a dict. */
static focal_status make_items(foci_run *run, foci_value value, const foci_value **items,
                               int64_t *count)
{
    *count = value.kind == FOCI_V_STRING  ? foci_char_count(value.as.text)
             : value.kind == FOCI_V_RANGE ? value.as.range->count
                                          : value.as.dict->count;
    FOCAL_TRY(foci_run_charge(run, *count));
    foci_value *made = foci_store_alloc(&run->store, (size_t)*count, sizeof *made);
    if (!made) return foci_store_failed(&run->store);
    *items = made;
    if (value.kind == FOCI_V_STRING) return text_items(run, value.as.text, made, *count);
    for (int64_t n = 0; n < *count; n++)
        made[n] = value.kind == FOCI_V_RANGE ? foci_range_at(value.as.range, n)
                                             : value.as.dict->entries[n].key;
    return FOCAL_OK;
}

focal_status foci_items(foci_run *run, foci_value value, const foci_value **items, int64_t *count)
{
    *items = NULL;
    *count = 0;
    switch (value.kind) {
    case FOCI_V_UNDEFINED:
        return FOCAL_OK;
    case FOCI_V_LIST:
    case FOCI_V_TUPLE:
        *items = value.as.list.items;
        *count = value.as.list.count;
        return foci_run_charge(run, *count);
    case FOCI_V_STRING:
    case FOCI_V_RANGE:
    case FOCI_V_DICT:
        return make_items(run, value, items, count);
    case FOCI_V_SERIES:
        *items = value.as.series->items;
        *count = value.as.series->is_spent ? 0 : value.as.series->count;
        value.as.series->is_spent = value.as.series->kind == FOCI_SERIES_ONCE;
        return foci_run_charge(run, *count);
    default:
        break;
    }
    return foci_run_fail(run, "a %s has no items to go through", foci_kind_name(value.kind));
}

focal_status foci_length(foci_run *run, foci_value value, int64_t *length)
{
    *length = 0;
    switch (value.kind) {
    case FOCI_V_UNDEFINED:
        return FOCAL_OK;
    case FOCI_V_STRING:
        FOCAL_TRY(foci_run_charge(run, (int64_t)value.as.text.bytes));
        *length = foci_char_count(value.as.text);
        return FOCAL_OK;
    case FOCI_V_LIST:
    case FOCI_V_TUPLE:
        *length = value.as.list.count;
        return FOCAL_OK;
    case FOCI_V_RANGE:
        *length = value.as.range->count;
        return FOCAL_OK;
    case FOCI_V_DICT:
        *length = value.as.dict->count;
        return FOCAL_OK;
    case FOCI_V_LOOP: {
        foci_value count;
        FOCAL_TRY(loop_attribute(run, value.as.loop, foci_chars_of("length"), &count));
        *length = count.as.number;
        return FOCAL_OK;
    }
    case FOCI_V_SERIES:
        *length = value.as.series->count;
        if (value.as.series->kind != FOCI_SERIES_ONCE) return FOCAL_OK;
        break;
    default:
        break;
    }
    return foci_run_fail(run, "a %s has no length", foci_kind_name(value.kind));
}

/* NOLINTEND(misc-no-recursion) */
