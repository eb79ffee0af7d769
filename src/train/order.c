/* Windows in a permuted order. The permutation is a Feistel network over the next power of four,
 * whose values beyond the count are passed through it again until they are within. */
#include "train/order.h"

#include "base/ctx.h"
#include "base/error.h"
#include "base/random.h"
#include "base/sizes.h"

enum {
    ROUNDS = 8,
    LEAST_HALF = 3, /* bits of half a value: with fewer, a network knows few permutations */
    LENGTH_LEAST = 2,
    LENGTH_MOST = 1 << 24
};

/* Streams of random numbers that nothing else draws from: one an epoch. */
#define ORDER_STREAM (UINT64_C(0x6F72646572) << 24) /* "order" */

/* Four rounds would hide the order already; eight are still cheap beside a window's tokens. */
static uint64_t pass(uint64_t seed, uint64_t epoch, int half, uint64_t value)
{
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = value >> half, right = value & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        const foci_random4 r = foci_random_block(seed, ORDER_STREAM + epoch, round << 32 | right);
        const uint64_t mixed = left ^ (r.x[0] & mask);
        left = right;
        right = mixed;
    }
    return left << half | right;
}

int64_t foci_permute(uint64_t seed, uint64_t epoch, int64_t count, int64_t index)
{
    int half = LEAST_HALF;
    while (half < 31 && (INT64_C(1) << 2 * half) < count) half++;
    uint64_t value = (uint64_t)index;
    do value = pass(seed, epoch, half, value);
    while (value >= (uint64_t)count);
    return (int64_t)value;
}

focal_status foci_order_split(focal_ctx *ctx, const foci_tokens *tokens, double share,
                              int64_t *border)
{
    if (!(share >= 0.0 && share <= 0.5))
        return foci_fail(ctx, FOCAL_EINVAL,
                         "order: a validation share of %g, 0 to 0.5 are possible", share);
    const int64_t tail = (int64_t)((double)tokens->count * share);
    const int64_t begin = tokens->count - tail;
    int64_t start = begin, count = 0;
    if (tail > 0)
        FOCAL_TRY(tokens->starts(tokens->user, begin, begin + (tail + 1) / 2, 1, &start, &count));
    *border = count > 0 ? start : begin;
    return FOCAL_OK;
}

focal_status foci_order_check(focal_ctx *ctx, foci_order *order)
{
    if (order->length < LENGTH_LEAST || order->length > LENGTH_MOST)
        return foci_fail(ctx, FOCAL_EINVAL, "order: windows of %d tokens, %d to %d are possible",
                         order->length, LENGTH_LEAST, LENGTH_MOST);
    if (order->begin < 0 || order->end < order->begin || order->end > order->tokens->count)
        return foci_fail(ctx, FOCAL_EINVAL, "order: tokens %lld to %lld of %lld",
                         (long long)order->begin, (long long)order->end,
                         (long long)order->tokens->count);
    const int64_t tokens = order->end - order->begin;
    if (tokens <= order->length)
        return foci_fail(ctx, FOCAL_EINVAL,
                         "order: %lld tokens of text, a sequence of %d (data.length) needs %d: "
                         "take more text, or shorter sequences",
                         (long long)tokens, order->length, order->length + 1);
    order->window_count = (tokens - 1) / order->length;
    return FOCAL_OK;
}

int64_t foci_order_window(const foci_order *order, int64_t sample)
{
    const int64_t epoch = sample / order->window_count, index = sample % order->window_count;
    if (!order->is_shuffled) return index;
    return foci_permute(order->seed, (uint64_t)epoch, order->window_count, index);
}

/* Room for what is read of one window. */
typedef struct window {
    int32_t *ids;    /* (length + 1) */
    int64_t *starts; /* (length) */
} window;

/* Divides the rows first .. first + length - 1 where documents begin. */
static focal_status divide(focal_ctx *ctx, const foci_order *order, int64_t begin, int64_t first,
                           const window *w, foci_windows *rows)
{
    const int32_t length = order->length;
    int64_t count = 0;
    if (!order->crosses_documents)
        FOCAL_TRY(order->tokens->starts(order->tokens->user, begin + 1, begin + length + 1, length,
                                        w->starts, &count));
    int32_t last = 0; /* row of the window at which the sequence at hand begins */
    for (int64_t n = 0; n < count; n++) {
        if (w->starts[n] <= begin + last || w->starts[n] > begin + length)
            return foci_fail(ctx, FOCAL_EFORMAT, "order: documents begin at %lld and then at %lld",
                             (long long)begin + last, (long long)w->starts[n]);
        const int32_t row = (int32_t)(w->starts[n] - begin);
        rows->targets[first + row - 1] = -1;
        if (row == length) break; /* only the last target lies in the next document */
        rows->sequences[rows->sequence_count++] = (foci_sequence){first + last, row - last};
        last = row;
    }
    rows->sequences[rows->sequence_count++] = (foci_sequence){first + last, length - last};
    return FOCAL_OK;
}

focal_status foci_order_read(focal_ctx *ctx, const foci_order *order, int64_t first, int32_t count,
                             foci_windows *rows)
{
    const int32_t length = order->length;
    if (first < 0 || count < 0 || first > INT64_MAX - count)
        return foci_fail(ctx, FOCAL_EINVAL, "order: %d samples from %lld on", count,
                         (long long)first);
    window w = {foci_scratch(ctx, (size_t)length + 1, sizeof *w.ids),
                foci_scratch(ctx, (size_t)length, sizeof *w.starts)};
    focal_status status = w.ids && w.starts ? FOCAL_OK : FOCAL_ENOMEM;
    rows->sequence_count = 0;
    for (int32_t n = 0; n < count && status == FOCAL_OK; n++) {
        const int64_t begin = order->begin + foci_order_window(order, first + n) * length;
        const int64_t row = (int64_t)n * length;
        status = order->tokens->read(order->tokens->user, begin, length + 1, w.ids);
        for (int32_t i = 0; i < length && status == FOCAL_OK; i++) {
            rows->ids[row + i] = w.ids[i];
            rows->targets[row + i] = w.ids[i + 1];
        }
        if (status == FOCAL_OK) status = divide(ctx, order, begin, row, &w, rows);
    }
    foci_scratch_free(ctx, w.ids);
    foci_scratch_free(ctx, w.starts);
    return status;
}
