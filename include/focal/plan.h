/* Which model a text and some minutes can fill: from the size of the text, the time and the speed
 * of the machine to the settings of a run. docs/TRAINING.md has the rule and its reasons. */
#ifndef FOCAL_PLAN_H
#define FOCAL_PLAN_H

#include "focal/base.h"

FOCAL_BEGIN_DECLS

enum {
    FOCAL_PLAN_LEAST_BYTES = 1000, /* of text */
    FOCAL_PLAN_LEAST_TOKENS = 128
};

typedef struct focal_plan_input {
    int64_t text_bytes;  /* about, where tokens are given */
    int64_t tokens;      /* of the text; 0: not known yet, estimated from the bytes */
    int64_t documents;   /* of the text; 0: not known */
    int32_t vocab;       /* of the tokenizer; 0: to be chosen */
    double minutes;      /* that training may take */
    double flops;        /* a second, of training, as focal_train_cost counts them */
    size_t memory_bytes; /* that training may take; 0: no limit */
} focal_plan_input;

/* What keeps the model from being larger. */
typedef enum focal_plan_limit {
    FOCAL_PLAN_TIME,
    FOCAL_PLAN_TEXT,
    FOCAL_PLAN_MEMORY,
    FOCAL_PLAN_LADDER /* there is no larger one in the table */
} focal_plan_limit;

typedef struct focal_plan {
    focal_plan_limit limit;
    int32_t vocab, layers, width, ffn, heads;
    int32_t length, batch, accumulation; /* batch: windows of a step */
    int64_t steps, warmup;
    double rate;        /* highest learning rate */
    double valid_share; /* of the tokens */
    int64_t valid_tokens;
    int64_t valid_every, sample_every, checkpoint_every; /* steps */
    int64_t parameter_count;
    int64_t tokens;      /* of the text, as given or estimated */
    double epochs;       /* how often the run reads it */
    double token_flops;  /* of training, a token */
    double seconds;      /* that the steps take */
    size_t memory_bytes; /* that training takes at most */
} focal_plan;

/* The same input gives the same plan; more minutes never give a smaller model.
 *
 * FOCAL_EINVAL, with a sentence that says how much is needed, on less text than the least, on
 * numbers that are not positive, and when not even the smallest model fits the memory. */
FOCAL_API focal_status focal_plan_make(focal_ctx *ctx, const focal_plan_input *input,
                                       focal_plan *plan);

FOCAL_END_DECLS
#endif /* FOCAL_PLAN_H */
