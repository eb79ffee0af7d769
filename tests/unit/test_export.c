/* Export: every family computes the same after a way through both formats, types are those of
 * focal_quantize, keys and files that nobody needs to understand pass through, and what fails
 * leaves nothing. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "focal/adapter.h"
#include "focal/export.h"
#include "focal/model.h"
#include "focal/quant.h"
#include "io/gguf.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "support/folder.h"

enum { TOKENS = 40, MOST_VOCAB = 512, PATH_BYTES = 512 };

static const char *const families[] = {"llama", "llama3", "linear", "mistral", "qwen2", "yarn",
                                       "qwen3", "olmo2",  "gemma2", "gemma3",  "gpt2"};

/* The reference sums in double: GGUF has the elements of a head in another order, and the rounding
 * of another order of sums must not hide a difference. */
static int open_reference(void **state)
{
    const focal_ctx_options options = {
        .threads = 2, .kernel = "ref", .allocator = memory_allocator()};
    focal_ctx *ctx = NULL;
    memory_fail(0, false);
    assert_int_equal(focal_ctx_open(&options, &ctx, NULL), FOCAL_OK);
    *state = ctx;
    return 0;
}

static const char *golden_model(const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, name);
    return path;
}

static folder folder_at(const char *path)
{
    folder f;
    assert_in_range(snprintf(f.path, sizeof f.path, "%s", path), 1, sizeof f.path - 1);
    return f;
}

/* Removes a file or a folder of files, when it is there. */
static void remove_result(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) return;
    if (!S_ISDIR(info.st_mode)) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    const folder f = folder_at(path);
    folder_remove(&f);
}

static void run_export(focal_ctx *ctx, const char *in, const char *out, const char *type,
                       focal_export_result *result)
{
    focal_export_options options = {.has_type = type != NULL};
    if (type) assert_true(focal_dtype_parse(type, &options.type));
    if (focal_model_export(ctx, in, out, &options, result) != FOCAL_OK)
        fail_msg("%s to %s: %s", in, out, focal_ctx_error(ctx));
}

/* All logits of a fixed text; returns the vocabulary. */
static int32_t run_model(focal_ctx *ctx, const char *path, void *logits)
{
    focal_model *model = NULL;
    focal_cache *cache = NULL;
    const focal_model_options options = {FOCAL_F32, true};
    if (focal_model_open(ctx, path, &options, &model) != FOCAL_OK)
        fail_msg("%s: %s", path, focal_ctx_error(ctx));
    const int32_t V = focal_model_describe(model).V;
    assert_in_range(V, 1, MOST_VOCAB);
    assert_int_equal(focal_cache_new(model, NULL, &cache), FOCAL_OK);
    int32_t ids[TOKENS];
    for (int n = 0; n < TOKENS; n++) ids[n] = (7 * n + 3) % V;
    const focal_batch_item item = {0, TOKENS, ids, TOKENS};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    if (focal_forward(model, cache, &args) != FOCAL_OK) fail_msg("%s", focal_ctx_error(ctx));
    focal_cache_free(cache);
    focal_model_close(model);
    return V;
}

static void assert_computes_same(focal_ctx *ctx, const char *a, const char *b)
{
    static float x[TOKENS * MOST_VOCAB], y[TOKENS * MOST_VOCAB];
    const int32_t V = run_model(ctx, a, x);
    assert_int_equal(run_model(ctx, b, y), V);
    double largest = 0.0, apart = 0.0;
    for (int n = 0; n < TOKENS * V; n++) {
        largest = fmax(largest, fabs((double)x[n]));
        apart = fmax(apart, fabs((double)x[n] - (double)y[n]));
    }
    if (!(apart <= 1e-6 * largest)) fail_msg("%s and %s differ by %g of %g", a, b, apart, largest);
}

/* Files are synced, which is most of this test's time: the copy is left to a few. */
static void families_stay_the_same(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char gguf[PATH_BYTES], dir[PATH_BYTES];
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
    (void)snprintf(dir, sizeof dir, "%s", folder_file(&f, "m"));
    for (size_t n = 0; n < FOCAL_COUNT(families); n++) {
        const char *original = golden_model(families[n]);
        run_export(ctx, original, gguf, NULL, NULL);
        run_export(ctx, gguf, dir, NULL, NULL);
        assert_computes_same(ctx, original, gguf);
        assert_computes_same(ctx, original, dir);
        remove_result(gguf);
        remove_result(dir);
        if (n % 5 != 0) continue;
        run_export(ctx, original, dir, "f32", NULL);
        assert_computes_same(ctx, original, dir);
        remove_result(dir);
        assert_int_equal(folder_count(&f), 0);
    }
    folder_remove(&f);
}

/* The fingerprint of the model at `path`, which runs with the adapter unless that is NULL. */
static void find_fingerprint(focal_ctx *ctx, const char *path, const char *adapter, char out[17])
{
    focal_model *model = NULL;
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
    assert_int_equal(snprintf(out, 17, "%s", focal_model_fingerprint(model)), 16);
    if (adapter) assert_status(ctx, focal_model_adapt(model, adapter, NULL), FOCAL_OK);
    focal_model_close(model);
}

/* One model keeps its fingerprint, and so its adapters, in every type and in both formats. */
static void fingerprints_hold(void **state)
{
    focal_ctx *ctx = *state;
    static const char adapter[] = FOCAL_TEST_DIR "/golden/adapters/tiny";
    static const struct {
        const char *model, *adapter;
    } rows[] = {{"tiny.gguf", adapter}, {"llama", NULL},  {"llama3", NULL}, {"qwen2", NULL},
                {"qwen3", NULL},        {"olmo2", NULL},  {"gemma2", NULL}, {"gemma3", NULL},
                {"gpt2", NULL},         {"mistral", NULL}};
    static const struct {
        const char *name, *type;
    } results[] = {{"m.gguf", "f32"},  {"m.gguf", "bf16"}, {"m.gguf", "q8_0"},
                   {"m.gguf", "q4_0"}, {"m", "f32"},       {"m", "bf16"}};
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(rows); n++) {
        const char *original = golden_model(rows[n].model);
        char want[17], got[17];
        find_fingerprint(ctx, original, rows[n].adapter, want);
        for (size_t i = 0; i < FOCAL_COUNT(results); i++) {
            const char *path = folder_file(&f, results[i].name);
            run_export(ctx, original, path, results[i].type, NULL);
            find_fingerprint(ctx, path, rows[n].adapter, got);
            if (strcmp(got, want) != 0)
                fail_msg("%s as %s of %s has fingerprint %s, not %s", rows[n].model,
                         results[i].name, results[i].type, got, want);
            remove_result(path);
        }
    }
    folder_remove(&f);
}

/* Rows of blocks move as whole, and what is transposed is expanded first. */
static void quantised_families_stay_the_same(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"mistral", "qwen2", "gemma3", "gpt2"};
    const folder f = folder_new();
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        char gguf[PATH_BYTES], dir[PATH_BYTES], again[PATH_BYTES];
        (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
        (void)snprintf(dir, sizeof dir, "%s", folder_file(&f, "back"));
        (void)snprintf(again, sizeof again, "%s", folder_file(&f, "again.gguf"));
        run_export(ctx, golden_model(names[n]), gguf, "q8_0", NULL);
        run_export(ctx, gguf, dir, "f32", NULL);
        assert_computes_same(ctx, gguf, dir);
        run_export(ctx, dir, again, NULL, NULL);
        assert_computes_same(ctx, gguf, again);
        remove_result(dir);
        remove_result(gguf);
        remove_result(again);
    }
    folder_remove(&f);
}

/* A llama of one layer whose matrices have rows of 256 numbers, but for one with rows of F. */
enum { C = 256, H = 4, G = 2, D = 64, V = 24, Q = H * D, KV = G * D };

static const struct {
    const char *name;
    int64_t rows, columns; /* 0 rows: a vector; 0 columns: F */
} sample_tensors[] = {
    {"model.embed_tokens.weight", V, C},
    {"model.norm.weight", 0, C},
    {"model.layers.0.input_layernorm.weight", 0, C},
    {"model.layers.0.post_attention_layernorm.weight", 0, C},
    {"model.layers.0.self_attn.q_proj.weight", Q, C},
    {"model.layers.0.self_attn.k_proj.weight", KV, C},
    {"model.layers.0.self_attn.q_proj.bias", 0, Q},
    {"model.layers.0.self_attn.k_proj.bias", 0, KV},
    {"model.layers.0.self_attn.v_proj.bias", 0, KV},
    {"model.layers.0.self_attn.o_proj.bias", 0, C},
    {"model.layers.0.self_attn.v_proj.weight", KV, C},
    {"model.layers.0.self_attn.o_proj.weight", C, Q},
    {"model.layers.0.mlp.gate_proj.weight", 16, C},
    {"model.layers.0.mlp.up_proj.weight", 16, C},
    {"model.layers.0.mlp.down_proj.weight", C, 0},
};

typedef struct sample_source {
    float data[Q * C];
    int64_t F;
    float first; /* number of the embedding */
} sample_source;

static int64_t sample_rows(const sample_source *s, size_t n)
{
    return sample_tensors[n].rows == 16 ? s->F : sample_tensors[n].rows;
}

static int64_t sample_columns(const sample_source *s, size_t n)
{
    return sample_tensors[n].columns > 0 ? sample_tensors[n].columns : s->F;
}

static focal_status fill_sample(void *user, int64_t index, const void **data)
{
    sample_source *s = user;
    const size_t n = (size_t)index;
    const int64_t rows = sample_rows(s, n), count = (rows > 0 ? rows : 1) * sample_columns(s, n);
    for (int64_t i = 0; i < count; i++)
        s->data[i] = 0.1F * foci_random_normal(11, (uint64_t)index, (uint64_t)i);
    if (index == 0) s->data[0] = s->first;
    *data = s->data;
    return FOCAL_OK;
}

/* Writes it as a directory; members come before the others of config.json. */
static void write_sample(focal_ctx *ctx, const char *path, int64_t F, const char *members,
                         float first)
{
    char file[PATH_BYTES], text[1024];
    foci_safetensors_writer *writer = NULL;
    sample_source *source = new_array(1, sizeof *source);
    *source = (sample_source){.F = F, .first = first};
    assert_int_equal(mkdir(path, 0777), 0);
    assert_status(ctx, foci_safetensors_writer_new(ctx, &writer), FOCAL_OK);
    for (size_t n = 0; n < FOCAL_COUNT(sample_tensors); n++) {
        const int64_t rows = sample_rows(source, n), columns = sample_columns(source, n);
        foci_tensor t = {.name = sample_tensors[n].name, .dims = rows > 0 ? 2 : 1};
        t.shape[0] = rows > 0 ? rows : columns;
        t.shape[1] = rows > 0 ? columns : 1;
        t.bytes = (size_t)((rows > 0 ? rows : 1) * columns) * sizeof(float);
        assert_status(ctx, foci_safetensors_put_tensor(writer, &t), FOCAL_OK);
    }
    (void)snprintf(file, sizeof file, "%s/model.safetensors", path);
    assert_status(ctx, foci_safetensors_writer_commit(writer, file, 0, fill_sample, source),
                  FOCAL_OK);
    foci_safetensors_writer_free(writer);
    const int length = snprintf(
        text, sizeof text,
        "{%s \"model_type\": \"llama\", \"hidden_size\": %d, \"intermediate_size\": %d, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": %d, \"num_key_value_heads\": %d, "
        "\"vocab_size\": %d, \"max_position_embeddings\": 64, \"tie_word_embeddings\": true, "
        "\"_note\": \"kept\"}",
        members, C, (int)F, H, G, V);
    assert_in_range(length, 1, sizeof text - 1);
    (void)snprintf(file, sizeof file, "%s/config.json", path);
    write_bytes(file, text, (size_t)length);
    free(source);
}

/* Every matrix of `file` is what focal_quantize makes of the numbers in `exact`. */
static void assert_quantised(focal_ctx *ctx, const char *file, const char *exact, focal_dtype type,
                             focal_dtype fallback)
{
    foci_gguf *got = NULL, *want = NULL;
    assert_status(ctx, foci_gguf_open(ctx, file, &got), FOCAL_OK);
    assert_status(ctx, foci_gguf_open(ctx, exact, &want), FOCAL_OK);
    assert_int_equal(foci_gguf_tensor_count(got), foci_gguf_tensor_count(want));
    for (int64_t n = 0; n < foci_gguf_tensor_count(got); n++) {
        const foci_tensor *t = foci_gguf_tensor_at(got, n);
        const foci_tensor *numbers = foci_gguf_tensor(want, t->name);
        assert_non_null(numbers);
        const bool is_short = t->dims == 2 && t->shape[1] < C;
        assert_int_equal(t->dtype, t->dims == 1 ? FOCAL_F32 : is_short ? fallback : type);
        void *bytes = new_array(t->bytes, 1);
        const int64_t rows = t->dims == 1 ? 1 : t->shape[0];
        assert_status(
            ctx, focal_quantize(ctx, t->dtype, numbers->data, rows, t->shape[t->dims - 1], bytes),
            FOCAL_OK);
        assert_memory_equal(t->data, bytes, t->bytes);
        free(bytes);
    }
    foci_gguf_close(got);
    foci_gguf_close(want);
}

static void types_are_those_of_quantize(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name;
        focal_dtype type, of_32, of_20; /* with rows of 32 and of 20 */
        uint32_t file_type;
    } types[] = {
        {"f32", FOCAL_F32, FOCAL_F32, FOCAL_F32, 0},
        {"f16", FOCAL_F16, FOCAL_F16, FOCAL_F16, 1},
        {"bf16", FOCAL_BF16, FOCAL_BF16, FOCAL_BF16, 32},
        {"q8_0", FOCAL_Q8_0, FOCAL_Q8_0, FOCAL_F16, 7},
        {"q4_0", FOCAL_Q4_0, FOCAL_Q4_0, FOCAL_F16, 2},
        {"q4_1", FOCAL_Q4_1, FOCAL_Q4_1, FOCAL_F16, 3},
        {"q5_0", FOCAL_Q5_0, FOCAL_Q5_0, FOCAL_F16, 8},
        {"q5_1", FOCAL_Q5_1, FOCAL_Q5_1, FOCAL_F16, 9},
        {"Q2_K", FOCAL_Q2_K, FOCAL_IQ4_NL, FOCAL_F16, 10},
        {"q3_K", FOCAL_Q3_K, FOCAL_IQ4_NL, FOCAL_F16, 11},
        {"q4_k", FOCAL_Q4_K, FOCAL_Q5_0, FOCAL_F16, 14},
        {"q5_k", FOCAL_Q5_K, FOCAL_Q5_1, FOCAL_F16, 16},
        {"q6_k", FOCAL_Q6_K, FOCAL_Q8_0, FOCAL_F16, 18},
        {"iq4_nl", FOCAL_IQ4_NL, FOCAL_IQ4_NL, FOCAL_F16, 25},
    };
    const folder f = folder_new();
    for (int32_t F = 20; F <= 32; F += 12) {
        char dir[PATH_BYTES], exact[PATH_BYTES];
        (void)snprintf(dir, sizeof dir, "%s", folder_file(&f, "m"));
        (void)snprintf(exact, sizeof exact, "%s", folder_file(&f, "exact.gguf"));
        write_sample(ctx, dir, F, "", 0.5F);
        run_export(ctx, dir, exact, NULL, NULL);
        assert_computes_same(ctx, dir, exact); /* biases have turned along */
        for (size_t n = 0; n < FOCAL_COUNT(types); n++) {
            focal_export_result result;
            const char *file = folder_file(&f, "q.gguf");
            const focal_dtype fallback = F == 20 ? types[n].of_20 : types[n].of_32;
            if (F == 20 && n % 5 != 3) continue;
            run_export(ctx, dir, file, types[n].name, &result);
            assert_quantised(ctx, file, exact, types[n].type, fallback);
            foci_gguf *gguf = NULL;
            int64_t file_type = -1;
            assert_status(ctx, foci_gguf_open(ctx, file, &gguf), FOCAL_OK);
            assert_status(ctx, foci_gguf_get_int(gguf, "general.file_type", 0, 99, &file_type),
                          FOCAL_OK);
            assert_int_equal(file_type, types[n].file_type);
            foci_gguf_close(gguf);
            assert_int_equal(result.tensor_count, FOCAL_COUNT(sample_tensors));
            for (int type = 0; type < 32; type++)
                assert_int_equal(result.fallback_count[type],
                                 fallback != types[n].type && type == (int)fallback);
            remove_result(file);
        }
        remove_result(exact);
        remove_result(dir);
    }
    folder_remove(&f);
}

/* tiny.gguf with other keys and tensors beside its own. */
typedef struct addition {
    const char *key, *text; /* a key, or NULL */
    foci_tensor tensor;     /* without a name: none */
} addition;

static void write_with(focal_ctx *ctx, const char *path, const addition *more)
{
    foci_gguf *from = NULL;
    foci_gguf_writer *writer = NULL;
    assert_status(ctx, foci_gguf_open(ctx, golden_model("tiny.gguf"), &from), FOCAL_OK);
    assert_status(ctx, foci_gguf_writer_new(ctx, &writer), FOCAL_OK);
    for (int64_t n = 0; n < foci_gguf_key_count(from); n++) {
        char key[256];
        const foci_text name = foci_gguf_key(from, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)name.bytes, name.data);
        assert_status(ctx, foci_gguf_put_copy(writer, from, key), FOCAL_OK);
    }
    if (more->key)
        assert_status(ctx, foci_gguf_put_text(writer, more->key, foci_text_of(more->text)),
                      FOCAL_OK);
    for (int64_t n = 0; n < foci_gguf_tensor_count(from); n++)
        assert_status(ctx, foci_gguf_put_tensor(writer, foci_gguf_tensor_at(from, n)), FOCAL_OK);
    if (more->tensor.name)
        assert_status(ctx, foci_gguf_put_tensor(writer, &more->tensor), FOCAL_OK);
    assert_status(ctx, foci_gguf_writer_commit(writer, path, NULL, NULL), FOCAL_OK);
    foci_gguf_writer_free(writer);
    foci_gguf_close(from);
}

static void keys_pass_through(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const addition more = {.key = "somebody.else", .text = "kept as it is"};
    char in[PATH_BYTES], out[PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in.gguf"));
    (void)snprintf(out, sizeof out, "%s", folder_file(&f, "out.gguf"));
    write_with(ctx, in, &more);
    run_export(ctx, in, out, NULL, NULL);
    foci_gguf *a = NULL, *b = NULL;
    assert_status(ctx, foci_gguf_open(ctx, in, &a), FOCAL_OK);
    assert_status(ctx, foci_gguf_open(ctx, out, &b), FOCAL_OK);
    assert_int_equal(foci_gguf_key_count(a), foci_gguf_key_count(b));
    for (int64_t n = 0; n < foci_gguf_key_count(a); n++) {
        char key[256];
        foci_gguf_value x = {0}, y = {0};
        const foci_text name = foci_gguf_key(a, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)name.bytes, name.data);
        assert_true(foci_gguf_get_value(a, key, &x) && foci_gguf_get_value(b, key, &y));
        assert_int_equal(x.type, y.type);
        assert_int_equal(x.raw.bytes, y.raw.bytes);
        assert_memory_equal(x.raw.data, y.raw.data, x.raw.bytes);
    }
    assert_int_equal(foci_gguf_tensor_count(a), foci_gguf_tensor_count(b));
    for (int64_t n = 0; n < foci_gguf_tensor_count(a); n++) {
        const foci_tensor *x = foci_gguf_tensor_at(a, n), *y = foci_gguf_tensor(b, x->name);
        assert_non_null(y);
        assert_int_equal(x->bytes, y->bytes);
        assert_memory_equal(x->data, y->data, x->bytes);
    }
    foci_gguf_close(a);
    foci_gguf_close(b);
    folder_remove(&f);
}

/* tiny.gguf with all that metadata may be. */
static void write_metadata(focal_ctx *ctx, const char *path)
{
    foci_gguf *from = NULL;
    foci_gguf_writer *w = NULL;
    const foci_text tags[] = {{"x", 1}, {"y z", 3}}, bad = {"\xFF", 1};
    const int32_t numbers[] = {1, 2};
    assert_status(ctx, foci_gguf_open(ctx, golden_model("tiny.gguf"), &from), FOCAL_OK);
    assert_status(ctx, foci_gguf_writer_new(ctx, &w), FOCAL_OK);
    for (int64_t n = 0; n < foci_gguf_key_count(from); n++) {
        char key[256];
        const foci_text name = foci_gguf_key(from, n);
        (void)snprintf(key, sizeof key, "%.*s", (int)name.bytes, name.data);
        if (strcmp(key, "general.license") != 0)
            assert_status(ctx, foci_gguf_put_copy(w, from, key), FOCAL_OK);
    }
    assert_status(ctx, foci_gguf_put_text(w, "general.license", foci_text_of("a \"b\n")), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_texts(w, "general.tags", tags, 2), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_u32(w, "general.base_model.count", UINT32_MAX), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_f32(w, "general.real", 0.25F), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_bool(w, "general.flag", true), FOCAL_OK);
    /* Left out: no UTF-8, no place. */
    assert_status(ctx, foci_gguf_put_text(w, "general.bad", bad), FOCAL_OK);
    assert_status(ctx, foci_gguf_put_i32s(w, "general.numbers", numbers, 2), FOCAL_OK);
    for (int64_t n = 0; n < foci_gguf_tensor_count(from); n++)
        assert_status(ctx, foci_gguf_put_tensor(w, foci_gguf_tensor_at(from, n)), FOCAL_OK);
    assert_status(ctx, foci_gguf_writer_commit(w, path, NULL, NULL), FOCAL_OK);
    foci_gguf_writer_free(w);
    foci_gguf_close(from);
}

static foci_text text_of_key(const foci_gguf *gguf, const char *key)
{
    foci_text text = {"", 0};
    (void)foci_gguf_get_text(gguf, key, &text);
    return text;
}

/* tiny.gguf as a directory whose config.json has these members of focal_metadata, and that as a
 * GGUF file again. */
static focal_status pass_metadata(focal_ctx *ctx, const folder *f, const char *members,
                                  foci_gguf **out)
{
    char dir[PATH_BYTES], file[PATH_BYTES], config[PATH_BYTES + 16], text[8192];
    (void)snprintf(dir, sizeof dir, "%s", folder_file(f, "dir"));
    (void)snprintf(file, sizeof file, "%s", folder_file(f, "back.gguf"));
    (void)snprintf(config, sizeof config, "%s/config.json", dir);
    run_export(ctx, golden_model("tiny.gguf"), dir, NULL, NULL);
    FILE *stream = fopen(config, "r+b");
    assert_non_null(stream);
    const size_t bytes = fread(text, 1, sizeof text - 1, stream);
    text[bytes] = '\0';
    char *metadata = strstr(text, "\"focal_metadata\": {");
    assert_non_null(metadata);
    rewind(stream);
    (void)fprintf(stream, "%.*s\"focal_metadata\": {%s}}", (int)(metadata - text), text, members);
    assert_int_equal(ftruncate(fileno(stream), ftell(stream)), 0);
    assert_int_equal(fclose(stream), 0);
    const focal_status status = focal_model_export(ctx, dir, file, NULL, NULL);
    if (status == FOCAL_OK) assert_status(ctx, foci_gguf_open(ctx, file, out), FOCAL_OK);
    remove_result(dir);
    remove_result(file);
    return status;
}

static void metadata_passes_through_a_directory(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    foci_gguf *gguf = NULL;
    const foci_text *texts = NULL;
    int64_t number = 0, count = 0;
    double real = 0.0;
    bool is_true = false;
    static const char members[] =
        "\"general.license\": \"a \\\"b\\n\", \"general.tags\": [\"x\", \"y z\"], "
        "\"general.base_model.count\": 4294967295, \"general.real\": 0.25, "
        "\"general.flag\": true, \"general.architecture\": \"mamba\", \"general.alignment\": 7, "
        "\"llama.context_length\": 3, \"general.\": 1";
    assert_status(ctx, pass_metadata(ctx, &f, members, &gguf), FOCAL_OK);
    for (int round = 0; round < 2; round++) {
        assert_true(foci_text_equal(text_of_key(gguf, "general.license"), foci_text_of("a \"b\n")));
        assert_true(
            foci_text_equal(text_of_key(gguf, "general.architecture"), foci_text_of("llama")));
        assert_status(ctx, foci_gguf_get_texts(gguf, "general.tags", &texts, &count), FOCAL_OK);
        assert_int_equal(count, 2);
        assert_true(foci_text_equal(texts[1], foci_text_of("y z")));
        const char *key = "general.base_model.count";
        assert_status(ctx, foci_gguf_get_int(gguf, key, 0, UINT32_MAX, &number), FOCAL_OK);
        assert_true(number == UINT32_MAX);
        assert_status(ctx, foci_gguf_get_real(gguf, "general.real", &real), FOCAL_OK);
        assert_true(real == 0.25);
        assert_status(ctx, foci_gguf_get_bool(gguf, "general.flag", &is_true), FOCAL_OK);
        assert_true(is_true);
        assert_false(foci_gguf_has(gguf, "general.alignment") || foci_gguf_has(gguf, "general."));
        assert_status(ctx, foci_gguf_get_int(gguf, "llama.context_length", 0, 999, &number),
                      FOCAL_OK);
        assert_int_equal(number, 256);
        foci_gguf_close(gguf);
        if (round > 0) break;
        /* Once more, through what a GGUF file with all of that becomes. */
        char in[PATH_BYTES], dir[PATH_BYTES], back[PATH_BYTES];
        (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in.gguf"));
        (void)snprintf(dir, sizeof dir, "%s", folder_file(&f, "dir2"));
        (void)snprintf(back, sizeof back, "%s", folder_file(&f, "back2.gguf"));
        write_metadata(ctx, in);
        run_export(ctx, in, dir, NULL, NULL);
        run_export(ctx, dir, back, NULL, NULL);
        assert_status(ctx, foci_gguf_open(ctx, back, &gguf), FOCAL_OK);
        remove_result(in);
        remove_result(dir);
        remove_result(back);
    }
    static const char *const bad[] = {"\"general.x\": -1",   "\"general.x\": 4294967296",
                                      "\"general.x\": null", "\"general.x\": {}",
                                      "\"general.x\": [1]",  "\"general.x\": 1e39"};
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        assert_status(ctx, pass_metadata(ctx, &f, bad[n], &gguf), FOCAL_EFORMAT);
        assert_non_null(
            strstr(focal_ctx_error(ctx), "config.json: focal_metadata: 'general.x' must"));
    }
    folder_remove(&f);
}

static void assert_same_file(const char *a, const char *b)
{
    size_t a_bytes = 0, b_bytes = 0;
    void *x = read_bytes(a, &a_bytes), *y = read_bytes(b, &b_bytes);
    assert_int_equal(a_bytes, b_bytes);
    assert_memory_equal(x, y, a_bytes);
    free(x);
    free(y);
}

static void files_pass_through(void **state)
{
    focal_ctx *ctx = *state;
    static const char *const names[] = {"generation_config.json", "chat_template.jinja",
                                        "special_tokens_map.json"};
    const folder f = folder_new();
    char in[PATH_BYTES], out[PATH_BYTES], a[2 * PATH_BYTES], b[2 * PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in"));
    (void)snprintf(out, sizeof out, "%s", folder_file(&f, "out"));
    write_sample(ctx, in, 32, "", 0.5F);
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        (void)snprintf(a, sizeof a, "%s/%s", in, names[n]);
        write_bytes(a, "{ }", 3);
    }
    run_export(ctx, in, out, "f16", NULL);
    for (size_t n = 0; n < FOCAL_COUNT(names); n++) {
        (void)snprintf(a, sizeof a, "%s/%s", in, names[n]);
        (void)snprintf(b, sizeof b, "%s/%s", out, names[n]);
        assert_same_file(a, b);
    }
    (void)snprintf(b, sizeof b, "%s/config.json", out);
    size_t bytes = 0;
    foci_json *config = NULL; /* of another type now */
    char *text = read_bytes(b, &bytes);
    assert_status(ctx, foci_json_parse(ctx, b, text, bytes, &config), FOCAL_OK);
    assert_string_equal(foci_json_string(foci_json_get(config, "_note")), "kept");
    assert_string_equal(foci_json_string(foci_json_get(config, "torch_dtype")), "float16");
    foci_json_free(config);
    free(text);
    remove_result(out);
    run_export(ctx, in, out, NULL, NULL);
    (void)snprintf(a, sizeof a, "%s/config.json", in);
    assert_same_file(a, b);
    remove_result(in);
    remove_result(out);
    folder_remove(&f);
}

/* Divisors of a llama3 scaling, for the eight frequencies of tiny.gguf. */
static void make_divisors(double context, double low, double high, double factor, float *divisors)
{
    for (int n = 0; n < 8; n++) {
        const double turns = context * pow(10000.0, -n / 8.0) / 6.283185307179586;
        const double smooth = fmin(fmax((turns - low) / (high - low), 0.0), 1.0);
        divisors[n] = (float)(1.0 / ((1.0 - smooth) / factor + smooth));
    }
}

static void scaling_is_found_again(void **state)
{
    focal_ctx *ctx = *state;
    static const double cases[][4] = {{8192, 1, 4, 32}, {100, 1, 8, 8}, {37, 0.5, 6, 3}};
    const folder f = folder_new();
    float divisors[8];
    addition more = {.tensor = {.name = "rope_freqs.weight",
                                .dims = 1,
                                .shape = {8, 1, 1, 1},
                                .data = divisors,
                                .bytes = sizeof divisors}};
    char in[PATH_BYTES], out[PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in.gguf"));
    (void)snprintf(out, sizeof out, "%s", folder_file(&f, "out"));
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        make_divisors(cases[n][0], cases[n][1], cases[n][2], cases[n][3], divisors);
        write_with(ctx, in, &more);
        run_export(ctx, in, out, "f32", NULL);
        assert_computes_same(ctx, in, out);
        remove_result(out);
    }
    for (int n = 0; n < 8; n++) divisors[n] = 1.0F + (float)(n % 2);
    write_with(ctx, in, &more);
    assert_status(ctx, focal_model_export(ctx, in, out, NULL, NULL), FOCAL_EUNSUPPORTED);
    assert_non_null(strstr(focal_ctx_error(ctx), "rope_freqs.weight"));
    assert_int_equal(folder_count(&f), 1);
    folder_remove(&f);
}

/* Exports that must fail with a sentence that has `words`, and leave nothing. */
static void assert_refused(focal_ctx *ctx, const folder *f, const char *in, const char *out,
                           const focal_export_options *options, focal_status status,
                           const char *words)
{
    const int before = folder_count(f);
    assert_status(ctx, focal_model_export(ctx, in, out, options, NULL), status);
    if (!strstr(focal_ctx_error(ctx), words))
        fail_msg("'%s' has no '%s'", focal_ctx_error(ctx), words);
    assert_int_equal(folder_count(f), before);
}

static void places_are_guarded(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char in[PATH_BYTES], gguf[PATH_BYTES], path[2 * PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in"));
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
    write_sample(ctx, in, 32, "", 0.5F);
    const focal_export_options force = {.replaces = true};
    const focal_export_options q8 = {.type = FOCAL_Q8_0, .has_type = true};
    const focal_export_options none = {.type = (focal_dtype)99, .has_type = true};
    assert_refused(ctx, &f, in, in, &force, FOCAL_EINVAL, "is the model that is read");
    (void)snprintf(path, sizeof path, "%s/../in/", in);
    assert_refused(ctx, &f, in, path, &force, FOCAL_EINVAL, "is the model that is read");
    (void)snprintf(path, sizeof path, "%s/x.gguf", in);
    assert_refused(ctx, &f, in, path, NULL, FOCAL_EINVAL, "is in the folder of the model");
    assert_refused(ctx, &f, in, folder_file(&f, "out"), &q8, FOCAL_EINVAL,
                   "a directory holds f32, f16 or bf16, not q8_0");
    assert_refused(ctx, &f, in, gguf, &none, FOCAL_EINVAL, "no element type 99");
    assert_refused(ctx, &f, in, "", NULL, FOCAL_EINVAL, "no name");
    assert_refused(ctx, &f, NULL, gguf, NULL, FOCAL_EINVAL, "no model");
    assert_refused(ctx, &f, in, folder_file(&f, "no/m.gguf"), NULL, FOCAL_EIO, "No such file");
    assert_refused(ctx, &f, in, folder_file(&f, "no/m"), NULL, FOCAL_EIO, "No such file");
    assert_refused(ctx, &f, folder_file(&f, "no"), gguf, NULL, FOCAL_EIO, "No such file");

    write_bytes(gguf, "old", 3);
    assert_refused(ctx, &f, in, gguf, NULL, FOCAL_EINVAL, "is there already");
    (void)snprintf(path, sizeof path, "%s/config.json", in);
    assert_refused(ctx, &f, gguf, in, &force, FOCAL_EFORMAT, "");
    assert_status(ctx, focal_model_export(ctx, in, gguf, &force, NULL), FOCAL_OK);
    assert_computes_same(ctx, in, gguf);
    assert_refused(ctx, &f, gguf, gguf, &force, FOCAL_EINVAL, "is the model that is read");
    remove_result(in);
    folder_remove(&f);
}

static void parts_are_guarded(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const addition nothing = {.key = NULL};
    const focal_export_options force = {.replaces = true};
    char in[PATH_BYTES], other[PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "m-00001-of-00002.gguf"));
    (void)snprintf(other, sizeof other, "%s", folder_file(&f, "m-00002-of-00002.gguf"));
    write_with(ctx, in, &nothing);
    write_bytes(other, "old", 3);
    assert_refused(ctx, &f, in, other, &force, FOCAL_EINVAL, "is a part of the model");
    folder_remove(&f);
}

/* Only the model in a folder is replaced, and all of it. */
static void force_replaces_the_model(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    const focal_export_options force = {.replaces = true};
    char in[PATH_BYTES], out[PATH_BYTES], path[2 * PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in"));
    (void)snprintf(out, sizeof out, "%s", folder_file(&f, "out"));
    write_sample(ctx, in, 32, "", 0.5F);
    assert_int_equal(mkdir(out, 0777), 0);
    static const char *const old[] = {"config.json", "tokenizer.json", "notes.txt",
                                      "model.safetensors.index.json",
                                      "model-00001-of-00002.safetensors"};
    for (size_t n = 0; n < FOCAL_COUNT(old); n++) {
        (void)snprintf(path, sizeof path, "%s/%s", out, old[n]);
        write_bytes(path, "old", 3);
    }
    assert_refused(ctx, &f, in, out, NULL, FOCAL_EINVAL, "is there already");
    assert_status(ctx, focal_model_export(ctx, in, out, &force, NULL), FOCAL_OK);
    assert_computes_same(ctx, in, out);
    const folder inside = folder_at(out);
    assert_int_equal(folder_count(&inside), 3); /* config.json, model.safetensors, notes.txt */
    assert_int_equal(folder_count(&f), 2);
    remove_result(in);
    remove_result(out);
    folder_remove(&f);
}

static bool stop_half_way(void *user, int64_t done, int64_t total)
{
    int64_t *calls = user;
    ++*calls;
    return done < total / 2;
}

static void failures_leave_nothing(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    int64_t calls = 0;
    focal_export_options options = {.on_progress = stop_half_way, .user = &calls};
    char in[PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in"));
    write_sample(ctx, in, 32, "", 70000.0F);
    assert_refused(ctx, &f, in, folder_file(&f, "m.gguf"), &options, FOCAL_EIO, "stopped");
    assert_refused(ctx, &f, in, folder_file(&f, "m"), &options, FOCAL_EIO, "stopped");
    assert_true(calls >= 2);
    options = (focal_export_options){.type = FOCAL_F16, .has_type = true};
    assert_refused(ctx, &f, in, folder_file(&f, "m.gguf"), &options, FOCAL_EINVAL,
                   "tensor 'token_embd.weight' has a number that f16 cannot hold");
    assert_refused(ctx, &f, in, folder_file(&f, "m"), &options, FOCAL_EINVAL,
                   "tensor 'model.embed_tokens.weight' has a number that f16 cannot hold");
    remove_result(in);
    folder_remove(&f);
}

/* A golden model of one file, with members in front of the others of config.json. */
static void copy_with(const char *name, const char *path, const char *members)
{
    char from[2 * PATH_BYTES], to[2 * PATH_BYTES];
    size_t bytes = 0;
    assert_int_equal(mkdir(path, 0777), 0);
    (void)snprintf(from, sizeof from, "%s/model.safetensors", golden_model(name));
    (void)snprintf(to, sizeof to, "%s/model.safetensors", path);
    char *data = read_bytes(from, &bytes);
    write_bytes(to, data, bytes);
    free(data);
    (void)snprintf(from, sizeof from, "%s/config.json", golden_model(name));
    (void)snprintf(to, sizeof to, "%s/config.json", path);
    data = read_bytes(from, &bytes);
    const size_t room = bytes + strlen(members) + 2;
    char *text = new_array(room, 1);
    const int length = snprintf(text, room, "{%s%.*s", members, (int)bytes - 1, data + 1);
    write_bytes(to, text, (size_t)length);
    free(text);
    free(data);
}

static void windows_have_a_period(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char in[PATH_BYTES], gguf[PATH_BYTES], out[PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in"));
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
    (void)snprintf(out, sizeof out, "%s", folder_file(&f, "m"));
    copy_with("gemma2", in, "\"layer_types\": [\"full_attention\", \"sliding_attention\"],");
    assert_refused(ctx, &f, in, gguf, NULL, FOCAL_EUNSUPPORTED, "have no period");
    remove_result(in);
    static const char *const lists[] = {"\"sliding_attention\", \"sliding_attention\"",
                                        "\"full_attention\", \"full_attention\""};
    for (size_t n = 0; n < FOCAL_COUNT(lists); n++) {
        char members[PATH_BYTES];
        (void)snprintf(members, sizeof members, "\"layer_types\": [%s],", lists[n]);
        copy_with("gemma2", in, members);
        run_export(ctx, in, gguf, NULL, NULL);
        run_export(ctx, gguf, out, NULL, NULL);
        assert_computes_same(ctx, in, gguf);
        assert_computes_same(ctx, in, out);
        remove_result(in);
        remove_result(gguf);
        remove_result(out);
    }
    folder_remove(&f);
}

/* What one format says and the other has no words for. */
static void other_models_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *members, *words;
    } cases[] = {
        {"\"hidden_act\": \"gelu\",", "its activation is not that of llama models"},
        {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, \"attention_factor\": 1.0},",
         "attention_factor, mscale or truncate"},
        {"\"rope_scaling\": {\"rope_type\": \"yarn\", \"factor\": 2.0, \"truncate\": false},",
         "attention_factor, mscale or truncate"},
    };
    const folder f = folder_new();
    char in[PATH_BYTES];
    (void)snprintf(in, sizeof in, "%s", folder_file(&f, "in"));
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        write_sample(ctx, in, 32, cases[n].members, 0.5F);
        assert_refused(ctx, &f, in, folder_file(&f, "m.gguf"), NULL, FOCAL_EUNSUPPORTED,
                       cases[n].words);
        remove_result(in);
    }
    static const struct {
        const char *name;
        int64_t count;
    } biases[] = {{"blk.0.attn_q.bias", 64}, {"output.bias", 369}};
    const float bias[369] = {1.0F};
    char gguf[PATH_BYTES];
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "in.gguf"));
    for (size_t n = 0; n < FOCAL_COUNT(biases); n++) {
        const addition more = {.tensor = {.name = biases[n].name,
                                          .dims = 1,
                                          .shape = {biases[n].count, 1, 1, 1},
                                          .data = bias,
                                          .bytes = (size_t)biases[n].count * sizeof(float)}};
        write_with(ctx, gguf, &more);
        assert_refused(ctx, &f, gguf, folder_file(&f, "m"), NULL, FOCAL_EUNSUPPORTED,
                       "it has not the biases that LlamaForCausalLM");
    }
    folder_remove(&f);
}

static void memory_runs_out(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *model, *out;
        focal_dtype type;
    } cases[] = {{"mistral", "m.gguf", FOCAL_Q8_0},
                 {"gpt2", "m.gguf", FOCAL_Q4_K},
                 {"gpt2", "m", FOCAL_BF16},
                 {"tiny.gguf", "m", FOCAL_F16},
                 {"tiny.gguf", "m.gguf", FOCAL_Q4_0}};
    const folder f = folder_new();
    for (size_t c = 0; c < FOCAL_COUNT(cases); c++) {
        const focal_export_options options = {.type = cases[c].type, .has_type = true};
        char out[PATH_BYTES];
        (void)snprintf(out, sizeof out, "%s", folder_file(&f, cases[c].out));
        int64_t n = 1;
        for (;; n++) {
            focal_ctx_trim(ctx);
            const int64_t live = memory_live_blocks();
            memory_fail(n, n % 2 == 0);
            const focal_status status =
                focal_model_export(ctx, golden_model(cases[c].model), out, &options, NULL);
            memory_fail(0, false);
            focal_ctx_trim(ctx);
            assert_int_equal(memory_live_blocks(), live);
            if (status == FOCAL_OK) break;
            assert_status(ctx, status, FOCAL_ENOMEM);
            assert_int_equal(folder_count(&f), 0);
        }
        assert_true(n > 20);
        remove_result(out);
    }
    folder_remove(&f);
}

static void assert_same_text(focal_ctx *ctx, const char *path, const char *template)
{
    static const char text[] = "The quick brown fox <|im_end|> caf\xC3\xA9! 12";
    static const unsigned flags = FOCAL_ENCODE_ADD_SPECIAL | FOCAL_ENCODE_PARSE_SPECIAL;
    const char *paths[2] = {golden_model("tiny.gguf"), path};
    focal_model *models[2] = {NULL, NULL};
    focal_ids ids[2] = {{0}, {0}};
    for (int n = 0; n < 2; n++) {
        assert_status(ctx, focal_model_open(ctx, paths[n], NULL, &models[n]), FOCAL_OK);
        const focal_tokenizer *tokenizer = focal_model_tokenizer(models[n]);
        assert_non_null(tokenizer);
        assert_status(ctx,
                      focal_tokenizer_encode(ctx, tokenizer, text, sizeof text - 1, flags, &ids[n]),
                      FOCAL_OK);
    }
    assert_int_equal(ids[0].count, ids[1].count);
    assert_memory_equal(ids[0].ids, ids[1].ids, (size_t)ids[0].count * sizeof ids[0].ids[0]);
    size_t bytes = 0, wanted = 0;
    if (!template)
        template = focal_model_template(models[0], &wanted);
    else
        wanted = strlen(template);
    const char *got = focal_model_template(models[1], &bytes);
    assert_non_null(got);
    assert_int_equal(bytes, wanted);
    assert_memory_equal(got, template, bytes);
    for (int n = 0; n < 2; n++) {
        focal_ids_free(ctx, &ids[n]);
        focal_model_close(models[n]);
    }
}

static void tokenizers_go_along(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char dir[PATH_BYTES], gguf[PATH_BYTES], path[2 * PATH_BYTES];
    (void)snprintf(dir, sizeof dir, "%s", folder_file(&f, "m"));
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
    run_export(ctx, golden_model("tiny.gguf"), dir, NULL, NULL);
    assert_same_text(ctx, dir, NULL);
    run_export(ctx, dir, gguf, "q8_0", NULL);
    assert_same_text(ctx, gguf, NULL);
    remove_result(gguf);
    /* A file of its own comes before the one in tokenizer_config.json. */
    (void)snprintf(path, sizeof path, "%s/chat_template.jinja", dir);
    write_bytes(path, "{{ messages }}", 14);
    run_export(ctx, dir, gguf, "q8_0", NULL);
    assert_same_text(ctx, gguf, "{{ messages }}");
    remove_result(dir);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(families_stay_the_same, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(fingerprints_hold, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(quantised_families_stay_the_same, open_reference,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(types_are_those_of_quantize, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(metadata_passes_through_a_directory, open_reference,
                                        close_ctx),
        cmocka_unit_test_setup_teardown(keys_pass_through, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(files_pass_through, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(tokenizers_go_along, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(scaling_is_found_again, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(places_are_guarded, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(parts_are_guarded, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(force_replaces_the_model, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(failures_leave_nothing, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(windows_have_a_period, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(other_models_are_refused, open_reference, close_ctx),
        cmocka_unit_test_setup_teardown(memory_runs_out, open_reference, close_ctx),
    };
    return cmocka_run_group_tests_name("export", tests, NULL, NULL);
}
