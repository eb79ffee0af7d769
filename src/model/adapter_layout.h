/* How an adapter lies in its directory: what its reader and its writer have in common. */
#ifndef FOCI_MODEL_ADAPTER_LAYOUT_H
#define FOCI_MODEL_ADAPTER_LAYOUT_H

#include "io/file.h"
#include "io/names.h"
#include "io/tensor.h"
#include "model/adapter.h"

#define FOCI_ADAPTER_CONFIG "adapter_config.json"
#define FOCI_ADAPTER_TENSORS "adapter_model.safetensors"

enum { FOCI_ADAPTER_NAME_BYTES = 80 };

/* ---- Of groups ---- */

/* "base_model.model.layers.3.self_attn.router.pk", "....self_attn.log_temperature",
 * "base_model.model.log_distant_scale". */
void foci_adapter_tensor_name(int32_t layer, foci_group_tensor which,
                              char name[FOCI_ADAPTER_NAME_BYTES]);
/* The way back. False: no such tensor belongs to an adapter of this shape. */
bool foci_adapter_tensor_place(const foci_groups_shape *shape, const char *name, int32_t *layer,
                               foci_group_tensor *which);
/* Its dims and shape; the rest is 0. The shape must be within the limits. */
foci_tensor foci_adapter_tensor_shape(const foci_groups_shape *shape, foci_group_tensor which);

/* FOCAL_OK when nothing is NaN or infinite, and logarithms are of temperatures and scales that
 * queries can have; else `status`, with path, tensor, place and value. */
focal_status foci_adapter_check_numbers(focal_ctx *ctx, focal_status status, const char *path,
                                        const char *name, const float *numbers, int64_t count);

/* ---- Of both kinds (adapter_note.c) ---- */

bool foci_is_fingerprint(const char *text);
/* FOCAL_EINVAL for what the reader would refuse. */
focal_status foci_adapter_check_note(focal_ctx *ctx, const foci_adapter_note *note);
/* A model's name may be anything; what the reader would refuse is cut, or left out. */
foci_text foci_adapter_base_text(const char *name);
/* The version that writes. */
void foci_adapter_version(char version[FOCI_VERSION_BYTES]);
/* A member's name behind those before it, each on a line of its own. */
void foci_adapter_put_key(foci_writer *file, const char *key);
/* To bfloat16; FOCAL_EINVAL for a number that is beyond it. */
focal_status foci_adapter_round(focal_ctx *ctx, const char *path, const float *numbers,
                                int64_t count, uint16_t *rounded);

#endif /* FOCI_MODEL_ADAPTER_LAYOUT_H */
