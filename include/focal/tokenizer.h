/* Text to token ids and back, with the ids that the model's own tokenizer gives.
 *
 * A tokenizer does not change once it is made, so any number of threads may use one, each with a
 * context of its own. Text is bytes, meant to be UTF-8; any bytes are accepted, and what is not
 * UTF-8 passes as single bytes where the vocabulary has them, else as its unknown token or U+FFFD.
 */
#ifndef FOCAL_TOKENIZER_H
#define FOCAL_TOKENIZER_H

#include "focal/base.h"

FOCAL_BEGIN_DECLS

typedef struct focal_tokenizer focal_tokenizer;

/* From a file tokenizer.json; what tokenizer_config.json beside it says of special tokens counts
 * too. FOCAL_EIO, FOCAL_EFORMAT or FOCAL_EUNSUPPORTED with a sentence; *tokenizer is then NULL. */
FOCAL_API focal_status focal_tokenizer_open(focal_ctx *ctx, const char *path,
                                            focal_tokenizer **tokenizer);
/* The context that it was made with must still be open. */
FOCAL_API void focal_tokenizer_free(focal_tokenizer *tokenizer); /* NULL is fine */

/* Lists that grow. All zero is an empty one; its memory belongs to the context of the calls that
 * append to it, always the same one, and free makes it empty again. */
typedef struct focal_ids {
    int32_t *ids;
    int64_t count, capacity;
} focal_ids;
typedef struct focal_buffer {
    char *data; /* not NUL-terminated */
    size_t bytes, capacity;
} focal_buffer;
FOCAL_API void focal_ids_free(focal_ctx *ctx, focal_ids *list);
FOCAL_API void focal_buffer_free(focal_ctx *ctx, focal_buffer *buffer);

enum {
    FOCAL_ENCODE_ADD_SPECIAL = 1,  /* the begin and end tokens that the model expects, if any */
    FOCAL_ENCODE_PARSE_SPECIAL = 2 /* "<|im_end|>" becomes that token; else it is plain text */
};

/* Appends the ids of text. Fails with FOCAL_ENOMEM, or FOCAL_EINVAL when a pattern of the
 * tokenizer's file takes too much work on this text; the list is then as it was. Time and memory
 * grow with the text's length alone, whatever it contains. */
FOCAL_API focal_status focal_tokenizer_encode(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                              const char *text, size_t bytes, unsigned flags,
                                              focal_ids *out);

/* How many bytes of the text encode leaves out: some byte-level vocabularies lack control
 * characters and parts of rare ones, and the models' own tokenizers pass over those. 0 for other
 * kinds. */
FOCAL_API int64_t focal_tokenizer_lost(const focal_tokenizer *tokenizer, const char *text,
                                       size_t bytes);

enum {
    FOCAL_DECODE_SKIP_SPECIAL = 1 /* leave out control tokens; else their names appear */
};

/* Appends the text of ids: exactly the bytes they stand for, which need not be whole characters.
 * FOCAL_EINVAL when an id is outside the vocabulary; the buffer is then as it was. */
FOCAL_API focal_status focal_tokenizer_decode(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                              const int32_t *ids, int64_t count, unsigned flags,
                                              focal_buffer *out);

/* The same, an id at a time, for showing text while it is made: only whole characters come out,
 * and bytes that cannot become one as U+FFFD. All zero is the beginning of a text. */
typedef struct focal_text_stream {
    unsigned flags; /* of decode */
    bool has_begun;
    int32_t strip_left; /* leading spaces that are still to be dropped */
    int32_t held_count;
    uint8_t held[4]; /* the beginning of a character */
} focal_text_stream;

FOCAL_API focal_status focal_text_stream_push(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                              focal_text_stream *stream, int32_t id,
                                              focal_buffer *out);
/* Appends U+FFFD for a character that stayed incomplete; the stream may begin again. */
FOCAL_API focal_status focal_text_stream_end(focal_ctx *ctx, focal_text_stream *stream,
                                             focal_buffer *out);

/* The numbers are GGUF's. */
typedef enum focal_token_kind {
    FOCAL_TOKEN_NORMAL = 1,
    FOCAL_TOKEN_UNKNOWN = 2, /* stands for what the vocabulary lacks */
    FOCAL_TOKEN_CONTROL = 3, /* begin, end, roles: never made from text unless asked */
    FOCAL_TOKEN_USER = 4,    /* a text that is always one token */
    FOCAL_TOKEN_UNUSED = 5,
    FOCAL_TOKEN_BYTE = 6 /* one byte, where no other token has the character */
} focal_token_kind;

/* A token as the vocabulary holds it: byte-level ones are the bytes they stand for, others may have
 * U+2581 for a space, and byte tokens read <0x0A>. bytes is borrowed from the tokenizer. */
typedef struct focal_token {
    const char *bytes;
    size_t byte_count;
    focal_token_kind kind;
} focal_token;

FOCAL_API int32_t focal_tokenizer_size(const focal_tokenizer *tokenizer); /* ids are below it */
/* An id outside the vocabulary gives no bytes and FOCAL_TOKEN_UNUSED. */
FOCAL_API focal_token focal_tokenizer_token(const focal_tokenizer *tokenizer, int32_t id);
/* The id of the token with these bytes, -1 when there is none. */
FOCAL_API int32_t focal_tokenizer_find(const focal_tokenizer *tokenizer, const char *bytes,
                                       size_t byte_count);

/* Ids with a meaning; -1 for those that the model does not have. */
typedef struct focal_special_ids {
    int32_t bos, eos, eot, unk, pad; /* eot ends a turn of a conversation; it may be eos */
    bool add_bos, add_eos;           /* what FOCAL_ENCODE_ADD_SPECIAL puts around a text */
} focal_special_ids;
FOCAL_API focal_special_ids focal_tokenizer_special(const focal_tokenizer *tokenizer);
/* True when generation ends with this id: eos, eot, and others known to end a text. */
FOCAL_API bool focal_tokenizer_is_end(const focal_tokenizer *tokenizer, int32_t id);

/* The token that stands between documents: <|endoftext|> or what the model calls it, else eos; -1
 * when there is none. */
FOCAL_API int32_t focal_tokenizer_document_end(const focal_tokenizer *tokenizer);

/* Making a tokenizer from text: byte-level BPE, as GPT-2 has it. Texts are counted as they come,
 * in memory that is bounded whatever they hold, and save makes the vocabulary. The same texts in
 * the same order give the same tokenizer at any number of threads.
 *
 * The ids are those that Hugging Face's BpeTrainer gives: special tokens from 0 on, then the bytes
 * in the order of their characters, then what pairs join to; the most frequent pair first, of equal
 * ones the one with the lower left id, then right id. */
typedef struct focal_tokenizer_trainer focal_tokenizer_trainer;

enum { FOCAL_VOCAB_LEAST = 257, FOCAL_VOCAB_DEFAULT = 16384, FOCAL_VOCAB_MOST = 1 << 20 };

/* All zero is the default. */
typedef struct focal_tokenizer_trainer_options {
    int32_t vocab;     /* tokens in all, special ones and bytes included; 0: FOCAL_VOCAB_DEFAULT */
    int64_t min_count; /* of a pair that is joined; 0: 2 */
    const char
        *pre; /* how text is split into words, by GGUF's name: "qwen2" (NULL), "gpt-2", ... */
    const char *const *specials; /* (special_count), borrowed until new returns */
    int32_t special_count;       /* 0: one, <|endoftext|> */
    bool (*on_merge)(void *user, int64_t done, int64_t total); /* false ends save; may be NULL */
    void *user;
} focal_tokenizer_trainer_options;

FOCAL_API focal_status focal_tokenizer_trainer_new(focal_ctx *ctx,
                                                   const focal_tokenizer_trainer_options *options,
                                                   focal_tokenizer_trainer **trainer);
FOCAL_API void focal_tokenizer_trainer_free(focal_tokenizer_trainer *trainer); /* NULL is fine */

/* Text in pieces of any size, cut anywhere; end ends a document. Words of more than 1,024 bytes are
 * left out. When more than 8 million different words have come, the rarest are forgotten: those
 * seen once, the next time those seen at most twice, and so on. */
FOCAL_API focal_status focal_tokenizer_trainer_add(focal_tokenizer_trainer *trainer,
                                                   const char *text, size_t bytes);
FOCAL_API focal_status focal_tokenizer_trainer_end(focal_tokenizer_trainer *trainer);

typedef struct focal_tokenizer_trainer_result {
    int32_t vocab; /* fewer than asked for when no pair is frequent enough any more */
    int64_t merge_count;
    int64_t word_count, distinct_words;  /* of the text; distinct as counted at the end */
    int64_t long_words, forgotten_words; /* left out; forgotten as different words */
} focal_tokenizer_trainer_result;

/* Joins pairs and writes tokenizer.json, which appears whole or not at all; once a trainer, the end
 * of the last document included. result may be NULL. FOCAL_EINVAL when there was no text or
 * on_merge ended it, FOCAL_EIO when it cannot be written. */
FOCAL_API focal_status focal_tokenizer_trainer_save(focal_tokenizer_trainer *trainer,
                                                    const char *path,
                                                    focal_tokenizer_trainer_result *result);

FOCAL_END_DECLS
#endif /* FOCAL_TOKENIZER_H */
