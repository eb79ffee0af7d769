/* focal tokenize -o: what is done is shown on a terminal, and told in one line at the end. */
#include "tokenize_files.h"

#include <stdio.h>

#include "cli.h"
#include "output.h"
#include "stop.h"
#include "writing.h"

/* GGUF's names: dbrx splits by Llama 3's pattern and nothing else. */
static const char *const split_names[] = {"qwen2", "gpt-2", "dbrx"};

/* When it began, and when the line was last shown. */
typedef struct clock_line {
    double started, shown;
} clock_line;

static bool is_due(clock_line *line)
{
    const double now = writing_seconds();
    if (now - line->shown < 0.1) return false;
    line->shown = now;
    return true;
}

static bool on_read(void *user, const focal_corpus_progress *p)
{
    clock_line *line = user;
    if (!is_due(line)) return !stop_is_asked();
    const double seconds = writing_seconds() - line->started;
    const double speed = seconds > 0.0 ? (double)p->read_bytes / seconds : 0.0;
    char left[32] = "";
    if (p->total_bytes >= p->read_bytes && speed > 0.0)
        (void)snprintf(left, sizeof left, ", %.0f s left",
                       (double)(p->total_bytes - p->read_bytes) / speed);
    if (p->tokens > 0)
        cli_progress("%.0f MB read, %lld documents, %.1f M tokens, %.0f MB/s%s",
                     1e-6 * (double)p->read_bytes, (long long)p->documents,
                     1e-6 * (double)p->tokens, 1e-6 * speed, left);
    else
        cli_progress("%.0f MB read, %lld documents, %.0f MB/s%s", 1e-6 * (double)p->read_bytes,
                     (long long)p->documents, 1e-6 * speed, left);
    return !stop_is_asked();
}

static bool on_merge(void *user, int64_t done, int64_t total)
{
    if (is_due(user)) cli_progress("%lld of %lld pairs joined", (long long)done, (long long)total);
    return !stop_is_asked();
}

static focal_corpus corpus_of(const cli_texts *paths, const files_options *o, clock_line *line)
{
    stop_catch(); /* what is half written is removed before the program ends */
    line->started = line->shown = writing_seconds();
    return (focal_corpus){.paths = paths->items,
                          .path_count = paths->count,
                          .field = o->field,
                          .separator = o->separator,
                          .on_progress = on_read,
                          .user = line};
}

/* The exit code of a call that failed. */
static int failed(const focal_ctx *ctx, focal_status status)
{
    return stop_is_asked() ? stop_code() : cli_fail_ctx(ctx, status);
}

int files_train(focal_ctx *ctx, const cli_texts *paths, const files_options *o)
{
    clock_line line;
    const focal_corpus corpus = corpus_of(paths, o, &line);
    const focal_tokenizer_trainer_options options = {.vocab = (int32_t)o->vocab,
                                                     .pre = split_names[o->split],
                                                     .on_merge = on_merge,
                                                     .user = &line};
    focal_tokenizer_trainer_result result;
    const focal_status status = focal_corpus_train(ctx, &corpus, &options, o->out, &result);
    cli_progress("%s", "");
    if (status != FOCAL_OK) return failed(ctx, status);
    if (o->is_quiet) return CLI_DONE;
    const double seconds = writing_seconds() - line.started;
    if (o->is_json) {
        output_table table = {.is_json = true};
        output_int(&table, "vocab", result.vocab);
        output_int(&table, "merges", result.merge_count);
        output_int(&table, "words", result.word_count);
        output_int(&table, "distinct_words", result.distinct_words);
        output_int(&table, "long_words", result.long_words);
        output_int(&table, "forgotten_words", result.forgotten_words);
        output_number(&table, "seconds", seconds, 2);
        output_end(&table);
        return CLI_DONE;
    }
    (void)fprintf(stderr, "%d tokens, %lld merges, from %lld words, %lld different, in %.2f s\n",
                  result.vocab, (long long)result.merge_count, (long long)result.word_count,
                  (long long)result.distinct_words, seconds);
    const int32_t wanted = o->vocab ? (int32_t)o->vocab : FOCAL_VOCAB_DEFAULT;
    if (result.vocab < wanted)
        (void)fprintf(stderr,
                      "focal: fewer than the %d tokens asked for: no other pair of tokens "
                      "comes twice in this text\n",
                      wanted);
    if (result.long_words > 0)
        (void)fprintf(stderr, "focal: %lld words of more than 1,024 bytes were left out\n",
                      (long long)result.long_words);
    if (result.forgotten_words > 0)
        (void)fprintf(stderr, "focal: %lld of the rarest words were forgotten on the way\n",
                      (long long)result.forgotten_words);
    return CLI_DONE;
}

int files_tokenize(focal_ctx *ctx, const focal_tokenizer *tokenizer, const cli_texts *paths,
                   const files_options *o)
{
    clock_line line;
    const focal_corpus corpus = corpus_of(paths, o, &line);
    const focal_corpus_options options = {.shard_tokens = o->shard_tokens,
                                          .reads_special = o->reads_special};
    focal_corpus_result result;
    const focal_status status =
        focal_corpus_tokenize(ctx, &corpus, tokenizer, o->out, &options, &result);
    cli_progress("%s", "");
    if (status != FOCAL_OK) return failed(ctx, status);
    if (o->is_quiet) return CLI_DONE;
    const double seconds = writing_seconds() - line.started;
    if (o->is_json) {
        output_table table = {.is_json = true};
        output_int(&table, "tokens", result.tokens);
        output_int(&table, "documents", result.documents);
        output_int(&table, "text_bytes", result.text_bytes);
        output_int(&table, "lost_bytes", result.lost_bytes);
        output_int(&table, "shards", result.shards);
        output_number(&table, "seconds", seconds, 2);
        output_end(&table);
        return CLI_DONE;
    }
    (void)fprintf(stderr, "%lld tokens of %lld documents, %.1f MB of text, in %d shard%s, %.2f s\n",
                  (long long)result.tokens, (long long)result.documents,
                  1e-6 * (double)result.text_bytes, result.shards, result.shards == 1 ? "" : "s",
                  seconds);
    if (result.lost_bytes > 0)
        (void)fprintf(stderr,
                      "focal: %lld bytes of the text have no token in this vocabulary and "
                      "are left out\n",
                      (long long)result.lost_bytes);
    return CLI_DONE;
}
