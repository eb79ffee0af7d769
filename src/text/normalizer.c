/* The steps of a normalizer, each from one buffer into another. */
#include "text/normalizer.h"

#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/utf8.h"

void foci_normalizer_free(focal_ctx *ctx, foci_normalizer *normalizer)
{
    for (int32_t n = 0; n < normalizer->count; n++) {
        foci_pattern_free(normalizer->steps[n].pattern);
        foci_free(ctx, normalizer->steps[n].what);
        foci_free(ctx, normalizer->steps[n].with);
    }
    normalizer->count = 0;
}

focal_status foci_replace_text(focal_ctx *ctx, const char *text, size_t bytes, const char *what,
                               size_t what_bytes, const char *with, size_t with_bytes,
                               focal_buffer *out)
{
    FOCAL_TRY(foci_buffer_reserve(ctx, out, bytes));
    size_t at = 0;
    while (at < bytes && what_bytes > 0) {
        const char *found = memmem(text + at, bytes - at, what, what_bytes);
        if (!found) break;
        const size_t before = (size_t)(found - text) - at;
        FOCAL_TRY(foci_buffer_put(ctx, out, text + at, before));
        FOCAL_TRY(foci_buffer_put(ctx, out, with, with_bytes));
        at += before + what_bytes;
    }
    return foci_buffer_put(ctx, out, text + at, bytes - at);
}

focal_status foci_mask_invalid(focal_ctx *ctx, const char *text, size_t bytes, focal_buffer *out)
{
    static const char substitute = 0x1A;
    size_t at = 0;
    while (at < bytes) {
        const size_t valid = foci_utf8_valid(text + at, bytes - at);
        FOCAL_TRY(foci_buffer_put(ctx, out, text + at, valid));
        at += valid;
        if (at < bytes) {
            FOCAL_TRY(foci_buffer_put(ctx, out, &substitute, 1));
            at++;
        }
    }
    return FOCAL_OK;
}

static focal_status lower_text(focal_ctx *ctx, const char *text, size_t bytes, focal_buffer *out)
{
    for (size_t at = 0, length; at < bytes; at += length) {
        const int32_t character = foci_utf8_decode(text + at, bytes - at, &length);
        char encoded[2 * FOCI_UTF8_MOST];
        size_t count = 0;
        if (character < 0) {
            FOCAL_TRY(foci_buffer_put(ctx, out, text + at, length));
            continue;
        }
        int32_t lower[2];
        const int32_t characters = foci_lower(character, lower);
        for (int32_t n = 0; n < characters; n++)
            count += foci_utf8_encode(lower[n], encoded + count);
        FOCAL_TRY(foci_buffer_put(ctx, out, encoded, count));
    }
    return FOCAL_OK;
}

/* Patterns need valid UTF-8, so they look at a masked copy, which has the same places. */
static focal_status replace_pattern(focal_ctx *ctx, const foci_normalizer_step *step,
                                    const char *text, size_t bytes, focal_buffer *out)
{
    focal_buffer masked = {0};
    size_t done = 0, from = 0;
    if (bytes == 0) return FOCAL_OK;
    focal_status status = foci_mask_invalid(ctx, text, bytes, &masked);
    int64_t work = foci_pattern_work(bytes);
    const foci_pattern_text in = {masked.data, bytes, &work};
    while (status == FOCAL_OK && from <= bytes) {
        size_t begin, end;
        status = foci_pattern_find(ctx, step->pattern, &in, from, &begin, &end);
        if (status != FOCAL_OK || (begin == bytes && end == begin)) break;
        if (end == begin) { /* an empty match replaces nothing */
            from = begin + foci_utf8_step(masked.data + begin, bytes - begin);
            continue;
        }
        status = foci_buffer_put(ctx, out, text + done, begin - done);
        if (status == FOCAL_OK) status = foci_buffer_put(ctx, out, step->with, step->with_bytes);
        done = from = end;
    }
    if (status == FOCAL_OK) status = foci_buffer_put(ctx, out, text + done, bytes - done);
    focal_buffer_free(ctx, &masked);
    return status;
}

static focal_status strip_text(focal_ctx *ctx, const foci_normalizer_step *step, const char *text,
                               size_t bytes, focal_buffer *out)
{
    size_t begin = 0, end = bytes, length;
    while (step->strip_left && begin < end &&
           foci_is_space(foci_utf8_decode(text + begin, end - begin, &length)))
        begin += length;
    while (step->strip_right && end > begin) {
        size_t last = end - 1;
        while (last > begin && end - last < FOCI_UTF8_MOST && (text[last] & 0xC0) == 0x80) last--;
        if (!foci_is_space(foci_utf8_decode(text + last, end - last, &length))) break;
        end = last;
    }
    return foci_buffer_put(ctx, out, text + begin, end - begin);
}

static focal_status apply_step(focal_ctx *ctx, const foci_normalizer_step *step, const char *text,
                               size_t bytes, focal_buffer *out)
{
    switch (step->kind) {
    case FOCI_NORMALIZE_FORM:
        return foci_normalize(ctx, step->form, text, bytes, out);
    case FOCI_NORMALIZE_LOWER:
        return lower_text(ctx, text, bytes, out);
    case FOCI_NORMALIZE_REPLACE:
        if (step->pattern) return replace_pattern(ctx, step, text, bytes, out);
        return foci_replace_text(ctx, text, bytes, step->what, step->what_bytes, step->with,
                                 step->with_bytes, out);
    case FOCI_NORMALIZE_PREPEND:
        if (bytes > 0) FOCAL_TRY(foci_buffer_put(ctx, out, step->with, step->with_bytes));
        return foci_buffer_put(ctx, out, text, bytes);
    case FOCI_NORMALIZE_STRIP:
        return strip_text(ctx, step, text, bytes, out);
    }
    return FOCAL_OK;
}

focal_status foci_normalizer_apply(focal_ctx *ctx, const foci_normalizer *normalizer,
                                   const char *text, size_t bytes, focal_buffer *out,
                                   focal_buffer *spare)
{
    out->bytes = 0;
    if (normalizer->count == 0) return foci_buffer_put(ctx, out, text, bytes);
    for (int32_t n = 0; n < normalizer->count; n++) {
        /* The result so far moves to spare, and the next step reads it there. */
        const focal_buffer swap = *spare;
        *spare = *out;
        *out = swap;
        out->bytes = 0;
        const char *from = n == 0 ? text : spare->data;
        const size_t from_bytes = n == 0 ? bytes : spare->bytes;
        FOCAL_TRY(apply_step(ctx, &normalizer->steps[n], from, from_bytes, out));
    }
    return FOCAL_OK;
}
