/* Ids to text: whole, and an id at a time in whole characters. */
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/tokenizer.h"

static const char replacement[] = "\xEF\xBF\xBD"; /* U+FFFD */

focal_status foci_repair(focal_ctx *ctx, const char *text, size_t bytes, focal_buffer *out,
                         size_t *left)
{
    size_t at = 0;
    *left = 0;
    while (at < bytes) {
        const size_t valid = foci_utf8_valid(text + at, bytes - at);
        FOCAL_TRY(foci_buffer_put(ctx, out, text + at, valid));
        at += valid;
        if (at == bytes) break;
        size_t length;
        if (foci_utf8_decode(text + at, bytes - at, &length) == FOCI_UTF8_PARTIAL) {
            *left = bytes - at;
            break;
        }
        FOCAL_TRY(foci_buffer_put(ctx, out, replacement, sizeof replacement - 1));
        at += length;
    }
    return FOCAL_OK;
}

/* Appends what a token stands for; is_first when it is the first that is shown. */
static focal_status render(focal_ctx *ctx, const focal_tokenizer *tokenizer, int32_t id,
                           bool is_first, focal_buffer *out)
{
    const foci_decoder *decoder = &tokenizer->decoder;
    size_t bytes;
    const char *text = foci_vocab_text(tokenizer->vocab, id, &bytes);
    if (decoder->has_byte_tokens && tokenizer->vocab->kind[id] == FOCAL_TOKEN_BYTE) {
        const int value = foci_byte_of_name(text, bytes);
        const char byte = (char)value;
        if (value >= 0) return foci_buffer_put(ctx, out, &byte, 1);
    }
    if (decoder->what_bytes == 0) return foci_buffer_put(ctx, out, text, bytes);
    return foci_replace_text(ctx, text, bytes, decoder->what, decoder->what_bytes, decoder->with,
                             is_first && decoder->first_drops ? 0 : decoder->with_bytes, out);
}

/* Takes the leading spaces that the whole text must lose out of what stands behind `from`. */
static void strip(const foci_decoder *decoder, focal_text_stream *stream, focal_buffer *out,
                  size_t from)
{
    size_t drop = 0;
    while (stream->strip_left > 0 && from + drop < out->bytes) {
        if (out->data[from + drop] != decoder->strip_byte) {
            stream->strip_left = 0;
            break;
        }
        stream->strip_left--;
        drop++;
    }
    if (drop == 0) return;
    memmove(out->data + from, out->data + from + drop, out->bytes - from - drop);
    out->bytes -= drop;
}

/* Appends the bytes that an id adds to the text so far. */
static focal_status put_token(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                              focal_text_stream *stream, int32_t id, focal_buffer *out)
{
    if (id < 0 || id >= tokenizer->vocab->size)
        return foci_fail(ctx, FOCAL_EINVAL, "decode: id %d, the vocabulary ends at %d", id,
                         tokenizer->vocab->size);
    const focal_token_kind kind = (focal_token_kind)tokenizer->vocab->kind[id];
    if ((stream->flags & FOCAL_DECODE_SKIP_SPECIAL) &&
        (kind == FOCAL_TOKEN_CONTROL || kind == FOCAL_TOKEN_UNKNOWN))
        return FOCAL_OK;
    const size_t from = out->bytes;
    const bool is_first = !stream->has_begun;
    if (is_first) stream->strip_left = tokenizer->decoder.strip_left;
    FOCAL_TRY(render(ctx, tokenizer, id, is_first, out));
    stream->has_begun = true;
    strip(&tokenizer->decoder, stream, out, from);
    return FOCAL_OK;
}

static focal_status check_flags(focal_ctx *ctx, unsigned flags)
{
    const unsigned known = FOCAL_DECODE_SKIP_SPECIAL;
    if (flags & ~known)
        return foci_fail(ctx, FOCAL_EINVAL, "decode: flags %u, known are %u", flags, known);
    return FOCAL_OK;
}

focal_status focal_tokenizer_decode(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                    const int32_t *ids, int64_t count, unsigned flags,
                                    focal_buffer *out)
{
    if (!tokenizer || !out || count < 0 || (!ids && count > 0))
        return foci_fail(ctx, FOCAL_EINVAL, "decode: a tokenizer, ids and a buffer must be given");
    FOCAL_TRY(check_flags(ctx, flags));
    focal_text_stream stream = {.flags = flags};
    const size_t before = out->bytes;
    for (int64_t n = 0; n < count; n++) {
        const focal_status status = put_token(ctx, tokenizer, &stream, ids[n], out);
        if (status == FOCAL_OK) continue;
        out->bytes = before;
        return status;
    }
    return FOCAL_OK;
}

focal_status focal_text_stream_push(focal_ctx *ctx, const focal_tokenizer *tokenizer,
                                    focal_text_stream *stream, int32_t id, focal_buffer *out)
{
    if (!tokenizer || !stream || !out)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "stream: a tokenizer, a stream and a buffer must be given");
    FOCAL_TRY(check_flags(ctx, stream->flags));
    focal_buffer piece = {0};
    focal_text_stream next = *stream;
    const size_t before = out->bytes;
    size_t left = 0;
    focal_status status = foci_buffer_put(ctx, &piece, stream->held, (size_t)stream->held_count);
    if (status == FOCAL_OK) status = put_token(ctx, tokenizer, &next, id, &piece);
    if (status == FOCAL_OK) status = foci_repair(ctx, piece.data, piece.bytes, out, &left);
    if (status == FOCAL_OK) {
        if (left > 0) memcpy(next.held, piece.data + piece.bytes - left, left);
        next.held_count = (int32_t)left;
        *stream = next;
    } else {
        out->bytes = before;
    }
    focal_buffer_free(ctx, &piece);
    return status;
}

focal_status focal_text_stream_end(focal_ctx *ctx, focal_text_stream *stream, focal_buffer *out)
{
    if (stream->held_count > 0)
        FOCAL_TRY(foci_buffer_put(ctx, out, replacement, sizeof replacement - 1));
    *stream = (focal_text_stream){.flags = stream->flags};
    return FOCAL_OK;
}
