/* Statements: the blocks of a template. */
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_node.h"

/* Recursion here is bounded (blocks inside each other): foci_parse_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

enum { MAX_PARAMETERS = 64 };

/* All names of a target that is set here. */
static focal_status note_target(foci_parser *p, const foci_node *target)
{
    if (target->kind != FOCI_N_TUPLE)
        return foci_parse_note(p, target->name, target->kind == FOCI_N_NAME);
    for (const foci_node *kid = target->kids; kid; kid = kid->next) FOCAL_TRY(note_target(p, kid));
    return FOCAL_OK;
}

static focal_status expect_block_end(foci_parser *p)
{
    if (p->token.kind != FOCI_T_BLOCK_END) return foci_parse_unexpected(p, "'%}'");
    return foci_parse_advance(p);
}

static focal_status parse_statement(foci_parser *p, foci_node **out);

/* Everything up to a block whose name is one of `ends`, which stays the current token; without
 * ends, up to the end of the source. */
static focal_status parse_until(foci_parser *p, const char *const *ends, foci_node **body)
{
    foci_node **tail = body;
    while (p->token.kind != FOCI_T_END) {
        foci_node *node = NULL;
        if (p->token.kind == FOCI_T_TEXT) {
            FOCAL_TRY(foci_parse_node(p, FOCI_N_TEXT, &node));
            node->constant = foci_string(p->token.text);
            FOCAL_TRY(foci_parse_advance(p));
        } else if (p->token.kind == FOCI_T_PRINT_BEGIN) {
            FOCAL_TRY(foci_parse_node(p, FOCI_N_PRINT, &node));
            FOCAL_TRY(foci_parse_advance(p));
            FOCAL_TRY(foci_parse_tuple(p, true, false, NULL, &node->a));
            if (p->token.kind != FOCI_T_PRINT_END) return foci_parse_unexpected(p, "'}}'");
            FOCAL_TRY(foci_parse_advance(p));
        } else {
            FOCAL_TRY(foci_parse_advance(p));
            for (size_t n = 0; ends && ends[n]; n++)
                if (foci_parse_at_name(p, ends[n])) return FOCAL_OK;
            FOCAL_TRY(parse_statement(p, &node));
            FOCAL_TRY(expect_block_end(p));
        }
        if (!node) continue;
        *tail = node;
        tail = &node->next;
    }
    return ends ? foci_parse_unexpected(p, ends[0]) : FOCAL_OK;
}

/* The body of a block, behind its opening tag. */
static focal_status parse_body(foci_parser *p, const char *const *ends, foci_node **body)
{
    FOCAL_TRY(foci_parse_enter(p));
    if (foci_parse_at_op(p, ':')) FOCAL_TRY(foci_parse_advance(p));
    FOCAL_TRY(expect_block_end(p));
    FOCAL_TRY(parse_until(p, ends, body));
    p->depth--;
    return FOCAL_OK;
}

/* The same with a scope of its own, and the one name that ends it, which is passed over. */
static focal_status parse_whole_body(foci_parser *p, const char *end, foci_node **body)
{
    const char *const ends[] = {end, NULL};
    p->frame_depth++;
    FOCAL_TRY(parse_body(p, ends, body));
    p->frame_depth--;
    return foci_parse_advance(p);
}

/* A name to assign to; with_member: or a namespace's member. */
static focal_status parse_target_name(foci_parser *p, bool with_member, foci_node **out)
{
    static const char *const constants[] = {"true", "false", "none", "True", "False", "None"};
    FOCAL_TRY(foci_parse_node(p, FOCI_N_NAME, out));
    for (size_t n = 0; n < FOCAL_COUNT(constants); n++)
        if (foci_parse_at_name(p, constants[n])) return foci_parse_unexpected(p, "a name");
    if (foci_parse_at_name(p, "loop") && p->any_loop_depth)
        return foci_parse_fail(p, FOCAL_EFORMAT, "'loop' cannot be assigned to in a loop");
    FOCAL_TRY(foci_parse_expect_name(p, &(*out)->name));
    if (!with_member || !foci_parse_at_op(p, '.')) return FOCAL_OK;
    FOCAL_TRY(foci_parse_advance(p));
    foci_chars member;
    FOCAL_TRY(foci_parse_expect_name(p, &member));
    (*out)->kind = FOCI_N_MEMBER;
    (*out)->constant = foci_string(member);
    return FOCAL_OK;
}

/* a, (b, c), d */
static focal_status parse_target(foci_parser *p, bool with_member, foci_node **out)
{
    FOCAL_TRY(foci_parse_enter(p));
    foci_node *tuple = NULL, **tail;
    bool is_tuple = false;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_TUPLE, &tuple));
    tail = &tuple->kids;
    for (;;) {
        foci_node *kid = NULL;
        if (foci_parse_at_op(p, '(')) {
            FOCAL_TRY(foci_parse_advance(p));
            FOCAL_TRY(parse_target(p, with_member, &kid));
            FOCAL_TRY(foci_parse_expect_op(p, ')'));
        } else {
            FOCAL_TRY(parse_target_name(p, with_member, &kid));
        }
        *tail = kid;
        tail = &kid->next;
        if (!foci_parse_at_op(p, ',')) break;
        is_tuple = true;
        FOCAL_TRY(foci_parse_advance(p));
        if (foci_parse_at_name(p, "in") || foci_parse_at_op(p, ')') || foci_parse_at_op(p, '='))
            break;
    }
    p->depth--;
    *out = is_tuple ? tuple : tuple->kids;
    return FOCAL_OK;
}

static focal_status parse_if(foci_parser *p, foci_node *node)
{
    static const char *const ends[] = {"endif", "elif", "else", NULL};
    foci_node **tail = &node->kids;
    bool is_else = false;
    for (;;) {
        foci_node *branch = NULL;
        FOCAL_TRY(foci_parse_node(p, FOCI_N_BRANCH, &branch));
        *tail = branch;
        tail = &branch->next;
        if (!is_else) FOCAL_TRY(foci_parse_tuple(p, false, false, NULL, &branch->a));
        p->if_depth++;
        FOCAL_TRY(parse_body(p, ends, &branch->kids));
        p->if_depth--;
        const bool is_end = foci_parse_at_name(p, "endif");
        if (!is_end && is_else) return foci_parse_unexpected(p, "endif");
        is_else = foci_parse_at_name(p, "else");
        FOCAL_TRY(foci_parse_advance(p));
        if (is_end) return FOCAL_OK;
    }
}

static focal_status parse_for(foci_parser *p, foci_node *node)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    p->any_loop_depth++;
    FOCAL_TRY(parse_target(p, false, &node->a));
    if (!foci_parse_at_name(p, "in")) return foci_parse_unexpected(p, "'in'");
    FOCAL_TRY(foci_parse_advance(p));
    FOCAL_TRY(foci_parse_tuple(p, false, false, "recursive", &node->b));
    if (foci_parse_at_name(p, "if")) {
        FOCAL_TRY(foci_parse_advance(p));
        p->frame_depth++;
        FOCAL_TRY(foci_parse_expression(p, true, &node->c));
        p->frame_depth--;
    }
    if (foci_parse_at_name(p, "recursive"))
        return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "recursive loops are not supported");
    p->loop_depth++;
    p->frame_depth++;
    FOCAL_TRY(parse_body(p, ends, &node->kids));
    p->frame_depth--;
    p->loop_depth--;
    const bool has_else = foci_parse_at_name(p, "else");
    FOCAL_TRY(foci_parse_advance(p));
    if (has_else) FOCAL_TRY(parse_whole_body(p, "endfor", &node->others));
    p->any_loop_depth--;
    return FOCAL_OK;
}

static focal_status parse_set(foci_parser *p, foci_node *node)
{
    FOCAL_TRY(parse_target(p, true, &node->a));
    if (foci_parse_at_op(p, '=')) {
        FOCAL_TRY(foci_parse_advance(p));
        FOCAL_TRY(foci_parse_tuple(p, true, false, NULL, &node->b));
        return note_target(p, node->a); /* the value is read first */
    }
    node->kind = FOCI_N_SET_BLOCK;
    FOCAL_TRY(note_target(p, node->a));
    FOCAL_TRY(foci_parse_filters(p, false, &node->b));
    return parse_whole_body(p, "endset", &node->kids);
}

/* A body that is a function of its own in jinja2: break and continue do not reach out of it. */
static focal_status parse_function_body(foci_parser *p, const char *end, foci_node **body)
{
    const int32_t loop_depth = p->loop_depth;
    p->loop_depth = 0;
    FOCAL_TRY(parse_whole_body(p, end, body));
    p->loop_depth = loop_depth;
    return FOCAL_OK;
}

static focal_status parse_macro(foci_parser *p, foci_node *node)
{
    foci_node **tail = &node->others, *name;
    bool has_default = false;
    int32_t count = 0;
    FOCAL_TRY(parse_target_name(p, false, &name));
    node->name = name->name;
    FOCAL_TRY(foci_parse_note(p, node->name, true));
    p->macro_depth++;
    p->frame_depth++;
    FOCAL_TRY(foci_parse_expect_op(p, '('));
    while (!foci_parse_at_op(p, ')')) {
        if (count > 0) FOCAL_TRY(foci_parse_expect_op(p, ','));
        if (count++ == MAX_PARAMETERS)
            return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "a macro of more than %d parameters",
                                   MAX_PARAMETERS);
        foci_node *parameter = NULL;
        FOCAL_TRY(foci_parse_node(p, FOCI_N_PARAMETER, &parameter));
        FOCAL_TRY(foci_parse_expect_name(p, &parameter->name));
        *tail = parameter;
        tail = &parameter->next;
        for (const foci_node *other = node->others; other != parameter; other = other->next)
            if (foci_chars_equal(other->name, parameter->name))
                return foci_parse_fail(p, FOCAL_EFORMAT, "a macro has two parameters '%.*s'",
                                       (int)parameter->name.bytes, parameter->name.data);
        if (foci_parse_at_op(p, '=')) {
            has_default = true;
            FOCAL_TRY(foci_parse_advance(p));
            FOCAL_TRY(foci_parse_expression(p, true, &parameter->a));
        } else if (has_default) {
            return foci_parse_fail(p, FOCAL_EFORMAT,
                                   "a parameter without default follows one with");
        }
    }
    FOCAL_TRY(foci_parse_expect_op(p, ')'));
    FOCAL_TRY(parse_function_body(p, "endmacro", &node->kids));
    p->frame_depth--;
    p->macro_depth--;
    return FOCAL_OK;
}

static focal_status parse_with(foci_parser *p, foci_node *node)
{
    foci_node **tail = &node->others;
    for (bool is_first = true; p->token.kind != FOCI_T_BLOCK_END; is_first = false) {
        if (!is_first) FOCAL_TRY(foci_parse_expect_op(p, ','));
        foci_node *set = NULL;
        FOCAL_TRY(foci_parse_node(p, FOCI_N_SET, &set));
        *tail = set;
        tail = &set->next;
        FOCAL_TRY(parse_target(p, false, &set->a));
        FOCAL_TRY(foci_parse_expect_op(p, '='));
        FOCAL_TRY(foci_parse_expression(p, true, &set->b));
    }
    return parse_whole_body(p, "endwith", &node->kids);
}

static focal_status parse_filter_block(foci_parser *p, foci_node *node)
{
    FOCAL_TRY(foci_parse_filters(p, true, &node->b));
    return parse_whole_body(p, "endfilter", &node->kids);
}

/* Marks what the model itself wrote, for training: here a scope and nothing more. */
static focal_status parse_generation(foci_parser *p, foci_node *node)
{
    return parse_function_body(p, "endgeneration", &node->kids);
}

static focal_status parse_jump(foci_parser *p, foci_node *node)
{
    if (p->loop_depth > 0) return FOCAL_OK;
    return foci_parse_fail(p, FOCAL_EFORMAT, "'%s' outside of a loop",
                           node->kind == FOCI_N_BREAK ? "break" : "continue");
}

static focal_status parse_statement(foci_parser *p, foci_node **out)
{
    static const struct {
        const char *name;
        foci_node_kind kind;
        focal_status (*parse)(foci_parser *p, foci_node *node);
    } statements[] = {
        {"if", FOCI_N_IF, parse_if},
        {"for", FOCI_N_FOR, parse_for},
        {"set", FOCI_N_SET, parse_set},
        {"macro", FOCI_N_MACRO, parse_macro},
        {"with", FOCI_N_WITH, parse_with},
        {"filter", FOCI_N_FILTER_BLOCK, parse_filter_block},
        {"generation", FOCI_N_WITH, parse_generation},
        {"break", FOCI_N_BREAK, parse_jump},
        {"continue", FOCI_N_CONTINUE, parse_jump},
    };
    if (p->token.kind != FOCI_T_NAME) return foci_parse_unexpected(p, "a statement");
    for (size_t n = 0; n < FOCAL_COUNT(statements); n++) {
        if (!foci_parse_at_name(p, statements[n].name)) continue;
        FOCAL_TRY(foci_parse_node(p, statements[n].kind, out));
        FOCAL_TRY(foci_parse_advance(p));
        return statements[n].parse(p, *out);
    }
    if (foci_parse_at_name(p, "else") || foci_parse_at_name(p, "elif") ||
        (p->token.text.bytes > 3 && memcmp(p->token.text.data, "end", 3) == 0))
        return foci_parse_unexpected(p, "another block");
    return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "the block '{%% %.*s %%}' is not supported",
                           p->token.text.bytes < 40 ? (int)p->token.text.bytes : 40,
                           p->token.text.data);
}

/* Line ends become \n, and one at the very end goes, as jinja2 does. */
static foci_chars normalise(char *text, size_t bytes)
{
    size_t kept = 0;
    for (size_t n = 0; n < bytes; n++) {
        if (text[n] == '\r') {
            if (n + 1 < bytes && text[n + 1] == '\n') n++;
            text[kept++] = '\n';
        } else {
            text[kept++] = text[n];
        }
    }
    if (kept > 0 && text[kept - 1] == '\n') kept--;
    return (foci_chars){text, kept};
}

focal_status foci_template_parse(focal_ctx *ctx, foci_store *store, foci_chars source,
                                 foci_node **body, foci_node **unset)
{
    size_t bad;
    if (source.bytes > FOCI_TEMPLATE_SOURCE_LIMIT)
        return foci_fail(ctx, FOCAL_EFORMAT, "template: %zu bytes, at most %d are read",
                         source.bytes, FOCI_TEMPLATE_SOURCE_LIMIT);
    if (!foci_char_check(source, &bad))
        return foci_fail(ctx, FOCAL_EFORMAT, "template: byte %zu is not UTF-8", bad);
    char *copy = foci_store_alloc(store, source.bytes + 1, 1);
    if (!copy) return foci_store_failed(store);
    if (source.bytes) memcpy(copy, source.data, source.bytes);
    const foci_chars text = normalise(copy, source.bytes);
    foci_parser parser = {.ctx = ctx,
                          .store = store,
                          .lexer = {.ctx = ctx,
                                    .begin = text.data,
                                    .at = text.data,
                                    .end = text.data + text.bytes,
                                    .line = 1,
                                    .is_line_start = true}};
    *body = NULL;
    FOCAL_TRY(foci_parse_advance(&parser));
    FOCAL_TRY(parse_until(&parser, NULL, body));
    *unset = parser.unset;
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
