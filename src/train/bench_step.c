/* Steps of training on random tokens, for benchmarks. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "focal/bench.h"
#include "model/backward.h"
#include "train/optimiser.h"
#include "train/step_cost.h"

enum { TOKEN_STREAM = 1 << 20 /* of random numbers; weights use those of small numbers */ };

struct focal_train_bench {
    focal_ctx *ctx;
    focal_train_shape shape;
    foci_trainable *trainable;
    foci_optimiser *optimiser;
    int32_t *ids, *targets; /* (batch, length) */
    foci_span *spans;       /* (batch) */
};

static int32_t or_else(int32_t value, int32_t fallback)
{
    return value ? value : fallback;
}

static const foci_temperature_kind kinds[] = {
    [FOCAL_TRAIN_T_CONSTANT] = FOCI_TEMPERATURE_CONSTANT,
    [FOCAL_TRAIN_T_LEARNED] = FOCI_TEMPERATURE_LEARNED,
    [FOCAL_TRAIN_T_LEARNED_PAPER] = FOCI_TEMPERATURE_LEARNED_PAPER,
    [FOCAL_TRAIN_T_PER_HEAD] = FOCI_TEMPERATURE_PER_HEAD,
    [FOCAL_TRAIN_T_LENGTH] = FOCI_TEMPERATURE_LENGTH,
};

static focal_status open_parts(focal_train_bench *bench)
{
    const focal_train_shape *s = &bench->shape;
    const foci_shape shape = {.family = foci_family_of_hf("qwen3"),
                              .L = s->layers,
                              .C = s->width,
                              .H = s->heads,
                              .G = s->kv_heads,
                              .D = s->head_width,
                              .F = s->ffn,
                              .V = s->vocab,
                              .context = s->length,
                              .rope_base = 10000.0,
                              .is_tied = true};
    const foci_temperature_choice temperature = {.kind = kinds[s->temperature],
                                                 .t = s->t > 0.0F ? s->t : 1.0F,
                                                 .c = 0.1F,
                                                 .length = 0.25F * (float)s->length};
    const foci_trainable_options options = {
        .precision = s->dtype,
        .has_fixed_qk_gains = true,
        .temperature = s->temperature == FOCAL_TRAIN_T_NONE ? NULL : &temperature};
    const foci_optimiser_options optimiser = {.has_muon = s->has_muon,
                                              .beta1 = 0.9,
                                              .beta2 = 0.95,
                                              .epsilon = 1e-8,
                                              .momentum = 0.95,
                                              .decay = 0.1,
                                              .clip = 1.0};
    foci_config config;
    FOCAL_TRY(foci_config_new(bench->ctx, &shape, &config));
    FOCAL_TRY(foci_trainable_new(bench->ctx, &config, s->seed, &options, &bench->trainable));
    FOCAL_TRY(foci_optimiser_new(bench->trainable, &optimiser, &bench->optimiser));
    const size_t rows = (size_t)s->batch * (size_t)s->length;
    bench->ids = foci_alloc(bench->ctx, rows, sizeof *bench->ids);
    bench->targets = foci_alloc(bench->ctx, rows, sizeof *bench->targets);
    bench->spans = foci_alloc(bench->ctx, (size_t)s->batch, sizeof *bench->spans);
    return bench->ids && bench->targets && bench->spans ? FOCAL_OK : FOCAL_ENOMEM;
}

static void fill_tokens(const focal_train_bench *bench)
{
    const focal_train_shape *s = &bench->shape;
    const int64_t rows = (int64_t)s->batch * s->length;
    for (int64_t n = 0; n < rows; n++) {
        bench->ids[n] =
            (int32_t)foci_random_below(s->seed, TOKEN_STREAM, (uint64_t)n, (uint32_t)s->vocab);
        bench->targets[n] =
            (int32_t)foci_random_below(s->seed, TOKEN_STREAM + 1, (uint64_t)n, (uint32_t)s->vocab);
    }
    for (int32_t n = 0; n < s->batch; n++) bench->spans[n] = (foci_span){n * s->length, s->length};
}

focal_status focal_train_bench_new(focal_ctx *ctx, const focal_train_shape *shape,
                                   focal_train_bench **out)
{
    *out = NULL;
    if (shape->length < 1 || shape->batch < 1 ||
        (int64_t)shape->length * shape->batch > FOCI_MAX_CONTEXT)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "training: %d sequences of %d tokens, at most %d tokens", shape->batch,
                         shape->length, FOCI_MAX_CONTEXT);
    if (shape->recompute < 0 || shape->recompute > FOCI_RECOMPUTE_BLOCK)
        return foci_fail(ctx, FOCAL_EINVAL, "training: recompute level %d, it must be 0 to %d",
                         shape->recompute, FOCI_RECOMPUTE_BLOCK);
    if ((int32_t)shape->temperature < 0 || (size_t)shape->temperature >= FOCAL_COUNT(kinds))
        return foci_fail(ctx, FOCAL_EINVAL, "training: temperature %d, it must be 0 to %d",
                         (int)shape->temperature, (int)FOCAL_COUNT(kinds) - 1);
    focal_train_bench *bench = foci_alloc(ctx, 1, sizeof *bench);
    if (!bench) return FOCAL_ENOMEM;
    memset(bench, 0, sizeof *bench);
    bench->ctx = ctx;
    bench->shape = *shape;
    bench->shape.kv_heads = or_else(shape->kv_heads, shape->heads);
    bench->shape.head_width =
        or_else(shape->head_width, shape->heads > 0 ? shape->width / shape->heads : 0);
    const focal_status status = open_parts(bench);
    if (status != FOCAL_OK) {
        focal_train_bench_free(bench);
        return status;
    }
    fill_tokens(bench);
    *out = bench;
    return FOCAL_OK;
}

void focal_train_bench_free(focal_train_bench *bench)
{
    if (!bench) return;
    focal_ctx *ctx = bench->ctx;
    foci_optimiser_free(bench->optimiser);
    foci_trainable_free(bench->trainable);
    foci_free(ctx, bench->ids);
    foci_free(ctx, bench->targets);
    foci_free(ctx, bench->spans);
    foci_free(ctx, bench);
}

focal_train_cost focal_train_bench_cost(const focal_train_bench *bench)
{
    foci_trainable *t = bench->trainable;
    const focal_train_shape *s = &bench->shape;
    focal_train_cost cost = {.tokens = (int64_t)s->batch * s->length};
    const double pairs = 0.5 * s->length * (s->length + 1.0) * s->batch;
    cost.parameter_count = foci_parameter_count(t);
    cost.flops = foci_step_flops(t, false, (double)cost.tokens, pairs);
    cost.parameter_bytes = t->weight_count * sizeof(float) + 3 * t->gradient_count * sizeof(float) +
                           t->rounded_count * sizeof(uint16_t);
    const foci_backward_options options = {.recompute = (foci_recompute)s->recompute};
    cost.activation_bytes = foci_backward_bytes(t, (int32_t)cost.tokens, s->batch, &options);
    return cost;
}

focal_status focal_train_bench_step(focal_train_bench *bench, double *loss)
{
    const focal_train_shape *s = &bench->shape;
    const int32_t rows = s->batch * s->length;
    const foci_batch batch = {rows, bench->ids, bench->targets, s->batch, bench->spans};
    const foci_backward_options options = {.recompute = (foci_recompute)s->recompute,
                                           .scale = 1.0 / rows};
    foci_batch_loss sum;
    foci_gradient_norm norm;
    FOCAL_TRY(foci_backward(bench->trainable, &batch, &options, &sum));
    FOCAL_TRY(foci_optimiser_norm(bench->optimiser, &norm));
    if (norm.odd_count > 0)
        return foci_fail(bench->ctx, FOCAL_EINVAL, "training: %lld gradients are not finite",
                         (long long)norm.odd_count);
    FOCAL_TRY(foci_optimiser_step(bench->optimiser, 1e-3, norm.norm));
    *loss = sum.nll / rows;
    return FOCAL_OK;
}
