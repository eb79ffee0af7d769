/* focal tokenize -o: files into a tokenizer, or by a tokenizer into shards. */
#ifndef CLI_TOKENIZE_FILES_H
#define CLI_TOKENIZE_FILES_H

#include "focal/corpus.h"
#include "options.h"

#define FILES_SPLITS "qwen2|gpt-2|llama3"

typedef struct files_options {
    const char *out;
    const char *field, *separator; /* or NULL */
    int64_t vocab, shard_tokens;   /* 0: the default */
    int32_t split;                 /* index in FILES_SPLITS */
    bool trains, is_json;
    bool reads_special; /* control tokens in the texts */
    bool is_quiet;      /* nothing is said at the end of what went well */
} files_options;

/* Both return an exit code; signals are noted from then on (stop.h). */
int files_train(focal_ctx *ctx, const cli_texts *paths, const files_options *o);
int files_tokenize(focal_ctx *ctx, const focal_tokenizer *tokenizer, const cli_texts *paths,
                   const files_options *o);

#endif /* CLI_TOKENIZE_FILES_H */
