/* A loaded model computes what its file says, whatever order its weights are put into, and the file
 * stays as it is. */
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ctx.h"
#include "focal/export.h"
#include "model/model.h"
#include "model/save.h"
#include "model/trainable.h"
#include "ops/matmul/matmul.h"
#include "support/folder.h"

enum { VOCAB = 272, TOKENS = 90, PATH_BYTES = 512 };

/* Every type that has rows in groups, and one that has not. */
static const focal_dtype types[] = {FOCAL_Q4_0, FOCAL_Q4_1, FOCAL_Q5_0, FOCAL_Q5_1,
                                    FOCAL_Q8_0, FOCAL_Q2_K, FOCAL_Q3_K, FOCAL_Q4_K,
                                    FOCAL_Q5_K, FOCAL_Q6_K, FOCAL_BF16};

/* A new model as a file of that type. Rows of 256 elements are whole blocks of each; q, k and v
 * have 128 and 64, the vocabulary 272: whole groups all. */
static void write_model(focal_ctx *ctx, const folder *f, bool is_tied, focal_dtype dtype,
                        char path[PATH_BYTES])
{
    const foci_shape shape = {.family = foci_family_of_hf("llama"),
                              .L = 2,
                              .C = 256,
                              .H = 4,
                              .G = 2,
                              .D = 64,
                              .F = 512,
                              .V = VOCAB,
                              .context = 128,
                              .rope_base = 10000.0,
                              .is_tied = is_tied};
    const foci_trainable_options options = {.precision = FOCAL_F32};
    const focal_export_options as = {.type = dtype, .has_type = true, .replaces = true};
    char dir[PATH_BYTES];
    foci_config config;
    foci_trainable *t = NULL;
    (void)snprintf(dir, sizeof dir, "%s", folder_file(f, "m"));
    (void)snprintf(path, PATH_BYTES, "%s", folder_file(f, "m.gguf"));
    assert_status(ctx, foci_config_new(ctx, &shape, &config), FOCAL_OK);
    assert_status(ctx, foci_trainable_new(ctx, &config, 3, &options, &t), FOCAL_OK);
    for (int32_t n = 0; n < t->param_count; n++)
        for (int64_t i = 0; t->params[n].is_matrix && i < t->params[n].rows * t->params[n].cols;
             i++)
            t->params[n].weights[i] *= 4.0F;
    const foci_save_options saved = {.type = FOCAL_F32};
    assert_status(ctx, foci_trainable_save(t, dir, &saved), FOCAL_OK);
    foci_trainable_free(t);
    assert_status(ctx, focal_model_export(ctx, dir, path, &as, NULL), FOCAL_OK);
    folder made;
    assert_in_range(snprintf(made.path, sizeof made.path, "%s", dir), 1, sizeof made.path - 1);
    folder_remove(&made);
}

static focal_model *open_model(focal_ctx *ctx, const char *path, focal_dtype precision)
{
    const focal_model_options options = {precision, true};
    focal_model *model = NULL;
    assert_status(ctx, focal_model_open(ctx, path, &options, &model), FOCAL_OK);
    return model;
}

/* Logits of a text that is read as a prompt of many rows, one of few, and token by token. */
static void run_model(focal_model *model, void *logits)
{
    static const int32_t parts[] = {70, 7, 2, 1, 1, 1, 8};
    focal_cache *cache = NULL;
    int32_t ids[TOKENS], done = 0;
    for (int32_t n = 0; n < TOKENS; n++) ids[n] = (37 * n + 11) % VOCAB;
    assert_status(model->ctx, focal_cache_new(model, NULL, &cache), FOCAL_OK);
    for (size_t n = 0; n < FOCAL_COUNT(parts); n++) {
        const focal_batch_item item = {0, parts[n], ids + done, parts[n]};
        const focal_forward_args args = {
            .item_count = 1, .items = &item, .logits = (float *)logits + (ptrdiff_t)done * VOCAB};
        assert_status(model->ctx, focal_forward(model, cache, &args), FOCAL_OK);
        done += parts[n];
    }
    assert_int_equal(done, TOKENS);
    focal_cache_free(cache);
}

/* Sums are made in another order: attention, which reads bfloat16, may round a number the other
 * way, and that is all. */
static void assert_logits_near(const float *a, const float *b)
{
    double most = 0.0, apart = 0.0;
    for (int n = 0; n < TOKENS * VOCAB; n++) {
        most = fmax(most, fabs((double)a[n]));
        apart = fmax(apart, fabs((double)a[n] - (double)b[n]));
    }
    if (!(apart <= 3e-3 * most)) fail_msg("logits differ by %g of %g", apart, most);
}

static void assert_order(const foci_linear *w, bool is_interleaved)
{
    assert_non_null(w->w);
    assert_int_equal(w->is_interleaved, is_interleaved);
}

/* Matrices of products are rearranged where the kernels want that; a table of embeddings only when
 * it is one of them. */
static void check_orders(const focal_model *model, focal_dtype dtype, bool is_fast)
{
    const foci_model_weights *w = &model->weights;
    const bool is_wanted =
        is_fast && foci_matmul_wants_interleaved(model->ctx, dtype, VOCAB, model->config.C);
    for (int32_t n = 0; n < model->config.L; n++) {
        const foci_layer *l = &w->layers[n];
        const foci_linear *const linears[] = {&l->q,    &l->k,  &l->v,   &l->out,
                                              &l->gate, &l->up, &l->down};
        for (size_t i = 0; i < FOCAL_COUNT(linears); i++) assert_order(linears[i], is_wanted);
    }
    assert_order(&w->head, is_wanted);
    assert_order(&w->embed, is_wanted && w->is_tied);
}

static void check_trainables(focal_model *model, focal_model *loaded)
{
    const foci_trainable_options options = {.precision = FOCAL_F32};
    foci_trainable *a = NULL, *b = NULL;
    assert_status(model->ctx, foci_trainable_from(model, &options, &a), FOCAL_OK);
    assert_status(model->ctx, foci_trainable_from(loaded, &options, &b), FOCAL_OK);
    assert_int_equal(a->weight_count, b->weight_count);
    assert_memory_equal(a->weights, b->weights, a->weight_count * sizeof *a->weights);
    foci_trainable_free(a);
    foci_trainable_free(b);
}

static void loaded_models_compute_the_same(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    float *plain = new_array((size_t)TOKENS * VOCAB, sizeof *plain);
    float *got = new_array((size_t)TOKENS * VOCAB, sizeof *got);
    for (size_t n = 0; n < FOCAL_COUNT(types); n++) {
        char path[PATH_BYTES];
        write_model(ctx, &f, n % 2 == 0, types[n], path);
        size_t bytes = 0, bytes_after = 0;
        char *before = read_bytes(path, &bytes);
        focal_model *model = open_model(ctx, path, FOCAL_BF16);
        focal_model *loaded = open_model(ctx, path, FOCAL_BF16);
        check_orders(loaded, types[n], false);
        const bool is_loaded = focal_model_load(loaded);
        if (is_loaded) check_orders(loaded, types[n], true);
        run_model(model, plain);
        run_model(loaded, got);
        assert_logits_near(plain, got);
        assert_int_equal(focal_model_load(loaded), is_loaded); /* again: nothing moves twice */
        run_model(loaded, plain);
        assert_memory_equal(plain, got, (size_t)TOKENS * VOCAB * sizeof *got);
        check_trainables(model, loaded);
        char *after = read_bytes(path, &bytes_after);
        assert_int_equal(bytes, bytes_after);
        assert_memory_equal(before, after, bytes);
        free(before);
        free(after);
        focal_model_close(model);
        focal_model_close(loaded);
    }
    free(plain);
    free(got);
    folder_remove(&f);
}

/* float32 meets no weight as an integer, nor do kernels without byte products: both keep the file's
 * order and every bit of what they computed. */
static void others_keep_the_files_order(void **state)
{
    focal_ctx *ctx = *state;
    const folder f = folder_new();
    float *plain = new_array((size_t)TOKENS * VOCAB, sizeof *plain);
    float *got = new_array((size_t)TOKENS * VOCAB, sizeof *got);
    char path[PATH_BYTES];
    write_model(ctx, &f, true, FOCAL_Q4_1, path);
    for (int n = 0; n < 2; n++) {
        if (n == 1) foci_ctx_mask_features(ctx, FOCI_AVX2);
        focal_model *model = open_model(ctx, path, n == 0 ? FOCAL_F32 : FOCAL_BF16);
        run_model(model, plain);
        (void)focal_model_load(model);
        check_orders(model, FOCAL_Q4_1, false);
        run_model(model, got);
        assert_memory_equal(plain, got, (size_t)TOKENS * VOCAB * sizeof *got);
        focal_model_close(model);
    }
    free(plain);
    free(got);
    folder_remove(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loaded_models_compute_the_same, open_ctx, close_ctx),
        cmocka_unit_test_setup_teardown(others_keep_the_files_order, open_ctx, close_ctx),
    };
    return cmocka_run_group_tests_name("load", tests, NULL, NULL);
}
