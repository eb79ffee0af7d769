/* Configurations that are wrong: one key of a good one changed at a time, each refused with the
 * file, the key, the value and the limit. And those that are odd and right. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "focal/model.h"
#include "model/config.h"
#include "support/folder.h"
#include "support/memory_model.h"
#include "support/tiny_gguf.h"

enum { TEXT_BYTES = 1 << 16 };

/* A member of config.json as text. */
typedef struct member {
    const char *key, *value;
} member;

static const member llama[] = {
    {"model_type", "\"llama\""},  {"hidden_size", "16"},
    {"intermediate_size", "24"},  {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"}, {"num_key_value_heads", "2"},
    {"vocab_size", "40"},         {"max_position_embeddings", "64"},
    {"rms_norm_eps", "1e-5"},
};

static const member gpt2[] = {
    {"model_type", "\"gpt2\""}, {"n_embd", "16"},      {"n_layer", "2"}, {"n_head", "4"},
    {"vocab_size", "40"},       {"n_positions", "64"},
};

static const member gemma3[] = {
    {"model_type", "\"gemma3_text\""},
    {"hidden_size", "16"},
    {"intermediate_size", "24"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "4"},
    {"num_key_value_heads", "2"},
    {"vocab_size", "40"},
    {"max_position_embeddings", "64"},
    {"sliding_window", "8"},
    {"query_pre_attn_scalar", "4"},
};

/* The members with one changed, or added, or taken out when its value is NULL. */
static const char *edited(const member *base, size_t count, const char *key, const char *value)
{
    static char text[TEXT_BYTES];
    size_t used = (size_t)snprintf(text, sizeof text, "{");
    for (size_t n = 0; n < count; n++)
        if (!key || strcmp(base[n].key, key) != 0)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":%s",
                                     used > 1 ? "," : "", base[n].key, base[n].value);
    if (key && value)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s\":%s",
                                 used > 1 ? "," : "", key, value);
    (void)snprintf(text + used, sizeof text - used, "}");
    return text;
}

static focal_status read_json(focal_ctx *ctx, const char *text, foci_config *config)
{
    foci_json *json = NULL;
    FOCAL_TRY(foci_json_parse(ctx, "config.json", text, strlen(text), &json));
    const focal_status status = foci_config_from_json(ctx, "config.json", json, config);
    foci_json_free(json);
    return status;
}

typedef struct json_fault {
    const char *key, *value;
    focal_status status;
    const char *sentence; /* behind "config.json: "; of a long one, the beginning */
} json_fault;

#define WHOLE "it must be a whole number from "
#define UNKNOWN " is not understood and might change what the model computes"

/* clang-format off */
static const json_fault llama_faults[] = {
    /* Kinds of model. */
    {"model_type", NULL, FOCAL_EFORMAT, "'model_type' is missing"},
    {"model_type", "7", FOCAL_EFORMAT, "'model_type' is missing"},
    {"model_type", "\"mamba\"", FOCAL_EUNSUPPORTED, "the model type 'mamba' is not one of llama, "},
    {"model_type", "\"two\\nlines\"", FOCAL_EUNSUPPORTED, "the model type 'two?lines' is not one of"},

    /* Counts: missing, of another type, zero, negative, huge. */
    {"num_hidden_layers", NULL, FOCAL_EFORMAT, "'num_hidden_layers' is missing, " WHOLE "1 to 512"},
    {"num_hidden_layers", "null", FOCAL_EFORMAT, "'num_hidden_layers' is missing, " WHOLE "1 to 512"},
    {"num_hidden_layers", "0", FOCAL_EFORMAT, "'num_hidden_layers' is 0, " WHOLE "1 to 512"},
    {"num_hidden_layers", "-1", FOCAL_EFORMAT, "'num_hidden_layers' is -1, " WHOLE "1 to 512"},
    {"num_hidden_layers", "513", FOCAL_EFORMAT, "'num_hidden_layers' is 513, " WHOLE "1 to 512"},
    {"num_hidden_layers", "4294967298", FOCAL_EFORMAT, "'num_hidden_layers' is 4294967298, "},
    {"num_hidden_layers", "9223372036854775807", FOCAL_EFORMAT, "'num_hidden_layers' is 9223372036854775807, "},
    {"num_hidden_layers", "9223372036854775808", FOCAL_EFORMAT, "line 1, column"},
    {"num_hidden_layers", "2.0", FOCAL_EFORMAT, "'num_hidden_layers' is 2, " WHOLE "1 to 512"},
    {"num_hidden_layers", "\"2\"", FOCAL_EFORMAT, "'num_hidden_layers' is a string, " WHOLE "1 to 512"},
    {"num_hidden_layers", "[2]", FOCAL_EFORMAT, "'num_hidden_layers' is a list, " WHOLE "1 to 512"},
    {"num_hidden_layers", "true", FOCAL_EFORMAT, "'num_hidden_layers' is true, " WHOLE "1 to 512"},
    {"hidden_size", NULL, FOCAL_EFORMAT, "'hidden_size' is missing, " WHOLE "1 to 65536"},
    {"hidden_size", "65537", FOCAL_EFORMAT, "'hidden_size' is 65537, " WHOLE "1 to 65536"},
    {"intermediate_size", "{}", FOCAL_EFORMAT, "'intermediate_size' is an object, " WHOLE "1 to 1048576"},
    {"intermediate_size", "1048577", FOCAL_EFORMAT, "'intermediate_size' is 1048577, "},
    {"vocab_size", NULL, FOCAL_EFORMAT, "'vocab_size' is missing, " WHOLE "1 to 4194304"},
    {"vocab_size", "4194305", FOCAL_EFORMAT, "'vocab_size' is 4194305, " WHOLE "1 to 4194304"},
    {"max_position_embeddings", "0", FOCAL_EFORMAT, "'max_position_embeddings' is 0, " WHOLE "1 to 134217728"},
    {"max_position_embeddings", "134217729", FOCAL_EFORMAT, "'max_position_embeddings' is 134217729, "},
    {"num_attention_heads", "0", FOCAL_EFORMAT, "'num_attention_heads' is 0, " WHOLE "1 to 65536"},
    {"num_key_value_heads", "0", FOCAL_EFORMAT, "key heads 0, it must be 1 to 65536"},
    {"num_key_value_heads", "-2", FOCAL_EFORMAT, "'num_key_value_heads' is -2, " WHOLE "0 to 65536"},
    {"num_key_value_heads", "3", FOCAL_EFORMAT, "4 query heads over 3 key heads"},
    {"num_key_value_heads", "8", FOCAL_EFORMAT, "4 query heads over 8 key heads"},
    {"num_attention_heads", "32", FOCAL_EFORMAT, "head width 0, it must be 1 to 256"},
    {"head_dim", "0", FOCAL_EFORMAT, "head width 0, it must be 1 to 256"},
    {"head_dim", "257", FOCAL_EFORMAT, "head width 257, it must be 1 to 256"},
    {"head_dim", "7", FOCAL_EFORMAT, "7 of 7 elements of a head are rotated"},
    {"num_attention_heads", "65536", FOCAL_EFORMAT, "head width 0, it must be 1 to 256"},

    /* Numbers. */
    {"rms_norm_eps", "0", FOCAL_EFORMAT, "the norms' epsilon is 0, it must be above 0 and below 1"},
    {"rms_norm_eps", "-1e-5", FOCAL_EFORMAT, "the norms' epsilon is -1e-05, it must be above 0 and below 1"},
    {"rms_norm_eps", "1e300", FOCAL_EFORMAT, "the norms' epsilon is inf, it must be above 0 and below 1"},
    {"rms_norm_eps", "\"1e-5\"", FOCAL_EFORMAT, "'rms_norm_eps' is a string, it must be a number"},
    {"query_pre_attn_scalar", "0", FOCAL_EFORMAT, "attention scale inf, soft caps 0 and 0"},
    {"query_pre_attn_scalar", "-4", FOCAL_EFORMAT, "attention scale "},
    {"attn_logit_softcapping", "-1", FOCAL_EFORMAT, "attention scale 0.5, soft caps -1 and 0"},
    {"final_logit_softcapping", "-1", FOCAL_EFORMAT, "attention scale 0.5, soft caps 0 and -1"},
    {"rope_theta", "1", FOCAL_EFORMAT, "the rope base is 1, it must be above 1 and below 1e18"},
    {"rope_theta", "-10000", FOCAL_EFORMAT, "the rope base is -10000, it must be above 1 and below 1e18"},
    {"rope_theta", "1e19", FOCAL_EFORMAT, "the rope base is 1e+19, it must be above 1 and below 1e18"},
    {"rope_theta", "[]", FOCAL_EFORMAT, "'rope_theta' is a list, it must be a number"},
    {"partial_rotary_factor", "0", FOCAL_EFORMAT, "'partial_rotary_factor' is 0, it must be above 0 and at most 1"},
    {"partial_rotary_factor", "1e300", FOCAL_EFORMAT, "'partial_rotary_factor' is 1e+300, it must be above 0"},
    {"partial_rotary_factor", "-1e300", FOCAL_EFORMAT, "'partial_rotary_factor' is -1e+300, it must be"},
    {"partial_rotary_factor", "0.75", FOCAL_EFORMAT, "3 of 4 elements of a head are rotated"},
    {"partial_rotary_factor", "\"x\"", FOCAL_EFORMAT, "'partial_rotary_factor' is a string, it must be a number"},
    {"hidden_act", "\"relu\"", FOCAL_EUNSUPPORTED, "the activation 'relu' is not silu or a gelu"},
    {"hidden_act", "3", FOCAL_EUNSUPPORTED, "the activation '?' is not silu or a gelu"},
    {"tie_word_embeddings", "1", FOCAL_EFORMAT, "'tie_word_embeddings' is 1, it must be true or false"},

    /* Rope. */
    {"rope_scaling", "7", FOCAL_EFORMAT, "the rope's description is 7, it must be an object"},
    {"rope_scaling", "{\"type\":\"longrope\",\"factor\":2}", FOCAL_EUNSUPPORTED, "the rope type 'longrope' is not linear, llama3 or yarn"},
    {"rope_scaling", "{\"type\":5}", FOCAL_EFORMAT, "'type' is 5, it must be a string"},
    {"rope_scaling", "{\"rope_type\":[]}", FOCAL_EFORMAT, "'rope_type' is a list, it must be a string"},
    {"rope_scaling", "{\"factor\":8}", FOCAL_EFORMAT, "'factor' is 8, it must be 1 without a rope type"},
    {"rope_scaling", "{\"type\":\"linear\",\"factor\":\"4\"}", FOCAL_EFORMAT, "'factor' is a string, it must be a number"},
    {"rope_scaling", "{\"type\":\"yarn\",\"long_factor\":[1]}", FOCAL_EUNSUPPORTED, "'long_factor' in the rope's description is not understood"},
    {"rope_scaling", "{\"type\":\"yarn\",\"original_max_position_embeddings\":-1}", FOCAL_EFORMAT, "'original_max_position_embeddings' is -1, " WHOLE "0 to 134217728"},
    {"rope_scaling", "{\"type\":\"yarn\",\"truncate\":0}", FOCAL_EFORMAT, "'truncate' is 0, it must be true or false"},
    {"rope_parameters", "{\"rope_theta\":0.5}", FOCAL_EFORMAT, "the rope base is 0.5, it must be above 1 and below 1e18"},
    {"rope_parameters", "{\"partial_rotary_factor\":1e40}", FOCAL_EFORMAT, "'partial_rotary_factor' is 1e+40, it must be above 0"},
    {"rope_parameters", "{\"full_attention\":{\"partial_rotary_factor\":9}}", FOCAL_EFORMAT, "'partial_rotary_factor' is 9, it must be above 0"},
    {"rope_parameters", "{\"full_attention\":3}", FOCAL_EFORMAT, "the rope's description is 3, it must be an object"},

    /* Windows. */
    {"sliding_window", "-1", FOCAL_EFORMAT, "'sliding_window' is -1, " WHOLE "0 to 134217728"},
    {"layer_types", "[\"full_attention\"]", FOCAL_EFORMAT, "'layer_types' is a list, it must be one a layer"},
    {"layer_types", "2", FOCAL_EFORMAT, "'layer_types' is 2, it must be one a layer"},
    {"layer_types", "[\"full_attention\",\"linear_attention\"]", FOCAL_EFORMAT, "'layer_types' is a list, it must be a list of full_attention and sliding_attention"},
    {"layer_types", "[\"full_attention\",7]", FOCAL_EFORMAT, "'layer_types' is a list, it must be a list of"},
    {"layer_types", "[\"full_attention\",\"sliding_attention\"]", FOCAL_EFORMAT, "'sliding_window' is missing, it must be a number, for layer_types has such layers"},
    {"use_sliding_window", "\"yes\"", FOCAL_EFORMAT, "'use_sliding_window' is a string, it must be true or false"},

    /* What would change the mathematics. */
    {"num_experts", "8", FOCAL_EUNSUPPORTED, "'num_experts'" UNKNOWN},
    {"logit_scale", "0.5", FOCAL_EUNSUPPORTED, "'logit_scale'" UNKNOWN},
    {"trust_remote_code", "true", FOCAL_EUNSUPPORTED, "'trust_remote_code'" UNKNOWN},
    {"a\\nb", "1", FOCAL_EUNSUPPORTED, "'a?b'" UNKNOWN},
    {"use_bidirectional_attention", "true", FOCAL_EFORMAT, "'use_bidirectional_attention' is true, it must be false"},
    {"add_cross_attention", "true", FOCAL_EFORMAT, "'add_cross_attention' is true, it must be false"},
    {"scale_attn_weights", "false", FOCAL_EFORMAT, "'scale_attn_weights' is false, it must be true"},
    {"scale_attn_by_inverse_layer_idx", "true", FOCAL_EFORMAT, "'scale_attn_by_inverse_layer_idx' is true, it must be false"},
    {"quantization_config", "{\"bits\":4}", FOCAL_EUNSUPPORTED, "weights of another program's quantisation; take the original model or a GGUF file"},
};

static const json_fault gpt2_faults[] = {
    {"n_layer", NULL, FOCAL_EFORMAT, "'num_hidden_layers' is missing, " WHOLE "1 to 512"},
    {"n_layer", "0", FOCAL_EFORMAT, "'n_layer' is 0, " WHOLE "1 to 512"},
    {"n_embd", "1e3", FOCAL_EFORMAT, "'n_embd' is 1000, " WHOLE "1 to 65536"},
    {"n_inner", "0", FOCAL_EFORMAT, "feed-forward width 0, it must be 1 to 1048576"},
    {"n_head", "3", FOCAL_OK, ""}, /* 16 / 3: five wide, one column of the model is not looked at */
    {"activation_function", "\"relu\"", FOCAL_EUNSUPPORTED, "the activation 'relu' is not silu or a gelu"},
    {"layer_norm_epsilon", "1", FOCAL_EFORMAT, "the norms' epsilon is 1, it must be above 0 and below 1"},
};

static const json_fault gemma3_faults[] = {
    {"rope_local_base_freq", "0", FOCAL_EFORMAT, "the rope base is 0, it must be above 1 and below 1e18"},
    {"sliding_window_pattern", "513", FOCAL_EFORMAT, "'sliding_window_pattern' is 513, " WHOLE "0 to 512"},
    {"_sliding_window_pattern", "-1", FOCAL_EFORMAT, "'_sliding_window_pattern' is -1, " WHOLE "0 to 512"},
    {"rope_parameters", "{\"full_attention\":{\"rope_type\":\"default\"},\"sliding_attention\":{\"rope_theta\":-1}}", FOCAL_EFORMAT, "the rope base is -1, it must be above 1 and below 1e18"},
};
/* clang-format on */

/* Whether a status and its message are as expected; says so when they are not. */
static int is_wrong(focal_ctx *ctx, const char *name, const char *prefix, focal_status status,
                    focal_status expected, const char *sentence)
{
    const char *message = status == FOCAL_OK ? "" : focal_ctx_error(ctx);
    const size_t length = strlen(prefix);
    if (status == expected &&
        (status == FOCAL_OK || (strncmp(message, prefix, length) == 0 &&
                                strncmp(message + length, sentence, strlen(sentence)) == 0)))
        return 0;
    print_error("%s: status %d, '%s'\n", name, (int)status, message);
    return 1;
}

static int check_json(focal_ctx *ctx, const member *base, size_t count, const json_fault *faults,
                      size_t fault_count)
{
    int wrong = 0;
    foci_config config = {.L = 0};
    if (read_json(ctx, edited(base, count, NULL, NULL), &config) != FOCAL_OK)
        fail_msg("%s", focal_ctx_error(ctx));
    for (size_t n = 0; n < fault_count; n++) {
        const json_fault *f = &faults[n];
        char name[256];
        (void)snprintf(name, sizeof name, "%s: %s", f->key, f->value ? f->value : "(gone)");
        const focal_status status = read_json(ctx, edited(base, count, f->key, f->value), &config);
        wrong += is_wrong(ctx, name, "config.json: ", status, f->status, f->sentence);
    }
    return wrong;
}

static void wrong_members_are_told(void **state)
{
    focal_ctx *ctx = *state;
    int wrong = check_json(ctx, llama, FOCAL_COUNT(llama), llama_faults, FOCAL_COUNT(llama_faults));
    wrong += check_json(ctx, gpt2, FOCAL_COUNT(gpt2), gpt2_faults, FOCAL_COUNT(gpt2_faults));
    wrong +=
        check_json(ctx, gemma3, FOCAL_COUNT(gemma3), gemma3_faults, FOCAL_COUNT(gemma3_faults));
    assert_int_equal(wrong, 0);
}

/* A member twice, and nesting without end: refused by the parser, for this file too. */
static void hostile_texts_are_told(void **state)
{
    focal_ctx *ctx = *state;
    foci_config config = {.L = 0};
    static char deep[TEXT_BYTES];
    assert_status(ctx,
                  read_json(ctx, "{\"model_type\":\"llama\",\"model_type\":\"qwen2\"}", &config),
                  FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx), "duplicate object key"));
    size_t used =
        (size_t)snprintf(deep, sizeof deep, "{\"model_type\":\"llama\",\"rope_scaling\":");
    for (int n = 0; n < 10000; n++) deep[used++] = '[';
    deep[used] = '\0';
    assert_status(ctx, read_json(ctx, deep, &config), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx), "config.json: nested deeper than 512 levels");
}

/* Members that ask for nothing, whatever their names. */
static void idle_members_pass(void **state)
{
    static const member idle[] = {{"num_experts", "null"},
                                  {"use_mambaout", "false"},
                                  {"torch_dtype", "\"bfloat16\""},
                                  {"_attn_implementation", "\"x\""},
                                  {"architectures", "[\"X\"]"},
                                  {"head_dim", "null"},
                                  {"rope_scaling", "null"},
                                  {"rope_scaling", "{}"},
                                  {"rope_scaling", "{\"type\":\"default\",\"factor\":1.0}"}};
    for (size_t n = 0; n < FOCAL_COUNT(idle); n++) {
        foci_config config = {.L = 0};
        const char *text = edited(llama, FOCAL_COUNT(llama), idle[n].key, idle[n].value);
        assert_status(*state, read_json(*state, text, &config), FOCAL_OK);
        assert_int_equal(config.D, 4);
        assert_int_equal(config.rope.kind, FOCI_ROPE_PLAIN);
    }
}

/* What a member says arrives where it is computed with. */
static void odd_members_arrive(void **state)
{
    focal_ctx *ctx = *state;
    foci_config c = {.L = 0};
    const struct {
        const member *base;
        size_t count;
        const char *key, *value;
        const double *got;
        double expected;
    } reals[] = {
        {gemma3, FOCAL_COUNT(gemma3), "rope_parameters",
         "{\"full_attention\":{\"rope_theta\":7000},\"sliding_attention\":{\"rope_theta\":5000}}",
         &c.rope_local.base, 5000.0},
        {gemma3, FOCAL_COUNT(gemma3), "rope_parameters",
         "{\"full_attention\":{\"rope_theta\":7000},\"sliding_attention\":{\"rope_theta\":5000}}",
         &c.rope.base, 7000.0},
        {gemma3, FOCAL_COUNT(gemma3), "rope_local_base_freq", "3000", &c.rope_local.base, 3000.0},
        {gemma3, FOCAL_COUNT(gemma3), "rope_theta", "3000", &c.rope_local.base, 10000.0},
        {llama, FOCAL_COUNT(llama), "rope_theta", "3000", &c.rope_local.base, 3000.0},
        {llama, FOCAL_COUNT(llama), "rope_scaling",
         "{\"type\":\"llama3\",\"low_freq_factor\":2,\"high_freq_factor\":9}", &c.rope.high, 9.0},
        {llama, FOCAL_COUNT(llama), "rope_scaling", "{\"type\":\"yarn\",\"beta_fast\":20}",
         &c.rope.beta_fast, 20.0},
        {llama, FOCAL_COUNT(llama), "rope_scaling", "{\"type\":\"yarn\",\"attention_factor\":0.5}",
         &c.rope.attention_factor, 0.5},
        {llama, FOCAL_COUNT(llama), "rope_scaling", "{\"type\":\"yarn\"}", &c.rope.original_context,
         64.0},
    };
    for (size_t n = 0; n < FOCAL_COUNT(reals); n++) {
        const char *text = edited(reals[n].base, reals[n].count, reals[n].key, reals[n].value);
        assert_status(ctx, read_json(ctx, text, &c), FOCAL_OK);
        if (*reals[n].got != reals[n].expected)
            fail_msg("row %zu: %g, expected %g", n, *reals[n].got, reals[n].expected);
    }
    const struct {
        const char *key, *value;
        const int32_t *got;
        int32_t expected;
    } ints[] = {
        {"partial_rotary_factor", "0.5", &c.rope.rotated, 2},
        {"rope_parameters", "{\"partial_rotary_factor\":0.5}", &c.rope.rotated, 2},
        {"rope_parameters", "{\"full_attention\":{\"partial_rotary_factor\":0.5}}", &c.rope.rotated,
         2},
        {"head_dim", "6", &c.D, 6},
        {"num_key_value_heads", "null", &c.G, 4},
        {"sliding_window", "9", &c.window, 8},
    };
    for (size_t n = 0; n < FOCAL_COUNT(ints); n++) {
        const char *text = edited(llama, FOCAL_COUNT(llama), ints[n].key, ints[n].value);
        assert_status(ctx, read_json(ctx, text, &c), FOCAL_OK);
        if (*ints[n].got != ints[n].expected)
            fail_msg("row %zu: %d, expected %d", n, *ints[n].got, ints[n].expected);
    }
}

/* Which layers have the window: Llama's never, Qwen's from a layer on, the others' by their period
 * or all. */
static void windows_fall_on_their_layers(void **state)
{
    static const struct {
        const char *type, *members;
        unsigned local; /* a bit a layer, the first lowest */
    } rows[] = {
        {"llama", "\"sliding_window\":8", 0x0},
        {"llama", "\"sliding_window\":8,\"use_sliding_window\":true", 0x3F},
        {"mistral", "\"sliding_window\":8", 0x3F},
        {"mistral", "\"sliding_window\":null", 0x0},
        {"qwen2", "\"sliding_window\":8", 0x0},
        {"qwen2", "\"sliding_window\":8,\"use_sliding_window\":true,\"max_window_layers\":4", 0x30},
        {"qwen2", "\"sliding_window\":8,\"use_sliding_window\":true", 0x0}, /* from the 28th */
        {"gemma2", "\"sliding_window\":8", 0x15},
        {"gemma3_text", "\"sliding_window\":8", 0x1F},
        {"gemma3_text", "\"sliding_window\":8,\"sliding_window_pattern\":2", 0x15},
        {"gemma3_text", "\"sliding_window\":8,\"_sliding_window_pattern\":3", 0x1B},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        foci_config c = {.L = 0};
        char text[1024];
        unsigned local = 0;
        (void)snprintf(text, sizeof text,
                       "{\"model_type\":\"%s\",\"hidden_size\":16,\"intermediate_size\":24,"
                       "\"num_hidden_layers\":6,\"num_attention_heads\":4,\"vocab_size\":40,"
                       "\"max_position_embeddings\":64,%s}",
                       rows[n].type, rows[n].members);
        assert_status(*state, read_json(*state, text, &c), FOCAL_OK);
        for (int layer = 0; layer < 6; layer++)
            if (c.is_local[layer]) local |= 1U << layer;
        if (local != rows[n].local)
            fail_msg("%s, %s: layers %x, expected %x", rows[n].type, rows[n].members, local,
                     rows[n].local);
    }
}

/* Frequencies that cannot be, which the rope's own table refuses: the file is named. */
static void wrong_ropes_are_told(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *value, *sentence;
    } rows[] = {
        {"{\"type\":\"linear\",\"factor\":0}", "rope: the factor is 0, it must be above 0"},
        {"{\"type\":\"linear\",\"factor\":-2.5}", "rope: the factor is -2.5, it must be above 0"},
        {"{\"type\":\"linear\",\"factor\":1e-45}", "rope: pair 0 turns by inf a token"},
        {"{\"type\":\"llama3\",\"factor\":8,\"original_max_position_embeddings\":0}",
         "rope: the original context is 0, it must be above 0"},
        {"{\"type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":4}",
         "rope: the low factor 4 must be above 0 and below the high factor 4"},
        {"{\"type\":\"yarn\",\"factor\":4,\"beta_fast\":-1}",
         "rope: -1 as a yarn or attention factor: it must be 0 or more"},
        {"{\"type\":\"yarn\",\"factor\":4,\"attention_factor\":1e300}",
         "rope: the attention factor is not finite"},
    };
    const folder f = folder_new();
    size_t bytes = 0;
    char *config = read_bytes(FOCAL_TEST_DIR "/golden/models/llama/config.json", &bytes);
    void *weights = read_bytes(FOCAL_TEST_DIR "/golden/models/llama/model.safetensors", &bytes);
    write_bytes(folder_file(&f, "model.safetensors"), weights, bytes);
    const char *scaling = strstr(config, "\"rope_scaling\": null");
    assert_non_null(scaling);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        char text[4096], expected[512];
        focal_model *model = NULL;
        const int length =
            snprintf(text, sizeof text, "%.*s\"rope_scaling\": %s%s", (int)(scaling - config),
                     config, rows[n].value, scaling + strlen("\"rope_scaling\": null"));
        write_bytes(folder_file(&f, "config.json"), text, (size_t)length);
        assert_status(ctx, focal_model_open(ctx, f.path, NULL, &model), FOCAL_EFORMAT);
        (void)snprintf(expected, sizeof expected, "%s: %s", f.path, rows[n].sentence);
        if (strncmp(focal_ctx_error(ctx), expected, strlen(expected)) != 0)
            fail_msg("'%s', expected '%s'", focal_ctx_error(ctx), expected);
    }
    free(weights);
    free(config);
    folder_remove(&f);
}

typedef struct key_fault {
    tiny_edit edit;
    focal_status status;
    const char *sentence; /* behind "bad.gguf: " */
} key_fault;

/* clang-format off */
static const key_fault key_faults[] = {
    {{.key = NULL}, FOCAL_OK, ""},
    {{.key = "general.architecture", .is_dropped = true}, FOCAL_EFORMAT, "the key 'general.architecture' is missing"},
    {{.key = "general.architecture", .type = KEY_U32, .value = 3}, FOCAL_EFORMAT, "key 'general.architecture': u32, wanted a string"},
    {{.key = "general.architecture", .type = KEY_TEXT, .text = "mamba"}, FOCAL_EUNSUPPORTED, "the architecture 'mamba' is not one of llama, "},
    {{.key = "general.architecture", .type = KEY_TEXT, .text = "a\nb\x1b[2J"}, FOCAL_EUNSUPPORTED, "the architecture 'a?b?[2J' is not one of llama, "},
    {{.key = "general.architecture", .type = KEY_TEXT, .text = "qwen2"}, FOCAL_EFORMAT, "the key 'qwen2.block_count' is missing"},

    {{.key = "llama.block_count", .is_dropped = true}, FOCAL_EFORMAT, "the key 'llama.block_count' is missing"},
    {{.key = "llama.block_count", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "key 'llama.block_count': 0, allowed are 1 to 512"},
    {{.key = "llama.block_count", .type = KEY_I32, .value = 0xFFFFFFFF}, FOCAL_EFORMAT, "key 'llama.block_count': -1, allowed are 1 to 512"},
    {{.key = "llama.block_count", .type = KEY_U32, .value = 513}, FOCAL_EFORMAT, "key 'llama.block_count': 513, allowed are 1 to 512"},
    {{.key = "llama.block_count", .type = KEY_U64, .value = (uint64_t)1 << 32 | 1}, FOCAL_EFORMAT, "key 'llama.block_count': 4294967297, allowed are 1 to 512"},
    {{.key = "llama.block_count", .type = KEY_U64, .value = UINT64_MAX}, FOCAL_EFORMAT, "key 'llama.block_count': an integer beyond 2^63 - 1"},
    {{.key = "llama.block_count", .type = KEY_F32, .value = 0x3F800000}, FOCAL_EFORMAT, "key 'llama.block_count': f32, wanted an integer"},
    {{.key = "llama.block_count", .type = KEY_TEXT, .text = "1"}, FOCAL_EFORMAT, "key 'llama.block_count': string, wanted an integer"},
    {{.key = "llama.embedding_length", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "key 'llama.embedding_length': 0, allowed are 1 to 65536"},
    {{.key = "llama.embedding_length", .type = KEY_U32, .value = 65537}, FOCAL_EFORMAT, "key 'llama.embedding_length': 65537, allowed are 1 to 65536"},
    {{.key = "llama.feed_forward_length", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "key 'llama.feed_forward_length': 0, allowed are 1 to 1048576"},
    {{.key = "llama.feed_forward_length", .is_dropped = true}, FOCAL_EFORMAT, "the key 'llama.feed_forward_length' is missing"},
    {{.key = "llama.context_length", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "key 'llama.context_length': 0, allowed are 1 to 134217728"},
    {{.key = "llama.context_length", .type = KEY_U32, .value = UINT32_MAX}, FOCAL_EFORMAT, "key 'llama.context_length': 4294967295, allowed are 1 to 134217728"},
    {{.key = "llama.attention.head_count", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "key 'llama.attention.head_count': 0, allowed are 1 to 65536"},
    {{.key = "llama.attention.head_count", .type = KEY_U32, .value = 3}, FOCAL_EFORMAT, "tensor 'blk.0.attn_q.weight' is 8 x 8, the configuration says 6 x 8"},
    {{.key = "llama.attention.head_count", .type = KEY_U32, .value = 16}, FOCAL_EFORMAT, "head width 0, it must be 1 to 256"},
    {{.key = "llama.attention.head_count_kv", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "key heads 0, it must be 1 to 65536"},
    {{.key = "llama.attention.head_count_kv", .type = KEY_U32, .value = 3}, FOCAL_EFORMAT, "2 query heads over 3 key heads"},
    {{.key = "llama.attention.key_length", .type = KEY_U32, .value = 300}, FOCAL_EFORMAT, "head width 300, it must be 1 to 256"},
    {{.key = "llama.attention.value_length", .type = KEY_U32, .value = 8}, FOCAL_EUNSUPPORTED, "keys of 4 and values of 8 a head"},
    {{.key = "llama.attention.layer_norm_rms_epsilon", .type = KEY_F32, .value = 0}, FOCAL_EFORMAT, "the norms' epsilon is 0, it must be above 0 and below 1"},
    {{.key = "llama.attention.layer_norm_rms_epsilon", .type = KEY_F32, .value = 0x7FC00000}, FOCAL_EFORMAT, "key 'llama.attention.layer_norm_rms_epsilon': nan is not a finite number"},
    {{.key = "llama.attention.layer_norm_rms_epsilon", .type = KEY_F32, .value = 0x7F800000}, FOCAL_EFORMAT, "key 'llama.attention.layer_norm_rms_epsilon': inf is not a finite number"},
    {{.key = "llama.attention.scale", .type = KEY_F32, .value = 0}, FOCAL_EFORMAT, "attention scale 0, soft caps 0 and 0"},
    {{.key = "llama.attn_logit_softcapping", .type = KEY_F32, .value = 0xBF800000}, FOCAL_EFORMAT, "attention scale 0.5, soft caps -1 and 0"},
    {{.key = "llama.attention.causal", .type = KEY_BOOL, .value = 0}, FOCAL_EUNSUPPORTED, "'llama.attention.causal' is false, it must be true"},
    {{.key = "llama.attention.causal", .type = KEY_U32, .value = 1}, FOCAL_EFORMAT, "key 'llama.attention.causal': u32, wanted a bool"},
    {{.key = "llama.attention.causal", .type = KEY_BOOL, .value = 1}, FOCAL_OK, ""},
    {{.key = "llama.attention.sliding_window", .type = KEY_I32, .value = 0xFFFFFFFF}, FOCAL_EFORMAT, "key 'llama.attention.sliding_window': -1, allowed are 0 to 134217728"},

    {{.key = "llama.rope.dimension_count", .type = KEY_U32, .value = 0}, FOCAL_EFORMAT, "0 of 4 elements of a head are rotated"},
    {{.key = "llama.rope.dimension_count", .type = KEY_U32, .value = 3}, FOCAL_EFORMAT, "3 of 4 elements of a head are rotated"},
    {{.key = "llama.rope.dimension_count", .type = KEY_U32, .value = 6}, FOCAL_EFORMAT, "6 of 4 elements of a head are rotated"},
    {{.key = "llama.rope.freq_base", .type = KEY_F32, .value = 0}, FOCAL_EFORMAT, "the rope base is 0, it must be above 1 and below 1e18"},
    {{.key = "llama.rope.freq_base_swa", .type = KEY_F32, .value = 0}, FOCAL_EFORMAT, "the rope base is 0, it must be above 1 and below 1e18"},
    {{.key = "llama.rope.freq_base", .type = KEY_TEXT, .text = "10000"}, FOCAL_EFORMAT, "key 'llama.rope.freq_base': string, wanted a number"},
    {{.key = "llama.rope.scaling.type", .type = KEY_TEXT, .text = "longrope"}, FOCAL_EUNSUPPORTED, "the rope scaling 'longrope' is unknown"},
    {{.key = "llama.rope.scaling.type", .type = KEY_TEXT, .text = ""}, FOCAL_EUNSUPPORTED, "the rope scaling '' is unknown"},
    {{.key = "llama.rope.scaling.type", .type = KEY_U32, .value = 1}, FOCAL_EFORMAT, "key 'llama.rope.scaling.type': u32, wanted a string"},
    {{.key = "llama.rope.scaling.attn_factor", .type = KEY_F32, .value = 0x40000000}, FOCAL_EUNSUPPORTED, "'llama.rope.scaling' has a factor of its own for attention"},
    {{.key = "llama.rope.scale_linear", .type = KEY_F32, .value = 0}, FOCAL_EINVAL, ""}, /* focal_model_open adds the file */

    {{.key = "llama.expert_count", .type = KEY_U32, .value = 8}, FOCAL_EUNSUPPORTED, "the key 'llama.expert_count'" UNKNOWN},
    {{.key = "llama.attention.clamp_kqv", .type = KEY_F32, .value = 0}, FOCAL_EUNSUPPORTED, "the key 'llama.attention.clamp_kqv'" UNKNOWN},
    {{.key = "llama.", .type = KEY_U32, .value = 8}, FOCAL_OK, ""}, /* no key of the family */
    {{.key = "qwen2.expert_count", .type = KEY_U32, .value = 8}, FOCAL_OK, ""},
};
/* clang-format on */

static focal_status read_gguf(focal_ctx *ctx, const char *family, const tiny_edit *edit)
{
    gguf_bytes b;
    foci_gguf *gguf = NULL;
    focal_model model;
    float logits[64];
    tiny_gguf(&b, family, edit);
    foci_map map = exact_copy(&b, b.count);
    focal_status status = foci_gguf_from_memory(ctx, "bad.gguf", &map, 1, &gguf);
    if (status == FOCAL_OK) {
        status = memory_model_from_gguf(ctx, gguf, FOCAL_F32, &model);
        if (status == FOCAL_OK) {
            assert_status(ctx, memory_model_run(&model, logits), FOCAL_OK);
            for (int32_t n = 0; n < model.config.V; n++) assert_true(isfinite(logits[n]));
            memory_model_release(&model);
        }
    }
    foci_gguf_close(gguf);
    exact_free(&map);
    return status;
}

static void wrong_keys_are_told(void **state)
{
    focal_ctx *ctx = *state;
    int wrong = 0;
    for (size_t n = 0; n < FOCAL_COUNT(key_faults); n++) {
        const key_fault *f = &key_faults[n];
        char name[256];
        const int64_t live = memory_live_blocks();
        (void)snprintf(name, sizeof name, "row %zu, %s", n, f->edit.key ? f->edit.key : "nothing");
        const focal_status status = read_gguf(ctx, "llama", &f->edit);
        wrong += is_wrong(ctx, name, f->status == FOCAL_EINVAL ? "" : "bad.gguf: ", status,
                          f->status, f->sentence);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(read_gguf(ctx, "gpt2", NULL), FOCAL_OK);
}

/* Blocks of scratch memory for the calls that follow, all of one byte. */
static void fill_scratch(focal_ctx *ctx, int byte)
{
    enum { BLOCKS = 10 };
    void *blocks[BLOCKS];
    focal_ctx_trim(ctx);
    for (size_t n = 0; n < BLOCKS; n++) {
        blocks[n] = foci_scratch(ctx, (size_t)1024 << n, 1);
        assert_non_null(blocks[n]);
        memset(blocks[n], byte, (size_t)1024 << n);
    }
    for (size_t n = 0; n < BLOCKS; n++) foci_scratch_free(ctx, blocks[n]);
}

/* A window of 1 is the own key alone, and its layers turn as others do: nothing of what lay in
 * scratch memory may reach the logits. */
static void a_window_of_one_key_is_a_window(void **state)
{
    focal_ctx *ctx = *state;
    foci_config config = {.L = 0};
    float logits[2][40];
    char text[2048];
    const char *mistral = edited(llama, FOCAL_COUNT(llama), "model_type", "\"mistral\"");
    (void)snprintf(text, sizeof text, "%.*s,\"sliding_window\":1}", (int)strlen(mistral) - 1,
                   mistral);
    assert_status(ctx, read_json(ctx, text, &config), FOCAL_OK);
    assert_true(config.is_local[0] && config.is_local[1]);
    assert_int_equal(config.window, 0);
    for (int round = 0; round < 2; round++) {
        focal_model model;
        assert_status(ctx, memory_model_from_config(ctx, &config, FOCAL_F32, &model), FOCAL_OK);
        fill_scratch(ctx, round == 0 ? 0 : 0xFF); /* which is NaN */
        assert_status(ctx, memory_model_run(&model, logits[round]), FOCAL_OK);
        memory_model_release(&model);
    }
    for (int n = 0; n < 40; n++) {
        assert_true(isfinite(logits[0][n]));
        assert_true(logits[0][n] == logits[1][n]);
    }
}

int main(void)
{
    foci_json *root = NULL;
    if (foci_json_parse(NULL, "text", "1", 1, &root) == FOCAL_EUNSUPPORTED) {
        (void)printf("built without Jansson: nothing to test\n");
        return 0;
    }
    foci_json_free(root);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(wrong_members_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(hostile_texts_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(idle_members_pass, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_members_arrive, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(windows_fall_on_their_layers, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_ropes_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_keys_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_window_of_one_key_is_a_window, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("config_bad", tests, NULL, NULL);
}
