/* Groups on a model: a router for each layer that has one, and a temperature for each head; or the
 * controls that they are measured against. An adapter's file holds them, fitting moves them, the
 * forward pass reads them (docs/MATH.md, 3). */
#ifndef FOCI_MODEL_GROUPS_H
#define FOCI_MODEL_GROUPS_H

#include "focal/route.h"
#include "model/config.h"

/* The tensors of a layer, in the order of files and gradients. */
typedef enum foci_group_tensor {
    FOCI_GROUP_PK,   /* (routers, C, R) */
    FOCI_GROUP_PQ,   /* (routers, C, R), of directed groups */
    FOCI_GROUP_AK,   /* (routers, R), not where the router is raw */
    FOCI_GROUP_AQ,   /* (routers, R), of directed groups, not where the router is raw */
    FOCI_GROUP_E,    /* (routers, K, R) */
    FOCI_GROUP_BETA, /* (routers, K), not where the router is raw; has no gradient */
    FOCI_GROUP_LT,   /* (H) logarithms of temperatures */
    FOCI_GROUP_LS,   /* (1) logarithm of the scale on distant logits, of the lowest layer that has
                        one: it is that of all */
    FOCI_GROUP_TENSORS
} foci_group_tensor;

#define FOCI_MOST_LOG 20.0 /* of temperatures and the scale: e^20 is far beyond any use */
#define FOCI_GROUPS_MOST_SEED (INT64_C(1) << 53) /* exact in every reader of JSON */

/* Where the groups of the layers that are named come from. */
typedef enum foci_groups_source {
    FOCI_GROUPS_ROUTER, /* the scores of a router, whose tensors the layer has */
    FOCI_GROUPS_RANDOM, /* chance, by a seed: no tensors (model/random_groups.h) */
    FOCI_GROUPS_NONE,   /* there are none: window and sinks are all that is seen. No tensors */
    FOCI_GROUPS_SCALE   /* there are none: all is seen, and distant logits are multiplied by one
                           number, e to the power of the tensor */
} foci_groups_source;

/* What decides which tensors there are and how large. */
typedef struct foci_groups_shape {
    int32_t L, C, H, G; /* of the model */
    int32_t K;          /* groups, 1..64 */
    int32_t R;          /* router width, 1..256 */
    int32_t routers;    /* of a layer: 1 or G */
    focal_keys_mode mode;
    int64_t seed; /* of random groups, 0..2^53; else 0 */
    foci_groups_source source;
    bool is_raw;                  /* the paper's router: no norms, no offsets, no balance */
    bool has_temperatures;        /* of heads, in every layer */
    bool layers[FOCI_MAX_LAYERS]; /* which have groups, or none where others see all keys: never
                                     those with a window of their own */
} foci_groups_shape;

typedef struct foci_groups_layer {
    focal_router router; /* reads the tensors below; pk NULL: this layer has no such tensors */
    float *tensors[FOCI_GROUP_TENSORS];
} foci_groups_layer;

typedef struct foci_groups {
    foci_groups_shape shape;
    int32_t top, top_fit;      /* groups a query looks into: as run (0: window and sinks alone), and
                                  as fitted */
    int32_t window, sinks;     /* keys that are always seen */
    foci_groups_layer *layers; /* (L) */
    float *numbers;            /* behind all tensors, layer after layer, without gaps */
    int64_t number_count;
    float *log_scale; /* among them; NULL: there is none */
} foci_groups;

/* All tensors 0, so temperatures 1; top, window and sinks are the defaults of docs/MATH.md, 3, as
 * far as K allows. FOCAL_EINVAL with the number and its limit, FOCAL_ENOMEM. */
focal_status foci_groups_new(focal_ctx *ctx, const foci_groups_shape *shape, foci_groups **out);
void foci_groups_free(focal_ctx *ctx, foci_groups *groups); /* NULL is fine */

/* Numbers of one tensor of a layer; 0: there is no such tensor. */
int64_t foci_groups_count(const foci_groups_shape *shape, int32_t layer, foci_group_tensor which);

/* Brings temperatures and the scale within what files may hold, e^FOCI_MOST_LOG either way. */
void foci_groups_limit(foci_groups *groups);

/* Whether tokens are in groups at all. */
static inline bool foci_groups_exist(const foci_groups_shape *shape)
{
    return shape->source == FOCI_GROUPS_ROUTER || shape->source == FOCI_GROUPS_RANDOM;
}

/* "unit" or "raw" of routers, "random", "none", "scale": as files and messages say it. */
const char *foci_groups_form(const foci_groups_shape *shape);

/* "pk", "pq", ... likewise. */
const char *foci_group_tensor_name(foci_group_tensor which);

#endif /* FOCI_MODEL_GROUPS_H */
