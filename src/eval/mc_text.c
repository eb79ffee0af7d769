/* Texts of multiple choice as ids, by the rules of lm-evaluation-harness: context and choice are
 * tokenised together, and white space between them is the choice's. */
#include "eval/mc_text.h"

#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "text/utf8.h"

/* Bytes of white space that a text begins with. */
static size_t space_before(const char *text, size_t bytes)
{
    size_t at = 0, step;
    while (at < bytes && foci_is_space(foci_utf8_decode(text + at, bytes - at, &step))) at += step;
    return at;
}

/* Bytes of a text up to its last character that is no white space. */
static size_t bytes_before_space(const char *text, size_t bytes)
{
    size_t end = 0;
    for (size_t at = 0, step; at < bytes; at += step)
        if (!foci_is_space(foci_utf8_decode(text + at, bytes - at, &step))) end = at + step;
    return end;
}

int32_t foci_mc_choice_bytes(focal_mc_text choice)
{
    return (int32_t)(choice.bytes - space_before(choice.data, choice.bytes));
}

int64_t foci_mc_common(const focal_ids *a, const focal_ids *b)
{
    const int64_t most = foci_min64(a->count, b->count);
    int64_t n = 0;
    while (n < most && a->ids[n] == b->ids[n]) n++;
    return n;
}

static focal_status put_id(foci_mc_texts *t, int32_t id, focal_ids *ids)
{
    FOCAL_TRY(foci_ids_reserve(t->ctx, ids, 1));
    ids->ids[ids->count++] = id;
    return FOCAL_OK;
}

/* The first `bytes` of text, behind the begin token that the model expects. A choice that nothing
 * stands before gets one all the same: something must predict it. */
static focal_status encode(foci_mc_texts *t, size_t bytes, focal_ids *ids)
{
    const focal_special_ids special = focal_tokenizer_special(t->tokenizer);
    const int32_t begin = special.bos >= 0 ? special.bos : special.eos;
    ids->count = 0;
    if (begin >= 0 && (special.add_bos || t->context_bytes == 0)) FOCAL_TRY(put_id(t, begin, ids));
    return focal_tokenizer_encode(t->ctx, t->tokenizer, t->text.data, bytes, 0, ids);
}

/* Cuts ids off the beginning of the prefix. What is left can have more ids than it had as part of
 * the whole, so it is looked at again. */
static focal_status cut_prefix(foci_mc_texts *t, int32_t most, focal_ids *ids, focal_buffer *end)
{
    for (;;) {
        ids->count = 0;
        FOCAL_TRY(
            focal_tokenizer_encode(t->ctx, t->tokenizer, t->text.data, t->text.bytes, 0, ids));
        if (ids->count <= most) return FOCAL_OK;
        end->bytes = 0;
        FOCAL_TRY(focal_tokenizer_decode(t->ctx, t->tokenizer, ids->ids + ids->count - most, most,
                                         0, end));
        if (end->bytes >= t->text.bytes ||
            (end->bytes > 0 &&
             memcmp(end->data, t->text.data + t->text.bytes - end->bytes, end->bytes) != 0))
            return foci_fail(t->ctx, FOCAL_EUNSUPPORTED,
                             "mc: the tokenizer does not give the text of the prefix's ids back, "
                             "so the prefix cannot be cut to %d",
                             most);
        size_t first = 0; /* a token may begin inside of a character */
        while (first < end->bytes && ((unsigned char)end->data[first] & 0xC0) == 0x80) first++;
        const size_t kept = end->bytes - first;
        memmove(t->text.data, t->text.data + t->text.bytes - kept, kept);
        t->text.bytes = kept;
    }
}

focal_status foci_mc_texts_open(foci_mc_texts *t, const focal_mc_options *options)
{
    focal_ids ids = {0};
    focal_buffer end = {0};
    focal_status status = FOCAL_OK;
    if (options->prefix)
        status = foci_buffer_put(t->ctx, &t->text, options->prefix, options->prefix_bytes);
    if (status == FOCAL_OK && options->prefix_tokens > 0)
        status = cut_prefix(t, options->prefix_tokens, &ids, &end);
    focal_ids_free(t->ctx, &ids);
    focal_buffer_free(t->ctx, &end);
    t->prefix_bytes = t->text.bytes;
    return status;
}

void foci_mc_texts_close(foci_mc_texts *t)
{
    focal_buffer_free(t->ctx, &t->text);
    focal_ids_free(t->ctx, &t->context_ids);
}

focal_status foci_mc_prefix_ids(foci_mc_texts *t, focal_ids *ids)
{
    t->context_bytes = t->prefix_bytes;
    return encode(t, t->prefix_bytes, ids);
}

/* Makes the text of an item and a choice. */
static focal_status write_text(foci_mc_texts *t, const focal_mc_item *item, int32_t choice)
{
    const focal_mc_text context = item->contexts[choice], own = item->choices[choice];
    t->text.bytes = t->prefix_bytes;
    FOCAL_TRY(foci_buffer_put(t->ctx, &t->text, context.data, context.bytes));
    const size_t bytes = t->text.bytes;
    t->context_bytes = bytes_before_space(t->text.data, bytes);
    const bool has_space = t->context_bytes < bytes || space_before(own.data, own.bytes) > 0;
    if (bytes > 0 && !has_space && !t->joins_bare)
        FOCAL_TRY(foci_buffer_put(t->ctx, &t->text, " ", 1));
    return foci_buffer_put(t->ctx, &t->text, own.data, own.bytes);
}

focal_status foci_mc_text_ids(foci_mc_texts *t, const focal_mc_item *item, int32_t choice,
                              focal_ids *ids)
{
    FOCAL_TRY(write_text(t, item, choice));
    return encode(t, t->text.bytes, ids);
}

focal_status foci_mc_text_split(foci_mc_texts *t, const focal_mc_item *item, int32_t choice,
                                focal_ids *ids, int32_t *from)
{
    FOCAL_TRY(foci_mc_text_ids(t, item, choice, ids));
    const bool is_same = choice > 0 && item->contexts[choice].data == item->contexts[0].data;
    if (!is_same) FOCAL_TRY(encode(t, t->context_bytes, &t->context_ids));
    const int64_t common = foci_mc_common(ids, &t->context_ids);
    if (common == ids->count)
        return foci_fail(t->ctx, FOCAL_EINVAL, "%s: line %lld: choice %d has no token of its own",
                         item->path, (long long)item->line, choice);
    if (common == 0)
        return foci_fail(t->ctx, FOCAL_EINVAL,
                         "%s: line %lld: no token stands before those of choice %d", item->path,
                         (long long)item->line, choice);
    *from = (int32_t)common;
    return FOCAL_OK;
}
