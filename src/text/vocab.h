/* The tokens of a tokenizer: bytes, kind and score by id, and the id by bytes. Both loaders fill an
 * array of entries, and here it is checked and laid out. */
#ifndef FOCI_TEXT_VOCAB_H
#define FOCI_TEXT_VOCAB_H

#include "focal/tokenizer.h"

enum {
    FOCI_VOCAB_MOST = 1 << 22,   /* tokens; the largest vocabularies have a few hundred thousand */
    FOCI_TOKEN_BYTES_MOST = 4096 /* real ones stay below a few hundred */
};

typedef struct foci_vocab_entry {
    const char *text; /* borrowed; NULL is a hole between ids */
    size_t bytes;
    double score;
    focal_token_kind kind;
} foci_vocab_entry;

/* The mark says no without a look at the token. */
typedef struct foci_vocab_slot {
    int32_t id; /* -1: free */
    uint32_t mark;
} foci_vocab_slot;

typedef struct foci_vocab {
    focal_ctx *ctx;
    int32_t size;
    int32_t longest;       /* bytes of the longest token */
    uint32_t *begin;       /* (size + 1) where a token's bytes begin */
    char *bytes;           /* all tokens' bytes, in the order of ids */
    uint8_t *kind;         /* (size) focal_token_kind */
    double *score;         /* (size) */
    int32_t byte_id[256];  /* the token of one byte: byte-level, or <0x00> to <0xFF>; -1: none */
    foci_vocab_slot *slot; /* open addressing by the bytes */
    uint32_t slot_mask;
} foci_vocab;

/* Byte-level vocabularies write every byte as a printable character; is_byte_level turns normal
 * tokens back into bytes. `what` names the file in messages: FOCAL_EFORMAT on too many, too long,
 * or equal tokens, and on scores that are not numbers. */
focal_status foci_vocab_new(focal_ctx *ctx, const char *what, const foci_vocab_entry *entries,
                            int64_t count, bool is_byte_level, foci_vocab **out);
void foci_vocab_free(foci_vocab *vocab); /* NULL is fine */

static inline const char *foci_vocab_text(const foci_vocab *vocab, int32_t id, size_t *bytes)
{
    *bytes = vocab->begin[id + 1] - vocab->begin[id];
    return vocab->bytes + vocab->begin[id];
}

/* The token with these bytes that plain text may become (normal ones and the user's), or -1. */
int32_t foci_vocab_find(const foci_vocab *vocab, const char *text, size_t bytes);
/* The same among all kinds; those that text may become come first. */
int32_t foci_vocab_find_any(const foci_vocab *vocab, const char *text, size_t bytes);

/* Byte-level text back to bytes: writes at most `bytes` to out and returns how many, or SIZE_MAX
 * when a character stands for no byte. out may be text. */
size_t foci_bytes_of_level(const char *text, size_t bytes, char *out);

/* The byte that a token named <0x0A> stands for, or -1. */
int foci_byte_of_name(const char *text, size_t bytes);

#endif /* FOCI_TEXT_VOCAB_H */
