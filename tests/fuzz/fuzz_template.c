/* Any text as a chat template over any conversation, within short limits. The source ends at the
 * first zero byte; behind it stands JSON for the messages, or contents of messages parted by the
 * byte 1. A template may be refused or fail, with one line of text; it may not crash, hang, leak
 * or print what is no UTF-8. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "focal/focal.h"
#include "text/template_chars.h"

enum {
    MAX_MESSAGES = 8,
    MAX_STEPS = 20000,
    MAX_OUTPUT_BYTES = 1 << 16,
    MAX_MEMORY_BYTES = 1 << 22
};

static const struct tm now = {
    .tm_year = 124, .tm_mon = 11, .tm_mday = 31, .tm_hour = 23, .tm_wday = 2};

static void require(bool truth)
{
    if (!truth) abort();
}

static void check_message(focal_ctx *ctx)
{
    const char *text = focal_ctx_error(ctx);
    require(*text && !strchr(text, '\n'));
}

/* Cuts text, which ends in a zero byte, into messages. */
static int32_t cut_messages(char *text, focal_message *messages)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool"};
    int32_t count = 0;
    while (text && count < MAX_MESSAGES) {
        char *end = strchr(text, '\1');
        if (end) *end++ = '\0';
        messages[count] = (focal_message){roles[count % 4], *text ? text : NULL};
        count++;
        text = end;
    }
    return count;
}

static void render(focal_ctx *ctx, focal_template *tpl, char *rest)
{
    focal_message messages[MAX_MESSAGES];
    focal_chat chat = {.messages = messages,
                       .tools_json = "[{\"type\": \"function\", \"function\": {\"name\": \"f\", "
                                     "\"parameters\": {\"a\": [1, 2.5, null, true]}}}]",
                       .variables_json = "{\"n\": 3, \"d\": {\"k\": \"v\", \"l\": [3, 1, 2]}}",
                       .bos_token = "<s>",
                       .add_generation_prompt = true,
                       .now = &now,
                       .max_steps = MAX_STEPS,
                       .max_output_bytes = MAX_OUTPUT_BYTES,
                       .max_memory_bytes = MAX_MEMORY_BYTES};
    if (*rest == '[')
        chat.messages_json = rest;
    else
        chat.message_count = cut_messages(rest, messages);
    char *text;
    size_t bytes, bad;
    const focal_status status = focal_template_render(tpl, &chat, &text, &bytes);
    if (status == FOCAL_OK) {
        require(text[bytes] == '\0' && bytes <= MAX_OUTPUT_BYTES);
        require(foci_char_check((foci_chars){text, bytes}, &bad));
    } else {
        require(!text && bytes == 0);
        check_message(ctx);
    }
    focal_template_text_free(tpl, text);
}

/* libFuzzer's name. NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* NOLINTNEXTLINE(readability-identifier-naming) */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static focal_ctx *ctx;
    if (!ctx) {
        const focal_ctx_options options = {.threads = 1};
        require(focal_ctx_open(&options, &ctx, NULL) == FOCAL_OK);
    }
    const size_t held = focal_ctx_memory(ctx).now_bytes;
    const uint8_t *end = size ? memchr(data, 0, size) : NULL;
    const size_t source_bytes = end ? (size_t)(end - data) : size;
    const size_t rest_bytes = end ? size - source_bytes - 1 : 0;
    char *rest = malloc(rest_bytes + 1), *source = malloc(source_bytes ? source_bytes : 1);
    require(rest && source);
    if (rest_bytes) memcpy(rest, end + 1, rest_bytes);
    rest[rest_bytes] = '\0';
    if (source_bytes) memcpy(source, data, source_bytes);
    focal_template *tpl = NULL;
    const focal_status status = focal_template_new(ctx, source, source_bytes, &tpl);
    free(source); /* the template must not need it */
    if (status == FOCAL_OK)
        render(ctx, tpl, rest);
    else
        check_message(ctx);
    focal_template_free(tpl);
    free(rest);
    require(focal_ctx_memory(ctx).now_bytes == held);
    return 0;
}
