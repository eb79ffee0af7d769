/* A conversation as ids. Text and control tokens are told apart by where they come from: a message
 * that reads like a control token is rendered as a mark, and its own ids, in which nothing
 * is special, are put there afterwards. Every other text is encoded in one piece, which gives the
 * ids that transformers gives. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "focal/generate.h"

#define MARK_BEGIN "\xEE\x80\x80"
#define MARK_END "\xEE\x80\x81"

enum { MARK_BYTES = 32, TOKEN_BYTES = 256 };

typedef struct chat_run {
    focal_ctx *ctx;
    const focal_tokenizer *tokenizer;
    const focal_chat *chat;
    focal_message *messages; /* (message_count) contents replaced where needed */
    char (*marks)[MARK_BYTES];
    char bos[TOKEN_BYTES], eos[TOKEN_BYTES];
} chat_run;

/* Whether a text holds what would become a special token. */
static focal_status reads_special(const chat_run *r, const char *text, bool *is_special)
{
    focal_ids as_text = {0}, parsed = {0};
    const size_t bytes = strlen(text);
    focal_status status = focal_tokenizer_encode(r->ctx, r->tokenizer, text, bytes, 0, &as_text);
    if (status == FOCAL_OK)
        status = focal_tokenizer_encode(r->ctx, r->tokenizer, text, bytes,
                                        FOCAL_ENCODE_PARSE_SPECIAL, &parsed);
    *is_special = as_text.count != parsed.count ||
                  (parsed.count > 0 &&
                   memcmp(as_text.ids, parsed.ids, (size_t)parsed.count * sizeof *parsed.ids) != 0);
    focal_ids_free(r->ctx, &as_text);
    focal_ids_free(r->ctx, &parsed);
    return status;
}

static focal_status hide_special(chat_run *r)
{
    for (int32_t n = 0; n < r->chat->message_count; n++) {
        bool is_special = false;
        r->messages[n] = r->chat->messages[n];
        r->marks[n][0] = '\0';
        if (r->messages[n].role) FOCAL_TRY(reads_special(r, r->messages[n].role, &is_special));
        if (is_special) /* templates compare roles, so they cannot be hidden */
            return foci_fail(r->ctx, FOCAL_EINVAL,
                             "chat: the role '%.40s' of message %d reads like a control token",
                             r->messages[n].role, n);
        if (!r->messages[n].content) continue;
        FOCAL_TRY(reads_special(r, r->messages[n].content, &is_special));
        /* What holds a mark's first character is hidden too: no message names another. */
        if (!is_special && !strstr(r->messages[n].content, MARK_BEGIN)) continue;
        /* Private-use characters: no text has them by chance, and templates pass them on. */
        (void)snprintf(r->marks[n], MARK_BYTES, MARK_BEGIN "%d" MARK_END, n);
        r->messages[n].content = r->marks[n];
    }
    return FOCAL_OK;
}

/* The first mark at or behind `from`: its message, or -1. */
static int32_t next_mark(const chat_run *r, const char *text, size_t bytes, size_t from, size_t *at)
{
    int32_t found = -1;
    *at = bytes;
    for (int32_t n = 0; n < r->chat->message_count; n++) {
        if (!r->marks[n][0]) continue;
        const char *place = memmem(text + from, bytes - from, r->marks[n], strlen(r->marks[n]));
        if (!place || (size_t)(place - text) >= *at) continue;
        *at = (size_t)(place - text);
        found = n;
    }
    return found;
}

static focal_status encode_pieces(const chat_run *r, const char *text, size_t bytes, focal_ids *out)
{
    for (size_t from = 0; from < bytes;) {
        size_t at;
        const int32_t n = next_mark(r, text, bytes, from, &at);
        if (at > from)
            FOCAL_TRY(focal_tokenizer_encode(r->ctx, r->tokenizer, text + from, at - from,
                                             FOCAL_ENCODE_PARSE_SPECIAL, out));
        if (n < 0) break;
        const char *content = r->chat->messages[n].content;
        FOCAL_TRY(focal_tokenizer_encode(r->ctx, r->tokenizer, content, strlen(content), 0, out));
        from = at + strlen(r->marks[n]);
    }
    return FOCAL_OK;
}

static void token_text(const focal_tokenizer *tokenizer, int32_t id, char text[TOKEN_BYTES])
{
    const focal_token token = focal_tokenizer_token(tokenizer, id);
    const size_t bytes = token.byte_count < TOKEN_BYTES ? token.byte_count : 0;
    if (bytes > 0) memcpy(text, token.bytes, bytes);
    text[bytes] = '\0';
}

static focal_status encode_chat(chat_run *r, focal_template *tpl, focal_ids *out)
{
    const focal_special_ids special = focal_tokenizer_special(r->tokenizer);
    FOCAL_TRY(hide_special(r));
    focal_chat chat = *r->chat;
    chat.messages = r->messages;
    token_text(r->tokenizer, special.bos, r->bos);
    token_text(r->tokenizer, special.eos, r->eos);
    if (!chat.bos_token) chat.bos_token = r->bos;
    if (!chat.eos_token) chat.eos_token = r->eos;
    char *text = NULL;
    size_t bytes = 0;
    FOCAL_TRY(focal_template_render(tpl, &chat, &text, &bytes));
    const int64_t before = out->count;
    const focal_status status = encode_pieces(r, text, bytes, out);
    if (status != FOCAL_OK) out->count = before;
    focal_template_text_free(tpl, text);
    return status;
}

focal_status focal_chat_encode(const focal_model *model, focal_template *tpl,
                               const focal_chat *chat, focal_ids *out)
{
    chat_run r = {.ctx = focal_model_ctx(model), .chat = chat};
    r.tokenizer = focal_model_tokenizer(model);
    if (!r.tokenizer)
        return foci_fail(r.ctx, FOCAL_EUNSUPPORTED, "chat: the model has no tokenizer");
    if (chat->messages_json || chat->message_count < 0 ||
        (chat->message_count > 0 && !chat->messages))
        return foci_fail(r.ctx, FOCAL_EINVAL, "chat: %d messages, which must be given as such",
                         chat->message_count);
    const size_t count = (size_t)chat->message_count;
    r.messages = foci_alloc(r.ctx, count, sizeof *r.messages);
    r.marks = foci_alloc(r.ctx, count, sizeof *r.marks);
    const focal_status status = r.messages && r.marks ? encode_chat(&r, tpl, out) : FOCAL_ENOMEM;
    foci_free(r.ctx, r.messages);
    foci_free(r.ctx, r.marks);
    return status;
}
