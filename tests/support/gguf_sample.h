/* GGUF files byte by byte, for tests of the reader: written without the library's writer, with the
 * place of every field noted, so that a test can break one field and no other. */
#ifndef FOCAL_TESTS_GGUF_SAMPLE_H
#define FOCAL_TESTS_GGUF_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "io/file.h"

enum { SAMPLE_BYTES = 8192 };

/* Where fields lie. Of a key or a tensor with letters, `_NAME` is the first of them. */
typedef enum gguf_place {
    AT_MAGIC,
    AT_VERSION,
    AT_TENSOR_COUNT,
    AT_KEY_COUNT,
    AT_KEY_LENGTH, /* of the first key, "a.u8" */
    AT_KEY_NAME,
    AT_KEY_TYPE,
    AT_TWIN_NAME,    /* of "twin.b", one letter from "twin.a" */
    AT_BOOL,         /* the value of "a.bool" */
    AT_TEXT_LENGTH,  /* of the value of "a.text" */
    AT_INTS_TYPE,    /* element type of "array.i32" */
    AT_INTS_COUNT,   /* its count */
    AT_BOOLS,        /* the first of "array.bool" */
    AT_TEXTS_COUNT,  /* of "array.text" */
    AT_TEXTS_LENGTH, /* of its first string */
    AT_ALIGNMENT_TYPE,
    AT_ALIGNMENT,
    AT_TENSOR_LENGTH, /* of the first tensor's name, "rows.f32" */
    AT_TENSOR_NAME,
    AT_TENSOR_DIMS,
    AT_TENSOR_SHAPE, /* the first dimension */
    AT_TENSOR_TYPE,
    AT_TENSOR_OFFSET,
    AT_BLOCKS_SHAPE, /* of the second tensor, "rows.q4_0" */
    AT_BLOCKS_OFFSET,
    AT_LAST_NAME, /* of the last tensor, "rows.f16" */
    AT_LAST_OFFSET,
    AT_DATA,
    AT_DATA_END, /* of the last tensor: only padding follows */
    AT_END,
    PLACES
} gguf_place;

typedef struct gguf_bytes {
    uint8_t data[SAMPLE_BYTES];
    size_t count;
    size_t place[PLACES];
} gguf_bytes;

/* The parts that every file is made of. */
void put_raw(gguf_bytes *b, const void *data, size_t bytes);
void put_number(gguf_bytes *b, uint64_t value, size_t bytes); /* little endian */
void put_string(gguf_bytes *b, const char *text);
void put_header(gguf_bytes *b, uint64_t tensors, uint64_t keys);
void put_padding(gguf_bytes *b, size_t alignment);
void put_number_key(gguf_bytes *b, const char *key, uint32_t type, uint64_t value);
void put_text_key(gguf_bytes *b, const char *key, const char *value);

/* A model with a key of every type, an alignment of 64, and tensors
 *   rows.f32   (3,8)   f32   value n at n
 *   rows.q4_0  (2,64)  q4_0  byte n is n
 *   rows.f16   (5)     f16   all 0x3C00 */
void gguf_sample(gguf_bytes *b);

/* Part no of count of a model of `tensors` tensors; it holds one, "part.NO", f32 (4), all NO. Every
 * part has the model's name, which a real file has in the first only. */
void gguf_sample_part(gguf_bytes *b, const char *model, int no, int count, int tensors);

/* Changes `bytes` bytes at a place. */
void set_number(gguf_bytes *b, size_t at, uint64_t value, size_t bytes);

/* A copy of exactly as many bytes, so that ASan sees the first one too many; free it. */
foci_map exact_copy(const gguf_bytes *b, size_t bytes);
void exact_free(foci_map *map);

#endif /* FOCAL_TESTS_GGUF_SAMPLE_H */
