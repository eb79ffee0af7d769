/* Writing GGUF, version 3: keys are encoded as they come into one growing block, tensors are kept
 * as a list, and commit writes header, keys, infos and data in one go. */
#include <inttypes.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/gguf_part.h"

enum { VERSION = 3 };

static const int64_t most_elements = (int64_t)1 << 48; /* of an array: its bytes fit 64 bits */

/* A block that grows by doubling. */
typedef struct block {
    void *data;
    size_t bytes, room;
} block;

typedef struct key_place {
    size_t at, bytes; /* of the key's letters in the encoded keys */
} key_place;

struct foci_gguf_writer {
    focal_ctx *ctx;
    block keys;    /* encoded */
    block places;  /* of key_place */
    block tensors; /* of foci_gguf_tensor_entry; names are found by the entry, not the pointer */
    size_t alignment;
};

static int64_t key_count(const foci_gguf_writer *writer)
{
    return (int64_t)(writer->places.bytes / sizeof(key_place));
}

static int64_t tensor_count(const foci_gguf_writer *writer)
{
    return (int64_t)(writer->tensors.bytes / sizeof(foci_gguf_tensor_entry));
}

static focal_status append(focal_ctx *ctx, block *b, const void *data, size_t bytes)
{
    if (bytes > b->room - b->bytes) {
        if (b->bytes > SIZE_MAX / 4 || bytes > SIZE_MAX / 4)
            return foci_fail(ctx, FOCAL_EINVAL, "gguf: keys of more than 2^62 bytes");
        const size_t room = 2 * (b->bytes + bytes);
        void *larger = foci_alloc(ctx, room, 1);
        if (!larger) return FOCAL_ENOMEM;
        if (b->bytes > 0) memcpy(larger, b->data, b->bytes);
        foci_free(ctx, b->data);
        b->data = larger;
        b->room = room;
    }
    if (bytes > 0) memcpy((uint8_t *)b->data + b->bytes, data, bytes);
    b->bytes += bytes;
    return FOCAL_OK;
}

static void write_u32(uint8_t *to, uint32_t value)
{
    for (int n = 0; n < 4; n++) to[n] = (uint8_t)(value >> 8 * n);
}

static void write_u64(uint8_t *to, uint64_t value)
{
    for (int n = 0; n < 8; n++) to[n] = (uint8_t)(value >> 8 * n);
}

static focal_status append_u32(foci_gguf_writer *writer, uint32_t value)
{
    uint8_t bytes[4];
    write_u32(bytes, value);
    return append(writer->ctx, &writer->keys, bytes, sizeof bytes);
}

static focal_status append_u64(foci_gguf_writer *writer, uint64_t value)
{
    uint8_t bytes[8];
    write_u64(bytes, value);
    return append(writer->ctx, &writer->keys, bytes, sizeof bytes);
}

static focal_status append_text(foci_gguf_writer *writer, foci_text text)
{
    FOCAL_TRY(append_u64(writer, text.bytes));
    return append(writer->ctx, &writer->keys, text.data, text.bytes);
}

focal_status foci_gguf_writer_new(focal_ctx *ctx, foci_gguf_writer **out)
{
    *out = foci_alloc(ctx, 1, sizeof **out);
    if (!*out) return FOCAL_ENOMEM;
    **out = (foci_gguf_writer){.ctx = ctx, .alignment = FOCI_GGUF_DEFAULT_ALIGNMENT};
    return FOCAL_OK;
}

void foci_gguf_writer_free(foci_gguf_writer *writer)
{
    if (!writer) return;
    foci_free(writer->ctx, writer->keys.data);
    foci_free(writer->ctx, writer->places.data);
    foci_free(writer->ctx, writer->tensors.data);
    foci_free(writer->ctx, writer);
}

static focal_status check_name(focal_ctx *ctx, const char *kind, const char *name, size_t most)
{
    const foci_text text = foci_text_of(name);
    if (text.bytes < 1 || text.bytes > most)
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: a %s of %zu bytes, allowed are 1 to %zu", kind,
                         text.bytes, most);
    if (!foci_text_is_plain(text))
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: a %s is not UTF-8, or has control characters",
                         kind);
    return FOCAL_OK;
}

/* The alignment is a key like any other, but the file must then be laid out by it. 0: not that key.
 */
static focal_status read_alignment(focal_ctx *ctx, const char *key, const foci_gguf_value *value,
                                   size_t *alignment)
{
    *alignment = 0;
    if (strcmp(key, "general.alignment") != 0) return FOCAL_OK;
    if (value->type == FOCI_GGUF_U32) *alignment = foci_read_u32(value->raw.data);
    if (foci_gguf_is_alignment(*alignment)) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL,
                     "gguf: key 'general.alignment' must be a u32, a power of two from %d to %d",
                     FOCI_GGUF_LEAST_ALIGNMENT, FOCI_GGUF_MOST_ALIGNMENT);
}

/* Everything of a key up to its value's bytes. */
static focal_status append_head(foci_gguf_writer *writer, const char *key,
                                const foci_gguf_value *value)
{
    const foci_text text = foci_text_of(key);
    FOCAL_TRY(append_text(writer, text));
    const key_place place = {writer->keys.bytes - text.bytes, text.bytes};
    FOCAL_TRY(append_u32(writer, value->type));
    if (value->type == FOCI_GGUF_ARRAY) {
        FOCAL_TRY(append_u32(writer, value->element));
        FOCAL_TRY(append_u64(writer, (uint64_t)value->count));
    }
    return append(writer->ctx, &writer->places, &place, sizeof place);
}

/* Strings come as texts instead of value->raw. A key is there whole or not at all. */
static focal_status put_value(foci_gguf_writer *writer, const char *key,
                              const foci_gguf_value *value, const foci_text *texts)
{
    focal_ctx *ctx = writer->ctx;
    FOCAL_TRY(check_name(ctx, "key", key, FOCI_GGUF_KEY_BYTES));
    if (value->count < 0 || value->count > most_elements)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "gguf: key '%s': %" PRId64 " elements, allowed are 0 to %" PRId64, key,
                         value->count, most_elements);
    if (key_count(writer) == FOCI_GGUF_KEYS)
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: more than %d keys", FOCI_GGUF_KEYS);
    size_t alignment = 0;
    FOCAL_TRY(read_alignment(ctx, key, value, &alignment));
    const size_t keys_before = writer->keys.bytes, places_before = writer->places.bytes;
    focal_status status = append_head(writer, key, value);
    for (int64_t n = 0; texts && n < value->count && status == FOCAL_OK; n++)
        status = append_text(writer, texts[n]);
    if (!texts && status == FOCAL_OK)
        status = append(ctx, &writer->keys, value->raw.data, value->raw.bytes);
    if (status != FOCAL_OK) {
        writer->keys.bytes = keys_before;
        writer->places.bytes = places_before;
        return status;
    }
    if (alignment != 0) writer->alignment = alignment;
    return FOCAL_OK;
}

static focal_status put_scalar(foci_gguf_writer *writer, const char *key, foci_gguf_type type,
                               const uint8_t *data, size_t bytes)
{
    const foci_gguf_value value = {type, type, 1, {(const char *)data, bytes}};
    return put_value(writer, key, &value, NULL);
}

focal_status foci_gguf_put_u32(foci_gguf_writer *writer, const char *key, uint32_t value)
{
    uint8_t bytes[4];
    write_u32(bytes, value);
    return put_scalar(writer, key, FOCI_GGUF_U32, bytes, sizeof bytes);
}

focal_status foci_gguf_put_f32(foci_gguf_writer *writer, const char *key, float value)
{
    uint8_t bytes[4];
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    write_u32(bytes, bits);
    return put_scalar(writer, key, FOCI_GGUF_F32, bytes, sizeof bytes);
}

focal_status foci_gguf_put_bool(foci_gguf_writer *writer, const char *key, bool value)
{
    const uint8_t byte = value;
    return put_scalar(writer, key, FOCI_GGUF_BOOL, &byte, 1);
}

focal_status foci_gguf_put_text(foci_gguf_writer *writer, const char *key, foci_text value)
{
    const foci_gguf_value string = {FOCI_GGUF_STRING, FOCI_GGUF_STRING, 1, {NULL, 0}};
    return put_value(writer, key, &string, &value);
}

/* Numbers of four bytes: the library runs on little-endian machines, whose memory has the format's
 * order (tensors are read where they lie, too). */
static focal_status put_words(foci_gguf_writer *writer, const char *key, foci_gguf_type element,
                              const void *values, int64_t count)
{
    const size_t bytes = (size_t)count * 4; /* put_value refuses a count that wraps it */
    const foci_gguf_value value = {FOCI_GGUF_ARRAY, element, count, {values, bytes}};
    return put_value(writer, key, &value, NULL);
}

focal_status foci_gguf_put_i32s(foci_gguf_writer *writer, const char *key, const int32_t *values,
                                int64_t count)
{
    return put_words(writer, key, FOCI_GGUF_I32, values, count);
}

focal_status foci_gguf_put_f32s(foci_gguf_writer *writer, const char *key, const float *values,
                                int64_t count)
{
    return put_words(writer, key, FOCI_GGUF_F32, values, count);
}

focal_status foci_gguf_put_texts(foci_gguf_writer *writer, const char *key, const foci_text *values,
                                 int64_t count)
{
    const foci_gguf_value value = {FOCI_GGUF_ARRAY, FOCI_GGUF_STRING, count, {NULL, 0}};
    return put_value(writer, key, &value, values);
}

focal_status foci_gguf_put_copy(foci_gguf_writer *writer, const foci_gguf *from, const char *key)
{
    foci_gguf_value value;
    if (!foci_gguf_get_value(from, key, &value))
        return foci_fail(writer->ctx, FOCAL_EINVAL, "gguf: %s has no key '%s' to copy",
                         foci_gguf_path(from), key);
    return put_value(writer, key, &value, NULL);
}

bool foci_gguf_writer_has(const foci_gguf_writer *writer, const char *key)
{
    const key_place *places = writer->places.data;
    for (int64_t n = 0; n < key_count(writer); n++) {
        const char *letters = (const char *)writer->keys.data + places[n].at;
        if (foci_text_equal((foci_text){letters, places[n].bytes}, foci_text_of(key))) return true;
    }
    return false;
}

focal_status foci_gguf_put_tensor(foci_gguf_writer *writer, const foci_tensor *tensor)
{
    focal_ctx *ctx = writer->ctx;
    uint32_t type = 0;
    size_t bytes = 0;
    FOCAL_TRY(check_name(ctx, "tensor's name", tensor->name, FOCI_GGUF_NAME_BYTES));
    if (!foci_gguf_type_of(tensor->dtype, &type))
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: tensor '%s': %d is no element type",
                         tensor->name, (int)tensor->dtype);
    if (tensor->dims < 1 || tensor->dims > FOCI_TENSOR_DIMS)
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: tensor '%s': %d dimensions, allowed are 1 to %d",
                         tensor->name, tensor->dims, FOCI_TENSOR_DIMS);
    const char *wrong = foci_gguf_tensor_bytes(tensor->dtype, tensor->dims, tensor->shape, &bytes);
    if (wrong) return foci_fail(ctx, FOCAL_EINVAL, "gguf: tensor '%s' %s", tensor->name, wrong);
    if (bytes != tensor->bytes)
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: tensor '%s': %zu bytes, its shape has %zu",
                         tensor->name, tensor->bytes, bytes);
    if (tensor_count(writer) == FOCI_GGUF_TENSORS)
        return foci_fail(ctx, FOCAL_EINVAL, "gguf: more than %d tensors", FOCI_GGUF_TENSORS);
    foci_gguf_tensor_entry entry = {.tensor = *tensor};
    memcpy(entry.name, tensor->name, strlen(tensor->name) + 1);
    entry.tensor.name = NULL; /* the list moves when it grows */
    return append(ctx, &writer->tensors, &entry, sizeof entry);
}

/* Fails when a name stands in the list twice; sorts it. */
static focal_status check_unique(focal_ctx *ctx, const char *kind, foci_name *names, int64_t count)
{
    foci_names_sort(names, count);
    const foci_name *twice = foci_names_repeated(names, count);
    if (!twice) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL, "gguf: the %s '%.*s' was put twice", kind,
                     (int)twice->text.bytes, twice->text.data);
}

static focal_status check_names(const foci_gguf_writer *writer)
{
    const int64_t keys = key_count(writer), tensors = tensor_count(writer);
    const key_place *places = writer->places.data;
    const foci_gguf_tensor_entry *entries = writer->tensors.data;
    foci_name *names =
        foci_alloc(writer->ctx, (size_t)(keys > tensors ? keys : tensors), sizeof *names);
    if (!names) return FOCAL_ENOMEM;
    for (int64_t n = 0; n < keys; n++) {
        const char *letters = (const char *)writer->keys.data + places[n].at;
        names[n] = (foci_name){{letters, places[n].bytes}, n};
    }
    focal_status status = check_unique(writer->ctx, "key", names, keys);
    for (int64_t n = 0; n < tensors; n++) names[n] = (foci_name){foci_text_of(entries[n].name), n};
    if (status == FOCAL_OK) status = check_unique(writer->ctx, "tensor", names, tensors);
    foci_free(writer->ctx, names);
    return status;
}

static void file_u32(foci_writer *file, uint32_t value)
{
    uint8_t bytes[4];
    write_u32(bytes, value);
    foci_writer_put(file, bytes, sizeof bytes);
}

static void file_u64(foci_writer *file, uint64_t value)
{
    uint8_t bytes[8];
    write_u64(bytes, value);
    foci_writer_put(file, bytes, sizeof bytes);
}

/* Everything before the data. */
static focal_status write_head(const foci_gguf_writer *writer, foci_writer *file)
{
    const int64_t count = tensor_count(writer);
    const foci_gguf_tensor_entry *entries = writer->tensors.data;
    foci_writer_put(file, "GGUF", 4);
    file_u32(file, VERSION);
    file_u64(file, (uint64_t)count);
    file_u64(file, (uint64_t)key_count(writer));
    foci_writer_put(file, writer->keys.data, writer->keys.bytes);
    uint64_t offset = 0;
    for (int64_t n = 0; n < count; n++) {
        const foci_tensor *tensor = &entries[n].tensor;
        const foci_text name = foci_text_of(entries[n].name);
        uint32_t type = 0;
        (void)foci_gguf_type_of(tensor->dtype, &type);
        file_u64(file, name.bytes);
        foci_writer_put(file, name.data, name.bytes);
        file_u32(file, (uint32_t)tensor->dims);
        for (int32_t d = tensor->dims - 1; d >= 0; d--) file_u64(file, (uint64_t)tensor->shape[d]);
        file_u32(file, type);
        file_u64(file, offset);
        const uint64_t padding = -tensor->bytes & (writer->alignment - 1);
        if (__builtin_add_overflow(offset, tensor->bytes, &offset) ||
            __builtin_add_overflow(offset, padding, &offset))
            return foci_fail(writer->ctx, FOCAL_EINVAL, "gguf: tensors of more than 2^64 bytes");
    }
    foci_writer_pad(file, writer->alignment);
    return FOCAL_OK;
}

static focal_status write_data(const foci_gguf_writer *writer, foci_writer *file,
                               foci_tensor_fill fill, void *user)
{
    const foci_gguf_tensor_entry *entries = writer->tensors.data;
    for (int64_t n = 0; n < tensor_count(writer); n++) {
        const void *data = entries[n].tensor.data;
        if (fill) FOCAL_TRY(fill(user, n, &data));
        if (!data)
            return foci_fail(writer->ctx, FOCAL_EINVAL, "gguf: tensor '%s' has no data",
                             entries[n].name);
        foci_writer_put(file, data, entries[n].tensor.bytes);
        foci_writer_pad(file, writer->alignment);
        FOCAL_TRY(foci_writer_status(file)); /* the other tensors need not be made */
    }
    return FOCAL_OK;
}

focal_status foci_gguf_writer_commit(foci_gguf_writer *writer, const char *path,
                                     foci_tensor_fill fill, void *user)
{
    foci_writer *file = NULL;
    FOCAL_TRY(check_names(writer));
    FOCAL_TRY(foci_writer_open(writer->ctx, path, &file));
    focal_status status = write_head(writer, file);
    if (status == FOCAL_OK) status = write_data(writer, file, fill, user);
    if (status == FOCAL_OK) return foci_writer_commit(file);
    foci_writer_abandon(file);
    return status;
}
