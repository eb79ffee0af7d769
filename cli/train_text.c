/* focal train TEXT...: from texts to a model in one command. Each stage leaves its result in the
 * folder (tokenizer.json, shards, run.conf, checkpoints) and is passed over where that is there, so
 * the same command goes on wherever it was stopped. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "focal/corpus.h"
#include "measure.h"
#include "stop.h"
#include "text_folder.h"
#include "text_plan.h"
#include "tokenize_files.h"

enum { ASKED_BYTES = 64 };

static const double default_minutes = 20.0;

/* Training gets at least this part of the minutes, whatever the stages before it took. */
static const double least_share = 0.2;

typedef struct work {
    focal_ctx *ctx;
    const train_request *request;
    int64_t text_bytes;
    double began; /* seconds of the clock */
    char tokenizer[TEXT_PATH_BYTES], shards[TEXT_PATH_BYTES], run_file[TEXT_PATH_BYTES];
} work;

static double minutes_left(const work *w)
{
    const double minutes = w->request->minutes, spent = (measure_now() - w->began) / 60.0;
    return minutes - spent > least_share * minutes ? minutes - spent : least_share * minutes;
}

static int name_parts(work *w)
{
    const char *out = w->request->out;
    int code = text_path(out, "tokenizer.json", w->tokenizer);
    if (code == CLI_DONE) code = text_path(out, "shards", w->shards);
    if (code == CLI_DONE) code = text_path(out, "run.conf", w->run_file);
    return code;
}

static int make_tokenizer(const work *w)
{
    const train_request *r = w->request;
    focal_plan plan;
    if (text_has(r->out, "tokenizer.json")) return CLI_DONE;
    const focal_plan_input input = {
        .text_bytes = w->text_bytes, .vocab = r->vocab, .minutes = r->minutes};
    const int code = text_plan_first(w->ctx, &input, &plan);
    if (code != CLI_DONE) return code;
    const files_options files = {
        .out = w->tokenizer, .vocab = plan.vocab, .trains = true, .is_quiet = true};
    if (!r->is_quiet)
        (void)fprintf(stderr,
                      "learning %d tokens (%d bytes, and the most frequent pieces of words)\n",
                      plan.vocab, 256);
    return files_train(w->ctx, &r->texts, &files);
}

static int make_shards(const work *w)
{
    const train_request *r = w->request;
    focal_tokenizer *tokenizer = NULL;
    if (text_has(r->out, "shards")) return CLI_DONE;
    text_sweep(r->out);
    const focal_status status = focal_tokenizer_open(w->ctx, w->tokenizer, &tokenizer);
    if (status != FOCAL_OK) return cli_fail_ctx(w->ctx, status);
    const files_options files = {.out = w->shards, .is_quiet = true};
    const int code = files_tokenize(w->ctx, tokenizer, &r->texts, &files);
    focal_tokenizer_free(tokenizer);
    return code;
}

/* What the run is set to: as it began, or as the text and the time that is left say. */
static int make_settings(const work *w, focal_run *run)
{
    const train_request *r = w->request;
    const double minutes = minutes_left(w);
    const bool is_new = !text_has(r->out, "run.conf");
    focal_plan plan;
    focal_status status = is_new ? FOCAL_OK : focal_run_read(run, w->run_file);
    if (is_new) {
        const int code = text_plan_run(w->ctx, r, w->shards, minutes, &plan, run);
        if (code != CLI_DONE) return code;
    }
    if (status != FOCAL_OK) return cli_fail_ctx(w->ctx, status);
    const int code = train_set_all(w->ctx, run, r);
    if (code != CLI_DONE) return code;
    status = focal_run_resolve(run);
    if (status != FOCAL_OK) return cli_fail_ctx(w->ctx, status);
    if (is_new && !r->is_quiet) text_plan_explain(r, &plan, minutes, run);
    return CLI_DONE;
}

/* All that comes before the run, in a folder that is ours alone. */
static int prepare(const work *w, focal_run *run)
{
    const train_request *r = w->request;
    char asked[ASKED_BYTES];
    text_folder folder;
    (void)snprintf(asked, sizeof asked, "minutes %.9g, vocab %d", r->minutes, (int)r->vocab);
    int code = text_folder_open(r, asked, &folder);
    if (code != CLI_DONE) return code;
    code = make_tokenizer(w);
    if (code == CLI_DONE) code = make_shards(w);
    if (code == CLI_DONE) code = make_settings(w, run);
    text_folder_close(&folder, code);
    return code;
}

static int train_on(const work *w)
{
    focal_run *run = NULL;
    const focal_status status = focal_run_new(w->ctx, &run);
    int code = status == FOCAL_OK ? prepare(w, run) : cli_fail_ctx(w->ctx, status);
    if (code == CLI_DONE && stop_is_asked()) code = stop_code();
    if (code == CLI_DONE)
        code = train_run(w->ctx, run, w->request);
    else if (code == stop_code() && !w->request->is_quiet)
        (void)fprintf(stderr, "stopped before the first step; the same command goes on\n");
    focal_run_free(run);
    return code;
}

/* A wrong --set is said before any work is done. */
static int check_sets(const work *w)
{
    focal_run *run = NULL;
    const focal_status status = focal_run_new(w->ctx, &run);
    const int code =
        status == FOCAL_OK ? train_set_all(w->ctx, run, w->request) : cli_fail_ctx(w->ctx, status);
    focal_run_free(run);
    return code;
}

int train_from_texts(const train_request *request)
{
    train_request asked = *request;
    work w = {.request = &asked, .began = measure_now()};
    asked.is_timed = asked.minutes > 0.0;
    if (!asked.is_timed) asked.minutes = default_minutes;
    int code = text_check(&asked.texts, &w.text_bytes);
    if (code == CLI_DONE) code = name_parts(&w);
    if (code == CLI_DONE) code = cli_open_ctx(asked.threads, NULL, &w.ctx);
    if (code == CLI_DONE) code = check_sets(&w);
    /* Before there is a folder: it may be too little, and then nothing should stay. */
    if (code == CLI_DONE) code = text_plan_check(w.ctx, w.text_bytes);
    if (code == CLI_DONE) code = train_on(&w);
    focal_ctx_close(w.ctx);
    return code;
}
