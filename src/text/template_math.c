/* Arithmetic on numbers, and what + * % mean for text and lists. Integers have 64 bits here; a
 * result that does not fit is an error. */
#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "text/template_run.h"

static focal_status fail_types(foci_run *run, int32_t op, foci_value a, foci_value b)
{
    const char text[] = {(char)(op & 0xFF), (char)(op >> 8), '\0'};
    if (a.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, a);
    if (b.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, b);
    return foci_run_fail(run, "'%s' is not there between a %s and a %s", text,
                         foci_kind_name(a.kind), foci_kind_name(b.kind));
}

static focal_status fail_size(foci_run *run)
{
    return foci_run_fail(run, "an integer does not fit 64 bits");
}

/* base ** exponent for exponent >= 0. */
static bool int_power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    while (exponent > 0) {
        if (exponent % 2 && __builtin_mul_overflow(result, base, &result)) return false;
        exponent /= 2;
        if (exponent && __builtin_mul_overflow(base, base, &base)) return false;
    }
    *out = result;
    return true;
}

static focal_status math_real(foci_run *run, int32_t op, double a, double b, foci_value *out)
{
    double result = 0.0;
    if (b == 0.0 && (op == '/' || op == '%' || op == FOCI_OP('/', '/')))
        return foci_run_fail(run, "division by zero");
    switch (op) {
    case '+':
        result = a + b;
        break;
    case '-':
        result = a - b;
        break;
    case '*':
        result = a * b;
        break;
    case '/':
        result = a / b;
        break;
    case '%':
    case FOCI_OP('/', '/'): {
        /* Python's: the remainder has the divisor's sign, and a == b * quotient + remainder. */
        double rest = fmod(a, b);
        double quotient = (a - rest) / b;
        if (rest != 0.0 && (b < 0.0) != (rest < 0.0)) {
            rest += b;
            quotient -= 1.0;
        }
        if (rest == 0.0) rest = copysign(0.0, b);
        const double whole = floor(quotient);
        if (quotient == 0.0)
            quotient = copysign(0.0, a / b);
        else
            quotient = quotient - whole > 0.5 ? whole + 1.0 : whole;
        result = op == '%' ? rest : quotient;
        break;
    }
    default:
        if (a == 0.0 && b < 0.0) return foci_run_fail(run, "zero to a negative power");
        if (a < 0.0 && isfinite(a) && isfinite(b) && b != floor(b))
            return foci_run_fail(run, "a root of a negative number is no float");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b))
            return foci_run_fail(run, "a power is too large for a float");
        break;
    }
    *out = foci_float(result);
    return FOCAL_OK;
}

static focal_status math_int(foci_run *run, int32_t op, int64_t a, int64_t b, foci_value *out)
{
    int64_t result = 0;
    bool fits = true;
    switch (op) {
    case '+':
        fits = !__builtin_add_overflow(a, b, &result);
        break;
    case '-':
        fits = !__builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        fits = !__builtin_mul_overflow(a, b, &result);
        break;
    case '%':
    case FOCI_OP('/', '/'):
        if (b == 0) return foci_run_fail(run, "division by zero");
        if (b == -1) { /* the smallest integer has no negative */
            fits = op == '%' || a != INT64_MIN;
            result = op == '%' || !fits ? 0 : -a;
        } else {
            const int64_t rest = a % b;
            const bool is_low = rest != 0 && (rest < 0) != (b < 0);
            result = op == '%' ? rest + (is_low ? b : 0) : a / b - is_low;
        }
        break;
    case '/':
        return math_real(run, op, (double)a, (double)b, out);
    default:
        if (b < 0) return math_real(run, op, (double)a, (double)b, out);
        fits = int_power(a, b, &result);
        break;
    }
    *out = foci_int(result);
    return fits ? FOCAL_OK : fail_size(run);
}

static focal_status add_texts(foci_run *run, foci_value a, foci_value b, foci_value *out)
{
    foci_chars left = a.as.text, right = b.as.text;
    /* Text marked as safe makes what is joined to it safe too. */
    if (b.is_markup && !a.is_markup) FOCAL_TRY(foci_escape(run, left, &left));
    if (a.is_markup && !b.is_markup) FOCAL_TRY(foci_escape(run, right, &right));
    foci_builder text = {.store = &run->store};
    FOCAL_TRY(foci_run_charge(run, (int64_t)(left.bytes + right.bytes)));
    FOCAL_TRY(foci_builder_add(&text, left.data, left.bytes));
    FOCAL_TRY(foci_builder_add(&text, right.data, right.bytes));
    *out = foci_string(foci_builder_chars(&text));
    out->is_markup = a.is_markup || b.is_markup;
    return FOCAL_OK;
}

/* left, then right, `times` over. */
static focal_status join_lists(foci_run *run, foci_value left, foci_value right, int64_t times,
                               foci_value *out)
{
    size_t total;
    const size_t one = (size_t)right.as.list.count;
    if (!foci_size_mul(one, (size_t)times, &total) ||
        !foci_size_add(total, (size_t)left.as.list.count, &total))
        return foci_run_fail(run, "a list is too long");
    foci_value *items = foci_store_alloc(&run->store, total, sizeof *items);
    if (!items) return foci_store_failed(&run->store);
    FOCAL_TRY(foci_run_charge(run, (int64_t)total));
    size_t at = (size_t)left.as.list.count;
    if (at) memcpy(items, left.as.list.items, at * sizeof *items);
    for (; one && at < total; at += one)
        memcpy(items + at, right.as.list.items, one * sizeof *items);
    *out = foci_list(items, (int64_t)total);
    out->kind = right.kind;
    return FOCAL_OK;
}

static focal_status repeat(foci_run *run, foci_value a, int64_t times, foci_value *out)
{
    if (times < 0) times = 0;
    if (a.kind != FOCI_V_STRING) {
        if (a.as.list.count == 0) times = 0;
        foci_value none = foci_list(NULL, 0);
        return join_lists(run, none, a, times, out);
    }
    foci_builder text = {.store = &run->store};
    size_t total;
    if (!foci_size_mul(a.as.text.bytes, (size_t)times, &total) || total > run->store.limit)
        return foci_run_fail(run, "a text is too long");
    FOCAL_TRY(foci_run_charge(run, (int64_t)total));
    if (a.as.text.bytes == 1) {
        FOCAL_TRY(foci_builder_fill(&text, a.as.text.data[0], total));
    } else {
        for (int64_t n = 0; n < times && a.as.text.bytes; n++)
            FOCAL_TRY(foci_builder_add(&text, a.as.text.data, a.as.text.bytes));
    }
    *out = foci_string(foci_builder_chars(&text));
    return FOCAL_OK;
}

static bool is_int(foci_value value)
{
    return value.kind == FOCI_V_INT || value.kind == FOCI_V_BOOL;
}

static bool repeats(foci_value value)
{
    return value.kind == FOCI_V_STRING || foci_is_list(value);
}

focal_status foci_math(foci_run *run, int32_t op, foci_value a, foci_value b, foci_value *out)
{
    if (foci_is_number(a) && foci_is_number(b)) {
        if (is_int(a) && is_int(b)) return math_int(run, op, foci_as_int(a), foci_as_int(b), out);
        return math_real(run, op, foci_as_real(a), foci_as_real(b), out);
    }
    if (op == '+' && a.kind == FOCI_V_STRING && b.kind == FOCI_V_STRING)
        return add_texts(run, a, b, out);
    if (op == '+' && foci_is_list(a) && a.kind == b.kind) return join_lists(run, a, b, 1, out);
    if (op == '*' && repeats(a) && is_int(b)) return repeat(run, a, foci_as_int(b), out);
    if (op == '*' && is_int(a) && repeats(b)) return repeat(run, b, foci_as_int(a), out);
    if (op == '%' && a.kind == FOCI_V_STRING) return foci_format_percent(run, a.as.text, b, out);
    return fail_types(run, op, a, b);
}

focal_status foci_negate(foci_run *run, foci_value a, bool is_minus, foci_value *out)
{
    if (a.kind == FOCI_V_FLOAT) {
        *out = foci_float(is_minus ? -a.as.real : a.as.real);
        return FOCAL_OK;
    }
    if (!is_int(a)) {
        if (a.kind == FOCI_V_UNDEFINED) return foci_fail_undefined(run, a);
        return foci_run_fail(run, "a %s has no sign", foci_kind_name(a.kind));
    }
    const int64_t number = foci_as_int(a);
    if (is_minus && number == INT64_MIN) return fail_size(run);
    *out = foci_int(is_minus ? -number : number);
    return FOCAL_OK;
}
