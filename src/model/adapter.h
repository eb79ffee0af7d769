/* An adapter from inside. */
#ifndef FOCI_MODEL_ADAPTER_H
#define FOCI_MODEL_ADAPTER_H

#include "focal/adapter.h"
#include "model/groups.h"
#include "model/low_rank.h"
#include "model/model.h"

enum { FOCI_BASE_NAME_BYTES = 256, FOCI_VERSION_BYTES = 32, FOCI_TARGETS_BYTES = 128 };

/* Whose names LoRA's files have. */
typedef enum foci_lora_names {
    FOCI_LORA_LLAMA, /* of most families */
    FOCI_LORA_GPT2,
    FOCI_LORA_NAMES
} foci_lora_names;

struct focal_adapter {
    focal_ctx *ctx;
    char *path;
    foci_groups *groups;       /* or: */
    foci_low_ranks *low_ranks; /* in the order of files */
    foci_lora_names names;     /* of those */
    bool is_whole;             /* every layer of the model must have what one has */
    char targets[FOCI_TARGETS_BYTES];
    char base[FOCI_BASE_NAME_BYTES], fingerprint[FOCI_FINGERPRINT_BYTES];
    char checksum[FOCI_FINGERPRINT_BYTES]; /* of both files; "": it was read from memory */
    char version[FOCI_VERSION_BYTES];
    char *settings; /* JSON of how it was fitted, an object */
    int64_t steps;  /* that this names; -1: none */
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
/* The same of low-rank additions, which are in the model's order. All numbers are of the note's
 * type; is_causal says nothing here. */
focal_status foci_lora_write(const focal_model *model, const char *path,
                             const foci_low_ranks *low_ranks, const foci_adapter_note *note);

#endif /* FOCI_MODEL_ADAPTER_H */
