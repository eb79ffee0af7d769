/* The double oracle of routing against PyTorch and NumPy: tests/golden_route, made by
 * tools/golden_route.py. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/oracle_route.h"

enum { MAX_ARRAYS = 32, NAME_BYTES = 24 };

static const double tolerance = 1e-10;

/* A file of arrays: lines "name count dims...", each followed by count float64. */
typedef struct golden {
    char name[MAX_ARRAYS][NAME_BYTES];
    double *data[MAX_ARRAYS];
    int64_t count[MAX_ARRAYS];
    int arrays;
} golden;

static golden golden_read(const char *name)
{
    golden g = {.arrays = 0};
    char path[512], line[128];
    (void)snprintf(path, sizeof path, "%s/golden_route/%s.bin", FOCAL_TEST_DIR, name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s cannot be opened", path);
    while (fgets(line, sizeof line, file)) {
        long long count = -1;
        assert_true(g.arrays < MAX_ARRAYS);
        assert_int_equal(sscanf(line, "%23s %lld", g.name[g.arrays], &count), 2);
        assert_in_range(count, 1, 100000);
        double *data = new_array((size_t)count, sizeof *data);
        assert_int_equal(fread(data, sizeof *data, (size_t)count, file), count);
        g.count[g.arrays] = count;
        g.data[g.arrays++] = data;
    }
    (void)fclose(file);
    return g;
}

static void golden_free(golden *g)
{
    for (int n = 0; n < g->arrays; n++) free(g->data[n]);
}

/* The array of that name, or NULL. */
static double *find(const golden *g, const char *name)
{
    for (int n = 0; n < g->arrays; n++)
        if (strcmp(g->name[n], name) == 0) return g->data[n];
    return NULL;
}

static int64_t count_of(const golden *g, const char *name)
{
    for (int n = 0; n < g->arrays; n++)
        if (strcmp(g->name[n], name) == 0) return g->count[n];
    fail_msg("no array %s", name);
    return 0;
}

/* Compares with the array of that name, which must be there and have that count; frees got. */
static void expect(const golden *g, const char *name, double *got, int64_t count)
{
    assert_int_equal(count_of(g, name), count);
    assert_doubles_within(name, got, find(g, name), count, tolerance);
    free(got);
}

static double *blank(int64_t n)
{
    double *x = new_array((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (double)NAN;
    return x;
}

static double *copy(const golden *g, const char *name)
{
    double *x = blank(count_of(g, name));
    memcpy(x, find(g, name), (size_t)count_of(g, name) * sizeof *x);
    return x;
}

static void check_scores(const char *name)
{
    golden g = golden_read(name);
    const double *n = find(&g, "sizes");
    const int64_t T = (int64_t)n[0], C = (int64_t)n[1], R = (int64_t)n[2], K = (int64_t)n[3],
                  routers = (int64_t)n[4], size = T * routers * K;
    const oracle_router t = {.C = C,
                             .R = R,
                             .K = K,
                             .routers = routers,
                             .is_raw = n[5] != 0.0,
                             .sharpness = n[6],
                             .pk = find(&g, "pk"),
                             .pq = find(&g, "pq"),
                             .ak = find(&g, "ak"),
                             .aq = find(&g, "aq"),
                             .e = find(&g, "e"),
                             .beta = find(&g, "beta")};
    double *sk = blank(size), *sq = blank(size);
    oracle_route_scores(&t, T, find(&g, "h"), sk, sq);
    expect(&g, "sk", sk, size);
    expect(&g, "sq", sq, size);

    const int64_t p_size = routers * C * R, a_size = routers * R;
    const oracle_route_grads grads = {
        .dh = blank(T * C),
        .dpk = blank(p_size),
        .dpq = t.pq ? blank(p_size) : NULL,
        .dak = t.ak ? blank(a_size) : NULL,
        .daq = t.aq ? blank(a_size) : NULL,
        .de = blank(routers * K * R),
    };
    oracle_route_scores_backward(&t, T, find(&g, "h"), find(&g, "dsk"), find(&g, "dsq"), &grads);
    expect(&g, "dh", grads.dh, T * C);
    expect(&g, "dpk", grads.dpk, p_size);
    expect(&g, "de", grads.de, routers * K * R);
    if (t.pq) expect(&g, "dpq", grads.dpq, p_size);
    if (t.ak) expect(&g, "dak", grads.dak, a_size);
    if (t.aq) expect(&g, "daq", grads.daq, a_size);
    golden_free(&g);
}

static void scores_are_those_of_pytorch(void **state)
{
    (void)state;
    check_scores("scores_unit");
    check_scores("scores_bare");
    check_scores("scores_shared");
    check_scores("scores_paper");
}

static void check_groups(const char *name)
{
    golden file = golden_read(name);
    const double *n = find(&file, "sizes"), *s = find(&file, "s"), *dg = find(&file, "dg");
    const int64_t T = (int64_t)n[0], routers = (int64_t)n[1], K = (int64_t)n[2],
                  rounds = (int64_t)n[3], size = T * routers * K;
    double *g = blank(size), *ds = blank(size), *load = blank(routers * K),
           *entropy = blank(routers);
    if (rounds == 0) {
        oracle_route_soften(T * routers, K, s, g);
        oracle_route_soften_backward(T * routers, K, g, dg, ds);
    } else {
        oracle_route_sinkhorn(T, routers, K, rounds, s, g);
        oracle_route_sinkhorn_backward(T, routers, K, rounds, s, dg, ds);
    }
    for (int64_t r = 0; r < routers; r++)
        entropy[r] = oracle_route_soft_stats(T, routers, K, r, g, load + r * K);
    expect(&file, "g", g, size);
    expect(&file, "ds", ds, size);
    expect(&file, "load", load, routers * K);
    expect(&file, "entropy", entropy, routers);
    golden_free(&file);
}

static void groups_are_those_of_pytorch(void **state)
{
    (void)state;
    check_groups("softmax");
    check_groups("sinkhorn_1");
    check_groups("sinkhorn_10");
    check_groups("sinkhorn_few");
}

static void check_balance(const char *name)
{
    golden g = golden_read(name);
    const double *n = find(&g, "sizes");
    oracle_balance b = {.kind = n[0] == 0.0 ? FOCAL_BALANCE_LOG : FOCAL_BALANCE_SIGN,
                        .T = (int64_t)n[1],
                        .routers = (int64_t)n[2],
                        .K = (int64_t)n[3],
                        .top = (int64_t)n[4],
                        .rounds = (int64_t)n[5],
                        .rate = n[6],
                        .sk = copy(&g, "sk"),
                        .beta = copy(&g, "beta"),
                        .load = blank(count_of(&g, "beta"))};
    oracle_route_balance(&b);
    assert_true(b.margin > 1e-6); /* the fixture must not hang on roundoff */
    expect(&g, "sk_after", b.sk, b.T * b.routers * b.K);
    expect(&g, "beta_after", b.beta, b.routers * b.K);
    expect(&g, "load", b.load, b.routers * b.K);
    golden_free(&g);
}

static void balance_is_that_of_pytorch(void **state)
{
    (void)state;
    check_balance("balance_log");
    check_balance("balance_log_shared");
    check_balance("balance_sign");
}

static void top_is_that_of_numpy(void **state)
{
    (void)state;
    golden g = golden_read("top");
    const double *n = find(&g, "sizes");
    const int64_t rows = (int64_t)n[0], K = (int64_t)n[1], k = (int64_t)n[2];
    int32_t *groups = new_array((size_t)(rows * k), sizeof *groups);
    oracle_route_top(rows, K, k, find(&g, "s"), groups);
    for (int64_t i = 0; i < rows * k; i++)
        assert_int_equal(groups[i], (int64_t)find(&g, "groups")[i]);
    free(groups);
    golden_free(&g);
}

/* out (routers, m, n) = x (routers, m, R) y (routers, n, R)^T */
static double *products(int64_t routers, int64_t m, int64_t n, int64_t R, const double *x,
                        const double *y)
{
    double *out = new_array((size_t)(routers * m * n), sizeof *out);
    for (int64_t r = 0; r < routers; r++)
        for (int64_t a = 0; a < m; a++)
            for (int64_t b = 0; b < n; b++)
                for (int64_t d = 0; d < R; d++)
                    out[(r * m + a) * n + b] += x[(r * m + a) * R + d] * y[(r * n + b) * R + d];
    return out;
}

static void check_start(const char *name)
{
    golden g = golden_read(name);
    const double *n = find(&g, "sizes");
    oracle_start s = {.T = (int64_t)n[0],
                      .C = (int64_t)n[1],
                      .H = (int64_t)n[2],
                      .G = (int64_t)n[3],
                      .D = (int64_t)n[4],
                      .R = (int64_t)n[5],
                      .routers = (int64_t)n[6],
                      .is_interleaved = n[7] != 0.0,
                      .distance_min = (int64_t)n[8],
                      .distance_max = (int64_t)n[9],
                      .h = find(&g, "h"),
                      .q = find(&g, "q"),
                      .k = find(&g, "k"),
                      .wq = find(&g, "wq"),
                      .wk = find(&g, "wk"),
                      .bq = find(&g, "bq"),
                      .rope_freq = find(&g, "rope_freq")};
    const int64_t C = s.C, R = s.R, routers = s.routers;
    s.pk = blank(routers * C * R);
    s.pq = blank(routers * C * R);
    s.ak = blank(routers * R);
    s.aq = blank(routers * R);
    oracle_route_start(&s);
    expect(&g, "pkpk", products(routers, C, C, R, s.pk, s.pk), routers * C * C);
    expect(&g, "pkpq", products(routers, C, C, R, s.pk, s.pq), routers * C * C);
    expect(&g, "pqpq", products(routers, C, C, R, s.pq, s.pq), routers * C * C);
    expect(&g, "pkak", products(routers, C, 1, R, s.pk, s.ak), routers * C);
    expect(&g, "pkaq", products(routers, C, 1, R, s.pk, s.aq), routers * C);
    free(s.pk);
    free(s.pq);
    free(s.ak);
    free(s.aq);
    golden_free(&g);
}

static void start_is_that_of_numpy(void **state)
{
    (void)state;
    check_start("start_kv");
    check_start("start_layer");
    check_start("start_interleaved");
    check_start("start_fitted");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scores_are_those_of_pytorch),
        cmocka_unit_test(groups_are_those_of_pytorch),
        cmocka_unit_test(balance_is_that_of_pytorch),
        cmocka_unit_test(top_is_that_of_numpy),
        cmocka_unit_test(start_is_that_of_numpy),
    };
    return cmocka_run_group_tests_name("route_golden", tests, NULL, NULL);
}
