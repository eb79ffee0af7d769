/* Copy and recall: the sequences that a seed gives, the scores against perplexity's on the same
 * ids, and what is refused. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "focal/eval.h"

#define TINY FOCAL_TEST_DIR "/golden/models/tiny.gguf"

enum { TEXT_IDS = 2000, LENGTH = 96, PASSAGE = 24 };

/* Text n counts up from 1000 n, so an id says where it is from. */
static void count_up(int32_t *ids, int32_t text)
{
    for (int32_t n = 0; n < TEXT_IDS; n++) ids[n] = 10000 * text + n;
}

static bool is_run(const int32_t *ids, int32_t count)
{
    for (int32_t n = 1; n < count; n++)
        if (ids[n] != ids[0] + n) return false;
    return true;
}

static void sequences_are_passages(void **state)
{
    focal_ctx *ctx = *state;
    static int32_t ids[3][TEXT_IDS];
    focal_copy_text texts[3];
    for (int32_t n = 0; n < 3; n++) {
        count_up(ids[n], n);
        texts[n] = (focal_copy_text){ids[n], TEXT_IDS};
    }
    for (int32_t text_count = 1; text_count <= 3; text_count++) {
        focal_copy_plan plan = {.texts = texts,
                                .text_count = text_count,
                                .passage = PASSAGE,
                                .length = LENGTH,
                                .begin = 7,
                                .seed = 5};
        for (int64_t n = 0; n < 40; n++) {
            int32_t out[LENGTH + 1];
            plan.has_begin = n % 2;
            out[LENGTH] = -1;
            assert_status(ctx, focal_copy_sequence(ctx, &plan, n, out), FOCAL_OK);
            assert_int_equal(out[LENGTH], -1);
            const int32_t *at = out + plan.has_begin;
            if (plan.has_begin) assert_int_equal(out[0], 7);
            const int32_t between = LENGTH - 2 * PASSAGE - plan.has_begin;
            assert_true(is_run(at, PASSAGE));
            assert_true(is_run(at + PASSAGE, between));
            assert_memory_equal(at, at + PASSAGE + between, PASSAGE * sizeof *at);
            const int32_t gap = at[PASSAGE] - at[0];
            if (text_count > 1)
                assert_true(at[0] / 10000 != at[PASSAGE] / 10000);
            else
                assert_true(gap >= PASSAGE || gap <= -between);
        }
    }
}

/* The numbers are fixed: a seed means the same sequences in every version. */
static void seeds_give_known_places(void **state)
{
    static const int32_t expected[][2] = {
        {1389, 11546}, {254, 11211}, {11890, 1277}, {11913, 1894}};
    focal_ctx *ctx = *state;
    static int32_t ids[2][TEXT_IDS];
    focal_copy_text texts[2];
    for (int32_t n = 0; n < 2; n++) {
        count_up(ids[n], n);
        texts[n] = (focal_copy_text){ids[n], TEXT_IDS};
    }
    for (int n = 0; n < 4; n++) {
        int32_t out[LENGTH];
        const focal_copy_plan plan = {.texts = texts,
                                      .text_count = 2,
                                      .passage = PASSAGE,
                                      .length = LENGTH,
                                      .seed = (uint64_t)n / 2,
                                      .is_training = n == 3};
        assert_status(ctx, focal_copy_sequence(ctx, &plan, n % 2, out), FOCAL_OK);
        if (out[0] != expected[n][0] || out[PASSAGE] != expected[n][1])
            fail_msg("plan %d: %d and %d", n, out[0], out[PASSAGE]);
    }
}

/* int((len - P - 100) (0.1 + 0.2 u)) and int((len - m - 500) (0.15 + 0.2 u)). */
static void even_places_follow_the_rule(void **state)
{
    focal_ctx *ctx = *state;
    static int32_t ids[2][TEXT_IDS];
    focal_copy_text texts[2];
    for (int32_t n = 0; n < 2; n++) {
        count_up(ids[n], n);
        texts[n] = (focal_copy_text){ids[n], TEXT_IDS - 100 * n};
    }
    const focal_copy_plan plan = {
        .texts = texts, .text_count = 2, .passage = 100, .length = 500, .has_even_places = true};
    static const int32_t expected[][2] = {/* passage and what is between, of sequences 0, 3, 9 */
                                          {180, 10165}, /* .1 * 1800, .15 * 1100 */
                                          {10510, 420}, /* .3 * 1700, .35 * 1200 */
                                          {11530, 1140} /* .9 * 1700, .95 * 1200 */};
    static const int64_t numbers[] = {0, 3, 9};
    int32_t out[500];
    for (size_t n = 0; n < FOCAL_COUNT(numbers); n++) {
        assert_status(ctx, focal_copy_sequence(ctx, &plan, numbers[n], out), FOCAL_OK);
        assert_in_range(out[0], expected[n][0] - 1, expected[n][0]); /* 0.1 is not a double */
        assert_in_range(out[100], expected[n][1] - 1, expected[n][1]);
    }
    assert_status(ctx, focal_copy_sequence(ctx, &plan, 10, out), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "copy: sequence 11, 2 texts have the places of 10");
}

static focal_model *open_tiny(focal_ctx *ctx)
{
    const focal_model_options options = {FOCAL_F32, true};
    focal_model *model = NULL;
    assert_status(ctx, focal_model_open(ctx, TINY, &options, &model), FOCAL_OK);
    return model;
}

/* Ids that the tiny model can have read. */
static void fill_ids(const focal_model *model, int32_t *ids)
{
    const int32_t V = focal_model_describe(model).V;
    for (int32_t n = 0; n < TEXT_IDS; n++)
        ids[n] = (int32_t)(((int64_t)n * n * 31 + (int64_t)7 * n) % V);
}

typedef struct token_sum {
    int64_t from, to; /* the ids whose loss is summed */
    double sum;
} token_sum;

static void add_token(void *user, int64_t index, int32_t id, double nll)
{
    token_sum *t = user;
    (void)id;
    if (index >= t->from && index < t->to) t->sum += nll;
}

static double mean_by_ppl(focal_model *model, const int32_t *ids, int32_t count, int32_t from,
                          int32_t to)
{
    token_sum t = {from, to, 0.0};
    const focal_ppl_args args = {
        .ids = ids, .count = count, .context = count, .on_token = add_token, .user = &t};
    focal_ppl_result result;
    assert_status(focal_model_ctx(model), focal_ppl(model, &args, &result), FOCAL_OK);
    return t.sum / (to - from);
}

/* Share of ids[from .. to - 1] that are the likeliest, each read behind all before it. */
static double share_right(focal_model *model, const int32_t *ids, int32_t from, int32_t to)
{
    static float logits[1 << 16];
    const int32_t V = focal_model_describe(model).V;
    focal_ctx *ctx = focal_model_ctx(model);
    int right = 0;
    assert_true(V <= (int32_t)FOCAL_COUNT(logits));
    for (int32_t n = from; n < to; n++) {
        focal_cache *cache = NULL;
        const focal_batch_item item = {0, n, ids, 1};
        const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
        assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
        assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
        focal_cache_free(cache);
        int32_t best = 0;
        for (int32_t v = 1; v < V; v++)
            if (logits[v] > logits[best]) best = v;
        right += best == ids[n];
    }
    return (double)right / (to - from);
}

static void copy_agrees_with_perplexity(void **state)
{
    focal_ctx *ctx = *state;
    focal_model *model = open_tiny(ctx);
    static int32_t ids[TEXT_IDS];
    fill_ids(model, ids);
    const focal_copy_text text = {ids, TEXT_IDS};
    static const struct {
        int32_t passage, length, scored, expected, batch;
        bool has_begin;
    } rows[] = {{24, 96, 0, 21, 0, false},
                {24, 96, 5, 5, 7, true},
                {90, 180, 89, 89, 1, false}, /* nothing between, all but one scored */
                {2, 30, 0, 1, 0, true}};
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const focal_copy_plan plan = {.texts = &text,
                                      .text_count = 1,
                                      .passage = rows[n].passage,
                                      .length = rows[n].length,
                                      .begin = 1,
                                      .has_begin = rows[n].has_begin,
                                      .seed = n};
        const focal_measure_options options = {.count = 3, .batch = rows[n].batch};
        focal_copy_result result;
        assert_status(ctx, focal_copy(model, &plan, rows[n].scored, &options, &result), FOCAL_OK);
        assert_int_equal(result.count, 3);
        assert_int_equal(result.tokens, 3 * rows[n].expected);
        double loss = 0.0, first = 0.0, right = 0.0;
        for (int64_t s = 0; s < 3; s++) {
            int32_t out[180];
            const int32_t L = rows[n].length, scored = rows[n].expected;
            const int32_t first_end = rows[n].passage + rows[n].has_begin;
            assert_status(ctx, focal_copy_sequence(ctx, &plan, s, out), FOCAL_OK);
            loss += mean_by_ppl(model, out, L, L - scored, L) / 3;
            first += mean_by_ppl(model, out, L, first_end - scored, first_end) / 3;
            right += share_right(model, out, L - scored, L) / 3;
        }
        if (fabs(result.loss - loss) > 1e-4 || fabs(result.first_loss - first) > 1e-4 ||
            fabs(result.accuracy - right) > 1e-9)
            fail_msg("row %zu: loss %g and %g, first %g and %g, right %g and %g", n, result.loss,
                     loss, result.first_loss, first, result.accuracy, right);
    }
    focal_model_close(model);
}

static void bad_copies_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    focal_model *model = open_tiny(ctx);
    static int32_t ids[TEXT_IDS];
    fill_ids(model, ids);
    const focal_copy_text text = {ids, 200};
    static const struct {
        int32_t passage, length, text_count, scored;
        int64_t count;
        const char *sentence;
    } rows[] = {
        {1, 96, 1, 0, 1,
         "copy: a passage of 1 tokens does not fit twice in a length of 96, or has less than 2"},
        {-8, 96, 1, 0, 1,
         "copy: a passage of -8 tokens does not fit twice in a length of 96, or has less than 2"},
        {49, 97, 1, 0, 1,
         "copy: a passage of 49 tokens does not fit twice in a length of 97, or has less than 2"},
        {INT32_MAX, INT32_MAX, 1, 0, 1,
         "copy: a passage of 2147483647 tokens does not fit twice in a length of 2147483647, or "
         "has less than 2"},
        {24, 96, 0, 0, 1, "copy: no text to take passages from"},
        {24, 300, 1, 0, 1, "copy: text 1 has 200 tokens, a passage of 24 and 252 between need 276"},
        {24, 96, 1, 24, 1, "copy: 24 tokens scored of a passage of 24, 1 to 23 can be"},
        {24, 96, 1, -1, 1, "copy: -1 tokens scored of a passage of 24, 1 to 23 can be"},
        {24, 96, 1, 0, -1, "copy: -1 sequences, at least 1 is needed"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const focal_copy_plan plan = {.texts = &text,
                                      .text_count = rows[n].text_count,
                                      .passage = rows[n].passage,
                                      .length = rows[n].length};
        const focal_measure_options options = {.count = rows[n].count};
        focal_copy_result result;
        assert_status(ctx, focal_copy(model, &plan, rows[n].scored, &options, &result),
                      FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), rows[n].sentence);
    }
    for (int32_t n = 0; n < TEXT_IDS; n++) ids[n] = 1 << 20; /* no such ids */
    const focal_copy_plan plan = {.texts = &text, .text_count = 1, .passage = 2, .length = 4};
    focal_copy_result result;
    assert_status(ctx, focal_copy(model, &plan, 0, NULL, &result), FOCAL_EINVAL);
    focal_model_close(model);
}

/* Bytes of a line "bado gi\n", and where its value is. */
enum { LINE = 8, VALUE = 5, VALUE_BYTES = 2 };

static void recall_text_is(focal_ctx *ctx, const focal_recall_plan *plan, int64_t n, int32_t pairs,
                           const char *expected)
{
    focal_buffer text = {0};
    assert_status(ctx, focal_recall_text(ctx, plan, n, pairs, &text), FOCAL_OK);
    if (text.bytes != strlen(expected) || memcmp(text.data, expected, text.bytes) != 0)
        fail_msg("text %lld is \"%.*s\"", (long long)n, (int)text.bytes, text.data);
    focal_buffer_free(ctx, &text);
}

static void recall_texts_are_known(void **state)
{
    focal_ctx *ctx = *state;
    const focal_recall_plan plan = {.queries = 2, .seed = 1};
    const focal_recall_plan training = {.queries = 2, .seed = 1, .is_training = true};
    recall_text_is(ctx, &plan, 0, 4, "voxo wo\nbidu qu\nzeci no\nbali wo\n\nvoxo wo\nbidu qu\n");
    recall_text_is(ctx, &plan, 1, 4, "qube xe\nfuvi he\nkupe ne\nxaza cu\n\nfuvi he\nkupe ne\n");
    recall_text_is(ctx, &training, 0, 4,
                   "duwe ma\nmeli xu\nqagu we\nrano va\n\nduwe ma\nmeli xu\n");
}

/* Keys differ, queries repeat lines, one of each quarter in turn and none twice. */
static void recall_texts_can_be_answered(void **state)
{
    static const int32_t sizes[] = {1, 2, 3, 4, 5, 7, 40, 333, FOCAL_RECALL_PAIRS_MOST};
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++) {
        const int64_t pairs = sizes[n], queries = pairs < 13 ? pairs : 13;
        focal_buffer text = {0};
        const focal_recall_plan plan = {.queries = 13, .seed = n};
        assert_status(ctx, focal_recall_text(ctx, &plan, 2, sizes[n], &text), FOCAL_OK);
        assert_int_equal(text.bytes, (pairs + queries) * LINE + 1);
        const char *asked = text.data + pairs * LINE + 1;
        assert_int_equal(asked[-1], '\n');
        int32_t quarters[4] = {0};
        for (int64_t q = 0; q < queries; q++) {
            int32_t found = 0;
            for (int64_t p = 0; p < pairs; p++) {
                if (memcmp(text.data + p * LINE, asked + q * LINE, 4) != 0) continue;
                assert_memory_equal(text.data + p * LINE, asked + q * LINE, LINE);
                int quarter = 3;
                while (p < pairs * quarter / 4) quarter--;
                quarters[quarter]++;
                found++;
            }
            assert_int_equal(found, 1);
            for (int64_t other = 0; other < q; other++)
                assert_memory_not_equal(asked + other * LINE, asked + q * LINE, 4);
        }
        if (pairs >= 40)
            for (int i = 0; i < 4; i++) assert_in_range(quarters[i], 3, 4);
        focal_buffer_free(ctx, &text);
    }
}

/* Few keys in all texts; and texts to train on ask for each of their pairs, then begin again. */
static void keys_and_rounds(void **state)
{
    enum { KEYS = 20, PAIRS = 6, ROUNDS = 3, TEXTS = 40 };
    focal_ctx *ctx = *state;
    char keys[KEYS][4];
    int32_t key_count = 0;
    const focal_recall_plan plan = {
        .queries = ROUNDS * PAIRS, .keys = KEYS, .seed = 2, .is_training = true};
    const focal_recall_plan measuring = {.queries = ROUNDS * PAIRS, .keys = KEYS, .seed = 2};
    for (int64_t n = 0; n < TEXTS; n++) {
        focal_buffer text = {0};
        assert_status(ctx, focal_recall_text(ctx, &plan, n, PAIRS, &text), FOCAL_OK);
        assert_int_equal(text.bytes, (1 + ROUNDS) * PAIRS * LINE + 1);
        for (ptrdiff_t p = 0; p < PAIRS; p++) {
            const char *line = text.data + p * LINE;
            for (ptrdiff_t round = 0; round < ROUNDS; round++) {
                const char *asked = text.data + (1 + round) * PAIRS * LINE + 1;
                int32_t found = 0;
                for (ptrdiff_t q = 0; q < PAIRS; q++)
                    found += memcmp(asked + q * LINE, line, LINE) == 0;
                assert_int_equal(found, 1);
            }
            int32_t k = 0;
            while (k < key_count && memcmp(keys[k], line, sizeof keys[k]) != 0) k++;
            if (k < key_count) continue;
            assert_true(key_count < KEYS);
            memcpy(keys[key_count++], line, sizeof keys[0]);
        }
        text.bytes = 0;
        assert_status(ctx, focal_recall_text(ctx, &measuring, n, PAIRS, &text), FOCAL_OK);
        assert_int_equal(text.bytes, 2 * PAIRS * LINE + 1);
        focal_buffer_free(ctx, &text);
    }
    assert_int_equal(key_count, KEYS);
}

/* Bytes of text that an id stands for: U+2581 is a space. */
static size_t text_bytes(const focal_tokenizer *tokenizer, int32_t id)
{
    const focal_token token = focal_tokenizer_token(tokenizer, id);
    if (token.kind == FOCAL_TOKEN_BYTE) return 1;
    size_t bytes = token.byte_count;
    for (size_t n = 0; n + 3 <= token.byte_count; n++)
        if (memcmp(token.bytes + n, "\xE2\x96\x81", 3) == 0) bytes -= 2;
    return bytes;
}

/* The id that byte `at` of the text belongs to; ids end where the text ends. */
static int32_t id_of_byte(const focal_tokenizer *tokenizer, const focal_ids *ids,
                          const focal_buffer *text, size_t at)
{
    int64_t n = ids->count;
    for (size_t begin = text->bytes; begin > at;) begin -= text_bytes(tokenizer, ids->ids[--n]);
    return (int32_t)n;
}

/* The same sums from the text alone, by perplexity over the whole of it. */
static void recall_agrees_with_perplexity(void **state)
{
    focal_ctx *ctx = *state;
    focal_model *model = open_tiny(ctx);
    const focal_tokenizer *tokenizer = focal_model_tokenizer(model);
    const focal_recall_plan plan = {.queries = 4, .seed = 3};
    const focal_measure_options options = {.count = 1};
    focal_recall_result result;
    assert_status(ctx, focal_recall(model, &plan, 240, &options, &result), FOCAL_OK);
    const int32_t pairs = (int32_t)result.pairs;
    assert_int_equal(result.values, 4);
    for (int n = 0; n < FOCAL_RECALL_DEPTHS; n++) assert_int_equal(result.depth_values[n], 1);

    focal_buffer text = {0};
    focal_ids ids = {0}, more = {0};
    assert_status(ctx, focal_recall_text(ctx, &plan, 0, pairs, &text), FOCAL_OK);
    assert_status(ctx,
                  focal_tokenizer_encode(ctx, tokenizer, text.data, text.bytes,
                                         FOCAL_ENCODE_ADD_SPECIAL, &ids),
                  FOCAL_OK);
    assert_true(ids.count <= 240);
    double loss = 0.0, right = 0.0, chance = 0.0;
    for (int q = 0; q < 4; q++) {
        const size_t at = (size_t)(pairs + q) * LINE + 1 + VALUE;
        const int32_t begin = id_of_byte(tokenizer, &ids, &text, at);
        const int32_t end = id_of_byte(tokenizer, &ids, &text, at + VALUE_BYTES - 1) + 1;
        loss += mean_by_ppl(model, ids.ids, (int32_t)ids.count, begin, end) / 4;
        right += share_right(model, ids.ids, begin, end) == 1.0;
        for (ptrdiff_t p = 0; p < pairs; p++)
            chance += memcmp(text.data + p * LINE + VALUE, text.data + at, VALUE_BYTES) == 0;
    }
    if (fabs(result.loss - loss) > 1e-4 || fabs(result.accuracy - right / 4) > 1e-9 ||
        fabs(result.chance - chance / (4 * pairs)) > 1e-12)
        fail_msg("loss %g and %g, right %g and %g, chance %g and %g", result.loss, loss,
                 result.accuracy, right / 4, result.chance, chance / (4 * pairs));
    /* One pair more would not fit. */
    text.bytes = 0;
    assert_status(ctx, focal_recall_text(ctx, &plan, 0, pairs + 1, &text), FOCAL_OK);
    assert_status(ctx,
                  focal_tokenizer_encode(ctx, tokenizer, text.data, text.bytes,
                                         FOCAL_ENCODE_ADD_SPECIAL, &more),
                  FOCAL_OK);
    assert_true(more.count > 240);
    focal_ids_free(ctx, &ids);
    focal_ids_free(ctx, &more);
    focal_buffer_free(ctx, &text);
    focal_model_close(model);
}

static void bad_recalls_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    focal_model *model = open_tiny(ctx);
    const focal_recall_plan plan = {0}, negative = {.queries = -1}, few = {.keys = 20},
                            endless = {.queries = FOCAL_RECALL_PAIRS_MOST + 1, .is_training = true};
    focal_buffer text = {0};
    focal_recall_result result;
    assert_status(ctx, focal_recall(model, &plan, 12, NULL, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "recall: 12 tokens do not hold a pair and its query");
    assert_status(ctx, focal_recall(model, &plan, 1 << 20, NULL, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "recall: 1048576 tokens are more than 8192 pairs fill");
    assert_status(ctx, focal_recall(model, &plan, 0, NULL, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "recall: 32 texts of 0 tokens, at least 1 of 1");
    assert_status(ctx, focal_recall_text(ctx, &plan, 0, 0, &text), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "recall: a text of 0 pairs (1 to 8192) with 8 queries (1 to 8192)");
    assert_status(ctx, focal_recall_text(ctx, &few, 0, 21, &text), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "recall: a text of 21 pairs (1 to 20) with 8 queries (1 to 8192)");
    assert_status(ctx, focal_recall(model, &few, 1 << 10, NULL, &result), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "recall: 1024 tokens are more than 20 pairs fill");
    for (int32_t keys = -1; keys <= FOCAL_RECALL_KEYS + 1; keys += FOCAL_RECALL_KEYS + 2) {
        char expected[128];
        const focal_recall_plan wrong = {.keys = keys};
        (void)snprintf(expected, sizeof expected,
                       "recall: %d different keys, 1 to 10000 are possible", keys);
        assert_status(ctx, focal_recall_text(ctx, &wrong, 0, 4, &text), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), expected);
        assert_status(ctx, focal_recall(model, &wrong, 240, NULL, &result), FOCAL_EINVAL);
        assert_string_equal(focal_ctx_error(ctx), expected);
    }
    assert_status(ctx, focal_recall_text(ctx, &endless, 0, 4, &text), FOCAL_EINVAL);
    assert_status(ctx, focal_recall_text(ctx, &negative, 0, 4, &text), FOCAL_EINVAL);
    assert_status(ctx, focal_recall_text(ctx, &plan, -1, 4, &text), FOCAL_EINVAL);
    focal_model_close(model);
}

static bool stop_at_once(void *user, int64_t done, int64_t count, double accuracy)
{
    (void)user;
    assert_int_equal(done, 1);
    assert_int_equal(count, 2);
    assert_true(accuracy >= 0.0 && accuracy <= 1.0);
    return false;
}

static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    focal_model *model = open_tiny(ctx);
    static int32_t ids[TEXT_IDS];
    fill_ids(model, ids);
    const focal_copy_text text = {ids, TEXT_IDS};
    const focal_copy_plan plan = {.texts = &text, .text_count = 1, .passage = 8, .length = 24};
    const focal_recall_plan recall = {.queries = 1};
    const focal_measure_options options = {.count = 2, .on_sequence = stop_at_once};
    for (int64_t n = 1;; n++) {
        assert_true(n < 10000);
        focal_ctx_trim(ctx);
        const int64_t live = memory_live_blocks();
        focal_copy_result copied = {0};
        focal_recall_result recalled = {0};
        memory_fail(n, n % 2 == 0);
        focal_status status = focal_copy(model, &plan, 0, &options, &copied);
        if (status == FOCAL_OK) status = focal_recall(model, &recall, 100, &options, &recalled);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
        if (status == FOCAL_OK) assert_int_equal(copied.count + recalled.count, 2);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) break;
    }
    focal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sequences_are_passages, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(seeds_give_known_places, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(even_places_follow_the_rule, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(copy_agrees_with_perplexity, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_copies_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(recall_texts_are_known, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(recall_texts_can_be_answered, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(keys_and_rounds, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(recall_agrees_with_perplexity, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_recalls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("copy_recall", tests, NULL, NULL);
}
