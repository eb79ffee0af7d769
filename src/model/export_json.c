/* config.json of an exported directory. From another directory it is copied; from a GGUF file it is
 * written with the keys that transformers 4 and 5 both read. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/json_text.h"
#include "model/export.h"

enum { TYPE_BYTES = 64 };

/* An object on its way into a file. */
typedef struct members {
    foci_writer *file;
    int32_t depth;
    bool has_any;
} members;

static void put_raw(const members *m, const char *text)
{
    foci_json_put(m->file, text);
}

static void put_name(members *m, const char *name)
{
    put_raw(m, m->has_any ? ",\n" : "\n");
    for (int32_t n = 0; n < m->depth; n++) put_raw(m, "  ");
    foci_json_put_text(m->file, foci_text_of(name));
    put_raw(m, ": ");
    m->has_any = true;
}

static void put_int(members *m, const char *name, int64_t value)
{
    put_name(m, name);
    foci_json_put_int(m->file, value);
}

static void put_real(members *m, const char *name, double value)
{
    put_name(m, name);
    foci_json_put_real(m->file, value);
}

static void put_bool(members *m, const char *name, bool value)
{
    put_name(m, name);
    foci_json_put_bool(m->file, value);
}

static void put_word(members *m, const char *name, const char *word)
{
    put_name(m, name);
    foci_json_put_text(m->file, foci_text_of(word));
}

static const char *type_word(focal_dtype dtype)
{
    return dtype == FOCAL_F32 ? "float32" : dtype == FOCAL_F16 ? "float16" : "bfloat16";
}

static int32_t count_local(const foci_config *c)
{
    int32_t count = 0;
    for (int32_t n = 0; n < c->L; n++) count += c->is_local[n];
    return count;
}

/* Which layers have biases: of q, k, v and out, and of gate, up and down. */
typedef struct bias_count {
    int32_t qkv, out, mlp; /* layers that have all */
    int32_t any;           /* biases in all */
    int32_t norm;          /* biases of norms */
} bias_count;

static bias_count count_biases(const foci_export *e)
{
    bias_count count = {0};
    for (int32_t n = 0; n < e->model->config.L; n++) {
        const foci_layer *l = &e->model->weights.layers[n];
        const foci_linear *all[] = {&l->qkv, &l->q,    &l->k,  &l->v,
                                    &l->out, &l->gate, &l->up, &l->down};
        for (size_t i = 0; i < FOCAL_COUNT(all); i++) count.any += all[i]->bias != NULL;
        count.qkv += l->qkv.bias || (l->q.bias && l->k.bias && l->v.bias);
        count.out += l->out.bias != NULL;
        count.mlp += (l->gate.bias || !l->gate.w) && l->up.bias && l->down.bias;
        count.norm += l->attn_norm.bias && l->ffn_norm.bias;
    }
    return count;
}

/* transformers makes up weights that a file lacks and leaves out those it does not expect. */
static focal_status check_biases(const foci_export *e, bool *has_attention, bool *has_mlp)
{
    const foci_family *f = e->family;
    const int32_t L = e->model->config.L;
    const bias_count count = count_biases(e);
    const bool is_qwen2 = strcmp(f->name, "qwen2") == 0, is_llama = strcmp(f->name, "llama") == 0;
    const bool has_none = strcmp(f->name, "mistral") == 0;
    *has_attention = count.qkv == L && (count.out == L || is_qwen2);
    *has_mlp = count.mlp == L;
    int32_t expected = 0;
    if (f->is_gpt2)
        expected = 4;
    else if (*has_attention)
        expected += is_qwen2 ? 3 : 4;
    if (*has_mlp && is_llama) expected += 3;
    const foci_model_weights *w = &e->model->weights;
    const bool has_norms = count.norm == L && w->final_norm.bias;
    const bool is_right = count.any == expected * L && (!f->is_gpt2 || has_norms) &&
                          (!is_qwen2 || *has_attention) && (!has_none || count.any == 0) &&
                          !w->embed.bias && !w->positions.bias && !w->head.bias;
    if (is_right) return FOCAL_OK;
    return foci_fail(e->ctx, FOCAL_EUNSUPPORTED,
                     "%s: it has not the biases that %s of transformers has", e->model->path,
                     f->hf_class);
}

/* What these families have no words for in transformers. */
static focal_status check_words(const foci_export *e)
{
    const foci_config *c = &e->model->config;
    const bool is_gemma = e->family->has_scaled_embed;
    const int32_t local = count_local(c);
    const char *what = NULL;
    if (!is_gemma && (c->attn_softcap != 0.0F || c->final_softcap != 0.0F)) what = "soft caps";
    if (!is_gemma && c->attn_scale != (float)(1.0 / sqrt(c->D))) what = "an attention scale";
    if (local > 0 && !is_gemma && strncmp(e->family->name, "qwen", 4) != 0 &&
        !(strcmp(e->family->name, "mistral") == 0 && local == c->L))
        what = "windows in these layers";
    if (e->family->is_gpt2 && (c->G != c->H || c->H * c->D != c->C)) what = "these heads";
    if (!what) return FOCAL_OK;
    return foci_fail(e->ctx, FOCAL_EUNSUPPORTED, "%s: %s of transformers has no words for %s",
                     e->model->path, e->family->hf_class, what);
}

static void put_rope(members *m, const foci_export *e)
{
    static const char *const words[] = {
        [FOCI_ROPE_LINEAR] = "linear", [FOCI_ROPE_LLAMA3] = "llama3", [FOCI_ROPE_YARN] = "yarn"};
    const foci_rope_config *rope = &e->rope;
    const int32_t D = e->model->config.D;
    put_real(m, "rope_theta", rope->base);
    if (e->family->local_period == 6)
        put_real(m, "rope_local_base_freq", e->model->config.rope_local.base);
    if (rope->rotated != D) put_real(m, "partial_rotary_factor", (double)rope->rotated / D);
    if (rope->kind == FOCI_ROPE_PLAIN) return;
    put_name(m, "rope_scaling");
    put_raw(m, "{");
    members scaling = {m->file, m->depth + 1, false};
    put_word(&scaling, "rope_type", words[rope->kind]);
    put_real(&scaling, "factor", rope->factor);
    if (rope->kind == FOCI_ROPE_LLAMA3) {
        put_real(&scaling, "low_freq_factor", rope->low);
        put_real(&scaling, "high_freq_factor", rope->high);
    }
    if (rope->kind != FOCI_ROPE_LINEAR)
        put_int(&scaling, "original_max_position_embeddings", (int64_t)rope->original_context);
    if (rope->beta_fast != 0.0) put_real(&scaling, "beta_fast", rope->beta_fast);
    if (rope->beta_slow != 0.0) put_real(&scaling, "beta_slow", rope->beta_slow);
    if (rope->mscale != 0.0) put_real(&scaling, "mscale", rope->mscale);
    if (rope->mscale_all_dim != 0.0) put_real(&scaling, "mscale_all_dim", rope->mscale_all_dim);
    if (rope->attention_factor != 0.0)
        put_real(&scaling, "attention_factor", rope->attention_factor);
    if (rope->is_untruncated) put_bool(&scaling, "truncate", false);
    put_raw(m, "\n  }");
}

static void put_windows(members *m, const foci_export *e)
{
    const foci_config *c = &e->model->config;
    const bool is_qwen = strncmp(e->family->name, "qwen", 4) == 0;
    const int32_t local = count_local(c);
    if (is_qwen) put_bool(m, "use_sliding_window", local > 0);
    if (local == 0 && !e->family->has_scaled_embed) return;
    put_int(m, "sliding_window", local > 0 ? c->window + 1 : c->context);
    if (strcmp(e->family->name, "mistral") == 0) return; /* all layers have it */
    put_name(m, "layer_types");
    for (int32_t n = 0; n < c->L; n++) {
        put_raw(m, n > 0 ? ",\n    " : "[\n    ");
        put_raw(m, c->is_local[n] ? "\"sliding_attention\"" : "\"full_attention\"");
    }
    put_raw(m, "\n  ]");
}

static void put_gemma(members *m, const foci_config *c)
{
    /* transformers wants a whole number; the file has 1 / sqrt(it) in float32. */
    const double scalar = 1.0 / ((double)c->attn_scale * (double)c->attn_scale);
    if (fabs(scalar - round(scalar)) < 1e-5 * scalar)
        put_int(m, "query_pre_attn_scalar", (int64_t)round(scalar));
    else
        put_real(m, "query_pre_attn_scalar", scalar);
    const struct {
        const char *name;
        float cap;
    } caps[] = {{"attn_logit_softcapping", c->attn_softcap},
                {"final_logit_softcapping", c->final_softcap}};
    for (size_t n = 0; n < FOCAL_COUNT(caps); n++) {
        if (caps[n].cap != 0.0F) {
            put_real(m, caps[n].name, (double)caps[n].cap);
        } else {
            put_name(m, caps[n].name);
            put_raw(m, "null");
        }
    }
}

/* GPT-2's tanh has a name of its own. */
static const char *activation_word(const foci_config *c)
{
    if (c->activation == FOCI_SILU) return "silu";
    if (c->activation == FOCI_GELU) return "gelu";
    return c->family->is_gpt2 ? "gelu_new" : "gelu_pytorch_tanh";
}

static void put_gpt2_shapes(members *m, const foci_config *c)
{
    put_int(m, "n_embd", c->C);
    put_int(m, "n_inner", c->F);
    put_int(m, "n_layer", c->L);
    put_int(m, "n_head", c->H);
    put_int(m, "n_positions", c->context);
    put_word(m, "activation_function", activation_word(c));
    put_real(m, "layer_norm_epsilon", (double)c->epsilon);
}

static void put_shapes(members *m, const foci_config *c)
{
    put_int(m, "hidden_size", c->C);
    put_int(m, "intermediate_size", c->F);
    put_int(m, "num_hidden_layers", c->L);
    put_int(m, "num_attention_heads", c->H);
    put_int(m, "num_key_value_heads", c->G);
    put_int(m, "head_dim", c->D);
    put_int(m, "max_position_embeddings", c->context);
    put_word(m, c->family->has_scaled_embed ? "hidden_activation" : "hidden_act",
             activation_word(c));
    put_real(m, "rms_norm_eps", (double)c->epsilon);
}

/* A tokenizer that says nothing of ends may have a token between documents. */
static void put_tokenizer_ids(members *m, const focal_tokenizer *tokenizer)
{
    const focal_special_ids special = focal_tokenizer_special(tokenizer);
    const int32_t end = special.eos >= 0 ? special.eos : focal_tokenizer_document_end(tokenizer);
    if (special.bos >= 0) put_int(m, "bos_token_id", special.bos);
    if (end >= 0) put_int(m, "eos_token_id", end);
    if (special.pad >= 0) put_int(m, "pad_token_id", special.pad);
}

/* The ids that begin and end a text, as far as the file says. */
static focal_status put_ids(members *m, const foci_export *e)
{
    const foci_gguf *gguf = e->model->gguf;
    const int32_t last = e->model->config.V - 1;
    int64_t bos = -1, eos = -1, eot = -1, pad = -1;
    if (!gguf) {
        if (e->model->tokenizer) put_tokenizer_ids(m, e->model->tokenizer);
        return FOCAL_OK;
    }
    FOCAL_TRY(foci_gguf_get_int(gguf, "tokenizer.ggml.bos_token_id", 0, last, &bos));
    FOCAL_TRY(foci_gguf_get_int(gguf, "tokenizer.ggml.eos_token_id", 0, last, &eos));
    FOCAL_TRY(foci_gguf_get_int(gguf, "tokenizer.ggml.eot_token_id", 0, last, &eot));
    FOCAL_TRY(foci_gguf_get_int(gguf, "tokenizer.ggml.padding_token_id", 0, last, &pad));
    if (bos >= 0) put_int(m, "bos_token_id", bos);
    if (eos >= 0 && eot >= 0 && eot != eos) {
        char both[64];
        (void)snprintf(both, sizeof both, "[%lld, %lld]", (long long)eos, (long long)eot);
        put_name(m, "eos_token_id");
        put_raw(m, both);
    } else if (eos >= 0) {
        put_int(m, "eos_token_id", eos);
    }
    if (pad >= 0) put_int(m, "pad_token_id", pad);
    return FOCAL_OK;
}

focal_status foci_export_check_config(const foci_export *e)
{
    bool has_attention = false, has_mlp = false;
    FOCAL_TRY(check_words(e));
    return check_biases(e, &has_attention, &has_mlp);
}

/* The result's model type; with a temperature of its own one that other readers refuse. */
static const char *type_of(const foci_export *e, char type[TYPE_BYTES])
{
    (void)snprintf(type, TYPE_BYTES, "%s%s", e->keeps_temperature ? FOCI_OWN_HF : "",
                   e->family->hf);
    return type;
}

static focal_status put_config(members *m, const foci_export *e)
{
    const foci_config *c = &e->model->config;
    char type[TYPE_BYTES];
    bool has_attention = false, has_mlp = false;
    FOCAL_TRY(check_words(e));
    FOCAL_TRY(check_biases(e, &has_attention, &has_mlp));
    put_raw(m, "{");
    put_name(m, "architectures");
    put_raw(m, e->keeps_temperature ? "[\n    \"Focal" : "[\n    \"");
    put_raw(m, e->family->hf_class);
    put_raw(m, "\"\n  ]");
    put_word(m, "model_type", type_of(e, type));
    if (e->keeps_temperature) {
        put_name(m, "focal_temperature");
        foci_export_write_temperature(e, m->file);
    }
    const foci_text title = foci_text_of(e->model->name);
    if (title.bytes > 0 && foci_text_is_plain(title)) put_word(m, "_name_or_path", e->model->name);
    put_int(m, "vocab_size", c->V);
    if (e->family->is_gpt2) {
        put_gpt2_shapes(m, c);
    } else {
        put_shapes(m, c);
        put_rope(m, e);
        put_windows(m, e);
        if (e->family->has_scaled_embed) put_gemma(m, c);
        if (strcmp(e->family->name, "qwen2") != 0) put_bool(m, "attention_bias", has_attention);
        if (strcmp(e->family->name, "llama") == 0) put_bool(m, "mlp_bias", has_mlp);
    }
    put_bool(m, "tie_word_embeddings", e->model->weights.is_tied);
    FOCAL_TRY(put_ids(m, e));
    put_word(m, "torch_dtype", type_word(foci_export_main_type(e)));
    /* Whose keys these are. Without it transformers 5 warns of every large vocabulary, as if it
     * were one of Mistral's that had a fault. */
    put_word(m, "transformers_version", "4.57.0");
    FOCAL_TRY(foci_export_write_metadata(e, m->file));
    put_raw(m, "\n}\n");
    return FOCAL_OK;
}

/* Another directory's config.json, with the type that the weights have now. */
static focal_status copy_config(const foci_export *e, const foci_json *config, foci_writer *file)
{
    const char *key = foci_json_get(config, "dtype") ? "dtype" : "torch_dtype";
    char *text = NULL;
    size_t bytes = 0;
    FOCAL_TRY(foci_json_print_with(e->ctx, config, key, type_word(foci_export_main_type(e)), &text,
                                   &bytes));
    foci_writer_put(file, text, bytes);
    foci_writer_put(file, "\n", 1);
    foci_free(e->ctx, text);
    return FOCAL_OK;
}

focal_status foci_export_config(foci_export *e, const char *folder)
{
    /* Of a model with pictures only the language model is written, which is another type. */
    const foci_json *config = e->model->dir ? e->model->dir->config : NULL;
    const char *type = foci_json_string(foci_json_get(config, "model_type"));
    char own[TYPE_BYTES];
    const bool is_copy = type && strcmp(type, type_of(e, own)) == 0;
    if (is_copy && !e->options.has_type)
        return foci_export_copy_file(e->ctx, e->model->path, folder, "config.json");
    char *path = foci_path_join(e->ctx, folder, strlen(folder), "config.json");
    foci_writer *file = NULL;
    if (!path) return FOCAL_ENOMEM;
    focal_status status = foci_writer_open(e->ctx, path, &file);
    foci_free(e->ctx, path);
    if (status != FOCAL_OK) return status;
    members m = {file, 1, false};
    status = is_copy ? copy_config(e, config, file) : put_config(&m, e);
    if (status == FOCAL_OK) return foci_writer_commit(file);
    foci_writer_abandon(file);
    return status;
}
