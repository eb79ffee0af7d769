/* A model from inside: its file, configuration, weights and tokenizer together. */
#ifndef FOCI_MODEL_MODEL_H
#define FOCI_MODEL_MODEL_H

#include "focal/model.h"
#include "io/gguf.h"
#include "io/model_dir.h"
#include "io/safetensors.h"
#include "model/chains.h"
#include "model/config.h"
#include "model/model_weights.h"

enum { FOCI_FINGERPRINT_BYTES = 17 };

struct focal_model {
    focal_ctx *ctx;
    char *path;
    foci_gguf *gguf; /* or: */
    foci_model_dir *dir;
    foci_safetensors *safetensors;
    foci_config config;
    foci_model_weights weights;
    focal_tokenizer *tokenizer;
    focal_dtype precision;
    float inv_freq[2][FOCI_MAX_ROPE_PAIRS]; /* of global and of windowed layers */
    float rope_scale[2];
    focal_suggestion suggestion;
    /* What an adapter has added (focal_model_attach). */
    struct focal_adapter *adapter; /* that the model closes; NULL: none, or the caller's */
    const foci_groups *groups;     /* NULL: attention sees all keys */
    const foci_groups *near;   /* layers that have groups see window and sinks alone; NULL: no */
    const foci_groups *scaled; /* distant logits of its layers are multiplied; NULL: no */
    foci_groups_use use;
    uint64_t adapter_hash; /* names all of it that keys and values depend on; 0: nothing */
    foci_temperature *adapter_temperatures; /* (L) beside those of the layers; NULL: none */
    const foci_low_ranks *low_ranks;        /* that the layers point to; NULL: none. Set by
                                               foci_model_set_low_ranks() */
    foci_low_ranks
        *adapter_low_ranks; /* the same where an adapter gave them, in this model's order */
    char fingerprint[FOCI_FINGERPRINT_BYTES];
    char name[128], licence[64], temperature[256];
};

#endif /* FOCI_MODEL_MODEL_H */
