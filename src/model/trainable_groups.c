/* Groups among what learns: on a model whose weights stay as they are, or behind the parameters of
 * a model in training. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "model/layer_temperature.h"
#include "model/trainable.h"

static focal_status check_fit(focal_ctx *ctx, const focal_model *model, const foci_groups *groups)
{
    const foci_config *c = &model->config;
    const foci_groups_shape *s = &groups->shape;
    if (s->L != c->L || s->C != c->C || s->H != c->H || s->G != c->G)
        return foci_fail(
            ctx, FOCAL_EINVAL,
            "groups: made for %d layers of width %d with %d heads on %d, the model has "
            "%d of width %d with %d on %d",
            s->L, s->C, s->H, s->G, c->L, c->C, c->H, c->G);
    for (int32_t n = 0; n < c->L; n++) {
        if (s->layers[n] && c->is_local[n])
            return foci_fail(ctx, FOCAL_EINVAL,
                             "groups: layer %d has a window of its own and takes no router", n);
    }
    return s->has_temperatures ? foci_check_second_temperature(model, "groups") : FOCAL_OK;
}

static bool has_gradient(foci_group_tensor which)
{
    return which != FOCI_GROUP_BETA;
}

/* Rows as they lie; the temperatures are one. */
static int64_t row_width(const foci_groups_shape *s, foci_group_tensor which)
{
    if (which == FOCI_GROUP_LS) return 1;
    return which == FOCI_GROUP_LT ? s->H : s->R;
}

static void count_tensors(const foci_groups_shape *s, int32_t *tensors, size_t *floats)
{
    for (int32_t n = 0; n < s->L; n++)
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++) {
            const int64_t count = foci_groups_count(s, n, (foci_group_tensor)which);
            if (count == 0 || !has_gradient((foci_group_tensor)which)) continue;
            *tensors += 1;
            *floats += (size_t)foci_round_up(count, FOCI_PARAM_STEP);
        }
}

static void add_tensor(foci_trainable *t, int32_t n, foci_group_tensor which)
{
    const foci_groups_shape *s = &t->groups->shape;
    const int64_t count = foci_groups_count(s, n, which);
    if (count == 0 || !has_gradient(which)) return;
    foci_param *param = &t->params[t->param_count++];
    *param = (foci_param){.rows = count / row_width(s, which),
                          .cols = row_width(s, which),
                          .is_in_layer = true,
                          .weights = t->groups->layers[n].tensors[which],
                          .gradient = t->gradients + t->gradient_count};
    if (which == FOCI_GROUP_LS) {
        (void)snprintf(param->name, sizeof param->name, "log_distant_scale");
        t->log_scale = param->gradient;
    } else if (which == FOCI_GROUP_LT) {
        (void)snprintf(param->name, sizeof param->name, "layers.%d.log_temperature", n);
        t->layers[n].lt = param->gradient;
        t->group_temperatures[n] =
            (foci_temperature){.kind = FOCI_TEMPERATURE_PER_HEAD, .lt = param->weights};
    } else {
        (void)snprintf(param->name, sizeof param->name, "layers.%d.router.%s", n,
                       foci_group_tensor_name(which));
        t->layers[n].router[which] = param->gradient;
    }
    t->gradient_count += (size_t)foci_round_up(count, FOCI_PARAM_STEP);
}

/* Where a gradient lies once all of them have moved. */
typedef struct move {
    const float *from;
    float *to;
} move;

static void follow(move by, float **gradient)
{
    if (*gradient) *gradient = by.to + (*gradient - by.from);
}

static void follow_gain(move by, foci_gain_grads *grads)
{
    follow(by, &grads->weight);
    follow(by, &grads->bias);
}

static void follow_linear(move by, foci_linear_grads *grads)
{
    follow(by, &grads->w);
    follow(by, &grads->bias);
}

static void follow_layer(move by, foci_layer_grads *g)
{
    foci_gain_grads *const gains[] = {&g->attn_norm, &g->attn_post, &g->ffn_norm,
                                      &g->ffn_post,  &g->q_norm,    &g->k_norm};
    foci_linear_grads *const linears[] = {&g->qkv, &g->q,    &g->k,  &g->v,
                                          &g->out, &g->gate, &g->up, &g->down};
    for (size_t n = 0; n < FOCAL_COUNT(gains); n++) follow_gain(by, gains[n]);
    for (size_t n = 0; n < FOCAL_COUNT(linears); n++) follow_linear(by, linears[n]);
    follow(by, &g->u);
    follow(by, &g->a);
    follow(by, &g->lt);
}

static void follow_all(move by, foci_trainable *t)
{
    for (int32_t n = 0; n < t->param_count; n++) follow(by, &t->params[n].gradient);
    follow_linear(by, &t->embed);
    follow_linear(by, &t->positions);
    follow_linear(by, &t->head);
    follow_gain(by, &t->final_norm);
    for (int32_t n = 0; n < t->model->config.L; n++) follow_layer(by, &t->layers[n]);
}

focal_status foci_trainable_add_groups(foci_trainable *t, foci_groups *groups)
{
    FOCAL_TRY(check_fit(t->ctx, t->model, groups));
    if (t->groups) return foci_fail(t->ctx, FOCAL_EINVAL, "groups: the model has some already");
    const int32_t L = groups->shape.L;
    int32_t tensors = t->param_count;
    size_t floats = t->gradient_count;
    count_tensors(&groups->shape, &tensors, &floats);
    foci_param *params = foci_trainable_zeros(t->ctx, (size_t)tensors, sizeof *params);
    float *gradients = foci_trainable_zeros(t->ctx, floats, sizeof *gradients);
    foci_temperature *temperatures = NULL;
    if (groups->shape.has_temperatures)
        temperatures = foci_trainable_zeros(t->ctx, (size_t)L, sizeof *temperatures);
    if (!params || !gradients || (groups->shape.has_temperatures && !temperatures)) {
        foci_free(t->ctx, params);
        foci_free(t->ctx, gradients);
        foci_free(t->ctx, temperatures);
        return FOCAL_ENOMEM;
    }
    if (t->param_count > 0) {
        memcpy(params, t->params, (size_t)t->param_count * sizeof *params);
        memcpy(gradients, t->gradients, t->gradient_count * sizeof *gradients);
    }
    foci_free(t->ctx, t->params);
    t->params = params;
    follow_all((move){t->gradients, gradients}, t);
    foci_free(t->ctx, t->gradients);
    t->gradients = gradients;
    t->groups = groups;
    t->group_temperatures = temperatures;
    for (int32_t n = 0; n < L; n++)
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++)
            add_tensor(t, n, (foci_group_tensor)which);
    return FOCAL_OK;
}

focal_status foci_trainable_frozen(focal_model *model, foci_groups *groups, foci_trainable **out)
{
    *out = NULL;
    foci_trainable *t = foci_trainable_zeros(model->ctx, 1, sizeof *t);
    if (!t) return FOCAL_ENOMEM;
    t->ctx = model->ctx;
    t->model = model;
    t->is_frozen = true;
    t->layers = foci_trainable_zeros(t->ctx, (size_t)model->config.L, sizeof *t->layers);
    const focal_status status = t->layers ? foci_trainable_add_groups(t, groups) : FOCAL_ENOMEM;
    if (status == FOCAL_OK)
        *out = t;
    else
        foci_trainable_free(t);
    return status;
}
