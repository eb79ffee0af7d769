/* Bad GGUF files: one field of a good file broken at a time, each refused with its own sentence,
 * and files that end too early, at every byte. */
#include "support/check.h"

#include <string.h>

#include "io/gguf.h"
#include "support/gguf_sample.h"

/* A field of the sample set to a value of so many bytes. */
typedef struct fault {
    const char *name;
    gguf_place place;
    uint64_t value;
    size_t bytes;
    focal_status status;
    const char *sentence; /* behind "bad.gguf: " */
} fault;

/* clang-format off */
static const fault faults[] = {
    /* Header. */
    {"another magic", AT_MAGIC, 'X', 1, FOCAL_EFORMAT,
     "not a GGUF file, it does not begin with GGUF"},
    {"version 1", AT_VERSION, 1, 4, FOCAL_EUNSUPPORTED, "GGUF version 1, read are 2 to 3"},
    {"version 4", AT_VERSION, 4, 4, FOCAL_EUNSUPPORTED, "GGUF version 4, read are 2 to 3"},
    {"version 0", AT_VERSION, 0, 4, FOCAL_EUNSUPPORTED, "GGUF version 0, read are 2 to 3"},
    {"big endian", AT_VERSION, 0x03000000, 4, FOCAL_EUNSUPPORTED,
     "a big-endian GGUF file, only little-endian ones are read"},
    {"more tensors than bytes", AT_TENSOR_COUNT, UINT64_MAX, 8, FOCAL_EFORMAT,
     "header: 18446744073709551615 tensors do not fit into the 1192 bytes that are left"},
    {"tensors that overflow a product", AT_TENSOR_COUNT, (uint64_t)1 << 59, 8, FOCAL_EFORMAT,
     "header: 576460752303423488 tensors do not fit into the 1192 bytes that are left"},
    {"more keys than bytes", AT_KEY_COUNT, (uint64_t)1 << 62, 8, FOCAL_EFORMAT,
     "header: 4611686018427387904 keys do not fit into the 1192 bytes that are left"},
    {"one tensor more than there is", AT_TENSOR_COUNT, 4, 8, FOCAL_EFORMAT,
     "tensor number 4: a name of 0 bytes, allowed are 1 to 127"},
    {"one key less than there is", AT_KEY_COUNT, 23, 8, FOCAL_EFORMAT,
     "tensor 'general.alignment' has a size beyond 64 bits (q4_1, first dimension 34359738432)"},

    /* Keys. */
    {"a key without letters", AT_KEY_LENGTH, 0, 8, FOCAL_EFORMAT,
     "key number 1: a name of 0 bytes, allowed are 1 to 255"},
    {"a key beyond the limit", AT_KEY_LENGTH, 256, 8, FOCAL_EFORMAT,
     "key number 1: a name of 256 bytes, allowed are 1 to 255"},
    {"a key of nearly all bytes there are", AT_KEY_LENGTH, UINT64_MAX - 7, 8, FOCAL_EFORMAT,
     "key number 1: a name of 18446744073709551608 bytes, allowed are 1 to 255"},
    {"a key with NUL", AT_KEY_NAME, 0, 1, FOCAL_EFORMAT,
     "key number 1: the name is not UTF-8, or has control characters"},
    {"a key with a line end", AT_KEY_NAME, '\n', 1, FOCAL_EFORMAT,
     "key number 1: the name is not UTF-8, or has control characters"},
    {"a key that is not UTF-8", AT_KEY_NAME, 0xFF, 1, FOCAL_EFORMAT,
     "key number 1: the name is not UTF-8, or has control characters"},
    {"a key twice", AT_TWIN_NAME, 0x612E6E697774, 6, FOCAL_EFORMAT,
     "the key 'twin.a' stands there twice"},
    {"a value type that is none", AT_KEY_TYPE, 13, 4, FOCAL_EFORMAT,
     "key 'a.u8': value type 13, the last known is 12"},
    {"an element type that is none", AT_INTS_TYPE, 77, 4, FOCAL_EFORMAT,
     "key 'array.i32': value type 77, the last known is 12"},
    {"an array of arrays", AT_INTS_TYPE, 9, 4, FOCAL_EFORMAT,
     "key 'array.i32': an array of arrays, which no model has"},
    {"a bool of 2", AT_BOOL, 2, 1, FOCAL_EFORMAT, "key 'a.bool': 2 where a bool is 0 or 1"},
    {"a bool of 255 in an array", AT_BOOLS, 255, 1, FOCAL_EFORMAT,
     "key 'array.bool': 255 where a bool is 0 or 1"},
    {"a string longer than the file", AT_TEXT_LENGTH, 5000, 8, FOCAL_EFORMAT,
     "key 'a.text': 5000 bytes wanted at byte 204, the file has 1216"},
    {"a huge string", AT_TEXT_LENGTH, UINT64_MAX, 8, FOCAL_EFORMAT,
     "key 'a.text': 18446744073709551615 bytes wanted at byte 204, the file has 1216"},
    {"a huge string in an array", AT_TEXTS_LENGTH, UINT64_MAX - 8, 8, FOCAL_EFORMAT,
     "key 'array.text': 18446744073709551607 bytes wanted at byte "},
    {"a huge array", AT_INTS_COUNT, UINT64_MAX, 8, FOCAL_EFORMAT,
     "key 'array.i32': 18446744073709551615 elements do not fit into the "},
    {"an array whose bytes overflow", AT_INTS_COUNT, (uint64_t)1 << 62, 8, FOCAL_EFORMAT,
     "key 'array.i32': 4611686018427387904 elements do not fit into the "},
    {"an array of too many strings", AT_TEXTS_COUNT, (uint64_t)1 << 61, 8, FOCAL_EFORMAT,
     "key 'array.text': 2305843009213693952 elements do not fit into the "},
    {"an array of a string more than there is", AT_TEXTS_COUNT, 4, 8, FOCAL_EFORMAT,
     "key number 23: a name of 34359738377 bytes, allowed are 1 to 255"},

    /* Alignment. */
    {"an alignment of 0", AT_ALIGNMENT, 0, 4, FOCAL_EFORMAT,
     "key 'general.alignment': 0, allowed are 8 to 1048576"},
    {"an alignment below 8", AT_ALIGNMENT, 4, 4, FOCAL_EFORMAT,
     "key 'general.alignment': 4, allowed are 8 to 1048576"},
    {"a huge alignment", AT_ALIGNMENT, (uint64_t)1 << 31, 4, FOCAL_EFORMAT,
     "key 'general.alignment': 2147483648, allowed are 8 to 1048576"},
    {"an alignment of 48", AT_ALIGNMENT, 48, 4, FOCAL_EFORMAT,
     "key 'general.alignment': 48 is not a power of two"},
    {"an alignment that is a real", AT_ALIGNMENT_TYPE, 6, 4, FOCAL_EFORMAT,
     "key 'general.alignment': f32, wanted an integer"},
    {"an alignment that the file does not keep", AT_ALIGNMENT, 256, 4, FOCAL_EFORMAT,
     "tensor 'rows.q4_0': offset 128 is not a multiple of 256"},

    /* Tensors. */
    {"a tensor without a name", AT_TENSOR_LENGTH, 0, 8, FOCAL_EFORMAT,
     "tensor number 1: a name of 0 bytes, allowed are 1 to 127"},
    {"a name beyond the limit", AT_TENSOR_LENGTH, 128, 8, FOCAL_EFORMAT,
     "tensor number 1: a name of 128 bytes, allowed are 1 to 127"},
    {"a name with NUL", AT_TENSOR_NAME, 0, 1, FOCAL_EFORMAT,
     "tensor number 1: the name is not UTF-8, or has control characters"},
    {"a name that is not UTF-8", AT_TENSOR_NAME, 0xC0, 1, FOCAL_EFORMAT,
     "tensor number 1: the name is not UTF-8, or has control characters"},
    {"a name twice", AT_LAST_NAME, 0x3233662E73776F72, 8, FOCAL_EFORMAT,
     "the tensor 'rows.f32' stands there twice"},
    {"no dimensions", AT_TENSOR_DIMS, 0, 4, FOCAL_EFORMAT,
     "tensor 'rows.f32': 0 dimensions, allowed are 1 to 4"},
    {"five dimensions", AT_TENSOR_DIMS, 5, 4, FOCAL_EFORMAT,
     "tensor 'rows.f32': 5 dimensions, allowed are 1 to 4"},
    {"a dimension of 0", AT_TENSOR_SHAPE, 0, 8, FOCAL_EFORMAT,
     "tensor 'rows.f32': a dimension of 0, the least is 1, the most 2^63 - 1"},
    {"a dimension beyond int64_t", AT_TENSOR_SHAPE, (uint64_t)1 << 63, 8, FOCAL_EFORMAT,
     "tensor 'rows.f32': a dimension of 9223372036854775808, the least is 1, the most 2^63 - 1"},
    {"a shape that overflows", AT_TENSOR_SHAPE, (uint64_t)1 << 62, 8, FOCAL_EFORMAT,
     "tensor 'rows.f32' has a size beyond 64 bits (f32, first dimension 4611686018427387904)"},
    {"rows that are not whole blocks", AT_BLOCKS_SHAPE, 63, 8, FOCAL_EFORMAT,
     "tensor 'rows.q4_0' has rows that are not whole blocks of its type (q4_0, first dimension 63)"},
    {"a type that was taken out", AT_TENSOR_TYPE, 4, 4, FOCAL_EUNSUPPORTED,
     "tensor 'rows.f32': tensor type 4 is not supported"},
    {"a type that is none", AT_TENSOR_TYPE, UINT32_MAX, 4, FOCAL_EUNSUPPORTED,
     "tensor 'rows.f32': tensor type 4294967295 is not supported"},
    {"an offset between the multiples", AT_BLOCKS_OFFSET, 130, 8, FOCAL_EFORMAT,
     "tensor 'rows.q4_0': offset 130 is not a multiple of 64"},
    {"an offset past the end", AT_LAST_OFFSET, 1024, 8, FOCAL_EFORMAT,
     "tensor 'rows.f16': 10 bytes at offset 1024, the file has 320 bytes of data"},
    {"an offset near the largest number", AT_LAST_OFFSET, UINT64_MAX - 63, 8, FOCAL_EFORMAT,
     "tensor 'rows.f16': 10 bytes at offset 18446744073709551552, the file has 320 bytes of data"},
    {"a tensor larger than the file", AT_TENSOR_SHAPE, 1 << 20, 8, FOCAL_EFORMAT,
     "tensor 'rows.f32': 12582912 bytes at offset 0, the file has 320 bytes of data"},
    {"tensors that overlap", AT_BLOCKS_OFFSET, 64, 8, FOCAL_EFORMAT,
     "tensor 'rows.q4_0': offset 64 overlaps the tensors before, which end at 128"},
    {"tensors at one place", AT_LAST_OFFSET, 0, 8, FOCAL_EFORMAT,
     "tensor 'rows.f16': offset 0 overlaps the tensors before, which end at 256"},
    {"a hole between tensors", AT_BLOCKS_OFFSET, 192, 8, FOCAL_EFORMAT,
     "tensor 'rows.q4_0': a hole of 64 bytes before offset 192"},
    {"a hole before the first", AT_TENSOR_OFFSET, 64, 8, FOCAL_EFORMAT,
     "tensor 'rows.f32': a hole of 64 bytes before offset 64"},
    {"bytes behind the last tensor", AT_END, 1, 1, FOCAL_EFORMAT,
     "1 bytes behind the last tensor, which ends at byte 1216"},

};
/* clang-format on */

static focal_status open_bytes(focal_ctx *ctx, const gguf_bytes *b, size_t bytes)
{
    foci_map map = exact_copy(b, bytes);
    foci_gguf *gguf = NULL;
    const focal_status status = foci_gguf_from_memory(ctx, "bad.gguf", &map, 1, &gguf);
    assert_int_equal(gguf != NULL, status == FOCAL_OK);
    foci_gguf_close(gguf);
    exact_free(&map);
    return status;
}

static void each_broken_field_is_told(void **state)
{
    focal_ctx *ctx = *state;
    int wrong = 0;
    for (size_t n = 0; n < FOCAL_COUNT(faults); n++) {
        const fault *f = &faults[n];
        gguf_bytes b;
        gguf_sample(&b);
        const size_t end = b.place[f->place] + f->bytes;
        if (end > b.count) b.count = end;
        set_number(&b, b.place[f->place], f->value, f->bytes);
        const int64_t live = memory_live_blocks();
        const focal_status status = open_bytes(ctx, &b, b.count);
        assert_int_equal(memory_live_blocks(), live);
        const char *message = status == FOCAL_OK ? "" : focal_ctx_error(ctx);
        const size_t prefix = strlen("bad.gguf: ");
        if (status == f->status && strncmp(message, "bad.gguf: ", prefix) == 0 &&
            strncmp(message + prefix, f->sentence, strlen(f->sentence)) == 0)
            continue;
        print_error("%s: status %d, %s\n", f->name, (int)status, message);
        wrong++;
    }
    assert_int_equal(wrong, 0);
}

/* No count in a small file makes the reader take much memory, whatever it says. */
static void counts_do_not_make_memory(void **state)
{
    focal_ctx *ctx = *state;
    static const gguf_place places[] = {AT_TENSOR_COUNT, AT_KEY_COUNT, AT_INTS_COUNT,
                                        AT_TEXTS_COUNT, AT_TENSOR_LENGTH};
    for (size_t n = 0; n < FOCAL_COUNT(places); n++) {
        for (int bit = 0; bit < 64; bit++) {
            gguf_bytes b;
            gguf_sample(&b);
            set_number(&b, b.place[places[n]], (uint64_t)1 << bit, 8);
            focal_ctx_memory_reset(ctx);
            const size_t before = focal_ctx_memory(ctx).now_bytes;
            (void)open_bytes(ctx, &b, b.count);
            assert_true(focal_ctx_memory(ctx).peak_bytes - before < 32 * b.count);
        }
    }
}

/* Only the padding behind the last tensor may be missing. */
static void every_cut_is_told(void **state)
{
    focal_ctx *ctx = *state;
    gguf_bytes b;
    gguf_sample(&b);
    for (size_t bytes = 0; bytes < b.place[AT_DATA_END]; bytes++)
        assert_status(ctx, open_bytes(ctx, &b, bytes), FOCAL_EFORMAT);
    for (size_t bytes = b.place[AT_DATA_END]; bytes <= b.count; bytes++)
        assert_int_equal(open_bytes(ctx, &b, bytes), FOCAL_OK);
}

static void a_cut_says_what_is_missing(void **state)
{
    static const struct {
        gguf_place before; /* cut so many bytes behind this place */
        size_t behind;
        const char *sentence;
    } rows[] = {
        {AT_VERSION, 2, "bad.gguf: header: 4 bytes wanted at byte 4, the file has 6"},
        {AT_MAGIC, 0, "bad.gguf: not a GGUF file, it does not begin with GGUF"},
        {AT_KEY_COUNT, 7, "bad.gguf: header: 8 bytes wanted at byte 16, the file has 23"},
        {AT_DATA_END, (size_t)-1,
         "bad.gguf: tensor 'rows.f16': 10 bytes at offset 256, the file has 265 bytes of data"},
        {AT_DATA, 0,
         "bad.gguf: tensor 'rows.f32': 96 bytes at offset 0, the file has 0 bytes of "
         "data"},
    };
    focal_ctx *ctx = *state;
    gguf_bytes b;
    gguf_sample(&b);
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const size_t bytes = b.place[rows[n].before] + rows[n].behind;
        assert_status(ctx, open_bytes(ctx, &b, bytes), FOCAL_EFORMAT);
        assert_string_equal(focal_ctx_error(ctx), rows[n].sentence);
    }
}

/* Any one byte may be anything: the file is refused with a sentence, or read. */
static void no_byte_crashes_the_reader(void **state)
{
    focal_ctx *ctx = *state;
    static const uint8_t values[] = {0, 1, 0x7F, 0x80, 0xFF};
    gguf_bytes b;
    gguf_sample(&b);
    for (size_t at = 0; at < b.place[AT_DATA]; at++) {
        const uint8_t kept = b.data[at];
        for (size_t n = 0; n < FOCAL_COUNT(values); n++) {
            b.data[at] = values[n];
            const focal_status status = open_bytes(ctx, &b, b.count);
            if (status != FOCAL_OK) assert_status(ctx, status, status);
        }
        b.data[at] = kept;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_broken_field_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(counts_do_not_make_memory, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_cut_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_cut_says_what_is_missing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(no_byte_crashes_the_reader, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("gguf_bad", tests, NULL, NULL);
}
