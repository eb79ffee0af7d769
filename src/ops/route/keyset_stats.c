/* What reports show of a key set: pairs, and how evenly the groups are filled. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"
#include "ops/route/keyset.h"

/* Directed groups: a key is in one list, so the prefixes add up. */
static int64_t kept_directed(const focal_keyset *set, int64_t router)
{
    const int64_t entries = (int64_t)set->T * set->options.top;
    int64_t kept = 0;
    for (int64_t n = 0; n < entries; n++) kept += set->query_end[router * entries + n];
    return kept;
}

/* Every STRIPES-th query is an item: later ones see more keys. */
enum { STRIPES = 32 };

typedef struct shared_count {
    const focal_keyset *set;
    int64_t router;
    int64_t kept[STRIPES];
} shared_count;

static void count_stripe(void *arg, int64_t stripe, int32_t thread)
{
    shared_count *c = arg;
    const focal_keyset *set = c->set;
    const uint64_t *key_mask = set->key_mask + c->router * set->mask_stride;
    const uint64_t *query_mask = set->query_mask + c->router * set->T;
    int64_t kept = 0;
    (void)thread;
    for (int64_t i = stripe; i < set->T; i += STRIPES) {
        const int64_t end = (int64_t)set->S - set->T + i - set->options.window;
        for (int64_t j = set->options.sinks; j < end; j++)
            kept += (key_mask[j] & query_mask[i]) != 0;
    }
    c->kept[stripe] = kept;
}

/* Shared groups: a pair may meet in several lists and counts once; O(T S), by the masks. */
static int64_t kept_shared(const focal_keyset *set, int64_t router)
{
    if (set->T == 0) return 0; /* the lists may not be there yet */
    shared_count c = {.set = set, .router = router};
    int64_t kept = 0;
    foci_parallel(set->ctx, foci_min64(STRIPES, set->T), count_stripe, &c);
    for (int64_t stripe = 0; stripe < STRIPES; stripe++) kept += c.kept[stripe];
    return kept;
}

/* Loads are of all keys, sinks too, which are in no list. */
static void count_loads(const focal_keyset *set, int64_t router, int64_t *count)
{
    const int32_t K = set->options.K;
    for (int64_t c = 0; c < K; c++)
        count[c] = (int64_t)set->key_end[router * K + c] - set->key_begin[router * K + c];
    const int64_t sinks = foci_min64(set->options.sinks, set->S);
    for (int64_t j = 0; j < sinks; j++)
        for (uint64_t mask = set->key_mask[router * set->mask_stride + j]; mask; mask &= mask - 1)
            count[__builtin_ctzll(mask)]++;
}

focal_status focal_keyset_stats(const focal_keyset *set, int32_t router, focal_keys_stats *stats)
{
    if (!set) return FOCAL_EINVAL;
    const focal_keyset_options *o = &set->options;
    if (!stats) return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: no place for the statistics");
    if (router < 0 || router >= o->routers)
        return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: router %d is not in 0..%d", router,
                         o->routers - 1);
    memset(stats, 0, sizeof *stats);
    for (int64_t p = (int64_t)set->S - set->T; p < set->S; p++) {
        const int64_t distant = foci_max64(p - o->window - o->sinks, 0);
        stats->distant_pairs += distant;
        stats->local_pairs += p + 1 - distant;
    }
    stats->kept_pairs =
        o->mode == FOCAL_SHARED ? kept_shared(set, router) : kept_directed(set, router);
    int64_t count[FOCAL_MAX_GROUPS] = {0};
    count_loads(set, router, count);
    const double total = (double)set->S * foci_keyset_memberships(set);
    for (int32_t c = 0; c < o->K && set->S > 0; c++) {
        const double load = (double)count[c] / total;
        stats->load[c] = load;
        stats->largest_load = fmax(stats->largest_load, load);
        if (load > 0.0) stats->load_entropy -= load * log(load);
    }
    return FOCAL_OK;
}
