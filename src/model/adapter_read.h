/* The reader of adapters, a file at a time, for those that have the files in memory already. */
#ifndef FOCI_MODEL_ADAPTER_READ_H
#define FOCI_MODEL_ADAPTER_READ_H

#include "io/json.h"
#include "io/safetensors.h"
#include "model/adapter.h"

/* Which modules LoRA's files must have, as far as the configuration says it. */
typedef struct foci_lora_config {
    int32_t rank;
    double alpha;
    bool is_root_scaled;
    bool has_targets; /* these and no others; else those that there are tensors for */
    bool targets[FOCI_LORA_NAMES][FOCI_LINEAR_PLACES];
    bool has_layers; /* only these; else the targets of every layer */
    bool layers[FOCI_MAX_LAYERS];
} foci_lora_config;

/* What adapter_config.json says: of LoRA only lora and base are filled in. */
typedef struct foci_adapter_config {
    bool is_lora;
    foci_lora_config lora;
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
