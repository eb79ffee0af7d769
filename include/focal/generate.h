/* Text from a model: choosing tokens, and the loop that reads a prompt and writes on. */
#ifndef FOCAL_GENERATE_H
#define FOCAL_GENERATE_H

#include "focal/base.h"
#include "focal/model.h"

FOCAL_BEGIN_DECLS

typedef struct focal_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY: never */
} focal_logit_bias;

/* How a token is chosen. All zero is greedy: the largest logit, the lowest id among equals. Steps
 * are taken in llama.cpp's order: bias, penalties, top_k, top_p, min_p, temperature, chance. */
typedef struct focal_sampling {
    float temperature;       /* 0: greedy, after bias and penalties */
    int32_t top_k;           /* the so many likeliest; 0: all */
    float top_p;             /* the likeliest that have this probability together; 0 or 1: all */
    float min_p;             /* those with at least this part of the likeliest's; 0: all */
    float repeat_penalty;    /* divides positive and multiplies negative logits of recent tokens;
                                0 or 1: none */
    float presence_penalty;  /* subtracted from logits of recent tokens */
    float frequency_penalty; /* the same, for each time they occur */
    int32_t repeat_last;     /* tokens that count as recent; 0: 64, -1: all */
    const focal_logit_bias *biases; /* (bias_count) */
    int32_t bias_count;
    uint64_t seed; /* the same seed and logits give the same tokens */
} focal_sampling;

typedef struct focal_sampler focal_sampler;

/* For vocabularies of V ids. FOCAL_EINVAL names what is out of range. */
FOCAL_API focal_status focal_sampler_new(focal_ctx *ctx, int32_t V, const focal_sampling *sampling,
                                         focal_sampler **sampler);
FOCAL_API void focal_sampler_free(focal_sampler *sampler); /* NULL is fine */
/* A token of the text so far, for the penalties; prompt tokens count too. */
FOCAL_API focal_status focal_sampler_accept(focal_sampler *sampler, int32_t id);
/* Chooses from logits (V), which it changes; the caller then accepts what it takes. FOCAL_EINVAL
 * when no id has a finite logit. */
FOCAL_API focal_status focal_sampler_pick(focal_sampler *sampler, float *logits, int32_t *id);

/* Appends the ids of a conversation as the model's template writes it. The template's own text may
 * hold control tokens; what the messages hold stays text, even where it reads like one (such a
 * message is a mark while the template runs: a template that measures or cuts it sees that). chat
 * must have its messages as such, not as JSON. bos_token and eos_token are filled in from the model
 * where they are NULL. */
FOCAL_API focal_status focal_chat_encode(const focal_model *model, focal_template *tpl,
                                         const focal_chat *chat, focal_ids *out);

typedef enum focal_stop {
    FOCAL_STOP_END,     /* the model ended its text */
    FOCAL_STOP_TEXT,    /* a stop string appeared */
    FOCAL_STOP_COUNT,   /* max_tokens were written */
    FOCAL_STOP_CONTEXT, /* the context is full */
    FOCAL_STOP_CALLER   /* a callback said so */
} focal_stop;

/* "end", "stop", "length", "context", "interrupted". */
FOCAL_API const char *focal_stop_name(focal_stop stop);

typedef struct focal_generate_args {
    int32_t sequence;      /* of the cache; what it holds comes before the prompt */
    const int32_t *prompt; /* (prompt_count), at least 1 */
    int64_t prompt_count;
    int64_t max_tokens;       /* -1: until the end or the context's */
    int32_t context;          /* tokens that may be read: of the prompt and of the answer, but for
                                 its last; 0: the model's */
    int32_t chunk;            /* prompt tokens a pass; 0: 1024 */
    bool ignores_end;         /* the model's end tokens are never chosen */
    bool shows_special;       /* control tokens appear in the text */
    const char *const *stops; /* (stop_count) strings that end the text and are left out */
    int32_t stop_count;
    focal_sampling sampling;
    /* Each may be NULL; false ends the run. on_prompt: tokens read so far. on_token: once a token,
     * with the text that is certain by now: whole characters, nothing that may belong to a stop
     * string; id is -1 for what is left at the end. */
    bool (*on_prompt)(void *user, int64_t done, int64_t total);
    bool (*on_token)(void *user, int32_t id, const char *text, size_t bytes);
    void *user;
} focal_generate_args;

typedef struct focal_generate_result {
    focal_stop stop;
    int64_t prompt_tokens, tokens; /* that were read; written, the end token included */
    double prompt_seconds, seconds;
} focal_generate_result;

/* Reads the prompt and writes on; the cache then holds both, but for the last token. FOCAL_EINVAL
 * when the prompt does not fit the context. */
FOCAL_API focal_status focal_generate(focal_model *model, focal_cache *cache,
                                      const focal_generate_args *args,
                                      focal_generate_result *result);

FOCAL_END_DECLS
#endif /* FOCAL_GENERATE_H */
