/* Calling what is built in: arguments to names, and the functions every template has. */
#include <string.h>

#include "base/error.h"
#include "text/template_run.h"

/* Recursion here is bounded (calls inside each other): foci_run_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

enum { MAX_RAISED = 380 }; /* bytes shown of a template's own message */

const foci_builtin *foci_find(const foci_builtin *table, size_t count, foci_chars name)
{
    for (size_t n = 0; n < count; n++)
        if (foci_chars_is(name, table[n].name)) return &table[n];
    return NULL;
}

focal_status foci_want_int(foci_run *run, foci_value value, int64_t fallback, int64_t *out)
{
    *out = fallback;
    if (value.kind == FOCI_V_MISSING) return FOCAL_OK;
    if (value.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, value);
    if (value.kind != FOCI_V_INT && value.kind != FOCI_V_BOOL)
        return foci_run_fail(run, "an int was expected, not a %s", foci_kind_name(value.kind));
    *out = foci_as_int(value);
    return FOCAL_OK;
}

focal_status foci_want_text(foci_run *run, foci_value value, const char *what, foci_chars *out)
{
    if (value.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, value);
    if (value.kind != FOCI_V_STRING)
        return foci_run_fail(run, "%s must be a str, not a %s", what, foci_kind_name(value.kind));
    *out = value.as.text;
    return FOCAL_OK;
}

focal_status foci_values_add(foci_run *run, foci_values *values, foci_value value)
{
    if (values->count == values->room) {
        const int64_t room = values->room ? 2 * values->room : 8;
        foci_value *items = foci_store_alloc(&run->store, (size_t)room, sizeof *items);
        if (!items) return foci_store_failed(&run->store);
        if (values->count) memcpy(items, values->items, (size_t)values->count * sizeof *items);
        values->items = items;
        values->room = room;
    }
    values->items[values->count++] = value;
    return FOCAL_OK;
}

static int32_t name_count(const foci_builtin *builtin)
{
    int32_t count = 0;
    while (count < FOCI_BUILTIN_NAMES && builtin->names[count]) count++;
    return count;
}

static focal_status bind(foci_run *run, const foci_builtin *builtin, foci_call *call)
{
    const foci_arguments *args = &call->args;
    const int32_t count = name_count(builtin);
    for (int32_t n = 0; n < FOCI_BUILTIN_NAMES; n++)
        call->bound[n] = n < args->count ? args->items[n] : foci_missing();
    if (args->count > count)
        return foci_run_fail(run, "%s takes %d arguments, not %d", builtin->name, count,
                             args->count);
    for (int32_t k = 0; k < args->keyword_count; k++) {
        int32_t n = 0;
        while (n < count && !foci_chars_is(args->keywords[k].name, builtin->names[n])) n++;
        if (n == count || call->bound[n].kind != FOCI_V_MISSING)
            return foci_run_fail(run, "%s does not take '%.*s'%s", builtin->name,
                                 (int)args->keywords[k].name.bytes, args->keywords[k].name.data,
                                 n == count ? "" : " twice");
        call->bound[n] = args->keywords[k].value;
    }
    for (int32_t n = 0; n < builtin->required; n++)
        if (call->bound[n].kind == FOCI_V_MISSING)
            return foci_run_fail(run, "%s needs '%s'", builtin->name, builtin->names[n]);
    return FOCAL_OK;
}

focal_status foci_call_builtin(foci_run *run, const foci_builtin *builtin, foci_value self,
                               const foci_arguments *args, foci_value *out)
{
    foci_call call = {.self = self, .args = *args, .how = builtin->how};
    if (!builtin->names[0] || strcmp(builtin->names[0], "*") != 0)
        FOCAL_TRY(bind(run, builtin, &call));
    return builtin->run(run, &call, out);
}

/* loop.cycle(a, b) and loop.changed(x) come here too: they are methods of a loop. */
focal_status foci_call_value(foci_run *run, foci_value callee, const foci_arguments *args,
                             foci_value *out)
{
    switch (callee.kind) {
    case FOCI_V_UNDEFINED:
        return foci_fail_undefined(run, callee);
    case FOCI_V_MACRO:
        return foci_call_macro(run, callee.as.macro, args, out);
    case FOCI_V_FUNCTION:
        return foci_call_builtin(run, callee.as.function, foci_none(), args, out);
    case FOCI_V_METHOD:
        return foci_call_builtin(run, callee.as.method->builtin, callee.as.method->self, args, out);
    default:
        break;
    }
    return foci_run_fail(run, "a %s cannot be called", foci_kind_name(callee.kind));
}

static focal_status call_range(foci_run *run, foci_call *call, foci_value *out)
{
    int64_t bounds[3] = {0, 0, 1};
    for (int32_t n = 0; n < call->args.count; n++)
        FOCAL_TRY(foci_want_int(run, call->bound[n], 0, &bounds[n]));
    if (call->args.keyword_count) return foci_run_fail(run, "range takes no names");
    if (call->args.count == 1) {
        bounds[1] = bounds[0];
        bounds[0] = 0;
    }
    const int64_t step = bounds[2];
    if (step == 0) return foci_run_fail(run, "range: the step is zero");
    int64_t distance = 0;
    if (__builtin_sub_overflow(bounds[1], bounds[0], &distance) || step == INT64_MIN)
        return foci_run_fail(run, "range: the bounds are too far apart");
    if (step < 0) distance = distance == INT64_MIN ? INT64_MAX : -distance;
    const int64_t stride = step < 0 ? -step : step;
    const int64_t count = distance <= 0 ? 0 : (distance - 1) / stride + 1;
    if (count > FOCI_TEMPLATE_RANGE)
        return foci_run_fail(run, "range: %lld items, at most %d are allowed", (long long)count,
                             FOCI_TEMPLATE_RANGE);
    foci_range *range = foci_store_alloc(&run->store, 1, sizeof *range);
    if (!range) return foci_store_failed(&run->store);
    *range = (foci_range){bounds[0], bounds[1], step, count};
    *out = (foci_value){.kind = FOCI_V_RANGE, .as.range = range};
    return FOCAL_OK;
}

/* dict(a, x=1): from a dict or from pairs, then from names. */
static focal_status call_dict(foci_run *run, foci_call *call, foci_value *out)
{
    foci_dict *dict = foci_dict_new(&run->store);
    if (!dict) return foci_store_failed(&run->store);
    if (call->args.count > 1) return foci_run_fail(run, "dict takes one argument and names");
    const foci_value from = call->args.count ? call->args.items[0] : foci_missing();
    if (from.kind == FOCI_V_DICT) {
        FOCAL_TRY(foci_run_charge(run, from.as.dict->count));
        for (int64_t n = 0; n < from.as.dict->count; n++)
            FOCAL_TRY(foci_dict_add(&run->store, dict, from.as.dict->entries[n].key,
                                    from.as.dict->entries[n].value));
    } else if (from.kind != FOCI_V_MISSING) {
        const foci_value *items, *pair;
        int64_t count, pair_count;
        FOCAL_TRY(foci_items(run, from, &items, &count));
        for (int64_t n = 0; n < count; n++) {
            FOCAL_TRY(foci_items(run, items[n], &pair, &pair_count));
            if (pair_count != 2) return foci_run_fail(run, "dict: an item is no pair");
            FOCAL_TRY(foci_dict_set(run, dict, pair[0], pair[1]));
        }
    }
    for (int32_t n = 0; n < call->args.keyword_count; n++)
        FOCAL_TRY(foci_dict_set(run, dict, foci_string(call->args.keywords[n].name),
                                call->args.keywords[n].value));
    *out = (foci_value){.kind = FOCI_V_DICT, .as.dict = dict};
    return FOCAL_OK;
}

static focal_status call_namespace(foci_run *run, foci_call *call, foci_value *out)
{
    FOCAL_TRY(call_dict(run, call, out));
    for (int64_t n = 0; n < out->as.dict->count; n++) {
        const foci_value key = out->as.dict->entries[n].key;
        if (key.kind == FOCI_V_STRING && key.as.text.bytes && key.as.text.data[0] == '_')
            return foci_run_fail(run, "a namespace has no members that begin with '_'");
    }
    out->kind = FOCI_V_NAMESPACE;
    return FOCAL_OK;
}

static focal_status call_raise(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars text;
    (void)out;
    FOCAL_TRY(foci_value_text(run, call->bound[0], &text));
    const int bytes = text.bytes < MAX_RAISED ? (int)text.bytes : MAX_RAISED;
    return foci_run_fail(run, "%.*s", bytes, text.data);
}

static focal_status call_strftime(foci_run *run, foci_call *call, foci_value *out)
{
    foci_chars format = {0};
    FOCAL_TRY(foci_want_text(run, call->bound[0], "strftime_now: the format", &format));
    return foci_format_date(run, format, out);
}

const foci_builtin *foci_function_find(foci_chars name)
{
    static const foci_builtin functions[] = {
        {"range", call_range, 1, {"start", "stop", "step"}, 0},
        {"dict", call_dict, 0, {"*"}, 0},
        {"namespace", call_namespace, 0, {"*"}, 0},
        {"raise_exception", call_raise, 1, {"message"}, 0},
        {"strftime_now", call_strftime, 1, {"format"}, 0},
    };
    return foci_find(functions, FOCAL_COUNT(functions), name);
}

/* NOLINTEND(misc-no-recursion) */
