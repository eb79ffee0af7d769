/* The context from inside: memory, features, the pinned kernel. */
#ifndef FOCI_BASE_CTX_H
#define FOCI_BASE_CTX_H

#include "focal/base.h"

typedef enum foci_feature {
    FOCI_AVX2 = 1U << 0,       /* with FMA */
    FOCI_AVX512 = 1U << 1,     /* F, BW, DQ and VL */
    FOCI_AVX512BF16 = 1U << 2, /* vdpbf16ps, and VNNI */
    FOCI_AMX = 1U << 3         /* tiles of bfloat16 */
} foci_feature;

/* True when the CPU and the system offer every feature in the set. */
bool foci_has(const focal_ctx *ctx, unsigned features);

/* True when the context's tensors lie in this machine's memory. */
bool foci_on_host(const focal_ctx *ctx);

/* count * size bytes at a multiple of 64, contents unspecified; a zero product gives a valid
 * block too. NULL, with the message set, when there is no memory or the product does not fit. */
void *foci_alloc(focal_ctx *ctx, size_t count, size_t size);
void foci_free(focal_ctx *ctx, void *block); /* NULL is fine */

/* The same, but freed blocks stay with the context for the next call of about this size, so a
 * loop of equal calls allocates only once. */
void *foci_scratch(focal_ctx *ctx, size_t count, size_t size);
void foci_scratch_free(focal_ctx *ctx, void *block); /* NULL is fine */

enum { FOCI_LARGE_PAGE = 2 * 1024 * 1024 };

/* Asks the system to back a block that is read whole, again and again, by its large pages. Only a
 * wish: nothing else changes. */
void foci_use_large_pages(void *block, size_t bytes);

/* True when no kernel is pinned or this one is. */
bool foci_ctx_allows(const focal_ctx *ctx, const char *kernel);

/* Where the context keeps its profile (base/profile.h); freed with it. */
struct foci_profile **foci_ctx_profile(focal_ctx *ctx);

/* For tests: pretend that the machine lacks features. */
void foci_ctx_mask_features(focal_ctx *ctx, unsigned keep);

#endif /* FOCI_BASE_CTX_H */
