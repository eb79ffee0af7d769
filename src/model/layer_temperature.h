/* The temperature of a layer where groups may bring a second one: theirs acts in place of 1, or
 * multiplies the constant that the model was trained with. */
#ifndef FOCI_MODEL_LAYER_TEMPERATURE_H
#define FOCI_MODEL_LAYER_TEMPERATURE_H

#include "model/model.h"

typedef struct foci_layer_temperature {
    const foci_temperature *acts; /* NULL: 1 */
    float root;                   /* what it multiplies (foci_temperature_args) */
} foci_layer_temperature;

/* of_groups: (L), NULL: the model's own temperature acts alone. */
foci_layer_temperature foci_layer_temperature_of(const focal_model *model, int32_t layer,
                                                 const foci_temperature *of_groups);

/* FOCAL_EUNSUPPORTED, beginning with `what`, when the model has a temperature that theirs cannot
 * multiply: one that is not a constant for all heads. */
focal_status foci_check_second_temperature(const focal_model *model, const char *what);

#endif /* FOCI_MODEL_LAYER_TEMPERATURE_H */
