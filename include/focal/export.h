/* Writing a model in another format or type: a GGUF file or a Hugging Face directory, from either.
 */
#ifndef FOCAL_EXPORT_H
#define FOCAL_EXPORT_H

#include "focal/base.h"

FOCAL_BEGIN_DECLS

/* All zero is the default. */
typedef struct focal_export_options {
    focal_dtype type; /* of matrices, with has_type; in a directory FOCAL_F32, FOCAL_F16 or
                         FOCAL_BF16, and of norms and biases too */
    bool has_type;    /* false: each tensor keeps its type; in a directory bfloat16 stands for the
                         quantised ones */
    bool replaces;    /* what is there under the name of the result */
    bool (*on_progress)(void *user, int64_t done_bytes, int64_t total_bytes); /* of the weights that
                         are written; false ends the export. May be NULL */
    void *user;
} focal_export_options;

typedef struct focal_export_result {
    int64_t tensor_count;
    int64_t bytes_before, bytes_after; /* of all tensors */
    int64_t fallback_count[32]; /* matrices whose rows are not whole blocks of the type, by the
                                   focal_dtype that they got */
} focal_export_result;

/* Writes the model at `in` (what focal_model_open() takes) to `out`: a GGUF file when that name
 * ends in .gguf, else a directory with config.json, model.safetensors (in files of 5 GB at most)
 * and what there is of tokenizer and chat template. Tensors pass one after the other. Norms,
 * biases and learned positions are float32 in GGUF. options and result may be NULL.
 *
 * FOCAL_EINVAL when out exists and must not be replaced, is in or equal to `in`, a directory is to
 * be quantised, or a number does not fit its type; FOCAL_EUNSUPPORTED when the other format cannot
 * say what the model computes; else as focal_model_open(), or FOCAL_EIO. When anything fails,
 * nothing new stays and what was there is as it was. */
FOCAL_API focal_status focal_model_export(focal_ctx *ctx, const char *in, const char *out,
                                          const focal_export_options *options,
                                          focal_export_result *result);

FOCAL_END_DECLS
#endif /* FOCAL_EXPORT_H */
