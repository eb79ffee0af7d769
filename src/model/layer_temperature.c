/* One temperature, or the product of two. */
#include "model/layer_temperature.h"

#include "base/error.h"

foci_layer_temperature foci_layer_temperature_of(const focal_model *model, int32_t layer,
                                                 const foci_temperature *of_groups)
{
    const foci_temperature *own = model->weights.layers[layer].temperature;
    const float root = 1.0F / model->config.attn_scale;
    if (!of_groups) return (foci_layer_temperature){own, root};
    const float constant = own && own->t != 0.0F ? own->t : 1.0F;
    return (foci_layer_temperature){&of_groups[layer], constant * root};
}

focal_status foci_check_second_temperature(const focal_model *model, const char *what)
{
    for (int32_t n = 0; n < model->config.L; n++) {
        const foci_temperature *own = model->weights.layers[n].temperature;
        if (own && (own->kind != FOCI_TEMPERATURE_CONSTANT || own->heads))
            return foci_fail(model->ctx, FOCAL_EUNSUPPORTED,
                             "%s: the model has a temperature of kind %s in layer %d, which takes "
                             "none of groups beside it",
                             what, foci_temperature_kind_name(own->kind), n);
    }
    return FOCAL_OK;
}
