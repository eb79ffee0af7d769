/* foci_json over Jansson: a foci_json is a json_t under another name. */
#include "io/json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"

enum { MAX_DEPTH = 512, MAX_VALUES = 1 << 22 };

/* Jansson's readers take what is not const; none of those used here changes it. */
static json_t *of(const foci_json *value)
{
    json_t *json;
    memcpy((void *)&json, (const void *)&value, sizeof(void *));
    return json;
}

/* How deep a text is nested and how many values it can have at most, until one is beyond its limit.
 * Strings are skipped; what is not JSON is left to Jansson to refuse. */
static void measure(const char *text, size_t bytes, int *deepest, int *values)
{
    int depth = 0;
    bool in_string = false;
    *deepest = 0;
    *values = 1;
    for (size_t n = 0; n < bytes && *deepest <= MAX_DEPTH && *values <= MAX_VALUES; n++) {
        const char c = text[n];
        if (in_string) {
            if (c == '\\')
                n++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '[' || c == '{') {
            if (++depth > *deepest) *deepest = depth;
            ++*values;
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',') {
            ++*values;
        }
    }
}

focal_status foci_json_parse(focal_ctx *ctx, const char *what, const char *text, size_t bytes,
                             foci_json **root)
{
    *root = NULL;
    int depth, values;
    measure(text, bytes, &depth, &values);
    /* Jansson's own limit is 2,048 levels, and its tree is freed by recursion: ours leaves room on
     * a small stack. */
    if (depth > MAX_DEPTH)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: nested deeper than %d levels", what, MAX_DEPTH);
    /* A value can take a hundred times its bytes of memory: "{}," takes 234. The largest known
     * tokenizer.json has 2 million. */
    if (values > MAX_VALUES)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: more than %d values", what, MAX_VALUES);
    json_error_t error;
    json_t *value =
        json_loadb(text, bytes, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
    if (!value) {
        /* It quotes the text, which must not steer a terminal. */
        for (char *c = error.text; *c; c++)
            if ((unsigned char)*c < 0x20 || *c == 0x7F) *c = '?';
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: line %d, column %d: %s", what, error.line,
                         error.column, error.text);
    }
    *root = (foci_json *)(void *)value;
    return FOCAL_OK;
}

void foci_json_free(foci_json *root)
{
    json_decref(of(root));
}

foci_json_type foci_json_kind(const foci_json *value)
{
    if (!value) return FOCI_JSON_NULL;
    switch (json_typeof(of(value))) {
    case JSON_OBJECT:
        return FOCI_JSON_OBJECT;
    case JSON_ARRAY:
        return FOCI_JSON_ARRAY;
    case JSON_STRING:
        return FOCI_JSON_STRING;
    case JSON_INTEGER:
        return FOCI_JSON_INT;
    case JSON_REAL:
        return FOCI_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE:
        return FOCI_JSON_BOOL;
    case JSON_NULL:
        break;
    }
    return FOCI_JSON_NULL;
}

bool foci_json_is(const foci_json *value, foci_json_type type)
{
    return value && foci_json_kind(value) == type;
}

const foci_json *foci_json_get(const foci_json *object, const char *key)
{
    return (const foci_json *)(const void *)json_object_get(of(object), key);
}

int64_t foci_json_count(const foci_json *value)
{
    return (int64_t)(foci_json_is(value, FOCI_JSON_OBJECT) ? json_object_size(of(value))
                                                           : json_array_size(of(value)));
}

const foci_json *foci_json_at(const foci_json *array, int64_t index)
{
    if (index < 0) return NULL;
    return (const foci_json *)(const void *)json_array_get(of(array), (size_t)index);
}

const char *foci_json_string(const foci_json *value)
{
    return json_string_value(of(value));
}

size_t foci_json_length(const foci_json *value)
{
    return json_string_length(of(value));
}

int64_t foci_json_int(const foci_json *value, int64_t fallback)
{
    return foci_json_is(value, FOCI_JSON_INT) ? json_integer_value(of(value)) : fallback;
}

double foci_json_real(const foci_json *value, double fallback)
{
    const foci_json_type type = foci_json_kind(value);
    return type == FOCI_JSON_INT || type == FOCI_JSON_REAL ? json_number_value(of(value))
                                                           : fallback;
}

bool foci_json_bool(const foci_json *value, bool fallback)
{
    return foci_json_is(value, FOCI_JSON_BOOL) ? json_is_true(of(value)) : fallback;
}

bool foci_json_next(const foci_json *object, foci_json_member *member)
{
    member->place = member->place ? json_object_iter_next(of(object), member->place)
                                  : json_object_iter(of(object));
    if (!member->place) return false;
    member->key = json_object_iter_key(member->place);
    member->key_length = json_object_iter_key_len(member->place);
    member->value = (const foci_json *)(const void *)json_object_iter_value(member->place);
    return true;
}

/* Jansson's text, which is freed, as memory of the context's. */
static focal_status hand_over(focal_ctx *ctx, char *made, char **text, size_t *bytes)
{
    *text = NULL;
    *bytes = 0;
    if (!made) return foci_fail(ctx, FOCAL_ENOMEM, "json: no memory for the text");
    const size_t length = strlen(made);
    *text = foci_alloc(ctx, length + 1, 1);
    if (*text) {
        memcpy(*text, made, length + 1);
        *bytes = length;
    }
    free(made);
    return *text ? FOCAL_OK : FOCAL_ENOMEM;
}

focal_status foci_json_print(focal_ctx *ctx, const foci_json *value, char **text, size_t *bytes)
{
    /* 17 digits would make 0.10000000000000001 of 0.1. */
    return hand_over(ctx, json_dumps(of(value), JSON_REAL_PRECISION(15)), text, bytes);
}

focal_status foci_json_print_with(focal_ctx *ctx, const foci_json *object, const char *key,
                                  const char *string, char **text, size_t *bytes)
{
    json_t *copy = json_copy(of(object)); /* members are shared */
    char *made = NULL;
    if (copy && json_object_set_new(copy, key, json_string(string)) == 0)
        made = json_dumps(copy, JSON_INDENT(2));
    json_decref(copy);
    return hand_over(ctx, made, text, bytes);
}
