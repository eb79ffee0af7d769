/* Every attention kernel agrees with the double oracle, forward and lse: tile edges, shared heads,
 * caches, pages, strides, windows, groups, and seeded mixtures of all of these. */
#include "support/check.h"

#include <stdlib.h>

#include "ops/attn/attn_kernels.h"
#include "support/cases.h"

enum { RANDOM_CASES = 240 };

static void run_kernels(focal_ctx *ctx, const attn_spec *spec, uint64_t seed)
{
    attn_case *c = attn_case_new(spec, seed);
    focal_attn_args normal;
    focal_attn_seq single;
    focal_attn_gate gate;
    const focal_status status = foci_attn_normalise(ctx, &c->args, &normal, &single, &gate);
    if (status != FOCAL_OK) fail_msg("%s: %s", focal_ctx_error(ctx), attn_case_text(c));
    bool was_taken = false;
    for (size_t n = 0; n < foci_attn_kernel_count; n++) {
        const foci_attn_kernel *kernel = &foci_attn_kernels[n];
        if (!kernel->can(ctx, &normal)) continue;
        attn_case_clear_forward(c); /* an unwritten element shows */
        assert_status(ctx, kernel->forward(ctx, &normal), FOCAL_OK);
        attn_case_check_forward(c, kernel->name);
        note_ran("attn", kernel->name);
        was_taken = true;
    }
    if (!was_taken) fail_msg("no kernel takes %s", attn_case_text(c));
    attn_case_free(c);
}

static void kernels_match_oracle(void **state)
{
    for (size_t n = 0; n < attn_spec_count; n++)
        run_kernels(*state, &attn_specs[n], (uint64_t)n + 1);
}

static void kernels_match_oracle_on_mixtures(void **state)
{
    for (uint64_t seed = 1; seed <= RANDOM_CASES; seed++) {
        const attn_spec spec = attn_spec_random(seed, false);
        run_kernels(*state, &spec, seed);
    }
}

static void kernels_match_oracle_on_long_texts(void **state)
{
    for (size_t n = 0; n < attn_long_spec_count; n++)
        run_kernels(*state, &attn_long_specs[n], (uint64_t)n + 1);
}

/* The public call chooses one of the table, and lse may be left out. */
static void public_call_needs_no_lse(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < attn_spec_count; n++) {
        attn_case *c = attn_case_new(&attn_specs[n], (uint64_t)n + 1);
        attn_case_clear_forward(c);
        float *lse = c->args.lse;
        c->args.lse = NULL;
        assert_status(ctx, focal_attn_forward(ctx, &c->args), FOCAL_OK);
        assert_non_null(focal_attn_kernel_name(ctx, &c->args));
        attn_case_check_forward(c, "public");
        c->args.lse = lse;
        attn_case_free(c);
    }
}

/* One to sixteen new queries against a cache give the rows of the whole text. */
static void decoding_gives_the_same_rows(void **state)
{
    focal_ctx *ctx = *state;
    for (int32_t T = 1; T <= 16; T++) {
        for (int dtype = FOCAL_F32; dtype <= FOCAL_BF16; dtype++) {
            attn_spec spec = {.T = 150, .S = 150, .H = 6, .G = 2, .D = 64, .dtype = dtype};
            attn_case *c = attn_case_new(&spec, 5);
            focal_attn_args tail = c->args;
            tail.T = T;
            const size_t bytes = focal_dtype_bytes(spec.dtype);
            const size_t skipped = (size_t)(150 - T) * 6;
            attn_case_clear_forward(c);
            assert_status(ctx, focal_attn_forward(ctx, &c->args), FOCAL_OK);
            tail.q = (const char *)c->args.q + skipped * 64 * bytes;
            tail.out = (char *)c->args.out + skipped * 64 * bytes;
            tail.lse = c->args.lse + skipped;
            assert_status(ctx, focal_attn_forward(ctx, &tail), FOCAL_OK);
            attn_case_check_forward(c, "decode");
            attn_case_free(c);
        }
    }
}

/* Of keys behind the window only their lists know where they lie: a cache may have moved them. */
static void positions_behind_the_window_are_not_read(void **state)
{
    focal_ctx *ctx = *state;
    enum { T = 40, S = 200, WINDOW = 16, SINKS = 4 };
    const attn_spec spec = {.T = T,
                            .S = S,
                            .H = 2,
                            .G = 1,
                            .D = 64,
                            .dtype = FOCAL_BF16,
                            .has_window = true,
                            .window = WINDOW,
                            .sinks = SINKS,
                            .groups = GROUPS_RANDOM,
                            .K = 4,
                            .top = 2,
                            .is_permuted = true};
    attn_case *c = attn_case_new(&spec, 7);
    focal_keys keys = *c->args.keys;
    int32_t rows[S];
    for (int32_t j = 0; j < S; j++)
        rows[j] = j < SINKS || j >= S - T - WINDOW ? keys.position_row[j] : -1 - j;
    keys.position_row = rows;
    c->args.keys = &keys;
    attn_case_clear_forward(c);
    assert_status(ctx, focal_attn_forward(ctx, &c->args), FOCAL_OK);
    attn_case_check_forward(c, "moved keys");
    attn_case_free(c);
}

/* What a call costs is what the definition sees. */
static void pairs_are_those_seen(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t s = 0; s < attn_spec_count; s++) {
        attn_case *c = attn_case_new(&attn_specs[s], (uint64_t)s + 1);
        int64_t expected = 0, pairs = -1;
        for (int32_t n = 0; n < c->seq_count; n++)
            for (int32_t h = 0; h < c->args.H; h++)
                for (int32_t i = 0; i < c->seqs[n].T; i++)
                    for (int32_t j = 0; j < c->seqs[n].S; j++)
                        expected += oracle_sees(&c->problems[n], h, i, j);
        assert_status(ctx, focal_attn_pairs(ctx, &c->args, &pairs), FOCAL_OK);
        if (pairs != expected)
            fail_msg("%lld pairs, expected %lld: %s", (long long)pairs, (long long)expected,
                     attn_case_text(c));
        attn_case_free(c);
    }
}

static void required_kernels_ran(void **state)
{
    (void)state;
    assert_ran("attn", "ref");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(kernels_match_oracle, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_mixtures, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(kernels_match_oracle_on_long_texts, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(public_call_needs_no_lse, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(decoding_gives_the_same_rows, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(positions_behind_the_window_are_not_read, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(pairs_are_those_seen, open_ctx, close_ctx),
        cmocka_unit_test(required_kernels_ran),
    };
    return cmocka_run_group_tests_name("attn", tests, NULL, NULL);
}
