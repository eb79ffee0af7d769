/* Running with groups: whole logits of a text that is long against its window, beside the
 * definition in double; however the text was cut, batched, forgotten or copied. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/cache.h"
#include "support/group_model.h"
#include "support/oracle_llama.h"

enum { TOKENS = 200, V = GROUP_V };

/* Scores are about 10; their rounding is some 1e-5. */
static const double least_margin = 2e-4;

typedef struct case_of_groups {
    const char *name;
    group_kind kind;
} case_of_groups;

static const case_of_groups cases[] = {
    {"directed, kv",
     {FOCAL_DIRECTED, GROUP_G, true, false, {true, false, true}, FOCI_GROUPS_ROUTER}},
    {"directed, layer", {FOCAL_DIRECTED, 1, true, false, {true, true, true}, FOCI_GROUPS_ROUTER}},
    {"shared, kv", {FOCAL_SHARED, GROUP_G, true, false, {false, true, true}, FOCI_GROUPS_ROUTER}},
    {"shared, layer", {FOCAL_SHARED, 1, true, false, {true, true, false}, FOCI_GROUPS_ROUTER}},
    {"the paper's", {FOCAL_SHARED, 1, true, true, {true, true, true}, FOCI_GROUPS_ROUTER}},
    {"random", {FOCAL_DIRECTED, GROUP_G, true, false, {true, true, true}, FOCI_GROUPS_RANDOM}},
    {"random, shared", {FOCAL_SHARED, 1, true, false, {true, false, true}, FOCI_GROUPS_RANDOM}},
};

/* The first ones: with every kind of chains there is. */
enum { CHAIN_KINDS = 3 };

typedef struct rig {
    focal_ctx *ctx;
    group_model m;
    focal_adapter adapter;
    foci_groups_use use;
    bool has_temperatures;
    int32_t ids[TOKENS];
    float *logits;          /* (TOKENS, V) */
    double *exact, *kv;     /* (TOKENS, V), (L, TOKENS, G, D) */
    double largest, margin; /* of exact, and of the groups that it chose */
} rig;

static void open_rig(focal_ctx *ctx, const case_of_groups *c, focal_dtype precision, uint64_t seed,
                     rig *r)
{
    *r = (rig){.ctx = ctx};
    group_model_open(ctx, precision, &r->m);
    group_adapter_open(ctx, &c->kind, seed, &r->adapter);
    for (int n = 0; n < TOKENS; n++) r->ids[n] = (int32_t)foci_random_below(5, 1, (uint64_t)n, V);
    r->logits = new_array((size_t)TOKENS * V, sizeof *r->logits);
    r->exact = new_array((size_t)TOKENS * V, sizeof *r->exact);
    r->kv = new_array((size_t)2 * GROUP_L * TOKENS * GROUP_G * GROUP_D, sizeof *r->kv);
}

static void close_rig(rig *r)
{
    free(r->logits);
    free(r->exact);
    free(r->kv);
    group_model_close(&r->m);
    group_adapter_close(&r->adapter);
}

static void attach(rig *r, int32_t top, bool has_temperatures)
{
    const focal_attach_options options = {.top = top, .has_no_temperatures = !has_temperatures};
    assert_status(r->ctx, focal_model_attach(&r->m.model, &r->adapter, &options), FOCAL_OK);
    r->has_temperatures = has_temperatures;
    r->use = (foci_groups_use){top, GROUP_WINDOW, GROUP_SINKS};
}

static void find_exact(rig *r)
{
    const int64_t part = (int64_t)GROUP_L * TOKENS * GROUP_G * GROUP_D;
    r->margin = 1e9;
    const oracle_llama oracle = {.model = &r->m.model,
                                 .T = TOKENS,
                                 .ids = r->ids,
                                 .own_k = r->kv,
                                 .own_v = r->kv + part,
                                 .logits = r->exact,
                                 .groups = {.groups = r->adapter.groups,
                                            .use = r->use,
                                            .has_temperatures = r->has_temperatures,
                                            .margin = &r->margin}};
    oracle_llama_forward(&oracle);
    r->largest = 0.0;
    for (int n = 0; n < TOKENS * V; n++) r->largest = fmax(r->largest, fabs(r->exact[n]));
}

/* An adapter under which no token is near a tie. */
static void open_safe(focal_ctx *ctx, const case_of_groups *c, int32_t top, bool has_temperatures,
                      rig *r)
{
    for (uint64_t seed = 1; seed < 50; seed++) {
        open_rig(ctx, c, FOCAL_F32, seed, r);
        attach(r, top, has_temperatures);
        find_exact(r);
        if (r->margin >= least_margin) return;
        close_rig(r);
    }
    fail_msg("%s, top %d: near ties with every seed", c->name, top);
}

static void open_exact(focal_ctx *ctx, const case_of_groups *c, rig *r)
{
    open_safe(ctx, c, 2, true, r);
}

static focal_cache *new_cache(rig *r, focal_dtype dtype, int32_t sequences)
{
    const focal_cache_options options = {.sequences = sequences, .dtype = dtype, .has_dtype = true};
    focal_cache *cache = NULL;
    assert_status(r->ctx, focal_cache_new(&r->m.model, &options, &cache), FOCAL_OK);
    return cache;
}

/* Tokens [first, first + count), all their logits. */
static void feed(rig *r, focal_cache *cache, int32_t sequence, int first, int count)
{
    const focal_batch_item item = {sequence, count, r->ids + first, count};
    const focal_forward_args args = {
        .item_count = 1, .items = &item, .logits = r->logits + (ptrdiff_t)first * V};
    assert_status(r->ctx, focal_forward(&r->m.model, cache, &args), FOCAL_OK);
}

static void feed_in_steps(rig *r, focal_cache *cache, int32_t sequence, int first, int step)
{
    for (int take; first < TOKENS; first += take) {
        take = step < TOKENS - first ? step : TOKENS - first;
        feed(r, cache, sequence, first, take);
    }
}

/* The largest difference of the logits from token `first` on, against the largest logit. */
static double farthest(const rig *r, int first)
{
    double most = 0.0;
    for (int n = first * V; n < TOKENS * V; n++) {
        if (!isfinite(r->logits[n])) fail_msg("token %d: not a number", n / V);
        most = fmax(most, fabs((double)r->logits[n] - r->exact[n]));
    }
    return most / r->largest;
}

static void assert_exact(const rig *r, const char *what, int first)
{
    const double far = farthest(r, first);
    if (far > 2e-5) fail_msg("%s: %g of the largest logit away", what, far);
}

/* ---- The definition ---- */

static void check_whole_text(focal_ctx *ctx, const case_of_groups *c, int32_t top,
                             bool has_temperatures)
{
    rig r;
    open_safe(ctx, c, top, has_temperatures, &r);
    focal_cache *cache = new_cache(&r, FOCAL_F32, 1);
    feed(&r, cache, 0, 0, TOKENS);
    print_message("%s, top %d%s: %.1e of the largest logit, margin %.1e\n", c->name, top,
                  has_temperatures ? ", temperatures" : "", farthest(&r, 0), r.margin);
    assert_exact(&r, c->name, 0);
    /* Without groups: equal where all are seen, and else the groups matter. Of shared groups, more
     * than half of all meet in one. */
    const bool sees_all = c->kind.mode == FOCAL_SHARED ? 2 * top > GROUP_K : top == GROUP_K;
    if (sees_all || top == 1) {
        r.use.top = 0;
        find_exact(&r);
        assert_true((farthest(&r, 0) > 0.02) == !sees_all);
        if (sees_all) assert_exact(&r, c->name, 0);
    }
    focal_cache_free(cache);
    close_rig(&r);
}

static void whole_texts_are_as_defined(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++)
        for (int32_t top = 1; top <= GROUP_K; top++) {
            check_whole_text(*state, &cases[n], top, true);
            if (top == 2 || top == GROUP_K) check_whole_text(*state, &cases[n], top, false);
        }
}

/* Windows and sinks of any size, none among them, and such as leave nothing distant. */
static void windows_and_sinks_are_as_defined(void **state)
{
    static const foci_groups_use uses[] = {{2, 0, 0},   {2, 0, 3},   {2, 31, 0},  {2, 64, 70},
                                           {2, 197, 1}, {2, 198, 1}, {2, 400, 4}, {2, 3, 400}};
    for (size_t c = 0; c < 3; c += 2) { /* a directed and a shared one */
        for (size_t n = 0; n < FOCAL_COUNT(uses); n++) {
            rig r;
            const focal_attach_options options = {.window = uses[n].window,
                                                  .sinks = uses[n].sinks,
                                                  .has_window = true,
                                                  .has_sinks = true};
            for (uint64_t seed = 1;; seed++) {
                open_rig(*state, &cases[c], FOCAL_F32, seed, &r);
                assert_status(r.ctx, focal_model_attach(&r.m.model, &r.adapter, &options),
                              FOCAL_OK);
                r.has_temperatures = true;
                r.use = uses[n];
                find_exact(&r);
                if (r.margin >= least_margin) break;
                close_rig(&r);
            }
            focal_cache *cache = new_cache(&r, FOCAL_F32, 2);
            feed(&r, cache, 0, 0, TOKENS);
            assert_exact(&r, "whole", 0);
            feed_in_steps(&r, cache, 1, 0, 37);
            assert_exact(&r, "in steps", 0);
            focal_cache_free(cache);
            close_rig(&r);
        }
    }
}

/* ---- Ways to the same logits ---- */

static void cutting_into_calls_changes_nothing(void **state)
{
    static const int steps[] = {1, 3, 32, 33, TOKENS};
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        rig r;
        open_exact(*state, &cases[n], &r);
        for (size_t s = 0; s < FOCAL_COUNT(steps); s++) {
            focal_cache *cache = new_cache(&r, FOCAL_F32, 1);
            feed_in_steps(&r, cache, 0, 0, steps[s]);
            assert_exact(&r, cases[n].name, 0);
            assert_int_equal(focal_cache_length(cache, 0), TOKENS);
            focal_cache_free(cache);
        }
        close_rig(&r);
    }
}

/* Three texts of the same ids, each at its own place: their logits are those of the one text. */
static void texts_share_batches(void **state)
{
    static const int takes[][3] = {{50, 3, 70}, {1, 1, 1}, {1, 1, 1},    {0, 40, 1}, {0, 1, 0},
                                   {9, 0, 64},  {1, 1, 0}, {129, 10, 0}, {0, 1, 1},  {0, 133, 54}};
    for (size_t c = 0; c < FOCAL_COUNT(cases); c++) {
        rig r;
        int done[3] = {0};
        open_exact(*state, &cases[c], &r);
        focal_cache *cache = new_cache(&r, FOCAL_F32, 3);
        float *logits = new_array((size_t)3 * TOKENS * V, sizeof *logits);
        for (size_t n = 0; n < FOCAL_COUNT(takes); n++) {
            focal_batch_item items[3];
            focal_forward_args args = {.items = items, .logits = logits};
            for (int s = 0; s < 3; s++)
                if (takes[n][s] > 0)
                    items[args.item_count++] =
                        (focal_batch_item){s, takes[n][s], r.ids + done[s], takes[n][s]};
            assert_status(r.ctx, focal_forward(&r.m.model, cache, &args), FOCAL_OK);
            const float *from = logits;
            for (int s = 0; s < 3; s++) {
                for (int i = 0; i < takes[n][s] * V; i++)
                    if (!(fabs((double)from[i] - r.exact[done[s] * V + i]) < 2e-5 * r.largest))
                        fail_msg("%s: call %zu, text %d, token %d", cases[c].name, n, s, i / V);
                from += (ptrdiff_t)takes[n][s] * V;
                done[s] += takes[n][s];
            }
        }
        for (int s = 0; s < 3; s++) assert_int_equal(focal_cache_length(cache, s), done[s]);
        assert_int_equal(done[1], 191);
        free(logits);
        focal_cache_free(cache);
        close_rig(&r);
    }
}

static void threads_give_the_same_bits(void **state)
{
    static const int steps[] = {1, 33, TOKENS};
    focal_ctx *one = new_ctx(1);
    for (size_t c = 0; c < FOCAL_COUNT(cases); c++) {
        rig a, b;
        open_rig(*state, &cases[c], FOCAL_F32, 1, &a);
        open_rig(one, &cases[c], FOCAL_F32, 1, &b);
        attach(&a, 2, true);
        attach(&b, 2, true);
        for (size_t s = 0; s < FOCAL_COUNT(steps); s++) {
            focal_cache *of_a = new_cache(&a, FOCAL_F32, 1), *of_b = new_cache(&b, FOCAL_F32, 1);
            feed_in_steps(&a, of_a, 0, 0, steps[s]);
            feed_in_steps(&b, of_b, 0, 0, steps[s]);
            assert_memory_equal(a.logits, b.logits, (size_t)TOKENS * V * sizeof(float));
            focal_cache_free(of_a);
            focal_cache_free(of_b);
        }
        close_rig(&a);
        close_rig(&b);
    }
    focal_ctx_close(one);
}

/* Routers in the first layer only: what they read is not rounded, so the groups stay. */
static void rounded_caches_are_near(void **state)
{
    static const struct {
        focal_dtype precision, cache;
        double bound;
    } types[] = {{FOCAL_F32, FOCAL_F32, 2e-5},  {FOCAL_F32, FOCAL_BF16, 0.05},
                 {FOCAL_F32, FOCAL_Q8_0, 0.05}, {FOCAL_BF16, FOCAL_BF16, 0.1},
                 {FOCAL_BF16, FOCAL_Q8_0, 0.1}, {FOCAL_BF16, FOCAL_F32, 0.1}};
    for (size_t c = 0; c < 3; c += 2)
        for (size_t n = 0; n < FOCAL_COUNT(types); n++) {
            rig r;
            case_of_groups first = cases[c];
            first.kind.layers[0] = true;
            first.kind.layers[1] = first.kind.layers[2] = false;
            open_rig(*state, &first, types[n].precision, 1, &r);
            attach(&r, 2, true);
            find_exact(&r);
            for (int step = 1; step <= TOKENS; step += 132) {
                focal_cache *cache = new_cache(&r, types[n].cache, 1);
                feed_in_steps(&r, cache, 0, 0, step);
                const double far = farthest(&r, 0);
                if (step == 1)
                    print_message("%s, %s, cache %s: %.1e of the largest logit\n", first.name,
                                  focal_dtype_name(types[n].precision),
                                  focal_dtype_name(types[n].cache), far);
                if (!(far < types[n].bound)) fail_msg("%g of the largest logit away", far);
                focal_cache_free(cache);
            }
            close_rig(&r);
        }
}

/* Calls (first, count) of tokens whose bits may be compared: the same calls, after whatever the
 * text was before. */
static void read_tail(rig *r, focal_cache *cache, int32_t sequence, int first, float *out)
{
    feed(r, cache, sequence, first, (TOKENS - first) / 2);
    feed_in_steps(r, cache, sequence, first + (TOKENS - first) / 2, 31);
    memcpy(out, r->logits + (ptrdiff_t)first * V, (size_t)(TOKENS - first) * V * sizeof *out);
}

static const focal_dtype cache_types[] = {FOCAL_F32, FOCAL_BF16, FOCAL_Q8_0};

static void going_back_and_on_changes_nothing(void **state)
{
    static const int cuts[] = {0, 1, 9, 10, 65, 149};
    static float clean[TOKENS * V], again[TOKENS * V];
    for (size_t c = 0; c < CHAIN_KINDS; c++) {
        rig r;
        open_exact(*state, &cases[c], &r);
        for (size_t t = 0; t < FOCAL_COUNT(cache_types); t++)
            for (size_t n = 0; n < FOCAL_COUNT(cuts); n++) {
                const size_t bytes = (size_t)(TOKENS - cuts[n]) * V * sizeof(float);
                focal_cache *cache = new_cache(&r, cache_types[t], 2);
                if (cuts[n] > 0) feed(&r, cache, 0, 0, cuts[n]);
                read_tail(&r, cache, 0, cuts[n], clean);
                if (cuts[n] > 0) feed(&r, cache, 1, 0, cuts[n]);
                feed(&r, cache, 1, TOKENS - 55, 55); /* other tokens, to be forgotten */
                feed(&r, cache, 1, 7, 1);
                assert_status(r.ctx, focal_cache_truncate(cache, 1, cuts[n]), FOCAL_OK);
                feed(&r, cache, 1, 8, 1); /* and a single one */
                assert_status(r.ctx, focal_cache_truncate(cache, 1, cuts[n]), FOCAL_OK);
                assert_int_equal(focal_cache_length(cache, 1), cuts[n]);
                read_tail(&r, cache, 1, cuts[n], again);
                assert_memory_equal(again, clean, bytes);
                if (cache_types[t] == FOCAL_F32) assert_exact(&r, cases[c].name, cuts[n]);
                focal_cache_free(cache);
            }
        close_rig(&r);
    }
}

static void copies_go_their_own_ways(void **state)
{
    static float clean[TOKENS * V], again[TOKENS * V];
    for (size_t c = 0; c < CHAIN_KINDS; c++) {
        rig r;
        open_exact(*state, &cases[c], &r);
        for (size_t t = 0; t < FOCAL_COUNT(cache_types); t++)
            for (int length = 0; length < 100; length += 33) {
                const size_t bytes = (size_t)(TOKENS - length) * V * sizeof(float);
                focal_cache *cache = new_cache(&r, cache_types[t], 3);
                feed(&r, cache, 1, 3, 20); /* something that the copy replaces */
                if (length > 0) feed_in_steps(&r, cache, 0, 0, length);
                assert_status(r.ctx, focal_cache_truncate(cache, 0, length), FOCAL_OK);
                assert_status(r.ctx, focal_cache_copy(cache, 0, 1), FOCAL_OK);
                assert_status(r.ctx, focal_cache_copy(cache, 0, 2), FOCAL_OK);
                assert_int_equal(focal_cache_length(cache, 1), length);
                feed(&r, cache, 2, 90, 60); /* must not reach into the others */
                read_tail(&r, cache, 0, length, clean);
                read_tail(&r, cache, 1, length, again);
                assert_memory_equal(again, clean, bytes);
                if (cache_types[t] == FOCAL_F32) assert_exact(&r, cases[c].name, length);
                focal_cache_free(cache);
            }
        close_rig(&r);
    }
}

/* ---- Without memory ---- */

/* Two texts go on in one call. */
static focal_status read_two(rig *r, focal_cache *cache, void *logits)
{
    const focal_batch_item items[] = {{0, 60, r->ids + 40, 60}, {1, 50, r->ids, 50}};
    const focal_forward_args args = {.item_count = 2, .items = items, .logits = logits};
    return focal_forward(&r->m.model, cache, &args);
}

/* The n-th allocation fails, alone or with all after it: both texts stay, and then the same call
 * works. False: there were fewer. */
static bool survives_failure(rig *r, int64_t n, bool fail_on, const float *clean)
{
    static float logits[110 * V];
    focal_cache *cache = new_cache(r, FOCAL_F32, 2);
    feed(r, cache, 0, 0, 40);
    focal_ctx_trim(r->ctx);
    memory_fail(n, fail_on);
    const focal_status status = read_two(r, cache, logits);
    const bool has_failed = memory_requests() >= n;
    memory_fail(0, false);
    if (status != FOCAL_OK) {
        assert_status(r->ctx, status, FOCAL_ENOMEM);
        assert_int_equal(focal_cache_length(cache, 0), 40);
        assert_int_equal(focal_cache_length(cache, 1), 0);
        assert_status(r->ctx, read_two(r, cache, logits), FOCAL_OK);
    }
    assert_memory_equal(logits, clean, sizeof logits);
    focal_cache_free(cache);
    return has_failed;
}

static void a_pass_may_run_out_of_memory(void **state)
{
    static float clean[110 * V];
    for (size_t c = 0; c < CHAIN_KINDS; c++) {
        rig r;
        open_rig(*state, &cases[c], FOCAL_F32, 1, &r);
        attach(&r, 2, true);
        focal_cache *cache = new_cache(&r, FOCAL_F32, 2);
        feed(&r, cache, 0, 0, 40);
        assert_status(r.ctx, read_two(&r, cache, clean), FOCAL_OK);
        focal_cache_free(cache);
        for (int fail_on = 0; fail_on < 2; fail_on++) {
            int64_t n = 1;
            while (survives_failure(&r, n, fail_on == 1, clean)) n++;
            assert_true(n > 20);
        }
        close_rig(&r);
    }
}

static void caches_and_copies_may_run_out_of_memory(void **state)
{
    for (size_t c = 0; c < FOCAL_COUNT(cases); c++) {
        rig r;
        focal_cache *cache = NULL;
        const focal_cache_options two = {.sequences = 2};
        open_exact(*state, &cases[c], &r);
        for (int64_t n = 1; !cache; n++) {
            memory_fail(n, false);
            const focal_status status = focal_cache_new(&r.m.model, &two, &cache);
            memory_fail(0, false);
            if (status == FOCAL_OK) break;
            assert_status(r.ctx, status, FOCAL_ENOMEM);
            assert_null(cache);
        }
        feed(&r, cache, 0, 0, 100);
        for (int64_t n = 1;; n++) {
            if (focal_cache_length(cache, 1) == 0) feed(&r, cache, 1, 20, 5);
            focal_ctx_trim(r.ctx);
            memory_fail(n, false);
            const focal_status status = focal_cache_copy(cache, 0, 1);
            memory_fail(0, false);
            if (status == FOCAL_OK) break;
            assert_status(r.ctx, status, FOCAL_ENOMEM);
            assert_int_equal(focal_cache_length(cache, 0), 100);
            assert_int_equal(focal_cache_length(cache, 1), 0);
        }
        assert_int_equal(focal_cache_length(cache, 1), 100);
        feed_in_steps(&r, cache, 1, 100, 40);
        assert_exact(&r, cases[c].name, 100);
        feed_in_steps(&r, cache, 0, 100, 7);
        assert_exact(&r, cases[c].name, 100);
        focal_cache_free(cache);
        close_rig(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(whole_texts_are_as_defined, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(windows_and_sinks_are_as_defined, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(cutting_into_calls_changes_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(texts_share_batches, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(threads_give_the_same_bits, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(rounded_caches_are_near, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(going_back_and_on_changes_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(copies_go_their_own_ways, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_pass_may_run_out_of_memory, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(caches_and_copies_may_run_out_of_memory, open_ctx,
                                        close_ctx),
    };
    return cmocka_run_group_tests_name("groups", tests, NULL, NULL);
}
