/* The slow builder of key sets: O(routers K (S + T S)). */
#include "support/slow_keys.h"

#include <stdlib.h>
#include <string.h>

#include "support/check.h"

static int32_t row_of(const slow_keys_options *o, int32_t router, int32_t j)
{
    return o->position_row ? o->position_row[(int64_t)router * o->S + j] : j;
}

static bool is_in(const uint64_t *groups, int64_t index, int32_t c)
{
    return (groups[index] >> c & 1U) != 0;
}

/* How many keys of group c, the sinks left out, stand before position i - w. */
static int32_t seen_count(const slow_keys_options *o, int32_t router, int32_t c, int32_t i)
{
    int32_t count = 0;
    for (int32_t j = o->sinks; j < o->S && j < (int64_t)o->S - o->T + i - o->window; j++)
        count += is_in(o->key_groups, (int64_t)router * o->S + j, c);
    return count;
}

static void list_group(slow_keys *keys, const slow_keys_options *o, int32_t router, int32_t c,
                       int32_t *key_at, int32_t *query_at)
{
    const focal_keys *view = &keys->view;
    int32_t *key_row = keys->key_row + router * view->key_stride;
    keys->key_begin[router * o->K + c] = *key_at;
    for (int32_t j = o->sinks; j < o->S; j++)
        if (is_in(o->key_groups, (int64_t)router * o->S + j, c))
            key_row[(*key_at)++] = row_of(o, router, j);
    keys->key_end[router * o->K + c] = *key_at;
    *key_at += o->gap;
    keys->query_begin[router * (o->K + 1) + c] = *query_at;
    for (int32_t i = 0; i < o->T; i++) {
        if (!is_in(o->query_groups, (int64_t)router * o->T + i, c)) continue;
        keys->query[router * view->query_stride + *query_at] = i;
        keys->query_end[router * view->query_stride + *query_at] = seen_count(o, router, c, i);
        (*query_at)++;
    }
    keys->query_begin[router * (o->K + 1) + c + 1] = *query_at;
}

static int64_t most_members(const uint64_t *groups, int32_t routers, int64_t tokens)
{
    int64_t most = 0;
    for (int32_t router = 0; router < routers; router++) {
        int64_t count = 0;
        for (int64_t n = 0; n < tokens; n++)
            count += __builtin_popcountll(groups[router * tokens + n]);
        if (count > most) most = count;
    }
    return most;
}

static int32_t *new_ints(int64_t count)
{
    int32_t *x = new_array((size_t)count, sizeof *x);
    memset(x, 0x7F, (size_t)count * sizeof *x); /* unused entries lead far away */
    return x;
}

static void fill_masks(slow_keys *keys, const slow_keys_options *o)
{
    const int64_t rows = o->rows;
    keys->query_mask = new_array((size_t)(o->routers * (int64_t)o->T), sizeof *keys->query_mask);
    keys->key_mask = new_array((size_t)(o->routers * rows), sizeof *keys->key_mask);
    memcpy(keys->query_mask, o->query_groups,
           (size_t)(o->routers * (int64_t)o->T) * sizeof *keys->query_mask);
    for (int32_t router = 0; router < o->routers; router++)
        for (int32_t j = 0; j < o->S; j++)
            keys->key_mask[router * rows + row_of(o, router, j)] =
                o->key_groups[(int64_t)router * o->S + j];
    keys->view.query_mask = keys->query_mask;
    keys->view.key_mask = keys->key_mask;
    keys->view.key_mask_stride = rows;
}

slow_keys *slow_keys_new(const slow_keys_options *o)
{
    slow_keys *keys = new_array(1, sizeof *keys);
    const int64_t key_stride =
        most_members(o->key_groups, o->routers, o->S) + (int64_t)o->K * o->gap;
    const int64_t query_stride = most_members(o->query_groups, o->routers, o->T);
    keys->view = (focal_keys){.mode = o->mode,
                              .K = o->K,
                              .routers = o->routers,
                              .T = o->T,
                              .S = o->S,
                              .key_stride = key_stride,
                              .query_stride = query_stride};
    keys->view.key_row = keys->key_row = new_ints(o->routers * key_stride);
    keys->view.key_begin = keys->key_begin = new_ints((int64_t)o->routers * o->K);
    keys->view.key_end = keys->key_end = new_ints((int64_t)o->routers * o->K);
    keys->view.query = keys->query = new_ints(o->routers * query_stride);
    keys->view.query_end = keys->query_end = new_ints(o->routers * query_stride);
    keys->view.query_begin = keys->query_begin = new_ints((int64_t)o->routers * (o->K + 1));
    for (int32_t router = 0; router < o->routers; router++) {
        int32_t key_at = 0, query_at = 0;
        for (int32_t c = 0; c < o->K; c++) list_group(keys, o, router, c, &key_at, &query_at);
    }
    if (o->has_masks) fill_masks(keys, o);
    if (o->position_row) {
        keys->position_row = new_ints((int64_t)o->routers * o->S);
        memcpy(keys->position_row, o->position_row,
               (size_t)o->routers * (size_t)o->S * sizeof *keys->position_row);
        keys->view.position_row = keys->position_row;
        keys->view.position_stride = o->S;
    }
    return keys;
}

void slow_keys_free(slow_keys *keys)
{
    if (!keys) return;
    free(keys->key_row);
    free(keys->key_begin);
    free(keys->key_end);
    free(keys->query);
    free(keys->query_end);
    free(keys->query_begin);
    free(keys->position_row);
    free(keys->query_mask);
    free(keys->key_mask);
    free(keys);
}
