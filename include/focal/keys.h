/* Key sets: which distant keys each query sees, group by group. ops/route makes them, ops/attn
 * reads them, and neither knows more of the other (docs/MATH.md, 3.3 and 3.7). */
#ifndef FOCAL_KEYS_H
#define FOCAL_KEYS_H

#include "focal/base.h"

FOCAL_BEGIN_DECLS

enum { FOCAL_MAX_GROUPS = 64 };

typedef enum focal_keys_mode {
    FOCAL_DIRECTED = 0, /* a key is in one group; a query looks into k of them */
    FOCAL_SHARED = 1    /* a token, as key and as query, is in k groups; a pair that shares several
                           groups is met in the lowest of them */
} focal_keys_mode;

/* The sets of one sequence. `routers` is 1 (all key heads share the set) or G (one a key head);
 * every array has one row a router, `*_stride` entries apart. The arrays belong to whoever made
 * them and are only read.
 *
 * Query i, looking into group c, sees the first query_end entries of that group's list: the
 * group's keys before the query's position less w, the sinks left out. So attention never needs
 * positions here, and a key is never met twice. The window and the sinks of the call must be those
 * that the set was made for: attention cannot see that they are not. */
typedef struct focal_keys {
    focal_keys_mode mode;
    int32_t K;       /* groups, 1..64 */
    int32_t routers; /* 1 or G */
    int32_t T, S;    /* queries and key positions of the sequence */

    const int32_t *key_row;   /* (routers, key_stride) rows of k and v, in position order within
                                 a group */
    const int32_t *key_begin; /* (routers, K) group c's entries are key_row[begin, end) */
    const int32_t *key_end;   /* (routers, K) */
    int64_t key_stride;

    const int32_t *query;       /* (routers, query_stride) queries 0..T-1, ascending in a group */
    const int32_t *query_end;   /* (routers, query_stride) how many of the group's keys it sees,
                                   not descending within a group */
    const int32_t *query_begin; /* (routers, K+1) group c's queries are query[begin c, begin c+1) */
    int64_t query_stride;

    /* Membership bits, bit c for group c. Needed by FOCAL_SHARED and by the straight-through
     * gate, else may be NULL. */
    const uint64_t *query_mask; /* (routers, T) */
    const uint64_t *key_mask;   /* (routers, key_mask_stride) by row of k and v */
    int64_t key_mask_stride;

    /* The row of k and v that holds position j, for the window and the sinks; NULL: row j. A
     * grouped cache, whose tokens lie in the pages of their groups from the first, sets it. */
    const int32_t *position_row; /* (routers, position_stride) */
    int64_t position_stride;
} focal_keys;

/* Builds and extends key sets: one stable counting sort for what is appended. */
typedef struct focal_keyset focal_keyset;

typedef struct focal_keyset_options {
    focal_keys_mode mode;
    int32_t K;       /* groups, 1..64 */
    int32_t top;     /* k: groups a query looks into, 1..K */
    int32_t routers; /* at least 1 */
    int32_t window;  /* w >= 0: keys before the own one that are always seen */
    int32_t sinks;   /* n_s >= 0: first keys that are always seen */
} focal_keyset_options;

/* The set keeps using ctx for memory and messages until it is freed. */
FOCAL_API focal_status focal_keyset_new(focal_ctx *ctx, const focal_keyset_options *options,
                                        focal_keyset **set);
FOCAL_API void focal_keyset_free(focal_keyset *set); /* NULL is fine */

/* Appends T tokens behind the S that are there; they become the queries of the view.
 * query_groups: (T, routers, top) the groups each token looks into, each group at most once.
 * key_groups: (T, routers) the group each token's key is in; ignored, may be NULL, for
 * FOCAL_SHARED, where query_groups are the memberships of keys too.
 * Costs O(T routers (top + 1) + routers K), amortised. EINVAL on an id out of range or repeated,
 * and the set is as before. */
FOCAL_API focal_status focal_keyset_append(focal_keyset *set, int32_t T,
                                           const int32_t *query_groups, const int32_t *key_groups);

/* Forgets all tokens from position S on (0: all). The view has no queries afterwards. */
FOCAL_API focal_status focal_keyset_truncate(focal_keyset *set, int32_t S);

/* The sets of the tokens appended last. Valid until the next call on the set. */
FOCAL_API focal_keys focal_keyset_view(const focal_keyset *set);

/* What reports show of a key set, for one router (0 <= router < routers). */
typedef struct focal_keys_stats {
    int64_t distant_pairs; /* pairs n_s <= j < i - w of the view's queries */
    int64_t kept_pairs;    /* of these, the ones seen */
    int64_t local_pairs;   /* window and sinks */
    double largest_load;   /* share of the keys in the fullest group (memberships, when shared) */
    double load_entropy;   /* of the loads, in nats; ln K when even */
    double load[FOCAL_MAX_GROUPS];
} focal_keys_stats;
FOCAL_API focal_status focal_keyset_stats(const focal_keyset *set, int32_t router,
                                          focal_keys_stats *stats);

FOCAL_END_DECLS
#endif /* FOCAL_KEYS_H */
