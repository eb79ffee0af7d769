/* Corpora: the ids in the shards are those of the whole documents whatever pieces they were read
 * in, for every kind of tokenizer; compressed files; every fault has its sentence and leaves
 * nothing. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "focal/model.h"
#include "io/file.h"
#include "io/input.h"
#include "support/tokenizer_files.h"
#include "text/corpus.h"
#include "text/text_cut.h"
#include "text/tokenizer_parts.h"

/* Every pair of classes stands side by side somewhere: letters, numbers, signs, spaces, line ends,
 * marks that a normal form joins, added tokens. */
static const char *documents[] = {
    "The fox's den, it'll do: 1984 and 12345! Don't   stop...\n\n\n  indented\t\ttabs\n",
    " leading space and trailing space ",
    "caf\xC3\xA9 e\xCC\x81tude \xE4\xB8\xAD\xE3\x80\x82\n\xE4\xB8\xAD\xE3\x80\x82\xE4\xB8\xAD ",
    "5\xC2\xB2",
    "x\r\n\r\ny\r\n  z \n \n.\n!\n\"quoted\"\n\n-- a--b_c<user><|end|><|endoftext|>#\n",
    "\n",
    "a",
    "    \n\t \xC2\xA0\xE2\x80\x83spaces of other kinds 'S 'LL 'Re \xC5\xBF '\xC5\xBF",
    "\xF0\x9F\x98\x80\xF0\x9F\x98\x80 emoji\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x9A\x80 3rd 4x4=16",
};

/* A file a document. */
static void write_documents(const folder *f, char paths[][80], const char *names[])
{
    for (size_t n = 0; n < FOCAL_COUNT(documents); n++) {
        char name[16];
        (void)snprintf(name, sizeof name, "%zu.txt", n);
        (void)snprintf(paths[n], 80, "%s", folder_file(f, name));
        write_bytes(paths[n], documents[n], strlen(documents[n]));
        names[n] = paths[n];
    }
}

static void remove_set(const char *path)
{
    char file[256];
    for (int n = 0; n < 5000; n++) {
        (void)snprintf(file, sizeof file, "%s/shard-%05d.tokens", path, n);
        if (unlink(file) != 0) break;
    }
    (void)snprintf(file, sizeof file, "%s/tokenizer.json", path);
    (void)unlink(file);
    (void)snprintf(file, sizeof file, "%s/tokenizer_config.json", path);
    (void)unlink(file);
    assert_int_equal(rmdir(path), 0);
}

/* The ids that the documents must have, as the plain call makes them. */
static void expect_ids(focal_ctx *ctx, const focal_tokenizer *t, unsigned flags, focal_ids *ids,
                       int64_t *begin)
{
    const int32_t end = focal_tokenizer_document_end(t);
    for (size_t n = 0; n < FOCAL_COUNT(documents); n++) {
        begin[n] = ids->count;
        for (int32_t k = 0; k < t->before_count; k++) {
            assert_status(ctx, foci_ids_reserve(ctx, ids, 1), FOCAL_OK);
            ids->ids[ids->count++] = t->before[k];
        }
        assert_status(
            ctx, focal_tokenizer_encode(ctx, t, documents[n], strlen(documents[n]), flags, ids),
            FOCAL_OK);
        assert_status(ctx, foci_ids_reserve(ctx, ids, 1), FOCAL_OK);
        if (end >= 0) ids->ids[ids->count++] = end;
    }
    begin[FOCAL_COUNT(documents)] = ids->count;
}

static void check_set(focal_ctx *ctx, const char *name, const char *path, const focal_ids *ids,
                      const int64_t *begin)
{
    foci_shards *shards = NULL;
    assert_status(ctx, foci_shards_open(ctx, path, true, &shards), FOCAL_OK);
    const foci_shards_info info = foci_shards_describe(shards);
    int32_t *got = new_array((size_t)ids->count, sizeof *got);
    if (info.token_count != ids->count)
        fail_msg("%s: %lld tokens, the plain call makes %lld", name, (long long)info.token_count,
                 (long long)ids->count);
    assert_status(ctx, foci_shards_read(shards, 0, ids->count, got), FOCAL_OK);
    for (int64_t n = 0; n < ids->count; n++)
        if (got[n] != ids->ids[n]) fail_msg("%s: token %lld differs", name, (long long)n);
    int64_t document = 0;
    for (size_t n = 0; n < FOCAL_COUNT(documents); n++)
        if (begin[n + 1] > begin[n]) /* one without ids is none */
            assert_int_equal(foci_shards_begin(shards, document++), begin[n]);
    assert_int_equal(info.document_count, document);
    free(got);
    foci_shards_close(shards);
}

static void check_pieces(focal_ctx *ctx, const char *name, const focal_tokenizer *t,
                         bool with_special)
{
    static const foci_corpus_settings sizes[] = {{FOCI_PIECE_BYTES, 0, 0, false},
                                                 {1, 1, 0, false},
                                                 {1, 3, 60, false},
                                                 {2, 100, 0, false},
                                                 {3, 1, 90, false},
                                                 {5, 7, 0, false},
                                                 {16, 5, 50, false}};
    const folder f = folder_new();
    char paths[FOCAL_COUNT(documents)][80];
    const char *names[FOCAL_COUNT(documents)];
    int64_t begin[FOCAL_COUNT(documents) + 1];
    write_documents(&f, paths, names);
    const focal_corpus corpus = {.paths = names, .path_count = FOCAL_COUNT(documents)};
    focal_ids ids = {0};
    expect_ids(ctx, t, with_special ? FOCAL_ENCODE_PARSE_SPECIAL : 0U, &ids, begin);
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++) {
        foci_corpus_settings settings = sizes[n];
        char path[80];
        focal_corpus_result result;
        settings.reads_special = with_special;
        (void)snprintf(path, sizeof path, "%s", folder_file(&f, "set"));
        assert_status(ctx, foci_corpus_tokenize(ctx, &corpus, t, path, &settings, &result),
                      FOCAL_OK);
        assert_int_equal(result.tokens, ids.count);
        check_set(ctx, name, path, &ids, begin);
        remove_set(path);
    }
    focal_ids_free(ctx, &ids);
    folder_remove(&f);
}

static void ids_are_those_of_whole_documents(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {
        "gpt2",    "qwen2",   "llama3",        "smollm",  "prefix",  "llama2",  "mistral",
        "gemma",   "unigram", "unigram_bytes", "normal0", "normal1", "normal2", "normal3",
        "normal4", "normal5", "split0",        "split1",  "split2",  "split3",  "split4",
        "split5",  "split6",  "split7",        "split8",  "split9",  "split10", "split11",
        "split12", "split13", "split14",       "split15"};
    int32_t cut = 0;
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        focal_tokenizer *t = golden_tokenizer(ctx, names[n]);
        check_pieces(ctx, names[n], t, false);
        check_pieces(ctx, names[n], t, true);
        cut += foci_cut_rule_of_tokenizer(t, false).scan != FOCI_SCAN_NONE;
        focal_tokenizer_free(t);
    }
    assert_true(cut >= 3); /* so many of them are read in pieces at all */
}

/* Tokens that text becomes are never cut, though words end inside of them. */
static void check_added(focal_ctx *ctx, const char *text_of_json, bool with_special)
{
    foci_json *json = quoted_json(ctx, text_of_json);
    static const char text[] = "ab a b.1x a b.1 a b. a b.1 xa b.11 a b";
    const char *saved = documents[0];
    focal_tokenizer *t = NULL;
    assert_status(ctx, foci_tokenizer_from_json(ctx, "added", json, NULL, &t), FOCAL_OK);
    assert_int_equal(foci_cut_rule_of_tokenizer(t, with_special).longest, 5);
    documents[0] = text;
    check_pieces(ctx, "added", t, with_special);
    documents[0] = saved;
    focal_tokenizer_free(t);
    foci_json_free(json);
}

#define ADDED_JSON(special)                                                                        \
    "{'added_tokens':[{'id':7,'content':'a b.1','special':" special ",'normalized':false}],"       \
    "'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false},'model':{'type':'BPE',"         \
    "'vocab':{'a':0,'b':1,'x':2,'\\u0120':3,'1':4,'.':5,'ab':6},'merges':['a b']}}"

static void added_tokens_stay_whole(void **state)
{
    check_added(*state, ADDED_JSON("false"), false);
    check_added(*state, ADDED_JSON("true"), true);
}

/* By the definition: at each place that is called sure, the words of the two parts are those of the
 * whole, for all texts of a few characters. */
static void cuts_change_no_word(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const characters[] = {"a", "S",  "'",  "1",  ".",
                                             " ", "\n", "\r", "\t", "\xC3\xA9"};
    static const char *const pres[] = {"gpt-2", "qwen2", "dbrx", "smollm"};
    enum { LENGTH = 5, ALL = 100000 };
    for (size_t p = 0; p < FOCAL_COUNT(pres); p++) {
        foci_splitter splitter = {0};
        foci_split_run run = {0};
        int64_t sure = 0;
        assert_status(ctx,
                      foci_splitter_of_pre(ctx, foci_pre_find(foci_text_of(pres[p])), &splitter),
                      FOCAL_OK);
        const foci_cut_rule rule = foci_cut_rule_of(&splitter);
        for (int code = 0; code < ALL; code += 1 + code % 3) {
            char text[2 * LENGTH + 1] = "";
            size_t bytes = 0, ends[2][2 * LENGTH], counts[2] = {0};
            for (int n = 0, rest = code; n < LENGTH; n++, rest /= 10)
                bytes += (size_t)sprintf(text + bytes, "%s", characters[rest % 10]);
            const size_t cut = foci_text_cut(&rule, text, bytes);
            if (cut == 0) continue;
            sure++;
            const size_t starts[2][3] = {{0, bytes, bytes}, {0, cut, bytes}};
            for (int way = 0; way < 2; way++)
                for (int part = 0; part < 2 && starts[way][part] < bytes; part++) {
                    const char *word;
                    size_t word_bytes, at = starts[way][part];
                    assert_status(ctx,
                                  foci_split_begin(&run, ctx, &splitter, text + at,
                                                   starts[way][part + 1] - at, true),
                                  FOCAL_OK);
                    for (;;) {
                        assert_status(ctx, foci_split_next(&run, &word, &word_bytes), FOCAL_OK);
                        if (!word) break;
                        at += word_bytes;
                        ends[way][counts[way]++] = at;
                    }
                }
            if (counts[0] != counts[1] ||
                memcmp(ends[0], ends[1], counts[0] * sizeof ends[0][0]) != 0)
                fail_msg("%s: '%s' cut at %zu has other words", pres[p], text, cut);
        }
        assert_true(sure > ALL / 8);
        foci_split_free(&run);
        foci_splitter_free(&splitter);
    }
}

static const char json_lines[] = "{\"text\": \"one \\u00e9 1\", \"other\": 5}\n\n"
                                 "{\"id\": {\"text\": 3}, \"text\": \"\"}\r\n"
                                 "  {\"text\": \"two\\nlines\\u0000\"}";

static void json_lines_and_separators(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_tokenizer *t = golden_tokenizer(ctx, "gpt2");
    const foci_corpus_settings settings = {3, 2, 0, false};
    char path[80], set[80];
    (void)snprintf(set, sizeof set, "%s", folder_file(&f, "set"));
    const char *name = path;
    focal_corpus corpus = {.paths = &name, .path_count = 1};
    focal_corpus_result result;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "lines.jsonl"));
    write_bytes(path, json_lines, sizeof json_lines - 1);
    assert_status(ctx, foci_corpus_tokenize(ctx, &corpus, t, set, &settings, &result), FOCAL_OK);
    assert_int_equal(result.documents, 2);
    assert_int_equal(result.text_bytes, 8 + 10);
    remove_set(set);
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "plain"));
    write_bytes(path, "a<end>b<en<end>d<<end><end>last", 31);
    corpus.separator = "<end>";
    assert_status(ctx, foci_corpus_tokenize(ctx, &corpus, t, set, &settings, &result), FOCAL_OK);
    assert_int_equal(result.documents, 4);
    assert_int_equal(result.text_bytes, 1 + 4 + 2 + 4);
    remove_set(set);
    corpus.separator = "";
    assert_status(ctx, foci_corpus_tokenize(ctx, &corpus, t, set, &settings, &result),
                  FOCAL_EINVAL);
    focal_tokenizer_free(t);
    folder_remove(&f);
}

typedef struct bad_file {
    const char *name, *text;
    size_t bytes;
    const char *field, *sentence;
} bad_file;

static void faults_have_their_sentence(void **state)
{
    focal_ctx *ctx = *state;
    static const bad_file files[] = {
        {"a.txt",
         "abc\xFF"
         "d",
         5, NULL, "byte 3 of the text is no UTF-8"},
        {"b.txt", "abc\xE4\xB8", 5, NULL, "byte 3 of the text is no UTF-8"},
        {"c.txt", "", 0, NULL, "there is no token to write"},
        {"d.jsonl", "{\"text\": \"a\"}\n{\"text\"\n", 22, NULL, "JSON of line 2"},
        {"e.jsonl", "{\"text\": \"a\"}\n{\"t\": 1}\n", 23, NULL,
         "line 2: has no text under 'text'"},
        {"f.jsonl", "[1]\n", 4, NULL, "line 1: is no object"},
        {"g.jsonl", "{\"text\": \"\xFF\"}\n", 14, NULL, "JSON of line 1"},
        {"h", "{\"body\": 5}\n", 12, "body", "line 1: has no text under 'body'"},
        {"i.gz", "\x1F\x8B\x08\x00", 4, NULL, "gzip"},
        {"j.xz",
         "\xFD"
         "7zXZ\x00\x00\x00",
         8, NULL, "xz"},
        {"k.zst", "\x28\xB5\x2F\xFD\x00", 5, NULL, "zstd"},
    };
    const folder f = folder_new();
    focal_tokenizer *t = golden_tokenizer(ctx, "gpt2");
    char path[80], set[80], out[80];
    (void)snprintf(set, sizeof set, "%s", folder_file(&f, "set"));
    (void)snprintf(out, sizeof out, "%s", folder_file(&f, "tokenizer.json"));
    for (size_t n = 0; n < FOCAL_COUNT(files); n++) {
        const char *name = path;
        focal_corpus corpus = {.paths = &name, .path_count = 1, .field = files[n].field};
        (void)snprintf(path, sizeof path, "%s", folder_file(&f, files[n].name));
        write_bytes(path, files[n].text, files[n].bytes);
        assert_int_not_equal(focal_corpus_tokenize(ctx, &corpus, t, set, NULL, NULL), FOCAL_OK);
        if (!strstr(focal_ctx_error(ctx), files[n].sentence))
            fail_msg("%s: '%s' lacks '%s'", files[n].name, focal_ctx_error(ctx), files[n].sentence);
        assert_int_not_equal(focal_corpus_train(ctx, &corpus, NULL, out, NULL), FOCAL_OK);
        assert_int_equal(folder_count(&f), n + 1);
    }
    const char *missing = "/nowhere/at/all";
    const focal_corpus corpus = {.paths = &missing, .path_count = 1}, none = {.path_count = 0};
    assert_status(ctx, focal_corpus_tokenize(ctx, &corpus, t, set, NULL, NULL), FOCAL_EIO);
    assert_status(ctx, focal_corpus_tokenize(ctx, &none, t, set, NULL, NULL), FOCAL_EINVAL);
    const char *here = f.path;
    const focal_corpus directory = {.paths = &here, .path_count = 1};
    assert_status(ctx, focal_corpus_tokenize(ctx, &directory, t, set, NULL, NULL), FOCAL_EIO);
    focal_tokenizer_free(t);
    folder_remove(&f);
}

/* The two texts, compressed one after the other. */
static const char two_texts[] = "Two streams, one behind the other: the first.\n"
                                "And the second, \xC3\xA9.\n";
static const uint8_t gzip_bytes[] = {
    0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x0B, 0x29, 0xCF, 0x57, 0x28,
    0x2E, 0x29, 0x4A, 0x4D, 0xCC, 0x2D, 0xD6, 0x51, 0xC8, 0xCF, 0x4B, 0x55, 0x48, 0x4A, 0xCD,
    0xC8, 0xCC, 0x4B, 0x51, 0x28, 0xC9, 0x48, 0x55, 0xC8, 0x07, 0x12, 0x45, 0x56, 0x60, 0x66,
    0x5A, 0x66, 0x51, 0x71, 0x89, 0x1E, 0x17, 0x00, 0x15, 0xCA, 0x29, 0x6B, 0x2E, 0x00, 0x00,
    0x00, 0x1F, 0x8B, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0x73, 0xCC, 0x4B, 0x51,
    0x28, 0xC9, 0x48, 0x55, 0x28, 0x4E, 0x4D, 0xCE, 0xCF, 0x4B, 0xD1, 0x51, 0x38, 0xBC, 0x52,
    0x8F, 0x0B, 0x00, 0xEB, 0x12, 0x72, 0xC6, 0x14, 0x00, 0x00, 0x00};
static const uint8_t xz_bytes[] = {
    0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00, 0x00, 0x01, 0x69, 0x22, 0xDE, 0x36, 0x02, 0x00, 0x21, 0x01,
    0x16, 0x00, 0x00, 0x00, 0x74, 0x2F, 0xE5, 0xA3, 0x01, 0x00, 0x2D, 0x54, 0x77, 0x6F, 0x20, 0x73,
    0x74, 0x72, 0x65, 0x61, 0x6D, 0x73, 0x2C, 0x20, 0x6F, 0x6E, 0x65, 0x20, 0x62, 0x65, 0x68, 0x69,
    0x6E, 0x64, 0x20, 0x74, 0x68, 0x65, 0x20, 0x6F, 0x74, 0x68, 0x65, 0x72, 0x3A, 0x20, 0x74, 0x68,
    0x65, 0x20, 0x66, 0x69, 0x72, 0x73, 0x74, 0x2E, 0x0A, 0x00, 0x00, 0x00, 0x15, 0xCA, 0x29, 0x6B,
    0x00, 0x01, 0x42, 0x2E, 0x63, 0x95, 0x1F, 0x3E, 0x90, 0x42, 0x99, 0x0D, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x01, 0x59, 0x5A, 0x00, 0x00, 0x00, 0x00, 0xFD, 0x37, 0x7A, 0x58, 0x5A, 0x00, 0x00, 0x01,
    0x69, 0x22, 0xDE, 0x36, 0x02, 0x00, 0x21, 0x01, 0x16, 0x00, 0x00, 0x00, 0x74, 0x2F, 0xE5, 0xA3,
    0x01, 0x00, 0x13, 0x41, 0x6E, 0x64, 0x20, 0x74, 0x68, 0x65, 0x20, 0x73, 0x65, 0x63, 0x6F, 0x6E,
    0x64, 0x2C, 0x20, 0xC3, 0xA9, 0x2E, 0x0A, 0x00, 0xEB, 0x12, 0x72, 0xC6, 0x00, 0x01, 0x28, 0x14,
    0xFC, 0xCF, 0x01, 0x67, 0x90, 0x42, 0x99, 0x0D, 0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5A};
static const uint8_t zstd_bytes[] = {
    0x28, 0xB5, 0x2F, 0xFD, 0x20, 0x2E, 0x71, 0x01, 0x00, 0x54, 0x77, 0x6F, 0x20, 0x73,
    0x74, 0x72, 0x65, 0x61, 0x6D, 0x73, 0x2C, 0x20, 0x6F, 0x6E, 0x65, 0x20, 0x62, 0x65,
    0x68, 0x69, 0x6E, 0x64, 0x20, 0x74, 0x68, 0x65, 0x20, 0x6F, 0x74, 0x68, 0x65, 0x72,
    0x3A, 0x20, 0x74, 0x68, 0x65, 0x20, 0x66, 0x69, 0x72, 0x73, 0x74, 0x2E, 0x0A, 0x28,
    0xB5, 0x2F, 0xFD, 0x20, 0x14, 0xA1, 0x00, 0x00, 0x41, 0x6E, 0x64, 0x20, 0x74, 0x68,
    0x65, 0x20, 0x73, 0x65, 0x63, 0x6F, 0x6E, 0x64, 0x2C, 0x20, 0xC3, 0xA9, 0x2E, 0x0A};

static void read_input(focal_ctx *ctx, const char *path, size_t room, char *text, size_t *bytes,
                       focal_status *status)
{
    foci_input *input = NULL;
    size_t got = 1;
    *bytes = 0;
    *status = foci_input_open(ctx, path, &input);
    while (*status == FOCAL_OK && got > 0) {
        *status = foci_input_read(input, text + *bytes, room, &got);
        if (*status == FOCAL_OK) *bytes += got;
    }
    foci_input_close(input);
}

static void compressed_files_are_expanded(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name;
        const uint8_t *data;
        size_t bytes;
    } files[] = {{"gzip", gzip_bytes, sizeof gzip_bytes},
                 {"xz", xz_bytes, sizeof xz_bytes},
                 {"zstd", zstd_bytes, sizeof zstd_bytes}};
    const folder f = folder_new();
    const char *path = folder_file(&f, "file");
    for (size_t n = 0; n < FOCAL_COUNT(files); n++) {
        char text[256];
        size_t bytes;
        focal_status status;
        write_bytes(path, files[n].data, files[n].bytes);
        for (size_t room = 1; room < 100; room += 33) {
            read_input(ctx, path, room, text, &bytes, &status);
            if (status == FOCAL_EUNSUPPORTED) break; /* this build lacks the library, and says so */
            assert_status(ctx, status, FOCAL_OK);
            assert_int_equal(bytes, sizeof two_texts - 1);
            assert_memory_equal(text, two_texts, bytes);
        }
        if (status == FOCAL_EUNSUPPORTED) {
            assert_non_null(strstr(focal_ctx_error(ctx), files[n].name));
            continue;
        }
        int whole = 0; /* ends between the two: they are not cut there */
        for (size_t cut = 6; cut < files[n].bytes; cut++) {
            write_bytes(path, files[n].data, cut);
            read_input(ctx, path, 99, text, &bytes, &status);
            if (status == FOCAL_OK) {
                whole++;
                continue;
            }
            assert_status(ctx, status, FOCAL_EFORMAT);
            assert_non_null(strstr(focal_ctx_error(ctx), files[n].name));
        }
        assert_in_range(whole, 1, 5); /* xz: with the padding behind it */
        uint8_t bad[sizeof xz_bytes + sizeof gzip_bytes];
        for (size_t at = 0; at < files[n].bytes; at++) { /* any byte changed: no crash, no hang */
            memcpy(bad, files[n].data, files[n].bytes);
            bad[at] ^= 0x5A;
            write_bytes(path, bad, files[n].bytes);
            read_input(ctx, path, 99, text, &bytes, &status);
        }
        status = FOCAL_ENOMEM;
        for (int k = 1; status != FOCAL_OK; k++) {
            write_bytes(path, files[n].data, files[n].bytes);
            memory_fail(k, false);
            read_input(ctx, path, 99, text, &bytes, &status);
            memory_fail(0, false);
            assert_true(k < 100);
            if (status != FOCAL_OK) assert_int_equal(status, FOCAL_ENOMEM);
        }
    }
    folder_remove(&f);
}

static bool stop_at_once(void *user, const focal_corpus_progress *progress)
{
    assert_true(progress->read_bytes > 0);
    ++*(int *)user;
    return false;
}

static void progress_can_end_it(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_tokenizer *t = golden_tokenizer(ctx, "gpt2");
    char path[80], set[80];
    int calls = 0;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "a.txt"));
    (void)snprintf(set, sizeof set, "%s", folder_file(&f, "set"));
    write_bytes(path, documents[0], strlen(documents[0]));
    const char *name = path;
    const focal_corpus corpus = {
        .paths = &name, .path_count = 1, .on_progress = stop_at_once, .user = &calls};
    assert_status(ctx, focal_corpus_tokenize(ctx, &corpus, t, set, NULL, NULL), FOCAL_EINVAL);
    assert_int_equal(calls, 1);
    assert_int_equal(folder_count(&f), 1);
    focal_tokenizer_free(t);
    folder_remove(&f);
}

/* A tokenizer from a file of the folder, with a config beside it. */
static focal_tokenizer *tokenizer_file(focal_ctx *ctx, const folder *f)
{
    static const char config[] = "{\"eos_token\": \"<|end|>\"}";
    size_t bytes;
    focal_tokenizer *t = NULL;
    void *text = read_bytes(FOCAL_TEST_DIR "/golden/tokenizers/gpt2.json", &bytes);
    write_bytes(folder_file(f, "tokenizer.json"), text, bytes);
    write_bytes(folder_file(f, "tokenizer_config.json"), config, sizeof config - 1);
    free(text);
    assert_status(ctx, focal_tokenizer_open(ctx, folder_file(f, "tokenizer.json"), &t), FOCAL_OK);
    return t;
}

/* The tokenizer in the set gives the ids of the one that made it; for all documents. */
static void check_set_tokenizer(focal_ctx *ctx, const focal_tokenizer *t, const char *set)
{
    char path[128];
    focal_tokenizer *copy = NULL;
    (void)snprintf(path, sizeof path, "%s/tokenizer.json", set);
    assert_status(ctx, focal_tokenizer_open(ctx, path, &copy), FOCAL_OK);
    assert_int_equal(focal_tokenizer_document_end(copy), focal_tokenizer_document_end(t));
    for (size_t n = 0; n < FOCAL_COUNT(documents); n++) {
        const char *text = documents[n];
        const unsigned flags = FOCAL_ENCODE_ADD_SPECIAL;
        focal_ids a = {0}, b = {0};
        assert_status(ctx, focal_tokenizer_encode(ctx, t, text, strlen(text), flags, &a), FOCAL_OK);
        assert_status(ctx, focal_tokenizer_encode(ctx, copy, text, strlen(text), flags, &b),
                      FOCAL_OK);
        assert_int_equal(a.count, b.count);
        if (a.count > 0) assert_memory_equal(a.ids, b.ids, (size_t)a.count * sizeof *a.ids);
        focal_ids_free(ctx, &a);
        focal_ids_free(ctx, &b);
    }
    focal_tokenizer_free(copy);
}

static void sets_have_their_tokenizer(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char text[80], set[80], path[128];
    (void)snprintf(text, sizeof text, "%s", folder_file(&f, "a.txt"));
    (void)snprintf(set, sizeof set, "%s", folder_file(&f, "set"));
    write_bytes(text, documents[0], strlen(documents[0]));
    const char *name = text;
    const focal_corpus corpus = {.paths = &name, .path_count = 1};

    focal_tokenizer *t = tokenizer_file(ctx, &f);
    assert_status(ctx, focal_corpus_tokenize(ctx, &corpus, t, set, NULL, NULL), FOCAL_OK);
    check_set_tokenizer(ctx, t, set);
    focal_shards_info info;
    focal_buffer back = {0};
    assert_status(ctx, focal_shards_describe(ctx, set, &info), FOCAL_OK);
    assert_int_equal(info.documents, 1);
    assert_int_equal(info.vocab, focal_tokenizer_size(t));
    assert_status(ctx, focal_shards_text(ctx, set, 0, info.tokens, &back), FOCAL_OK);
    assert_int_equal(back.bytes, strlen(documents[0]));
    assert_memory_equal(back.data, documents[0], back.bytes);
    assert_status(ctx, focal_shards_text(ctx, set, 1, info.tokens, &back), FOCAL_EINVAL);
    assert_status(ctx, focal_shards_describe(ctx, text, &info), FOCAL_EIO);
    focal_buffer_free(ctx, &back);
    (void)snprintf(path, sizeof path, "%s/tokenizer_config.json", set);
    assert_int_equal(access(path, F_OK), 0);
    remove_set(set);

    assert_int_equal(unlink(folder_file(&f, "tokenizer.json")), 0); /* it cannot be copied now */
    assert_status(ctx, focal_corpus_tokenize(ctx, &corpus, t, set, NULL, NULL), FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(ctx), "tokenizer.json: No such file"));
    assert_int_equal(access(set, F_OK), -1);
    focal_tokenizer_free(t);

    /* A model's, which is a file or a directory: this one, with the files of another. */
    static const char few[] = "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{\"type\":"
                              "\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}}";
    write_bytes(folder_file(&f, "tokenizer.json"), few, sizeof few - 1);
    assert_int_equal(unlink(folder_file(&f, "tokenizer_config.json")), 0);
    static const char *const files[] = {"config.json", "model.safetensors"};
    for (size_t n = 0; n < FOCAL_COUNT(files); n++) {
        char from[256];
        (void)snprintf(from, sizeof from, FOCAL_TEST_DIR "/golden/models/qwen3/%s", files[n]);
        assert_status(ctx, foci_copy_file(ctx, from, folder_file(&f, files[n])), FOCAL_OK);
    }
    const char *const models[] = {FOCAL_TEST_DIR "/golden/models/tiny.gguf", f.path};
    for (size_t n = 0; n < FOCAL_COUNT(models); n++) {
        focal_model *model = NULL;
        assert_status(ctx, focal_model_open(ctx, models[n], NULL, &model), FOCAL_OK);
        const focal_tokenizer *own = focal_model_tokenizer(model);
        assert_non_null(own);
        assert_status(ctx, focal_corpus_tokenize(ctx, &corpus, own, set, NULL, NULL), FOCAL_OK);
        check_set_tokenizer(ctx, own, set);
        remove_set(set);
        focal_model_close(model);
    }
    folder_remove(&f);
}

static void failing_memory_leaves_nothing(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_tokenizer *t = tokenizer_file(ctx, &f);
    char path[80], set[80];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "lines.jsonl"));
    (void)snprintf(set, sizeof set, "%s", folder_file(&f, "set"));
    write_bytes(path, json_lines, sizeof json_lines - 1);
    const char *name = path;
    const focal_corpus corpus = {.paths = &name, .path_count = 1};
    const foci_corpus_settings settings = {3, 2, 9, false};
    focal_status status = FOCAL_ENOMEM;
    for (int n = 1; status != FOCAL_OK; n++) {
        memory_fail(n, false);
        status = foci_corpus_tokenize(ctx, &corpus, t, set, &settings, NULL);
        memory_fail(0, false);
        assert_true(n < 1000);
        if (status == FOCAL_OK) break;
        assert_int_equal(status, FOCAL_ENOMEM);
        assert_int_equal(folder_count(&f), 3);
    }
    remove_set(set);
    focal_tokenizer_free(t);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ids_are_those_of_whole_documents, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(added_tokens_stay_whole, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(cuts_change_no_word, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(json_lines_and_separators, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(faults_have_their_sentence, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(compressed_files_are_expanded, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(progress_can_end_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sets_have_their_tokenizer, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("corpus", tests, NULL, NULL);
}
