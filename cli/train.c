/* focal train: what its arguments are, a run file, the folder of a run, or texts. */
#include "train.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "model_file.h"
#include "text_folder.h"

#define RUN_FILE_END ".conf"

bool train_is_run_file(const char *path)
{
    const size_t length = strlen(path), end = strlen(RUN_FILE_END);
    return length > end && strcmp(path + length - end, RUN_FILE_END) == 0;
}

bool train_find_run_file(const char *folder, char path[TRAIN_PATH_BYTES])
{
    struct stat info;
    return snprintf(path, TRAIN_PATH_BYTES, "%s/run.conf", folder) < TRAIN_PATH_BYTES &&
           stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static int print_keys(void)
{
    char help[FOCAL_RUN_VALUE];
    for (int32_t n = 0; n < focal_run_key_count(); n++) {
        focal_run_key_help(n, help);
        printf("%s", help);
    }
    return CLI_DONE;
}

int train_set_text(focal_ctx *ctx, focal_run *run, const char *key, const char *text)
{
    char assignment[TRAIN_ASSIGNMENT_BYTES];
    size_t used = (size_t)snprintf(assignment, sizeof assignment, "%s=\"", key);
    for (const char *at = text; *at; at++) {
        if (used + 4 > sizeof assignment)
            return cli_fail("'%s' is '%.64s...', %zu bytes; no setting takes more than %d", key,
                            text, strlen(text), FOCAL_RUN_VALUE);
        if (*at == '"' || *at == '\\') assignment[used++] = '\\';
        assignment[used++] = *at;
    }
    assignment[used++] = '"';
    assignment[used] = '\0';
    const focal_status status = focal_run_set(run, assignment);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

void train_get_text(const focal_run *run, const char *key, char out[FOCAL_RUN_VALUE])
{
    size_t used = 0;
    const size_t bytes = focal_run_get(run, key, out) == FOCAL_OK ? strlen(out) : 0;
    for (size_t n = 1; n + 1 < bytes; n++) {
        const bool is_escaped = out[n] == '\\';
        char c = out[is_escaped ? ++n : n];
        if (is_escaped && c == 'n') c = '\n';
        if (is_escaped && c == 't') c = '\t';
        out[used++] = c;
    }
    out[used] = '\0';
}

int train_set_from(focal_ctx *ctx, focal_run *run, const char *name)
{
    char path[CLI_PATH_BYTES];
    const int code = cli_model_path(name, path, sizeof path);
    return code == CLI_DONE ? train_set_text(ctx, run, "start.from", path) : code;
}

int train_set_minutes(focal_ctx *ctx, focal_run *run, double minutes)
{
    char assignment[64];
    if (minutes <= 0.0) return CLI_DONE;
    (void)snprintf(assignment, sizeof assignment, "schedule.minutes=%.9g", minutes);
    const focal_status status = focal_run_set(run, assignment);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

int train_set_all(focal_ctx *ctx, focal_run *run, const train_request *request)
{
    for (int32_t n = 0; n < request->sets.count; n++)
        if (focal_run_set(run, request->sets.items[n]) != FOCAL_OK)
            return cli_wrong("%s", focal_ctx_error(ctx));
    return CLI_DONE;
}

static int read_settings(focal_ctx *ctx, focal_run *run, const char *path, const char *from,
                         const train_request *request)
{
    focal_status status = focal_run_read(run, path);
    if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    int code = from ? train_set_from(ctx, run, from) : CLI_DONE;
    if (code == CLI_DONE) code = train_set_minutes(ctx, run, request->minutes);
    if (code == CLI_DONE) code = train_set_all(ctx, run, request);
    if (code != CLI_DONE) return code;
    status = focal_run_resolve(run);
    return status == FOCAL_OK ? CLI_DONE : cli_fail_ctx(ctx, status);
}

static int train_from_file(const char *path, const char *from, const train_request *request)
{
    focal_ctx *ctx = NULL;
    focal_run *run = NULL;
    int code = cli_open_ctx(request->threads, NULL, &ctx);
    if (code != CLI_DONE) return code;
    const focal_status status = focal_run_new(ctx, &run);
    code = status == FOCAL_OK ? read_settings(ctx, run, path, from, request)
                              : cli_fail_ctx(ctx, status);
    if (code == CLI_DONE) code = train_run(ctx, run, request);
    focal_run_free(run);
    focal_ctx_close(ctx);
    return code;
}

/* Run files have a name of their own, so that one among texts is a mistake. */
static int check_run_files(const cli_texts *texts)
{
    const char *found = NULL;
    for (int32_t n = 0; n < texts->count && texts->count > 1; n++) {
        if (!train_is_run_file(texts->items[n])) continue;
        if (found)
            return cli_wrong("train: one run file at a time, not %s and %s", found,
                             texts->items[n]);
        found = texts->items[n];
    }
    if (!found) return CLI_DONE;
    return cli_wrong("train: %s is a run file, which names shards: no texts beside it", found);
}

static int start(train_request *request, const char *from)
{
    const int code = check_run_files(&request->texts);
    if (code != CLI_DONE) return code;
    const char *first = request->texts.items[0];
    char path[TRAIN_PATH_BYTES];
    const bool is_one = request->texts.count == 1;
    if (is_one && train_find_run_file(first, path)) {
        if (request->out || from || request->vocab > 0)
            return cli_wrong("train: %s is the folder of a run, which goes on as it began: no -o, "
                             "--from or --vocab",
                             first);
        request->out = first;
        return train_from_file(path, NULL, request);
    }
    if (is_one && !request->out && text_folder_is_begun(first))
        return text_folder_unready(request->verb, first);
    if (!request->out)
        return cli_wrong("train: -o DIR says where the run goes; see focal train --help");
    if (is_one && train_is_run_file(first)) {
        if (request->vocab > 0)
            return cli_wrong("train: --vocab is for texts: a run file names shards");
        return train_from_file(first, from, request);
    }
    if (from) return cli_wrong("train: --from needs a run file, whose shards the model can read");
    return train_from_texts(request);
}

#define ABOUT                                                                                      \
    "Trains a model as a run file says, on the shards that focal tokenize wrote; or on texts "     \
    "alone,\n"                                                                                     \
    "which picks a model that they and the minutes can fill. The folder gets\n"                    \
    "settings, logs, checkpoints and at the end the model. A run that was stopped or killed "      \
    "goes\n"                                                                                       \
    "on when the same command, or focal train DIR, is given again. Ctrl-C saves and ends,\n"       \
    "one more some seconds later ends at once."

int cli_train(int argc, char **argv)
{
    static train_request request; /* its lists are long */
    const char *from = NULL;
    int64_t vocab = 0;
    bool shows_keys = false;
    const cli_option options[] = {
        {"output", 'o', CLI_TEXT, &request.out, "DIR", "folder of the run", 0, 0, NULL, NULL},
        {"set", 0, CLI_TEXTS, &request.sets, "KEY=VALUE", "over what the run file says", 0, 0, NULL,
         NULL},
        {"from", 0, CLI_TEXT, &from, "MODEL", "continue this model (start.from)", 0, 0, NULL, NULL},
        {"minutes", 0, CLI_NUMBER, &request.minutes, "X",
         "time of the run (schedule.minutes); for texts 20", 0.001, 1e6, NULL, NULL},
        {"vocab", 0, CLI_INT, &vocab, "N", "of texts: tokens of the tokenizer", 257, 1 << 20, NULL,
         NULL},
        {"keys", 0, CLI_FLAG, &shows_keys, NULL, "list the keys of run files", 0, 0, NULL, NULL},
        {"quiet", 'q', CLI_FLAG, &request.is_quiet, NULL, "only what goes wrong", 0, 0, NULL, NULL},
        {"json", 0, CLI_FLAG, &request.is_json, NULL, "summary.json on standard output", 0, 0, NULL,
         NULL},
        cli_threads_option(&request.threads),
    };
    const cli_usage usage = {
        .command = "focal train",
        .about = ABOUT,
        .examples = "  focal train book.txt -o out --minutes 20\n"
                    "  focal tokenize --train --vocab 8192 books/*.txt -o tokenizer.json\n"
                    "  focal tokenize -m tokenizer.json books/*.txt -o shards\n"
                    "  focal train run.conf -o out --set data.shards=shards --set model.layers=4\n"
                    "  focal train out\n"
                    "  focal train run.conf -o adapted --from smollm2 --set "
                    "temperature.value=0.7\n"
                    "  focal train --keys\n",
        .arguments = "(RUN.conf | DIR | TEXT...)",
        .taken = &request.texts,
        .most = CLI_MAX_TEXTS,
        .options = options,
        .option_count = CLI_COUNT(options),
    };
    request = (train_request){.verb = "train"};
    const int code = cli_parse(&usage, argc, argv);
    if (code >= 0) return code;
    if (shows_keys) return print_keys();
    if (request.texts.count == 0)
        return cli_wrong(
            "train: texts, a run file, or the folder of a run; see focal train --help");
    request.vocab = (int32_t)vocab;
    return start(&request, from);
}
