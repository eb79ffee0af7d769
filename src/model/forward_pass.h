/* One call of focal_forward() from inside: its arrays, and the operations that its files share. */
#ifndef FOCI_MODEL_FORWARD_PASS_H
#define FOCI_MODEL_FORWARD_PASS_H

#include "base/error.h"
#include "base/profile.h"
#include "focal/attn.h"
#include "model/cache.h"
#include "model/model.h"
#include "model/product.h"

enum { FOCI_PLACE_ROWS = 32 /* rows that go into the cache together */ };

/* The arrays of one pass. */
typedef struct foci_forward {
    focal_ctx *ctx;
    focal_model *model;
    focal_cache *cache;
    const focal_forward_args *args;
    int32_t T;        /* tokens of all items */
    bool is_few;      /* products may round what they read to 16 bits; act is float32 then */
    focal_dtype act;  /* of what products read */
    focal_dtype attn; /* of attention's q and out, and of k and v but in q8_0 */
    float *x;         /* (T,C) */
    void *h;          /* (T,C) of act: what attention and feed-forward read; and o_act */
    float *qkv;       /* (T, (H + 2 G) D); and hidden */
    float *k_rows;    /* (threads, FOCI_PLACE_ROWS, G, D) keys on their way into a cache of q8_0 */
    void *q;          /* (T,H,D) of attn */
    void *o;          /* (T,H,D) of attn */
    void *o_act;      /* the same in act; o itself where they are equal. h has been read then */
    float *y;         /* (T,C) what a block gives, where it is normalised before it is added */
    float *gate, *up; /* (T,F), of few rows and where something is added to them */
    void *hidden;     /* (T,F) of act; qkv has been read then */
    float *factors;   /* (T,H) of temperatures, where the model has any */
    float *low;       /* (T,rank) of low-rank additions, where the model has any */
    int32_t *ids;     /* (T) */
    int32_t *positions;     /* (T) */
    float *cos[2], *sin[2]; /* (T, rotated / 2) of global and of windowed layers */
    focal_attn_seq *seqs;   /* (item_count, stores) */
    /* Of layers with groups. */
    float *key_scores, *query_scores;   /* (T, routers, K) */
    int32_t *key_groups, *query_groups; /* (T, routers), (T, routers, top) */
    focal_keys *keys;                   /* (item_count, stores) the sets of the layer at work */
    char *chain_rows; /* (threads, FOCI_PLACE_ROWS) rows on their way into chains */
    /* Of layers whose distant logits are multiplied: a gate of one group (docs/MATH.md, 3.6). */
    float *scale_q, *scale_k; /* (T), (the longest text) */
    focal_attn_gate scale;
    char *memory;
} foci_forward;

/* Runs an operation under its name in the profile; its cost is looked at only then. */
#define TIMED(p, name, cost, call)                                                                 \
    do {                                                                                           \
        const double timed_begin_ = foci_profile_begin((p)->ctx);                                  \
        FOCAL_TRY(call);                                                                           \
        if (foci_profile_is_on((p)->ctx)) foci_profile_end((p)->ctx, name, timed_begin_, cost);    \
    } while (0)

static const foci_cost foci_no_cost = {0.0, 0.0};

/* ---- Products, norms and the stream (forward_products.c) ---- */

/* Products that read the same x, and what is added to them. */
focal_status foci_forward_linears(const foci_forward *p, const char *name, const void *x,
                                  const foci_product *products, int32_t count);
focal_status foci_forward_linear(const foci_forward *p, const char *name, const foci_linear *w,
                                 const void *x, float *out, int64_t out_stride, bool adds);
/* hidden = activation(h gate^T) * (h up^T) without keeping the sums; of one product
 * activation(h up^T). */
focal_status foci_forward_gated(const foci_forward *p, const foci_product *products, int32_t count);
/* rows of width C, float32, to out. */
focal_status foci_forward_normalise(const foci_forward *p, const foci_gain *gain, int32_t rows,
                                    const float *x, void *out, focal_dtype out_dtype);
/* (rows, H, D) float32 of any stride in the type of attention or of products. */
focal_status foci_forward_convert(const foci_forward *p, int32_t rows, int32_t H, int32_t D,
                                  const float *x, int64_t x_stride, void *out,
                                  focal_dtype out_dtype);
/* h = what the next block reads: the stream, normalised where the family does it here. */
focal_status foci_forward_read(const foci_forward *p, const foci_gain *gain);
/* x += what a block gives through w, normalised where the family does it there. */
focal_status foci_forward_join(const foci_forward *p, const char *name, const foci_linear *w,
                               const void *from, const foci_gain *gain);

/* ---- Attention ---- */

/* How many texts' parts attention sees: one, or one for each router that has its own pages. */
int32_t foci_forward_stores(const focal_cache *cache);
/* The pass's tokens in the chains of their groups, where their keys and values will lie, and the
 * sets that attention reads (forward_groups.c). */
focal_status foci_forward_route(const foci_forward *p, int32_t layer, const float *h);
/* q as attention reads it; k and v into the cache (forward_place.c). */
focal_status foci_forward_place(const foci_forward *p, int32_t layer);
/* The block of a layer, from the stream to the stream (forward_attention.c). */
focal_status foci_forward_attend(const foci_forward *p, int32_t layer);

#endif /* FOCI_MODEL_FORWARD_PASS_H */
