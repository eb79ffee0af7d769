/* A model's configuration from GGUF metadata: keys under the architecture's name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "model/config.h"

enum { KEY_BYTES = 128 };

/* Keys under the architecture's name that are read here, and those that change nothing. Any other
 * might change what is computed. */
static const char *const known_keys[] = {
    "block_count",
    "context_length",
    "embedding_length",
    "feed_forward_length",
    "vocab_size",
    "attention.head_count",
    "attention.head_count_kv",
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_rms_epsilon",
    "attention.layer_norm_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "attention.scale",
    "attention.causal",
    "attn_logit_softcapping",
    "final_logit_softcapping",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.freq_base_swa",
    "rope.local.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.original_context_length",
    "rope.scaling.finetuned",
    "rope.scaling.attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "rope.scaling.yarn_log_multiplier",
    "tensor_data_layout",
};

/* Reads keys under one prefix; the first failure stays. */
typedef struct key_reader {
    focal_ctx *ctx;
    const foci_gguf *gguf;
    const char *prefix;
    focal_status status;
} key_reader;

static const char *full_key(const key_reader *r, const char *name, char key[KEY_BYTES])
{
    (void)snprintf(key, KEY_BYTES, "%s.%s", r->prefix, name);
    return key;
}

static bool has_key(const key_reader *r, const char *name)
{
    char key[KEY_BYTES];
    return foci_gguf_has(r->gguf, full_key(r, name, key));
}

static int32_t int_between(key_reader *r, const char *name, int32_t least, int32_t most,
                           int32_t fallback)
{
    char key[KEY_BYTES];
    int64_t value = fallback;
    if (r->status == FOCAL_OK)
        r->status = foci_gguf_get_int(r->gguf, full_key(r, name, key), least, most, &value);
    return (int32_t)value;
}

static int32_t read_int(key_reader *r, const char *name, int32_t most, int32_t fallback)
{
    return int_between(r, name, 0, most, fallback);
}

/* The same for a key that must be there, and be 1 at least. */
static int32_t need_int(key_reader *r, const char *name, int32_t most)
{
    char key[KEY_BYTES];
    if (r->status == FOCAL_OK && !has_key(r, name))
        r->status = foci_fail(r->ctx, FOCAL_EFORMAT, "%s: the key '%s' is missing",
                              foci_gguf_path(r->gguf), full_key(r, name, key));
    return int_between(r, name, 1, most, 1);
}

static double read_real(key_reader *r, const char *name, double fallback)
{
    char key[KEY_BYTES];
    double value = fallback;
    if (r->status == FOCAL_OK)
        r->status = foci_gguf_get_real(r->gguf, full_key(r, name, key), &value);
    return value;
}

static bool is_known(const char *name, size_t bytes, bool is_own)
{
    static const char temperature[] = "attention.temperature.";
    static const char *const own_keys[] = {"kind", "value", "c", "length", "layers", "heads"};
    const size_t start = sizeof temperature - 1;
    for (size_t n = 0; is_own && n < FOCAL_COUNT(own_keys); n++)
        if (bytes == start + strlen(own_keys[n]) && memcmp(name, temperature, start) == 0 &&
            memcmp(name + start, own_keys[n], bytes - start) == 0)
            return true;
    for (size_t n = 0; n < FOCAL_COUNT(known_keys); n++)
        if (strlen(known_keys[n]) == bytes && memcmp(known_keys[n], name, bytes) == 0) return true;
    return false;
}

static focal_status check_keys(focal_ctx *ctx, const foci_gguf *gguf, const char *prefix,
                               bool is_own)
{
    const size_t length = strlen(prefix);
    for (int64_t n = 0; n < foci_gguf_key_count(gguf); n++) {
        const foci_text key = foci_gguf_key(gguf, n);
        if (key.bytes <= length + 1 || memcmp(key.data, prefix, length) != 0 ||
            key.data[length] != '.')
            continue;
        if (!is_known(key.data + length + 1, key.bytes - length - 1, is_own))
            return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                             "%s: the key '%.*s' is not understood and might change what the model "
                             "computes",
                             foci_gguf_path(gguf), (int)foci_min64((int64_t)key.bytes, 100),
                             key.data);
    }
    return FOCAL_OK;
}

static void read_rope(key_reader *r, foci_config *c)
{
    foci_text type = {"none", 4};
    char key[KEY_BYTES];
    foci_rope_config *rope = &c->rope;
    rope->rotated = read_int(r, "rope.dimension_count", FOCI_MAX_WIDTH, c->D);
    rope->base = read_real(r, "rope.freq_base", 10000.0);
    rope->factor = read_real(r, "rope.scaling.factor", read_real(r, "rope.scale_linear", 1.0));
    if (r->status == FOCAL_OK)
        r->status = foci_gguf_get_text(r->gguf, full_key(r, "rope.scaling.type", key), &type);
    const bool is_old_linear = !has_key(r, "rope.scaling.type") && rope->factor != 1.0;
    if (is_old_linear || (type.bytes == 6 && memcmp(type.data, "linear", 6) == 0)) {
        rope->kind = FOCI_ROPE_LINEAR;
    } else if (type.bytes == 4 && memcmp(type.data, "yarn", 4) == 0) {
        rope->kind = FOCI_ROPE_YARN;
        rope->original_context =
            read_int(r, "rope.scaling.original_context_length", FOCI_MAX_CONTEXT, c->context);
        rope->beta_fast = read_real(r, "rope.scaling.yarn_beta_fast", 0.0);
        rope->beta_slow = read_real(r, "rope.scaling.yarn_beta_slow", 0.0);
    } else if (!(type.bytes == 4 && memcmp(type.data, "none", 4) == 0) && r->status == FOCAL_OK) {
        r->status =
            foci_fail(r->ctx, FOCAL_EUNSUPPORTED, "%s: the rope scaling '%.*s' is unknown",
                      foci_gguf_path(r->gguf), (int)foci_min64((int64_t)type.bytes, 40), type.data);
    }
    const double log_multiplier = read_real(r, "rope.scaling.yarn_log_multiplier", 0.0);
    const double attn_factor = read_real(r, "rope.scaling.attn_factor", 1.0);
    if (r->status == FOCAL_OK && (log_multiplier != 0.0 || attn_factor != 1.0))
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED,
                              "%s: '%s.rope.scaling' has a factor of its own for attention",
                              foci_gguf_path(r->gguf), r->prefix);
    /* Windowed layers turn at the base of the first models and are not scaled (Gemma 3). */
    c->rope_local = *rope;
    if (c->family->local_period == 6)
        c->rope_local = (foci_rope_config){.rotated = rope->rotated, .base = 10000.0};
    c->rope_local.base = read_real(r, "rope.freq_base_swa",
                                   read_real(r, "rope.local.freq_base", c->rope_local.base));
}

static void read_attention(key_reader *r, foci_config *c)
{
    c->H = need_int(r, "attention.head_count", FOCI_MAX_WIDTH);
    c->G = read_int(r, "attention.head_count_kv", FOCI_MAX_WIDTH, c->H);
    const int32_t width = c->H > 0 ? c->C / c->H : 0;
    c->D = read_int(r, "attention.key_length", FOCI_MAX_WIDTH, width);
    const int32_t Dv = read_int(r, "attention.value_length", FOCI_MAX_WIDTH, c->D);
    if (r->status == FOCAL_OK && Dv != c->D)
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED, "%s: keys of %d and values of %d a head",
                              foci_gguf_path(r->gguf), c->D, Dv);
    bool is_causal = true;
    char key[KEY_BYTES];
    if (r->status == FOCAL_OK)
        r->status = foci_gguf_get_bool(r->gguf, full_key(r, "attention.causal", key), &is_causal);
    if (r->status == FOCAL_OK && !is_causal)
        r->status = foci_fail(r->ctx, FOCAL_EUNSUPPORTED, "%s: '%s' is false, it must be true",
                              foci_gguf_path(r->gguf), key);
    /* The largest Gemma 2 and 3 scale by the width a head would have, which the file does not say:
     * they are known by their layers. */
    const bool is_largest_gemma =
        c->family->has_scaled_embed && c->L == (c->family->local_period == 2 ? 46 : 62);
    const double scale = 1.0 / sqrt(c->D > 0 ? (is_largest_gemma ? width : c->D) : 1);
    c->attn_scale = (float)read_real(r, "attention.scale", scale);
    c->attn_softcap = (float)read_real(r, "attn_logit_softcapping",
                                       strcmp(c->family->name, "gemma2") == 0 ? 50.0 : 0.0);
    c->final_softcap = (float)read_real(r, "final_logit_softcapping",
                                        strcmp(c->family->name, "gemma2") == 0 ? 30.0 : 0.0);
    const int32_t sliding = read_int(r, "attention.sliding_window", FOCI_MAX_CONTEXT, 0);
    const int32_t period =
        read_int(r, "attention.sliding_window_pattern", FOCI_MAX_LAYERS, c->family->local_period);
    if (sliding > 0 && sliding < c->context) {
        c->window = sliding - 1;
        foci_config_spread_windows(c, period, c->family->global_is_first);
    }
}

focal_status foci_config_from_gguf(focal_ctx *ctx, const foci_gguf *gguf, foci_config *out)
{
    const char *path = foci_gguf_path(gguf);
    foci_text name = {NULL, 0};
    FOCAL_TRY(foci_gguf_get_text(gguf, "general.architecture", &name));
    if (!name.data)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: the key 'general.architecture' is missing", path);
    /* A name of focal's own stands in front of all keys, too. */
    const size_t own = strlen(FOCI_OWN_GGUF);
    const bool is_own = name.bytes > own && memcmp(name.data, FOCI_OWN_GGUF, own) == 0;
    const foci_family *family = is_own ? foci_family_of_gguf(name.data + own, name.bytes - own)
                                       : foci_family_of_gguf(name.data, name.bytes);
    if (!family)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: the architecture '%.*s' is not one of %s",
                         path, (int)foci_min64((int64_t)name.bytes, 40), name.data,
                         foci_family_names());
    char prefix[KEY_BYTES];
    (void)snprintf(prefix, sizeof prefix, "%s%s", is_own ? FOCI_OWN_GGUF : "", family->gguf);
    FOCAL_TRY(check_keys(ctx, gguf, prefix, is_own));
    key_reader r = {ctx, gguf, prefix, FOCAL_OK};
    foci_config c = {.family = family,
                     .norm = family->norm,
                     .norm_place = family->norm_place,
                     .qk_norm = family->qk_norm,
                     .activation = family->activation,
                     .is_gated = !family->is_gpt2,
                     .has_positions = family->is_gpt2,
                     .embed_scale = 1.0F,
                     .rope_style = family->gguf_rope};
    c.L = need_int(&r, "block_count", FOCI_MAX_LAYERS);
    c.C = need_int(&r, "embedding_length", FOCI_MAX_WIDTH);
    c.F = need_int(&r, "feed_forward_length", FOCI_MAX_HIDDEN);
    c.context = need_int(&r, "context_length", FOCI_MAX_CONTEXT);
    const foci_tensor *embed = foci_gguf_tensor(gguf, "token_embd.weight");
    if (r.status == FOCAL_OK && !embed)
        r.status =
            foci_fail(ctx, FOCAL_EFORMAT, "%s: the tensor 'token_embd.weight' is missing", path);
    c.V = embed && embed->dims == 2 ? (int32_t)foci_min64(embed->shape[0], INT32_MAX) : 0;
    read_attention(&r, &c);
    c.epsilon = (float)read_real(&r,
                                 c.norm == FOCI_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                         : "attention.layer_norm_epsilon",
                                 c.norm == FOCI_NORM_RMS ? 1e-6 : 1e-5);
    if (family->has_scaled_embed) c.embed_scale = sqrtf((float)c.C);
    if (!c.has_positions) read_rope(&r, &c);
    FOCAL_TRY(r.status);
    FOCAL_TRY(foci_config_check(ctx, path, &c));
    if (is_own) FOCAL_TRY(foci_temperature_from_gguf(ctx, gguf, prefix, &c));
    *out = c;
    return FOCAL_OK;
}
