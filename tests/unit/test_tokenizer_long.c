/* Long words: joined window by window they become what the definition makes of the whole, and texts
 * made to be slow take time and memory in proportion. */
#include "support/golden_tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"

/* A symbol of the definition: its bytes, its id, and the rank of the pair that it begins. */
typedef struct symbol {
    size_t begin, end;
    int32_t id, joined;
    double rank; /* the lowest is joined first */
} symbol;

static const double no_pair = 1e300;

static void rank_pair(const foci_bpe *bpe, const char *text, symbol *left, const symbol *right)
{
    left->rank = no_pair;
    if (bpe->by_score) {
        left->joined = foci_vocab_find(bpe->vocab, text + left->begin, right->end - left->begin);
        if (left->joined >= 0) left->rank = -bpe->vocab->score[left->joined];
        return;
    }
    const foci_merge *merge = foci_find_merge(bpe, foci_pair_of(left->id, right->id));
    if (merge->pair == UINT64_MAX) return;
    left->joined = merge->joined;
    left->rank = merge->rank;
}

/* Bytes, or characters; those without a token become byte tokens, under scores at the end. */
static size_t begin_symbols(const foci_bpe *bpe, const char *text, size_t bytes, symbol *out)
{
    size_t count = 0;
    for (size_t at = 0, length; at < bytes; at += length) {
        length = bpe->is_byte_level ? 1 : foci_utf8_step(text + at, bytes - at);
        const int32_t id = bpe->is_byte_level ? bpe->vocab->byte_id[(unsigned char)text[at]]
                                              : foci_vocab_find(bpe->vocab, text + at, length);
        if (id < 0 && !bpe->by_score)
            for (size_t n = at; n < at + length; n++)
                out[count++] =
                    (symbol){n, n + 1, bpe->vocab->byte_id[(unsigned char)text[n]], -1, no_pair};
        else
            out[count++] = (symbol){at, at + length, id, -1, no_pair};
    }
    for (size_t n = 0; n + 1 < count; n++) rank_pair(bpe, text, &out[n], &out[n + 1]);
    return count;
}

/* Joins the best pair by looking at all of them: the definition. */
static size_t join_slowly(const foci_bpe *bpe, const char *text, symbol *s, size_t count)
{
    for (;;) {
        size_t best = 0;
        for (size_t n = 1; n < count; n++)
            if (s[n].rank < s[best].rank) best = n;
        if (count == 0 || s[best].rank == no_pair) return count;
        s[best].id = s[best].joined;
        s[best].end = s[best + 1].end;
        count--;
        memmove(s + best + 1, s + best + 2, (count - best - 1) * sizeof *s);
        s[best].rank = no_pair;
        if (best + 1 < count) rank_pair(bpe, text, &s[best], &s[best + 1]);
        if (best > 0) rank_pair(bpe, text, &s[best - 1], &s[best]);
    }
}

static void check_word(focal_ctx *ctx, const foci_bpe *bpe, const char *name, const char *text,
                       size_t bytes)
{
    focal_ids fast = {0};
    symbol *slow = new_array(bytes + 1, sizeof *slow);
    const size_t count = join_slowly(bpe, text, slow, begin_symbols(bpe, text, bytes, slow));
    assert_status(ctx, foci_bpe_encode(ctx, bpe, text, bytes, &fast), FOCAL_OK);
    int64_t n = 0;
    for (size_t k = 0; k < count; k++) {
        const bool has_id = slow[k].id >= 0;
        for (size_t at = slow[k].begin; at < (has_id ? slow[k].begin + 1 : slow[k].end); at++) {
            const int32_t id = has_id ? slow[k].id : bpe->vocab->byte_id[(unsigned char)text[at]];
            if (n >= fast.count || fast.ids[n] != id)
                fail_msg("%s, %zu bytes: id %lld of %lld at byte %zu is not %d", name, bytes,
                         (long long)n, (long long)fast.count, at, id);
            n++;
        }
    }
    assert_int_equal(fast.count, n);
    focal_ids_free(ctx, &fast);
    free(slow);
}

/* Pieces that the small vocabularies know, in no order; one in 64 is no UTF-8, or unknown. */
static size_t odd_word(uint32_t seed, bool is_plain, char *out, size_t room)
{
    static const char *const known[] = {"t", "h", "e", "s", "i", "p", "a", "the", "er", "n", "o"};
    static const char *const odd[] = {"\u4E2D", "\xFF", "\u00E9", "\xE4\xB8", "\U0001F600"};
    size_t bytes = 0;
    for (;;) {
        seed = seed * 1664525U + 1013904223U;
        const uint32_t draw = seed >> 16;
        const char *piece = known[draw % FOCAL_COUNT(known)];
        if (!is_plain && draw % 64 == 0) piece = odd[draw / 64 % FOCAL_COUNT(odd)];
        if (bytes + strlen(piece) > room) return bytes;
        for (; *piece; piece++) out[bytes++] = *piece;
    }
}

static void long_words_equal_the_definition(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"gpt2", "gemma", "llama2", "sentencepiece"};
    static const size_t sizes[] = {1, 2, 17, 256, 400, 4095, 4096, 4097, 7700, 7936, 13000};
    enum { MOST = 13000 };
    char *word = new_array(MOST, 1);
    for (size_t k = 0; k < FOCAL_COUNT(names); k++) {
        focal_tokenizer *t = NULL;
        if (strcmp(names[k], "sentencepiece") == 0) {
            golden_source g;
            golden_source_open(ctx, names[k], &g);
            assert_status(ctx, foci_tokenizer_from_source(ctx, &g.source, &t), FOCAL_OK);
            golden_source_close(&g);
            assert_true(t->bpe.by_score);
        } else {
            t = golden_tokenizer(ctx, names[k]);
        }
        for (size_t n = 0; n < FOCAL_COUNT(sizes); n++) {
            for (uint32_t seed = 1; seed <= 4; seed++) {
                const size_t bytes = odd_word(seed, seed % 2, word, sizes[n]);
                check_word(ctx, &t->bpe, names[k], word, bytes);
            }
            memset(word, 'e', sizes[n]);
            check_word(ctx, &t->bpe, names[k], word, sizes[n]);
        }
        focal_tokenizer_free(t);
    }
    free(word);
}

/* A vocabulary in which a sign at the end takes hundreds of letters before it along: windows agree
 * on nothing there, and the whole has to be joined. */
static void windows_that_disagree_change_nothing(void **state)
{
    focal_ctx *ctx = *state;
    enum { LONGEST = 700, TOKENS = LONGEST + 2, CUT = 3839 /* where the second window begins */ };
    char text[CUT + 600], suffix[LONGEST + 1];
    foci_vocab_entry entries[TOKENS] = {{"x", 1, 0.0, FOCAL_TOKEN_NORMAL}};
    foci_vocab *vocab = NULL;
    memset(suffix, 'x', LONGEST);
    suffix[LONGEST] = 'y';
    for (int n = 0; n <= LONGEST; n++)
        entries[n + 1] =
            (foci_vocab_entry){suffix + LONGEST - n, (size_t)n + 1, -n, FOCAL_TOKEN_NORMAL};
    assert_status(ctx, foci_vocab_new(ctx, "test", entries, TOKENS, false, &vocab), FOCAL_OK);
    const foci_bpe bpe = {.ctx = ctx, .vocab = vocab, .by_score = true, .unknown = -1};
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 'y';
    check_word(ctx, &bpe, "suffixes", text, sizeof text);
    text[CUT + 300] = 'y';
    check_word(ctx, &bpe, "suffixes", text, sizeof text);
    foci_vocab_free(vocab);
}

enum { HOSTILE_BYTES = 1 << 17 }; /* a square of this would take minutes */

/* One text of a repeated unit: memory that a linear method needs, with room to spare. Time is
 * watched by the limit of the whole test: of 80 such texts, one that takes minutes is enough. */
static void check_hostile(focal_ctx *ctx, const focal_tokenizer *t, const char *name,
                          const char *unit)
{
    focal_ids ids = {0};
    char *text = new_array(HOSTILE_BYTES, 1);
    for (size_t n = 0; n < HOSTILE_BYTES; n++) text[n] = unit[n % strlen(unit)];
    focal_ctx_trim(ctx);
    focal_ctx_memory_reset(ctx);
    const size_t before = focal_ctx_memory(ctx).now_bytes;
    assert_status(ctx, focal_tokenizer_encode(ctx, t, text, HOSTILE_BYTES, 0, &ids), FOCAL_OK);
    const size_t peak = focal_ctx_memory(ctx).peak_bytes - before;
    if (peak > 40UL * HOSTILE_BYTES)
        fail_msg("%s, '%s': %zu bytes for a text of %d", name, unit, peak, HOSTILE_BYTES);
    focal_ids_free(ctx, &ids);
    free(text);
}

static void hostile_texts_take_linear_time(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"gpt2", "qwen2", "gemma", "unigram_bytes"};
    static const char *const pres[] = {"tekken", "gpt-4o", "deepseek-v3", "default"};
    static const char *const units[] = {"a",    " ", "th", "\n ",    "\u0301\u0316",
                                        "\xFF", "1", "A",  "\u4E2D", "\xFF\x65\u0301"};
    for (size_t k = 0; k < FOCAL_COUNT(names) + FOCAL_COUNT(pres); k++) {
        focal_tokenizer *t = NULL;
        const bool is_file = k < FOCAL_COUNT(names);
        const char *name = is_file ? names[k] : pres[k - FOCAL_COUNT(names)];
        if (is_file) {
            t = golden_tokenizer(ctx, name);
        } else {
            golden_source g;
            golden_source_open(ctx, "gpt2", &g);
            g.source.pre = (foci_text){name, strlen(name)};
            assert_status(ctx, foci_tokenizer_from_source(ctx, &g.source, &t), FOCAL_OK);
            golden_source_close(&g);
        }
        for (size_t u = 0; u < FOCAL_COUNT(units); u++) check_hostile(ctx, t, name, units[u]);
        focal_tokenizer_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_words_equal_the_definition, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(windows_that_disagree_change_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(hostile_texts_take_linear_time, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("tokenizer_long", tests, NULL, NULL);
}
