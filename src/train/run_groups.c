/* What the settings of groups say together: defaults where groups alone learn (docs/MATH.md, 6.1),
 * and contradictions. */
#include "train/run_groups.h"

#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "train/run_value.h"

/* Tokens that a pass has by default: more of them take more memory and no less time. */
enum { PASS_TOKENS = 4096 };

bool foci_run_has_groups(const foci_run *run)
{
    if (run->learn == FOCI_RUN_LEARN_GROUPS) return run->groups.method != FOCI_RUN_LORA;
    return run->groups.count > 0;
}

bool foci_run_is_grouped(const foci_run *run)
{
    return foci_run_has_groups(run) && run->groups.method != FOCI_RUN_ONLY_TEMPERATURE &&
           run->groups.method != FOCI_RUN_ONLY_WINDOW && run->groups.method != FOCI_RUN_ONLY_SCALE;
}

bool foci_run_is_near(const foci_run *run)
{
    return run->groups.method == FOCI_RUN_ONLY_WINDOW ||
           (run->groups.method == FOCI_RUN_ONLY_TEMPERATURE && run->groups.top == 0);
}

bool foci_run_has_steps(const foci_run *run)
{
    return run->learn == FOCI_RUN_LEARN_ALL || run->groups.method == FOCI_RUN_FOCUS ||
           run->groups.method == FOCI_RUN_ONLY_TEMPERATURE || run->groups.method == FOCI_RUN_LORA ||
           run->groups.method == FOCI_RUN_ONLY_SCALE;
}

bool foci_run_is_causal(const foci_run *run)
{
    return !foci_run_is_grouped(run) || !foci_run_has_steps(run) ||
           run->groups.balance != FOCI_RUN_BALANCE_SINKHORN;
}

bool foci_run_has_data(const foci_run *run)
{
    return run->learn == FOCI_RUN_LEARN_ALL ||
           (run->groups.method != FOCI_RUN_ONLY_WINDOW && run->groups.method != FOCI_RUN_RANDOM);
}

/* Whether what is fitted sees fewer keys than the model, and so has something to learn from it. */
static bool sees_less(const foci_run *run)
{
    return foci_run_is_grouped(run) || foci_run_is_near(run);
}

/* What is not given is as docs/MATH.md, 6.1 has it, and not as training from nothing does. */
static void take_defaults(foci_run *run)
{
    static const struct {
        const char *key, *value;
    } defaults[] = {{"data.batch", "4"},
                    {"data.repeat", "0.3"},
                    {"objective", "kl"},
                    {"groups.count", "16"},
                    {"groups.temperatures", "true"},
                    {"optimiser.lr", "0.002"},
                    {"optimiser.beta2", "0.99"},
                    {"optimiser.decay", "0"},
                    {"schedule.floor", "0"},
                    {"schedule.warmup", "20"},
                    {"schedule.steps", "250"},
                    {"recompute", "inputs"},
                    {"checkpoint.every", "10"},
                    {"validation.every", "50"},
                    {"validation.tokens", "16384"}};
    /* LoRA moves weights that every token passes: what routers need would throw the model off. */
    static const double lora_rate = 0.0002;
    /* A single number has far to go in the same steps. */
    static const double scale_rate = 0.02;
    char problem[FOCI_RUN_PROBLEM];
    for (size_t n = 0; n < FOCAL_COUNT(defaults); n++) {
        const int key = foci_run_find(foci_text_of(defaults[n].key));
        if (!run->is_given[key])
            (void)foci_run_value_read(&foci_run_keys[key], foci_text_of(defaults[n].value), run,
                                      problem);
    }
    if (!sees_less(run) && !foci_run_is_given(run, "objective")) run->objective = FOCI_RUN_LM;
    if (run->groups.method == FOCI_RUN_LORA && !foci_run_is_given(run, "optimiser.lr"))
        run->optimiser.lr = lora_rate;
    if (run->groups.method == FOCI_RUN_ONLY_SCALE && !foci_run_is_given(run, "optimiser.lr"))
        run->optimiser.lr = scale_rate;
    if (foci_run_is_given(run, "data.accumulation")) return;
    int64_t windows = foci_max64(PASS_TOKENS / run->data.length, 1);
    windows = foci_min64(windows, run->data.batch);
    while (run->data.batch % windows != 0) windows--;
    run->data.accumulation = run->data.batch / windows;
}

static focal_status check_frozen(focal_ctx *ctx, const foci_run *run)
{
    if (run->start.from[0] == '\0')
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: learn = groups needs a model that they are fitted to (start.from)");
    if (run->start.rope_base > 0.0 || run->start.yarn_factor > 1.0 || run->start.ramp_steps > 0 ||
        (foci_run_is_given(run, "temperature.value") && run->temperature.value != 1.0) ||
        run->temperature.kind != FOCI_RUN_T_CONSTANT)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: with learn = groups the model stays as it is: no temperature.*, "
                         "start.ramp_steps, start.rope_base or start.yarn_factor");
    if (run->groups.first > 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: groups.first is %lld, which is for learn = all: here nothing else "
                         "learns",
                         (long long)run->groups.first);
    if (run->groups.count < 1)
        return foci_fail(ctx, FOCAL_EINVAL, "run: learn = groups with groups.count = 0");
    if (run->optimiser.kind == FOCI_RUN_MUON)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: optimiser.kind is muon, which is for the matrices of a model's "
                         "layers: with learn = groups they stay as they are");
    if (!sees_less(run) && run->objective == FOCI_RUN_KL)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: objective = kl has nothing to teach %s: the model "
                         "that sees all keys is the best by it; set objective = lm",
                         run->groups.method == FOCI_RUN_LORA         ? "LoRA"
                         : run->groups.method == FOCI_RUN_ONLY_SCALE ? "a scale"
                                                                     : "temperatures alone");
    if (run->groups.method == FOCI_RUN_ONLY_TEMPERATURE && !run->groups.temperatures)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: groups.method = temperature with groups.temperatures = false "
                         "leaves nothing to learn");
    return FOCAL_OK;
}

static focal_status check_beside(focal_ctx *ctx, const foci_run *run)
{
    if (run->groups.method != FOCI_RUN_FOCUS)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: groups.method is for learn = groups; where all learns it is focus");
    if (run->groups.first > 0 && run->groups.count == 0)
        return foci_fail(ctx, FOCAL_EINVAL, "run: groups.first is %lld, there are no groups",
                         (long long)run->groups.first);
    if (run->objective == FOCI_RUN_KL && run->groups.first == 0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: objective = kl measures groups against the model as it is; with "
                         "learn = all it is for the steps of groups.first");
    return FOCAL_OK;
}

static focal_status resolve_top(focal_ctx *ctx, foci_run *run)
{
    /* Half of the groups by default, at most: a token that looks into all of them sees all. */
    const int64_t K = run->groups.count, half = foci_max64(K / 2, 1);
    if (!foci_run_is_given(run, "groups.top")) run->groups.top = foci_min64(run->groups.top, half);
    if (!foci_run_is_given(run, "groups.top_fit"))
        run->groups.top_fit = foci_min64(run->groups.top_fit, half);
    if (run->groups.top == 0 && foci_run_is_grouped(run))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: groups.top is 0, which is window and sinks alone: for groups.method "
                         "= temperature or none");
    if (run->groups.top > K || run->groups.top_fit > K)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: groups.top is %lld and groups.top_fit %lld, there are %lld groups",
                         (long long)run->groups.top, (long long)run->groups.top_fit, (long long)K);
    return FOCAL_OK;
}

static focal_status resolve_balance(focal_ctx *ctx, foci_run *run)
{
    const bool is_sign = run->groups.balance == FOCI_RUN_BALANCE_SIGN;
    const bool is_moved = is_sign || run->groups.balance == FOCI_RUN_BALANCE_BIAS;
    if (is_sign && !foci_run_is_given(run, "groups.rate")) run->groups.rate = 0.11;
    if (is_sign && !foci_run_is_given(run, "groups.rate_end")) run->groups.rate_end = 0.01;
    if (is_moved && run->groups.router == FOCI_RUN_ROUTER_RAW)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: groups.router = raw has no bias to move: groups.balance must be "
                         "sinkhorn or none");
    return FOCAL_OK;
}

focal_status foci_run_resolve_groups(focal_ctx *ctx, foci_run *run)
{
    const bool is_frozen = run->learn == FOCI_RUN_LEARN_GROUPS;
    if (is_frozen) take_defaults(run);
    FOCAL_TRY(is_frozen ? check_frozen(ctx, run) : check_beside(ctx, run));
    if (run->objective == FOCI_RUN_KL && run->optimiser.z_loss > 0.0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: optimiser.z_loss is %g, which goes with objective = lm alone",
                         run->optimiser.z_loss);
    if (!foci_run_has_groups(run)) return FOCAL_OK;
    FOCAL_TRY(resolve_top(ctx, run));
    return resolve_balance(ctx, run);
}
