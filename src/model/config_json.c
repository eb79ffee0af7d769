/* A model's configuration from Hugging Face's config.json: the keys of transformers 4 and of 5. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "model/config.h"

enum { DESCRIBED_BYTES = 32 };

/* Keys that are read here. */
static const char *const read_keys[] = {
    "model_type",
    "architectures",
    "vocab_size",
    "hidden_size",
    "n_embd",
    "intermediate_size",
    "n_inner",
    "num_hidden_layers",
    "n_layer",
    "num_attention_heads",
    "n_head",
    "num_key_value_heads",
    "head_dim",
    "max_position_embeddings",
    "n_positions",
    "n_ctx",
    "rms_norm_eps",
    "layer_norm_epsilon",
    "hidden_act",
    "hidden_activation",
    "activation_function",
    "rope_theta",
    "rope_scaling",
    "rope_parameters",
    "rope_local_base_freq",
    "partial_rotary_factor",
    "sliding_window",
    "sliding_window_pattern",
    "_sliding_window_pattern",
    "use_sliding_window",
    "max_window_layers",
    "layer_types",
    "query_pre_attn_scalar",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "scale_attn_weights",
    "scale_attn_by_inverse_layer_idx",
    "tie_word_embeddings",
    "use_bidirectional_attention",
    "is_decoder",
    "add_cross_attention",
    "quantization_config",
    "focal_temperature",
};

/* Keys that change nothing here: of training, of other programs, of files that speak for
 * themselves (whether biases are there shows in the weights). */
static const char *const harmless_keys[] = {
    "attention_bias",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "bos_token_id",
    "cache_implementation",
    "decoder_start_token_id",
    "dtype",
    "embd_pdrop",
    "eos_token_id",
    "finetuning_task",
    "focal_metadata",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "id2label",
    "initializer_range",
    "is_encoder_decoder",
    "is_llama_config",
    "label2id",
    "mlp_bias",
    "name_or_path",
    "output_attentions",
    "output_hidden_states",
    "pad_token_id",
    "pretraining_tp",
    "reorder_and_upcast_attn",
    "resid_pdrop",
    "return_dict",
    "rope_interleaved",
    "sep_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "torch_dtype",
    "transformers.js_config",
    "transformers_version",
    "unsloth_fixed",
    "unsloth_version",
    "use_cache",
};

static bool is_listed(const char *const *list, size_t count, const char *key)
{
    for (size_t n = 0; n < count; n++)
        if (strcmp(list[n], key) == 0) return true;
    return false;
}

/* What is null or false asks for nothing, whatever its name. */
static focal_status check_keys(focal_ctx *ctx, const char *what, const foci_json *json)
{
    foci_json_member member = {0};
    while (foci_json_next(json, &member)) {
        if (foci_json_is(member.value, FOCI_JSON_NULL) ||
            (foci_json_is(member.value, FOCI_JSON_BOOL) && !foci_json_bool(member.value, true)))
            continue;
        if (is_listed(read_keys, FOCAL_COUNT(read_keys), member.key) ||
            is_listed(harmless_keys, FOCAL_COUNT(harmless_keys), member.key) ||
            (member.key[0] == '_' && member.key[1] != '\0'))
            continue;
        return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                         "%s: '%.60s' is not understood and might change what the model computes",
                         what, member.key);
    }
    return FOCAL_OK;
}

/* Reads members of one object; the first failure stays. */
typedef struct member_reader {
    focal_ctx *ctx;
    const char *what;
    const foci_json *json;
    focal_status status;
} member_reader;

/* A value in a few words, for messages. */
static const char *describe(const foci_json *value, char text[DESCRIBED_BYTES])
{
    static const char *const kinds[] = {[FOCI_JSON_NULL] = "missing",
                                        [FOCI_JSON_STRING] = "a string",
                                        [FOCI_JSON_ARRAY] = "a list",
                                        [FOCI_JSON_OBJECT] = "an object"};
    switch (foci_json_kind(value)) {
    case FOCI_JSON_BOOL:
        return foci_json_bool(value, false) ? "true" : "false";
    case FOCI_JSON_INT:
        (void)snprintf(text, DESCRIBED_BYTES, "%lld", (long long)foci_json_int(value, 0));
        return text;
    case FOCI_JSON_REAL:
        (void)snprintf(text, DESCRIBED_BYTES, "%g", foci_json_real(value, 0.0));
        return text;
    default:
        return kinds[foci_json_kind(value)];
    }
}

static void fail_member(member_reader *r, const char *key, const char *must)
{
    char text[DESCRIBED_BYTES];
    if (r->status == FOCAL_OK)
        r->status = foci_fail(r->ctx, FOCAL_EFORMAT, "%s: '%s' is %s, it must be %s", r->what, key,
                              describe(foci_json_get(r->json, key), text), must);
}

/* Null counts as missing. */
static bool has_member(const member_reader *r, const char *key)
{
    const foci_json *value = foci_json_get(r->json, key);
    return value && !foci_json_is(value, FOCI_JSON_NULL);
}

/* The member, or the one that older files have in its place. */
static const foci_json *either(const member_reader *r, const char *key, const char *other)
{
    if (other && !has_member(r, key)) key = other;
    return has_member(r, key) ? foci_json_get(r->json, key) : NULL;
}

static int32_t int_between(member_reader *r, const char *key, int32_t least, int32_t most)
{
    char must[64];
    const int64_t number = foci_json_int(foci_json_get(r->json, key), -1);
    if (number >= least && number <= most) return (int32_t)number;
    (void)snprintf(must, sizeof must, "a whole number from %d to %d", least, most);
    fail_member(r, key, must);
    return least;
}

static int32_t read_int(member_reader *r, const char *key, const char *other, int32_t most,
                        int32_t fallback)
{
    if (other && !has_member(r, key)) key = other;
    return has_member(r, key) ? int_between(r, key, 0, most) : fallback;
}

/* One that must be there, and be 1 at least. */
static int32_t need_int(member_reader *r, const char *key, const char *other, int32_t most)
{
    if (other && has_member(r, other) && !has_member(r, key)) key = other;
    return int_between(r, key, 1, most);
}

static double read_real(member_reader *r, const char *key, double fallback)
{
    const foci_json *value = either(r, key, NULL);
    if (!value) return fallback;
    const double number = foci_json_real(value, (double)NAN);
    if (!isfinite(number)) fail_member(r, key, "a number");
    return number;
}

static bool read_bool(member_reader *r, const char *key, bool fallback)
{
    const foci_json *value = either(r, key, NULL);
    if (value && !foci_json_is(value, FOCI_JSON_BOOL)) fail_member(r, key, "true or false");
    return foci_json_bool(value, fallback);
}

static foci_activation read_activation(member_reader *r, const foci_family *family)
{
    static const struct {
        const char *name;
        foci_activation activation;
    } names[] = {
        {"silu", FOCI_SILU},          {"swish", FOCI_SILU},
        {"gelu", FOCI_GELU},          {"gelu_pytorch_tanh", FOCI_GELU_TANH},
        {"gelu_new", FOCI_GELU_TANH}, {"gelu_fast", FOCI_GELU_TANH},
    };
    /* transformers computes Gemma by hidden_activation, whatever hidden_act says. */
    const foci_json *value = either(r, "hidden_activation", "activation_function");
    if (!value && !family->has_scaled_embed) value = either(r, "hidden_act", NULL);
    if (!value) return family->activation;
    const char *name = foci_json_string(value);
    for (size_t n = 0; name && n < FOCAL_COUNT(names); n++)
        if (strcmp(names[n].name, name) == 0) return names[n].activation;
    if (r->status == FOCAL_OK)
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                              "%s: the activation '%.40s' is not silu or a gelu", r->what,
                              name ? name : "?");
    return family->activation;
}

/* How much of a head of D turns. */
static int32_t read_rotated(member_reader *r, int32_t D, int32_t fallback)
{
    const double part = read_real(r, "partial_rotary_factor", 1.0);
    if (!has_member(r, "partial_rotary_factor")) return fallback;
    if (part > 0.0 && part <= 1.0) return (int32_t)(part * (double)D);
    fail_member(r, "partial_rotary_factor", "above 0 and at most 1");
    return fallback;
}

/* One description of rotation: an old rope_scaling, or a new rope_parameters, beside what is
 * already in rope. */
static void read_rope(member_reader *parent, const foci_json *json, foci_rope_config *rope,
                      const foci_config *c)
{
    static const char *const keys[] = {"type",
                                       "rope_type",
                                       "rope_theta",
                                       "factor",
                                       "low_freq_factor",
                                       "high_freq_factor",
                                       "original_max_position_embeddings",
                                       "beta_fast",
                                       "beta_slow",
                                       "attention_factor",
                                       "mscale",
                                       "mscale_all_dim",
                                       "truncate",
                                       "partial_rotary_factor",
                                       "finetuned"};
    if (!json) return;
    member_reader r = {parent->ctx, parent->what, json, parent->status};
    if (!foci_json_is(json, FOCI_JSON_OBJECT)) {
        char text[DESCRIBED_BYTES];
        if (parent->status == FOCAL_OK)
            parent->status = foci_fail(parent->ctx, FOCAL_EFORMAT,
                                       "%s: the rope's description is %s, it must be an object",
                                       parent->what, describe(json, text));
        return;
    }
    foci_json_member member = {0};
    while (r.status == FOCAL_OK && foci_json_next(json, &member))
        if (!is_listed(keys, FOCAL_COUNT(keys), member.key) &&
            !foci_json_is(member.value, FOCI_JSON_NULL))
            r.status = foci_fail(r.ctx, FOCAL_EUNSUPPORTED,
                                 "%s: '%.60s' in the rope's description is not understood", r.what,
                                 member.key);
    const char *key = has_member(&r, "rope_type") ? "rope_type" : "type";
    const char *name = has_member(&r, key) ? foci_json_string(foci_json_get(json, key)) : "default";
    rope->rotated = read_rotated(&r, c->D, rope->rotated);
    rope->base = read_real(&r, "rope_theta", rope->base);
    rope->factor = read_real(&r, "factor", 1.0);
    rope->original_context =
        read_int(&r, "original_max_position_embeddings", NULL, FOCI_MAX_CONTEXT, c->context);
    if (!name) {
        fail_member(&r, key, "a string");
    } else if (strcmp(name, "default") == 0) {
        rope->kind = FOCI_ROPE_PLAIN;
        if (rope->factor != 1.0) fail_member(&r, "factor", "1 without a rope type");
    } else if (strcmp(name, "linear") == 0) {
        rope->kind = FOCI_ROPE_LINEAR;
    } else if (strcmp(name, "llama3") == 0) {
        rope->kind = FOCI_ROPE_LLAMA3;
        rope->low = read_real(&r, "low_freq_factor", 1.0);
        rope->high = read_real(&r, "high_freq_factor", 4.0);
    } else if (strcmp(name, "yarn") == 0) {
        rope->kind = FOCI_ROPE_YARN;
        rope->beta_fast = read_real(&r, "beta_fast", 0.0);
        rope->beta_slow = read_real(&r, "beta_slow", 0.0);
        rope->mscale = read_real(&r, "mscale", 0.0);
        rope->mscale_all_dim = read_real(&r, "mscale_all_dim", 0.0);
        rope->attention_factor = read_real(&r, "attention_factor", 0.0);
        rope->is_untruncated = !read_bool(&r, "truncate", true);
    } else if (r.status == FOCAL_OK) {
        r.status =
            foci_fail(r.ctx, FOCAL_EUNSUPPORTED,
                      "%s: the rope type '%.40s' is not linear, llama3 or yarn", r.what, name);
    }
    parent->status = r.status;
}

static void read_ropes(member_reader *r, foci_config *c)
{
    c->rope = (foci_rope_config){.rotated = read_rotated(r, c->D, c->D),
                                 .base = read_real(r, "rope_theta", 10000.0)};
    c->rope_local = c->rope;
    const foci_json *both = either(r, "rope_parameters", NULL);
    const foci_json *global = foci_json_get(both, "full_attention");
    const foci_json *local = foci_json_get(both, "sliding_attention");
    if (global || local) { /* transformers 5: one for each kind of layer */
        read_rope(r, global, &c->rope, c);
        read_rope(r, local, &c->rope_local, c);
        return;
    }
    read_rope(r, both ? both : either(r, "rope_scaling", NULL), &c->rope, c);
    if (either(r, "rope_local_base_freq", NULL) || c->family->local_period == 6)
        c->rope_local.base = read_real(r, "rope_local_base_freq", 10000.0);
    else
        c->rope_local = c->rope;
}

/* Which layers have the window: by a list, by the family's period, or all that are left when
 * max_window_layers are counted (Qwen). */
static void read_windows(member_reader *r, foci_config *c)
{
    const int32_t sliding = read_int(r, "sliding_window", NULL, FOCI_MAX_CONTEXT, 0);
    const bool is_on = read_bool(r, "use_sliding_window",
                                 strncmp(c->family->name, "qwen", 4) != 0 &&
                                     strcmp(c->family->name, "llama") != 0);
    const foci_json *types = either(r, "layer_types", NULL);
    if (types && foci_json_count(types) != c->L) fail_member(r, "layer_types", "one a layer");
    if (r->status != FOCAL_OK) return;
    if (sliding > 0) c->window = sliding - 1;
    if (types) {
        for (int32_t n = 0; n < c->L && r->status == FOCAL_OK; n++) {
            const char *type = foci_json_string(foci_json_at(types, n));
            c->is_local[n] = type && strcmp(type, "sliding_attention") == 0;
            if (!c->is_local[n] && (!type || strcmp(type, "full_attention") != 0))
                fail_member(r, "layer_types", "a list of full_attention and sliding_attention");
            if (c->is_local[n] && sliding == 0)
                fail_member(r, "sliding_window", "a number, for layer_types has such layers");
        }
        return;
    }
    if (sliding == 0 || !is_on) return;
    if (c->family->local_period > 0) {
        int32_t period = read_int(r, "sliding_window_pattern", "_sliding_window_pattern",
                                  FOCI_MAX_LAYERS, c->family->local_period);
        foci_config_spread_windows(c, period, c->family->global_is_first);
        return;
    }
    const int32_t from = strncmp(c->family->name, "qwen", 4) == 0
                             ? read_int(r, "max_window_layers", NULL, INT32_MAX, 28)
                             : 0;
    for (int32_t n = from; n < c->L; n++) c->is_local[n] = true;
}

/* What transformers can do and these families do not: only the usual value passes. */
static void refuse_variants(member_reader *r)
{
    if (!read_bool(r, "scale_attn_weights", true)) fail_member(r, "scale_attn_weights", "true");
    if (read_bool(r, "scale_attn_by_inverse_layer_idx", false))
        fail_member(r, "scale_attn_by_inverse_layer_idx", "false");
    if (read_bool(r, "use_bidirectional_attention", false))
        fail_member(r, "use_bidirectional_attention", "false");
    if (read_bool(r, "add_cross_attention", false)) fail_member(r, "add_cross_attention", "false");
    if (either(r, "quantization_config", NULL) && r->status == FOCAL_OK)
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                              "%s: weights of another program's quantisation; take the original "
                              "model or a GGUF file",
                              r->what);
}

focal_status foci_config_from_json(focal_ctx *ctx, const char *what, const foci_json *json,
                                   foci_config *out)
{
    member_reader r = {ctx, what, json, FOCAL_OK};
    const char *type = foci_json_string(foci_json_get(json, "model_type"));
    if (!type) return foci_fail(ctx, FOCAL_EFORMAT, "%s: 'model_type' is missing", what);
    const foci_json *text = foci_json_get(json, "text_config");
    if (strcmp(type, "gemma3") == 0 && text) { /* with pictures: the language model inside */
        r.json = json = text;
        type = "gemma3_text";
    }
    /* A name of focal's own, and what it stands for, come together. */
    const size_t own = strlen(FOCI_OWN_HF);
    const bool is_own = strncmp(type, FOCI_OWN_HF, own) == 0;
    const foci_json *temperature = either(&r, "focal_temperature", NULL);
    const foci_family *family = foci_family_of_hf(is_own ? type + own : type);
    if (family && temperature && !is_own)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: 'focal_temperature' in a model of type %.40s, which has none", what,
                         type);
    if (!family)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: the model type '%.40s' is not one of %s",
                         what, type, foci_family_names());
    FOCAL_TRY(check_keys(ctx, what, json));
    foci_config c = {.family = family,
                     .norm = family->norm,
                     .norm_place = family->norm_place,
                     .norm_offset = family->has_offset_norms ? 1.0F : 0.0F,
                     .qk_norm = family->qk_norm,
                     .is_gated = !family->is_gpt2,
                     .has_positions = family->is_gpt2,
                     .embed_scale = 1.0F,
                     .rope_style = FOCI_ROPE_HALVES};
    c.L = need_int(&r, "num_hidden_layers", "n_layer", FOCI_MAX_LAYERS);
    c.C = need_int(&r, "hidden_size", "n_embd", FOCI_MAX_WIDTH);
    c.H = need_int(&r, "num_attention_heads", "n_head", FOCI_MAX_WIDTH);
    c.G = read_int(&r, "num_key_value_heads", NULL, FOCI_MAX_WIDTH, c.H);
    c.D = read_int(&r, "head_dim", NULL, FOCI_MAX_WIDTH, c.H > 0 ? c.C / c.H : 0);
    c.F = family->is_gpt2 ? read_int(&r, "n_inner", NULL, FOCI_MAX_HIDDEN, 4 * c.C)
                          : need_int(&r, "intermediate_size", NULL, FOCI_MAX_HIDDEN);
    c.V = need_int(&r, "vocab_size", NULL, FOCI_MAX_VOCAB);
    c.context = need_int(&r, "max_position_embeddings", "n_positions", FOCI_MAX_CONTEXT);
    c.epsilon = (float)read_real(&r, family->is_gpt2 ? "layer_norm_epsilon" : "rms_norm_eps",
                                 family->is_gpt2 ? 1e-5 : 1e-6);
    c.activation = read_activation(&r, family);
    const double scalar = read_real(&r, "query_pre_attn_scalar", c.D > 0 ? c.D : 1);
    c.attn_scale = (float)(1.0 / sqrt(scalar));
    c.attn_softcap = (float)read_real(&r, "attn_logit_softcapping", 0.0);
    c.final_softcap = (float)read_real(&r, "final_logit_softcapping", 0.0);
    if (family->has_scaled_embed) c.embed_scale = sqrtf((float)c.C);
    c.is_tied = read_bool(&r, "tie_word_embeddings", false);
    if (!c.has_positions) read_ropes(&r, &c);
    read_windows(&r, &c);
    refuse_variants(&r);
    FOCAL_TRY(r.status);
    FOCAL_TRY(foci_config_check(ctx, what, &c));
    if (is_own) FOCAL_TRY(foci_temperature_from_json(ctx, what, temperature, &c));
    *out = c;
    return FOCAL_OK;
}
