/* What a model is, for focal info. */
#ifndef CLI_INFO_MODEL_H
#define CLI_INFO_MODEL_H

#include "focal/model.h"

/* On stdout: lines that a person reads, or one JSON object. */
void info_print_model(const focal_model *model, bool is_json);

#endif /* CLI_INFO_MODEL_H */
