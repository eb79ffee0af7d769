/* Any bytes as an adapter, of groups or LoRA: refused with a sentence of one line, or all its
 * numbers are finite and its routers or layers read them. Two bytes say how long the configuration
 * is that follows. The byte before them says what the rest is: a whole file of tensors, its header
 * alone, or the numbers of a file that fits the configuration, which no mutation would find. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "model/adapter_layout.h"
#include "model/adapter_read.h"
#include "model/lora_files.h"

enum { MOST_BYTES = 1 << 16, ENTRY_BYTES = 256 };

static void require(int is_true, const char *what)
{
    if (is_true) return;
    (void)fprintf(stderr, "%s\n", what);
    abort();
}

static void check_groups(const foci_groups *groups)
{
    for (int64_t n = 0; n < groups->number_count; n++)
        require(isfinite(groups->numbers[n]), "a number that is not finite");
    for (int32_t n = 0; n < groups->shape.L; n++) {
        const foci_groups_layer *layer = &groups->layers[n];
        const focal_router *r = &layer->router;
        const bool has_router =
            groups->shape.layers[n] && groups->shape.source == FOCI_GROUPS_ROUTER;
        require((r->pk != NULL) == has_router, "a router where there is none");
        if (r->pk) require(isfinite(r->e[(int64_t)r->routers * r->K * r->R - 1]), "no centroid");
        const float *lt = layer->tensors[FOCI_GROUP_LT];
        for (int32_t h = 0; lt && h < groups->shape.H; h++)
            require(fabsf(lt[h]) <= 20.0F, "a temperature beyond the limits");
    }
    require(groups->top >= 0 && groups->top <= groups->shape.K, "more groups than there are");
    const bool is_scale = groups->shape.source == FOCI_GROUPS_SCALE;
    require(groups->top == 0 || foci_groups_exist(&groups->shape), "groups of none");
    require((groups->log_scale != NULL) == is_scale, "a scale where there is none");
    require(!is_scale || fabsf(*groups->log_scale) <= 20.0F, "a scale beyond the limits");
    require(groups->shape.seed >= 0 && groups->shape.seed <= FOCI_GROUPS_MOST_SEED, "a bad seed");
    require(groups->top_fit >= 1 && groups->top_fit <= groups->shape.K, "fitted without groups");
}

static void check_low_ranks(const foci_low_ranks *low_ranks)
{
    int64_t count = 0;
    for (int64_t n = 0; n < low_ranks->number_count; n++)
        require(isfinite(low_ranks->numbers[n]), "a number that is not finite");
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            if (!low->a) continue;
            require(low->rank == low_ranks->rank && low->N > 0 && low->K > 0, "an empty layer");
            require(isfinite(low->scale), "a scale that is not finite");
            require(isfinite(low->b[(int64_t)low->N * low->rank - 1]), "no end of B");
            count += (int64_t)low->rank * ((int64_t)low->N + low->K);
        }
    require(count == low_ranks->number_count, "numbers without a layer");
}

static void try_adapter(focal_ctx *ctx, foci_adapter_config *config, const uint8_t *image,
                        size_t bytes)
{
    foci_safetensors *tensors = NULL;
    focal_adapter *adapter = NULL;
    focal_status status = foci_safetensors_parse(ctx, "file", image, bytes, &tensors);
    if (status == FOCAL_OK) status = foci_adapter_new(ctx, "folder", config, tensors, &adapter);
    foci_safetensors_close(tensors);
    require((status == FOCAL_OK) == (adapter != NULL), "status and adapter disagree");
    if (adapter) {
        const focal_adapter_info info = focal_adapter_describe(adapter);
        const bool has_numbers =
            !adapter->groups || adapter->groups->shape.source == FOCI_GROUPS_ROUTER;
        require(info.settings[0] == '{', "an odd description");
        require(info.parameter_count > 0 || !has_numbers, "an adapter of nothing");
        require(!adapter->groups != !adapter->low_ranks, "of both kinds, or of none");
        if (adapter->groups)
            check_groups(adapter->groups);
        else
            check_low_ranks(adapter->low_ranks);
    } else {
        require(focal_ctx_error(ctx)[0] != '\0', "a failure without a sentence");
        for (const char *at = focal_ctx_error(ctx); *at; at++)
            require((unsigned char)*at >= 0x20, "a control character in a message");
    }
    focal_adapter_close(adapter);
}

/* A file of a header and of data, repeated as often as needed. */
static void try_header(focal_ctx *ctx, foci_adapter_config *config, const char *header,
                       size_t header_bytes, size_t data_bytes, const uint8_t *data, size_t size)
{
    const size_t length = (header_bytes + 7) / 8 * 8;
    uint8_t *image = calloc(8 + length + data_bytes, 1);
    if (!image) abort();
    for (int n = 0; n < 8; n++) image[n] = (uint8_t)((uint64_t)length >> (8 * n));
    memset(image + 8, ' ', length);
    memcpy(image + 8, header, header_bytes);
    for (size_t n = 0; n < data_bytes && size > 0; n++) image[8 + length + n] = data[n % size];
    try_adapter(ctx, config, image, 8 + length + data_bytes);
    free(image);
}

/* An A and a B for each target of LoRA in two layers, of sizes that the data say, in float32. */
static void try_fitting_lora(focal_ctx *ctx, foci_adapter_config *config, const uint8_t *data,
                             size_t size)
{
    static char header[MOST_BYTES];
    const foci_lora_config *lora = &config->lora;
    const foci_lora_names names = size > 0 && data[0] & 1 ? FOCI_LORA_GPT2 : FOCI_LORA_LLAMA;
    size_t used = 1, offset = 0;
    header[0] = '{';
    for (int32_t layer = 0; layer < 2; layer++)
        for (int n = 0; n < 2 * FOCI_LINEAR_PLACES; n++) {
            const foci_linear_place place = (foci_linear_place)(n / 2);
            const int is_b = n % 2, other = size > 1 ? 1 + data[1] % 9 : 3;
            const size_t end = offset + (size_t)lora->rank * (size_t)other * sizeof(float);
            const bool is_there = lora->has_targets ? lora->targets[names][place] : n % 3 == 0;
            char name[FOCI_ADAPTER_NAME_BYTES];
            if (!is_there || !foci_lora_part(names, place)) continue;
            if (lora->has_layers && !lora->layers[layer]) continue;
            if (end > MOST_BYTES || used > MOST_BYTES - ENTRY_BYTES) return;
            foci_lora_tensor_name(names, layer, place, is_b, name);
            used += (size_t)snprintf(header + used, ENTRY_BYTES,
                                     "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%d,%d],"
                                     "\"data_offsets\":[%zu,%zu]}",
                                     used > 1 ? "," : "", name, is_b ? other : lora->rank,
                                     is_b ? lora->rank : other, offset, end);
            offset = end;
        }
    header[used++] = '}';
    try_header(ctx, config, header, used, offset, data + (size > 0), size > 0 ? size - 1 : 0);
}

/* The tensors that the configuration asks for, in float32 and, from the second byte of data on,
 * some in bfloat16 behind those. */
static void try_fitting(focal_ctx *ctx, foci_adapter_config *config, const uint8_t *data,
                        size_t size)
{
    static char header[MOST_BYTES];
    const foci_groups_shape *shape = &config->shape;
    size_t used = 1, offset = 0;
    header[0] = '{';
    for (int narrow = 0; narrow < 2; narrow++)
        for (int32_t layer = 0; layer < shape->L; layer++)
            for (int n = 0; n < FOCI_GROUP_TENSORS; n++) {
                const foci_group_tensor which = (foci_group_tensor)n;
                const int64_t count = foci_groups_count(shape, layer, which);
                const int is_narrow = size > 0 && (data[0] >> n & 1);
                const size_t end = offset + (size_t)count * (is_narrow ? 2 : 4);
                if (count == 0 || is_narrow != narrow) continue;
                if (count > MOST_BYTES || end > MOST_BYTES || used > MOST_BYTES - ENTRY_BYTES)
                    return;
                char name[FOCI_ADAPTER_NAME_BYTES];
                const foci_tensor t = foci_adapter_tensor_shape(shape, which);
                foci_adapter_tensor_name(layer, which, name);
                used += (size_t)snprintf(
                    header + used, ENTRY_BYTES, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%d",
                    used > 1 ? "," : "", name, is_narrow ? "BF16" : "F32", (int)t.shape[0]);
                for (int d = 1; d < t.dims; d++)
                    used += (size_t)snprintf(header + used, 32, ",%d", (int)t.shape[d]);
                used += (size_t)snprintf(header + used, 64, "],\"data_offsets\":[%zu,%zu]}", offset,
                                         end);
                offset = end;
            }
    header[used++] = '}';
    try_header(ctx, config, header, used, offset, data + (size > 0), size > 0 ? size - 1 : 0);
}

static void try_input(focal_ctx *ctx, const uint8_t *data, size_t size)
{
    foci_json *json = NULL;
    foci_adapter_config config = {.settings = NULL};
    size_t bytes = (size_t)data[1] | (size_t)data[2] << 8;
    const uint8_t *text = data + 3;
    if (bytes > size - 3) bytes = size - 3;
    const uint8_t *rest = text + bytes;
    const size_t left = size - 3 - bytes;
    focal_status status = foci_json_parse(ctx, "config", (const char *)text, bytes, &json);
    if (status == FOCAL_OK) status = foci_adapter_read_config(ctx, "config", json, &config);
    foci_json_free(json);
    if (status != FOCAL_OK) {
        require(focal_ctx_error(ctx)[0] != '\0', "a failure without a sentence");
    } else if (data[0] % 3 == 0) {
        uint8_t *exact = malloc(left > 0 ? left : 1); /* aligned, and ASan sees where it ends */
        if (!exact) abort();
        if (left > 0) memcpy(exact, rest, left);
        try_adapter(ctx, &config, exact, left);
        free(exact);
    } else if (data[0] % 3 == 1) {
        if (left >= 2)
            try_header(ctx, &config, (const char *)rest + 2, left - 2,
                       (size_t)rest[0] | (size_t)(rest[1] & 15) << 8, rest, left);
    } else if (config.is_lora) {
        try_fitting_lora(ctx, &config, rest, left);
    } else {
        try_fitting(ctx, &config, rest, left);
    }
    foci_free(ctx, config.settings);
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx; /* opened once */
    const focal_ctx_options options = {.threads = 1};
    if (!ctx && focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) abort();
    if (size < 3) return 0;
    const size_t before = focal_ctx_memory(ctx).now_bytes;
    try_input(ctx, data, size);
    require(focal_ctx_memory(ctx).now_bytes == before, "memory is left behind");
    return 0;
}
