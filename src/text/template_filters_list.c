/* Filters of many items: picking, changing and joining them. */
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_filters.h"

/* Recursion here is bounded (map() of map()): foci_run_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

focal_status foci_once(foci_run *run, foci_values values, foci_value *out)
{
    foci_series *series = foci_store_alloc(&run->store, 1, sizeof *series);
    if (!series) return foci_store_failed(&run->store);
    *series = (foci_series){.kind = FOCI_SERIES_ONCE, .items = values.items, .count = values.count};
    *out = (foci_value){.kind = FOCI_V_SERIES, .as.series = series};
    return FOCAL_OK;
}

static focal_status filter_list(foci_run *run, foci_call *call, foci_value *out)
{
    *out = foci_list(NULL, 0);
    return foci_items(run, call->self, &out->as.list.items, &out->as.list.count);
}

static focal_status filter_first(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count;
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    *out = count ? items[0] : foci_undefined_hint("No first item, sequence was empty.");
    return FOCAL_OK;
}

/* What reversed() takes: no generator. */
static focal_status need_reversible(foci_run *run, foci_value value)
{
    if (value.kind == FOCI_V_SERIES && value.as.series->kind == FOCI_SERIES_ONCE)
        return foci_run_fail(run, "a generator has no last item");
    return FOCAL_OK;
}

static focal_status filter_last(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count;
    FOCAL_TRY(need_reversible(run, call->self));
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    *out = count ? items[count - 1] : foci_undefined_hint("No last item, sequence was empty.");
    return FOCAL_OK;
}

static focal_status filter_reverse(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value backwards[3] = {foci_none(), foci_none(), foci_int(-1)};
    if (call->self.kind == FOCI_V_STRING) return foci_slice(run, call->self, backwards, out);
    foci_value list = foci_list(NULL, 0);
    const bool is_once =
        call->self.kind == FOCI_V_SERIES && call->self.as.series->kind == FOCI_SERIES_ONCE;
    FOCAL_TRY(foci_items(run, call->self, &list.as.list.items, &list.as.list.count));
    FOCAL_TRY(foci_slice(run, list, backwards, &list));
    *out = list;
    /* Of what can be read backwards jinja2 hands out an iterator, of all else a list. */
    if (is_once) return FOCAL_OK;
    foci_values values = {.count = list.as.list.count};
    values.items = foci_store_alloc(&run->store, (size_t)values.count, sizeof *values.items);
    if (!values.items) return foci_store_failed(&run->store);
    if (values.count)
        memcpy(values.items, list.as.list.items, (size_t)values.count * sizeof *values.items);
    return foci_once(run, values, out);
}

static focal_status filter_join(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count;
    foci_chars between = {"", 0};
    foci_builder built = {.store = &run->store};
    if (call->bound[0].kind != FOCI_V_MISSING)
        FOCAL_TRY(foci_value_text(run, call->bound[0], &between));
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    for (int64_t n = 0; n < count; n++) {
        foci_value item;
        FOCAL_TRY(foci_path(run, items[n], call->bound[1], &item));
        if (n > 0) FOCAL_TRY(foci_builder_add(&built, between.data, between.bytes));
        FOCAL_TRY(foci_print(run, item, &built));
    }
    *out = foci_string(foci_builder_chars(&built));
    return FOCAL_OK;
}

static focal_status filter_sum(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count;
    *out = call->bound[1].kind == FOCI_V_MISSING ? foci_int(0) : call->bound[1];
    if (out->kind == FOCI_V_STRING) return foci_run_fail(run, "sum takes no text: use join");
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    for (int64_t n = 0; n < count; n++) {
        foci_value item;
        FOCAL_TRY(foci_path(run, items[n], call->bound[0], &item));
        FOCAL_TRY(foci_math(run, '+', *out, item, out));
    }
    return FOCAL_OK;
}

static focal_status filter_items(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_arguments none = {0};
    foci_value view;
    foci_values pairs = {0};
    if (call->self.kind == FOCI_V_UNDEFINED) return foci_once(run, pairs, out);
    if (call->self.kind != FOCI_V_DICT)
        return foci_run_fail(run, "items takes a dict, not a %s", foci_kind_name(call->self.kind));
    FOCAL_TRY(foci_call_builtin(run, foci_container_method(FOCI_V_DICT, foci_chars_of("items")),
                                call->self, &none, &view));
    for (int64_t n = 0; n < view.as.series->count; n++)
        FOCAL_TRY(foci_values_add(run, &pairs, view.as.series->items[n]));
    return foci_once(run, pairs, out);
}

/* The filter or test named by an argument. */
static focal_status named(foci_run *run, foci_value name, bool is_filter,
                          const foci_builtin **builtin)
{
    foci_chars text;
    FOCAL_TRY(foci_want_text(run, name, "the name of a filter or test", &text));
    *builtin = is_filter ? foci_filter_find(text) : foci_test_find(text);
    if (*builtin) return FOCAL_OK;
    return foci_run_fail(run, "the %s '%.*s' is not supported", is_filter ? "filter" : "test",
                         text.bytes < 80 ? (int)text.bytes : 80, text.data);
}

static foci_arguments without_first(const foci_arguments *args, int32_t count)
{
    foci_arguments rest = *args;
    rest.items += count;
    rest.count -= count;
    return rest;
}

/* map(attribute=...): the path and what stands for a missing one. */
static focal_status map_path(foci_run *run, const foci_arguments *args, foci_value *path,
                             foci_value *fallback)
{
    *path = *fallback = foci_missing();
    for (int32_t n = 0; n < args->keyword_count; n++) {
        if (foci_chars_is(args->keywords[n].name, "attribute"))
            *path = args->keywords[n].value;
        else if (foci_chars_is(args->keywords[n].name, "default"))
            *fallback = args->keywords[n].value;
        else
            return foci_run_fail(run, "map does not take '%.*s'", (int)args->keywords[n].name.bytes,
                                 args->keywords[n].name.data);
    }
    return path->kind == FOCI_V_MISSING ? foci_run_fail(run, "map needs a filter or an attribute")
                                        : FOCAL_OK;
}

/* Filters call filters here: map('map', 'map', ...) is as deep as it has names. */
static focal_status filter_map(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count;
    foci_value path = foci_missing(), fallback = foci_missing();
    foci_values made = {0};
    const foci_builtin *filter = NULL;
    if (!foci_truth(call->self)) return foci_once(run, made, out);
    FOCAL_TRY(foci_run_enter(run));
    if (call->args.count)
        FOCAL_TRY(named(run, call->args.items[0], true, &filter));
    else
        FOCAL_TRY(map_path(run, &call->args, &path, &fallback));
    const foci_arguments rest = without_first(&call->args, call->args.count ? 1 : 0);
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    for (int64_t n = 0; n < count; n++) {
        foci_value value = foci_none();
        FOCAL_TRY(foci_run_charge(run, 0));
        if (filter)
            FOCAL_TRY(foci_call_builtin(run, filter, items[n], &rest, &value));
        else
            FOCAL_TRY(foci_path(run, items[n], path, &value));
        if (!filter && value.kind == FOCI_V_UNDEFINED && fallback.kind != FOCI_V_MISSING &&
            fallback.kind != FOCI_V_NONE)
            value = fallback;
        FOCAL_TRY(foci_values_add(run, &made, value));
    }
    run->depth--;
    return foci_once(run, made, out);
}

/* select and its like: keeps what a test, or truth itself, says. */
static focal_status pick(foci_run *run, foci_call *call, bool by_attribute, bool wanted,
                         foci_value *out)
{
    const foci_value *items;
    int64_t count;
    foci_values kept = {0};
    const foci_builtin *test = NULL;
    const int32_t skip = by_attribute;
    if (!foci_truth(call->self)) return foci_once(run, kept, out);
    if (call->args.count < skip) return foci_run_fail(run, "the name of an attribute is missing");
    if (call->args.count > skip) FOCAL_TRY(named(run, call->args.items[skip], false, &test));
    const foci_arguments rest = without_first(&call->args, test ? skip + 1 : skip);
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    for (int64_t n = 0; n < count; n++) {
        foci_value value = items[n];
        FOCAL_TRY(foci_run_charge(run, 0));
        if (by_attribute) FOCAL_TRY(foci_path(run, items[n], call->args.items[0], &value));
        if (test) FOCAL_TRY(foci_call_builtin(run, test, value, &rest, &value));
        if (foci_truth(value) == wanted) FOCAL_TRY(foci_values_add(run, &kept, items[n]));
    }
    return foci_once(run, kept, out);
}

static focal_status filter_select(foci_run *run, foci_call *call, foci_value *out)
{
    return pick(run, call, false, true, out);
}

static focal_status filter_reject(foci_run *run, foci_call *call, foci_value *out)
{
    return pick(run, call, false, false, out);
}

static focal_status filter_selectattr(foci_run *run, foci_call *call, foci_value *out)
{
    return pick(run, call, true, true, out);
}

static focal_status filter_rejectattr(foci_run *run, foci_call *call, foci_value *out)
{
    return pick(run, call, true, false, out);
}

static focal_status filter_batch(foci_run *run, foci_call *call, foci_value *out)
{
    const foci_value *items;
    int64_t count, size;
    foci_values batches = {0};
    FOCAL_TRY(foci_want_int(run, call->bound[0], 0, &size));
    if (size < 1) return foci_run_fail(run, "batch: a size of %lld", (long long)size);
    FOCAL_TRY(foci_items(run, call->self, &items, &count));
    const bool fills = call->bound[1].kind != FOCI_V_MISSING && call->bound[1].kind != FOCI_V_NONE;
    for (int64_t n = 0; n < count; n += size) {
        const int64_t here = count - n < size ? count - n : size;
        foci_value batch = foci_list(items + n, here);
        if (fills && here < size) {
            foci_value *full = foci_store_alloc(&run->store, (size_t)size, sizeof *full);
            if (!full) return foci_store_failed(&run->store);
            FOCAL_TRY(foci_run_charge(run, size));
            for (int64_t k = 0; k < size; k++) full[k] = k < here ? items[n + k] : call->bound[1];
            batch = foci_list(full, size);
        }
        FOCAL_TRY(foci_values_add(run, &batches, batch));
        if (count - n <= size) break; /* n + size could leave 64 bits */
    }
    return foci_once(run, batches, out);
}

const foci_builtin *foci_list_filter(foci_chars name)
{
    static const foci_builtin filters[] = {
        {"list", filter_list, 0, {NULL}, 0},
        {"first", filter_first, 0, {NULL}, 0},
        {"last", filter_last, 0, {NULL}, 0},
        {"reverse", filter_reverse, 0, {NULL}, 0},
        {"join", filter_join, 0, {"d", "attribute"}, 0},
        {"sum", filter_sum, 0, {"attribute", "start"}, 0},
        {"items", filter_items, 0, {NULL}, 0},
        {"map", filter_map, 0, {"*"}, 0},
        {"select", filter_select, 0, {"*"}, 0},
        {"reject", filter_reject, 0, {"*"}, 0},
        {"selectattr", filter_selectattr, 0, {"*"}, 0},
        {"rejectattr", filter_rejectattr, 0, {"*"}, 0},
        {"batch", filter_batch, 1, {"linecount", "fill_with"}, 0},
        {"sort", foci_filter_sort, 0, {"reverse", "case_sensitive", "attribute"}, 0},
        {"dictsort", foci_filter_dictsort, 0, {"case_sensitive", "by", "reverse"}, 0},
        {"unique", foci_filter_unique, 0, {"case_sensitive", "attribute"}, 0},
        {"min", foci_filter_min, 0, {"case_sensitive", "attribute"}, 0},
        {"max", foci_filter_max, 0, {"case_sensitive", "attribute"}, 0},
    };
    return foci_find(filters, FOCAL_COUNT(filters), name);
}

/* NOLINTEND(misc-no-recursion) */
