/* Names of tensors: GGUF has one set for all families, Hugging Face one for GPT-2 and one for the
 * rest. */
#include "model/weight_names.h"

#include <stdio.h>

foci_weight_names foci_weight_names_gguf(void)
{
    return (foci_weight_names){
        .prefix = "",
        .embed = "token_embd",
        .positions = "position_embd",
        .final_norm = "output_norm",
        .head = "output",
        .layer = "blk.",
        .attn_norm = "attn_norm",
        .attn_post = "post_attention_norm",
        .ffn_norm = "ffn_norm",
        .ffn_post = "post_ffw_norm",
        .q_norm = "attn_q_norm",
        .k_norm = "attn_k_norm",
        .qkv = "attn_qkv",
        .q = "attn_q",
        .k = "attn_k",
        .v = "attn_v",
        .out = "attn_output",
        .gate = "ffn_gate",
        .up = "ffn_up",
        .down = "ffn_down",
        .temperature = "attn_temperature",
    };
}

static foci_weight_names gpt2_names(void)
{
    return (foci_weight_names){
        .prefix = "",
        .embed = "transformer.wte",
        .positions = "transformer.wpe",
        .final_norm = "transformer.ln_f",
        .head = "lm_head",
        .layer = "transformer.h.",
        .attn_norm = "ln_1",
        .ffn_norm = "ln_2",
        .qkv = "attn.c_attn",
        .out = "attn.c_proj",
        .up = "mlp.c_fc",
        .down = "mlp.c_proj",
        .temperature = "self_attn.temperature",
    };
}

foci_weight_names foci_weight_names_hf(const foci_config *config)
{
    if (config->family->is_gpt2) return gpt2_names();
    /* Where nothing is normalised afterwards, the norm before the feed-forward has the name that
     * others give to the one after attention. */
    const bool is_before = config->norm_place == FOCI_NORM_BEFORE;
    return (foci_weight_names){
        .prefix = "",
        .embed = "model.embed_tokens",
        .final_norm = "model.norm",
        .head = "lm_head",
        .layer = "model.layers.",
        .attn_norm = "input_layernorm",
        .attn_post = "post_attention_layernorm",
        .ffn_norm = is_before ? "post_attention_layernorm" : "pre_feedforward_layernorm",
        .ffn_post = "post_feedforward_layernorm",
        .q_norm = "self_attn.q_norm",
        .k_norm = "self_attn.k_norm",
        .q = "self_attn.q_proj",
        .k = "self_attn.k_proj",
        .v = "self_attn.v_proj",
        .out = "self_attn.o_proj",
        .gate = "mlp.gate_proj",
        .up = "mlp.up_proj",
        .down = "mlp.down_proj",
        .temperature = "self_attn.temperature",
    };
}

void foci_weight_name(const foci_weight_names *names, int32_t layer, const char *part,
                      const char *suffix, char name[FOCI_WEIGHT_NAME_BYTES])
{
    if (layer >= 0)
        (void)snprintf(name, FOCI_WEIGHT_NAME_BYTES, "%s%s%d.%s.%s", names->prefix, names->layer,
                       layer, part, suffix);
    else
        (void)snprintf(name, FOCI_WEIGHT_NAME_BYTES, "%s%s.%s", names->prefix, part, suffix);
}
