/* The tokenizer's life, and text to ids: added tokens are cut out, what lies between is normalised,
 * split into words, and each word goes to the model, unless the same one was there a while ago. */
#include "text/tokenizer.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"

enum {
    CACHED_BYTES = 24, /* of the longest word that is remembered */
    CACHE_LEAST = 64,  /* words */
    CACHE_MOST = 1 << 14
};

static const char space_sign[] = FOCI_SPACE_SIGN;
enum { SPACE_SIGN_BYTES = sizeof space_sign - 1 };

/* A word that was encoded in this call, and where its ids are in the output. */
typedef struct cached_word {
    uint64_t key[CACHED_BYTES / 8];
    uint32_t bytes; /* 0: free */
    uint32_t count;
    int64_t at;
} cached_word;

/* One call of encode. */
typedef struct encoding {
    focal_ctx *ctx;
    const focal_tokenizer *tokenizer;
    bool with_special;
    focal_ids *out;
    foci_split_run split;
    focal_buffer repaired, normalized, spare;
    cached_word *cache; /* NULL: the text is too short for one */
    uint64_t cache_mask;
} encoding;

focal_status foci_tokenizer_new(focal_ctx *ctx, focal_tokenizer **out)
{
    *out = NULL;
    focal_tokenizer *tokenizer = foci_alloc(ctx, 1, sizeof *tokenizer);
    if (!tokenizer) return FOCAL_ENOMEM;
    memset(tokenizer, 0, sizeof *tokenizer);
    tokenizer->ctx = ctx;
    tokenizer->special = (focal_special_ids){-1, -1, -1, -1, -1, false, false};
    *out = tokenizer;
    return FOCAL_OK;
}

void focal_tokenizer_free(focal_tokenizer *tokenizer)
{
    if (!tokenizer) return;
    focal_ctx *ctx = tokenizer->ctx;
    foci_added_free(&tokenizer->added);
    foci_normalizer_free(ctx, &tokenizer->normalizer);
    foci_splitter_free(&tokenizer->splitter);
    foci_bpe_free(&tokenizer->bpe);
    foci_unigram_free(&tokenizer->unigram);
    foci_vocab_free(tokenizer->vocab);
    foci_free(ctx, tokenizer->origin);
    foci_free(ctx, tokenizer);
}

focal_status foci_tokenizer_set_origin(focal_tokenizer *tokenizer, const char *path, bool is_gguf)
{
    const size_t bytes = strlen(path) + 1;
    tokenizer->origin = foci_alloc(tokenizer->ctx, bytes, 1);
    if (!tokenizer->origin) return FOCAL_ENOMEM;
    memcpy(tokenizer->origin, path, bytes);
    tokenizer->origin_is_gguf = is_gguf;
    return FOCAL_OK;
}

/* Finds the bytes that stand before a sign for space inside of a token. Where no token has one
 * behind a certain byte, no pair is ever joined across that place. */
static void find_cuts(focal_tokenizer *tokenizer)
{
    const foci_vocab *vocab = tokenizer->vocab;
    const foci_bpe *bpe = &tokenizer->bpe;
    const bool loses_nothing = bpe->by_score || bpe->byte_fallback || bpe->unknown >= 0;
    tokenizer->cuts_at_space = tokenizer->model == FOCI_MODEL_BPE && !bpe->is_byte_level &&
                               loses_nothing && !bpe->ignore_merges &&
                               foci_vocab_find(vocab, space_sign, SPACE_SIGN_BYTES) >= 0;
    if (!tokenizer->cuts_at_space) return;
    const char *all = vocab->bytes, *end = all + vocab->begin[vocab->size];
    int32_t id = 0;
    for (const char *at = all; at < end; at += SPACE_SIGN_BYTES) {
        at = memmem(at, (size_t)(end - at), space_sign, SPACE_SIGN_BYTES);
        if (!at) break;
        while (vocab->begin[id + 1] <= (size_t)(at - all)) id++;
        if (vocab->begin[id] < (size_t)(at - all))
            tokenizer->stays_before_space[(unsigned char)at[-1]] = true;
    }
}

/* Names under which models keep the tokens that end a turn or a text. */
static const char *const turn_ends[] = {"<|eot_id|>",    "<|im_end|>", "<|end|>",
                                        "<end_of_turn>", "<|eot|>",    "<EOT>"};
static const char *const text_ends[] = {"<|endoftext|>", "<|end_of_text|>", "<|eom_id|>",
                                        "</s>",          "<eos>",           "<|end_of_sentence|>"};

bool foci_tokenizer_add_end(focal_tokenizer *tokenizer, int32_t id)
{
    if (id < 0 || focal_tokenizer_is_end(tokenizer, id)) return true;
    if (tokenizer->end_count == FOCI_ENDS) return false;
    tokenizer->ends[tokenizer->end_count++] = id;
    return true;
}

/* The control token of that name, or -1: plain text that reads so does not end anything. */
static int32_t control_token(const focal_tokenizer *tokenizer, const char *name)
{
    const int32_t id = foci_vocab_find_any(tokenizer->vocab, name, strlen(name));
    return id >= 0 && tokenizer->vocab->kind[id] == FOCAL_TOKEN_CONTROL ? id : -1;
}

void foci_tokenizer_finish(focal_tokenizer *tokenizer)
{
    focal_special_ids *special = &tokenizer->special;
    find_cuts(tokenizer);
    for (size_t n = 0; n < FOCAL_COUNT(turn_ends); n++) {
        const int32_t id = control_token(tokenizer, turn_ends[n]);
        if (special->eot < 0) special->eot = id;
        (void)foci_tokenizer_add_end(tokenizer, id);
    }
    for (size_t n = 0; n < FOCAL_COUNT(text_ends); n++)
        (void)foci_tokenizer_add_end(tokenizer, control_token(tokenizer, text_ends[n]));
    (void)foci_tokenizer_add_end(tokenizer, special->eot);
    (void)foci_tokenizer_add_end(tokenizer, special->eos);
    special->add_bos = tokenizer->before_count > 0;
    special->add_eos = tokenizer->behind_count > 0;
}

static focal_status model_word(encoding *e, const char *word, size_t bytes)
{
    const focal_tokenizer *tokenizer = e->tokenizer;
    if (tokenizer->model == FOCI_MODEL_UNIGRAM)
        return foci_unigram_encode(e->ctx, &tokenizer->unigram, word, bytes, e->out);
    return foci_bpe_encode(e->ctx, &tokenizer->bpe, word, bytes, e->out);
}

static cached_word *cache_place(const encoding *e, const char *word, size_t bytes, uint64_t key[3])
{
    key[0] = key[1] = key[2] = 0;
    memcpy(key, word, bytes);
    uint64_t hash = (key[0] ^ bytes) * 0x9E3779B97F4A7C15U;
    hash = (hash ^ hash >> 29 ^ key[1]) * 0xD6E8FEB86659FD93U;
    hash = (hash ^ hash >> 32 ^ key[2]) * 0x9E3779B97F4A7C15U;
    return &e->cache[hash >> 40 & e->cache_mask];
}

/* The ids of a word that was here before are copied; a newer word takes an older one's place. */
static focal_status cached(encoding *e, const char *word, size_t bytes)
{
    if (!e->cache || bytes > CACHED_BYTES) return model_word(e, word, bytes);
    uint64_t key[CACHED_BYTES / 8];
    cached_word *place = cache_place(e, word, bytes, key);
    if (place->bytes == bytes && memcmp(place->key, key, sizeof key) == 0) {
        FOCAL_TRY(foci_ids_reserve(e->ctx, e->out, place->count));
        int32_t *to = e->out->ids + e->out->count;
        const int32_t *from = e->out->ids + place->at;
        for (uint32_t n = 0; n < place->count; n++) to[n] = from[n];
        e->out->count += place->count;
        return FOCAL_OK;
    }
    const int64_t at = e->out->count;
    FOCAL_TRY(model_word(e, word, bytes));
    memcpy(place->key, key, sizeof key);
    place->bytes = (uint32_t)bytes;
    place->count = (uint32_t)(e->out->count - at);
    place->at = at;
    return FOCAL_OK;
}

static focal_status encode_word(encoding *e, const char *word, size_t bytes)
{
    if (!e->tokenizer->cuts_at_space) return cached(e, word, bytes);
    size_t begin = 0;
    while (begin < bytes) {
        size_t end = begin;
        do {
            end = end + 1 < bytes ? end + 1 : bytes;
            const char *next = memmem(word + end, bytes - end, space_sign, SPACE_SIGN_BYTES);
            end = next ? (size_t)(next - word) : bytes;
        } while (end < bytes && e->tokenizer->stays_before_space[(unsigned char)word[end - 1]]);
        FOCAL_TRY(cached(e, word + begin, end - begin));
        begin = end;
    }
    return FOCAL_OK;
}

/* Text without added tokens, normalised. */
static focal_status encode_plain(encoding *e, const char *text, size_t bytes, bool is_first)
{
    FOCAL_TRY(foci_split_begin(&e->split, e->ctx, &e->tokenizer->splitter, text, bytes, is_first));
    for (;;) {
        const char *word;
        size_t word_bytes;
        FOCAL_TRY(foci_split_next(&e->split, &word, &word_bytes));
        if (!word) return FOCAL_OK;
        FOCAL_TRY(encode_word(e, word, word_bytes));
    }
}

static focal_status put_id(encoding *e, int32_t id)
{
    FOCAL_TRY(foci_ids_reserve(e->ctx, e->out, 1));
    e->out->ids[e->out->count++] = id;
    return FOCAL_OK;
}

typedef focal_status (*encode_between)(encoding *e, const char *text, size_t bytes, bool is_first);

/* Cuts the tokens of one tree out of the text and hands what lies between to `between`. */
static focal_status cut_out(encoding *e, const foci_trie *trie, const char *text, size_t bytes,
                            bool is_first, encode_between between)
{
    const foci_added_query query = {&e->tokenizer->added, trie, text, bytes, e->with_special};
    size_t taken = 0, begin = 0, end = 0;
    for (;;) {
        const foci_added_token *token = foci_added_find(&query, taken, &begin, &end);
        if (!token) break;
        if (begin > taken)
            FOCAL_TRY(between(e, text + taken, begin - taken, is_first && taken == 0));
        FOCAL_TRY(put_id(e, token->id));
        taken = end;
    }
    if (taken == bytes) return FOCAL_OK;
    return between(e, text + taken, bytes - taken, is_first && taken == 0);
}

/* Text without the added tokens that are looked for in the text as it is. */
static focal_status encode_raw(encoding *e, const char *text, size_t bytes, bool is_first)
{
    const focal_tokenizer *tokenizer = e->tokenizer;
    if (tokenizer->normalizer.count > 0) {
        FOCAL_TRY(foci_normalizer_apply(e->ctx, &tokenizer->normalizer, text, bytes, &e->normalized,
                                        &e->spare));
        text = e->normalized.data;
        bytes = e->normalized.bytes;
    }
    if (!tokenizer->added.has_normalized) return encode_plain(e, text, bytes, is_first);
    return cut_out(e, &tokenizer->added.normalized, text, bytes, is_first, encode_plain);
}

/* True when the model would leave this byte out, were it not part of a character. */
static bool lacks_byte(const focal_tokenizer *tokenizer, char byte)
{
    const foci_bpe *bpe = &tokenizer->bpe;
    const bool uses_bytes = bpe->is_byte_level || bpe->byte_fallback || bpe->by_score;
    return tokenizer->model == FOCI_MODEL_BPE && bpe->unknown < 0 &&
           !(uses_bytes && bpe->vocab->byte_id[(unsigned char)byte] >= 0);
}

/* Bytes that are no UTF-8 come through as themselves. Where one has no token, U+FFFD stands for it,
 * as it does in llama.cpp: a text must not lose it without a trace. */
static focal_status substitute_bytes(encoding *e, const char **text, size_t *bytes)
{
    static const char replacement[] = "\xEF\xBF\xBD";
    size_t at = foci_utf8_valid(*text, *bytes), copied = 0;
    for (; at < *bytes; at += foci_utf8_valid(*text + at, *bytes - at)) {
        if (lacks_byte(e->tokenizer, (*text)[at])) {
            FOCAL_TRY(foci_buffer_put(e->ctx, &e->repaired, *text + copied, at - copied));
            FOCAL_TRY(foci_buffer_put(e->ctx, &e->repaired, replacement, sizeof replacement - 1));
            copied = at + 1;
        }
        at++;
    }
    if (copied == 0) return FOCAL_OK;
    FOCAL_TRY(foci_buffer_put(e->ctx, &e->repaired, *text + copied, *bytes - copied));
    *text = e->repaired.data;
    *bytes = e->repaired.bytes;
    return FOCAL_OK;
}

int64_t focal_tokenizer_lost(const focal_tokenizer *tokenizer, const char *text, size_t bytes)
{
    int64_t lost = 0;
    if (!tokenizer->bpe.is_byte_level) return 0;
    for (size_t at = 0, valid; at < bytes; at++) { /* one byte behind what is valid each time */
        valid = foci_utf8_valid(text + at, bytes - at);
        for (; valid > 0; valid--) lost += lacks_byte(tokenizer, text[at++]);
    }
    return lost;
}

static focal_status encode_all(encoding *e, const char *text, size_t bytes, unsigned flags)
{
    const focal_tokenizer *tokenizer = e->tokenizer;
    const bool adds = flags & FOCAL_ENCODE_ADD_SPECIAL;
    FOCAL_TRY(substitute_bytes(e, &text, &bytes));
    for (int32_t n = 0; adds && n < tokenizer->before_count; n++)
        FOCAL_TRY(put_id(e, tokenizer->before[n]));
    if (bytes > 0 && tokenizer->added.has_raw)
        FOCAL_TRY(cut_out(e, &tokenizer->added.raw, text, bytes, true, encode_raw));
    else if (bytes > 0)
        FOCAL_TRY(encode_raw(e, text, bytes, true));
    for (int32_t n = 0; adds && n < tokenizer->behind_count; n++)
        FOCAL_TRY(put_id(e, tokenizer->behind[n]));
    return FOCAL_OK;
}

static focal_status open_cache(encoding *e, size_t bytes)
{
    size_t words = CACHE_LEAST;
    if (bytes < CACHE_LEAST) return FOCAL_OK;
    while (words < CACHE_MOST && words < bytes / 8) words *= 2;
    e->cache = foci_scratch(e->ctx, words, sizeof *e->cache);
    if (!e->cache) return FOCAL_ENOMEM;
    for (size_t n = 0; n < words; n++) e->cache[n].bytes = 0;
    e->cache_mask = words - 1;
    return FOCAL_OK;
}

focal_status focal_tokenizer_encode(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                    const char *text, size_t bytes, unsigned flags, focal_ids *out)
{
    const unsigned known = FOCAL_ENCODE_ADD_SPECIAL | FOCAL_ENCODE_PARSE_SPECIAL;
    if (!tokenizer || !out || (!text && bytes > 0))
        return foci_fail(ctx, FOCAL_EINVAL, "encode: a tokenizer, a text and a list must be given");
    if (flags & ~known)
        return foci_fail(ctx, FOCAL_EINVAL, "encode: flags %u, known are %u", flags, known);
    encoding e = {.ctx = ctx,
                  .tokenizer = tokenizer,
                  .with_special = flags & FOCAL_ENCODE_PARSE_SPECIAL,
                  .out = out};
    const int64_t before = out->count;
    focal_status status = foci_ids_reserve(ctx, out, bytes / 4 + FOCI_AROUND);
    if (status == FOCAL_OK) status = open_cache(&e, bytes);
    if (status == FOCAL_OK) status = encode_all(&e, text, bytes, flags);
    if (status != FOCAL_OK) out->count = before;
    foci_split_free(&e.split);
    focal_buffer_free(ctx, &e.repaired);
    focal_buffer_free(ctx, &e.normalized);
    focal_buffer_free(ctx, &e.spare);
    foci_scratch_free(ctx, e.cache);
    return status;
}

int32_t focal_tokenizer_size(const focal_tokenizer *tokenizer)
{
    return tokenizer->vocab->size;
}

focal_token focal_tokenizer_token(const focal_tokenizer *tokenizer, int32_t id)
{
    focal_token token = {"", 0, FOCAL_TOKEN_UNUSED};
    if (id < 0 || id >= tokenizer->vocab->size) return token;
    token.bytes = foci_vocab_text(tokenizer->vocab, id, &token.byte_count);
    token.kind = (focal_token_kind)tokenizer->vocab->kind[id];
    return token;
}

int32_t focal_tokenizer_find(const focal_tokenizer *tokenizer, const char *bytes, size_t byte_count)
{
    return foci_vocab_find_any(tokenizer->vocab, bytes, byte_count);
}

focal_special_ids focal_tokenizer_special(const focal_tokenizer *tokenizer)
{
    return tokenizer->special;
}

bool focal_tokenizer_is_end(const focal_tokenizer *tokenizer, int32_t id)
{
    for (int32_t n = 0; n < tokenizer->end_count; n++)
        if (tokenizer->ends[n] == id) return true;
    return false;
}

int32_t focal_tokenizer_document_end(const focal_tokenizer *tokenizer)
{
    for (size_t n = 0; n < FOCAL_COUNT(text_ends); n++) {
        const int32_t id = control_token(tokenizer, text_ends[n]);
        if (id >= 0) return id;
    }
    return tokenizer->special.eos;
}
