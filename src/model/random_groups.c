/* Groups by chance: counter-based numbers, so that a text in parts has the groups of the whole. */
#include "model/random_groups.h"

#include "base/random.h"

/* Numbers of keys and of queries are different streams; one stream a layer and router. */
static uint64_t stream_of(const foci_groups_shape *shape, int32_t layer, int32_t router,
                          bool is_query)
{
    return 2 * ((uint64_t)layer * (uint64_t)shape->routers + (uint64_t)router) + is_query;
}

/* The first `top` of a shuffled row of groups (Fisher and Yates). */
static void choose(uint64_t seed, uint64_t stream, uint64_t position, int32_t K, int32_t top,
                   int32_t *groups)
{
    int32_t row[FOCAL_MAX_GROUPS];
    for (int32_t c = 0; c < FOCAL_MAX_GROUPS; c++) row[c] = c;
    for (int32_t n = 0; n < top; n++) {
        const uint64_t counter = position * FOCAL_MAX_GROUPS + (uint64_t)n;
        const int32_t at = n + (int32_t)foci_random_below(seed, stream, counter, (uint32_t)(K - n));
        groups[n] = row[at];
        row[at] = row[n];
    }
}

void foci_random_groups(const foci_groups_shape *shape, int32_t layer, int32_t T,
                        const int32_t *positions, int32_t top, int32_t *key_groups,
                        int32_t *query_groups)
{
    const uint64_t seed = (uint64_t)shape->seed;
    for (int32_t r = 0; r < shape->routers; r++) {
        const uint64_t of_keys = stream_of(shape, layer, r, false);
        const uint64_t of_queries = stream_of(shape, layer, r, true);
        for (int64_t i = 0; i < T; i++) {
            const uint64_t position = (uint64_t)positions[i];
            const int64_t at = i * shape->routers + r;
            choose(seed, of_queries, position, shape->K, top, query_groups + at * top);
            if (key_groups)
                key_groups[at] =
                    (int32_t)foci_random_below(seed, of_keys, position, (uint32_t)shape->K);
        }
    }
}
