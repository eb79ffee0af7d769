/* gzip through zlib: any number of members, one behind the other. */
#include <limits.h>
#include <string.h>
#include <zlib.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/expander.h"

enum { GZIP_WINDOW = 15 + 16 }; /* 32 KiB, with gzip's header and checksum */

typedef struct gzip_state {
    focal_ctx *ctx;
    const char *what;
    z_stream stream;
    bool is_between;
} gzip_state;

static void *take(void *ctx, unsigned count, unsigned size)
{
    return foci_alloc(ctx, count, size);
}

static void give(void *ctx, void *block)
{
    foci_free(ctx, block);
}

static void close_gzip(void *state)
{
    gzip_state *s = state;
    if (!s) return;
    (void)inflateEnd(&s->stream);
    foci_free(s->ctx, s);
}

static focal_status open_gzip(focal_ctx *ctx, const char *what, void **state)
{
    *state = NULL;
    gzip_state *s = foci_alloc(ctx, 1, sizeof *s);
    if (!s) return FOCAL_ENOMEM;
    *s = (gzip_state){.ctx = ctx, .what = what};
    s->stream.zalloc = take;
    s->stream.zfree = give;
    s->stream.opaque = ctx;
    if (inflateInit2(&s->stream, GZIP_WINDOW) != Z_OK) {
        foci_free(ctx, s);
        return foci_fail(ctx, FOCAL_ENOMEM, "%s: no memory for zlib", what);
    }
    *state = s;
    return FOCAL_OK;
}

static focal_status step_gzip(void *state, foci_expand_spans *spans, bool *is_between)
{
    gzip_state *s = state;
    const size_t in = spans->in_bytes < UINT_MAX ? spans->in_bytes : UINT_MAX;
    const size_t out = spans->out_bytes < UINT_MAX ? spans->out_bytes : UINT_MAX;
    if (s->is_between && in > 0) { /* the next member */
        (void)inflateReset(&s->stream);
        s->is_between = false;
    }
    memcpy((void *)&s->stream.next_in, (const void *)&spans->in, sizeof spans->in); /* const */
    s->stream.avail_in = (unsigned)in;
    s->stream.next_out = spans->out;
    s->stream.avail_out = (unsigned)out;
    const int code = s->is_between ? Z_OK : inflate(&s->stream, Z_NO_FLUSH);
    spans->in += in - s->stream.avail_in;
    spans->in_bytes -= in - s->stream.avail_in;
    spans->out += out - s->stream.avail_out;
    spans->out_bytes -= out - s->stream.avail_out;
    if (code == Z_STREAM_END) s->is_between = true;
    *is_between = s->is_between;
    if (code == Z_OK || code == Z_STREAM_END || code == Z_BUF_ERROR) return FOCAL_OK;
    if (code == Z_MEM_ERROR)
        return foci_fail(s->ctx, FOCAL_ENOMEM, "%s: no memory for zlib", s->what);
    return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: the gzip data are damaged: %s", s->what,
                     s->stream.msg ? s->stream.msg : "unknown fault");
}

const foci_expander foci_expand_gzip = {"gzip", {0x1F, 0x8B}, 2, open_gzip, step_gzip, close_gzip};
