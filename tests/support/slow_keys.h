/* Key sets made straight from their definition (focal/keys.h), one pass over all keys for every
 * list: so attention is tested without routing, and routing has something to be compared with. */
#ifndef FOCAL_TESTS_SLOW_KEYS_H
#define FOCAL_TESTS_SLOW_KEYS_H

#include "focal/keys.h"

typedef struct slow_keys_options {
    focal_keys_mode mode;
    int32_t K, routers, T, S, window, sinks;
    const uint64_t *query_groups; /* (routers, T) bits */
    const uint64_t *key_groups;   /* (routers, S) bits, by position */
    const int32_t *position_row;  /* (routers, S), or NULL */
    int32_t rows;                 /* of k and v: at least S */
    int32_t gap;                  /* unused entries between the lists of two groups */
    bool has_masks;               /* give query_mask and key_mask */
} slow_keys_options;

typedef struct slow_keys {
    focal_keys view;
    int32_t *key_row, *key_begin, *key_end, *query, *query_end, *query_begin, *position_row;
    uint64_t *query_mask, *key_mask;
} slow_keys;

slow_keys *slow_keys_new(const slow_keys_options *options);
void slow_keys_free(slow_keys *keys); /* NULL is fine */

#endif /* FOCAL_TESTS_SLOW_KEYS_H */
