/* The loss on the tail of the data that training does not see. */
#ifndef FOCI_TRAIN_VALIDATE_H
#define FOCI_TRAIN_VALIDATE_H

#include "train/feed.h"

typedef struct foci_validation {
    foci_order order;     /* in the order of the stream */
    int64_t windows;      /* that are read; 0: there is nothing to validate on */
    int32_t pass_windows; /* at a time */
} foci_validation;

/* Plans for the tokens of the stream from `border` on, of which `most` are read at most but one
 * window always. Where the tail is shorter than a window, windows are as short. */
focal_status foci_validation_plan(focal_ctx *ctx, const foci_order *training, int64_t border,
                                  int64_t most, int32_t pass_windows, foci_validation *plan);

/* The sums of the losses and their number, and of groups, which act as the options say (a loss
 * alone), what there is to count. must_stop (may be NULL) is asked before each pass; true
 * ends the call with *is_stopped. */
focal_status foci_validate(foci_trainable *trainable, const foci_validation *plan, foci_feed *feed,
                           const foci_backward_options *options, bool (*must_stop)(void *user),
                           void *user, foci_batch_loss *loss, bool *is_stopped);

#endif /* FOCI_TRAIN_VALIDATE_H */
