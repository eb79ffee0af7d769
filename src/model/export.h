/* An export from inside: what is to be written, settled before the first byte is. export.c has the
 * order of things, and one file each has tensors, GGUF keys, config.json, what is said about a
 * model, rope and the place.
 */
#ifndef FOCI_MODEL_EXPORT_H
#define FOCI_MODEL_EXPORT_H

#include "focal/export.h"
#include "io/file.h"
#include "io/gguf.h"
#include "io/tensor.h"
#include "model/model.h"
#include "model/weight_names.h"

/* A tensor of the result and the rows that it is made of. */
typedef struct foci_export_item {
    char name[FOCI_WEIGHT_NAME_BYTES];
    foci_tensor tensor;    /* as it is written, without its name and data */
    const void *data;      /* (rows, columns) */
    focal_dtype dtype;     /* of data */
    int64_t rows, columns; /* of data; a bias is rows of one number */
    float offset;          /* added to every number */
    const float *divisors; /* (H) of the query's heads, before offset is added; NULL: none */
    int64_t divided;       /* so many outputs are of heads, the rest stays */
    bool divides_columns;  /* outputs are the columns of data, else its rows */
    bool is_turned;        /* rows are reordered within each head */
    bool is_transposed;    /* columns become rows */
} foci_export_item;

typedef struct foci_export {
    focal_ctx *ctx;
    focal_model *model;
    focal_export_options options;
    focal_export_result result;
    char *out; /* without slashes at its end */
    bool to_gguf;
    const foci_family *family; /* of the result: what is mistral in a directory is llama in GGUF */
    foci_rope_config rope;     /* of the result's global layers; divisors are of a GGUF's tensor */
    float divisors[FOCI_MAX_ROPE_PAIRS];
    bool keeps_temperature;   /* in keys of its own, under a name that others refuse */
    float *divisors_of_heads; /* (L,H) temperatures that go into the weights; NULL: none do */
    foci_export_item *items;  /* (item_count) */
    int64_t item_count, item_capacity;
    float *floats;    /* numbers on their way between two types */
    float *expanded;  /* a whole matrix that is to be transposed */
    uint8_t *written; /* the tensor at hand */
    int64_t done_bytes;
} foci_export;

/* The family of the result. */
const foci_family *foci_export_family(const foci_export *e);

/* Puts the model's temperature into the weights where that gives the same model, or else lets the
 * result keep it. */
focal_status foci_export_fold(foci_export *e);
/* What the result says of a temperature that it keeps: the object itself, and keys of GGUF. */
void foci_export_write_temperature(const foci_export *e, foci_writer *file);
focal_status foci_export_put_temperature(const foci_export *e, foci_gguf_writer *writer,
                                         const char *prefix);

/* The list of tensors, and memory for the largest. */
focal_status foci_export_plan(foci_export *e);
/* Hands out the bytes of an item, for the writers; user is the export. */
focal_status foci_export_fill(void *user, int64_t index, const void **data);
/* The type that most of the result's numbers have. */
focal_dtype foci_export_main_type(const foci_export *e);

/* What the result says of rotation; fails when its format has no words for it. */
focal_status foci_export_rope(foci_export *e);

/* Both fail when the model has what the other format cannot say. */
focal_status foci_export_gguf(foci_export *e);
focal_status foci_export_config(foci_export *e, const char *folder); /* writes config.json */
/* Whether config.json could be written. */
focal_status foci_export_check_config(const foci_export *e);
/* Writes the weights of a directory. */
focal_status foci_export_weights(foci_export *e, const char *folder);
/* Frees what the others have taken, but not the model. */
void foci_export_release(foci_export *e);

/* What a GGUF file says in general.* keys that have no other place, as a last member of
 * config.json; and such a member of a directory's config.json as keys. */
focal_status foci_export_write_metadata(const foci_export *e, foci_writer *file);
focal_status foci_export_put_metadata(foci_export *e, foci_gguf_writer *writer);

/* Fails when the result may not stand where it is to. */
focal_status foci_export_check_place(focal_ctx *ctx, const char *in, const char *out, bool to_gguf,
                                     bool replaces);
/* A folder for the result's files, which takes out's name once they are whole; free the path. */
focal_status foci_export_open_folder(focal_ctx *ctx, const char *out, char **folder);
focal_status foci_export_commit_folder(focal_ctx *ctx, const char *folder, const char *out);
void foci_export_remove_folder(const char *folder); /* with its files */
/* A file, byte for byte, when it is there; and one of a folder. */
focal_status foci_export_copy(focal_ctx *ctx, const char *from, const char *to);
focal_status foci_export_copy_file(focal_ctx *ctx, const char *from, const char *to,
                                   const char *name);
/* The files of tokenizer, template and generation that a model directory has. */
focal_status foci_export_copy_files(focal_ctx *ctx, const char *from, const char *to);

#endif /* FOCI_MODEL_EXPORT_H */
