/* Bad tokenizer files: each gets its status and one sentence that names the file, the field and the
 * value. */
#include "support/golden_tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tokenizer.json with ' for ", how it must fail, and what the message must contain. */
typedef struct bad_json {
    const char *json;
    focal_status status;
    const char *message;
} bad_json;

#define BPE "'model':{'type':'BPE','vocab':{'a':0,'b':1,'ab':2},'merges':['a b']}"

static const bad_json bad_files[] = {
    {"[]", FOCAL_EFORMAT, "model.type is missing"},
    {"{}", FOCAL_EFORMAT, "model.type is missing"},
    {"{'model':{'type':7}}", FOCAL_EFORMAT, "model.type is missing"},
    {"{'model':{'type':'WordPiece'}}", FOCAL_EUNSUPPORTED, "'WordPiece' is not supported"},
    {"{'model':{'type':'WordLevel'}}", FOCAL_EUNSUPPORTED, "'WordLevel' is not supported"},
    {"{'model':{'type':'BPE'}}", FOCAL_EFORMAT, "model.vocab is missing"},
    {"{'model':{'type':'BPE','vocab':{},'merges':[]}}", FOCAL_EFORMAT, "0 tokens"},
    {"{'model':{'type':'BPE','vocab':{'a':0}}}", FOCAL_EFORMAT, "model.merges is missing"},
    {"{'model':{'type':'BPE','vocab':{'a':-1},'merges':[]}}", FOCAL_EFORMAT, "'a' has id -1"},
    {"{'model':{'type':'BPE','vocab':{'a':'x'},'merges':[]}}", FOCAL_EFORMAT, "'a' has id -1"},
    {"{'model':{'type':'BPE','vocab':{'a':99999999999},'merges':[]}}", FOCAL_EFORMAT,
     "id 99999999999"},
    {"{'model':{'type':'BPE','vocab':{'a':4000},'merges':[]}}", FOCAL_EFORMAT,
     "id 4000 with only 1 tokens"},
    {"{'model':{'type':'BPE','vocab':{'a':0,'b':0},'merges':[]}}", FOCAL_EFORMAT,
     "id 0 is both 'a' and 'b'"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':['a b']}}", FOCAL_EFORMAT,
     "merge 0: 'b' is no token"},
    {"{'model':{'type':'BPE','vocab':{'a':0,'b':1},'merges':['a b']}}", FOCAL_EFORMAT,
     "merge 0 makes 'ab', which is no token"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':['a']}}", FOCAL_EFORMAT,
     "merge 0 is no pair"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[['a']]}}", FOCAL_EFORMAT,
     "merge 0 is no pair"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[3]}}", FOCAL_EFORMAT, "merge 0 is no pair"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[],'unk_token':'x'}}", FOCAL_EFORMAT,
     "model.unk_token is no token"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[],'end_of_word_suffix':'x'}}",
     FOCAL_EUNSUPPORTED, "model.end_of_word_suffix"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[],'continuing_subword_prefix':'#'}}",
     FOCAL_EUNSUPPORTED, "model.continuing_subword_prefix"},
    {"{'model':{'type':'BPE','vocab':{'a':0},'merges':[],'dropout':0.1}}", FOCAL_EUNSUPPORTED,
     "model.dropout"},
    {"{'model':{'type':'Unigram','vocab':[['a']]}}", FOCAL_EFORMAT, "model.vocab 0 is no text"},
    {"{'model':{'type':'Unigram','vocab':[['a',0],['a',1]]}}", FOCAL_EFORMAT,
     "tokens 0 and 1 are both 'a'"},
    {"{'model':{'type':'Unigram','vocab':[['a',0]],'unk_id':1}}", FOCAL_EFORMAT, "model.unk_id"},
    {"{" BPE ",'added_tokens':[{'id':3}]}", FOCAL_EFORMAT, "added_tokens 0 has no content"},
    {"{" BPE ",'added_tokens':[{'id':-3,'content':'x'}]}", FOCAL_EFORMAT, "'x' has id -3"},
    {"{" BPE ",'added_tokens':[{'id':0,'content':'x'}]}", FOCAL_EFORMAT,
     "id 0 is both 'a' and 'x'"},
    {"{" BPE ",'normalizer':{'type':'Precompiled'}}", FOCAL_EUNSUPPORTED,
     "normalizer of type 'Precompiled'"},
    {"{" BPE ",'normalizer':{'type':'Replace','content':''}}", FOCAL_EFORMAT, "Replace: pattern"},
    {"{" BPE ",'normalizer':{'type':'Replace','pattern':{'String':''},'content':''}}",
     FOCAL_EFORMAT, "Replace: pattern"},
    {"{" BPE ",'normalizer':{'type':'Replace','pattern':{'Regex':'('},'content':''}}",
     FOCAL_EFORMAT, "pattern '('"},
    {"{" BPE ",'normalizer':{'type':'Prepend'}}", FOCAL_EFORMAT, "Prepend: prepend"},
    {"{" BPE ",'normalizer':{}}", FOCAL_EFORMAT, "normalizer ?: type"},
    {"{" BPE ",'normalizer':{'type':'Sequence'}}", FOCAL_EFORMAT, "Sequence: normalizers"},
    {"{" BPE ",'pre_tokenizer':{'type':'BertPreTokenizer'}}", FOCAL_EUNSUPPORTED,
     "pre_tokenizer of type 'BertPreTokenizer'"},
    {"{" BPE ",'pre_tokenizer':{'type':'Split','pattern':{'Regex':'[a'}}}", FOCAL_EFORMAT,
     "pattern '[a'"},
    {"{" BPE ",'pre_tokenizer':{'type':'Split','pattern':{'String':'a'},'behavior':'Odd'}}",
     FOCAL_EFORMAT, "Split: behavior"},
    {"{" BPE ",'pre_tokenizer':{'type':'Metaspace'}}", FOCAL_EFORMAT, "Metaspace: replacement"},
    {"{" BPE ",'pre_tokenizer':{'type':'Metaspace','replacement':'_','prepend_scheme':'odd'}}",
     FOCAL_EFORMAT, "Metaspace: prepend_scheme"},
    {"{" BPE ",'pre_tokenizer':{'type':'Sequence','pretokenizers':[{'type':'ByteLevel'},"
     "{'type':'Digits'}]}}",
     FOCAL_EUNSUPPORTED, "Digits behind ByteLevel"},
    {"{" BPE ",'decoder':{'type':'CTC'}}", FOCAL_EUNSUPPORTED, "decoder of type 'CTC'"},
    {"{" BPE ",'decoder':{'type':'Strip','content':' ','start':1,'stop':1}}", FOCAL_EUNSUPPORTED,
     "Strip of anything"},
    {"{" BPE ",'decoder':{'type':'Strip','content':' ','start':1}}", FOCAL_EUNSUPPORTED,
     "Strip before Fuse"},
    {"{" BPE ",'post_processor':{'type':'Odd'}}", FOCAL_EUNSUPPORTED,
     "post_processor of type 'Odd'"},
    {"{" BPE ",'post_processor':{'type':'TemplateProcessing'}}", FOCAL_EFORMAT, "single"},
    {"{" BPE ",'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':"
     "'x'}}],'special_tokens':{'x':{'ids':[3]}}}}",
     FOCAL_EFORMAT, "post_processor: id 3, the vocabulary ends at 3"},
    {"{" BPE ",'post_processor':{'type':'TemplateProcessing','single':[{'SpecialToken':{'id':"
     "'x'}}],'special_tokens':{}}}",
     FOCAL_EFORMAT, "special_tokens"},
};

/* text behind the `used` bytes of a string with room for `room`. */
static size_t append(char *to, size_t room, size_t used, const char *text)
{
    return used + (size_t)snprintf(to + used, room - used, "%s", text);
}

static focal_status load(focal_ctx *ctx, const char *quoted, focal_tokenizer **out)
{
    const size_t bytes = strlen(quoted);
    char *text = new_array(bytes + 1, 1);
    foci_json *root = NULL;
    for (size_t n = 0; n < bytes; n++)
        if ((text[n] = quoted[n]) == '\'') text[n] = '"';
    assert_status(ctx, foci_json_parse(ctx, "t.json", text, bytes, &root), FOCAL_OK);
    const focal_status status = foci_tokenizer_from_json(ctx, "t.json", root, NULL, out);
    foci_json_free(root);
    free(text);
    return status;
}

static void expect(focal_ctx *ctx, const char *what, focal_status got, focal_status status,
                   const char *message)
{
    if (got != status || !strstr(focal_ctx_error(ctx), message))
        fail_msg("%s: status %d, '%s'; expected %d with '%s'", what, (int)got, focal_ctx_error(ctx),
                 (int)status, message);
}

static void bad_files_are_told(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(bad_files); n++) {
        focal_tokenizer *t = NULL;
        const focal_status status = load(ctx, bad_files[n].json, &t);
        assert_null(t);
        expect(ctx, bad_files[n].json, status, bad_files[n].status, bad_files[n].message);
    }
}

/* Sizes that the table cannot write down: a token too long, Sequences too deep, too many parts. */
static void sizes_have_limits(void **state)
{
    focal_ctx *ctx = *state;
    enum { ROOM = 1 << 14 };
    char *json = new_array(ROOM, 1);
    focal_tokenizer *t = NULL;
    (void)snprintf(json, ROOM, "{'model':{'type':'BPE','vocab':{'%0*d':0},'merges':[]}}", 4097, 7);
    expect(ctx, "long token", load(ctx, json, &t), FOCAL_EFORMAT, "token 0 has 4097 bytes");
    (void)snprintf(json, ROOM, "{'model':{'type':'BPE','vocab':{'%0*d':0},'merges':[]}}", 4096, 7);
    assert_status(ctx, load(ctx, json, &t), FOCAL_OK);
    focal_tokenizer_free(t);
    size_t used = 0;
    used = append(json, ROOM, used, "{" BPE ",'normalizer':");
    for (int n = 0; n < 9; n++)
        used = append(json, ROOM, used, "{'type':'Sequence','normalizers':[");
    used = append(json, ROOM, used, "{'type':'NFC'}");
    for (int n = 0; n < 9; n++) used = append(json, ROOM, used, "]}");
    (void)append(json, ROOM, used, "}");
    expect(ctx, "depth", load(ctx, json, &t), FOCAL_EFORMAT, "nested deeper than 8");
    used = append(json, ROOM, 0,
                  "{" BPE ",'normalizer':{'type':'Sequence','normalizers':[{'type':'NFC'}");
    for (int n = 0; n < 16; n++) used = append(json, ROOM, used, ",{'type':'NFC'}");
    (void)append(json, ROOM, used, "]}}");
    expect(ctx, "parts", load(ctx, json, &t), FOCAL_EUNSUPPORTED, "more than 16 parts");
    used = append(json, ROOM, 0, "{" BPE ",'pre_tokenizer':{'type':'Sequence','pretokenizers':[");
    for (int n = 0; n < 12; n++) used = append(json, ROOM, used, "{'type':'WhitespaceSplit'},");
    (void)append(json, ROOM, used, "{'type':'WhitespaceSplit'}]}}");
    expect(ctx, "steps", load(ctx, json, &t), FOCAL_EUNSUPPORTED, "more than 12 steps");
    free(json);
}

/* How a good source becomes a bad one. */
typedef void (*spoil)(foci_vocab_source *source);

static void spoil_model(foci_vocab_source *s)
{
    s->model = (foci_text){"bert", 4};
}
static void spoil_pre(foci_vocab_source *s)
{
    s->pre = (foci_text){"no-such", 7};
}
static void spoil_bos(foci_vocab_source *s)
{
    s->bos = s->token_count;
}
static void spoil_merges(foci_vocab_source *s)
{
    static const foci_text merge = {"a nosuch", 8};
    s->merges = &merge;
    s->merge_count = 1;
}
static void spoil_merge_space(foci_vocab_source *s)
{
    static const foci_text merge = {"ab", 2};
    s->merges = &merge;
    s->merge_count = 1;
}
static void spoil_no_merges(foci_vocab_source *s)
{
    s->merge_count = 0;
}
static void spoil_types(foci_vocab_source *s)
{
    static int64_t types[4096];
    memcpy(types, s->types, (size_t)s->token_count * sizeof *types);
    types[5] = 9;
    s->types = types;
}
static void spoil_count(foci_vocab_source *s)
{
    s->token_count = 0;
}
static void spoil_twins(foci_vocab_source *s)
{
    static foci_text tokens[4096];
    memcpy(tokens, s->tokens, (size_t)s->token_count * sizeof *tokens);
    tokens[41] = tokens[40];
    s->tokens = tokens;
}
static void spoil_scores(foci_vocab_source *s)
{
    static float scores[4096];
    s->model = (foci_text){"llama", 5};
    scores[3] = 1.0F / scores[2];
    s->scores = scores;
}
static void spoil_no_scores(foci_vocab_source *s)
{
    s->model = (foci_text){"llama", 5};
}

static const struct {
    spoil how;
    focal_status status;
    const char *message;
} bad_sources[] = {
    {spoil_model, FOCAL_EUNSUPPORTED, "tokenizer.ggml.model 'bert'"},
    {spoil_pre, FOCAL_EUNSUPPORTED, "tokenizer.ggml.pre 'no-such'"},
    {spoil_bos, FOCAL_EFORMAT, "bos_token_id is 420, the vocabulary ends at 420"},
    {spoil_merges, FOCAL_EFORMAT, "merge 0, 'a nosuch', is no pair of tokens"},
    {spoil_merge_space, FOCAL_EFORMAT, "merge 0, 'ab', is no pair of tokens"},
    {spoil_no_merges, FOCAL_EFORMAT, "tokenizer.ggml.merges is missing"},
    {spoil_types, FOCAL_EFORMAT, "token 5 is of type"},
    {spoil_count, FOCAL_EFORMAT, "0 tokens, 1 to"},
    {spoil_twins, FOCAL_EFORMAT, "tokens 40 and 41 are both"},
    {spoil_scores, FOCAL_EFORMAT, "token 3 has a score that is no number"},
    {spoil_no_scores, FOCAL_EFORMAT, "tokenizer.ggml.scores is missing"},
};

static void bad_sources_are_told(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(bad_sources); n++) {
        golden_source g;
        focal_tokenizer *t = NULL;
        golden_source_open(ctx, "gpt2", &g);
        g.source.pre = (foci_text){"gpt-2", 5};
        bad_sources[n].how(&g.source);
        const focal_status status = foci_tokenizer_from_source(ctx, &g.source, &t);
        golden_source_close(&g);
        assert_null(t);
        expect(ctx, bad_sources[n].message, status, bad_sources[n].status, bad_sources[n].message);
    }
}

/* A pattern that would take for ever fails, and the list keeps what it had. */
static void costly_patterns_end(void **state)
{
    focal_ctx *ctx = *state;
    focal_tokenizer *t = NULL;
    focal_ids ids = {0};
    char text[4096];
    memset(text, 'a', sizeof text);
    assert_status(ctx,
                  load(ctx,
                       "{" BPE ",'pre_tokenizer':{'type':'Split','pattern':{'Regex':"
                       "'(a+a+)+[b-y]'},'behavior':'Isolated'}}",
                       &t),
                  FOCAL_OK);
    const focal_status status = focal_tokenizer_encode(ctx, t, text, sizeof text, 0, &ids);
    expect(ctx, "(a+a+)+[b-y]", status, FOCAL_EINVAL, "exceeds its limits of work");
    assert_int_equal(ids.count, 0);
    focal_ids_free(ctx, &ids);
    focal_tokenizer_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_files_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(sizes_have_limits, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_sources_are_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(costly_patterns_end, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("tokenizer_bad", tests, NULL, NULL);
}
