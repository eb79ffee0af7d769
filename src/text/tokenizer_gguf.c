/* A tokenizer from the keys tokenizer.ggml.* of a GGUF file. These hold tokens, types, scores and
 * merges, but only the name of the splitting pattern: pre_tokenizer.c says what the names mean. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_parts.h"

static bool is_text(foci_text text, const char *name)
{
    return text.bytes == strlen(name) && memcmp(text.data, name, text.bytes) == 0;
}

static focal_status make_vocab(focal_tokenizer *t, const foci_vocab_source *s, bool is_byte_level)
{
    foci_vocab_entry *entries = foci_alloc(t->ctx, (size_t)s->token_count, sizeof *entries);
    if (!entries) return FOCAL_ENOMEM;
    for (int64_t id = 0; id < s->token_count; id++) {
        const int64_t type = s->types ? s->types[id] : FOCAL_TOKEN_NORMAL;
        const bool is_known = type >= FOCAL_TOKEN_NORMAL && type <= FOCAL_TOKEN_BYTE;
        entries[id] = (foci_vocab_entry){.text = s->tokens[id].data,
                                         .bytes = s->tokens[id].bytes,
                                         .score = s->scores ? (double)s->scores[id] : 0.0,
                                         /* 0, undefined, is in old files; anything else fails. */
                                         .kind = is_known    ? (focal_token_kind)type
                                                 : type == 0 ? FOCAL_TOKEN_NORMAL
                                                             : (focal_token_kind)7};
    }
    const focal_status status =
        foci_vocab_new(t->ctx, s->what, entries, s->token_count, is_byte_level, &t->vocab);
    foci_free(t->ctx, entries);
    return status;
}

static bool is_added(const foci_vocab *vocab, int32_t id)
{
    return vocab->kind[id] == FOCAL_TOKEN_CONTROL || vocab->kind[id] == FOCAL_TOKEN_USER ||
           vocab->kind[id] == FOCAL_TOKEN_UNKNOWN;
}

/* Control tokens, and those of the user, are found in the text before all else. */
static focal_status add_tokens(focal_tokenizer *t)
{
    foci_added *added = &t->added;
    const foci_vocab *vocab = t->vocab;
    size_t count = 0;
    for (int32_t id = 0; id < vocab->size; id++) count += is_added(vocab, id);
    added->ctx = t->ctx;
    if (count == 0) return FOCAL_OK;
    added->tokens = foci_alloc(t->ctx, count, sizeof *added->tokens);
    if (!added->tokens) return FOCAL_ENOMEM;
    for (int32_t id = 0; id < vocab->size; id++) {
        if (!is_added(vocab, id)) continue;
        foci_added_token *token = &added->tokens[added->count++];
        *token = (foci_added_token){.id = id, .is_special = vocab->kind[id] != FOCAL_TOKEN_USER};
        const char *text = foci_vocab_text(vocab, id, &token->bytes);
        token->begin = added->text.bytes;
        FOCAL_TRY(foci_buffer_put(t->ctx, &added->text, text, token->bytes));
    }
    return foci_added_prepare(t->ctx, added);
}

static int32_t merge_side(const focal_tokenizer *t, const char *text, size_t bytes)
{
    char level[2 * FOCI_TOKEN_BYTES_MOST];
    const size_t made = bytes > sizeof level ? SIZE_MAX : foci_bytes_of_level(text, bytes, level);
    if (made == SIZE_MAX) return foci_vocab_find_any(t->vocab, text, bytes);
    return foci_vocab_find_any(t->vocab, level, made);
}

static focal_status read_merges(focal_tokenizer *t, const foci_vocab_source *s)
{
    FOCAL_TRY(foci_bpe_reserve(&t->bpe, s->merge_count));
    for (int64_t n = 0; n < s->merge_count; n++) {
        const foci_text merge = s->merges[n];
        const char *space = merge.bytes ? memchr(merge.data, ' ', merge.bytes) : NULL;
        const size_t left = space ? (size_t)(space - merge.data) : 0;
        const int32_t a = space ? merge_side(t, merge.data, left) : -1;
        const int32_t b = space ? merge_side(t, space + 1, merge.bytes - left - 1) : -1;
        if (a < 0 || b < 0)
            return foci_fail(t->ctx, FOCAL_EFORMAT, "%s: merge %lld, '%.*s', is no pair of tokens",
                             s->what, (long long)n, (int)(merge.bytes < 64 ? merge.bytes : 64),
                             merge.data ? merge.data : "");
        FOCAL_TRY(foci_bpe_merge(&t->bpe, s->what, a, b, true));
    }
    return FOCAL_OK;
}

focal_status foci_splitter_of_pre(focal_ctx *ctx, const foci_pre_tokenizer *pre,
                                  foci_splitter *splitter)
{
    for (size_t n = 0; n < FOCI_PRE_PATTERNS && pre->patterns[n]; n++) {
        if (pre->patterns[n] == foci_number_pattern && foci_unicode_is_here()) {
            splitter->steps[splitter->count++] = (foci_split_step){.kind = FOCI_SPLIT_NUMBERS};
            continue;
        }
        FOCAL_TRY(foci_split_by_pattern(ctx, splitter, pre->patterns[n], strlen(pre->patterns[n])));
    }
    return FOCAL_OK;
}

static focal_status make_byte_level(focal_tokenizer *t, const foci_vocab_source *s, bool *add_bos)
{
    const foci_pre_tokenizer *pre = foci_pre_find(s->pre);
    if (!pre)
        return foci_fail(t->ctx, FOCAL_EUNSUPPORTED,
                         "%s: tokenizer.ggml.pre '%.*s' is not known here", s->what,
                         (int)(s->pre.bytes < 64 ? s->pre.bytes : 64), s->pre.data);
    if (s->merge_count < 1 && !s->may_lack_merges)
        return foci_fail(t->ctx, FOCAL_EFORMAT, "%s: tokenizer.ggml.merges is missing", s->what);
    FOCAL_TRY(make_vocab(t, s, true));
    FOCAL_TRY(foci_splitter_of_pre(t->ctx, pre, &t->splitter));
    t->bpe = (foci_bpe){.ctx = t->ctx,
                        .vocab = t->vocab,
                        .is_byte_level = true,
                        .ignore_merges = pre->ignore_merges,
                        .unknown = -1};
    *add_bos = pre->add_bos;
    return read_merges(t, s);
}

/* A step that turns `what` into `with`, or puts `with` in front where what is NULL. */
static focal_status add_normalizer(focal_tokenizer *t, const char *what, const char *with)
{
    foci_normalizer_step *step = &t->normalizer.steps[t->normalizer.count++];
    *step = (foci_normalizer_step){.kind = what ? FOCI_NORMALIZE_REPLACE : FOCI_NORMALIZE_PREPEND,
                                   .what_bytes = what ? strlen(what) : 0,
                                   .with_bytes = strlen(with)};
    step->what = foci_alloc(t->ctx, step->what_bytes + 1, 1);
    step->with = foci_alloc(t->ctx, step->with_bytes + 1, 1);
    if (!step->what || !step->with) return FOCAL_ENOMEM;
    if (what) memcpy(step->what, what, step->what_bytes);
    memcpy(step->with, with, step->with_bytes);
    return FOCAL_OK;
}

/* What SentencePiece's kinds share: its sign for a space in place of every space, and, if the file
 * wants it, one in front; the decoder takes both back. */
static focal_status add_spaces(focal_tokenizer *t, const foci_vocab_source *s, bool has_prefix)
{
    if (!s->scores)
        return foci_fail(t->ctx, FOCAL_EFORMAT, "%s: tokenizer.ggml.scores is missing", s->what);
    FOCAL_TRY(make_vocab(t, s, false));
    if (has_prefix) FOCAL_TRY(add_normalizer(t, NULL, FOCI_SPACE_SIGN));
    FOCAL_TRY(add_normalizer(t, " ", FOCI_SPACE_SIGN));
    t->decoder = (foci_decoder){.what = FOCI_SPACE_SIGN,
                                .what_bytes = sizeof FOCI_SPACE_SIGN - 1,
                                .with = " ",
                                .with_bytes = 1,
                                .strip_left = has_prefix,
                                .strip_byte = ' '};
    return FOCAL_OK;
}

static focal_status make_sentencepiece(focal_tokenizer *t, const foci_vocab_source *s)
{
    FOCAL_TRY(add_spaces(t, s, s->add_space_prefix != 0));
    t->decoder.has_byte_tokens = true;
    t->bpe = (foci_bpe){.ctx = t->ctx,
                        .vocab = t->vocab,
                        .by_score = true,
                        .byte_fallback = true,
                        .unknown = (int32_t)s->unk};
    return FOCAL_OK;
}

static focal_status make_unigram(focal_tokenizer *t, const foci_vocab_source *s)
{
    FOCAL_TRY(add_spaces(t, s, s->add_space_prefix > 0));
    t->model = FOCI_MODEL_UNIGRAM;
    return foci_unigram_init(t->ctx, t->vocab, (int32_t)s->unk, false, &t->unigram);
}

static focal_status check_id(const focal_tokenizer *t, const foci_vocab_source *s, const char *key,
                             int64_t id, int32_t *out)
{
    if (id < -1 || id >= s->token_count)
        return foci_fail(t->ctx, FOCAL_EFORMAT, "%s: %s is %lld, the vocabulary ends at %lld",
                         s->what, key, (long long)id, (long long)s->token_count);
    *out = (int32_t)id;
    return FOCAL_OK;
}

static focal_status fill_in(focal_tokenizer *t, const foci_vocab_source *s)
{
    bool add_bos = false, add_eos = false;
    if (s->token_count < 1 || s->token_count > FOCI_VOCAB_MOST)
        return foci_fail(t->ctx, FOCAL_EFORMAT, "%s: %lld tokens, 1 to %d are accepted", s->what,
                         (long long)s->token_count, FOCI_VOCAB_MOST);
    FOCAL_TRY(check_id(t, s, "tokenizer.ggml.bos_token_id", s->bos, &t->special.bos));
    FOCAL_TRY(check_id(t, s, "tokenizer.ggml.eos_token_id", s->eos, &t->special.eos));
    FOCAL_TRY(check_id(t, s, "tokenizer.ggml.eot_token_id", s->eot, &t->special.eot));
    FOCAL_TRY(check_id(t, s, "tokenizer.ggml.unknown_token_id", s->unk, &t->special.unk));
    FOCAL_TRY(check_id(t, s, "tokenizer.ggml.padding_token_id", s->pad, &t->special.pad));
    if (is_text(s->model, "gpt2")) {
        FOCAL_TRY(make_byte_level(t, s, &add_bos));
    } else if (is_text(s->model, "llama")) {
        FOCAL_TRY(make_sentencepiece(t, s));
        add_bos = true;
    } else if (is_text(s->model, "t5")) {
        FOCAL_TRY(make_unigram(t, s));
        add_eos = true;
    } else {
        return foci_fail(
            t->ctx, FOCAL_EUNSUPPORTED,
            "%s: tokenizer.ggml.model '%.*s' is not supported, only gpt2, llama and t5", s->what,
            (int)(s->model.bytes < 64 ? s->model.bytes : 64), s->model.data ? s->model.data : "");
    }
    FOCAL_TRY(add_tokens(t));
    if (s->add_bos >= 0) add_bos = s->add_bos != 0;
    if (s->add_eos >= 0) add_eos = s->add_eos != 0;
    if (add_bos && t->special.bos >= 0) t->before[t->before_count++] = t->special.bos;
    if (add_eos && t->special.eos >= 0) t->behind[t->behind_count++] = t->special.eos;
    foci_tokenizer_finish(t);
    return FOCAL_OK;
}

focal_status foci_tokenizer_from_source(focal_ctx *ctx, const foci_vocab_source *source,
                                        focal_tokenizer **out)
{
    focal_tokenizer *tokenizer = NULL;
    *out = NULL;
    FOCAL_TRY(foci_tokenizer_new(ctx, &tokenizer));
    const focal_status status = fill_in(tokenizer, source);
    if (status != FOCAL_OK) {
        focal_tokenizer_free(tokenizer);
        return status;
    }
    *out = tokenizer;
    return FOCAL_OK;
}

/* A flag that may be missing: -1. */
static focal_status get_flag(const foci_gguf *gguf, const char *key, int *out)
{
    bool value = false;
    *out = -1;
    if (!foci_gguf_has(gguf, key)) return FOCAL_OK;
    FOCAL_TRY(foci_gguf_get_bool(gguf, key, &value));
    *out = value;
    return FOCAL_OK;
}

static focal_status get_id(const foci_gguf *gguf, const char *key, int64_t *out)
{
    *out = -1;
    return foci_gguf_get_int(gguf, key, 0, FOCI_VOCAB_MOST - 1, out);
}

/* Counts of arrays that belong to the tokens must be the tokens'. */
static focal_status check_count(focal_ctx *ctx, const foci_vocab_source *s, const char *key,
                                int64_t count)
{
    if (count == 0 || count == s->token_count) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: %s has %lld entries for %lld tokens", s->what, key,
                     (long long)count, (long long)s->token_count);
}

/* What a Unigram file may ask for and is not done here. */
static focal_status check_t5(focal_ctx *ctx, const foci_gguf *gguf)
{
    int removes_spaces;
    FOCAL_TRY(get_flag(gguf, "tokenizer.ggml.remove_extra_whitespaces", &removes_spaces));
    if (!foci_gguf_has(gguf, "tokenizer.ggml.precompiled_charsmap") && removes_spaces <= 0)
        return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: tokenizer.ggml.%s is not supported",
                     foci_gguf_path(gguf),
                     removes_spaces > 0 ? "remove_extra_whitespaces" : "precompiled_charsmap");
}

focal_status foci_vocab_source_of_gguf(focal_ctx *ctx, foci_gguf *gguf, foci_vocab_source *out)
{
    foci_vocab_source s = {.what = foci_gguf_path(gguf)};
    int64_t scores = 0, types = 0;
    FOCAL_TRY(foci_gguf_get_text(gguf, "tokenizer.ggml.model", &s.model));
    if (is_text(s.model, "t5")) FOCAL_TRY(check_t5(ctx, gguf));
    FOCAL_TRY(foci_gguf_get_text(gguf, "tokenizer.ggml.pre", &s.pre));
    FOCAL_TRY(foci_gguf_get_texts(gguf, "tokenizer.ggml.tokens", &s.tokens, &s.token_count));
    FOCAL_TRY(foci_gguf_get_reals(gguf, "tokenizer.ggml.scores", &s.scores, &scores));
    FOCAL_TRY(foci_gguf_get_ints(gguf, "tokenizer.ggml.token_type", &s.types, &types));
    FOCAL_TRY(foci_gguf_get_texts(gguf, "tokenizer.ggml.merges", &s.merges, &s.merge_count));
    FOCAL_TRY(check_count(ctx, &s, "tokenizer.ggml.scores", scores));
    FOCAL_TRY(check_count(ctx, &s, "tokenizer.ggml.token_type", types));
    FOCAL_TRY(get_id(gguf, "tokenizer.ggml.bos_token_id", &s.bos));
    FOCAL_TRY(get_id(gguf, "tokenizer.ggml.eos_token_id", &s.eos));
    FOCAL_TRY(get_id(gguf, "tokenizer.ggml.eot_token_id", &s.eot));
    FOCAL_TRY(get_id(gguf, "tokenizer.ggml.unknown_token_id", &s.unk));
    FOCAL_TRY(get_id(gguf, "tokenizer.ggml.padding_token_id", &s.pad));
    FOCAL_TRY(get_flag(gguf, "tokenizer.ggml.add_bos_token", &s.add_bos));
    FOCAL_TRY(get_flag(gguf, "tokenizer.ggml.add_eos_token", &s.add_eos));
    FOCAL_TRY(get_flag(gguf, "tokenizer.ggml.add_space_prefix", &s.add_space_prefix));
    *out = s;
    return FOCAL_OK;
}

focal_status foci_tokenizer_from_gguf(focal_ctx *ctx, foci_gguf *gguf, focal_tokenizer **out)
{
    foci_vocab_source source;
    *out = NULL;
    FOCAL_TRY(foci_vocab_source_of_gguf(ctx, gguf, &source));
    return foci_tokenizer_from_source(ctx, &source, out);
}
