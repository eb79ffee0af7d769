/* Stands in for json.c in a build without Jansson: nothing parses. */
#include "base/error.h"
#include "io/json.h"

focal_status foci_json_parse(focal_ctx *ctx, const char *what, const char *text, size_t bytes,
                             foci_json **root)
{
    (void)text;
    (void)bytes;
    *root = NULL;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: this focal was built without Jansson (JSON)",
                     what);
}

void foci_json_free(foci_json *root)
{
    (void)root;
}

foci_json_type foci_json_kind(const foci_json *value)
{
    (void)value;
    return FOCI_JSON_NULL;
}

bool foci_json_is(const foci_json *value, foci_json_type type)
{
    (void)value;
    (void)type;
    return false;
}

const foci_json *foci_json_get(const foci_json *object, const char *key)
{
    (void)object;
    (void)key;
    return NULL;
}

int64_t foci_json_count(const foci_json *value)
{
    (void)value;
    return 0;
}

const foci_json *foci_json_at(const foci_json *array, int64_t index)
{
    (void)array;
    (void)index;
    return NULL;
}

const char *foci_json_string(const foci_json *value)
{
    (void)value;
    return NULL;
}

size_t foci_json_length(const foci_json *value)
{
    (void)value;
    return 0;
}

int64_t foci_json_int(const foci_json *value, int64_t fallback)
{
    (void)value;
    return fallback;
}

double foci_json_real(const foci_json *value, double fallback)
{
    (void)value;
    return fallback;
}

bool foci_json_bool(const foci_json *value, bool fallback)
{
    (void)value;
    return fallback;
}

bool foci_json_next(const foci_json *object, foci_json_member *member)
{
    (void)object;
    (void)member;
    return false;
}

focal_status foci_json_print(focal_ctx *ctx, const foci_json *value, char **text, size_t *bytes)
{
    (void)value;
    *text = NULL;
    *bytes = 0;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "this focal was built without Jansson (JSON)");
}

focal_status foci_json_print_with(focal_ctx *ctx, const foci_json *object, const char *key,
                                  const char *string, char **text, size_t *bytes)
{
    (void)object;
    (void)key;
    (void)string;
    *text = NULL;
    *bytes = 0;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "this focal was built without Jansson (JSON)");
}
