/* A made-up text for the demo: topics that come back, and the heads of a layer that look for their
 * own topic. Real enough for a router to have something to find. */
#ifndef CLI_DEMO_TEXT_H
#define CLI_DEMO_TEXT_H

#include "attn_case.h"

enum { DEMO_WIDTH = 64 }; /* C */

typedef struct demo_text {
    int32_t T, H, G, D;
    float *h;     /* (T,C) hidden states: the topic and as much of the token's own */
    float *q;     /* (T,H,D), divided by sqrt(D) */
    float *k, *v; /* (T,G,D) */
} demo_text;

/* The groups that a router, started from the text's own heads and then balanced, gives it. */
typedef struct demo_router {
    int32_t K, routers;
    float *sk, *sq; /* (T, routers, K) scores */
    double ms;      /* the scores of all tokens took */
} demo_router;

int demo_text_make(int32_t T, int32_t H, int32_t G, int32_t topics, uint64_t seed, demo_text *text);
void demo_text_free(demo_text *text);

int demo_router_make(focal_ctx *ctx, const demo_text *text, int32_t K, int32_t routers,
                     uint64_t seed, demo_router *router);
void demo_router_free(demo_router *router);

/* Fills groups (their set excepted) for queries that look into `top`. */
int demo_router_groups(focal_ctx *ctx, const demo_text *text, const demo_router *router,
                       int32_t top, attn_groups *groups);

#endif /* CLI_DEMO_TEXT_H */
