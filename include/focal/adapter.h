/* Adapters: what was fitted to a model, as files beside it, and a model that runs with them. Either
 * groups, which are routers and temperatures (docs/MATH.md, 3), or LoRA: a product of two small
 * matrices beside that of a linear layer, in the files of Hugging Face's peft. */
#ifndef FOCAL_ADAPTER_H
#define FOCAL_ADAPTER_H

#include "focal/model.h"

FOCAL_BEGIN_DECLS

typedef struct focal_adapter focal_adapter;

/* path is a directory with adapter_config.json and adapter_model.safetensors. Everything in it is
 * checked. The context must outlive the adapter.
 * FOCAL_EIO, FOCAL_EFORMAT or FOCAL_EUNSUPPORTED with a sentence; *adapter is then NULL. */
FOCAL_API focal_status focal_adapter_open(focal_ctx *ctx, const char *path,
                                          focal_adapter **adapter);
FOCAL_API void focal_adapter_close(focal_adapter *adapter); /* NULL is fine */

/* What an adapter is. Strings live as long as the adapter. */
typedef struct focal_adapter_info {
    const char *path;
    const char *kind;        /* "groups" or "lora" */
    const char *base;        /* the model it was fitted to, as that calls itself; or "" */
    const char *fingerprint; /* of that model (focal_model_fingerprint); "": peft wrote it */
    const char *checksum;    /* of its two files as they were opened, 16 hexadecimal digits */
    const char *version;     /* of the focal that wrote it; or "" */
    const char *settings;    /* how it was fitted, as the JSON object that its file holds */
    int32_t L;               /* layers of that model; of LoRA one behind the highest that has it */
    int32_t layers;          /* that have groups, or see window and sinks alone, or an addition */
    focal_dtype dtype;
    int64_t parameter_count;
    int64_t steps; /* of its fit, as its settings say; 0: nothing was learned; -1: not known */
    /* Of groups: */
    const char *mode;  /* "directed" or "shared" */
    const char *scope; /* "kv": a router for each key head; "layer": one for all */
    const char *form;  /* "unit", or "raw", the paper's router: no norms, no offsets, no
                          balance; "random": no router, groups by chance; "none": no groups,
                          the layers see window and sinks alone; "scale": no groups, they see
                          all keys, and distant logits are multiplied: */
    double distant_scale;
    int32_t C, H, G;       /* of that model */
    int32_t groups, width; /* K, R */
    int32_t top, top_fit;  /* groups a query looks into: as run (0: window and sinks alone), and as
                              fitted */
    int32_t window, sinks; /* keys that are always seen */
    bool has_temperatures;
    bool is_causal; /* false: fitted with a balance over whole texts, as the paper does */
    /* Of LoRA: */
    int32_t rank;
    double alpha, scale; /* what the product of B and A is multiplied by is scale */
    const char *targets; /* the layers that have it: "q_proj v_proj" */
} focal_adapter_info;
FOCAL_API focal_adapter_info focal_adapter_describe(const focal_adapter *adapter);

/* How groups run. All zero is what the adapter says; LoRA takes nothing else. */
typedef struct focal_attach_options {
    int32_t top;    /* 1..K; 0: the adapter's. K sees every key, with its temperatures */
    int32_t window; /* with has_window */
    int32_t sinks;  /* with has_sinks */
    bool has_window, has_sinks;
    bool has_no_distant;      /* its layers see their window and sinks alone */
    bool has_no_groups;       /* its temperatures only */
    bool has_no_temperatures; /* its groups only */
} focal_attach_options;

/* The model runs with the adapter from now on, and reads it: it must stay open until the model is
 * closed or another (or NULL: none) is attached. Caches of the model that were made before are
 * refused. FOCAL_EINVAL says in what the adapter's model differs from this. */
FOCAL_API focal_status focal_model_attach(focal_model *model, const focal_adapter *adapter,
                                          const focal_attach_options *options);

/* Opens an adapter and attaches it; the model closes it. */
FOCAL_API focal_status focal_model_adapt(focal_model *model, const char *path,
                                         const focal_attach_options *options);

FOCAL_END_DECLS
#endif /* FOCAL_ADAPTER_H */
