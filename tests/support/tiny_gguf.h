/* A whole model in 4 KB of GGUF, with one thing changed: for tests of what a file may say. */
#ifndef FOCAL_TESTS_TINY_GGUF_H
#define FOCAL_TESTS_TINY_GGUF_H

#include "support/gguf_sample.h"

/* Types of keys, as the format numbers them. */
enum { KEY_U32 = 4, KEY_I32 = 5, KEY_F32 = 6, KEY_BOOL = 7, KEY_TEXT = 8, KEY_U64 = 10 };

/* What a file has instead of what it should have. All zero changes nothing. */
typedef struct tiny_edit {
    /* A key, changed where the model has it and else added. */
    const char *key;
    uint32_t type;    /* KEY_... */
    uint64_t value;   /* its bits */
    const char *text; /* of KEY_TEXT */
    bool is_dropped;  /* the key, or the tensor, is not there */
    /* A tensor, changed where the model has it and else added. */
    const char *tensor;
    uint64_t columns, rows; /* 0: as it should be; rows 1: one dimension */
    uint32_t tensor_type;   /* of the format: 0 is f32, 1 is f16 */
    float first;            /* of its numbers, when it is not 0 */
    const char *renamed;    /* what it is called instead */
} tiny_edit;

/* A model of one layer, 8 wide, 2 heads over 1 of 4, 8 tokens, 8 hidden, context 32; of a family
 * that llama.cpp knows by this name: "llama" or "gpt2". */
void tiny_gguf(gguf_bytes *b, const char *family, const tiny_edit *edit);

/* The bits of a float, for KEY_F32. */
uint64_t bits_of(float value);

#endif /* FOCAL_TESTS_TINY_GGUF_H */
