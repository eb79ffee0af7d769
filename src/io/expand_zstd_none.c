/* Stands in for expand_zstd.c where libzstd is missing: such a stream is known and refused. */
#include "base/error.h"
#include "io/expander.h"

static focal_status open_none(focal_ctx *ctx, const char *what, void **state)
{
    *state = NULL;
    return foci_fail(ctx, FOCAL_EUNSUPPORTED, "%s: this focal was built without libzstd (zstd)",
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

const foci_expander foci_expand_zstd = {
    "zstd", {0x28, 0xB5, 0x2F, 0xFD}, 4, open_none, step_none, close_none};
