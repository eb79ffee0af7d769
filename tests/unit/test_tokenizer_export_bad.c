/* What cannot be exported: each gets its status and one sentence that names the part, and no file
 * appears. */
#include "support/tokenizer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_export.h"

typedef struct bad_part {
    const char *json; /* with ' for " */
    const char *message;
} bad_part;

#define MODEL "'model':{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']}"
#define BYTES "'pre_tokenizer':{'type':'ByteLevel','add_prefix_space':false},"
#define SPLIT "'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Split','pattern':"
#define LEVEL ",{'type':'ByteLevel','add_prefix_space':false,'use_regex':false}]},"
#define ADDED "'added_tokens':[{'id':3,'content':'<x>','special':true"

static const bad_part byte_level[] = {
    {"{'pre_tokenizer':{'type':'ByteLevel'}," MODEL "}", "ByteLevel: add_prefix_space"},
    {"{" SPLIT "{'Regex':'[a-z]+'}}" LEVEL MODEL "}",
     "GGUF has no name for its 1 patterns, the first '[a-z]+'"},
    {"{" SPLIT "{'String':'x'}}" LEVEL MODEL "}", "Split: a pattern that is no Regex"},
    {"{" SPLIT "{'Regex':'x'},'behavior':'Removed'}" LEVEL MODEL "}", "other than Isolated"},
    {"{" SPLIT "{'Regex':'x'},'invert':true}" LEVEL MODEL "}", "other than Isolated"},
    {"{'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Digits'}" LEVEL MODEL "}",
     "Digits: individual_digits false"},
    {"{'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'Punctuation'}" LEVEL MODEL "}",
     "pre_tokenizer Punctuation cannot be said"},
    {"{" BYTES "'normalizer':{'type':'NFKC'}," MODEL "}", "a normalizer other than NFC"},
    {"{" BYTES "'normalizer':{'type':'Lowercase'}," MODEL "}", "a normalizer other than NFC"},
    {"{" BYTES "'model':{'type':'BPE','ignore_merges':true,'vocab':{'a':0},'merges':[]}}",
     "model.ignore_merges true"},
    {"{" BYTES "'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}", "without merges"},
    {"{" BYTES "'model':{'type':'BPE','unk_token':'a','vocab':{'a':0,'b':1,'ab':2},"
     "'merges':['a b']}}",
     "model.unk_token for bytes without a token"},
    {"{" BYTES ADDED ",'lstrip':true}]," MODEL "}", "added token '<x>': lstrip"},
    {"{" BYTES ADDED ",'rstrip':true}]," MODEL "}", "added token '<x>': rstrip"},
    {"{" BYTES ADDED ",'single_word':true}]," MODEL "}", "added token '<x>': single_word"},
    {"{" BYTES ADDED "}],'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':"
     "{'id':'<x>'}},{'SpecialToken':{'id':'<x>'}},{'Sequence':{'id':'A'}}],'special_tokens':{'<x>':"
     "{'ids':[3]}}}," MODEL "}",
     "before a text other than bos_token"},
    {"{" BYTES ADDED "}],'post_processor':{'type':'TemplateProcessing','single':[{'Sequence':"
     "{'id':'A'}},{'SpecialToken':{'id':'<x>'}}],'special_tokens':{'<x>':{'ids':[3]}}}," MODEL "}",
     "behind a text other than eos_token"},
};

static void expect(focal_ctx *ctx, const folder *f, const foci_json *json, focal_status status,
                   const char *message)
{
    const focal_status got = write_gguf(ctx, f, json, NULL, 600);
    if (got != status || !strstr(focal_ctx_error(ctx), message))
        fail_msg("status %d, '%s', instead of %d and '%s'", (int)got, focal_ctx_error(ctx),
                 (int)status, message);
    assert_int_equal(strncmp(focal_ctx_error(ctx), "t.json: ", 8), 0);
    assert_int_equal(folder_count(f), 0);
}

static void byte_level_parts_are_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(byte_level); n++) {
        foci_json *json = quoted_json(ctx, byte_level[n].json);
        expect(ctx, &f, json, FOCAL_EUNSUPPORTED, byte_level[n].message);
        foci_json_free(json);
    }
    foci_json *empty = quoted_json(ctx, "{}");
    expect(ctx, &f, empty, FOCAL_EFORMAT, "model.type is missing");
    foci_json_free(empty);
    folder_remove(&f);
}

/* A tokenizer over characters: 256 byte tokens, then `vocab`, from id 256 on. */
static foci_json *characters(focal_ctx *ctx, const char *parts, const char *vocab,
                             const char *merges)
{
    enum { ROOM = 8192 };
    char *text = new_array(ROOM, 1);
    size_t used = (size_t)snprintf(text, ROOM,
                                   "{%s'model':{'type':'BPE','byte_fallback':true,"
                                   "'vocab':{",
                                   parts);
    for (unsigned n = 0; n < 256; n++)
        used += (size_t)snprintf(text + used, ROOM - used, "'<0x%02X>':%u,", n, n);
    (void)snprintf(text + used, ROOM - used, "%s},'merges':[%s]}}", vocab, merges);
    foci_json *root = quoted_json(ctx, text);
    free(text);
    return root;
}

#define SIGN "'normalizer':{'type':'Replace','pattern':{'String':' '},'content':'\xE2\x96\x81'},"
#define META "'pre_tokenizer':{'type':'Metaspace','replacement':"
#define ABC "'a':256,'b':257,'c':258,'ab':259,'bc':260,'abc':261"

static const struct {
    const char *parts, *vocab, *merges, *message; /* no message: it must work */
} over_characters[] = {
    {SIGN, ABC, "'a b','b c','ab c','a bc'", NULL},
    {SIGN, ABC, "'a b','b c','ab c'", NULL}, /* a and bc never meet: ab comes first */
    {SIGN, ABC, "'b c','a b','ab c'", "model.merges do not make 'abc'"},
    {SIGN, ABC, "'b c','a b'", "model.merges do not make 'abc'"},
    {SIGN, "'a':256,'ab':257", "", "model.merges do not make 'ab'"},  /* b has no token */
    {SIGN, "'a':256,'a\xC3\xA9':257", "", "do not make 'a\xC3\xA9'"}, /* nor do its bytes count */
    {SIGN, "'a':256,'axy':257", "", NULL},                            /* three symbols */
    {SIGN, ABC, "'a b','ab c','b c','a bc'", "merge 3 makes 'abc' again"},
    {SIGN ADDED "},{'id':257,'content':'bb'}],", "'b':256", "", "id 3 is both"},
    {SIGN "'added_tokens':[{'id':257,'content':'bb'}],", "'b':256", "", NULL}, /* is cut out */
    {SIGN "'added_tokens':[{'id':257,'content':'\xE2\x96\x81\xE2\x96\x81'}],", "'\xE2\x96\x81':256",
     "", "model.merges do not make"},
    {SIGN "'added_tokens':[{'id':257,'content':'b b'}],", "'b':256", "", "'b b': normalized"},
    {"", "'a':256", "", "leaves spaces as they are"},
    {"'normalizer':{'type':'NFC'},", "'a':256", "", "a normalizer other than U+2581"},
    {"'normalizer':{'type':'Prepend','prepend':'x'},", "'a':256", "", "a normalizer other"},
    {"'normalizer':{'type':'Sequence','normalizers':[{'type':'Prepend','prepend':'\xE2\x96\x81'},"
     "{'type':'Prepend','prepend':'\xE2\x96\x81'}]},",
     "'a':256", "", "Prepend, twice"},
    {META "'_'},", "'a':256", "", "Metaspace: a replacement"},
    {META "'\xE2\x96\x81'},", "'a':256,'\xE2\x96\x81':257,'a\xE2\x96\x81':258", "'a \xE2\x96\x81'",
     "tokens reach across spaces"},
    {META "'\xE2\x96\x81'},",
     "'a':256,'\xE2\x96\x81':257,'\xE2\x96\x81"
     "a':258",
     "'\xE2\x96\x81 a'", NULL},
    {SIGN "'pre_tokenizer':{'type':'Whitespace'},", "'a':256", "", "other than Metaspace"},
    {"'pre_tokenizer':{'type':'Split','pattern':{'String':' '}},", "'a':256", "",
     "other than Metaspace"},
};

static void parts_over_characters_are_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(over_characters); n++) {
        foci_json *json = characters(ctx, over_characters[n].parts, over_characters[n].vocab,
                                     over_characters[n].merges);
        const char *message = over_characters[n].message;
        if (message && strstr(message, "id 3"))
            expect(ctx, &f, json, FOCAL_EFORMAT, message);
        else if (message)
            expect(ctx, &f, json, FOCAL_EUNSUPPORTED, message);
        else
            assert_status(ctx, write_gguf(ctx, &f, json, NULL, 300), FOCAL_OK);
        if (!message) assert_int_equal(remove(folder_file(&f, "t.gguf")), 0);
        foci_json_free(json);
    }
    folder_remove(&f);
}

static void other_models_are_told(void **state)
{
    focal_ctx *ctx = *state;
    static const bad_part files[] = {
        {"{" SIGN "'model':{'type':'BPE','vocab':{'a':0},'merges':[]}}",
         "model.byte_fallback false"},
        {"{" SIGN "'model':{'type':'BPE','byte_fallback':true,'vocab':{'a':0},'merges':[]}}",
         "no token <0x00>"},
        {"{" SIGN "'model':{'type':'BPE','byte_fallback':true,'ignore_merges':true,"
         "'vocab':{'a':0},'merges':[]}}",
         "model.ignore_merges true"},
        {"{" SIGN "'model':{'type':'Unigram','vocab':[['a',0]],'byte_fallback':true,'unk_id':0}}",
         "byte_fallback of Unigram"},
        {"{" SIGN "'model':{'type':'Unigram','vocab':[['a',0]]}}", "without model.unk_id"},
    };
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(files); n++) {
        foci_json *json = quoted_json(ctx, files[n].json);
        expect(ctx, &f, json, FOCAL_EUNSUPPORTED, files[n].message);
        foci_json_free(json);
    }
    /* The golden tokenizers that only tokenizer.json can say. */
    static const char *const names[] = {"prefix", "unigram", "unigram_bytes", "normal0", "split0"};
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        foci_json *json = golden_json(ctx, names[n]);
        expect(ctx, &f, json, FOCAL_EUNSUPPORTED, "");
        foci_json_free(json);
    }
    folder_remove(&f);
}

/* A small GGUF vocabulary, with `odd` as its last token. */
static void write_odd(focal_ctx *ctx, const folder *f, const char *model, const char *odd,
                      int64_t type)
{
    const foci_text tokens[] = {{"a", 1}, {"b", 1}, {"ab", 2}, foci_text_of(odd)};
    const int64_t types[] = {1, 1, 1, type};
    const float scores[] = {0, 0, -1, -2};
    const foci_text merges[] = {{"a b", 3}};
    const foci_vocab_source source = {.what = "t.gguf",
                                      .model = foci_text_of(model),
                                      .pre = {"gpt-2", 5},
                                      .tokens = tokens,
                                      .scores = scores,
                                      .types = types,
                                      .merges = merges,
                                      .token_count = 4,
                                      .merge_count = 1,
                                      .bos = -1,
                                      .eos = -1,
                                      .eot = -1,
                                      .unk = -1,
                                      .pad = -1,
                                      .add_bos = -1,
                                      .add_eos = -1,
                                      .add_space_prefix = -1};
    write_source(ctx, f, &source);
}

static void expect_json(focal_ctx *ctx, const folder *f, focal_status status, const char *message)
{
    const focal_status got = gguf_to_json(ctx, f);
    if (got != status || !strstr(focal_ctx_error(ctx), message))
        fail_msg("status %d, '%s', instead of %d and '%s'", (int)got, focal_ctx_error(ctx),
                 (int)status, message);
    assert_non_null(strstr(focal_ctx_error(ctx), "t.gguf: "));
    assert_int_equal(folder_count(f), 1);
}

static void gguf_vocabularies_are_told(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char long_token[300];
    memset(long_token, 'a', sizeof long_token - 1);
    long_token[sizeof long_token - 1] = '\0';
    write_odd(ctx, &f, "llama", "\xFF", FOCAL_TOKEN_NORMAL);
    expect_json(ctx, &f, FOCAL_EFORMAT, "token 3 is no UTF-8");
    write_odd(ctx, &f, "gpt2", "\xC3", FOCAL_TOKEN_CONTROL);
    expect_json(ctx, &f, FOCAL_EFORMAT, "token 3 is no UTF-8");
    write_odd(ctx, &f, "gpt2", "ab", FOCAL_TOKEN_CONTROL);
    expect_json(ctx, &f, FOCAL_EUNSUPPORTED, "has the name of another one");
    write_odd(ctx, &f, "llama", long_token, FOCAL_TOKEN_NORMAL);
    expect_json(ctx, &f, FOCAL_EUNSUPPORTED, "token 3 has 299 bytes, at most 256");
    write_odd(ctx, &f, "bert", "c", FOCAL_TOKEN_NORMAL);
    expect_json(ctx, &f, FOCAL_EUNSUPPORTED, "tokenizer.ggml.model 'bert'");
    write_odd(ctx, &f, "llama", "c", 9);
    expect_json(ctx, &f, FOCAL_EFORMAT, "token 3 is of type 7");
    /* An unused token may be anything, for it has no place in the file. */
    write_odd(ctx, &f, "gpt2", "\xFF", FOCAL_TOKEN_UNUSED);
    assert_status(ctx, gguf_to_json(ctx, &f), FOCAL_OK);
    folder_remove(&f);
}

/* Keys of wrong types, and those of Unigram that are not done here. */
static void gguf_keys_are_told(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *model, *key;
        enum { U32, BOOL, TEXT } type;
        focal_status status;
        const char *message;
    } cases[] = {
        {"gpt2", "tokenizer.ggml.merges", U32, FOCAL_EFORMAT, "tokenizer.ggml.merges"},
        {"gpt2", "tokenizer.ggml.token_type", TEXT, FOCAL_EFORMAT, "tokenizer.ggml.token_type"},
        {"gpt2", "tokenizer.ggml.pre", U32, FOCAL_EFORMAT, "tokenizer.ggml.pre"},
        {"gpt2", "tokenizer.ggml.bos_token_id", TEXT, FOCAL_EFORMAT, "bos_token_id"},
        {"t5", "tokenizer.ggml.precompiled_charsmap", TEXT, FOCAL_EUNSUPPORTED, "charsmap"},
        {"t5", "tokenizer.ggml.remove_extra_whitespaces", BOOL, FOCAL_EUNSUPPORTED, "whitespaces"},
        {"t5", "tokenizer.ggml.scores", TEXT, FOCAL_EFORMAT, "tokenizer.ggml.scores"},
        {"t5", "tokenizer.chat_template", U32, FOCAL_EFORMAT, "scores is missing"},
    };
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const foci_text tokens[] = {{"a", 1}, {"b", 1}};
        foci_gguf_writer *w = NULL;
        focal_status status = FOCAL_OK;
        assert_status(ctx, foci_gguf_writer_new(ctx, &w), FOCAL_OK);
        assert_status(ctx,
                      foci_gguf_put_text(w, "tokenizer.ggml.model", foci_text_of(cases[n].model)),
                      FOCAL_OK);
        assert_status(ctx, foci_gguf_put_texts(w, "tokenizer.ggml.tokens", tokens, 2), FOCAL_OK);
        if (cases[n].type == U32) status = foci_gguf_put_u32(w, cases[n].key, 1);
        if (cases[n].type == BOOL) status = foci_gguf_put_bool(w, cases[n].key, true);
        if (cases[n].type == TEXT) status = foci_gguf_put_text(w, cases[n].key, tokens[0]);
        assert_status(ctx, status, FOCAL_OK);
        assert_status(ctx, foci_gguf_writer_commit(w, folder_file(&f, "t.gguf"), NULL, NULL),
                      FOCAL_OK);
        foci_gguf_writer_free(w);
        expect_json(ctx, &f, cases[n].status, cases[n].message);
    }
    folder_remove(&f);
}

static void folder_must_be_there(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_gguf *gguf = NULL;
    write_odd(ctx, &f, "gpt2", "c", FOCAL_TOKEN_NORMAL);
    assert_status(ctx, foci_gguf_open(ctx, folder_file(&f, "t.gguf"), &gguf), FOCAL_OK);
    assert_status(ctx, foci_tokenizer_write_json(ctx, gguf, folder_file(&f, "none")), FOCAL_EIO);
    foci_gguf_close(gguf);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(byte_level_parts_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(parts_over_characters_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_models_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gguf_vocabularies_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gguf_keys_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(folder_must_be_there, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("tokenizer export, bad", tests, NULL, NULL);
}
