/* The model that a run leaves: in the type that its products read, which is what it was trained
 * to compute with. */
#include "train/result.h"

#include "model/save.h"

focal_status foci_check_result(const foci_start *start)
{
    return foci_trainable_check_save(start->trainable);
}

focal_status foci_write_result(const foci_start *start, const char *folder)
{
    const foci_save_options options = {.type = start->trainable->model->precision,
                                       .tokenizer = start->tokenizer_path};
    return foci_trainable_save(start->trainable, folder, &options);
}
