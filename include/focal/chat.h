/* Chat templates: the Jinja that models bring along to write a conversation as text, rendered as
 * transformers renders it.
 *
 * A template is a program from a stranger. It is run by a small interpreter with limits on steps,
 * depth, output and memory; it sees the values it is given and nothing else, and cannot change
 * them. Statements: if, for, set, macro, with, filter, raw, break, continue, generation; what is
 * not supported is refused by focal_template_new(), with its name and line. */
#ifndef FOCAL_CHAT_H
#define FOCAL_CHAT_H

#include <time.h>

#include "focal/base.h"

FOCAL_BEGIN_DECLS

typedef struct focal_template focal_template;

/* source: bytes of UTF-8, at most 1 MiB; it need not outlive the call. FOCAL_EFORMAT when it is no
 * valid template, FOCAL_EUNSUPPORTED when it uses what is not supported; both name the line. On
 * failure *out is NULL. The template belongs to ctx and is freed before it closes. */
FOCAL_API focal_status focal_template_new(focal_ctx *ctx, const char *source, size_t bytes,
                                          focal_template **out);
FOCAL_API void focal_template_free(focal_template *tpl); /* NULL is fine */

typedef struct focal_message {
    const char *role;
    const char *content; /* NULL: none */
} focal_message;

/* What a template sees. All zero is an empty conversation; texts are UTF-8 and end in NUL. */
typedef struct focal_chat {
    const focal_message *messages; /* (message_count) */
    int32_t message_count;
    const char *messages_json;  /* an array of objects instead of messages: tool calls, content in
                                   parts, anything else */
    const char *tools_json;     /* an array; NULL: tools is none */
    const char *variables_json; /* an object: each member is a variable of its name, and goes before
                                   what is set otherwise; NULL: none */
    const char *bos_token, *eos_token; /* NULL: undefined */
    bool add_generation_prompt;
    const struct tm *now; /* for strftime_now(), every field set; NULL: that call fails */
    int64_t max_steps;    /* 0: 20 million */
    size_t max_output_bytes, max_memory_bytes; /* 0: 16 MiB and 256 MiB */
} focal_chat;

/* The conversation as text: *text is of *bytes bytes with a NUL behind them, to be freed by
 * focal_template_text_free(). FOCAL_EINVAL when the template fails (its own raise_exception(),
 * an undefined value, a type that does not fit), with the line; when a limit is reached; or when a
 * text is no UTF-8. FOCAL_EFORMAT when JSON is no JSON or no such value as asked for above, and
 * FOCAL_EUNSUPPORTED for any JSON in a build without a reader of it. On failure *text is NULL. */
FOCAL_API focal_status focal_template_render(focal_template *tpl, const focal_chat *chat,
                                             char **text, size_t *bytes);
FOCAL_API void focal_template_text_free(focal_template *tpl, char *text); /* NULL is fine */

FOCAL_END_DECLS
#endif /* FOCAL_CHAT_H */
