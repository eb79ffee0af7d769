/* A corpus into a tokenizer, or by a tokenizer into shards. */
#include "text/corpus.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/hash.h"
#include "text/documents.h"
#include "text/text_cut.h"
#include "text/tokenizer.h"
#include "text/tokenizer_export.h"

static focal_status train_text(void *user, const char *text, size_t bytes)
{
    return focal_tokenizer_trainer_add(user, text, bytes);
}

static focal_status train_end(void *user)
{
    return focal_tokenizer_trainer_end(user);
}

focal_status focal_corpus_train(focal_ctx *ctx, const focal_corpus *corpus,
                                const focal_tokenizer_trainer_options *options, const char *path,
                                focal_tokenizer_trainer_result *result)
{
    focal_tokenizer_trainer *trainer = NULL;
    FOCAL_TRY(focal_tokenizer_trainer_new(ctx, options, &trainer));
    const foci_document_sink sink = {.text = train_text, .end = train_end, .user = trainer};
    focal_status status = foci_documents_read(ctx, corpus, &sink, NULL);
    if (status == FOCAL_OK) status = focal_tokenizer_trainer_save(trainer, path, result);
    focal_tokenizer_trainer_free(trainer);
    return status;
}

uint64_t foci_tokenizer_fingerprint(const focal_tokenizer *tokenizer)
{
    const foci_vocab *vocab = tokenizer->vocab;
    const foci_bpe *bpe = &tokenizer->bpe;
    uint64_t hash = FOCI_HASH_BEGIN, merges = 0;
    hash = foci_hash_bytes(hash, &vocab->size, sizeof vocab->size);
    hash = foci_hash_bytes(hash, vocab->begin, ((size_t)vocab->size + 1) * sizeof *vocab->begin);
    hash = foci_hash_bytes(hash, vocab->bytes, vocab->begin[vocab->size]);
    hash = foci_hash_bytes(hash, vocab->kind, (size_t)vocab->size);
    for (uint64_t n = 0; bpe->merge && n <= bpe->merge_mask; n++) {
        const foci_merge *merge = &bpe->merge[n];
        if (merge->pair == UINT64_MAX) continue;
        /* A sum: the order in the table is nobody's business. */
        uint64_t one = foci_hash_bytes(FOCI_HASH_BEGIN, &merge->pair, sizeof merge->pair);
        merges += foci_hash_bytes(one, &merge->rank, sizeof merge->rank);
    }
    hash = foci_hash_bytes(hash, &merges, sizeof merges);
    for (int32_t n = 0; n < tokenizer->splitter.count; n++) {
        const foci_split_step *step = &tokenizer->splitter.steps[n];
        const int32_t kind[] = {step->kind, step->behavior, step->scan};
        hash = foci_hash_bytes(hash, kind, sizeof kind);
    }
    return hash;
}

typedef struct tokenizing {
    focal_ctx *ctx;
    const focal_tokenizer *tokenizer;
    foci_shard_writer *writer;
    foci_pieces pieces;
    focal_ids ids;
    int32_t end;
    int64_t tokens, lost;
    unsigned flags; /* of encoding */
    bool has_begun; /* this document */
} tokenizing;

static focal_status put_ids(tokenizing *t, const int32_t *ids, int64_t count)
{
    t->tokens += count;
    return foci_shard_writer_put(t->writer, ids, count);
}

/* A piece of a document, cut so that its ids are those that it has in the whole. */
static focal_status encode_piece(void *user, const char *text, size_t bytes)
{
    tokenizing *t = user;
    const focal_tokenizer *tokenizer = t->tokenizer;
    t->ids.count = 0;
    FOCAL_TRY(focal_tokenizer_encode(t->ctx, tokenizer, text, bytes, t->flags, &t->ids));
    t->lost += focal_tokenizer_lost(tokenizer, text, bytes);
    if (!t->has_begun) {
        t->has_begun = true;
        FOCAL_TRY(foci_shard_writer_begin(t->writer));
        FOCAL_TRY(put_ids(t, tokenizer->before, tokenizer->before_count));
    }
    return put_ids(t, t->ids.ids, t->ids.count);
}

static focal_status put_text(void *user, const char *text, size_t bytes)
{
    tokenizing *t = user;
    return foci_pieces_put(&t->pieces, text, bytes);
}

static focal_status end_document(void *user)
{
    tokenizing *t = user;
    FOCAL_TRY(foci_pieces_end(&t->pieces));
    t->has_begun = false;
    return t->end < 0 ? FOCAL_OK : put_ids(t, &t->end, 1);
}

focal_status foci_corpus_tokenize(focal_ctx *ctx, const focal_corpus *corpus,
                                  const focal_tokenizer *tokenizer, const char *folder,
                                  const foci_corpus_settings *settings, focal_corpus_result *result)
{
    tokenizing t = {
        .ctx = ctx,
        .tokenizer = tokenizer,
        .end = focal_tokenizer_document_end(tokenizer),
        .flags = settings->reads_special ? FOCAL_ENCODE_PARSE_SPECIAL : 0U,
        .pieces = {.ctx = ctx,
                   .rule = foci_cut_rule_of_tokenizer(tokenizer, settings->reads_special),
                   .piece_bytes = settings->piece_bytes,
                   .take = encode_piece}};
    t.pieces.user = &t;
    const foci_shard_options options = {.vocab = focal_tokenizer_size(tokenizer),
                                        .end = t.end,
                                        .fingerprint = foci_tokenizer_fingerprint(tokenizer),
                                        .shard_tokens = settings->shard_tokens};
    const foci_document_sink sink = {.text = put_text,
                                     .end = end_document,
                                     .user = &t,
                                     .tokens = &t.tokens,
                                     .read_bytes = settings->read_bytes};
    focal_corpus_progress counts = {0};
    foci_shards_info info = {0};
    FOCAL_TRY(foci_shard_writer_open(ctx, folder, &options, &t.writer));
    /* At once: what the tokenizer came from may change while much text is read. */
    focal_status status =
        foci_tokenizer_write_folder(ctx, tokenizer, foci_shard_writer_folder(t.writer));
    if (status == FOCAL_OK) status = foci_documents_read(ctx, corpus, &sink, &counts);
    if (status == FOCAL_OK)
        status = foci_shard_writer_finish(t.writer, &info);
    else
        foci_shard_writer_abandon(t.writer);
    if (status == FOCAL_OK && result)
        *result = (focal_corpus_result){.text_bytes = counts.text_bytes,
                                        .documents = info.document_count,
                                        .tokens = info.token_count,
                                        .lost_bytes = t.lost,
                                        .shards = info.shard_count};
    foci_pieces_free(&t.pieces);
    focal_ids_free(ctx, &t.ids);
    return status;
}

focal_status focal_corpus_tokenize(focal_ctx *ctx, const focal_corpus *corpus,
                                   const focal_tokenizer *tokenizer, const char *folder,
                                   const focal_corpus_options *options, focal_corpus_result *result)
{
    const foci_corpus_settings settings = {.piece_bytes = FOCI_PIECE_BYTES,
                                           .shard_tokens = options ? options->shard_tokens : 0,
                                           .reads_special = options && options->reads_special};
    return foci_corpus_tokenize(ctx, corpus, tokenizer, folder, &settings, result);
}
