/* The oracle itself: PyTorch's vectors, and finite differences of every gradient. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "focal/attn.h"
#include "support/golden.h"
#include "support/oracle_attn.h"

enum { DIRECTIONS = 5, MAX_SIZE = 4096 };

/* In the order in which tools/golden.py writes parameters. */
static oracle_attn problem_of(const golden_case *c)
{
    const double *p = c->parameters;
    assert_int_equal(c->parameter_count, 15);
    oracle_attn a = {.T = (int32_t)p[0],
                     .S = (int32_t)p[1],
                     .H = (int32_t)p[2],
                     .G = (int32_t)p[3],
                     .D = (int32_t)p[4],
                     .Dv = (int32_t)p[5],
                     .is_bidirectional = p[6] != 0.0,
                     .has_window = p[7] != 0.0,
                     .window = (int32_t)p[8],
                     .sinks = (int32_t)p[9],
                     .softcap = p[10],
                     .K = (int32_t)p[11],
                     .routers = (int32_t)p[12],
                     .gate = (int)p[14],
                     .lambda = 10.0};
    a.q = golden_get(c, "q", (int64_t)a.T * a.H * a.D);
    a.k = golden_get(c, "k", (int64_t)a.S * a.G * a.D);
    a.v = golden_get(c, "v", (int64_t)a.S * a.G * a.Dv);
    a.gq = golden_get(c, "gq", (int64_t)a.T * a.routers * a.K);
    a.gk = golden_get(c, "gk", (int64_t)a.S * a.routers * a.K);
    return a;
}

static uint64_t *masks_of(const double *bits, int64_t count)
{
    uint64_t *masks = new_array((size_t)count, sizeof *masks);
    for (int64_t n = 0; n < count; n++) masks[n] = (uint64_t)bits[n];
    return masks;
}

static void compare(const golden_case *c, const char *name, const double *got, int64_t count)
{
    char full_name[80];
    (void)snprintf(full_name, sizeof full_name, "%s: %s", c->name, name);
    const double *expected = golden_get(c, name, count);
    assert_non_null(expected);
    assert_doubles_within(full_name, got, expected, count, 1e-10);
}

static void check_golden_case(const golden_case *c)
{
    oracle_attn a = problem_of(c);
    uint64_t *queries = NULL, *keys = NULL;
    const double *bits = golden_get(c, "query_groups", (int64_t)a.routers * a.T);
    if (bits) {
        a.query_groups = queries = masks_of(bits, (int64_t)a.routers * a.T);
        bits = golden_get(c, "key_groups", (int64_t)a.routers * a.S);
        assert_non_null(bits);
        a.key_groups = keys = masks_of(bits, (int64_t)a.routers * a.S);
    }
    static double out[MAX_SIZE], lse[MAX_SIZE], dq[MAX_SIZE], dk[MAX_SIZE], dv[MAX_SIZE];
    static double dgq[MAX_SIZE], dgk[MAX_SIZE];
    const oracle_attn_out forward = {.out = out, .lse = lse};
    oracle_attn_forward(&a, &forward);
    compare(c, "out", out, (int64_t)a.T * a.H * a.Dv);
    compare(c, "lse", lse, (int64_t)a.T * a.H);
    const double *dout = golden_get(c, "dout", (int64_t)a.T * a.H * a.Dv);
    assert_non_null(dout);
    const oracle_attn_grads backward = {.dq = dq, .dk = dk, .dv = dv, .dgq = dgq, .dgk = dgk};
    oracle_attn_backward(&a, dout, &backward);
    compare(c, "dq", dq, (int64_t)a.T * a.H * a.D);
    compare(c, "dk", dk, (int64_t)a.S * a.G * a.D);
    compare(c, "dv", dv, (int64_t)a.S * a.G * a.Dv);
    if (a.gate) {
        compare(c, "dgq", dgq, (int64_t)a.T * a.routers * a.K);
        compare(c, "dgk", dgk, (int64_t)a.S * a.routers * a.K);
    }
    free(queries);
    free(keys);
}

static void oracle_matches_pytorch(void **state)
{
    (void)state;
    golden *g = golden_open("attn");
    assert_int_equal(g->case_count, 19);
    for (int n = 0; n < g->case_count; n++) check_golden_case(&g->cases[n]);
    golden_close(g);
}

/* A problem with one flat vector of everything that has a gradient. */
typedef struct flat_problem {
    oracle_attn a;
    double x[MAX_SIZE]; /* q, k, v, gq, gk */
    double dx[MAX_SIZE], dout[MAX_SIZE];
    int64_t counts[5], count, out_count;
    uint64_t query_groups[MAX_SIZE], key_groups[MAX_SIZE];
} flat_problem;

static void point_at(flat_problem *p, const double *x)
{
    p->a.q = x;
    p->a.k = x + p->counts[0];
    p->a.v = p->a.k + p->counts[1];
    p->a.gq = p->a.v + p->counts[2];
    p->a.gk = p->a.gq + p->counts[3];
}

/* What is differentiated: out against fixed weights. The sets, and so the selection, do not
 * move. */
static double loss_of(flat_problem *p, const double *x)
{
    static double out[MAX_SIZE];
    const oracle_attn_out forward = {.out = out};
    double sum = 0.0;
    point_at(p, x);
    oracle_attn_forward(&p->a, &forward);
    for (int64_t n = 0; n < p->out_count; n++) sum += out[n] * p->dout[n];
    return sum;
}

static void prepare(flat_problem *p, const oracle_attn *shape, bool has_groups, uint64_t seed)
{
    p->a = *shape;
    oracle_attn *a = &p->a;
    a->lambda = 10.0;
    if (a->routers == 0) a->routers = 1;
    p->counts[0] = (int64_t)a->T * a->H * a->D;
    p->counts[1] = (int64_t)a->S * a->G * a->D;
    p->counts[2] = (int64_t)a->S * a->G * a->Dv;
    p->counts[3] = a->gate ? (int64_t)a->T * a->routers * a->K : 0;
    p->counts[4] = a->gate ? (int64_t)a->S * a->routers * a->K : 0;
    p->count = 0;
    for (int n = 0; n < 5; n++) p->count += p->counts[n];
    p->out_count = (int64_t)a->T * a->H * a->Dv;
    assert_true(p->count <= MAX_SIZE && p->out_count <= MAX_SIZE);
    const int64_t memberships = p->count - p->counts[3] - p->counts[4];
    for (int64_t n = 0; n < p->count; n++) {
        p->x[n] = (double)foci_random_normal(seed, 1, (uint64_t)n);
        if (n >= memberships) p->x[n] = 0.1 + 0.3 * fabs(p->x[n]);
    }
    for (int64_t n = 0; n < p->out_count; n++)
        p->dout[n] = (double)foci_random_normal(seed, 2, (uint64_t)n);
    for (int64_t n = 0; n < (int64_t)a->routers * a->T; n++)
        p->query_groups[n] = foci_random_u32(seed, 3, (uint64_t)n) % 15 + 1;
    for (int64_t n = 0; n < (int64_t)a->routers * a->S; n++)
        p->key_groups[n] = (uint64_t)1 << foci_random_below(seed, 4, (uint64_t)n, 4);
    a->query_groups = has_groups ? p->query_groups : NULL;
    a->key_groups = has_groups ? p->key_groups : NULL;
    point_at(p, p->x);
    const oracle_attn_grads backward = {.dq = p->dx,
                                        .dk = p->dx + p->counts[0],
                                        .dv = p->dx + p->counts[0] + p->counts[1],
                                        .dgq = p->dx + memberships,
                                        .dgk = p->dx + memberships + p->counts[3]};
    oracle_attn_backward(a, p->dout, &backward);
}

/* (f(x + h u) - f(x - h u)) / 2h, with two steps combined so that the error is of order h^4. */
static double slope_along(flat_problem *p, const double *u)
{
    static double y[MAX_SIZE];
    double slope[2];
    for (int step = 0; step < 2; step++) {
        const double h = step == 0 ? 2e-4 : 1e-4;
        double side[2];
        for (int sign = 0; sign < 2; sign++) {
            for (int64_t n = 0; n < p->count; n++) y[n] = p->x[n] + (sign == 0 ? h : -h) * u[n];
            side[sign] = loss_of(p, y);
        }
        slope[step] = (side[0] - side[1]) / (2.0 * h);
    }
    return (4.0 * slope[1] - slope[0]) / 3.0;
}

static void check_slope(flat_problem *p, const double *u, const char *what, int64_t index)
{
    double expected = 0.0, size = 0.0;
    for (int64_t n = 0; n < p->count; n++) {
        expected += p->dx[n] * u[n];
        size += fabs(p->dx[n] * u[n]);
    }
    const double slope = slope_along(p, u);
    if (!(fabs(slope - expected) <= 1e-7 * fmax(size, 1e-2)))
        fail_msg("%s %lld: slope %.12g, gradient %.12g", what, (long long)index, slope, expected);
}

static const oracle_attn shapes[] = {
    {.T = 5, .S = 5, .H = 2, .G = 1, .D = 3, .Dv = 2},
    {.T = 3, .S = 7, .H = 4, .G = 2, .D = 2, .Dv = 3, .softcap = 1.5},
    {.T = 6, .S = 6, .H = 2, .G = 2, .D = 2, .Dv = 2, .is_bidirectional = true},
    {.T = 8, .S = 8, .H = 2, .G = 1, .D = 2, .Dv = 2, .has_window = true, .window = 2, .sinks = 1},
    {.T = 6, .S = 3, .H = 2, .G = 1, .D = 2, .Dv = 2}, /* rows without keys */
    {.T = 8,
     .S = 8,
     .H = 4,
     .G = 2,
     .D = 2,
     .Dv = 2,
     .has_window = true,
     .window = 1,
     .K = 3,
     .routers = 2,
     .gate = FOCAL_GATE_PAPER,
     .softcap = 2.0},
    {.T = 8,
     .S = 8,
     .H = 4,
     .G = 2,
     .D = 2,
     .Dv = 2,
     .has_window = true,
     .window = 1,
     .sinks = 1,
     .K = 3,
     .routers = 2,
     .gate = FOCAL_GATE_LOG},
    {.T = 4,
     .S = 9,
     .H = 4,
     .G = 2,
     .D = 2,
     .Dv = 2,
     .has_window = true,
     .K = 3,
     .routers = 1,
     .gate = FOCAL_GATE_LOG},
    {.T = 8,
     .S = 8,
     .H = 4,
     .G = 2,
     .D = 2,
     .Dv = 2,
     .has_window = true,
     .window = 1,
     .sinks = 1,
     .K = 1,
     .routers = 1,
     .gate = FOCAL_GATE_SCALE,
     .softcap = 2.0},
};

static void check_gradients(const oracle_attn *shape, bool has_groups, uint64_t seed)
{
    static flat_problem p;
    static double u[MAX_SIZE];
    prepare(&p, shape, has_groups, seed);
    for (int d = 0; d < DIRECTIONS; d++) {
        for (int64_t n = 0; n < p.count; n++)
            u[n] = (double)foci_random_normal(seed, 5 + (uint64_t)d, (uint64_t)n);
        check_slope(&p, u, "direction", d);
    }
    memset(u, 0, sizeof u);
    for (int64_t n = 0; n < p.count; n++) {
        u[n] = 1.0;
        check_slope(&p, u, "element", n);
        u[n] = 0.0;
    }
}

static void gradients_are_slopes(void **state)
{
    (void)state;
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) check_gradients(&shapes[n], false, n + 1);
}

static void gradients_over_groups_are_slopes(void **state)
{
    (void)state;
    const oracle_attn layer = {.T = 9,
                               .S = 9,
                               .H = 4,
                               .G = 2,
                               .D = 2,
                               .Dv = 2,
                               .has_window = true,
                               .window = 1,
                               .sinks = 1,
                               .K = 4,
                               .routers = 1};
    oracle_attn head = layer;
    head.routers = 2;
    head.T = 4;
    head.softcap = 3.0;
    check_gradients(&layer, true, 21);
    check_gradients(&head, true, 22);
}

/* A wrong gradient must not pass: the check is run on one that is bent a little. */
static void bent_gradients_are_seen(void **state)
{
    (void)state;
    static flat_problem p;
    static double u[MAX_SIZE];
    prepare(&p, &shapes[0], false, 1);
    for (int64_t n = 0; n < p.count; n++) u[n] = (double)foci_random_normal(1, 5, (uint64_t)n);
    double expected = 0.0;
    p.dx[p.count - 1] *= 1.0 + 1e-4; /* a value: the others may be 0 */
    for (int64_t n = 0; n < p.count; n++) expected += p.dx[n] * u[n];
    assert_true(fabs(slope_along(&p, u) - expected) > 1e-6);
}

/* MATH 3.5.4 and 3.5.6 written as whole matrices: the straight-through gate has no slope to compare
 * with. dq, dk and dv must be those of the hard mask. */
static void straight_gate_is_its_formula(void **state)
{
    (void)state;
    enum { T = 9, H = 4, G = 2, D = 2, K = 4 };
    const oracle_attn shape = {.T = T,
                               .S = T,
                               .H = H,
                               .G = G,
                               .D = D,
                               .Dv = D,
                               .has_window = true,
                               .window = 1,
                               .sinks = 1,
                               .K = K,
                               .routers = G,
                               .gate = FOCAL_GATE_STRAIGHT};
    static flat_problem gated, hard;
    prepare(&gated, &shape, true, 31);
    for (int64_t n = 0; n < gated.counts[0]; n++) gated.x[n] *= 3.0; /* some exceed lse */
    point_at(&gated, gated.x);
    const int64_t memberships = gated.counts[0] + gated.counts[1] + gated.counts[2];
    const oracle_attn_grads backward = {.dq = gated.dx,
                                        .dk = gated.dx + gated.counts[0],
                                        .dv = gated.dx + gated.counts[0] + gated.counts[1],
                                        .dgq = gated.dx + memberships,
                                        .dgk = gated.dx + memberships + gated.counts[3]};
    oracle_attn_backward(&gated.a, gated.dout, &backward);
    static double out[T * H * D], lse[T * H], dm[G][T][T];
    const oracle_attn_out forward = {.out = out, .lse = lse};
    oracle_attn_forward(&gated.a, &forward);
    int held = 0;
    memset(dm, 0, sizeof dm);
    for (int h = 0; h < H; h++) {
        for (int i = 0; i < T; i++) {
            for (int j = 1; j < i - 1; j++) { /* behind the window, not the sink */
                double s = 0.0, gap = 0.0;
                for (int d = 0; d < D; d++) {
                    s += gated.x[(i * H + h) * D + d] *
                         gated.x[gated.counts[0] + (int64_t)(j * G + h / 2) * D + d];
                    gap += gated.dout[(i * H + h) * D + d] *
                           (gated.x[gated.counts[0] + gated.counts[1] +
                                    (int64_t)(j * G + h / 2) * D + d] -
                            out[(i * H + h) * D + d]);
                }
                const double excess = s - lse[i * H + h];
                held += excess > 0.0;
                dm[h / 2][i][j] += exp(excess > 0.0 ? 0.0 : excess) * gap;
            }
        }
    }
    assert_true(held > 0);
    double dgq[T * G * K] = {0}, dgk[T * G * K] = {0};
    const double *gq = gated.x + memberships, *gk = gq + gated.counts[3];
    for (int g = 0; g < G; g++)
        for (int i = 0; i < T; i++)
            for (int j = 0; j < T; j++)
                for (int c = 0; c < K; c++) {
                    dgq[(i * G + g) * K + c] += dm[g][i][j] * gk[(j * G + g) * K + c];
                    dgk[(j * G + g) * K + c] += dm[g][i][j] * gq[(i * G + g) * K + c];
                }
    assert_doubles_within("dgq", backward.dgq, dgq, (int64_t)T * G * K, 1e-12);
    assert_doubles_within("dgk", backward.dgk, dgk, (int64_t)T * G * K, 1e-12);
    oracle_attn ungated = shape;
    ungated.gate = 0;
    prepare(&hard, &ungated, true, 31);
    memcpy(hard.x, gated.x, sizeof hard.x);
    memcpy(hard.dout, gated.dout, sizeof hard.dout);
    point_at(&hard, hard.x);
    const oracle_attn_grads plain = {.dq = hard.dx,
                                     .dk = hard.dx + hard.counts[0],
                                     .dv = hard.dx + hard.counts[0] + hard.counts[1]};
    oracle_attn_backward(&hard.a, hard.dout, &plain);
    assert_doubles_within("dq, dk, dv", gated.dx, hard.dx, memberships, 1e-13);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(oracle_matches_pytorch),
        cmocka_unit_test(gradients_are_slopes),
        cmocka_unit_test(gradients_over_groups_are_slopes),
        cmocka_unit_test(bent_gradients_are_seen),
        cmocka_unit_test(straight_gate_is_its_formula),
    };
    return cmocka_run_group_tests_name("oracle_attn", tests, NULL, NULL);
}
