/* What the settings of a run say together: values that follow from others, and contradictions. */
#include "base/error.h"
#include "base/sizes.h"
#include "train/run_file.h"

static bool is_given(const foci_run *run, const char *name)
{
    return run->is_given[foci_run_find(foci_text_of(name))];
}

static focal_status resolve_model(focal_ctx *ctx, foci_run *run)
{
    const bool is_gpt2 = run->model.family == FOCI_RUN_GPT2;
    if (run->model.kv_heads == 0) run->model.kv_heads = run->model.heads;
    if (run->model.heads % run->model.kv_heads != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: %lld query heads (model.heads) cannot share %lld key heads "
                         "(model.kv_heads)",
                         (long long)run->model.heads, (long long)run->model.kv_heads);
    if (run->model.head_dim == 0 && run->model.width % run->model.heads != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: a width of %lld does not divide into %lld heads: set model.head_dim",
                         (long long)run->model.width, (long long)run->model.heads);
    if (run->model.head_dim == 0) run->model.head_dim = run->model.width / run->model.heads;
    const foci_run_key *head_dim = &foci_run_keys[foci_run_find(foci_text_of("model.head_dim"))];
    if ((double)run->model.head_dim > head_dim->most)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: %lld heads of a width of %lld have %lld each, %.0f is the most",
                         (long long)run->model.heads, (long long)run->model.width,
                         (long long)run->model.head_dim, head_dim->most);
    if (!is_gpt2 && run->model.head_dim % 2 != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "run: model.head_dim is %lld, rope needs an even one",
                         (long long)run->model.head_dim);
    if (!is_gpt2) return FOCAL_OK;

    if (!is_given(run, "model.qk_norm")) run->model.qk_norm = FOCI_RUN_QK_NONE;
    if (run->model.qk_norm != FOCI_RUN_QK_NONE || !run->model.tied ||
        run->model.kv_heads != run->model.heads ||
        run->model.head_dim * run->model.heads != run->model.width)
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "run: the family gpt2 is tied, has model.qk_norm = none, as many key heads "
            "as query heads, and heads that make up the width");
    return FOCAL_OK;
}

/* A model that is continued brings its own shape: what it says is not known here. */
static focal_status check_list(focal_ctx *ctx, const foci_run *run, const char *name,
                               const foci_run_list *list, int64_t count)
{
    const int64_t last = list->count > 0 ? list->values[list->count - 1] : -1;
    if (last < count || run->start.from[0] != '\0') return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL, "run: '%s' names number %lld, the model's last is %lld",
                     name, (long long)last, (long long)count - 1);
}

static focal_status resolve_temperature(focal_ctx *ctx, foci_run *run)
{
    const bool is_continued = run->start.from[0] != '\0';
    if (is_continued && !is_given(run, "temperature.value")) run->temperature.value = 1.0;
    if (run->temperature.length_n0 == 0) run->temperature.length_n0 = run->data.length;
    FOCAL_TRY(
        check_list(ctx, run, "temperature.layers", &run->temperature.layers, run->model.layers));
    FOCAL_TRY(check_list(ctx, run, "temperature.heads", &run->temperature.heads, run->model.heads));
    if (!is_continued &&
        (run->start.ramp_steps > 0 || run->start.rope_base > 0.0 || run->start.yarn_factor > 1.0))
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "run: start.ramp_steps, start.rope_base and start.yarn_factor need a model "
            "in start.from");
    if (run->start.rope_base > 0.0 && run->start.rope_base < 1.0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: start.rope_base is %g, 0 or at least 1 are accepted",
                         run->start.rope_base);
    return FOCAL_OK;
}

static focal_status resolve_schedule(focal_ctx *ctx, foci_run *run)
{
    const bool has_minutes = run->schedule.minutes > 0.0;
    if (has_minutes && !is_given(run, "schedule.steps")) run->schedule.steps = 0;
    if (!has_minutes && run->schedule.steps == 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: neither schedule.steps nor schedule.minutes says when it ends");
    if (run->schedule.steps == 0) return FOCAL_OK;
    if (!is_given(run, "schedule.warmup"))
        run->schedule.warmup = foci_min64(run->schedule.warmup, run->schedule.steps / 10);
    if (run->schedule.warmup > run->schedule.steps)
        return foci_fail(ctx, FOCAL_EINVAL, "run: %lld steps of warm-up in a run of %lld",
                         (long long)run->schedule.warmup, (long long)run->schedule.steps);
    return FOCAL_OK;
}

focal_status foci_run_resolve(focal_ctx *ctx, foci_run *run)
{
    if (run->data.batch % run->data.accumulation != 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: a batch of %lld (data.batch) does not divide into %lld passes "
                         "(data.accumulation)",
                         (long long)run->data.batch, (long long)run->data.accumulation);
    if (run->optimiser.lr <= 0.0)
        return foci_fail(ctx, FOCAL_EINVAL, "run: optimiser.lr is %g, it must be above 0",
                         run->optimiser.lr);
    FOCAL_TRY(resolve_model(ctx, run));
    FOCAL_TRY(resolve_temperature(ctx, run));
    return resolve_schedule(ctx, run);
}
