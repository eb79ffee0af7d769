/* One safetensors file: its header is checked against its data. Whatever is not exactly tiled by
 * its tensors is refused, as the format asks: no byte of a file is without a meaning. */
#include "io/safetensors_part.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/json.h"

enum {
    LENGTH_BYTES = 8,             /* before the header: its length */
    MAX_HEADER_BYTES = 100000000, /* the format's limit */
    MAX_NAME_BYTES = 256
};

static const foci_safetensors_type types[] = {
    {"F32", 32, true, FOCAL_F32},         {"BF16", 16, true, FOCAL_BF16},
    {"F16", 16, true, FOCAL_F16},         {"F64", 64, false, FOCAL_F32},
    {"I64", 64, false, FOCAL_F32},        {"U64", 64, false, FOCAL_F32},
    {"C64", 64, false, FOCAL_F32},        {"I32", 32, false, FOCAL_F32},
    {"U32", 32, false, FOCAL_F32},        {"I16", 16, false, FOCAL_F32},
    {"U16", 16, false, FOCAL_F32},        {"I8", 8, false, FOCAL_F32},
    {"U8", 8, false, FOCAL_F32},          {"BOOL", 8, false, FOCAL_F32},
    {"F8_E4M3", 8, false, FOCAL_F32},     {"F8_E5M2", 8, false, FOCAL_F32},
    {"F8_E8M0", 8, false, FOCAL_F32},     {"F8_E4M3FNUZ", 8, false, FOCAL_F32},
    {"F8_E5M2FNUZ", 8, false, FOCAL_F32}, {"F6_E2M3", 6, false, FOCAL_F32},
    {"F6_E3M2", 6, false, FOCAL_F32},     {"F4", 4, false, FOCAL_F32},
};

bool foci_safetensors_is_name(const char *name, size_t bytes)
{
    if (bytes < 1 || bytes > MAX_NAME_BYTES) return false;
    for (size_t n = 0; n < bytes; n++)
        if ((unsigned char)name[n] < 0x20 || name[n] == 0x7F) return false;
    return true;
}

focal_status foci_safetensors_check_name(focal_ctx *ctx, const char *path, const char *name,
                                         size_t bytes)
{
    if (foci_safetensors_is_name(name, bytes)) return FOCAL_OK;
    if (bytes < 1 || bytes > MAX_NAME_BYTES)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: a name has %zu bytes, it must have 1 to %d", path,
                         bytes, MAX_NAME_BYTES);
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: a name has a control character in it", path);
}

static const foci_safetensors_type *find_type(const foci_json *value)
{
    const char *name = foci_json_string(value);
    const size_t bytes = foci_json_length(value);
    for (size_t n = 0; name && n < FOCAL_COUNT(types); n++)
        if (bytes == strlen(types[n].name) && memcmp(name, types[n].name, bytes) == 0)
            return &types[n];
    return NULL;
}

static focal_status fail_type(focal_ctx *ctx, const char *path, const char *tensor,
                              const foci_json *value)
{
    const char *name = foci_json_string(value);
    if (!name)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: tensor '%s': dtype must be a string", path,
                         tensor);
    const bool is_shown = foci_safetensors_is_name(name, foci_json_length(value));
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: tensor '%s': dtype '%.32s' is not known", path,
                     tensor, is_shown ? name : "?");
}

/* The shape, and from it the bytes that the tensor must have. */
static focal_status read_shape(focal_ctx *ctx, const char *path, const foci_json *value,
                               foci_safetensors_entry *e)
{
    foci_tensor *t = &e->tensor;
    const int64_t dims = foci_json_count(value);
    if (!foci_json_is(value, FOCI_JSON_ARRAY))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: tensor '%s': shape must be an array", path,
                         t->name);
    if (dims > FOCI_TENSOR_DIMS)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s' has %" PRId64 " dimensions, at most %d are read", path,
                         t->name, dims, FOCI_TENSOR_DIMS);
    t->dims = dims > 0 ? (int32_t)dims : 1;
    size_t bits = e->type->bits;
    for (int32_t n = 0; n < FOCI_TENSOR_DIMS; n++) {
        t->shape[n] = n < dims ? foci_json_int(foci_json_at(value, n), -1) : 1;
        if (t->shape[n] < 1)
            return foci_fail(ctx, FOCAL_EFORMAT,
                             "%s: tensor '%s': dimension %d must be a whole number of at least 1",
                             path, t->name, n);
        if (!foci_size_mul(bits, (size_t)t->shape[n], &bits))
            return foci_fail(ctx, FOCAL_EFORMAT,
                             "%s: tensor '%s': its dimensions multiply to more than fits in memory",
                             path, t->name);
    }
    if (bits % 8 != 0)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: tensor '%s' has %zu bits, not whole bytes", path,
                         t->name, bits);
    t->bytes = bits / 8;
    return FOCAL_OK;
}

/* The place of the data, which must agree with type and shape. header_bytes has the length too. */
static focal_status read_place(focal_ctx *ctx, const foci_safetensors_part *p, size_t header_bytes,
                               const foci_json *value, foci_safetensors_entry *e)
{
    foci_tensor *t = &e->tensor;
    const size_t data_bytes = p->map.bytes - header_bytes;
    const int64_t begin = foci_json_int(foci_json_at(value, 0), -1);
    const int64_t end = foci_json_int(foci_json_at(value, 1), -1);
    if (foci_json_count(value) != 2 || begin < 0 || end < begin)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s': data_offsets must be two ascending whole numbers",
                         p->path, t->name);
    if ((uint64_t)end > data_bytes)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s' ends at byte %" PRId64 " of the data, the file has %zu",
                         p->path, t->name, end, data_bytes);
    if ((size_t)(end - begin) != t->bytes)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s' has %" PRId64 " bytes, its shape and type need %zu",
                         p->path, t->name, end - begin, t->bytes);
    const size_t alignment = e->type->bits >= 8 ? e->type->bits / 8 : 1;
    if ((header_bytes + (size_t)begin) % alignment != 0)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: tensor '%s' begins at byte %zu of the file, no multiple of %zu",
                         p->path, t->name, header_bytes + (size_t)begin, alignment);
    e->begin = (size_t)begin;
    t->data = p->map.data + header_bytes + begin;
    return FOCAL_OK;
}

static focal_status read_entry(focal_ctx *ctx, const foci_safetensors_part *p, size_t header_bytes,
                               const foci_json *value, foci_safetensors_entry *e)
{
    if (!foci_json_is(value, FOCI_JSON_OBJECT))
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: tensor '%s' must be an object", p->path,
                         e->tensor.name);
    const foci_json *dtype = foci_json_get(value, "dtype");
    e->type = find_type(dtype);
    if (!e->type) return fail_type(ctx, p->path, e->tensor.name, dtype);
    e->tensor.dtype = e->type->dtype;
    FOCAL_TRY(read_shape(ctx, p->path, foci_json_get(value, "shape"), e));
    return read_place(ctx, p, header_bytes, foci_json_get(value, "data_offsets"), e);
}

static focal_status check_metadata(focal_ctx *ctx, const char *path, const foci_json *value)
{
    bool is_fine = foci_json_is(value, FOCI_JSON_OBJECT);
    for (foci_json_member m = {0}; is_fine && foci_json_next(value, &m);)
        is_fine = foci_json_is(m.value, FOCI_JSON_STRING);
    if (is_fine) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EFORMAT, "%s: __metadata__ must be an object of strings", path);
}

/* Keeps what has no NUL in it. */
static focal_status keep_metadata(focal_ctx *ctx, foci_safetensors_part *p, const foci_json *value)
{
    size_t bytes = 0;
    for (foci_json_member m = {0}; foci_json_next(value, &m);)
        bytes += m.key_length + foci_json_length(m.value) + 2;
    if (bytes == 0) return FOCAL_OK;
    p->texts = foci_alloc(ctx, bytes, 1);
    if (!p->texts) return FOCAL_ENOMEM;
    for (foci_json_member m = {0}; foci_json_next(value, &m);) {
        const char *text = foci_json_string(m.value);
        const size_t length = strlen(text);
        if (length != foci_json_length(m.value)) continue;
        memcpy(p->texts + p->text_bytes, m.key, m.key_length + 1);
        memcpy(p->texts + p->text_bytes + m.key_length + 1, text, length + 1);
        p->text_bytes += m.key_length + length + 2;
    }
    return FOCAL_OK;
}

static bool is_metadata(const foci_json_member *m)
{
    return strcmp(m->key, "__metadata__") == 0; /* keys have no NUL */
}

/* Fills p->entries from the header; each keeps a copy of its name, as the tree goes. */
static focal_status read_entries(focal_ctx *ctx, foci_safetensors_part *p, size_t header_bytes,
                                 const foci_json *header)
{
    size_t name_bytes = 0;
    for (foci_json_member m = {0}; foci_json_next(header, &m);) name_bytes += m.key_length + 1;
    p->names = foci_alloc(ctx, name_bytes, 1);
    p->entries = foci_alloc(ctx, (size_t)foci_json_count(header), sizeof *p->entries);
    if (!p->names || !p->entries) return FOCAL_ENOMEM;
    char *name = p->names;
    for (foci_json_member m = {0}; foci_json_next(header, &m);) {
        if (is_metadata(&m)) {
            FOCAL_TRY(check_metadata(ctx, p->path, m.value));
            FOCAL_TRY(keep_metadata(ctx, p, m.value));
            continue;
        }
        FOCAL_TRY(foci_safetensors_check_name(ctx, p->path, m.key, m.key_length));
        memcpy(name, m.key, m.key_length + 1);
        foci_safetensors_entry *e = &p->entries[p->count++];
        *e = (foci_safetensors_entry){.tensor = {.name = name}};
        FOCAL_TRY(read_entry(ctx, p, header_bytes, m.value, e));
        name += m.key_length + 1;
    }
    return FOCAL_OK;
}

static int compare_places(const void *a, const void *b)
{
    const foci_safetensors_entry *x = a, *y = b;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

/* Tensors must cover the data without overlap or hole. None is empty, so sorted by their
 * beginnings each must begin where the one before it ends. */
static focal_status check_cover(focal_ctx *ctx, foci_safetensors_part *p, size_t data_bytes)
{
    qsort(p->entries, (size_t)p->count, sizeof *p->entries, compare_places);
    size_t end = 0;
    for (int64_t n = 0; n < p->count; n++) {
        const foci_safetensors_entry *e = &p->entries[n];
        if (e->begin < end)
            return foci_fail(ctx, FOCAL_EFORMAT, "%s: tensors '%s' and '%s' overlap at byte %zu",
                             p->path, p->entries[n - 1].tensor.name, e->tensor.name, e->begin);
        if (e->begin > end)
            return foci_fail(ctx, FOCAL_EFORMAT,
                             "%s: a hole of %zu bytes stands before tensor '%s'", p->path,
                             e->begin - end, e->tensor.name);
        end += e->tensor.bytes;
    }
    if (end != data_bytes)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: the tensors end at byte %zu of the data, the file has %zu", p->path,
                         end, data_bytes);
    return FOCAL_OK;
}

focal_status foci_safetensors_part_read(focal_ctx *ctx, foci_safetensors_part *p)
{
    if (p->map.bytes < LENGTH_BYTES)
        return foci_fail(ctx, FOCAL_EFORMAT, "%s: %zu bytes, a safetensors file has at least %d",
                         p->path, p->map.bytes, LENGTH_BYTES);
    uint64_t length = 0;
    for (int n = LENGTH_BYTES - 1; n >= 0; n--) length = length << 8 | p->map.data[n];
    const size_t rest = p->map.bytes - LENGTH_BYTES;
    if (length > MAX_HEADER_BYTES || length > rest)
        return foci_fail(ctx, FOCAL_EFORMAT,
                         "%s: a header of %" PRIu64 " bytes, at most %zu can be: no safetensors?",
                         p->path, length, rest < MAX_HEADER_BYTES ? rest : MAX_HEADER_BYTES);
    const size_t header_bytes = LENGTH_BYTES + (size_t)length;
    foci_json *header = NULL;
    focal_status status = foci_json_parse(ctx, p->path, (const char *)p->map.data + LENGTH_BYTES,
                                          (size_t)length, &header);
    if (status == FOCAL_OK && !foci_json_is(header, FOCI_JSON_OBJECT))
        status = foci_fail(ctx, FOCAL_EFORMAT, "%s: the header must be an object", p->path);
    if (status == FOCAL_OK) status = read_entries(ctx, p, header_bytes, header);
    if (status == FOCAL_OK) status = check_cover(ctx, p, p->map.bytes - header_bytes);
    foci_json_free(header);
    return status;
}
