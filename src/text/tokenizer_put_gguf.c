/* From tokenizer.json to the keys tokenizer.ggml.*: the file is read as a tokenizer, which checks
 * it; then each part must be one that GGUF can say. */
#include "text/tokenizer_export.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer_parts.h"

enum { PAD_BYTES = 16 }; /* "[PAD4194303]" */

/* A tokenizer on its way. */
typedef struct conversion {
    focal_ctx *ctx;
    const char *what;
    const foci_json *root, *model, *config;
    const focal_tokenizer *tokenizer;
    int64_t size; /* tokens to write */
    bool is_byte_level;
    const char *kind, *pre;
    int add_space_prefix; /* -1: the kind has no such thing */
    foci_text *tokens;    /* (size) */
    int32_t *types;       /* (size) */
    float *scores;        /* (at least size) or NULL */
    foci_text *merges;    /* (merge_count) or NULL */
    int64_t merge_count;
    char *names, *merge_text; /* what tokens and merges point to that is not in the JSON */
} conversion;

static focal_status cannot(const conversion *c, const char *part)
{
    return foci_fail(c->ctx, FOCAL_EUNSUPPORTED, "%s: %s cannot be said in GGUF", c->what, part);
}

static bool is_string(const foci_json *value, const char *text)
{
    const char *string = foci_json_string(value);
    return string && strcmp(string, text) == 0;
}

/* The first byte without a token; 256: there is none. */
static unsigned missing_byte(const foci_vocab *vocab)
{
    unsigned byte = 0;
    while (byte < 256 && vocab->byte_id[byte] >= 0) byte++;
    return byte;
}

/* Byte-level text may be in NFC before: every reader of GGUF leaves that out. */
static focal_status plan_byte_level(conversion *c)
{
    const foci_normalizer *normalizer = &c->tokenizer->normalizer;
    const foci_pre_tokenizer *pre;
    for (int32_t n = 0; n < normalizer->count; n++)
        if (normalizer->steps[n].kind != FOCI_NORMALIZE_FORM ||
            normalizer->steps[n].form != FOCI_NFC)
            return cannot(c, "a normalizer other than NFC");
    if (c->tokenizer->bpe.unknown >= 0 && missing_byte(c->tokenizer->vocab) < 256)
        return cannot(c, "model.unk_token for bytes without a token");
    FOCAL_TRY(foci_pre_of_json(c->ctx, c->what, c->root, c->tokenizer->bpe.ignore_merges, &pre));
    c->kind = "gpt2";
    c->pre = pre->name;
    return FOCAL_OK;
}

static bool is_step(const foci_normalizer_step *step, foci_normalizer_kind kind, const char *what,
                    const char *with)
{
    const foci_text a = {step->what, step->what_bytes}, b = {step->with, step->with_bytes};
    return step->kind == kind && !step->pattern && foci_text_equal(a, foci_text_of(what)) &&
           foci_text_equal(b, foci_text_of(with));
}

/* True when some token has the sign for a space behind its beginning. */
static bool has_sign_inside(const foci_vocab *vocab)
{
    const size_t sign = sizeof FOCI_SPACE_SIGN - 1;
    for (int32_t id = 0; id < vocab->size; id++) {
        size_t bytes;
        const char *text = foci_vocab_text(vocab, id, &bytes);
        if (vocab->kind[id] == FOCAL_TOKEN_NORMAL && bytes > 1 &&
            memmem(text + 1, bytes - 1, FOCI_SPACE_SIGN, sign))
            return true;
    }
    return false;
}

static focal_status plan_metaspace(conversion *c, const foci_json *part)
{
    const foci_json *scheme = foci_json_get(part, "prepend_scheme");
    if (!is_string(foci_json_get(part, "replacement"), FOCI_SPACE_SIGN))
        return cannot(c, "pre_tokenizer Metaspace: a replacement other than U+2581");
    if (foci_json_bool(foci_json_get(part, "split"), true) && has_sign_inside(c->tokenizer->vocab))
        return cannot(c, "pre_tokenizer Metaspace: split, where tokens reach across spaces,");
    const bool prepends = scheme ? !is_string(scheme, "never")
                                 : foci_json_bool(foci_json_get(part, "add_prefix_space"), true);
    if (prepends) c->add_space_prefix = 1;
    return FOCAL_OK;
}

/* SentencePiece's way with spaces, in the ways that files write it: a normalizer, or Metaspace. */
static focal_status plan_spaces(conversion *c)
{
    const foci_normalizer *normalizer = &c->tokenizer->normalizer;
    bool has_sign = false;
    foci_parts parts;
    c->add_space_prefix = 0;
    for (int32_t n = 0; n < normalizer->count; n++) {
        const foci_normalizer_step *step = &normalizer->steps[n];
        if (is_step(step, FOCI_NORMALIZE_REPLACE, " ", FOCI_SPACE_SIGN))
            has_sign = true;
        else if (is_step(step, FOCI_NORMALIZE_PREPEND, "", FOCI_SPACE_SIGN))
            c->add_space_prefix++;
        else
            return cannot(c, "a normalizer other than U+2581 for spaces and in front");
    }
    if (c->add_space_prefix > 1) return cannot(c, "normalizer Prepend, twice,");
    FOCAL_TRY(foci_parts_of(c->ctx, c->what, "pre_tokenizer", "pretokenizers", c->root, &parts));
    for (int32_t n = 0; n < parts.count; n++) {
        const foci_json *pattern = foci_json_get(parts.part[n], "pattern");
        if (strcmp(parts.type[n], "Metaspace") == 0) {
            FOCAL_TRY(plan_metaspace(c, parts.part[n]));
            has_sign = true;
        } else if (!has_sign || strcmp(parts.type[n], "Split") != 0 ||
                   !is_string(foci_json_get(pattern, "String"), " ")) {
            /* A Split by spaces finds none once they are signs. */
            return cannot(c, "a pre_tokenizer other than Metaspace for this model");
        }
    }
    return has_sign ? FOCAL_OK : cannot(c, "a normalizer that leaves spaces as they are");
}

static focal_status plan_characters(conversion *c)
{
    const focal_tokenizer *t = c->tokenizer;
    if (!t->bpe.byte_fallback) return cannot(c, "model.byte_fallback false");
    if (t->bpe.ignore_merges) return cannot(c, "model.ignore_merges true");
    if (missing_byte(t->vocab) < 256)
        return foci_fail(c->ctx, FOCAL_EUNSUPPORTED,
                         "%s: model.vocab has no token <0x%02X>, GGUF needs all of them", c->what,
                         missing_byte(t->vocab));
    FOCAL_TRY(plan_spaces(c));
    c->kind = "llama";
    return FOCAL_OK;
}

static focal_status plan_unigram(conversion *c)
{
    if (c->tokenizer->unigram.byte_fallback) return cannot(c, "model.byte_fallback of Unigram");
    if (c->tokenizer->unigram.unknown < 0) return cannot(c, "Unigram without model.unk_id");
    FOCAL_TRY(plan_spaces(c));
    c->kind = "t5";
    return FOCAL_OK;
}

/* Added tokens are found in the text as it is, wherever they stand. */
static focal_status check_added(const conversion *c)
{
    const foci_added *added = &c->tokenizer->added;
    for (int32_t n = 0; n < added->count; n++) {
        const foci_added_token *token = &added->tokens[n];
        const foci_text text = {added->text.data + token->begin, token->bytes};
        size_t bytes;
        const char *own = foci_vocab_text(c->tokenizer->vocab, token->id, &bytes);
        const char *flag = token->single_word ? "single_word"
                           : token->lstrip    ? "lstrip"
                           : token->rstrip    ? "rstrip"
                                              : NULL;
        if (!flag && !token->is_special && !foci_text_equal(text, (foci_text){own, bytes}))
            flag = "normalized";
        if (flag)
            return foci_fail(c->ctx, FOCAL_EUNSUPPORTED,
                             "%s: added token '%.*s': %s cannot be said in GGUF", c->what,
                             (int)(bytes < 64 ? bytes : 64), own, flag);
    }
    return FOCAL_OK;
}

/* True when nothing is put on a side of a text, or only the token of that id. */
static bool is_only(const conversion *c, const int32_t *list, int32_t count, int32_t id)
{
    return count == 0 || (count == 1 && list[0] == id && id < c->size);
}

static focal_status check_around(const conversion *c)
{
    const focal_tokenizer *t = c->tokenizer;
    if (!is_only(c, t->before, t->before_count, t->special.bos))
        return cannot(c, "post_processor: tokens before a text other than bos_token");
    if (!is_only(c, t->behind, t->behind_count, t->special.eos))
        return cannot(c, "post_processor: tokens behind a text other than eos_token");
    return FOCAL_OK;
}

static focal_status set_token(conversion *c, int64_t id, const char *text, size_t bytes,
                              bool is_added)
{
    if (id < c->size) {
        c->tokens[id] = (foci_text){text, bytes};
        c->types[id] = c->tokenizer->vocab->kind[id];
    } else if (!is_added) {
        return foci_fail(c->ctx, FOCAL_EFORMAT,
                         "%s: token '%.64s' has id %lld, the embedding has %lld rows", c->what,
                         text, (long long)id, (long long)c->size);
    }
    return FOCAL_OK;
}

/* Names for the ids that have no token. */
static focal_status name_holes(conversion *c)
{
    int64_t holes = 0;
    for (int64_t id = 0; id < c->size; id++) holes += !c->tokens[id].data;
    c->names = foci_alloc(c->ctx, (size_t)holes, PAD_BYTES);
    if (!c->names) return FOCAL_ENOMEM;
    char *name = c->names;
    for (int64_t id = 0; id < c->size; id++) {
        if (c->tokens[id].data) continue;
        const int bytes = snprintf(name, PAD_BYTES, "[PAD%lld]", (long long)id);
        c->tokens[id] = (foci_text){name, (size_t)bytes};
        c->types[id] = FOCAL_TOKEN_UNUSED;
        name += PAD_BYTES;
    }
    return FOCAL_OK;
}

static focal_status list_tokens(conversion *c)
{
    const foci_json *vocab = foci_json_get(c->model, "vocab");
    const foci_json *added = foci_json_get(c->root, "added_tokens");
    const int32_t unknown = c->tokenizer->special.unk;
    foci_json_member member = {0};
    c->tokens = foci_alloc(c->ctx, (size_t)c->size, sizeof *c->tokens);
    c->types = foci_alloc(c->ctx, (size_t)c->size, sizeof *c->types);
    if (!c->tokens || !c->types) return FOCAL_ENOMEM;
    for (int64_t id = 0; id < c->size; id++) c->tokens[id] = (foci_text){NULL, 0};
    for (int64_t n = 0; n < foci_json_count(added); n++) {
        const foci_json *token = foci_json_at(added, n), *text = foci_json_get(token, "content");
        FOCAL_TRY(set_token(c, foci_json_int(foci_json_get(token, "id"), -1),
                            foci_json_string(text), foci_json_length(text), true));
    }
    if (foci_json_is(vocab, FOCI_JSON_ARRAY)) {
        for (int64_t id = 0; id < foci_json_count(vocab); id++) {
            const foci_json *text = foci_json_at(foci_json_at(vocab, id), 0);
            FOCAL_TRY(set_token(c, id, foci_json_string(text), foci_json_length(text), false));
        }
    } else {
        while (foci_json_next(vocab, &member))
            FOCAL_TRY(set_token(c, foci_json_int(member.value, -1), member.key, member.key_length,
                                false));
    }
    if (!c->is_byte_level && unknown >= 0 && unknown < c->size &&
        c->types[unknown] == FOCAL_TOKEN_CONTROL)
        c->types[unknown] = FOCAL_TOKEN_UNKNOWN;
    return name_holes(c);
}

static bool has_space(const foci_json *value)
{
    return memchr(foci_json_string(value), ' ', foci_json_length(value)) != NULL;
}

/* Puts "left right" of a merge into c->merges; one that the file writes as a pair is joined at *to,
 * which moves on. */
static focal_status list_merge(conversion *c, const foci_json *merge, char **to)
{
    const foci_json *left = foci_json_at(merge, 0), *right = foci_json_at(merge, 1);
    const size_t a = foci_json_length(left), b = foci_json_length(right);
    foci_text *out = &c->merges[c->merge_count++];
    if (foci_json_string(merge)) {
        *out = (foci_text){foci_json_string(merge), foci_json_length(merge)};
        return FOCAL_OK;
    }
    if (has_space(left) || has_space(right)) return cannot(c, "a merge of tokens with a space");
    *out = (foci_text){*to, a + 1 + b};
    memcpy(*to, foci_json_string(left), a);
    (*to)[a] = ' ';
    memcpy(*to + a + 1, foci_json_string(right), b);
    *to += a + 1 + b;
    return FOCAL_OK;
}

static focal_status list_merges(conversion *c)
{
    const foci_bpe *bpe = &c->tokenizer->bpe;
    const foci_json *merges = foci_json_get(c->model, "merges");
    const int64_t count = foci_json_count(merges);
    size_t bytes = 0;
    if (count == 0) return cannot(c, "byte-level BPE without merges");
    for (int64_t n = 0; n < count; n++) {
        const foci_json *merge = foci_json_at(merges, n);
        bytes += foci_json_length(foci_json_at(merge, 0)) + 1;
        bytes += foci_json_length(foci_json_at(merge, 1));
    }
    c->merges = foci_alloc(c->ctx, (size_t)count, sizeof *c->merges);
    c->merge_text = foci_alloc(c->ctx, bytes, 1);
    bool *counts = foci_alloc(c->ctx, (size_t)count, sizeof *counts);
    focal_status status = c->merges && c->merge_text && counts ? FOCAL_OK : FOCAL_ENOMEM;
    /* Of two equal merges the later one counts here and the first in GGUF: only one may stay. */
    for (int64_t n = 0; n < count && status == FOCAL_OK; n++) counts[n] = false;
    for (uint64_t n = 0; n <= bpe->merge_mask && status == FOCAL_OK; n++)
        if (bpe->merge[n].pair != UINT64_MAX) counts[bpe->merge[n].rank] = true;
    char *to = c->merge_text;
    for (int64_t n = 0; n < count && status == FOCAL_OK; n++)
        if (counts[n]) status = list_merge(c, foci_json_at(merges, n), &to);
    foci_free(c->ctx, counts);
    return status;
}

static focal_status list_scores(conversion *c)
{
    const focal_tokenizer *t = c->tokenizer;
    const int64_t known = t->vocab->size, all = known > c->size ? known : c->size;
    c->scores = foci_alloc(c->ctx, (size_t)all, sizeof *c->scores);
    if (!c->scores) return FOCAL_ENOMEM;
    for (int64_t id = 0; id < all; id++)
        c->scores[id] = id < known ? (float)t->vocab->score[id] : 0.0F;
    return t->model == FOCI_MODEL_UNIGRAM ? FOCAL_OK : foci_scores_of_merges(c->what, t, c->scores);
}

static focal_status put_ids(const conversion *c, foci_gguf_writer *writer)
{
    const focal_special_ids *special = &c->tokenizer->special;
    const struct {
        const char *key;
        int32_t id;
    } ids[] = {{"tokenizer.ggml.bos_token_id", special->bos},
               {"tokenizer.ggml.eos_token_id", special->eos},
               {"tokenizer.ggml.eot_token_id", special->eot},
               {"tokenizer.ggml.unknown_token_id", special->unk},
               {"tokenizer.ggml.padding_token_id", special->pad}};
    for (size_t n = 0; n < FOCAL_COUNT(ids); n++)
        if (ids[n].id >= 0 && ids[n].id < c->size)
            FOCAL_TRY(foci_gguf_put_u32(writer, ids[n].key, (uint32_t)ids[n].id));
    FOCAL_TRY(foci_gguf_put_bool(writer, "tokenizer.ggml.add_bos_token", special->add_bos));
    FOCAL_TRY(foci_gguf_put_bool(writer, "tokenizer.ggml.add_eos_token", special->add_eos));
    if (c->add_space_prefix < 0) return FOCAL_OK;
    return foci_gguf_put_bool(writer, "tokenizer.ggml.add_space_prefix", c->add_space_prefix > 0);
}

/* The template of tokenizer_config.json: a text, or of a list of them the one named "default". */
static focal_status put_template(const conversion *c, foci_gguf_writer *writer)
{
    const foci_json *template = foci_json_get(c->config, "chat_template");
    for (int64_t n = 0; foci_json_is(template, FOCI_JSON_ARRAY); n++) {
        const foci_json *one = foci_json_at(template, n);
        if (!one) return FOCAL_OK;
        if (!is_string(foci_json_get(one, "name"), "default")) continue;
        template = foci_json_get(one, "template");
        break;
    }
    if (!foci_json_is(template, FOCI_JSON_STRING)) return FOCAL_OK;
    if (foci_gguf_writer_has(writer, "tokenizer.chat_template")) return FOCAL_OK;
    const foci_text text = {foci_json_string(template), foci_json_length(template)};
    return foci_gguf_put_text(writer, "tokenizer.chat_template", text);
}

static focal_status put_keys(const conversion *c, foci_gguf_writer *writer)
{
    FOCAL_TRY(foci_gguf_put_text(writer, "tokenizer.ggml.model", foci_text_of(c->kind)));
    FOCAL_TRY(foci_gguf_put_text(writer, "tokenizer.ggml.pre", foci_text_of(c->pre)));
    FOCAL_TRY(foci_gguf_put_texts(writer, "tokenizer.ggml.tokens", c->tokens, c->size));
    if (c->scores)
        FOCAL_TRY(foci_gguf_put_f32s(writer, "tokenizer.ggml.scores", c->scores, c->size));
    FOCAL_TRY(foci_gguf_put_i32s(writer, "tokenizer.ggml.token_type", c->types, c->size));
    if (c->merges)
        FOCAL_TRY(foci_gguf_put_texts(writer, "tokenizer.ggml.merges", c->merges, c->merge_count));
    FOCAL_TRY(put_ids(c, writer));
    return put_template(c, writer);
}

static focal_status convert(conversion *c, foci_gguf_writer *writer)
{
    const focal_tokenizer *t = c->tokenizer;
    c->is_byte_level = t->model == FOCI_MODEL_BPE && t->bpe.is_byte_level;
    if (t->model == FOCI_MODEL_UNIGRAM)
        FOCAL_TRY(plan_unigram(c));
    else
        FOCAL_TRY(c->is_byte_level ? plan_byte_level(c) : plan_characters(c));
    FOCAL_TRY(check_added(c));
    FOCAL_TRY(check_around(c));
    FOCAL_TRY(list_tokens(c));
    FOCAL_TRY(c->is_byte_level ? list_merges(c) : list_scores(c));
    return put_keys(c, writer);
}

focal_status foci_tokenizer_put_gguf(focal_ctx *ctx, const char *what,
                                     const foci_json *tokenizer_json,
                                     const foci_json *tokenizer_config, int64_t vocab,
                                     foci_gguf_writer *writer)
{
    conversion c = {.ctx = ctx,
                    .what = what,
                    .root = tokenizer_json,
                    .model = foci_json_get(tokenizer_json, "model"),
                    .config = tokenizer_config,
                    .size = vocab,
                    .pre = "default",
                    .add_space_prefix = -1};
    focal_tokenizer *tokenizer = NULL;
    if (vocab < 1 || vocab > FOCI_VOCAB_MOST)
        return foci_fail(ctx, FOCAL_EINVAL, "%s: %lld tokens, 1 to %d are accepted", what,
                         (long long)vocab, FOCI_VOCAB_MOST);
    FOCAL_TRY(foci_tokenizer_from_json(ctx, what, tokenizer_json, tokenizer_config, &tokenizer));
    c.tokenizer = tokenizer;
    const focal_status status = convert(&c, writer);
    foci_free(ctx, c.tokens);
    foci_free(ctx, c.types);
    foci_free(ctx, c.scores);
    foci_free(ctx, c.merges);
    foci_free(ctx, c.names);
    foci_free(ctx, c.merge_text);
    focal_tokenizer_free(tokenizer);
    return status;
}
