/* One render: where it stands, what it may still use up, and the calls between the files that do
 * the work. */
#ifndef FOCI_TEXT_TEMPLATE_RUN_H
#define FOCI_TEXT_TEMPLATE_RUN_H

#include <time.h>

#include "text/template_node.h"
#include "text/template_value.h"

enum {
    /* Nodes and values inside each other while running, macros included. The worst case takes less
     * than 96 KB of stack, and less than 256 KB with sanitizers, on which test_template runs it. */
    FOCI_TEMPLATE_DEPTH = 200,
    FOCI_TEMPLATE_MACROS = 50,    /* calls of macros inside each other */
    FOCI_TEMPLATE_RANGE = 100000, /* as jinja2's sandbox */
    FOCI_BUILTIN_NAMES = 5
};

/* A name and its value, in a scope. */
typedef struct foci_binding {
    foci_chars name;
    foci_value value;
} foci_binding;

/* Loops, macros and blocks that capture have one each; an if has none. */
typedef struct foci_scope {
    struct foci_scope *parent;
    foci_binding *bindings;
    int32_t count, room;
    bool is_kept; /* a macro was made inside: it sees these names as long as it lives */
} foci_scope;

typedef struct foci_macro {
    const foci_node *node;
    foci_scope *scope; /* where it was made */
} foci_macro;

/* A loop as `loop` shows it. Items that fail the loop's condition never count; the condition is
 * asked only when an item is needed, as jinja2 does. */
typedef struct foci_loop {
    const foci_node *node;
    foci_scope *outer;
    const foci_value *items; /* all of them */
    int64_t item_count, next;
    foci_value *taken; /* those that passed */
    int64_t taken_count;
    int64_t index; /* of the current one among the taken */
    foci_value changed;
} foci_loop;

typedef struct foci_keyword {
    foci_chars name;
    foci_value value;
} foci_keyword;

typedef struct foci_arguments {
    const foci_value *items;
    int32_t count;
    const foci_keyword *keywords;
    int32_t keyword_count;
} foci_arguments;

typedef struct foci_run foci_run;

/* A call of something built in. bound holds what stands under each of its names, or missing. */
typedef struct foci_call {
    foci_value self; /* the filtered or tested value, or the object of a method */
    foci_arguments args;
    foci_value bound[FOCI_BUILTIN_NAMES];
    int32_t how; /* of the builtin */
} foci_call;

/* Ends of a text. */
enum { FOCI_LEFT = 1, FOCI_RIGHT = 2, FOCI_BOTH = 3 };

typedef focal_status (*foci_builtin_run)(foci_run *run, foci_call *call, foci_value *out);

/* A filter, test, function or method. */
typedef struct foci_builtin {
    const char *name;
    foci_builtin_run run;
    int32_t required; /* of the names below */
    /* Of its arguments: "/x" has a place but no name, "*" stands for any, which stay unbound. */
    const char *names[FOCI_BUILTIN_NAMES];
    int32_t how; /* tells builtins apart that share a function; it is in the call */
} foci_builtin;

typedef struct foci_template_limits {
    int64_t steps;
    size_t output_bytes, memory_bytes;
} foci_template_limits;

struct foci_run {
    focal_ctx *ctx;
    foci_store store;
    const foci_dict *globals;
    const struct tm *now; /* may be NULL */
    foci_scope *scope;
    foci_builder *out;
    int64_t steps, step_limit;
    int32_t line, depth, macro_depth;
    enum { FOCI_FLOW_ON, FOCI_FLOW_BREAK, FOCI_FLOW_CONTINUE } flow;
};

/* FOCAL_EINVAL, "template: line 7: ...". */
focal_status foci_run_fail(foci_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Counts work: a step, and one more for every 64 bytes or items looked at. */
focal_status foci_run_charge(foci_run *run, int64_t amount);
focal_status foci_run_enter(foci_run *run); /* one level deeper; run->depth-- undoes it */
/* FOCAL_EINVAL that says why the value is not defined. */
focal_status foci_fail_undefined(foci_run *run, foci_value value);

/* template_run.c, template_eval.c */
focal_status foci_run_body(foci_run *run, const foci_node *body);
focal_status foci_eval(foci_run *run, const foci_node *node, foci_value *out);
/* Binds a target: a name, several, or a namespace's member. */
focal_status foci_run_assign(foci_run *run, foci_scope *scope, const foci_node *target,
                             foci_value value);
focal_status foci_scope_set(foci_run *run, foci_scope *scope, foci_chars name, foci_value value);
foci_scope *foci_scope_new(foci_run *run, foci_scope *parent); /* NULL: the store's status */
focal_status foci_call_macro(foci_run *run, const foci_macro *macro, const foci_arguments *args,
                             foci_value *out);
focal_status foci_loop_take(foci_run *run, foci_loop *loop, int64_t count);

/* template_call.c: what is built in, by name; NULL: no such thing. */
const foci_builtin *foci_find(const foci_builtin *table, size_t count, foci_chars name);
const foci_builtin *foci_filter_find(foci_chars name);
const foci_builtin *foci_test_find(foci_chars name);
const foci_builtin *foci_function_find(foci_chars name);
const foci_builtin *foci_string_method(foci_chars name);
const foci_builtin *foci_search_method(foci_chars name);
const foci_builtin *foci_container_method(int kind, foci_chars name);
bool foci_method_is_refused(foci_chars name);        /* Python has it, we do not */
bool foci_method_changes(int kind, foci_chars name); /* the sandbox refuses it */
focal_status foci_call_builtin(foci_run *run, const foci_builtin *builtin, foci_value self,
                               const foci_arguments *args, foci_value *out);
focal_status foci_call_value(foci_run *run, foci_value callee, const foci_arguments *args,
                             foci_value *out);

/* template_access.c */
focal_status foci_attribute(foci_run *run, foci_value object, foci_chars name, foci_value *out);
focal_status foci_item(foci_run *run, foci_value object, foci_value key, foci_value *out);
/* All of an iterable, in a row; reading a generator spends it. Undefined is empty. */
focal_status foci_items(foci_run *run, foci_value value, const foci_value **items, int64_t *count);
focal_status foci_length(foci_run *run, foci_value value, int64_t *length);
/* One after the other by "a.b.0", as filters take attributes. */
focal_status foci_path(foci_run *run, foci_value object, foci_value path, foci_value *out);

/* template_slice.c; bounds: start, stop, step; none where left out. */
focal_status foci_slice(foci_run *run, foci_value object, const foci_value bounds[3],
                        foci_value *out);

/* template_compare.c */
bool foci_truth(foci_value value);
focal_status foci_equal(foci_run *run, foci_value a, foci_value b, bool *equal);
/* Below 0, 0 or above 0; FOCAL_EINVAL where Python has no order. op is for the message. */
focal_status foci_order(foci_run *run, foci_value a, foci_value b, const char *op, int *order);
focal_status foci_contains(foci_run *run, foci_value container, foci_value item, bool *found);
focal_status foci_compare(foci_run *run, int32_t op, foci_value a, foci_value b, bool *result);
focal_status foci_dict_look(foci_run *run, const foci_dict *dict, foci_value key,
                            foci_entry **entry);
focal_status foci_dict_set(foci_run *run, foci_dict *dict, foci_value key, foci_value value);

/* template_math.c */
focal_status foci_math(foci_run *run, int32_t op, foci_value a, foci_value b, foci_value *out);
focal_status foci_negate(foci_run *run, foci_value a, bool is_minus, foci_value *out);

/* template_print.c */
focal_status foci_print(foci_run *run, foci_value value, foci_builder *out); /* str() */
focal_status foci_repr(foci_run *run, foci_value value, foci_builder *out);  /* repr() */
focal_status foci_value_text(foci_run *run, foci_value value, foci_chars *text);
enum { FOCI_REAL_BYTES = 32 };
void foci_real_text(double real, char out[FOCI_REAL_BYTES]);               /* repr() of a float */
focal_status foci_escape(foci_run *run, foci_chars text, foci_chars *out); /* for HTML */
focal_status foci_tojson(foci_run *run, foci_call *call, foci_value *out);

/* template_format.c */
focal_status foci_format_percent(foci_run *run, foci_chars format, foci_value args,
                                 foci_value *out);
focal_status foci_format_braces(foci_run *run, foci_chars format, const foci_arguments *args,
                                foci_value *out);

/* template_date.c: strftime */
focal_status foci_format_date(foci_run *run, foci_chars format, foci_value *out);

/* template_number.c: Python's int(text, base) and float(text); false when it is neither. */
bool foci_read_int(foci_chars text, int base, int64_t *out);
bool foci_read_real(foci_chars text, double *out);

/* For builtins: an argument of that type, or the fallback when it is missing. */
focal_status foci_want_int(foci_run *run, foci_value value, int64_t fallback, int64_t *out);
focal_status foci_want_text(foci_run *run, foci_value value, const char *what, foci_chars *out);

/* template_string.c: used by filters and methods alike. */
focal_status foci_replace(foci_run *run, foci_chars text, foci_chars old, foci_chars new_text,
                          int64_t most, foci_value *out);
focal_status foci_upper(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_template_lower(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_capitalize(foci_run *run, foci_call *call, foci_value *out);
focal_status foci_strip(foci_run *run, foci_call *call, foci_value *out); /* how: which ends */
focal_status foci_pad(foci_run *run, foci_call *call, foci_value *out);   /* how: where to */
focal_status foci_splitlines(foci_run *run, foci_call *call, foci_value *out);

/* A list that grows, inside a store. */
typedef struct foci_values {
    foci_value *items;
    int64_t count, room;
} foci_values;
focal_status foci_values_add(foci_run *run, foci_values *values, foci_value value);

#endif /* FOCI_TEXT_TEMPLATE_RUN_H */
