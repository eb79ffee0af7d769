/* What stands behind "is". */
#include "base/error.h"
#include "text/template_run.h"

static focal_status give(bool truth, foci_value *out)
{
    *out = foci_bool(truth);
    return FOCAL_OK;
}

static focal_status is_defined(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind != FOCI_V_UNDEFINED, out);
}

static focal_status is_undefined(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_UNDEFINED, out);
}

static focal_status is_none(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_NONE, out);
}

static focal_status is_boolean(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_BOOL, out);
}

static focal_status is_true(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_BOOL && call->self.as.truth, out);
}

static focal_status is_false(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_BOOL && !call->self.as.truth, out);
}

static focal_status is_integer(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_INT, out);
}

static focal_status is_float(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_FLOAT, out);
}

static focal_status is_number(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(foci_is_number(call->self), out);
}

static focal_status is_string(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_STRING, out);
}

static focal_status is_mapping(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_DICT, out);
}

static focal_status is_iterable(foci_run *run, foci_call *call, foci_value *out)
{
    const int kind = call->self.kind;
    (void)run;
    return give(kind == FOCI_V_STRING || foci_is_list(call->self) || kind == FOCI_V_RANGE ||
                    kind == FOCI_V_DICT || kind == FOCI_V_SERIES || kind == FOCI_V_UNDEFINED ||
                    kind == FOCI_V_LOOP,
                out);
}

/* A length and elements: Python counts dicts in, and an undefined value too. */
static focal_status is_sequence(foci_run *run, foci_call *call, foci_value *out)
{
    const int kind = call->self.kind;
    (void)run;
    return give(kind == FOCI_V_STRING || foci_is_list(call->self) || kind == FOCI_V_RANGE ||
                    kind == FOCI_V_DICT || kind == FOCI_V_UNDEFINED,
                out);
}

static focal_status is_callable(foci_run *run, foci_call *call, foci_value *out)
{
    const int kind = call->self.kind;
    (void)run;
    return give(kind == FOCI_V_MACRO || kind == FOCI_V_FUNCTION || kind == FOCI_V_METHOD ||
                    kind == FOCI_V_UNDEFINED || kind == FOCI_V_LOOP,
                out);
}

static focal_status is_escaped(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_STRING && call->self.is_markup, out);
}

static focal_status is_cased(foci_run *run, foci_call *call, const char *method, foci_value *out)
{
    foci_chars text;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    const foci_arguments none = {0};
    return foci_call_builtin(run, foci_string_method(foci_chars_of(method)), foci_string(text),
                             &none, out);
}

static focal_status is_lower(foci_run *run, foci_call *call, foci_value *out)
{
    return is_cased(run, call, "islower", out);
}

static focal_status is_upper(foci_run *run, foci_call *call, foci_value *out)
{
    return is_cased(run, call, "isupper", out);
}

/* The remainder of a division by `by` is `rest`. */
static focal_status has_rest(foci_run *run, foci_value value, foci_value by, int64_t rest,
                             foci_value *out)
{
    foci_value found;
    bool equal;
    FOCAL_TRY(foci_math(run, '%', value, by, &found));
    FOCAL_TRY(foci_equal(run, found, foci_int(rest), &equal));
    return give(equal, out);
}

static focal_status is_odd(foci_run *run, foci_call *call, foci_value *out)
{
    return has_rest(run, call->self, foci_int(2), 1, out);
}

static focal_status is_even(foci_run *run, foci_call *call, foci_value *out)
{
    return has_rest(run, call->self, foci_int(2), 0, out);
}

static focal_status is_divisible(foci_run *run, foci_call *call, foci_value *out)
{
    return has_rest(run, call->self, call->bound[0], 0, out);
}

static focal_status compare(foci_run *run, foci_call *call, int32_t op, foci_value *out)
{
    bool holds;
    FOCAL_TRY(foci_compare(run, op, call->self, call->bound[0], &holds));
    return give(holds, out);
}

static focal_status is_equal(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, FOCI_OP('=', '='), out);
}

static focal_status is_other(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, FOCI_OP('!', '='), out);
}

static focal_status is_above(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, '>', out);
}

static focal_status is_below(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, '<', out);
}

static focal_status is_at_least(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, FOCI_OP('>', '='), out);
}

static focal_status is_at_most(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, FOCI_OP('<', '='), out);
}

static focal_status is_in(foci_run *run, foci_call *call, foci_value *out)
{
    return compare(run, call, 'i', out);
}

/* Python's "is": for what has no identity here, the same value of the same kind. */
static focal_status is_same(foci_run *run, foci_call *call, foci_value *out)
{
    *out = foci_bool(false);
    return call->self.kind == call->bound[0].kind ? is_equal(run, call, out) : FOCAL_OK;
}

static focal_status is_filter(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_STRING && foci_filter_find(call->self.as.text), out);
}

static focal_status is_test(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_STRING && foci_test_find(call->self.as.text), out);
}

const foci_builtin *foci_test_find(foci_chars name)
{
    static const foci_builtin tests[] = {
        {"defined", is_defined, 0, {NULL}},
        {"undefined", is_undefined, 0, {NULL}},
        {"none", is_none, 0, {NULL}},
        {"boolean", is_boolean, 0, {NULL}},
        {"true", is_true, 0, {NULL}},
        {"false", is_false, 0, {NULL}},
        {"integer", is_integer, 0, {NULL}},
        {"float", is_float, 0, {NULL}},
        {"number", is_number, 0, {NULL}},
        {"string", is_string, 0, {NULL}},
        {"mapping", is_mapping, 0, {NULL}},
        {"iterable", is_iterable, 0, {NULL}},
        {"sequence", is_sequence, 0, {NULL}},
        {"callable", is_callable, 0, {NULL}},
        {"escaped", is_escaped, 0, {NULL}},
        {"lower", is_lower, 0, {NULL}},
        {"upper", is_upper, 0, {NULL}},
        {"odd", is_odd, 0, {NULL}},
        {"even", is_even, 0, {NULL}},
        {"divisibleby", is_divisible, 1, {"num"}},
        {"eq", is_equal, 1, {"/other"}},
        {"equalto", is_equal, 1, {"/other"}},
        {"==", is_equal, 1, {"/other"}},
        {"ne", is_other, 1, {"/other"}},
        {"!=", is_other, 1, {"/other"}},
        {"gt", is_above, 1, {"/other"}},
        {"greaterthan", is_above, 1, {"/other"}},
        {">", is_above, 1, {"/other"}},
        {"lt", is_below, 1, {"/other"}},
        {"lessthan", is_below, 1, {"/other"}},
        {"<", is_below, 1, {"/other"}},
        {"ge", is_at_least, 1, {"/other"}},
        {">=", is_at_least, 1, {"/other"}},
        {"le", is_at_most, 1, {"/other"}},
        {"<=", is_at_most, 1, {"/other"}},
        {"in", is_in, 1, {"seq"}},
        {"sameas", is_same, 1, {"other"}},
        {"filter", is_filter, 0, {NULL}},
        {"test", is_test, 0, {NULL}},
    };
    return foci_find(tests, FOCAL_COUNT(tests), name);
}
