/* Expressions: jinja2's grammar, level by level, with chains of one level laid side by side so
 * that a long sum nests no deeper than a short one. */
#include <string.h>

#include "base/error.h"
#include "text/template_node.h"
#include "text/template_run.h"

/* Recursion here is bounded (expressions inside each other): foci_parse_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

/* How strongly an operator binds, weakest first. */
enum {
    NO_OPERATOR,
    LEVEL_OR,
    LEVEL_AND,
    LEVEL_NOT,
    LEVEL_COMPARE,
    LEVEL_SUM,
    LEVEL_CONCAT,
    LEVEL_PRODUCT,
    LEVEL_POWER
};

static focal_status parse_unary(foci_parser *p, bool with_filters, foci_node **out);

/* The level of the operator at the current token, and its number. */
static focal_status find_operator(foci_parser *p, int *level, int32_t *op)
{
    *level = NO_OPERATOR;
    *op = p->token.op;
    if (p->token.kind == FOCI_T_NAME) {
        foci_token ahead;
        if (foci_parse_at_name(p, "or")) *level = LEVEL_OR;
        if (foci_parse_at_name(p, "and")) *level = LEVEL_AND;
        if (foci_parse_at_name(p, "in")) {
            *level = LEVEL_COMPARE;
            *op = 'i';
        }
        if (!foci_parse_at_name(p, "not")) return FOCAL_OK;
        FOCAL_TRY(foci_parse_peek(p, &ahead));
        if (ahead.kind == FOCI_T_NAME && foci_chars_is(ahead.text, "in")) {
            *level = LEVEL_COMPARE;
            *op = 'n';
        }
        return FOCAL_OK;
    }
    if (p->token.kind != FOCI_T_OPERATOR) return FOCAL_OK;
    switch (p->token.op) {
    case FOCI_OP('=', '='):
    case FOCI_OP('!', '='):
    case FOCI_OP('<', '='):
    case FOCI_OP('>', '='):
    case '<':
    case '>':
        *level = LEVEL_COMPARE;
        break;
    case '+':
    case '-':
        *level = LEVEL_SUM;
        break;
    case '~':
        *level = LEVEL_CONCAT;
        break;
    case '*':
    case '/':
    case '%':
    case FOCI_OP('/', '/'):
        *level = LEVEL_PRODUCT;
        break;
    case FOCI_OP('*', '*'):
        *level = LEVEL_POWER;
        break;
    default:
        break;
    }
    return FOCAL_OK;
}

/* Operators of at least this level; LEVEL_POWER + 1: none. */
static focal_status parse_binary(foci_parser *p, int least, foci_node **out)
{
    static const foci_node_kind kinds[] = {
        [LEVEL_OR] = FOCI_N_OR,           [LEVEL_AND] = FOCI_N_AND,
        [LEVEL_COMPARE] = FOCI_N_COMPARE, [LEVEL_SUM] = FOCI_N_MATH,
        [LEVEL_CONCAT] = FOCI_N_CONCAT,   [LEVEL_PRODUCT] = FOCI_N_MATH,
        [LEVEL_POWER] = FOCI_N_MATH};
    FOCAL_TRY(foci_parse_enter(p));
    foci_node *left = NULL;
    if (least <= LEVEL_NOT && foci_parse_at_name(p, "not")) {
        FOCAL_TRY(foci_parse_node(p, FOCI_N_NOT, &left));
        FOCAL_TRY(foci_parse_advance(p));
        FOCAL_TRY(parse_binary(p, LEVEL_NOT, &left->a));
    } else {
        FOCAL_TRY(parse_unary(p, true, &left));
    }
    int level;
    int32_t op;
    FOCAL_TRY(find_operator(p, &level, &op));
    while (level != NO_OPERATOR && level >= least) {
        foci_node *chain, *last = left;
        const int own = level;
        FOCAL_TRY(foci_parse_node(p, kinds[level], &chain));
        chain->kids = left;
        while (level == own) {
            foci_node *operand;
            FOCAL_TRY(foci_parse_node(p, FOCI_N_OPERAND, &operand));
            operand->op = op;
            FOCAL_TRY(foci_parse_advance(p));
            if (op == 'n') FOCAL_TRY(foci_parse_advance(p));
            FOCAL_TRY(parse_binary(p, own + 1, &operand->a));
            last->next = operand;
            last = operand;
            FOCAL_TRY(find_operator(p, &level, &op));
        }
        left = chain;
    }
    p->depth--;
    *out = left;
    return FOCAL_OK;
}

focal_status foci_parse_expression(foci_parser *p, bool with_condition, foci_node **out)
{
    foci_node *whole = NULL;
    FOCAL_TRY(foci_parse_enter(p));
    FOCAL_TRY(parse_binary(p, LEVEL_OR, &whole));
    while (with_condition && foci_parse_at_name(p, "if")) {
        foci_node *node;
        FOCAL_TRY(foci_parse_node(p, FOCI_N_CONDITION, &node));
        FOCAL_TRY(foci_parse_advance(p));
        node->b = whole;
        FOCAL_TRY(parse_binary(p, LEVEL_OR, &node->a));
        if (foci_parse_at_name(p, "else")) {
            FOCAL_TRY(foci_parse_advance(p));
            FOCAL_TRY(foci_parse_expression(p, true, &node->c));
        }
        whole = node;
    }
    p->depth--;
    *out = whole;
    return FOCAL_OK;
}

/* Parses one more expression into a list; *tail is where the next one goes. */
static focal_status append_expression(foci_parser *p, bool with_condition, foci_node ***tail)
{
    foci_node *node = NULL;
    FOCAL_TRY(foci_parse_expression(p, with_condition, &node));
    **tail = node;
    *tail = &node->next;
    return FOCAL_OK;
}

static bool is_tuple_end(const foci_parser *p, const char *end)
{
    return p->token.kind == FOCI_T_PRINT_END || p->token.kind == FOCI_T_BLOCK_END ||
           foci_parse_at_op(p, ')') || (end && foci_parse_at_name(p, end));
}

focal_status foci_parse_tuple(foci_parser *p, bool with_condition, bool in_parentheses,
                              const char *end, foci_node **out)
{
    foci_node *tuple, **tail;
    bool is_tuple = false;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_TUPLE, &tuple));
    tail = &tuple->kids;
    while (!is_tuple_end(p, end)) {
        FOCAL_TRY(append_expression(p, with_condition, &tail));
        if (!foci_parse_at_op(p, ',')) break;
        is_tuple = true;
        FOCAL_TRY(foci_parse_advance(p));
    }
    if (!is_tuple && !tuple->kids && !in_parentheses) return foci_parse_unexpected(p, "a value");
    *out = is_tuple || !tuple->kids ? tuple : tuple->kids;
    return FOCAL_OK;
}

/* Between brackets: values, or with `colon` keys and values by turns. */
static focal_status parse_display(foci_parser *p, foci_node_kind kind, int32_t close,
                                  foci_node **out)
{
    foci_node *node = NULL;
    FOCAL_TRY(foci_parse_node(p, kind, &node));
    *out = node;
    FOCAL_TRY(foci_parse_advance(p));
    foci_node **tail = &node->kids;
    for (bool is_first = true; !foci_parse_at_op(p, close); is_first = false) {
        if (!is_first) FOCAL_TRY(foci_parse_expect_op(p, ','));
        if (foci_parse_at_op(p, close)) break;
        FOCAL_TRY(append_expression(p, true, &tail));
        if (kind != FOCI_N_DICT) continue;
        FOCAL_TRY(foci_parse_expect_op(p, ':'));
        FOCAL_TRY(append_expression(p, true, &tail));
    }
    return foci_parse_expect_op(p, close);
}

static focal_status parse_strings(foci_parser *p, foci_node *node)
{
    foci_builder joined = {.store = p->store};
    while (p->token.kind == FOCI_T_STRING) {
        foci_chars text;
        FOCAL_TRY(foci_parse_string(p, p->token.text, &text));
        FOCAL_TRY(foci_builder_add(&joined, text.data, text.bytes));
        FOCAL_TRY(foci_parse_advance(p));
    }
    node->constant = foci_string(foci_builder_chars(&joined));
    return FOCAL_OK;
}

static focal_status parse_name(foci_parser *p, foci_node *node)
{
    static const char *const special[] = {"caller", "varargs", "kwargs"};
    const foci_chars name = p->token.text;
    FOCAL_TRY(foci_parse_advance(p));
    node->kind = FOCI_N_CONSTANT;
    if (foci_chars_is(name, "true") || foci_chars_is(name, "True")) {
        node->constant = foci_bool(true);
    } else if (foci_chars_is(name, "false") || foci_chars_is(name, "False")) {
        node->constant = foci_bool(false);
    } else if (foci_chars_is(name, "none") || foci_chars_is(name, "None")) {
        node->constant = foci_none();
    } else {
        node->kind = FOCI_N_NAME;
        node->name = name;
        FOCAL_TRY(foci_parse_note(p, name, false));
        for (size_t n = 0; n < FOCAL_COUNT(special) && p->macro_depth; n++)
            if (foci_chars_is(name, special[n]))
                return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "'%s' in a macro is not supported",
                                       special[n]);
    }
    return FOCAL_OK;
}

focal_status foci_parse_primary(foci_parser *p, foci_node **out)
{
    FOCAL_TRY(foci_parse_node(p, FOCI_N_CONSTANT, out));
    switch (p->token.kind) {
    case FOCI_T_NAME:
        return parse_name(p, *out);
    case FOCI_T_STRING:
        return parse_strings(p, *out);
    case FOCI_T_INT:
    case FOCI_T_FLOAT:
        FOCAL_TRY(foci_parse_number(p, &(*out)->constant));
        return foci_parse_advance(p);
    default:
        break;
    }
    if (foci_parse_at_op(p, '(')) {
        FOCAL_TRY(foci_parse_advance(p));
        FOCAL_TRY(foci_parse_tuple(p, true, true, NULL, out));
        return foci_parse_expect_op(p, ')');
    }
    if (foci_parse_at_op(p, '[')) return parse_display(p, FOCI_N_LIST, ']', out);
    if (foci_parse_at_op(p, '{')) return parse_display(p, FOCI_N_DICT, '}', out);
    return foci_parse_unexpected(p, "a value");
}

/* (a, b, name=c), from the opening parenthesis on. */
static focal_status parse_arguments(foci_parser *p, foci_node *call)
{
    foci_node **tail = &call->kids;
    bool has_keyword = false;
    FOCAL_TRY(foci_parse_expect_op(p, '('));
    while (!foci_parse_at_op(p, ')')) {
        foci_node *argument;
        foci_token ahead = {0};
        if (call->kids) FOCAL_TRY(foci_parse_expect_op(p, ','));
        if (call->kids && foci_parse_at_op(p, ')')) break;
        if (foci_parse_at_op(p, '*') || foci_parse_at_op(p, FOCI_OP('*', '*')))
            return foci_parse_fail(p, FOCAL_EUNSUPPORTED,
                                   "* and ** before an argument are not supported");
        FOCAL_TRY(foci_parse_node(p, FOCI_N_ARGUMENT, &argument));
        if (p->token.kind == FOCI_T_NAME) FOCAL_TRY(foci_parse_peek(p, &ahead));
        if (ahead.kind == FOCI_T_OPERATOR && ahead.op == '=') {
            argument->name = p->token.text;
            has_keyword = true;
            FOCAL_TRY(foci_parse_advance(p));
            FOCAL_TRY(foci_parse_advance(p));
        } else if (has_keyword) {
            return foci_parse_fail(p, FOCAL_EFORMAT, "a plain argument follows one with a name");
        }
        FOCAL_TRY(foci_parse_expression(p, true, &argument->a));
        *tail = argument;
        tail = &argument->next;
    }
    return foci_parse_expect_op(p, ')');
}

/* start:stop:step, from the first colon on; each may be missing, and start is NULL then. */
static focal_status parse_slice(foci_parser *p, foci_node *start, foci_node *node)
{
    foci_node *bound;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_ARGUMENT, &bound));
    bound->a = start;
    node->kids = bound;
    for (int n = 0; n < 2 && foci_parse_at_op(p, ':'); n++) {
        FOCAL_TRY(foci_parse_advance(p));
        FOCAL_TRY(foci_parse_node(p, FOCI_N_ARGUMENT, &bound->next));
        bound = bound->next;
        if (!foci_parse_at_op(p, ':') && !foci_parse_at_op(p, ']') && !foci_parse_at_op(p, ','))
            FOCAL_TRY(foci_parse_expression(p, true, &bound->a));
    }
    if (foci_parse_at_op(p, ','))
        return foci_parse_fail(p, FOCAL_EUNSUPPORTED,
                               "several slices in one index are not supported");
    return FOCAL_OK;
}

/* The rest of a[b, c]: a tuple is the key. */
static focal_status parse_tuple_key(foci_parser *p, foci_node **key)
{
    foci_node *tuple, *last = *key;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_TUPLE, &tuple));
    tuple->kids = *key;
    while (foci_parse_at_op(p, ',')) {
        FOCAL_TRY(foci_parse_advance(p));
        FOCAL_TRY(foci_parse_expression(p, true, &last->next));
        last = last->next;
    }
    *key = tuple;
    return FOCAL_OK;
}

/* object[...], from the opening bracket on. */
static focal_status parse_subscript(foci_parser *p, foci_node *object, foci_node **out)
{
    foci_node *node;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_ITEM, &node));
    node->a = object;
    *out = node;
    FOCAL_TRY(foci_parse_advance(p));
    if (!foci_parse_at_op(p, ':')) FOCAL_TRY(foci_parse_expression(p, true, &node->b));
    if (foci_parse_at_op(p, ':')) {
        node->kind = FOCI_N_SLICE;
        FOCAL_TRY(parse_slice(p, node->b, node));
    } else if (foci_parse_at_op(p, ',')) {
        FOCAL_TRY(parse_tuple_key(p, &node->b));
    }
    return foci_parse_expect_op(p, ']');
}

static focal_status parse_attribute(foci_parser *p, foci_node *object, foci_node **out)
{
    FOCAL_TRY(foci_parse_node(p, FOCI_N_ATTRIBUTE, out));
    (*out)->a = object;
    FOCAL_TRY(foci_parse_advance(p));
    if (p->token.kind == FOCI_T_NAME) {
        (*out)->name = p->token.text;
    } else if (p->token.kind == FOCI_T_INT) {
        (*out)->kind = FOCI_N_ITEM;
        FOCAL_TRY(foci_parse_node(p, FOCI_N_CONSTANT, &(*out)->b));
        FOCAL_TRY(foci_parse_number(p, &(*out)->b->constant));
    } else {
        return foci_parse_unexpected(p, "an attribute's name");
    }
    return foci_parse_advance(p);
}

static focal_status parse_call(foci_parser *p, foci_node *callee, foci_node **out)
{
    FOCAL_TRY(foci_parse_node(p, FOCI_N_CALL, out));
    (*out)->a = callee;
    static const char *const unknown[] = {"cycler", "joiner", "lipsum"};
    for (size_t n = 0; n < FOCAL_COUNT(unknown) && callee->kind == FOCI_N_NAME; n++)
        if (foci_chars_is(callee->name, unknown[n]))
            return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "%s() is not supported", unknown[n]);
    if (callee->kind == FOCI_N_ATTRIBUTE && foci_method_is_refused(callee->name))
        return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "the method %.*s() is not supported",
                               (int)callee->name.bytes, callee->name.data);
    return parse_arguments(p, *out);
}

static focal_status parse_postfix(foci_parser *p, foci_node **node)
{
    const int32_t depth = p->depth;
    for (;;) {
        foci_node *object = *node;
        if (foci_parse_at_op(p, '.'))
            FOCAL_TRY(parse_attribute(p, object, node));
        else if (foci_parse_at_op(p, '['))
            FOCAL_TRY(parse_subscript(p, object, node));
        else if (foci_parse_at_op(p, '('))
            FOCAL_TRY(parse_call(p, object, node));
        else
            break;
        FOCAL_TRY(foci_parse_enter(p)); /* running it goes one level deeper for each */
    }
    p->depth = depth;
    return FOCAL_OK;
}

focal_status foci_parse_filters(foci_parser *p, bool start, foci_node **node)
{
    const int32_t depth = p->depth;
    while (start || foci_parse_at_op(p, '|')) {
        foci_node *filter;
        FOCAL_TRY(foci_parse_enter(p));
        if (!start) FOCAL_TRY(foci_parse_advance(p));
        start = false;
        FOCAL_TRY(foci_parse_node(p, FOCI_N_FILTER, &filter));
        FOCAL_TRY(foci_parse_expect_name(p, &filter->name));
        filter->builtin = foci_filter_find(filter->name);
        if (!filter->builtin)
            return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "the filter '%.*s' is not supported",
                                   (int)filter->name.bytes, filter->name.data);
        filter->a = *node;
        if (foci_parse_at_op(p, '(')) FOCAL_TRY(parse_arguments(p, filter));
        *node = filter;
    }
    p->depth = depth;
    return FOCAL_OK;
}

/* value is [not] test, with an argument in parentheses or, if only one, without. */
static focal_status parse_test(foci_parser *p, foci_node **node)
{
    foci_node *test, *negated = NULL;
    FOCAL_TRY(foci_parse_node(p, FOCI_N_TEST, &test));
    FOCAL_TRY(foci_parse_advance(p));
    if (foci_parse_at_name(p, "not")) {
        FOCAL_TRY(foci_parse_node(p, FOCI_N_NOT, &negated));
        FOCAL_TRY(foci_parse_advance(p));
    }
    test->a = *node;
    FOCAL_TRY(foci_parse_expect_name(p, &test->name));
    test->builtin = foci_test_find(test->name);
    if (!test->builtin)
        return foci_parse_fail(p, FOCAL_EUNSUPPORTED, "the test '%.*s' is not supported",
                               (int)test->name.bytes, test->name.data);
    const foci_token_kind kind = p->token.kind;
    const bool has_value = kind == FOCI_T_NAME || kind == FOCI_T_STRING || kind == FOCI_T_INT ||
                           kind == FOCI_T_FLOAT || foci_parse_at_op(p, '[') ||
                           foci_parse_at_op(p, '{');
    if (foci_parse_at_op(p, '(')) {
        FOCAL_TRY(parse_arguments(p, test));
    } else if (has_value && !foci_parse_at_name(p, "else") && !foci_parse_at_name(p, "or") &&
               !foci_parse_at_name(p, "and")) {
        if (foci_parse_at_name(p, "is")) return foci_parse_unexpected(p, "no second test");
        FOCAL_TRY(foci_parse_enter(p));
        FOCAL_TRY(foci_parse_node(p, FOCI_N_ARGUMENT, &test->kids));
        FOCAL_TRY(foci_parse_primary(p, &test->kids->a));
        FOCAL_TRY(parse_postfix(p, &test->kids->a));
        p->depth--;
    }
    if (negated) negated->a = test;
    *node = negated ? negated : test;
    return FOCAL_OK;
}

static focal_status parse_unary(foci_parser *p, bool with_filters, foci_node **out)
{
    FOCAL_TRY(foci_parse_enter(p));
    const int32_t depth = p->depth;
    if (foci_parse_at_op(p, '-') || foci_parse_at_op(p, '+')) {
        const bool is_minus = foci_parse_at_op(p, '-');
        FOCAL_TRY(foci_parse_node(p, is_minus ? FOCI_N_MINUS : FOCI_N_PLUS, out));
        FOCAL_TRY(foci_parse_advance(p));
        FOCAL_TRY(parse_unary(p, false, &(*out)->a));
    } else {
        FOCAL_TRY(foci_parse_primary(p, out));
    }
    FOCAL_TRY(parse_postfix(p, out));
    while (with_filters) {
        if (foci_parse_at_op(p, '|'))
            FOCAL_TRY(foci_parse_filters(p, false, out));
        else if (foci_parse_at_name(p, "is"))
            FOCAL_TRY(parse_test(p, out));
        else if (foci_parse_at_op(p, '('))
            FOCAL_TRY(parse_postfix(p, out));
        else
            break;
        FOCAL_TRY(foci_parse_enter(p));
    }
    p->depth = depth - 1;
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
