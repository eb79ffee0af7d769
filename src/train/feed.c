/* The tokens of a step in passes: the number of its targets must be known before the first. */
#include "train/feed.h"

#include <math.h>

#include "base/ctx.h"
#include "base/error.h"
#include "ops/loss/loss.h"

focal_status foci_feed_open(focal_ctx *ctx, int64_t windows, int32_t length, foci_feed *feed)
{
    const size_t rows = (size_t)windows * (size_t)length; /* 2^40 at most */
    *feed = (foci_feed){.ctx = ctx, .window_room = windows};
    feed->rows.ids = foci_alloc(ctx, rows, sizeof *feed->rows.ids);
    feed->rows.targets = foci_alloc(ctx, rows, sizeof *feed->rows.targets);
    feed->rows.sequences = foci_alloc(ctx, rows, sizeof *feed->rows.sequences);
    feed->spans = foci_alloc(ctx, rows, sizeof *feed->spans);
    if (feed->rows.ids && feed->rows.targets && feed->rows.sequences && feed->spans)
        return FOCAL_OK;
    foci_feed_close(feed);
    return FOCAL_ENOMEM;
}

void foci_feed_close(foci_feed *feed)
{
    if (!feed->ctx) return;
    foci_free(feed->ctx, feed->rows.ids);
    foci_free(feed->ctx, feed->rows.targets);
    foci_free(feed->ctx, feed->rows.sequences);
    foci_free(feed->ctx, feed->spans);
    *feed = (foci_feed){0};
}

focal_status foci_feed_read(foci_feed *feed, const foci_order *order, int64_t first, int32_t count)
{
    feed->target_count = 0;
    feed->next = 0;
    if (count > feed->window_room)
        return foci_fail(feed->ctx, FOCAL_EINVAL, "feed: %d windows, there is room for %lld", count,
                         (long long)feed->window_room);
    FOCAL_TRY(foci_order_read(feed->ctx, order, first, count, &feed->rows));
    const int64_t rows = (int64_t)count * order->length;
    for (int64_t n = 0; n < rows; n++)
        feed->target_count += feed->rows.targets[n] != FOCI_LOSS_NO_TARGET;
    return FOCAL_OK;
}

foci_batch foci_feed_pass(foci_feed *feed, const foci_order *order, int32_t first, int32_t count)
{
    const int64_t begin = (int64_t)first * order->length;
    const int64_t end = begin + (int64_t)count * order->length;
    int32_t spans = 0;
    for (; feed->next < feed->rows.sequence_count; feed->next++) {
        const foci_sequence *sequence = &feed->rows.sequences[feed->next];
        if (sequence->start >= end) break;
        feed->spans[spans++] = (foci_span){(int32_t)(sequence->start - begin), sequence->count};
    }
    return (foci_batch){.T = (int32_t)(end - begin),
                        .ids = feed->rows.ids + begin,
                        .targets = feed->rows.targets + begin,
                        .span_count = spans,
                        .spans = feed->spans};
}

void foci_batch_loss_add(foci_batch_loss *sum, const foci_batch_loss *part)
{
    const double before = (double)sum->targets, now = (double)part->targets;
    if (now > 0.0)
        sum->mean_largest_load =
            (before * sum->mean_largest_load + now * part->mean_largest_load) / (before + now);
    sum->nll += part->nll;
    sum->targets += part->targets;
    sum->kl += part->kl;
    sum->kl_rows += part->kl_rows;
    sum->distant_pairs += part->distant_pairs;
    sum->kept_pairs += part->kept_pairs;
    sum->largest_load = fmax(sum->largest_load, part->largest_load);
}
