/* The same bits at any thread count: forward, backward, decoding, groups, gates; every kernel. */
#include "support/check.h"

#include <stdlib.h>
#include <string.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

/* clang-format off */
static const attn_spec specs[] = {
    {.T = 300, .S = 300, .H = 9, .G = 3, .D = 64},
    {.T = 300, .S = 300, .H = 3, .G = 1, .D = 64, .dtype = FOCAL_BF16},
    {.T = 1, .S = 2000, .H = 4, .G = 2, .D = 64, .dtype = FOCAL_BF16},
    {.T = 7, .S = 1500, .H = 4, .G = 2, .D = 64},
    {.T = 400, .S = 400, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 400, .S = 400, .H = 2, .G = 1, .D = 64, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_ONE, .K = 8, .top = 4, .dtype = FOCAL_BF16},
    {.T = 200, .S = 200, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 8, .top = 3},
    {.T = 300, .S = 1200, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 8, .top = 3},
    {.H = 4, .G = 2, .D = 32, .has_window = true, .window = 30, .sinks = 4, .groups = GROUPS_RANDOM,
     .K = 8, .top = 2, .seq_count = 4, .lengths = {{300, 450}, {17, 90}, {700, 700}, {130, 1000}}},
    {.T = 1, .S = 1500, .H = 4, .G = 2, .D = 64, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2},
    {.T = 200, .S = 200, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 30, .sinks = 4,
     .groups = GROUPS_RANDOM, .K = 8, .top = 2, .gate = FOCAL_GATE_STRAIGHT,
     .has_one_router = true},
    {.T = 200, .S = 200, .H = 4, .G = 2, .D = 32, .has_window = true, .window = 30, .sinks = 4, .K =
     8, .gate = FOCAL_GATE_LOG, .has_one_router = true},
    {.T = 500, .S = 500, .H = 10, .G = 2, .D = 16, .has_window = true, .window = 5, .K = 8, .gate =
     FOCAL_GATE_LOG, .has_one_router = true},
    {.T = 500, .S = 500, .H = 10, .G = 2, .D = 16, .has_window = true, .window = 5, .sinks = 2, .K =
     8, .gate = FOCAL_GATE_PAPER, .dtype = FOCAL_BF16},
    {.H = 5, .G = 1, .D = 16, .has_window = true, .window = 5, .K = 8, .top = 2, .groups =
     GROUPS_RANDOM, .gate = FOCAL_GATE_STRAIGHT, .seq_count = 3, .lengths = {{300, 450}, {3, 90},
     {130, 130}}},
    {.H = 4, .G = 2, .D = 32, .seq_count = 4, .lengths = {{1, 900}, {200, 200}, {3, 3}, {16, 400}}},
};
/* clang-format on */
static const int32_t thread_counts[] = {2, 3, 5};

enum { TENSORS = 7 };

/* Everything a forward and a backward wrote, as raw bytes one behind the other. */
static unsigned char *written_bytes(const attn_case *c, size_t *total)
{
    const attn_spec *s = &c->spec;
    const size_t bytes = focal_dtype_bytes(s->dtype);
    const size_t q_rows = (size_t)c->q_rows, k_rows = (size_t)c->k_rows;
    const size_t width = (size_t)(c->routers * s->K) * sizeof(float);
    const size_t H = (size_t)s->H, G = (size_t)s->G, D = (size_t)s->D;
    const void *data[TENSORS] = {c->args.out, c->args.lse,  c->grads.dq, c->grads.dk,
                                 c->grads.dv, c->grads.dgq, c->grads.dgk};
    const size_t sizes[TENSORS] = {q_rows * H * D * bytes, q_rows * H * sizeof(float),
                                   q_rows * H * D * bytes, k_rows * G * D * bytes,
                                   k_rows * G * D * bytes, q_rows * width,
                                   k_rows * width};
    *total = 0;
    for (int n = 0; n < TENSORS; n++) *total += data[n] ? sizes[n] : 0;
    unsigned char *result = new_array(*total, 1), *at = result;
    for (int n = 0; n < TENSORS; n++) {
        if (!data[n]) continue;
        memcpy(at, data[n], sizes[n]);
        at += sizes[n];
    }
    return result;
}

static unsigned char *run_with(int32_t threads, const foci_attn_kernel *kernel, attn_case *c,
                               size_t *total)
{
    focal_ctx *ctx = new_ctx(threads);
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    unsigned char *result = NULL;
    assert_status(ctx, foci_attn_normalise(ctx, &c->args, &normal, &single, &gate), FOCAL_OK);
    if (kernel->can(ctx, &normal)) {
        attn_case_clear_backward(c);
        assert_status(ctx, kernel->backward(ctx, &normal, &c->grads), FOCAL_OK);
        attn_case_clear_forward(c);
        assert_status(ctx, kernel->forward(ctx, &normal), FOCAL_OK);
        result = written_bytes(c, total);
    }
    focal_ctx_close(ctx);
    return result;
}

static void bits_do_not_depend_on_threads(void **state)
{
    (void)state;
    for (size_t s = 0; s < FOCAL_COUNT(specs); s++) {
        attn_case *c = attn_case_new(&specs[s], (uint64_t)s + 1);
        attn_case_want_gradients(c);
        for (size_t n = 0; n < foci_attn_kernel_count; n++) {
            size_t total = 0, other_total = 0;
            unsigned char *first = run_with(1, &foci_attn_kernels[n], c, &total);
            for (size_t t = 0; first && t < FOCAL_COUNT(thread_counts); t++) {
                unsigned char *other =
                    run_with(thread_counts[t], &foci_attn_kernels[n], c, &other_total);
                if (total != other_total || memcmp(first, other, total) != 0)
                    fail_msg("%s: %d threads give other bits: %s", foci_attn_kernels[n].name,
                             thread_counts[t], attn_case_text(c));
                free(other);
            }
            if (first) note_ran("attn threads", foci_attn_kernels[n].name);
            free(first);
        }
        attn_case_free(c);
    }
    assert_ran("attn threads", "ref");
    assert_int_equal(memory_live_blocks(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_do_not_depend_on_threads),
    };
    return cmocka_run_group_tests_name("attn_threads", tests, NULL, NULL);
}
