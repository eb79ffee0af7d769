/* The tokens of a step, read once and handed out in passes. */
#ifndef FOCI_TRAIN_FEED_H
#define FOCI_TRAIN_FEED_H

#include "model/backward.h"
#include "train/order.h"

typedef struct foci_feed {
    focal_ctx *ctx;
    foci_windows rows;    /* of all windows that were read */
    foci_span *spans;     /* of the pass at hand */
    int64_t window_room;  /* windows that fit */
    int64_t target_count; /* of what was read */
    int64_t next;         /* sequence that the next pass begins with */
} foci_feed;

/* Room for `windows` of `length` tokens. FOCAL_ENOMEM: *feed is empty. */
focal_status foci_feed_open(focal_ctx *ctx, int64_t windows, int32_t length, foci_feed *feed);
void foci_feed_close(foci_feed *feed); /* an empty one is fine */

/* Samples first .. first + count - 1 of the order, whose windows are no longer than those of the
 * room. */
focal_status foci_feed_read(foci_feed *feed, const foci_order *order, int64_t first, int32_t count);

/* The windows `first` .. first + count - 1 of what was read, as a batch that is valid until the
 * next call. Passes come in order, from window 0 on. */
foci_batch foci_feed_pass(foci_feed *feed, const foci_order *order, int32_t first, int32_t count);

/* Adds the losses of a pass to those of the passes before: sums, and the largest of the largest
 * loads; their mean becomes that over the passes' targets. */
void foci_batch_loss_add(foci_batch_loss *sum, const foci_batch_loss *part);

#endif /* FOCI_TRAIN_FEED_H */
