/* What was measured of an adapter's groups, from inside: settings, sizes, typical tokens. */
#ifndef FOCI_EVAL_GROUP_EVAL_H
#define FOCI_EVAL_GROUP_EVAL_H

#include "focal/eval.h"
#include "model/model.h"

enum {
    FOCI_GROUP_SETTINGS = FOCAL_MAX_GROUPS + 4, /* every number of groups, 0, and the others */
    FOCI_GROUP_LAYERS = 4,                      /* whose tokens are shown */
    FOCI_GROUP_TOKENS = 8,                      /* of a group */
    FOCI_GROUP_NAME = 96                        /* bytes of a text's name with its NUL */
};

/* A token that a group has more often than the text has. */
typedef struct foci_typical {
    int32_t id;
    int64_t in_group, in_all; /* how often */
} foci_typical;

typedef struct foci_typical_group {
    int32_t count;
    foci_typical tokens[FOCI_GROUP_TOKENS]; /* the most typical first */
} foci_typical_group;

struct focal_group_eval {
    focal_ctx *ctx;
    const focal_tokenizer *tokenizer; /* the model's; NULL: none */
    /* What was measured, and how. */
    char model[FOCI_GROUP_NAME], fingerprint[FOCI_FINGERPRINT_BYTES];
    char adapter_checksum[FOCI_FINGERPRINT_BYTES];
    const char *precision, *cache_type;
    int32_t context, batch, rounds, threads;
    int32_t K, routers, L; /* of the adapter; K 0: it has no router */
    int32_t own;           /* the setting that sizes and tokens are of; -1: none */
    int32_t text_count;
    char names[FOCAL_GROUP_TEXTS_MOST][FOCI_GROUP_NAME];
    int64_t tokens[FOCAL_GROUP_TEXTS_MOST]; /* scored */
    bool has_distant;                       /* a text has pairs beyond window and sinks */
    /* What came out. */
    int32_t setting_count;
    focal_group_setting settings[FOCI_GROUP_SETTINGS];
    double losses[FOCI_GROUP_SETTINGS][FOCAL_GROUP_TEXTS_MOST];
    bool is_routed[FOCI_MAX_LAYERS];
    int64_t *sizes; /* (L, routers, K) keys in each group; NULL: no setting has groups */
    int32_t layer_count;
    int32_t layers[FOCI_GROUP_LAYERS]; /* whose tokens are below, ascending */
    foci_typical_group *typical;       /* (layer_count, K) of the layer's first router */
};

/* The most typical tokens of each of K groups: those v with the largest p(v|c) log(p(v|c) / p(v)),
 * of which the divergence of the group's tokens from the text's is the sum. So a token must be both
 * frequent in the group and more frequent than elsewhere; once is no evidence and does not count.
 * Of equal ones the lower id. ids (count) below V, masks (count): the groups of each, as bits. */
focal_status foci_typical_tokens(focal_ctx *ctx, const int32_t *ids, const uint64_t *masks,
                                 int64_t count, int32_t V, int32_t K, foci_typical_group *groups);

#endif /* FOCI_EVAL_GROUP_EVAL_H */
