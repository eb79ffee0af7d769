/* Model directories: what is found in them, and what is refused before anything of it is used. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/model_dir.h"
#include "io/safetensors.h"
#include "support/folder.h"
#include "support/golden.h"

static void write_text(const folder *f, const char *name, const char *text)
{
    write_bytes(folder_file(f, name), text, strlen(text));
}

static void a_directory_of_transformers_opens(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name, *type, *weights;
    } models[] = {
        {"llama", "llama", "/model.safetensors"},
        {"llama3", "llama", "/model.safetensors"},
        {"linear", "llama", "/model.safetensors"},
        {"mistral", "mistral", "/model.safetensors.index.json"},
        {"qwen2", "qwen2", "/model.safetensors"},
        {"yarn", "qwen2", "/model.safetensors"},
        {"qwen3", "qwen3", "/model.safetensors"},
        {"olmo2", "olmo2", "/model.safetensors"},
        {"gemma2", "gemma2", "/model.safetensors"},
        {"gemma3", "gemma3_text", "/model.safetensors"},
        {"gpt2", "gpt2", "/model.safetensors"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(models); n++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, models[n].name);
        foci_model_dir *dir = NULL;
        assert_status(ctx, foci_model_dir_open(ctx, path, &dir), FOCAL_OK);
        assert_string_equal(dir->path, path);
        assert_string_equal(foci_json_string(foci_json_get(dir->config, "model_type")),
                            models[n].type);
        assert_int_equal(foci_json_int(foci_json_get(dir->generation, "eos_token_id"), -1), 2);
        assert_int_equal(strncmp(dir->weights_path, path, strlen(path)), 0);
        assert_string_equal(dir->weights_path + strlen(path), models[n].weights);
        assert_null(dir->tokenizer_config);
        assert_null(dir->tokenizer_path);
        assert_null(dir->chat_template);
        foci_safetensors *weights = NULL;
        assert_status(ctx, foci_safetensors_open(ctx, dir->weights_path, &weights), FOCAL_OK);
        assert_in_range(foci_safetensors_tensor_count(weights), 20, 80);
        foci_safetensors_close(weights);
        foci_model_dir_close(dir);
    }
    foci_model_dir_close(NULL);
}

/* The logits that go with those models are there and of a size to compare. */
static void expected_logits_are_read(void **state)
{
    (void)state;
    enum { TOKENS = 48, VOCABULARY = 96 };
    static const char *const names[] = {"llama", "llama3", "linear", "mistral", "qwen2", "yarn",
                                        "qwen3", "olmo2",  "gemma2", "gemma3",  "gpt2",  "wide"};
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        char path[64];
        (void)snprintf(path, sizeof path, "models/%s/expected", names[n]);
        golden *g = golden_open(path);
        assert_int_equal(g->case_count, 1);
        assert_string_equal(g->cases[0].name, names[n]);
        const double *ids = golden_get(&g->cases[0], "ids", TOKENS);
        const double *logits = golden_get(&g->cases[0], "logits", (int64_t)TOKENS * VOCABULARY);
        assert_non_null(ids);
        assert_non_null(logits);
        for (int i = 0; i < TOKENS; i++) assert_true(ids[i] >= 0 && ids[i] < VOCABULARY);
        for (int i = 0; i < TOKENS * VOCABULARY; i++) assert_true(fabs(logits[i]) < 10.0);
        golden_close(g);
    }
}

typedef struct file {
    const char *name, *text;
} file;
enum { FILES = 5 };

#define CONFIG                                                                                     \
    {                                                                                              \
        "config.json", "{\"model_type\":\"llama\"}"                                                \
    }

static folder make(const file *files)
{
    const folder f = folder_new();
    for (int n = 0; n < FILES && files[n].name; n++) write_text(&f, files[n].name, files[n].text);
    return f;
}

static void weights_are_found(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        file files[FILES];
        const char *weights; /* NULL: none */
    } rows[] = {
        {{CONFIG}, NULL},
        {{CONFIG, {"model.safetensors", ""}}, "model.safetensors"},
        {{CONFIG, {"model.safetensors.index.json", ""}, {"a.safetensors", ""}},
         "model.safetensors.index.json"},
        /* one file comes before an index, as for transformers */
        {{CONFIG, {"model.safetensors.index.json", ""}, {"model.safetensors", ""}},
         "model.safetensors"},
        {{CONFIG, {"other.safetensors", ""}}, "other.safetensors"},
        {{CONFIG, {"other.safetensors", ""}, {".hidden.safetensors", ""}}, "other.safetensors"},
        {{CONFIG, {"other.safetensors", ""}, {"adapter_model.safetensors", ""}},
         "other.safetensors"},
        {{CONFIG, {"adapter_model.safetensors", ""}}, NULL},
        /* pickle files beside safetensors are left alone */
        {{CONFIG, {"model.safetensors", ""}, {"pytorch_model.bin", ""}}, "model.safetensors"},
        {{CONFIG, {"other.safetensors", ""}, {"training_args.bin", ""}}, "other.safetensors"},
        /* and so is code that nobody asks for */
        {{CONFIG, {"model.safetensors", ""}, {"modeling_x.py", ""}}, "model.safetensors"},
        {{{"config.json", "{\"auto_map\":null}"}}, NULL},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = make(rows[n].files);
        foci_model_dir *dir = NULL;
        assert_status(ctx, foci_model_dir_open(ctx, f.path, &dir), FOCAL_OK);
        if (rows[n].weights)
            assert_string_equal(dir->weights_path, folder_file(&f, rows[n].weights));
        else
            assert_null(dir->weights_path);
        foci_model_dir_close(dir);
        folder_remove(&f);
    }
}

static void templates_are_found(void **state)
{
    focal_ctx *ctx = *state;
    static const file jinja = {"chat_template.jinja", "from jinja"};
    static const file json = {"chat_template.json", "{\"chat_template\":\"from json\"}"};
    static const file key = {"tokenizer_config.json", "{\"chat_template\":\"from key\"}"};
    static const file list = {"tokenizer_config.json",
                              "{\"chat_template\":[1,{\"name\":\"tool_use\",\"template\":\"no\"},"
                              "{\"name\":\"default\",\"template\":\"from list\"}]}"};
    static const file none = {"tokenizer_config.json",
                              "{\"chat_template\":[],\"bos_token\":\"b\"}"};
    static const file number = {"tokenizer_config.json", "{\"chat_template\":7}"};
    static const file config = CONFIG;
    const struct {
        file files[FILES];
        const char *text;
    } rows[] = {
        {{config, key, json, jinja}, "from jinja"},
        {{config, key, json}, "from json"},
        {{config, key}, "from key"},
        {{config, list}, "from list"},
        {{config, none}, NULL},
        {{config, number}, NULL},
        {{config, key, {"chat_template.json", "{}"}}, "from key"},
        {{config, {"chat_template.jinja", ""}}, ""},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = make(rows[n].files);
        foci_model_dir *dir = NULL;
        assert_status(ctx, foci_model_dir_open(ctx, f.path, &dir), FOCAL_OK);
        if (rows[n].text) {
            assert_non_null(dir->chat_template);
            assert_string_equal(dir->chat_template, rows[n].text);
            assert_int_equal(dir->chat_template_bytes, strlen(rows[n].text));
        } else {
            assert_null(dir->chat_template);
            assert_int_equal(dir->chat_template_bytes, 0);
        }
        foci_model_dir_close(dir);
        folder_remove(&f);
    }
}

static void bad_directories_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        file files[FILES];
        focal_status status;
        const char *part;
    } rows[] = {
        {{{"x", ""}}, FOCAL_EIO, ": holds no config.json"},
        {{{"model.safetensors", ""}}, FOCAL_EIO, ": holds no config.json"},
        {{CONFIG, {"pytorch_model.bin", ""}},
         FOCAL_EFORMAT,
         ": holds pickle files, which can run code when read; convert it to safetensors"},
        {{CONFIG, {"model.pt", ""}}, FOCAL_EFORMAT, "holds pickle files"},
        {{CONFIG, {"consolidated.00.pth", ""}}, FOCAL_EFORMAT, "holds pickle files"},
        {{CONFIG, {"last.ckpt", ""}}, FOCAL_EFORMAT, "holds pickle files"},
        {{CONFIG, {"model.pkl", ""}}, FOCAL_EFORMAT, "holds pickle files"},
        {{{"pytorch_model.bin", ""}}, FOCAL_EIO, ": holds no config.json"},
        {{{"config.json", "{\"auto_map\":{\"AutoModel\":\"modeling_x.X\"}}"}},
         FOCAL_EFORMAT,
         "config.json: asks to run code of its own (auto_map)"},
        {{{"config.json", "{\"auto_map\":1}"}}, FOCAL_EFORMAT, "asks to run code of its own"},
        {{CONFIG, {"tokenizer_config.json", "{\"auto_map\":{}}"}},
         FOCAL_EFORMAT,
         "tokenizer_config.json: asks to run code of its own"},
        {{CONFIG, {"a.safetensors", ""}, {"b.safetensors", ""}},
         FOCAL_EFORMAT,
         "holds 2 safetensors files and no model.safetensors.index.json"},
        {{{"config.json", ""}}, FOCAL_EFORMAT, "config.json: line 1"},
        {{{"config.json", "[]"}}, FOCAL_EFORMAT, "config.json: must be an object"},
        {{{"config.json", "{\"a\":1,\"a\":1}"}}, FOCAL_EFORMAT, "duplicate"},
        {{CONFIG, {"generation_config.json", "{"}},
         FOCAL_EFORMAT,
         "generation_config.json: line 1"},
        {{CONFIG, {"tokenizer_config.json", "7"}},
         FOCAL_EFORMAT,
         "tokenizer_config.json: must be an object"},
        {{CONFIG, {"chat_template.json", "\"x\""}},
         FOCAL_EFORMAT,
         "chat_template.json: must be an object"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = make(rows[n].files);
        foci_model_dir *dir = NULL;
        assert_status(ctx, foci_model_dir_open(ctx, f.path, &dir), rows[n].status);
        assert_null(dir);
        const char *sentence = focal_ctx_error(ctx);
        if (strncmp(sentence, f.path, strlen(f.path)) != 0 || !strstr(sentence, rows[n].part))
            fail_msg("row %zu: '%s' has no '%s'", n, sentence, rows[n].part);
        folder_remove(&f);
    }
}

static void what_is_no_directory_is_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_model_dir *dir = NULL;
    assert_status(ctx, foci_model_dir_open(ctx, folder_file(&f, "none"), &dir), FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(ctx), "No such file or directory"));
    write_text(&f, "file", "");
    assert_status(ctx, foci_model_dir_open(ctx, folder_file(&f, "file"), &dir), FOCAL_EIO);
    assert_non_null(strstr(focal_ctx_error(ctx), "Not a directory"));
    folder_remove(&f);
}

/* Files that are holes up to their last byte. */
static void large_files_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name;
        long long limit;
    } rows[] = {{"generation_config.json", 16 << 20},
                {"chat_template.jinja", 16 << 20},
                {"tokenizer.json", 256 << 20}};
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = make((file[FILES]){CONFIG, {rows[n].name, ""}});
        foci_model_dir *dir = NULL;
        char expected[128];
        (void)snprintf(expected, sizeof expected, "%s: %lld bytes, at most %lld are read",
                       rows[n].name, rows[n].limit + 1, rows[n].limit);
        assert_int_equal(truncate(folder_file(&f, rows[n].name), rows[n].limit + 1), 0);
        assert_status(ctx, foci_model_dir_open(ctx, f.path, &dir), FOCAL_EFORMAT);
        assert_non_null(strstr(focal_ctx_error(ctx), expected));
        folder_remove(&f);
    }
    const folder f = make((file[FILES]){CONFIG, {"tokenizer.json", ""}});
    foci_model_dir *dir = NULL;
    assert_int_equal(truncate(folder_file(&f, "tokenizer.json"), 256 << 20), 0);
    assert_status(ctx, foci_model_dir_open(ctx, f.path, &dir), FOCAL_OK);
    assert_string_equal(dir->tokenizer_path, folder_file(&f, "tokenizer.json"));
    foci_model_dir_close(dir);
    folder_remove(&f);
}

static void memory_may_run_out(void **state)
{
    focal_ctx *ctx = *state;
    static const file files[2][FILES] = {
        {CONFIG,
         {"generation_config.json", "{}"},
         {"tokenizer_config.json", "{\"chat_template\":\"x\"}"},
         {"tokenizer.json", "{}"},
         {"a.safetensors", ""}},
        {CONFIG, {"chat_template.jinja", "x"}, {"model.safetensors.index.json", ""}}};
    for (int set = 0; set < 2; set++) {
        const folder f = make(files[set]);
        for (int64_t n = 1;; n++) {
            assert_true(n < 1000);
            const int64_t live = memory_live_blocks();
            foci_model_dir *dir = NULL;
            memory_fail(n, n % 2 == 0);
            const focal_status status = foci_model_dir_open(ctx, f.path, &dir);
            const bool was_reached = memory_requests() >= n;
            memory_fail(0, false);
            assert_status(ctx, status, was_reached ? FOCAL_ENOMEM : FOCAL_OK);
            foci_model_dir_close(dir);
            assert_int_equal(memory_live_blocks(), live);
            if (!was_reached) break;
            assert_null(dir);
        }
        folder_remove(&f);
    }
}

int main(void)
{
    foci_json *root = NULL;
    if (foci_json_parse(NULL, "text", "1", 1, &root) == FOCAL_EUNSUPPORTED) {
        (void)printf("built without Jansson: nothing to test\n");
        return 0;
    }
    foci_json_free(root);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_directory_of_transformers_opens, open_ctx, close_ctx),
        cmocka_unit_test(expected_logits_are_read),
        cmocka_unit_test_setup_teardown(weights_are_found, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(templates_are_found, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_directories_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_no_directory_is_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(large_files_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(memory_may_run_out, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("model_dir", tests, NULL, NULL);
}
