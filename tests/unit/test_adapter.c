/* Adapters as files: what is written reads back, in every shape and both types; one that another
 * program wrote reads too; what could not be read is not written. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/f16.h"
#include "support/adapter_files.h"

#define CONFIG FOCI_ADAPTER_CONFIG
#define TENSORS FOCI_ADAPTER_TENSORS
#define PK "base_model.model.layers.0.self_attn.router.pk"
#define LT "base_model.model.layers.2.self_attn.log_temperature"

static void assert_same_numbers(const foci_groups *got, const foci_groups *want, focal_dtype dtype)
{
    assert_memory_equal(&got->shape, &want->shape, offsetof(foci_groups_shape, layers));
    assert_memory_equal(got->shape.layers, want->shape.layers, sizeof want->shape.layers);
    assert_int_equal(got->number_count, want->number_count);
    for (int32_t layer = 0; layer < want->shape.L; layer++)
        for (int n = 0; n < FOCI_GROUP_TENSORS; n++) {
            const foci_group_tensor which = (foci_group_tensor)n;
            const bool is_rounded =
                dtype == FOCAL_BF16 && (which == FOCI_GROUP_PK || which == FOCI_GROUP_PQ);
            const int64_t count = foci_groups_count(&want->shape, layer, which);
            for (int64_t i = 0; i < count; i++) {
                float exact = want->layers[layer].tensors[n][i];
                if (is_rounded) exact = foci_bf16_to_float(foci_bf16_from_float(exact));
                const float value = got->layers[layer].tensors[n][i];
                assert_memory_equal(&value, &exact, sizeof exact);
            }
        }
}

static void assert_described(const focal_adapter *adapter, const foci_groups *groups,
                             focal_dtype dtype)
{
    const foci_groups_shape *s = &groups->shape;
    const focal_adapter_info info = focal_adapter_describe(adapter);
    char version[32];
    int32_t layers = 0;
    for (int32_t n = 0; n < s->L; n++) layers += s->layers[n];
    (void)snprintf(version, sizeof version, "%d.%d.%d", FOCAL_VERSION_MAJOR, FOCAL_VERSION_MINOR,
                   FOCAL_VERSION_PATCH);
    assert_string_equal(info.base, "a \"base\" of \xC3\xA9");
    assert_string_equal(info.fingerprint, ADAPTER_DIGITS);
    assert_string_equal(info.version, version);
    assert_string_equal(info.mode, s->mode == FOCAL_SHARED ? "shared" : "directed");
    assert_string_equal(info.scope, s->routers == s->G ? "kv" : "layer");
    assert_string_equal(info.settings, "{\"steps\": 250, \"lr\": 0.1, \"text\": [\"a\", null]}");
    const int32_t got[] = {info.L,   info.C,       info.H,      info.G,     info.groups, info.width,
                           info.top, info.top_fit, info.window, info.sinks, info.layers};
    const int32_t want[] = {s->L, s->C, s->H,  s->G, s->K, s->R, groups->top, groups->top_fit,
                            17,   2,    layers};
    assert_memory_equal(got, want, sizeof want);
    assert_string_equal(info.form, foci_groups_form(s));
    assert_int_equal(info.has_temperatures, s->has_temperatures);
    assert_true(info.is_causal);
    const bool has_routers = layers > 0 && s->source == FOCI_GROUPS_ROUTER;
    assert_int_equal(info.dtype, has_routers ? dtype : FOCAL_F32);
    assert_int_equal(info.parameter_count, groups->number_count);
}

static void what_is_written_reads_back(void **state)
{
    focal_ctx *ctx = *state;
    static const focal_dtype types[] = {FOCAL_F32, FOCAL_BF16};
    for (size_t n = 0; n < 2 * (size_t)ADAPTER_SHAPES; n++) {
        const folder f = folder_new();
        const focal_dtype dtype = types[n % 2];
        foci_groups *groups = adapter_groups(ctx, &adapter_shapes[n / 2]);
        const foci_adapter_note note = adapter_note(dtype);
        assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_OK);
        assert_int_equal(folder_count(&f), 2);
        focal_adapter *adapter = adapter_open(ctx, f.path);
        assert_string_equal(focal_adapter_describe(adapter).path, f.path);
        assert_same_numbers(adapter->groups, groups, dtype);
        assert_described(adapter, groups, dtype);
        /* over itself: the bytes stay, for what was rounded is exact now */
        size_t bytes = 0, again_bytes = 0;
        void *first = read_bytes(folder_file(&f, TENSORS), &bytes);
        assert_status(ctx, foci_adapter_write(ctx, f.path, adapter->groups, &note), FOCAL_OK);
        void *again = read_bytes(folder_file(&f, TENSORS), &again_bytes);
        assert_int_equal(again_bytes, bytes);
        assert_memory_equal(again, first, bytes);
        free(first);
        free(again);
        focal_adapter_close(adapter);
        foci_groups_free(ctx, groups);
        folder_remove(&f);
    }
}

/* tools/golden_adapter.py says what the numbers are. */
static void another_programs_file_reads(void **state)
{
    focal_ctx *ctx = *state;
    focal_adapter *adapter = adapter_open(ctx, FOCAL_TEST_DIR "/golden/adapters/tiny");
    const focal_adapter_info info = focal_adapter_describe(adapter);
    const foci_groups *groups = adapter->groups;
    assert_string_equal(info.base, "tiny");
    assert_string_equal(info.fingerprint, "c6ecd68475ba6bbb");
    assert_string_equal(info.settings, "{\"source\": \"tiny\"}");
    assert_int_equal(info.dtype, FOCAL_BF16);
    assert_int_equal(info.top, 2);
    assert_int_equal(info.top_fit, 1);
    for (int32_t layer = 0; layer < 2; layer++)
        for (int n = 0; n < FOCI_GROUP_TENSORS; n++) {
            const int64_t count = foci_groups_count(&groups->shape, layer, (foci_group_tensor)n);
            assert_true(count > 0 || n == FOCI_GROUP_LS);
            for (int64_t i = 0; i < count; i++) {
                const int64_t counted = (37 * i + (int64_t)11 * n + (int64_t)5 * layer) % 101 - 50;
                assert_true(groups->layers[layer].tensors[n][i] == (float)counted / 64.0F);
            }
        }
    /* the router reads the same memory */
    assert_ptr_equal(groups->layers[1].router.e, groups->layers[1].tensors[FOCI_GROUP_E]);
    focal_adapter_close(adapter);
}

/* Zeros are fine everywhere: a centroid of length 0 is a group of its own. */
static void odd_but_good_is_taken(void **state)
{
    focal_ctx *ctx = *state;
    static const float zeros[4] = {0};
    static const float limit = 20.0F;
    const folder f = adapter_write_good(ctx, FOCAL_F32);
    adapter_poke(ctx, &f, "base_model.model.layers.0.self_attn.router.e", 0, zeros, sizeof zeros);
    adapter_poke(ctx, &f, LT, 0, &limit, sizeof limit);
    adapter_edit(&f, CONFIG, "\"a \\\"base\\\" of \xC3\xA9\"", "null");
    adapter_edit(&f, CONFIG, "\"causal\"",
                 "\"use_rslora\": false, \"modules_to_save\": null, \"causal\"");
    adapter_edit(&f, CONFIG, "\"fit\"", "\"fit\": null, \"revision\"");
    adapter_edit(&f, CONFIG, "window\": 17", "window\": 0");
    adapter_edit(&f, CONFIG, "\"task_type\": \"CAUSAL_LM\"", "\"task_type\": null");
    focal_adapter *adapter = adapter_open(ctx, f.path);
    assert_string_equal(focal_adapter_describe(adapter).base, "");
    assert_string_equal(focal_adapter_describe(adapter).settings, "{}");
    assert_int_equal(focal_adapter_describe(adapter).window, 0);
    assert_true(adapter->groups->layers[0].tensors[FOCI_GROUP_E][0] == 0.0F);
    assert_true(adapter->groups->layers[2].tensors[FOCI_GROUP_LT][0] == 20.0F);
    focal_adapter_close(adapter);
    folder_remove(&f);
}

static void float16_is_read(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    adapter_edit(&f, TENSORS, PK "\":{\"dtype\":\"BF16\"", PK "\":{\"dtype\": \"F16\"");
    const uint16_t ramp[] = {foci_f16_from_float(0.5F), foci_f16_from_float(-3.0F)};
    adapter_poke(ctx, &f, PK, 0, ramp, sizeof ramp);
    focal_adapter *adapter = adapter_open(ctx, f.path);
    assert_true(adapter->groups->layers[0].tensors[FOCI_GROUP_PK][0] == 0.5F);
    assert_true(adapter->groups->layers[0].tensors[FOCI_GROUP_PK][1] == -3.0F);
    focal_adapter_close(adapter);
    folder_remove(&f);
}

/* Nothing is written that could not be read. */
static void bad_groups_are_not_written(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_groups *groups = adapter_groups(ctx, &adapter_shapes[0]);
    foci_adapter_note note = adapter_note(FOCAL_F16);
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    note = adapter_note(FOCAL_BF16);
    note.fingerprint = "0123";
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    note = adapter_note(FOCAL_BF16);
    note.settings = "[]";
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    note = adapter_note(FOCAL_BF16);
    groups->top = 6;
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    groups->top = 1;
    groups->sinks = -1;
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    groups->sinks = 0;
    float *pk = groups->layers[0].tensors[FOCI_GROUP_PK];
    pk[5] = NAN;
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "element 5 of '" PK "' is not a number"));
    pk[5] = 3.4e38F; /* finite, but not in bf16 */
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    assert_int_equal(folder_count(&f), 0);
    pk[5] = 0.0F;
    const char *deeper = folder_file(&f, "a/b");
    assert_status(ctx, foci_adapter_write(ctx, deeper, groups, &note), FOCAL_EIO);
    assert_status(ctx, foci_adapter_write(ctx, folder_file(&f, "new"), groups, &note), FOCAL_OK);
    assert_int_equal(unlink(folder_file(&f, "new/" CONFIG)), 0);
    assert_int_equal(unlink(folder_file(&f, "new/" TENSORS)), 0);
    assert_int_equal(rmdir(folder_file(&f, "new")), 0);
    foci_groups_free(ctx, groups);
    const foci_groups_shape nothing = {
        .L = 1, .C = 1, .H = 1, .G = 1, .K = 1, .R = 1, .routers = 1};
    groups = adapter_groups(ctx, &nothing);
    assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_EINVAL);
    assert_int_equal(folder_count(&f), 0);
    foci_groups_free(ctx, groups);
    folder_remove(&f);
}

/* A model may be called anything, and its adapter must open all the same. */
static void any_name_of_a_base_reads_back(void **state)
{
    focal_ctx *ctx = *state;
    char longest[600];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memcpy(longest + 254, "\xC3\xA9", 2); /* the limit is inside a character */
    static const char *const odd[] = {NULL, "", "half a character \xC3", "bell \a", "\xC2\x85"};
    static const char *const shown[] = {"", "", "half a character ", "", ""};
    foci_groups *groups = adapter_groups(ctx, &adapter_shapes[0]);
    for (size_t n = 0; n <= FOCAL_COUNT(odd); n++) {
        const folder f = folder_new();
        foci_adapter_note note = adapter_note(FOCAL_BF16);
        note.base = n < FOCAL_COUNT(odd) ? odd[n] : longest;
        note.settings = NULL;
        assert_status(ctx, foci_adapter_write(ctx, f.path, groups, &note), FOCAL_OK);
        focal_adapter *adapter = adapter_open(ctx, f.path);
        const focal_adapter_info info = focal_adapter_describe(adapter);
        if (n < FOCAL_COUNT(odd))
            assert_string_equal(info.base, shown[n]);
        else
            assert_int_equal(strlen(info.base), 254);
        assert_string_equal(info.settings, "{}");
        focal_adapter_close(adapter);
        folder_remove(&f);
    }
    foci_groups_free(ctx, groups);
}

static void no_memory_leaves_nothing(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_groups *groups = adapter_groups(ctx, &adapter_shapes[0]);
    const foci_adapter_note note = adapter_note(FOCAL_BF16);
    const int64_t live = memory_live_blocks();
    focal_adapter *adapter = NULL;
    focal_status status = FOCAL_ENOMEM;
    int64_t writes = 0, opens = 0;
    while (status != FOCAL_OK) {
        memory_fail(++writes, false);
        status = foci_adapter_write(ctx, f.path, groups, &note);
        memory_fail(0, false);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_in_range(folder_count(&f), 0, 1); /* whole tensors, or nothing */
    }
    for (status = FOCAL_ENOMEM; status != FOCAL_OK;) {
        memory_fail(++opens, false);
        status = focal_adapter_open(ctx, f.path, &adapter);
        memory_fail(0, false);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_null(adapter);
        assert_int_equal(memory_live_blocks(), live);
    }
    assert_in_range(writes, 5, 1000);
    assert_in_range(opens, 5, 1000);
    focal_adapter_close(adapter);
    foci_groups_free(ctx, groups);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_reads_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(another_programs_file_reads, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(odd_but_good_is_taken, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(float16_is_read, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_groups_are_not_written, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(any_name_of_a_base_reads_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(no_memory_leaves_nothing, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("adapter", tests, NULL, NULL);
}
