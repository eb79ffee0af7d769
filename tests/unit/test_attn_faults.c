/* Memory that runs out: the n-th request of a call fails, for every n until the call succeeds. It
 * must say ENOMEM, leave nothing behind, and the context must still work. */
#include "support/check.h"

#include <string.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

/* clang-format off */
static const attn_spec specs[] = {
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 64},
    {.T = 70, .S = 70, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 1, .S = 300, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 5, .S = 300, .H = 4, .G = 2, .D = 64},
    {.T = 150, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 16, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 150, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 16, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .mode = FOCAL_SHARED, .dtype = FOCAL_BF16},
    {.T = 1, .S = 150, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 16, .sinks = 2,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 60, .S = 60, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .K = 4, .top = 2,
     .groups = GROUPS_RANDOM, .gate = FOCAL_GATE_STRAIGHT},
    {.T = 60, .S = 60, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .K = 4, .gate =
     FOCAL_GATE_LOG},
    {.T = 60, .S = 60, .H = 4, .G = 2, .D = 16, .has_window = true, .window = 6, .K = 4, .gate =
     FOCAL_GATE_PAPER, .has_one_router = true, .dtype = FOCAL_BF16},
    {.H = 4, .G = 2, .D = 32, .seq_count = 3, .page_rows = 16, .lengths = {{1, 200}, {60, 60}, {4,
     90}}},
};
/* clang-format on */

enum { MANY = 1000 };

typedef struct attempt {
    focal_ctx *ctx;
    const foci_attn_kernel *kernel;
    attn_case *c;
    focal_attn_args normal;
    bool is_backward;
} attempt;

static focal_status run(const attempt *t)
{
    if (t->is_backward) return t->kernel->backward(t->ctx, &t->normal, &t->c->grads);
    return t->kernel->forward(t->ctx, &t->normal);
}

static void clear(const attempt *t)
{
    if (t->is_backward)
        attn_case_clear_backward(t->c);
    else
        attn_case_clear_forward(t->c);
}

static void check(const attempt *t)
{
    if (t->is_backward)
        attn_case_check_backward(t->c, t->kernel->name);
    else
        attn_case_check_forward(t->c, t->kernel->name);
}

/* fails_on: all requests after the n-th fail too, so that no second try helps. */
static void fail_each_request(const attempt *t, bool fails_on)
{
    for (int64_t n = 1;; n++) {
        assert_true(n < MANY);
        focal_ctx_trim(t->ctx); /* kept scratch would hide requests */
        const int64_t live = memory_live_blocks();
        clear(t);
        memory_fail(n, fails_on);
        const focal_status status = run(t);
        const bool was_reached = memory_requests() >= n;
        memory_fail(0, false);
        focal_ctx_trim(t->ctx);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) {
            check(t); /* right, with a second try or without */
            if (!was_reached) return;
            assert_false(fails_on);
            continue;
        }
        assert_status(t->ctx, status, FOCAL_ENOMEM);
        clear(t);
        assert_status(t->ctx, run(t), FOCAL_OK);
        check(t);
    }
}

static void memory_may_run_out_anywhere(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
        attn_case *c = attn_case_new(&specs[s], (uint64_t)s + 1);
        if (specs[s].page_rows == 0) attn_case_want_gradients(c);
        attempt t = {.ctx = ctx, .c = c};
        focal_attn_seq single;
        focal_attn_gate gate;
        assert_status(ctx, foci_attn_normalise(ctx, &c->args, &t.normal, &single, &gate), FOCAL_OK);
        for (size_t n = 0; n < foci_attn_kernel_count; n++) {
            t.kernel = &foci_attn_kernels[n];
            if (!t.kernel->can(ctx, &t.normal)) continue;
            for (int direction = 0; direction < (specs[s].page_rows == 0 ? 2 : 1); direction++) {
                t.is_backward = direction == 1;
                fail_each_request(&t, true);
                fail_each_request(&t, false);
            }
            note_ran("attn faults", t.kernel->name);
        }
        attn_case_free(c);
    }
    assert_ran("attn faults", "ref");
}

/* Opening a context fails cleanly too. */
static void context_without_memory(void **state)
{
    (void)state;
    const focal_ctx_options options = {.threads = 2, .allocator = memory_allocator()};
    const int64_t live = memory_live_blocks();
    focal_ctx *ctx = NULL;
    const char *error = "";
    memory_fail(1, true);
    assert_int_equal(focal_ctx_open(&options, &ctx, &error), FOCAL_ENOMEM);
    memory_fail(0, false);
    assert_null(ctx);
    assert_true(strlen(error) > 0);
    assert_int_equal(memory_live_blocks(), live);
}

/* The second of two equal calls takes no memory at all: scratch is kept. With one thread, because
 * of several some may have had nothing to do, and so no scratch, in the first. */
static void equal_calls_allocate_once(void **state)
{
    (void)state;
    focal_ctx *ctx = new_ctx(1);
    for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
        attn_case *c = attn_case_new(&specs[s], (uint64_t)s + 1);
        assert_status(ctx, focal_attn_forward(ctx, &c->args), FOCAL_OK);
        memory_fail(1, true);
        assert_status(ctx, focal_attn_forward(ctx, &c->args), FOCAL_OK);
        memory_fail(0, false);
        attn_case_free(c);
        focal_ctx_trim(ctx);
    }
    focal_ctx_close(ctx);
    assert_int_equal(memory_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_may_run_out_anywhere, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(context_without_memory, open_ctx, close_ctx),
        cmocka_unit_test(equal_calls_allocate_once),
    };
    return cmocka_run_group_tests_name("attn_faults", tests, NULL, NULL);
}
