/* What the parsers of statements and of expressions share: tokens, nodes, messages. */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_node.h"

focal_status foci_parse_fail(const foci_parser *p, focal_status status, const char *format, ...)
{
    char text[256];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    foci_one_line(text);
    (void)foci_fail(p->ctx, status, "template: line %d: %s", p->token.line, text);
    return status;
}

void foci_parse_report(const foci_parser *p, const char *expected)
{
    static const char *const names[] = {
        "the end of the template", "text", "'{{'", "'}}'", "'{%'", "'%}'"};
    if (p->token.kind < FOCAL_COUNT(names)) {
        (void)foci_parse_fail(p, FOCAL_EFORMAT, "expected %s, found %s", expected,
                              names[p->token.kind]);
        return;
    }
    const int shown = p->token.text.bytes < 40 ? (int)p->token.text.bytes : 40;
    (void)foci_parse_fail(p, FOCAL_EFORMAT, "expected %s, found '%.*s'", expected, shown,
                          p->token.text.data);
}

focal_status foci_parse_advance(foci_parser *p)
{
    if (!p->has_ahead) return foci_lexer_next(&p->lexer, &p->token);
    p->token = p->ahead;
    p->has_ahead = false;
    return FOCAL_OK;
}

focal_status foci_parse_peek(foci_parser *p, foci_token *ahead)
{
    if (!p->has_ahead) FOCAL_TRY(foci_lexer_next(&p->lexer, &p->ahead));
    p->has_ahead = true;
    *ahead = p->ahead;
    return FOCAL_OK;
}

focal_status foci_parse_enter(foci_parser *p)
{
    if (++p->depth > FOCI_TEMPLATE_NESTING)
        return foci_parse_fail(p, FOCAL_EFORMAT, "nested deeper than %d levels",
                               FOCI_TEMPLATE_NESTING);
    return FOCAL_OK;
}

bool foci_parse_at_name(const foci_parser *p, const char *name)
{
    return p->token.kind == FOCI_T_NAME && foci_chars_is(p->token.text, name);
}

bool foci_parse_at_op(const foci_parser *p, int32_t op)
{
    return p->token.kind == FOCI_T_OPERATOR && p->token.op == op;
}

focal_status foci_parse_expect_op(foci_parser *p, int32_t op)
{
    const char expected[] = {'\'', (char)(op & 0xFF), '\'', '\0'};
    if (!foci_parse_at_op(p, op)) return foci_parse_unexpected(p, expected);
    return foci_parse_advance(p);
}

focal_status foci_parse_expect_name(foci_parser *p, foci_chars *name)
{
    if (p->token.kind != FOCI_T_NAME) return foci_parse_unexpected(p, "a name");
    *name = p->token.text;
    return foci_parse_advance(p);
}

focal_status foci_parse_node(foci_parser *p, foci_node_kind kind, foci_node **out)
{
    foci_node *node = foci_store_alloc(p->store, 1, sizeof *node);
    if (!node) return foci_store_failed(p->store);
    *node = (foci_node){.kind = kind, .line = p->token.line};
    *out = node;
    return FOCAL_OK;
}

focal_status foci_parse_note(foci_parser *p, foci_chars name, bool is_set)
{
    if (p->frame_depth || p->seen_count == FOCI_TEMPLATE_NAMES) return FOCAL_OK;
    for (int32_t n = 0; n < p->seen_count; n++)
        if (foci_chars_equal(p->seen[n], name)) return FOCAL_OK;
    p->seen[p->seen_count++] = name;
    if (!is_set || p->if_depth) return FOCAL_OK;
    foci_node *node;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_NAME, &node));
    node->name = name;
    node->next = p->unset;
    p->unset = node;
    return FOCAL_OK;
}
