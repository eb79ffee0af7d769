/* Opening a model: the file, what it says of itself, its weights, its tokenizer. */
#include "model/model.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "base/error.h"
#include "base/hash.h"
#include "focal/adapter.h"
#include "io/file.h"
#include "model/suggestion.h"
#include "text/tokenizer.h"

enum { TOKENIZER_BYTES = 256 << 20 };

static uint64_t hash_number(uint64_t hash, uint32_t number)
{
    for (int n = 0; n < 4; n++) hash = foci_hash_one(hash, number >> 8 * n & 0xFFU);
    return hash;
}

/* Norms as bfloat16, with the offset inside: files of one model agree on that, whatever type and
 * convention they keep norms in. */
static uint64_t hash_gain(uint64_t hash, const foci_config *c, const foci_gain *gain, int64_t count)
{
    for (int64_t n = 0; gain->weight && n < count; n++) {
        hash = hash_number(hash, foci_bf16_from_float(gain->weight[n] + c->norm_offset));
    }
    return hash;
}

/* Of one that is not part of the weights; what was learned as bfloat16, as norms are. */
static uint64_t hash_temperature(uint64_t hash, const focal_model *model)
{
    const foci_config *c = &model->config;
    for (int32_t n = 0; n < c->L; n++) {
        const foci_temperature *t = model->weights.layers[n].temperature;
        if (!t) continue;
        hash = hash_number(hash, (uint32_t)t->kind);
        hash = hash_number(hash, foci_bf16_from_float(t->t));
        for (int32_t i = 0; t->u && i < c->C; i++)
            hash = hash_number(hash, foci_bf16_from_float(t->u[i]));
        for (int32_t i = 0; t->lt && i < c->H; i++)
            hash = hash_number(hash, foci_bf16_from_float(t->lt[i]));
    }
    return hash;
}

static void make_fingerprint(focal_model *model)
{
    const foci_config *c = &model->config;
    const int32_t shapes[] = {c->L, c->C, c->H, c->G, c->D, c->F, c->V};
    uint64_t hash = FOCI_HASH_BEGIN;
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) hash = hash_number(hash, (uint32_t)shapes[n]);
    hash = hash_gain(hash, c, &model->weights.final_norm, c->C);
    for (int32_t n = 0; n < c->L; n++) {
        hash = hash_gain(hash, c, &model->weights.layers[n].attn_norm, c->C);
        hash = hash_gain(hash, c, &model->weights.layers[n].attn_post, c->C);
    }
    hash = hash_temperature(hash, model);
    for (int32_t n = 0; model->tokenizer && n < focal_tokenizer_size(model->tokenizer); n++) {
        const focal_token token = focal_tokenizer_token(model->tokenizer, n);
        hash = foci_hash_bytes(hash, token.bytes, token.byte_count);
    }
    (void)snprintf(model->fingerprint, sizeof model->fingerprint, "%016llx",
                   (unsigned long long)hash);
}

static void copy_text(char *to, size_t capacity, const char *from, size_t bytes)
{
    if (bytes > capacity - 1) bytes = capacity - 1;
    if (bytes > 0) memcpy(to, from, bytes);
    to[bytes] = '\0';
    for (size_t n = 0; n < bytes; n++) /* it is printed: a file's name must not steer a terminal */
        if ((unsigned char)to[n] < 0x20 || to[n] == 0x7F) to[n] = '?';
}

/* "no_vocab" is what converters write for a model without. */
static focal_status open_tokenizer_gguf(focal_model *model)
{
    foci_text kind = {"no_vocab", 8};
    FOCAL_TRY(foci_gguf_get_text(model->gguf, "tokenizer.ggml.model", &kind));
    if (foci_text_equal(kind, foci_text_of("no_vocab"))) return FOCAL_OK;
    FOCAL_TRY(foci_tokenizer_from_gguf(model->ctx, model->gguf, &model->tokenizer));
    return foci_tokenizer_set_origin(model->tokenizer, model->path, true);
}

static focal_status open_gguf(focal_model *model)
{
    FOCAL_TRY(foci_gguf_open(model->ctx, model->path, &model->gguf));
    FOCAL_TRY(foci_config_from_gguf(model->ctx, model->gguf, &model->config));
    const foci_tensor_source source = {.gguf = model->gguf, .path = model->path};
    FOCAL_TRY(foci_model_weights_bind(model->ctx, &source, &model->config, &model->weights));
    foci_text name = {"", 0}, licence = {"", 0};
    FOCAL_TRY(foci_gguf_get_text(model->gguf, "general.name", &name));
    FOCAL_TRY(foci_gguf_get_text(model->gguf, "general.license", &licence));
    copy_text(model->name, sizeof model->name, name.data, name.bytes);
    copy_text(model->licence, sizeof model->licence, licence.data, licence.bytes);
    FOCAL_TRY(foci_suggestion_from_gguf(model->ctx, model->gguf, &model->suggestion));
    return open_tokenizer_gguf(model);
}

static focal_status open_tokenizer_json(focal_model *model)
{
    const char *path = model->dir->tokenizer_path;
    if (!path) return FOCAL_OK;
    char *text = NULL;
    size_t bytes = 0;
    foci_json *json = NULL;
    FOCAL_TRY(foci_read_file(model->ctx, path, TOKENIZER_BYTES, &text, &bytes));
    focal_status status = foci_json_parse(model->ctx, path, text, bytes, &json);
    if (status == FOCAL_OK)
        status = foci_tokenizer_from_json(model->ctx, path, json, model->dir->tokenizer_config,
                                          &model->tokenizer);
    if (status == FOCAL_OK) status = foci_tokenizer_set_origin(model->tokenizer, path, false);
    foci_json_free(json);
    foci_free(model->ctx, text);
    return status;
}

static focal_status open_directory(focal_model *model)
{
    char what[512];
    FOCAL_TRY(foci_model_dir_open(model->ctx, model->path, &model->dir));
    (void)snprintf(what, sizeof what, "%.480s/config.json", model->path);
    FOCAL_TRY(foci_config_from_json(model->ctx, what, model->dir->config, &model->config));
    if (!model->dir->weights_path)
        return foci_fail(model->ctx, FOCAL_EFORMAT, "%s: no *.safetensors", model->path);
    FOCAL_TRY(foci_safetensors_open(model->ctx, model->dir->weights_path, &model->safetensors));
    const foci_tensor_source source = {.safetensors = model->safetensors,
                                       .path = model->dir->weights_path};
    FOCAL_TRY(foci_model_weights_bind(model->ctx, &source, &model->config, &model->weights));
    const char *name = foci_json_string(foci_json_get(model->dir->config, "_name_or_path"));
    copy_text(model->name, sizeof model->name, name, name ? strlen(name) : 0);
    const foci_json *metadata = foci_json_get(model->dir->config, "focal_metadata");
    const foci_json *licence = foci_json_get(metadata, "general.license");
    copy_text(model->licence, sizeof model->licence, foci_json_string(licence),
              foci_json_length(licence));
    FOCAL_TRY(open_tokenizer_json(model));
    (void)snprintf(what, sizeof what, "%.480s/generation_config.json", model->path);
    return foci_suggestion_from_json(model->ctx, what, model->dir->generation, model->config.V,
                                     model->tokenizer, &model->suggestion);
}

/* The frequencies of global (0) or windowed layers (1); what the file says of them may be wrong. */
static focal_status make_table(focal_model *model, int is_local)
{
    const foci_config *c = &model->config;
    const focal_status status =
        foci_rope_table(model->ctx, is_local ? &c->rope_local : &c->rope, model->inv_freq[is_local],
                        &model->rope_scale[is_local]);
    if (status != FOCAL_EINVAL) return status;
    char why[256];
    (void)snprintf(why, sizeof why, "%s", focal_ctx_error(model->ctx));
    return foci_fail(model->ctx, FOCAL_EFORMAT, "%s: %s", model->path, why);
}

static focal_status open_parts(focal_model *model)
{
    struct stat info;
    const bool is_directory = stat(model->path, &info) == 0 && S_ISDIR(info.st_mode);
    FOCAL_TRY(is_directory ? open_directory(model) : open_gguf(model));
    foci_config *c = &model->config;
    if (model->tokenizer && focal_tokenizer_size(model->tokenizer) > c->V)
        return foci_fail(model->ctx, FOCAL_EFORMAT, "%s: a tokenizer of %d ids, a model of %d",
                         model->path, focal_tokenizer_size(model->tokenizer), c->V);
    if (!c->has_positions) {
        c->rope.divisors = model->weights.rope_divisors;
        FOCAL_TRY(make_table(model, 0));
        FOCAL_TRY(make_table(model, 1));
    }
    foci_temperature_describe(c, model->temperature, sizeof model->temperature);
    make_fingerprint(model);
    return FOCAL_OK;
}

focal_status focal_model_open(focal_ctx *ctx, const char *path, const focal_model_options *options,
                              focal_model **out)
{
    const focal_model_options o = options ? *options : (focal_model_options){0};
    if (!out) return foci_fail(ctx, FOCAL_EINVAL, "model: no place for the model");
    *out = NULL;
    if (!path || !*path) return foci_fail(ctx, FOCAL_EINVAL, "model: no path");
    if (o.has_precision && o.precision != FOCAL_F32 && o.precision != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "model: %s is not f32 or bf16",
                         focal_dtype_name(o.precision));
    focal_model *model = foci_alloc(ctx, 1, sizeof *model);
    if (!model) return FOCAL_ENOMEM;
    memset(model, 0, sizeof *model);
    model->ctx = ctx;
    model->precision = o.has_precision ? o.precision : focal_default_precision(ctx);
    model->path = foci_alloc(ctx, strlen(path) + 1, 1);
    focal_status status = FOCAL_ENOMEM;
    if (model->path) {
        memcpy(model->path, path, strlen(path) + 1);
        status = open_parts(model);
    }
    if (status != FOCAL_OK) {
        focal_model_close(model);
        return status;
    }
    *out = model;
    return FOCAL_OK;
}

void focal_model_close(focal_model *model)
{
    if (!model) return;
    foci_model_weights_release(model->ctx, &model->weights);
    foci_free(model->ctx, model->adapter_temperatures);
    foci_low_ranks_free(model->ctx, model->adapter_low_ranks);
    focal_adapter_close(model->adapter);
    focal_tokenizer_free(model->tokenizer);
    foci_safetensors_close(model->safetensors);
    foci_model_dir_close(model->dir);
    foci_gguf_close(model->gguf);
    foci_free(model->ctx, model->path);
    foci_free(model->ctx, model);
}

focal_ctx *focal_model_ctx(const focal_model *model)
{
    return model->ctx;
}

/* Counts a tensor once for what it stores. */
static void count_tensor(focal_model_info *info, const foci_tensor *tensor)
{
    int64_t count = 1;
    for (int32_t n = 0; n < tensor->dims; n++) count *= tensor->shape[n];
    info->parameter_count += count;
    info->weight_bytes += (int64_t)tensor->bytes;
    info->type_count[tensor->dtype] += count;
}

/* Work of a product, for a token. */
static void count_linear(const foci_linear *w, int64_t *flops, int64_t *bytes)
{
    if (!w->w) return;
    *flops += 2 * (int64_t)w->N * w->K;
    *bytes += (int64_t)w->N * w->K / focal_dtype_block(w->dtype) *
              (int64_t)focal_dtype_block_bytes(w->dtype);
}

static void count_work(const focal_model *model, focal_model_info *info)
{
    const foci_model_weights *w = &model->weights;
    for (int32_t n = 0; n < model->config.L; n++) {
        const foci_layer *layer = &w->layers[n];
        const foci_linear *linears[] = {&layer->qkv, &layer->q,  &layer->k,    &layer->v,
                                        &layer->out, &layer->up, &layer->gate, &layer->down};
        for (size_t i = 0; i < FOCAL_COUNT(linears); i++)
            count_linear(linears[i], &info->layer_flops, &info->step_bytes);
    }
    count_linear(&w->head, &info->head_flops, &info->step_bytes);
}

focal_model_info focal_model_describe(const focal_model *model)
{
    const foci_config *c = &model->config;
    focal_model_info info = {
        .path = model->path,
        .format = model->gguf ? "gguf" : "huggingface",
        .family = c->family->name,
        .name = model->name,
        .licence = model->licence,
        .temperature = model->temperature,
        .L = c->L,
        .C = c->C,
        .H = c->H,
        .G = c->G,
        .D = c->D,
        .F = c->F,
        .V = c->V,
        .context = c->context,
        .is_tied = model->weights.is_tied,
        .precision = model->precision,
    };
    if (model->groups || model->near) {
        const foci_groups *groups = model->groups ? model->groups : model->near;
        if (foci_groups_exist(&groups->shape)) info.groups = groups->shape.K;
        if (model->groups) info.top = model->use.top;
        info.group_window = model->use.window;
        info.sinks = model->use.sinks;
    }
    for (int32_t n = 0; n < c->L; n++) info.window_layers += c->is_local[n];
    if (info.window_layers > 0) info.window = c->window;
    const bool has_file = model->gguf || model->safetensors; /* a model in training has none */
    const int64_t count = model->gguf ? foci_gguf_tensor_count(model->gguf)
                          : has_file  ? foci_safetensors_tensor_count(model->safetensors)
                                      : 0;
    for (int64_t n = 0; n < count; n++)
        count_tensor(&info, model->gguf ? foci_gguf_tensor_at(model->gguf, n)
                                        : foci_safetensors_tensor_at(model->safetensors, n));
    count_work(model, &info);
    return info;
}

const focal_tokenizer *focal_model_tokenizer(const focal_model *model)
{
    return model->tokenizer;
}

const char *focal_model_template(const focal_model *model, size_t *bytes)
{
    foci_text text = {NULL, 0};
    if (model->dir)
        text = (foci_text){model->dir->chat_template, model->dir->chat_template_bytes};
    else if (foci_gguf_get_text(model->gguf, "tokenizer.chat_template", &text) != FOCAL_OK)
        text = (foci_text){NULL, 0};
    if (bytes) *bytes = text.bytes;
    return text.data;
}

focal_suggestion focal_model_suggest(const focal_model *model)
{
    return model->suggestion;
}

const char *focal_model_fingerprint(const focal_model *model)
{
    return model->fingerprint;
}
