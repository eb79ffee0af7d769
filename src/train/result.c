/* What a run leaves: the model in the type that its products read, which is what it was trained to
 * compute with, and the groups as an adapter for that. */
#include "train/result.h"

#include <unistd.h>

#include "base/error.h"
#include "focal/adapter.h"
#include "model/save.h"
#include "train/group_result.h"

focal_status foci_check_result(const foci_start *start)
{
    return start->model ? FOCAL_OK : foci_trainable_check_save(start->trainable);
}

/* The adapter names the model by what it is in its files. */
static focal_status write_beside(const foci_start *start, const foci_run *run, int64_t step,
                                 int64_t tokens, const foci_run_folder *folder)
{
    focal_model *model = NULL;
    FOCAL_TRY(focal_model_open(start->ctx, folder->model, NULL, &model));
    const focal_status status =
        foci_write_adapter(start, run, step, tokens, model, folder->adapter);
    focal_model_close(model);
    return status;
}

/* One whose tensors are gone or damaged is none. */
static bool has_adapter(focal_ctx *ctx, const char *path)
{
    focal_adapter *adapter = NULL;
    const focal_status status = focal_adapter_open(ctx, path, &adapter);
    focal_adapter_close(adapter);
    return status == FOCAL_OK;
}

bool foci_has_result(const foci_start *start, const foci_run_folder *folder)
{
    if (start->model) return has_adapter(start->ctx, folder->path);
    return access(folder->model, F_OK) == 0 &&
           (!start->groups || has_adapter(start->ctx, folder->adapter));
}

focal_status foci_write_result(const foci_start *start, const foci_run *run, int64_t step,
                               int64_t tokens, const foci_run_folder *folder)
{
    if (start->model)
        return foci_write_adapter(start, run, step, tokens, start->model, folder->path);
    const foci_save_options options = {.type = start->trainable->model->precision,
                                       .tokenizer = start->tokenizer_path};
    FOCAL_TRY(foci_trainable_save(start->trainable, folder->model, &options));
    return start->groups ? write_beside(start, run, step, tokens, folder) : FOCAL_OK;
}
