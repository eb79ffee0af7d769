/* Low-rank additions: a model with them computes what one with merged weights does, prompts and
 * decoding alike; their gradient is that of the merged weights, led through A and B, and the slope
 * of the loss; it has the same bits at any thread count and recompute level; quantised weights stay
 * where they lie. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "focal/quant.h"
#include "model/backward.h"
#include "model/low_rank_model.h"
#include "ops/loss/loss.h"

enum { TOKENS = 48, FIRST = 30, VOCAB = 96, RANK = 3 };

static const foci_span spans[] = {{0, FIRST}, {FIRST, TOKENS - FIRST}};
static const double row_scale = 1.0 / (TOKENS - 2);

/* ---- A model with additions ---- */

typedef struct fixture {
    focal_ctx *ctx;
    focal_model *model;
    foci_low_ranks *low_ranks;
    foci_trainable *t;
    int32_t ids[TOKENS], targets[TOKENS];
} fixture;

typedef enum which { ALL, QUERY_VALUE, UPPER_FEED_FORWARD, UP_ALONE } which;

static foci_low_ranks *new_low_ranks(focal_ctx *ctx, const focal_model *model, which are)
{
    static const bool upper[FOCI_MAX_LAYERS] = {false, true};
    foci_low_ranks *low_ranks = NULL;
    foci_low_rank_choice choice = {.rank = RANK, .alpha = 5.0, .seed = 4};
    for (int n = 0; n < FOCI_LINEAR_PLACES; n++) {
        const bool in[] = {true, n == FOCI_LINEAR_Q || n == FOCI_LINEAR_V, n >= FOCI_LINEAR_GATE,
                           n == FOCI_LINEAR_UP};
        choice.places[n] = in[are];
    }
    if (are == UPPER_FEED_FORWARD) choice.layers = upper;
    assert_status(ctx, foci_low_ranks_begin(model, &choice, &low_ranks), FOCAL_OK);
    return low_ranks;
}

/* B begins as 0, and would hide every mistake. */
static void fill_b(const foci_low_ranks *low_ranks)
{
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            const int64_t count = low->a ? (int64_t)low->N * low->rank : 0;
            for (int64_t i = 0; i < count; i++)
                low->b[i] =
                    0.1F * foci_random_normal(5, 8 * (uint64_t)n + (uint64_t)place, (uint64_t)i);
        }
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

static fixture open_fixture(const char *name, which are, focal_dtype precision, int32_t threads)
{
    fixture f = {.ctx = new_ctx(threads)};
    f.model = open_model(f.ctx, name, precision);
    f.low_ranks = new_low_ranks(f.ctx, f.model, are);
    fill_b(f.low_ranks);
    assert_status(f.ctx, foci_trainable_low_ranks(f.model, f.low_ranks, &f.t), FOCAL_OK);
    for (int n = 0; n < TOKENS; n++) f.ids[n] = (n * 37 + n * n + 11) % VOCAB;
    for (int n = 0; n < TOKENS; n++)
        f.targets[n] = n == FIRST - 1 || n == TOKENS - 1 ? FOCI_LOSS_NO_TARGET : f.ids[n + 1];
    return f;
}

static void close_fixture(fixture *f)
{
    foci_trainable_free(f->t);
    foci_low_ranks_free(f->ctx, f->low_ranks);
    focal_model_close(f->model);
    focal_ctx_close(f->ctx);
}

static foci_batch_loss call(const fixture *f, foci_trainable *t,
                            const foci_backward_options *options)
{
    foci_batch_loss loss;
    const foci_batch batch = {
        .T = TOKENS, .ids = f->ids, .targets = f->targets, .span_count = 2, .spans = spans};
    assert_status(f->ctx, foci_backward(t, &batch, options, &loss), FOCAL_OK);
    assert_int_equal(loss.targets, TOKENS - 2);
    return loss;
}

/* ---- Merged weights ---- */

static const foci_param *param_of(const foci_trainable *t, int32_t layer, foci_linear_place place)
{
    char name[FOCI_WEIGHT_NAME_BYTES];
    const foci_weight_names names = foci_weight_names_hf(&t->model->config);
    foci_weight_name(&names, layer, foci_weight_names_part(&names, place), "weight", name);
    for (int32_t n = 0; n < t->param_count; n++)
        if (strcmp(t->params[n].name, name) == 0) return &t->params[n];
    fail_msg("no %s", name);
    return NULL;
}

/* Element (n, k) of W where the matrix may lie transposed. */
static int64_t at(const foci_linear *w, int64_t n, int64_t k)
{
    return w->is_transposed ? k * w->N + n : n * w->K + k;
}

/* W + scale B A, in a model of its own. */
static foci_trainable *merge(const fixture *f)
{
    foci_trainable *merged = NULL;
    const foci_trainable_options options = {.precision = FOCAL_F32};
    assert_status(f->ctx, foci_trainable_from(f->model, &options, &merged), FOCAL_OK);
    for (int32_t layer = 0; layer < f->low_ranks->L; layer++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &f->low_ranks->layers[layer][place];
            if (!low->a) continue;
            const foci_param *param = param_of(merged, layer, (foci_linear_place)place);
            const foci_linear *w =
                foci_layer_linear(&f->model->weights.layers[layer], (foci_linear_place)place);
            for (int64_t n = 0; n < low->N; n++)
                for (int64_t k = 0; k < low->K; k++) {
                    double sum = 0.0;
                    for (int64_t r = 0; r < RANK; r++)
                        sum += (double)low->b[n * RANK + r] * (double)low->a[r * low->K + k];
                    param->weights[at(w, n, k)] += (float)((double)low->scale * sum);
                }
        }
    return merged;
}

/* Logits of all tokens: the first ones in chunks, the last ones alone. */
static void logits_of(focal_ctx *ctx, focal_model *model, const int32_t *ids, float *logits)
{
    static const int32_t chunks[] = {FIRST, 10, 5, 1, 1, 1};
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = FOCAL_F32, .has_dtype = true};
    assert_status(ctx, focal_cache_new(model, &options, &cache), FOCAL_OK);
    int32_t row = 0;
    for (size_t n = 0; n < FOCAL_COUNT(chunks); n++) {
        const focal_batch_item item = {0, chunks[n], ids + row, chunks[n]};
        focal_forward_args args = {.item_count = 1, .items = &item};
        args.logits = logits + (ptrdiff_t)row * VOCAB;
        assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
        row += chunks[n];
    }
    assert_int_equal(row, TOKENS);
    focal_cache_free(cache);
}

static const char *const families[] = {"llama", "qwen2", "qwen3", "olmo2", "gemma2", "gpt2"};

static void forward_is_that_of_merged_weights(void **state)
{
    (void)state;
    static float got[TOKENS * VOCAB], want[TOKENS * VOCAB], plain[TOKENS * VOCAB];
    for (size_t n = 0; n < 2 * FOCAL_COUNT(families); n++) {
        const char *family = families[n / 2];
        fixture f = open_fixture(family, n % 2 == 0 ? ALL : UP_ALONE, FOCAL_F32, 2);
        foci_trainable *merged = merge(&f);
        logits_of(f.ctx, f.model, f.ids, got);
        logits_of(f.ctx, merged->model, f.ids, want);
        foci_trainable_free(f.t);
        f.t = NULL;
        logits_of(f.ctx, f.model, f.ids, plain); /* it has gone with the trainable */
        double largest = 0.0, error = 0.0, moved = 0.0;
        for (int i = 0; i < TOKENS * VOCAB; i++) {
            largest = fmax(largest, fabs((double)want[i]));
            error = fmax(error, fabs((double)got[i] - (double)want[i]));
            moved = fmax(moved, fabs((double)plain[i] - (double)want[i]));
        }
        if (error > 1e-5 * largest || moved < 0.02 * largest)
            fail_msg("%s: %g of %g away, %g from the plain model", family, error, largest, moved);
        foci_trainable_free(merged);
        close_fixture(&f);
    }
}

/* ---- The gradient ---- */

typedef struct distance {
    double error, square;
} distance;

/* dA = scale B^T dW and dB = scale dW A^T, of one layer. */
static distance compare(const fixture *f, const foci_trainable *merged, int32_t layer,
                        foci_linear_place place, const foci_param *of_a, const foci_param *of_b)
{
    const foci_low_rank *low = &f->low_ranks->layers[layer][place];
    const foci_linear *w = foci_layer_linear(&f->model->weights.layers[layer], place);
    const float *dw = param_of(merged, layer, place)->gradient;
    distance d = {0.0, 0.0};
    for (int64_t r = 0; r < RANK; r++)
        for (int64_t k = 0; k < low->K; k++) {
            double sum = 0.0;
            for (int64_t n = 0; n < low->N; n++)
                sum += (double)low->b[n * RANK + r] * (double)dw[at(w, n, k)];
            sum *= (double)low->scale;
            d.error += pow((double)of_a->gradient[r * low->K + k] - sum, 2.0);
            d.square += sum * sum;
        }
    for (int64_t n = 0; n < low->N; n++)
        for (int64_t r = 0; r < RANK; r++) {
            double sum = 0.0;
            for (int64_t k = 0; k < low->K; k++)
                sum += (double)low->a[r * low->K + k] * (double)dw[at(w, n, k)];
            sum *= (double)low->scale;
            d.error += pow((double)of_b->gradient[n * RANK + r] - sum, 2.0);
            d.square += sum * sum;
        }
    return d;
}

static void gradient_is_that_of_merged_weights(void **state)
{
    (void)state;
    for (size_t n = 0; n < FOCAL_COUNT(families); n++)
        for (int are = ALL; are <= UP_ALONE; are++) {
            fixture f = open_fixture(families[n], (which)are, FOCAL_F32, 2);
            foci_trainable *merged = merge(&f);
            const foci_backward_options options = {.scale = row_scale};
            const foci_batch_loss got = call(&f, f.t, &options);
            const foci_batch_loss want = call(&f, merged, &options);
            assert_true(fabs(got.nll - want.nll) < 1e-5 * want.nll);
            const foci_param *param = f.t->params;
            for (int32_t layer = 0; layer < f.low_ranks->L; layer++)
                for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
                    if (!f.low_ranks->layers[layer][place].a) continue;
                    const distance d =
                        compare(&f, merged, layer, (foci_linear_place)place, param, param + 1);
                    if (d.error > 1e-8 * d.square || d.square < 1e-10)
                        fail_msg("%s, %s: %g away of %g", families[n], param->name, sqrt(d.error),
                                 sqrt(d.square));
                    param += 2;
                }
            assert_true(param == f.t->params + f.t->param_count);
            foci_trainable_free(merged);
            close_fixture(&f);
        }
}

/* The divergence from the untouched model, whose products leave the additions out. */
static void divergence_has_that_slope(void **state)
{
    (void)state;
    fixture f = open_fixture("qwen3", ALL, FOCAL_F32, 2);
    const foci_backward_options options = {.scale = row_scale, .is_kl = true};
    (void)call(&f, f.t, &options);
    float *gradients = new_array(f.t->gradient_count, sizeof *gradients);
    memcpy(gradients, f.t->gradients, f.t->gradient_count * sizeof *gradients);
    double square = 0.0, sides[2];
    for (size_t n = 0; n < f.t->gradient_count; n++)
        square += (double)gradients[n] * (double)gradients[n];
    const double step = 0.001 / sqrt(square);
    for (int side = 0; side < 2; side++) {
        const double move = side == 0 ? -step : 2.0 * step;
        for (int32_t n = 0; n < f.t->param_count; n++) {
            const foci_param *param = &f.t->params[n];
            const float *from = gradients + (param->gradient - f.t->gradients);
            for (int64_t i = 0; i < param->rows * param->cols; i++)
                param->weights[i] += (float)(move * (double)from[i]);
        }
        sides[side] = call(&f, f.t, &options).kl * row_scale;
    }
    const double slope = (sides[1] - sides[0]) / (2.0 * step);
    if (fabs(slope - square) > 3e-3 * square)
        fail_msg("a slope of %.6g along a gradient of square %.6g", slope, square);
    free(gradients);
    close_fixture(&f);
}

/* KL(teacher || student) of row n, from logits. */
static double divergence_of(const float *teacher, const float *student)
{
    double kl = 0.0, sums[2] = {0.0, 0.0};
    for (int v = 0; v < VOCAB; v++) {
        sums[0] += exp((double)teacher[v]);
        sums[1] += exp((double)student[v]);
    }
    for (int v = 0; v < VOCAB; v++)
        kl += exp((double)teacher[v]) / sums[0] * ((double)teacher[v] - (double)student[v]);
    return kl - log(sums[0]) + log(sums[1]);
}

/* The teacher is the model as it was before the additions: were they in it too, nothing would
 * diverge. */
static void the_teacher_has_no_additions(void **state)
{
    (void)state;
    static float student[FIRST * VOCAB], teacher[FIRST * VOCAB];
    fixture f = open_fixture("qwen3", ALL, FOCAL_F32, 2);
    const foci_span whole = {0, FIRST};
    const foci_batch batch = {
        .T = FIRST, .ids = f.ids, .targets = f.targets, .span_count = 1, .spans = &whole};
    const foci_backward_options options = {.is_loss_only = true, .is_kl = true};
    const focal_batch_item item = {0, FIRST, f.ids, FIRST};
    foci_batch_loss loss;
    assert_status(f.ctx, foci_backward(f.t, &batch, &options, &loss), FOCAL_OK);
    for (int is_plain = 0; is_plain < 2; is_plain++) {
        focal_cache *cache = NULL;
        const focal_forward_args args = {
            .item_count = 1, .items = &item, .logits = is_plain ? teacher : student};
        if (is_plain) { /* the additions go with it */
            foci_trainable_free(f.t);
            f.t = NULL;
        }
        assert_status(f.ctx, focal_cache_new(f.model, NULL, &cache), FOCAL_OK);
        assert_status(f.ctx, focal_forward(f.model, cache, &args), FOCAL_OK);
        focal_cache_free(cache);
    }
    double expected = 0.0;
    for (ptrdiff_t n = 0; n < FIRST - 1; n++) /* the last row has no target */
        expected += divergence_of(teacher + n * VOCAB, student + n * VOCAB);
    assert_int_equal(loss.kl_rows, FIRST - 1);
    if (!(expected > 0.01) || fabs(loss.kl - expected) > 1e-4 * expected)
        fail_msg("a divergence of %.6g, by the logits %.6g", loss.kl, expected);
    close_fixture(&f);
}

/* As it begins the model computes what it did, and only B has a gradient. */
static void a_beginning_changes_nothing(void **state)
{
    (void)state;
    fixture f = {.ctx = new_ctx(2)};
    foci_low_ranks *again;
    f.model = open_model(f.ctx, "llama", FOCAL_F32);
    f.low_ranks = new_low_ranks(f.ctx, f.model, QUERY_VALUE);
    again = new_low_ranks(f.ctx, f.model, QUERY_VALUE);
    assert_memory_equal(f.low_ranks->numbers, again->numbers,
                        (size_t)again->number_count * sizeof(float));
    foci_low_ranks_free(f.ctx, again);
    assert_status(f.ctx, foci_trainable_low_ranks(f.model, f.low_ranks, &f.t), FOCAL_OK);
    assert_int_equal(f.t->param_count, 8);
    assert_string_equal(f.t->params[0].name, "layers.0.self_attn.q_proj.lora_A");
    assert_string_equal(f.t->params[7].name, "layers.1.self_attn.v_proj.lora_B");
    for (int n = 0; n < TOKENS; n++) f.ids[n] = f.targets[n] = (n * 37 + 11) % VOCAB;
    f.targets[0] = f.targets[1] = FOCI_LOSS_NO_TARGET;
    const foci_backward_options untouched = {.is_loss_only = true, .is_untouched = true};
    const foci_backward_options options = {.scale = row_scale};
    assert_true(call(&f, f.t, &untouched).nll == call(&f, f.t, &options).nll);
    for (int32_t n = 0; n < f.t->param_count; n++) {
        const foci_param *param = &f.t->params[n];
        const int64_t count = param->rows * param->cols;
        double length = 0.0, widest = 0.0;
        for (int64_t i = 0; i < count; i++) {
            length += fabs((double)param->gradient[i]);
            widest = fmax(widest, fabs((double)param->weights[i]));
        }
        assert_true(n % 2 == 0 ? length == 0.0 : length > 1e-6);
        const double most = n % 2 == 0 ? 1.0 / sqrt((double)param->cols) : 0.0;
        assert_true(widest <= most && widest >= 0.9 * most);
    }
    close_fixture(&f);
}

typedef struct outcome {
    foci_batch_loss loss;
    float *gradients;
    size_t count;
} outcome;

static outcome outcome_of(focal_dtype precision, int32_t threads, foci_recompute level)
{
    fixture f = open_fixture("qwen3", ALL, precision, threads);
    const foci_backward_options options = {.scale = row_scale, .recompute = level, .is_kl = true};
    outcome out = {.loss = call(&f, f.t, &options), .count = f.t->gradient_count};
    out.gradients = new_array(out.count, sizeof *out.gradients);
    memcpy(out.gradients, f.t->gradients, out.count * sizeof *out.gradients);
    close_fixture(&f);
    return out;
}

static void bits_do_not_depend_on_threads_or_memory(void **state)
{
    (void)state;
    double dot = 0.0, square[2] = {0.0, 0.0};
    outcome first[2];
    for (int is_bf16 = 0; is_bf16 < 2; is_bf16++) {
        const focal_dtype precision = is_bf16 ? FOCAL_BF16 : FOCAL_F32;
        first[is_bf16] = outcome_of(precision, 1, FOCI_RECOMPUTE_NONE);
        for (int level = FOCI_RECOMPUTE_NONE; level <= FOCI_RECOMPUTE_BLOCK; level++) {
            outcome again = outcome_of(precision, 2 + level % 2, (foci_recompute)level);
            assert_true(again.loss.nll == first[is_bf16].loss.nll);
            assert_true(again.loss.kl == first[is_bf16].loss.kl);
            assert_memory_equal(again.gradients, first[is_bf16].gradients,
                                again.count * sizeof *again.gradients);
            free(again.gradients);
        }
    }
    /* bfloat16 is another number, but not another gradient */
    for (size_t n = 0; n < first[0].count; n++) {
        const double x = (double)first[0].gradients[n], y = (double)first[1].gradients[n];
        dot += x * y;
        square[0] += x * x;
        square[1] += y * y;
    }
    if (dot < 0.99 * sqrt(square[0] * square[1]))
        fail_msg("a cosine of %.4f only", dot / sqrt(square[0] * square[1]));
    for (int n = 0; n < 2; n++) free(first[n].gradients);
}

/* ---- Quantised weights ---- */

/* Every matrix of the layers in blocks; the memory stays the caller's. */
static char *quantise(const fixture *f, focal_dtype dtype)
{
    char *memory = new_array(1 << 20, 1), *next = memory;
    for (int32_t layer = 0; layer < f->model->config.L; layer++)
        for (int place = FOCI_LINEAR_Q; place < FOCI_LINEAR_PLACES; place++) {
            foci_linear *w =
                foci_layer_linear(&f->model->weights.layers[layer], (foci_linear_place)place);
            const int64_t count = (int64_t)w->N * w->K;
            float *numbers = new_array((size_t)count, sizeof *numbers);
            focal_dequantize(w->dtype, w->w, count, numbers);
            assert_status(f->ctx, focal_quantize(f->ctx, dtype, numbers, w->N, w->K, next),
                          FOCAL_OK);
            w->w = next;
            w->dtype = dtype;
            next += count / focal_dtype_block(dtype) * (int64_t)focal_dtype_block_bytes(dtype);
            free(numbers);
        }
    assert_true(next - memory <= 1 << 20);
    return memory;
}

static void quantised_weights_stay_as_they_lie(void **state)
{
    (void)state;
    static float got[TOKENS * VOCAB], want[TOKENS * VOCAB];
    static const focal_dtype types[] = {FOCAL_Q4_1, FOCAL_Q8_0};
    for (size_t n = 0; n < FOCAL_COUNT(types); n++) {
        fixture f = open_fixture("llama", ALL, FOCAL_F32, 2);
        char *memory = quantise(&f, types[n]);
        foci_trainable *merged = merge(&f);
        const foci_backward_options options = {.scale = row_scale};
        const double nll = call(&f, f.t, &options).nll;
        assert_true(fabs(nll - call(&f, merged, &options).nll) < 1e-5 * nll);
        const distance d = compare(&f, merged, 0, FOCI_LINEAR_Q, &f.t->params[0], &f.t->params[1]);
        if (d.error > 1e-8 * d.square || d.square < 1e-10)
            fail_msg("%s: %g away of %g", focal_dtype_name(types[n]), sqrt(d.error),
                     sqrt(d.square));
        /* few rows of the fast path are integers, and the additions still float32 */
        f.model->precision = FOCAL_BF16;
        logits_of(f.ctx, f.model, f.ids, got);
        logits_of(f.ctx, merged->model, f.ids, want);
        double largest = 0.0, error = 0.0;
        for (int i = 0; i < TOKENS * VOCAB; i++) {
            largest = fmax(largest, fabs((double)want[i]));
            error = fmax(error, fabs((double)got[i] - (double)want[i]));
        }
        if (error > 0.02 * largest) fail_msg("%g of %g away", error, largest);
        foci_trainable_free(merged);
        close_fixture(&f);
        free(memory);
    }
}

/* ---- Bad calls, and no memory ---- */

static void refuses_what_does_not_fit(void **state)
{
    focal_ctx *ctx = *state;
    foci_trainable *t = NULL;
    foci_low_ranks *low_ranks = NULL;
    focal_model *llama = open_model(ctx, "llama", FOCAL_F32);
    focal_model *gemma = open_model(ctx, "gemma3", FOCAL_F32);
    focal_model *wide = open_model(ctx, "qwen3", FOCAL_F32);
    foci_low_rank_choice choice = {.rank = 0, .places = {[FOCI_LINEAR_Q] = true}};
    assert_status(ctx, foci_low_ranks_begin(llama, &choice, &low_ranks), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "lora: rank 0, 1 to 65536 are possible");
    choice = (foci_low_rank_choice){.rank = 2};
    assert_status(ctx, foci_low_ranks_begin(llama, &choice, &low_ranks), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "lora: it adds to no layer");
    low_ranks = new_low_ranks(ctx, llama, ALL);
    assert_status(ctx, foci_trainable_low_ranks(gemma, low_ranks, &t), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "lora: made for 2 layers, the model has 6");
    assert_status(ctx, foci_trainable_low_ranks(wide, low_ranks, &t), FOCAL_EINVAL);
    assert_string_equal(
        focal_ctx_error(ctx),
        "lora: 32 x 32 for layer 0's self_attn.q_proj, which is 64 x 32 in the model");
    assert_status(ctx, foci_trainable_low_ranks(llama, low_ranks, &t), FOCAL_OK);
    foci_trainable *second = NULL;
    assert_status(ctx, foci_trainable_low_ranks(llama, low_ranks, &second), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "lora: the model has additions already");
    foci_trainable_free(t);
    foci_low_ranks_free(ctx, low_ranks);
    focal_model_close(llama);
    focal_model_close(gemma);
    focal_model_close(wide);
}

static void survives_without_memory(void **state)
{
    focal_ctx *ctx = *state;
    focal_model *model = open_model(ctx, "llama", FOCAL_BF16);
    int32_t ids[TOKENS];
    for (int n = 0; n < TOKENS; n++) ids[n] = n % VOCAB;
    const foci_batch batch = {
        .T = TOKENS, .ids = ids, .targets = ids, .span_count = 2, .spans = spans};
    const foci_low_rank_choice choice = {.rank = RANK, .places = {[FOCI_LINEAR_V] = true}};
    const foci_backward_options options = {.scale = 1.0, .is_kl = true};
    bool has_failed = true;
    for (int64_t n = 1; has_failed; n++) {
        foci_low_ranks *low_ranks = NULL;
        foci_trainable *t = NULL;
        foci_batch_loss loss;
        focal_ctx_trim(ctx);
        memory_fail(n, true);
        focal_status status = foci_low_ranks_begin(model, &choice, &low_ranks);
        if (status == FOCAL_OK) status = foci_trainable_low_ranks(model, low_ranks, &t);
        if (status == FOCAL_OK) status = foci_backward(t, &batch, &options, &loss);
        memory_fail(0, false);
        has_failed = status != FOCAL_OK;
        if (has_failed) assert_status(ctx, status, FOCAL_ENOMEM);
        foci_trainable_free(t);
        foci_low_ranks_free(ctx, low_ranks);
    }
    focal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forward_is_that_of_merged_weights),
        cmocka_unit_test(gradient_is_that_of_merged_weights),
        cmocka_unit_test(divergence_has_that_slope),
        cmocka_unit_test(the_teacher_has_no_additions),
        cmocka_unit_test(a_beginning_changes_nothing),
        cmocka_unit_test(bits_do_not_depend_on_threads_or_memory),
        cmocka_unit_test(quantised_weights_stay_as_they_lie),
        cmocka_unit_test_setup_teardown(refuses_what_does_not_fit, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(survives_without_memory, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("low rank", tests, NULL, NULL);
}
