/* Products of many rows that share x, alone and joined by a gate: the bits of one after the other
 * and of foci_gate() behind them, at any thread count and however rows are cut; and the gate
 * against the definition, where no kernel joins them too. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/ctx.h"
#include "ops/gated.h"
#include "ops/matmul/matmul_kernels.h"
#include "ops/mlp/gate.h"
#include "support/matmul_cases.h"
#include "support/oracle_ops.h"

/* clang-format off */
static const matmul_spec specs[] = {
    {.M = 65, .N = 33, .K = 64},
    {.M = 76, .N = 64, .K = 577, .has_bias = true},
    {.M = 83, .N = 31, .K = 90, .x = FOCAL_BF16, .w = FOCAL_BF16, .out = FOCAL_BF16},
    {.M = 70, .N = 97, .K = 91, .x = FOCAL_BF16, .w = FOCAL_BF16, .has_bias = true},
    {.M = 100, .N = 200, .K = 576, .x = FOCAL_BF16, .w = FOCAL_Q4_1, .out = FOCAL_BF16},
    {.M = 68, .N = 40, .K = 1536, .x = FOCAL_BF16, .w = FOCAL_Q6_K, .x_gap = 2, .out_gap = 5},
    {.M = 72, .N = 20, .K = 64, .x = FOCAL_BF16, .w = FOCAL_Q8_0, .x_gap = 1}, /* no whole words */
    {.M = 66, .N = 50, .K = 2048, .x = FOCAL_BF16, .w = FOCAL_BF16}, /* rows share a set */
    {.M = 140, .N = 200, .K = 576, .x = FOCAL_BF16, .w = FOCAL_Q4_1, .rounds = true},
    {.M = 133, .N = 41, .K = 512, .x = FOCAL_BF16, .w = FOCAL_Q4_K, .has_bias = true, .rounds = true},
    {.M = 80, .N = 35, .K = 40, .w = FOCAL_F16, .is_transposed = true, .out = FOCAL_BF16},
    {.M = 1100, .N = 17, .K = 33, .w = FOCAL_BF16, .has_bias = true}, /* two blocks of rows */
};
/* clang-format on */

enum { MOST = 3, ACTIVATIONS = FOCI_GELU_TANH + 1 };

/* Several cases of one x. */
typedef struct shared_cases {
    matmul_case *c[MOST];
    foci_matmul_args args[MOST];
} shared_cases;

static shared_cases share(const matmul_spec *spec, bool is_mixed)
{
    shared_cases s;
    for (int n = 0; n < MOST; n++) {
        matmul_spec own = *spec;
        if (is_mixed) {
            own.N += (int64_t)13 * n;
            own.has_bias = n == 1;
            own.adds = n == 2;
            if (n == 1 && !own.is_transposed) own.w = own.rounds ? FOCAL_Q5_0 : FOCAL_F16;
        }
        s.c[n] = matmul_case_new(&own, (uint64_t)n + 1);
        s.args[n] = s.c[n]->args;
        s.args[n].x = s.args[0].x;
    }
    return s;
}

static void free_shared(shared_cases *s)
{
    for (int n = 0; n < MOST; n++) matmul_case_free(s->c[n]);
}

static void several_are_one_by_one(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t i = 0; i < FOCAL_COUNT(specs); i++) {
        shared_cases s = share(&specs[i], true);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
            if (!kernel->run_many || !kernel->can(ctx, s.args)) continue;
            char *alone[MOST];
            for (int k = 0; k < MOST; k++) {
                matmul_case_clear(s.c[k]);
                assert_status(ctx, kernel->run(ctx, &s.args[k]), FOCAL_OK);
                alone[k] = new_array(s.c[k]->out_bytes, 1);
                memcpy(alone[k], s.c[k]->out, s.c[k]->out_bytes);
                matmul_case_clear(s.c[k]);
            }
            assert_status(ctx, kernel->run_many(ctx, s.args, MOST, NULL), FOCAL_OK);
            for (int k = 0; k < MOST; k++) {
                assert_memory_equal(alone[k], s.c[k]->out, s.c[k]->out_bytes);
                free(alone[k]);
            }
            note_ran("several", kernel->name);
        }
        for (int k = 0; k < MOST; k++) matmul_case_clear(s.c[k]);
        assert_status(ctx, foci_matmul_several(ctx, s.args, MOST), FOCAL_OK);
        if (matmul_case_is_for(s.c[0], foci_matmul_pick(ctx, s.args)))
            matmul_case_check(s.c[0], "several");
        free_shared(&s);
    }
}

/* The gate's kernel on the instruction set of a product's. */
static const foci_rows_kernel *gate_of(const char *name)
{
    if (strcmp(name, "amx") == 0) name = "avx512"; /* finishes in vectors */
    for (size_t n = 0; n < foci_gate_op.kernel_count; n++) {
        const char *own = foci_gate_op.kernels[n].name;
        if (strncmp(name, own, strlen(own)) == 0) return &foci_gate_op.kernels[n];
    }
    fail_msg("no gate for %s", name);
    return NULL;
}

/* The products to float32, then the gate, into out of the first case. */
static void run_apart(focal_ctx *ctx, const foci_matmul_kernel *kernel, shared_cases *s, int count,
                      foci_activation activation)
{
    const int64_t M = s->args->M, N = s->args->N;
    float *sums[2];
    for (int n = 0; n < count; n++) {
        foci_matmul_args a = s->args[n];
        sums[n] = new_array((size_t)(M * N), sizeof(float));
        a.out = sums[n];
        a.out_dtype = FOCAL_F32;
        a.out_stride = N;
        assert_status(ctx, kernel->run(ctx, &a), FOCAL_OK);
    }
    const foci_gate_args args = {.activation = activation,
                                 .T = (int32_t)M,
                                 .F = (int32_t)N,
                                 .gate = sums[0],
                                 .up = count > 1 ? sums[1] : NULL,
                                 .out = s->args->out,
                                 .out_dtype = s->args->out_dtype,
                                 .out_stride = s->args->out_stride};
    foci_gate_args normal;
    assert_status(ctx, foci_gate_normalise(ctx, &args, &normal), FOCAL_OK);
    gate_of(kernel->name)->run(&normal, 0, M);
    for (int n = 0; n < count; n++) free(sums[n]);
}

/* In one call and, rows being rows, in two; with 1 to 7 threads. */
static void check_joined(const foci_matmul_kernel *kernel, shared_cases *s, int count,
                         const foci_activation *activation, const char *apart)
{
    static const int32_t threads[] = {1, 2, 3, 7};
    for (size_t t = 0; t < FOCAL_COUNT(threads); t++) {
        focal_ctx *ctx = new_ctx(threads[t]);
        matmul_case_clear(s->c[0]);
        assert_status(ctx, kernel->run_many(ctx, s->args, count, activation), FOCAL_OK);
        assert_memory_equal(apart, s->c[0]->out, s->c[0]->out_bytes);
        focal_ctx_close(ctx);
    }
    focal_ctx *ctx = new_ctx(2);
    const int64_t half = s->args->M / 2 + 1;
    matmul_case_clear(s->c[0]);
    for (int64_t row = 0; row < s->args->M; row += half) {
        foci_matmul_args part[2] = {s->args[0], s->args[1]};
        for (int n = 0; n < count; n++) {
            part[n].M = row + half > s->args->M ? s->args->M - row : half;
            part[n].x = (const char *)part[n].x +
                        (size_t)(row * part[n].x_stride) * focal_dtype_bytes(part[n].x_dtype);
        }
        part[0].out = (char *)part[0].out +
                      (size_t)(row * part[0].out_stride) * focal_dtype_bytes(part[0].out_dtype);
        assert_status(ctx, kernel->run_many(ctx, part, count, activation), FOCAL_OK);
    }
    assert_memory_equal(apart, s->c[0]->out, s->c[0]->out_bytes);
    focal_ctx_close(ctx);
}

static void joined_has_the_bits_of_apart(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t i = 0; i < FOCAL_COUNT(specs); i++) {
        shared_cases s = share(&specs[i], false);
        char *apart = new_array(s.c[0]->out_bytes, 1);
        for (size_t n = 0; n < foci_matmul_kernel_count; n++) {
            const foci_matmul_kernel *kernel = foci_matmul_kernels[n];
            if (!kernel->run_many || !kernel->can(ctx, s.args)) continue;
            for (int kind = 0; kind < 2 * ACTIVATIONS; kind++) {
                const foci_activation activation = (foci_activation)(kind / 2);
                const int count = 1 + kind % 2;
                matmul_case_clear(s.c[0]);
                run_apart(ctx, kernel, &s, count, activation);
                memcpy(apart, s.c[0]->out, s.c[0]->out_bytes);
                check_joined(kernel, &s, count, &activation, apart);
            }
            note_ran("gated", kernel->name);
        }
        free(apart);
        free_shared(&s);
    }
}

/* The whole call against the definition, from sums of the reference: rows that are few or many,
 * kernels that join and those that do not. */
static void gate_is_what_it_says(void **state)
{
    (void)state;
    static const char *const pins[] = {NULL, "ref", "avx2"};
    static const int64_t rows[] = {1, 64, 70, 300};
    for (size_t i = 0; i < FOCAL_COUNT(pins) * FOCAL_COUNT(rows) * 4; i++) {
        const focal_ctx_options options = {
            .threads = 2, .kernel = pins[i % 3], .allocator = memory_allocator()};
        focal_ctx *ctx = NULL;
        matmul_spec spec = {.M = rows[i / 3 % 4], .N = 37, .K = 64, .has_bias = true, .out_gap = 3};
        spec.x = spec.out = i / 12 % 2 == 0 ? FOCAL_F32 : FOCAL_BF16;
        spec.w = FOCAL_Q4_1;
        const int count = i / 24 % 2 == 0 ? 2 : 1;
        if (focal_ctx_open(&options, &ctx, NULL) != FOCAL_OK) continue;
        shared_cases s = share(&spec, false);
        float *sums[2];
        for (int n = 0; n < 2; n++) {
            foci_matmul_args a = s.args[n];
            sums[n] = new_array((size_t)(a.M * a.N), sizeof(float));
            a.out = sums[n];
            a.out_dtype = FOCAL_F32;
            a.out_stride = a.N;
            assert_status(ctx, foci_matmul_ref.run(ctx, &a), FOCAL_OK);
        }
        matmul_case_clear(s.c[0]);
        assert_status(ctx, foci_matmul_gated(ctx, s.args, count, FOCI_SILU), FOCAL_OK);
        for (int64_t n = 0; n < spec.M * spec.N; n++) {
            const double gate = (double)sums[0][n], up = count > 1 ? (double)sums[1][n] : 1.0;
            const double exact = oracle_activation(FOCI_SILU, gate) * up;
            const int64_t at = n / spec.N * s.args->out_stride + n % spec.N;
            const double got = (double)element_get(s.c[0]->out, at, spec.out);
            const double allowed = 1e-4 * (1.0 + fabs(gate)) * (1.0 + fabs(up)) +
                                   (spec.out == FOCAL_BF16 ? fabs(exact) / 256.0 : 0.0);
            if (!(fabs(got - exact) <= allowed))
                fail_msg("%zu: element %lld is %g, exact %g", i, (long long)n, got, exact);
        }
        for (int n = 0; n < 2; n++) free(sums[n]);
        free_shared(&s);
        focal_ctx_close(ctx);
    }
}

static void bad_gates_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    shared_cases s = share(&specs[0], false);
    foci_matmul_args *a = s.args;
    assert_status(ctx, foci_matmul_gated(ctx, a, 0, FOCI_SILU), FOCAL_EINVAL);
    assert_status(ctx, foci_matmul_gated(ctx, a, 3, FOCI_SILU), FOCAL_EINVAL);
    assert_status(ctx, foci_matmul_gated(ctx, a, 2, (foci_activation)9), FOCAL_EINVAL);
    assert_int_equal(foci_matmul_gated(NULL, a, 2, FOCI_SILU), FOCAL_EINVAL);
    a[1].N--;
    assert_status(ctx, foci_matmul_gated(ctx, a, 2, FOCI_SILU), FOCAL_EINVAL);
    a[1] = s.c[1]->args; /* another x */
    assert_status(ctx, foci_matmul_gated(ctx, a, 2, FOCI_SILU), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "33 outputs"));
    a[1].x = a[0].x;
    a[0].adds = true;
    assert_status(ctx, foci_matmul_gated(ctx, a, 2, FOCI_SILU), FOCAL_EINVAL);
    a[0].adds = false;
    assert_status(ctx, foci_matmul_gated(ctx, a, 2, FOCI_SILU), FOCAL_OK);
    free_shared(&s);
}

/* The n-th request fails, for every n until none does. */
static void memory_may_run_out_anywhere(void **state)
{
    focal_ctx *ctx = *state;
    static const matmul_spec shapes[] = {
        {.M = 5, .N = 40, .K = 64, .w = FOCAL_Q4_1}, /* apart */
        {.M = 80, .N = 40, .K = 64, .w = FOCAL_Q4_1},
        {.M = 80, .N = 40, .K = 33, .x = FOCAL_BF16}, /* x is packed */
    };
    for (size_t i = 0; i < FOCAL_COUNT(shapes); i++) {
        shared_cases s = share(&shapes[i], false);
        focal_status status = FOCAL_ENOMEM;
        for (int64_t n = 1; status != FOCAL_OK; n++) {
            assert_true(n < 100);
            focal_ctx_trim(ctx);
            const int64_t live = memory_live_blocks();
            memory_fail(n, true);
            status = foci_matmul_gated(ctx, s.args, 2, FOCI_SILU);
            memory_fail(0, false);
            focal_ctx_trim(ctx);
            assert_int_equal(memory_live_blocks(), live);
            if (status != FOCAL_OK) assert_status(ctx, status, FOCAL_ENOMEM);
            assert_true(n > 1 || status == FOCAL_ENOMEM);
        }
        free_shared(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(several_are_one_by_one, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(joined_has_the_bits_of_apart, open_ctx, close_ctx),
        cmocka_unit_test(gate_is_what_it_says),
        cmocka_unit_test_setup_teardown(bad_gates_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("matmul_gated", tests, NULL, NULL);
}
