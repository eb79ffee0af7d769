/* A small llama model with random weights and adapters for it, without files: for tests of running
 * with groups. Heads are 32 wide, so that its caches can be q8_0. */
#ifndef FOCAL_TESTS_GROUP_MODEL_H
#define FOCAL_TESTS_GROUP_MODEL_H

#include "model/adapter.h"

enum {
    GROUP_L = 3,
    GROUP_C = 32,
    GROUP_H = 4,
    GROUP_G = 2,
    GROUP_D = 32,
    GROUP_F = 48,
    GROUP_V = 40,
    GROUP_K = 5,
    GROUP_WINDOW = 7,
    GROUP_SINKS = 2
};

typedef struct group_model {
    focal_model model;
    float *numbers; /* behind its matrices and norms */
} group_model;

void group_model_open(focal_ctx *ctx, focal_dtype precision, group_model *m);
void group_model_close(group_model *m);

/* What an adapter has. */
typedef struct group_kind {
    focal_keys_mode mode;
    int32_t routers; /* 1 or GROUP_G */
    bool has_temperatures, is_raw;
    bool layers[GROUP_L];
    foci_groups_source source;
} group_kind;

/* Random numbers of a seed; top 2, the window and the sinks above. adapter->groups is freed by
 * group_adapter_close(). */
void group_adapter_open(focal_ctx *ctx, const group_kind *kind, uint64_t seed,
                        focal_adapter *adapter);
void group_adapter_close(focal_adapter *adapter);

#endif /* FOCAL_TESTS_GROUP_MODEL_H */
