/* Low-rank additions as what learns, on a model whose weights stay as they are. */
#include <stdio.h>
#include <string.h>

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"
#include "model/low_rank_model.h"
#include "model/trainable.h"

static focal_status check_fit(focal_model *model, const foci_low_ranks *low_ranks)
{
    const foci_weight_names names = foci_weight_names_hf(&model->config);
    if (model->low_ranks)
        return foci_fail(model->ctx, FOCAL_EINVAL, "lora: the model has additions already");
    if (low_ranks->L != model->config.L)
        return foci_fail(model->ctx, FOCAL_EINVAL, "lora: made for %d layers, the model has %d",
                         low_ranks->L, model->config.L);
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int at = 0; at < FOCI_LINEAR_PLACES; at++) {
            const foci_linear_place place = (foci_linear_place)at;
            const foci_low_rank *low = &low_ranks->layers[n][place];
            const foci_linear *w = foci_layer_linear(&model->weights.layers[n], place);
            const char *part = foci_weight_names_part(&names, place);
            if (low->a && (!w->w || low->N != w->N || low->K != w->K))
                return foci_fail(model->ctx, FOCAL_EINVAL,
                                 "lora: %d x %d for layer %d's %s, which is %d x %d in the model",
                                 low->N, low->K, n, part ? part : "missing part", w->N, w->K);
        }
    return FOCAL_OK;
}

static void count_tensors(const foci_low_ranks *low_ranks, size_t *tensors, size_t *floats)
{
    for (int32_t n = 0; n < low_ranks->L; n++)
        for (int place = 0; place < FOCI_LINEAR_PLACES; place++) {
            const foci_low_rank *low = &low_ranks->layers[n][place];
            if (!low->a) continue;
            *tensors += 2;
            *floats += (size_t)foci_round_up((int64_t)low->rank * low->K, FOCI_PARAM_STEP) +
                       (size_t)foci_round_up((int64_t)low->rank * low->N, FOCI_PARAM_STEP);
        }
}

static float *add_tensor(foci_trainable *t, int32_t layer, const char *part, const char *suffix,
                         float *weights, int64_t rows, int64_t cols)
{
    foci_param *param = &t->params[t->param_count++];
    *param = (foci_param){.rows = rows,
                          .cols = cols,
                          .is_in_layer = true,
                          .gradient = t->gradients + t->gradient_count};
    param->weights = weights;
    (void)snprintf(param->name, sizeof param->name, "layers.%d.%s.%s", layer, part, suffix);
    t->gradient_count += (size_t)foci_round_up(rows * cols, FOCI_PARAM_STEP);
    return param->gradient;
}

static foci_linear_grads *grads_of(foci_layer_grads *g, foci_linear_place place)
{
    static const size_t offsets[FOCI_LINEAR_PLACES] = FOCI_LINEAR_OFFSETS(foci_layer_grads);
    return (foci_linear_grads *)(void *)((char *)g + offsets[place]);
}

static void add_all(foci_trainable *t)
{
    const foci_weight_names names = foci_weight_names_hf(&t->model->config);
    for (int32_t n = 0; n < t->low_ranks->L; n++)
        for (int at = 0; at < FOCI_LINEAR_PLACES; at++) {
            const foci_linear_place place = (foci_linear_place)at;
            const foci_low_rank *low = &t->low_ranks->layers[n][place];
            if (!low->a) continue;
            const char *part = foci_weight_names_part(&names, place);
            foci_linear_grads *grads = grads_of(&t->layers[n], place);
            grads->low_a = add_tensor(t, n, part, "lora_A", low->a, low->rank, low->K);
            grads->low_b = add_tensor(t, n, part, "lora_B", low->b, low->N, low->rank);
        }
}

focal_status foci_trainable_low_ranks(focal_model *model, foci_low_ranks *low_ranks,
                                      foci_trainable **out)
{
    size_t tensors = 0, floats = 0;
    *out = NULL;
    FOCAL_TRY(check_fit(model, low_ranks));
    count_tensors(low_ranks, &tensors, &floats);
    foci_trainable *t = foci_trainable_zeros(model->ctx, 1, sizeof *t);
    if (!t) return FOCAL_ENOMEM;
    t->ctx = model->ctx;
    t->model = model;
    t->is_frozen = true;
    t->layers = foci_trainable_zeros(t->ctx, (size_t)model->config.L, sizeof *t->layers);
    t->params = foci_trainable_zeros(t->ctx, tensors, sizeof *t->params);
    t->gradients = foci_trainable_zeros(t->ctx, floats, sizeof *t->gradients);
    if (!t->layers || !t->params || !t->gradients) {
        foci_trainable_free(t);
        return FOCAL_ENOMEM;
    }
    t->low_ranks = low_ranks;
    add_all(t);
    foci_model_set_low_ranks(model, low_ranks);
    *out = t;
    return FOCAL_OK;
}
