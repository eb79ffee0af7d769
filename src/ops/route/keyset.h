/* A key set from inside: lists with room behind them, and what makes appending cheap. */
#ifndef FOCI_OPS_ROUTE_KEYSET_H
#define FOCI_OPS_ROUTE_KEYSET_H

#include "focal/keys.h"

struct focal_keyset {
    focal_ctx *ctx;
    focal_keyset_options options;
    int32_t S; /* tokens in the set */
    int32_t T; /* of them, the last ones: the queries of the view */

    /* Key lists. A router owns key_stride entries of key_row; the regions of its groups lie in
     * the first list_used of them, each with room to grow up to key_limit. */
    int32_t *key_row;   /* (routers, key_stride) positions */
    int32_t *key_begin; /* (routers, K) */
    int32_t *key_end;   /* (routers, K) */
    int32_t *key_limit; /* (routers, K) end of the group's region */
    int32_t *list_used; /* (routers) */
    int32_t *older;     /* (routers, K) list keys that the last token saw as distant: those before
                           position S - 1 - w */
    int32_t *incoming;  /* (routers, K) scratch of append: keys each list will get */
    uint64_t *key_mask; /* (routers, mask_stride) by position, sinks too */
    int64_t key_stride, mask_stride;

    /* Where a cache says in which row each key lies (foci_keyset_append_rows); else NULL. */
    bool has_rows;
    int32_t *key_place;    /* (routers, key_stride) the rows of key_row's positions */
    int32_t *position_row; /* (routers, mask_stride) by position, sinks too */

    int32_t *query, *query_end; /* (routers, T top) */
    int32_t *query_begin;       /* (routers, K + 1) */
    uint64_t *query_mask;       /* (routers, T) */
    int64_t query_room;         /* entries that query and query_end have room for */
    int64_t query_mask_room;

    int32_t *tables; /* one block behind all (routers, K) arrays and the like */
};

/* Groups a key is in: 1, or top when the groups are shared. */
static inline int32_t foci_keyset_memberships(const focal_keyset *set)
{
    return set->options.mode == FOCAL_SHARED ? set->options.top : 1;
}

/* As focal_keyset_append(), for directed groups: key_rows (T, routers) are the rows of k and v that
 * hold the tokens; without it row j holds position j. A set has them from its first token on, or
 * never. */
focal_status foci_keyset_append_rows(focal_keyset *set, int32_t T, const int32_t *query_groups,
                                     const int32_t *key_groups, const int32_t *key_rows);

#endif /* FOCI_OPS_ROUTE_KEYSET_H */
