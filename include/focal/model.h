/* Models people have: a GGUF file or a Hugging Face directory, opened in place, and one forward
 * pass for prompts, decoding and loss. */
#ifndef FOCAL_MODEL_H
#define FOCAL_MODEL_H

#include "focal/base.h"
#include "focal/chat.h"
#include "focal/tokenizer.h"

FOCAL_BEGIN_DECLS

typedef struct focal_model focal_model;

/* All zero is the default. */
typedef struct focal_model_options {
    focal_dtype precision; /* of products and attention: FOCAL_F32 (the reference) or FOCAL_BF16 */
    bool has_precision;    /* false: bfloat16 where the CPU has AVX2 or more, else float32 */
} focal_model_options;

/* What a model computes in when its options do not say: bfloat16 where the CPU has AVX2 or more,
 * else float32. */
FOCAL_API focal_dtype focal_default_precision(const focal_ctx *ctx);

/* A kernel of one of the operations that models and routers are made of. */
typedef struct focal_kernel_info {
    const char *operation, *name;
    bool is_usable; /* this machine can run it */
    bool is_picked; /* a plain call of many rows, in the default precision, gets it */
} focal_kernel_info;
/* Kernel `index` of all, operation by operation, fastest first in each; false behind the last. */
FOCAL_API bool focal_kernel_at(focal_ctx *ctx, int32_t index, focal_kernel_info *kernel);

/* path is a .gguf file (of a split model, the first) or a directory with config.json; options may
 * be NULL. Weights stay in the file, which must not change while the model is open. The context
 * must outlive the model; one call at a time uses both.
 * FOCAL_EIO, FOCAL_EFORMAT or FOCAL_EUNSUPPORTED with a sentence; *model is then NULL. */
FOCAL_API focal_status focal_model_open(focal_ctx *ctx, const char *path,
                                        const focal_model_options *options, focal_model **model);
FOCAL_API void focal_model_close(focal_model *model); /* NULL is fine */

/* Copies the weights from the mapped file into memory, with the system's large pages and, where the
 * processor gains by it, in another order: decoding, which reads all of them for each token, is
 * then a tenth to a third faster. Takes as much memory as the file has bytes; the file stays as it
 * is. Sums are made in another order too, so the last bits of what is computed may change. False:
 * some are read where they lie in the file, as before, for want of memory or because this system
 * cannot. Not while another thread uses the model. */
FOCAL_API bool focal_model_load(focal_model *model);

FOCAL_API focal_ctx *focal_model_ctx(const focal_model *model);

/* What a model is. Strings live as long as the model. */
typedef struct focal_model_info {
    const char *path;
    const char *format;  /* "gguf" or "huggingface" */
    const char *family;  /* "llama", "qwen2", ... */
    const char *name;    /* what the file calls itself, or "" */
    const char *licence; /* or "" */
    int32_t L, C, H, G, D, F, V;
    int32_t context; /* tokens that the model was made for */
    int32_t window;  /* keys before the own one in windowed layers; 0: no such layers */
    int32_t window_layers;
    const char *temperature; /* of attention: "learned", "constant, t 0.4, in 3 of 8 heads", ...; ""
                                is 1, and any that is part of the weights */
    bool is_tied;            /* the head is the embedding */
    focal_dtype precision;
    int64_t parameter_count;
    int64_t weight_bytes;   /* in the file */
    int64_t type_count[32]; /* parameters of each focal_dtype */
    int64_t layer_flops;    /* of products, for one token in all layers; multiply-adds count two */
    int64_t head_flops;     /* and in the vocabulary's product */
    int64_t step_bytes;     /* of weights that a single token reads */
    /* How an attached adapter's groups run. */
    int32_t groups;              /* 0: there are none */
    int32_t top;                 /* that a token looks into; 0: its window and the sinks alone */
    int32_t group_window, sinks; /* keys that it always sees */
} focal_model_info;
FOCAL_API focal_model_info focal_model_describe(const focal_model *model);

/* The model's own tokenizer, borrowed; NULL when there is none beside the weights. */
FOCAL_API const focal_tokenizer *focal_model_tokenizer(const focal_model *model);
/* Its chat template's source, or NULL; borrowed. */
FOCAL_API const char *focal_model_template(const focal_model *model, size_t *bytes);
/* 16 hexadecimal digits of shapes, vocabulary and norms: equal for the quantisations of one model,
 * as a GGUF file and as a directory, whose tokenizer names the same tokens. Borrowed. */
FOCAL_API const char *focal_model_fingerprint(const focal_model *model);

/* How the model's makers choose tokens: what generation_config.json or the keys general.sampling.*
 * of GGUF say. The ends of texts that they name are the tokenizer's (focal_tokenizer_is_end). */
typedef struct focal_suggestion {
    bool has_temperature, has_top_k, has_top_p, has_min_p, has_repeat_penalty;
    float temperature; /* 0: greedy, also where do_sample is false */
    int32_t top_k;     /* these mean what they mean in focal_sampling (generate.h) */
    float top_p, min_p, repeat_penalty;
} focal_suggestion;
FOCAL_API focal_suggestion focal_model_suggest(const focal_model *model);

/* Keys and values of the tokens that a model has read: one or several texts. Memory grows by pages
 * as they do. */
typedef struct focal_cache focal_cache;
typedef struct focal_cache_options {
    int32_t sequences; /* texts side by side, 0: 1 */
    focal_dtype dtype; /* FOCAL_F32, FOCAL_BF16 or, where heads are a multiple of 32 wide,
                          FOCAL_Q8_0; with has_dtype */
    bool has_dtype;    /* false: the model's precision */
} focal_cache_options;

FOCAL_API focal_status focal_cache_new(focal_model *model, const focal_cache_options *options,
                                       focal_cache **cache);
FOCAL_API void focal_cache_free(focal_cache *cache); /* NULL is fine */
FOCAL_API int32_t focal_cache_length(const focal_cache *cache, int32_t sequence);
/* Forgets all tokens of a text from `length` on (no more than it has). */
FOCAL_API focal_status focal_cache_truncate(focal_cache *cache, int32_t sequence, int32_t length);
/* Makes text `to` equal to text `from`. */
FOCAL_API focal_status focal_cache_copy(focal_cache *cache, int32_t from, int32_t to);
/* One text to a file and back. The file is bound to the model by its fingerprint and to the cache's
 * type; loading replaces the text. */
FOCAL_API focal_status focal_cache_save(const focal_cache *cache, int32_t sequence,
                                        const char *path);
FOCAL_API focal_status focal_cache_load(focal_cache *cache, int32_t sequence, const char *path);

/* Tokens that one text of a batch goes on with. */
typedef struct focal_batch_item {
    int32_t sequence;
    int32_t count;        /* 1 or more */
    const int32_t *ids;   /* (count) */
    int32_t logits_count; /* rows of logits wanted: the last so many tokens' */
} focal_batch_item;

typedef struct focal_forward_args {
    int32_t item_count;
    const focal_batch_item *items; /* each of another sequence */
    float *logits;                 /* (sum of logits_count, V), item after item; may be NULL when
                                      that is 0 */
    const int32_t *targets; /* (sum of count) the id that each token should predict, -1: none;
                               or NULL */
    double *nll;            /* (sum of count) minus the log-probability of the targets, 0
                               without; with targets */
} focal_forward_args;

/* Reads the items' tokens behind what the cache holds and appends them to it. On failure the cache
 * is as it was. The result does not depend on the thread count; how tokens are cut into calls and
 * batches moves it by rounding only.
 * FOCAL_EINVAL on a bad call or an id outside the vocabulary, FOCAL_ENOMEM. */
FOCAL_API focal_status focal_forward(focal_model *model, focal_cache *cache,
                                     const focal_forward_args *args);

FOCAL_END_DECLS
#endif /* FOCAL_MODEL_H */
