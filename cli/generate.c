/* focal generate: a prompt in, text out. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"
#include "focal/generate.h"
#include "json_text.h"
#include "llama_words.h"
#include "model_file.h"
#include "options.h"
#include "sampling.h"
#include "writing.h"

typedef struct generate_options {
    model_choice model;
    const char *prompt, *file, *system;
    cli_texts rest; /* "-" */
    cli_texts stops;
    int64_t count, context, batch, threads;
    bool is_chat, is_json, ignores_end, has_special;
    sampling_choice sampling;
    llama_choice llama;
} generate_options;

/* The file's text, then the prompt's, with an empty line between. */
static char *prompt_text(const generate_options *o, size_t *bytes)
{
    const char *path = o->rest.count > 0 ? "-" : o->file;
    char *text = path ? cli_read_text(path, CLI_PROMPT_BYTES, bytes) : calloc(1, 1);
    if (!text || !o->prompt) return text;
    const size_t more = strlen(o->prompt);
    char *both = realloc(text, *bytes + more + 3);
    if (!both) {
        free(text);
        (void)cli_fail("no memory for the prompt");
        return NULL;
    }
    if (*bytes > 0) {
        both[(*bytes)++] = '\n';
        both[(*bytes)++] = '\n';
    }
    memcpy(both + *bytes, o->prompt, more + 1);
    *bytes += more;
    return both;
}

/* The prompt as the user's message of a conversation. */
static focal_status encode_chat(focal_ctx *ctx, const focal_model *model, const char *system,
                                const char *text, focal_ids *ids)
{
    focal_template *tpl = NULL;
    size_t bytes = 0;
    const char *source = focal_model_template(model, &bytes);
    if (!source) return FOCAL_EUNSUPPORTED;
    focal_status status = focal_template_new(ctx, source, bytes, &tpl);
    focal_message messages[2] = {{"system", system}, {"user", text}};
    struct tm now;
    const focal_chat chat = {.messages = system ? messages : messages + 1,
                             .message_count = system ? 2 : 1,
                             .add_generation_prompt = true,
                             .now = cli_local_time(&now)};
    if (status == FOCAL_OK) status = focal_chat_encode(model, tpl, &chat, ids);
    focal_template_free(tpl);
    return status;
}

static void print_json(const writing *w, const focal_generate_result *r, uint64_t seed)
{
    printf("{\"text\": ");
    json_print_text(w->text ? w->text : "", w->bytes);
    printf(", \"ids\": [");
    for (int64_t n = 0; n < w->id_count; n++) printf("%s%d", n ? ", " : "", w->ids[n]);
    printf("], \"stop\": \"%s\", \"prompt_tokens\": %lld, \"tokens\": %lld, ",
           focal_stop_name(r->stop), (long long)r->prompt_tokens, (long long)r->tokens);
    printf("\"prompt_seconds\": %.6g, \"seconds\": %.6g, \"seed\": %llu}\n", r->prompt_seconds,
           r->seconds, (unsigned long long)seed);
}

static volatile sig_atomic_t stop_writing; /* Ctrl-C: what is there by then is shown */

static void on_interrupt(int number)
{
    (void)number;
    stop_writing = 1;
}

/* The first Ctrl-C ends the text, the second one the program. */
static void catch_interrupt(void)
{
    struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESETHAND};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(SIGINT, &action, NULL);
}

static int write_on(focal_ctx *ctx, focal_model *model, generate_options *o, const focal_ids *ids,
                    const focal_sampling *sampling)
{
    const focal_cache_options cache_options = cli_cache_options(&o->model);
    focal_cache *cache = NULL;
    focal_generate_result result = {0};
    writing w = {.is_quiet = o->is_json,
                 .keeps = o->is_json,
                 .stop = &stop_writing,
                 .started = writing_seconds()};
    const focal_generate_args args = {
        .prompt = ids->ids,
        .prompt_count = ids->count,
        .max_tokens = o->count,
        .context = (int32_t)o->context,
        .chunk = (int32_t)o->batch,
        .ignores_end = o->ignores_end,
        .shows_special = o->has_special,
        .stops = o->stops.items,
        .stop_count = o->stops.count,
        .sampling = *sampling,
        .on_prompt = writing_on_prompt,
        .on_token = writing_on_token,
        .user = &w,
    };
    focal_status status = focal_cache_new(model, &cache_options, &cache);
    catch_interrupt();
    if (status == FOCAL_OK) status = focal_generate(model, cache, &args, &result);
    focal_cache_free(cache);
    int code = CLI_DONE;
    if (status != FOCAL_OK) {
        code = cli_fail_ctx(ctx, status);
    } else if (w.is_broken) {
        code = cli_output_failed();
    } else {
        if (o->is_json)
            print_json(&w, &result, sampling->seed);
        else
            putchar('\n');
        (void)fflush(stdout);
        writing_summary(&result);
        if (stop_writing) code = CLI_INTERRUPTED;
    }
    writing_free(&w);
    return code;
}

static int run_generate(focal_ctx *ctx, focal_model *model, generate_options *o,
                        const focal_sampling *sampling)
{
    const focal_tokenizer *tokenizer = focal_model_tokenizer(model);
    if (!tokenizer) return cli_fail("%s: there is no tokenizer beside the weights", o->model.name);
    if (o->is_chat && !focal_model_template(model, NULL))
        return cli_fail("%s: the model has no chat template; leave out --chat", o->model.name);
    size_t bytes = 0;
    char *text = prompt_text(o, &bytes);
    if (!text) return CLI_FAILED;
    focal_ids ids = {0};
    const unsigned flags =
        FOCAL_ENCODE_ADD_SPECIAL | (o->has_special ? FOCAL_ENCODE_PARSE_SPECIAL : 0U);
    const focal_status status =
        o->is_chat ? encode_chat(ctx, model, o->system, text, &ids)
                   : focal_tokenizer_encode(ctx, tokenizer, text, bytes, flags, &ids);
    if (status == FOCAL_OK) cli_warn_lost(tokenizer, text, bytes);
    free(text);
    int code = status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
    if (code == CLI_DONE && ids.count == 0)
        code =
            cli_wrong("generate: the prompt is empty, and this model's texts have no begin token "
                      "that could stand for it");
    if (code == CLI_DONE) code = write_on(ctx, model, o, &ids, sampling);
    focal_ids_free(ctx, &ids);
    return code;
}

int cli_generate(int argc, char **argv)
{
    generate_options o = {.count = -1, .sampling = sampling_defaults()};
    cli_option options[16 + ADAPTER_OPTIONS + SAMPLING_OPTIONS + LLAMA_OPTIONS] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"prompt", 'p', CLI_PROMPT, &o.prompt, "TEXT", "the text that the model continues", 0, 0,
         NULL, NULL},
        {"file", 'f', CLI_TEXT, &o.file, "FILE",
         "a text that comes before it; - for standard input", 0, 0, NULL, NULL},
        {"chat", 0, CLI_FLAG, &o.is_chat, NULL,
         "send it as a chat message, in the model's template", 0, 0, NULL, NULL},
        {"system", 0, CLI_TEXT, &o.system, "TEXT",
         "with --chat: instructions that the model reads first", 0, 0, NULL, NULL},
        {"predict", 'n', CLI_INT, &o.count, "N",
         "most tokens to write; -1: until the model ends [-1]", -1, 1 << 27, NULL, NULL},
        {"ctx-size", 'c', CLI_INT, &o.context, "N",
         "most tokens that are read, prompt and answer; 0: the model's [0]", 0, 1 << 27, NULL,
         NULL},
        {"batch-size", 'b', CLI_INT, &o.batch, "N", "prompt tokens a pass [1024]", 1, 1 << 20, NULL,
         NULL},
        {"stop", 'r', CLI_TEXTS, &o.stops, "TEXT",
         "ends the answer, without itself; may be repeated", 0, 0, NULL, NULL},
        {"ignore-eos", 0, CLI_FLAG, &o.ignores_end, NULL,
         "never end: the model's end tokens are not chosen", 0, 0, NULL, NULL},
        {"special", 0, CLI_FLAG, &o.has_special, NULL,
         "control tokens: read in the prompt, shown in the answer", 0, 0, NULL, NULL},
        cli_cache_option(&o.model),
        cli_load_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "one object: text, ids, why it stopped, times", 0,
         0, NULL, NULL},
    };
    sampling_options(&o.sampling, options + 16 + ADAPTER_OPTIONS);
    llama_options(&o.llama, options + 16 + ADAPTER_OPTIONS + SAMPLING_OPTIONS);
    const cli_rule rules[] = {{"system", .needs = "chat"}, {"special", .excludes = "chat"}};
    const cli_usage usage = {
        .command = "focal generate",
        .about =
            "Reads a prompt and continues it. The text goes to standard output as it is made, one\n"
            "line of figures to standard error. Options have llama.cpp's names; -ngl 0, -fa, and\n"
            "-ctk and -ctv of one type are understood.",
        .examples = "  focal generate -m smollm2 -p 'The capital of France is' -n 20 --temp 0\n"
                    "  focal generate -m smollm2 --chat -f report.txt -p 'Summarise this.'\n"
                    "  git log | focal generate -m smollm2 -n 100 -\n",
        .arguments = "[-]",
        .taken = &o.rest,
        .most = 1,
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (o.rest.count > 0 && strcmp(o.rest.items[0], "-") != 0)
        return cli_wrong("generate: unexpected argument '%s'; a prompt goes behind -p",
                         o.rest.items[0]);
    if (o.rest.count > 0 && o.file) return cli_wrong("generate: - and --file: one of them");
    if (!o.prompt && !o.file && o.rest.count == 0)
        return cli_wrong("generate: no prompt: give -p TEXT, -f FILE, or - for standard input");
    focal_sampling sampling;
    code = llama_apply("generate", &o.llama, &o.model);
    if (code < 0) code = sampling_make("generate", &o.sampling, &sampling);
    if (code >= 0) return code;
    focal_ctx *ctx = NULL;
    focal_model *model = NULL;
    code = cli_open_ctx(o.threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    code = cli_open_model(ctx, &o.model, &model);
    if (code == CLI_DONE) {
        sampling_suggested(&o.sampling, model, &sampling);
        cli_warn_context(model, o.context);
        cli_load_model(model, &o.model);
        code = run_generate(ctx, model, &o, &sampling);
    }
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}
