/* How well a model does: on a text, in copying, in recalling. */
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

/* Copying: how well a model repeats what it has read. A sequence is a passage of a text, other text
 * behind it, and the passage again; scored is the end of the second one, where it is clear that a
 * passage is repeated, and, to compare, the same ids in the first.
 *
 * Where passages come from, and what is between. All zero, but for the texts, is the default. */
typedef struct focal_copy_text {
    const int32_t *ids; /* (count) */
    int64_t count;
} focal_copy_text;

typedef struct focal_copy_plan {
    const focal_copy_text *texts; /* (text_count), each long enough for a passage and all between */
    int32_t text_count;
    int32_t passage; /* ids; 0: 64 */
    int32_t length;  /* of the whole sequence; 0: 1024 */
    int32_t begin;   /* an id that comes first, as part of the length; with has_begin */
    bool has_begin;
    uint64_t seed;
    bool is_training; /* other sequences than those that measure, whatever the seed */
    /* Places by a rule instead of the seed: sequence n takes its passage of P ids at
     * (count - P - 100) (0.1 + 0.2 u) of text n mod N, u = n / N, and the m ids between at
     * (count - m - 500) (0.15 + 0.2 u) of text n + 1 mod N; up to 5 N sequences. */
    bool has_even_places;
} focal_copy_plan;

/* Sequence n, into room for `length` ids. FOCAL_EINVAL on a plan that cannot be, with the numbers.
 */
FOCAL_API focal_status focal_copy_sequence(focal_ctx *ctx, const focal_copy_plan *plan, int64_t n,
                                           int32_t *ids);

/* How a measure reads; all zero is the default. */
typedef struct focal_measure_options {
    int64_t count;                    /* sequences; 0: 32 */
    int32_t batch;                    /* tokens a pass; 0: 1024 */
    const focal_cache_options *cache; /* NULL: the default */
    /* After each sequence, with the share of right choices so far; false ends early. May be NULL.
     */
    bool (*on_sequence)(void *user, int64_t done, int64_t count, double accuracy);
    void *user;
} focal_measure_options;

typedef struct focal_copy_result {
    int64_t count, tokens; /* sequences; ids that were scored */
    double accuracy;       /* share of them that were the model's first choice */
    double loss;           /* nats an id */
    double first_loss;     /* of the same ids where the passage stood first */
} focal_copy_result;

/* scored: the last so many ids of the passage; 0: seven eighths. FOCAL_EINVAL, FOCAL_ENOMEM. */
FOCAL_API focal_status focal_copy(focal_model *model, const focal_copy_plan *plan, int32_t scored,
                                  const focal_measure_options *options, focal_copy_result *result);

/* Recall: lines "key: value", an empty line, and then some of these lines again, whose values the
 * model should know. Keys are two syllables and no two of a text are equal; values are three
 * digits.
 */
enum { FOCAL_RECALL_PAIRS_LEAST = 4, FOCAL_RECALL_PAIRS_MOST = 8192, FOCAL_RECALL_DEPTHS = 4 };

typedef struct focal_recall_plan {
    int32_t queries; /* lines that come again, from each quarter of the text in turn; 0: 8; at most
                        a text's pairs */
    uint64_t seed;
    bool is_training; /* other texts than those that measure, whatever the seed */
} focal_recall_plan;

/* Appends text n with so many pairs, FOCAL_RECALL_PAIRS_LEAST to FOCAL_RECALL_PAIRS_MOST. */
FOCAL_API focal_status focal_recall_text(focal_ctx *ctx, const focal_recall_plan *plan, int64_t n,
                                         int32_t pairs, focal_buffer *text);

typedef struct focal_recall_result {
    int64_t count, values; /* texts; values that were asked for */
    double accuracy;       /* share of values whose every token was the model's first choice, behind
                              the right tokens before it */
    double loss;           /* nats a token of a value */
    double chance;         /* accuracy of one who takes any value of the text */
    double pairs;          /* of a text, mean */
    double depth_accuracy[FOCAL_RECALL_DEPTHS]; /* where the line stood: first quarter, ... */
    int64_t depth_values[FOCAL_RECALL_DEPTHS];
} focal_recall_result;

/* Texts of as many pairs as fit into `length` tokens. FOCAL_EINVAL when these are fewer than
 * FOCAL_RECALL_PAIRS_LEAST or the model has no tokenizer, FOCAL_EUNSUPPORTED when that one does not
 * give texts back, FOCAL_ENOMEM. */
FOCAL_API focal_status focal_recall(focal_model *model, const focal_recall_plan *plan,
                                    int32_t length, const focal_measure_options *options,
                                    focal_recall_result *result);

FOCAL_END_DECLS
#endif /* FOCAL_EVAL_H */
