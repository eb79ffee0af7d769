/* JSON into values of a template. The interpreter itself knows no JSON library. */
#include "base/error.h"
#include "text/template.h"

/* Recursion here is bounded (values inside each other): MAX_DEPTH ends it.
 * NOLINTBEGIN(misc-no-recursion) */

enum { MAX_DEPTH = 64 };

/* Recursion is as deep as the value, and that ends at MAX_DEPTH. */
static focal_status convert(foci_store *store, const char *what, const foci_json *json, int depth,
                            foci_value *out)
{
    if (depth > MAX_DEPTH)
        return foci_fail(store->ctx, FOCAL_EFORMAT, "%s: nested deeper than %d levels", what,
                         MAX_DEPTH);
    switch (foci_json_kind(json)) {
    case FOCI_JSON_NULL:
        *out = foci_none();
        return FOCAL_OK;
    case FOCI_JSON_BOOL:
        *out = foci_bool(foci_json_bool(json, false));
        return FOCAL_OK;
    case FOCI_JSON_INT:
        *out = foci_int(foci_json_int(json, 0));
        return FOCAL_OK;
    case FOCI_JSON_REAL:
        *out = foci_float(foci_json_real(json, 0.0));
        return FOCAL_OK;
    case FOCI_JSON_STRING:
        *out = foci_string((foci_chars){foci_json_string(json), foci_json_length(json)});
        return FOCAL_OK;
    case FOCI_JSON_ARRAY: {
        const int64_t count = foci_json_count(json);
        foci_value *items = foci_store_alloc(store, (size_t)count, sizeof *items);
        if (!items) return foci_store_failed(store);
        for (int64_t n = 0; n < count; n++)
            FOCAL_TRY(convert(store, what, foci_json_at(json, n), depth + 1, &items[n]));
        *out = foci_list(items, count);
        return FOCAL_OK;
    }
    case FOCI_JSON_OBJECT:
        break;
    }
    foci_dict *dict = foci_dict_new(store);
    if (!dict) return foci_store_failed(store);
    foci_json_member member = {0};
    while (foci_json_next(json, &member)) {
        foci_value value = foci_none();
        const foci_chars key = {member.key, member.key_length};
        FOCAL_TRY(convert(store, what, member.value, depth + 1, &value));
        FOCAL_TRY(foci_dict_add(store, dict, foci_string(key), value));
    }
    *out = (foci_value){.kind = FOCI_V_DICT, .as.dict = dict};
    return FOCAL_OK;
}

focal_status foci_value_from_json(foci_store *store, const char *what, const foci_json *json,
                                  foci_value *out)
{
    return convert(store, what, json, 0, out);
}

/* NOLINTEND(misc-no-recursion) */
