/* Writing an adapter: the tensors first, so that a new directory becomes an adapter only when all
 * of it is there. A file of bfloat16 has the projections in that type, which are nearly all numbers
 * and whose errors average out over the width. The others stay float32: the error of an offset, a
 * centroid or a balance would push every token the same way, that of a temperature every logit. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/json_text.h"
#include "io/safetensors.h"
#include "model/adapter_layout.h"

/* A tensor in memory, and its type in the file. */
typedef struct source {
    const float *numbers;
    int64_t count;
    focal_dtype dtype;
} source;

/* Tensors on their way into the file. */
typedef struct writing {
    focal_ctx *ctx;
    const char *path; /* of the file, for messages */
    const foci_groups *groups;
    foci_safetensors_writer *file;
    source *sources; /* (L * FOCI_GROUP_TENSORS), as declared */
    int64_t count;   /* of them in use */
    int64_t largest; /* numbers that are rounded */
    uint16_t *rounded;
} writing;

static focal_status declare(writing *w, int32_t layer, foci_group_tensor which, focal_dtype dtype)
{
    char name[FOCI_ADAPTER_NAME_BYTES];
    const float *numbers = w->groups->layers[layer].tensors[which];
    const int64_t count = foci_groups_count(&w->groups->shape, layer, which);
    if (count == 0) return FOCAL_OK;
    if (which != FOCI_GROUP_PK && which != FOCI_GROUP_PQ) dtype = FOCAL_F32;
    foci_tensor tensor = foci_adapter_tensor_shape(&w->groups->shape, which);
    foci_adapter_tensor_name(layer, which, name);
    tensor.name = name;
    tensor.dtype = dtype;
    tensor.bytes = (size_t)count * focal_dtype_bytes(dtype);
    FOCAL_TRY(foci_adapter_check_numbers(w->ctx, FOCAL_EINVAL, w->path, name, numbers, count));
    FOCAL_TRY(foci_safetensors_put_tensor(w->file, &tensor));
    w->sources[w->count++] = (source){numbers, count, dtype};
    if (dtype == FOCAL_BF16) w->largest = foci_max64(w->largest, count);
    return FOCAL_OK;
}

static focal_status fill(void *user, int64_t index, const void **data)
{
    writing *w = user;
    const source *s = &w->sources[index];
    *data = s->numbers;
    if (s->dtype == FOCAL_F32) return FOCAL_OK;
    *data = w->rounded;
    return foci_adapter_round(w->ctx, w->path, s->numbers, s->count, w->rounded);
}

static focal_status write_tensors(writing *w, focal_dtype dtype)
{
    const int32_t L = w->groups->shape.L;
    w->sources = foci_alloc(w->ctx, (size_t)L * FOCI_GROUP_TENSORS, sizeof *w->sources);
    if (!w->sources) return FOCAL_ENOMEM;
    FOCAL_TRY(foci_safetensors_writer_new(w->ctx, &w->file));
    for (int32_t layer = 0; layer < L; layer++)
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++)
            FOCAL_TRY(declare(w, layer, (foci_group_tensor)which, dtype));
    w->rounded = foci_alloc(w->ctx, (size_t)w->largest, sizeof *w->rounded);
    if (!w->rounded) return FOCAL_ENOMEM;
    return foci_safetensors_writer_commit(w->file, w->path, SIZE_MAX, fill, w);
}

static void put_text(foci_writer *file, const char *key, const char *text)
{
    foci_adapter_put_key(file, key);
    foci_json_put_text(file, foci_text_of(text));
}

static void put_int(foci_writer *file, const char *key, int64_t number)
{
    foci_adapter_put_key(file, key);
    foci_json_put_int(file, number);
}

static void put_bool(foci_writer *file, const char *key, bool is_true)
{
    foci_adapter_put_key(file, key);
    foci_json_put_bool(file, is_true);
}

static void put_layers(foci_writer *file, const foci_groups_shape *shape)
{
    const char *between = "";
    foci_adapter_put_key(file, "layers");
    foci_json_put(file, "[");
    for (int32_t n = 0; n < shape->L; n++) {
        if (!shape->layers[n]) continue;
        foci_json_put(file, between);
        foci_json_put_int(file, n);
        between = ", ";
    }
    foci_json_put(file, "]");
}

static focal_status write_config(focal_ctx *ctx, const char *path, const foci_groups *groups,
                                 const foci_adapter_note *note)
{
    const foci_groups_shape *shape = &groups->shape;
    foci_writer *file = NULL;
    char version[FOCI_VERSION_BYTES];
    foci_adapter_version(version);
    FOCAL_TRY(foci_writer_open(ctx, path, &file));
    foci_json_put(file, "{\n  \"peft_type\": \"FOCUS\"");
    put_text(file, "task_type", "CAUSAL_LM");
    foci_adapter_put_key(file, "base_model_name_or_path");
    foci_json_put_text(file, foci_adapter_base_text(note->base));
    put_bool(file, "inference_mode", true);
    put_text(file, "focal_version", version);
    put_text(file, "fingerprint", note->fingerprint);
    put_int(file, "num_hidden_layers", shape->L);
    put_int(file, "hidden_size", shape->C);
    put_int(file, "num_attention_heads", shape->H);
    put_int(file, "num_key_value_heads", shape->G);
    put_int(file, "groups", shape->K);
    put_int(file, "router_width", shape->R);
    put_text(file, "scope", shape->routers == shape->G ? "kv" : "layer");
    put_text(file, "mode", shape->mode == FOCAL_SHARED ? "shared" : "directed");
    put_text(file, "router_form", foci_groups_form(shape));
    if (shape->source == FOCI_GROUPS_RANDOM) put_int(file, "seed", shape->seed);
    put_int(file, "top", groups->top);
    put_int(file, "top_fit", groups->top_fit);
    put_int(file, "window", groups->window);
    put_int(file, "sinks", groups->sinks);
    put_layers(file, shape);
    put_bool(file, "has_temperatures", shape->has_temperatures);
    put_bool(file, "causal", note->is_causal);
    foci_adapter_put_key(file, "fit");
    foci_json_put(file, note->settings ? note->settings : "{}");
    foci_json_put(file, "\n}\n");
    return foci_writer_commit(file);
}

/* What the reader would refuse must not be written: it may be the work of a night. */
static focal_status check(focal_ctx *ctx, const foci_groups *groups, const foci_adapter_note *note)
{
    const foci_groups_shape *shape = &groups->shape;
    const int32_t K = shape->K;
    bool is_something = shape->has_temperatures && shape->source != FOCI_GROUPS_SCALE;
    for (int32_t n = 0; n < shape->L; n++) is_something |= shape->layers[n];
    if (!is_something)
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: neither layers with groups nor temperatures");
    if (!foci_groups_exist(shape) && groups->top != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: top %d where there are no groups",
                         groups->top);
    FOCAL_TRY(foci_adapter_check_note(ctx, note));
    if (groups->top < 0 || groups->top > K || groups->top_fit < 1 || groups->top_fit > K)
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: top %d and top_fit %d of %d groups",
                         groups->top, groups->top_fit, K);
    if (groups->window < 0 || groups->window > FOCI_MAX_CONTEXT || groups->sinks < 0 ||
        groups->sinks > FOCI_MAX_CONTEXT)
        return foci_fail(ctx, FOCAL_EINVAL, "adapter: a window of %d and %d sinks, 0 to %d can be",
                         groups->window, groups->sinks, FOCI_MAX_CONTEXT);
    return FOCAL_OK;
}

focal_status foci_adapter_write(focal_ctx *ctx, const char *path, const foci_groups *groups,
                                const foci_adapter_note *note)
{
    FOCAL_TRY(check(ctx, groups, note));
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return foci_fail(ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
    char *config_path = foci_path_join(ctx, path, strlen(path), FOCI_ADAPTER_CONFIG);
    char *tensors_path = foci_path_join(ctx, path, strlen(path), FOCI_ADAPTER_TENSORS);
    writing w = {.ctx = ctx, .path = tensors_path, .groups = groups};
    focal_status status = config_path && tensors_path ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = write_tensors(&w, note->dtype);
    if (status == FOCAL_OK) status = write_config(ctx, config_path, groups, note);
    foci_safetensors_writer_free(w.file);
    foci_free(ctx, w.sources);
    foci_free(ctx, w.rounded);
    foci_free(ctx, config_path);
    foci_free(ctx, tensors_path);
    return status;
}
