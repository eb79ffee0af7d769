/* The optimiser of a model in training: what it moves, what it leaves, and clipping. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/bench.h"
#include "train/optimiser.h"

static const foci_optimiser_options adamw = {
    .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .momentum = 0.95, .decay = 0.1, .clip = 1.0};

static foci_trainable *new_trainable(focal_ctx *ctx, focal_dtype precision)
{
    const foci_shape shape = {.family = foci_family_of_hf("qwen3"),
                              .L = 2,
                              .C = 32,
                              .H = 4,
                              .G = 2,
                              .D = 8,
                              .F = 48,
                              .V = 96,
                              .context = 64,
                              .rope_base = 10000.0,
                              .is_tied = true};
    const foci_trainable_options options = {.precision = precision, .has_fixed_qk_gains = true};
    foci_config config;
    foci_trainable *t = NULL;
    assert_status(ctx, foci_config_new(ctx, &shape, &config), FOCAL_OK);
    assert_status(ctx, foci_trainable_new(ctx, &config, 3, &options, &t), FOCAL_OK);
    return t;
}

static void set_gradients(foci_trainable *t, float value)
{
    for (int32_t n = 0; n < t->param_count; n++) {
        const foci_param *param = &t->params[n];
        for (int64_t i = 0; param->gradient && i < param->rows * param->cols; i++)
            param->gradient[i] = value;
    }
}

static int64_t trained_count(const foci_trainable *t)
{
    int64_t count = 0;
    for (int32_t n = 0; n < t->param_count; n++)
        if (t->params[n].gradient) count += t->params[n].rows * t->params[n].cols;
    return count;
}

/* The first step of AdamW is rate times the sign of the gradient, and matrices decay. */
static void first_step_is_the_sign(void **state)
{
    focal_ctx *ctx = *state;
    foci_trainable *t = new_trainable(ctx, FOCAL_BF16);
    foci_optimiser *o = NULL;
    foci_gradient_norm norm;
    float *before = new_array(t->weight_count, sizeof *before);
    memcpy(before, t->weights, t->weight_count * sizeof *before);
    assert_status(ctx, foci_optimiser_new(t, &adamw, &o), FOCAL_OK);
    set_gradients(t, 0.5F);
    assert_status(ctx, foci_optimiser_norm(o, &norm), FOCAL_OK);
    assert_true(fabs(norm.norm - 0.5 * sqrt((double)trained_count(t))) < 1e-9 * norm.norm);
    assert_int_equal(norm.odd_count, 0);
    assert_status(ctx, foci_optimiser_step(o, 0.01, norm.norm), FOCAL_OK);
    assert_int_equal(o->steps, 1);
    for (int32_t n = 0; n < t->param_count; n++) {
        const foci_param *param = &t->params[n];
        const float *was = before + (param->weights - t->weights);
        for (int64_t i = 0; i < param->rows * param->cols; i++) {
            const double decay = param->is_matrix ? 0.1 : 0.0;
            const double move = param->gradient ? 0.01 * (1.0 + decay * (double)was[i]) : 0.0;
            if (fabs((double)param->weights[i] - ((double)was[i] - move)) > 1e-6)
                fail_msg("%s, element %lld: %g from %g", param->name, (long long)i,
                         (double)param->weights[i], (double)was[i]);
            if (param->gradient) assert_true(param->gradient[i] == 0.0F);
            if (param->rounded)
                assert_int_equal(param->rounded[i], focal_bf16_from_float(param->weights[i]));
        }
    }
    free(before);
    foci_optimiser_free(o);
    foci_trainable_free(t);
}

/* Gradients beyond the limit act like those of its size; what a step scales away is not seen by
 * AdamW, so its moments are looked at. */
static void gradients_are_clipped(void **state)
{
    focal_ctx *ctx = *state;
    foci_trainable *t = new_trainable(ctx, FOCAL_F32);
    foci_optimiser *o = NULL;
    foci_gradient_norm norm;
    assert_status(ctx, foci_optimiser_new(t, &adamw, &o), FOCAL_OK);
    set_gradients(t, 3.0F);
    assert_status(ctx, foci_optimiser_norm(o, &norm), FOCAL_OK);
    assert_status(ctx, foci_optimiser_step(o, 0.01, norm.norm), FOCAL_OK);
    const double expected = 0.1 / sqrt((double)trained_count(t)); /* (1 - beta1) g */
    assert_true(fabs((double)o->first[0] - expected) < 1e-6 * expected);
    set_gradients(t, 1e-4F); /* below the limit: as they are */
    assert_status(ctx, foci_optimiser_norm(o, &norm), FOCAL_OK);
    assert_true(norm.norm < 1.0);
    assert_status(ctx, foci_optimiser_step(o, 0.01, norm.norm), FOCAL_OK);
    const double next = 0.9 * expected + 0.1 * 1e-4;
    assert_true(fabs((double)o->first[0] - next) < 1e-6 * next);
    foci_optimiser_free(o);
    foci_trainable_free(t);
}

static void odd_gradients_are_counted(void **state)
{
    focal_ctx *ctx = *state;
    foci_trainable *t = new_trainable(ctx, FOCAL_F32);
    foci_optimiser *o = NULL;
    foci_gradient_norm norm;
    assert_status(ctx, foci_optimiser_new(t, &adamw, &o), FOCAL_OK);
    set_gradients(t, 0.0F);
    t->params[0].gradient[5] = NAN;
    t->params[1].gradient[0] = INFINITY;
    assert_status(ctx, foci_optimiser_norm(o, &norm), FOCAL_OK);
    assert_int_equal(norm.odd_count, 2);
    foci_optimiser_skip(o);
    assert_status(ctx, foci_optimiser_norm(o, &norm), FOCAL_OK);
    assert_int_equal(norm.odd_count, 0);
    assert_int_equal(o->steps, 0);
    foci_optimiser_free(o);
    foci_trainable_free(t);
}

/* Both optimisers, both precisions and all levels bring the loss of one batch down. */
static void loss_falls(void **state)
{
    focal_ctx *ctx = *state;
    for (int form = 0; form < 12; form++) {
        const focal_train_shape shape = {.layers = 2,
                                         .width = 32,
                                         .ffn = 64,
                                         .vocab = 96,
                                         .heads = 4,
                                         .kv_heads = 2,
                                         .length = 16,
                                         .batch = 3,
                                         .dtype = form % 2 ? FOCAL_BF16 : FOCAL_F32,
                                         .recompute = form / 2 % 3,
                                         .has_muon = form / 6 == 1,
                                         .seed = 5};
        focal_train_bench *bench = NULL;
        double first = 0.0, last = 0.0;
        assert_status(ctx, focal_train_bench_new(ctx, &shape, &bench), FOCAL_OK);
        assert_status(ctx, focal_train_bench_step(bench, &first), FOCAL_OK);
        for (int n = 0; n < 40; n++)
            assert_status(ctx, focal_train_bench_step(bench, &last), FOCAL_OK);
        assert_true(fabs(first - log(96.0)) < 0.2);
        if (!(last < first - 1.0))
            fail_msg("form %d: the loss goes from %g to %g", form, first, last);
        const focal_train_cost cost = focal_train_bench_cost(bench);
        assert_int_equal(cost.tokens, 48);
        assert_int_equal(cost.parameter_count,
                         96 * 32 + 2 * (3 * 32 * 32 + 3 * 32 * 64 + 2 * 32 + 16) + 32);
        assert_true(cost.flops > 6.0 * 48 * (96 * 32 + 2 * (3 * 32 * 32 + 3 * 32 * 64)));
        focal_train_bench_free(bench);
    }
}

static void refuses_no_models(void **state)
{
    focal_ctx *ctx = *state;
    const focal_train_shape good = {.layers = 1,
                                    .width = 16,
                                    .ffn = 16,
                                    .vocab = 16,
                                    .heads = 2,
                                    .length = 4,
                                    .batch = 1,
                                    .dtype = FOCAL_F32};
    focal_train_bench *bench = NULL;
    focal_train_shape bad[6] = {good, good, good, good, good, good};
    bad[0].layers = 0;
    bad[1].kv_heads = 3;
    bad[2].length = 0;
    bad[3].recompute = 3;
    bad[4].dtype = FOCAL_Q8_0;
    bad[5].head_width = 7; /* rotation needs pairs */
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        assert_status(ctx, focal_train_bench_new(ctx, &bad[n], &bench), FOCAL_EINVAL);
        assert_null(bench);
    }
    bool has_failed = true;
    for (int64_t n = 1; has_failed; n++) {
        double loss;
        focal_ctx_trim(ctx);
        memory_fail(n, true);
        focal_status status = focal_train_bench_new(ctx, &good, &bench);
        if (status == FOCAL_OK) status = focal_train_bench_step(bench, &loss);
        memory_fail(0, false);
        has_failed = status != FOCAL_OK;
        if (has_failed) assert_status(ctx, status, FOCAL_ENOMEM);
        focal_train_bench_free(bench);
        bench = NULL;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_step_is_the_sign, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gradients_are_clipped, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_gradients_are_counted, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(loss_falls, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(refuses_no_models, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
