/* focal fit: groups, or LoRA beside which they are measured, for a model that stays as it is. It is
 * a run of training like any other, whose settings the options here name, on texts that the model's
 * own tokenizer makes into tokens. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fit_method.h"
#include "focal/corpus.h"
#include "focal/model.h"
#include "model_file.h"
#include "stop.h"
#include "text_folder.h"
#include "tokenize_files.h"
#include "train.h"

enum { SENTENCE_BYTES = 256 };

/* What the command line says. */
typedef struct fit_request {
    train_request train;
    const char *model;
    const char *run_file;           /* NULL: none */
    char settled[TRAIN_PATH_BYTES]; /* the run file of a folder that goes on */
    bool is_paper;
    bool reads_special;    /* control tokens in the texts */
    fit_settings settings; /* the method's is the first */
} fit_request;

/* The second paper's form, literally. What it says nothing of is as the defaults are. */
static const char *const paper[] = {"groups.count=4",
                                    "groups.top=2",
                                    "groups.top_fit=2",
                                    "groups.mode=shared",
                                    "groups.scope=layer",
                                    "groups.gate=paper",
                                    "groups.balance=sinkhorn",
                                    "groups.router=raw",
                                    "groups.temperatures=false",
                                    "groups.init=random",
                                    "groups.sinks=0",
                                    "objective=lm",
                                    "data.repeat=0"};

/* ---- Settings ---- */

/* What is set and would change the model, or do nothing. */
static int check_use(const fit_request *f, const focal_run *run)
{
    static const char shards[] = "data.shards";
    const train_request *r = &f->train;
    char learn[FOCAL_RUN_VALUE] = "";
    if (focal_run_get(run, "learn", learn) != FOCAL_OK || strcmp(learn, "groups") != 0)
        return cli_wrong("fit: learn is %s: the model of a fit stays as it is; focal train "
                         "changes it",
                         learn);
    for (int32_t n = 0; n < r->sets.count && r->texts.count > 0; n++)
        if (strncmp(r->sets.items[n], shards, sizeof shards - 1) == 0)
            return cli_wrong("fit: --set %s does nothing beside texts", r->sets.items[n]);
    int code = fit_method_check_all(run, &f->settings, &r->sets);
    if (code == CLI_DONE && f->is_paper)
        code = fit_method_check(run, "--paper", "groups.router"); /* which it is of */
    if (code == CLI_DONE && r->minutes > 0.0)
        code = fit_method_check(run, "--minutes", "schedule.minutes");
    if (code == CLI_DONE && f->reads_special)
        code = fit_method_check(run, "--special", "data.shards"); /* a text is read */
    return code;
}

/* Some controls look at no text; a run file may name shards. */
static int check_texts(const fit_request *f, const focal_run *run)
{
    char method[FOCAL_RUN_VALUE] = "";
    (void)focal_run_get(run, "groups.method", method);
    const bool is_blind = !focal_run_uses(run, "data.shards");
    if (is_blind && f->train.texts.count > 0)
        return cli_wrong("fit: --method %s looks at no text: leave them out", method);
    if (is_blind || f->train.texts.count > 0 || f->run_file) return CLI_DONE;
    return cli_wrong("fit: no text is named that groups are fitted on; see focal fit --help");
}

/* All settings but the shards: the run file's, then the paper's, then options, then --set. */
static int make_settings(focal_ctx *ctx, const fit_request *f, focal_run *run)
{
    focal_status status = focal_run_set(run, "learn=groups");
    if (status == FOCAL_OK && f->run_file) status = focal_run_read(run, f->run_file);
    for (size_t n = 0; n < CLI_COUNT(paper) && f->is_paper && status == FOCAL_OK; n++)
        status = focal_run_set(run, paper[n]);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    int code = fit_settings_apply(&f->settings, ctx, run);
    if (code == CLI_DONE && f->model) code = train_set_from(ctx, run, f->model);
    if (code == CLI_DONE) code = train_set_minutes(ctx, run, f->train.minutes);
    if (code == CLI_DONE) code = train_set_all(ctx, run, &f->train);
    if (code == CLI_DONE) code = check_use(f, run);
    if (code == CLI_DONE) code = check_texts(f, run);
    if (code != CLI_DONE) return code;
    status = focal_run_resolve(run);
    return status == FOCAL_OK ? CLI_DONE : fit_settings_fail(&f->settings, focal_ctx_error(ctx));
}

/* ---- Texts ---- */

static int open_source(focal_ctx *ctx, const focal_run *run, focal_model **model)
{
    char path[FOCAL_RUN_VALUE];
    train_get_text(run, "start.from", path);
    const focal_status status = focal_model_open(ctx, path, NULL, model);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

/* What the model shows to be wrong, before texts are read for long. */
static int check_model(focal_ctx *ctx, const fit_request *f, focal_run *run, focal_model *model)
{
    if (!focal_model_tokenizer(model))
        return cli_fail("%s: has no tokenizer, so it reads no texts",
                        focal_model_describe(model).path);
    if (focal_run_check_model(run, model) == FOCAL_OK) return CLI_DONE;
    return fit_settings_fail(&f->settings, focal_ctx_error(ctx));
}

static int make_shards(focal_ctx *ctx, const fit_request *f, const focal_model *model,
                       const char *shards)
{
    const train_request *r = &f->train;
    if (text_has(r->out, "shards")) return CLI_DONE;
    text_sweep(r->out);
    const files_options files = {
        .out = shards, .reads_special = f->reads_special, .is_quiet = r->is_quiet};
    return files_tokenize(ctx, focal_model_tokenizer(model), &r->texts, &files);
}

/* The texts as shards in the folder, whose record has what their ids depend on. */
static int tokenize(focal_ctx *ctx, const fit_request *f, const focal_model *model,
                    const char *shards)
{
    char asked[SENTENCE_BYTES];
    text_folder folder;
    (void)snprintf(asked, sizeof asked, "model %s, control tokens %s",
                   focal_model_fingerprint(model),
                   f->reads_special ? "as such (--special)" : "as text");
    int code = text_folder_open(&f->train, asked, &folder);
    if (code != CLI_DONE) return code;
    code = make_shards(ctx, f, model, shards);
    text_folder_close(&folder, code);
    return code;
}

static int add_texts(focal_ctx *ctx, const fit_request *f, focal_run *run)
{
    char shards[TEXT_PATH_BYTES];
    focal_model *model = NULL;
    int64_t bytes = 0;
    int code = text_check(&f->train.texts, &bytes);
    if (code == CLI_DONE) code = text_path(f->train.out, "shards", shards);
    if (code == CLI_DONE) code = open_source(ctx, run, &model);
    if (code == CLI_DONE) code = check_model(ctx, f, run, model);
    if (code == CLI_DONE) code = tokenize(ctx, f, model, shards);
    focal_model_close(model);
    return code == CLI_DONE ? train_set_text(ctx, run, "data.shards", shards) : code;
}

static int fit(const fit_request *f)
{
    focal_ctx *ctx = NULL;
    focal_run *run = NULL;
    int code = cli_open_ctx(f->train.threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    const focal_status status = focal_run_new(ctx, &run);
    /* What contradicts is said before any work is done, and what does not go together with the
     * model before texts become tokens. A text that is too short is known by its tokens alone. */
    code = status == FOCAL_OK ? make_settings(ctx, f, run) : cli_fail_ctx(ctx, status);
    if (code == CLI_DONE && f->train.texts.count > 0) code = add_texts(ctx, f, run);
    if (code == CLI_DONE && stop_is_asked()) code = stop_code();
    if (code == CLI_DONE) code = train_run(ctx, run, &f->train);
    focal_run_free(run);
    focal_ctx_close(ctx);
    return code;
}

/* ---- The command ---- */

/* Takes a run file out of the arguments; the others are texts. */
static int find_run_file(fit_request *f)
{
    cli_texts *texts = &f->train.texts;
    int32_t count = 0;
    for (int32_t n = 0; n < texts->count; n++) {
        if (!train_is_run_file(texts->items[n])) {
            texts->items[count++] = texts->items[n];
            continue;
        }
        if (f->run_file)
            return cli_wrong("fit: two run files, %s and %s", f->run_file, texts->items[n]);
        f->run_file = texts->items[n];
    }
    texts->count = count;
    return CLI_DONE;
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static int start(fit_request *f)
{
    train_request *r = &f->train;
    if (r->texts.count == 1 && train_find_run_file(r->texts.items[0], f->settled)) {
        if (r->out || f->model)
            return cli_wrong("fit: %s is the folder of a run, which goes on as it began: no -o or "
                             "-m",
                             r->texts.items[0]);
        if (f->reads_special) return cli_wrong("fit: --special does nothing without texts");
        /* Its settings are a run file: options over them are compared with what it began with. */
        r->out = r->texts.items[0];
        r->texts.count = 0;
        f->run_file = f->settled;
        return fit(f);
    }
    if (r->texts.count == 1 && !r->out && text_folder_is_begun(r->texts.items[0]))
        return text_folder_unready(r->verb, r->texts.items[0]);
    const int code = find_run_file(f);
    if (code != CLI_DONE) return code;
    if (r->texts.count == 0 && !f->run_file && !f->model)
        return cli_wrong("fit: name texts, a run file, or the folder of a run; see focal fit "
                         "--help");
    if (!f->model && !f->run_file && !r->out && r->texts.count == 1 &&
        access(r->texts.items[0], F_OK) != 0)
        return cli_fail("%s: %s", r->texts.items[0], strerror(errno));
    if (!f->model && !f->run_file && !r->out && r->texts.count == 1 && is_folder(r->texts.items[0]))
        return cli_fail("%s: has no run.conf of a fit: there is nothing to go on with",
                        r->texts.items[0]);
    if (!f->model && !f->run_file)
        return cli_wrong("fit: -m MODEL says what groups are fitted to; see focal fit --help");
    if (!r->out) return cli_wrong("fit: -o DIR says where the adapter goes; see focal fit --help");
    for (int32_t n = 0; n < r->texts.count; n++)
        if (strcmp(r->texts.items[n], "-") == 0)
            return cli_wrong("fit: texts are read again when a fit goes on, so standard input "
                             "cannot be one");
    if (r->texts.count == 0 && f->reads_special)
        return cli_wrong("fit: --special does nothing without texts");
    return fit(f);
}

#define ABOUT                                                                                      \
    "Fits groups to a model, whose weights stay as they are: routers that say which earlier\n"     \
    "tokens a token looks at, and a temperature for each head. The folder gets the adapter,\n"     \
    "which --adapter takes elsewhere, and settings, logs and checkpoints beside it. A fit that\n"  \
    "was stopped or killed goes on when the same command, or focal fit DIR, is given again.\n"     \
    "Ctrl-C saves and ends, one more some seconds later ends at once. All keys of run files\n"     \
    "can be set: focal train --keys lists them."

int cli_fit(int argc, char **argv)
{
    static fit_request f; /* its lists are long */
    f = (fit_request){.train = {.verb = "fit"}};
    train_request *r = &f.train;
    fit_settings *settings = &f.settings;
    const cli_option options[] = {
        {"model", 'm', CLI_TEXT, &f.model, "MODEL", "a path, or the name of a pulled model", 0, 0,
         NULL, NULL},
        {"output", 'o', CLI_TEXT, &r->out, "DIR", "folder of the adapter", 0, 0, NULL, NULL},
        fit_choice_row(settings, "groups.method", "method", FIT_METHODS,
                       "what is fitted, or a control that learns nothing [focus]"),
        fit_int_row(settings, "groups.count", "groups", "K", "groups of a router [16]", 1, 64),
        fit_int_row(settings, "groups.top_fit", "fit-top", "K",
                    "groups a token looks into while they learn [2]", 1, 64),
        fit_int_row(
            settings, "groups.top", "top", "K",
            "and when the model runs [4]; 0, of --method temperature: window and sinks alone "
            "are seen",
            0, 64),
        fit_int_row(settings, "groups.window", "window", "W",
                    "keys before its own that a token sees [128]", 0, 1 << 27),
        fit_int_row(settings, "groups.sinks", "sinks", "N", "first keys that all tokens see [4]", 0,
                    1 << 27),
        fit_choice_row(settings, "groups.scope", "scope", "kv|layer",
                       "a router for each key head or for a layer [kv]"),
        fit_choice_row(settings, "groups.mode", "mode", "directed|shared",
                       "keys in one group, queries look into several; or one membership for both "
                       "[directed]"),
        fit_choice_row(settings, "groups.gate", "gate", "straight|paper|log",
                       "how the gradient passes the choice of groups [straight]"),
        fit_choice_row(settings, "groups.balance", "balance", "bias|sign|sinkhorn|none",
                       "what keeps groups of one size; sinkhorn is not causal [bias]"),
        fit_choice_row(settings, "groups.init", "init", "heads|random",
                       "what routers begin with [heads]"),
        fit_text_row(settings, "groups.layers", "layers", "LIST",
                     "that get a router, as in 0,2,5-7 [all]"),
        fit_choice_row(
            settings, "objective", "objective", "lm|kl",
            "loss on the text, or distance from the model without groups [kl; lm where no key is "
            "hidden]"),
        fit_int_row(settings, "schedule.steps", "steps", "N", "steps [250]", 1, 1e9),
        fit_int_row(settings, "data.length", "length", "N",
                    "tokens of a sequence [2048, or what the model was made for if that is less]",
                    2, 1 << 20),
        fit_int_row(settings, "data.batch", "batch", "N", "sequences of a step [4]", 1, 1 << 20),
        fit_number_row(settings, "data.repeat", "repeat",
                       "share of them that repeat a passage [0.3]", 1),
        fit_number_row(settings, "optimiser.lr", "lr",
                       "highest learning rate [0.002, of lora 0.0002, of scale 0.02]", 10),
        fit_int_row(settings, "lora.rank", "rank", "R", "of --method lora: its rank [8]", 1, 4096),
        fit_choice_row(settings, "lora.targets", "targets", "qv|all",
                       "and what it is added to: queries and values, or all projections [qv]"),
        {"special", 0, CLI_FLAG, &f.reads_special, NULL,
         "control tokens in the texts are read as such, as in dialogues", 0, 0, NULL, NULL},
        {"minutes", 0, CLI_NUMBER, &r->minutes, "X",
         "time after which it ends; without --steps the only limit", 0.001, 1e6, NULL, NULL},
        {"paper", 0, CLI_FLAG, &f.is_paper, NULL,
         "the second paper's form: 4 shared groups a layer, Sinkhorn, sigmoid, random start, no "
         "repeats, loss on the text; not causal",
         0, 0, NULL, NULL},
        {"set", 0, CLI_TEXTS, &r->sets, "KEY=VALUE", "any key of run files", 0, 0, NULL, NULL},
        {"quiet", 'q', CLI_FLAG, &r->is_quiet, NULL, "only what goes wrong", 0, 0, NULL, NULL},
        {"json", 0, CLI_FLAG, &r->is_json, NULL, "summary.json on standard output", 0, 0, NULL,
         NULL},
        cli_threads_option(&r->threads),
    };
    const cli_usage usage = {
        .command = "focal fit",
        .about = ABOUT,
        .examples = "  focal fit -m smollm2 books/*.txt -o adapter\n"
                    "  focal fit adapter\n"
                    "  focal fit -m smollm2 books/*.txt -o wide --groups 32 --top 8 --minutes 60\n"
                    "  focal fit -m smollm2 -o window --method none\n"
                    "  focal fit -m smollm2 books/*.txt -o near --method temperature --top 0\n"
                    "  focal fit -m smollm2 books/*.txt -o lora --method lora --rank 16\n"
                    "  focal fit -m smollm2 books/*.txt -o scale --method scale\n"
                    "  focal fit run.conf -m smollm2 books/*.txt -o adapter\n"
                    "  focal generate -m smollm2 --adapter adapter -p 'Once upon a time'\n",
        .arguments = "[RUN.conf] TEXT... | DIR",
        .taken = &r->texts,
        .most = CLI_MAX_TEXTS,
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    return start(&f);
}
