/* One safetensors file from inside: what the reader keeps of it. A model has one or several. */
#ifndef FOCI_IO_SAFETENSORS_PART_H
#define FOCI_IO_SAFETENSORS_PART_H

#include "io/file.h"
#include "io/safetensors.h"

typedef struct foci_safetensors_type {
    const char *name; /* the format's word */
    size_t bits;
    bool is_readable;
    focal_dtype dtype; /* of a readable one */
} foci_safetensors_type;

typedef struct foci_safetensors_entry {
    foci_tensor tensor;
    const foci_safetensors_type *type;
    size_t begin; /* where its data lie behind the header */
    int64_t part; /* which file */
} foci_safetensors_entry;

typedef struct foci_safetensors_part {
    char *path;
    foci_map map;
    bool is_borrowed;                /* the map is the caller's memory */
    char *names;                     /* of all entries, one behind the other */
    foci_safetensors_entry *entries; /* (count), in the order of their data */
    int64_t count;
    char *texts; /* of the metadata: keys and values by turns, each with its NUL; NULL: none */
    size_t text_bytes;
} foci_safetensors_part;

/* Reads the header in p->map and fills in names, entries, count and texts; the caller frees them,
 * after a failure too. */
focal_status foci_safetensors_part_read(focal_ctx *ctx, foci_safetensors_part *p);

/* FOCAL_EFORMAT with path in the sentence when foci_safetensors_is_name says no. Names reach
 * messages, so this comes before any message that has one. */
focal_status foci_safetensors_check_name(focal_ctx *ctx, const char *path, const char *name,
                                         size_t bytes);

#endif /* FOCI_IO_SAFETENSORS_PART_H */
