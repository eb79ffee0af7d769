/* The reader of adapters, a file at a time, for those that have the files in memory already. */
#ifndef FOCI_MODEL_ADAPTER_READ_H
#define FOCI_MODEL_ADAPTER_READ_H

#include "io/json.h"
#include "io/safetensors.h"
#include "model/adapter.h"

/* What adapter_config.json says. */
typedef struct foci_adapter_config {
    foci_groups_shape shape; /* within the limits */
    int32_t top, top_fit, window, sinks;
    char base[FOCI_BASE_NAME_BYTES], fingerprint[FOCI_FINGERPRINT_BYTES];
    char version[FOCI_VERSION_BYTES];
    char *settings; /* foci_free() it, after a failure too; NULL is fine */
    bool is_causal;
} foci_adapter_config;

/* FOCAL_EFORMAT, or FOCAL_EUNSUPPORTED for another kind of adapter or a key that might change what
 * is computed; `what` begins the sentence. */
focal_status foci_adapter_read_config(focal_ctx *ctx, const char *what, const foci_json *json,
                                      foci_adapter_config *out);

/* The adapter of a configuration, whose settings it takes over, and of the tensors, which it
 * copies. path is what it is called. FOCAL_EFORMAT, or FOCAL_EUNSUPPORTED for tensors that have no
 * place. */
focal_status foci_adapter_new(focal_ctx *ctx, const char *path, foci_adapter_config *config,
                              const foci_safetensors *tensors, focal_adapter **out);

#endif /* FOCI_MODEL_ADAPTER_READ_H */
