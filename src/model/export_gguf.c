/* The keys of an exported GGUF file. From another GGUF file they are copied; from a directory they
 * are written as llama.cpp's own converter does. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/gguf.h"
#include "model/export.h"
#include "text/tokenizer_export.h"

enum {
    NAME_BYTES = 64 /* of an architecture */,
    KEY_BYTES = 128,
    TOKENIZER_BYTES = 256 << 20,
    QUANTIZATION_VERSION = 2
};

/* llama.cpp's numbers for files that are mostly of a type ("S" where it has mixes). */
static const uint32_t file_types[] = {
    [FOCAL_F32] = 0,   [FOCAL_F16] = 1,   [FOCAL_Q4_0] = 2,    [FOCAL_Q4_1] = 3,  [FOCAL_Q8_0] = 7,
    [FOCAL_Q5_0] = 8,  [FOCAL_Q5_1] = 9,  [FOCAL_Q2_K] = 10,   [FOCAL_Q3_K] = 11, [FOCAL_Q4_K] = 14,
    [FOCAL_Q5_K] = 16, [FOCAL_Q6_K] = 18, [FOCAL_IQ4_NL] = 25, [FOCAL_BF16] = 32,
};

/* Puts keys under one prefix; the first failure stays. */
typedef struct key_writer {
    foci_gguf_writer *writer;
    const char *prefix;
    focal_status status;
} key_writer;

static const char *full_key(const key_writer *w, const char *name, char key[KEY_BYTES])
{
    (void)snprintf(key, KEY_BYTES, "%s.%s", w->prefix, name);
    return key;
}

static void put_int(key_writer *w, const char *name, int32_t value)
{
    char key[KEY_BYTES];
    if (w->status == FOCAL_OK)
        w->status = foci_gguf_put_u32(w->writer, full_key(w, name, key), (uint32_t)value);
}

static void put_real(key_writer *w, const char *name, double value)
{
    char key[KEY_BYTES];
    if (w->status == FOCAL_OK)
        w->status = foci_gguf_put_f32(w->writer, full_key(w, name, key), (float)value);
}

static void put_text(key_writer *w, const char *name, const char *value)
{
    char key[KEY_BYTES];
    if (w->status == FOCAL_OK)
        w->status = foci_gguf_put_text(w->writer, full_key(w, name, key), foci_text_of(value));
}

static bool has_period(const foci_config *c, int32_t period, bool global_is_first)
{
    foci_config other = {.L = c->L};
    foci_config_spread_windows(&other, period, global_is_first);
    return memcmp(other.is_local, c->is_local, sizeof other.is_local) == 0;
}

/* GGUF says which layers have the window by a period alone: the family's, 0 for all, or another;
 * -1: there is none. */
static int32_t find_period(const foci_config *c, const foci_family *f)
{
    if (has_period(c, f->local_period, f->global_is_first)) return f->local_period;
    for (int32_t period = 0; period <= c->L; period++)
        if (has_period(c, period, f->global_is_first)) return period;
    return -1;
}

static focal_status put_windows(foci_export *e, key_writer *w)
{
    const foci_config *c = &e->model->config;
    bool has_local = false;
    for (int32_t n = 0; n < c->L; n++) has_local = has_local || c->is_local[n];
    if (!has_local) return FOCAL_OK;
    const int32_t period = find_period(c, e->family);
    if (period < 0)
        return foci_fail(e->ctx, FOCAL_EUNSUPPORTED,
                         "%s: its windowed layers have no period, and GGUF has no words for others",
                         e->model->path);
    put_int(w, "attention.sliding_window", c->window + 1);
    if (period != e->family->local_period) put_int(w, "attention.sliding_window_pattern", period);
    return w->status;
}

static void put_rope(const foci_export *e, key_writer *w)
{
    const foci_rope_config *rope = &e->rope;
    put_int(w, "rope.dimension_count", rope->rotated);
    put_real(w, "rope.freq_base", rope->base);
    if (e->family->local_period == 6)
        put_real(w, "rope.freq_base_swa", e->model->config.rope_local.base);
    if (rope->kind == FOCI_ROPE_PLAIN) return;
    put_text(w, "rope.scaling.type", rope->kind == FOCI_ROPE_YARN ? "yarn" : "linear");
    put_real(w, "rope.scaling.factor", rope->factor);
    if (rope->kind != FOCI_ROPE_YARN) return;
    put_int(w, "rope.scaling.original_context_length", (int32_t)rope->original_context);
    if (rope->beta_fast != 0.0) put_real(w, "rope.scaling.yarn_beta_fast", rope->beta_fast);
    if (rope->beta_slow != 0.0) put_real(w, "rope.scaling.yarn_beta_slow", rope->beta_slow);
}

/* The result's architecture; with a temperature of its own one that other readers refuse. */
static const char *architecture_of(const foci_export *e, char name[NAME_BYTES])
{
    (void)snprintf(name, NAME_BYTES, "%s%s", e->keeps_temperature ? FOCI_OWN_GGUF : "",
                   e->family->gguf);
    return name;
}

/* A GGUF reader knows the activation by the family. */
static focal_status check_words(const foci_export *e)
{
    const foci_config *c = &e->model->config;
    if (c->activation != e->family->activation)
        return foci_fail(e->ctx, FOCAL_EUNSUPPORTED,
                         "%s: its activation is not that of %s models, and GGUF has no words for "
                         "another",
                         e->model->path, e->family->name);
    return FOCAL_OK;
}

static focal_status put_config(foci_export *e, foci_gguf_writer *writer)
{
    const foci_config *c = &e->model->config;
    const foci_family *f = e->family;
    char prefix[NAME_BYTES];
    key_writer w = {writer, architecture_of(e, prefix), FOCAL_OK};
    FOCAL_TRY(check_words(e));
    if (e->keeps_temperature) FOCAL_TRY(foci_export_put_temperature(e, writer, prefix));
    put_int(&w, "vocab_size", c->V);
    put_int(&w, "context_length", c->context);
    put_int(&w, "embedding_length", c->C);
    put_int(&w, "block_count", c->L);
    put_int(&w, "feed_forward_length", c->F);
    put_int(&w, "attention.head_count", c->H);
    put_real(&w, f->is_gpt2 ? "attention.layer_norm_epsilon" : "attention.layer_norm_rms_epsilon",
             (double)c->epsilon);
    if (f->is_gpt2) return w.status;
    put_int(&w, "attention.head_count_kv", c->G);
    put_int(&w, "attention.key_length", c->D);
    put_int(&w, "attention.value_length", c->D);
    /* The two largest Gemma models are known by their layers and have the key too: it says the
     * same. Readers that do not know it take the usual scale. */
    if (c->attn_scale != (float)(1.0 / sqrt(c->D)))
        put_real(&w, "attention.scale", (double)c->attn_scale);
    if (f->local_period == 2 || c->attn_softcap != 0.0F)
        put_real(&w, "attn_logit_softcapping", (double)c->attn_softcap);
    if (f->local_period == 2 || c->final_softcap != 0.0F)
        put_real(&w, "final_logit_softcapping", (double)c->final_softcap);
    put_rope(e, &w);
    FOCAL_TRY(w.status);
    return put_windows(e, &w);
}

/* The last part of a path, for a model without a name. */
static foci_text name_of(const foci_export *e)
{
    if (e->model->name[0] != '\0') return foci_text_of(e->model->name);
    foci_text path = foci_text_of(e->model->path);
    while (path.bytes > 1 && path.data[path.bytes - 1] == '/') path.bytes--;
    for (size_t n = path.bytes - 1; n > 0; n--)
        if (path.data[n - 1] == '/') return (foci_text){path.data + n, path.bytes - n};
    return path;
}

static focal_status put_types(const foci_export *e, foci_gguf_writer *writer)
{
    const focal_dtype type = foci_export_main_type(e);
    FOCAL_TRY(foci_gguf_put_u32(writer, "general.file_type", file_types[type]));
    return foci_gguf_put_u32(writer, "general.quantization_version", QUANTIZATION_VERSION);
}

static focal_status put_tokenizer(foci_export *e, foci_gguf_writer *writer)
{
    const foci_model_dir *dir = e->model->dir;
    /* llama.cpp wants the key; this word says that there is none. */
    if (!dir->tokenizer_path)
        return foci_gguf_put_text(writer, "tokenizer.ggml.model", foci_text_of("no_vocab"));
    /* A file of its own comes before what tokenizer_config.json says. */
    const foci_text template = {dir->chat_template, dir->chat_template_bytes};
    if (template.data && (dir->template_text || dir->template_root))
        FOCAL_TRY(foci_gguf_put_text(writer, "tokenizer.chat_template", template));
    char *text = NULL;
    size_t bytes = 0;
    foci_json *json = NULL;
    FOCAL_TRY(foci_read_file(e->ctx, dir->tokenizer_path, TOKENIZER_BYTES, &text, &bytes));
    focal_status status = foci_json_parse(e->ctx, dir->tokenizer_path, text, bytes, &json);
    foci_free(e->ctx, text);
    if (status == FOCAL_OK)
        status = foci_tokenizer_put_gguf(e->ctx, dir->tokenizer_path, json, dir->tokenizer_config,
                                         e->model->config.V, writer);
    foci_json_free(json);
    return status;
}

static focal_status put_keys(foci_export *e, foci_gguf_writer *writer)
{
    char name[NAME_BYTES];
    FOCAL_TRY(
        foci_gguf_put_text(writer, "general.architecture", foci_text_of(architecture_of(e, name))));
    FOCAL_TRY(foci_gguf_put_text(writer, "general.type", foci_text_of("model")));
    FOCAL_TRY(foci_gguf_put_text(writer, "general.name", name_of(e)));
    FOCAL_TRY(foci_export_put_metadata(e, writer));
    FOCAL_TRY(put_config(e, writer));
    FOCAL_TRY(put_types(e, writer));
    return put_tokenizer(e, writer);
}

/* All keys of the other file, but for those that say what types are in it when that changes. */
static focal_status copy_keys(foci_export *e, foci_gguf_writer *writer)
{
    const foci_gguf *from = e->model->gguf;
    for (int64_t n = 0; n < foci_gguf_key_count(from); n++) {
        char key[FOCI_GGUF_KEY_BYTES + 1];
        const foci_text text = foci_gguf_key(from, n);
        memcpy(key, text.data, text.bytes);
        key[text.bytes] = '\0';
        const bool is_type = strcmp(key, "general.file_type") == 0 ||
                             strcmp(key, "general.quantization_version") == 0;
        if (!is_type || !e->options.has_type) FOCAL_TRY(foci_gguf_put_copy(writer, from, key));
    }
    return e->options.has_type ? put_types(e, writer) : FOCAL_OK;
}

focal_status foci_export_gguf(foci_export *e)
{
    foci_gguf_writer *writer = NULL;
    FOCAL_TRY(foci_gguf_writer_new(e->ctx, &writer));
    focal_status status = e->model->gguf ? copy_keys(e, writer) : put_keys(e, writer);
    for (int64_t n = 0; n < e->item_count && status == FOCAL_OK; n++) {
        foci_tensor tensor = e->items[n].tensor;
        tensor.name = e->items[n].name;
        status = foci_gguf_put_tensor(writer, &tensor);
    }
    if (status == FOCAL_OK) status = foci_gguf_writer_commit(writer, e->out, foci_export_fill, e);
    foci_gguf_writer_free(writer);
    return status;
}
