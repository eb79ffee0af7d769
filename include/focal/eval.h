/* How well a model predicts a text. */
#ifndef FOCAL_EVAL_H
#define FOCAL_EVAL_H

#include "focal/base.h"
#include "focal/model.h"

FOCAL_BEGIN_DECLS

typedef enum focal_ppl_method {
    /* Windows of `context` ids that begin `stride` ids apart; each scores the ids that no window
     * before it has scored. */
    FOCAL_PPL_STRIDE,
    /* llama-perplexity's: chunks of `context` ids, the ids behind the first half of each scored;
     * the first id of a chunk is replaced by the begin token where the tokenizer adds one. */
    FOCAL_PPL_LLAMA
} focal_ppl_method;

typedef struct focal_ppl_args {
    focal_ppl_method method;
    const int32_t *ids; /* (count) of the text, with the begin token that the model expects */
    int64_t count;
    int32_t context;                  /* 0: the model's */
    int32_t stride;                   /* 0: half the context; stride method only */
    int64_t chunks;                   /* at most so many windows; 0: all */
    int32_t batch;                    /* tokens a pass; 0: 1024 */
    const focal_cache_options *cache; /* how keys and values are kept; NULL: the default */
    /* Each may be NULL. on_token: an id that was scored, with its place in ids. on_chunk: the
     * perplexity up to here; false ends the run early. */
    void (*on_token)(void *user, int64_t index, int32_t id, double nll);
    bool (*on_chunk)(void *user, int64_t chunk, int64_t chunk_count, double perplexity);
    void *user;
} focal_ppl_args;

typedef struct focal_ppl_result {
    int64_t tokens, chunks; /* scored */
    double loss;            /* nats a token */
    double perplexity;      /* e^loss */
    double bits;            /* of all scored tokens together */
    int64_t bytes;          /* that the scored tokens stand for */
} focal_ppl_result;

/* FOCAL_EINVAL when the text is too short for one window, with both lengths. */
FOCAL_API focal_status focal_ppl(focal_model *model, const focal_ppl_args *args,
                                 focal_ppl_result *result);

FOCAL_END_DECLS
#endif /* FOCAL_EVAL_H */
