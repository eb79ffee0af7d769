/* Groups as a run sets them. */
#include "train/group_setup.h"

#include "base/error.h"
#include "base/sizes.h"
#include "train/run_groups.h"

enum { SINKHORN_ROUNDS = 10, NO_SINKHORN = -1 };

/* Routers in the layers that are named, or in all that can have one. */
static focal_status choose_layers(focal_ctx *ctx, const foci_run *run, const foci_config *c,
                                  foci_groups_shape *shape)
{
    const foci_run_list *list = &run->groups.layers;
    int32_t count = 0;
    for (int64_t n = 0; n < list->count; n++) {
        if (list->values[n] >= c->L)
            return foci_fail(ctx, FOCAL_EINVAL,
                             "run: 'groups.layers' names number %lld, the model's last is %d",
                             (long long)list->values[n], c->L - 1);
        if (c->is_local[list->values[n]])
            return foci_fail(ctx, FOCAL_EINVAL,
                             "run: 'groups.layers' names number %lld, whose attention has a window "
                             "of its own",
                             (long long)list->values[n]);
        shape->layers[list->values[n]] = true;
    }
    for (int32_t n = 0; n < c->L; n++) {
        if (list->count == 0) shape->layers[n] = !c->is_local[n];
        count += shape->layers[n];
    }
    if (count > 0) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL,
                     "run: no layer of the model can have a router: all have windows of their own");
}

/* What the controls have in place of routers. */
static void choose_source(const foci_run *run, foci_groups_shape *shape)
{
    if (run->groups.method == FOCI_RUN_RANDOM) {
        shape->source = FOCI_GROUPS_RANDOM;
        shape->seed = run->seed;
        shape->R = 1;
        shape->is_raw = shape->has_temperatures = false;
    } else if (!foci_run_is_grouped(run)) {
        const bool is_scale = run->groups.method == FOCI_RUN_ONLY_SCALE;
        shape->source = is_scale ? FOCI_GROUPS_SCALE : FOCI_GROUPS_NONE;
        shape->K = shape->R = shape->routers = 1;
        shape->mode = FOCAL_DIRECTED;
        shape->is_raw = false;
        shape->has_temperatures = run->groups.method == FOCI_RUN_ONLY_TEMPERATURE;
    }
}

/* Routers that begin with the model's heads are no wider than these. */
static focal_status check_width(focal_ctx *ctx, const foci_run *run, const foci_config *c,
                                const foci_groups_shape *shape)
{
    const int64_t most = (int64_t)shape->G / shape->routers * c->D;
    const bool is_free = run->groups.init == FOCI_RUN_BEGIN_RANDOM || !foci_run_is_grouped(run);
    if (shape->R <= most || is_free) return FOCAL_OK;
    return foci_fail(ctx, FOCAL_EINVAL,
                     "run: groups.width is %d, the heads of this model give a router %lld at most",
                     shape->R, (long long)most);
}

focal_status foci_group_setup(focal_ctx *ctx, const foci_run *run, const focal_model *model,
                              foci_groups **out)
{
    const foci_config *c = &model->config;
    foci_groups_shape shape = {.L = c->L,
                               .C = c->C,
                               .H = c->H,
                               .G = c->G,
                               .K = (int32_t)run->groups.count,
                               .R = (int32_t)run->groups.width,
                               .routers = run->groups.scope == FOCI_RUN_SCOPE_KV ? c->G : 1,
                               .mode = run->groups.mode == FOCI_RUN_SHARED ? FOCAL_SHARED
                                                                           : FOCAL_DIRECTED,
                               .is_raw = run->groups.router == FOCI_RUN_ROUTER_RAW,
                               .has_temperatures = run->groups.temperatures};
    *out = NULL;
    choose_source(run, &shape);
    if (shape.source != FOCI_GROUPS_NONE || foci_run_is_near(run))
        FOCAL_TRY(choose_layers(ctx, run, c, &shape));
    FOCAL_TRY(check_width(ctx, run, c, &shape));
    FOCAL_TRY(foci_groups_new(ctx, &shape, out));
    (*out)->top = foci_run_is_grouped(run) ? (int32_t)foci_min64(run->groups.top, shape.K) : 0;
    (*out)->top_fit = (int32_t)foci_min64(run->groups.top_fit, shape.K);
    (*out)->window = (int32_t)run->groups.window;
    (*out)->sinks = (int32_t)run->groups.sinks;
    return FOCAL_OK;
}

foci_groups_pass foci_group_step(const foci_run *run, double part)
{
    static const focal_gate_kind gates[] = {[FOCI_RUN_GATE_STRAIGHT] = FOCAL_GATE_STRAIGHT,
                                            [FOCI_RUN_GATE_PAPER] = FOCAL_GATE_PAPER,
                                            [FOCI_RUN_GATE_LOG] = FOCAL_GATE_LOG};
    const int64_t balance = run->groups.balance;
    const double rate = run->groups.rate + part * (run->groups.rate_end - run->groups.rate);
    return (foci_groups_pass){
        .gate = gates[run->groups.gate],
        .top = (int32_t)run->groups.top_fit,
        .moves_balance = balance == FOCI_RUN_BALANCE_BIAS || balance == FOCI_RUN_BALANCE_SIGN,
        .balance = balance == FOCI_RUN_BALANCE_SIGN ? FOCAL_BALANCE_SIGN : FOCAL_BALANCE_LOG,
        .rate = (float)(rate / (double)run->data.accumulation),
        .sinkhorn_rounds = balance == FOCI_RUN_BALANCE_SINKHORN ? SINKHORN_ROUNDS : NO_SINKHORN};
}

foci_groups_pass foci_group_run(const foci_run *run)
{
    return (foci_groups_pass){.top = (int32_t)run->groups.top, .sinkhorn_rounds = NO_SINKHORN};
}
