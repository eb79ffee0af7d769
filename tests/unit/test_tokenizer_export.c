/* Tokenizers from one file format into the other and back: the same ids for every golden text, the
 * same text for them, the same special ids and kinds; failing memory leaves nothing behind. */
#include "support/tokenizer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text/tokenizer_export.h"

enum {
    ADD = FOCAL_ENCODE_ADD_SPECIAL,
    PARSE = FOCAL_ENCODE_PARSE_SPECIAL,
    MORE = 3 /* rows of the embedding beyond the vocabulary */
};

/* Texts on which two tokenizers may part: see tokenizer_export.h. */
typedef enum leave_out {
    NOTHING,
    NOT_NFC,     /* texts that NFC changes */
    OTHER_PREFIX /* texts that begin with a space or hold a special token */
} leave_out;

static bool is_left_out(focal_ctx *ctx, leave_out rule, foci_text text)
{
    static const char *const specials[] = {"<s>", "</s>", "<unk>", "<|end|>"};
    if (rule == NOT_NFC) {
        focal_buffer form = {0};
        assert_status(ctx, foci_normalize(ctx, FOCI_NFC, text.data, text.bytes, &form), FOCAL_OK);
        const bool is_same = foci_text_equal(text, (foci_text){form.data, form.bytes});
        focal_buffer_free(ctx, &form);
        return !is_same;
    }
    if (rule == NOTHING) return false;
    for (size_t n = 0; n < FOCAL_COUNT(specials); n++)
        if (memmem(text.data, text.bytes, specials[n], strlen(specials[n]))) return true;
    return text.bytes > 0 && (text.data[0] == ' ' || text.data[0] == '\xE2');
}

static void compare_text(focal_ctx *ctx, const char *name, const focal_tokenizer *a,
                         const focal_tokenizer *b, foci_text text, unsigned flags)
{
    focal_ids x = {0}, y = {0};
    focal_buffer shown_x = {0}, shown_y = {0};
    assert_status(ctx, focal_tokenizer_encode(ctx, a, text.data, text.bytes, flags, &x), FOCAL_OK);
    assert_status(ctx, focal_tokenizer_encode(ctx, b, text.data, text.bytes, flags, &y), FOCAL_OK);
    if (x.count != y.count ||
        (x.count > 0 && memcmp(x.ids, y.ids, (size_t)x.count * sizeof *x.ids) != 0))
        fail_msg("%s, flags %u: other ids for '%.*s'", name, flags, (int)text.bytes, text.data);
    const unsigned skip = flags & ADD ? FOCAL_DECODE_SKIP_SPECIAL : 0;
    assert_status(ctx, focal_tokenizer_decode(ctx, a, x.ids, x.count, skip, &shown_x), FOCAL_OK);
    assert_status(ctx, focal_tokenizer_decode(ctx, b, x.ids, x.count, skip, &shown_y), FOCAL_OK);
    if (!foci_text_equal((foci_text){shown_x.data, shown_x.bytes},
                         (foci_text){shown_y.data, shown_y.bytes}))
        fail_msg("%s: other text for the ids of '%.*s'", name, (int)text.bytes, text.data);
    focal_ids_free(ctx, &x);
    focal_ids_free(ctx, &y);
    focal_buffer_free(ctx, &shown_x);
    focal_buffer_free(ctx, &shown_y);
}

/* Tokens by id. The unknown token is a control token of its own kind to GGUF alone, and unused ones
 * have no name in tokenizer.json. */
static void compare_tokens(const char *name, const focal_tokenizer *a, const focal_tokenizer *b,
                           int32_t count)
{
    for (int32_t id = 0; id < count; id++) {
        focal_token x = focal_tokenizer_token(a, id), y = focal_tokenizer_token(b, id);
        if (x.kind == FOCAL_TOKEN_UNKNOWN) x.kind = FOCAL_TOKEN_CONTROL;
        if (y.kind == FOCAL_TOKEN_UNKNOWN) y.kind = FOCAL_TOKEN_CONTROL;
        if (x.kind != y.kind)
            fail_msg("%s: token %d is of kind %d and then %d", name, id, (int)x.kind, (int)y.kind);
        if (x.kind == FOCAL_TOKEN_UNUSED) continue;
        if (!foci_text_equal((foci_text){x.bytes, x.byte_count},
                             (foci_text){y.bytes, y.byte_count}))
            fail_msg("%s: token %d is '%.*s' and then '%.*s'", name, id, (int)x.byte_count, x.bytes,
                     (int)y.byte_count, y.bytes);
    }
}

static void compare(focal_ctx *ctx, const char *name, const focal_tokenizer *a,
                    const focal_tokenizer *b, leave_out rule)
{
    const focal_special_ids x = focal_tokenizer_special(a), y = focal_tokenizer_special(b);
    const int32_t sizes[] = {focal_tokenizer_size(a), focal_tokenizer_size(b)};
    foci_json *vectors = golden_json(ctx, "vectors");
    const foci_json *texts = foci_json_get(vectors, "texts");
    static const unsigned flags[] = {0, PARSE, ADD | PARSE};
    int32_t compared = 0;
    for (int64_t n = 0; n < foci_json_count(texts); n++) {
        const foci_json *one = foci_json_at(texts, n);
        const foci_text text = {foci_json_string(one), foci_json_length(one)};
        if (is_left_out(ctx, rule, text)) continue;
        for (size_t k = 0; k < FOCAL_COUNT(flags); k++)
            compare_text(ctx, name, a, b, text, flags[k]);
        compared++;
    }
    assert_true(compared > 30);
    foci_json_free(vectors);
    compare_tokens(name, a, b, sizes[0] < sizes[1] ? sizes[0] : sizes[1]);
    assert_int_equal(x.bos, y.bos);
    assert_int_equal(x.eos, y.eos);
    assert_int_equal(x.eot, y.eot);
    assert_int_equal(x.unk, y.unk);
    assert_int_equal(x.pad, y.pad);
    assert_int_equal(x.add_bos, y.add_bos);
    assert_int_equal(x.add_eos, y.add_eos);
}

/* From JSON to GGUF and on to JSON again. */
static void check_json(focal_ctx *ctx, const char *name, const foci_json *json,
                       const foci_json *config, leave_out rule)
{
    const folder f = folder_new();
    focal_tokenizer *a = NULL;
    assert_status(ctx, foci_tokenizer_from_json(ctx, name, json, config, &a), FOCAL_OK);
    const int32_t size = focal_tokenizer_size(a);
    assert_status(ctx, write_gguf(ctx, &f, json, config, size + MORE), FOCAL_OK);
    focal_tokenizer *b = read_gguf(ctx, &f);
    assert_int_equal(focal_tokenizer_size(b), size + MORE);
    const focal_token pad = focal_tokenizer_token(b, size + 1);
    char expected[24];
    (void)snprintf(expected, sizeof expected, "[PAD%d]", size + 1);
    assert_int_equal(pad.kind, FOCAL_TOKEN_UNUSED);
    assert_int_equal(pad.byte_count, strlen(expected));
    assert_memory_equal(pad.bytes, expected, strlen(expected));
    compare(ctx, name, a, b, rule);
    assert_status(ctx, gguf_to_json(ctx, &f), FOCAL_OK);
    assert_int_equal(folder_count(&f), 3);
    focal_tokenizer *c = read_json(ctx, &f);
    compare(ctx, name, b, c, NOTHING);
    focal_tokenizer_free(a);
    focal_tokenizer_free(b);
    focal_tokenizer_free(c);
    folder_remove(&f);
}

static void json_goes_to_gguf_and_back(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name, *config;
        leave_out rule;
    } files[] = {
        {"gpt2", "{'eos_token':'<|end|>','add_eos_token':true}", NOTHING},
        {"llama3", "{'bos_token':'<|begin|>','eos_token':{'content':'<|end|>'}}", NOTHING},
        {"qwen2", "{'pad_token':'<|end|>'}", NOT_NFC},
        {"smollm", "{'unk_token':'<|end|>','bos_token':'<|begin|>'}", NOTHING},
        {"llama2", "{'bos_token':'<s>','eos_token':'</s>','unk_token':'<unk>'}", NOTHING},
        {"gemma", "{'bos_token':'<s>','add_bos_token':true}", NOTHING},
        {"mistral", "{}", OTHER_PREFIX},
    };
    for (size_t n = 0; n < FOCAL_COUNT(files); n++) {
        foci_json *json = golden_json(ctx, files[n].name);
        foci_json *config = quoted_json(ctx, files[n].config);
        check_json(ctx, files[n].name, json, config, files[n].rule);
        foci_json_free(json);
        foci_json_free(config);
    }
}

/* A golden file with one piece of its text put in another's place. */
static foci_json *changed_json(focal_ctx *ctx, const char *name, const char *what, const char *with)
{
    char path[512];
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s/golden/tokenizers/%s.json", FOCAL_TEST_DIR, name);
    char *data = read_bytes(path, &bytes);
    char *place = memmem(data, bytes, what, strlen(what));
    assert_non_null(place);
    const size_t before = (size_t)(place - data), from = before + strlen(what);
    char *text = new_array(bytes + strlen(with), 1);
    const int length = snprintf(text, bytes + strlen(with), "%.*s%s%.*s", (int)before, data, with,
                                (int)(bytes - from), data + from);
    foci_json *root = NULL;
    assert_status(ctx, foci_json_parse(ctx, path, text, (size_t)length, &root), FOCAL_OK);
    free(text);
    free(data);
    return root;
}

static void unigram_goes_to_gguf_and_back(void **state)
{
    focal_ctx *ctx = *state;
    foci_json *json = changed_json(ctx, "unigram", "{\"type\":\"NFKC\"}", "null");
    foci_json *config = quoted_json(ctx, "{'eos_token':'</s>','unk_token':'<unk>'}");
    check_json(ctx, "unigram", json, config, OTHER_PREFIX);
    foci_json_free(json);
    foci_json_free(config);
}

/* From GGUF to JSON and on to GGUF again. */
static void check_source(focal_ctx *ctx, const char *name, const foci_vocab_source *source)
{
    const folder f = folder_new();
    write_source(ctx, &f, source);
    focal_tokenizer *a = read_gguf(ctx, &f);
    assert_status(ctx, gguf_to_json(ctx, &f), FOCAL_OK);
    focal_tokenizer *b = read_json(ctx, &f);
    compare(ctx, name, a, b, NOTHING);
    assert_status(ctx, json_to_gguf(ctx, &f, source->token_count), FOCAL_OK);
    focal_tokenizer *c = read_gguf(ctx, &f);
    compare(ctx, name, a, c, NOTHING);
    focal_tokenizer_free(a);
    focal_tokenizer_free(b);
    focal_tokenizer_free(c);
    folder_remove(&f);
}

static void gguf_goes_to_json_and_back(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"default",   "gpt-2",  "smollm",         "falcon",
                                        "llama-bpe", "dbrx",   "qwen2",          "tekken",
                                        "gpt-4o",    "exaone", "deepseek-coder", "deepseek-v3"};
    golden_source g;
    golden_source_open(ctx, "gpt2", &g);
    g.source.eos = g.source.pad = 1;
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        g.source.pre = foci_text_of(names[n]);
        g.source.add_eos = (int)(n % 2);
        check_source(ctx, names[n], &g.source);
    }
    golden_source_close(&g);
    for (int prefix = -1; prefix <= 1; prefix++) {
        golden_source_open(ctx, prefix == 0 ? "sentencepiece_bare" : "sentencepiece", &g);
        g.source.add_space_prefix = prefix;
        check_source(ctx, "sentencepiece", &g.source);
        golden_source_close(&g);
    }
}

/* Digits of other scripts: deepseek-coder splits them off by its last step alone. */
static void every_step_of_a_name_counts(void **state)
{
    focal_ctx *ctx = *state;
    static const char digits[] = "\xE0\xB9\x91\xE0\xB9\x92"; /* Thai 1 and 2 */
    golden_source g;
    focal_tokenizer *t = NULL;
    golden_source_open(ctx, "gpt2", &g);
    g.source.pre = foci_text_of("deepseek-coder");
    assert_status(ctx, foci_tokenizer_from_source(ctx, &g.source, &t), FOCAL_OK);
    golden_source_close(&g);
    foci_split_run run = {0};
    const char *word;
    size_t bytes;
    assert_status(ctx, foci_split_begin(&run, ctx, &t->splitter, digits, strlen(digits), true),
                  FOCAL_OK);
    assert_status(ctx, foci_split_next(&run, &word, &bytes), FOCAL_OK);
    assert_int_equal(bytes, 3);
    foci_split_free(&run);
    focal_tokenizer_free(t);
}

/* Control, unused and the user's tokens, and unused ones that mean something. */
static void kinds_come_along(void **state)
{
    focal_ctx *ctx = *state;
    golden_source g;
    golden_source_open(ctx, "gpt2", &g);
    int64_t *types = g.arrays[1];
    foci_text *tokens = g.arrays[0];
    const int64_t last = g.source.token_count;
    tokens[last] = foci_text_of("say \"\\hi\"\n\x01");
    types[last] = FOCAL_TOKEN_USER;
    tokens[last + 1] = foci_text_of("[unused]");
    types[last + 1] = FOCAL_TOKEN_UNUSED;
    tokens[last + 2] = foci_text_of("<pad>");
    types[last + 2] = FOCAL_TOKEN_CONTROL;
    g.source.token_count += 3;
    g.source.pad = last + 2;
    g.source.eot = last + 2; /* not by its name: that is <|end|> */
    g.source.pre = foci_text_of("gpt-2");
    check_source(ctx, "kinds", &g.source);
    const folder f = folder_new();
    g.source.eos = last + 1;
    write_source(ctx, &f, &g.source);
    golden_source_close(&g);
    assert_status(ctx, gguf_to_json(ctx, &f), FOCAL_OK);
    focal_tokenizer *t = read_json(ctx, &f);
    assert_int_equal(focal_tokenizer_special(t).eos, last + 1);
    focal_ids ids = {0};
    assert_status(ctx, focal_tokenizer_encode(ctx, t, "say \"\\hi\"\n\x01", 11, 0, &ids), FOCAL_OK);
    assert_int_equal(ids.count, 1);
    assert_int_equal(ids.ids[0], last);
    focal_ids_free(ctx, &ids);
    focal_tokenizer_free(t);
    folder_remove(&f);
}

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525U + 1013904223U;
    return *seed >> 8;
}

/* A few tokens over a, b and c, and merges that make them: sometimes one token twice, sometimes not
 * from all of its halves. */
typedef struct small_bpe {
    char tokens[16][16];
    int32_t token_count;
    char json[2048];
} small_bpe;

static int32_t find_small(const small_bpe *s, const char *text)
{
    for (int32_t n = 0; n < s->token_count; n++)
        if (strcmp(s->tokens[n], text) == 0) return n;
    return -1;
}

static void make_small(small_bpe *s, uint32_t *seed)
{
    static const char *const letters[] = {"a", "b", "c"};
    char merges[1024] = "";
    size_t used = 0;
    *s = (small_bpe){.token_count = 3};
    for (int n = 0; n < 3; n++) (void)snprintf(s->tokens[n], sizeof s->tokens[n], "%s", letters[n]);
    const uint32_t count = 2 + next_random(seed) % 10;
    for (uint32_t n = 0; n < count; n++) {
        const char *left = s->tokens[next_random(seed) % (uint32_t)s->token_count];
        const char *right = s->tokens[next_random(seed) % (uint32_t)s->token_count];
        char joined[32];
        (void)snprintf(joined, sizeof joined, "%s%s", left, right);
        if (strlen(joined) > 7) continue;
        used += (size_t)snprintf(merges + used, sizeof merges - used, "%s'%s %s'", used ? "," : "",
                                 left, right);
        if (find_small(s, joined) < 0)
            (void)snprintf(s->tokens[s->token_count++], sizeof s->tokens[0], "%.15s", joined);
    }
    used = (size_t)snprintf(s->json, sizeof s->json, "{'model':{'type':'BPE','vocab':{");
    for (int32_t n = 0; n < s->token_count; n++)
        used += (size_t)snprintf(s->json + used, sizeof s->json - used, "%s'%s':%d", n ? "," : "",
                                 s->tokens[n], n);
    (void)snprintf(s->json + used, sizeof s->json - used, "},'merges':[%s]}}", merges);
}

/* The same tokens with the scores. */
static focal_tokenizer *open_scored(focal_ctx *ctx, const small_bpe *s, const float *scores)
{
    foci_text tokens[16];
    focal_tokenizer *t = NULL;
    for (int32_t n = 0; n < s->token_count; n++) tokens[n] = foci_text_of(s->tokens[n]);
    const foci_vocab_source source = {.what = "scored",
                                      .model = {"llama", 5},
                                      .tokens = tokens,
                                      .scores = scores,
                                      .token_count = s->token_count,
                                      .bos = -1,
                                      .eos = -1,
                                      .eot = -1,
                                      .unk = -1,
                                      .pad = -1,
                                      .add_bos = -1,
                                      .add_eos = -1};
    assert_status(ctx, foci_tokenizer_from_source(ctx, &source, &t), FOCAL_OK);
    return t;
}

/* What foci_scores_of_merges accepts joins the same in every text, whatever the merges are. */
static void scores_equal_merges_or_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    uint32_t seed = 1;
    int accepted = 0, refused = 0;
    for (int n = 0; n < 2000; n++) {
        small_bpe s;
        float scores[16];
        focal_tokenizer *a = NULL;
        make_small(&s, &seed);
        foci_json *json = quoted_json(ctx, s.json);
        assert_status(ctx, foci_tokenizer_from_json(ctx, "small", json, NULL, &a), FOCAL_OK);
        const focal_status status = foci_scores_of_merges("small", a, scores);
        foci_json_free(json);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_EUNSUPPORTED);
        refused += status != FOCAL_OK;
        accepted += status == FOCAL_OK;
        focal_tokenizer *b = status == FOCAL_OK ? open_scored(ctx, &s, scores) : NULL;
        for (int k = 0; k < 20 && b; k++) {
            char text[40];
            const size_t bytes = 1 + next_random(&seed) % (sizeof text - 1);
            for (size_t i = 0; i < bytes; i++) text[i] = "abc"[next_random(&seed) % 3];
            compare_text(ctx, s.json, a, b, (foci_text){text, bytes}, 0);
        }
        focal_tokenizer_free(a);
        focal_tokenizer_free(b);
    }
    assert_true(accepted > 200 && refused > 200);
}

static void assert_template(focal_ctx *ctx, const folder *f, const char *expected)
{
    foci_gguf *gguf = NULL;
    foci_text text = {NULL, 0};
    assert_status(ctx, foci_gguf_open(ctx, folder_file(f, "t.gguf"), &gguf), FOCAL_OK);
    assert_status(ctx, foci_gguf_get_text(gguf, "tokenizer.chat_template", &text), FOCAL_OK);
    if (expected)
        assert_true(foci_text_equal(text, foci_text_of(expected)));
    else
        assert_null(text.data);
    foci_gguf_close(gguf);
}

static void template_comes_along(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *config, *template;
    } cases[] = {
        {"{'chat_template':'{% if a %}\\n\\t\\\\\\u0001\\u00e9{% endif %}'}",
         "{% if a %}\n\t\\\x01\xC3\xA9{% endif %}"},
        {"{'chat_template':[{'name':'tool','template':'x'},{'name':'default','template':'y'}]}",
         "y"},
        {"{'chat_template':[{'name':'tool','template':'x'}]}", NULL},
        {"{'chat_template':[]}", NULL},
        {"{'chat_template':7}", NULL},
        {"{}", NULL},
    };
    foci_json *json = golden_json(ctx, "smollm");
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const folder f = folder_new();
        foci_json *config = quoted_json(ctx, cases[n].config);
        assert_status(ctx, write_gguf(ctx, &f, json, config, 420), FOCAL_OK);
        foci_json_free(config);
        assert_template(ctx, &f, cases[n].template);
        assert_status(ctx, gguf_to_json(ctx, &f), FOCAL_OK);
        assert_status(ctx, json_to_gguf(ctx, &f, 420), FOCAL_OK);
        assert_template(ctx, &f, cases[n].template);
        folder_remove(&f);
    }
    foci_json_free(json);
}

/* Of tokens beyond the embedding's rows, added ones are left out. */
static void rows_decide_how_many(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_json *json = golden_json(ctx, "gemma"); /* its last token, 516, is an added one */
    assert_status(ctx, write_gguf(ctx, &f, json, NULL, 516), FOCAL_OK);
    focal_tokenizer *t = read_gguf(ctx, &f);
    assert_int_equal(focal_tokenizer_size(t), 516);
    focal_tokenizer_free(t);
    assert_status(ctx, write_gguf(ctx, &f, json, NULL, 515), FOCAL_EFORMAT);
    assert_non_null(strstr(focal_ctx_error(ctx), "has id 515, the embedding has 515 rows"));
    assert_status(ctx, write_gguf(ctx, &f, json, NULL, 0), FOCAL_EINVAL);
    assert_status(ctx, write_gguf(ctx, &f, json, NULL, FOCI_VOCAB_MOST + 1LL), FOCAL_EINVAL);
    foci_json_free(json);
    folder_remove(&f);
}

/* Files that are there hold what they held, and no half file lies beside them. */
static void failing_memory_leaves_nothing(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"llama3", "llama2", "unigram"};
    for (size_t k = 0; k < FOCAL_COUNT(names); k++) {
        const folder f = folder_new();
        foci_json *json = k < 2 ? golden_json(ctx, names[k])
                                : changed_json(ctx, names[k], "{\"type\":\"NFKC\"}", "null");
        for (int way = 0; way < 2; way++) {
            focal_status status = FOCAL_ENOMEM;
            for (int64_t n = 1; status != FOCAL_OK; n++) {
                focal_ctx_trim(ctx);
                const int64_t live = memory_live_blocks();
                memory_fail(n, true);
                status = way == 0 ? write_gguf(ctx, &f, json, NULL, 600) : gguf_to_json(ctx, &f);
                memory_fail(0, false);
                focal_ctx_trim(ctx);
                assert_int_equal(memory_live_blocks(), live);
                if (status != FOCAL_OK) {
                    assert_status(ctx, status, FOCAL_ENOMEM);
                    assert_in_range(folder_count(&f), way, way + 1); /* one of two may be whole */
                }
                assert_in_range(n, 1, 2000);
            }
        }
        assert_int_equal(folder_count(&f), 3);
        foci_json_free(json);
        folder_remove(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(json_goes_to_gguf_and_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(unigram_goes_to_gguf_and_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gguf_goes_to_json_and_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_step_of_a_name_counts, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kinds_come_along, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(scores_equal_merges_or_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(template_comes_along, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_decide_how_many, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("tokenizer export", tests, NULL, NULL);
}
