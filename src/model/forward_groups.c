/* The groups of a forward pass: routers read what attention reads, and the pass's tokens go into
 * the chains of their groups. */
#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "model/forward_pass.h"
#include "model/random_groups.h"

int32_t foci_forward_stores(const focal_cache *cache)
{
    return cache->groups ? cache->seqs[0].chains->stores : 1;
}

/* The first row of the pass that has keys beyond its window and the sinks; T: none has. */
static int64_t first_distant_row(const foci_forward *p)
{
    const foci_groups_use *use = &p->cache->use;
    const int64_t near = (int64_t)use->window + 1 + use->sinks;
    int64_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; row += p->args->items[n++].count) {
        const focal_batch_item *item = &p->args->items[n];
        const int64_t length = p->cache->seqs[item->sequence].length;
        if (length + item->count > near) return row + foci_max64(near - length, 0);
    }
    return row;
}

/* Scores of the pass's rows: of keys, and of queries from `first` on. */
static focal_status score_rows(const foci_forward *p, const focal_router *router, const float *h,
                               int64_t first)
{
    const focal_route_args args = {.router = router,
                                   .T = p->T,
                                   .h = h,
                                   .sk = p->key_scores,
                                   .sq = first < p->T ? p->query_scores : NULL,
                                   .sq_from = (int32_t)first};
    return focal_route_scores(p->ctx, &args);
}

/* The groups of the pass's tokens as keys, and those that they look into. Queries before the first
 * that has distant keys would find nothing in any group, so theirs are not computed. */
static focal_status find_groups(const foci_forward *p, int32_t layer, const float *h)
{
    const foci_groups *groups = p->cache->groups;
    const focal_router *router = &groups->layers[layer].router;
    const int32_t K = router->K, top = p->cache->use.top;
    const int64_t rows = (int64_t)p->T * router->routers;
    if (groups->shape.source == FOCI_GROUPS_RANDOM) {
        foci_random_groups(&groups->shape, layer, p->T, p->positions, top,
                           groups->shape.mode == FOCAL_SHARED ? NULL : p->key_groups,
                           p->query_groups);
        return FOCAL_OK;
    }
    if (groups->shape.mode == FOCAL_SHARED) {
        FOCAL_TRY(score_rows(p, router, h, p->T));
        return focal_route_top(p->ctx, rows, K, top, p->key_scores, p->query_groups);
    }
    const int64_t first = first_distant_row(p), near = first * router->routers;
    FOCAL_TRY(score_rows(p, router, h, first));
    FOCAL_TRY(focal_route_top(p->ctx, rows, K, 1, p->key_scores, p->key_groups));
    for (int64_t n = 0; n < near * top; n++) p->query_groups[n] = (int32_t)(n % top);
    if (near == rows) return FOCAL_OK;
    return focal_route_top(p->ctx, rows - near, K, top, p->query_scores + near * K,
                           p->query_groups + near * top);
}

focal_status foci_forward_route(const foci_forward *p, int32_t layer, const float *h)
{
    const foci_groups_shape *shape = &p->cache->groups->shape;
    const int32_t stores = foci_forward_stores(p->cache);
    FOCAL_TRY(find_groups(p, layer, h));
    int64_t row = 0;
    for (int32_t n = 0; n < p->args->item_count; row += p->args->items[n++].count) {
        const focal_batch_item *item = &p->args->items[n];
        foci_chains *chains = p->cache->seqs[item->sequence].chains;
        const int64_t first = row * shape->routers;
        FOCAL_TRY(foci_chains_append(chains, layer, item->count,
                                     p->query_groups + first * p->cache->use.top,
                                     p->key_groups + first));
        for (int32_t r = 0; r < stores; r++)
            p->keys[n * stores + r] = foci_chains_keys(chains, layer, r);
    }
    return FOCAL_OK;
}
