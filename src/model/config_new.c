/* The configuration of a model that begins here, as its family's first files have it. */
#include <math.h>
#include <stdio.h>

#include "base/ctx.h"
#include "base/error.h"
#include "model/config.h"

focal_status foci_config_new(focal_ctx *ctx, const foci_shape *shape, foci_config *out)
{
    const foci_family *family = shape->family;
    foci_config c = {.family = family,
                     .L = shape->L,
                     .C = shape->C,
                     .H = shape->H,
                     .G = shape->G,
                     .D = shape->D,
                     .F = shape->F,
                     .V = shape->V,
                     .context = shape->context,
                     .norm = family->norm,
                     .norm_place = family->norm_place,
                     .epsilon = family->is_gpt2 ? 1e-5F : 1e-6F,
                     .qk_norm = family->qk_norm,
                     .activation = family->activation,
                     .is_gated = !family->is_gpt2,
                     .has_positions = family->is_gpt2,
                     .is_tied = shape->is_tied,
                     .embed_scale = 1.0F,
                     .attn_scale = shape->D > 0 ? (float)(1.0 / sqrt((double)shape->D)) : 1.0F,
                     .rope_style = FOCI_ROPE_HALVES};
    if (!c.has_positions) {
        c.rope = (foci_rope_config){.rotated = shape->D, .base = shape->rope_base};
        c.rope_local = c.rope;
    }
    if (foci_config_check(ctx, "a new model", &c) != FOCAL_OK) {
        char why[256]; /* what is no file's fault is the caller's */
        (void)snprintf(why, sizeof why, "%s", focal_ctx_error(ctx));
        return foci_fail(ctx, FOCAL_EINVAL, "%s", why);
    }
    *out = c;
    return FOCAL_OK;
}
