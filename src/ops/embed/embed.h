/* The embedding of tokens: rows of a table of any type. */
#ifndef FOCI_OPS_EMBED_EMBED_H
#define FOCI_OPS_EMBED_EMBED_H

#include "focal/base.h"

/* Rows that hold whole blocks of their type and lie one behind the other, at any address. */
typedef struct foci_embed_table {
    const void *rows; /* (V,C) */
    focal_dtype dtype;
    int64_t V, C;
    bool is_interleaved; /* in the order of ops/interleave.h */
} foci_embed_table;

/* out (T,C) = scale * the rows ids (T) of the table. Nothing overlaps.
 * Fails with FOCAL_EINVAL on a bad shape, a missing tensor or an id outside of 0..V-1, and writes
 * nothing then. */
focal_status foci_embed(focal_ctx *ctx, const foci_embed_table *table, const int32_t *ids,
                        int64_t T, float scale, float *out);

/* The gradient of the table, docs/MATH.md (4.6.1). */
typedef struct foci_embed_backward_args {
    int64_t V, C, T;
    const int32_t *ids; /* (T) */
    float scale;        /* that of forward */
    const float *dx;    /* (T, C) the gradient of forward's out */
    int64_t dx_stride;  /* floats from token to token; 0: C */
    float *dtable;      /* (V, C) += ; rows without a token are not touched */
} foci_embed_backward_args;

/* Work and scratch follow T and not V; the same bits at any thread count. FOCAL_EINVAL as above,
 * FOCAL_ENOMEM without scratch; nothing is written then. */
focal_status foci_embed_backward(focal_ctx *ctx, const foci_embed_backward_args *args);

#endif /* FOCI_OPS_EMBED_EMBED_H */
