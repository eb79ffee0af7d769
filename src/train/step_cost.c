/* Operations of a step, counted by the shapes. */
#include "train/step_cost.h"

int64_t foci_parameter_count(const foci_trainable *trainable)
{
    int64_t count = 0;
    for (int32_t n = 0; n < trainable->param_count; n++)
        count += trainable->params[n].rows * trainable->params[n].cols;
    return count;
}

double foci_step_flops(const foci_trainable *trainable, bool has_teacher, double tokens,
                       double pairs)
{
    const foci_config *c = &trainable->model->config;
    const double each = 6.0 - (trainable->is_frozen ? 2.0 : 0.0) + (has_teacher ? 2.0 : 0.0);
    double products = (double)c->V * c->C;
    if (trainable->is_frozen)
        products += 0.5 * (double)focal_model_describe(trainable->model).layer_flops;
    for (int32_t n = 0; n < trainable->param_count; n++) {
        const foci_param *param = &trainable->params[n];
        if (param->is_matrix && param->is_in_layer)
            products += (double)param->rows * (double)param->cols;
    }
    return each * tokens * products + 14.0 * c->D * c->H * c->L * pairs;
}
