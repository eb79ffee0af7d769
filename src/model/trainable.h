/* What learns of a model. In training: float32 masters of every parameter, their gradients, and a
 * model whose weights point to them, which the forward pass runs like any other. In fitting: groups
 * or low-rank additions on a model whose weights stay where they lie. */
#ifndef FOCI_MODEL_TRAINABLE_H
#define FOCI_MODEL_TRAINABLE_H

#include "model/groups.h"
#include "model/model.h"
#include "model/weight_names.h"

enum { FOCI_PARAM_STEP = 16 }; /* tensors begin at multiples: whole cache lines */

/* One tensor of a model. */
typedef struct foci_param {
    char name[FOCI_WEIGHT_NAME_BYTES]; /* as in a Hugging Face directory */
    int64_t rows, cols;                /* as they lie; a vector has one row */
    bool is_matrix;                    /* decays; vectors do not */
    bool is_in_layer;                  /* else an embedding, the head or the last norm */
    float *weights;
    float *gradient;   /* NULL: it stays as it is */
    uint16_t *rounded; /* of matrices, where products read bfloat16; else NULL */
} foci_param;

/* Where gradients go, in the shape of the weights; NULL: there is no such weight, or it stays. */
typedef struct foci_linear_grads {
    float *w, *bias;
    float *low_a, *low_b; /* of what LoRA adds */
} foci_linear_grads;

typedef struct foci_gain_grads {
    float *weight, *bias;
} foci_gain_grads;

typedef struct foci_layer_grads {
    foci_gain_grads attn_norm, attn_post, ffn_norm, ffn_post, q_norm, k_norm;
    foci_linear_grads qkv, q, k, v, out, gate, up, down;
    float *u, *a, *lt;                 /* of the temperature, the model's own or that of groups */
    float *router[FOCI_GROUP_TENSORS]; /* of groups; its beta and lt are NULL */
} foci_layer_grads;

typedef struct foci_trainable {
    focal_ctx *ctx;
    focal_model *model;  /* its weights are those of params; borrowed where they are frozen */
    bool is_frozen;      /* no weight of the model has a gradient */
    foci_groups *groups; /* NULL: none. Borrowed; their numbers are among params */
    foci_temperature *group_temperatures; /* (L) of groups, in place of those of the layers; NULL:
                                             there are none */
    foci_low_ranks *low_ranks;            /* that learn; NULL: none. Borrowed, as groups are */
    foci_param *params;
    int32_t param_count;
    float *log_scale; /* gradient of the number on distant logits; NULL: there is none */
    foci_linear_grads embed, positions, head; /* head is embed where they are tied */
    foci_gain_grads final_norm;
    foci_layer_grads *layers;       /* (L) */
    foci_temperature *temperatures; /* (L) */
    bool *heads;                    /* (H) that have a temperature */
    float *weights, *gradients;
    uint16_t *rounded;
    size_t weight_count, gradient_count, rounded_count; /* floats, with the gaps between tensors */
} foci_trainable;

/* Which temperature a model gets, and where; what it learns begins as docs/MATH.md, 2 says. */
typedef struct foci_temperature_choice {
    foci_temperature_kind kind;
    float t;            /* constant, length; what per-head begins with */
    float a;            /* what learned begins with; 0: 0.6 */
    float c, length;    /* of kind length */
    const bool *layers; /* (L); NULL: all */
    const bool *heads;  /* (H); NULL: all */
} foci_temperature_choice;

typedef struct foci_trainable_options {
    focal_dtype precision;                      /* what products read: float32 or bfloat16 */
    bool has_fixed_qk_gains;                    /* the gains of query-key norm stay as they are */
    const foci_temperature_choice *temperature; /* NULL: 1 */
} foci_trainable_options;

/* The weights of a model that was opened, expanded to float32. The source may be closed then. A
 * temperature that it has, and what was learned of it, stays: a choice of the same kind, layers and
 * heads may change its numbers, a constant 1 is no choice, and another is FOCAL_EINVAL. */
focal_status foci_trainable_from(focal_model *source, const foci_trainable_options *options,
                                 foci_trainable **out);

/* A new model of a checked configuration with random weights: normal with a deviation of 0.02, of
 * what a block adds to the stream 0.02 / sqrt(2 L); norms 1, biases 0. A number depends on the
 * seed, the name of its tensor's place in the list and its own place, and on nothing else. */
focal_status foci_trainable_new(focal_ctx *ctx, const foci_config *config, uint64_t seed,
                                const foci_trainable_options *options, foci_trainable **out);

/* Groups alone learn: the model's weights, of whatever type, are read where they lie and have no
 * gradients. Parameters are the tensors of groups but the balance, none of which decays:
 * "layers.N.router.pk", ..., "layers.N.log_temperature", "log_distant_scale". The model and the
 * groups must outlive the trainable. FOCAL_EINVAL when the groups do not fit the model: other
 * sizes, or a router in a layer with a window of its own; FOCAL_EUNSUPPORTED when they have
 * temperatures and the model has its own that is not one constant for all heads. */
focal_status foci_trainable_frozen(focal_model *model, foci_groups *groups, foci_trainable **out);

/* Adds groups to what a model in training learns, at the end of the list, with the same errors.
 * Once, and before anything points to its parameters: those and the gradients move. */
focal_status foci_trainable_add_groups(foci_trainable *trainable, foci_groups *groups);

/* Low-rank additions alone learn, as groups do above. Parameters are, of each layer that gets one,
 * "layers.N.self_attn.q_proj.lora_A" and "....lora_B", by the names of Hugging Face's files; they
 * do not decay. The model's own passes have them too as long as the trainable is there, but for the
 * untouched one. FOCAL_EINVAL when they are of other sizes than the model, or it has some. */
focal_status foci_trainable_low_ranks(focal_model *model, foci_low_ranks *low_ranks,
                                      foci_trainable **out);

void foci_trainable_free(foci_trainable *trainable); /* NULL is fine */

/* Rounds the masters of all matrices anew, after they were written from outside. */
void foci_trainable_round(foci_trainable *trainable);

/* A block of zeros for the files that build one; NULL without memory. */
void *foci_trainable_zeros(focal_ctx *ctx, size_t count, size_t size);

#endif /* FOCI_MODEL_TRAINABLE_H */
