/* What the settings of a run say together: values that follow from others, and contradictions. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "train/run_groups.h"

/* What learned temperatures begin with (docs/MATH.md, 2). */
static const double learned_start = 0.6, paper_start = 0.442;

/* A model that is continued brings its shape; only what is trained of it is said here. */
static focal_status resolve_continued(focal_ctx *ctx, foci_run *run)
{
    static const char prefix[] = "model.";
    if (!foci_run_is_given(run, "model.qk_norm")) run->model.qk_norm = FOCI_RUN_QK_GAIN;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        const char *name = foci_run_keys[n].name;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0 || foci_run_is_default(run, n) ||
            strcmp(name, "model.qk_norm") == 0)
            continue;
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: '%s' cannot be set: the model in start.from brings its own", name);
    }
    return FOCAL_OK;
}

static focal_status resolve_model(focal_ctx *ctx, foci_run *run)
{
    if (run->start.from[0] != '\0') return resolve_continued(ctx, run);
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
    if (run->model.qk_gain != 1.0 &&
        (run->model.qk_norm != FOCI_RUN_QK_GAIN || run->start.from[0] != '\0'))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: model.qk_gain is %g, which needs a new model with model.qk_norm = "
                         "gain",
                         run->model.qk_gain);
    if (!is_gpt2) return FOCAL_OK;

    if (!foci_run_is_given(run, "model.qk_norm")) run->model.qk_norm = FOCI_RUN_QK_NONE;
    if (run->model.qk_norm != FOCI_RUN_QK_NONE || !run->model.tied ||
        run->model.kv_heads != run->model.heads ||
        run->model.head_dim * run->model.heads != run->model.width)
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "run: the family gpt2 is tied, has model.qk_norm = none, as many key heads "
            "as query heads, and heads that make up the width");
    if (!foci_run_is_default(run, foci_run_find(foci_text_of("model.rope_base"))))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: model.rope_base is %g, the family gpt2 has learned positions",
                         run->model.rope_base);
    return FOCAL_OK;
}

/* What temperature.value is where it is not set: math of the kind, or 1 for what is continued. */
static focal_status resolve_value(focal_ctx *ctx, foci_run *run)
{
    const bool is_continued = run->start.from[0] != '\0';
    const bool is_free = !foci_run_is_given(run, "temperature.value");
    switch ((foci_run_temperature)run->temperature.kind) {
    case FOCI_RUN_T_LEARNED:
        if (is_free) run->temperature.value = is_continued ? 1.0 : learned_start;
        break;
    case FOCI_RUN_T_LEARNED_PAPER:
        if (is_free) run->temperature.value = paper_start;
        if (run->temperature.value != paper_start)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "run: temperature.value is %g, learned-paper begins with %g always",
                             run->temperature.value, paper_start);
        break;
    default:
        if (is_free && is_continued) run->temperature.value = 1.0;
        break;
    }
    if (run->start.ramp_steps > 0 && run->temperature.kind != FOCI_RUN_T_CONSTANT)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: start.ramp_steps is %lld, only a constant temperature has a ramp",
                         (long long)run->start.ramp_steps);
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
    FOCAL_TRY(resolve_value(ctx, run));
    if (run->temperature.length_n0 == 0 || !foci_run_is_given(run, "temperature.length_n0"))
        run->temperature.length_n0 = run->data.length;
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
    if (!foci_run_has_steps(run)) {
        run->schedule.steps = run->schedule.warmup = 0;
        run->schedule.minutes = 0.0;
        return FOCAL_OK;
    }
    if (has_minutes && !foci_run_is_given(run, "schedule.steps")) run->schedule.steps = 0;
    if (!has_minutes && run->schedule.steps == 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: neither schedule.steps nor schedule.minutes says when it ends");
    if (run->schedule.steps == 0) return FOCAL_OK;
    if (!foci_run_is_given(run, "schedule.warmup"))
        run->schedule.warmup = foci_min64(run->schedule.warmup, run->schedule.steps / 10);
    if (run->schedule.warmup > run->schedule.steps)
        return foci_fail(ctx, FOCAL_EINVAL, "run: %lld steps of warm-up in a run of %lld",
                         (long long)run->schedule.warmup, (long long)run->schedule.steps);
    return FOCAL_OK;
}

static void make_whole(char path[FOCI_RUN_TEXT])
{
    char *whole = path[0] != '\0' ? realpath(path, NULL) : NULL;
    if (whole && strlen(whole) < FOCI_RUN_TEXT) {
        memset(path, 0, FOCI_RUN_TEXT);
        memcpy(path, whole, strlen(whole));
    }
    free(whole);
}

void foci_run_make_paths_whole(foci_run *run)
{
    make_whole(run->data.shards);
    make_whole(run->start.from);
}

focal_status foci_run_resolve(focal_ctx *ctx, foci_run *run)
{
    FOCAL_TRY(foci_run_resolve_groups(ctx, run));
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

focal_status foci_run_check_data(focal_ctx *ctx, const foci_run *run)
{
    if (!foci_run_has_data(run) || run->data.shards[0] != '\0') return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL,
                     "run: data.shards is not set: the folder that `focal tokenize` wrote");
}
