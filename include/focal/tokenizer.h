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

FOCAL_END_DECLS
#endif /* FOCAL_TOKENIZER_H */
