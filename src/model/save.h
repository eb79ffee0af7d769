/* The result of training: a Hugging Face directory that focal and others run. */
#ifndef FOCI_MODEL_SAVE_H
#define FOCI_MODEL_SAVE_H

#include "model/trainable.h"

typedef struct foci_save_options {
    focal_dtype type;      /* FOCAL_F32 or FOCAL_BF16, of all tensors but what is learned of
                              temperatures, which stays float32 */
    const char *tokenizer; /* a tokenizer.json; NULL: none. Where tokenizer_config.json stands
                              beside it, that and the other small files of a model come along */
    int32_t context;       /* tokens that the model is for; 0: as its configuration says. GPT-2 has
                              as many as it has positions */
} foci_save_options;

/* Writes the masters as a directory of this name, which appears whole or not at all; a result that
 * is there is replaced at once, and files in it that are no model's stay. Temperatures become part
 * of the weights where that gives the same model (docs/TRAINING.md).
 *
 * FOCAL_EUNSUPPORTED when transformers' family has no words for the model, FOCAL_EINVAL on bad
 * options or a tokenizer with more ids than the model, FOCAL_EIO, FOCAL_EFORMAT, FOCAL_ENOMEM: what
 * was there is then as it was. */
focal_status foci_trainable_save(foci_trainable *trainable, const char *folder,
                                 const foci_save_options *options);

/* Whether a directory has words for this model: to be asked before a long run. */
focal_status foci_trainable_check_save(foci_trainable *trainable);

#endif /* FOCI_MODEL_SAVE_H */
