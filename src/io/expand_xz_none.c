/* Stands in for expand_xz.c where liblzma is missing: such a stream is known and refused. */
#include "base/error.h"
#include "io/expander.h"

static focal_status open_none(focal_ctx *ctx, const char *what, void **state)
{
    *state = NULL;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: this focal was built without liblzma (xz)",
                     what);
}

static focal_status step_none(void *state, foci_expand_spans *spans, bool *is_between)
{
    (void)state;
    (void)spans;
    *is_between = true;
    return FOCAL_EUNSUPPORTED;
}

static void close_none(void *state)
{
    (void)state;
}

const foci_expander foci_expand_xz = {
    "xz", {0xFD, '7', 'z', 'X', 'Z', 0}, 6, open_none, step_none, close_none};
