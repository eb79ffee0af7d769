/* Builders of values, and what one can ask of a value without running anything. */
#include "text/template_value.h"

#include <string.h>

#include "base/error.h"

foci_value foci_none(void)
{
    return (foci_value){.kind = FOCI_V_NONE};
}

foci_value foci_missing(void)
{
    return (foci_value){.kind = FOCI_V_MISSING};
}

foci_value foci_bool(bool truth)
{
    return (foci_value){.kind = FOCI_V_BOOL, .as.truth = truth};
}

foci_value foci_int(int64_t number)
{
    return (foci_value){.kind = FOCI_V_INT, .as.number = number};
}

foci_value foci_float(double real)
{
    return (foci_value){.kind = FOCI_V_FLOAT, .as.real = real};
}

foci_value foci_string(foci_chars text)
{
    return (foci_value){.kind = FOCI_V_STRING, .as.text = text};
}

foci_value foci_list(const foci_value *items, int64_t count)
{
    return (foci_value){.kind = FOCI_V_LIST, .as.list = {items, count}};
}

foci_value foci_undefined_hint(const char *hint)
{
    return (foci_value){
        .kind = FOCI_V_UNDEFINED, .how = FOCI_UNDEFINED_HINT, .as.text = foci_chars_of(hint)};
}

foci_dict *foci_dict_new(foci_store *store)
{
    foci_dict *dict = foci_store_alloc(store, 1, sizeof *dict);
    if (dict) *dict = (foci_dict){0};
    return dict;
}

focal_status foci_dict_add(foci_store *store, foci_dict *dict, foci_value key, foci_value value)
{
    if (dict->count == dict->room) {
        const int64_t room = dict->room ? 2 * dict->room : 4;
        foci_entry *entries = foci_store_alloc(store, (size_t)room, sizeof *entries);
        if (!entries) return foci_store_failed(store);
        if (dict->count) memcpy(entries, dict->entries, (size_t)dict->count * sizeof *entries);
        dict->entries = entries;
        dict->room = room;
    }
    dict->entries[dict->count++] = (foci_entry){key, value};
    return FOCAL_OK;
}

focal_status foci_dict_put(foci_store *store, foci_dict *dict, const char *key, foci_value value)
{
    return foci_dict_add(store, dict, foci_string(foci_chars_of(key)), value);
}

foci_entry *foci_dict_find(const foci_dict *dict, foci_chars key)
{
    for (int64_t n = 0; n < dict->count; n++) {
        foci_entry *entry = &dict->entries[n];
        if (entry->key.kind == FOCI_V_STRING && foci_chars_equal(entry->key.as.text, key))
            return entry;
    }
    return NULL;
}

const char *foci_kind_name(int kind)
{
    static const char *const names[] = {
        "missing",   "Undefined",   "NoneType", "bool",     "int",   "float",
        "str",       "list",        "tuple",    "range",    "dict",  "generator",
        "Namespace", "LoopContext", "Macro",    "function", "method"};
    return names[kind];
}

bool foci_is_number(foci_value value)
{
    return value.kind == FOCI_V_BOOL || value.kind == FOCI_V_INT || value.kind == FOCI_V_FLOAT;
}

bool foci_is_list(foci_value value)
{
    return value.kind == FOCI_V_LIST || value.kind == FOCI_V_TUPLE;
}

int64_t foci_as_int(foci_value value)
{
    return value.kind == FOCI_V_BOOL ? value.as.truth : value.as.number;
}

double foci_as_real(foci_value value)
{
    return value.kind == FOCI_V_FLOAT ? value.as.real : (double)foci_as_int(value);
}

foci_value foci_range_at(const foci_range *range, int64_t index)
{
    return foci_int(range->start + index * range->step);
}
