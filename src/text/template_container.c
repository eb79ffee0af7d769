/* The methods of dict, list and tuple, and of a loop. What would change its object is refused, as
 * the sandbox of transformers does. */
#include "base/error.h"
#include "text/template_run.h"

static focal_status make_view(foci_run *run, const foci_dict *dict, foci_series_kind kind,
                              foci_value *out)
{
    const int64_t count = dict->count;
    foci_series *series = foci_store_alloc(&run->store, 1, sizeof *series);
    foci_value *items = foci_store_alloc(&run->store, (size_t)count, sizeof *items);
    foci_value *pairs = foci_store_alloc(
        &run->store, kind == FOCI_SERIES_ITEMS ? 2 * (size_t)count : 0, sizeof *pairs);
    if (!series || !items || !pairs) return foci_store_failed(&run->store);
    FOCAL_TRY(foci_run_charge(run, count));
    for (int64_t n = 0; n < count; n++) {
        const foci_entry *entry = &dict->entries[n];
        items[n] = kind == FOCI_SERIES_KEYS ? entry->key : entry->value;
        if (kind != FOCI_SERIES_ITEMS) continue;
        pairs[2 * n] = entry->key;
        pairs[2 * n + 1] = entry->value;
        items[n] = foci_list(&pairs[2 * n], 2);
        items[n].kind = FOCI_V_TUPLE;
    }
    *series = (foci_series){.kind = kind, .items = items, .count = count};
    *out = (foci_value){.kind = FOCI_V_SERIES, .as.series = series};
    return FOCAL_OK;
}

static focal_status dict_keys(foci_run *run, foci_call *call, foci_value *out)
{
    return make_view(run, call->self.as.dict, FOCI_SERIES_KEYS, out);
}

static focal_status dict_values(foci_run *run, foci_call *call, foci_value *out)
{
    return make_view(run, call->self.as.dict, FOCI_SERIES_VALUES, out);
}

static focal_status dict_items(foci_run *run, foci_call *call, foci_value *out)
{
    return make_view(run, call->self.as.dict, FOCI_SERIES_ITEMS, out);
}

static focal_status dict_get(foci_run *run, foci_call *call, foci_value *out)
{
    foci_entry *entry;
    FOCAL_TRY(foci_dict_look(run, call->self.as.dict, call->bound[0], &entry));
    *out = call->bound[1].kind == FOCI_V_MISSING ? foci_none() : call->bound[1];
    if (entry) *out = entry->value;
    return FOCAL_OK;
}

/* Nothing changes, so a copy is the thing itself. */
static focal_status copy(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    *out = call->self;
    return FOCAL_OK;
}

static focal_status list_count(foci_run *run, foci_call *call, foci_value *out)
{
    int64_t found = 0;
    for (int64_t n = 0; n < call->self.as.list.count; n++) {
        bool equal;
        FOCAL_TRY(foci_equal(run, call->self.as.list.items[n], call->bound[0], &equal));
        found += equal;
    }
    *out = foci_int(found);
    return FOCAL_OK;
}

static focal_status list_index(foci_run *run, foci_call *call, foci_value *out)
{
    for (int64_t n = 0; n < call->self.as.list.count; n++) {
        bool equal;
        FOCAL_TRY(foci_equal(run, call->self.as.list.items[n], call->bound[0], &equal));
        *out = foci_int(n);
        if (equal) return FOCAL_OK;
    }
    return foci_run_fail(run, "index: the value is not in the list");
}

static focal_status loop_cycle(foci_run *run, foci_call *call, foci_value *out)
{
    if (call->args.count == 0 || call->args.keyword_count)
        return foci_run_fail(run, "loop.cycle takes values");
    *out = call->args.items[call->self.as.loop->index % call->args.count];
    return FOCAL_OK;
}

static focal_status loop_changed(foci_run *run, foci_call *call, foci_value *out)
{
    foci_loop *loop = call->self.as.loop;
    bool equal;
    foci_value now = foci_list(call->args.items, call->args.count);
    FOCAL_TRY(foci_equal(run, loop->changed, now, &equal));
    loop->changed = now;
    *out = foci_bool(!equal);
    return FOCAL_OK;
}

const foci_builtin *foci_container_method(int kind, foci_chars name)
{
    static const foci_builtin dicts[] = {{"get", dict_get, 1, {"/key", "/default"}, 0},
                                         {"items", dict_items, 0, {NULL}, 0},
                                         {"keys", dict_keys, 0, {NULL}, 0},
                                         {"values", dict_values, 0, {NULL}, 0},
                                         {"copy", copy, 0, {NULL}, 0}};
    static const foci_builtin lists[] = {{"index", list_index, 1, {"/value"}, 0},
                                         {"count", list_count, 1, {"/value"}, 0},
                                         {"copy", copy, 0, {NULL}, 0}};
    static const foci_builtin loops[] = {{"cycle", loop_cycle, 0, {"*"}, 0},
                                         {"changed", loop_changed, 0, {"*"}, 0}};
    switch (kind) {
    case FOCI_V_STRING:
        return foci_string_method(name);
    case FOCI_V_DICT:
        return foci_find(dicts, FOCAL_COUNT(dicts), name);
    case FOCI_V_LIST:
        return foci_find(lists, FOCAL_COUNT(lists), name);
    case FOCI_V_TUPLE:
        return foci_find(lists, FOCAL_COUNT(lists) - 1, name);
    case FOCI_V_LOOP:
        return foci_find(loops, FOCAL_COUNT(loops), name);
    default:
        return NULL;
    }
}

static bool is_among(foci_chars name, const char *const *names, size_t count)
{
    for (size_t n = 0; n < count; n++)
        if (foci_chars_is(name, names[n])) return true;
    return false;
}

bool foci_method_changes(int kind, foci_chars name)
{
    static const char *const dicts[] = {"clear", "pop", "popitem", "setdefault", "update"};
    static const char *const lists[] = {"append", "clear", "pop",    "reverse",
                                        "insert", "sort",  "extend", "remove"};
    if (kind == FOCI_V_DICT) return is_among(name, dicts, FOCAL_COUNT(dicts));
    return kind == FOCI_V_LIST && is_among(name, lists, FOCAL_COUNT(lists));
}

bool foci_method_is_refused(foci_chars name)
{
    static const char *const names[] = {
        "encode",    "decode",    "expandtabs", "format_map", "isidentifier",    "isprintable",
        "istitle",   "maketrans", "translate",  "bit_length", "to_bytes",        "is_integer",
        "bit_count", "hex",       "conjugate",  "fromkeys",   "as_integer_ratio"};
    return is_among(name, names, FOCAL_COUNT(names));
}
