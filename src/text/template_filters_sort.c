/* Filters that put items in order. Text is compared without case unless asked otherwise. */
#include <string.h>

#include "base/error.h"
#include "text/template_filters.h"

/* A value as sort, unique, min and max see it. */
static focal_status fold(foci_run *run, foci_value value, foci_value case_sensitive,
                         foci_value *out)
{
    *out = value;
    if (value.kind != FOCI_V_STRING || foci_truth(case_sensitive)) return FOCAL_OK;
    foci_call call = {.self = value};
    return foci_template_lower(run, &call, out);
}

static focal_status path_key(foci_run *run, foci_value item, foci_value path,
                             foci_value case_sensitive, foci_value *out)
{
    FOCAL_TRY(foci_path(run, item, path, out));
    return fold(run, *out, case_sensitive, out);
}

/* Merges two sorted runs of order[]; an item of the right one goes first only when it must. */
static focal_status merge(foci_run *run, const foci_value *keys, const int64_t *from, int64_t *to,
                          int64_t left, int64_t right, int64_t end, bool is_reverse)
{
    int64_t a = left, b = right;
    for (int64_t n = left; n < end; n++) {
        int order = 0;
        if (a < right && b < end) {
            if (is_reverse) /* "<" is asked the other way round, and equals stay as they are */
                FOCAL_TRY(foci_order(run, keys[from[a]], keys[from[b]], "<", &order));
            else
                FOCAL_TRY(foci_order(run, keys[from[b]], keys[from[a]], "<", &order));
        }
        const bool takes_right = a >= right || (b < end && order < 0);
        to[n] = takes_right ? from[b++] : from[a++];
    }
    return FOCAL_OK;
}

focal_status foci_sort(foci_run *run, foci_value *items, foci_value *keys, int64_t count,
                       bool is_reverse)
{
    int64_t *order = foci_store_alloc(&run->store, (size_t)count, sizeof *order);
    int64_t *other = foci_store_alloc(&run->store, (size_t)count, sizeof *other);
    foci_value *sorted = foci_store_alloc(&run->store, (size_t)count, sizeof *sorted);
    if (!order || !other || !sorted) return foci_store_failed(&run->store);
    for (int64_t n = 0; n < count; n++) order[n] = n;
    for (int64_t width = 1; width < count; width *= 2) {
        for (int64_t left = 0; left < count; left += 2 * width) {
            const int64_t right = left + width < count ? left + width : count;
            const int64_t end = right + width < count ? right + width : count;
            FOCAL_TRY(merge(run, keys, order, other, left, right, end, is_reverse));
        }
        int64_t *swap = order;
        order = other;
        other = swap;
    }
    for (int64_t n = 0; n < count; n++) sorted[n] = items[order[n]];
    if (count) memcpy(items, sorted, (size_t)count * sizeof *items);
    return FOCAL_OK;
}

/* Copies of a value's items, and room for as many keys. */
static focal_status copy_items(foci_run *run, foci_value value, foci_value **items,
                               foci_value **keys, int64_t *count)
{
    const foci_value *from;
    FOCAL_TRY(foci_items(run, value, &from, count));
    *items = foci_store_alloc(&run->store, (size_t)*count, sizeof **items);
    *keys = foci_store_alloc(&run->store, (size_t)*count, sizeof **keys);
    if (!*items || !*keys) return foci_store_failed(&run->store);
    if (*count) memcpy(*items, from, (size_t)*count * sizeof **items);
    return FOCAL_OK;
}

/* The key of "a,b": a tuple of what stands under each. */
static focal_status many_keys(foci_run *run, foci_value item, foci_value paths,
                              foci_value case_sensitive, foci_value *out)
{
    foci_values parts = {0};
    const foci_chars all = paths.as.text;
    const char *at = all.data, *end = at + all.bytes;
    for (;;) {
        const char *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
        const char *stop = comma ? comma : end;
        foci_value key;
        FOCAL_TRY(path_key(run, item, foci_string((foci_chars){at, (size_t)(stop - at)}),
                           case_sensitive, &key));
        FOCAL_TRY(foci_values_add(run, &parts, key));
        if (!comma) break;
        at = comma + 1;
    }
    *out = foci_list(parts.items, parts.count);
    return FOCAL_OK;
}

focal_status foci_filter_sort(foci_run *run, foci_call *call, foci_value *out)
{
    foci_value *items, *keys;
    int64_t count;
    const foci_value attribute = call->bound[2];
    FOCAL_TRY(copy_items(run, call->self, &items, &keys, &count));
    for (int64_t n = 0; n < count; n++) {
        if (attribute.kind == FOCI_V_STRING)
            FOCAL_TRY(many_keys(run, items[n], attribute, call->bound[1], &keys[n]));
        else
            FOCAL_TRY(path_key(run, items[n], attribute, call->bound[1], &keys[n]));
    }
    FOCAL_TRY(foci_sort(run, items, keys, count, foci_truth(call->bound[0])));
    *out = foci_list(items, count);
    return FOCAL_OK;
}

focal_status foci_filter_dictsort(foci_run *run, foci_call *call, foci_value *out)
{
    foci_value *items, *keys, view;
    int64_t count, by = 0;
    foci_chars text;
    const foci_arguments none = {0};
    if (call->self.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, call->self);
    if (call->self.kind != FOCI_V_DICT)
        return foci_run_fail(run, "dictsort takes a dict, not a %s",
                             foci_kind_name(call->self.kind));
    if (call->bound[1].kind != FOCI_V_MISSING) {
        FOCAL_TRY(foci_want_text(run, call->bound[1], "dictsort: by", &text));
        if (!foci_chars_is(text, "key") && !foci_chars_is(text, "value"))
            return foci_run_fail(run, "dictsort: by is key or value");
        by = foci_chars_is(text, "value");
    }
    FOCAL_TRY(foci_call_builtin(run, foci_container_method(FOCI_V_DICT, foci_chars_of("items")),
                                call->self, &none, &view));
    FOCAL_TRY(copy_items(run, view, &items, &keys, &count));
    for (int64_t n = 0; n < count; n++)
        FOCAL_TRY(fold(run, items[n].as.list.items[by], call->bound[0], &keys[n]));
    FOCAL_TRY(foci_sort(run, items, keys, count, foci_truth(call->bound[2])));
    *out = foci_list(items, count);
    return FOCAL_OK;
}

static focal_status extreme(foci_run *run, foci_call *call, bool is_max, foci_value *out)
{
    const foci_value *items;
    int64_t count, best = 0;
    foci_value best_key;
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    *out = foci_undefined_hint("No aggregated item, sequence was empty.");
    if (count == 0) return FOCAL_OK;
    FOCAL_TRY(path_key(run, items[0], call->bound[1], call->bound[0], &best_key));
    for (int64_t n = 1; n < count; n++) {
        foci_value key;
        int order;
        FOCAL_TRY(path_key(run, items[n], call->bound[1], call->bound[0], &key));
        FOCAL_TRY(foci_order(run, key, best_key, is_max ? ">" : "<", &order));
        if (is_max ? order <= 0 : order >= 0) continue;
        best = n;
        best_key = key;
    }
    *out = items[best];
    return FOCAL_OK;
}

focal_status foci_filter_min(foci_run *run, foci_call *call, foci_value *out)
{
    return extreme(run, call, false, out);
}

focal_status foci_filter_max(foci_run *run, foci_call *call, foci_value *out)
{
    return extreme(run, call, true, out);
}

focal_status foci_filter_unique(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count;
    foci_values kept = {0};
    foci_dict *seen = foci_dict_new(&run->store);
    if (!seen) return foci_store_failed(&run->store);
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    for (int64_t n = 0; n < count; n++) {
        foci_value key;
        foci_entry *entry;
        FOCAL_TRY(path_key(run, items[n], call->bound[1], call->bound[0], &key));
        FOCAL_TRY(foci_dict_look(run, seen, key, &entry));
        if (entry) continue;
        FOCAL_TRY(foci_dict_add(&run->store, seen, key, foci_none()));
        FOCAL_TRY(foci_values_add(run, &kept, items[n]));
    }
    return foci_once(run, kept, out);
}
