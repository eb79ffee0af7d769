/* Texts to learn from: files of documents, read as a stream, made into a tokenizer or into shards
 * of token ids (docs/FORMATS.md). Memory does not grow with the texts. */
#ifndef FOCAL_CORPUS_H
#define FOCAL_CORPUS_H

#include "focal/base.h"
#include "focal/tokenizer.h"

FOCAL_BEGIN_DECLS

typedef struct focal_corpus_progress {
    int64_t read_bytes, total_bytes; /* of the files as they are; total is 0 when it is not known */
    int64_t text_bytes, documents;   /* expanded */
    int64_t tokens;                  /* 0 while a tokenizer is made */
} focal_corpus_progress;

/* Where documents are. A path may be "-", standard input; what gzip, xz or zstd has compressed is
 * known by its first bytes.
 *
 * A file is one document of plain text, or several with `separator` between them. Files whose names
 * end in .jsonl or .ndjson, perhaps with .gz, .xz or .zst behind, hold a JSON object a line, whose
 * member `field` is a document; so do all files where `field` is given. Empty lines and empty
 * documents are passed over. */
typedef struct focal_corpus {
    const char *const *paths; /* (path_count) */
    int32_t path_count;
    const char *field;     /* NULL: "text", in files of such names only */
    const char *separator; /* stands between documents of plain text and belongs to none; NULL */
    bool (*on_progress)(void *user, const focal_corpus_progress *progress); /* false ends the call
                              with FOCAL_EINVAL; may be NULL */
    void *user;
} focal_corpus;

/* Trains a tokenizer on all documents and writes it to `path`; options (whose on_merge tells of the
 * second part) and result may be NULL. Fails as the calls of focal_tokenizer_trainer do, with
 * FOCAL_EIO or, naming file and place, FOCAL_EFORMAT on what is no UTF-8, no JSON or damaged. */
FOCAL_API focal_status focal_corpus_train(focal_ctx *ctx, const focal_corpus *corpus,
                                          const focal_tokenizer_trainer_options *options,
                                          const char *path, focal_tokenizer_trainer_result *result);

/* All zero is the default. */
typedef struct focal_corpus_options {
    int64_t shard_tokens; /* of a shard at most; 0: 100 million */
    bool reads_special;   /* control tokens in the text are those tokens, as in dialogues that a
                             template made; else plain text */
} focal_corpus_options;

typedef struct focal_corpus_result {
    int64_t text_bytes, documents, tokens;
    int64_t lost_bytes; /* that the tokenizer leaves out (focal_tokenizer_lost) */
    int32_t shards;
} focal_corpus_result;

/* Writes the ids of all documents as shards into a folder, which must be empty or not be there and
 * appears when all is done. A document gets the begin tokens that the model expects, and behind it
 * the end token (focal_tokenizer_document_end). Special tokens in the text are plain text. The ids
 * are those of the whole documents, whatever pieces they are read in. The folder gets the tokenizer
 * too, as tokenizer.json and tokenizer_config.json. options and result may be NULL.
 *
 * FOCAL_EUNSUPPORTED when the tokenizer is a GGUF file's that tokenizer.json cannot say; else as
 * above. */
FOCAL_API focal_status focal_corpus_tokenize(focal_ctx *ctx, const focal_corpus *corpus,
                                             const focal_tokenizer *tokenizer, const char *folder,
                                             const focal_corpus_options *options,
                                             focal_corpus_result *result);

typedef struct focal_shards_info {
    int64_t tokens, documents;
    int32_t vocab, shards; /* vocab: ids are below it */
} focal_shards_info;

/* What a folder of shards holds. FOCAL_EIO, or FOCAL_EFORMAT with the file, the value and the
 * limit. */
FOCAL_API focal_status focal_shards_describe(focal_ctx *ctx, const char *folder,
                                             focal_shards_info *info);

/* Appends the text of the tokens begin..begin+count-1, by the tokenizer in the folder; it may begin
 * and end within a character. FOCAL_EINVAL when they are not all there; else as describe. */
FOCAL_API focal_status focal_shards_text(focal_ctx *ctx, const char *folder, int64_t begin,
                                         int64_t count, focal_buffer *out);

FOCAL_END_DECLS
#endif /* FOCAL_CORPUS_H */
