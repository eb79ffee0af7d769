/* Values of GGUF keys as C values: numbers of any width, and arrays made when they are first asked
 * for. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/gguf_part.h"

static const char *const type_names[] = {"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                         "bool", "string", "array", "u64", "i64", "f64"};

/* Of the integers that have one. */
static const uint64_t sign_bits[] = {[FOCI_GGUF_I8] = 1U << 7,
                                     [FOCI_GGUF_I16] = 1U << 15,
                                     [FOCI_GGUF_I32] = 1U << 31,
                                     [FOCI_GGUF_I64] = (uint64_t)1 << 63,
                                     [FOCI_GGUF_F64] = 0};

static focal_status wrong_type(const foci_gguf_part *part, const foci_gguf_entry *entry,
                               const char *wanted)
{
    const foci_gguf_value *value = &entry->value;
    return foci_fail(part->ctx, FOCAL_EFORMAT, "%s: key '%.*s': %s%s, wanted %s", part->path,
                     (int)entry->key.bytes, entry->key.data, type_names[value->element],
                     value->type == FOCI_GGUF_ARRAY ? "s in an array" : "", wanted);
}

/* An integer of any type, widened; false when it does not fit, which u64 alone can bring about. */
static bool read_int(foci_gguf_type type, const char *from, int64_t *out)
{
    const size_t bytes = foci_gguf_type_bytes(type);
    uint64_t bits = 0;
    for (size_t n = 0; n < bytes; n++) bits |= (uint64_t)(uint8_t)from[n] << 8 * n;
    const uint64_t sign = sign_bits[type];
    if (sign == 0 && bits > INT64_MAX) return false;
    *out = (int64_t)((bits ^ sign) - sign); /* copies the sign into the bytes above */
    return true;
}

static bool is_int(foci_gguf_type type)
{
    return type != FOCI_GGUF_F32 && type != FOCI_GGUF_F64 && type != FOCI_GGUF_BOOL &&
           type != FOCI_GGUF_STRING && type != FOCI_GGUF_ARRAY;
}

static bool is_real(foci_gguf_type type)
{
    return type == FOCI_GGUF_F32 || type == FOCI_GGUF_F64;
}

static double read_real(foci_gguf_type type, const char *from)
{
    if (type == FOCI_GGUF_F32) {
        const uint32_t bits = foci_read_u32(from);
        float value;
        memcpy(&value, &bits, sizeof value);
        return (double)value;
    }
    const uint64_t bits = foci_read_u64(from);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static focal_status too_wide(const foci_gguf_part *part, const foci_gguf_entry *entry)
{
    return foci_fail(part->ctx, FOCAL_EFORMAT, "%s: key '%.*s': an integer beyond 2^63 - 1",
                     part->path, (int)entry->key.bytes, entry->key.data);
}

focal_status foci_gguf_part_int(const foci_gguf_part *part, const char *key, int64_t least,
                                int64_t most, int64_t *out)
{
    const foci_gguf_entry *entry = foci_gguf_part_find(part, key);
    if (!entry) return FOCAL_OK;
    if (!is_int(entry->value.type)) return wrong_type(part, entry, "an integer");
    int64_t value = 0;
    if (!read_int(entry->value.type, entry->value.raw.data, &value)) return too_wide(part, entry);
    if (value < least || value > most)
        return foci_fail(part->ctx, FOCAL_EFORMAT,
                         "%s: key '%s': %" PRId64 ", allowed are %" PRId64 " to %" PRId64,
                         part->path, key, value, least, most);
    *out = value;
    return FOCAL_OK;
}

focal_status foci_gguf_get_int(const foci_gguf *gguf, const char *key, int64_t least, int64_t most,
                               int64_t *out)
{
    return foci_gguf_part_int(&gguf->parts[0], key, least, most, out);
}

focal_status foci_gguf_get_real(const foci_gguf *gguf, const char *key, double *out)
{
    const foci_gguf_part *part = &gguf->parts[0];
    const foci_gguf_entry *entry = foci_gguf_part_find(part, key);
    if (!entry) return FOCAL_OK;
    const foci_gguf_type type = entry->value.type;
    double value = 0.0;
    int64_t integer = 0;
    if (is_real(type))
        value = read_real(type, entry->value.raw.data);
    else if (!is_int(type))
        return wrong_type(part, entry, "a number");
    else if (read_int(type, entry->value.raw.data, &integer))
        value = (double)integer;
    else
        return too_wide(part, entry);
    if (!isfinite(value))
        return foci_fail(part->ctx, FOCAL_EFORMAT, "%s: key '%s': %f is not a finite number",
                         part->path, key, value);
    *out = value;
    return FOCAL_OK;
}

focal_status foci_gguf_get_bool(const foci_gguf *gguf, const char *key, bool *out)
{
    const foci_gguf_part *part = &gguf->parts[0];
    const foci_gguf_entry *entry = foci_gguf_part_find(part, key);
    if (!entry) return FOCAL_OK;
    if (entry->value.type != FOCI_GGUF_BOOL) return wrong_type(part, entry, "a bool");
    *out = entry->value.raw.data[0] != 0;
    return FOCAL_OK;
}

focal_status foci_gguf_get_text(const foci_gguf *gguf, const char *key, foci_text *out)
{
    const foci_gguf_part *part = &gguf->parts[0];
    const foci_gguf_entry *entry = foci_gguf_part_find(part, key);
    if (!entry) return FOCAL_OK;
    if (entry->value.type != FOCI_GGUF_STRING) return wrong_type(part, entry, "a string");
    *out = (foci_text){entry->value.raw.data + 8, entry->value.raw.bytes - 8};
    return FOCAL_OK;
}

/* One kind of array: which elements it takes, and how `count` of them become C values. */
typedef struct array_kind {
    const char *wanted;
    bool (*takes)(foci_gguf_type type);
    size_t size;                                              /* of a C value */
    bool (*make)(const foci_gguf_value *value, void *values); /* false: one does not fit */
} array_kind;

static bool make_ints(const foci_gguf_value *value, void *values)
{
    const size_t bytes = foci_gguf_type_bytes(value->element);
    int64_t *out = values;
    for (int64_t n = 0; n < value->count; n++)
        if (!read_int(value->element, value->raw.data + n * bytes, &out[n])) return false;
    return true;
}

static bool make_reals(const foci_gguf_value *value, void *values)
{
    const size_t bytes = foci_gguf_type_bytes(value->element);
    float *out = values;
    for (int64_t n = 0; n < value->count; n++)
        out[n] = (float)read_real(value->element, value->raw.data + n * bytes);
    return true;
}

static bool is_bool(foci_gguf_type type)
{
    return type == FOCI_GGUF_BOOL;
}

static bool make_bools(const foci_gguf_value *value, void *values)
{
    bool *out = values;
    for (int64_t n = 0; n < value->count; n++) out[n] = value->raw.data[n] != 0;
    return true;
}

static bool is_string(foci_gguf_type type)
{
    return type == FOCI_GGUF_STRING;
}

/* The lengths were checked when the file was opened. */
static bool make_texts(const foci_gguf_value *value, void *values)
{
    foci_text *out = values;
    const char *at = value->raw.data;
    for (int64_t n = 0; n < value->count; n++) {
        out[n] = (foci_text){at + 8, (size_t)foci_read_u64(at)};
        at += 8 + out[n].bytes;
    }
    return true;
}

/* A value has one element type, so it can become one kind of array only: one place keeps it. */
static focal_status get_array(foci_gguf *gguf, const char *key, const array_kind *kind,
                              const void **out, int64_t *count)
{
    const foci_gguf_part *part = &gguf->parts[0];
    foci_gguf_entry *entry = foci_gguf_part_find(part, key);
    *out = NULL;
    *count = 0;
    if (!entry) return FOCAL_OK;
    if (!kind->takes(entry->value.element)) return wrong_type(part, entry, kind->wanted);
    if (!entry->made) {
        void *values = foci_alloc(part->ctx, (size_t)entry->value.count, kind->size);
        if (!values) return FOCAL_ENOMEM;
        if (!kind->make(&entry->value, values)) {
            foci_free(part->ctx, values);
            return too_wide(part, entry);
        }
        entry->made = values;
    }
    *out = entry->made;
    *count = entry->value.count;
    return FOCAL_OK;
}

focal_status foci_gguf_get_ints(foci_gguf *gguf, const char *key, const int64_t **out,
                                int64_t *count)
{
    static const array_kind kind = {"integers", is_int, sizeof(int64_t), make_ints};
    const void *values = NULL;
    const focal_status status = get_array(gguf, key, &kind, &values, count);
    *out = values;
    return status;
}

focal_status foci_gguf_get_reals(foci_gguf *gguf, const char *key, const float **out,
                                 int64_t *count)
{
    static const array_kind kind = {"f32s or f64s", is_real, sizeof(float), make_reals};
    const void *values = NULL;
    const focal_status status = get_array(gguf, key, &kind, &values, count);
    *out = values;
    return status;
}

focal_status foci_gguf_get_bools(foci_gguf *gguf, const char *key, const bool **out, int64_t *count)
{
    static const array_kind kind = {"bools", is_bool, sizeof(bool), make_bools};
    const void *values = NULL;
    const focal_status status = get_array(gguf, key, &kind, &values, count);
    *out = values;
    return status;
}

focal_status foci_gguf_get_texts(foci_gguf *gguf, const char *key, const foci_text **out,
                                 int64_t *count)
{
    static const array_kind kind = {"strings", is_string, sizeof(foci_text), make_texts};
    const void *values = NULL;
    const focal_status status = get_array(gguf, key, &kind, &values, count);
    *out = values;
    return status;
}
