/* Multiple choice: log-probabilities against plain passes over whole texts and against
 * transformers, how texts are cut, which items a file gives, and every kind of bad file. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/mc_text.h"
#include "focal/eval.h"
#include "support/folder.h"
#include "support/golden_tokenizer.h"

#define TINY FOCAL_TEST_DIR "/golden/models/tiny.gguf"

enum { MOST_ITEMS = 64, MOST_CHOICES = 16, MOST_IDS = 512 };

static focal_model *open_model(focal_ctx *ctx, const char *path)
{
    const focal_model_options options = {FOCAL_F32, true};
    focal_model *model = NULL;
    assert_status(ctx, focal_model_open(ctx, path, &options, &model), FOCAL_OK);
    return model;
}

static focal_mc_set *open_set(focal_ctx *ctx, focal_mc_source source)
{
    focal_mc_set *set = NULL;
    assert_status(ctx, focal_mc_open(ctx, &source, &set), FOCAL_OK);
    return set;
}

/* What on_item saw. */
typedef struct seen {
    int64_t count, stop_at;
    double logprob[MOST_ITEMS][MOST_CHOICES];
    int32_t tokens[MOST_ITEMS][MOST_CHOICES], pick[MOST_ITEMS], by_length[MOST_ITEMS];
} seen;

static bool see(void *user, const focal_mc_score *score)
{
    seen *s = user;
    const int32_t count = score->item->choice_count;
    assert_true(s->count < MOST_ITEMS && count <= MOST_CHOICES);
    for (int32_t n = 0; n < count; n++) {
        s->logprob[s->count][n] = score->logprob[n];
        s->tokens[s->count][n] = score->tokens[n];
        assert_int_equal(score->bytes[n], foci_mc_choice_bytes(score->item->choices[n]));
    }
    s->pick[s->count] = score->pick;
    s->by_length[s->count] = score->by_length;
    s->count++;
    assert_int_equal(score->done, s->count);
    return s->count != s->stop_at;
}

/* The text of a choice from its definition, with no other code's help. */
static focal_buffer plain_text(focal_ctx *ctx, const focal_mc_item *item, int32_t choice,
                               const char *prefix, size_t *context_bytes)
{
    const focal_mc_text context = item->contexts[choice], own = item->choices[choice];
    focal_buffer text = {0};
    char room[4096];
    const int before = snprintf(room, sizeof room, "%s%.*s", prefix, (int)context.bytes,
                                context.bytes ? context.data : "");
    *context_bytes = (size_t)before;
    while (*context_bytes > 0 && strchr(" \t\n", room[*context_bytes - 1])) --*context_bytes;
    const bool has_space = *context_bytes < (size_t)before || strchr(" \t\n", own.data[0]);
    const int bytes = snprintf(room + before, sizeof room - (size_t)before, "%s%.*s",
                               before == 0 || has_space ? "" : " ", (int)own.bytes, own.data);
    assert_true(before >= 0 && bytes > 0 && (size_t)before + (size_t)bytes < sizeof room);
    assert_status(ctx, foci_buffer_put(ctx, &text, room, (size_t)before + (size_t)bytes), FOCAL_OK);
    return text;
}

static int64_t plain_ids(focal_model *model, const char *text, size_t bytes, bool has_begin,
                         int32_t *out)
{
    focal_ctx *ctx = focal_model_ctx(model);
    const focal_tokenizer *tokenizer = focal_model_tokenizer(model);
    focal_ids ids = {0};
    int64_t count = 0;
    if (has_begin) out[count++] = focal_tokenizer_special(tokenizer).bos;
    assert_status(ctx, focal_tokenizer_encode(ctx, tokenizer, text, bytes, 0, &ids), FOCAL_OK);
    assert_true(count + ids.count <= MOST_IDS);
    for (int64_t n = 0; n < ids.count; n++) out[count++] = ids.ids[n];
    focal_ids_free(ctx, &ids);
    return count;
}

/* One pass over the whole text for each choice, from an empty cache, softmax in double. */
static double plain_logprob(focal_model *model, const focal_mc_item *item, int32_t choice,
                            const char *prefix, int32_t *tokens)
{
    static float logits[1 << 20];
    focal_ctx *ctx = focal_model_ctx(model);
    const int32_t V = focal_model_describe(model).V;
    const bool adds = focal_tokenizer_special(focal_model_tokenizer(model)).add_bos;
    int32_t ids[MOST_IDS], before[MOST_IDS];
    size_t context_bytes;
    focal_buffer text = plain_text(ctx, item, choice, prefix, &context_bytes);
    const bool has_begin = adds || context_bytes == 0;
    const int64_t count = plain_ids(model, text.data, text.bytes, has_begin, ids);
    const int64_t from = plain_ids(model, text.data, context_bytes, has_begin, before);
    assert_memory_equal(ids, before, (size_t)from * sizeof *ids); /* no such merges here */
    focal_buffer_free(ctx, &text);
    assert_true(count * V <= (int64_t)FOCAL_COUNT(logits));
    focal_cache *cache = NULL;
    const focal_batch_item all = {0, (int32_t)count, ids, (int32_t)count};
    const focal_forward_args args = {.item_count = 1, .items = &all, .logits = logits};
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
    focal_cache_free(cache);
    double sum = 0.0;
    for (int64_t n = from; n < count; n++) {
        const float *row = logits + (n - 1) * V;
        double total = 0.0;
        for (int32_t v = 0; v < V; v++) total += exp((double)row[v]);
        sum += (double)row[ids[n]] - log(total);
    }
    *tokens = (int32_t)(count - from);
    return sum;
}

/* Each item of `seen` against plain passes; and the picks and shares against their definition. */
static void check_run(focal_model *model, const focal_mc_set *set, const char *prefix,
                      const seen *s, const focal_mc_result *result)
{
    double right = 0.0, right_by_length = 0.0, chance = 0.0;
    const double n = (double)focal_mc_count(set);
    int64_t tokens = 0;
    assert_int_equal(s->count, focal_mc_count(set));
    for (int64_t i = 0; i < s->count; i++) {
        const focal_mc_item *item = focal_mc_at(set, i);
        int32_t pick = 0, by_length = 0;
        for (int32_t c = 0; c < item->choice_count; c++) {
            int32_t count;
            const double exact = plain_logprob(model, item, c, prefix, &count);
            if (!(fabs(s->logprob[i][c] - exact) <= 1e-4) || s->tokens[i][c] != count)
                fail_msg("item %lld, choice %d: %.6f of %d tokens, by itself %.6f of %d",
                         (long long)i, c, s->logprob[i][c], s->tokens[i][c], exact, count);
            const double *p = s->logprob[i];
            if (p[c] > p[pick]) pick = c;
            if (p[c] / foci_mc_choice_bytes(item->choices[c]) >
                p[by_length] / foci_mc_choice_bytes(item->choices[by_length]))
                by_length = c;
            tokens += count;
        }
        assert_int_equal(s->pick[i], pick);
        assert_int_equal(s->by_length[i], by_length);
        right += pick == item->answer;
        right_by_length += by_length == item->answer;
        chance += 1.0 / item->choice_count;
    }
    assert_int_equal(result->count, s->count);
    assert_int_equal(result->tokens, tokens);
    assert_true(fabs(result->accuracy - right / n) < 1e-12);
    assert_true(fabs(result->by_length - right_by_length / n) < 1e-12);
    assert_true(fabs(result->chance - chance / n) < 1e-12);
    const double p = right / n, q = right_by_length / n;
    assert_true(fabs(result->accuracy_error - sqrt(p * (1 - p) / (n - 1))) < 1e-12);
    assert_true(fabs(result->by_length_error - sqrt(q * (1 - q) / (n - 1))) < 1e-12);
}

/* Items that break groups: more of them than slots, from two choices to twelve, contexts that share
 * their beginning with the last ones, none, and one a choice, of which the second begins with all
 * of the text before it. */
static const char *write_items(const folder *f)
{
    static char text[1 << 15];
    size_t used = 0;
    for (int n = 0; n < 45; n++) {
        const char *ends[] = {"fox", " fox jumps", "\\tdog", " lazy dog.  ", "a"};
        if (n % 11 == 10)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "{\"context\": [\"The quick\", \"The quick fox jumps\"], ");
        else
            used += (size_t)snprintf(text + used, sizeof text - used, "{\"context\": \"%.*s%s\", ",
                                     n * 5 % 40, "The quick brown fox jumps over the lazy",
                                     n % 3 == 1 ? " \\n" : "");
        const int choices = n % 11 == 10 ? 2 : 2 + n * 7 % 11;
        for (int c = 0; c < choices; c++)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s\"%s%.*s\"",
                                     c ? ", " : "\"choices\": [", ends[(n + c) % 5], c,
                                     " over the dog brown");
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "], \"answer\": %d, \"task\": \"%s\"}\n\n", n % choices,
                                 n % 2 ? "odd" : "even");
    }
    assert_true(used < sizeof text);
    const char *path = folder_file(f, "items.jsonl");
    write_bytes(path, text, used);
    return path;
}

static void scores_are_those_of_plain_passes(void **state)
{
    static const struct {
        const char *prefix;
        int32_t batch;
    } rows[] = {{"", 0},           {"", 1}, /* tokens one by one */
                {"", 7},           {"The lazy dog jumps over the brown fox.\n\n", 0},
                {"The quick", 13}, {" \n", 0}};
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_model *model = open_model(ctx, TINY);
    focal_mc_set *set = open_set(ctx, (focal_mc_source){.path = write_items(&f)});
    assert_int_equal(focal_mc_count(set), 45);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        static seen s;
        focal_mc_result result;
        const focal_mc_options options = {.prefix = rows[n].prefix,
                                          .prefix_bytes = strlen(rows[n].prefix),
                                          .batch = rows[n].batch,
                                          .on_item = see,
                                          .user = &s};
        s = (seen){0};
        assert_status(ctx, focal_mc(model, set, &options, &result), FOCAL_OK);
        check_run(model, set, rows[n].prefix, &s, &result);
    }
    focal_mc_close(set);
    focal_model_close(model);
    folder_remove(&f);
}

static void callers_may_stop(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_model *model = open_model(ctx, TINY);
    focal_mc_set *set = open_set(ctx, (focal_mc_source){.path = write_items(&f)});
    static seen s;
    focal_mc_result result;
    const focal_mc_options options = {.on_item = see, .user = &s};
    s = (seen){.stop_at = 1};
    assert_status(ctx, focal_mc(model, set, &options, &result), FOCAL_OK);
    assert_int_equal(result.count, 1);
    assert_true(isnan(result.accuracy_error));
    focal_mc_close(set);
    focal_model_close(model);
    folder_remove(&f);
}

/* The ids of `whole` must be those of the text, and the choice's those of `tail`. */
static void check_split(foci_mc_texts *texts, const focal_mc_item *item, int32_t choice,
                        const char *whole, const char *tail)
{
    focal_ids ids = {0};
    focal_buffer text = {0};
    int32_t from = 0;
    assert_status(texts->ctx, foci_mc_text_split(texts, item, choice, &ids, &from), FOCAL_OK);
    assert_status(texts->ctx,
                  focal_tokenizer_decode(texts->ctx, texts->tokenizer, ids.ids, ids.count,
                                         FOCAL_DECODE_SKIP_SPECIAL, &text),
                  FOCAL_OK);
    if (text.bytes != strlen(whole) || memcmp(text.data, whole, text.bytes) != 0)
        fail_msg("the text is '%.*s', not '%s'", (int)text.bytes, text.data, whole);
    text.bytes = 0;
    assert_status(texts->ctx,
                  focal_tokenizer_decode(texts->ctx, texts->tokenizer, ids.ids + from,
                                         ids.count - from, 0, &text),
                  FOCAL_OK);
    if (text.bytes != strlen(tail) || memcmp(text.data, tail, text.bytes) != 0)
        fail_msg("the choice of '%s' is '%.*s', not '%s'", whole, (int)text.bytes, text.data, tail);
    focal_buffer_free(texts->ctx, &text);
    focal_ids_free(texts->ctx, &ids);
}

static void check_nothing_before(foci_mc_texts *texts, const focal_mc_item *item)
{
    focal_ids ids = {0};
    int32_t from = 0;
    assert_status(texts->ctx, foci_mc_text_split(texts, item, 0, &ids, &from), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(texts->ctx),
                        "f: line 0: no token stands before those of choice 0");
    focal_ids_free(texts->ctx, &ids);
}

static void spaces_go_to_the_choice(void **state)
{
    static const struct {
        const char *prefix, *context, *choice, *whole, *tail;
        bool joins_bare;
    } rows[] = {
        {"", "the fox", "jumps", "the fox jumps", " jumps", false},
        {"", "the fox", " jumps", "the fox jumps", " jumps", false},
        {"", "the fox ", "jumps", "the fox jumps", " jumps", false},
        {"", "the fox \n", "jumps", "the fox \njumps", " \njumps", false},
        {"", "the fox\xC2\xA0", "jumps", "the fox\xC2\xA0jumps", "\xC2\xA0jumps", false},
        {"", "the fox:", "jumps", "the fox:jumps", "jumps", true},
        {"", "the fo", "g", "the fog", " fog",
         true},                               /* the choice changes the context's last token */
        {"", "", "jumps", NULL, NULL, false}, /* this tokenizer has no token to begin with */
        {"", " ", "jumps", NULL, NULL, false},
        {"the dog\n", "", "jumps", "the dog\njumps", "\njumps", false},
        {"the dog\n", "the fox", "jumps", "the dog\nthe fox jumps", " jumps", false},
    };
    focal_ctx *ctx = *state;
    focal_tokenizer *tokenizer = golden_tokenizer(ctx, "smollm");
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const focal_mc_options options = {.prefix = rows[n].prefix,
                                          .prefix_bytes = strlen(rows[n].prefix)};
        foci_mc_texts texts = {
            .ctx = ctx, .tokenizer = tokenizer, .joins_bare = rows[n].joins_bare};
        const focal_mc_text context = {rows[n].context, strlen(rows[n].context)};
        const focal_mc_text choice = {rows[n].choice, strlen(rows[n].choice)};
        const focal_mc_item item = {
            .choice_count = 1, .path = "f", .contexts = &context, .choices = &choice};
        assert_status(ctx, foci_mc_texts_open(&texts, &options), FOCAL_OK);
        if (rows[n].whole)
            check_split(&texts, &item, 0, rows[n].whole, rows[n].tail);
        else
            check_nothing_before(&texts, &item);
        foci_mc_texts_close(&texts);
    }
    focal_tokenizer_free(tokenizer);
}

/* The longest end of a prefix that has so many tokens, from a token's and a character's first byte.
 */
static void prefixes_are_cut_at_tokens(void **state)
{
    static const char prefix[] = "one fox, two foxes \xF0\x9F\xA6\x8A\xF0\x9F\xA6\x8A\n\nthe end\n";
    focal_ctx *ctx = *state;
    focal_tokenizer *tokenizer = golden_tokenizer(ctx, "smollm");
    focal_ids whole = {0};
    size_t last = 0;
    assert_status(ctx, focal_tokenizer_encode(ctx, tokenizer, prefix, strlen(prefix), 0, &whole),
                  FOCAL_OK);
    for (int32_t most = 1; most <= whole.count + 1; most++) {
        const focal_mc_options options = {
            .prefix = prefix, .prefix_bytes = strlen(prefix), .prefix_tokens = most};
        foci_mc_texts texts = {.ctx = ctx, .tokenizer = tokenizer};
        focal_ids ids = {0};
        assert_status(ctx, foci_mc_texts_open(&texts, &options), FOCAL_OK);
        const char *rest = prefix + strlen(prefix) - texts.prefix_bytes;
        assert_memory_equal(texts.text.data, rest, texts.prefix_bytes);
        assert_true(texts.prefix_bytes >= last && ((unsigned char)*rest & 0xC0) != 0x80);
        assert_status(ctx, foci_mc_prefix_ids(&texts, &ids), FOCAL_OK);
        assert_true(ids.count <= most || texts.prefix_bytes == 0);
        last = texts.prefix_bytes;
        focal_ids_free(ctx, &ids);
        foci_mc_texts_close(&texts);
    }
    assert_int_equal(last, strlen(prefix));
    focal_ids_free(ctx, &whole);
    focal_tokenizer_free(tokenizer);
}

static void check_lines(const focal_mc_set *set, const int64_t *lines, int64_t count)
{
    assert_int_equal(focal_mc_count(set), count);
    for (int64_t n = 0; n < count; n++) assert_int_equal(focal_mc_at(set, n)->line, lines[n]);
}

static void items_are_chosen(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = write_items(&f); /* item n is in line 2 n + 1 */
    focal_mc_set *set = open_set(ctx, (focal_mc_source){.path = path, .limit = 3});
    check_lines(set, (const int64_t[]){1, 3, 5}, 3);
    focal_mc_close(set);
    set = open_set(ctx, (focal_mc_source){.path = path, .limit = 2, .task = "odd"});
    check_lines(set, (const int64_t[]){3, 7}, 2);
    focal_mc_close(set);
    /* A seed means the same items in every version. */
    set = open_set(ctx, (focal_mc_source){.path = path, .sample = 5, .seed = 1});
    check_lines(set, (const int64_t[]){25, 27, 57, 65, 77}, 5);
    focal_mc_close(set);
    set = open_set(ctx, (focal_mc_source){.path = path, .sample = 1000});
    assert_int_equal(focal_mc_count(set), 45);
    focal_mc_close(set);
    int drawn[45] = {0};
    for (uint64_t seed = 0; seed < 450; seed++) {
        set = open_set(ctx, (focal_mc_source){.path = path, .sample = 9, .seed = seed});
        assert_int_equal(focal_mc_count(set), 9);
        for (int64_t n = 0; n < 9; n++) drawn[focal_mc_at(set, n)->line / 2]++;
        focal_mc_close(set);
    }
    for (int n = 0; n < 45; n++) assert_in_range(drawn[n], 55, 125); /* of 450 in 5: 90 +- 8.5 */
    folder_remove(&f);
}

static void fields_have_two_names(void **state)
{
    static const char text[] =
        "{\"task\": \"t\", \"id\": \"x1\", \"ctx\": \"a\", \"choices\": [\"b\", \" c\"], \"gold\": "
        "1}\r\n{\"id\": -7, \"context\": [\"\", \"d\"], \"choices\": [\"\\u00e9\", \"f\"], "
        "\"answer\": 0}";
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "two.jsonl");
    write_bytes(path, text, strlen(text));
    focal_mc_set *set = open_set(ctx, (focal_mc_source){.path = path});
    assert_int_equal(focal_mc_count(set), 2);
    const focal_mc_item *one = focal_mc_at(set, 0), *two = focal_mc_at(set, 1);
    assert_string_equal(one->path, path);
    assert_int_equal(one->answer, 1);
    assert_memory_equal(one->id.data, "x1", one->id.bytes);
    assert_memory_equal(one->contexts[1].data, "a", one->contexts[1].bytes);
    assert_int_equal(foci_mc_choice_bytes(one->choices[1]), 1);
    assert_int_equal(one->choices[1].bytes, 2);
    assert_int_equal(two->id.bytes, 2);
    assert_memory_equal(two->id.data, "-7", 2);
    assert_int_equal(two->contexts[0].bytes, 0);
    assert_memory_equal(two->contexts[1].data, "d", 1);
    assert_int_equal(foci_mc_choice_bytes(two->choices[0]), 2);
    focal_mc_close(set);
    folder_remove(&f);
}

#define GOOD "{\"context\": \"a\", \"choices\": [\"b\", \"c\"], \"answer\": 0}\n"

static void bad_files_are_refused(void **state)
{
    static const struct {
        const char *text, *sentence; /* behind the file's name */
    } rows[] = {
        {"", ": no item in 0 lines"},
        {" \n\r\n\t\n", ": no item in 3 lines"},
        {GOOD "{\"context\": \"a\"",
         ": JSON of line 2: line 1, column 15: '}' expected near end of "
         "file"},
        {GOOD "\n7\n", ": line 3: is no object"},
        {"[]", ": line 1: is no object"},
        {"{}", ": line 1: 'choices' is not there or is no list"},
        {"{\"choices\": 3}", ": line 1: 'choices' is not there or is no list"},
        {"{\"choices\": {\"a\": \"b\"}}", ": line 1: 'choices' is not there or is no list"},
        {"{\"choices\": []}", ": line 1: choices: 0, at least 2 and at most 1024"},
        {"{\"choices\": [\"a\"]}", ": line 1: choices: 1, at least 2 and at most 1024"},
        {"{\"choices\": [\"a\", 3]}", ": line 1: choice 1 is no text"},
        {"{\"choices\": [\"a\", \"\"]}", ": line 1: choice 1 is empty"},
        {"{\"choices\": [\" \\n\\u2003\", \"a\"]}", ": line 1: choice 0 is empty"},
        {"{\"choices\": [\"a\", \"b\"]}", ": line 1: 'context' is not there or is no text"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": 1}",
         ": line 1: 'context' is not there or is no text"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": [\"c\"]}", ": line 1: contexts: 1, choices: 2"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": [\"c\", \"d\", \"e\"]}",
         ": line 1: contexts: 3, choices: 2"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": [\"c\", []]}", ": line 1: context 1 is no text"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\"}",
         ": line 1: 'answer' is not there or is no whole number"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"answer\": 0.0}",
         ": line 1: 'answer' is not there or is no whole number"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"gold\": 2}",
         ": line 1: answer 2, choices go from 0 to 1"},
        {GOOD "{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"answer\": -1}",
         ": line 2: answer -1, choices go from 0 to 1"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"answer\": 0, \"gold\": 1}",
         ": line 1: has both 'answer' and 'gold'"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"context\": \"d\", \"gold\": 1}",
         ": line 1: has both 'context' and 'ctx'"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"gold\": 1, \"id\": {\"a\": 1}}",
         ": line 1: 'id' is neither text nor whole number"},
        {"{\"choices\": [\"a\", \"b\"], \"ctx\": \"c\", \"gold\": 1, \"task\": 5}",
         ": line 1: 'task' is no text"},
        {GOOD "\x7F"
              "ELF\x01\x02\n",
         ": JSON of line 2: line 1, column 1: invalid token near '?'"},
        {"{\"choices\": [\"a\xFF\"]}", NULL}, /* Jansson's sentence */
    };
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "bad.jsonl");
    focal_mc_set *set = NULL;
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        write_bytes(path, rows[n].text, strlen(rows[n].text));
        const focal_mc_source source = {.path = path};
        assert_status(ctx, focal_mc_open(ctx, &source, &set), FOCAL_EFORMAT);
        assert_null(set);
        const char *sentence = focal_ctx_error(ctx);
        assert_memory_equal(sentence, path, strlen(path));
        if (rows[n].sentence) assert_string_equal(sentence + strlen(path), rows[n].sentence);
    }
    const focal_mc_source missing = {.path = "/nowhere/items.jsonl"};
    assert_status(ctx, focal_mc_open(ctx, &missing, &set), FOCAL_EIO);
    const focal_mc_source negative = {.path = path, .limit = -1};
    assert_status(ctx, focal_mc_open(ctx, &negative, &set), FOCAL_EINVAL);
    write_bytes(path, GOOD, strlen(GOOD));
    const focal_mc_source task = {.path = path, .task = "arc"};
    assert_status(ctx, focal_mc_open(ctx, &task, &set), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx) + strlen(path),
                        ": no item of the task 'arc' in 1 lines");
    folder_remove(&f);
}

static void large_files_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "large.jsonl");
    focal_mc_set *set = NULL;
    const size_t bytes = FOCAL_MC_LINE_MOST + strlen(GOOD) + 1;
    char *text = new_array(bytes, 1);
    (void)snprintf(text, bytes, "%s", GOOD);
    memset(text + strlen(GOOD), ' ', bytes - strlen(GOOD));
    const focal_mc_source source = {.path = path};
    write_bytes(path, text, bytes);
    assert_status(ctx, focal_mc_open(ctx, &source, &set), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx) + strlen(path), ": line 2 has more than 16 MiB");
    write_bytes(path, text, bytes - 1); /* as long as it may be, and blank */
    set = open_set(ctx, source);
    assert_int_equal(focal_mc_count(set), 1);
    focal_mc_close(set);
    size_t used = (size_t)snprintf(text, bytes, "{\"choices\": [\"a\"");
    for (int n = 0; n < FOCAL_MC_CHOICES_MOST; n++)
        used += (size_t)snprintf(text + used, bytes - used, ", \"a\"");
    write_bytes(path, text, used + (size_t)snprintf(text + used, bytes - used, "]}"));
    assert_status(ctx, focal_mc_open(ctx, &source, &set), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx) + strlen(path),
                        ": line 1: choices: 1025, at least 2 and at most 1024");
    free(text);
    folder_remove(&f);
}

static void bad_runs_are_refused(void **state)
{
    static const char text[] = GOOD "{\"context\": \"The quick brown fox jumps\", \"choices\": "
                                    "[\"over\", \"over the lazy dog\"], \"answer\": 0}\n";
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "two.jsonl");
    write_bytes(path, text, strlen(text));
    focal_model *model = open_model(ctx, TINY);
    focal_mc_set *set = open_set(ctx, (focal_mc_source){.path = path});
    focal_mc_result result;
    static seen s;
    s = (seen){0};
    focal_mc_options options = {.context = 8, .on_item = see, .user = &s};
    assert_status(ctx, focal_mc(model, set, &options, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx) + strlen(path),
                        ": line 2: 10 tokens with choice 1, the context has 8");
    options.context = 1;
    assert_status(ctx, focal_mc(model, set, &options, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "mc: context 1 (at least 2), 0 tokens of the prefix (0: all)");
    options.context = 0;
    options.batch = -1;
    assert_status(ctx, focal_mc(model, set, &options, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "mc: a batch of -1 tokens, at least 1");
    assert_int_equal(s.count, 0);
    focal_mc_close(set);
    focal_model_close(model);
    folder_remove(&f);
}

static void memory_may_run_out(void **state)
{
    static const char prefix[] = "over the lazy dog\n";
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_model *model = open_model(ctx, TINY);
    const focal_mc_source source = {.path = write_items(&f), .limit = 3};
    for (int64_t n = 1;; n++) {
        focal_mc_set *set = NULL;
        focal_mc_result result;
        const focal_mc_options options = {
            .prefix = prefix, .prefix_bytes = strlen(prefix), .prefix_tokens = 3};
        assert_true(n < 10000);
        focal_ctx_trim(ctx);
        const int64_t live = memory_live_blocks();
        memory_fail(n, n % 2 == 0);
        focal_status status = focal_mc_open(ctx, &source, &set);
        if (status == FOCAL_OK) status = focal_mc(model, set, &options, &result);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        focal_mc_close(set);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) break;
    }
    focal_model_close(model);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(scores_are_those_of_plain_passes, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(callers_may_stop, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(spaces_go_to_the_choice, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(prefixes_are_cut_at_tokens, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(items_are_chosen, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(fields_have_two_names, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_files_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(large_files_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_runs_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("eval_mc", tests, NULL, NULL);
}
