/* What a run tells of itself: both logs and the caller's callbacks, line by line. */
#ifndef FOCI_TRAIN_JOURNAL_H
#define FOCI_TRAIN_JOURNAL_H

#include "focal/train.h"
#include "model/backward.h"
#include "train/log_jsonl.h"
#include "train/log_tensorboard.h"
#include "train/run_folder.h"

typedef struct foci_journal {
    foci_log *log;
    foci_events *events;
    focal_train_watch watch;
} foci_journal;

/* Opens the logs of a run that goes on behind a step, -1: that begins. */
focal_status foci_journal_open(foci_journal *journal, const foci_run_folder *folder, int64_t step);
void foci_journal_close(foci_journal *journal);
focal_status foci_journal_sync(foci_journal *journal); /* both logs are on the disk */

focal_status foci_journal_step(foci_journal *journal, const focal_train_step *step, double seconds);
focal_status foci_journal_skip(foci_journal *journal, int64_t step, const char *why);
/* The sums of a validation, which has targets; tokens: seen in training by then. */
focal_status foci_journal_validation(foci_journal *journal, int64_t step,
                                     const foci_batch_loss *loss, int64_t tokens);
focal_status foci_journal_sample(foci_journal *journal, int64_t step, const char *text);
void foci_journal_note(const foci_journal *journal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void foci_journal_warn(const foci_journal *journal, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool foci_journal_must_stop(void *journal);

#endif /* FOCI_TRAIN_JOURNAL_H */
