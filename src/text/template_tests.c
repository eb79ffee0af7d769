/* What stands behind "is". */
#include "base/error.h"
#include "text/template_chars.h"
#include "text/template_run.h"

static focal_status give(bool truth, foci_value *out)
{
    *out = foci_bool(truth);
    return FOCAL_OK;
}

static focal_status is_kind(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == call->how, out);
}

static focal_status is_defined(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind != FOCI_V_UNDEFINED, out);
}

static focal_status is_truth(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(call->self.kind == FOCI_V_BOOL && call->self.as.truth == (call->how != 0), out);
}

static focal_status is_number(foci_run *run, foci_call *call, foci_value *out)
{
    (void)run;
    return give(foci_is_number(call->self), out);
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

static focal_status is_cased(foci_run *run, foci_call *call, foci_value *out)
{
    const char *method = call->how == FOCI_CASE_UPPER ? "isupper" : "islower";
    foci_chars text;
    FOCAL_TRY(foci_value_text(run, call->self, &text));
    const foci_arguments none = {0};
    return foci_call_builtin(run, foci_string_method(foci_chars_of(method)), foci_string(text),
                             &none, out);
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

static focal_status is_odd_or_even(foci_run *run, foci_call *call, foci_value *out)
{
    return has_rest(run, call->self, foci_int(2), call->how, out);
}

static focal_status is_divisible(foci_run *run, foci_call *call, foci_value *out)
{
    return has_rest(run, call->self, call->bound[0], 0, out);
}

static focal_status compare(foci_run *run, foci_call *call, foci_value *out)
{
    bool holds;
    FOCAL_TRY(foci_compare(run, call->how, call->self, call->bound[0], &holds));
    return give(holds, out);
}

/* Python's "is": for what has no identity here, the same value of the same kind. */
static focal_status is_same(foci_run *run, foci_call *call, foci_value *out)
{
    *out = foci_bool(false);
    return call->self.kind == call->bound[0].kind ? compare(run, call, out) : FOCAL_OK;
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
        {"defined", is_defined, 0, {NULL}, 0},
        {"undefined", is_kind, 0, {NULL}, FOCI_V_UNDEFINED},
        {"none", is_kind, 0, {NULL}, FOCI_V_NONE},
        {"boolean", is_kind, 0, {NULL}, FOCI_V_BOOL},
        {"true", is_truth, 0, {NULL}, true},
        {"false", is_truth, 0, {NULL}, false},
        {"integer", is_kind, 0, {NULL}, FOCI_V_INT},
        {"float", is_kind, 0, {NULL}, FOCI_V_FLOAT},
        {"number", is_number, 0, {NULL}, 0},
        {"string", is_kind, 0, {NULL}, FOCI_V_STRING},
        {"mapping", is_kind, 0, {NULL}, FOCI_V_DICT},
        {"iterable", is_iterable, 0, {NULL}, 0},
        {"sequence", is_sequence, 0, {NULL}, 0},
        {"callable", is_callable, 0, {NULL}, 0},
        {"escaped", is_escaped, 0, {NULL}, 0},
        {"lower", is_cased, 0, {NULL}, FOCI_CASE_LOWER},
        {"upper", is_cased, 0, {NULL}, FOCI_CASE_UPPER},
        {"odd", is_odd_or_even, 0, {NULL}, 1},
        {"even", is_odd_or_even, 0, {NULL}, 0},
        {"divisibleby", is_divisible, 1, {"num"}, 0},
        {"eq", compare, 1, {"/other"}, FOCI_OP('=', '=')},
        {"equalto", compare, 1, {"/other"}, FOCI_OP('=', '=')},
        {"==", compare, 1, {"/other"}, FOCI_OP('=', '=')},
        {"ne", compare, 1, {"/other"}, FOCI_OP('!', '=')},
        {"!=", compare, 1, {"/other"}, FOCI_OP('!', '=')},
        {"gt", compare, 1, {"/other"}, '>'},
        {"greaterthan", compare, 1, {"/other"}, '>'},
        {">", compare, 1, {"/other"}, '>'},
        {"lt", compare, 1, {"/other"}, '<'},
        {"lessthan", compare, 1, {"/other"}, '<'},
        {"<", compare, 1, {"/other"}, '<'},
        {"ge", compare, 1, {"/other"}, FOCI_OP('>', '=')},
        {">=", compare, 1, {"/other"}, FOCI_OP('>', '=')},
        {"le", compare, 1, {"/other"}, FOCI_OP('<', '=')},
        {"<=", compare, 1, {"/other"}, FOCI_OP('<', '=')},
        {"in", compare, 1, {"seq"}, 'i'},
        {"sameas", is_same, 1, {"other"}, FOCI_OP('=', '=')},
        {"filter", is_filter, 0, {NULL}, 0},
        {"test", is_test, 0, {NULL}, 0},
    };
    return foci_find(tests, FOCAL_COUNT(tests), name);
}
