/* Directories as people have them: both generations of config.json, the names that tensors have in
 * other files, a tokenizer and a template beside the weights. What is the same model gives the same
 * bits. */
#include "support/check.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "focal/generate.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "support/folder.h"

enum { VOCAB = 96, TOKENS = 20, PATH_BYTES = 512 };

static const char *const families[] = {"llama", "llama3", "linear", "mistral", "qwen2", "yarn",
                                       "qwen3", "olmo2",  "gemma2", "gemma3",  "gpt2"};

static const char *golden_path(const char *family, const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/golden/models/%s/%s", FOCAL_TEST_DIR, family, name);
    return path;
}

static void copy_file(const char *family, const char *name, const folder *to, const char *as)
{
    size_t bytes = 0;
    void *data = read_bytes(golden_path(family, name), &bytes);
    write_bytes(folder_file(to, as), data, bytes);
    free(data);
}

static void write_text(const folder *f, const char *name, const char *text)
{
    write_bytes(folder_file(f, name), text, strlen(text));
}

/* The logits (VOCAB) of the last of a few tokens. */
static void run(focal_ctx *ctx, const char *path, void *logits)
{
    const focal_model_options options = {FOCAL_F32, true};
    focal_model *model = NULL;
    focal_cache *cache = NULL;
    int32_t ids[TOKENS];
    for (int n = 0; n < TOKENS; n++) ids[n] = (n * 31 + 7) % VOCAB;
    const focal_batch_item item = {0, TOKENS, ids, 1};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    if (focal_model_open(ctx, path, &options, &model) != FOCAL_OK)
        fail_msg("%s: %s", path, focal_ctx_error(ctx));
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    assert_status(ctx, focal_forward(model, cache, &args), FOCAL_OK);
    focal_cache_free(cache);
    focal_model_close(model);
}

static void assert_same_model(focal_ctx *ctx, const char *family, const folder *f)
{
    float expected[VOCAB], got[VOCAB];
    run(ctx, golden_path(family, ""), expected);
    run(ctx, f->path, got);
    for (int n = 0; n < VOCAB; n++)
        if (!(got[n] == expected[n])) fail_msg("%s: logit %d is another", family, n);
}

/* transformers 4 and 5 name the same things differently. */
static void both_configs_say_the_same(void **state)
{
    for (size_t n = 0; n < FOCAL_COUNT(families); n++) {
        const folder f = folder_new();
        DIR *dir = opendir(golden_path(families[n], ""));
        assert_non_null(dir);
        for (const struct dirent *file = readdir(dir); file; file = readdir(dir))
            if (strncmp(file->d_name, "model", 5) == 0)
                copy_file(families[n], file->d_name, &f, file->d_name);
        (void)closedir(dir);
        copy_file(families[n], "config_5.json", &f, "config.json");
        assert_same_model(*state, families[n], &f);
        folder_remove(&f);
    }
}

/* The weights of a family with `from` in front of every name replaced by `to`. */
static void rename_tensors(focal_ctx *ctx, const char *family, const folder *f, const char *from,
                           const char *to)
{
    foci_safetensors *file = NULL;
    foci_safetensors_writer *writer = NULL;
    assert_status(ctx, foci_safetensors_open(ctx, golden_path(family, "model.safetensors"), &file),
                  FOCAL_OK);
    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    for (int64_t n = 0; n < foci_safetensors_tensor_count(file); n++) {
        foci_tensor tensor = *foci_safetensors_tensor_at(file, n);
        char name[256];
        assert_int_equal(strncmp(tensor.name, from, strlen(from)), 0);
        (void)snprintf(name, sizeof name, "%s%s", to, tensor.name + strlen(from));
        tensor.name = name;
        assert_status(ctx, foci_safetensors_put_tensor(writer, &tensor), FOCAL_OK);
    }
    assert_status(
        ctx,
        foci_safetensors_writer_commit(writer, folder_file(f, "model.safetensors"), 0, NULL, NULL),
        FOCAL_OK);
    foci_safetensors_writer_free(writer);
    foci_safetensors_close(file);
}

static void other_names_are_known(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *family, *from, *to;
        bool has_pictures; /* the configuration of the language model lies inside another */
    } rows[] = {
        {"gemma3", "", "language_model.", true},
        {"gemma3", "", "model.language_model.", true},
        {"gemma3", "model.", "model.language_model.", true},
        {"gemma3", "model.", "model.language_model.", false},
        {"gpt2", "transformer.", "", false},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = folder_new();
        rename_tensors(ctx, rows[n].family, &f, rows[n].from, rows[n].to);
        copy_file(rows[n].family, "config.json", &f, "config.json");
        if (rows[n].has_pictures) {
            size_t bytes = 0;
            char text[4096], *inner = read_bytes(folder_file(&f, "config.json"), &bytes);
            (void)snprintf(text, sizeof text,
                           "{\"model_type\":\"gemma3\",\"mm_tokens_per_image\":256,"
                           "\"text_config\":%s}",
                           inner);
            free(inner);
            write_text(&f, "config.json", text);
        }
        assert_same_model(ctx, rows[n].family, &f);
        folder_remove(&f);
    }
}

static const char tokenizer_text[] =
    "{\"version\":\"1.0\",\"added_tokens\":[{\"id\":0,\"content\":\"<s>\",\"special\":true},"
    "{\"id\":1,\"content\":\"</s>\",\"special\":true}],\"normalizer\":null,"
    "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false},"
    "\"post_processor\":null,\"decoder\":{\"type\":\"ByteLevel\"},"
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"<s>\":0,\"</s>\":1,\"a\":2,\"b\":3,\"ab\":4,"
    "\"\xC4\xA0\":5},\"merges\":[\"a b\"]}}";

static void make_complete(const folder *f)
{
    copy_file("llama", "model.safetensors", f, "model.safetensors");
    copy_file("llama", "config.json", f, "config.json");
    write_text(f, "tokenizer.json", tokenizer_text);
    write_text(f, "tokenizer_config.json",
               "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"chat_template\":"
               "\"{{ bos_token }}{{ messages[0].content }}\"}");
}

static void a_whole_directory_opens(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    focal_model *model = NULL;
    size_t bytes = 0;
    make_complete(&f);
    assert_status(ctx, focal_model_open(ctx, f.path, NULL, &model), FOCAL_OK);
    const focal_model_info info = focal_model_describe(model);
    assert_string_equal(info.format, "huggingface");
    assert_string_equal(info.family, "llama");
    assert_int_equal(info.type_count[FOCAL_F32], info.parameter_count);
    assert_true(info.is_tied);
    assert_int_equal(focal_tokenizer_size(focal_model_tokenizer(model)), 6);
    const char *source = focal_model_template(model, &bytes);
    assert_non_null(source);
    assert_int_equal(bytes, strlen("{{ bos_token }}{{ messages[0].content }}"));
    focal_template *tpl = NULL;
    focal_ids ids = {0};
    const focal_message message = {"user", "ab </s>"};
    const focal_chat chat = {.messages = &message, .message_count = 1};
    assert_status(ctx, focal_template_new(ctx, source, bytes, &tpl), FOCAL_OK);
    /* The end token's letters are not in the vocabulary: what is left of them is no end token. */
    assert_status(ctx, focal_chat_encode(model, tpl, &chat, &ids), FOCAL_OK);
    assert_true(ids.count >= 3);
    assert_int_equal(ids.ids[0], 0);
    assert_int_equal(ids.ids[1], 4);
    for (int64_t n = 1; n < ids.count; n++) assert_true(ids.ids[n] > 1);
    focal_ids_free(ctx, &ids);
    focal_template_free(tpl);
    focal_model_close(model);
    folder_remove(&f);
}

static void what_is_wrong_is_told(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *file, *text; /* NULL: the file is taken away */
        focal_status status;
        const char *sentence;
    } rows[] = {
        {"model.safetensors", NULL, FOCAL_EFORMAT, ": no *.safetensors"},
        {"config.json", NULL, FOCAL_EIO, ": holds no config.json"},
        {"tokenizer.json", "{", FOCAL_EFORMAT, "/tokenizer.json: line 1, column 1: "},
        {"tokenizer.json", "{}", FOCAL_EFORMAT, "/tokenizer.json: "},
        {"tokenizer.json", "[]", FOCAL_EFORMAT, "/tokenizer.json: "},
        {"config.json", "{\"model_type\":\"llama\"}", FOCAL_EFORMAT,
         "/config.json: 'num_hidden_layers' is missing, it must be a whole number from 1 to 512"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const folder f = folder_new();
        focal_model *model = NULL;
        make_complete(&f);
        if (rows[n].text)
            write_text(&f, rows[n].file, rows[n].text);
        else
            assert_int_equal(remove(folder_file(&f, rows[n].file)), 0);
        assert_status(ctx, focal_model_open(ctx, f.path, NULL, &model), rows[n].status);
        assert_null(model);
        if (strncmp(focal_ctx_error(ctx), f.path, strlen(f.path)) != 0 ||
            !strstr(focal_ctx_error(ctx), rows[n].sentence))
            fail_msg("row %zu: '%s'", n, focal_ctx_error(ctx));
        folder_remove(&f);
    }
    const focal_model_options options = {FOCAL_Q8_0, true};
    focal_model *model = NULL;
    assert_status(ctx, focal_model_open(ctx, "x", &options, &model), FOCAL_EINVAL);
    assert_string_equal(focal_ctx_error(ctx), "model: q8_0 is not f32 or bf16");
    assert_status(ctx, focal_model_open(ctx, "", NULL, &model), FOCAL_EINVAL);
    assert_status(ctx, focal_model_open(ctx, NULL, NULL, &model), FOCAL_EINVAL);
    assert_status(ctx, focal_model_open(ctx, "x", NULL, NULL), FOCAL_EINVAL);
    assert_status(ctx, focal_model_open(ctx, "/no/such.gguf", NULL, &model), FOCAL_EIO);
    assert_null(model);
}

/* Equal for one model, whatever else it is opened as; another for every other. */
static void fingerprints_tell_models_apart(void **state)
{
    focal_ctx *ctx = *state;
    char seen[FOCAL_COUNT(families)][17];
    for (size_t n = 0; n < FOCAL_COUNT(families); n++) {
        for (int precision = FOCAL_F32; precision <= FOCAL_BF16; precision++) {
            const focal_model_options options = {(focal_dtype)precision, true};
            focal_model *model = NULL;
            assert_status(ctx,
                          focal_model_open(ctx, golden_path(families[n], ""), &options, &model),
                          FOCAL_OK);
            const char *print = focal_model_fingerprint(model);
            assert_int_equal(strlen(print), 16);
            if (precision == FOCAL_F32)
                memcpy(seen[n], print, sizeof seen[n]);
            else
                assert_string_equal(print, seen[n]);
            focal_model_close(model);
        }
        for (size_t m = 0; m < n; m++) assert_string_not_equal(seen[n], seen[m]);
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
        cmocka_unit_test_setup_teardown(both_configs_say_the_same, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(other_names_are_known, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(a_whole_directory_opens, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(what_is_wrong_is_told, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(fingerprints_tell_models_apart, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("model_open", tests, NULL, NULL);
}
