/* An adapter from inside. */
#ifndef FOCI_MODEL_ADAPTER_H
#define FOCI_MODEL_ADAPTER_H

#include "focal/adapter.h"
#include "model/groups.h"
#include "model/model.h"

enum { FOCI_BASE_NAME_BYTES = 256, FOCI_VERSION_BYTES = 32 };

struct focal_adapter {
    focal_ctx *ctx;
    char *path;
    foci_groups *groups;
    char base[FOCI_BASE_NAME_BYTES], fingerprint[FOCI_FINGERPRINT_BYTES];
    char version[FOCI_VERSION_BYTES];
    char *settings; /* JSON of how it was fitted, an object */
    bool is_causal;
    focal_dtype dtype; /* in the file */
};

/* What is written beside the groups. */
typedef struct foci_adapter_note {
    const char *base, *fingerprint;
    const char *settings; /* a JSON object, or NULL: {} */
    bool is_causal;
    focal_dtype dtype; /* FOCAL_BF16 or FOCAL_F32 */
} foci_adapter_note;

/* Writes adapter_config.json and adapter_model.safetensors into a directory, which is made where
 * it is missing; each file appears whole or not at all. */
focal_status foci_adapter_write(focal_ctx *ctx, const char *path, const foci_groups *groups,
                                const foci_adapter_note *note);

#endif /* FOCI_MODEL_ADAPTER_H */
