/* focal eval mc: multiple choice by log-probability. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "documents_file.h"
#include "focal/eval.h"
#include "json_text.h"
#include "model_file.h"
#include "options.h"
#include "output.h"
#include "overwrite.h"

typedef struct mc_options {
    model_choice model;
    cli_texts files, more; /* behind -f, and without */
    const char *task, *prefix, *per_item;
    int64_t limit, sample, seed, prefix_tokens, context, batch, threads;
    bool joins_bare, is_json;
} mc_options;

/* What on_item knows. */
typedef struct mc_report {
    const char *path;     /* of the items */
    documents_file *list; /* a line an item; NULL: none */
    int code;             /* of writing it */
} mc_report;

static void write_numbers(FILE *file, const char *name, const int32_t *numbers, int32_t count)
{
    (void)fprintf(file, ", \"%s\": [", name);
    for (int32_t n = 0; n < count; n++) (void)fprintf(file, "%s%d", n ? ", " : "", numbers[n]);
    (void)fputc(']', file);
}

static int write_item(documents_file *list, const focal_mc_score *score)
{
    const focal_mc_item *item = score->item;
    FILE *file = list->file;
    (void)fputs("{\"file\": ", file);
    json_write_text(file, item->path, strlen(item->path));
    (void)fprintf(file, ", \"line\": %lld", (long long)item->line);
    if (item->id.bytes > 0) {
        (void)fputs(", \"id\": ", file);
        json_write_text(file, item->id.data, item->id.bytes);
    }
    (void)fprintf(file, ", \"answer\": %d, \"pick\": %d, \"pick_by_length\": %d, \"logprob\": [",
                  item->answer, score->pick, score->by_length);
    for (int32_t n = 0; n < item->choice_count; n++)
        (void)fprintf(file, "%s%.9g", n ? ", " : "", score->logprob[n]);
    (void)fputc(']', file);
    write_numbers(file, "tokens", score->tokens, item->choice_count);
    write_numbers(file, "bytes", score->bytes, item->choice_count);
    (void)fputs("}\n", file);
    return ferror(file) ? cli_fail("%s: %s", list->path, strerror(errno)) : CLI_DONE;
}

static bool on_item(void *user, const focal_mc_score *score)
{
    mc_report *report = user;
    cli_progress("%s: item %lld of %lld, %.1f %% right", report->path, (long long)score->done,
                 (long long)score->count, 100.0 * score->accuracy);
    if (report->list) report->code = write_item(report->list, score);
    return report->code == CLI_DONE;
}

static void print_result(output_table *table, const mc_options *o, const char *path,
                         const focal_mc_result *result)
{
    if (table->is_json) output_text(table, "measure", "mc");
    output_text(table, "file", path);
    if (o->task) output_text(table, "task", o->task);
    output_int(table, "count", result->count);
    output_number(table, table->is_json ? "value" : "right", result->accuracy, 4);
    output_number(table, "error", result->accuracy_error, 4);
    output_number(table, "by_length", result->by_length, 4);
    output_number(table, "by_length_error", result->by_length_error, 4);
    output_number(table, "chance", result->chance, 4);
    output_int(table, "tokens", result->tokens);
    output_end(table);
}

/* The items of one file. */
static int measure(focal_model *model, const mc_options *o, const focal_mc_options *shared,
                   const focal_mc_set *set, mc_report report, output_table *table)
{
    focal_mc_options options = *shared;
    focal_mc_result result;
    options.on_item = on_item;
    options.user = &report;
    const focal_status status = focal_mc(model, set, &options, &result);
    cli_progress("%s", "");
    if (status != FOCAL_OK) return cli_fail_ctx(focal_model_ctx(model), status);
    if (report.code == CLI_DONE) print_result(table, o, report.path, &result);
    return report.code;
}

static int32_t file_count(const mc_options *o)
{
    return o->files.count + o->more.count;
}

static const char *file_at(const mc_options *o, int32_t n)
{
    return n < o->files.count ? o->files.items[n] : o->more.items[n - o->files.count];
}

/* Every file, before the first item is asked. */
static int open_sets(focal_ctx *ctx, const mc_options *o, focal_mc_set **sets)
{
    for (int32_t n = 0; n < file_count(o); n++) {
        const focal_mc_source source = {.path = file_at(o, n),
                                        .task = o->task,
                                        .limit = o->limit,
                                        .sample = o->sample,
                                        .seed = (uint64_t)o->seed};
        const focal_status status = focal_mc_open(ctx, &source, &sets[n]);
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    }
    return CLI_DONE;
}

static int measure_sets(focal_model *model, const mc_options *o, const focal_mc_options *options,
                        focal_mc_set *const *sets)
{
    output_table table = {.is_json = o->is_json};
    documents_file list = {0};
    int code = o->per_item ? documents_open(&list, o->per_item) : CLI_DONE;
    for (int32_t n = 0; code == CLI_DONE && n < file_count(o); n++) {
        const mc_report report = {.path = file_at(o, n), .list = o->per_item ? &list : NULL};
        code = measure(model, o, options, sets[n], report, &table);
    }
    return documents_close(&list, code);
}

static int measure_all(focal_model *model, const mc_options *o, const char *prefix,
                       size_t prefix_bytes)
{
    const focal_cache_options cache = cli_cache_options(&o->model);
    const focal_mc_options options = {.prefix = prefix,
                                      .prefix_bytes = prefix_bytes,
                                      .prefix_tokens = (int32_t)o->prefix_tokens,
                                      .context = (int32_t)o->context,
                                      .batch = (int32_t)o->batch,
                                      .joins_bare = o->joins_bare,
                                      .cache = &cache};
    focal_mc_set **sets = calloc((size_t)file_count(o), sizeof(focal_mc_set *));
    if (!sets) return cli_fail("no memory for %d files", file_count(o));
    int code = open_sets(focal_model_ctx(model), o, sets);
    if (code == CLI_DONE) code = measure_sets(model, o, &options, sets);
    for (int32_t n = 0; n < file_count(o); n++) focal_mc_close(sets[n]);
    free(sets);
    return code;
}

static int run(const mc_options *o)
{
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    char *prefix = NULL;
    size_t prefix_bytes = 0;
    int code = cli_open_ctx(o->threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    if (o->prefix) {
        prefix = cli_read_language(o->prefix, CLI_PROMPT_BYTES, &prefix_bytes);
        if (!prefix) code = CLI_FAILED;
    }
    if (code == CLI_DONE) code = cli_open_model(ctx, &o->model, &model);
    if (code == CLI_DONE) code = measure_all(model, o, prefix, prefix_bytes);
    free(prefix);
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}

static int check_output(const mc_options *o)
{
    static const char what[] = "eval mc: --per-item";
    const char *const others[] = {o->model.name, o->model.adapter.path, o->prefix};
    int code = overwrite_check(what, o->per_item, others, CLI_COUNT(others));
    if (code == CLI_DONE) code = overwrite_check(what, o->per_item, o->files.items, o->files.count);
    if (code == CLI_DONE) code = overwrite_check(what, o->per_item, o->more.items, o->more.count);
    return code;
}

#define ABOUT                                                                                      \
    "Multiple choice: how often the right one of several endings of a text is the one that the\n"  \
    "model finds likeliest, by log-probability (right) and by log-probability a byte\n"            \
    "(by_length), with standard errors. FILES have a JSON object a line:\n"                        \
    "{\"context\": \"...\", \"choices\": [\"...\", ...], \"answer\": 0}"

int cli_eval_mc(int argc, char **argv)
{
    mc_options o = {.seed = 1};
    const cli_option options[] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"file", 'f', CLI_TEXTS, &o.files, "FILE", "items; may come again; - for standard input", 0,
         0, NULL, NULL},
        {"task", 0, CLI_TEXT, &o.task, "NAME", "only items whose \"task\" is this", 0, 0, NULL,
         NULL},
        {"limit", 0, CLI_INT, &o.limit, "N", "the first so many items of a file", 1, 1e9, NULL,
         NULL},
        {"sample", 0, CLI_INT, &o.sample, "N", "so many of them, by the seed", 1, 1e9, NULL, NULL},
        {"seed", 0, CLI_INT, &o.seed, "N", "which [1]", 0, 1e15, NULL, NULL},
        {"prefix", 0, CLI_TEXT, &o.prefix, "FILE", "a text that stands before every context", 0, 0,
         NULL, NULL},
        {"prefix-tokens", 0, CLI_INT, &o.prefix_tokens, "N",
         "at most so many of it: its beginning is cut off", 1, 1 << 27, NULL, NULL},
        {"no-space", 0, CLI_FLAG, &o.joins_bare, NULL,
         "put no space between a context and a choice that have none", 0, 0, NULL, NULL},
        {"ctx-size", 'c', CLI_INT, &o.context, "N",
         "tokens of the longest text; 0: the model's [0]", 0, 1 << 27, NULL, NULL},
        {"batch-size", 'b', CLI_INT, &o.batch, "N", "tokens a pass; default: 1024", 1, 1 << 20,
         NULL, NULL},
        {"per-item", 0, CLI_TEXT, &o.per_item, "FILE.jsonl",
         "write a line an item: log-probabilities and picks", 0, 0, NULL, NULL},
        cli_cache_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object a line", 0, 0, NULL, NULL},
    };
    const cli_rule rules[] = {{"seed", .needs = "sample"}, {"prefix-tokens", .needs = "prefix"}};
    const cli_usage usage = {
        .command = "focal eval mc",
        .about = ABOUT,
        .examples = "  focal eval mc -m smollm2 arc.jsonl hellaswag.jsonl --limit 200\n"
                    "  focal eval mc -m smollm2 arc.jsonl --prefix examples.txt --prefix-tokens 2k "
                    "--json\n",
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
    if (file_count(&o) == 0)
        return cli_wrong("eval mc: no items: say which file has them with -f FILE");
    if (o.context == 1) return cli_wrong("eval mc: a text of 1 token has no choice: at least 2");
    const int wrong = check_output(&o);
    return wrong == CLI_DONE ? run(&o) : wrong;
}
