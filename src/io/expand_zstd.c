/* zstd through libzstd: any number of frames, one behind the other. The library's own limit on the
 * window, 128 MiB, bounds its memory. */
#include <zstd.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/expander.h"

typedef struct zstd_state {
    focal_ctx *ctx;
    const char *what;
    ZSTD_DStream *stream;
} zstd_state;

static void close_zstd(void *state)
{
    zstd_state *s = state;
    if (!s) return;
    (void)ZSTD_freeDStream(s->stream);
    foci_free(s->ctx, s);
}

static focal_status open_zstd(focal_ctx *ctx, const char *what, void **state)
{
    *state = NULL;
    zstd_state *s = foci_alloc(ctx, 1, sizeof *s);
    if (!s) return FOCAL_ENOMEM;
    *s = (zstd_state){.ctx = ctx, .what = what, .stream = ZSTD_createDStream()};
    if (!s->stream) {
        foci_free(ctx, s);
        return foci_fail(ctx, FOCAL_ENOMEM, "%s: no memory for zstd", what);
    }
    *state = s;
    return FOCAL_OK;
}

static focal_status step_zstd(void *state, foci_expand_spans *spans, bool *is_between)
{
    zstd_state *s = state;
    ZSTD_inBuffer in = {spans->in, spans->in_bytes, 0};
    ZSTD_outBuffer out = {spans->out, spans->out_bytes, 0};
    const size_t code = ZSTD_decompressStream(s->stream, &out, &in);
    spans->in += in.pos;
    spans->in_bytes -= in.pos;
    spans->out += out.pos;
    spans->out_bytes -= out.pos;
    *is_between = code == 0;
    if (!ZSTD_isError(code)) return FOCAL_OK;
    return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: the zstd data are damaged: %s", s->what,
                     ZSTD_getErrorName(code));
}

const foci_expander foci_expand_zstd = {
    "zstd", {0x28, 0xB5, 0x2F, 0xFD}, 4, open_zstd, step_zstd, close_zstd};
