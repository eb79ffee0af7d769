/* Key sets that grow: the keys of each group in position order, with room behind them, and the
 * queries appended last, sorted by group. The number of a group's keys that are older than the
 * window moves forward by one position a token, so a query's prefix is known without a search. */
#include "ops/route/keyset.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/pool.h"
#include "base/sizes.h"

enum {
    MAX_ROUTERS = 1 << 16,
    MAX_ENTRIES = 1 << 29, /* of a router's lists: with their room they stay below 2^31 */
    ROOM = 16,             /* the least room behind a list */
    PARALLEL_TOKENS = 1024 /* fewer are appended before a thread would wake up */
};

static int64_t list_room(int64_t count)
{
    return count + count / 2 + ROOM;
}

static focal_status check_options(focal_ctx *ctx, const focal_keyset_options *o)
{
    if (o->mode != FOCAL_DIRECTED && o->mode != FOCAL_SHARED)
        return foci_fail(ctx, FOCAL_EINVAL, "keyset: mode %d is neither directed nor shared",
                         (int)o->mode);
    if (o->K < 1 || o->K > FOCAL_MAX_GROUPS)
        return foci_fail(ctx, FOCAL_EINVAL, "keyset: K is %d, it must be 1 to %d", o->K,
                         FOCAL_MAX_GROUPS);
    if (o->top < 1 || o->top > o->K)
        return foci_fail(ctx, FOCAL_EINVAL, "keyset: top is %d, it must be 1 to K = %d", o->top,
                         o->K);
    if (o->routers < 1 || o->routers > MAX_ROUTERS)
        return foci_fail(ctx, FOCAL_EINVAL, "keyset: routers is %d, it must be 1 to %d", o->routers,
                         MAX_ROUTERS);
    if (o->window < 0 || o->sinks < 0)
        return foci_fail(ctx, FOCAL_EINVAL, "keyset: window %d and sinks %d must not be negative",
                         o->window, o->sinks);
    return FOCAL_OK;
}

focal_status focal_keyset_new(focal_ctx *ctx, const focal_keyset_options *options,
                              focal_keyset **out)
{
    if (!out) return foci_fail(ctx, FOCAL_EINVAL, "keyset: no place for the set");
    *out = NULL;
    if (!ctx || !options)
        return foci_fail(ctx, FOCAL_EINVAL, "keyset: ctx and options must be set");
    FOCAL_TRY(check_options(ctx, options));
    focal_keyset *set = foci_alloc(ctx, 1, sizeof *set);
    if (!set) return FOCAL_ENOMEM;
    memset(set, 0, sizeof *set);
    set->ctx = ctx;
    set->options = *options;
    const size_t routers = (size_t)options->routers, table = routers * (size_t)options->K;
    const size_t entries = 6 * table + 2 * routers;
    set->tables = foci_alloc(ctx, entries, sizeof *set->tables);
    if (!set->tables) {
        focal_keyset_free(set);
        return FOCAL_ENOMEM;
    }
    memset(set->tables, 0, entries * sizeof *set->tables);
    set->key_begin = set->tables;
    set->key_end = set->key_begin + table;
    set->key_limit = set->key_end + table;
    set->older = set->key_limit + table;
    set->incoming = set->older + table;
    set->query_begin = set->incoming + table; /* K + 1 a router */
    set->list_used = set->query_begin + table + routers;
    *out = set;
    return FOCAL_OK;
}

void focal_keyset_free(focal_keyset *set)
{
    if (!set) return;
    focal_ctx *ctx = set->ctx;
    foci_free(ctx, set->key_row);
    foci_free(ctx, set->key_place);
    foci_free(ctx, set->key_mask);
    foci_free(ctx, set->position_row);
    foci_free(ctx, set->query);
    foci_free(ctx, set->query_end);
    foci_free(ctx, set->query_mask);
    foci_free(ctx, set->tables);
    foci_free(ctx, set);
}

/* The bit of a group id that a query or key names, added to *mask. False: out of range, or there
 * already. */
static bool add_group(int32_t group, int32_t K, uint64_t *mask)
{
    if (group < 0 || group >= K || (*mask >> group & 1U)) return false;
    *mask |= (uint64_t)1 << group;
    return true;
}

/* Checks every id of the call and counts, in set->incoming, the keys that each list will get. */
static focal_status count_incoming(focal_keyset *set, int32_t T, const int32_t *query_groups,
                                   const int32_t *key_groups)
{
    const focal_keyset_options *o = &set->options;
    const bool is_shared = o->mode == FOCAL_SHARED;
    memset(set->incoming, 0, (size_t)o->routers * (size_t)o->K * sizeof *set->incoming);
    for (int64_t row = 0; row < (int64_t)T * o->routers; row++) {
        const int64_t token = row / o->routers, router = row % o->routers;
        const int32_t *groups = query_groups + row * o->top;
        int32_t *incoming = set->incoming + router * o->K;
        const bool is_listed = set->S + token >= o->sinks;
        uint64_t mask = 0;
        for (int32_t n = 0; n < o->top; n++) {
            if (!add_group(groups[n], o->K, &mask))
                return foci_fail(set->ctx, FOCAL_EINVAL,
                                 "keyset: query group %d of token %lld, router %lld, is repeated or"
                                 " not in 0..%d",
                                 groups[n], (long long)token, (long long)router, o->K - 1);
            if (is_shared && is_listed) incoming[groups[n]]++;
        }
        if (is_shared) continue;
        mask = 0;
        if (!add_group(key_groups[row], o->K, &mask))
            return foci_fail(set->ctx, FOCAL_EINVAL,
                             "keyset: key group %d of token %lld, router %lld, is not in 0..%d",
                             key_groups[row], (long long)token, (long long)router, o->K - 1);
        if (is_listed) incoming[key_groups[row]]++;
    }
    return FOCAL_OK;
}

/* Entries of the router's arena that the lists need beyond list_used: full ones move to its end. */
static int64_t moved_entries(const focal_keyset *set, int64_t router)
{
    const int32_t K = set->options.K;
    int64_t entries = 0;
    for (int64_t n = router * K; n < (router + 1) * K; n++) {
        const int64_t end = (int64_t)set->key_end[n] + set->incoming[n];
        if (end > set->key_limit[n]) entries += list_room(end - set->key_begin[n]);
    }
    return entries;
}

/* A router's arena: positions, and rows where the set has them. */
typedef struct arena {
    int32_t *row, *place;
} arena;

static arena arena_of(const focal_keyset *set, int64_t router)
{
    int32_t *place = set->key_place ? set->key_place + router * set->key_stride : NULL;
    return (arena){set->key_row + router * set->key_stride, place};
}

static void move_list(focal_keyset *set, int64_t group, arena from, arena to, int32_t *used)
{
    const int32_t count = set->key_end[group] - set->key_begin[group];
    const size_t bytes = (size_t)count * sizeof(int32_t);
    if (from.row) memcpy(to.row + *used, from.row + set->key_begin[group], bytes);
    if (from.place) memcpy(to.place + *used, from.place + set->key_begin[group], bytes);
    set->key_begin[group] = *used;
    set->key_end[group] = *used + count;
    *used += (int32_t)list_room((int64_t)count + set->incoming[group]);
    set->key_limit[group] = *used;
}

/* A larger arena for every router, its lists packed again. Half of what they hold stays free at
 * the end: a full list must have grown by a third since it was placed, so an arena fills, and is
 * copied, only after a number of tokens in proportion to its size. */
static focal_status rebuild_lists(focal_keyset *set)
{
    const int32_t K = set->options.K, routers = set->options.routers;
    int64_t stride = 0;
    for (int64_t r = 0; r < routers; r++) {
        int64_t count = 0, entries = 0;
        for (int64_t n = r * K; n < (r + 1) * K; n++) {
            const int64_t length = (int64_t)set->key_end[n] - set->key_begin[n] + set->incoming[n];
            count += length;
            entries += list_room(length);
        }
        stride = foci_max64(stride, entries + count / 2);
    }
    size_t total;
    arena all = {NULL, NULL};
    if (foci_size_mul((size_t)stride, (size_t)routers, &total)) {
        all.row = foci_alloc(set->ctx, total, sizeof *all.row);
        if (set->has_rows) all.place = foci_alloc(set->ctx, total, sizeof *all.place);
    }
    if (!all.row || (set->has_rows && !all.place)) {
        foci_free(set->ctx, all.row);
        foci_free(set->ctx, all.place);
        return foci_fail(set->ctx, FOCAL_ENOMEM, "keyset: no memory for the lists");
    }
    for (int64_t r = 0; r < routers; r++) {
        const arena from = set->key_row ? arena_of(set, r) : (arena){NULL, NULL};
        const arena to = {all.row + r * stride, all.place ? all.place + r * stride : NULL};
        set->list_used[r] = 0;
        for (int64_t n = r * K; n < (r + 1) * K; n++)
            move_list(set, n, from, to, &set->list_used[r]);
    }
    foci_free(set->ctx, set->key_row);
    foci_free(set->ctx, set->key_place);
    set->key_row = all.row;
    set->key_place = all.place;
    set->key_stride = stride;
    return FOCAL_OK;
}

/* Room for set->incoming behind every list; what the lists hold stays. */
static focal_status reserve_lists(focal_keyset *set)
{
    const int32_t K = set->options.K, routers = set->options.routers;
    if (!set->key_row) return rebuild_lists(set);
    for (int64_t r = 0; r < routers; r++)
        if (set->list_used[r] + moved_entries(set, r) > set->key_stride) return rebuild_lists(set);
    for (int64_t r = 0; r < routers; r++) {
        const arena own = arena_of(set, r);
        for (int64_t n = r * K; n < (r + 1) * K; n++)
            if ((int64_t)set->key_end[n] + set->incoming[n] > set->key_limit[n])
                move_list(set, n, own, own, &set->list_used[r]);
    }
    return FOCAL_OK;
}

static focal_status reserve_masks(focal_keyset *set, int64_t count)
{
    if (count <= set->mask_stride) return FOCAL_OK;
    const int64_t stride = count + count / 2 + ROOM;
    const size_t routers = (size_t)set->options.routers;
    size_t total;
    uint64_t *mask = NULL;
    int32_t *row = NULL;
    if (foci_size_mul((size_t)stride, routers, &total)) {
        mask = foci_alloc(set->ctx, total, sizeof *mask);
        if (set->has_rows) row = foci_alloc(set->ctx, total, sizeof *row);
    }
    if (!mask || (set->has_rows && !row)) {
        foci_free(set->ctx, mask);
        foci_free(set->ctx, row);
        return foci_fail(set->ctx, FOCAL_ENOMEM, "keyset: no memory for the masks");
    }
    for (size_t r = 0; r < routers && set->S > 0; r++) {
        const int64_t to = (int64_t)r * stride, from = (int64_t)r * set->mask_stride;
        memcpy(mask + to, set->key_mask + from, (size_t)set->S * sizeof *mask);
        if (row) memcpy(row + to, set->position_row + from, (size_t)set->S * sizeof *row);
    }
    foci_free(set->ctx, set->key_mask);
    foci_free(set->ctx, set->position_row);
    set->key_mask = mask;
    set->position_row = row;
    set->mask_stride = stride;
    return FOCAL_OK;
}

/* Room for the queries of T tokens. The old ones stay until the call can no longer fail. */
static focal_status reserve_queries(focal_keyset *set, int32_t T)
{
    const int64_t rows = (int64_t)T * set->options.routers, entries = rows * set->options.top;
    const int64_t old_rows = (int64_t)set->T * set->options.routers;
    const size_t old_entries = (size_t)old_rows * (size_t)set->options.top;
    if (entries > set->query_room) {
        int32_t *query = foci_alloc(set->ctx, (size_t)entries, sizeof *query);
        int32_t *end = foci_alloc(set->ctx, (size_t)entries, sizeof *end);
        if (!query || !end) {
            foci_free(set->ctx, query);
            foci_free(set->ctx, end);
            return foci_fail(set->ctx, FOCAL_ENOMEM, "keyset: no memory for the queries");
        }
        if (old_entries > 0) {
            memcpy(query, set->query, old_entries * sizeof *query);
            memcpy(end, set->query_end, old_entries * sizeof *end);
        }
        foci_free(set->ctx, set->query);
        foci_free(set->ctx, set->query_end);
        set->query = query;
        set->query_end = end;
        set->query_room = entries;
    }
    if (rows > set->query_mask_room) {
        uint64_t *mask = foci_alloc(set->ctx, (size_t)rows, sizeof *mask);
        if (!mask) return foci_fail(set->ctx, FOCAL_ENOMEM, "keyset: no memory for the queries");
        if (old_rows > 0) memcpy(mask, set->query_mask, (size_t)old_rows * sizeof *mask);
        foci_free(set->ctx, set->query_mask);
        set->query_mask = mask;
        set->query_mask_room = rows;
    }
    return FOCAL_OK;
}

typedef struct append_job {
    focal_keyset *set; /* T is the new one already, S still the old one */
    const int32_t *query_groups, *key_groups;
    const int32_t *key_rows; /* or NULL */
} append_job;

static void append_rows(const append_job *job, int64_t router)
{
    focal_keyset *set = job->set;
    const focal_keyset_options *o = &set->options;
    const arena own = arena_of(set, router);
    int32_t *end = set->key_end + router * o->K;
    int32_t *position_row = set->position_row + router * set->mask_stride + set->S;
    uint64_t *key_mask = set->key_mask + router * set->mask_stride + set->S;
    for (int64_t i = 0; i < set->T; i++) {
        const int32_t group = job->key_groups[i * o->routers + router];
        const int32_t position = set->S + (int32_t)i;
        position_row[i] = job->key_rows[i * o->routers + router];
        key_mask[i] = (uint64_t)1 << group;
        if (position < o->sinks) continue;
        own.row[end[group]] = position;
        own.place[end[group]++] = position_row[i];
    }
}

static void append_keys(const append_job *job, int64_t router)
{
    focal_keyset *set = job->set;
    const focal_keyset_options *o = &set->options;
    const int32_t count = foci_keyset_memberships(set);
    const int32_t *groups = o->mode == FOCAL_SHARED ? job->query_groups : job->key_groups;
    int32_t *row = set->key_row + router * set->key_stride;
    int32_t *end = set->key_end + router * o->K;
    uint64_t *key_mask = set->key_mask + router * set->mask_stride + set->S;
    for (int64_t i = 0; i < set->T; i++) {
        const int32_t *mine = groups + (i * o->routers + router) * count;
        const int32_t position = set->S + (int32_t)i;
        uint64_t mask = 0;
        for (int32_t n = 0; n < count; n++) {
            mask |= (uint64_t)1 << mine[n];
            if (position >= o->sinks) row[end[mine[n]]++] = position;
        }
        key_mask[i] = mask;
    }
}

/* The key that the query at `position` is the first to see as distant joins its groups' count. */
static void age_one(const focal_keyset *set, const uint64_t *key_mask, int64_t position,
                    int32_t *older)
{
    const int64_t aged = position - set->options.window - 1;
    if (aged < set->options.sinks) return;
    for (uint64_t mask = key_mask[aged]; mask != 0; mask &= mask - 1)
        older[__builtin_ctzll(mask)]++;
}

/* A stable counting sort of the T tokens by the groups they look into. */
static void append_queries(const append_job *job, int64_t router)
{
    focal_keyset *set = job->set;
    const focal_keyset_options *o = &set->options;
    const int64_t step = (int64_t)o->routers * o->top;
    const int32_t *groups = job->query_groups + router * o->top;
    const uint64_t *key_mask = set->key_mask + router * set->mask_stride;
    int32_t *query = set->query + router * set->T * o->top;
    int32_t *query_end = set->query_end + router * set->T * o->top;
    int32_t *begin = set->query_begin + router * (o->K + 1);
    int32_t *older = set->older + router * o->K;
    uint64_t *query_mask = set->query_mask + router * set->T;
    int32_t next[FOCAL_MAX_GROUPS];

    memset(begin, 0, (size_t)(o->K + 1) * sizeof *begin);
    for (int64_t i = 0; i < set->T; i++)
        for (int32_t n = 0; n < o->top; n++) begin[groups[i * step + n] + 1]++;
    for (int32_t c = 0; c < o->K; c++) {
        next[c] = begin[c];
        begin[c + 1] += begin[c];
    }
    for (int64_t i = 0; i < set->T; i++) {
        uint64_t mask = 0;
        age_one(set, key_mask, set->S + i, older);
        for (int32_t n = 0; n < o->top; n++) {
            const int32_t c = groups[i * step + n], place = next[c]++;
            query[place] = (int32_t)i;
            query_end[place] = older[c];
            mask |= (uint64_t)1 << c;
        }
        query_mask[i] = mask;
    }
}

static void append_router(void *arg, int64_t router, int32_t thread)
{
    (void)thread;
    const append_job *job = arg;
    if (job->key_rows)
        append_rows(job, router);
    else
        append_keys(job, router);
    append_queries(job, router);
}

static void clear_queries(focal_keyset *set)
{
    const size_t entries = (size_t)set->options.routers * (size_t)(set->options.K + 1);
    memset(set->query_begin, 0, entries * sizeof *set->query_begin);
    set->T = 0;
}

static focal_status append(focal_keyset *set, int32_t T, const int32_t *query_groups,
                           const int32_t *key_groups, const int32_t *key_rows)
{
    const focal_keyset_options *o = &set->options;
    if (T < 0) return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: %d tokens to append", T);
    if (T > 0 && (!query_groups || (o->mode == FOCAL_DIRECTED && !key_groups)))
        return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: query_groups and key_groups must be set");
    const int64_t S = (int64_t)set->S + T;
    if (S * foci_keyset_memberships(set) > MAX_ENTRIES || (int64_t)T * o->top > MAX_ENTRIES)
        return foci_fail(set->ctx, FOCAL_EINVAL,
                         "keyset: %lld tokens in %d groups each are more than %d entries",
                         (long long)S, o->top, MAX_ENTRIES);
    if (T == 0) {
        clear_queries(set);
        return FOCAL_OK;
    }
    FOCAL_TRY(count_incoming(set, T, query_groups, key_groups));
    FOCAL_TRY(reserve_masks(set, S));
    FOCAL_TRY(reserve_queries(set, T));
    FOCAL_TRY(reserve_lists(set));

    set->T = T;
    append_job job = {set, query_groups, key_groups, key_rows};
    if (T >= PARALLEL_TOKENS) {
        foci_parallel(set->ctx, o->routers, append_router, &job);
    } else {
        for (int64_t r = 0; r < o->routers; r++) append_router(&job, r, 0);
    }
    set->S = (int32_t)S;
    return FOCAL_OK;
}

focal_status focal_keyset_append(focal_keyset *set, int32_t T, const int32_t *query_groups,
                                 const int32_t *key_groups)
{
    if (!set) return FOCAL_EINVAL;
    if (set->has_rows)
        return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: the keys of this set have rows");
    return append(set, T, query_groups, key_groups, NULL);
}

focal_status foci_keyset_append_rows(focal_keyset *set, int32_t T, const int32_t *query_groups,
                                     const int32_t *key_groups, const int32_t *key_rows)
{
    if (set->options.mode != FOCAL_DIRECTED || !key_rows || (set->S > 0 && !set->has_rows))
        return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: the keys of this set have no rows");
    if (!set->has_rows) { /* what was allocated for a set that had tokens once has no place for them
                           */
        foci_free(set->ctx, set->key_row);
        foci_free(set->ctx, set->key_mask);
        set->key_row = NULL;
        set->key_mask = NULL;
        set->key_stride = set->mask_stride = 0;
        set->has_rows = true;
    }
    return append(set, T, query_groups, key_groups, key_rows);
}

/* How many of the ascending list's entries are below `bound`. */
static int32_t count_below(const int32_t *list, int32_t count, int64_t bound)
{
    int32_t low = 0, high = count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (list[middle] < bound)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

focal_status focal_keyset_truncate(focal_keyset *set, int32_t S)
{
    if (!set) return FOCAL_EINVAL;
    const focal_keyset_options *o = &set->options;
    if (S < 0 || S > set->S)
        return foci_fail(set->ctx, FOCAL_EINVAL, "keyset: cannot cut %d tokens down to %d", set->S,
                         S);
    for (int64_t n = 0; n < (int64_t)o->routers * o->K; n++) {
        const int32_t count = set->key_end[n] - set->key_begin[n];
        if (count == 0) continue; /* an empty set has no lists yet */
        const int32_t *list = set->key_row + n / o->K * set->key_stride + set->key_begin[n];
        const int32_t left = count_below(list, count, S);
        set->key_end[n] = set->key_begin[n] + left;
        set->older[n] = count_below(list, left, (int64_t)S - 1 - o->window);
    }
    clear_queries(set);
    set->S = S;
    return FOCAL_OK;
}

focal_keys focal_keyset_view(const focal_keyset *set)
{
    if (!set) return (focal_keys){0};
    return (focal_keys){
        .mode = set->options.mode,
        .K = set->options.K,
        .routers = set->options.routers,
        .T = set->T,
        .S = set->S,
        .key_row = set->has_rows ? set->key_place : set->key_row,
        .key_begin = set->key_begin,
        .key_end = set->key_end,
        .key_stride = set->key_stride,
        .query = set->query,
        .query_end = set->query_end,
        .query_begin = set->query_begin,
        .query_stride = (int64_t)set->T * set->options.top,
        .query_mask = set->query_mask,
        .key_mask =
            set->has_rows ? NULL : set->key_mask, /* by row: a gate's, and a cache has none */
        .key_mask_stride = set->mask_stride,
        .position_row = set->position_row,
        .position_stride = set->mask_stride,
    };
}
