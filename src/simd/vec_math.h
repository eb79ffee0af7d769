/* Functions that round well, written in the words of a dialect, which is included before. Errors
 * are the largest against double, in units in the last place of the result, over one in seventeen
 * floats or more; the tests of the operations hold them to it. The dialects' own v_exp is shorter
 * and less exact; attention has enough with it. */
#ifndef FOCI_SIMD_VEC_MATH_H
#define FOCI_SIMD_VEC_MATH_H

/* e^(x + rest) = 2^n (1 + p), for a rest below a rounding of x: returns p and gives n. x is held
 * within what a float's exponent can show, with room to overflow; NaN passes. */
static inline vec v_exp_parts(vec x, vec rest, vec *n)
{
    const vec y = v_min(v_set1(100.0F), v_max(v_set1(-110.0F), x));
    *n = v_round(v_mul(y, v_set1(1.44269504F)));
    vec r = v_fma(*n, v_set1(-0.693145752F), y); /* ln 2 in two parts; exact with the first */
    r = v_add(v_fma(*n, v_set1(-1.42860677e-6F), r), rest);
    vec p = v_set1(0.00139504881F);
    p = v_fma(p, r, v_set1(0.0083688898F));
    p = v_fma(p, r, v_set1(0.041666206F));
    p = v_fma(p, r, v_set1(0.166665182F));
    p = v_fma(p, r, v_set1(0.5F));
    return v_fma(v_mul(r, r), p, r);
}

/* e^(x + rest): 1.1 units, subnormal results apart. -infinity gives 0. */
static inline vec v_exp_sum(vec x, vec rest)
{
    vec n;
    const vec p = v_exp_parts(x, rest, &n);
    return v_scale2(v_add(v_set1(1.0F), p), n);
}

static inline vec v_exp_fine(vec x)
{
    return v_exp_sum(x, v_zero());
}

/* x / (1 + e^y), for y = -x the function silu: 2.5 units, and 0 where y is above 88. Up to 2^23 the
 * power of two and 1 are added without rounding, so that 1 + e^y is rounded only once. */
static inline vec v_over_one_plus_exp(vec x, vec y)
{
    const vec one = v_set1(1.0F), most = v_set1(88.0F);
    vec n;
    const vec p = v_exp_parts(v_min(most, y), v_zero(), &n);
    const vec power = v_scale2(one, n);
    const vec result = v_div(x, v_fma(p, power, v_add(one, power)));
    return v_select(v_greater(y, most), v_zero(), result);
}

/* tanh x: 1.4 units. */
static inline vec v_tanh(vec x)
{
    const vec one = v_set1(1.0F), size = v_abs(x), x2 = v_mul(x, x);
    vec p = v_set1(-0.00571703678F);
    p = v_fma(p, x2, v_set1(0.0206505787F));
    p = v_fma(p, x2, v_set1(-0.0537434965F));
    p = v_fma(p, x2, v_set1(0.133314908F));
    p = v_fma(p, x2, v_set1(-0.333332837F));
    const vec small = v_fma(v_mul(p, x2), x, x);
    const vec e = v_exp_fine(v_add(size, size));
    const vec large = v_sub(one, v_div(v_set1(2.0F), v_add(e, one)));
    return v_select(v_greater(v_set1(0.625F), size), small, v_sign_of(large, x));
}

/* The normal distribution's tail: the probability of more than x, for x >= 0. 5.6 units. A
 * polynomial in t = (x - 3.5) / (x + 3.5) makes (x + 3.5) times what is left without e^(-x^2/2). */
static inline vec v_normal_tail(vec x)
{
    const vec middle = v_set1(3.5F), half = v_set1(-0.5F);
    const vec y = v_min(v_set1(20.0F), x);
    const vec inverse = v_div(v_set1(1.0F), v_add(y, middle));
    const vec t = v_mul(v_sub(y, middle), inverse);
    vec p = v_set1(0.000110695175F);
    p = v_fma(p, t, v_set1(0.000421905133F));
    p = v_fma(p, t, v_set1(-0.00049494789F));
    p = v_fma(p, t, v_set1(-0.00317531708F));
    p = v_fma(p, t, v_set1(0.00649311719F));
    p = v_fma(p, t, v_set1(0.0174063798F));
    p = v_fma(p, t, v_set1(-0.116053037F));
    p = v_fma(p, t, v_set1(0.315425038F));
    p = v_fma(p, t, v_set1(-0.565561771F));
    p = v_fma(p, t, v_set1(0.744416058F));
    const vec square = v_mul(y, y), lost = v_fma(y, y, v_sub(v_zero(), square));
    return v_mul(v_mul(p, inverse), v_exp_sum(v_mul(square, half), v_mul(lost, half)));
}

#endif /* FOCI_SIMD_VEC_MATH_H */
