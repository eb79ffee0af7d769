/* Saving a model in training is an export whose source is in memory: a view of the model, with the
 * masters in the place of what products read. */
#include "model/save.h"

#include <string.h>
#include <unistd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/json_text.h"
#include "model/export.h"
#include "text/utf8.h"

typedef struct saving {
    foci_export e;
    focal_model view; /* what the export reads; shares all but layers and tokenizer */
    const foci_trainable *t;
    int32_t next; /* parameter to look at first: they come in the order of the model */
} saving;

static void take_master(saving *s, foci_linear *linear)
{
    const foci_trainable *t = s->t;
    if (!linear->w || linear->dtype == FOCAL_F32) return;
    for (int32_t n = 0; n < t->param_count; n++) {
        const int32_t at = (s->next + n) % t->param_count;
        if (t->params[at].rounded != linear->w) continue;
        linear->w = t->params[at].weights;
        linear->dtype = FOCAL_F32;
        s->next = at + 1;
        return;
    }
}

static focal_status open_view(saving *s, foci_trainable *t, int32_t context)
{
    const size_t count = (size_t)t->model->config.L;
    s->t = t;
    s->view = *t->model;
    s->view.tokenizer = NULL;
    foci_model_weights *w = &s->view.weights;
    w->layers = foci_alloc(t->ctx, count, sizeof *w->layers);
    if (!w->layers) return FOCAL_ENOMEM;
    memcpy(w->layers, t->model->weights.layers, count * sizeof *w->layers);
    take_master(s, &w->embed);
    take_master(s, &w->positions);
    take_master(s, &w->head);
    for (size_t n = 0; n < count; n++) {
        foci_layer *l = &w->layers[n];
        foci_linear *linears[] = {&l->qkv, &l->q,    &l->k,  &l->v,
                                  &l->out, &l->gate, &l->up, &l->down};
        for (size_t i = 0; i < FOCAL_COUNT(linears); i++) take_master(s, linears[i]);
    }
    if (context > 0 && !s->view.config.has_positions) s->view.config.context = context;
    return FOCAL_OK;
}

static void close_view(saving *s)
{
    focal_tokenizer_free(s->view.tokenizer);
    foci_free(s->view.ctx, s->view.weights.layers);
}

static void put_token(foci_writer *file, const char *name, const focal_tokenizer *tokenizer,
                      int32_t id)
{
    if (id < 0) return;
    const focal_token token = focal_tokenizer_token(tokenizer, id);
    if (foci_utf8_valid(token.bytes, token.byte_count) < token.byte_count) return;
    foci_json_put(file, ",\n  ");
    foci_json_put_text(file, foci_text_of(name));
    foci_json_put(file, ": ");
    foci_json_put_text(file, (foci_text){token.bytes, token.byte_count});
}

/* tokenizer_config.json for a tokenizer that has none. */
static focal_status write_tokenizer_config(saving *s, const char *folder)
{
    focal_ctx *ctx = s->e.ctx;
    const focal_tokenizer *tokenizer = s->view.tokenizer;
    const focal_special_ids special = focal_tokenizer_special(tokenizer);
    foci_writer *file = NULL;
    char *path = foci_path_join(ctx, folder, strlen(folder), "tokenizer_config.json");
    if (!path) return FOCAL_ENOMEM;
    const focal_status status = foci_writer_open(ctx, path, &file);
    foci_free(ctx, path);
    if (status != FOCAL_OK) return status;
    foci_json_put(file, "{\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\",\n"
                        "  \"clean_up_tokenization_spaces\": false,\n  \"model_max_length\": ");
    foci_json_put_int(file, s->view.config.context);
    put_token(file, "bos_token", tokenizer, special.bos);
    put_token(file, "eos_token", tokenizer,
              special.eos >= 0 ? special.eos : focal_tokenizer_document_end(tokenizer));
    put_token(file, "unk_token", tokenizer, special.unk);
    put_token(file, "pad_token", tokenizer, special.pad);
    foci_json_put(file, "\n}\n");
    return foci_writer_commit(file);
}

/* The tokenizer's own small files come along when they say what it is. */
static focal_status write_tokenizer(saving *s, const char *from, const char *folder)
{
    focal_ctx *ctx = s->e.ctx;
    const char *slash = strrchr(from, '/');
    const char *source = slash ? from : ".";
    char *around = foci_path_join(ctx, source, slash ? (size_t)(slash - from) : 1, "");
    char *config =
        foci_path_join(ctx, source, slash ? (size_t)(slash - from) : 1, "tokenizer_config.json");
    char *target = foci_path_join(ctx, folder, strlen(folder), "tokenizer.json");
    focal_status status = around && config && target ? FOCAL_OK : FOCAL_ENOMEM;
    if (status == FOCAL_OK)
        status = access(config, F_OK) == 0 ? foci_export_copy_files(ctx, around, folder)
                                           : write_tokenizer_config(s, folder);
    if (status == FOCAL_OK) status = foci_export_copy(ctx, from, target);
    foci_free(ctx, around);
    foci_free(ctx, config);
    foci_free(ctx, target);
    return status;
}

static focal_status write_folder(saving *s, const foci_save_options *o, const char *folder)
{
    FOCAL_TRY(foci_export_config(&s->e, folder));
    if (o->tokenizer) FOCAL_TRY(write_tokenizer(s, o->tokenizer, folder));
    FOCAL_TRY(foci_export_weights(&s->e, folder));
    return foci_export_commit_folder(s->e.ctx, folder, s->e.out);
}

static focal_status open_tokenizer(saving *s, const char *path)
{
    if (!path) return FOCAL_OK;
    FOCAL_TRY(focal_tokenizer_open(s->e.ctx, path, &s->view.tokenizer));
    const int32_t size = focal_tokenizer_size(s->view.tokenizer), V = s->view.config.V;
    if (size <= V) return FOCAL_OK;
    return foci_fail(s->e.ctx, FOCAL_EINVAL, "%s: a tokenizer of %d ids, a model of %d", path, size,
                     V);
}

/* What the result will be; fails when a directory has no words for it. */
static focal_status settle(saving *s, foci_trainable *t, const char *name, int32_t context)
{
    foci_export *e = &s->e;
    size_t bytes = strlen(name);
    while (bytes > 1 && name[bytes - 1] == '/') bytes--;
    FOCAL_TRY(open_view(s, t, context));
    e->ctx = t->ctx;
    e->model = &s->view;
    e->out = foci_alloc(e->ctx, bytes + 1, 1);
    if (!e->out) return FOCAL_ENOMEM;
    memcpy(e->out, name, bytes);
    e->out[bytes] = '\0';
    s->view.path = e->out; /* of messages */
    e->family = foci_export_family(e);
    FOCAL_TRY(foci_export_rope(e));
    return foci_export_check_config(e);
}

static focal_status save(saving *s, const foci_save_options *o)
{
    foci_export *e = &s->e;
    char *folder = NULL;
    e->options = (focal_export_options){.type = o->type, .has_type = true};
    FOCAL_TRY(open_tokenizer(s, o->tokenizer));
    FOCAL_TRY(foci_export_fold(e));
    FOCAL_TRY(foci_export_plan(e));
    FOCAL_TRY(foci_export_open_folder(e->ctx, e->out, &folder));
    const focal_status status = write_folder(s, o, folder);
    if (status != FOCAL_OK) foci_export_remove_folder(folder);
    foci_free(e->ctx, folder);
    return status;
}

static focal_status run(foci_trainable *t, const char *name, const foci_save_options *options)
{
    saving *s = foci_alloc(t->ctx, 1, sizeof *s);
    if (!s) return FOCAL_ENOMEM;
    memset(s, 0, sizeof *s);
    s->view.ctx = s->e.ctx = t->ctx;
    focal_status status = settle(s, t, name, options ? options->context : 0);
    if (status == FOCAL_OK && options) status = save(s, options);
    close_view(s);
    foci_export_release(&s->e);
    foci_free(t->ctx, s);
    return status;
}

focal_status foci_trainable_save(foci_trainable *trainable, const char *folder,
                                 const foci_save_options *options)
{
    focal_ctx *ctx = trainable->ctx;
    const foci_save_options o = options ? *options : (foci_save_options){.type = FOCAL_F32};
    if (!folder || !*folder) return foci_fail(ctx, FOCAL_EINVAL, "save: no name for the result");
    if (o.type != FOCAL_F32 && o.type != FOCAL_BF16)
        return foci_fail(ctx, FOCAL_EINVAL, "save: %s is not f32 or bf16",
                         focal_dtype_name(o.type));
    if (o.context < 0 || o.context > FOCI_MAX_CONTEXT)
        return foci_fail(ctx, FOCAL_EINVAL, "save: a context of %d, at most %d can be", o.context,
                         FOCI_MAX_CONTEXT);
    return run(trainable, folder, &o);
}

focal_status foci_trainable_check_save(foci_trainable *trainable)
{
    return run(trainable, "this model", NULL);
}
