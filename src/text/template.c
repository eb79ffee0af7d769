/* Templates as the API shows them: compile, put a conversation into variables, render. */
#include "text/template.h"

#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_node.h"
#include "text/template_run.h"

enum {
    DEFAULT_STEPS = 20000000,
    DEFAULT_OUTPUT_BYTES = 1 << 24,
    DEFAULT_MEMORY_BYTES = 1 << 28,
    TREE_BYTES = 1 << 28, /* a megabyte of "{{a}}" takes about a quarter of it */
    JSON_COUNT = 3
};

struct focal_template {
    focal_ctx *ctx;
    foci_store store;
    foci_node *body, *unset;
};

focal_status focal_template_new(focal_ctx *ctx, const char *source, size_t bytes,
                                focal_template **out)
{
    *out = NULL;
    if (!source && bytes) return foci_fail(ctx, FOCAL_EINVAL, "template: there is no source");
    focal_template *tpl = foci_alloc(ctx, 1, sizeof *tpl);
    if (!tpl) return FOCAL_ENOMEM;
    *tpl = (focal_template){.ctx = ctx, .store = {.ctx = ctx, .limit = TREE_BYTES}};
    const focal_status status =
        foci_template_parse(ctx, &tpl->store, (foci_chars){source, bytes}, &tpl->body, &tpl->unset);
    if (status == FOCAL_OK)
        *out = tpl;
    else
        focal_template_free(tpl);
    return status;
}

void focal_template_free(focal_template *tpl)
{
    if (!tpl) return;
    foci_store_free(&tpl->store);
    foci_free(tpl->ctx, tpl);
}

void focal_template_text_free(focal_template *tpl, char *text)
{
    if (text) foci_free(tpl->ctx, text);
}

focal_status foci_template_render(focal_template *tpl, const foci_render *render, char **text,
                                  size_t *bytes)
{
    foci_run run = {.ctx = tpl->ctx,
                    .store = {.ctx = tpl->ctx,
                              .limit = render->max_memory_bytes ? render->max_memory_bytes
                                                                : DEFAULT_MEMORY_BYTES},
                    .globals = render->variables,
                    .now = render->now,
                    .step_limit = render->max_steps ? render->max_steps : DEFAULT_STEPS,
                    .line = 1};
    foci_builder out = {.store = &run.store,
                        .limit = render->max_output_bytes ? render->max_output_bytes
                                                          : DEFAULT_OUTPUT_BYTES};
    foci_scope top = {0};
    run.scope = &top;
    run.out = &out;
    *text = NULL;
    *bytes = 0;
    focal_status status = FOCAL_OK;
    for (const foci_node *node = tpl->unset; node && status == FOCAL_OK; node = node->next) {
        const foci_value value = {
            .kind = FOCI_V_UNDEFINED, .how = FOCI_UNDEFINED_NAME, .as.text = node->name};
        status = foci_scope_set(&run, &top, node->name, value);
    }
    if (status == FOCAL_OK) status = foci_run_body(&run, tpl->body);
    if (status == FOCAL_OK) {
        *text = foci_alloc(tpl->ctx, out.bytes + 1, 1);
        status = *text ? FOCAL_OK : FOCAL_ENOMEM;
    }
    if (status == FOCAL_OK) {
        if (out.bytes) memcpy(*text, out.data, out.bytes);
        (*text)[out.bytes] = '\0';
        *bytes = out.bytes;
    }
    foci_store_free(&run.store);
    return status;
}

static focal_status text_value(foci_store *store, const char *what, const char *text,
                               foci_value *out)
{
    size_t bad;
    const foci_chars chars = foci_chars_of(text);
    if (!foci_char_check(chars, &bad))
        return foci_fail(store->ctx, FOCAL_EINVAL, "chat: %s: byte %zu is not UTF-8", what, bad);
    *out = foci_string(chars);
    return FOCAL_OK;
}

static focal_status put_text(foci_store *store, foci_dict *to, const char *key, const char *text)
{
    foci_value value = foci_none();
    if (!text) return FOCAL_OK;
    FOCAL_TRY(text_value(store, key, text, &value));
    return foci_dict_put(store, to, key, value);
}

static focal_status put_messages(foci_store *store, foci_dict *to, const focal_chat *chat)
{
    if (chat->message_count < 0 || (chat->message_count && !chat->messages))
        return foci_fail(store->ctx, FOCAL_EINVAL, "chat: %d messages, but none is given",
                         chat->message_count);
    foci_value *list = foci_store_alloc(store, (size_t)chat->message_count, sizeof *list);
    if (!list) return foci_store_failed(store);
    for (int32_t n = 0; n < chat->message_count; n++) {
        const focal_message *message = &chat->messages[n];
        foci_dict *dict = foci_dict_new(store);
        if (!dict) return foci_store_failed(store);
        if (!message->role)
            return foci_fail(store->ctx, FOCAL_EINVAL, "chat: message %d has no role", n);
        FOCAL_TRY(put_text(store, dict, "role", message->role));
        FOCAL_TRY(message->content ? put_text(store, dict, "content", message->content)
                                   : foci_dict_put(store, dict, "content", foci_none()));
        list[n] = (foci_value){.kind = FOCI_V_DICT, .as.dict = dict};
    }
    return foci_dict_put(store, to, "messages", foci_list(list, chat->message_count));
}

/* The reader's message may quote what it read, line ends and all: one line it becomes. */
static focal_status fail_json(focal_ctx *ctx, focal_status status)
{
    char text[400];
    (void)snprintf(text, sizeof text, "%s", focal_ctx_error(ctx));
    foci_one_line(text);
    return foci_fail(ctx, status, "%s", text);
}

/* Parses text, which must be an array or an object as asked; *root is NULL when there is none. */
static focal_status read_json(foci_store *store, const char *what, const char *text,
                              foci_json_type type, foci_json **root, foci_value *out)
{
    *out = foci_none();
    if (!text) return FOCAL_OK;
    const focal_status status = foci_json_parse(store->ctx, what, text, strlen(text), root);
    if (status != FOCAL_OK) return fail_json(store->ctx, status);
    if (!foci_json_is(*root, type))
        return foci_fail(store->ctx, FOCAL_EFORMAT, "%s: not %s", what,
                         type == FOCI_JSON_ARRAY ? "an array" : "an object");
    return foci_value_from_json(store, what, *root, out);
}

/* Members of `from` that are not there yet; the first of a name is the one that is found. */
static focal_status put_all(foci_store *store, foci_dict *to, const foci_dict *from)
{
    for (int64_t n = 0; n < from->count; n++)
        FOCAL_TRY(foci_dict_add(store, to, from->entries[n].key, from->entries[n].value));
    return FOCAL_OK;
}

static focal_status put_chat(foci_store *store, foci_dict *to, const focal_chat *chat,
                             foci_json *roots[JSON_COUNT])
{
    foci_value variables, messages, tools;
    FOCAL_TRY(read_json(store, "variables", chat->variables_json, FOCI_JSON_OBJECT, &roots[0],
                        &variables));
    FOCAL_TRY(
        read_json(store, "messages", chat->messages_json, FOCI_JSON_ARRAY, &roots[1], &messages));
    FOCAL_TRY(read_json(store, "tools", chat->tools_json, FOCI_JSON_ARRAY, &roots[2], &tools));
    if (variables.kind == FOCI_V_DICT) FOCAL_TRY(put_all(store, to, variables.as.dict));
    FOCAL_TRY(chat->messages_json ? foci_dict_put(store, to, "messages", messages)
                                  : put_messages(store, to, chat));
    FOCAL_TRY(foci_dict_put(store, to, "tools", tools));
    FOCAL_TRY(foci_dict_put(store, to, "documents", foci_none()));
    FOCAL_TRY(
        foci_dict_put(store, to, "add_generation_prompt", foci_bool(chat->add_generation_prompt)));
    FOCAL_TRY(put_text(store, to, "bos_token", chat->bos_token));
    return put_text(store, to, "eos_token", chat->eos_token);
}

focal_status focal_template_render(focal_template *tpl, const focal_chat *chat, char **text,
                                   size_t *bytes)
{
    foci_store store = {.ctx = tpl->ctx,
                        .limit =
                            chat->max_memory_bytes ? chat->max_memory_bytes : DEFAULT_MEMORY_BYTES};
    foci_json *roots[JSON_COUNT] = {NULL};
    foci_dict variables = {0};
    *text = NULL;
    *bytes = 0;
    focal_status status = put_chat(&store, &variables, chat, roots);
    if (status != FOCAL_OK) goto done;
    const foci_render render = {.variables = &variables,
                                .now = chat->now,
                                .max_steps = chat->max_steps,
                                .max_output_bytes = chat->max_output_bytes,
                                .max_memory_bytes = chat->max_memory_bytes};
    status = foci_template_render(tpl, &render, text, bytes);
done:
    for (int n = 0; n < JSON_COUNT; n++)
        if (roots[n]) foci_json_free(roots[n]);
    foci_store_free(&store);
    return status;
}
