/* Chat templates against jinja2: every template of tests/golden/templates over every conversation,
 * text for text, and a failure where jinja2 fails (tools/golden_templates.py). */
#include "support/check.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "io/file.h"
#include "text/template.h"

enum { MAX_FILE_BYTES = 1 << 20 };

/* Friday, 26 July 2024, 9:05:03, as the script has it. */
static const struct tm now = {.tm_year = 124,
                              .tm_mon = 6,
                              .tm_mday = 26,
                              .tm_hour = 9,
                              .tm_min = 5,
                              .tm_sec = 3,
                              .tm_wday = 5,
                              .tm_yday = 207};

static char *read_golden(focal_ctx *ctx, const char *name, size_t *bytes)
{
    char path[512], *data = NULL;
    (void)snprintf(path, sizeof path, "%s/golden/templates/%s", FOCAL_TEST_DIR, name);
    assert_status(ctx, foci_read_file(ctx, path, MAX_FILE_BYTES, &data, bytes), FOCAL_OK);
    return data;
}

/* A conversation's values under the names that transformers gives them. */
static void put_chat(foci_store *store, foci_dict *to, const foci_json *chat)
{
    static const char *const names[] = {"messages", "tools", "add_generation_prompt"};
    focal_ctx *ctx = store->ctx;
    foci_json_member member = {0};
    foci_value value;
    while (foci_json_next(foci_json_get(chat, "variables"), &member)) {
        assert_status(ctx, foci_value_from_json(store, "golden", member.value, &value), FOCAL_OK);
        assert_status(ctx, foci_dict_put(store, to, member.key, value), FOCAL_OK);
    }
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        const foci_json *json = foci_json_get(chat, names[n]);
        assert_status(ctx, foci_value_from_json(store, "golden", json, &value), FOCAL_OK);
        assert_status(ctx, foci_dict_put(store, to, names[n], value), FOCAL_OK);
    }
    assert_status(ctx, foci_dict_put(store, to, "documents", foci_none()), FOCAL_OK);
    value = foci_string(foci_chars_of("<s>"));
    assert_status(ctx, foci_dict_put(store, to, "bos_token", value), FOCAL_OK);
    value = foci_string(foci_chars_of("</s>"));
    assert_status(ctx, foci_dict_put(store, to, "eos_token", value), FOCAL_OK);
}

static void check_case(focal_ctx *ctx, const foci_json *chats, const foci_json *golden)
{
    const char *name = foci_json_string(foci_json_get(golden, "template"));
    const char *chat = foci_json_string(foci_json_get(golden, "chat"));
    const foci_json *expected = foci_json_get(golden, "text");
    foci_store store = {.ctx = ctx, .limit = MAX_FILE_BYTES};
    foci_dict variables = {0};
    focal_template *tpl = NULL;
    size_t source_bytes, bytes;
    char *text = NULL, *source = read_golden(ctx, name, &source_bytes);
    put_chat(&store, &variables, foci_json_get(chats, chat));
    assert_status(ctx, focal_template_new(ctx, source, source_bytes, &tpl), FOCAL_OK);
    const foci_render render = {.variables = &variables, .now = &now};
    const focal_status status = foci_template_render(tpl, &render, &text, &bytes);
    if (foci_json_is(expected, FOCI_JSON_STRING)) {
        if (status != FOCAL_OK) fail_msg("%s, %s: %s", name, chat, focal_ctx_error(ctx));
        if (bytes != foci_json_length(expected) ||
            memcmp(text, foci_json_string(expected), bytes) != 0)
            fail_msg("%s, %s: found\n%s\nexpected\n%s", name, chat, text,
                     foci_json_string(expected));
    } else {
        if (status == FOCAL_OK) fail_msg("%s, %s: should fail, but gave\n%s", name, chat, text);
        assert_status(ctx, status, FOCAL_EINVAL);
    }
    focal_template_text_free(tpl, text);
    focal_template_free(tpl);
    foci_store_free(&store);
    foci_free(ctx, source);
}

static void templates_render_as_jinja2(void **state)
{
    focal_ctx *ctx = *state;
    size_t bytes;
    foci_json *root = NULL;
    char *text = read_golden(ctx, "expected.json", &bytes);
    const focal_status status = foci_json_parse(ctx, "expected.json", text, bytes, &root);
    if (status == FOCAL_EUNSUPPORTED) {
        foci_free(ctx, text);
        skip_without("Jansson", "install libjansson-dev and configure again");
    }
    assert_status(ctx, status, FOCAL_OK);
    const foci_json *cases = foci_json_get(root, "cases");
    assert_true(foci_json_count(cases) > 400);
    for (int64_t n = 0; n < foci_json_count(cases); n++)
        check_case(ctx, foci_json_get(root, "chats"), foci_json_at(cases, n));
    foci_json_free(root);
    foci_free(ctx, text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(templates_render_as_jinja2, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("template_golden", tests, NULL, NULL);
}
