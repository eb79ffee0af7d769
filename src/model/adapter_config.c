/* Reading adapter_config.json: every setting must be there and within its limits, and no key may
 * be there that would be left out. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/names.h"
#include "model/adapter_read.h"
#include "ops/route/route_check.h"

static const char *const known_keys[] = {
    "peft_type",
    "task_type",
    "base_model_name_or_path",
    "focal_version",
    "fingerprint",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "num_key_value_heads",
    "groups",
    "router_width",
    "scope",
    "mode",
    "router_form",
    "top",
    "top_fit",
    "window",
    "sinks",
    "layers",
    "has_temperatures",
    "causal",
    "fit",
    /* PEFT's own, which change nothing here */
    "auto_mapping",
    "inference_mode",
    "peft_version",
    "revision",
};

/* Reads members of the object; the first failure stays. */
typedef struct reader {
    focal_ctx *ctx;
    const char *what;
    const foci_json *json;
    focal_status status;
} reader;

static void fail_member(reader *r, const char *key, const char *must)
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

static int32_t read_int(reader *r, const char *key, int32_t least, int32_t most)
{
    char must[64];
    const foci_json *value = foci_json_get(r->json, key);
    const int64_t number = foci_json_int(value, -1);
    if (foci_json_is(value, FOCI_JSON_INT) && number >= least && number <= most)
        return (int32_t)number;
    (void)snprintf(must, sizeof must, "a whole number from %d to %d", least, most);
    fail_member(r, key, must);
    return least;
}

static bool read_bool(reader *r, const char *key)
{
    const foci_json *value = foci_json_get(r->json, key);
    if (!foci_json_is(value, FOCI_JSON_BOOL)) fail_member(r, key, "true or false");
    return foci_json_bool(value, false);
}

/* Whether the text is the second of two words. */
static bool read_second(reader *r, const char *key, const char *first, const char *second)
{
    char must[64];
    const char *text = foci_json_string(foci_json_get(r->json, key));
    if (text && strcmp(text, second) == 0) return true;
    if (text && strcmp(text, first) == 0) return false;
    (void)snprintf(must, sizeof must, "\"%s\" or \"%s\"", first, second);
    fail_member(r, key, must);
    return false;
}

/* A text that can stand in one line; it is printed. */
static void read_text(reader *r, const char *key, char *to, size_t capacity)
{
    char must[80];
    const foci_json *value = foci_json_get(r->json, key);
    const foci_text text = {foci_json_string(value), foci_json_length(value)};
    (void)snprintf(must, sizeof must, "a text of at most %zu bytes, without control characters",
                   capacity - 1);
    to[0] = '\0';
    if (!text.data || text.bytes >= capacity || !foci_text_is_plain(text)) {
        fail_member(r, key, must);
        return;
    }
    memcpy(to, text.data, text.bytes);
    to[text.bytes] = '\0';
}

static void read_fingerprint(reader *r, char to[FOCI_FINGERPRINT_BYTES])
{
    const foci_json *value = foci_json_get(r->json, "fingerprint");
    const char *text = foci_json_string(value);
    if (text && foci_json_length(value) == FOCI_FINGERPRINT_BYTES - 1 &&
        strspn(text, "0123456789abcdef") == FOCI_FINGERPRINT_BYTES - 1)
        memcpy(to, text, FOCI_FINGERPRINT_BYTES);
    else
        fail_member(r, "fingerprint", "16 digits of 0 to 9 and a to f");
}

/* Ascending, so that a layer is listed once. */
static void read_layers(reader *r, foci_groups_shape *shape)
{
    const foci_json *list = foci_json_get(r->json, "layers");
    int64_t before = -1;
    if (!foci_json_is(list, FOCI_JSON_ARRAY)) fail_member(r, "layers", "a list of numbers");
    for (int64_t n = 0; n < foci_json_count(list) && r->status == FOCAL_OK; n++) {
        const foci_json *value = foci_json_at(list, n);
        const int64_t layer = foci_json_int(value, -1);
        if (!foci_json_is(value, FOCI_JSON_INT)) {
            fail_member(r, "layers", "a list of numbers");
        } else if (layer < 0 || layer >= shape->L) {
            r->status =
                foci_fail(r->ctx, FOCAL_EFORMAT, "%s: 'layers' has %lld, the model's are 0 to %d",
                          r->what, (long long)layer, shape->L - 1);
        } else if (layer <= before) {
            r->status = foci_fail(r->ctx, FOCAL_EFORMAT,
                                  "%s: 'layers' has %lld behind %lld, it must ascend", r->what,
                                  (long long)layer, (long long)before);
        } else {
            shape->layers[layer] = true;
        }
        before = layer;
    }
    if (r->status == FOCAL_OK && foci_json_count(list) == 0 && !shape->has_temperatures)
        r->status = foci_fail(r->ctx, FOCAL_EFORMAT,
                              "%s: 'layers' is empty and there are no temperatures: it is nothing",
                              r->what);
}

static void read_shape(reader *r, foci_groups_shape *shape)
{
    shape->L = read_int(r, "num_hidden_layers", 1, FOCI_MAX_LAYERS);
    shape->C = read_int(r, "hidden_size", 1, FOCI_MAX_WIDTH);
    shape->H = read_int(r, "num_attention_heads", 1, FOCI_MAX_WIDTH);
    shape->G = read_int(r, "num_key_value_heads", 1, shape->H);
    if (shape->H % shape->G != 0)
        fail_member(r, "num_key_value_heads", "a divisor of num_attention_heads");
    shape->K = read_int(r, "groups", 1, FOCAL_MAX_GROUPS);
    shape->R = read_int(r, "router_width", 1, FOCI_ROUTE_MAX_WIDTH);
    shape->routers = read_second(r, "scope", "kv", "layer") ? 1 : shape->G;
    shape->mode = read_second(r, "mode", "directed", "shared") ? FOCAL_SHARED : FOCAL_DIRECTED;
    shape->is_raw = read_second(r, "router_form", "unit", "raw");
    shape->has_temperatures = read_bool(r, "has_temperatures");
    read_layers(r, shape);
}

/* What is null or false asks for nothing, whatever its name. */
static void check_keys(reader *r)
{
    foci_json_member member = {0};
    while (r->status == FOCAL_OK && foci_json_next(r->json, &member)) {
        bool is_known =
            foci_json_is(member.value, FOCI_JSON_NULL) ||
            (foci_json_is(member.value, FOCI_JSON_BOOL) && !foci_json_bool(member.value, true));
        for (size_t n = 0; n < FOCAL_COUNT(known_keys) && !is_known; n++)
            is_known = strcmp(known_keys[n], member.key) == 0;
        if (!is_known)
            r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                                  "%s: '%.60s' is not understood and might change what the "
                                  "adapter computes",
                                  r->what, member.key);
    }
}

static void check_kind(reader *r)
{
    const char *type = foci_json_string(foci_json_get(r->json, "peft_type"));
    const char *task = foci_json_string(foci_json_get(r->json, "task_type"));
    if (!foci_json_is(r->json, FOCI_JSON_OBJECT))
        r->status = foci_fail(r->ctx, FOCAL_EFORMAT, "%s: it must be an object", r->what);
    else if (!type)
        fail_member(r, "peft_type", "\"FOCUS\"");
    else if (strcmp(type, "FOCUS") != 0)
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                              "%s: peft_type %.40s: not groups (those are FOCUS)", r->what, type);
    else if (task && strcmp(task, "CAUSAL_LM") != 0)
        fail_member(r, "task_type", "\"CAUSAL_LM\"");
}

/* How it was fitted is kept and not looked into. */
static void read_settings(reader *r, char **settings)
{
    static const char none[] = "{}";
    size_t bytes = 0;
    const foci_json *fit = foci_json_get(r->json, "fit");
    const bool is_there = foci_json_kind(fit) != FOCI_JSON_NULL;
    if (is_there && !foci_json_is(fit, FOCI_JSON_OBJECT)) fail_member(r, "fit", "an object");
    if (r->status != FOCAL_OK) return;
    if (is_there) {
        r->status = foci_json_print(r->ctx, fit, settings, &bytes);
        return;
    }
    *settings = foci_alloc(r->ctx, 1, sizeof none);
    if (*settings)
        memcpy(*settings, none, sizeof none);
    else
        r->status = FOCAL_ENOMEM;
}

focal_status foci_adapter_read_config(focal_ctx *ctx, const char *what, const foci_json *json,
                                      foci_adapter_config *out)
{
    reader r = {ctx, what, json, FOCAL_OK};
    memset(out, 0, sizeof *out);
    check_kind(&r);
    check_keys(&r);
    if (r.status != FOCAL_OK) return r.status;
    if (foci_json_kind(foci_json_get(json, "base_model_name_or_path")) != FOCI_JSON_NULL)
        read_text(&r, "base_model_name_or_path", out->base, sizeof out->base);
    read_text(&r, "focal_version", out->version, sizeof out->version);
    read_fingerprint(&r, out->fingerprint);
    read_shape(&r, &out->shape);
    out->top = read_int(&r, "top", 0, out->shape.K);
    out->top_fit = read_int(&r, "top_fit", 1, out->shape.K);
    out->window = read_int(&r, "window", 0, FOCI_MAX_CONTEXT);
    out->sinks = read_int(&r, "sinks", 0, FOCI_MAX_CONTEXT);
    out->is_causal = read_bool(&r, "causal");
    read_settings(&r, &out->settings);
    return r.status;
}
