/* The tensors of groups: each must be there, in the size that the configuration says, and nothing
 * else may be. Only then is memory taken, which is at most twice the file. */
#include "model/adapter_read.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "focal/quant.h"
#include "model/adapter_layout.h"
#include "model/lora_files.h"

/* Every tensor of the file has a place: another might be a part that we would leave out. */
static focal_status check_names(focal_ctx *ctx, const foci_groups_shape *shape,
                                const foci_safetensors *file)
{
    int32_t layer;
    foci_group_tensor which;
    const char *path = foci_safetensors_path(file);
    if (foci_safetensors_other_count(file) > 0) {
        const foci_safetensors_other other = foci_safetensors_other_at(file, 0);
        return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                         "%s: tensor '%.100s' is of type %s, read are F32, F16 and BF16", path,
                         other.name, other.type);
    }
    for (int64_t n = 0; n < foci_safetensors_tensor_count(file); n++) {
        const char *name = foci_safetensors_tensor_at(file, n)->name;
        if (!foci_adapter_tensor_place(shape, name, &layer, &which))
            return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                             "%s: tensor '%.100s' has no place in the adapter that %s describes",
                             path, name, FOCI_ADAPTER_CONFIG);
    }
    return FOCAL_OK;
}

static focal_status fail_shape(focal_ctx *ctx, const char *path, const foci_tensor *tensor,
                               const foci_tensor *want)
{
    const int64_t *is = tensor->shape, *must = want->shape;
    return foci_fail(ctx, FOCAL_EFORMAT,
                     "%s: tensor '%s' has %d dimensions, %lld x %lld x %lld, the configuration "
                     "says %d, %lld x %lld x %lld",
                     path, tensor->name, tensor->dims, (long long)is[0], (long long)is[1],
                     (long long)is[2], want->dims, (long long)must[0], (long long)must[1],
                     (long long)must[2]);
}

static focal_status check_shapes(focal_ctx *ctx, const foci_groups_shape *shape,
                                 const foci_safetensors *file)
{
    char name[FOCI_ADAPTER_NAME_BYTES];
    const char *path = foci_safetensors_path(file);
    for (int32_t layer = 0; layer < shape->L; layer++)
        for (int n = 0; n < FOCI_GROUP_TENSORS; n++) {
            const foci_group_tensor which = (foci_group_tensor)n;
            if (foci_groups_count(shape, layer, which) == 0) continue;
            foci_adapter_tensor_name(layer, which, name);
            const foci_tensor *tensor = foci_safetensors_tensor(file, name);
            const foci_tensor want = foci_adapter_tensor_shape(shape, which);
            if (!tensor)
                return foci_fail(ctx, FOCAL_EFORMAT, "%s: the tensor '%s' is missing", path, name);
            if (tensor->dims != want.dims ||
                memcmp(tensor->shape, want.shape, sizeof want.shape) != 0)
                return fail_shape(ctx, path, tensor, &want);
        }
    return FOCAL_OK;
}

/* The tensors are those of the adapter: the two checks above have passed. */
static focal_status copy_numbers(focal_adapter *adapter, const foci_safetensors *file)
{
    const foci_groups *groups = adapter->groups;
    const char *path = foci_safetensors_path(file);
    adapter->dtype = FOCAL_F32;
    for (int64_t n = 0; n < foci_safetensors_tensor_count(file); n++) {
        int32_t layer = 0;
        foci_group_tensor which = FOCI_GROUP_LT;
        const foci_tensor *tensor = foci_safetensors_tensor_at(file, n);
        (void)foci_adapter_tensor_place(&groups->shape, tensor->name, &layer, &which);
        float *numbers = groups->layers[layer].tensors[which];
        const int64_t count = foci_groups_count(&groups->shape, layer, which);
        focal_dequantize(tensor->dtype, tensor->data, count, numbers);
        FOCAL_TRY(foci_adapter_check_numbers(adapter->ctx, FOCAL_EFORMAT, path, tensor->name,
                                             numbers, count));
        if (which == FOCI_GROUP_PK) adapter->dtype = tensor->dtype; /* nearly all numbers */
    }
    return FOCAL_OK;
}

static focal_status take_config(focal_adapter *adapter, foci_adapter_config *config)
{
    FOCAL_TRY(foci_groups_new(adapter->ctx, &config->shape, &adapter->groups));
    adapter->groups->top = config->top;
    adapter->groups->top_fit = config->top_fit;
    adapter->groups->window = config->window;
    adapter->groups->sinks = config->sinks;
    memcpy(adapter->fingerprint, config->fingerprint, sizeof adapter->fingerprint);
    memcpy(adapter->version, config->version, sizeof adapter->version);
    adapter->is_causal = config->is_causal;
    adapter->settings = config->settings;
    config->settings = NULL;
    return FOCAL_OK;
}

static focal_status find_steps(focal_adapter *adapter)
{
    foci_json *settings = NULL;
    const char *text = adapter->settings;
    FOCAL_TRY(foci_json_parse(adapter->ctx, "fit", text, strlen(text), &settings));
    const int64_t steps = foci_json_int(foci_json_get(settings, "steps"), -1);
    adapter->steps = steps < 0 ? -1 : steps;
    foci_json_free(settings);
    return FOCAL_OK;
}

static focal_status fill(focal_adapter *adapter, const char *path, foci_adapter_config *config,
                         const foci_safetensors *tensors)
{
    adapter->path = foci_alloc(adapter->ctx, strlen(path) + 1, 1);
    if (!adapter->path) return FOCAL_ENOMEM;
    memcpy(adapter->path, path, strlen(path) + 1);
    memcpy(adapter->base, config->base, sizeof adapter->base);
    if (config->is_lora) {
        FOCAL_TRY(foci_lora_read_tensors(adapter, &config->lora, tensors));
        return find_steps(adapter);
    }
    FOCAL_TRY(check_names(adapter->ctx, &config->shape, tensors));
    FOCAL_TRY(check_shapes(adapter->ctx, &config->shape, tensors));
    FOCAL_TRY(take_config(adapter, config));
    FOCAL_TRY(find_steps(adapter));
    return copy_numbers(adapter, tensors);
}

focal_status foci_adapter_new(focal_ctx *ctx, const char *path, foci_adapter_config *config,
                              const foci_safetensors *tensors, focal_adapter **out)
{
    *out = NULL;
    focal_adapter *adapter = foci_alloc(ctx, 1, sizeof *adapter);
    if (!adapter) return FOCAL_ENOMEM;
    memset(adapter, 0, sizeof *adapter);
    adapter->ctx = ctx;
    const focal_status status = fill(adapter, path, config, tensors);
    if (status != FOCAL_OK) {
        focal_adapter_close(adapter);
        return status;
    }
    *out = adapter;
    return FOCAL_OK;
}
