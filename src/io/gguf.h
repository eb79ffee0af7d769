/* GGUF, versions 2 and 3, as llama.cpp writes it: metadata by key, tensors by name, all of it
 * checked at opening and then read where it lies in the map. A model split over files
 * (NAME-00001-of-0000N.gguf) is opened by its first part and looks like one. */
#ifndef FOCI_IO_GGUF_H
#define FOCI_IO_GGUF_H

#include "io/file.h"
#include "io/names.h"
#include "io/tensor.h"

typedef struct foci_gguf foci_gguf;

/* The numbers are the format's. */
typedef enum foci_gguf_type {
    FOCI_GGUF_U8 = 0,
    FOCI_GGUF_I8 = 1,
    FOCI_GGUF_U16 = 2,
    FOCI_GGUF_I16 = 3,
    FOCI_GGUF_U32 = 4,
    FOCI_GGUF_I32 = 5,
    FOCI_GGUF_F32 = 6,
    FOCI_GGUF_BOOL = 7,
    FOCI_GGUF_STRING = 8,
    FOCI_GGUF_ARRAY = 9,
    FOCI_GGUF_U64 = 10,
    FOCI_GGUF_I64 = 11,
    FOCI_GGUF_F64 = 12
} foci_gguf_type;

/* What a file may hold at most. The format allows more; no model comes near. */
enum {
    FOCI_GGUF_KEY_BYTES = 255,
    FOCI_GGUF_NAME_BYTES = 127, /* of a tensor */
    FOCI_GGUF_KEYS = 1 << 16,
    FOCI_GGUF_TENSORS = 1 << 18, /* of one part */
    FOCI_GGUF_PARTS = 1024,
    FOCI_GGUF_LEAST_ALIGNMENT = 8, /* of a tensor's data; a power of two */
    FOCI_GGUF_MOST_ALIGNMENT = 1 << 20,
    FOCI_GGUF_DEFAULT_ALIGNMENT = 32
};

/* FOCAL_EIO, FOCAL_EFORMAT, or FOCAL_EUNSUPPORTED for another version, byte order or tensor type,
 * with the file, the field and the limit. *out is NULL then. Messages of later calls on the file go
 * to the same context. */
focal_status foci_gguf_open(focal_ctx *ctx, const char *path, foci_gguf **out);
/* The same from memory, which the caller keeps until the file is closed, at a multiple of the
 * alignment: parts[n] is part n of a model whose first part has this path. */
focal_status foci_gguf_from_memory(focal_ctx *ctx, const char *path, const foci_map *parts,
                                   int32_t part_count, foci_gguf **out);
/* foci_map_load() of every part. */
bool foci_gguf_load(const foci_gguf *gguf);
/* foci_map_set_writable() of every part, which are loaded; false: not of all. */
bool foci_gguf_set_writable(const foci_gguf *gguf, bool is_writable);
void foci_gguf_close(foci_gguf *gguf); /* NULL is fine */
const char *foci_gguf_path(const foci_gguf *gguf);

/* Metadata in file order, without the split.* keys of the format: a split model looks like one
 * file. Keys and tensor names are UTF-8 without control characters, and no two are equal. */
int64_t foci_gguf_key_count(const foci_gguf *gguf);
foci_text foci_gguf_key(const foci_gguf *gguf, int64_t index);
bool foci_gguf_has(const foci_gguf *gguf, const char *key);

/* A value as it lies in the file. */
typedef struct foci_gguf_value {
    foci_gguf_type type;
    foci_gguf_type element; /* of an array; else the type */
    int64_t count;          /* of an array; else 1 */
    foci_text raw;          /* little endian; a string is its length (u64) and its bytes */
} foci_gguf_value;

/* False, and *out stays, when the key is missing. */
bool foci_gguf_get_value(const foci_gguf *gguf, const char *key, foci_gguf_value *out);

/* Each leaves *out alone, and returns FOCAL_OK, when the key is missing; another type or a value
 * outside [least, most] is FOCAL_EFORMAT. Every integer type will do for get_int, f32, f64 and
 * integers for get_real (which must be finite). */
focal_status foci_gguf_get_int(const foci_gguf *gguf, const char *key, int64_t least, int64_t most,
                               int64_t *out);
focal_status foci_gguf_get_real(const foci_gguf *gguf, const char *key, double *out);
focal_status foci_gguf_get_bool(const foci_gguf *gguf, const char *key, bool *out);
focal_status foci_gguf_get_text(const foci_gguf *gguf, const char *key, foci_text *out);

/* Arrays, made on the first call and owned by the file: integers widened, reals as float and not
 * checked to be finite. A missing key gives NULL and count 0, as does a failure. Where a scalar
 * stands in place of an array it counts as one entry. An integer beyond int64_t is FOCAL_EFORMAT.
 */
focal_status foci_gguf_get_ints(foci_gguf *gguf, const char *key, const int64_t **out,
                                int64_t *count);
focal_status foci_gguf_get_reals(foci_gguf *gguf, const char *key, const float **out,
                                 int64_t *count);
focal_status foci_gguf_get_bools(foci_gguf *gguf, const char *key, const bool **out,
                                 int64_t *count);
focal_status foci_gguf_get_texts(foci_gguf *gguf, const char *key, const foci_text **out,
                                 int64_t *count);

int64_t foci_gguf_tensor_count(const foci_gguf *gguf);
const foci_tensor *foci_gguf_tensor_at(const foci_gguf *gguf, int64_t index);
const foci_tensor *foci_gguf_tensor(const foci_gguf *gguf, const char *name); /* NULL: none */

/* Writing: keys and tensors first, then commit lays the file out (version 3) and asks for each
 * tensor's bytes in turn, so no tensor is held in memory. Names and values are copied by put; the
 * data of tensors is not, and may be NULL when fill is given. A wrong name, type, shape or size is
 * FOCAL_EINVAL; a name that was put twice is told by commit. */
typedef struct foci_gguf_writer foci_gguf_writer;
focal_status foci_gguf_writer_new(focal_ctx *ctx, foci_gguf_writer **out);
void foci_gguf_writer_free(foci_gguf_writer *writer); /* NULL is fine */
/* The key general.alignment, a u32, sets the alignment of the file. */
focal_status foci_gguf_put_u32(foci_gguf_writer *writer, const char *key, uint32_t value);
focal_status foci_gguf_put_f32(foci_gguf_writer *writer, const char *key, float value);
focal_status foci_gguf_put_bool(foci_gguf_writer *writer, const char *key, bool value);
focal_status foci_gguf_put_text(foci_gguf_writer *writer, const char *key, foci_text value);
focal_status foci_gguf_put_i32s(foci_gguf_writer *writer, const char *key, const int32_t *values,
                                int64_t count);
focal_status foci_gguf_put_f32s(foci_gguf_writer *writer, const char *key, const float *values,
                                int64_t count);
focal_status foci_gguf_put_texts(foci_gguf_writer *writer, const char *key, const foci_text *values,
                                 int64_t count);
/* A key of another file, as it is there; FOCAL_EINVAL when it is not. */
focal_status foci_gguf_put_copy(foci_gguf_writer *writer, const foci_gguf *from, const char *key);
bool foci_gguf_writer_has(const foci_gguf_writer *writer, const char *key); /* put so far */
focal_status foci_gguf_put_tensor(foci_gguf_writer *writer, const foci_tensor *tensor);
/* fill hands out the bytes of tensor `index`; it may point at one buffer again and again. NULL: the
 * tensors' own data. The first status of fill that is not FOCAL_OK ends the commit. */
typedef focal_status (*foci_tensor_fill)(void *user, int64_t index, const void **data);
/* The file appears whole or not at all. The writer keeps what was put. */
focal_status foci_gguf_writer_commit(foci_gguf_writer *writer, const char *path,
                                     foci_tensor_fill fill, void *user);

#endif /* FOCI_IO_GGUF_H */
