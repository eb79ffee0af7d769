/* focal tokenize: text to ids, and back; with -o, files into a tokenizer or into shards. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "focal/model.h"
#include "json_text.h"
#include "model_file.h"
#include "options.h"
#include "tokenize_files.h"

typedef struct tokenize_options {
    model_choice model;
    const char *file;
    cli_texts rest;
    files_options files; /* what goes with -o */
    bool has_special, adds_special, decodes, is_json, is_counted;
} tokenize_options;

static void print_ids(const focal_tokenizer *tokenizer, const focal_ids *ids,
                      const tokenize_options *o)
{
    if (o->is_counted) {
        printf(o->is_json ? "{\"count\": %lld}\n" : "%lld\n", (long long)ids->count);
        return;
    }
    if (o->is_json) {
        printf("{\"ids\": [");
        for (int64_t n = 0; n < ids->count; n++) printf("%s%d", n ? ", " : "", ids->ids[n]);
        printf("]}\n");
        return;
    }
    for (int64_t n = 0; n < ids->count; n++) {
        const focal_token token = focal_tokenizer_token(tokenizer, ids->ids[n]);
        printf("%8d  ", ids->ids[n]);
        json_print_text(token.bytes, token.byte_count);
        putchar('\n');
    }
}

/* Numbers with anything but digits between them: what --json prints, too. */
static int parse_ids(const char *text, focal_ids *ids, int32_t **owned)
{
    size_t capacity = 0, count = 0;
    int32_t *list = NULL;
    for (const char *at = text; *at;) {
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        char *end = NULL;
        errno = 0;
        const char *begin = at > text && at[-1] == '-' ? at - 1 : at;
        const long id = strtol(begin, &end, 10);
        if (errno != 0 || id > INT32_MAX || begin < at) {
            free(list);
            return cli_fail("'%.*s' is no id", (int)(end - begin), begin);
        }
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            int32_t *more = realloc(list, capacity * sizeof *more);
            if (!more) {
                free(list);
                return cli_fail("no memory for the ids");
            }
            list = more;
        }
        list[count++] = (int32_t)id;
        at = end;
    }
    if (count == 0 && text[strspn(text, " \t\r\n[]{}")] != '\0')
        return cli_fail("'%.40s' holds no id", text);
    *owned = list;
    *ids = (focal_ids){list, (int64_t)count, (int64_t)capacity};
    return CLI_DONE;
}

static int decode(focal_ctx *ctx, const focal_tokenizer *tokenizer, const char *text,
                  const tokenize_options *o)
{
    focal_ids ids = {0};
    int32_t *owned = NULL;
    focal_buffer out = {0};
    int code = parse_ids(text, &ids, &owned);
    if (code != CLI_DONE) return code;
    const unsigned flags = o->has_special ? 0U : FOCAL_DECODE_SKIP_SPECIAL;
    const focal_status status =
        focal_tokenizer_decode(ctx, tokenizer, ids.ids, ids.count, flags, &out);
    if (status != FOCAL_OK) {
        code = cli_fail_ctx(ctx, status);
    } else if (o->is_json) {
        printf("{\"text\": ");
        json_print_text(out.data ? out.data : "", out.bytes);
        printf("}\n");
    } else if (out.bytes > 0) {
        (void)fwrite(out.data, 1, out.bytes, stdout);
    }
    focal_buffer_free(ctx, &out);
    free(owned);
    return code;
}

static int run_tokenize(focal_ctx *ctx, const focal_tokenizer *tokenizer, const tokenize_options *o)
{
    char *text = NULL;
    size_t bytes = 0;
    const char *given = o->rest.count > 0 ? o->rest.items[0] : NULL;
    if (given && strcmp(given, "-") != 0) {
        bytes = strlen(given);
    } else {
        text = cli_read_text(given ? given : o->file, CLI_TEXT_BYTES, &bytes);
        if (!text) return CLI_FAILED;
        given = text;
    }
    int code = CLI_DONE;
    if (o->decodes) {
        code = decode(ctx, tokenizer, given, o);
    } else {
        focal_ids ids = {0};
        const unsigned flags = (o->has_special ? FOCAL_ENCODE_PARSE_SPECIAL : 0U) |
                               (o->adds_special ? FOCAL_ENCODE_ADD_SPECIAL : 0U);
        const focal_status status =
            focal_tokenizer_encode(ctx, tokenizer, given, bytes, flags, &ids);
        if (status == FOCAL_OK) {
            print_ids(tokenizer, &ids, o);
            cli_warn_lost(tokenizer, given, bytes);
        } else
            code = cli_fail_ctx(ctx, status);
        focal_ids_free(ctx, &ids);
    }
    free(text);
    return code;
}

/* -m: a tokenizer.json, or a model with its tokenizer. */
static int with_tokenizer(focal_ctx *ctx, const tokenize_options *o)
{
    focal_model *model = NULL;
    focal_tokenizer *own = NULL;
    const char *name = o->model.name;
    const size_t length = name ? strlen(name) : 0;
    int code = CLI_DONE;
    if (length > 5 && strcmp(name + length - 5, ".json") == 0) {
        const focal_status status = focal_tokenizer_open(ctx, name, &own);
        if (status != FOCAL_OK) return cli_fail_ctx(ctx, status);
    } else {
        code = cli_open_model(ctx, &o->model, &model);
        if (code != CLI_DONE) return code;
    }
    const focal_tokenizer *tokenizer = own ? own : focal_model_tokenizer(model);
    if (!tokenizer)
        code = cli_fail("%s: there is no tokenizer beside the weights", name);
    else if (o->files.out)
        code = files_tokenize(ctx, tokenizer, &o->rest, &o->files);
    else
        code = run_tokenize(ctx, tokenizer, o);
    focal_tokenizer_free(own);
    focal_model_close(model);
    return code;
}

/* What the table of options cannot say. */
static int check_arguments(const tokenize_options *o)
{
    if (o->files.out) {
        if (o->files.trains && o->model.name)
            return cli_wrong("tokenize: --train makes a tokenizer, -m takes one: one of them");
        if (o->rest.count == 0) return cli_wrong("tokenize: -o needs FILES to read");
        return CLI_DONE;
    }
    if (o->rest.count > 1)
        return cli_wrong("tokenize: unexpected argument '%s'; see focal tokenize --help",
                         o->rest.items[1]);
    if ((o->rest.count > 0) == (o->file != NULL))
        return cli_wrong("tokenize: a text or -f FILE, one of them");
    return CLI_DONE;
}

static int run(tokenize_options *o)
{
    focal_ctx *ctx = NULL;
    int code = check_arguments(o);
    if (code == CLI_DONE) code = cli_open_ctx(0, NULL, &ctx);
    if (code != CLI_DONE) return code;
    o->files.is_json = o->is_json;
    o->files.reads_special = o->has_special;
    code = o->files.trains ? files_train(ctx, &o->rest, &o->files) : with_tokenizer(ctx, o);
    focal_ctx_close(ctx);
    return code;
}

#define ABOUT                                                                                      \
    "Shows the tokens of a text, as the model's own tokenizer makes them. With -o, reads FILES:\n" \
    "with --train it makes a tokenizer from them and writes tokenizer.json, else it writes "       \
    "their\n"                                                                                      \
    "ids into a folder, as shards to train on. A file is one document; names in .jsonl hold one\n" \
    "a line. Files may be compressed (.gz, .xz, .zst) and of any length."

int cli_tokenize(int argc, char **argv)
{
    tokenize_options o = {0};
    files_options *f = &o.files;
    const cli_option options[] = {
        cli_model_option(&o.model),
        {"file", 'f', CLI_TEXT, &o.file, "FILE", "the text; - for standard input", 0, 0, NULL,
         NULL},
        {"special", 0, CLI_FLAG, &o.has_special, NULL,
         "control tokens: read in texts, shown when decoding", 0, 0, NULL, NULL},
        {"add-special", 0, CLI_FLAG, &o.adds_special, NULL,
         "with the begin and end tokens that the model expects", 0, 0, NULL, NULL},
        {"decode", 0, CLI_FLAG, &o.decodes, NULL, "the text is ids: print what they stand for", 0,
         0, NULL, NULL},
        {"count", 0, CLI_FLAG, &o.is_counted, NULL, "only how many there are", 0, 0, NULL, NULL},
        {"json", 0, CLI_FLAG, &o.is_json, NULL, "{\"ids\": [...]}, or {\"text\": ...}", 0, 0, NULL,
         NULL},
        {"output", 'o', CLI_TEXT, &f->out, "OUT", "read FILES; write tokenizer.json, or shards", 0,
         0, NULL, NULL},
        {"train", 0, CLI_FLAG, &f->trains, NULL, "make a tokenizer from FILES", 0, 0, NULL, NULL},
        {"vocab", 0, CLI_INT, &f->vocab, "N", "its tokens; default 16384", FOCAL_VOCAB_LEAST,
         FOCAL_VOCAB_MOST, NULL, NULL},
        {"split", 0, CLI_CHOICE, &f->split, FILES_SPLITS, "how it splits text; default qwen2", 0, 0,
         FILES_SPLITS, NULL},
        {"field", 0, CLI_TEXT, &f->field, "NAME",
         "FILES hold JSON lines, this member is the text; default text", 0, 0, NULL, NULL},
        {"separator", 0, CLI_TEXT, &f->separator, "TEXT",
         "stands between documents in a plain file", 0, 0, NULL, NULL},
        {"shard-tokens", 0, CLI_INT, &f->shard_tokens, "N", "of a shard; default 100 million", 1,
         2e9, NULL, NULL},
    };
    const cli_rule rules[] = {{"count", .excludes = "decode"},
                              {"add-special", .excludes = "decode"},
                              {"output", .excludes = "file|add-special|decode|count"},
                              {"train", .needs = "output", .excludes = "special"},
                              {"vocab", .needs = "train"},
                              {"split", .needs = "train"},
                              {"field", .needs = "output", .excludes = "separator"},
                              {"separator", .needs = "output"},
                              {"shard-tokens", .needs = "output", .excludes = "train"}};
    const cli_usage usage = {
        .command = "focal tokenize",
        .about = ABOUT,
        .examples = "  focal tokenize -m smollm2 'Hello world'\n"
                    "  focal tokenize -m smollm2 -f book.txt --count\n"
                    "  focal tokenize -m smollm2 --decode '19556 905'\n"
                    "  focal tokenize --train --vocab 8192 books/*.txt -o tokenizer.json\n"
                    "  focal tokenize -m tokenizer.json books/*.txt -o tokens\n"
                    "  focal tokenize -m smollm2 web.jsonl.zst --field content -o tokens\n",
        .arguments = "[TEXT | FILES...]",
        .taken = &o.rest,
        .most = CLI_MAX_TEXTS,
        .options = options,
        .option_count = CLI_COUNT(options),
        .rules = rules,
        .rule_count = CLI_COUNT(rules),
    };
    const int code = cli_parse(&usage, argc, argv);
    return code >= 0 ? code : run(&o);
}
