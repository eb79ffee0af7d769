/* Log-probabilities, losses, the likeliest ids and the soft-cap: every kernel against the double
 * oracle and PyTorch, odd rows, threads, memory that runs out, bad calls. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "ops/loss/loss.h"
#include "ops/loss/soft_cap.h"
#include "support/op_cases.h"
#include "support/oracle_ops.h"
#include "support/plain_ops.h"
#include "support/route_cases.h"

/* Sums of float32 exponentials: their relative error is lse's absolute one. */
static const double most_error = 2.5e-7;

typedef struct loss_case {
    char name[96];
    foci_loss_args args;
    grid logits, log_probs;
    int32_t *targets;
    float *plain;
    double *exact, *sizes, *lse, *nll, *got_lse, *got_nll;
    int64_t count;
} loss_case;

static loss_case *loss_case_new(focal_ctx *ctx, int32_t T, int32_t V, float spread, unsigned flags)
{
    loss_case *c = new_array(1, sizeof *c);
    (void)snprintf(c->name, sizeof c->name, "T %d V %d spread %g flags %u", T, V, (double)spread,
                   flags);
    c->count = (int64_t)T * V;
    c->logits = grid_new(T, V, FOCAL_F32, flags);
    c->log_probs = grid_new(T, V, FOCAL_F32, flags ^ GRID_MISALIGNED);
    float *x = new_normals(c->count, spread, flags + (uint64_t)V);
    c->targets = new_array((size_t)T, sizeof *c->targets);
    double **arrays[] = {&c->exact, &c->sizes, &c->lse, &c->nll, &c->got_lse, &c->got_nll};
    for (size_t n = 0; n < FOCAL_COUNT(arrays); n++)
        *arrays[n] = new_array((size_t)c->count, sizeof **arrays[n]);
    c->plain = new_array((size_t)c->count, sizeof *c->plain);
    grid_fill(&c->logits, x);
    double *x64 = to_doubles(x, c->count);
    for (int32_t t = 0; t < T; t++) {
        const double *row = x64 + (int64_t)t * V;
        c->targets[t] = t % 4 == 3 ? -1 : (t * 7) % V;
        c->lse[t] = oracle_log_softmax(V, row, c->exact + (int64_t)t * V);
        c->nll[t] = c->targets[t] < 0 ? 0.0 : c->lse[t] - row[c->targets[t]];
        plain_log_softmax(V, x + (int64_t)t * V, c->plain + (int64_t)t * V);
        for (int64_t n = 0; n < V; n++)
            c->sizes[(int64_t)t * V + n] = fabs(row[n]) + fabs(c->lse[t]) + 1.0;
    }
    const foci_loss_args args = {.T = T,
                                 .V = V,
                                 .logits = c->logits.data,
                                 .logits_stride = c->logits.stride,
                                 .targets = c->targets,
                                 .nll = c->got_nll,
                                 .lse = c->got_lse,
                                 .log_probs = c->log_probs.data,
                                 .log_probs_stride = c->log_probs.stride};
    assert_status(ctx, foci_loss_normalise(ctx, &args, &c->args), FOCAL_OK);
    free(x);
    free(x64);
    return c;
}

static void loss_case_free(loss_case *c)
{
    void *blocks[] = {c->targets, c->plain, c->exact,   c->sizes,
                      c->lse,     c->nll,   c->got_lse, c->got_nll};
    for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    grid_free(&c->logits);
    grid_free(&c->log_probs);
    free(c);
}

static void assert_near(const char *name, const double *got, const double *exact, int32_t count)
{
    for (int32_t n = 0; n < count; n++)
        if (!(fabs(got[n] - exact[n]) <= most_error))
            fail_msg("%s: row %d has %.12g, exact %.12g", name, n, got[n], exact[n]);
}

static void check_kernel(const foci_rows_kernel *kernel, loss_case *c)
{
    char name[128];
    (void)snprintf(name, sizeof name, "%s, %s", kernel->name, c->name);
    kernel->run(&c->args, 0, c->args.T);
    assert_near(name, c->got_lse, c->lse, c->args.T);
    assert_near(name, c->got_nll, c->nll, c->args.T);
    assert_gaps_untouched(name, &c->log_probs);
    float *got = grid_packed(&c->log_probs), *kept = grid_packed(&c->logits);
    const error_bound bound = {.name = name,
                               .plain = c->plain,
                               .exact = c->exact,
                               .magnitude = c->sizes,
                               .count = c->count,
                               .factor = 2.0};
    assert_within(&bound, got);
    foci_loss_args args = c->args; /* in place, and with nothing else asked for */
    args.log_probs = c->logits.data;
    args.log_probs_stride = c->logits.stride;
    args.nll = args.lse = NULL;
    args.targets = NULL;
    kernel->run(&args, 0, args.T);
    assert_gaps_untouched(name, &c->logits);
    float *in_place = grid_packed(&c->logits);
    assert_memory_equal(in_place, got, (size_t)c->count * sizeof *got);
    grid_fill(&c->logits, kept);
    free(got);
    free(kept);
    free(in_place);
    note_ran("loss", kernel->name);
}

static void kernels_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    static const int32_t widths[] = {1,   2,   7,   8,   9,   15,  16,  17,   31,  33,
                                     127, 128, 129, 255, 256, 257, 263, 1000, 4099};
    static const float spreads[] = {0.0F, 1.0F, 10.0F, 200.0F};
    for (size_t w = 0; w < FOCAL_COUNT(widths); w++)
        for (unsigned n = 0; n < 8; n++) {
            loss_case *c =
                loss_case_new(ctx, n < 4 ? 1 : 5, widths[w], spreads[n % 4], (n + (unsigned)w) % 4);
            size_t next = 0;
            for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_loss_op, &next));)
                check_kernel(kernel, c);
            loss_case_free(c);
        }
    note_without("loss", "avx512bf16"); /* logits are float32 */
    assert_ran("loss", "ref");
}

static void check_golden(const golden_case *g, void *user)
{
    focal_ctx *ctx = user;
    const double *p = g->parameters;
    const int32_t T = (int32_t)p[0], V = (int32_t)p[1], top = (int32_t)p[2];
    const int64_t count = (int64_t)T * V;
    float *logits = case_floats(g, "logits", count), *out = new_array((size_t)count, sizeof *out);
    double *exact = new_array((size_t)count, sizeof *exact), lse[8], nll[8];
    double *sizes = new_array((size_t)count, sizeof *sizes);
    int32_t targets[8], ids[128];
    float best[128];
    for (int32_t t = 0; t < T; t++) {
        targets[t] = (int32_t)case_doubles(g, "targets", T)[t];
        lse[t] = oracle_log_softmax(V, case_doubles(g, "logits", count) + (int64_t)t * V,
                                    exact + (int64_t)t * V);
    }
    assert_doubles_within(g->name, exact, case_doubles(g, "log_probs", count), count, 1e-13);
    assert_doubles_within(g->name, lse, case_doubles(g, "lse", T), T, 1e-13);
    /* The log-probability of a likely id is the difference of larger numbers. */
    for (int64_t n = 0; n < count; n++) sizes[n] = fabs(exact[n]) + 1.0;
    const foci_loss_args args = {.T = T,
                                 .V = V,
                                 .logits = logits,
                                 .logits_stride = V,
                                 .targets = targets,
                                 .nll = nll,
                                 .lse = lse,
                                 .log_probs = out,
                                 .log_probs_stride = V};
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_loss_op, &next));) {
        kernel->run(&args, 0, T);
        assert_near(g->name, nll, case_doubles(g, "nll", T), T);
        assert_near(g->name, lse, case_doubles(g, "lse", T), T);
        assert_roundings(g->name, out, case_doubles(g, "model", count), sizes, count, 4.0);
    }
    const foci_top_args find = {
        .T = T, .V = V, .logits = logits, .top = top, .ids = ids, .log_probs = best};
    assert_status(ctx, foci_top_log_probs(ctx, &find), FOCAL_OK);
    for (int32_t n = 0; n < T * top; n++)
        assert_int_equal(ids[n], (int32_t)case_doubles(g, "ids", (int64_t)T * top)[n]);
    for (int32_t n = 0; n < T * top; n++)
        assert_true(fabs((double)best[n] - case_doubles(g, "top", (int64_t)T * top)[n]) < 4e-6);
    next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_soft_cap_op, &next));) {
        memcpy(out, logits, (size_t)count * sizeof *out);
        const foci_soft_cap_args cap = {out, (float)p[3]};
        kernel->run(&cap, 0, count);
        assert_roundings(g->name, out, case_doubles(g, "capped", count), NULL, count, 4.0);
        assert_roundings(g->name, out, case_doubles(g, "capped_model", count), NULL, count, 6.0);
    }
    free(logits);
    free(out);
    free(exact);
    free(sizes);
}

static void agrees_with_pytorch(void **state)
{
    each_golden("loss_", 2, *state, check_golden);
}

/* A masked logit has probability 0; NaN, +inf and a row of -inf spoil their own row and no other.
 */
static void odd_rows(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 6, V = 37 };
    float x[T][V], out[T][V];
    double lse[T], nll[T];
    const int32_t targets[T] = {0, 5, 5, 5, 36, 5};
    for (int64_t n = 0; n < V; n++) {
        for (int row = 0; row < T; row++) x[row][n] = (float)(n % 7);
        x[0][n] = n == 0 ? 1.0F : -INFINITY; /* one id is left */
        x[3][n] = -INFINITY;
        x[5][n] = n % 2 ? 3e38F : -3e38F;
    }
    x[1][36] = NAN;
    x[2][3] = INFINITY;
    x[4][36] = -INFINITY;
    const foci_loss_args args = {.T = T,
                                 .V = V,
                                 .logits = x[0],
                                 .logits_stride = V,
                                 .targets = targets,
                                 .nll = nll,
                                 .lse = lse,
                                 .log_probs = out[0],
                                 .log_probs_stride = V};
    size_t next = 0;
    for (const foci_rows_kernel *kernel; (kernel = next_kernel(ctx, &foci_loss_op, &next));) {
        kernel->run(&args, 0, T);
        assert_true(out[0][0] == 0.0F && out[0][1] == -INFINITY && nll[0] == 0.0);
        for (int row = 1; row < 4; row++) {
            assert_true(isnan(lse[row]) && isnan(nll[row]));
            for (int64_t n = 0; n < V; n++) assert_true(isnan(out[row][n]));
        }
        assert_true(isfinite(lse[4]) && isinf(nll[4]) && nll[4] > 0.0 && isfinite(out[4][0]));
        assert_true(isfinite(lse[5]) && fabs(nll[5] - log(18.0)) < most_error);
    }
}

/* Few distinct values make many ties; the order is that of a stable sort. */
static void top_of_ties(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 4, V = 203, TOP = 100 };
    float x[T][V + 1], log_probs[T * TOP];
    int32_t ids[T * TOP + 1], expected[TOP];
    for (int64_t id = 0; id <= V; id++) {
        x[0][id] = (float)id;
        x[1][id] = -(float)id;
        x[2][id] = x[3][id] = (float)(id * 37 % 11);
    }
    for (int32_t top = 1; top <= TOP; top += 33) {
        const foci_top_args args = {.T = T,
                                    .V = V,
                                    .logits = x[0],
                                    .logits_stride = V + 1,
                                    .top = top,
                                    .ids = ids,
                                    .log_probs = log_probs};
        const int64_t end = (int64_t)T * top;
        ids[end] = -77;
        assert_status(ctx, foci_top_log_probs(ctx, &args), FOCAL_OK);
        assert_int_equal(ids[end], -77);
        for (int64_t t = 0; t < T; t++) {
            double *row = to_doubles(x[t], V);
            oracle_top(V, row, top, expected);
            assert_memory_equal(ids + t * top, expected, (size_t)top * sizeof *ids);
            const double lse = oracle_log_softmax(V, row, NULL);
            for (int32_t n = 0; n < top; n++)
                assert_true(fabs((double)log_probs[t * top + n] - (row[expected[n]] - lse)) < 1e-5);
            free(row);
        }
    }
    float odd[5] = {NAN, 1.0F, -INFINITY, 2.0F, NAN}; /* NaN is last, with its id */
    const foci_top_args args = {
        .T = 1, .V = 5, .logits = odd, .top = 5, .ids = ids, .log_probs = log_probs};
    assert_status(ctx, foci_top_log_probs(ctx, &args), FOCAL_OK);
    static const int32_t order[] = {3, 1, 0, 2, 4};
    assert_memory_equal(ids, order, sizeof order);
}

static void caps_match_oracle(void **state)
{
    focal_ctx *ctx = *state;
    static const int64_t counts[] = {1, 7, 8, 9, 15, 16, 17, 1000, 40000};
    for (size_t m = 0; m < FOCAL_COUNT(counts); m++) {
        const int64_t count = counts[m];
        const float cap = m % 2 ? 30.0F : 0.5F;
        float *x = new_normals(count, 40.0F, m), *got = new_array((size_t)count + 1, sizeof *got);
        float *plain = new_array((size_t)count, sizeof *plain);
        double *exact = to_doubles(x, count), *sizes = to_doubles(x, count);
        for (int64_t n = 0; n < count; n++) {
            x[n] *= powf(10.0F, -(float)(n % 9)); /* small ones too */
            plain[n] = plain_soft_cap(x[n], cap);
            exact[n] = (double)cap * tanh((double)x[n] / (double)cap);
            sizes[n] = fabs(exact[n]);
        }
        size_t next = 0;
        for (const foci_rows_kernel *kernel;
             (kernel = next_kernel(ctx, &foci_soft_cap_op, &next));) {
            memcpy(got, x, (size_t)count * sizeof *got);
            fill_nan(got + count, 1, FOCAL_F32);
            const foci_soft_cap_args args = {got, cap};
            kernel->run(&args, 0, count);
            const error_bound bound = {.name = kernel->name,
                                       .plain = plain,
                                       .exact = exact,
                                       .magnitude = sizes,
                                       .count = count,
                                       .factor = 2.0};
            assert_within(&bound, got);
            assert_true(is_fill_nan(got, (size_t)count, FOCAL_F32));
            note_ran("soft_cap", kernel->name);
        }
        void *blocks[] = {x, got, plain, exact, sizes};
        for (size_t n = 0; n < FOCAL_COUNT(blocks); n++) free(blocks[n]);
    }
    note_without("soft_cap", "avx512bf16");
    assert_ran("soft_cap", "ref");
    float odd[5] = {INFINITY, -INFINITY, NAN, 0.0F, -1e30F};
    assert_status(ctx, foci_soft_cap(ctx, odd, 5, 30.0F), FOCAL_OK);
    assert_true(odd[0] == 30.0F && odd[1] == -30.0F && isnan(odd[2]) && odd[3] == 0.0F);
    assert_true(odd[4] == -30.0F);
}

enum { MANY = 67, WIDE = 1031, BEST = 20 };

static void make_all(focal_ctx *ctx, const void *problem, void *out)
{
    const float *x = problem;
    float *log_probs = out, *best = log_probs + (int64_t)MANY * WIDE;
    int32_t *ids = (int32_t *)(best + (int64_t)MANY * BEST), targets[MANY];
    double *lse = new_array(MANY, sizeof *lse), *nll = new_array(MANY, sizeof *nll);
    for (int t = 0; t < MANY; t++) targets[t] = t;
    const foci_top_args top = {
        .T = MANY, .V = WIDE, .logits = x, .top = BEST, .ids = ids, .log_probs = best};
    assert_status(ctx, foci_top_log_probs(ctx, &top), FOCAL_OK);
    const foci_loss_args args = {.T = MANY,
                                 .V = WIDE,
                                 .logits = x,
                                 .targets = targets,
                                 .lse = lse,
                                 .nll = nll,
                                 .log_probs = log_probs};
    assert_status(ctx, foci_log_softmax_rows(ctx, &args), FOCAL_OK);
    assert_status(ctx, foci_soft_cap(ctx, log_probs, (int64_t)MANY * WIDE, 7.0F), FOCAL_OK);
    memcpy(ids + (int64_t)MANY * BEST, lse, MANY * sizeof *lse);
    memcpy(ids + (int64_t)MANY * BEST + 2 * (int64_t)MANY, nll, MANY * sizeof *nll);
    free(lse);
    free(nll);
}

static void same_bits_at_any_thread_count(void **state)
{
    (void)state;
    float *x = new_normals((int64_t)MANY * WIDE, 3.0F, 5);
    assert_same_bits("loss", 4 * (size_t)MANY * (WIDE + 2 * BEST + 4), x, make_all);
    free(x);
}

/* The only operation here that needs memory. */
static void memory_runs_out(void **state)
{
    (void)state;
    focal_ctx *ctx = new_ctx(2);
    float x[32] = {1.0F}, log_probs[4];
    int32_t ids[4];
    const foci_top_args args = {
        .T = 2, .V = 16, .logits = x, .top = 2, .ids = ids, .log_probs = log_probs};
    int64_t failed = 0;
    for (int64_t n = 1;; n++) {
        focal_ctx_trim(ctx);
        const int64_t live = memory_live_blocks();
        memory_fail(n, true);
        const focal_status status = foci_top_log_probs(ctx, &args);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        assert_status(ctx, status, was_reached ? FOCAL_ENOMEM : FOCAL_OK);
        focal_ctx_trim(ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (!was_reached) break;
        failed++;
    }
    assert_true(failed > 0);
    focal_ctx_close(ctx);
    assert_int_equal(memory_live_blocks(), 0);
}

static void assert_bad(focal_ctx *ctx, foci_loss_args args, const char *text)
{
    assert_status(ctx, foci_log_softmax_rows(ctx, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), text);
}

static void bad_calls(void **state)
{
    focal_ctx *ctx = *state;
    float x[32] = {0}, out[32];
    double nll[2];
    int32_t targets[2] = {0, 8}, ids[200];
    const foci_loss_args good = {.T = 2, .V = 8, .logits = x, .log_probs = out};
    foci_loss_args bad = good;
    assert_status(ctx, foci_log_softmax_rows(ctx, &good), FOCAL_OK);
    assert_int_equal(foci_log_softmax_rows(NULL, &good), FOCAL_EINVAL);
    bad.log_probs = NULL;
    assert_bad(ctx, bad, "loss: logits and a place for results must be set");
    bad = good;
    bad.nll = nll;
    assert_bad(ctx, bad, "loss: nll needs targets");
    bad.targets = targets;
    fill_nan(out, 32, FOCAL_F32);
    assert_bad(ctx, bad, "loss: the target of row 1 is 8, it must be -1 or below 8");
    assert_true(is_fill_nan(out, 0, FOCAL_F32));
    targets[1] = -2;
    assert_bad(ctx, bad, "loss: the target of row 1 is -2, it must be -1 or below 8");
    bad = good;
    bad.T = 0;
    assert_bad(ctx, bad, "loss: 0 rows of 8: both must be at least 1");
    bad = good;
    bad.logits_stride = 7;
    assert_bad(ctx, bad, "loss: logits: a stride of 7 does not fit 2 rows of 8");
    bad = good;
    bad.log_probs = x;
    bad.log_probs_stride = 9;
    assert_bad(ctx, bad, "loss: in place, out must be f32 with the stride 8 of its input");

    foci_top_args top = {.T = 2, .V = 8, .logits = x, .top = 9, .ids = ids, .log_probs = out};
    assert_status(ctx, foci_top_log_probs(ctx, &top), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "top: 9 of 8 logits asked for, it must be 1 to 8");
    top.V = 1000;
    top.top = 101;
    assert_status(ctx, foci_top_log_probs(ctx, &top), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "top: 101 of 1000 logits asked for, it must be 1 to 100");
    top = (foci_top_args){.T = -3, .V = 8, .logits = x, .top = 2, .ids = ids, .log_probs = out};
    assert_status(ctx, foci_top_log_probs(ctx, &top), FOCAL_EINVAL);
    top.ids = NULL;
    assert_status(ctx, foci_top_log_probs(ctx, &top), FOCAL_EINVAL);

    assert_status(ctx, foci_soft_cap(ctx, x, 4, 0.0F), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "soft_cap: the cap is 0, it must be above 0");
    assert_status(ctx, foci_soft_cap(ctx, x, -1, 1.0F), FOCAL_EINVAL);
    assert_status(ctx, foci_soft_cap(ctx, NULL, 1, 1.0F), FOCAL_EINVAL);
    assert_status(ctx, foci_soft_cap(ctx, x, 0, 1.0F), FOCAL_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(agrees_with_pytorch, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_rows, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(top_of_ties, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(caps_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test(same_bits_at_any_thread_count),
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test_setup_teardown(bad_calls, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("loss", tests, NULL, NULL);
}
