/* The controls beside routers, where something of them learns: the gradient is the slope of the
 * loss, the loss is that of the model as it runs with the control, and the groups' own numbers are
 * all that there is to move. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/adapter.h"
#include "model/backward.h"
#include "ops/loss/loss.h"
#include "support/golden.h"

enum { TOKENS = 48, FIRST = 30, GROUPS = 4, WINDOW = 5, SINKS = 2 };

static const double row_scale = 1.0 / (TOKENS - 2);
static const foci_span spans[] = {{0, FIRST}, {FIRST, TOKENS - FIRST}};

typedef struct fixture {
    focal_ctx *ctx;
    focal_model *model;
    foci_groups *groups;
    foci_trainable *t;
    int32_t ids[TOKENS], targets[TOKENS];
} fixture;

static void read_text(const char *name, fixture *f)
{
    char path[512];
    (void)snprintf(path, sizeof path, "models/%s/expected", name);
    golden *g = golden_open(path);
    const double *ids = golden_get(&g->cases[0], "ids", TOKENS);
    for (int n = 0; n < TOKENS; n++) f->ids[n] = (int32_t)ids[n];
    for (int n = 0; n < TOKENS; n++)
        f->targets[n] = n == FIRST - 1 || n == TOKENS - 1 ? FOCI_LOSS_NO_TARGET : f->ids[n + 1];
    golden_close(g);
}

/* A control in all layers whose attention is global, with numbers that are not 0. */
static fixture open_fixture(const char *name, foci_groups_source source, focal_dtype precision,
                            int32_t threads)
{
    fixture f = {.ctx = new_ctx(threads)};
    char path[512];
    const focal_model_options options = {.precision = precision, .has_precision = true};
    (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, name);
    assert_status(f.ctx, focal_model_open(f.ctx, path, &options, &f.model), FOCAL_OK);
    const foci_config *c = &f.model->config;
    foci_groups_shape shape = {.L = c->L,
                               .C = c->C,
                               .H = c->H,
                               .G = c->G,
                               .K = source == FOCI_GROUPS_RANDOM ? GROUPS : 1,
                               .R = 1,
                               .routers = source == FOCI_GROUPS_RANDOM ? c->G : 1,
                               .seed = source == FOCI_GROUPS_RANDOM ? 3 : 0,
                               .source = source,
                               .has_temperatures = true};
    for (int32_t n = 0; n < c->L; n++) shape.layers[n] = !c->is_local[n];
    assert_status(f.ctx, foci_groups_new(f.ctx, &shape, &f.groups), FOCAL_OK);
    f.groups->window = WINDOW;
    f.groups->sinks = SINKS;
    f.groups->top = source == FOCI_GROUPS_RANDOM ? 2 : 0;
    for (int64_t n = 0; n < f.groups->number_count; n++)
        f.groups->numbers[n] = (float)(0.25 * sin(1.7 * (double)n + 0.6));
    if (f.groups->log_scale) *f.groups->log_scale = 0.35F; /* distant logits grow */
    assert_status(f.ctx, foci_trainable_frozen(f.model, f.groups, &f.t), FOCAL_OK);
    read_text(name, &f);
    return f;
}

static void close_fixture(fixture *f)
{
    foci_trainable_free(f->t);
    foci_groups_free(f->ctx, f->groups);
    focal_model_close(f->model);
    focal_ctx_close(f->ctx);
}

static foci_batch_loss call(const fixture *f, const foci_backward_options *options)
{
    foci_batch_loss loss;
    const foci_batch batch = {
        .T = TOKENS, .ids = f->ids, .targets = f->targets, .span_count = 2, .spans = spans};
    memset(f->t->gradients, 0, f->t->gradient_count * sizeof *f->t->gradients);
    assert_status(f->ctx, foci_backward(f->t, &batch, options, &loss), FOCAL_OK);
    assert_int_equal(loss.targets, TOKENS - 2);
    return loss;
}

static double loss_of(const fixture *f, const foci_backward_options *options)
{
    const foci_batch_loss loss = call(f, options);
    return (options->is_kl ? loss.kl : loss.nll) * row_scale;
}

static const struct {
    const char *name, *model;
    foci_groups_source source;
    bool is_kl;
} controls[] = {
    {"random groups", "llama", FOCI_GROUPS_RANDOM, true},
    {"random groups, windows", "gemma2", FOCI_GROUPS_RANDOM, false},
    {"window alone", "llama", FOCI_GROUPS_NONE, true},
    {"window alone, text", "qwen3", FOCI_GROUPS_NONE, false},
    {"window alone, windows", "gemma2", FOCI_GROUPS_NONE, true},
    {"scale", "llama", FOCI_GROUPS_SCALE, false},
    {"scale, query-key norm", "qwen3", FOCI_GROUPS_SCALE, true},
    {"scale, windows and soft-cap", "gemma2", FOCI_GROUPS_SCALE, false},
};

/* Each number for itself: there are few. Differences of float32 losses are good to about 1e-3. */
static void gradient_is_the_slope(void **state)
{
    (void)state;
    for (size_t c = 0; c < FOCAL_COUNT(controls); c++) {
        /* a scale bends the loss more than temperatures do */
        const double step = controls[c].source == FOCI_GROUPS_SCALE ? 0.004 : 0.02;
        fixture f = open_fixture(controls[c].model, controls[c].source, FOCAL_F32, 2);
        const foci_groups_pass pass = {.top = 2};
        const foci_backward_options options = {
            .scale = row_scale, .groups = &pass, .is_kl = controls[c].is_kl};
        const foci_backward_options forward = {
            .is_loss_only = true, .groups = &pass, .is_kl = controls[c].is_kl};
        (void)call(&f, &options);
        double largest = 0.0;
        float *gradients = new_array(f.t->gradient_count, sizeof *gradients);
        memcpy(gradients, f.t->gradients, f.t->gradient_count * sizeof *gradients);
        for (size_t n = 0; n < f.t->gradient_count; n++)
            largest = fmax(largest, fabs((double)gradients[n]));
        assert_true(largest > 1e-4);
        for (int32_t n = 0; n < f.t->param_count; n++) {
            const foci_param *param = &f.t->params[n];
            for (int64_t i = 0; i < param->rows * param->cols; i++) {
                const float here = param->weights[i];
                double sides[2];
                for (int side = 0; side < 2; side++) {
                    param->weights[i] = (float)((double)here + (side == 0 ? -step : step));
                    sides[side] = loss_of(&f, &forward);
                }
                param->weights[i] = here;
                const double slope = (sides[1] - sides[0]) / (2.0 * step);
                const double gradient = (double)gradients[param->gradient - f.t->gradients + i];
                if (!(fabs(slope - gradient) < 2e-3 * largest + 2e-5))
                    fail_msg("%s, %s[%d]: gradient %.6g, slope %.6g", controls[c].name, param->name,
                             (int)i, gradient, slope);
            }
        }
        free(gradients);
        close_fixture(&f);
    }
}

/* The sum of the losses of both texts, read in calls of `step` tokens with the adapter attached. */
static double run_model(fixture *f, int step)
{
    static char path[] = "controls";
    focal_adapter adapter = {.ctx = f->ctx, .path = path, .groups = f->groups};
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = FOCAL_F32, .has_dtype = true, .sequences = 2};
    double sum = 0.0;
    (void)snprintf(adapter.fingerprint, sizeof adapter.fingerprint, "%s",
                   focal_model_fingerprint(f->model));
    assert_status(f->ctx, focal_model_attach(f->model, &adapter, NULL), FOCAL_OK);
    assert_status(f->ctx, focal_cache_new(f->model, &options, &cache), FOCAL_OK);
    for (int s = 0; s < 2; s++)
        for (int done = 0; done < spans[s].count; done += step) {
            const int count = done + step < spans[s].count ? step : spans[s].count - done;
            const int first = spans[s].start + done;
            double nll[TOKENS];
            const focal_batch_item item = {s, count, f->ids + first, 0};
            const focal_forward_args args = {
                .item_count = 1, .items = &item, .targets = f->targets + first, .nll = nll};
            assert_status(f->ctx, focal_forward(f->model, cache, &args), FOCAL_OK);
            for (int n = 0; n < count; n++)
                if (f->targets[first + n] != FOCI_LOSS_NO_TARGET) sum += nll[n];
        }
    focal_cache_free(cache);
    assert_status(f->ctx, focal_model_attach(f->model, NULL, NULL), FOCAL_OK);
    return sum;
}

static void loss_is_that_of_the_model_as_it_runs(void **state)
{
    (void)state;
    static const int steps[] = {TOKENS, 7, 1};
    for (size_t c = 0; c < FOCAL_COUNT(controls); c++) {
        fixture f = open_fixture(controls[c].model, controls[c].source, FOCAL_F32, 2);
        const foci_groups_pass pass = {.top = 2};
        const foci_backward_options with = {.is_loss_only = true, .groups = &pass};
        const foci_backward_options without = {.is_loss_only = true};
        const double fitted = call(&f, &with).nll, dense = call(&f, &without).nll;
        assert_true(fabs(fitted - dense) > 1e-4 * dense); /* it does something */
        for (size_t n = 0; n < FOCAL_COUNT(steps); n++) {
            const double run = run_model(&f, steps[n]);
            if (!(fabs(run - fitted) < 1e-5 * fitted))
                fail_msg("%s in calls of %d: %.9g, fitted with %.9g", controls[c].name, steps[n],
                         run, fitted);
        }
        close_fixture(&f);
    }
}

/* Dense attention, where it is 1 or nothing is distant. */
static void scale_is_of_distant_logits_alone(void **state)
{
    (void)state;
    fixture f = open_fixture("llama", FOCI_GROUPS_SCALE, FOCAL_F32, 2);
    const foci_groups_pass pass = {.top = 1};
    const foci_backward_options with = {.is_loss_only = true, .groups = &pass};
    const foci_backward_options without = {.is_loss_only = true};
    const double dense = call(&f, &without).nll;
    *f.groups->log_scale = 0.0F; /* times 1 */
    assert_true(fabs(call(&f, &with).nll - dense) < 1e-6 * dense);
    *f.groups->log_scale = -0.7F;
    assert_true(fabs(call(&f, &with).nll - dense) > 1e-3 * dense);
    f.groups->window = TOKENS; /* nothing is distant */
    assert_true(fabs(call(&f, &with).nll - dense) < 1e-6 * dense);
    f.groups->window = 0;
    f.groups->sinks = TOKENS;
    assert_true(fabs(call(&f, &with).nll - dense) < 1e-6 * dense);
    close_fixture(&f);
}

static void a_scale_takes_no_cache_in_q8(void **state)
{
    (void)state;
    static char path[] = "controls";
    fixture f = open_fixture("llama", FOCI_GROUPS_SCALE, FOCAL_F32, 1);
    focal_adapter adapter = {.ctx = f.ctx, .path = path, .groups = f.groups};
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = FOCAL_Q8_0, .has_dtype = true};
    const focal_batch_item item = {0, 8, f.ids, 0};
    const focal_forward_args args = {.item_count = 1, .items = &item};
    const focal_attach_options top = {.top = 1};
    (void)snprintf(adapter.fingerprint, sizeof adapter.fingerprint, "%s",
                   focal_model_fingerprint(f.model));
    assert_status(f.ctx, focal_model_attach(f.model, &adapter, &top), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(f.ctx),
                        "controls: a query cannot look into 1 groups, the adapter has none");
    assert_status(f.ctx, focal_model_attach(f.model, &adapter, NULL), FOCAL_OK);
    if (focal_cache_new(f.model, &options, &cache) == FOCAL_OK) {
        assert_status(f.ctx, focal_forward(f.model, cache, &args), FOCAL_EUNSUPPORTED);
        assert_string_equal(focal_ctx_error(f.ctx),
                            "forward: a scale on distant logits takes no cache in q8_0");
        focal_cache_free(cache);
    }
    assert_status(f.ctx, focal_model_attach(f.model, NULL, NULL), FOCAL_OK);
    close_fixture(&f);
}

static void bits_do_not_depend_on_threads_or_memory(void **state)
{
    (void)state;
    for (size_t c = 0; c < FOCAL_COUNT(controls); c++) {
        const foci_groups_pass pass = {.top = 2};
        float *gradients = NULL;
        for (int n = 0; n < 3; n++) {
            fixture f = open_fixture(controls[c].model, controls[c].source, FOCAL_BF16, 1 + n);
            const foci_backward_options options = {.recompute = (foci_recompute)n,
                                                   .scale = row_scale,
                                                   .groups = &pass,
                                                   .is_kl = controls[c].is_kl};
            (void)call(&f, &options);
            const size_t bytes = f.t->gradient_count * sizeof *gradients;
            if (n == 0) {
                gradients = new_array(f.t->gradient_count, sizeof *gradients);
                memcpy(gradients, f.t->gradients, bytes);
            }
            assert_memory_equal(f.t->gradients, gradients, bytes);
            close_fixture(&f);
        }
        free(gradients);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_is_the_slope),
        cmocka_unit_test(loss_is_that_of_the_model_as_it_runs),
        cmocka_unit_test(scale_is_of_distant_logits_alone),
        cmocka_unit_test(a_scale_takes_no_cache_in_q8),
        cmocka_unit_test(bits_do_not_depend_on_threads_or_memory),
    };
    return cmocka_run_group_tests_name("group controls", tests, NULL, NULL);
}
