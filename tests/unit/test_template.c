/* Chat templates: the API, messages of what fails, and the limits. What templates mean is compared
 * with jinja2 in test_template_golden.c; here stand the cases that jinja2 cannot show. */
#include "support/check.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ctx.h"
#include "text/template.h"

enum { SMALL_STACK_BYTES = 256 << 10, BIG_BYTES = 1 << 20 };

static const struct tm noon = {.tm_year = 124,
                               .tm_mon = 1,
                               .tm_mday = 3,
                               .tm_hour = 13,
                               .tm_min = 5,
                               .tm_wday = 6,
                               .tm_yday = 33};

static const focal_message turns[] = {{"system", "Be brief."}, {"user", "Hi"}, {"assistant", NULL}};
static const focal_chat usual = {.messages = turns,
                                 .message_count = FOCAL_COUNT(turns),
                                 .bos_token = "<s>",
                                 .eos_token = "</s>",
                                 .add_generation_prompt = true,
                                 .now = &noon};

static focal_status compile(focal_ctx *ctx, const char *source, focal_template **tpl)
{
    return focal_template_new(ctx, source, strlen(source), tpl);
}

/* The rendered text must be `expected`. */
static void assert_renders(focal_ctx *ctx, const char *source, const focal_chat *chat,
                           const char *expected)
{
    focal_template *tpl = NULL;
    char *text = NULL;
    size_t bytes = 0;
    assert_status(ctx, compile(ctx, source, &tpl), FOCAL_OK);
    const focal_status status = focal_template_render(tpl, chat, &text, &bytes);
    if (status != FOCAL_OK) fail_msg("%s: %s", source, focal_ctx_error(ctx));
    assert_string_equal(text, expected);
    assert_int_equal(bytes, strlen(expected));
    focal_template_text_free(tpl, text);
    focal_template_free(tpl);
}

static void assert_refused(focal_ctx *ctx, const char *source, focal_status status,
                           const char *message)
{
    focal_template *tpl = NULL;
    assert_status(ctx, compile(ctx, source, &tpl), status);
    assert_null(tpl);
    assert_string_equal(focal_ctx_error(ctx), message);
}

static void assert_fails(focal_ctx *ctx, const char *source, const focal_chat *chat,
                         const char *message)
{
    focal_template *tpl = NULL;
    char *text = (char *)1;
    size_t bytes = 1;
    assert_status(ctx, compile(ctx, source, &tpl), FOCAL_OK);
    assert_status(ctx, focal_template_render(tpl, chat, &text, &bytes), FOCAL_EINVAL);
    assert_null(text);
    assert_int_equal(bytes, 0);
    assert_string_equal(focal_ctx_error(ctx), message);
    focal_template_free(tpl);
}

static void messages_become_text(void **state)
{
    focal_ctx *ctx = *state;
    assert_renders(ctx,
                   "{{ bos_token }}{% for m in messages %}[{{ m.role }}|{{ m['content'] }}]"
                   "{% endfor %}{{ 'A:' if add_generation_prompt }}{{ eos_token }}",
                   &usual, "<s>[system|Be brief.][user|Hi][assistant|None]A:</s>");
    assert_renders(ctx, "{{ messages }}{{ tools }}{{ bos_token is defined }}", &(focal_chat){0},
                   "[]NoneFalse");
    assert_renders(ctx, "", &usual, "");
    assert_renders(ctx, "{{ strftime_now('%Y-%m-%d %H:%M %A %-d %b %I%p %j %y %%') }}", &usual,
                   "2024-02-03 13:05 Saturday 3 Feb 01PM 034 24 %");
}

static void json_becomes_values(void **state)
{
    focal_ctx *ctx = *state;
    foci_json *probe = NULL;
    if (foci_json_parse(ctx, "probe", "1", 1, &probe) != FOCAL_OK)
        skip_without("Jansson", "install libjansson-dev and configure again");
    foci_json_free(probe);
    const focal_chat chat = {
        .messages_json = "[{\"role\": \"user\", \"content\": [{\"text\": \"a\\u0000b\"}, 1, 2.5]}]",
        .tools_json = "[{\"f\": null}]",
        .variables_json = "{\"flag\": true, \"bos_token\": \"<b>\", \"documents\": [1]}",
        .bos_token = "<s>"};
    assert_renders(ctx,
                   "{{ messages[0].content[0].text|length }}{{ messages[0].content[1:] }}"
                   "{{ tools|tojson }}{{ flag }}{{ bos_token }}{{ documents }}",
                   &chat, "3[1, 2.5][{\"f\": null}]True<b>[1]");
    static const struct {
        focal_chat chat;
        const char *message;
    } bad[] = {
        {{.messages_json = "{}"}, "messages: not an array"},
        {{.tools_json = "3"}, "tools: not an array"},
        {{.variables_json = "[]"}, "variables: not an object"},
    };
    focal_template *tpl = NULL;
    char *text;
    size_t bytes;
    assert_status(ctx, compile(ctx, "x", &tpl), FOCAL_OK);
    const focal_chat lines = {.tools_json = "[\"a\nb\"]"};
    assert_status(ctx, focal_template_render(tpl, &lines, &text, &bytes), FOCAL_EFORMAT);
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        assert_status(ctx, focal_template_render(tpl, &bad[n].chat, &text, &bytes), FOCAL_EFORMAT);
        assert_string_equal(focal_ctx_error(ctx), bad[n].message);
    }
    char deep[200] = "";
    memset(deep, '[', 66);
    memset(deep + 66, ']', 66);
    const focal_chat nested = {.tools_json = deep};
    assert_status(ctx, focal_template_render(tpl, &nested, &text, &bytes), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx), "tools: nested deeper than 64 levels");
    focal_template_free(tpl);
}

static void calls_are_checked(void **state)
{
    focal_ctx *ctx = *state;
    const focal_message no_role = {NULL, "x"}, bad_text = {"user", "ab\xff"};
    assert_fails(ctx, "x", &(focal_chat){.message_count = 1},
                 "chat: 1 messages, but none is given");
    assert_fails(ctx, "x", &(focal_chat){.messages = &no_role, .message_count = 1},
                 "chat: message 0 has no role");
    assert_fails(ctx, "x", &(focal_chat){.messages = &bad_text, .message_count = 1},
                 "chat: content: byte 2 is not UTF-8");
    assert_fails(ctx, "x", &(focal_chat){.eos_token = "\xed\xa0\x80"},
                 "chat: eos_token: byte 0 is not UTF-8");
    focal_template *tpl = (focal_template *)1;
    assert_status(ctx, focal_template_new(ctx, "a\xc3", 2, &tpl), FOCAL_EFORMAT);
    assert_null(tpl);
    assert_string_equal(focal_ctx_error(ctx), "template: byte 1 is not UTF-8");
    assert_status(ctx, focal_template_new(ctx, NULL, 3, &tpl), FOCAL_EINVAL);
    focal_template_free(NULL);
    focal_template_text_free(NULL, NULL);
}

static void what_is_not_supported_is_named(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"\n{% include 'x' %}", "template: line 2: the block '{% include %}' is not supported"},
        {"{% call f() %}{% endcall %}",
         "template: line 1: the block '{% call %}' is not supported"},
        {"a\nb\n{{ x|urlize }}", "template: line 3: the filter 'urlize' is not supported"},
        {"{{ x is nice }}", "template: line 1: the test 'nice' is not supported"},
        {"{{ x.encode() }}", "template: line 1: the method encode() is not supported"},
        {"{{ joiner(',') }}", "template: line 1: joiner() is not supported"},
        {"{% for x in y recursive %}{% endfor %}",
         "template: line 1: recursive loops are not supported"},
        {"{{ f(*a) }}", "template: line 1: * and ** before an argument are not supported"},
        {"{% macro f() %}{{ varargs }}{% endmacro %}",
         "template: line 1: 'varargs' in a macro is not supported"},
        {"{{ 99999999999999999999 }}",
         "template: line 1: the integer 99999999999999999999 does not fit 64 bits"},
        {"{{ '\\N{DASH}' }}", "template: line 1: \\N{...} in a string is not supported"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++)
        assert_refused(ctx, cases[n].source, FOCAL_EUNSUPPORTED, cases[n].message);
}

static void what_is_no_template_is_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"{{ a", "template: line 1: expected '}}', found the end of the template"},
        {"{{ a b }}", "template: line 1: expected '}}', found 'b'"},
        {"{{ }}", "template: line 1: expected a value, found '}}'"},
        {"{% if a %}", "template: line 1: expected endif, found the end of the template"},
        {"{% if a %}{% endfor %}", "template: line 1: expected another block, found 'endfor'"},
        {"\n{% endif %}", "template: line 2: expected another block, found 'endif'"},
        {"{% for a b %}", "template: line 1: expected 'in', found 'b'"},
        {"{% set true = 1 %}", "template: line 1: expected a name, found 'true'"},
        {"{% for x in y %}{% set loop = 1 %}{% endfor %}",
         "template: line 1: 'loop' cannot be assigned to in a loop"},
        {"{% break %}", "template: line 1: 'break' outside of a loop"},
        {"{% for x in y %}{% macro m() %}{% continue %}{% endmacro %}{% endfor %}",
         "template: line 1: 'continue' outside of a loop"},
        {"{# a", "template: line 1: a comment has no end '#}'"},
        {"{% raw %} {% end %}", "template: line 1: a raw block has no end '{% endraw %}'"},
        {"{{ 'a }}", "template: line 1: a string has no end"},
        {"{{ a[] }}", "template: line 1: expected a value, found ']'"},
        {"{{ a[, 1] }}", "template: line 1: expected a value, found ','"},
        {"{{ (1] }}", "template: line 1: unexpected ']'"},
        {"{{ a ? b }}", "template: line 1: unexpected '?'"},
        {"{{ \xc3\xa9 }}", "template: line 1: unexpected byte 0xc3"},
        {"{{ '\\x4' }}", "template: line 1: \\x in a string names no character"},
        {"{{ '\\ud800' }}", "template: line 1: \\u in a string names no character"},
        {"{{ f(a=1, 2) }}", "template: line 1: a plain argument follows one with a name"},
        {"{% macro f(a=1, b) %}{% endmacro %}",
         "template: line 1: a parameter without default follows one with"},
        {"{% macro f(a, a) %}{% endmacro %}", "template: line 1: a macro has two parameters 'a'"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++)
        assert_refused(ctx, cases[n].source, FOCAL_EFORMAT, cases[n].message);
}

static void failures_name_line_and_cause(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *source, *message;
    } cases[] = {
        {"\n\n{{ raise_exception('No\\nway, ' ~ 1) }}", "template: line 3: No way, 1"},
        {"{{ nobody.name }}", "template: line 1: 'nobody' is undefined"},
        {"{{ messages[0].x.y }}", "template: line 1: a dict has no attribute or element 'x'"},
        {"{{ messages[9].role }}", "template: line 1: a list has no attribute or element '[...]'"},
        {"{{ messages.append(1) }}",
         "template: line 1: 'append' of a list is out of bounds for templates"},
        {"{{ ''.__class__.mro }}",
         "template: line 1: '__class__' of a str is out of bounds for templates"},
        {"{{ 1 + 'a' }}", "template: line 1: '+' is not there between a int and a str"},
        {"{{ 1 < 'a' }}", "template: line 1: '<' is not there between a int and a str"},
        {"{{ 1 // 0 }}", "template: line 1: division by zero"},
        {"{{ 9223372036854775807 + 1 }}", "template: line 1: an integer does not fit 64 bits"},
        {"{{ 2 ** 63 }}", "template: line 1: an integer does not fit 64 bits"},
        {"{{ 5() }}", "template: line 1: a int cannot be called"},
        {"{{ 'a'|indent(2, 3, 4, 5) }}", "template: line 1: indent takes 3 arguments, not 4"},
        {"{{ 'a'|trim(x=1) }}", "template: line 1: trim does not take 'x'"},
        {"{{ 'a'|replace('a') }}", "template: line 1: replace needs 'new'"},
        {"{% set a, b = [1] %}", "template: line 1: 1 values for 2 names"},
        {"{% set x = 1 %}{% set x.y = 2 %}",
         "template: line 1: 'x' is no namespace, so it has no members to set"},
        {"{{ messages|map('upper') }}", "template: line 1: a generator cannot be printed"},
        {"{{ [messages] | map('nosuch') | list }}",
         "template: line 1: the filter 'nosuch' is not supported"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++)
        assert_fails(ctx, cases[n].source, &usual, cases[n].message);
    const focal_chat timeless = {0};
    assert_fails(ctx, "{{ strftime_now('%Y') }}", &timeless,
                 "template: line 1: strftime_now: the caller gave no time");
}

static void limits_hold(void **state)
{
    focal_ctx *ctx = *state;
    focal_chat chat = usual;
    assert_fails(ctx, "{{ range(100001)|length }}", &usual,
                 "template: line 1: range: 100001 items, at most 100000 are allowed");
    assert_fails(ctx, "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", &usual,
                 "template: line 1: macros call each other more than 50 deep");
    assert_fails(ctx,
                 "{% set ns = namespace(x=[]) %}{% for i in range(300) %}{% set ns.x = [ns.x] %}"
                 "{% endfor %}{{ ns.x }}",
                 &usual, "template: line 1: nested deeper than 200 levels while running");
    assert_fails(ctx, "{% set ns = namespace() %}{% set ns.me = ns %}{{ ns }}", &usual,
                 "template: line 1: nested deeper than 200 levels while running");
    chat.max_steps = 1000;
    assert_fails(ctx, "{% for i in range(1000) %}{% endfor %}", &chat,
                 "template: line 1: more than the 1000 steps allowed");
    assert_fails(ctx, "{% set x = 'a' * 70000 %}", &chat,
                 "template: line 1: more than the 1000 steps allowed");
    chat = usual;
    chat.max_output_bytes = 10;
    assert_fails(ctx, "{% for i in range(4) %}abc{% endfor %}", &chat,
                 "template: more than the 10 bytes of output allowed");
    assert_renders(ctx, "{% for i in range(2) %}abcde{% endfor %}", &chat, "abcdeabcde");
    chat = usual;
    chat.max_memory_bytes = 100000;
    assert_fails(ctx, "{{ ('x' * 200000)|length }}", &chat, "template: line 1: a text is too long");
    assert_fails(ctx, "{{ ('x' * 90000 + 'y' * 90000)|length }}", &chat,
                 "template: more than the 100000 bytes of memory allowed");
    assert_fails(ctx, "{{ [1, 2] * 4611686018427387904 }}", &usual,
                 "template: more than the 268435456 bytes of memory allowed");
}

/* Work that a small template could make large: each must end in a limit, and soon. */
static void hostile_work_ends(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const sources[] = {
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% set y = x.find('b') %}{% endfor "
        "%}",
        "{% set x = 'a' * 1000000 %}{{ x.rfind('a' * 500000 ~ 'b') }}",
        "{% set x = 'a' * 1000000 %}{% for i in range(100000) %}{% if x == x ~ '' %}{% endif %}{% "
        "endfor %}",
        "{% set x = range(100000)|list %}{% for i in x %}{% if -1 in x %}{% endif %}{% endfor %}",
        "{% set x = range(100000)|list %}{{ x|unique|list|length }}",
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(x='a') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% "
        "endfor %}",
        "{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}{{ ns.x|tojson }}",
        "{% set ns = namespace(x=[]) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
        "{% endfor %}{{ ns.x == [ns.x[0], ns.x[1]] }}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(40) "
        "}}",
        "{{ '%1000s' % 'a' ~ ('%*d' % (999, 1)) * 100000 }}",
    };
    for (size_t n = 0; n < FOCAL_COUNT(sources); n++) {
        focal_template *tpl = NULL;
        char *text;
        size_t bytes;
        assert_status(ctx, compile(ctx, sources[n], &tpl), FOCAL_OK);
        assert_status(ctx, focal_template_render(tpl, &usual, &text, &bytes), FOCAL_EINVAL);
        assert_non_null(strstr(focal_ctx_error(ctx), " allowed"));
        focal_template_free(tpl);
    }
}

/* Sources of a megabyte, made of one piece each: refused or compiled, in time and on any stack. */
static void large_sources_end(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const pieces[] = {
        "{{a}}",        "{{",   "{% if a %}", "(",   "[",  "{%- raw %}",
        "{{ a + ",      "{# ",  "not ",       "-",   ".a", "{% for a in b %}",
        "{% set a%}x ", "{%  ", "x",          "\n ", "{"};
    static const char *const heads[] = {"", "{{ ", "{{ a", "{% set a = "};
    char *source = new_array(BIG_BYTES + 32, 1);
    for (size_t h = 0; h < FOCAL_COUNT(heads); h++) {
        for (size_t n = 0; n < FOCAL_COUNT(pieces); n++) {
            size_t at = strlen(heads[h]);
            memcpy(source, heads[h], at);
            for (const size_t bytes = strlen(pieces[n]); at + bytes <= BIG_BYTES; at += bytes)
                memcpy(source + at, pieces[n], bytes);
            focal_template *tpl = NULL;
            const focal_status status = focal_template_new(ctx, source, at, &tpl);
            assert_true(status == FOCAL_OK || status == FOCAL_EFORMAT);
            focal_template_free(tpl);
        }
    }
    focal_template *tpl = NULL;
    memset(source, 'x', BIG_BYTES + 1);
    assert_status(ctx, focal_template_new(ctx, source, BIG_BYTES + 1, &tpl), FOCAL_EFORMAT);
    assert_string_equal(focal_ctx_error(ctx), "template: 1048577 bytes, at most 1048576 are read");
    free(source);
}

/* The deepest that parsing and running go, each in its own way. */
static void *dig(void *arg)
{
    focal_ctx *ctx = arg;
    static const struct {
        const char *head, *open, *middle, *close, *tail;
        int32_t times;
    } pits[] = {
        {"{{ ", "(1 or 1 and 1 == 1 + 1 ~ 1 * 1 ** ", "1", ")", " }}", 150},
        {"{{ ", "[", "1", "]", "|string|length }}", 79},
        {"{{ ", "-", "1", "", " }}", 150},
        {"{{ ", "not ", "1", "", " }}", 150},
        {"{{ a", "|default(a", "", ")", " }}", 150},
        {"{{ a", "[a", "", "]", " }}", 150},
        {"", "{% if 1 %}", "x", "{% endif %}", "", 150},
        {"", "{% for i in [1] %}", "x", "{% endfor %}", "", 150},
        {"", "{% set x %}", "x", "{% endset %}", "", 150},
        {"{% for ", "(a, ", "b", ")", " in [1] %}{% endfor %}", 150},
        {"{% macro f(n) %}{% if n %}{% for i in [n] %}{% set x %}{{ ", "(", "f(n - 1)", ")",
         " }}{% endset %}{% endfor %}{% endif %}{% endmacro %}{{ f(60) }}", 1},
        {"{% macro f(n, m=f(n)) %}", "", "x", "", "{% endmacro %}{{ f(60) }}", 1},
        {"{% set ns = namespace(x=[]) %}{% for i in range(199) %}{% set ns.x = ", "", "[ns.x]", "",
         " %}{% endfor %}{{ ns.x }}{{ ns.x == [ns.x] }}{{ ns.x|tojson }}", 1},
        {"{% for i in [1, 2] if ", "", "loop.last", "", " %}{% endfor %}", 1},
        {"{{ ", "", "[[[1]]]|map('map', 'map', 'map', 'map', 'string')|list|length", "", " }}", 1},
    };
    char *source = new_array(BIG_BYTES, 1);
    for (size_t n = 0; n < FOCAL_COUNT(pits); n++) {
        for (int32_t times = pits[n].times; times > 0; times -= 10) {
            focal_template *tpl = NULL;
            char *text = NULL;
            size_t bytes;
            char *at = stpcpy(source, pits[n].head); /* NOLINT: all of them are short */
            for (int32_t k = 0; k < times; k++) at = stpcpy(at, pits[n].open);
            at = stpcpy(at, pits[n].middle);
            for (int32_t k = 0; k < times; k++) at = stpcpy(at, pits[n].close);
            (void)stpcpy(at, pits[n].tail);
            if (compile(ctx, source, &tpl) == FOCAL_OK)
                (void)focal_template_render(tpl, &usual, &text, &bytes);
            focal_template_text_free(tpl, text);
            focal_template_free(tpl);
        }
    }
    free(source);
    return NULL;
}

static void depth_fits_a_small_stack(void **state)
{
    pthread_attr_t attributes;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, SMALL_STACK_BYTES), 0);
    assert_int_equal(pthread_create(&thread, &attributes, dig, *state), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)pthread_attr_destroy(&attributes);
}

static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    static const char source[] =
        "{% macro f(a, b='x') %}{{ a ~ b }}{% endmacro %}{% set ns = namespace(t='') %}"
        "{% for m in messages if m.content %}{% set ns.t = ns.t + f(m.content) * 3000 %}{% endfor "
        "%}"
        "{{ ns.t|length }}{{ messages|map(attribute='role')|sort|join(',') }}{{ messages|tojson }}";
    const char expected[] =
        "39000assistant,system,user[{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": "
        "\"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": null}]";
    int64_t failed = 0;
    for (bool done = false; !done; failed++) {
        focal_template *tpl = NULL;
        char *text = NULL;
        size_t bytes;
        const int64_t live = memory_live_blocks();
        memory_fail(failed + 1, false);
        focal_status status = compile(ctx, source, &tpl);
        if (status == FOCAL_OK) status = focal_template_render(tpl, &usual, &text, &bytes);
        done = memory_requests() <= failed;
        memory_fail(0, false);
        assert_status(ctx, status, done ? FOCAL_OK : FOCAL_ENOMEM);
        if (done) assert_string_equal(text, expected);
        focal_template_text_free(tpl, text);
        focal_template_free(tpl);
        assert_int_equal(memory_live_blocks(), live);
    }
    assert_true(failed > 5);
}

/* A template is not used up, and one render does not show in the next. */
static void renders_repeat(void **state)
{
    focal_ctx *ctx = *state;
    focal_template *tpl = NULL;
    assert_status(ctx, compile(ctx, "{{ x }}{% set x = messages|length %}{{ x }}", &tpl), FOCAL_OK);
    for (int32_t n = 0; n < 3; n++) {
        char *text = NULL, expected[16];
        size_t bytes;
        focal_chat chat = usual;
        chat.message_count = n;
        assert_status(ctx, focal_template_render(tpl, &chat, &text, &bytes), FOCAL_OK);
        (void)snprintf(expected, sizeof expected, "%d", n);
        assert_string_equal(text, expected);
        focal_template_text_free(tpl, text);
    }
    focal_template_free(tpl);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_become_text, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(json_becomes_values, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(calls_are_checked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_not_supported_is_named, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_no_template_is_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failures_name_line_and_cause, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(limits_hold, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(hostile_work_ends, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(large_sources_end, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(depth_fits_a_small_stack, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(renders_repeat, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("template", tests, NULL, NULL);
}
