/* What a run begins with: its data, and a model that is new or continues another. */
#ifndef FOCI_TRAIN_START_H
#define FOCI_TRAIN_START_H

#include "io/shards.h"
#include "model/trainable.h"
#include "train/order.h"
#include "train/run_file.h"

enum { FOCI_START_NOTE = 512 };

typedef struct foci_start {
    focal_ctx *ctx;
    foci_shards *shards;
    foci_shards_info info;
    foci_tokens tokens;
    char *tokenizer_path;        /* SHARDS/tokenizer.json; NULL: there is none */
    foci_trainable *trainable;   /* its model has that tokenizer */
    focal_model *model;          /* of learn = groups: as it was opened; else NULL */
    foci_groups *groups;         /* of the trainable; NULL: none */
    foci_low_ranks *low_ranks;   /* likewise, of groups.method = lora */
    foci_trainable *only_groups; /* the same model and groups, of which groups alone learn: for the
                                    steps of groups.first; NULL: there are none */
    int32_t made_for;            /* tokens that `model` was made for, before the run's windows */
    char note[FOCI_START_NOTE];  /* a sentence about what looks odd, or "" */
} foci_start;

/* Opens the shards and makes the model of a resolved run, with groups whose numbers are 0 where it
 * has some, or LoRA as it begins. Where groups alone learn and data.length is not set, the run's
 * windows become no longer than what the model was made for. FOCAL_EINVAL where settings do not go
 * together with data or model, or what opening them fails with; *start is then empty. */
focal_status foci_start_open(focal_ctx *ctx, foci_run *run, foci_start *start);
void foci_start_close(foci_start *start); /* an empty one is fine */

/* What foci_start_open() would say of a run with learn = groups and its model, without data; the
 * model is as before. */
focal_status foci_start_check(focal_ctx *ctx, foci_run *run, focal_model *model);

/* The temperature of a step, counted from 0, while it goes from 1 to its value
 * (start.ramp_steps). */
void foci_start_ramp(const foci_start *start, const foci_run *run, int64_t step);

#endif /* FOCI_TRAIN_START_H */
