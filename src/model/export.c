/* Export: open the model, see that the result can stand where it is to and say what the model
 * computes, settle every tensor, then write. Nothing appears under the result's name before it is
 * whole. */
#include "focal/export.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/safetensors.h"
#include "model/export.h"
#include "text/tokenizer_export.h"

static bool ends_in_gguf(const char *path)
{
    const size_t length = strlen(path), tail = 5;
    return length > tail && strcmp(path + length - tail, ".gguf") == 0;
}

static focal_status check_call(focal_ctx *ctx, const char *in, const char *out,
                               const focal_export_options *o)
{
    if (!in || !*in) return foci_fail(ctx, FOCAL_EINVAL, "export: no model");
    if (!out || !*out) return foci_fail(ctx, FOCAL_EINVAL, "export: no name for the result");
    const char *slash = strrchr(out, '/');
    if (strcmp(slash ? slash + 1 : out, ".gguf") == 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "export: '%s' is no name for a file: put one before .gguf", out);
    if (!o->has_type) return FOCAL_OK;
    if (focal_dtype_block(o->type) == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "export: there is no element type %d", (int)o->type);
    if (!ends_in_gguf(out) && focal_dtype_bytes(o->type) == 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "%s: a directory holds f32, f16 or bf16, not %s; for that the name must "
                         "end in .gguf",
                         out, focal_dtype_name(o->type));
    return FOCAL_OK;
}

/* A copy of the name without slashes at its end. */
static char *copy_name(focal_ctx *ctx, const char *out)
{
    size_t bytes = strlen(out);
    while (bytes > 1 && out[bytes - 1] == '/') bytes--;
    char *copy = foci_alloc(ctx, bytes + 1, 1);
    if (!copy) return NULL;
    memcpy(copy, out, bytes);
    copy[bytes] = '\0';
    return copy;
}

/* Mistral is llama in GGUF; back it goes when it has windows, which llama's own have not. */
const foci_family *foci_export_family(const foci_export *e)
{
    const foci_config *c = &e->model->config;
    if (e->to_gguf && !c->family->gguf) return foci_family_of_hf("llama");
    if (e->to_gguf || e->model->dir || strcmp(c->family->name, "llama") != 0) return c->family;
    for (int32_t n = 0; n < c->L; n++)
        if (c->is_local[n]) return foci_family_of_hf("mistral");
    return c->family;
}

focal_status foci_export_weights(foci_export *e, const char *folder)
{
    foci_safetensors_writer *writer = NULL;
    char *path = foci_path_join(e->ctx, folder, strlen(folder), "model.safetensors");
    if (!path) return FOCAL_ENOMEM;
    focal_status status = foci_safetensors_writer_new(e->ctx, &writer);
    for (int64_t n = 0; n < e->item_count && status == FOCAL_OK; n++) {
        foci_tensor tensor = e->items[n].tensor;
        tensor.name = e->items[n].name;
        status = foci_safetensors_put_tensor(writer, &tensor);
    }
    if (status == FOCAL_OK)
        status = foci_safetensors_writer_commit(writer, path, 0, foci_export_fill, e);
    foci_safetensors_writer_free(writer);
    foci_free(e->ctx, path);
    return status;
}

static focal_status write_folder(foci_export *e, const char *folder)
{
    FOCAL_TRY(foci_export_config(e, folder));
    if (e->model->dir)
        FOCAL_TRY(foci_export_copy_files(e->ctx, e->model->path, folder));
    else if (e->model->tokenizer)
        FOCAL_TRY(foci_tokenizer_write_json(e->ctx, e->model->gguf, folder));
    FOCAL_TRY(foci_export_weights(e, folder));
    return foci_export_commit_folder(e->ctx, folder, e->out);
}

static focal_status export_folder(foci_export *e)
{
    char *folder = NULL;
    FOCAL_TRY(foci_export_open_folder(e->ctx, e->out, &folder));
    const focal_status status = write_folder(e, folder);
    if (status != FOCAL_OK) foci_export_remove_folder(folder);
    foci_free(e->ctx, folder);
    return status;
}

void foci_export_release(foci_export *e)
{
    foci_free(e->ctx, e->divisors_of_heads);
    foci_free(e->ctx, e->items);
    foci_free(e->ctx, e->floats);
    foci_free(e->ctx, e->expanded);
    foci_free(e->ctx, e->written);
    foci_free(e->ctx, e->out);
}

static focal_status run(foci_export *e, const char *in)
{
    const focal_model_options options = {.precision = FOCAL_F32, .has_precision = true};
    FOCAL_TRY(foci_export_check_place(e->ctx, in, e->out, e->to_gguf, e->options.replaces));
    FOCAL_TRY(focal_model_open(e->ctx, in, &options, &e->model));
    e->family = foci_export_family(e);
    e->keeps_temperature = e->model->config.temperature.is_there;
    e->result.bytes_before = focal_model_describe(e->model).weight_bytes;
    FOCAL_TRY(foci_export_rope(e));
    FOCAL_TRY(foci_export_plan(e));
    return e->to_gguf ? foci_export_gguf(e) : export_folder(e);
}

focal_status focal_model_export(focal_ctx *ctx, const char *in, const char *out,
                                const focal_export_options *options, focal_export_result *result)
{
    const focal_export_options o = options ? *options : (focal_export_options){0};
    if (result) *result = (focal_export_result){0};
    FOCAL_TRY(check_call(ctx, in, out, &o));
    foci_export *e = foci_alloc(ctx, 1, sizeof *e);
    if (!e) return FOCAL_ENOMEM;
    *e = (foci_export){.ctx = ctx, .options = o, .to_gguf = ends_in_gguf(out)};
    e->out = copy_name(ctx, out);
    const focal_status status = e->out ? run(e, in) : FOCAL_ENOMEM;
    if (status == FOCAL_OK && result) *result = e->result;
    focal_model_close(e->model);
    foci_export_release(e);
    foci_free(ctx, e);
    return status;
}
