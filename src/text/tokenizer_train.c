/* A tokenizer from text: words are counted as the text comes, then pairs are joined and the result
 * is written as tokenizer.json. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/bpe_train.h"
#include "text/text_cut.h"
#include "text/tokenizer_export.h"
#include "text/tokenizer_parts.h"

enum {
    WORD_BYTES_MOST = 1024,       /* half of what a token may have, written as characters */
    WORDS_MOST = 8 << 20,         /* different words: with their pairs some GB at the worst, */
    WORDS_BYTES_MOST = 128 << 20, /* some hundred MB for what people write */
    SPECIALS_MOST = 1024
};

/* Digits one by one, line ends that stay with the sign before them, words that take any sign in
 * front: the pattern of Qwen 2 and 3 is what models of today split by, and what focal trains is of
 * the Qwen 3 type. GPT-2's joins digits to numbers that a small vocabulary never has. */
static const char default_pre[] = "qwen2";
static const char *const default_specials[] = {"<|endoftext|>"};

struct focal_tokenizer_trainer {
    focal_ctx *ctx;
    focal_tokenizer_trainer_options options;
    const foci_pre_tokenizer *pre;
    foci_splitter splitter;
    foci_split_run split;
    foci_pieces pieces;
    foci_words words;
    foci_words tokens; /* the special ones, then the bytes */
    int32_t byte_id[256];
    int64_t word_count, long_words;
};

void focal_tokenizer_trainer_free(focal_tokenizer_trainer *trainer)
{
    if (!trainer) return;
    foci_split_free(&trainer->split);
    foci_splitter_free(&trainer->splitter);
    foci_pieces_free(&trainer->pieces);
    foci_words_free(&trainer->words);
    foci_words_free(&trainer->tokens);
    foci_free(trainer->ctx, trainer);
}

/* A piece of text, cut where words end. */
static focal_status count_words(void *user, const char *text, size_t bytes)
{
    focal_tokenizer_trainer *t = user;
    FOCAL_TRY(foci_split_begin(&t->split, t->ctx, &t->splitter, text, bytes, true));
    for (;;) {
        const char *word;
        size_t word_bytes;
        int64_t index;
        FOCAL_TRY(foci_split_next(&t->split, &word, &word_bytes));
        if (!word) return FOCAL_OK;
        t->word_count++;
        if (word_bytes <= WORD_BYTES_MOST)
            FOCAL_TRY(foci_words_add(&t->words, word, word_bytes, 1, &index));
        else
            t->long_words++;
    }
}

static focal_status check_options(focal_ctx *ctx, const focal_tokenizer_trainer_options *o)
{
    const int32_t least = 256 + o->special_count;
    if (o->special_count < 0 || o->special_count > SPECIALS_MOST)
        return foci_fail(ctx, FOCAL_EINVAL, "tokenizer: %d special tokens, 0 to %d can be",
                         o->special_count, SPECIALS_MOST);
    if (o->vocab < least || o->vocab > FOCAL_VOCAB_MOST)
        return foci_fail(ctx, FOCAL_EINVAL, "tokenizer: a vocabulary of %d tokens, %d to %d can be",
                         o->vocab, least, FOCAL_VOCAB_MOST);
    if (o->min_count < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "tokenizer: a least count of %lld, 1 or more can be",
                         (long long)o->min_count);
    return FOCAL_OK;
}

/* The special tokens, then the characters of the bytes in their own order. */
static focal_status add_first_tokens(focal_tokenizer_trainer *t)
{
    int64_t index;
    for (int32_t n = 0; n < t->options.special_count; n++) {
        const char *text = t->options.specials[n];
        const size_t bytes = text ? strlen(text) : 0;
        if (bytes == 0 || bytes > FOCI_TOKEN_BYTES_MOST || foci_utf8_step(text, bytes) == bytes ||
            foci_utf8_valid(text, bytes) < bytes)
            return foci_fail(t->ctx, FOCAL_EINVAL,
                             "tokenizer: special token %d must be UTF-8 of 2 characters or more",
                             n);
        FOCAL_TRY(foci_words_add(&t->tokens, text, bytes, 1, &index));
        if (index < n)
            return foci_fail(t->ctx, FOCAL_EINVAL, "tokenizer: special token '%.64s' comes twice",
                             text);
    }
    for (int32_t character = '!'; character <= 0x143; character++) {
        char text[FOCI_UTF8_MOST], byte;
        const size_t bytes = foci_utf8_encode(character, text);
        if (foci_bytes_of_level(text, bytes, &byte) != 1) continue;
        FOCAL_TRY(foci_words_add(&t->tokens, text, bytes, 1, &index));
        t->byte_id[(unsigned char)byte] = (int32_t)index;
    }
    return FOCAL_OK;
}

static focal_status prepare(focal_tokenizer_trainer *t)
{
    focal_tokenizer_trainer_options *o = &t->options;
    if (o->vocab == 0) o->vocab = FOCAL_VOCAB_DEFAULT;
    if (o->min_count == 0) o->min_count = 2;
    if (o->special_count == 0) {
        o->specials = default_specials;
        o->special_count = FOCAL_COUNT(default_specials);
    }
    FOCAL_TRY(check_options(t->ctx, o));
    t->pre = foci_pre_find(foci_text_of(o->pre ? o->pre : default_pre));
    if (!t->pre)
        return foci_fail(t->ctx, FOCAL_EINVAL, "tokenizer: a splitting '%.64s' is not known here",
                         o->pre);
    FOCAL_TRY(foci_splitter_of_pre(t->ctx, t->pre, &t->splitter));
    t->words =
        (foci_words){.ctx = t->ctx, .most = WORDS_MOST, .bytes_most = (size_t)WORDS_BYTES_MOST};
    t->tokens = (foci_words){.ctx = t->ctx, .most = INT32_MAX, .bytes_most = UINT32_MAX};
    t->pieces = (foci_pieces){.ctx = t->ctx,
                              .rule = foci_cut_rule_of(&t->splitter),
                              .piece_bytes = FOCI_PIECE_BYTES,
                              .take = count_words,
                              .user = t};
    return add_first_tokens(t);
}

focal_status focal_tokenizer_trainer_new(focal_ctx *ctx,
                                         const focal_tokenizer_trainer_options *options,
                                         focal_tokenizer_trainer **trainer)
{
    *trainer = NULL;
    focal_tokenizer_trainer *t = foci_alloc(ctx, 1, sizeof *t);
    if (!t) return FOCAL_ENOMEM;
    memset(t, 0, sizeof *t);
    t->ctx = t->pieces.ctx = ctx;
    t->split.depth = -1;
    if (options) t->options = *options;
    const focal_status status = prepare(t);
    if (status != FOCAL_OK) {
        focal_tokenizer_trainer_free(t);
        return status;
    }
    *trainer = t;
    return FOCAL_OK;
}

focal_status focal_tokenizer_trainer_add(focal_tokenizer_trainer *trainer, const char *text,
                                         size_t bytes)
{
    return foci_pieces_put(&trainer->pieces, text, bytes);
}

focal_status focal_tokenizer_trainer_end(focal_tokenizer_trainer *trainer)
{
    return foci_pieces_end(&trainer->pieces);
}

/* What a GGUF file would hold of the vocabulary: arrays that belong to the call. */
typedef struct source_arrays {
    foci_text *tokens, *merges;
    int64_t *types;
    char *merge_text;
} source_arrays;

static focal_status make_arrays(focal_ctx *ctx, const foci_bpe_training *t, source_arrays *a)
{
    const foci_words *tokens = &t->tokens;
    size_t bytes = 0;
    for (int64_t n = 0; n < t->merge_count; n++)
        bytes += (size_t)tokens->words[t->merges[n].left].bytes +
                 tokens->words[t->merges[n].right].bytes + 1;
    a->tokens = foci_alloc(ctx, (size_t)tokens->count, sizeof *a->tokens);
    a->types = foci_alloc(ctx, (size_t)tokens->count, sizeof *a->types);
    a->merges = foci_alloc(ctx, (size_t)t->merge_count, sizeof *a->merges);
    a->merge_text = foci_alloc(ctx, bytes, 1);
    if (!a->tokens || !a->types || !a->merges || !a->merge_text) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < tokens->count; n++) {
        a->tokens[n] = (foci_text){foci_word_text(tokens, n), tokens->words[n].bytes};
        a->types[n] = n < t->special_count ? FOCAL_TOKEN_CONTROL : FOCAL_TOKEN_NORMAL;
    }
    char *at = a->merge_text;
    for (int64_t n = 0; n < t->merge_count; n++) {
        const foci_text left = a->tokens[t->merges[n].left], right = a->tokens[t->merges[n].right];
        a->merges[n] = (foci_text){at, left.bytes + right.bytes + 1};
        memcpy(at, left.data, left.bytes);
        at[left.bytes] = ' ';
        memcpy(at + left.bytes + 1, right.data, right.bytes);
        at += a->merges[n].bytes;
    }
    return FOCAL_OK;
}

static focal_status write_result(const focal_tokenizer_trainer *t, const foci_bpe_training *b,
                                 const char *path)
{
    source_arrays a = {0};
    focal_status status = make_arrays(t->ctx, b, &a);
    const foci_vocab_source source = {.what = path,
                                      .model = foci_text_of("gpt2"),
                                      .pre = foci_text_of(t->pre->name),
                                      .tokens = a.tokens,
                                      .types = a.types,
                                      .merges = a.merges,
                                      .token_count = b->tokens.count,
                                      .merge_count = b->merge_count,
                                      .may_lack_merges = true,
                                      .bos = -1,
                                      .eos = -1,
                                      .eot = -1,
                                      .unk = -1,
                                      .pad = -1};
    if (status == FOCAL_OK) status = foci_tokenizer_write_source(t->ctx, &source, path);
    foci_free(t->ctx, a.tokens);
    foci_free(t->ctx, a.types);
    foci_free(t->ctx, a.merges);
    foci_free(t->ctx, a.merge_text);
    return status;
}

focal_status focal_tokenizer_trainer_save(focal_tokenizer_trainer *trainer, const char *path,
                                          focal_tokenizer_trainer_result *result)
{
    FOCAL_TRY(foci_pieces_end(&trainer->pieces));
    if (trainer->words.count == 0)
        return foci_fail(trainer->ctx, FOCAL_EINVAL, "tokenizer: there is no text to learn from");
    foci_bpe_training b = {.ctx = trainer->ctx,
                           .words = &trainer->words,
                           .vocab = trainer->options.vocab,
                           .min_count = trainer->options.min_count,
                           .special_count = trainer->options.special_count,
                           .on_merge = trainer->options.on_merge,
                           .user = trainer->options.user,
                           .tokens = trainer->tokens};
    memcpy(b.byte_id, trainer->byte_id, sizeof b.byte_id);
    trainer->tokens = (foci_words){.ctx = trainer->ctx}; /* b has them */
    focal_status status = foci_bpe_train(&b);
    if (status == FOCAL_OK) status = write_result(trainer, &b, path);
    if (status == FOCAL_OK && result)
        *result = (focal_tokenizer_trainer_result){.vocab = (int32_t)b.tokens.count,
                                                   .merge_count = b.merge_count,
                                                   .word_count = trainer->word_count,
                                                   .distinct_words = trainer->words.count,
                                                   .long_words = trainer->long_words,
                                                   .forgotten_words = trainer->words.forgotten};
    foci_free(trainer->ctx, b.merges);
    foci_words_free(&b.tokens);
    return status;
}
