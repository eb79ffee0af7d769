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

/* ---- Which keys do something ---- */

enum {
    FOCUS = 1 << FOCI_RUN_FOCUS,
    START = 1 << FOCI_RUN_ONLY_START,
    RANDOM = 1 << FOCI_RUN_RANDOM,
    WINDOW = 1 << FOCI_RUN_ONLY_WINDOW,
    TEMPERATURE = 1 << FOCI_RUN_ONLY_TEMPERATURE,
    SCALE = 1 << FOCI_RUN_ONLY_SCALE,
    LORA = 1 << FOCI_RUN_LORA,
    ROUTERS = FOCUS | START,
    GROUPS = ROUTERS | RANDOM,
    DISTANCE = GROUPS | WINDOW | TEMPERATURE | SCALE, /* a pair is near or not */
    STEPS = FOCUS | TEMPERATURE | SCALE | LORA,
    DATA = STEPS | START
};

/* Keys, or what they begin with where a dot is last, and the methods of learn = groups that look at
 * them; the first line of a key counts. What is not listed is for all, or refused by a sentence of
 * its own. */
static const struct {
    const char *key;
    unsigned methods;
} uses[] = {{"data.batch", STEPS},
            {"data.accumulation", STEPS},
            {"data.repeat", STEPS},
            {"data.", DATA},
            {"objective", STEPS},
            {"groups.count", GROUPS},
            {"groups.width", ROUTERS},
            {"groups.top", GROUPS | TEMPERATURE},
            {"groups.top_fit", ROUTERS},
            {"groups.window", DISTANCE},
            {"groups.sinks", DISTANCE},
            {"groups.scope", GROUPS},
            {"groups.mode", GROUPS},
            {"groups.gate", FOCUS},
            {"groups.balance", ROUTERS},
            {"groups.rate", ROUTERS},
            {"groups.rate_end", ROUTERS},
            {"groups.router", ROUTERS},
            {"groups.temperatures", ROUTERS | TEMPERATURE},
            {"groups.init", ROUTERS},
            {"groups.type", ROUTERS | LORA},
            {"lora.", LORA},
            {"optimiser.", STEPS},
            {"schedule.", STEPS},
            {"precision", DATA},
            {"recompute", STEPS},
            {"seed", DATA | RANDOM},
            {"validation.", STEPS},
            {"on_spike", STEPS},
            {"spike_threshold", STEPS}};

/* Whether a line of a table, a key or the beginning of some, is about a key. */
static bool is_about(const char *line, const char *key)
{
    const size_t length = strlen(line);
    return strncmp(line, key, length) == 0 && (line[length - 1] == '.' || key[length] == '\0');
}

bool foci_run_uses(const foci_run *run, const char *key)
{
    /* Temperatures alone see all keys, or none that is distant. */
    static const char *const near[] = {"groups.top", "groups.window", "groups.sinks",
                                       "groups.layers"};
    if (run->learn != FOCI_RUN_LEARN_GROUPS) return true;
    for (size_t n = 0; n < FOCAL_COUNT(near); n++)
        if (strcmp(near[n], key) == 0 && run->groups.method == FOCI_RUN_ONLY_TEMPERATURE)
            return foci_run_is_near(run);
    for (size_t n = 0; n < FOCAL_COUNT(uses); n++)
        if (is_about(uses[n].key, key)) return ((uses[n].methods >> run->groups.method) & 1U) != 0;
    return true;
}

/* ---- What settings say together ---- */

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

/* Routers that stay as they begin get their balance there, and it is the bias's. */
static focal_status check_start(focal_ctx *ctx, const foci_run *run)
{
    char balance[FOCI_RUN_VALUE], router[FOCI_RUN_VALUE];
    const bool is_moved = run->groups.balance == FOCI_RUN_BALANCE_BIAS ||
                          run->groups.balance == FOCI_RUN_BALANCE_SIGN;
    if (run->groups.method != FOCI_RUN_ONLY_START ||
        (is_moved && run->groups.router == FOCI_RUN_ROUTER_UNIT))
        return FOCAL_OK;
    foci_run_value(run, foci_run_find(foci_text_of("groups.balance")), balance);
    foci_run_value(run, foci_run_find(foci_text_of("groups.router")), router);
    return foci_fail(ctx, FOCAL_EINVAL,
                     "run: groups.method = start balances routers by their bias: groups.balance "
                     "must be bias or sign and groups.router unit, they are %.16s and %.16s",
                     balance, router);
}

static focal_status check_optimiser(focal_ctx *ctx, const foci_run *run)
{
    if (run->optimiser.kind == FOCI_RUN_MUON)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: optimiser.kind is muon, which is for the matrices of a model's "
                         "layers: with learn = groups they stay as they are");
    if (run->optimiser.decay > 0.0)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: optimiser.decay is %g, which is for the matrices of a model: with "
                         "learn = groups they stay as they are, and it must be 0",
                         run->optimiser.decay);
    return FOCAL_OK;
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
    FOCAL_TRY(check_optimiser(ctx, run));
    FOCAL_TRY(check_start(ctx, run));
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

/* Who says how groups should be wants some. Who says that there are none, as arms of a sweep do
 * beside others, need not take the rest back. */
static focal_status check_without_groups(focal_ctx *ctx, const foci_run *run)
{
    static const char prefix[] = "groups.";
    if (run->groups.count > 0 || foci_run_is_given(run, "groups.count")) return FOCAL_OK;
    for (int n = 0; n < FOCI_RUN_KEYS; n++) {
        char value[FOCI_RUN_VALUE];
        const char *name = foci_run_keys[n].name;
        if (strncmp(name, prefix, sizeof prefix - 1) != 0 || foci_run_is_default(run, n)) continue;
        foci_run_value(run, n, value);
        return foci_fail(ctx, FOCAL_EINVAL,
                         "run: %s is %.64s, and groups.count does not say how many groups there "
                         "are; 0 is none",
                         name, value);
    }
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
    FOCAL_TRY(check_without_groups(ctx, run));
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
