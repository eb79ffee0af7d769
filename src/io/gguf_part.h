/* One GGUF file of a model, parsed and checked: what the reader, its look-ups and the writer share.
 * gguf.h is the contract for everybody else. */
#ifndef FOCI_IO_GGUF_PART_H
#define FOCI_IO_GGUF_PART_H

#include "io/gguf.h"

typedef struct foci_gguf_entry {
    foci_text key;
    foci_gguf_value value;
    void *made; /* the array that a look-up made of the value, or NULL */
} foci_gguf_entry;

typedef struct foci_gguf_tensor_entry {
    foci_tensor tensor;
    uint64_t offset; /* in the part's data */
    char name[FOCI_GGUF_NAME_BYTES + 1];
} foci_gguf_tensor_entry;

typedef struct foci_gguf_part {
    focal_ctx *ctx;
    char *path;
    foci_map map;
    bool is_mapped; /* by us; else the memory is the caller's */
    foci_gguf_entry *entries;
    int64_t entry_count;
    foci_name *keys; /* (entry_count), sorted */
    foci_gguf_tensor_entry *tensors;
    int64_t tensor_count;
} foci_gguf_part;

struct foci_gguf {
    focal_ctx *ctx;
    foci_gguf_part *parts; /* the first has the model's keys */
    int32_t part_count;
    foci_tensor *tensors; /* (tensor_count) of all parts; names and data are the parts' */
    foci_name *names;     /* (tensor_count), sorted */
    int64_t tensor_count;
    const foci_map *given; /* (given_count) parts in memory; NULL: they are files */
    int32_t given_count;
};

/* Parses the part's map into the rest of it. What a failure leaves is freed with the part. */
focal_status foci_gguf_part_read(foci_gguf_part *part);
void foci_gguf_part_free(foci_gguf_part *part);

/* Sorts the keys again after the entries have changed; fails on a key that stands there twice. */
focal_status foci_gguf_part_index(foci_gguf_part *part);
foci_gguf_entry *foci_gguf_part_find(const foci_gguf_part *part, const char *key); /* NULL: none */
/* As foci_gguf_get_int. */
focal_status foci_gguf_part_int(const foci_gguf_part *part, const char *key, int64_t least,
                                int64_t most, int64_t *out);

/* The format's number of a type of ours and back; false when it has none. */
bool foci_gguf_type_of(focal_dtype dtype, uint32_t *type);
bool foci_gguf_dtype_of(uint32_t type, focal_dtype *dtype);

/* Bytes of a value of that type; 0 for strings, arrays and what is no type. */
size_t foci_gguf_type_bytes(uint32_t type);

/* True for a multiple of nothing but two within the limits. */
bool foci_gguf_is_alignment(uint64_t alignment);

/* Bytes of a tensor of this type and shape; NULL when all is well, else what is wrong with it. */
const char *foci_gguf_tensor_bytes(focal_dtype dtype, int32_t dims, const int64_t *shape,
                                   size_t *bytes);

/* Numbers of the format, at any address. */
uint32_t foci_read_u32(const void *from);
uint64_t foci_read_u64(const void *from);

#endif /* FOCI_IO_GGUF_PART_H */
