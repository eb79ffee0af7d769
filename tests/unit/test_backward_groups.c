/* The gradient of a model with groups: it is the one that PyTorch computes from docs/MATH.md, 3; at
 * any thread count and recompute level it has the same bits; where the loss has a slope it is that;
 * and the weights of the model, quantised ones too, stay where they lie. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/model.h"
#include "focal/quant.h"
#include "model/backward.h"
#include "ops/loss/loss.h"
#include "support/golden.h"

enum { TOKENS = 48, FIRST = 30, MARKS = 4, GROUPS = 4, WIDTH = 3, WINDOW = 5, SINKS = 2 };

static const float balance_rate = 0.3F, paper_lambda = 7.0F;
static const foci_span spans[] = {{0, FIRST}, {FIRST, TOKENS - FIRST}};

/* ---- A model with groups on it ---- */

typedef struct text {
    int32_t ids[TOKENS], targets[TOKENS];
} text;

static void read_text(const char *name, text *to)
{
    char path[512];
    (void)snprintf(path, sizeof path, "models/%s/expected", name);
    golden *g = golden_open(path);
    const double *ids = golden_get(&g->cases[0], "ids", TOKENS);
    for (int n = 0; n < TOKENS; n++) to->ids[n] = (int32_t)ids[n];
    for (int n = 0; n < TOKENS; n++)
        to->targets[n] = n == FIRST - 1 || n == TOKENS - 1 ? FOCI_LOSS_NO_TARGET : to->ids[n + 1];
    golden_close(g);
}

static foci_batch batch_of(const text *input)
{
    return (foci_batch){
        .T = TOKENS, .ids = input->ids, .targets = input->targets, .span_count = 2, .spans = spans};
}

static focal_model *open_model(focal_ctx *ctx, const char *name, focal_dtype precision)
{
    char path[512];
    focal_model *model = NULL;
    const focal_model_options options = {.precision = precision, .has_precision = true};
    (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, name);
    assert_status(ctx, focal_model_open(ctx, path, &options, &model), FOCAL_OK);
    return model;
}

typedef struct kind {
    bool is_shared, is_kv, is_raw, has_lt;
} kind;

/* Routers wherever attention is global. */
static foci_groups_shape shape_of(const foci_config *c, kind is)
{
    foci_groups_shape shape = {.L = c->L,
                               .C = c->C,
                               .H = c->H,
                               .G = c->G,
                               .K = GROUPS,
                               .R = WIDTH,
                               .routers = is.is_kv ? c->G : 1,
                               .mode = is.is_shared ? FOCAL_SHARED : FOCAL_DIRECTED,
                               .is_raw = is.is_raw,
                               .has_temperatures = is.has_lt};
    for (int32_t n = 0; n < c->L; n++) shape.layers[n] = !c->is_local[n];
    return shape;
}

/* The numbers of tools/golden_groups.py. */
static foci_groups *new_groups(focal_ctx *ctx, const foci_groups_shape *shape)
{
    static const double scales[FOCI_GROUP_TENSORS] = {0.4, 0.4, 0.3, 0.3, 0.8, 0.2, 0.25, 0.0};
    foci_groups *groups = NULL;
    assert_status(ctx, foci_groups_new(ctx, shape, &groups), FOCAL_OK);
    groups->window = WINDOW;
    groups->sinks = SINKS;
    for (int32_t layer = 0; layer < shape->L; layer++)
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++) {
            float *to = groups->layers[layer].tensors[which];
            const int64_t count = foci_groups_count(shape, layer, (foci_group_tensor)which);
            for (int64_t n = 0; n < count; n++)
                to[n] = (float)(scales[which] * sin(1.7 * (double)n * (1.0 + 0.01 * (double)n) +
                                                    0.6 * which + 2.1 * layer));
        }
    return groups;
}

typedef struct fixture {
    focal_ctx *ctx;
    focal_model *model;
    foci_groups *groups;
    foci_trainable *t;
    text input;
} fixture;

static fixture open_fixture(const char *name, kind is, focal_dtype precision, int32_t threads)
{
    fixture f = {.ctx = new_ctx(threads)};
    f.model = open_model(f.ctx, name, precision);
    const foci_groups_shape shape = shape_of(&f.model->config, is);
    f.groups = new_groups(f.ctx, &shape);
    assert_status(f.ctx, foci_trainable_frozen(f.model, f.groups, &f.t), FOCAL_OK);
    read_text(name, &f.input);
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
    const foci_batch batch = batch_of(&f->input);
    assert_status(f->ctx, foci_backward(f->t, &batch, options, &loss), FOCAL_OK);
    assert_int_equal(loss.targets, TOKENS - 2);
    return loss;
}

static const double row_scale = 1.0 / (TOKENS - 2);

/* ---- PyTorch ---- */

static void make_marks(const foci_param *param, double marks[MARKS])
{
    const int64_t count = param->rows * param->cols;
    memset(marks, 0, MARKS * sizeof *marks);
    for (int64_t n = 0; n < count; n++) {
        const double g = (double)param->gradient[n];
        marks[0] += g * cos(0.7 * (double)n + 0.1);
        marks[1] += g * sin(1.3 * (double)n);
        marks[2] += fabs(g);
        marks[3] += g * g;
    }
    marks[3] = sqrt(marks[3]);
}

static void check_near(const char *name, const char *what, double x, double expected, double most)
{
    if (!(fabs(x - expected) <= most))
        fail_msg("%s, %s: %.9g, PyTorch has %.9g", name, what, x, expected);
}

static void check_case(const golden_case *c)
{
    const double *in = c->parameters;
    const kind is = {in[0] != 0.0, in[1] != 0.0, in[2] != 0.0, in[7] != 0.0};
    const bool is_kl = in[4] != 0.0, is_moved = in[6] >= 0.0;
    fixture f = open_fixture(strchr(c->name, '.') + 1, is, FOCAL_F32, 2);
    const foci_groups_pass groups = {.gate = (focal_gate_kind)in[3],
                                     .lambda = paper_lambda,
                                     .top = (int32_t)in[5],
                                     .moves_balance = is_moved,
                                     .balance =
                                         is_moved ? (focal_balance_kind)in[6] : FOCAL_BALANCE_LOG,
                                     .rate = balance_rate};
    const foci_backward_options options = {.scale = row_scale, .groups = &groups, .is_kl = is_kl};
    const foci_backward_options dense = {.is_loss_only = true, .is_untouched = true};
    const double *losses = golden_get(c, "losses", 3);
    check_near(c->name, "dense", call(&f, &dense).nll * row_scale, losses[2], 3e-6 * losses[2]);
    const foci_batch_loss loss = call(&f, &options);
    check_near(c->name, "nll", loss.nll * row_scale, losses[0], 3e-6 * losses[0]);
    if (is_kl) {
        assert_int_equal(loss.kl_rows, TOKENS - 2);
        check_near(c->name, "kl", loss.kl * row_scale, losses[1], 2e-5 * losses[1] + 1e-6);
    }
    assert_int_equal(f.t->param_count, (int)in[8]);
    const double *e = golden_get(c, "marks", (int64_t)f.t->param_count * MARKS);
    for (int32_t n = 0; n < f.t->param_count; n++, e += MARKS) {
        const foci_param *param = &f.t->params[n];
        double marks[MARKS];
        make_marks(param, marks);
        const double most = 2e-4 * e[3] + 1e-7;
        for (int i = 0; i < MARKS; i++)
            check_near(c->name, param->name, marks[i], e[i],
                       i == 2 ? most * sqrt((double)(param->rows * param->cols)) : most);
        assert_true(e[3] > 1e-6); /* there is something to compare */
    }
    const int64_t numbers = f.groups->shape.routers * (int64_t)GROUPS;
    int32_t layers = 0;
    for (int32_t n = 0; n < f.groups->shape.L; n++) layers += f.groups->shape.layers[n];
    const double *beta = is.is_raw ? NULL : golden_get(c, "beta", numbers * layers);
    for (int32_t n = 0; beta && n < f.groups->shape.L; n++)
        for (int64_t i = 0; f.groups->shape.layers[n] && i < numbers; i++)
            check_near(c->name, "beta", (double)f.groups->layers[n].tensors[FOCI_GROUP_BETA][i],
                       *beta++, 1e-5);
    close_fixture(&f);
}

static void gradients_are_those_of_pytorch(void **state)
{
    (void)state;
    golden *g = golden_open("groups");
    assert_true(g->case_count >= 13);
    for (int n = 0; n < g->case_count; n++) check_case(&g->cases[n]);
    golden_close(g);
}

/* ---- The slope ---- */

/* Along the gradient itself the loss rises as its square says. */
static void check_slope(const fixture *f, const foci_backward_options *options, const char *name)
{
    foci_trainable *t = f->t;
    memset(t->gradients, 0, t->gradient_count * sizeof *t->gradients);
    (void)call(f, options);
    float *gradients = new_array(t->gradient_count, sizeof *gradients);
    memcpy(gradients, t->gradients, t->gradient_count * sizeof *gradients);
    double square = 0.0, sides[2];
    for (size_t n = 0; n < t->gradient_count; n++)
        square += (double)gradients[n] * (double)gradients[n];
    const double step = 0.0005 / sqrt(square);
    for (int side = 0; side < 2; side++) {
        const double move = side == 0 ? -step : 2.0 * step;
        for (int32_t n = 0; n < t->param_count; n++) {
            const foci_param *param = &t->params[n];
            const float *from = gradients + (param->gradient - t->gradients);
            for (int64_t i = 0; i < param->rows * param->cols; i++)
                param->weights[i] += (float)(move * (double)from[i]);
        }
        const foci_batch_loss loss = call(f, options);
        sides[side] = (options->is_kl ? loss.kl : loss.nll) * row_scale;
    }
    const double slope = (sides[1] - sides[0]) / (2.0 * step);
    if (fabs(slope - square) > 3e-3 * square)
        fail_msg("%s: a slope of %.6g along a gradient of square %.6g", name, slope, square);
    free(gradients);
}

/* Soft gates have a slope; the hard mask has none. */
static void gradient_is_the_slope(void **state)
{
    (void)state;
    static const struct {
        const char *name, *model;
        kind is;
        foci_groups_pass pass;
        bool is_kl;
    } cases[] = {
        {"log", "qwen3", {false, true, false, true}, {.gate = FOCAL_GATE_LOG}, true},
        {"log, shared", "gemma2", {true, false, false, true}, {.gate = FOCAL_GATE_LOG}, true},
        {"paper", "llama", {true, false, true, true}, {.gate = FOCAL_GATE_PAPER}, false},
        {"paper, directed", "olmo2", {false, true, false, false}, {.gate = FOCAL_GATE_PAPER}, true},
        {"sinkhorn",
         "llama",
         {false, true, false, true},
         {.gate = FOCAL_GATE_LOG, .sinkhorn_rounds = 4},
         true},
        {"raw without sinkhorn",
         "llama",
         {true, true, true, false},
         {.gate = FOCAL_GATE_LOG, .sinkhorn_rounds = -1},
         false},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        fixture f = open_fixture(cases[n].model, cases[n].is, FOCAL_F32, 2);
        const foci_backward_options options = {
            .scale = row_scale, .groups = &cases[n].pass, .is_kl = cases[n].is_kl};
        check_slope(&f, &options, cases[n].name);
        close_fixture(&f);
    }
}

/* Temperatures alone, under full attention; then routers in the upper layer alone, whose lower
 * layers get nothing. */
static void parts_of_groups_learn(void **state)
{
    (void)state;
    for (int part = 0; part < 2; part++) {
        fixture f = {.ctx = new_ctx(2)};
        f.model = open_model(f.ctx, "llama", FOCAL_F32);
        foci_groups_shape shape = shape_of(&f.model->config, (kind){false, true, false, part == 0});
        shape.layers[0] = false;
        if (part == 0) shape.layers[1] = false;
        f.groups = new_groups(f.ctx, &shape);
        assert_status(f.ctx, foci_trainable_frozen(f.model, f.groups, &f.t), FOCAL_OK);
        read_text("llama", &f.input);
        assert_int_equal(f.t->param_count, part == 0 ? 2 : 5);
        assert_string_equal(f.t->params[0].name,
                            part == 0 ? "layers.0.log_temperature" : "layers.1.router.pk");
        const foci_groups_pass pass = {.gate = FOCAL_GATE_LOG};
        const foci_backward_options options = {
            .scale = row_scale, .groups = part == 0 ? NULL : &pass, .is_kl = part == 1};
        check_slope(&f, &options, part == 0 ? "temperatures" : "one layer");
        close_fixture(&f);
    }
}

/* Weights and routers learn together, over a temperature of the model's own. */
static void weights_learn_beside_groups(void **state)
{
    (void)state;
    fixture f = {.ctx = new_ctx(2)};
    focal_model *source = open_model(f.ctx, "qwen3", FOCAL_F32);
    const foci_temperature_choice choice = {.kind = FOCI_TEMPERATURE_CONSTANT, .t = 0.6F};
    const foci_trainable_options options = {.precision = FOCAL_F32, .temperature = &choice};
    foci_trainable *plain = NULL;
    assert_status(f.ctx, foci_trainable_new(f.ctx, &source->config, 7, &options, &f.t), FOCAL_OK);
    assert_status(f.ctx, foci_trainable_new(f.ctx, &source->config, 7, &options, &plain), FOCAL_OK);
    const foci_groups_shape shape = shape_of(&source->config, (kind){false, true, false, true});
    f.groups = new_groups(f.ctx, &shape);
    assert_status(f.ctx, foci_trainable_add_groups(f.t, f.groups), FOCAL_OK);
    assert_status(f.ctx, foci_trainable_add_groups(f.t, f.groups), FOCAL_EINVAL);
    read_text("qwen3", &f.input);
    assert_int_equal(f.t->param_count, plain->param_count + 12);
    /* The untouched model, with groups beside it: the same gradients at the same places. */
    const foci_backward_options untouched = {.scale = row_scale, .is_untouched = true};
    foci_batch_loss loss;
    const foci_batch batch = batch_of(&f.input);
    (void)call(&f, &untouched);
    assert_status(f.ctx, foci_backward(plain, &batch, &untouched, &loss), FOCAL_OK);
    assert_memory_equal(plain->gradients, f.t->gradients,
                        plain->gradient_count * sizeof *plain->gradients);
    for (size_t n = plain->gradient_count; n < f.t->gradient_count; n++)
        assert_true(f.t->gradients[n] == 0.0F);
    for (int32_t n = 0; n < plain->param_count; n++)
        assert_true(f.t->params[n].gradient - f.t->gradients ==
                    plain->params[n].gradient - plain->gradients);
    /* Temperatures of groups multiply the model's own. */
    for (int32_t n = 0; n < shape.L; n++)
        memset(f.groups->layers[n].tensors[FOCI_GROUP_LT], 0, (size_t)shape.H * sizeof(float));
    const foci_backward_options dense = {.is_loss_only = true};
    assert_true(fabs(call(&f, &dense).nll - loss.nll) < 1e-5 * loss.nll);
    for (int32_t n = 0; n < f.t->param_count; n++) /* attention that groups change */
        for (int64_t i = 0;
             f.t->params[n].is_matrix && i < f.t->params[n].rows * f.t->params[n].cols; i++)
            f.t->params[n].weights[i] *= 4.0F;
    const foci_groups_pass pass = {.gate = FOCAL_GATE_LOG};
    const foci_backward_options soft = {.scale = row_scale, .groups = &pass};
    check_slope(&f, &soft, "weights and groups");
    foci_trainable_free(plain);
    focal_model_close(source);
    foci_trainable_free(f.t);
    foci_groups_free(f.ctx, f.groups);
    focal_ctx_close(f.ctx);
}

/* ---- The same numbers by other ways ---- */

typedef struct outcome {
    float *gradients, *numbers; /* numbers: of groups, the balance among them */
    size_t gradient_count;
    int64_t number_count;
    foci_batch_loss loss;
} outcome;

static outcome outcome_of(const char *name, kind is, const foci_groups_pass *pass,
                          focal_dtype precision, int32_t threads, foci_recompute recompute)
{
    fixture f = open_fixture(name, is, precision, threads);
    const foci_backward_options options = {
        .recompute = recompute, .scale = row_scale, .groups = pass, .is_kl = true};
    outcome out = {.loss = call(&f, &options),
                   .gradient_count = f.t->gradient_count,
                   .number_count = f.groups->number_count};
    out.gradients = new_array(out.gradient_count, sizeof *out.gradients);
    out.numbers = new_array((size_t)out.number_count, sizeof *out.numbers);
    memcpy(out.gradients, f.t->gradients, out.gradient_count * sizeof *out.gradients);
    memcpy(out.numbers, f.groups->numbers, (size_t)out.number_count * sizeof *out.numbers);
    close_fixture(&f);
    return out;
}

static void free_outcome(outcome *out)
{
    free(out->gradients);
    free(out->numbers);
}

static bool is_same_loss(const foci_batch_loss *a, const foci_batch_loss *b)
{
    return a->nll == b->nll && a->targets == b->targets && a->kl == b->kl &&
           a->kl_rows == b->kl_rows && a->distant_pairs == b->distant_pairs &&
           a->kept_pairs == b->kept_pairs && a->largest_load == b->largest_load &&
           a->mean_largest_load == b->mean_largest_load;
}

static void bits_do_not_depend_on_threads_or_memory(void **state)
{
    (void)state;
    static const struct {
        const char *model;
        kind is;
        foci_groups_pass pass;
    } cases[] = {
        {"qwen3", {false, true, false, true}, {.moves_balance = true, .rate = 0.3F}},
        {"gemma2", {true, false, false, true}, {.moves_balance = true, .rate = 0.3F}},
        {"olmo2", {false, true, false, true}, {.gate = FOCAL_GATE_LOG}},
        {"llama", {true, false, true, false}, {.gate = FOCAL_GATE_PAPER}},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++)
        for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
            const focal_dtype precision = is_bf16 ? FOCAL_BF16 : FOCAL_F32;
            outcome first = outcome_of(cases[n].model, cases[n].is, &cases[n].pass, precision, 1,
                                       FOCI_RECOMPUTE_NONE);
            for (int level = FOCI_RECOMPUTE_NONE; level <= FOCI_RECOMPUTE_BLOCK; level++) {
                outcome again = outcome_of(cases[n].model, cases[n].is, &cases[n].pass, precision,
                                           2 + level % 2, (foci_recompute)level);
                if (!is_same_loss(&first.loss, &again.loss) ||
                    memcmp(first.gradients, again.gradients,
                           first.gradient_count * sizeof *first.gradients) != 0 ||
                    memcmp(first.numbers, again.numbers,
                           (size_t)first.number_count * sizeof *first.numbers) != 0)
                    fail_msg("%s, %s, level %d: other bits", cases[n].model,
                             focal_dtype_name(precision), level);
                free_outcome(&again);
            }
            free_outcome(&first);
        }
}

/* bfloat16 is another number, but not another gradient. Near ties flip groups, so only the
 * direction of all of it is compared. */
static void bfloat16_is_near(void **state)
{
    (void)state;
    const foci_groups_pass pass = {.gate = FOCAL_GATE_STRAIGHT};
    const kind is = {false, true, false, true};
    outcome exact = outcome_of("qwen3", is, &pass, FOCAL_F32, 2, FOCI_RECOMPUTE_BLOCK);
    outcome fast = outcome_of("qwen3", is, &pass, FOCAL_BF16, 2, FOCI_RECOMPUTE_BLOCK);
    double dot = 0.0, a = 0.0, b = 0.0;
    for (size_t n = 0; n < exact.gradient_count; n++) {
        dot += (double)exact.gradients[n] * (double)fast.gradients[n];
        a += (double)exact.gradients[n] * (double)exact.gradients[n];
        b += (double)fast.gradients[n] * (double)fast.gradients[n];
    }
    if (dot < 0.97 * sqrt(a * b)) fail_msg("a cosine of %.4f only", dot / sqrt(a * b));
    free_outcome(&exact);
    free_outcome(&fast);
}

/* A query that looks into every group sees every key. */
static void all_groups_are_dense_attention(void **state)
{
    (void)state;
    static const char *const models[] = {"llama", "gemma3"};
    for (size_t n = 0; n < FOCAL_COUNT(models); n++)
        for (int is_shared = 0; is_shared < 2; is_shared++) {
            fixture f = open_fixture(models[n], (kind){is_shared, true, false, true}, FOCAL_F32, 2);
            const foci_groups_pass all = {.top = GROUPS};
            const foci_backward_options grouped = {
                .scale = row_scale, .groups = &all, .is_kl = true};
            const foci_backward_options dense = {.scale = row_scale, .is_kl = true};
            const foci_batch_loss a = call(&f, &grouped);
            const size_t bytes = (size_t)f.model->config.H * sizeof(float);
            /* Of the last layer, which no router's gradient reaches. */
            float *lt = f.t->layers[f.model->config.L - 1].lt, first[64];
            memcpy(first, lt, bytes);
            memset(f.t->gradients, 0, f.t->gradient_count * sizeof *f.t->gradients);
            const foci_batch_loss b = call(&f, &dense);
            assert_true(fabs(a.nll - b.nll) < 1e-5 * b.nll);
            assert_true(fabs(a.kl - b.kl) < 1e-4 * b.kl + 1e-6 && b.kl > 1e-3);
            assert_true(a.kept_pairs == a.distant_pairs && a.distant_pairs > 0);
            assert_true(b.distant_pairs == 0);
            for (int32_t h = 0; h < f.model->config.H; h++)
                assert_true(fabs((double)first[h] - (double)lt[h]) <
                            1e-4 * fabs((double)lt[h]) + 1e-6);
            close_fixture(&f);
        }
}

/* Loss alone is the loss of the straight call, and leaves everything as it is; of soft gates it is
 * that of the mask they stand for. */
static void loss_alone_is_of_the_hard_mask(void **state)
{
    (void)state;
    fixture f = open_fixture("qwen3", (kind){false, true, false, true}, FOCAL_F32, 2);
    foci_groups_pass pass = {.top = 2};
    const foci_backward_options straight = {.scale = row_scale, .groups = &pass, .is_kl = true};
    const foci_batch_loss a = call(&f, &straight);
    memset(f.t->gradients, 0, f.t->gradient_count * sizeof *f.t->gradients);
    float *before = new_array((size_t)f.groups->number_count, sizeof *before);
    memcpy(before, f.groups->numbers, (size_t)f.groups->number_count * sizeof *before);
    foci_groups_pass soft = {.gate = FOCAL_GATE_LOG, .top = 2, .moves_balance = true, .rate = 0.5F};
    const foci_backward_options alone = {.is_loss_only = true, .groups = &soft, .is_kl = true};
    const foci_batch_loss b = call(&f, &alone);
    assert_true(is_same_loss(&a, &b));
    assert_memory_equal(before, f.groups->numbers, (size_t)f.groups->number_count * sizeof *before);
    for (size_t n = 0; n < f.t->gradient_count; n++) assert_true(f.t->gradients[n] == 0.0F);
    assert_true(b.largest_load > 1.0 / GROUPS && b.largest_load <= 1.0);
    assert_true(b.mean_largest_load <= b.largest_load && b.mean_largest_load > 1.0 / GROUPS);
    assert_true(b.kept_pairs > 0 && b.kept_pairs < b.distant_pairs);
    free(before);
    close_fixture(&f);
}

/* Scores of nothing but the balance: every key is in one group, and a query, which the balance does
 * not reach, looks into the lowest. */
static void a_collapse_is_seen(void **state)
{
    (void)state;
    fixture f = open_fixture("llama", (kind){false, true, false, true}, FOCAL_F32, 2);
    for (int32_t n = 0; n < f.groups->shape.L; n++) {
        float *const *tensors = f.groups->layers[n].tensors;
        const int64_t routers = f.groups->shape.routers;
        memset(tensors[FOCI_GROUP_E], 0, (size_t)(routers * GROUPS * WIDTH) * sizeof(float));
        memset(tensors[FOCI_GROUP_BETA], 0, (size_t)(routers * GROUPS) * sizeof(float));
        for (int64_t r = 0; r < routers; r++) tensors[FOCI_GROUP_BETA][r * GROUPS + 1] = 0.5F;
    }
    for (int32_t top = 1; top <= 2; top++) {
        const foci_groups_pass pass = {.top = top};
        const foci_backward_options options = {.is_loss_only = true, .groups = &pass};
        const foci_batch_loss loss = call(&f, &options);
        assert_true(loss.largest_load == 1.0 && fabs(loss.mean_largest_load - 1.0) < 1e-12);
        assert_true(loss.kept_pairs == (top == 1 ? 0 : loss.distant_pairs));
        /* 30 and 18 tokens: of query i, the keys from the sinks to the window, a layer and router
         */
        int64_t distant = 0;
        for (int n = 0; n < 2; n++)
            for (int i = 0; i < spans[n].count; i++)
                distant += i - WINDOW > SINKS ? i - WINDOW - SINKS : 0;
        assert_int_equal(loss.distant_pairs, distant * f.model->config.L * f.model->config.G);
    }
    close_fixture(&f);
}

/* ---- Quantised weights ---- */

/* A matrix in blocks, or what those expand to; *next is memory that goes with the model. */
static void replace(focal_ctx *ctx, foci_linear *w, focal_dtype dtype, bool is_expanded,
                    char **next)
{
    const int64_t count = (int64_t)w->N * w->K;
    const size_t bytes =
        (size_t)count / (size_t)focal_dtype_block(dtype) * (size_t)focal_dtype_block_bytes(dtype);
    float *numbers = new_array((size_t)count, sizeof *numbers);
    char *blocks = *next;
    focal_dequantize(w->dtype, w->w, count, numbers);
    assert_status(ctx, focal_quantize(ctx, dtype, numbers, w->N, w->K, blocks), FOCAL_OK);
    *next += (bytes + 63) / 64 * 64;
    w->w = blocks;
    w->dtype = dtype;
    if (is_expanded) {
        focal_dequantize(dtype, blocks, count, numbers);
        memcpy(*next, numbers, (size_t)count * sizeof *numbers);
        w->w = *next;
        w->dtype = FOCAL_F32;
        *next += (size_t)count * sizeof *numbers;
    }
    free(numbers);
}

static outcome outcome_quantised(focal_dtype dtype, bool is_expanded)
{
    fixture f = open_fixture("llama", (kind){false, true, false, true}, FOCAL_F32, 2);
    char *memory = new_array(1 << 20, 1), *next = memory;
    foci_model_weights *w = &f.model->weights;
    replace(f.ctx, &w->embed, dtype, is_expanded, &next);
    w->head = w->embed; /* tied */
    for (int32_t n = 0; n < f.model->config.L; n++) {
        foci_layer *layer = &w->layers[n];
        foci_linear *const all[] = {&layer->q,    &layer->k,  &layer->v,   &layer->out,
                                    &layer->gate, &layer->up, &layer->down};
        for (size_t i = 0; i < FOCAL_COUNT(all); i++)
            replace(f.ctx, all[i], dtype, is_expanded, &next);
    }
    assert_true(next - memory <= 1 << 20);
    const foci_groups_pass pass = {.gate = FOCAL_GATE_LOG};
    const foci_backward_options options = {.scale = row_scale, .groups = &pass, .is_kl = true};
    outcome out = {.loss = call(&f, &options), .gradient_count = f.t->gradient_count};
    out.gradients = new_array(out.gradient_count, sizeof *out.gradients);
    memcpy(out.gradients, f.t->gradients, out.gradient_count * sizeof *out.gradients);
    close_fixture(&f);
    free(memory);
    return out;
}

static void quantised_weights_stay_as_they_lie(void **state)
{
    (void)state;
    static const focal_dtype types[] = {FOCAL_Q4_1, FOCAL_Q8_0};
    double losses[FOCAL_COUNT(types)];
    for (size_t n = 0; n < FOCAL_COUNT(types); n++) {
        outcome blocks = outcome_quantised(types[n], false);
        outcome floats = outcome_quantised(types[n], true);
        losses[n] = blocks.loss.nll;
        assert_true(fabs(blocks.loss.kl - floats.loss.kl) < 1e-5 * floats.loss.kl);
        double error = 0.0, square = 0.0;
        for (size_t i = 0; i < blocks.gradient_count; i++) {
            const double d = (double)blocks.gradients[i] - (double)floats.gradients[i];
            error += d * d;
            square += (double)floats.gradients[i] * (double)floats.gradients[i];
        }
        if (error > 1e-10 * square || square == 0.0)
            fail_msg("%s: %.3g away of %.3g", focal_dtype_name(types[n]), sqrt(error),
                     sqrt(square));
        free_outcome(&blocks);
        free_outcome(&floats);
    }
    assert_true(fabs(losses[0] - losses[1]) > 1e-4); /* they were quantised */
}

/* ---- The observer ---- */

typedef struct watcher {
    const fixture *f;
    int32_t layers;
    double largest; /* distance of q and k from the products of h */
    bool is_over;
} watcher;

static focal_status watch(void *arg, int32_t layer, const foci_observed *o)
{
    watcher *to = arg;
    const foci_config *c = &to->f->model->config;
    const foci_layer *w = &to->f->model->weights.layers[layer];
    assert_int_equal(layer, to->layers++);
    assert_int_equal(o->T, TOKENS);
    for (int which = 0; which < 2; which++) {
        const int64_t N = (int64_t)(which == 0 ? c->H : c->G) * c->D;
        const foci_linear *linear = which == 0 ? &w->q : &w->k;
        const float *out = which == 0 ? o->q : o->k, *weights = linear->w;
        assert_int_equal(linear->dtype, FOCAL_F32);
        for (int64_t t = 0; t < TOKENS; t++)
            for (int64_t n = 0; n < N; n++) {
                double sum = linear->bias ? (double)linear->bias[n] : 0.0;
                for (int64_t i = 0; i < c->C; i++)
                    sum += (double)o->h[t * c->C + i] * (double)weights[n * c->C + i];
                to->largest = fmax(to->largest, fabs(sum - (double)out[t * N + n]));
            }
    }
    return FOCAL_OK;
}

static focal_status refuse(void *arg, int32_t layer, const foci_observed *o)
{
    const watcher *to = arg;
    (void)o;
    return layer == 1 ? foci_fail(to->f->ctx, FOCAL_EIO, "observer: enough seen") : FOCAL_OK;
}

static focal_status leave(void *arg, int32_t layer, const foci_observed *o)
{
    watcher *to = arg;
    (void)o;
    to->layers++;
    to->is_over = layer == 0;
    return FOCAL_OK;
}

static void observers_see_what_routers_could_read(void **state)
{
    (void)state;
    static const focal_dtype precisions[] = {FOCAL_F32, FOCAL_BF16};
    for (size_t n = 0; n < FOCAL_COUNT(precisions); n++) {
        fixture f = open_fixture("qwen2", (kind){false, true, false, true}, precisions[n], 2);
        watcher to = {.f = &f};
        foci_backward_options options = {.is_loss_only = true,
                                         .is_untouched = true,
                                         .is_kl = true,
                                         .observe = watch,
                                         .observe_arg = &to};
        const foci_batch_loss loss = call(&f, &options);
        assert_true(loss.kl < 1e-9); /* its own teacher */
        assert_int_equal(to.layers, f.model->config.L);
        const double most = precisions[n] == FOCAL_F32 ? 1e-4 : 0.2;
        if (to.largest > most) fail_msg("heads are %g away", to.largest);
        foci_batch_loss ignored;
        const foci_batch batch = batch_of(&f.input);
        options.observe = refuse;
        assert_status(f.ctx, foci_backward(f.t, &batch, &options, &ignored), FOCAL_EIO);
        to.layers = 0;
        options.observe = leave;
        options.is_over = &to.is_over;
        assert_status(f.ctx, foci_backward(f.t, &batch, &options, &ignored), FOCAL_OK);
        assert_int_equal(to.layers, 1);
        close_fixture(&f);
    }
}

/* ---- Bad calls, and no memory ---- */

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    fixture f = open_fixture("gemma2", (kind){false, true, false, true}, FOCAL_F32, 1);
    foci_batch_loss loss;
    const foci_batch batch = batch_of(&f.input);
    static const foci_groups_pass bad[] = {
        {.top = GROUPS + 1}, {.top = -1}, {.gate = (focal_gate_kind)4}};
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        const foci_backward_options options = {.groups = &bad[n]};
        assert_status(f.ctx, foci_backward(f.t, &batch, &options, &loss), FOCAL_EINVAL);
        assert_true(foci_backward_bytes(f.t, TOKENS, 2, &options) == 0);
    }
    foci_trainable *t = NULL;
    foci_groups_shape shape = shape_of(&f.model->config, (kind){false, true, false, true});
    for (int wrong = 0; wrong < 2; wrong++) {
        foci_groups_shape other = shape;
        if (wrong == 0)
            other.C++;
        else
            for (int32_t n = 0; n < other.L; n++) other.layers[n] = true; /* windowed ones, too */
        foci_groups *groups = new_groups(f.ctx, &other);
        assert_status(f.ctx, foci_trainable_frozen(f.model, groups, &t), FOCAL_EINVAL);
        assert_null(t);
        foci_groups_free(f.ctx, groups);
    }
    foci_trainable *plain = NULL;
    const foci_temperature_choice choice = {.kind = FOCI_TEMPERATURE_PER_HEAD};
    const foci_trainable_options options = {.precision = FOCAL_F32, .temperature = &choice};
    assert_status(f.ctx, foci_trainable_from(f.model, &options, &plain), FOCAL_OK);
    assert_status(f.ctx, foci_trainable_add_groups(plain, f.groups), FOCAL_EUNSUPPORTED);
    const foci_groups_pass pass = {0};
    const foci_backward_options asked = {.groups = &pass};
    assert_status(f.ctx, foci_backward(plain, &batch, &asked, &loss), FOCAL_EINVAL);
    foci_trainable_free(plain);
    close_fixture(&f);
}

/* Without memory at any point: a status, no leak, and the next call works. */
static void survives_without_memory(void **state)
{
    focal_ctx *ctx = *state;
    text input;
    read_text("qwen3", &input);
    const foci_batch batch = batch_of(&input);
    focal_model *model = open_model(ctx, "qwen3", FOCAL_BF16);
    for (int is_trained = 0; is_trained < 2; is_trained++) {
        bool has_failed = true;
        for (int64_t n = 1; has_failed; n++) {
            foci_groups *groups = NULL;
            foci_trainable *t = NULL;
            foci_batch_loss loss;
            const foci_groups_shape shape =
                shape_of(&model->config, (kind){is_trained, true, is_trained, true});
            const foci_groups_pass pass = {.moves_balance = true, .rate = 0.1F};
            const foci_trainable_options choice = {.precision = FOCAL_BF16};
            const foci_backward_options options = {
                .recompute = FOCI_RECOMPUTE_BLOCK, .scale = 1.0, .groups = &pass, .is_kl = true};
            focal_ctx_trim(ctx);
            memory_fail(n, true);
            focal_status status = foci_groups_new(ctx, &shape, &groups);
            if (status == FOCAL_OK && is_trained) {
                status = foci_trainable_from(model, &choice, &t);
                if (status == FOCAL_OK) status = foci_trainable_add_groups(t, groups);
            } else if (status == FOCAL_OK) {
                status = foci_trainable_frozen(model, groups, &t);
            }
            if (status == FOCAL_OK) status = foci_backward(t, &batch, &options, &loss);
            memory_fail(0, false);
            has_failed = status != FOCAL_OK;
            if (has_failed) assert_status(ctx, status, FOCAL_ENOMEM);
            foci_trainable_free(t);
            foci_groups_free(ctx, groups);
        }
    }
    focal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_those_of_pytorch),
        cmocka_unit_test(gradient_is_the_slope),
        cmocka_unit_test(parts_of_groups_learn),
        cmocka_unit_test(weights_learn_beside_groups),
        cmocka_unit_test(bits_do_not_depend_on_threads_or_memory),
        cmocka_unit_test(bfloat16_is_near),
        cmocka_unit_test(all_groups_are_dense_attention),
        cmocka_unit_test(loss_alone_is_of_the_hard_mask),
        cmocka_unit_test(a_collapse_is_seen),
        cmocka_unit_test(quantised_weights_stay_as_they_lie),
        cmocka_unit_test(observers_see_what_routers_could_read),
        cmocka_unit_test(refuses_what_does_not_fit),
        cmocka_unit_test_setup_teardown(survives_without_memory, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
