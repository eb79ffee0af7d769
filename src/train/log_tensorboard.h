/* A run's log as TensorBoard reads it: event files of framed, checksummed records. */
#ifndef FOCI_TRAIN_LOG_TENSORBOARD_H
#define FOCI_TRAIN_LOG_TENSORBOARD_H

#include "focal/base.h"

typedef struct foci_events foci_events;

/* Begins a new file in the folder, which must be there, as TensorBoard wants it of every process;
 * it is named so that it comes behind those that are there. `step` is the one that the run goes on
 * behind: what older files say of later steps is then void. -1: the run begins. `now` is the time
 * in seconds since 1970. */
focal_status foci_events_open(focal_ctx *ctx, const char *folder, int64_t step, double now,
                              foci_events **out);
void foci_events_close(foci_events *events); /* NULL is fine */

/* One record, in the system's hands when this returns. A tag is a name such as "loss/train"; it and
 * the text are UTF-8. FOCAL_EIO when it does not fit: the file then ends with the record before. */
focal_status foci_events_scalar(foci_events *events, double now, int64_t step, const char *tag,
                                double value);
focal_status foci_events_text(foci_events *events, double now, int64_t step, const char *tag,
                              const char *text);

const char *foci_events_path(const foci_events *events); /* until close */
focal_status foci_events_sync(foci_events *events);      /* what was put is on the disk */

#endif /* FOCI_TRAIN_LOG_TENSORBOARD_H */
