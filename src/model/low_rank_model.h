/* Low-rank additions on a model: made for it, put on it, and in the order that files have. */
#ifndef FOCI_MODEL_LOW_RANK_MODEL_H
#define FOCI_MODEL_LOW_RANK_MODEL_H

#include <stddef.h>

#include "model/model.h"
#include "model/weight_names.h"

/* Which layers get an addition, and how it begins. */
typedef struct foci_low_rank_choice {
    int32_t rank;
    double alpha;                    /* 0: twice the rank */
    bool is_root_scaled;             /* alpha / sqrt(rank) instead of alpha / rank */
    bool places[FOCI_LINEAR_PLACES]; /* those that the model does not have are left out; that of q,
                                        k or v stands for all three where they are one */
    const bool *layers;              /* (L); NULL: all */
    uint64_t seed;
} foci_low_rank_choice;

/* A is uniform within 1 / sqrt(K), B is 0, as peft begins: the model computes what it did. A number
 * depends on the seed and its place. FOCAL_EINVAL for a rank out of range, or when no layer gets
 * any; FOCAL_ENOMEM. */
focal_status foci_low_ranks_begin(const focal_model *model, const foci_low_rank_choice *choice,
                                  foci_low_ranks **out);

/* Where a struct with a member for the linear layer at each place has them, as an initialiser. */
#define FOCI_LINEAR_OFFSETS(type)                                                                  \
    {                                                                                              \
        [FOCI_LINEAR_QKV] = offsetof(type, qkv), [FOCI_LINEAR_Q] = offsetof(type, q),              \
        [FOCI_LINEAR_K] = offsetof(type, k), [FOCI_LINEAR_V] = offsetof(type, v),                  \
        [FOCI_LINEAR_OUT] = offsetof(type, out), [FOCI_LINEAR_GATE] = offsetof(type, gate),        \
        [FOCI_LINEAR_UP] = offsetof(type, up), [FOCI_LINEAR_DOWN] = offsetof(type, down)           \
    }

/* The linear layer at a place; its w is NULL where the model has none. */
foci_linear *foci_layer_linear(foci_layer *layer, foci_linear_place place);
/* "self_attn.q_proj", "attn.c_attn"; NULL: files of this kind have none. */
const char *foci_weight_names_part(const foci_weight_names *names, foci_linear_place place);

/* The model's products add them from now on; NULL: none. They stay the caller's, and must fit.
 * What was there is replaced. */
void foci_model_set_low_ranks(focal_model *model, const foci_low_ranks *low_ranks);

/* A copy in the model's order of what is in that of files, and back: files have q and k as Hugging
 * Face's, and where GGUF's have reordered them, the rows of B move. */
focal_status foci_low_ranks_from_file(focal_ctx *ctx, const foci_config *config,
                                      const foci_low_ranks *file, foci_low_ranks **out);
focal_status foci_low_ranks_to_file(focal_ctx *ctx, const foci_config *config,
                                    const foci_low_ranks *model, foci_low_ranks **out);

#endif /* FOCI_MODEL_LOW_RANK_MODEL_H */
