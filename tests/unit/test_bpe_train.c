/* Training a tokenizer: the merges of a plain definition that counts everything anew each time, any
 * cut of the text, options out of range, forgotten words, failing memory; the result loads. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "support/folder.h"
#include "text/bpe_train.h"
#include "text/tokenizer.h"

enum { MOST_WORDS = 400, MOST_LENGTH = 24, MOST_TOKENS = 700 };

/* The definition: words as lists of tokens, all pairs counted for every merge. */
typedef struct plain {
    int32_t symbols[MOST_WORDS][MOST_LENGTH];
    int length[MOST_WORDS];
    int64_t count[MOST_WORDS];
    int words;
    char tokens[MOST_TOKENS][2 * MOST_LENGTH];
    int32_t token_count;
    foci_pair merges[MOST_TOKENS];
    int64_t merge_count;
} plain;

static int64_t count_pair(const plain *p, foci_pair pair)
{
    int64_t count = 0;
    for (int w = 0; w < p->words; w++)
        for (int n = 0; n + 1 < p->length[w]; n++)
            if (p->symbols[w][n] == pair.left && p->symbols[w][n + 1] == pair.right)
                count += p->count[w];
    return count;
}

static bool best_pair(const plain *p, foci_pair *best, int64_t *best_count)
{
    *best_count = 0;
    for (int w = 0; w < p->words; w++)
        for (int n = 0; n + 1 < p->length[w]; n++) {
            const foci_pair pair = {p->symbols[w][n], p->symbols[w][n + 1]};
            const int64_t count = count_pair(p, pair);
            const bool is_lower =
                pair.left < best->left || (pair.left == best->left && pair.right < best->right);
            if (count < *best_count || (count == *best_count && !is_lower)) continue;
            *best = pair;
            *best_count = count;
        }
    return *best_count > 0;
}

static void join_pair(plain *p, foci_pair pair, int32_t joined)
{
    for (int w = 0; w < p->words; w++) {
        int out = 0;
        for (int n = 0; n < p->length[w]; n++) {
            const bool is_here = n + 1 < p->length[w] && p->symbols[w][n] == pair.left &&
                                 p->symbols[w][n + 1] == pair.right;
            p->symbols[w][out++] = is_here ? joined : p->symbols[w][n];
            n += is_here;
        }
        p->length[w] = out;
    }
}

static void train_plain(plain *p, int32_t vocab, int64_t min_count)
{
    foci_pair pair = {0};
    int64_t count;
    while (p->token_count < vocab && best_pair(p, &pair, &count) && count >= min_count) {
        char text[2 * MOST_LENGTH]; /* twice the longest word */
        int32_t joined = 0;
        const size_t left = strlen(p->tokens[pair.left]);
        assert_true(left + strlen(p->tokens[pair.right]) < sizeof text);
        memcpy(text, p->tokens[pair.left], left);
        memcpy(text + left, p->tokens[pair.right], strlen(p->tokens[pair.right]) + 1);
        while (joined < p->token_count && strcmp(p->tokens[joined], text) != 0) joined++;
        if (joined == p->token_count) memcpy(p->tokens[p->token_count++], text, sizeof text);
        p->merges[p->merge_count++] = pair;
        join_pair(p, pair, joined);
    }
}

/* Words of a few letters, so that tokens come about in several ways. */
static void random_words(focal_ctx *ctx, uint32_t *state, int letters, foci_words *words, plain *p)
{
    *words = (foci_words){.ctx = ctx, .most = 1000, .bytes_most = 1 << 20};
    memset(p, 0, sizeof *p);
    for (int n = 0; n < letters; n++) p->tokens[p->token_count++][0] = (char)('a' + n);
    for (int n = 0; n < 60; n++) {
        char text[MOST_LENGTH];
        *state = *state * 1664525U + 1013904223U;
        const int length = 1 + (int)(*state >> 20) % 16;
        const int64_t times = 1 + (*state >> 8) % 5;
        for (int k = 0; k < length; k++) {
            *state = *state * 1664525U + 1013904223U;
            text[k] = (char)('a' + (*state >> 16) % (uint32_t)letters);
        }
        int64_t index;
        assert_status(ctx, foci_words_add(words, text, (size_t)length, times, &index), FOCAL_OK);
    }
    for (int64_t w = 0; w < words->count; w++) {
        p->count[w] = words->words[w].count;
        p->length[w] = (int)words->words[w].bytes;
        for (int k = 0; k < p->length[w]; k++) p->symbols[w][k] = foci_word_text(words, w)[k] - 'a';
    }
    p->words = (int)words->count;
}

static void merges_are_those_of_the_definition(void **state)
{
    focal_ctx *ctx = *state;
    static plain p;
    uint32_t seed = 1;
    for (int round = 0; round < 120; round++) {
        const int letters = 2 + round % 4;
        foci_words words;
        int64_t index;
        random_words(ctx, &seed, letters, &words, &p);
        foci_bpe_training t = {.ctx = ctx,
                               .words = &words,
                               .vocab = letters + 10 + 3 * (round % 60),
                               .min_count = 1 + round % 3,
                               .tokens = {.ctx = ctx, .most = 1000, .bytes_most = 1 << 20}};
        for (int n = 0; n < letters; n++) {
            const char letter = (char)('a' + n);
            assert_status(ctx, foci_words_add(&t.tokens, &letter, 1, 1, &index), FOCAL_OK);
            t.byte_id['a' + n] = n;
        }
        assert_status(ctx, foci_bpe_train(&t), FOCAL_OK);
        train_plain(&p, t.vocab, t.min_count);
        assert_int_equal(t.merge_count, p.merge_count);
        assert_memory_equal(t.merges, p.merges, (size_t)p.merge_count * sizeof *t.merges);
        assert_int_equal(t.tokens.count, p.token_count);
        foci_free(ctx, t.merges);
        foci_words_free(&t.tokens);
        foci_words_free(&words);
    }
}

static const char sample[] =
    "The quick brown fox jumps over the lazy dog; the dog doesn't mind, the fox does.\n"
    "In 1984 and 2024 na\xC3\xAFve caf\xC3\xA9s served \xE4\xB8\xAD\xE6\x96\x87 "
    "\xE4\xB8\xAD\xE6\x96\x87 "
    "tea.\n\n  The quick tea, the quick dog, the caf\xC3\xA9s' dog!\r\n\tquick quick\n";

static focal_status train(focal_ctx *ctx, const focal_tokenizer_trainer_options *options,
                          size_t piece, const char *path, focal_tokenizer_trainer_result *result)
{
    focal_tokenizer_trainer *trainer = NULL;
    FOCAL_TRY(focal_tokenizer_trainer_new(ctx, options, &trainer));
    focal_status status = FOCAL_OK;
    for (size_t at = 0; at < sizeof sample - 1 && status == FOCAL_OK; at += piece) {
        const size_t left = sizeof sample - 1 - at;
        status = focal_tokenizer_trainer_add(trainer, sample + at, left < piece ? left : piece);
    }
    if (status == FOCAL_OK) status = focal_tokenizer_trainer_end(trainer);
    if (status == FOCAL_OK) status = focal_tokenizer_trainer_save(trainer, path, result);
    focal_tokenizer_trainer_free(trainer);
    return status;
}

static void result_loads_and_gives_the_text_back(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    static const char *const pres[] = {NULL, "gpt-2", "llama-bpe", "smollm", "deepseek-v3"};
    for (size_t n = 0; n < FOCAL_COUNT(pres); n++) {
        const focal_tokenizer_trainer_options options = {.vocab = 285, .pre = pres[n]};
        focal_tokenizer_trainer_result result;
        focal_tokenizer *t = NULL;
        focal_ids ids = {0};
        focal_buffer text = {0};
        const char *path = folder_file(&f, "tokenizer.json");
        assert_status(ctx, train(ctx, &options, 1000, path, &result), FOCAL_OK);
        assert_int_equal(result.vocab, 285);
        assert_int_equal(result.merge_count, 28);
        assert_status(ctx, focal_tokenizer_open(ctx, path, &t), FOCAL_OK);
        assert_int_equal(focal_tokenizer_size(t), 285);
        assert_int_equal(focal_tokenizer_find(t, "<|endoftext|>", 13), 0);
        assert_int_equal(focal_tokenizer_token(t, 0).kind, FOCAL_TOKEN_CONTROL);
        assert_int_equal(focal_tokenizer_document_end(t), 0);
        assert_int_equal(focal_tokenizer_find(t, "!", 1), 1); /* the order of characters */
        assert_int_equal(focal_tokenizer_find(t, "\xAD", 1), 256);
        assert_true(focal_tokenizer_find(t, " the", 4) > 256);
        assert_status(ctx, focal_tokenizer_encode(ctx, t, sample, sizeof sample - 1, 0, &ids),
                      FOCAL_OK);
        assert_true(ids.count < (int64_t)sizeof sample - 60);
        assert_status(ctx, focal_tokenizer_decode(ctx, t, ids.ids, ids.count, 0, &text), FOCAL_OK);
        assert_int_equal(text.bytes, sizeof sample - 1);
        assert_memory_equal(text.data, sample, text.bytes);
        focal_ids_free(ctx, &ids);
        focal_buffer_free(ctx, &text);
        focal_tokenizer_free(t);
    }
    folder_remove(&f);
}

static void any_cut_gives_the_same_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const focal_tokenizer_trainer_options options = {.vocab = 320};
    size_t bytes, other;
    char path[128];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "tokenizer.json"));
    assert_status(ctx, train(ctx, &options, 1000, path, NULL), FOCAL_OK);
    void *whole = read_bytes(path, &bytes);
    for (size_t piece = 1; piece < 40; piece += 3) {
        assert_status(ctx, train(ctx, &options, piece, path, NULL), FOCAL_OK);
        void *cut = read_bytes(path, &other);
        assert_int_equal(bytes, other);
        assert_memory_equal(whole, cut, bytes);
        free(cut);
    }
    free(whole);
    folder_remove(&f);
}

static void small_vocabularies_and_few_pairs(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "tokenizer.json");
    focal_tokenizer_trainer_result result;
    focal_tokenizer *t = NULL;
    focal_tokenizer_trainer_options options = {.vocab = 257};
    assert_status(ctx, train(ctx, &options, 50, path, &result), FOCAL_OK);
    assert_int_equal(result.vocab, 257);
    assert_int_equal(result.merge_count, 0);
    assert_status(ctx, focal_tokenizer_open(ctx, path, &t), FOCAL_OK);
    focal_tokenizer_free(t);
    options = (focal_tokenizer_trainer_options){.vocab = 5000, .min_count = 4};
    assert_status(ctx, train(ctx, &options, 50, path, &result), FOCAL_OK);
    assert_true(result.vocab > 260 && result.vocab < 320);
    folder_remove(&f);
}

static void special_tokens_are_kept_apart(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const char *path = folder_file(&f, "tokenizer.json");
    static const char *const specials[] = {"<a>", "the", "\xE2\x96\x81x"};
    const focal_tokenizer_trainer_options options = {
        .vocab = 330, .specials = specials, .special_count = 3};
    focal_tokenizer *t = NULL;
    focal_ids ids = {0};
    assert_status(ctx, train(ctx, &options, 50, path, NULL), FOCAL_OK);
    assert_status(ctx, focal_tokenizer_open(ctx, path, &t), FOCAL_OK);
    assert_int_equal(focal_tokenizer_find(t, "the", 3), 1);
    assert_status(ctx, focal_tokenizer_encode(ctx, t, "the", 3, 0, &ids), FOCAL_OK);
    assert_true(ids.count > 1); /* plain text does not become it */
    focal_ids_free(ctx, &ids);
    focal_tokenizer_free(t);
    folder_remove(&f);
}

static void wrong_options_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const twice[] = {"<a>", "<a>"}, *const one[] = {"a"},
                             *const wide[] = {"\xC3\xA9"};
    static const focal_tokenizer_trainer_options wrong[] = {
        {.vocab = 256},
        {.vocab = -1},
        {.vocab = FOCAL_VOCAB_MOST + 1},
        {.min_count = -1},
        {.pre = "nothing"},
        {.special_count = -1},
        {.special_count = 2, .specials = twice},
        {.special_count = 1, .specials = one},
        {.special_count = 1, .specials = wide},
    };
    for (size_t n = 0; n < FOCAL_COUNT(wrong); n++) {
        focal_tokenizer_trainer *trainer = NULL;
        assert_status(ctx, focal_tokenizer_trainer_new(ctx, &wrong[n], &trainer), FOCAL_EINVAL);
        assert_null(trainer);
    }
    focal_tokenizer_trainer *trainer = NULL;
    assert_status(ctx, focal_tokenizer_trainer_new(ctx, NULL, &trainer), FOCAL_OK);
    assert_status(ctx, focal_tokenizer_trainer_save(trainer, "/nowhere/x", NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_tokenizer_trainer_add(trainer, "a a a", 5), FOCAL_OK);
    assert_status(ctx, focal_tokenizer_trainer_save(trainer, "/nowhere/x", NULL), FOCAL_EIO);
    focal_tokenizer_trainer_free(trainer);
}

/* Room for 8 words: those that came once go first, then those of two. */
static void the_rarest_words_are_forgotten(void **state)
{
    focal_ctx *ctx = *state;
    foci_words words = {.ctx = ctx, .most = 8, .bytes_most = 1000};
    int64_t index;
    for (int n = 0; n < 8; n++) {
        const char letter = (char)('a' + n);
        assert_status(ctx, foci_words_add(&words, &letter, 1, 1 + n / 2, &index), FOCAL_OK);
        assert_int_equal(index, n);
    }
    assert_status(ctx, foci_words_add(&words, "a", 1, 1, &index), FOCAL_OK); /* known: 2 by now */
    assert_int_equal(words.forgotten, 0);
    assert_status(ctx, foci_words_add(&words, "x", 1, 1, &index), FOCAL_OK);
    assert_int_equal(words.forgotten, 4); /* b; then a, c, d */
    assert_int_equal(words.rare, 2);
    assert_int_equal(words.count, 5);
    assert_int_equal(foci_words_find(&words, "b", 1), -1);
    assert_int_equal(foci_words_find(&words, "e", 1), 0);
    assert_int_equal(foci_words_find(&words, "h", 1), 3);
    assert_int_equal(foci_words_find(&words, "x", 1), 4);
    foci_words_free(&words);
    /* The same by bytes. */
    words = (foci_words){.ctx = ctx, .most = 100, .bytes_most = 16};
    assert_status(ctx, foci_words_add(&words, "aaaaaaaa", 8, 1, &index), FOCAL_OK);
    assert_status(ctx, foci_words_add(&words, "bbbb", 4, 9, &index), FOCAL_OK);
    assert_status(ctx, foci_words_add(&words, "ccccc", 5, 1, &index), FOCAL_OK);
    assert_int_equal(words.count, 1); /* 4 and 5 are more than half */
    assert_int_equal(words.rare, 9);
    foci_words_free(&words);
}

static bool stop_at_once(void *user, int64_t done, int64_t total)
{
    (void)user;
    (void)done;
    (void)total;
    return false;
}

static void on_merge_can_end_it(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_tokenizer_trainer *trainer = NULL;
    const focal_tokenizer_trainer_options options = {
        .vocab = 4000, .min_count = 1, .on_merge = stop_at_once};
    assert_status(ctx, focal_tokenizer_trainer_new(ctx, &options, &trainer), FOCAL_OK);
    for (int n = 0; n < 2000; n++) {
        char word[16];
        const int bytes = snprintf(word, sizeof word, " w%cx%cy%c", 'a' + n % 26, 'a' + n / 26 % 26,
                                   'a' + n * 7 % 26);
        assert_status(ctx, focal_tokenizer_trainer_add(trainer, word, (size_t)bytes), FOCAL_OK);
    }
    assert_status(ctx, focal_tokenizer_trainer_save(trainer, folder_file(&f, "x"), NULL),
                  FOCAL_EINVAL);
    focal_tokenizer_trainer_free(trainer);
    assert_int_equal(folder_count(&f), 0);
    folder_remove(&f);
}

static void failing_memory_leaves_nothing(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const focal_tokenizer_trainer_options options = {.vocab = 300};
    focal_status status = FOCAL_ENOMEM;
    for (int n = 1; status != FOCAL_OK; n++) {
        memory_fail(n, false);
        status = train(ctx, &options, 40, folder_file(&f, "tokenizer.json"), NULL);
        memory_fail(0, false);
        assert_true(n < 1000);
        if (status == FOCAL_OK) break;
        assert_int_equal(status, FOCAL_ENOMEM);
        assert_int_equal(folder_count(&f), 0);
    }
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(merges_are_those_of_the_definition, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(result_loads_and_gives_the_text_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(any_cut_gives_the_same_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(small_vocabularies_and_few_pairs, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(special_tokens_are_kept_apart, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(wrong_options_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(the_rarest_words_are_forgotten, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(on_merge_can_end_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failing_memory_leaves_nothing, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("bpe_train", tests, NULL, NULL);
}
