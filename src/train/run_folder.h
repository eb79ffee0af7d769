/* The folder of a run (docs/FORMATS.md): made, locked against a second process, compared with the
 * settings, and given its result. */
#ifndef FOCI_TRAIN_RUN_FOLDER_H
#define FOCI_TRAIN_RUN_FOLDER_H

#include "focal/train.h"
#include "train/run_file.h"

typedef struct foci_run_folder {
    focal_ctx *ctx;
    char *path, *run_conf, *log, *events, *checkpoints, *model, *adapter, *adapter_config, *summary;
    int lock; /* file descriptor; below 0: none */
} foci_run_folder;

/* Makes what is missing of the folder and takes its lock. FOCAL_EIO, or FOCAL_EINVAL when another
 * process has it or it holds results without a run.conf; *folder is then closed. */
focal_status foci_run_folder_open(focal_ctx *ctx, const char *path, foci_run_folder *folder);
void foci_run_folder_close(foci_run_folder *folder); /* an empty one is fine */

/* Compares the settings with those of the run that is there, where that has taken a step:
 * FOCAL_EINVAL with the first key that differs. Keys that change what is kept, shown or done about
 * spikes, and the path of the shards, may differ. *is_changed: run.conf does not say these settings
 * yet; it is written once nothing else can refuse them. */
focal_status foci_run_folder_compare(const foci_run_folder *folder, const foci_run *run,
                                     bool *is_changed);

/* What summary.json says. */
typedef struct foci_run_summary {
    const char *state; /* "finished", "stopped", "spiked" */
    focal_train_result result;
    double tokens_per_second;
} foci_run_summary;
focal_status foci_run_folder_summarise(const foci_run_folder *folder,
                                       const foci_run_summary *summary);
/* Whether summary.json is there; and removes it. */
bool foci_run_folder_has_summary(const foci_run_folder *folder);
void foci_run_folder_forget(const foci_run_folder *folder);

#endif /* FOCI_TRAIN_RUN_FOLDER_H */
