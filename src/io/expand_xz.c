/* xz through liblzma: any number of streams, one behind the other. */
#include <lzma.h>

#include "base/ctx.h"
#include "base/error.h"
#include "io/expander.h"

enum { MEMORY_MOST = 256 << 20 }; /* xz -9 needs 65 MiB to expand */

typedef struct xz_state {
    focal_ctx *ctx;
    const char *what;
    lzma_allocator allocator;
    lzma_stream stream;
    bool is_between;
} xz_state;

static void *take(void *ctx, size_t count, size_t size)
{
    return foci_alloc(ctx, count, size);
}

static void give(void *ctx, void *block)
{
    foci_free(ctx, block);
}

static void close_xz(void *state)
{
    xz_state *s = state;
    if (!s) return;
    lzma_end(&s->stream);
    foci_free(s->ctx, s);
}

static focal_status open_xz(focal_ctx *ctx, const char *what, void **state)
{
    *state = NULL;
    xz_state *s = foci_alloc(ctx, 1, sizeof *s);
    if (!s) return FOCAL_ENOMEM;
    *s = (xz_state){.ctx = ctx, .what = what, .allocator = {take, give, ctx}};
    s->stream = (lzma_stream)LZMA_STREAM_INIT;
    s->stream.allocator = &s->allocator;
    if (lzma_stream_decoder(&s->stream, MEMORY_MOST, 0) != LZMA_OK) {
        foci_free(ctx, s);
        return foci_fail(ctx, FOCAL_ENOMEM, "%s: no memory for liblzma", what);
    }
    *state = s;
    return FOCAL_OK;
}

/* The next stream, or zeros that pad to four bytes between streams. */
static focal_status begin_next(xz_state *s, foci_expand_spans *spans)
{
    while (spans->in_bytes > 0 && *spans->in == 0) {
        spans->in++;
        spans->in_bytes--;
    }
    if (spans->in_bytes == 0) return FOCAL_OK;
    s->is_between = false;
    if (lzma_stream_decoder(&s->stream, MEMORY_MOST, 0) == LZMA_OK) return FOCAL_OK;
    return foci_fail(s->ctx, FOCAL_ENOMEM, "%s: no memory for liblzma", s->what);
}

static focal_status step_xz(void *state, foci_expand_spans *spans, bool *is_between)
{
    xz_state *s = state;
    if (s->is_between) FOCAL_TRY(begin_next(s, spans));
    *is_between = s->is_between;
    if (s->is_between) return FOCAL_OK;
    s->stream.next_in = spans->in;
    s->stream.avail_in = spans->in_bytes;
    s->stream.next_out = spans->out;
    s->stream.avail_out = spans->out_bytes;
    const lzma_ret code = lzma_code(&s->stream, LZMA_RUN);
    *spans = (foci_expand_spans){s->stream.next_in, s->stream.avail_in, s->stream.next_out,
                                 s->stream.avail_out};
    *is_between = s->is_between = code == LZMA_STREAM_END;
    if (code == LZMA_OK || code == LZMA_STREAM_END || code == LZMA_BUF_ERROR) return FOCAL_OK;
    if (code == LZMA_MEM_ERROR)
        return foci_fail(s->ctx, FOCAL_ENOMEM, "%s: no memory for liblzma", s->what);
    if (code == LZMA_MEMLIMIT_ERROR)
        return foci_fail(s->ctx, FOCAL_EUNSUPPORTED,
                         "%s: the xz data need more than %d MiB to expand", s->what,
                         MEMORY_MOST >> 20);
    return foci_fail(s->ctx, FOCAL_EFORMAT, "%s: the xz data are damaged", s->what);
}

const foci_expander foci_expand_xz = {"xz",    {0xFD, '7', 'z', 'X', 'Z', 0}, 6, open_xz, step_xz,
                                      close_xz};
