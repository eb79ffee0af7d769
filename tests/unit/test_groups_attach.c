/* Models and adapters: which fit each other, what running with one changes, and that nothing of it
 * stays. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "model/cache.h"
#include "support/adapter_files.h"
#include "support/group_model.h"
#include "support/oracle_llama.h"

enum { TOKENS = 60, V = GROUP_V };

static const group_kind directed = {FOCAL_DIRECTED,      GROUP_G,           true, false,
                                    {true, false, true}, FOCI_GROUPS_ROUTER};

typedef struct rig {
    focal_ctx *ctx;
    group_model m;
    focal_adapter adapter;
    int32_t ids[TOKENS];
    float logits[TOKENS * V];
} rig;

static void open_rig(focal_ctx *ctx, rig *r)
{
    *r = (rig){.ctx = ctx};
    group_model_open(ctx, FOCAL_F32, &r->m);
    group_adapter_open(ctx, &directed, 1, &r->adapter);
    for (int n = 0; n < TOKENS; n++) r->ids[n] = (int32_t)foci_random_below(7, 1, (uint64_t)n, V);
}

static void close_rig(rig *r)
{
    group_model_close(&r->m);
    group_adapter_close(&r->adapter);
}

static void attach(rig *r, const focal_adapter *adapter, const focal_attach_options *options)
{
    assert_status(r->ctx, focal_model_attach(&r->m.model, adapter, options), FOCAL_OK);
}

static focal_status read_all(rig *r, focal_cache *cache)
{
    const focal_batch_item item = {0, TOKENS, r->ids, TOKENS};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = r->logits};
    return focal_forward(&r->m.model, cache, &args);
}

/* All logits of the text, in a cache of its own. */
static const float *logits_of(rig *r)
{
    focal_cache *cache = NULL;
    assert_status(r->ctx, focal_cache_new(&r->m.model, NULL, &cache), FOCAL_OK);
    assert_status(r->ctx, read_all(r, cache), FOCAL_OK);
    focal_cache_free(cache);
    return r->logits;
}

static void assert_refused(rig *r, const focal_attach_options *options, focal_status expected,
                           const char *sentence)
{
    assert_status(r->ctx, focal_model_attach(&r->m.model, &r->adapter, options), expected);
    assert_string_equal(focal_ctx_error(r->ctx), sentence);
}

static void other_models_are_refused(void **state)
{
    rig r;
    open_rig(*state, &r);
    foci_groups_shape *s = &r.adapter.groups->shape;
    (void)snprintf(r.m.model.name, sizeof r.m.model.name, "m");
    const struct {
        int32_t *size;
        const char *sentence;
    } sizes[] = {{&s->L, "groups: fitted to a model of layers 4, this one ('m') has 3"},
                 {&s->C, "groups: fitted to a model of width 33, this one ('m') has 32"},
                 {&s->H, "groups: fitted to a model of query heads 5, this one ('m') has 4"},
                 {&s->G, "groups: fitted to a model of key heads 3, this one ('m') has 2"}};
    for (size_t n = 0; n < FOCAL_COUNT(sizes); n++) {
        ++*sizes[n].size;
        assert_refused(&r, NULL, FOCAL_EINVAL, sizes[n].sentence);
        --*sizes[n].size;
    }
    r.m.model.config.is_local[2] = true;
    assert_refused(&r, NULL, FOCAL_EINVAL,
                   "groups: a router for layer 2, which has a window in this model");
    r.m.model.config.is_local[2] = false;
    (void)snprintf(r.adapter.base, sizeof r.adapter.base, "another");
    r.adapter.fingerprint[0] = 'f';
    assert_refused(&r, NULL, FOCAL_EINVAL,
                   "groups: fitted to another model ('another') of fingerprint f123456789abcdef, "
                   "this one ('m') has 0123456789abcdef: the vocabulary, the norms or the width of "
                   "heads or MLP differ");
    close_rig(&r);
}

static void runs_are_checked(void **state)
{
    rig r;
    open_rig(*state, &r);
    const struct {
        focal_attach_options options;
        const char *sentence;
    } bad[] = {
        {{.top = GROUP_K + 1}, "groups: a query cannot look into 6 groups, the adapter has 5"},
        {{.top = -1}, "groups: a query cannot look into -1 groups, the adapter has 5"},
        {{.window = -1, .has_window = true}, NULL},
        {{.sinks = -1, .has_sinks = true}, NULL},
        {{.window = INT32_MAX, .has_window = true}, NULL},
        {{.sinks = INT32_MAX, .has_sinks = true}, NULL},
    };
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        assert_status(r.ctx, focal_model_attach(&r.m.model, &r.adapter, &bad[n].options),
                      FOCAL_EINVAL);
        if (bad[n].sentence) assert_string_equal(focal_ctx_error(r.ctx), bad[n].sentence);
        assert_null(r.m.model.groups);
    }
    close_rig(&r);
}

/* A model that was trained at 0.7 has the adapter's temperatures times that. */
static void a_constant_temperature_stays(void **state)
{
    static float expected[TOKENS * V];
    const float t = 0.7F;
    const foci_temperature own = {.kind = FOCI_TEMPERATURE_CONSTANT, .t = t};
    rig r;
    open_rig(*state, &r);
    for (int n = 0; n < GROUP_L; n++)
        for (int h = 0; h < GROUP_H; h++)
            r.adapter.groups->layers[n].tensors[FOCI_GROUP_LT][h] += logf(t);
    attach(&r, &r.adapter, NULL);
    memcpy(expected, logits_of(&r), sizeof expected);
    for (int n = 0; n < GROUP_L; n++) {
        r.m.model.weights.layers[n].temperature = &own;
        for (int h = 0; h < GROUP_H; h++)
            r.adapter.groups->layers[n].tensors[FOCI_GROUP_LT][h] -= logf(t);
    }
    attach(&r, &r.adapter, NULL);
    const float *got = logits_of(&r);
    for (int n = 0; n < TOKENS * V; n++) assert_float_equal(got[n], expected[n], 2e-5);
    close_rig(&r);
}

/* Nothing multiplies what a model computes of its text; an adapter's groups may still run. */
static void other_temperatures_are_refused(void **state)
{
    rig r;
    const foci_temperature own = {.kind = FOCI_TEMPERATURE_LENGTH, .t = 0.7F, .length = 9.0F};
    const focal_attach_options groups = {.has_no_temperatures = true};
    open_rig(*state, &r);
    r.m.model.weights.layers[1].temperature = &own;
    assert_refused(&r, NULL, FOCAL_EUNSUPPORTED,
                   "groups: the model has a temperature of kind length in layer 1, which takes "
                   "none of groups beside it");
    attach(&r, &r.adapter, &groups);
    close_rig(&r);
}

static void detaching_leaves_nothing(void **state)
{
    static float dense[TOKENS * V], with[TOKENS * V];
    rig r;
    open_rig(*state, &r);
    memcpy(dense, logits_of(&r), sizeof dense);
    attach(&r, &r.adapter, NULL);
    memcpy(with, logits_of(&r), sizeof with);
    assert_memory_not_equal(with, dense, sizeof with);
    /* a refusal changes nothing */
    assert_refused(&r, &(focal_attach_options){.top = 9}, FOCAL_EINVAL,
                   "groups: a query cannot look into 9 groups, the adapter has 5");
    assert_memory_equal(logits_of(&r), with, sizeof with);
    attach(&r, NULL, NULL);
    assert_memory_equal(logits_of(&r), dense, sizeof dense);
    attach(&r, &r.adapter,
           &(focal_attach_options){.has_no_groups = true, .has_no_temperatures = true});
    assert_memory_equal(logits_of(&r), dense, sizeof dense);
    close_rig(&r);
}

/* Nothing but an adapter's temperatures, and nothing but its window; and a scale on distant logits
 * beside temperatures. */
static void parts_are_as_defined(void **state)
{
    static double exact[TOKENS * V];
    const int64_t count = (int64_t)GROUP_L * TOKENS * GROUP_G * GROUP_D;
    double *kv = new_array((size_t)count * 2, sizeof *kv);
    rig r;
    open_rig(*state, &r);
    for (int part = 0; part < 4; part++) {
        const bool is_near = part == 1 || part == 2, is_scaled = part == 3;
        const focal_attach_options options = {.has_no_groups = part == 0,
                                              .has_no_distant = is_near,
                                              .has_no_temperatures = part == 2};
        if (is_scaled) {
            const group_kind scale = {FOCAL_DIRECTED,   1, true, false, {true, false, true},
                                      FOCI_GROUPS_SCALE};
            attach(&r, NULL, NULL);
            group_adapter_close(&r.adapter);
            group_adapter_open(r.ctx, &scale, 1, &r.adapter);
            *r.adapter.groups->log_scale = 0.4F;
        }
        attach(&r, &r.adapter, &options);
        const float *got = logits_of(&r);
        double largest = 0.0, far = 0.0;
        const oracle_llama oracle = {.model = &r.m.model,
                                     .T = TOKENS,
                                     .ids = r.ids,
                                     .own_k = kv,
                                     .own_v = kv + count,
                                     .logits = exact,
                                     .groups = {.groups = r.adapter.groups,
                                                .use = {part > 0, GROUP_WINDOW, GROUP_SINKS},
                                                .has_no_distant = is_near,
                                                .has_temperatures = part != 2}};
        oracle_llama_forward(&oracle);
        for (int n = 0; n < TOKENS * V; n++) {
            largest = fmax(largest, fabs(exact[n]));
            far = fmax(far, fabs((double)got[n] - exact[n]));
        }
        if (!(far < 2e-5 * largest)) fail_msg("part %d: %g of %g", part, far, largest);
    }
    free(kv);
    close_rig(&r);
}

/* A cache is refused once its model runs otherwise; freeing it needs no adapter. */
static void old_caches_are_refused(void **state)
{
    static const focal_attach_options options[] = {
        {0},
        {.top = 3},
        {.has_window = true, .window = 5},
        {.has_sinks = true, .sinks = 5},
        {.has_no_groups = true},
        {.has_no_temperatures = true},
        {.has_no_distant = true},
        {.has_no_groups = true, .has_no_temperatures = true},
    };
    rig r;
    open_rig(*state, &r);
    for (size_t from = 0; from < FOCAL_COUNT(options); from++) {
        focal_cache *cache = NULL;
        attach(&r, &r.adapter, &options[from]);
        assert_status(r.ctx, focal_cache_new(&r.m.model, NULL, &cache), FOCAL_OK);
        for (size_t to = 0; to < FOCAL_COUNT(options); to++) {
            if (to == from) continue;
            attach(&r, &r.adapter, &options[to]);
            assert_status(r.ctx, read_all(&r, cache), FOCAL_EINVAL);
            assert_string_equal(focal_ctx_error(r.ctx),
                                "forward: the cache was made before the model's adapter was "
                                "changed");
        }
        attach(&r, &r.adapter, &options[from]);
        assert_status(r.ctx, read_all(&r, cache), FOCAL_OK);
        focal_cache_free(cache);
    }
    focal_cache *cache = NULL;
    focal_adapter other;
    group_adapter_open(r.ctx, &directed, 2, &other);
    attach(&r, &other, NULL);
    assert_status(r.ctx, focal_cache_new(&r.m.model, NULL, &cache), FOCAL_OK);
    assert_status(r.ctx, read_all(&r, cache), FOCAL_OK);
    attach(&r, &r.adapter, NULL);
    group_adapter_close(&other);
    assert_status(r.ctx, read_all(&r, cache), FOCAL_EINVAL);
    assert_status(r.ctx, focal_cache_truncate(cache, 0, 10), FOCAL_OK);
    focal_cache_free(cache);
    close_rig(&r);
}

static void adapters_come_from_folders(void **state)
{
    focal_ctx *ctx = *state;
    rig r;
    static float with[TOKENS * V];
    open_rig(ctx, &r);
    const folder f = folder_new();
    const foci_adapter_note note = adapter_note(FOCAL_F32);
    assert_status(ctx, foci_adapter_write(ctx, f.path, r.adapter.groups, &note), FOCAL_OK);
    attach(&r, &r.adapter, NULL);
    memcpy(with, logits_of(&r), sizeof with);
    for (int n = 0; n < 2; n++) { /* the second replaces the first */
        assert_status(ctx, focal_model_adapt(&r.m.model, f.path, NULL), FOCAL_OK);
        assert_memory_equal(logits_of(&r), with, sizeof with);
    }
    assert_status(ctx, focal_model_adapt(&r.m.model, "/no/such", NULL), FOCAL_EIO);
    assert_status(ctx, focal_model_adapt(&r.m.model, f.path, &(focal_attach_options){.top = 6}),
                  FOCAL_EINVAL);
    assert_memory_equal(logits_of(&r), with, sizeof with);
    for (int64_t n = 1;; n++) {
        memory_fail(n, true);
        const focal_status status = focal_model_adapt(&r.m.model, f.path, NULL);
        memory_fail(0, false);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
        if (n % 8 == 0) assert_memory_equal(logits_of(&r), with, sizeof with);
    }
    assert_memory_equal(logits_of(&r), with, sizeof with);
    folder_remove(&f);
    close_rig(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(other_models_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(runs_are_checked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_constant_temperature_stays, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_temperatures_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(detaching_leaves_nothing, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(parts_are_as_defined, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(old_caches_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(adapters_come_from_folders, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("groups_attach", tests, NULL, NULL);
}
