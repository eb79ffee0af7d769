/* Models without a file behind them, for unit tests and fuzz targets: from a GGUF file in memory,
 * or from a configuration alone, with numbers made up for every weight. */
#ifndef FOCAL_TESTS_MEMORY_MODEL_H
#define FOCAL_TESTS_MEMORY_MODEL_H

#include "model/model.h"

/* As focal_model_open does it, but for the tokenizer: configuration, weights, frequencies. gguf
 * stays the caller's. On failure *out is empty. */
focal_status memory_model_from_gguf(focal_ctx *ctx, foci_gguf *gguf, focal_dtype precision,
                                    focal_model *out);

/* Whether a configuration is small enough for memory_model_from_config() and for a pass. */
bool memory_model_is_small(const foci_config *config);

/* Every matrix is one block of numbers, every norm and bias another. FOCAL_EINVAL when the rope is
 * out of range. */
focal_status memory_model_from_config(focal_ctx *ctx, const foci_config *config,
                                      focal_dtype precision, focal_model *out);
void memory_model_release(focal_model *model); /* an empty one is fine */

/* Reads two tokens into a cache of its own, then one more; logits are (V) floats or NULL. */
focal_status memory_model_run(focal_model *model, void *logits);

#endif /* FOCAL_TESTS_MEMORY_MODEL_H */
