/* Key sets against a brute-force definition: any way of cutting a text into appends gives the
 * sets of one big append; bad calls and missing memory leave the set as it was. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"
#include "base/random.h"
#include "focal/keys.h"
#include "ops/route/keyset.h"

typedef struct text {
    focal_keyset_options options;
    int32_t S;
    int32_t *query_groups; /* (S, routers, top) */
    int32_t *key_groups;   /* (S, routers) */
} text;

static const focal_keyset_options shapes[] = {
    /* mode, K, top, routers, window, sinks */
    {FOCAL_DIRECTED, 1, 1, 1, 0, 0},
    {FOCAL_DIRECTED, 4, 2, 1, 3, 1},
    {FOCAL_DIRECTED, 16, 4, 3, 8, 4},
    {FOCAL_DIRECTED, 64, 64, 2, 5, 2},
    {FOCAL_DIRECTED, 7, 3, 2, 10000, 4},
    {FOCAL_DIRECTED, 5, 1, 2, 2, 10000},
    {FOCAL_DIRECTED, 3, 1, 1, INT32_MAX, INT32_MAX},
    {FOCAL_SHARED, 1, 1, 1, 0, 0},
    {FOCAL_SHARED, 4, 2, 2, 3, 1},
    {FOCAL_SHARED, 64, 7, 1, 0, 4},
    {FOCAL_SHARED, 8, 8, 3, 17, 0},
};

/* Skewed groups, so that lists fill at different speeds: group 0 takes half of the keys. */
static text make_text(const focal_keyset_options *options, int32_t S, uint64_t seed)
{
    const int32_t K = options->K, top = options->top;
    const size_t rows = (size_t)S * (size_t)options->routers;
    text t = {*options, S, calloc(rows * (size_t)top + 1, sizeof(int32_t)),
              calloc(rows + 1, sizeof(int32_t))};
    assert_non_null(t.query_groups);
    assert_non_null(t.key_groups);
    for (size_t row = 0; row < rows; row++) {
        int32_t order[FOCAL_MAX_GROUPS] = {0};
        for (int32_t c = 0; c < K; c++) order[c] = c;
        for (int32_t n = 0; n < top; n++) {
            const uint64_t counter = (uint64_t)row * FOCAL_MAX_GROUPS + (uint64_t)n;
            const int32_t other =
                n + (int32_t)foci_random_below(seed, 1, counter, (uint32_t)(K - n));
            const int32_t group = order[other];
            order[other] = order[n];
            order[n] = group;
            t.query_groups[row * (size_t)top + (size_t)n] = group;
        }
        const uint32_t coin = foci_random_below(seed, 2, row, 2);
        t.key_groups[row] = coin ? 0 : (int32_t)foci_random_below(seed, 3, row, (uint32_t)K);
    }
    return t;
}

static void free_text(text *t)
{
    free(t->query_groups);
    free(t->key_groups);
}

static focal_status append(focal_keyset *set, const text *t, int32_t from, int32_t count)
{
    const size_t row = (size_t)from * (size_t)t->options.routers;
    return focal_keyset_append(set, count, t->query_groups + row * (size_t)t->options.top,
                               t->options.mode == FOCAL_SHARED ? NULL : t->key_groups + row);
}

static uint64_t query_mask(const text *t, int64_t router, int64_t position)
{
    uint64_t mask = 0;
    for (int32_t n = 0; n < t->options.top; n++)
        mask |= (uint64_t)1
                << t->query_groups[(position * t->options.routers + router) * t->options.top + n];
    return mask;
}

static uint64_t key_mask(const text *t, int64_t router, int64_t position)
{
    if (t->options.mode == FOCAL_SHARED) return query_mask(t, router, position);
    return (uint64_t)1 << t->key_groups[position * t->options.routers + router];
}

static void check_group(const text *t, const focal_keys *keys, int64_t r, int32_t c)
{
    const int32_t *row = keys->key_row + r * keys->key_stride + keys->key_begin[r * keys->K + c];
    const int32_t listed = keys->key_end[r * keys->K + c] - keys->key_begin[r * keys->K + c];
    int32_t count = 0;
    for (int32_t j = t->options.sinks; j < keys->S; j++) {
        if (!(key_mask(t, r, j) >> c & 1U)) continue;
        assert_true(count < listed);
        assert_int_equal(row[count++], j);
    }
    assert_int_equal(count, listed);

    int64_t place = keys->query_begin[r * (keys->K + 1) + c];
    for (int32_t i = 0; i < keys->T; i++) {
        const int64_t position = keys->S - keys->T + i;
        if (!(query_mask(t, r, position) >> c & 1U)) continue;
        int32_t seen = 0;
        while (seen < listed && row[seen] < position - t->options.window) seen++;
        assert_int_equal(keys->query[r * keys->query_stride + place], i);
        assert_int_equal(keys->query_end[r * keys->query_stride + place], seen);
        place++;
    }
    assert_int_equal(place, keys->query_begin[r * (keys->K + 1) + c + 1]);
}

/* The set holds the first S tokens of the text, the last T of them as queries. */
static void check_view(const focal_keyset *set, const text *t, int32_t S, int32_t T)
{
    const focal_keys keys = focal_keyset_view(set);
    assert_int_equal(keys.mode, t->options.mode);
    assert_int_equal(keys.K, t->options.K);
    assert_int_equal(keys.routers, t->options.routers);
    assert_int_equal(keys.S, S);
    assert_int_equal(keys.T, T);
    assert_null(keys.position_row);
    for (int64_t r = 0; r < keys.routers; r++) {
        assert_int_equal(keys.query_begin[r * (keys.K + 1)], 0);
        for (int32_t c = 0; c < keys.K && S > 0; c++) check_group(t, &keys, r, c);
        for (int32_t j = 0; j < S; j++)
            assert_true(keys.key_mask[r * keys.key_mask_stride + j] == key_mask(t, r, j));
        for (int32_t i = 0; i < T; i++)
            assert_true(keys.query_mask[r * T + i] == query_mask(t, r, S - T + i));
    }
}

static void check_stats(const focal_keyset *set, const text *t, int32_t S, int32_t T)
{
    for (int32_t r = 0; r < t->options.routers; r++) {
        focal_keys_stats stats;
        assert_int_equal(focal_keyset_stats(set, r, &stats), FOCAL_OK);
        int64_t distant = 0, kept = 0, local = 0;
        for (int64_t p = S - T; p < S; p++) {
            for (int64_t j = 0; j <= p; j++) {
                const bool is_local = p - j <= t->options.window || j < t->options.sinks;
                local += is_local;
                distant += !is_local;
                kept += !is_local && (key_mask(t, r, j) & query_mask(t, r, p)) != 0;
            }
        }
        assert_int_equal(stats.distant_pairs, distant);
        assert_int_equal(stats.kept_pairs, kept);
        assert_int_equal(stats.local_pairs, local);
        double largest = 0.0, entropy = 0.0, sum = 0.0;
        for (int32_t c = 0; c < t->options.K; c++) {
            int64_t count = 0;
            for (int64_t j = 0; j < S; j++) count += (int64_t)(key_mask(t, r, j) >> c & 1U);
            const double share = t->options.mode == FOCAL_SHARED ? t->options.top : 1;
            const double load = (double)count / (share * S);
            assert_true(fabs(stats.load[c] - load) < 1e-12);
            largest = fmax(largest, load);
            entropy -= load > 0.0 ? load * log(load) : 0.0;
            sum += stats.load[c];
        }
        assert_true(fabs(stats.largest_load - largest) < 1e-12);
        assert_true(fabs(stats.load_entropy - entropy) < 1e-12);
        assert_true(fabs(sum - 1.0) < 1e-12);
    }
}

static int open_ctx(void **state)
{
    focal_ctx *ctx;
    if (focal_ctx_open(NULL, &ctx, NULL) != FOCAL_OK) return -1;
    *state = ctx;
    return 0;
}

static int close_ctx(void **state)
{
    const size_t held = focal_ctx_memory(*state).now_bytes;
    focal_ctx_close(*state);
    return held == 0 ? 0 : -1;
}

static void one_append_matches_definition(void **state)
{
    static const int32_t sizes[] = {1, 2, 31, 160, 1500};
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        for (size_t m = 0; m < FOCAL_COUNT(sizes); m++) {
            text t = make_text(&shapes[n], sizes[m], n * 100 + m);
            focal_keyset *set = NULL;
            assert_int_equal(focal_keyset_new(*state, &shapes[n], &set), FOCAL_OK);
            check_view(set, &t, 0, 0);
            assert_int_equal(append(set, &t, 0, t.S), FOCAL_OK);
            check_view(set, &t, t.S, t.S);
            if (t.S < 200) check_stats(set, &t, t.S, t.S);
            focal_keyset_free(set);
            free_text(&t);
        }
    }
}

static void chunks_match_definition(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        text t = make_text(&shapes[n], 400, n);
        focal_keyset *set = NULL;
        assert_int_equal(focal_keyset_new(*state, &shapes[n], &set), FOCAL_OK);
        uint64_t draw = 0;
        for (int32_t S = 0; S < t.S;) {
            int32_t T = (int32_t)foci_random_below(n, 9, draw++, 70);
            if (T > t.S - S) T = t.S - S;
            assert_int_equal(append(set, &t, S, T), FOCAL_OK);
            S += T;
            check_view(set, &t, S, T);
        }
        check_stats(set, &t, t.S, focal_keyset_view(set).T);
        focal_keyset_free(set);
        free_text(&t);
    }
}

static void decoding_matches_definition(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        text t = make_text(&shapes[n], 150, n + 50);
        focal_keyset *set = NULL;
        assert_int_equal(focal_keyset_new(*state, &shapes[n], &set), FOCAL_OK);
        for (int32_t S = 0; S < t.S; S++) {
            assert_int_equal(append(set, &t, S, 1), FOCAL_OK);
            check_view(set, &t, S + 1, 1);
        }
        focal_keyset_free(set);
        free_text(&t);
    }
}

static void truncation_forgets(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        text t = make_text(&shapes[n], 300, n + 70);
        focal_keyset *set = NULL;
        assert_int_equal(focal_keyset_new(*state, &shapes[n], &set), FOCAL_OK);
        int32_t S = 0;
        for (uint64_t draw = 0; draw < 60; draw++) {
            const int32_t left = (int32_t)foci_random_below(n, 10, draw, (uint32_t)S + 1);
            assert_int_equal(focal_keyset_truncate(set, left), FOCAL_OK);
            check_view(set, &t, left, 0);
            const int32_t T = (int32_t)foci_random_below(n, 11, draw, (uint32_t)(t.S - left) + 1);
            assert_int_equal(append(set, &t, left, T), FOCAL_OK);
            S = left + T;
            check_view(set, &t, S, T);
        }
        assert_int_equal(focal_keyset_truncate(set, 0), FOCAL_OK);
        check_view(set, &t, 0, 0);
        assert_int_equal(append(set, &t, 0, t.S), FOCAL_OK);
        check_view(set, &t, t.S, t.S);
        focal_keyset_free(set);
        free_text(&t);
    }
}

/* ---- Sets whose keys lie in rows of a cache ---- */

/* Any row for a token of a router, no two alike. */
static int32_t row_of(const text *t, int64_t router, int64_t position)
{
    return (int32_t)((position * 7 + router * 3) % t->S + 1000 * router);
}

static focal_status append_rows(focal_keyset *set, const text *t, int32_t from, int32_t count)
{
    const int32_t routers = t->options.routers;
    const size_t row = (size_t)from * (size_t)routers;
    int32_t *rows = calloc((size_t)count * (size_t)routers + 1, sizeof *rows);
    assert_non_null(rows);
    for (int64_t n = 0; n < (int64_t)count * routers; n++)
        rows[n] = row_of(t, n % routers, from + n / routers);
    const focal_status status = foci_keyset_append_rows(
        set, count, t->query_groups + row * (size_t)t->options.top, t->key_groups + row, rows);
    free(rows);
    return status;
}

/* As check_view(), where lists hold rows: in the order of the positions whose rows they are. */
static void check_rows(const focal_keyset *set, const text *t, int32_t S, int32_t T)
{
    focal_keys keys = focal_keyset_view(set);
    assert_int_equal(keys.S, S);
    assert_int_equal(keys.T, T);
    assert_null(keys.key_mask);
    if (S == 0) return;
    assert_non_null(keys.position_row);
    int32_t *positions = calloc((size_t)(keys.routers * keys.key_stride), sizeof *positions);
    assert_non_null(positions);
    for (int64_t r = 0; r < keys.routers; r++) {
        for (int32_t j = 0; j < S; j++)
            assert_int_equal(keys.position_row[r * keys.position_stride + j], row_of(t, r, j));
        for (int64_t c = r * keys.K; c < (r + 1) * keys.K; c++) {
            int32_t j = -1; /* lists ascend by position: look for each row behind the one before */
            for (int32_t n = keys.key_begin[c]; n < keys.key_end[c]; n++) {
                for (j++; j < S; j++)
                    if (row_of(t, r, j) == keys.key_row[r * keys.key_stride + n]) break;
                assert_true(j < S);
                positions[r * keys.key_stride + n] = j;
            }
        }
    }
    keys.key_row = positions;
    for (int64_t r = 0; r < keys.routers; r++)
        for (int32_t c = 0; c < keys.K; c++) check_group(t, &keys, r, c);
    free(positions);
}

static void rows_grow_and_shrink(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        if (shapes[n].mode != FOCAL_DIRECTED) continue;
        text t = make_text(&shapes[n], 300, n + 90);
        focal_keyset *set = NULL;
        assert_int_equal(focal_keyset_new(*state, &shapes[n], &set), FOCAL_OK);
        int32_t S = 0;
        for (uint64_t draw = 0; draw < 30; draw++) {
            const int32_t left = (int32_t)foci_random_below(n, 12, draw, (uint32_t)S + 1);
            assert_int_equal(focal_keyset_truncate(set, left), FOCAL_OK);
            check_rows(set, &t, left, 0);
            const int32_t T = (int32_t)foci_random_below(n, 13, draw, (uint32_t)(t.S - left) + 1);
            assert_int_equal(append_rows(set, &t, left, T), FOCAL_OK);
            S = left + T;
            check_rows(set, &t, S, T);
        }
        focal_keyset_free(set);
        free_text(&t);
    }
}

/* A set has rows from its first token on, or never. */
static void rows_are_not_mixed(void **state)
{
    text t = make_text(&shapes[2], 60, 1), shared = make_text(&shapes[8], 60, 1);
    focal_keyset *set = NULL, *other = NULL;
    assert_int_equal(focal_keyset_new(*state, &shapes[2], &set), FOCAL_OK);
    assert_int_equal(append(set, &t, 0, 20), FOCAL_OK);
    assert_int_equal(append_rows(set, &t, 20, 20), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state), "keyset: the keys of this set have no rows");
    check_view(set, &t, 20, 20);
    assert_int_equal(focal_keyset_truncate(set, 0), FOCAL_OK);
    assert_int_equal(append_rows(set, &t, 0, 40), FOCAL_OK); /* empty, it may begin anew */
    check_rows(set, &t, 40, 40);
    assert_int_equal(append(set, &t, 40, 20), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(*state), "keyset: the keys of this set have rows");
    assert_int_equal(foci_keyset_append_rows(set, 1, t.query_groups, t.key_groups, NULL),
                     FOCAL_EINVAL);
    check_rows(set, &t, 40, 40);
    assert_int_equal(focal_keyset_new(*state, &shapes[8], &other), FOCAL_OK);
    assert_int_equal(append_rows(other, &shared, 0, 20), FOCAL_EINVAL);
    check_view(other, &shared, 0, 0);
    focal_keyset_free(set);
    focal_keyset_free(other);
    free_text(&t);
    free_text(&shared);
}

/* A token more must not cost a walk over all of them: the lists are copied a few times in all. */
static void decoding_allocates_rarely(void **state)
{
    focal_ctx *ctx = *state;
    const focal_keyset_options options = {FOCAL_DIRECTED, 16, 4, 3, 128, 4};
    text t = make_text(&options, 20000, 5);
    focal_keyset *set = NULL;
    assert_int_equal(focal_keyset_new(ctx, &options, &set), FOCAL_OK);
    focal_ctx_memory_reset(ctx);
    for (int32_t S = 0; S < t.S; S++) assert_int_equal(append(set, &t, S, 1), FOCAL_OK);
    assert_true(focal_ctx_memory(ctx).alloc_count < 80);
    check_view(set, &t, t.S, 1);
    /* a list entry and an 8-byte mask a token and router, with the room behind them */
    assert_true(focal_ctx_memory(ctx).now_bytes < (size_t)t.S * 3 * 40);
    focal_keyset_free(set);
    free_text(&t);
}

static void expect_new_fails(focal_ctx *ctx, focal_keyset_options options, const char *message)
{
    focal_keyset *set = (focal_keyset *)(void *)ctx;
    assert_int_equal(focal_keyset_new(ctx, &options, &set), FOCAL_EINVAL);
    assert_null(set);
    assert_string_equal(focal_ctx_error(ctx), message);
}

static void bad_options_get_a_sentence(void **state)
{
    focal_ctx *ctx = *state;
    focal_keyset *set = NULL;
    const focal_keyset_options good = {FOCAL_DIRECTED, 4, 2, 1, 0, 0};
    expect_new_fails(ctx, (focal_keyset_options){(focal_keys_mode)7, 4, 2, 1, 0, 0},
                     "keyset: mode 7 is neither directed nor shared");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_DIRECTED, 0, 1, 1, 0, 0},
                     "keyset: K is 0, it must be 1 to 64");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_DIRECTED, 65, 1, 1, 0, 0},
                     "keyset: K is 65, it must be 1 to 64");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_DIRECTED, 4, 0, 1, 0, 0},
                     "keyset: top is 0, it must be 1 to K = 4");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_SHARED, 4, 5, 1, 0, 0},
                     "keyset: top is 5, it must be 1 to K = 4");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_SHARED, 4, 2, 0, 0, 0},
                     "keyset: routers is 0, it must be 1 to 65536");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_SHARED, 4, 2, INT32_MAX, 0, 0},
                     "keyset: routers is 2147483647, it must be 1 to 65536");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_SHARED, 4, 2, 1, -1, 3},
                     "keyset: window -1 and sinks 3 must not be negative");
    expect_new_fails(ctx, (focal_keyset_options){FOCAL_SHARED, 4, 2, 1, 1, INT32_MIN},
                     "keyset: window 1 and sinks -2147483648 must not be negative");
    assert_int_equal(focal_keyset_new(ctx, &good, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_new(ctx, NULL, &set), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_new(NULL, &good, &set), FOCAL_EINVAL);
    focal_keyset_free(NULL);
    assert_int_equal(focal_keyset_append(NULL, 0, NULL, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_truncate(NULL, 0), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_stats(NULL, 0, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_view(NULL).T, 0);
}

static void expect_append_fails(focal_keyset *set, focal_ctx *ctx, const int32_t *query_groups,
                                const int32_t *key_groups, const char *message)
{
    assert_int_equal(focal_keyset_append(set, 2, query_groups, key_groups), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), message);
}

static void bad_appends_leave_the_set_alone(void **state)
{
    focal_ctx *ctx = *state;
    const focal_keyset_options options = {FOCAL_DIRECTED, 4, 2, 1, 1, 1};
    text t = make_text(&options, 40, 3);
    focal_keyset *set = NULL;
    assert_int_equal(focal_keyset_new(ctx, &options, &set), FOCAL_OK);
    assert_int_equal(append(set, &t, 0, 30), FOCAL_OK);

    const int32_t keys[] = {0, 3}, keys_low[] = {0, -1}, keys_high[] = {4, 0};
    const int32_t queries[] = {0, 1, 2, 3}, repeated[] = {0, 1, 2, 2},
                  high[] = {0, 1, 2, INT32_MAX};
    const int32_t low[] = {INT32_MIN, 1, 2, 3};
    expect_append_fails(set, ctx, NULL, keys, "keyset: query_groups and key_groups must be set");
    expect_append_fails(set, ctx, queries, NULL, "keyset: query_groups and key_groups must be set");
    expect_append_fails(set, ctx, queries, keys_low,
                        "keyset: key group -1 of token 1, router 0, is not in 0..3");
    expect_append_fails(set, ctx, queries, keys_high,
                        "keyset: key group 4 of token 0, router 0, is not in 0..3");
    expect_append_fails(set, ctx, repeated, keys,
                        "keyset: query group 2 of token 1, router 0, is repeated or not in 0..3");
    expect_append_fails(
        set, ctx, high, keys,
        "keyset: query group 2147483647 of token 1, router 0, is repeated or not in 0..3");
    expect_append_fails(
        set, ctx, low, keys,
        "keyset: query group -2147483648 of token 0, router 0, is repeated or not in 0..3");
    assert_int_equal(focal_keyset_append(set, -1, queries, keys), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_append(set, INT32_MAX, queries, keys), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_truncate(set, 31), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_truncate(set, -1), FOCAL_EINVAL);
    focal_keys_stats stats;
    assert_int_equal(focal_keyset_stats(set, 0, NULL), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_stats(set, 1, &stats), FOCAL_EINVAL);
    assert_int_equal(focal_keyset_stats(set, -1, &stats), FOCAL_EINVAL);

    check_view(set, &t, 30, 30);
    assert_int_equal(append(set, &t, 30, 10), FOCAL_OK);
    check_view(set, &t, 40, 10);
    assert_int_equal(focal_keyset_append(set, 0, NULL, NULL), FOCAL_OK);
    check_view(set, &t, 40, 0);
    focal_keyset_free(set);
    free_text(&t);
}

/* Memory whose n-th request fails. */
typedef struct failing_memory {
    int64_t until_failure; /* negative: never */
    int64_t held;
} failing_memory;

static void *failing_alloc(void *user, size_t bytes)
{
    failing_memory *memory = user;
    if (memory->until_failure == 0) return NULL;
    if (memory->until_failure > 0) memory->until_failure--;
    void *block = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    memory->held += block != NULL;
    return block;
}

static void failing_release(void *user, void *block, size_t bytes)
{
    failing_memory *memory = user;
    (void)bytes;
    memory->held--;
    free(block);
}

static void check_missing_memory(bool has_rows)
{
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        if (has_rows && shapes[n].mode != FOCAL_DIRECTED) continue;
        failing_memory memory = {-1, 0};
        focal_ctx *ctx;
        const focal_ctx_options options = {.threads = 1,
                                           .allocator = {&memory, failing_alloc, failing_release}};
        assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
        text t = make_text(&shapes[n], 300, n);
        focal_keyset *set = NULL;
        for (int64_t fail = 0; !set; fail++) {
            memory.until_failure = fail;
            const focal_status status = focal_keyset_new(ctx, &shapes[n], &set);
            assert_int_equal(status, set ? FOCAL_OK : FOCAL_ENOMEM);
        }
        int32_t before = 0;
        for (int32_t S = 0; S < t.S; S += 50) {
            focal_status status = FOCAL_ENOMEM;
            for (int64_t fail = 0; status != FOCAL_OK; fail++) {
                memory.until_failure = fail;
                status = (has_rows ? append_rows : append)(set, &t, S, 50);
                if (status == FOCAL_OK) break;
                assert_int_equal(status, FOCAL_ENOMEM);
                assert_true(focal_ctx_error(ctx)[0] != '\0');
                (has_rows ? check_rows : check_view)(set, &t, S, before);
            }
            before = 50;
            (has_rows ? check_rows : check_view)(set, &t, S + 50, 50);
        }
        focal_keyset_free(set);
        focal_ctx_close(ctx);
        assert_int_equal(memory.held, 0);
        free_text(&t);
    }
}

static void missing_memory_leaves_the_set_alone(void **state)
{
    (void)state;
    check_missing_memory(false);
    check_missing_memory(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_append_matches_definition, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(chunks_match_definition, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(decoding_matches_definition, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(truncation_forgets, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_grow_and_shrink, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rows_are_not_mixed, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(decoding_allocates_rarely, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_options_get_a_sentence, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_appends_leave_the_set_alone, open_ctx, close_ctx),
        cmocka_unit_test(missing_memory_leaves_the_set_alone),
    };
    return cmocka_run_group_tests_name("keyset", tests, NULL, NULL);
}
