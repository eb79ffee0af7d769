/* A router's start from the model's heads: against the double oracle, on models whose best
 * directions are known, and what must hold of centroids. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "focal/route.h"
#include "support/route_cases.h"
#include "support/start_cases.h"

static const start_shape shapes[] = {
    /* T   C   H  G  D  R  K routers */
    {60, 8, 1, 1, 4, 2, 3, 1, 0},
    {80, 12, 4, 2, 4, 3, 4, 2, START_ROPE},
    {80, 12, 4, 2, 4, 3, 4, 1, START_ROPE | START_BIAS},
    {90, 16, 6, 3, 6, 4, 5, 3, START_INTERLEAVED | START_BIAS},
    {90, 16, 6, 3, 6, 4, 5, 1, START_INTERLEAVED},
    {100, 24, 9, 3, 8, 8, 16, 3, START_ROPE}, /* every direction of a head */
    {120, 20, 2, 2, 8, 5, 8, 2, START_ROPE | START_FITTED},
    {120, 20, 4, 2, 8, 5, 8, 1, START_INTERLEAVED | START_FITTED},
    {120, 20, 4, 2, 8, 5, 8, 2, START_ROPE | START_FITTED | START_BIAS},
    {70, 10, 4, 2, 4, 3, 4, 2, START_ROPE | START_SHARED},
    {70, 10, 4, 2, 4, 3, 4, 1, START_ROPE | START_SHARED | START_FITTED},
    {300, 48, 3, 1, 16, 16, 16, 1, START_ROPE},
    {250, 96, 3, 1, 64, 16, 16, 1, START_ROPE},
    {150, 24, 2, 1, 32, 8, 8, 1, START_ROPE}, /* moments without full rank: the floor counts */
    {150, 24, 4, 2, 32, 8, 8, 1, START_ROPE | START_BIAS},
};

/* Inputs are float, the work inside has room for more: only the rounding of the result, spread by
 * the gap between the directions taken and those left, is allowed. */
static void matches_oracle(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(shapes); n++) {
        start_case *c = start_case_new(shapes[n], n + 1);
        double gap;
        const start_products exact = exact_products(c, &gap);
        assert_true(gap > 1e-3);
        assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
        const start_products got = products_of(c);
        assert_products_within(c, got, exact, 2e-6);
        products_free(got);
        products_free(exact);
        start_case_free(c);
    }
}

/* One distance, none at all, the ordinary range, and a rope of which only the first pair turns. */
static void distances_and_frequencies(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t ranges[][2] = {{0, 0}, {5, 5}, {128, 2047}, {0, 100000}};
    for (size_t n = 0; n < 2 * FOCAL_COUNT(ranges); n++) {
        const start_shape shape = {
            80, 12, 4, 2, 6, 3, 4, 2, n % 2 ? START_ROPE : START_INTERLEAVED};
        start_case *c = start_case_new(shape, n + 70);
        c->args.distance_min = ranges[n / 2][0];
        c->args.distance_max = ranges[n / 2][1];
        c->freq[1] = c->freq[2] = 0.0F;
        double gap;
        const start_products exact = exact_products(c, &gap);
        assert_true(gap > 1e-3);
        assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
        const start_products got = products_of(c);
        assert_products_within(c, got, exact, 2e-6);
        products_free(got);
        products_free(exact);
        start_case_free(c);
    }
}

/* rms 1/sqrt(C) over all entries of a projection, mean zk before the unit 0. */
static void projections_are_scaled(void **state)
{
    focal_ctx *ctx = *state;
    start_case *c = start_case_new(shapes[1], 3);
    assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
    const int64_t T = c->shape.T, C = c->shape.C, R = c->shape.R;
    for (int64_t r = 0; r < c->shape.routers; r++) {
        double k_squares = 0.0, q_squares = 0.0;
        for (int64_t n = 0; n < C * R; n++) {
            k_squares += (double)c->args.pk[r * C * R + n] * (double)c->args.pk[r * C * R + n];
            q_squares += (double)c->args.pq[r * C * R + n] * (double)c->args.pq[r * C * R + n];
        }
        assert_true(fabs(k_squares / (double)R - 1.0) < 1e-5);
        assert_true(fabs(q_squares / (double)R - 1.0) < 1e-5);
        for (int64_t d = 0; d < R; d++) {
            double mean = (double)c->args.ak[r * R + d];
            for (int64_t i = 0; i < T; i++)
                for (int64_t n = 0; n < C; n++)
                    mean += (double)c->h[i * C + n] * (double)c->args.pk[(r * C + n) * R + d] /
                            (double)T;
            assert_true(fabs(mean) < 1e-5);
            assert_true(c->args.aq[r * R + d] == 0.0F);
        }
    }
    start_case_free(c);
}

/* Tokens +-sqrt(C) e_c: second moment one, mean 0. With q_d = a_d h_d and k_d = b_d h_d the
 * logit is sum a_d b_d h_d h_d, so the directions of the largest a_d b_d are the best ones, and
 * pk pk^T = pq pq^T = pk pq^T is a_d b_d on their diagonal, scaled to a trace of R. Rope that
 * turns whole circles over the distances leaves nothing of its pair. */
static void known_directions(focal_ctx *ctx, const float *freq, bool is_interleaved,
                             const int *expected)
{
    enum { C = 6, D = 4, R = 2, K = 2, T = 2 * C };
    static const float a[D] = {4.0F, 1.0F, 3.0F, 2.0F}, b[D] = {2.0F, 3.0F, 1.0F, 0.5F};
    float h[T * C] = {0}, q[T * D] = {0}, k[T * D] = {0}, wq[D * C] = {0}, wk[D * C] = {0};
    float pk[C * R], pq[C * R], ak[R], aq[R], e[K * R];
    for (int64_t d = 0; d < D; d++) {
        wq[d * C + d] = a[d];
        wk[d * C + d] = b[d];
    }
    for (int64_t i = 0; i < T; i++) {
        h[i * C + i / 2] = (i % 2 ? -1.0F : 1.0F) * sqrtf(C);
        for (int64_t d = 0; d < D; d++) {
            q[i * D + d] = a[d] * h[i * C + d];
            k[i * D + d] = b[d] * h[i * C + d];
        }
    }
    const focal_route_start_args args = {.T = T,
                                         .C = C,
                                         .H = 1,
                                         .G = 1,
                                         .D = D,
                                         .R = R,
                                         .K = K,
                                         .routers = 1,
                                         .h = h,
                                         .q = q,
                                         .k = k,
                                         .wq = wq,
                                         .wk = wk,
                                         .rope_freq = freq,
                                         .is_interleaved = is_interleaved,
                                         .distance_min = 3,
                                         .distance_max = 10,
                                         .pk = pk,
                                         .pq = pq,
                                         .ak = ak,
                                         .aq = aq,
                                         .e = e};
    assert_status(ctx, focal_route_start(ctx, &args), FOCAL_OK);
    double trace = 0.0;
    for (int64_t n = 0; n < R; n++) trace += (double)(a[expected[n]] * b[expected[n]]);
    for (int64_t x = 0; x < C; x++)
        for (int64_t y = 0; y < C; y++) {
            float kk = 0.0F, kq = 0.0F, qq = 0.0F, exact = 0.0F;
            for (int64_t d = 0; d < R; d++) {
                kk += pk[x * R + d] * pk[y * R + d];
                kq += pk[x * R + d] * pq[y * R + d];
                qq += pq[x * R + d] * pq[y * R + d];
            }
            if (x == y && (x == expected[0] || x == expected[1]))
                exact = a[x] * b[x] * R / (float)trace;
            assert_true(fabsf(kk - exact) < 1e-5F);
            assert_true(fabsf(kq - exact) < 1e-5F);
            assert_true(fabsf(qq - exact) < 1e-5F);
        }
}

static void finds_known_directions(void **state)
{
    static const int without_rope[] = {0, 1}, half[] = {1, 3}, interleaved[] = {2, 3};
    static const float freq[] = {0.78539816F, 0.0F}; /* eight distances are one circle; none */
    known_directions(*state, NULL, false, without_rope);
    known_directions(*state, freq, false, half);
    known_directions(*state, freq, true, interleaved);
}

/* With tokens that span everything, least squares finds the maps that made q and k. */
static void fitted_maps_are_the_given_ones(void **state)
{
    focal_ctx *ctx = *state;
    start_shape shape = {150, 20, 4, 2, 8, 5, 8, 2, START_ROPE};
    start_case *given = start_case_new(shape, 31);
    shape.flags |= START_FITTED;
    start_case *fitted = start_case_new(shape, 31);
    assert_status(ctx, focal_route_start(ctx, &given->args), FOCAL_OK);
    assert_status(ctx, focal_route_start(ctx, &fitted->args), FOCAL_OK);
    const start_products a = products_of(fitted), b = products_of(given);
    assert_products_within(fitted, a, b, 2e-5);
    products_free(a);
    products_free(b);
    start_case_free(given);
    start_case_free(fitted);
}

/* Leaving out the query side changes nothing of the key side. */
static void shared_has_the_same_keys(void **state)
{
    focal_ctx *ctx = *state;
    start_shape shape = {100, 14, 4, 2, 6, 4, 6, 2, START_ROPE};
    start_case *all = start_case_new(shape, 9);
    shape.flags |= START_SHARED;
    start_case *keys = start_case_new(shape, 9);
    assert_status(ctx, focal_route_start(ctx, &all->args), FOCAL_OK);
    assert_status(ctx, focal_route_start(ctx, &keys->args), FOCAL_OK);
    assert_memory_equal(all->args.pk, keys->args.pk, (size_t)all->p_count * sizeof(float));
    assert_memory_equal(all->args.ak, keys->args.ak, (size_t)all->a_count * sizeof(float));
    assert_memory_equal(all->args.e, keys->args.e, (size_t)all->e_count * sizeof(float));
    start_case_free(all);
    start_case_free(keys);
}

/* Unit, the same for the same seed, others for another; projections do not know the seed. */
static void centroids_follow_the_seed(void **state)
{
    focal_ctx *ctx = *state;
    const start_shape shape = {200, 12, 2, 2, 6, 4, 8, 2, START_ROPE};
    start_case *a = start_case_new(shape, 11), *b = start_case_new(shape, 11),
               *other = start_case_new(shape, 11);
    other->args.seed += 1;
    assert_status(ctx, focal_route_start(ctx, &a->args), FOCAL_OK);
    assert_status(ctx, focal_route_start(ctx, &b->args), FOCAL_OK);
    assert_status(ctx, focal_route_start(ctx, &other->args), FOCAL_OK);
    for (int64_t n = 0; n < a->e_count; n += shape.R) {
        double squares = 0.0;
        for (int64_t d = 0; d < shape.R; d++)
            squares += (double)a->args.e[n + d] * (double)a->args.e[n + d];
        assert_true(fabs(squares - 1.0) < 1e-5);
    }
    assert_memory_equal(a->args.e, b->args.e, (size_t)a->e_count * sizeof(float));
    assert_memory_equal(a->args.pk, other->args.pk, (size_t)a->p_count * sizeof(float));
    assert_memory_equal(a->args.pq, other->args.pq, (size_t)a->p_count * sizeof(float));
    assert_memory_not_equal(a->args.e, other->args.e, (size_t)a->e_count * sizeof(float));
    start_case_free(a);
    start_case_free(b);
    start_case_free(other);
}

/* A round more is one round of the oracle on what was there; 0 rounds means 12. */
static void kmeans_goes_round_by_round(void **state)
{
    focal_ctx *ctx = *state;
    const start_shape shape = {150, 12, 2, 2, 6, 4, 6, 2, START_ROPE};
    start_case *c = start_case_new(shape, 17);
    const int64_t size = (int64_t)shape.K * shape.R;
    double *before = NULL;
    for (int32_t rounds = 1; rounds <= 12; rounds++) {
        c->args.kmeans_rounds = rounds;
        assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
        double *now = to_doubles(c->args.e, c->e_count);
        for (int64_t r = 0; r < shape.routers && before; r++) {
            double *z = unit_keys(c, r);
            const double margin =
                oracle_kmeans_round(shape.T, shape.R, shape.K, z, before + r * size);
            free(z);
            if (margin < 1e-5) continue; /* a token between two centroids may go either way */
            assert_doubles_within("centroids", now + r * size, before + r * size, size, 1e-5);
        }
        free(before);
        before = now;
    }
    c->args.kmeans_rounds = 0;
    assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
    double *last = to_doubles(c->args.e, c->e_count);
    assert_memory_equal(last, before, (size_t)c->e_count * sizeof *last);
    free(last);
    free(before);
    start_case_free(c);
}

/* As many groups as tokens: K different random tokens are all tokens, and each stays the centre of
 * itself. */
static void first_centroids_are_different_tokens(void **state)
{
    focal_ctx *ctx = *state;
    const start_shape shape = {40, 6, 1, 1, 4, 4, 40, 1, 0};
    start_case *c = start_case_new(shape, 23);
    bool is_met[40] = {false};
    assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
    double *z = unit_keys(c, 0);
    for (int64_t n = 0; n < shape.K; n++) {
        int64_t best = 0;
        double best_score = -2.0;
        for (int64_t i = 0; i < shape.T; i++) {
            double score = 0.0;
            for (int64_t d = 0; d < shape.R; d++)
                score += z[i * shape.R + d] * (double)c->args.e[n * shape.R + d];
            if (score > best_score) best = i;
            best_score = fmax(best_score, score);
        }
        assert_true(best_score > 1.0 - 1e-6);
        assert_false(is_met[best]);
        is_met[best] = true;
    }
    free(z);
    start_case_free(c);
}

/* Moments without full rank: fewer tokens than a head is wide, a constant key, no key at all. */
static void poor_statistics_stay_finite(void **state)
{
    focal_ctx *ctx = *state;
    for (int kind = 0; kind < 3; kind++) {
        const start_shape shape = {kind == 0 ? 5 : 40, 12, 2, 1, 8, 4, 3, 1, START_ROPE};
        start_case *c = start_case_new(shape, 41);
        for (int64_t n = 0; n < (int64_t)shape.T * shape.D && kind > 0; n++)
            c->k[n] = kind == 1 ? 1.0F : 0.0F;
        assert_status(ctx, focal_route_start(ctx, &c->args), FOCAL_OK);
        for (int64_t n = 0; n < c->p_count; n++)
            assert_true(isfinite(c->args.pk[n]) && isfinite(c->args.pq[n]));
        for (int64_t n = 0; n < c->a_count; n++)
            assert_true(isfinite(c->args.ak[n]) && isfinite(c->args.aq[n]));
        for (int64_t n = 0; n < c->e_count; n++) assert_true(isfinite(c->args.e[n]));
        start_case_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matches_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(distances_and_frequencies, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(projections_are_scaled, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(finds_known_directions, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(fitted_maps_are_the_given_ones, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(shared_has_the_same_keys, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(centroids_follow_the_seed, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kmeans_goes_round_by_round, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(first_centroids_are_different_tokens, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(poor_statistics_stay_finite, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("route_start", tests, NULL, NULL);
}
