/* Reading safetensors: files of others, every class of bad file with the sentence it gets, files in
 * shards, truncation at every byte, and memory that runs out. */
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "io/safetensors.h"
#include "support/folder.h"

static void write_text(const folder *f, const char *name, const char *text)
{
    write_bytes(folder_file(f, name), text, strlen(text));
}

/* A file in memory: the length, the header, then data_bytes of data (0, 1, 2, ...). */
typedef struct image {
    uint8_t *data;
    size_t header_bytes, bytes;
} image;

/* The header is filled up with spaces to a multiple of `alignment`. */
static image make_aligned(const char *header, size_t data_bytes, size_t alignment)
{
    const size_t length = (strlen(header) + alignment - 1) / alignment * alignment;
    image file = {.header_bytes = length, .bytes = 8 + length + data_bytes};
    file.data = new_array(file.bytes, 1);
    for (int n = 0; n < 8; n++) file.data[n] = (uint8_t)((uint64_t)length >> (8 * n));
    memset(file.data + 8, ' ', length);
    memcpy(file.data + 8, header, strlen(header));
    for (size_t n = 0; n < data_bytes; n++) file.data[8 + length + n] = (uint8_t)n;
    return file;
}

static image make_image(const char *header, size_t data_bytes)
{
    return make_aligned(header, data_bytes, 8);
}

/* Opens a copy in a block of its own size, so that ASan sees the first byte too many. */
static focal_status try_bytes(focal_ctx *ctx, const void *data, size_t bytes)
{
    void *exact = malloc(bytes > 0 ? bytes : 1);
    assert_non_null(exact);
    memcpy(exact, data, bytes);
    foci_safetensors *st = NULL;
    const focal_status status = foci_safetensors_parse(ctx, "m.safetensors", exact, bytes, &st);
    assert_int_equal(status == FOCAL_OK, st != NULL);
    foci_safetensors_close(st);
    free(exact);
    return status;
}

static void assert_refused(focal_ctx *ctx, focal_status status, const char *part)
{
    assert_status(ctx, status, FOCAL_EFORMAT);
    if (!strstr(focal_ctx_error(ctx), part))
        fail_msg("'%s' has no '%s'", focal_ctx_error(ctx), part);
}

static void tensors_have_their_types_and_places(void **state)
{
    focal_ctx *ctx = *state;
    static const char header[] =
        "{\"__metadata__\":{\"format\":\"pt\",\"note\":\"\\n\"},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"a\":{\"dtype\":\"BF16\",\"shape\":[1,1,2,2],\"data_offsets\":[32,40]},"
        "\"count\":{\"data_offsets\":[24,32],\"shape\":[],\"dtype\":\"I64\"},"
        "\"c\":{\"dtype\":\"F16\",\"shape\":[],\"data_offsets\":[40,42]}}";
    image file = make_image(header, 42);
    foci_safetensors *st = NULL;
    assert_status(ctx, foci_safetensors_parse(ctx, "m", file.data, file.bytes, &st), FOCAL_OK);
    assert_string_equal(foci_safetensors_path(st), "m");
    assert_int_equal(foci_safetensors_tensor_count(st), 3);
    static const struct {
        foci_tensor tensor;
        size_t begin;
    } expected[] = {
        {{.name = "b", .dtype = FOCAL_F32, .dims = 2, .shape = {2, 3, 1, 1}, .bytes = 24}, 0},
        {{.name = "a", .dtype = FOCAL_BF16, .dims = 4, .shape = {1, 1, 2, 2}, .bytes = 8}, 32},
        {{.name = "c", .dtype = FOCAL_F16, .dims = 1, .shape = {1, 1, 1, 1}, .bytes = 2}, 40},
    };
    for (int64_t n = 0; n < 3; n++) {
        const foci_tensor *got = foci_safetensors_tensor_at(st, n), *want = &expected[n].tensor;
        assert_string_equal(got->name, want->name);
        assert_int_equal(got->dtype, want->dtype);
        assert_int_equal(got->dims, want->dims);
        assert_memory_equal(got->shape, want->shape, sizeof want->shape);
        assert_int_equal(got->bytes, want->bytes);
        assert_ptr_equal(got->data, file.data + 8 + file.header_bytes + expected[n].begin);
        assert_ptr_equal(foci_safetensors_tensor(st, want->name), got);
    }
    assert_null(foci_safetensors_tensor(st, "d"));
    assert_null(foci_safetensors_tensor(st, ""));
    assert_null(foci_safetensors_tensor(st, "__metadata__"));
    assert_null(foci_safetensors_tensor(st, "count"));
    assert_int_equal(foci_safetensors_other_count(st), 1);
    assert_string_equal(foci_safetensors_other_at(st, 0).name, "count");
    assert_string_equal(foci_safetensors_other_at(st, 0).type, "I64");
    foci_safetensors_close(st);
    foci_safetensors_close(NULL);
    free(file.data);
}

static void every_type_has_its_size(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *type;
        size_t bytes; /* of eight elements */
    } types[] = {
        {"F32", 32},        {"F16", 16},        {"BF16", 16},   {"F64", 64},    {"I64", 64},
        {"U64", 64},        {"C64", 64},        {"I32", 32},    {"U32", 32},    {"I16", 16},
        {"U16", 16},        {"I8", 8},          {"U8", 8},      {"BOOL", 8},    {"F8_E4M3", 8},
        {"F8_E5M2", 8},     {"F8_E8M0", 8},     {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4},
        {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8},
    };
    for (size_t n = 0; n < FOCAL_COUNT(types); n++) {
        for (size_t more = 0; more <= 2; more++) { /* one byte less and one more must fail */
            const size_t bytes = types[n].bytes - 1 + more;
            char header[128];
            (void)snprintf(header, sizeof header,
                           "{\"x\":{\"dtype\":\"%s\",\"shape\":[2,4],\"data_offsets\":[0,%zu]}}",
                           types[n].type, bytes);
            image file = make_image(header, bytes);
            foci_safetensors *st = NULL;
            const focal_status status =
                foci_safetensors_parse(ctx, "m", file.data, file.bytes, &st);
            if (more == 1) {
                assert_status(ctx, status, FOCAL_OK);
                assert_int_equal(foci_safetensors_tensor_count(st), n < 3);
                assert_int_equal(foci_safetensors_other_count(st), n >= 3);
            } else {
                assert_refused(ctx, status, "its shape and type need");
            }
            foci_safetensors_close(st);
            free(file.data);
        }
    }
}

/* x is a whole float32 tensor of 4 bytes; rows change one thing. */
#define X "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}"
#define OF(type, shape, offsets)                                                                   \
    "{\"x\":{\"dtype\":" type ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define NAMED(name, offsets)                                                                       \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":" offsets "}"

static const struct bad_file {
    const char *header;
    size_t data_bytes;
    const char *part; /* of the sentence */
} bad_files[] = {
    /* not a header */
    {"", 4, "line 1"},
    {"[]", 0, "the header must be an object"},
    {"null", 0, "the header must be an object"},
    {"{" X "} {}", 4, "end of file expected"},
    {"{" X, 4, "line 1"},
    {"{\"x\xFF\":1}", 0, "decode byte"},
    /* metadata */
    {"{\"__metadata__\":[]," X "}", 4, "__metadata__ must be an object of strings"},
    {"{\"__metadata__\":{\"a\":1}," X "}", 4, "__metadata__ must be an object of strings"},
    {"{\"__metadata__\":{\"a\":{\"b\":\"c\"}}," X "}", 4, "__metadata__ must be an object"},
    /* duplicate names */
    {"{" X "," X "}", 4, "duplicate"},
    {"{" NAMED("a", "[0,8]") "," NAMED("\\u0061", "[8,16]") "}", 16, "duplicate"},
    /* names */
    {"{\"\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a name has 0 bytes"},
    {"{" NAMED("a\\nb", "[0,8]") "}", 8, "a name has a control character"},
    {"{" NAMED("a\\u001b[0m", "[0,8]") "}", 8, "a name has a control character"},
    {"{" NAMED("a\\u0000", "[0,8]") "}", 8, "NUL"},
    /* wrong types */
    {"{\"x\":[]}", 0, "tensor 'x' must be an object"},
    {"{\"x\":{}}", 0, "tensor 'x': dtype must be a string"},
    {OF("7", "[1]", "[0,4]"), 4, "tensor 'x': dtype must be a string"},
    {OF("\"F33\"", "[1]", "[0,4]"), 4, "tensor 'x': dtype 'F33' is not known"},
    {OF("\"f32\"", "[1]", "[0,4]"), 4, "tensor 'x': dtype 'f32' is not known"},
    {OF("\"F32\\u0000\"", "[1]", "[0,4]"), 4, "tensor 'x': dtype '?' is not known"},
    {OF("\"\\n\"", "[1]", "[0,4]"), 4, "tensor 'x': dtype '?' is not known"},
    {OF("\"F32\"", "1", "[0,4]"), 4, "tensor 'x': shape must be an array"},
    {OF("\"F32\"", "null", "[0,4]"), 4, "tensor 'x': shape must be an array"},
    {OF("\"F32\"", "{\"0\":1}", "[0,4]"), 4, "tensor 'x': shape must be an array"},
    {OF("\"F32\"", "[\"1\"]", "[0,4]"), 4, "dimension 0 must be a whole number"},
    {OF("\"F32\"", "[1.0]", "[0,4]"), 4, "dimension 0 must be a whole number"},
    {OF("\"F32\"", "[1]", "4"), 4, "data_offsets must be two ascending whole numbers"},
    {OF("\"F32\"", "[1]", "[4]"), 4, "data_offsets must be two ascending whole numbers"},
    {OF("\"F32\"", "[1]", "[0,4,8]"), 4, "data_offsets must be two ascending whole numbers"},
    {OF("\"F32\"", "[1]", "[0,4.0]"), 4, "data_offsets must be two ascending whole numbers"},
    {OF("\"F32\"", "[1]", "{\"a\":0,\"b\":4}"), 4, "data_offsets must be two ascending"},
    {"{\"x\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets must be two ascending"},
    /* shapes */
    {OF("\"F32\"", "[0]", "[0,0]"), 0, "dimension 0 must be a whole number of at least 1"},
    {OF("\"F32\"", "[4,0]", "[0,0]"), 0, "dimension 1 must be a whole number of at least 1"},
    {OF("\"F32\"", "[-1]", "[0,4]"), 4, "dimension 0 must be a whole number of at least 1"},
    {OF("\"I64\"", "[0]", "[0,0]"), 0, "dimension 0 must be a whole number of at least 1"},
    {OF("\"F32\"", "[1,1,1,1,1]", "[0,4]"), 4, "has 5 dimensions, at most 4 are read"},
    {OF("\"F4\"", "[3]", "[0,1]"), 1, "has 12 bits, not whole bytes"},
    /* counts times sizes that overflow */
    {OF("\"F32\"", "[4611686018427387904]", "[0,0]"), 0, "multiply to more than fits"},
    {OF("\"F32\"", "[4294967296,4294967296]", "[0,4]"), 4, "multiply to more than fits"},
    {OF("\"F32\"", "[65536,65536,65536,65536]", "[0,4]"), 4, "multiply to more than fits"},
    {OF("\"F32\"", "[9223372036854775807,9223372036854775807,2,2]", "[0,4]"), 4, "multiply"},
    {OF("\"F32\"", "[9223372036854775808]", "[0,4]"), 4, "too big integer"},
    /* offsets past the end */
    {OF("\"F32\"", "[1]", "[0,4]"), 3, "tensor 'x' ends at byte 4 of the data, the file has 3"},
    {OF("\"F32\"", "[1]", "[4,8]"), 4, "tensor 'x' ends at byte 8 of the data, the file has 4"},
    {OF("\"F32\"", "[1]", "[9223372036854775803,9223372036854775807]"), 4, "ends at byte 92233"},
    {OF("\"F32\"", "[1]", "[-4,0]"), 4, "data_offsets must be two ascending whole numbers"},
    {OF("\"F32\"", "[1]", "[4,0]"), 4, "data_offsets must be two ascending whole numbers"},
    /* sizes that do not agree */
    {OF("\"F32\"", "[1]", "[0,8]"), 8, "tensor 'x' has 8 bytes, its shape and type need 4"},
    {OF("\"F16\"", "[1]", "[0,4]"), 4, "tensor 'x' has 4 bytes, its shape and type need 2"},
    {OF("\"F32\"", "[2147483648]", "[0,4]"), 4, "has 4 bytes, its shape and type need 8589934592"},
    /* bad alignment */
    {"{\"h\":{\"dtype\":\"F16\",\"shape\":[1],\"data_offsets\":[0,2]},"
     "\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[2,6]}}",
     6, "tensor 'x' begins at byte 122 of the file, no multiple of 4"},
    /* overlaps */
    {"{" NAMED("a", "[0,8]") "," NAMED("b", "[4,12]") "}", 12, "'a' and 'b' overlap at byte 4"},
    {"{" NAMED("b", "[0,8]") "," NAMED("a", "[0,8]") "}", 8, "overlap at byte 0"},
    /* holes */
    {"{" NAMED("a", "[4,12]") "}", 12, "a hole of 4 bytes stands before tensor 'a'"},
    {"{" NAMED("a", "[0,8]") "," NAMED("b", "[12,20]") "}", 20, "a hole of 4 bytes stands before"},
    {"{" NAMED("a", "[0,8]") "}", 12, "the tensors end at byte 8 of the data, the file has 12"},
    {"{}", 1, "the tensors end at byte 0 of the data, the file has 1"},
};

static void bad_files_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(bad_files); n++) {
        image file = make_image(bad_files[n].header, bad_files[n].data_bytes);
        const focal_status status = try_bytes(ctx, file.data, file.bytes);
        free(file.data);
        if (status == FOCAL_OK) fail_msg("row %zu was taken: %s", n, bad_files[n].header);
        assert_refused(ctx, status, bad_files[n].part);
        assert_int_equal(strncmp(focal_ctx_error(ctx), "m.safetensors: ", 15), 0);
    }
}

static void bad_lengths_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    image file = make_image("{" X "}", 4);
    assert_int_equal(file.header_bytes, 56); /* 54 and spaces */
    static const struct {
        uint64_t length;
        const char *part;
    } lengths[] = {
        {0, "line 1"},
        {1, "line 1"},
        {53, "line 1"},
        {54, "tensor 'x' begins at byte 62 of the file, no multiple of 4"},
        {57, "end of file expected"},
        {60, "end of file expected"},
        {61, "a header of 61 bytes, at most 60 can be"},
        {100000001, "a header of 100000001 bytes, at most 60 can be"},
        {(uint64_t)1 << 63, "a header of 9223372036854775808 bytes"},
        {UINT64_MAX, "a header of 18446744073709551615 bytes"},
        {UINT64_MAX - 7, "a header of 18446744073709551608 bytes"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(lengths); n++) {
        for (int b = 0; b < 8; b++) file.data[b] = (uint8_t)(lengths[n].length >> (8 * b));
        assert_refused(ctx, try_bytes(ctx, file.data, file.bytes), lengths[n].part);
    }
    free(file.data);
}

static void long_headers_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    /* A file that could have it, most of it a hole. */
    const folder f = folder_new();
    const uint8_t length[8] = {0x01, 0xE1, 0xF5, 0x05}; /* 100,000,001 */
    FILE *file = fopen(folder_file(&f, "long.safetensors"), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(length, 1, 8, file), 8);
    assert_int_equal(fseek(file, 100000100, SEEK_SET), 0);
    assert_int_equal(fputc(0, file), 0);
    assert_int_equal(fclose(file), 0);
    foci_safetensors *st = NULL;
    assert_refused(ctx, foci_safetensors_open(ctx, folder_file(&f, "long.safetensors"), &st),
                   "a header of 100000001 bytes, at most 100000000 can be");
    folder_remove(&f);
}

/* Copies text without its NUL; the place behind it. */
static char *put(char *at, const char *text)
{
    for (; *text; text++) *at++ = *text;
    return at;
}

/* Refuses head, then unit until there are 100,000 bytes of it, then tail. */
static void assert_long_refused(focal_ctx *ctx, const char *head, const char *unit,
                                const char *tail, const char *part)
{
    enum { BYTES = 100000, ROOM = BYTES + 256 };
    char *text = new_array(ROOM, 1), *at = put(text, head);
    while (at < text + BYTES) at = put(at, unit);
    (void)put(at, tail);
    image file = make_image(text, 0);
    assert_refused(ctx, try_bytes(ctx, file.data, file.bytes), part);
    free(file.data);
    free(text);
}

/* What would be too much if it were believed. */
static void huge_structures_are_refused(void **state)
{
    assert_long_refused(*state, "", "[", "", "nested deeper than 512");
    assert_long_refused(*state, "{\"x\":", "{\"y\":", "", "nested deeper than 512");
    assert_long_refused(*state, "{\"", "n", "\":{}}", "it must have 1 to 256");
    assert_long_refused(*state, "{\"x\":{\"dtype\":\"", "d", "\"}}", "dtype '?' is not known");
    assert_long_refused(*state, "{\"x\":{\"dtype\":\"F32\",\"shape\":[1", ",1", "]}}",
                        "at most 4 are read");
    assert_long_refused(*state, "{\"x\":{\"dtype\":\"F32\",\"shape\":[1", "0", "]}}",
                        "too big integer");
}

static const char whole[] = "{\"__metadata__\":{\"format\":\"pt\"}," NAMED("a", "[0,8]") "," NAMED(
    "b", "[8,16]") ",\"c\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[16,24]}}";

static void every_truncation_is_refused(void **state)
{
    focal_ctx *ctx = *state;
    image file = make_image(whole, 24);
    foci_safetensors *st = NULL;
    for (size_t bytes = 0; bytes < file.bytes; bytes++)
        assert_status(ctx, try_bytes(ctx, file.data, bytes), FOCAL_EFORMAT);
    /* the header itself cut at every byte, with a length that says so */
    for (size_t length = 0; length < sizeof whole - 1; length++) {
        char cut[sizeof whole];
        memcpy(cut, whole, length);
        cut[length] = '\0';
        image part = make_aligned(cut, 24, 1);
        assert_status(ctx, try_bytes(ctx, part.data, part.bytes), FOCAL_EFORMAT);
        free(part.data);
    }
    assert_status(ctx, foci_safetensors_parse(ctx, "m", file.data, file.bytes, &st), FOCAL_OK);
    foci_safetensors_close(st);
    free(file.data);
}

static void files_that_cannot_be_read(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_safetensors *st = NULL;
    assert_status(ctx, foci_safetensors_open(ctx, folder_file(&f, "no.safetensors"), &st),
                  FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(ctx), "no.safetensors: No such file"));
    assert_status(ctx, foci_safetensors_open(ctx, f.path, &st), FOCAL_EFORMAT);
    write_text(&f, "empty.safetensors", "");
    assert_refused(ctx, foci_safetensors_open(ctx, folder_file(&f, "empty.safetensors"), &st),
                   "0 bytes, a safetensors file has at least 8");
    /* a file without tensors is a file */
    write_bytes(folder_file(&f, "none.safetensors"), "\2\0\0\0\0\0\0\0{}", 10);
    assert_status(ctx, foci_safetensors_open(ctx, folder_file(&f, "none.safetensors"), &st),
                  FOCAL_OK);
    assert_int_equal(foci_safetensors_tensor_count(st), 0);
    assert_null(foci_safetensors_tensor(st, "x"));
    foci_safetensors_close(st);
    folder_remove(&f);
}

/* Two shards, a and b in the first, c (and an integer n) in the second. */
static void write_shards(const folder *f)
{
    image one = make_image("{" NAMED("a", "[0,8]") "," NAMED("b", "[8,16]") "}", 16);
    write_bytes(folder_file(f, "one.safetensors"), one.data, one.bytes);
    image two = make_image(
        "{\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}," NAMED("c", "[8,16]") "}",
        16);
    write_bytes(folder_file(f, "two.safetensors"), two.data, two.bytes);
    free(one.data);
    free(two.data);
}

#define MAP(members) "{\"metadata\":{\"total_size\":32},\"weight_map\":{" members "}}"
#define GOOD_MAP                                                                                   \
    "\"c\":\"two.safetensors\",\"a\":\"one.safetensors\",\"b\":\"one.safetensors\","               \
    "\"n\":\"two.safetensors\""

static void shards_look_like_one_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_shards(&f);
    write_text(&f, "m.safetensors.index.json", MAP(GOOD_MAP));
    foci_safetensors *st = NULL;
    assert_status(ctx, foci_safetensors_open(ctx, folder_file(&f, "m.safetensors.index.json"), &st),
                  FOCAL_OK);
    static const char *const names[] = {"a", "b", "c"};
    assert_int_equal(foci_safetensors_tensor_count(st), 3);
    for (int64_t n = 0; n < 3; n++) {
        const foci_tensor *t = foci_safetensors_tensor_at(st, n);
        assert_string_equal(t->name, names[n]);
        assert_ptr_equal(foci_safetensors_tensor(st, names[n]), t);
        assert_int_equal(((const uint8_t *)t->data)[7], n == 0 ? 7 : 15);
    }
    assert_int_equal(foci_safetensors_other_count(st), 1);
    foci_safetensors_close(st);
    folder_remove(&f);
}

static void bad_indexes_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"", "line 1"},
        {"[]", "weight_map must be an object"},
        {"{}", "weight_map must be an object"},
        {"{\"weight_map\":[]}", "weight_map must be an object"},
        {MAP(""), "weight_map names 0 files, it must be 1 to 4096"},
        {MAP("\"a\":1"), "weight_map: a file name must be a string"},
        {MAP(GOOD_MAP ",\"a\":\"two.safetensors\""), "duplicate"},
        {MAP("\"a\":\"\""), "a name has 0 bytes"},
        {MAP("\"a\":\"../one.safetensors\""), "'../one.safetensors' is no name of a safetensors"},
        {MAP("\"a\":\"sub/one.safetensors\""), "is no name of a safetensors file in this folder"},
        {MAP("\"a\":\"/etc/one.safetensors\""), "is no name of a safetensors file in this folder"},
        {MAP("\"a\":\"..\""), "is no name of a safetensors file in this folder"},
        {MAP("\"a\":\".safetensors\""), "is no name of a safetensors file in this folder"},
        {MAP("\"a\":\"one.bin\""), "is no name of a safetensors file in this folder"},
        {MAP("\"a\":\"one.safetensors\\u0000\""), "a name has a control character"},
        {MAP("\"a\":\"one\\n.safetensors\""), "a name has a control character"},
        {MAP("\"a\\t\":\"one.safetensors\""), "a name has a control character"},
        {MAP("\"a\":\"three.safetensors\""), "three.safetensors: No such file"},
        {MAP(GOOD_MAP ",\"d\":\"one.safetensors\""), "tensor 'd' is not in one.safetensors"},
        {MAP("\"c\":\"one.safetensors\",\"a\":\"one.safetensors\",\"b\":\"two.safetensors\""),
         "tensor 'c' is not in one.safetensors"},
        {MAP("\"c\":\"two.safetensors\",\"a\":\"one.safetensors\",\"n\":\"two.safetensors\""),
         "tensor 'b' of "},
        {MAP("\"c\":\"two.safetensors\",\"a\":\"one.safetensors\",\"b\":\"one.safetensors\""),
         "tensor 'n' of "},
        {MAP("\"bad\":\"bad.safetensors\""), "bad.safetensors: 3 bytes, a safetensors file has"},
        {MAP(GOOD_MAP ",\"x\":\"again.safetensors\""), "tensor 'a' is in "},
    };
    const folder f = folder_new();
    write_shards(&f);
    write_text(&f, "bad.safetensors", "bad");
    image again = make_image("{" NAMED("a", "[0,8]") "}", 8);
    write_bytes(folder_file(&f, "again.safetensors"), again.data, again.bytes);
    free(again.data);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        write_text(&f, "i.index.json", rows[n].text);
        foci_safetensors *st = NULL;
        const focal_status status =
            foci_safetensors_open(ctx, folder_file(&f, "i.index.json"), &st);
        if (status != FOCAL_EFORMAT && status != FOCAL_EIO) fail_msg("row %zu was taken", n);
        assert_status(ctx, status, status);
        assert_null(st);
        if (!strstr(focal_ctx_error(ctx), rows[n].part))
            fail_msg("row %zu: '%s' has no '%s'", n, focal_ctx_error(ctx), rows[n].part);
    }
    folder_remove(&f);
}

static void too_many_shards_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    enum { MANY = 4097, ROOM = 40 };
    char *text = new_array((size_t)MANY * ROOM + 64, 1);
    size_t used = (size_t)sprintf(text, "{\"weight_map\":{");
    for (int n = 0; n < MANY; n++)
        used +=
            (size_t)snprintf(text + used, ROOM, "%s\"%d\":\"%d.safetensors\"", n ? "," : "", n, n);
    memcpy(text + used, "}}", 3);
    const folder f = folder_new();
    write_text(&f, "i.index.json", text);
    free(text);
    foci_safetensors *st = NULL;
    assert_refused(ctx, foci_safetensors_open(ctx, folder_file(&f, "i.index.json"), &st),
                   "weight_map names 4097 files, it must be 1 to 4096");
    folder_remove(&f);
}

/* How many maps of this process are files in the folder. */
static int count_maps(const folder *f)
{
    FILE *file = fopen("/proc/self/maps", "r");
    char line[1024];
    int count = 0;
    while (file && fgets(line, sizeof line, file)) count += strstr(line, f->path) != NULL;
    if (file) (void)fclose(file);
    return count;
}

static void maps_go_with_the_file(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    write_shards(&f);
    write_text(&f, "good.index.json", MAP(GOOD_MAP));
    write_text(&f, "bad.index.json", MAP(GOOD_MAP ",\"d\":\"one.safetensors\""));
    foci_safetensors *st = NULL;
    assert_status(ctx, foci_safetensors_open(ctx, folder_file(&f, "good.index.json"), &st),
                  FOCAL_OK);
    assert_int_equal(count_maps(&f), 2);
    foci_safetensors_close(st);
    assert_int_equal(count_maps(&f), 0);
    assert_status(ctx, foci_safetensors_open(ctx, folder_file(&f, "bad.index.json"), &st),
                  FOCAL_EFORMAT);
    assert_int_equal(count_maps(&f), 0);
    folder_remove(&f);
}

/* Opens path with the n-th request for memory failing, for every n until it succeeds. */
static void fail_each_request(focal_ctx *ctx, const char *path)
{
    for (int64_t n = 1;; n++) {
        assert_true(n < 1000);
        const int64_t live = memory_live_blocks();
        foci_safetensors *st = NULL;
        memory_fail(n, n % 2 == 0);
        const focal_status status = foci_safetensors_open(ctx, path, &st);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        if (!was_reached) {
            assert_status(ctx, status, FOCAL_OK);
            foci_safetensors_close(st);
            assert_true(n > 5);
            return;
        }
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_null(st);
        assert_int_equal(memory_live_blocks(), live);
    }
}

static void memory_may_run_out(void **state)
{
    const folder f = folder_new();
    write_shards(&f);
    write_text(&f, "m.safetensors.index.json", MAP(GOOD_MAP));
    fail_each_request(*state, folder_file(&f, "one.safetensors"));
    fail_each_request(*state, folder_file(&f, "m.safetensors.index.json"));
    folder_remove(&f);
}

/* What transformers wrote. */
static void files_of_others_open(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name;
        int64_t count;
        const char *tensor;
        focal_dtype dtype;
        int64_t rows, columns;
    } models[] = {
        {"llama/model.safetensors", 20, "model.layers.1.mlp.down_proj.weight", FOCAL_F32, 32, 64},
        {"linear/model.safetensors", 20, "model.embed_tokens.weight", FOCAL_F16, 96, 32},
        {"gemma3/model.safetensors", 80, "model.layers.5.self_attn.k_proj.weight", FOCAL_BF16, 16,
         32},
        {"mistral/model.safetensors.index.json", 21, "lm_head.weight", FOCAL_F32, 96, 32},
    };
    for (size_t n = 0; n < FOCAL_COUNT(models); n++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, models[n].name);
        foci_safetensors *st = NULL;
        assert_status(ctx, foci_safetensors_open(ctx, path, &st), FOCAL_OK);
        assert_int_equal(foci_safetensors_tensor_count(st), models[n].count);
        const foci_tensor *t = foci_safetensors_tensor(st, models[n].tensor);
        assert_non_null(t);
        assert_int_equal(t->dtype, models[n].dtype);
        assert_int_equal(t->shape[0], models[n].rows);
        assert_int_equal(t->shape[1], models[n].columns);
        foci_safetensors_close(st);
    }
}

int main(void)
{
    foci_json *root = NULL;
    if (foci_json_parse(NULL, "text", "1", 1, &root) == FOCAL_EUNSUPPORTED) {
        (void)printf("built without Jansson: nothing to test\n");
        return 0;
    }
    foci_json_free(root);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tensors_have_their_types_and_places, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_type_has_its_size, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_files_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_lengths_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(long_headers_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(huge_structures_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_truncation_is_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(files_that_cannot_be_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(shards_look_like_one_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_indexes_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(too_many_shards_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(maps_go_with_the_file, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(files_of_others_open, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("safetensors", tests, NULL, NULL);
}
