/* Running statements: output, scopes, loops, macros. */
#include "text/template_run.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "text/template_chars.h"

/* Recursion here is bounded (statements, expressions and macros inside each other):
 * foci_run_enter() counts the depth. NOLINTBEGIN(misc-no-recursion) */

focal_status foci_run_fail(foci_run *run, const char *format, ...)
{
    char text[400];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(text, sizeof text, format, values);
    va_end(values);
    foci_one_line(text);
    return foci_fail(run->ctx, FOCAL_EINVAL, "template: line %d: %s", run->line, text);
}

focal_status foci_run_charge(foci_run *run, int64_t amount)
{
    run->steps += 1 + amount / 64;
    if (run->steps <= run->step_limit) return FOCAL_OK;
    return foci_run_fail(run, "more than the %lld steps allowed", (long long)run->step_limit);
}

focal_status foci_run_enter(foci_run *run)
{
    if (++run->depth <= FOCI_TEMPLATE_DEPTH) return FOCAL_OK;
    return foci_run_fail(run, "nested deeper than %d levels while running", FOCI_TEMPLATE_DEPTH);
}

focal_status foci_fail_undefined(foci_run *run, foci_value value)
{
    const int bytes = value.as.text.bytes < 80 ? (int)value.as.text.bytes : 80;
    const char *name = value.as.text.data;
    switch ((foci_undefined)value.how) {
    case FOCI_UNDEFINED_NAME:
        return foci_run_fail(run, "'%.*s' is undefined", bytes, name);
    case FOCI_UNDEFINED_ATTRIBUTE:
        return foci_run_fail(run, "a %s has no attribute or element '%.*s'",
                             foci_kind_name(value.of), bytes, name);
    case FOCI_UNDEFINED_UNSAFE:
        return foci_run_fail(run, "'%.*s' of a %s is out of bounds for templates", bytes, name,
                             foci_kind_name(value.of));
    case FOCI_UNDEFINED_HINT:
        break;
    }
    return foci_run_fail(run, "%.*s", bytes, name);
}

foci_scope *foci_scope_new(foci_run *run, foci_scope *parent)
{
    foci_scope *scope = foci_store_alloc(&run->store, 1, sizeof *scope);
    if (scope) *scope = (foci_scope){.parent = parent};
    return scope;
}

focal_status foci_scope_set(foci_run *run, foci_scope *scope, foci_chars name, foci_value value)
{
    FOCAL_TRY(foci_run_charge(run, scope->count));
    for (int32_t n = 0; n < scope->count; n++) {
        if (!foci_chars_equal(scope->bindings[n].name, name)) continue;
        scope->bindings[n].value = value;
        return FOCAL_OK;
    }
    if (scope->count == scope->room) {
        const int32_t room = scope->room ? 2 * scope->room : 4;
        foci_binding *bindings = foci_store_alloc(&run->store, (size_t)room, sizeof *bindings);
        if (!bindings) return foci_store_failed(&run->store);
        if (scope->count)
            memcpy(bindings, scope->bindings, (size_t)scope->count * sizeof *bindings);
        scope->bindings = bindings;
        scope->room = room;
    }
    scope->bindings[scope->count++] = (foci_binding){name, value};
    return FOCAL_OK;
}

static focal_status assign_member(foci_run *run, const foci_node *target, foci_value value)
{
    foci_value space;
    const foci_chars name = target->constant.as.text;
    const foci_node lookup = {.kind = FOCI_N_NAME, .line = target->line, .name = target->name};
    FOCAL_TRY(foci_eval(run, &lookup, &space));
    if (space.kind != FOCI_V_NAMESPACE)
        return foci_run_fail(run, "'%.*s' is no namespace, so it has no members to set",
                             (int)target->name.bytes, target->name.data);
    if (name.data[0] == '_')
        return foci_run_fail(run, "a namespace has no member '%.*s': it begins with '_'",
                             (int)name.bytes, name.data);
    return foci_dict_set(run, space.as.dict, foci_string(name), value);
}

focal_status foci_run_assign(foci_run *run, foci_scope *scope, const foci_node *target,
                             foci_value value)
{
    if (target->kind == FOCI_N_NAME) return foci_scope_set(run, scope, target->name, value);
    if (target->kind == FOCI_N_MEMBER) return assign_member(run, target, value);
    const foci_value *items;
    int64_t count, n = 0;
    FOCAL_TRY(foci_run_enter(run));
    if (value.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, value);
    FOCAL_TRY(foci_items(run, value, &items, &count));
    for (const foci_node *kid = target->kids; kid; kid = kid->next, n++)
        if (n < count) FOCAL_TRY(foci_run_assign(run, scope, kid, items[n]));
    if (n != count)
        return foci_run_fail(run, "%lld values for %lld names", (long long)count, (long long)n);
    run->depth--;
    return FOCAL_OK;
}

/* Runs a body in a scope of its own; what it prints goes to `out`. */
static focal_status run_inside(foci_run *run, const foci_node *body, foci_scope *scope,
                               foci_builder *out)
{
    foci_scope *outer = run->scope;
    foci_builder *outer_out = run->out;
    run->scope = scope;
    run->out = out;
    FOCAL_TRY(foci_run_body(run, body));
    run->scope = outer;
    run->out = outer_out;
    return FOCAL_OK;
}

static focal_status run_captured(foci_run *run, const foci_node *body, foci_scope *scope,
                                 foci_value *out)
{
    foci_builder text = {.store = &run->store, .limit = run->out->limit};
    FOCAL_TRY(run_inside(run, body, scope, &text));
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}

focal_status foci_loop_take(foci_run *run, foci_loop *loop, int64_t count)
{
    if (!loop->node->c) return FOCAL_OK;
    foci_scope *outer = run->scope;
    while (loop->taken_count < count && loop->next < loop->item_count) {
        foci_value verdict;
        const foci_value item = loop->items[loop->next++];
        foci_scope *scope = foci_scope_new(run, loop->outer);
        if (!scope) return foci_store_failed(&run->store);
        FOCAL_TRY(foci_run_assign(run, scope, loop->node->a, item));
        run->scope = scope;
        FOCAL_TRY(foci_eval(run, loop->node->c, &verdict));
        run->scope = outer;
        if (foci_truth(verdict)) loop->taken[loop->taken_count++] = item;
    }
    return FOCAL_OK;
}

static focal_status open_loop(foci_run *run, const foci_node *node, foci_value what,
                              foci_loop **out)
{
    foci_loop *loop = foci_store_alloc(&run->store, 1, sizeof *loop);
    if (!loop) return foci_store_failed(&run->store);
    *loop = (foci_loop){.node = node, .outer = run->scope, .changed = foci_missing()};
    FOCAL_TRY(foci_items(run, what, &loop->items, &loop->item_count));
    loop->taken_count = loop->item_count;
    *out = loop;
    if (!node->c) return FOCAL_OK;
    loop->taken_count = 0;
    loop->taken = foci_store_alloc(&run->store, (size_t)loop->item_count, sizeof *loop->taken);
    return loop->taken ? FOCAL_OK : foci_store_failed(&run->store);
}

static focal_status run_for(foci_run *run, const foci_node *node)
{
    foci_value what;
    foci_loop *loop = NULL;
    foci_scope *scope = NULL;
    bool is_done = false; /* one round reached its end: the else part is out */
    FOCAL_TRY(foci_eval(run, node->b, &what));
    FOCAL_TRY(open_loop(run, node, what, &loop));
    const foci_value self = {.kind = FOCI_V_LOOP, .as.loop = loop};
    for (loop->index = 0; run->flow == FOCI_FLOW_ON; loop->index++) {
        FOCAL_TRY(foci_run_charge(run, 0));
        FOCAL_TRY(foci_loop_take(run, loop, loop->index + 1));
        if (loop->index >= loop->taken_count) break;
        if (!scope || scope->is_kept) scope = foci_scope_new(run, run->scope);
        if (!scope) return foci_store_failed(&run->store);
        scope->count = 0; /* every round starts afresh */
        FOCAL_TRY(foci_scope_set(run, scope, foci_chars_of("loop"), self));
        const foci_value item = node->c ? loop->taken[loop->index] : loop->items[loop->index];
        FOCAL_TRY(foci_run_assign(run, scope, node->a, item));
        FOCAL_TRY(run_inside(run, node->kids, scope, run->out));
        if (run->flow == FOCI_FLOW_ON) is_done = true;
        if (run->flow == FOCI_FLOW_CONTINUE) run->flow = FOCI_FLOW_ON;
    }
    run->flow = FOCI_FLOW_ON;
    if (is_done || !node->others) return FOCAL_OK;
    if (!(scope = foci_scope_new(run, run->scope))) return foci_store_failed(&run->store);
    return run_inside(run, node->others, scope, run->out);
}

static focal_status run_if(foci_run *run, const foci_node *node)
{
    for (const foci_node *branch = node->kids; branch; branch = branch->next) {
        foci_value verdict = foci_bool(true);
        if (branch->a) FOCAL_TRY(foci_eval(run, branch->a, &verdict));
        if (foci_truth(verdict)) return foci_run_body(run, branch->kids);
    }
    return FOCAL_OK;
}

/* The filters of a block, over what it printed. They see the names around the block. */
static focal_status apply_filters(foci_run *run, const foci_node *filters, foci_value *value)
{
    foci_scope *outer = run->scope;
    foci_scope *scope = foci_scope_new(run, outer);
    if (!scope) return foci_store_failed(&run->store);
    /* No template can write this name, so it shadows none. */
    FOCAL_TRY(foci_scope_set(run, scope, foci_chars_of("|"), *value));
    run->scope = scope;
    FOCAL_TRY(foci_eval(run, filters, value));
    run->scope = outer;
    return FOCAL_OK;
}

/* {% set x %}...{% endset %} and {% filter f %}...{% endfilter %} */
static focal_status run_block(foci_run *run, const foci_node *node)
{
    foci_value text;
    foci_scope *scope = foci_scope_new(run, run->scope);
    if (!scope) return foci_store_failed(&run->store);
    FOCAL_TRY(run_captured(run, node->kids, scope, &text));
    if (run->flow != FOCI_FLOW_ON) return FOCAL_OK;
    if (node->b) FOCAL_TRY(apply_filters(run, node->b, &text));
    if (node->kind == FOCI_N_FILTER_BLOCK) return foci_print(run, text, run->out);
    return foci_run_assign(run, run->scope, node->a, text);
}

static focal_status run_with(foci_run *run, const foci_node *node)
{
    foci_scope *scope = foci_scope_new(run, run->scope);
    if (!scope) return foci_store_failed(&run->store);
    for (const foci_node *set = node->others; set; set = set->next) {
        foci_value value;
        FOCAL_TRY(foci_eval(run, set->b, &value));
        FOCAL_TRY(foci_run_assign(run, scope, set->a, value));
    }
    return run_inside(run, node->kids, scope, run->out);
}

static focal_status make_macro(foci_run *run, const foci_node *node)
{
    foci_macro *macro = foci_store_alloc(&run->store, 1, sizeof *macro);
    if (!macro) return foci_store_failed(&run->store);
    *macro = (foci_macro){node, run->scope};
    for (foci_scope *scope = run->scope; scope && !scope->is_kept; scope = scope->parent)
        scope->is_kept = true;
    const foci_value value = {.kind = FOCI_V_MACRO, .as.macro = macro};
    return foci_scope_set(run, run->scope, node->name, value);
}

/* The keyword of that name; marks it as used. */
static const foci_keyword *find_keyword(const foci_arguments *args, foci_chars name, int32_t *used)
{
    for (int32_t n = 0; n < args->keyword_count; n++) {
        if (!foci_chars_equal(args->keywords[n].name, name)) continue;
        (*used)++;
        return &args->keywords[n];
    }
    return NULL;
}

static focal_status bind_parameters(foci_run *run, const foci_macro *macro,
                                    const foci_arguments *args, foci_scope *scope)
{
    int32_t index = 0, used = 0;
    const foci_node *node = macro->node;
    run->scope = scope; /* defaults see the parameters before them */
    for (const foci_node *one = node->others; one; one = one->next, index++) {
        foci_value value = foci_undefined_hint("a parameter was not provided");
        const foci_keyword *keyword =
            index < args->count ? NULL : find_keyword(args, one->name, &used);
        if (index < args->count)
            value = args->items[index];
        else if (keyword)
            value = keyword->value;
        else if (one->a)
            FOCAL_TRY(foci_eval(run, one->a, &value));
        FOCAL_TRY(foci_scope_set(run, scope, one->name, value));
    }
    if (args->count > index)
        return foci_run_fail(run, "the macro '%.*s' takes %d arguments, not %d",
                             (int)node->name.bytes, node->name.data, index, args->count);
    if (used < args->keyword_count)
        return foci_run_fail(run, "the macro '%.*s' has no parameter of a name it was given",
                             (int)node->name.bytes, node->name.data);
    return FOCAL_OK;
}

focal_status foci_call_macro(foci_run *run, const foci_macro *macro, const foci_arguments *args,
                             foci_value *out)
{
    foci_scope *caller = run->scope, *scope = foci_scope_new(run, macro->scope);
    if (!scope) return foci_store_failed(&run->store);
    if (++run->macro_depth > FOCI_TEMPLATE_MACROS)
        return foci_run_fail(run, "macros call each other more than %d deep", FOCI_TEMPLATE_MACROS);
    FOCAL_TRY(bind_parameters(run, macro, args, scope));
    FOCAL_TRY(run_captured(run, macro->node->kids, scope, out));
    run->macro_depth--;
    run->scope = caller;
    return FOCAL_OK;
}

static focal_status run_statement(foci_run *run, const foci_node *node)
{
    foci_value value;
    switch (node->kind) {
    case FOCI_N_TEXT:
        return foci_builder_add(run->out, node->constant.as.text.data,
                                node->constant.as.text.bytes);
    case FOCI_N_PRINT:
        FOCAL_TRY(foci_eval(run, node->a, &value));
        return foci_print(run, value, run->out);
    case FOCI_N_IF:
        return run_if(run, node);
    case FOCI_N_FOR:
        return run_for(run, node);
    case FOCI_N_SET:
        FOCAL_TRY(foci_eval(run, node->b, &value));
        return foci_run_assign(run, run->scope, node->a, value);
    case FOCI_N_SET_BLOCK:
    case FOCI_N_FILTER_BLOCK:
        return run_block(run, node);
    case FOCI_N_MACRO:
        return make_macro(run, node);
    case FOCI_N_WITH:
        return run_with(run, node);
    case FOCI_N_BREAK:
        run->flow = FOCI_FLOW_BREAK;
        return FOCAL_OK;
    case FOCI_N_CONTINUE:
        run->flow = FOCI_FLOW_CONTINUE;
        return FOCAL_OK;
    default:
        break;
    }
    return foci_run_fail(run, "a statement of no known kind"); /* the parser makes none */
}

focal_status foci_run_body(foci_run *run, const foci_node *body)
{
    FOCAL_TRY(foci_run_enter(run));
    for (const foci_node *node = body; node && run->flow == FOCI_FLOW_ON; node = node->next) {
        run->line = node->line;
        FOCAL_TRY(foci_run_charge(run, 0));
        FOCAL_TRY(run_statement(run, node));
    }
    run->depth--;
    return FOCAL_OK;
}

/* NOLINTEND(misc-no-recursion) */
