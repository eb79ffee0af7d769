/* focal eval groups: what adapters gain and lose with few and with many groups. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "focal/eval.h"
#include "model_file.h"
#include "options.h"
#include "output.h"
#include "overwrite.h"

enum { CONTEXT = 8192 }; /* tokens of a text, where the model has as many */

typedef struct groups_options {
    model_choice model;
    cli_texts adapters, files;
    cli_list tops;
    int64_t context, batch, rounds, threads;
    const char *path;
    bool is_json;
} groups_options;

/* The texts as ids, and what the model as it is loses on them. */
typedef struct groups_texts {
    focal_ids ids[FOCAL_GROUP_TEXTS_MOST];
    focal_group_text texts[FOCAL_GROUP_TEXTS_MOST];
    int32_t count;
    double dense[FOCAL_GROUP_TEXTS_MOST];
    bool has_dense;
} groups_texts;

static void on_reading(void *user, int64_t done, int64_t of)
{
    cli_progress("%s: reading %lld of %lld", (const char *)user, (long long)done, (long long)of);
}

/* The last part of a path: where the file lay is of no use to who reads the report. */
static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

static int read_text(focal_ctx *ctx, const focal_tokenizer *tokenizer, const char *path,
                     groups_texts *texts)
{
    size_t bytes = 0;
    char *text = cli_read_language(path, CLI_TEXT_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    focal_ids *ids = &texts->ids[texts->count];
    const focal_status status =
        focal_tokenizer_encode(ctx, tokenizer, text, bytes, FOCAL_ENCODE_ADD_SPECIAL, ids);
    if (status == FOCAL_OK) cli_warn_lost(tokenizer, text, bytes);
    free(text);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    texts->texts[texts->count++] = (focal_group_text){name_of(path), ids->ids, ids->count};
    return CLI_DONE;
}

/* As the page of focal report has it. */
static void name_setting(const focal_group_setting *setting, char *out, size_t room)
{
    switch (setting->kind) {
    case FOCAL_GROUP_DENSE:
        (void)snprintf(out, room, "dense");
        break;
    case FOCAL_GROUP_TEMPERATURES:
        (void)snprintf(out, room, "temperatures");
        break;
    case FOCAL_GROUP_ADAPTER:
        (void)snprintf(out, room, "with the adapter");
        break;
    default:
        if (setting->top == 0)
            (void)snprintf(out, room, "window and sinks");
        else
            (void)snprintf(out, room, "%d group%s", (int)setting->top, setting->top > 1 ? "s" : "");
    }
}

static void print_settings(output_table *table, const char *adapter, const focal_group_eval *eval)
{
    const focal_group_setting *dense = focal_group_eval_at(eval, 0), *s;
    for (int32_t n = 0; (s = focal_group_eval_at(eval, n)) != NULL; n++) {
        char name[32];
        name_setting(s, name, sizeof name);
        if (table->is_json) output_text(table, "measure", "groups");
        if (table->is_json) output_text(table, "adapter", adapter);
        output_text(table, "setting", name);
        if (table->is_json && s->kind == FOCAL_GROUP_TOP) output_number(table, "top", s->top, 0);
        output_number(table, "kept", s->kept, 4);
        output_number(table, "loss", s->loss, 4);
        output_number(table, "gap", s->loss - dense->loss, 4);
        if (!isnan(s->speed)) {
            output_number(table, "tokens_per_second", s->speed, 1);
            output_number(table, "times_dense", s->speed / dense->speed, 2);
        }
        output_end(table);
    }
}

/* The first adapter's measurement leaves the dense losses of the texts for those that follow. */
static int measure_adapter(focal_ctx *ctx, focal_model *model, const groups_options *o,
                           groups_texts *texts, const char *folder)
{
    char path[CLI_PATH_BYTES];
    int32_t tops[CLI_MAX_LIST];
    for (int32_t n = 0; n < o->tops.count; n++) tops[n] = (int32_t)o->tops.items[n];
    const int length = snprintf(path, sizeof path, "%s/measure.json", folder);
    if (length < 0 || (size_t)length >= sizeof path)
        return cli_fail("%s: the name is too long", folder);
    char label[64];
    (void)snprintf(label, sizeof label, "%s", name_of(folder));
    const focal_cache_options cache = cli_cache_options(&o->model);
    const focal_group_args args = {.texts = texts->texts,
                                   .text_count = texts->count,
                                   .context = (int32_t)o->context,
                                   .tops = tops,
                                   .top_count = o->tops.count,
                                   .rounds = (int32_t)o->rounds,
                                   .batch = (int32_t)o->batch,
                                   .dense = texts->has_dense ? texts->dense : NULL,
                                   .cache = &cache,
                                   .on_reading = on_reading,
                                   .user = label};
    focal_adapter *adapter = NULL;
    focal_group_eval *eval = NULL;
    focal_status status = focal_adapter_open(ctx, folder, &adapter);
    if (status == FOCAL_OK) status = focal_group_eval_new(model, adapter, &args, &eval);
    cli_progress("%s", "");
    const char *to = o->path ? o->path : path;
    if (status == FOCAL_OK) {
        memcpy(texts->dense, focal_group_eval_at(eval, 0)->losses,
               (size_t)texts->count * sizeof *texts->dense);
        texts->has_dense = true;
        output_table table = {.is_json = o->is_json};
        if (!o->is_json && o->adapters.count > 1) printf("%s\n", folder);
        print_settings(&table, folder, eval);
        status = focal_group_eval_write(eval, to); /* last: what was measured has been shown then */
    }
    int code = CLI_DONE;
    if (status == FOCAL_OK)
        (void)fprintf(stderr, "focal: the numbers are in %s\n", to);
    else
        code = cli_fail_ctx(ctx, status);
    focal_group_eval_free(eval);
    focal_adapter_close(adapter);
    return code;
}

/* Whether all adapters are there and the model's, before minutes are spent on the first. */
static int check_adapters(focal_ctx *ctx, focal_model *model, const cli_texts *adapters)
{
    focal_status status = FOCAL_OK;
    for (int32_t n = 0; status == FOCAL_OK && n < adapters->count; n++) {
        focal_adapter *adapter = NULL;
        status = focal_adapter_open(ctx, adapters->items[n], &adapter);
        if (status == FOCAL_OK) status = focal_model_attach(model, adapter, NULL);
        if (status == FOCAL_OK) status = focal_model_attach(model, NULL, NULL);
        focal_adapter_close(adapter);
    }
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

static int run(groups_options *o)
{
    static groups_texts texts; /* too large for a stack */
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    int code = cli_open_ctx(o->threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    code = cli_open_model(ctx, &o->model, &model);
    const focal_tokenizer *tokenizer = model ? focal_model_tokenizer(model) : NULL;
    if (code == CLI_DONE && !tokenizer)
        code = cli_fail("%s: there is no tokenizer beside the weights", o->model.name);
    if (code == CLI_DONE) code = check_adapters(ctx, model, &o->adapters);
    if (code == CLI_DONE && o->context < 0) {
        const int32_t most = focal_model_describe(model).context;
        o->context = most > 0 && most < CONTEXT ? most : CONTEXT;
    }
    if (code == CLI_DONE) cli_warn_context(model, o->context);
    for (int32_t n = 0; code == CLI_DONE && n < o->files.count; n++)
        code = read_text(ctx, tokenizer, o->files.items[n], &texts);
    for (int32_t n = 0; code == CLI_DONE && n < o->adapters.count; n++)
        code = measure_adapter(ctx, model, o, &texts, o->adapters.items[n]);
    for (int32_t n = 0; n < texts.count; n++) focal_ids_free(ctx, &texts.ids[n]);
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}

static int check_output(const groups_options *o)
{
    static const char what[] = "eval groups: -o";
    int code = output_place_check(what, o->path);
    if (code == CLI_DONE) code = overwrite_check(what, o->path, &o->model.name, 1);
    if (code == CLI_DONE) code = overwrite_check(what, o->path, o->files.items, o->files.count);
    if (code == CLI_DONE)
        code = overwrite_check(what, o->path, o->adapters.items, o->adapters.count);
    return code;
}

#define ABOUT                                                                                      \
    "Reads texts with the model as it is and with an adapter, its tokens looking into 0, 1, 2,\n"  \
    "4, ... groups: the loss, the share of distant pairs that is looked at, and the speed of\n"    \
    "reading a prompt, each setting beside dense in the same run. All of it, with the sizes of\n"  \
    "the groups and the tokens that are typical of them, is kept as measure.json in the\n"         \
    "adapter's folder, where focal report finds it."

int cli_eval_groups(int argc, char **argv)
{
    static groups_options o; /* lists of texts are large */
    o.context = -1;          /* not given */
    o.rounds = 3;
    const cli_option options[] = {
        cli_model_option(&o.model),
        {"adapter", 0, CLI_TEXTS, &o.adapters, "DIR", "what focal fit left; may come again", 0, 0,
         NULL, NULL},
        {"ctx-size", 'c', CLI_INT, &o.context, "N",
         "the first so many tokens of each text; 0: the model's [8192, or the model's where those "
         "are "
         "fewer]",
         0, 1 << 27, NULL, NULL},
        {"top", 0, CLI_LIST, &o.tops, "K,...",
         "numbers of groups, 0: window and sinks alone; default: 0,1,2,4,..., all and its own", 0,
         64, NULL, NULL},
        {"rounds", 0, CLI_INT, &o.rounds, "N",
         "timed readings of the first text, settings by turns; 0: none [3]", 0,
         FOCAL_GROUP_ROUNDS_MOST, NULL, NULL},
        {"batch-size", 'b', CLI_INT, &o.batch, "N", "tokens a pass; default: 1024", 1, 1 << 20,
         NULL, NULL},
        {"output", 'o', CLI_TEXT, &o.path, "FILE", "default: measure.json in the adapter's folder",
         0, 0, NULL, NULL},
        cli_cache_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object a line", 0, 0, NULL, NULL},
    };
    const cli_usage usage = {
        .command = "focal eval groups",
        .about = ABOUT,
        .examples = "  focal eval groups -m smollm2 --adapter fit novel.txt wiki.txt\n"
                    "  focal eval groups -m smollm2 --adapter fit --adapter random novel.txt -c 2k "
                    "--top 0,2,4\n",
        .arguments = "FILES...",
        .taken = &o.files,
        .least = 1,
        .most = FOCAL_GROUP_TEXTS_MOST,
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (o.adapters.count == 0)
        return cli_wrong("eval groups: no adapter: say which with --adapter DIR");
    if (o.context == 1)
        return cli_wrong("eval groups: of 1 token nothing is predicted: at least 2");
    if (o.path && o.adapters.count > 1)
        return cli_wrong("eval groups: -o is one file, and there are %d adapters",
                         o.adapters.count);
    const int wrong = check_output(&o);
    return wrong == CLI_DONE ? run(&o) : wrong;
}
