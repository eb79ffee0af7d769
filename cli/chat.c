/* focal chat: a conversation. The whole of it is written by the model's template each turn; what
 * the cache already holds of that is not read again. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "focal/generate.h"
#include "line_edit.h"
#include "llama_words.h"
#include "model_file.h"
#include "options.h"
#include "sampling.h"
#include "writing.h"

typedef struct chat_options {
    model_choice model;
    const char *system;
    int64_t count, context, batch, threads;
    cli_texts stops;
    sampling_choice sampling;
    llama_choice llama;
} chat_options;

typedef struct chat_state {
    const chat_options *options;
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    focal_template *tpl;
    focal_sampling sampling;
    focal_message *turns; /* contents are ours, roles constants */
    int32_t turn_count, turn_capacity;
    char *file; /* what /file put in front of the next message */
    int32_t
        *cached; /* (cached_count) ids whose keys and values the cache holds, perhaps one more */
    int64_t cached_count;
} chat_state;

static volatile int stop_answer;

static void on_interrupt(int number)
{
    (void)number;
    stop_answer = 1;
}

static bool add_turn(chat_state *s, const char *role, const char *content)
{
    if (s->turn_count == s->turn_capacity) {
        const int32_t capacity = s->turn_capacity ? 2 * s->turn_capacity : 16;
        focal_message *more = realloc(s->turns, (size_t)capacity * sizeof *more);
        if (!more) return false;
        s->turns = more;
        s->turn_capacity = capacity;
    }
    char *copy = strdup(content);
    if (!copy) return false;
    focal_message *turn = &s->turns[s->turn_count++];
    turn->role = role;
    turn->content = copy;
    return true;
}

static void drop_turns(chat_state *s, int32_t keep)
{
    while (s->turn_count > keep) {
        char *content; /* ours, whatever its type says */
        memcpy(&content, &s->turns[--s->turn_count].content, sizeof content);
        free(content);
    }
}

/* Cuts the cache to what the new conversation shares with it; at least one id is left to read. */
static focal_status keep_shared(chat_state *s, const focal_ids *ids, int32_t *shared)
{
    const int32_t held = focal_cache_length(s->cache, 0);
    int64_t n = 0;
    while (n < held && n < s->cached_count && n + 1 < ids->count && s->cached[n] == ids->ids[n])
        n++;
    *shared = (int32_t)n;
    return focal_cache_truncate(s->cache, 0, (int32_t)n);
}

/* Notes what the cache holds now: what was read, and what was written. */
static void remember(chat_state *s, const focal_ids *read, const writing *w)
{
    const int64_t count = read->count + w->id_count;
    free(s->cached);
    s->cached = malloc((size_t)(count + 1) * sizeof *s->cached);
    s->cached_count = s->cached ? count : 0; /* without memory all is read again */
    for (int64_t n = 0; n < s->cached_count; n++)
        s->cached[n] = n < read->count ? read->ids[n] : w->ids[n - read->count];
}

/* The model's answer to the turns so far; added to them unless it failed. */
static int answer(chat_state *s)
{
    const chat_options *o = s->options;
    focal_ids ids = {0};
    int32_t shared = 0;
    writing w = {.keeps = true, .stop = &stop_answer, .started = writing_seconds()};
    focal_generate_result result = {0};
    struct tm now;
    const focal_chat chat = {.messages = s->turns,
                             .message_count = s->turn_count,
                             .add_generation_prompt = true,
                             .now = cli_local_time(&now)};
    stop_answer = 0;
    focal_status status = focal_chat_encode(s->model, s->tpl, &chat, &ids);
    if (status == FOCAL_OK) status = keep_shared(s, &ids, &shared);
    const focal_generate_args args = {
        .prompt = ids.ids + shared,
        .prompt_count = ids.count - shared,
        .max_tokens = o->count,
        .context = (int32_t)o->context,
        .chunk = (int32_t)o->batch,
        .stops = o->stops.items,
        .stop_count = o->stops.count,
        .sampling = s->sampling,
        .on_prompt = writing_on_prompt,
        .on_token = writing_on_token,
        .user = &w,
    };
    if (status == FOCAL_OK) status = focal_generate(s->model, s->cache, &args, &result);
    cli_progress("%s", "");
    if (status == FOCAL_OK || w.bytes > 0) putchar('\n');
    (void)fflush(stdout);
    int code = CLI_DONE;
    if (status != FOCAL_OK) {
        code = cli_fail_ctx(s->ctx, status);
    } else if (w.is_broken) {
        code = cli_output_failed();
    } else {
        writing_summary(&result);
        if (!add_turn(s, "assistant", w.text ? w.text : "")) code = cli_fail("no memory");
        s->sampling.seed++; /* the next answer is another choice */
    }
    remember(s, &ids, &w);
    focal_ids_free(s->ctx, &ids);
    writing_free(&w);
    return code;
}

static const char *const help_text =
    "/help            this list\n"
    "/system TEXT     begin again, with TEXT as what the model is told first\n"
    "/file PATH       put a file's text in front of the next message\n"
    "/again           another answer to the last message\n"
    "/undo            forget the last message and its answer\n"
    "/reset           forget the conversation\n"
    "/exit            leave (or Ctrl-D)\n"
    "A line that ends in \\ goes on in the next. Ctrl-C stops an answer.\n";

static void forget(chat_state *s, const char *system)
{
    drop_turns(s, 0);
    free(s->file);
    s->file = NULL;
    if (system && !add_turn(s, "system", system)) (void)cli_fail("no memory");
}

/* The message, behind the text of a file when one was named. */
static int say(chat_state *s, const char *text)
{
    char *whole = NULL;
    if (s->file) {
        const size_t bytes = strlen(s->file) + strlen(text) + 3;
        whole = malloc(bytes);
        if (!whole) return cli_fail("no memory");
        (void)snprintf(whole, bytes, "%s\n\n%s", s->file, text);
        free(s->file);
        s->file = NULL;
    }
    const bool is_added = add_turn(s, "user", whole ? whole : text);
    free(whole);
    if (!is_added) return cli_fail("no memory");
    const char *said = s->turns[s->turn_count - 1].content;
    cli_warn_lost(focal_model_tokenizer(s->model), said, strlen(said));
    const int code = answer(s);
    if (code != CLI_DONE) drop_turns(s, s->turn_count - 1); /* as if it had not been said */
    return code;
}

static bool is_user(const chat_state *s, int32_t n)
{
    return n >= 0 && strcmp(s->turns[n].role, "user") == 0;
}

static bool is_command(const char *line, const char *name)
{
    const size_t length = strcspn(line, " ");
    return strlen(name) == length && strncmp(line, name, length) == 0;
}

/* A sentence about a command that could not be followed. */
static int complain(const char *sentence)
{
    (void)fputs(sentence, stderr);
    return CLI_FAILED;
}

static int undo(chat_state *s, int32_t least)
{
    if (s->turn_count <= least) return complain("There is nothing to undo.\n");
    while (s->turn_count > least && !is_user(s, s->turn_count - 1))
        drop_turns(s, s->turn_count - 1);
    if (is_user(s, s->turn_count - 1)) drop_turns(s, s->turn_count - 1);
    return CLI_DONE;
}

static int answer_again(chat_state *s)
{
    if (s->turn_count < 2 || !is_user(s, s->turn_count - 2))
        return complain("There is no answer to make again.\n");
    drop_turns(s, s->turn_count - 1);
    return answer(s);
}

static int take_file(chat_state *s, const char *path)
{
    size_t bytes = 0;
    if (!*path) return complain("/file needs the path of a file.\n");
    char *text = cli_read_text(path, CLI_PROMPT_BYTES, &bytes);
    if (!text) return CLI_FAILED;
    free(s->file);
    s->file = text;
    (void)fprintf(stderr, "%zu bytes in front of the next message\n", bytes);
    return CLI_DONE;
}

/* is_over: the conversation is to end. */
static int run_command(chat_state *s, const char *line, bool *is_over)
{
    const char *rest = line + strcspn(line, " ");
    rest += strspn(rest, " ");
    const bool has_system = s->turn_count > 0 && strcmp(s->turns[0].role, "system") == 0;
    const int32_t least = has_system ? 1 : 0;
    if (is_command(line, "/again")) return answer_again(s);
    if (is_command(line, "/file")) return take_file(s, rest);
    if (is_command(line, "/undo")) return undo(s, least);
    if (is_command(line, "/exit") || is_command(line, "/quit")) {
        *is_over = true;
    } else if (is_command(line, "/help")) {
        (void)fputs(help_text, stderr);
    } else if (is_command(line, "/reset")) {
        drop_turns(s, least);
    } else if (is_command(line, "/system")) {
        forget(s, *rest ? rest : NULL);
    } else {
        (void)fprintf(stderr, "There is no command '%.*s'; see /help.\n", (int)strcspn(line, " "),
                      line);
        return CLI_FAILED;
    }
    return CLI_DONE;
}

static int converse(chat_state *s)
{
    line_editor *editor = line_editor_new();
    if (!editor) return cli_fail("no memory");
    const bool is_terminal = isatty(STDIN_FILENO);
    if (is_terminal) (void)fputs("A message, or /help. Ctrl-D leaves.\n", stderr);
    int code = CLI_DONE;
    for (bool is_over = false; !is_over;) {
        const char *line;
        const line_result got = line_editor_read(editor, "> ", &line);
        if (got == LINE_INTERRUPTED) continue;
        if (got == LINE_FAILED && errno == EMSGSIZE)
            code = cli_fail("a message of more than %d MiB, which is the most that is read",
                            LINE_MOST_BYTES >> 20);
        else if (got == LINE_FAILED)
            code = cli_fail("reading failed: %s", strerror(errno));
        if (got != LINE_READ) break;
        if (line[strspn(line, " \t")] == '\0') continue;
        code = *line == '/' ? run_command(s, line, &is_over) : say(s, line);
        if (code != CLI_DONE && !is_terminal) break;
    }
    line_editor_free(editor);
    return is_terminal && code == CLI_FAILED ? CLI_DONE : code;
}

static int run_chat(focal_ctx *ctx, focal_model *model, const chat_options *o,
                    const focal_sampling *sampling)
{
    chat_state s = {.options = o, .ctx = ctx, .model = model, .sampling = *sampling};
    size_t bytes = 0;
    const char *source = focal_model_template(model, &bytes);
    if (!source || !focal_model_tokenizer(model))
        return cli_fail("%s: the model has no chat template; use focal generate", o->model.name);
    const focal_cache_options cache_options = cli_cache_options(&o->model);
    focal_status status = focal_template_new(ctx, source, bytes, &s.tpl);
    if (status == FOCAL_OK) status = focal_cache_new(model, &cache_options, &s.cache);
    int code = CLI_DONE;
    if (status != FOCAL_OK) {
        code = cli_fail_ctx(ctx, status);
    } else {
        (void)signal(SIGINT, on_interrupt);
        forget(&s, o->system);
        code = converse(&s);
    }
    forget(&s, NULL);
    free(s.turns);
    free(s.cached);
    focal_cache_free(s.cache);
    focal_template_free(s.tpl);
    return code;
}

int cli_chat(int argc, char **argv)
{
    chat_options o = {.count = -1, .sampling = sampling_defaults()};
    cli_option options[10 + ADAPTER_OPTIONS + SAMPLING_OPTIONS + LLAMA_OPTIONS] = {
        cli_model_option(&o.model),
        ADAPTER_ROWS(&o.model.adapter),
        {"system", 0, CLI_TEXT, &o.system, "TEXT", "instructions that the model reads first", 0, 0,
         NULL, NULL},
        {"predict", 'n', CLI_INT, &o.count, "N", "most tokens of an answer; -1: until it ends [-1]",
         -1, 1 << 27, NULL, NULL},
        {"ctx-size", 'c', CLI_INT, &o.context, "N",
         "most tokens of the conversation; 0: the model's [0]", 0, 1 << 27, NULL, NULL},
        {"batch-size", 'b', CLI_INT, &o.batch, "N", "message tokens a pass [1024]", 1, 1 << 20,
         NULL, NULL},
        {"stop", 'r', CLI_TEXTS, &o.stops, "TEXT",
         "ends an answer, without itself; may be repeated", 0, 0, NULL, NULL},
        cli_cache_option(&o.model),
        cli_load_option(&o.model),
        cli_precision_option(&o.model),
        cli_threads_option(&o.threads),
    };
    sampling_options(&o.sampling, options + 10 + ADAPTER_OPTIONS);
    llama_options(&o.llama, options + 10 + ADAPTER_OPTIONS + SAMPLING_OPTIONS);
    const cli_usage usage = {
        .command = "focal chat",
        .about = "A conversation with a model. Messages are lines; those that begin with / are\n"
                 "commands (/help). Answers go to standard output, all else to standard error.",
        .examples = "  focal chat -m smollm2\n"
                    "  focal chat -m smollm2 --system 'Answer in one sentence.' --temp 0\n",
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    focal_sampling sampling;
    code = llama_apply("chat", &o.llama, &o.model);
    if (code < 0) code = sampling_make("chat", &o.sampling, &sampling);
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
        code = run_chat(ctx, model, &o, &sampling);
    }
    focal_model_close(model);
    focal_ctx_close(ctx);
    return code;
}
