/* The result of training: what is opened again computes what the model in training computed, for
 * every family and kind of temperature; what can be part of the weights is, and what cannot is read
 * back from keys of its own. */
#include "support/check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/random.h"
#include "focal/export.h"
#include "io/json.h"
#include "model/save.h"
#include "support/folder.h"

enum { TOKENS = 40, MOST_VOCAB = 512, PATH_BYTES = 512 };

static const bool some_layers[] = {false, true, true, false, true, true};
static const bool some_heads[] = {true, false, true, true};

static const char *const families[] = {"llama", "llama3", "linear", "mistral", "qwen2", "yarn",
                                       "qwen3", "olmo2",  "gemma2", "gemma3",  "gpt2"};

static const struct kind_case {
    const char *name;
    foci_temperature_choice choice;
    bool folds, folds_with_head_norm; /* where heads share no gain, and where they do */
} kinds[] = {
    {"constant", {.kind = FOCI_TEMPERATURE_CONSTANT, .t = 0.4F}, true, true},
    {"constant in layers",
     {.kind = FOCI_TEMPERATURE_CONSTANT, .t = 0.7F, .layers = some_layers},
     true,
     true},
    {"constant in heads",
     {.kind = FOCI_TEMPERATURE_CONSTANT, .t = 0.7F, .heads = some_heads},
     true,
     false},
    {"per head", {.kind = FOCI_TEMPERATURE_PER_HEAD, .t = 0.6F}, true, false},
    {"per head, some",
     {.kind = FOCI_TEMPERATURE_PER_HEAD, .t = 0.6F, .heads = some_heads, .layers = some_layers},
     true,
     false},
    {"learned", {.kind = FOCI_TEMPERATURE_LEARNED}, false, false},
    {"learned in places",
     {.kind = FOCI_TEMPERATURE_LEARNED, .layers = some_layers, .heads = some_heads},
     false,
     false},
    {"paper", {.kind = FOCI_TEMPERATURE_LEARNED_PAPER}, false, false},
    {"length",
     {.kind = FOCI_TEMPERATURE_LENGTH, .t = 0.5F, .c = 0.3F, .length = 8.0F},
     false,
     false},
};

static const char *golden_model(const char *name)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/golden/models/%s", FOCAL_TEST_DIR, name);
    return path;
}

/* Removes a result, when it is there. */
static void remove_result(const char *path)
{
    struct stat info;
    folder f;
    if (stat(path, &info) != 0) return;
    if (!S_ISDIR(info.st_mode)) {
        assert_int_equal(unlink(path), 0);
        return;
    }
    assert_in_range(snprintf(f.path, sizeof f.path, "%s", path), 1, sizeof f.path - 1);
    folder_remove(&f);
}

/* Numbers that training might have reached, in what begins alike everywhere. */
static void move_learned(foci_trainable *t)
{
    for (int32_t n = 0; n < t->param_count; n++) {
        const foci_param *p = &t->params[n];
        const bool is_gain = strstr(p->name, "q_norm") != NULL;
        if (!is_gain && !strstr(p->name, "temperature.")) continue;
        for (int64_t i = 0; p->gradient && i < p->cols; i++)
            p->weights[i] += 0.1F * foci_random_normal(5, (uint64_t)n, (uint64_t)i);
    }
}

static foci_trainable *trainable_from(focal_ctx *ctx, const char *path,
                                      const foci_temperature_choice *choice, focal_dtype precision)
{
    focal_model *model = NULL;
    foci_trainable *t = NULL;
    const foci_trainable_options options = {.precision = precision, .temperature = choice};
    if (focal_model_open(ctx, path, NULL, &model) != FOCAL_OK)
        fail_msg("%s: %s", path, focal_ctx_error(ctx));
    assert_status(ctx, foci_trainable_from(model, &options, &t), FOCAL_OK);
    focal_model_close(model);
    move_learned(t);
    foci_trainable_round(t);
    return t;
}

/* A new model of a few thousand weights whose attention is sharp enough to show a temperature. */
static foci_trainable *trainable_new(focal_ctx *ctx, const char *family, bool is_plain,
                                     const foci_temperature_choice *choice)
{
    const bool is_gpt2 = strcmp(family, "gpt2") == 0;
    const foci_shape shape = {.family = foci_family_of_hf(family),
                              .L = 2,
                              .C = 64,
                              .H = 4,
                              .G = is_gpt2 ? 4 : 2,
                              .D = 16,
                              .F = 96,
                              .V = 424,
                              .context = 64,
                              .rope_base = 10000.0,
                              .is_tied = true};
    const foci_trainable_options options = {
        .precision = FOCAL_F32, .temperature = choice, .has_fixed_qk_gains = is_plain};
    foci_config config;
    foci_trainable *t = NULL;
    assert_status(ctx, foci_config_new(ctx, &shape, &config), FOCAL_OK);
    assert_status(ctx, foci_trainable_new(ctx, &config, 3, &options, &t), FOCAL_OK);
    for (int32_t n = 0; n < t->param_count; n++)
        for (int64_t i = 0; t->params[n].is_matrix && i < t->params[n].rows * t->params[n].cols;
             i++)
            t->params[n].weights[i] *= 8.0F;
    move_learned(t);
    return t;
}

typedef struct answers {
    float logits[TOKENS * MOST_VOCAB];
    double nll[TOKENS];
    int32_t V;
} answers;

/* All logits of a fixed text, read at once for its losses too: a temperature that averages over
 * the text works then. */
static void run_model(focal_model *model, answers *a)
{
    focal_ctx *ctx = model->ctx;
    focal_cache *cache = NULL;
    const focal_cache_options options = {.dtype = FOCAL_F32, .has_dtype = true};
    int32_t ids[TOKENS], targets[TOKENS];
    memset(a, 0, sizeof *a);
    a->V = model->config.V;
    assert_in_range(a->V, 1, MOST_VOCAB);
    for (int n = 0; n < TOKENS; n++) ids[n] = (7 * n + 3) % a->V;
    for (int n = 0; n < TOKENS; n++) targets[n] = (ids[n] + 7) % a->V;
    assert_status(ctx, focal_cache_new(model, &options, &cache), FOCAL_OK);
    const focal_batch_item item = {0, TOKENS, ids, TOKENS};
    const focal_forward_args args = {
        .item_count = 1, .items = &item, .logits = a->logits, .targets = targets, .nll = a->nll};
    if (focal_forward(model, cache, &args) != FOCAL_OK) fail_msg("%s", focal_ctx_error(ctx));
    focal_cache_free(cache);
}

static void run_path(focal_ctx *ctx, const char *path, answers *a)
{
    focal_model *model = NULL;
    const focal_model_options options = {FOCAL_F32, true};
    if (focal_model_open(ctx, path, &options, &model) != FOCAL_OK)
        fail_msg("%s: %s", path, focal_ctx_error(ctx));
    run_model(model, a);
    focal_model_close(model);
}

/* The largest difference, as a part of the largest logit. */
static double distance(const answers *a, const answers *b)
{
    double largest = 0.0, apart = 0.0;
    assert_int_equal(a->V, b->V);
    for (int n = 0; n < TOKENS * a->V; n++) {
        largest = fmax(largest, fabs((double)a->logits[n]));
        apart = fmax(apart, fabs((double)a->logits[n] - (double)b->logits[n]));
    }
    return apart / largest;
}

static void save(foci_trainable *t, const char *path, focal_dtype type)
{
    const foci_save_options options = {.type = type};
    if (foci_trainable_save(t, path, &options) != FOCAL_OK)
        fail_msg("%s: %s", path, focal_ctx_error(t->ctx));
}

/* A file of a result as text; free it. */
static char *read_text_file(const char *path, const char *name)
{
    char file[2 * PATH_BYTES];
    size_t bytes = 0;
    (void)snprintf(file, sizeof file, "%s/%s", path, name);
    char *data = read_bytes(file, &bytes), *text = new_array(bytes + 1, 1);
    memcpy(text, data, bytes);
    free(data);
    return text;
}

static bool keeps_own_name(const char *path)
{
    char *text = read_text_file(path, "config.json");
    const bool keeps = strstr(text, "\"focal_temperature\"") != NULL;
    assert_int_equal(strstr(text, "\"model_type\": \"focal_") != NULL, keeps);
    assert_int_equal(strstr(text, "\"Focal") != NULL, keeps);
    free(text);
    return keeps;
}

/* What rounding a folded weight, and the sums behind it, may move a logit by: the models here have
 * weights of a size that lets a difference of one rounding (6e-8) in a query grow by a few hundred
 * (measured: 4.4e-6 at most, with the avx2 kernels). */
static const double folded_bound = 3e-5;

/* Saves, opens, compares; the bits are the same where nothing was folded. */
static void check_saved(foci_trainable *t, const char *path, const char *name, bool folds)
{
    static answers own, read;
    save(t, path, FOCAL_F32);
    assert_int_equal(keeps_own_name(path), !folds && t->model->config.temperature.is_there);
    run_model(t->model, &own);
    run_path(t->ctx, path, &read);
    const double apart = distance(&own, &read);
    if (!(apart <= (folds ? folded_bound : 0.0))) fail_msg("%s: %g away", name, apart);
    if (!folds) assert_memory_equal(&own, &read, sizeof own);
}

static void every_family_is_the_same(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char path[PATH_BYTES], name[64];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    for (size_t n = 0; n < FOCAL_COUNT(families); n++) {
        foci_trainable *t = trainable_from(ctx, golden_model(families[n]), NULL, FOCAL_F32);
        check_saved(t, path, families[n], false);
        const bool has_head_norm = t->model->config.qk_norm == FOCI_QK_HEAD;
        foci_trainable_free(t);
        /* Each family has two kinds of its own: all are met with every way of folding. */
        for (size_t i = n % 2; i < FOCAL_COUNT(kinds); i += n == 6 || n == 7 ? 1 : 4) {
            t = trainable_from(ctx, golden_model(families[n]), &kinds[i].choice, FOCAL_F32);
            (void)snprintf(name, sizeof name, "%s, %s", families[n], kinds[i].name);
            check_saved(t, path, name,
                        has_head_norm ? kinds[i].folds_with_head_norm : kinds[i].folds);
            foci_trainable_free(t);
        }
        remove_result(path);
    }
    folder_remove(&f);
}

static void every_kind_is_the_same(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *family;
        bool is_plain;
    } models[] = {{"qwen3", true}, {"qwen3", false}, {"llama", false}, {"gpt2", false}};
    const folder f = folder_new();
    static answers without, with;
    char path[PATH_BYTES], name[64];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    for (size_t n = 0; n < FOCAL_COUNT(models); n++) {
        const bool has_head_norm = strcmp(models[n].family, "qwen3") == 0;
        foci_trainable *t = trainable_new(ctx, models[n].family, models[n].is_plain, NULL);
        check_saved(t, path, models[n].family, false);
        run_model(t->model, &without);
        foci_trainable_free(t);
        for (size_t i = 0; i < FOCAL_COUNT(kinds); i++) {
            t = trainable_new(ctx, models[n].family, models[n].is_plain, &kinds[i].choice);
            (void)snprintf(name, sizeof name, "%s, %s", models[n].family, kinds[i].name);
            check_saved(t, path, name,
                        has_head_norm ? kinds[i].folds_with_head_norm : kinds[i].folds);
            run_model(t->model, &with);
            if (!(distance(&without, &with) > 100.0 * folded_bound))
                fail_msg("%s: changes too little to be seen", name);
            foci_trainable_free(t);
        }
        remove_result(path);
    }
    folder_remove(&f);
}

static const float *tensor_of(focal_model *model, const char *name, int64_t count)
{
    const foci_tensor *t = foci_safetensors_tensor(model->safetensors, name);
    assert_non_null(t);
    assert_int_equal(t->dtype, FOCAL_F32);
    assert_int_equal(t->bytes, (size_t)count * sizeof(float));
    return t->data;
}

/* A model whose products read bfloat16 is saved by its masters, and the fold is a division. */
static void masters_are_saved(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char path[PATH_BYTES];
    focal_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    for (int is_gpt2 = 0; is_gpt2 < 2; is_gpt2++) {
        foci_trainable *t = trainable_from(ctx, golden_model(is_gpt2 ? "gpt2" : "qwen3"),
                                           &kinds[0].choice, FOCAL_BF16);
        for (int32_t n = 0; n < t->param_count; n++) /* numbers that bfloat16 cannot hold */
            for (int64_t i = 0; i < t->params[n].rows * t->params[n].cols; i++)
                t->params[n].weights[i] += 1e-4F * (float)(i % 7);
        foci_trainable_round(t);
        save(t, path, FOCAL_F32);
        assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
        const int64_t Q = (int64_t)t->model->config.H * t->model->config.D;
        for (int32_t n = 0; n < t->param_count; n++) {
            const foci_param *p = &t->params[n];
            const bool is_norm = strstr(p->name, "q_norm") != NULL;
            const bool is_fused = strstr(p->name, "c_attn") != NULL;
            const float *got = tensor_of(model, p->name, p->rows * p->cols);
            for (int64_t i = 0; i < p->rows * p->cols; i++) {
                const bool is_divided = is_norm || (is_fused && i % p->cols < Q);
                const float expected = is_divided ? p->weights[i] / 0.4F : p->weights[i];
                if (got[i] != expected) fail_msg("%s, %lld", p->name, (long long)i);
            }
        }
        focal_model_close(model);
        foci_trainable_free(t);
        remove_result(path);
    }
    folder_remove(&f);
}

/* In bfloat16 every tensor is but what is learned of a temperature. */
static void types_are_as_asked(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char path[PATH_BYTES];
    focal_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    foci_trainable *t = trainable_new(ctx, "qwen3", false, &kinds[5].choice);
    save(t, path, FOCAL_BF16);
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
    for (int64_t n = 0; n < foci_safetensors_tensor_count(model->safetensors); n++) {
        const foci_tensor *tensor = foci_safetensors_tensor_at(model->safetensors, n);
        assert_int_equal(tensor->dtype,
                         strstr(tensor->name, "temperature") ? FOCAL_F32 : FOCAL_BF16);
    }
    char *text = read_text_file(path, "config.json");
    assert_non_null(strstr(text, "\"torch_dtype\": \"bfloat16\""));
    free(text);
    assert_string_equal(focal_model_describe(model).temperature, "learned");
    focal_model_close(model);
    foci_trainable_free(t);
    remove_result(path);
    folder_remove(&f);
}

/* A llama from GGUF turns pairs of elements; a directory turns halves. */
static void gguf_models_are_turned(void **state)
{
    focal_ctx *ctx = *state;
    static answers own, read;
    const folder f = folder_new();
    char path[PATH_BYTES], gguf[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
    for (size_t n = 0; n < FOCAL_COUNT(families); n++) {
        static const size_t ways[] = {0, 3, 5}; /* constant, per head, learned */
        const struct kind_case *kind = &kinds[ways[n % FOCAL_COUNT(ways)]];
        assert_status(ctx, focal_model_export(ctx, golden_model(families[n]), gguf, NULL, NULL),
                      FOCAL_OK);
        foci_trainable *t = trainable_from(ctx, gguf, &kind->choice, FOCAL_F32);
        save(t, path, FOCAL_F32);
        run_model(t->model, &own);
        run_path(ctx, path, &read);
        if (!(distance(&own, &read) <= folded_bound))
            fail_msg("%s, %s: %g away", families[n], kind->name, distance(&own, &read));
        foci_trainable_free(t);
        remove_result(path);
        remove_result(gguf);
    }
    folder_remove(&f);
}

/* What is kept in keys of its own passes through GGUF and back. */
static void own_keys_pass_through_gguf(void **state)
{
    focal_ctx *ctx = *state;
    static answers own, read;
    const folder f = folder_new();
    char path[PATH_BYTES], gguf[PATH_BYTES], back[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    (void)snprintf(gguf, sizeof gguf, "%s", folder_file(&f, "m.gguf"));
    (void)snprintf(back, sizeof back, "%s", folder_file(&f, "back"));
    for (size_t n = 0; n < FOCAL_COUNT(kinds); n++) {
        foci_trainable *t =
            trainable_new(ctx, n % 2 == 0 ? "qwen3" : "gpt2", false, &kinds[n].choice);
        focal_model *model = NULL;
        save(t, path, FOCAL_F32);
        run_path(ctx, path, &own);
        assert_status(ctx, focal_model_export(ctx, path, gguf, NULL, NULL), FOCAL_OK);
        assert_status(ctx, focal_model_export(ctx, gguf, back, NULL, NULL), FOCAL_OK);
        assert_int_equal(keeps_own_name(path), keeps_own_name(back));
        run_path(ctx, gguf, &read); /* GPT-2 lies in another order there, and sums differ */
        if (!(distance(&own, &read) <= folded_bound))
            fail_msg("%s: %g away in GGUF", kinds[n].name, distance(&own, &read));
        run_path(ctx, back, &read);
        assert_memory_equal(&own, &read, sizeof own);
        assert_status(ctx, focal_model_open(ctx, back, NULL, &model), FOCAL_OK);
        const foci_temperature_config *a = &t->model->config.temperature;
        const foci_temperature_config *b = &model->config.temperature;
        if (b->is_there) {
            assert_int_equal(a->kind, b->kind);
            assert_memory_equal(a->layers, b->layers, sizeof a->layers);
            assert_memory_equal(a->heads, b->heads, sizeof a->heads);
            assert_true(a->c == b->c && a->length == b->length);
        }
        focal_model_close(model);
        foci_trainable_free(t);
        remove_result(path);
        remove_result(gguf);
        remove_result(back);
    }
    folder_remove(&f);
}

/* A model goes on with the temperature that it has, and with no other. */
static void temperatures_go_on(void **state)
{
    focal_ctx *ctx = *state;
    static answers own, read;
    const folder f = folder_new();
    char path[PATH_BYTES];
    focal_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    foci_trainable *t = trainable_new(ctx, "qwen3", false, &kinds[6].choice), *again = NULL;
    save(t, path, FOCAL_F32);
    run_model(t->model, &own);
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
    static const foci_temperature_choice one = {.kind = FOCI_TEMPERATURE_CONSTANT, .t = 1.0F};
    static const foci_temperature_choice *const good[] = {NULL, &one, &kinds[6].choice};
    for (size_t n = 0; n < FOCAL_COUNT(good); n++) {
        const foci_trainable_options options = {.precision = FOCAL_F32, .temperature = good[n]};
        assert_status(ctx, foci_trainable_from(model, &options, &again), FOCAL_OK);
        run_model(again->model, &read);
        assert_memory_equal(&own, &read, sizeof own);
        assert_int_equal(again->param_count, t->param_count);
        foci_trainable_free(again);
    }
    static const size_t bad[] = {0, 3, 5, 8}; /* other kinds, and learned everywhere */
    for (size_t n = 0; n < FOCAL_COUNT(bad); n++) {
        const foci_trainable_options options = {.precision = FOCAL_F32,
                                                .temperature = &kinds[bad[n]].choice};
        assert_status(ctx, foci_trainable_from(model, &options, &again), FOCAL_EINVAL);
        assert_non_null(strstr(focal_ctx_error(ctx), "kind learned, which stays"));
    }
    focal_model_close(model);
    foci_trainable_free(t);
    remove_result(path);
    folder_remove(&f);
}

/* A temperature that averages over a text can be measured and not generate. */
static void paper_does_not_generate(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char path[PATH_BYTES];
    focal_model *model = NULL;
    focal_cache *cache = NULL;
    float logits[MOST_VOCAB];
    const int32_t id = 5;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    foci_trainable *t = trainable_new(ctx, "gpt2", false, &kinds[7].choice);
    save(t, path, FOCAL_F32);
    foci_trainable_free(t);
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
    assert_string_equal(focal_model_describe(model).temperature, "learned-paper");
    assert_status(ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    const focal_batch_item item = {0, 1, &id, 1};
    const focal_forward_args args = {.item_count = 1, .items = &item, .logits = logits};
    assert_status(ctx, focal_forward(model, cache, &args), FOCAL_EUNSUPPORTED);
    assert_non_null(strstr(focal_ctx_error(ctx), "cannot generate"));
    focal_cache_free(cache);
    focal_model_close(model);
    remove_result(path);
    folder_remove(&f);
}

static void bad_configurations_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    static const char base[] =
        "\"hidden_size\": 32, \"intermediate_size\": 64, \"num_hidden_layers\": 4, "
        "\"num_attention_heads\": 4, \"vocab_size\": 96, \"max_position_embeddings\": 64";
    static const struct {
        const char *type, *temperature; /* NULL: no such member */
        const char *sentence;           /* NULL: it is good */
    } cases[] = {
        {"focal_qwen3", "{\"kind\": \"constant\", \"value\": 0.4}", NULL},
        {"focal_llama", "{\"kind\": \"learned\", \"layers\": \"0,2-3\", \"heads\": \"3\"}", NULL},
        {"focal_llama", "{\"kind\": \"length\", \"value\": 1, \"c\": 0.1, \"length\": 64}", NULL},
        {"qwen3", NULL, NULL},
        {"focal_qwen3", NULL, "focal_temperature is missing, or no object"},
        {"focal_qwen3", "null", "focal_temperature is missing, or no object"},
        {"focal_qwen3", "[]", "focal_temperature is missing, or no object"},
        {"focal_qwen3", "0.4", "focal_temperature is missing, or no object"},
        {"qwen3", "{\"kind\": \"learned\"}", "in a model of type qwen3, which has none"},
        {"focal_", "{\"kind\": \"learned\"}", "'focal_' is not one of"},
        {"focal_focal_qwen3", "{\"kind\": \"learned\"}", "is not one of"},
        {"focal_rwkv", "{\"kind\": \"learned\"}", "is not one of"},
        {"focal_qwen3", "{}", "the kind '' is not constant"},
        {"focal_qwen3", "{\"kind\": 3}", "'kind' must be a text"},
        {"focal_qwen3", "{\"kind\": \"warm\\n\"}", "the kind 'warm?' is not constant"},
        {"focal_qwen3", "{\"kind\": \"constant\"}", "'value' is missing"},
        {"focal_qwen3", "{\"kind\": \"constant\", \"value\": \"1\"}", "'value' must be a number"},
        {"focal_qwen3", "{\"kind\": \"constant\", \"value\": 0}", "'value' is 0, it must be 0.01"},
        {"focal_qwen3", "{\"kind\": \"constant\", \"value\": -1}", "'value' is -1"},
        {"focal_qwen3", "{\"kind\": \"constant\", \"value\": 1e300}", "'value' is 1e+300"},
        {"focal_qwen3", "{\"kind\": \"constant\", \"value\": 1, \"c\": 1}", "has no 'c'"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"value\": 1}", "has no 'value'"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"low\": 1}", "'low' is not understood"},
        {"focal_qwen3", "{\"kind\": \"length\", \"value\": 1}", "'c' is missing"},
        {"focal_qwen3", "{\"kind\": \"length\", \"value\": 1, \"c\": 0, \"length\": 8}",
         "'c' is 0"},
        {"focal_qwen3", "{\"kind\": \"length\", \"value\": 1, \"c\": 1, \"length\": 0}",
         "'length' is 0"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": [1]}", "'layers' must be a text"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"\"}", "below 4, as in 0,2,5-7"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"4\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"1,1\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"2,1\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"3-1\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"1-\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"1,\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"-1\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"layers\": \"0 1\"}", "below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"heads\": \"99999999999999999999\"}",
         "'heads' must be ascending numbers below 4"},
        {"focal_qwen3", "{\"kind\": \"learned\", \"heads\": \"0-4\"}", "below 4"},
    };
    for (size_t n = 0; n < FOCAL_COUNT(cases); n++) {
        char text[1024];
        foci_json *json = NULL;
        foci_config config;
        const char *member = cases[n].temperature;
        (void)snprintf(text, sizeof text, "{\"model_type\": \"%s\", %s%s%s}", cases[n].type, base,
                       member ? ", \"focal_temperature\": " : "", member ? member : "");
        assert_status(ctx, foci_json_parse(ctx, "c", text, strlen(text), &json), FOCAL_OK);
        const focal_status status = foci_config_from_json(ctx, "c", json, &config);
        foci_json_free(json);
        if (!cases[n].sentence) {
            assert_status(ctx, status, FOCAL_OK);
            assert_int_equal(config.temperature.is_there, member != NULL);
            continue;
        }
        assert_true(status == FOCAL_EFORMAT || status == FOCAL_EUNSUPPORTED);
        if (!strstr(focal_ctx_error(ctx), cases[n].sentence))
            fail_msg("%s: %s", text, focal_ctx_error(ctx));
    }
}

/* Learned tensors that are missing, too many, or of no use. */
static void bad_tensors_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    char path[PATH_BYTES], file[PATH_BYTES + 16];
    focal_model *model = NULL;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    (void)snprintf(file, sizeof file, "%s/config.json", path);
    foci_trainable *t = trainable_new(ctx, "qwen3", false, &kinds[4].choice);
    save(t, path, FOCAL_F32);
    char *text = read_text_file(path, "config.json"), *layers = strstr(text, "\"1\"");
    assert_non_null(layers);
    layers[1] = '0';
    write_bytes(file, text, strlen(text));
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_EFORMAT);
    assert_non_null(
        strstr(focal_ctx_error(ctx), "'model.layers.0.self_attn.temperature.lt' is missing"));
    free(text);
    for (int is_nan = 0; is_nan < 2; is_nan++) {
        for (int32_t n = 0; n < t->param_count; n++)
            if (strstr(t->params[n].name, "temperature.lt"))
                t->params[n].weights[1] = is_nan ? NAN : 200.0F;
        save(t, path, FOCAL_F32);
        assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_EFORMAT);
        assert_non_null(strstr(focal_ctx_error(ctx),
                               is_nan ? "is not a number" : "logarithm of a temperature is 200"));
    }
    foci_trainable_free(t);
    remove_result(path);
    folder_remove(&f);
}

static const char *golden_tokenizer_path(void)
{
    static char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/golden/tokenizers/gpt2.json", FOCAL_TEST_DIR);
    return path;
}

/* The tokenizer, what is said of it, and a context. */
static void tokenizers_come_along(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new(), source = folder_new();
    char path[PATH_BYTES];
    focal_model *model = NULL;
    size_t bytes = 0;
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    char *tokenizer = read_bytes(golden_tokenizer_path(), &bytes);
    write_bytes(folder_file(&source, "own.json"), tokenizer, bytes);
    free(tokenizer);
    foci_trainable *t = trainable_new(ctx, "qwen3", true, &kinds[0].choice);
    const foci_save_options options = {
        .type = FOCAL_BF16, .tokenizer = folder_file(&source, "own.json"), .context = 1000};
    assert_status(ctx, foci_trainable_save(t, path, &options), FOCAL_OK);
    char *text = read_text_file(path, "tokenizer_config.json");
    assert_non_null(strstr(text, "\"tokenizer_class\": \"PreTrainedTokenizerFast\""));
    assert_non_null(strstr(text, "\"model_max_length\": 1000"));
    free(text);
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
    assert_int_equal(focal_model_describe(model).context, 1000);
    assert_int_equal(focal_tokenizer_size(focal_model_tokenizer(model)), 420);
    focal_model_close(model);
    /* One that says itself what it is. */
    static const char config[] = "{\"eos_token\": \"<|end|>\", \"chat_template\": \"x\"}";
    write_bytes(folder_file(&source, "tokenizer_config.json"), config, strlen(config));
    assert_status(ctx, foci_trainable_save(t, path, &options), FOCAL_OK);
    text = read_text_file(path, "tokenizer_config.json");
    assert_string_equal(text, config);
    free(text);
    text = read_text_file(path, "config.json");
    assert_non_null(strstr(text, "\"eos_token_id\": 1"));
    free(text);
    /* GPT-2 has as many positions as it has. */
    foci_trainable_free(t);
    t = trainable_new(ctx, "gpt2", false, NULL);
    assert_status(ctx, foci_trainable_save(t, path, &options), FOCAL_OK);
    assert_status(ctx, focal_model_open(ctx, path, NULL, &model), FOCAL_OK);
    assert_int_equal(focal_model_describe(model).context, 64);
    focal_model_close(model);
    foci_trainable_free(t);
    /* A vocabulary of 96 is too small for it. */
    t = trainable_from(ctx, golden_model("llama"), NULL, FOCAL_F32);
    assert_status(ctx, foci_trainable_save(t, path, &options), FOCAL_EINVAL);
    assert_non_null(strstr(focal_ctx_error(ctx), "a tokenizer of 420 ids, a model of 96"));
    foci_trainable_free(t);
    remove_result(path);
    folder_remove(&f);
    folder_remove(&source);
}

static void bad_calls_are_refused(void **state)
{
    focal_ctx *ctx = *state;
    foci_trainable *t = trainable_new(ctx, "llama", false, NULL);
    const foci_save_options type = {.type = FOCAL_Q8_0}, context = {.context = -1},
                            tokenizer = {.tokenizer = "/nonexistent/tokenizer.json"};
    assert_status(ctx, foci_trainable_save(t, "", NULL), FOCAL_EINVAL);
    assert_status(ctx, foci_trainable_save(t, "x", &type), FOCAL_EINVAL);
    assert_status(ctx, foci_trainable_save(t, "x", &context), FOCAL_EINVAL);
    assert_status(ctx, foci_trainable_save(t, "/tmp/x", &tokenizer), FOCAL_EIO);
    assert_status(ctx, foci_trainable_save(t, "/nonexistent/x", NULL), FOCAL_EIO);
    assert_status(ctx, foci_trainable_check_save(t), FOCAL_OK);
    t->model->config.is_local[0] = true; /* transformers' llama has no windows */
    assert_status(ctx, foci_trainable_check_save(t), FOCAL_EUNSUPPORTED);
    foci_trainable_free(t);
}

/* Every byte at which a disk may be full, and every allocation, leaves the result that was there.
 */
static void failures_leave_the_old_result(void **state)
{
    focal_ctx *ctx = *state;
    static answers old, read;
    const folder f = folder_new();
    struct rlimit before;
    char path[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    foci_trainable *t = trainable_new(ctx, "qwen3", false, &kinds[5].choice);
    save(t, path, FOCAL_F32);
    run_path(ctx, path, &old);
    foci_trainable_free(t);
    t = trainable_new(ctx, "llama", false, &kinds[3].choice);
    const foci_save_options options = {.type = FOCAL_BF16, .tokenizer = golden_tokenizer_path()};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    for (rlim_t limit = 0; limit < 60000; limit = 3 * limit + 100) {
        const struct rlimit small = {limit, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        const focal_status status = foci_trainable_save(t, path, &options);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_status(ctx, status, FOCAL_EIO);
        assert_int_equal(folder_count(&f), 1);
    }
    (void)signal(SIGXFSZ, handler);
    run_path(ctx, path, &read);
    assert_memory_equal(&old, &read, sizeof old);
    focal_status status = FOCAL_ENOMEM;
    for (int64_t n = 1; status != FOCAL_OK; n++) {
        const int64_t live = memory_live_blocks();
        memory_fail(n, false);
        status = foci_trainable_save(t, path, &options);
        memory_fail(0, false);
        if (status != FOCAL_OK) assert_int_equal(status, FOCAL_ENOMEM);
        assert_int_equal(folder_count(&f), 1);
        focal_ctx_trim(ctx);
        assert_true(memory_live_blocks() <= live);
        assert_in_range(n, 1, 100000);
    }
    foci_trainable_free(t);
    remove_result(path);
    folder_remove(&f);
}

/* The new result takes the place of the old; what else is there stays. */
static void results_are_replaced(void **state)
{
    focal_ctx *ctx = *state;
    static answers own, read;
    const folder f = folder_new();
    char path[PATH_BYTES], note[PATH_BYTES + 16];
    (void)snprintf(path, sizeof path, "%s", folder_file(&f, "m"));
    (void)snprintf(note, sizeof note, "%s/notes.txt", path);
    const foci_save_options options = {.tokenizer = golden_tokenizer_path()};
    foci_trainable *t = trainable_new(ctx, "qwen3", false, &kinds[5].choice);
    assert_status(ctx, foci_trainable_save(t, path, &options), FOCAL_OK);
    write_bytes(note, "mine", 4);
    foci_trainable_free(t);
    t = trainable_new(ctx, "gpt2", false, &kinds[0].choice);
    char slashes[PATH_BYTES + 4];
    (void)snprintf(slashes, sizeof slashes, "%s//", path);
    save(t, slashes, FOCAL_F32); /* has no tokenizer: the old one must go */
    assert_int_equal(folder_count(&f), 1);
    run_model(t->model, &own);
    run_path(ctx, path, &read);
    assert_true(distance(&own, &read) <= folded_bound);
    assert_int_equal(access(note, F_OK), 0);
    (void)snprintf(note, sizeof note, "%s/tokenizer.json", path);
    assert_int_equal(access(note, F_OK), -1);
    foci_trainable_free(t);
    remove_result(path);
    folder_remove(&f);
}

/* What tools/check_trained.py runs in other programs, in the folder that FOCAL_TEST_SAVE names. */
static void results_for_other_programs(void **state)
{
    focal_ctx *ctx = *state;
    static const struct {
        const char *name, *family;
        bool is_plain;
        size_t kind;
    } models[] = {{"plain", "qwen3", true, 0},
                  {"gain", "qwen3", false, 0},
                  {"none", "llama", false, 0},
                  {"gpt2", "gpt2", false, 0},
                  {"learned", "qwen3", false, 5}};
    const folder f = folder_new();
    const char *target = getenv("FOCAL_TEST_SAVE");
    const foci_save_options options = {.type = FOCAL_F32, .tokenizer = golden_tokenizer_path()};
    for (size_t n = 0; n < FOCAL_COUNT(models); n++) {
        char path[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%s/%s", target ? target : f.path, models[n].name);
        foci_trainable *t =
            trainable_new(ctx, models[n].family, models[n].is_plain, &kinds[models[n].kind].choice);
        assert_status(ctx, foci_trainable_save(t, path, &options), FOCAL_OK);
        assert_int_equal(keeps_own_name(path), models[n].kind != 0);
        foci_trainable_free(t);
        if (!target) remove_result(path);
    }
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_family_is_the_same, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(every_kind_is_the_same, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(masters_are_saved, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(types_are_as_asked, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(gguf_models_are_turned, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(own_keys_pass_through_gguf, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(temperatures_go_on, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(paper_does_not_generate, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_configurations_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_tensors_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(tokenizers_come_along, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(bad_calls_are_refused, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(failures_leave_the_old_result, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(results_are_replaced, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(results_for_other_programs, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("save", tests, NULL, NULL);
}
