/* Loading a model: its file into memory, and there the matrices into the order in which a few rows
 * meet them fastest. */
#include <string.h>

#include "base/error.h"
#include "model/model.h"
#include "ops/interleave.h"
#include "ops/matmul/matmul.h"

/* Where kernels gain by it; without memory to do it the matrix stays as it is. */
static void interleave(focal_ctx *ctx, foci_linear *w)
{
    if (!w->w || w->is_transposed || w->is_interleaved ||
        !foci_matmul_wants_interleaved(ctx, w->dtype, w->N, w->K))
        return;
    void *rows; /* loaded memory, which is ours, without the const */
    memcpy(&rows, &w->w, sizeof rows);
    w->is_interleaved = foci_interleave(ctx, w->dtype, w->N, w->K, rows) == FOCAL_OK;
}

/* Every matrix of a product: not the embedding, unless it is the head too. */
static void interleave_all(focal_model *model)
{
    foci_model_weights *w = &model->weights;
    for (int32_t n = 0; n < model->config.L; n++) {
        foci_layer *layer = &w->layers[n];
        foci_linear *const linears[] = {&layer->qkv, &layer->q,  &layer->k,    &layer->v,
                                        &layer->out, &layer->up, &layer->gate, &layer->down};
        for (size_t i = 0; i < FOCAL_COUNT(linears); i++) interleave(model->ctx, linears[i]);
    }
    interleave(model->ctx, &w->head);
    if (w->is_tied) w->embed.is_interleaved = w->head.is_interleaved;
}

bool focal_model_load(focal_model *model)
{
    if (!model->gguf) return foci_safetensors_load(model->safetensors); /* nothing quantised */
    if (!foci_gguf_load(model->gguf)) return false;
    /* Only the fast path meets weights as integers. */
    if (model->precision == FOCAL_BF16 && foci_gguf_set_writable(model->gguf, true))
        interleave_all(model);
    (void)foci_gguf_set_writable(model->gguf, false);
    return true;
}
