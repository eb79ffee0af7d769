/* Parsing one GGUF file: header, keys, tensor infos, data, in the order in which they lie there. A
 * cursor hands out bytes only after it has checked that they are there, and a count is believed
 * only as far as the rest of the file could hold that many. */
#include "io/gguf_part.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

enum {
    OLDEST_VERSION = 2,
    NEWEST_VERSION = 3,
    LAST_TYPE = FOCI_GGUF_F64,
    /* The least that a key (length, one letter, type, one byte) and a tensor (length, one letter,
     * count of dimensions, one of them, type, offset) take in the file. */
    LEAST_KEY_BYTES = 8 + 1 + 4 + 1,
    LEAST_TENSOR_BYTES = 8 + 1 + 4 + 8 + 4 + 8,
    WHAT_BYTES = FOCI_GGUF_KEY_BYTES + 32
};

/* The next byte to read, and what is being read, for the message. */
typedef struct cursor {
    const foci_gguf_part *part;
    size_t at;
    char what[WHAT_BYTES];
} cursor;

static const struct {
    uint32_t type;
    focal_dtype dtype;
} tensor_types[] = {
    {0, FOCAL_F32},   {1, FOCAL_F16},   {2, FOCAL_Q4_0},  {3, FOCAL_Q4_1},    {6, FOCAL_Q5_0},
    {7, FOCAL_Q5_1},  {8, FOCAL_Q8_0},  {10, FOCAL_Q2_K}, {11, FOCAL_Q3_K},   {12, FOCAL_Q4_K},
    {13, FOCAL_Q5_K}, {14, FOCAL_Q6_K}, {30, FOCAL_BF16}, {20, FOCAL_IQ4_NL},
};

bool foci_gguf_type_of(focal_dtype dtype, uint32_t *type)
{
    for (size_t n = 0; n < FOCAL_COUNT(tensor_types); n++) {
        if (tensor_types[n].dtype != dtype) continue;
        *type = tensor_types[n].type;
        return true;
    }
    return false;
}

bool foci_gguf_dtype_of(uint32_t type, focal_dtype *dtype)
{
    for (size_t n = 0; n < FOCAL_COUNT(tensor_types); n++) {
        if (tensor_types[n].type != type) continue;
        *dtype = tensor_types[n].dtype;
        return true;
    }
    return false;
}

size_t foci_gguf_type_bytes(uint32_t type)
{
    static const uint8_t bytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < FOCAL_COUNT(bytes) ? bytes[type] : 0;
}

bool foci_gguf_is_alignment(uint64_t alignment)
{
    return alignment >= FOCI_GGUF_LEAST_ALIGNMENT && alignment <= FOCI_GGUF_MOST_ALIGNMENT &&
           (alignment & (alignment - 1)) == 0;
}

const char *foci_gguf_tensor_bytes(focal_dtype dtype, int32_t dims, const int64_t *shape,
                                   size_t *bytes)
{
    const int32_t block = focal_dtype_block(dtype);
    size_t product = focal_dtype_block_bytes(dtype);
    for (int32_t d = 0; d < dims; d++) {
        if (shape[d] < 1) return "has a dimension below 1";
        int64_t count = shape[d];
        if (d == dims - 1) { /* rows are whole blocks */
            if (count % block != 0) return "has rows that are not whole blocks of its type";
            count /= block;
        }
        if (!foci_size_mul(product, (size_t)count, &product)) return "has a size beyond 64 bits";
    }
    *bytes = product;
    return NULL;
}

uint32_t foci_read_u32(const void *from)
{
    const uint8_t *b = from;
    return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

uint64_t foci_read_u64(const void *from)
{
    const uint8_t *b = from;
    return foci_read_u32(b) | (uint64_t)foci_read_u32(b + 4) << 32;
}

static size_t left(const cursor *c)
{
    return c->part->map.bytes - c->at;
}

static focal_status take(cursor *c, uint64_t bytes, const uint8_t **out)
{
    if (bytes > left(c)) {
        (void)foci_fail(c->part->ctx, FOCAL_EFORMAT,
                        "%s: %s: %" PRIu64 " bytes wanted at byte %zu, the file has %zu",
                        c->part->path, c->what, bytes, c->at, c->part->map.bytes);
        return FOCAL_EFORMAT; /* said here for the analyser, which sees one file at a time */
    }
    *out = c->part->map.data + c->at;
    c->at += (size_t)bytes;
    return FOCAL_OK;
}

static focal_status take_u32(cursor *c, uint32_t *out)
{
    const uint8_t *from = NULL;
    FOCAL_TRY(take(c, 4, &from));
    *out = foci_read_u32(from);
    return FOCAL_OK;
}

static focal_status take_u64(cursor *c, uint64_t *out)
{
    const uint8_t *from = NULL;
    FOCAL_TRY(take(c, 8, &from));
    *out = foci_read_u64(from);
    return FOCAL_OK;
}

/* A key or a tensor's name; what is read next is then called by it. */
static focal_status take_name(cursor *c, const char *kind, size_t most, foci_text *out)
{
    uint64_t bytes = 0;
    FOCAL_TRY(take_u64(c, &bytes));
    if (bytes < 1 || bytes > most)
        return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                         "%s: %s: a name of %" PRIu64 " bytes, allowed are 1 to %zu", c->part->path,
                         c->what, bytes, most);
    const uint8_t *from = NULL;
    FOCAL_TRY(take(c, bytes, &from));
    *out = (foci_text){(const char *)from, (size_t)bytes};
    if (!foci_text_is_plain(*out))
        return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                         "%s: %s: the name is not UTF-8, or has control characters", c->part->path,
                         c->what);
    (void)snprintf(c->what, sizeof c->what, "%s '%.*s'", kind, (int)bytes, out->data);
    return FOCAL_OK;
}

static focal_status check_count(const cursor *c, const char *things, uint64_t count,
                                uint64_t least_bytes, uint64_t most)
{
    if (count > left(c) / least_bytes)
        return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                         "%s: %s: %" PRIu64 " %s do not fit into the %zu bytes that are left",
                         c->part->path, c->what, count, things, left(c));
    if (count > most)
        return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                         "%s: %s: %" PRIu64 " %s, at most %" PRIu64 " are read", c->part->path,
                         c->what, count, things, most);
    return FOCAL_OK;
}

static focal_status read_header(cursor *c, uint64_t *tensors, uint64_t *keys)
{
    focal_ctx *ctx = c->part->ctx;
    const char *path = c->part->path;
    const uint8_t *magic = NULL;
    uint32_t version = 0;
    (void)snprintf(c->what, sizeof c->what, "header");
    if (left(c) < 4 || memcmp(c->part->map.data, "GGUF", 4) != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: not a GGUF file, it does not begin with GGUF",
                         path);
    FOCAL_TRY(take(c, 4, &magic));
    FOCAL_TRY(take_u32(c, &version));
    if (version != 0 && (version & 0xFFFFU) == 0)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED,
                         "%s: a big-endian GGUF file, only little-endian "
                         "ones are read",
                         path);
    if (version < OLDEST_VERSION || version > NEWEST_VERSION)
        return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: GGUF version %" PRIu32 ", read are %d to %d",
                         path, version, OLDEST_VERSION, NEWEST_VERSION);
    FOCAL_TRY(take_u64(c, tensors));
    FOCAL_TRY(take_u64(c, keys));
    FOCAL_TRY(check_count(c, "tensors", *tensors, LEAST_TENSOR_BYTES, FOCI_GGUF_TENSORS));
    return check_count(c, "keys", *keys, LEAST_KEY_BYTES, FOCI_GGUF_KEYS);
}

static focal_status check_bools(const cursor *c, foci_text raw)
{
    for (size_t n = 0; n < raw.bytes; n++)
        if ((uint8_t)raw.data[n] > 1)
            return foci_fail(c->part->ctx, FOCAL_EFORMAT, "%s: %s: %d where a bool is 0 or 1",
                             c->part->path, c->what, (uint8_t)raw.data[n]);
    return FOCAL_OK;
}

static focal_status take_type(cursor *c, uint32_t *type)
{
    FOCAL_TRY(take_u32(c, type));
    if (*type <= LAST_TYPE) return FOCAL_OK;
    (void)foci_fail(c->part->ctx, FOCAL_EFORMAT,
                    "%s: %s: value type %" PRIu32 ", the last known is %d", c->part->path, c->what,
                    *type, LAST_TYPE);
    return FOCAL_EFORMAT;
}

static focal_status read_value(cursor *c, foci_gguf_value *value)
{
    uint32_t type = 0, element = 0;
    uint64_t count = 1;
    FOCAL_TRY(take_type(c, &type));
    element = type;
    if (type == FOCI_GGUF_ARRAY) {
        FOCAL_TRY(take_type(c, &element));
        if (element == FOCI_GGUF_ARRAY)
            return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                             "%s: %s: an array of arrays, which no model has", c->part->path,
                             c->what);
        FOCAL_TRY(take_u64(c, &count));
        const size_t least = element == FOCI_GGUF_STRING ? 8 : foci_gguf_type_bytes(element);
        FOCAL_TRY(check_count(c, "elements", count, least, INT64_MAX));
    }
    const size_t start = c->at;
    const uint8_t *ignored = NULL;
    if (element == FOCI_GGUF_STRING) {
        for (uint64_t n = 0; n < count; n++) {
            uint64_t bytes = 0;
            FOCAL_TRY(take_u64(c, &bytes));
            FOCAL_TRY(take(c, bytes, &ignored));
        }
    } else {
        FOCAL_TRY(take(c, count * foci_gguf_type_bytes(element), &ignored));
    }
    const foci_text raw = {(const char *)c->part->map.data + start, c->at - start};
    *value = (foci_gguf_value){(foci_gguf_type)type, (foci_gguf_type)element, (int64_t)count, raw};
    return element == FOCI_GGUF_BOOL ? check_bools(c, raw) : FOCAL_OK;
}

static focal_status read_keys(foci_gguf_part *part, cursor *c, uint64_t count)
{
    part->entries = foci_alloc(part->ctx, count, sizeof *part->entries);
    part->keys = foci_alloc(part->ctx, count, sizeof *part->keys);
    if (!part->entries || !part->keys) return FOCAL_ENOMEM;
    for (uint64_t n = 0; n < count; n++) {
        foci_gguf_entry *entry = &part->entries[n];
        *entry = (foci_gguf_entry){.made = NULL};
        (void)snprintf(c->what, sizeof c->what, "key number %" PRIu64, n + 1);
        FOCAL_TRY(take_name(c, "key", FOCI_GGUF_KEY_BYTES, &entry->key));
        FOCAL_TRY(read_value(c, &entry->value));
        part->entry_count++; /* so that freeing looks at whole ones only */
    }
    return foci_gguf_part_index(part);
}

focal_status foci_gguf_part_index(foci_gguf_part *part)
{
    for (int64_t n = 0; n < part->entry_count; n++)
        part->keys[n] = (foci_name){part->entries[n].key, n};
    foci_names_sort(part->keys, part->entry_count);
    const foci_name *twice = foci_names_repeated(part->keys, part->entry_count);
    if (!twice) return FOCAL_OK;
    return foci_fail(part->ctx, FOCAL_EFORMAT, "%s: the key '%.*s' stands there twice", part->path,
                     (int)twice->text.bytes, twice->text.data);
}

foci_gguf_entry *foci_gguf_part_find(const foci_gguf_part *part, const char *key)
{
    const int64_t index = foci_names_find(part->keys, part->entry_count, foci_text_of(key));
    return index < 0 ? NULL : &part->entries[index];
}

/* The format lists the contiguous dimension first, foci_tensor last. */
static focal_status read_shape(cursor *c, foci_tensor *tensor)
{
    uint32_t dims = 0;
    FOCAL_TRY(take_u32(c, &dims));
    if (dims < 1 || dims > FOCI_TENSOR_DIMS)
        return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                         "%s: %s: %" PRIu32 " dimensions, allowed are 1 to %d", c->part->path,
                         c->what, dims, FOCI_TENSOR_DIMS);
    tensor->dims = (int32_t)dims;
    for (int32_t d = 0; d < FOCI_TENSOR_DIMS; d++) tensor->shape[d] = 1;
    for (int32_t d = tensor->dims - 1; d >= 0; d--) {
        uint64_t count = 0;
        FOCAL_TRY(take_u64(c, &count));
        if (count < 1 || count > INT64_MAX)
            return foci_fail(c->part->ctx, FOCAL_EFORMAT,
                             "%s: %s: a dimension of %" PRIu64
                             ", the least is 1, the most 2^63 - 1",
                             c->part->path, c->what, count);
        tensor->shape[d] = (int64_t)count;
    }
    return FOCAL_OK;
}

static focal_status read_tensor(cursor *c, foci_gguf_tensor_entry *entry)
{
    foci_tensor *tensor = &entry->tensor;
    foci_text name = {NULL, 0};
    uint32_t type = 0;
    FOCAL_TRY(take_name(c, "tensor", FOCI_GGUF_NAME_BYTES, &name));
    memcpy(entry->name, name.data, name.bytes);
    entry->name[name.bytes] = '\0';
    *tensor = (foci_tensor){.name = entry->name};
    FOCAL_TRY(read_shape(c, tensor));
    FOCAL_TRY(take_u32(c, &type));
    if (!foci_gguf_dtype_of(type, &tensor->dtype))
        return foci_fail(c->part->ctx, FOCAL_EUNSUPPORTED,
                         "%s: %s: tensor type %" PRIu32 " is not supported", c->part->path, c->what,
                         type);
    FOCAL_TRY(take_u64(c, &entry->offset));
    const char *wrong =
        foci_gguf_tensor_bytes(tensor->dtype, tensor->dims, tensor->shape, &tensor->bytes);
    if (wrong)
        return foci_fail(c->part->ctx, FOCAL_EFORMAT, "%s: %s %s (%s, first dimension %" PRId64 ")",
                         c->part->path, c->what, wrong, focal_dtype_name(tensor->dtype),
                         tensor->shape[tensor->dims - 1]);
    return FOCAL_OK;
}

/* Where the tensor lies in the data of `bytes` bytes. Tensors follow one another in the order of
 * the infos with nothing but padding between, as every program writes them and llama.cpp demands;
 * so neither overlaps nor holes need a search. */
static focal_status check_place(const foci_gguf_part *part, const foci_gguf_tensor_entry *entry,
                                size_t alignment, size_t bytes, size_t expected)
{
    focal_ctx *ctx = part->ctx;
    const uint64_t offset = entry->offset;
    if (offset % alignment != 0)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s': offset %" PRIu64 " is not a multiple of %zu", part->path,
                         entry->name, offset, alignment);
    if (offset < expected)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s': offset %" PRIu64 " overlaps the tensors before, which "
                         "end at %zu",
                         part->path, entry->name, offset, expected);
    if (offset > bytes || entry->tensor.bytes > bytes - offset)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s': %zu bytes at offset %" PRIu64 ", the file has %zu bytes "
                         "of data",
                         part->path, entry->name, entry->tensor.bytes, offset, bytes);
    if (offset > expected)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s': a hole of %" PRIu64 " bytes before offset %" PRIu64,
                         part->path, entry->name, offset - expected, offset);
    return FOCAL_OK;
}

static size_t rounded_up(size_t bytes, size_t alignment)
{
    return (bytes + alignment - 1) & ~(alignment - 1);
}

static focal_status place_tensors(foci_gguf_part *part, size_t infos_end, size_t alignment)
{
    const size_t size = part->map.bytes;
    const size_t start = rounded_up(infos_end, alignment);
    const size_t bytes = size > start ? size - start : 0;
    size_t expected = 0;
    for (int64_t n = 0; n < part->tensor_count; n++) {
        foci_gguf_tensor_entry *entry = &part->tensors[n];
        FOCAL_TRY(check_place(part, entry, alignment, bytes, expected));
        entry->tensor.data = part->map.data + start + entry->offset;
        expected = rounded_up((size_t)entry->offset + entry->tensor.bytes, alignment);
    }
    if (bytes > expected) /* what ends earlier lacks nothing but padding */
        return foci_fail(part->ctx, FOCAL_EFORMAT,
                         "%s: %zu bytes behind the last tensor, which ends at byte %zu", part->path,
                         bytes - expected, start + expected);
    return FOCAL_OK;
}

static focal_status read_alignment(const foci_gguf_part *part, size_t *out)
{
    int64_t alignment = FOCI_GGUF_DEFAULT_ALIGNMENT;
    FOCAL_TRY(foci_gguf_part_int(part, "general.alignment", FOCI_GGUF_LEAST_ALIGNMENT,
                                 FOCI_GGUF_MOST_ALIGNMENT, &alignment));
    if (!foci_gguf_is_alignment((uint64_t)alignment))
        return foci_fail(part->ctx, FOCAL_EFORMAT,
                         "%s: key 'general.alignment': %" PRId64 " is not a power of two",
                         part->path, alignment);
    *out = (size_t)alignment;
    return FOCAL_OK;
}

focal_status foci_gguf_part_read(foci_gguf_part *part)
{
    cursor c = {.part = part};
    uint64_t tensor_count = 0, key_count = 0;
    size_t alignment = FOCI_GGUF_DEFAULT_ALIGNMENT;
    FOCAL_TRY(read_header(&c, &tensor_count, &key_count));
    FOCAL_TRY(read_keys(part, &c, key_count));
    FOCAL_TRY(read_alignment(part, &alignment));
    (void)snprintf(c.what, sizeof c.what, "tensors");
    FOCAL_TRY(check_count(&c, "tensors", tensor_count, LEAST_TENSOR_BYTES, FOCI_GGUF_TENSORS));
    part->tensors = foci_alloc(part->ctx, tensor_count, sizeof *part->tensors);
    if (!part->tensors) return FOCAL_ENOMEM;
    part->tensor_count = (int64_t)tensor_count;
    for (int64_t n = 0; n < part->tensor_count; n++) {
        (void)snprintf(c.what, sizeof c.what, "tensor number %" PRId64, n + 1);
        FOCAL_TRY(read_tensor(&c, &part->tensors[n]));
    }
    return place_tensors(part, c.at, alignment);
}

void foci_gguf_part_free(foci_gguf_part *part)
{
    for (int64_t n = 0; n < part->entry_count; n++) foci_free(part->ctx, part->entries[n].made);
    foci_free(part->ctx, part->entries);
    foci_free(part->ctx, part->keys);
    foci_free(part->ctx, part->tensors);
    foci_free(part->ctx, part->path);
    if (part->is_mapped) foci_map_close(&part->map);
}
