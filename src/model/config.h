/* What a model computes, whatever file it came from: shapes, and one field for each thing in which
 * the families differ. */
#ifndef FOCI_MODEL_CONFIG_H
#define FOCI_MODEL_CONFIG_H

#include "focal/base.h"
#include "io/gguf.h"
#include "io/json.h"
#include "ops/mlp/gate.h"
#include "ops/norm/norm.h"
#include "ops/rope/rope.h"
#include "ops/temperature/temperature.h"

/* What a file may ask for; the product of any three fits an int64_t with room. */
enum {
    FOCI_MAX_LAYERS = 512,
    FOCI_MAX_WIDTH = 1 << 16,    /* C, and H * D */
    FOCI_MAX_HIDDEN = 1 << 20,   /* F */
    FOCI_MAX_VOCAB = 1 << 22,    /* V */
    FOCI_MAX_CONTEXT = 1 << 27,  /* tokens */
    FOCI_MAX_ROPE_PAIRS = 128,   /* half of attention's widest head */
    FOCI_MAX_LISTED_HEADS = 1024 /* of which some have a temperature and some not */
};

/* Where a block normalises. */
typedef enum foci_norm_place {
    FOCI_NORM_BEFORE, /* what attention and feed-forward read */
    FOCI_NORM_AFTER,  /* what they give, before it is added */
    FOCI_NORM_BOTH
} foci_norm_place;

/* What of queries and keys is normalised, before they are rotated. */
typedef enum foci_qk_norm {
    FOCI_QK_NONE,
    FOCI_QK_HEAD,      /* each head for itself */
    FOCI_QK_PROJECTION /* all heads of a token together */
} foci_qk_norm;

/* In front of a family's name in files that have a temperature of their own, which other readers
 * would leave out: they refuse the name. */
#define FOCI_OWN_HF "focal_"
#define FOCI_OWN_GGUF "focal-"

typedef struct foci_family foci_family;

/* Which temperature attention has, and where; what is learned of it lies with the weights. */
typedef struct foci_temperature_config {
    bool is_there; /* else t = 1 everywhere */
    foci_temperature_kind kind;
    float t;                           /* constant, length; what per-head begins with */
    float c, length;                   /* of kind length */
    bool has_layers, has_heads;        /* only those listed; else all */
    bool layers[FOCI_MAX_LAYERS];      /* that have it, with has_layers */
    bool heads[FOCI_MAX_LISTED_HEADS]; /* that have it, with has_heads */
} foci_temperature_config;

typedef struct foci_config {
    const foci_family *family;
    int32_t L, C, H, G, D, F, V;
    int32_t context; /* tokens that the model was made for */

    foci_norm_kind norm;
    foci_norm_place norm_place;
    float epsilon;
    float norm_offset; /* added to the weights of norms */
    foci_qk_norm qk_norm;
    foci_activation activation;
    bool is_gated;      /* feed-forward has a gate */
    bool has_positions; /* learned ones, instead of rotation */
    bool is_tied;       /* the head is the embedding, even where the file has another */
    float embed_scale;  /* multiplies embeddings */
    float attn_scale;   /* multiplies q: 1 / sqrt(D), or the model's own */
    float attn_softcap, final_softcap; /* 0: none */

    foci_rope_style rope_style;
    foci_rope_config rope, rope_local; /* of global and of windowed layers */
    int32_t window;                    /* keys before the own one, in windowed layers */
    bool is_local[FOCI_MAX_LAYERS];    /* layers with the window */

    foci_temperature_config temperature;
} foci_config;

/* A row of the table of families: what holds for every model of one. */
struct foci_family {
    const char *name;     /* as messages and `focal info` say it */
    const char *gguf;     /* general.architecture */
    const char *hf;       /* model_type */
    const char *hf_class; /* of transformers */
    foci_norm_kind norm;
    foci_norm_place norm_place;
    foci_qk_norm qk_norm;
    foci_activation activation; /* where the file names none */
    foci_rope_style gguf_rope;  /* converters reorder q and k of some */
    int32_t local_period;       /* one layer of so many is global; 0: windows in all, when any */
    bool global_is_first;       /* of a period, else its last */
    bool has_scaled_embed;      /* by sqrt(C) */
    bool has_offset_norms;      /* Hugging Face files hold w - 1, GGUF holds w */
    bool is_gpt2;               /* positions, fused q k v, no gate, weights stored transposed */
};

/* Both fail with FOCAL_EFORMAT, or FOCAL_EUNSUPPORTED for a family or a key that would change what
 * is computed and is not understood; the sentence has the file, the key, the value and the limit.
 */
focal_status foci_config_from_gguf(focal_ctx *ctx, const foci_gguf *gguf, foci_config *out);
focal_status foci_config_from_json(focal_ctx *ctx, const char *what, const foci_json *json,
                                   foci_config *out);

/* "constant", "learned", ..., as run files say it too. */
const char *foci_temperature_kind_name(foci_temperature_kind kind);
/* The object focal_temperature of config.json, or the keys PREFIX.attention.temperature.* of GGUF,
 * for a model whose other sizes are known. Every value is checked. */
focal_status foci_temperature_from_json(focal_ctx *ctx, const char *what, const foci_json *object,
                                        foci_config *config);
focal_status foci_temperature_from_gguf(focal_ctx *ctx, const foci_gguf *gguf, const char *prefix,
                                        foci_config *config);
/* Whether layer n has the temperature. */
bool foci_temperature_reaches(const foci_temperature_config *temperature, int32_t layer);
/* "constant, t 0.4, in 2 of 8 layers", "" without one. */
void foci_temperature_describe(const foci_config *config, char *text, size_t bytes);
/* "0,2,5-7" for messages and files; FOCI_LIST_BYTES hold any list of layers or heads. */
enum { FOCI_LIST_BYTES = 4096 };
void foci_temperature_list(const bool *marks, int32_t count, char *text, size_t bytes);

/* What a new model is made of; the family is llama, qwen3 or gpt2. */
typedef struct foci_shape {
    const foci_family *family;
    int32_t L, C, H, G, D, F, V;
    int32_t context;
    double rope_base;
    bool is_tied;
} foci_shape;

/* FOCAL_EINVAL when the sizes do not fit each other or the limits. */
focal_status foci_config_new(focal_ctx *ctx, const foci_shape *shape, foci_config *out);

/* The family with that name in GGUF files, or in Hugging Face's; NULL: none. */
const foci_family *foci_family_of_gguf(const char *name, size_t bytes);
const foci_family *foci_family_of_hf(const char *name);
/* "llama, mistral, ...", for messages. */
const char *foci_family_names(void);

/* What both readers check at the end: shapes that fit each other and the limits. */
focal_status foci_config_check(focal_ctx *ctx, const char *what, const foci_config *config);

/* Marks the windowed layers by the family's period. */
void foci_config_spread_windows(foci_config *config, int32_t period, bool global_is_first);

/* q, k and v of a token side by side. */
static inline int64_t foci_qkv_stride(const foci_config *c)
{
    return ((int64_t)c->H + 2 * (int64_t)c->G) * c->D;
}

static inline bool foci_has_windows(const foci_config *c)
{
    for (int32_t n = 0; n < c->L; n++)
        if (c->is_local[n]) return true;
    return false;
}

#endif /* FOCI_MODEL_CONFIG_H */
