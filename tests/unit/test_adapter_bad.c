/* Adapters that are refused: every setting beyond its limit, every wrong tensor and number, with a
 * sentence that names it, and before memory is taken for what a file claims. */
#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/adapter_files.h"

#define CONFIG FOCI_ADAPTER_CONFIG
#define TENSORS FOCI_ADAPTER_TENSORS
#define PK "base_model.model.layers.0.self_attn.router.pk"
#define LT "base_model.model.layers.2.self_attn.log_temperature"

/* Opening fails with the status and with a sentence that ends in `words`. */
static void assert_refused(focal_ctx *ctx, const char *path, focal_status status, const char *words)
{
    focal_adapter *adapter = NULL;
    const focal_status got = focal_adapter_open(ctx, path, &adapter);
    assert_null(adapter);
    if (got == FOCAL_OK) fail_msg("taken, it must be refused: %s", words);
    const char *message = focal_ctx_error(ctx);
    const size_t length = strlen(message), tail = strlen(words);
    if (length < tail || strcmp(message + length - tail, words) != 0)
        fail_msg("'%s' does not end in '%s'", message, words);
    assert_status(ctx, got, status);
}

typedef struct edit_case {
    const char *from, *to;
    focal_status status;
    const char *words;
} edit_case;

static void assert_edits_refused(focal_ctx *ctx, const char *name, const edit_case *cases,
                                 size_t count)
{
    for (size_t n = 0; n < count; n++) {
        const edit_case *c = &cases[n];
        const folder f = adapter_write_good(ctx, FOCAL_F32);
        adapter_edit(&f, name, c->from, c->to);
        assert_refused(ctx, f.path, c->status, c->words);
        folder_remove(&f);
    }
}

static void bad_settings_are_refused(void **state)
{
    static const edit_case cases[] = {
        {"\"FOCUS\"", "\"IA3\"", FOCAL_EUNSUPPORTED,
         CONFIG ": peft_type IA3: neither groups (FOCUS) nor LORA"},
        {"\"FOCUS\"", "\"LORA\"", FOCAL_EUNSUPPORTED,
         ": 'focal_version' is not understood and might change what the adapter computes"},
        {"\"FOCUS\"", "7", FOCAL_EFORMAT, ": 'peft_type' is 7, it must be \"FOCUS\" or \"LORA\""},
        {"\"peft_type\"", "\"_\": null, \"x\"", FOCAL_EFORMAT,
         ": 'peft_type' is missing, it must be \"FOCUS\" or \"LORA\""},
        {"CAUSAL_LM", "SEQ_CLS", FOCAL_EFORMAT,
         ": 'task_type' is 'SEQ_CLS', it must be \"CAUSAL_LM\""},
        {"\"causal\"", "\"gain\": 2, \"causal\"", FOCAL_EUNSUPPORTED,
         ": 'gain' is not understood and might change what the adapter computes"},
        {ADAPTER_DIGITS, "0123456789ABCDEF", FOCAL_EFORMAT,
         ": 'fingerprint' is '0123456789ABCDEF', it must be 16 digits of 0 to 9 and a to f"},
        {ADAPTER_DIGITS, "0123456789abcdef0", FOCAL_EFORMAT,
         "it must be 16 digits of 0 to 9 and a to f"},
        {"\"fingerprint\"", "\"revision\"", FOCAL_EFORMAT,
         ": 'fingerprint' is missing, it must be 16 digits of 0 to 9 and a to f"},
        {"\"focal_version\": \"", "\"focal_version\": \"\\u0007", FOCAL_EFORMAT,
         "it must be a text of at most 31 bytes, without control characters"},
        {"\"focal_version\": \"", "\"focal_version\": \"12345678901234567890123456789012",
         FOCAL_EFORMAT, "it must be a text of at most 31 bytes, without control characters"},
        {"a \\\"base\\\"", "a\\u0000b", FOCAL_EFORMAT,
         "it must be a text of at most 255 bytes, without control characters"},
        {"layers\": 3", "layers\": 513", FOCAL_EFORMAT,
         ": 'num_hidden_layers' is 513, it must be a whole number from 1 to 512"},
        {"layers\": 3", "layers\": 3.0", FOCAL_EFORMAT,
         ": 'num_hidden_layers' is a fraction, it must be a whole number from 1 to 512"},
        {"size\": 8", "size\": 65537", FOCAL_EFORMAT,
         ": 'hidden_size' is 65537, it must be a whole number from 1 to 65536"},
        {"attention_heads\": 4", "attention_heads\": 0", FOCAL_EFORMAT,
         ": 'num_attention_heads' is 0, it must be a whole number from 1 to 65536"},
        {"value_heads\": 2", "value_heads\": 5", FOCAL_EFORMAT,
         ": 'num_key_value_heads' is 5, it must be a whole number from 1 to 4"},
        {"value_heads\": 2", "value_heads\": 3", FOCAL_EFORMAT,
         ": 'num_key_value_heads' is 3, it must be a divisor of num_attention_heads"},
        {"groups\": 5", "groups\": 65", FOCAL_EFORMAT,
         ": 'groups' is 65, it must be a whole number from 1 to 64"},
        {"groups\": 5", "groups\": -1", FOCAL_EFORMAT,
         ": 'groups' is -1, it must be a whole number from 1 to 64"},
        {"width\": 4", "width\": 257", FOCAL_EFORMAT,
         ": 'router_width' is 257, it must be a whole number from 1 to 256"},
        {"\"kv\"", "\"head\"", FOCAL_EFORMAT,
         ": 'scope' is 'head', it must be \"kv\" or \"layer\""},
        {"\"directed\"", "\"mutual\"", FOCAL_EFORMAT,
         ": 'mode' is 'mutual', it must be \"directed\" or \"shared\""},
        {"\"unit\"", "null", FOCAL_EFORMAT,
         ": 'router_form' is missing, it must be \"unit\", \"raw\", \"random\", \"none\" or "
         "\"scale\""},
        {"\"unit\"", "\"raw\", \"seed\": 3", FOCAL_EFORMAT,
         ": 'seed' is 3, it must be left out where groups are not random"},
        {"\"unit\"", "\"random\"", FOCAL_EFORMAT,
         ": 'seed' is missing, it must be a whole number from 0 to 9007199254740992"},
        {"\"unit\"", "\"random\", \"seed\": 9007199254740993", FOCAL_EFORMAT,
         ": 'seed' is 9007199254740993, it must be a whole number from 0 to 9007199254740992"},
        {"\"unit\"", "\"none\"", FOCAL_EFORMAT,
         ": 'top' is 3, it must be 0 where router_form is \"none\" or \"scale\""},
        {"\"unit\"", "\"random\", \"seed\": 3", FOCAL_EUNSUPPORTED,
         "tensor '" PK "' has no place in the adapter that adapter_config.json describes"},
        {"top\": 3", "top\": 6", FOCAL_EFORMAT,
         ": 'top' is 6, it must be a whole number from 0 to 5"},
        {"top\": 3", "top\": -1", FOCAL_EFORMAT,
         ": 'top' is -1, it must be a whole number from 0 to 5"},
        {"top_fit\": 2", "top_fit\": 6", FOCAL_EFORMAT,
         ": 'top_fit' is 6, it must be a whole number from 1 to 5"},
        {"window\": 17", "window\": -1", FOCAL_EFORMAT,
         ": 'window' is -1, it must be a whole number from 0 to 134217728"},
        {"window\": 17", "window\": 134217729", FOCAL_EFORMAT,
         ": 'window' is 134217729, it must be a whole number from 0 to 134217728"},
        {"sinks\": 2", "sinks\": 4294967298", FOCAL_EFORMAT,
         ": 'sinks' is 4294967298, it must be a whole number from 0 to 134217728"},
        {"[0, 2]", "[0, 3]", FOCAL_EFORMAT, ": 'layers' has 3, the model's are 0 to 2"},
        {"[0, 2]", "[-1, 2]", FOCAL_EFORMAT, ": 'layers' has -1, the model's are 0 to 2"},
        {"[0, 2]", "[2, 0]", FOCAL_EFORMAT, ": 'layers' has 0 behind 2, it must ascend"},
        {"[0, 2]", "[0, 0]", FOCAL_EFORMAT, ": 'layers' has 0 behind 0, it must ascend"},
        {"[0, 2]", "[\"0\"]", FOCAL_EFORMAT, ": 'layers' is a list, it must be a list of numbers"},
        {"[0, 2]", "2", FOCAL_EFORMAT, ": 'layers' is 2, it must be a list of numbers"},
        {"\"has_temperatures\": true", "\"has_temperatures\": 1", FOCAL_EFORMAT,
         ": 'has_temperatures' is 1, it must be true or false"},
        {"\"layers\": [0, 2],\n  \"has_temperatures\": true",
         "\"layers\": [],\n  \"has_temperatures\": false", FOCAL_EFORMAT,
         ": 'layers' is empty and there are no temperatures: it is nothing"},
        {"\"causal\": true", "\"causal\": null", FOCAL_EFORMAT,
         ": 'causal' is missing, it must be true or false"},
        {"\"fit\": {", "\"fit\": [], \"revision\": {", FOCAL_EFORMAT,
         ": 'fit' is a list, it must be an object"},
    };
    assert_edits_refused(*state, CONFIG, cases, FOCAL_COUNT(cases));
}

static void bad_tensors_are_refused(void **state)
{
    static const edit_case cases[] = {
        {PK, "base_model.model.layers.0.self_attn.router.px", FOCAL_EUNSUPPORTED,
         "tensor 'base_model.model.layers.0.self_attn.router.px' has no place in the adapter that "
         "adapter_config.json describes"},
        {PK, "base_model.model.layers.1.self_attn.router.pk", FOCAL_EUNSUPPORTED,
         "tensor 'base_model.model.layers.1.self_attn.router.pk' has no place in the adapter that "
         "adapter_config.json describes"},
        {PK, "base_model.model.layers.9.self_attn.router.pk", FOCAL_EUNSUPPORTED,
         "tensor 'base_model.model.layers.9.self_attn.router.pk' has no place in the adapter that "
         "adapter_config.json describes"},
        {PK, "base_model.model.layers.+.self_attn.router.pk", FOCAL_EUNSUPPORTED,
         "tensor 'base_model.model.layers.+.self_attn.router.pk' has no place in the adapter that "
         "adapter_config.json describes"},
        {PK "\":{\"dtype\":\"F32\"", PK "\":{\"dtype\":\"I32\"", FOCAL_EUNSUPPORTED,
         TENSORS ": tensor '" PK "' is of type I32, read are F32, F16 and BF16"},
        {"[2,8,4]", "[2,4,8]", FOCAL_EFORMAT,
         TENSORS ": tensor '" PK "' has 3 dimensions, 2 x 4 x 8, the configuration says 3, "
                 "2 x 8 x 4"},
        {"[2,8,4]", "[16, 4]", FOCAL_EFORMAT,
         TENSORS ": tensor '" PK "' has 2 dimensions, 16 x 4 x 1, the configuration says 3, "
                 "2 x 8 x 4"},
    };
    assert_edits_refused(*state, TENSORS, cases, FOCAL_COUNT(cases));
    /* a dimension more, of 1; the header keeps its length */
    const folder f = adapter_write_good(*state, FOCAL_F32);
    adapter_edit(&f, TENSORS, "{\"format\":\"pt\"}", "{\"format\":\"\"}");
    adapter_edit(&f, TENSORS, "[2,8,4]", "[2,8,4,1]");
    assert_refused(*state, f.path, FOCAL_EFORMAT,
                   TENSORS ": tensor '" PK "' has 4 dimensions, 2 x 8 x 4, the configuration says "
                           "3, 2 x 8 x 4");
    folder_remove(&f);
    /* the configuration asks for what the file does not have */
    static const edit_case others[] = {
        {"[0, 2]", "[0, 1, 2]", FOCAL_EFORMAT,
         TENSORS ": the tensor 'base_model.model.layers.1.self_attn.router.pk' is missing"},
        {"[0, 2]", "[0]", FOCAL_EUNSUPPORTED,
         "has no place in the adapter that " CONFIG " describes"},
        {"size\": 8", "size\": 65536", FOCAL_EFORMAT,
         "' has 3 dimensions, 2 x 8 x 4, the configuration says 3, 2 x 65536 x 4"},
    };
    assert_edits_refused(*state, CONFIG, others, FOCAL_COUNT(others));
}

static void bad_numbers_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name;
        size_t element;
        float value;
        const char *words;
    } cases[] = {
        {PK, 0, NAN, TENSORS ": element 0 of '" PK "' is not a number"},
        {PK, 63, -INFINITY, TENSORS ": element 63 of '" PK "' is infinite"},
        {LT, 3, INFINITY, TENSORS ": element 3 of '" LT "' is infinite"},
        {LT, 1, -20.5F, TENSORS ": element 1 of '" LT "' is -20.5, -20 to 20 are accepted"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        const folder f = adapter_write_good(ctx, FOCAL_F32);
        adapter_poke(ctx, &f, cases[n].name, cases[n].element * sizeof(float), &cases[n].value,
                     sizeof(float));
        assert_refused(ctx, f.path, FOCAL_EFORMAT, cases[n].words);
        folder_remove(&f);
    }
    const folder f = adapter_write_good(ctx, FOCAL_BF16);
    adapter_poke(ctx, &f, PK, 126, "\xC0\x7F", 2);
    assert_refused(ctx, f.path, FOCAL_EFORMAT, TENSORS ": element 63 of '" PK "' is not a number");
    folder_remove(&f);
}

static void missing_and_cut_files_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    focal_adapter *adapter = NULL;
    folder f = adapter_write_good(ctx, FOCAL_F32);
    assert_int_equal(unlink(folder_file(&f, TENSORS)), 0);
    assert_refused(ctx, f.path, FOCAL_EIO, "/" TENSORS ": No such file or directory");
    assert_int_equal(unlink(folder_file(&f, CONFIG)), 0);
    assert_refused(ctx, f.path, FOCAL_EIO, "/" CONFIG ": No such file or directory");
    write_bytes(folder_file(&f, CONFIG), "[1]", 3);
    assert_refused(ctx, f.path, FOCAL_EFORMAT, CONFIG ": it must be an object");
    assert_refused(ctx, folder_file(&f, CONFIG), FOCAL_EIO,
                   ": is a file; an adapter is the folder with its files");
    folder_remove(&f);
    f = adapter_write_good(ctx, FOCAL_F32);
    for (int n = 0; n < 2; n++) { /* the longest prefix that is not whole, of either file */
        size_t bytes = 0;
        const char *name = n == 0 ? TENSORS : CONFIG;
        void *data = read_bytes(folder_file(&f, name), &bytes);
        write_bytes(folder_file(&f, name), data, bytes - (n == 0 ? 1 : 2));
        assert_status(ctx, focal_adapter_open(ctx, f.path, &adapter), FOCAL_EFORMAT);
        assert_null(adapter);
        free(data);
    }
    folder_remove(&f);
    assert_status(ctx, focal_adapter_open(ctx, "", &adapter), FOCAL_EINVAL);
    assert_status(ctx, focal_adapter_open(ctx, NULL, &adapter), FOCAL_EINVAL);
    assert_status(ctx, focal_adapter_open(ctx, "x", NULL), FOCAL_EINVAL);
    focal_adapter_close(NULL);
}

/* 2^50 numbers in a few bytes: refused before memory is taken for them. */
static void a_large_claim_takes_no_memory(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = adapter_write_good(ctx, FOCAL_F32);
    adapter_edit(&f, CONFIG, "size\": 8", "size\": 65536");
    adapter_edit(&f, CONFIG, "width\": 4", "width\": 256");
    adapter_edit(&f, CONFIG, "attention_heads\": 4", "attention_heads\": 65536");
    adapter_edit(&f, CONFIG, "value_heads\": 2", "value_heads\": 65536");
    focal_ctx_memory_reset(ctx);
    assert_refused(ctx, f.path, FOCAL_EFORMAT, "the configuration says 3, 65536 x 65536 x 256");
    assert_true(focal_ctx_memory(ctx).peak_bytes < 1 << 20);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bad_settings_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_tensors_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_numbers_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(missing_and_cut_files_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_large_claim_takes_no_memory, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("adapter_bad", tests, NULL, NULL);
}
