/* From the keys tokenizer.ggml.* to tokenizer.json and tokenizer_config.json: the file is read as a
 * tokenizer, which checks it; what the names of GGUF mean is then written out in parts. */
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/json_text.h"
#include "text/pre_tokenizer.h"
#include "text/template_run.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

/* The longest token that is taken apart into merges: every split of it is looked up, so time grows
 * with the square. SentencePiece's own limit is 16 characters unless told otherwise. */
enum { SPLIT_BYTES_MOST = 256 };

typedef struct output {
    focal_ctx *ctx;
    foci_vocab_source source;
    focal_tokenizer *tokenizer;
    bool is_byte_level, is_unigram;
    int64_t end;        /* of the tokens that are written: behind it all are unused */
    foci_text template; /* without data: none */
} output;

static bool is_special_id(const output *o, int64_t id)
{
    const focal_special_ids *s = &o->tokenizer->special;
    return id == s->bos || id == s->eos || id == s->eot || id == s->unk || id == s->pad;
}

static focal_token_kind kind_of(const output *o, int64_t id)
{
    const int64_t type = o->source.types ? o->source.types[id] : FOCAL_TOKEN_NORMAL;
    /* An unused token that means something must be found by its name. */
    if (type == FOCAL_TOKEN_UNUSED && is_special_id(o, id)) return FOCAL_TOKEN_CONTROL;
    return type == 0 ? FOCAL_TOKEN_NORMAL : (focal_token_kind)type;
}

/* Tokens that tokenizer.json names; the others are holes between ids, which Unigram's list cannot
 * have. */
static bool is_kept(const output *o, int64_t id)
{
    return o->is_unigram ? id < o->end
                         : o->source.tokens[id].bytes > 0 && kind_of(o, id) != FOCAL_TOKEN_UNUSED;
}

static focal_status check_utf8(const output *o, const char *field, int64_t index, foci_text text)
{
    if (foci_utf8_valid(text.data, text.bytes) == text.bytes) return FOCAL_OK;
    return foci_fail(o->ctx, FOCAL_EFORMAT, "%s: %s %lld is no UTF-8, which JSON must be",
                     o->source.what, field, (long long)index);
}

/* Names must be UTF-8, and one token's each. */
static focal_status check_names(const output *o)
{
    const foci_vocab_source *s = &o->source;
    foci_name *names = foci_alloc(o->ctx, (size_t)s->token_count, sizeof *names);
    focal_status status = names ? FOCAL_OK : FOCAL_ENOMEM;
    int64_t count = 0;
    for (int64_t id = 0; id < s->token_count && status == FOCAL_OK; id++) {
        if (!is_kept(o, id)) continue;
        status = check_utf8(o, "token", id, s->tokens[id]);
        names[count++] = (foci_name){s->tokens[id], id};
    }
    for (int64_t n = 0; n < s->merge_count && o->is_byte_level && status == FOCAL_OK; n++)
        status = check_utf8(o, "merge", n, s->merges[n]);
    if (status == FOCAL_OK) {
        foci_names_sort(names, count);
        const foci_name *twin = foci_names_repeated(names, count);
        if (twin)
            status = foci_fail(o->ctx, FOCAL_EUNSUPPORTED,
                               "%s: token %lld has the name of another one, which tokenizer.json "
                               "cannot say",
                               s->what, (long long)twin->index);
    }
    foci_free(o->ctx, names);
    return status;
}

static void put_added_tokens(const output *o, foci_writer *w)
{
    bool is_first = true;
    for (int64_t id = 0; id < o->source.token_count; id++) {
        const focal_token_kind kind = kind_of(o, id);
        if (!is_kept(o, id) || (kind != FOCAL_TOKEN_CONTROL && kind != FOCAL_TOKEN_USER &&
                                kind != FOCAL_TOKEN_UNKNOWN))
            continue;
        foci_json_put(w, is_first ? "\n{\"id\":" : ",\n{\"id\":");
        foci_json_put_int(w, id);
        foci_json_put(w, ",\"content\":");
        foci_json_put_text(w, o->source.tokens[id]);
        foci_json_put(w, ",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
                         "\"normalized\":false,\"special\":");
        foci_json_put_bool(w, kind != FOCAL_TOKEN_USER);
        foci_json_put(w, "}");
        is_first = false;
    }
}

/* Spaces into SentencePiece's sign and back. */
static void put_spaces(const output *o, foci_writer *w)
{
    const bool has_prefix = o->tokenizer->decoder.strip_left > 0;
    foci_json_put(w, "\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[");
    if (has_prefix) foci_json_put(w, "{\"type\":\"Prepend\",\"prepend\":\"" FOCI_SPACE_SIGN "\"},");
    foci_json_put(w, "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},"
                     "\"content\":\"" FOCI_SPACE_SIGN "\"}]},\n\"pre_tokenizer\":null,\n"
                     "\"decoder\":{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Replace\","
                     "\"pattern\":{\"String\":\"" FOCI_SPACE_SIGN "\"},\"content\":\" \"},");
    if (!o->is_unigram) foci_json_put(w, "{\"type\":\"ByteFallback\"},");
    foci_json_put(w, "{\"type\":\"Fuse\"}");
    if (has_prefix)
        foci_json_put(w, ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}");
    foci_json_put(w, "]},\n");
}

static void put_around_one(const output *o, foci_writer *w, int side)
{
    const focal_special_ids *s = &o->tokenizer->special;
    const char *const type = side == 0 ? ",\"type_id\":0}}" : ",\"type_id\":1}}";
    if (s->add_bos) {
        foci_json_put(w, "{\"SpecialToken\":{\"id\":");
        foci_json_put_text(w, o->source.tokens[s->bos]);
        foci_json_put(w, type);
        foci_json_put(w, ",");
    }
    foci_json_put(w, side == 0 ? "{\"Sequence\":{\"id\":\"A\"" : "{\"Sequence\":{\"id\":\"B\"");
    foci_json_put(w, type);
    if (s->add_eos) {
        foci_json_put(w, ",{\"SpecialToken\":{\"id\":");
        foci_json_put_text(w, o->source.tokens[s->eos]);
        foci_json_put(w, type);
    }
}

static void put_special(const output *o, foci_writer *w, int32_t id)
{
    foci_json_put_text(w, o->source.tokens[id]);
    foci_json_put(w, ":{\"id\":");
    foci_json_put_text(w, o->source.tokens[id]);
    foci_json_put(w, ",\"ids\":[");
    foci_json_put_int(w, id);
    foci_json_put(w, "],\"tokens\":[");
    foci_json_put_text(w, o->source.tokens[id]);
    foci_json_put(w, "]}");
}

/* What stands before and behind a text, and each of two. */
static void put_post_processor(const output *o, foci_writer *w)
{
    const focal_special_ids *s = &o->tokenizer->special;
    if (!s->add_bos && !s->add_eos) {
        foci_json_put(w, "\"post_processor\":null,\n");
        return;
    }
    foci_json_put(w, "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[");
    put_around_one(o, w, 0);
    foci_json_put(w, "],\"pair\":[");
    put_around_one(o, w, 0);
    foci_json_put(w, ",");
    put_around_one(o, w, 1);
    foci_json_put(w, "],\"special_tokens\":{");
    if (s->add_bos) put_special(o, w, s->bos);
    if (s->add_eos && s->add_bos && s->eos != s->bos) foci_json_put(w, ",");
    if (s->add_eos && !(s->add_bos && s->eos == s->bos)) put_special(o, w, s->eos);
    foci_json_put(w, "}},\n");
}

static void put_vocab(const output *o, foci_writer *w)
{
    bool is_first = true;
    foci_json_put(w, "\"vocab\":{");
    for (int64_t id = 0; id < o->source.token_count; id++) {
        if (!is_kept(o, id)) continue;
        foci_json_put(w, is_first ? "\n" : ",\n");
        foci_json_put_text(w, o->source.tokens[id]);
        foci_json_put(w, ":");
        foci_json_put_int(w, id);
        is_first = false;
    }
    foci_json_put(w, "}");
}

static void put_merge(foci_writer *w, foci_text left, foci_text right, bool *is_first)
{
    foci_json_put(w, *is_first ? "\n[" : ",\n[");
    foci_json_put_text(w, left);
    foci_json_put(w, ",");
    foci_json_put_text(w, right);
    foci_json_put(w, "]");
    *is_first = false;
}

static void put_merges(const output *o, foci_writer *w)
{
    bool is_first = true;
    for (int64_t n = 0; n < o->source.merge_count; n++) {
        const foci_text merge = o->source.merges[n];
        const char *space = memchr(merge.data, ' ', merge.bytes); /* read_merges() saw it */
        const size_t left = (size_t)(space - merge.data);
        put_merge(w, (foci_text){merge.data, left}, (foci_text){space + 1, merge.bytes - left - 1},
                  &is_first);
    }
}

typedef struct scored_token {
    float score;
    int32_t id;
} scored_token;

/* The best score first, of equal ones the lower id. */
static int compare_scores(const void *a, const void *b)
{
    const scored_token *x = a, *y = b;
    if (x->score != y->score) return x->score > y->score ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

/* Scores as merges: for each token, best first, every pair of tokens that it is made of. */
static focal_status put_scores_as_merges(const output *o, foci_writer *w)
{
    const foci_vocab *vocab = o->tokenizer->vocab;
    scored_token *order = foci_alloc(o->ctx, (size_t)vocab->size, sizeof *order);
    if (!order) return FOCAL_ENOMEM;
    for (int32_t id = 0; id < vocab->size; id++)
        order[id] = (scored_token){(float)vocab->score[id], id};
    qsort(order, (size_t)vocab->size, sizeof *order, compare_scores);
    bool is_first = true;
    for (int32_t n = 0; n < vocab->size; n++) {
        const uint8_t kind = vocab->kind[order[n].id];
        size_t bytes;
        const char *text = foci_vocab_text(vocab, order[n].id, &bytes);
        if (kind != FOCAL_TOKEN_NORMAL && kind != FOCAL_TOKEN_USER) continue;
        for (size_t at = bytes; at-- > 1;) {
            if ((text[at] & 0xC0) == 0x80) continue; /* inside of a character */
            if (foci_vocab_find(vocab, text, at) >= 0 &&
                foci_vocab_find(vocab, text + at, bytes - at) >= 0)
                put_merge(w, (foci_text){text, at}, (foci_text){text + at, bytes - at}, &is_first);
        }
    }
    foci_free(o->ctx, order);
    return FOCAL_OK;
}

static focal_status check_splits(const output *o)
{
    const foci_vocab *vocab = o->tokenizer->vocab;
    for (int32_t id = 0; id < vocab->size; id++) {
        size_t bytes;
        (void)foci_vocab_text(vocab, id, &bytes);
        const bool is_split =
            vocab->kind[id] == FOCAL_TOKEN_NORMAL || vocab->kind[id] == FOCAL_TOKEN_USER;
        if (is_split && bytes > SPLIT_BYTES_MOST)
            return foci_fail(o->ctx, FOCAL_EUNSUPPORTED,
                             "%s: token %d has %zu bytes, at most %d can be written as merges",
                             o->source.what, id, bytes, SPLIT_BYTES_MOST);
    }
    return FOCAL_OK;
}

static focal_status put_bpe(const output *o, foci_writer *w)
{
    const foci_bpe *bpe = &o->tokenizer->bpe;
    foci_json_put(w, "\"model\":{\"type\":\"BPE\",\"dropout\":null,\"unk_token\":");
    if (bpe->unknown >= 0 && is_kept(o, bpe->unknown))
        foci_json_put_text(w, o->source.tokens[bpe->unknown]);
    else
        foci_json_put(w, "null");
    foci_json_put(w, ",\"continuing_subword_prefix\":null,\"end_of_word_suffix\":null,"
                     "\"fuse_unk\":false,\"byte_fallback\":");
    foci_json_put_bool(w, bpe->byte_fallback);
    foci_json_put(w, ",\"ignore_merges\":");
    foci_json_put_bool(w, bpe->ignore_merges);
    foci_json_put(w, ",\n");
    put_vocab(o, w);
    foci_json_put(w, ",\n\"merges\":[");
    if (o->is_byte_level)
        put_merges(o, w);
    else
        FOCAL_TRY(put_scores_as_merges(o, w));
    foci_json_put(w, "]}}\n");
    return FOCAL_OK;
}

static void put_unigram(const output *o, foci_writer *w)
{
    foci_json_put(w, "\"model\":{\"type\":\"Unigram\",\"unk_id\":");
    if (o->tokenizer->unigram.unknown >= 0)
        foci_json_put_int(w, o->tokenizer->unigram.unknown);
    else
        foci_json_put(w, "null");
    foci_json_put(w, ",\"byte_fallback\":false,\n\"vocab\":[");
    for (int64_t id = 0; id < o->end; id++) {
        char score[FOCI_REAL_BYTES];
        foci_json_put(w, id == 0 ? "\n[" : ",\n[");
        foci_json_put_text(w, o->source.tokens[id]);
        foci_real_text((double)o->source.scores[id], score);
        foci_json_put(w, ",");
        foci_json_put(w, score);
        foci_json_put(w, "]");
    }
    foci_json_put(w, "]}}\n");
}

static focal_status put_tokenizer(const output *o, foci_writer *w)
{
    foci_json_put(w, "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,\n"
                     "\"added_tokens\":[");
    put_added_tokens(o, w);
    foci_json_put(w, "],\n");
    if (o->is_byte_level) {
        foci_json_put(w, "\"normalizer\":null,\n\"pre_tokenizer\":");
        foci_pre_put_json(foci_pre_find(o->source.pre), w);
        foci_json_put(w, ",\n\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,"
                         "\"trim_offsets\":true,\"use_regex\":true},\n");
    } else {
        put_spaces(o, w);
    }
    put_post_processor(o, w);
    if (!o->is_unigram) return put_bpe(o, w);
    put_unigram(o, w);
    return FOCAL_OK;
}

static void put_named(const output *o, foci_writer *w, const char *key, int32_t id)
{
    if (id < 0 || !is_kept(o, id)) return;
    foci_json_put(w, key);
    foci_json_put_text(w, o->source.tokens[id]);
}

static focal_status put_config(const output *o, foci_writer *w)
{
    const focal_special_ids *s = &o->tokenizer->special;
    foci_json_put(w, "{\n  \"add_bos_token\": ");
    foci_json_put_bool(w, s->add_bos);
    foci_json_put(w, ",\n  \"add_eos_token\": ");
    foci_json_put_bool(w, s->add_eos);
    put_named(o, w, ",\n  \"bos_token\": ", s->bos);
    put_named(o, w, ",\n  \"eos_token\": ", s->eos);
    if (s->eot != s->eos) put_named(o, w, ",\n  \"eot_token\": ", s->eot);
    put_named(o, w, ",\n  \"pad_token\": ", s->pad);
    put_named(o, w, ",\n  \"unk_token\": ", s->unk);
    foci_json_put(w, ",\n  \"clean_up_tokenization_spaces\": false");
    if (o->template.data) {
        foci_json_put(w, ",\n  \"chat_template\": ");
        foci_json_put_text(w, o->template);
    }
    foci_json_put(w, ",\n  \"tokenizer_class\": \"PreTrainedTokenizerFast\"\n}\n");
    return FOCAL_OK;
}

typedef focal_status put_function(const output *o, foci_writer *w);

static focal_status write_path(const output *o, const char *path, put_function *put)
{
    foci_writer *writer = NULL;
    FOCAL_TRY(foci_writer_open(o->ctx, path, &writer));
    const focal_status status = put(o, writer);
    if (status == FOCAL_OK) return foci_writer_commit(writer);
    foci_writer_abandon(writer);
    return status;
}

static focal_status write_file(const output *o, const char *folder, const char *name,
                               put_function *put)
{
    char *path = foci_path_join(o->ctx, folder, strlen(folder), name);
    if (!path) return FOCAL_ENOMEM;
    const focal_status status = write_path(o, path, put);
    foci_free(o->ctx, path);
    return status;
}

/* What the tokenizer says of the source; names are checked. */
static focal_status prepare(output *o)
{
    o->is_unigram = o->tokenizer->model == FOCI_MODEL_UNIGRAM;
    o->is_byte_level = !o->is_unigram && o->tokenizer->bpe.is_byte_level;
    o->end = o->source.token_count;
    while (o->end > 1 && kind_of(o, o->end - 1) == FOCAL_TOKEN_UNUSED) o->end--;
    return check_names(o);
}

static focal_status write_all(output *o, foci_gguf *gguf, const char *folder)
{
    FOCAL_TRY(foci_gguf_get_text(gguf, "tokenizer.chat_template", &o->template));
    FOCAL_TRY(prepare(o));
    if (foci_utf8_valid(o->template.data, o->template.bytes) < o->template.bytes)
        return foci_fail(o->ctx, FOCAL_EFORMAT, "%s: tokenizer.chat_template is no UTF-8",
                         o->source.what);
    if (!o->is_byte_level && !o->is_unigram) FOCAL_TRY(check_splits(o));
    FOCAL_TRY(write_file(o, folder, "tokenizer.json", put_tokenizer));
    return write_file(o, folder, "tokenizer_config.json", put_config);
}

focal_status foci_tokenizer_write_json(focal_ctx *ctx, foci_gguf *gguf, const char *folder)
{
    output o = {.ctx = ctx};
    FOCAL_TRY(foci_vocab_source_of_gguf(ctx, gguf, &o.source));
    FOCAL_TRY(foci_tokenizer_from_source(ctx, &o.source, &o.tokenizer));
    const focal_status status = write_all(&o, gguf, folder);
    focal_tokenizer_free(o.tokenizer);
    return status;
}

focal_status foci_tokenizer_write_source(focal_ctx *ctx, const foci_vocab_source *source,
                                         const char *path)
{
    output o = {.ctx = ctx, .source = *source};
    FOCAL_TRY(foci_tokenizer_from_source(ctx, source, &o.tokenizer));
    focal_status status = prepare(&o);
    if (status == FOCAL_OK) status = write_path(&o, path, put_tokenizer);
    focal_tokenizer_free(o.tokenizer);
    return status;
}
