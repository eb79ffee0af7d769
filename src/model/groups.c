/* The memory of groups: which tensors a layer has, one behind the other. */
#include "model/groups.h"

#include <math.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "ops/route/route_check.h"

static const int32_t default_top = 4, default_top_fit = 2, default_window = 128, default_sinks = 4;

const char *foci_groups_form(const foci_groups_shape *shape)
{
    static const char *const names[] = {[FOCI_GROUPS_RANDOM] = "random",
                                        [FOCI_GROUPS_NONE] = "none",
                                        [FOCI_GROUPS_SCALE] = "scale"};
    if (shape->source == FOCI_GROUPS_ROUTER) return shape->is_raw ? "raw" : "unit";
    return names[shape->source];
}

const char *foci_group_tensor_name(foci_group_tensor which)
{
    static const char *const names[FOCI_GROUP_TENSORS] = {"pk", "pq",   "ak", "aq",
                                                          "e",  "beta", "lt", "ls"};
    return names[which];
}

static bool is_lowest(const foci_groups_shape *shape, int32_t layer)
{
    int32_t n = 0;
    while (n < layer && !shape->layers[n]) n++;
    return n == layer && shape->layers[n];
}

int64_t foci_groups_count(const foci_groups_shape *shape, int32_t layer, foci_group_tensor which)
{
    const int64_t routers = shape->routers, R = shape->R;
    const bool is_directed = shape->mode == FOCAL_DIRECTED;
    if (which == FOCI_GROUP_LT) return shape->has_temperatures ? shape->H : 0;
    if (which == FOCI_GROUP_LS)
        return shape->source == FOCI_GROUPS_SCALE && is_lowest(shape, layer) ? 1 : 0;
    if (!shape->layers[layer] || shape->source != FOCI_GROUPS_ROUTER) return 0;
    switch (which) {
    case FOCI_GROUP_PK:
        return routers * shape->C * R;
    case FOCI_GROUP_PQ:
        return is_directed ? routers * shape->C * R : 0;
    case FOCI_GROUP_AK:
        return shape->is_raw ? 0 : routers * R;
    case FOCI_GROUP_AQ:
        return is_directed && !shape->is_raw ? routers * R : 0;
    case FOCI_GROUP_E:
        return routers * shape->K * R;
    case FOCI_GROUP_BETA:
        return shape->is_raw ? 0 : routers * shape->K;
    default:
        return 0;
    }
}

static focal_status check_shape(focal_ctx *ctx, const foci_groups_shape *s)
{
    if (s->L < 1 || s->L > FOCI_MAX_LAYERS || s->C < 1 || s->C > FOCI_MAX_WIDTH || s->H < 1 ||
        s->G < 1 || s->H > FOCI_MAX_WIDTH || s->H % s->G != 0)
        return foci_fail(ctx, FOCAL_EINVAL, "groups: %d layers of width %d, %d heads on %d", s->L,
                         s->C, s->H, s->G);
    if (s->K < 1 || s->K > FOCAL_MAX_GROUPS)
        return foci_fail(ctx, FOCAL_EINVAL, "groups: %d groups, 1 to %d are possible", s->K,
                         FOCAL_MAX_GROUPS);
    if (s->R < 1 || s->R > FOCI_ROUTE_MAX_WIDTH)
        return foci_fail(ctx, FOCAL_EINVAL, "groups: a router of width %d, 1 to %d are possible",
                         s->R, FOCI_ROUTE_MAX_WIDTH);
    if (s->routers != 1 && s->routers != s->G)
        return foci_fail(ctx, FOCAL_EINVAL, "groups: %d routers a layer, 1 or %d are possible",
                         s->routers, s->G);
    if (s->mode != FOCAL_DIRECTED && s->mode != FOCAL_SHARED)
        return foci_fail(ctx, FOCAL_EINVAL, "groups: mode %d is unknown", (int)s->mode);
    if (s->seed < 0 || s->seed > FOCI_GROUPS_MOST_SEED)
        return foci_fail(ctx, FOCAL_EINVAL, "groups: seed %lld, 0 to %lld are possible",
                         (long long)s->seed, (long long)FOCI_GROUPS_MOST_SEED);
    return FOCAL_OK;
}

/* The router reads the layer's tensors where they lie. */
static focal_router router_of(const foci_groups_shape *s, const foci_groups_layer *layer)
{
    float *const *t = layer->tensors;
    return (focal_router){.C = s->C,
                          .R = s->R,
                          .K = s->K,
                          .routers = s->routers,
                          .is_raw = s->is_raw,
                          .pk = t[FOCI_GROUP_PK],
                          .pq = t[FOCI_GROUP_PQ],
                          .ak = t[FOCI_GROUP_AK],
                          .aq = t[FOCI_GROUP_AQ],
                          .e = t[FOCI_GROUP_E],
                          .beta = t[FOCI_GROUP_BETA]};
}

focal_status foci_groups_new(focal_ctx *ctx, const foci_groups_shape *shape, foci_groups **out)
{
    *out = NULL;
    FOCAL_TRY(check_shape(ctx, shape));
    int64_t count = 0;
    for (int32_t n = 0; n < shape->L; n++)
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++)
            count += foci_groups_count(shape, n, (foci_group_tensor)which);
    foci_groups *groups = foci_alloc(ctx, 1, sizeof *groups);
    if (!groups) return FOCAL_ENOMEM;
    *groups = (foci_groups){.shape = *shape,
                            .top = (int32_t)foci_min64(default_top, shape->K),
                            .top_fit = (int32_t)foci_min64(default_top_fit, shape->K),
                            .window = default_window,
                            .sinks = default_sinks,
                            .number_count = count};
    groups->layers = foci_alloc(ctx, (size_t)shape->L, sizeof *groups->layers);
    groups->numbers = foci_alloc(ctx, (size_t)foci_max64(count, 1), sizeof *groups->numbers);
    if (!groups->layers || !groups->numbers) {
        foci_groups_free(ctx, groups);
        return FOCAL_ENOMEM;
    }
    memset(groups->layers, 0, (size_t)shape->L * sizeof *groups->layers);
    memset(groups->numbers, 0, (size_t)count * sizeof *groups->numbers);
    float *next = groups->numbers;
    for (int32_t n = 0; n < shape->L; n++) {
        foci_groups_layer *layer = &groups->layers[n];
        for (int which = 0; which < FOCI_GROUP_TENSORS; which++) {
            const int64_t size = foci_groups_count(shape, n, (foci_group_tensor)which);
            if (size > 0) layer->tensors[which] = next;
            next += size;
        }
        if (layer->tensors[FOCI_GROUP_LS]) groups->log_scale = layer->tensors[FOCI_GROUP_LS];
        if (layer->tensors[FOCI_GROUP_PK]) layer->router = router_of(shape, layer);
    }
    *out = groups;
    return FOCAL_OK;
}

void foci_groups_free(focal_ctx *ctx, foci_groups *groups)
{
    if (!groups) return;
    foci_free(ctx, groups->layers);
    foci_free(ctx, groups->numbers);
    foci_free(ctx, groups);
}

void foci_groups_limit(foci_groups *groups)
{
    static const foci_group_tensor logs[] = {FOCI_GROUP_LT, FOCI_GROUP_LS};
    const float most = (float)FOCI_MOST_LOG;
    for (int32_t layer = 0; layer < groups->shape.L; layer++)
        for (size_t which = 0; which < FOCAL_COUNT(logs); which++) {
            float *values = groups->layers[layer].tensors[logs[which]];
            const int64_t count = foci_groups_count(&groups->shape, layer, logs[which]);
            for (int64_t n = 0; values && n < count; n++)
                values[n] = fminf(fmaxf(values[n], -most), most);
        }
}
