/* Reading LoRA's adapter_config.json, as peft writes it: what changes the result is honoured or
 * refused; what only says how it was trained is left alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "io/names.h"
#include "model/lora_files.h"

static const double most_alpha = 1e6;

static const char *const known_keys[] = {
    "peft_type",
    "base_model_name_or_path",
    "r",
    "lora_alpha",
    "use_rslora",
    "target_modules",
    "layers_to_transform",
    "bias",
    "rank_pattern",
    "alpha_pattern",
    "use_dora",
    "init_lora_weights",
    "task_type",
    /* of training, or of how peft finds modules: these change nothing here */
    "auto_mapping",
    "fan_in_fan_out",
    "inference_mode",
    "layers_pattern",
    "lora_dropout",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
};

static void refuse(foci_members *r, const char *key, const char *why)
{
    if (r->status == FOCAL_OK)
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED, "%s: '%s': %s", r->what, key, why);
}

static const foci_json *get(const foci_members *r, const char *key)
{
    return foci_json_get(r->json, key);
}

/* Another type than peft writes could mean anything. */
static void check_type(foci_members *r, const char *key, foci_json_type type, const char *must)
{
    const foci_json *value = get(r, key);
    if (foci_json_kind(value) != FOCI_JSON_NULL && !foci_json_is(value, type))
        foci_member_fail(r, key, must);
}

static void check_types(foci_members *r)
{
    check_type(r, "use_dora", FOCI_JSON_BOOL, "true or false");
    check_type(r, "bias", FOCI_JSON_STRING, "a text");
    check_type(r, "rank_pattern", FOCI_JSON_OBJECT, "an object");
    check_type(r, "alpha_pattern", FOCI_JSON_OBJECT, "an object");
    if (!foci_json_is(get(r, "init_lora_weights"), FOCI_JSON_BOOL))
        check_type(r, "init_lora_weights", FOCI_JSON_STRING, "true, false or a text");
}

/* What makes LoRA another thing than scale B A. */
static void check_kind(foci_members *r)
{
    /* Others replace the model's own weights before training begins. */
    static const char *const harmless[] = {"gaussian", "eva", "orthogonal"};
    const char *bias = foci_json_string(get(r, "bias"));
    const char *start = foci_json_string(get(r, "init_lora_weights"));
    bool is_harmless = start == NULL;
    for (size_t n = 0; n < FOCAL_COUNT(harmless) && !is_harmless; n++)
        is_harmless = strcmp(start, harmless[n]) == 0;
    if (foci_json_bool(get(r, "use_dora"), false))
        refuse(r, "use_dora", "DoRA also changes the lengths of the model's weights");
    if (bias && strcmp(bias, "none") != 0)
        refuse(r, "bias", "biases that were trained along are not read");
    if (foci_json_count(get(r, "rank_pattern")) > 0 || foci_json_count(get(r, "alpha_pattern")) > 0)
        refuse(r, "rank_pattern", "one rank and one alpha for all modules are read");
    if (!is_harmless)
        refuse(r, "init_lora_weights",
               "this beginning changes the model's own weights, and such adapters fit no other");
}

static double read_alpha(foci_members *r)
{
    const foci_json *value = get(r, "lora_alpha");
    const double alpha = foci_json_real(value, (double)NAN);
    if (!(fabs(alpha) <= most_alpha)) foci_member_fail(r, "lora_alpha", "a number within 1000000");
    return alpha;
}

/* Whether a module is the target, or ends in it behind a dot: peft's rule. */
static bool ends_in(const char *module, const char *target)
{
    const size_t length = strlen(module), end = strlen(target);
    if (end == 0 || end > length || strcmp(module + length - end, target) != 0) return false;
    return end == length || module[length - end - 1] == '.';
}

/* A target that is no module of a layer names a single one, or one elsewhere: the tensors say then
 * which are there. */
static bool mark_target(foci_lora_config *lora, const char *target)
{
    bool is_found = false;
    for (int names = 0; names < FOCI_LORA_NAMES; names++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const char *part = foci_lora_part((foci_lora_names)names, (foci_linear_place)place);
            if (!part || !ends_in(part, target)) continue;
            lora->targets[names][place] = is_found = true;
        }
    return is_found;
}

/* A text is a pattern, and says nothing that the tensors do not. */
static void read_targets(foci_members *r, foci_lora_config *lora)
{
    const foci_json *list = get(r, "target_modules");
    lora->has_targets = foci_json_is(list, FOCI_JSON_ARRAY);
    if (!lora->has_targets && !foci_json_is(list, FOCI_JSON_STRING))
        foci_member_fail(r, "target_modules", "a list of names, or a pattern");
    for (int64_t n = 0; n < foci_json_count(list); n++) {
        const char *target = foci_json_string(foci_json_at(list, n));
        if (!target)
            foci_member_fail(r, "target_modules", "a list of names, or a pattern");
        else if (!mark_target(lora, target))
            lora->has_targets = false;
    }
}

static void read_layers(foci_members *r, foci_lora_config *lora)
{
    static const char key[] = "layers_to_transform";
    const foci_json *value = get(r, key);
    const bool is_one = foci_json_is(value, FOCI_JSON_INT);
    const int64_t count = is_one ? 1 : foci_json_count(value);
    char must[80];
    (void)snprintf(must, sizeof must, "a list of layers from 0 to %d", FOCI_MAX_LAYERS - 1);
    lora->has_layers = count > 0;
    if (!is_one && foci_json_kind(value) != FOCI_JSON_NULL && !foci_json_is(value, FOCI_JSON_ARRAY))
        foci_member_fail(r, key, must);
    for (int64_t n = 0; n < count; n++) {
        const int64_t layer = foci_json_int(is_one ? value : foci_json_at(value, n), -1);
        if (layer >= 0 && layer < FOCI_MAX_LAYERS)
            lora->layers[layer] = true;
        else
            foci_member_fail(r, key, must);
    }
}

/* A path of somebody's machine may be anything; it is only shown. */
static void read_base(foci_members *r, char to[FOCI_BASE_NAME_BYTES])
{
    const foci_json *value = get(r, "base_model_name_or_path");
    const foci_text text = {foci_json_string(value), foci_json_length(value)};
    if (!text.data || text.bytes >= FOCI_BASE_NAME_BYTES || !foci_text_is_plain(text)) return;
    memcpy(to, text.data, text.bytes);
}

void foci_lora_read_config(foci_members *r, foci_adapter_config *out)
{
    foci_lora_config *lora = &out->lora;
    check_types(r);
    check_kind(r);
    foci_members_check_keys(r, known_keys, FOCAL_COUNT(known_keys));
    if (r->status != FOCAL_OK) return;
    read_base(r, out->base);
    lora->rank = foci_member_int(r, "r", 1, FOCI_MAX_LOW_RANK);
    lora->alpha = read_alpha(r);
    if (foci_json_kind(get(r, "use_rslora")) != FOCI_JSON_NULL)
        lora->is_root_scaled = foci_member_bool(r, "use_rslora");
    read_targets(r, lora);
    read_layers(r, lora);
}
