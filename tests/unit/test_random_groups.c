/* Groups by chance: every group and every choice of groups as often as any other, different ones in
 * a choice, independent of layer, router and token, and the same however a text is cut. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/random_groups.h"

enum { TOKENS = 6000, K = 6, TOP = 3, ROUTERS = 2, LAYERS = 2, ORDERS = K * (K - 1) };

static const foci_groups_shape shape = {.L = LAYERS,
                                        .C = 1,
                                        .H = ROUTERS,
                                        .G = ROUTERS,
                                        .K = K,
                                        .R = 1,
                                        .routers = ROUTERS,
                                        .seed = 5,
                                        .source = FOCI_GROUPS_RANDOM,
                                        .layers = {true, true}};

typedef struct groups_of_text {
    int32_t keys[TOKENS][ROUTERS], queries[TOKENS][ROUTERS][TOP];
} groups_of_text;

static int32_t positions[TOKENS];

/* Tokens [first, first + count) of the text. */
static void draw(const foci_groups_shape *of, int32_t layer, int first, int count,
                 groups_of_text *to)
{
    for (int n = 0; n < TOKENS; n++) positions[n] = n;
    foci_random_groups(of, layer, count, positions + first, TOP, to->keys[first],
                       to->queries[first][0]);
}

/* Pearson's statistic of counts that should be equal; its mean is cells - 1, its variance twice
 * that. Five deviations: 1 in a million. */
static void assert_even(const char *what, const int *counts, int cells)
{
    double total = 0.0, sum = 0.0;
    for (int n = 0; n < cells; n++) total += counts[n];
    for (int n = 0; n < cells; n++) {
        const double off = counts[n] - total / cells;
        sum += off * off / (total / cells);
    }
    const double freedom = cells - 1, bound = freedom + 5.0 * sqrt(2.0 * freedom);
    if (!(sum < bound)) fail_msg("%s: %g, at most %g expected", what, sum, bound);
}

static void all_groups_are_as_likely(void **state)
{
    (void)state;
    groups_of_text *g = new_array(1, sizeof *g);
    for (int32_t layer = 0; layer < LAYERS; layer++)
        for (int r = 0; r < ROUTERS; r++) {
            int keys[K] = {0}, orders[ORDERS] = {0}, last[K] = {0}, pairs[K * K] = {0};
            draw(&shape, layer, 0, TOKENS, g);
            for (int i = 0; i < TOKENS; i++) {
                const int32_t *q = g->queries[i][r];
                keys[g->keys[i][r]]++;
                /* the first two in their order: choices of TOP are then as likely, too */
                orders[q[0] * (K - 1) + q[1] - (q[1] > q[0])]++;
                last[q[TOP - 1]]++;
                pairs[g->keys[i][r] * K + q[0]]++;
            }
            assert_even("keys", keys, K);
            assert_even("first two groups of queries", orders, ORDERS);
            assert_even("last groups of queries", last, K);
            assert_even("a token's own group and the first it looks into", pairs, K * K);
        }
    free(g);
}

static void groups_of_a_query_differ(void **state)
{
    (void)state;
    groups_of_text *g = new_array(1, sizeof *g);
    draw(&shape, 1, 0, TOKENS, g);
    for (int i = 0; i < TOKENS; i++)
        for (int r = 0; r < ROUTERS; r++) {
            unsigned seen = 0;
            for (int n = 0; n < TOP; n++) {
                const int32_t group = g->queries[i][r][n];
                assert_true(group >= 0 && group < K);
                assert_true((seen >> group & 1U) == 0);
                seen |= 1U << group;
            }
        }
    free(g);
}

/* Pairs of groups of two layers, two routers, two seeds, and of a token and the next. */
static void nothing_goes_together(void **state)
{
    (void)state;
    groups_of_text *a = new_array(1, sizeof *a), *b = new_array(1, sizeof *b);
    groups_of_text *c = new_array(1, sizeof *c);
    foci_groups_shape other = shape;
    other.seed = 6;
    int layers[K * K] = {0}, routers[K * K] = {0}, seeds[K * K] = {0}, next[K * K] = {0};
    draw(&shape, 0, 0, TOKENS, a);
    draw(&shape, 1, 0, TOKENS, b);
    draw(&other, 0, 0, TOKENS, c);
    for (int i = 0; i < TOKENS; i++) {
        const int32_t group = a->keys[i][0];
        layers[group * K + b->keys[i][0]]++;
        routers[group * K + a->keys[i][1]]++;
        seeds[group * K + c->keys[i][0]]++;
        if (i > 0) next[a->keys[i - 1][0] * K + group]++;
    }
    assert_even("layers", layers, K * K);
    assert_even("routers", routers, K * K);
    assert_even("seeds", seeds, K * K);
    assert_even("tokens", next, K * K);
    free(a);
    free(b);
    free(c);
}

static void parts_have_the_groups_of_the_whole(void **state)
{
    (void)state;
    static const int cuts[] = {0, 1, 2, 63, 64, 1000, TOKENS};
    groups_of_text *whole = new_array(1, sizeof *whole), *parts = new_array(1, sizeof *parts);
    draw(&shape, 1, 0, TOKENS, whole);
    memset(parts, 0, sizeof *parts);
    for (size_t n = 0; n + 1 < FOCAL_COUNT(cuts); n++)
        draw(&shape, 1, cuts[n], cuts[n + 1] - cuts[n], parts);
    assert_memory_equal(parts, whole, sizeof *whole);
    /* fewer groups a query are the first of more */
    int32_t *two = new_array((size_t)TOKENS * ROUTERS * 2, sizeof *two);
    foci_random_groups(&shape, 1, TOKENS, positions, 2, NULL, two);
    for (int n = 0; n < TOKENS * ROUTERS; n++)
        assert_memory_equal(two + (ptrdiff_t)n * 2, whole->queries[n / ROUTERS][n % ROUTERS],
                            2 * sizeof *two);
    free(two);
    free(whole);
    free(parts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_groups_are_as_likely),
        cmocka_unit_test(groups_of_a_query_differ),
        cmocka_unit_test(nothing_goes_together),
        cmocka_unit_test(parts_have_the_groups_of_the_whole),
    };
    return cmocka_run_group_tests_name("random groups", tests, NULL, NULL);
}
