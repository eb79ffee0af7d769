/* LoRA's tensors: for each module an A and a B that fit each other and the rank, in every layer the
 * same ones, as far as the configuration says so; and nothing else. Only then is memory taken,
 * which is at most twice the file. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "focal/quant.h"
#include "io/names.h"
#include "model/lora_files.h"

/* Shapes as they are found; 0: not yet. */
typedef struct found {
    focal_adapter *adapter;
    const foci_lora_config *config;
    const char *path;
    foci_low_rank_size (*sizes)[FOCI_LINEAR_PLACES]; /* (FOCI_MAX_LAYERS) */
    int32_t L;
} found;

static focal_status fail_name(const found *f, const char *name, const char *why)
{
    return foci_fail(f->adapter->ctx, FOCAL_EUNSUPPORTED, "%s: tensor '%.100s' has no place: %s",
                     f->path, name, why);
}

static focal_status check_others(const found *f, const foci_safetensors *file)
{
    if (foci_safetensors_other_count(file) == 0) return FOCAL_OK;
    const foci_safetensors_other other = foci_safetensors_other_at(file, 0);
    return foci_fail(f->adapter->ctx, FOCAL_EUNSUPPORTED,
                     "%s: tensor '%.100s' is of type %s, read are F32, F16 and BF16", f->path,
                     other.name, other.type);
}

/* The rank is A's first dimension and B's second; the other is what is kept. */
static focal_status take_shape(const found *f, const foci_tensor *tensor, bool is_b, int32_t *size)
{
    const int32_t rank = f->config->rank;
    const int64_t inner = is_b ? tensor->shape[1] : tensor->shape[0];
    const int64_t outer = is_b ? tensor->shape[0] : tensor->shape[1];
    if (tensor->dims != 2 || inner != rank || outer < 1 || outer > FOCI_MAX_HIDDEN)
        return foci_fail(
            f->adapter->ctx, FOCAL_EFORMAT,
            "%s: tensor '%s' has %d dimensions, %lld x %lld; it must have 2, and %d %s", f->path,
            tensor->name, tensor->dims, (long long)tensor->shape[0], (long long)tensor->shape[1],
            rank, is_b ? "columns" : "rows");
    *size = (int32_t)outer;
    return FOCAL_OK;
}

static focal_status find_tensor(found *f, const foci_tensor *tensor, bool is_first)
{
    int32_t layer;
    foci_lora_names names;
    foci_linear_place place;
    bool is_b;
    if (!foci_lora_tensor_place(tensor->name, &names, &layer, &place, &is_b))
        return fail_name(f, tensor->name, "only the linear layers of transformer layers have one");
    if (!is_first && names != f->adapter->names)
        return fail_name(f, tensor->name, "the others are of another family");
    f->adapter->names = names;
    if (f->config->has_targets && !f->config->targets[names][place])
        return fail_name(f, tensor->name, "it is none of the target_modules");
    if (f->config->has_layers && !f->config->layers[layer])
        return fail_name(f, tensor->name, "its layer is none of layers_to_transform");
    foci_low_rank_size *size = &f->sizes[layer][place];
    if (layer >= f->L) f->L = layer + 1;
    return take_shape(f, tensor, is_b, is_b ? &size->N : &size->K);
}

static focal_status fail_missing(const found *f, int32_t layer, foci_linear_place place, bool is_b)
{
    char name[FOCI_ADAPTER_NAME_BYTES];
    foci_lora_tensor_name(f->adapter->names, layer, place, is_b, name);
    return foci_fail(f->adapter->ctx, FOCAL_EFORMAT, "%s: the tensor '%s' is missing", f->path,
                     name);
}

/* Whether a layer must have an addition at a place: the configuration lists it. */
static bool is_due(const found *f, int32_t layer, foci_linear_place place)
{
    const foci_lora_config *c = f->config;
    if (!foci_lora_part(f->adapter->names, place)) return false;
    if (c->has_layers && !c->layers[layer]) return false;
    return c->has_targets && c->targets[f->adapter->names][place];
}

static focal_status check_whole(const found *f)
{
    for (int32_t n = 0; n < f->L; n++)
        for (int at = 0; at < FOCI_LINEAR_PLACES; at++) {
            const foci_linear_place place = (foci_linear_place)at;
            const foci_low_rank_size *size = &f->sizes[n][place];
            const bool is_there = size->N > 0 || size->K > 0 || is_due(f, n, place);
            if (is_there && size->K == 0) return fail_missing(f, n, place, false);
            if (is_there && size->N == 0) return fail_missing(f, n, place, true);
        }
    for (int32_t n = f->L; f->config->has_layers && f->config->has_targets && n < FOCI_MAX_LAYERS;
         n++)
        if (f->config->layers[n])
            return foci_fail(f->adapter->ctx, FOCAL_EFORMAT,
                             "%s: layers_to_transform has %d, for which there is no tensor",
                             f->path, n);
    return FOCAL_OK;
}

static focal_status find_all(found *f, const foci_safetensors *file)
{
    FOCAL_TRY(check_others(f, file));
    for (int64_t n = 0; n < foci_safetensors_tensor_count(file); n++)
        FOCAL_TRY(find_tensor(f, foci_safetensors_tensor_at(file, n), n == 0));
    return check_whole(f);
}

static focal_status copy_numbers(focal_adapter *adapter, const foci_safetensors *file)
{
    const char *path = foci_safetensors_path(file);
    for (int64_t n = 0; n < foci_safetensors_tensor_count(file); n++) {
        int32_t layer;
        foci_lora_names names;
        foci_linear_place place;
        bool is_b;
        const foci_tensor *tensor = foci_safetensors_tensor_at(file, n);
        (void)foci_lora_tensor_place(tensor->name, &names, &layer, &place, &is_b);
        const foci_low_rank *low = &adapter->low_ranks->layers[layer][place];
        const int64_t count = (int64_t)low->rank * (is_b ? low->N : low->K);
        float *numbers = is_b ? low->b : low->a;
        focal_dequantize(tensor->dtype, tensor->data, count, numbers);
        FOCAL_TRY(foci_adapter_check_numbers(adapter->ctx, FOCAL_EFORMAT, path, tensor->name,
                                             numbers, count));
        adapter->dtype = tensor->dtype;
    }
    return FOCAL_OK;
}

/* "q_proj v_proj", for people. */
static void list_targets(focal_adapter *adapter)
{
    size_t used = 0;
    for (int at = 0; at < FOCI_LINEAR_PLACES; at++) {
        const foci_linear_place place = (foci_linear_place)at;
        const char *part = foci_lora_part(adapter->names, place);
        bool is_there = false;
        for (int32_t n = 0; n < adapter->low_ranks->L; n++)
            is_there |= adapter->low_ranks->layers[n][place].a != NULL;
        if (!is_there) continue;
        const char *shown = adapter->names == FOCI_LORA_GPT2 ? part : strchr(part, '.') + 1;
        used += (size_t)snprintf(adapter->targets + used, sizeof adapter->targets - used, "%s%s",
                                 used > 0 ? " " : "", shown);
    }
}

/* What focal wrote about it; all of it may be missing, for peft writes nothing there. */
static focal_status read_notes(focal_adapter *adapter, const foci_safetensors *file)
{
    const char *version = foci_safetensors_text(file, FOCI_LORA_VERSION_KEY);
    const char *fingerprint = foci_safetensors_text(file, FOCI_LORA_FINGERPRINT_KEY);
    const char *fit = foci_safetensors_text(file, FOCI_LORA_FIT_KEY);
    const char *path = foci_safetensors_path(file);
    static const char none[] = "{}";
    foci_json *json = NULL;
    size_t bytes = 0;
    if (version && strlen(version) < sizeof adapter->version &&
        foci_text_is_plain(foci_text_of(version)))
        memcpy(adapter->version, version, strlen(version) + 1);
    if (fingerprint && !foci_is_fingerprint(fingerprint))
        return foci_fail(adapter->ctx, FOCAL_EFORMAT, "%s: '%s' is '%.40s', no fingerprint", path,
                         FOCI_LORA_FINGERPRINT_KEY, fingerprint);
    if (fingerprint) memcpy(adapter->fingerprint, fingerprint, sizeof adapter->fingerprint);
    const char *text = fit ? fit : none;
    FOCAL_TRY(foci_json_parse(adapter->ctx, path, text, strlen(text), &json));
    focal_status status = FOCAL_OK;
    if (foci_json_is(json, FOCI_JSON_OBJECT))
        status = foci_json_print(adapter->ctx, json, &adapter->settings, &bytes);
    else
        status = foci_fail(adapter->ctx, FOCAL_EFORMAT, "%s: '%s' must be an object", path,
                           FOCI_LORA_FIT_KEY);
    foci_json_free(json);
    return status;
}

focal_status foci_lora_read_tensors(focal_adapter *adapter, const foci_lora_config *config,
                                    const foci_safetensors *file)
{
    focal_ctx *ctx = adapter->ctx;
    found f = {.adapter = adapter, .config = config, .path = foci_safetensors_path(file)};
    f.sizes = foci_alloc(ctx, FOCI_MAX_LAYERS, sizeof *f.sizes);
    if (!f.sizes) return FOCAL_ENOMEM;
    memset(f.sizes, 0, FOCI_MAX_LAYERS * sizeof *f.sizes);
    focal_status status = find_all(&f, file);
    if (status == FOCAL_OK && f.L == 0)
        status = foci_fail(ctx, FOCAL_EFORMAT, "%s: it has no tensors", f.path);
    if (status == FOCAL_OK) {
        const foci_low_ranks_shape shape = {
            .L = f.L,
            .rank = config->rank,
            .alpha = config->alpha,
            .is_root_scaled = config->is_root_scaled,
            .sizes = (const foci_low_rank_size(*)[FOCI_LINEAR_PLACES])f.sizes};
        status = foci_low_ranks_new(ctx, &shape, &adapter->low_ranks);
    }
    foci_free(ctx, f.sizes);
    if (status != FOCAL_OK) return status;
    adapter->is_whole = config->has_targets && !config->has_layers;
    list_targets(adapter);
    FOCAL_TRY(read_notes(adapter, file));
    return copy_numbers(adapter, file);
}
