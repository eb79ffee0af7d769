/* safetensors, as Hugging Face stores weights: a JSON header with every tensor's type, shape and
 * place, then the data. All of it is checked at opening and then read where it lies in the map. A
 * model in several files is opened by its index (model.safetensors.index.json) and looks like one.
 */
#ifndef FOCI_IO_SAFETENSORS_H
#define FOCI_IO_SAFETENSORS_H

#include "io/tensor.h"

typedef struct foci_safetensors foci_safetensors;

/* A path that ends in ".index.json" is an index, and its files lie beside it; any other is one
 * file. Fails with FOCAL_EIO, or with FOCAL_EFORMAT and a sentence that has the file, the tensor
 * and the limit. */
focal_status foci_safetensors_open(focal_ctx *ctx, const char *path, foci_safetensors **out);
/* One file that is in memory already, at a multiple of 8; `what` names it in messages. data stays
 * the caller's and must outlive the object. */
focal_status foci_safetensors_parse(focal_ctx *ctx, const char *what, const void *data,
                                    size_t bytes, foci_safetensors **out);
/* foci_map_load() of every file. */
bool foci_safetensors_load(const foci_safetensors *file);
void foci_safetensors_close(foci_safetensors *file); /* NULL is fine */
const char *foci_safetensors_path(const foci_safetensors *file);

/* Tensors of float32, float16 and bfloat16, file after file, in the order of their data. */
int64_t foci_safetensors_tensor_count(const foci_safetensors *file);
const foci_tensor *foci_safetensors_tensor_at(const foci_safetensors *file, int64_t index);
const foci_tensor *foci_safetensors_tensor(const foci_safetensors *file, const char *name);

/* Tensors of the format's other types: checked like the rest, but there is nothing here that could
 * read them. Both strings live as long as the file is open. */
typedef struct foci_safetensors_other {
    const char *name;
    const char *type; /* the format's word: "I64", "BOOL", ... */
} foci_safetensors_other;
int64_t foci_safetensors_other_count(const foci_safetensors *file);
foci_safetensors_other foci_safetensors_other_at(const foci_safetensors *file, int64_t index);

/* What the file says about itself under a key of its metadata (of a model in several files, what
 * the first of them says that has it); NULL: nothing, or a text with a NUL in it. UTF-8, maybe with
 * control characters; it lives as long as the file is open. */
const char *foci_safetensors_text(const foci_safetensors *file, const char *key);

/* Writing: tensors are declared first, then commit lays the files out and asks for the bytes of one
 * after the other, so nothing is held in memory. */
typedef struct foci_safetensors_writer foci_safetensors_writer;
focal_status foci_safetensors_writer_new(focal_ctx *ctx, foci_safetensors_writer **out);
void foci_safetensors_writer_free(foci_safetensors_writer *writer); /* NULL is fine */
/* float32, float16 or bfloat16. The name and the shape are copied; data, which may be NULL when
 * commit gets a fill, must stay until then. FOCAL_EINVAL for another type, a shape that does not
 * give tensor->bytes, or a name that is not 1 to 256 characters of printable ASCII. */
focal_status foci_safetensors_put_tensor(foci_safetensors_writer *writer,
                                         const foci_tensor *tensor);

/* Something about the file under a key of its metadata, beside "format". Both are copied.
 * FOCAL_EINVAL unless both can stand in one line. */
focal_status foci_safetensors_put_text(foci_safetensors_writer *writer, const char *key,
                                       const char *text);

enum { FOCI_SAFETENSORS_SHARD_MB = 5000 }; /* what other programs split at */

/* Writes path, which must end in ".safetensors"; or, when the tensors have more than shard_bytes
 * (0: FOCI_SAFETENSORS_SHARD_MB million), files of at most that beside it
 * (NAME-00001-of-0000N.safetensors) and path.index.json. A tensor larger than the limit gets a file
 * of its own. fill is asked in the order of the data, float32 first; NULL: the tensors' own data.
 * FOCAL_EINVAL for two tensors of one name, or when one file is there where shards are to be, or an
 * index where one file is to be: readers would take the wrong one. When anything fails, no new file
 * stays. */
focal_status foci_safetensors_writer_commit(foci_safetensors_writer *writer, const char *path,
                                            size_t shard_bytes, foci_tensor_fill fill, void *user);

/* Whether the bytes can be a tensor's name in our files and messages: 1 to 256, none of them a
 * control character. For the reader and the writer. */
bool foci_safetensors_is_name(const char *name, size_t bytes);

#endif /* FOCI_IO_SAFETENSORS_H */
