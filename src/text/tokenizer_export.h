/* Tokenizers from one file format into the other: Hugging Face's tokenizer.json and GGUF's keys
 * tokenizer.ggml.*. What one says and the other cannot is refused by its name. */
#ifndef FOCI_TEXT_TOKENIZER_EXPORT_H
#define FOCI_TEXT_TOKENIZER_EXPORT_H

#include "focal/tokenizer.h"
#include "io/gguf.h"
#include "io/json.h"

/* Puts all keys tokenizer.ggml.*, and tokenizer.chat_template where tokenizer_config has one and
 * none was put before.
 * `what` names the file in messages; tokenizer_config may be NULL. vocab is the embedding's rows:
 * ids without a token get unused ones, "[PADn]", and added tokens beyond the rows are left out.
 *
 * FOCAL_EFORMAT on what is not as it should be, FOCAL_EUNSUPPORTED on parts that GGUF has no way to
 * say and that would change ids. Three are let pass as every converter does, because readers of
 * GGUF know no better: NFC before byte-level BPE (texts in another form differ), Metaspace's
 * prefix, which GGUF's readers put before a leading space and behind special tokens too, and
 * special tokens that are looked for in normalised text. */
focal_status foci_tokenizer_put_gguf(focal_ctx *ctx, const char *what,
                                     const foci_json *tokenizer_json,
                                     const foci_json *tokenizer_config, int64_t vocab,
                                     foci_gguf_writer *writer);

/* Writes tokenizer.json and tokenizer_config.json (with the chat template where the file has one)
 * into a folder that is there; each appears whole or not at all. Tokens of the kind unused are left
 * out, unless there is no way to leave a hole (Unigram). FOCAL_EFORMAT when a text is no UTF-8,
 * FOCAL_EUNSUPPORTED when two tokens have one name. */
focal_status foci_tokenizer_write_json(focal_ctx *ctx, foci_gguf *gguf, const char *folder);

/* Puts the files of a tokenizer that came from one into a folder: copies of tokenizer.json and,
 * where it is there, tokenizer_config.json, or both written from GGUF as above. One that came from
 * memory writes nothing. FOCAL_EIO when its file cannot be read any more. */
focal_status foci_tokenizer_write_folder(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                         const char *folder);

/* Writes tokenizer.json alone, from what a GGUF file would hold. */
struct foci_vocab_source;
focal_status foci_tokenizer_write_source(focal_ctx *ctx, const struct foci_vocab_source *source,
                                         const char *path);

/* For the first: how the tokens of BPE over characters rank, from the merges of a tokenizer that
 * was read from tokenizer.json. scores (vocabulary size) get minus the rank, and -1000 where no
 * merge makes the token. FOCAL_EUNSUPPORTED when scores would join other pairs than the merges, or
 * in another order. */
focal_status foci_scores_of_merges(const char *what, const focal_tokenizer *tokenizer,
                                   float *scores);

#endif /* FOCI_TEXT_TOKENIZER_EXPORT_H */
