/* focal eval copy: how well a model repeats what it has read; and texts to learn it from. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "documents_file.h"
#include "focal/eval.h"
#include "model_file.h"
#include "options.h"
#include "output.h"
#include "overwrite.h"

typedef struct copy_options {
    model_choice model;
    cli_texts files, more; /* behind -f, and without */
    cli_list lengths;
    int64_t passage, scored, count, seed, documents, threads;
    int32_t places; /* 0: by the seed, 1: even */
    const char *write;
    bool is_json;
} copy_options;

/* The texts as ids. */
typedef struct copy_texts {
    focal_ids *ids;         /* (room) */
    focal_copy_text *texts; /* (room) */
    int32_t count, room;
} copy_texts;

static bool on_sequence(void *user, int64_t done, int64_t count, double accuracy)
{
    const focal_copy_plan *plan = user;
    cli_progress("length %d: sequence %lld of %lld, %.1f %% right", plan->length, (long long)done,
                 (long long)count, 100.0 * accuracy);
    return true;
}

static int read_text(focal_ctx *ctx, const focal_tokenizer *tokenizer, const char *path,
                     copy_texts *texts)
{
    size_t bytes = 0;
    char *text = cli_read_language(path, CLI_TEXT_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    focal_ids *ids = &texts->ids[texts->count];
    const focal_status status = focal_tokenizer_encode(ctx, tokenizer, text, bytes, 0, ids);
    if (status == FOCAL_OK) cli_warn_lost(tokenizer, text, bytes);
    free(text);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    texts->texts[texts->count++] = (focal_copy_text){ids->ids, ids->count};
    return CLI_DONE;
}

static int read_texts(focal_ctx *ctx, const focal_tokenizer *tokenizer, const copy_options *o,
                      copy_texts *texts)
{
    int code = CLI_DONE;
    texts->room = o->files.count + o->more.count;
    texts->ids = calloc((size_t)texts->room, sizeof *texts->ids);
    texts->texts = calloc((size_t)texts->room, sizeof *texts->texts);
    if (!texts->ids || !texts->texts) return cli_fail("no memory for %d texts", texts->room);
    for (int32_t n = 0; code == CLI_DONE && n < o->files.count; n++)
        code = read_text(ctx, tokenizer, o->files.items[n], texts);
    for (int32_t n = 0; code == CLI_DONE && n < o->more.count; n++)
        code = read_text(ctx, tokenizer, o->more.items[n], texts);
    return code;
}

static focal_copy_plan plan_of(const copy_options *o, const copy_texts *texts)
{
    return (focal_copy_plan){.texts = texts->texts,
                             .text_count = texts->count,
                             .passage = (int32_t)o->passage,
                             .seed = (uint64_t)o->seed,
                             .has_even_places = o->places == 1};
}

static void print_result(output_table *table, int32_t length, const focal_copy_result *result)
{
    if (table->is_json) output_text(table, "measure", "copy");
    output_int(table, "length", length);
    output_number(table, table->is_json ? "value" : "right", result->accuracy, 4);
    output_number(table, "loss", result->loss, 4);
    output_number(table, "first_loss", result->first_loss, 4);
    output_int(table, "tokens", result->tokens);
    output_int(table, "count", result->count);
    output_end(table);
}

static int measure(focal_ctx *ctx, focal_model *model, const copy_options *o,
                   const copy_texts *texts)
{
    const focal_special_ids special = focal_tokenizer_special(focal_model_tokenizer(model));
    const focal_cache_options cache = cli_cache_options(&o->model);
    output_table table = {.is_json = o->is_json};
    int64_t longest = 0;
    for (int32_t n = 0; n < o->lengths.count; n++)
        if (o->lengths.items[n] > longest) longest = o->lengths.items[n];
    cli_warn_context(model, longest);
    for (int32_t n = 0; n < o->lengths.count; n++) {
        focal_copy_plan plan = plan_of(o, texts);
        plan.length = (int32_t)o->lengths.items[n];
        plan.has_begin = special.add_bos;
        plan.begin = special.bos;
        const focal_measure_options options = {
            .count = o->count, .cache = &cache, .on_sequence = on_sequence, .user = &plan};
        focal_copy_result result;
        const focal_status status = focal_copy(model, &plan, (int32_t)o->scored, &options, &result);
        cli_progress("%s", "");
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
        print_result(&table, plan.length, &result);
    }
    return CLI_DONE;
}

/* One document: the ids of a sequence, as text. */
static int write_document(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                          const focal_copy_plan *plan, int64_t n, documents_file *documents)
{
    focal_buffer text = {0};
    int32_t *ids = cli_alloc("a document", (size_t)plan->length, sizeof *ids);
    if (!ids) return CLI_FAILED;
    int code = CLI_DONE;
    focal_status status = focal_copy_sequence(ctx, plan, n, ids);
    if (status == FOCAL_OK)
        status = focal_tokenizer_decode(ctx, tokenizer, ids, plan->length,
                                        FOCAL_DECODE_SKIP_SPECIAL, &text);
    if (status == FOCAL_OK)
        code = documents_put(documents, text.data, text.bytes);
    else
        code = cli_fail_ctx(ctx, status);
    focal_buffer_free(ctx, &text);
    free(ids);
    return code;
}

/* Lengths take turns. */
static int write_documents(focal_ctx *ctx, const focal_tokenizer *tokenizer, const copy_options *o,
                           const copy_texts *texts)
{
    focal_copy_plan plan = plan_of(o, texts);
    plan.is_training = true;
    documents_file documents;
    int code = documents_open(&documents, o->write);
    for (int64_t n = 0; code == CLI_DONE && n < o->documents; n++) {
        plan.length = (int32_t)o->lengths.items[n % o->lengths.count];
        code = write_document(ctx, tokenizer, &plan, n, &documents);
    }
    return documents_close(&documents, code);
}

static bool is_tokenizer_file(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes > 5 && strcmp(name + bytes - 5, ".json") == 0;
}

static int run(const copy_options *o)
{
    copy_texts texts = {0};
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    focal_tokenizer *own = NULL;
    int code = cli_open_ctx(o->threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    if (o->write && o->model.name && is_tokenizer_file(o->model.name)) {
        const focal_status status = focal_tokenizer_open(ctx, o->model.name, &own);
        if (status != FOCAL_OK) code = cli_fail_ctx(ctx, status);
    } else {
        code = cli_open_model(ctx, &o->model, &model);
    }
    const focal_tokenizer *tokenizer = model ? focal_model_tokenizer(model) : own;
    if (code == CLI_DONE && !tokenizer)
        code = cli_fail("%s: there is no tokenizer beside the weights", o->model.name);
    if (code == CLI_DONE) code = read_texts(ctx, tokenizer, o, &texts);
    if (code == CLI_DONE)
        code =
            o->write ? write_documents(ctx, tokenizer, o, &texts) : measure(ctx, model, o, &texts);
    for (int32_t n = 0; texts.ids && n < texts.room; n++) focal_ids_free(ctx, &texts.ids[n]);
    free(texts.ids);
    free(texts.texts);
    focal_tokenizer_free(own);
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}

static int check_output(const copy_options *o)
{
    static const char what[] = "eval copy: --write";
    const char *const others[] = {o->model.name, o->model.adapter.path};
    int code = overwrite_check(what, o->write, others, CLI_COUNT(others));
    if (code == CLI_DONE) code = overwrite_check(what, o->write, o->files.items, o->files.count);
    if (code == CLI_DONE) code = overwrite_check(what, o->write, o->more.items, o->more.count);
    return code;
}

#define ABOUT                                                                                      \
    "Shows a model a passage of a text, other text, and the passage again: the share of the\n"     \
    "repeated tokens that are its first choice, and their loss, over the last seven eighths of\n"  \
    "the passage; beside it the loss where the passage stood first. With --write, writes such\n"   \
    "texts, others than those that measure, for focal tokenize; -m may then be a tokenizer.json."

int cli_eval_copy(int argc, char **argv)
{
    copy_options o = {
        .lengths = {{512, 1024, 2048}, 3}, .passage = 64, .seed = 1, .documents = 10000};
    const cli_option options[] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"file", 'f', CLI_TEXTS, &o.files, "FILE", "a text; may come again", 0, 0, NULL, NULL},
        {"passage", 0, CLI_INT, &o.passage, "N", "tokens of the passage [64]", 2, 1 << 26, NULL,
         NULL},
        {"lengths", 0, CLI_LIST, &o.lengths, "N,...", "tokens of a sequence [512,1024,2048]", 4,
         1 << 27, NULL, NULL},
        {"scored", 0, CLI_INT, &o.scored, "N",
         "the last so many tokens of the passage; default: 7/8", 1, 1 << 26, NULL, NULL},
        {"count", 0, CLI_INT, &o.count, "N",
         "sequences of each length [32; with even places at most 5 a text]", 1, 1e9, NULL, NULL},
        {"places", 0, CLI_CHOICE, &o.places, "random|even",
         "where passages come from: by the seed, or at fixed shares of each text", 0, 0,
         "random|even", NULL},
        {"seed", 0, CLI_INT, &o.seed, "N", "which sequences [1]", 0, 1e15, NULL, NULL},
        {"write", 0, CLI_TEXT, &o.write, "FILE.jsonl", "write texts to train on", 0, 0, NULL, NULL},
        {"documents", 0, CLI_INT, &o.documents, "N", "so many of them [10000]", 1, 1e9, NULL, NULL},
        cli_cache_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object a line", 0, 0, NULL, NULL},
    };
    const cli_rule rules[] = {{"write", .excludes = "count|scored|places|json"},
                              {"documents", .needs = "write"}};
    const cli_usage usage = {
        .command = "focal eval copy",
        .about = ABOUT,
        .examples =
            "  focal eval copy -m smollm2 -f book.txt --lengths 1k,4k\n"
            "  focal eval copy -m smollm2 books/*.txt --passage 400 --lengths 3800 --places even\n"
            "  focal eval copy -m tokenizer.json books/*.txt --write copy.jsonl --lengths 384\n",
        .arguments = "[FILES...]",
        .taken = &o.more,
        .most = CLI_MAX_TEXTS,
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (o.files.count + o.more.count == 0)
        return cli_wrong("eval copy: no text: say which with -f FILE");
    const int wrong = check_output(&o);
    return wrong == CLI_DONE ? run(&o) : wrong;
}
