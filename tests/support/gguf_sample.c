/* The samples, field by field in the order of the format. */
#include "support/gguf_sample.h"

#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types of values in the format. */
enum { U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 };

void put_raw(gguf_bytes *b, const void *data, size_t bytes)
{
    assert_true(bytes <= SAMPLE_BYTES - b->count);
    if (bytes > 0) memcpy(b->data + b->count, data, bytes);
    b->count += bytes;
}

void put_number(gguf_bytes *b, uint64_t value, size_t bytes)
{
    for (size_t n = 0; n < bytes; n++) {
        const uint8_t byte = (uint8_t)(value >> 8 * n);
        put_raw(b, &byte, 1);
    }
}

void set_number(gguf_bytes *b, size_t at, uint64_t value, size_t bytes)
{
    for (size_t n = 0; n < bytes; n++) b->data[at + n] = (uint8_t)(value >> 8 * n);
}

void put_string(gguf_bytes *b, const char *text)
{
    put_number(b, strlen(text), 8);
    put_raw(b, text, strlen(text));
}

void put_header(gguf_bytes *b, uint64_t tensors, uint64_t keys)
{
    put_raw(b, "GGUF", 4);
    put_number(b, 3, 4);
    put_number(b, tensors, 8);
    put_number(b, keys, 8);
}

void put_padding(gguf_bytes *b, size_t alignment)
{
    while (b->count % alignment != 0) put_number(b, 0, 1);
}

void put_number_key(gguf_bytes *b, const char *key, uint32_t type, uint64_t value)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    put_string(b, key);
    put_number(b, type, 4);
    put_number(b, value, bytes[type]);
}

void put_text_key(gguf_bytes *b, const char *key, const char *value)
{
    put_string(b, key);
    put_number(b, STRING, 4);
    put_string(b, value);
}

static void put_array_key(gguf_bytes *b, const char *key, uint32_t element, uint64_t count)
{
    put_string(b, key);
    put_number(b, ARRAY, 4);
    put_number(b, element, 4);
    put_number(b, count, 8);
}

static uint64_t float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t double_bits(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static void put_scalar_keys(gguf_bytes *b)
{
    b->place[AT_KEY_LENGTH] = b->count;
    b->place[AT_KEY_NAME] = b->count + 8;
    b->place[AT_KEY_TYPE] = b->count + 8 + strlen("a.u8");
    put_number_key(b, "a.u8", U8, 200);
    put_number_key(b, "a.i8", I8, (uint64_t)-100);
    put_number_key(b, "a.u16", U16, 60000);
    put_number_key(b, "a.i16", I16, (uint64_t)-30000);
    put_number_key(b, "a.u32", U32, 4000000000U);
    put_number_key(b, "a.i32", I32, (uint64_t)-2000000000);
    put_number_key(b, "a.f32", F32, float_bits(0.5F));
    put_number_key(b, "a.bool", BOOL, 1);
    b->place[AT_BOOL] = b->count - 1;
    b->place[AT_TEXT_LENGTH] = b->count + 8 + strlen("a.text") + 4;
    put_text_key(b, "a.text", "some text");
    put_number_key(b, "a.u64", U64, UINT64_MAX);
    put_number_key(b, "a.i64", I64, (uint64_t)INT64_MIN);
    put_number_key(b, "a.f64", F64, double_bits(-0.25));
    put_number_key(b, "twin.a", U8, 1);
    b->place[AT_TWIN_NAME] = b->count + 8;
    put_number_key(b, "twin.b", U8, 2);
    put_number_key(b, "a.nan", F32, float_bits((float)NAN));
}

enum { SCALAR_KEYS = 15, ARRAY_KEYS = 9 };

static void put_array_keys(gguf_bytes *b)
{
    static const int values[] = {-3, 0, 7};
    put_array_key(b, "array.i32", I32, 3);
    b->place[AT_INTS_TYPE] = b->count - 12;
    b->place[AT_INTS_COUNT] = b->count - 8;
    for (size_t n = 0; n < 3; n++) put_number(b, (uint64_t)values[n], 4);
    put_array_key(b, "array.u8", U8, 2);
    put_number(b, 255 << 8 | 1, 2);
    put_array_key(b, "array.u64", U64, 2);
    put_number(b, 5, 8);
    put_number(b, (uint64_t)1 << 63, 8); /* beyond int64_t */
    put_array_key(b, "array.f32", F32, 2);
    put_number(b, float_bits(1.5F), 4);
    put_number(b, float_bits(-2.0F), 4);
    put_array_key(b, "array.f64", F64, 1);
    put_number(b, double_bits(0.125), 8);
    put_array_key(b, "array.bool", BOOL, 3);
    b->place[AT_BOOLS] = b->count;
    put_raw(b, "\1\0\1", 3);
    put_array_key(b, "array.text", STRING, 3);
    b->place[AT_TEXTS_COUNT] = b->count - 8;
    b->place[AT_TEXTS_LENGTH] = b->count;
    put_string(b, "one");
    put_string(b, "");
    put_number(b, 2, 8);
    put_raw(b, "\xFF\0", 2); /* neither UTF-8 nor without NUL: texts may be anything */
    put_array_key(b, "array.none", STRING, 0);
    b->place[AT_ALIGNMENT_TYPE] = b->count + 8 + strlen("general.alignment");
    put_number_key(b, "general.alignment", U32, 64);
    b->place[AT_ALIGNMENT] = b->count - 4;
}

/* dims in the order of the file. */
static void put_tensor(gguf_bytes *b, const char *name, uint64_t first, uint64_t second,
                       uint32_t type, uint64_t offset)
{
    put_string(b, name);
    put_number(b, second > 0 ? 2 : 1, 4);
    put_number(b, first, 8);
    if (second > 0) put_number(b, second, 8);
    put_number(b, type, 4);
    put_number(b, offset, 8);
}

void gguf_sample(gguf_bytes *b)
{
    *b = (gguf_bytes){.count = 0};
    b->place[AT_VERSION] = 4;
    b->place[AT_TENSOR_COUNT] = 8;
    b->place[AT_KEY_COUNT] = 16;
    put_header(b, 3, SCALAR_KEYS + ARRAY_KEYS);
    put_scalar_keys(b);
    put_array_keys(b);
    b->place[AT_TENSOR_LENGTH] = b->count;
    b->place[AT_TENSOR_NAME] = b->count + 8;
    b->place[AT_TENSOR_DIMS] = b->count + 8 + strlen("rows.f32");
    b->place[AT_TENSOR_SHAPE] = b->place[AT_TENSOR_DIMS] + 4;
    put_tensor(b, "rows.f32", 8, 3, 0, 0);
    b->place[AT_TENSOR_TYPE] = b->count - 12;
    b->place[AT_TENSOR_OFFSET] = b->count - 8;
    b->place[AT_BLOCKS_SHAPE] = b->count + 8 + strlen("rows.q4_0") + 4;
    put_tensor(b, "rows.q4_0", 64, 2, 2, 128); /* 96 bytes, padded */
    b->place[AT_BLOCKS_OFFSET] = b->count - 8;
    b->place[AT_LAST_NAME] = b->count + 8;
    put_tensor(b, "rows.f16", 5, 0, 1, 256); /* 72 bytes, padded */
    b->place[AT_LAST_OFFSET] = b->count - 8;
    put_padding(b, 64);
    b->place[AT_DATA] = b->count;
    for (int n = 0; n < 24; n++) put_number(b, float_bits((float)n), 4);
    put_padding(b, 64);
    for (uint64_t n = 0; n < 72; n++) put_number(b, n, 1);
    put_padding(b, 64);
    for (int n = 0; n < 5; n++) put_number(b, 0x3C00, 2);
    b->place[AT_DATA_END] = b->count;
    put_padding(b, 64);
    b->place[AT_END] = b->count;
}

void gguf_sample_part(gguf_bytes *b, const char *model, int no, int count, int tensors)
{
    *b = (gguf_bytes){.count = 0};
    char name[32];
    (void)snprintf(name, sizeof name, "part.%d", no);
    put_header(b, 1, 4);
    put_text_key(b, "general.name", model);
    put_number_key(b, "split.no", U16, (uint64_t)no);
    put_number_key(b, "split.count", U16, (uint64_t)count);
    put_number_key(b, "split.tensors.count", I32, (uint64_t)tensors);
    put_tensor(b, name, 4, 0, 0, 0);
    put_padding(b, 32);
    for (int n = 0; n < 4; n++) put_number(b, float_bits((float)no), 4);
    put_padding(b, 32);
}

foci_map exact_copy(const gguf_bytes *b, size_t bytes)
{
    /* At the alignment of the data, as a map would be. */
    uint8_t *data = NULL;
    assert_int_equal(posix_memalign((void **)&data, 64, bytes > 0 ? bytes : 1), 0);
    memcpy(data, b->data, bytes);
    return (foci_map){data, bytes};
}

void exact_free(foci_map *map)
{
    void *data = NULL;
    memcpy(&data, &map->data, sizeof data); /* the copy is ours, so const does not bind us */
    free(data);
    *map = (foci_map){NULL, 0};
}
