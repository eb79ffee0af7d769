/* Adapters for tests, written by the writer that is tested; damage is done byte by byte. */
#include "support/adapter_files.h"

#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "io/file.h"
#include "io/safetensors.h"

const foci_groups_shape adapter_shapes[ADAPTER_SHAPES] = {
    {.L = 3,
     .C = 8,
     .H = 4,
     .G = 2,
     .K = 5,
     .R = 4,
     .routers = 2,
     .mode = FOCAL_DIRECTED,
     .has_temperatures = true,
     .layers = {true, false, true}},
    {.L = 2,
     .C = 6,
     .H = 4,
     .G = 2,
     .K = 3,
     .R = 3,
     .routers = 1,
     .mode = FOCAL_SHARED,
     .is_raw = true,
     .layers = {true, true}},
    {.L = 2,
     .C = 6,
     .H = 4,
     .G = 4,
     .K = 64,
     .R = 1,
     .routers = 4,
     .mode = FOCAL_SHARED,
     .layers = {false, true}},
    {.L = 1,
     .C = 5,
     .H = 3,
     .G = 1,
     .K = 1,
     .R = 7,
     .routers = 1,
     .mode = FOCAL_DIRECTED,
     .is_raw = true,
     .has_temperatures = true,
     .layers = {true}},
    {.L = 2,
     .C = 6,
     .H = 4,
     .G = 2,
     .K = 9,
     .R = 1,
     .routers = 2,
     .mode = FOCAL_DIRECTED,
     .seed = INT64_C(9007199254740992),
     .source = FOCI_GROUPS_RANDOM,
     .layers = {true, true}},
    /* window and sinks alone, without and with temperatures */
    {.L = 2,
     .C = 6,
     .H = 4,
     .G = 2,
     .K = 1,
     .R = 1,
     .routers = 1,
     .source = FOCI_GROUPS_NONE,
     .layers = {false, true}},
    {.L = 2,
     .C = 6,
     .H = 4,
     .G = 2,
     .K = 1,
     .R = 1,
     .routers = 1,
     .source = FOCI_GROUPS_NONE,
     .has_temperatures = true,
     .layers = {true, true}},
    /* a scale on distant logits */
    {.L = 3,
     .C = 6,
     .H = 4,
     .G = 2,
     .K = 1,
     .R = 1,
     .routers = 1,
     .source = FOCI_GROUPS_SCALE,
     .layers = {false, true, true}},
    /* temperatures alone */
    {.L = 4, .C = 5, .H = 2, .G = 2, .K = 4, .R = 2, .routers = 2, .has_temperatures = true},
};

foci_groups *adapter_groups(focal_ctx *ctx, const foci_groups_shape *shape)
{
    foci_groups *groups = NULL;
    assert_status(ctx, foci_groups_new(ctx, shape, &groups), FOCAL_OK);
    for (int64_t n = 0; n < groups->number_count; n++)
        groups->numbers[n] = 2.0F * foci_random_normal(9, 1, (uint64_t)n);
    groups->top = shape->K > 2 ? 3 : 1;
    if (!foci_groups_exist(shape)) groups->top = 0;
    groups->top_fit = shape->K > 1 ? 2 : 1;
    groups->window = 17;
    groups->sinks = 2;
    return groups;
}

foci_adapter_note adapter_note(focal_dtype dtype)
{
    return (foci_adapter_note){.base = "a \"base\" of \xC3\xA9",
                               .fingerprint = ADAPTER_DIGITS,
                               .settings = "{\"steps\": 250, \"lr\": 0.1, \"text\": [\"a\", null]}",
                               .is_causal = true,
                               .dtype = dtype};
}

focal_adapter *adapter_open(focal_ctx *ctx, const char *path)
{
    focal_adapter *adapter = NULL;
    assert_status(ctx, focal_adapter_open(ctx, path, &adapter), FOCAL_OK);
    return adapter;
}

folder adapter_write_good(focal_ctx *ctx, focal_dtype dtype)
{
    const folder f = folder_new();
    foci_groups *groups = adapter_groups(ctx, &adapter_shapes[0]);
    const foci_adapter_note note = adapter_note(dtype);
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_OK);
    foci_groups_free(ctx, groups);
    return f;
}

void adapter_edit(const folder *f, const char *name, const char *from, const char *to)
{
    size_t bytes = 0;
    char *data = read_bytes(folder_file(f, name), &bytes);
    const char *at = memmem(data, bytes, from, strlen(from));
    if (!at) fail_msg("%s has no %s", name, from);
    const size_t before = (size_t)(at - data), after = before + strlen(from);
    const size_t length = strlen(to), left = bytes - after;
    char *edited = new_array(before + length + 1 + left, 1);
    memcpy(edited, data, before);
    memcpy(edited + before, to, length + 1);
    memcpy(edited + before + length, data + after, left);
    write_bytes(folder_file(f, name), edited, before + length + left);
    free(edited);
    free(data);
}

void adapter_poke(focal_ctx *ctx, const folder *f, const char *name, size_t offset,
                  const void *bytes, size_t count)
{
    foci_map map;
    foci_safetensors *file = NULL;
    char path[256];
    (void)snprintf(path, sizeof path, "%s", folder_file(f, FOCI_ADAPTER_TENSORS));
    assert_status(ctx, foci_map_open(ctx, path, &map), FOCAL_OK);
    assert_status(ctx, foci_safetensors_parse(ctx, path, map.data, map.bytes, &file), FOCAL_OK);
    const foci_tensor *tensor = foci_safetensors_tensor(file, name);
    assert_non_null(tensor);
    const size_t at = (size_t)((const uint8_t *)tensor->data - map.data) + offset;
    uint8_t *copy = new_array(map.bytes, 1);
    const size_t all = map.bytes;
    memcpy(copy, map.data, all);
    memcpy(copy + at, bytes, count);
    foci_safetensors_close(file);
    foci_map_close(&map);
    write_bytes(path, copy, all);
    free(copy);
}
