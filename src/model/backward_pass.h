/* One call of foci_backward() from inside: its arrays, and the operations that its files share. */
#ifndef FOCI_MODEL_BACKWARD_PASS_H
#define FOCI_MODEL_BACKWARD_PASS_H

#include "base/profile.h"
#include "focal/attn.h"
#include "model/backward.h"
#include "model/product.h"

/* What a layer computes between two places of the stream, and backward reads again. */
typedef struct foci_kept {
    void *h;             /* (T,C) what q, k and v are made of */
    float *h_exact;      /* (T,C) the same in float32, where a router or an observer reads it; NULL:
                            it is h, or the stream, as it is */
    float *qkv;          /* (T, (H + 2 G) D) before query-key norm */
    void *q, *k, *v;     /* (T,H,D), (T,G,D) twice: what attention reads */
    void *o;             /* (T,H,D) */
    float *lse;          /* (T,H) */
    float *factors;      /* (T) or (T,H) 1 / tau, where the layer has a temperature */
    float *sk;           /* (T,routers,K) scores of keys, where Sinkhorn balances them */
    float *gk, *gq;      /* (T,routers,K) soft memberships; one array where groups are shared */
    int32_t *key_groups; /* (T,routers) of directed groups */
    int32_t *query_groups; /* (T,routers,top) */
    float *attn_y;         /* (T,C) before the norm behind attention, where there is one */
    void *h_ffn;           /* (T,C) what feed-forward reads */
    float *gate, *up;      /* (T,F) */
    void *hidden;          /* (T,F) */
    float *ffn_y;          /* (T,C) as attn_y */
} foci_kept;

/* The key set of one sequence, and its view. */
typedef struct foci_sequence_keys {
    focal_keyset *set;
    focal_keys view;
} foci_sequence_keys;

/* The arrays of one call. */
typedef struct foci_pass {
    focal_ctx *ctx;
    foci_trainable *t;
    const focal_model *model;
    const foci_batch *batch;
    const foci_backward_options *options;
    foci_batch_loss *loss;
    foci_recompute recompute;
    bool is_untouched; /* the model without its groups */
    bool is_teacher;
    bool is_again; /* computes what was not kept */
    int32_t T;
    focal_dtype act;
    int32_t lowest; /* layer that learns; -1: what is below the layers does, too */
    int32_t head_rows;
    float **x;       /* (L + 1) the stream before each layer, and behind the last */
    float **x_mid;   /* (L) between attention and feed-forward */
    foci_kept *kept; /* (L), or one for all */
    float *dx;       /* (T,C) */
    void *dy;        /* (T,C) of act: dx as products read it */
    float *dh;       /* (T,C) */
    float *heads;    /* (T, (H + 2 G) D) normalised heads on their way to attention; and dqkv */
    void *dheads;    /* the same of act */
    void *dq, *dk, *dv, *dout; /* of attention */
    float *dhidden;            /* (T,F) */
    void *dgate, *dup;         /* (T,F) of act */
    void *h_last;              /* (T,C) of act: what the head reads */
    void *h_teacher;           /* (T,C) the teacher's */
    void *h_both;              /* (2 head_rows, C) some rows of h_last, then those of h_teacher */
    float *logits;             /* (head_rows, V); behind them, with a teacher, its own */
    void *dlogits;             /* the same of act; logits itself in float32 */
    double *nll;               /* (head_rows) */
    float *dots;               /* (T,H) of temperatures */
    int32_t *starts;           /* (span_count + 1) */
    int32_t *positions;        /* (T) */
    float *cos[2], *sin[2];
    focal_attn_seq *seqs; /* (span_count) */
    float *low;           /* (T,rank) of low-rank additions, where the model has any */
    void *low_act;        /* the same of act */
    /* Of groups: */
    int32_t top, sinkhorn_rounds;   /* rounds 0: none */
    focal_gate_kind gate;           /* 0: the hard mask alone */
    int32_t router_count;           /* of all layers */
    foci_sequence_keys *keys;       /* (span_count) of the layer that was routed last */
    focal_attn_seq *grouped_seqs;   /* (span_count) with keys */
    float *dgk, *dgq, *dsk;         /* (T,routers,K); dgk and dgq of a scale, too, (T) */
    float *scale_q, *scale_k;       /* (T) of a scale on distant logits; NULL: there is none */
    float *dh_route;                /* (T,C) */
    float *drouter;                 /* gradients of one layer's tensors, before they are added */
    float *observed_q, *observed_k; /* (T,H,D), (T,G,D) */
    char *memory;
} foci_pass;

/* Whether the observer has seen what it wants. */
static inline bool foci_pass_is_over(const foci_pass *p)
{
    return p->options->is_over && *p->options->is_over;
}

/* Runs an operation under its name in the profile; its cost is looked at only then. */
#define TIMED(p, name, flops, call)                                                                \
    do {                                                                                           \
        const double timed_begin_ = foci_profile_begin((p)->ctx);                                  \
        FOCAL_TRY(call);                                                                           \
        if (foci_profile_is_on((p)->ctx))                                                          \
            foci_profile_end((p)->ctx, name, timed_begin_, (foci_cost){flops, 0.0});               \
    } while (0)

static inline foci_kept *foci_kept_of(const foci_pass *p, int32_t layer)
{
    return &p->kept[p->recompute == FOCI_RECOMPUTE_NONE ? layer : 0];
}

/* ---- Products, norms and the stream (backward_products.c) ---- */

/* What LoRA adds to a layer in this pass; NULL: nothing. What learns does not act in the untouched
 * model. The products below have it in them. */
const foci_low_rank *foci_pass_added_to(const foci_pass *p, const foci_linear *w);
/* Products that read the same x. */
focal_status foci_pass_multiply_several(const foci_pass *p, const char *name, const void *x,
                                        const foci_product *products, int32_t count);
/* out (T,N) = x w^T + bias, or += . */
focal_status foci_pass_multiply(const foci_pass *p, const char *name, const foci_linear *w,
                                const void *x, float *out, int64_t out_stride, bool adds);
/* hidden without gate and up, where LoRA adds nothing to them: the same bits. */
focal_status foci_pass_multiply_gated(const foci_pass *p, const foci_kept *a,
                                      const foci_product *in, int32_t count);
/* dx (T,K) = dy w, or += . */
focal_status foci_pass_multiply_back(const foci_pass *p, const char *name, const foci_linear *w,
                                     const void *dy, int64_t dy_stride, void *dx,
                                     focal_dtype dx_dtype, bool adds);
/* dw += dy^T x, dbias += the sum of dy's rows; nothing where they stay. */
focal_status foci_pass_weight_gradient(const foci_pass *p, const char *name, const foci_linear *w,
                                       const foci_linear_grads *grads, const void *dy,
                                       int64_t dy_stride, const void *x);
/* (T, H, D) numbers of any stride in another type or place. */
focal_status foci_pass_convert(const foci_pass *p, int32_t H, int32_t D, const float *x,
                               int64_t x_stride, void *out, focal_dtype out_dtype);
focal_status foci_pass_normalise(const foci_pass *p, const foci_gain *gain, const float *x,
                                 void *out, focal_dtype out_dtype);
/* dx = the gradient of what the norm read, or += ; dx may be dy. */
focal_status foci_pass_normalise_back(const foci_pass *p, const foci_gain *gain,
                                      const foci_gain_grads *grads, const float *x, const float *dy,
                                      float *dx, bool adds);
/* What a block reads of the stream, normalised where the family does it here. */
focal_status foci_pass_read(const foci_pass *p, const foci_gain *gain, const float *x, void *h);
/* dx += the gradient that came to h. */
focal_status foci_pass_read_back(const foci_pass *p, const foci_gain *gain,
                                 const foci_gain_grads *grads, const float *x);
/* to = from + what a block gives through w, normalised where the family does it there. */
focal_status foci_pass_join(const foci_pass *p, const char *name, const foci_linear *w,
                            const void *block, const foci_gain *gain, float *y, const float *from,
                            float *to);
/* dy = the gradient of what w gave, as products read it. */
focal_status foci_pass_join_back(const foci_pass *p, const foci_gain *gain,
                                 const foci_gain_grads *grads, const float *y);

/* ---- Attention (backward_attention.c) ---- */

/* Everything of it but its last product, and that product. */
focal_status foci_pass_attention_inside(const foci_pass *p, int32_t n);
focal_status foci_pass_attention_out(const foci_pass *p, int32_t n);
/* dx behind the block to dx before it. */
focal_status foci_pass_attention_back(const foci_pass *p, int32_t n);
bool foci_pass_learns_temperature(const foci_pass *p, int32_t layer);

/* ---- The head (backward_head.c) ---- */

/* What the head reads, of the last layer's stream. */
focal_status foci_pass_head_input(const foci_pass *p, void *h);
/* The loss, and dx behind the last layer. */
focal_status foci_pass_head(const foci_pass *p);

/* ---- Groups (backward_groups.c) ---- */

/* Whether a layer's groups act in this pass: those of a router, which learns, or any; and whether
 * it sees window and sinks alone, or all keys with a scale on distant logits. */
bool foci_pass_has_router(const foci_pass *p, int32_t layer);
bool foci_pass_has_groups(const foci_pass *p, int32_t layer);
bool foci_pass_is_near(const foci_pass *p, int32_t layer);
bool foci_pass_is_scaled(const foci_pass *p, int32_t layer);
/* What the call asks of groups, checked; before memory is laid out. */
focal_status foci_pass_begin_groups(foci_pass *p);
/* Key sets, one a sequence; and their end. */
focal_status foci_pass_make_keysets(foci_pass *p);
void foci_pass_free_keysets(foci_pass *p);
/* Bytes that they grow to. */
size_t foci_pass_keyset_bytes(const foci_pass *p);
/* Which groups the tokens are in, from what the layer reads; moves the balance in the first pass
 * and counts there what it sees. */
focal_status foci_pass_route(const foci_pass *p, int32_t n, const float *h);
/* Makes the arguments of dense attention those of the layer's groups. Key sets are those of the
 * layer that was routed or asked for last. */
focal_status foci_pass_group_attention(const foci_pass *p, int32_t n, bool is_back,
                                       focal_attn_args *args, focal_attn_gate *gate);
/* From dgk and dgq to the router's tensors, and to dh. */
focal_status foci_pass_route_back(const foci_pass *p, int32_t n, const float *h);

/* ---- The scale on distant logits (backward_scale.c) ---- */

/* The gate that it is, for all layers. */
void foci_pass_begin_scale(const foci_pass *p);
/* Makes the arguments of dense attention those of a layer that has it. */
void foci_pass_scale_attention(const foci_pass *p, focal_attn_args *args, focal_attn_gate *gate);
/* From a layer's dgq to the gradient of the number. */
void foci_pass_scale_back(const foci_pass *p);

/* ---- Memory (backward_memory.c) ---- */

/* Points the arrays into base, which has the bytes that a call with NULL returned. */
size_t foci_pass_lay_out(foci_pass *p, char *base);

#endif /* FOCI_MODEL_BACKWARD_PASS_H */
