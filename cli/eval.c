/* focal eval: how well a model does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "focal/eval.h"
#include "llama_words.h"
#include "model_file.h"
#include "options.h"

static const cli_verb evals[] = {
    {"copy", "how well a model repeats a passage it has read", cli_eval_copy},
    {"groups", "what an adapter's groups gain and lose", cli_eval_groups},
    {"mc", "how often a model chooses the right end of a text", cli_eval_mc},
    {"ppl", "perplexity of a text", cli_eval_ppl},
    {"recall", "how well a model knows values it has read", cli_eval_recall},
};

int cli_eval(int argc, char **argv)
{
    return cli_run_verb("focal eval", "focal eval: how well a model does.", evals, CLI_COUNT(evals),
                        argc, argv);
}

typedef struct ppl_options {
    model_choice model;
    const char *file;
    int64_t context, stride, chunks, batch, threads;
    int32_t method; /* 0: stride, 1: llama */
    bool is_json, has_tokens;
    llama_choice llama;
} ppl_options;

typedef struct ppl_report {
    const ppl_options *options;
    double *running; /* perplexity behind each chunk */
    int64_t running_count, capacity;
    bool lacks_memory; /* for all of them: the run has ended early */
} ppl_report;

static bool on_chunk(void *user, int64_t chunk, int64_t chunk_count, double perplexity)
{
    ppl_report *report = user;
    cli_progress("chunk %lld of %lld: perplexity %.4f", (long long)chunk + 1,
                 (long long)chunk_count, perplexity);
    if (report->running_count == report->capacity) {
        const int64_t capacity = report->capacity ? 2 * report->capacity : 64;
        double *more = realloc(report->running, (size_t)capacity * sizeof *more);
        if (!more) {
            report->lacks_memory = true;
            return false;
        }
        report->running = more;
        report->capacity = capacity;
    }
    report->running[report->running_count++] = perplexity;
    return true;
}

/* JSON has no word for what is not finite. */
static void print_json_number(const char *before, double value)
{
    if (isfinite(value))
        printf("%s%.9g", before, value);
    else
        printf("%snull", before);
}

static void on_token(void *user, int64_t index, int32_t id, double nll)
{
    const ppl_report *report = user;
    if (!report->options->is_json) {
        printf("%10lld %8d %10.5f\n", (long long)index, id, nll);
        return;
    }
    printf("{\"index\": %lld, \"id\": %d", (long long)index, id);
    print_json_number(", \"nll\": ", nll);
    printf("}\n");
}

static void print_result(const ppl_report *report, const focal_ppl_result *result)
{
    const double bits_per_byte =
        result->bytes > 0 ? result->bits / (double)result->bytes : (double)NAN;
    if (!report->options->is_json) {
        printf("tokens %lld  loss %.6f  perplexity %.4f  bits a byte %.4f  (%lld windows)\n",
               (long long)result->tokens, result->loss, result->perplexity, bits_per_byte,
               (long long)result->chunks);
        return;
    }
    printf("{\"tokens\": %lld", (long long)result->tokens);
    print_json_number(", \"loss\": ", result->loss);
    print_json_number(", \"ppl\": ", result->perplexity);
    print_json_number(", \"bits_per_byte\": ", bits_per_byte);
    printf(", \"running\": [");
    for (int64_t n = 0; n < report->running_count; n++)
        print_json_number(n ? ", " : "", report->running[n]);
    printf("]}\n");
}

static int run_ppl(focal_ctx *ctx, focal_model *model, const ppl_options *o)
{
    const int64_t window = o->context > 0 ? o->context : focal_model_describe(model).context;
    if (o->stride > window)
        return cli_wrong("eval ppl: --stride %lld steps over tokens: at most the window's %lld",
                         (long long)o->stride, (long long)window);
    size_t bytes = 0;
    char *text = cli_read_language(o->file, CLI_TEXT_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    cli_warn_context(model, o->context);
    const focal_tokenizer *tokenizer = focal_model_tokenizer(model);
    focal_ids ids = {0};
    ppl_report report = {.options = o};
    focal_ppl_result result;
    int code = CLI_DONE;
    if (!tokenizer) {
        code = cli_fail("%s: there is no tokenizer beside the weights", o->model.name);
    } else {
        focal_status status =
            focal_tokenizer_encode(ctx, tokenizer, text, bytes, FOCAL_ENCODE_ADD_SPECIAL, &ids);
        const focal_cache_options cache = cli_cache_options(&o->model);
        const focal_ppl_args args = {
            .method = o->method == 1 ? FOCAL_PPL_LLAMA : FOCAL_PPL_STRIDE,
            .ids = ids.ids,
            .count = ids.count,
            .context = (int32_t)o->context,
            .stride = (int32_t)o->stride,
            .chunks = o->chunks,
            .batch = (int32_t)o->batch,
            .cache = &cache,
            .on_token = o->has_tokens ? on_token : NULL,
            .on_chunk = on_chunk,
            .user = &report,
        };
        if (status == FOCAL_OK) {
            cli_warn_lost(tokenizer, text, bytes);
            status = focal_ppl(model, &args, &result);
        }
        cli_progress("%s", "");
        if (status != FOCAL_OK)
            code = cli_fail_ctx(ctx, status);
        else if (report.lacks_memory)
            code = cli_fail("eval ppl: no memory for the perplexities of %lld windows",
                            (long long)report.running_count + 1);
        else if (!isfinite(result.loss))
            code = cli_fail("eval ppl: the loss is not a finite number: the model gives none");
        else
            print_result(&report, &result);
    }
    free(report.running);
    focal_ids_free(ctx, &ids);
    free(text);
    return code;
}

int cli_eval_ppl(int argc, char **argv)
{
    enum { OPTIONS = 12 + ADAPTER_OPTIONS };
    ppl_options o = {0};
    cli_option options[OPTIONS + LLAMA_OPTIONS] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"file", 'f', CLI_TEXT, &o.file, "FILE", "the text; - for standard input", 0, 0, NULL,
         NULL},
        {"ctx-size", 'c', CLI_INT, &o.context, "N", "tokens of a window; 0: the model's [0]", 0,
         1 << 27, NULL, NULL},
        {"method", 0, CLI_CHOICE, &o.method, "stride|llama",
         "windows that overlap (default), or llama-perplexity's chunks", 0, 0, "stride|llama",
         NULL},
        {"stride", 0, CLI_INT, &o.stride, "N", "tokens from window to window; default: half of one",
         1, 1 << 27, NULL, NULL},
        {"chunks", 0, CLI_INT, &o.chunks, "N", "at most so many windows", 1, 1e15, NULL, NULL},
        {"batch-size", 'b', CLI_INT, &o.batch, "N", "tokens a pass; default: 1024", 1, 1 << 20,
         NULL, NULL},
        {"tokens", 0, CLI_FLAG, &o.has_tokens, NULL, "a line for every token that is scored", 0, 0,
         NULL, NULL},
        cli_cache_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one JSON object a line", 0, 0, NULL, NULL},
    };
    llama_options(&o.llama, options + OPTIONS);
    const cli_usage usage = {
        .command = "focal eval ppl",
        .about =
            "Perplexity: how well the model predicts each token of a text from those before it,\n"
            "as loss in nats a token, its exponential, and bits a byte of the text.",
        .examples =
            "  focal eval ppl -m smollm2 -f book.txt -c 2048\n"
            "  focal eval ppl -m smollm2 -f wiki.txt -c 2048 --method llama --chunks 8 --json\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (!o.file) return cli_wrong("eval ppl: no text: say which with -f FILE");
    if (o.context == 1)
        return cli_wrong("eval ppl: a window of 1 token predicts nothing: at least 2");
    if (o.method == 1 && o.stride > 0)
        return cli_wrong("eval ppl: --stride does not go together with --method llama");
    code = llama_apply("eval ppl", &o.llama, &o.model);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    code = cli_open_ctx(o.threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    code = cli_open_model(ctx, &o.model, &model);
    if (code == CLI_DONE) code = run_ppl(ctx, model, &o);
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}
