/* The tokenizers under tests/golden/tokenizers, which tools/golden_tokenizers.py makes. */
#ifndef FOCAL_TESTS_GOLDEN_TOKENIZER_H
#define FOCAL_TESTS_GOLDEN_TOKENIZER_H

#include "support/check.h"

#include "text/tokenizer.h"

/* A parsed file of that folder; fails the test when there is none. Free it with foci_json_free. */
foci_json *golden_json(focal_ctx *ctx, const char *name);
/* Any file, parsed. */
foci_json *json_file(focal_ctx *ctx, const char *path);

/* The tokenizer of a name, or fails the test. */
focal_tokenizer *golden_tokenizer(focal_ctx *ctx, const char *name);

/* The vocabulary of a tokenizer.json, or of an object with tokens, scores and types, as a GGUF file
 * would hold it; made once and freed with the source. */
typedef struct golden_source {
    foci_vocab_source source;
    foci_json *root;
    void *arrays[5];
} golden_source;
void golden_source_open(focal_ctx *ctx, const char *name, golden_source *out);
void golden_source_close(golden_source *source);

/* The ids of text, which must be `expected` (an array of numbers); fails the test else, showing
 * both. */
void assert_encodes(focal_ctx *ctx, const focal_tokenizer *tokenizer, const char *name,
                    const foci_json *text, unsigned flags, const foci_json *expected);

#endif /* FOCAL_TESTS_GOLDEN_TOKENIZER_H */
