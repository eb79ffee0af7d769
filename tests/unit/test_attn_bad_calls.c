/* Wrong calls get a status and a sentence, never a crash: forward, backward, pairs and the
 * kernel's name are all asked. */
#include "support/check.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "support/cases.h"

typedef void (*bend)(attn_case *c);

/* clang-format off */
static const attn_spec dense = {.T = 9, .S = 9, .H = 4, .G = 2, .D = 8};
static const attn_spec listed = { .H = 4, .G = 2, .D = 8, .seq_count = 2, .lengths = {{5, 9}, {3,
    7}}};
static const attn_spec paged = {.T = 5, .S = 30, .H = 4, .G = 2, .D = 8, .page_rows = 7};
static const attn_spec grouped = {.T = 40, .S = 40, .H = 4, .G = 2, .D = 8, .has_window = true,
    .window = 3, .groups = GROUPS_RANDOM, .K = 4, .top = 2};
static const attn_spec moved = {.T = 40, .S = 40, .H = 4, .G = 2, .D = 8, .has_window = true,
    .window = 3, .groups = GROUPS_RANDOM, .K = 4, .top = 2, .is_permuted = true};
static const attn_spec shared = {.T = 40, .S = 40, .H = 4, .G = 2, .D = 8, .has_window = true,
    .window = 3, .groups = GROUPS_RANDOM, .mode = FOCAL_SHARED, .K = 4, .top = 2};
static const attn_spec gated = {.T = 20, .S = 20, .H = 4, .G = 2, .D = 8, .has_window = true,
    .window = 3, .K = 4, .gate = FOCAL_GATE_PAPER};
static const attn_spec straight = {.T = 40, .S = 40, .H = 4, .G = 2, .D = 8, .has_window = true,
    .window = 3, .groups = GROUPS_RANDOM, .K = 4, .top = 2, .gate = FOCAL_GATE_STRAIGHT};
/* clang-format on */

/* Each bend makes one thing wrong. */
#define BEND(name, statement)                                                                      \
    static void name(attn_case *c)                                                                 \
    {                                                                                              \
        statement;                                                                                 \
    }

static focal_keys *keys_of(attn_case *c)
{
    return &c->sets[0]->view;
}

BEND(no_q, c->args.q = NULL)
BEND(no_k, c->args.k = NULL)
BEND(no_v, c->args.v = NULL)
BEND(no_out, c->args.out = NULL)
BEND(zero_T, c->args.T = 0)
BEND(negative_T, c->args.T = -1)
BEND(least_T, c->args.T = INT32_MIN)
BEND(zero_S, c->args.S = 0)
BEND(negative_S, c->args.S = -5)
BEND(zero_H, c->args.H = 0)
BEND(negative_H, c->args.H = -4)
BEND(zero_G, c->args.G = 0)
BEND(negative_G, c->args.G = -2)
BEND(uneven_heads, c->args.G = 3)
BEND(more_key_heads, c->args.G = 8)
BEND(zero_D, c->args.D = 0)
BEND(negative_D, c->args.D = -8)
BEND(wide_D, c->args.D = 257)
BEND(huge_D, c->args.D = INT32_MAX)
BEND(negative_Dv, c->args.Dv = -1)
BEND(wide_Dv, c->args.Dv = 257)
BEND(unknown_dtype, c->args.dtype = (focal_dtype)7)
BEND(negative_dtype, c->args.dtype = (focal_dtype)-1)
BEND(short_q_stride, c->args.q_stride = 31)
BEND(negative_q_stride, c->args.q_stride = -32)
BEND(short_k_stride, c->args.k_stride = 15)
BEND(negative_k_stride, c->args.k_stride = INT64_MIN)
BEND(short_v_stride, c->args.v_stride = 1)
BEND(short_out_stride, c->args.out_stride = 31)
BEND(huge_q_stride, c->args.q_stride = INT64_MAX)
BEND(huge_k_stride, c->args.k_stride = INT64_MAX / 2)
BEND(huge_v_stride, c->args.v_stride = INT64_MAX / 4)
BEND(huge_out_stride, c->args.out_stride = INT64_MAX)
BEND(nan_cap, c->args.softcap = NAN)
BEND(infinite_cap, c->args.softcap = INFINITY)
BEND(negative_cap, c->args.softcap = -1.0F)
BEND(negative_window, (c->args.has_window = true, c->args.window = -1))
BEND(negative_sinks, (c->args.has_window = true, c->args.sinks = -1))
BEND(negative_seq_count, c->args.seq_count = -1)
BEND(no_list, (c->args.seq_count = 1, c->args.seqs = NULL))

static const bend dense_bends[] = {
    no_q,
    no_k,
    no_v,
    no_out,
    zero_T,
    negative_T,
    least_T,
    zero_S,
    negative_S,
    zero_H,
    negative_H,
    zero_G,
    negative_G,
    uneven_heads,
    more_key_heads,
    zero_D,
    negative_D,
    wide_D,
    huge_D,
    negative_Dv,
    wide_Dv,
    unknown_dtype,
    negative_dtype,
    short_q_stride,
    short_k_stride,
    short_v_stride,
    short_out_stride,
    huge_q_stride,
    huge_k_stride,
    huge_v_stride,
    huge_out_stride,
    negative_q_stride,
    nan_cap,
    infinite_cap,
    negative_cap,
    negative_window,
    negative_sinks,
    negative_seq_count,
    no_list,
    negative_k_stride,
};

BEND(empty_seq, c->seqs[1].T = 0)
BEND(seq_without_keys, c->seqs[1].S = 0)
BEND(negative_q_row, c->seqs[0].q_row = -1)
BEND(negative_k_row, c->seqs[1].k_row = -1)
BEND(huge_q_row, c->seqs[1].q_row = INT64_MAX - 1)
BEND(huge_k_row, c->seqs[1].k_row = INT64_MAX - 1)
BEND(overlapping_rows, c->seqs[1].q_row = c->seqs[0].q_row + 4)
BEND(descending_rows, c->seqs[1].q_row = 0)

static const bend list_bends[] = {empty_seq,  seq_without_keys, negative_q_row,   negative_k_row,
                                  huge_q_row, huge_k_row,       overlapping_rows, descending_rows};

/* The table is the case's own, though the arguments promise not to change it. */
static void clear_page(attn_case *c, int32_t page)
{
    const void **pages;
    memcpy(&pages, &c->seqs[0].k_pages, sizeof pages);
    pages[page] = NULL;
}

BEND(no_page_rows, c->args.page_rows = 0)
BEND(negative_page_rows, c->args.page_rows = -7)
BEND(one_page_missing, c->seqs[0].page_count--)
BEND(no_pages, c->seqs[0].page_count = 0)
BEND(negative_pages, c->seqs[0].page_count = -1)
BEND(pages_of_k_only, c->seqs[0].v_pages = NULL)
BEND(pages_of_v_only, c->seqs[0].k_pages = NULL)
BEND(null_page, clear_page(c, 2))

static const bend page_bends[] = {no_page_rows,   negative_page_rows, one_page_missing, no_pages,
                                  negative_pages, pages_of_k_only,    pages_of_v_only,  null_page};

BEND(keys_without_window, c->args.has_window = false)
BEND(keys_both_ways, c->args.is_bidirectional = true)
BEND(no_groups, keys_of(c)->K = 0)
BEND(negative_groups, keys_of(c)->K = -3)
BEND(many_groups, keys_of(c)->K = 65)
BEND(unknown_mode, keys_of(c)->mode = (focal_keys_mode)2)
BEND(odd_routers, keys_of(c)->routers = 3)
BEND(no_routers, keys_of(c)->routers = 0)
BEND(other_T, keys_of(c)->T = 39)
BEND(other_S, keys_of(c)->S = 41)
BEND(no_key_row, keys_of(c)->key_row = NULL)
BEND(no_key_begin, keys_of(c)->key_begin = NULL)
BEND(no_key_end, keys_of(c)->key_end = NULL)
BEND(no_query, keys_of(c)->query = NULL)
BEND(no_query_end, keys_of(c)->query_end = NULL)
BEND(no_query_begin, keys_of(c)->query_begin = NULL)
BEND(negative_key_stride, keys_of(c)->key_stride = -1)
BEND(negative_query_stride, keys_of(c)->query_stride = -1)
BEND(huge_key_stride, keys_of(c)->key_stride = INT64_MAX)
BEND(short_key_stride, keys_of(c)->key_stride = 3)
BEND(short_query_stride, keys_of(c)->query_stride = 3)
BEND(begin_behind_end, c->sets[0]->key_begin[1] = c->sets[0]->key_end[1] + 1)
BEND(negative_begin, c->sets[0]->key_begin[0] = -1)
BEND(end_behind_list, c->sets[0]->key_end[3] = 10000)
BEND(negative_query_begin, c->sets[0]->query_begin[0] = -1)
BEND(descending_query_begin, c->sets[0]->query_begin[1] = 0x7FFFFFFF)
BEND(query_behind_list, c->sets[0]->query_begin[4] = 10000)
BEND(negative_query, c->sets[0]->query[0] = -1)
BEND(query_out_of_range, c->sets[0]->query[c->sets[0]->query_begin[1] - 1] = 40)
BEND(query_twice, c->sets[0]->query[1] = c->sets[0]->query[0])
BEND(sees_too_many, c->sets[0]->query_end[c->sets[0]->query_begin[1] - 1] = 1000)
BEND(sees_less_than_none, c->sets[0]->query_end[0] = -1)
BEND(sees_fewer_than_before, c->sets[0]->query_end[0] = 4)
BEND(row_out_of_range, c->sets[0]->key_row[0] = 40)
BEND(row_far_away, c->sets[0]->key_row[0] = INT32_MAX)
BEND(negative_row, c->sets[0]->key_row[0] = -1)

static const bend key_bends[] = {keys_without_window,
                                 keys_both_ways,
                                 no_groups,
                                 negative_groups,
                                 many_groups,
                                 unknown_mode,
                                 odd_routers,
                                 no_routers,
                                 other_T,
                                 other_S,
                                 no_key_row,
                                 no_key_begin,
                                 no_key_end,
                                 no_query,
                                 no_query_end,
                                 no_query_begin,
                                 negative_key_stride,
                                 negative_query_stride,
                                 huge_key_stride,
                                 short_key_stride,
                                 short_query_stride,
                                 begin_behind_end,
                                 negative_begin,
                                 end_behind_list,
                                 negative_query_begin,
                                 descending_query_begin,
                                 query_behind_list,
                                 negative_query,
                                 query_out_of_range,
                                 query_twice,
                                 sees_too_many,
                                 sees_less_than_none,
                                 sees_fewer_than_before,
                                 row_out_of_range,
                                 row_far_away,
                                 negative_row};

BEND(short_positions, keys_of(c)->position_stride = 39)
BEND(negative_position, c->sets[0]->position_row[0] = -1)
BEND(position_out_of_range, c->sets[0]->position_row[39] = 40)

static const bend position_bends[] = {short_positions, negative_position, position_out_of_range};

BEND(no_query_mask, keys_of(c)->query_mask = NULL)
BEND(no_key_mask, keys_of(c)->key_mask = NULL)
BEND(short_key_mask, keys_of(c)->key_mask_stride = 2)

static const bend mask_bends[] = {no_query_mask, no_key_mask, short_key_mask};

BEND(unknown_gate, c->gate.kind = (focal_gate_kind)5)
BEND(zero_gate, c->gate.kind = (focal_gate_kind)0)
BEND(gate_without_window, c->args.has_window = false)
BEND(gate_both_ways, c->args.is_bidirectional = true)
BEND(gate_of_no_groups, c->gate.K = 0)
BEND(gate_of_many_groups, c->gate.K = 65)
BEND(gate_of_odd_routers, c->gate.routers = 3)
BEND(gate_of_no_routers, c->gate.routers = 0)
BEND(no_gq, c->gate.gq = NULL)
BEND(no_gk, c->gate.gk = NULL)
BEND(nan_lambda, c->gate.lambda = NAN)
BEND(infinite_lambda, c->gate.lambda = INFINITY)

static const bend gate_bends[] = {unknown_gate,
                                  zero_gate,
                                  gate_without_window,
                                  gate_both_ways,
                                  gate_of_no_groups,
                                  gate_of_many_groups,
                                  gate_of_odd_routers,
                                  gate_of_no_routers,
                                  no_gq,
                                  no_gk,
                                  nan_lambda,
                                  infinite_lambda};

BEND(straight_without_keys, c->args.keys = NULL)
BEND(gate_of_other_K, c->gate.K = 5)
BEND(gate_of_other_routers, c->gate.routers = 1)
BEND(paper_with_keys, c->gate.kind = FOCAL_GATE_PAPER)
BEND(log_with_keys, c->gate.kind = FOCAL_GATE_LOG)
BEND(scale_with_keys, c->gate.kind = FOCAL_GATE_SCALE)

static const bend straight_bends[] = {straight_without_keys, gate_of_other_K, gate_of_other_routers,
                                      paper_with_keys,       log_with_keys,   no_query_mask,
                                      no_key_mask,           short_key_mask,  scale_with_keys};

static void refuse(focal_ctx *ctx, const attn_spec *spec, const bend *bends, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        attn_case *c = attn_case_new(spec, 4);
        const bool has_gradients = spec->page_rows == 0 && !spec->is_permuted;
        if (has_gradients) attn_case_want_gradients(c);
        bends[n](c);
        int64_t pairs = 0;
        const focal_status status = focal_attn_forward(ctx, &c->args);
        if (status != FOCAL_EINVAL)
            fail_msg("bend %zu: status %d: %s", n, (int)status, attn_case_text(c));
        assert_status(ctx, status, FOCAL_EINVAL);
        assert_status(ctx, focal_attn_pairs(ctx, &c->args, &pairs), FOCAL_EINVAL);
        assert_null(focal_attn_kernel_name(ctx, &c->args));
        if (has_gradients)
            assert_status(ctx, focal_attn_backward(ctx, &c->args, &c->grads), FOCAL_EINVAL);
        attn_case_free(c);
        /* The context is as good as before. */
        attn_case *good = attn_case_new(spec, 4);
        assert_status(ctx, focal_attn_forward(ctx, &good->args), FOCAL_OK);
        attn_case_free(good);
    }
}

static void bad_shapes(void **state)
{
    refuse(*state, &dense, dense_bends, FOCAL_COUNT(dense_bends));
    refuse(*state, &listed, list_bends, FOCAL_COUNT(list_bends));
    refuse(*state, &paged, page_bends, FOCAL_COUNT(page_bends));
}

static void bad_key_sets(void **state)
{
    refuse(*state, &grouped, key_bends, FOCAL_COUNT(key_bends));
    refuse(*state, &moved, position_bends, FOCAL_COUNT(position_bends));
    refuse(*state, &shared, mask_bends, FOCAL_COUNT(mask_bends));
}

static void bad_gates(void **state)
{
    refuse(*state, &gated, gate_bends, FOCAL_COUNT(gate_bends));
    refuse(*state, &straight, straight_bends, FOCAL_COUNT(straight_bends));
}

static void no_arguments(void **state)
{
    focal_ctx *ctx = *state;
    attn_case *c = attn_case_new(&dense, 1);
    int64_t pairs = 0;
    attn_case_want_gradients(c);
    assert_status(ctx, focal_attn_forward(ctx, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_attn_backward(ctx, NULL, &c->grads), FOCAL_EINVAL);
    assert_status(ctx, focal_attn_backward(ctx, &c->args, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_attn_pairs(ctx, NULL, &pairs), FOCAL_EINVAL);
    assert_status(ctx, focal_attn_pairs(ctx, &c->args, NULL), FOCAL_EINVAL);
    assert_null(focal_attn_kernel_name(ctx, NULL));
    attn_case_free(c);
}

BEND(no_dout, c->grads.dout = NULL)
BEND(no_dq, c->grads.dq = NULL)
BEND(no_dk, c->grads.dk = NULL)
BEND(no_dv, c->grads.dv = NULL)
BEND(no_dgq, c->grads.dgq = NULL)
BEND(no_dgk, c->grads.dgk = NULL)
BEND(no_lse, c->args.lse = NULL)

static void bad_gradients(void **state)
{
    static const bend bends[] = {no_dout, no_dq, no_dk, no_dv, no_dgq, no_dgk, no_lse};
    for (size_t n = 0; n < FOCAL_COUNT(bends); n++) {
        attn_case *c = attn_case_new(&gated, 1);
        attn_case_want_gradients(c);
        bends[n](c);
        assert_status(*state, focal_attn_backward(*state, &c->args, &c->grads), FOCAL_EINVAL);
        attn_case_free(c);
    }
}

/* Backward adds nothing up between sequences, so their keys must be apart. */
static void keys_of_sequences_overlap(void **state)
{
    attn_case *c = attn_case_new(&listed, 1);
    attn_case_want_gradients(c);
    c->seqs[1].k_row = c->seqs[0].k_row + 3;
    assert_status(*state, focal_attn_forward(*state, &c->args), FOCAL_OK);
    assert_status(*state, focal_attn_backward(*state, &c->args, &c->grads), FOCAL_EINVAL);
    attn_case_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_shapes, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_key_sets, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_gates, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(no_arguments, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_gradients, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(keys_of_sequences_overlap, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("attn_bad_calls", tests, NULL, NULL);
}
