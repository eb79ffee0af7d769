/* Every kind of tokenizer gives the ids and the text that the tokenizers and sentencepiece packages
 * gave (tools/golden_tokenizers.py), from tokenizer.json and from GGUF's keys; what streams equals
 * what is decoded whole; failing memory leaves nothing behind. */
#include "support/golden_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"

enum { ADD = FOCAL_ENCODE_ADD_SPECIAL, PARSE = FOCAL_ENCODE_PARSE_SPECIAL };

/* The tokenizer that a case speaks of. */
static focal_tokenizer *open_case(focal_ctx *ctx, const foci_json *one)
{
    const char *file = foci_json_string(foci_json_get(one, "file"));
    const foci_json *pre = foci_json_get(one, "pre");
    const foci_json *prefix = foci_json_get(one, "sentencepiece");
    if (!pre && !prefix) return golden_tokenizer(ctx, file);
    golden_source g;
    focal_tokenizer *tokenizer = NULL;
    golden_source_open(ctx, file, &g);
    g.source.pre = (foci_text){foci_json_string(pre), foci_json_length(pre)};
    if (prefix) g.source.add_space_prefix = foci_json_bool(prefix, true);
    const focal_status status = foci_tokenizer_from_source(ctx, &g.source, &tokenizer);
    golden_source_close(&g);
    assert_status(ctx, status, FOCAL_OK);
    return tokenizer;
}

static void name_of(const foci_json *one, char *out, size_t room)
{
    const char *pre = foci_json_string(foci_json_get(one, "pre"));
    (void)snprintf(out, room, "%s%s%s", foci_json_string(foci_json_get(one, "file")),
                   pre ? ", pre " : "", pre ? pre : "");
}

/* Text as valid UTF-8, which is what the packages show. */
static void repair(focal_ctx *ctx, const focal_buffer *text, focal_buffer *out)
{
    size_t left = 0;
    assert_status(ctx, foci_repair(ctx, text->data, text->bytes, out, &left), FOCAL_OK);
    if (left > 0) {
        focal_text_stream stream = {.held_count = (int32_t)left};
        assert_status(ctx, focal_text_stream_end(ctx, &stream, out), FOCAL_OK);
    }
}

static void assert_text(const char *name, const focal_buffer *got, const char *want, size_t bytes)
{
    if (got->bytes == bytes && (bytes == 0 || memcmp(got->data, want, bytes) == 0)) return;
    fail_msg("%s: decoded '%.*s', expected '%.*s'", name, (int)got->bytes,
             got->data ? got->data : "", (int)bytes, want);
}

/* Whole and as a stream: the same text, and the stream never holds half a character. */
static void check_decode(focal_ctx *ctx, const focal_tokenizer *tokenizer, const char *name,
                         const foci_json *ids, unsigned flags, const foci_json *want)
{
    focal_buffer whole = {0}, valid = {0}, streamed = {0};
    focal_text_stream stream = {.flags = flags};
    for (int64_t n = 0; n < foci_json_count(ids); n++) {
        const int32_t id = (int32_t)foci_json_int(foci_json_at(ids, n), -1);
        assert_status(ctx, focal_text_stream_push(ctx, tokenizer, &stream, id, &streamed),
                      FOCAL_OK);
        assert_int_equal(foci_utf8_valid(streamed.data, streamed.bytes), streamed.bytes);
    }
    assert_status(ctx, focal_text_stream_end(ctx, &stream, &streamed), FOCAL_OK);
    int32_t *list = new_array((size_t)foci_json_count(ids), sizeof *list);
    for (int64_t n = 0; n < foci_json_count(ids); n++)
        list[n] = (int32_t)foci_json_int(foci_json_at(ids, n), -1);
    assert_status(ctx,
                  focal_tokenizer_decode(ctx, tokenizer, list, foci_json_count(ids), flags, &whole),
                  FOCAL_OK);
    free(list);
    repair(ctx, &whole, &valid);
    assert_text(name, &streamed, valid.data, valid.bytes);
    assert_text(name, &valid, foci_json_string(want), foci_json_length(want));
    focal_buffer_free(ctx, &whole);
    focal_buffer_free(ctx, &valid);
    focal_buffer_free(ctx, &streamed);
}

static void check_around(focal_ctx *ctx, const focal_tokenizer *tokenizer, const foci_json *around)
{
    focal_ids ids = {0};
    assert_status(ctx, focal_tokenizer_encode(ctx, tokenizer, "", 0, ADD, &ids), FOCAL_OK);
    int64_t at = 0;
    for (int64_t side = 0; side < 2; side++)
        for (int64_t n = 0; n < foci_json_count(foci_json_at(around, side)); n++)
            assert_int_equal(ids.ids[at++],
                             foci_json_int(foci_json_at(foci_json_at(around, side), n), -1));
    assert_int_equal(ids.count, at);
    focal_ids_free(ctx, &ids);
    const focal_special_ids special = focal_tokenizer_special(tokenizer);
    assert_int_equal(special.add_bos, foci_json_count(foci_json_at(around, 0)) > 0);
    assert_int_equal(special.add_eos, foci_json_count(foci_json_at(around, 1)) > 0);
}

static void check_case(focal_ctx *ctx, const foci_json *texts, const foci_json *one)
{
    char name[128];
    name_of(one, name, sizeof name);
    focal_tokenizer *tokenizer = open_case(ctx, one);
    const int64_t count = foci_json_int(foci_json_get(one, "texts"), 0);
    const foci_json *all_shown = foci_json_get(one, "shown");
    assert_true(count > 0);
    for (int64_t n = 0; n < count; n++) {
        const foci_json *text = foci_json_at(texts, n);
        const foci_json *parsed = foci_json_at(foci_json_get(one, "parsed"), n);
        const foci_json *plain = foci_json_at(foci_json_get(one, "plain"), n);
        if (foci_json_is(parsed, FOCI_JSON_BOOL)) continue;
        const bool has_plain = foci_json_is(plain, FOCI_JSON_ARRAY);
        /* sentencepiece has no way to parse its control tokens, so there is nothing to compare. */
        if (!foci_json_get(one, "sentencepiece"))
            assert_encodes(ctx, tokenizer, name, text, PARSE, parsed);
        if (!foci_json_is(plain, FOCI_JSON_BOOL))
            assert_encodes(ctx, tokenizer, name, text, 0, has_plain ? plain : parsed);
        if (!all_shown) continue;
        const foci_json *shown = foci_json_at(all_shown, n);
        if (foci_json_is(shown, FOCI_JSON_BOOL)) continue;
        if (!foci_json_is(shown, FOCI_JSON_STRING)) shown = text;
        const foci_json *skipped = foci_json_at(foci_json_get(one, "skipped"), n);
        if (!foci_json_is(skipped, FOCI_JSON_STRING)) skipped = shown;
        check_decode(ctx, tokenizer, name, parsed, 0, shown);
        check_decode(ctx, tokenizer, name, parsed, FOCAL_DECODE_SKIP_SPECIAL, skipped);
    }
    if (!foci_json_get(one, "pre")) check_around(ctx, tokenizer, foci_json_get(one, "around"));
    focal_tokenizer_free(tokenizer);
}

static void vectors_are_met(void **state)
{
    focal_ctx *ctx = *state;
    foci_json *root = golden_json(ctx, "vectors");
    const foci_json *cases = foci_json_get(root, "cases");
    assert_true(foci_json_count(cases) > 30);
    for (int64_t n = 0; n < foci_json_count(cases); n++)
        check_case(ctx, foci_json_get(root, "texts"), foci_json_at(cases, n));
    foci_json_free(root);
}

/* The same vocabulary with its pattern named the GGUF way, where ids come with ignore_merges and a
 * begin token. */
static void gguf_llama3_equals_json(void **state)
{
    focal_ctx *ctx = *state;
    static const char text[] = "The keeper's ships<|end|> 12345 lightest\n\n  it'S";
    golden_source g;
    focal_tokenizer *a = golden_tokenizer(ctx, "llama3"), *b = NULL;
    focal_ids x = {0}, y = {0};
    golden_source_open(ctx, "llama3", &g);
    g.source.pre = (foci_text){"llama-bpe", 9};
    assert_status(ctx, foci_tokenizer_from_source(ctx, &g.source, &b), FOCAL_OK);
    golden_source_close(&g);
    assert_status(ctx, focal_tokenizer_encode(ctx, a, text, strlen(text), ADD | PARSE, &x),
                  FOCAL_OK);
    assert_status(ctx, focal_tokenizer_encode(ctx, b, text, strlen(text), ADD | PARSE, &y),
                  FOCAL_OK);
    assert_int_equal(x.count, y.count);
    assert_memory_equal(x.ids, y.ids, (size_t)x.count * sizeof *x.ids);
    assert_int_equal(x.ids[0], 0);
    focal_ids_free(ctx, &x);
    focal_ids_free(ctx, &y);
    focal_tokenizer_free(a);
    focal_tokenizer_free(b);
}

static void tokens_can_be_looked_at(void **state)
{
    focal_ctx *ctx = *state;
    focal_tokenizer *t = golden_tokenizer(ctx, "gpt2");
    const int32_t the = focal_tokenizer_find(t, " the", 4);
    const focal_token token = focal_tokenizer_token(t, the);
    assert_true(the > 0);
    assert_int_equal(token.kind, FOCAL_TOKEN_NORMAL);
    assert_int_equal(token.byte_count, 4);
    assert_memory_equal(token.bytes, " the", 4);
    const int32_t end = focal_tokenizer_find(t, "<|end|>", 7);
    assert_int_equal(focal_tokenizer_token(t, end).kind, FOCAL_TOKEN_CONTROL);
    assert_int_equal(focal_tokenizer_special(t).eot, end);
    assert_true(focal_tokenizer_is_end(t, end));
    assert_false(focal_tokenizer_is_end(t, the));
    assert_int_equal(focal_tokenizer_find(t, "no such", 7), -1);
    assert_int_equal(focal_tokenizer_find(t, "", 0), -1);
    assert_int_equal(focal_tokenizer_size(t), 420);
    assert_int_equal(focal_tokenizer_token(t, -1).kind, FOCAL_TOKEN_UNUSED);
    assert_int_equal(focal_tokenizer_token(t, 420).byte_count, 0);
    focal_tokenizer_free(t);
    t = golden_tokenizer(ctx, "llama2");
    const int32_t newline = focal_tokenizer_find(t, "<0x0A>", 6);
    assert_int_equal(focal_tokenizer_token(t, newline).kind, FOCAL_TOKEN_BYTE);
    assert_int_equal(focal_tokenizer_special(t).unk, 0);
    focal_tokenizer_free(t);
    focal_tokenizer_free(NULL);
}

/* Bytes that are no UTF-8 pass through byte-level and byte-fallback vocabularies unchanged. */
static void any_bytes_come_back(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"gpt2", "smollm", "llama3", "qwen2", "gemma"};
    char text[1024];
    for (size_t n = 0; n < sizeof text; n++) text[n] = (char)(n * 37 + n / 256 * 11);
    memcpy(text + 100, "\xC3(\xE2\x82 \xF0\x9F\x99 caf\xC3\xA9 \xED\xA0\x80\xC0\xAF", 21);
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        focal_tokenizer *t = golden_tokenizer(ctx, names[n]);
        focal_ids ids = {0};
        focal_buffer back = {0};
        assert_status(ctx, focal_tokenizer_encode(ctx, t, text, sizeof text, 0, &ids), FOCAL_OK);
        assert_status(ctx, focal_tokenizer_decode(ctx, t, ids.ids, ids.count, 0, &back), FOCAL_OK);
        assert_int_equal(back.bytes, sizeof text);
        assert_memory_equal(back.data, text, sizeof text);
        focal_ids_free(ctx, &ids);
        focal_buffer_free(ctx, &back);
        focal_tokenizer_free(t);
    }
}

typedef struct lost_case {
    const char *json; /* with ' for " */
    const char *text;
    int32_t ids[8];
    int64_t count, lost;
} lost_case;

/* Bytes that are no UTF-8 and have no token do not vanish: the unknown token or U+FFFD stands for
 * them. Characters without a token are left out, as the tokenizers package does it, and counted. */
static void bytes_without_token_are_marked(void **state)
{
    focal_ctx *ctx = *state;
#define BYTES "'\u00EF':0,'\u00BF':1,'\u00BD':2,'a':3,'\u00C3':4"
#define LEVEL "'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}"
    static const lost_case cases[] = {
        {"{'model':{'type':'BPE','vocab':{" BYTES "},'merges':[]}," LEVEL "}",
         "a\xFF"
         "a\xC3"
         "a\x04",
         {3, 0, 1, 2, 3, 4, 3},
         7,
         1},
        {"{'model':{'type':'BPE','vocab':{" BYTES "},'merges':[]}," LEVEL "}",
         "\xFE\xC3\xA9\xC3", /* half of the character has a token */
         {0, 1, 2, 4, 4},
         5,
         1},
        {"{'model':{'type':'BPE','vocab':{" BYTES ",'?':5},'merges':[],'unk_token':'?'}," LEVEL "}",
         "a\xFF\x04\xC3",
         {3, 5, 5, 4},
         4,
         0},
        {"{'model':{'type':'BPE','vocab':{'a':0,'\uFFFD':1},'merges':[]}}",
         "\xFF"
         "a\xC3",
         {1, 0, 1},
         3,
         0},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const lost_case *c = &cases[n];
        char json[512];
        foci_json *root = NULL;
        focal_tokenizer *t = NULL;
        focal_ids ids = {0};
        (void)snprintf(json, sizeof json, "%s", c->json);
        for (char *at = json; *at; at++)
            if (*at == '\'') *at = '"';
        assert_status(ctx, foci_json_parse(ctx, "test", json, strlen(json), &root), FOCAL_OK);
        assert_status(ctx, foci_tokenizer_from_json(ctx, "test", root, NULL, &t), FOCAL_OK);
        foci_json_free(root);
        assert_status(ctx, focal_tokenizer_encode(ctx, t, c->text, strlen(c->text), 0, &ids),
                      FOCAL_OK);
        assert_int_equal(ids.count, c->count);
        assert_memory_equal(ids.ids, c->ids, (size_t)c->count * sizeof ids.ids[0]);
        assert_int_equal(focal_tokenizer_lost(t, c->text, strlen(c->text)), c->lost);
        focal_ids_free(ctx, &ids);
        focal_tokenizer_free(t);
    }
}

/* A text long enough for the cache and for the tree of ranks gives what its parts give. */
static void long_texts_equal_their_words(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"gpt2", "sentencepiece"};
    static const char *const words[] = {" the", " keeper",   " ships",
                                        " x",   " lightest", " shipping"};
    for (size_t k = 0; k < FOCAL_COUNT(names); k++) {
        golden_source g;
        focal_tokenizer *t = NULL;
        focal_ids whole = {0}, parts = {0};
        focal_buffer text = {0};
        golden_source_open(ctx, names[k], &g);
        g.source.pre = (foci_text){"gpt-2", 5};
        g.source.add_space_prefix = 0;
        assert_status(ctx, foci_tokenizer_from_source(ctx, &g.source, &t), FOCAL_OK);
        golden_source_close(&g);
        for (uint32_t n = 0; n < 4000; n++) {
            const char *word = words[(7 * n + n / 5) % FOCAL_COUNT(words)];
            assert_status(ctx, foci_buffer_put(ctx, &text, word, strlen(word)), FOCAL_OK);
            assert_status(ctx, focal_tokenizer_encode(ctx, t, word, strlen(word), 0, &parts),
                          FOCAL_OK);
        }
        assert_status(ctx, focal_tokenizer_encode(ctx, t, text.data, text.bytes, 0, &whole),
                      FOCAL_OK);
        assert_int_equal(whole.count, parts.count);
        assert_memory_equal(whole.ids, parts.ids, (size_t)whole.count * sizeof *whole.ids);
        focal_ids_free(ctx, &whole);
        focal_ids_free(ctx, &parts);
        focal_buffer_free(ctx, &text);
        focal_tokenizer_free(t);
    }
}

static void wrong_calls_are_told(void **state)
{
    focal_ctx *ctx = *state;
    focal_tokenizer *t = golden_tokenizer(ctx, "gpt2");
    focal_ids ids = {0};
    focal_buffer text = {0};
    const int32_t outside[] = {5, 420};
    assert_status(ctx, focal_tokenizer_encode(ctx, t, "abc", 3, 0, &ids), FOCAL_OK);
    const int64_t before = ids.count;
    assert_status(ctx, focal_tokenizer_encode(ctx, t, "abc", 3, 64, &ids), FOCAL_EINVAL);
    assert_status(ctx, focal_tokenizer_encode(ctx, t, NULL, 3, 0, &ids), FOCAL_EINVAL);
    assert_status(ctx, focal_tokenizer_encode(ctx, t, NULL, 0, 0, &ids), FOCAL_OK);
    assert_int_equal(ids.count, before);
    assert_status(ctx, focal_tokenizer_decode(ctx, t, outside, 2, 0, &text), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "decode: id 420, the vocabulary ends at 420");
    assert_int_equal(text.bytes, 0);
    assert_status(ctx, focal_tokenizer_decode(ctx, t, outside, 1, 8, &text), FOCAL_EINVAL);
    focal_text_stream stream = {0};
    assert_status(ctx, focal_text_stream_push(ctx, t, &stream, -1, &text), FOCAL_EINVAL);
    assert_false(stream.has_begun);
    focal_ids_free(ctx, &ids);
    focal_buffer_free(ctx, &text);
    focal_tokenizer_free(t);
}

/* Loads and uses a tokenizer; the first failure is returned. */
static focal_status try_all(focal_ctx *ctx, const foci_json *root, const foci_vocab_source *source)
{
    static const char text[] =
        "The keeper's <|end|> caf\xC3\xA9 \xFF mask [MASK] 12 and then a word "
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    focal_tokenizer *t = NULL;
    focal_ids ids = {0};
    focal_buffer back = {0};
    focal_text_stream stream = {0};
    focal_status status = root ? foci_tokenizer_from_json(ctx, "test", root, NULL, &t)
                               : foci_tokenizer_from_source(ctx, source, &t);
    if (status == FOCAL_OK)
        status = focal_tokenizer_encode(ctx, t, text, strlen(text), ADD | PARSE, &ids);
    if (status == FOCAL_OK) status = focal_tokenizer_decode(ctx, t, ids.ids, ids.count, 0, &back);
    for (int64_t n = 0; n < ids.count && status == FOCAL_OK; n++)
        status = focal_text_stream_push(ctx, t, &stream, ids.ids[n], &back);
    focal_ids_free(ctx, &ids);
    focal_buffer_free(ctx, &back);
    focal_tokenizer_free(t);
    return status;
}

static void failing_memory_leaves_nothing(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"prefix", "llama2", "unigram_bytes", "split0", "mistral"};
    for (size_t k = 0; k <= FOCAL_COUNT(names); k++) {
        golden_source g = {0};
        foci_json *root = k < FOCAL_COUNT(names) ? golden_json(ctx, names[k]) : NULL;
        if (!root) golden_source_open(ctx, "sentencepiece", &g);
        focal_status status = FOCAL_ENOMEM;
        for (int64_t n = 1; status != FOCAL_OK; n++) {
            focal_ctx_trim(ctx);
            const int64_t live = memory_live_blocks();
            memory_fail(n, true);
            status = try_all(ctx, root, &g.source);
            memory_fail(0, false);
            focal_ctx_trim(ctx);
            assert_int_equal(memory_live_blocks(), live);
            if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
            assert_in_range(n, 1, 2000);
        }
        foci_json_free(root);
        golden_source_close(&g);
    }
}

/* Llama.cpp's ids of a real vocabulary, where the files are there. */
static void real_model_meets_its_vectors(void **state)
{
    focal_ctx *ctx = *state;
    const char *data = getenv("FOCAL_TEST_DATA"), *models = getenv("FOCAL_TEST_MODELS");
    if (!data || !models)
        skip_without("a real vocabulary and its ids",
                     "FOCAL_TEST_MODELS and FOCAL_TEST_DATA name folders (docs/TESTING.md)");
    char path[1024];
    foci_gguf *gguf = NULL;
    focal_tokenizer *t = NULL;
    (void)snprintf(path, sizeof path, "%s/smollm2-tokens.json", data);
    foci_json *root = json_file(ctx, path);
    (void)snprintf(path, sizeof path, "%s/SmolLM2-135M-Instruct.Q4_1.gguf", models);
    assert_status(ctx, foci_gguf_open(ctx, path, &gguf), FOCAL_OK);
    assert_status(ctx, foci_tokenizer_from_gguf(ctx, gguf, &t), FOCAL_OK);
    foci_gguf_close(gguf);
    assert_int_equal(foci_json_count(root), 95);
    for (int64_t n = 0; n < foci_json_count(root); n++) {
        const foci_json *one = foci_json_at(root, n), *text = foci_json_get(one, "text");
        const foci_json *plain = foci_json_get(one, "ids_plain");
        assert_encodes(ctx, t, "SmolLM2", text, PARSE, foci_json_get(one, "ids"));
        if (plain) assert_encodes(ctx, t, "SmolLM2, plain", text, 0, plain);
        check_decode(ctx, t, "SmolLM2", foci_json_get(one, "ids"), 0, text);
    }
    const focal_special_ids special = focal_tokenizer_special(t);
    assert_int_equal(special.bos, 1);
    assert_int_equal(special.eos, 2);
    assert_int_equal(special.eot, 2);
    assert_false(special.add_bos);
    assert_true(focal_tokenizer_is_end(t, 0));
    foci_json_free(root);
    focal_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(vectors_are_met, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gguf_llama3_equals_json, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tokens_can_be_looked_at, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(any_bytes_come_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bytes_without_token_are_marked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(long_texts_equal_their_words, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_calls_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(real_model_meets_its_vectors, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("tokenizer", tests, NULL, NULL);
}
