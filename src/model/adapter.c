/* Adapters: opening a directory, and what is in it. */
#include "model/adapter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/hash.h"
#include "io/file.h"
#include "model/adapter_layout.h"
#include "model/adapter_read.h"

enum { CONFIG_BYTES = 1 << 20 };

/* One who names a file of an adapter is told so. */
static focal_status check_is_folder(focal_ctx *ctx, const char *path)
{
    struct stat is;
    if (stat(path, &is) != 0 || S_ISDIR(is.st_mode)) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EIO, "%s: is a file; an adapter is the folder with its files",
                     path);
}

static focal_status read_json(focal_ctx *ctx, const char *path, uint64_t *hash, foci_json **json)
{
    char *text = NULL;
    size_t bytes = 0;
    *json = NULL;
    FOCAL_TRY(foci_read_file(ctx, path, CONFIG_BYTES, &text, &bytes));
    *hash = foci_hash_bytes(*hash, text, bytes);
    const focal_status status = foci_json_parse(ctx, path, text, bytes, json);
    foci_free(ctx, text);
    return status;
}

focal_status focal_adapter_open(focal_ctx *ctx, const char *path, focal_adapter **adapter)
{
    if (!adapter) return foci_fail(ctx, FOCAL_EINVAL, "adapter: no place for the adapter");
    *adapter = NULL;
    if (!path || !*path) return foci_fail(ctx, FOCAL_EINVAL, "adapter: no path");
    FOCAL_TRY(check_is_folder(ctx, path));
    uint64_t hash = FOCI_HASH_BEGIN;
    foci_json *json = NULL;
    foci_map map = {0}; /* one for the checksum and the tensors: they are of the same bytes */
    foci_safetensors *tensors = NULL;
    foci_adapter_config config = {.settings = NULL};
    char *config_path = foci_path_join(ctx, path, strlen(path), FOCI_ADAPTER_CONFIG);
    char *tensors_path = foci_path_join(ctx, path, strlen(path), FOCI_ADAPTER_TENSORS);
    focal_status status = config_path && tensors_path ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = read_json(ctx, config_path, &hash, &json);
    if (status == FOCAL_OK) status = foci_adapter_read_config(ctx, config_path, json, &config);
    if (status == FOCAL_OK) status = foci_map_open(ctx, tensors_path, &map);
    if (status == FOCAL_OK)
        status = foci_safetensors_parse(ctx, tensors_path, map.data, map.bytes, &tensors);
    if (status == FOCAL_OK) status = foci_adapter_new(ctx, path, &config, tensors, adapter);
    if (status == FOCAL_OK)
        (void)snprintf((*adapter)->checksum, sizeof(*adapter)->checksum, "%016llx",
                       (unsigned long long)foci_hash_bytes(hash, map.data, map.bytes));
    foci_safetensors_close(tensors);
    foci_map_close(&map);
    foci_json_free(json);
    foci_free(ctx, config.settings);
    foci_free(ctx, config_path);
    foci_free(ctx, tensors_path);
    return status;
}

void focal_adapter_close(focal_adapter *adapter)
{
    if (!adapter) return;
    foci_groups_free(adapter->ctx, adapter->groups);
    foci_low_ranks_free(adapter->ctx, adapter->low_ranks);
    foci_free(adapter->ctx, adapter->settings);
    foci_free(adapter->ctx, adapter->path);
    foci_free(adapter->ctx, adapter);
}

static void describe_groups(const focal_adapter *adapter, focal_adapter_info *info)
{
    const foci_groups *groups = adapter->groups;
    const foci_groups_shape *shape = &groups->shape;
    info->kind = "groups";
    info->mode = shape->mode == FOCAL_SHARED ? "shared" : "directed";
    info->scope = shape->routers == shape->G ? "kv" : "layer";
    info->L = shape->L;
    info->C = shape->C;
    info->H = shape->H;
    info->G = shape->G;
    info->groups = shape->K;
    info->width = shape->R;
    info->top = groups->top;
    info->top_fit = groups->top_fit;
    info->window = groups->window;
    info->sinks = groups->sinks;
    info->form = foci_groups_form(shape);
    if (groups->log_scale) info->distant_scale = exp((double)*groups->log_scale);
    info->has_temperatures = shape->has_temperatures;
    info->is_causal = adapter->is_causal;
    info->parameter_count = groups->number_count;
    for (int32_t n = 0; n < shape->L; n++) info->layers += shape->layers[n];
}

static void describe_low_ranks(const focal_adapter *adapter, focal_adapter_info *info)
{
    const foci_low_ranks *low_ranks = adapter->low_ranks;
    info->kind = "lora";
    info->mode = info->scope = info->form = "";
    info->targets = adapter->targets;
    info->L = low_ranks->L;
    info->rank = low_ranks->rank;
    info->alpha = low_ranks->alpha;
    info->is_causal = true;
    info->parameter_count = low_ranks->number_count;
    for (int32_t n = 0; n < low_ranks->L; n++) {
        bool has_any = false;
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            if (low->a) info->scale = (double)low->scale;
            has_any |= low->a != NULL;
        }
        info->layers += has_any;
    }
}

focal_adapter_info focal_adapter_describe(const focal_adapter *adapter)
{
    focal_adapter_info info = {
        .path = adapter->path,
        .base = adapter->base,
        .fingerprint = adapter->fingerprint,
        .checksum = adapter->checksum,
        .version = adapter->version,
        .targets = "",
        .settings = adapter->settings,
        .dtype = adapter->dtype,
        .steps = adapter->steps,
    };
    if (adapter->low_ranks)
        describe_low_ranks(adapter, &info);
    else
        describe_groups(adapter, &info);
    return info;
}
