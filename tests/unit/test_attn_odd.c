/* What attention makes of NaN, of infinities and of huge scores, as focal/attn.h says: every kernel
 * alike, and never beyond the rows that see them. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

/* clang-format off */
static const attn_spec specs[] = {
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 16},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 2, .S = 150, .H = 4, .G = 2, .D = 64},
    {.T = 5, .S = 150, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 16, .softcap = 4.0F},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 4, .top = 2},
    {.T = 90, .S = 90, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .dtype = FOCAL_BF16},
    {.T = 3, .S = 140, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 6, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 2, .K = 4,
     .gate = FOCAL_GATE_PAPER},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .sinks = 2, .K = 4,
     .gate = FOCAL_GATE_LOG},
};
/* clang-format on */

/* Where things are put: into a query of head 1, or into a key and value of key head 0. */
enum { HEAD = 1, KEY_HEAD = 0, ELEMENT = 3 };

typedef struct odd_case {
    attn_case *c;
    const foci_attn_kernel *kernel;
    int32_t query, key; /* the last query; a key in its window */
    float *before;      /* out without anything odd */
} odd_case;

static bool run(focal_ctx *ctx, const odd_case *o)
{
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    assert_status(ctx, foci_attn_normalise(ctx, &o->c->args, &normal, &single, &gate), FOCAL_OK);
    if (!o->kernel->can(ctx, &normal)) return false;
    attn_case_clear_forward(o->c);
    assert_status(ctx, o->kernel->forward(ctx, &normal), FOCAL_OK);
    note_ran("attn odd", o->kernel->name);
    return true;
}

static bool begin(focal_ctx *ctx, odd_case *o, size_t spec, size_t kernel)
{
    *o = (odd_case){.c = attn_case_new(&specs[spec], 3), .kernel = &foci_attn_kernels[kernel]};
    o->query = specs[spec].T - 1;
    o->key = specs[spec].S - 3;
    const bool is_taken = run(ctx, o);
    if (is_taken) o->before = attn_case_out(o->c);
    return is_taken;
}

static void end(odd_case *o)
{
    free(o->before);
    attn_case_free(o->c);
}

static void set_query(const odd_case *o, int32_t d, float value)
{
    char *q;
    memcpy(&q, &o->c->args.q, sizeof q); /* the case's own, whatever the arguments promise */
    const int64_t at = attn_case_q_offset(o->c, 0, o->query) + (int64_t)HEAD * o->c->spec.D + d;
    element_set(q, at, o->c->spec.dtype, value);
}

static void set_key(const odd_case *o, int32_t d, float value)
{
    element_set(attn_case_key(o->c, 0, o->key, KEY_HEAD), d, o->c->spec.dtype, value);
}

/* The elements of a row that must be NaN. */
typedef enum odd_part { NOTHING, ROW, COLUMN } odd_part;

/* Rows that are not concerned have their bits; the others are NaN where `part` says, and what it
 * says nothing of is not looked at. */
static void check_rows(const odd_case *o, const char *what, bool is_in_query, odd_part part)
{
    const oracle_attn *a = &o->c->problems[0];
    float *out = attn_case_out(o->c);
    for (int32_t i = 0; i < a->T; i++) {
        for (int32_t h = 0; h < a->H; h++) {
            const int64_t row = (int64_t)i * a->H + h;
            const float *x = out + row * a->Dv, *before = o->before + row * a->Dv;
            const bool is_own = i == o->query && h == HEAD;
            const bool sees = h / (a->H / a->G) == KEY_HEAD && oracle_sees(a, h, i, o->key);
            bool is_fine = true;
            if (!is_own && (is_in_query || !sees))
                is_fine = memcmp(x, before, (size_t)a->Dv * sizeof *x) == 0;
            else if (part == ROW)
                is_fine = isnan(o->c->args.lse[row]);
            for (int32_t d = 0; d < a->Dv && (is_own || (sees && !is_in_query)); d++) {
                if (part == ROW) is_fine = is_fine && isnan(x[d]);
                if (part == COLUMN)
                    is_fine = is_fine && (d == ELEMENT ? isnan(x[d]) : x[d] == before[d]);
            }
            if (!is_fine)
                fail_msg("%s: %s, query %d of head %d: %s", o->kernel->name, what, i, h,
                         attn_case_text(o->c));
        }
    }
    free(out);
}

static void nan_shows_where_it_is_seen(void **state)
{
    odd_case o;
    for (size_t n = 0; n < foci_attn_kernel_count * FOCAL_COUNT(specs); n++) {
        const size_t kernel = n / FOCAL_COUNT(specs), spec = n % FOCAL_COUNT(specs);
        if (begin(*state, &o, spec, kernel)) {
            set_query(&o, ELEMENT, NAN);
            assert_true(run(*state, &o));
            check_rows(&o, "NaN in q", true, ROW);
        }
        end(&o);
        if (begin(*state, &o, spec, kernel)) {
            o.query = 0; /* of which a panel of keys is mostly hidden */
            set_query(&o, ELEMENT, NAN);
            assert_true(run(*state, &o));
            check_rows(&o, "NaN in the first q", true, ROW);
        }
        end(&o);
        if (begin(*state, &o, spec, kernel)) {
            set_key(&o, ELEMENT, NAN);
            assert_true(run(*state, &o));
            check_rows(&o, "NaN in k", false, ROW);
        }
        end(&o);
        if (begin(*state, &o, spec, kernel)) {
            element_set(attn_case_value(o.c, 0, o.key, KEY_HEAD), ELEMENT, o.c->spec.dtype, NAN);
            assert_true(run(*state, &o));
            check_rows(&o, "NaN in v", false, COLUMN);
        }
        end(&o);
    }
    assert_ran("attn odd", "ref");
}

/* q.k of the pair becomes `score`. */
static void set_score(const odd_case *o, float score)
{
    const int32_t D = o->c->spec.D;
    const float size = sqrtf(fabsf(score) / (float)D);
    for (int32_t d = 0; d < D; d++) set_query(o, d, size);
    for (int32_t d = 0; d < D; d++) set_key(o, d, score > 0.0F ? size : -size);
}

/* One key has a score of nearly 1e9: it has all the weight. Then of nearly -1e9: it has none. */
static void check_large_scores(focal_ctx *ctx, const odd_case *o)
{
    const int32_t D = o->c->spec.D;
    const int64_t row = (int64_t)o->query * o->c->spec.H + HEAD;
    set_score(o, 9.9e8F);
    assert_true(run(ctx, o));
    float *out = attn_case_out(o->c);
    for (int32_t d = 0; d < D; d++) {
        const float v =
            element_get(attn_case_value(o->c, 0, o->key, KEY_HEAD), d, o->c->spec.dtype);
        if (!(fabsf(out[row * D + d] - v) <= 0x1p-7F * fabsf(v)))
            fail_msg("%s: %.9g, expected %.9g: %s", o->kernel->name, (double)out[row * D + d],
                     (double)v, attn_case_text(o->c));
    }
    free(out);
    assert_true(fabsf(o->c->args.lse[row] / 9.9e8F - 1.0F) < 0.01F);
    set_score(o, -9.9e8F);
    assert_true(run(ctx, o));
    assert_true(isfinite(o->c->args.lse[row]));
}

static void large_scores_are_exact(void **state)
{
    for (size_t n = 0; n < foci_attn_kernel_count * FOCAL_COUNT(specs); n++) {
        const size_t kernel = n / FOCAL_COUNT(specs), spec = n % FOCAL_COUNT(specs);
        odd_case o;
        if (specs[spec].softcap > 0.0F) continue;
        if (begin(*state, &o, spec, kernel)) check_large_scores(*state, &o);
        end(&o);
    }
}

/* Scores beyond float32 are no failure, and stay in the rows that have them. */
static void overflow_stays_in_its_row(void **state)
{
    static const float sizes[] = {1e30F, -1e30F, INFINITY};
    odd_case o;
    for (size_t n = 0; n < foci_attn_kernel_count * FOCAL_COUNT(specs); n++) {
        const size_t kernel = n / FOCAL_COUNT(specs), spec = n % FOCAL_COUNT(specs);
        for (size_t m = 0; m < FOCAL_COUNT(sizes); m++) {
            if (begin(*state, &o, spec, kernel)) {
                for (int32_t d = 0; d < o.c->spec.D; d++) {
                    set_query(&o, d, 1e30F);
                    set_key(&o, d, sizes[m]);
                }
                assert_true(run(*state, &o));
                check_rows(&o, "huge scores", false, NOTHING);
                if (specs[spec].softcap > 0.0F && isfinite(sizes[m]))
                    assert_true(isfinite(o.c->args.lse[(int64_t)o.query * o.c->spec.H + HEAD]));
            }
            end(&o);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nan_shows_where_it_is_seen, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(large_scores_are_exact, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(overflow_stays_in_its_row, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("attn_odd", tests, NULL, NULL);
}
