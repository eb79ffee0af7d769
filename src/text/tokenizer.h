/* The tokenizer from inside: what the loaders fill in, and what encoding and decoding read. */
#ifndef FOCI_TEXT_TOKENIZER_H
#define FOCI_TEXT_TOKENIZER_H

#include "io/gguf.h"
#include "io/json.h"
#include "text/added.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/splitter.h"
#include "text/unigram.h"

enum {
    FOCI_AROUND = 8, /* tokens that may be put before and behind a text */
    FOCI_ENDS = 32   /* tokens that may end a text */
};

#define FOCI_SPACE_SIGN "\xE2\x96\x81" /* U+2581, SentencePiece's sign for a space */

typedef enum foci_model_kind { FOCI_MODEL_BPE, FOCI_MODEL_UNIGRAM } foci_model_kind;

/* From tokens back to text. */
typedef struct foci_decoder {
    bool has_byte_tokens;    /* <0x0A> stands for the byte */
    char what[16], with[16]; /* replaced in every token; "": nothing is */
    size_t what_bytes, with_bytes;
    bool first_drops;   /* in the first token, what is dropped instead; Metaspace does that */
    int32_t strip_left; /* how many of strip_byte the whole text loses in front */
    char strip_byte;
} foci_decoder;

struct focal_tokenizer {
    focal_ctx *ctx;
    foci_vocab *vocab;
    foci_added added;
    foci_normalizer normalizer;
    foci_splitter splitter;
    foci_model_kind model;
    foci_bpe bpe;
    foci_unigram unigram;
    /* SentencePiece's sign for a space, and the bytes that stand before it inside of a token: words
     * are cut before every other one, which changes no id and lets the cache of words work. */
    bool cuts_at_space;
    bool stays_before_space[256];
    int32_t before[FOCI_AROUND], behind[FOCI_AROUND];
    int32_t before_count, behind_count;
    foci_decoder decoder;
    focal_special_ids special;
    int32_t ends[FOCI_ENDS];
    int32_t end_count;
    char *origin; /* the file that it came from, tokenizer.json or GGUF; NULL: from memory */
    bool origin_is_gguf;
};

/* From a parsed tokenizer.json, with tokenizer_config.json or NULL; `what` names it in messages.
 * FOCAL_EFORMAT on what is not as it should be, FOCAL_EUNSUPPORTED, by name, on parts that change
 * the ids and that are not known here. The trees may be freed afterwards. */
focal_status foci_tokenizer_from_json(focal_ctx *ctx, const char *what,
                                      const foci_json *tokenizer_json,
                                      const foci_json *tokenizer_config, focal_tokenizer **out);

/* From the keys tokenizer.ggml.* of a file, which may be closed afterwards. */
focal_status foci_tokenizer_from_gguf(focal_ctx *ctx, foci_gguf *gguf, focal_tokenizer **out);

/* What tokenizer.ggml.* hold, for who has it from elsewhere. Texts are borrowed for the call. */
typedef struct foci_vocab_source {
    const char *what;        /* names it in messages */
    foci_text model, pre;    /* pre without data: "default" */
    const foci_text *tokens; /* (token_count) */
    const float *scores;     /* (token_count), or NULL */
    const int64_t *types;    /* (token_count), or NULL: all normal */
    const foci_text *merges; /* (merge_count) "left right" */
    int64_t token_count, merge_count;
    bool may_lack_merges;                   /* no merge is no fault: it was made of little text */
    int64_t bos, eos, eot, unk, pad;        /* -1: none */
    int add_bos, add_eos, add_space_prefix; /* 0, 1, or -1: as the model kind has it */
} foci_vocab_source;
/* What a file holds, borrowed from it. FOCAL_EFORMAT on wrong types and on lists that do not belong
 * together, FOCAL_EUNSUPPORTED on what changes ids and is not done here. */
focal_status foci_vocab_source_of_gguf(focal_ctx *ctx, foci_gguf *gguf, foci_vocab_source *out);
focal_status foci_tokenizer_from_source(focal_ctx *ctx, const foci_vocab_source *source,
                                        focal_tokenizer **out);

/* For the loaders: an empty tokenizer, and what is left to do when all is filled in. */
focal_status foci_tokenizer_new(focal_ctx *ctx, focal_tokenizer **out);
void foci_tokenizer_finish(focal_tokenizer *tokenizer);

/* Remembers the file that it came from, for foci_tokenizer_write_folder(). FOCAL_ENOMEM. */
focal_status foci_tokenizer_set_origin(focal_tokenizer *tokenizer, const char *path, bool is_gguf);

/* One more token that ends a text; a negative one is none. False when there are FOCI_ENDS. */
bool foci_tokenizer_add_end(focal_tokenizer *tokenizer, int32_t id);

/* Appends text as valid UTF-8, with U+FFFD for what is none. A character that is cut off at the end
 * stays out: *left says how many bytes it has there. */
focal_status foci_repair(focal_ctx *ctx, const char *text, size_t bytes, focal_buffer *out,
                         size_t *left);

#endif /* FOCI_TEXT_TOKENIZER_H */
