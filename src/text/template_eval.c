/* Evaluating expressions. */
#include "base/error.h"
#include "text/template_run.h"

/* Recursion here is bounded (expressions inside each other): foci_run_enter() counts the depth.
 * NOLINTBEGIN(misc-no-recursion) */

static focal_status find_name(foci_run *run, foci_chars name, foci_value *out)
{
    for (const foci_scope *scope = run->scope; scope; scope = scope->parent) {
        FOCAL_TRY(foci_run_charge(run, scope->count));
        for (int32_t n = 0; n < scope->count; n++) {
            if (!foci_chars_equal(scope->bindings[n].name, name)) continue;
            *out = scope->bindings[n].value;
            return FOCAL_OK;
        }
    }
    FOCAL_TRY(foci_run_charge(run, run->globals->count));
    const foci_entry *entry = foci_dict_find(run->globals, name);
    const foci_builtin *function = entry ? NULL : foci_function_find(name);
    if (entry)
        *out = entry->value;
    else if (function)
        *out = (foci_value){.kind = FOCI_V_FUNCTION, .as.function = function};
    else
        *out = (foci_value){.kind = FOCI_V_UNDEFINED, .how = FOCI_UNDEFINED_NAME, .as.text = name};
    return FOCAL_OK;
}

static int64_t count_nodes(const foci_node *node)
{
    int64_t count = 0;
    for (; node; node = node->next) count++;
    return count;
}

/* The kids' values in a row. */
static focal_status eval_list(foci_run *run, const foci_node *node, foci_value *out)
{
    const int64_t count = count_nodes(node->kids);
    foci_value *items = foci_store_alloc(&run->store, (size_t)count, sizeof *items);
    if (!items) return foci_store_failed(&run->store);
    int64_t n = 0;
    for (const foci_node *kid = node->kids; kid; kid = kid->next)
        FOCAL_TRY(foci_eval(run, kid, &items[n++]));
    *out = foci_list(items, count);
    if (node->kind == FOCI_N_TUPLE) out->kind = FOCI_V_TUPLE;
    return FOCAL_OK;
}

static focal_status eval_dict(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_dict *dict = foci_dict_new(&run->store);
    if (!dict) return foci_store_failed(&run->store);
    for (const foci_node *key = node->kids; key; key = key->next->next) {
        foci_value name, value;
        FOCAL_TRY(foci_eval(run, key, &name));
        FOCAL_TRY(foci_eval(run, key->next, &value));
        FOCAL_TRY(foci_dict_set(run, dict, name, value));
    }
    *out = (foci_value){.kind = FOCI_V_DICT, .as.dict = dict};
    return FOCAL_OK;
}

static focal_status eval_arguments(foci_run *run, const foci_node *list, foci_arguments *args)
{
    int32_t keyword_count = 0;
    for (const foci_node *node = list; node; node = node->next)
        keyword_count += node->name.data != NULL;
    const int32_t count = (int32_t)count_nodes(list) - keyword_count;
    foci_value *items = foci_store_alloc(&run->store, (size_t)count, sizeof *items);
    foci_keyword *keywords = foci_store_alloc(&run->store, (size_t)keyword_count, sizeof *keywords);
    if (!items || !keywords) return foci_store_failed(&run->store);
    *args = (foci_arguments){items, count, keywords, keyword_count};
    for (const foci_node *node = list; node; node = node->next) {
        foci_value value;
        FOCAL_TRY(foci_eval(run, node->a, &value));
        if (node->name.data)
            *keywords++ = (foci_keyword){node->name, value};
        else
            *items++ = value;
    }
    return FOCAL_OK;
}

static focal_status eval_call(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_value callee;
    foci_arguments args;
    FOCAL_TRY(foci_eval(run, node->a, &callee));
    FOCAL_TRY(eval_arguments(run, node->kids, &args));
    run->line = node->line;
    return foci_call_value(run, callee, &args, out);
}

/* A filter or a test. */
static focal_status eval_builtin(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_value self;
    foci_arguments args;
    if (node->a)
        FOCAL_TRY(foci_eval(run, node->a, &self));
    else
        FOCAL_TRY(find_name(run, foci_chars_of("|"), &self));
    FOCAL_TRY(eval_arguments(run, node->kids, &args));
    run->line = node->line;
    return foci_call_builtin(run, node->builtin, self, &args, out);
}

static focal_status eval_slice(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_value object, bounds[3] = {foci_none(), foci_none(), foci_none()};
    int n = 0;
    FOCAL_TRY(foci_eval(run, node->a, &object));
    for (const foci_node *bound = node->kids; bound; bound = bound->next, n++)
        if (bound->a) FOCAL_TRY(foci_eval(run, bound->a, &bounds[n]));
    return foci_slice(run, object, bounds, out);
}

static focal_status eval_math(foci_run *run, const foci_node *node, foci_value *out)
{
    FOCAL_TRY(foci_eval(run, node->kids, out));
    for (const foci_node *operand = node->kids->next; operand; operand = operand->next) {
        foci_value right;
        FOCAL_TRY(foci_eval(run, operand->a, &right));
        run->line = operand->line;
        FOCAL_TRY(foci_math(run, operand->op, *out, right, out));
    }
    return FOCAL_OK;
}

static focal_status eval_concat(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_builder text = {.store = &run->store};
    for (const foci_node *kid = node->kids; kid; kid = kid->next) {
        foci_value value;
        FOCAL_TRY(foci_eval(run, kid->kind == FOCI_N_OPERAND ? kid->a : kid, &value));
        FOCAL_TRY(foci_print(run, value, &text));
    }
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}

/* and, or: the first value that decides. */
static focal_status eval_logic(foci_run *run, const foci_node *node, foci_value *out)
{
    const bool stops_at = node->kind == FOCI_N_OR;
    for (const foci_node *kid = node->kids; kid; kid = kid->next) {
        FOCAL_TRY(foci_eval(run, kid->kind == FOCI_N_OPERAND ? kid->a : kid, out));
        if (foci_truth(*out) == stops_at) break;
    }
    return FOCAL_OK;
}

static focal_status eval_compare(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_value left, right;
    bool holds = true;
    FOCAL_TRY(foci_eval(run, node->kids, &left));
    for (const foci_node *operand = node->kids->next; operand && holds; operand = operand->next) {
        FOCAL_TRY(foci_eval(run, operand->a, &right));
        run->line = operand->line;
        FOCAL_TRY(foci_compare(run, operand->op, left, right, &holds));
        left = right;
    }
    *out = foci_bool(holds);
    return FOCAL_OK;
}

static focal_status eval_condition(foci_run *run, const foci_node *node, foci_value *out)
{
    FOCAL_TRY(foci_eval(run, node->a, out));
    if (foci_truth(*out)) return foci_eval(run, node->b, out);
    if (node->c) return foci_eval(run, node->c, out);
    *out = foci_undefined_hint("an inline if without else had no value");
    return FOCAL_OK;
}

static focal_status eval_unary(foci_run *run, const foci_node *node, foci_value *out)
{
    FOCAL_TRY(foci_eval(run, node->a, out));
    if (node->kind == FOCI_N_NOT) {
        *out = foci_bool(!foci_truth(*out));
        return FOCAL_OK;
    }
    return foci_negate(run, *out, node->kind == FOCI_N_MINUS, out);
}

static focal_status eval_part(foci_run *run, const foci_node *node, foci_value *out)
{
    foci_value object, key;
    FOCAL_TRY(foci_eval(run, node->a, &object));
    if (node->kind == FOCI_N_ATTRIBUTE) return foci_attribute(run, object, node->name, out);
    FOCAL_TRY(foci_eval(run, node->b, &key));
    return foci_item(run, object, key, out);
}

static focal_status eval_node(foci_run *run, const foci_node *node, foci_value *out)
{
    switch (node->kind) {
    case FOCI_N_CONSTANT:
        *out = node->constant;
        return FOCAL_OK;
    case FOCI_N_NAME:
        return find_name(run, node->name, out);
    case FOCI_N_LIST:
    case FOCI_N_TUPLE:
        return eval_list(run, node, out);
    case FOCI_N_DICT:
        return eval_dict(run, node, out);
    case FOCI_N_ATTRIBUTE:
    case FOCI_N_ITEM:
        return eval_part(run, node, out);
    case FOCI_N_SLICE:
        return eval_slice(run, node, out);
    case FOCI_N_CALL:
        return eval_call(run, node, out);
    case FOCI_N_FILTER:
    case FOCI_N_TEST:
        return eval_builtin(run, node, out);
    case FOCI_N_NOT:
    case FOCI_N_MINUS:
    case FOCI_N_PLUS:
        return eval_unary(run, node, out);
    case FOCI_N_OR:
    case FOCI_N_AND:
        return eval_logic(run, node, out);
    case FOCI_N_COMPARE:
        return eval_compare(run, node, out);
    case FOCI_N_MATH:
        return eval_math(run, node, out);
    case FOCI_N_CONCAT:
        return eval_concat(run, node, out);
    case FOCI_N_CONDITION:
        return eval_condition(run, node, out);
    default:
        break;
    }
    return foci_run_fail(run, "an expression of no known kind"); /* the parser makes none */
}

focal_status foci_eval(foci_run *run, const foci_node *node, foci_value *out)
{
    run->line = node->line;
    FOCAL_TRY(foci_run_enter(run));
    FOCAL_TRY(foci_run_charge(run, 0));
    FOCAL_TRY(eval_node(run, node, out));
    run->depth--;
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
