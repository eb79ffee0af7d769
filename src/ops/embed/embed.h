/* The embedding of tokens: rows of a table of any type. */
#ifndef FOCI_OPS_EMBED_EMBED_H
#define FOCI_OPS_EMBED_EMBED_H

#include "focal/base.h"

/* out (T,C) = scale * the rows ids (T) of table (V,C), whose rows hold whole blocks of their type
 * and lie one behind the other, at any address. Nothing overlaps.
 * Fails with FOCAL_EINVAL on a bad shape, a missing tensor or an id outside of 0..V-1, and writes
 * nothing then. */
focal_status foci_embed(focal_ctx *ctx, const void *table, focal_dtype dtype, int64_t V, int64_t C,
                        const int32_t *ids, int64_t T, float scale, float *out);

#endif /* FOCI_OPS_EMBED_EMBED_H */
