/* The parts of a model by their names in each file format: one table, for finding tensors and for
 * writing them. */
#ifndef FOCI_MODEL_WEIGHT_NAMES_H
#define FOCI_MODEL_WEIGHT_NAMES_H

#include "model/config.h"

enum { FOCI_WEIGHT_NAME_BYTES = 160 };

/* NULL: not in such files. */
typedef struct foci_weight_names {
    const char *prefix; /* in front of every name; "" mostly */
    const char *embed, *positions, *final_norm, *head;
    const char *layer; /* in front of its number */
    const char *attn_norm, *attn_post, *ffn_norm, *ffn_post, *q_norm, *k_norm;
    const char *qkv, *q, *k, *v, *out, *gate, *up, *down;
    const char *temperature; /* what is learned of one */
} foci_weight_names;

foci_weight_names foci_weight_names_gguf(void);
foci_weight_names foci_weight_names_hf(const foci_config *config);

/* "PART.SUFFIX" of a layer, -1: of the model. */
void foci_weight_name(const foci_weight_names *names, int32_t layer, const char *part,
                      const char *suffix, char name[FOCI_WEIGHT_NAME_BYTES]);

#endif /* FOCI_MODEL_WEIGHT_NAMES_H */
