/* Reading members of adapter_config.json: a wrong one is named with what it is and what it must be.
 */
#include "model/adapter_members.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/names.h"

void foci_member_fail(foci_members *r, const char *key, const char *must)
{
    static const char *const kinds[] = {[FOCI_JSON_NULL] = "missing",
                                        [FOCI_JSON_BOOL] = "true or false",
                                        [FOCI_JSON_REAL] = "a fraction",
                                        [FOCI_JSON_ARRAY] = "a list",
                                        [FOCI_JSON_OBJECT] = "an object"};
    const foci_json *value = foci_json_get(r->json, key);
    char is[64];
    if (r->status != FOCAL_OK) return;
    if (foci_json_is(value, FOCI_JSON_INT))
        (void)snprintf(is, sizeof is, "%lld", (long long)foci_json_int(value, 0));
    else if (foci_json_is(value, FOCI_JSON_STRING))
        (void)snprintf(is, sizeof is, "'%.40s'", foci_json_string(value));
    else
        (void)snprintf(is, sizeof is, "%s", kinds[foci_json_kind(value)]);
    r->status =
        foci_fail(r->ctx, FOCAL_EFORMAT, "%s: '%s' is %s, it must be %s", r->what, key, is, must);
}

int32_t foci_member_int(foci_members *r, const char *key, int32_t least, int32_t most)
{
    char must[64];
    const foci_json *value = foci_json_get(r->json, key);
    const int64_t number = foci_json_int(value, -1);
    if (foci_json_is(value, FOCI_JSON_INT) && number >= least && number <= most)
        return (int32_t)number;
    (void)snprintf(must, sizeof must, "a whole number from %d to %d", least, most);
    foci_member_fail(r, key, must);
    return least;
}

bool foci_member_bool(foci_members *r, const char *key)
{
    const foci_json *value = foci_json_get(r->json, key);
    if (!foci_json_is(value, FOCI_JSON_BOOL)) foci_member_fail(r, key, "true or false");
    return foci_json_bool(value, false);
}

void foci_member_text(foci_members *r, const char *key, char *to, size_t capacity)
{
    char must[80];
    const foci_json *value = foci_json_get(r->json, key);
    const foci_text text = {foci_json_string(value), foci_json_length(value)};
    (void)snprintf(must, sizeof must, "a text of at most %zu bytes, without control characters",
                   capacity - 1);
    to[0] = '\0';
    if (!text.data || text.bytes >= capacity || !foci_text_is_plain(text)) {
        foci_member_fail(r, key, must);
        return;
    }
    memcpy(to, text.data, text.bytes);
    to[text.bytes] = '\0';
}

void foci_member_object(foci_members *r, const char *key, char **to)
{
    static const char none[] = "{}";
    size_t bytes = 0;
    const foci_json *value = foci_json_get(r->json, key);
    const bool is_there = foci_json_kind(value) != FOCI_JSON_NULL;
    if (is_there && !foci_json_is(value, FOCI_JSON_OBJECT)) foci_member_fail(r, key, "an object");
    if (r->status != FOCAL_OK) return;
    if (is_there) {
        r->status = foci_json_print(r->ctx, value, to, &bytes);
        return;
    }
    *to = foci_alloc(r->ctx, 1, sizeof none);
    if (*to)
        memcpy(*to, none, sizeof none);
    else
        r->status = FOCAL_ENOMEM;
}

static bool asks_nothing(const foci_json *value)
{
    switch (foci_json_kind(value)) {
    case FOCI_JSON_NULL:
        return true;
    case FOCI_JSON_BOOL:
        return !foci_json_bool(value, true);
    case FOCI_JSON_ARRAY:
    case FOCI_JSON_OBJECT:
        return foci_json_count(value) == 0;
    default:
        return false;
    }
}

void foci_members_check_keys(foci_members *r, const char *const *known, size_t count)
{
    foci_json_member member = {0};
    while (r->status == FOCAL_OK && foci_json_next(r->json, &member)) {
        bool is_known = asks_nothing(member.value);
        for (size_t n = 0; n < count && !is_known; n++)
            is_known = strcmp(known[n], member.key) == 0;
        if (!is_known)
            r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                                  "%s: '%.60s' is not understood and might change what the "
                                  "adapter computes",
                                  r->what, member.key);
    }
}
