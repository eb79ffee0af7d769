/* Writing LoRA as peft does: the tensors first, so that a new directory becomes an adapter only
 * when all of it is there. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/json_text.h"
#include "model/lora_files.h"
#include "model/low_rank_model.h"

/* A tensor in memory. */
typedef struct source {
    const float *numbers;
    int64_t count;
} source;

/* Tensors on their way into the file. */
typedef struct writing {
    focal_ctx *ctx;
    const char *path;          /* of the file, for messages */
    foci_low_ranks *low_ranks; /* in the order of files */
    foci_lora_names names;
    focal_dtype dtype;
    foci_safetensors_writer *file;
    source *sources; /* as declared */
    int64_t count;   /* of them in use */
    uint16_t *rounded;
} writing;

static focal_status declare(writing *w, int32_t layer, foci_linear_place place, bool is_b)
{
    char name[FOCI_ADAPTER_NAME_BYTES];
    const foci_low_rank *low = &w->low_ranks->layers[layer][place];
    const int64_t rows = is_b ? low->N : low->rank, columns = is_b ? low->rank : low->K;
    const float *numbers = is_b ? low->b : low->a;
    foci_lora_tensor_name(w->names, layer, place, is_b, name);
    const foci_tensor tensor = {.name = name,
                                .dtype = w->dtype,
                                .dims = 2,
                                .shape = {rows, columns, 1, 1},
                                .bytes = (size_t)(rows * columns) * focal_dtype_bytes(w->dtype)};
    FOCAL_TRY(
        foci_adapter_check_numbers(w->ctx, FOCAL_EINVAL, w->path, name, numbers, rows * columns));
    FOCAL_TRY(foci_safetensors_put_tensor(w->file, &tensor));
    w->sources[w->count++] = (source){numbers, rows * columns};
    return FOCAL_OK;
}

static focal_status fill(void *user, int64_t index, const void **data)
{
    writing *w = user;
    const source *s = &w->sources[index];
    *data = w->dtype == FOCAL_F32 ? (const void *)s->numbers : w->rounded;
    if (w->dtype == FOCAL_F32) return FOCAL_OK;
    return foci_adapter_round(w->ctx, w->path, s->numbers, s->count, w->rounded);
}

static focal_status put_notes(writing *w, const foci_adapter_note *note)
{
    char version[FOCI_VERSION_BYTES], *settings = NULL;
    const char *text = note->settings ? note->settings : "{}";
    foci_json *json = NULL;
    size_t bytes = 0;
    foci_adapter_version(version);
    FOCAL_TRY(foci_safetensors_put_text(w->file, FOCI_LORA_VERSION_KEY, version));
    FOCAL_TRY(foci_safetensors_put_text(w->file, FOCI_LORA_FINGERPRINT_KEY, note->fingerprint));
    /* on one line */
    FOCAL_TRY(foci_json_parse(w->ctx, "adapter: the settings", text, strlen(text), &json));
    focal_status status = foci_json_print(w->ctx, json, &settings, &bytes);
    foci_json_free(json);
    if (status == FOCAL_OK)
        status = foci_safetensors_put_text(w->file, FOCI_LORA_FIT_KEY, settings);
    foci_free(w->ctx, settings);
    return status;
}

static focal_status write_tensors(writing *w, const foci_adapter_note *note)
{
    const foci_low_ranks *low_ranks = w->low_ranks;
    int64_t largest = 0;
    w->sources =
        foci_alloc(w->ctx, (size_t)low_ranks->L * FOCI_LINEAR_PLACES * 2, sizeof *w->sources);
    if (!w->sources) return FOCAL_ENOMEM;
    FOCAL_TRY(foci_safetensors_writer_new(w->ctx, &w->file));
    FOCAL_TRY(put_notes(w, note));
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            if (!low->a) continue;
            FOCAL_TRY(declare(w, n, (foci_linear_place)place, false));
            FOCAL_TRY(declare(w, n, (foci_linear_place)place, true));
            largest = foci_max64(largest, foci_max64(low->N, low->K) * low->rank);
        }
    w->rounded = foci_alloc(w->ctx, (size_t)largest, sizeof *w->rounded);
    if (!w->rounded) return FOCAL_ENOMEM;
    return foci_safetensors_writer_commit(w->file, w->path, SIZE_MAX, fill, w);
}

static void put_raw(foci_writer *file, const char *key, const char *value)
{
    foci_adapter_put_key(file, key);
    foci_json_put(file, value);
}

static bool has_addition(const writing *w, int32_t layer)
{
    for (int place = 0; place < FOCI_LINEAR_PLACES; place++)
        if (w->low_ranks->layers[layer][place].a) return true;
    return false;
}

/* The first layer that has any: all that have any have the same, which check() has seen to. */
static int32_t first_layer(const writing *w)
{
    int32_t n = 0;
    while (!has_addition(w, n)) n++;
    return n;
}

/* The module's last name, as people give it; GPT-2 has one twice, and so two words of it. */
static void put_targets(foci_writer *file, const writing *w)
{
    const char *between = "";
    const int32_t layer = first_layer(w);
    foci_adapter_put_key(file, "target_modules");
    foci_json_put(file, "[");
    for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
        if (!w->low_ranks->layers[layer][place].a) continue;
        const char *part = foci_lora_part(w->names, (foci_linear_place)place);
        foci_json_put(file, between);
        foci_json_put_text(file,
                           foci_text_of(w->names == FOCI_LORA_GPT2 ? part : strchr(part, '.') + 1));
        between = ", ";
    }
    foci_json_put(file, "]");
}

/* Those that have an addition, or null: all. */
static void put_layers(foci_writer *file, const writing *w)
{
    const char *between = "[";
    int32_t count = 0;
    for (int32_t n = 0; n < w->low_ranks->L; n++) count += has_addition(w, n);
    foci_adapter_put_key(file, "layers_to_transform");
    if (count == w->low_ranks->L) {
        foci_json_put(file, "null");
        return;
    }
    for (int32_t n = 0; n < w->low_ranks->L; n++) {
        if (!has_addition(w, n)) continue;
        foci_json_put(file, between);
        foci_json_put_int(file, n);
        between = ", ";
    }
    foci_json_put(file, "]");
}

static focal_status write_config(const writing *w, const char *path, const foci_adapter_note *note)
{
    foci_writer *file = NULL;
    FOCAL_TRY(foci_writer_open(w->ctx, path, &file));
    foci_json_put(file, "{\n  \"peft_type\": \"LORA\"");
    put_raw(file, "task_type", "\"CAUSAL_LM\"");
    foci_adapter_put_key(file, "base_model_name_or_path");
    foci_json_put_text(file, foci_adapter_base_text(note->base));
    put_raw(file, "inference_mode", "true");
    foci_adapter_put_key(file, "r");
    foci_json_put_int(file, w->low_ranks->rank);
    foci_adapter_put_key(file, "lora_alpha");
    foci_json_put_real(file, w->low_ranks->alpha);
    foci_adapter_put_key(file, "use_rslora");
    foci_json_put_bool(file, w->low_ranks->is_root_scaled);
    put_targets(file, w);
    put_layers(file, w);
    put_raw(file, "bias", "\"none\"");
    put_raw(file, "lora_dropout", "0.0");
    put_raw(file, "fan_in_fan_out", w->names == FOCI_LORA_GPT2 ? "true" : "false");
    put_raw(file, "init_lora_weights", "true");
    foci_json_put(file, "\n}\n");
    return foci_writer_commit(file);
}

/* What the reader would refuse must not be written. */
static focal_status check(const writing *w, const foci_adapter_note *note)
{
    const int32_t first = first_layer(w);
    for (int32_t n = first; n < w->low_ranks->L; n++)
        for (int place = 0; has_addition(w, n) && place < FOCI_LINEAR_PLACES; place++)
            if (!w->low_ranks->layers[n][place].a != !w->low_ranks->layers[first][place].a)
                return foci_fail(w->ctx, FOCAL_EINVAL,
                                 "lora: layer %d has additions at other places than layer %d", n,
                                 first);
    return foci_adapter_check_note(w->ctx, note);
}

static focal_status write_files(writing *w, const char *path, const foci_adapter_note *note)
{
    FOCAL_TRY(check(w, note));
    if (mkdir(path, 0777) != 0 && errno != EEXIST)
        return foci_fail(w->ctx, FOCAL_EIO, "%s: %s", path, strerror(errno));
    char *config_path = foci_path_join(w->ctx, path, strlen(path), FOCI_ADAPTER_CONFIG);
    char *tensors_path = foci_path_join(w->ctx, path, strlen(path), FOCI_ADAPTER_TENSORS);
    w->path = tensors_path;
    focal_status status = config_path && tensors_path ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK) status = write_tensors(w, note);
    if (status == FOCAL_OK) status = write_config(w, config_path, note);
    foci_safetensors_writer_free(w->file);
    foci_free(w->ctx, w->sources);
    foci_free(w->ctx, w->rounded);
    foci_free(w->ctx, config_path);
    foci_free(w->ctx, tensors_path);
    return status;
}

focal_status foci_lora_write(const focal_model *model, const char *path,
                             const foci_low_ranks *low_ranks, const foci_adapter_note *note)
{
    writing w = {.ctx = model->ctx,
                 .names = model->config.family->is_gpt2 ? FOCI_LORA_GPT2 : FOCI_LORA_LLAMA,
                 .dtype = note->dtype};
    FOCAL_TRY(foci_low_ranks_to_file(w.ctx, &model->config, low_ranks, &w.low_ranks));
    const focal_status status = write_files(&w, path, note);
    foci_low_ranks_free(w.ctx, w.low_ranks);
    return status;
}
