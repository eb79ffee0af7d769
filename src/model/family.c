/* The table of families: one row each with what differs, and the checks that all of them share. */
#include <string.h>

#include "base/error.h"
#include "focal/attn.h"
#include "model/config.h"

static const foci_family families[] = {
    {.name = "llama",
     .gguf = "llama",
     .hf = "llama",
     .hf_class = "LlamaForCausalLM",
     .activation = FOCI_SILU,
     .gguf_rope = FOCI_ROPE_PAIRS},
    {.name = "mistral",
     .hf = "mistral",
     .hf_class = "MistralForCausalLM",
     .activation = FOCI_SILU}, /* "llama" in GGUF */
    {.name = "qwen2",
     .gguf = "qwen2",
     .hf = "qwen2",
     .hf_class = "Qwen2ForCausalLM",
     .activation = FOCI_SILU,
     .gguf_rope = FOCI_ROPE_HALVES},
    {.name = "qwen3",
     .gguf = "qwen3",
     .hf = "qwen3",
     .hf_class = "Qwen3ForCausalLM",
     .qk_norm = FOCI_QK_HEAD,
     .activation = FOCI_SILU,
     .gguf_rope = FOCI_ROPE_HALVES},
    {.name = "olmo2",
     .gguf = "olmo2",
     .hf = "olmo2",
     .hf_class = "Olmo2ForCausalLM",
     .norm_place = FOCI_NORM_AFTER,
     .qk_norm = FOCI_QK_PROJECTION,
     .activation = FOCI_SILU,
     .gguf_rope = FOCI_ROPE_HALVES},
    {.name = "gemma2",
     .gguf = "gemma2",
     .hf = "gemma2",
     .hf_class = "Gemma2ForCausalLM",
     .norm_place = FOCI_NORM_BOTH,
     .activation = FOCI_GELU_TANH,
     .gguf_rope = FOCI_ROPE_HALVES,
     .local_period = 2,
     .has_scaled_embed = true,
     .has_offset_norms = true},
    {.name = "gemma3",
     .gguf = "gemma3",
     .hf = "gemma3_text",
     .hf_class = "Gemma3ForCausalLM",
     .norm_place = FOCI_NORM_BOTH,
     .qk_norm = FOCI_QK_HEAD,
     .activation = FOCI_GELU_TANH,
     .gguf_rope = FOCI_ROPE_HALVES,
     .local_period = 6,
     .has_scaled_embed = true,
     .has_offset_norms = true},
    {.name = "gpt2",
     .gguf = "gpt2",
     .hf = "gpt2",
     .hf_class = "GPT2LMHeadModel",
     .norm = FOCI_NORM_LAYER,
     .activation = FOCI_GELU_TANH,
     .is_gpt2 = true},
};

const foci_family *foci_family_of_gguf(const char *name, size_t bytes)
{
    for (size_t n = 0; n < FOCAL_COUNT(families); n++)
        if (families[n].gguf && strlen(families[n].gguf) == bytes &&
            memcmp(families[n].gguf, name, bytes) == 0)
            return &families[n];
    return NULL;
}

const foci_family *foci_family_of_hf(const char *name)
{
    for (size_t n = 0; n < FOCAL_COUNT(families); n++)
        if (strcmp(families[n].hf, name) == 0) return &families[n];
    return NULL;
}

const char *foci_family_names(void)
{
    return "llama, mistral, qwen2, qwen3, olmo2, gemma2, gemma3 and gpt2";
}

void foci_config_spread_windows(foci_config *config, int32_t period, bool global_is_first)
{
    for (int32_t n = 0; n < config->L; n++)
        config->is_local[n] = period == 0 || n % period != (global_is_first ? 0 : period - 1);
}

static focal_status check_rope(focal_ctx *ctx, const char *what, const foci_config *c,
                               const foci_rope_config *rope)
{
    if (rope->rotated < 2 || rope->rotated % 2 != 0 || rope->rotated > c->D)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %d of %d elements of a head are rotated", what,
                         rope->rotated, c->D);
    if (!(rope->base > 1.0 && rope->base < 1e18))
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: the rope base is %g, it must be above 1 and below 1e18", what,
                         rope->base);
    return FOCAL_OK;
}

focal_status foci_config_check(focal_ctx *ctx, const char *what, const foci_config *c)
{
    const struct {
        const char *name;
        int64_t value, most;
    } sizes[] = {
        {"layers", c->L, FOCI_MAX_LAYERS},
        {"width", c->C, FOCI_MAX_WIDTH},
        {"attention heads", c->H, FOCI_MAX_WIDTH},
        {"key heads", c->G, FOCI_MAX_WIDTH},
        {"head width", c->D, FOCAL_MAX_HEAD_WIDTH},
        {"width of all heads", (int64_t)c->H * c->D, FOCI_MAX_WIDTH},
        {"feed-forward width", c->F, FOCI_MAX_HIDDEN},
        {"vocabulary", c->V, FOCI_MAX_VOCAB},
        {"context", c->context, FOCI_MAX_CONTEXT},
    };
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++)
        if (sizes[n].value < 1 || sizes[n].value > sizes[n].most)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: %s %lld, it must be 1 to %lld", what,
                             sizes[n].name, (long long)sizes[n].value, (long long)sizes[n].most);
    if (c->H % c->G != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %d query heads over %d key heads", what, c->H,
                         c->G);
    if (!(c->epsilon > 0.0F && c->epsilon < 1.0F))
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: the norms' epsilon is %g, it must be above 0 and below 1", what,
                         (double)c->epsilon);
    if (!(c->attn_scale > 0.0F && c->attn_scale < 1e6F) || !(c->attn_softcap >= 0.0F) ||
        !(c->final_softcap >= 0.0F))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: attention scale %g, soft caps %g and %g", what,
                         (double)c->attn_scale, (double)c->attn_softcap, (double)c->final_softcap);
    if (c->has_positions) return FOCAL_OK;
    FOCAL_TRY(check_rope(ctx, what, c, &c->rope));
    return check_rope(ctx, what, c, &c->rope_local);
}
