/* A tokenizer from Hugging Face's tokenizer.json: vocabulary, merges or scores, added tokens; the
 * other parts are read in tokenizer_parts.c. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/tokenizer_parts.h"

/* A file while it is being read. */
typedef struct loading {
    focal_ctx *ctx;
    const char *what;
    const foci_json *root, *model, *added;
    focal_tokenizer *tokenizer;
    foci_vocab_entry *entries; /* (size) by id */
    int64_t size, tokens;
    bool is_byte_level;
} loading;

static focal_status check_id(loading *l, int64_t id, const char *text)
{
    if (id < 0 || id >= FOCI_VOCAB_MOST)
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: token '%.64s' has id %lld, ids are 0 to %d",
                         l->what, text, (long long)id, FOCI_VOCAB_MOST - 1);
    if (id >= l->size) l->size = id + 1;
    l->tokens++;
    return FOCAL_OK;
}

/* How many ids there are, from the largest one. */
static focal_status measure(loading *l)
{
    const foci_json *vocab = foci_json_get(l->model, "vocab");
    if (foci_json_is(vocab, FOCI_JSON_ARRAY)) { /* Unigram: in the order of ids */
        l->size = l->tokens = foci_json_count(vocab);
    } else if (foci_json_is(vocab, FOCI_JSON_OBJECT)) {
        foci_json_member member = {0};
        while (foci_json_next(vocab, &member))
            FOCAL_TRY(check_id(l, foci_json_int(member.value, -1), member.key));
    } else {
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: model.vocab is missing", l->what);
    }
    for (int64_t n = 0; n < foci_json_count(l->added); n++) {
        const foci_json *token = foci_json_at(l->added, n);
        const char *content = foci_json_string(foci_json_get(token, "content"));
        if (!content)
            return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: added_tokens %lld has no content", l->what,
                             (long long)n);
        FOCAL_TRY(check_id(l, foci_json_int(foci_json_get(token, "id"), -1), content));
    }
    if (l->size > 2 * l->tokens + 1024)
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: id %lld with only %lld tokens", l->what,
                         (long long)l->size - 1, (long long)l->tokens);
    return FOCAL_OK;
}

static focal_status set_entry(loading *l, int64_t id, const char *text, size_t bytes, double score)
{
    if (l->entries[id].text)
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: id %lld is both '%.64s' and '%.64s'", l->what,
                         (long long)id, l->entries[id].text, text);
    l->entries[id] = (foci_vocab_entry){text, bytes, score, FOCAL_TOKEN_NORMAL};
    return FOCAL_OK;
}

static focal_status read_vocab(loading *l)
{
    const foci_json *vocab = foci_json_get(l->model, "vocab");
    if (foci_json_is(vocab, FOCI_JSON_OBJECT)) {
        foci_json_member member = {0};
        while (foci_json_next(vocab, &member))
            FOCAL_TRY(
                set_entry(l, foci_json_int(member.value, -1), member.key, member.key_length, 0));
        return FOCAL_OK;
    }
    for (int64_t id = 0; id < foci_json_count(vocab); id++) {
        const foci_json *pair = foci_json_at(vocab, id), *text = foci_json_at(pair, 0);
        const foci_json_type score = foci_json_kind(foci_json_at(pair, 1));
        if (!foci_json_is(text, FOCI_JSON_STRING) ||
            (score != FOCI_JSON_REAL && score != FOCI_JSON_INT))
            return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: model.vocab %lld is no text with a score",
                             l->what, (long long)id);
        FOCAL_TRY(set_entry(l, id, foci_json_string(text), foci_json_length(text),
                            foci_json_real(foci_json_at(pair, 1), 0)));
    }
    return FOCAL_OK;
}

/* Gives the added tokens their kinds, and ids to those that the model does not have. */
static focal_status mark_added(loading *l)
{
    for (int64_t n = 0; n < foci_json_count(l->added); n++) {
        const foci_json *token = foci_json_at(l->added, n), *text = foci_json_get(token, "content");
        const char *content = foci_json_string(text);
        const size_t bytes = foci_json_length(text);
        const int64_t id = foci_json_int(foci_json_get(token, "id"), -1);
        foci_vocab_entry *entry = &l->entries[id];
        if (entry->text && (entry->bytes != bytes || memcmp(entry->text, content, bytes) != 0))
            return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: id %lld is both '%.64s' and '%.64s'",
                             l->what, (long long)id, entry->text, content);
        entry->text = content;
        entry->bytes = bytes;
        entry->kind = foci_json_bool(foci_json_get(token, "special"), false) ? FOCAL_TOKEN_CONTROL
                                                                             : FOCAL_TOKEN_USER;
    }
    return FOCAL_OK;
}

/* Their texts, normalised where they are looked for in normalised text. */
static focal_status read_added(loading *l)
{
    foci_added *added = &l->tokenizer->added;
    focal_buffer text = {0}, spare = {0};
    const int64_t count = foci_json_count(l->added);
    focal_status status = FOCAL_OK;
    added->ctx = l->ctx;
    if (count == 0) return FOCAL_OK;
    added->tokens = foci_alloc(l->ctx, (size_t)count, sizeof *added->tokens);
    if (!added->tokens) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < count && status == FOCAL_OK; n++) {
        const foci_json *token = foci_json_at(l->added, n),
                        *content = foci_json_get(token, "content");
        const bool special = foci_json_bool(foci_json_get(token, "special"), false);
        foci_added_token *one = &added->tokens[added->count++];
        *one = (foci_added_token){
            .id = (int32_t)foci_json_int(foci_json_get(token, "id"), -1),
            .is_special = special,
            .single_word = foci_json_bool(foci_json_get(token, "single_word"), false),
            .lstrip = foci_json_bool(foci_json_get(token, "lstrip"), false),
            .rstrip = foci_json_bool(foci_json_get(token, "rstrip"), false),
            .is_normalized = foci_json_bool(foci_json_get(token, "normalized"), !special)};
        if (one->is_normalized)
            status =
                foci_normalizer_apply(l->ctx, &l->tokenizer->normalizer, foci_json_string(content),
                                      foci_json_length(content), &text, &spare);
        else
            status = foci_buffer_put(l->ctx, &text, foci_json_string(content),
                                     foci_json_length(content));
        one->begin = added->text.bytes;
        one->bytes = text.bytes;
        if (status == FOCAL_OK)
            status = foci_buffer_put(l->ctx, &added->text, text.data, text.bytes);
        text.bytes = 0;
    }
    focal_buffer_free(l->ctx, &text);
    focal_buffer_free(l->ctx, &spare);
    return status == FOCAL_OK ? foci_added_prepare(l->ctx, added) : status;
}

/* The id of one side of a merge. */
static int32_t merge_side(const loading *l, const char *text, size_t bytes)
{
    char level[2 * FOCI_TOKEN_BYTES_MOST];
    if (bytes > sizeof level) return -1;
    if (l->is_byte_level) {
        const size_t made = foci_bytes_of_level(text, bytes, level);
        if (made != SIZE_MAX) return foci_vocab_find_any(l->tokenizer->vocab, level, made);
    }
    return foci_vocab_find_any(l->tokenizer->vocab, text, bytes);
}

static focal_status read_merge(loading *l, const foci_json *merge, int64_t index)
{
    const char *left = foci_json_string(foci_json_at(merge, 0));
    const char *right = foci_json_string(foci_json_at(merge, 1));
    size_t left_bytes = foci_json_length(foci_json_at(merge, 0));
    size_t right_bytes = foci_json_length(foci_json_at(merge, 1));
    const char *both = foci_json_string(merge);
    if (both) { /* "left right": tokens of these files have no space in them */
        const char *space = memchr(both, ' ', foci_json_length(merge));
        left = both;
        left_bytes = space ? (size_t)(space - both) : 0;
        right = space ? space + 1 : NULL;
        right_bytes = foci_json_length(merge) - left_bytes - 1;
    }
    if (!left || !right)
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: merge %lld is no pair of tokens", l->what,
                         (long long)index);
    const int32_t a = merge_side(l, left, left_bytes), b = merge_side(l, right, right_bytes);
    if (a < 0 || b < 0)
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: merge %lld: '%.*s' is no token", l->what,
                         (long long)index, (int)(a < 0 ? left_bytes : right_bytes) & 0xFF,
                         a < 0 ? left : right);
    return foci_bpe_merge(&l->tokenizer->bpe, l->what, a, b, false);
}

/* The id of model.unk_token; -1 when there is none, and an error when it is no token. */
static focal_status read_unknown(loading *l, int32_t *id)
{
    const foci_json *token = foci_json_get(l->model, "unk_token");
    *id = -1;
    if (foci_json_kind(token) == FOCI_JSON_NULL) return FOCAL_OK;
    if (foci_json_is(token, FOCI_JSON_STRING))
        *id = foci_vocab_find_any(l->tokenizer->vocab, foci_json_string(token),
                                  foci_json_length(token));
    return *id >= 0 ? FOCAL_OK
                    : foci_fail(l->ctx, FOCAL_EFORMAT, "%s: model.unk_token is no token", l->what);
}

/* Parts that would change ids and that nobody uses with byte-level or SentencePiece vocabularies.
 */
static focal_status refuse_affixes(loading *l)
{
    static const char *const keys[] = {"continuing_subword_prefix", "end_of_word_suffix"};
    for (size_t n = 0; n < FOCAL_COUNT(keys); n++)
        if (foci_json_length(foci_json_get(l->model, keys[n])) > 0)
            return foci_fail(l->ctx, FOCAL_EUNSUPPORTED, "%s: model.%s is not supported", l->what,
                             keys[n]);
    if (foci_json_real(foci_json_get(l->model, "dropout"), 0) != 0)
        return foci_fail(l->ctx, FOCAL_EUNSUPPORTED, "%s: model.dropout is not supported", l->what);
    return FOCAL_OK;
}

static focal_status read_bpe(loading *l)
{
    foci_bpe *bpe = &l->tokenizer->bpe;
    const foci_json *merges = foci_json_get(l->model, "merges");
    FOCAL_TRY(refuse_affixes(l));
    if (!foci_json_is(merges, FOCI_JSON_ARRAY))
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: model.merges is missing", l->what);
    l->tokenizer->model = FOCI_MODEL_BPE;
    *bpe =
        (foci_bpe){.ctx = l->ctx, .vocab = l->tokenizer->vocab, .is_byte_level = l->is_byte_level};
    bpe->byte_fallback = foci_json_bool(foci_json_get(l->model, "byte_fallback"), false);
    bpe->fuse_unknown = foci_json_bool(foci_json_get(l->model, "fuse_unk"), false);
    bpe->ignore_merges = foci_json_bool(foci_json_get(l->model, "ignore_merges"), false);
    FOCAL_TRY(read_unknown(l, &bpe->unknown));
    FOCAL_TRY(foci_bpe_reserve(bpe, foci_json_count(merges)));
    for (int64_t n = 0; n < foci_json_count(merges); n++)
        FOCAL_TRY(read_merge(l, foci_json_at(merges, n), n));
    return FOCAL_OK;
}

static focal_status read_unigram(loading *l)
{
    const foci_json *unknown = foci_json_get(l->model, "unk_id");
    const int64_t id = foci_json_int(unknown, -1);
    if (foci_json_kind(unknown) != FOCI_JSON_NULL && (id < 0 || id >= l->tokenizer->vocab->size))
        return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: model.unk_id is no id below %d", l->what,
                         l->tokenizer->vocab->size);
    if (l->is_byte_level)
        return foci_fail(l->ctx, FOCAL_EUNSUPPORTED, "%s: Unigram behind ByteLevel", l->what);
    l->tokenizer->model = FOCI_MODEL_UNIGRAM;
    return foci_unigram_init(l->ctx, l->tokenizer->vocab, (int32_t)id,
                             foci_json_bool(foci_json_get(l->model, "byte_fallback"), false),
                             &l->tokenizer->unigram);
}

/* The id of a token that tokenizer_config.json names, as text or as an object; -1: none. */
static int32_t named_token(const loading *l, const foci_json *config, const char *key)
{
    const foci_json *name = foci_json_get(config, key);
    if (foci_json_is(name, FOCI_JSON_OBJECT)) name = foci_json_get(name, "content");
    if (!foci_json_string(name)) return -1;
    return foci_vocab_find_any(l->tokenizer->vocab, foci_json_string(name), foci_json_length(name));
}

static void read_config(loading *l, const foci_json *config)
{
    focal_tokenizer *t = l->tokenizer;
    focal_special_ids *special = &t->special;
    special->bos = named_token(l, config, "bos_token");
    special->eos = named_token(l, config, "eos_token");
    special->eot = named_token(l, config, "eot_token");
    special->pad = named_token(l, config, "pad_token");
    special->unk = named_token(l, config, "unk_token");
    if (special->unk < 0)
        special->unk = t->model == FOCI_MODEL_BPE ? t->bpe.unknown : t->unigram.unknown;
    /* The template says it better where there is one. */
    const bool has_template = t->before_count + t->behind_count > 0;
    if (!has_template && special->bos >= 0 &&
        foci_json_bool(foci_json_get(config, "add_bos_token"), false))
        t->before[t->before_count++] = special->bos;
    if (!has_template && special->eos >= 0 &&
        foci_json_bool(foci_json_get(config, "add_eos_token"), false))
        t->behind[t->behind_count++] = special->eos;
    if (special->bos < 0 && t->before_count == 1) special->bos = t->before[0];
}

static focal_status read_all(loading *l, const foci_json *config)
{
    const char *type = foci_json_string(foci_json_get(l->model, "type"));
    focal_tokenizer *t = l->tokenizer;
    /* Old files do not name the type; those with merges are BPE. */
    if (!type && foci_json_get(l->model, "merges")) type = "BPE";
    if (!type) return foci_fail(l->ctx, FOCAL_EFORMAT, "%s: model.type is missing", l->what);
    const bool is_bpe = strcmp(type, "BPE") == 0;
    if (!is_bpe && strcmp(type, "Unigram") != 0)
        return foci_fail(l->ctx, FOCAL_EUNSUPPORTED,
                         "%s: model of type '%.64s' is not supported, only BPE and Unigram",
                         l->what, type);
    FOCAL_TRY(foci_read_normalizer(l->ctx, l->what, l->root, &t->normalizer));
    FOCAL_TRY(foci_read_splitter(l->ctx, l->what, l->root, &t->splitter, &l->is_byte_level));
    FOCAL_TRY(foci_read_decoder(l->ctx, l->what, l->root, &t->decoder));
    FOCAL_TRY(measure(l));
    l->entries = foci_alloc(l->ctx, (size_t)l->size, sizeof *l->entries);
    if (!l->entries) return FOCAL_ENOMEM;
    for (int64_t id = 0; id < l->size; id++)
        l->entries[id] = (foci_vocab_entry){.kind = FOCAL_TOKEN_UNUSED};
    FOCAL_TRY(read_vocab(l));
    FOCAL_TRY(mark_added(l));
    FOCAL_TRY(foci_vocab_new(l->ctx, l->what, l->entries, l->size, l->is_byte_level, &t->vocab));
    FOCAL_TRY(is_bpe ? read_bpe(l) : read_unigram(l));
    FOCAL_TRY(read_added(l));
    FOCAL_TRY(foci_read_template(l->what, l->root, t));
    read_config(l, config);
    foci_tokenizer_finish(t);
    return FOCAL_OK;
}

focal_status foci_tokenizer_from_json(focal_ctx *ctx, const char *what,
                                      const foci_json *tokenizer_json,
                                      const foci_json *tokenizer_config, focal_tokenizer **out)
{
    loading l = {.ctx = ctx,
                 .what = what,
                 .root = tokenizer_json,
                 .model = foci_json_get(tokenizer_json, "model"),
                 .added = foci_json_get(tokenizer_json, "added_tokens")};
    *out = NULL;
    FOCAL_TRY(foci_tokenizer_new(ctx, &l.tokenizer));
    const focal_status status = read_all(&l, tokenizer_config);
    foci_free(ctx, l.entries);
    if (status != FOCAL_OK) {
        focal_tokenizer_free(l.tokenizer);
        return status;
    }
    *out = l.tokenizer;
    return FOCAL_OK;
}
