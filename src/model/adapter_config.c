/* Reading adapter_config.json: every setting must be there and within its limits, and no key may
 * be there that would be left out. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/adapter_members.h"
#include "model/adapter_read.h"
#include "model/lora_files.h"
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
    "seed",
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

/* Whether the text is the second of two words. */
static bool read_second(foci_members *r, const char *key, const char *first, const char *second)
{
    char must[64];
    const char *text = foci_json_string(foci_json_get(r->json, key));
    if (text && strcmp(text, second) == 0) return true;
    if (text && strcmp(text, first) == 0) return false;
    (void)snprintf(must, sizeof must, "\"%s\" or \"%s\"", first, second);
    foci_member_fail(r, key, must);
    return false;
}

static void read_fingerprint(foci_members *r, char to[FOCI_FINGERPRINT_BYTES])
{
    const foci_json *value = foci_json_get(r->json, "fingerprint");
    const char *text = foci_json_string(value);
    if (text && foci_is_fingerprint(text) && foci_json_length(value) == strlen(text))
        memcpy(to, text, FOCI_FINGERPRINT_BYTES);
    else
        foci_member_fail(r, "fingerprint", "16 digits of 0 to 9 and a to f");
}

/* Ascending, so that a layer is listed once. */
static void read_layers(foci_members *r, foci_groups_shape *shape)
{
    const foci_json *list = foci_json_get(r->json, "layers");
    int64_t before = -1;
    if (!foci_json_is(list, FOCI_JSON_ARRAY)) foci_member_fail(r, "layers", "a list of numbers");
    for (int64_t n = 0; n < foci_json_count(list) && r->status == FOCAL_OK; n++) {
        const foci_json *value = foci_json_at(list, n);
        const int64_t layer = foci_json_int(value, -1);
        if (!foci_json_is(value, FOCI_JSON_INT)) {
            foci_member_fail(r, "layers", "a list of numbers");
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
    if (foci_json_count(list) == 0 && shape->source == FOCI_GROUPS_SCALE)
        foci_member_fail(r, "layers", "a list of some where router_form is \"scale\"");
    if (r->status == FOCAL_OK && foci_json_count(list) == 0 && !shape->has_temperatures)
        r->status = foci_fail(r->ctx, FOCAL_EFORMAT,
                              "%s: 'layers' is empty and there are no temperatures: it is nothing",
                              r->what);
}

static void read_form(foci_members *r, foci_groups_shape *shape)
{
    static const struct {
        const char *word;
        foci_groups_source source;
    } forms[] = {{"unit", FOCI_GROUPS_ROUTER},
                 {"raw", FOCI_GROUPS_ROUTER},
                 {"random", FOCI_GROUPS_RANDOM},
                 {"none", FOCI_GROUPS_NONE},
                 {"scale", FOCI_GROUPS_SCALE}};
    const char *text = foci_json_string(foci_json_get(r->json, "router_form"));
    for (size_t n = 0; text && n < FOCAL_COUNT(forms); n++) {
        if (strcmp(text, forms[n].word) != 0) continue;
        shape->source = forms[n].source;
        shape->is_raw = n == 1;
        return;
    }
    foci_member_fail(r, "router_form", "\"unit\", \"raw\", \"random\", \"none\" or \"scale\"");
}

/* Of random groups, and of no others. */
static void read_seed(foci_members *r, foci_groups_shape *shape)
{
    const foci_json *value = foci_json_get(r->json, "seed");
    const int64_t seed = foci_json_int(value, -1);
    if (shape->source != FOCI_GROUPS_RANDOM) {
        if (foci_json_kind(value) != FOCI_JSON_NULL)
            foci_member_fail(r, "seed", "left out where groups are not random");
        return;
    }
    if (!foci_json_is(value, FOCI_JSON_INT) || seed < 0 || seed > FOCI_GROUPS_MOST_SEED)
        foci_member_fail(r, "seed", "a whole number from 0 to 9007199254740992");
    else
        shape->seed = seed;
}

static void read_shape(foci_members *r, foci_groups_shape *shape)
{
    shape->L = foci_member_int(r, "num_hidden_layers", 1, FOCI_MAX_LAYERS);
    shape->C = foci_member_int(r, "hidden_size", 1, FOCI_MAX_WIDTH);
    shape->H = foci_member_int(r, "num_attention_heads", 1, FOCI_MAX_WIDTH);
    shape->G = foci_member_int(r, "num_key_value_heads", 1, shape->H);
    if (shape->H % shape->G != 0)
        foci_member_fail(r, "num_key_value_heads", "a divisor of num_attention_heads");
    shape->K = foci_member_int(r, "groups", 1, FOCAL_MAX_GROUPS);
    shape->R = foci_member_int(r, "router_width", 1, FOCI_ROUTE_MAX_WIDTH);
    shape->routers = read_second(r, "scope", "kv", "layer") ? 1 : shape->G;
    shape->mode = read_second(r, "mode", "directed", "shared") ? FOCAL_SHARED : FOCAL_DIRECTED;
    read_form(r, shape);
    read_seed(r, shape);
    shape->has_temperatures = foci_member_bool(r, "has_temperatures");
    read_layers(r, shape);
}

static void check_kind(foci_members *r)
{
    const char *type = foci_json_string(foci_json_get(r->json, "peft_type"));
    const foci_json *task = foci_json_get(r->json, "task_type");
    const char *task_name = foci_json_string(task);
    if (!foci_json_is(r->json, FOCI_JSON_OBJECT))
        r->status = foci_fail(r->ctx, FOCAL_EFORMAT, "%s: it must be an object", r->what);
    else if (!type)
        foci_member_fail(r, "peft_type", "\"FOCUS\" or \"LORA\"");
    else if (strcmp(type, "FOCUS") != 0 && strcmp(type, "LORA") != 0)
        r->status =
            foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                      "%s: peft_type %.40s: neither groups (FOCUS) nor LORA", r->what, type);
    else if (foci_json_kind(task) != FOCI_JSON_NULL &&
             (!task_name || strcmp(task_name, "CAUSAL_LM") != 0))
        foci_member_fail(r, "task_type", "\"CAUSAL_LM\"");
}

static void read_groups(foci_members *r, foci_adapter_config *out)
{
    foci_members_check_keys(r, known_keys, FOCAL_COUNT(known_keys));
    if (r->status != FOCAL_OK) return;
    if (foci_json_kind(foci_json_get(r->json, "base_model_name_or_path")) != FOCI_JSON_NULL)
        foci_member_text(r, "base_model_name_or_path", out->base, sizeof out->base);
    foci_member_text(r, "focal_version", out->version, sizeof out->version);
    read_fingerprint(r, out->fingerprint);
    read_shape(r, &out->shape);
    out->top = foci_member_int(r, "top", 0, out->shape.K);
    if (out->top > 0 && !foci_groups_exist(&out->shape))
        foci_member_fail(r, "top", "0 where router_form is \"none\" or \"scale\"");
    out->top_fit = foci_member_int(r, "top_fit", 1, out->shape.K);
    out->window = foci_member_int(r, "window", 0, FOCI_MAX_CONTEXT);
    out->sinks = foci_member_int(r, "sinks", 0, FOCI_MAX_CONTEXT);
    out->is_causal = foci_member_bool(r, "causal");
    foci_member_object(r, "fit", &out->settings); /* kept, and not looked into */
}

focal_status foci_adapter_read_config(focal_ctx *ctx, const char *what, const foci_json *json,
                                      foci_adapter_config *out)
{
    foci_members r = {ctx, what, json, FOCAL_OK};
    memset(out, 0, sizeof *out);
    check_kind(&r);
    if (r.status != FOCAL_OK) return r.status;
    out->is_lora = strcmp(foci_json_string(foci_json_get(json, "peft_type")), "LORA") == 0;
    if (out->is_lora)
        foci_lora_read_config(&r, out);
    else
        read_groups(&r, out);
    return r.status;
}
