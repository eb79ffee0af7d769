/* focal eval recall: how well a model knows values it has read; and texts to learn it from. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "documents_file.h"
#include "focal/eval.h"
#include "model_file.h"
#include "options.h"
#include "output.h"

typedef struct recall_options {
    model_choice model;
    cli_list lengths;
    int64_t count, queries, keys, seed, documents, threads;
    const char *write, *pairs;
    bool is_json;
} recall_options;

static bool on_sequence(void *user, int64_t done, int64_t count, double accuracy)
{
    const int64_t *length = user;
    cli_progress("length %lld: text %lld of %lld, %.1f %% right", (long long)*length,
                 (long long)done, (long long)count, 100.0 * accuracy);
    return true;
}

static void print_result(output_table *table, int64_t length, const focal_recall_result *result)
{
    static const char *const depths[] = {"first_quarter", "second_quarter", "third_quarter",
                                         "last_quarter"};
    if (table->is_json) output_text(table, "measure", "recall");
    output_int(table, "length", length);
    output_number(table, table->is_json ? "value" : "right", result->accuracy, 4);
    output_number(table, "loss", result->loss, 4);
    output_number(table, "chance", result->chance, 4);
    for (int n = 0; n < FOCAL_RECALL_DEPTHS; n++)
        output_number(table, depths[n], result->depth_accuracy[n], 4);
    output_number(table, "pairs", result->pairs, 1);
    output_int(table, "values", result->values);
    output_int(table, "count", result->count);
    output_end(table);
}

static int measure(focal_ctx *ctx, focal_model *model, const recall_options *o)
{
    const focal_recall_plan plan = {
        .queries = (int32_t)o->queries, .keys = (int32_t)o->keys, .seed = (uint64_t)o->seed};
    const focal_cache_options cache = cli_cache_options(&o->model);
    output_table table = {.is_json = o->is_json};
    for (int32_t n = 0; n < o->lengths.count; n++) {
        int64_t length = o->lengths.items[n];
        const focal_measure_options options = {
            .count = o->count, .cache = &cache, .on_sequence = on_sequence, .user = &length};
        focal_recall_result result;
        const focal_status status = focal_recall(model, &plan, (int32_t)length, &options, &result);
        cli_progress("%s", "");
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
        print_result(&table, length, &result);
    }
    return CLI_DONE;
}

/* "8-48", or one number. */
static int read_pairs(const char *text, int64_t *least, int64_t *most)
{
    char *end = NULL;
    *least = *most = strtoll(text, &end, 10);
    bool is_right = end != text;
    if (is_right && *end == '-') {
        const char *second = end + 1;
        *most = strtoll(second, &end, 10);
        is_right = end != second;
    }
    if (is_right && *end == '\0' && *least >= FOCAL_RECALL_PAIRS_LEAST && *least <= *most &&
        *most <= FOCAL_RECALL_PAIRS_MOST)
        return CLI_DONE;
    return cli_wrong("eval recall: --pairs must be a number or two with a - between, %d to %d, not "
                     "'%s'",
                     FOCAL_RECALL_PAIRS_LEAST, FOCAL_RECALL_PAIRS_MOST, text);
}

/* As many texts have 4 to 8 pairs as 8 to 16: short ones teach that values come again, and long
 * ones teach nothing before that is known. Multiples of the golden ratio spread evenly. */
static int32_t pairs_of(int64_t n, int64_t least, int64_t most)
{
    const double turns = 0.6180339887498949 * (double)n, part = turns - floor(turns);
    const double pairs = (double)least * pow((double)(most + 1) / (double)least, part);
    return (int32_t)fmin(pairs, (double)most);
}

static int write_documents(focal_ctx *ctx, const recall_options *o)
{
    int64_t least = 0, most = 0;
    int code = read_pairs(o->pairs, &least, &most);
    if (code != CLI_DONE) return code;
    const focal_recall_plan plan = {.queries = (int32_t)o->queries,
                                    .keys = (int32_t)o->keys,
                                    .seed = (uint64_t)o->seed,
                                    .is_training = true};
    documents_file documents;
    focal_buffer text = {0};
    code = documents_open(&documents, o->write);
    for (int64_t n = 0; code == CLI_DONE && n < o->documents; n++) {
        text.bytes = 0;
        const int32_t pairs = pairs_of(n, least, most);
        const focal_status status = focal_recall_text(ctx, &plan, n, pairs, &text);
        code = status == FOCAL_OK ? documents_put(&documents, text.data, text.bytes)
                                  : cli_fail_ctx(ctx, status);
    }
    focal_buffer_free(ctx, &text);
    return documents_close(&documents, code);
}

static int run(const recall_options *o)
{
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    int code = cli_open_ctx(o->threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    if (o->write) {
        code = write_documents(ctx, o);
    } else {
        code = cli_open_model(ctx, &o->model, &model);
        if (code == CLI_DONE) code = measure(ctx, model, o);
    }
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}

#define ABOUT                                                                                      \
    "Shows a model lines \"key value\" and then some of the keys again: how often every token "    \
    "of\n"                                                                                         \
    "the value is its first choice, by the length of the text in tokens and by the quarter of "    \
    "it\n"                                                                                         \
    "where the line stood. Chance is what taking any value of the text would give. With "          \
    "--write,\n"                                                                                   \
    "writes such texts, others than those that measure, for focal tokenize; where they have "      \
    "more\n"                                                                                       \
    "queries than pairs, the queries begin again."

int cli_eval_recall(int argc, char **argv)
{
    recall_options o = {.lengths = {{512, 1024, 2048}, 3},
                        .count = 32,
                        .queries = 8,
                        .keys = FOCAL_RECALL_KEYS,
                        .seed = 1,
                        .documents = 10000,
                        .pairs = "8-48"};
    const cli_option options[] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"lengths", 0, CLI_LIST, &o.lengths, "N,...", "tokens of a text [512,1024,2048]", 1,
         1 << 27, NULL, NULL},
        {"count", 0, CLI_INT, &o.count, "N", "texts of each length [32]", 1, 1e9, NULL, NULL},
        {"queries", 0, CLI_INT, &o.queries, "N", "keys that come again in a text [8]", 1,
         FOCAL_RECALL_PAIRS_MOST, NULL, NULL},
        {"keys", 0, CLI_INT, &o.keys, "N", "different keys in all texts [10000]",
         FOCAL_RECALL_PAIRS_LEAST, FOCAL_RECALL_KEYS, NULL, NULL},
        {"seed", 0, CLI_INT, &o.seed, "N", "which texts [1]", 0, 1e15, NULL, NULL},
        {"write", 0, CLI_TEXT, &o.write, "FILE.jsonl", "write texts to train on; no model", 0, 0,
         NULL, NULL},
        {"documents", 0, CLI_INT, &o.documents, "N", "so many of them [10000]", 1, 1e9, NULL, NULL},
        {"pairs", 0, CLI_TEXT, &o.pairs, "A-B", "lines of such a text, without the queries [8-48]",
         0, 0, NULL, NULL},
        cli_cache_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object a line", 0, 0, NULL, NULL},
    };
    const cli_rule rules[] = {{"write", .excludes = "model|lengths|count|json"},
                              {"documents", .needs = "write"},
                              {"pairs", .needs = "write"}};
    const cli_usage usage = {
        .command = "focal eval recall",
        .about = ABOUT,
        .examples = "  focal eval recall -m smollm2 --lengths 512,2048\n"
                    "  focal eval recall --write recall.jsonl --documents 20000 --pairs 8-48\n",
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    const int code = cli_parse(&usage, argc, argv);
    return code >= 0 ? code : run(&o);
}
