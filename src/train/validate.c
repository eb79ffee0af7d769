/* Validation: the training pass without gradients, so that every kind of temperature can be
 * judged. */
#include "train/validate.h"

#include "base/ctx.h"
#include "base/error.h"
#include "base/sizes.h"

focal_status foci_validation_plan(focal_ctx *ctx, const foci_order *training, int64_t border,
                                  int64_t most, int32_t pass_windows, foci_validation *plan)
{
    *plan = (foci_validation){.order = *training, .pass_windows = pass_windows};
    const int64_t count = training->tokens->count - border;
    if (count < 3) return FOCAL_OK; /* the shortest window, and its last target */
    plan->order.begin = border;
    plan->order.end = training->tokens->count;
    plan->order.length = (int32_t)foci_min64(training->length, count - 1);
    plan->order.is_shuffled = false;
    FOCAL_TRY(foci_order_check(ctx, &plan->order));
    plan->windows = foci_min64(plan->order.window_count, foci_max64(most / plan->order.length, 1));
    return FOCAL_OK;
}

focal_status foci_validate(foci_trainable *trainable, const foci_validation *plan, foci_feed *feed,
                           const foci_backward_options *options, bool (*must_stop)(void *user),
                           void *user, foci_batch_loss *loss, bool *is_stopped)
{
    *loss = (foci_batch_loss){0};
    *is_stopped = false;
    for (int64_t first = 0; first < plan->windows; first += plan->pass_windows) {
        const int32_t count = (int32_t)foci_min64(plan->pass_windows, plan->windows - first);
        foci_batch_loss part;
        *is_stopped = must_stop && must_stop(user);
        if (*is_stopped) return FOCAL_OK;
        FOCAL_TRY(foci_feed_read(feed, &plan->order, first, count));
        const foci_batch batch = foci_feed_pass(feed, &plan->order, 0, count);
        FOCAL_TRY(foci_backward(trainable, &batch, options, &part));
        foci_batch_loss_add(loss, &part);
    }
    return FOCAL_OK;
}
