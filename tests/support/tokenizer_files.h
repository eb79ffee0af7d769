/* Tokenizers written to files of a test's folder in one format and read back. */
#ifndef FOCAL_TESTS_TOKENIZER_FILES_H
#define FOCAL_TESTS_TOKENIZER_FILES_H

#include "support/folder.h"
#include "support/golden_tokenizer.h"

/* A JSON text with ' for ", parsed; fails the test when it is none. */
foci_json *quoted_json(focal_ctx *ctx, const char *text);

/* The file t.gguf with what foci_tokenizer_put_gguf puts; config may be NULL. */
focal_status write_gguf(focal_ctx *ctx, const folder *f, const foci_json *json,
                        const foci_json *config, int64_t vocab);
/* The same from what a GGUF file would hold: written by the plain calls of the writer. */
void write_source(focal_ctx *ctx, const folder *f, const foci_vocab_source *source);

/* The tokenizers of t.gguf, and of tokenizer.json with tokenizer_config.json; fail the test when
 * they cannot be read. */
focal_tokenizer *read_gguf(focal_ctx *ctx, const folder *f);
focal_tokenizer *read_json(focal_ctx *ctx, const folder *f);
/* t.gguf as tokenizer.json and tokenizer_config.json. */
focal_status gguf_to_json(focal_ctx *ctx, const folder *f);
/* tokenizer.json and tokenizer_config.json as t.gguf. */
focal_status json_to_gguf(focal_ctx *ctx, const folder *f, int64_t vocab);

#endif /* FOCAL_TESTS_TOKENIZER_FILES_H */
