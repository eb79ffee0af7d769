/* How well a model does: on a text, in copying, in recalling, in choosing; and what an adapter's
 * groups change. */
#ifndef FOCAL_EVAL_H
#define FOCAL_EVAL_H

#include "focal/adapter.h"
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
    int64_t count;                    /* sequences; 0: 32, or all that even places have */
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

/* Recall: lines "key value", an empty line, and then some of these lines again, whose values the
 * model should know. Keys are two syllables and no two of a text are equal; values are one.
 */
enum {
    FOCAL_RECALL_PAIRS_LEAST = 1,
    FOCAL_RECALL_PAIRS_MOST = 8192,
    FOCAL_RECALL_KEYS = 10000, /* that there are */
    FOCAL_RECALL_DEPTHS = 4
};

typedef struct focal_recall_plan {
    int32_t queries; /* lines that come again, from each quarter of the text in turn; 0: 8. Where
                        they are more than the pairs, a text that measures has each once, and one to
                        train on begins again */
    int32_t keys; /* different ones in all texts, so that a small vocabulary has a token for each;
                     0: FOCAL_RECALL_KEYS */
    uint64_t seed;
    bool is_training; /* other texts than those that measure, whatever the seed */
} focal_recall_plan;

/* Appends text n with so many pairs, FOCAL_RECALL_PAIRS_LEAST to FOCAL_RECALL_PAIRS_MOST and at
 * most the plan's keys, else FOCAL_EINVAL. */
FOCAL_API focal_status focal_recall_text(focal_ctx *ctx, const focal_recall_plan *plan, int64_t n,
                                         int32_t pairs, focal_buffer *text);

typedef struct focal_recall_result {
    int64_t count, values; /* texts; values that were asked for */
    double accuracy;       /* share of values whose every token was the model's first choice, behind
                              the right tokens before it */
    double loss;           /* nats a token of a value */
    double chance;         /* accuracy of one who takes the value of any pair of the text */
    double pairs;          /* of a text, mean */
    double depth_accuracy[FOCAL_RECALL_DEPTHS]; /* where the line stood: first quarter, ... */
    int64_t depth_values[FOCAL_RECALL_DEPTHS];
} focal_recall_result;

/* Texts of as many pairs as fit into `length` tokens. FOCAL_EINVAL when these are fewer than
 * FOCAL_RECALL_PAIRS_LEAST or more than there can be, or the model has no tokenizer,
 * FOCAL_EUNSUPPORTED when that one does not give texts back, FOCAL_ENOMEM. */
FOCAL_API focal_status focal_recall(focal_model *model, const focal_recall_plan *plan,
                                    int32_t length, const focal_measure_options *options,
                                    focal_recall_result *result);

/* Multiple choice: which of several endings of a text does the model find likeliest? A file has a
 * JSON object a line (docs/FORMATS.md): "context" (or "ctx"), "choices", "answer" (or "gold"), and
 * perhaps "id" and "task". */
enum {
    FOCAL_MC_CHOICES_MOST = 1024,    /* of an item */
    FOCAL_MC_LINE_MOST = 16 << 20,   /* bytes of a line */
    FOCAL_MC_BYTES_MOST = 256 << 20, /* of all lines that are taken */
};

typedef struct focal_mc_source {
    const char *path; /* "-": standard input; what gzip, xz or zstd has compressed is expanded */
    const char *task; /* only items whose "task" is this; NULL: all */
    int64_t limit;    /* the first so many; 0: all */
    int64_t sample;   /* of those so many, each as likely as the others, in the file's order; 0: all
                       */
    uint64_t seed;    /* which */
} focal_mc_source;

/* UTF-8 as JSON gives it: not NUL-terminated, any character may stand in it. */
typedef struct focal_mc_text {
    const char *data;
    size_t bytes;
} focal_mc_text;

typedef struct focal_mc_item {
    const char *path; /* of its file, or "standard input" */
    int64_t line;     /* there, from 1 on */
    focal_mc_text id; /* bytes 0: it has none */
    int32_t choice_count, answer;
    const focal_mc_text *contexts; /* (choice_count) all the same, unless the file has one a choice
                                    */
    const focal_mc_text *choices;  /* (choice_count) none is empty */
} focal_mc_item;

typedef struct focal_mc_set focal_mc_set;

/* Reads and checks the items. FOCAL_EFORMAT, with file and line, on what is no item or too large
 * and when there is none at all; FOCAL_EINVAL on numbers below 0, FOCAL_EIO, FOCAL_ENOMEM. *set is
 * then NULL. The context must outlive the set. */
FOCAL_API focal_status focal_mc_open(focal_ctx *ctx, const focal_mc_source *source,
                                     focal_mc_set **set);
FOCAL_API void focal_mc_close(focal_mc_set *set); /* NULL is fine */
FOCAL_API int64_t focal_mc_count(const focal_mc_set *set);
/* Item n, 0 to count - 1; lives as long as the set. */
FOCAL_API const focal_mc_item *focal_mc_at(const focal_mc_set *set, int64_t n);

/* What was found for one item. The arrays live until on_item returns. */
typedef struct focal_mc_score {
    const focal_mc_item *item;
    int64_t done, count;     /* items up to this one, and of the set */
    const double *logprob;   /* (choice_count) of each choice behind its context */
    const int32_t *tokens;   /* (choice_count) ids that this is the sum of */
    const int32_t *bytes;    /* (choice_count) of the choice, without white space before it */
    int32_t pick, by_length; /* the largest logprob; the largest logprob / bytes; of equal ones the
                                first */
    double accuracy;         /* of the items up to this one, by pick */
} focal_mc_score;

/* All zero is the default. */
typedef struct focal_mc_options {
    const char *prefix; /* (prefix_bytes) stands before every context; NULL: nothing */
    size_t prefix_bytes;
    int32_t prefix_tokens; /* at most so many of it, counted from its end; 0: all */
    int32_t context;       /* tokens of the longest text; 0: the model's */
    int32_t batch;         /* tokens a pass; 0: 1024 */
    bool joins_bare;       /* no space between a context and a choice where neither has one */
    const focal_cache_options *cache; /* NULL: the default; sequences is ours */
    bool (*on_item)(void *user, const focal_mc_score *score); /* false ends early; may be NULL */
    void *user;
} focal_mc_options;

typedef struct focal_mc_result {
    int64_t count;
    double accuracy, accuracy_error;   /* share of right picks; sqrt(p (1 - p) / (count - 1)), NaN
                                          for one item */
    double by_length, by_length_error; /* the same, picked by log-probability a byte */
    double chance;                     /* of one who takes any choice */
    int64_t tokens;                    /* of choices, scored */
} focal_mc_result;

/* A text is the prefix, a context and a choice, tokenised together, behind the begin token that the
 * model expects. The choice's ids are those in which it differs from the text without the choice;
 * white space at the end of the context counts as the choice's. What texts have in common is read
 * once. options may be NULL.
 * FOCAL_EINVAL, before anything is computed, when a text is longer than the context (with file and
 * line), when a choice has no id of its own, when the model has no tokenizer;
 * FOCAL_EUNSUPPORTED when the prefix must be cut and the tokenizer does not give texts back;
 * FOCAL_ENOMEM. */
FOCAL_API focal_status focal_mc(focal_model *model, const focal_mc_set *set,
                                const focal_mc_options *options, focal_mc_result *result);

/* Groups: what an adapter gains and loses. Every text is read with the model as it is and with each
 * setting of the adapter; what comes out can be kept beside the adapter, for reports. */
typedef enum focal_group_kind {
    FOCAL_GROUP_DENSE,        /* the model as it is */
    FOCAL_GROUP_TOP,          /* the adapter, its queries looking into `top` groups */
    FOCAL_GROUP_TEMPERATURES, /* all keys, with the adapter's temperatures */
    FOCAL_GROUP_ADAPTER       /* an adapter that sees all keys: LoRA, nothing but temperatures, a
                                 scale of distant logits */
} focal_group_kind;

/* What was found for one setting. */
typedef struct focal_group_setting {
    focal_group_kind kind;
    int32_t top;          /* of FOCAL_GROUP_TOP; 0: window and sinks alone */
    double loss;          /* nats a token, over all texts */
    const double *losses; /* (text_count) of each text */
    double kept;          /* share of the distant pairs that layers with a router look at; 1 without
                             groups; NaN: no text is long enough to have any */
    double speed;         /* prompt tokens a second; NaN: not timed */
} focal_group_setting;

typedef struct focal_group_text {
    const char *name;   /* as reports call it */
    const int32_t *ids; /* (count) with the begin token that the model expects; at least 2 */
    int64_t count;
} focal_group_text;

enum { FOCAL_GROUP_TEXTS_MOST = 64, FOCAL_GROUP_ROUNDS_MOST = 64 };

typedef struct focal_group_args {
    const focal_group_text *texts; /* (text_count), up to FOCAL_GROUP_TEXTS_MOST */
    int32_t text_count;
    int32_t context;     /* the first so many ids of each text are read; 0: the model's */
    const int32_t *tops; /* (top_count) numbers of groups; none: 0, 1, 2, 4, 8, ..., all, and the
                            adapter's own; of one that looks into none, 0 alone. Not used for an
                            adapter without groups */
    int32_t top_count;
    int32_t rounds; /* how often each setting reads the first text against the clock, settings by
                       turns; the median counts. 0: not timed */
    int32_t batch;  /* tokens a pass; 0: 1024 */
    const double *dense; /* (text_count) losses of the dense setting, where an earlier measurement
                            of the same texts has them: they are not read again. May be NULL */
    const focal_cache_options *cache;                         /* NULL: the default */
    void (*on_reading)(void *user, int64_t done, int64_t of); /* may be NULL */
    void *user;
} focal_group_args;

typedef struct focal_group_eval focal_group_eval;

/* The model has no adapter afterwards. Which tokens groups hold, and how many, is noted with the
 * adapter's own number of groups, or the last of tops where its own is not among them.
 * FOCAL_EINVAL on a bad call or an adapter of another model, with a sentence; FOCAL_ENOMEM; *eval
 * is then NULL. The model's context must outlive it. */
FOCAL_API focal_status focal_group_eval_new(focal_model *model, const focal_adapter *adapter,
                                            const focal_group_args *args, focal_group_eval **eval);
FOCAL_API void focal_group_eval_free(focal_group_eval *eval); /* NULL is fine */
/* Setting n, the dense one first; NULL behind the last. Lives as long as eval. */
FOCAL_API const focal_group_setting *focal_group_eval_at(const focal_group_eval *eval, int32_t n);
/* Writes all of it as JSON (docs/FORMATS.md), whole or not at all. FOCAL_EIO, FOCAL_ENOMEM. */
FOCAL_API focal_status focal_group_eval_write(const focal_group_eval *eval, const char *path);

FOCAL_END_DECLS
#endif /* FOCAL_EVAL_H */
