/* The end of the forward pass and the beginning of the way back: logits, the loss and its gradient,
 * some rows at a time, so that no array has a row a token and a column an entry of the vocabulary
 * (docs/MATH.md, 4.4 and 6.1). */
#include <string.h>

#include "base/error.h"
#include "base/sizes.h"
#include "model/backward_pass.h"
#include "ops/loss/loss.h"
#include "ops/loss/loss_backward.h"
#include "ops/loss/soft_cap.h"

static void add_losses(const foci_pass *p, int32_t first, int32_t count)
{
    for (int32_t n = 0; n < count; n++) {
        p->loss->nll += p->nll[n];
        p->loss->targets += p->batch->targets[first + n] != FOCI_LOSS_NO_TARGET;
    }
}

/* Rows of logits, as the model gives them: p->T of them. */
static focal_status make_logits(const foci_pass *p, const void *h, float *logits)
{
    const foci_config *c = &p->model->config;
    FOCAL_TRY(foci_pass_multiply(p, "vocabulary", &p->model->weights.head, h, logits, c->V, false));
    if (c->final_softcap == 0.0F) return FOCAL_OK;
    return foci_soft_cap(p->ctx, logits, (int64_t)p->T * c->V, c->final_softcap);
}

/* Those of the student, and behind them the teacher's: one product, for which the weights of the
 * vocabulary are expanded once. */
static focal_status make_both_logits(const foci_pass *p, const void *student, const void *teacher)
{
    const size_t bytes = (size_t)p->T * (size_t)p->model->config.C * focal_dtype_bytes(p->act);
    foci_pass both = *p;
    both.T = 2 * p->T;
    memcpy(p->h_both, student, bytes);
    memcpy((char *)p->h_both + bytes, teacher, bytes);
    return make_logits(&both, p->h_both, p->logits);
}

static focal_status count_loss(const foci_pass *p, int32_t first)
{
    const foci_loss_args args = {.T = p->T,
                                 .V = p->model->config.V,
                                 .logits = p->logits,
                                 .targets = p->batch->targets + first,
                                 .nll = p->nll};
    TIMED(p, "loss", 0.0, foci_log_softmax_rows(p->ctx, &args));
    add_losses(p, first, p->T);
    return FOCAL_OK;
}

static focal_status loss_back(const foci_pass *p, int32_t first)
{
    const foci_config *c = &p->model->config;
    const foci_loss_backward_args args = {.T = p->T,
                                          .V = c->V,
                                          .logits = p->logits,
                                          .targets = p->batch->targets + first,
                                          .scale = p->options->scale,
                                          .z = p->options->z,
                                          .soft_cap = c->final_softcap,
                                          .dlogits = p->dlogits,
                                          .dlogits_dtype = p->act,
                                          .nll = p->nll};
    TIMED(p, "loss", 0.0, foci_loss_backward(p->ctx, &args));
    add_losses(p, first, p->T);
    return FOCAL_OK;
}

/* The divergence of `count` neighbouring rows from row `at` of the chunk on. */
static focal_status kl_back(const foci_pass *p, int32_t at, int32_t count)
{
    const foci_config *c = &p->model->config;
    const int64_t offset = (int64_t)at * c->V, behind = (int64_t)p->T * c->V;
    const foci_kl_args args = {.T = count,
                               .V = c->V,
                               .teacher = p->logits + behind + offset,
                               .student = p->logits + offset,
                               .scale = p->options->scale,
                               .soft_cap = c->final_softcap,
                               .dlogits =
                                   (char *)p->dlogits + offset * (int64_t)focal_dtype_bytes(p->act),
                               .dlogits_dtype = p->act,
                               .kl = p->nll};
    TIMED(p, "divergence", 0.0, foci_kl_backward(p->ctx, &args));
    for (int32_t n = 0; n < count; n++) p->loss->kl += p->nll[n];
    p->loss->kl_rows += count;
    return FOCAL_OK;
}

/* Rows without a target stand between the others and have no gradient. */
static focal_status kl_rows_back(const foci_pass *p, int32_t first)
{
    const int32_t *targets = p->batch->targets + first;
    const size_t row_bytes = (size_t)p->model->config.V * focal_dtype_bytes(p->act);
    for (int32_t row = 0, end; row < p->T; row = end) {
        const bool has_target = targets[row] != FOCI_LOSS_NO_TARGET;
        end = row + 1;
        while (end < p->T && (targets[end] != FOCI_LOSS_NO_TARGET) == has_target) end++;
        if (has_target)
            FOCAL_TRY(kl_back(p, row, end - row));
        else
            memset((char *)p->dlogits + (size_t)row * row_bytes, 0,
                   (size_t)(end - row) * row_bytes);
    }
    return FOCAL_OK;
}

/* The losses of rows [first, first + p->T), and what they give to the head and, in dh, to what it
 * read. */
static focal_status head_rows(const foci_pass *p, int32_t first)
{
    const foci_config *c = &p->model->config;
    const foci_linear *w = &p->model->weights.head;
    const int64_t at = (int64_t)first * c->C * (int64_t)focal_dtype_bytes(p->act);
    const char *h = (const char *)p->h_last + at;
    if (p->options->is_kl) {
        FOCAL_TRY(make_both_logits(p, h, (const char *)p->h_teacher + at));
        FOCAL_TRY(count_loss(p, first));
        FOCAL_TRY(kl_rows_back(p, first));
    } else {
        FOCAL_TRY(make_logits(p, h, p->logits));
        FOCAL_TRY(p->options->is_loss_only ? count_loss(p, first) : loss_back(p, first));
    }
    if (p->options->is_loss_only) return FOCAL_OK;
    FOCAL_TRY(
        foci_pass_weight_gradient(p, "vocabulary, weights", w, &p->t->head, p->dlogits, c->V, h));
    return foci_pass_multiply_back(p, "vocabulary, back", w, p->dlogits, c->V,
                                   p->dh + (int64_t)first * c->C, FOCAL_F32, false);
}

focal_status foci_pass_head_input(const foci_pass *p, void *h)
{
    return foci_pass_normalise(p, &p->model->weights.final_norm, p->x[p->model->config.L], h,
                               p->act);
}

focal_status foci_pass_head(const foci_pass *p)
{
    const int32_t L = p->model->config.L;
    FOCAL_TRY(foci_pass_head_input(p, p->h_last));
    for (int32_t row = 0; row < p->T; row += p->head_rows) {
        foci_pass rows = *p;
        rows.T = (int32_t)foci_min64(p->T - row, p->head_rows);
        FOCAL_TRY(head_rows(&rows, row));
    }
    if (p->options->is_loss_only) return FOCAL_OK;
    return foci_pass_normalise_back(p, &p->model->weights.final_norm, &p->t->final_norm, p->x[L],
                                    p->dh, p->dx, false);
}
