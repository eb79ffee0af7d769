/* LoRA adapters that are refused: what would change the result and is not understood, every wrong
 * tensor and number, and models that they do not fit, with a sentence that names it. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/low_rank_model.h"
#include "support/adapter_files.h"
#include "support/lora_golden.h"

#define CONFIG FOCI_ADAPTER_CONFIG
#define TENSORS FOCI_ADAPTER_TENSORS
#define Q0 "base_model.model.model.layers.0.self_attn.q_proj"
#define TARGETS "[\n    \"q_proj\",\n    \"v_proj\"\n  ]"
#define V1 "base_model.model.model.layers.1.self_attn.v_proj"

static void assert_words(focal_ctx *ctx, const char *words)
{
    const char *message = focal_ctx_error(ctx);
    const size_t length = strlen(message), tail = strlen(words);
    if (length < tail || strcmp(message + length - tail, words) != 0)
        fail_msg("'%s' does not end in '%s'", message, words);
}

typedef struct edit_case {
    const char *from, *to;
    focal_status status; /* FOCAL_OK: it is taken */
    const char *words;
} edit_case;

/* Each edit of a file of an adapter that peft wrote. */
static void try_edits(focal_ctx *ctx, const char *adapter_name, const char *name,
                      const edit_case *cases, size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const folder f = lora_copy(adapter_name);
        focal_adapter *adapter = NULL;
        adapter_edit(&f, name, cases[n].from, cases[n].to);
        const focal_status status = focal_adapter_open(ctx, f.path, &adapter);
        if (status != cases[n].status)
            fail_msg("'%s': status %d, %s", cases[n].to, status, focal_ctx_error(ctx));
        assert_true((adapter != NULL) == (status == FOCAL_OK));
        if (status != FOCAL_OK) assert_words(ctx, cases[n].words);
        focal_adapter_close(adapter);
        folder_remove(&f);
    }
}

static void what_changes_the_result_is_refused(void **state)
{
    static const edit_case cases[] = {
        {"\"use_dora\": false", "\"use_dora\": true", FOCAL_EUNSUPPORTED,
         CONFIG ": 'use_dora': DoRA also changes the lengths of the model's weights"},
        {"\"use_dora\": false", "\"use_dora\": 1", FOCAL_EFORMAT,
         ": 'use_dora' is 1, it must be true or false"},
        {"\"bias\": \"none\"", "\"bias\": true", FOCAL_EFORMAT,
         ": 'bias' is true or false, it must be a text"},
        {"\"bias\": \"none\"", "\"bias\": [\"all\"]", FOCAL_EFORMAT,
         ": 'bias' is a list, it must be a text"},
        {"\"rank_pattern\": {}", "\"rank_pattern\": 5", FOCAL_EFORMAT,
         ": 'rank_pattern' is 5, it must be an object"},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": \"q_proj=4\"", FOCAL_EFORMAT,
         ": 'alpha_pattern' is 'q_proj=4', it must be an object"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": [1]", FOCAL_EFORMAT,
         ": 'init_lora_weights' is a list, it must be true, false or a text"},
        {"\"CAUSAL_LM\"", "5", FOCAL_EFORMAT, ": 'task_type' is 5, it must be \"CAUSAL_LM\""},
        {"\"bias\": \"none\"", "\"bias\": \"lora_only\"", FOCAL_EUNSUPPORTED,
         ": 'bias': biases that were trained along are not read"},
        {"\"rank_pattern\": {}", "\"rank_pattern\": {\"q_proj\": 2}", FOCAL_EUNSUPPORTED,
         ": 'rank_pattern': one rank and one alpha for all modules are read"},
        {"\"alpha_pattern\": {}", "\"alpha_pattern\": {\"q_proj\": 2}", FOCAL_EUNSUPPORTED,
         ": 'rank_pattern': one rank and one alpha for all modules are read"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa_niter_16\"",
         FOCAL_EUNSUPPORTED,
         ": 'init_lora_weights': this beginning changes the model's own weights, and such adapters "
         "fit no other"},
        {"\"modules_to_save\": null", "\"modules_to_save\": [\"lm_head\"]", FOCAL_EUNSUPPORTED,
         ": 'modules_to_save' is not understood and might change what the adapter computes"},
        {"\"lora_bias\": false", "\"lora_bias\": true", FOCAL_EUNSUPPORTED,
         ": 'lora_bias' is not understood and might change what the adapter computes"},
        {"\"layer_replication\": null", "\"layer_replication\": [[0, 2]]", FOCAL_EUNSUPPORTED,
         ": 'layer_replication' is not understood and might change what the adapter computes"},
        {"\"use_qalora\": false", "\"use_qalora\": true", FOCAL_EUNSUPPORTED,
         ": 'use_qalora' is not understood and might change what the adapter computes"},
        {"\"CAUSAL_LM\"", "\"SEQ_CLS\"", FOCAL_EFORMAT,
         ": 'task_type' is 'SEQ_CLS', it must be \"CAUSAL_LM\""},
        {"\"r\": 4", "\"r\": 0", FOCAL_EFORMAT,
         ": 'r' is 0, it must be a whole number from 1 to 65536"},
        {"\"r\": 4", "\"r\": \"4\"", FOCAL_EFORMAT,
         ": 'r' is '4', it must be a whole number from 1 to 65536"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": null", FOCAL_EFORMAT,
         ": 'lora_alpha' is missing, it must be a number within 1000000"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": 1e7", FOCAL_EFORMAT,
         ": 'lora_alpha' is a fraction, it must be a number within 1000000"},
        {"\"use_rslora\": false", "\"use_rslora\": 1", FOCAL_EFORMAT,
         ": 'use_rslora' is 1, it must be true or false"},
        {TARGETS, "7", FOCAL_EFORMAT,
         ": 'target_modules' is 7, it must be a list of names, or a pattern"},
        {"\"target_modules\": [", "\"target_modules\": [3, ", FOCAL_EFORMAT,
         "it must be a list of names, or a pattern"},
        {"\"layers_to_transform\": null", "\"layers_to_transform\": [0, 512]", FOCAL_EFORMAT,
         "it must be a list of layers from 0 to 511"},
        {"\"layers_to_transform\": null", "\"layers_to_transform\": \"all\"", FOCAL_EFORMAT,
         "it must be a list of layers from 0 to 511"},
    };
    try_edits(*state, "lora-llama", CONFIG, cases, FOCAL_COUNT(cases));
}

static void what_changes_nothing_is_taken(void **state)
{
    static const edit_case cases[] = {
        {"\"lora_dropout\": 0.0", "\"lora_dropout\": 0.3", FOCAL_OK, ""},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"gaussian\"", FOCAL_OK, ""},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": false", FOCAL_OK, ""},
        {"\"task_type\": \"CAUSAL_LM\"", "\"task_type\": null", FOCAL_OK, ""},
        {"\"lora_alpha\": 8", "\"lora_alpha\": 0.5", FOCAL_OK, ""},
        {"\"modules_to_save\": null", "\"modules_to_save\": [], \"new_in_peft\": {}", FOCAL_OK, ""},
        {"\"layers_to_transform\": null", "\"layers_to_transform\": [1, 0]", FOCAL_OK, ""},
        {TARGETS, "\"all-linear\"", FOCAL_OK, ""},
        {"\"q_proj\"", "\"model.layers.0.self_attn.q_proj\"", FOCAL_OK, ""},
        {"\"q_proj\"", "\"self_attn.q_proj\", \"qkv\"", FOCAL_OK, ""},
    };
    try_edits(*state, "lora-llama", CONFIG, cases, FOCAL_COUNT(cases));
}

static void tensors_are_those_of_the_configuration(void **state)
{
    static const edit_case cases[] = {
        {"\"q_proj\"", "\"k_proj\"", FOCAL_EUNSUPPORTED,
         "tensor '" Q0 ".lora_A.weight' has no place: it is none of the target_modules"},
        {"\"q_proj\"", "\"q_proj\", \"k_proj\"", FOCAL_EFORMAT, "k_proj.lora_A.weight' is missing"},
        {"\"layers_to_transform\": null", "\"layers_to_transform\": 1", FOCAL_EUNSUPPORTED,
         "tensor '" Q0 ".lora_A.weight' has no place: its layer is none of layers_to_transform"},
        {"\"layers_to_transform\": null", "\"layers_to_transform\": [0, 1, 2]", FOCAL_EFORMAT,
         "layers_to_transform has 2, for which there is no tensor"},
        {"\"r\": 4", "\"r\": 5", FOCAL_EFORMAT,
         "tensor '" Q0 ".lora_A.weight' has 2 dimensions, 4 x 32; it must have 2, and 5 rows"},
    };
    try_edits(*state, "lora-llama", CONFIG, cases, FOCAL_COUNT(cases));
}

static void bad_tensors_are_refused(void **state)
{
    static const edit_case cases[] = {
        {Q0 ".lora_A", Q0 ".lora_C", FOCAL_EUNSUPPORTED,
         "tensor '" Q0 ".lora_C.weight' has no place: only the linear layers of transformer layers "
         "have one"},
        {"base_model.model.model.layers.0.", "base_model.model.model.layers.x.", FOCAL_EUNSUPPORTED,
         "has no place: only the linear layers of transformer layers have one"},
        {"base_model.model.model.layers.0.", "base_model.model.model.layers. 0", FOCAL_EUNSUPPORTED,
         "has no place: only the linear layers of transformer layers have one"},
        {V1 ".lora_B", V1 ".lora_A", FOCAL_EFORMAT, ""}, /* JSON has no key twice */
        {V1 ".lora_B.weight", "base_model.model.transformer.h.1.attn.c_attn.lora_B.weight",
         FOCAL_EFORMAT, ""}, /* the header is too long then */
        {"\"shape\":[4,32]", "\"shape\":[2,64]", FOCAL_EFORMAT,
         "has 2 dimensions, 2 x 64; it must have 2, and 4 rows"},
        {"\"shape\":[32,4]", "\"shape\":[64,2]", FOCAL_EFORMAT,
         "has 2 dimensions, 64 x 2; it must have 2, and 4 columns"},
        {"\"shape\":[4,32]", "\"shape\":[128] ", FOCAL_EFORMAT,
         "has 1 dimensions, 128 x 1; it must have 2, and 4 rows"},
        {"F32", "I32", FOCAL_EUNSUPPORTED,
         "tensor '" Q0 ".lora_A.weight' is of type I32, read are F32, F16 and BF16"},
    };
    try_edits(*state, "lora-llama", TENSORS, cases, FOCAL_COUNT(cases));
}

/* A file of tensors without one of them. */
static void missing_tensors_are_named(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name, *other;
    } cases[] = {{V1 ".lora_A.weight", V1 ".lora_B.weight"},
                 {V1 ".lora_B.weight", V1 ".lora_A.weight"},
                 {NULL, NULL}};
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const folder f = lora_copy("lora-llama");
        focal_adapter *adapter = NULL;
        foci_safetensors *file = NULL;
        foci_safetensors_writer *writer = NULL;
        char path[256], words[256];
        (void)snprintf(path, sizeof path, "%s/" TENSORS, lora_path("lora-llama"));
        assert_status(ctx, foci_safetensors_open(ctx, path, &file), FOCAL_OK);
        assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
        for (int64_t i = 0; i < foci_safetensors_tensor_count(file); i++) {
            const foci_tensor *tensor = foci_safetensors_tensor_at(file, i);
            const bool is_left = cases[n].name ? strcmp(tensor->name, cases[n].name) != 0
                                               : strncmp(tensor->name, V1, sizeof V1 - 1) != 0;
            if (is_left) assert_status(ctx, foci_safetensors_put_tensor(writer, tensor), FOCAL_OK);
        }
        assert_status(
            ctx, foci_safetensors_writer_commit(writer, folder_file(&f, TENSORS), 0, NULL, NULL),
            FOCAL_OK);
        foci_safetensors_writer_free(writer);
        foci_safetensors_close(file);
        (void)snprintf(words, sizeof words, "the tensor '%s' is missing",
                       cases[n].name ? cases[n].name : V1 ".lora_A.weight");
        assert_status(ctx, focal_adapter_open(ctx, f.path, &adapter), FOCAL_EFORMAT);
        assert_words(ctx, words);
        folder_remove(&f);
    }
}

static void numbers_are_finite(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = lora_copy("lora-llama");
    focal_adapter *adapter = NULL;
    static const float bad = NAN;
    adapter_poke(ctx, &f, V1 ".lora_B.weight", 12, &bad, sizeof bad);
    assert_status(ctx, focal_adapter_open(ctx, f.path, &adapter), FOCAL_EFORMAT);
    assert_words(ctx, "element 3 of '" V1 ".lora_B.weight' is not a number");
    folder_remove(&f);
}

/* What focal says in the metadata. */
static void bad_notes_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const edit_case cases[] = {
        {"\"0123456789abcdef\"", "\"0123456789ABCDEF\"", FOCAL_EFORMAT,
         "'focal_fingerprint' is '0123456789ABCDEF', no fingerprint"},
        {"\"{}\"", "\"[]\"", FOCAL_EFORMAT, "'focal_fit' must be an object"},
        {"\"{}\"", "\"{,\"", FOCAL_EFORMAT, NULL},
    };
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    focal_adapter *good = adapter_open(ctx, lora_path("lora-llama"));
    const foci_adapter_note note = {.fingerprint = ADAPTER_DIGITS, .dtype = FOCAL_F32};
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const folder f = folder_new();
        focal_adapter *adapter = NULL;
        assert_status(ctx, foci_lora_write(model, f.path, good->low_ranks, &note), FOCAL_OK);
        adapter_edit(&f, TENSORS, cases[n].from, cases[n].to);
        assert_status(ctx, focal_adapter_open(ctx, f.path, &adapter), cases[n].status);
        if (cases[n].words) assert_words(ctx, cases[n].words);
        folder_remove(&f);
    }
    focal_adapter_close(good);
    focal_model_close(model);
}

static void assert_not_attached(focal_ctx *ctx, focal_model *model, const char *path,
                                const focal_attach_options *options, const char *words)
{
    assert_status(ctx, focal_model_adapt(model, path, options), FOCAL_EINVAL);
    assert_words(ctx, words);
    assert_null(model->low_ranks);
    assert_true(model->adapter_hash == 0);
}

static void other_models_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *model, *words;
    } cases[] = {
        {"gemma3", ": fitted to a model ('llama') of layers 2, this one ('gemma3') has 6"},
        {"wide", ": fitted to a model ('llama') of layers 2, this one ('wide') has 1"},
        {"gpt2", ": it adds to self_attn.q_proj, which this model has not"},
        {"qwen3", ": fitted to a model whose self_attn.q_proj is 32 x 32, this one's is 64 x 32"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        focal_model *model = lora_open_model(ctx, lora_model_path(cases[n].model), FOCAL_F32);
        assert_not_attached(ctx, model, lora_path("lora-llama"), NULL, cases[n].words);
        focal_model_close(model);
    }
    /* of the same sizes, but focal wrote it for another */
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    focal_adapter *good = adapter_open(ctx, lora_path("lora-llama"));
    const foci_adapter_note note = {
        .base = "other", .fingerprint = ADAPTER_DIGITS, .dtype = FOCAL_F32};
    const folder f = folder_new();
    char words[240];
    assert_status(ctx, foci_lora_write(model, f.path, good->low_ranks, &note), FOCAL_OK);
    (void)snprintf(words, sizeof words,
                   ": fitted to another model ('other') of fingerprint " ADAPTER_DIGITS
                   ", this one ('llama') has %s: the vocabulary, the norms or the width of heads "
                   "or MLP differ",
                   model->fingerprint);
    assert_not_attached(ctx, model, f.path, NULL, words);
    folder_remove(&f);
    focal_adapter_close(good);
    focal_model_close(model);
}

static void groups_are_not_asked_of_it(void **state)
{
    focal_ctx *ctx = *state;
    static const focal_attach_options options[] = {
        {.top = 2},
        {.has_window = true, .window = 5},
        {.has_sinks = true},
        {.has_no_distant = true},
        {.has_no_groups = true},
        {.has_no_temperatures = true},
    };
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    for (size_t n = 0; n < FOCAL_COUNT(options); n++)
        assert_not_attached(ctx, model, lora_path("lora-llama"), &options[n],
                            ": LoRA has no groups: it takes no top, window, sinks or part");
    focal_model_close(model);
}

/* Nothing is written that could not be read. */
static void bad_additions_are_not_written(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_model *model = lora_open_model(ctx, lora_model_path("llama"), FOCAL_F32);
    focal_adapter *good = adapter_open(ctx, lora_path("lora-llama"));
    foci_low_ranks *low_ranks = good->low_ranks;
    foci_adapter_note note = {.fingerprint = ADAPTER_DIGITS, .dtype = FOCAL_F16};
    assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_EINVAL);
    note.dtype = FOCAL_F32;
    note.fingerprint = "";
    assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_EINVAL);
    note.fingerprint = ADAPTER_DIGITS;
    note.settings = "{]}";
    assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_EFORMAT);
    note.settings = NULL;
    float *b = low_ranks->layers[1][FOCI_LINEAR_V].b;
    b[7] = INFINITY;
    assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_EINVAL);
    assert_words(ctx, "element 7 of '" V1 ".lora_B.weight' is infinite");
    b[7] = 3.4e38F; /* finite, but not in bf16 */
    note.dtype = FOCAL_BF16;
    assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_EINVAL);
    b[7] = 0.0F;
    const foci_low_rank kept = low_ranks->layers[1][FOCI_LINEAR_V];
    low_ranks->layers[1][FOCI_LINEAR_V] = (foci_low_rank){.a = NULL};
    assert_status(ctx, foci_lora_write(model, f.path, low_ranks, &note), FOCAL_EINVAL);
    assert_words(ctx, "lora: layer 1 has additions at other places than layer 0");
    low_ranks->layers[1][FOCI_LINEAR_V] = kept;
    assert_int_equal(folder_count(&f), 0);
    assert_status(ctx, foci_lora_write(model, folder_file(&f, "a/b"), low_ranks, &note), FOCAL_EIO);
    folder_remove(&f);
    focal_adapter_close(good);
    focal_model_close(model);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_changes_the_result_is_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_changes_nothing_is_taken, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tensors_are_those_of_the_configuration, open_ctx,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(bad_tensors_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(missing_tensors_are_named, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(numbers_are_finite, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_notes_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_models_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(groups_are_not_asked_of_it, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_additions_are_not_written, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("lora_bad", tests, NULL, NULL);
}
