/* Names and shapes of an adapter's tensors, in PEFT's manner: "base_model.model." and the module
 * that they belong to. All families have the same names, for the numbers do not depend on it. */
#include "model/adapter_layout.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const char prefix[] = "base_model.model.layers.";
static const char scale_name[] = "base_model.model.log_distant_scale"; /* of no layer: of all */

void foci_adapter_tensor_name(int32_t layer, foci_group_tensor which,
                              char name[FOCI_ADAPTER_NAME_BYTES])
{
    if (which == FOCI_GROUP_LS)
        (void)snprintf(name, FOCI_ADAPTER_NAME_BYTES, "%s", scale_name);
    else if (which == FOCI_GROUP_LT)
        (void)snprintf(name, FOCI_ADAPTER_NAME_BYTES, "%s%d.self_attn.log_temperature", prefix,
                       layer);
    else
        (void)snprintf(name, FOCI_ADAPTER_NAME_BYTES, "%s%d.self_attn.router.%s", prefix, layer,
                       foci_group_tensor_name(which));
}

bool foci_adapter_tensor_place(const foci_groups_shape *shape, const char *name, int32_t *layer,
                               foci_group_tensor *which)
{
    char expected[FOCI_ADAPTER_NAME_BYTES];
    if (strcmp(name, scale_name) == 0) {
        *which = FOCI_GROUP_LS;
        for (*layer = 0; *layer < shape->L; ++*layer)
            if (foci_groups_count(shape, *layer, *which) > 0) return true;
        return false;
    }
    if (strncmp(name, prefix, sizeof prefix - 1) != 0) return false;
    const long number = strtol(name + sizeof prefix - 1, NULL, 10);
    if (number < 0 || number >= shape->L) return false;
    *layer = (int32_t)number;
    for (int n = 0; n < FOCI_GROUP_TENSORS; n++) {
        *which = (foci_group_tensor)n;
        foci_adapter_tensor_name(*layer, *which, expected);
        if (strcmp(name, expected) == 0) return foci_groups_count(shape, *layer, *which) > 0;
    }
    return false;
}

foci_tensor foci_adapter_tensor_shape(const foci_groups_shape *shape, foci_group_tensor which)
{
    const int64_t routers = shape->routers, C = shape->C, R = shape->R, K = shape->K;
    switch (which) {
    case FOCI_GROUP_PK:
    case FOCI_GROUP_PQ:
        return (foci_tensor){.dims = 3, .shape = {routers, C, R, 1}};
    case FOCI_GROUP_AK:
    case FOCI_GROUP_AQ:
        return (foci_tensor){.dims = 2, .shape = {routers, R, 1, 1}};
    case FOCI_GROUP_E:
        return (foci_tensor){.dims = 3, .shape = {routers, K, R, 1}};
    case FOCI_GROUP_BETA:
        return (foci_tensor){.dims = 2, .shape = {routers, K, 1, 1}};
    case FOCI_GROUP_LS:
        return (foci_tensor){.dims = 1, .shape = {1, 1, 1, 1}};
    default:
        return (foci_tensor){.dims = 1, .shape = {shape->H, 1, 1, 1}};
    }
}

focal_status foci_adapter_check_numbers(focal_ctx *ctx, focal_status status, const char *path,
                                        const char *name, const float *numbers, int64_t count)
{
    const bool is_log = strstr(name, "log_temperature") || strcmp(name, scale_name) == 0;
    for (int64_t n = 0; n < count; n++) {
        const double value = (double)numbers[n];
        if (!isfinite(value))
            return foci_fail(ctx, status, "%s: element %lld of '%s' is %s", path, (long long)n,
                             name, isnan(value) ? "not a number" : "infinite");
        if (is_log && fabs(value) > FOCI_MOST_LOG)
            return foci_fail(ctx, status, "%s: element %lld of '%s' is %g, %g to %g are accepted",
                             path, (long long)n, name, value, -FOCI_MOST_LOG, FOCI_MOST_LOG);
    }
    return FOCAL_OK;
}
