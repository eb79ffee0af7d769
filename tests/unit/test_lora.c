/* LoRA as files: adapters that peft wrote give the logits that peft computes, on every file of a
 * model; what focal writes reads back, and peft loads it; nothing of an adapter stays when it is
 * gone. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bf16.h"
#include "base/random.h"
#include "focal/export.h"
#include "model/low_rank_model.h"
#include "support/adapter_files.h"
#include "support/lora_golden.h"

#define DIGITS "0123456789abcdef"

static float logits[LORA_TOKENS * LORA_VOCAB], plain[LORA_TOKENS * LORA_VOCAB];

static void attach(focal_ctx *ctx, focal_model *model, const char *path)
{
    assert_status(ctx, focal_model_adapt(model, path, NULL), FOCAL_OK);
}

static const struct {
    const char *adapter, *model, *targets;
    int32_t rank, layers;
    double alpha, scale;
    focal_dtype dtype;
    int64_t parameters;
} golden_cases[] = {
    {"lora-llama", "llama", "q_proj v_proj", 4, 2, 8.0, 2.0, FOCAL_F32, 896},
    {"lora-qwen2", "qwen2", "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj", 3, 1, 2.5,
     1.4433756729740645, FOCAL_BF16, 1536},
    {"lora-gpt2", "gpt2", "attn.c_attn attn.c_proj mlp.c_fc mlp.c_proj", 2, 2, 4.0, 2.0, FOCAL_F32,
     2048},
};

/* How far bfloat16 is from float32 without an adapter, relative as lora_distance() is. */
static double rounding_alone(focal_ctx *ctx, const char *path, const int32_t *ids)
{
    static double exact[LORA_TOKENS * LORA_VOCAB];
    focal_model *model = lora_open_model(ctx, path, FOCAL_F32);
    lora_logits(model, ids, logits);
    focal_model_close(model);
    for (size_t n = 0; n < FOCAL_COUNT(exact); n++) exact[n] = (double)logits[n];
    model = lora_open_model(ctx, path, FOCAL_BF16);
    lora_logits(model, ids, logits);
    focal_model_close(model);
    return lora_distance(logits, exact);
}

static void what_peft_wrote_computes_what_peft_says(void **state)
{
    focal_ctx *ctx = *state;
    static lora_expected expected;
    for (size_t n = 0; n < FOCAL_COUNT(golden_cases); n++) {
        focal_model *model =
            lora_open_model(ctx, lora_model_path(golden_cases[n].model), FOCAL_F32);
        lora_read_expected(golden_cases[n].adapter, &expected);
        attach(ctx, model, lora_path(golden_cases[n].adapter));
        lora_logits(model, expected.ids, logits);
        const double far = lora_distance(logits, expected.logits);
        if (!(far < 1e-5)) fail_msg("%s: %g away", golden_cases[n].adapter, far);
        focal_model_close(model);
        model = lora_open_model(ctx, lora_model_path(golden_cases[n].model), FOCAL_BF16);
        attach(ctx, model, lora_path(golden_cases[n].adapter));
        lora_logits(model, expected.ids, logits);
        const double rounded = lora_distance(logits, expected.logits);
        focal_model_close(model);
        const double twin =
            rounding_alone(ctx, lora_model_path(golden_cases[n].model), expected.ids);
        if (!(rounded < 2.0 * twin))
            fail_msg("%s: %g away, the model alone %g", golden_cases[n].adapter, rounded, twin);
    }
}

static void what_peft_wrote_is_described(void **state)
{
    focal_ctx *ctx = *state;
    for (size_t n = 0; n < FOCAL_COUNT(golden_cases); n++) {
        focal_adapter *adapter = adapter_open(ctx, lora_path(golden_cases[n].adapter));
        const focal_adapter_info info = focal_adapter_describe(adapter);
        assert_string_equal(info.kind, "lora");
        assert_string_equal(info.base, golden_cases[n].model);
        assert_string_equal(info.fingerprint, "");
        assert_string_equal(info.version, "");
        assert_string_equal(info.settings, "{}");
        assert_string_equal(info.targets, golden_cases[n].targets);
        assert_int_equal(info.rank, golden_cases[n].rank);
        assert_true(info.alpha == golden_cases[n].alpha);
        assert_true(fabs(info.scale - golden_cases[n].scale) < 1e-6);
        assert_int_equal(info.layers, golden_cases[n].layers);
        assert_int_equal(info.L, 2);
        assert_int_equal(info.dtype, golden_cases[n].dtype);
        assert_int_equal(info.parameter_count, golden_cases[n].parameters);
        focal_adapter_close(adapter);
    }
}

/* GGUF's llama has rows of q and k in another order. */
static void files_of_both_formats_take_it(void **state)
{
    focal_ctx *ctx = *state;
    static lora_expected expected;
    const folder f = folder_new();
    char path[256];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m.gguf"));
    assert_status(ctx, focal_model_export(ctx, lora_model_path("llama"), path, NULL, NULL),
                  FOCAL_OK);
    focal_model *model = lora_open_model(ctx, path, FOCAL_F32);
    assert_int_equal(model->config.rope_style, FOCI_ROPE_PAIRS);
    lora_read_expected("lora-llama", &expected);
    attach(ctx, model, lora_path("lora-llama"));
    lora_logits(model, expected.ids, logits);
    const double far = lora_distance(logits, expected.logits);
    if (!(far < 1e-5)) fail_msg("%g away", far);
    /* and back: what this model's order is written as is what peft wrote */
    const folder written = folder_new();
    const foci_adapter_note note = {.fingerprint = DIGITS, .dtype = FOCAL_F32};
    assert_status(ctx, foci_lora_write(model, written.path, model->low_ranks, &note), FOCAL_OK);
    focal_adapter *ours = adapter_open(ctx, written.path);
    focal_adapter *theirs = adapter_open(ctx, lora_path("lora-llama"));
    assert_int_equal(ours->low_ranks->number_count, theirs->low_ranks->number_count);
    assert_memory_equal(ours->low_ranks->numbers, theirs->low_ranks->numbers,
                        (size_t)ours->low_ranks->number_count * sizeof(float));
    assert_true(memcmp(model->low_ranks->numbers, theirs->low_ranks->numbers,
                       (size_t)ours->low_ranks->number_count * sizeof(float)) != 0);
    focal_adapter_close(ours);
    focal_adapter_close(theirs);
    focal_model_close(model);
    folder_remove(&written);
    folder_remove(&f);
}

static foci_low_ranks *random_low_ranks(focal_ctx *ctx, const focal_model *model, bool is_upper)
{
    static const bool upper[FOCI_MAX_LAYERS] = {false, true};
    foci_low_ranks *low_ranks = NULL;
    const foci_low_rank_choice choice = {.rank = 5,
                                         .alpha = 7.5,
                                         .is_root_scaled = is_upper,
                                         .places = {true, true, true, true, true, true, true, true},
                                         .layers = is_upper ? upper : NULL};
    assert_status(ctx, foci_low_ranks_begin(model, &choice, &low_ranks), FOCAL_OK);
    for (int64_t n = 0; n < low_ranks->number_count; n++)
        low_ranks->numbers[n] = 0.2F * foci_random_normal(3, 1, (uint64_t)n);
    return low_ranks;
}

static void what_is_written_reads_back(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const models[] = {"llama", "gpt2", "gemma3"};
    static lora_expected expected;
    lora_read_expected("lora-llama", &expected); /* for its ids */
    for (size_t n = 0; n < 2 * FOCAL_COUNT(models); n++) {
        focal_model *model = lora_open_model(ctx, lora_model_path(models[n / 2]), FOCAL_F32);
        const focal_dtype dtype = n % 2 == 0 ? FOCAL_F32 : FOCAL_BF16;
        const folder f = folder_new();
        foci_low_ranks *low_ranks = random_low_ranks(ctx, model, n % 2 == 1);
        const foci_adapter_note note = {.base = "a base",
                                        .fingerprint = model->fingerprint,
                                        .settings = "{\"steps\": 3,\n \"text\": \"a \\\"b\\\"\"}",
                                        .dtype = dtype};
        assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_OK);
        assert_int_equal(folder_count(&f), 2);
        focal_adapter *adapter = adapter_open(ctx, f.path);
        const focal_adapter_info info = focal_adapter_describe(adapter);
        assert_string_equal(info.base, "a base");
        assert_string_equal(info.fingerprint, model->fingerprint);
        assert_string_equal(info.settings, "{\"steps\": 3, \"text\": \"a \\\"b\\\"\"}");
        assert_true(strlen(info.version) >= 5);
        assert_int_equal(info.dtype, dtype);
        assert_int_equal(info.layers, n % 2 == 1 ? 1 : model->config.L);
        assert_int_equal(adapter->low_ranks->number_count, low_ranks->number_count);
        for (int64_t i = 0; i < low_ranks->number_count; i++) {
            float exact = low_ranks->numbers[i];
            if (dtype == FOCAL_BF16) exact = foci_bf16_to_float(foci_bf16_from_float(exact));
            assert_true(adapter->low_ranks->numbers[i] == exact);
        }
        /* Attached, it computes what it did while it was in memory. */
        foci_model_set_low_ranks(model, adapter->low_ranks);
        lora_logits(model, expected.ids, plain);
        foci_model_set_low_ranks(model, NULL);
        assert_status(ctx, focal_model_attach(model, adapter, NULL), FOCAL_OK);
        lora_logits(model, expected.ids, logits);
        assert_memory_equal(logits, plain, sizeof logits);
        focal_model_close(model);
        focal_adapter_close(adapter);
        foci_low_ranks_free(ctx, low_ranks);
        folder_remove(&f);
    }
}

static void nothing_stays_when_it_is_gone(void **state)
{
    focal_ctx *ctx = *state;
    static lora_expected expected;
    focal_cache *cache = NULL, *after = NULL;
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    lora_read_expected("lora-llama", &expected);
    lora_logits(model, expected.ids, plain);
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    attach(ctx, model, lora_path("lora-llama"));
    const focal_batch_item item = {0, LORA_TOKENS, expected.ids, LORA_TOKENS};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    assert_status(ctx, focal_forward(model, cache, &args), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx),
                        "forward: the cache was made before the model's adapter was changed");
    assert_status(ctx, focal_cache_new(model, NULL, &after), FOCAL_OK);
    assert_status(ctx, focal_forward(model, after, &args), FOCAL_OK);
    focal_cache_free(after);
    attach(ctx, model, lora_path("lora-llama")); /* over itself */
    lora_logits(model, expected.ids, logits);
    assert_true(lora_distance(logits, expected.logits) < 1e-5);
    assert_status(ctx, focal_model_attach(model, NULL, NULL), FOCAL_OK);
    lora_logits(model, expected.ids, logits);
    assert_memory_equal(logits, plain, sizeof logits);
    assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
    focal_cache_free(cache);
    focal_model_close(model);
}

static void assert_load(focal_model *model, const char *path, const char *problem)
{
    focal_ctx *ctx = focal_model_ctx(model);
    focal_cache *cache = NULL;
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    assert_status(ctx, focal_cache_load(cache, 0, path), problem ? FOCAL_EFORMAT : FOCAL_OK);
    if (problem && !strstr(focal_ctx_error(ctx), problem))
        fail_msg("\"%s\", not \"%s\"", focal_ctx_error(ctx), problem);
    assert_int_equal(focal_cache_length(cache, 0), problem ? 0 : LORA_TOKENS);
    focal_cache_free(cache);
}

/* Keys and values depend on every number of an adapter, so a saved text is of use with no other. */
static void saved_texts_are_bound_to_it(void **state)
{
    enum { SAME, NUMBER_OF_A, NUMBER_OF_B, SCALE, CASES };
    static const char other[] = "saved with another adapter";
    focal_ctx *ctx = *state;
    static lora_expected expected;
    const folder f = folder_new();
    char path[256];
    focal_cache *cache = NULL;
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "text"));
    lora_read_expected("lora-llama", &expected);
    attach(ctx, model, lora_path("lora-llama"));
    const focal_batch_item item = {0, LORA_TOKENS, expected.ids, LORA_TOKENS};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
    assert_status(ctx, focal_cache_save(cache, 0, path), FOCAL_OK);
    focal_cache_free(cache);
    for (int n = 0; n < CASES; n++) {
        focal_adapter *adapter = adapter_open(ctx, lora_path("lora-llama"));
        foci_low_rank *low = &adapter->low_ranks->layers[1][FOCI_LINEAR_V];
        if (n == NUMBER_OF_A) low->a[low->rank * low->K - 1] += 1e-6F;
        if (n == NUMBER_OF_B) low->b[low->rank * low->N - 1] += 1e-6F;
        if (n == SCALE) adapter->low_ranks->alpha *= 1.01;
        assert_status(ctx, focal_model_attach(model, adapter, NULL), FOCAL_OK);
        assert_load(model, path, n == SAME ? NULL : other);
        assert_status(ctx, focal_model_attach(model, NULL, NULL), FOCAL_OK);
        focal_adapter_close(adapter);
    }
    assert_load(model, path, "saved with an adapter, the model runs without");
    focal_model_close(model);
    folder_remove(&f);
}

/* A status, no leak, and what was attached before. */
static void survives_without_memory(void **state)
{
    focal_ctx *ctx = *state;
    static lora_expected expected;
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    lora_read_expected("lora-llama", &expected);
    lora_logits(model, expected.ids, plain);
    for (int64_t n = 1;; n++) {
        memory_fail(n, true);
        const focal_status status = focal_model_adapt(model, lora_path("lora-llama"), NULL);
        memory_fail(0, false);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_true(n < 1000);
        if (n % 8 != 0) continue;
        lora_logits(model, expected.ids, logits);
        assert_memory_equal(logits, plain, sizeof logits);
    }
    const folder f = folder_new();
    const foci_adapter_note note = {.fingerprint = DIGITS, .dtype = FOCAL_BF16};
    const int64_t live = memory_live_blocks();
    for (int64_t n = 1;; n++) {
        memory_fail(n, false);
        const focal_status status = foci_lora_write(model, f.path, model->low_ranks, &note);
        memory_fail(0, false);
        assert_int_equal(memory_live_blocks(), live);
        if (status == FOCAL_OK) break;
        assert_status(ctx, status, FOCAL_ENOMEM);
        assert_in_range(folder_count(&f), 0, 1); /* whole tensors, or nothing */
    }
    folder_remove(&f);
    focal_model_close(model);
}

/* ---- peft ---- */

static void write_golden(const char *path, const int32_t *ids)
{
    static double data[LORA_TOKENS + LORA_TOKENS * LORA_VOCAB];
    char name[256], text[256];
    for (int n = 0; n < LORA_TOKENS; n++) data[n] = ids[n];
    for (int n = 0; n < LORA_TOKENS * LORA_VOCAB; n++) data[LORA_TOKENS + n] = (double)logits[n];
    (void)snprintf(name, sizeof name, "%s/expected.bin", path);
    write_bytes(name, data, sizeof data);
    (void)snprintf(name, sizeof name, "%s/expected.manifest", path);
    (void)snprintf(text, sizeof text,
                   "focal golden 1\ncase focal %d %d\ntensor ids 0 %d\ntensor logits %d %d\n",
                   LORA_TOKENS, LORA_VOCAB, LORA_TOKENS, LORA_TOKENS, LORA_TOKENS * LORA_VOCAB);
    write_bytes(name, text, strlen(text));
}

static bool has_peft(const char *python)
{
    char command[600];
    (void)snprintf(command, sizeof command, "'%s' -c 'import peft' >/dev/null 2>&1", python);
    return system(command) == 0; /* NOLINT(cert-env33-c): a test's own words */
}

static void peft_loads_what_is_written(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const models[] = {"llama", "gemma3", "gpt2"};
    static lora_expected expected;
    const char *python = getenv("FOCAL_TEST_PYTHON");
    if (!python || !has_peft(python))
        skip_without("the package peft", "FOCAL_TEST_PYTHON names a Python that has it");
    lora_read_expected("lora-llama", &expected); /* for its ids */
    for (size_t n = 0; n < 2 * FOCAL_COUNT(models); n++) {
        focal_model *model = lora_open_model(ctx, lora_model_path(models[n / 2]), FOCAL_F32);
        const folder f = folder_new();
        foci_low_ranks *low_ranks = random_low_ranks(ctx, model, n % 2 == 1);
        const foci_adapter_note note = {
            .base = models[n / 2], .fingerprint = model->fingerprint, .dtype = FOCAL_F32};
        assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_OK);
        attach(ctx, model, f.path);
        lora_logits(model, expected.ids, logits);
        write_golden(f.path, expected.ids);
        char command[1500];
        (void)snprintf(command, sizeof command, "'%s' '%s/../tools/check_adapter.py' '%s' '%s'",
                       python, FOCAL_TEST_DIR, f.path, lora_model_path(models[n / 2]));
        const int code = system(command); /* NOLINT(cert-env33-c): a test's own words */
        if (code == -1 || !WIFEXITED(code) || WEXITSTATUS(code) != 0)
            fail_msg("%s: peft disagrees", models[n / 2]);
        focal_model_close(model);
        foci_low_ranks_free(ctx, low_ranks);
        folder_remove(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_peft_wrote_computes_what_peft_says, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(what_peft_wrote_is_described, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(files_of_both_formats_take_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_written_reads_back, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(nothing_stays_when_it_is_gone, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(saved_texts_are_bound_to_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(survives_without_memory, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(peft_loads_what_is_written, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("lora", tests, NULL, NULL);
}
